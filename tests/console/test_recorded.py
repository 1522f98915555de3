"""Sentences of the record in the viewer's language."""

from collections.abc import Iterator

import pytest
from django.utils import translation

from runs.domain.interventions import CATALOGUE, Standing, why_not
from runs.domain.states import Move, Outcome, State, StopReason
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
