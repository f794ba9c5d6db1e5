"""Recognise files of other tools and open them as tables, without a store."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from peerage.arguments import PATH, TEXT, check_arguments, optional
from peerage.engines import Source
from peerage.errors import InputError, UsageError, few
from peerage.imports.foreign_records import identity
from peerage.imports.formats import (
    Format,
    NoJudgementsError,
    Repeats,
    UnknownFormatError,
    convert,
    formats,
    parse_columns,
    recognise,
)
from peerage.imports.formats.mapped import mapped_format

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped]

    from peerage.engines.duckdb import DuckDB

MAX_LOADED_BYTES = 2 << 30  # tables of larger files are not kept in memory
SUFFIXES = (".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".parquet", ".eval")
MAX_FOLDER_FILES = 10_000
N_SHOWN = 3

Note = Callable[[str], None]  # gets sentences about the files for the user


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file as a table for boards and audits, and its original format."""

    path: Path
    format: Format
    table: Path


@dataclass(frozen=True, slots=True)
class FolderFiles:
    """The files of a folder that are read, which have one format, and those that are not."""

    paths: tuple[Path, ...]
    others: tuple[Path, ...] = ()  # of another format
    copies: tuple[Path, ...] = ()  # with the same bytes as a file that is read

    def sentences(self, folder: Path) -> tuple[str, ...]:
        """Return a sentence for each reason why files are not read."""
        reasons = {"they have another format": self.others, "they are copies": self.copies}
        return tuple(
            f"files of the folder that are not read because {reason}: "
            f"{few(_names(paths, folder), N_SHOWN)}."
            for reason, paths in reasons.items()
            if paths
        )


def files_in(folder: Path, name: str | None = None, columns: str = "") -> FolderFiles:
    """Return the files of a folder and its subfolders that have the named format.

    Without a name, all files of known formats must have one format; an error lists the formats.
    """
    if name is not None:
        formats.get(name)  # an unknown name is an error
    candidates = [path for path in sorted(folder.rglob("*")) if _may_have_judgements(path, folder)]
    if len(candidates) > MAX_FOLDER_FILES:
        raise InputError(f"more than {MAX_FOLDER_FILES:,} files.", place=str(folder))
    if columns:
        return FolderFiles(tuple(candidates))
    by_format: dict[str, list[Path]] = {}
    unknown: list[Path] = []
    for path in candidates:
        try:
            by_format.setdefault(recognise(path).name, []).append(path)
        except UnknownFormatError:
            unknown.append(path)
    if name is None and len(by_format) > 1:
        raise _two_formats(folder, by_format)
    paths = by_format.pop(name or next(iter(by_format), ""), [])
    others = [path for some in by_format.values() for path in some]
    if not paths:
        what = f"of the format {name}" if name else "of a known format"
        has = f"It has {few(_names([*others, *unknown], folder), N_SHOWN)}. " if candidates else ""
        raise InputError(
            f"this folder has no files {what}.",
            place=str(folder),
            hint=f"{has}Only files that end in {', '.join(SUFFIXES)} are read.",
        )
    copies = _copies(paths)
    return FolderFiles(
        tuple(path for path in paths if path not in copies), (*others, *unknown), tuple(copies)
    )


def _names(paths: Sequence[Path], folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in paths]


def _may_have_judgements(path: Path, folder: Path) -> bool:
    is_hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
    return not is_hidden and path.suffix.lower() in SUFFIXES and path.is_file()


def _two_formats(folder: Path, by_format: dict[str, list[Path]]) -> InputError:
    listed = "; ".join(
        f"{name} ({few(_names(paths, folder), N_SHOWN)})" for name, paths in by_format.items()
    )
    return InputError(
        f"this folder has files of {len(by_format)} formats: {listed}.",
        place=str(folder),
        hint=f"Choose one, as in --as {next(iter(by_format))}, or name its files.",
    )


def format_of(path: Path, name: str | Format | None = None, columns: str = "") -> Format:
    """Return the named format, a format for the mapped columns, or the recognised format.

    A table of unknown format is read by the usual names of its columns, if these are clear.
    """
    if columns and name is not None:
        raise UsageError("--map is only for files of unknown format; omit --as.")
    if isinstance(name, Format):
        return name
    if columns:
        return mapped_format(parse_columns(columns))
    try:
        return recognise(path, name)
    except UnknownFormatError as error:
        if not error.is_sure:
            raise
        return mapped_format(error.guess, is_guess=True)


