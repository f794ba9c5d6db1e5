"""Import judgements into a store, each file completely or not at all, and export a store."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from peerage.ballot_files import is_rankings, read_json, session_of
from peerage.config.rubrics import shipped_names
from peerage.embedded import is_file, real_path
from peerage.engines.duckdb import DuckDB, kinds_of, translate_errors
from peerage.engines.intake import as_parquet, in_little_memory
from peerage.engines.sql import join_sql, quote_name, sql
from peerage.errors import InputError, PeerageError, UsageError, meant, shown
from peerage.events import (
    KIND_BY_TYPE,
    STORED_KINDS,
    Answered,
    Dealt,
    DealtBallot,
    Finished,
    Opened,
    Reviewed,
    ScoringRecord,
    SeatRecord,
    Stored,
    event_document,
    is_deleted,
    is_over,
    read_event,
    read_events,
    stored_event,
)
from peerage.imports.files import format_of
from peerage.imports.formats import Format, Repeats, convert
from peerage.imports.table_files import (
    check,
    chunks,
    flags_of,
    reviews_of,
    trim_names,
    without_import_times,
    write,
)
from peerage.reports.stored_reviews import (
    MAX_NAME_CHARACTERS,
    check_row,
    import_file_name,
    review_rows,
)
from peerage.reviews.columns import KEYS
from peerage.shapes import MAX_INTEGER, WrongShapeError, from_json, to_json
from peerage.stores import Contribution, Import, Store
from peerage.text import valid_text
from peerage.types import Event, Session
from peerage.view import fold

KINDS = (*KEYS, "sessions")
OPENED = KIND_BY_TYPE[Opened]
MAX_EVENTS = 10_000  # of one session
MAX_DEPTH = 32  # of a document: a session needs seven
N_SHOWN = 10
DIGEST = re.compile("[0-9a-f]{64}")
EXPORT_FORMAT = 1
MANIFEST = "export.json"
DELETED = (
    "the file was imported and deleted before, and boards leave it out; to restore it: "
    "peerage delete"
)
GIVEN_FILES = {"items": "given-items.jsonl", "opinions": "given-opinions.jsonl"}  # one at a time
TABLE_FORMATS = {  # by suffix, how a table is written to a file
    ".parquet": "copy exported to ? (format parquet, compression zstd)",
    ".csv": "copy exported to ? (format csv, header)",
    ".jsonl": "copy exported to ? (format json)",
}

Step = Callable[[str], None]  # is told what is done next, for whoever is watching


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The result of importing one file, with flags for oddities that are not errors."""

    name: str
    kind: str
    n: int
    unit: str = field(init=False)
    already: bool = False
    flags: tuple[str, ...] = ()
    format: str = ""  # the name of the format that the file was read as

    def __post_init__(self) -> None:
        object.__setattr__(self, "unit", "sessions" if self.kind == "sessions" else "rows")


def take(
    store: Store,
    path: Path,
    name: str | None,
    clock: Callable[[], float],
    scale: Sequence[float] = (-1.0, 1.0),
    step: Step = lambda _: None,
    rubrics: Collection[str] = (),
    columns: str = "",
    listed_as: str = "",
) -> ImportResult:
    """Import one file of the named format, or of the one it looks like.

    An error leaves the store unchanged. Sessions may use the shipped rubrics and those in
    `rubrics`. `columns` maps the columns of a table of unknown format. `listed_as` replaces the
    file name in the list of imports.
    """
    if not is_file(path):
        raise InputError("the file does not exist.", place=str(path))
    step("reading")
    file_format = format_of(path, name, columns)
    kind, listed_as = file_format.kind, listed_as or path.name
    digest = _digest_of(path)
    known = next((i for i in store.imports() if (i.kind, i.hash) == (kind, digest)), None)
    if known is not None:
        undo = f"{DELETED} --import {known.id} --undo"
        deleted = (undo,) if known.deleted_at is not None else ()
        return ImportResult(
            listed_as, kind, known.n_rows, already=True, flags=deleted, format=file_format.name
        )
    at = clock()
    if kind == "sessions":
        n = take_sessions(store, path, digest, at, rubrics, listed_as)
        return ImportResult(listed_as, kind, n, format=file_format.name)
    with _checked_table(store, path, file_format, at, scale, step) as (target, n, flags):
        step("storing")
        store.add_import(Import(kind, digest, listed_as, n, at), chunks(target))
    return ImportResult(listed_as, kind, n, flags=flags, format=file_format.name)


