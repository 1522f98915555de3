"""What the environment says is understood, or refused in a sentence."""

import re
import stat
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


def test_what_else_a_database_address_says_is_told_to_libpq_and_goes_before_our_own_limits() -> None:
    address = "postgresql://takeover@host/takeover?sslmode=verify-full&connect_timeout=9&options="
    found = environment.database(address, limits=environment.answers_within(30))["OPTIONS"]

    assert (found["sslmode"], found["connect_timeout"], found["options"]) == ("verify-full", "9", "")
    assert found["tcp_user_timeout"] == environment.REACHABLE["tcp_user_timeout"]


def test_what_libpq_does_not_know_is_refused_and_named() -> None:
    with pytest.raises(ImproperlyConfigured, match=r"^DATABASE_URL, after the question mark: .*sslmodus") as refused:
        environment.database("postgresql://takeover@host/takeover?sslmodus=verify-full&password=wint")
    assert "wint" not in str(refused.value)


@pytest.mark.parametrize("address", ["mysql://host/name", "postgresql://host", "nonsense"])
def test_another_kind_of_database_is_refused(address: str) -> None:
    for name in ("DATABASE_URL", "OWNER_DATABASE_URL"):
        with pytest.raises(ImproperlyConfigured, match=f"^{name} must look like postgresql://"):
            environment.database(address, name)


