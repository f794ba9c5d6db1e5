"""Whether a reviewer favours its own answers, its family's, or one candidate's.

Every reviewer differs from the others on each candidate a little, and permanently: it has tastes.
Its mean departure on a group of answers is compared with what its departures on other candidates
predict, and with their spread. A reviewer that likes its own answers as much as it likes some other
model's does not show self-preference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from peerage.biases import Metric, Panel, Sums, metrics, no_sums
from peerage.biases.taste_spread import FEW_PAIRS, Spread, TasteScatter, UsualDeparture
from peerage.biases.thresholds import Tested, as_tested, unknown
from peerage.reviews.cells import Bools, Cells, Floats, Ints, Tables, name_columns
from peerage.reviews.deviations import BaseSums, FamilySums, PairSums
from peerage.reviews.intervals import (
    ONE_OTHER,
    Estimate,
    Fit,
    SubjectCells,
    fit_of,
    has_one_other,
    interval_of,
    measurements,
)
from peerage.reviews.one_scale import TAU, Scales
from peerage.stats.clusters import quotient, spread_of

OWN, FAMILY, PAIR = "self_preference", "family_preference", "pair_departure"
FAR_Q = 2.0  # how far a group's quality may lie from the fitted answers' mean, in their sds
FAR_UNBENT = 1.0  # the same if too few candidates show whether the reviewer's scale is curved
EXTREME_Q = 1.5  # how far a candidate's quality may lie from the others', in their sds
APART_Q = 0.25  # candidates whose qualities differ by less, in answers' sds, are alike
N_BENT = 7  # with this many other candidates, a curvature of the scale is fitted
# A preference for several models also moves the reviewer's level, scale and spread of tastes: what
# the errors tell is found in 35 to 73% of simulated audits, and 1.3 times that in 78 to 98%.
FAMILY_DILUTION = 1.3
BEND_RIDGE = 0.1  # holds slope and curvature at 0 if candidates hardly differ in quality
N_CANDIDATES = 6  # with fewer, a preference cannot be separated from a taste

NOBODY_ELSE = "judged no other candidate's answers, so nothing can be compared"
TOO_FAR = "these answers lie outside the qualities that the reviewer's scale was fitted on"
NO_OWN = "no answer was reviewed both by its author and by others who can be compared"
NO_KIN = "no two seats of one family reviewed each other, together with two others"
FEW_CANDIDATES = (
    f"fewer than {N_CANDIDATES} candidates: a preference cannot be separated from a taste"
)
FEW_PAIRS_TELL = "too few other pairs to measure the usual tastes"
EXTREME = (
    f"the candidate's quality is more than {EXTREME_Q} sd from the other candidates': a scale or a "
    "taste that bends with quality looks the same"
)
ASSUMED = "the reviewer's scale is assumed"


# -- departures and tastes -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tastes:
    """How far each reviewer's scores for each candidate depart from the other reviewers' scores.

    `scatter` has the spread of the lasting part of the departures, of all reviewers and of each.
    """

    own: list[Estimate]
    pairs: list[Estimate]
    departures: list[Estimate]  # of the same pairs; their errors do not include tastes
    own_departures: list[Estimate]  # the same for own answers; the subject is still a pair
    scatter: TasteScatter
    n_candidates: dict[int, int] = field(default_factory=dict)  # by reviewer, its own among them
    untold: frozenset[int] = frozenset()  # pairs with too few other pairs to show what is usual
    extreme: frozenset[int] = frozenset()  # pairs with a far better or worse candidate than others

    @property
    def spread(self) -> float:
        """The spread of the tastes of all reviewers, in units of their own sd of scores."""
        return self.scatter.all.sd

    @property
    def known(self) -> bool:
        """Whether the data show that spread; if not, a usual value is assumed."""
        return self.scatter.all.is_known


def measure_tastes(sums: Tables, scales: Scales, n_min: int = 0) -> Tastes:
    """Return departures on own answers and on every candidate, with tastes in their errors.

    Pairs with fewer reviews than n_min are left out.
    """
    departures = _Departures(sums, scales, n_min)
    estimates, parts = departures.estimates()
    scatter = TasteScatter(_usual_departures(estimates, parts, departures))
    k, own, pairs, plain, plain_own = len(scales.sd), [], [], [], []
    untold = set[int]()
    for one, part in zip(estimates, parts, strict=True):
        reviewer, candidate = divmod(one.subject, k)
        if reviewer == candidate:
            tasted = with_tastes(one, scatter.for_own_answers(reviewer), 1.0 + part)
            own.append(replace(tasted, subject=reviewer))
            plain_own.append(one)
        else:
            spread = scatter.for_pair(reviewer, candidate)
            untold |= set() if spread.is_known else {one.subject}
            pairs.append(with_tastes(one, spread, 1.0 + part))
            plain.append(one)
    pair_sets = frozenset(untold), departures.extreme_pairs()
    return Tastes(own, pairs, plain, plain_own, scatter, departures.n_candidates, *pair_sets)


def _usual_departures(
    estimates: Sequence[Estimate], parts: Sequence[float], departures: _Departures
) -> list[UsualDeparture]:
    """Return the departures that show the spread of tastes, in the reviewers' own units."""
    k = len(departures.scales.sd)
    return [
        UsualDeparture(
            *divmod(one.subject, k),
            (one.value / one.unit) ** 2 / (1.0 + part),
            (one.se / one.unit) ** 2 / (1.0 + part),
        )
        for one, part, is_usual in zip(estimates, parts, departures.usual.tolist(), strict=True)
        if is_usual and one.value is not None and one.se is not None and one.unit > 0.0
    ]


