"""Whether a run gets anywhere: what counts as the same attempt, as the same error, and as a gain."""

import json
from dataclasses import asdict, replace
from hashlib import sha256
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.domain.contract import Value
from runs.domain.effects import EffectState, fingerprint
from runs.domain.errors import ErrorClass
from runs.domain.progress import MOST_REMEMBERED, Gain, Progress, ProgressError, attempt_fingerprint, changes, way_of
from runs.domain.states import Closed

MET, UNMET, UNKNOWN = Value.MET, Value.UNMET, Value.UNKNOWN
NOTHING, SOMETHING = Gain(), Gain(evidence=["report 3"])
NO_NAMES = ["", " ", None, 7, True, "a\x00b", "\ud800", "two\nlines", "x" * 201]

ATTEMPT = ("order service", "read_order", {"order_id": "B456", "at": 1}, {"found": False})


def test_the_same_call_with_the_same_result_is_the_same_attempt() -> None:
    reordered = ("order service", "read_order", {"at": 1, "order_id": "B456"}, {"found": False})
    assert attempt_fingerprint(*ATTEMPT) == attempt_fingerprint(*reordered)


@pytest.mark.parametrize(
    ("place", "other"),
    [(0, "archive"), (1, "look_up"), (2, {"order_id": "A123", "at": 1}), (3, {"found": True}), (3, {})],
)
def test_another_source_operation_question_or_result_is_another_attempt(place: int, other: object) -> None:
    changed = [*ATTEMPT[:place], other, *ATTEMPT[place + 1 :]]
    assert attempt_fingerprint(*changed) != attempt_fingerprint(*ATTEMPT)  # type: ignore[arg-type]


def test_an_attempt_that_one_release_kept_is_recognised_by_the_next() -> None:
    result = sha256(b'{"found":false}').hexdigest()
    params = '{"at":1,"order_id":"B456"}'
    told = f'{{"operation":"read_order","params":{params},"result":"{result}","source":"order service"}}'
    assert attempt_fingerprint(*ATTEMPT) == sha256(told.encode()).hexdigest()


def test_only_what_comes_back_in_a_row_is_a_repetition() -> None:
    progress = Progress().observed("a")
    assert progress.repeats == 0
    assert progress.observed("a").repeats == 1
    assert progress.observed("a").observed("a").repeats == 2
    assert progress.observed("a").observed("b").repeats == 0
    assert progress.observed("b").observed("a").repeats == 0


def test_errors_in_a_row_are_of_one_class_and_one_operation() -> None:
    twice = Progress().failed("read_order", ErrorClass.TRANSIENT).failed("read_order", ErrorClass.TRANSIENT)
    assert twice.errors_in_a_row == 2
    assert twice.failed("read_order", ErrorClass.UNKNOWN).errors_in_a_row == 1
    assert twice.failed("read_policies", ErrorClass.TRANSIENT).errors_in_a_row == 1


def test_attempts_of_one_operation_are_counted_whatever_their_errors() -> None:
    progress = Progress().failed("read_order", ErrorClass.TRANSIENT).failed("read_order", ErrorClass.UNKNOWN)
    assert progress.failed("read_policies", ErrorClass.UNKNOWN).failures == {"read_order": 2, "read_policies": 1}


def test_a_success_ends_the_error_and_clears_its_own_operation_only() -> None:
    failed = Progress().failed("read_order", ErrorClass.TRANSIENT).failed("read_policies", ErrorClass.TRANSIENT)
    progress = failed.succeeded("read_policies")
    assert (progress.error_class, progress.error_operation, progress.errors_in_a_row) == (None, "", 0)
    assert progress.failures == {"read_order": 1}


def test_a_success_is_no_new_evidence_about_a_repeated_claim() -> None:
    assert Progress().observed("a").observed("a").succeeded("read_order").repeats == 1


