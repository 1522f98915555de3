"""`manage.py runs follow`: what comes out of a run that has ended, by the same door as the button."""

import pytest

from runs.domain.effects import EffectState
from runs.domain.states import StopReason
from runs.models import Run
from tests.cli.test_runs import office, runs
from tests.console import rows
from tests.people import person

__all__ = ["office"]


@pytest.fixture
def accepted(db: None, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr("runs.engine.tasks.advance_run.delay", lambda run_id: None)
    run = rows.run("B456", person("support"), StopReason.CONTRACT_MET)
    rows.facts(run)
    rows.write(run, EffectState.CONFIRMED, receipt={"request_id": "R789", "order_id": "B456"})
    return run


@pytest.mark.usefixtures("office")
def test_an_accepted_refund_is_followed_by_its_payment(accepted: Run) -> None:
    started = runs("follow", accepted.pk, "payment", "--as", "support")

    following = accepted.followed_by.get()
    assert (started.code, started.err) == (0, "")
    assert started.out == f"Started: Payment of refund R789 for order B456\n{following.pk}\n"
    again = runs("follow", accepted.pk, "payment", "--as", "support")
    assert again.out.startswith("Already there, nothing new was started")


@pytest.mark.usefixtures("office")
def test_what_cannot_follow_is_refused_in_a_sentence(accepted: Run) -> None:
    person("ada")
    unknown = runs("follow", accepted.pk, "party", "--as", "support")
    assert (unknown.code, "there are payment" in unknown.err) == (2, True)
    forbidden = runs("follow", accepted.pk, "payment", "--as", "ada")
    assert (forbidden.code, "permission" in forbidden.err) == (2, True)
    declined = rows.run("A123", person("support"), StopReason.NOT_ELIGIBLE)
    nothing = runs("follow", declined.pk, "payment", "--as", "support")
    assert (nothing.code, "no payment to follow" in nothing.err) == (2, True)
    assert not Run.objects.filter(workflow="refund_payment").exists()
