"""A workflow whose sources are functions in this process: three shelves to search, and a desk that lends."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from runs.domain.contract import Judgement, met, unknown, unmet
from runs.domain.effects import Answer, WritePlan
from runs.domain.errors import Failure
from runs.domain.proposals import Proposal
from runs.domain.states import StepKind
from runs.tools.tool import Call, Result, Tool, ToolFailed
from runs.workflows.definition import Check, Context, Reading, Workflow, Writing
from runs.workflows.refund_request import WORKFLOW as REFUND

SHELVES = ["north", "south", "east"]
Answers = dict[str, Any]


class Library:
    """Three shelves that answer what a test tells them to, and a desk that lends."""

    def __init__(self) -> None:
        self.answers: Answers = {}
        self.asked: list[str] = []
        self.lent: dict[str, str] = {}

    def search(self, service: Any, call: Call, until: float) -> Result:
        shelf = call.params["shelf"]
        self.asked.append(shelf)
        answer = self.answers.get(shelf, [])
        one_by_one = answer and isinstance(answer[0], Failure | list)
        said = answer.pop(0) if one_by_one else answer
        if isinstance(said, Failure):
            raise ToolFailed(said)
        return Result({"books": said}, f"{len(said)} books on the {shelf} shelf", reference=f"shelf/{shelf}")

    def check(self, service: Any, call: Call, until: float) -> Result:
        self.asked.append(f"check {call.params['book']}")
        return Result({"exists": self.answers.get("check", True)}, "looked at")

    def lend(self, service: Any, call: Call, until: float) -> Result:
        self.lent[call.operation_key] = call.params["book"]
        receipt = {"operation_key": call.operation_key, "book": call.params["book"]}
        return Result(receipt, "lent", answer=Answer.ACCEPTED, receipt=receipt)

    def found(self, service: Any, call: Call, until: float) -> Result:
        return Result({}, "looked up", answer=Answer.ABSENT)


def workflow(library: Library, script: Callable[[Context], Proposal], **more: Any) -> Workflow:
    def tool(name: str, kind: StepKind, perform: Any, look_up: str = "") -> Tool:
        return Tool(name, name, "library", "back_office", kind, perform, look_up=look_up)

    tools = (
        tool("search", StepKind.READ, library.search),
        tool("check", StepKind.READ, library.check),
        tool("lend", StepKind.WRITE, library.lend, "find_loan"),
        tool("find_loan", StepKind.LOOK_UP, library.found),
    )

    def books(c: Context) -> list[str]:
        return sorted({book for shelf in SHELVES for book in on(c, shelf)})

    def enough(c: Context) -> Judgement:
        checked = c.facts.get("check")
        if not checked:
            return unknown("no book was checked")
        evidence = checked.evidence("looked at")
        return met(evidence) if checked.data["exists"] and books(c) else unmet(evidence)

    searching = Reading(
        says="Searches one shelf.",
        fact=lambda c, given: f"shelf {given['shelf']}",
        arguments={
            "type": "object",
            "properties": {"shelf": {"enum": SHELVES}, "again": {"type": "integer"}},
            "required": ["shelf"],
            "additionalProperties": False,
        },
        kind=lambda given: given["shelf"] if more.get("fruitless") else "",
    )
    lending = Writing(
        says="Lends a book.",
        arguments={
            "type": "object",
            "properties": {
                "book": {"type": "string"},
                "days": {"type": "integer", "minimum": 1, "maximum": 30, "title": "Days"},
            },
            "required": ["book"],
            "additionalProperties": False,
        },
        plan=lambda c, given: WritePlan(
            "lend", given["book"], dict(given), _changes(given), "1", "lent", "none", "little", "all loans"
        ),
        amendable=("book", "days"),
        key=lambda c, given: f"loan-{c.run_id[:8]}-{given['book']}",
    )
    declared: dict[str, Any] = {
        "name": "library",
        "tools": {**REFUND.tools, **{each.name: each for each in tools}},
        "operations": {"search": searching, "lend": lending},
        "eligible": lambda c: met(c.facts["order"].evidence("always")),
        "contract": (replace(REFUND.contract[0], name="enough", judge=enough),),
        "checks": lambda c: [Check("check", "check", {"book": books(c)[0]}, "that it exists")][
            : "check" not in c.facts
        ],
        "evidence": books,
        "script": script,
        "remaining": lambda c: {},
    }
    return replace(REFUND, **{**declared, **more})


def _changes(given: Mapping[str, Any]) -> tuple[tuple[str, str, str], ...]:
    return (("book", "there", "lent"), ("days", "none", str(given.get("days", 14))))


def on(c: Context, shelf: str) -> list[str]:
    fact = c.facts.get(f"shelf {shelf}")
    return list(fact.data["books"]) if fact else []
