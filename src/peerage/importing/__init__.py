"""Judgements made elsewhere, taken in whole or not at all, and each file only once."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from peerage.engines.duckdb import DuckDB
from peerage.engines.intake import as_parquet, in_little_memory
from peerage.errors import InputError, UsageError
from peerage.importing.sessions import take_sessions
from peerage.importing.tables import check, chunks, flags_of, write
from peerage.reviews.columns import KEYS
from peerage.stores import Import, Store

KINDS = (*KEYS, "sessions")

Step = Callable[[str], None]  # is told what is done next, for whoever is watching


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of one file, and what is odd about it without being wrong."""

    name: str
    kind: str
    n: int
    unit: str = "rows"
    already: bool = False
    flags: tuple[str, ...] = ()


def unit_of(kind: str) -> str:
    return "sessions" if kind == "sessions" else "rows"


def take(
    store: Store,
    path: Path,
    kind: str,
    clock: Callable[[], float],
    scale: Sequence[float] = (-1.0, 1.0),
    step: Step = lambda _: None,
) -> Taken:
    """Import one file of a kind; an error leaves the store as it was."""
    if kind not in KINDS:
        raise UsageError(f"cannot import as {kind!r}.", hint=f"Known: {', '.join(KINDS)}.")
    if not path.is_file():
        raise InputError("there is no such file.", place=str(path))
    step("reading")
    digest = _digest(path)
    known = next((i for i in store.imports() if (i.kind, i.hash) == (kind, digest)), None)
    if known is not None:
        return Taken(path.name, kind, known.n_rows, unit_of(kind), already=True)
    at = clock()
    if kind == "sessions":
        return Taken(path.name, kind, take_sessions(store, path, digest, at), "sessions")
    with tempfile.TemporaryDirectory() as folder:
        checked = Path(folder) / "checked.parquet"

        def work(engine: DuckDB, may_sort: bool) -> tuple[int, tuple[str, ...]]:
            raw = as_parquet(engine, path, Path(folder) / "raw.parquet")
            step("checking")
            check(engine, store, kind, raw, scale)
            step("sorting")
            n = write(engine, raw, checked, at, KEYS[kind], may_sort)
            return n, flags_of(engine, kind, raw, checked, at)

        n, flags = in_little_memory(Path(folder), path, work)
        step("storing")
        store.add_import(Import(kind, digest, path.name, n, at), chunks(checked))
    return Taken(path.name, kind, n, flags=flags)


def _digest(path: Path) -> str:
    with path.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()
