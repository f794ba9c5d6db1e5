"""The tables of a community: what is read, and what is refused with its rows."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pytest

from peerage.engines import Engine, engines
from peerage.engines.duckdb import DuckDB
from peerage.engines.opinion_tables import Opinions
from peerage.errors import InputError
from peerage.reports import InputTables, read_community_boards
from peerage.reports.community_boards import CommunityBoards
from peerage.reports.community_boards import read_tables as read_with
from peerage.reports.from_tables import board_contributors, board_items, board_reviewers
from peerage.reports.options import ContributorBoardOptions
from peerage.reports.outside_rankings import read_outside
from peerage.simulate import Population, simulate


def row(item: str, author: str | None, reviewer: str | None, opinion: object) -> dict[str, Any]:
    return {"item_id": item, "contributor": author, "reviewer": reviewer, "opinion": opinion}


def read_tables(*tables: Any, engine: Engine | None = None, **more: Any) -> Opinions:
    return read_with(engine or DuckDB(), *tables, **more)


def community_boards(
    opinions: Any, engine: str | Engine = "duckdb", **options: Any
) -> CommunityBoards:
    tables = InputTables(opinions=opinions, engine=engine)
    return read_community_boards(tables, ContributorBoardOptions(**options))


THREE = [row("i", "a", who, 1) for who in ("r", "s", "t")]


def test_an_opinion_off_the_scale_is_refused_with_its_row_and_a_hint() -> None:
    with pytest.raises(InputError, match=r"1 opinion is outside the scale \(5\): row 4\.") as error:
        read_tables([*THREE, row("i", "a", "u", 5)])
    assert "-1, 1" in error.value.hint


def test_an_opinion_of_a_time_that_is_in_no_calendar_is_refused() -> None:
    with pytest.raises(InputError, match="`at` is out of range"):
        read_tables([one | {"at": at} for one, at in zip(THREE, (1.7e9, 1e30, 1.7e9), strict=True)])


def test_the_first_ten_offenders_are_named() -> None:
    wrong = [row(f"i{k}", "a", "r", 0) for k in range(12)]
    with pytest.raises(InputError, match=r"12 opinions .*: rows 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …"):
        read_tables(wrong)


def test_an_unknown_word_and_an_empty_opinion_are_refused() -> None:
    with pytest.raises(InputError, match=r"\('meh'\): row 2"):
        read_tables([row("i", "a", "r", "positive"), row("i", "a", "s", "meh")])
    with pytest.raises(InputError, match=r"\(empty\): row 2"):
        read_tables([row("i", "a", "r", 1), row("i", "a", "s", None)])
    with pytest.raises(InputError, match="outside the scale"):
        read_tables([row("i", "a", "r", True), row("i", "a", "s", False)])


def test_words_are_opinions_too() -> None:
    said = ["positive", "Negative", "+1", "-1"]
    community = read_tables([row("i", "a", f"r{k}", word) for k, word in enumerate(said)])
    assert community.rows.value.tolist() == [1.0, -1.0, 1.0, -1.0]


def test_missing_columns_and_empty_names_are_refused() -> None:
    with pytest.raises(InputError, match="needs the columns reviewer, opinion"):
        read_tables([{"item_id": "i", "contributor": "a"}])
    with pytest.raises(InputError, match="`reviewer` is empty in 1 row of opinions: row 2"):
        read_tables([row("i", "a", "r", 1), row("i", "a", None, 1)])
    with pytest.raises(InputError, match="needs the column contributor"):
        read_tables(THREE, items=[{"item_id": "i"}])


def test_an_item_needs_one_contributor_and_no_more() -> None:
    with pytest.raises(InputError, match="1 item has no contributor: j"):
        read_tables([*THREE, row("j", None, "r", 1)])
    with pytest.raises(InputError, match="'i': 'a' and 'b'"):
        read_tables([*THREE, row("i", "b", "u", 1)])
    with pytest.raises(InputError, match="'i': 'a' and 'b'"):
        read_tables(THREE, items=[{"item_id": "i", "contributor": "b"}])


def test_items_without_opinions_count_as_their_contributors() -> None:
    bare = [{k: v for k, v in one.items() if k != "contributor"} for one in THREE]
    items = [{"item_id": "i", "contributor": "a"}, {"item_id": "new", "contributor": "a"}]
    board = board_contributors(bare, items=items).rows[0]
    assert (board["items"], board["items_scored"], board["quality_score"]) == (2, 1, 1.0)


def test_reviewers_nobody_knows_are_flagged_by_name() -> None:
    users = [{"user_id": "a", "affiliated": 1}, {"user_id": "r", "affiliated": 0}]
    board = board_contributors(THREE, users)
    (flag,) = board.flags
    assert re.fullmatch(r"2 reviewers .*users: s, t", flag)
    assert board.rows[0]["affiliation_bonus"] == 10
    with pytest.raises(InputError, match=r"`affiliated` is 'perhaps' in row 1"):
        read_tables(THREE, [{"user_id": "a", "affiliated": "perhaps"}])
    with pytest.raises(InputError, match="listed twice"):
        read_tables(
            THREE, [{"user_id": "a", "affiliated": "yes"}, {"user_id": "a", "affiliated": "no"}]
        )


def test_files_of_every_kind_give_the_same_board(tmp_path: Path) -> None:
    rows = [
        row(f"i{k}", f"a{k % 3}", f"r{j}", 1 if (k * j) % 3 else -1)
        for k in range(9)
        for j in range(5)
    ]
    head = list(rows[0])
    lines = [",".join(head), *(",".join(str(one[name]) for name in head) for one in rows)]
    (tmp_path / "o.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "o.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    engine = DuckDB(folders=[tmp_path])
    engine.open(rows).to_native().write_parquet(str(tmp_path / "o.parquet"))
    wanted = json.dumps(board_items(rows).rows)
    for name in ("o.csv", "o.jsonl", "o.parquet"):
        assert json.dumps(board_items(str(tmp_path / name)).rows) == wanted


def test_the_order_of_rows_changes_nothing_but_whose_word_is_last() -> None:
    rng = np.random.default_rng(0)
    rows = [
        row(f"i{k}", "a", f"r{j}", int(rng.choice([-1, 1]))) for k in range(20) for j in range(6)
    ]
    turned = [rows[i] for i in rng.permutation(len(rows))]
    for board in (board_contributors, board_reviewers, board_items):
        first, second = board(rows).rows, board(turned).rows
        assert len(first) == len(second)
        for one, other in zip(first, second, strict=True):
            assert one == pytest.approx(other, abs=1e-12)


def test_an_empty_table_is_an_empty_community(tmp_path: Path) -> None:
    path = str(tmp_path / "none.parquet")
    none = DuckDB(folders=[tmp_path]).open(THREE).filter(nw.col("opinion") > 1)
    none.to_native().write_parquet(path)
    community = read_tables(path, [{"user_id": "a", "affiliated": "yes"}]).rows
    assert (community.n, community.n_items, community.people.tolist()) == (0, 0, ["a"])
    assert board_items(path).rows == []


def test_of_two_categories_of_an_item_the_first_by_name_is_its() -> None:
    said = [one | {"category": name} for one, name in zip(THREE, "zmz", strict=True)]
    community = read_tables(said).members
    assert community.categories is not None
    assert community.category is not None
    assert community.categories[community.category].tolist() == ["m"]


def test_times_in_three_zones_are_one_order() -> None:
    said = [
        row("i", "a", "r", -1) | {"at": "2026-01-01T12:00:00+09:00"},
        row("i", "a", "r", 1) | {"at": "2026-01-01T05:00:00+00:00"},
        row("i", "a", "r", -1) | {"at": "2026-01-01T00:30:00-03:00"},
    ]
    heard = read_community_boards(InputTables(opinions=said))
    assert heard.community.value.tolist() == [1.0]


def test_an_outside_ranking_needs_names_once_and_a_score_or_a_rank() -> None:
    engine = engines.get("duckdb")()
    assert read_outside(engine, [{"name": "a", "rank": 1}, {"name": "b", "rank": 2}]) == {
        "a": -1.0,
        "b": -2.0,
    }
    with pytest.raises(InputError, match="names and a score or a rank"):
        read_outside(engine, [{"name": "a", "charm": 1}])
    with pytest.raises(InputError, match="twice"):
        read_outside(engine, [{"name": "a", "score": 1}, {"name": "a", "score": 2}])


HOSTILE = ("`", "'; drop table opinions; --", '"', "a`b.c", "${x}", "back\\slash", "é\u202e", "007")


def hostile(name: object) -> str:
    """A name with marks that some dialect of SQL would take for its own."""
    return f"{name}{HOSTILE[sum(str(name).encode()) % len(HOSTILE)]}"


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A community with own opinions, repeats and gaps in its times, as Parquet and as texts."""
    made = simulate(Population(40, 2, 2, 2, rings=(4,)), 2)
    columns = {name: values.tolist() for name, values in made.opinions.items()}
    by_row = zip(*columns.values(), strict=True)
    rows = [dict(zip(columns, values, strict=True)) for values in by_row]
    rows += [one | {"opinion": -one["opinion"], "at": one["at"] + 9.0} for one in rows[::7]]
    rows += [one | {"reviewer": one["contributor"]} for one in rows[::9]]
    rows = [
        one
        | {name: hostile(one[name]) for name in ("item_id", "contributor", "reviewer")}
        | {"category": f"c`{i % 2}", "at": one["at"] if i % 50 else None}
        for i, one in enumerate(rows)
    ]
    told = [one | {"opinion": "positive" if one["opinion"] > 0 else "Negative"} for one in rows]
    together = sorted(rows, key=lambda one: str(one["item_id"]))
    folder = tmp_path_factory.mktemp("opinions `of` 'all'")
    engine = DuckDB(folders=[folder])
    paths = {name: str(folder / f"{name}.parquet") for name in ("numbers", "words", "together")}
    for path, table in zip(paths.values(), (rows, told, together), strict=True):
        engine.open(table).to_native().write_parquet(path)
    return paths


