"""The cast: Alice works in support, Bob supervises, Ada administers, Charlie has no role."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.console import rows


@pytest.fixture
def alice(db: None) -> User:
    return rows.person("alice", "support", first_name="Alice", last_name="Lin")


@pytest.fixture
def bob(db: None) -> User:
    return rows.person("bob", "supervisor", first_name="Bob", last_name="Okafor")


@pytest.fixture
def ada(db: None) -> User:
    return rows.person("ada", "administrator")


@pytest.fixture
def charlie(db: None) -> User:
    return rows.person("charlie")


@pytest.fixture
def signed_in() -> Callable[[User], Client]:
    def sign_in(person: User) -> Client:
        client = Client()
        client.force_login(person)
        return client

    return sign_in
