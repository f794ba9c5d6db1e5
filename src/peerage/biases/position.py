"""Does the first answer shown score higher, whoever wrote it?

Scores are centred within session and candidate, so that only an answer seen in different
places by different reviewers can speak. A reviewer is held against the others' mean of the
same answer, less what the pooled effect has put into it: with balanced orders an answer
that is first for one is never first for the others, and their effect would pass for its own.
"""

from __future__ import annotations

import numpy as np

from peerage.biases import Metric, Panel, Sums, metrics
from peerage.biases.orders import (
    Spread,
    is_first,
    shows_first,
    spread,
    spread_sums,
)
from peerage.biases.thresholds import Tested
from peerage.biases.wording import signed, unknown
from peerage.reviews.cells import Cells, ordered
from peerage.reviews.rows import Floats, Groups
from peerage.reviews.view import View

NAME = "position"
N_CURVE = 26
FLAT = 1e-9


def sums(view: View) -> Sums:
    first = is_first(view)
    x = first.astype(np.float64)
    e = view.within_ballot(view.centred)
    d = view.within_ballot(view.deviation)
    code = view.answer.code
    firsts, n = view.answer.sum(x)[code], view.n_by_answer[code]
    pooled = view.within_ballot(x - firsts / n)
    o = view.within_ballot((firsts - x) / np.maximum(n - 1.0, 1.0))
    shown = np.flatnonzero(first)
    own = 1.0 - 1.0 / view.n_by_ballot[view.ballot.code[shown]]  # "first" within its ballot
    ballots = Groups(view.ballot.code[shown], view.ballot.n)
    who, table = view.by_name(
        shows_first(view, first),
        *(ballots.sum(c) for c in (e[shown], pooled[shown], d[shown], own, o[shown])),
    )
    found = {"effect": Cells(who, np.zeros_like(who), table)}
    found |= {f"all_{name}": cells for name, cells in spread_sums(view, first, [e]).items()}
    found |= {f"one_{name}": cells for name, cells in spread_sums(view, first, [d, o]).items()}
    found["curve"] = _curve(view, e)
    return found


def _curve(view: View, e: Floats) -> Cells:
    """By position: rows, sum of centred scores; and sums for the correlation, as position −1."""
    position = view.judged.numbers["position"]
    known = np.isfinite(position)
    p, here = position, e
    if not known.all():
        p, here = np.where(known, position, -1.0), e * known
    at = np.minimum(p, N_CURVE).astype(np.int64) + 1
    n, total = np.bincount(at, minlength=N_CURVE + 2), np.bincount(at, e, minlength=N_CURVE + 2)
    pc = view.within_ballot(p) * known if not known.all() else view.within_ballot(p)
    table = np.column_stack([n, total, np.zeros((len(n), 3))]).astype(np.float64)
    table[0] = [known.sum(), 0.0, (pc * pc).sum(), (here * here).sum(), (pc * here).sum()]
    where = np.arange(len(n), dtype=np.int64)
    return ordered(np.zeros_like(where), where, table)


def findings(sums: Sums, panel: Panel) -> list[Tested]:
    n_min, names = panel.n_min(NAME), panel.names
    effect = sums["effect"]
    n, top, bottom = (float(effect.sums[:, i].sum()) for i in (0, 1, 2))
    if bottom <= FLAT * max(n, 1.0):
        return [unknown(NAME, n_min, _why_not(n), n=int(n))]
    who = effect.subject
    every = {name.removeprefix("all_"): c for name, c in sums.items() if name.startswith("all_")}
    ones = {name.removeprefix("one_"): c for name, c in sums.items() if name.startswith("one_")}
    dealt = "one_dealt" in sums
    whole = spread(every, np.ones((len(who), 1)), who, len(names))
    note = f"{_curve_words(sums['curve'])}; {_null_words(dealt)}"
    out = [_tested("all", top, bottom, whole, n, note, panel)]
    for reviewer, row in zip(who, effect.sums, strict=True):
        weights = np.array([[1.0, top / bottom]])
        seen = spread(ones, weights, np.array([reviewer]), len(names))
        out.append(_reviewer(names[reviewer], row, top / bottom, seen, panel))
    return out


def _reviewer(name: str, row: Floats, shared: float, seen: Spread, panel: Panel) -> Tested:
    n, _, _, xd, xx, xo = (float(value) for value in row)
    if xx <= FLAT * max(n, 1.0) or xx - xo <= FLAT * xx:
        return unknown(NAME, panel.n_min(NAME), _why_not(n), name, int(n))
    return _tested(name, xd + shared * xo, xx, seen, n, "", panel)


def _tested(
    subject: str, top: float, bottom: float, seen: Spread, n: float, note: str, panel: Panel
) -> Tested:
    value, half = top / bottom, seen.half_width(top)
    low, high = (None, None) if half is None else (value - half / bottom, value + half / bottom)
    edge, n_min = panel.healthy(NAME) * panel.scale, panel.n_min(NAME)
    return Tested(NAME, subject, value, low, high, seen.p(top), int(n), n_min, edge, note)


def _why_not(n: float) -> str:
    if n == 0:
        return "no scored answer was shown first on a ballot with another"
    return "every answer kept one position, so position and answer coincide"


def _null_words(dealt: bool) -> str:
    if dealt:
        return "orders dealt again as they were dealt"
    return "orders permuted within ballots, which holds for independent shuffles"


def curve_of(cells: Cells) -> list[tuple[int, float, int]]:
    """Position, mean centred score and rows, for each position that was used."""
    table = cells.sums[1:]
    return [(i, float(row[1] / row[0]), int(row[0])) for i, row in enumerate(table) if row[0] > 0]


def _curve_words(cells: Cells) -> str:
    means = [mean for _, mean, _ in curve_of(cells)]
    _, _, pp, ee, pe = cells.sums[0]
    r = float(pe / np.sqrt(pp * ee)) if pp > 0.0 and ee > 0.0 else None
    shape = f"by position {' '.join(signed(mean) for mean in means[:8])}"
    return f"{_shape_word(means)}{shape}; position–score r {signed(r)}"


def _shape_word(means: list[float]) -> str:
    """Primacy, recency or middle neglect: which end of the curve stands out."""
    if len(means) < 3:
        return ""
    first, last, middle = means[0], means[-1], sum(means[1:-1]) / (len(means) - 2)
    if min(first, last) > middle and abs(first - last) < abs(first - middle) / 2:
        return "middle neglect; "
    return "primacy; " if first >= last else "recency; "


metrics.register(NAME)(
    Metric(NAME, ("position",), sums, findings, "the position of each answer on each ballot")
)
