"""Files as Parquet, and the zones that times are written in."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerage.engines.duckdb import DuckDB
from peerage.engines.intake import readable, zones_of
from peerage.errors import InputError


def test_text_files_become_parquet_and_parquet_stays(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("item_id,at\n007,2026-01-01\n", encoding="utf-8")
    (tmp_path / "b.jsonl").write_text('{"item_id": 7, "at": "2026-01-01T00:00:00Z"}\n')
    files = [str(tmp_path / name) for name in ("a.csv", "b.jsonl", "c.parquet")]
    duckdb.sql("select 1 as item_id").write_parquet(files[2])
    first, second, third = readable(tmp_path / "made", files)
    assert duckdb.read_parquet(first).fetchall() == [("007", "2026-01-01")]
    assert duckdb.read_parquet(second).fetchall() == [("7", "2026-01-01T00:00:00Z")]
    assert third == files[2]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.csv: cannot be read"):
        readable(tmp_path / "made", [str(tmp_path / "none.csv")])


@given(st.lists(st.sampled_from(["", "Z", "z", "+00:00", "-00", "+02", "+0200", "-05:30"])))
def test_zones_are_told_only_if_there_are_several(zones: list[str]) -> None:
    table = [{"at": f"2026-03-01T12:00:00{zone}"} for zone in zones] or {"at": ["2026-03-01"]}
    spelt = {"+02": "+02:00", "+0200": "+02:00", "-05:30": "-05:30"}
    wanted = {spelt.get(zone, "UTC") for zone in zones}
    assert set(zones_of(DuckDB(), table)) == (wanted if len(wanted) > 1 else set())


@pytest.mark.parametrize("at", [1.7e9, None])
def test_numbers_have_no_zones(at: float | None) -> None:
    assert zones_of(DuckDB(), [{"item_id": "i", "at": at}, {"item_id": "j", "at": at}]) == []