@pytest.mark.parametrize("name", NO_NAMES, ids=repr)
def test_an_attempt_and_an_operation_need_a_name(name: str) -> None:
    with pytest.raises(ProgressError) as refused:
        Progress().observed(name)
    assert refused.value.field == "attempt"
    assert str(refused.value) == "attempt must be printable text of 1 to 200 characters."
    with pytest.raises(ProgressError) as refused:
        Progress().failed(name, ErrorClass.TRANSIENT)
    assert refused.value.field == "operation"


# What changed


def test_what_changed_is_told_with_its_value_before_and_after() -> None:
    before = {"sources": UNKNOWN, "links": UNMET, "originals": MET}
    after = {"originals": MET, "links": MET, "sources": UNMET}
    assert changes(before, after) == {"links": (UNMET, MET), "sources": (UNKNOWN, UNMET)}
    assert list(changes(before, after)) == ["links", "sources"]


def test_what_was_kept_as_text_is_compared_like_a_value() -> None:
    assert changes({"links": "UNMET", "sources": "MET"}, {"links": MET, "sources": MET}) == {"links": (UNMET, MET)}


def test_an_assertion_of_another_contract_has_not_changed() -> None:
    assert changes({"links": MET}, {"sources": MET}) == {}
    assert changes({}, {"sources": MET}) == {}


@pytest.mark.parametrize("value", ["met", "", None, True, [], float("nan")])
@pytest.mark.parametrize("side", [0, 1])
def test_a_value_that_is_none_of_the_three_is_not_compared(side: int, value: Any) -> None:
    given = [{"sources": MET, "links": MET}, {"sources": MET, "links": MET}]
    given[side]["links"] = value
    with pytest.raises(ProgressError) as refused:
        changes(*given)
    assert refused.value.field == "links"
    assert str(refused.value) == f"Assertion 'links' is {value!r}; it must be MET, UNMET or UNKNOWN."


# What a step gained


@pytest.mark.parametrize(
    "gain",
    [
        Gain(changed={"sources": (UNKNOWN, MET)}),
        Gain(changed={"sources": (UNKNOWN, UNMET)}),
        Gain(changed={"sources": (MET, UNKNOWN), "links": (MET, UNMET)}),
        Gain(evidence=["report 3"]),
        Gain(obstacle="the archive was closed"),
        Gain(hypothesis="sold out"),
        Gain(narrowed=True),
    ],
    ids=repr,
)
def test_each_of_these_is_progress_by_itself(gain: Gain) -> None:
    assert gain.any


def test_what_changed_between_two_readings_is_a_gain() -> None:
    changed = changes({"sources": "UNKNOWN", "links": "UNMET"}, {"sources": "UNKNOWN", "links": "MET"})
    assert Gain(changed=changed).changed == {"links": (UNMET, MET)}
    assert Gain(changed=changed).any


@pytest.mark.parametrize(
    "gain",
    [
        Gain(),
        Gain(expected="a third report", came="the same two reports"),
        Gain(expected="a third report", came="a third report"),  # said, and not found among the evidence
        Gain(changed={"sources": (MET, UNKNOWN)}),
        Gain(changed={"sources": (MET, MET)}),
    ],
    ids=repr,
)
def test_words_and_lost_knowledge_are_no_progress(gain: Gain) -> None:
    assert not gain.any


PLANNED, APPROVED, SENT = EffectState.PLANNED, EffectState.APPROVED, EffectState.SENT
ACKNOWLEDGED, LOST, CONFIRMED = EffectState.ACKNOWLEDGED, EffectState.UNKNOWN, EffectState.CONFIRMED


