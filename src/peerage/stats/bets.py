"""Sequential tests by betting: evidence about a mean that is valid after every observation.

An observation is a number D in [−1, 1]. To show that its mean is above m, a bettor who starts with
a wealth of 1 stakes the fraction λ of it on each D: the wealth is multiplied by
1 + λ·(D − m)/(1 + m). If the mean is not above m, the wealth does not grow on average, so the
probability that it ever reaches 1/α is at most α, however often one looks (Ville's inequality). The
test assumes no distribution and needs no minimum n. The wealth is averaged over a fixed grid of λ,
so that the caller need not choose one.

With a suite, the queries are a fixed set of N in random order, and m is compared with the mean of
that set. If that mean is m, then after t observations with the sum S the remaining queries have the
mean (N·m − S)/(N − t), so the bets are against that value (sampling without replacement;
Waudby-Smith and Ramdas 2020). After N observations the mean is known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

BETS = (0.02, 0.04, 0.08, 0.15, 0.3, 0.5, 0.7, 0.9)
UNIT = 10**12  # differences are rounded to multiples of 1/UNIT, so that sums over a suite are exact
LEAST_ROOM = 1e-9  # the smallest divisor of a bet
N_MEANS = 201  # points of the grid for the interval ends of a chart
N_STEPS = 30  # bisection steps for each end of an interval
LARGEST = 1e300  # the limit of a product, which with a suite can exceed the range of a float
BLOCK = 64  # how many factors are multiplied before the logarithm is taken
CLAIMS = ("better", "worse", "not_worse", "not_better")
SIGNS = {"better": 1.0, "worse": -1.0, "not_worse": 1.0, "not_better": -1.0}
NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class EvidenceBar:
    """The thresholds of a gate: `alpha`, the probability of a false claim, and the margin.

    The claims *better* and *worse* share `alpha`: two equal models are separated with at most that
    probability. The two claims behind *same* (not worse by the margin, and not better by the
    margin) each use all of `alpha`, since only one of them can be false. If `suite` is set, the
    claims are about a fixed set of that many queries only.
    """

    margin: float = 0.1
    alpha: float = 0.05
    suite: int | None = None

    @property
    def log_bars(self) -> dict[str, float]:
        """The logarithm of the evidence that each claim requires."""
        apart, within = math.log(2.0 / self.alpha), math.log(1.0 / self.alpha)
        return {"better": apart, "worse": apart, "not_worse": within, "not_better": within}


class GateVerdict(NamedTuple):
    """A verdict, and the number of observations it needed (None if it is undecided)."""

    verdict: str
    after: int | None


class Look(NamedTuple):
    """The mean of the first `n` observations, and the interval around it."""

    n: int
    mean: float
    low: float
    high: float


# -- evidence ------------------------------------------------------------------------------------


class Seen(NamedTuple):
    """Earlier observations of a suite: their number, and their sum in units."""

    n: int = 0
    total: int = 0


UNSEEN = Seen()


def log_evidence_above(differences: Floats, mean: float, suite: int | None = None) -> Floats:
    """Return the log evidence, after each observation, that the mean is above `mean`."""
    means = np.array([mean])
    stakes = _stakes(differences, means, suite)[:, 0]
    evidence = _mix(np.cumsum(np.log1p(np.multiply.outer(np.array(BETS), stakes)), axis=1))
    if suite is not None:
        totals, n = np.cumsum(_whole(differences)), np.arange(1, len(differences) + 1)
        impossible = _are_impossible(means, suite, n[:, None], totals[:, None])[:, 0]
        evidence[np.logical_or.accumulate(impossible)] = np.inf
    return evidence


def _mix(logs: Floats) -> Floats:
    """Return the log of the mean over all bets (the first axis), given the log of each wealth."""
    top = logs.max(axis=0)
    mixed: Floats = top + np.log(np.exp(logs - top).mean(axis=0))
    return mixed


def _whole(differences: Floats) -> Ints:
    """Return differences as integers, in units of 1/UNIT."""
    return np.rint(np.clip(differences, -1.0, 1.0) * UNIT).astype(np.int64)


def _stakes(differences: Floats, means: Floats, suite: int | None, seen: Seen = UNSEEN) -> Floats:
    """Return the gain per unit staked (observations × means), at least −1."""
    d, due = np.clip(differences, -1.0, 1.0)[:, None], means[None, :]
    if suite is not None:
        whole = _whole(differences)
        before = seen.total + np.cumsum(whole) - whole
        left = suite - seen.n - np.arange(len(whole), dtype=np.int64)
        due = (_whole(means) * suite - before[:, None]) / (left[:, None] * float(UNIT))
        due = np.maximum(due, -1.0)
    return np.maximum((d - due) / np.maximum(1.0 + due, LEAST_ROOM), -1.0)


def _are_impossible(means: Floats, suite: int, n: Ints | int, total: Ints | int) -> Bools:
    """Return which means are impossible for a suite, even if all remaining differences were −1.

    The comparison uses integers, and allows one unit per query for the rounding of its difference,
    so rounding never makes a mean impossible.
    """
    impossible: Bools = _whole(means) * suite - total < -(suite - n) * UNIT - suite
    return impossible


def log_evidence(differences: Floats, bar: EvidenceBar) -> dict[str, Floats]:
    """Return the log evidence for each of the four claims, after each observation."""
    margin, suite = bar.margin, bar.suite
    return {
        "better": log_evidence_above(differences, 0.0, suite),
        "worse": log_evidence_above(-differences, 0.0, suite),
        "not_worse": log_evidence_above(differences, -margin, suite),
        "not_better": log_evidence_above(-differences, -margin, suite),
    }


def total_evidence(differences: Floats, bar: EvidenceBar) -> dict[str, float]:
    """Return the log evidence for each claim after all observations, whatever their order.

    Exactly rounded sums make it independent of the order. With a suite, the bets do depend on the
    order, which a seed fixes.
    """
    if bar.suite is not None:
        return {name: float(path[-1]) for name, path in log_evidence(differences, bar).items()}
    means = {"better": 0.0, "worse": 0.0, "not_worse": -bar.margin, "not_better": -bar.margin}
    totals = {}
    for name, mean in means.items():
        stakes = _stakes(SIGNS[name] * differences, np.array([mean]), None)[:, 0].tolist()
        logs = [math.fsum(math.log1p(bet * stake) for stake in stakes) for bet in BETS]
        totals[name] = float(_mix(np.array(logs)[:, None])[0])
    return totals


# -- decisions -----------------------------------------------------------------------------------


def first_looks(evidence: Sequence[dict[str, Floats]], bar: EvidenceBar) -> list[dict[str, int]]:
    """Return after how many observations each claim on each measure was proven, or `NEVER`.

    Holm's method corrects for several measures: with K measures, the strongest claim needs K times
    the evidence, the next one K − 1 times, and so on (e-Holm). Once proven, a claim stays proven.
    """
    first: list[dict[str, int]] = [{} for _ in evidence]
    for claim in CLAIMS:
        paths = np.maximum.accumulate(np.stack([one[claim] for one in evidence]), axis=1)
        n_measures = len(paths)
        order = np.argsort(-paths, axis=0, kind="stable")
        needed = bar.log_bars[claim] + np.log(n_measures - np.arange(n_measures))
        passed = np.take_along_axis(paths, order, axis=0) >= needed[:, None]
        passed = np.logical_and.accumulate(passed, axis=0)
        stands = np.zeros_like(passed)
        np.put_along_axis(stands, order, passed, axis=0)
        for place, looks in enumerate(stands):
            first[place][claim] = int(looks.argmax()) + 1 if looks.any() else NEVER
    return first


class RunningGate:
    """The evidence on several measures, updated by one observation of each at a time.

    After n observations, `first` equals the result of `first_looks` for all n. NaN means
    that a measure was not observed; it counts as a look.
    """

    def __init__(self, bar: EvidenceBar, n_measures: int) -> None:
        self.bar, self.n = bar, 0
        self.first: list[dict[str, int]] = [dict.fromkeys(CLAIMS, NEVER) for _ in range(n_measures)]
        self._wealth = np.zeros((n_measures, len(CLAIMS), len(BETS)))
        self._highest = np.full((n_measures, len(CLAIMS)), -np.inf)
        self._totals, self._n = [0] * n_measures, [0] * n_measures

    def add(self, differences: Floats) -> None:
        """Add the next observation of each measure."""
        self.n += 1
        for i, difference in enumerate(differences.tolist()):
            if math.isnan(difference):
                continue
            self._n[i] += 1
            for j in range(len(CLAIMS)):
                evidence = self._log_evidence(i, j, difference)
                self._highest[i, j] = max(self._highest[i, j], evidence)
            self._totals[i] += int(_whole(np.array([difference]))[0])
        highest = [dict(zip(CLAIMS, row[:, None], strict=True)) for row in self._highest]
        for known, stood in zip(self.first, first_looks(highest, self.bar), strict=True):
            for claim, look in stood.items():
                if look != NEVER:
                    known[claim] = min(known[claim], self.n)

    def _log_evidence(self, measure: int, claim: int, difference: float) -> float:
        sign = SIGNS[CLAIMS[claim]]
        means = np.array([0.0 if CLAIMS[claim] in ("better", "worse") else -self.bar.margin])
        one, total = np.array([sign * difference]), int(sign) * self._totals[measure]
        stake = float(_stakes(one, means, self.bar.suite, Seen(self._n[measure] - 1, total))[0, 0])
        wealth = self._wealth[measure, claim]
        wealth += np.log1p(np.array(BETS) * stake)
        total += int(_whole(one)[0])
        suite = self.bar.suite
        if suite is not None and _are_impossible(means, suite, self._n[measure], total)[0]:
            return math.inf
        return float(_mix(wealth[:, None])[0])


def decide(first: dict[str, int]) -> GateVerdict:
    """Return the verdict on one measure, given when each claim was first proven.

    The verdict is *worse* if that was proven before *not worse by the margin*, and *undecided* if
    neither was proven. Otherwise it is *better* or *same within the margin*, whichever was proven
    first, or *not worse* if neither of these was.
    """
    worse, not_worse = first["worse"], first["not_worse"]
    if worse < not_worse:
        return GateVerdict("worse", worse)
    if not_worse == NEVER:
        return GateVerdict("undecided", None)
    same = max(not_worse, first["not_better"])
    if first["better"] < same:
        return GateVerdict("better", first["better"])
    return GateVerdict("not_worse", not_worse) if same == NEVER else GateVerdict("same", same)


def decide_all(decisions: Sequence[GateVerdict]) -> GateVerdict:
    """Return one verdict on several measures: worse if one is worse; other verdicts need all."""
    verdicts = {one.verdict for one in decisions}
    if "worse" in verdicts:
        return GateVerdict(
            "worse", min(d.after for d in decisions if d.verdict == "worse" and d.after)
        )
    if "undecided" in verdicts:
        return GateVerdict("undecided", None)
    after = max(one.after or 0 for one in decisions)
    if verdicts == {"same"}:
        return GateVerdict("same", after)
    return GateVerdict("better" if verdicts <= {"better", "same"} else "not_worse", after)


# -- intervals -----------------------------------------------------------------------------------


def looks(differences: Floats, bar: EvidenceBar, at: Sequence[int]) -> list[Look]:
    """Return the mean and its interval after each given number of observations, for a chart.

    The interval contains every mean against which the evidence on either side is below 2/α. The
    probability that any of these intervals misses the true mean is at most α. Ends are rounded
    outwards to a grid.
    """
    means = np.linspace(-1.0, 1.0, N_MEANS)[1:-1]
    apart = bar.log_bars["better"]
    lows = _log_exclusions(differences, means, bar.suite, at) >= apart
    highs = _log_exclusions(-differences, means, bar.suite, at) >= apart
    totals = np.cumsum(differences)
    points = []
    for n, low, high in zip(at, lows, highs, strict=True):
        below, above = means[low], -means[high]
        mean = float(totals[n - 1] / n)
        points.append(
            Look(
                n,
                mean,
                min(mean, float(below.max(initial=-1.0))),
                max(mean, float(above.min(initial=1.0))),
            )
        )
    return points


def _log_exclusions(
    differences: Floats, means: Floats, suite: int | None, at: Sequence[int]
) -> Floats:
    """Return the log evidence that the mean is above each value, for each look (looks × means)."""
    n = max(at, default=0)
    ends = sorted({*at, *range(BLOCK, n, BLOCK), n})
    bets, wealth = np.array(BETS)[:, None, None], np.zeros((len(BETS), len(means)))
    evidence, places = np.empty((len(at), len(means))), {end: i for i, end in enumerate(at)}
    seen = UNSEEN
    for end in ends:
        block = differences[seen.n : end]
        with np.errstate(over="ignore"):
            stakes = _stakes(block, means, suite, seen)
            products = np.multiply.reduce(1.0 + bets * stakes, axis=1)
        wealth += np.log(np.minimum(products, LARGEST))
        seen = Seen(end, seen.total + int(_whole(block).sum()))
        if end in places:
            evidence[places[end]] = _mix(wealth)
            if suite is not None:
                evidence[places[end], _are_impossible(means, suite, *seen)] = np.inf
    return evidence


def interval(differences: Floats, bar: EvidenceBar) -> tuple[float, float]:
    """Return the interval of the mean after all observations; its ends are found by bisection."""
    return _low_end(differences, bar), -_low_end(-differences, bar)


def _low_end(differences: Floats, bar: EvidenceBar) -> float:
    """Return the lower end of the interval: the largest mean that is too low, or −1 if none is."""
    low, high, n = -1.0, float(np.mean(differences)), len(differences)
    total, starts, bets = (
        int(_whole(differences).sum()),
        range(0, n, BLOCK),
        np.array(BETS)[:, None],
    )
    for _ in range(N_STEPS):
        means = np.array([(low + high) / 2.0])
        stakes = _stakes(differences, means, bar.suite)[:, 0]
        with np.errstate(over="ignore"):
            products = np.multiply.reduceat(1.0 + bets * stakes, starts, axis=1)
        wealth = np.log(np.minimum(products, LARGEST)).sum(axis=1, keepdims=True)
        is_excluded = float(_mix(wealth)[0]) >= bar.log_bars["better"]
        if bar.suite is not None:
            is_excluded = is_excluded or bool(_are_impossible(means, bar.suite, n, total)[0])
        low, high = (float(means[0]), high) if is_excluded else (low, float(means[0]))
    return low


# -- how many ------------------------------------------------------------------------------------


def expected_queries(sd: float, margin: float) -> int:
    """Return about how many queries prove that two equal models are the same within the margin.

    The formula was fitted to simulated gates on real differences, and is within 25% of their median
    numbers of queries.
    """
    return math.ceil(6.0 * sd**2 / margin**2 + 20.0)


def queries_needed(differences: Floats, bar: EvidenceBar) -> int:
    """Return about how many more queries a verdict needs, if they are like those so far.

    Per query, the evidence is assumed to grow by the mean log factor of the best bet so far. If it
    does not grow, the two models are assumed to be equal.
    """
    needed = math.inf
    for claim, sign, mean in (("worse", -1.0, 0.0), ("not_worse", 1.0, -bar.margin)):
        stakes = _stakes(sign * differences, np.array([mean]), None)[:, 0]
        growth = np.log1p(np.multiply.outer(np.array(BETS), stakes)).mean(axis=1)
        best = float(growth.max())
        if best > 0.0:
            total = (bar.log_bars[claim] + math.log(len(BETS))) / best
            needed = min(needed, total - len(differences))
    usual = expected_queries(float(np.std(differences)) or 1.0, bar.margin) - len(differences)
    more = max(1, math.ceil(needed if math.isfinite(needed) else usual))
    return more if bar.suite is None else min(more, bar.suite - len(differences))
