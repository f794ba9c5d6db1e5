"""Small things that every screen draws: bars, intervals, JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

EIGHTHS = " ▏▎▍▌▋▊▉█"


def bar(value: float, width: int = 20) -> str:
    """A horizontal bar for a value in [0, 1], to an eighth of a character."""
    eighths = round(max(0.0, min(1.0, value)) * width * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (EIGHTHS[rest] if rest else "")).ljust(width)


def interval_bar(value: float, low: float | None, high: float | None, width: int = 20) -> str:
    """A point in its interval on a line from 0 to 1; only the point where there is no interval."""

    def at(x: float) -> int:
        return round(max(0.0, min(1.0, x)) * (width - 1))

    cells = ["·"] * width
    if low is not None and high is not None:
        for i in range(at(low), at(high) + 1):
            cells[i] = "─"
    cells[at(value)] = "●"
    return "".join(cells)


def write_json(document: Any) -> None:
    """The one document on stdout; a NaN here is a bug, so it is refused."""
    text = json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False)
    sys.stdout.write(text + "\n")
