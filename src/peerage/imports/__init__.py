"""Import judgements into a store, each file completely or not at all."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from peerage.ballot_files import is_rankings, read_json, session_of
from peerage.config.recorded import IMPORTED, recorded_option
from peerage.config.rubrics import shipped_names
from peerage.council.readings import CONTESTED, reading_of
from peerage.embedded import is_file
from peerage.engines.duckdb import DuckDB
from peerage.engines.intake import as_parquet, in_little_memory
from peerage.errors import InputError, PeerageError, meant, shown
from peerage.event_facts import is_deleted
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
    read_event,
    read_events,
    stored_event,
)
from peerage.imports.files import format_of
from peerage.imports.foreign_records import digest_of
from peerage.imports.formats import Format, Repeats, UnknownFormatError, convert
from peerage.imports.table_files import (
    check,
    check_file,
    count_from_zero,
    flags_of,
    read_chunks,
    reviews_of,
    trim_names,
    write,
)
from peerage.reports.stored_reviews import (
    MAX_NAME_CHARACTERS,
    check_row,
    import_file_name,
    review_rows,
)
from peerage.reviews.columns import KEYS
from peerage.reviews.flags import FROM_ONE
from peerage.shapes import MAX_INTEGER, WrongShapeError, from_json
from peerage.stores import Import, Store
from peerage.text import valid_text
from peerage.types import Event, Session
from peerage.view import fold

KINDS = (*KEYS, "sessions")
OPENED = KIND_BY_TYPE[Opened]
MAX_EVENTS = 10_000  # the most events of one session
MAX_DEPTH = 32  # the deepest nesting of a document; a session needs seven levels
N_SHOWN = 10
DELETED = (
    "the file was imported and deleted before, and boards leave it out; to restore it: "
    "peerage delete"
)

Step = Callable[[str], None]  # gets the name of each step when it begins, to show progress


class SessionsHereError(InputError):
    """Sessions of a file are in the store already; `are_deleted` if a deletion hides some."""

    are_deleted = False


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The result of importing one file, with flags for oddities that are not errors."""

    name: str
    kind: str
    n: int
    unit: str = field(init=False)
    already: bool = False
    is_deleted: bool = False  # imported before, and deleted since
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
    """Import one file, in the named format or in the format that is recognised.

    An error leaves the store unchanged. Sessions may use the shipped rubrics and those in
    `rubrics`. `columns` maps the columns of a table of unknown format. `listed_as` replaces the
    file name in the list of imports.
    """
    if not is_file(path):
        raise InputError("the file does not exist.", place=str(path))
    step("reading")
    file_format = format_of(path, name, columns)
    kind, listed_as = file_format.kind, listed_as or path.name
    digest = digest_of(path)
    known = next((i for i in store.imports() if (i.kind, i.hash) == (kind, digest)), None)
    if known is not None:
        is_deleted = known.deleted_at is not None
        return ImportResult(
            listed_as,
            kind,
            known.n_rows,
            already=True,
            is_deleted=is_deleted,
            flags=(f"{DELETED} --import {known.id} --undo",) if is_deleted else (),
            format=file_format.name,
        )
    at = clock()
    if kind == "sessions":
        n = take_sessions(store, path, digest, at, rubrics, listed_as)
        return ImportResult(listed_as, kind, n, format=file_format.name)
    with _checked_table(store, path, file_format, at, scale, step) as (target, n, flags):
        step("storing")
        store.add_import(Import(kind, digest, listed_as, n, at), read_chunks(target))
    return ImportResult(listed_as, kind, n, flags=flags, format=file_format.name)


@contextmanager
def _checked_table(
    store: Store, path: Path, file_format: Format, at: float, scale: Sequence[float], step: Step
) -> Iterator[tuple[Path, int, tuple[str, ...]]]:
    """Yield a table as checked Parquet, with its number of rows and flags for oddities."""
    kind, digest = file_format.kind, digest_of(path)
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
            flags = (*merged, *check(engine, store, kind, table, scale))
            if FROM_ONE in flags:
                table = count_from_zero(engine, table, Path(folder) / "moved.parquet")
            step("sorting")
            n = write(engine, table, target, KEYS[kind], may_sort)
            return n, (*flags, *flags_of(engine, kind, raw, target, at))

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
    hint: str = ""  # how the command line would read the file
    guess: Mapping[str, str] = field(default_factory=dict)  # the file's columns, by our names


