"""Who makes a request, and what they may do: tokens, a cookie for the pages, and scopes."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Annotated
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, HTTPException, Request
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, RedirectResponse, Response

from peerage.doors.http.problems import problem
from peerage.service import BusyError, Service
from peerage.stores import AccessToken
from peerage.tokens import (
    ALLOWED_BY_SCOPE,
    LOGIN_S,
    Scope,
    allowed,
    is_login,
    make_login,
    matching,
    surplus_logins,
    token_of_login,
)

COOKIE = "peerage_login"
REFRESH_S = 1.0  # a token that was revoked opens nothing after so long
NEW_S = 0.1  # and one that was made just now is known after so long
BURST_S = 10.0  # of a token's rate may be used at once
ROWS_A_MINUTE = 1_000  # opinions and items that a token may give, all of them at once if it likes


@dataclass(frozen=True, slots=True)
class Client:
    """Who makes a request: a name that reviews are given under, and what it may do."""

    name: str
    allowed: frozenset[str]
    token: AccessToken | None = None  # None for whoever is at this machine


LOCAL = Client("local", ALLOWED_BY_SCOPE["admin"])


def _client(token: AccessToken) -> Client:
    return Client(token.name, allowed(token), token)


@dataclass(slots=True)
class TokenBook:
    """The tokens of a store, read again now and then, and how often each is used."""

    service: Service
    tokens: list[AccessToken] = field(default_factory=list)
    read_at: float = float("-inf")
    rows_a_minute: float = ROWS_A_MINUTE
    free_at_by_token: dict[str, float] = field(default_factory=dict)
    rows_free_at_by_token: dict[str, float] = field(default_factory=dict)

    async def client(self, text: str) -> Client | None:
        """The client that a token makes; None where it opens nothing."""
        token = await self._matching(text, REFRESH_S) or await self._matching(text, NEW_S)
        return None if token is None or is_login(token) else _client(token)

    async def client_of_login(self, text: str) -> Client | None:
        """The client whose login this is; None once it or its token has ended."""
        login = await self._matching(text, REFRESH_S) or await self._matching(text, NEW_S)
        token = None if login is None else token_of_login(login, self.tokens, self.service.clock())
        return None if token is None else _client(token)

    async def log_in(self, token: AccessToken) -> str:
        """Begin a login of a token, and return the text that the browser keeps."""
        now = self.service.clock()
        tokens = await self.service.read(self.service.store.tokens)
        for old in surplus_logins(token, tokens, now):
            await self.service.read(self.service.store.remove_token, old.id)
        text, login = make_login(token, now)
        await self.service.read(self.service.store.add_token, login)
        self.read_at = float("-inf")
        return text

    async def log_out(self, text: str) -> None:
        """End a login, on every server of this store."""
        login = await self._matching(text, NEW_S)
        if login is not None and is_login(login):
            await self.service.read(self.service.store.remove_token, login.id)
            self.read_at = float("-inf")

    async def _matching(self, text: str, max_age_s: float) -> AccessToken | None:
        """The token of a text, from a list that is at most so old."""
        if time.monotonic() - self.read_at > max_age_s:
            self.tokens = await self.service.read(self.service.store.tokens)
            self.read_at = time.monotonic()
        return matching(text, self.tokens)

    def count(self, token: AccessToken) -> None:
        """Count one request; BusyError where the token has used up its rate for now."""
        if token.rate is None:
            return
        each_s = 60.0 / token.rate
        wait_s = _take(self.free_at_by_token, token.id, each_s, max(BURST_S, each_s))
        if wait_s:
            raise BusyError(f"{token.name} may make {token.rate:g} requests a minute.", wait_s)

    def count_rows(self, client: Client, n_rows: int) -> None:
        """Count opinions or items; BusyError where their giver has given too many for now."""
        if client.token is None or "admin" in client.allowed:
            return
        took_s = n_rows * 60.0 / self.rows_a_minute
        wait_s = _take(self.rows_free_at_by_token, client.token.id, took_s, 60.0)
        if wait_s:
            raise BusyError(
                f"{client.name} may give {self.rows_a_minute:g} opinions and items a minute.",
                wait_s,
            )


def _take(free_at: dict[str, float], token_id: str, took_s: float, burst_s: float) -> float:
    """Use some seconds of a token's time, and return 0; or how long until there are so many.

    Seconds that were not used are saved up to a burst.
    """
    now = time.monotonic()
    then = max(free_at.get(token_id, 0.0), now - burst_s) + took_s
    if then > now + 1e-9:
        return then - now
    free_at[token_id] = then
    return 0.0


async def serving(connection: HTTPConnection) -> Service:
    """The service that an app stands on."""
    service: Service = connection.app.state.service
    return service


def client_of(connection: HTTPConnection) -> Client | None:
    """Return who makes this request; None on an open path without a token."""
    client: Client | None = connection.scope.get("peerage.client", LOCAL)
    return client


def needs(scope: Scope) -> Callable[[HTTPConnection], Awaitable[Client]]:
    """A dependency that lets only clients of a scope through."""

    async def check(connection: HTTPConnection) -> Client:
        client = client_of(connection)
        if client is None or scope not in client.allowed:
            raise HTTPException(403, f"this needs a token of scope {scope!r}.")
        return client

    return check


Serving = Annotated[Service, Depends(serving)]
Reviewer = Annotated[Client, Depends(needs("review"))]
Runner = Annotated[Client, Depends(needs("run"))]
Admin = Annotated[Client, Depends(needs("admin"))]
READ, RUN, ADMIN = Depends(needs("read")), Depends(needs("run")), Depends(needs("admin"))


# -- a cookie for the pages: a token goes in once, and no script can read it afterwards -----------

router = APIRouter(include_in_schema=False)

MAX_FORM_BYTES = 10_000
MAX_COOKIE_CHARACTERS = 200  # of the one that is ours
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Peerage</title>
<meta name="viewport" content="width=device-width">
<link rel="stylesheet" href="/static/style.css"></head>
<body><main><h1>Peerage</h1>
<p class="aside">This server asks for a token. Whoever runs it makes one with
<code>peerage token create</code>.</p>
<form class="fields" method="post" action="/login"><label>Token
<input name="token" type="password" autocomplete="current-password" required></label>
<button>Enter</button></form></main></body></html>
"""
PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; form-action 'self'"
}


