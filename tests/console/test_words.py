"""How the console writes things."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from enum import StrEnum

import pytest
from django.utils import timezone, translation
from django.utils.safestring import SafeString

from runs.domain.budget import Dimension
from runs.domain.contract import Acceptance
from runs.domain.effects import Answer, EffectState
from runs.domain.errors import CLASS_OF_CODE, IN_OUR_WORDS, ErrorClass
from runs.domain.interventions import CATALOGUE, Permission
from runs.domain.states import Outcome, Recovery, State, StopReason
from runs.models import Run
from takeover.console import moments, words
from takeover.templatetags import console


@pytest.mark.parametrize(
    ("codes", "texts"),
    [
        (State, words.STATE),
        (Outcome, words.OUTCOME),
        (StopReason, words.REASON),
        (EffectState, words.EFFECT),
        (Answer, words.ANSWER),
        (Dimension, words.DIMENSION),
        (Recovery, words.RECOVERY),
        (Permission, words.PERMISSION),
        (Acceptance, words.ACCEPTANCE),
        (ErrorClass, words.ERROR),
    ],
)
def test_every_code_has_a_word(codes: type[StrEnum], texts: dict[StrEnum, object]) -> None:
    assert set(texts) == set(codes)


def test_every_way_in_which_a_call_fails_has_a_word() -> None:
    assert set(words.FAILURE) == set(CLASS_OF_CODE) | IN_OUR_WORDS


def test_the_same_code_is_another_word_elsewhere() -> None:
    texts = [
        console.error_word("unknown"),
        words.word("unknown", words.EFFECT),
        words.word("unknown", words.ACCEPTANCE),
    ]
    assert texts == ["unknown error", "outcome unknown", "unknown"]


def test_an_event_is_called_what_the_catalogue_calls_it() -> None:
    for move, kind in CATALOGUE.items():
        assert console.event_word(str(move)) == kind.label
    assert console.event_word("late_result") == "late result"
    assert console.event_word("no_such_event") == "no such event"


def test_every_state_of_an_effect_has_a_mark() -> None:
    assert set(console.MARK_OF_EFFECT) == set(EffectState)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (3599, "59 min"),
        (4320, "1 h 12"),
        (3660, "1 h 01"),
        (86_400, "1 d"),
        (97_200, "1 d 3 h"),
        (864_000 + 7200, "10 d"),
        (-5, "0 s"),
    ],
)
def test_durations_are_said_as_people_say_them(seconds: int, text: str) -> None:
    assert words.spell(timedelta(seconds=seconds)) == text


@pytest.mark.parametrize(
    ("left", "urgency", "used_up"),
    [
        (-86400, "late", 100),
        (-1, "late", 100),
        (60, "soon", 100),
        (840, "soon", 95),
        (960, "calm", 94),
        (7230, "calm", 50),
        (14400, "calm", 8),
        (9 * 86400, "calm", 8),
    ],
)
def test_a_due_time_is_late_soon_or_calm_and_its_bar_fills(left: int, urgency: str, used_up: int) -> None:
    found = moments.due(timezone.now() + timedelta(seconds=left))
    assert found
    assert (found.urgency, found.used_up) == (urgency, used_up)
    assert f'class="fill" width="{used_up}"' in found.with_bar


def test_an_instant_is_taken_from_rows_from_json_and_from_nothing() -> None:
    soon = timezone.now() + timedelta(minutes=9, seconds=30)
    assert "due in 9 min" in console.due(soon)
    assert console.due(soon.isoformat()) == console.due(soon)
    assert {moments.due(None), moments.clock(None), moments.ago(None), moments.until(None)} == {None}
    assert {console.due(None), console.clock(None), console.age(None), console.left(None)} == {"–"}


def test_what_is_neither_met_nor_unmet_is_unknown() -> None:
    for value in ("UNKNOWN", "", "done", "met"):
        assert 'data-mark="unknown">UNKNOWN<' in console.value_mark(value)
    assert 'data-mark="met">MET<' in console.value_mark("MET")


@pytest.mark.parametrize("hidden", ["\u202e", "\u200b", "\u2066", "\x1b", "\u2028", "\ufeff", "\x00"])
def test_signs_that_hide_or_turn_text_are_shown(hidden: str) -> None:
    assert words.visible(f"a{hidden}b") == f"a[U+{ord(hidden):04X}]b"


def test_ordinary_text_stays_as_it_is() -> None:
    for text in ("Zeile eins\nZeile zwei", "退款申请 B456", "naïve — “quoted”"):
        assert words.visible(text) == text


def test_amounts_have_the_unit_of_their_budget() -> None:
    assert console.amount(4320, "wall_time") == "1 h 12"
    assert console.amount(18_000, "cost") == "0.018"
    assert console.amount(3, "steps") == "3"


def test_faces_are_two_letters() -> None:
    assert [console.face(name) for name in ("Alice Lin", "support", "o", "jo.doe")] == ["AL", "SU", "O", "JD"]


@pytest.fixture
def in_chinese() -> Iterator[None]:
    with translation.override("zh-hans"), timezone.override("Asia/Shanghai"):
        yield


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 秒"), (3599, "59 分钟"), (3660, "1 小时 01 分"), (86_400, "1 天"), (97_200, "1 天 3 小时")],
)
def test_durations_are_said_in_chinese(seconds: int, text: str, in_chinese: None) -> None:
    assert words.spell(timedelta(seconds=seconds)) == text


def test_due_times_are_said_in_chinese(in_chinese: None) -> None:
    assert words.spell_due(timedelta(minutes=5)) == "剩 5 分钟"
    assert words.spell_due(timedelta(minutes=-5)) == "逾期 5 分钟"


def test_an_instant_is_given_exactly_with_its_zone_and_offset() -> None:
    at = datetime(2026, 9, 25, 22, 4, 5, tzinfo=UTC)
    assert moments.exactly(timezone.localtime(at)) == "25 September 2026, 22:04:05 UTC"
    with timezone.override("Asia/Kolkata"):
        assert moments.exactly(timezone.localtime(at)) == "26 September 2026, 03:34:05 Asia/Kolkata (UTC+05:30)"


def test_an_instant_is_given_exactly_in_chinese(in_chinese: None) -> None:
    at = timezone.localtime(datetime(2020, 9, 25, 22, 4, 5, tzinfo=UTC))
    assert moments.exactly(at) == "2020年9月26日 06:04:05 Asia/Shanghai (UTC+08:00)"
    found = moments.clock(at)
    assert found
    assert found.words == "2020年9月26日 06:04"


def test_what_is_shown_visibly_is_plain_text_whatever_it_says_of_itself() -> None:
    said = words.visible(SafeString("<b>Paid</b>"))
    assert (said, type(said)) == ("<b>Paid</b>", str)
    assert console.show_recorded(SafeString("<b>Paid</b>")) == "&lt;b&gt;Paid&lt;/b&gt;"


@pytest.mark.parametrize(
    ("reason", "error", "count", "beside"),
    [
        (StopReason.INPUT_INVALID, ErrorClass.INVALID_INPUT, 1, ""),
        (StopReason.CREDENTIAL_REFUSED, ErrorClass.AUTHENTICATION, 1, ""),
        (StopReason.NOT_FOUND, ErrorClass.NOT_FOUND, 3, "×3"),
        (StopReason.EFFECT_UNKNOWN, ErrorClass.TRANSIENT, 1, "transient"),
        (StopReason.SAME_ERROR_REPEATED, ErrorClass.INVALID_OUTPUT, 3, "invalid output ×3"),
        (StopReason.NO_PROGRESS, "", 0, ""),
        (StopReason.NO_PROGRESS, "of_another_version", 2, "of another version ×2"),
    ],
)
def test_an_error_stands_beside_the_reason_only_where_it_says_something_else(
    reason: StopReason, error: str, count: int, beside: str
) -> None:
    run = Run(stop_reason=reason, error_class=error, error_count=count)
    assert words.error_beside(run) == beside


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Report RP-12", 'Report <span class="id">RP-12</span>'),
        ("预订B-4801不", '预订<span class="id">B-4801</span>不'),
        ("since 2026-09-25, up-to-date.", 'since <span class="id">2026-09-25</span>, up-to-date.'),
        ("'originals/field-walk.md'", '&#x27;<span class="key">originals/field-walk.md</span>&#x27;'),
        ("key refund-B456-227c5dd8.", 'key <span class="key">refund-B456-227c5dd8</span>.'),
        ("<b-1>", '&lt;<span class="id">b-1</span>&gt;'),
        ("a read-only look-up of order B456", "a read-only look-up of order B456"),
    ],
)
def test_an_identifier_in_a_sentence_is_kept_from_breaking_at_its_hyphens(text: str, shown: str) -> None:
    assert console.show_recorded(text) == shown
    assert console.as_recorded(text) == shown


def test_a_long_row_of_signs_is_looked_through_once() -> None:
    # Were it looked at again for each sign, this would take minutes.
    for signs in ("1" + "-" * 200_000, "1-" * 100_000, "1" + "-:" * 100_000):
        assert console.show_recorded(signs)


def test_what_would_fill_a_narrow_column_is_wide_and_a_chinese_sign_counts_twice() -> None:
    assert not console.is_wide("original means of payment")
    assert console.is_wide("It rained on 91 days in 2025, nine fewer than in an ordinary year.")
    assert console.is_wide("2025年有91天下雨，比平常年份少九天；五月是自设站以来最干燥的一个月份。")


def test_what_stands_between_words_is_of_the_language_of_the_page() -> None:
    between = [console.comma, console.semicolon, console.colon]
    assert [sign() for sign in between] == [", ", "; ", ": "]
    with translation.override("zh-hans"):
        assert [sign() for sign in between] == ["，", "；", "："]


def test_a_date_is_written_as_every_other() -> None:
    at = datetime(2026, 9, 25, 22, 4, 5, tzinfo=UTC)
    assert moments.date_of(at.date()) == "25 Sep 2026"
    with translation.override("zh-hans"):
        assert moments.date_of(at.date()) == "2026年9月25日"


def test_the_hour_that_a_clock_is_put_back_by_is_told_from_the_one_before() -> None:
    first = datetime(2026, 11, 1, 5, 30, tzinfo=UTC)
    with timezone.override("America/New_York"):
        both = [moments.clock(first), moments.clock(first + timedelta(hours=1))]
        assert len(set(both)) == 2
        assert ["-04:00" in both[0].html, "-05:00" in both[1].html] == [True, True]  # type: ignore[union-attr]
