"""Checks before every route: hosts, origins, tokens, sizes and times."""

import logging
import math

import httpx
import pytest
from starlette.datastructures import Headers

from peerage.doors.http import AppSettings
from peerage.doors.http.access import COOKIE, cookie_in
from peerage.doors.http.gate import AccessRules, ConnectionLimits, _with_underscores
from peerage.doors.http.operations import JsonLines
from peerage.doors.http.origins import SECURITY_HEADERS, read_origins
from peerage.errors import UsageError
from peerage.hosts import is_loopback
from peerage.providers import THIS_COUNCIL, TRACE_HEADER
from peerage.tokens import LOGIN_S, MAX_LOGINS, make_token
from tests.growth import LARGE_SIZES, is_linear

PROBLEM = "application/problem+json"


def test_names_that_others_point_here_and_pages_of_other_sites_are_turned_away(server):
    port = server.client.base_url.port
    cases = [
        ({"Host": f"evil.example:{port}"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://["}, 403),
        ({"Host": "["}, 421),
        ({"Host": "127.0.0.1.evil.example"}, 421),
        ({"Host": f"localhost:{port}"}, 200),
        ({"Origin": f"http://127.0.0.1:{port}"}, 200),
    ]
    for headers, status in cases:
        answer = server.client.get("/api/sessions", headers=headers)
        assert answer.status_code == status, headers
        assert "access-control-allow-origin" not in answer.headers


EVIL = "http://evil.example"
PAGE = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
FROM = [  # what a browser says, a path, and the status of GET
    ({"Sec-Fetch-Site": "cross-site"}, "/api/sessions", 403),
    ({"Sec-Fetch-Site": "same-site"}, "/api/sessions", 403),  # another port of this machine
    ({"Sec-Fetch-Site": "cross-site", "Origin": EVIL}, "/sessions", 403),
    ({"Sec-Fetch-Site": "cross-site"}, "/static/app.js", 403),
    ({"Sec-Fetch-Site": "cross-site"}, "/healthz", 403),
    ({"Sec-Fetch-Site": "unheard-of"}, "/sessions", 403),
    ({"Sec-Fetch-Site": "cross-site", **PAGE}, "/sessions", 200),  # a link to a page
    ({"Sec-Fetch-Site": "same-site", **PAGE}, "/sessions", 200),
    ({"Sec-Fetch-Site": "cross-site", **PAGE, "Sec-Fetch-Dest": "iframe"}, "/sessions", 403),
    ({"Sec-Fetch-Site": "cross-site", **PAGE, "Sec-Fetch-Dest": "empty"}, "/sessions", 403),
    ({"Sec-Fetch-Site": "cross-site", **PAGE}, "/api/sessions", 403),  # not a page
    ({"Sec-Fetch-Site": "cross-site", **PAGE}, "/readyz", 403),
    ({"Sec-Fetch-Site": "cross-site", **PAGE}, "/v1/models", 403),
    ({"Sec-Fetch-Site": "same-origin"}, "/api/sessions", 200),
    ({"Sec-Fetch-Site": "none"}, "/api/sessions", 200),  # an address that was typed
    ({}, "/api/sessions", 200),
    ({"Origin": EVIL}, "/sessions", 403),
    ({"Origin": EVIL, **PAGE}, "/api/sessions", 403),
]


@pytest.mark.parametrize(("headers", "path", "status"), FROM)
def test_a_page_of_another_origin_leads_to_pages_and_does_no_more(server, headers, path, status):
    assert server.client.get(path, headers=headers).status_code == status
    assert server.client.head(path, headers=headers).status_code == status


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_no_page_of_another_origin_changes_anything(server, method, site):
    headers = {"Sec-Fetch-Site": site, **PAGE}
    for path in ("/ask", "/api/sessions", "/panels/models", "/settings/health", "/logout"):
        assert server.client.request(method, path, headers=headers).status_code == 403


APP = "https://app.example"


@pytest.fixture
def lent(serving):
    """A server that pages of one other origin may use."""
    rules = AccessRules(needs_token=True, origins=frozenset({APP}))
    with serving(settings=AppSettings(rules)) as server:
        yield server


def test_a_page_of_a_named_origin_uses_the_server_with_a_token(lent):
    text = lent.add_token("Ada", "run")
    there = {"Origin": APP, "Sec-Fetch-Site": "cross-site", "Authorization": f"Bearer {text}"}
    asked = lent.client.post("/api/sessions", json={"query": "Why?"}, headers=there)
    assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (202, APP)
    preflight = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "a"}
    allowed = lent.client.options("/api/sessions", headers={"Origin": APP, **preflight})
    assert (allowed.status_code, allowed.headers["access-control-allow-origin"]) == (200, APP)
    other = lent.client.options("/api/sessions", headers={"Origin": EVIL, **preflight})
    assert "access-control-allow-origin" not in other.headers
    for reply in (allowed, other):
        assert reply.headers["x-content-type-options"] == "nosniff"
    elsewhere = {"Origin": APP, "Host": "evil.example", **preflight}
    assert lent.client.options("/api/sessions", headers=elsewhere).status_code == 421
    evil = lent.client.get("/api/sessions", headers={**there, "Origin": EVIL})
    assert (evil.status_code, "access-control-allow-origin" in evil.headers) == (403, False)
    image = lent.client.get("/api/sessions", headers={"Sec-Fetch-Site": "cross-site"})
    assert image.status_code == 403


def test_a_page_of_a_named_origin_does_not_act_with_a_persons_login(lent):
    cookie, _ = log_in(lent, lent.add_token("Ada", "admin"))
    there = {"Origin": APP, "Sec-Fetch-Site": "same-site", "Cookie": cookie}
    assert lent.client.get("/api/sessions", headers=there).status_code == 401
    assert lent.client.post("/api/sessions", json={"query": "?"}, headers=there).status_code == 401


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("https://App.Example/", APP),
        ("https://app.example:443", APP),
        ("http://127.0.0.1:3000", "http://127.0.0.1:3000"),
        ("http://[::1]:80", "http://[::1]"),
        *((wrong, None) for wrong in ("*", "app.example", "null", f"{APP}/path", "file://x", "")),
    ],
)
def test_an_origin_is_read_as_browsers_write_it(text, origin):
    if origin is None:
        with pytest.raises(UsageError, match="is not an origin"):
            read_origins([text])
    else:
        assert read_origins([text]) == (origin,)


