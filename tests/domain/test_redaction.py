import base64
import itertools
import json
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.domain.redaction import (
    DEEPEST,
    HIDDEN,
    IN_ITSELF,
    LONGEST,
    MOST_VALUES,
    TOO_DEEP,
    TOO_LONG,
    TOO_MANY,
    _redacted_once,
    _spellings,
    clean,
    fold_text,
    identifiers,
    redact,
    redact_text,
)

SECRET = 'pa/ss+wo"rd é\\9'
KEY = "refund-B456-ab12cdef34567890"
SIGNED = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc"
ACCOUNT = "DE89370400440532013000"
CARD = "4111111111111111"


@pytest.fixture(autouse=True)
def every_test_redacts_anew() -> None:
    _spellings.cache_clear()
    _redacted_once.cache_clear()


# By the name of a field


@pytest.mark.parametrize(
    "field",
    [
        *("password", "client_secret", "access_token", "Authorization", "api_key", "apiKey", "card_number", "IBAN"),
        *(
            "userPassword",
            "x-auth",
            "user_pin",
            "userPIN",
            "PinCode",
            "sessionId",
            "session id",
            "private-key",
            "db_pwd",
        ),
        *("cardNumber", "card no", "cardCVV", "Set-Cookie", "dbCredentials", "otp", "signingKey", "pass"),
    ],
)
def test_secrets_are_known_by_the_name_of_their_field(field: str) -> None:
    assert redact({"deep": [{field: "hunter2"}]}) == {"deep": [{field: HIDDEN}]}


@pytest.mark.parametrize(
    "field",
    [
        "order_id",
        "operation_key",
        "request_key",
        "author",
        "authority",
        "authorised",
        "spinner",
        "compass",
        "company",
        "key",
    ],
)
def test_a_field_that_only_sounds_like_a_secret_is_none(field: str) -> None:
    assert redact({field: "hunter2"}) == {field: "hunter2"}


def test_all_that_stands_under_a_secrets_name_is_one() -> None:
    given = {"credentials": {"user": "alice", "parts": ["a", "b"], "deeper": {"n": 1}, "set": True, "none": None}}
    assert redact(given) == {
        "credentials": {"user": HIDDEN, "parts": HIDDEN, "deeper": {"n": HIDDEN}, "set": True, "none": None}
    }


def test_an_empty_secret_is_shown_to_be_empty() -> None:
    assert redact({"password": "", "token": " "}) == {"password": "", "token": HIDDEN}


def test_how_many_tokens_were_used_is_no_secret() -> None:
    assert redact({"input_tokens": 512}) == {"input_tokens": 512}
    assert redact({"tokens": ["a", "b"], "token": 512}) == {"tokens": HIDDEN, "token": HIDDEN}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("password=hunter2 and more", "password=[removed] and more"),
        ("?a=1&access_token=hunter2", "?a=1&access_token=[removed]"),
        ('{"password": "hun\\"ter2", "order_id": "B456"}', '{"password": "[removed]", "order_id": "B456"}'),
        ('{\\"api_key\\":\\"hunter2\\",\\"n\\":1}', '{\\"api_key\\":\\"[removed]\\",\\"n\\":1}'),
        ('{"pin":1234,"n":1}', '{"pin":[removed],"n":1}'),
        ("Login(user='alice', password='hunter2 x')", "Login(user='alice', password='[removed]')"),
        ("secretKey: hunter2", "secretKey: [removed]"),
        ('{"token": "hunter2 was cut he', '{"token": "[removed]"'),
        ("Authorization: Digest user, answer\nHost: a", "Authorization: [removed]\nHost: a"),
        ("Set-Cookie: a=hunter2; b=hunter3", "Set-Cookie: [removed]"),
    ],
)
def test_a_named_secret_is_known_within_text(text: str, shown: str) -> None:
    assert redact_text(text) == shown
    assert redact_text(shown) == shown


