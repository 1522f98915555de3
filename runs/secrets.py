"""The values that must not appear in anything that is kept for people to read."""

from django.conf import settings


def known_secrets() -> tuple[str, ...]:
    return (settings.SECRET_KEY, *(configured["token"] for configured in settings.SERVICES.values()))
