"""Running sums of a store's reviews: what a board needs, kept by day and added to.

A board of a large store is then made without reading a review: only the day in which its
window begins is looked at again. The sums are no truth of their own. They say which rows of
the log and which imports they cover, and are made anew whenever that does not fit.
"""

from __future__ import annotations

import hashlib
import json
import math
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from peerage.boards.model_sums import Cells, Plan, Spread, Sums, add, one_slice
from peerage.boards.recoding import Recoding
from peerage.engines.mirror import replace_file
from peerage.standings.table import Table
from peerage.standings.terms import Terms

if TYPE_CHECKING:
    from peerage.boards.ballots import Ints

FORMAT = 2
DAY_S = 86_400.0
MAX_PERIODS = 64  # then periods of twice the length do
NOTHING = np.zeros(0, dtype=np.uint64)


@dataclass(frozen=True, slots=True)
class Facts:
    """What the first look at the reviews showed, of all files together."""

    columns: tuple[str, ...] = ()
    n_rows: int = 0
    not_finite: int = 0
    latest: float | None = None
    models: tuple[str, ...] = ()
    reviewers: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted({*self.models, *self.reviewers}))

    def __or__(self, other: Facts) -> Facts:
        times = [one for one in (self.latest, other.latest) if one is not None]
        return Facts(
            tuple(dict.fromkeys((*self.columns, *other.columns))),
            self.n_rows + other.n_rows,
            self.not_finite + other.not_finite,
            max(times, default=None),
            tuple(sorted({*self.models, *other.models})),
            tuple(sorted({*self.reviewers, *other.reviewers})),
        )


