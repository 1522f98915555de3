"""What `manage.py runs` prints: runs as lines of text for a person at a terminal."""

import json
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from runs.domain.budget import Dimension
from runs.domain.states import FINAL, Recovery, State
from runs.models import Run
from takeover.console.words import spell, visible


def one_line(text: str) -> str:
    """What services and agents wrote cannot steer the terminal."""
    return visible(text).replace("\n", " ").replace("\t", " ")


def age(run: Run) -> str:
    return spell(timezone.now() - (run.stopped_at or run.created_at))


def when(at: datetime | str | None) -> str:
    """An instant of a package, which may be JSON already."""
    known = datetime.fromisoformat(at) if isinstance(at, str) else at
    return f"{known:%Y-%m-%d %H:%M:%S} UTC" if known else "–"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def in_short(run: Run) -> dict[str, Any]:
    return {
        "run_id": str(run.pk),
        "workflow": run.workflow,
        "subject": run.subject,
        "state": run.state,
        "outcome": run.outcome,
        "stop_reason": run.stop_reason,
        "question": run.question,
        "effects_at_risk": run.effects_at_risk,
        "holder": run.holder.get_username() if run.holder and run.is_held() else "",
        "answer_by": run.answer_by,
        "created_at": run.created_at,
        "stopped_at": run.stopped_at,
    }


def aligned(rows: Iterable[list[str]], indent: str = "") -> Iterator[str]:
    rows = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield indent + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def in_a_few_lines(package: dict[str, Any], *more: list[str]) -> Iterator[str]:
    """Where a run stands, for somebody who waited for it."""
    yield f"{package['title']}  ({package['workflow']} v{package['workflow_version']}, {package['run_id']})"
    reason = f" ({package['stop_reason']})" if package["stop_reason"] else ""
    english, chinese = package["customer_says"]["en"], package["customer_says"]["zh"]
    yield from aligned(
        [
            ["state", package["state"]],
            ["outcome", (package["outcome"] or "running") + reason],
            ["acceptance", package["acceptance"]],
            *([["question", package["question"]]] if package["question"] else []),
            ["customer", english or "–"],
            *([["", chinese]] if chinese else []),
            *more,
        ],
        "  ",
    )


def told(package: dict[str, Any]) -> Iterator[str]:
    """The whole package for a person at a terminal."""
    error = package["error"]
    yield from in_a_few_lines(
        package,
        ["goal", package["goal"]],
        ["asked by", _asked_by(package)],
        ["held by", f"{package['holder']} until {when(package['held_until'])}" if package["holder"] else "nobody"],
        *([["due", when(package["answer_by"])]] if package["answer_by"] or not package["next_look_at"] else []),
        *([["asked again", when(package["next_look_at"])]] if package["next_look_at"] else []),
        *([["error", f"{error['class']}, {error['count']} in a row"]] if error["class"] else []),
        *([["recovery", package["recovery"]]] if package["recovery"] != Recovery.NONE else []),
    )
    yield "Contract"
    yield from aligned(
        (
            [row["value"], row["label"], " ".join(filter(None, [row["says"], row["source"] and f"({row['source']})"]))]
            for row in package["contract"]
        ),
        "  ",
    )
    yield "Effects"
    effects = package["effects"]
    for effect in effects:
        yield f"  {effect.get('label', 'Write')}: {effect['state']}, key {effect['operation_key']}"
        if "plan" not in effect:
            continue  # withheld, as everything of a subject that the requester is not entitled to
        proposed = not effect["times_sent"] or (package["state"] == State.AWAITING_APPROVAL and effect is effects[-1])
        yield from aligned(_proposal(effect) if proposed else _life(effect), "    ")
    if not effects:
        yield "  none: nothing was planned or sent"
    yield "Budgets"
    yield from aligned(
        (
            [
                line["dimension"],
                f"{_many(line, 'spent')} of {_many(line, 'limit')} spent",
                f"{_many(line, 'left')} left",
            ]
            for line in package["budgets"]
        ),
        "  ",
    )
    yield "Events"
    if package["state"] in FINAL and not package["allowed_events"]:
        yield "  none: the run has ended"
        return
    yield from aligned(
        [
            *(["yes", event["name"], event["says"]] for event in package["allowed_events"]),
            *(["no", event["name"], event["why_not"]] for event in package["forbidden_events"]),
        ],
        "  ",
    )


def _asked_by(package: dict[str, Any]) -> str:
    asked, acts_for = package["requester"], package["acts_for"]
    return asked if acts_for in {"", asked} else f"{asked}, for {acts_for}"


def _many(line: dict[str, Any], what: str) -> str:
    many = line[what]
    return spell(timedelta(seconds=many)) if line["dimension"] == Dimension.WALL_TIME else str(many)


def _proposal(effect: dict[str, Any]) -> Iterator[list[str]]:
    plan = effect["plan"]
    yield ["target", effect["target"]]
    for field, now, then in plan["difference"]:
        yield [field, f"{now} → {then}"]
    yield ["undo", plan["undo"]]
    if plan["needs_approval"]:
        yield ["approval", f"{plan['needs_approval']}; until {when(effect['approval_expires_at'])}"]
    yield ["plan", effect["plan_digest"]]


def _life(effect: dict[str, Any]) -> Iterator[list[str]]:
    yield ["target", effect["target"]]
    yield ["sent", f"{when(effect['sent_at'])}, {_times(effect['times_sent'])}"]
    next_look = f", next {when(effect['next_look_at'])}" if effect["next_look_at"] else ""
    yield ["looked up", _times(effect["look_ups"]) + next_look]
    if effect["last_answer"]:
        yield ["answer", f"{effect['last_answer']}: {effect['last_answer_means']}"]
    if effect["receipt"]:
        yield ["receipt", json.dumps(effect["receipt"], ensure_ascii=False)]
    if effect["reason"]:
        yield ["because", effect["reason"]]
    if effect["approved_by"]:
        yield ["approved", f"by {effect['approved_by']}, {when(effect['approved_at'])}"]
