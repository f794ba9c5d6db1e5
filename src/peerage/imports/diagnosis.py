"""Diagnose a file of judgements: its counts, its boards, its audit, and the columns to add."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import duckdb

from peerage.embedded import database, pattern, real_path
from peerage.engines.duckdb import DuckDB
from peerage.engines.intake import in_little_memory
from peerage.engines.sql import Sql, quote_name, sql
from peerage.errors import PeerageError, few, how_many
from peerage.findings import Audit, Finding
from peerage.imports.files import open_tables, table_in_full
from peerage.imports.formats import Format
from peerage.imports.table_files import scale_sentence
from peerage.names import alike
from peerage.reports.from_tables import audit, board_contributors, board_models, board_reviewers

DIFFERENCE = 0.05  # a difference in share that readers usually want to detect
Z_TESTED, Z_POWER = 1.96, 0.84  # for 95% intervals and a power of 80%
N_SHOWN = 5
MANY_TIES, ONE_SIDED = 0.9, 0.9
LOG_NEXT: Mapping[str, str] = {  # metrics of the audit, and what a file needs for each
    "length": "the words of each answer, or its text",
    "length_relative": "the words of each answer, judged by three reviewers or more",
    "position": "the place of each answer in the prompt, and the same answers in other orders",
    "calibration": "scores of two reviewers or more on the same answers",
    "self_preference": "reviews by the models that answer, under the same names, including reviews "
    "of their own answers; at least four models if they rank and give no scores",
    "family_preference": "the family of each model",
    "anchoring": "the position of each answer in the prompt, with scores",
    "consistency": "the same answers judged again, as another round",
    "style": "the texts of the answers, reviewed by the models that wrote them; at least four "
    "models if they rank and give no scores",
    "pair_departure": "three reviewers or more of the same answers who did not write them",
    "reasoning_length": "words of reasoning, and which answers are correct",
    "agreement": "two reviewers or more of the same answers who did not write them",
    "effective_votes": "four reviewers or more on the same answers",
    "drift": "the time of each review, over four weeks or more",
    "contradiction": "whether each answer agrees with the reviewer's own, as `agrees` of 1 or 0",
    "style_change": "the texts of the answers, and which reviews are `committed`",
}
About = tuple[str, str, str, str]  # the file's name, its format, title and kind
OF_ORDERS = ("position", "anchoring")
OF_COUNCILS = ("contradiction", "style_change")  # metrics of committed reviews
OF_RIVALS = ("agreement", "pair_departure", "effective_votes")
ONE_MODEL = "a second model on the same questions: read the files of several models together"
NO_ORDER = "each answer is graded on its own, so it has no place among others"
USEFUL = ("evidence", "clear", "indicator", "inconclusive")
COUNTS = """
    select count(*), count(distinct session_id), count(distinct reviewer),
        count(distinct candidate) from reviews
"""
DUPLICATES = """
    select count(*) from (select 1 from reviews group by session_id, reviewer, candidate, {}
        having count(*) > 1)
"""
CONSTANT = """
    select reviewer from reviews where {0} is not null group by reviewer
    having count(*) >= 5 and count(distinct {0}) = 1 order by reviewer
"""
TIED = """
    select avg(cast(tied as double)), count(*) from (
        select min({0}) = max({0}) as tied from reviews where {0} is not null
        group by session_id, reviewer, {1} having count(*) > 1)
"""
FIRST_WINS = """
    select avg(if(position = 0, 1.0, 0.0)), count(*) from reviews
    where rank = 1 and position in (0, 1)
"""


@dataclass(frozen=True, slots=True)
class MetricAdvice:
    """One metric of the audit: whether the file supports it, and what to log for it."""

    metric: str
    status: str  # the best status of its findings; "missing" (no findings), or "does_not_apply"
    n: int
    note: str = ""
    log_next: str = ""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The format of a file, the boards and metrics it supports, and its oddities."""

    file: str
    format: str
    title: str
    kind: str
    n_rows: int
    n_sessions: int
    n_reviewers: int
    n_candidates: int
    boards: Mapping[str, str]  # by board: why the file does not support it, or empty if it does
    metrics: tuple[MetricAdvice, ...] = ()
    sessions_needed: int | None = None  # how many more detect a difference of .05 in share
    rows_needed: int | None = None
    oddities: tuple[str, ...] = ()
    advice: str = ""  # what to log next time, in the terms of the tool
    n_files: int = 1  # more than 1 for a folder
    labels_by_judge: Mapping[str, int] = field(default_factory=dict)  # people's, if they gave any

    def document(self) -> dict[str, Any]:
        """Return the JSON of the diagnosis."""
        return {**asdict(self), "difference": DIFFERENCE}


