"""Convert files of users to Parquet, complete and in bounded memory, with times as written.

The reader guesses a column's type from the first rows, and the guess is corrected if later rows do
not fit. Lines that cannot be read as rows are reported. Other modules check whether values make
sense.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import duckdb
import narwhals.stable.v2 as nw

from peerage.embedded import is_file, pattern, real_path
from peerage.engines import Engine, EngineError, EngineMemoryError, Frame, Source
from peerage.engines.duckdb import READERS, TRY_CAST, DuckDB, first_line, kinds_of, timestamp
from peerage.engines.review_tables import refuse_many_marks
from peerage.engines.sql import MAX_NAME_CHARACTERS, is_safe, join_sql, quote_name, sql
from peerage.engines.unfolding import refuse_unfolding
from peerage.errors import InputError, few
from peerage.reviews.columns import ALIASES, KEYS, NAMES, is_number
from peerage.text import is_unicode

Relation = duckdb.DuckDBPyRelation
T = TypeVar("T")

# Memory limits, each with whether rows are sorted, in the order in which they are tried.
ATTEMPTS = (("256MB", True), ("1GB", True), ("1GB", False), ("80%", False))
N_THREADS = 2  # each has buffers of its own
GROUP_ROWS = 8_192  # rows of a group in the copy: a whole group is in memory at a time
N_SHOWN = 10
N_REJECTS = 1_000  # rejected cells at most, from which the wrongly guessed columns are found

# Limits of a table. A larger one does not hold judgements, and refusing it later takes minutes.
MAX_COLUMNS = 500
MAX_DEPTH = 3  # to which nested JSON is read; deeper values stay texts
HEADER_BYTES = 1 << 20  # bytes that are checked before a text file is opened
SEPARATORS = b",;\t|"
ROW_WORDS = {  # how to name a row of each table, from the columns of its key
    "reviews": "{1} on {2} in {0}",
    "opinions": "{1} on {0}",
}
MISFITS = (duckdb.InvalidInputException, duckdb.ConversionException)


def in_little_memory(folder: Path, place: Path, work: Callable[[DuckDB, bool], T]) -> T:
    """Return the result of some work with an engine, in as little memory as possible.

    The engine spills into `folder`, and errors name `place`. `work` gets the engine and whether it
    may sort: an engine cannot sort large texts in little memory, and then the order of the file is
    kept.
    """
    for limit, may_sort in ATTEMPTS:
        try:
            limits: dict[str, str | int] = {
                "memory_limit": limit,
                "threads": N_THREADS,
                "temp_directory": str(folder),
            }
            with closing(DuckDB(folders=(folder,), limits=limits)) as engine:
                return work(engine, may_sort)
        except (duckdb.OutOfMemoryException, EngineMemoryError):
            continue
        except duckdb.IOException as error:
            raise EngineError(
                f"the file cannot be read, or its copy cannot be written: {first_line(error)}",
                place=str(place),
                hint="Check whether the disk is full; TMPDIR can name another folder for copies.",
            ) from None
        except duckdb.Error as error:
            raise InputError(f"cannot be read: {first_line(error)}", place=str(place)) from None
        except EngineError as error:
            raise EngineError(error.message, place=str(place), hint=error.hint) from None
        except InputError as error:
            where = error.place or str(place)
            raise InputError(error.message, place=where, hint=error.hint) from None
    raise InputError("the rows are too large for the available memory.", place=str(place))


def readable(folder: Path, files: Sequence[str]) -> list[str]:
    """Return files as Parquet; other types are converted into a new folder."""
    folder.mkdir()
    ready = _ready(files)

    def convert(number: int, file: str) -> str:
        if file in ready:
            return file
        path, target = Path(file), folder / f"{number}.parquet"
        return str(in_little_memory(folder, path, lambda db, _: as_parquet(db, path, target)))

    return [convert(number, file) for number, file in enumerate(files)]


def _ready(files: Sequence[str]) -> set[str]:
    """Return the files that are Parquet with column names that every engine accepts.

    The database that will read them is used, because starting another takes as long as a scan.
    """
    parquet = all(READERS.get(Path(file).suffix.lower()) == "read_parquet" for file in files)
    if not parquet or not all(map(is_file, files)):
        return set()
    engine, ready = DuckDB(), set()
    engine.admit(list(files))
    for file in files:
        with suppress(duckdb.Error, InputError):  # copying will say what is wrong
            rows, names = _parquet(engine.connection, Path(file))
            ready |= {file} if rows.columns == list(names.values()) else set()
    engine.close()
    return ready


def rows_in(path: Path, most: int) -> list[dict[str, object]]:
    """Return the rows of a small table in a file, None for empty cells; refuse a larger one."""
    with tempfile.TemporaryDirectory() as folder:

        def fetch(engine: DuckDB, _: bool) -> list[dict[str, object]]:
            table = engine.open(as_parquet(engine, path, Path(folder) / "rows.parquet")).to_native()
            rows = table.limit(most + 1).fetchall()
            return [dict(zip(table.columns, values, strict=True)) for values in rows]

        rows = in_little_memory(Path(folder), path, fetch)
    if len(rows) > most:
        raise InputError(f"there are more than {most:,} rows.", place=str(path))
    return rows


def as_parquet(engine: DuckDB, path: Path, target: Path) -> Path:
    """Return the rows of a file, in order, as Parquet with names that every engine accepts.

    A Parquet file with such names is returned unchanged.
    """
    if not is_file(path):
        raise InputError("cannot be read: the file does not exist.", place=str(path))
    engine.admit(path)
    file, reader = pattern(real_path(path)), READERS.get(path.suffix.lower())
    if reader == "read_csv":
        _refuse_wide_lines(path)
        _copy_csv(engine.connection, file, target)
    elif reader == "read_json":
        _copy_json(engine.connection, path, file, target)
    elif reader == "read_parquet":
        rows, names = _parquet(engine.connection, path)
        if rows.columns == list(names.values()):
            return path
        _write(rows, names, target)
    else:
        engine.open(path)  # raises: unknown file type
    return target


def _copy_csv(db: duckdb.DuckDBPyConnection, file: str, target: Path) -> None:
    """Copy a CSV file: known text columns as text, other types guessed and corrected."""
    opened = partial(db.read_csv, file, store_rejects=True, hive_partitioning=False)
    guessed = kinds_of(opened())
    names, kinds = _safe_names(guessed), _safe_kinds(guessed)
    while True:
        db.execute("drop table if exists reject_errors; drop table if exists reject_scans")
        rows = opened(dtype=kinds, rejects_limit=N_REJECTS)
        _write(rows, names, target)
        misread = _rejected_columns(db)
        if not misread:
            return
        kinds |= dict.fromkeys(misread, "VARCHAR")


def _parquet(db: duckdb.DuckDBPyConnection, path: Path) -> tuple[Relation, dict[str, str]]:
    """Return the rows of a Parquet file, and the new name of each column."""
    file = pattern(real_path(path))
    (leaves,) = db.execute("select count(*) from parquet_schema(?)", [file]).fetchall()[0]
    _refuse_many(leaves)
    refuse_unfolding(path, db)
    rows = db.read_parquet(file, hive_partitioning=False)
    return rows, _safe_names(rows.columns)


def _refuse_wide_lines(path: Path) -> None:
    """Raise an error if the first lines have too many columns: guessing types would be slow."""
    with path.open("rb") as data:
        lines = data.read(HEADER_BYTES).splitlines()
    for line in lines:
        widest = max(line.count(separator) for separator in SEPARATORS)
        if widest >= MAX_COLUMNS:
            _refuse_many(widest + 1)


def _refuse_many(n_columns: int) -> None:
    if n_columns > MAX_COLUMNS:
        raise InputError(
            f"a table may have at most {MAX_COLUMNS} columns, and this one has about "
            f"{n_columns:,}.",
            hint="Keep only the columns that a board or an audit uses.",
        )


def _safe_names(names: Iterable[str]) -> dict[str, str]:
    """Return column names without surrounding spaces; raise an error for unsafe names."""
    safe = {name: name.strip().removeprefix("\ufeff") for name in names}
    _refuse_many(len(safe))
    if strange := [name for name in safe.values() if not is_safe(name)]:
        raise InputError(
            f"some column names are not allowed: {_shown(strange)}.",
            hint=f"Use up to {MAX_NAME_CHARACTERS} letters, digits, spaces and _-()%/#+&: only.",
        )
    if len({name.lower() for name in safe.values()}) < len(safe):
        raise InputError(f"two columns have the same name: {_shown(sorted(safe.values()))}.")
    refuse_many_marks(safe.values())
    return safe


def _shown(names: Iterable[str]) -> str:
    return few([repr(name[:80]) for name in names])


def _write(rows: Relation, names: Mapping[str, str], target: Path) -> None:
    """Write rows as Parquet with renamed columns."""
    renamed = join_sql(
        sql("{} as {}", quote_name(name), quote_name(safe)) for name, safe in names.items()
    )
    rows.project(renamed).write_parquet(str(target), row_group_size=GROUP_ROWS)


def _rejected_columns(db: duckdb.DuckDBPyConnection) -> list[str]:
    """Return the columns whose type was guessed wrongly; raise an error for invalid lines."""
    torn = db.execute(
        "select line, min(csv_line), min(error_message) from reject_errors"
        " where error_type <> 'CAST' group by line order by line"
    ).fetchall()
    _refuse_lines(f"line {line}: {text!r} ({why})" for line, text, why in torn)
    rejected = db.execute("select distinct column_name from reject_errors").fetchall()
    return [str(name) for (name,) in rejected]


def _refuse_lines(lines: Iterable[str]) -> None:
    if torn := list(lines):
        raise InputError("some lines cannot be read as rows.", hint=few(torn, between="; "))


def _copy_json(db: duckdb.DuckDBPyConnection, path: Path, file: str, target: Path) -> None:
    """Copy a JSON lines file, with times and mixed types as text.

    Types are guessed from the first rows. They are guessed from all rows, which takes longer than
    everything else, only if a later row has more columns or does not fit.
    """
    try:
        keys = db.execute(
            "select distinct unnest(json_keys(json)) from read_json_objects(?) limit ?",
            [file, MAX_COLUMNS + 1],
        )
        names = _safe_names(str(name) for (name,) in keys.fetchall())
        opened = partial(db.read_json, file, maximum_depth=MAX_DEPTH, hive_partitioning=False)

        def copy(kinds: Mapping[str, str]) -> None:
            rows = db.read_json(file, columns=_safe_kinds(kinds), hive_partitioning=False)
            _write(rows, {name: names.get(name, name) for name in rows.columns}, target)

        kinds = kinds_of(opened())
        if names.keys() <= kinds.keys():
            with suppress(*MISFITS):
                return copy(kinds)
        copy(kinds_of(opened(sample_size=-1)))
    except MISFITS:
        if path.suffix.lower() != ".json":
            _refuse_lines(_torn_lines(path))
        raise


def _torn_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file that are not JSON objects."""
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                row = json.loads(line) if line.strip() else {}
                whole = isinstance(row, Mapping) and is_unicode(json.dumps(row, ensure_ascii=False))
            except (ValueError, RecursionError):
                whole = False
            if not whole:
                yield f"line {number}: {line[:80].decode('utf-8', 'replace').rstrip()!r}"


