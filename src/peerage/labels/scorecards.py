"""The scorecard of a judge against people: how far it agrees, and whether to rely on it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from peerage.findings import Advice, Bounded, CutOff, Scorecard
from peerage.labels.beyond_chance import agreement, kappa
from peerage.labels.disagreements import ceiling, disagreements, warnings_of
from peerage.labels.judged import Judged, join_judges, judged_items
from peerage.labels.mark_agreement import (
    concordance,
    correlation_with,
    cutoff_of,
    held_out_verdicts,
    level_gap,
    rank_correlation_with,
    spread_ratio,
    weighted_kappa,
)
from peerage.labels.paired import behind_best
from peerage.labels.pass_rates import FEWEST_GROUPS
from peerage.labels.pass_verdicts import verdict_card
from peerage.labels.rates import rate
from peerage.labels.reliance import advice_on_share, advice_on_verdicts, too_early
from peerage.labels.triage import ship
from peerage.reviews.rows import Rows

HALF_WIDTH = 0.05
FEWEST_FOR_SPREAD = 3  # queries, below which marks have neither a spread nor an interval


def scorecards(
    rows: Rows,
    people: Collection[str],
    half_width: float = HALF_WIDTH,
    error: float | None = None,
) -> tuple[Scorecard, ...]:
    """Return the scorecard of each judge of whom people labelled some answers, by name.

    With a promised `error`, each says which verdicts may ship without a person. Two judges or more
    that say pass or fail also have a scorecard together: their majority.
    """
    every = list(judged_items(rows, people))
    cards = {judged.judge: scorecard(judged, half_width, error) for judged in every}
    behind = behind_best([judged for judged in every if judged.kind == "verdicts"])
    several = tuple(replace(card, behind_best=behind.get(name)) for name, card in cards.items())
    together = join_judges([judged for judged in every if judged.kind == "verdicts"])
    return several if together is None else (scorecard(together, half_width, error), *several)


def scorecard(
    judged: Judged, half_width: float = HALF_WIDTH, error: float | None = None
) -> Scorecard:
    """Return the scorecard of one judge."""
    there = judged.labelled
    card = Scorecard(
        judged.judge,
        judged.kind,
        n=int(there.sum()),
        n_groups=len(np.unique(judged.group[there])),
        n_judged=int(np.isfinite(judged.by_judge).sum()),
        disagreements=disagreements(judged),
        warnings=tuple(warnings_of(judged)),
    )
    agreed, behind = ceiling(judged)
    card = replace(card, people_agreement=agreed, judge_behind_people=behind)
    if judged.kind == "verdicts":
        card = replace(card, ship=None if error is None else ship(judged, error))
        return verdict_card(card, judged, half_width)
    return _of_marks(card, judged) if judged.kind == "marks" else _of_picks(card, judged)


# -- marks ---------------------------------------------------------------------------------------


def _of_marks(card: Scorecard, judged: Judged) -> Scorecard:
    there = judged.labelled
    h, j = judged.by_people[there], judged.by_judge[there]
    group, fold = judged.group[there], judged.fold[there]
    enough = card.n_groups >= FEWEST_GROUPS
    ordered = concordance(j, h, group, fold) if card.n > 1 else None
    cutoff: CutOff | None = None
    advice: Advice | None = None
    reason = too_early(card.n_groups)
    if judged.are_binary:
        cutoff = cutoff_of(j, h, group, fold) if enough else None
        passed, known = held_out_verdicts(j, h, group, fold)
        if enough and cutoff is not None and known.any():
            advice, reason = advice_on_verdicts(passed[known], h[known], group[known])
            reason = f"with a cut-off at {cutoff.value:g}: {reason}"
    elif enough:
        advice, reason = advice_on_share(ordered, "of two answers that people order, it orders")
    card = replace(card, advice=advice, reason=reason, concordance=ordered, cutoff=cutoff)
    if enough:
        card = replace(
            card,
            correlation=correlation_with(j, h, group),
            rank_correlation=rank_correlation_with(j, h, group),
        )
    if judged.are_binary:
        return replace(card, base_rate=rate(h == 1.0, group))
    if card.n_groups < FEWEST_FOR_SPREAD:
        return card
    return replace(
        card,
        level=level_gap(j, h, group),
        spread=spread_ratio(j, h, group),
        kappa=weighted_kappa(j, h, group),
    )


# -- picks ---------------------------------------------------------------------------------------


def _of_picks(card: Scorecard, judged: Judged) -> Scorecard:
    there = judged.labelled
    h, j, group = judged.by_people[there], judged.by_judge[there], judged.group[there]
    first, second = (np.rint(values * 2.0).astype(np.int64) for values in (j, h))
    chosen = h != 0.5
    agreed = rate(1.0 - np.abs(j - h), group)
    on_chosen = rate(1.0 - np.abs(j - h)[chosen], group[chosen])
    enough = card.n_groups >= FEWEST_GROUPS
    what = "of pairs of which people choose one, it chooses"
    advice, reason = (
        advice_on_share(on_chosen, what) if enough else (None, too_early(card.n_groups))
    )
    shown = judged.shown_first[there]
    decided = np.isfinite(shown) & (shown != 0.5) & (j != 0.5)
    front = rate((j == shown)[decided], group[decided])
    return replace(
        card,
        advice=advice,
        reason=reason,
        accuracy=agreed,
        kappa=agreement(kappa, first, second, 3, group) if enough else None,
        ties={"judge": int((j == 0.5).sum()), "people": int((h == 0.5).sum())},
        first_shown=_less_half(front),
        order_agreement=_both_orders(judged),
    )


def _less_half(share: Bounded | None) -> Bounded | None:
    if share is None or share.value is None or share.low is None or share.high is None:
        return None
    return Bounded(share.value - 0.5, share.low - 0.5, share.high - 0.5)


def _both_orders(judged: Judged) -> Bounded | None:
    """Return how often the judge picks the same answer of a pair that it saw in both orders."""
    rival = judged.rival
    known = np.isfinite(judged.by_judge) & np.isfinite(judged.shown_first)
    if rival is None or not known.any():
        return None
    seen: dict[tuple[int, int, int], dict[float, float]] = {}
    for at in np.flatnonzero(known).tolist():
        one, other = int(judged.candidate[at]), int(rival[at])
        pick, shown = float(judged.by_judge[at]), float(judged.shown_first[at])
        if one > other:
            one, other, pick, shown = other, one, 1.0 - pick, 1.0 - shown
        seen.setdefault((int(judged.group[at]), one, other), {})[shown] = pick
    both = [
        (key[0], picks[0.0] == picks[1.0])
        for key, picks in seen.items()
        if {0.0, 1.0} <= set(picks)
    ]
    if not both:
        return None
    group, same = zip(*both, strict=True)
    return rate(np.array(same, dtype=np.float64), np.array(group))
