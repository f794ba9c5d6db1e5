"""Sums of how reviewers depart from what their scale predicts: a second pass over the rows.

A deviation is d = y − a − b·q, with q the quality of the answer by the *other* reviewers. Nothing
here subtracts the prediction: scores and qualities are added up apart, by reviewer and cluster
and by pair and cluster, so that an estimate can leave a cluster out and fit the reviewer's own
level and scale again without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from peerage.reviews.one_scale import (
    Bools,
    Floats,
    Ints,
    Quality,
    Reviews,
    Scales,
    is_aside,
    others,
    quality_by_others,
)

MAX_JOINT = 64  # reviewers whose position effects are solved for together

# Columns of the tables.
BASE = ("n", "y", "q", "others_level", "others_scale", "n2", "y2", "q2", "yq2", "p2", "qq2")
FIT = slice(5, 10)  # what a scale is fitted from: n2 to p2
PAIR = ("n", "y", "q", "ballots")
GROUP = (*PAIR, "n_base", "y_base", "q_base")  # the last three: what of the base is not the rest
LINE = ("n", "x", "y", "q", "xx", "xy", "xq", "ballots")
AGREE = ("n", "yy", "qq", "yq")
ANCHOR = ("ballots", "one", "y", "q", "squares")
LONE = ("n", "x", "y", "xx", "xy", "yy", "ballots")


@dataclass(frozen=True, slots=True)
class SumsTable:
    """Rows of sums, each under a subject's code and a cluster; sorted, no pair of them twice."""

    subject: Ints
    cluster: Ints
    sums: Floats  # cells by columns

    def __add__(self, other: SumsTable) -> SumsTable:
        return table_of(
            np.concatenate([self.subject, other.subject]),
            np.concatenate([self.cluster, other.cluster]),
            list(np.concatenate([self.sums, other.sums]).T),
        )


