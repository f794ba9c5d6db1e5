"""Files of a gate: the bar that was registered before the reviews, and the values of a baseline."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peerage.errors import InputError, UsageError, shown
from peerage.reports.options import BarOptions, parse_scale
from peerage.stats.bets import BETS

DECIMALS = 12
BASELINE = "peerage baseline"
FORMAT = 1
MAX_BASELINE_BYTES = 200_000_000
SEED = "the season's seed"  # what a recorded order of queries was drawn from


def canonical_json(document: Any) -> str:
    """Return JSON in one spelling: sorted keys, no blanks, ASCII."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)


def hash_of(document: Any) -> str:
    """Return the hash of a document's canonical JSON."""
    return f"sha256:{hashlib.sha256(canonical_json(document).encode()).hexdigest()}"


def bar_document(
    options: BarOptions, own_votes: str = "out", suite: int | None = None
) -> dict[str, Any]:
    """Return all that determines a verdict besides the reviews, for the log and a hash."""
    names = options.candidate
    candidate = names[0] if names else ""
    return {
        "format": FORMAT,
        "base": options.base,
        "candidate": candidate if len(names) <= 1 else sorted(names),
        "metric": options.metric,
        "dimensions": sorted(options.dimensions),
        "margin": options.margin,
        "alpha": options.alpha,
        "scale": list(parse_scale(options.scale)),
        "on": options.on,
        "own_votes": own_votes,
        "suite": suite,
        "bets": list(BETS),
    }


def check_registered(text: str, bar: Mapping[str, Any], place: str) -> None:
    """Raise an error if a bar differs from the one registered in a file."""
    try:
        registered = json.loads(text)["bar"]
        if not isinstance(registered, dict):
            raise ValueError
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError("this file does not contain a registered bar.", place=place) from None
    for name in sorted({*registered, *bar}):
        then, now = registered.get(name), bar.get(name)
        if then != now:
            raise UsageError(
                f"the bar differs from the registered one: {name} was {shown(then)}, now it is "
                f"{shown(now)}.",
                place=place,
                hint="A bar must not change after the reviews were seen. Use the registered "
                "options, or another file for another candidate.",
            )


def registered_hash(design: str) -> str:
    """Return the hash of the bar in a season's design; empty if it has none."""
    try:
        return hash_of(json.loads(design)["bar"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""


def recorded_draw(design: str) -> tuple[int, int] | None:
    """Return the batch and the planned repeats of a session whose place was drawn, or None."""
    try:
        order = json.loads(design)["order"]
        return (int(order["batch"]), int(order["repeats"])) if order["drawn_from"] == SEED else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def registration(bar: Mapping[str, Any]) -> str:
    """Return the text of a file that registers a bar and its hash."""
    return canonical_json({"bar": dict(bar), "hash": hash_of(bar)}) + "\n"


@dataclass(frozen=True, slots=True)
class Baseline:
    """A base's value on each query, with its reviewers and measures."""

    base: str
    measures: tuple[str, ...]
    scale: tuple[float, float]
    values: Mapping[str, tuple[float, ...]]
    judges: frozenset[tuple[str, str]]

    def document(self) -> dict[str, Any]:
        """Return the JSON of the file; `canonical_json` writes the same bytes everywhere."""
        return {
            "kind": BASELINE,
            "format": FORMAT,
            "base": self.base,
            "measures": list(self.measures),
            "scale": list(self.scale),
            "queries": {q: [round(v, DECIMALS) for v in vs] for q, vs in self.values.items()},
            "judges": sorted(map(list, self.judges)),
        }


def read_baseline(path: Path) -> Baseline:
    """Return the baseline in a file; raise an error for any other content."""
    place = str(path)
    try:
        if path.stat().st_size > MAX_BASELINE_BYTES:
            raise InputError("this file is too large for a baseline.", place=place)
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["kind"] != BASELINE or document["format"] != FORMAT:
            raise ValueError
        measures = tuple(map(str, document["measures"]))
        low, high = map(float, document["scale"])
        values = {str(q): tuple(map(float, v)) for q, v in document["queries"].items()}
        finite = all(math.isfinite(v) for some in values.values() for v in some)
        if not (finite and all(len(some) == len(measures) for some in values.values())):
            raise ValueError
        judges = frozenset(
            (str(name), str(fingerprint)) for name, fingerprint in document["judges"]
        )
        return Baseline(str(document["base"]), measures, (low, high), values, judges)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}.", place=place) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InputError(
            "this file is not a baseline.",
            place=place,
            hint="To write a baseline: `peerage gate --base NAME --save-baseline FILE`.",
        ) from None
