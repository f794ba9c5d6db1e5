"""The audit's speed against a bare scan of the same file, and its own calibration.

Writes the tables of false alarms and of power into docs/audit.md, between their markers.
"""

from __future__ import annotations

import os
import re
import resource
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bench import Row, compare, cpu_seconds
from bench._calibration import fair_lines, metric_lines, power_lines
from peerage.reports import audit

N_SESSIONS = 40_000  # of five seats: a million rows
N_AUDITS = int(os.environ.get("PEERAGE_BENCH_AUDITS", "200"))
DOCUMENT = Path(__file__).parents[1] / "docs" / "audit.md"


def run() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        rows = list(_speed(Path(folder)))
    for name, lines in (
        ("fair", fair_lines(N_AUDITS)),
        ("metrics", metric_lines(N_AUDITS)),
        ("power", power_lines(N_AUDITS)),
    ):
        _write(name, list(lines))
    return rows


def _speed(folder: Path) -> Iterator[Row]:
    import duckdb

    small, large = folder / "small.parquet", folder / "large.parquet"
    write_reviews(small, N_SESSIONS)
    write_reviews(large, 10 * N_SESSIONS)

    bare = duckdb.connect()

    def scan() -> object:
        sums = "select reviewer, candidate, count(*), avg(score) from '{}' group by all"
        return bare.execute(sums.format(small)).fetchall()

    yield compare(
        "all metrics but style, with intervals",
        lambda: audit(small),
        scan,
        n=25 * N_SESSIONS,
        target=1 / 30,
        peer_name="DuckDB scan and group",
        n_repeats=5,
    )
    mega = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    once, ten = cpu_seconds(lambda: audit(small)), cpu_seconds(lambda: audit(large))
    yield Row(
        "ten times the rows",
        250 * N_SESSIONS,
        ten,
        once,
        1 / 13,
        "a tenth of them",
        f"peak {mega:.0f} MB before",
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


def _write(name: str, lines: list[str]) -> None:
    """The lines between their markers in the document, and on the terminal."""
    print("\n".join(lines))
    text = DOCUMENT.read_text(encoding="utf-8")
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    block = "\n".join([begin, *lines, end])
    DOCUMENT.write_text(pattern.sub(lambda _: block, text), encoding="utf-8")