def test_a_head_is_a_get_without_a_body(server):
    for path in ("/", "/api/sessions", "/static/app.js", "/published/none/"):
        head, get = server.client.head(path), server.client.get(path)
        assert (head.status_code, head.content) == (get.status_code, b"")
        assert head.headers["content-type"] == get.headers["content-type"]


def test_an_unexpected_error_has_the_security_headers_too(serving):
    with serving() as server:
        app = server.app

        @app.get("/broken")
        def broken():
            raise RuntimeError

        answer = server.client.get("/broken")
        assert answer.status_code == 500
        for name, value in SECURITY_HEADERS.items():
            assert answer.headers.get_list(name) == [value]


def test_a_body_that_is_too_large_is_refused_before_and_while_it_comes(server):
    body = b'{"query": "' + b"x" * 20_000_000 + b'"}'
    headers = {"content-type": "application/json"}
    whole = server.client.post("/api/sessions", content=body, headers=headers)
    pieces = (body[i : i + 100_000] for i in range(0, len(body), 100_000))
    try:
        chunked = server.client.post("/api/sessions", content=pieces, headers=headers)
    except httpx.WriteError:  # it answered and closed while we were still sending
        chunked = whole
    for answer in (whole, chunked):
        assert (answer.status_code, answer.headers["content-type"]) == (413, PROBLEM)


def test_a_token_opens_what_its_scope_says_and_nothing_once_revoked(serving, token):
    with serving(settings=AppSettings(AccessRules(needs_token=True))) as server:
        client = server.client
        assert client.get("/healthz").status_code == 200
        refused = client.get("/api/sessions")
        assert (refused.status_code, refused.headers["content-type"]) == (401, PROBLEM)
        assert refused.headers["www-authenticate"] == "Bearer"
        assert "token create" in client.get("/v1/models").json()["error"]["message"]
        assert client.get("/readyz").status_code == 200
        read, run = token(server, "Ada", "read"), token(server, "Bob", "run")
        may_read = {"Authorization": f"Bearer {read}"}
        may_run = {"Authorization": f"Bearer {run}"}
        assert client.get("/api/sessions", headers=may_read).status_code == 200
        question = {"query": "Why?"}
        assert client.post("/api/sessions", json=question, headers=may_read).status_code == 403
        assert client.post("/api/sessions", json=question, headers=may_run).status_code == 202
        wrong = {"Authorization": f"Bearer {read[:-1]}_"}
        assert client.get("/api/sessions", headers=wrong).status_code == 401
        server.revoke(read)
        assert client.get("/api/sessions", headers=may_read).status_code == 401


def log_in(server, token, **headers):
    """Log in with a token; the cookie that comes back, and how it was set."""
    origin = {"Origin": str(server.client.base_url).rstrip("/"), **headers}
    answer = server.client.post("/login", data={"token": token}, headers=origin)
    server.client.cookies.clear()
    assert answer.status_code == 303, answer.text
    set_cookie = answer.headers["set-cookie"]
    return set_cookie.partition(";")[0], set_cookie.lower()