def _safe_kinds(kinds: Mapping[str, str]) -> dict[str, str]:
    """Return types that lose nothing: ids such as 007 are texts, and so are times with zones.

    A column of integers is not read as integers, because a later fraction would be rounded
    silently: a known column becomes floats, any other becomes texts.
    """
    safe = {}
    for column, kind in kinds.items():
        name = column.strip()
        name = ALIASES.get(name, name)
        timed = name == "at" and kind.startswith(("TIMESTAMP", "DATE"))
        if name in NAMES or timed or kind == "JSON":
            kind = "VARCHAR"
        elif "INT" in kind:
            kind = "DOUBLE" if is_number(name) or name in ("at", "opinion") else "VARCHAR"
        safe[column] = kind
    return safe


# -- times -----------------------------------------------------------------------------------


def refuse_untimely(engine: DuckDB, path: Path) -> None:
    """Raise an error with the first ten rows whose `at` is a text but not a time."""
    relation = engine.open(path).to_native()
    if kinds_of(relation).get("at") != "VARCHAR":
        return
    at = quote_name("at")
    columns = "row_number() over () as row, {}, {} as time"
    numbered = relation.project(sql(columns, at, timestamp(at, TRY_CAST)))
    untimely = sql("{} is not null and time is null", at)
    wrong = numbered.filter(untimely).order("row").limit(N_SHOWN)
    rows = "; ".join(f"row {row}: {text!r}" for row, text, _ in wrong.fetchall())
    if rows:
        raise InputError(
            f"`at` is not a time in some rows: {rows}.",
            hint="Write ISO 8601 or seconds since 1970.",
        )


