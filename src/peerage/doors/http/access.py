"""Who makes a request, and what they may do: tokens, a cookie for the pages, and scopes."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Annotated
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, HTTPException, Request
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, RedirectResponse, Response

from peerage.doors.http.problems import problem
from peerage.service import BusyError, Service
from peerage.stores import AccessToken
from peerage.tokens import ALLOWED_BY_SCOPE, Scope, allowed, matching

COOKIE = "peerage_token"
REFRESH_S = 1.0  # a token that was revoked opens nothing after so long
NEW_S = 0.1  # and one that was made just now is known after so long
BURST_S = 10.0  # of a token's rate may be used at once


@dataclass(frozen=True, slots=True)
class Client:
    """Who makes a request: a name that reviews are given under, and what it may do."""

    name: str
    allowed: frozenset[str]
    token: AccessToken | None = None  # None for whoever is at this machine


LOCAL = Client("local", ALLOWED_BY_SCOPE["admin"])


@dataclass(slots=True)
class TokenBook:
    """The tokens of a store, read again now and then, and how often each is used."""

    service: Service
    tokens: list[AccessToken] = field(default_factory=list)
    read_at: float = float("-inf")
    free_at_by_token: dict[str, float] = field(default_factory=dict)

    async def client(self, text: str) -> Client | None:
        """The client that a token makes; None where it opens nothing."""
        token = await self._matching(text, REFRESH_S) or await self._matching(text, NEW_S)
        return None if token is None else Client(token.name, allowed(token), token)

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
        now, each_s = time.monotonic(), 60.0 / token.rate
        free_at = max(self.free_at_by_token.get(token.id, 0.0), now - max(BURST_S, each_s))
        if free_at + each_s > now + 1e-9:
            raise BusyError(
                f"{token.name} may make {token.rate:g} requests a minute.", free_at + each_s - now
            )
        self.free_at_by_token[token.id] = free_at + each_s


async def serving(connection: HTTPConnection) -> Service:
    """The service that an app stands on."""
    service: Service = connection.app.state.service
    return service


def client_of(connection: HTTPConnection) -> Client:
    """Who makes this request, as the gate in front of all routes found out."""
    client: Client = connection.scope.get("peerage.client", LOCAL)
    return client


def needs(scope: Scope) -> Callable[[HTTPConnection], Awaitable[Client]]:
    """A dependency that lets only clients of a scope through."""

    async def check(connection: HTTPConnection) -> Client:
        client = client_of(connection)
        if scope not in client.allowed:
            raise HTTPException(403, f"this needs a token of scope {scope!r}.")
        return client

    return check


Serving = Annotated[Service, Depends(serving)]
Reviewer = Annotated[Client, Depends(needs("review"))]
READ, RUN, ADMIN = Depends(needs("read")), Depends(needs("run")), Depends(needs("admin"))


# -- a cookie for the pages: a token goes in once, and no script can read it afterwards -----------

router = APIRouter(include_in_schema=False)

KEPT_FOR_S = 30 * 86_400
MAX_FORM_BYTES = 10_000
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


@router.get("/login")
async def login_page() -> HTMLResponse:
    """A form that asks for a token."""
    return HTMLResponse(PAGE, headers=PAGE_HEADERS)


@router.post("/login")
async def log_in(request: Request) -> Response:
    """Take a token from the form, and give it back as a cookie that only the server reads."""
    body = await request.body()
    text = body.decode("utf-8", "replace") if len(body) <= MAX_FORM_BYTES else ""
    token = parse_qs(text, max_num_fields=10).get("token", [""])[0].strip()
    client = await request.app.state.token_book.client(token)
    if client is None:
        return problem(401, "this token is not good.")
    response = RedirectResponse("/", status_code=303)
    secure = request.url.scheme == "https"
    response.set_cookie(
        COOKIE, token, max_age=KEPT_FOR_S, httponly=True, samesite="strict", secure=secure
    )
    return response


@router.post("/logout")
async def log_out() -> Response:
    """Forget the cookie."""
    response = RedirectResponse("/login", status_code=303)
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return response
