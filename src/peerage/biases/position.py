"""Whether an answer scores higher because of its position: first, last or in between.

A curve over the positions is fitted and tested as a whole. The finding's value is the largest of
its contrasts, one position against all others (or the middle against both ends), with an interval
that is valid for all contrasts at once.

For all reviewers together, scores are centred within session and candidate, so that only answers
count that reviewers saw at different positions. Under the null hypothesis, the orders are dealt
again. A single reviewer is compared with the others on one scale, after removing the others' own
position effects.

Anchoring means that the later answers on a ballot score higher or lower after a good first one.
Their deviation from the others' view of them, on one scale, is regressed on the others' view of the
answer seen first. The first answer is missing from the mean of the later ones, so that mean depends
on it even without anchoring; the expected value under random orders is therefore subtracted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerage.biases import Metric, Panel, Sums, metrics, no_sums
from peerage.biases.places import (
    COINCIDE,
    FEW_APART,
    FLAT,
    ONE_REVIEW,
    PlaceEstimate,
    contrasts_of,
    describe_curve,
    position,
    quadratic_form,
    without_own_order,
)
from peerage.biases.thresholds import Tested, as_tested, unknown, write_signed
from peerage.reviews.cells import (
    Bools,
    Cells,
    Floats,
    Ints,
    Tables,
    name_columns,
    single_cell,
    table_of,
)
from peerage.reviews.comparisons import N_PLACES, View
from peerage.reviews.deviations import AnchorSums, BaseSums
from peerage.reviews.intervals import Estimate, Fit, SubjectCells, interval_of
from peerage.reviews.one_scale import Scales
from peerage.stats.clusters import quotient
from peerage.stats.tails import f_tail, t_critical

NAME = "position"
N_CURVE = 26
MAX_PLACES = 1_024
N_SWEEPS = 20
# -- everyone together ---------------------------------------------------------------------------


def sums(view: View) -> Sums:
    """Return, by position, the sums for the curve and its spread; and a plain curve."""
    e, present = view.ballot.centre(view.centred), places_present(view)
    return {
        "effect": _design(view, e, present),
        **_plain_curve(view, e),
        **spread_sums(view, e, present),
    }


def places_present(view: View) -> Floats:
    """Return ballots × positions: 1 if the ballot has a judged answer there."""
    width = N_PLACES + 1
    code = view.ballot.code * width + view.place + 1
    counts = np.bincount(code, minlength=view.ballot.n * width)
    present = np.ascontiguousarray(counts.reshape(view.ballot.n, width)[:, 1:].T)
    return np.minimum(present, 1).astype(np.float64).T


def _design(view: View, e: Floats, present: Floats) -> Cells:
    """Return, by position, ballots, centred scores, and products with each position's indicator.

    The indicators are centred as the scores are, within answers and then within ballots.
    """
    place, answer, ballot = view.place, view.answer, view.ballot
    seen = present.sum(axis=0)
    used = np.flatnonzero(seen)
    width, column = len(used) + 1, np.zeros(N_PLACES + 1, dtype=np.int64)
    column[used + 1] = np.arange(1, width)
    code = answer.code * width + column[place + 1]
    n = np.bincount(code, minlength=answer.n * width).reshape(answer.n, width)[:, 1:]
    share = n / view.n_by_answer[:, None]
    by_row = np.take(share, answer.code, axis=0)
    by_ballot = np.array([ballot.sum(one) for one in by_row.T]).reshape(len(used), ballot.n).T
    present, shown = present[:, used], present[:, used] / view.n_by_ballot[:, None]
    products = np.diag(seen[used]) - shown.T @ present + shown.T @ by_ballot - share.T @ n
    ballots = present[view.n_by_ballot > 1].sum(axis=0)
    scores = np.bincount(place + 1, e, minlength=N_PLACES + 1)[1:][used]
    by_place = np.zeros((len(used), N_PLACES))
    by_place[:, used] = products
    table = np.column_stack([ballots, scores, by_place])
    return Cells(np.zeros(len(used), dtype=np.int64), used, table)


def _plain_curve(view: View, e: Floats) -> dict[str, Cells]:
    """Return rows and sums of centred scores by position, and products for a correlation."""
    position = view.judged.numbers["position"]
    known = np.isfinite(position)
    at = np.minimum(position[known], N_CURVE).astype(np.int64)
    p, here = view.ballot.centre(np.where(known, position, -1.0)) * known, e * known
    return {
        "curve": table_of(np.zeros_like(at), at, [None, e[known]]),
        "correlation": single_cell((p * p).sum(), (here * here).sum(), (p * here).sum()),
    }


def findings(sums: Sums, panel: Panel) -> list[Tested]:
    """Return the points that answers get for their place on the ballot.

    Of: all reviewers together, and each reviewer.
    Formula: max over places k of |c_k - mean of the other places|, where c_k = mean at place k of
        (score - the candidate's mean in the session); for one reviewer, of (score - the others'
        view). On ranks, the score is the share of rivals on the ballot that the answer beats.
    Counts: ballots.
    Healthy: from -{edge} to +{edge} of the scale, which is the highest score minus the lowest.
    Assumes: that the place of an answer does not depend on its quality. Orders that Peerage made
        are drawn again from the same design; other orders are permuted within ballots, which is
        valid if each ballot was shuffled independently. One test covers all places.
    Fooled by: orders that are sorted by name, length or anything else. If all reviewers see the
        same order and there is no second round, the finding is `not_identifiable`.
    Example: `position, all: 0.519 [0.414, 0.625], n 1002: first place against the others` – the
        answer that is shown first gets half a point too much. Balanced orders, the default, cancel
        this over a season; single ballots stay distorted.
    """
    edge = panel.healthy(NAME) * panel.scale
    everyone = position_of_all(sums)
    null = (
        "the test deals the orders again in the same way"
        if "dealt" in sums
        else "the test permutes orders within ballots, which assumes independent shuffles"
    )
    if everyone.value is None:
        shared = name_columns(BaseSums, panel.compared.sums["base"].sums).n
        alone = everyone.note == COINCIDE and not shared.any()
        why = ONE_REVIEW if alone else everyone.note
        return [unknown(NAME, panel, why, n=everyone.n)]
    words = describe_curve(everyone.place, everyone.curve)
    note = f"{words}; {_correlation_words(sums['correlation'])}; {null}"
    tested = [_test_position(everyone, panel, note, edge, "all")]
    for one in position(panel.compared.sums, panel.compared.scales):
        note = (
            f"{describe_curve(one.place, one.curve)}; relative to what the others give that "
            "position"
        )
        tested.append(_test_position(one, panel, note, edge))
    return tested


def _test_position(
    one: PlaceEstimate, panel: Panel, note: str, edge: float, subject: str | None = None
) -> Tested:
    tested = as_tested(NAME, one, panel, note, subject, edge)
    if tested.error is None:
        return tested
    return replace(tested, error=replace(tested.error, n_places=max(len(one.curve), 2)))


def position_of_all(sums: Sums) -> PlaceEstimate:
    """Return the curve that all reviewers share, tested against orders that are dealt again."""
    effect = sums["effect"]
    ballots, totals, *by_place = effect.sums.T
    n = int(ballots.max(initial=0.0))
    none = (None, None, None, None, n, 0)
    used = effect.cluster[ballots > 0.0]
    if len(used) < 2:
        return PlaceEstimate(0, *none, note="no ballot shows two scored answers at known positions")
    products = np.zeros((N_PLACES, N_PLACES))
    products[effect.cluster] = np.column_stack(by_place)
    products = products[np.ix_(used, used)]
    products = (products + products.T) / 2.0
    top = totals[np.searchsorted(effect.cluster, used)]
    values, vectors = np.linalg.eigh(products)
    free = values > FLAT * max(n, 1)
    if free.sum() < len(used) - 1:
        return PlaceEstimate(0, *none, note=FEW_APART if free.any() else COINCIDE)
    inverse = (vectors[:, free] / values[free]) @ vectors[:, free].T
    spread = dealt_spread(sums)
    variance = spread.variance[np.ix_(used, used)]
    curve = inverse @ top
    curve = curve - curve.mean()
    return _largest(used.tolist(), curve, inverse @ variance @ inverse, top, variance, spread, n)


def _largest(
    places: list[int],
    curve: Floats,
    covariance: Floats,
    top: Floats,
    variance: Floats,
    spread: DealtSpread,
    n: int,
) -> PlaceEstimate:
    """Return the largest contrast of a curve, from its covariance under new deals."""
    contrasts = contrasts_of(places)
    distance, directions = quadratic_form(top, variance)
    df = spread.dimensions - directions
    rest = 1.0 - distance / spread.dimensions if spread.dimensions > 0.0 else 0.0
    told = tuple(zip(places, curve.tolist(), strict=True))
    values = contrasts.weights @ curve
    variances = np.einsum("cp,pq,cq->c", contrasts.weights, covariance, contrasts.weights)
    largest = float(np.abs(np.diag(covariance)).max(initial=0.0))
    errors = np.sqrt(np.where(variances > FLAT * largest, variances, 0.0))  # rounding is not spread
    if directions == 0 or df < 0.5 or not (errors > 0.0).all():
        best = int(np.argmax(np.abs(values)))
        value = float(values[best])
        no_test = (None, None, None, n, 0)
        return PlaceEstimate(0, value, *no_test, place=contrasts.names[best], curve=told)
    best = int(np.argmax(np.abs(values / errors)))
    value = float(values[best])
    se = float(errors[best]) * math.sqrt(max(rest, 0.0) * spread.dimensions / df)
    half = t_critical(contrasts.level, round(df, 1)) * se
    p = (
        0.0
        if rest <= 0.0
        else f_tail(distance / spread.dimensions / directions * df / rest, directions, df)
    )
    interval = (value - half, value + half, p)
    name = contrasts.names[best]
    return PlaceEstimate(0, value, *interval, n, 0, se, df, place=name, curve=told)


def curve_of(cells: Cells) -> list[tuple[int, float, int]]:
    """Return the position, mean centred score and row count of each position that was used."""
    n, total = cells.sums.T
    columns = (cells.cluster, total / n, n.astype(np.int64))
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _correlation_words(cells: Cells) -> str:
    ((pp, ee, pe),) = cells.sums
    r = float(pe / np.sqrt(pp * ee)) if pp > 0.0 and ee > 0.0 else None
    return f"position–score r {write_signed(r)}"


# -- the null: orders are dealt again, and everything else stays ----------------------------------
#
# The scores e of a ballot have mean zero, and the statistic of a place is the sum of e over the
# rows at that place. A new deal changes only the places, so the mean and the covariance of these
# statistics over all deals follow from sums of e, and no deal has to be drawn:
#
# - independent shuffles: each row of a ballot is equally likely at each place, and ballots are
#   independent, so that their covariances add up. With s² = Σe² / (n − 1), the covariance of one
#   ballot is s²(I − 1/n) over its places;
# - balanced squares: all ballots of one deal share one square, and a new draw permutes its rows
#   and symbols. With E the sums of e by row of the square and candidate, doubly centred, and X_p
#   the same for the indicator of a place, the covariance of two places is ΣE² · ΣX_p·X_q divided
#   by the number of directions, (n − 1)² (Hoeffding, for one place). Treating such ballots as
#   shuffles gives false alarms, since the square balances what a shuffle leaves to chance.
#
# A small square has few permutations, so the spread estimated from it is itself uncertain. Under
# the null hypothesis, the share of E that lies along the places is that of a random direction,
# which an F test checks. (A reviewer's own answer is missing from its squares, which leaves fewer
# directions.)


def spread_sums(view: View, value: Floats, present: Floats) -> dict[str, Cells]:
    """Return sums for the covariance under new deals: of shuffled ballots, and of squares."""
    place, n = view.place, view.n_by_ballot
    dealt, row = _dealt(view)
    squares = quotient(view.ballot.sum(value * value), n - 1.0)
    several = present.sum(axis=1) > 1.0
    free = several if not dealt.any() else several & ~view.ballot.first(dealt)
    squares = np.where(free, squares, 0.0)
    shown = present * squares[:, None]
    variance = np.diag(shown.sum(axis=0)) - shown.T @ (present / n[:, None])
    everywhere = np.arange(N_PLACES)
    tables = {
        "free": Cells(np.zeros_like(everywhere), everywhere, variance),
        "free_dimensions": single_cell(((n - 1.0) * free).sum()),
    }
    if dealt.any():
        # The sums of values by deal, and by candidate, row of the square and place.
        cell = view.judged.candidate[dealt].astype(np.int64) * MAX_PLACES + row[dealt]
        cell = cell * N_PLACES + place[dealt]
        tables["dealt"] = table_of(view.judged.keys["deal"][dealt], cell, [value[dealt]])
    return tables


def _dealt(view: View) -> tuple[Bools, Ints]:
    """Return which rows come from a balanced deal, and their ballot's row of the square."""
    rows, every = view.judged, view.all
    if "deal" not in rows.keys or "place" not in rows.numbers:
        return np.zeros(rows.n, dtype=bool), np.zeros(rows.n, dtype=np.int64)
    position, place = every.numbers["position"], rows.numbers["place"]
    known = np.isfinite(position)
    n_shown = np.ones(every.n_sessions, dtype=np.int64)  # own and unscored answers included
    np.maximum.at(n_shown, every.session[known], position[known].astype(np.int64) + 1)
    width = n_shown[rows.session]
    dealt = (rows.keys["deal"] >= 0) & (width <= MAX_PLACES) & np.isfinite(place)
    dealt &= np.isfinite(rows.numbers["position"])
    return dealt, np.where(dealt, place, 0.0).astype(np.int64) % width