@contextmanager
def open_tables(
    paths: Sequence[Path],
    name: str | Format | None = None,
    columns: str = "",
    note: Note = lambda _: None,
) -> Iterator[list[TableFile]]:
    """Yield files, also those in folders, as tables; converted copies are deleted at the end."""
    files = expand(paths, name, columns, note)
    _refuse_the_same(files)
    repeats = Repeats()
    with tempfile.TemporaryDirectory(prefix="peerage-") as folder:
        tables = []
        for number, path in enumerate(files):
            one, target = format_of(path, name, columns), Path(folder) / f"table-{number}"
            for sentence in one.warn(path) if one.warn is not None else ():
                note(sentence if len(files) == 1 else f"{path.name}: {sentence}")
            try:
                tables.append(TableFile(path, one, convert(path, one, target, repeats)))
            except NoJudgementsError as error:
                if len(files) == 1:
                    raise
                note(str(error))
        if not tables:
            raise InputError("none of these files has judgements.", place=str(paths[0]))
        for sentence in repeats.sentences():
            note(sentence)
        yield [one for one in tables if one.table.stat().st_size]


def expand(
    paths: Sequence[Path],
    name: str | Format | None = None,
    columns: str = "",
    note: Note = lambda _: None,
) -> list[Path]:
    """Return the files of these paths; a folder is replaced by its files of one format."""
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            folder = files_in(path, name.name if isinstance(name, Format) else name, columns)
            for sentence in folder.sentences(path):
                note(sentence)
            files += folder.paths
        else:
            files.append(path)
    return files


@contextmanager
def open_reviews(
    paths: Sequence[Path],
    name: str | Format | None = None,
    columns: str = "",
    note: Note = lambda _: None,
) -> Iterator[Source]:
    """Yield files as tables of reviews for an engine; raise an error for other kinds of files.

    A single file is loaded into memory if its format allows it and it is not very large. `note`
    gets sentences about repeated judgements, and about files in folders that are not read.
    """
    if len(paths) == 1 and not paths[0].is_dir():
        one = format_of(paths[0], name, columns)
        if one.load is not None and paths[0].stat().st_size <= MAX_LOADED_BYTES:
            with place_errors(paths[0]):
                yield one.load(paths[0])
            return
    with open_tables(paths, name, columns, note) as files:
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
    """Raise an error if two files are identical, because their judgements would count twice."""
    for path, first in _copies(paths).items():
        raise InputError(f"this file is the same as {first}.", place=str(path))


def _copies(paths: Sequence[Path]) -> dict[Path, Path]:
    """Return the files that are identical to an earlier file, and that file for each."""
    by_size: dict[int, list[Path]] = {}
    for path in paths:
        if path.is_file():
            by_size.setdefault(path.stat().st_size, []).append(path)
    copies: dict[Path, Path] = {}
    for some in by_size.values():
        first_by_identity: dict[str, Path] = {}
        for path in some if len(some) > 1 else ():
            first = first_by_identity.setdefault(identity(path), path)
            if first is not path:
                copies[path] = first
    return copies


@contextmanager
def place_errors(*paths: Path) -> Iterator[None]:
    """Add the name of the file to errors about rows, if there is only one file."""
    try:
        yield
    except InputError as error:
        if error.place or len(paths) > 1:
            raise
        raise InputError(error.message, place=str(paths[0]), hint=error.hint) from None


@check_arguments(path=PATH, format=optional(TEXT), columns=TEXT)
def read(path: str | Path, *, format: str | None = None, columns: str = "") -> pyarrow.Table:
    """Return a file of any known format as an Arrow table of reviews, or of opinions.

    `path` may be a folder, whose files must have one format. `format` names the format, which is
    recognised by default; `columns`, as in "candidate=model,score=rating", maps the columns of a
    table of unknown format.
    """
    from peerage.engines.intake import in_little_memory

    with (
        open_tables([Path(path)], format, columns) as files,
        tempfile.TemporaryDirectory(prefix="peerage-") as folder,
    ):

        def load(engine: DuckDB, _: bool) -> pyarrow.Table:
            table = table_in_full(engine, files, Path(folder))
            return engine.open(table).collect("pyarrow").to_native()

        return in_little_memory(Path(folder), Path(path), load)


def table_in_full(engine: DuckDB, files: Sequence[TableFile], folder: Path) -> Path:
    """Return files as one Parquet table of reviews or opinions; comparisons become reviews."""
    tables = [
        _as_table(engine, file, folder / f"table-{number}") for number, file in enumerate(files)
    ]
    if len(tables) == 1:
        return tables[0]
    whole = folder / "whole.parquet"
    rows = engine.connection.read_parquet([str(table) for table in tables], union_by_name=True)
    rows.write_parquet(str(whole))
    return whole


def _as_table(engine: DuckDB, file: TableFile, target: Path) -> Path:
    from peerage.engines.intake import as_parquet
    from peerage.imports.table_files import reviews_of

    table = as_parquet(engine, file.table, target.with_suffix(".parquet"))
    if file.format.kind != "reviews":
        return table
    return reviews_of(engine, table, identity(file.path), target.with_suffix(".reviews.parquet"))
