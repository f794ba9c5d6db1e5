"""Position curves: contrasts, and one curve for each reviewer.

A reviewer's curve gives its extra points for each position, relative to the others' view of the
answers there, on one scale. All reviewers are solved for together, because the others' own position
effects are part of that view.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from peerage.biases.thresholds import write_signed
from peerage.reviews.cells import Bools, Cells, Floats, Ints, Tables, name_columns
from peerage.reviews.comparisons import N_PLACES
from peerage.reviews.deviations import MAX_JOINT, BaseSums, n_place_codes, totals_by
from peerage.reviews.intervals import LEVEL, Estimate, measurements
from peerage.reviews.one_scale import TAU, Scales
from peerage.stats.clusters import JackknifeSpread, quotient, spread_of
from peerage.stats.tails import f_tail, student_t_p, t_critical

FLAT = 1e-9
N_STEPS = 3  # refinements of a solution without one cluster; the whole system is inverted once
MAX_CONDITION = 1e8
CANNOT = "so position and answer cannot be separated"
COINCIDE = f"all reviewers saw each answer at the same position, {CANNOT}"
FEW_APART = f"too few answers were seen at different positions, {CANNOT}"
ONE_REVIEW = f"no answer was judged by two reviewers, {CANNOT}"
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
PLACES = (*(f"{word} place" for word in ORDINALS), "places after the eighth", "last place")
MIDDLE = "middle places"


# -- curves and their contrasts ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Contrasts:
    """Contrasts of a curve over places; each has a name and a row of weights."""

    names: tuple[str, ...]
    weights: Floats  # contrasts by places

    @property
    def level(self) -> float:
        """The level of each interval, so that all of them are valid together."""
        return 1.0 - (1.0 - LEVEL) / len(self.names)


def contrasts_of(places: Sequence[int]) -> Contrasts:
    """Return contrasts of places: each against the others, and the middle against both ends."""
    n = len(places)
    each = (n * np.eye(n) - 1.0) / max(n - 1.0, 1.0)
    names = [PLACES[place] for place in places]
    if n == 2:  # one contrast says it all; it is named after the first place
        return Contrasts((names[0],), each[:1])
    if n > 3:
        inside = np.r_[0.0, np.ones(n - 2), 0.0]
        middle = inside / (n - 2.0) - (1.0 - inside) / 2.0
        return Contrasts((*names, MIDDLE), np.vstack([each, middle]))
    return Contrasts(tuple(names), each)


def quadratic_form(curve: Floats, covariance: Floats) -> tuple[float, int]:
    """Return a curve's squared Mahalanobis distance from flat, and the number of dimensions."""
    values, vectors = np.linalg.eigh(covariance)
    used = values > FLAT * max(float(values.max(initial=0.0)), 0.0)
    along = vectors[:, used].T @ curve
    return float((along**2 / values[used]).sum()), int(used.sum())


@dataclass(frozen=True, slots=True)
class PlaceEstimate(Estimate):
    """The largest contrast of a curve over the places; `p` tests the whole curve."""

    place: str = ""
    curve: tuple[tuple[int, float], ...] = ()  # place code and points


def describe_curve(place: str, curve: Sequence[tuple[int, float]]) -> str:
    """Return a curve in words: the most different position, and the effect of every position."""
    effects = " ".join(write_signed(value) for _, value in curve)
    return f"{place} against the others; effect by position {effects}"


# -- one reviewer compared with the others -----------------------------------------------------


def position(sums: Tables, scales: Scales) -> list[PlaceEstimate]:
    """Return each reviewer's points for each position, with all reviewers solved for together.

    The others' points for a position are part of the quality that a reviewer is compared with, so
    the curves are the solution of one system. Answers without other reviewers add to the reviewer's
    own equations, with position and score relative to their means for that candidate.
    """
    if "places" not in sums:
        return []
    system = _PlaceSystem(sums, scales)
    if len(system.reviewer) == 0:
        return []
    return system.estimates()


def without_own_order(sums: Tables, scales: Scales) -> Ints:
    """Return reviewers whose position effect is unknown, because all saw the same order.

    Other rounds in another order do not help: in each of them all reviewers share one order.
    """
    k = len(scales.sd)
    alone = sums["places_alone"].subject // n_place_codes(scales.compares)
    alone = alone // (k * k if scales.compares else k)
    return np.setdiff1d(np.flatnonzero(_alike(sums, k)), alone)


