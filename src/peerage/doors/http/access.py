"""Access of clients: tokens, a login cookie for the pages, and scopes."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Request
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import RedirectResponse, Response

from peerage.service import BusyError, Service
from peerage.stores import AccessToken
from peerage.tokens import (
    ALLOWED_BY_SCOPE,
    LOGIN_S,
    Scope,
    allowed_actions,
    find_token,
    is_login,
    make_login,
    surplus_logins,
    token_of_login,
)

COOKIE = "peerage_login"
REFRESH_S = 1.0  # a revoked token is refused after this time at the latest
NEW_S = 0.1  # a new token is accepted after this time at the latest
BURST_S = 10.0  # a token may send the requests of this many seconds at once
ROWS_A_MINUTE = 1_000  # opinions and items that a token may post per minute, also all at once


@dataclass(frozen=True, slots=True)
class Client:
    """The caller of a request: a name for its reviews, and its permissions."""

    name: str
    allowed: frozenset[str]
    token: AccessToken | None = None  # None for a caller on this machine


LOCAL = Client("local", ALLOWED_BY_SCOPE["admin"])


def _client(token: AccessToken) -> Client:
    return Client(token.name, allowed_actions(token), token)


@dataclass(slots=True)
class TokenBook:
    """The tokens of a store, read again from time to time, and how much each was used."""

    service: Service
    tokens: list[AccessToken] = field(default_factory=list)
    read_at: float = float("-inf")
    rows_a_minute: float = ROWS_A_MINUTE
    free_at_by_token: dict[str, float] = field(default_factory=dict)
    rows_free_at_by_token: dict[str, float] = field(default_factory=dict)

    async def client(self, text: str) -> Client | None:
        """Return the client a token belongs to, or None if the token is unknown or expired."""
        token = await self._find_token(text, REFRESH_S) or await self._find_token(text, NEW_S)
        return None if token is None or is_login(token) else _client(token)

    async def client_of_login(self, text: str) -> Client | None:
        """Return the client of a login, or None if the login or its token has ended."""
        login = await self._find_token(text, REFRESH_S) or await self._find_token(text, NEW_S)
        token = None if login is None else token_of_login(login, self.tokens, self.service.clock())
        return None if token is None else _client(token)

    async def log_in(self, token: AccessToken) -> str:
        """Begin a login with a token, and return the value of the cookie."""
        now = self.service.clock()
        tokens = await self.service.read(self.service.store.tokens)
        for old in surplus_logins(token, tokens, now):
            await self.service.read(self.service.store.remove_token, old.id)
        text, login = make_login(token, now)
        await self.service.read(self.service.store.add_token, login)
        self.read_at = float("-inf")
        return text

    async def log_out(self, text: str) -> None:
        """End a login on every server that uses this store."""
        login = await self._find_token(text, NEW_S)
        if login is not None and is_login(login):
            await self.service.read(self.service.store.remove_token, login.id)
            self.read_at = float("-inf")

    async def _find_token(self, text: str, max_age_s: float) -> AccessToken | None:
        """Return the token with a text, or None; a list older than `max_age_s` is read again."""
        if time.monotonic() - self.read_at > max_age_s:
            self.tokens = await self.service.read(self.service.store.tokens)
            self.read_at = time.monotonic()
        return find_token(text, self.tokens)

    def count(self, token: AccessToken) -> None:
        """Count one request; raise BusyError if the token has used up its rate."""
        if token.rate is None:
            return
        each_s = 60.0 / token.rate
        wait_s = _take(self.free_at_by_token, token.id, each_s, max(BURST_S, each_s))
        if wait_s:
            raise BusyError(
                f"too many requests: {token.name} is limited to {token.rate:g} a minute.", wait_s
            )

    def count_rows(self, client: Client, n_rows: int) -> None:
        """Count opinions or items; raise BusyError if the client has posted too many."""
        if client.token is None or "admin" in client.allowed:
            return
        took_s = n_rows * 60.0 / self.rows_a_minute
        wait_s = _take(self.rows_free_at_by_token, client.token.id, took_s, 60.0)
        if wait_s:
            raise BusyError(
                f"{client.name} may post {self.rows_a_minute:g} opinions and items a minute.",
                wait_s,
            )


def _take(free_at: dict[str, float], token_id: str, took_s: float, burst_s: float) -> float:
    """Use `took_s` seconds of a token's time and return 0, or return the seconds to wait.

    Unused seconds are saved, up to `burst_s`.
    """
    now = time.monotonic()
    then = max(free_at.get(token_id, 0.0), now - burst_s) + took_s
    if then > now + 1e-9:
        return then - now
    free_at[token_id] = then
    return 0.0


async def get_service(connection: HTTPConnection) -> Service:
    """Return the service of an app."""
    service: Service = connection.app.state.service
    return service


def client_of(connection: HTTPConnection) -> Client | None:
    """Return the client of this request; None for a request without a token to an open path."""
    client: Client | None = connection.scope.get("peerage.client", LOCAL)
    return client


def require_scope(scope: Scope) -> Callable[[HTTPConnection], Awaitable[Client]]:
    """Return a dependency that admits only clients with a scope."""

    async def check(connection: HTTPConnection) -> Client:
        client = client_of(connection)
        if client is None or scope not in client.allowed:
            raise HTTPException(403, f"this request needs a token of scope {scope!r}.")
        return client

    return check


Serving = Annotated[Service, Depends(get_service)]
Reviewer = Annotated[Client, Depends(require_scope("review"))]
Runner = Annotated[Client, Depends(require_scope("run"))]
Admin = Annotated[Client, Depends(require_scope("admin"))]
READ, RUN = Depends(require_scope("read")), Depends(require_scope("run"))
ADMIN = Depends(require_scope("admin"))


# -- the login cookie of the pages ----------------------------------------------------------------

router = APIRouter(include_in_schema=False)

MAX_COOKIE_CHARACTERS = 200  # in the value of our own cookie
LANDINGS = (  # the first page of a client that may do this
    ("run", "/"),
    ("read", "/boards/models"),
    ("review", "/review"),
)


def landing(client: Client) -> str:
    """Return the first page for a client after login; for a reviewer, the page of ballots."""
    return next((path for action, path in LANDINGS if action in client.allowed), "/me")


def local_path(text: str) -> str:
    """Return a path of this server, or an empty string for any other address."""
    is_path = text.startswith("/") and not text.startswith(("//", "/\\"))
    return text if is_path and text.isprintable() and "\\" not in text else ""


def cookie_in(headers: Headers) -> str:
    """Return the value of our cookie, or an empty string.

    The standard library's parser is not used: it takes quadratic time on a hostile header.
    """
    for header in headers.getlist("cookie"):
        for pair in header.split(";"):
            name, _, value = pair.partition("=")
            if name.strip() == COOKIE and len(value) <= MAX_COOKIE_CHARACTERS:
                return value.strip().strip('"')
    return ""


async def begin_login(request: Request, token: AccessToken, to: str = "") -> Response:
    """Log in a token's owner with a cookie that scripts cannot read, and redirect to a page."""
    book: TokenBook = request.app.state.token_book
    login = await book.log_in(token)
    response = RedirectResponse(local_path(to) or landing(_client(token)), status_code=303)
    # Lax: a user who follows a link from a mail stays logged in. Changes need this site's Origin.
    secure = request.url.scheme == "https"
    response.set_cookie(
        COOKIE, login, max_age=LOGIN_S, httponly=True, samesite="lax", secure=secure
    )
    return response


@router.post("/logout")
async def log_out(request: Request) -> Response:
    """End the login and delete its cookie."""
    await request.app.state.token_book.log_out(cookie_in(request.headers))
    response = RedirectResponse("/login", status_code=303)
    response.delete_cookie(COOKIE, httponly=True, samesite="lax")
    return response


@router.get("/api/me", include_in_schema=True, tags=["operations"])
async def who_am_i(request: Request) -> dict[str, Any]:
    """Return the name and the permissions of the caller."""
    client = client_of(request)
    if client is None:
        raise HTTPException(401, "unknown or expired token.")
    return {"name": client.name, "may": sorted(client.allowed)}
