"""Put reviewers on one scale: score = level + scale × quality of the answer, from sums.

Reviewers differ in level and in spread. If the scores of a wide reviewer and a narrow one were
compared directly, the wide one would seem to favour every good answer and to dislike every bad one.
So levels and scales are fitted first, over all answers that others judged too, without own answers.

The quality of an answer, for reviewer r, is the estimate by the *other* reviewers:

    q = Σ u_s (y_s − a_s) / Σ u_s·b_s          over the others s ≠ r, u = b

which never divides by a small scale. One wide reviewer would dominate "the others", so no weight b²
counts for more than MOST_WEIGHT times the mean weight. With x = u(y − a) and w = u·b, where u is b
or less if the weight is capped, Σx / Σw stays unbiased. Regressing r on this noisy q would shrink
r's scale, so the spread of quality comes from products of *different* others, which share no noise:

    P = [(Σx)² − Σx²] / [(Σw)² − Σw²]          x = u_s (y_s − a_s), w = u_s·b_s, s ≠ r

P needs two others, and its expected value is the squared quality. Then, with S = ΣP − n·q̄² and a
prior that scales lie around 1 (λ = residual variance / τ²), b = (cov(y, q) + λ) / (S + λ) and
a = mean(y − b·q). This is repeated until nothing changes. A panel needs one pass over the rows: the
sweeps run on sums by *pattern of judges* (who judged an answer), which add up over blocks. A large
crowd has too many patterns, and the sweeps run over the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, NamedTuple

import numpy as np

from peerage.reviews.cells import Bools, Floats, Ints
from peerage.reviews.comparisons import ScoredRows

ScaleStatus = Literal["estimated", "assumed", "contrarian", "constant", "alone"]

TAU = 0.5  # standard deviation of the prior that scales lie around 1
N_SCALE = 20  # with fewer answers that two others judged, a scale is assumed to be 1
N_POOLED = 20.0  # weight, in answers, of the panel's residual variance in a reviewer's own
LOWEST, HIGHEST = 0.1, 4.0
MAX_PATTERN_CELLS = 2_000_000  # with more, the sweeps run over the rows
MAX_PANEL = 52  # reviewers whose pattern a float holds exactly
DAMPING = 0.6  # of each step: two reviewers who correct each other at once would oscillate
EVIDENT = 2.5  # a scale this many standard errors below zero makes a reviewer a contrarian
MAX_REFITS = 3
MOST_WEIGHT = 1.5  # times the mean weight: the most of a reviewer in the quality of answers
MOSTLY_PRIOR = 0.5  # a scale that the prior determines more than this is not called estimated
FLAT = 1e-12
NOBODY = np.zeros(0, dtype=np.int64)


class Sweeps(NamedTuple):
    """When a fit stops: after `at_most` sweeps, or once changes are at most `still`.

    Changes of levels are relative to the spread of scores.
    """

    at_most: int
    still: float


PANEL, ROWS = Sweeps(400, 1e-10), Sweeps(100, 1e-6)


@dataclass(frozen=True, slots=True)
class PanelSums:
    """Sums by pattern of judges; the sums of two blocks can be added."""

    pattern: Ints  # a bit for each reviewer who judged
    n: Floats
    y: Floats  # patterns by reviewers
    yy: Floats  # patterns by reviewers by reviewers
    compares: bool

    def __add__(self, other: PanelSums) -> PanelSums:
        every = np.concatenate([self.pattern, other.pattern])
        pattern, code = np.unique(every, return_inverse=True)

        def add(mine: Floats, theirs: Floats) -> Floats:
            total = np.zeros((len(pattern), *mine.shape[1:]))
            np.add.at(total, code, np.concatenate([mine, theirs]))
            return total

        n, y = add(self.n, other.n), add(self.y, other.y)
        return PanelSums(pattern, n, y, add(self.yy, other.yy), self.compares)


@dataclass(frozen=True, slots=True)
class Moments:
    """Sums by reviewer: `n`, `y` and `q` over answers with another judge, the rest with two others.

    `q` adds up the quality by all others, and `p` its square from products of different others.
    """

    n: Floats
    y: Floats
    q: Floats
    n2: Floats
    y2: Floats
    q2: Floats
    yq: Floats
    p: Floats
    yy: Floats
    qq: Floats
    compares: bool

    def regression(self) -> tuple[Floats, Floats]:
        return _regression(self.n2, self.y2, self.q2, self.yq, self.p, centred=not self.compares)


class LengthLines(NamedTuple):
    """The points that some reviewers evidently add for length, by name code.

    A line has slope 0 for everyone else. `middle` is the mean of log words that a reviewer saw.
    """

    slope: Floats  # points for a unit of log words
    middle: Floats


@dataclass(frozen=True, slots=True)
class Scales:
    """Levels and scales of all reviewers, by name code, and how far to trust them.

    The quality of an average answer is 0 and the mean scale is 1. A scale is `assumed` (near 1) if
    too few answers were judged by two others, or if the others disagree on quality. A `contrarian`
    rates good answers low; a `constant` reviewer gives everything one score; a reviewer who is
    `alone` shares no answer with another. The last two kinds have NaN for level, scale and error.
    Constant and contrarian reviewers have no voice in the quality of answers.
    """

    level: Floats
    scale: Floats
    scale_se: Floats
    status: tuple[ScaleStatus, ...]
    voice: Bools
    n_shared: Floats  # answers with another judge
    sd: Floats  # of each reviewer's own scores
    ridge: Floats  # the prior's weight λ; infinite for an assumed scale
    shift: float  # the factor by which the last normalisation multiplied scales
    residual_variance: Floats
    converged: bool
    compares: bool
    aside: Ints = field(default_factory=lambda: NOBODY)  # pairs that were left out
    lengths: LengthLines | None = None  # subtracted from scores before these are compared

    @property
    def pull(self) -> Floats:
        """The factor u of each reviewer's scores in the quality of answers; 0 without a voice."""
        return capped_scales(np.where(self.voice, np.nan_to_num(self.scale), 0.0))

    @property
    def prior_of_others(self) -> float:
        """The effect of assumed scales on the quality, relative to the effect of one scale.

        A quality is a mean over several reviewers, whose scales err independently of each other.
        """
        voice = np.flatnonzero(self.voice).tolist()
        assumed = sum(self.status[who] == "assumed" for who in voice)
        n_others = max(len(voice) - 1, 1)
        return float(np.sqrt(assumed / max(len(voice), 1) / n_others))

    def is_assumed(self, reviewer: int) -> bool:
        """Return whether the scale of a reviewer, or of most others, is assumed."""
        voice = np.flatnonzero(self.voice).tolist()
        n = sum(self.status[who] == "assumed" for who in voice)
        return self.status[reviewer] == "assumed" or 2 * n > len(voice)

    def silencing(self, reviewers: Sequence[int]) -> Scales:
        """Return the same scales, with these reviewers left out of the quality of answers."""
        voice = self.voice.copy()
        voice[list(reviewers)] = False
        return replace(self, voice=voice)

    def of_sums(self, reviewer: Ints, moments: Sequence[Floats]) -> tuple[Floats, Floats]:
        """Return scales from (n, y, q, yq, p) of answers with two others, and the prior's share.

        That share is 1 − κ: 1 if the scale comes from the prior alone.
        """
        covariance, spread = _regression(*moments, centred=not self.compares)
        spread, ridge, scale = np.maximum(spread, 0.0), self.ridge[reviewer], self.scale[reviewer]
        known = np.isfinite(ridge)
        weight = np.where(known, ridge, 1.0)
        whole = spread + weight
        free = (covariance + weight) / np.where(whole > 0.0, whole, 1.0)
        free = np.where(scale < 0.0, free, np.clip(free, LOWEST, HIGHEST) * self.shift)
        return np.where(known, free, scale), _prior_part(ridge, spread)


