"""Reading what a service answers: fields of the right type, records of one key, and whether they fit this call.

An answer that is not what it should be raises ToolFailed with `invalid_output`. Records name what they are about; one
that names something else is no receipt of this call's, whatever it says.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from runs.domain.effects import Answer, names, names_otherwise
from runs.domain.errors import Failure
from runs.domain.telling import QUOTABLE
from runs.tools.tool import Call, Result, Service, ToolFailed

Records = list[dict[str, Any]]


def invalid_output(sentence: str) -> ToolFailed:
    return ToolFailed(Failure("invalid_output", sentence))


def field(data: Mapping[str, Any], name: str, kind: type) -> Any:
    value = data.get(name)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise invalid_output(f"The answer's field {name!r} is missing or of the wrong type.")
    return value


def content(data: Mapping[str, Any]) -> dict[str, Any]:
    """What was answered, without when: the same facts read twice are no news."""
    return {name: value for name, value in data.items() if name != "as_of"}


def records(data: Mapping[str, Any]) -> Records:
    found = field(data, "records", list)
    if not all(isinstance(record, dict) for record in found):
        raise invalid_output("The answer's records are not objects.")
    return list(found)


def stranger(record: Mapping[str, Any], call: Call) -> str:
    """What a record names that is not this call's; empty when it fits, or names nothing."""
    wanted = {**call.params, "operation_key": call.operation_key}
    name = names_otherwise(record, wanted)
    what = name.removesuffix("_id").removesuffix("_minor").replace("_", " ")
    return f"The receipt names {what} {record[name]}, not {wanted[name]}" if name else ""


def reason(record: Mapping[str, Any]) -> str:
    """Why a service refused, in its own words."""
    return str(record.get("reason") or record.get("message") or "no reason given")


def identifier(record: Mapping[str, Any], name: str) -> str:
    """A number or reference of the service's, which people will read and repeat. Raises ToolFailed for free text."""
    value = record.get(name)
    if value is None:
        return ""
    if not isinstance(value, str) or not QUOTABLE.fullmatch(value):
        raise invalid_output(f"The answer's {name} is not a reference.")
    return value


@dataclass(frozen=True)
class Keeper:
    """A service that keeps writes under operation keys, and how its records read.

    A record is pending or queued, done, rejected, or was undone. What it says counts only where it names this call's
    subject and key, and nothing else.
    """

    who: str  # "The refund service"
    ledger: str  # its authoritative store: "the refund ledger"
    what: str  # that it keeps: "the refund"
    number: str  # the field with the number of a record
    state: str  # the field that says where it stands
    subject: tuple[str, ...]  # the parameters that a receipt has to name
    done: Mapping[str, str]  # state -> how it is told, before the number
    undone: str = "cancelled"

    def submitted(self, found: Records, call: Call, data: Mapping[str, Any]) -> Result:
        """Records of one key as one answer to what was written under it."""
        if doubt := self.doubt(found, call):
            return Result(data, doubt, answer=Answer.CONTRADICTORY, reason=doubt)
        record, state = found[0], self.state_of(found[0])
        subject = {name: call.params[name] for name in self.subject if name in call.params}
        named = names(record, {**subject, "operation_key": call.operation_key})
        if state in {"pending", "queued"}:
            tracking = identifier(record, "tracking_id")
            says = f"Received, not decided yet ({tracking or 'no tracking reference'})"
            return Result(data, says, tracking, Answer.PENDING, receipt=record)
        if state in self.done and named and (number := identifier(record, self.number)):
            return Result(data, f"{self.done[state]} {number}", number, Answer.ACCEPTED, receipt=record)
        if state == "rejected" and named:
            return _refused(record, data)
        if state == "cancelled" and named:
            says = f"{self.who} says that it was {self.undone} there, and not by this run"
            return Result(data, says, answer=Answer.CONTRADICTORY, reason=says)
        raise invalid_output("The answer is no receipt: its state, its key, or what it is about is missing.")

    def taken_back(self, found: Records, call: Call, data: Mapping[str, Any]) -> Result:
        """Records of the key of an undoing, which answers with what it undid: nothing but "cancelled" says that it
        took effect."""
        if doubt := self.doubt(found, call):
            return Result(data, doubt, answer=Answer.CONTRADICTORY, reason=doubt)
        record, number = found[0], str(call.params[self.number])
        state = self.state_of(record)
        if state == "cancelled" and names(record, {**call.params, "operation_key": call.operation_key}):
            says = f"{self.what} {number} {self.undone}"
            return Result(data, f"{says[0].upper()}{says[1:]}", number, Answer.ACCEPTED, receipt=record)
        if state == "rejected" and record.get("operation_key") == call.operation_key:
            return _refused(record, data)
        raise invalid_output(f"The answer does not say that the {self.what} was {self.undone}.")

    def looked_up(
        self,
        service: Service,
        call: Call,
        until: float,
        path: str,
        about: Mapping[str, str],
        meaning: Callable[[Records, Call, Mapping[str, Any]], Result],
    ) -> Result:
        """What the ledger has under this call's key; `meaning` says what its records mean."""
        asked = {"operation_key": call.operation_key, **about}
        _, data = service.request("GET", path, params=asked, until=until)
        if found := records(data):
            return meaning(found, call, data)
        ledger = data.get("store") == "ledger"
        if ledger and not call.may_still_arrive:
            says = f"{self.ledger} has nothing under this key, and it can no longer arrive"
            return Result(data, f"{says[0].upper()}{says[1:]}", answer=Answer.ABSENT)
        where = self.ledger if ledger else "a copy that may lag behind"
        return Result(data, f"Not found yet in {where}; that is no proof", answer=Answer.NOT_FOUND_YET)

    def state_of(self, record: Mapping[str, Any]) -> str:
        return str(record.get(self.state) or record.get("status"))

    def doubt(self, found: Records, call: Call) -> str:
        """Why these records of one key are no one answer, as a sentence; empty where they are."""
        if strange := next((says for record in found if (says := stranger(record, call))), ""):
            return strange
        states = {self.state_of(record) for record in found}
        numbers = {str(record[self.number]) for record in found if record.get(self.number)}
        answered = "{0} answered {1} for one operation key"
        numbered = "{0} gave the numbers {1} for one operation key"
        for told, says in ((states, answered), (numbers, numbered)):
            if len(told) > 1:
                return says.format(self.who, " and ".join(sorted(told)))
        return ""


def _refused(record: Mapping[str, Any], data: Mapping[str, Any]) -> Result:
    why = reason(record)
    return Result(data, f"Refused: {why}", answer=Answer.REJECTED, receipt=record, reason=why)
