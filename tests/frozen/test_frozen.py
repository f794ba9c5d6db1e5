"""Results that must not move while code does: what the commands print, digit by digit.

A golden file holds the JSON of one command. To accept a change that is meant, run the file
itself, `python -m tests.frozen.test_frozen`, and read the difference before committing it.
"""

from __future__ import annotations

import json
import math
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.forked import Forks

HERE = Path(__file__).parent
DATA, GOLDEN = HERE / "data", HERE / "golden"
WITHIN = 1e-12

EXAMPLE = "EXAMPLE"  # the ballots file that the package ships
SCORES = ("--reviews", "scores.csv")
RANKS = ("--reviews", "ranks.csv")
PAIRS = ("--reviews", "pairs.csv")
COMMUNITY = ("--opinions", "opinions.csv", "--items", "items.csv", "--users", "users.csv")
STORE = ("--store", "STORE", "--config", "panel.toml")

COMMANDS: dict[str, tuple[str, ...]] = {
    **{
        f"score-{rule}": ("score", EXAMPLE, "--rule", rule)
        for rule in (
            "borda",
            "mean_rank",
            "hybrid",
            "elo",
            "bradley_terry",
            "copeland",
            "schulze",
        )
    },
    "score-rubric": ("score", EXAMPLE, "--rubric", "general", "--safety-gate"),
    "score-own-in": ("score", EXAMPLE, "--own-votes", "in"),
    "score-own-place-kept": ("score", EXAMPLE, "--own-votes", "place_kept"),
    "models-scores": ("board", "models", *SCORES, "--since", "all"),
    "models-window": ("board", "models", *SCORES, "--since", "2w"),
    "models-category": ("board", "models", *SCORES, "--since", "all", "--by-category"),
    "models-two-way": ("board", "models", *SCORES, "--since", "all", "--interval", "two-way"),
    "models-peer": ("board", "models", *SCORES, "--since", "all", "--reputation", "peer"),
    "models-views": (
        *("board", "models", *SCORES, "--since", "all"),
        *("--matrix", "--compare-rules", "--history", "week"),
    ),
    "models-length": ("board", "models", *SCORES, "--since", "all", "--length-controlled"),
    "models-ranks": ("board", "models", *RANKS, "--since", "all"),
    "models-ranks-in": ("board", "models", *RANKS, "--since", "all", "--own-votes", "in"),
    "models-pairs": ("board", "models", *PAIRS, "--since", "all"),
    **{
        f"models-{rule}": ("board", "models", *SCORES, "--since", "all", "--rule", rule)
        for rule in ("mean_rank", "hybrid", "bradley_terry", "elo", "copeland", "schulze")
    },
    "models-pairs-bradley-terry": (
        *("board", "models", *PAIRS, "--since", "all", "--rule", "bradley_terry"),
    ),
    "audit-scores": ("audit", *SCORES),
    "audit-ranks": ("audit", *RANKS),
    "audit-pairs": ("audit", *PAIRS),
    "audit-dimension": ("audit", *SCORES, "--dimension", "accuracy"),
    "contributors": ("board", "contributors", *COMMUNITY),
    "reviewers": ("board", "reviewers", *COMMUNITY),
    "items": ("board", "items", *COMMUNITY),
    "contributors-iterate": ("board", "contributors", *COMMUNITY, "--reputation", "iterate"),
    "reviewers-iterate": ("board", "reviewers", *COMMUNITY, "--reputation", "iterate", "--all"),
    "reviewers-fading": ("board", "reviewers", *COMMUNITY, "--half-life", "20"),
    "contributors-literal": ("board", "contributors", *COMMUNITY, "--literal"),
    "reviewers-literal": ("board", "reviewers", *COMMUNITY, "--literal"),
    "rings": ("rings", *COMMUNITY),
    "season-models": ("board", "models", *STORE, "--since", "all", "--matrix"),
    "season-audit": ("audit", *STORE),
    "season-session": ("show", "8a6f779bc1700117", *STORE),
}
CODE = re.compile(r'"ballot": "\w+"')
FIGURE = re.compile(r"[-+]?\d+\.\d+")
WORDED = {"note", "quote"}  # sentences: their figures are held, and not their wording
CLOCK = {"at", "as_of", "opened_at", "finished_at", "latency_ms"}


def peerage(forks: Forks, *words: str) -> Any:
    """The JSON that a command prints."""
    ran = forks.run([*words, "--json"], cwd=DATA, env=os.environ)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def hold_season(forks: Forks, folder: Path) -> Path:
    """A small season of the simulated panel, in a store of its own."""
    store = folder / "season.db"
    words = ("run", "prompts.jsonl", "--config", "panel.toml", "--store", f"sqlite:///{store}")
    peerage(forks, *words)
    return store


def printed(forks: Forks, name: str, store: Path) -> Any:
    import peerage as package

    example = Path(package.__file__).parent / "examples" / "ballots.json"
    stand_for = {EXAMPLE: str(example), "STORE": f"sqlite:///{store}"}
    return without_clock(peerage(forks, *(stand_for.get(word, word) for word in COMMANDS[name])))


def without_clock(value: Any) -> Any:
    """The document without what depends on the time of day, or on the secret of a session."""
    if isinstance(value, dict):
        return {k: without_clock(v) for k, v in value.items() if k not in CLOCK}
    if isinstance(value, str):
        return CODE.sub('"ballot": "…"', value)
    return [without_clock(one) for one in value] if isinstance(value, list) else value


def differences(golden: Any, now: Any, place: str = "") -> Iterator[str]:
    """Where a document says something else than the golden one; what was added is no difference."""
    if isinstance(golden, dict) and isinstance(now, dict):
        for key, value in golden.items():
            if key not in now:
                yield f"{place}.{key} is gone"
            elif key in WORDED:
                yield from differences(figures(value), figures(now[key]), f"{place}.{key}")
            else:
                yield from differences(value, now[key], f"{place}.{key}")
    elif isinstance(golden, list) and isinstance(now, list):
        if len(golden) != len(now):
            yield f"{place}: {len(now)} elements in place of {len(golden)}"
        for i, (one, other) in enumerate(zip(golden, now, strict=False)):
            yield from differences(one, other, f"{place}[{i}]")
    elif isinstance(golden, float) and isinstance(now, (int, float)):
        if not math.isclose(golden, now, rel_tol=WITHIN, abs_tol=WITHIN):
            yield f"{place}: {now!r} in place of {golden!r}"
    elif golden != now:
        yield f"{place}: {now!r} in place of {golden!r}"


def figures(text: str | None) -> list[str]:
    """The decimal numbers in a sentence."""
    return FIGURE.findall(text or "")


@pytest.fixture(scope="module")
def store(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hold_season(forks, tmp_path_factory.mktemp("season"))


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_prints_the_numbers_that_it_always_did(
    forks: Forks, name: str, store: Path
) -> None:
    golden = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    assert list(differences(golden, printed(forks, name, store)))[:10] == []


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        runner = Forks()
        season = hold_season(runner, Path(scratch))
        for each in COMMANDS:
            text = json.dumps(printed(runner, each, season), indent=1, ensure_ascii=False)
            (GOLDEN / f"{each}.json").write_text(text + "\n", encoding="utf-8")
        runner.close()
