"""What a field of an answer has to be, before anything is judged or planned on it."""

from datetime import date


def is_day(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(date.fromisoformat(value))
    except ValueError:
        return False


def is_count(value: object) -> bool:
    return type(value) is int and value >= 0
