"""Instants as the console writes them: in the zone and the language of whoever reads, and as seen from now."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache

from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import get_language, pgettext

from takeover.console import words

SOON = timedelta(minutes=15)
FULL = timedelta(hours=4)  # the bar of what is due this far away or further is empty
LEAST = 8  # percent, so that there is something of the bar to be seen
BAR = (
    '{}<svg class="bar" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">'
    '<rect class="track" width="100" height="4"/><rect class="fill" width="{}" height="4"/></svg>'
)


@dataclass(frozen=True)
class Moment:
    """An instant and how it is said. In one zone and one language, two that are equal look the same."""

    at: datetime  # in UTC: elsewhere, two are equal where a clock is put back
    words: str

    @property
    def html(self) -> SafeString:
        opening = _opening(self.at, timezone.get_current_timezone_name(), get_language())
        return format_html("{}{}</time>", opening, self.words)


@dataclass(frozen=True)
class Due(Moment):
    """When an answer is due."""

    urgency: str  # which of the three looks it has
    used_up: int  # how full its bar is, in percent

    @property
    def with_bar(self) -> SafeString:
        return format_html(BAR, self.html, self.used_up)


def clock(value: datetime | str | None) -> Moment | None:
    at = _instant(value)
    return Moment(at, _clock(timezone.localtime(at))) if at else None


def ago(value: datetime | str | None) -> Moment | None:
    at = _instant(value)
    return Moment(at, words.spell(timezone.now() - at)) if at else None


def until(value: datetime | str | None) -> Moment | None:
    at = _instant(value)
    return Moment(at, words.spell(at - timezone.now())) if at else None


def due(value: datetime | str | None) -> Due | None:
    at = _instant(value)
    if not at:
        return None
    left = at - timezone.now()
    if left < timedelta(0):
        return Due(at, words.spell_due(left), "late", 100)
    return Due(at, words.spell_due(left), "soon" if left < SOON else "calm", max(LEAST, 100 - int(100 * left / FULL)))


def date_of(day: date) -> str:
    return _date(day, pgettext("format of a date", "j M Y"))


def now_here() -> Moment:
    at = timezone.now()
    return Moment(at, exactly(timezone.localtime(at)))


def _instant(value: datetime | str | None) -> datetime | None:
    """An instant from a row or from JSON."""
    found = parse_datetime(value) if isinstance(value, str) else value
    if found is None:
        return None
    return (found if timezone.is_aware(found) else timezone.make_aware(found)).astimezone(UTC)


def exactly(at: datetime) -> str:
    """The instant to the second, with the name of the zone and how far it is from UTC."""
    parts = {"date": _date(at.date(), pgettext("format of a date", "j F Y")), "time": f"{at:%H:%M:%S}"}
    written, offset = pgettext("an instant", "%(date)s, %(time)s") % parts, f"{at:%z}"
    return f"{written} {at.tzinfo} (UTC{offset[:3]}:{offset[3:]})" if at.utcoffset() else f"{written} {at.tzinfo}"


def _clock(at: datetime) -> str:
    today = timezone.localtime()
    if at.date() == today.date():
        return f"{at:%H:%M:%S}"
    this_year = at.year == today.year
    how = pgettext("format of a date", "j M") if this_year else pgettext("format of a date", "j M Y")
    return f"{_date(at.date(), how)} {at:%H:%M}"


def _date(day: date, how: str) -> str:
    return _written_once(day, how, get_language())


# Pages show the same days and the same instants again and again, and Django takes long to write one.


@lru_cache(maxsize=2048)
def _written_once(day: date, how: str, _language: str | None) -> str:
    return date_format(day, how)


@lru_cache(maxsize=8192)
def _opening(at: datetime, _zone: str, _language: str | None) -> SafeString:
    here = timezone.localtime(at)
    return format_html('<time datetime="{}" title="{}">', here.isoformat(timespec="seconds"), exactly(here))
