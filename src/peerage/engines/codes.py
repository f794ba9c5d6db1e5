"""Texts into codes on their way out of DuckDB: hashes leave, and small numbers arrive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from peerage.engines import Reading
from peerage.engines.sql import Sql, listed, quoted, sql
from peerage.reviews.rows import Ints, Rows, clusters_of

if TYPE_CHECKING:
    import duckdb

    Relation = duckdb.DuckDBPyRelation

MODULI = (251, 1_021, 4_093, 16_381, 65_521)  # remainders that fit in two bytes


def projection(reading: Reading, modulus: int | None) -> Sql:
    """Narrow columns: hashes for what is only compared, floats for the rest."""
    parts = [sql("hash(session_id) as session_id")]
    for person in map(quoted, ("reviewer", "candidate")):
        if modulus is None:
            parts.append(sql("hash({0}) as {0}", person))
        else:
            parts.append(sql("cast(hash({0}) % {1} as usmallint) as {0}", person, modulus))
    parts += [sql("cast({0} as double) as {0}", quoted(name)) for name in reading.numbers]
    parts += [
        sql("hash({0}) as {0}, {0} is null as {1}", quoted(name), quoted(f"no_{name}"))
        for name in reading.keys
    ]
    parts += [sql("text")] if reading.text else []
    return listed(parts)


class Encoder:
    """Hashes into codes. The hash is DuckDB's own and never leaves: it only finds equal texts."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, relation: Relation, reading: Reading
    ) -> None:
        self.reading = reading
        self._sessions: _Codes | None = None
        self.n_clusters = 1
        if reading.clusters:
            self._sessions, units = _sessions(relation, reading)
            self.cluster, self.n_clusters = clusters_of(units)
        code = {name: i for i, name in enumerate(reading.names)}
        self.names = _Codes(reading.names, _hashes(connection, reading.names))
        self._deals = _deals(relation) if "deal" in reading.keys else None
        families = sorted({name for name in reading.family_by_name.values() if name})
        self.family = np.array(
            [
                families.index(family) if (family := reading.family_by_name.get(name)) else -1
                for name in reading.names
            ]
        )
        self.panel = np.array([code[name] for name in reading.panel], dtype=np.int64)

    def rows(self, arrays: Mapping[str, NDArray[np.generic]]) -> Rows:
        session, cluster = self._session(np.asarray(arrays["session_id"], dtype=np.uint64))
        return Rows(
            names=self.reading.names,
            n_clusters=self.n_clusters,
            cluster=cluster,
            session=session,
            reviewer=self.names(arrays["reviewer"]),
            candidate=self.names(arrays["candidate"]),
            numbers={name: floats(arrays[name]) for name in self.reading.numbers},
            keys={name: self._key(name, arrays) for name in self.reading.keys},
            text=filled(arrays["text"]) if self.reading.text else None,
            family=self.family if self.reading.family_by_name else None,
            panel=self.panel,
        )

    def _session(self, hashes: NDArray[np.uint64]) -> tuple[Ints, Ints]:
        """Dense codes of the sessions in a block, and their clusters; cheap for rows in runs."""
        starts = np.r_[True, hashes[1:] != hashes[:-1]] if len(hashes) else np.zeros(0, dtype=bool)
        runs = hashes[starts]
        kept, first, code = np.unique(runs, return_index=True, return_inverse=True)
        place = np.empty(len(kept), dtype=np.int64)
        place[np.argsort(first)] = np.arange(len(kept))  # in the order they appear: in runs, sorted
        session = np.repeat(place[code], np.diff(np.append(np.flatnonzero(starts), len(hashes))))
        if self._sessions is None:
            return session, np.zeros(len(kept), dtype=np.int64)
        return session, self.cluster[self._sessions(runs[np.sort(first)])]

    def _key(self, name: str, arrays: Mapping[str, NDArray[np.generic]]) -> NDArray[np.int64]:
        hashes = np.asarray(arrays[name], dtype=np.uint64)
        null = np.asarray(arrays[f"no_{name}"], dtype=bool)
        if name == "deal" and self._deals is not None:
            return np.where(null, -1, self._deals(hashes, null))
        return np.where(null, -1, (hashes >> np.uint64(1)).astype(np.int64))


def _sessions(relation: Relation, reading: Reading) -> tuple[_Codes, list[str]]:
    """The codes of the sessions, and the unit that each is an observation of."""
    unit = reading.unit(sql("min(query_id)"))
    columns = sql("session_id as text, hash(session_id) as hash, {} as unit", unit)
    found = relation.aggregate(columns, "session_id").fetchnumpy()
    codes = _Codes(found["text"].tolist(), np.asarray(found["hash"], dtype=np.uint64))
    return codes, found["unit"].tolist()


def _deals(relation: Relation) -> _Codes:
    """The codes of the deals: the place of each among those that there are."""
    found = (
        relation.filter("deal is not null")
        .project("deal as text, hash(deal) as hash")
        .distinct()
        .fetchnumpy()
    )
    return _Codes(found["text"].tolist(), np.asarray(found["hash"], dtype=np.uint64))


def _hashes(connection: duckdb.DuckDBPyConnection, texts: Sequence[str]) -> NDArray[np.uint64]:
    """DuckDB's hash of each text."""
    found = connection.execute(
        "select hash(text) as hash from (select unnest(cast(? as varchar[])) as text)",
        [list(texts)],
    ).fetchnumpy()
    return np.asarray(found["hash"], dtype=np.uint64)


class _Codes:
    """From hashes of texts to the places of the texts in a list."""

    def __init__(self, texts: Sequence[str], hashes: NDArray[np.uint64]) -> None:
        self.texts = texts
        self._codes = np.argsort(hashes)
        self._hashes = hashes[self._codes]
        self.modulus = next((m for m in MODULI if _apart(hashes, m)), None)
        if self.modulus is not None:
            self._table = np.zeros(self.modulus, dtype=np.int64)
            self._table[(hashes % np.uint64(self.modulus)).astype(np.int64)] = np.arange(len(texts))

    def __call__(
        self, hashes: NDArray[Any], null: NDArray[np.bool_] | None = None
    ) -> NDArray[np.int64]:
        if len(self._hashes) == 0:
            return np.full(len(hashes), -1, dtype=np.int64)
        if hashes.dtype == np.uint16:  # remainders, which keep these few texts apart
            return self._table.take(hashes)
        place = np.searchsorted(self._hashes, hashes)
        if null is not None:
            place = np.where(null, 0, place)
        return self._codes[place]


def _apart(hashes: NDArray[np.uint64], modulus: int) -> bool:
    """Whether no two hashes have the same remainder."""
    few = len(hashes) ** 2 < 64 * modulus  # else there is no hope, by the birthday rule
    return few and len(np.unique(hashes % np.uint64(modulus))) == len(hashes)


def filled(values: Any) -> NDArray[Any]:
    """Masked values as NaN, or as None among objects."""
    if not isinstance(values, np.ma.MaskedArray):
        return np.asarray(values)
    if values.dtype.kind == "O":
        out: NDArray[Any] = np.array(values.data, dtype=object)
        out[np.ma.getmaskarray(values)] = None  # filled(None) would fill in a question mark
        return out
    return floats(values)


def floats(values: Any) -> NDArray[np.float64]:
    if isinstance(values, np.ma.MaskedArray):
        filled: NDArray[np.float64] = np.ma.filled(values.astype(np.float64), np.nan)
        return filled
    return np.asarray(values, dtype=np.float64)
