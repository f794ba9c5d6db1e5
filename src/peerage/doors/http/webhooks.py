"""Signed messages to configured addresses when a session has ended.

A receiver checks the header `Peerage-Signature: t=TIME,v1=HEX`, where HEX is the HMAC-SHA256 of
"TIME.BODY" with the shared secret. A message that is not accepted is sent again a few times, with
growing pauses and the same `Peerage-Delivery`. Redirects are not followed, and messages go to
private addresses only if the settings allow that.

Messages are stored when their session begins, so any process can send them, also after a crash. A
message may arrive twice but is not lost.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import json
import logging
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from aiohttp import ThreadedResolver
from aiohttp.abc import ResolveResult

from peerage.errors import PeerageError, UsageError
from peerage.events import read_event
from peerage.service import Service, is_finished
from peerage.stores import StoreError
from peerage.tasks import end
from peerage.types import Event
from peerage.view import SessionView

log = logging.getLogger(__name__)

WAITS_S = (1.0, 5.0, 25.0, 125.0)  # before each further try
TIMEOUT_S = 10.0
END_S = 2.0  # time to send messages when the server stops
CLAIM_S = 30.0  # in this time no other process sends the same message
LOOK_EVERY_S = 15.0  # how often to look for messages that another process should have sent
AT_ONCE = 16
MIN_SECRET_CHARACTERS = 16


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """Addresses, the shared secret, and whether private networks are allowed."""

    urls: tuple[str, ...]
    secret: str
    allow_private: bool = False

    def __post_init__(self) -> None:
        for parts in map(urlsplit, self.urls):
            if parts.scheme not in ("http", "https") or not parts.hostname:
                hint = "Write https://host/path."
                raise UsageError("a webhook must be an http or https address.", hint=hint)
            if parts.username or parts.password:
                hint = "Messages are signed instead."
                raise UsageError("the address of a webhook cannot contain a password.", hint=hint)
        if self.urls and len(self.secret) < MIN_SECRET_CHARACTERS:
            raise UsageError(
                f"a webhook needs a secret of at least {MIN_SECRET_CHARACTERS} characters.",
                hint="Set the variable WEBHOOK_SECRET.",
            )


class PrivateAddressError(OSError):
    """A host name that resolves to a private network."""


def is_public(address: str) -> bool:
    """Return whether an IP address is public; raise ValueError for a host name."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    mapped = getattr(ip, "ipv4_mapped", None)
    return (mapped or ip).is_global and not ip.is_multicast