def fit_scales(reviews: ScoredRows, aside: Ints = NOBODY) -> Scales:
    """Return levels and scales from rows in memory, by patterns of judges if these are few."""
    sums = panel_sums(reviews, aside)
    return scales_of_rows(reviews, aside) if sums is None else scales_of_panel(sums, aside)


def join_scored(parts: Sequence[ScoredRows]) -> ScoredRows:
    """Return the scored rows of several blocks as one."""
    starts = np.cumsum([0, *(part.n_answers for part in parts)])
    answer = [part.answer + start for part, start in zip(parts, starts, strict=False)]
    names = ["reviewer", "candidate", "cluster", "score", "own"]
    names += ["rival"] if parts[0].compares else []
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    first = parts[0]
    return ScoredRows(first.n_names, first.n_clusters, np.concatenate(answer), **columns)


# -- sums by pattern of judges -------------------------------------------------------------------


def panel_sums(reviews: ScoredRows, aside: Ints = NOBODY) -> PanelSums | None:
    """Return the sums for `scales_of_panel`; None if there are too many patterns of judges."""
    k = reviews.n_names
    if k > MAX_PANEL or reviews.n_answers * k > 8 * reviews.n + 65_536:
        return None
    heard = is_heard(reviews, aside)
    answer, reviewer = reviews.answer[heard], reviews.reviewer[heard]
    score = np.zeros((reviews.n_answers, k))
    score[answer, reviewer] = reviews.score[heard]
    bits = np.bincount(answer, np.exp2(np.arange(k))[reviewer], minlength=reviews.n_answers)
    pattern, code = np.unique(bits.astype(np.int64), return_inverse=True)
    if len(pattern) * k * k > MAX_PATTERN_CELLS:
        return None
    n = np.bincount(code, minlength=len(pattern))
    y, yy = np.zeros((len(pattern), k)), np.zeros((len(pattern), k, k))
    order = np.argsort(code, kind="stable")
    for i, same in enumerate(np.split(order, np.cumsum(n)[:-1]) if len(n) else ()):
        y[i], yy[i] = score[same].sum(axis=0), score[same].T @ score[same]
    return PanelSums(pattern, n.astype(np.float64), y, yy, reviews.compares)


