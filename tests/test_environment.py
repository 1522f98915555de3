"""What the environment says is understood, or refused in a sentence."""

import re
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from takeover import environment

CLONE = Path(__file__).parent.parent


@pytest.mark.parametrize(
    ("redis_py", "kombu"),
    [
        ("redis://broker:6379/3", "redis://broker:6379/3"),
        ("unix:///run/valkey.sock", "redis+socket:///run/valkey.sock"),
        ("unix:///run/valkey.sock?db=3", "redis+socket:///run/valkey.sock?virtual_host=3"),
    ],
)
def test_a_broker_address_is_translated_for_kombu(redis_py: str, kombu: str) -> None:
    assert environment.broker(redis_py) == kombu


def test_a_database_address_may_name_a_socket_folder() -> None:
    found = environment.database("postgresql://takeover@/takeover?host=/a%20folder/sockets")

    assert (found["USER"], found["NAME"], found["HOST"]) == ("takeover", "takeover", "/a folder/sockets")


@pytest.mark.parametrize("address", ["mysql://host/name", "postgresql://host", "nonsense"])
def test_another_kind_of_database_is_refused(address: str) -> None:
    for name in ("DATABASE_URL", "OWNER_DATABASE_URL"):
        with pytest.raises(ImproperlyConfigured, match=f"^{name} must look like postgresql://"):
            environment.database(address, name)


def test_what_the_tests_install_is_what_people_install() -> None:
    def pins(lock: Path) -> set[str]:
        return set(re.findall(r"^[\w.-]+==\S+", lock.read_text(), re.MULTILINE))

    assert pins(CLONE / "requirements.lock") <= pins(CLONE / "tests" / "requirements.lock")
