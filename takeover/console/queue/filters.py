"""The filters of the queue: each is one word of its address, optional, and combines with every other."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Any

from django.contrib.auth.models import User
from django.core.cache import cache
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import get_language
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as lazy

from runs.domain.errors import ErrorClass
from runs.domain.states import StopReason
from runs.models import Run
from runs.workflows import registry
from takeover.console import desk, words
from takeover.console.queue import writes

ME, NOBODY = "me", "nobody"
OFFERED_FOR = 30  # seconds after which is looked again for what occurs: new words in a menu, and no case is missed
AGE = {
    "1h": (timedelta(hours=1), lazy("more than an hour")),
    "4h": (timedelta(hours=4), lazy("more than 4 hours")),
    "1d": (timedelta(days=1), lazy("more than a day")),
    "7d": (timedelta(days=7), lazy("more than 7 days")),
}
RISK = {
    "unknown": (Q(effects_at_risk__gt=0), lazy("a write of unknown outcome")),
    "none": (Q(effects_at_risk=0), lazy("nothing at risk")),
}


@dataclass(frozen=True)
class Filter:
    """One of them: which values it knows, what each selects and is called."""

    name: str  # in an address
    label: Any
    knows: Callable[[str], bool]
    rule: Callable[[str, User], Q]
    word: Callable[[str], str]

    def fault(self, value: str) -> str:
        """Why `value` cannot be filtered by; empty where it can."""
        if not value or self.knows(value):
            return ""
        return _("%(filter)s: there is no “%(value)s”. This filter was left out; choose one from the list.") % {
            "filter": self.label,
            "value": words.visible(value[:60]),
        }


def _held_by(value: str, person: User) -> Q:
    held = Q(held_until__gt=Now())
    if value == NOBODY:
        return Q(holder=None) | ~held | Q(held_until=None)
    return held & Q(holder=person.pk if value == ME else int(value))


def _who(value: str) -> str:
    return {ME: _("me"), NOBODY: _("nobody")}.get(value) or _("person %s") % value


FILTERS = {
    one.name: one
    for one in (
        Filter(
            "workflow",
            lazy("Workflow"),
            lambda value: bool(re.fullmatch(r"\w{1,60}", value, re.ASCII)),
            lambda value, _person: Q(workflow=value),
            words.workflow,
        ),
        Filter(
            "reason",
            lazy("Stopped because"),
            lambda value: value in set(StopReason),
            lambda value, _person: Q(stop_reason=value),
            lambda value: words.word(value, words.REASON),
        ),
        Filter(
            "error",
            lazy("Error"),
            lambda value: value in set(ErrorClass),
            lambda value, _person: Q(error_class=value),
            lambda value: words.word(value, words.ERROR),
        ),
        Filter(
            "effect",
            lazy("Writes"),
            lambda value: value == writes.NONE or value in writes.GROUPS,
            lambda value, _person: writes.having(value),
            writes.word,
        ),
        Filter(
            "who",
            lazy("Held by"),
            lambda value: bool(re.fullmatch(r"me|nobody|[1-9][0-9]{0,8}", value, re.ASCII)),
            _held_by,
            _who,
        ),
        Filter(
            "age",
            lazy("Stopped for"),
            lambda value: value in AGE,
            lambda value, _person: Q(stopped_at__lte=Now() - AGE[value][0]),
            lambda value: str(AGE[value][1]),
        ),
        Filter(
            "risk",
            lazy("At risk"),
            lambda value: value in RISK,
            lambda value, _person: RISK[value][0],
            lambda value: str(RISK[value][1]),
        ),
    )
}


@dataclass(frozen=True)
class Choice:
    value: str
    word: str
    is_set: bool


@dataclass(frozen=True)
class Field:
    """A filter with what can be chosen of it now: what occurs, and what is set."""

    filter: Filter
    choices: list[Choice]

    @property
    def chosen(self) -> str:
        return next((choice.word for choice in self.choices if choice.is_set), "")


def fields(chosen: dict[str, str], among_the_closed: bool) -> list[Field]:
    """Every filter with its choices. What occurs is read off the open runs, now and then; of the closed ones, which may
    be a million, everything is offered that there is."""
    offered: dict[str, Iterable[str]] = {"effect": [*writes.GROUPS, writes.NONE], "age": AGE, "risk": RISK}
    if among_the_closed:
        offered |= {"workflow": registry.workflows(), "reason": set(StopReason), "error": set(ErrorClass)}
        people: dict[str, str] = {}
    else:
        offered |= cache.get_or_set("queue-occurring", _occurring, OFFERED_FOR) or {}
        people = cache.get_or_set("queue-holders", _holders, OFFERED_FOR) or {}
        if (number := chosen.get("who", "")).isdecimal() and number not in people:
            people |= {str(one.pk): desk.name_of(one) for one in User.objects.filter(pk=number)}
        offered["who"] = [ME, NOBODY, *people]
    return [_field(one, chosen.get(name, ""), offered.get(name, ()), people) for name, one in FILTERS.items()]


def _field(one: Filter, chosen: str, offered: Iterable[str], people: dict[str, str]) -> Field:
    values = {*offered, chosen} - {""}
    language = get_language()
    spelled = {value: people.get(value) or _spelled(one.name, value, language) for value in values if one.knows(value)}
    # What is a row of steps or of groups keeps its order; codes and names stand by their words.
    in_order = [*offered, chosen] if one.name in {"effect", "who", "age", "risk"} else sorted(spelled, key=spelled.get)  # type: ignore[arg-type]
    listed = list(dict.fromkeys(value for value in in_order if value in spelled))
    return Field(one, [Choice(value, spelled[value], value == chosen) for value in listed])


@lru_cache(maxsize=4096)  # each list offers the same words, and to translate them takes longer than to find them
def _spelled(name: str, value: str, _language: str | None) -> str:
    return FILTERS[name].word(value)


def _occurring() -> dict[str, set[str]]:
    found = Run.objects.unfinished().order_by().values_list("workflow", "stop_reason", "error_class").distinct()
    workflows, reasons, errors = map(set, zip(*found, strict=True)) if found else (set(), set(), set())
    return {"workflow": workflows, "reason": reasons, "error": errors}


def _holders() -> dict[str, str]:
    """Who has a case now, by number."""
    found = User.objects.filter(held_runs__held_until__gt=Now()).distinct().order_by("username")
    return {str(person.pk): desk.name_of(person) for person in found}
