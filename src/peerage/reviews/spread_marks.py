"""Marks put on one spread: each reviewer's deviations from its ballots, over its own spread.

The letters are those of the rule `marks`, which scores one session by the same formula.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from peerage.reviews.cells import Bools, Floats, Ints, dense, group
from peerage.reviews.rows import Rows, ballot_codes

PRIOR = 4.0  # answers by which a reviewer's spread is drawn towards the panel's


class SessionMarks(NamedTuple):
    """The value of each answer of each session that has marks."""

    session: Ints
    candidate: Ints
    value: Floats


def session_marks(rows: Rows, counts: Bools) -> SessionMarks:
    """Return each answer's mean standardised mark in its session, from the rows that count.

    A reviewer's spread is that of all its ballots here, drawn towards the panel's. If a ballot of a
    session lacks answers of others, the session's values are fitted by least squares.
    """
    mark = rows.number("score")
    used = counts & np.isfinite(mark)
    ballots = group(*((codes[used], n) for codes, n in ballot_codes(rows)))
    mark, reviewer = mark[used], rows.reviewer[used]
    n = np.bincount(ballots.code, minlength=ballots.n).astype(np.float64)
    mean = np.bincount(ballots.code, mark, minlength=ballots.n) / np.maximum(n, 1.0)
    centred = mark - mean[ballots.code]
    spread = reviewer_spreads(centred, reviewer, ballots.code, len(rows.names))
    is_flat = spread[reviewer] <= 0.0
    scaled = np.where(is_flat, 0.0, mark / np.where(is_flat, 1.0, spread[reviewer]))
    session, candidate = rows.session[used], rows.candidate[used]
    answers = group((session, rows.n_sessions), (candidate, len(rows.names)))
    scaled_mean = np.bincount(ballots.code, scaled, minlength=ballots.n) / np.maximum(n, 1.0)
    total = np.bincount(answers.code, scaled - scaled_mean[ballots.code], minlength=answers.n)
    value = total / np.bincount(answers.code, minlength=answers.n)
    session_of, candidate_of = answers.first(session), answers.first(candidate)
    for some in _incomplete(rows, session, ballots.code, reviewer, candidate):
        there = session == some
        names, at = np.unique(candidate[there], return_inverse=True)
        value_of = fit_answers(scaled[there], ballots.code[there], at, len(names))
        place = np.flatnonzero(session_of == some)
        order = np.argsort(candidate_of[place])
        value[place[order]] = value_of
    return SessionMarks(session_of, candidate_of, value)


def reviewer_spreads(centred: Floats, reviewer: Ints, ballot: Ints, n_names: int) -> Floats:
    """Return each reviewer's spread s of marks within ballots, drawn towards the panel's.

    s² = (4·P² + SS) / (4 + df), P² the mean of SS/df over the reviewers with df > 0.
    """
    squares = np.bincount(reviewer, centred**2, minlength=n_names)
    _, first = np.unique(ballot, return_index=True)
    df = np.bincount(reviewer, minlength=n_names) - np.bincount(reviewer[first], minlength=n_names)
    known = df > 0
    panel = float((squares[known] / df[known]).mean()) if known.any() else 0.0
    panel = panel if panel > FLAT else 0.0
    spread: Floats = np.sqrt((PRIOR * panel + np.where(known, squares, 0.0)) / (PRIOR + df))
    return spread if panel else np.zeros(n_names)


FLAT = 1e-18  # squares of marks that differ by rounding alone


def fit_answers(scaled: Floats, ballot: Ints, answer: Ints, n_answers: int) -> Floats:
    """Return q, summing to 0, that fits mark/s = level of the ballot + q best (least squares)."""
    codes, n_ballots = dense(ballot)
    design = np.zeros((len(scaled), n_ballots + n_answers))
    rows = np.arange(len(scaled))
    design[rows, codes] = design[rows, n_ballots + answer] = 1.0
    fitted = np.linalg.lstsq(design, scaled, rcond=None)[0]
    q: Floats = fitted[n_ballots:] - fitted[n_ballots:].mean()
    return q


def _incomplete(
    rows: Rows, session: Ints, ballot: Ints, reviewer: Ints, candidate: Ints
) -> list[int]:
    """Return the sessions in which a ballot lacks an answer that its reviewer did not write."""
    answers = group((session, rows.n_sessions), (candidate, len(rows.names)))
    n_answers = np.bincount(answers.first(session), minlength=rows.n_sessions)
    key = answers.first(session) * len(rows.names) + answers.first(candidate)
    ballots, first = np.unique(ballot, return_index=True)
    own = session[first] * len(rows.names) + reviewer[first]
    n_own = np.isin(own, key) & ~np.isin(ballots, ballot[reviewer == candidate])
    n_marked = np.bincount(ballot, minlength=len(ballots))[ballots]
    lacks = n_marked < n_answers[session[first]] - n_own
    return np.unique(session[first][lacks]).tolist()
