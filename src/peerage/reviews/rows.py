"""Reviews as arrays: what an engine hands to the audit, whole sessions at a time.

Names are codes into one sorted tuple, so that a reviewer who is also a candidate has one
code. A value that is not there is NaN. Nothing here depends on the order of the rows.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.integer]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

Kind = TypeVar("Kind", bound=np.generic)

N_CLUSTERS = 1_024  # sessions are resampled one by one up to here, beyond it in buckets
N_FOLDS = 64  # parts of all clusters: values that are costly to fit are left out by these
N_PANEL = 16  # reviewers whose pairs are compared: pairs grow with the square
MAX_COLUMNS = 16  # rows of a group, where all groups have as many
ROOMY, ALWAYS_ROOM = 4, 65_536  # a table of so many cells a row is cheaper than sorting the rows


@dataclass(frozen=True, slots=True)
class Rows:
    """Reviews of whole sessions, one element a row in every array.

    `session` counts from zero within these rows; `cluster` gives each session the unit that
    intervals are made over. `numbers` holds the optional numeric columns, `keys` the
    optional ones that are only ever compared (`query_id`, `deal`; negative where there is
    none), `text` the answers.
    """

    names: tuple[str, ...]
    n_clusters: int
    cluster: Ints  # by session
    session: Ints
    reviewer: Ints
    candidate: Ints
    numbers: Mapping[str, Floats] = field(default_factory=dict)
    keys: Mapping[str, Ints] = field(default_factory=dict)
    text: NDArray[np.object_] | None = None
    family: Ints | None = None  # by name; -1 where none is known
    panel: Ints | None = None  # the codes of the reviewers who judged most, at most N_PANEL

    @property
    def n(self) -> int:
        return len(self.session)

    @property
    def n_sessions(self) -> int:
        return len(self.cluster)


def chunks(rows: Rows, n_rows: int) -> Iterator[Rows]:
    """The rows a few sessions at a time, so that a chunk's arrays stay in the processor's cache.

    Only where the rows of each session stand together; else all of them are one chunk.
    """
    if rows.n <= n_rows or (np.diff(rows.session) < 0).any():
        yield rows
        return
    starts = np.searchsorted(rows.session, np.arange(rows.n_sessions + 1))
    at = 0
    while at < rows.n_sessions:
        end = int(np.searchsorted(starts, starts[at] + n_rows, side="right")) - 1
        end = min(max(end, at + 1), rows.n_sessions)
        part = select(rows, slice(int(starts[at]), int(starts[end])))
        yield replace(part, cluster=rows.cluster[at:end], session=part.session - at)
        at = end


def select(rows: Rows, places: Ints | slice) -> Rows:
    """Some of the rows; sessions keep their codes."""
    return replace(
        rows,
        session=rows.session[places],
        reviewer=rows.reviewer[places],
        candidate=rows.candidate[places],
        numbers={name: column[places] for name, column in rows.numbers.items()},
        keys={name: column[places] for name, column in rows.keys.items()},
        text=None if rows.text is None else rows.text[places],
    )


def unit_of(session_id: str, query_id: str | None) -> str:
    """What a session is one observation of: its query where that has an id, else itself.

    Two sessions on one query share its difficulty and often its answers, so they are not two
    observations.
    """
    return f"session {session_id}" if query_id is None else f"query {query_id}"


def clusters_of(units: Sequence[str]) -> tuple[Ints, int]:
    """The cluster of each session by its unit, and how many there are; the same on every engine.

    Up to `N_CLUSTERS` units each is its own, in the order of their names. More are put into
    buckets by a checksum of the name: a bucket is a cluster as good as its members.
    """
    distinct = sorted(set(units))
    if len(distinct) <= N_CLUSTERS:
        place = {unit: i for i, unit in enumerate(distinct)}
        return np.array([place[unit] for unit in units], dtype=np.int64), len(distinct)
    return np.array([bucket_of(unit) for unit in units], dtype=np.int64), N_CLUSTERS


def bucket_of(unit: str) -> int:
    """The cluster of a unit where there are too many for each to be its own."""
    return zlib.crc32(unit.encode()) % N_CLUSTERS


def folds_of(units: Sequence[str] | None) -> Ints:
    """The fold of each cluster: a unit is in the same one in every table; None for buckets."""
    if units is None:
        return np.arange(N_CLUSTERS) % N_FOLDS
    return np.array([bucket_of(unit) % N_FOLDS for unit in units], dtype=np.int64)


def rows_and_units(
    columns: Mapping[str, NDArray[np.generic]], numbers: Sequence[str]
) -> tuple[Rows, tuple[str, ...] | None]:
    """Columns of a few reviews in memory as rows, and the units that their clusters stand for."""
    texts = [columns[name].tolist() for name in ("session_id", "reviewer", "candidate")]
    queries = columns["query_id"].tolist() if "query_id" in columns else [None] * len(texts[0])
    query_by_session = dict(zip(texts[0], queries, strict=True))
    sessions = sorted(query_by_session)
    names = tuple(sorted({*texts[1], *texts[2]}))
    units = [unit_of(session, query_by_session[session]) for session in sessions]
    cluster, n_clusters = clusters_of(units)

    def codes(values: Sequence[str], known: Sequence[str]) -> Ints:
        place = {name: i for i, name in enumerate(known)}
        return np.array([place[value] for value in values], dtype=np.int64)

    session, reviewer, candidate = map(codes, texts, (sessions, names, names))
    values = {name: columns[name].astype(np.float64) for name in numbers}
    rows = Rows(names, n_clusters, cluster, session, reviewer, candidate, values)
    distinct = tuple(sorted(set(units)))
    return rows, distinct if len(distinct) <= N_CLUSTERS else None


@dataclass(frozen=True, slots=True)
class Groups:
    """Rows put into groups: a code for each row, and how many codes there may be.

    `starts` is given where the rows of each group stand together and no group is empty:
    sums are then several times quicker.
    """

    code: Ints
    n: int
    starts: Ints | None = None
    size: int | None = None  # of every group, where rows stand together and all have as many

    def count(self) -> Floats:
        if self.size is not None:
            return np.full(self.n, float(self.size))
        return np.bincount(self.code, minlength=self.n).astype(np.float64)

    def sum(self, values: Floats | Bools) -> Floats:
        if self.size is not None:
            table: Floats = values.reshape(self.n, self.size).astype(np.float64, copy=False)
            return table @ np.ones(self.size)  # ten times as quick as a sum along rows
        if self.starts is not None and len(self.starts):
            return np.add.reduceat(values, self.starts, dtype=np.float64)
        return np.bincount(self.code, weights=values, minlength=self.n).astype(np.float64)

    def first(self, values: NDArray[Kind]) -> NDArray[Kind]:
        """One value of each group, for what all its rows share; zero for empty groups."""
        if self.starts is not None:
            return values[self.starts]
        by_group = np.zeros(self.n, dtype=values.dtype)
        by_group[self.code] = values
        return by_group

    def each(self, values: NDArray[Kind]) -> NDArray[Kind]:
        """A value of each group, for each of its rows."""
        return values[self.code] if self.size is None else np.repeat(values, self.size)

    def centred(self, values: Floats) -> Floats:
        """Values less the mean of their group; no group may be empty."""
        return values - self.each(self.sum(values) / self.count())


def places(chosen: Bools) -> Ints | slice:
    """Where to take rows from: a slice, which copies nothing, where all are chosen."""
    return slice(None) if chosen.all() else np.flatnonzero(chosen)


def group(*codes_and_sizes: tuple[Ints, int]) -> Groups:
    """Rows by the combination of several codes; no group is empty.

    Quick where the rows of each group stand together.
    """
    first, size = codes_and_sizes[0]
    code: Ints = first.astype(np.int64)
    for codes, n in codes_and_sizes[1:]:
        if size * max(n, 1) > 2**62:
            code, size = dense(code)
        code = code * max(n, 1)
        code += codes
        size *= max(n, 1)
    return runs(code) if (code[1:] >= code[:-1]).all() else Groups(*dense(code))


def dense(key: Ints) -> tuple[Ints, int]:
    """Codes from zero without gaps for keys, in the order of the keys, and their number."""
    if len(key) == 0:
        return key, 0
    low = int(key.min())
    width = int(key.max()) - low + 1
    if width > ROOMY * len(key) + ALWAYS_ROOM:
        keys, code = np.unique(key, return_inverse=True)
        return code.astype(np.int64), len(keys)
    code_by_key = np.cumsum(np.bincount(key - low, minlength=width) > 0) - 1
    return code_by_key[key - low], int(code_by_key[-1]) + 1


def runs(code: Ints, *, whole: bool = True) -> Groups:
    """Rows that follow one another with the same code, as groups in their order.

    Where runs need not stay whole, they are cut to one size that divides them all.
    """
    starts = np.flatnonzero(np.append(True, code[1:] != code[:-1])[: len(code)])
    lengths = np.diff(np.append(starts, len(code)))
    size = int(np.gcd.reduce(lengths)) if len(lengths) else 0
    if not 1 < size <= MAX_COLUMNS or (whole and (lengths != size).any()):
        return Groups(np.repeat(np.arange(len(starts)), lengths), len(starts), starts)
    n = len(code) // size
    return Groups(np.repeat(np.arange(n), size), n, np.arange(0, len(code), size), size=size)


def spans(starts: Ints, sizes: Ints) -> tuple[Ints, Ints]:
    """The indices of several spans, one span after the other: which span each is of, and itself."""
    span = np.repeat(np.arange(len(sizes)), sizes)
    return span, np.arange(len(span)) + np.repeat(starts - np.cumsum(sizes) + sizes, sizes)


def ballot_codes(rows: Rows) -> list[tuple[Ints, int]]:
    """What a ballot is told by: session and reviewer, and the round where there are several."""
    codes = [(rows.session, rows.n_sessions), (rows.reviewer, len(rows.names))]
    if has_rounds(rows):
        codes.append(round_codes(rows))
    return codes


def round_codes(rows: Rows) -> tuple[Ints, int]:
    """A code for the round of each row, and how many rounds there are."""
    rounds, code = np.unique(rows.numbers["round"], return_inverse=True)
    return code, len(rounds)


def has_rounds(rows: Rows) -> bool:
    """Whether the rows are of several rounds."""
    rounds = rows.numbers.get("round")
    return rounds is not None and len(rounds) > 0 and bool((rounds != rounds[0]).any())


def has_duplicates(rows: Rows) -> bool:
    """Whether a reviewer judged one answer twice in one round."""
    codes = [*ballot_codes(rows), (rows.candidate, len(rows.names))]
    return bool((group(*codes).count() > 1).any())
