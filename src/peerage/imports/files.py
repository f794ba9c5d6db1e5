"""Open files of other tools as tables: recognised and converted, without a store."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from peerage.arguments import PATH, TEXT, check_arguments, optional
from peerage.engines import Source
from peerage.errors import InputError, UsageError
from peerage.imports.foreign_records import identity
from peerage.imports.formats import Format, convert, parse_columns, recognise
from peerage.imports.formats.mapped import mapped_format

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped]

    from peerage.engines.duckdb import DuckDB

MAX_LOADED_BYTES = 2 << 30  # of a file, up to which its table is kept in memory


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file as a table that boards and audits read, and the format that it had."""

    path: Path
    format: Format
    table: Path


def format_of(path: Path, name: str | None = None, columns: str = "") -> Format:
    """Return the named format, the format of named columns, or the one a file looks like."""
    if columns and name is not None:
        raise UsageError("--map is only for files of unknown format; omit --as.")
    return mapped_format(parse_columns(columns)) if columns else recognise(path, name)


@contextmanager
def open_tables(
    paths: Sequence[Path], name: str | None = None, columns: str = ""
) -> Iterator[list[TableFile]]:
    """Yield files as tables; converted copies are deleted at the end."""
    with tempfile.TemporaryDirectory(prefix="peerage-") as folder:
        yield [
            TableFile(path, one, convert(path, one, Path(folder) / f"table-{number}"))
            for number, path in enumerate(paths)
            for one in [format_of(path, name, columns)]
        ]


@contextmanager
def open_reviews(
    paths: Sequence[Path], name: str | None = None, columns: str = ""
) -> Iterator[Source]:
    """Yield files as tables of reviews for an engine; raise an error for other kinds of files.

    A single file whose format can be loaded at once is loaded, unless it is very large.
    """
    if len(paths) == 1:
        one = format_of(paths[0], name, columns)
        if one.load is not None and paths[0].stat().st_size <= MAX_LOADED_BYTES:
            with place_errors(paths[0]):
                yield one.load(paths[0])
            return
    _refuse_the_same(paths)
    with open_tables(paths, name, columns) as files:
        for file in files:
            if file.format.kind not in ("reviews", "sessions"):
                raise InputError(
                    f"this file contains {file.format.kind} ({file.format.title}), not reviews.",
                    place=str(file.path),
                    hint=f"Import it: peerage import {file.path.name}",
                )
        with place_errors(*paths):
            yield [str(file.table) for file in files]


def _refuse_the_same(paths: Sequence[Path]) -> None:
    """Refuse a file whose bytes another one has: its judgements would count twice."""
    first_by_identity: dict[str, Path] = {}
    for path in paths if len(paths) > 1 else ():
        first = first_by_identity.setdefault(identity(path), path) if path.is_file() else path
        if first is not path:
            raise InputError(f"this file is the same as {first}.", place=str(path))


@contextmanager
def place_errors(*paths: Path) -> Iterator[None]:
    """Add the file, if there is only one, to errors about its rows."""
    try:
        yield
    except InputError as error:
        if error.place or len(paths) > 1:
            raise
        raise InputError(error.message, place=str(paths[0]), hint=error.hint) from None


@check_arguments(path=PATH, format=optional(TEXT), columns=TEXT)
def read(path: str | Path, *, format: str | None = None, columns: str = "") -> pyarrow.Table:
    """Return a file of any known format as an Arrow table of reviews, or of opinions.

    `format` names the format, which is detected by default; `columns`, as in
    "candidate=model,score=rating", maps the columns of a table of unknown format.
    """
    from peerage.engines.intake import in_little_memory

    with (
        open_tables([Path(path)], format, columns) as files,
        tempfile.TemporaryDirectory(prefix="peerage-") as folder,
    ):

        def load(engine: DuckDB, _: bool) -> pyarrow.Table:
            table = table_in_full(engine, files[0], Path(folder))
            return engine.open(table).collect("pyarrow").to_native()

        return in_little_memory(Path(folder), Path(path), load)


def table_in_full(engine: DuckDB, file: TableFile, folder: Path) -> Path:
    """Return a file as Parquet of reviews or opinions; comparisons become reviews."""
    from peerage.engines.intake import as_parquet
    from peerage.imports.table_files import reviews_of

    table = as_parquet(engine, file.table, folder / "table.parquet")
    if file.format.kind != "reviews":
        return table
    return reviews_of(engine, table, identity(file.path), folder / "reviews.parquet")
