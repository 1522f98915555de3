"""The library, its search, and the register of publishers: what may be relied on, and what must not be."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from takeover.demo.backoffice.briefs import BRIEFS, PUBLISHERS
from takeover.demo.backoffice.library import Library, read, terms

from .office import Office

TODAY, A_YEAR_AGO = "2026-09-25", "2025-09-25"
LIBRARY = Library()


def search(office: Office, q: str, **more: str) -> list[dict[str, Any]]:
    response = office.get("/search", q=q, **more)
    assert response.status_code == 200, response.text
    found: list[dict[str, Any]] = response.json()["results"]
    return found


def numbers(found: list[dict[str, Any]]) -> list[str]:
    return [result["source_id"] for result in found]


# The search


def test_a_result_quotes_its_source_word_for_word(office: Office) -> None:
    found = search(office, "electric cargo bikes Havenport", kind="sales", about="M101")
    assert found
    for result in found:
        source = office.get(f"/sources/{result['source_id']}").json()
        assert result["excerpt"] in source["sections"]["sales"]
        assert {name: source[name] for name in ("title", "publisher", "published_on", "topic")} == {
            name: result[name] for name in ("title", "publisher", "published_on", "topic")
        }


def test_what_has_more_and_rarer_words_of_the_question_stands_higher(office: Office) -> None:
    assert numbers(search(office, "deliveries inside the ring road of Havenport"))[0] == "S-101"
    assert numbers(search(office, "Greenjar Nettle refill shops"))[0] in {"S-302", "S-305"}


def test_chinese_is_found_by_its_words_too(office: Office) -> None:
    assert numbers(search(office, "共享充电宝 临江 竞争", kind="competitors")) == ["S-402"]
    assert {"S-401", "S-403"} <= set(numbers(search(office, "临江市共享充电宝 日均租借", kind="sales")))


@pytest.mark.parametrize("q", ["tidal kettles", "the", "!?", "🙂", "of the and"])
def test_nothing_is_found_where_nothing_matches(office: Office, q: str) -> None:
    assert search(office, q) == []


def test_one_common_word_of_three_is_not_enough(office: Office) -> None:
    assert search(office, "Havenport tidal kettles", kind="competitors") == []


def test_the_same_question_finds_the_same_in_the_same_order(office: Office) -> None:
    assert search(office, "refill shops in Linwick") == search(office, "Linwick refill shop")


def test_words_are_told_apart_as_the_manual_says() -> None:
    assert list(terms("The bikes, a BIKE and glass: 3,410")) == ["bike", "bike", "glass", "3", "410"]
    assert list(terms("充电宝 快")) == ["充电", "电宝", "快"]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({}, "q"),
        ({"q": ""}, "q"),
        ({"q": "x" * 201}, "q"),
        ({"q": "a\u0000b"}, "q"),
        ({"q": "bikes", "kind": "weather"}, "kind"),
        ({"q": "bikes", "about": "two words"}, "about"),
        ({"q": "bikes", "limit": "1000"}, "limit"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused_with_its_field(
    office: Office, query: dict[str, str], field: str
) -> None:
    response = office.get("/search", **query)
    assert (response.status_code, response.json()["field"]) == (422, field)


def test_the_ledger_shows_what_was_searched_for(office: Office) -> None:
    search(office, "cargo bikes", kind="sales", about="M101")
    (call,) = office.calls("search", order_id="M101")
    assert call["path"] == "/search?q=cargo+bikes&kind=sales&about=M101"


# Sources


def test_a_source_has_the_digest_of_its_text(office: Office) -> None:
    source = office.get("/sources/S-401").json()
    assert source["digest"] == hashlib.sha256(source["text"].encode()).hexdigest()
    assert all(section in source["text"] for section in source["sections"].values())


@pytest.mark.parametrize("number", ["S-999", "S-1010"])
def test_a_source_that_does_not_exist_is_definitely_not_found(office: Office, number: str) -> None:
    response = office.get(f"/sources/{number}")
    assert (response.status_code, response.json()["code"]) == (404, "source_unknown")


def test_no_path_leads_out_of_the_library(office: Office) -> None:
    for path in ("/sources/..%2Fseed.py", "/sources/%2e%2e%2f%2e%2e%2fseed", "/sources/S-101.txt"):
        assert office.get(path).status_code in {404, 422}


def test_a_source_can_be_withdrawn_and_replaced(office: Office) -> None:
    before = office.get("/sources/S-101").json()
    office.fault("source_replaced", "S-101", times=1)
    after = office.get("/sources/S-101").json()
    assert after["digest"] != before["digest"]
    assert after["digest"] == hashlib.sha256(after["text"].encode()).hexdigest()
    office.fault("source_withdrawn", "S-101")
    assert office.get("/sources/S-101").status_code == 404
    assert office.get("/sources/S-102").status_code == 200


@pytest.mark.parametrize(
    ("where", "path", "about"),
    [
        ("authority", "/research/authority?user=U-88&about=M101", "M101"),
        ("briefs", "/briefs/M101", "M101"),
        ("publishers", "/publishers?about=M101", "M101"),
        ("search", "/search?q=bikes&about=M101", "M101"),
        ("sources", "/sources/S-101", "S-101"),
    ],
)
def test_faults_strike_research_as_they_strike_other_calls(office: Office, where: str, path: str, about: str) -> None:
    assert office.client.get(path).status_code == 200
    office.fault("unavailable", "M102", where="any")
    assert office.client.get(path).status_code == 200
    office.fault("rate_limited", about, where=where, times=1)
    assert [office.client.get(path).status_code for _ in range(2)] == [429, 200]
    assert [call["fault"] for call in office.calls(where, order_id=about)] == [None, None, "rate_limited", None]


# Who may, and which publishers count


@pytest.mark.parametrize(
    ("user", "allowed", "reason"),
    [("U-88", True, "commissioned_it"), ("U-89", False, "not_commissioned"), ("support", True, "desk")],
)
def test_a_brief_is_researched_for_who_commissioned_it_and_for_the_desk(
    office: Office, user: str, allowed: bool, reason: str
) -> None:
    said = office.get("/research/authority", user=user, about="M101").json()
    assert (said["brief_id"], said["allowed"], said["reason"]) == ("M101", allowed, reason)


def test_a_brief_that_does_not_exist_is_definitely_not_found(office: Office) -> None:
    for response in (office.get("/briefs/M999"), office.get("/research/authority", user="U-88", about="M999")):
        assert (response.status_code, response.json()["code"]) == (404, "brief_unknown")


def test_the_register_says_whose_voice_a_publisher_is(office: Office) -> None:
    said = office.get("/publishers", about="M101").json()
    assert said["business_date"] == TODAY
    register = {publisher["name"]: publisher for publisher in said["publishers"]}
    assert register["Cycle Trade Review"]["house"] == register["Havenport Courier"]["house"]
    assert register["Wheelhouse Cargo"]["qualified"] is False
    assert "Office Supply Monthly" not in register


# What the library is for: the stories that runs tell need it to be exactly so


def usable(topic: str, kind: str) -> set[str]:
    """The qualified sources of the past year that have a section of this kind."""
    qualified = {publisher.name for publisher in PUBLISHERS if publisher.qualified}
    return {
        source.source_id
        for source in LIBRARY.sources.values()
        if source.topic == topic and kind in source.sections and source.publisher in qualified
        if A_YEAR_AGO <= source.published_on <= TODAY
    }


def houses(sources: set[str]) -> set[str]:
    return {p.house for p in PUBLISHERS for number in sources if p.name == LIBRARY.sources[number].publisher}


@pytest.mark.parametrize(
    ("brief", "voices", "competitors", "sales"),
    [
        ("M101", 3, True, True),
        ("M102", 1, True, True),
        ("M103", 3, True, False),
        ("M104", 3, True, True),
        ("M105", 0, 0, 0),
    ],
)
def test_of_each_brief_the_library_holds_what_its_story_needs(
    brief: str, voices: int, competitors: bool, sales: bool
) -> None:
    topic = BRIEFS[brief].topic
    assert len(houses(usable(topic, "market"))) == voices
    assert bool(usable(topic, "competitors")) is bool(competitors)
    assert bool(usable(topic, "sales")) is bool(sales)


def test_some_texts_are_reprints_under_another_name() -> None:
    for original, reprint in (("S-102", "S-104"), ("S-302", "S-305")):
        one, other = LIBRARY.sources[original], LIBRARY.sources[reprint]
        assert one.digest == other.digest
        assert one.publisher != other.publisher


def test_two_qualified_sources_contradict_each_other() -> None:
    one, other = LIBRARY.sources["S-401"].figures, LIBRARY.sources["S-403"].figures
    assert one.keys() == other.keys()
    assert one != other


@pytest.mark.parametrize(
    "broken",
    [
        "id: S-1\n\n[market]\nText.",
        "id: S-1\ntitle: T\npublisher: P\npublished: 2026-01-01\ntopic: T\n\nno section",
        "id: S-1\ntitle: T\npublisher: P\npublished: 2026-01-01\ntopic: T\n\n[weather]\nText.",
        "id: S-1\ntitle: T\npublisher: P\npublished: 2026-01-01\ntopic: T\n\n[market]\n",
    ],
    ids=["header", "no section", "unknown kind", "empty section"],
)
def test_a_file_that_is_not_as_it_should_be_is_named(tmp_path: Path, broken: str) -> None:
    file = tmp_path / "S-1.txt"
    file.write_text(broken)
    with pytest.raises(ValueError, match=r"S-1\.txt"):
        read(file)
