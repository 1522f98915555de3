import unicodedata
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runs.domain.effects import Effect, EffectState, WritePlan
from runs.domain.states import Outcome, StopReason
from runs.domain.telling import (
    LANGUAGES,
    LONGEST,
    MAY_SAY,
    NEEDS,
    Quote,
    Statement,
    Wording,
    WordingError,
    as_sentence,
    may_say,
    needs,
    readable,
    tell,
)
from runs.workflows.refund_request import CUSTOMER_SAYS, WORKFLOW

NOW = datetime(2026, 9, 25, 10, tzinfo=UTC)
GIVEN = {"order_id": "B456"}
PLAN = WritePlan("submit", "order B456", GIVEN, (), "v1", "accepted", "cancel it", "little")
NAMED = {"order_id": "B456", "operation_key": "refund-1"}


def written(state: EffectState, /, receipt: Mapping[str, Any] | None = None, **more: Any) -> Effect:
    return replace(Effect("refund-1", state, PLAN, NOW, receipt=receipt), **more)


def accepted(number: object = "R789", **more: Any) -> Effect:
    return written(EffectState.CONFIRMED, NAMED | {"request_id": number}, **more)


def said(reason: StopReason | None, *effects: Effect, order: str = "B456") -> str:
    return tell(reason, CUSTOMER_SAYS, {"order_id": order}, effects)["en"]


def worded(**texts: Any) -> Wording:
    """The refund request's wording with some statements' texts replaced, or left out (None)."""
    kept = {statement: texts.get(statement, text) for statement, text in CUSTOMER_SAYS.texts.items()}
    return replace(CUSTOMER_SAYS, texts={statement: text for statement, text in kept.items() if text is not None})


# The tables


def test_of_a_run_closed_unresolved_only_that_is_said_whatever_it_had_stopped_for() -> None:
    for reason in StopReason:
        told = tell(reason, CUSTOMER_SAYS, GIVEN, [accepted()], closed=True)
        assert told["en"] == "We could not establish what became of your refund request for order B456."
        assert told["zh"] == "很抱歉，我们最终未能确认您订单 B456 的退款申请的结果。"


@pytest.mark.parametrize("reason", [None, *StopReason])
def test_however_a_run_stopped_something_may_be_said_in_every_language(reason: StopReason | None) -> None:
    told = tell(reason, CUSTOMER_SAYS, GIVEN, ())
    assert tuple(told) == LANGUAGES
    assert all(told.values())
    assert not [text for text in told.values() if "None" in text or "{" in text]


@pytest.mark.parametrize("reason", [None, *StopReason])
def test_only_the_last_statement_of_a_line_needs_nothing(reason: StopReason | None) -> None:
    *stronger, last = may_say(reason)
    assert needs(last).write is None
    # COMPLETED rests on the contract, so only its number needs the receipt.
    assert all(needs(statement).write for statement in stronger)


def test_every_outcome_has_its_line_and_every_statement_has_its_place() -> None:
    assert set(MAY_SAY) == {None, *Outcome}
    placed = {statement for reason in (None, *StopReason) for statement in may_say(reason)}
    assert placed | set(may_say(None, closed=True)) == set(Statement)


def test_what_quotes_a_receipt_rests_on_a_write_whose_answer_gave_it() -> None:
    assert {statement: wanted.write for statement, wanted in NEEDS.items() if wanted.quotes} == {
        Statement.ACCEPTED_UNDER_NUMBER: EffectState.CONFIRMED,
        Statement.RECEIVED_UNDER_REFERENCE: EffectState.ACKNOWLEDGED,
    }


# From verified facts only


def test_completed_is_told_with_the_receipts_number_in_both_languages() -> None:
    told = tell(StopReason.CONTRACT_MET, CUSTOMER_SAYS, GIVEN, [accepted()])
    assert told["en"].startswith("Your refund request for order B456 was accepted under number R789.")
    assert "订单 B456 的退款申请已受理，受理编号为 R789。" in told["zh"]


@pytest.mark.parametrize(
    "effect",
    [
        accepted(None),
        accepted(""),
        accepted(True),
        accepted("R789\u202e"),
        accepted("R789\n"),
        accepted("R789 and it was paid"),
        accepted("R" * 65),
        written(EffectState.CONFIRMED),
        written(EffectState.CONFIRMED, {"request_id": "R789"}),
        written(EffectState.CONFIRMED, NAMED | {"request_id": "R789", "order_id": "D041"}),
        written(EffectState.CONFIRMED, NAMED | {"request_id": "R789", "operation_key": "refund-2"}),
        written(EffectState.ACKNOWLEDGED, NAMED | {"request_id": "R789"}),
        written(EffectState.UNKNOWN, NAMED | {"request_id": "R789"}),
        accepted(undoes="refund-0"),
        accepted(plan=replace(PLAN, params={"order_id": "D041"})),
    ],
)
def test_a_number_that_is_not_verified_is_left_out_and_not_repaired(effect: Effect) -> None:
    told = said(StopReason.CONTRACT_MET, effect)
    assert told.startswith("Your refund request for order B456 was accepted. ")
    assert "R789" not in told


