"""A panel is set up in the browser alone, on a server that began without a seat."""

import pytest
from playwright.sync_api import expect

from tests.doors.http.conftest import running

pytestmark = pytest.mark.needs("chromium")

DEAD = "http://127.0.0.1:9/v1"


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    """A server without a seat."""
    with running(f"sqlite:///{tmp_path_factory.mktemp('empty')}/s.db", []) as started:
        yield started


def url(server):
    return str(server.client.base_url).rstrip("/")


def add_seat(tab, **fields):
    form = tab.locator("form").filter(has=tab.get_by_role("button", name="Add this seat"))
    for label, value in fields.items():
        name = label.replace("_", " ")
        if label == "Provider":
            form.get_by_label(name).select_option(value)
        else:
            form.get_by_label(name, exact=True).fill(value)
    tab.get_by_role("button", name="Add this seat").click()


def test_a_panel_is_made_tried_and_used_without_a_restart(empty, browse):
    refused = empty.client.post("/api/sessions", json={"query": "Why?"})
    assert refused.status_code == 422
    assert "no seats" in refused.json()["detail"]
    tab = browse()
    tab.goto(f"{url(empty)}/panels")
    tab.get_by_label("Name").fill("three")
    tab.get_by_role("button", name="Make a panel").click()
    for name in ("ann", "bob", "cyd"):
        add_seat(tab, Provider="simulated", Name_on_boards=name)
        expect(tab.locator(f"[data-seat={name}]")).to_be_visible()
    tab.locator("[data-seat=ann]").get_by_role("button", name="Test").click()
    expect(tab.locator("[data-seat=ann] [role=status]")).to_contain_text("works")
    add_seat(tab, Endpoint=DEAD, Model="none", Name_on_boards="dead")
    tab.locator("[data-seat=dead]").get_by_role("button", name="Test").click()
    expect(tab.locator("[data-seat=dead] [role=status]")).to_contain_text("no connection")
    tab.locator("[data-seat=dead]").get_by_role("button", name="Remove").click()
    expect(tab.locator("[data-seat=dead]")).to_have_count(0)
    tab.goto(f"{url(empty)}/panels")
    expect(tab.locator(".box")).to_contain_text("in use")
    empty.hold("Why?")
    seats = [seat.name for seat in empty.service.settings.seats]
    assert seats == ["ann", "bob", "cyd"]


def test_the_models_of_an_endpoint_are_listed(empty, browse):
    seats = [{"name": name, "provider": "simulated"} for name in "xyz"]
    assert empty.client.put("/api/panels/listed", json={"seats": seats}).status_code == 200
    tab = browse()
    tab.goto(f"{url(empty)}/panels/listed")
    form = tab.locator("form").filter(has=tab.get_by_role("button", name="Add this seat"))
    form.get_by_label("Endpoint").fill(f"{url(empty)}/v1")
    form.get_by_role("button", name="List the models").click()
    form.get_by_label("Models").select_option("council")
    expect(form.get_by_label("Model", exact=True)).to_have_value("council")


def test_the_page_says_which_line_an_operator_adds_for_another_host(empty, browse):
    seats = [{"name": name, "provider": "simulated"} for name in "xyz"]
    assert empty.client.put("/api/panels/hosts", json={"seats": seats}).status_code == 200
    tab = browse()
    tab.goto(f"{url(empty)}/panels/hosts")
    add_seat(tab, Endpoint="https://evil.test/v1", Model="m", Name_on_boards="other")
    expect(tab.get_by_role("alert")).to_contain_text('base_url = "https://evil.test/v1"')
    expect(tab.get_by_role("alert")).to_contain_text("peerage.toml")
    tab.faults.clear()  # the status of the answer
