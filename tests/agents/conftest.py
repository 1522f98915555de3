from collections.abc import Iterator

import pytest

from . import provider as loopback
from .provider import Provider


@pytest.fixture(scope="session")
def _running_provider() -> Iterator[Provider]:
    with loopback.running() as provider:
        yield provider


@pytest.fixture
def provider(_running_provider: Provider) -> Provider:
    _running_provider.forget()
    return _running_provider