@pytest.mark.parametrize(
    ("before", "after", "progress"),
    [
        (PLANNED, APPROVED, False),
        (APPROVED, SENT, False),
        (SENT, LOST, False),
        (LOST, LOST, False),
        (EffectState.ABSENT, SENT, False),
        (ACKNOWLEDGED, ACKNOWLEDGED, False),
        (ACKNOWLEDGED, LOST, False),
        (SENT, ACKNOWLEDGED, True),
        (ACKNOWLEDGED, CONFIRMED, True),
        (LOST, CONFIRMED, True),
        (LOST, EffectState.REJECTED, True),
        (LOST, EffectState.ABSENT, True),
        (CONFIRMED, EffectState.COMPENSATED, True),
    ],
)
def test_a_write_is_progress_once_the_authority_confirms_a_change(
    before: EffectState, after: EffectState, progress: bool
) -> None:
    assert Gain(effect=(before, after)).any is progress


def test_nothing_else_makes_another_request_progress() -> None:
    assert not Gain(effect=(EffectState.ABSENT, SENT), evidence=["request 2"], narrowed=True, obstacle="offline").any


@pytest.mark.parametrize("state", EffectState)
def test_a_state_of_an_effect_that_stays_is_no_progress(state: EffectState) -> None:
    assert not Gain(effect=(state, state)).any


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("changed", {"links": ("UNMET", "MET")}, "Assertion 'links' needs its value before and after."),
        ("changed", {"links": (MET,)}, "Assertion 'links' needs its value before and after."),
        ("changed", {"links": (True, False)}, "Assertion 'links' needs its value before and after."),
        ("evidence", "report 3", "evidence must hold references, none of them empty."),
        ("evidence", [""], "evidence must hold references, none of them empty."),
        ("evidence", [None], "evidence must hold references, none of them empty."),
        ("obstacle", " ", "obstacle must be printable text of 1 to 200 characters."),
        ("obstacle", None, "obstacle must be printable text of 1 to 200 characters."),
        ("hypothesis", "\n", "hypothesis must be printable text of 1 to 200 characters."),
        ("hypothesis", True, "hypothesis must be printable text of 1 to 200 characters."),
        ("narrowed", 1, "narrowed must be true or false, not 1."),
        ("narrowed", None, "narrowed must be true or false, not None."),
        ("effect", (SENT,), "A write needs its state before and after."),
        ("effect", ("sent", "confirmed"), "A write needs its state before and after."),
        ("effect", (), "A write needs its state before and after."),
    ],
)
def test_a_gain_that_makes_no_sense_is_refused(field: str, value: Any, says: str) -> None:
    with pytest.raises(ProgressError) as refused:
        Gain(**{field: value})
    assert (str(refused.value), refused.value.field) == (says, field)


def test_new_evidence_ends_a_row_of_repetitions() -> None:
    repeated = Progress().observed("a").observed("a")
    assert repeated.gained(NOTHING).repeats == 1
    assert repeated.gained(SOMETHING).repeats == 0
    assert repeated.gained(SOMETHING).observed("a").repeats == 1


# Hypotheses


def test_a_hypothesis_is_excluded_once() -> None:
    sold_out = Gain(hypothesis="sold out")
    progress = Progress().gained(sold_out)
    assert progress.excluded == ["sold out"]
    assert not progress.news(sold_out).any
    assert progress.news(replace(sold_out, evidence=["report 3"])).any
    assert progress.observed("a").observed("a").gained(sold_out).repeats == 1
    assert progress.gained(sold_out) == progress


def test_a_hypothesis_that_cannot_be_remembered_does_not_count() -> None:
    progress = Progress()
    for number in range(MOST_REMEMBERED):
        progress = progress.gained(Gain(hypothesis=f"hypothesis {number}"))
    assert len(progress.excluded) == MOST_REMEMBERED
    one_more = Gain(hypothesis="one more")
    assert not progress.news(one_more).any
    assert progress.gained(one_more) == progress


# Fruitless attempts

TWO_EACH = {"web search": 2, "archive search": 2}


def fruitless(*kinds: str) -> Progress:
    progress = Progress()
    for kind in kinds:
        progress = progress.gained(NOTHING, kind, TWO_EACH)
    return progress


