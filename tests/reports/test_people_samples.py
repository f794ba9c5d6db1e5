"""A warning where the queries that people reviewed are no random sample of all queries."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import peerage
from peerage.boards.people_sample import DISAGREEMENT, LEAD, SampleWarning, check_sample
from peerage.reviews.cells import Floats, Ints
from peerage.reviews.judge_shares import JudgeShares

MODELS, JUDGES = ("v", "w", "x", "y", "z"), ("j1", "j2", "j3", "j4")
SKILL = np.array([0.6, 0.3, 0.0, -0.3, -0.6])


def judged(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    """What each judge sees of each model on each query, and the shares of rivals beaten."""
    quality = SKILL + rng.normal(0.0, 1.0, (n, len(MODELS)))
    loud = rng.gamma(2.0, 0.4, (n, 1, 1))
    seen = quality[:, :, None] + loud * rng.normal(0.0, 1.0, (n, len(MODELS), len(JUDGES)))
    shares: Floats = (seen[:, :, None] > seen[:, None]).sum(axis=2) / (len(MODELS) - 1.0)
    return quality, shares


def chosen(kind: str, rng: np.random.Generator, n: int, n_people: int) -> tuple[Floats, Ints]:
    """The judges' shares, and the queries that people chose to review."""
    quality, shares = judged(rng, n)
    panel = shares.mean(axis=2)
    ranked = np.sort(panel, axis=1)
    by = {
        "random": rng.random(n),
        "hard for one model": quality[:, 0],
        "judges disagree": -shares.std(axis=2).mean(axis=1),
        "close calls": ranked[:, -1] - ranked[:, -2],
    }[kind]
    return shares, np.argsort(by, kind="stable")[:n_people]


def warning(kind: str, seed: int, n: int = 400, n_people: int = 60) -> SampleWarning | None:
    shares, people = chosen(kind, np.random.default_rng(seed), n, n_people)
    unit, model = np.divmod(np.arange(n * len(MODELS)), len(MODELS))
    flat = shares.reshape(n * len(MODELS), len(JUDGES))
    units = tuple(f"q{i}" for i in range(n))
    table = JudgeShares(JUDGES, MODELS, units, unit, model, flat)
    return check_sample(table, np.isin(unit, people), flat)


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        ("hard for one model", "the judges' share of v"),
        ("judges disagree", DISAGREEMENT),
        ("close calls", LEAD),
    ],
)
def test_a_sample_that_is_not_random_is_found_and_its_column_named(kind: str, column: str) -> None:
    found = [warning(kind, seed) for seed in range(20)]
    assert [one.column for one in found if one is not None] == [column] * 20


def test_a_random_sample_is_hardly_ever_warned_of() -> None:
    assert sum(warning("random", seed) is not None for seed in range(100)) <= 4


def test_below_ten_queries_on_a_side_it_is_too_early() -> None:
    assert warning("hard for one model", 0, n_people=9) is None
    assert warning("hard for one model", 0, n=60, n_people=51) is None
    assert warning("hard for one model", 0, n=400, n_people=400) is None


def test_the_warning_stands_in_the_note_beside_the_assumption(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    shares, people = chosen("hard for one model", rng, 120, 30)
    lines = ["session_id,reviewer,candidate,score"]
    for (query, model, judge), share in np.ndenumerate(shares):
        lines.append(f"s{query},{JUDGES[judge]},{MODELS[model]},{share}")
    lines += [f"s{i},p1,{name},{rng.random()}" for i in people for name in MODELS]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    notes = peerage.board_models(tmp_path / "t.csv", people="p1").notes["people"]
    assert "the judges' share of v differs there" in notes["not_random"]
    assert notes["not_random"] in notes["note"]
    assert "assumption" in notes
