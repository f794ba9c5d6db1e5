"""Judgements made elsewhere, taken in whole or not at all, and each file only once."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from peerage.council import folding
from peerage.council.documents import read_json, session_of
from peerage.council.folding import plain
from peerage.engines import Engine, engines
from peerage.engines.members import read_items, read_users
from peerage.engines.opinions import read_community
from peerage.engines.reviews import read_reviews, refuse_duplicates
from peerage.errors import InputError, UsageError
from peerage.stores import Import, Store
from peerage.types import Event, Session

CHUNK_BYTES = 8 << 20
MOST_SHOWN = 10
EXPORT_FORMAT = 1
KINDS = ("reviews", "opinions", "items", "users", "sessions")


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of one file."""

    name: str
    kind: str
    n: int
    unit: str
    already: bool = False


def take(
    store: Store,
    path: Path,
    kind: str,
    clock: Callable[[], float],
    scale: Sequence[float] = (-1.0, 1.0),
) -> Taken:
    """Import one file of a kind; an error leaves the store as it was."""
    if kind not in KINDS:
        raise UsageError(f"cannot import as {kind!r}.", hint=f"Known: {', '.join(KINDS)}.")
    if not path.is_file():
        raise InputError("there is no such file.", place=str(path))
    digest = _digest(path)
    known = next((i for i in store.imports() if (i.kind, i.hash) == (kind, digest)), None)
    unit = "sessions" if kind == "sessions" else "rows"
    if known is not None:
        return Taken(path.name, kind, known.n_rows, unit, already=True)
    at = clock()
    if kind == "sessions":
        return _take_sessions(store, path, digest, at)
    with tempfile.TemporaryDirectory() as scratch:
        checked = Path(scratch) / "checked.parquet"
        n = _checked(store, kind, path, checked, at, scale)
        entry = Import(kind, digest, path.name, n, at)
        store.add_import(entry, _chunks(checked))
    return Taken(path.name, kind, n, unit)


def _digest(path: Path) -> str:
    with path.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as data:
        while chunk := data.read(CHUNK_BYTES):
            yield chunk


# -- tables -------------------------------------------------------------------------------------


ORDERS = {
    "reviews": ("session_id", "reviewer", "candidate"),
    "opinions": ("item_id", "reviewer"),
    "items": ("item_id",),
    "users": ("user_id",),
}


def _checked(
    store: Store, kind: str, path: Path, target: Path, at: float, scale: Sequence[float]
) -> int:
    """A table as Parquet, clustered by what it is grouped by; extra columns are kept."""
    engine = engines.get("duckdb")()
    try:
        if kind == "reviews":
            table = read_reviews(engine, path)
            refuse_duplicates(engine, table.frame, table.columns)
            _refuse_known(engine, store, path)
        else:
            _check_community(engine, store, kind, path, scale)
        return _write(engine, path, target, at, ORDERS[kind])
    except InputError as error:
        raise InputError(error.message, place=error.place or str(path), hint=error.hint) from None


def _refuse_known(engine: Engine, store: Store, path: Path) -> None:
    """Refuse reviews that another file already brought: they would count twice."""
    import narwhals.stable.v2 as nw

    key = ("session_id", "reviewer", "candidate", "round")
    here = _keyed(engine.open(path), key)
    with tempfile.TemporaryDirectory() as scratch:
        known = _imported(store, "reviews", Path(scratch))
        if not known:
            return
        both = here.join(_keyed(engine.open(known), key), on=list(key), how="inner")
        found = engine.arrays(both.select(*map(nw.col, key)).head(MOST_SHOWN))
    rows = [", ".join(map(str, row)) for row in zip(*found.values(), strict=True)]
    if rows:
        raise InputError(
            "some of these reviews are in the store already, from another file.",
            hint=f"For instance: {'; '.join(rows)}. Nothing was imported.",
        )


def _keyed(frame: Any, key: tuple[str, ...]) -> Any:
    import narwhals.stable.v2 as nw

    if "round" not in frame.collect_schema().names():
        frame = frame.with_columns(nw.lit(0).alias("round"))
    whole = nw.col("round").cast(nw.Float64).fill_null(0.0)
    return frame.select(*(nw.col(name).cast(nw.String) for name in key[:3]), whole.alias("round"))