def preview(
    store: Store, path: Path, name: str | None, scale: Sequence[float], at: float
) -> ImportPreview:
    """Read a file as an import would, and return a preview; nothing is stored."""
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
        place = f"{error.place}: " if error.place else ""
        problem = f"{place}{error.message}".replace(str(path), "the file")
        refused = ImportPreview(kind, 0, unit, problem=problem, hint=error.hint)
        if isinstance(error, UnknownFormatError):
            return replace(refused, columns=error.columns, guess=error.guess)
        return refused


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
    refuse_unknown_rubrics(events, rubrics)
    ids = {event.session_id for event in events}
    here = [id_ for id_ in sorted(ids) if store.events(id_)]
    if len(ids) < n or here:
        listed = ", ".join(here[:N_SHOWN])
        twice = f"in the store already: session {listed}." if here else "a session id occurs twice."
        are_deleted = any(is_deleted(read_events(store.events(id_))) for id_ in here)
        hint = "To restore a deleted one: `peerage delete ID --undo`. " if are_deleted else ""
        clash = SessionsHereError(twice, place=str(path), hint=f"{hint}Nothing was imported.")
        clash.are_deleted = are_deleted
        raise clash
    entry = Import("sessions", digest, name or path.name, n, at)
    store.add_all(events=events, imports=[(entry, [id_list(ids)])])
    return n


def id_list(ids: Iterable[str]) -> bytes:
    """Return the ids of an import's sessions as the bytes that the store keeps."""
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
            check_file(store, entry.kind, file, scale)
        except InputError as error:
            raise InputError(
                f"{entry.name} cannot be restored: {error.message}", hint=error.hint
            ) from None


def refuse_unknown_rubrics(events: Iterable[Event], own: Collection[str]) -> None:
    """Raise an error for a session whose rubric is neither in its log nor in this installation."""
    known = {*shipped_names(), *own}
    for event in events:
        opened = read_event(event) if event.kind == OPENED else None
        name = (
            recorded_option(opened, "rubric")
            if isinstance(opened, Opened) and opened.rubric is None
            else None
        )
        if name and name not in known:
            raise InputError(
                f"there is no rubric {shown(name)}.",
                place=f"session {event.session_id}",
                hint=f"{meant(name, known)} Nothing was imported.",
            )


# -- documents ----------------------------------------------------------------------------------


def documents(path: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the place of each document in a file, and a function that reads the document."""
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
    """Return the JSON value in some bytes, with valid Unicode; refuse deeply nested values."""
    return _valid(read_json(data, place), place)


def _valid(value: Any, place: str, depth: int = 0) -> Any:
    if isinstance(value, str):
        return valid_text(value)
    if depth == MAX_DEPTH and isinstance(value, (list, dict)):
        raise InputError(f"this is nested more than {MAX_DEPTH} levels deep.", place=place)
    if isinstance(value, list):
        return [_valid(one, place, depth + 1) for one in value]
    if isinstance(value, dict):
        return {valid_text(name): _valid(one, place, depth + 1) for name, one in value.items()}
    if isinstance(value, (int, float)) and abs(value) > MAX_INTEGER:
        raise InputError(f"the number {shown(value)} is out of range.", place=place)
    return value


# -- stored sessions ----------------------------------------------------------------------------


def exported_events(document: Any, place: str) -> list[Event]:
    """Return the events of one exported session; an error names the first bad event."""
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
                "this event is out of order, or is from another session.",
                place=f"{place}, event {i}",
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
    """Return the events, or raise an error if they do not form a session that boards can read."""
    try:
        for row in review_rows(events, None):
            check_row(row)
    except PeerageError as error:
        raise InputError(
            f"the events do not form a session: {error.message}", place=place
        ) from None
    return events


def _events_in(document: Any, place: str, key: str, at: float) -> list[Event]:
    """Return the events of an exported session, or new events for a session in a ballots file."""
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
    """Yield the events that represent a session in a ballots file."""
    names = {*session.candidates, *(ballot.reviewer for ballot in session.ballots)}
    seats = tuple(SeatRecord(name, roles=("review",)) for name in sorted(names))
    yield Opened(session.query, "", 0, "", seats, law=ScoringRecord(rubric=None, order=IMPORTED))
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
        reading = reading_of(review) if review.abstained == CONTESTED else None
        yield Reviewed(ballot.reviewer, ballot.round, review.raw, review=reading)
    yield Finished("done")
