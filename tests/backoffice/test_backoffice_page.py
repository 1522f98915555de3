"""The page: strict, escaped, and its forms do what the controls do."""

import re

import pytest

from .office import Office


def test_the_page_is_strict(office: Office) -> None:
    response = office.get("/")
    assert response.status_code == 200
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "<script" not in response.text
    assert not re.search(r"\s(style|on[a-z]+)=", response.text)
    assert office.get("/page.css").headers["Content-Type"].startswith("text/css")


def test_everything_on_the_page_is_escaped(office: Office) -> None:
    mischief = '<img src=x onerror="alert(1)">&\'$day'
    office.control("PUT", "orders/B456", {"item": mischief})
    office.fault("refused", None, operation_key='"><script>', times=None)
    office.submit('"><script>')
    office.look_up("'><b>")
    page = office.get("/").text
    assert "<img" not in page
    assert "<script" not in page
    assert "<b>" not in page
    assert "&lt;img src=x onerror=&quot;alert(1)&quot;&gt;&amp;&#x27;$day" in page


def test_a_fault_is_switched_on_and_off_by_form(office: Office) -> None:
    form = {"fault": "pending", "order_id": " B456 ", "operation_key": "", "times": "2", "lookups": "1", "where": ""}
    response = office.client.post("/switch-on", data=form)
    assert (response.status_code, response.headers["Location"]) == (303, "/#faults")
    (fault,) = office.active()
    assert (fault["order_id"], fault["times"], fault["lookups"]) == ("B456", 2, 1)
    assert re.search(r"<td>B456</td><td><form[^>]*>.*?Switch off", office.get("/").text)
    office.client.post("/switch-off", data={"id": fault["id"]})
    assert office.active() == []
    assert office.client.post("/switch-off", data={"id": fault["id"]}).status_code == 303


@pytest.mark.parametrize(
    ("form", "field"),
    [
        ({"fault": "pending", "lookups": "many"}, "lookups"),
        ({"fault": "pending", "retry_after": "2"}, "retry_after"),
        ({"fault": "<b>"}, "fault"),
        ({}, "fault"),
    ],
)
def test_a_form_that_makes_no_sense_is_answered_on_the_page(office: Office, form: dict[str, str], field: str) -> None:
    response = office.client.post("/switch-on", data=form)
    assert response.status_code == 422
    assert f'role="alert"><code>{field}</code>' in response.text
    assert office.active() == []


def test_switching_off_nothing_in_particular_switches_nothing_off(office: Office) -> None:
    office.fault("slow")
    for form in ({}, {"id": ""}, {"id": "all"}):
        assert office.client.post("/switch-off", data=form).status_code == 422
    assert len(office.active()) == 1


def test_a_pending_refund_is_decided_by_form(office: Office) -> None:
    office.fault("pending")
    office.submit("k1")
    assert "Accept</button>" in office.get("/").text
    office.client.post("/settle", data={"operation_key": "k1", "state": "accepted"})
    assert office.state("k1") == "accepted"
    again = office.client.post("/settle", data={"operation_key": "k1", "state": "accepted"})
    assert (again.status_code, 'role="alert"' in again.text) == (409, True)


def test_its_own_forms_are_not_other_sites(office: Office) -> None:
    response = office.client.post("/switch-on", data={"fault": "slow"}, headers={"Origin": office.url})
    assert response.status_code == 303