@dataclass(frozen=True, slots=True)
class Running:
    """Sums by period over everything that was added, under one law."""

    sums: Sums | None = None
    facts: Facts = Facts()
    first: int = 0  # the first period, counted from 1970
    days: int = 1  # in a period
    sessions: NDArray[np.uint64] = field(default_factory=lambda: NOTHING)  # digests, sorted
    covers: tuple[str, ...] = ()
    synced_to: int = 0
    usable: bool = True  # False: reviews that cannot be kept by period, so nothing is kept
    law: Mapping[str, Any] = field(default_factory=dict)  # the terms that the sums depend on
    edges: Mapping[str, Sums | None] = field(default_factory=dict)  # by `since`: see `within`

    @property
    def n_periods(self) -> int:
        return 0 if self.sums is None else len(self.sums.n_sessions)

    @property
    def width_s(self) -> float:
        return self.days * DAY_S

    def within(self, earliest: float | None) -> tuple[Sums | None, tuple[float, float] | None]:
        """The sums of the periods after a time, as one slice, and the period it falls into.

        What of that period is in the window, its edge, takes a look at the rows; windows that
        were asked for keep theirs, until something is added.
        """
        assert self.sums is not None  # noqa: S101 — a board of nothing is not made here
        at = 0 if earliest is None else int(earliest // self.width_s) - self.first
        cut = None
        if earliest is not None and at >= 0:
            start = (self.first + at) * self.width_s
            cut = None if start == earliest else (start, start + self.width_s)
        kept = max(0, at if cut is None else at + 1)
        if kept >= self.n_periods:
            return None, cut
        return one_slice(self.sums, slice(kept, None)), cut


def added(running: Running, table: Table, plan: Plan) -> Running:
    """The running sums with one more table, which shares no session with the others."""
    look = _look(table)
    digests = _digests(look.sessions)
    again = np.isin(digests, running.sessions, assume_unique=True).any()
    if not running.usable or not look.timed or again:
        return replace(running, usable=False)
    facts = running.facts | _facts(table)
    days = _days(running, look.first, look.last)
    first, last = (int(t // (days * DAY_S)) for t in (look.first, look.last))
    plan = replace(plan, n_slices=last - first + 1, periods=(first * days * DAY_S, days * DAY_S))
    new = table.sums(plan)
    begin = first if running.sums is None else min(first, _scaled(running.first, running, days))
    end = max(last, _scaled(running.first + running.n_periods - 1, running, days))
    n_slices = end - begin + 1 if running.sums is not None else last - first + 1
    parts = [_moved(new, np.arange(last - first + 1) + first - begin, n_slices, table, facts)]
    if running.sums is not None:
        old = _scaled(running.first + np.arange(running.n_periods), running, days) - begin
        parts.insert(0, _moved(running.sums, old, n_slices, running.facts, facts))
    return replace(
        running,
        sums=add(parts),
        facts=facts,
        first=begin,
        days=days,
        sessions=np.union1d(running.sessions, digests),
        edges=dict.fromkeys(running.edges),
    )


# -- the parts ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Look:
    sessions: Sequence[str]
    first: float
    last: float
    timed: bool  # every session has a time, and one only


def _look(table: Table) -> _Look:
    """When each session of a table was held."""
    import narwhals.stable.v2 as nw

    if "at" not in table.columns:
        return _Look((), 0.0, 0.0, timed=False)
    found = table.engine.arrays(
        table.frame.group_by("session_id").agg(
            nw.col("at").min().alias("first"),
            nw.col("at").max().alias("last"),
            nw.col("at").count().alias("held"),
            nw.len().alias("n"),
        )
    )
    timed = (found["first"] == found["last"]) & (found["held"] == found["n"])
    return _Look(
        found["session_id"].tolist(),
        float(np.min(found["first"])),
        float(np.max(found["last"])),
        timed=bool(timed.all()),
    )


def _digests(sessions: Sequence[str]) -> NDArray[np.uint64]:
    """Eight bytes of each id, in order."""
    raw = b"".join(hashlib.blake2b(one.encode(), digest_size=8).digest() for one in sessions)
    return np.unique(np.frombuffer(raw, dtype=np.uint64))


def _facts(table: Table) -> Facts:
    seen = table.reviews
    return Facts(
        seen.columns, seen.n_rows, seen.not_finite, seen.latest, table.models, table.reviewers
    )


def _days(running: Running, first: float, last: float) -> int:
    """The shortest periods of which few enough span everything."""
    days = running.days
    if running.sums is not None:
        first = min(first, running.first * running.width_s)
        last = max(last, (running.first + running.n_periods) * running.width_s - 1.0)
    while last // (days * DAY_S) - first // (days * DAY_S) >= MAX_PERIODS:
        days *= 2
    return days


def _scaled(period: Any, running: Running, days: int) -> Any:
    """Which of the longer periods holds a period."""
    return period * running.days // days


def _moved(sums: Sums, slices: Ints, n_slices: int, had: Table | Facts, facts: Facts) -> Sums:
    return Recoding(
        slices,
        np.searchsorted(np.array(facts.models), np.array(had.models)),
        np.searchsorted(np.array(facts.names), np.array(had.names)),
        n_slices,
        len(facts.models),
        len(facts.names),
    )(sums)


# -- on disk -----------------------------------------------------------------------------------

ARRAYS = ("by_model", "n_sessions", "n_rows", "n_odd", "n_names", "wins", "ties", "lengths")
PLAIN = ("first", "days", "covers", "synced_to", "usable", "law")
SPREADS = ("share", "value")
CELLS = ("pulls", "scores")


LAW = ("own_votes", "rule", "interval", "matrix", "compare_rules", "length_controlled")


def law_of(asked: Terms) -> dict[str, Any]:
    """What the sums for some terms depend on; windows and the like only choose among them."""
    return {name: getattr(asked, name) for name in LAW}


def file_of(folder: Path, law: Mapping[str, Any]) -> Path:
    digest = hashlib.sha256(json.dumps(law, sort_keys=True).encode()).hexdigest()
    return folder / f"running-v{FORMAT}-{digest[:12]}.sums"


def files_in(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"running-v{FORMAT}-*.sums"))


def saved(running: Running, path: Path) -> None:
    """Keeps the running sums, whole or not at all."""
    about = {
        "facts": asdict(running.facts),
        "edges": list(running.edges),
        **{name: getattr(running, name) for name in PLAIN},
    }
    arrays: dict[str, Any] = {"sessions": running.sessions, **_packed(running.sums, "")}
    for since, edge in running.edges.items():
        arrays |= _packed(edge, f"{since} ")
    _write(path, about, {name: np.asarray(values) for name, values in arrays.items()})


def loaded(path: Path) -> Running:
    """The running sums of a file, or empty ones."""
    try:
        about, arrays = _read(path)
    except (OSError, ValueError, LookupError, TypeError):
        return Running()
    return Running(
        _unpacked(arrays, ""),
        Facts(**_tuples(about["facts"])),
        sessions=arrays["sessions"],
        edges={since: _unpacked(arrays, f"{since} ") for since in about["edges"]},
        **_tuples({name: about[name] for name in PLAIN}),
    )


def _write(path: Path, about: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """A line of JSON that says what follows, then every array's bytes: one read opens them all."""
    held = {name: np.asarray(values, order="C") for name, values in arrays.items()}
    shapes = {name: (values.dtype.str, values.shape) for name, values in held.items()}
    parts = [values.tobytes() for values in held.values()]
    check = reduce(lambda sum_, part: zlib.crc32(part, sum_), parts, 0)
    head = json.dumps({"about": about, "arrays": shapes, "crc32": check}).encode()
    head += b" " * (-(len(head) + 1) % 8) + b"\n"  # numbers begin where a processor likes them
    with suppress(OSError):  # a folder that cannot be written: the sums are made again next time
        replace_file(path, [head, *parts])


def _read(path: Path) -> tuple[Any, dict[str, NDArray[Any]]]:
    data = path.read_bytes()
    at = data.find(b"\n") + 1
    head = json.loads(data[:at])
    if zlib.crc32(memoryview(data)[at:]) != head["crc32"]:
        raise ValueError("these are not the sums that were written")
    arrays: dict[str, NDArray[Any]] = {}
    for name, (kind, shape) in head["arrays"].items():
        size = math.prod(shape)
        arrays[name] = np.frombuffer(data, kind, size, at).reshape(shape)
        at += arrays[name].nbytes
    return head["about"], arrays


def _tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}


def _packed(sums: Sums | None, prefix: str) -> dict[str, Any]:
    """The arrays of some sums by name; those that are not there are left out."""
    if sums is None:
        return {}
    found = {name: getattr(sums, name) for name in ARRAYS}
    found |= {name: getattr(sums, name).products for name in SPREADS if getattr(sums, name)}
    for name in CELLS:
        if (cells := getattr(sums, name)) is not None:
            found |= {f"{name}_key": cells.key, f"{name}_sums": cells.sums}
    return {prefix + name: values for name, values in found.items() if values is not None}


def _unpacked(arrays: Mapping[str, Any], prefix: str) -> Sums | None:
    found = {
        name.removeprefix(prefix): values
        for name, values in arrays.items()
        if name.startswith(prefix)
    }
    if "by_model" not in found:
        return None
    held: dict[str, Any] = {name: found[name] for name in ARRAYS if name in found}
    held |= {name: Spread(products=found[name]) for name in SPREADS if name in found}
    held |= {
        name: Cells(found[f"{name}_key"], found[f"{name}_sums"])
        for name in CELLS
        if f"{name}_key" in found
    }
    return Sums(**{**held, "n_names": int(found["n_names"])})
