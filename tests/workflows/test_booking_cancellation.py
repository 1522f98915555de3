"""Undoing a booking after its own run has ended: another run, whose preconditions are read when it is asked for."""

from typing import Any

import pytest

from runs.domain.budget import Dimension
from runs.interventions import starting
from runs.interventions.refusals import Refused
from runs.models import Run
from runs.workflows.booking_cancellation import WORKFLOW
from tests.people import person
from tests.workflows.bookings import (
    EVENT,
    Workshops,
    actions,
    allowed,
    contract,
    handoff,
    number,
    once_after,
    stopped_as,
    told,
)

READ = ["check_booking_authority", "read_booking"]
CANCELLED = ["cancel_booking", "read_booking"]


@pytest.fixture
def booked(desk: Workshops) -> Run:
    run = desk.booking()
    assert stopped_as(run) == ("COMPLETED", "contract_met")
    return run


def standing(desk: Workshops) -> list[str]:
    return [booking["state"] for booking in desk.effects(EVENT)]


def test_a_booking_is_cancelled_by_a_run_of_its_own_and_the_one_that_booked_stays_complete(
    desk: Workshops, booked: Run
) -> None:
    run = desk.cancel(booked)

    assert stopped_as(run) == ("COMPLETED", "contract_met")
    assert actions(run) == [*READ, *CANCELLED]
    assert standing(desk) == ["cancelled"]
    [call] = desk.calls(EVENT, "cancel")
    assert call["operation_key"] == run.effects.get().operation_key != booked.effects.get().operation_key
    assert told(run) == "Booking B-5001 is cancelled."
    assert run.follows_id == booked.pk
    booked.refresh_from_db()
    assert (stopped_as(booked), set(contract(booked).values())) == (("COMPLETED", "contract_met"), {"MET"})


def test_what_a_clean_cancellation_costs(desk: Workshops, booked: Run) -> None:
    """The trial that the workflow's budgets come from."""
    run = desk.cancel(booked)

    spent = {dimension: line[2] for dimension, line in run.budget.items() if line[2]}
    assert spent == {"steps": 4, "tool_attempts": 4, "external_writes": 1}


@pytest.mark.parametrize(
    ("obstacle", "says"),
    [
        ("held", "somebody holds a confirmation of it, and relies on it"),
        ("begun", "the workshop began on 2026-09-25, and today is 2026-09-25"),
    ],
)
def test_what_somebody_relies_on_is_put_before_a_person_and_nothing_is_cancelled(
    desk: Workshops, booked: Run, obstacle: str, says: str
) -> None:
    if obstacle == "held":
        desk.hand_confirmation(booked, "P-301")
    else:
        desk.change_event(starts_on="2026-09-25")

    run = desk.cancel(booked)

    assert stopped_as(run) == ("NEEDS_HUMAN", "question_asked")
    assert run.question == (
        f"Booking B-5001 cannot be cancelled by us: {says}. "
        "Does the participant keep the seat, or does the organiser release it?"
    )
    assert actions(run) == READ
    assert desk.calls(EVENT, "cancel") == []
    assert standing(desk) == ["accepted"]
    assert {"resumed_after_review", "cancel_requested"} <= allowed(run)
    assert "handed to the organiser" in told(run)


def test_once_the_confirmation_is_given_back_it_is_read_again_and_cancelled(desk: Workshops, booked: Run) -> None:
    desk.hand_confirmation(booked, "P-301")
    run = desk.cancel(booked)
    run = desk.send(run, "resumed_after_review", "supervisor", reason="said to be given back")
    assert stopped_as(run) == ("NEEDS_HUMAN", "question_asked"), "a word is not a confirmation that was given back"
    desk.hand_confirmation(booked, None)

    run = desk.send(run, "resumed_after_review", "supervisor", reason="given back")

    assert stopped_as(run) == ("COMPLETED", "contract_met")
    assert standing(desk) == ["cancelled"]


def test_who_keeps_the_seat_withdraws_the_cancellation_and_nothing_was_sent(desk: Workshops, booked: Run) -> None:
    desk.hand_confirmation(booked, "P-301")
    run = desk.send(desk.cancel(booked), "cancel_requested", "supervisor", reason="they come after all")

    assert stopped_as(run) == ("CANCELLED", "cancelled_unsent")
    assert standing(desk) == ["accepted"]
    assert told(run) == "Booking B-5001 was not cancelled: nothing was sent."