def test_a_kind_of_attempt_is_closed_at_its_limit() -> None:
    assert fruitless("web search").open_kinds(TWO_EACH) == ("web search", "archive search")
    assert fruitless("web search", "web search").open_kinds(TWO_EACH) == ("archive search",)


def test_a_kind_that_nobody_has_tried_is_open_however_low_its_limit() -> None:
    assert Progress().open_kinds({"phone call": 1}) == ("phone call",)


def test_all_kinds_closed_is_no_progress_and_not_before() -> None:
    three = fruitless("web search", "archive search", "web search")
    assert not three.kinds_closed(TWO_EACH)
    assert three.gained(NOTHING, "archive search", TWO_EACH).kinds_closed(TWO_EACH)


def test_where_no_kind_is_limited_none_is_closed() -> None:
    assert not Progress().kinds_closed({})


def test_a_gain_starts_the_count_of_its_own_kind_again() -> None:
    once_each = fruitless("web search", "archive search").gained(SOMETHING, "web search", TWO_EACH)
    assert once_each.fruitless == {"archive search": 1}
    assert once_each.gained(NOTHING, "web search", TWO_EACH).open_kinds(TWO_EACH) == tuple(TWO_EACH)
    assert once_each.gained(NOTHING, "archive search", TWO_EACH).open_kinds(TWO_EACH) == ("web search",)


@pytest.mark.parametrize("kind", TWO_EACH)
def test_a_gain_reopens_nothing(kind: str) -> None:
    closed = fruitless("web search", "web search")
    assert closed.gained(SOMETHING, kind, TWO_EACH).open_kinds(TWO_EACH) == ("archive search",)


def test_a_step_of_no_limited_kind_is_not_counted() -> None:
    assert fruitless("web search").gained(NOTHING).fruitless == {"web search": 1}
    assert fruitless("web search").gained(SOMETHING).fruitless == {"web search": 1}


def test_a_kind_that_is_not_declared_any_more_is_forgotten() -> None:
    only_archives = {"archive search": 2}
    assert fruitless("web search").gained(NOTHING, "archive search", only_archives).fruitless == {"archive search": 1}


def test_a_person_who_lets_it_go_on_opens_what_was_closed() -> None:
    stuck = fruitless("web search", "web search").observed("a").observed("a").handed_over("t", "A", "A")
    reviewed = stuck.gained(Gain(hypothesis="sold out")).observed("a").handed_over("t", "A", "A").reviewed()
    assert reviewed == Progress(last_attempt="a", excluded=["sold out"])


def test_a_task_that_a_person_lets_go_on_may_come_back_to_whoever_had_it() -> None:
    assert handed("B", "A", start=handed("A", "B").reviewed()).handed_back == 0


@pytest.mark.parametrize("limit", [0, -1, True, False, 1.5, float("nan"), "2", None])
def test_a_limit_that_makes_no_sense_is_refused(limit: Any) -> None:
    with pytest.raises(ProgressError) as refused:
        Progress().open_kinds({"web search": limit})
    assert refused.value.field == "limits"
    assert str(refused.value) == f"The limit of 'web search' must be a whole number from 1, not {limit!r}."
    with pytest.raises(ProgressError) as refused:
        Progress().gained(NOTHING, "web search", {"web search": limit})
    assert refused.value.field == "limits"


@pytest.mark.parametrize("kind", [*(name for name in NO_NAMES if name is not None), "phone call"], ids=repr)
def test_a_kind_that_is_not_declared_is_refused(kind: Any) -> None:
    with pytest.raises(ProgressError) as refused:
        Progress().gained(NOTHING, kind, TWO_EACH)
    assert refused.value.field == "kind"


def test_a_kind_without_a_name_cannot_be_declared() -> None:
    with pytest.raises(ProgressError) as refused:
        Progress().kinds_closed({" ": 2})
    assert refused.value.field == "limits"


