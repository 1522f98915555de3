"""Every address of the product, grouped by resource."""

from django.contrib.auth.decorators import login_not_required
from django.urls import include, path
from django.views.i18n import set_language

from takeover.api import callbacks
from takeover.console import approvals, case, events, glance, kept, live, outcomes, steps
from takeover.console.queue import bulk, screen, taking, views
from takeover.console.sign_in import SignIn, SignOut
from takeover.console.you import you

# /
queue_urls = [
    path("", screen.queue, name="queue"),
    path("queue/list/", screen.queue_list, name="queue-list"),
    path("queue/news/", screen.queue_news, name="queue-news"),
    path("queue/counts/", screen.desk_counts, name="desk-counts"),
    path("queue/take-next/", taking.take_next, name="take-next"),
    path("queue/bulk/", bulk.bulk, name="queue-bulk"),
    path("queue/views/", views.save, name="queue-save-view"),
    path("queue/views/<int:view_id>/rename/", views.rename, name="queue-rename-view"),
    path("queue/views/<int:view_id>/delete/", views.delete, name="queue-delete-view"),
]

# /runs/<uuid>/
case_urls = [
    path("", case.case, name="case"),
    path("body/", case.case_body, name="case-body"),
    path("package.json", case.package, name="package"),
    path("claim/", case.claim, name="claim"),
    path("claim/row/", taking.claim_row, name="claim-row"),
    path("release/", case.release, name="release"),
    path("assign/", taking.assign, name="assign"),
    path("follow-ups/<slug:name>/", case.follow_up, name="follow-up"),
    path("glance/", glance.glance, name="glance"),
    path("steps/<int:seq>/", steps.step, name="step"),
    path("steps/<int:seq>/opened/", steps.step_opened, name="step-opened"),
    path("notes/", case.note, name="note"),
    path("events/<slug:name>/", events.event, name="event"),
    path("events/<slug:name>/form/", events.event_form, name="event-form"),
]

# /approvals/
approval_urls = [
    path("", approvals.approvals, name="approvals"),
    path("list/", approvals.approvals_list, name="approvals-list"),
    path("together/", approvals.approve_together, name="approve-together"),
]

# /outcomes/
outcomes_urls = [
    path("", outcomes.outcomes, name="outcomes"),
    path("runs/", outcomes.runs, name="outcomes-runs"),
]

# /api/
api_urls = [
    path("callbacks/<str:service>/", callbacks.callback, name="callback"),
]

urlpatterns = [
    path("", include(queue_urls)),
    path("runs/<uuid:run_id>/", include(case_urls)),
    path("approvals/", include(approval_urls)),
    path("outcomes/", include(outcomes_urls)),
    path("outcomes.csv", outcomes.outcomes_csv, name="outcomes-csv"),
    path("api/", include(api_urls)),
    path("live/", live.live, name="live"),
    path("kept/", kept.show, name="kept"),
    path("you/", you, name="you"),
    path("language/", login_not_required(set_language), name="language"),
    path("sign-in/", SignIn.as_view(), name="sign-in"),
    path("sign-out/", SignOut.as_view(), name="sign-out"),
]

handler400 = "takeover.edge.bad_request"
handler403 = "takeover.console.refusals.forbidden"
handler404 = "takeover.edge.not_found"
handler500 = "takeover.edge.fault"