@pytest.mark.parametrize("text", ["used 512 tokens: fine", "The token is not valid.", "secretary: Ann", "spinner: on"])
def test_a_sentence_about_secrets_is_none(text: str) -> None:
    assert redact_text(text) == text


# By their value


def test_known_values_are_removed_wherever_they_stand() -> None:
    assert redact({"a": ["the key is demo-key."]}, ["demo-key"]) == {"a": [f"the key is {HIDDEN}."]}


@pytest.mark.parametrize(
    "write",
    [
        lambda secret: secret,
        quote,
        quote_plus,
        lambda secret: quote(secret, safe=""),
        lambda secret: re.sub("%..", lambda code: code[0].lower(), quote(secret, safe="")),
        lambda secret: json.dumps(secret)[1:-1],
        lambda secret: json.dumps(secret, ensure_ascii=False)[1:-1],
        lambda secret: json.dumps(secret)[1:-1].replace("/", "\\/"),
        lambda secret: base64.b64encode(secret.encode()).decode(),
        lambda secret: base64.b64encode(secret.encode()).decode().rstrip("="),
        lambda secret: base64.urlsafe_b64encode(secret.encode()).decode(),
    ],
)
@pytest.mark.parametrize("secret", [SECRET, "demo-key", "a?>b~~c", "seven77"])
def test_a_known_value_is_found_however_it_is_written(secret: str, write: Callable[[str], str]) -> None:
    assert redact_text(f"({write(secret)})", [secret]) == f"({HIDDEN})"


@pytest.mark.parametrize("write", [str, lambda text: base64.b64encode(text.encode()).decode()])
def test_what_only_begins_like_a_known_value_is_left_alone(write: Callable[[str], str]) -> None:
    assert redact_text(write("SNOW-SNOV"), ["SNOW-SNOW"]) == write("SNOW-SNOV")


