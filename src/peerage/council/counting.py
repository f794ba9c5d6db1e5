"""Count reviews: replace labels by authors and compute places and scores.

Everything that decides an order is compared exactly.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING

from peerage.types import (
    Ballot,
    Confidence,
    Counted,
    MarkChances,
    OwnVotes,
    Placing,
    Review,
    Rubric,
    Rule,
    Score,
    ScoringOptions,
    Session,
    Value,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_REASON_CHARACTERS = 60  # of the reason of an abstention, in its flag

Tiers = tuple[tuple[str | None, ...], ...]


def count(
    ballot: Ballot,
    review: Review,
    rubric: Rubric | None = None,
    gated: frozenset[str] = frozenset(),
    cap: Fraction = Fraction(0),
    soft_votes: bool = True,
) -> Counted:
    """Count one review: places follow from marks if there are any, else from its ranking.

    With a rubric and accuracy marks, answers are ordered by overall score after ceilings and gate,
    and the reviewer's own ranking only breaks ties. Without them the ranking counts; scores are
    used if there is no ranking. Gated answers are last. The probabilities of a decision model make
    a soft vote, unless only its marks are to count.
    """
    flags = list(review.flags)
    if review.abstained:
        return Counted(
            review.reviewer,
            ballot.authors,
            (),
            gated,
            abstained=True,
            flags=(*flags, f"abstained:{review.abstained[:MAX_REASON_CHARACTERS]}"),
        )
    author_by_label = ballot.author_by_label
    ranking = tuple(tuple(author_by_label.get(name) for name in tier) for tier in review.ranking)
    scores = {
        author_by_label[name]: exact_mark(score)
        for name, score in review.scores.items()
        if name in author_by_label
    }
    by_marks = rubric is not None and any("accuracy" in m for m in review.marks.values())
    if by_marks and rubric is not None:
        scores, noted = _overall_by_author(ballot, review, rubric, scores)
        flags += noted
    elif rubric is not None:
        flags.append("no_rubric_score")
    scores = {name: min(score, cap) if name in gated else score for name, score in scores.items()}
    if _at_odds(ranking, scores):
        flags.append("rank_mark_mismatch" if by_marks else "rank_score_mismatch")
    if by_marks:
        ranking = _by_score(scores, ranking, gated)
    elif not any(name for tier in ranking for name in tier):
        ranking = _by_score(scores, (), gated)
        flags += ["ranking_from_scores"] if ranking else ["nothing_to_count"]
    chances = _overall_chances(ballot, review, rubric) if soft_votes and review.chances else {}
    return Counted(
        review.reviewer, ballot.authors, ranking, gated, scores, flags=tuple(flags), chances=chances
    )


def places(counted: Counted) -> dict[str, int]:
    """Return the place of each ranked candidate on a ballot: 1 is best, ties share a place."""
    place: dict[str, int] = {}
    for tier in counted.tiers:
        place |= dict.fromkeys(tier, len(place) + 1)
    return place


def _overall_by_author(
    ballot: Ballot, review: Review, rubric: Rubric, holistic: Mapping[str, Fraction]
) -> tuple[dict[str, Fraction], list[str]]:
    """Return overall scores by author, and flags; without accuracy the holistic score is used."""
    scores: dict[str, Fraction] = {}
    flags: list[str] = []
    weights = whole_weights(rubric)
    for slot in ballot.slots:
        marks = review.marks.get(slot.label, {})
        score = overall(marks, rubric, weights)
        if score is None:
            flags.append(f"no_accuracy:{slot.label}")
            score = holistic.get(slot.author)
        else:
            flags += [
                f"unmarked:{slot.label}.{name}" for name in rubric.weights if name not in marks
            ]
        if score is not None:
            scores[slot.author] = score
    return scores, flags


def tier_by_author(tiers: Iterable[Iterable[str | None]]) -> dict[str, int]:
    """Return the tier in which each author is first mentioned."""
    place: dict[str, int] = {}
    for i, tier in enumerate(tiers):
        for name in tier:
            if name is not None:
                place.setdefault(name, i)
    return place


def _at_odds(ranking: Tiers, scores: Mapping[str, Fraction]) -> bool:
    """Return whether a candidate is placed above another one that has a higher score."""
    scores_by_place: dict[int, list[Fraction]] = {}
    for name, at in tier_by_author(ranking).items():
        if name in scores:
            scores_by_place.setdefault(at, []).append(scores[name])
    lowest_above: Fraction | float = math.inf
    for at in sorted(scores_by_place):
        if max(scores_by_place[at]) > lowest_above:
            return True
        lowest_above = min(lowest_above, *scores_by_place[at])
    return False


def _by_score(scores: Mapping[str, Fraction], ranking: Tiers, gated: frozenset[str]) -> Tiers:
    """Return tiers from the highest score down; the reviewer's ranking breaks ties."""
    place = tier_by_author(ranking)
    unplaced = len(ranking)
    tiers: dict[tuple[bool, Fraction, int], list[str]] = {}
    for name, score in scores.items():
        tiers.setdefault((name in gated, -score, place.get(name, unplaced)), []).append(name)
    return tuple(tuple(sorted(tiers[key])) for key in sorted(tiers))


