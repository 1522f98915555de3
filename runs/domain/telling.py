"""What the customer may be told about a run, and on what it rests (docs/rules.md, 3).

Two tables say what may be claimed: by outcome, and for the few stop reasons about which more, or something else, is
known. A statement that needs more than is on record gives way to the weaker one behind it, and the last of a line needs
nothing. A workflow words the statements and adds none.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from string import Formatter
from typing import Any

from runs.domain.effects import Effect, EffectState, names
from runs.domain.errors import DomainError, quoted
from runs.domain.states import Outcome, StopReason

LANGUAGES = ("en", "zh")
LONGEST = 80  # characters of the subject
QUOTABLE = re.compile(r"[\w.:-]{1,64}", re.ASCII)  # what can be read out and looked up; free text is no number
SUBJECT = "subject"
STOPS = (".", "!", "?", "…", ":", "。", "！", "？")
CLOSING = "\"'”’»)]）"  # what may stand behind a full stop


class Statement(StrEnum):
    BEING_WORKED_ON = "being_worked_on"
    ACCEPTED_UNDER_NUMBER = "accepted_under_number"
    ACCEPTED = "accepted"  # the goal and nothing beyond it: accepted is not paid
    RECEIVED_UNDER_REFERENCE = "received_under_reference"
    RECEIVED = "received"  # and being verified
    BEING_VERIFIED = "being_verified"  # whether it was received at all
    CANCELLATION_BEING_VERIFIED = "cancellation_being_verified"
    NOT_ENTITLED = "not_entitled"
    NOT_ELIGIBLE = "not_eligible"
    REFUSED_BY_SERVICE = "refused_by_service"
    DECLINED = "declined"  # by whom is not said
    WITH_A_PERSON = "with_a_person"
    NOT_YET_CONFIRMED = "not_yet_confirmed"
    NOT_SUBMITTED = "not_submitted"
    NOT_IN_EFFECT = "not_in_effect"
    UNDONE = "undone"
    NEVER_CONFIRMED = "never_confirmed"  # closed by people, and what became of it is not known


MAY_SAY: dict[Outcome | None, tuple[Statement, ...]] = {
    None: (Statement.BEING_WORKED_ON,),
    Outcome.COMPLETED: (Statement.ACCEPTED_UNDER_NUMBER, Statement.ACCEPTED),
    Outcome.WAITING: (Statement.BEING_VERIFIED,),
    Outcome.DECLINED: (Statement.DECLINED,),
    Outcome.NEEDS_HUMAN: (Statement.WITH_A_PERSON,),
    Outcome.LIMIT_REACHED: (Statement.NOT_YET_CONFIRMED,),
    Outcome.CANCELLED: (Statement.NOT_IN_EFFECT,),
}

# For these reasons, instead of what their outcome allows.
MAY_SAY_FOR: dict[StopReason, tuple[Statement, ...]] = {
    StopReason.EFFECT_PENDING: (Statement.RECEIVED_UNDER_REFERENCE, Statement.RECEIVED, Statement.BEING_VERIFIED),
    StopReason.CANCELLATION_UNVERIFIED: (Statement.CANCELLATION_BEING_VERIFIED,),
    StopReason.NOT_AUTHORISED: (Statement.NOT_ENTITLED,),
    StopReason.NOT_ELIGIBLE: (Statement.NOT_ELIGIBLE,),
    # A read can be refused as well: only a refused write was refused by the service that was to carry it out.
    StopReason.REFUSED_BY_SERVICE: (Statement.REFUSED_BY_SERVICE, Statement.DECLINED),
    StopReason.CANCELLED_UNSENT: (Statement.NOT_SUBMITTED,),
    StopReason.CANCELLED_COMPENSATED: (Statement.UNDONE,),
}


# For a run that was closed although a write's outcome is open, whatever it had stopped for: nobody verifies any more.
MAY_SAY_WHEN_CLOSED = (Statement.NEVER_CONFIRMED,)


class Quote(StrEnum):
    """What a text may quote from a receipt that names this subject and this operation key."""

    NUMBER = "number"
    REFERENCE = "reference"


@dataclass(frozen=True)
class Needs:
    """What has to be on record before something may be said, and whether its text may name the subject."""

    write: EffectState | None = None
    quotes: Quote | None = None
    names_subject: bool = True

    def allows(self, placeholder: str) -> bool:
        return placeholder == self.quotes or (placeholder == SUBJECT and self.names_subject)


NEEDS: dict[Statement, Needs] = {
    Statement.ACCEPTED_UNDER_NUMBER: Needs(EffectState.CONFIRMED, Quote.NUMBER),
    Statement.RECEIVED_UNDER_REFERENCE: Needs(EffectState.ACKNOWLEDGED, Quote.REFERENCE),
    Statement.RECEIVED: Needs(EffectState.ACKNOWLEDGED),
    Statement.REFUSED_BY_SERVICE: Needs(EffectState.REJECTED),
    # Repeating the number back to somebody who is not entitled would already say whether it exists.
    Statement.NOT_ENTITLED: Needs(names_subject=False),
}


def may_say(reason: StopReason | None, closed: bool = False) -> tuple[Statement, ...]:
    """The statements that a run allows which stopped for `reason` (None: it is under way), the strongest first.

    `closed`: two people ended it although the outcome of a write is open.
    """
    if closed:
        return MAY_SAY_WHEN_CLOSED
    if reason in MAY_SAY_FOR:
        return MAY_SAY_FOR[reason]
    return MAY_SAY[reason.outcome if reason else None]


def needs(statement: Statement) -> Needs:
    return NEEDS.get(statement, Needs())


class WordingError(DomainError):
    """A statement without a text, or a text that names what it may not. `field` is statement and language."""


@dataclass(frozen=True)
class Wording:
    """A workflow's text of every statement in every language, with {subject}, {number} and {reference} in it.

    `subject` is the field of the request, of a write and of its receipt that says what they are about; `quoted` says in
    which field of a receipt a number or a reference stands, where there is one. Raises WordingError.
    """

    subject: str
    quoted: Mapping[Quote, str]
    texts: Mapping[Statement, Mapping[str, str]]

    def __post_init__(self) -> None:
        if unknown := sorted(self.texts.keys() - set(Statement)):
            raise WordingError(f"{quoted(unknown[0])} is nothing that may be said.", unknown[0])
        for statement in Statement:
            given = self.texts.get(statement, {})
            if unheard := sorted(given.keys() - set(LANGUAGES)):
                raise WordingError(
                    f"{statement}: nothing is said in {quoted(unheard[0])}.", f"{statement}.{unheard[0]}"
                )
            for language in LANGUAGES:
                _check(statement, given.get(language, ""), f"{statement}.{language}")


def _check(statement: Statement, text: str, where: str) -> None:
    if not text.strip():
        raise WordingError(f"{where}: there is no text for it.", where)
    wanted, named = needs(statement), _named(text, where)
    if not_allowed := sorted(name for name in named if not wanted.allows(name)):
        raise WordingError(f"{where}: the text may not name {', '.join(map(repr, not_allowed))}.", where)
    if wanted.quotes and wanted.quotes not in named:
        raise WordingError(f"{where}: the text has to name {quoted(str(wanted.quotes))}.", where)


def _named(text: str, where: str) -> set[str]:
    """The placeholders of `text`, as they are written: an index, an attribute or a format is part of the name."""
    try:
        parts = list(Formatter().parse(text))
    except ValueError as problem:
        raise WordingError(f"{where}: {problem}.", where) from None
    return {
        name + (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "")
        for _, name, spec, conversion in parts
        if name is not None
    }


def tell(
    reason: StopReason | None,
    wording: Wording,
    given: Mapping[str, Any],
    effects: Sequence[Effect],
    closed: bool = False,
) -> dict[str, str]:
    """The text for the customer by language: the strongest statement that `may_say` and the record allow.

    `given` is the run's input, `effects` its writes, the latest last.
    """
    for statement in may_say(reason, closed):
        values = _verified(needs(statement), wording, given, effects)
        if values is not None:
            texts = wording.texts[statement]
            return {language: texts[language].format_map(values) for language in LANGUAGES}
    raise AssertionError("The last statement of a line needs nothing.")


def _verified(
    wanted: Needs, wording: Wording, given: Mapping[str, Any], effects: Sequence[Effect]
) -> dict[str, str] | None:
    """What may stand in a text that needs this; None if it is not on record. What undoes a write is no customer's."""
    subject = given[wording.subject]
    values = {SUBJECT: readable(subject)}
    if wanted.write is None:
        return values
    for effect in reversed(effects):
        if effect.state is not wanted.write or effect.undoes or effect.plan.params.get(wording.subject) != subject:
            continue
        if wanted.quotes is None:
            return values
        if number := _number(effect, wording, subject, wanted.quotes):
            return values | {wanted.quotes: number}
    return None


def _number(effect: Effect, wording: Wording, subject: object, quote: Quote) -> str:
    """A number from a receipt that names this subject and this key, as it stands there; otherwise empty."""
    receipt = effect.receipt or {}
    if not names(receipt, {wording.subject: subject, "operation_key": effect.key}):
        return ""
    value = receipt.get(wording.quoted[quote]) if quote in wording.quoted else None
    # Shortened or cleaned, it would be another number.
    return value if isinstance(value, str) and QUOTABLE.fullmatch(value) else ""


def readable(value: object) -> str:
    """`value` as one line without control, format and other invisible characters, at most `LONGEST` long."""
    kept = (sign for sign in str(value) if sign.isspace() or not unicodedata.category(sign).startswith("C"))
    line = " ".join("".join(kept).split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def as_sentence(typed: str) -> str:
    """What a person typed, closed with a full stop where nothing closes it, so that another sentence may follow."""
    typed = typed.strip()
    return f"{typed}." if typed and typed.rstrip(CLOSING)[-1:] not in STOPS else typed
