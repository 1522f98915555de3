"""Which tasks of a graph can be worked on now, and which no longer can (docs/rules.md, 11).

The graph says one thing only: what a task needs before it. Two tasks that must not run at once, because they write the
same file, are no edge but a resource, and `startable` looks after those. Work that goes back for revision is a move of
the run (`states`), not a way round in the graph.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from runs.domain.errors import DomainError, quoted

MOST_TOLD = 10  # tasks of a cycle that a message names


class GraphError(DomainError):
    """Tasks that cannot be as they are described: a circle, an unknown name, or a record that contradicts the graph."""


@dataclass(frozen=True)
class Frontier:
    """What a graph allows now. Names are in alphabetical order; a task that waits for another is in neither list.

    An empty graph is `all_done`: its plan leaves nothing to do. That says nothing about the run's contract, which is
    never empty and is judged on evidence alone (`contract.combine`).
    """

    ready: tuple[str, ...]  # not done, not blocked, everything they need is done
    blocked: tuple[str, ...]  # failed, or below one that failed
    all_done: bool


def frontier(needs: Mapping[str, Collection[str]], done: Collection[str], failed: Collection[str]) -> Frontier:
    """What can be worked on in the graph `needs` (each task: the tasks it needs), in time linear in tasks and edges.

    `done` are the tasks whose results are there on evidence, never those that were merely handed out. Raises GraphError
    with the field `needs`, `done` or `failed`.
    """
    parents = _named_sets(needs, "needs")
    is_done = frozenset(_names(done, "done"))
    has_failed = frozenset(_names(failed, "failed"))
    for names, field in ((frozenset().union(*parents.values()), "needs"), (is_done, "done"), (has_failed, "failed")):
        _refuse_unknown(names, parents, field)
    if both := is_done & has_failed:
        raise GraphError(f"Task {quoted(min(both))} is said to be done and to have failed.", "failed")

    blocked = set(has_failed)
    for task in _in_order(parents):
        if task in is_done and (missing := parents[task] - is_done):
            raise GraphError(
                f"Task {quoted(task)} is said to be done before {quoted(min(missing))}, which it needs.", "done"
            )
        if not blocked.isdisjoint(parents[task]):
            blocked.add(task)
    ready = [task for task in parents.keys() - is_done - blocked if parents[task] <= is_done]
    return Frontier(tuple(sorted(ready)), tuple(sorted(blocked)), all_done=len(is_done) == len(parents))


def startable(ready: Sequence[str], uses: Mapping[str, Collection[str]], running: Collection[str]) -> tuple[str, ...]:
    """Which of the `ready` tasks may start together now, beside those `running`: first come, first served.

    `uses` says for every task which resources it must have to itself; one that shares everything says so with an empty
    collection. Raises GraphError with the field `ready`, `uses` or `running`.
    """
    wanted = _named_sets(uses, "uses")
    if not isinstance(ready, Sequence):
        raise GraphError("ready must be a sequence: who comes first is served first.", "ready")
    queue, at_work = _names(ready, "ready"), frozenset(_names(running, "running"))
    for names, field in ((frozenset(queue), "ready"), (at_work, "running")):
        _refuse_unknown(names, wanted, field)
    if len(set(queue)) < len(queue) or not at_work.isdisjoint(queue):
        raise GraphError("ready names a task twice, or one that is running already.", "ready")

    taken = {resource for task in at_work for resource in wanted[task]}
    together = []
    for task in queue:
        if taken.isdisjoint(wanted[task]):
            together.append(task)
        # Also when it has to wait: a task that needs two resources would be passed over again and again otherwise.
        taken |= wanted[task]
    return tuple(together)


def _names(given: object, field: str) -> Collection[str]:
    # A string would pass for the collection of its letters, and a mapping {task: False} for a task that is named.
    if isinstance(given, str | Mapping) or not isinstance(given, Collection):
        raise GraphError(f"{field} must hold a collection of names, not a {type(given).__name__}.", field)
    if not all(isinstance(name, str) and name for name in given):
        raise GraphError(f"{field} holds something that is not a name: names are strings, and not empty.", field)
    return given


def _named_sets(given: object, field: str) -> dict[str, frozenset[str]]:
    if not isinstance(given, Mapping):
        raise GraphError(f"{field} must map tasks to collections of names, not be a {type(given).__name__}.", field)
    return {task: frozenset(_names(given[task], field)) for task in _names(tuple(given), field)}


def _refuse_unknown(names: frozenset[str], known: Mapping[str, object], field: str) -> None:
    if unknown := names.difference(known):
        raise GraphError(f"{field} names {quoted(min(unknown))}, which is no task here.", field)


def _in_order(parents: Mapping[str, frozenset[str]]) -> tuple[str, ...]:
    """Every task, after those that it needs. Raises GraphError for a graph with a cycle."""
    try:
        # Sorted, so that the same graph is refused with the same words in every process.
        return tuple(TopologicalSorter({task: sorted(parents[task]) for task in sorted(parents)}).static_order())
    except CycleError as found:
        cycle: list[str] = found.args[1]
        more = f" and {len(cycle) - MOST_TOLD} more" if len(cycle) > MOST_TOLD else ""
        told = ", ".join(map(quoted, cycle[:MOST_TOLD])) + more
        raise GraphError(f"These tasks wait for each other, each for the one before it: {told}.", "needs") from None
