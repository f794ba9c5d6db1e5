"""Checks before every route: connections, host names, origins, tokens, and sizes of requests.

A server on a loopback address needs no token. It refuses browsers that reach it through another
host name or from a page of another site. The number of connections and the time that an incomplete
request may take are limited, because Uvicorn alone would wait forever.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import h11
import uvicorn
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from peerage.doors.http.access import LOCAL, Client, TokenBook, cookie_in
from peerage.doors.http.origins import is_foreign, is_named, opens_a_page, with_security_headers
from peerage.doors.http.problems import headers_of, openai_extra, problem, status_of
from peerage.errors import PeerageError
from peerage.hosts import is_loopback
from peerage.providers import THIS_COUNCIL, TRACE_HEADER, council_trace
from peerage.service import Service, asking_token
from peerage.stores import Action, StoreError
from peerage.tasks import end
from peerage.tokens import PREFIX as TOKEN_PREFIX

if TYPE_CHECKING:
    from starlette.types import ASGIApp


access_log = logging.getLogger("peerage.access")

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
SECRET_PATHS = ("/join/", "/published/")  # the secret of a link follows
OPEN_PATHS = (  # need no token
    *("/healthz", "/readyz", "/login", "/static/", "/oidc/"),
    *SECRET_PATHS,
)
TOKEN_HINT = "Send `Authorization: Bearer TOKEN`; `peerage token create` creates one."  # noqa: S105
CUSTOM_HEADERS = ("x-peerage", "hx-request")  # headers that a page of another site cannot send
MAX_BODY_BYTES = 4_000_000
MAX_BYTES_BY_PATH = {  # paths to which clients send files or images
    "/api/sessions": 12_000_000,
    "/ask": 12_000_000,
    "/v1/chat/completions": 12_000_000,
    "/v1/responses": 12_000_000,
    "/v1/decisions": 12_000_000,
    "/api/imports": 1_000_000_000,
    "/api/imports/preview": 1_000_000_000,
    "/imports": 1_000_000_000,
    "/api/seasons": 64_000_000,
    "/api/seasons/preview": 64_000_000,
    "/seasons": 64_000_000,
}
SEND_TIMEOUT_S = 60.0  # for one piece of a response
MAX_TRACE = 16  # how many councils a call has passed through are remembered
MAX_QUERY_BYTES = 16_000
OPTION_NAME = b"abcdefghijklmnopqrstuvwxyz-"  # the characters of an option's flag


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """Time limits for the body of a request: for each piece, and in total (grows with its size)."""

    piece_s: float = 30.0
    total_s: float = 60.0  # plus the time that the bytes so far take at the minimum rate
    min_bytes_per_s: float = 20_000.0


@dataclass(frozen=True, slots=True)
class AccessRules:
    """Which host names the server answers to, and whether clients need a token."""

    hosts: frozenset[str] = frozenset()  # in addition to loopback names; they require tokens
    needs_token: bool = False
    checks_host: bool = True  # False if the server listens on addresses with other names
    origins: frozenset[str] = frozenset()  # of other sites whose pages may use the server


class RefusedError(Exception):
    """Raised to refuse a request, with a status and a reason."""

    def __init__(
        self, status: int, detail: str, headers: Mapping[str, str] | None = None, hint: str = ""
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers, self.hint = status, detail, headers, hint

    def response(self, path: str) -> Response:
        """Return the problem document in the format of this path's clients."""
        extra = openai_extra(path, self.status, f"{self.detail} {self.hint}".strip())
        return problem(self.status, self.detail, self.headers, hint=self.hint, **extra)


def check_host(rules: AccessRules, headers: Headers) -> None:
    """Refuse a host name that is not allowed (DNS rebinding)."""
    name = _host_name(headers.get("host", ""))
    if rules.checks_host and not (is_loopback(name) or name in rules.hosts):
        detail = "this server does not answer to this host name."
        raise RefusedError(421, detail, hint="Allow it with --allow-host.")


class PreflightGate:
    """The middleware around that of other origins, which answers their preflights by itself."""

    def __init__(self, app: ASGIApp, rules: AccessRules) -> None:
        self.app, self.rules = app, rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "OPTIONS":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = with_security_headers(message["headers"])
            await send(message)

        try:
            check_host(self.rules, Headers(scope=scope))
        except RefusedError as refused:
            await refused.response(scope["path"])(scope, receive, send_with_headers)
            return
        await self.app(scope, receive, send_with_headers)