def with_tastes(one: Estimate, spread: Spread, size: float) -> Estimate:
    """Return an estimate whose error includes tastes: `size` times their variance.

    Satterthwaite's formula gives the degrees of freedom of the two variances together.
    """
    if one.value is None or one.se is None or one.df is None or spread.sd == 0.0:
        return one
    sampled, tastes = one.se**2, size * (spread.sd * one.unit) ** 2
    se = math.sqrt(sampled + tastes)
    shared = sampled**2 / one.df + (0.0 if math.isinf(spread.df) else tastes**2 / spread.df)
    df = (sampled + tastes) ** 2 / shared if shared > 0.0 else one.df
    low, high, p = interval_of(one.value, one.n_clusters, se, df)
    return replace(one, low=low, high=high, p=p, se=se, df=df, se_sessions=one.se)


class _Departures:
    """Mean departures by reviewer and candidate, minus the prediction from other candidates."""

    def __init__(self, sums: Tables, scales: Scales, n_min: int) -> None:
        k = len(scales.sd)
        table = sums["pairs"]
        is_own = table.subject // k == table.subject % k
        if n_min:
            subject, place = np.unique(table.subject, return_inverse=True)
            ballots = name_columns(PairSums, table.sums).ballots
            n = np.bincount(place, ballots, minlength=len(subject))
            table = table.only((n >= n_min)[place] | is_own)
        self.scales, self.cells = scales, SubjectCells(table, sums["base"], k)
        subject = self.cells.subject
        self.is_own = subject // k == subject % k
        self.usual: Bools = ~self.is_own & ~np.isin(subject, scales.aside)
        cast = sums["cast"]
        self.one_other = has_one_other(cast.sums[np.searchsorted(cast.subject, subject)])
        others = np.bincount(self.cells.reviewer, ~self.is_own, minlength=k)
        self.n_candidates = {who: int(others[who]) + 1 for who in np.unique(self.cells.reviewer)}

    def estimates(self) -> tuple[list[Estimate], list[float]]:
        """Return every departure, and the sum of squared weights in its prediction."""
        cells, scales = self.cells, self.scales
        if len(cells.subject) == 0:
            return [], []
        fit = fit_of(cells.reviewer, cells.base_totals, scales)
        value, quality = self._mean(cells.totals, fit.scale, None)
        rest = fit_of(cells.base.subject, cells.base_rest, scales)
        without, _ = self._mean(
            cells.totals[cells.place] - cells.own, rest.scale[cells.cell], cells.place
        )
        n = len(value)
        gap, part, nobody = np.zeros(n), np.zeros(n), np.zeros(n, dtype=bool)
        ends = np.searchsorted(cells.place, np.arange(n + 1))
        starts = np.flatnonzero(np.r_[True, np.diff(cells.reviewer) != 0])
        for start, end in zip(starts, np.append(starts[1:], n), strict=True):
            mine = slice(start, end)
            weights = self._weights(mine, quality[mine])
            here = slice(ends[start], ends[end])
            left_out = without[here].reshape(end - start, -1)
            value[mine] -= weights @ value[mine]
            without[here] = (left_out - weights @ left_out).ravel()
            gap[mine] = quality[mine] - weights @ quality[mine]
            part[mine] = (weights**2).sum(axis=1)
            nobody[mine] = ~self.usual[mine].any() | (
                (self.usual[mine].sum() == 1) & self.usual[mine]
            )
        error = np.abs(gap) * TAU * np.hypot(fit.prior, scales.prior_of_others)
        spread = spread_of(without, cells.place, n, error)
        alone = np.array(scales.status, dtype=object)[cells.reviewer] == "alone"
        reasons = [
            (alone, "judged no answer that others judged too"),
            (self.one_other, ONE_OTHER),
            (nobody, NOBODY_ELSE),
            (self._too_far(quality), TOO_FAR),
        ]
        n_rows = name_columns(PairSums, cells.totals).ballots
        measured = measurements(
            cells.subject, cells.reviewer, value, spread, n_rows, scales, reasons
        )
        return measured, part.tolist()

    def extreme_pairs(self) -> frozenset[int]:
        """Return pairs whose candidate is far better or worse than the reviewer's other ones."""
        table, reviewer = name_columns(PairSums, self.cells.totals), self.cells.reviewer
        if self.scales.compares or len(reviewer) == 0:
            return frozenset()
        quality, answers_sd = quotient(table.q, table.n), self._quality_spread()[1]
        n_names = len(self.scales.sd)
        used = self.usual & np.isfinite(quality)
        who, q = reviewer[used], quality[used]
        n = np.maximum(np.bincount(who, minlength=n_names), 1)
        mean = np.bincount(who, q, minlength=n_names) / n
        sd = np.sqrt(np.bincount(who, (q - mean[who]) ** 2, minlength=n_names) / n)
        apart = np.where(sd[reviewer] > APART_Q * answers_sd, sd[reviewer], math.inf)
        is_far = ~self.is_own & (np.abs(quality - mean[reviewer]) > EXTREME_Q * apart)
        return frozenset(self.cells.subject[is_far].tolist())

    def _mean(self, own: Floats, scale: Floats, place: Ints | None) -> tuple[Floats, Floats]:
        """Return the mean deviation and the mean quality of each group.

        In comparisons, one candidate's gain is the loss of the reviewer's other candidates: among m
        answers each of the others loses 1/(m − 1) of it, so the difference is m/(m − 1) times the
        gain.
        """
        n, y, q, ballots = name_columns(PairSums, own)
        factor = np.ones_like(n)
        if self.scales.compares:
            is_pair = ~self.is_own if place is None else ~self.is_own[place]
            factor = 1.0 + np.where(is_pair, quotient(ballots, n), 0.0)
        quality = factor * quotient(q, n)
        return factor * quotient(y, n) - scale * quality, quality

    def _weights(self, mine: slice, quality: Floats) -> Floats:
        """Return the weights of a reviewer's other departures in each prediction.

        The prediction is the mean of the other departures, weighted by reviews. From N_BENT
        candidates on it also has a linear and a quadratic term in their quality, because a curved
        scale makes good and bad models look favoured. A comparison is already relative to another
        candidate, and needs no mean.
        """
        usual, n = self.usual[mine], name_columns(PairSums, self.cells.totals[mine]).n
        m, compares = len(n), self.scales.compares
        weight = np.where(usual & np.isfinite(quality), n, 0.0)
        others = np.repeat(weight[None], m, axis=0)
        np.fill_diagonal(others, 0.0)  # nothing predicts itself
        size = others.sum(axis=1, keepdims=True)
        others = others / np.where(size > 0.0, size, 1.0)
        bent = (others > 0.0).sum(axis=1) >= N_BENT - usual
        if not bent.any():
            return np.zeros((m, m)) if compares else others
        z = np.nan_to_num(quality) / self._quality_sd(mine)
        bend = np.column_stack([z, z * z])
        bend = bend - np.average(bend, axis=0, weights=np.maximum(weight, 1e-12))
        design = bend if compares else np.column_stack([np.ones(m), bend])
        ridge = np.diag([BEND_RIDGE] * 2 if compares else [0.0, BEND_RIDGE, BEND_RIDGE])
        out = np.zeros((m, m)) if compares else others.copy()
        count = np.maximum((others > 0.0).sum(axis=1), 1)
        for t in np.flatnonzero(bent).tolist():
            scaled = others[t] * count[t]
            gram = design.T @ (design * scaled[:, None]) + ridge
            out[t] = design[t] @ np.linalg.solve(gram, design.T * scaled)
        return out

    def _quality_sd(self, mine: slice) -> float:
        """Return the standard deviation of the qualities on which a reviewer's scale was fitted."""
        sd = float(self._quality_spread()[1][mine][0])
        return sd if sd > 0.0 else 1.0

    def _quality_spread(self) -> tuple[Floats, Floats]:
        """Return, by subject, the mean and the standard deviation of the fitted qualities."""
        return _quality_spread(name_columns(BaseSums, self.cells.base_totals), self.scales)

    def _too_far(self, quality: Floats) -> Bools:
        """Return whether a group's mean quality lies outside the range of the fitted scale.

        For own answers the range is half as wide if there are too few candidates to show whether
        the scale is curved.
        """
        centre, sd = self._quality_spread()
        n_others = np.array([self.n_candidates[who] - 1 for who in self.cells.reviewer.tolist()])
        reach = np.where(self.is_own & (n_others < N_BENT), FAR_UNBENT, FAR_Q)
        return np.abs(quality - centre) > reach * sd


