"""Community boards against what others computed from the same opinions.

`validate(directory)` looks for `peerbench/<case>/` folders (users, prompts, reviews and
coefficients with the published scoring code's output) and for `crowd_<name>_opinions.parquet`
files (opinions with the truth beside them) and says of each figure whether it is reproduced.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peerage.boards.community import item_sums
from peerage.boards.opinions import Coefficients
from peerage.boards.reputation import dawid_skene, iterate
from peerage.engines.duckdb import DuckDB
from peerage.reports import InputTables, read_community_boards
from peerage.reports.community_boards import CommunityBoards, read_tables
from peerage.reports.options import CommunityBoardOptions

TOLERANCE = 1e-12
CROWD = {"bluebird": (0.2407, 0.1852), "rte": (0.1031, 0.0700), "sp": (0.1141, 0.0948)}
PRINTED = 5e-5


@dataclass(frozen=True, slots=True)
class Check:
    """One figure: what it is, what we have, what was expected, and whether that will do."""

    what: str
    ours: object
    theirs: object
    ok: bool | None  # None: shown for interest, nothing was claimed


def validate(directory: Path) -> list[Check]:
    """Every check that the directory has the data for."""
    checks: list[Check] = []
    for case in sorted(path.parent for path in directory.rglob("expected_contributors.json")):
        checks += peerbench(case)
    for name in CROWD:
        for path in sorted(directory.rglob(f"crowd_{name}_opinions.parquet")):
            checks += crowd(path, name)
    return checks


# -- the published scoring code ---------------------------------------------------------------


def peerbench(case: Path) -> Iterator[Check]:
    """One case with literal scoring: every number of both boards, and who is on them."""
    raw = json.loads((case / "coefficients.json").read_text(encoding="utf-8"))
    contributor, reviewer = raw["contributor"], raw["reviewer"]
    heard = read_community_boards(
        InputTables(
            opinions=_table(case / "reviews.csv", {"prompt_id": "item_id", "user_id": "reviewer"}),
            users=_table(case / "users.csv", {"id": "user_id", "has_affiliation": "affiliated"}),
            items=_table(case / "prompts.csv", {"id": "item_id", "creator_id": "contributor"}),
        ),
        CommunityBoardOptions(literal=True),
        Coefficients(
            affiliation_bonus_points=contributor["affiliationBonusPoints"],
            min_reviews_for_quality=contributor["minReviewsForQuality"],
            min_reviews_required=reviewer["minReviewsRequired"],
            quality_weight=contributor["qualityWeight"],
            reputation_weight=contributor["reputationWeight"],
            reputation_cap=contributor["reputationCap"],
        ),
    )
    yield _compared(
        f"{case.name}: contributors",
        {row["contributor"]: row for row in heard.contributors().rows},
        json.loads((case / "expected_contributors.json").read_text(encoding="utf-8")),
        {
            "total_score": "totalScore",
            "quality_score": "qualityScore",
            "affiliation_bonus": "affiliationBonus",
            "items": "promptCount",
        },
    )
    yield _compared(
        f"{case.name}: reviewers",
        {row["reviewer"]: row for row in heard.reviewers().rows},
        json.loads((case / "expected_reviewers.json").read_text(encoding="utf-8")),
        {"pearson": "pearsonCorrelation", "qualifying": "reviewCount"},
    )


def _table(path: Path, renamed: dict[str, str]) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return [
            {renamed.get(name, name): value for name, value in row.items()}
            for row in csv.DictReader(file)
        ]


def _compared(
    what: str,
    ours: dict[str, dict[str, Any]],
    theirs: list[dict[str, Any]],
    columns: dict[str, str],
) -> Check:
    if set(ours) != {row["userId"] for row in theirs}:
        return Check(what, sorted(ours), sorted(row["userId"] for row in theirs), False)
    gaps = [
        abs(float(ours[row["userId"]][mine]) - float(row[their]))
        for row in theirs
        for mine, their in columns.items()
    ]
    worst = max(gaps, default=0.0)
    return Check(
        what, f"worst difference {worst:.1e}", f"at most {TOLERANCE:g}", worst <= TOLERANCE
    )


# -- crowds with a truth ----------------------------------------------------------------------


def crowd(path: Path, name: str) -> Iterator[Check]:
    """Errors of the majority and of opinions weighted once by the reviewer's score.

    A tie is half an error; a score below zero weighs nothing.
    """
    import duckdb
    import numpy as np

    found = duckdb.read_parquet(str(path)).project("item_id, truth_opinion").distinct()
    truth_by_item = {str(item): truth for item, truth in found.fetchall()}
    heard = CommunityBoards(read_tables(DuckDB(), str(path)))
    community = heard.community
    truth = np.array([truth_by_item[item] for item in community.items], dtype=np.float64)

    def error(quality: Any) -> float:
        side = np.sign(np.round(np.asarray(quality), 12))
        return float(np.where(side == 0.0, 0.5, side != truth).mean())

    score = np.maximum(np.nan_to_num(heard.alignment["pearson"]), 0.0)
    majority, weighted = CROWD[name]
    plain = error(heard.by_item.quality(1))

    def weighed(word: Any) -> Any:
        said = (community.item, community.level, community.n_items, community.scale)
        return item_sums(*said, word[community.reviewer])

    once = error(weighed(score).total)
    yield Check(f"{name}: majority", plain, majority, abs(plain - majority) < PRINTED)
    yield Check(f"{name}: weighted once", once, weighted, abs(once - weighted) < PRINTED)
    word = iterate(community)
    filtered = error(weighed(word.weight).quality(1))
    yield Check(f"{name}: iterated ({word.iterations} rounds)", filtered, "", None)
    yield Check(f"{name}: Dawid–Skene", error(dawid_skene(community).quality), "", None)
