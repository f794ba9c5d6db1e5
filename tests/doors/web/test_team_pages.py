"""People are invited by link, land where they may act, and work through a queue of ballots."""

import re

import httpx
import pytest
from playwright.sync_api import expect

from peerage.doors.http import AppSettings
from peerage.doors.http.gate import AccessRules
from peerage.events import PersonReviewed, Rejudged, Withdrawn, read_events
from tests.doors.http.conftest import running, simulated
from tests.shared.waiting import wait_until

pytestmark = pytest.mark.needs("chromium")

PHONE = {"viewport": {"width": 390, "height": 800}}


def url(server):
    return str(server.client.base_url).rstrip("/")


@pytest.fixture(scope="module")
def team(tmp_path_factory):
    """A server that needs tokens; its client is an admin's."""
    store = f"sqlite:///{tmp_path_factory.mktemp('team')}/s.db"
    settings = AppSettings(rules=AccessRules(needs_token=True))
    with running(store, simulated("ann", "bob", "cyd"), settings=settings) as started:
        started.token = started.add_token("lead", "admin")
        started.client.headers["Authorization"] = f"Bearer {started.token}"
        yield started


def log_in(tab, server, path="/"):
    tab.goto(url(server) + path)
    tab.get_by_label("Token").fill(server.token)
    tab.get_by_role("button", name="Log in").click()


def invite(server, **given):
    made = server.client.post("/api/invitations", json=given)
    assert made.status_code == 201, made.text
    return url(server) + made.json()["path"]


def test_a_wrong_token_is_a_page_with_words_and_the_page_asked_for_is_kept(team, browse):
    tab = browse()
    tab.goto(f"{url(team)}/sessions?search=moon")
    tab.get_by_label("Token").fill("pk_wrong")
    tab.get_by_role("button", name="Log in").click()
    expect(tab.get_by_role("alert")).to_contain_text("Unknown or expired token")
    tab.faults.clear()
    tab.get_by_label("Token").fill(team.token)
    tab.get_by_role("button", name="Log in").click()
    expect(tab).to_have_url(f"{url(team)}/sessions?search=moon")
    expect(tab.locator("header")).to_contain_text("lead")
    cookie = next(one for one in tab.context.cookies() if one["name"] == "peerage_login")
    assert (cookie["sameSite"], cookie["httpOnly"]) == ("Lax", True)
    tab.get_by_role("button", name="Log out").click()
    expect(tab.get_by_role("heading", level=1)).to_have_text("Log in")


def test_every_page_is_reached_by_links_that_its_reader_may_follow(team):
    def links(path, client):
        page = client.get(path, headers={"accept": "text/html"}).text
        return set(re.findall(r'<a href="(/[^"?]*)', page.partition("<main")[0]))

    admin = set().union(*(links(path, team.client) for path in ("/boards/models", "/judges")))
    admin |= links("/settings", team.client)
    assert {"/publish", "/adjudicate", "/imports", "/panels", "/deleted", "/demo"} <= admin
    headers = {"Authorization": f"Bearer {team.add_token('reader', 'read')}"}
    with httpx.Client(base_url=url(team), headers=headers, trust_env=False) as reader:
        assert not {"/publish", "/imports"} & (
            links("/boards/models", reader) | links("/settings", reader)
        )


def test_the_page_after_a_login_is_never_on_another_host(team):
    for to in ("https://evil.test/", "//evil.test", "/\\evil.test", "javascript:alert(1)"):
        form = {"token": team.token, "next": to}
        answer = team.client.post("/login", data=form, headers={"Origin": url(team)})
        assert answer.headers["location"] == "/"


def test_a_change_by_cookie_from_another_site_is_refused(team):
    login = team.client.post("/login", data={"token": team.token}, headers={"Origin": url(team)})
    team.client.cookies.clear()
    cookie = f"peerage_login={login.cookies['peerage_login']}"
    given = {"role": "admin"}
    for headers in ({"Origin": "https://evil.test"}, {}):
        no_bearer = {**headers, "Authorization": "", "Cookie": cookie}
        refused = team.client.post("/api/invitations", json=given, headers=no_bearer)
        assert refused.status_code == 403