def place(counted: Counted, own_votes: OwnVotes, n_candidates: int) -> Placing | None:
    """Return the places of the candidates that a ballot votes for, or None if it has no vote.

    `out` closes the gap that the reviewer's own answer leaves, `in` keeps the answer like any
    other, and `place_kept` drops the vote but keeps its slot, as for unknown labels and repeats.
    Gated answers come after all that passed.
    """
    if counted.abstained:
        return None
    own = counted.reviewer
    dropped = set() if own_votes == "in" else {own}
    tiers, candidates, n = counted.ranking, set(counted.shown), n_candidates
    if own_votes != "place_kept":
        tiers = tuple(tuple(x for x in tier if x not in dropped) for tier in counted.tiers)
        candidates -= dropped
        n = len(candidates)
    passed = [tuple(name for name in tier if name not in counted.gated) for tier in tiers]
    failed = [tuple(name for name in tier if name in counted.gated) for tier in tiers]
    n_passed = max(sum(map(len, passed)), len(candidates - counted.gated))
    doubled = _double_places(passed, 0) | _double_places(failed, n_passed)
    first = next((name for name, at in doubled.items() if at == 0), None)
    doubled = {name: at for name, at in doubled.items() if name not in dropped}
    if n < 2 or not doubled:
        return None
    scores = {name: score for name, score in counted.overall.items() if name not in dropped}
    soft: Mapping[str, Fraction] = {}
    if counted.chances:
        rivals = candidates - dropped if own_votes == "out" else candidates
        soft = soft_shares(counted, doubled, rivals, n)
    return Placing(own, n, doubled, None if first in dropped else first, scores, soft)


def _double_places(tiers: Sequence[Sequence[str | None]], start: int) -> dict[str, int]:
    """Return twice the mean place of each tier's members, counting from `start`."""
    doubled: dict[str, int] = {}
    for tier in tiers:
        for name in tier:
            if name is not None:
                doubled.setdefault(name, 2 * start + len(tier) - 1)
        start += len(tier)
    return doubled


def has_vote(counted: Counted, own_votes: OwnVotes, n_candidates: int) -> bool:
    """Return whether a ballot votes: it ranks one of at least two answers that are not its own.

    The result is the same as whether `place` returns a placing, but faster.
    """
    if counted.abstained:
        return False
    own = None if own_votes == "in" else counted.reviewer
    n = n_candidates
    if own_votes != "place_kept":
        n = len(counted.shown) - (own in counted.shown)
    return n >= 2 and any(name not in (own, None) for tier in counted.ranking for name in tier)


# -- marks --------------------------------------------------------------------------------------


def exact_mark(mark: float) -> Fraction:
    """Return a mark as an exact decimal: 8.1 is 81/10, so that equal marks compare equal."""
    if isinstance(mark, int) or mark.is_integer():
        return Fraction(int(mark))
    return Fraction(repr(float(mark)))


def whole_weights(rubric: Rubric) -> dict[str, int]:
    """Return the weights as integers in the same proportions, for fast and exact sums."""
    bottom = math.lcm(*(weight.denominator for weight in rubric.weights.values()))
    return {name: int(weight * bottom) for name, weight in rubric.weights.items()}


