"""Whether a reviewer is harsh or generous compared with the others, and whether that changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from peerage.biases import Metric, Panel, Sums, metrics
from peerage.biases.preferences import Tastes, with_tastes
from peerage.biases.thresholds import (
    NO_LEVEL,
    Tested,
    as_tested,
    error_of,
    outliers,
    unknown,
    write_range,
)
from peerage.reviews.cells import Floats, Tables, name_columns, table_of
from peerage.reviews.comparisons import WEEK_S, View
from peerage.reviews.deviations import BaseSums, totals_by
from peerage.reviews.intervals import (
    ALONE,
    LEVEL,
    Estimate,
    Fit,
    SubjectCells,
    estimates,
    interval_of,
    mean_of,
    slopes,
)
from peerage.reviews.one_scale import Scales
from peerage.stats.clusters import quotient
from peerage.stats.tails import student_t_p

LEVELS, DRIFT = "calibration", "drift"
FEW_MODELS = 2  # besides its own: with so few, a reviewer's level cannot be told from its tastes
FEW_MODELS_TELL = f"it judges at most {FEW_MODELS} other models, so its tastes look like its level"
MAX_APART = 3  # at most this many outlying reviewers are left out of the others' mean
PER_WEEK = 1.5  # errors shrink as weeks to this power: more weeks mean more and wider-spread times
ONE_WEEK = "all its reviews are from one week"
NO_TIMES = "no review has both a time and another review of the same answer"


def sums(view: View) -> Sums:
    """Return n, y, yy of scores, by reviewer and cluster."""
    y = view.score
    columns = (view.n_by_ballot, view.ballot.sum(y), view.ballot.sum(y * y))
    return {"reviews": view.by_ballot(*columns)}


def findings(sums: Sums, panel: Panel) -> list[Tested]:
    """Return each reviewer's mean score, and how harsh or generous it is.

    Of: each reviewer.
    Formula: level_r - mean of the others' levels, where score = level + scale × quality is fitted
        over the whole table without own answers; the value shown is the mean score
    Counts: reviews.
    Healthy: from -{edge} to +{edge} standard deviations of the reviewer's scores.
    Assumes: that the answers that a reviewer shares with others are like the other answers that it
        judges. Reviewers that evidently differ are left out of the others' mean, the most different
        first and always fewer than half of the panel. If a reviewer judges only two other models,
        the interval contains its tastes for them.
    Fooled by: a preference for one candidate, which also raises the reviewer's mean.
    Example: `calibration, wren: 4.52 [4.37, 4.66], n 300: harsh` – wren gives 4.5 points on
        average, well below the others on the same answers. Boards compare answers within a ballot,
        so this changes no rank.
    """
    names, scales = panel.names, panel.compared.scales
    means = list(estimates(sums["reviews"], mean_of))
    if panel.ranks_only:
        return [unknown(LEVELS, panel, NO_LEVEL, names[one.subject]) for one in means]
    gaps = {
        one.subject: _with_level_tastes(one, panel.compared.tastes, int(scales.voice.sum()))
        for one in calibration(panel.compared.sums, scales)
    }
    words = outliers({one.subject: one.value for one in means if one.value is not None})
    out = []
    for mean in means:
        who = mean.subject
        gap = gaps.get(who)
        alone = gap is None or gap.value is None
        interval = (None, None, None) if gap is None else (gap.value, gap.low, gap.high)
        against = ALONE if gap is None else gap.note
        if not alone:
            against = f"{write_range(*interval)} against the others for an average answer"
            against += f"; {_scale(who, panel)}"
            if has_few_models(who, panel.compared.tastes):
                against += f"; {FEW_MODELS_TELL}"
        word = f"{words[who]}; " if who in words else ""
        note = f"{word}spread {scales.sd[who]:.2f}; {against}"
        out.append(
            replace(
                as_tested(LEVELS, mean, panel, note),
                p=None if gap is None else gap.p,
                n=mean.n if gap is None else gap.n,
                edge=panel.healthy(LEVELS) * float(scales.sd[who]),
                tested=interval,
                not_identifiable=alone,
                error=error_of(gap),
            )
        )
    return out


def has_few_models(who: int, tastes: Tastes) -> bool:
    """Return whether a reviewer judges so few models that its tastes look like its level.

    With three others or more, tastes average out: the healthy range is 2.5 times as wide as what
    they add.
    """
    return 0 < tastes.n_candidates.get(who, 0) - 1 <= FEW_MODELS


def _with_level_tastes(one: Estimate, tastes: Tastes, n_voices: int) -> Estimate:
    """Return a gap to the others whose error includes tastes if there are few models.

    The mean of m tastes has a variance of 1/m of one, and so have those of the others, of whom n
    judged each answer.
    """
    if not has_few_models(one.subject, tastes):
        return one
    m, n_others = tastes.n_candidates[one.subject] - 1, max(n_voices - 2, 1)
    spread = tastes.scatter.for_own_answers(one.subject)
    return with_tastes(one, spread, (1.0 + 1.0 / n_others) / m)


def _scale(who: int, panel: Panel) -> str:
    """Return a reviewer's level and scale in words, with their precision."""
    scales = panel.compared.scales
    level = f"level {scales.level[who]:.2f}"
    if scales.status[who] == "assumed":
        return f"{level}, its scale is unknown: too few answers were shared with two others"
    return f"{level}, scale {scales.scale[who]:.2f} ± {1.96 * scales.scale_se[who]:.2f}"