class RequestGate:
    """The outermost middleware: admits a request or refuses it."""

    def __init__(
        self,
        app: ASGIApp,
        service: Service,
        rules: AccessRules,
        book: TokenBook,
        body_limits: BodyLimits,
    ) -> None:
        self.app, self.service, self.rules, self.book = app, service, rules, book
        self.body_limits = body_limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status, place = time.perf_counter(), 0, ""

        async def send_in_time(message: Message) -> None:
            nonlocal status, place
            if message["type"] == "http.response.start":
                status = message["status"]
                place = Headers(raw=message["headers"]).get("location", "")
                message["headers"] = with_security_headers(message["headers"])
            async with asyncio.timeout(SEND_TIMEOUT_S):
                await send(message)

        try:
            client = await self._admit(scope)
            body = LimitedBody(receive, _max_bytes(scope), self.body_limits)
            body.check(Headers(scope=scope))
            scope["peerage.client"] = client
            asking_token.set(client.token if client else None)
            await self.app(scope, body, send_in_time)
        except RefusedError as refused:
            client = scope.get("peerage.client")
            if not status:
                await refused.response(scope["path"])(scope, receive, send_in_time)
        except TimeoutError:  # the client stopped reading, so the connection is closed
            if not status:
                raise
            client = scope.get("peerage.client")
        await self._note(scope, client, status, place, time.perf_counter() - started)

    async def _admit(self, scope: Scope) -> Client | None:
        """Return the client of a request; raise RefusedError if it is not admitted."""
        headers = Headers(scope=scope)
        self._check_host(headers)
        if len(scope["query_string"]) > MAX_QUERY_BYTES:
            raise RefusedError(414, f"the query is longer than {MAX_QUERY_BYTES:,} bytes.")
        is_own = not is_foreign(headers) or opens_a_page(scope["method"], scope["path"], headers)
        if not is_own:
            self._check_origin(headers)
        _check_trace(headers)
        bearer, cookie = _bearer(headers), cookie_in(headers) if is_own else ""
        client = await self._client(bearer or cookie, is_cookie=not bearer)
        if client is None and not scope["path"].startswith(OPEN_PATHS):
            if scope["method"] in ("GET", "HEAD") and "text/html" in headers.get("accept", ""):
                raise RefusedError(303, "log in first.", {"Location": login_address(scope)})
            known = bearer or cookie
            detail = "unknown or expired token." if known else "this server needs a token."
            raise RefusedError(401, detail, {"WWW-Authenticate": "Bearer"}, hint=TOKEN_HINT)
        by_cookie = client is not None and client.token is not None and not bearer
        if by_cookie and scope["method"] not in SAFE_METHODS:
            _check_same_site(headers)
        return client

    async def _client(self, text: str, *, is_cookie: bool) -> Client | None:
        """Return the client a token or cookie belongs to and count the request, or None."""
        # OpenAI clients always send a key; without the prefix of a token it is ignored.
        if not self.rules.needs_token and not text.startswith(TOKEN_PREFIX):
            return LOCAL
        try:
            find = self.book.client_of_login if is_cookie else self.book.client
            client = await find(text) if text else None
            if client is not None and client.token is not None:
                self.book.count(client.token)
        except PeerageError as error:
            raise RefusedError(
                status_of(error), error.message, headers_of(error), error.hint
            ) from None
        return client

    def _check_host(self, headers: Headers) -> None:
        check_host(self.rules, headers)

    def _check_origin(self, headers: Headers) -> None:
        """Refuse a request of a page of another origin, unless the operator has named it."""
        if not is_named(headers, self.rules.origins):
            hint = "To let a page of another origin use it: --cors-origin ORIGIN."
            raise RefusedError(403, "pages of other sites may not use this server.", hint=hint)

    async def _note(
        self, scope: Scope, client: Client | None, status: int, place: str, took_s: float
    ) -> None:
        """Write a line to the log; for a request that changed something, also store an action."""
        name = client.name if client else ""
        path = without_secret(scope["path"])
        line = {
            "method": scope["method"],
            "path": path,
            "status": status,
            "ms": round(took_s * 1000, 1),
            "client": name,
        }
        access_log.info("request", extra={"fields": line})
        if scope["method"] not in SAFE_METHODS and 200 <= status < 400 and client is not None:
            action = Action(time.time(), name, f"{scope['method']} {path}", place)
            try:
                await self.service.store.add_action(action)
            except StoreError as error:
                access_log.warning("action not recorded: %s", error)