def overall(
    marks: Mapping[str, float], rubric: Rubric, weights: Mapping[str, int] | None = None
) -> Fraction | None:
    """Return the weighted mean, limited by the accuracy ceilings; None without an accuracy mark.

    The weights of the dimensions that were marked are rescaled to one. A reviewer's own arithmetic
    is not used. To score many answers, pass `whole_weights`.
    """
    accuracy = marks.get("accuracy")
    if accuracy is None:
        return None
    top: int | Fraction = 0
    bottom = 0
    for name, weight in (weights or whole_weights(rubric)).items():
        mark = marks.get(name)
        if mark is not None:
            whole = isinstance(mark, int) or mark.is_integer()
            top += weight * (int(mark) if whole else exact_mark(mark))
            bottom += weight
    mean = Fraction(top, bottom)
    return min([mean, *(cap for below, cap in rubric.ceilings if accuracy < below)])


# -- soft votes ---------------------------------------------------------------------------------

MAX_SUMS = 20_000  # different sums of marks; if there are more, they are rounded to 0.001
SHARE_DIGITS = 10**12  # shares are rounded to 1/10^12, so that equal answers stay equal


def _overall_chances(
    ballot: Ballot, review: Review, rubric: Rubric | None
) -> dict[str, Mapping[Fraction, float]]:
    """Return the possible overall marks of each author, with their probabilities."""
    chances: dict[str, Mapping[Fraction, float]] = {}
    for slot in ballot.slots:
        by_dimension = review.chances.get(slot.label, {})
        if rubric is not None and "accuracy" in by_dimension:
            chances[slot.author] = overall_chances(by_dimension, rubric)
        elif "" in by_dimension:
            chances[slot.author] = dict(_outcomes(by_dimension[""]))
    return chances


def _outcomes(mark: MarkChances) -> list[tuple[Fraction, float]]:
    """Return the levels of a mark with their probabilities, which sum to one."""
    total = math.fsum(mark.probabilities)
    pairs = zip(mark.levels, mark.probabilities, strict=True)
    return [(exact_mark(level), chance / total) for level, chance in pairs]


def overall_chances(
    by_dimension: Mapping[str, MarkChances], rubric: Rubric
) -> Mapping[Fraction, float]:
    """Return the probability of each overall mark, assuming that dimensions are independent.

    Each possible mark of accuracy applies its own ceiling.
    """
    weights = {name: w for name, w in whole_weights(rubric).items() if name in by_dimension}
    bottom = sum(weights.values())
    others: dict[Fraction, float] = {Fraction(0): 1.0}
    for name, weight in weights.items():
        if name != "accuracy":
            others = _add_mark(others, weight, by_dimension[name])
    chances: defaultdict[Fraction, float] = defaultdict(float)
    for accuracy, chance in _outcomes(by_dimension["accuracy"]):
        most = min((cap for below, cap in rubric.ceilings if accuracy < below), default=None)
        for total, rest in others.items():
            mean = (total + weights["accuracy"] * accuracy) / bottom
            chances[mean if most is None else min(mean, most)] += chance * rest
    return chances


def _add_mark(
    sums: Mapping[Fraction, float], weight: int, mark: MarkChances
) -> dict[Fraction, float]:
    """Return the distribution of the weighted total after adding one more independent mark."""
    added: defaultdict[Fraction, float] = defaultdict(float)
    fine = len(sums) * len(mark.levels) <= MAX_SUMS
    for total, before in sums.items():
        for level, chance in _outcomes(mark):
            value = total + weight * level
            added[value if fine else Fraction(round(value * 1000), 1000)] += before * chance
    return dict(added)