@dataclass(frozen=True, slots=True)
class DealtSpread:
    """The covariance of position statistics under new deals, and its effective dimensions."""

    variance: Floats  # places by places
    dimensions: float


def dealt_spread(sums: Tables) -> DealtSpread:
    """Return the spread of the statistics over all possible deals."""
    free = sums["free"]
    variance = np.zeros((N_PLACES, N_PLACES))
    variance[free.cluster] = free.sums
    parts = [(variance, float(sums["free_dimensions"].sums.sum()))]
    if "dealt" in sums:
        parts += _squares(sums["dealt"])
    total = np.sum([v for v, _ in parts], axis=0)
    sizes = [(float(np.trace(v)), d) for v, d in parts]
    shared = sum(v * v / d for v, d in sizes if d > 0)
    whole = float(np.trace(total))
    return DealtSpread(total, whole * whole / shared if shared > 0.0 else 0.0)


def _squares(dealt: Cells) -> list[tuple[Floats, float]]:
    """Return the covariance and dimensions of each deal's square."""
    cell, shown_at = np.divmod(dealt.cluster, N_PLACES)
    candidate, place = np.divmod(cell, MAX_PLACES)
    (value,) = dealt.sums.T
    parts = []
    for deal in np.unique(dealt.subject):
        mine = dealt.subject == deal
        rows, i = np.unique(place[mine], return_inverse=True)
        names, j = np.unique(candidate[mine], return_inverse=True)
        sums, filled = np.zeros((2, len(rows), len(names)))
        np.add.at(sums, (i, j), value[mine])
        filled[i, j] = 1.0
        size = filled.sum() - len(rows) - len(names) + 1.0
        if size > 0.0:
            spread = float((_doubly_centred(sums, filled) ** 2).sum())
            shown = np.zeros((N_PLACES, filled.size))
            for p in np.unique(shown_at[mine]).tolist():
                here = np.zeros_like(filled)
                here[i[shown_at[mine] == p], j[shown_at[mine] == p]] = 1.0
                shown[p] = _doubly_centred(here, filled).ravel()
            parts.append((spread / size * (shown @ shown.T), float(size)))
    return parts


