"""The web pages beside what they stand on: a board, a live session, a what-if, many viewers.

The app is called in this process, so that its CPU time is all there is. Each row's two sides take
turns, and everything that a page is made from is made anew in each turn.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx

from bench import Row
from peerage.doors.http import create_app
from peerage.doors.web.live_sessions import LiveSessions, Rendering
from peerage.events import NOT_STORED, Reviewed, read_event
from peerage.imports import take
from peerage.panel import Council
from peerage.service import Service
from peerage.session_requests import SessionRequest
from peerage.stores import open_store
from peerage.types import Event, Seat
from tests.shared.reviews import write_reviews

N_ROWS = 1_000_000
N_MODELS = 200
N_SESSIONS = 5_000
N_HELD = 20
PANEL = 5
N_SEATS = 12
N_VIEWERS = 50
N_TURNS = 7
MAX_PAGE_RATIO = 2.0  # of the JSON route
MAX_WHAT_IF_RATIO = 2.0  # of the plain board's page
MAX_VIEWERS_RATIO = 2.0  # of one viewer
MAX_GROWTH = 1.5  # of the first rows of a grid; more is growth and not noise
WHAT_IFS = (
    *("own_votes=in", "rule=bradley_terry", "w_accuracy=90&w_clarity=5", "ceiling=off"),
    *("gate=on", "without=seat-01&without=seat-03", "scale=calibrated"),
)


def run() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_rows(Path(folder)))


async def _rows(folder: Path) -> list[Row]:
    parts = []
    for name, part in (("board", _board), ("season", _what_if), ("live", _live)):
        place = folder / name
        place.mkdir()
        parts += await part(place)
    return parts


@asynccontextmanager
async def served(folder: Path, n_seats: int) -> AsyncIterator[tuple[Service, httpx.AsyncClient]]:
    """A service over a store of this folder, and a client of its app in this process."""
    seats = [Seat(f"seat-{i:02}", provider="simulated") for i in range(n_seats)]
    service = Service(Council(store=f"sqlite:///{folder}/s.db", seats=seats, seed=1))
    app = create_app(service)
    transport = httpx.ASGITransport(app=app)
    try:
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            yield service, client
    finally:
        await app.state.report_cache.close()
        await service.close()


async def asked(client: httpx.AsyncClient, place: str) -> float:
    """CPU seconds of this process for one request, its answer gzipped as for a browser."""
    start = time.process_time()
    answer = await client.get(place)
    taken = time.process_time() - start
    answer.raise_for_status()
    return taken


# -- a board -----------------------------------------------------------------------------------


async def _board(folder: Path) -> list[Row]:
    reviews = folder / "reviews.parquet"
    write_reviews(reviews, N_ROWS, days=60, n_models=N_MODELS)
    take(open_store(f"sqlite:///{folder}/s.db"), reviews, "reviews", time.time)
    pages, routes = [], []
    async with served(folder, 3) as (_, client):
        for days in range(39, 41 + N_TURNS):  # another window each time, so that nothing is kept
            pages.append(await asked(client, f"/boards/models?since={days}d"))
            routes.append(await asked(client, f"/api/boards/models?since={days}d"))
    name = f"board page, {N_MODELS} models"
    ours, beside = (statistics.median(one[2:]) for one in (pages, routes))
    return [Row(name, N_ROWS, ours, beside, 1 / MAX_PAGE_RATIO, "the JSON route")]


# -- what if -----------------------------------------------------------------------------------


async def _what_if(folder: Path) -> list[Row]:
    """The dearest of all changes beside the plain board, each in a window of its own.

    The first turn of each is not counted: in it the ballots are read into memory, and the answers
    are screened for the gate, once.
    """
    plain: list[float] = []
    changed: dict[str, list[float]] = {one: [] for one in WHAT_IFS}
    async with served(folder, PANEL) as (service, client):
        await _hold(service, N_SESSIONS)
        for days in range(400, 401 + N_TURNS):
            plain.append(await asked(client, f"/boards/models?since={days}d"))
            for one, taken in changed.items():
                taken.append(await asked(client, f"/boards/models?since={days}d&{one}"))
    beside = statistics.median(plain[1:])
    dearest = max(changed, key=lambda one: statistics.median(changed[one][1:]))
    ours = statistics.median(changed[dearest][1:])
    name = f"what-if {dearest.partition('=')[0]}"
    return [Row(name, N_SESSIONS, ours, beside, 1 / MAX_WHAT_IF_RATIO, "the plain board")]


async def _hold(service: Service, n: int) -> None:
    """Sessions in the store: a few are held, the others are the same under other ids."""
    held = [await _session(service) for _ in range(N_HELD)]
    for i in range(n // N_HELD - 1):
        copies = [
            replace(event, session_id=f"{i:04}{id_}") for id_, events in held for event in events
        ]
        service.store.append_all(copies)


async def _session(service: Service) -> tuple[str, list[Event]]:
    id_ = await service.start(SessionRequest(query="What would you do?"))
    events = [
        event async for batch in service.watch(id_) for event in batch if event.seq != NOT_STORED
    ]
    return id_, events


# -- a live session ----------------------------------------------------------------------------


async def _live(folder: Path) -> list[Row]:
    async with served(folder, N_SEATS) as (service, _):
        id_, events = await _session(service)
        live = LiveSessions(service)
        one, many = [], []
        for _ in range(N_TURNS):
            one.append(await _watched(live, id_, 1))
            many.append(await _watched(live, id_, N_VIEWERS))
        early, late = _rows_applied(service, events)
    ours, beside = statistics.median(many), statistics.median(one)
    name = f"{N_VIEWERS} viewers of a session"
    grid = f"an event in a {N_SEATS} × {N_SEATS} grid"
    return [
        Row(grid, len(events), late, early, 1 / MAX_GROWTH, "the first"),
        Row(name, N_VIEWERS, ours, beside, 1 / MAX_VIEWERS_RATIO, "one viewer"),
    ]


async def _watched(live: LiveSessions, id_: str, n: int) -> float:
    """CPU seconds until so many viewers have been sent a whole session."""

    async def view() -> None:
        async for _ in live.stream(id_, -1):
            pass

    start = time.process_time()
    await asyncio.gather(*(view() for _ in range(n)))
    return time.process_time() - start


def _rows_applied(service: Service, events: Sequence[Event]) -> tuple[float, float]:
    """Median CPU seconds to render a row of the grid: of the first three, and of the last three."""
    early, late = [], []
    for _ in range(N_TURNS):
        rendering, taken = Rendering(service.settings), []
        for event in events:
            start = time.process_time()
            rendering.see(event)
            if isinstance(read_event(event), Reviewed):
                taken.append(time.process_time() - start)
        early += taken[:3]
        late += taken[-3:]
    return statistics.median(early), statistics.median(late)
