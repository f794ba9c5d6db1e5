"""The board of models corrected by people: judges' shares, people's shares, and both combined.

People review a few queries and judges review all of them. If the queries that people reviewed were
drawn at random, or are all queries, the judges' bias can be measured on them and removed from the
other queries (see `stats/corrected_means.py`). Every value is a mean over queries: several sessions
of one query are one observation. Where models met different rivals, all three are shares on common
rivals (see `rival_shares.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from peerage.boards.common_cells import PairCells
from peerage.boards.models import Estimates, plain, rank_ranges, rare_ends, standing
from peerage.boards.people_sample import check_sample
from peerage.boards.rival_shares import RivalShares, rival_shares
from peerage.reviews.cells import Floats, Ints
from peerage.reviews.gold import DECISIONS
from peerage.reviews.judge_shares import JudgeShares, gather_proxies, row_means
from peerage.stats.clusters import t_halves
from peerage.stats.corrected_means import CorrectedMeans, corrected_means, labels_needed

MIN_CLUSTERS = 20  # queries that people reviewed; with fewer, nothing is corrected
MIN_OF_MODEL = 10  # of these queries must have a model, or its share is not corrected
MAX_PROXIES = 16  # judges with a weight of their own; the rest count as one
FLAT = 1e-12
DECIDED = "Decisions on which answers are correct count as one person."
DRAWN = "The corrected shares assume that these queries were drawn at random."
ASSUMPTION = "the queries that people reviewed were drawn at random, or are all queries"


@dataclass(frozen=True, slots=True)
class PeopleBoard:
    """Columns by model, in the order of `models`, and notes for the reader."""

    models: tuple[str, ...]
    columns: dict[str, list[Any]]
    notes: dict[str, Any]


def build_people_board(
    shares: JudgeShares, people: Collection[str], cells: PairCells | None = None
) -> PeopleBoard:
    """Return judges', people's and corrected shares of each model, with 95% intervals.

    With `cells`, the pairs of models by query, shares are on common rivals.
    """
    common = None if cells is None else rival_shares(shares, cells, people)
    if common is not None:
        shares = common.shares
    is_person = np.array([name in people for name in shares.reviewers], dtype=bool)
    labels = row_means(shares.share[:, is_person])
    judges, _ = gather_proxies(shares.share[:, ~is_person], MAX_PROXIES)
    panel = row_means(shares.share[:, ~is_person])
    n_groups, folds = len(shares.models), shares.folds
    alone = np.zeros((len(labels), 0))
    by_judges = corrected_means(shares.unit, shares.model, alone, panel, folds, n_groups)
    by_people = corrected_means(shares.unit, shares.model, alone, labels, folds, n_groups)
    errors: Floats | None = None
    if common is not None:
        errors = _errors_of_board(common, by_judges)
        by_judges = replace(
            _with_errors(by_judges, errors),
            value=np.where(np.isfinite(common.value), common.value, by_judges.value),
        )
        by_people = _with_errors(by_people, errors)
    columns = _shown("judges", _estimates(by_judges, shares, panel))
    columns |= _shown("people", _estimates(by_people, shares, labels))
    n_queries = len(np.unique(shares.unit[np.isfinite(labels)]))
    notes: dict[str, Any] = {
        "people": sorted(set(people) & set(shares.reviewers)),
        "queries_with_people": n_queries,
        "queries": len(np.unique(shares.unit)),
        "assumption": ASSUMPTION,
        "not_random": None,
        "corrected": False,
    }
    nothing = [None] * n_groups
    columns |= {f"corrected{end}": nothing for end in ("", "_low", "_high", *RANKS)}
    columns["people_queries"] = by_people.n_labelled.tolist()
    if n_queries >= MIN_CLUSTERS and judges.shape[1]:
        both = corrected_means(shares.unit, shares.model, judges, labels, folds, n_groups)
        both = both if errors is None else _with_errors(both, errors)
        estimates = _estimates(both, shares, labels, by_people)
        columns |= _shown("corrected", estimates) | _ranks(estimates, shares.models)
        notes |= {"corrected": True} | _worth(both, by_people, n_queries)
        warning = check_sample(shares, np.isfinite(labels), shares.share[:, ~is_person])
        notes["not_random"] = None if warning is None else warning.sentence
    decided = f" {DECIDED}" if DECISIONS in notes["people"] else ""
    warned = "" if notes["not_random"] is None else f" {notes['not_random']}"
    notes["note"] = _note(notes, judges.shape[1] > 0) + warned + decided
    return PeopleBoard(shares.models, columns, notes)


RANKS = ("_rank", "_rank_low", "_rank_high")


def _errors_of_board(common: RivalShares, by_judges: CorrectedMeans) -> Floats:
    """Return what the board of judges adds to the influences of all shares that refer to it."""
    n = len(by_judges.influences)
    return np.where(np.isfinite(common.value), common.influences[:n] - by_judges.influences, 0.0)


def _with_errors(means: CorrectedMeans, errors: Floats) -> CorrectedMeans:
    """Return means with further influences of the same queries."""
    influences = means.influences + errors
    n = means.n_labelled
    half = t_halves(np.sqrt((influences**2).sum(axis=0)), np.maximum(n - 1.0, 1.0), 0.95)
    return replace(means, influences=influences, half=np.where(n > 1, half, np.nan))


def _estimates(
    means: CorrectedMeans, shares: JudgeShares, labels: Floats, alone: CorrectedMeans | None = None
) -> Estimates:
    """Return means as estimates; a model with equal labels on all queries has another interval.

    Such labels show no spread, so its interval allows for rare exceptions, and the judges cannot
    narrow it. The corrected share of a model with too few labels is undefined.
    """
    value, half = means.value.copy(), means.half
    low, high = value - half, value + half
    n = means.n_labelled
    spread = np.zeros(len(n))
    for one in range(len(n)):
        own = labels[(shares.model == one) & np.isfinite(labels)]
        spread[one] = np.ptp(own) if len(own) else 0.0
    alike = (n > 1) & ~(spread > FLAT)
    if alone is not None:
        value = np.where(alike, alone.value, value)
        enough = n >= MIN_OF_MODEL
        value, low, high = (np.where(enough, column, np.nan) for column in (value, low, high))
    rare_low, rare_high = rare_ends(value, n, (0.0, 1.0))
    low, high = np.where(alike, rare_low, low), np.where(alike, rare_high, high)
    return Estimates(
        np.clip(value, 0.0, 1.0),
        np.maximum(low, 0.0),
        np.minimum(high, 1.0),
        influences=means.influences,
        n_clusters=n.astype(np.int64),
    )


def _shown(name: str, one: Estimates) -> dict[str, list[Any]]:
    values = {name: one.value, f"{name}_low": one.low, f"{name}_high": one.high}
    return {key: [plain(value) for value in column.tolist()] for key, column in values.items()}


def _ranks(estimates: Estimates, models: Sequence[str]) -> dict[str, list[Any]]:
    """Return the rank of each model by its corrected share, and its simultaneous range."""
    _, rank = standing(estimates.value, np.zeros(len(models)), models)
    low, high, _ = rank_ranges(estimates, np.zeros(len(models), dtype=bool))
    columns = [rank.get(i) for i in range(len(models))], low.tolist(), high.tolist()
    return {
        f"corrected{end}": [place or None for place in places]
        for end, places in zip(RANKS, columns, strict=True)
    }


def _worth(both: CorrectedMeans, alone: CorrectedMeans, n_queries: int) -> dict[str, Any]:
    """Return the judges' correlation with people, and how many labels the judges are worth."""
    there = both.n_labelled >= MIN_OF_MODEL
    half, half_alone = (float(np.median(one.half[there])) for one in (both, alone))
    r = both.correlation
    share = _typical(both.n_others / np.maximum(both.n_others + both.n_labelled, 1), there)
    worth = None if r is None else n_queries / max(1.0 - max(r, 0.0) ** 2 * share, 1e-9)
    group = int(np.flatnonzero(there)[np.argsort(both.half[there])[int(there.sum()) // 2]])
    target = float(both.half[group]) / 2.0
    needed = labels_needed(both, group, target)
    per_query = n_queries / max(float(both.n_labelled[group]), 1.0)
    more = None if needed is None else round((needed - int(both.n_labelled[group])) * per_query)
    return {
        "correlation": None if r is None else plain(r),
        "weights": [plain(weight) for weight in both.weights.tolist()],
        "half_width": plain(half),
        "half_width_people_alone": plain(half_alone),
        "worth_queries": None if worth is None else round(worth),
        "more_queries": more,
        "more_half_width": plain(target),
    }


def _typical(values: Floats | Ints, there: Any) -> float:
    return float(np.median(np.asarray(values, dtype=np.float64)[there])) if there.any() else 0.0


def _note(notes: dict[str, Any], has_judges: bool) -> str:
    n = notes["queries_with_people"]
    queries = "1 query" if n == 1 else f"{n} queries"
    if not n:
        return "no query has a review by a person, so the judges cannot be corrected."
    if not has_judges:
        return f"people reviewed {queries} and no judge did: the board shows people's shares only."
    if not notes["corrected"]:
        return (
            f"people reviewed {queries}; below {MIN_CLUSTERS} nothing is corrected, and the "
            "board shows people's shares only."
        )
    if n == notes["queries"]:
        return f"people reviewed all {queries}: the corrected share is the people's own."
    words = f"people reviewed {n} of {notes['queries']} queries"
    if notes["correlation"] is not None and notes["worth_queries"] is not None:
        words += (
            f"; with the judges (r = {notes['correlation']:.2f}) they count as "
            f"{notes['worth_queries']}"
        )
    if notes["more_queries"] is None:
        return f"{words}. More sessions are needed to halve ±{notes['half_width']:.3f}. {DRAWN}"
    return (
        f"{words}. {notes['more_queries']} more queries reviewed by people would give "
        f"±{notes['more_half_width']:.3f} in place of ±{notes['half_width']:.3f}. {DRAWN}"
    )
