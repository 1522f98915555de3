#!/usr/bin/env python
"""The command line of Takeover: `manage.py up`, `manage.py runs …`, and Django's own commands."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "takeover.settings")
    sys.argv = _take_data_dir(sys.argv)
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    from takeover.supervisor import CannotStart

    try:
        if sys.argv[1:2] == ["up"]:
            from takeover.management.commands.up import look_first

            look_first(sys.argv[2:])
        execute_from_command_line(sys.argv)
    except (ImproperlyConfigured, CannotStart) as error:
        sys.exit(str(error))


def _take_data_dir(words: list[str]) -> list[str]:
    """`--data-dir` goes with every command: it decides which database the settings name, so it is read before them."""
    left = words[:1]
    rest = iter(words[1:])
    for word in rest:
        option, equals, value = word.partition("=")
        if option == "--data-dir" and (folder := value if equals else next(rest, "")):
            os.environ["TAKEOVER_DATA_DIR"] = os.path.abspath(folder)
        else:
            left.append(word)
    return left


if __name__ == "__main__":
    main()
