"""Signing in."""

from typing import Any

from django.conf import settings
from django.contrib.auth import views


class SignIn(views.LoginView):
    template_name = "sign_in.html"
    redirect_authenticated_user = True

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(**kwargs) | {"demo": _demo() if settings.DEMO else None}


def _demo() -> dict[str, Any]:
    from takeover.demo.accounts import ACCOUNTS, PASSWORD

    return {"accounts": ACCOUNTS.items(), "password": PASSWORD}