def soft_shares(
    counted: Counted, voted: Iterable[str], rivals: Collection[str], n: int
) -> dict[str, Fraction]:
    """Return the mean probability that each candidate is above its rivals; a tie counts half.

    A rival that the ballot does not mark counts as below, and a rival that failed the gate as below
    all that passed.
    """
    sides = {
        failed: [name for name in counted.chances if (name in counted.gated) == failed]
        for failed in (False, True)
    }
    ladders = {
        failed: _ladder([counted.chances[name] for name in names if name in rivals])
        for failed, names in sides.items()
    }
    shares: dict[str, Fraction] = {}
    for name in voted:
        own, failed = counted.chances.get(name, {}), name in counted.gated
        marked = [rival for rival in sides[failed] if rival in rivals]
        passed = [rival for rival in rivals if rival not in counted.gated]
        above = n - 1 - (len(passed) if failed else 0) - len(marked) + (name in marked)
        expected = math.fsum(chance * ladders[failed](mark) for mark, chance in own.items())
        expected -= 0.5 if name in marked else 0.0  # its tie with itself
        shares[name] = Fraction(round((above + expected) * SHARE_DIGITS), SHARE_DIGITS * (n - 1))
    return shares


def soft_votes_of(counted: Counted) -> dict[str, float]:
    """Return the mean probability that each candidate beats its rivals, if it is known.

    The reviewer's own answer is compared with all others, but it does not count as their rival.
    """
    if not counted.chances:
        return {}
    own, everyone = counted.reviewer, set(counted.shown)
    shares: dict[str, Fraction] = {}
    for names, rivals in ((everyone - {own}, everyone - {own}), ({own}, everyone)):
        voted = names & counted.chances.keys()
        if voted and len(rivals) > 1:
            shares |= soft_shares(counted, voted, rivals, len(rivals))
    return {name: float(share) for name, share in shares.items()}


def _ladder(rivals: Sequence[Mapping[Fraction, float]]) -> Callable[[Fraction], float]:
    """Return a function from a mark to the expected number of rivals below; a tie counts half."""
    mass: defaultdict[Fraction, float] = defaultdict(float)
    for chances in rivals:
        for mark, chance in chances.items():
            mass[mark] += chance
    marks = sorted(mass)
    below = [0.0, *accumulate(mass[mark] for mark in marks)]

    def rivals_below(mark: Fraction) -> float:
        at = bisect_left(marks, mark)
        level = at < len(marks) and marks[at] == mark
        return below[at] + (mass[mark] / 2 if level else 0.0)

    return rivals_below


# -- from counted ballots to scores -----------------------------------------------------------

CONFIDENCES: tuple[tuple[Fraction, Confidence], ...] = (
    (Fraction(4, 5), "high"),
    (Fraction(1, 2), "medium"),
)
MIN_VOTES_FOR_INTERVAL = 5  # with fewer, a resampled interval is not reliable
INTERVAL_DRAWS = 2000
MAX_RESAMPLED = 2000  # ballots; with more, draws take gigabytes and a normal interval is as good
Z_95 = 1.959963984540054


