"""Votes of LMArena (Chatbot Arena): two anonymous answers next to each other, and the winner."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import duckdb
import numpy as np

from peerage.embedded import database, pattern, real_path
from peerage.engines import codes_in, encode
from peerage.engines.comparison_tables import FLOATS, WINNERS
from peerage.engines.comparison_tables import TEXTS as PLAIN
from peerage.engines.duckdb import BATCH_ROWS, kinds_of
from peerage.engines.sql import Sql, join_sql, quote_name, sql
from peerage.errors import InputError
from peerage.imports.foreign_records import Beginning, look_at
from peerage.imports.formats import Format, FormatFit, formats, needs

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped]

FIELDS = {
    "model_a, model_b": "the candidates; model_a is shown first",
    "winner": "model_a, model_b, tie, tie (bothbad), both_bad, or the name of the winner",
    "winner_model_a, winner_model_b, winner_tie": "the winner as three columns of 0 and 1",
    "judge, reviewer, user_id or evaluation_session_id": "the reviewer; `judge` in a file "
    "without any of these",
    "question_id or id": "the query",
    "tstamp or timestamp": "the time",
    "category, is_code or language": "the category",
    "conv_metadata or conversation_metadata": "tokens of the answers as their words; counts of "
    "headers, lists and bold words as columns of these names",
    "response_a, response_b": "the words, where there are no counts of tokens",
}
ADVICE = (
    "Keep the voter (`judge` or `user_id`) and `conv_metadata`, and have some pairs "
    "judged in both orders: the consistency of a voter who sees a pair once cannot be measured."
)
ONE_HOT = ("winner_model_a", "winner_model_b", "winner_tie")
REVIEWERS = ("reviewer", "judge", "user_id", "evaluation_session_id")
QUERIES = ("query_id", "question_id", "id")
TIMES = ("at", "tstamp", "timestamp")
CATEGORIES = ("category", "language")
METADATA = ("conv_metadata", "conversation_metadata")
ANSWERS = ("response_a", "response_b")
SIDES = ("model_a", "model_b", "winner")
TEXTS = (*SIDES, *ONE_HOT, *REVIEWERS, *QUERIES, *TIMES, *CATEGORIES, "is_code", *ANSWERS)
CONVERTED = (*ONE_HOT, *METADATA, *ANSWERS, "is_code")  # columns that need a conversion

SIDE = """
    case when word in ('model_a', model_a) then 'model_a'
        when word in ('model_b', model_b) then 'model_b'
        when word in ('both_bad', 'bothbad') then 'tie (bothbad)' else word end