@pytest.mark.parametrize("before", ["", "u", "us", "use"])
@pytest.mark.parametrize("after", ["a", "ab", "abc"])
@pytest.mark.parametrize("secret", ["demo7", "demo-key", "SNOWSNOW", "SNOW-SNOW", "demo-key-7"])
def test_a_known_value_among_others_in_base64_leaves_only_what_it_shares_with_them(
    secret: str, before: str, after: str
) -> None:
    text = base64.b64encode(f"{before}{secret}{after}".encode()).decode()
    first, end = -(-8 * len(before) // 6), 8 * len(before + secret) // 6  # a character holds six bits
    assert redact_text(text, [secret]) == f"{text[:first]}{HIDDEN}{text[end:]}"


@pytest.mark.parametrize("before", ["", "u", "us", "use"])
def test_a_known_value_is_found_at_the_end_of_base64(before: str) -> None:
    text = base64.b64encode(f"{before}demo-key".encode()).decode()
    shown = redact_text(text, ["demo-key"])
    assert HIDDEN in shown
    assert len(shown) - len(HIDDEN) <= len(text) - 7


def test_of_two_known_values_the_longer_goes_first() -> None:
    assert redact_text("demo-key", ["demo", "demo-key"]) == HIDDEN


def test_what_is_too_short_to_be_a_secret_is_not_looked_for() -> None:
    assert redact_text("abcabc", ["abc"]) == "abcabc"


# By their shape


@pytest.mark.parametrize(
    "text",
    [
        "sk-abcdefghijklmnop1234",
        "sk_live_abcdefghijklmnop",
        "ghp_abcdefghijklmnop1234",
        "github_pat_abcdefghijklmnop1234",
        "xoxb-123456789012-abcdef",
        "AKIAIOSFODNN7EXAMPLE",
        "ASIAIOSFODNN7EXAMPLE",
        "AIzaSyA1234567890abcdefghijklmnopqrstuv",
        "Bearer abcdefgh12345678",
        "Basic dXNlcjpwYXNzd29yZA==",
        SIGNED,
        "eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIn0.",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOi",
        "eyJhbGciOiJSU0EifQ.a2V5LWtleS1rZXk.aXY.dGV4dA.dGFn",
        "4111 1111 1111 1111",
        "4111-1111-1111-1111",
        CARD,
        "3782 822463 10005",
        "DE89 3704 0044 0532 0130 00",
        ACCOUNT,
        "de89370400440532013000",
        "NO9386011117947",
        "-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----",
        "-----BEGIN RSA PRIVATE KEY-----\\nabc\\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PGP PRIVATE KEY BLOCK-----\nabc\n-----END PGP PRIVATE KEY BLOCK-----",
    ],
)
def test_secrets_are_known_by_their_shape(text: str) -> None:
    assert redact_text(f"before {text} after") == f"before {HIDDEN} after"
    assert list(redact({text: 1})) == [HIDDEN]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgres://app:hunter2@db/app", f"postgres://{HIDDEN}@db/app"),
        ("postgres://app:hun@ter2@db/app", f"postgres://{HIDDEN}@db/app"),
        ("redis://:hunter2@cache:6379/0", f"redis://{HIDDEN}@cache:6379/0"),
        (f"X-{SIGNED}", HIDDEN),
        ("-----BEGIN PRIVATE KEY-----\nabc and the rest was cut", HIDDEN),
        (f"2026 {CARD} 12/27", f"2026 {HIDDEN} 12/27"),
        ("2026 4111 1111 1111 1111 123", f"2026 {HIDDEN} 123"),
        (f"{ACCOUNT} PAID", f"{HIDDEN} PAID"),
        ("ES91 2100 0418 4502 0005 1332 PAID", f"{HIDDEN} PAID"),
        ("ES91 2100 0418 4502 0005 1332 ES91 2100 0418 4502 0005 1332", f"{HIDDEN} {HIDDEN}"),
        (f"IBAN-{ACCOUNT}", f"IBAN-{HIDDEN}"),
    ],
)
def test_a_secret_is_found_among_what_looks_like_more_of_it(text: str, shown: str) -> None:
    assert redact_text(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        *("order B456", "R789", "1234567890123456", "2026-09-25T10:14:07+00:00", "2026-09-25T10:14:07.123456+00:00"),
        *(
            "0b5a7a0e-6f0e-4a53-9d1c-0f6a1a7f9c11",
            KEY,
            f"refund-{CARD}-ab12cdef34567890",
            f"order-{ACCOUNT}",
            "d4" * 32,
        ),
        *("DE89370400440532013001", "AB12 CDEF GHIJ KLMN", "https://host:8443/a@b", "ssh://git@example.org/app"),
        *("Basic information, please", "a basic principle.", "risk-assessment-of-2026", "eyJust.a.word", "59.00 EUR"),
    ],
)
def test_ordinary_references_are_left_alone(text: str) -> None:
    assert redact_text(text) == text


@pytest.mark.parametrize("number", [CARD, ACCOUNT])
def test_what_a_run_calls_its_order_stays_whatever_it_looks_like(number: str) -> None:
    keep = identifiers({"order_id": number}, [f"refund-{number}-1"])
    assert redact({"order": number, "says": f"order {number}"}, keep=keep) == {
        "order": number,
        "says": f"order {number}",
    }
    assert redact_text("5500 0000 0000 0004", keep=keep) == HIDDEN


def test_free_text_and_secret_fields_name_nothing_that_must_stay() -> None:
    given = {"order_id": "B456", "goal": f"pay to {ACCOUNT}", "iban": ACCOUNT, "amount": 59}
    assert identifiers(given, [KEY]) == {"B456", "59", KEY}


def test_a_part_of_an_identifier_stays_where_it_stands_alone() -> None:
    assert redact_text(f"order {CARD}", keep=[f"refund-{CARD}-1"]) == f"order {CARD}"


def test_an_identifier_of_several_words_stays_whole_or_not_at_all() -> None:
    keep = ["4111 1111 1111 1111", f"paid by {CARD}"]
    assert redact_text(f"4111 1111 1111 1111, {CARD}", keep=keep) == f"4111 1111 1111 1111, {HIDDEN}"


