"""When an answer is due, as it looks now: in words, how pressing, and how much of the time for it is gone."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils.functional import cached_property

from takeover.console import words

SOON = timedelta(minutes=15)
FULL = timedelta(hours=4)  # the bar of what is due this far away or further is empty
LEAST = 8  # percent, so that there is something of the bar to be seen


@dataclass(frozen=True)
class Due:
    at: datetime
    left: timedelta  # negative: late

    @classmethod
    def seen(cls, at: datetime, now: datetime) -> "Due":
        return cls(at, at - now)

    @cached_property
    def words(self) -> str:
        return words.spell_due(self.left)

    @property
    def urgency(self) -> str:
        """Which of the looks it has."""
        return "late" if self.left < timedelta(0) else "soon" if self.left < SOON else "calm"

    @property
    def used_up(self) -> int:
        """How full its bar is, in percent."""
        return 100 if self.left < timedelta(0) else max(LEAST, 100 - int(100 * self.left / FULL))
