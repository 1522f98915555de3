"""What somebody typed into a form that could not be taken: their session had ended, or the page's token had grown old.

Until they are signed in it travels in the sign-in page itself, signed; then it lies in their session, for its form to
show again. Nothing of it is carried out: that takes another press of the button, by then with the case in view.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.core import signing
from django.core.exceptions import BadRequest, SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse, UnreadablePostError
from django.http.multipartparser import MultiPartParserError
from django.shortcuts import render
from django.urls import Resolver404, ResolverMatch, resolve, reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

SALT, NAME = "takeover.kept", "kept"  # of the signature; in the session, and in the sign-in form
LASTS = timedelta(hours=1)
MOST = 60_000  # characters
NOT_TYPED = {"csrfmiddlewaretoken"}
NEVER = {"sign-in", "sign-out", "language"}  # addresses whose forms hold a secret, or nothing
BY = "typed_by"  # for whom a form was shown, where somebody writes in it
CARRIED = {"back", "seen", "answers", "shown", "plan", BY}  # what a form says of itself


@dataclass(frozen=True)
class Kept:
    path: str
    fields: Mapping[str, list[str]]

    def first(self, name: str) -> str:
        return (self.fields.get(name) or [""])[0]

    def is_of(self, person: User) -> bool:
        """False where somebody else wrote it, who had this browser before."""
        return self.first(BY) in {"", str(person.pk)}

    @property
    def address(self) -> str:
        """Where it is shown again: at its own form, where that is a page."""
        match = _match(self.path)
        if match and match.url_name in {"event", "event-form"}:
            return reverse("event", kwargs=match.kwargs)
        return reverse("kept")

    @property
    def typed(self) -> dict[str, str]:
        return {name: values[0] for name, values in self.fields.items() if name not in CARRIED and values}

    @property
    def carried(self) -> list[tuple[str, str]]:
        return [(name, value) for name in CARRIED for value in self.fields.get(name, ())]


def of(request: HttpRequest) -> Kept | None:
    """What the request's form holds, if one of our own pages sent it."""
    match = _match(request.path)
    if request.method != "POST" or not _is_ours(request) or match is None or match.url_name in NEVER:
        return None
    try:
        fields = {name: list(map(str, given)) for name, given in request.POST.lists() if name not in NOT_TYPED}
    except (BadRequest, SuspiciousOperation, MultiPartParserError, UnreadablePostError):  # refused for that
        return None
    size = sum(len(text) for given in fields.values() for text in given)
    return Kept(request.path, fields) if size < MOST else None


def _is_ours(request: HttpRequest) -> bool:
    """Whether a page of this site sent it: what another one wrote is not put before anybody as if they had."""
    return request.headers.get("Origin") == f"{request.scheme}://{request.get_host()}"


def _match(path: str) -> ResolverMatch | None:
    try:
        return resolve(path)
    except Resolver404:
        return None


def sealed(kept: Kept | None) -> str:
    return signing.dumps(asdict(kept), salt=SALT, compress=True) if kept else ""


def unsealed(text: str) -> Kept | None:
    try:
        return Kept(**signing.loads(text, salt=SALT, max_age=LASTS))
    except (signing.BadSignature, TypeError, ValueError):
        return None


def put_away(request: HttpRequest, kept: Kept) -> None:
    request.session[NAME] = asdict(kept)


def look(request: HttpRequest, address: str) -> Kept | None:
    """What this person typed into the form at `address` and could not send."""
    stored: dict[str, Any] | None = request.session.get(NAME)
    kept = Kept(**stored) if stored else None
    return kept if kept and kept.address == address else None


def forget(request: HttpRequest) -> None:
    request.session.pop(NAME, None)


@require_safe
@never_cache
def show(request: HttpRequest) -> HttpResponse:
    """A form that has no page of its own, with what was typed, to be sent again."""
    kept = look(request, reverse("kept"))
    if kept is None:
        raise Http404(_("Nothing that you typed is kept here."))
    return render(request, "kept.html", {"kept": kept})
