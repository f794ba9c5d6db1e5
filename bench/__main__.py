"""`python -m bench [NAME[=N] …] [--json]`: runs the benches named; a line for each row.

Without a name it runs `peers`, which fits one screen. `all` is every bench but those in
ONLY_WHEN_NAMED, which take long. A bench that takes a count gets N.

Ends with 1 if a target is missed, with 2 if there is no bench of that name.
"""

from __future__ import annotations

import importlib
import json
import math
import pkgutil
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import bench
from bench import Row, amount, machine


def names() -> list[str]:
    """Every module of this package that is a bench: all but the runner and private ones."""
    return sorted(
        module.name
        for module in pkgutil.iter_modules(bench.__path__)
        if not module.name.startswith("_")
    )


ONLY_WHEN_NAMED = (
    "attack",
    "codes",
    "commit",
    "drift",
    "gate",
    "local_judge",
    "peers",
    "quotes",
    "scale",
)
PEERS = Path(sys.prefix) / "peers"  # put there by ./dev bench
SUMMARY = "peers"  # the bench that runs if none is named
WIDTH = 80
VERDICTS = {True: "met", False: "MISSED", None: "no peer"}
NAME = 36
HEAD = f"{'':<{NAME}}{'ours':>9}{'beside':>10}{'ratio':>9}{'at least':>9}"


def line(row: Row) -> str:
    """One row in one line: what, ours, the peer's, the ratio, what was asked for, the verdict."""
    what = f"{row.name} / {row.peer}" if row.peer else row.name
    what = what if len(what) < NAME else what[: NAME - 2] + "…"
    ratio = "–" if row.ratio is None else f"{row.ratio:.2f}×"
    return (
        f"{what:<{NAME}}{amount(row.ours, row.unit):>9}{amount(row.beside, row.unit):>10}"
        f"{ratio:>9}{f'{row.target:.3g}×':>9}{VERDICTS[row.ok]:>7}"
    )


def document(name: str, row: Row) -> dict[str, object]:
    """One row for machines."""
    ratio = None if row.ratio is None or math.isinf(row.ratio) else row.ratio
    return {"bench": name, **asdict(row), "ratio": ratio, "ok": row.ok}


def main(arguments: Sequence[str]) -> int:
    """Run the benches that are named, print their rows, and say by the exit code how it went."""
    sys.path.append(str(PEERS))  # last, so that what they brought along shadows nothing of ours
    as_json = "--json" in arguments
    counts_by_name = dict(one.partition("=")[::2] for one in arguments if one != "--json")
    known = names()
    if "all" in counts_by_name:
        del counts_by_name["all"]
        counts_by_name |= {name: "" for name in known if name not in ONLY_WHEN_NAMED}
    asked = list(counts_by_name) or [SUMMARY]
    if unknown := [name for name in asked if name not in known]:
        print(f"no bench {', '.join(unknown)}; known: {', '.join(known)}", file=sys.stderr)
        return 2
    if not as_json:
        print(f"CPU time unless a row says otherwise; {machine()}"[:WIDTH])
        print(HEAD)
    rows: list[tuple[str, Row]] = []
    for name in asked:
        count = counts_by_name.get(name)
        for row in importlib.import_module(f"bench.{name}").run(*([int(count)] if count else [])):
            rows.append((name, row))
            if not as_json:
                print(line(row), flush=True)
    if as_json:
        rows_as_json = [document(name, row) for name, row in rows]
        print(json.dumps({"machine": machine(), "rows": rows_as_json}, indent=2))
    else:
        counts = Counter(VERDICTS[row.ok] for _, row in rows)
        print(", ".join(f"{n} {verdict}" for verdict, n in counts.items()))
    return 1 if any(row.ok is False for _, row in rows) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