def test_the_number_is_of_the_write_that_did_it_not_of_the_one_that_was_to_undo_it() -> None:
    undoing = replace(accepted("R790"), key="refund-1-undo", undoes="refund-1")
    assert "R789" in said(StopReason.CONTRACT_MET, accepted(), undoing)


@pytest.mark.parametrize(
    ("effects", "says"),
    [
        (
            [written(EffectState.ACKNOWLEDGED, NAMED | {"tracking_id": "T-7"})],
            "is being verified. Your reference is T-7.",
        ),
        ([written(EffectState.ACKNOWLEDGED, {"tracking_id": "T-7"})], "was received and is being verified."),
        ([written(EffectState.ACKNOWLEDGED)], "was received and is being verified."),
        ([written(EffectState.UNKNOWN, NAMED | {"tracking_id": "T-7"})], "We are verifying whether"),
        ([], "We are verifying whether"),
    ],
)
def test_pending_is_told_as_far_as_the_service_acknowledged_it(effects: list[Effect], says: str) -> None:
    told = said(StopReason.EFFECT_PENDING, *effects)
    assert says in told
    assert ("T-7" in told) == ("Your reference" in says)


def test_without_any_answer_nothing_is_said_but_that_it_is_being_verified() -> None:
    told = said(StopReason.EFFECT_UNKNOWN, written(EffectState.UNKNOWN, NAMED | {"tracking_id": "T-7"}))
    assert told == "We are verifying whether your refund request for order B456 was received."


def test_that_the_service_refused_is_said_of_a_refused_write_only() -> None:
    assert said(StopReason.REFUSED_BY_SERVICE, written(EffectState.REJECTED)).startswith("The refund service declined")
    assert said(StopReason.REFUSED_BY_SERVICE).startswith("Your refund request for order B456 was declined.")


def test_somebody_who_is_not_entitled_is_told_nothing_of_the_order_not_even_its_number() -> None:
    told = tell(StopReason.NOT_AUTHORISED, CUSTOMER_SAYS, GIVEN, [accepted()])
    assert not [text for text in told.values() if "B456" in text or "R789" in text]


@pytest.mark.parametrize("reason", [reason for reason in StopReason if reason is not StopReason.CONTRACT_MET])
def test_only_a_completed_run_tells_a_number_or_that_it_was_accepted(reason: StopReason) -> None:
    told = tell(reason, CUSTOMER_SAYS, GIVEN, [accepted()])
    assert "R789" not in told["en"] + told["zh"]
    assert "accepted" not in told["en"]
    assert "已受理" not in told["zh"]


@pytest.mark.parametrize("reason", [reason for reason in StopReason if reason.outcome is Outcome.LIMIT_REACHED])
def test_a_limit_is_neither_failed_nor_done(reason: StopReason) -> None:
    told = tell(reason, CUSTOMER_SAYS, GIVEN, [accepted()])
    assert "not yet confirmed" in told["en"]
    assert "尚未得到确认" in told["zh"]
    for claim in ("fail", "done", "complete", "失败", "完成", "成功"):
        assert claim not in told["en"] + told["zh"]


@pytest.mark.parametrize(
    ("reason", "says"),
    [
        (StopReason.CANCELLED_UNSENT, "was not submitted"),
        (StopReason.CANCELLED_ABSENT, "did not take effect"),
        (StopReason.CANCELLED_COMPENSATED, "was undone"),
    ],
)
def test_a_cancellation_says_what_became_of_the_request(reason: StopReason, says: str) -> None:
    assert says in said(reason, written(EffectState.COMPENSATED, NAMED))


# What is put into a text


@given(st.text(max_size=3 * LONGEST))
@settings(max_examples=60)
def test_a_subject_is_one_short_line_of_visible_characters(text: str) -> None:
    line = readable(text)
    assert len(line) <= LONGEST
    assert line == line.strip()
    assert not {unicodedata.category(sign)[0] for sign in line.replace(" ", "")} & {"C", "Z"}


def test_a_subject_cannot_turn_round_hide_or_break_what_stands_beside_it() -> None:
    assert readable("B4\u202e5\u200b6\x00\r\nYour money\u2028was\tpaid \ud800") == "B456 Your money was paid"


def test_a_subject_stays_whole_up_to_its_longest_and_is_cut_beyond_it() -> None:
    assert readable("x" * LONGEST) == "x" * LONGEST
    assert readable("x" * (LONGEST + 1)) == "x" * (LONGEST - 1) + "…"


def test_a_subject_with_braces_is_text() -> None:
    assert said(None, order="{number} {0}") == "Your refund request for order {number} {0} is being worked on."


# The wording


