"""Tasks that depend on one another: what can be worked on now, what no longer can, and what may run side by side."""

from collections.abc import Callable, Mapping
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runs.domain.frontier import MOST_TOLD, Frontier, GraphError, frontier, startable

DIGEST = {"read": [], "draft": ["read"], "verify": ["draft"]}
MANY = 100_000

Record = tuple[dict[str, set[str]], set[str], set[str]]


def refusal(refused: Callable[[], object]) -> tuple[str, str]:
    with pytest.raises(GraphError) as caught:
        refused()
    return str(caught.value), caught.value.field


def field_of(refused: Callable[[], object]) -> str:
    return refusal(refused)[1]


# The worked example of the fourth source document, and what it says about it.


def test_what_has_no_parents_is_ready_at_once() -> None:
    assert frontier(DIGEST, [], []) == Frontier(("read",), (), all_done=False)


def test_once_reading_is_done_only_the_draft_is_ready() -> None:
    assert frontier(DIGEST, ["read"], []) == Frontier(("draft",), (), all_done=False)
    assert frontier(DIGEST, ["read", "draft"], []) == Frontier(("verify",), (), all_done=False)


def test_when_reading_failed_everything_below_it_is_blocked() -> None:
    assert frontier(DIGEST, [], ["read"]) == Frontier((), ("draft", "read", "verify"), all_done=False)


def test_an_independent_task_goes_on_beside_a_failed_one() -> None:
    with_template = {**DIGEST, "template": []}
    assert frontier(with_template, [], ["read"]) == Frontier(("template",), ("draft", "read", "verify"), False)


def test_a_task_below_a_failed_and_a_done_one_is_blocked() -> None:
    two_sources = {"read A": [], "read B": [], "index": ["read A", "read B"], "note": ["read A"]}
    assert frontier(two_sources, ["read A"], ["read B"]) == Frontier(("note",), ("index", "read B"), False)


def test_two_sources_are_read_in_any_order_and_the_index_waits_for_both() -> None:
    two_sources = {"read A": [], "read B": [], "index": ["read A", "read B"]}
    assert frontier(two_sources, [], []).ready == ("read A", "read B")
    assert frontier(two_sources, ["read B"], []).ready == ("read A",)
    assert frontier(two_sources, ["read B", "read A"], []).ready == ("index",)


def test_all_is_done_when_every_task_is() -> None:
    assert frontier(DIGEST, ["verify", "draft", "read"], []) == Frontier((), (), all_done=True)


def test_an_empty_graph_is_done_as_a_plan() -> None:
    assert frontier({}, [], []) == Frontier((), (), all_done=True)


def test_a_revision_loop_is_refused_with_its_tasks() -> None:
    with pytest.raises(GraphError, match="'draft', 'verify', 'draft'") as refused:
        frontier({"read": [], "draft": ["read", "verify"], "verify": ["draft"]}, [], [])
    assert refused.value.field == "needs"


# What is refused.


def test_a_task_that_needs_itself_is_refused() -> None:
    assert field_of(lambda: frontier({"draft": ["draft"]}, [], [])) == "needs"


def test_a_cycle_away_from_the_work_at_hand_is_refused_too() -> None:
    assert field_of(lambda: frontier({**DIGEST, "a": ["c"], "b": ["a"], "c": ["b"]}, ["read"], [])) == "needs"


def test_the_message_about_a_cycle_names_those_on_it_and_nobody_else() -> None:
    looped = {"above": [], "a": ["above", "c"], "b": ["a"], "c": ["b"], "below": ["c"]}
    with pytest.raises(GraphError) as refused:
        frontier(looped, [], [])
    assert "'a', 'b', 'c', 'a'" in str(refused.value)
    assert "above" not in str(refused.value)
    assert "below" not in str(refused.value)


def circle_of(tasks: int) -> dict[str, list[str]]:
    return {str(number): [str((number or tasks) - 1)] for number in range(tasks)}