def _quality_spread(base: BaseSums, scales: Scales) -> tuple[Floats, Floats]:
    """Return the mean and the standard deviation of the qualities on which scales were fitted."""
    centre = np.zeros_like(base.n2) if scales.compares else quotient(base.q2, base.n2)
    return centre, np.sqrt(np.maximum(quotient(base.qq2, base.n2) - centre**2, 0.0))


# -- findings ------------------------------------------------------------------------------------


def own_findings(_: Sums, panel: Panel) -> list[Tested]:
    """Return how much each reviewer prefers its own answers, and the panel on average.

    Of: each reviewer, and all reviewers together.
    Formula: mean of d over own answers - mean of d over all other answers, where d = score - (level
        + scale × the others' view); compared with the spread of the reviewer's tastes for other
        models
    Counts: own answers that it judged.
    Healthy: from -{edge} to +{edge} standard deviations of the reviewer's scores.
    Assumes: that votes for own answers are in the table, that the quality of own answers is within
        the range on which the scale was fitted, and that tastes for oneself vary as much as tastes
        for others. With fewer than six candidates the status is at most `indicator`.
    Fooled by: a reviewer that is right about its own answers, and others who all underrate it.
    Example: `self_preference, magpie: 2.48 [2.16, 2.81], n 60` – magpie gives its own answers 2.5
        points more than the others give them. Own votes are left out by default, so the board is
        not affected.
    """
    tastes, scales = panel.compared.tastes, panel.compared.scales
    note = f"own answers, relative to the others' view of them; {_usual(tastes)}"
    own = [one for one in tastes.own if one.n > 0]
    each = [
        _limit_status(as_tested(OWN, one, panel, note), panel, one.subject, tastes) for one in own
    ]
    everyone = preference_of_all(own, tastes)
    if everyone is None:
        return each
    note = "mean over reviewers, each in its own standard deviations; tested over reviewers"
    tested = as_tested(OWN, everyone, panel, note, "all", panel.healthy(OWN))
    assumed = sum(scales.is_assumed(one.subject) for one in own if one.value is not None)
    if 2 * assumed > len(own):
        tested = replace(tested, at_most_indicator=True, note=f"{note}; scales are assumed")
    return [tested, *each]


