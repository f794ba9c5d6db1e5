"""A judge that says pass or fail against people who do: rates, agreement, pass rates."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from peerage.findings import Bounded, LabelsNeeded, PassRate, Scorecard
from peerage.labels.beyond_chance import ac1, agreement, kappa
from peerage.labels.judged import Judged
from peerage.labels.pass_rates import (
    FEWEST_GROUPS,
    Corrected,
    corrected_share,
    labels_for,
    people_alone,
)
from peerage.labels.rates import complement, rate
from peerage.labels.reliance import RELIED_ON, advice_on_verdicts, too_early
from peerage.reviews.cells import Bools, Floats
from peerage.stats.corrected_means import even_folds
from peerage.stats.tails import beta_tail_below

MOST_LABELS = 1_000_000
ONE_SIDED = 0.05  # the error of the lower end of a rate


def verdict_card(card: Scorecard, judged: Judged, half_width: float) -> Scorecard:
    """Return the card with what belongs to a judge that says pass or fail."""
    there = judged.labelled
    y, j, group = judged.by_people[there], judged.by_judge[there], judged.group[there]
    good, bad = y == 1.0, y == 0.0
    true_pass, true_fail = rate(j[good] == 1.0, group[good]), rate(j[bad] == 0.0, group[bad])
    enough = card.n_groups >= FEWEST_GROUPS
    advice, reason = advice_on_verdicts(j, y, group) if enough else (None, too_early(card.n_groups))
    every = np.ones(len(there), dtype=bool)
    result = _correct(judged, every)
    whole = _pass_rate(judged, every, result)
    first, second = j.astype(np.int64), y.astype(np.int64)
    by_kappa = by_ac1 = None
    if enough:
        by_kappa = agreement(kappa, first, second, 2, group)
        by_ac1 = agreement(ac1, first, second, 2, group)
    warnings = [*card.warnings, *_one_class(good)]
    if by_kappa is not None and by_kappa.high is not None and by_kappa.high < 0.0:
        warnings.append(
            "judge and people agree less than by chance: check that the two columns are not "
            "swapped, and that pass and fail mean the same in both."
        )
    return replace(
        card,
        advice=advice,
        reason=reason,
        warnings=tuple(warnings),
        base_rate=rate(good, group),
        table={
            "both_pass": int((good & (j == 1.0)).sum()),
            "false_pass": int((bad & (j == 1.0)).sum()),
            "false_fail": int((good & (j == 0.0)).sum()),
            "both_fail": int((bad & (j == 0.0)).sum()),
        },
        false_pass_rate=complement(true_fail),
        false_fail_rate=complement(true_pass),
        precision=rate(good[j == 1.0], group[j == 1.0]),
        accuracy=rate(j == y, group),
        constant_guess=float(max(good.mean(), bad.mean())),
        kappa=by_kappa,
        ac1=by_ac1,
        pass_rate=whole,
        by_candidate=_by_candidate(judged),
        labels_needed=_labels_needed(y, j, whole, result, half_width),
    )


def _one_class(good: Floats) -> list[str]:
    if good.all():
        return ["people fail none of these answers, so false passes cannot be seen."]
    return (
        [] if good.any() else ["people pass none of these answers, so false fails cannot be seen."]
    )


def _pass_rate(judged: Judged, chosen: Bools, result: Corrected | None) -> PassRate:
    """Return the pass rate of some answers, of which `result` is the corrected share."""
    known = chosen & np.isfinite(judged.by_judge)
    verdicts, group = judged.by_judge[known], judged.group[known]
    by_people = people_alone(judged.by_people[chosen], judged.group[chosen])
    corrected = result.estimate if result is not None and result.n_others else None
    if corrected is not None and by_people is not None and _width(corrected) >= _width(by_people):
        corrected = None
    return PassRate(
        rate(verdicts == 1.0, group),
        by_people,
        corrected,
        n=int(known.sum()),
        n_labels=int(np.isfinite(judged.by_people[chosen]).sum()),
    )


def _correct(judged: Judged, chosen: Bools) -> Corrected | None:
    """Return the corrected share of some answers, from those with a verdict."""
    known = chosen & np.isfinite(judged.by_judge)
    people, group = judged.by_people[known], judged.group[known]
    groups, code = np.unique(group, return_inverse=True)
    key = np.zeros(len(groups), dtype=np.int64)
    key[code] = judged.fold[known]
    fold = even_folds(code, np.isfinite(people), key)
    return corrected_share(people, judged.by_judge[known], group, fold)


def _width(estimate: Bounded) -> float:
    if estimate.low is None or estimate.high is None:
        return math.inf
    return estimate.high - estimate.low


def _by_candidate(judged: Judged) -> tuple[tuple[str, PassRate], ...]:
    codes = np.unique(judged.candidate[np.isfinite(judged.by_judge)]).tolist()
    if len(codes) < 2:
        return ()
    own = [judged.candidate == c for c in codes]
    rates = [
        (judged.names[c], _pass_rate(judged, some, _correct(judged, some)))
        for c, some in zip(codes, own, strict=True)
    ]
    return tuple(sorted(rates, key=lambda one: (-_value_of(one[1]), one[0])))


def _value_of(pass_rate: PassRate) -> float:
    best = pass_rate.best or pass_rate.judge
    return best.value if best is not None and best.value is not None else -1.0


def _labels_needed(
    y: Floats, j: Floats, whole: PassRate, result: Corrected | None, half_width: float
) -> LabelsNeeded | None:
    shown = whole.best
    if shown is None:
        return None
    used = result if whole.corrected is not None else None
    for_half = labels_for(half_width, whole.n_labels, shown, used)
    return LabelsNeeded(half_width, for_half, _labels_for_trust(y, j))


def _labels_for_trust(y: Floats, j: Floats) -> int | None:
    """Return how many labels `trust` needs if the judge stays as it is; None if it never will."""
    most = 0
    for wanted in (1.0, 0.0):
        of_class = y == wanted
        if not of_class.any():
            return None
        share, part = float((j[of_class] == wanted).mean()), float(of_class.mean())
        if share <= RELIED_ON:
            return None
        low, high = 1, MOST_LABELS
        if not _surely(share, high):
            return None
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if _surely(share, middle) else (middle + 1, high)
        most = max(most, math.ceil(low / part))
    return most


def _surely(share: float, n: int) -> bool:
    """Return whether the lower end of a share of n labels is high enough to be relied on."""
    right = share * n
    return beta_tail_below(RELIED_ON, right, n - right + 1.0) <= ONE_SIDED