ASKED: list[tuple[str, dict[str, Any]]] = [
    ("numbers", {}),
    ("words", {"all": True}),
    ("together", {"literal": True}),
    ("numbers", {"half_life": 20.0}),
    ("together", {"since": "15d"}),
    ("numbers", {"category": "c`1"}),
    ("numbers", {"reputation": "iterate", "half_life": 20.0}),
    ("words", {"without_flagged": True}),
]


@pytest.mark.parametrize(("name", "asked"), ASKED, ids=lambda one: "-".join(one) or "plain")
def test_blocks_of_whole_items_change_nothing(
    tables: dict[str, str], name: str, asked: dict[str, Any]
) -> None:
    """Whether rows stand together or not, and however small the blocks are."""
    wanted = printed(community_boards(tables[name], **asked))
    for block_rows in (100, 333):
        assert printed(community_boards(tables[name], engine=DuckDB(block_rows), **asked)) == wanted


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Spark's own sockets and deprecations
        engine = import_module("peerage.engines.spark").Spark("local[2]", block_rows=100)
    yield engine
    engine.session.stop()


@pytest.mark.needs("java", "spark")
@pytest.mark.slow
@pytest.mark.parametrize(("name", "asked"), ASKED, ids=lambda one: "-".join(one) or "plain")
def test_spark_gives_what_duckdb_gives(
    spark: Any, tables: dict[str, str], name: str, asked: dict[str, Any]
) -> None:
    wanted = printed(community_boards(tables[name], **asked))
    assert printed(community_boards(tables[name], engine=spark, **asked)) == wanted


