"""Write the reviews of a store in the formats of other tools, and as lines for version control."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import combinations, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from peerage.boards import Board
from peerage.embedded import database, pattern, real_path
from peerage.engines.sql import join_sql, quote_name, sql
from peerage.errors import InputError, UsageError
from peerage.imports.evaluation_events import evaluation_requests, is_value, send_evaluations
from peerage.imports.foreign_records import parse
from peerage.imports.table_files import without_import_times
from peerage.reviews.columns import KEYS

if TYPE_CHECKING:
    import duckdb

Row = Mapping[str, Any]
BALLOT = ("session_id", "reviewer", "round")
WINNERS = {True: "model_a", False: "model_b", None: "tie"}
N_ROWS = 10_000  # rows fetched at a time
MAX_WHOLE = 2**53  # floats represent every whole number up to this one
SCHEMA_VERSION = "0.3.0"  # the version of the schema of Every Eval Ever
CARD = """\
---
pretty_name: {title}
tags: [llm-as-a-judge, peer-review]
configs:
- config_name: default
  data_files: reviews.parquet
---

# {title}

Reviews of language models by language models and people, one row for each reviewer and answer:
{n:,} reviews, {sessions:,} sessions, {reviewers:,} reviewers and {candidates:,} candidates.

| column | rows with a value |
|---|---:|
{columns}
"""


@dataclass(frozen=True, slots=True)
class ReviewExport:
    """The sources of an export: the files of reviews, the board, and a title.

    A review without a time of its own has the time of its import, and is exported without a time.
    So the same file, imported at different times, is exported as the same bytes.
    """

    files: Sequence[Path]
    board: Callable[[], Board]  # computed only if the format needs it
    version: str
    title: str
    import_times: Collection[float] = ()


def export_reviews(source: ReviewExport, name: str, target: Path) -> int:
    """Write the reviews in a named format; return the number of rows or files."""
    try:
        write = EXPORTS[name]
    except KeyError:
        known = ", ".join(EXPORTS)
        raise UsageError(f"cannot export as {name!r}.", hint=f"Known: {known}.") from None
    if name in FOLDERS and target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError("this is not an empty folder.", place=str(target), hint="Name a new one.")
    return write(source, target)


def _open(db: duckdb.DuckDBPyConnection, source: ReviewExport) -> Any:
    """Return the reviews, without the times of imports."""
    files = [pattern(real_path(file)) for file in source.files]
    return without_import_times(db.read_parquet(files, union_by_name=True), source.import_times)


def _rows(source: ReviewExport) -> Iterator[dict[str, Any]]:
    """Yield every review, in the order of sessions, reviewers and candidates."""
    with closing(database([real_path(file) for file in source.files])) as db:
        rows = _open(db, source)
        ballot = [name for name in BALLOT if name in rows.columns]
        rows.create_view("reviews")
        order = join_sql(map(quote_name, (*ballot, "candidate")))
        ordered = db.execute(sql("select * from reviews order by {}", order))
        while chunk := ordered.fetchmany(N_ROWS):
            yield from (dict(zip(rows.columns, values, strict=True)) for values in chunk)


# -- comparisons ----------------------------------------------------------------------------------


def write_arena(source: ReviewExport, target: Path) -> int:
    """Write one line for each pair of answers on a ballot, in the format of LMArena's votes."""
    n = 0
    with target.open("w", encoding="utf-8") as out:
        for vote in _votes(_rows(source)):
            out.write(_line(vote))
            n += 1
    return n


def _votes(rows: Iterator[dict[str, Any]]) -> Iterator[Row]:
    for _, ballot in groupby(rows, key=lambda row: [row.get(name) for name in BALLOT]):
        judged = [row for row in ballot if _worth(row) is not None]
        judged.sort(
            key=lambda row: (row.get("position") is None, row.get("position"), row["candidate"])
        )
        for first, second in combinations(judged, 2):
            yield {
                "question_id": first.get("query_id") or first["session_id"],
                "model_a": first["candidate"],
                "model_b": second["candidate"],
                "winner": WINNERS[_is_first_better(first, second)],
                "judge": first["reviewer"],
                "tstamp": first.get("at"),
                "category": first.get("category"),
            }


