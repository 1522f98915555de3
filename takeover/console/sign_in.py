"""Signing in and out again, and what becomes of a form whose sender is not signed in, or not any more."""

from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth import views
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.utils.decorators import method_decorator
from django_htmx.http import HttpResponseClientRedirect

from takeover.console import kept
from takeover.console.models import Preferences
from takeover.console.refusals import put_on_record, strangers
from takeover.console.you import carry


@method_decorator(login_not_required, name="dispatch")
class SignIn(views.LoginView):
    template_name = "sign_in.html"
    redirect_authenticated_user = True

    def get_success_url(self) -> str:
        wanted = super().get_success_url()
        return self.get_default_redirect_url() if urlsplit(wanted).path == self.request.path else wanted

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        answer = super().form_valid(form)
        typed = kept.unsealed(self.request.POST.get(kept.NAME, ""))
        if typed and typed.is_of(form.get_user()):
            kept.put_away(self.request, typed)
            answer = HttpResponseRedirect(typed.address)
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
        carried = {kept.NAME: self.request.POST.get(kept.NAME, "")}
        return super().get_context_data(**carried | kwargs) | {"demo": demo, "languages": settings.LANGUAGES}

    @classmethod
    def instead_of(cls, request: HttpRequest, typed: kept.Kept) -> HttpResponse:
        """The page in answer to a form that is not taken yet; what was typed is in it."""
        view = cls()
        view.setup(request)
        context = view.get_context_data(form=AuthenticationForm(request), **{kept.NAME: kept.sealed(typed)})
        return view.render_to_response(context, status=401)


class SignOut(views.LogoutView):
    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        answer = super().post(request, *args, **kwargs)
        carry(answer, Preferences())  # whoever comes next is somebody else
        return answer


def _demo() -> dict[str, Any]:
    from takeover.demo.accounts import ACCOUNTS, PASSWORD

    return {"accounts": ACCOUNTS.items(), "password": PASSWORD}


class SignInRequired(LoginRequiredMiddleware):
    def handle_no_permission(self, request: HttpRequest, view_func: Any) -> Any:
        if request.method not in {"GET", "HEAD"}:
            strangers.refuse("change")
        return _signed_out(request) or super().handle_no_permission(request, view_func)


def forged(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form whose token does not fit. From a page of ours that has grown old, it is shown again with a new one."""
    if not isinstance(request.user, User):
        strangers.refuse("form")
        return _signed_out(request) or _too_old(request)
    put_on_record(request, request.user, "send", "csrf")
    typed = kept.of(request)
    if typed and typed.is_of(request.user):
        kept.put_away(request, typed)
        to = typed.address
        return HttpResponseClientRedirect(to) if "HX-Request" in request.headers else redirect(to)
    return _too_old(request)


def _too_old(request: HttpRequest) -> HttpResponse:
    return render(request, "403_csrf.html", status=403)


def _signed_out(request: HttpRequest) -> HttpResponse | None:
    """What keeps a page, or a form that was sent, from being lost because nobody is signed in any more."""
    if "HX-Request" in request.headers:
        answer = render(request, "_signed_out.html", status=401)
        for name, value in (("HX-Retarget", "#session"), ("HX-Reswap", "innerHTML"), ("HX-Reselect", ".notice")):
            answer[name] = value
        return answer
    typed = kept.of(request)
    return SignIn.instead_of(request, typed) if typed else None