def preference_of_all(own: Sequence[Estimate], tastes: Tastes) -> Estimate | None:
    """Return the standardised mean preference for own answers; None with fewer than 3 reviewers.

    Its standard error is that of a mean over reviewers, so it includes tastes. It combines the
    spread of these preferences with the spread of tastes for other models, if that is known; the
    latter gets at most twice the weight.
    """
    known = [one for one in own if one.value is not None and one.unit > 0.0]
    if len(known) < 3:
        return None
    values = np.array([(one.value or 0.0) / one.unit for one in known])
    n, value = len(values), float(values.mean())
    variance, df = float(values.var(ddof=1)), n - 1.0
    if tastes.known:
        usual = float(np.mean([((one.se or 0.0) / one.unit) ** 2 for one in known]))
        df_usual = min(tastes.scatter.all.df, 2.0 * df)
        variance, df = (df * variance + df_usual * usual) / (df + df_usual), df + df_usual
    se = math.sqrt(variance / n)
    total, clusters = sum(one.n for one in known), max(one.n_clusters for one in known)
    sampled = [((one.se_sessions or one.se or 0.0) / one.unit) ** 2 for one in known]
    of_sessions = min(se, math.sqrt(sum(sampled)) / n)
    interval = interval_of(value, n, se, df)
    return Estimate(0, value, *interval, total, clusters, se, df, se_sessions=of_sessions)


