"""Every page: accessible, light, of one origin, and looked at in four ways."""

import gzip
import os
from pathlib import Path

import axe_playwright_python
import pytest

from tests.doors.http.conftest import running, simulated

pytestmark = pytest.mark.needs("chromium")

MAX_GZIPPED = 60_000
LONG = "meta-llama/llama-4-maverick-17b-128e-instruct-fp8-very-long-name"
PATHS = (
    *(
        "/",
        "/sessions",
        "/boards/models?matrix=on&history=week&own_votes=in",
        "/boards/contributors",
    ),
    *("/boards/reviewers?source=simulated&honest=40", "/boards/items", "/judges?a=s01&b=s02"),
    *("/gate?base=s01&candidate=s02", "/judges/anchors", "/judges/advice"),
    *("/judges/reviewer?name=s01", "/judges/passport?name=s01"),
    *("/review", "/prompts", "/me", "/rings?source=simulated", "/settings", "/sessions/nowhere"),
    *("/seasons", "/panels", "/panels/configuration", "/team", "/imports", "/adjudicate", "/demo"),
    *("/deleted", "/publish?kind=board"),
)


DARK = PATHS[::2]


def url(server):
    return str(server.client.base_url).rstrip("/")


def axe_source():
    return (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """Twelve seats, one of them with a long name, and a few sessions."""
    store = f"sqlite:///{tmp_path_factory.mktemp('wide')}/s.db"
    names = [f"s{i:02}" for i in range(1, 12)]
    with running(store, simulated(*names, LONG)) as server:
        for i in range(3):
            server.id = server.hold(f"Question {i}: " + "why " * 30)
        yield server


def shots():
    """The folder for screenshots, where one is wanted."""
    folder = os.environ.get("PEERAGE_SCREENSHOTS")
    return Path(folder) if folder else None


def take(tab, name):
    """Four pictures of a page, for whoever looks."""
    folder = shots()
    for scheme in ("light", "dark") if folder else ():
        for size, width in (("desktop", 1280), ("phone", 390)):
            tab.emulate_media(color_scheme=scheme)
            tab.set_viewport_size({"width": width, "height": 900})
            path = folder / f"{name}-{size}-{scheme}.png"
            tab.screenshot(path=path, full_page=True, caret="initial")
    tab.set_viewport_size({"width": 1280, "height": 900})


def violations(tab):
    tab.evaluate(axe_source())
    found = tab.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        (one["id"], one["nodes"][0]["html"][:200], one["nodes"][0]["failureSummary"][:300])
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
    ]


@pytest.fixture
def tab(chromium):
    context = chromium.new_context()
    yield context.new_page()
    context.close()


def faults_of(tab, server, paths):
    """The serious faults of each of these pages that has some."""
    faults = {}
    for path in paths:
        tab.emulate_media(color_scheme="dark" if path in DARK else "light")
        tab.goto(url(server) + path)
        if found := violations(tab):
            faults[path] = found
        take(tab, path.partition("?")[0].strip("/").replace("/", "-") or "ask")
    return faults


@pytest.mark.slow
def test_asking_a_session_and_its_drawer_have_no_serious_fault_of_accessibility(wide, tab):
    faults = faults_of(tab, wide, ["/", f"/sessions/{wide.id}"])
    tab.locator("table.votes td a").first.click()
    tab.get_by_role("dialog").wait_for()
    if found := violations(tab):
        faults["drawer"] = found
    assert not faults


@pytest.mark.slow
def test_no_page_has_a_serious_fault_of_accessibility(wide, tab):
    assert not faults_of(tab, wide, [*PATHS[1:], "/models?name=s01", "/models/versus?a=s01&b=s02"])


def pages_with_ids(server):
    """The addresses of pages about one thing: a season, a ballot, an invitation, a link."""
    post = server.client.post
    draft = post("/api/seasons", content=b'{"query": "Why?"}\n', params={"name": "trial"}).json()
    ballot = server.client.get("/api/ballots/next").json()
    labels = [one["label"] for one in ballot["responses"]]
    given = {"ballot": ballot["ballot"], "order": labels, "ranking": labels}
    assert post("/api/ballots", json=given).status_code == 201
    judged = ballot["ballot"].partition(".")[0]
    links = [
        post("/api/invitations", json={"role": "reviewer"}).json(),
        post("/api/publications", json={"kind": "board"}).json(),
        post("/api/publications", json={"kind": "session", "of": server.id}).json(),
    ]
    ended = post("/api/publications", json={"kind": "board"}).json()
    server.client.delete(f"/api/links/{ended['id']}")
    return [
        *(f"/sessions/{server.id}/compare", f"/adjudicate/{server.id}", f"/seasons/{draft['id']}"),
        *(f"/review/{judged}", f"/review/{judged}/reveal", f"/?after={server.id}"),
        *(one["path"] for one in (*links, ended)),
        *(f"{links[1]['path']}audit.html", "/join/none", "/login", "/nowhere"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_of_one_thing_has_a_serious_fault_of_accessibility(wide, tab, scheme):
    faults = {}
    for path in pages_with_ids(wide):
        tab.emulate_media(color_scheme=scheme)
        tab.goto(url(wide) + path)
        if found := violations(tab):
            faults[path] = found
    assert not faults


@pytest.mark.slow
def test_a_page_is_small_strict_and_wide_tables_scroll_within_it(wide, browse):
    response = wide.client.get("/")
    policy = response.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "require-trusted-types-for 'script'" in policy
    assert "default-src 'none'" in policy
    tab = browse(viewport={"width": 360, "height": 700})
    sizes = {}
    tab.on("response", lambda got: sizes.setdefault(got.url, len(gzip.compress(got.body()))))
    for path in ("/", "/review"):
        sizes.clear()
        tab.goto(url(wide) + path)
        tab.wait_for_load_state("networkidle")
        assert sum(sizes.values()) < MAX_GZIPPED
    for path in (*PATHS[:6], f"/sessions/{wide.id}"):
        tab.goto(url(wide) + path)
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), path


def test_a_session_is_asked_and_a_cell_opened_by_keys_alone(council, browse):
    tab = browse()
    tab.goto(url(council))
    tab.get_by_label("Question").focus()
    tab.keyboard.type("By keys?")
    tab.keyboard.press("Control+Enter")
    tab.locator("#status.done").wait_for()
    tab.reload()
    cell = tab.locator("table.votes td a").first
    cell.focus()
    tab.keyboard.press("Enter")
    tab.get_by_role("dialog").wait_for()
    outline = cell.evaluate("one => getComputedStyle(one).outlineStyle")
    tab.keyboard.press("Escape")
    assert outline is not None
    assert not tab.get_by_role("dialog").is_visible()


@pytest.mark.slow
def test_an_empty_installation_offers_the_demo_on_every_page_that_has_nothing(tmp_path, browse):
    with running(f"sqlite:///{tmp_path}/e.db", simulated("ann", "bob", "cyd")) as server:
        tab = browse()
        for path in ("/", "/sessions", "/boards/models", "/judges", "/review", "/rings"):
            tab.goto(url(server) + path)
            take(tab, "empty" + path.replace("/", "-"))
            assert "Traceback" not in tab.content()
        tab.goto(url(server))
        assert tab.get_by_role("button", name="Run the demo").is_visible()
        server.hold("Two seats?")
        tab.goto(f"{url(server)}/sessions")
        tab.locator("#sessions-table a").first.click()
        take(tab, "two-seats")
