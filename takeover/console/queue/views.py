"""Saving, renaming and deleting views of the queue: one's own, never somebody else's."""

from django.contrib import messages
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from runs.domain.interventions import Permission
from takeover.console import desk, words
from takeover.console.models import NAME_AT_MOST, SavedView
from takeover.console.queue.place import Place
from takeover.console.queue.saved import MOST
from takeover.console.queue.screen import as_page


@require_POST
def save(request: HttpRequest) -> HttpResponse:
    person = desk.visitor(request)
    place = Place.kept(request.POST.get("query", ""))
    name, shared = request.POST.get("name", "").strip(), request.POST.get("shared") == "yes"
    fault = _unfit(name)
    if not fault and shared and not desk.may(person, Permission.OPERATE):
        fault = _("Shared with everyone: that is for people who work on the queue. Save it for yourself.")
    if not fault and person.saved_views.count() >= MOST:
        fault = _("You have %d saved views, and that is as many as fit. Delete one first.") % MOST
    if not fault and not _written(SavedView(owner=person, name=name, query=place.query(), shared=shared)):
        fault = _taken(name)
    if fault:
        return _with_fault(request, place, person, fault, name=name, shared=shared)
    messages.success(request, _("The view is saved. It stands under Views."))
    return redirect(place.address())


@require_POST
def rename(request: HttpRequest, view_id: int) -> HttpResponse:
    person = desk.visitor(request)
    view, place = _own(person, view_id), Place.kept(request.POST.get("query", ""))
    view.name = request.POST.get("name", "").strip()
    if fault := _unfit(view.name) or ("" if _written(view) else _taken(view.name)):
        return _with_fault(request, place, person, fault, renamed=view.pk, name=view.name)
    messages.success(request, _("The view is renamed."))
    return redirect(place.address())


@require_POST
def delete(request: HttpRequest, view_id: int) -> HttpResponse:
    person = desk.visitor(request)
    _own(person, view_id).delete()
    messages.success(request, _("The view is deleted. What it showed is where it was."))
    return redirect(Place.kept(request.POST.get("query", "")).address())


def _own(person: User, view_id: int) -> SavedView:
    view = person.saved_views.filter(pk=view_id).first()
    if view is None:
        raise Http404(_("You have no such saved view; what others share is theirs to change."))
    return view


def _written(view: SavedView) -> bool:
    """False where the person has a view of that name already."""
    try:
        with transaction.atomic():
            view.save()
    except IntegrityError:
        return False
    return True


def _unfit(name: str) -> str:
    if not name:
        return _("Name: give the view a name that you will know it by.")
    if len(name) > NAME_AT_MOST or "\x00" in name:
        return _("Name: use at most %d characters, and none that is invisible.") % NAME_AT_MOST
    return ""


def _taken(name: str) -> str:
    return _("Name: you have a view called “%s” already. Choose another name.") % words.visible(name)


def _with_fault(
    request: HttpRequest, place: Place, person: User, fault: str, *, renamed: int = 0, name: str, shared: bool = False
) -> HttpResponse:
    """The page again, the form open with what was typed and why it was not taken."""
    typed = {"fault": fault, "renamed": renamed, "name": name, "shared": shared}
    return as_page(request, place, person, status=422, typed=typed)