def is_heard(reviews: ScoredRows, aside: Ints) -> Bools:
    """Return which rows are about another model's answer and not in a pair that was set aside.

    Pairs are coded reviewer × names + candidate.
    """
    heard: Bools = ~reviews.own
    base = reviews.reviewer.astype(np.int64) * reviews.n_names
    for named in (reviews.candidate, reviews.rival):
        if len(aside) and named is not None:
            heard = heard & ~np.isin(base + named, aside)
    return heard


def scales_of_panel(sums: PanelSums, aside: Ints = NOBODY) -> Scales:
    """Return levels and scales of a panel from its sums by pattern of judges."""
    k = sums.y.shape[1]
    mask = ((sums.pattern[:, None] >> np.arange(k)) & 1).astype(np.float64)
    n = (mask * sums.n[:, None]).sum(axis=0)
    yy = np.einsum("prr->r", sums.yy)
    moments = partial(_panel_moments, sums, mask)
    return _fit(moments, (n, sums.y.sum(axis=0), yy), sums.compares, aside, PANEL)


def _panel_moments(sums: PanelSums, mask: Floats, level: Floats, scale: Floats) -> Moments:
    """Return sums over answers from sums by pattern; a scale of 0 means no voice."""
    n, weight = sums.n[:, None], capped_scales(scale)
    heard = mask * (weight > 0.0)
    off = sums.y - n * level * mask
    x = weight * off
    both = mask[:, :, None] * mask[:, None, :]
    yx = weight * (sums.yy - level * sums.y[:, :, None] * mask[:, None, :])
    xx = weight[:, None] * (yx - level[:, None] * both * x[:, None, :])
    own_xx, own_yx = np.einsum("prr->pr", xx), np.einsum("prr->pr", yx)
    square = xx.sum(axis=(1, 2))[:, None] - 2.0 * xx.sum(axis=2) + own_xx
    single = own_xx.sum(axis=1, keepdims=True) - own_xx
    w = heard * weight * scale
    w2 = w * w
    w, w2 = w.sum(axis=1, keepdims=True) - w, w2.sum(axis=1, keepdims=True) - w2
    others = heard.sum(axis=1, keepdims=True) - heard
    one, two = mask * (others > 0.0), mask * (others > 1.0)
    w = np.where(one > 0.0, w, 1.0)
    pairs = np.where(two > 0.0, w * w - w2, 1.0)
    q = (x.sum(axis=1, keepdims=True) - x) / w
    yq = (yx.sum(axis=2) - own_yx) / w
    yy = np.einsum("prr->pr", sums.yy)
    with_one = (n, sums.y, q)
    with_two = (n, sums.y, q, yq, (square - single) / pairs, yy, square / w**2)
    n1, y1, q1 = ((one * column).sum(axis=0) for column in with_one)
    n2, y2, q2, yq2, p2, yy2, qq2 = ((two * column).sum(axis=0) for column in with_two)
    return Moments(n1, y1, q1, n2, y2, q2, yq2, p2, yy2, qq2, sums.compares)