def test_a_login_opens_the_pages_but_changes_nothing_from_elsewhere(serving, token):
    with serving(settings=AppSettings(AccessRules(needs_token=True))) as server:
        cookie, how = log_in(server, token(server, "Ada", "admin"))
        assert ("httponly" in how, "samesite=lax" in how, "secure" in how) == (True, True, False)
        cookie = {"Cookie": cookie}
        client, question = server.client, {"query": "Why?"}
        origin = {"Origin": str(client.base_url).rstrip("/")}
        assert client.get("/api/sessions", headers=cookie).status_code == 200
        assert client.post("/api/sessions", json=question, headers=cookie).status_code == 403
        ours = {**cookie, **origin}
        assert client.post("/api/sessions", json=question, headers=ours).status_code == 202


def test_the_cookie_of_a_login_is_not_the_token_and_neither_stands_for_the_other(serving, token):
    with serving(settings=AppSettings(AccessRules(needs_token=True))) as server:
        text = token(server, "Ada", "admin")
        cookie, _ = log_in(server, text)
        assert text not in cookie
        name, _, value = cookie.partition("=")
        for headers in ({"Cookie": f"{name}={text}"}, {"Authorization": f"Bearer {value}"}):
            assert server.client.get("/api/sessions", headers=headers).status_code == 401
        assert value not in {one.hash for one in server.service.store.tokens()}


def test_a_login_ends_by_logging_out_and_with_its_token(serving, token):
    with serving(settings=AppSettings(AccessRules(needs_token=True))) as server:
        text = token(server, "Ada", "read")
        first, second = (log_in(server, text)[0] for _ in range(2))
        origin = {"Origin": str(server.client.base_url).rstrip("/")}

        def opens(cookie):
            return server.client.get("/api/sessions", headers={"Cookie": cookie}).status_code == 200

        assert (opens(first), opens(second)) == (True, True)
        out = server.client.post("/logout", headers={"Cookie": first, **origin})
        assert out.status_code == 303
        assert (opens(first), opens(second)) == (False, True)
        server.revoke(text)
        assert (opens(first), opens(second)) == (False, False)


def test_a_token_has_a_few_logins_and_old_ones_end(serving, token):
    with serving(settings=AppSettings(AccessRules(needs_token=True))) as server:
        text = token(server, "Ada", "read")
        cookies = [log_in(server, text)[0] for _ in range(MAX_LOGINS + 2)]
        kept = [
            server.client.get("/api/sessions", headers={"Cookie": one}).status_code == 200
            for one in cookies
        ]
        assert kept == [False, False, *[True] * MAX_LOGINS]
        now = server.service.clock()
        server.service.clock = lambda: now + LOGIN_S + 60
        late = server.client.get("/api/sessions", headers={"Cookie": cookies[-1]})
        assert late.status_code == 401


@pytest.mark.parametrize(
    ("proxies", "is_secure"), [((), False), (("127.0.0.1",), True), (("10.0.0.1",), False)]
)
def test_a_login_is_secure_behind_a_proxy_that_is_trusted(serving, token, proxies, is_secure):
    rules, limits = AccessRules(needs_token=True), ConnectionLimits(proxies=proxies)
    with serving(settings=AppSettings(rules), connections=limits) as server:
        text = token(server, "Ada", "read")
        _, how = log_in(server, text, **{"X-Forwarded-Proto": "https"})
        assert ("secure" in how) is is_secure


def test_without_a_token_seats_are_not_named(serving, token):
    with serving(settings=AppSettings(AccessRules(needs_token=True))) as server:
        ready = server.client.get("/readyz")
        assert (ready.status_code, ready.json()) == (200, {"status": "ready"})
        review = {"Authorization": f"Bearer {token(server, 'Rev', 'review')}"}
        assert server.client.get("/readyz", headers=review).json() == {"status": "ready"}
        read = {"Authorization": f"Bearer {token(server, 'Ada', 'read')}"}
        seats = server.client.get("/readyz", headers=read).json()["seats"]
        assert seats == {"ann": True, "bob": True, "cyd": True}


def test_a_token_has_a_rate_and_a_budget(serving, token):
    with serving(settings=AppSettings(AccessRules(needs_token=True))) as server:
        slow = {"Authorization": f"Bearer {token(server, 'Ada', 'read', rate=6)}"}
        answers = [server.client.get("/api/sessions", headers=slow) for _ in range(3)]
        assert [one.status_code for one in answers][-1] == 429
        assert int(answers[-1].headers["retry-after"]) >= 1
        poor = {"Authorization": f"Bearer {token(server, 'Bob', 'run', budget_usd=1.0)}"}
        dear = {"query": "?", "budget_usd": 5}
        refused = server.client.post("/api/sessions", json=dear, headers=poor)
        assert (refused.status_code, refused.headers["content-type"]) == (402, PROBLEM)
        cheap = {"query": "?", "budget_usd": 0.4}
        held = server.client.post("/api/sessions", json=cheap, headers=poor)
        assert held.status_code == 202, held.text
        server.client.get(f"{held.headers['location']}/events", headers=slow | poor)
        spent = {one.name: one.spent_usd for one in server.service.store.tokens()}
        assert spent["Bob"] == pytest.approx(0.0)