def test_a_statement_without_words_is_refused() -> None:
    with pytest.raises(WordingError, match=r"^undone\.en: there is no text") as refused:
        worded(undone=None)
    assert refused.value.field == "undone.en"


@pytest.mark.parametrize("left", [{"en": "It was undone."}, {"en": "It was undone.", "zh": " "}])
def test_a_missing_language_is_refused(left: dict[str, str]) -> None:
    with pytest.raises(WordingError, match="no text") as refused:
        worded(undone=left)
    assert refused.value.field == "undone.zh"


def test_a_language_and_a_statement_that_nobody_tells_are_refused() -> None:
    with pytest.raises(WordingError, match="in 'fr'") as refused:
        worded(undone={"en": "It was undone.", "zh": "已撤销。", "fr": "Annulé."})
    assert refused.value.field == "undone.fr"
    more: dict[Any, Any] = {**CUSTOMER_SAYS.texts, "paid": {"en": "Paid.", "zh": "已退款。"}}
    with pytest.raises(WordingError, match="'paid' is nothing that may be said") as refused:
        replace(CUSTOMER_SAYS, texts=more)
    assert refused.value.field == "paid"


@pytest.mark.parametrize(
    ("statement", "text", "says"),
    [
        (Statement.UNDONE, "{colour}", "may not name 'colour'"),
        (Statement.UNDONE, "{number}", "may not name 'number'"),
        (Statement.WITH_A_PERSON, "{number}", "may not name 'number'"),
        (Statement.ACCEPTED_UNDER_NUMBER, "{number} {reference}", "may not name 'reference'"),
        (Statement.NOT_ENTITLED, "{subject}", "may not name 'subject'"),
        (Statement.UNDONE, "{}", "may not name ''"),
        (Statement.UNDONE, "{subject.__class__}", "may not name 'subject.__class__'"),
        (Statement.UNDONE, "{subject[0]}", "may not name"),
        (Statement.UNDONE, "{subject!r}", "may not name"),
        (Statement.UNDONE, "{subject:>99}", "may not name"),
        (Statement.UNDONE, "{subject", "expected '}'"),
        (Statement.ACCEPTED_UNDER_NUMBER, "Accepted: {subject}", "has to name 'number'"),
        (Statement.RECEIVED_UNDER_REFERENCE, "Received: {subject}", "has to name 'reference'"),
    ],
)
def test_a_text_names_what_its_statement_has_verified_and_nothing_else(
    statement: Statement, text: str, says: str
) -> None:
    with pytest.raises(WordingError, match=says) as refused:
        worded(**{statement: {**CUSTOMER_SAYS.texts[statement], "zh": text}})
    assert refused.value.field == f"{statement}.zh"


def test_all_that_a_text_may_not_name_is_listed() -> None:
    with pytest.raises(WordingError) as refused:
        worded(undone={"en": "{subject} {number} {colour}", "zh": "已撤销。"})
    assert str(refused.value) == "undone.en: the text may not name 'colour', 'number'."


def test_a_service_without_references_is_told_without() -> None:
    wording = replace(CUSTOMER_SAYS, quoted={Quote.NUMBER: "request_id"})
    effect = written(EffectState.ACKNOWLEDGED, NAMED | {"tracking_id": "T-7"})
    assert tell(StopReason.EFFECT_PENDING, wording, GIVEN, [effect])["en"].endswith("and is being verified.")


def test_a_workflow_tells_only_about_what_its_input_must_name() -> None:
    with pytest.raises(ValueError, match="'refund_request' tells customers about 'customer_id'"):
        replace(WORKFLOW, customer_says=replace(CUSTOMER_SAYS, subject="customer_id"))


def test_both_languages_of_a_statement_name_the_same() -> None:
    values = {"subject": "<s>", Quote.NUMBER: "<n>", Quote.REFERENCE: "<r>"}
    for statement, texts in CUSTOMER_SAYS.texts.items():
        english, chinese = ({v for v in values.values() if v in texts[lang].format_map(values)} for lang in LANGUAGES)
        assert english == chinese, statement


def test_a_number_for_which_no_field_is_declared_is_not_quoted_whatever_the_receipt_holds() -> None:
    nowhere = replace(CUSTOMER_SAYS, quoted={})
    told = tell(StopReason.CONTRACT_MET, nowhere, GIVEN, [written(EffectState.CONFIRMED, NAMED | {"": "T-7"})])
    assert "T-7" not in told["en"]


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ("No experience", "No experience."),
        (" No experience. ", "No experience."),
        ("Why now?", "Why now?"),
        ("They said “no.”", "They said “no.”"),
        ("They said “no”", "They said “no”."),
        ("(see the note)", "(see the note)."),
        ("没有空位。", "没有空位。"),
        ("没有空位", "没有空位."),
        ("", ""),
    ],
)
def test_what_a_person_typed_ends_where_the_next_sentence_begins(typed: str, sentence: str) -> None:
    assert as_sentence(typed) == sentence
