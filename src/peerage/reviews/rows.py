"""Reviews as arrays: the table behind boards, audits and pages.

Names are codes into one sorted tuple, so that a reviewer who is also a candidate has one code. A
missing value is NaN. Nothing here depends on the order of the rows.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice

import numpy as np
from numpy.typing import NDArray

from peerage.reviews.cells import (
    Bools,
    Floats,
    Ints,
    Texts,
    dense,
    group,
)
from peerage.reviews.checksums import Utf8Texts, checksums_of

N_CLUSTERS = 1_024  # up to this many units are clusters of their own; more units share buckets
SMALL = np.uint16  # the type of buckets of many votes
N_FOLDS = 64  # groups of clusters: a costly fit is repeated without each fold, not each cluster
N_PANEL = 16  # reviewers of whom pairs are compared: the number of pairs grows with the square


@dataclass(frozen=True, slots=True)
class Rows:
    """The table of reviews, or some whole sessions of it, in arrays of one element per row.

    `session` counts from zero within these rows; `cluster` has each session's unit for intervals.
    `numbers` has the optional numeric columns, `keys` the optional text columns as codes into
    `labels` (negative for no text), and `text` the answers.
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
    family: Ints | None = None  # by name; −1 if unknown; None if names have several
    panel: Ints | None = None  # the codes of the reviewers who judged most, at most N_PANEL
    labels: Mapping[str, Texts] = field(default_factory=dict)  # of each of the keys, sorted
    session_ids: Texts = field(default_factory=lambda: np.zeros(0, dtype=object))
    unit: Texts = field(default_factory=lambda: np.zeros(0, dtype=object))  # `unit_of` each session
    units: tuple[str, ...] | None = None  # of each cluster; None if clusters are buckets
    part: Ints | None = None  # by session, the part of a board that it counts in; −1 for none

    @property
    def n(self) -> int:
        return len(self.session)

    @property
    def n_sessions(self) -> int:
        return len(self.cluster)

    def code(self, name: str) -> int:
        """Return the code of a name; −1 if it is unknown."""
        return self.names.index(name) if name in self.names else -1

    def number(self, name: str) -> Floats:
        """Return a column of numbers; NaN for missing values."""
        return self.numbers[name] if name in self.numbers else np.full(self.n, np.nan)

    def since(self, earliest: float | None) -> Bools:
        """Return which rows are not before a time; rows without a time always count."""
        if earliest is None:
            return np.ones(self.n, dtype=bool)
        return ~(self.number("at") < earliest)

    def ballots(self) -> Ints:
        """Return the number of each row's ballot: one reviewer in one session and round."""
        return group(*ballot_codes(self)).code

    def has_label(self, key: str, label: str) -> Bools:
        """Return which rows have this text in a text column."""
        if key not in self.keys:
            return np.zeros(self.n, dtype=bool)
        at = np.flatnonzero(self.labels[key] == label)
        return self.keys[key] == (at[0] if len(at) else -2)

    def labels_there(self, key: str) -> list[str]:
        """Return the distinct texts of these rows in a text column."""
        if key not in self.keys:
            return []
        n_by_code = np.bincount(self.keys[key] + 1)[1:]  # null is −1
        there: list[str] = self.labels[key][np.flatnonzero(n_by_code)].tolist()
        return there

    def queries(self) -> tuple[Ints, tuple[str, ...]]:
        """Return the query of each session as a code, and the sorted queries."""
        if self.units is not None and len(self.units) == self.n_clusters:
            return self.cluster.astype(np.int64), self.units
        names = sorted(set(self.unit.tolist()))
        code = {name: i for i, name in enumerate(names)}
        return np.array([code[name] for name in self.unit.tolist()], dtype=np.int64), tuple(names)

    def session_ranks(self) -> Ints:
        """Return the rank of each session in the order of ids."""
        ranks = np.empty(self.n_sessions, dtype=np.int64)
        ids = self.session_ids.tolist()
        ranks[sorted(range(len(ids)), key=ids.__getitem__)] = np.arange(len(ids))
        return ranks

    def only(self, keep: Bools) -> Rows:
        """Return some of the rows; call `settle` to number the remaining sessions again.

        A ballot that loses an answer counts by its ranks, because its probabilities compared all
        answers on it.
        """
        if keep.all():
            return self
        if "probability" in self.numbers:
            ballot = self.ballots()
            return self.without_probability(np.bincount(ballot, ~keep)[ballot] > 0.0)._keep(keep)
        return self._keep(keep)

    def without_probability(self, places: Bools) -> Rows:
        """Return the rows without probabilities at these indices, so that their ranks count."""
        if "probability" not in self.numbers:
            return self
        probability = np.where(places, np.nan, self.numbers["probability"])
        return replace(self, numbers={**self.numbers, "probability": probability})

    def _keep(self, keep: Bools) -> Rows:
        there = np.bincount(self.session[keep], minlength=self.n_sessions) > 0
        some = select(self, np.flatnonzero(keep))
        return replace(
            some,
            cluster=self.cluster[there],
            session=(np.cumsum(there) - 1)[some.session],
            session_ids=self.session_ids[there],
            unit=self.unit[there],
            part=None if self.part is None else self.part[there],
        )


