"""Clients of OpenAI's routes: keys of repeated requests, and disconnected clients."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable
from typing import TypeVar

from starlette.requests import Request

from peerage.doors.http.access import client_of
from peerage.doors.running_calls import CallKey
from peerage.tasks import end

T = TypeVar("T")

MAX_KEY_CHARACTERS = 200


async def call_key(request: Request) -> CallKey:
    """Return the key of a request: its `Idempotency-Key`, or its client and content."""
    client = client_of(request)
    given = request.headers.get("idempotency-key", "")[:MAX_KEY_CHARACTERS]
    digest = hashlib.sha256(await request.body()).hexdigest()
    owner = client.token.id if client and client.token else ""
    return CallKey(f"{owner}|{request.url.path}|{given or digest}", digest, bool(given))


async def unless_gone(request: Request, work: Awaitable[T]) -> T | None:
    """Return the result of some work, or None if the client disconnects first."""
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
