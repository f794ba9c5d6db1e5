"""Tasks that end together: nothing runs on after its owner, and no error goes unheard."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")

INLINE_CHARACTERS = 8_000  # of text that is read in well under a millisecond


async def finish(work: Awaitable[T]) -> T:
    """The result of work that is not cancelled with this task; its cancellation waits for it."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    result = task.result()
    if cancelled is not None:
        raise cancelled
    return result


async def end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel what still runs, and come back when all of it has ended and its errors were seen."""
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await finish(asyncio.gather(*tasks, return_exceptions=True))


async def together(jobs: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results of coroutines run at once; if one raises, the others are cancelled first."""
    tasks = [asyncio.create_task(job) for job in jobs]
    try:
        return await asyncio.gather(*tasks)
    finally:
        await end(tasks)


async def read_aside(read: Callable[[], T], n_characters: int) -> T:
    """What a pure function gives; over a long text it runs in a thread, and the loop goes on."""
    return read() if n_characters <= INLINE_CHARACTERS else await asyncio.to_thread(read)