@pytest.mark.parametrize("number", ["41 11 11 11 11 11 11 11", "4111111 111111111", "4-111-1111-1111.1111"])
def test_a_cards_number_is_one_however_it_is_grouped(number: str) -> None:
    assert redact_text(f"paid by {number}.") == f"paid by {HIDDEN}."


# The last one's digits are 41111111111130568, although it is written with an exponent.
@pytest.mark.parametrize("number", [int(CARD), float(CARD), 4111.111111111111, 4.111111111113057e16])
def test_a_cards_number_is_one_without_quotes(number: float) -> None:
    assert redact([number, 5900, 59.5]) == [HIDDEN, 5900, 59.5]


# What comes in other shapes


def test_bytes_are_read_as_text() -> None:
    assert redact({b"token": b"x", "body": bytearray(b"password=hunter2 \xff")}) == {
        "token": HIDDEN,
        "body": "password=[removed] \N{REPLACEMENT CHARACTER}",
    }
    assert clean(memoryview(b"a\x00b")) == "a\N{REPLACEMENT CHARACTER}b"
    assert clean({b"caf\xe9": 1}) == {"caf\N{REPLACEMENT CHARACTER}": 1}


def test_instants_and_other_values_become_text() -> None:
    at = datetime(2026, 9, 25, tzinfo=UTC)
    assert redact([at, ValueError("password=hunter2"), float("inf")]) == [at.isoformat(), "password=[removed]", "inf"]


def test_two_names_that_are_both_removed_keep_both_values() -> None:
    assert redact({"sk-abcdefghijklmnop1": 1, "sk-abcdefghijklmnop2": 2}) == {HIDDEN: 1, f"{HIDDEN} (1)": 2}


def test_a_number_that_nobody_can_write_out_is_said_to_be_one() -> None:
    assert clean({"n": 10**5000}) == {"n": TOO_LONG}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_whatever_comes_in_plain_json_that_can_be_stored_comes_out(value: Any) -> None:
    for made in (clean(value), redact(value, ["secret-value"])):
        text = json.dumps(made, allow_nan=False, ensure_ascii=False)
        assert "\\u0000" not in text
        text.encode()


@given(st.text(max_size=30), st.text(max_size=30), st.text(min_size=4, max_size=12))
def test_a_known_value_never_comes_out(before: str, after: str, secret: str) -> None:
    shown = redact_text(f"{before}{secret}{after}", [secret])
    assert secret not in shown.replace(HIDDEN, "\n") or secret in f"{before}\n{after}"


# What is too much


def test_long_text_is_folded_with_its_digest() -> None:
    folded = redact_text("x" * 50_000)
    assert len(folded) < 2200
    assert "50000 characters, sha256" in folded


def test_text_stays_whole_up_to_its_longest_and_is_folded_beyond_it() -> None:
    assert redact_text("x" * LONGEST) == "x" * LONGEST
    assert redact_text("x" * (LONGEST + 1)).startswith("x" * LONGEST + f"… [{LONGEST + 1} characters, sha256 ")


@pytest.mark.parametrize("longest", [0, 1, 10, LONGEST])
def test_what_was_folded_is_not_folded_again(longest: int) -> None:
    folded = fold_text("x" * 50_000, longest)
    assert fold_text(folded, longest) == redact_text(folded) == folded


def test_what_is_folded_to_less_keeps_its_first_figures() -> None:
    folded = redact_text("x" * 50_000)
    assert fold_text(folded, 10).startswith("x" * 10 + "… [50000 characters, sha256 ")


@pytest.mark.parametrize(
    ("kept", "of"),
    [(50_000, 7), (50_000, 60_000), (LONGEST, 7), (LONGEST, LONGEST)],  # a note of ours says that more was there
)
def test_a_note_of_somebody_elses_does_not_stand_for_ours(kept: int, of: int) -> None:
    text = "x" * kept + f"… [{of} characters, sha256 0123456789abcdef]"
    assert redact_text(text).startswith("x" * LONGEST + f"… [{len(text)} characters, sha256 ")


