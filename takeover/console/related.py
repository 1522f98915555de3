"""Runs that have to do with one: what it came out of, what came out of it, and what else was done for its subject."""

from dataclasses import dataclass
from typing import Any

from django.db.models import Q
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as lazy

from runs import case as cases
from runs.domain.states import StopReason
from runs.models import Run

MOST = 10
SHOWN = ("workflow", "subject", "input", "state", "outcome", "follows_id", "created_at")
FOLLOWS, FOLLOWED_BY, SAME_SUBJECT = lazy("Follows"), lazy("Followed by"), lazy("Same subject")


@dataclass(frozen=True)
class RelatedRun:
    run: Run
    title: str
    how: Promise


def related(run: Run) -> list[RelatedRun]:
    """The latest first, in one query by index. Where the subject is withheld, only runs that are tied to this one."""
    tied = Q(follows=run) | Q(pk=run.follows_id)
    wanted = tied if run.stop_reason == StopReason.NOT_AUTHORISED else tied | Q(subject=run.subject)
    found = Run.objects.filter(wanted).exclude(pk=run.pk).only(*SHOWN).order_by("-created_at")[:MOST]
    return [RelatedRun(other, cases.title(other), _how(run, other)) for other in found]


def _how(run: Run, other: Run) -> Any:
    if other.pk == run.follows_id:
        return FOLLOWS
    return FOLLOWED_BY if other.follows_id == run.pk else SAME_SUBJECT
