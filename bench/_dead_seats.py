"""How long one dead seat keeps `peerage ask` and `peerage run` waiting, for each way of being dead.

Three live seats answer after a while; the fourth hangs, refuses, or sends without end. The commands
run as a user runs them, against a model server in another process. Times are those of the
clock: what is measured is waiting.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from bench import Row
from bench.sessions import mock_server

TIMEOUT_S = 8
LATENCY_MS = 1500  # of a live seat
N_PROMPTS = 15
N_SESSIONS_AT_ONCE = 4
N_COMMANDS_AT_ONCE = 2  # they only wait
MOST_BEYOND_S = 15.0  # what a dead seat may add to `ask`
MOST_TIMES = 1.5  # how much longer a season may take with it
DEAD_MODELS = {
    "hangs": "dead?do=hang",
    "drips": "dead?do=drip",
    "never ends": "dead?do=endless",
    "says 500": "dead?do=500",
    "says 429": "dead?do=429",
    "says 429, wait 2 s": "dead?do=429&retry_after=2",
    "says 429, wait 60 s": "dead?do=429&retry_after=60",
    "sends HTML": "dead?do=html",
    "is refused": "",  # nothing listens at its address
}


def rows() -> list[Row]:
    """A row for each way of being dead, and each of the two commands."""
    commands = ("ask", "run")
    asked = [(command, name) for name in ("", *DEAD_MODELS) for command in commands]
    with (
        mock_server() as url,
        closed_port() as nowhere,
        tempfile.TemporaryDirectory() as scratch,
        ThreadPoolExecutor(N_COMMANDS_AT_ONCE) as pool,
    ):
        addresses = {name: url if model else nowhere for name, model in DEAD_MODELS.items()}

        def timed(command: str, name: str) -> float:
            folder = Path(tempfile.mkdtemp(dir=scratch))
            seats = [(f"live-{i}", f"live-{i}?latency_ms={LATENCY_MS}", url) for i in range(3)]
            if name:
                seats.append(("dead", DEAD_MODELS[name] or "dead", addresses[name]))
            return seconds_of(command, seats, folder)

        timed("ask", "")  # what only the first run pays for is not measured
        times = dict(zip(asked, pool.map(lambda one: timed(*one), asked), strict=True))
    live_s = {command: times[command, ""] for command in commands}
    return [_row(command, name, taken, live_s) for (command, name), taken in times.items() if name]


def _row(command: str, name: str, taken: float, live_s: Mapping[str, float]) -> Row:
    if command == "ask":
        beyond = max(0.01, taken - live_s["ask"])
        return Row(f"ask, one {name}", 1, beyond, MOST_BEYOND_S, 1.0, "allowed")
    return Row(f"season, one {name}", N_PROMPTS, taken, live_s["run"], 1 / MOST_TIMES, "without")


def seconds_of(command: str, seats: list[tuple[str, str, str]], folder: Path) -> float:
    """How long a command takes with these seats: name, model and address of each."""
    tables = [
        f"[[seat]]\nname = {json.dumps(name)}\nmodel = {json.dumps(model)}\n"
        f"base_url = {json.dumps(address)}\ntimeout_s = {TIMEOUT_S}\n"
        for name, model, address in seats
    ]
    (folder / "peerage.toml").write_text("\n".join(tables), encoding="utf-8")
    prompts = [json.dumps({"query": f"What is {i} plus {i}?"}) for i in range(N_PROMPTS)]
    (folder / "prompts.jsonl").write_text("\n".join(prompts), encoding="utf-8")
    asked = {
        "ask": ["ask", "What is a peer?", "--json"],
        "run": ["run", "prompts.jsonl", "--json", "--concurrency", str(N_SESSIONS_AT_ONCE)],
    }
    start = time.monotonic()
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-m", "peerage", *asked[command]],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    taken = time.monotonic() - start
    if done.returncode or (command == "run" and json.loads(done.stdout)["finished"] != N_PROMPTS):
        raise RuntimeError(f"the bench failed: {done.stdout[-500:]} {done.stderr[-500:]}")
    return taken


@contextmanager
def closed_port() -> Iterator[str]:
    """An address at which every connection is refused: its port is taken, and not listened at."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
