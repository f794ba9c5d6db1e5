"""Other rules from the same ballots: head to head, Bradley–Terry, and rules that take ballots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerage.boards.model_sums import WINS, Plan, Sums
from peerage.boards.models import DECIMALS, Estimates, Valued, influence_interval, means, standing
from peerage.boards.session_blocks import by_session, candidates_by_session, slices_of
from peerage.errors import UsageError
from peerage.reviews.rows import Floats
from peerage.reviews.votes import votes
from peerage.rules import rules
from peerage.rules.bradley_terry import CENTRE, SCALE, covariance, strengths
from peerage.rules.pairwise import level
from peerage.standings.table import Table
from peerage.standings.terms import MEANS
from peerage.types import Placing

COMPARED = ("borda", "bradley_terry", "elo", "mean_rank", "hybrid", "copeland", "schulze")
MAX_PLACED_ROWS = 500_000  # for rules that read one ballot after another


def valued(table: Table, plan: Plan, sums: Sums) -> Valued | None:
    """The values of a rule that is no mean over sessions; None for one that is."""
    name = table.asked.rule
    if name in MEANS:
        return None
    if name == "bradley_terry":
        return Valued(_ratings(table, plan, sums))
    if table.reviews.n_rows > MAX_PLACED_ROWS:
        raise UsageError(
            f"{name} reads one ballot after another, and {table.reviews.n_rows} reviews are too "
            f"many for it ({MAX_PLACED_ROWS} at most).",
            hint="Use borda or bradley_terry, or a shorter window.",
        )
    rule = rules.get(name)
    nothing = np.full(len(table.models), np.nan)
    values = _by_ballots(table, plan, name)
    return Valued(Estimates(values, nothing, nothing), rule.lower_is_better)


def matrix(table: Table, sums: Sums, order: Sequence[str]) -> dict[str, Any]:
    """How often each model stands above each other on a ballot that ranks both.

    A tie is half. The diagonal, and pairs that never met, are None.
    """
    assert sums.wins is not None and sums.ties is not None  # noqa: S101, PT018 — planned
    place = [table.models.index(name) for name in order]
    grid = np.ix_(place, place)
    wins, ties = sums.wins[0][grid], sums.ties[0][grid]
    n = wins + wins.T + ties
    rate = np.where(n > 0, (wins + ties / 2.0) / np.where(n > 0, n, 1.0), np.nan)
    return {
        "models": list(order),
        "above": [[_plain(x) for x in row] for row in rate.tolist()],
        "n": [[int(x) for x in row] for row in n.tolist()],
    }


def compared(table: Table, plan: Plan, sums: Sums) -> list[dict[str, Any]]:
    """Every rule's values and ranks; one that would have to read too many ballots says so."""
    found: list[dict[str, Any]] = []
    simple = means(sums)
    for name in COMPARED:
        rule = rules.get(name)
        head = {"rule": name, "unit": rule.unit, "lower_is_better": rule.lower_is_better}
        if name in simple:
            values = simple[name]
        elif name == "bradley_terry":
            values = _logs(sums)[0]
        elif table.reviews.n_rows > MAX_PLACED_ROWS:
            found.append({**head, "note": "too many ballots to read one after another", "rows": []})
            continue
        else:
            values = _by_ballots(table, plan, name)
        order, rank = standing(
            values, sums.by_model[0, :, WINS], table.models, rule.lower_is_better
        )
        rows = [
            {"model": table.models[i], "value": _plain(float(values[i])), "rank": rank[i]}
            for i in order
            if np.isfinite(values[i])
        ]
        found.append({**head, "rows": rows})
    return found


def _plain(value: float) -> float | None:
    return round(value, DECIMALS) if np.isfinite(value) else None


# -- Bradley–Terry -----------------------------------------------------------------------------


def _points(sums: Sums) -> tuple[Floats, NDArray[np.intp]]:
    """Points of the models that met anyone (ties as halves), and which those are."""
    assert sums.wins is not None and sums.ties is not None  # noqa: S101, PT018 — planned
    points = sums.wins[0] + sums.ties[0] / 2.0
    met = np.flatnonzero((points + points.T).any(axis=0))
    return points[np.ix_(met, met)], met


