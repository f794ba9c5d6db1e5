"""Every GET route: it changes nothing in the store, and all but three reach no other host."""

import sqlite3
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from peerage import config
from peerage.doors.http.origins import SECURITY_HEADERS
from peerage.panel import Council
from peerage.types import Seat
from tests.doors.http.conftest import running, simulated
from tests.doors.http.oidc_provider import CLIENT, SECRET, running_provider

REACHING = {"/readyz", "/oidc/login", "/oidc/callback"}
NAMES = ("ann", "bob", "cyd")
OPTIONS = {  # what a route cannot do without, after its path
    "/ask/estimate": "?query=Why&seats=ann&seats=bob&seats=cyd",
    "/sessions/running": "?id={session}",
    "/seasons/compare": "?a={season}&b={season}",
    "/api/seasons/{id}/compare": "?with={season}",
    "/models": "?name=ann",
    "/models/versus": "?a=ann&b=bob",
    "/judges/reviewer": "?name=ann",
    "/judges/passport": "?name=ann",
    "/api/passports": "?reviewer=ann",
    "/gate": "?base=ann&candidate=bob",
    "/api/gate": "?base=ann&candidate=bob",
    "/review": "?after={session}",
    "/": "?after={session}",
    "/oidc/callback": "?{callback}",
}
PARTS = {  # a part of a path, by the first path that begins with this
    "{id}": {
        "/api/seasons/{id}/estimate": "{draft}",
        **dict.fromkeys(("/seasons", "/api/seasons"), "{season}"),
        "/v1/responses": "resp_{session}",
        "/": "{session}",
    },
    "{text}": {"/join": "{invitation}", "/published": "{published}"},
    "{path:path}": {"/published": "index.html", "/demo": "index.html"},
    "{name:path}": {"/v1/models": "council"},
    "{name}": {"/panels": "configuration"},
    "{kind}": {"/boards": "models"},
    "{index}": {"/": "0"},
    "{number}": {"/": "1"},
    "{place}": {"/": "0.1.2"},
}
WITHOUT_ANSWER = {  # with what is stored here: no image, no demo, too few reviews
    *("/sessions/{id}/images/{number}", "/review/{id}/images/{number}", "/demo/{path:path}"),
    *("/judges/passport", "/api/passports", "/api/advise", "/api/anchors", "/mcp"),
}


class ModelHost(BaseHTTPRequestHandler):
    """A host that counts what reaches it, and answers nothing of use."""

    def do_POST(self):
        self.server.n_requests += 1
        self.send_error(404)

    do_GET = do_POST  # noqa: N815 - a name of the standard library

    def log_message(self, *_):
        pass


connected = None  # the ports to which this process connects, while somebody watches


def note_connection(event, arguments):
    if event == "socket.connect" and connected is not None and isinstance(arguments[1], tuple):
        connected.append(arguments[1][1])


sys.addaudithook(note_connection)


@contextmanager
def watched(own_port):
    """The ports to which this process connects meanwhile, without that of the server itself."""
    global connected
    connected = ports = []
    yield ports
    connected = None
    ports[:] = [port for port in ports if port != own_port]


