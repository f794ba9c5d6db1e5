"""Bytes to and from disk: the append-only log of events, one store a file.

A store takes events in the order they are appended and calls each one durable when it
would survive the machine's going off. Readers see whole events or none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from peerage.errors import PeerageError, UsageError
from peerage.plugins import Registry
from peerage.types import Event


class StoreError(PeerageError):
    """The store cannot be opened, read or written."""


class SessionTakenError(StoreError):
    """Another process has written to this session since its history was read."""


class Log(Protocol):
    """Where a running session's events go."""

    def append(self, event: Event) -> asyncio.Future[None]:
        """Queue an event at once; the result is done when the event is durable."""
        ...


@dataclass(frozen=True, slots=True)
class Listing:
    """One session in a list of them."""

    id: str
    season: str
    ordinal: int
    query: str
    category: str
    opened_at: float
    finished_at: float | None
    status: str  # "" while it is not finished


@dataclass(frozen=True, slots=True)
class Import:
    """A table that came from elsewhere; the same file of the same kind comes only once."""

    kind: str
    hash: str
    name: str
    n_rows: int
    at: float
    id: int = 0


class Store(Log, Protocol):
    """A log that is also read."""

    def events(self, session_id: str) -> list[Event]: ...

    def sessions(
        self, season: str | None = None, limit: int | None = None, before: str | None = None
    ) -> list[Listing]:
        """The sessions of a season, or all, in the order they were opened.

        With a limit the latest; with `before` those opened before the session of this id.
        """
        ...

    def find(self, prefix: str) -> list[str]:
        """The ids that begin with this."""
        ...

    def finished_after(self, row: int, limit: int) -> list[tuple[int, str]]:
        """Sessions finished after a row of the log, each with the row that finished it."""
        ...

    @property
    def mirror_folder(self) -> Path:
        """Where this store's columnar mirror belongs."""
        ...

    def season_seed(self, season: str, drawn: str) -> str:
        """The season's seed; the drawn one is kept if it has none yet."""
        ...

    def imports(self) -> list[Import]:
        """What was imported, in the order it came."""
        ...

    def add_import(self, entry: Import, parts: Iterable[bytes]) -> None:
        """Keep a checked table whole, or not at all."""
        ...

    def import_parts(self, import_id: int) -> Iterator[bytes]: ...

    def append_all(self, events: Iterable[Event]) -> None:
        """Keep events that happened elsewhere, all of them or none."""
        ...

    async def close(self) -> None: ...


Opener = Callable[[str], Store]
stores: Registry[Opener] = Registry("store", "peerage.stores")


def open_store(url: str) -> Store:
    """The store behind a URL such as sqlite:///peerage.db."""
    scheme, separator, _ = url.partition("://")
    if not separator:
        raise UsageError(f"{url!r} is no store.", hint="Write sqlite:///FILE.")
    return stores.get(scheme)(url)
