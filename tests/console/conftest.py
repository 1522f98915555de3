"""The cast: Alice works in support, Bob and Robin supervise, Ada administers, Charlie has no role."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests import people


def person(name: str, last_name: str = "") -> User:
    made = people.person(name)
    made.last_name = last_name
    made.save()
    return made


@pytest.fixture
def alice(db: None) -> User:
    return person("alice", "Lin")


@pytest.fixture
def bob(db: None) -> User:
    return person("bob", "Okafor")


@pytest.fixture
def robin(db: None) -> User:
    return person("supervisor")


@pytest.fixture
def ada(db: None) -> User:
    return person("ada")


@pytest.fixture
def charlie(db: None) -> User:
    return person("charlie")


@pytest.fixture
def signed_in() -> Callable[[User], Client]:
    def sign_in(person: User) -> Client:
        client = Client()
        client.force_login(person)
        return client

    return sign_in
