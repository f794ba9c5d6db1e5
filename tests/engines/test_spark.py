"""Spark gives what DuckDB gives, byte for byte; both read the same Parquet."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from peerage.engines.duckdb import DuckDB
from peerage.errors import InputError
from peerage.reports.from_tables import audit, board_models
from tests.shared.simulated_reviews import Planted, SimulatedSeason, simulated_reviews

pytestmark = [pytest.mark.needs("java", "spark"), pytest.mark.slow]

DECIMALS = 9


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    if any(find_spec(name) is None for name in ("pyspark", "pandas", "pyarrow")):
        pytest.skip("needs PySpark, not installed here; to enable: ./dev setup spark")
    from peerage.engines.spark import Spark

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Spark's own sockets and deprecations
        engine = Spark("local[2]", block_rows=4_000)
    yield engine
    engine.session.stop()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A season of few sessions, and one of more than there are clusters; as Parquet."""
    folder = tmp_path_factory.mktemp("reviews")
    found = {}
    for name, n in (("few", 60), ("many", 1_300)):
        season = SimulatedSeason(
            n_sessions=n, repeats=0.1, n_weeks=5, reasoning=True, order="balanced"
        )
        table = dict(simulated_reviews(season, Planted(harshness={"a": -1.0}), 11))
        rows = len(table["score"])
        table["category"] = np.where(np.arange(rows) // (rows // 3) == 0, "x", "it's")
        table["mark_clarity"] = np.where(table["position"] == 0, np.nan, table["score"])
        found[name] = folder / f"{name}.parquet"
        DuckDB(folders=[folder]).open(table).to_native().write_parquet(str(found[name]))
    return found


def rounded(value: Any) -> str:
    """A document as bytes after rounding every number to 1e-9."""

    def plain(one: Any) -> Any:
        if isinstance(one, float):
            return round(one, DECIMALS) + 0.0
        if isinstance(one, dict):
            return {name: plain(part) for name, part in one.items()}
        return [plain(part) for part in one] if isinstance(one, list) else one

    return json.dumps(plain(value), sort_keys=True)


@pytest.mark.parametrize("name", ["few", "many"])
@pytest.mark.parametrize(
    "asked",
    [
        {"since": "all"},
        {"since": "3w", "own_votes": "in", "reputation": "peer", "matrix": True},
        {"since": "all", "by_category": True, "length_controlled": True},
        {"since": "all", "interval": "two-way", "history": "week", "compare_rules": True},
        {"since": "all", "rule": "bradley_terry", "category": "it's"},
    ],
    ids=lambda asked: "-".join(asked),
)
def test_a_board_is_the_same_on_both_engines(
    spark: Any, files: dict[str, Path], name: str, asked: dict[str, Any]
) -> None:
    ours = board_models(files[name], **asked).document()
    theirs = board_models(files[name], engine=spark, **asked).document()
    assert rounded(theirs) == rounded(ours)


@pytest.mark.parametrize("name", ["few", "many"])
def test_an_audit_is_the_same_on_both_engines(
    spark: Any, files: dict[str, Path], name: str
) -> None:
    ours, theirs = audit(files[name]), audit(files[name], engine=spark)
    assert rounded(theirs.document()) == rounded(ours.document())


def test_tables_in_memory_are_read_as_files_are(spark: Any) -> None:
    table = dict(simulated_reviews(SimulatedSeason(n_sessions=20), Planted(), 3))
    assert rounded(board_models(table, engine=spark).document()) == rounded(
        board_models(table).document()
    )


def test_times_as_texts_and_stamps_are_the_same_seconds(spark: Any) -> None:
    texts = ["2026-01-10T12:00:00+05:00", "2026-01-10T07:00:00Z", None]
    frame = spark.epoch(spark.open({"at": texts}), "at")
    assert spark.arrays(frame)["at"][:2].tolist() == [1_768_028_400.0, 1_768_028_400.0]
    assert np.isnan(spark.arrays(frame)["at"][2])
    millis = spark.epoch(spark.open({"at": [1_768_028_400_000.0, 5.0]}), "at")
    assert spark.arrays(millis)["at"].tolist() == [1_768_028_400.0, 5.0]


def test_what_is_no_time_is_refused(spark: Any) -> None:
    with pytest.raises(InputError, match="'noon'"):
        spark.epoch(spark.open({"at": ["noon"]}), "at")


def test_a_file_that_is_not_there_is_refused(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        spark.open(str(tmp_path / "gone.parquet"))


def test_a_duplicate_is_refused_on_spark_too(spark: Any) -> None:
    rows = {"session_id": ["s"] * 2, "reviewer": ["j"] * 2, "candidate": ["a"] * 2, "rank": [1, 2]}
    with pytest.raises(InputError, match="twice in one round"):
        board_models(rows, engine=spark)


def test_an_empty_table_is_an_empty_board(spark: Any, files: dict[str, Path]) -> None:
    board = board_models(files["few"], engine=spark, as_of="1999-01-01")
    assert board.rows == []
