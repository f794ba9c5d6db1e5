"""From counted ballots to one total order of candidates, compared exactly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from peerage.council.counting import place
from peerage.types import (
    Confidence,
    Counted,
    OwnVotes,
    Placing,
    Rule,
    Score,
    Value,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CONFIDENCES: tuple[tuple[Fraction, Confidence], ...] = (
    (Fraction(4, 5), "high"),
    (Fraction(1, 2), "medium"),
)
MIN_VOTES_FOR_INTERVAL = 5  # below this a resampled interval promises more than it holds
INTERVAL_DRAWS = 2000


def tally(
    counted: Sequence[Counted],
    candidates: Sequence[str],
    rule: Rule,
    borda: Rule,
    own_votes: OwnVotes,
) -> tuple[Score, ...]:
    """Every candidate's score in order of rank; those equal up to their wins share one.

    The order is: passed the gate, has votes, value under the rule, wins, name. Shares are
    Borda's whatever the rule, so that results under different rules stay comparable.
    """
    n = len(candidates)
    placings = [p for ballot in counted if (p := place(ballot, own_votes, n)) is not None]
    shares = borda.values(placings, candidates)
    values = shares if rule.name == borda.name else rule.values(placings, candidates)
    votes = Counter(name for placing in placings for name in placing.doubled)
    wins = Counter(placing.first for placing in placings if placing.first is not None)
    possible = _possible_votes(counted, own_votes)
    failed = {name for ballot in counted for name in ballot.gated}
    intervals = _intervals(placings, candidates)
    means = _mean_scores(placings)
    sign = 1 if rule.lower_is_better else -1

    def standing(name: str) -> tuple[bool, bool, Value, int]:
        value = values.get(name)
        return name in failed, value is None, 0 if value is None else sign * value, -wins[name]

    scores: list[Score] = []
    for i, name in enumerate(sorted(candidates, key=lambda name: (*standing(name), name))):
        tied = scores and standing(name) == standing(scores[-1].model)
        share = shares.get(name, Fraction(0))
        low, high = intervals.get(name, (None, None))
        scores.append(
            Score(
                model=name,
                value=_value(values.get(name), votes[name]),
                rank=scores[-1].rank if tied else i + 1,
                votes=votes[name],
                wins=wins[name],
                confidence=_confidence(votes[name], possible[name], len(placings)),
                share=float(share),
                borda=float(share * (n - 1)),
                passed=name not in failed,
                low=low,
                high=high,
                mean_score=means.get(name),
            )
        )
    return tuple(scores)


def _value(value: Value | None, votes: int) -> float | None:
    """Nothing for a candidate without votes; None where the rule has no value for its votes."""
    if value is None:
        return None if votes else 0.0
    return float(value)


def _possible_votes(counted: Sequence[Counted], own_votes: OwnVotes) -> Counter[str]:
    """How many reviewers could have voted for each candidate, those who abstained included.

    A contestant in a pair has nobody to compare its rival with, so it could not.
    """
    possible: Counter[str] = Counter()
    for ballot in counted:
        eligible = set(ballot.shown)
        if own_votes != "in":
            eligible.discard(ballot.reviewer)
        if len(eligible) >= 2 or own_votes == "seed":
            possible.update(eligible)
    return possible


def _confidence(votes: int, possible: int, n_ballots: int) -> Confidence:
    """How much of the possible vote was cast; one ballot alone is never more than low."""
    if n_ballots <= 1 or not possible:
        return "low"
    coverage = Fraction(votes, possible)
    return next((name for least, name in CONFIDENCES if coverage >= least), "low")


def _mean_scores(placings: Sequence[Placing]) -> dict[str, float]:
    """The mean score each candidate was given, own scores already out where they do not count."""
    given: dict[str, list[Fraction]] = {}
    for placing in placings:
        for name, score in placing.scores.items():
            given.setdefault(name, []).append(score)
    return {name: float(sum(scores) / len(scores)) for name, scores in given.items()}


def _intervals(
    placings: Sequence[Placing], candidates: Sequence[str]
) -> Mapping[str, tuple[float, float]]:
    """A 95% interval of each share by resampling ballots, for those with votes enough."""
    if len(placings) < MIN_VOTES_FOR_INTERVAL:
        return {}
    import numpy as np

    index = {name: i for i, name in enumerate(candidates)}
    shares = np.zeros((len(placings), len(candidates)))
    voted = np.zeros_like(shares)
    for row, placing in enumerate(placings):
        top = 2 * (placing.n - 1)
        for name, doubled in placing.doubled.items():
            shares[row, index[name]] = (top - doubled) / top
            voted[row, index[name]] = 1
    weights = _draws(len(placings))
    counts = weights @ voted
    sums = weights @ shares
    intervals = {}
    for name, column in index.items():
        if voted[:, column].sum() < MIN_VOTES_FOR_INTERVAL:
            continue
        drawn = counts[:, column] > 0
        low, high = np.quantile(sums[drawn, column] / counts[drawn, column], [0.025, 0.975])
        intervals[name] = (round(float(low), 6), round(float(high), 6))
    return intervals


@lru_cache(maxsize=64)
def _draws(n: int) -> NDArray[np.float64]:
    """How often each of n ballots is drawn; the draws depend on the panel's size alone."""
    import numpy as np

    rng = np.random.Generator(np.random.PCG64(n))
    return rng.multinomial(n, np.full(n, 1 / n), size=INTERVAL_DRAWS).astype(float)