# -- sweeps over rows ----------------------------------------------------------------------------


def scales_of_rows(reviews: ScoredRows, aside: Ints = NOBODY, sweeps: Sweeps = ROWS) -> Scales:
    """Return levels and scales of any number of reviewers, by sweeps over the rows."""
    heard, k = np.flatnonzero(is_heard(reviews, aside)), reviews.n_names
    answer, reviewer, y = reviews.answer[heard], reviews.reviewer[heard], reviews.score[heard]
    fixed: dict[bytes, tuple[Bools, Bools, list[Floats]]] = {}

    def total(values: Floats | Bools) -> Floats:
        return np.bincount(reviewer, values, minlength=k).astype(np.float64)

    totals = (total(np.ones(len(y))), total(y), total(y * y))

    def moments(level: Floats, scale: Floats) -> Moments:
        voice, weight = scale > 0.0, capped_scales(scale)
        if voice.tobytes() not in fixed:  # sums that depend only on who has a voice
            n_others = others(answer, voice[reviewer])
            one, two = n_others > 0.5, n_others > 1.5
            columns = [total(c) for c in (one, y * one, two, y * two, y * y * two)]
            fixed[voice.tobytes()] = one, two, columns
        one, two, (n1, y1, n2, y2, yy) = fixed[voice.tobytes()]
        u = weight[reviewer]
        q, p, _ = _quality(answer, u * (y - level[reviewer]), u * scale[reviewer], one, two)
        q2 = q * two
        with_two = (n2, y2, total(q2), total(y * q2), total(p), yy, total(q * q2))
        return Moments(n1, y1, total(q), *with_two, reviews.compares)

    return _fit(moments, totals, reviews.compares, aside, sweeps)


@dataclass(frozen=True, slots=True)
class Quality:
    """The other reviewers' view of each row's answer; 0 without others.

    `scale` is the others' mean scale. `level` is their mean score of an answer of quality 0, with
    all of them weighted equally.
    """

    n_others: Ints
    q: Floats
    p: Floats  # 0 without two others
    level: Floats
    scale: Floats


def quality_by_others(reviews: ScoredRows, heard: Bools, scales: Scales) -> Quality:
    """Return, for each row, the quality of its answer according to the other reviewers."""
    answer, reviewer, y = reviews.answer, reviews.reviewer, reviews.score
    b = np.nan_to_num(scales.scale)[reviewer] * heard
    u = scales.pull[reviewer] * heard
    a = np.nan_to_num(scales.level)[reviewer]
    n_others = np.rint(others(answer, heard)).astype(np.int64)
    one, two = n_others > 0, n_others > 1
    q, p, _ = _quality(answer, u * (y - a), u * b, one, two)
    n = np.maximum(n_others, 1)
    scale = others(answer, b) / n
    return Quality(n_others, q, p, others(answer, heard * y) / n - scale * q, scale)


def _quality(
    answer: Ints, x: Floats, w: Floats, one: Bools, two: Bools
) -> tuple[Floats, Floats, Floats]:
    """Return q (0 without another reviewer), P (0 without two), and the total weight in q."""
    sx, sw = others(answer, x), np.where(one, others(answer, w), 1.0)
    squares = two * (sx * sx - others(answer, x * x))
    pairs = np.where(two, sw * sw - others(answer, w * w), 1.0)
    return one * sx / sw, squares / pairs, sw


