import json
from typing import Any

import pytest

from runs.domain.redaction import HIDDEN, redact, redact_text


@pytest.mark.parametrize(
    "field", ["password", "client_secret", "access_token", "Authorization", "api_key", "apiKey", "card_number", "IBAN"]
)
def test_secrets_are_known_by_the_name_of_their_field(field: str) -> None:
    assert redact({"deep": [{field: "hunter2"}]}) == {"deep": [{field: HIDDEN}]}


@pytest.mark.parametrize(
    "text",
    [
        "sk-abcdefghijklmnop1234",
        "Bearer abcdefgh12345678",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc",
        "4111 1111 1111 1111",
        "-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----",
    ],
)
def test_secrets_are_known_by_their_shape(text: str) -> None:
    assert redact_text(f"before {text} after") == f"before {HIDDEN} after"


def test_known_values_are_removed_wherever_they_stand() -> None:
    assert redact({"a": ["the key is demo-key."]}, ["demo-key"]) == {"a": [f"the key is {HIDDEN}."]}


@pytest.mark.parametrize("text", ["order B456", "R789", "1234567890123456", "2026-09-25T10:14:07+00:00"])
def test_ordinary_references_are_left_alone(text: str) -> None:
    assert redact_text(text) == text


def test_long_text_is_folded_with_its_digest() -> None:
    folded = redact_text("x" * 50_000)
    assert len(folded) < 2200
    assert "50000 characters, sha256" in folded


def test_what_is_nested_too_deeply_is_cut_and_said_to_be() -> None:
    deep: Any = "bottom"
    for _ in range(1000):
        deep = {"next": deep}
    assert "nested too deeply" in json.dumps(redact(deep))


def test_what_the_database_cannot_hold_is_replaced() -> None:
    redact_text("a\x00b\ud800c").encode()
    assert "\x00" not in redact_text("a\x00b")
