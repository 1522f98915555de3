"""Saved views: parts of the queue with their filters, under a name, one's own or shared with everyone."""

from dataclasses import dataclass

from django.contrib.auth.models import User

from takeover.console import desk
from takeover.console.models import SavedView
from takeover.console.queue.place import Place

MOST = 50  # of one person's own


@dataclass(frozen=True)
class View:
    saved: SavedView
    address: str
    owner: str  # empty: whoever looks
    is_here: bool


def shown(person: User, place: Place) -> list[View]:
    """What this person may open, in one query."""
    found = []
    for saved in SavedView.objects.seen_by(person.pk)[: 2 * MOST]:
        there = Place.kept(saved.query)
        owner = "" if saved.owner_id == person.pk else desk.name_of(saved.owner)
        found.append(View(saved, there.address(), owner, there.query() == place.query()))
    return found
