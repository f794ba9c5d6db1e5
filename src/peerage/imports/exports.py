"""A store out: all of it to a folder that can be imported again, or its reviews as one table."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from peerage.embedded import located
from peerage.engines.duckdb import DuckDB, reported
from peerage.engines.sql import listed, quoted, sql
from peerage.errors import InputError, UsageError
from peerage.events import event_document
from peerage.reports.stored_reviews import import_file_name
from peerage.shapes import to_json
from peerage.stores import Import, Store

EXPORT_FORMAT = 1
GIVEN_FILES = {"items": "given-items.jsonl", "opinions": "given-opinions.jsonl"}  # one at a time
TABLE_FORMATS = {  # by suffix, how a table is written to a file
    ".parquet": "copy exported to ? (format parquet, compression zstd)",
    ".csv": "copy exported to ? (format csv, header)",
    ".jsonl": "copy exported to ? (format json)",
}


@dataclass(frozen=True, slots=True)
class Manifest:
    """The file export.json: the tables that were imported."""

    format: int
    imports: tuple[Import, ...]


def export(store: Store, folder: Path) -> dict[str, int]:
    """Write the whole store to a new folder: sessions as JSONL, imported tables as Parquet.

    What people gave one at a time is JSONL too.
    """
    with _whole_or_not_at_all(folder):
        n = 0
        with (folder / "sessions.jsonl").open("w", encoding="utf-8") as out:
            for session in store.sessions():
                events = [event_document(event) for event in store.events(session.id)]
                out.write(json.dumps({"session_id": session.id, "events": events}) + "\n")
                n += 1
        entries = store.imports()
        for entry in entries:
            if entry.kind != "sessions":
                with (folder / import_file_name(entry)).open("wb") as data:
                    data.writelines(store.import_parts(entry.id))
        for kind, name in GIVEN_FILES.items():
            given = [to_json(one) for _, one in store.contributions(kind)]
            if given:
                lines = "".join(json.dumps(one) + "\n" for one in given)
                (folder / name).write_text(lines, encoding="utf-8")
        manifest = to_json(Manifest(EXPORT_FORMAT, tuple(entries)))
        (folder / "export.json").write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    return {"sessions": n, "imports": len(entries)}


@contextmanager
def _whole_or_not_at_all(folder: Path) -> Iterator[None]:
    """Make a folder and those above it that are missing; if it cannot be filled, none stays."""
    made: list[Path] = []
    try:
        made = [one for one in (folder, *folder.parents) if not one.exists()]
        if not made and any(folder.iterdir()):
            raise InputError("this folder is not empty.", place=str(folder), hint="Name a new one.")
        folder.mkdir(parents=True, exist_ok=True)
        try:
            yield
        except BaseException:
            with suppress(OSError):
                for left in made[-1:] or list(folder.iterdir()):
                    shutil.rmtree(left) if left.is_dir() else left.unlink()
            raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"cannot be written: {reason}.", place=str(folder)) from None


def check_table_format(path: Path) -> None:
    """Refuse a file whose suffix names no format for a table."""
    if path.suffix.lower() not in TABLE_FORMATS:
        raise UsageError(
            f"a table is not written as {path.suffix or 'a file without a suffix'}.",
            place=str(path),
            hint=f"Known: {', '.join(TABLE_FORMATS)}.",
        )


def write_reviews(files: Sequence[str], suffix: str, target: Path) -> int:
    """Write the reviews of some Parquet files to one file, as its suffix says; their number.

    What is not finite is left out: it counts for nothing, and JSON has no word for it.
    """
    with tempfile.TemporaryDirectory() as scratch, reported(str(target)):
        engine = DuckDB(folders=(Path(scratch),))
        rows = engine.open(list(files)).to_native()
        kinds = zip(rows.columns, map(str, rows.dtypes), strict=True)
        numbers = [quoted(name) for name, kind in kinds if kind in ("DOUBLE", "FLOAT")]
        finite = listed(sql("if(isfinite({0}), {0}, null) as {0}", one) for one in numbers)
        rows.project(sql("* replace ({})", finite)).create_view("exported")
        n = int(rows.aggregate("count(*)").fetchall()[0][0])
        copy = Path(located(scratch)) / "reviews"
        engine.connection.execute(TABLE_FORMATS[suffix.lower()], [str(copy)])
        engine.close()
        shutil.copyfile(copy, target)  # a device stays a device
    return n