class LimitedBody:
    """The body of a request, with limits on size and time."""

    def __init__(self, receive: Receive, max_bytes: int, limits: BodyLimits) -> None:
        self.receive, self.max_bytes, self.limits = receive, max_bytes, limits
        self.began = time.monotonic()
        self.n_bytes = 0
        self.whole = False

    def check(self, headers: Headers) -> None:
        """Refuse a body whose declared length is too large."""
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > self.max_bytes:
            raise RefusedError(413, self._too_large())

    async def __call__(self) -> Message:
        if self.whole:  # the next message is the end of the connection
            return await self.receive()
        limits = self.limits
        ends_at = self.began + limits.total_s + self.n_bytes / limits.min_bytes_per_s
        try:
            async with asyncio.timeout(min(limits.piece_s, ends_at - time.monotonic())):
                message = await self.receive()
        except TimeoutError:
            raise HTTPException(408, "the request did not arrive in time.") from None
        if message["type"] == "http.request":
            self.n_bytes += len(message.get("body", b""))
            self.whole = not message.get("more_body", False)
            if self.n_bytes > self.max_bytes:
                raise HTTPException(413, self._too_large())
        return message

    def _too_large(self) -> str:
        return f"the body is larger than {self.max_bytes:,} bytes."


def _max_bytes(scope: Scope) -> int:
    return MAX_BYTES_BY_PATH.get(scope["path"], MAX_BODY_BYTES)


def without_secret(path: str) -> str:
    """Return a path for the log, without the secret of an invitation or a published link."""
    _, first, *rest = path.split("/")
    if f"/{first}/" in SECRET_PATHS and rest:
        rest[0] = rest[0].partition(".")[0] + "…"
    return "/".join(("", first, *rest))


def login_address(scope: Scope) -> str:
    """Return the address of the login page, which leads back to the requested page."""
    query = scope["query_string"].decode("latin-1")
    path = scope["path"] + (f"?{query}" if query else "")
    return "/login" if path == "/" else f"/login?next={quote(path, safe='/')}"


@lru_cache(1024)
def _host_name(host: str) -> str:
    """Return a Host header without its port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _bearer(headers: Headers) -> str:
    kind, _, text = headers.get("authorization", "").partition(" ")
    return text.strip() if kind.lower() == "bearer" else ""


def _check_same_site(headers: Headers) -> None:
    """Refuse a change that only a cookie authorises, because another site's form could send it."""
    if "origin" not in headers and not any(name in headers for name in CUSTOM_HEADERS):
        detail = "with a login cookie, this request also needs an Origin or X-Peerage header."
        raise RefusedError(403, detail)


def _check_trace(headers: Headers) -> None:
    """Refuse a call that this council makes to itself through its seats."""
    trace = [council for council in headers.get(TRACE_HEADER, "").split(",") if council]
    if THIS_COUNCIL in trace:
        detail = "this council is a seat of its own panel and would call itself forever."
        raise RefusedError(409, detail, hint="Remove the seat with this base_url.")
    council_trace.set(",".join([*trace[:MAX_TRACE], THIS_COUNCIL]))


class HeadAsGet:
    """Middleware that answers HEAD like GET, without the body; a stream ends after its headers."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return
        body_begins = asyncio.Event()

        async def send_head(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)
            elif not body_begins.is_set():
                body_begins.set()
                await send({"type": "http.response.body"})

        answer = asyncio.ensure_future(self.app({**scope, "method": "GET"}, receive, send_head))
        sent = asyncio.create_task(body_begins.wait())
        try:
            await asyncio.wait((answer, sent), return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                await answer
        finally:
            await end((answer, sent))


class QueryNames:
    """Middleware that accepts query options spelt like flags: `own-votes` for `own_votes`."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and b"-" in scope["query_string"]:
            fields = map(_with_underscores, scope["query_string"].split(b"&"))
            scope = {**scope, "query_string": b"&".join(fields)}
        await self.app(scope, receive, send)


