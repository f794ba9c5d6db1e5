"""`python -m bench [NAME …]`: runs the benches named, or all of them, and prints one table each.

Ends with 1 if a target is missed, with 2 if there is no bench of that name.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

import bench
from bench import Row


def names() -> list[str]:
    """Every module of this package that is a bench: all but the runner and private ones."""
    return sorted(
        module.name
        for module in pkgutil.iter_modules(bench.__path__)
        if not module.name.startswith("_")
    )


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
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{cpu}, {os.cpu_count()} cores, {platform.system()}, {python}"


def amount(value: float | None, unit: str) -> str:
    if value is None:
        return "—"
    if unit != "s":
        return f"{value:,.0f} {unit}"
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if value * scale >= 1:
            return f"{value * scale:.3g} {unit}"
    return f"{value * 1e6:.3g} µs"


def times(value: float | None) -> str:
    return "—" if value is None else f"{value:.2f}×"


PEERS = Path(sys.prefix) / "peers"  # put there by ./dev bench
VERDICTS = {True: "[green]met[/]", False: "[red]missed[/]", None: "—"}


def table(name: str, rows: Sequence[Row]) -> Table:
    """The rows as a person reads them: ours, the peer's, the ratio and what was asked for."""
    shown = Table("what", "n", "ours", "peer", "ratio", "target", "", title=name)
    for column in shown.columns[1:-1]:
        column.justify = "right"
    for row in rows:
        what, note, rival = escape(row.name), escape(row.note), escape(row.peer)
        what = f"{what} [dim]{note}[/]" if note else what
        peer = amount(row.peer_s, row.unit)
        peer = f"{peer} [dim]{rival}[/]" if rival else peer
        asked = "—" if row.target is None else f"≥ {row.target:g}×"
        shown.add_row(
            what,
            f"{row.n:,}",
            amount(row.ours_s, row.unit),
            peer,
            times(row.ratio),
            asked,
            VERDICTS[row.ok],
        )
    return shown


def main(asked: Sequence[str]) -> int:
    sys.path.append(str(PEERS))  # last, so that what they brought along shadows nothing of ours
    known = names()
    unknown = [name for name in asked if name not in known]
    if unknown:
        listed = ", ".join(known) or "none yet"
        print(f"no bench {', '.join(unknown)}; known: {listed}", file=sys.stderr)
        return 2
    console = Console()
    console.print(f"CPU time, medians of alternating turns, on {machine()}", highlight=False)
    missed = []
    for name in asked or known:
        rows: list[Row] = importlib.import_module(f"bench.{name}").run()
        console.print(table(name, rows))
        missed += [f"{name}: {row.name}" for row in rows if row.ok is False]
    for miss in missed:
        console.print(f"[red]missed[/] {escape(miss)}", highlight=False)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