def cookie_in(headers: Headers) -> str:
    """Return the value of our cookie, or nothing.

    It is read by hand: the standard library's reader takes time quadratic in a hostile header.
    """
    for header in headers.getlist("cookie"):
        for pair in header.split(";"):
            name, _, value = pair.partition("=")
            if name.strip() == COOKIE and len(value) <= MAX_COOKIE_CHARACTERS:
                return value.strip().strip('"')
    return ""


@router.get("/login")
async def login_page() -> HTMLResponse:
    """A form that asks for a token."""
    return HTMLResponse(PAGE, headers=PAGE_HEADERS)


@router.post("/login")
async def log_in(request: Request) -> Response:
    """Take a token from the form, and begin a login: a cookie that only the server reads."""
    body = await request.body()
    text = body.decode("utf-8", "replace") if len(body) <= MAX_FORM_BYTES else ""
    token = parse_qs(text, max_num_fields=10).get("token", [""])[0].strip()
    book: TokenBook = request.app.state.token_book
    client = await book.client(token)
    if client is None or client.token is None:
        return problem(401, "unknown or expired token.")
    login = await book.log_in(client.token)
    response = RedirectResponse("/", status_code=303)
    secure = request.url.scheme == "https"
    response.set_cookie(
        COOKIE, login, max_age=LOGIN_S, httponly=True, samesite="strict", secure=secure
    )
    return response


@router.post("/logout")
async def log_out(request: Request) -> Response:
    """End the login, and have the browser forget its cookie."""
    await request.app.state.token_book.log_out(cookie_in(request.headers))
    response = RedirectResponse("/login", status_code=303)
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return response
