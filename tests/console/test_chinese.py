"""The console in Chinese: every page, as every role, with nothing left in English but what is marked as such."""

import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser

import pytest
from django.contrib.auth.models import User
from django.template.loader import render_to_string
from django.test import Client
from django.utils import translation

from runs.domain.effects import EffectState
from runs.domain.interventions import FROM_PEOPLE
from runs.domain.states import StopReason
from runs.models import Run
from tests.console import rows

SignIn = Callable[[User], Client]
WITHOUT_AN_END = {"input", "meta", "link", "br", "rect", "path", "circle", "line"}
# Names, keys and formats. What is recorded, typed or a code stands in an element that says so.
LATIN = {"Takeover", "JSON", "CSV", "UTC", "Enter", "Esc", "Cookie", "CST", "English", "alice", "Lin", "Okafor"}
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


def test_the_door_is_in_chinese_for_a_browser_that_asks_for_it(client: Client, alice: User) -> None:
    answer = client.get("/sign-in/", headers={"Accept-Language": "zh-CN,zh;q=0.9,en;q=0.5"})
    assert (english(answer.content.decode()), answer.headers["Content-Language"]) == ([], "zh-hans")
    assert "Accept-Language" in answer.headers["Vary"]
    wrong = client.post("/sign-in/", {"username": "alice", "password": "no"}, headers={"Accept-Language": "zh-CN"})
    assert english(wrong.content.decode()) == []


def test_the_page_of_our_own_faults_is_in_chinese(db: None) -> None:
    with translation.override("zh-hans"):
        assert english(render_to_string("500.html")) == []
