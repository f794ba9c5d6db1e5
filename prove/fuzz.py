"""Hostile input for the reader of replies, every importer, the settings and the HTTP routes."""

from __future__ import annotations

import json
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from prove import Line
from tests.council.replies import CODE, ODD_PIECES, check_reply
from tests.shared import foreign_files as files
from tests.shared.fuzz import (
    MAX_SHOWN,
    check_operation,
    fault_of,
    fuzz_import,
    fuzz_settings,
    routes_of,
)
from tests.shared.load import LoadPlan, serving_load, write_panel
from tests.shared.store_trouble import ballots, reviews

N_REPLIES, N_FILES, N_SETTINGS, N_REQUESTS = 20_000, 60, 2_000, 15
N_REPLIES_QUICK, N_FILES_QUICK, N_SETTINGS_QUICK, N_REQUESTS_QUICK = 500, 2, 100, 2
SEALS = ("required", "preferred")
PANEL = Path(__file__).parents[1] / "tests" / "frozen" / "data" / "panel.toml"
PAIRS = [files.Pair(i, "a", "b", "judge", ("first", "second")[i % 2]) for i in range(4)]
GRADES = [files.Grade(i, "m", "judge", 0.5) for i in range(4)]
OF_PAIRS: dict[str, files.Writer] = {
    "votes.csv": files.write_arena,
    "train.json": files.write_arena_one_hot,
    "annotations.json": files.write_alpaca_eval,
    "model.jsonl": files.write_arena_hard,
    "gpt-4_pair.jsonl": files.write_mt_bench,
    "human.json": files.write_mt_bench_votes,
    "judgments.jsonl": files.write_peereval,
    "feedback.json": files.write_open_webui,
}
OF_GRADES: dict[str, files.Writer] = {
    "gpt-4_single.jsonl": files.write_mt_bench_single,
    "log.json": files.write_inspect,
    "log.eval": files.write_inspect_archive,
    "results.json": files.write_promptfoo,
    "run.json": files.write_deepeval,
    "samples_t_2026-01-01T00-00-00.000000.jsonl": files.write_lm_eval,
    "scores.json": files.write_langfuse,
    "traces.jsonl": files.write_mlflow,
    "items.json": files.write_openai_evals,
}


def run(quick: bool) -> Iterator[Line]:
    yield fuzz_replies(N_REPLIES_QUICK if quick else N_REPLIES)
    n_files = N_FILES_QUICK if quick else N_FILES
    for name, data, file in foreign_files():
        yield _repeat(f"import of {name}", n_files, partial(fuzz_import, data, file))
    n_settings = N_SETTINGS_QUICK if quick else N_SETTINGS
    yield _repeat("settings", n_settings, partial(fuzz_settings, PANEL.read_bytes()))
    yield from fuzz_routes(*((N_REQUESTS_QUICK, 3) if quick else (N_REQUESTS, 1)))


def fuzz_replies(n: int) -> Line:
    """Read replies that are made of the pieces that replies are made of, and of any characters."""
    faults: Counter[str] = Counter()
    for seed in range(n):
        rng = random.Random(seed)
        if seed % 2:
            text = "".join(rng.choices(ODD_PIECES, k=rng.randrange(60)))
        else:
            text = "".join(chr(rng.randrange(1, 0x3000)) for _ in range(rng.randrange(200)))
        seal = rng.choice(SEALS)
        for given in (text, f'{{"ballot": "{CODE}", "ranking": {text}'):
            faults[fault_of(partial(check_reply, given, seal))] += 1
    return _line("replies of any text", faults)


def foreign_files() -> Iterator[tuple[str, bytes, str]]:
    """Yield a sound file of each kind: its format, its bytes and its name."""
    for cases, writers in ((PAIRS, OF_PAIRS), (GRADES, OF_GRADES)):
        for file, write in writers.items():
            yield write.__name__.removeprefix("write_"), write(list(cases)), file
    yield "sessions", json.dumps(ballots("s1", "s2")).encode(), "sessions.json"
    with tempfile.TemporaryDirectory() as folder:
        yield "tables", reviews(Path(folder), "r", 5).read_bytes(), "reviews.csv"


def _repeat(name: str, n: int, fuzz: Callable[[Path, random.Random], str]) -> Line:
    faults: Counter[str] = Counter()
    for seed in range(n):
        with tempfile.TemporaryDirectory() as folder:
            faults[fuzz(Path(folder), random.Random(f"{name} {seed}"))] += 1
    return _line(name, faults)


def fuzz_routes(n: int, step: int) -> Iterator[Line]:
    """Send so many sound and as many wrong requests to each (or each third) route of a server."""
    with tempfile.TemporaryDirectory() as name:
        folder, plan = Path(name), LoadPlan(n_webhooks=0)
        write_panel(folder, plan)
        with serving_load(folder, f"sqlite:///{folder / 'p.db'}", plan, "") as server:
            routes = routes_of(server.address)[::step]
            for mode in ("positive", "negative"):
                faults: Counter[str] = Counter()
                for route in routes:
                    n_before = faults.total()
                    try:
                        faults[""] += check_operation(route, mode, n)
                    except AssertionError as error:
                        faults[str(error)[:MAX_SHOWN]] += 1
                    if faults.total() == n_before and mode == "positive":
                        faults[f"nothing was sent to {route.path}"] += 1
                kind = "sound" if mode == "positive" else "wrong"
                yield _line(f"{kind} requests to {len(routes)} routes", faults)


def _line(name: str, faults: Counter[str]) -> Line:
    n_faults = faults.total() - faults[""]
    worst = "".join(f"; {n} × {fault}" for fault, n in faults.most_common(4) if fault)
    return Line(name, faults.total(), f"{n_faults} faults{worst}", n_faults == 0)
