"""One thing that the product says."""

from dataclasses import dataclass

RECORD = "record"  # the context of what is written into the record, and shown translated where it is recognised


@dataclass(frozen=True)
class Said:
    text: str
    plural: str = ""
    context: str = ""
    where: str = ""