def _digest_of(path: Path) -> str:
    with path.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


@contextmanager
def _checked_table(
    store: Store, path: Path, file_format: Format, at: float, scale: Sequence[float], step: Step
) -> Iterator[tuple[Path, int, tuple[str, ...]]]:
    """Yield a table as checked Parquet, with its number of rows and flags for oddities."""
    kind, digest = file_format.kind, _digest_of(path)
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "checked.parquet"
        repeats = Repeats()
        converted = convert(path, file_format, Path(folder) / "converted", repeats)

        def work(engine: DuckDB, may_sort: bool) -> tuple[int, tuple[str, ...]]:
            raw = as_parquet(engine, converted, Path(folder) / "raw.parquet")
            step("checking")
            raw, merged = trim_names(engine, raw, Path(folder) / "trimmed.parquet")
            table = raw
            if kind == "reviews":
                table = reviews_of(engine, raw, digest, Path(folder) / "reviews.parquet")
            check(engine, store, kind, table, scale)
            step("sorting")
            n = write(engine, table, target, KEYS[kind], may_sort)
            return n, (*merged, *flags_of(engine, kind, raw, target, at))

        n, flags = in_little_memory(Path(folder), path, work)
        warnings = file_format.warn(path) if file_format.warn is not None else ()
        yield target, n, (*warnings, *repeats.sentences(), *flags)


@dataclass(frozen=True, slots=True)
class ImportPreview:
    """A preview of an import: the rows it would store, or why it cannot be imported."""

    kind: str
    n: int
    unit: str
    format: str = ""  # the name of the format that the file is read as
    columns: tuple[str, ...] = ()
    first: tuple[Mapping[str, Any], ...] = ()  # rows as they would be stored
    flags: tuple[str, ...] = ()
    problem: str = ""


def preview(
    store: Store, path: Path, name: str | None, scale: Sequence[float], at: float
) -> ImportPreview:
    """Read a file as an import would, store nothing, and return what was understood."""
    kind = unit = "rows"
    try:
        file_format = format_of(path, name, "")
        kind = file_format.kind
        unit = "sessions" if kind == "sessions" else "rows"
        if kind == "sessions":
            lines = [_session_line(place, read()) for place, read in documents(path)]
            names = ("query", "answers")
            shown_lines = tuple(lines[:N_SHOWN])
            return ImportPreview(kind, len(lines), unit, file_format.name, names, shown_lines)
        table = _checked_table(store, path, file_format, at, scale, lambda _: None)
        with table as (target, n, flags):
            engine = DuckDB(folders=(target.parent,))
            columns = engine.arrays(engine.open([target]).head(N_SHOWN))
            first = _first_rows(columns)
            return ImportPreview(kind, n, unit, file_format.name, tuple(columns), first, flags)
    except PeerageError as error:
        problem = str(error).replace(str(path), "the file")
        return ImportPreview(kind, 0, unit, problem=problem)


def _session_line(place: str, document: Any) -> Mapping[str, Any]:
    session = fold(_events_in(document, place, "preview", 0.0))
    return {"query": session.query.text, "answers": len(session.responses)}


def _first_rows(columns: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    values = [column.tolist() for column in columns.values()]
    rows = (dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True))
    return tuple({name: v for name, v in row.items() if v is not None and v == v} for row in rows)


# -- sessions -----------------------------------------------------------------------------------


