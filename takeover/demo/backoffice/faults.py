"""The catalogue of faults, as data: which call each strikes, what it does to it, and which parameters it takes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from takeover.demo.backoffice import inputs
from takeover.demo.backoffice.answers import Answer, error, invalid

HUGE = 50 * 1024 * 1024

Value = str | int | float | bool | None
Values = Mapping[str, Value]


class Kind(StrEnum):
    """The calls that the product makes."""

    AUTHORITY = "authority"
    ORDERS = "orders"
    POLICIES = "policies"
    SUBMIT = "submit"
    LOOKUP = "lookup"
    CANCEL = "cancel"
    REFUNDS = "refunds"  # of one order
    PAYMENT = "payment"
    EVENTS = "events"
    BOOKINGS = "bookings"  # what stands
    BRIEFS = "briefs"
    PUBLISHERS = "publishers"
    SEARCH = "search"
    SOURCES = "sources"
    ASSIGNMENTS = "assignments"
    DRAFTS = "drafts"
    CALLBACK = "callback"  # the one that goes the other way


ANY = "any"


class Act(StrEnum):
    WORK = "the work itself is done otherwise"
    DELAY = "the work and the answer come late"
    CUT = "the connection is cut without an answer"


@dataclass(frozen=True)
class Parameter:
    name: str
    default: Value
    meaning: str
    read: Callable[[str, object], Value]


@dataclass(frozen=True)
class Fault:
    name: str
    meaning: str
    # What it does; a function makes the answer that is given instead.
    does: Act | Callable[[Values], Answer]
    strikes: tuple[Kind, ...]
    parameters: tuple[Parameter, ...] = ()
    # Whether a write takes effect under this fault, where no `after_effect` says it.
    effect: bool = False
    # Nothing to contradict or to misname in a look-up that finds nothing.
    needs_record: bool = False

    def hits(self, kind: Kind, values: Values) -> bool:
        return kind in self.strikes and values.get("where", ANY) in (ANY, kind)

    def takes_effect(self, values: Values) -> bool:
        return bool(values.get("after_effect", self.effect))


def where(default: str, *kinds: Kind) -> Parameter:
    choices = [*kinds, ANY]
    return Parameter(
        "where", default, f"which call: {', '.join(choices)}", lambda field, value: inputs.one_of(field, value, choices)
    )


def seconds(default: float | None, meaning: str) -> Parameter:
    return Parameter("seconds", default, meaning, lambda field, value: inputs.number(field, value, 0, 600))


def lookups(meaning: str) -> Parameter:
    return Parameter("lookups", None, meaning, lambda field, value: inputs.whole(field, value, 0, 1000))


def after_effect(default: bool) -> Parameter:
    return Parameter("after_effect", default, "whether a write takes effect all the same", inputs.yes_no)


REASON = Parameter("reason", "not_refundable", "the business reason given", inputs.word)
RETRY_AFTER = Parameter(
    "retry_after", 2, "seconds to wait, as a header", lambda field, value: inputs.whole(field, value, 0, 3600)
)
PAYMENT_REASON = Parameter("reason", "account_closed", "why it failed", inputs.word)
OTHER = Parameter("other", "D041", "the order or event named instead", inputs.word)
CREDENTIAL = Parameter("credential", None, "strikes calls with this credential only; empty: with any", inputs.key)

EVERY = tuple(kind for kind in Kind if kind is not Kind.CALLBACK)
SENDS = (Kind.SUBMIT, Kind.CANCEL)

CATALOGUE: Mapping[str, Fault] = {
    fault.name: fault
    for fault in (
        Fault(
            "answer_lost",
            "The write takes effect, then the connection is cut: no byte of an answer.",
            Act.CUT,
            SENDS,
            (where(Kind.SUBMIT, *SENDS), seconds(0, "how long to hang first")),
            effect=True,
        ),
        Fault(
            "timeout_before_effect",
            "Nothing takes effect: the call hangs until the client leaves or the time is up, then is cut.",
            Act.CUT,
            SENDS,
            (where(Kind.SUBMIT, *SENDS), seconds(30, "how long to hang")),
        ),
        Fault(
            "pending",
            "Submitting answers 202 pending; after so many look-ups that say pending, it is accepted.",
            Act.WORK,
            (Kind.SUBMIT,),
            (lookups("how many look-ups say pending; empty: all, until it is settled by hand"),),
        ),
        Fault("refused", "An explicit business refusal, on the books.", Act.WORK, (Kind.SUBMIT,), (REASON,)),
        Fault(
            "queued",
            "Submitting answers HTTP 200 that only says queued; look-ups say pending, then accepted.",
            Act.WORK,
            (Kind.SUBMIT,),
            (lookups("how many look-ups say pending; empty: all, until it is settled by hand"),),
        ),
        Fault(
            "contradictory",
            "A look-up finds two records under one key that contradict each other.",
            Act.WORK,
            (Kind.LOOKUP,),
            needs_record=True,
        ),
        Fault(
            "other_order",
            "The receipt, and a look-up, name another order or event; the effect is on the right one.",
            Act.WORK,
            (Kind.SUBMIT, Kind.LOOKUP),
            (where(ANY, Kind.SUBMIT, Kind.LOOKUP), OTHER),
            needs_record=True,
        ),
        Fault(
            "rate_limited",
            "429 with Retry-After, declared not executed.",
            lambda values: Answer(
                429,
                {"code": "rate_limited", "message": "Too many calls; this one was not executed.", "executed": False},
                {"Retry-After": str(values["retry_after"])},
            ),
            EVERY,
            (where(Kind.SUBMIT, *EVERY), RETRY_AFTER),
        ),
        Fault(
            "unavailable",
            "503.",
            lambda _: error(503, "unavailable", "The service is not available at the moment."),
            EVERY,
            (where(Kind.SUBMIT, *EVERY), after_effect(False)),
        ),
        Fault(
            "slow",
            "The call is carried out and answered late, even if the client has left by then.",
            Act.DELAY,
            EVERY,
            (where(Kind.SUBMIT, *EVERY), seconds(5, "how late")),
        ),
        Fault(
            "lookup_down",
            "503 on look-ups.",
            lambda _: error(503, "unavailable", "The look-up is not available at the moment."),
            (Kind.LOOKUP,),
        ),
        Fault(
            "lookup_lags",
            "Look-ups are answered by an index that has not seen the write yet: not found.",
            Act.WORK,
            (Kind.LOOKUP,),
            (
                lookups("how many look-ups per key; empty: see seconds"),
                seconds(None, "how long after the write was made; both empty: until switched off"),
            ),
        ),
        Fault(
            "credential_refused",
            "401: the product's credential is not accepted.",
            lambda _: error(401, "credential_refused", "The credential is not accepted."),
            EVERY,
            (where(ANY, *EVERY), CREDENTIAL),
        ),
        Fault(
            "access_denied",
            "403: the product may not make this call.",
            lambda _: error(403, "access_denied", "This credential has no access to this call."),
            EVERY,
            (where(ANY, *EVERY),),
        ),
        Fault("order_incomplete", "The order lacks delivered_on and opened.", Act.WORK, (Kind.ORDERS,)),
        Fault("event_incomplete", "The event lacks starts_on and seats_left.", Act.WORK, (Kind.EVENTS,)),
        Fault("policy_conflict", "v3 and v4 both claim to be in force.", Act.WORK, (Kind.POLICIES,)),
        Fault("policy_missing", "No policy claims to be in force.", Act.WORK, (Kind.POLICIES,)),
        Fault("policy_changed", "v4 replaces v3: two days instead of seven.", Act.WORK, (Kind.POLICIES,)),
        Fault("draft_altered", "A draft reads back with another text than was sent.", Act.WORK, (Kind.DRAFTS,)),
        Fault(
            "review_blocks",
            "The review of a draft blocks one section until it was revised so often.",
            Act.WORK,
            (Kind.DRAFTS,),
            (
                Parameter("section", "findings", "the section", inputs.word),
                Parameter(
                    "revisions",
                    None,
                    "how many revisions satisfy it; empty: none does",
                    lambda field, value: inputs.whole(field, value, 1, 1000),
                ),
            ),
        ),
        Fault(
            "malformed",
            "200 with a body that breaks off in the middle of its JSON.",
            lambda _: Answer(200, b'{"submit_state":"accepted","request_id":"R7'),
            EVERY,
            (where(Kind.SUBMIT, *EVERY), after_effect(True)),
        ),
        Fault(
            "huge",
            "200 with a body of 50 MB.",
            lambda _: Answer(200, b'{"submit_state":"accepted","note":"', padding=HUGE),
            EVERY,
            (where(Kind.SUBMIT, *EVERY), after_effect(True)),
        ),
        Fault(
            "empty",
            "200 with an empty body.",
            lambda _: Answer(200, b""),
            EVERY,
            (where(Kind.SUBMIT, *EVERY), after_effect(True)),
        ),
        Fault(
            "error_500",
            "500 without a code.",
            lambda _: Answer(500, b"Internal Server Error", {"Content-Type": "text/plain; charset=utf-8"}),
            EVERY,
            (where(Kind.SUBMIT, *EVERY), after_effect(False)),
        ),
        Fault("source_withdrawn", "A source that the search finds is not there any more.", Act.WORK, (Kind.SOURCES,)),
        Fault("source_replaced", "A source has another text than the search finds.", Act.WORK, (Kind.SOURCES,)),
        Fault(
            "payment_goes_on",
            "Each read of a payment finds it one step further: being paid, then paid.",
            Act.WORK,
            (Kind.PAYMENT,),
        ),
        Fault(
            "payment_fails",
            "A read of a payment finds that it failed.",
            Act.WORK,
            (Kind.PAYMENT,),
            (PAYMENT_REASON,),
        ),
        Fault(
            "payment_short",
            "A payment reads as paid, and as one minor unit less than was accepted.",
            Act.WORK,
            (Kind.PAYMENT,),
        ),
        Fault("callback_twice", "A callback is delivered again under its id.", Act.WORK, (Kind.CALLBACK,)),
        Fault(
            "callback_late",
            "A callback is sent late.",
            Act.WORK,
            (Kind.CALLBACK,),
            (seconds(5, "how late"),),
        ),
        Fault("callback_forged", "A callback is signed with another secret.", Act.WORK, (Kind.CALLBACK,)),
    )
}


@dataclass(frozen=True)
class NewFault:
    """A fault as somebody asks for it: no order or key means all, no times means until it is switched off."""

    fault: str
    order_id: str | None
    operation_key: str | None
    times: int | None
    values: Values


def read_new(asked: Mapping[str, object]) -> NewFault:
    fault = CATALOGUE[inputs.one_of("fault", asked.get("fault"), CATALOGUE)]
    parameters = {parameter.name: parameter for parameter in fault.parameters}
    inputs.only(asked, ["fault", "order_id", "operation_key", "times", *parameters])
    order_id, operation_key, times = (asked.get(name) for name in ("order_id", "operation_key", "times"))
    values = {
        name: parameter.default if asked.get(name) is None else parameter.read(name, asked[name])
        for name, parameter in parameters.items()
    }
    if fault.name == "lookup_lags" and None not in (values["lookups"], values["seconds"]):
        raise invalid("seconds", "Give lookups or seconds, not both.")
    return NewFault(
        fault.name,
        None if order_id is None else inputs.word("order_id", order_id),
        None if operation_key is None else inputs.key("operation_key", operation_key),
        None if times is None else inputs.whole("times", times, 1, 1_000_000),
        values,
    )