@given(st.lists(st.tuples(st.sampled_from(sorted(TWO_EACH)), st.booleans()), max_size=12))
def test_a_kind_closes_with_its_second_fruitless_attempt_in_a_row(steps: list[tuple[str, bool]]) -> None:
    progress = Progress()
    for kind, found in steps:
        progress = progress.gained(SOMETHING if found else NOTHING, kind, TWO_EACH)
    for kind in TWO_EACH:
        told = "".join("x" if found else "-" for of, found in steps if of == kind)
        assert (kind not in progress.open_kinds(TWO_EACH)) == ("--" in told)


# Hand-overs

TASK = "f" * 64


def handed(*ring: str, task: str = TASK, start: Progress | None = None) -> Progress:
    progress = start or Progress()
    for giver, taker in pairwise(ring):
        progress = progress.handed_over(task, giver, taker)
    return progress


@pytest.mark.parametrize(
    ("ring", "handed_back"),
    [
        ("AB", 0),
        ("ABCD", 0),
        ("ABA", 1),
        ("ABAB", 2),
        ("ABCA", 1),
        ("ABCB", 1),
        ("ABCDEA", 1),
        ("ABCABC", 3),
        ("AA", 1),
    ],
)
def test_a_task_that_comes_back_to_somebody_who_had_it_goes_round(ring: str, handed_back: int) -> None:
    assert handed(*ring).handed_back == handed_back


def test_with_new_evidence_in_between_it_may_come_back() -> None:
    assert handed("B", "A", start=handed("A", "B").gained(SOMETHING)).handed_back == 0
    assert handed("C", "A", start=handed("A", "B", "C").gained(SOMETHING)).handed_back == 0
    assert handed("B", "A", start=handed("A", "B").gained(NOTHING)).handed_back == 1


def test_evidence_allows_it_once_and_not_for_good() -> None:
    back = handed("B", "A", start=handed("A", "B").gained(SOMETHING))
    assert handed("A", "B", start=back).handed_back == 1


def test_new_evidence_ends_going_round() -> None:
    assert handed("A", "B", "A").gained(SOMETHING).handed_back == 0


def test_another_task_between_the_same_agents_is_no_repetition() -> None:
    assert handed("B", "A", task="another", start=handed("A", "B")).handed_back == 0


def test_a_hypothesis_that_was_excluded_before_is_no_new_evidence() -> None:
    sold_out = Gain(hypothesis="sold out")
    start = handed("A", "B", start=Progress().gained(sold_out)).gained(sold_out)
    assert handed("B", "A", start=start).handed_back == 1


def test_more_hands_than_can_be_remembered_are_no_progress_either() -> None:
    agents = [f"agent {number}" for number in range(MOST_REMEMBERED + 1)]
    progress = handed(*agents[:-1])
    assert progress.handed_back == 0
    assert handed(*agents[-2:], start=progress).handed_back == 1


@pytest.mark.parametrize("name", NO_NAMES, ids=repr)
@pytest.mark.parametrize("argument", ["task", "giver", "taker"])
def test_a_hand_over_names_the_task_and_both_sides(argument: str, name: Any) -> None:
    with pytest.raises(ProgressError) as refused:
        Progress().handed_over(**{"task": TASK, "giver": "A", "taker": "B", argument: name})
    assert refused.value.field == argument


@given(st.lists(st.sampled_from("ABCD"), min_size=2, max_size=10))
def test_a_chain_of_hands_goes_round_when_somebody_comes_up_twice(ring: list[str]) -> None:
    assert (handed(*ring).handed_back > 0) == (len(set(ring)) < len(ring))


# The memory


