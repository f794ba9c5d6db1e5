"""The work of others and ours, measured in one run: `docs/benchmarks.md` is written from it.

llm-council holds sessions and audits them; evalica, arena-rank, choix and crowd-kit rank; DuckDB,
numpy and httpx do the bare minimum and are floors. Each side does the same work on the same data
in this process, in turns. Rows where the peer is quicker are shown like all others.
`./dev bench peers=20` does a twentieth of the work and writes nothing.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, chdir, contextmanager
from dataclasses import replace
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from statistics import median

from bench import (
    Row,
    amount,
    audit,
    bradley_terry,
    calls,
    imports,
    machine,
    models,
    opinions,
    write_table,
)
from bench import sessions as session_bench
from peerage.providers.calling import Caller
from tests.shared.reviews import write_reviews, write_votes

N_SESSIONS = 5  # of four seats and a chair, one after the other
N_TURNS = 3
N_AT_ONCE = 32
N_FLOOR_SESSIONS = 64
N_AUDITED = 4_000  # sessions of five seats: a hundred thousand reviews
N_COMPARISONS = 200_000
N_ROWS = 1_000_000  # of reviews, votes and opinions
PACKAGES = {  # of the peer that a row names
    "llm-council": "llm-council-core",
    "evalica": "evalica",
    "arena-rank": "arena-rank",
    "choix": "choix",
    "crowd-kit": "crowd-kit",
    "DuckDB group by": "duckdb",
    "bare bincounts": "numpy",
    "httpx": "httpx",
    "openai": "openai",
}


def run(divisor: int = 1) -> Iterator[Row]:
    """A row for each thing that a peer does too; the table in the document follows from them."""
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for row in _rows(Path(scratch), divisor):
            rows.append(row)
            yield row if divisor == 1 else replace(row, target=0.0)  # targets are for the whole
    if divisor > 1:
        return
    write_table("benchmarks.md", "peers", _table(rows), show=False)
    write_table("benchmarks.md", "versions", _versions(rows), show=False)


def _rows(folder: Path, divisor: int) -> Iterator[Row]:
    n_audited, n_rows = N_AUDITED // divisor, N_ROWS // divisor
    with session_bench.mock_server() as url:
        yield _sessions_beside_council(url, folder)
        yield _sessions_beside_httpx(url, folder)
        yield from asyncio.run(calls.rows_at(url, N_AT_ONCE, 128))
    yield audit.session_beside_council(10)
    reviews = folder / "audited.parquet"
    audit.write_reviews(reviews, n_audited)
    yield audit.beside_council(folder, reviews, 25 * n_audited, 1.0)
    yield from bradley_terry.beside_peers(folder, N_COMPARISONS // divisor)
    write_reviews(folder / "reviews.parquet", n_rows)
    yield models.board_beside_scan(folder / "reviews.parquet", n_rows)
    opinions.write_opinions(folder / "opinions.parquet", n_rows)
    yield opinions.boards_beside_sums(folder / "opinions.parquet", n_rows)
    for kind in imports.KINDS:
        votes = folder / f"votes.{kind}"
        write_votes(votes, n_rows)
        yield imports.board_beside_grouping(votes, kind, n_rows)
        votes.unlink()


# -- sessions ----------------------------------------------------------------------------------


def _sessions_beside_httpx(url: str, folder: Path) -> Row:
    bench = session_bench.Bench(url, folder, N_AT_ONCE)
    taken = asyncio.run(bench.turns(N_FLOOR_SESSIONS, N_TURNS))
    ours, peer = (median(turn[side] for turn in taken) for side in (0, 2))
    name = f"sessions, {N_AT_ONCE} at a time"
    return Row(name, N_FLOOR_SESSIONS, ours, peer, 1 / session_bench.MAX_CPU_RATIO, "httpx")


def _sessions_beside_council(url: str, folder: Path) -> Row:
    """Four seats that answer and review, and a chair: nine calls to the same mock server."""
    bench, name = session_bench.Bench(url, folder, 1), "sessions, one at a time"
    prompts = session_bench.prompts_file(folder, N_SESSIONS)

    async def turns(council: bool) -> list[tuple[float, float]]:
        taken = []
        async with Caller(bench.seats) as caller:
            for turn in range(N_TURNS + 1):  # the first one warms up
                ours, _ = await session_bench.timed(bench.ours(caller, prompts))
                work = _council_sessions(turn) if council else asyncio.sleep(0)
                theirs, _ = await session_bench.timed(work)
                taken.append((ours, theirs))
        return taken[1:]

    with ExitStack() as stack:
        missing = "" if find_spec("llm_council") else audit.NO_COUNCIL
        if not missing:
            stack.enter_context(_council_settings(url, folder))
        taken = asyncio.run(turns(not missing))
    ours, theirs = (median(side) for side in zip(*taken, strict=True))
    beside = None if missing else theirs
    return Row(name, N_SESSIONS, ours, beside, 1.0, "llm-council", missing=missing)


async def _council_sessions(turn: int) -> None:
    hold = import_module("llm_council.council").run_full_council
    for i in range(N_SESSIONS):
        question = f"What is {turn} plus {i}, and why?"
        answers, reviews, verdict, _ = await hold(question, bypass_cache=True)
        read = [one for one in reviews if one["parsed_ranking"].get("ranking")]
        if len(answers) != 4 or len(read) != 4 or not verdict.get("response"):
            raise RuntimeError("llm-council did not hold a whole session with the mock server")


@contextmanager
def _council_settings(url: str, folder: Path) -> Iterator[None]:
    """Points llm-council at the mock server, and no further, by its own settings."""
    file = folder / "llm_council.yaml"
    provider = {"enabled": True, "api_key": "none", "base_url": f"{url}/chat/completions"}
    gateways = {"default": "openrouter", "providers": {"openrouter": provider}}
    file.write_text(json.dumps({"council": {"gateways": gateways}}), encoding="utf-8")
    settings = {
        "LLM_COUNCIL_CONFIG": str(file),
        "LLM_COUNCIL_MODELS": "mock-0,mock-1,mock-2,mock-3",
        "LLM_COUNCIL_CHAIRMAN": "mock-0",
        "LLM_COUNCIL_CACHE": "false",
        "LLM_COUNCIL_TELEMETRY": "off",
        "LLM_COUNCIL_SUPPRESS_WARNINGS": "1",
        "OPENROUTER_API_KEY": "none",
    }
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        resolved = import_module("llm_council.gateway.resolver").resolve_endpoint()[0]
        if resolved != provider["base_url"]:
            raise RuntimeError("llm-council would call another server than the mock server")
        with chdir(folder):  # it keeps a log in the folder that it runs in
            yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


# -- the document ------------------------------------------------------------------------------


def _table(rows: list[Row]) -> Iterator[str]:
    yield "| measured | n | ours | theirs | theirs / ours | peer |"
    yield "|---|---:|---:|---:|---:|---|"
    for row in rows:
        ratio = row.missing or ("–" if row.ratio is None else f"{row.ratio:.2f}")
        yield (
            f"| {row.name} | {row.n:,} | {amount(row.ours, row.unit)} "
            f"| {amount(row.beside, row.unit)} | {ratio} | {row.peer} |"
        )


def _versions(rows: list[Row]) -> Iterator[str]:
    today = datetime.datetime.now(datetime.UTC).date()
    yield f"Measured on {today}: {machine()}."
    yield ""
    peers = dict.fromkeys(PACKAGES.get(row.peer, row.peer) for row in rows)
    installed = {name: _version(name) for name in ("peerage", *sorted(peers))}
    yield "Versions: " + ", ".join(f"{name} {number}" for name, number in installed.items()) + "."


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(not installed)"
