"""SIGKILL at every kind of point, on both stores, and disks, files and stores in trouble.

A line of a point says how many stored events are lost, how many calls were paid twice although
their reply was stored, and how many boards (or published pages) differ from undisturbed ones by a
byte; then the replies that were stored at the kills, and those that had come in and were not: these
are asked for again, unless a batch still has them.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from prove import Line
from tests.shared.batch_seasons import BatchMock, serving
from tests.shared.crashes import POINTS, CrashCounts, KillPoint, Scene, crash, undisturbed
from tests.shared.postgres_server import PostgresServer
from tests.shared.store_trouble import TROUBLES

N_SEEDS = 20
N_SEEDS_QUICK = 1
STORES = ("SQLite", "PostgreSQL")


def run(quick: bool, n_seeds: int = N_SEEDS) -> Iterator[Line]:
    """Kill at each point, so many times on each store; then the troubles of stores."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # the process that forks has one thread
    n_seeds = N_SEEDS_QUICK if quick else n_seeds
    with ExitStack() as stack, ThreadPoolExecutor(len(STORES)) as pool:
        scenes = [stack.enter_context(new_scenes(store)) for store in STORES]
        for i, point in enumerate(POINTS[::2] if quick else POINTS):
            at = [i % 2] if quick else range(len(STORES))  # quickly, stores take turns
            jobs = [(k, pool.submit(kill_at, point, scenes[k], n_seeds)) for k in at]
            for k, job in jobs:
                yield line_of(point, STORES[k], job.result())
    for name, trouble in TROUBLES.items() if not quick else ():  # each is a test of its own
        yield _line_of_trouble(name, trouble)


def kill_at(point: KillPoint, scenes: Iterator[Scene], n_seeds: int) -> CrashCounts:
    """Kill the work of one point once for each seed."""
    counts = CrashCounts()
    try:
        right = undisturbed(point, next(scenes))
    except RuntimeError as error:
        counts.errors.append(str(error))
        return counts
    for seed in range(n_seeds):
        crash(point, scenes, right, seed, counts)
    return counts


@contextmanager
def new_scenes(store: str) -> Iterator[Iterator[Scene]]:
    """Endless new scenes on one kind of store; each has a new folder and new databases."""
    with tempfile.TemporaryDirectory() as top, ExitStack() as stack:
        mock = BatchMock(stack.enter_context(serving("--seed", "5")))
        server = PostgresServer("fsync = off") if store == "PostgreSQL" else None
        if server is not None:
            stack.callback(server.close)

        def scenes() -> Iterator[Scene]:
            for i in itertools.count():
                folder = Path(top) / str(i)
                folder.mkdir()
                files = [f"sqlite:///{folder / name}.db" for name in ("one", "other")]
                url = server.new_database() if server else files[0]
                mock.reset()
                yield Scene(url, folder, files[1], mock)

        yield scenes()


def line_of(point: KillPoint, store: str, counts: CrashCounts) -> Line:
    """Return the counts of one point on one store as a line."""
    measured = (
        f"{counts.n_lost} lost, {counts.n_paid_twice} twice, {counts.n_different} differ;"
        f" {counts.n_stored} kept, {counts.n_in_flight} in flight"
    )
    problems = "".join(f"; {error}" for error in counts.errors[:3])
    is_met = counts.is_clean and counts.n_kills > 0
    return Line(f"{point.name}, {store}", counts.n_kills, measured + problems, is_met)


def _line_of_trouble(name: str, trouble: Callable[[Path], str]) -> Line:
    with tempfile.TemporaryDirectory() as folder:
        try:
            return Line(name, 1, trouble(Path(folder)), ok=True)
        except AssertionError as error:
            return Line(name, 1, str(error) or repr(error), ok=False)
