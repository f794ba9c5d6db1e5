"""DuckDB as an engine: every kind of source, blocks that add up, and the same sums as numpy's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from peerage.biases.many_sessions import add_totals, compared_over, measure_audit, plan, sums_of
from peerage.engines import engines
from peerage.engines.duckdb import DuckDB
from peerage.engines.review_tables import read_reviews
from peerage.errors import InputError, UsageError
from peerage.findings import AuditLimits
from peerage.reports.audits import clip_lengths
from tests.shared.encoded import audit_rows, rows_of
from tests.shared.simulated_reviews import Planted, SimulatedSeason, simulated_reviews

SEASON = SimulatedSeason(
    n_sessions=30, repeats=0.2, order="balanced", families={"a": "one", "b": "one"}
)


def columns() -> dict[str, np.ndarray]:
    return simulated_reviews(SEASON, Planted(position=0.5), 7)


def parquet(path: Path, reviews: dict[str, Any]) -> Path:
    connection = duckdb.connect()
    connection.sql("select * from reviews").write_parquet(str(path))
    return path


def n_rows(source: Any) -> int:
    engine = DuckDB()
    return read_reviews(engine, source).n_rows


def test_the_registry_knows_it_and_names_what_it_does_not_know() -> None:
    assert "duckdb" in engines.names()
    with pytest.raises(UsageError, match="no engine 'abacus'"):
        engines.get("abacus")


def test_files_of_every_kind_are_read(tmp_path: Path) -> None:
    n = len(columns()["score"])
    file = parquet(tmp_path / "reviews.parquet", columns())
    assert n_rows(file) == n
    assert n_rows(str(file)) == n
    assert n_rows([file, file]) == 2 * n
    assert n_rows(sorted(tmp_path.glob("*.parquet"))) == n
    duckdb.sql(f"from '{file}'").write_csv(str(tmp_path / "reviews.csv"))
    assert n_rows(tmp_path / "reviews.csv") == n
    duckdb.sql(f"copy (from '{file}') to '{tmp_path / 'reviews.jsonl'}' (format json)")
    assert n_rows(tmp_path / "reviews.jsonl") == n


def test_tables_in_memory_are_read() -> None:
    reviews = columns()
    n = len(reviews["score"])
    assert n_rows(reviews) == n
    listed = [dict(zip(reviews, row, strict=True)) for row in zip(*reviews.values(), strict=True)]
    assert n_rows(listed) == n
    assert n_rows(duckdb.sql("select * from reviews")) == n


@pytest.mark.parametrize("library", ["polars", "pyarrow", "pandas"])
def test_other_libraries_tables_are_read_where_they_are_installed(library: str) -> None:
    """Only what this machine has is tried: none of them is a dependency."""
    import importlib.util

    if importlib.util.find_spec(library) is None:
        return
    module = __import__(library)
    table = {name: list(values) for name, values in columns().items()}
    make = module.table if library == "pyarrow" else module.DataFrame
    assert n_rows(make(table)) == len(table["score"])


def test_a_file_that_is_not_there_or_not_a_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        n_rows(tmp_path / "no.parquet")
    bad = tmp_path / "bad.parquet"
    bad.write_text("this is no parquet")
    with pytest.raises(InputError, match="cannot be read"):
        n_rows(bad)
    with pytest.raises(InputError, match="unknown file type"):
        n_rows(tmp_path / "reviews.docx")
    with pytest.raises(InputError, match="not a table"):
        n_rows(object())


def findings_of(engine: DuckDB, source: Any) -> tuple[Any, ...]:
    table = read_reviews(engine, source)
    agreed = plan(table.columns, "score")
    blocks = clip_lengths(table.load().settle())
    totals = add_totals(blocks.map(lambda rows: sums_of(rows, agreed)))
    compared = compared_over(blocks.map, totals, agreed, AuditLimits())
    return measure_audit(totals, compared, blocks.names, agreed, AuditLimits()).audit().findings


def rounded(findings: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    return [
        (
            one.metric,
            one.subject,
            one.status,
            one.n,
            *(None if x is None else round(x, 9) for x in (one.value, one.low, one.high, one.p)),
        )
        for one in findings
    ]


def test_the_engine_gives_the_sums_of_plain_numpy() -> None:
    table = columns()
    agreed = plan(tuple(table), "score")
    rows = rows_of(table)
    plain = audit_rows(rows, agreed, AuditLimits()).findings
    assert rounded(findings_of(DuckDB(), table)) == rounded(plain)


def test_a_relation_of_another_database_is_read_as_its_file_is(tmp_path: Path) -> None:
    file = parquet(tmp_path / "reviews.parquet", columns())
    relation = duckdb.connect().read_parquet(str(file))
    assert rounded(findings_of(DuckDB(), relation)) == rounded(findings_of(DuckDB(), file))


def test_rows_that_do_not_stand_together_are_put_together() -> None:
    table = columns()
    order = np.random.default_rng(3).permutation(len(table["score"]))
    mixed = {name: values[order] for name, values in table.items()}
    assert rounded(findings_of(DuckDB(), mixed)) == rounded(findings_of(DuckDB(), table))


def test_nulls_arrive_as_nan_and_missing_keys_as_negative() -> None:
    table = {
        "session_id": ["s", "s", "t"],
        "reviewer": ["a", "b", "a"],
        "candidate": ["c", "c", "c"],
        "score": [1.0, None, 3.0],
        "rank": [None, 1.0, None],
        "query_id": ["q", None, "q"],
    }
    (rows,) = read_reviews(DuckDB(), table).load().settle().map(lambda rows: rows)
    assert np.isnan(rows.numbers["score"][1])
    assert (rows.keys["query_id"] < 0).tolist() == [False, True, False]
    assert rows.names == ("a", "b", "c")
    assert rows.session.tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    "at",
    [
        [1_700_000_000, 1_700_000_060],
        [1_700_000_000_000, 1_700_000_060_000],
        ["2023-11-14T22:13:20Z", "2023-11-15T00:14:20+02:00"],
    ],
)
def test_times_are_seconds_whatever_they_came_as(at: list[Any]) -> None:
    table = {
        "session_id": ["s", "t"],
        "reviewer": ["a", "a"],
        "candidate": ["c", "c"],
        "score": [1.0, 2.0],
        "at": at,
    }
    assert read_reviews(DuckDB(), table).latest == 1_700_000_060.0


def test_a_time_that_is_none_is_refused() -> None:
    table = {
        "session_id": ["s"],
        "reviewer": ["a"],
        "candidate": ["c"],
        "score": [1.0],
        "at": ["yesterday, I think"],
    }
    with pytest.raises(InputError, match="not a time"):
        read_reviews(DuckDB(), table)


def test_an_id_that_looks_like_a_number_stays_a_text(tmp_path):
    path = tmp_path / "reviews.csv"
    path.write_text("session_id,reviewer,candidate,score\n007,01,1e3,5\n")
    engine = DuckDB()
    found = engine.arrays(engine.open(str(path)))
    assert [found[name][0] for name in ("session_id", "reviewer", "candidate")] == [
        "007",
        "01",
        "1e3",
    ]


def test_times_in_three_zones_and_in_none_are_the_same_on_every_machine():
    """A time that names no zone is UTC, whatever the machine's own zone."""
    code = (
        "from peerage.engines import engines; e = engines.get('duckdb')();"
        "rows = [{'at': t} for t in ('2026-01-01T00:00:00', '2026-01-01T02:00:00+02:00',"
        " '2026-01-01T00:00:00Z', '2025-12-31 19:00:00-05')];"
        "print(set(e.arrays(e.epoch(e.open(rows), 'at'))['at'].tolist()))"
    )
    for zone in ("UTC", "America/New_York"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            env={**os.environ, "TZ": zone},
            check=True,
        )
        assert done.stdout.strip() == "{1767225600.0}"


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_a_fraction_that_comes_late_is_not_rounded(suffix: str, tmp_path: Path) -> None:
    file = tmp_path / f"scores.{suffix}"
    scores = ["7"] * 30_000 + ["7.5"]
    lines = [f'{{"score": {score}}}' for score in scores]
    file.write_text("\n".join(lines if suffix == "jsonl" else ["score", *scores]) + "\n")
    engine = DuckDB()
    assert engine.arrays(engine.open(file))["score"].max() == 7.5
