from django.apps import AppConfig


class RunsConfig(AppConfig):
    name = "runs"

    def ready(self) -> None:
        # Agents do not know Django: which models they may ask is told to them.
        from django.conf import settings

        from runs.agents.model import CONFIGURED, Model

        CONFIGURED.update({service: Model(**given) for service, given in settings.MODELS.items()})
