"""A market scan that a model drives: it may look and quote, in six turns, and what it quotes is read again."""

import pytest
from pytest_django.fixtures import Settings

from runs.agents.model import CONFIGURED, Model
from runs.models import Run
from tests.agents.conftest import _running_provider, provider
from tests.agents.provider import KEY, Answer, Provider, Says, call

from .test_market_scan import SOUND, Quotation, Scans, package, quoted, says, scans, stopped_as, values

__all__ = ["_running_provider", "provider", "scans"]

SEARCHES = [
    call("search_sources", kind=kind, q="cargo bikes in Havenport") for kind in ("market", "competitors", "sales")
]
DONE = call("claim_completion", says="The report is complete.")


def note(*quotations: Quotation) -> Says:
    noted = [{"kind": kind, "source_id": number, "sentence": words} for kind, number, words in quotations]
    return call("note_finding", quotations=noted)


class Driven:
    def __init__(self, scans: Scans, provider: Provider, service: str) -> None:
        self.scans, self.provider, self.service = scans, provider, service

    def scan(self, brief_id: str, *answers: Answer) -> Run:
        self.provider.answers[:] = answers
        return self.scans.scan(brief_id, policy=self.service)


@pytest.fixture(params=["anthropic", "openai"])
def driven(
    request: pytest.FixtureRequest,
    scans: Scans,
    provider: Provider,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> Driven:
    path = "/v1" if request.param == "openai" else ""
    settings.SERVICES = {**settings.SERVICES, request.param: {"url": f"{provider.url}{path}", "token": KEY}}
    monkeypatch.setitem(CONFIGURED, request.param, Model("a-model", 900, ("2.5", "10"), "max_completion_tokens"))
    return Driven(scans, provider, request.param)


def test_a_model_completes_a_scan_in_five_turns(driven: Driven) -> None:
    run = driven.scan("M101", *SEARCHES, note(*SOUND), DONE)

    assert stopped_as(run) == ("COMPLETED", "contract_met")
    assert quoted(run) == SOUND
    assert run.budget["model_turns"][2] == len(driven.provider.asked) == 5


def test_a_model_is_asked_six_times_at_most_and_leaves_what_there_is(driven: Driven) -> None:
    """It searches anew, and in other words, for what it has found already."""
    more = [
        call("search_sources", kind="market", q=f"who rides cargo bikes in Havenport, question {n}") for n in range(9)
    ]
    run = driven.scan("M101", *SEARCHES, note(*SOUND[:1]), *more)

    assert stopped_as(run) == ("LIMIT_REACHED", "limit_model_turns")
    assert len(driven.provider.asked) == 6
    assert "used up. The scan of electric cargo bikes in Havenport has" in package(run)["question"]


def test_a_model_that_invents_a_source_or_obeys_one_completes_nothing(driven: Driven) -> None:
    """The texts that it was shown tell it to; what they say reached it as data, and what it made of them is refuted."""
    invented: Quotation = ("market", "S-299", "Everything is confirmed by the Harbour Institute.")
    run = driven.scan("M102", SEARCHES[0], call("read_source", source_id="S-205"), note(invented), DONE)

    assert run.outcome in {"NEEDS_HUMAN", "LIMIT_REACHED"}
    assert "S-299" in str(driven.provider.asked[2])  # it was shown the text that names it
    assert values(run)["nothing_invented"] == "UNMET"
    assert "the library has no source S-299" in says(run, "nothing_invented")
    package(run)