def _with_underscores(field: bytes) -> bytes:
    """Return a query field with `_` for `-` in its name, if the name can be an option."""
    name, equals, value = field.partition(b"=")
    if name.startswith(b"-") or name.strip(OPTION_NAME):
        return field
    return name.replace(b"-", b"_") + equals + value


# -- connections ---------------------------------------------------------------------------------

LOOPBACK = ("127.0.0.0/8", "::1/128")
CONNECTIONS_END_S = 5  # time to close connections after the sessions have ended
IPV6_NETWORK_BITS = 64  # one client may own all addresses of such a network, so they count as one
TOO_LATE = "408 Request Timeout", "the request did not arrive in time."
NO_ROOM = "503 Service Unavailable", "too many connections; try again later."


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits on the number of connections and on the time for the head of a request."""

    in_all: int = 1_000
    per_address: int = 100
    request_s: float = 10.0
    proxies: tuple[str, ...] = ()  # addresses and networks whose X-Forwarded headers are trusted
    uncounted: tuple[str, ...] = LOOPBACK  # not limited; proxies are not limited either


def server_config(app: ASGIApp, limits: ConnectionLimits) -> uvicorn.Config:
    """Return the configuration of the server: quiet, HTTP/1.1, with limited connections."""
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(limits.proxies),
        forwarded_allow_ips=list(limits.proxies),
        http=_protocol(limits),  # h11, which bounds the size of headers
        ws="none",
        timeout_graceful_shutdown=CONNECTIONS_END_S,
    )


def _protocol(limits: ConnectionLimits) -> type[H11Protocol]:
    """Return a class for the connections of one server, with its own count."""
    return type("Connection", (BoundedConnection,), {"limits": limits, "n_by_client": Counter()})


class BoundedConnection(H11Protocol):
    """A connection that is closed if a request takes too long or there are too many connections."""

    limits: ConnectionLimits
    n_by_client: Counter[str]  # shared by all connections of one server
    _client_key = ""
    _clock: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        key = _client_key(self.client[0] if self.client else "", self.limits)
        if key:
            self._client_key = key
            self.n_by_client[key] += 1
        has_room = len(self.connections) <= self.limits.in_all
        if has_room and self.n_by_client[key] <= self.limits.per_address:
            self._watch()
        else:
            self._refuse(*NO_ROOM)

    def data_received(self, data: bytes) -> None:
        if not self.transport.is_closing():
            super().data_received(data)
            self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_clock()
        if self._client_key:
            self.n_by_client[self._client_key] -= 1
            if not self.n_by_client[self._client_key]:
                del self.n_by_client[self._client_key]
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Start the clock if a request is incomplete, and stop it if not.

        While a request is handled, the app limits the time for its body. Between two requests
        Uvicorn has a timeout of its own, which the first byte of the next request stops.
        """
        begins = self.conn.their_state is h11.IDLE and self.timeout_keep_alive_task is None
        lingers = self.conn.their_state is h11.SEND_BODY and self.conn.our_state is h11.DONE
        if self.transport.is_closing() or not (begins or lingers):
            self._stop_clock()
        elif self._clock is None:
            self._clock = self.loop.call_later(self.limits.request_s, self._give_up)

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _give_up(self) -> None:
        self._clock = None
        if self.conn.our_state is h11.IDLE:
            self._refuse(*TOO_LATE)
        else:  # the request has been answered
            self.transport.close()

    def _refuse(self, status: str, reason: str) -> None:
        self._stop_clock()
        head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(reason)}"
        self.transport.write(f"{head}\r\nConnection: close\r\n\r\n{reason}".encode())
        self.transport.close()


@lru_cache(4096)
def _client_key(address: str, limits: ConnectionLimits) -> str:
    """Return the key under which connections of an address are counted; empty: not counted."""
    try:
        ip: Any = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return ""
    ip = getattr(ip, "ipv4_mapped", None) or ip
    uncounted = (*limits.uncounted, *limits.proxies)
    if any(ip in ipaddress.ip_network(one, strict=False) for one in uncounted):
        return ""
    if ip.version == 4:
        return str(ip)
    return str(ipaddress.ip_network((int(ip), IPV6_NETWORK_BITS), strict=False))