def zone_flags(engine: Engine, source: Source) -> list[str]:
    """Return a flag for a table that writes its times in several zones."""
    zones = zones_of(engine, source)
    return [f"times_in_several_zones:{len(zones)}: {', '.join(zones)}"] if zones else []


def row_flags(engine: Engine, name: str, rows: Frame, kind: str) -> list[str]:
    """Return a flag for odd rows of a table, if any: how many, and the first ten."""
    n = int(engine.arrays(rows.select(nw.len().alias("n")))["n"][0])
    if not n:
        return []
    first = engine.arrays(rows.select(*KEYS[kind]).sort(*KEYS[kind]).head(N_SHOWN))
    rows_told = (ROW_WORDS[kind].format(*row) for row in zip(*first.values(), strict=True))
    return [f"{name}:{n}: {', '.join(rows_told)}"]


def zones_of(engine: Engine, source: Source) -> list[str]:
    """Return the time zones of a table, if there are several; a time without a zone is UTC."""
    east = sorted({_minutes_east(zone) for zone in engine.zones(engine.open(source), "at")})
    spelt = [f"{'-' if m < 0 else '+'}{abs(m) // 60:02}:{abs(m) % 60:02}" for m in east]
    return ["UTC" if zone == "+00:00" else zone for zone in spelt] if len(east) > 1 else []


def _minutes_east(zone: str) -> int:
    """Return a zone such as Z, +02 or -05:30 in minutes east of UTC; 0 for no zone."""
    digits = zone.lstrip("+-zZ").replace(":", "").ljust(4, "0")
    return (-1 if zone.startswith("-") else 1) * (60 * int(digits[:2]) + int(digits[2:]))
