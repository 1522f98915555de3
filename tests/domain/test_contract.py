"""The contract: three values, what they rest on, and how they combine."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.domain.contract import (
    ACCEPTANCE_OF,
    Acceptance,
    ContractError,
    Evaluation,
    Evidence,
    Fact,
    Judgement,
    Value,
    combine,
    evaluate,
    judged_by,
    met,
    scored,
    unknown,
    unmet,
)

MET, UNMET, UNKNOWN = Value.MET, Value.UNMET, Value.UNKNOWN
NOW = datetime(2026, 9, 25, 10, tzinfo=UTC)
READ = Evidence("both sources are in the index", "index", NOW, "index.json#2")
CONTRACTS = st.dictionaries(st.text(min_size=1, max_size=3), st.sampled_from(Value), min_size=1, max_size=6)


# How values combine


@pytest.mark.parametrize(
    ("sources", "links", "originals", "combined", "acceptance"),
    [
        (MET, UNKNOWN, MET, UNKNOWN, "unknown"),
        (MET, UNMET, MET, UNMET, "failed"),
        (MET, MET, MET, MET, "succeeded"),
        (UNKNOWN, UNMET, MET, UNMET, "failed"),
        (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, "unknown"),
    ],
)
def test_the_hand_calculations_of_the_third_source_document(
    sources: Value, links: Value, originals: Value, combined: Value, acceptance: str
) -> None:
    assertions = {"sources": sources, "links": links, "originals": originals}
    for order in permutations(assertions):
        assert combine({name: assertions[name] for name in order}) is combined
    assert ACCEPTANCE_OF[combined] == acceptance


def test_an_empty_contract_is_refused() -> None:
    with pytest.raises(ContractError) as refused:
        combine({})
    assert refused.value.field == "contract"


@pytest.mark.parametrize("value", [True, False, None, 1, "yes", "MET", float("nan")])
def test_only_the_three_values_are_accepted(value: object) -> None:
    with pytest.raises(ContractError) as refused:
        combine({"sources": MET, "links": value})  # type: ignore[dict-item]
    assert refused.value.field == "links"


def test_a_value_that_is_none_is_refused_even_beside_a_violation() -> None:
    with pytest.raises(ContractError) as refused:
        combine({"sources": UNMET, "links": None})  # type: ignore[dict-item]
    assert refused.value.field == "links"


@given(CONTRACTS, st.randoms(use_true_random=False))
def test_the_order_of_assertions_says_nothing(values: dict[str, Value], chance: object) -> None:
    names = list(values)
    chance.shuffle(names)  # type: ignore[attr-defined]
    assert combine({name: values[name] for name in names}) is combine(values)


@given(CONTRACTS, st.sampled_from([UNMET, UNKNOWN]))
def test_one_more_assertion_that_is_not_met_never_yields_a_success(values: dict[str, Value], more: Value) -> None:
    combined = combine({**values, "one more": more})
    assert combined is not MET
    assert (combined is UNMET) == (more is UNMET or combine(values) is UNMET)


@given(CONTRACTS)
def test_a_success_is_every_assertion_met_and_nothing_else(values: dict[str, Value]) -> None:
    assert (combine(values) is MET) == all(value is MET for value in values.values())


# What a value rests on


@pytest.mark.parametrize("value", [MET, UNMET])
@pytest.mark.parametrize(
    ("without", "field"),
    [
        ({"source": ""}, "source"),
        ({"source": "  "}, "source"),
        ({"source": None}, "source"),
        ({"at": None}, "at"),
        ({"at": "2026-09-25"}, "at"),
        ({"at": datetime(2026, 9, 25)}, "at"),  # noqa: DTZ001
    ],
)
def test_nothing_is_met_or_unmet_without_something_that_was_read(
    value: Value, without: dict[str, object], field: str
) -> None:
    with pytest.raises(ContractError) as refused:
        {MET: met, UNMET: unmet}[value](replace(READ, **without))  # type: ignore[arg-type]
    assert refused.value.field == field


def test_an_unknown_does_not_become_met_by_being_called_so() -> None:
    with pytest.raises(ContractError) as refused:
        replace(unknown("the index could not be opened"), value=MET)
    assert refused.value.field == "source"


@pytest.mark.parametrize(("value", "field"), [("MET", "value"), (True, "value"), (None, "value")])
def test_a_judgement_has_one_of_the_three_values(value: object, field: str) -> None:
    with pytest.raises(ContractError) as refused:
        Judgement(value, READ)  # type: ignore[arg-type]
    assert refused.value.field == field


def test_a_judgement_without_evidence_is_refused() -> None:
    with pytest.raises(ContractError) as refused:
        met("the agent says so")  # type: ignore[arg-type]
    assert refused.value.field == "evidence"


def test_a_check_that_could_not_look_is_unknown_in_its_own_words() -> None:
    judged = unknown("index.json: permission denied")
    assert (judged.value, judged.evidence.says) == (UNKNOWN, "index.json: permission denied")


def test_a_fact_is_evidence_with_source_time_and_reference() -> None:
    fact = Fact("index", {"entries": 2}, "index", NOW, "index.json#2")
    assert met(fact.evidence("both sources are in the index")) == Judgement(MET, READ)


# Scores, and people


@pytest.mark.parametrize(
    ("score", "threshold", "value"),
    [
        (80, 80, MET),
        (81, 80, MET),
        (79, 80, UNMET),
        (0, 0, MET),
        (-1, 0, UNMET),
        (Decimal("0.30"), Decimal("0.3"), MET),
        (Decimal("0.2999"), Decimal("0.3"), UNMET),
        (1, Decimal("0.99"), MET),
        (Decimal("79.5"), 80, UNMET),
    ],
)
def test_a_score_is_enough_from_its_threshold_upwards(
    score: int | Decimal, threshold: int | Decimal, value: Value
) -> None:
    assert scored(score, threshold, READ) == Judgement(value, READ)


NO_NUMBERS = [
    True,
    False,
    0.3,
    float("nan"),
    float("inf"),
    Decimal("NaN"),
    Decimal("sNaN"),
    Decimal("Infinity"),
    "1",
    None,
]


@pytest.mark.parametrize("number", NO_NUMBERS, ids=repr)
def test_what_is_no_exact_number_is_neither_score_nor_threshold(number: object) -> None:
    with pytest.raises(ContractError) as refused:
        scored(number, 1, READ)  # type: ignore[arg-type]
    assert refused.value.field == "score"
    with pytest.raises(ContractError) as refused:
        scored(1, number, READ)  # type: ignore[arg-type]
    assert refused.value.field == "threshold"


@pytest.mark.parametrize("score", [79, 80])
def test_a_score_rests_on_something_read_like_any_other_value(score: int) -> None:
    with pytest.raises(ContractError) as refused:
        scored(score, 80, Evidence("the model rates itself"))
    assert refused.value.field == "source"


@pytest.mark.parametrize(("verdict", "value"), [(True, MET), (False, UNMET)])
def test_a_person_in_a_role_says_yes_or_no(verdict: bool, value: Value) -> None:
    assert judged_by("editor", verdict, READ) == Judgement(value, READ)


def test_while_the_person_has_not_judged_it_is_unknown() -> None:
    assert judged_by("editor", None) == unknown("not judged yet by the editor")
    assert judged_by("editor", None, Evidence("the draft does not open")) == unknown("the draft does not open")


@pytest.mark.parametrize("role", ["", " ", None, 7])
def test_a_judgement_by_nobody_in_particular_is_refused(role: object) -> None:
    with pytest.raises(ContractError) as refused:
        judged_by(role, None)  # type: ignore[arg-type]
    assert refused.value.field == "role"


@pytest.mark.parametrize("verdict", [1, 0, "yes", "", MET, float("nan")])
def test_a_person_says_nothing_but_true_or_false(verdict: object) -> None:
    with pytest.raises(ContractError) as refused:
        judged_by("editor", verdict, READ)  # type: ignore[arg-type]
    assert refused.value.field == "verdict"


@pytest.mark.parametrize(("evidence", "field"), [(None, "evidence"), (Evidence("looks fine"), "source")])
def test_what_a_person_says_rests_on_something_too(evidence: Evidence | None, field: str) -> None:
    with pytest.raises(ContractError) as refused:
        judged_by("editor", True, evidence)
    assert refused.value.field == field


# A frozen contract

FROZEN = ("sources", "links", "originals")


def test_every_assertion_is_kept_beside_the_combined_value() -> None:
    given = {"originals": met(READ), "links": unmet(READ), "sources": unknown("not read yet")}
    assert evaluate(FROZEN, given) == Evaluation(UNMET, given)
    assert list(evaluate(FROZEN, given).assertions) == list(FROZEN)
    assert evaluate(FROZEN, given).acceptance is Acceptance.FAILED


def test_what_nobody_judged_is_unknown() -> None:
    evaluation = evaluate(FROZEN, {"sources": met(READ), "links": met(READ)})
    assert evaluation.assertions["originals"] == unknown("not judged")
    assert evaluation.acceptance is Acceptance.UNKNOWN


def test_all_of_them_met_is_a_success() -> None:
    assert evaluate(FROZEN, dict.fromkeys(FROZEN, met(READ))).acceptance is Acceptance.SUCCEEDED


def test_an_assertion_left_out_cannot_make_a_success() -> None:
    for left_out in FROZEN:
        judged = {name: met(READ) for name in FROZEN if name != left_out}
        assert evaluate(FROZEN, judged).value is UNKNOWN


@pytest.mark.parametrize("frozen", [(), [], frozenset()])
def test_an_empty_frozen_contract_is_refused(frozen: tuple[str, ...]) -> None:
    with pytest.raises(ContractError) as refused:
        evaluate(frozen, {})
    assert refused.value.field == "contract"


@pytest.mark.parametrize("frozen", ["sources", ("",), (" ",), (None,), (1,)])
def test_names_that_are_none_make_no_contract(frozen: tuple[str, ...]) -> None:
    with pytest.raises(ContractError) as refused:
        evaluate(frozen, {})
    assert refused.value.field == "contract"


@pytest.mark.parametrize(
    ("frozen", "judgements", "field"),
    [
        (FROZEN, {"bonus": met(READ)}, "bonus"),
        (("sources", "links", "sources"), {}, "sources"),
        (("sources", "links", "originals", "links"), {}, "links"),
        (FROZEN, {"links": MET}, "links"),
        (FROZEN, {"links": None}, "links"),
        (FROZEN, {"links": True}, "links"),
    ],
)
def test_a_contract_is_not_edited_by_judging_it(
    frozen: tuple[str, ...], judgements: dict[str, Judgement], field: str
) -> None:
    with pytest.raises(ContractError) as refused:
        evaluate(frozen, judgements)
    assert refused.value.field == field


@given(st.dictionaries(st.sampled_from(FROZEN), st.sampled_from([met(READ), unmet(READ), unknown("?")])))
def test_a_frozen_contract_is_the_combination_of_all_its_assertions(judgements: dict[str, Judgement]) -> None:
    evaluation = evaluate(FROZEN, judgements)
    assert evaluation.value is combine({name: judged.value for name, judged in evaluation.assertions.items()})
    assert (evaluation.value is MET) == (
        judgements.keys() == set(FROZEN) and all(judged.value is MET for judged in judgements.values())
    )


# What a refusal says

UNREAD = Evidence("the model says so")


@pytest.mark.parametrize(
    ("refuse", "sentence", "field"),
    [
        (lambda: Judgement("yes", READ), "A judgement is MET, UNMET or UNKNOWN, not 'yes'.", "value"),  # type: ignore[arg-type]
        (lambda: Judgement(MET, "it is so"), "MET needs evidence.", "evidence"),  # type: ignore[arg-type]
        (lambda: met(UNREAD), "MET needs evidence that names its source.", "source"),
        (lambda: unmet(UNREAD), "UNMET needs evidence that names its source.", "source"),
        (lambda: met(replace(READ, at=None)), "MET needs evidence that says when it was read.", "at"),
        (lambda: scored(0.8, 1, READ), "score must be a whole number or a finite decimal, not 0.8.", "score"),  # type: ignore[arg-type]
        (lambda: judged_by("", True, READ), "An assertion that a person judges needs a role.", "role"),
        (lambda: judged_by("editor", 1, READ), "The editor says true, false or nothing, not 1.", "verdict"),  # type: ignore[arg-type]
        (lambda: judged_by("editor", True), "What the editor says needs evidence.", "evidence"),
        (lambda: combine({}), "A contract needs at least one assertion.", "contract"),
        (
            lambda: combine({"links": None}),  # type: ignore[dict-item]
            "Assertion 'links' is None; it must be MET, UNMET or UNKNOWN.",
            "links",
        ),
        (
            lambda: evaluate([""], {}),
            "A contract is a collection of names, and none of them is empty.",
            "contract",
        ),
        (lambda: evaluate(["links", "links"], {}), "Assertion 'links' was frozen twice.", "links"),
        (
            lambda: evaluate(FROZEN, {"bonus": met(READ)}),
            "Assertion 'bonus' is not in the frozen contract.",
            "bonus",
        ),
        (
            lambda: evaluate(FROZEN, {"links": True}),  # type: ignore[dict-item]
            "Assertion 'links' was not judged but given True.",
            "links",
        ),
    ],
)
def test_a_refusal_says_in_a_sentence_what_is_wrong_with_what(
    refuse: Callable[[], object], sentence: str, field: str
) -> None:
    with pytest.raises(ContractError) as refused:
        refuse()
    assert str(refused.value) == sentence
    assert refused.value.field == field
