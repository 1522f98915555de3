"""The handoff package: what it holds, field by field, and how large it may get (docs/rules.md, 9).

`SCHEMA` is its JSON Schema as data, published as docs/handoff.schema.json. What nobody knows is said to be unknown:
an assertion's or a write's own value says so, `unknown` names whole fields, and an empty text means that there is none.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any

from runs.domain.budget import Dimension
from runs.domain.contract import Acceptance, Value
from runs.domain.effects import Answer, EffectState
from runs.domain.errors import ErrorClass
from runs.domain.interventions import Permission
from runs.domain.redaction import digest, fold_text
from runs.domain.states import Move, Outcome, Recovery, State, StepKind, StepStatus, StopReason
from runs.domain.telling import LANGUAGES

VERSION = 4
# Bytes of compact JSON. A stop's package is one parameter of its one commit and is read in one go by people and
# programs; a refund request's takes less than a tenth of this.
LIMIT = 256 * 1024

# The schema


def _text(says: str, **more: Any) -> dict[str, Any]:
    return {"description": says, "type": "string", **more}


def _one_of(says: str, names: Iterable[str], *more: str) -> dict[str, Any]:
    return {"description": says, "enum": [*(str(name) for name in names), *more]}


def _count(says: str) -> dict[str, Any]:
    return {"description": says, "type": "integer", "minimum": 0}


def _flag(says: str) -> dict[str, Any]:
    return {"description": says, "type": "boolean"}


def _instant(says: str) -> dict[str, Any]:
    return {"description": says, "type": "string", "format": "date-time"}


def _instant_or_null(says: str) -> dict[str, Any]:
    return {"description": says, "type": ["string", "null"], "format": "date-time"}


def _digest(says: str) -> dict[str, Any]:
    return _text(says, pattern="^[0-9a-f]{64}$")


def _theirs(says: str, *more: str) -> dict[str, Any]:
    """An object that a workflow or a service shapes."""
    return {"description": says, "type": ["object", *more] if more else "object"}


def _object(says: str, fields: Mapping[str, Any], optional: Iterable[str] = ()) -> dict[str, Any]:
    return {
        "description": says,
        "type": "object",
        "properties": dict(fields),
        "required": [name for name in fields if name not in set(optional)],
        "additionalProperties": False,
    }


def _list(says: str, of: Mapping[str, Any] | str) -> dict[str, Any]:
    return {"description": says, "type": "array", "items": {"$ref": f"#/$defs/{of}"} if isinstance(of, str) else of}


_ASSERTION = _object(
    "One condition of success, with what its value rests on.",
    {
        "name": _text("Its name in the contract."),
        "label": _text("Its name for people."),
        "value": _one_of(
            "MET, UNMET (read, and wrong), or UNKNOWN (not known, for the reason that `says` gives).", Value
        ),
        "says": _text("What was read, or why nothing is known."),
        "source": _text("Who was asked; empty where nobody was."),
        "at": _instant_or_null("When it was read; null where nothing was."),
        "reference": _text("Where it can be found again; empty where there is no reference."),
    },
)

_STEP = _object(
    "One external call: its intent, and what came of it.",
    {
        "seq": _count("Its place in the run, from 1."),
        "kind": _one_of("Whether it reads, writes, or looks up what became of a write.", StepKind),
        "operation": _text("The tool."),
        "operation_key": _text("The write that it belongs to; empty for a read."),
        "status": _one_of("intent: it may be under way, or its worker was lost.", StepStatus),
        "summary": _text("The result in a sentence; empty while there is none."),
        "code": _text("The stable code of a failure; of a write or a look-up, the answer."),
        "error_class": _one_of("What the failure means; empty for none.", ErrorClass, ""),
        "expects": _text("The new observation that it was taken for."),
        "fingerprint": _text("Digest of source, operation, parameters and result; empty while there is no result."),
        "gain": _object(
            "What it brought, as far as it brought anything.",
            {
                "changed": {
                    "description": "Assertions whose value changed: before and after.",
                    "type": "object",
                    "additionalProperties": {
                        "type": "array",
                        "items": {"enum": list(Value)},
                        "minItems": 2,
                        "maxItems": 2,
                    },
                },
                "evidence": _list("References of what was not known before.", {"type": "string"}),
                "obstacle": _text("What is out of the way now."),
                "hypothesis": _text("What is excluded now."),
                "narrowed": _flag("Whether the scope became narrower."),
                "effect": _list("The write's state before and after.", {"enum": list(EffectState)}),
            },
            optional=("changed", "evidence", "obstacle", "hypothesis", "narrowed", "effect"),
        ),
        "started_at": _instant("When its intent was committed."),
        "settled_at": _instant_or_null("When its result was in."),
    },
)

_PLAN = _object(
    "What was to be written; approvals are bound to the digest of it.",
    {
        "target": _text("What is written to."),
        "params": _theirs("The parameters that are sent."),
        "difference": _list(
            "Field, value now, value afterwards.",
            {"type": "array", "items": {"type": "string"}, "minItems": 3, "maxItems": 3},
        ),
        "target_version": _text("The version of what was read of the target."),
        "expected": _text("The answer that is expected."),
        "undo": _text("How it is undone or compensated."),
        "risk": _text("What it brings about."),
        "needs_approval": _text("The rule that asks for a person; empty: none does."),
    },
)

_HELD_BACK = {
    "operation_key": _text("The idempotency key of the write: made once, kept through retries."),
    "state": _one_of("Where it stands; sent, acknowledged and unknown are open.", EffectState),
    "unresolved": _flag("Whether it may have taken effect and nobody knows yet."),
}

_EFFECT = _object(
    "One external write.",
    {
        "operation": _text("The tool."),
        "label": _text("The tool's name for people."),
        "source": _text("The service that decides about it; empty where that is not known here."),
        **_HELD_BACK,
        "target": _text("What is written to."),
        "undoes": _text("The operation key of the write that this one compensates; empty: none."),
        "sent_at": _instant_or_null("When it was last requested: its intent was committed; null: never sent."),
        "times_sent": _count("How often it was sent, under the one key."),
        "look_ups": _count("How often the service was asked what became of it."),
        "last_answer": _one_of("What the service said last; empty: nothing yet.", Answer, ""),
        "last_answer_means": _text("The same as a sentence."),
        "last_answer_at": _instant_or_null("When that was."),
        "next_look_at": _instant_or_null("When it is looked up next without anybody asking."),
        "receipt": _theirs("The receipt as the service wrote it; null: none.", "null"),
        "reason": _text("Why the service refused, or what does not fit."),
        "plan": _PLAN,
        "plan_digest": _digest("What an approval is bound to: the operation key and the plan."),
        "planned_at": _instant("When it was planned."),
        "approved_by": _text("Who approved it; empty: nobody."),
        "approved_at": _instant_or_null("When that was."),
        "approval_expires_at": _instant_or_null(
            "Until when it can be decided on; once approved, until when it can be sent."
        ),
        "notifications": _text("What people may have been told by it, as far as that is known."),
    },
)

_BUDGET = _object(
    "What may be spent in one dimension; one that is not listed is not limited.",
    {
        "dimension": _one_of("What is counted; wall time in seconds, cost in millionths of the currency.", Dimension),
        "limit": _count("The hard limit."),
        "soft": _count("The mark from which on the remaining work is weighed; 0: none."),
        "spent": _count("Spent since the start, over all stops and resumes."),
        "reserved": _count("Set aside for the call under way."),
        "left": _count("Limit less spent and reserved."),
    },
)

_EVENT = _object(
    "One event that moves a run.",
    {
        "name": _one_of("Its name.", Move),
        "label": _text("Its name for people."),
        "says": _text("What it means."),
        "permission": _one_of("The permission that whoever sends it needs.", Permission),
        "second_person": _one_of(
            "The permission that a second, different person needs to confirm it; empty: it takes one.", Permission, ""
        ),
        "confirmed_by_requester": _flag("Whether whoever asked for the run has to confirm it, if another sends it."),
        "not_by_requester": _flag("Whether whoever asked for the run is barred from sending it."),
        "answers_plan": _flag("Whether it has to name the plan's digest."),
        "payload": _theirs("What has to be sent with it, as a JSON Schema."),
        "checked_again": _text("What is checked again before work goes on."),
        "why_not": _text("Why it is not possible now; empty: it is."),
    },
)

SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": f"urn:takeover:handoff:{VERSION}",
    "title": "Handoff package",
    **_object(
        "What a person receives when a run stops short, or reads of one at any moment. It holds no secrets.",
        {
            "package_version": {"description": "The version of this schema.", "const": VERSION},
            "run_id": _text("The run.", format="uuid"),
            "stretch": _count("Stops so far; a package that was written with a stop counts that one."),
            "workflow": _text("The kind of task."),
            "workflow_title": _text("Its name for people."),
            "workflow_version": _count("The version that the run was started under."),
            "policy": _text("What proposes the next action."),
            "subject": _text("What the run is about."),
            "title": _text("The run in a few words."),
            "goal": _text("What was to be reached, as it was set at the start."),
            "input": _theirs("What was asked for."),
            "requester": _text("Who asked for it, by account."),
            "acts_for": _text("Whom they act for, as the authority knows them."),
            "state": _one_of("Where the work stands.", State),
            "outcome": _one_of("How this stretch of it stopped; empty while it runs.", Outcome, ""),
            "stop_reason": _one_of("Why; empty while it runs.", StopReason, ""),
            "contract_version": _count(
                "1 for the contract as it was frozen; each narrowing that was agreed upon makes another."
            ),
            "scope": _text("What the narrower contract is called; empty: it is the whole one."),
            "acceptance": _one_of("What the contract says as a whole.", Acceptance),
            "recovery": _one_of("What is being done about writes that went wrong.", Recovery),
            "withheld": _flag("The person was not entitled: nothing that was read of the subject is in here."),
            "stake": {
                "description": "The money that hangs on it, as known at the latest stop; null: none, or not known.",
                "oneOf": [{"type": "null"}, {"$ref": "#/$defs/money"}],
            },
            "unknown": _list("Fields that could not be filled, and why.", "unknown"),
            "contract": _list("What must be true, in the order in which it was frozen.", "assertion"),
            "effects": _list(
                "The writes, the oldest first.",
                {"oneOf": [{"$ref": "#/$defs/effect"}, {"$ref": "#/$defs/effect_withheld"}]},
            ),
            "people_said": _list("What people supplied: their word, and no evidence of the authority's.", "said"),
            "steps": _list("The external calls, the oldest first.", "step"),
            "steps_left_out": _count("Calls that are not listed: the earliest ones, and what is withheld."),
            "budgets": _list("What may be spent, and was.", "budget"),
            "error": _object(
                "The failure that lasts; one that was overcome is none.",
                {
                    "class": _one_of("What it means; empty: there is none.", ErrorClass, ""),
                    "count": _count("How often in a row it came from the same operation."),
                },
            ),
            "last_checkpoint": _text("The last result that is definite, from which work can go on; empty: none yet."),
            "last_checkpoint_step": {"description": "Its step; null: none.", "type": ["integer", "null"]},
            "first_deviation": _text("The first result that was not as the contract wants it; empty: none."),
            "first_deviation_step": {
                "description": "Its step; null: none, or an assertion that was read and does not hold.",
                "type": ["integer", "null"],
            },
            "last_fingerprint": _text(
                "Of the last call with a result: the same once more is no progress; empty: none."
            ),
            "progress": _text("What changed since the last stop."),
            "question": _text("What a person must answer; empty: nothing."),
            "customer_says": _object(
                "What the customer may be told, and no more, by language; empty where that is not known.",
                {language: _text("In the language of that code.") for language in LANGUAGES},
            ),
            "allowed_events": _list("What may happen next.", "event"),
            "forbidden_events": _list("What may not, and why.", "event"),
            "role": _text("Whose desk it lies on; empty: none's."),
            "answer_by": _instant_or_null("By when a person should have answered; null: nobody has to."),
            "next_look_at": _instant_or_null("When the service is asked again by itself; null: it is not."),
            "holder": _text("Who has the case, by account; empty: nobody."),
            "held_until": _instant_or_null("Until when they have it."),
            "created_at": _instant("When the run was started."),
            "stopped_at": _instant_or_null("When it stopped; null: it runs."),
            "made_at": _instant("When this was written."),
            "folded": _list(
                "Parts that were cut to their beginning, because the package would have been too large.", "folded"
            ),
        },
    ),
    "$defs": {
        "assertion": _ASSERTION,
        "step": _STEP,
        "effect": _EFFECT,
        "effect_withheld": _object("One external write of which nothing else may be shown.", _HELD_BACK),
        "budget": _BUDGET,
        "said": _object(
            "What one person supplied.",
            {
                "event": _one_of("The event that it came with.", Move),
                "by": _text("Who said it, by account."),
                "at": _instant("When it was received."),
                "statement": _text("What they said; empty: they gave a reference only."),
                "reference": _text("Where it can be found again."),
            },
        ),
        "event": _EVENT,
        "unknown": _object(
            "A field that could not be filled.", {"field": _text("Its name."), "why": _text("Why not, as a sentence.")}
        ),
        "money": _object(
            "An amount of money.",
            {
                "minor": _count("In the smallest unit of its currency, such as cents."),
                "currency": _text("Its code, by ISO 4217.", pattern="^[A-Z]{3}$"),
            },
        ),
        "folded": _object(
            "A part that was cut. Of an object, what is short stays.",
            {
                "field": _text("Where it stands, as a JSON Pointer."),
                "characters": _count("How long it was; of an object, as JSON with sorted keys."),
                "sha256": _digest("The digest of all of it."),
            },
        ),
    },
}


def document() -> str:
    """The schema as the text of docs/handoff.schema.json."""
    return json.dumps(SCHEMA, indent=2, ensure_ascii=False) + "\n"


# The limit

# The long parts. All else (what identifies, states, keys, outcome, question, events) is short or must stay whole.
FOLDABLE: tuple[tuple[str, ...], ...] = (
    ("goal",),
    ("input",),
    ("progress",),
    ("last_checkpoint",),
    ("first_deviation",),
    ("contract", "*", "says"),
    ("people_said", "*", "statement"),
    ("steps", "*", "summary"),
    ("steps", "*", "expects"),
    ("effects", "*", "receipt"),
    ("effects", "*", "reason"),
    ("effects", "*", "plan", "params"),
    ("effects", "*", "plan", "difference", "*", "*"),
    ("effects", "*", "plan", "expected"),
    ("effects", "*", "plan", "undo"),
    ("effects", "*", "plan", "risk"),
    ("effects", "*", "plan", "needs_approval"),
)
KEPT = 200  # characters of a part that was folded
SHORT = 120  # characters of an object's member that stays: a number or a reference, most likely
MOST_SHORT = 20  # of one object

Path = tuple[str | int, ...]


def size(value: Any) -> int:
    """Bytes of `value` as compact JSON, which is what `LIMIT` is about."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def fold(package: Mapping[str, Any]) -> dict[str, Any]:
    """`package`, with its long parts cut to their beginnings, the longest first, until it is no larger than `LIMIT`.

    Takes plain JSON data with an empty or an earlier `folded`, and changes nothing of it. What is short stays, so a
    package of very many short parts can remain above the limit.
    """
    over = size(package) - LIMIT
    if over <= 0:
        return dict(package)
    folded = deepcopy(dict(package))
    known = {entry["field"] for entry in folded["folded"]}
    parts = [(path, part) for pattern in FOLDABLE for path, part in _parts(folded, pattern)]
    for path, part in sorted(parts, key=lambda found: (-size(found[1]), _pointer(found[0]))):
        if over <= 0:
            break
        text = part if isinstance(part, str) else json.dumps(part, ensure_ascii=False, sort_keys=True)
        entry = {"field": _pointer(path), "characters": len(text), "sha256": digest(text)}
        beginning = (
            fold_text(text, KEPT) if isinstance(part, str) else _short_of(part) | {"folded": fold_text(text, KEPT)}
        )
        gain = size(part) - size(beginning) - size(entry) - len(",")
        if gain > 0 and entry["field"] not in known:
            _put(folded, path, beginning)
            folded["folded"].append(entry)
            over -= gain
    return folded


def _parts(value: Any, pattern: tuple[str, ...], path: Path = ()) -> Iterator[tuple[Path, Any]]:
    if not pattern:
        if isinstance(value, str | dict):
            yield path, value
    elif pattern[0] == "*":
        for place, inner in enumerate(value):
            yield from _parts(inner, pattern[1:], (*path, place))
    elif pattern[0] in value:
        yield from _parts(value[pattern[0]], pattern[1:], (*path, pattern[0]))


def _short_of(part: Mapping[str, Any]) -> dict[str, Any]:
    members = [(name, part[name]) for name in sorted(part) if not isinstance(part[name], dict | list)]
    return dict([member for member in members if size(member) <= SHORT][:MOST_SHORT])


def _pointer(path: Path) -> str:
    return "".join(f"/{place}" for place in path)


def _put(package: Any, path: Path, value: Any) -> None:
    *way, last = path
    for place in way:
        package = package[place]
    package[last] = value
