"""LangGraph with PostgresSaver, durability "sync": a step's result is a checkpoint. A thread that was cut off is
invoked again without input, and goes on from its last checkpoint."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypedDict

import psycopg
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.graph import END, START, StateGraph
from psycopg.rows import dict_row

from bench.contenders import EFFECTS, Lanes, connect, hand_over, handed_over, make_effect, tell

WORKERS = False
BESIDE: tuple[str, ...] = ()
_mine = threading.local()


class State(TypedDict):
    run: str
    done: int
    count: int
    effects: bool


def _step(state: State) -> dict[str, int]:
    if state["effects"]:
        make_effect(state["run"], state["done"])
    return {"done": state["done"] + 1}


def _graph() -> Any:
    """One graph and connection for each thread: a saver holds a lock while it writes."""
    if not hasattr(_mine, "graph"):
        graph = StateGraph(State)
        graph.add_node("step", _step)
        graph.add_edge(START, "step")
        graph.add_conditional_edges("step", lambda state: END if state["done"] >= state["count"] else "step")
        _mine.graph = graph.compile(checkpointer=PostgresSaver(_connect()))
    return _mine.graph


def _connect() -> psycopg.Connection[Any]:
    database = connect()
    database.row_factory = dict_row  # type: ignore[assignment]
    database.prepare_threshold = 0
    return database


def _invoke(run: str, count: int, effects: bool) -> None:
    graph, config = _graph(), {"configurable": {"thread_id": run}, "recursion_limit": count + 10}
    begun = effects and graph.get_state(config).created_at
    given = None if begun else State(run=run, done=0, count=count, effects=effects)
    graph.invoke(given, config, durability="sync")


def prepare() -> None:
    PostgresSaver(_connect()).setup()


def lanes(lanes: Lanes, count: int) -> Callable[[], None]:
    pool = ThreadPoolExecutor(len(lanes), initializer=_graph)

    def lane(runs: list[str]) -> None:
        for run in runs:
            _invoke(run, count, effects=False)

    return lambda: [*pool.map(lane, lanes)] and None


def work(slot: int, at_once: int) -> None:
    database = connect()

    def carry_on(run: str) -> None:
        _invoke(run, EFFECTS, effects=True)
        _own_connection().execute("UPDATE bench_run SET done = true WHERE contender = 'langgraph' AND run = %s", (run,))

    with ThreadPoolExecutor(at_once) as pool:
        tell(ready=True)
        known = set[str]()
        while True:
            for run in handed_over(database, "langgraph", slot):
                if run not in known:
                    known.add(run)
                    pool.submit(carry_on, run)
            time.sleep(0.1)


def _own_connection() -> psycopg.Connection:
    if not hasattr(_mine, "connection"):
        _mine.connection = connect()
    return _mine.connection


def start(run: str, slot: int) -> None:
    hand_over("langgraph", run, slot)


def finished() -> set[str]:
    with connect() as database:
        rows = database.execute("SELECT run FROM bench_run WHERE contender = 'langgraph' AND done")
        return {run for (run,) in rows}