def take_sessions(
    store: Store,
    path: Path,
    digest: str,
    at: float,
    rubrics: Collection[str] = (),
    name: str = "",
) -> int:
    """Store the sessions of a file, all or none, and return their number."""
    events: list[Event] = []
    wrong: list[InputError] = []
    n = 0
    for n, (place, read) in enumerate(documents(path), 1):
        try:
            events += _events_in(read(), place, f"{digest}|{n - 1}", at)
        except InputError as error:
            wrong.append(error)
            if len(wrong) == N_SHOWN:
                break
    if len(wrong) == 1:
        raise wrong[0]
    if wrong:
        listed = "; ".join(f"{error.place}: {error.message}" for error in wrong)
        raise InputError(f"nothing was imported: {listed}", hint=wrong[0].hint)
    _refuse_unknown_rubrics(events, rubrics)
    ids = {event.session_id for event in events}
    here = [id_ for id_ in sorted(ids) if store.events(id_)]
    if len(ids) < n or here:
        listed = ", ".join(here[:N_SHOWN])
        twice = f"in the store already: session {listed}." if here else "a session id occurs twice."
        deleted = any(is_deleted(read_events(store.events(id_))) for id_ in here)
        hint = "To restore a deleted one: `peerage delete ID --undo`. " if deleted else ""
        raise InputError(twice, place=str(path), hint=f"{hint}Nothing was imported.")
    entry = Import("sessions", digest, name or path.name, n, at)
    store.add_all(events=events, imports=[(entry, [_id_list(ids)])])
    return n


def _id_list(ids: Iterable[str]) -> bytes:
    """Return the ids of an import's sessions, in the form the store keeps."""
    return json.dumps(sorted(ids)).encode()


def check_again(store: Store, entry: Import, scale: Sequence[float]) -> None:
    """Raise an error if a deleted table cannot be restored because of later imports."""
    if entry.kind == "sessions":
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / import_file_name(entry)
        with file.open("wb") as data:
            data.writelines(store.import_parts(entry.id))
        try:
            _check_exported(store, entry.kind, file, scale)
        except InputError as error:
            raise InputError(
                f"{entry.name} cannot be restored: {error.message}", hint=error.hint
            ) from None


def _refuse_unknown_rubrics(events: Iterable[Event], own: Collection[str]) -> None:
    """Raise an error for a session whose rubric is neither in its log nor known."""
    known = {*shipped_names(), *own}
    for event in events:
        opened = read_event(event) if event.kind == OPENED else None
        name = (
            opened.options.rubric if isinstance(opened, Opened) and opened.rubric is None else None
        )
        if name and name not in known:
            raise InputError(
                f"there is no rubric {shown(name)}.",
                place=f"session {event.session_id}",
                hint=f"{meant(name, known)} Nothing was imported.",
            )


# -- documents ----------------------------------------------------------------------------------