def _alike(sums: Tables, k: int) -> Bools:
    """Return, by reviewer, whether all others saw its answers at the same positions as it did."""
    table = sums["places_apart"]
    (apart,) = totals_by(table.subject, np.abs(table.sums), k).T
    return apart <= FLAT


class PlaceSums(NamedTuple):
    """Sums of positions (x), scores (y) and qualities (q), by reviewer or by left-out cell."""

    n: Floats
    x: Floats
    y: Floats
    q: Floats
    xx: Floats
    xy: Floats
    xq: Floats
    base: Floats  # columns of `BaseSums`


class _PlaceSystem:
    """The curves π of all reviewers, from A·π = T, and what each cluster adds to their sums.

    A cell is one reviewer in one cluster, as in the table `base`.
    """

    def __init__(self, sums: Tables, scales: Scales) -> None:
        self.scales, k = scales, len(scales.sd)
        self.joint = k <= MAX_JOINT
        shown, base = sums["places"], sums["base"]
        lone = [plain_scores(sums["places_alone"], scales)]
        if "places_again" in sums:
            lone.append(_rounds(sums["places_again"]))
        by_place = shown.subject // n_place_codes(scales.compares)
        self.reviewer = np.unique(np.concatenate([by_place, *(one.reviewer for one in lone)]))
        mine = np.isin(base.subject, self.reviewer)
        tables = [(by_place, shown.cluster), (base.subject[mine], base.cluster[mine])]
        tables += [(one.reviewer, one.cluster) for one in lone]
        width = 1 + int(max(cluster.max(initial=0) for _, cluster in tables))
        keys = [who * width + cluster for who, cluster in tables]
        key = np.unique(np.concatenate(keys))
        at_shown, at_base, *at_lone = (np.searchsorted(key, one) for one in keys)
        self.at, self.cluster = np.searchsorted(self.reviewer, key // width), key % width
        self.starts = np.searchsorted(self.at, np.arange(len(self.reviewer)))
        self.used = np.unique(
            np.concatenate([_places_in(shown, scales.compares), *(one.places for one in lone)])
        )
        self.base = np.zeros((len(key), base.sums.shape[1]))
        self.base[at_base] = base.sums[mine]
        self._add_shown(shown, at_shown, len(key))
        self.others = self._shares(sums["places_others"])
        self.alike = _alike(sums, k)[self.reviewer]
        self._add_plain(lone, at_lone, plain_scores(sums["places_named"], scales))

    def _add_plain(
        self, lone: Sequence[PlainScores], cells: Sequence[Ints], shared: PlainScores
    ) -> None:
        """Add plain scores: of answers with only one reviewer, and of shared ones.

        For shared answers, what a cell adds is relative to the reviewer's own means only, which is
        noisier.
        """
        m, n, p = len(self.reviewer), len(self.at), len(self.used)
        self.n_all, self.plain_xx = self.n.copy(), np.zeros((m, p, p))
        self.plain, self.plain_xy = np.zeros((m, p)), np.zeros((n, p))  # by reviewer, by cell
        for one, at in zip(lone, cells, strict=True):
            weight = one.weights(self.scales)
            self.plain_xx[np.searchsorted(self.reviewer, one.who)] += one.products(
                self.used, weight
            )
            self.n_all += np.bincount(at, one.n, minlength=n)
            by_row = weight[np.searchsorted(one.who, one.reviewer)]
            for i, place in enumerate(self.used.tolist()):
                self.plain_xy[:, i] += np.bincount(at, by_row * one.xy[:, place], minlength=n)
                self.ballots[:, i] += np.bincount(at, one.ballots[:, place], minlength=n)
        self.plain = self._total(self.plain_xy)
        self.is_told = ~self.alike | (np.einsum("rpp->r", self.plain_xx) > FLAT)
        weight, who = shared.weights(self.scales), np.searchsorted(self.reviewer, shared.who)
        self.plain_xx[who] += shared.products(self.used, weight)
        at, by_reviewer = np.searchsorted(self.reviewer, shared.reviewer), np.zeros(m)
        by_reviewer[who] = weight
        for i, place in enumerate(self.used.tolist()):
            given = by_reviewer[at] * shared.xy[:, place]
            self.plain[:, i] += np.bincount(at, given, minlength=m)
        self.plain_xy += by_reviewer[self.at, None] * self._centred_xy()

    def _add_shown(self, shown: Cells, at: Ints, n_cells: int) -> None:
        """Add the sums by position (or two positions of a comparison) to the cells."""
        compares, p = self.scales.compares, len(self.used)
        code = shown.subject % n_place_codes(compares)
        n, y, q, ballots = shown.sums.T
        self.n, self.y, self.q, _ = totals_by(at, shown.sums, n_cells).T
        sides = [(np.searchsorted(self.used, code), 1.0)]
        if compares:
            places = np.divmod(code, N_PLACES)
            signs = (1.0, -1.0)
            sides = [(np.searchsorted(self.used, q), s) for q, s in zip(places, signs, strict=True)]

        def add(values: Floats, odd: bool) -> Floats:
            """Return cells by positions; if `odd`, a rival's position gets the negative."""
            parts = [(at * p + place, (sign if odd else 1.0) * values) for place, sign in sides]
            index, weight = (np.concatenate(part) for part in zip(*parts, strict=True))
            return totals_by(index, weight[:, None], n_cells * p).reshape(n_cells, p)

        self.x, self.xy, self.xq = (add(values, True) for values in (n, y, q))
        self.ballots = add(ballots, False)
        parts = [
            ((at * p + place) * p + theirs, sign * their_sign * n)
            for place, sign in sides
            for theirs, their_sign in sides
        ]
        index, weight = (np.concatenate(part) for part in zip(*parts, strict=True))
        self.xx = totals_by(index, weight[:, None], n_cells * p * p).reshape(n_cells, p, p)

    def _shares(self, table: Cells) -> Floats:
        """Return the others' weights: reviewers × places × others × places.

        In a large panel all others are one entry.
        """
        k, n, p = len(self.scales.sd), len(self.reviewer), len(self.used)
        index, place_at = np.full(k, -1), np.full(N_PLACES, -1)
        index[self.reviewer], place_at[self.used] = np.arange(n), np.arange(p)
        pair, places = np.divmod(table.subject, N_PLACES**2)
        who = index[pair // k]
        other = index[pair % k] if self.joint else np.zeros_like(who)
        mine, theirs = place_at[places // N_PLACES], place_at[places % N_PLACES]
        known = (who >= 0) & (other >= 0) & (mine >= 0) & (theirs >= 0)
        out = np.zeros((n, p, n if self.joint else 1, p))
        (weight,) = table.sums.T
        out[who[known], mine[known], other[known], theirs[known]] = weight[known]
        return out

    # -- equations ---------------------------------------------------------------------------

    def _total(self, by_cell: Floats) -> Floats:
        """Return the sum of each reviewer's cells."""
        total: Floats = np.add.reduceat(by_cell, self.starts, axis=0)
        return total

    def _equation(self, sums: PlaceSums, scale: Floats) -> tuple[Floats, Floats, Floats]:
        """Return both sides of each row's equation, and the part that the scale multiplies."""
        n, x, y, q, xx, xy, xq, _ = sums
        if self.scales.compares:
            return xx, xy - scale[:, None] * xq, xq
        mean = x / np.maximum(n, 1.0)[:, None]
        tilt = xq - mean * q[:, None]
        own = xx - mean[:, :, None] * x[:, None, :]
        return own, xy - mean * y[:, None] - scale[:, None] * tilt, tilt

    def _sums(self, rest: bool) -> PlaceSums:
        """Return sums by reviewer; if `rest`, by cell: its reviewer's sums without that cell."""
        columns = (self.n, self.x, self.y, self.q, self.xx, self.xy, self.xq, self.base)
        parts = [self._total(column) for column in columns]
        if rest:
            parts = [t[self.at] - c for t, c in zip(parts, columns, strict=True)]
        return PlaceSums(*parts)

    def _scale(self, who: Ints, base: Floats) -> tuple[Floats, Floats]:
        scale, prior = self.scales.of_sums(
            self.reviewer[who], name_columns(BaseSums, base).scale_columns()
        )
        return np.nan_to_num(scale), prior

    def solve(self) -> None:
        """Solve for all curves and set `curve` (reviewers × positions, NaN if unknown)."""
        sums = self._sums(rest=False)
        m, p = len(self.reviewer), len(self.used)
        scale, prior = self._scale(np.arange(m), sums.base)
        own, top, tilt = self._equation(sums, scale)
        top = top + self.plain
        weight = np.abs(np.einsum("rpp->rp", sums.xx + self.plain_xx))
        self.present = weight > FLAT * max(float(weight.max(initial=0.0)), 1.0)
        self.own = self._anchor(own + self.plain_xx, weight)
        self.share = self.others  # reviewers, places, others, places
        if not self.scales.compares:
            mean = (sums.x / np.maximum(sums.n, 1.0)[:, None])[:, :, None, None]
            self.share = self.others - mean * self.others.sum(axis=1, keepdims=True)
        rank = np.linalg.matrix_rank(self.own, hermitian=True)
        told = self.is_told & (self.present.sum(axis=1) > 1) & (rank == p)
        self.own[~told] = np.eye(p)
        self.error = np.linalg.solve(self.own, tilt[..., None])[..., 0] * TAU * prior[:, None]
        if self.joint:
            self.curve = self._solve_jointly(scale, top)
        else:
            pooled = self.own.sum(axis=0) - (scale[:, None, None] * self.share[:, :, 0]).sum(axis=0)
            self.pooled = np.linalg.lstsq(pooled, top.sum(axis=0), rcond=FLAT)[0]
            given = top + scale[:, None] * (self.share[:, :, 0] @ self.pooled)
            self.curve = np.linalg.solve(self.own, given[..., None])[..., 0]
        self.curve[~told] = np.nan

    def _solve_jointly(self, scale: Floats, top: Floats) -> Floats:
        m, p = top.shape
        system = -scale[:, None, None, None] * self.share
        system[np.arange(m), :, np.arange(m), :] += self.own
        self.system = system.reshape(m * p, m * p)
        lengths = np.sqrt(np.maximum(np.abs(np.diag(self.system)), FLAT))
        if not np.linalg.cond(self.system / lengths[:, None] / lengths) < MAX_CONDITION:
            return np.full((m, p), np.nan)
        curve: Floats = np.linalg.solve(self.system, top.ravel()).astype(np.float64, copy=False)
        return curve.reshape(m, p)

    def _anchor(self, own: Floats, weight: Floats) -> Floats:
        """Return own products plus terms that fix the curve's mean, and unused positions, at 0."""
        whole = np.maximum(weight.sum(axis=1), 1.0)
        level = weight[:, :, None] * weight[:, None, :] / whole[:, None, None]
        absent = np.where(weight > FLAT * np.maximum(weight.max(initial=0.0), 1.0), 0.0, 1.0)
        return own + level + absent[:, :, None] * np.eye(own.shape[1])

    def _centred_xy(self) -> Floats:
        """Return positions times scores by cell, both minus the reviewer's means."""
        if self.scales.compares:
            return self.xy
        n = np.maximum(self._total(self.n), 1.0)
        mean = (self._total(self.x) / n[:, None])[self.at]
        level = (self._total(self.y) / n)[self.at]
        centred = self.y - level * self.n
        out: Floats = self.xy - mean * centred[:, None] - level[:, None] * self.x
        return out

    def left_out(self) -> Floats:
        """Return, for each cell, its reviewer's curve when the cell's cluster is left out.

        A cluster is left out of all equations at once. The others' weights and the positions of
        plain scores are reduced in proportion: they depend on the design, and change little from
        one cluster to the next.
        """
        sums, who = self._sums(rest=True), self.at
        scale, _ = self._scale(who, sums.base)
        own, top, _ = self._equation(sums, scale)
        part = 1.0 - self.n_all / np.maximum(self._total(self.n_all), 1.0)[who]
        plain_xx = part[:, None, None] * self.plain_xx[who]
        weight = np.abs(np.einsum("rpp->rp", sums.xx + plain_xx))
        own = self._anchor(own + plain_xx, weight)
        top, part = top + self.plain[who] - self.plain_xy, (part * scale)[:, None]
        if not self.joint:
            given = top + part * (self.share[who, :, 0] @ self.pooled)
            singular = np.linalg.matrix_rank(own, hermitian=True) < own.shape[1]
            own[singular] = np.eye(own.shape[1])
            curve: Floats = np.linalg.solve(own, given[..., None])[..., 0]
            curve[singular] = np.nan
            return curve
        told = np.isfinite(self.curve.sum(axis=1))
        clusters, c = np.unique(self.cluster, return_inverse=True)
        every = np.repeat(np.nan_to_num(self.curve)[None], len(clusters), axis=0)
        shape = (len(clusters), -1)  # clusters, reviewers × places
        share, inverse = self.share.reshape(len(self.system), -1), np.linalg.inv(self.system)
        for _ in range(N_STEPS):
            by_others = (every.reshape(shape) @ share.T).reshape(every.shape)
            wrong = top + part * by_others[c, who] - np.einsum("cpq,cq->cp", own, every[c, who])
            step = np.zeros_like(every)
            step[c, who] = np.where(told[who, None], wrong, 0.0)
            every = every + (step.reshape(shape) @ inverse.T).reshape(every.shape)
        without: Floats = every[c, who]
        return without

    # -- estimates -----------------------------------------------------------------------------

    def estimates(self) -> list[PlaceEstimate]:
        """Return the largest contrast of each reviewer's curve."""
        self.solve()
        known = not np.isnan(self.curve).all()
        left_out = self.left_out() if known else np.full_like(self.x, np.nan)
        ballots = self._total(self.ballots).max(axis=1)
        has_rows: Ints = np.flatnonzero(self.n_all)
        ends = np.append(self.starts[1:], len(self.at))
        return [
            self._estimate(i, left_out[rows], ballots[i : i + 1])
            for i, rows in enumerate(np.split(has_rows, np.searchsorted(has_rows, ends)[:-1]))
        ]

    def _estimate(self, i: int, left_out: Floats, n: Floats) -> PlaceEstimate:
        places, who = np.flatnonzero(self.present[i]), self.reviewer[i : i + 1]
        if np.isnan(self.curve[i]).any() or len(places) < 2:
            nothing = JackknifeSpread(np.array([np.nan]), np.array([np.nan]), np.array([2]))
            why = [(np.array([True]), FEW_APART)]
            [one] = measurements(who, who, np.array([np.nan]), nothing, n, self.scales, why)
            return PlaceEstimate(**_fields(one))
        contrasts = contrasts_of(self.used[places].tolist())
        unit = self._unit(i)
        curve, error = unit * self.curve[i, places], unit * self.error[i, places]
        left_out = unit * left_out[:, places]
        values, extra = contrasts.weights @ curve, contrasts.weights @ error
        without = left_out @ contrasts.weights.T
        m, n_clusters = len(values), len(left_out)
        at = np.repeat(np.arange(m), n_clusters)
        spread = spread_of(without.T.ravel(), at, m, extra)
        ratio = np.nan_to_num(np.abs(quotient(values, spread.se)))
        best = int(np.argmax(ratio))
        best_at = slice(best, best + 1)
        one_spread = JackknifeSpread(spread.se[best_at], spread.df[best_at], spread.n_clusters[:1])
        [one] = measurements(who, who, values[best : best + 1], one_spread, n, self.scales, [])
        told = tuple(zip(self.used[places].tolist(), (curve - curve.mean()).tolist(), strict=True))
        largest = PlaceEstimate(**_fields(one), place=contrasts.names[best], curve=told)
        if one.value is None or one.se is None or one.df is None:
            return largest
        gap = left_out - left_out.mean(axis=0)
        covariance = (n_clusters - 1.0) / n_clusters * gap.T @ gap + np.outer(error, error)
        df = float(np.median(spread.df))
        p = _curve_p(curve - curve.mean(), covariance, df, one)
        half = t_critical(contrasts.level, round(one.df, 3)) * one.se
        return replace(largest, low=one.value - half, high=one.value + half, p=p)

    def _unit(self, i: int) -> float:
        """Return the points of a score for one point of a reviewer's curve.

        A curve from comparisons predicts by how much one answer beats one rival. The score of an
        answer is its mean over all rivals: of m answers, m − 1 are at other places, so that a place
        gains m / (m − 1) times what it is above the mean of the curve.
        """
        if not self.scales.compares:
            return 1.0
        mine = self.at == i
        n_rivals = 2.0 * self.n_all[mine].sum()  # of every answer on every ballot
        return 1.0 + float(self.ballots[mine].sum() / max(n_rivals, 1.0))


def _curve_p(curve: Floats, covariance: Floats, df: float, one: Estimate) -> float | None:
    """Return the p of a whole curve by Hotelling's test."""
    n = len(curve)
    centred = np.eye(n) - 1.0 / n
    distance, directions = quadratic_form(curve, centred @ covariance @ centred)
    if directions == 1 and one.value is not None and one.se and one.df:
        return student_t_p(one.value / one.se, one.df)
    if directions == 0 or df <= directions:
        return None
    f = distance * (df + 1.0 - directions) / (directions * df)
    return f_tail(f, directions, df + 1.0 - directions)


def _fields(one: Estimate) -> dict[str, Any]:
    return {name: getattr(one, name) for name in Estimate.__slots__}


def _places_in(shown: Cells, compares: bool) -> Ints:
    """Return the positions that occur in a table by reviewer and position."""
    code = shown.subject % n_place_codes(compares)
    return np.unique(np.concatenate(np.divmod(code, N_PLACES)) if compares else code)


@dataclass(frozen=True, slots=True)
class PlainScores:
    """Plain scores of reviewers by position, relative to their means for that candidate.

    The position of an answer is unrelated to its quality, so the scores of one reviewer alone also
    show its curve. In a balanced square of orders, the position at which a reviewer sees an answer
    determines where the others see it; then only plain scores separate the reviewer's preference
    for that position from the others' preference for theirs.
    """

    reviewer: Ints  # by row
    cluster: Ints
    n: Floats
    xy: Floats  # rows by places
    ballots: Floats
    who: Ints  # the reviewers, each once
    xx: Floats  # reviewers by places by places
    variance: Floats | None  # of a reviewer's scores

    def weights(self, scales: Scales) -> Floats:
        """Return, by reviewer, the weight of a plain score relative to one compared with others."""
        variance = scales.sd[self.who] ** 2 if self.variance is None else self.variance
        both = np.isfinite(scales.level[self.who]) & (variance > 0.0)
        ratio = scales.residual_variance[self.who] / np.where(variance > 0.0, variance, 1.0)
        return np.where(both, np.minimum(1.0, ratio), 1.0)

    def products(self, used: Ints, weight: Floats) -> Floats:
        """Return products of the used positions, weighted by reviewer."""
        out: Floats = weight[:, None, None] * self.xx[:, used][:, :, used]
        return out

    @property
    def places(self) -> Ints:
        """The positions that carry information."""
        return np.flatnonzero(np.einsum("rpp->p", self.xx) > 0.0)


def plain_scores(table: Cells, scales: Scales) -> PlainScores:
    """Return plain scores from sums by reviewer, candidate (or the two compared) and position."""
    k, compares = len(scales.sd), scales.compares
    named, code = np.divmod(table.subject, n_place_codes(compares))
    n, y, *squares_and_ballots = table.sums.T
    _, group = np.unique(named, return_inverse=True)
    size, rows = int(group.max(initial=-1)) + 1, np.arange(len(n))
    sign = np.zeros((len(n), N_PLACES))
    sign[rows, code // N_PLACES if compares else code] = 1.0
    if compares:
        sign[rows, code % N_PLACES] -= 1.0
    count = np.bincount(group, n, minlength=size)
    mean_y = quotient(np.bincount(group, y, minlength=size), count)[group]
    x = sign - quotient(totals_by(group, sign * n[:, None], size), count[:, None])[group]
    centred, reviewer = y - n * mean_y, named // (k * k if compares else k)
    who, at = np.unique(reviewer, return_inverse=True)
    xx = np.zeros((len(who), N_PLACES, N_PLACES))
    used = np.flatnonzero(sign.any(axis=0)).tolist()
    for i in used:
        for j in used:
            xx[:, i, j] = np.bincount(at, n * x[:, i] * x[:, j], minlength=len(who))
    variance, ballots = None, np.zeros_like(sign)
    if squares_and_ballots:
        squares, shown = squares_and_ballots
        yy = squares - 2.0 * mean_y * y + n * mean_y**2
        variance = quotient(np.bincount(at, yy), np.bincount(at, n))
        ballots = np.abs(sign) * shown[:, None]
    xy = x * centred[:, None]
    return PlainScores(reviewer, table.cluster, n, xy, ballots, who, xx, variance)


def _rounds(again: Cells) -> PlainScores:
    """Return scores of answers judged in several rounds, minus their means over the rounds."""
    reviewer, places = np.divmod(again.subject, N_PLACES**2)
    left, right = np.divmod(places, N_PLACES)
    product, given, yy, n = again.sums.T
    xy, rows = np.zeros((again.n, N_PLACES)), np.arange(again.n)
    xy[rows, left] = given
    who, at = np.unique(reviewer, return_inverse=True)
    code = (at * N_PLACES + left) * N_PLACES + right
    xx = totals_by(code, product[:, None], len(who) * N_PLACES**2)
    variance = quotient(np.bincount(at, yy), 0.5 * np.bincount(at, n))  # 2 rounds leave 1 df
    shape = (len(who), N_PLACES, N_PLACES)
    none = np.zeros((again.n, N_PLACES))
    return PlainScores(reviewer, again.cluster, 0.0 * n, xy, none, who, xx.reshape(shape), variance)