class PublicResolver(ThreadedResolver):
    """Resolves host names to public addresses only."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        addresses = await super().resolve(host, port, family)
        if not all(is_public(one["host"]) for one in addresses):
            raise PrivateAddressError(f"{host} is in a private network")
        return addresses


class Webhooks:
    """Sends a message for every session that ends; an observer of a service's events."""

    def __init__(
        self,
        settings: WebhookSettings,
        service: Service,
        waits_s: tuple[float, ...] = WAITS_S,
        public_url: str = "",
    ) -> None:
        self.settings, self.service, self.waits_s = settings, service, waits_s
        self.public_url = public_url  # the URL with which links to this server begin
        self.url_by_target = {_digest(url): url for url in settings.urls}  # a URL may be secret
        self._noted: set[str] = set()  # running sessions whose messages are in the store
        self._notes: set[asyncio.Future[None]] = set()  # messages being stored
        self._wake = asyncio.Event()
        self._sender: asyncio.Task[None] | None = None
        self._closing = False
        self._session: aiohttp.ClientSession | None = None

    def see(self, event: Event) -> None:
        """Store the messages of a new session, and send them when it has ended."""
        id_ = event.session_id
        if id_ not in self._noted:
            self._noted.add(id_)
            noted = self.service.store.owe_webhooks(id_, tuple(self.url_by_target))
            self._notes.add(noted)
            noted.add_done_callback(self._after_storing)
        if is_finished(event):
            self._noted.discard(id_)
            self._wake.set()

    def _after_storing(self, noted: asyncio.Future[None]) -> None:
        self._notes.discard(noted)
        if not noted.cancelled() and (error := noted.exception()) is not None:
            log.warning("webhook not stored: %s", error)
        self._wake.set()

    def start(self) -> None:
        """Start to send messages when they are due."""
        self._sender = asyncio.create_task(self._keep_sending())

    async def close(self, grace_s: float = END_S) -> None:
        """Send due messages for a short time, then stop; the rest is sent after the next start."""
        if self._notes:
            await asyncio.wait(self._notes, timeout=grace_s)
        self._closing = True
        self._wake.set()
        if self._sender is not None:
            await asyncio.wait([self._sender], timeout=grace_s)
            await end([self._sender])
        if self._session is not None:
            await self._session.close()

    async def _keep_sending(self) -> None:
        while True:
            self._wake.clear()
            try:
                due = await self.service.read(
                    self.service.store.claim_webhooks, tuple(self.url_by_target), AT_ONCE, CLAIM_S
                )
                await asyncio.gather(*(self._send(*one) for one in due))
            except StoreError as error:
                log.warning("webhooks are delayed: %s", error)
                due = []
            if due:
                continue
            if self._closing:
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), LOOK_EVERY_S)

    async def _send(self, session_id: str, target: str, n_tries: int) -> None:
        """Try once to send a message; after a failure, schedule another try or give up."""
        url, about = self.url_by_target[target], {"session": session_id}
        again_s = self.waits_s[n_tries] if n_tries < len(self.waits_s) else None
        try:
            document = await self.service.read(_document, self.service, session_id, self.public_url)
            status = await self._post(url, json.dumps(document).encode(), _digest(url, document))
            why = f"HTTP {status}"
        except PrivateAddressError as error:
            status, why, again_s = 0, str(error), None
        except (aiohttp.ClientError, OSError, TimeoutError, PeerageError) as error:
            status, why = 0, type(error).__name__
        if 200 <= status < 300:
            again_s = None
        elif again_s is None:
            log.warning("webhook not accepted (%s)", why, extra=about)
        else:
            asyncio.get_running_loop().call_later(again_s, self._wake.set)
        await self.service.read(self.service.store.settle_webhook, session_id, target, again_s)

    async def _post(self, url: str, body: bytes, delivery: str) -> int:
        host = urlsplit(url).hostname or ""
        with suppress(ValueError):  # a host name: its addresses are checked when it is resolved
            if not self.settings.allow_private and not is_public(host):
                raise PrivateAddressError(f"{host} is in a private network")
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "peerage",
            "Peerage-Delivery": delivery,
            "Peerage-Signature": signature(self.settings.secret, int(time.time()), body),
        }
        if self._session is None:
            resolver = None if self.settings.allow_private else PublicResolver()
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(resolver=resolver),
                timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
                trust_env=False,
            )
        posted = self._session.post(url, data=body, headers=headers, allow_redirects=False)
        async with posted as response:
            return response.status


def signature(secret: str, at: int, body: bytes) -> str:
    """Return the signature header for a message that is sent at the time `at`."""
    digest = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"


def _document(service: Service, session_id: str, public_url: str) -> dict[str, Any]:
    """Return the message about a finished session: how it ended, its verdict, winner and link."""
    events = service.store.events(session_id)
    last = max(filter(is_finished, events), key=lambda event: event.seq)
    fact, view = read_event(last), SessionView.of(events, service.settings)
    ended = {name: getattr(fact, name) for name in ("status", "cost_usd", "unpriced_calls")}
    verdict, best = view.session.verdict, [s.model for s in view.session.scores if s.rank == 1]
    names = ("kind", "text", "by", "approved", "note")
    return {
        "type": "session.finished",
        "session": session_id,
        "url": f"{public_url.rstrip('/')}/sessions/{session_id}",
        **ended,
        "at": last.at,
        "query": view.query.text,
        "category": view.query.category,
        "verdict": {name: getattr(verdict, name) for name in names} if verdict else None,
        "winner": ", ".join(best),  # several names for a tie
    }


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