def _worth(row: Row) -> float | None:
    """Return a number that is higher for better answers: minus the rank, or else the score."""
    rank = row.get("rank")
    value = -rank if rank is not None else row.get("score")
    return float(value) if value is not None and value == value else None


def _is_first_better(first: Row, second: Row) -> bool | None:
    one, two = _worth(first), _worth(second)
    return None if one == two or one is None or two is None else one > two


# -- logs of Inspect ------------------------------------------------------------------------------


def write_inspect(source: ReviewExport, target: Path) -> int:
    """Write a log for each candidate into a new folder, with a scorer for each reviewer."""
    by_candidate: dict[str, dict[str, list[Row]]] = {}
    for row in _rows(source):
        by_candidate.setdefault(row["candidate"], {}).setdefault(row["session_id"], []).append(row)
    target.mkdir(parents=True, exist_ok=True)
    for number, (candidate, sessions) in enumerate(sorted(by_candidate.items()), 1):
        log = _inspect_log(source, candidate, sessions)
        (target / f"{number:03}.json").write_text(json.dumps(log, indent=1), encoding="utf-8")
    return len(by_candidate)


def _inspect_log(source: ReviewExport, candidate: str, sessions: Mapping[str, list[Row]]) -> Row:
    times = [row["at"] for rows in sessions.values() for row in rows if row.get("at") is not None]
    id_ = hashlib.sha256(candidate.encode()).hexdigest()[:22]
    return {
        "version": 2,
        "status": "success",
        "eval": {
            "eval_id": id_,
            "run_id": id_,
            "task_id": id_,
            "created": _iso(max(times, default=0.0)),
            "task": source.title,
            "task_version": 0,
            "dataset": {"name": source.title, "samples": len(sessions)},
            "model": candidate,
            "config": {},
            "packages": {"peerage": source.version},
        },
        "plan": {"name": "plan", "steps": [], "config": {}},
        "samples": [_sample(candidate, id_, rows) for id_, rows in sorted(sessions.items())],
    }


def _sample(candidate: str, session: str, rows: list[Row]) -> Row:
    text = next((row["text"] for row in rows if row.get("text")), "")
    message = {"role": "assistant", "content": text, "source": "generate"}
    scores = {
        row["reviewer"]: {
            "value": row.get("score") if row.get("score") is not None else float("nan"),
            "metadata": {
                name: row[name] for name in ("rank", "position") if row.get(name) is not None
            },
        }
        for row in rows
    }
    return {
        "id": session,
        "epoch": 1,
        "input": str(rows[0].get("query_id") or session),
        "target": "",
        "messages": [],
        "output": {
            "model": candidate,
            "choices": [{"message": message, "stop_reason": "stop"}],
            "completion": text,
        },
        "scores": scores,
    }


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()


# -- Every Eval Ever ------------------------------------------------------------------------------


def write_every_eval_ever(source: ReviewExport, target: Path) -> int:
    """Write one document per row of the board into a new folder, in Every Eval Ever's schema."""
    board = source.board()
    target.mkdir(parents=True, exist_ok=True)
    at = str(board.parameters.get("as_of") or "")
    for number, row in enumerate(board.rows, 1):
        path = target / f"{number:03}.json"
        path.write_text(json.dumps(_evaluation(source, row, at), indent=1), encoding="utf-8")
    return len(board)


def _evaluation(source: ReviewExport, row: Row, at: str) -> Row:
    interval = {
        "confidence_interval": {
            "lower": row["share_low"],
            "upper": row["share_high"],
            "confidence_level": 0.95,
            "method": "cluster interval over queries",
        },
        "num_samples": row["appearances"],
    }
    has_interval = row.get("share_low") is not None and row.get("share_high") is not None
    return {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": f"{source.title}/{row['model']}/{at}",
        "evaluation_timestamp": at,
        "retrieved_timestamp": at,
        "source_metadata": {
            "source_name": source.title,
            "source_type": "evaluation_run",
            "source_organization_name": "unknown",
            "evaluator_relationship": "third_party",
        },
        "eval_library": {"name": "peerage", "version": source.version},
        "model_info": {
            "name": row["model"],
            "id": row["model"],
            "additional_details": {
                "deployment_type": "unknown",
                "model_availability": "unknown",
            },
        },
        "evaluation_results": [
            {
                "evaluation_name": source.title,
                "source_data": {"dataset_name": source.title, "source_type": "other"},
                "metric_config": {
                    "metric_name": "share of rivals beaten",
                    "metric_unit": "proportion",
                    "evaluation_description": "mean over sessions of the share of rivals that an "
                    "answer is ranked above by blind peer review",
                    "lower_is_better": False,
                    "score_type": "continuous",
                    "min_score": 0.0,
                    "max_score": 1.0,
                },
                "score_details": {
                    "score": row["share"],
                    **({"uncertainty": interval} if has_interval else {}),
                },
            }
        ],
    }


