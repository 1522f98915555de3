from django.apps import AppConfig


class TakeoverConfig(AppConfig):
    name = "takeover"

    def ready(self) -> None:
        # Web and command-line processes publish wake-ups, so they need the configured Celery application too.
        from takeover import celery, checks  # noqa: F401