def _logs(sums: Sums) -> tuple[Floats, Floats]:
    """Ratings by model, NaN for who met no one, and the log strengths behind them."""
    points, met = _points(sums)
    ratings, logs = np.full(sums.by_model.shape[1], np.nan), np.zeros(sums.by_model.shape[1])
    logs[met] = strengths(points)
    ratings[met] = level(CENTRE + SCALE * logs[met])
    return ratings, logs


def _ratings(table: Table, plan: Plan, sums: Sums) -> Estimates:
    """Ratings with intervals over sessions: each cluster's surprise, through the information.

    The sandwich estimator: comparisons read off one ballot, or of one session, are not
    independent, so the plain inverse information would promise too much.
    """
    ratings, logs = _logs(sums)
    points, met = _points(sums)
    again = table.sums(
        replace(plan, clustered=True, logs=logs, pairs=False, lengths=False, scores=False)
    )
    assert again.surprise is not None  # noqa: S101 — asked for just above
    influences = np.zeros((again.surprise.shape[0], len(ratings)))
    influences[:, met] = again.surprise[:, met] @ covariance(points, logs[met]) * SCALE
    low, high = influence_interval(ratings, influences)
    return Estimates(ratings, low, high, influences=influences)


# -- rules that take ballots -------------------------------------------------------------------


def _by_ballots(table: Table, plan: Plan, name: str) -> Floats:
    """A registered rule's values over all ballots of the window, in order of time."""
    placings = _placings(table, plan)
    found = rules.get(name).values(placings, table.models)
    return np.array([float(found.get(model, np.nan)) for model in table.models])


def _placings(table: Table, plan: Plan) -> list[Placing]:
    """Every ballot as rules take it: by time, then session, round and reviewer."""
    from peerage.reviews.rows import Rows

    wanted = ("session_id", "reviewer", "candidate", "rank", "score", "round", "at")
    have = [name for name in wanted if name in table.columns]
    found = table.engine.arrays(table.frame.select(*have))
    sessions, session = np.unique(found["session_id"].astype(str), return_inverse=True)
    code = {name: i for i, name in enumerate(table.names)}
    numbers = {name: found[name].astype(np.float64) for name in have[3:]}
    rows = Rows(
        names=table.names,
        n_clusters=1,
        cluster=np.zeros(len(sessions), dtype=np.int64),
        session=session,
        reviewer=np.array([code[name] for name in found["reviewer"].tolist()], dtype=np.int64),
        candidate=np.array([code[name] for name in found["candidate"].tolist()], dtype=np.int64),
        numbers=numbers,
    )
    return _placed(rows, plan, numbers.get("score"))


def _placed(rows: Any, plan: Plan, score: Floats | None) -> list[Placing]:
    cast = votes(rows, plan.own_votes, candidates_by_session(rows, plan))
    inside = slices_of(replace(plan, by_category=False, periods=None), rows)[rows.session] >= 0
    kept = np.flatnonzero(cast.counts & inside)
    at = np.zeros(len(rows.session))
    if "at" in rows.numbers:
        times = by_session(rows, rows.numbers["at"], np.fmax)
        at = np.where(np.isfinite(times), times, -np.inf)[rows.session]
    round_ = rows.numbers.get("round", at * 0.0)
    keys = (rows.candidate, rows.reviewer, round_, rows.session, at)
    order = kept[np.lexsort(tuple(key[kept] for key in keys))]
    ends = np.flatnonzero(np.diff(cast.ballot[order])) + 1
    placings = []
    for part in np.split(order, ends) if len(order) else []:
        doubled = {
            rows.names[who]: place
            for who, place in zip(
                rows.candidate[part].tolist(), cast.doubled[part].tolist(), strict=True
            )
        }
        first = next((name for name, place in doubled.items() if place == 0), None)
        scores = {} if score is None else _scores(rows.names, rows.candidate[part], score[part])
        reviewer = rows.names[int(rows.reviewer[part[0]])]
        placings.append(
            Placing(reviewer, int(cast.shown[cast.ballot[part[0]]]), doubled, first, scores)
        )
    return placings


def _scores(names: Sequence[str], who: NDArray[np.integer], score: Floats) -> dict[str, Fraction]:
    return {
        names[i]: Fraction(value).limit_denominator(1_000)
        for i, value in zip(who.tolist(), score.tolist(), strict=True)
        if np.isfinite(value)
    }
