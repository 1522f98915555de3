"""How the console writes things: instants and durations, the three values, states, amounts, and text from outside."""

import json
import re
from datetime import datetime, timedelta
from typing import Any

from django import template
from django.utils.formats import number_format
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString
from django.utils.translation import pgettext

from runs.domain.budget import Dimension
from runs.domain.contract import Acceptance
from runs.domain.effects import EffectState
from runs.models import Run
from takeover.console import desk, moments, recorded, words
from takeover.console.moments import Moment

register = template.Library()

SIGN = "0-9A-Za-z_À-ɏ"
IN_ONE = re.compile(rf"(?<![{SIGN}./:-])[{SIGN}./][{SIGN}./:-]*+")  # what is written without a space
OF_AN_IDENTIFIER = re.compile(rf"[0-9]|[./][{SIGN}]")  # a figure, or a stop or a stroke within: no word has these
LONGEST_UNBROKEN = 16  # signs, which the narrowest column on a telephone has room for


# Instants and durations


def _html(found: Moment | None) -> SafeString | str:
    return found.html if found else "–"


@register.simple_tag
def clock(value: datetime | str | None) -> SafeString | str:
    """When it was, in clock time."""
    return _html(moments.clock(value))


@register.simple_tag
def now_here() -> SafeString:
    """This instant, for who wants to see whether the zone is the right one."""
    return moments.now_here().html


@register.simple_tag
def age(value: datetime | str | None) -> SafeString | str:
    """How long ago it was."""
    return _html(moments.ago(value))


@register.simple_tag
def left(value: datetime | str | None) -> SafeString | str:
    """How long until then."""
    return _html(moments.until(value))


@register.simple_tag
def due(value: datetime | str | None) -> SafeString | str:
    """When an answer is due, or how late it is."""
    return _html(moments.due(value))


register.filter("due", moments.due)


# Values and states: colour, shape and word together

MARK_OF_EFFECT = {
    EffectState.PLANNED: "none",
    EffectState.APPROVED: "none",
    EffectState.SENT: "unknown",
    EffectState.ACKNOWLEDGED: "pending",
    EffectState.UNKNOWN: "unknown",
    EffectState.CONFIRMED: "met",
    EffectState.REJECTED: "unmet",
    EffectState.ABSENT: "none",
    EffectState.COMPENSATED: "none",
}
MARK_OF_ACCEPTANCE: dict[str, str] = {
    Acceptance.SUCCEEDED: "met",
    Acceptance.FAILED: "unmet",
    Acceptance.UNKNOWN: "unknown",
}


def _mark(kind: str, text: str) -> SafeString:
    return format_html('<span class="mark" data-mark="{}">{}</span>', kind, text)


@register.simple_tag
def value_mark(value: str) -> SafeString:
    """MET, UNMET or UNKNOWN; whatever else there might be is unknown."""
    known = value if value in {"MET", "UNMET", "UNKNOWN"} else "UNKNOWN"
    text = {"MET": pgettext("assertion", "MET"), "UNMET": pgettext("assertion", "UNMET")}
    return _mark(known.lower(), text.get(known) or pgettext("assertion", "UNKNOWN"))


@register.simple_tag
def acceptance_mark(value: str) -> SafeString:
    return _mark(MARK_OF_ACCEPTANCE.get(value, "unknown"), words.word(value, words.ACCEPTANCE))


@register.simple_tag
def effect_mark(state: str) -> SafeString:
    return _mark(MARK_OF_EFFECT[EffectState(state)], words.word(state, words.EFFECT))


@register.filter
def state_word(code: str) -> str:
    return words.word(code, words.STATE)


register.filter("stands_as", desk.stands_as)


@register.filter
def outcome_word(code: str) -> str:
    return words.word(code, words.STANDING)


@register.filter
def reason_word(code: str) -> str:
    return words.word(code, words.REASON)


@register.filter
def effect_word(code: str) -> str:
    return words.word(code, words.EFFECT)


@register.filter
def answer_word(code: str | None) -> str:
    return words.taken_for(code) if code else ""


@register.filter
def error_word(code: str) -> str:
    return words.word(code, words.ERROR)


@register.filter
def recovery_word(code: str) -> str:
    return words.word(code, words.RECOVERY)


@register.filter
def dimension_word(code: str) -> str:
    return words.word(code, words.DIMENSION)


@register.filter
def event_word(name: str) -> str:
    return words.event(name)


