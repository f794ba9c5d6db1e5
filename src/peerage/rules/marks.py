"""Marks: the mean of marks, each reviewer's on its own spread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import fsum, sqrt

from peerage.errors import UsageError, few
from peerage.rules import rule
from peerage.types import Placing

PRIOR = 4  # answers by which a reviewer's spread is drawn towards the panel's


@rule("marks", unit="spreads")
def marks(
    placings: Sequence[Placing],
    candidates: Sequence[str],  # noqa: ARG001 - the parameters of every rule
) -> Mapping[str, float]:
    """Return each candidate's mean mark above the mean of its ballots, in spreads of the reviewer.

    Formula: the mean over reviewers of (mark - the reviewer's mean on the ballot) / s, where s² =
        (4·P² + SS) / (4 + df), SS and df are the squares around the means of the reviewer's ballots
        and their degrees of freedom, and P² is the mean of SS / df over the panel
    Ties: candidates with equal values. If no reviewer tells any answers apart, all tie.
    Partial ballots: if a ballot lacks an answer of another author, levels of ballots and values of
        candidates are fitted together by least squares. A ballot without marks does not count in a
        running session, and is refused in a file, a replay and a board.
    Use it: when reviewers are noisy and mark on a scale. Four judges were right in 88.4% of 1,729
        items by marks and in 86.4% by Borda. Borda is better when ranks are clear.
    Assumes: that a point of a reviewer means the same anywhere on its scale.
    Fooled by: a reviewer that uses marks to exaggerate, though less than a plain mean: its spread
        divides its marks.
    """
    marked = [(placing.reviewer, scores) for placing in placings if (scores := _marks_of(placing))]
    squares: dict[str, Fraction] = {}  # exact, so that the order of ballots changes nothing
    freedom: dict[str, int] = {}
    for reviewer, scores in marked:
        mean = sum(scores.values()) / Fraction(len(scores))
        around = sum(((score - mean) ** 2 for score in scores.values()), Fraction(0))
        squares[reviewer] = squares.get(reviewer, Fraction(0)) + around
        freedom[reviewer] = freedom.get(reviewer, 0) + len(scores) - 1
    spreads = [squares[name] / df for name, df in freedom.items() if df > 0]
    if not any(spreads):
        return {name: 0.0 for _, scores in marked for name in scores}
    panel = sum(spreads) / len(spreads)
    spread = {
        name: sqrt((PRIOR * panel + squares[name]) / (PRIOR + df)) for name, df in freedom.items()
    }
    return _values(
        [
            (reviewer, {name: float(score) / spread[reviewer] for name, score in scores.items()})
            for reviewer, scores in marked
        ]
    )


def _marks_of(placing: Placing) -> dict[str, Fraction]:
    """Return the marks of the candidates that a ballot votes for."""
    return {name: score for name, score in placing.scores.items() if name in placing.doubled}


def _values(scaled: Sequence[tuple[str, Mapping[str, float]]]) -> dict[str, float]:
    """Return the value of each answer from ballots of standardised marks."""
    answers = {name for _, ballot in scaled for name in ballot}
    if any(answers - {reviewer} - ballot.keys() for reviewer, ballot in scaled):
        return _fit(sorted(sorted(ballot.items()) for _, ballot in scaled), sorted(answers))
    above: dict[str, list[float]] = {}
    for _, ballot in scaled:
        mean = fsum(ballot.values()) / len(ballot)
        for name, mark in ballot.items():
            above.setdefault(name, []).append(mark - mean)
    return {name: fsum(ones) / len(ones) for name, ones in above.items()}


def _fit(ballots: Sequence[Sequence[tuple[str, float]]], names: Sequence[str]) -> dict[str, float]:
    """Return values, summing to 0, that fit the ballots' marks best, next to a level for each."""
    import numpy as np

    from peerage.reviews.spread_marks import fit_answers

    at = {name: i for i, name in enumerate(names)}
    cells = [(mark, i, at[name]) for i, ballot in enumerate(ballots) for name, mark in ballot]
    scaled, number, answer = (np.array(column) for column in zip(*cells, strict=True))
    values = fit_answers(scaled, number.astype(np.int64), answer.astype(np.int64), len(names))
    return dict(zip(names, values.tolist(), strict=True))


def refuse_without_marks(reviewers: Sequence[str]) -> None:
    """Raise UsageError for reviewers whose ballots have no marks."""
    if reviewers:
        raise UsageError(
            f"the rule marks needs a mark for each answer, and ballots of these reviewers have "
            f"none: {few(reviewers)}.",
            hint="Use --rule borda, or leave these reviewers out.",
        )