def family_findings(_: Sums, panel: Panel) -> list[Tested]:
    """Return how much each reviewer prefers the answers of its own family of models.

    Of: each reviewer.
    Formula: mean of d over the family's answers - mean of d over all other answers, where d = score
        - (level + scale × the view of reviewers outside the family); compared with the spread of
        its tastes
    Counts: reviews of the family's answers.
    Healthy: from -{edge} to +{edge} standard deviations of the reviewer's scores.
    Assumes: the column `family`, and at least two reviewers outside the family. With fewer than six
        candidates the status is at most `indicator`.
    Fooled by: a reviewer that is right about its family, and reviewers outside it who all underrate
        it.
    Example: `family_preference, a: 0.815 [0.725, 0.905], n 200` – a gives the answers of its family
        .8 points more than reviewers outside the family do. Seat reviewers of other families, or
        compare the board `--without a`.
    """
    compared, tastes = panel.compared, panel.compared.tastes
    note = (
        "its family's answers, relative to the view of reviewers outside the family; "
        f"{_usual(tastes)}"
    )
    measured = family_preference(compared.sums, compared.scales, tastes)
    tested = (
        _limit_status(as_tested(FAMILY, one, panel, note), panel, one.subject, tastes)
        for one in measured
    )
    return [replace(one, dilution=FAMILY_DILUTION) for one in tested]


def pair_findings(_: Sums, panel: Panel) -> list[Tested]:
    """Return how far each reviewer departs from the others on each candidate.

    Of: each pair of a reviewer and a candidate.
    Formula: mean of d over the candidate's answers, where d = score - (level + scale × the others'
        view); compared with the spread of tastes. Earlier versions called this `sycophancy`.
    Counts: reviews of the pair.
    Healthy: from -{edge} to +{edge} standard deviations of the reviewer's scores.
    Assumes: two other reviewers of those answers, and three candidates.
    Fooled by: a reviewer that is right while all others are wrong.
    Example: `pair_departure, a>c: 1.27 [1.18, 1.35], n 200` – a gives c 1.3 points more than the
        others give the same answers, far beyond its usual tastes. Read some of these reviews, and
        compare the board `--without a`.
    """
    n_min, names, compared = panel.n_min(PAIR), panel.names, panel.compared
    tastes = compared.tastes
    many = len(np.unique(compared.sums["pairs"].subject)) > FEW_PAIRS
    note = f"relative to the reviewer's level and scale and the others' view; {_usual(tastes)}"
    tested = []
    for one in tastes.pairs:
        if one.n >= n_min or not many:
            reviewer, candidate = divmod(one.subject, len(names))
            pair = f"{names[reviewer]}>{names[candidate]}"
            departure = _limit_status(
                as_tested(PAIR, one, panel, note, pair), panel, reviewer, tastes
            )
            whys = ((tastes.untold, FEW_PAIRS_TELL), (tastes.extreme, EXTREME))
            why = [reason for pairs, reason in whys if one.subject in pairs]
            if why and not departure.not_identifiable:
                told = "; ".join([departure.note, *why])
                departure = replace(departure, at_most_indicator=True, note=told)
            tested.append(departure)
    reason = f"no pair has {n_min} reviews" if many else "needs three candidates or more a ballot"
    return tested or [unknown(PAIR, panel, reason)]


