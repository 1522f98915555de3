"""A run that a model drives, carried by a Celery worker that knows the model from its environment alone."""

from collections.abc import Callable

import pytest

from runs.interventions import starting
from takeover.supervisor.children import Child
from tests.people import person
from tests.processes import BackOffice, Standing, wait_until

from .provider import KEY, Provider, call


@pytest.fixture(autouse=True)
def _no_broker() -> None:
    """Here there is one."""


@pytest.mark.parametrize(
    ("policy", "path", "model"), [("anthropic", "", "claude-sonnet-5"), ("openai", "/v1", "gpt-5.4-mini")]
)
def test_a_key_in_the_environment_is_all_that_a_worker_needs(
    policy: str,
    path: str,
    model: str,
    start_worker: Callable[..., Child],
    sweeper: Standing,
    back_office: BackOffice,
    provider: Provider,
) -> None:
    provider.answers[:] = [call("submit_refund")]
    name = policy.upper()
    start_worker(**{f"{name}_API_KEY": KEY, f"{name}_BASE_URL": f"{provider.url}{path}"})  # not the maker's: no network

    run, _ = starting.start("refund_request", {"order_id": "B456"}, person("support"), policy=policy)

    def has_ended() -> bool:
        run.refresh_from_db()
        return bool(run.outcome)

    wait_until(has_ended, within=60)
    assert (run.outcome, run.stop_reason) == ("COMPLETED", "contract_met")
    assert {asked["model"] for asked in provider.asked} == {model}
    assert [call["kind"] for call in back_office.ledger("B456")["calls"]].count("submit") == 1