def chunks(rows: Rows, n_rows: int) -> Iterator[Rows]:
    """Yield the rows a few sessions at a time, so that arrays stay in the processor's cache.

    If the rows of a session are not adjacent, all rows are one chunk.
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
        yield replace(
            part,
            cluster=rows.cluster[at:end],
            session=part.session - at,
            session_ids=rows.session_ids[at:end],
            unit=rows.unit[at:end],
            part=None if rows.part is None else rows.part[at:end],
        )
        at = end


def select(rows: Rows, places: Ints | slice) -> Rows:
    """Return some of the rows; sessions keep their codes."""
    return replace(
        rows,
        session=rows.session[places],
        reviewer=rows.reviewer[places],
        candidate=rows.candidate[places],
        numbers={name: column[places] for name, column in rows.numbers.items()},
        keys={name: column[places] for name, column in rows.keys.items()},
        text=None if rows.text is None else rows.text[places],
    )


def by_session(rows: Rows, values: Floats, pick: np.ufunc) -> Floats:
    """Return one value for each session, such as the largest of its rows; `pick` ignores NaN."""
    picked = np.full(rows.n_sessions, np.nan)
    pick.at(picked, rows.session, values)
    return picked


def unit_of(session_id: str, query_id: str | None) -> str:
    """Return the unit of observation of a session: its query if it has an id, else itself.

    Two sessions on one query share its difficulty and often its answers, so they are not two
    observations.
    """
    return f"session {session_id}" if query_id is None else f"query {query_id}"


def buckets_of(units: Collection[str]) -> Ints:
    """Return the cluster of each unit, for tables with too many units for one cluster each."""
    codes = np.fromiter(map(zlib.crc32, map(str.encode, units)), np.uint32, len(units))
    return (codes % N_CLUSTERS).astype(np.int64)


def buckets_of_queries(queries: Utf8Texts) -> Ints:
    """Return `buckets_of` the units of queries, which are given as UTF-8."""
    codes = checksums_of(queries, zlib.crc32(unit_of("", "").encode()))
    codes %= N_CLUSTERS
    return codes.astype(SMALL)


def buckets_of_numbers(prefix: str, n: int, n_digits: int) -> Ints:
    """Return `buckets_of` sessions named by a prefix and a number of `n_digits` digits, 1 to n.

    If two texts of one length differ only in their last digits, their checksums differ by the same
    bits, whatever the texts begin with. So a thousand checksums are computed from one.
    """
    last = np.array([zlib.crc32(b"%03d" % i) for i in range(1_000)], dtype=np.uint32)
    start = unit_of(prefix, None)
    firsts = (f"{start}{i:0{n_digits - 3}}000".encode() for i in range(n // 1_000 + 1))
    codes = np.fromiter(map(zlib.crc32, firsts), dtype=np.uint32)
    # The number of clusters is a power of two, so a remainder is the last bits of a checksum.
    some, changes = ((one % N_CLUSTERS).astype(SMALL) for one in (codes, last ^ last[0]))
    every: Ints = (some[:, None] ^ changes).ravel()[1 : n + 1]
    return every


def folds_of(units: Sequence[str] | None) -> Ints:
    """Return the fold of each cluster; a unit has the same fold in every table."""
    if units is None:
        return np.arange(N_CLUSTERS) % N_FOLDS
    return buckets_of(units) % N_FOLDS


# -- what all blocks of a table share --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Census:
    """The names, units and families in some rows: the codes that all blocks of a table share."""

    n_by_reviewer: Mapping[str, int]
    candidates: frozenset[str]
    units: frozenset[str]  # at most `N_CLUSTERS` + 1 of them: enough to see that there are more
    deals: frozenset[str]
    families: Mapping[str, frozenset[tuple[str, str]]]  # names with families, by side

    @property
    def names(self) -> tuple[str, ...]:
        """The names of reviewers and candidates, sorted."""
        return tuple(sorted({*self.n_by_reviewer, *self.candidates}))

    @property
    def panel(self) -> list[str]:
        """The reviewers with the most reviews."""
        n = self.n_by_reviewer
        return sorted(sorted(n, key=lambda name: (-n[name], name))[:N_PANEL])

    @property
    def family_by_name(self) -> Mapping[str, str] | None:
        """The family of each candidate, else of each reviewer; None if both sides have several."""
        for pairs in self.families.values():
            if len({name for name, _ in pairs}) == len(pairs):
                return dict(pairs)
        return None


def take_census(rows: Rows) -> Census:
    """Return the census of some rows."""
    n_by_code = np.bincount(rows.reviewer, minlength=len(rows.names)).tolist()
    there = np.flatnonzero(np.bincount(rows.candidate)).tolist()
    families = {}
    if "family" in rows.keys:
        for side in ("candidate", "reviewer"):
            families[side] = _family_pairs(rows, getattr(rows, side))
    return Census(
        {rows.names[code]: n for code, n in enumerate(n_by_code) if n},
        frozenset(rows.names[code] for code in there),
        frozenset(islice(dict.fromkeys(rows.unit.tolist()), N_CLUSTERS + 1)),
        frozenset(rows.labels_there("deal")),
        families,
    )


def _family_pairs(rows: Rows, who: Ints) -> frozenset[tuple[str, str]]:
    family, labels = rows.keys["family"], rows.labels["family"]
    known = family >= 0
    pairs = np.unique(who[known].astype(np.int64) * len(labels) + family[known])
    return frozenset(
        (rows.names[pair // len(labels)], labels[pair % len(labels)]) for pair in pairs
    )


def add_census(parts: Sequence[Census]) -> Census:
    """Return the merged census of several blocks."""
    if len(parts) == 1:
        return parts[0]
    n_by_reviewer: Counter[str] = Counter()
    families: dict[str, frozenset[tuple[str, str]]] = {}
    for part in parts:
        n_by_reviewer.update(part.n_by_reviewer)
        for side, pairs in part.families.items():
            families[side] = families.get(side, frozenset()) | pairs
    units = frozenset(chain.from_iterable(part.units for part in parts))
    return Census(
        n_by_reviewer,
        frozenset().union(*(part.candidates for part in parts)),
        units if len(units) <= N_CLUSTERS else frozenset(islice(units, N_CLUSTERS + 1)),
        frozenset().union(*(part.deals for part in parts)),
        families,
    )


def settle(rows: Rows, census: Census) -> Rows:
    """Return rows with the codes of names, clusters and deals that a census assigns."""
    names, keys, labels = census.names, dict(rows.keys), dict(rows.labels)
    reviewer, candidate = rows.reviewer, rows.candidate
    reviewer, candidate = (_recode(codes, rows.names, names) for codes in (reviewer, candidate))
    if "deal" in keys:
        deals = sorted(census.deals)
        keys["deal"] = _recode(keys["deal"], labels["deal"].tolist(), deals)
        labels["deal"] = np.array(deals, dtype=object)
    units = tuple(sorted(census.units)) if len(census.units) <= N_CLUSTERS else None
    family: Ints | None = None
    if "family" in keys and (of_name := census.family_by_name) is not None:
        code = {one: i for i, one in enumerate(sorted({one for one in of_name.values() if one}))}
        family = np.array([code.get(of_name.get(name, ""), -1) for name in names], dtype=np.int64)
    return replace(
        rows,
        names=names,
        reviewer=reviewer,
        candidate=candidate,
        keys=keys,
        labels=labels,
        cluster=clusters_among(rows.unit.tolist(), units),
        n_clusters=N_CLUSTERS if units is None else len(units),
        units=units,
        family=family,
        panel=np.array([names.index(name) for name in census.panel], dtype=np.int64),
    )


def clusters_among(unit: Sequence[str], units: tuple[str, ...] | None) -> Ints:
    """Return the cluster of each session by its unit; all blocks share the list of units."""
    return buckets_of(unit) if units is None else _places(unit, units)


def _places(some: Sequence[str], every: Sequence[str]) -> Ints:
    """Return the index of each text in a list; −1 if it is not in it."""
    place = {name: i for i, name in enumerate(every)}
    return np.array([place.get(name, -1) for name in some], dtype=np.int64)


def join_rows(parts: Sequence[Rows]) -> Rows:
    """Return several blocks as one, not settled; a session may be in several blocks."""
    if len(parts) == 1:
        return parts[0]
    names = tuple(sorted({name for part in parts for name in part.names}))
    first, *others = parts
    ids, units = first.session_ids.tolist(), first.unit.tolist()
    # The first part may be large and the others small, so only the others' sessions are looked up.
    theirs = {id_ for part in others for id_ in part.session_ids.tolist()}
    place = {id_: i for i, id_ in enumerate(ids) if id_ in theirs}
    for part in others:
        for id_, unit in zip(part.session_ids.tolist(), part.unit.tolist(), strict=True):
            if id_ not in place:
                place[id_] = len(ids)
                ids.append(id_)
                units.append(unit)
            units[place[id_]] = unit
    sessions = [
        np.array([place[id_] for id_ in part.session_ids.tolist()], dtype=np.int64)
        for part in others  # the array of an empty part would be of floats
    ]
    keys = {key: _join_key(parts, key) for key in dict.fromkeys(k for p in parts for k in p.keys)}
    numbers = dict.fromkeys(name for part in parts for name in part.numbers)
    rows = Rows(
        names=names,
        n_clusters=1,
        cluster=np.zeros(len(ids), dtype=np.int64),
        session=np.concatenate(
            [first.session, *(at[p.session] for at, p in zip(sessions, others, strict=True))]
        ),
        reviewer=np.concatenate([_recode(part.reviewer, part.names, names) for part in parts]),
        candidate=np.concatenate([_recode(part.candidate, part.names, names) for part in parts]),
        numbers={name: np.concatenate([part.number(name) for part in parts]) for name in numbers},
        keys={key: codes for key, (codes, _) in keys.items()},
        labels={key: labels for key, (_, labels) in keys.items()},
        session_ids=np.array(ids, dtype=object),
        unit=np.array(units, dtype=object),
    )
    return in_runs(rows)


def _recode(codes: Ints, old: Sequence[str], new: Sequence[str]) -> Ints:
    """Return codes translated to another list of texts; −1 for null."""
    return codes if old == new else np.append(_places(old, new), -1)[codes]


def _join_key(parts: Sequence[Rows], key: str) -> tuple[Ints, Texts]:
    """Return the codes of a text column in all parts, and the sorted texts."""
    known = [part.labels[key].tolist() if key in part.labels else [] for part in parts]
    every = sorted(set(chain.from_iterable(known)))
    codes = [
        _recode(part.keys[key], some, every) if some else np.full(part.n, -1)
        for part, some in zip(parts, known, strict=True)
    ]
    return np.concatenate(codes), np.array(every, dtype=object)


def in_runs(rows: Rows) -> Rows:
    """Return the rows ordered so that those of each session are adjacent."""
    if (rows.session[1:] >= rows.session[:-1]).all():
        return rows
    return select(rows, np.argsort(rows.session, kind="stable"))


def ballot_codes(rows: Rows) -> list[tuple[Ints, int]]:
    """Return the codes that identify a ballot: session, reviewer and, if several, round."""
    codes = [(rows.session, rows.n_sessions), (rows.reviewer, len(rows.names))]
    if has_rounds(rows):
        codes.append(round_codes(rows))
    return codes


def round_codes(rows: Rows) -> tuple[Ints, int]:
    """Return the round of each row as a code, and the number of rounds."""
    rounds = rows.numbers["round"]
    known = np.isfinite(rounds)
    after_all = rounds[known].max(initial=0.0) + 1.0  # reviews without a round are one more
    rounds = np.where(known, rounds, after_all)
    if (rounds == np.trunc(rounds)).all():
        return dense(rounds.astype(np.int64))
    distinct, code = np.unique(rounds, return_inverse=True)
    return code, len(distinct)


def has_rounds(rows: Rows) -> bool:
    """Return whether the rows belong to several rounds."""
    rounds = rows.numbers.get("round")
    if rounds is None or len(rounds) == 0:
        return False
    if np.isnan(rounds[0]):
        return not np.isnan(rounds).all()
    return bool((rounds != rounds[0]).any())


def has_duplicates(rows: Rows) -> bool:
    """Return whether a reviewer judged one answer twice in one round."""
    codes = [*ballot_codes(rows), (rows.candidate, len(rows.names))]
    return bool((group(*codes).count() > 1).any())