@pytest.mark.parametrize("password", ["wint/er", "wint#er", "wint?er", "wint[er", "wint:er"])
def test_an_address_whose_password_tears_it_apart_is_refused_and_not_repeated(
    password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADDRESS", f"https://takeover:{password}/@host:8000/path")
    for read in (
        lambda: environment.database(f"postgresql://takeover:{password}/@host/takeover"),
        lambda: environment.broker(f"redis://:{password}/@host:6379/0"),
        lambda: environment.web_address("ADDRESS"),
    ):
        with pytest.raises(ImproperlyConfigured, match=r"^\w+ must look like \w+://") as refused:
            read()
        assert "wint" not in str(refused.value)


@pytest.mark.parametrize("address", ["amqp://host", "host:6379", "redis"])
def test_another_kind_of_broker_is_refused(address: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"^REDIS_URL must look like redis://"):
        environment.broker(address)


GOOD = "whsec_dGFrZW92ZXItdGVzdHMtc2lnbi13aXRoLXRoaXMh"


@pytest.mark.parametrize(("given", "secrets"), [("", []), (GOOD, [GOOD]), (f"{GOOD}, {GOOD}", [GOOD, GOOD])])
def test_a_service_signs_with_one_secret_or_two(
    monkeypatch: pytest.MonkeyPatch, given: str, secrets: list[str]
) -> None:
    monkeypatch.setenv("SIGNED_WITH", given)
    assert environment.webhook_secrets("SIGNED_WITH") == secrets


@pytest.mark.parametrize(
    "given",
    [
        GOOD.removeprefix("whsec_"),
        "whsec_",
        "whsec_c2hvcnQ=",
        f"{GOOD}!",
        f"{GOOD} not-a-secret",
        f"{GOOD} {GOOD} {GOOD}",
        "whsec_" + "QUFB" * 22,
    ],
)
def test_a_secret_that_nobody_should_sign_with_is_refused_and_not_repeated(
    monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    monkeypatch.setenv("SIGNED_WITH", given)
    with pytest.raises(ImproperlyConfigured, match=r"SIGNED_WITH.* must be ") as refused:
        environment.webhook_secrets("SIGNED_WITH")
    assert GOOD.removeprefix("whsec_") not in str(refused.value)


def test_what_the_tests_install_is_what_people_install() -> None:
    def pins(lock: Path) -> set[str]:
        return set(re.findall(r"^[\w.-]+==\S+", lock.read_text(), re.MULTILINE))

    assert pins(CLONE / "requirements.lock") <= pins(CLONE / "tests" / "requirements.lock")


# The keys of the record's seals


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(environment, "DATA_DIR", tmp_path / "data")
    monkeypatch.delenv("AUDIT_KEY", raising=False)
    return tmp_path / "data"


def test_a_key_is_made_once_and_only_its_owner_can_read_it(folder: Path) -> None:
    assert environment.audit_keys(make=False) == []
    made = environment.audit_keys()
    file = folder / "audit-key"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert environment.audit_keys() == environment.audit_keys(make=False) == made == [file.read_text()]
    assert list(folder.iterdir()) == [file]


def test_of_two_processes_that_make_a_key_both_have_the_first_ones(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def overtaken(size: int) -> str:
        monkeypatch.undo()
        monkeypatch.setattr(environment, "DATA_DIR", folder)
        first.extend(environment.audit_keys())
        return "0" * 2 * size

    first: list[str] = []
    monkeypatch.setattr("secrets.token_hex", overtaken)
    assert environment.audit_keys() == first


def test_a_key_may_be_followed_by_those_that_it_replaced(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new, old = "n" * 32, "o" * 32
    monkeypatch.setenv("AUDIT_KEY", f"{new} {old}")
    assert environment.audit_keys() == [new, old]
    assert not folder.exists()


def test_a_key_that_can_be_guessed_or_is_empty_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    (folder / "audit-key").touch()
    with pytest.raises(ImproperlyConfigured, match="audit-key must hold a key of at least 32 characters"):
        environment.audit_keys()
    monkeypatch.setenv("AUDIT_KEY", "short")
    with pytest.raises(ImproperlyConfigured, match="AUDIT_KEY must hold a key of at least 32 characters"):
        environment.audit_keys()


@pytest.mark.parametrize("address", ["host/path", "ftp://host", "https://", "http://[", "file:///etc"])
def test_a_webhook_that_is_no_address_is_refused_and_not_repeated(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUDIT_WEBHOOK", address)
    with pytest.raises(ImproperlyConfigured) as refused:
        environment.web_address("AUDIT_WEBHOOK")
    assert str(refused.value) == "AUDIT_WEBHOOK must look like https://host/path."


def test_a_webhook_is_an_address_or_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AUDIT_WEBHOOK", raising=False)
    assert environment.web_address("AUDIT_WEBHOOK") == ""
    monkeypatch.setenv("AUDIT_WEBHOOK", "https://witness.example/seals")
    assert environment.web_address("AUDIT_WEBHOOK") == "https://witness.example/seals"


def test_prices_are_two_numbers_or_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_PRICES", "2.50, 10")
    assert environment.prices("OPENAI_PRICES") == ("2.50", "10")

    monkeypatch.delenv("OPENAI_PRICES")
    assert environment.prices("OPENAI_PRICES") is None


@pytest.mark.parametrize("given", ["2.5", "1 2 3", "a b", "-1 2", "NaN 1", "Infinity 1", "1e9 1"])
def test_prices_that_are_none_are_refused(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_PRICES", given)
    with pytest.raises(ImproperlyConfigured, match=r"^OPENAI_PRICES must be two numbers"):
        environment.prices("OPENAI_PRICES")


# Workflows and services of one's own


def test_modules_of_workflows_are_named_beside_those_that_come_along(monkeypatch: pytest.MonkeyPatch) -> None:
    assert environment.modules("OURS", ["a.b", "c"]) == ["a.b", "c"]

    monkeypatch.setenv("OURS", "shipped, loans.workflow")
    assert environment.modules("OURS", ["a.b", "c"]) == ["a.b", "c", "loans.workflow"]

    monkeypatch.setenv("OURS", "loans.workflow")
    assert environment.modules("OURS", ["a.b", "c"]) == ["loans.workflow"]


@pytest.mark.parametrize("word", ["loans/workflow.py", "loans.", ".workflow", "loans-desk", "1st"])
def test_what_is_no_module_is_refused(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OURS", f"shipped {word}")
    with pytest.raises(ImproperlyConfigured, match=f"^OURS: {re.escape(repr(word))} is no module's name"):
        environment.modules("OURS", [])


def test_a_service_of_ones_own_is_read_from_variables_of_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"SERVICES": "library", "LIBRARY_URL": "http://127.0.0.1:8850", "LIBRARY_TOKEN": "t"}.items():
        monkeypatch.setenv(name, value)

    assert environment.services("SERVICES", ()) == {
        "library": {"url": "http://127.0.0.1:8850", "token": "t", "callback_secrets": []}
    }


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"LIBRARY_URL": ""}, "SERVICES lists library, and LIBRARY_URL is not set: put its address in."),
        ({"LIBRARY_TOKEN": ""}, "SERVICES lists library, and LIBRARY_TOKEN is not set: put its credential in."),
        ({"LIBRARY_URL": "127.0.0.1:8850"}, "LIBRARY_URL must look like https://host/path."),
        ({"SERVICES": "The-Library"}, "SERVICES: 'The-Library' is no service's name, which looks like library_desk."),
        (
            {"SERVICES": "back_office"},
            "SERVICES: back_office is there already, with variables of its own: leave it out.",
        ),
    ],
)
def test_a_service_that_could_not_be_called_is_refused(
    given: dict[str, str], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = {"SERVICES": "library", "LIBRARY_URL": "http://127.0.0.1:8850", "LIBRARY_TOKEN": "t"}
    for name, value in (whole | given).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ImproperlyConfigured) as refused:
        environment.services("SERVICES", ("back_office",))
    assert str(refused.value) == says


@pytest.mark.parametrize("token", ["quiet-win\u00e9ter", "quiet-winter\n", " quiet-winter", "quiet\r\nwinter: 1"])
def test_a_credential_that_fits_into_no_header_is_refused_at_the_start_and_not_repeated(
    token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"SERVICES": "loans", "LOANS_URL": "https://loans/", "LOANS_TOKEN": token}.items():
        monkeypatch.setenv(name, value)

    for read in (lambda: environment.services("SERVICES", ()), lambda: environment.credential("LOANS_TOKEN")):
        with pytest.raises(ImproperlyConfigured, match=r"^LOANS_TOKEN must be printable ASCII") as refused:
            read()
        assert "win" not in str(refused.value)
