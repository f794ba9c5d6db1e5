"""Pages of other origins: which of their requests are refused, and the headers of every response.

A browser says in `Sec-Fetch-Site` where a request comes from; older ones send only an `Origin`.
A page of another origin may lead a person to a page of this server, and may do no more, unless the
operator has named its origin.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware

from peerage.errors import UsageError, shown

OWN_SITES = ("same-origin", "none")  # none: a person typed the address or opened a bookmark
READING = ("GET", "HEAD")
# Addresses for programs; all others are pages, to which other sites may link.
PROGRAM_PATHS = ("/api/", "/v1/", "/mcp", "/metrics", "/readyz", "/openapi.json", "/docs")
ORIGIN = re.compile(r"https?://([a-z0-9.-]+|\[[0-9a-f:.]+\])(:\d{1,5})?")
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
EXPOSED = ("Location", "ETag", "Retry-After")  # headers that a named origin's scripts may read

# Every response has each of these headers once. A route may replace a value: a page has its own
# policy. The referrer is kept on this server, where a form needs it: browsers send `Origin: null`
# with forms of pages that send no referrer at all.
SECURITY_HEADERS = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
}
_PAIRS = tuple((name.encode(), value.encode()) for name, value in SECURITY_HEADERS.items())


def with_security_headers(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the headers of a response with those of the table that it does not have."""
    headers = list(headers)
    given = {name.lower() for name, _ in headers}
    return [*headers, *(pair for pair in _PAIRS if pair[0] not in given)]


def is_foreign(headers: Headers) -> bool:
    """Return whether a page of another origin sent a request, by what its browser says."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site not in OWN_SITES
    origin = headers.get("origin")
    return origin is not None and origin.partition("://")[2] != headers.get("host", "")


def is_named(headers: Headers, origins: Collection[str]) -> bool:
    """Return whether a request comes from an origin that the operator has named."""
    return headers.get("origin", "") in origins


def opens_a_page(method: str, path: str, headers: Headers) -> bool:
    """Return whether a request takes a browser's tab to a page, as a link to it does."""
    return (
        method in READING
        and headers.get("sec-fetch-mode") == "navigate"
        and headers.get("sec-fetch-dest") == "document"
        and not path.startswith(PROGRAM_PATHS)
    )


def read_origins(origins: Iterable[str]) -> tuple[str, ...]:
    """Return origins in the form in which browsers send them; refuse what is not an origin."""
    read = []
    for text in origins:
        origin = text.strip().lower().removesuffix("/")
        if not ORIGIN.fullmatch(origin):
            raise UsageError(
                f"{shown(text)} is not an origin, so no page of it can be allowed.",
                hint="As in https://app.example or http://127.0.0.1:3000.",
            )
        scheme, _, host = origin.partition("://")
        port = {"http": ":80", "https": ":443"}[scheme]
        read.append(f"{scheme}://{host.removesuffix(port)}")
    return tuple(dict.fromkeys(read))


def let_pages_read(app: FastAPI, origins: Sequence[str]) -> None:
    """Let scripts of these origins read responses; without an origin, no script of others may."""
    if origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(origins),
            allow_methods=list(METHODS),
            allow_headers=["*"],
            expose_headers=list(EXPOSED),
        )