def test_a_secret_at_the_place_of_the_cut_is_removed_before_it() -> None:
    assert "4111" not in redact_text("x" * (LONGEST - 5) + f" {CARD} " + "y" * 100)


def test_what_is_nested_too_deeply_is_cut_and_said_to_be() -> None:
    deep: Any = "bottom"
    for _ in range(1000):
        deep = {"next": deep}
    assert "nested too deeply" in json.dumps(redact(deep))


@pytest.mark.parametrize("walk", [clean, redact])
@pytest.mark.parametrize("around", [lambda inner: {"next": inner}, lambda inner: [inner]], ids=["objects", "lists"])
def test_so_many_levels_are_kept_and_not_one_more(walk: Callable[[Any], Any], around: Callable[[Any], Any]) -> None:
    def nested(bottom: Any, levels: int) -> Any:
        return around(nested(bottom, levels - 1)) if levels else bottom

    assert walk(nested("bottom", DEEPEST)) == nested("bottom", DEEPEST)
    assert walk(nested("bottom", DEEPEST + 1)) == nested(TOO_DEEP, DEEPEST)


@pytest.mark.parametrize("walk", [clean, redact])
def test_what_contains_itself_ends_there(walk: Callable[[Any], Any]) -> None:
    ring: dict[str, Any] = {"name": "ring"}
    ring["next"] = [ring]
    assert walk(ring) == {"name": "ring", "next": [IN_ITSELF]}


def test_the_same_value_twice_does_not_contain_itself() -> None:
    shared = {"n": 1}
    assert redact([shared, shared]) == [shared, shared]


def test_of_what_has_no_end_the_beginning_is_kept() -> None:
    kept = redact(itertools.count())
    assert (kept[:2], kept[-1], len(kept)) == ([0, 1], TOO_MANY, MOST_VALUES + 1)


def test_of_an_object_with_too_many_members_the_first_are_kept() -> None:
    most = {f"n{n}": None for n in range(MOST_VALUES)}
    assert redact(most) == most
    assert redact({**most, "more": None, "and more": None}) == {**most, TOO_MANY: True}


def test_what_is_shared_again_and_again_does_not_grow_without_end() -> None:
    much: Any = "x"
    for _ in range(DEEPEST):
        much = [much] * 10
    assert json.dumps(redact(much)).count('"x"') < MOST_VALUES


def test_nothing_that_is_judged_is_left_out() -> None:
    many = {"orders": [0] * 499_000}
    assert clean(many) == many


ODD = (
    *(
        "eyJ-",
        "eyJaaaaaaaa.",
        "sk-",
        'token="',
        "token\\",
        "authorization:",
        "-----BEGIN ",
        "://a:",
        "a@",
        "1 ",
        "1111 ",
    ),
    *("AB12 ", "Basic ", "Bearer\n", "a", "-", "\\", "-----BEGIN PRIVATE KEY-----"),
)


