from django.apps import AppConfig


class RunsConfig(AppConfig):
    name = "runs"

    def ready(self) -> None:
        # Agents do not know Django: which models they may ask, and what is secret here, is told to them.
        from django.conf import settings

        from runs.agents import prompt
        from runs.agents.model import CONFIGURED, Model
        from runs.secrets import known_secrets

        CONFIGURED.update({service: Model(**given) for service, given in settings.MODELS.items()})
        prompt.known_secrets = known_secrets
