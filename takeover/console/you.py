"""What the console knows of the person in front of it: who they are to it, in which language and zone it speaks.

What they choose is a row of theirs. Their browser carries it in two cookies, so that error pages and the page on which
they sign in again obey it too, and no page asks the database for it.
"""

from typing import Any
from zoneinfo import available_timezones

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import translation
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from runs.domain.interventions import ROLES
from takeover.console import desk, words, zone
from takeover.console.models import Preferences

LANGUAGES = dict(settings.LANGUAGES)
ZONES = sorted(
    name for name in available_timezones() if "/" in name and not name.startswith(("Etc/", "posix", "right"))
)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def you(request: HttpRequest) -> HttpResponse:
    person = desk.person(request)
    chosen, errors = Preferences.objects.filter(person=person).first() or Preferences(person=person), {}
    if request.method == "POST":
        chosen.language, chosen.zone = request.POST.get("language", ""), request.POST.get("zone", "")
        errors = _errors(chosen)
        if not errors:
            chosen.save()
            answer = redirect("you")
            carry(answer, chosen)
            with translation.override(chosen.language or translation.get_language_from_request(request)):
                messages.success(request, _("Saved."))
            return answer
    return render(request, "you.html", _context(person, chosen, errors), status=422 if errors else 200)


def _errors(chosen: Preferences) -> dict[str, str]:
    errors = {}
    if chosen.language and chosen.language not in LANGUAGES:
        errors["language"] = _("There is no such language here. Choose one of the list.")
    if chosen.zone and chosen.zone not in ZONES:
        errors["zone"] = _("There is no such time zone. Choose one of the list.")
    return errors


def _context(person: User, chosen: Preferences, errors: dict[str, str]) -> dict[str, Any]:
    names = sorted(group.name for group in person.groups.all())
    return {
        "person": person,
        "roles": [(words.role(name), _(ROLES[name][0]) if name in ROLES else "") for name in names],
        "chosen": chosen,
        "errors": errors,
        "languages": LANGUAGES.items(),
        "zones": ZONES,
    }


def carry(answer: HttpResponseBase, chosen: Preferences) -> None:
    """Let the browser carry what a person chose, and nothing of what it carried before."""
    for name, value in ((settings.LANGUAGE_COOKIE_NAME, chosen.language), (zone.CHOSEN, chosen.zone)):
        if not value:
            answer.delete_cookie(name, samesite="Lax")
            continue
        answer.set_cookie(
            name,
            value,
            max_age=settings.LANGUAGE_COOKIE_AGE,
            samesite="Lax",
            secure=settings.LANGUAGE_COOKIE_SECURE,
            httponly=True,
        )
