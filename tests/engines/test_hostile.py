"""Names and files that would steer an engine: none does, whatever it is called."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerage.embedded import database, real_path
from peerage.engines import EngineError
from peerage.engines.duckdb import DuckDB
from peerage.engines.intake import MAX_COLUMNS, as_parquet, in_little_memory, readable
from peerage.engines.review_tables import MAX_MARKS, read_reviews
from peerage.engines.sql import MAX_NAME_CHARACTERS, SPARK_NAME, is_safe, join_sql, quote_name, sql
from peerage.errors import InputError, PeerageError
from peerage.reports.from_tables import board_models

SECRET = "the secret of this machine"  # noqa: S105 - it is none
HOSTILE = [
    "x\", (select content from read_text('{secret}')) as \"y",
    "x\"; copy (select 1) to '{folder}/made.csv'; --",
    "x\"; attach '{folder}/made.db'; --",
    'x"; install httpfs; load httpfs; --',
    "x\" union select * from read_text('{secret}') --",
    'a"b',
    "a'b",
    "a`b",
    "a;b",
    "a/*b*/",
    "a\\",
    "a\x00b",
    "a\nb",
    "a.b",
    "{0}",
    "x" * (MAX_NAME_CHARACTERS + 1),
]


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret.txt"
    path.write_text(SECRET)
    return path


def spelt(name: str, secret: Path) -> str:
    return name.replace("{secret}", str(secret)).replace("{folder}", str(secret.parent))


def table(name: str) -> dict[str, list[object]]:
    return {
        "session_id": ["s", "s", "t", "t"],
        "reviewer": ["r"] * 4,
        "candidate": ["a", "b", "a", "b"],
        "rank": [1.0, 2.0, 1.0, 2.0],
        f"mark_{name}": [3.0, 4.0, 5.0, 6.0],
        name: ["x"] * 4,
    }


@pytest.mark.parametrize("name", HOSTILE)
def test_a_column_with_a_hostile_name_is_not_looked_at(name: str, secret: Path) -> None:
    board = board_models(table(spelt(name, secret)))
    assert [row["model"] for row in board.rows] == ["a", "b"]
    assert SECRET not in json.dumps(board.document())
    assert sorted(path.name for path in secret.parent.iterdir()) == ["secret.txt"]


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_a_file_with_a_hostile_column_is_refused_and_the_column_named(
    name: str, suffix: str, secret: Path
) -> None:
    hostile = f"mark_{spelt(name, secret)}"
    path = secret.with_name(f"table.{suffix}")
    if suffix == "csv":
        path.write_text(
            'session_id,reviewer,candidate,rank,"{}"\ns,r,a,1,2\n'.format(
                hostile.replace('"', '""')
            )
        )
    elif suffix == "jsonl":
        path.write_text(json.dumps(table(name) | {"session_id": "s", hostile: 1}) + "\n")
    elif "\x00" in hostile:
        return
    else:
        writer = duckdb.connect()
        writer.execute("create table t (session_id varchar)")
        writer.execute(f"alter table t add column {quote_name(hostile)} double")
        writer.table("t").write_parquet(str(path))
    with pytest.raises(InputError, match="names are not allowed") as refused:
        readable(secret.parent / "made", [str(path)])
    assert repr(hostile[:80])[1:20] in str(refused.value)
    assert SECRET not in str(refused.value)


@pytest.mark.slow
@given(st.text(min_size=1, max_size=30))
def test_every_text_is_one_name_or_is_refused(name: str) -> None:
    connection = duckdb.connect()
    try:
        chosen = quote_name(name)
    except InputError:
        assert "\x00" in name or any("\ud800" <= c <= "\udfff" for c in name)
        return
    relation = connection.sql("select 1 as x").project(sql("x as {}", chosen))
    assert relation.columns == [name]
    assert relation.project(chosen).fetchall() == [(1,)]
    assert quote_name(name, SPARK_NAME)[1:-1].replace("``", "`") == name


@given(st.from_regex(r"\A\w[\w \-()%/#+&:]{0,20}\Z").filter(is_safe))
def test_every_safe_name_is_a_dimension_of_a_board(name: str) -> None:
    reviews = read_reviews(DuckDB(), table(name))
    assert (f"mark_{name}" in reviews.columns) == is_safe(f"mark_{name}")
    assert reviews.n_rows == 4


def test_an_empty_list_of_names_is_empty_sql() -> None:
    assert join_sql([]) == ""
    with pytest.raises(ValueError, match="finite"):
        sql("{}", float("nan"))


# -- what an engine reaches ----------------------------------------------------------------------

ESCAPES = [
    "select * from read_text('{secret}')",
    "select * from read_csv('{folder}/*')",
    "copy (select 1) to '{folder}/made.csv'",
    "attach '{folder}/made.db'",
    "export database '{folder}/made'",
    "install httpfs",
    "load httpfs",
    "set enable_external_access = true",
    "set allowed_directories = ['/']",
    "set lock_configuration = false",
    "set temp_directory = '{folder}'",
    "select * from rows",
]


@pytest.mark.parametrize("statement", ESCAPES)
def test_an_engine_reaches_the_files_it_was_given_and_nothing_else(
    statement: str, secret: Path
) -> None:
    given_file = secret.with_name("given.csv")
    given_file.write_text("a\n1\n")
    rows = [1]
    engine = DuckDB()
    assert engine.open(given_file).to_native().fetchall() == [(1,)]
    assert rows
    with pytest.raises(duckdb.Error):
        engine.connection.execute(spelt(statement, secret))
    assert sorted(path.name for path in secret.parent.iterdir()) == ["given.csv", "secret.txt"]


def test_a_link_is_the_file_that_it_leads_to(secret: Path) -> None:
    target, link = secret.with_name("given.csv"), secret.with_name("link.csv")
    target.write_text("a\n1\n")
    link.symlink_to(target)
    assert DuckDB().open(link).to_native().fetchall() == [(1,)]
    other = secret.with_name("other.csv")
    other.symlink_to(secret)
    with pytest.raises(duckdb.Error):
        database([real_path(target)]).read_csv(str(other))


NAMES = ["a*", "[x]", "a?", "a**", "[!a]", "{a,b}", "a'b", 'a"b', "k=1", "a b", "~", "a\\b", "é"]


@pytest.mark.parametrize(
    "suffix", ["parquet", *(pytest.param(s, marks=pytest.mark.slow) for s in ("csv", "jsonl"))]
)
@pytest.mark.parametrize("name", NAMES)
def test_a_file_name_is_no_pattern(name: str, suffix: str, tmp_path: Path) -> None:
    """Beside it lie the files that it would match."""
    folder = tmp_path / name
    folder.mkdir()
    writer = duckdb.connect()
    for stem, value in ((name, 1), ("a", 2), ("x", 2), ("ax", 2), ("b", 2)):
        plain = tmp_path / f"plain.{suffix}"
        rows = writer.sql("select ? as v", params=[value])
        if suffix == "parquet":
            rows.write_parquet(str(plain))
        elif suffix == "csv":
            rows.write_csv(str(plain))
        else:
            plain.write_text(json.dumps({"v": value}) + "\n")
        plain.rename(folder / f"{stem}.{suffix}")
    file = folder / f"{name}.{suffix}"
    assert [int(v) for (v,) in DuckDB().open(file).to_native().fetchall()] == [1]
    assert DuckDB().open([file]).to_native().columns == ["v"]
    (made,) = readable(tmp_path / "made", [str(file)])
    assert [int(v) for (v,) in DuckDB().open(made).to_native().fetchall()] == [1]


# -- sizes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "json", "parquet"])
def test_a_table_with_too_many_columns_is_refused_before_it_is_read(
    suffix: str, tmp_path: Path
) -> None:
    names = [f"c{i}" for i in range(MAX_COLUMNS + 1)]
    path = tmp_path / f"wide.{suffix}"
    if suffix in ("csv", "tsv"):
        between = "," if suffix == "csv" else "\t"
        path.write_text(between.join(names) + "\n" + between.join("1" for _ in names) + "\n")
    elif suffix == "parquet":
        columns = ", ".join(f"1 as {name}" for name in names)
        duckdb.sql(f"select {columns}").write_parquet(str(path))
    else:
        row = json.dumps(dict.fromkeys(names, 1))
        path.write_text(row + "\n" if suffix == "jsonl" else f"[{row}]")
    with pytest.raises(InputError, match=f"at most {MAX_COLUMNS} columns"):
        readable(tmp_path / "made", [str(path)])


def test_a_table_with_too_many_dimensions_is_refused() -> None:
    marks = {f"mark_{i}": [1.0] for i in range(MAX_MARKS + 1)}
    given_table = {"session_id": ["s"], "reviewer": ["r"], "candidate": ["c"], **marks}
    with pytest.raises(InputError, match=f"at most {MAX_MARKS} dimensions"):
        read_reviews(DuckDB(), given_table)


def deep(path: Path, depth: int) -> str:
    path.write_text('{"item_id": "i", "x": ' + "[" * depth + "]" * depth + "}\n")
    return str(path)


def test_json_in_a_column_is_kept(tmp_path: Path) -> None:
    (made,) = readable(tmp_path / "made", [deep(tmp_path / "deep.jsonl", 10)])
    assert DuckDB().open(made).to_native().columns == ["item_id", "x"]


@pytest.mark.parametrize("depth", [1_000, 100_000])
def test_json_that_is_too_deep_is_refused(depth: int, tmp_path: Path) -> None:
    with pytest.raises(PeerageError, match=r"deep\.jsonl"):
        readable(tmp_path / "made", [deep(tmp_path / "deep.jsonl", depth)])


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_text_that_is_no_unicode_is_refused_with_its_file(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"half.{suffix}"
    if suffix == "csv":
        path.write_bytes(b"item_id,contributor\n\xff\xfe,p\n")
    else:
        path.write_text('{"item_id": "i"}\n{"item_id": "\\ud800"}\n')
    with pytest.raises(PeerageError, match="half"):
        readable(tmp_path / "made", [str(path)])


def test_names_of_columns_are_trimmed(tmp_path: Path) -> None:
    path = tmp_path / "spaced.csv"
    path.write_text(" item_id , contributor\n007,p\n")
    (made,) = readable(tmp_path / "made", [str(path)])
    relation = DuckDB().open(made).to_native()
    assert relation.columns == ["item_id", "contributor"]
    assert relation.fetchall() == [("007", "p")]


# -- errors --------------------------------------------------------------------------------------


def test_what_an_engine_cannot_do_is_an_error_with_a_place_and_a_hint(tmp_path: Path) -> None:
    path = tmp_path / "torn.parquet"
    duckdb.sql("select range as x, repeat('y', 99) as y from range(100000)").write_parquet(
        str(path)
    )
    engine = DuckDB()
    frame = engine.open(path)
    data = bytearray(path.read_bytes())
    data[4 : len(data) // 2] = bytes(len(data) // 2 - 4)
    path.write_bytes(data)
    with pytest.raises(EngineError) as failed:
        engine.arrays(frame)
    assert str(path) in failed.value.place
    assert failed.value.hint


def test_half_a_surrogate_pair_in_a_table_is_an_error_of_ours() -> None:
    with pytest.raises(PeerageError):
        board_models(table("ok") | {"reviewer": ["\ud800"] * 4})


def test_a_copy_that_finds_no_room_is_an_error_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a\n1\n")
    gone = tmp_path / "gone"
    gone.mkdir()

    def work(engine: DuckDB, _: bool) -> Path:
        return as_parquet(engine, path, gone / "no such folder" / "a.parquet")

    with pytest.raises(EngineError, match=r"a\.csv"):
        in_little_memory(gone, path, work)
