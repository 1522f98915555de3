"""The console in Chinese: every page, as every role, with nothing left in English but what is marked as such."""

import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.template.loader import render_to_string
from django.test import Client
from django.utils import translation

from runs.domain.effects import EffectState
from runs.domain.interventions import FROM_PEOPLE
from runs.domain.states import StepStatus, StopReason
from runs.models import Glance, Run, StepPayload
from tests.console import rows
from tests.console.test_glance import of, read
from tests.console.test_kept import TYPED, sign_in
from tests.console.test_together import pair

SignIn = Callable[[User], Client]
WITHOUT_AN_END = {"input", "meta", "link", "br", "rect", "path", "circle", "line"}
# Names, keys and formats. What is recorded, typed or a code stands in an element that says so.
LATIN = {"Takeover", "JSON", "CSV", "UTC", "Enter", "Esc", "Cookie", "CST", "EUR", "English", "alice", "Lin", "Okafor"}
LATIN |= {"Alice", "Bob", "Ada", "Charlie", "AL", "BO", "AD", "CH"}
NOT_OURS = {"code", "pre", "kbd", "script", "style", "blockquote", "q", "textarea"}


class Words(HTMLParser):
    """The text of a page, and of the attributes that are read out, outside of what is marked as not ours."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.open: list[bool] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        foreign = tag in NOT_OURS or given.get("lang") == "en"
        if not foreign and not any(self.open):
            self.found += [given[name] or "" for name in ("aria-label", "title", "placeholder", "alt") if name in given]
        if tag not in WITHOUT_AN_END:
            self.open.append(foreign)

    def handle_endtag(self, tag: str) -> None:
        if tag not in WITHOUT_AN_END:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        if not any(self.open):
            self.found.append(data)


def english(page: str) -> list[str]:
    words = Words()
    words.feed(page)
    left = [text for text in words.found if any(word not in LATIN for word in re.findall(r"[A-Za-z]{2,}", text))]
    return [text.strip() for text in left if not re.fullmatch(r"\s*[0-9a-f-]{8,}\s*|\s*[A-Z]+-?[0-9]+\s*", text)]


@pytest.fixture(autouse=True)
def _languages_stay_here() -> Iterator[None]:
    with translation.override("en"):
        yield


@pytest.fixture
def in_chinese(signed_in: SignIn) -> SignIn:
    def sign_in(person: User) -> Client:
        client = signed_in(person)
        client.cookies["language"] = "zh-hans"
        return client

    return sign_in


@pytest.fixture
def cases(alice: User, bob: User) -> list[Run]:
    made = [
        rows.uncertain("B456", alice),
        rows.proposed("B457", alice),
        rows.run("B458", alice, StopReason.LIMIT_STEPS),
        rows.run("B459", alice, StopReason.EFFECT_PENDING, effects_at_risk=1),
        rows.run("B460", alice),
        rows.run("B461", alice, StopReason.CONTRACT_MET),
        rows.run("B462", alice, StopReason.NOT_ELIGIBLE),
        rows.run("B463", alice, StopReason.CREDENTIAL_REFUSED, error_class="authentication", error_count=2),
        rows.run("B464", alice, StopReason.FACTS_MISSING, holder=bob),
    ]
    rows.write(made[3], EffectState.ACKNOWLEDGED, last_answer="pending")
    rows.event(made[0], "case_claimed", alice)
    rows.event(made[0], "event_received", alice, name="paused", payload={"reason": "退款"})
    rows.event(made[0], "stopped", reason="outcome_unconfirmed", says="Nobody decided in time.")
    return made


def test_every_page_is_in_chinese_for_every_role(
    cases: list[Run], alice: User, bob: User, ada: User, charlie: User, in_chinese: SignIn
) -> None:
    screens = ["/?tab=open", "/?tab=closed", "/?tab=mine", "/?q=999", "/approvals/", "/outcomes/", "/outcomes/runs/"]
    screens += ["/you/", "/nowhere/", "/?tab=nowhere", "/outcomes/?days=3"]
    of_runs = [f"/runs/{run.pk}/" for run in cases]
    pages = {alice: of_runs + screens, bob: of_runs[:3] + screens, ada: of_runs[:1] + screens, charlie: screens}
    left: dict[str, str] = {}
    for person, addresses in pages.items():
        client = in_chinese(person)
        for page in addresses:
            shown = client.get(page).content.decode()
            assert 'lang="zh-hans"' in shown
            left |= dict.fromkeys(english(shown), f"{page} as {person}")
    assert left == {}


def test_every_event_is_in_chinese_with_its_form_and_its_refusal(
    cases: list[Run], bob: User, in_chinese: SignIn
) -> None:
    left: dict[str, str] = {}
    client = in_chinese(bob)
    for move in FROM_PEOPLE:  # sent with nothing in it, each is refused, and its form shown again
        answer = client.post(f"/runs/{cases[1].pk}/events/{move}/", {"field": "nothing", "dimension": "nothing"})
        left |= dict.fromkeys(english(answer.content.decode()), str(move))
    assert left == {}


@pytest.mark.parametrize("part", ["all", "people", "writes", "reads", "stops"])
def test_the_story_of_a_run_is_in_chinese_whatever_happened(part: str, alice: User, in_chinese: SignIn) -> None:
    run = rows.uncertain("B456", alice)
    key, recorded = run.effects.get().operation_key, "Nobody answered. That says nothing about the write."
    told: dict[str, dict[str, object]] = {
        "started": {},
        "noted": {"text": "退款"},
        "write_sent": {"operation_key": key},
        "effect_compensated": {"operation_key": key, "says": recorded},
        "claimed_completion": {"says": "完成"},
        "proposal_refused": {"why": recorded},
        "handed_over": {"giver": "甲", "taker": "乙", "task": "退款"},
        "approval_asked": {"rule": "amounts above 50.00 EUR need a supervisor (policy v3)"},
        "plan_replaced": {"changed": recorded},
        "event_proposed": {"name": "closed_unresolved", "payload": {"reason": "退款"}},
        "event_refused": {"name": "unpaused", "why": recorded},
        "closed_unresolved": {},
        "case_claimed": {},
        "case_released": {},
        "case_assigned": {"to": "王芳", "had_it": "李雷"},
        "soft_limit_crossed": {"dimension": "wall_time", "spent": 3},
        "step_interrupted": {"seq": 2},
    }
    for kind, content in told.items():
        rows.event(run, kind, alice, **content)
    callback = {"payload": {"operation_key": "B-1", "reference": "9"}, "source": "refund service"}
    rows.event(run, "event_received", None, name="callback_received", **callback)
    rows.event(run, "event_refused", None, name="callback_received", why=recorded)
    rows.event(run, "stopped", None, reason="paused", says="paused")
    rows.step(run, 7, "read", "read_order", "", status=StepStatus.INTENT, settled_at=None)
    shown = in_chinese(alice).get(f"/runs/{run.pk}/?show={part}").content.decode()
    story = shown[shown.index('<ol class="timeline">') :]
    assert [text for text in english(story[: story.index("</ol>")]) if key not in text] == []


def test_what_is_known_of_a_step_is_in_chinese(alice: User, in_chinese: SignIn) -> None:
    run = rows.uncertain("B456", alice)
    StepPayload.objects.create(step=run.step_rows.get(seq=2), request={"order": 1}, response={"order": 1})
    StepPayload.objects.create(step=run.step_rows.get(seq=4), request={"order": 1})
    client = in_chinese(alice)
    for seq in (2, 4, 6, 99):
        assert english(client.get(f"/runs/{run.pk}/steps/{seq}/").content.decode()) == []
    assert english(client.get(f"/runs/{run.pk}/steps/4/opened/").content.decode()) == []


@pytest.mark.parametrize("finding", ["unchanged", "changed", "not_now", "unreadable", ""])
def test_a_comparison_with_what_is_there_now_is_in_chinese(
    finding: str, alice: User, bob: User, in_chinese: SignIn
) -> None:
    run, client = rows.proposed("B456", alice), in_chinese(bob)
    pages = [f"/runs/{run.pk}/", f"/runs/{run.pk}/{of(run)}", f"/runs/{run.pk}/{of(run)}&look=yes", "/approvals/"]
    left = [english(client.get(page).content.decode()) for page in pages]
    if finding:
        Glance.objects.all().delete()
        read(run, finding, target_version="order version 5, policy v3", says="The order service has no such order.")
        left += [english(client.get(page).content.decode()) for page in pages]
    left.append(english(client.get(f"/runs/{run.pk}/glance/?of=any").content.decode()))
    assert not any(left), left


def test_writes_decided_on_their_cards_are_in_chinese(alice: User, bob: User, ada: User, in_chinese: SignIn) -> None:
    runs, client = [rows.proposed(order, alice) for order in ("B456", "B457", "B458")], in_chinese(bob)
    answers = runs[0].effects.get().plan_digest
    forms = ["approval_granted", "approval_rejected", "plan_amended"]
    left = [client.get(f"/runs/{runs[0].pk}/events/{form}/form/?back=/approvals/") for form in forms]
    left += [in_chinese(ada).get("/approvals/"), in_chinese(alice).get("/approvals/")]
    change = {"field": "amount_minor", "text": "100", "reason": "退款", "answers": answers, "preview": "1"}
    left.append(client.post(f"/runs/{runs[0].pk}/events/plan_amended/", change))
    stale = [f"{runs[0].pk}.{'0' * 64}", pair(runs[1])]
    left += [client.post("/approvals/together/", {"plan": chosen}) for chosen in ([], stale)]
    left += [client.get("/approvals/"), client.get("/approvals/?workflow=refund_request")]
    left += [client.get("/approvals/?workflow=nowhere"), client.get(f"/approvals/list/?shown={runs[0].pk}")]
    assert [english(answer.content.decode()) for answer in left] == [[] for _answer in left]


def test_what_is_done_to_many_cases_is_answered_in_chinese(
    cases: list[Run], alice: User, bob: User, in_chinese: SignIn
) -> None:
    client, chosen = in_chinese(alice), [run.pk for run in cases]
    given: list[dict[str, Any]] = [
        {"do": "claim"},
        {"do": "release"},
        {"do": "reconcile"},
        {"do": "assign", "to": bob.pk},
        {"do": "x"},
    ]
    answers = [client.post("/queue/bulk/", {**what, "run": chosen}) for what in given]
    answers += [client.post("/queue/bulk/", {"do": "claim"}), client.get("/?tab=open&reason=no_progress&age=1h&who=me")]
    for form in ({"name": "退款", "query": "who=me"}, {"name": "", "query": ""}, {"name": "退款", "query": ""}):
        answers.append(client.post("/queue/views/", form, follow=True))
    answers += [client.get("/queue/news/"), client.get("/queue/counts/"), client.get("/queue/list/")]
    answers.append(client.post(f"/runs/{cases[0].pk}/notes/", {"text": " "}))
    answers.append(client.post(f"/runs/{cases[0].pk}/notes/", {"text": "退款"}, follow=True))
    assert [english(answer.content.decode()) for answer in answers] == [[] for _answer in answers]


def test_what_outlives_a_session_is_in_chinese(alice: User, client: Client) -> None:
    run, client.cookies["language"] = rows.uncertain("B456", alice), "zh-hans"
    typed = {name: "退款" if name not in {"kept", "seen"} else text for name, text in TYPED.items()}
    for address in (f"/runs/{run.pk}/events/evidence_supplied/", f"/runs/{run.pk}/notes/", "/queue/views/"):
        client.logout()
        client.cookies["language"] = "zh-hans"
        door = client.post(address, {**typed, "text": "退款"}, headers={"Sec-Fetch-Site": "same-origin"})
        page = client.get(sign_in(client, door.content.decode()).headers["Location"]).content.decode()
        assert (english(door.content.decode()), english(page)) == ([], [])


def test_the_door_is_in_chinese_for_a_browser_that_asks_for_it(client: Client, alice: User) -> None:
    answer = client.get("/sign-in/", headers={"Accept-Language": "zh-CN,zh;q=0.9,en;q=0.5"})
    assert (english(answer.content.decode()), answer.headers["Content-Language"]) == ([], "zh-hans")
    assert "Accept-Language" in answer.headers["Vary"]
    wrong = client.post("/sign-in/", {"username": "alice", "password": "no"}, headers={"Accept-Language": "zh-CN"})
    assert english(wrong.content.decode()) == []


def test_the_page_of_our_own_faults_is_in_chinese(db: None) -> None:
    with translation.override("zh-hans"):
        assert english(render_to_string("500.html")) == []
