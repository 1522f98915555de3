"""`manage.py audit …`: how far the record is sealed, and whether it is still what was sealed (docs/record.md).

Exit codes: 0 it is whole; 1 something does not fit; 2 what was given makes no sense, or the database does not answer.
"""

import re
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Iterator
from typing import Any

from runs.engine.audit import Report, verify
from runs.engine.seal import checkpoint, not_sealed
from runs.models import Seal
from takeover.management import printout
from takeover.management.terminal import DONE, OTHERWISE, TerminalCommand


class Command(TerminalCommand):
    help = "Says how far the record is sealed, and recomputes it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        folder = "the folder of the installation (.data)"  # read by manage.py before the settings are
        parser.add_argument("--data-dir", metavar="FOLDER", help=folder)
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB", title="verbs")
        recompute = "Recompute every seal and every event, and name the first thing that does not fit."
        for name, says in {"status": "Say how far the record is sealed.", "verify": recompute}.items():
            verb = verbs.add_parser(name, help=says, description=says)
            verb.add_argument("--data-dir", metavar="FOLDER", help=folder)
            verb.add_argument("--json", dest="as_json", action="store_true", help="print one JSON object, nothing else")
        verb.add_argument("--expect", metavar="HASH", type=_hash, help="of a checkpoint: it must be in the chain")

    def _status(self, as_json: bool, **_: Any) -> int:
        last, waiting = Seal.objects.latest_one(), not_sealed().count()
        if as_json:
            self._print_json({"checkpoint": checkpoint(last) if last else None, "not_sealed": waiting})
            return DONE
        for line in printout.aligned(_standing(last, waiting)):
            self._print(line)
        return DONE

    def _verify(self, expect: str | None, as_json: bool, **_: Any) -> int:
        report = verify(expect or "")
        code = OTHERWISE if report.broken else DONE
        if as_json:
            self._print_json(
                {
                    "whole": not report.broken,
                    "broken": report.broken,
                    "checkpoint": checkpoint(report.last) if report.last else None,
                    "seals": report.seals,
                    "sealed": report.sealed,
                    "emptied": report.emptied,
                    "not_sealed": None if report.broken else report.not_sealed,
                }
            )
            return code
        whole = "Everything that is sealed is as it was sealed." if report.seals else "Nothing is sealed yet."
        self._print(report.broken or whole)
        for line in printout.aligned(_found(report)):
            self._print(line)
        return code


def _standing(last: Seal | None, waiting: int) -> Iterator[list[str]]:
    yield ["sealed up to", f"{printout.when(last.up_to)}, seal {last.number}" if last else "– (there is no seal yet)"]
    yield ["not sealed yet", str(waiting)]
    if last:
        yield ["hash", last.hash]
        yield ["signed by", f"key {last.key_id}"]


def _found(report: Report) -> Iterator[list[str]]:
    if report.broken:
        yield ["before that", f"{report.sealed} events fit their seals; what comes after was not looked at"]
        return
    yield from _standing(report.last, report.not_sealed)
    emptied = f"; the text of {report.emptied} is not kept any more" if report.emptied else ""
    yield ["recomputed", f"{report.sealed} events under {report.seals} seals{emptied}"]


def _hash(text: str) -> str:
    if not re.fullmatch("[0-9a-f]{64}", text):
        raise ArgumentTypeError(f"must be the 64 hexadecimal digits of a checkpoint's hash, not {text!r}")
    return text
