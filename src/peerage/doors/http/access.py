"""Who may do what: the client behind a request, and the scopes that a route asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import Depends, HTTPException
from starlette.requests import HTTPConnection

from peerage.service import Service

Scope = Literal["read", "review", "run", "admin"]

# What a token of a scope may do. A reviewer may not read: a session says whose the answers are.
ALLOWED_BY_SCOPE: Mapping[str, frozenset[str]] = {
    "read": frozenset({"read"}),
    "review": frozenset({"review"}),
    "run": frozenset({"read", "run"}),
    "admin": frozenset({"read", "review", "run", "admin"}),
}


@dataclass(frozen=True, slots=True)
class Client:
    """Who makes a request: a name that reviews are given under, and what it may do."""

    name: str
    allowed: frozenset[str]
    token_id: str = ""  # "" for whoever is at this machine


LOCAL = Client("local", ALLOWED_BY_SCOPE["admin"])


def serving(connection: HTTPConnection) -> Service:
    """The service that an app stands on."""
    service: Service = connection.app.state.service
    return service


def client_of(connection: HTTPConnection) -> Client:
    """Who makes this request, as the gate in front of all routes found out."""
    client: Client = connection.scope.get("peerage.client", LOCAL)
    return client


def needs(scope: Scope) -> Callable[[HTTPConnection], Client]:
    """A dependency that lets only clients of a scope through."""

    def check(connection: HTTPConnection) -> Client:
        client = client_of(connection)
        if scope not in client.allowed:
            raise HTTPException(403, f"this needs a token of scope {scope!r}.")
        return client

    return check


Serving = Annotated[Service, Depends(serving)]
READ, RUN = Depends(needs("read")), Depends(needs("run"))
