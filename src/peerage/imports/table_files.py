"""Check the files of tables, flag their oddities, and write their rows in order."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw

from peerage.embedded import pattern, real_path
from peerage.engines import Frame
from peerage.engines.comparison_tables import as_reviews, checked_comparisons, is_comparisons
from peerage.engines.duckdb import DuckDB, kinds_of, translate_errors
from peerage.engines.intake import (
    as_parquet,
    in_little_memory,
    refuse_untimely,
    row_flags,
    zone_flags,
)
from peerage.engines.mirror import Mirror
from peerage.engines.opinion_tables import read_items, read_opinions, read_users
from peerage.engines.review_tables import counts_of, read_reviews, refuse_duplicates
from peerage.engines.sql import Sql, join_sql, quote_name, sql
from peerage.errors import InputError, UsageError
from peerage.reports.stored_reviews import community_tables, list_imported
from peerage.reviews.columns import KEYS, TRIMMED, is_number, usual_names
from peerage.reviews.flags import BLANKS, alike_flags, reserved_flags
from peerage.stores import Store

CHUNK_BYTES = 8 << 20
GROUP_BYTES = 32 << 20  # the size of a group of rows that is written at once
N_SHOWN = 10
ROW = "peerage_row"
SCALE_TOPS = (1.0, 10.0, 100.0, 1_000.0)  # the highest scores of the scales that are assumed
TABLE_FORMATS = {  # suffixes of files, and the SQL that writes a table to such a file
    ".parquet": "copy exported to ? (format parquet, compression zstd)",
    ".csv": "copy exported to ? (format csv, header)",
    ".jsonl": "copy exported to ? (format json)",
}
PEOPLE = ("reviewer", "candidate", "contributor", "user_id")


def reviews_of(engine: DuckDB, raw: Path, digest: str, target: Path) -> Path:
    """Return a file of reviews: the file itself, or a new file if it has comparisons.

    The digest of the file is part of the session ids, so that two files never share an id.
    """
    opened = engine.open(raw)
    if not is_comparisons(opened.collect_schema().names()):
        return raw
    refuse_untimely(engine, raw)
    frame = checked_comparisons(engine, opened).frame
    reviews = as_reviews(engine, frame, f"{digest[:12]} comparison")
    names = reviews.collect_schema().names()
    order = [name for name in ("session_id", "position") if name in names]
    reviews.sort(*order).to_native().write_parquet(str(target))
    return target


def trim_names(engine: DuckDB, raw: Path, target: Path) -> tuple[Path, tuple[str, ...]]:
    """Return the table without spaces around names, and flags for names that were merged."""
    rows = engine.open(raw).to_native()
    if new_by_old := usual_names(rows.columns):
        named = join_sql(
            sql("{} as {}", quote_name(a), quote_name(b)) for a, b in new_by_old.items()
        )
        old = join_sql(map(quote_name, new_by_old))
        rows = rows.project(sql("* exclude ({}), {}", old, named))
        usual = target.with_name("renamed.parquet")
        rows.write_parquet(str(usual))
        return trim_names(engine, usual, target)
    kinds = kinds_of(rows).items()
    names = [name for name, kind in kinds if name in TRIMMED and kind == "VARCHAR"]
    if not names:
        return raw, ()
    padded = join_sql(sql("coalesce(bool_or({0} <> {1}), false)", *_both(name)) for name in names)
    is_padded = dict(zip(names, rows.aggregate(padded).fetchall()[0], strict=True))
    if not any(is_padded.values()):
        return raw, ()
    flags = [flag for name in names if is_padded[name] and (flag := _flag_merged(rows, name))]
    short = join_sql(sql("nullif({1}, '') as {0}", *_both(name)) for name in names)
    rows.project(sql("* replace ({})", short)).write_parquet(str(target))
    return target, tuple(flags)


def count_from_zero(engine: DuckDB, raw: Path, target: Path) -> Path:
    """Return a table whose positions count from 1 with positions that count from 0."""
    rows = engine.open(raw).to_native()
    rows.project("* replace (cast(position as double) - 1 as position)").write_parquet(str(target))
    return target


def _both(name: str) -> tuple[Sql, Sql]:
    """Return a column, and the same column without spaces around its values."""
    return quote_name(name), sql(f"trim({{}}, '{BLANKS}')", quote_name(name))


def _flag_merged(rows: Any, name: str) -> str:
    """Return a flag for names in a column that differ only in spaces, or an empty text."""
    column, short = _both(name)
    spellings = rows.project(sql("{} as name, {} as short", column, short)).distinct()
    twice = spellings.aggregate("short, count(*) as n", "short").filter("n > 1")
    n = int(twice.aggregate("count(*)").fetchall()[0][0])
    first = twice.order("short").limit(N_SHOWN).fetchall()
    shown = ", ".join(repr(text) for text, _ in first)
    return f"names_that_differed_by_spaces:{n}: {name} {shown}" if n else ""


def check_file(store: Store, kind: str, file: Path, scale: Sequence[float]) -> None:
    """Raise an error for a table that is missing, invalid, or in conflict with the store."""
    if not file.is_file():
        raise InputError("a table of the export is missing.", place=str(file))
    with tempfile.TemporaryDirectory() as folder:

        def work(engine: DuckDB, _: bool) -> None:
            raw = as_parquet(engine, file, Path(folder) / "raw.parquet")
            check(engine, store, kind, raw, scale)

        in_little_memory(Path(folder), file, work)


def check(
    engine: DuckDB, store: Store, kind: str, raw: Path, scale: Sequence[float]
) -> tuple[str, ...]:
    """Return flags on a table of reviews, whose names are trimmed, as it is read.

    Raise an error for a table that boards cannot read, alone or with the tables in the store.
    """
    refuse_untimely(engine, raw)
    if kind == "reviews":
        table = read_reviews(engine, raw)
        refuse_duplicates(engine, table.frame, table.columns)
        _refuse_known(engine, store, raw)
        return table.flags
    if kind == "users":
        read_users(engine, [*community_tables(store, "users"), raw])
    else:
        if kind == "items":
            read_items(engine, raw)
        else:
            read_opinions(engine, raw, community_tables(store, "items") or None, scale=scale)
        _refuse_other_authors(engine, store, raw)
    return ()


def _refuse_other_authors(engine: DuckDB, store: Store, raw: Path) -> None:
    """Raise an error if an item has another contributor in the store."""
    known = [*community_tables(store, "items"), *community_tables(store, "opinions")]
    authors = _contributors(engine, [*known, raw])
    two = authors.filter(nw.col("one") != nw.col("other")).sort("item_id").head(N_SHOWN)
    first = zip(*(values.tolist() for values in engine.arrays(two).values()), strict=True)
    shown = "; ".join(f"{item!r}: {a!r} and {b!r}" for item, a, b in first)
    if shown:
        raise InputError(
            f"some items have another contributor in the store: {shown}.",
            hint="An item has one contributor. Nothing was imported.",
        )


def _contributors(engine: DuckDB, files: Sequence[Path]) -> Frame:
    """Return the contributor of each item in some tables, and a second one if tables disagree."""
    engine.admit(files)
    frame = engine.open(files)
    if "contributor" not in frame.collect_schema().names():
        frame = frame.with_columns(nw.lit(None).alias("contributor"))
    named = frame.select(*(nw.col(name).cast(nw.String) for name in ("item_id", "contributor")))
    who = nw.col("contributor")
    by_item = named.filter(~nw.col("contributor").is_null()).group_by("item_id")
    return by_item.agg(who.min().alias("one"), who.max().alias("other"))


def imported_contributors(store: Store, items: Sequence[str]) -> dict[str, str]:
    """Return the contributor of each item according to the imported tables."""
    mirror = Mirror(store.mirror_folder)
    files = [file for kind in ("items", "opinions") for file in list_imported(store, mirror, kind)]
    if not files:
        return {}
    engine = DuckDB()
    known = _contributors(engine, files).filter(nw.col("item_id").is_in(items))
    columns = engine.arrays(known)
    return dict(zip(columns["item_id"].tolist(), columns["one"].tolist(), strict=True))


def _refuse_known(engine: DuckDB, store: Store, path: Path) -> None:
    """Raise an error for reviews that another file already contained: they would count twice."""
    known = list_imported(store, Mirror(store.mirror_folder), "reviews")
    if not known:
        return
    engine.admit(path, known)
    key = (*KEYS["reviews"], "round")
    both = _select_keys(engine.open(path)).join(
        _select_keys(engine.open(known)), on=list(key), how="inner"
    )
    columns = engine.arrays(both.select(*map(nw.col, key)).sort(*key).head(N_SHOWN))
    rows = [", ".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
    if rows:
        raise InputError(
            "some of these reviews are in the store already, from another file.",
            hint=f"For instance: {'; '.join(rows)}. Nothing of this file was imported. Leave "
            "it out, or delete the other one (`peerage imports` lists them).",
        )


def _select_keys(frame: Any) -> Any:
    if "round" not in frame.collect_schema().names():
        frame = frame.with_columns(nw.lit(0).alias("round"))
    whole = nw.col("round").cast(nw.Float64).fill_null(0.0)
    return frame.select(
        *(nw.col(name).cast(nw.String) for name in KEYS["reviews"]), whole.alias("round")
    )


def write(engine: DuckDB, raw: Path, target: Path, keys: tuple[str, ...], may_sort: bool) -> int:
    """Write every row and column, grouped by the keys and then in the order of the file.

    The new file depends on the rows alone: a row without a time is written without a time, and
    readers use the time of its import. Numbers given as text are written as numbers, because they
    have been checked.
    """
    rows = engine.open(raw).to_native()
    numbered = sql("*, row_number() over () as {}", quote_name(ROW))
    frame = engine.open(rows.project(numbered) if may_sort else rows)
    kinds = frame.collect_schema()
    if "at" in kinds:
        frame = engine.epoch(frame, "at")
    else:
        frame = frame.with_columns(nw.lit(None, nw.Float64).alias("at"))
    numbers = [name for name, kind in kinds.items() if kind == nw.String and is_number(name)]
    relation = frame.with_columns(
        *(nw.col(name).cast(nw.String) for name in keys),
        *(nw.col(name).cast(nw.Float64) for name in numbers if "session_id" in keys),
    ).to_native()
    if may_sort:
        order, rest = (
            join_sql(map(quote_name, (*keys, ROW))),
            sql("* exclude ({})", quote_name(ROW)),
        )
        relation = relation.order(order).project(rest)
    size = _group_rows(engine, raw)
    relation.write_parquet(str(target), compression="zstd", row_group_size=size)
    return int(engine.open(target).to_native().aggregate("count(*)").fetchall()[0][0])


def without_import_times(rows: Any, times: Collection[float]) -> Any:
    """Return reviews in which the times of imports are replaced by null."""
    if not times or "at" not in rows.columns:
        return rows
    moments = join_sql(sql("{}e0", float(time)) for time in sorted(times))
    return rows.project(sql('* replace (if("at" in ({}), null, "at") as "at")', moments))


def _group_rows(engine: DuckDB, raw: Path) -> int:
    """Return the number of rows per group of a Parquet file, which is lower for large rows."""
    sizes = engine.connection.execute(
        "select sum(total_uncompressed_size), sum(row_group_num_rows) filter (column_id = 0)"
        " from parquet_metadata(?)",
        [pattern(real_path(raw))],
    ).fetchall()
    n_bytes, n_rows = sizes[0]
    mean = (n_bytes or 0) / max(1, n_rows or 0)
    return max(2_048, min(122_880, int(GROUP_BYTES / max(1.0, mean)) // 2_048 * 2_048))


def flags_of(engine: DuckDB, kind: str, raw: Path, checked: Path, at: float) -> tuple[str, ...]:
    """Return flags for oddities of a table that are not errors."""
    flags, table = zone_flags(engine, raw), engine.open(checked)
    people = [name for name in PEOPLE if name in table.collect_schema().names()]
    flags += alike_flags(
        name for column in people for name in counts_of(engine, table, column) if name is not None
    )
    if "candidate" in people:
        candidates = counts_of(engine, table, "candidate")
        flags += reserved_flags(name for name in candidates if name is not None)
    if kind in ("reviews", "opinions"):
        late = table.filter(nw.col("at") > at)
        flags += row_flags(engine, f"{kind}_in_the_future", late, kind)
    if kind == "reviews" and (sentence := scale_sentence(table.to_native())):
        flags += (sentence,)
    if kind == "opinions":
        counted = table.group_by("item_id", "reviewer", "opinion", "at").agg(nw.len().alias("n"))
        twice = counted.filter(nw.col("n") > 1)
        flags += row_flags(engine, "opinions_given_twice", twice, kind)
    return tuple(flags)


def scale_sentence(rows: Any) -> str:
    """Return a sentence if reviewers score on different scales, else an empty text."""
    if "score" not in rows.columns:
        return ""
    number = sql("try_cast(score as double)")
    ends = rows.aggregate(
        sql("cast(reviewer as varchar) as who, min({0}) as low, max({0}) as high", number),
        "reviewer",
    )
    ends = ends.filter("high is not null").order("high, who").fetchall()
    by_top: dict[float, list[str]] = {}
    for who, low, high in ends:
        top = next((top for top in SCALE_TOPS if max(abs(low), abs(high)) <= top), SCALE_TOPS[-1])
        by_top.setdefault(top, []).append(f"{who} ({low:g} to {high:g})")
    if len(by_top) < 2:
        return ""
    first = ", ".join(names[0] for names in by_top.values())
    scales = f"reviewers score on different scales, such as {first}"
    return f"{scales}; ranks come from each reviewer's own scores."


def read_chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as data:
        while chunk := data.read(CHUNK_BYTES):
            yield chunk


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
    """Write the reviews of some Parquet files to one file, and return their number.

    The suffix determines the format. Times of imports are left out, and so are values that are not
    finite: they do not count, and JSON cannot represent them.
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
        shutil.copyfile(copy, target)  # copied, because the target may be a device
    return n