def filled(store):
    """A session, a season, and links over three simulated seats; what their ids are."""
    with running(store, simulated(*NAMES)) as server:
        post, get = server.client.post, server.client.get
        ids = {"session": server.hold("Why?")}
        given = {"content": b'{"query": "Why?"}\n', "params": {"name": "trial"}}
        ids["draft"], ids["season"] = (post("/api/seasons", **given).json()["id"] for _ in "ab")
        post(f"/api/seasons/{ids['season']}/start")
        while get(f"/api/seasons/{ids['season']}").json()["state"] != "done":
            pass
        ballot = get(f"/api/ballots/next?session={ids['session']}").json()
        labels = [one["label"] for one in ballot["responses"]]
        judged = {"ballot": ballot["ballot"], "order": labels, "ranking": labels}
        assert post("/api/ballots", json=judged).status_code == 201
        assert post(f"/review/{ids['session']}/reveal").status_code == 303
        made = post("/api/invitations", json={"role": "reviewer"}).json()
        ids["invitation"] = made["path"].split("/")[2]
        made = post("/api/publications", json={"kind": "board"}).json()
        ids["published"] = made["path"].split("/")[2]
        return ids


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A server whose seats and login are at hosts that are really there."""
    path = tmp_path_factory.mktemp("gets") / "s.db"
    store = f"sqlite:///{path}"
    ids = filled(store)
    host = ThreadingHTTPServer(("127.0.0.1", 0), ModelHost)
    host.n_requests = 0
    threading.Thread(target=host.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{host.server_address[1]}/v1"
    seats = [Seat(name, provider="openai", model="m", base_url=url) for name in NAMES]
    with running_provider() as provider, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TEST_OIDC_SECRET", SECRET)
        table = {"issuer": provider.issuer, "client_id": CLIENT, "role": "reviewer"}
        table["client_secret_env"] = "TEST_OIDC_SECRET"  # noqa: S105 - a variable's name
        settings = config.with_flags(config.Settings(), {"oidc": table})
        with running(store, Council(settings, store, seats=seats)) as server:
            server.path, server.ids, server.host = path, ids, host
            yield server
    host.shutdown()
    host.server_close()


def routes_of(routes):
    """Every route of an app, also those of the routers that it includes."""
    for route in routes:
        inside = getattr(route, "original_router", None)
        yield from routes_of(inside.routes) if inside is not None else (route,)


def get_paths(server):
    """The paths of all routes that answer GET, in the order of the app; a folder of files once."""
    paths = []
    for route in routes_of(server.app.routes):
        methods = getattr(route, "methods", None)
        if methods is None or "GET" in methods:
            paths.append(route.path)
    assert len(paths) > 100
    return paths


def address_of(path, ids):
    """An address of a route, with the ids of things that are there."""
    address = path
    for part, by_start in PARTS.items():
        if part in address:
            start = next(one for one in by_start if path.startswith(one))
            address = address.replace(part, by_start[start])
    address += OPTIONS.get(path, "")
    address = "/static/app.js" if path == "/static" else address
    for name, value in ids.items():
        address = address.replace(f"{{{name}}}", value)
    assert "{" not in address, f"say in this file how {path} is asked for"
    return address


@dataclass
class Visit:
    """What a GET answered, whether it changed the store, and whether it reached another host."""

    answer: httpx.Response
    is_change: bool
    is_reaching: bool


@pytest.fixture(scope="module")
def visits(world):
    """A visit to each route that answers GET, by its path."""
    port, visits = world.client.base_url.port, {}
    with sqlite3.connect(world.path) as db:

        def version():
            return db.execute("pragma data_version").fetchone()

        for path in get_paths(world):
            login = begun_login(world.client) if path == "/oidc/callback" else ""
            before = version()
            with watched(port) as ports:
                address = address_of(path, {**world.ids, "callback": login})
                answer = world.client.get(address, headers={"Accept": "text/html"})
            visits[path] = Visit(answer, version() != before, bool(ports))
            world.client.cookies.clear()  # nobody stays logged in
    return visits


def begun_login(browser):
    """Begin a login, and return the query that the provider sends back to the callback."""
    began = browser.get("/oidc/login")
    asked = browser.get(began.headers["location"])
    return asked.headers["location"].partition("?")[2]


def test_every_route_that_answers_get_is_listed_here(server):
    names = ("session", "season", "draft", "invitation", "published", "callback")
    addresses = {address_of(path, dict.fromkeys(names, "x")) for path in get_paths(server)}
    assert {"/readyz", "/oidc/login", "/sessions/x/answers/0"} <= addresses


@pytest.mark.slow
def test_a_get_changes_nothing_and_three_reach_another_host(visits):
    failed = {
        path: (visit.answer.status_code, visit.answer.text[-300:])
        for path, visit in visits.items()
        if visit.answer.status_code >= 400 and path not in WITHOUT_ANSWER | {"/readyz"}
    }
    assert not failed
    assert {path for path, visit in visits.items() if visit.is_reaching} == REACHING
    # a login makes a token; every other visit leaves the store as it was
    assert {path for path, visit in visits.items() if visit.is_change} == {"/oidc/callback"}


@pytest.mark.slow
def test_the_own_panel_is_asked_once_a_minute_at_most(world):
    world.client.get("/readyz")
    n = world.host.n_requests
    for _ in range(3):
        assert world.client.get("/readyz").status_code == 503
        assert world.client.get("/settings").status_code == 200
    assert world.host.n_requests == n > 0


@pytest.mark.slow
def test_every_response_has_each_security_header_once(world, visits):
    others = [world.client.get(path) for path in ("/none", "/api/none", "/api/sessions?limit=x")]
    for answer in (*(visit.answer for visit in visits.values()), *others):
        names = [name.decode().lower() for name, _ in answer.headers.raw]
        assert {names.count(name) for name in SECURITY_HEADERS} == {1}, answer.url
        assert answer.headers["referrer-policy"] == "same-origin", answer.url
        assert "default-src 'none'" in answer.headers["content-security-policy"], answer.url
