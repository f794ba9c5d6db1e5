"""A whole store as a folder: exported, and imported into another store."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from peerage.errors import InputError
from peerage.event_facts import is_over
from peerage.events import Opened, event_document, read_events
from peerage.imports import (
    KINDS,
    ImportResult,
    Step,
    documents,
    exported_events,
    id_list,
    read_document,
    refuse_unknown_rubrics,
)
from peerage.imports.table_files import (
    check_file,
    read_chunks,
)
from peerage.paths import new_folder
from peerage.reports.stored_reviews import (
    import_file_name,
)
from peerage.shapes import WrongShapeError, from_json, to_json
from peerage.stores import Contribution, Import, Store
from peerage.types import Event

DIGEST = re.compile("[0-9a-f]{64}")
EXPORT_FORMAT = 1
MANIFEST = "export.json"
# Prompts and opinions that people gave one at a time.
GIVEN_FILES = {"items": "given-items.jsonl", "opinions": "given-opinions.jsonl"}


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
    """Import the sessions and tables of an export, all or none; those in the store stay as is."""
    known = {(entry.kind, entry.hash) for entry in store.imports()}
    entries = _manifest(folder)
    new = [entry for entry in entries if (entry.kind, entry.hash) not in known]
    contributions = [c for name in GIVEN_FILES.values() for c in _contributions(folder / name)]
    step("checking")
    for entry in new:
        if entry.kind != "sessions":
            check_file(store, entry.kind, folder / import_file_name(entry), scale)
    for kind in {contribution.kind for contribution in contributions}:
        check_file(store, kind, folder / GIVEN_FILES[kind], scale)
    step("storing")
    events = list(_events_not_in(store, folder / "sessions.jsonl"))
    refuse_unknown_rubrics(events, rubrics)
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
    """Yield the exported content of an import: the table, or the ids of its sessions."""
    if entry.kind != "sessions":
        yield from read_chunks(folder / import_file_name(entry))
    elif (listed := folder / _id_list_name(entry)).is_file():
        ids = read_document(listed.read_bytes(), str(listed))
        if not isinstance(ids, list) or not all(isinstance(id_, str) for id_ in ids):
            raise InputError("this is not a list of sessions.", place=str(listed))
        yield id_list(ids)


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
    """Return people's single contributions in an export, or an empty list without the file."""
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


def _events_not_in(store: Store, path: Path) -> Iterator[Event]:
    """Yield the events of an export's sessions, except those already in the store."""
    if not path.is_file():
        raise InputError("the sessions of the export are missing.", place=str(path))
    for place, read in documents(path):
        document = read()
        id_ = document.get("session_id") if isinstance(document, Mapping) else None
        if not isinstance(id_, str) or not store.events(id_):
            yield from exported_events(document, place)


def export(store: Store, folder: Path) -> dict[str, int]:
    """Write the whole store to a new folder: sessions as JSONL, imported tables as Parquet.

    Prompts and opinions that people gave one at a time are JSONL too.
    """
    with new_folder(folder) as fresh:
        n = 0
        with (fresh / "sessions.jsonl").open("w", encoding="utf-8") as out:
            for session in store.sessions(deleted=None):
                log = store.events(session.id)
                events = [event_document(event, with_secret=is_over(log)) for event in log]
                out.write(json.dumps({"session_id": session.id, "events": events}) + "\n")
                n += 1
        entries = store.imports()
        for entry in entries:
            is_table = entry.kind != "sessions"
            name = import_file_name(entry) if is_table else _id_list_name(entry)
            with (fresh / name).open("wb") as data:
                data.writelines(store.import_parts(entry.id) if is_table else _ids(store, entry))
        for kind, name in GIVEN_FILES.items():
            lines = [json.dumps(to_json(one)) + "\n" for _, one in store.contributions(kind)]
            if lines:
                (fresh / name).write_text("".join(lines), encoding="utf-8")
        manifest = to_json(Manifest(EXPORT_FORMAT, tuple(entries)))
        (fresh / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    return {"sessions": n, "imports": len(entries)}


def _ids(store: Store, entry: Import) -> Iterator[bytes]:
    """Yield the ids of an import's sessions, or an empty list if they are unknown."""
    yield b"".join(store.import_parts(entry.id)) or id_list(())
