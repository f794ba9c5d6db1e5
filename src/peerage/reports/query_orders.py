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
from typing import Any, Protocol

import numpy as np

from peerage.boards.differences import QueryDifferences, order_digest
from peerage.errors import InputError, UnreadableError, how_many
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
    unfinished: tuple[tuple[str, str], ...] = ()  # sessions with their categories

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
            batch = batch_by_unit.setdefault(unit, batch)
            keys[event.session_id] = (batch, order_digest(unit, opened.seed))
    return SeasonOrder(
        {one.id: one.ordinal for one in entries},
        bool(repeats),
        keys,
        batch_by_unit,
        min(repeats, default=None),
        tuple((one.id, one.category) for one in entries if not one.status),
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

    def __init__(self, store: Store, selection: Mapping[str, Any]) -> None:
        self._store, self._selection = store, dict(selection)

    def _name(self, bar: Mapping[str, Any]) -> str:
        compared = {name: value for name, value in bar.items() if name not in ("margin", "alpha")}
        return hash_of({"bar": compared, "selection": self._selection})

    def earlier(self, bar: Mapping[str, Any]) -> tuple[str, ...]:
        stored = self._store.document(LOOKS, self._name(bar))
        return () if stored is None else tuple(stored.body["queries"])

    def keep(self, bar: Mapping[str, Any], units: Sequence[str]) -> bool:
        known = self.earlier(bar)
        queries = list(dict.fromkeys([*known, *map(short_hash, units)]))
        if len(queries) > len(known):
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

    `earlier` has the hashes of queries that were looked at before; `on` is the only category. The
    queries of a suite are in the order that was drawn, or in that of the hash.
    """
    if season is not None and season.is_drawn:
        return _drawn_order(some, season, on)
    units = sorted({unit for one in some for unit in one.units})
    words, order, flags = BY_HASH, sorted(units, key=order_digest), ()
    if season is not None and not is_suite:
        recorded = _recorded(some, season)
        flags = _flag_order(some, recorded)
        words, order = (words, order) if flags else (BY_PROMPTS, recorded)
    place = {name: i for i, name in enumerate(earlier)}
    hashes = {unit: short_hash(unit) for unit in units}
    first = sorted((u for u in order if hashes[u] in place), key=lambda u: place[hashes[u]])
    if 0 < len(first) < len(order):
        words += f", after the {how_many(len(first), 'query', 'queries')} looked at before"
    rest = (unit for unit in order if hashes[unit] not in place)
    return QueryOrder(words, (*first, *rest), flags)


def _drawn_order(
    some: Sequence[QueryDifferences], season: SeasonOrder, on: str | None
) -> QueryOrder:
    """Return the queries before the first unfinished one, in the order that was drawn."""
    keys: dict[str, Key] = {}
    for side in some:
        for unit, sessions in zip(side.units, side.sessions, strict=True):
            unknown = (math.inf, order_digest(unit))
            keys[unit] = min(season.key_by_session.get(one, unknown) for one in sessions)
    order = sorted(keys, key=keys.__getitem__)
    waiting = [
        (season.key_by_session[session], session)
        for session, category in season.unfinished
        if session in season.key_by_session and on in (None, category)
    ]
    if not waiting:
        return QueryOrder(BY_SEED, tuple(order))
    first, session = min(waiting)
    ready = tuple(unit for unit in order if keys[unit] < first)
    if not ready:
        raise InputError(
            f"the first query in the season's order is not finished: session {session}.",
            hint="Continue the season with the same `peerage run` command, and ask again.",
        )
    n_later = len(order) - len(ready)
    later = how_many(n_later, "finished query waits", "finished queries wait")
    flag = f"{later} for session {session}, which comes earlier in the season's order"
    return QueryOrder(BY_SEED, ready, (flag,) if n_later else ())


def _recorded(some: Sequence[QueryDifferences], season: SeasonOrder) -> list[str]:
    """Return the queries in the order of the season's prompts, each by its last session."""
    last: dict[str, int] = {}
    for one in some:
        for unit, sessions in zip(one.units, one.sessions, strict=True):
            places = (season.place_by_session.get(session, 0) for session in sessions)
            last[unit] = max(last.get(unit, 0), *places)
    return sorted(last, key=lambda unit: (last[unit], order_digest(unit)))


def _flag_order(some: Sequence[QueryDifferences], order: Sequence[str]) -> tuple[str, ...]:
    """Return why an order of queries cannot be used; nothing if it can."""
    column = {unit: i for i, unit in enumerate(order)}
    n_rows = [len(one.by_measure) for one in some]
    values, codes = np.zeros((sum(n_rows), len(order))), np.zeros(len(order), dtype=np.int64)
    names = sorted({name for one in some for name in one.categories})
    code = {name: i for i, name in enumerate(names)}
    for i, one in enumerate(some):
        at = [column[unit] for unit in one.units]
        start, means = sum(n_rows[:i]), one.by_measure.mean(axis=1, keepdims=True)
        values[start : start + n_rows[i], at] = one.by_measure - means
        if one.categories:
            codes[at] = [code[name] for name in one.categories]
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