def capped_scales(scale: Floats) -> Floats:
    """Return the factor u of each reviewer: b, or less if b² exceeds its share of weights.

    The weight u·b is at most MOST_WEIGHT times the mean weight of those who have a voice.
    """
    weight = np.maximum(scale, 0.0) ** 2
    voice = weight > 0.0
    n = int(voice.sum())
    if n < 3:
        return np.where(voice, scale, 0.0)
    by_size = np.sort(weight[voice])
    # With the m largest at the cap c: c = MOST_WEIGHT · (the rest + m·c) / n.
    m = np.arange(n)
    rest = np.append(np.cumsum(by_size), 0.0)[n - 1 - m]
    spare = n - MOST_WEIGHT * m
    cap = np.where(spare > 0.0, MOST_WEIGHT * rest / np.where(spare > 0.0, spare, 1.0), np.inf)
    enough = cap >= by_size[n - 1 - m]  # all that are not at the cap lie below it
    most = float(cap[int(np.argmax(enough))])
    return np.where(voice, np.minimum(weight, most) / np.where(voice, scale, 1.0), 0.0)


def others(answer: Ints, values: Floats | Bools) -> Floats:
    """Return the sum of the values of each row's answer, without the row's own."""
    whole: Floats = np.bincount(answer, values).astype(np.float64, copy=False)
    return whole[answer] - values


# -- the fixed point -----------------------------------------------------------------------------

MomentsOf = Callable[[Floats, Floats], Moments]


def _regression(
    n: Floats, y: Floats, q: Floats, yq: Floats, p: Floats, *, centred: bool
) -> tuple[Floats, Floats]:
    """Return the summed covariance of score and quality, and the quality's spread without noise."""
    if not centred:
        return yq, p
    some = np.maximum(n, 1.0)
    return yq - y * q / some, p - q * q / some


def _fit(
    moments: MomentsOf,
    totals: tuple[Floats, Floats, Floats],
    compares: bool,
    aside: Ints,
    sweeps: Sweeps,
) -> Scales:
    n, y, yy = totals
    some = np.maximum(n, 1.0)
    level = np.zeros_like(y) if compares else y / some
    variance = np.maximum(yy / some - level * level, 0.0)
    size = np.maximum(np.abs(yy / some), 1e-300)
    constant = (n > 1) & (variance <= FLAT * size)
    scale, voice = np.ones_like(y), ~constant & (n > 0)
    sd = np.sqrt(variance * some / np.maximum(n - 1.0, 1.0))
    for _ in range(MAX_REFITS):
        fitted = _swept(moments, (level, scale, voice), sd, sweeps)
        contrary = _contrarians(fitted)
        if not contrary.any():
            break
        level, scale, voice = fitted.level, fitted.scale, voice & ~contrary
    return _conclude(moments, fitted, sd, constant, aside)


@dataclass(frozen=True, slots=True)
class _Fitted:
    """Levels and scales of the reviewers with a voice, and the sums behind them."""

    level: Floats
    scale: Floats
    voice: Bools
    moments: Moments
    ridge: Floats
    variance: Floats
    shift: float
    converged: bool


def _swept(
    moments: MomentsOf, start: tuple[Floats, Floats, Bools], sd: Floats, sweeps: Sweeps
) -> _Fitted:
    level, scale, voice = start
    unit = float(np.median(sd[sd > 0.0])) if (sd > 0.0).any() else 1.0
    shift, change, sweep = 1.0, np.inf, 0
    while sweep < sweeps.at_most and change > sweeps.still:
        sums = moments(level, np.where(voice, scale, 0.0))
        new, ridge, variance = _scales_from(sums, voice, scale)
        estimated = voice & np.isfinite(ridge)
        shift = 1.0 / float(new[estimated].mean()) if estimated.any() else 1.0
        new = np.where(estimated, new * shift, new)
        target = _levels_from(sums, new, level)
        step_level, step = DAMPING * (target - level), DAMPING * (new - scale)
        level, scale = level + step_level, scale + step
        furthest = [float(np.abs(moved).max(initial=0.0)) for moved in (step, step_level)]
        change, sweep = max(furthest[0], furthest[1] / unit), sweep + 1
    return _Fitted(level, scale, voice, sums, ridge, variance, shift, change <= sweeps.still)


