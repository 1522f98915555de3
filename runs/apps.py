from django.apps import AppConfig


class RunsConfig(AppConfig):
    name = "runs"

    def ready(self) -> None:
        # Agents do not know Django: which models they may ask, and what to keep from them, is told to them.
        from django.conf import settings

        from runs.agents.model import CONFIGURED, Model
        from runs.secrets import known_secrets

        secrets = known_secrets()
        CONFIGURED.update({service: Model(**given, secrets=secrets) for service, given in settings.MODELS.items()})
