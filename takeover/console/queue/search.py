"""What a text finds: the words of a run, its number, the key of a write of it, and why it stopped, in the words that
people are shown."""

import re
import uuid
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.db.models import BooleanField, CharField, Func, Q, TextField, Value
from django.db.models.functions import Cast, Lower, Right, StrIndex
from django.db.models.lookups import Exact, GreaterThan
from django.utils.translation import override

from runs.models import Effect, Run
from runs.models.run import WORDS, bigrams
from takeover.console import words

LONGEST = 200
NUMBER = re.compile(r"[0-9a-f-]{1,36}")
KEY = re.compile(r"(?=.*[0-9]).{8,120}")  # an operation key, however its workflow spells it, is made of a run's number
SHORT = re.compile(r"([0-9a-f]{4})(?:…|\.\.\.)([0-9a-f]{2})")  # as the console shows a number where room is short


def found_by(text: str, by_index: bool = True) -> Q:
    """The runs that `text` finds. One character alone finds what begins with it: that is all there is a pair for.
    `by_index`: or else rows are looked through one by one."""
    if len(text) == 1:
        return _says(f"\n{text}", by_index) | _numbered(text)
    stopped_for, failed_by = _codes(text, words.REASON), _codes(text, words.ERROR)
    # Looked up first: beside a question to another table, no index of this one would be used.
    writing = Q(pk=run.pk) if (run := _that_writes(text)) else Q(pk__in=[])
    named = _says(text, by_index) | _numbered(text) | writing
    return named | Q(stop_reason__in=stopped_for) | Q(error_class__in=failed_by)


def the_run(text: str) -> Run | None:
    """The one run that `text` is the number of, in full or as the console shortens it, or a write's operation key."""
    key, text = text, text.lower()
    if not SHORT.fullmatch(text):
        try:
            numbered = Run.objects.filter(pk=uuid.UUID(text)).first()
        except ValueError:
            numbered = None
        return numbered or _that_writes(key)
    found = Run.objects.filter(_numbered(text))[:2]
    return found[0] if len(found) == 1 else None


def _that_writes(key: str) -> Run | None:
    """The run of the write with this operation key: what a service's own log has of it."""
    if not KEY.fullmatch(key):
        return None
    effect = Effect.objects.select_related("run").filter(operation_key=key).first()
    return effect.run if effect else None


def _says(text: str, by_index: bool = True) -> Q:
    wanted = Lower(Value(text, output_field=TextField()))
    in_this_order = Q(GreaterThan(StrIndex(WORDS, wanted), 0))
    if not by_index:
        return in_this_order
    # By the pairs it is found in the index; that they also stand in this order is looked at in what that leaves.
    pairs = Func(
        bigrams(WORDS), bigrams(wanted), template="%(expressions)s", arg_joiner=" @> ", output_field=BooleanField()
    )
    return in_this_order & Q(pairs)


def _numbered(text: str) -> Q:
    """Those whose number begins with `text`, as a range of the primary key."""
    text = text.lower()
    ends = SHORT.fullmatch(text)
    begins = (ends[1] if ends else text).replace("-", "")
    if not begins or len(begins) > 32 or not (ends or NUMBER.fullmatch(text)):
        return Q(pk__in=[])
    between = Q(pk__range=(uuid.UUID(begins.ljust(32, "0")), uuid.UUID(begins.ljust(32, "f"))))
    return between & Q(Exact(Right(Cast("pk", CharField()), 2), ends[2])) if ends else between


def _codes(text: str, spelled: Mapping[Any, Any]) -> list[str]:
    """The codes whose words contain `text`: a case is talked about in any language, whatever the page is in."""
    found = set()
    for language, _name in settings.LANGUAGES:
        with override(language):
            found |= {str(code) for code, word in spelled.items() if text.lower() in str(word).lower()}
    return sorted(found)