def growth(units: tuple[str, ...], shorter: int, longer: int) -> float:
    """How much longer it takes to go through the longer text."""

    def took(length: int) -> float:
        text = "".join(unit * (length // len(units) // len(unit)) for unit in units)
        tries = []
        for _ in range(2):
            began = time.process_time()
            redact_text(text, ["demo-key"])
            tries.append(time.process_time() - began)
        return min(tries)

    return took(longer) / max(took(shorter), 0.001)


@pytest.mark.parametrize("unit", ODD)
def test_time_grows_with_the_text_and_no_faster(unit: str) -> None:
    assert growth((unit,), 1 << 13, 1 << 16) < 24  # eight times the text: with its square, it would be 64 times


def test_a_megabyte_takes_no_longer_than_its_length_says() -> None:
    assert growth(ODD, 1 << 17, 1 << 20) < 24


# What cannot be stored


def test_what_the_database_cannot_hold_is_replaced() -> None:
    redact_text("a\x00b\ud800c").encode()
    assert "\x00" not in redact_text("a\x00b")


@pytest.mark.parametrize(
    "text",
    [
        '{"token": {"type":"opaque","value":"hunter2x"}}',
        '{"password": ["a", "hunter2x"]}',
        '{"password" => "hunter2x"}',
        "<password>hunter2x</password>",
        "API key: hunter2x9f8a7b",
        "session_id=hunter2x",
        r"postgres:\/\/app:hunter2x@db\/app",
        "password           = hunter2x",
        "&quot;password&quot;:&quot;hunter2x&quot;",
        "password\uff1ahunter2x",
        "password := hunter2x",
        "password == hunter2x",
        "on: B456, note\uff1anone, password=hunter2x",
        "Authorization: Digest username=app, response=hunter2x",
        "Set-Cookie: sid=hunter2x; Path=/",
    ],
)
def test_a_named_secret_is_found_however_its_name_and_its_value_are_joined(text: str) -> None:
    assert "hunter2x" not in redact_text(text)


@pytest.mark.parametrize(
    "value",
    [
        [["Authorization", "Digest hunter2x"]],
        [{"name": "Authorization", "value": "Digest hunter2x"}],
        {"field": "password", "rejected_value": "hunter2x"},
        {"tokens": [["hunter2x"]]},
    ],
)
def test_a_secret_that_stands_beside_its_name_is_one_too(value: Any) -> None:
    assert "hunter2x" not in json.dumps(redact(value))


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: given by Ms Lin on 2026-09-25, ticket 4711.",
        "bearer certificate 12",
        "The bearer presented the card.",
        "cookie: banner was shown, order B456 was open.",
        "basic self-service portal",
        "Basic refund-B456-ba10ddc40b9a4706",
        "http://localhost:8000?email=a@b.com",
        "2026-09-27\u20132026-09-29",
        "2026-09-25 10.59.55",
        "20260925105955",
        "1758795251885",
    ],
)
def test_what_people_write_and_what_clocks_say_is_left_alone(text: str) -> None:
    assert redact_text(text) == text


@pytest.mark.parametrize("number", ["pk-2026-09-25-001", "sk-2026-000012345", "4111111111111111"])
def test_what_names_a_thing_of_the_run_is_kept_whatever_it_looks_like(number: str) -> None:
    assert HIDDEN in redact_text(number)
    assert redact_text(f"Order {number} read.", keep={number}) == f"Order {number} read."


def test_no_key_is_lost_where_several_come_out_alike() -> None:
    given = {"[removed] (2)": "kept", "sk-abcdefghijklmnop1": 1, "sk-abcdefghijklmnop2": 2}
    assert sorted(map(str, redact(given).values())) == ["1", "2", "kept"]


@pytest.mark.parametrize(
    "name",
    [
        "X-Api-Key",
        "X-Auth-Token",
        "Set-Cookie",
        "access_token",
        "client_secret",
        "accessToken",
        "apiKey",
        "password_hash",
        f"{'a ' * 47}token".rjust(100),
        "API key",
    ],
)
def test_a_name_that_ends_like_a_secret_s_hides_what_stands_beside_it(name: str) -> None:
    assert redact({"header": name, "value": "hunter2x"}) == {"header": name, "value": HIDDEN}
    assert redact([name, "hunter2x"]) == [name, HIDDEN]


def test_what_is_only_called_after_a_secret_keeps_what_stands_beside_it() -> None:
    event = {"name": "credential_replaced", "permission": "operate_run", "label": "Credential replaced"}
    assertion = {"name": "token_received", "value": "MET"}
    assert redact([event, assertion, ["token_received", "MET"]]) == [event, assertion, ["token_received", "MET"]]
    sentence = f"{'a ' * 47} token".rjust(101)
    assert redact([sentence, "MET"]) == [sentence, "MET"]
