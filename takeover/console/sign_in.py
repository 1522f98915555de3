"""Signing in, and out again."""

from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth import views
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import AuthenticationForm
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.decorators import method_decorator
from django_htmx.http import HttpResponseClientRefresh

from takeover.console.models import Preferences
from takeover.console.refusals import strangers
from takeover.console.you import carry


@method_decorator(login_not_required, name="dispatch")
class SignIn(views.LoginView):
    template_name = "sign_in.html"
    redirect_authenticated_user = True

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if "HX-Request" in request.headers:  # the session ended behind an open page: start over from the whole page
            return HttpResponseClientRefresh()
        return super().dispatch(request, *args, **kwargs)

    def get_success_url(self) -> str:
        wanted = super().get_success_url()
        return self.get_default_redirect_url() if urlsplit(wanted).path == self.request.path else wanted

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        answer = super().form_valid(form)
        if chosen := Preferences.objects.filter(person=form.get_user()).first():
            if not chosen.language:  # as in this browser, where they may have chosen one just now
                chosen.language = self.request.COOKIES.get(settings.LANGUAGE_COOKIE_NAME, "")
            carry(answer, chosen)
        return answer

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        strangers.refuse("sign-in")
        return super().form_invalid(form)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        demo = _demo() if settings.DEMO else None
        return super().get_context_data(**kwargs) | {"demo": demo, "languages": settings.LANGUAGES}


class SignOut(views.LogoutView):
    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        answer = super().post(request, *args, **kwargs)
        carry(answer, Preferences())  # whoever comes next is somebody else
        return answer


def _demo() -> dict[str, Any]:
    from takeover.demo.accounts import ACCOUNTS, PASSWORD

    return {"accounts": ACCOUNTS.items(), "password": PASSWORD}
