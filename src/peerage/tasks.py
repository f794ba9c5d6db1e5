"""Tasks that run together: no task outlives its starter, and every error is raised."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

INLINE_CHARACTERS = 8_000  # a text of this length is read in well under a millisecond


async def finish(work: Awaitable[T]) -> T:
    """Await `work` to its end even if this task is cancelled; then raise the cancellation."""
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
    """Cancel the tasks and return when all have ended."""
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await finish(asyncio.gather(*tasks, return_exceptions=True))


async def together(jobs: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run coroutines concurrently and return their results; if one raises, cancel the others."""
    tasks = [asyncio.create_task(job) for job in jobs]
    try:
        return await asyncio.gather(*tasks)
    finally:
        await end(tasks)


async def in_batches(stream: AsyncIterator[T], every_s: float) -> AsyncGenerator[list[T], None]:
    """Yield new values of a stream as lists, and an empty list after `every_s` s of silence."""
    values: deque[T] = deque()
    arrived = asyncio.Event()

    async def take() -> None:
        async for value in stream:
            values.append(value)
            arrived.set()

    taking = asyncio.create_task(take())
    taking.add_done_callback(lambda _: arrived.set())
    try:
        while values or not taking.done():
            if not values:
                arrived.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(every_s):
                        await arrived.wait()
            if values or not taking.done():
                batch = list(values)
                values.clear()
                yield batch
        await taking
    finally:
        await end([taking])
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()


class Signal:
    """Wakes all tasks that wait for the next change."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def wake(self) -> None:
        """Wake all waiting tasks."""
        self._event.set()
        self._event = asyncio.Event()

    async def wait(self, within_s: float | None = None) -> bool:
        """Wait for the next change or until the timeout; return whether there was a change."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                return await self._event.wait()
        return False


async def with_pauses(stream: AsyncIterator[T], every_s: float) -> AsyncGenerator[T | None, None]:
    """Yield the values of a stream, and None after each silence of `every_s` seconds."""
    async with aclosing(in_batches(stream, every_s)) as batches:
        async for batch in batches:
            for value in batch or (None,):
                yield value


async def in_turn(compute: Callable[[], T]) -> T:
    """Call a slow pure function; at most one such call runs per round of the event loop.

    If several sessions reach the same step together, they do not block the loop for all others.
    """
    loop = asyncio.get_running_loop()
    async with _turns.setdefault(loop, asyncio.Lock()):
        result = compute()
        await asyncio.sleep(0)  # the next call runs in the next round
    return result


_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


async def read_aside(read: Callable[[], T], n_characters: int) -> T:
    """Call a pure function; use a thread for a long text, so that the event loop continues."""
    return await (in_turn(read) if n_characters <= INLINE_CHARACTERS else asyncio.to_thread(read))


class LoopThread:
    """An event loop in its own thread, for connections that outlive a call."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, "peerage")
        self._runner = asyncio.Runner()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and return its result; Ctrl-C cancels it."""
        future = self._executor.submit(self._runner.run, work)
        try:
            return future.result()
        except KeyboardInterrupt:
            loop = self._runner.get_loop()
            loop.call_soon_threadsafe(lambda: [task.cancel() for task in asyncio.all_tasks(loop)])
            raise

    def close(self) -> None:
        self._executor.submit(self._runner.close).result()
        self._executor.shutdown()