def _scales_from(sums: Moments, voice: Bools, scale: Floats) -> tuple[Floats, Floats, Floats]:
    """Return new scales, the prior's weight in each (infinite if assumed), and residuals."""
    covariance, spread = sums.regression()
    some = np.maximum(sums.n2, 1.0)
    yy = sums.yy - (0.0 if sums.compares else sums.y2**2 / some)
    qq = sums.qq - (0.0 if sums.compares else sums.q2**2 / some)
    left = np.maximum(yy - 2.0 * scale * covariance + scale**2 * qq, 0.0)
    n_all = float(sums.n2[voice].sum())
    pooled = float(left[voice].sum()) / n_all if n_all else 0.0
    variance = (left + N_POOLED * pooled) / (sums.n2 + N_POOLED)
    ridge = np.where(sums.n2 >= N_SCALE, np.maximum(variance, 1e-300) / TAU**2, np.inf)
    known = np.isfinite(ridge)
    weight = np.where(known, ridge, 1.0)
    new = np.clip((covariance + weight) / (np.maximum(spread, 0.0) + weight), LOWEST, HIGHEST)
    return np.where(known, new, 1.0), ridge, variance


def _levels_from(sums: Moments, scale: Floats, level: Floats) -> Floats:
    """Return levels at which an average answer has quality 0; unchanged without shared answers."""
    if sums.compares:
        return np.zeros_like(level)
    n = float(sums.n.sum())
    centre = float(sums.q.sum()) / n if n else 0.0
    target = (sums.y - scale * (sums.q - centre * sums.n)) / np.maximum(sums.n, 1.0)
    return np.where(sums.n > 0, target, level)


def _contrarians(fitted: _Fitted) -> Bools:
    """Return reviewers with a voice whose scale, before any prior, is clearly below zero."""
    covariance, spread = fitted.moments.regression()
    evident = covariance + EVIDENT * np.sqrt(fitted.variance * np.maximum(spread, 0.0)) < 0.0
    return evident & (spread > 0.0) & (fitted.moments.n2 >= N_SCALE) & fitted.voice


def _conclude(
    moments: MomentsOf, fitted: _Fitted, sd: Floats, constant: Bools, aside: Ints
) -> Scales:
    voice = fitted.voice
    sums = moments(fitted.level, np.where(voice, fitted.scale, 0.0))
    covariance, spread = sums.regression()
    spread = np.maximum(spread, 0.0)
    alone = sums.n == 0.0
    contrary = ~voice & ~constant & ~alone & (spread > 0.0)
    whole = np.where(spread > 0.0, spread, 1.0)
    scale = np.where(contrary, covariance / whole, fitted.scale)
    own_level = (sums.y - scale * sums.q) / np.maximum(sums.n, 1.0)
    level = np.where(contrary & (not sums.compares), own_level, fitted.level)
    ridge = np.where(contrary, 0.0, np.where(voice, fitted.ridge, np.inf))
    prior = _prior_part(ridge, spread)
    noise = np.sqrt(fitted.variance / whole) * (spread > 0.0)
    se = np.hypot((1.0 - prior) * noise, TAU * prior)
    words = ("constant", "alone", "contrarian", "estimated")
    status = np.select([constant, alone, contrary, prior < MOSTLY_PRIOR], words, "assumed")
    unknown = constant | alone
    return Scales(
        level=np.where(unknown, np.nan, level),
        scale=np.where(unknown, np.nan, scale),
        scale_se=np.where(unknown, np.nan, se),
        status=tuple(status.tolist()),
        voice=voice & ~alone,
        n_shared=sums.n,
        sd=sd,
        ridge=ridge,
        shift=fitted.shift,
        residual_variance=fitted.variance,
        converged=fitted.converged,
        compares=sums.compares,
        aside=aside,
    )


def _prior_part(ridge: Floats, spread: Floats) -> Floats:
    """Return the prior's share of a scale, 1 − κ: 1 if it comes from the prior alone."""
    known = np.isfinite(ridge)
    weight = np.where(known, ridge, 1.0)
    whole = spread + weight
    return np.where(known, weight / np.where(whole > 0.0, whole, 1.0), 1.0)