register.filter("person", desk.name_of)


@register.filter
def scope_word(name: str, run: Run) -> str:
    return words.scope(name, run)


@register.filter
def face(name: str) -> str:
    """Two letters for a person."""
    name = name.partition(" (")[0]
    parts = [part for part in name.replace(".", " ").replace("_", " ").split() if part]
    letters = parts[0][0] + parts[-1][0] if len(parts) > 1 else name[:2]
    return letters.upper()


@register.filter
def short(value: object) -> str:
    """The ends of a long identifier; the whole stands in the title or beside it."""
    text = str(value)
    return f"{text[:4]}…{text[-2:]}" if len(text) > 12 else text


# Amounts


@register.filter
def amount(number: int, dimension: str) -> str:
    if dimension == Dimension.WALL_TIME:
        return words.spell(timedelta(seconds=number))
    if dimension == Dimension.COST:
        return f"{number / 1_000_000:.3f}".rstrip("0").rstrip(".")
    return str(number)


@register.filter
def share(part: int, whole: int) -> int:
    """`part` of `whole` in percent, for a bar."""
    return min(100, max(0, round(100 * part / whole))) if whole else 0


@register.filter
def up_to(number: int, most: int) -> str:
    """A count that was stopped at `most`: "1,000+" where there are more."""
    written = number_format(min(number, most), force_grouping=True)
    return pgettext("at least so many", "%s+") % written if number > most else written


# Text that somebody else wrote


register.filter("visible", words.visible)


@register.filter("recorded")
def show_recorded(text: object) -> SafeString:
    """A sentence of the record, in the viewer's language as far as it is one of ours; the rest is marked as English."""
    if recorded.is_as_recorded():
        return unbroken(words.visible(text))
    parts = recorded.parts(str(text))
    return SafeString("".join([_as_recorded(part, words.visible(part.text)) for part in parts]))


def _as_recorded(part: recorded.Part, shown: str) -> SafeString:
    """What is filled into a sentence may turn around what stands beside it, hence the isolation."""
    is_english = shown.isascii() and any(sign.isalpha() for sign in shown)
    kept = unbroken(shown)
    return format_html('<bdi lang="en">{}</bdi>', kept) if not part.is_ours and is_english else kept


@register.filter
def unbroken(text: str) -> SafeString:
    """A browser breaks lines at hyphens: right for a word like "read-only", wrong for B-4801 or for a date."""
    return SafeString(IN_ONE.sub(_whole, escape(text)))


def _whole(found: re.Match[str]) -> str:
    name = found[0].rstrip("./:-")
    if "-" not in name or not OF_AN_IDENTIFIER.search(name):
        return found[0]
    kind = "id" if len(name) <= LONGEST_UNBROKEN else "key"
    return f'<span class="{kind}">{name}</span>{found[0][len(name) :]}'


@register.filter
def as_recorded(text: object) -> SafeString:
    """What has to be seen exactly as it is: what a write would leave behind, say."""
    if recorded.is_as_recorded():
        return unbroken(words.visible(text))
    part = recorded.exact(str(text))
    return _as_recorded(part, words.visible(part.text))


@register.filter
def recorded_plainly(text: object) -> str:
    """The same where no markup may stand: in titles and attributes."""
    return words.visible(recorded.plain(str(text)))


@register.filter
def is_long(text: object) -> bool:
    return len(str(text)) > 320 or str(text).count("\n") > 5


@register.filter
def is_wide(text: object) -> bool:
    """Whether it makes a column of a narrow table too long to be read: a Chinese sign is as wide as two others."""
    shown = str(text)
    return len(shown) > 60 or len(shown) + sum(not sign.isascii() for sign in shown) > 60


@register.filter
def as_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


# What stands between words, as the language of the page has it


@register.simple_tag
def comma() -> str:
    return pgettext("between", ", ")


@register.simple_tag
def semicolon() -> str:
    return pgettext("between", "; ")


@register.simple_tag
def colon() -> str:
    return pgettext("between", ": ")


# Of templates alone


@register.filter
def starts_with(text: str, beginning: str) -> bool:
    return str(text).startswith(beginning)


@register.filter
def item(mapping: Any, key: str) -> Any:
    return mapping[key]


@register.filter
def is_sentence(text: object) -> bool:
    """Whether an error speaks to people; Django's own "not found" carries the name of a view or a list of patterns."""
    return str(text).endswith((".", "。"))