def table_of(subject: Ints, cluster: Ints, columns: Sequence[Floats | Bools]) -> SumsTable:
    """Columns of rows added up by subject and cluster."""
    width = int(cluster.max(initial=0)) + 1
    key = subject.astype(np.int64) * width + cluster
    size = int(key.max(initial=-1)) + 1
    if size <= 4 * len(key) + 65_536:
        kept, code = np.flatnonzero(np.bincount(key, minlength=size)), key
    else:
        kept, code = np.unique(key, return_inverse=True)
        size = len(kept)
    sums = np.empty((len(kept), len(columns)))
    for i, column in enumerate(columns):
        added = np.bincount(code, column, minlength=size)
        sums[:, i] = added[kept] if code is key else added
    return SumsTable(kept // width, kept % width, sums)


def totals_by(code: Ints, columns: Floats, n: int) -> Floats:
    """Columns of rows added up by code."""
    added = np.empty((n, columns.shape[1]))
    for i, column in enumerate(columns.T):
        added[:, i] = np.bincount(code, column, minlength=n)
    return added


@dataclass(frozen=True, slots=True)
class DeviationSums:
    """All that metrics need of a block of whole sessions; those of two blocks add up.

    `base` and the tables beside it are by reviewer, `pairs` by reviewer × names + candidate, with
    the reviewer's own answers as a pair with itself. `cast` tells of each pair whether more than
    one other reviewer stands behind the qualities it is held against.
    """

    base: SumsTable
    pairs: SumsTable
    cast: SumsTable
    agreement: SumsTable
    length: SumsTable | None = None
    week: SumsTable | None = None
    first: SumsTable | None = None
    first_others: SumsTable | None = None
    first_alone: SumsTable | None = None
    anchor: SumsTable | None = None
    family: SumsTable | None = None  # by reviewer × (names + 1), as if a pair with itself
    family_cast: SumsTable | None = None

    def __add__(self, other: DeviationSums) -> DeviationSums:
        added: dict[str, SumsTable | None] = {}
        for one in fields(self):
            mine, theirs = getattr(self, one.name), getattr(other, one.name)
            added[one.name] = mine + theirs if mine and theirs else mine or theirs
        return DeviationSums(**added)  # type: ignore[arg-type]


def deviation_sums(reviews: Reviews, scales: Scales) -> DeviationSums:
    """The sums of one block of whole sessions, with levels and scales as fitted."""
    aside = is_aside(reviews, scales.aside) if len(scales.aside) else np.zeros(reviews.n, bool)
    heard = ~reviews.own & ~aside & scales.voice[reviews.reviewer]
    seen = quality_by_others(reviews, heard, scales)
    rows = _Rows(reviews, seen, ~reviews.own & ~aside, seen.n_others > 0, heard, scales)
    return DeviationSums(
        base=rows.base(),
        pairs=rows.pairs(),
        cast=rows.cast(),
        agreement=rows.agreement(),
        length=None if reviews.length is None else rows.line(reviews.length),
        week=None if reviews.week is None else rows.line(reviews.week),
        first=None if reviews.first is None else rows.line(reviews.first, shown=True),
        first_others=None if reviews.first is None else rows.first_of_others(reviews.first),
        first_alone=None if reviews.first is None else rows.first_alone(reviews.first),
        anchor=rows.anchor(),
        **rows.family(),
    )


@dataclass(frozen=True, slots=True)
class _Rows:
    """A block's rows with what others make of them; each method is one table of sums."""

    reviews: Reviews
    seen: Quality
    judged: Bools  # somebody else's answer, and no pair that was set aside
    compared: Bools  # others judged it too
    heard: Bools
    scales: Scales

    def base(self) -> SumsTable:
        at = np.flatnonzero(self.compared)
        y, q, p = self.reviews.score[at], self.seen.q[at], self.seen.p[at]
        one = self.judged[at].astype(np.float64)
        two = one * (self.seen.n_others[at] > 1)
        columns = [one, one * y, one * q, one * self.seen.level[at], one * self.seen.scale[at]]
        columns += [two, two * y, two * q, two * y * q, two * p, two * q * q]
        return table_of(self.reviews.reviewer[at], self.reviews.cluster[at], columns)

    def _signed_pairs(self) -> tuple[Ints, Ints, Floats]:
        """Compared rows, the pair each speaks of and its sign; comparisons speak of two."""
        reviews, at = self.reviews, np.flatnonzero(self.compared)
        start = reviews.reviewer.astype(np.int64) * reviews.n_names
        if reviews.rival is None:
            return at, (start + reviews.candidate)[at], np.ones(len(at))
        rows, pairs, signs = [], [], []
        for named, sign in ((reviews.candidate, 1.0), (reviews.rival, -1.0)):
            kept = at[~reviews.own[at] | (named[at] == reviews.reviewer[at])]
            rows.append(kept)
            pairs.append((start + named)[kept])
            signs.append(np.full(len(kept), sign))
        return np.concatenate(rows), np.concatenate(pairs), np.concatenate(signs)

    def pairs(self) -> SumsTable:
        at, pair, sign = self._signed_pairs()
        rivals = self.reviews.rivals
        ballots = np.ones(len(at)) if rivals is None else 1.0 / rivals[at]
        columns = [np.ones(len(at)), sign * self.reviews.score[at], sign * self.seen.q[at], ballots]
        return table_of(pair, self.reviews.cluster[at], columns)

    def cast(self) -> SumsTable:
        """By pair: the opinions behind the qualities: how many, their reviewers' codes, squares."""
        at, pair, _ = self._signed_pairs()
        reviews = self.reviews
        code = np.where(self.heard, reviews.reviewer + 1.0, 0.0)
        columns = [others(reviews.answer, values)[at] for values in (self.heard, code, code**2)]
        return table_of(pair, np.zeros_like(pair), columns)

    def family(self) -> dict[str, SumsTable]:
        """Answers of the reviewer's family and of strangers, held against reviewers outside of it.

        Cousins who favour one another would hide in each other's view of the family, and in the
        levels of those outside; the latter cancel where both groups are held against the same.
        """
        reviews, k = self.reviews, self.reviews.n_names
        if reviews.family is None:
            return {}
        sizes = np.bincount(reviews.family[reviews.family >= 0], minlength=1)
        has_kin = (reviews.family >= 0) & (sizes[reviews.family] > 1)
        if not has_kin.any():
            return {}
        clan = np.where(has_kin, reviews.family, len(sizes))[reviews.reviewer]
        mine = reviews.answer * (len(sizes) + 1) + clan
        at = np.flatnonzero(has_kin[reviews.reviewer] & ~reviews.own & self.compared)

        def outside(values: Floats | Bools) -> Floats:
            """The sum over the answer's reviewers who are not of the family."""
            whole = np.bincount(reviews.answer, values).astype(np.float64)
            inside = np.bincount(mine, values).astype(np.float64)
            gap: Floats = whole[reviews.answer[at]] - inside[mine[at]]
            return gap

        b = np.where(self.heard, np.nan_to_num(self.scales.scale)[reviews.reviewer], 0.0)
        a = np.nan_to_num(self.scales.level)[reviews.reviewer]
        n = outside(self.heard)
        q = outside(b * (reviews.score - a)) / np.where(n > 0.5, outside(b * b), 1.0)
        sign = np.where(n > 0.5, self._kin(reviews.family)[at], 0.0)
        kin, y = np.abs(sign), reviews.score[at]
        ballots = kin if reviews.rivals is None else kin / reviews.rivals[at]
        base = (self.judged & self.compared)[at].astype(np.float64)
        rest = base * (n > 0.5) * (sign == 0.0)
        columns = [kin, sign * y, sign * q, ballots]
        columns += [base - rest, (base - rest) * y, base * self.seen.q[at] - rest * q]
        code = np.where(self.heard, reviews.reviewer + 1.0, 0.0)
        subject = reviews.reviewer[at].astype(np.int64) * (k + 1)
        cast = [kin * n, kin * outside(code), kin * outside(code**2)]
        return {
            "family": table_of(subject, reviews.cluster[at], columns),
            "family_cast": table_of(subject, np.zeros_like(subject), cast),
        }

    def _kin(self, family: Ints) -> Floats:
        """1 where a row is about the reviewer's kin, −1 where the rival is, 0 elsewhere."""
        reviews = self.reviews
        mine = family[reviews.reviewer]
        known = (mine >= 0) & ~reviews.own
        kin: Floats = (known & (mine == family[reviews.candidate])).astype(np.float64)
        if reviews.rival is not None:
            kin -= known & (mine == family[reviews.rival])
        return kin

    def line(self, x: Floats, *, shown: bool = False) -> SumsTable:
        """What a slope of the deviation on x needs, and on how many ballots x is not zero."""
        at = np.flatnonzero(self.compared & self.judged & np.isfinite(x))
        x, y, q = x[at], self.reviews.score[at], self.seen.q[at]
        columns = [np.ones(len(at)), x, y, q, x * x, x * y, x * q]
        if shown:
            columns.append(self._ballots(x, at))
        return table_of(self.reviews.reviewer[at], self.reviews.cluster[at], columns)

    def agreement(self) -> SumsTable:
        """Own scores and qualities by the others, both less their mean on the ballot."""
        at = np.flatnonzero(self.compared & self.judged)
        y, q = self.reviews.score[at], self.seen.q[at]
        if self.reviews.ballot is not None and not self.reviews.compares:
            ballot = self.reviews.ballot[at]
            n = np.maximum(np.bincount(ballot), 1)
            y = y - (np.bincount(ballot, y) / n)[ballot]
            q = q - (np.bincount(ballot, q) / n)[ballot]
        columns = [np.ones(len(at)), y * y, q * q, y * q]
        return table_of(self.reviews.reviewer[at], self.reviews.cluster[at], columns)

    def first_of_others(self, first: Floats) -> SumsTable:
        """How often others saw the answer first, in the weight they have in its quality.

        By reviewer × names + other for a panel, by reviewer for a crowd (as other 0): the sum
        over all answers, and over those that the reviewer saw first.
        """
        reviews, k = self.reviews, self.reviews.n_names
        b = np.where(self.heard, np.nan_to_num(self.scales.scale)[reviews.reviewer], 0.0)
        whole = others(reviews.answer, b * b)
        at = np.flatnonzero(self.compared & self.judged)
        x = first[at]
        start = reviews.reviewer[at].astype(np.int64) * k
        cluster = reviews.cluster[at]
        if k > MAX_JOINT:
            share = others(reviews.answer, b * first)[at] / whole[at]
            return table_of(start, cluster, [share, x * share])
        row, shown = _joined(reviews.answer, at, np.flatnonzero(self.heard & (first != 0.0)))
        apart = reviews.reviewer[at[row]] != reviews.reviewer[shown]
        row, shown = row[apart], shown[apart]
        share = (b * first)[shown] / whole[at[row]]
        other = reviews.reviewer[shown]
        return table_of(start[row] + other, cluster[row], [share, x[row] * share])

    def first_alone(self, first: Floats) -> SumsTable:
        """Answers nobody else judged, by reviewer and candidate (or the two compared)."""
        reviews, k = self.reviews, self.reviews.n_names
        at = np.flatnonzero(self.judged & ~self.compared)
        x, y = first[at], reviews.score[at]
        subject = reviews.reviewer[at].astype(np.int64) * k + reviews.candidate[at]
        if reviews.rival is not None:
            subject = subject * k + reviews.rival[at]
        columns = [np.ones(len(at)), x, y, x * x, x * y, y * y, self._ballots(x, at)]
        return table_of(subject, reviews.cluster[at], columns)

    def _ballots(self, x: Floats, at: Ints) -> Floats:
        """One on each ballot where x is 1 or −1: the first answer has a row for every rival."""
        rivals = self.reviews.rivals
        return x * x if rivals is None else x * x / rivals[at]

    def anchor(self) -> SumsTable | None:
        """By ballot that shows a compared answer first: its standing, and how the later fare.

        With g_i = (quality of i, less the ballot's mean) × (mean deviation of all but i), the
        first answer's g less the ballot's mean of g has mean zero whenever orders are random,
        whatever the answers are. `squares` is the standing squared, less the noise in it.
        """
        reviews = self.reviews
        if reviews.first is None or reviews.ballot is None or reviews.compares:
            return None
        at = np.flatnonzero(self.compared & self.judged)
        ballot = reviews.ballot[at]
        size = int(ballot.max(initial=-1)) + 1
        m = np.bincount(ballot, minlength=size).astype(np.float64)[ballot]
        first = np.bincount(ballot, reviews.first[at] == 1.0, minlength=size)[ballot] > 0
        kept = (m > 1.0) & first
        at, ballot, m = at[kept], ballot[kept], m[kept]

        def mean(values: Floats) -> Floats:
            average: Floats = np.bincount(ballot, values, minlength=size)[ballot] / m
            return average

        y, q = reviews.score[at], self.seen.q[at]
        x = q - mean(q)
        shown = reviews.first[at] == 1.0

        def part(d: Floats) -> Floats:
            centre = mean(d)
            product = x * (d - centre)
            found: Floats = x * centre - (product - mean(product)) / (m - 1.0)
            kept: Floats = found[shown]
            return kept

        noise = np.where(self.seen.n_others[at] > 1, q * q - self.seen.p[at], 0.0)
        square = x * x - (1.0 - 2.0 / m) * noise - mean(noise) / m
        kept_slope = 1.0 - 1.0 / np.maximum(m * (m - 1.0), 2.0)
        columns = [np.ones(int(shown.sum())), part(np.ones(len(at))), part(y), part(q)]
        columns.append((square * kept_slope)[shown])
        return table_of(reviews.reviewer[at][shown], reviews.cluster[at][shown], columns)


def _joined(key: Ints, left: Ints, right: Ints) -> tuple[Ints, Ints]:
    """Every pair of a place in `left` and a row of `right` that have one key."""
    order = right[np.argsort(key[right], kind="stable")]
    counts = np.bincount(key[right], minlength=int(key.max(initial=-1)) + 1)
    sizes = counts[key[left]]
    starts = (np.cumsum(counts) - counts)[key[left]]
    place = np.repeat(np.arange(len(left)), sizes)
    step = np.arange(len(place)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return place, order[starts[place] + step]
