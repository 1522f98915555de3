"""The package is what its schema says, and no larger than a stop can write and a person can read."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.domain.contract import Value
from runs.domain.effects import EffectState
from runs.domain.interventions import CATALOGUE
from runs.domain.package import FOLDABLE, KEPT, LIMIT, SCHEMA, SHORT, VERSION, document, fold, size
from runs.domain.redaction import digest, redact
from runs.domain.states import Move, Outcome, State, StopReason

DOCUMENT = Path(__file__).parents[2] / "docs" / "handoff.schema.json"
CURE = "Do: .venv/bin/python -c 'from runs.domain.package import document; print(document(), end=\"\")' > " + str(
    DOCUMENT
)
AT = "2026-09-25T10:14:07.123456+00:00"
PACKAGE = jsonschema_rs.validator_for(SCHEMA, validate_formats=True)


def step(seq: int = 1, **changed: Any) -> dict[str, Any]:
    return {
        "seq": seq,
        "kind": "read",
        "operation": "read_order",
        "operation_key": "",
        "status": "done",
        "summary": "Order B456 read, version 1",
        "code": "",
        "error_class": "",
        "expects": "when it was delivered",
        "fingerprint": "f" * 64,
        "gain": {"changed": {"accepted": ["UNKNOWN", "MET"]}, "effect": ["sent", "confirmed"]},
        "started_at": AT,
        "settled_at": None,
        **changed,
    }


def effect(**changed: Any) -> dict[str, Any]:
    return {
        "operation": "submit_refund",
        "label": "Submit refund request",
        "source": "refund service",
        "operation_key": "refund-B456-0123456789abcdef",
        "undoes": "",
        "target": "order B456",
        "state": "unknown",
        "unresolved": True,
        "sent_at": AT,
        "times_sent": 1,
        "look_ups": 3,
        "last_answer": "not_found_yet",
        "last_answer_means": "Nothing was found.",
        "last_answer_at": AT,
        "next_look_at": None,
        "receipt": {"request_id": "R789"},
        "reason": "",
        "plan": {
            "target": "order B456",
            "params": {"order_id": "B456"},
            "difference": [["refund request", "none", "submitted"]],
            "target_version": "order version 1",
            "expected": "accepted",
            "undo": "cancel it",
            "risk": "59.00 EUR are paid back",
            "needs_approval": "",
        },
        "plan_digest": "d" * 64,
        "planned_at": AT,
        "approved_by": "",
        "approved_at": None,
        "approval_expires_at": None,
        "notifications": "not known",
        **changed,
    }


def package(**changed: Any) -> dict[str, Any]:
    event = {
        "name": "reconcile_requested",
        "label": "Ask the service again",
        "says": "Looks the write up.",
        "permission": "operate_run",
        "confirmed_by_requester": False,
        "not_by_requester": False,
        "answers_plan": False,
        "payload": {"type": "object"},
        "checked_again": "The contract is evaluated.",
        "why_not": "",
        "second_person": "",
    }
    return {
        "package_version": VERSION,
        "stake": {"minor": 59_00, "currency": "EUR"},
        "run_id": "0b5a7a0e-6f0e-4a53-9d1c-0f6a1a7f9c11",
        "stretch": 2,
        "workflow": "refund_request",
        "workflow_title": "Refund request",
        "workflow_version": 1,
        "policy": "script",
        "subject": "order B456",
        "title": "Refund of order B456",
        "goal": "Submit one refund request.",
        "input": {"order_id": "B456"},
        "requester": "support",
        "acts_for": "support",
        "state": "blocked",
        "outcome": "NEEDS_HUMAN",
        "stop_reason": "outcome_unconfirmed",
        "contract_version": 1,
        "scope": "",
        "acceptance": "unknown",
        "recovery": "reconcile",
        "withheld": False,
        "people_said": [
            {"event": "evidence_supplied", "by": "alice", "at": AT, "statement": "It arrived.", "reference": "ticket 1"}
        ],
        "unknown": [{"field": "customer_says", "why": "It could not be put into words."}],
        "contract": [
            {
                "name": "accepted",
                "label": "It was accepted",
                "value": "UNKNOWN",
                "says": "no answer that counts",
                "source": "",
                "at": None,
                "reference": "",
            }
        ],
        "effects": [effect()],
        "steps": [step()],
        "steps_left_out": 0,
        "budgets": [{"dimension": "steps", "limit": 20, "soft": 16, "spent": 4, "reserved": 0, "left": 16}],
        "error": {"class": "", "count": 0},
        "last_checkpoint": "Order B456 read, version 1",
        "last_checkpoint_step": 1,
        "first_deviation": "",
        "first_deviation_step": None,
        "last_fingerprint": "f" * 64,
        "progress": "No assertion and no write changed since the last stop.",
        "question": "Did the refund service receive the request?",
        "customer_says": {"en": "", "zh": ""},
        "allowed_events": [event],
        "forbidden_events": [{**event, "second_person": "approve_write"}],
        "role": "refunds desk",
        "answer_by": AT,
        "next_look_at": None,
        "holder": "",
        "held_until": None,
        "created_at": AT,
        "stopped_at": AT,
        "made_at": AT,
        "folded": [],
        **changed,
    }


def what_is_wrong(made: dict[str, Any]) -> list[str]:
    return ["/".join(map(str, error.instance_path)) for error in PACKAGE.iter_errors(made)]


# The schema


def test_the_published_schema_is_the_codes_own() -> None:
    assert DOCUMENT.read_text() == document(), f"docs/handoff.schema.json is not what the code says. {CURE}"


def test_it_is_a_json_schema_of_the_draft_that_it_names() -> None:
    assert jsonschema_rs.meta.is_valid(SCHEMA)
    assert SCHEMA["$schema"].endswith("2020-12/schema")


def _objects(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        if "properties" in schema:
            yield schema
        for inner in schema.values():
            yield from _objects(inner)


def test_every_field_is_described_wanted_and_the_only_one_at_every_level() -> None:
    objects = list(_objects(SCHEMA))
    assert len(objects) > 10
    for shaped in objects:
        assert shaped["additionalProperties"] is False
        if shaped != SCHEMA["$defs"]["step"]["properties"]["gain"]:  # a step that brought nothing says nothing
            assert set(shaped["properties"]) == set(shaped["required"])
        assert all(field["description"].endswith(".") for field in shaped["properties"].values())


def test_a_package_as_it_is_made_is_valid() -> None:
    assert what_is_wrong(package()) == []


def test_of_a_run_that_is_under_way_there_is_no_outcome_yet() -> None:
    assert what_is_wrong(package(state="planning", outcome="", stop_reason="", stopped_at=None, question="")) == []


def test_of_a_withheld_write_nothing_but_key_and_state_is_shown() -> None:
    held_back = {"operation_key": "refund-B456", "state": "absent", "unresolved": False}
    assert what_is_wrong(package(effects=[held_back])) == []
    assert what_is_wrong(package(effects=[held_back | {"target": "order B456"}])) == ["effects/0"]


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
        ({"note": "x"}, ""),
        ({"error": {"class": "", "count": 0, "note": "x"}}, "error"),
        ({"steps": [step(note="x")]}, "steps/0"),
        ({"steps": [step(status="skipped")]}, "steps/0/status"),
        ({"customer_says": "It is done."}, "customer_says"),
        ({"customer_says": {"en": "It is done."}}, "customer_says"),
        ({"outcome": "DONE"}, "outcome"),
        ({"state": "done"}, "state"),
        ({"stretch": True}, "stretch"),
        ({"made_at": "yesterday"}, "made_at"),
        ({"answer_by": "soon"}, "answer_by"),
        ({"run_id": "7"}, "run_id"),
        ({"package_version": VERSION - 1}, "package_version"),
        ({"stake": {"minor": -1, "currency": "EUR"}}, "stake"),
        ({"stake": {"minor": 59_00, "currency": "<b>"}}, "stake"),
        ({"stake": 59_00}, "stake"),
        ({"effects": [effect(state="lost")]}, "effects/0"),
        ({"effects": [effect(receipt="R789")]}, "effects/0"),
    ],
)
def test_what_is_no_package_is_refused_where_it_is_wrong(wrong: dict[str, Any], where: str) -> None:
    assert what_is_wrong(package(**wrong)) == [where]


@pytest.mark.parametrize("field", package())
def test_nothing_may_be_left_out(field: str) -> None:
    assert what_is_wrong({name: value for name, value in package().items() if name != field}) == [""]


def test_codes_are_the_domains_own() -> None:
    fields = SCHEMA["properties"]
    assert fields["state"]["enum"] == list(State)
    assert fields["outcome"]["enum"] == [*Outcome, ""]
    assert fields["stop_reason"]["enum"] == [*StopReason, ""]
    assert SCHEMA["$defs"]["assertion"]["properties"]["value"]["enum"] == list(Value)
    assert SCHEMA["$defs"]["effect"]["properties"]["state"]["enum"] == list(EffectState)


@pytest.mark.parametrize("move", CATALOGUE)
def test_what_an_event_needs_is_told_in_full(move: Move) -> None:
    payload = CATALOGUE[move].payload
    assert redact(payload) == json.loads(json.dumps(payload))


# The limit

LONG = "n" * 40_000


def large(**changed: Any) -> dict[str, Any]:
    steps = [step(seq, summary=f"{seq} " + "s" * 5000) for seq in range(1, 61)]
    return package(**{"goal": LONG, "steps": steps, "effects": [effect(reason="r" * 30_000)], **changed})


def of_size(wanted: int, **changed: Any) -> dict[str, Any]:
    """A package of so many bytes, filled up with what is never cut."""
    made = package(question="", **changed)
    return made | {"question": "q" * (wanted - size(made))}


def cut(folded: dict[str, Any]) -> list[str]:
    return [entry["field"] for entry in folded["folded"]]


def never_folded(made: dict[str, Any]) -> dict[str, Any]:
    """What of a package must stay as it is."""
    kept = {name: value for name, value in made.items() if (name,) not in FOLDABLE and name != "folded"}
    kept["contract"] = [{**row, "says": ""} for row in made["contract"]]
    kept["steps"] = [{**row, "summary": "", "expects": ""} for row in made["steps"]]
    kept["effects"] = [{**row, "plan": row["plan"]["target"], "receipt": "", "reason": ""} for row in made["effects"]]
    return kept


def test_what_is_small_enough_stays_as_it_is() -> None:
    assert fold(package()) == package()


def test_a_package_may_be_as_large_as_the_limit_and_not_a_byte_larger() -> None:
    assert fold(of_size(LIMIT, goal=LONG)) == of_size(LIMIT, goal=LONG)
    assert cut(fold(of_size(LIMIT + 1, goal=LONG))) == ["/goal"]


@pytest.mark.parametrize("more", [-1, 0, 1, 2])
def test_a_package_is_not_a_byte_too_large_once_its_parts_are_cut(more: int) -> None:
    made = of_size(LIMIT + 1, goal=LONG, progress=LONG)
    saved_by_one_cut = size(made) - size(fold(made))
    folded = fold(of_size(LIMIT + saved_by_one_cut + more, goal=LONG, progress=LONG))
    assert size(folded) <= LIMIT
    assert len(cut(folded)) == (1 if more < 0 else 2)  # the comma before an entry is counted with the first, too


def test_of_parts_of_one_length_the_one_whose_place_comes_first_is_cut() -> None:
    made = of_size(LIMIT + 1, steps=[step(summary="a" * 1000)], effects=[effect(reason="z" * 1000)])
    assert cut(fold(made)) == ["/effects/0/reason"]


def test_a_part_is_cut_as_soon_as_the_package_becomes_smaller_by_it() -> None:
    for length in range(KEPT, 2 * KEPT):
        made = package(goal=LONG, progress="p" * length, question="q" * LIMIT)
        folded = fold(made)
        if cut(folded) == ["/goal", "/progress"]:
            break
    uncut = {**folded, "progress": made["progress"], "folded": folded["folded"][:1]}
    assert size(uncut) - size(folded) == 1


def test_what_would_not_become_shorter_stays_even_in_a_package_that_is_too_large() -> None:
    made = package(question="q" * LIMIT)
    assert fold(made) == made


def test_the_longest_parts_are_cut_first_and_no_more_than_needed() -> None:
    folded = fold(large())
    assert LIMIT - 5000 < size(folded) <= LIMIT
    fields = cut(folded)
    assert fields[:2] == ["/goal", "/effects/0/reason"]
    assert all(field.startswith("/steps/") and field.endswith("/summary") for field in fields[2:])
    assert what_is_wrong(folded) == []


def test_a_part_that_was_cut_says_what_it_was() -> None:
    folded = fold(large())
    assert folded["goal"].startswith("n" * KEPT + "… [40000 characters, sha256 ")
    assert folded["folded"][0] == {"field": "/goal", "characters": 40_000, "sha256": digest(LONG)}


def test_what_identifies_decides_and_asks_is_never_cut() -> None:
    made = large(question="q" * 20_000, subject="s" * 20_000, run_id="r" * 20_000)
    made["allowed_events"] *= 400
    folded = fold(made)
    assert never_folded(folded) == never_folded(made)
    assert folded["folded"]


def test_of_a_services_object_the_short_members_stay() -> None:
    receipt = {"request_id": "R789", "paid": False, "lines": [{"text": "x" * 1900}] * 200, "note": "y" * 500}
    folded = fold(package(effects=[effect(receipt=receipt)]))
    kept = folded["effects"][0]["receipt"]
    assert {name: kept[name] for name in kept if name != "folded"} == {"request_id": "R789", "paid": False}
    assert kept["folded"].startswith('{"lines": [{"text": "xxx')
    assert folded["folded"][0]["field"] == "/effects/0/receipt"
    assert size(folded) <= LIMIT
    assert what_is_wrong(folded) == []


def test_an_objects_member_is_short_up_to_so_many_bytes() -> None:
    short = "x" * (SHORT - size(["fits", ""]))
    folded = fold(of_size(LIMIT + 1, input={"fits": short, "over": f"{short}x", "note": LONG}))
    assert {name: kept for name, kept in folded["input"].items() if name != "folded"} == {"fits": short}


def test_an_object_in_chinese_is_counted_and_shown_as_people_read_it() -> None:
    folded = fold(of_size(LIMIT + 1, input={"note": "退" * 1000}))
    whole = '{"note": "' + "退" * 1000 + '"}'
    assert folded["input"]["folded"].startswith(whole[:KEPT] + "…")
    assert folded["folded"] == [{"field": "/input", "characters": len(whole), "sha256": digest(whole)}]


def test_an_object_that_was_cut_is_not_cut_again_though_the_package_is_still_too_large() -> None:
    folded = fold(package(question="q" * LIMIT, input={"a": "退" * 1000, "b": "x" * 100}))
    assert cut(folded) == ["/input"]
    assert fold(folded) == folded


def test_of_very_many_short_members_only_some_stay() -> None:
    folded = fold(package(input={f"field_{n}": "x" * 50 for n in range(10_000)}))
    assert len(folded["input"]) == 21
    assert size(folded) <= LIMIT


def test_folding_changes_nothing_that_was_given() -> None:
    made = large()
    before = json.dumps(made)
    fold(made)
    assert json.dumps(made) == before


def test_the_order_of_an_objects_members_makes_no_difference() -> None:
    receipt = {"a": "x" * 150_000, "b": "y" * 150_000, "number": "R789"}
    turned = dict(reversed(receipt.items()))
    assert fold(package(input=receipt)) == fold(package(input=turned))


def test_a_text_that_was_folded_before_keeps_its_first_figures() -> None:
    before = f"{'z' * 2000}… [50000 characters, sha256 0123456789abcdef]"
    folded = fold(large(progress=before, steps=[step(seq, summary=before) for seq in range(1, 201)]))
    assert folded["progress"] == f"{'z' * KEPT}… [50000 characters, sha256 0123456789abcdef]"


@given(st.lists(st.integers(0, 9_000), max_size=60), st.integers(0, 200_000), st.integers(0, 200_000), st.booleans())
def test_any_package_fits_and_folding_it_again_changes_nothing(
    summaries: list[int], goal: int, receipt: int, wide: bool
) -> None:
    sign = "退" if wide else "x"
    made = package(
        goal=sign * goal,
        effects=[effect(receipt={"note": sign * receipt})],
        steps=[step(seq, summary=sign * length) for seq, length in enumerate(summaries, 1)],
    )
    folded = fold(made)
    assert size(folded) <= LIMIT
    assert never_folded(folded) == never_folded(made)
    assert fold(folded) == folded


@pytest.mark.parametrize("place", FOLDABLE, ids="/".join)
def test_every_part_that_may_be_cut_is_in_the_schema(place: tuple[str, ...]) -> None:
    schema: dict[str, Any] = SCHEMA
    for name in place:
        schema = schema["items"] if name == "*" else schema["properties"][name]
        if "oneOf" in schema:
            schema = schema["oneOf"][0]
        if "$ref" in schema:
            schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    assert {"string", "object"} & ({schema["type"]} if isinstance(schema["type"], str) else set(schema["type"]))