def test_a_cancellation_whose_answer_is_lost_is_looked_up_and_not_sent_again(desk: Workshops, booked: Run) -> None:
    desk.back_office.fault(EVENT, "answer_lost", where="cancel", times=1)

    run = desk.cancel(booked)

    assert stopped_as(run) == ("COMPLETED", "contract_met")
    assert actions(run) == [*READ, "cancel_booking", "look_up_booking_cancellation", "read_booking"]
    assert len(desk.calls(EVENT, "cancel")) == 1


def test_a_cancellation_that_never_arrived_is_sent_once_more_if_it_is_still_possible(
    desk: Workshops, booked: Run
) -> None:
    desk.back_office.fault(EVENT, "timeout_before_effect", where="cancel", times=1, seconds=0)
    run = desk.cancel(booked)
    assert stopped_as(run) == ("WAITING", "effect_unknown")
    assert "may still stand" in told(run)
    desk.hand_confirmation(booked, "P-301")

    run = desk.later(run)

    assert stopped_as(run) == ("NEEDS_HUMAN", "question_asked")
    assert len(desk.calls(EVENT, "cancel")) == 1
    desk.hand_confirmation(booked, None)
    run = desk.send(run, "resumed_after_review", "supervisor", reason="given back")
    assert stopped_as(run) == ("COMPLETED", "contract_met")
    assert {call["operation_key"] for call in desk.calls(EVENT, "cancel")} == {run.effects.get().operation_key}
    assert run.budget["steps"][2] <= WORKFLOW.planned(Dimension.STEPS) * 2 // 3


def test_a_confirmation_that_is_handed_out_after_the_look_is_the_services_to_refuse(
    desk: Workshops, booked: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    once_after(monkeypatch, "read_booking", lambda: desk.hand_confirmation(booked, "P-301"))

    run = desk.cancel(booked)

    assert stopped_as(run) == ("DECLINED", "refused_by_service")
    assert run.effects.get().reason == "confirmation_held"
    assert standing(desk) == ["accepted"]
    assert "it stands" in told(run)


def test_what_is_cancelled_already_is_complete_without_a_write(desk: Workshops, booked: Run) -> None:
    desk.cancel(booked)

    again = desk.cancel(booked)

    assert stopped_as(again) == ("COMPLETED", "contract_met")
    assert actions(again) == READ
    assert not again.effects.exists()
    assert len(desk.calls(EVENT, "cancel")) == 1


def test_a_cancellation_that_nobody_could_read_back_is_not_complete(
    desk: Workshops, booked: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The receipt says cancelled, and that is the writer's own word."""
    nobody_answers = {"name": "unavailable", "where": "bookings"}
    once_after(monkeypatch, "cancel_booking", lambda: desk.back_office.fault(EVENT, **nobody_answers))

    run = desk.cancel(booked)

    assert stopped_as(run) == ("LIMIT_REACHED", "same_error_repeated")
    assert contract(run)["cancelled"] == "UNKNOWN"
    assert "not yet confirmed" in told(run)


def test_somebody_elses_booking_is_not_shown_and_not_cancelled(desk: Workshops, booked: Run) -> None:
    other = desk.somebody_books("somebody-else", "P-302")["booking_id"]

    run = desk.cancel(booked, booking_id=other)

    assert stopped_as(run) == ("NEEDS_HUMAN", "not_found")
    assert run.question.endswith("Which event and participant is it of? Another booking takes another run.")
    assert "P-302" not in str(handoff(run))
    assert desk.calls(EVENT, "cancel") == []


def test_a_stranger_cancels_nothing_and_reads_nothing(desk: Workshops, booked: Run) -> None:
    run = desk.cancel(booked, requested_by="U-89")

    assert stopped_as(run) == ("DECLINED", "not_authorised")
    assert actions(run) == ["check_booking_authority"]
    assert "B-5001" not in told(run)
    assert standing(desk) == ["accepted"]


def test_where_no_booking_stands_there_is_none_to_cancel(desk: Workshops) -> None:
    full = desk.booking("W301")
    with pytest.raises(Refused, match="No booking of this run stands"):
        starting.follow_up(full.pk, "cancel", person("support"))


@pytest.mark.parametrize(
    ("given", "field"),
    [({"booking_id": "B 5001"}, "booking_id"), ({"booking_id": ""}, "booking_id"), ({"why": "ill"}, "why")],
)
def test_a_wrong_field_is_named(desk: Workshops, booked: Run, given: dict[str, Any], field: str) -> None:
    wanted = {**booked.input, "booking_id": number(booked), **given}
    with pytest.raises(Refused, match=field):
        starting.start("booking_cancellation", wanted, person("support"))