def _usual(tastes: Tastes) -> str:
    if not tastes.known:
        return f"assumed spread of tastes: {tastes.spread:.2f} sd, the usual value"
    return f"spread of tastes: {tastes.spread:.2f} of a reviewer's sd"


def _limit_status(tested: Tested, panel: Panel, reviewer: int, tastes: Tastes) -> Tested:
    """Return a finding, at most an indicator if tastes or scales are not known precisely."""
    why = []
    if tested.metric != PAIR and tastes.n_candidates.get(reviewer, 0) < N_CANDIDATES:
        why.append(FEW_CANDIDATES)
    if panel.compared.scales.is_assumed(reviewer):
        why.append(ASSUMED)
    if not why or tested.not_identifiable:
        return tested
    return replace(tested, at_most_indicator=True, note="; ".join([tested.note, *why]))


# -- families ------------------------------------------------------------------------------------


def family_preference(sums: Tables, scales: Scales, tastes: Tastes) -> list[Estimate]:
    """Return each reviewer's mean deviation on its family minus that on all other models."""
    if "family" not in sums:
        return []
    family, k = sums["family"], len(scales.sd)
    who = family.subject // (k + 1)
    n_rows = np.bincount(who, name_columns(FamilySums, family.sums).n, minlength=k)
    table, cast = family.only(n_rows[who] > 0.0), sums["family_cast"]
    cells = SubjectCells(Cells(table.subject // (k + 1), table.cluster, table.sums), sums["base"])

    def contrast(own: Floats, fit: Fit, _: bool) -> tuple[Floats, Floats]:
        n, y, q, _ballots, kin_n, kin_y, kin_q = name_columns(FamilySums, own)
        if scales.compares:
            return quotient(y, n) - fit.scale * quotient(q, n), quotient(q, n)
        rest = fit.n - kin_n
        score = quotient(y, n) - quotient(fit.y - kin_y, rest)
        quality = quotient(q, n) - quotient(fit.q - kin_q, rest)
        return score - fit.scale * quality, quality

    own = name_columns(FamilySums, cells.totals)
    base = name_columns(BaseSums, cells.base_totals)
    code = cells.subject * (k + 1)
    centre, sd = _quality_spread(base, scales)
    reasons = [
        (has_one_other(cast.sums[np.searchsorted(cast.subject, code)]), ONE_OTHER),
        (base.n - own.kin_n < 0.5, NOBODY_ELSE),
        (np.abs(quotient(own.q, own.n) - centre) > FAR_UNBENT * sd, TOO_FAR),
    ]
    measured = cells.measure(contrast, own.ballots, scales, reasons)
    reviewer, candidate = np.divmod(sums["kin"].subject, k)
    out = []
    for one in measured:
        kin = np.unique(candidate[reviewer == one.subject]).tolist()
        n_kin = max(len(kin), 1)
        others = max(tastes.n_candidates.get(one.subject, 3) - 1 - n_kin, 1)
        spread = tastes.scatter.for_family(one.subject, kin)
        out.append(with_tastes(one, spread, 1.0 / n_kin + 1.0 / others))
    return out


WHY = "the family of each candidate"
metrics.register(OWN)(Metric(OWN, (), no_sums, own_findings, nothing=NO_OWN))
metrics.register(FAMILY)(Metric(FAMILY, ("family",), no_sums, family_findings, WHY, nothing=NO_KIN))
metrics.register(PAIR)(Metric(PAIR, (), no_sums, pair_findings))
