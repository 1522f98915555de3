"""People who send whatever they are offered, for the tests in which anything may happen."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from runs.domain.interventions import EventKind
from runs.domain.states import Move
from runs.interventions import sending
from runs.interventions.possible import possible_events, proposal
from runs.interventions.refusals import Refused
from runs.models import Run
from tests.people import person

PEOPLE = ["supervisor", "supervisor", "bob", "support"]


def anything(examples: int) -> settings:
    """So many examples, the same ones each time."""
    return settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],  # what was found is short enough to be read as it is
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )


def somebody_acts(run: Run, draw: Any, often: Mapping[Move, int], known: Mapping[str, SearchStrategy[Any]]) -> None:
    """One of the events that somebody is offered, some more `often` than others; a proposal is confirmed by its number.

    `known` draws the fields of payloads that are more than words.
    """
    who = person(draw(st.sampled_from(PEOPLE), "who"))
    offered = [event.kind for event in possible_events(run, who) if not event.why_not]
    moves = [kind.move for kind in offered for _ in range(often.get(kind.move, 3))]
    if not moves:
        return
    move = draw(st.sampled_from(moves), "what")
    kind = next(kind for kind in offered if kind.move == move)
    first = proposal(kind, run)
    answers = str(first.pk) if first else run.effects.latest("planned_at").plan_digest if kind.answers_plan else ""
    with suppress(Refused):  # it does not fit, or comes too late: who sends it is told so, and nothing changes
        sending.send(run.pk, move, who, _payload_of(kind, draw, known), answers)


def _payload_of(kind: EventKind, draw: Any, known: Mapping[str, SearchStrategy[Any]]) -> dict[str, Any]:
    """What fits the event's schema, and what the event is about."""
    required = kind.payload["required"]
    return {
        name: draw(known.get(name, st.just("as agreed")), name)
        for name in kind.payload["properties"]
        if name in required or name in known
    }
