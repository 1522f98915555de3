"""What every screen asks first: may this person be here, which run is it about, and what lies on the desk."""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, wraps
from typing import Any, Concatenate, ParamSpec

from django.contrib.auth.models import AnonymousUser, User
from django.core.cache import cache
from django.core.exceptions import PermissionDenied
from django.db import connection
from django.db.models import Count, IntegerField, Prefetch, Q, QuerySet, Subquery
from django.db.models.functions import Now
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.encoding import iri_to_uri
from django.utils.functional import SimpleLazyObject, lazystr
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as lazy

from runs.domain.interventions import Permission
from runs.domain.states import SHORT, Outcome, State
from runs.interventions import claims
from runs.interventions.refusals import Refused
from runs.models import Effect, Run
from runs.models.run import FINAL_STATES
from takeover.console import words

P = ParamSpec("P")
OPEN = ~Q(state__in=FINAL_STATES)
APPROVAL = Q(state=State.AWAITING_APPROVAL)
NOT_PUT_UP = OPEN & ~APPROVAL  # spelt as the index of these parts spells it
BY_ITSELF = NOT_PUT_UP & ~Q(outcome__in=SHORT)
COUNTED_UP_TO = 1000
SOMEBODY = -1  # stands in a statement for whoever asks
IN_THE_FRAME = ("open", "approval")  # what is counted around every screen


@dataclass(frozen=True)
class Tab:
    """One pile on the desk. Piles by outcome do not overlap; with what runs by itself they make up all that is open."""

    name: str
    label: Any
    rule: Q
    outcome: str = ""  # what "take next" takes from here; empty: whatever is most urgent
    empty: Any = ""
    orders: tuple[str, ...] = ("urgency", "age", "newest", "value")  # what it can be sorted by; first, how it is anyway


TABS = {
    tab.name: tab
    for tab in (
        Tab(
            "human",
            lazy("Needs a person"),
            NOT_PUT_UP & Q(outcome=Outcome.NEEDS_HUMAN),
            Outcome.NEEDS_HUMAN,
            lazy("No run needs a person."),
        ),
        Tab(
            "waiting",
            lazy("Waiting"),
            NOT_PUT_UP & Q(outcome=Outcome.WAITING),
            Outcome.WAITING,
            lazy("No run waits for an outside answer."),
        ),
        Tab(
            "limit",
            lazy("Limit reached"),
            NOT_PUT_UP & Q(outcome=Outcome.LIMIT_REACHED),
            Outcome.LIMIT_REACHED,
            lazy("No run has used up a budget."),
        ),
        Tab("approval", lazy("Awaiting approval"), APPROVAL, "", lazy("No write waits for a decision.")),
        Tab("mine", lazy("Mine"), OPEN, "", lazy("You have no case. Take the next one.")),
        Tab("open", lazy("All open"), OPEN, "", lazy("Every run has ended.")),
        Tab(
            "closed",
            lazy("Closed"),
            ~OPEN & Q(stopped_at__isnull=False),
            "",
            lazy("No run has ended yet."),
            ("newest", "age"),
        ),
    )
}
WORKED_OFF = tuple(tab for tab in TABS if tab != "closed")


def pile(tab: str, person: User) -> Q:
    if tab == "mine":
        return OPEN & Q(holder=person, held_until__gt=Now())
    return TABS[tab].rule


def may(person: User | AnonymousUser, permission: Permission) -> bool:
    return person.has_perm(f"runs.{permission.value}")


def may_look(person: User | AnonymousUser) -> bool:
    return may(person, Permission.OPERATE) or may(person, Permission.AUDIT)


def visitor(request: HttpRequest) -> User:
    """The signed-in person, if they may see runs at all."""
    person = request.user
    if not isinstance(person, User) or not may_look(person):
        raise PermissionDenied(_no_role())
    return person


def _no_role() -> str:
    return _("Runs are seen by people who work on the queue or audit it. Your account has neither role.")


def person(request: HttpRequest) -> User:
    """The signed-in person, for views that only hand on what they want: the rules decide, and record a refusal."""
    if not isinstance(request.user, User):
        raise PermissionDenied(_("Sign in first."))
    return request.user


def case_for(request: HttpRequest, run_id: uuid.UUID) -> tuple[User, Run]:
    """The person and the run, or 403 and 404: the first line of every view about one run."""
    person = visitor(request)
    effects = Prefetch("effects", Effect.objects.select_related("approved_by"))
    runs = Run.objects.select_related("holder", "requester").prefetch_related(effects)
    try:
        return person, runs.get(pk=run_id)
    except Run.DoesNotExist:
        raise Http404(_("There is no run with this number.")) from None


@lru_cache(maxsize=4096)  # it never changes, and a list of cases has many
def address_of(run_id: uuid.UUID) -> str:
    return reverse("case", args=[run_id])


def stands_as(run: Run) -> str:
    """Its outcome; what people closed with a write unknown keeps the outcome of its last stop, and needs nobody."""
    return "UNRESOLVED" if run.is_final and run.outcome in SHORT else run.outcome