def test_a_very_long_cycle_is_named_in_part() -> None:
    says, _ = refusal(lambda: frontier(circle_of(5000), [], []))
    assert says.endswith(f" and {5001 - MOST_TOLD} more.")
    assert len(says) < 300


def test_a_cycle_is_named_in_full_up_to_ten_names() -> None:
    told = "These tasks wait for each other, each for the one before it: '0', '1', '2', '3', '4', '5', '6', '7', '8', "
    assert refusal(lambda: frontier(circle_of(9), [], [])) == (f"{told}'0'.", "needs")
    assert refusal(lambda: frontier(circle_of(10), [], [])) == (f"{told}'9' and 1 more.", "needs")


@pytest.mark.parametrize(
    ("needs", "done", "failed", "field"),
    [
        ({"draft": ["publish", "archive"]}, [], [], "needs"),
        (DIGEST, ["publish", "archive"], [], "done"),
        (DIGEST, [], ["publish", "archive"], "failed"),
    ],
)
def test_of_the_names_that_are_no_tasks_the_first_in_the_alphabet_is_told(
    needs: Mapping[str, list[str]], done: list[str], failed: list[str], field: str
) -> None:
    told = refusal(lambda: frontier(needs, done, failed))
    assert told == (f"{field} names 'archive', which is no task here.", field)


def test_a_task_both_done_and_failed_is_refused() -> None:
    told = refusal(lambda: frontier(DIGEST, ["read", "draft"], ["draft", "read"]))
    assert told == ("Task 'draft' is said to be done and to have failed.", "failed")


@pytest.mark.parametrize("failed", [[], ["read"]])
def test_a_task_done_before_its_parent_is_refused(failed: list[str]) -> None:
    told = refusal(lambda: frontier(DIGEST, ["draft"], failed))
    assert told == ("Task 'draft' is said to be done before 'read', which it needs.", "done")


def deep() -> object:
    bottom: list[object] = []
    for _ in range(MANY):
        bottom = [bottom]
    return bottom


NOT_NAMES = [None, True, 1, float("nan"), "", b"read", ("read",), ["read"], {"read": True}, deep()]
NOT_COLLECTIONS = ["read", "", b"read", None, True, 7, float("nan"), {"read": False}, iter(["read"])]


@pytest.mark.parametrize("name", NOT_NAMES, ids=lambda name: type(name).__name__)
def test_what_is_not_a_name_is_refused_wherever_it_stands(name: object) -> None:
    assert field_of(lambda: frontier({"read": [name]}, [], [])) == "needs"  # type: ignore[list-item]
    says = "done holds something that is not a name: names are strings, and not empty."
    assert refusal(lambda: frontier(DIGEST, [name], [])) == (says, "done")  # type: ignore[list-item]
    assert field_of(lambda: frontier(DIGEST, [], ["read", name])) == "failed"  # type: ignore[list-item]
    assert field_of(lambda: startable([name], {}, [])) == "ready"  # type: ignore[list-item]
    assert field_of(lambda: startable([], {"read": [name]}, [])) == "uses"  # type: ignore[list-item]
    assert field_of(lambda: startable([], {}, [name])) == "running"  # type: ignore[list-item]


@pytest.mark.parametrize("task", [None, True, 1, float("nan"), "", b"read", ("read",)])
def test_what_is_not_a_name_is_refused_as_a_task(task: object) -> None:
    assert field_of(lambda: frontier({task: []}, [], [])) == "needs"  # type: ignore[dict-item]
    assert field_of(lambda: startable([], {task: []}, [])) == "uses"  # type: ignore[dict-item]


@pytest.mark.parametrize("names", NOT_COLLECTIONS, ids=lambda names: type(names).__name__)
def test_a_string_or_anything_else_is_not_taken_for_a_collection_of_names(names: object) -> None:
    letters: dict[str, list[str]] = {task: [] for task in ["read", *"read"]}  # a string's letters would all be tasks
    assert field_of(lambda: frontier({**letters, "draft": names}, [], [])) == "needs"  # type: ignore[dict-item]
    assert field_of(lambda: frontier(letters, names, [])) == "done"  # type: ignore[arg-type]
    assert field_of(lambda: frontier(letters, [], names)) == "failed"  # type: ignore[arg-type]
    assert field_of(lambda: startable(names, letters, [])) == "ready"  # type: ignore[arg-type]
    assert field_of(lambda: startable([], {"draft": names}, [])) == "uses"  # type: ignore[dict-item]
    assert field_of(lambda: startable([], letters, names)) == "running"  # type: ignore[arg-type]