def test_a_reviewer_joins_by_link_on_a_phone_and_judges_a_queue(team, browse):
    ids = [team.hold(f"Question {i}?") for i in range(3)]
    tab = browse()
    log_in(tab, team, "/team")
    tab.get_by_label("Role").select_option("reviewer")
    tab.get_by_label("Uses").fill("2")
    tab.get_by_role("button", name="Make a link").click()
    link = tab.locator("#made-link").input_value()
    phone = browse(**PHONE)
    phone.goto(link)
    phone.get_by_label("Your name").fill("zoe")
    phone.get_by_role("button", name="Join").click()
    expect(phone).to_have_url(f"{url(team)}/review")
    expect(phone.locator("header nav")).to_have_text("Review")
    expect(phone.locator(".queue")).to_have_text("1 of 3")
    assert phone.evaluate("document.documentElement.scrollWidth <= innerWidth")
    phone.get_by_role("button", name="Submit this ranking").click()
    expect(phone.get_by_role("heading", level=1)).to_have_text("Is this your ranking?")
    phone.get_by_role("button", name="Yes, submit it").click()
    expect(phone.locator(".queue")).to_have_text("2 of 3")
    phone.get_by_role("button", name="Undo").click()
    phone.locator(".ballot > li").first.get_by_role("button", name="down").click()
    phone.get_by_text("Marks, 1 to 10").first.click()
    phone.locator("input[name^=mark_]").first.fill("7")
    phone.get_by_role("button", name="Submit this ranking").click()
    expect(phone.locator(".queue")).to_have_text("2 of 3")
    phone.get_by_text("Skip this one").click()
    phone.locator("select[name=why]").select_option("The question is not clear")
    phone.get_by_role("button", name="Skip", exact=True).click()
    expect(phone.locator(".queue")).to_have_text("3 of 3")
    facts = [f for id_ in ids for f in read_events(team.service.store.events(id_))]
    mine = [fact for fact in facts if isinstance(fact, PersonReviewed)]
    assert sum(isinstance(fact, Withdrawn) for fact in facts) == 1
    assert [fact.review.abstained for fact in mine].count("The question is not clear") == 1
    assert any(fact.review.marks for fact in mine)
    for path in ("/sessions", f"/sessions/{ids[0]}", "/team", "/api/invitations"):
        assert phone.goto(url(team) + path).status == 403
    phone.faults.clear()


def test_an_invitation_ends_with_its_uses_and_when_it_is_revoked(team, browse):
    link = invite(team, role="reader", uses=1)
    tab = browse()
    tab.goto(link)
    tab.get_by_label("Your name").fill("ann")
    tab.get_by_role("button", name="Join").click()
    expect(tab.get_by_role("alert")).to_contain_text("is already used")
    tab.faults.clear()
    tab.get_by_label("Your name").fill("rea")
    tab.get_by_role("button", name="Join").click()
    expect(tab).to_have_url(f"{url(team)}/boards/models")
    other = browse()
    assert other.goto(link).status == 410
    expect(other.get_by_role("heading", level=1)).to_have_text("This invitation has ended")
    revoked = invite(team, role="reader", uses=5)
    id_ = revoked.rsplit("/", 1)[-1].split(".")[0]
    assert team.client.delete(f"/api/links/{id_}").status_code == 200
    assert other.goto(revoked).status == 410
    other.faults.clear()
    assert all(link.hash not in revoked for link in team.service.store.links("invitation"))


def test_a_reviewer_is_assigned_ballots_and_some_come_twice(team):
    rows = "\n".join(f'{{"query": "Sum {i}?"}}' for i in range(8))
    made = team.client.post("/api/seasons?name=twice&repeats=50", content=rows).json()
    team.client.post(f"/api/seasons/{made['id']}/start")
    place = f"/api/seasons/{made['id']}"
    wait_until(lambda: team.client.get(place).json()["state"] == "done")
    kim = {"Authorization": f"Bearer {team.add_token('kim', 'review')}"}
    given = {"person": "kim", "season": made["id"], "n": 6}
    assert len(team.client.post("/api/assignments", json=given).json()["sessions"]) == 6
    for _ in range(14):
        page = team.client.get(f"/review?season={made['id']}", headers=kim).text
        if 'name="ballot" value="' not in page:
            break
        ballot = page.split('name="ballot" value="')[1].split('"')[0]
        review = {"ballot": ballot, "ranking": ["B", "A", "C"]}
        assert team.client.post("/api/ballots", json=review, headers=kim).status_code == 201
    queue = team.client.get(f"/api/queue?season={made['id']}", headers=kim).json()
    assert (queue["done"], queue["ahead"], queue["assigned"]) == (6, 0, True)
    facts = [
        fact
        for entry in team.service.store.sessions()
        for fact in read_events(team.service.store.events(entry.id))
    ]
    n_twice = sum(isinstance(fact, Rejudged) for fact in facts)
    assert n_twice == queue["repeated"]["n"] > 0
