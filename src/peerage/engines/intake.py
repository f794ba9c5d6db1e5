"""Files from elsewhere as Parquet, whole and in bounded memory, with times as they were written.

A reader that has guessed a column's type from the first rows is corrected by the later ones;
lines that are no rows at all are named. What comes out is as trustworthy as what went in:
whether it makes sense is for others to check.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from peerage.engines import Engine, Source
from peerage.engines.duckdb import NO_ZONE, READERS, TEXTS, DuckDB
from peerage.engines.reviews import NUMBERS
from peerage.errors import InputError

if TYPE_CHECKING:
    import duckdb

    Relation = duckdb.DuckDBPyRelation

T = TypeVar("T")

# What the engine may hold at a time, and whether rows are sorted: the first that will do.
ATTEMPTS = (("256MB", True), ("1GB", True), ("1GB", False), ("80%", False))
N_THREADS = 2  # each has buffers of its own
GROUP_ROWS = 8_192  # of what is only read again: a group is in memory as a whole
N_SHOWN = 10
N_REJECTS = 1_000  # looked at, to learn which columns they are about
AT = '"at"'
ZONE = "regexp_extract({0}, ':.*?([zZ]|[+-][0-9][0-9](:?[0-9][0-9])?)$', 1)"


def in_little_memory(folder: Path, place: Path, work: Callable[[DuckDB, bool], T]) -> T:
    """What some work with an engine comes to, in as little memory as will do.

    The engine spills into a folder, and errors name the place. The work is also told whether
    to sort: large texts are the one thing that an engine cannot sort in less memory than they
    take, and then the order of the file has to do.
    """
    import duckdb

    for limit, may_sort in ATTEMPTS:
        try:
            with _bounded(folder, limit) as engine:
                return work(engine, may_sort)
        except duckdb.OutOfMemoryException:
            continue
        except duckdb.Error as error:
            raise InputError(f"cannot be read: {_first_line(error)}", place=str(place)) from None
        except InputError as error:
            where = error.place or str(place)
            raise InputError(error.message, place=where, hint=error.hint) from None
    raise InputError("its rows are too large for the memory here.", place=str(place))


@contextmanager
def _bounded(folder: Path, memory_limit: str) -> Iterator[DuckDB]:
    import duckdb

    engine = DuckDB()
    engine.connection = duckdb.connect(
        config={
            "memory_limit": memory_limit,
            "threads": N_THREADS,
            "temp_directory": str(folder),
        }
    )
    try:
        engine.connection.execute("set TimeZone = 'UTC'")
        yield engine
    finally:
        engine.connection.close()


def readable(folder: Path, files: Sequence[str]) -> list[str]:
    """Files as Parquet: those that are none, converted into a folder that is made for them."""
    folder.mkdir()
    found = []
    for number, file in enumerate(files):
        path, target = Path(file), folder / f"{number}.parquet"
        if READERS.get(path.suffix.lower()) in ("read_csv", "read_json"):
            in_little_memory(folder, path, partial(_copy, path=path, target=target))
            file = str(target)
        found.append(file)
    return found


def _copy(engine: DuckDB, _: bool, path: Path, target: Path) -> None:
    as_parquet(engine, path, target)


def as_parquet(engine: DuckDB, path: Path, target: Path) -> Path:
    """The rows of a file, in their order, as Parquet; a file that is Parquet is its own."""
    reader = READERS.get(path.suffix.lower())
    if reader == "read_csv":
        _copy_csv(engine.connection, path, target)
    elif reader == "read_json":
        _copy_json(engine.connection, path, target)
    else:
        engine.open(path)  # says so if it is nothing that can be read
        return path
    return target


def _copy_csv(db: duckdb.DuckDBPyConnection, path: Path, target: Path) -> None:
    """Text where texts are due, else what the reader guesses, corrected until every row fits."""
    kinds = _safe(_kinds(db.read_csv(str(path), store_rejects=True)))
    while True:
        db.execute("drop table if exists reject_errors; drop table if exists reject_scans")
        rows = db.read_csv(str(path), dtype=kinds, store_rejects=True, rejects_limit=N_REJECTS)
        rows.write_parquet(str(target), row_group_size=GROUP_ROWS)
        misread = _rejected_columns(db)
        if not misread:
            return
        kinds |= dict.fromkeys(misread, "VARCHAR")


def _rejected_columns(db: duckdb.DuckDBPyConnection) -> list[str]:
    """The columns whose type was a wrong guess; a line that is no row is refused."""
    torn = db.execute(
        "select line, min(csv_line), min(error_message) from reject_errors"
        " where error_type <> 'CAST' group by line order by line"
    ).fetchall()
    _refuse_lines(f"line {line}: {text!r} ({why})" for line, text, why in torn)
    found = db.execute("select distinct column_name from reject_errors").fetchall()
    return [str(name) for (name,) in found]


def _refuse_lines(lines: Iterable[str]) -> None:
    listed = list(lines)
    if listed:
        more = ", …" if len(listed) > N_SHOWN else ""
        raise InputError("some lines are no rows.", hint="; ".join(listed[:N_SHOWN]) + more)


def _copy_json(db: duckdb.DuckDBPyConnection, path: Path, target: Path) -> None:
    """Times and mixtures of types as texts.

    Types are guessed from the first rows, and from all of them (which takes longer than all
    the rest) only where a later one names more columns or does not fit.
    """
    import duckdb

    try:
        kinds = _kinds(db.read_json(str(path)))
        named = db.execute(
            "select distinct unnest(json_keys(json)) from read_json_objects(?)", [str(path)]
        )
        if {name for (name,) in named.fetchall()} <= kinds.keys():
            with suppress(duckdb.InvalidInputException, duckdb.ConversionException):
                return _copy_typed(db, path, target, kinds)
        _copy_typed(db, path, target, _kinds(db.read_json(str(path), sample_size=-1)))
    except (duckdb.InvalidInputException, duckdb.ConversionException):
        if path.suffix.lower() != ".json":
            _refuse_lines(_torn_lines(path))
        raise


def _copy_typed(
    db: duckdb.DuckDBPyConnection, path: Path, target: Path, kinds: Mapping[str, str]
) -> None:
    rows = db.read_json(str(path), columns=_safe(kinds))
    rows.write_parquet(str(target), row_group_size=GROUP_ROWS)


def _torn_lines(path: Path) -> Iterator[str]:
    """The lines of a file that are no JSON objects."""
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                row = json.loads(line) if line.strip() else {}
            except (ValueError, RecursionError):
                row = None
            if not isinstance(row, Mapping):
                yield f"line {number}: {line[:80].decode('utf-8', 'replace').rstrip()!r}"


def _kinds(relation: Relation) -> dict[str, str]:
    return {
        name: str(kind).upper()
        for name, kind in zip(relation.columns, relation.dtypes, strict=True)
    }


def _safe(kinds: Mapping[str, str]) -> dict[str, str]:
    """Guesses that lose nothing: ids such as 007 are texts, and so are times, for their zones.

    A column of whole numbers is not read as such, because a fraction further down would be
    rounded without a word: it is one of numbers if we know it, else a text.
    """
    safe = {}
    for name, kind in kinds.items():
        timed = name == "at" and kind.startswith(("TIMESTAMP", "DATE"))
        if name in TEXTS or timed or kind == "JSON":
            kind = "VARCHAR"
        elif "INT" in kind:
            known = name in (*NUMBERS, "at", "opinion") or name.startswith("mark_")
            kind = "DOUBLE" if known else "VARCHAR"
        safe[name] = kind
    return safe


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]


# -- times -----------------------------------------------------------------------------------


def refuse_untimely(engine: DuckDB, path: Path) -> None:
    """Raises with the first ten rows of a Parquet file whose `at` is a text, and no time."""
    relation = engine.connection.read_parquet(str(path))
    if _kinds(relation).get("at") != "VARCHAR":
        return
    time = f"try_cast({AT} || {NO_ZONE.format(AT)} as timestamptz)"
    numbered = relation.project(f"row_number() over () as row, {AT}, {time} as time")
    wrong = numbered.filter(f"{AT} is not null and time is null").order("row").limit(N_SHOWN)
    shown = "; ".join(f"row {row}: {text!r}" for row, text, _ in wrong.fetchall())
    if shown:
        raise InputError(
            f"`at` is not a time everywhere: {shown}.",
            hint="Write ISO 8601 or seconds since 1970.",
        )


def zones_of(engine: Engine, source: Source) -> list[str]:
    """The zones in which a table writes its times, if they are several; one without is UTC."""
    native = engine.open(source).to_native()
    if type(native).__module__.split(".")[0] == "pyspark":
        texts = dict(native.dtypes).get("at") == "string"
        written = native.selectExpr(ZONE.format("`at`")).distinct().collect() if texts else ()
    else:
        texts = _kinds(native).get("at") == "VARCHAR"
        written = native.project(ZONE.format(AT)).distinct().fetchall() if texts else ()
    minutes = sorted({_minutes_east(zone or "") for (zone,) in written})
    return [_spelt(one) for one in minutes] if len(minutes) > 1 else []


def _minutes_east(zone: str) -> int:
    """How far a zone such as Z, +02 or -05:30 is from UTC; 0 where none is named."""
    digits = zone.lstrip("+-zZ").replace(":", "").ljust(4, "0")
    return (-1 if zone.startswith("-") else 1) * (60 * int(digits[:2]) + int(digits[2:]))


def _spelt(minutes: int) -> str:
    hours, rest = divmod(abs(minutes), 60)
    return "UTC" if minutes == 0 else f"{'-' if minutes < 0 else '+'}{hours:02}:{rest:02}"
