"""Bring the catalogue up to date with what the product says, and compile it. Ends with 1 while something is missing."""

import os
import sys

import django


def main() -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "takeover.settings")
    django.setup()
    from takeover.catalogue import chinese

    catalogue = chinese.up_to_date()
    chinese.write(catalogue)
    faults = list(chinese.faults(catalogue))
    for fault in faults:
        print(fault)
    print(f"{len(catalogue)} sentences, {len(faults)} to see to.")
    return 1 if faults else 0


sys.exit(main())
