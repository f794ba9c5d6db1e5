"""Votes of LMArena (Chatbot Arena): two anonymous answers next to each other, and the winner."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import closing
from pathlib import Path

import duckdb

from peerage.embedded import database, located, pattern
from peerage.engines.sql import Sql, listed, quoted, sql
from peerage.errors import InputError
from peerage.imports.foreign_records import Beginning, identity, look_at
from peerage.imports.formats import Format, FormatFit, formats, needs

FIELDS = {
    "model_a, model_b": "the candidates; model_a is shown first",
    "winner": "model_a, model_b, tie, tie (bothbad), both_bad, or the name of the winner",
    "winner_model_a, winner_model_b, winner_tie": "the same as three columns of 0 and 1",
    "judge, reviewer, user_id or evaluation_session_id": "the reviewer; else all are `judge`",
    "question_id or id": "the query",
    "tstamp or timestamp": "the time",
    "category, is_code or language": "the category",
    "conv_metadata or conversation_metadata": "tokens of the answers as their words; counts of "
    "headers, lists and bold words as columns of these names",
    "response_a, response_b": "the words, where there are no counts of tokens",
}
ONE_HOT = ("winner_model_a", "winner_model_b", "winner_tie")
REVIEWERS = ("reviewer", "judge", "user_id", "evaluation_session_id")
QUERIES = ("query_id", "question_id", "id")
TIMES = ("at", "tstamp", "timestamp")
METADATA = ("conv_metadata", "conversation_metadata")
TIES = ("tie", "tie (bothbad)", "both_bad", "bothbad")
N_SHOWN = 10

TOKENS = {
    "a": "try_cast(json_extract(to_json({}), '$.sum_assistant_a_tokens') as double)",
    "b": "try_cast(json_extract(to_json({}), '$.sum_assistant_b_tokens') as double)",
}
COUNTS = {  # of the style of an answer: how many headers, lists and bold words
    "headers_a": "list_sum(cast(json_extract(to_json({}), '$.header_count_a.*') as double[]))",
    "headers_b": "list_sum(cast(json_extract(to_json({}), '$.header_count_b.*') as double[]))",
    "lists_a": "list_sum(cast(json_extract(to_json({}), '$.list_count_a.*') as double[]))",
    "lists_b": "list_sum(cast(json_extract(to_json({}), '$.list_count_b.*') as double[]))",
    "bold_a": "list_sum(cast(json_extract(to_json({}), '$.bold_count_a.*') as double[]))",
    "bold_b": "list_sum(cast(json_extract(to_json({}), '$.bold_count_b.*') as double[]))",
}
TIME = "coalesce(try_cast({} as double), epoch(try_cast({} as timestamptz)))"
WORDS = "len(string_split_regex(trim(cast({} as varchar)), '\\s+'))"
REVIEWS = """
    select * exclude (n) from (
        select n, concat(prefix, ' vote ', n) as session_id, reviewer, model_a as candidate,
            if(side = 'b', 2.0, 1.0) as rank, 0 as position, words_a as words, category, "at",
            query_id, headers_a as headers, lists_a as lists, bold_a as bold from vote
        union all
        select n, concat(prefix, ' vote ', n) as session_id, reviewer, model_b as candidate,
            if(side = 'a', 2.0, 1.0) as rank, 1 as position, words_b as words, category, "at",
            query_id, headers_b as headers, lists_b as lists, bold_b as bold from vote
    ) order by n, position
"""
WRONG = """
    select n, model_a, model_b, winner from vote
    where model_a is null or model_b is null or model_a = model_b or side is null
    order by n limit ?
