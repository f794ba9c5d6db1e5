"""One machine, and a small cluster on it, at several sizes: the tables and the curve of `scale.md`.

Times are on the clock, because the question is how much gets done; on a machine that others use
too they are upper bounds. The cluster is Spark's own: a master and two worker processes.
`./dev bench scale=20` tries everything at a twentieth of the size and writes nothing.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp

from bench import DOCUMENTS, Row, machine, peak_mb, write_table
from bench import opinions as opinion_bench
from bench import server as server_bench
from bench import sessions as session_bench
from peerage.providers.calling import Caller
from peerage.reports.from_tables import board_models
from tests.shared.postgres_server import PostgresServer, binaries
from tests.shared.reviews import write_reviews

SESSIONS_BY_CONCURRENCY = {1: 10, 8: 40, 32: 96}
BALLOTS = 4  # of a session: each of four seats reviews the others
PROCESSES = (1, 2, 4, 8)
N_STORED, N_AT_ONCE = 100, 8  # sessions of each process that stores
VIEWERS = (10, 100, 400)
SIZES = (100_000, 1_000_000, 10_000_000, 30_000_000)  # reviews
N_OPINIONS = 20_000
CLUSTER, N_WORKERS = "local-cluster[2,1,1024]", 2
DECIMALS = 9
BUSY = 0.5  # load average
BILLION = 1_000_000_000
BOARDS = ("models", "contributors", "reviewers", "items")


def run(divisor: int = 1) -> list[Row]:
    """Writes the tables, one after the other; there are no targets."""
    tables: dict[str, list[str]] = {"machine": list(_machine_lines())}

    def show(name: str, lines: Iterator[str]) -> None:
        tables[name] = list(lines)
        print("\n".join(["", *tables[name]]), flush=True)

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        show("sessions", _sessions(folder, divisor))
        show("stores", _stores(folder, divisor))
        show("viewers", _viewers(folder, divisor))
        embedded, cluster = _reviews(folder, divisor)
        show("reviews", _review_lines(embedded, cluster))
        show("billion", _billion_lines(embedded, cluster))
    seconds = {"DuckDB": embedded, "Spark, two workers": cluster["boards"]}
    points = {name: [(one["n"], one["s"]) for one in some] for name, some in seconds.items()}
    picture = draw_curves(points)
    if divisor == 1:
        _write_document(tables, picture)
    return []


def _write_document(tables: Mapping[str, list[str]], picture: str) -> None:
    """Put all tables into the document at once: a run that fails leaves it as it was."""
    write_table("scale.md", "machine", tables["machine"], show=False)
    write_table("scale.md", "sessions", tables["sessions"], show=False)
    write_table("scale.md", "stores", tables["stores"], show=False)
    write_table("scale.md", "viewers", tables["viewers"], show=False)
    write_table("scale.md", "reviews", tables["reviews"], show=False)
    write_table("scale.md", "billion", tables["billion"], show=False)
    (DOCUMENTS / "scale.svg").write_text(picture, encoding="utf-8")


def _machine_lines() -> Iterator[str]:
    busy = os.getloadavg()[0]
    yield f"Measured on {datetime.datetime.now(datetime.UTC).date()}: {machine()}."
    yield f"Times are on the clock. Each figure is one run. Before it began, {busy:.1f} processes"
    yield "were waiting or running on average, so others were using the machine"
    yield "too and a quiet one does more." if busy > BUSY else "hardly at all."


def in_a_process(function: str, *arguments: str) -> Any:
    """The JSON that `module:function` prints in a process of its own."""
    module, _, name = function.partition(":")
    code = f"import sys; from {module} import {name}; {name}(*sys.argv[1:])"
    done = subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[1],
    )
    if done.returncode:
        raise RuntimeError(f"{function} failed: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


# -- sessions, stores and viewers --------------------------------------------------------------


def _sessions(folder: Path, divisor: int) -> Iterator[str]:
    yield "| sessions at a time | n | sessions/s | ballots/s | processor time of a session |"
    yield "|---:|---:|---:|---:|---:|"

    async def hold(bench: session_bench.Bench, n: int) -> tuple[float, float]:
        async with Caller(bench.seats) as caller:
            await bench.ours(caller, session_bench.prompts_file(folder, 2))
            work = bench.ours(caller, session_bench.prompts_file(folder, n))
            return await session_bench.timed(work)

    with session_bench.mock_server() as url:
        for concurrency, most in SESSIONS_BY_CONCURRENCY.items():
            n = max(most // divisor, concurrency)
            cpu, wall = asyncio.run(hold(session_bench.Bench(url, folder, concurrency), n))
            rates = f"{n / wall:.1f} | {BALLOTS * n / wall:.0f} | {1e3 * cpu / n:.0f} ms"
            yield f"| {concurrency} | {n} | {rates} |"


def _stores(folder: Path, divisor: int) -> Iterator[str]:
    yield "| processes that store | n | SQLite, sessions/s | PostgreSQL, sessions/s |"
    yield "|---:|---:|---:|---:|"
    each = max(N_STORED // divisor, N_AT_ONCE)
    server = PostgresServer() if binaries() is not None else None
    try:
        for n in PROCESSES:
            embedded = _stored(f"sqlite:///{folder / f'store-{n}.db'}", n, each)
            other = (
                "not installed"
                if server is None
                else f"{_stored(server.new_database(), n, each):.0f}"
            )
            yield f"| {n} | {n * each} | {embedded:.0f} | {other} |"
    finally:
        if server is not None:
            server.close()


def _stored(url: str, n_processes: int, n_each: int) -> float:
    """Sessions that so many processes store in one store in a second, together."""
    code = (
        "import asyncio, sys; from bench.storing import store_sessions; url, prefix = sys.argv[1:];"
        f"asyncio.run(store_sessions(url, 1, 1, 'first-' + prefix)); input();"
        f"print(asyncio.run(store_sessions(url, {n_each}, {N_AT_ONCE}, prefix)))"
    )
    processes = []
    for number in range(n_processes):
        one = subprocess.Popen(  # noqa: S603 - our own code
            [sys.executable, "-c", code, url, f"{number}-"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[1],
        )
        processes.append(one)
    texts: list[str] = []
    for one in processes:  # all have imported by now, or soon
        if one.stdin is not None:
            one.stdin.write("\n")
            one.stdin.flush()
    texts = [one.communicate()[0] for one in processes]
    return n_processes * n_each / max(float(text) for text in texts)


def _viewers(folder: Path, divisor: int) -> Iterator[str]:
    yield "| viewers of one session | the last one has its end after | /healthz meanwhile, p99 |"
    yield "|---:|---:|---:|"
    (folder / "peerage.toml").write_text(server_bench.SEATS, encoding="utf-8")
    with server_bench.serving(folder, "sqlite:///viewed.db") as url:
        for n in sorted({max(most // divisor, 1) for most in VIEWERS}):
            last_s, health_s = asyncio.run(_viewed(url, n))
            yield f"| {n} | {last_s:.2f} s | {1e3 * health_s:.0f} ms |"


async def _viewed(url: str, n: int) -> tuple[float, float]:
    """Seconds until all viewers of a session have seen its end, and the p99 of the health."""
    health: list[float] = []
    async with aiohttp.ClientSession(url, connector=aiohttp.TCPConnector(limit=0)) as client:
        await server_bench.wait_until_up(client)
        asking = asyncio.create_task(server_bench.keep_asking(client, health))
        begin = time.perf_counter()
        async with client.post("/api/sessions", json={"query": f"For {n}?"}) as started:
            place = started.headers["Location"]

        async def view() -> None:
            async with client.get(f"{place}/events") as events:
                if "event: finished" not in await events.text():
                    raise RuntimeError("a viewer did not see the end of a session")

        await asyncio.gather(*(view() for _ in range(n)))
        taken = time.perf_counter() - begin
        asking.cancel()
        for _ in range(2):  # a percentile needs two
            await server_bench.ask_health(client, health)
    return taken, server_bench.p99(health)


# -- reviews -----------------------------------------------------------------------------------


def _reviews(folder: Path, divisor: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """What DuckDB takes for the board at each size, and Spark, whose boards have to be equal."""
    sizes = [n // divisor for n in SIZES]
    files = [folder / f"reviews-{n}.parquet" for n in sizes]
    for file, n in zip(files, sizes, strict=True):
        write_reviews(file, n)
    opinions = folder / "opinions.parquet"
    opinion_bench.write_opinions(opinions, N_OPINIONS // divisor)
    embedded = [in_a_process("bench.scale:time_board", str(file)) for file in files]
    expected = in_a_process("bench.scale:print_boards", str(files[0]), str(opinions))
    cluster = in_a_process("bench.scale:time_cluster", str(opinions), *map(str, files))
    for name in BOARDS:
        if expected[name] != cluster["equal"][name]:
            raise ArithmeticError(f"Spark and DuckDB disagree on the board of {name}")
    return embedded, cluster


def time_board(file: str) -> None:
    """Print how long the board of a file takes on DuckDB, and the memory of this process."""
    took = _seconds(lambda: board_models(file))
    print(json.dumps({"n": _n_in(file), "s": took, "mb": peak_mb(), "bytes": _size(file)}))


def print_boards(reviews: str, opinions: str) -> None:
    """Print the four boards of two files on DuckDB."""
    print(json.dumps(_boards(reviews, opinions, "duckdb")))


def time_cluster(opinions: str, *files: str) -> None:
    """Print how long the cluster takes to start and for the board of each file, and four boards."""
    from peerage.engines.spark import Spark

    begin = time.perf_counter()
    engine = Spark(CLUSTER)
    start_s = time.perf_counter() - begin
    equal = _boards(files[0], opinions, engine)
    boards = [
        {"n": _n_in(file), "s": _seconds(lambda file=file: board_models(file, engine=engine))}  # type: ignore[misc]
        for file in files
    ]
    engine.session.stop()
    print(json.dumps({"start_s": start_s, "boards": boards, "equal": equal}))


def _boards(reviews: str, opinions: str, engine: Any) -> dict[str, str]:
    """The four boards as texts, after rounding every number."""
    from peerage.reports import InputTables, read_community_boards

    tables = InputTables(opinions=opinions, engine=engine)
    community = read_community_boards(tables)
    boards = [
        board_models(reviews, engine=engine).document(),
        *(getattr(community, name)().document() for name in BOARDS[1:]),
    ]
    return {name: _rounded(board) for name, board in zip(BOARDS, boards, strict=True)}


def _rounded(document: Any) -> str:
    def plain(one: Any) -> Any:
        if isinstance(one, float):
            return round(one, DECIMALS) + 0.0
        if isinstance(one, dict):
            return {name: plain(part) for name, part in one.items()}
        return [plain(part) for part in one] if isinstance(one, list) else one

    return json.dumps(plain(document), sort_keys=True)


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _n_in(file: str) -> int:
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    return int(pq.ParquetFile(file).metadata.num_rows)


def _size(file: str) -> int:
    return Path(file).stat().st_size


def _review_lines(embedded: list[dict[str, Any]], cluster: dict[str, Any]) -> Iterator[str]:
    yield "| reviews | file | DuckDB | its peak memory | Spark, two workers |"
    yield "|---:|---:|---:|---:|---:|"
    for one, other in zip(embedded, cluster["boards"], strict=True):
        file, took = f"{one['bytes'] / 1e6:.1f} MB", f"{one['s']:.1f} s"
        yield f"| {one['n']:,} | {file} | {took} | {one['mb']:,.0f} MB | {other['s']:.1f} s |"
    yield ""
    yield f"The cluster took {cluster['start_s']:.0f} s to start. The four boards were equal after"
    yield "rounding to 1e-9."
    yield ""
    yield "![Seconds for a board by number of reviews, on DuckDB and on Spark](scale.svg)"


def _billion_lines(embedded: list[dict[str, Any]], cluster: dict[str, Any]) -> Iterator[str]:
    """Extrapolations from the two largest sizes, straight on."""
    small, large = embedded[-2:]
    per_row_mb = (large["mb"] - small["mb"]) / (large["n"] - small["n"])
    slow, slower = cluster["boards"][-2:]
    core_s = N_WORKERS * (slower["s"] - slow["s"]) / (slower["n"] - slow["n"])
    yield "| a billion reviews | extrapolated |"
    yield "|---|---:|"
    yield f"| Parquet on disk | {large['bytes'] / large['n'] * BILLION / 1e9:.0f} GB |"
    yield f"| memory of one machine with DuckDB | {per_row_mb * BILLION / 1e3:.0f} GB |"
    yield f"| time on DuckDB | {large['s'] / large['n'] * BILLION / 60:.0f} min |"
    yield f"| Spark, processor time | {core_s * BILLION / 3600:.1f} core hours |"
    yield f"| Spark on 100 cores | {core_s * BILLION / 100 / 60:.1f} min |"


# -- the curve ---------------------------------------------------------------------------------

WIDTH, HEIGHT, EDGE = 480, 300, 56
COLOURS = ("#2563eb", "#dc2626")


def draw_curves(points: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Seconds by number of reviews as a picture, both on logarithmic scales."""
    every = [point for some in points.values() for point in some]
    low, high = ([f(math.log10(p[axis]) for p in every) for axis in (0, 1)] for f in (min, max))

    def place(point: tuple[float, float]) -> tuple[float, float]:
        x, y = (
            (math.log10(point[axis]) - low[axis]) / ((high[axis] - low[axis]) or 1.0)
            for axis in (0, 1)
        )
        return EDGE + x * (WIDTH - 2 * EDGE), HEIGHT - EDGE - y * (HEIGHT - 2 * EDGE)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12" role="img" aria-label="Seconds by reviews">'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>'
    ]
    for (name, some), colour in zip(points.items(), COLOURS, strict=True):
        spots = [place(point) for point in some]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for (n, seconds), (x, y) in zip(some, spots, strict=True):
            label = f"{n / 1e6:.3g} M: {seconds:.1f} s"
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>')
            parts.append(f'<text x="{x:.1f}" y="{y - 8:.1f}" text-anchor="middle">{label}</text>')
        x, y = spots[0]
        parts.append(f'<text x="{x:.1f}" y="{y + 18:.1f}" fill="{colour}">{name}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"
