"""Sessions that clients wait for: a repeated call joins the running session; abandoned ones end.

Clients repeat a call that timed out. If the repeated call has the same key, or is the same request
by the same client within a few seconds after the first call ended, it gets the session that is
already running, so the session is paid for only once. OpenAI's routes and MCP's tools use this.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from peerage.service import Service
from peerage.tasks import end, finish

GRACE_S = 9.0  # how long a client may take to repeat a call; OpenAI's libraries wait up to 8 s
KEPT_S = 600.0  # how long a repeated key leads to the same session
MAX_KEYS = 1_000


@dataclass(frozen=True, slots=True)
class CallKey:
    """Identifies a call and its repetitions."""

    key: str
    digest: str  # of the request
    is_given: bool = False  # the client chose the key


@dataclass(eq=False)
class WaitedSession:
    """A session that was started for a call, and the number of clients that wait for it."""

    call: CallKey
    started: asyncio.Future[str]  # the id, once the session is in the log
    at: float
    runs_on: bool  # the session continues when no client waits for it
    n_waiting: int = 1
    ending: asyncio.Task[None] | None = None  # ends the session if no client comes back

    @property
    def id(self) -> str:
        return self.started.result()

    @property
    def has_failed(self) -> bool:
        started = self.started
        return started.done() and (started.cancelled() or started.exception() is not None)


class RunningCalls:
    """The sessions that were started for calls to one server, by the keys of the calls."""

    def __init__(self, service: Service, grace_s: float = GRACE_S) -> None:
        self.service, self.grace_s = service, grace_s
        self._by_key: dict[str, WaitedSession] = {}

    def is_reused(self, call: CallKey) -> bool:
        """Return whether the key of a call was also sent with another request."""
        waited = self._by_key.get(call.key)
        return waited is not None and waited.call.digest != call.digest

    async def join(
        self, call: CallKey, start: Callable[[], Awaitable[str]], *, runs_on: bool = False
    ) -> WaitedSession:
        """Start a session, or join the session of the call that this one repeats.

        Call `leave` when the client no longer waits.
        """
        waited = self._by_key.get(call.key)
        # Without a key from the client, an equal request is new if a client waits for the first.
        if waited is None or waited.has_failed or not (call.is_given or waited.ending):
            started = asyncio.ensure_future(start())
            waited = WaitedSession(call, started, time.monotonic(), runs_on)
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

    def leave(self, waited: WaitedSession, *, at_once: bool = False, runs_on: bool = False) -> None:
        """Stop waiting for a session; if no other client waits, it ends after the grace period.

        With `runs_on` the session continues although no client waits for it.
        """
        waited.n_waiting -= 1
        waited.runs_on = waited.runs_on or runs_on
        if waited.n_waiting:
            return
        if waited.has_failed:
            self._forget(waited)
        elif not waited.runs_on:
            grace_s = 0.0 if at_once else self.grace_s
            waited.ending = asyncio.create_task(self._end(waited, grace_s))

    async def close(self) -> None:
        """Cancel the timers that would end sessions; the service ends those that still run."""
        await end(one.ending for one in self._by_key.values() if one.ending is not None)

    async def _end(self, waited: WaitedSession, grace_s: float) -> None:
        """End a session that no client waits for; a finished one stays known by its key."""
        id_ = await asyncio.shield(waited.started)
        if self.service.hosts(id_):
            await asyncio.sleep(grace_s)
        waited.ending = None
        if self.service.hosts(id_):
            self._forget(waited)
            await finish(self.service.cancel(id_))

    def _keep(self, waited: WaitedSession) -> None:
        """Store a session under its key; the oldest ones without waiting clients are dropped."""
        self._by_key.pop(waited.call.key, None)
        self._by_key[waited.call.key] = waited
        for key, old in list(self._by_key.items()):
            is_old = waited.at - old.at > KEPT_S
            if not is_old and len(self._by_key) <= MAX_KEYS:
                break
            if not old.n_waiting and old.ending is None:
                del self._by_key[key]

    def _forget(self, waited: WaitedSession) -> None:
        if self._by_key.get(waited.call.key) is waited:
            del self._by_key[waited.call.key]
