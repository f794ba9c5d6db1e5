"""What stores keep and give: sessions listed, tables, tokens, leases; and events as rows.

Events are checked on the way in and mended on the way out.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from peerage.errors import PeerageError, UnreadableError
from peerage.events import (
    KIND_BY_TYPE,
    Deleted,
    Extended,
    Finished,
    Opened,
    PersonReviewed,
    Restored,
    Tagged,
    read_event,
)
from peerage.text import valid_text, valid_values
from peerage.types import EARLIEST_S, LATEST_S, Event

if TYPE_CHECKING:
    from peerage.stores.sql_store import Store

QUERY_CHARACTERS_LISTED = 300
MAX_BODY_CHARACTERS = 100_000_000
MAX_DEPTH = 40  # of lists and objects in a body
MAX_INTEGER = 2**63 - 1
UNREADABLE = "unreadable"  # the status of a listed session whose row nobody can read
LISTED = frozenset(  # told in lists
    KIND_BY_TYPE[kind] for kind in (Opened, Extended, Finished, Deleted, Restored, Tagged)
)
NUMBERED = frozenset(  # read by row: they change what boards count
    KIND_BY_TYPE[kind] for kind in (Finished, PersonReviewed, Deleted, Restored)
)

Columns = tuple[str | int | float, ...]


class StoreError(PeerageError):
    """The store cannot be opened, read or written."""


class SessionTakenError(StoreError):
    """Another process has written to this session since its history was read."""


class Log(Protocol):
    """Where a running session's events go."""

    def append(self, event: Event, /) -> asyncio.Future[None]:
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
    deleted_at: float | None = None  # since when it is left out of boards, audits and lists
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Import:
    """A table that came from elsewhere; the same file of the same kind comes only once."""

    kind: str
    hash: str
    name: str
    n_rows: int
    at: float
    id: int = 0
    deleted_at: float | None = None  # since when boards and audits leave it out


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


# -- events as rows ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EventRow:
    """An event as the tables hold it, checked before it is queued."""

    event: Columns
    opened: Columns = ()  # its line in the list of sessions
    ended: tuple[float | None, str, str] | None = None  # when and how; neither where it goes on
    deleted: tuple[float | None, str] | None = None  # since when, and which session
    tagged: tuple[str, str] | None = None  # with which tags, and which session


def event_row(event: Event) -> EventRow:
    """An event as the tables will hold it, or a refusal of what they could not."""
    names = isinstance(event.session_id, str) and isinstance(event.kind, str)
    if not (names and is_integer(event.seq) and _is_time(event.at)):
        raise StoreError("an event needs a session, a place in it, a kind and a time.")
    try:
        body = json.dumps(event.body)
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreError(f"a {event.kind} event holds what is not JSON: {error}.") from None
    if len(body) > MAX_BODY_CHARACTERS:
        raise StoreError(f"a {event.kind} event is over {MAX_BODY_CHARACTERS:,} characters long.")
    id_ = stored_text(event.session_id)
    columns = (id_, event.seq, stored_text(event.kind), float(event.at), body)
    try:
        fact = read_event(event) if event.kind in LISTED else None
    except UnreadableError as error:
        raise StoreError(error.message) from None
    if isinstance(fact, Opened):
        text = stored_text(fact.query.text)[:QUERY_CHARACTERS_LISTED]
        season, category = stored_text(fact.season), stored_text(fact.query.category)
        return EventRow(columns, opened=(id_, season, fact.ordinal, text, category, event.at))
    if isinstance(fact, Finished):
        return EventRow(columns, ended=(event.at, stored_text(fact.status), id_))
    if isinstance(fact, Extended):
        return EventRow(columns, ended=(None, "", id_))
    if isinstance(fact, Deleted | Restored):
        return EventRow(columns, deleted=(event.at if isinstance(fact, Deleted) else None, id_))
    if isinstance(fact, Tagged):
        return EventRow(columns, tagged=(listed_tags(fact.tags), id_))
    return EventRow(columns)


def listed_tags(tags: Iterable[str]) -> str:
    """Tags as the list of sessions holds them: each between blanks, so that one can be found."""
    words = [word for tag in tags for word in stored_text(tag).split()]
    return f" {' '.join(words)} " if words else ""


def checked_row(event: Event) -> EventRow:
    """The row of an event from elsewhere, whose body may be nested without end."""
    if _is_deeper(event.body, MAX_DEPTH):
        raise StoreError(
            f"a {event.kind!s:.40} event of session {event.session_id!s:.40} is nested deeper"
            f" than {MAX_DEPTH} levels."
        )
    return event_row(event)


def stored_text(text: str) -> str:
    """A text as every store can hold it: valid Unicode, and no zero character."""
    return valid_text(text).replace("\0", "\ufffd")


def _is_deeper(value: Any, levels: int) -> bool:
    members = value.values() if isinstance(value, dict) else value
    if not isinstance(value, dict | list | tuple) or not members:
        return False
    return levels == 0 or any(_is_deeper(member, levels - 1) for member in members)


def is_integer(value: object) -> bool:
    """Whether a value is a count that a column holds."""
    return type(value) is int and 0 <= value <= MAX_INTEGER


def _is_time(value: object) -> bool:
    return type(value) in (int, float) and EARLIEST_S <= value <= LATEST_S  # type: ignore[operator]


def stored_event_of(row: tuple[Any, ...]) -> Event:
    """An event of the log; halves of surrogate pairs, which earlier versions let in, are mended."""
    session_id, seq, kind, at, text = row
    try:
        body = json.loads(text)
        if "\\ud" in text:
            body = valid_values(body)
    except (TypeError, ValueError, RecursionError) as error:
        raise UnreadableError(
            f"event {seq} is not JSON: {error!r:.200}.", place=f"session {session_id}"
        ) from None
    if not isinstance(body, dict) or type(at) not in (int, float):
        raise UnreadableError(f"event {seq} is no event.", place=f"session {session_id}")
    return Event(session_id, seq, kind, at, body)


def listing(row: tuple[Any, ...]) -> Listing:
    """A line of the list; of one that earlier versions let in malformed, only the id."""
    *first, deleted_at, tags = row
    id_, _, ordinal, _, _, opened_at, finished_at, _ = first
    fits = is_integer(ordinal) and _is_time(opened_at)
    fits = fits and (finished_at is None or _is_time(finished_at))
    if not fits:
        return Listing(id_, "", 0, "", "", 0.0, None, UNREADABLE, deleted_at)
    listed = Listing(*first)
    return replace(listed, deleted_at=deleted_at, tags=tuple(tags.split()))
