"""What may have happened outside: the states of a run's writes in a few words, the worst first."""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Exists, OuterRef, Q
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as lazy
from django.utils.translation import ngettext_lazy

from runs.domain.effects import EffectState
from runs.models import Effect, Run

NONE = "none"


@dataclass(frozen=True)
class Group:
    """States that come to the same for whoever decides what to do next."""

    name: str  # in an address
    label: Any
    counted: Any  # "2 writes unknown"
    mark: str
    states: tuple[EffectState, ...]


GROUPS = {
    group.name: group
    for group in (
        Group(
            "unknown",
            lazy("unknown"),
            ngettext_lazy("%d write unknown", "%d writes unknown"),
            "unknown",
            (EffectState.UNKNOWN, EffectState.SENT),
        ),
        Group(
            "pending",
            lazy("pending"),
            ngettext_lazy("%d write pending", "%d writes pending"),
            "pending",
            (EffectState.ACKNOWLEDGED,),
        ),
        Group("refused", lazy("refused"), ngettext_lazy("%d refused", "%d refused"), "unmet", (EffectState.REJECTED,)),
        Group(
            "confirmed",
            lazy("confirmed"),
            ngettext_lazy("%d confirmed", "%d confirmed"),
            "met",
            (EffectState.CONFIRMED,),
        ),
        Group("undone", lazy("undone"), ngettext_lazy("%d undone", "%d undone"), "none", (EffectState.COMPENSATED,)),
        Group(
            "absent",
            lazy("never arrived"),
            ngettext_lazy("%d never arrived", "%d never arrived"),
            "none",
            (EffectState.ABSENT,),
        ),
        Group(
            "proposed",
            lazy("proposed"),
            ngettext_lazy("%d proposed", "%d proposed"),
            "none",
            (EffectState.PLANNED, EffectState.APPROVED),
        ),
    )
}
# What undid another write shows in that one.
COUNTED = ~(Q(state=EffectState.CONFIRMED) & ~Q(undoes=""))


def having(name: str) -> Q:
    """The runs with a write in this group, or with none at all."""
    theirs = Effect.objects.filter(COUNTED, run=OuterRef("pk")).order_by()
    if name == NONE:
        return Q(~Exists(theirs))
    return Q(Exists(theirs.filter(state__in=GROUPS[name].states)))


def word(name: str) -> str:
    return _("none sent") if name == NONE else str(GROUPS[name].label)


def of(runs: Iterable[Run]) -> dict[uuid.UUID, tuple[str, str]]:
    """Of each run the writes in words, and their mark. In one query."""
    counted: dict[uuid.UUID, dict[str, int]] = {run.pk: {} for run in runs}
    found = Effect.objects.filter(COUNTED, run__in=list(counted)).order_by()
    for run_id, state, number in found.values_list("run", "state").annotate(n=Count("pk")):
        counted[run_id][state] = number
    return {run_id: _worst(states) for run_id, states in counted.items()}


def _worst(states: dict[str, int]) -> tuple[str, str]:
    for group in GROUPS.values():
        if number := sum(states.get(state, 0) for state in group.states):
            return group.counted % number, group.mark
    return _("none sent"), "none"