"""
TOKENS = "try_cast(json_extract(to_json({{}}), '$.sum_assistant_{}_tokens') as double)"
COUNT = "list_sum(cast(json_extract(to_json({{}}), '$.{}_count_{}.*') as double[]))"
STYLES = {"headers": "header", "lists": "list", "bold": "bold"}  # our columns, their names
TIME = "coalesce(try_cast({0} as double), epoch(try_cast({0} as timestamptz)))"
WORDS = "len(string_split_regex(trim(cast({} as varchar)), '\\s+'))"


def sniff(beginning: Beginning) -> FormatFit:
    """Return how well a file fits: two models and a winner, as one column or as three."""
    winner = ONE_HOT if set(ONE_HOT) <= set(beginning.columns) else ("winner",)
    return needs(beginning.record, "model_a", "model_b", *winner)


def write(path: Path, target: Path) -> Path:
    """Write the votes as a table of comparisons, with the lengths and styles of both answers."""
    table = target.with_suffix(".parquet")
    with _query(path, target.parent) as votes:
        votes.write_parquet(str(table), compression="snappy")
    return table


def load(path: Path) -> pyarrow.Table:
    """Return the same table of comparisons in memory, with texts encoded as dictionaries."""
    if (plain := _load_parquet(path)) is not None:
        return plain
    with _query(path) as votes:
        reader = votes.to_arrow_reader(BATCH_ROWS)
        return encode(reader.schema, reader, as_texts=("query_id",))


def _load_parquet(path: Path) -> pyarrow.Table | None:
    """Return the votes of a Parquet file if its columns only need other names, else None.

    Arrow passes on the dictionary codes in the file, so that no text is copied.
    """
    if look_at(path).container != "parquet":
        return None
    import pyarrow as pa
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    try:
        names = _plain_names(pq.read_schema(path))
        if names is None:
            return None
        codes = [name for name, ours in names.items() if ours not in ("query_id", "at")]
        with pq.ParquetFile(path, read_dictionary=codes) as file:
            votes = file.read(columns=list(names)).unify_dictionaries()
    except (pa.ArrowException, OSError):  # the usual reader reports the error
        return None
    if not set(codes_in(votes, "winner")[1].tolist()) <= set(WINNERS):
        return None
    columns = {names[name]: votes.column(name) for name in votes.column_names}
    for place, side in enumerate("ab"):  # a buffer, because from a number Arrow would import pandas
        values = pa.py_buffer(np.full(len(votes), float(place)))
        array = pa.Array.from_buffers(pa.float64(), len(votes), [None, values])
        columns[f"position_{side}"] = pa.chunked_array([array], pa.float64())
    return pa.table(columns)


def _plain_names(schema: pyarrow.Schema) -> dict[str, str] | None:
    """Return our name for each column that is read, or None if values need a conversion."""
    columns = set(schema.names)
    if not columns.issuperset(SIDES) or columns.intersection(CONVERTED):
        return None
    ours = {name: name for name in SIDES}
    aliases = {"reviewer": REVIEWERS, "query_id": QUERIES, "category": CATEGORIES, "at": TIMES}
    for name, theirs in aliases.items():
        here = columns.intersection(theirs)
        if len(here) > 1:
            return None
        ours |= dict.fromkeys(here, name)
    kinds = {name: FLOATS if new == "at" else PLAIN for name, new in ours.items()}
    return ours if all(str(schema.field(name).type) == kinds[name] for name in ours) else None


@contextmanager
def _query(path: Path, *folders: Path) -> Iterator[duckdb.DuckDBPyRelation]:
    """Yield the votes of a file, one row each; the database may write to these folders."""
    try:
        with closing(database([real_path(path)], map(real_path, folders))) as db:
            yield db.sql(_votes(_open(db, path)))
    except duckdb.Error as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"cannot be read: {reason}", place=str(path)) from None


def _open(db: duckdb.DuckDBPyConnection, path: Path) -> Mapping[str, str]:
    """Make the file a view of the database, and return the types of its columns.

    For JSON, only the fields that are read are named: conversations are skipped, and no type is
    guessed from the first records.
    """
    file, beginning = pattern(real_path(path)), look_at(path)
    if beginning.container == "parquet":
        rows = db.read_parquet(file)
    elif beginning.container == "csv":
        rows = db.read_csv(file, all_varchar=True)
    else:
        kinds = dict.fromkeys(TEXTS, "VARCHAR") | dict.fromkeys(METADATA, "JSON")
        known = {name: kind for name, kind in kinds.items() if name in beginning.columns}
        has_lines = beginning.container == "jsonl"
        layout: Literal["newline_delimited", "array"]
        layout = "newline_delimited" if has_lines else "array"
        rows = db.read_json(file, columns=known, format=layout)
    rows.create_view("file")
    return kinds_of(rows)


def _votes(columns: Mapping[str, str]) -> Sql:
    """Return the query for one row per vote, in the order of the file."""
    metadata = _first(columns, METADATA, "json") if {*METADATA} & {*columns} else None
    sides = []
    for side, position in (("a", 0), ("b", 1)):
        sides.append(sql(f"{position} as position_{side}"))
        if metadata is not None or f"response_{side}" in columns:
            sides.append(
                sql("{} as {}", _words(columns, metadata, side), quote_name(f"words_{side}"))
            )
        if metadata is not None:
            for ours, theirs in STYLES.items():
                count = sql(COUNT.format(theirs, side), metadata)
                sides.append(sql("{} as {}", count, quote_name(f"{ours}_{side}")))
    named = sql(
        "select cast(model_a as varchar) as model_a, cast(model_b as varchar) as model_b,"
        ' {} as word, {} as reviewer, {} as query_id, {} as "at",'
        " {} as category, {} from file",
        _winner(columns),
        _first(columns, REVIEWERS) if {*REVIEWERS} & {*columns} else sql("'judge'"),
        _first(columns, QUERIES),
        _time(columns),
        _category(columns),
        join_sql(sides),
    )
    return sql("select * exclude (word), {} as winner from ({})", sql(SIDE), named)


def _winner(columns: Collection[str]) -> Sql:
    """Return SQL for the winner: the column `winner`, or three columns of 0 and 1."""
    words = [sql("cast(winner as varchar)")] if "winner" in columns else []
    if set(ONE_HOT) <= set(columns):
        hot = [sql("try_cast({} as double) > 0", quote_name(name)) for name in ONE_HOT]
        sides = "case when {} then 'model_a' when {} then 'model_b' when {} then 'tie' end"
        words.append(sql(sides, *hot))
    return sql("coalesce({}, null)", join_sql(words))


def _first(columns: Collection[str], names: tuple[str, ...], kind: str = "varchar") -> Sql:
    """Return SQL for the first value in those of the columns that the file has, or null."""
    here = [sql(f"cast({{}} as {kind})", quote_name(name)) for name in names if name in columns]
    return sql("coalesce({}, null)", join_sql(here)) if here else sql("cast(null as varchar)")


def _time(columns: Mapping[str, str]) -> Sql:
    """Return SQL for the time in seconds since 1970, from a number, a timestamp or a text."""
    name = next((name for name in TIMES if name in columns), None)
    if name is not None and columns[name] in ("DOUBLE", "FLOAT", "BIGINT", "INTEGER"):
        return sql("cast({} as double)", quote_name(name))
    return sql(TIME, _first(columns, TIMES))


def _category(columns: Collection[str]) -> Sql:
    named = [_first(columns, ("category",))]
    if "is_code" in columns:
        named.append(
            sql(
                "case when try_cast(is_code as boolean) then 'code' when is_code is not null"
                " then 'other' end"
            )
        )
    return sql("coalesce({})", join_sql([*named, _first(columns, ("language",))]))


def _words(columns: Collection[str], metadata: Sql | None, side: str) -> Sql:
    """Return SQL for the length of an answer: its tokens, or else the words of its text."""
    lengths = [] if metadata is None else [sql(TOKENS.format(side), metadata)]
    if f"response_{side}" in columns:
        lengths.append(sql(WORDS, quote_name(f"response_{side}")))
    return sql("greatest(coalesce({}, null), 0.0)", join_sql(lengths))


formats.register("arena")(
    Format(
        "arena",
        "votes of LMArena (Chatbot Arena)",
        "reviews",
        sniff,
        None,
        FIELDS,
        write,
        load,
        advice=ADVICE,
    )
)