def tally(
    counted: Sequence[Counted],
    candidates: Sequence[str],
    rule: Rule,
    borda: Rule,
    own_votes: OwnVotes,
) -> tuple[Score, ...]:
    """Return every candidate's score in order of rank; equal candidates share a rank.

    Candidates that passed the gate come first, then those with a value under the rule, ordered by
    value, wins and name. A candidate with votes but without a value is not ranked. Shares are
    always Borda's, so that results under different rules stay comparable.
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
    has_no_values = bool(votes) and not values

    def standing(name: str) -> tuple[bool, bool, Value, int]:
        value = values.get(name)
        if value is None:
            return name in failed, True, 0, not votes[name]
        return name in failed, False, sign * value, -wins[name]

    scores: list[Score] = []
    first_place: dict[tuple[bool, bool, Value, int], int] = {}  # rank shared by equals
    for i, name in enumerate(sorted(candidates, key=lambda name: (*standing(name), name)), 1):
        # 0 without votes; None if there are votes, but the rule gives no value
        value = values.get(name, None if votes[name] else Fraction(0))
        rank = first_place.setdefault(standing(name), i)
        share = shares.get(name, Fraction(0))
        low, high = intervals.get(name, (None, None))
        scores.append(
            Score(
                model=name,
                value=None if value is None else float(value),
                rank=None if value is None or has_no_values else rank,
                votes=votes[name],
                wins=wins[name],
                confidence=_confidence(votes[name], possible[name], len(placings)),
                share=float(share),
                borda=float(share * (n - 1)),
                passed=name not in failed,
                low=low,
                high=high,
                mean_score=means.get(name),
                possible=possible[name],
            )
        )
    return tuple(scores)


def _possible_votes(counted: Sequence[Counted], own_votes: OwnVotes) -> Counter[str]:
    """Return how many reviewers could have voted for each candidate, including abstainers.

    In a session of two answers, neither author can vote for the other, because there is no third
    answer to compare with.
    """
    possible: Counter[str] = Counter()
    for ballot in counted:
        eligible = set(ballot.shown)
        if own_votes != "in":
            eligible.discard(ballot.reviewer)
        if len(eligible) >= 2 or own_votes == "place_kept":
            possible.update(eligible)
    return possible


def n_possible_votes(session: Session, options: ScoringOptions, model: str) -> int:
    """Return how many ballots could contain a vote for a model, given who was shown what."""
    dealt = {(ballot.reviewer, ballot.sheet): set(ballot.authors) for ballot in session.ballots}
    if options.own_votes != "in":
        dealt = {key: authors - {key[0]} for key, authors in dealt.items()}
    least = 1 if options.own_votes == "place_kept" else 2
    return sum(model in authors and len(authors) >= least for authors in dealt.values())


def has_own_answers(session: Session) -> bool:
    """Return whether a reviewer of the session also wrote one of its answers."""
    authors = {response.model for response in session.responses}
    authors |= {author for ballot in session.ballots for author in ballot.authors}
    return any(ballot.reviewer in authors for ballot in session.ballots)


def _confidence(votes: int, possible: int, n_ballots: int) -> Confidence:
    """Return the confidence by the share of possible votes that were cast; low for one ballot."""
    if n_ballots <= 1 or not possible:
        return "low"
    coverage = Fraction(votes, possible)
    return next((name for least, name in CONFIDENCES if coverage >= least), "low")


def _mean_scores(placings: Sequence[Placing]) -> dict[str, float]:
    """Return the mean score of each candidate; own scores only if own votes count."""
    scores_by_name: dict[str, list[Fraction]] = {}
    for placing in placings:
        for name, score in placing.scores.items():
            scores_by_name.setdefault(name, []).append(score)
    return {name: float(sum(scores) / len(scores)) for name, scores in scores_by_name.items()}


def _intervals(
    placings: Sequence[Placing], candidates: Sequence[str]
) -> Mapping[str, tuple[float, float]]:
    """Return a 95% interval of each share by resampling ballots, if there are enough votes."""
    if len(placings) < MIN_VOTES_FOR_INTERVAL:
        return {}
    if len(placings) > MAX_RESAMPLED:
        return _normal_intervals(placings)
    import numpy as np

    index = {name: i for i, name in enumerate(candidates)}
    shares = np.zeros((len(placings), len(candidates)))
    voted = np.zeros_like(shares)
    for row, placing in enumerate(placings):
        for name in placing.doubled:
            shares[row, index[name]] = float(placing.share(name))
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


def _normal_intervals(placings: Sequence[Placing]) -> Mapping[str, tuple[float, float]]:
    """Return the same intervals from the spread of the votes, for too many ballots to resample."""
    n: Counter[str] = Counter()
    sums: defaultdict[str, float] = defaultdict(float)
    squares: defaultdict[str, float] = defaultdict(float)
    for placing in placings:
        for name in placing.doubled:
            share = float(placing.share(name))
            n[name] += 1
            sums[name] += share
            squares[name] += share * share
    intervals = {}
    for name, votes in n.items():
        if votes >= MIN_VOTES_FOR_INTERVAL:
            mean = sums[name] / votes
            half = Z_95 * math.sqrt(max(0.0, squares[name] / votes - mean * mean) / votes)
            low, high = max(0.0, mean - half), min(1.0, mean + half)
            intervals[name] = (round(low, 6), round(high, 6))
    return intervals


@lru_cache(maxsize=64)
def _draws(n: int) -> NDArray[np.float64]:
    """Return how often each of n ballots is in each resample; it depends only on n."""
    import numpy as np

    rng = np.random.Generator(np.random.PCG64(n))
    return rng.multinomial(n, np.full(n, 1 / n), size=INTERVAL_DRAWS).astype(float)
