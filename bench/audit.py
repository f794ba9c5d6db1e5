"""The audit's speed beside a bare scan, scoring and llm-council's audits.

llm-council is no dependency of ours: where it is not installed, its rows say so.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from bench import Row, compare, growth, measure, memory
from peerage import config
from peerage.biases.one_session import audit_session
from peerage.reports.from_tables import audit
from peerage.scoring import score_session
from peerage.types import Ballot, Query, Response, Review, ScoringOptions, Session, Slot

N_SESSIONS = 40_000  # of five seats: a million rows
AT_MOST = 40.0  # times a scan of the same file
GROWTH = 13.0
COUNCIL_TARGET = 20.0  # times as quick as llm-council, of a million reviews
MEMORY_MB = 1_000.0


def run() -> list[Row]:
    rows = [_beside_scoring(5), session_beside_council(10)]
    with tempfile.TemporaryDirectory() as folder:
        return [*rows, *_across(Path(folder))]


# -- one session -------------------------------------------------------------------------------


def _beside_scoring(n: int) -> Row:
    """The audit of a session beside the scoring of it; a hundred turns each."""
    session, options = _session(n), ScoringOptions(rubric=config.rubric("general"), audit=False)
    return compare(
        f"a session of {n}",
        _hundredfold(_audit_of(session, options)),
        _hundredfold(lambda: score_session(session, options)),
        n=100,
        target=1 / 2,
        peer_name="scoring it",
    )


def session_beside_council(n: int) -> Row:
    """The audit of one session beside llm-council's; a hundred turns each."""
    session, options = _session(n), ScoringOptions(rubric=config.rubric("general"), audit=False)
    ours = _hundredfold(_audit_of(session, options))
    if find_spec("llm_council") is None:
        alone = measure(f"a session of {n}", ours, n=100)
        return replace(alone, target=10, peer="llm-council", missing=NO_COUNCIL)
    peer = import_module("llm_council.bias_audit").run_bias_audit
    stage1 = [{"model": one.model, "response": one.text} for one in session.responses]
    stage2 = {one.reviewer: dict(one.scores) for one in score_session(session, options).counted}
    position = {name: i for i, name in enumerate(session.candidates)}
    return compare(
        f"a session of {n}",
        ours,
        _hundredfold(lambda: peer(stage1, stage2, position)),
        n=100,
        target=10,
        peer_name="llm-council",
    )


def _audit_of(session: Session, options: ScoringOptions) -> Callable[[], object]:
    counted = score_session(session, options).counted
    return lambda: audit_session(session.responses, session.ballots, counted, options.limits)


def _hundredfold(turn: Callable[[], object]) -> Callable[[], object]:
    return lambda: [turn() for _ in range(100)]


def _session(n: int) -> Session:
    """Everybody marks everybody, own answers among them, in orders of their own."""
    rng = random.Random(1)
    names = [f"model-{i}" for i in range(n)]
    labels = [chr(ord("A") + i) for i in range(n)]
    dimensions = list(config.rubric("general").weights)
    ballots, reviews = [], []
    for name in names:
        order = rng.sample(names, n)
        slots = tuple(Slot(label, who) for label, who in zip(labels, order, strict=True))
        marks = {label: {d: float(rng.randint(1, 10)) for d in dimensions} for label in labels}
        ballots.append(Ballot(name, slots))
        reviews.append(Review(name, tuple((label,) for label in labels), marks=marks))
    return Session(
        "one",
        Query("why?"),
        candidates=tuple(names),
        responses=tuple(Response(name, "word " * rng.randint(50, 200)) for name in names),
        ballots=tuple(ballots),
        reviews=tuple(reviews),
    )


# -- many sessions -----------------------------------------------------------------------------


def _across(folder: Path) -> Iterator[Row]:
    import duckdb

    small, large = folder / "small.parquet", folder / "large.parquet"
    write_reviews(small, N_SESSIONS)
    write_reviews(large, 10 * N_SESSIONS)

    bare = duckdb.connect()

    def scan() -> object:
        sums = "select reviewer, candidate, count(*), avg(score) from '{}' group by all"
        return bare.execute(sums.format(small)).fetchall()

    name, n = "audit of 1 M reviews", 25 * N_SESSIONS
    yield (
        million := compare(
            name,
            lambda: audit(small),
            scan,
            n=n,
            target=1 / AT_MOST,
            peer_name="a scan",
            n_repeats=5,
        )
    )
    yield growth(million, measure(name, lambda: audit(large), n=10 * n, n_repeats=2), GROWTH)
    yield memory("peerage.reports.from_tables:audit", small, n=n, at_most_mb=MEMORY_MB)
    yield beside_council(folder, small, n, COUNCIL_TARGET)


def beside_council(folder: Path, reviews: Path, n: int, target: float) -> Row:
    """The audit of many sessions beside llm-council's, of the same reviews."""
    name = f"audit of {n:,} reviews"
    if find_spec("llm_council") is None:
        alone = measure(name, lambda: audit(reviews), n=n, n_repeats=1)
        return replace(alone, target=target, peer="llm-council", missing=NO_COUNCIL)
    records = folder / "records.jsonl"
    _write_records(reviews, records)
    peer = import_module("llm_council.bias_aggregation").run_aggregated_bias_audit
    return compare(
        name,
        lambda: audit(reviews),
        lambda: peer(store_path=records),
        n=n,
        target=target,
        peer_name="llm-council",
        n_repeats=1,
    )


NO_COUNCIL = "llm-council is not installed"


def _write_records(reviews: Path, records: Path) -> None:
    """The same reviews in the form that llm-council keeps."""
    import duckdb

    duckdb.connect().execute(
        f"""copy (select '1.2.0' as schema_version, session_id, 1 as consent_level,
        strftime(to_timestamp("at"), '%Y-%m-%dT%H:%M:%SZ') as timestamp, reviewer as reviewer_id,
        candidate as model_id, position, 6 * words as response_length_chars,
        score as score_value, '1-10' as score_scale
        from '{reviews}') to '{records}' (format json)"""  # noqa: S608 — our own files
    )


def write_reviews(file: Path, n_sessions: int, k: int = 5) -> None:
    """Fair judges' reviews, one query in fifty asked twice."""
    import duckdb

    rng = np.random.default_rng(1)
    n = n_sessions * k * k
    session = np.repeat(np.arange(n_sessions), k * k)
    reviewer = np.tile(np.repeat(np.arange(k), k), n_sessions)
    candidate = np.tile(np.arange(k), n_sessions * k)
    query = np.where(
        rng.random(n_sessions) < 0.02, np.arange(n_sessions) // 2, np.arange(n_sessions)
    )
    quality = rng.normal(6.0, 1.2, (n_sessions, k))
    words = np.exp(rng.normal(5.0, 0.5, (n_sessions, k)))
    columns = {  # noqa: F841 — DuckDB finds it by its name
        "session": session,
        "reviewer": reviewer,
        "candidate": candidate,
        "query": query[session],
        "score": np.clip(np.rint(quality[session, candidate] + rng.normal(0.0, 0.8, n)), 1, 10),
        "position": np.argsort(rng.random((n_sessions * k, k)), axis=1).ravel(),
        "words": words[session, candidate].astype(np.int64),
    }
    duckdb.connect().execute(  # the file's name is ours
        f"""copy (select 'session-' || lpad(session::varchar, 7, '0') as session_id,
        'model-' || reviewer as reviewer, 'model-' || candidate as candidate, score,
        position::integer as position, words::integer as words, 'query-' || query as query_id,
        1.7e9 + session * 60.0 as "at" from columns) to '{file}' (format parquet)"""  # noqa: S608
    )
