"""The values that must not appear in anything that is kept for people to read."""

from django.conf import settings


def known_secrets() -> tuple[str, ...]:
    services = settings.SERVICES.values()
    signing = [secret for configured in services for secret in configured.get("callback_secrets", ())]
    bare = [secret.removeprefix("whsec_") for secret in signing]  # with which one signs just as well
    return (
        settings.SECRET_KEY,
        *(configured["token"] for configured in services if "token" in configured),
        *signing,
        *bare,
    )
