"""The order in which a gate looks at queries: unrelated to outcomes, and the same at every look.

A season with `--until` draws an order from its seed and keeps it in its log. Other seasons have the
order of their prompts, which is used if it goes neither with categories nor with outcomes. Else the
order is a hash of each query's name, after the queries that earlier gates have looked at.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from peerage.boards.differences import QueryDifferences, order_digest
from peerage.errors import UnreadableError, how_many
from peerage.events import Opened, read_event
from peerage.reports.gate_files import hash_of, recorded_draw
from peerage.reviews.rows import unit_of
from peerage.stats.orders import groups_p, values_p
from peerage.stores import Store, StoredDocument, StoreError

GROUPS_ALPHA = 0.01  # an order whose adjacent queries share a category this rarely is not used
VALUES_ALPHA = 0.05  # an order whose outcomes drift this rarely is not used
BEFORE_ANY = -1  # the batch before the first one that was drawn
LOOKS = "gate looks"  # kind of the stored documents
N_DIGITS = 16  # of a query's hash in them
BY_SEED = "drawn from the season's seed, as its log has it"
BY_PROMPTS = "as in the season's prompts"
BY_HASH = "by a hash of each query's name"

Key = tuple[float, bytes]  # the batch of a query, and its place within it


class UnfinishedSession(NamedTuple):
    """A session of a season that is not finished, with its query."""

    id: str
    unit: str
    category: str


@dataclass(frozen=True, slots=True)
class SeasonOrder:
    """The order of a stored season's sessions, as its log has it.

    A season may grow: prompts that were added, or not begun when a run ended, are a later batch.
    """

    place_by_session: Mapping[str, int]
    is_drawn: bool = False
    key_by_session: Mapping[str, Key] = field(default_factory=dict)
    batch_by_unit: Mapping[str, float] = field(default_factory=dict)
    n_repeats: int | None = None  # planned sessions of each query
    unfinished: tuple[UnfinishedSession, ...] = ()

    @property
    def next_batch(self) -> int:
        """The number of the batch that a new run draws."""
        return math.floor(max(self.batch_by_unit.values(), default=BEFORE_ANY)) + 1

    def key(self, unit: str, seed: str) -> Key:
        """Return what a query is sorted by when a run draws its order."""
        return self.batch_by_unit.get(unit, self.next_batch), order_digest(unit, seed)


def read_season_order(store: Store, season: str) -> SeasonOrder:
    """Return the order of a season's sessions from its log."""
    entries = store.sessions(season)
    keys: dict[str, Key] = {}
    units: dict[str, str] = {}
    batch_by_unit: dict[str, float] = {}
    latest, repeats = float(BEFORE_ANY), []
    for event in store.openings(season):
        with suppress(UnreadableError):
            opened = read_event(event)
            if not isinstance(opened, Opened):
                continue
            batch = latest + 0.5  # of a run that drew no order
            if (drawn := recorded_draw(opened.design)) is not None:
                batch = float(drawn[0])
                latest = max(latest, batch)
                repeats.append(drawn[1])
            unit = unit_of(event.session_id, opened.query.id or None)
            units[event.session_id] = unit
            batch = batch_by_unit.setdefault(unit, batch)
            keys[event.session_id] = (batch, order_digest(unit, opened.seed))
    return SeasonOrder(
        {one.id: one.ordinal for one in entries},
        bool(repeats),
        keys,
        batch_by_unit,
        min(repeats, default=None),
        tuple(
            UnfinishedSession(one.id, units[one.id], one.category)
            for one in entries
            if not one.status and one.id in units
        ),
    )