def name_of(person: User | None) -> str:
    """A person's full name; where somebody else has the same, with the name that they sign in by."""
    if not person:
        return ""
    name, full = person.get_username(), person.get_full_name()
    return words.visible(f"{full} ({name})" if full in _shared_names() else full or name)


def _shared_names() -> frozenset[str]:
    return cache.get_or_set("shared-names", _find_shared_names, 60) or frozenset()


def _find_shared_names() -> frozenset[str]:
    names = User.objects.values_list("first_name", "last_name").annotate(people=Count("pk")).filter(people__gt=1)
    return frozenset(full for first, last, _ in names if (full := f"{first} {last}".strip()))


def colleagues() -> list[tuple[int, str]]:
    """Who may be given a case, by number and name."""
    return cache.get_or_set("colleagues", _find_colleagues, 60) or []


def _find_colleagues() -> list[tuple[int, str]]:
    cache.set("shared-names", _find_shared_names(), 60)  # two in one list are never called the same
    return [(one.pk, name_of(one)) for one in claims.operators()]


def role_of(person: User) -> str:
    """Their roles in words. Whoever is signed in has them at hand."""
    names = getattr(person, "roles", None)
    if names is None:
        names = [group.name for group in person.groups.all()]
    return ", ".join(sorted(map(words.role, names)))


class UpTo(Subquery):
    """How many rows a query finds; it stops looking at the limit that the query has."""

    template = "(SELECT count(*) FROM (%(subquery)s) AS found)"
    output_field = IntegerField()
    empty_result_set_value = 0  # where Django sees that nothing can be found, it does not ask


def counted(piles: Mapping[str, QuerySet[Run]], person: User, most: int) -> dict[str, int]:
    """How many runs each of these finds, in one query; one more than `most` means more than that."""
    return dict(zip(piles, _how_many(piles, most).get(pk=person.pk), strict=True))


def _how_many(piles: Mapping[str, QuerySet[Run]], most: int) -> QuerySet[User, tuple[int, ...]]:
    """For each person, how many runs each of these finds."""
    found = (UpTo(runs.order_by().values("pk")[: most + 1]) for runs in piles.values())
    return User.objects.values_list(*found)


def counts(person: User, tabs: tuple[str, ...] = WORKED_OFF) -> dict[str, int]:
    """How many runs lie in each of these piles."""
    statement, parameters = _statement(tabs)
    with connection.cursor() as cursor:
        cursor.execute(statement, [person.pk if value == SOMEBODY else value for value in parameters])
        return dict(zip(tabs, cursor.fetchone(), strict=True))


@lru_cache
def _statement(tabs: tuple[str, ...]) -> tuple[str, tuple[Any, ...]]:
    """What counts these piles for somebody. Every page asks it, and to spell it takes longer than to answer it."""
    piles = {tab: Run.objects.filter(pile(tab, User(pk=SOMEBODY))) for tab in tabs}
    return _how_many(piles, COUNTED_UP_TO).filter(pk=SOMEBODY).query.sql_with_params()


def on_every_page(request: HttpRequest) -> dict[str, Any]:
    """Context of the frame around every screen. Lazy: a page without the frame asks nothing."""
    person = getattr(request, "user", None)
    if not isinstance(person, User):
        return {}
    return {
        "desk": SimpleLazyObject(lambda: counts(person, IN_THE_FRAME)),
        "my_name": name_of(person),
        "my_role": lazystr(SimpleLazyObject(lambda: role_of(person))),
        "looks": may_look(person),
        "operates": may(person, Permission.OPERATE),
        "audits": may(person, Permission.AUDIT),
    }


def back(request: HttpRequest, run_id: uuid.UUID | None = None) -> str:
    """Where the form was, if it says so and that is here; or else the case, or the queue."""
    here = request.POST.get("back") or request.GET.get("back", "")
    ours = url_has_allowed_host_and_scheme(here, {request.get_host()}, require_https=request.is_secure())
    if ours and here.startswith("/"):
        return iri_to_uri(here)  # it goes into headers
    return address_of(run_id) if run_id else reverse("queue")


def refused(request: HttpRequest, no: Refused, run_id: uuid.UUID | None = None) -> HttpResponse:
    """A refusal by the rules as a page: what was refused, why, and where to go from here.

    Who may not see runs is told the same whatever the reason: it would tell them which runs there are, and how they
    stand.
    """
    if not may_look(request.user):
        no, run_id = Refused("forbidden", _no_role(), status=403), None
    run = Run.objects.select_related("holder").filter(pk=run_id).first() if run_id else None
    return render(request, "refused.html", {"refused": no, "run": run}, status=no.status)


def refusals_as_pages(
    view: Callable[Concatenate[HttpRequest, P], HttpResponse],
) -> Callable[Concatenate[HttpRequest, P], HttpResponse]:
    """A refusal anywhere in the view becomes a page with its status."""

    @wraps(view)
    def doorway(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        try:
            return view(request, *args, **kwargs)
        except Refused as no:
            run_id = kwargs.get("run_id")
            return refused(request, no, run_id if isinstance(run_id, uuid.UUID) else None)

    return doorway  # type: ignore[return-value]  # mypy tells the two first arguments apart by name