def _check_community(
    engine: Engine, store: Store, kind: str, path: Path, scale: Sequence[float]
) -> None:
    """Refuse what the boards would refuse, together with what is there already."""
    with tempfile.TemporaryDirectory() as scratch:
        known = {one: _imported(store, one, Path(scratch)) for one in ("items", "users")}
        known[kind] = [*known.get(kind, []), str(path)]
        if kind == "items":
            read_items(engine, known["items"])
        elif kind == "users":
            read_users(engine, known["users"])
        else:
            read_community(engine, str(path), known["items"] or None, scale=scale)


def _imported(store: Store, kind: str, folder: Path) -> list[str]:
    """The tables of a kind that are in the store, as files in a folder."""
    paths = []
    for entry in store.imports():
        if entry.kind == kind:
            path = folder / _file_of(entry)
            with path.open("wb") as data:
                data.writelines(store.import_parts(entry.id))
            paths.append(str(path))
    return paths


def _write(engine: Engine, path: Path, target: Path, at: float, texts: tuple[str, ...]) -> int:
    """Every row and column of a file; a row without a time counts as of its import."""
    import narwhals.stable.v2 as nw

    frame = engine.open(path)
    names = frame.collect_schema().names()
    if "at" in names:
        frame = engine.epoch(frame, "at").with_columns(nw.col("at").fill_null(at))
    else:
        frame = frame.with_columns(nw.lit(at).alias("at"))
    frame = frame.with_columns(*(nw.col(name).cast(nw.String) for name in texts))
    relation = frame.to_native()
    relation.order(", ".join(texts)).write_parquet(str(target), compression="zstd")
    return int(relation.aggregate("count(*)").fetchall()[0][0])


# -- sessions -----------------------------------------------------------------------------------


def _take_sessions(store: Store, path: Path, digest: str, at: float) -> Taken:
    """A ballots file, or an export's sessions, as events like those of sessions held here."""
    events: list[Event] = []
    n = 0
    for place, document in _documents(path):
        if isinstance(document, Mapping) and "events" in document:
            events += [_event(entry, place) for entry in document["events"]]
        else:
            events += list(_events_of(document, place, f"{digest}|{n}", at))
        n += 1
    taken = {event.session_id for event in events}
    here = [name for name in taken if store.events(name)]
    if len(taken) < n or here:
        twice = f"session {here[0]!r} is in the store already." if here else "an id stands twice."
        raise InputError(twice, place=str(path), hint="Nothing was imported.")
    store.append_all(events)
    store.add_import(Import("sessions", digest, path.name, n, at), ())
    return Taken(path.name, "sessions", n, "sessions")


def _documents(path: Path) -> Iterator[tuple[str, Any]]:
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    place = f"{path}, line {number}"
                    yield place, read_json(line, place)
        return
    document = read_json(path.read_bytes(), str(path))
    listed = document if isinstance(document, list) else [document]
    for i, entry in enumerate(listed):
        yield f"{path}, session {i + 1}" if isinstance(document, list) else str(path), entry


def _event(entry: Any, place: str) -> Event:
    try:
        return Event(**{name: entry[name] for name in Event.__dataclass_fields__})
    except (TypeError, KeyError):
        raise InputError("this is not an event of a session.", place=place) from None


def _events_of(document: Any, place: str, key: str, at: float) -> Iterator[Event]:
    """A session of a ballots file, told as if it had been held here."""
    session = session_of(document, place)
    id_ = session.id or hashlib.sha256(key.encode()).hexdigest()[:16]
    bodies = [
        (folding.OPENED, _opening(session)),
        *((folding.ANSWERED, _answer(r.model, r.text)) for r in session.responses),
        *((folding.DEALT, body) for body in _deals(session)),
        *((folding.REVIEWED, body) for body in _replies(session, document)),
        (folding.FINISHED, {"status": "done", "cost_usd": None, "unpriced_calls": 0}),
    ]
    return (Event(id_, i, kind, at, body) for i, (kind, body) in enumerate(bodies))