def documents(path: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the documents of a file with their places, each with a function that reads it."""
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    place = f"{path}, line {number}"
                    yield place, partial(read_document, line, place)
        return
    document = read_json(path.read_bytes(), str(path))
    are_many = isinstance(document, list) and not is_rankings(document)
    for i, entry in enumerate(document if are_many else [document]):
        place = f"{path}, session {i + 1}" if are_many else str(path)
        yield place, partial(_valid, entry, place)


def read_document(data: bytes, place: str) -> Any:
    """Return the JSON value in some bytes, with valid Unicode; refuse one nested too deeply."""
    return _valid(read_json(data, place), place)


def _valid(value: Any, place: str, depth: int = 0) -> Any:
    if isinstance(value, str):
        return valid_text(value)
    if depth == MAX_DEPTH and isinstance(value, (list, dict)):
        raise InputError(f"this is nested more than {MAX_DEPTH} deep.", place=place)
    if isinstance(value, list):
        return [_valid(one, place, depth + 1) for one in value]
    if isinstance(value, dict):
        return {valid_text(name): _valid(one, place, depth + 1) for name, one in value.items()}
    if isinstance(value, (int, float)) and abs(value) > MAX_INTEGER:
        raise InputError(f"the number {shown(value)} is out of range.", place=place)
    return value


# -- stored sessions ----------------------------------------------------------------------------


def exported_events(document: Any, place: str) -> list[Event]:
    """Return the events of one session of an export; an error names the first bad event."""
    entries = document.get("events") if isinstance(document, Mapping) else None
    if not isinstance(entries, list) or not 0 < len(entries) <= MAX_EVENTS:
        raise InputError(f"a session must have 1 to {MAX_EVENTS:,} events.", place=place)
    events = [_event(entry, f"{place}, event {i}") for i, entry in enumerate(entries)]
    session_id = events[0].session_id
    if not 0 < len(session_id) <= MAX_NAME_CHARACTERS:
        raise InputError(f"an id must have 1 to {MAX_NAME_CHARACTERS:,} characters.", place=place)
    for i, event in enumerate(events):
        opens = STORED_KINDS[event.kind] is Opened
        if (event.session_id, event.seq, opens) != (session_id, i, i == 0):
            raise InputError(
                "these are not the events of one session, in order.", place=f"{place}, event {i}"
            )
    if document.get("session_id", session_id) != session_id:
        raise InputError("the events belong to another session.", place=place)
    return _readable(events, place)


def _event(entry: Any, place: str) -> Event:
    try:
        event = from_json(Event, entry)
        if event.kind not in STORED_KINDS:
            raise WrongShapeError(f"{event.kind[:80]!r} is not a kind of event")
        read_event(event)
    except (WrongShapeError, InputError) as error:
        raise InputError(f"this is not an event of a session: {error}.", place=place) from None
    return event


def _readable(events: list[Event], place: str) -> list[Event]:
    """Return the events, or raise an error if a board could not read the session."""
    try:
        for row in review_rows(events, None):
            check_row(row)
    except PeerageError as error:
        raise InputError(
            f"the events do not form a session: {error.message}", place=place
        ) from None
    return events


def _events_in(document: Any, place: str, key: str, at: float) -> list[Event]:
    """Return the events of a stored session, or the events for a session of a ballots file."""
    if isinstance(document, Mapping) and "events" in document:
        return exported_events(document, place)
    session = session_of(document, place)
    id_ = session.id or hashlib.sha256(key.encode()).hexdigest()[:16]
    events = [stored_event(id_, i, at, fact) for i, fact in enumerate(_facts(session))]
    return _readable(events, place)


def session_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the reviews of the sessions in a file, without a store."""
    for number, (place, load) in enumerate(documents(path)):
        document = load()
        has_times = isinstance(document, Mapping) and "events" in document
        for row in review_rows(_events_in(document, place, f"{path.stem}|{number}", 0.0), None):
            yield row if has_times else {**row, "at": None}


# -- ballots files ------------------------------------------------------------------------------


def _facts(session: Session) -> Iterator[Stored]:
    """Yield the events for a session of a ballots file."""
    names = {*session.candidates, *(ballot.reviewer for ballot in session.ballots)}
    seats = tuple(SeatRecord(name, roles=("review",)) for name in sorted(names))
    yield Opened(session.query, "", 0, "", seats, ScoringRecord(rubric=None, order="imported"))
    for response in session.responses:
        messages = response.messages
        yield Answered(response.model, response.text, given=True, messages=messages)
    for round_ in sorted({ballot.round for ballot in session.ballots}):
        yield Dealt(
            round_,
            tuple(
                DealtBallot(
                    ballot.reviewer,
                    ballot.authors,
                    tuple(slot.label for slot in ballot.slots),
                    ballot.positions_known,
                )
                for ballot in session.ballots
                if ballot.round == round_
            ),
        )
    for ballot, review in zip(session.ballots, session.reviews, strict=True):
        yield Reviewed(ballot.reviewer, ballot.round, review.raw)
    yield Finished("done")


# -- a whole store from a folder ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Manifest:
    """The file export.json: the tables that were imported."""

    format: int
    imports: tuple[Import, ...]


def is_export(path: Path) -> bool:
    """Return whether a folder is an export of a store."""
    return (path / MANIFEST).is_file()


def take_export(
    store: Store,
    folder: Path,
    step: Step = lambda _: None,
    scale: Sequence[float] = (-1.0, 1.0),
    rubrics: Collection[str] = (),
) -> list[ImportResult]:
    """Import the sessions and tables of an export, all or none; existing ones stay unchanged."""
    known = {(entry.kind, entry.hash) for entry in store.imports()}
    entries = _manifest(folder)
    new = [entry for entry in entries if (entry.kind, entry.hash) not in known]
    contributions = [c for name in GIVEN_FILES.values() for c in _contributions(folder / name)]
    step("checking")
    for entry in new:
        if entry.kind != "sessions":
            _check_exported(store, entry.kind, folder / import_file_name(entry), scale)
    for kind in {contribution.kind for contribution in contributions}:
        _check_exported(store, kind, folder / GIVEN_FILES[kind], scale)
    step("storing")
    events = list(_events_not_in(store, folder / "sessions.jsonl"))
    _refuse_unknown_rubrics(events, rubrics)
    opened = [fact for fact in read_events(events) if isinstance(fact, Opened)]
    seeds = {one.season: one.seed for one in opened if one.season}
    imports = [(entry, _exported_parts(folder, entry)) for entry in new]
    store.add_all(events=events, seeds=seeds, imports=imports, contributions=contributions)
    n = len({event.session_id for event in events})
    return [
        ImportResult("sessions.jsonl", "sessions", n, already=not n),
        *(ImportResult(e.name, e.kind, e.n_rows, already=e not in new) for e in entries),
    ]


def _exported_parts(folder: Path, entry: Import) -> Iterator[bytes]:
    """Return the exported content of an import: the table, or the ids of its sessions."""
    if entry.kind != "sessions":
        yield from chunks(folder / import_file_name(entry))
    elif (listed := folder / _id_list_name(entry)).is_file():
        ids = read_document(listed.read_bytes(), str(listed))
        if not isinstance(ids, list) or not all(isinstance(id_, str) for id_ in ids):
            raise InputError("this is not a list of sessions.", place=str(listed))
        yield _id_list(ids)


def _id_list_name(entry: Import) -> str:
    return import_file_name(entry).replace(".parquet", ".json")


def _manifest(folder: Path) -> list[Import]:
    """Return the tables that an export lists."""
    place = folder / MANIFEST
    if not place.is_file():
        raise InputError(
            "this folder is not an export: it has no export.json.",
            place=str(folder),
            hint="Import single files instead, and name their format with --as.",
        )
    try:
        manifest = from_json(Manifest, read_document(place.read_bytes(), str(place)))
    except WrongShapeError as error:
        raise InputError(f"this is not a list of tables: {error}.", place=str(place)) from None
    if manifest.format != EXPORT_FORMAT:
        raise InputError(
            f"the export has format {manifest.format}, which this version cannot read.",
            place=str(place),
        )
    entries = [replace(entry, id=0) for entry in manifest.imports]
    for entry in entries:
        if entry.kind not in KINDS or not DIGEST.fullmatch(entry.hash) or entry.n_rows < 0:
            raise InputError(
                f"{entry.kind[:80]!r} of {entry.name[:80]!r} is not a table of an export.",
                place=str(place),
            )
    return entries


def _contributions(path: Path) -> list[Contribution]:
    """Return people's single contributions in an export; an empty list without the file."""
    if not path.is_file():
        return []
    try:
        contributions = [from_json(Contribution, read()) for _, read in documents(path)]
    except WrongShapeError as error:
        raise InputError(
            f"this is not a list of contributions: {error}.", place=str(path)
        ) from None
    if any(GIVEN_FILES.get(one.kind) != path.name for one in contributions):
        raise InputError("this is not a list of contributions.", place=str(path))
    return contributions


def _check_exported(store: Store, kind: str, file: Path, scale: Sequence[float]) -> None:
    """Raise an error for a table that is missing, invalid, or in conflict with the store."""
    if not file.is_file():
        raise InputError("a table of the export is missing.", place=str(file))
    with tempfile.TemporaryDirectory() as folder:

        def work(engine: DuckDB, _: bool) -> None:
            raw = as_parquet(engine, file, Path(folder) / "raw.parquet")
            check(engine, store, kind, raw, scale)

        in_little_memory(Path(folder), file, work)


def _events_not_in(store: Store, path: Path) -> Iterator[Event]:
    """Yield the events of an export's sessions, without sessions that the store has."""
    if not path.is_file():
        raise InputError("the sessions of the export are missing.", place=str(path))
    for place, read in documents(path):
        document = read()
        id_ = document.get("session_id") if isinstance(document, Mapping) else None
        if not isinstance(id_, str) or not store.events(id_):
            yield from exported_events(document, place)


# -- and out ------------------------------------------------------------------------------------


def export(store: Store, folder: Path) -> dict[str, int]:
    """Write the whole store to a new folder: sessions as JSONL, imported tables as Parquet.

    Single contributions of people are JSONL too.
    """
    with _whole_or_not_at_all(folder):
        n = 0
        with (folder / "sessions.jsonl").open("w", encoding="utf-8") as out:
            for session in store.sessions(deleted=None):
                log = store.events(session.id)
                events = [event_document(event, with_secret=is_over(log)) for event in log]
                out.write(json.dumps({"session_id": session.id, "events": events}) + "\n")
                n += 1
        entries = store.imports()
        for entry in entries:
            is_table = entry.kind != "sessions"
            name = import_file_name(entry) if is_table else _id_list_name(entry)
            with (folder / name).open("wb") as data:
                data.writelines(store.import_parts(entry.id) if is_table else _ids(store, entry))
        for kind, name in GIVEN_FILES.items():
            lines = [json.dumps(to_json(one)) + "\n" for _, one in store.contributions(kind)]
            if lines:
                (folder / name).write_text("".join(lines), encoding="utf-8")
        manifest = to_json(Manifest(EXPORT_FORMAT, tuple(entries)))
        (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    return {"sessions": n, "imports": len(entries)}


def _ids(store: Store, entry: Import) -> Iterator[bytes]:
    """Yield the ids of an import's sessions; none if they are not known."""
    yield b"".join(store.import_parts(entry.id)) or _id_list(())


@contextmanager
def _whole_or_not_at_all(folder: Path) -> Iterator[None]:
    """Create a folder and its missing parents; remove them all if it cannot be filled."""
    try:
        new = [one for one in (folder, *folder.parents) if not one.exists()]
        if not new and any(folder.iterdir()):
            raise InputError("this folder is not empty.", place=str(folder), hint="Name a new one.")
        folder.mkdir(parents=True, exist_ok=True)
        try:
            yield
        except BaseException:
            with suppress(OSError):
                for left in new[-1:] or list(folder.iterdir()):
                    shutil.rmtree(left) if left.is_dir() else left.unlink()
            raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"cannot be written: {reason}.", place=str(folder)) from None


def check_table_format(path: Path) -> None:
    """Raise an error for a file whose suffix is not a table format."""
    if path.suffix.lower() not in TABLE_FORMATS:
        raise UsageError(
            f"a table cannot be written as {path.suffix or 'a file without a suffix'}.",
            place=str(path),
            hint=f"Known: {', '.join(TABLE_FORMATS)}.",
        )


def write_reviews(
    files: Sequence[Path], suffix: str, target: Path, import_times: Collection[float] = ()
) -> int:
    """Write the reviews of some Parquet files to one file, as its suffix says; their number.

    A review whose time is that of an import had none before, and is written without one. Values
    that are not finite are left out: they do not count, and JSON cannot hold them.
    """
    with tempfile.TemporaryDirectory() as scratch, translate_errors(str(target)):
        engine = DuckDB(folders=(Path(scratch),))
        rows = without_import_times(engine.open(list(files)).to_native(), import_times)
        kinds = kinds_of(rows).items()
        numbers = [quote_name(name) for name, kind in kinds if kind in ("DOUBLE", "FLOAT")]
        finite = join_sql(sql("if(isfinite({0}), {0}, null) as {0}", one) for one in numbers)
        rows.project(sql("* replace ({})", finite)).create_view("exported")
        n = int(rows.aggregate("count(*)").fetchall()[0][0])
        copy = Path(real_path(scratch)) / "reviews"
        engine.connection.execute(TABLE_FORMATS[suffix.lower()], [str(copy)])
        engine.close()
        shutil.copyfile(copy, target)  # a device stays a device
    return n
