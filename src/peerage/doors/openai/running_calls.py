"""Sessions that OpenAI clients wait for: retries join them, and abandoned ones end.

Clients repeat a call that timed out. Where the repetition carries the same `Idempotency-Key`, or is
the same request of the same client within a few seconds after the first one was given up, it gets
the session that runs already, which is paid for once.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from starlette.requests import Request

from peerage.doors.http.access import client_of
from peerage.doors.http.problems import UnsupportedError
from peerage.service import Service
from peerage.tasks import end, finish

T = TypeVar("T")

GRACE_S = 5.0  # in which a client that hung up may come back
KEPT_S = 600.0  # a key stands for its session for so long
MAX_KEYS = 1_000
MAX_KEY_CHARACTERS = 200


@dataclass(eq=False)
class WaitedSession:
    """A session that was started for a call, and how many clients wait for it."""

    key: str
    digest: str  # of the request
    started: asyncio.Future[str]  # the id, once the session is in the log
    at: float
    runs_on: bool  # also where nobody waits
    n_waiting: int = 1
    ending: asyncio.Task[None] | None = None  # counts down to its end while nobody waits

    @property
    def id(self) -> str:
        return self.started.result()

    @property
    def has_failed(self) -> bool:
        started = self.started
        return started.done() and (started.cancelled() or started.exception() is not None)


class RunningCalls:
    """The sessions of the calls of one server, by what a repetition of a call is known by."""

    def __init__(self, service: Service, grace_s: float = GRACE_S) -> None:
        self.service, self.grace_s = service, grace_s
        self._by_key: dict[str, WaitedSession] = {}

    async def join(
        self, request: Request, start: Callable[[], Awaitable[str]], *, runs_on: bool = False
    ) -> WaitedSession:
        """Start a session, or wait for the one that this request repeats; `leave` it afterwards."""
        key, is_given, digest = await _key_of(request)
        waited = self._by_key.get(key)
        if waited is not None and waited.digest != digest:
            raise UnsupportedError(
                "this Idempotency-Key was sent with another request.",
                param="Idempotency-Key",
                code="idempotency_key_reused",
                hint="Send a new key with a new request.",
            )
        # Without a key, a request that comes while its twin is still waited for is another one.
        if waited is None or waited.has_failed or not (is_given or waited.ending):
            started = asyncio.ensure_future(start())
            waited = WaitedSession(key, digest, started, time.monotonic(), runs_on)
            self._keep(waited)
        else:
            waited.n_waiting += 1
            if waited.ending is not None:
                waited.ending.cancel()
                waited.ending = None
        try:
            await asyncio.shield(waited.started)
        except BaseException:
            self.leave(waited)
            raise
        return waited

    def leave(self, waited: WaitedSession, *, at_once: bool = False) -> None:
        """Wait for a session no longer; where nobody else does, it ends after the grace."""
        waited.n_waiting -= 1
        if waited.n_waiting:
            return
        if waited.has_failed:
            self._forget(waited)
        elif not waited.runs_on:
            grace_s = 0.0 if at_once else self.grace_s
            waited.ending = asyncio.create_task(self._end(waited, grace_s))

    async def close(self) -> None:
        """Stop counting down; the service ends the sessions that still run."""
        await end(one.ending for one in self._by_key.values() if one.ending is not None)

    async def _end(self, waited: WaitedSession, grace_s: float) -> None:
        """End a session that nobody has come back for; one that is over stays known by its key."""
        id_ = await asyncio.shield(waited.started)
        if self.service.hosts(id_):
            await asyncio.sleep(grace_s)
        waited.ending = None
        if self.service.hosts(id_):
            self._forget(waited)
            await finish(self.service.cancel(id_))

    def _keep(self, waited: WaitedSession) -> None:
        """Keep a session under its key; the oldest that nobody waits for make room."""
        self._by_key.pop(waited.key, None)
        self._by_key[waited.key] = waited
        for key, old in list(self._by_key.items()):
            is_old = waited.at - old.at > KEPT_S
            if not is_old and len(self._by_key) <= MAX_KEYS:
                break
            if not old.n_waiting and old.ending is None:
                del self._by_key[key]

    def _forget(self, waited: WaitedSession) -> None:
        if self._by_key.get(waited.key) is waited:
            del self._by_key[waited.key]


async def _key_of(request: Request) -> tuple[str, bool, str]:
    """Return what a repetition of this request is known by, whether the client chose it, and
    the digest of the request.
    """
    client = client_of(request)
    given = request.headers.get("idempotency-key", "")[:MAX_KEY_CHARACTERS]
    digest = hashlib.sha256(await request.body()).hexdigest()
    owner = client.token.id if client and client.token else ""
    return f"{owner}|{request.url.path}|{given or digest}", bool(given), digest


async def unless_gone(request: Request, work: Awaitable[T]) -> T | None:
    """Return what some work comes to, or None where the client hangs up first."""
    task: asyncio.Task[T] = asyncio.ensure_future(work)
    gone = asyncio.create_task(_hung_up(request))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        return await task if task.done() else None
    finally:
        await end((task, gone))


async def _hung_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