@pytest.mark.needs("java", "spark")
@pytest.mark.slow
def test_rings_and_refusals_are_the_same_on_spark(spark: Any, tables: dict[str, str]) -> None:
    ours, theirs = (
        community_boards(tables["numbers"], engine=engine).rings.document()
        for engine in ("duckdb", spark)
    )
    assert rounded(theirs) == rounded(ours)
    with pytest.raises(InputError, match=r"1 opinion is outside the scale \(5\)"):
        read_tables([*THREE, row("i", "a", "u", 5)], engine=spark)
    with pytest.raises(InputError, match="'i': 'a' and 'b'"):
        read_tables([*THREE, row("i", "b", "u", 1)], engine=spark)


@pytest.mark.needs("java", "spark")
@pytest.mark.slow
def test_the_command_line_prints_the_same_board_on_spark(
    tables: dict[str, str],
) -> None:
    """As a user calls it, in a process of its own."""
    printed_by = {}
    for engine in ("duckdb", "spark"):
        asked = ["board", "reviewers", "--opinions", tables["together"], "--engine", engine]
        done = subprocess.run(
            [sys.executable, "-m", "peerage", *asked, "--json"],
            capture_output=True,
            text=True,
            check=True,
        )
        printed_by[engine] = rounded(json.loads(done.stdout))
    assert printed_by["spark"] == printed_by["duckdb"]


def printed(heard: CommunityBoards) -> str:
    """All that is said about a community, rounded to 1e-9."""
    everyone = isinstance(heard.options, ContributorBoardOptions) and heard.options.all
    boards = (heard.contributors(everyone), heard.reviewers(everyone), heard.items())
    return rounded([board.document() for board in boards])


def rounded(value: Any) -> str:
    """A document as bytes after rounding every number to 1e-9."""

    def plain(one: Any) -> Any:
        if isinstance(one, float):
            return round(one, 9) + 0.0
        if isinstance(one, dict):
            return {name: plain(part) for name, part in one.items()}
        return [plain(part) for part in one] if isinstance(one, (list, tuple)) else one

    return json.dumps(plain(value))
