"""Does the first answer shown score higher, whoever wrote it?

For everyone together, scores are centred within session and candidate, so that only an answer
seen in different places by different reviewers can speak, and the null deals the orders again.
A reviewer is held against the others on one scale, less what the others' firsts put into it.
"""

from __future__ import annotations

import numpy as np

from peerage.biases import Metric, Panel, Sums, metrics
from peerage.biases.orders import is_first, shows_first, spread, spread_sums
from peerage.biases.thresholds import Tested
from peerage.biases.wording import compared_with_others, signed, unknown
from peerage.reviews.cells import Cells, ordered
from peerage.reviews.first_shown import COINCIDE, position
from peerage.reviews.rows import Floats
from peerage.reviews.view import View

NAME = "position"
N_CURVE = 26
FLAT = 1e-9


def sums(view: View) -> Sums:
    """Ballots, centred scores of the firsts and their weight; the spread of new deals; a curve."""
    first = is_first(view)
    x = first.astype(np.float64)
    e = view.within_ballot(view.centred)
    code = view.answer.code
    apart = view.within_ballot(x - (view.answer.sum(x) / np.maximum(view.n_by_answer, 1.0))[code])
    shown = np.flatnonzero(first)
    totals = (shows_first(view, first).sum(), e[shown].sum(), apart[shown].sum())
    nobody = np.zeros(1, dtype=np.int64)
    effect = Cells(nobody, nobody, np.array([totals], dtype=np.float64))
    return {"effect": effect, "curve": _curve(view, e), **spread_sums(view, first, e)}


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
    n_min, edge = panel.n_min(NAME), panel.healthy(NAME) * panel.scale
    n, top, bottom = (float(value) for value in sums["effect"].sums[0])
    if bottom <= FLAT * max(n, 1.0):
        why = COINCIDE if n else "no scored answer was shown first on a ballot with another"
        return [unknown(NAME, n_min, why, n=int(n))]
    seen = spread(sums)
    value, half = top / bottom, seen.half_width(top)
    low, high = (None, None) if half is None else (value - half / bottom, value + half / bottom)
    note = f"{_curve_words(sums['curve'])}; {_null_words('dealt' in sums)}"
    everyone = Tested(NAME, "all", value, low, high, seen.p(top), int(n), n_min, edge, note)
    note = "points for the answer shown first, beyond what the others give it"
    found = position(panel.compared.sums, panel.compared.scales)
    return [everyone, *(compared_with_others(NAME, o, panel, note, edge=edge) for o in found)]


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