def test_what_is_remembered_does_not_grow_with_the_runs_history() -> None:
    progress = Progress()
    sizes = []
    for number in range(2_000):
        gain = Gain(hypothesis=f"{number:0200}", evidence=["report"] if number % 97 == 0 else [])
        progress = (
            progress.observed(f"{number:064}")
            .failed("read_order", ErrorClass.TRANSIENT)
            .handed_over(f"{number:0200}", f"giver {number:0190}", f"taker {number:0190}")
            .gained(gain, f"kind {number % 5}", dict.fromkeys((f"kind {n}" for n in range(5)), 2))
        )
        sizes.append(len(json.dumps(asdict(progress))))
    assert max(sizes) < MOST_REMEMBERED * 4 * 210
    assert max(sizes[1_000:]) <= max(sizes[:1_000]) + 10  # the figures' own digits


def test_what_is_remembered_survives_being_kept_as_json() -> None:
    progress = (
        fruitless("web search")
        .gained(Gain(hypothesis="sold out"))
        .observed("a")
        .observed("a")
        .handed_over(TASK, "A", "B")
        .handed_over(TASK, "B", "A")
        .failed("read_order", ErrorClass.TRANSIENT)
    )
    kept = json.loads(json.dumps({name: value for name, value in asdict(progress).items() if value}))
    known = {**kept, "error_class": ErrorClass(kept["error_class"])}
    assert {"excluded", "fruitless", "holders", "handed_back"} <= kept.keys()
    assert replace(Progress(), **known) == progress
    assert replace(Progress(), **known).handed_over(TASK, "A", "B").handed_back == 2


# Ways closed, and plans rejected


def test_a_closed_way_is_remembered_until_a_person_lets_the_run_go_on() -> None:
    progress = Progress().close("read_order", Closed.NOT_THERE)
    assert progress.closed == {"read_order": "not_found"}
    assert progress.reviewed().closed == {}


def test_a_single_call_is_another_way_than_its_whole_operation() -> None:
    assert way_of("read", {"id": 1}) == way_of("read", {"id": 1}) != way_of("read", {"id": 2}) != way_of("read")


def test_a_rejected_plan_is_remembered_by_its_digest_with_the_reason() -> None:
    progress = Progress().reject("a" * 64, "Too much.").reject("b" * 64, "Too late.")
    assert progress.rejected == {"a" * 64: "Too much.", "b" * 64: "Too late."}
    assert progress.reviewed().rejected == progress.rejected  # whoever lets it go on has it put up again, or does not


def test_what_is_remembered_of_ways_and_plans_has_an_end_and_the_oldest_goes() -> None:
    progress = Progress()
    for number in range(MOST_REMEMBERED + 5):
        progress = progress.close(f"way {number}", Closed.NOTHING_NEW).reject(f"{number:064}", "No.")
    assert len(progress.closed) == len(progress.rejected) == MOST_REMEMBERED
    assert "way 4" not in progress.closed
    assert f"way {MOST_REMEMBERED + 4}" in progress.closed


@pytest.mark.parametrize("name", ["", " ", "two\nlines", "x" * 201, 7])
def test_a_way_that_has_no_name_is_refused(name: Any) -> None:
    with pytest.raises(ProgressError) as refused:
        Progress().close(name, Closed.NOT_THERE)
    assert refused.value.field == "way"
    with pytest.raises(ProgressError) as refused:
        Progress().reject(name, "No.")
    assert refused.value.field == "digest"


def test_once_everything_is_read_again_the_same_call_is_no_repetition() -> None:
    stuck = Progress().observed("a").observed("a")
    assert stuck.repeats == 1
    assert stuck.read_again().observed("a").repeats == 0


def test_once_everything_is_read_again_nothing_but_the_last_attempt_is_forgotten() -> None:
    before = Progress(last_attempt="a", repeats=2, claims=3, closed={"read": "not_found"})
    assert before.read_again() == replace(before, last_attempt="", repeats=0)


def test_a_way_is_named_after_its_operation_and_a_call_after_its_arguments_as_well() -> None:
    assert way_of("read") == "read"
    assert way_of("read", {"id": 1}) == f"read {fingerprint({'id': 1})[:16]}"