@pytest.mark.parametrize(
    "limits", [{"rate": 0.0}, {"rate": -1.0}, {"rate": math.nan}, {"budget_usd": math.inf}]
)
def test_a_token_with_an_invalid_limit_is_refused(limits):
    with pytest.raises(UsageError):
        make_token("you", ["run"], 0.0, **limits)


def test_actions_are_recorded_with_the_caller(serving, token):
    with serving(settings=AppSettings(AccessRules(needs_token=True))) as server:
        headers = {"Authorization": f"Bearer {token(server, 'Ada', 'run')}"}
        started = server.client.post("/api/sessions", json={"query": "?"}, headers=headers)
        server.client.get(f"{started.headers['location']}/events", headers=headers)
        (action,) = server.service.store.actions(5)
        assert (action.who, action.what) == ("Ada", "POST /api/sessions")
        assert action.about == started.headers["location"]


def test_a_council_that_asks_itself_is_told_so(server):
    headers = {TRACE_HEADER: f"another,{THIS_COUNCIL}"}
    answer = server.client.post("/api/sessions", json={"query": "?"}, headers=headers)
    assert (answer.status_code, answer.headers["content-type"]) == (409, PROBLEM)


def test_no_line_of_the_log_holds_a_token(serving, token, caplog):
    caplog.set_level(logging.DEBUG)
    with serving(settings=AppSettings(AccessRules(needs_token=True))) as server:
        text = token(server, "Ada", "run")
        headers = {"Authorization": f"Bearer {text}", "Cookie": f"{COOKIE}={text}"}
        started = server.client.post(
            f"/api/sessions?token={text}", json={"query": text}, headers=headers
        )
        server.client.get(f"/api/sessions/{text}", headers=headers)
        server.client.get(f"{started.headers['location']}/events", headers=headers)
    lines = [JsonLines().format(record) for record in caplog.records]
    assert any('"path": "/api/sessions"' in line for line in lines)
    assert not any(text in line for line in lines)


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("[::1]", True),
        ("localhost", True),
        ("LOCALHOST.", True),
        ("my.localhost", True),
        ("10.0.0.1", False),
        ("api.openai.com", False),
        ("0.0.0.0", False),  # noqa: S104 - not bound to
        ("192.168.1.2", False),
        ("localhost.evil.example", False),
        ("", False),
    ],
)
def test_only_this_machine_is_loopback(host, here):
    assert is_loopback(host) is here


@pytest.mark.parametrize(
    ("field", "read_as"),
    [
        (b"own-votes=in", b"own_votes=in"),
        (b"own-votes", b"own_votes"),
        (b"own-votes=a-b", b"own_votes=a-b"),
        (b"-x=1", b"-x=1"),
        (b"A-b=1", b"A-b=1"),
        (b"a%2Db=1", b"a%2Db=1"),
    ],
)
def test_an_option_in_a_query_may_be_spelt_as_its_flag(field, read_as):
    assert _with_underscores(field) == read_as


@pytest.mark.parametrize(
    ("header", "value"),
    [
        (f"{COOKIE}=abc", "abc"),
        (f'other="a;b"; {COOKIE}="abc"', "abc"),
        (f"a={COOKIE}; b", ""),
        (f"{COOKIE}=" + "x" * 10_000, ""),
        (f"=; ;;=; {COOKIE}", ""),
    ],
)
def test_our_cookie_is_found_among_others(header, value):
    assert cookie_in(Headers({"cookie": header})) == value


@pytest.mark.parametrize("unit", ["-", "a-", "a-b&", "&", "=", '\\"', ";", '"\\"', "a=b;", "\\073"])
@pytest.mark.parametrize("start", ["", "a", 'x="', f"{COOKIE}="])
def test_a_query_and_a_cookie_are_read_in_linear_time(start, unit):
    def read_both(text):
        cookie_in(Headers({"cookie": text}))
        for field in text.encode().split(b"&"):
            _with_underscores(field)

    assert is_linear(read_both, start, unit, LARGE_SIZES)


def test_a_query_that_is_too_long_is_refused_without_a_token(server):
    answer = server.client.get("/healthz?a" + "-" * 20_000 + "!")
    assert (answer.status_code, answer.headers["content-type"]) == (414, PROBLEM)
    assert server.client.get("/healthz?a" + "-" * 10_000 + "!").status_code == 200
