"""Who makes a request, and what they may do: the dependencies that routes ask with."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, HTTPException
from starlette.requests import HTTPConnection

from peerage.service import BusyError, Service
from peerage.stores import AccessToken
from peerage.tokens import ALLOWED_BY_SCOPE, Scope, allowed, matching

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
