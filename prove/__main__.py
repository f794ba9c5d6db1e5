"""`python -m prove NAME[=N] … [--quick]`: a table for each; ends with 1 where a line misses.

A kind that takes a count gets N. A run that is not quick also writes its table to docs/proofs.md.
"""

from __future__ import annotations

import datetime
import importlib
import pkgutil
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import prove
from bench import machine, write_table
from prove import Line

WIDTH = 80
NAME, N, VERDICT = 34, 6, 7
TEXT = WIDTH - NAME - N - VERDICT - 3
QUICK = "--quick"


def names() -> list[str]:
    """Every module of this package that is a kind: all but the runner."""
    modules = [module.name for module in pkgutil.iter_modules(prove.__path__)]
    return sorted(name for name in modules if not name.startswith("_"))


def lines_of(line: Line) -> Iterator[str]:
    """A promise in as many lines as its text takes, the verdict in the first."""
    shown = textwrap.wrap(line.name, NAME - 1) or [""]
    measured = textwrap.wrap(line.measured, TEXT) or [""]
    for i in range(max(len(shown), len(measured))):
        name = shown[i] if i < len(shown) else ""
        text = measured[i] if i < len(measured) else ""
        n = f"{line.n:,}" if i == 0 else ""
        verdict = ("met" if line.ok else "MISSED") if i == 0 else ""
        yield f"{name:<{NAME}}{n:>{N}}  {text:<{TEXT}} {verdict}".rstrip()


@dataclass(frozen=True, slots=True)
class Kind:
    """The name of a kind, and the count that was given with it."""

    name: str
    count: str = ""

    def run(self, quick: bool) -> Iterator[Line]:
        module = importlib.import_module(f"prove.{self.name}")
        lines: Iterator[Line] = module.run(quick, *([int(self.count)] if self.count else []))
        return lines


def prove_one(kind: Kind, quick: bool) -> bool:
    """Print the table of one kind; return whether every line of it is met."""
    began, lines = time.monotonic(), []
    print(f"{kind.name}{' (quick)' if quick else ''}: {machine()}"[:WIDTH], flush=True)
    print(f"{'':<{NAME}}{'n':>{N}}  measured", flush=True)
    for line in kind.run(quick):
        lines.append(line)
        print("\n".join(lines_of(line)), flush=True)
    n_met, took_s = sum(line.ok for line in lines), time.monotonic() - began
    print(f"{n_met} of {len(lines)} met, in {took_s:.0f} s", flush=True)
    if not quick:
        write_proof(kind.name, lines, took_s)
    return len(lines) > 0 and n_met == len(lines)


def write_proof(name: str, lines: Sequence[Line], took_s: float) -> None:
    """Put the table of one kind into the document."""
    today = datetime.datetime.now(datetime.UTC).date()
    n_met = sum(line.ok for line in lines)
    table = [f"{n_met} of {len(lines)} met on {today}, in {took_s:.0f} s: {machine()}.", ""]
    table += ["| promise | n | measured | |", "|---|---:|---|---|"]
    for line in lines:
        verdict = "met" if line.ok else "**missed**"
        table.append(f"| {line.name} | {line.n:,} | {line.measured} | {verdict} |")
    write_table("proofs.md", name, table, show=False)


def main(arguments: Sequence[str]) -> int:
    """Run the kinds that are named, and say by the exit code how it went."""
    given = [Kind(*one.split("=", 1)) for one in arguments if one != QUICK]
    known = names()
    is_known = all(kind.name in known and (kind.count or "1").isdecimal() for kind in given)
    if not given or not is_known:
        print(f"usage: ./dev prove NAME … [{QUICK}]; NAME is {', '.join(known)}", file=sys.stderr)
        return 2
    results = [prove_one(kind, QUICK in arguments) for kind in given]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
