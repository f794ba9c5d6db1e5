"""Signed messages to addresses of the operator's choosing, when a session is over.

A receiver checks `Peerage-Signature: t=TIME,v1=HEX`, the HMAC-SHA256 of "TIME.BODY" under the
shared secret. What is not taken is sent again a few times, later each time, with the same
`Peerage-Delivery`. No redirect is followed, and no private address is reached unless allowed.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import json
import logging
import secrets
import socket
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import DefaultResolver

from peerage.errors import UsageError
from peerage.events import Finished, read_event
from peerage.service import is_finished
from peerage.tasks import end
from peerage.types import Event

log = logging.getLogger(__name__)

WAITS_S = (1.0, 5.0, 25.0, 125.0)  # before each further try
TIMEOUT_S = 10.0
END_S = 2.0  # for what is on its way when the server stops
MIN_SECRET_CHARACTERS = 16


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """Where to, under which secret, and whether into private networks."""

    urls: tuple[str, ...]
    secret: str
    allow_private: bool = False

    def __post_init__(self) -> None:
        for url in self.urls:
            _check_url(url)
        if self.urls and len(self.secret) < MIN_SECRET_CHARACTERS:
            raise UsageError(
                f"a webhook needs a secret of at least {MIN_SECRET_CHARACTERS} characters.",
                hint="Set the variable WEBHOOK_SECRET.",
            )


class PrivateAddressError(OSError):
    """A name that leads into a private network."""


def is_public(address: str) -> bool:
    """Whether an address is reached over the internet."""
    found = ipaddress.ip_address(address.partition("%")[0])
    mapped = getattr(found, "ipv4_mapped", None)
    return (mapped or found).is_global and not found.is_multicast


class PublicResolver(AbstractResolver):
    """Looks names up and gives public addresses only, to connect to exactly those."""

    def __init__(self) -> None:
        self._inner = DefaultResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._inner.resolve(host, port, family)
        if not all(is_public(one["host"]) for one in found):
            raise PrivateAddressError(f"{host} is in a private network")
        return found

    async def close(self) -> None:
        await self._inner.close()


class Webhooks:
    """Sends a message for every session that ends; an observer of a service's events."""

    def __init__(self, settings: WebhookSettings, waits_s: tuple[float, ...] = WAITS_S) -> None:
        self.settings = settings
        self.waits_s = waits_s
        self._tasks: set[asyncio.Task[None]] = set()
        self._session: aiohttp.ClientSession | None = None

    def see(self, event: Event) -> None:
        """Send word of a session's end."""
        fact = read_event(event) if is_finished(event) else None
        if not isinstance(fact, Finished):
            return
        document = {
            "type": "session.finished",
            "session": event.session_id,
            "status": fact.status,
            "cost_usd": fact.cost_usd,
            "unpriced_calls": fact.unpriced_calls,
            "at": event.at,
        }
        for url in self.settings.urls:
            task = asyncio.create_task(self._deliver(url, document))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Give what is on its way a moment, then end."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=END_S)
        await end(list(self._tasks))
        if self._session is not None:
            await self._session.close()

    async def _deliver(self, url: str, document: dict[str, Any]) -> None:
        delivery, about = secrets.token_hex(8), {"session": document["session"]}
        body = json.dumps(document).encode()
        for wait_s in (*self.waits_s, None):
            try:
                status = await self._post(url, body, delivery)
            except PrivateAddressError as error:
                log.warning("webhook refused: %s", error, extra=about)
                return
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                status, why = 0, type(error).__name__
            else:
                why = f"HTTP {status}"
            if 200 <= status < 300:
                return
            if wait_s is not None:
                await asyncio.sleep(wait_s)
        log.warning("webhook not taken (%s)", why, extra=about)

    async def _post(self, url: str, body: bytes, delivery: str) -> int:
        host = urlsplit(url).hostname or ""
        if not self.settings.allow_private and _is_address(host) and not is_public(host):
            raise PrivateAddressError(f"{host} is in a private network")
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "peerage",
            "Peerage-Delivery": delivery,
            "Peerage-Signature": signature(self.settings.secret, int(time.time()), body),
        }
        async with self._client().post(
            url, data=body, headers=headers, allow_redirects=False
        ) as response:
            return response.status

    def _client(self) -> aiohttp.ClientSession:
        if self._session is None:
            resolver = None if self.settings.allow_private else PublicResolver()
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(resolver=resolver),
                timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
                trust_env=False,
            )
        return self._session


def signature(secret: str, at: int, body: bytes) -> str:
    """The signature header of a message sent at a time."""
    digest = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError("a webhook is an http or https address.", hint="As https://host/path.")
    if parts.username or parts.password:
        raise UsageError("a webhook's address holds no password.", hint="It is signed instead.")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True
