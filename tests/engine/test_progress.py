"""What each step brought is written down with it: what changed, what became known, what was expected and what came."""

import pytest

from tests.engine.conftest import Engine


def test_each_step_of_a_clean_run_says_what_it_brought(engine: Engine) -> None:
    run = engine.run("B456")

    authority, order, policies, submission = run.step_rows.values_list("gain", flat=True)
    assert authority["changed"] == {"authorised": ["UNKNOWN", "MET"]}
    assert authority["evidence"] == ["authority/support/B456"]
    assert "changed" not in order
    assert order["evidence"]
    assert policies["changed"] == {"eligible": ["UNKNOWN", "MET"]}
    assert submission["changed"] == {"accepted": ["UNKNOWN", "MET"], "receipt_matches": ["UNKNOWN", "MET"]}
    assert submission["effect"] == ["sent", "confirmed"]
    step = run.step_rows.get(seq=4)
    assert (step.expects, step.summary) == ("accepted, with a request number", "Accepted as R789")


def test_a_read_that_failed_brought_nothing_but_its_error(engine: Engine) -> None:
    engine.back_office.fault("B456", "unavailable", where="orders", times=1)
    run = engine.run("B456")

    failed = run.step_rows.get(status="failed").gain
    assert failed == {}
    assert run.stop_reason == "contract_met"


def test_reading_again_what_was_known_brings_no_new_evidence(engine: Engine) -> None:
    run = engine.run("D586")
    assert run.stop_reason == "approval_required"

    run = engine.send(run, "approval_granted", "bob", run.effects.get().plan_digest)

    second = run.step_rows.filter(operation="read_policies").last()
    assert second
    assert second.gain == {}


@pytest.mark.parametrize("by", ["a call", "a claim"])
def test_whatever_crosses_a_soft_mark_the_crossing_is_on_record_once(engine: Engine, by: str) -> None:
    run = engine.start("B456", policy="overconfident")
    run.budget["steps"] = [20, 3 if by == "a call" else 4, 0, 0]  # three reads, and then it claims to be done
    run.save(update_fields=["budget"])

    engine.carry_on(run)

    [crossed] = run.events.filter(kind="soft_limit_crossed")
    assert crossed.text_row.content() == {"dimension": "steps", "spent": run.budget["steps"][1]}
    assert run.stop_reason == "contract_met"
