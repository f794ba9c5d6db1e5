"""One model among the stored reviews: its marks, its best and worst sessions, and its duels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from peerage.reports.what_if import HeldRows
from peerage.reviews.columns import MARK
from peerage.reviews.rows import Floats


@dataclass(frozen=True, slots=True)
class SessionShare:
    """How a model did in one session: the share of rivals beaten, over so many ballots."""

    session_id: str
    share: float
    n: int


@dataclass(frozen=True, slots=True)
class MarkMean:
    """A model's mean mark in one dimension, beside the mean of all models."""

    dimension: str
    mean: float
    everyone: float
    n: int


def sessions_of(held: HeldRows, model: str) -> list[SessionShare]:
    """A model's sessions, the best first; its own votes are left out."""
    rows = held.rows
    if model not in rows.names:
        return []
    code = rows.names.index(model)
    ballot = _ballots(held)
    rank = rows.numbers.get("rank", np.full(rows.n, np.nan))
    n_shown = np.bincount(ballot)[ballot]
    mine = (rows.candidate == code) & (rows.reviewer != code) & ~np.isnan(rank) & (n_shown > 1)
    share = (n_shown[mine] - rank[mine]) / (n_shown[mine] - 1)
    session, place = np.unique(rows.session[mine], return_inverse=True)
    n = np.bincount(place)
    means = np.bincount(place, share) / np.maximum(n, 1)
    found = [
        SessionShare(held.sessions[i], float(mean), int(count))
        for i, mean, count in zip(session.tolist(), means, n, strict=True)
    ]
    return sorted(found, key=lambda one: (-one.share, one.session_id))


def sessions_judged_by(held: HeldRows, reviewer: str) -> list[str]:
    """The sessions that somebody reviewed."""
    rows = held.rows
    if reviewer not in rows.names:
        return []
    found = np.unique(rows.session[rows.reviewer == rows.names.index(reviewer)])
    return [held.sessions[i] for i in found.tolist()]


def marks_of(held: HeldRows, model: str) -> list[MarkMean]:
    """A model's mean marks by dimension, given by others."""
    rows = held.rows
    if model not in rows.names:
        return []
    code = rows.names.index(model)
    others = rows.reviewer != rows.candidate
    means = []
    for name, values in rows.numbers.items():
        if not name.startswith(MARK):
            continue
        known = others & ~np.isnan(values)
        mine = known & (rows.candidate == code)
        if mine.any():
            mean, everyone = float(values[mine].mean()), float(values[known].mean())
            n = int(np.count_nonzero(mine))
            means.append(MarkMean(name.removeprefix(MARK), mean, everyone, n))
    return means


def duels(held: HeldRows, a: str, b: str) -> list[SessionShare]:
    """The sessions in which two models met: how often `a` stands above `b`, clearest first."""
    rows = held.rows
    if a not in rows.names or b not in rows.names:
        return []
    first, second = rows.names.index(a), rows.names.index(b)
    ballot = _ballots(held)
    rank = rows.numbers.get("rank", np.full(rows.n, np.nan))
    ranks = []
    n_ballots = int(ballot.max(initial=-1)) + 1
    for code in (first, second):
        by_ballot = np.full(n_ballots, np.nan)
        mine = (rows.candidate == code) & ~np.isin(rows.reviewer, (first, second))
        by_ballot[ballot[mine]] = rank[mine]
        ranks.append(by_ballot)
    session = np.zeros(n_ballots, dtype=np.int64)
    session[ballot] = rows.session
    met = ~np.isnan(ranks[0]) & ~np.isnan(ranks[1])
    above: Floats = np.where(ranks[0] < ranks[1], 1.0, np.where(ranks[0] > ranks[1], 0.0, 0.5))
    kept, place = np.unique(session[met], return_inverse=True)
    n = np.bincount(place)
    means = np.bincount(place, above[met]) / np.maximum(n, 1)
    found = [
        SessionShare(held.sessions[i], float(mean), int(count))
        for i, mean, count in zip(kept.tolist(), means, n, strict=True)
    ]
    return sorted(found, key=lambda one: (-abs(one.share - 0.5), -one.share, one.session_id))


def _ballots(held: HeldRows) -> NDArray[np.int64]:
    """A number for each ballot: one reviewer in one session, the rounds together."""
    rows = held.rows
    keys = rows.session * len(rows.names) + rows.reviewer
    number = np.nan_to_num(rows.numbers.get("round", np.zeros(rows.n))).astype(np.int64)
    keys = keys * (int(number.max(initial=0)) + 1) + number
    code: NDArray[np.int64] = np.unique(keys, return_inverse=True)[1].astype(np.int64)
    return code
