"""A team of three, from an empty installation to a published board, in the browser alone."""

import json

import pytest
from playwright.sync_api import expect

from peerage.doors.http import AppSettings
from peerage.doors.http.gate import AccessRules
from tests.doors.http.conftest import running

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.slow]

PHONE = {"viewport": {"width": 390, "height": 800}, "has_touch": True}
N_PROMPTS, N_BALLOTS = 80, 10


def url(server):
    return str(server.client.base_url).rstrip("/")


@pytest.fixture
def empty(tmp_path):
    """A server without a seat that needs tokens, and the token of its admin."""
    settings = AppSettings(rules=AccessRules(needs_token=True))
    with running(f"sqlite:///{tmp_path}/s.db", [], settings=settings) as started:
        started.token = started.add_token("lead", "admin")
        yield started


def set_up_panel(tab, server):
    tab.goto(f"{url(server)}/panels")
    tab.get_by_label("Token").fill(server.token)
    tab.get_by_role("button", name="Log in").click()
    tab.get_by_label("Name").fill("house")
    tab.get_by_role("button", name="Make a panel").click()
    for name in ("ann", "bob", "cyd", "dan"):
        form = tab.locator("form").filter(has=tab.get_by_role("button", name="Add this seat"))
        form.get_by_label("Provider").select_option("simulated")
        form.get_by_label("Name on boards").fill(name)
        form.get_by_role("button", name="Add this seat").click()
        expect(tab.locator(f"[data-seat={name}]")).to_be_visible()


def run_season(tab, server):
    tab.goto(f"{url(server)}/seasons")
    rows = "\n".join(json.dumps({"query": f"What follows from {i}?"}) for i in range(N_PROMPTS))
    file = {"name": "trial.jsonl", "mimeType": "text/plain", "buffer": rows.encode()}
    tab.locator("input[type=file]").set_input_files(file)
    tab.get_by_role("button", name="Preview").click()
    tab.get_by_label("Sessions at a time").fill("1")
    tab.get_by_text("For people who review").click()
    tab.get_by_label("Guidelines").fill("Prefer the answer that is **true**.")
    tab.get_by_role("button", name="Dry run").click()
    expect(tab.locator("#estimate")).to_contain_text("No model was called")
    tab.get_by_role("button", name="Start").click()
    tab.get_by_role("button", name="Pause").click()
    tab.get_by_role("button", name="Go on").click()
    expect(tab.locator("#season-status .badge")).to_have_text("done", timeout=180_000)
    return tab.url.rsplit("/", 1)[-1].split("?")[0]


def invite(tab, server, name):
    tab.goto(f"{url(server)}/team")
    tab.get_by_label("Name").fill(name)
    tab.get_by_role("button", name="Make a link").click()
    return tab.locator("#made-link").input_value()


def judge(phone, server, link, season):
    phone.goto(link)
    phone.get_by_role("button", name="Join").click()
    phone.goto(f"{url(server)}/review?season={season}")
    expect(phone.locator(".guidelines")).to_contain_text("Prefer the answer that is true.")
    for number in range(1, N_BALLOTS + 1):
        expect(phone.locator(".queue")).to_have_text(f"{number} of {N_PROMPTS}")
        words = phone.locator("main").inner_text()
        assert not any(name in words for name in ("ann", "bob", "cyd", "dan"))
        phone.locator(".ballot > li").first.get_by_role("button", name="down").click()
        phone.get_by_role("button", name="Submit this ranking").click()


def test_a_team_of_three_evaluates_from_an_empty_installation(empty, browse):
    lead = browse()
    set_up_panel(lead, empty)
    season = run_season(lead, empty)
    for name in ("zoe", "kim"):
        judge(browse(**PHONE), empty, invite(lead, empty, name), season)
    lead.goto(f"{url(empty)}/team")
    row = lead.locator("tr").filter(has_text="zoe").filter(has_text="review")
    expect(row.last).to_contain_text(str(N_BALLOTS))
    lead.goto(f"{url(empty)}/adjudicate?season={season}")
    lead.locator("tbody a").first.click()
    lead.get_by_label("Correct").first.check()
    lead.get_by_role("button", name="Decide").click()
    lead.goto(f"{url(empty)}/adjudicate?season={season}")
    expect(lead.locator("tbody tr").first).to_contain_text("lead")
    lead.goto(f"{url(empty)}/publish?kind=season&of={season}")
    lead.get_by_role("button", name="Make a link").click()
    stranger = browse()
    stranger.goto(lead.locator("#made-link").input_value())
    expect(stranger.get_by_role("heading", level=1)).to_have_text("Board of models")
    expect(stranger.locator("main")).to_contain_text("ann")
    stranger.get_by_role("link", name="Sessions").click()
    stranger.locator("li a").first.click()
    text = stranger.locator("main").inner_text()
    assert "zoe" not in text
    assert "kim" not in text