def _opening(session: Session) -> dict[str, Any]:
    names = {*session.candidates, *(ballot.reviewer for ballot in session.ballots)}
    return {
        "query": plain(session.query),
        "seed": "",
        "ordinal": 0,
        "season": "",
        "seats": [
            {"name": name, "family": "", "model": "", "roles": ["review"]} for name in sorted(names)
        ],
        "law": {"rubric": None, "order": "imported"},
    }


def _answer(model: str, text: str) -> dict[str, Any]:
    return {"seat": model, "text": text, "given": True}


def _deals(session: Session) -> Iterator[dict[str, Any]]:
    for round_ in sorted({ballot.round for ballot in session.ballots}):
        yield {
            "round": round_,
            "ballots": [
                {
                    "reviewer": ballot.reviewer,
                    "order": list(ballot.authors),
                    "labels": [slot.label for slot in ballot.slots],
                    "positions_known": ballot.positions_known,
                }
                for ballot in session.ballots
                if ballot.round == round_
            ],
        }


def _replies(session: Session, document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What each reviewer said, as text: its own where there is one, else its verdict as JSON."""
    entries = document.get("rankings") or document.get("stage2") or []
    for ballot, review, entry in zip(session.ballots, session.reviews, entries, strict=True):
        parsed = entry.get("parsed_ranking")
        text = review.raw if parsed is None else json.dumps(parsed)
        yield {"reviewer": ballot.reviewer, "round": ballot.round, "text": text}


# -- export -------------------------------------------------------------------------------------


def export(store: Store, folder: Path) -> dict[str, int]:
    """The whole store in a folder: sessions as JSONL, imported tables as Parquet."""
    if folder.exists() and any(folder.iterdir()):
        raise InputError("this folder is not empty.", place=str(folder), hint="Name a new one.")
    folder.mkdir(parents=True, exist_ok=True)
    n = 0
    with (folder / "sessions.jsonl").open("w", encoding="utf-8") as out:
        for listed in store.sessions():
            events = [asdict(event) for event in store.events(listed.id)]
            out.write(json.dumps({"session_id": listed.id, "events": events}) + "\n")
            n += 1
    entries = store.imports()
    for entry in entries:
        with (folder / _file_of(entry)).open("wb") as data:
            data.writelines(store.import_parts(entry.id))
    manifest = {"format": EXPORT_FORMAT, "imports": [asdict(entry) for entry in entries]}
    (folder / "export.json").write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    return {"sessions": n, "imports": len(entries)}


def _file_of(entry: Import) -> str:
    return f"{entry.kind}-{entry.hash[:16]}.parquet"


def take_export(store: Store, folder: Path) -> list[Taken]:
    """Everything of an export, as it was in the store it came from."""
    place = folder / "export.json"
    if not place.is_file():
        raise InputError(
            "this folder is no export: there is no export.json in it.",
            place=str(folder),
            hint="Name files, and say --as what.",
        )
    manifest = read_json(place.read_bytes(), str(place))
    if manifest.get("format") != EXPORT_FORMAT:
        raise InputError(f"format {manifest.get('format')!r} is not known.", place=str(place))
    known = {(entry.kind, entry.hash) for entry in store.imports()}
    taken = []
    events = [
        _event(entry, where)
        for where, document in _documents(folder / "sessions.jsonl")
        for entry in document["events"]
        if not store.events(document["session_id"])
    ]
    store.append_all(events)
    n = len({event.session_id for event in events})
    taken.append(Taken("sessions.jsonl", "sessions", n, "sessions", already=not n))
    for listed in manifest["imports"]:
        entry = Import(**listed)
        already = (entry.kind, entry.hash) in known
        if not already:
            file = folder / _file_of(entry)
            store.add_import(entry, _chunks(file) if entry.kind != "sessions" else ())
        taken.append(Taken(entry.name, entry.kind, entry.n_rows, "rows", already))
    return taken