# -- a data set -----------------------------------------------------------------------------------


def write_data_set(source: ReviewExport, target: Path) -> int:
    """Write reviews.parquet and a card into a new folder, for the Hugging Face hub."""
    target.mkdir(parents=True, exist_ok=True)
    folder = target.absolute()
    with closing(database([real_path(file) for file in source.files], [real_path(folder)])) as db:
        rows = _open(db, source)
        rows.write_parquet(str(folder / "reviews.parquet"), compression="zstd")
        n = int(rows.aggregate("count(*)").fetchall()[0][0])
        distinct = [
            len(rows.unique(sql("{}", quote_name(name))).fetchall()) for name in KEYS["reviews"]
        ]
        n_by_column = {
            name: int(rows.aggregate(sql("count({})", quote_name(name))).fetchall()[0][0])
            for name in rows.columns
        }
    card = CARD.format(
        title=source.title,
        n=n,
        sessions=distinct[0],
        reviewers=distinct[1],
        candidates=distinct[2],
        columns="\n".join(f"| `{name}` | {m:,} |" for name, m in n_by_column.items() if m),
    )
    (target / "README.md").write_text(card, encoding="utf-8")
    return n


# -- lines for version control --------------------------------------------------------------------


def write_lines(source: ReviewExport, target: Path) -> int:
    """Write each review as a line of JSON, sorted: equal reviews give equal bytes."""
    lines = {_line(row) for row in _rows(source)}
    target.write_text("".join(sorted(lines)), encoding="utf-8")
    return len(lines)


def merge_lines(files: Sequence[Path], target: Path) -> int:
    """Write the sorted union of JSONL files; the order of the files does not matter.

    Raise an error if two lines about the same review differ.
    """
    lines: dict[str, str] = {}
    for file in files:
        for number, data in enumerate(file.read_bytes().splitlines(), 1):
            row = parse(data, f"{file}, line {number}")
            if not isinstance(row, dict):
                raise InputError("expected an object.", place=f"{file}, line {number}")
            key = json.dumps([_whole(row.get(name)) for name in (*KEYS["reviews"], "round")])
            line = _line(row)
            if lines.setdefault(key, line) != line:
                raise InputError(
                    f"this review of {row.get('candidate')} differs from the same review in "
                    "another file.",
                    place=f"{file}, line {number}",
                    hint="Nothing was written. Remove one of the two lines.",
                )
    target.write_text("".join(sorted(lines.values())), encoding="utf-8")
    return len(lines)


# -- evaluation events ----------------------------------------------------------------------------


def write_events(source: ReviewExport, target: Path) -> int:
    """Write evaluation events of OpenTelemetry, as lines that a collector reads from a file."""
    n_events = 0
    with target.open("w", encoding="utf-8") as file:
        for n, line in evaluation_requests(_rows(source), source.version):
            file.write(line)
            n_events += n
    return n_events


def send_events(source: ReviewExport) -> int:
    """Send evaluation events to the collector that the OTEL_* variables name."""
    return send_evaluations(_rows(source), source.version)


def _line(row: Row) -> str:
    """Return a row as one line of canonical JSON: no nulls, and whole numbers without a point."""
    values = {name: _whole(value) for name, value in row.items() if is_value(value)}
    return json.dumps(values, sort_keys=True, ensure_ascii=False, separators=(",", ":")) + "\n"


def _whole(value: Any) -> Any:
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) <= MAX_WHOLE
    return int(value) if is_whole else value


EXPORTS: Mapping[str, Callable[[ReviewExport, Path], int]] = {
    "arena": write_arena,
    "inspect": write_inspect,
    "every-eval-ever": write_every_eval_ever,
    "data-set": write_data_set,
    "lines": write_lines,
    "otlp": write_events,
}
FOLDERS = ("inspect", "every-eval-ever", "data-set")  # formats that consist of several files