def diagnose(path: Path, name: str | None = None, columns: str = "") -> Diagnosis:
    """Return what a file or a folder of files supports; no store is read or written."""
    notes: list[str] = []
    with (
        open_tables([path], name, columns, notes.append) as files,
        tempfile.TemporaryDirectory() as folder,
    ):

        def load(engine: DuckDB, _: bool) -> Path:
            return table_in_full(engine, files, Path(folder))

        table, first = in_little_memory(Path(folder), path, load), files[0].format
        about = (path.resolve().name, first.name, first.title, first.kind)
        if first.kind in ("reviews", "sessions"):
            result = _diagnose_reviews(about, table, notes)
        else:
            result = _diagnose_opinions(about, table, notes)
        metrics = tuple(_fit_advice(result, first))
        return replace(result, metrics=metrics, n_files=len(files), advice=first.advice)


def _diagnose_reviews(about: About, table: Path, notes: Sequence[str]) -> Diagnosis:
    counts, odd_rows = _look(table)
    oddities = [*notes, *odd_rows]
    boards: dict[str, str] = {}
    needed = None
    try:
        board = board_models(str(table), since="all")
        needed = _sessions_needed(board.rows, counts[1])
        boards["models"] = "" if len(board) > 1 else "it has only one candidate"
    except PeerageError as error:
        boards["models"] = error.message
    metrics: tuple[MetricAdvice, ...] = ()
    labels: dict[str, int] = {}
    try:
        result = audit(str(table))
        metrics, labels = _advice(result), {one.judge: one.n for one in result.against_people}
    except PeerageError as error:
        oddities = [*oddities, f"the audit failed: {error.message}"]
    rows_needed = None if needed is None else round(needed * counts[0] / max(1, counts[1]))
    return Diagnosis(
        *about,
        *counts,
        boards,
        metrics,
        needed,
        rows_needed,
        tuple(oddities),
        labels_by_judge=labels,
    )


def _diagnose_opinions(about: About, table: Path, notes: Sequence[str]) -> Diagnosis:
    boards: dict[str, str] = {}
    with closing(database([real_path(table)])) as db:
        rows = db.read_parquet(pattern(real_path(table)))
        n_rows = int(rows.aggregate("count(*)").fetchall()[0][0])
        counts = {
            name: int(
                rows.unique(sql("{}", quote_name(name))).aggregate("count(*)").fetchall()[0][0]
            )
            for name in ("item_id", "reviewer", "contributor")
            if name in rows.columns
        }
    if about[3] == "opinions":
        for kind, make in (("contributors", board_contributors), ("reviewers", board_reviewers)):
            try:
                make(str(table))
                boards[kind] = ""
            except PeerageError as error:
                boards[kind] = f"{error.message} {error.hint}".strip()
    return Diagnosis(
        *about,
        n_rows,
        counts.get("item_id", 0),
        counts.get("reviewer", 0),
        counts.get("contributor", 0),
        boards,
        oddities=tuple(notes),
    )


# -- counts and oddities --------------------------------------------------------------------------


def _look(table: Path) -> tuple[tuple[int, int, int, int], list[str]]:
    """Return the counts of a table of reviews, and its oddities."""
    with closing(database([real_path(table)])) as db:
        rows = db.read_parquet(pattern(real_path(table)))
        rows.create_view("reviews")
        n, sessions, reviewers, candidates = map(int, db.sql(COUNTS).fetchall()[0])
        round_ = sql("coalesce(round, 0)") if "round" in rows.columns else sql("cast(0 as bigint)")
        oddities = [_duplicates(db, round_), *_alike(db)]
        oddities.append(scale_sentence(rows))
        for value in ("score", "rank"):
            if value in rows.columns:
                oddities += [_constant(db, value), _ties(db, value, round_)]
        if {"rank", "position"} <= set(rows.columns):
            oddities.append(_one_sided(db))
    return (n, sessions, reviewers, candidates), [one for one in oddities if one]


def _duplicates(db: duckdb.DuckDBPyConnection, round_: Sql) -> str:
    n = int(db.sql(sql(DUPLICATES, round_)).fetchall()[0][0])
    return f"reviews that occur twice: {n:,}. Number repeats in a `round` column." if n else ""