def _doubly_centred(square: NDArray[Any], filled: Floats) -> Floats:
    """Return the residuals after removing row and column means, over the filled cells."""
    left: Floats = filled * square
    for _ in range(N_SWEEPS):
        for axis in (1, 0):
            mean = left.sum(axis=axis, keepdims=True) / filled.sum(axis=axis, keepdims=True)
            left = left - filled * mean
    return left


metrics.register(NAME)(
    Metric(NAME, ("position",), sums, findings, "the position of each answer on each ballot")
)


# -- anchoring ------------------------------------------------------------------------------------


ANCHORING = "anchoring"
NO_FIRST = "no first answer on a ballot was judged by others too"


def anchoring(sums: Tables, scales: Scales) -> list[Estimate]:
    """Return, by reviewer, the slope of the later answers' deviation on the first one's quality.

    Comparisons give no result: the mean of a full ranking is fixed, so later answers always fall if
    the first is placed high.
    """
    if "anchor" not in sums:
        return []
    cells = SubjectCells(sums["anchor"], sums["base"])

    def slope(own: Floats, fit: Fit, _: bool) -> tuple[Floats, Floats]:
        _n, one, y, q, squares = name_columns(AnchorSums, own)
        squares = np.where(squares > 0.0, squares, 0.0)
        level = quotient(fit.y - fit.scale * fit.q, fit.n)
        tilt = quotient(q - quotient(fit.q, fit.n) * one, squares)
        return quotient(y - level * one - fit.scale * q, squares), tilt

    same = np.isin(cells.subject, without_own_order(sums, scales))
    totals = name_columns(AnchorSums, cells.totals)
    reasons = [
        (same, "all reviewers saw the answers in the same order, so all have the same anchor"),
        (totals.squares <= 0.0, "first answers do not differ in quality beyond noise"),
    ]
    return cells.measure(slope, totals.n, scales, reasons)


