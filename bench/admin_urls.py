"""The change list of runs in Django's admin, set up with care: what a row of the queue shows, in the same order, a page
of the same length, and the holders in the same query."""

from django.contrib import admin
from django.urls import include, path

from runs.models import Run
from takeover.urls import urlpatterns as product

PAGE = 30


@admin.register(Run)
class RunAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # not subscriptable when it runs
    list_display = (
        *("subject", "workflow", "state", "outcome", "stop_reason", "error_class", "question"),
        *("effects_at_risk", "holder", "answer_by", "stopped_at"),
    )
    list_filter = ("workflow", "state", "outcome")
    list_select_related = ("holder",)
    list_per_page = PAGE
    ordering = ("answer_by", "stopped_at", "id")
    search_fields = ("subject", "question")


urlpatterns = [path("admin/", admin.site.urls), path("", include(product))]
