"""Measurements against a peer and a target, side by side in one run.

A bench is a module of this package with `run() -> list[Row]`; `./dev bench NAME` runs it.
Times are the process's own CPU seconds, so a busy machine slows a bench but hardly bends it;
ours and the peer's turns alternate, so what drifts drifts for both.
"""

from __future__ import annotations

import gc
import math
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

DOCUMENTS = Path(__file__).parents[1] / "docs"


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement beside a peer's or an allowance, and the ratio that is asked for.

    Where a peer is not installed `missing` says so, and there is no verdict.
    """

    name: str
    n: int  # how many things one turn handles: sessions, inputs, rows
    ours: float  # in the unit
    beside: float | None = None  # the peer's, or what is allowed
    target: float = 1.0  # `beside` over `ours`, at least
    peer: str = ""
    unit: str = "s"
    missing: str = ""

    @property
    def ratio(self) -> float | None:
        """How many times better than the peer; None where there is nothing to compare.

        No alarms at all is infinitely better than some; no time at all was not measured.
        """
        if self.beside is None or (self.ours <= 0 and self.unit == "s"):
            return None
        return self.beside / self.ours if self.ours > 0 else math.inf

    @property
    def ok(self) -> bool | None:
        """Whether the target is met; None only where the peer is missing."""
        if self.missing:
            return None
        return self.ratio is not None and self.ratio >= self.target


def compare(
    name: str,
    ours: Callable[[], object],
    peer: Callable[[], object],
    *,
    n: int,
    target: float,
    peer_name: str,
    n_repeats: int = 7,
) -> Row:
    """Our median turn beside the peer's, taken alternately after one unmeasured turn each."""
    ours()
    peer()
    turns = [(cpu_seconds(ours), cpu_seconds(peer)) for _ in range(n_repeats)]
    ours_s, peer_s = (statistics.median(side) for side in zip(*turns, strict=True))
    return Row(name, n, ours_s, peer_s, target, peer_name)


def measure(name: str, ours: Callable[[], object], *, n: int, n_repeats: int = 7) -> Row:
    """Our median turn alone: for a growth, or where the peer is missing."""
    ours()
    return Row(name, n, statistics.median(cpu_seconds(ours) for _ in range(n_repeats)))


def cpu_seconds(turn: Callable[[], object]) -> float:
    """The CPU time this process spends on one turn, with no collector at work inside it."""
    gc.collect()
    enabled = gc.isenabled()
    gc.disable()
    try:
        start = time.process_time()
        turn()
        return time.process_time() - start
    finally:
        if enabled:
            gc.enable()


def growth(small: Row, large: Row, at_most: float) -> Row:
    """What ten times the rows cost, in times of the smaller turn."""
    asked, peer = 1.0 / at_most, f"{small.n:,} of them"
    return Row("ten times the rows", large.n, large.ours, small.ours, asked, peer)


def memory(function: str, path: Path, *, n: int, at_most_mb: float) -> Row:
    """The peak of a process that calls `module:function` on a file and does nothing else."""
    module, _, name = function.partition(":")
    code = (
        f"import sys; from pathlib import Path; from {module} import {name}; "
        f"from bench import peak_mb; {name}(Path(sys.argv[1])); print(peak_mb())"
    )
    done = subprocess.run(  # noqa: S603 — our own code on our own file
        [sys.executable, "-c", code, str(path)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[1],
    )
    peak = float(done.stdout.split()[-1])
    return Row("peak memory", n, peak, at_most_mb, 1.0, "allowed", "MB")


def peak_mb() -> float:
    """This process's peak. Linux's rusage would count the parent's, from before the exec."""
    status = Path("/proc/self/status")
    if status.exists():
        lines = status.read_text(encoding="ascii", errors="replace").splitlines()
        return next(int(line.split()[1]) / 1024.0 for line in lines if line.startswith("VmHWM"))
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0**2


def machine() -> str:
    """What the figures were taken on, without which they mean little."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        models = [
            line.partition(":")[2].strip()
            for line in info.read_text(encoding="utf-8").splitlines()
            if line.startswith("model name")
        ]
        cpu = models[0] if models else cpu
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    python = f"{platform.python_implementation()} {platform.python_version()}"
    cores = f"{os.cpu_count()} cores, {memory_gb:.0f} GB"
    return f"{cpu}, {cores}, {platform.system()}, {python}"


def amount(value: float | None, unit: str) -> str:
    """A measured value in a readable unit."""
    if value is None:
        return "–"
    if unit != "s":
        return f"{value:,.0f} {unit}"
    for shown, scale in (("s", 1.0), ("ms", 1e3)):
        if value * scale >= 1:
            return f"{value * scale:.3g} {shown}"
    return f"{value * 1e6:.3g} µs"


def write_table(document: str, name: str, lines: Iterable[str], *, show: bool = True) -> None:
    """Put lines between the markers of that name in a document, and on the terminal."""
    table = list(lines)
    if show:
        print("\n".join(table), flush=True)
    path = DOCUMENTS / document
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    block = "\n".join([begin, *table, end])
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    text, n = pattern.subn(lambda _: block, path.read_text(encoding="utf-8"))
    if n != 1:
        raise ValueError(f"{document} has {n} tables called {name}")
    path.write_text(text, encoding="utf-8")
