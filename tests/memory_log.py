"""A log in memory, for sessions that nobody will ask for again."""

from __future__ import annotations

import asyncio

from peerage.types import Event


class MemoryLog:
    """A log for sessions that nobody will ask for again."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def append(self, event: Event) -> asyncio.Future[None]:
        self.events.append(event)
        kept = asyncio.get_running_loop().create_future()
        kept.set_result(None)
        return kept