"""


def sniff(beginning: Beginning) -> FormatFit:
    """Return how well a file fits: two models and a winner, as one column or as three."""
    winner = ONE_HOT if set(ONE_HOT) <= set(beginning.columns) else ("winner",)
    return needs(beginning.record, "model_a", "model_b", *winner)


def write(path: Path, target: Path) -> Path:
    """Write two rows of reviews for each vote; votes that cannot be read are refused."""
    table = target.with_suffix(".parquet")
    try:
        with closing(database([located(path)], [located(target.parent)])) as db:
            columns = _open(db, path)
            db.execute(sql("create temp table vote as {}", _votes(columns)), [identity(path)])
            _refuse(db, path)
            db.sql(REVIEWS).write_parquet(str(table), compression="zstd")
    except duckdb.Error as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"cannot be read: {reason}", place=str(path)) from None
    return table


def _open(db: duckdb.DuckDBPyConnection, path: Path) -> list[str]:
    """Make the file a view of the database, and return its columns."""
    file, container = pattern(located(path)), look_at(path).container
    if container == "parquet":
        rows = db.read_parquet(file)
    elif container == "csv":
        rows = db.read_csv(file, all_varchar=True)
    else:
        rows = db.read_json(file)
    rows.create_view("file")
    return rows.columns


def _votes(columns: Collection[str]) -> Sql:
    """Return the query for one row per vote, with the same columns whatever the file has."""
    winner = sql("cast(winner as varchar)")
    if set(ONE_HOT) <= set(columns):
        hot = [sql("try_cast({} as double) > 0", quoted(name)) for name in ONE_HOT]
        winner = sql(
            "case when {} then 'model_a' when {} then 'model_b' when {} then 'tie' end", *hot
        )
    metadata = next((quoted(name) for name in METADATA if name in columns), None)
    counts = [
        sql("{} as {}", sql(count, metadata) if metadata else sql("null"), quoted(name))
        for name, count in COUNTS.items()
    ]
    named = sql(
        "select row_number() over () as n, cast(? as varchar) as prefix,"
        " cast(model_a as varchar) as model_a, cast(model_b as varchar) as model_b,"
        " {} as winner, coalesce({}, 'judge') as reviewer, {} as query_id, {} as \"at\","
        " {} as category, {} as words_a, {} as words_b, {} from file",
        winner,
        _first(columns, REVIEWERS),
        _first(columns, QUERIES),
        sql(TIME, *[_first(columns, TIMES)] * 2),
        _category(columns),
        _words(columns, metadata, "a"),
        _words(columns, metadata, "b"),
        listed(counts),
    )
    return sql(
        "select *, case when winner in ('model_a', model_a) then 'a' when winner in ('model_b',"
        " model_b) then 'b' when winner in ('tie', 'tie (bothbad)', 'both_bad', 'bothbad')"
        " then 'tie' end as side from ({})",
        named,
    )


def _first(columns: Collection[str], names: tuple[str, ...]) -> Sql:
    """Return the first of some columns that the file has, as text; else null."""
    name = next((one for one in names if one in columns), None)
    return sql("cast({} as varchar)", quoted(name)) if name else sql("cast(null as varchar)")


def _category(columns: Collection[str]) -> Sql:
    if "category" not in columns and "is_code" in columns:
        return sql("if(try_cast(is_code as boolean), 'code', 'other')")
    return _first(columns, ("category", "language"))


def _words(columns: Collection[str], metadata: Sql | None, side: str) -> Sql:
    """Return the length of one answer: its tokens, else the words of its text."""
    if metadata is not None:
        return sql(TOKENS[side], metadata)
    if f"response_{side}" in columns:
        return sql(WORDS, quoted(f"response_{side}"))
    return sql("cast(null as double)")


def _refuse(db: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Refuse votes without a model, between a model and itself, or with an unknown winner."""
    wrong = db.execute(WRONG, [N_SHOWN]).fetchall()
    if wrong:
        rows = "; ".join(f"row {n}: {a} and {b}, winner {winner}" for n, a, b, winner in wrong)
        raise InputError(
            f"some votes cannot be read: {rows}.",
            place=str(path),
            hint=f"A winner is model_a, model_b, the name of one of them, or {', '.join(TIES)}.",
        )


formats.register("arena")(
    Format("arena", "votes of LMArena (Chatbot Arena)", "reviews", sniff, None, FIELDS, write)
)
