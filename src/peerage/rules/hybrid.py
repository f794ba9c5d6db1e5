"""Hybrid: the Borda share blended with the mean score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from peerage.errors import UsageError
from peerage.rules import rule
from peerage.rules.borda import borda
from peerage.types import Placing, Value

HALF = Fraction(1, 2)
LOWEST, HIGHEST = 1, 10  # of a score; a failed gate caps scores at or slightly above 0


@rule("hybrid", unit="blend")
def hybrid(
    placings: Sequence[Placing], candidates: Sequence[str], *, alpha: Fraction = HALF
) -> Mapping[str, Value]:
    """Return an exact blend of the share of rivals beaten and the mean score.

    Formula: alpha·share + (1 - alpha)·(score - 1) / 9, where alpha = 1/2, share = that of `borda`,
        score = mean over the ballots that vote for the candidate and score it
    Ties: as in `borda`.
    Partial ballots: as in `borda`. A candidate without a score is left out, because a share alone
        is on another scale.
    Use it: when reviewers' scores are meaningful.
    Assumes: scores from 1 to 10 that mean the same to every reviewer; other scales are refused. A
        score that a failed gate capped below 1 counts as it is.
    Fooled by: harsh and generous reviewers, if not all reviewers score all candidates.
    """
    if not 0 <= alpha <= 1:
        raise UsageError(
            f"alpha must be from 0 to 1, not {alpha}.",
            hint="alpha is the weight of the share; the rest is the weight of the score.",
        )
    marks = [score for placing in placings for score in placing.scores.values()]
    if marks:
        check_scale(min(marks), max(marks))
    shares = borda(placings, candidates)
    score_by_name = _mean_scores(placings)
    return {
        name: alpha * share + (1 - alpha) * (score_by_name[name] - 1) / 9
        for name, share in shares.items()
        if name in score_by_name
    }


def check_scale(least: Fraction | float, most: Fraction | float) -> None:
    """Raise UsageError unless scores with this minimum and maximum are on the scale 1 to 10.

    Scores below 1 come from a failed gate, which gives all of them the same number. Different
    scores that are all below 1 are on a scale from 0 to 1.
    """
    if least >= 0 and most <= HIGHEST and not (least < most < LOWEST):
        return
    raise UsageError(
        f"hybrid needs scores from {LOWEST} to {HIGHEST}; these are from {float(least):g} to "
        f"{float(most):g}.",
        hint=f"Rescale the scores to {LOWEST} to {HIGHEST}, or use another rule, such as borda.",
    )


def _mean_scores(placings: Sequence[Placing]) -> dict[str, Fraction]:
    """Return each candidate's mean score over the ballots that both vote for it and score it."""
    scores: dict[str, list[Fraction]] = {}
    for placing in placings:
        for name in placing.doubled.keys() & placing.scores.keys():
            scores.setdefault(name, []).append(placing.scores[name])
    return {name: sum(marks, Fraction(0)) / len(marks) for name, marks in scores.items()}
