from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    name = "takeover.console"
