"""Bytes to and from disk: the append-only log of events, one store a file.

A store takes events in the order they are appended and calls each one durable when it
would survive the machine's going off. Readers see whole events or none.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from peerage.errors import InputError, NotFoundError, PeerageError, UsageError
from peerage.plugins import Registry
from peerage.types import LEASE_S, Event

USER_PASSWORD = re.compile(r"^(\w+:?//)?([^:@/]*):(?!//).*@")
PASSWORD_OPTION = re.compile(r"(?i)(\w*password\w*=)[^&\s]*")


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


@dataclass(frozen=True, slots=True)
class Contribution:
    """An opinion that a person gave, or an item that one contributed: a row of either table."""

    kind: str  # "opinions" or "items"
    item_id: str
    contributor: str  # whose the item is
    at: float
    reviewer: str = ""  # of an opinion
    opinion: float | None = None
    category: str | None = None
    text: str | None = None  # of an item


@dataclass(frozen=True, slots=True)
class AccessToken:
    """A right to use a server: a name, what it may do, and how much. Only its hash is kept."""

    id: str
    name: str  # people review under it
    scopes: tuple[str, ...]
    hash: str
    budget_usd: float | None
    rate: float | None  # requests a minute
    created_at: float
    revoked_at: float | None = None
    spent_usd: float = 0.0  # with what running sessions may still spend


@dataclass(frozen=True, slots=True)
class Action:
    """Something that was done through a server, and by whom."""

    at: float
    who: str
    what: str
    about: str


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Lease:
    """The right to write to a session, until its holder falls silent and another takes it over.

    It is a `Log`: whoever runs the session appends to it. Hold on to it; the store extends it for
    as long as somebody does, and each append does too.
    """

    store: Store
    session_id: str
    owner: str
    epoch: int  # how many have held it; the log takes the events of the last one only
    length_s: float

    def append(self, event: Event) -> asyncio.Future[None]:
        """Append an event; a SessionTakenError if another has taken the session over."""
        return self.store.append(event, self.epoch)


class Store(Log, Protocol):
    """A log that is also read."""

    mirror_folder: Path  # where this store's columnar mirror belongs

    def append(self, event: Event, epoch: int = 0) -> asyncio.Future[None]:
        """Queue an event under the epoch of a lease, or under 0 while nobody holds one."""
        ...

    async def claim(self, session_id: str, owner: str, length_s: float = LEASE_S) -> Lease | None:
        """A lease of a session that nobody holds, or None; by the database's clock."""
        ...

    def release(self, lease: Lease) -> asyncio.Future[None]:
        """Queue the end of a lease, after what was appended under it."""
        ...

    def unfinished(self, owner: str = "") -> list[str]:
        """Open sessions whose lease has run out, held last by an owner that begins like this."""
        ...

    async def changed(self, session_id: str, timeout_s: float) -> None:
        """Wait until another process may have appended to a session, or for that long."""
        ...

    def events(self, session_id: str, after: int = -1) -> list[Event]:
        """The events of a session, or those after a place in it."""
        ...

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

    def openings(self, season: str | None = None) -> Iterator[Event]:
        """The events that say what sessions ask and who sits in them, in the order they came.

        Of a season, or of all sessions. One that cannot be read is left out.
        """
        ...

    def reviewed_after(self, row: int, limit: int) -> list[tuple[int, str, str]]:
        """What brought reviews after a row of the log: the row, the session and the event's kind.

        It is the end of a session, or a person's review of one.
        """
        ...

    def least_judged(self, category: str | None, limit: int) -> list[str]:
        """Sessions that came to their end, of the latest, those that fewest people judged first."""
        ...

    def version(self) -> str:
        """A text that changes with every review or table that boards are made from."""
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

    def add_contributions(self, rows: Sequence[Contribution]) -> None:
        """Keep what people gave, all of it or none; what is there already stays as it is.

        An InputError where an item would have two contributors.
        """
        ...

    def contributions(
        self, kind: str, after: int = 0, limit: int | None = None
    ) -> list[tuple[int, Contribution]]:
        """What people gave, beyond a row, in the order it came; each with the number of its row."""
        ...

    def contributor_of(self, item_id: str) -> str | None:
        """Whose an item is, by what people gave."""
        ...

    def append_all(self, events: Iterable[Event]) -> None:
        """Keep events that happened elsewhere, all of them or none."""
        ...

    def tokens(self) -> list[AccessToken]: ...

    def add_token(self, token: AccessToken) -> None: ...

    def revoke_token(self, token_id: str, at: float) -> bool:
        """End a token; False where there is none that was still good."""
        ...

    def spend(self, token_id: str, usd: float) -> bool:
        """Take money from a token's budget, or give some back; False where it has not so much."""
        ...

    def actions(self, limit: int) -> list[Action]:
        """The latest things that were done, the last one first."""
        ...

    def add_action(self, action: Action) -> asyncio.Future[None]:
        """Queue a line for the list of what was done."""
        ...

    def owe_webhooks(self, session_id: str, targets: Sequence[str]) -> asyncio.Future[None]:
        """Queue a note that these are to be sent a message when a session is over."""
        ...

    def claim_webhooks(
        self, targets: Sequence[str], limit: int, for_s: float
    ) -> list[tuple[str, str, int]]:
        """Some messages that are due, each with its session, target and earlier tries.

        Nobody else is given them for so long.
        """
        ...

    def settle_webhook(self, session_id: str, target: str, again_s: float | None) -> None:
        """Forget a message, or try it again after so many seconds."""
        ...

    async def close(self) -> None: ...


def full_id(store: Store, prefix: str) -> str:
    """The id of the one session whose id begins so."""
    ids = store.find(prefix) if prefix else []
    if not ids:
        raise NotFoundError(
            f"there is no session {prefix!r}.", hint="`peerage sessions` lists them."
        )
    if len(ids) > 1 and prefix not in ids:
        raise InputError(
            f"{len(ids)} sessions begin with {prefix!r}: {', '.join(ids[:5])}.",
            hint="Give more of the id.",
        )
    return prefix if prefix in ids else ids[0]


def stored_events(store: Store, prefix: str) -> list[Event]:
    """The events of the one session whose id begins so."""
    return store.events(full_id(store, prefix))


Opener = Callable[[str], Store]
stores: Registry[Opener] = Registry("store", "peerage.stores")


def open_store(url: str, data: str | Path = "", *, must_exist: bool = False) -> Store:
    """The store behind a URL such as sqlite:///peerage.db, made if there is none.

    With a data folder, what this machine keeps beside the store goes there.
    """
    if must_exist and (file := missing_file(url)) is not None:
        raise StoreError(
            "there is no store here.",
            place=str(file),
            hint="Look at --store; `peerage ask`, `run` and `import` make a new one.",
        )
    scheme, separator, _ = url.partition("://")
    if not separator:
        raise UsageError(
            f"{without_password(url)!r} is no store.",
            hint="Write sqlite:///FILE or postgresql://HOST/DATABASE.",
        )
    store = stores.get(scheme)(url)
    if data:
        store.mirror_folder = Path(data) / store.mirror_folder.name
    return store


def missing_file(url: str) -> Path | None:
    """The file of a store that is not there yet; None where it is, or where a store is no file."""
    scheme, _, name = url.partition(":///")
    file = Path(name)
    return file if scheme == "sqlite" and name and not file.exists() else None


def without_password(url: str) -> str:
    """A store's URL as it may be shown."""
    return PASSWORD_OPTION.sub(r"\1…", USER_PASSWORD.sub(r"\1\2@", url))