@pytest.mark.parametrize(("names", "kind"), [("read", "str"), ({"read": False}, "dict"), (7, "int")])
def test_what_is_no_collection_is_told_by_what_it_is(names: object, kind: str) -> None:
    says = f"done must hold a collection of names, not a {kind}."
    assert refusal(lambda: frontier(DIGEST, names, [])) == (says, "done")  # type: ignore[arg-type]


@pytest.mark.parametrize("graph", [None, [], "read", [("read", [])], {"read"}, 7])
def test_a_graph_that_is_no_mapping_is_refused(graph: object) -> None:
    says = f"needs must map tasks to collections of names, not be a {type(graph).__name__}."
    assert refusal(lambda: frontier(graph, [], [])) == (says, "needs")  # type: ignore[arg-type]
    assert field_of(lambda: startable([], graph, [])) == "uses"  # type: ignore[arg-type]


def test_a_name_given_twice_counts_once() -> None:
    assert frontier({"read": [], "draft": ["read", "read"]}, ["read", "read"], []).ready == ("draft",)


# Large graphs.


def test_a_chain_of_a_hundred_thousand_tasks_does_not_overflow() -> None:
    chain = {f"{number:06}": [f"{number - 1:06}"] if number else [] for number in range(MANY)}
    names = sorted(chain)
    half = frontier(chain, names[: MANY // 2], [names[MANY // 2]])
    assert half == Frontier((), tuple(names[MANY // 2 :]), all_done=False)


def test_a_task_that_everything_needs_blocks_everything() -> None:
    star = {"root": [], **{str(number): ["root"] for number in range(5000)}}
    assert len(frontier(star, [], ["root"]).blocked) == 5001
    assert len(frontier(star, ["root"], []).ready) == 5000


# Any graph.


@st.composite
def records(draw: st.DrawFn) -> Record:
    """A graph without cycles, tasks done after all that they need, and failed ones among the rest."""
    names = draw(st.lists(st.text("abcé文", min_size=1, max_size=3), unique=True, max_size=8))
    needs: dict[str, set[str]] = {}
    done: set[str] = set()
    failed: set[str] = set()
    for place, name in enumerate(names):
        needs[name] = draw(st.sets(st.sampled_from(names[:place]), max_size=3)) if place else set()
        if needs[name] <= done and draw(st.booleans()):
            done.add(name)
        elif draw(st.integers(0, 4)) == 0:
            failed.add(name)
    return needs, done, failed


def by_asking_every_path(needs: Mapping[str, set[str]], done: set[str], failed: set[str]) -> Frontier:
    """The definition, word for word and slowly."""

    def is_blocked(task: str) -> bool:
        return task in failed or any(is_blocked(parent) for parent in needs[task])

    blocked = {task for task in needs if is_blocked(task)}
    ready = {task for task in needs if task not in done and task not in blocked and needs[task] <= done}
    return Frontier(tuple(sorted(ready)), tuple(sorted(blocked)), done == set(needs))


some = settings(max_examples=60)


@some
@given(records())
def test_nothing_is_ready_that_is_done_or_blocked_or_waits_for_something(record: Record) -> None:
    needs, done, failed = record
    found = frontier(needs, done, failed)
    assert not set(found.ready) & (done | set(found.blocked))
    assert all(needs[task] <= done for task in found.ready)
    assert failed <= set(found.blocked)
    assert not done & set(found.blocked)


@some
@given(records())
def test_the_frontier_is_what_the_definition_says(record: Record) -> None:
    assert frontier(*record) == by_asking_every_path(*record)


@some
@given(records(), st.randoms(use_true_random=False))
def test_the_order_in_which_things_are_written_down_does_not_matter(record: Record, chance: Random) -> None:
    needs, done, failed = record
    shuffled = list(needs)
    chance.shuffle(shuffled)
    again = {task: sorted(needs[task], reverse=True) for task in shuffled}
    assert frontier(again, sorted(done), sorted(failed, reverse=True)) == frontier(needs, done, failed)


@some
@given(records())
def test_work_that_goes_well_gets_every_task_done_that_no_failure_blocks(record: Record) -> None:
    needs, done, failed = record
    done, left = set(done), frontier(needs, done, failed)
    while left.ready:
        done |= set(left.ready)
        left = frontier(needs, done, failed)
    assert done | set(left.blocked) == set(needs)
    assert left.all_done == (not failed)


@some
@given(records(), st.data())
def test_an_edge_back_makes_a_cycle_and_is_refused(record: Record, data: st.DataObject) -> None:
    needs, _, _ = record
    edges = [(child, parent) for child in needs for parent in needs[child]]
    if edges:
        child, parent = data.draw(st.sampled_from(edges))
        back = {**needs, parent: needs[parent] | {child}}
        again = dict(reversed(back.items()))
        told = []
        for graph in (back, again):
            with pytest.raises(GraphError) as refused:
                frontier(graph, [], [])
            told.append((str(refused.value), refused.value.field))
        assert told[0] == told[1]
        assert told[0][1] == "needs"


# Side by side.

USES = {"draft": ["digest.md"], "index": ["digest.md", "index.json"], "count": ["index.json"], "look": []}


def test_of_two_tasks_that_write_one_file_the_first_starts() -> None:
    assert startable(["draft", "index"], USES, []) == ("draft",)
    assert startable(["index", "draft"], USES, []) == ("index",)


def test_a_task_waits_for_what_a_running_one_holds_and_others_go_on() -> None:
    assert startable(["index", "look", "count"], USES, ["draft"]) == ("look",)
    assert startable(["count", "look"], USES, ["draft"]) == ("count", "look")


def test_what_an_earlier_task_waits_for_is_kept_for_it() -> None:
    assert startable(["index", "count"], USES, ["draft"]) == ()
    assert startable(["count", "index"], USES, ["draft"]) == ("count",)


def test_tasks_that_share_everything_start_together() -> None:
    assert startable(["b", "a"], {"a": [], "b": []}, []) == ("b", "a")
    assert startable([], {}, []) == ()


def test_a_task_whose_use_is_not_stated_is_refused() -> None:
    assert field_of(lambda: startable(["publish"], USES, [])) == "ready"
    assert field_of(lambda: startable(["draft"], USES, ["publish"])) == "running"


def test_a_task_is_not_started_twice() -> None:
    says = "ready names a task twice, or one that is running already."
    assert refusal(lambda: startable(["look", "look"], USES, [])) == (says, "ready")
    assert refusal(lambda: startable(["look"], USES, ["look"])) == (says, "ready")


def test_ready_tasks_without_an_order_are_refused() -> None:
    says = "ready must be a sequence: who comes first is served first."
    assert refusal(lambda: startable({"draft", "index"}, USES, [])) == (says, "ready")  # type: ignore[arg-type]


resources = st.frozensets(st.sampled_from("xyz"))


@some
@given(st.dictionaries(st.sampled_from("abcdef"), resources), st.data())
def test_whoever_starts_has_its_resources_to_itself_and_whoever_waits_was_too_late(
    uses: dict[str, frozenset[str]], data: st.DataObject
) -> None:
    everybody = data.draw(st.permutations(sorted(uses)))
    running, ready = everybody[: len(uses) // 3], everybody[len(uses) // 3 :]
    together = startable(ready, uses, running)
    assert list(together) == [task for task in ready if task in together]
    for place, task in enumerate(ready):
        earlier = [*running, *ready[:place]]
        assert (task in together) == all(uses[task].isdisjoint(uses[other]) for other in earlier)
