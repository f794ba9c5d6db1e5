"""Judgements made elsewhere into a store, a file whole or not at all; `exports` is the way out."""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from peerage.engines.duckdb import DuckDB
from peerage.engines.intake import as_parquet, in_little_memory
from peerage.errors import InputError, UsageError
from peerage.events import Opened, read_events
from peerage.imports.exports import EXPORT_FORMAT, GIVEN_FILES, Manifest
from peerage.imports.session_files import documents, exported_events, read_document, take_sessions
from peerage.imports.table_files import check, chunks, flags_of, reviews_of, trimmed, write
from peerage.reports.stored_reviews import import_file_name
from peerage.reviews.columns import KEYS
from peerage.shapes import WrongShapeError, from_json
from peerage.stores import Contribution, Import, Store
from peerage.types import Event

KINDS = (*KEYS, "sessions")
DIGEST = re.compile("[0-9a-f]{64}")

Step = Callable[[str], None]  # is told what is done next, for whoever is watching


@dataclass(frozen=True, slots=True)
class Taken:
    """What was imported from one file, and what is odd about it without being wrong."""

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
            raw, merged = trimmed(engine, raw, Path(folder) / "trimmed.parquet")
            table = raw
            if kind == "reviews":
                table = reviews_of(engine, raw, digest, Path(folder) / "reviews.parquet")
            check(engine, store, kind, table, scale)
            step("sorting")
            n = write(engine, table, checked, at, KEYS[kind], may_sort)
            return n, (*merged, *flags_of(engine, kind, raw, checked, at))

        n, flags = in_little_memory(Path(folder), path, work)
        step("storing")
        store.add_import(Import(kind, digest, path.name, n, at), chunks(checked))
    return Taken(path.name, kind, n, flags=flags)


def _digest(path: Path) -> str:
    with path.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


# -- a whole store from a folder ----------------------------------------------------------------


def take_export(
    store: Store,
    folder: Path,
    step: Step = lambda _: None,
    scale: Sequence[float] = (-1.0, 1.0),
) -> list[Taken]:
    """Import the sessions and tables of an export; what is in the store already stays."""
    known = {(entry.kind, entry.hash) for entry in store.imports()}
    entries = _manifest(folder)
    new = [entry for entry in entries if (entry.kind, entry.hash) not in known]
    given = [one for name in GIVEN_FILES.values() for one in _contributions(folder / name)]
    step("checking")
    for entry in new:
        if entry.kind != "sessions":
            _check_exported(store, entry.kind, folder / import_file_name(entry), scale)
    for kind in {one.kind for one in given}:
        _check_exported(store, kind, folder / GIVEN_FILES[kind], scale)
    step("storing")
    events = list(_events_not_in(store, folder / "sessions.jsonl"))
    opened = [fact for fact in read_events(events) if isinstance(fact, Opened)]
    seeds = {one.season: one.seed for one in opened if one.season}
    store.append_all(events)
    for season, seed in seeds.items():
        store.season_seed(season, seed)
    for entry in new:
        held = () if entry.kind == "sessions" else chunks(folder / import_file_name(entry))
        store.add_import(entry, held)
    store.add_contributions(given)
    n = len({event.session_id for event in events})
    return [
        Taken("sessions.jsonl", "sessions", n, "sessions", already=not n),
        *(Taken(e.name, e.kind, e.n_rows, unit_of(e.kind), e not in new) for e in entries),
    ]


def _manifest(folder: Path) -> list[Import]:
    """The tables that an export says it holds."""
    place = folder / "export.json"
    if not place.is_file():
        raise InputError(
            "this folder is no export: there is no export.json in it.",
            place=str(folder),
            hint="Name files, and say --as what.",
        )
    try:
        manifest = from_json(Manifest, read_document(place.read_bytes(), str(place)))
    except WrongShapeError as error:
        raise InputError(f"this is no list of tables: {error}.", place=str(place)) from None
    if manifest.format != EXPORT_FORMAT:
        raise InputError(f"format {manifest.format} is not known.", place=str(place))
    entries = [replace(entry, id=0) for entry in manifest.imports]
    for entry in entries:
        if entry.kind not in KINDS or not DIGEST.fullmatch(entry.hash) or entry.n_rows < 0:
            raise InputError(
                f"{entry.kind[:80]!r} of {entry.name[:80]!r} is no table of an export.",
                place=str(place),
            )
    return entries


def _contributions(path: Path) -> list[Contribution]:
    """What people gave one at a time, of an export; nothing where it has no such file."""
    if not path.is_file():
        return []
    try:
        found = [from_json(Contribution, read()) for _, read in documents(path)]
    except WrongShapeError as error:
        raise InputError(f"this is no list of contributions: {error}.", place=str(path)) from None
    if any(GIVEN_FILES.get(one.kind) != path.name for one in found):
        raise InputError("this is no list of contributions.", place=str(path))
    return found


def _check_exported(store: Store, kind: str, file: Path, scale: Sequence[float]) -> None:
    """Refuse a table that is not there, not right, or not right together with what is."""
    if not file.is_file():
        raise InputError("a table of the export is missing.", place=str(file))
    with tempfile.TemporaryDirectory() as folder:

        def work(engine: DuckDB, _: bool) -> None:
            raw = as_parquet(engine, file, Path(folder) / "raw.parquet")
            check(engine, store, kind, raw, scale)

        in_little_memory(Path(folder), file, work)


def _events_not_in(store: Store, path: Path) -> Iterator[Event]:
    """The events of an export's sessions, less those of sessions that a store has."""
    if not path.is_file():
        raise InputError("the sessions of the export are missing.", place=str(path))
    for place, read in documents(path):
        document = read()
        id_ = document.get("session_id") if isinstance(document, Mapping) else None
        if not isinstance(id_, str) or not store.events(id_):
            yield from exported_events(document, place)
