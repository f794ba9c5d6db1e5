"""Work that is killed with SIGKILL at a known point, done again, and held against undisturbed work.

A kill point is a function of the package and a side of it. The work runs in a process of its own,
in which that function ends the process at its n-th call. Then the work is done again, in another
process, and the store is compared: with what it held at the kill, and with that of a store whose
work nothing disturbed.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import inspect
import io
import itertools
import json
import os
import random
import signal
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Literal

import peerage
from peerage.config import rubric
from peerage.imports import take
from peerage.imports.prompt_files import open_prompts
from peerage.providers import Call, Reply
from peerage.providers.simulated import SimulatedProvider
from peerage.season import Progress, Season, run_season
from peerage.session import run as run_session
from peerage.session_config import SessionConfig, SessionSpec
from peerage.stores import move, open_store
from peerage.types import Query, Seat
from tests.shared.batch_seasons import BatchMock, batch_settings, hold_batch_season
from tests.shared.session_configs import make_config

LEASE_S = 0.05  # a killed process holds its sessions for this long
N_PROMPTS = 3


@dataclass(frozen=True, slots=True)
class Scene:
    """Where work happens: a store, a folder, and a second store for moves."""

    url: str
    folder: Path
    other_url: str = ""
    mock: BatchMock | None = None

    @property
    def ledger(self) -> Path:
        """The file with a line for each call that was paid for."""
        return self.folder / "calls"

    def paid(self) -> list[str]:
        return self.ledger.read_text("utf-8").splitlines() if self.ledger.exists() else []


# -- the works -----------------------------------------------------------------------------------


def note_payment(ledger: Path, key: str) -> None:
    """Write down a call whose reply has come in."""
    with ledger.open("a", encoding="utf-8") as out:
        out.write(key + "\n")


@dataclass(frozen=True, slots=True)
class PayingCaller:
    """Asks simulated seats, and keeps an account of it on disk."""

    ledger: Path

    def can_constrain(self, _: Seat) -> bool:
        return True

    def wants_brief(self, _: Seat) -> bool:
        return False

    async def call(self, call: Call, *_: object) -> Reply:
        await asyncio.sleep(0)
        reply = await SimulatedProvider(call.seat).complete(call)
        note_payment(self.ledger, call.key)
        return reply


def _seats(names: str) -> tuple[Seat, ...]:
    return tuple(
        Seat(name, provider="simulated", options={"quality": 8.0 - i})
        for i, name in enumerate(names)
    )


def _config(names: str) -> SessionConfig:
    seats = _seats(names)
    return make_config(seats, rubric("general"))


async def _hold_session(scene: Scene) -> None:
    store = open_store(scene.url)
    while (lease := await store.claim("s1", "ask", LEASE_S)) is None:
        await store.wait_for_change("s1", LEASE_S)
    history = store.events("s1")
    if not history or history[-1].kind != "finished":
        spec, caller = (
            SessionSpec("s1", Query("Why is the sky blue?"), "7", 0),
            PayingCaller(scene.ledger),
        )
        clock = itertools.count().__next__
        session = run_session(
            spec, _config("abcde"), caller, lease, clock=lambda: float(clock()), history=history
        )
        async for _ in session:
            pass
    await store.release(lease)
    await store.close()


def hold_session(scene: Scene) -> None:
    """Hold one session of five seats, or go on with it."""
    asyncio.run(_hold_session(scene))


def hold_season(scene: Scene, names: str = "abc") -> None:
    """Hold a season of simulated seats, or go on with it."""
    path = _prompts(scene.folder)

    async def run() -> None:
        store = open_store(scene.url)
        prompts = open_prompts(path)
        season = Season("z", "7", lambda _: _config(names), lease_s=LEASE_S)
        caller, progress = PayingCaller(scene.ledger), Progress(prompts.n)
        await run_season(
            season, prompts, caller, store, concurrency=2, clock=lambda: 0.0, progress=progress
        )
        await store.close()
        if not progress.complete:
            raise RuntimeError(f"the season is not complete: {progress}")

    asyncio.run(run())


def grow_season(scene: Scene) -> None:
    """Let a fourth seat join a season."""
    hold_season(scene, "abcd")


def hold_batches(scene: Scene) -> None:
    """Hold a season whose calls are sent together, or go on with it."""
    if scene.mock is None:
        raise ValueError("batches need a server")
    settings = batch_settings(scene.mock, "openai", scene.url, lease_s=LEASE_S)
    progress = hold_batch_season(settings, _prompts(scene.folder), batch=True)
    if not progress.complete:
        raise RuntimeError(f"the season is not complete: {progress}")


def import_reviews(scene: Scene) -> None:
    """Import a table of reviews, or find that it is there already."""
    store = open_store(scene.url)
    take(store, _table(scene.folder), "reviews", lambda: 7.0)
    asyncio.run(store.close())


def read_board(scene: Scene) -> None:
    board_text(scene.url)


def move_store(scene: Scene) -> None:
    """Copy the store into the other one, unless it is there already."""
    source, target = open_store(scene.url), open_store(scene.other_url)
    if not target.sessions():
        move(source, target)
    asyncio.run(source.close())
    asyncio.run(target.close())


def publish_pages(scene: Scene) -> None:
    """Write the pages of the store to a folder."""
    if not (scene.folder / "site").exists():
        with redirect_stdout(io.StringIO()):
            run_command("publish", str(scene.folder / "site"), "--store", scene.url, "--quiet")


def upgrade_store(scene: Scene) -> None:
    asyncio.run(open_store(scene.url).close())


def run_command(*words: str) -> None:
    """Run a command line of peerage in this process, which ends with its exit code."""
    from peerage.doors.cli import main

    sys.argv = ["peerage", *words]
    main()


def _prompts(folder: Path) -> Path:
    path = folder / "prompts.jsonl"
    rows = [{"id": f"p{i}", "query": f"What is {i} + {i}?"} for i in range(N_PROMPTS)]
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    return path


def _table(folder: Path) -> Path:
    """Return a table of forty sessions of two reviewers."""
    rng, path = random.Random(7), folder / "reviews.csv"
    lines = ["session_id,reviewer,candidate,rank,at"]
    for i in range(40):
        for reviewer in "uv":
            order = rng.sample("abc", 3)
            lines += [f"t{i},{reviewer},{name},{rank},{i}" for rank, name in enumerate(order, 1)]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


# -- a store of the version before ---------------------------------------------------------------

LATER = (  # statements that take away what later versions have made
    "DROP TABLE documents",
    "DROP TABLE links",
    "CREATE INDEX events_that_change_boards ON events (id)",
    "DROP INDEX events_with_votes",
    "DROP INDEX events_of_people",
    *(f"ALTER TABLE sessions DROP COLUMN {name}" for name in ("winner", "cost_usd")),
    *(f"ALTER TABLE sessions DROP COLUMN {name}" for name in ("unpriced_calls", "name")),
)


def downgrade(url: str) -> None:
    """Turn a store into one of version 7, whose list of sessions had no results."""
    if url.startswith("sqlite"):
        with sqlite3.connect(url.removeprefix("sqlite:///")) as db:
            for text in (*LATER, "PRAGMA user_version = 7"):
                db.execute(text)
        db.close()
        return
    import psycopg

    with psycopg.connect(url, autocommit=True, options="-c search_path=peerage") as remote:
        for text in (*LATER, "UPDATE meta SET version = 7"):
            remote.execute(text)


def hold_season_and_downgrade(scene: Scene) -> None:
    hold_season(scene)
    downgrade(scene.url)


def nothing(_: Scene) -> None: ...


# -- kill points ---------------------------------------------------------------------------------

Work = Callable[[Scene], None]
Side = Literal["before", "after"]


@dataclass(frozen=True, slots=True)
class KillPoint:
    """A place in the code at which a process is killed while it does some work."""

    name: str
    work: Work
    function: str  # module:name or module:class.name
    side: Side
    prepare: Work = nothing
    watches: Literal["store", "other", "pages"] = "store"  # what must be as if undisturbed


WRITER = "peerage.stores.writer"
CLAIMED = "peerage.season:SeasonRunner._run"
DELIVERED = "peerage.providers.batches:Batches._deliver"
SENT = "peerage.providers.batch_endpoints:OpenAIBatches.submit"
PAID = "tests.shared.crashes:note_payment"
POINTS = (
    KillPoint("session: reply in, not stored", hold_session, PAID, "after"),
    KillPoint("session: in a transaction", hold_session, f"{WRITER}:insert", "after"),
    KillPoint("session: committed, not told", hold_session, f"{WRITER}:_settle", "before"),
    KillPoint("season: claimed, not begun", hold_season, CLAIMED, "before"),
    KillPoint("season: reply in, not stored", hold_season, PAID, "after"),
    KillPoint("season: in a transaction", hold_season, f"{WRITER}:insert", "after"),
    KillPoint("season: a seat joins", grow_season, f"{WRITER}:_settle", "before", hold_season),
    KillPoint("batch: noted", hold_batches, "peerage.season:StoredBatches.keep", "after"),
    KillPoint(
        "batch: sent, not noted",
        hold_batches,
        SENT,
        "after",
    ),
    KillPoint("batch: result in, not stored", hold_batches, DELIVERED, "before"),
    KillPoint(
        "import: in its transaction",
        import_reviews,
        "peerage.stores.sql_store:_insert_import",
        "after",
    ),
    KillPoint(
        "board: file made, not listed",
        read_board,
        "peerage.engines.mirror:write_sealed",
        "before",
        hold_season,
    ),
    KillPoint(
        "move: copying", move_store, "peerage.stores:_insert_into", "before", hold_season, "other"
    ),
    KillPoint(
        "move: compared, not committed",
        move_store,
        "peerage.stores:_compare_table",
        "after",
        hold_season,
        "other",
    ),
    KillPoint(
        "publishing: between pages",
        publish_pages,
        "peerage.doors.cli.data_commands:_write_page",
        "after",
        hold_season,
        "pages",
    ),
    KillPoint(
        "migration: not committed",
        upgrade_store,
        f"{WRITER}:add_results",
        "after",
        hold_season_and_downgrade,
    ),
)


def _at_each_call(function: str, side: Side, act: Callable[[int], None]) -> None:
    """Let a function call `act` with the number of its call, before or after its own work."""
    module, _, path = function.partition(":")
    owner: Any = importlib.import_module(module)
    *parents, name = path.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    original, numbers = getattr(owner, name), itertools.count(1)

    @functools.wraps(original)
    def watched(*given: Any, **named: Any) -> Any:
        number = next(numbers)
        if side == "before":
            act(number)
        value = original(*given, **named)
        if side == "after":
            act(number)
        return value

    @functools.wraps(original)
    async def watched_later(*given: Any, **named: Any) -> Any:
        number = next(numbers)
        if side == "before":
            act(number)
        value = await original(*given, **named)
        if side == "after":
            act(number)
        return value

    is_later = inspect.iscoroutinefunction(original)
    setattr(owner, name, watched_later if is_later else watched)


def _die_at(n: int, number: int) -> None:
    if number == n:
        os.kill(os.getpid(), signal.SIGKILL)


def _count_in(file: Path, number: int) -> None:
    file.write_text(str(number), "utf-8")


def _do(work: Work, scene: Scene, hook: tuple[str, Side, Callable[[int], None]] | None) -> None:
    if hook is not None:
        _at_each_call(*hook)
    work(scene)


_ONE_AT_A_TIME = threading.Lock()  # a start also looks after the processes of other threads
_FORKS = get_context("forkserver")
_FORKS.set_forkserver_preload(
    [
        *("tests.shared.crashes", "duckdb", "jinja2", "psycopg", "psycopg_pool"),
        *("peerage.doors.cli.data_commands", "peerage.doors.render.publishing"),
        *("peerage.reports.model_boards", "peerage.stores.sqlite", "peerage.stores.postgres"),
    ]
)


def in_a_process(
    work: Work, scene: Scene, hook: tuple[str, Side, Callable[[int], None]] | None = None
) -> int:
    """Do work in a process of its own and return its exit code, negative for a signal."""
    process = _FORKS.Process(target=_do, args=(work, scene, hook))
    with _ONE_AT_A_TIME:
        process.start()
    wait([process.sentinel])
    with _ONE_AT_A_TIME:
        process.join()
    return process.exitcode or 0


# -- comparison ----------------------------------------------------------------------------------


def board_text(url: str) -> str:
    """Return the board of models of a store as JSON, less the time it was made."""
    with peerage.open(url) as opened:
        return json.dumps(opened.board_models(since="all").document()["rows"])


def pages_text(folder: Path) -> str:
    """Return every page of a published folder, with its path."""
    pages = sorted(path for path in folder.rglob("*") if path.is_file())
    return "\n".join(f"{page.relative_to(folder)}\n{page.read_text('utf-8')}" for page in pages)


def events_by_session(url: str) -> dict[str, list[str]]:
    """Return every stored event as text."""
    store = open_store(url)
    stored = {row.id: [repr(event) for event in store.events(row.id)] for row in store.sessions()}
    asyncio.run(store.close())
    return stored


def stored_calls(url: str) -> set[str]:
    """Return the keys of the calls whose replies a store holds."""
    store = open_store(url)
    keys = set()
    for row in store.sessions():
        for event in store.events(row.id):
            if event.kind == "answered":
                keys.add(f"7|{row.id}|answer|{event.body['seat']}|0")
            elif event.kind == "reviewed":
                keys.add(f"7|{row.id}|review|{event.body['reviewer']}|{event.body['round']}")
    asyncio.run(store.close())
    return keys


@dataclass(slots=True)
class CrashCounts:
    """Kills at one point, and what they did."""

    n_kills: int = 0
    n_stored: int = 0  # replies in the store at the kills
    n_lost: int = 0
    n_paid_twice: int = 0  # although the store held the reply
    n_in_flight: int = 0  # paid again, as the reply had come in and was not stored
    n_different: int = 0  # boards, or pages
    errors: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not (self.n_lost or self.n_paid_twice or self.n_different or self.errors)


@dataclass(frozen=True, slots=True)
class Undisturbed:
    """The result of work that nothing disturbed, and how often it came by the kill point."""

    text: str
    n_calls: int


def _result(point: KillPoint, scene: Scene) -> str:
    if point.watches == "pages":
        return pages_text(scene.folder / "site")
    return board_text(scene.other_url if point.watches == "other" else scene.url)


def undisturbed(point: KillPoint, scene: Scene) -> Undisturbed:
    """Do the work of a point without a kill."""
    file = scene.folder / "count"
    hook = (point.function, point.side, functools.partial(_count_in, file))
    for work, at in ((point.prepare, None), (point.work, hook)):
        if code := in_a_process(work, scene, at):
            raise RuntimeError(f"{point.name}: the work ended with {code}")
    return Undisturbed(_result(point, scene), int(file.read_text("utf-8")))


def crash(
    point: KillPoint, scenes: Iterator[Scene], right: Undisturbed, seed: int, counts: CrashCounts
) -> None:
    """Kill the work at a call that the seed chooses, do it again, and count what is wrong.

    Calls that share a commit come by a point together, so that the n-th call may not come; then an
    earlier one is tried, in a new store.
    """
    n = random.Random(f"{point.name} {seed}").randint(1, right.n_calls)
    while True:
        scene = next(scenes)
        in_a_process(point.prepare, scene)
        hook = (point.function, point.side, functools.partial(_die_at, n))
        code = in_a_process(point.work, scene, hook)
        if code == -signal.SIGKILL:
            break
        if code or n == 1:
            counts.errors.append(f"seed {seed}: ended with {code} instead of a kill at call {n}")
            return
        n = (n + 1) // 2
    _compare(point, scene, right, seed, counts)


def _n_lost(before: list[str], after: list[str]) -> int:
    """Return how many events of before are not the first ones of after."""
    same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False))
    return len(before) - sum(1 for _ in same)


def _compare(
    point: KillPoint, scene: Scene, right: Undisturbed, seed: int, counts: CrashCounts
) -> None:
    counts.n_kills += 1
    is_old = point.work is upgrade_store  # reading it would upgrade it
    events, calls = (
        ({}, set()) if is_old else (events_by_session(scene.url), stored_calls(scene.url))
    )
    paid = scene.paid()
    if code := in_a_process(point.work, scene):
        counts.errors.append(f"seed {seed}: doing it again ended with {code}")
        return
    after = events_by_session(scene.url)
    again = scene.paid()[len(paid) :]
    counts.n_stored += len(calls)
    counts.n_lost += sum(_n_lost(stored, after.get(id_, [])) for id_, stored in events.items())
    counts.n_paid_twice += len(calls.intersection(again))
    counts.n_in_flight += len(set(paid).intersection(again) - calls)
    if scene.mock is not None and point.work is hold_batches:
        counts.n_paid_twice += sum(n - 1 for n in scene.mock.stats()["paid"].values())
    counts.n_different += _result(point, scene) != right.text