def calibration(sums: Tables, scales: Scales) -> list[Estimate]:
    """Return how much higher each reviewer scores an average answer than the others do.

    This is the gap to the others on the same answers, adjusted to answers of average quality: a
    reviewer with a wide scale who saw good answers is not generous. When a cluster is left out, the
    average quality is computed without it too.
    """
    if scales.compares:
        return []
    base = sums["base"]
    by_cluster = totals_by(base.cluster, base.sums, int(base.cluster.max(initial=-1)) + 1)
    named = name_columns(BaseSums, by_cluster)
    n, q = named.n, named.q
    average = float(quotient(q.sum(), n.sum()))
    average_without = quotient(q.sum() - q, n.sum() - n)[base.cluster]

    def gap(_: Floats, fit: Fit, left_out: bool) -> tuple[Floats, Floats]:
        level = quotient(fit.y - fit.scale * fit.q - fit.others_level, fit.n)
        wider = fit.scale - quotient(fit.others_scale, fit.n)
        middle = average_without if left_out else average
        return level + wider * middle, middle - quotient(fit.q, fit.n)

    cells = SubjectCells(base, base)
    return without_outliers(cells.measure(gap, name_columns(BaseSums, cells.totals).n, scales))


def without_outliers(gaps: list[Estimate]) -> list[Estimate]:
    """Return gaps to the others' mean, which leaves out the reviewers who clearly deviate.

    If one of three reviewers is harsh by 1.5, each of the two others looks generous by half of
    that. So the furthest reviewer is left out first. Among k reviewers of the same answers, a gap
    is k/(k − 1) times the difference between the reviewer's level and the mean level, so levels
    follow from gaps. More than half of the reviewers always stay in the mean. Standard errors are
    not recomputed, which is conservative.
    """
    known = [one for one in gaps if one.value is not None and one.se and one.df]
    k = len(known)
    value, se = (np.array([getattr(one, name) for one in known]) for name in ("value", "se"))
    level, rest = value * (k - 1.0) / max(k, 1), np.ones(k, dtype=bool)
    while 0 < 2 * (k - rest.sum() + 1) < min(k, 2 * MAX_APART + 2):
        furthest = int(np.argmax(np.where(rest, np.abs(value), -1.0)))
        df = known[furthest].df or 1.0
        p = student_t_p(float(value[furthest] / se[furthest]), df)
        if p is None or p > (1.0 - LEVEL) / k:
            break
        rest[furthest] = False
        value = level - (level[rest].sum() - rest * level) / (rest.sum() - rest)
    if rest.all():
        return gaps
    moved = dict(zip((one.subject for one in known), value.tolist(), strict=True))
    return [_replace_gap(one, moved.get(one.subject)) for one in gaps]


def _replace_gap(one: Estimate, value: float | None) -> Estimate:
    if value is None or one.se is None or one.df is None:
        return one
    low, high, p = interval_of(value, one.n_clusters, one.se, one.df)
    return replace(one, value=value, low=low, high=high, p=p)


# -- over the weeks ----------------------------------------------------------------------------


def week_sums(view: View) -> Sums:
    """Return the number of ballots by reviewer and week."""
    at = view.ballot.first(view.judged.numbers["at"])
    known = np.isfinite(at)
    week = np.floor(at[known] / WEEK_S).astype(np.int64)
    return {"weeks": table_of(view.ballot_reviewer[known], np.maximum(week, 0), [None])}


def drift(sums: Tables, scales: Scales) -> list[Estimate]:
    """Return how much each reviewer's deviation from the others changes per week."""
    return slopes(sums["week"], sums, scales, 1.0, ONE_WEEK) if "week" in sums else []


def drift_findings(sums: Sums, panel: Panel) -> list[Tested]:
    """Return how much harsher or more generous each reviewer becomes from week to week.

    Of: each reviewer.
    Formula: slope of d on the week, where d = score - (level + scale × the others' view)
    Counts: weeks.
    Healthy: from -{edge} to +{edge} standard deviations of the reviewer's scores a week.
    Assumes: that the others do not move, and that each review has its time.
    Fooled by: a drift that all reviewers share, which cannot be seen, and a change of the
        questions.
    Example: `drift, b: 0.239 [0.22, 0.259], n 8` – over eight weeks b became more generous by a
        quarter of a point each week. Pin the version of the model.
    """
    if panel.ranks_only:
        return [unknown(DRIFT, panel, NO_LEVEL)]
    n_weeks = dict(zip(*np.unique(sums["weeks"].subject, return_counts=True), strict=True))
    note = "points per week relative to the others; a drift that all reviewers share is not visible"
    out = []
    for one in drift(panel.compared.sums, panel.compared.scales):
        tested = as_tested(DRIFT, one, panel, note)
        error = None if tested.error is None else replace(tested.error, per_n=PER_WEEK)
        out.append(replace(tested, n=int(n_weeks.get(one.subject, 0)), error=error))
    return out


metrics.register(LEVELS)(Metric(LEVELS, (), sums, findings))
metrics.register(DRIFT)(
    Metric(DRIFT, ("at",), week_sums, drift_findings, "the time of each review", nothing=NO_TIMES)
)
