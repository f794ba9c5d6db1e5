"""Connections of the server: limits on their number and on the time of incomplete requests.

Uvicorn alone would wait for ever for the rest of a request.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    from starlette.types import ASGIApp

LOOPBACK = ("127.0.0.0/8", "::1/128")
CONNECTIONS_END_S = 5  # time to close connections after the sessions have ended
IPV6_NETWORK_BITS = 64  # one client may have all addresses of such a network
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
    """A connection that is closed if a request takes too long or there are too many."""

    limits: ConnectionLimits
    n_by_client: Counter[str]  # of one server
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

        While a request is handled, the app limits the time of its body. Between two requests
        uvicorn has its own clock, which the first byte of the next request stops.
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