def _alike(db: duckdb.DuckDBPyConnection) -> list[str]:
    """Return a sentence for names that look alike."""
    names = db.sql("select reviewer from reviews union select candidate from reviews").fetchall()
    groups = alike(str(name) for (name,) in names if name is not None)
    return [
        f"names that look alike: {few([repr(name) for name in group], N_SHOWN)}."
        for group in groups[:N_SHOWN]
    ]


def _constant(db: duckdb.DuckDBPyConnection, value: str) -> str:
    names = [str(name) for (name,) in db.sql(sql(CONSTANT, quote_name(value))).fetchall()]
    return f"always the same {value}: {few(names, N_SHOWN)}." if names else ""


def _ties(db: duckdb.DuckDBPyConnection, value: str, round_: Sql) -> str:
    share, n = db.sql(sql(TIED, quote_name(value), round_)).fetchall()[0]
    if not n or share is None or share < MANY_TIES:
        return ""
    return f"{share:.0%} of {how_many(int(n), 'ballot')} are ties in `{value}`."


def _one_sided(db: duckdb.DuckDBPyConnection) -> str:
    share, n = db.sql(FIRST_WINS).fetchall()[0]
    if not n or n < 20 or ONE_SIDED > share > 1 - ONE_SIDED:
        return ""
    side = "first" if share >= ONE_SIDED else "second"
    part = share if side == "first" else 1 - share
    return (
        f"the answer shown {side} wins {part:.0%} of {int(n):,}: check how the winner is written."
    )


# -- advice ---------------------------------------------------------------------------------------


def _advice(result: Audit) -> tuple[MetricAdvice, ...]:
    """Return each metric with its best status and, if it cannot be measured, what to log."""
    by_metric: dict[str, list[Finding]] = {}
    for finding in result.findings:
        by_metric.setdefault(finding.metric, []).append(finding)
    advice = []
    for metric, log_next in LOG_NEXT.items():
        findings = by_metric.get(metric, [])
        best = _best(findings)
        if best is None:
            advice.append(MetricAdvice(metric, "missing", 0, "", log_next))
        elif best.status in USEFUL:
            advice.append(MetricAdvice(metric, best.status, best.n))
        elif best.status == "too_few":
            more = (
                f"{how_many(best.n_min - best.n, 'more observation')}"
                if best.n < best.n_min
                else ""
            )
            advice.append(MetricAdvice(metric, best.status, best.n, best.note, more))
        else:
            is_known = best.n > 0 and metric not in ("position", "drift")
            needed = best.note if is_known and best.note else log_next
            advice.append(MetricAdvice(metric, best.status, best.n, best.note, needed))
    return tuple(advice)


def _fit_advice(diagnosis: Diagnosis, file_format: Format) -> Iterator[MetricAdvice]:
    """Yield the metrics that make sense for a format, with advice for this format and file."""
    is_ours = file_format.name in ("sessions", "reviews")
    for one in diagnosis.metrics:
        if one.status in USEFUL:
            yield one
        elif one.metric in OF_ORDERS and file_format.grades_alone:
            yield MetricAdvice(one.metric, "does_not_apply", 0, NO_ORDER, NO_ORDER)
        elif one.metric in OF_RIVALS and diagnosis.n_candidates == 1:
            yield replace(one, log_next=ONE_MODEL)
        elif one.metric not in OF_COUNCILS or is_ours:
            yield one


def _best(findings: Sequence[Finding]) -> Finding | None:
    order = (*USEFUL, "too_few", "not_identifiable")
    return min(findings, key=lambda one: (order.index(one.status), -one.n), default=None)


def _sessions_needed(rows: Sequence[Mapping[str, Any]], n_sessions: int) -> int | None:
    """Return how many more sessions would detect a difference of .05 in share between two models.

    Intervals narrow with the square root of the number of sessions. The median interval is used
    for all models. Two models are assumed to be independent, which is conservative if they meet.
    """
    widths = sorted(
        (row["share_high"] - row["share_low"]) / 2
        for row in rows
        if row.get("share_low") is not None and row.get("share_high") is not None
    )
    if not widths or not n_sessions:
        return None
    error = float(widths[len(widths) // 2]) / Z_TESTED
    needed: float = n_sessions * (2**0.5 * error * (Z_TESTED + Z_POWER) / DIFFERENCE) ** 2
    return max(0, round(needed) - n_sessions)
