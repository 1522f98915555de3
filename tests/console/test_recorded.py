"""Sentences of the record in the viewer's language."""

from collections.abc import Iterator

import pytest
from django.utils import translation

from runs.domain.interventions import CATALOGUE, Standing, why_not
from runs.domain.states import Move, Outcome, State, StopReason
from takeover.catalogue import chinese
from takeover.console import recorded
from takeover.templatetags import console


@pytest.fixture(autouse=True)
def _in_chinese() -> Iterator[None]:
    with translation.override("zh-hans"):
        yield


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("Nobody answered. That says nothing about the write.", "无人答复。这不能说明写操作的结果。"),
        ("May a refund of 59.00 EUR be requested for order B456?", "可以为订单 B456 申请退款 59.00 EUR 吗？"),
        ("U-88 may not act on order B456", "U-88 无权处理订单 B456"),
        ("alice: Approve.", "alice：批准。"),
        ("support may act on order B456", "support 有权处理订单 B456"),
        ("The run has ended (completed).", "运行已结束（已完成）。"),
        ("Nobody decided in time.", "没有人按时决定。"),
    ],
)
def test_a_sentence_of_ours_is_shown_in_the_viewers_language(written: str, shown: str) -> None:
    assert recorded.plain(written) == shown


def test_a_refusal_made_of_parts_is_shown_with_each_part_translated() -> None:
    runs = Standing(State.EXECUTING, None, None, False, False, False, 3)
    assert (
        recorded.plain(why_not(CATALOGUE[Move.UNPAUSED], runs)) == "须在运行状态为受阻时才可用；此运行的状态为执行中。"
    )
    stopped = Standing(State.BLOCKED, Outcome.NEEDS_HUMAN, StopReason.NO_PROGRESS, False, False, False, 3)
    assert recorded.plain(why_not(CATALOGUE[Move.POLICY_CONFIRMED], stopped)) == (
        "用于因以下原因停止的运行：事实有冲突或缺少事实。"
    )


@pytest.mark.parametrize("written", ["We had a call about this. It is fine.", "Foo: bar.", "退款", "support", "", " "])
def test_what_is_not_ours_stays_as_it_was_written(written: str) -> None:
    assert recorded.parts(written) == [recorded.Part(written, False)]


@pytest.mark.parametrize(
    "written",
    [
        "The refund of order Z307 is paused. May it go on?",
        "The refund of order L195 was accepted before the cancellation. Undo it, or go on and keep it?",
        "There is no booking B-4803 for this seat.",
    ],
)
def test_a_sentence_is_told_right_or_not_at_all(written: str) -> None:
    told = recorded.parts(written)
    sentences = [part.text.strip() for part in told if not part.is_ours]
    assert all(sentence in recorded.SENTENCE_END.split(written) or " " not in sentence for sentence in sentences), told


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("The receipt names order D041, not M604", "回执写明的订单是 D041，而不是 M604"),
        ("The customer may act on this order: not entitled", "客户可以处理此订单：无权"),
        (
            "What was paid is what was accepted: 89.89 EUR paid, 89.90 EUR accepted",
            "已付金额与已接受的金额一致：已付 89.89 EUR，已受理 89.90 EUR",
        ),
        (
            "Is participant P-305 at event W201 let in, on 2026-10-24, 40.00 EUR?",
            "活动 W201 的参加者 P-305 是否准入，2026-10-24，40.00 EUR？",
        ),
        ("receipt R790 names order D014 and this operation key", "回执 R790 写明订单 D014 和此操作键"),
        ("Policies v3 and v4 both claim to be in force on 2026-09-25.", "政策 v3 和 v4 都声称在 2026-09-25 生效。"),
        ("order version 1, policy v3", "订单第 1 版，政策 v3"),
        ("one seat less for everybody else; 15.00 EUR are owed", "其他人少一个名额；应付 15.00 EUR"),
        ("Request R792 is paid", "申请 R792 的状态：已付款"),
    ],
)
def test_chinese_reads_as_if_it_had_been_written_so(written: str, shown: str) -> None:
    assert recorded.plain(written) == shown


# Every sentence of the record that has holes, and kinds of what stands in them.
PATTERNS = {
    str(message.id): str(message.string)
    for message in chinese.kept()
    if message.context == recorded.CONTEXT and recorded.HOLE.search(str(message.id))
}
FILLED_IN = {
    "numbers": ("Q7701", "K-31", "M45", "B-8802", "T613", "X-94"),
    "amounts": ("11.10 EUR", "22.20 EUR", "33.30 EUR", "44.40 EUR", "55.50 EUR", "66.60 EUR"),
    "names": ("alice", "bob", "charlie", "dora", "emil", "frida"),
    "Chinese": ("王芳", "李雷", "张三", "赵四", "钱五", "孙六"),
    "quotations": ("“some words”", "“and others”", "“and more”", "“and a few”", "“and so on”", "“and an end”"),
}


@pytest.mark.parametrize("kind", FILLED_IN)
def test_no_sentence_is_taken_for_another_and_its_values_stay_as_they_are(kind: str) -> None:
    def fill(pattern: str) -> str:
        return recorded.HOLE.sub(lambda hole: FILLED_IN[kind][int(hole[1])], pattern)

    told = {pattern: recorded.plain(fill(pattern)) for pattern in PATTERNS}
    left = {pattern for pattern, shown in told.items() if shown == fill(pattern)}
    wrong = {
        fill(pattern): shown
        for pattern, shown in told.items()
        if pattern not in left and "".join(shown.split()) != "".join(fill(PATTERNS[pattern]).split())
    }
    assert wrong == {}
    assert len(left) < len(PATTERNS) / 5, "most are recognised"


def test_a_text_that_two_sentences_claim_is_left_in_english() -> None:
    one, other = "\x04".join(("record", "lot {0} of B-2")), "\x04".join(("record", "lot A-1 of {0}"))
    assert recorded.Phrases({one: "B-2 的批次 {0}", other: "批次 A-1，属于 {0}"}).tell("lot A-1 of B-2") is None


def test_what_stays_in_english_is_marked_as_english_and_isolated() -> None:
    assert console.show_recorded("We had a call.") == '<bdi lang="en">We had a call.</bdi>'
    assert console.show_recorded("order B456") == '订单 <bdi lang="en">B456</bdi>'


def test_what_is_filled_in_stays_text_and_shows_what_it_hides() -> None:
    shown = console.show_recorded("<script>\u202e may act on order B456")
    assert shown == '<bdi lang="en">&lt;script&gt;[U+202E]</bdi> 有权处理订单 <bdi lang="en">B456</bdi>'


def test_in_english_a_sentence_is_shown_as_it_was_written() -> None:
    with translation.override("en"):
        assert console.show_recorded("Order <B456> has ended.") == "Order &lt;B456&gt; has ended."
        assert recorded.plain("The run has ended (completed).") == "The run has ended (completed)."


def test_a_text_that_is_made_to_take_long_is_given_up() -> None:
    hostile = "a, " * 400 + "The run: " * 60
    looked_at = recorded.parts(hostile[: recorded.LONGEST])
    assert looked_at[0].text.startswith("a, ")
    assert recorded.parts("The run has ended (" * 200) == [recorded.Part("The run has ended (" * 200, False)]
