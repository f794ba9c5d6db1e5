"""Two servers on PostgreSQL under load from all sides: nothing lost, nothing that only grows."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from prove import Line
from tests.shared.load import LoadFigures, LoadPlan, LostError, ServerState, run_load
from tests.shared.postgres_server import PostgresServer

PLAN = LoadPlan(n_sessions=1_000, n_seats=5, n_viewers=50, n_waves=4, n_servers=2, n_opinions=5_000)
QUICK = LoadPlan(n_sessions=24, n_viewers=8, n_opinions=500, n_webhooks=0, n_waves=2, n_servers=2)
# Between the wave after which caches are full and the last one, a server may grow by so much; pools
# of connections and requests that are being closed come and go.
MORE_MEMORY, MORE_DESCRIPTORS, MORE_TASKS = 0.10, 16, 16
SMALLEST_MB = 64.0  # noise of the allocator and of DuckDB's buffers, over a short run


def run(quick: bool) -> Iterator[Line]:
    plan = QUICK if quick else PLAN
    server = PostgresServer("fsync = off")
    try:
        with tempfile.TemporaryDirectory() as folder:
            figures = run_load(Path(folder), plan, server.new_database())
    except (LostError, RuntimeError) as error:
        yield Line("sessions whole, opinions kept", plan.n_sessions, str(error), ok=False)
        return
    finally:
        server.close()
    yield from lines_of(plan, figures)


def lines_of(plan: LoadPlan, figures: LoadFigures) -> Iterator[Line]:
    """Return what was promised of a run that came to its end, with its figures."""
    ended = sum(figures.n_by_status.values())
    statuses = ", ".join(f"{n} {status}" for status, n in sorted(figures.n_by_status.items()))
    yield Line(
        "accepted sessions that ended, whole", ended,
        f"{plan.n_sessions - ended} lost ({statuses}) in {figures.took_s:.0f} s",
        ended == plan.n_sessions,
    )  # fmt: skip
    yield Line("accepted opinions in the store", len(figures.opinions), "0 lost", ok=True)
    yield Line(
        "calls that failed", figures.n_failed_calls, "0 scored, 0 counted as votes",
        figures.n_failed_calls > 0,
    )  # fmt: skip
    yield Line(
        "sessions scored as the library does", figures.n_scored, "0 differ", figures.n_scored > 0
    )
    watched = figures.n_streams + figures.n_pages
    yield Line(
        f"streams and pages of {plan.n_viewers} viewers", watched,
        f"0 gaps, 0 errors; {figures.waits}", watched > 0,
    )  # fmt: skip
    kinds: tuple[tuple[str, str, Callable[[ServerState], float], Callable[[float], float]], ...] = (
        ("memory at rest", "MB", lambda one: one.memory_mb,
         lambda first: max(SMALLEST_MB, MORE_MEMORY * first)),
        ("descriptors at rest", "", lambda one: one.n_descriptors, lambda _: MORE_DESCRIPTORS),
        ("tasks at rest", "", lambda one: one.n_tasks, lambda _: MORE_TASKS),
    )  # fmt: skip
    for name, unit, figure, allowed in kinds:
        for i in range(plan.n_servers):
            values = [figure(states[i]) for states in figures.states]
            settled = values[len(values) // 2 - 1]
            shown = " → ".join(f"{value:.0f}" for value in values) + f" {unit}"
            ok = values[-1] - settled <= allowed(settled)
            yield Line(f"{name}, server {i + 1}, by wave", len(values), shown, ok)