class QueryLooks(Protocol):
    """The queries that earlier gates looked at; each bar has its own."""

    def earlier(self, bar: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the hashes of the queries that were looked at, in that order."""
        ...

    def keep(self, bar: Mapping[str, Any], units: Sequence[str]) -> bool:
        """Store which queries have now been looked at, in this order; False if that failed."""
        ...


class StoredLooks:
    """The looks of gates over a store, by what is compared and which reviews are selected."""

    def __init__(
        self, store: Store, selection: Mapping[str, Any], *, may_write: bool = True
    ) -> None:
        self._store, self._selection, self._may_write = store, dict(selection), may_write

    def _name(self, bar: Mapping[str, Any]) -> str:
        compared = {name: value for name, value in bar.items() if name not in ("margin", "alpha")}
        return hash_of({"bar": compared, "selection": self._selection})

    def earlier(self, bar: Mapping[str, Any]) -> tuple[str, ...]:
        looks = self._store.document(LOOKS, self._name(bar))
        return () if looks is None else tuple(looks.body["queries"])

    def keep(self, bar: Mapping[str, Any], units: Sequence[str]) -> bool:
        known = self.earlier(bar)
        queries = list(dict.fromkeys([*known, *map(short_hash, units)]))
        if len(queries) > len(known):
            if not self._may_write:
                return False
            document = StoredDocument(LOOKS, self._name(bar), time.time(), "", {"queries": queries})
            try:
                self._store.put_document(document)
            except StoreError:  # on a file system that can only be read
                return False
        return True


def short_hash(unit: str) -> str:
    """Return the hash by which a stored look names a query."""
    return order_digest(unit).hex()[:N_DIGITS]


@dataclass(frozen=True, slots=True)
class QueryOrder:
    """Queries in the order of looks, how that order was made, and what to know about it."""

    words: str
    units: tuple[str, ...]
    flags: tuple[str, ...] = ()


def order_queries(
    some: Sequence[QueryDifferences],
    season: SeasonOrder | None = None,
    *,
    earlier: Sequence[str] = (),
    on: str | None = None,
    is_suite: bool = False,
) -> QueryOrder:
    """Return the order of the queries of one or several candidates.

    `earlier` has the hashes of queries that were looked at before; `on` is the only category. A
    season's queries wait for sessions that come earlier in the order and are not finished. The
    order of a suite is the one that was drawn, or that of the hash.
    """
    sessions = _sessions_by_unit(some)
    by_hash = {unit: order_digest(unit) for unit in sessions}
    if season is None:
        return QueryOrder(*_with_earlier(BY_HASH, _sort_queries(by_hash), earlier))
    waiting = [one for one in season.unfinished if on in (None, one.category)]
    if season.is_drawn:
        unknown = (math.inf, b"")
        drawn = {
            unit: min(season.key_by_session.get(one, unknown) for one in ids)
            for unit, ids in sessions.items()
        }
        ready, flags = _ready(drawn, [(season.key_by_session[one.id], one.id) for one in waiting])
        return QueryOrder(BY_SEED, ready, flags)
    looked_at = set(earlier)
    waiting = [one for one in waiting if short_hash(one.unit) not in looked_at]
    place = season.place_by_session
    last = {
        unit: (max(place.get(one, 0) for one in ids), by_hash[unit])
        for unit, ids in sessions.items()
    }
    ready, flags = _ready(last, [((place[one.id], b""), one.id) for one in waiting])
    words = BY_PROMPTS
    if is_suite or (refusal := _flag_order(some, ready)):
        words = BY_HASH
        ready, flags = _ready(by_hash, [(order_digest(one.unit), one.id) for one in waiting])
        flags = flags if is_suite else (*refusal, *flags)
    return QueryOrder(*_with_earlier(words, ready, earlier, _sort_queries(by_hash)), flags)


def _sessions_by_unit(some: Sequence[QueryDifferences]) -> dict[str, set[str]]:
    """Return the sessions of each query, of all candidates."""
    by_unit: dict[str, set[str]] = {}
    for one in some:
        for unit, sessions in zip(one.units, one.sessions, strict=True):
            by_unit.setdefault(unit, set()).update(sessions)
    return by_unit


def _sort_queries(keys: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(sorted(keys, key=keys.__getitem__))


def _ready(
    keys: Mapping[str, Any], waiting: Sequence[tuple[Any, str]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the queries before the first unfinished session, and a flag on those after it."""
    order = _sort_queries(keys)
    if not waiting:
        return order, ()
    first, session = min(waiting)
    ready = tuple(unit for unit in order if keys[unit] < first)
    later = how_many(len(order) - len(ready), "finished query waits", "finished queries wait")
    flag = f"{later} for session {session}, which comes earlier in the order and is not finished"
    return ready, ((flag,) if len(ready) < len(order) else ())


def _with_earlier(
    words: str, order: Sequence[str], earlier: Sequence[str], units: Sequence[str] = ()
) -> tuple[str, tuple[str, ...]]:
    """Return an order with the queries that were looked at before in front, and its words.

    `units` has all queries, also those that were looked at before and now wait.
    """
    place = {name: i for i, name in enumerate(earlier)}
    hashes = {unit: short_hash(unit) for unit in (*units, *order)}
    first = sorted((u for u in hashes if hashes[u] in place), key=lambda u: place[hashes[u]])
    rest = [unit for unit in order if hashes[unit] not in place]
    if first and rest:
        words += f", after the {how_many(len(first), 'query', 'queries')} looked at before"
    return words, (*first, *rest)


def _flag_order(some: Sequence[QueryDifferences], order: Sequence[str]) -> tuple[str, ...]:
    """Return why an order of queries cannot be used; nothing if it can."""
    column = {unit: i for i, unit in enumerate(order)}
    n_rows = [len(one.by_measure) for one in some]
    values, codes = np.zeros((sum(n_rows), len(order))), np.zeros(len(order), dtype=np.int64)
    names = sorted({name for one in some for name in one.categories})
    code = {name: i for i, name in enumerate(names)}
    for i, one in enumerate(some):
        used = [place for place, unit in enumerate(one.units) if unit in column]
        if not used:
            continue
        at = [column[one.units[place]] for place in used]
        start, here = sum(n_rows[:i]), one.by_measure[:, used]
        values[start : start + n_rows[i], at] = here - here.mean(axis=1, keepdims=True)
        if one.categories:
            codes[at] = [code[one.categories[place]] for place in used]
    goes_with = []
    if (p := groups_p(codes)) <= GROUPS_ALPHA:
        goes_with.append(f"the categories of its queries (p {p:.3f})")
    if (p := values_p(values)) <= VALUES_ALPHA:
        goes_with.append(f"their outcomes (p {p:.3f})")
    if not goes_with:
        return ()
    return (
        f"the order of the season's prompts goes with {' and with '.join(goes_with)}, so it is not "
        "used",
    )