def pooled_slope(slopes: Sequence[Estimate]) -> Estimate | None:
    """Return the mean of the reviewers' slopes, weighted by precision; None if none is known."""
    known = [one for one in slopes if one.value is not None and one.se and one.df]
    if not known:
        return None
    weight = np.array([1.0 / one.se**2 for one in known if one.se])
    value = float((weight * [one.value for one in known]).sum() / weight.sum())
    se, df = float(weight.sum() ** -0.5), float(sum(one.df for one in known if one.df))
    n, most = sum(one.n for one in known), max(one.n_clusters for one in known)
    return Estimate(0, value, *interval_of(value, most, se, df), n, most, se, df)


def anchoring_findings(_: Sums, panel: Panel) -> list[Tested]:
    """Return how the quality of the first answer changes the scores of the later ones.

    Of: all reviewers together, and each reviewer.
    Formula: slope of d on q, where d = mean over the later answers of score - the others' view of
        them, and q = the others' view of the first answer
    Counts: ballots.
    Healthy: from -{edge} to +{edge} points for each point of the first answer.
    Assumes: orders that are random and differ between reviewers. It needs scores, because the mean
        of a ranking is fixed.
    Fooled by: orders that follow quality.
    Example: `anchoring, all: -0.332 [-0.367, -0.297], n 1001` – after a first answer that is one
        point better, every later answer gets a third of a point less. Put fewer answers on a
        ballot, or run two rounds.
    """
    if panel.ranks_only:
        why = "the mean of a ranking is fixed: later answers fall if the first is placed high"
        return [unknown(ANCHORING, panel, why)]
    slopes = anchoring(panel.compared.sums, panel.compared.scales)
    if not slopes:
        return []
    everyone = pooled_slope(slopes)
    if everyone is None:
        return [unknown(ANCHORING, panel, slopes[0].note, n=sum(one.n for one in slopes))]
    note = "points on the later answers per point of the first one's quality"
    edge = panel.healthy(ANCHORING)
    return [
        as_tested(ANCHORING, everyone, panel, note, "all", edge),
        *(as_tested(ANCHORING, one, panel, note, edge=edge) for one in slopes),
    ]


POSITIONS = "the position of each answer on each ballot"
metrics.register(ANCHORING)(
    Metric(ANCHORING, ("position",), no_sums, anchoring_findings, POSITIONS, nothing=NO_FIRST)
)
