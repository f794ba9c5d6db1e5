"""Sums of how reviewers depart from what their scale predicts: a second pass over the rows.

A deviation is d = y − a − b·q, with q the quality of the answer by the *other* reviewers. Nothing
here subtracts the prediction: scores and qualities are added up apart, by reviewer and cluster
and by pair and cluster, so that an estimate can leave a cluster out and fit the reviewer's own
level and scale again without it.

The tables are by reviewer and cluster but for those of pairs; what rows cannot tell is missing:

    base          n, y, q, others' level and scale; with two others n, y, q, yq, p, qq
    pairs         by reviewer × names + candidate, own answers among them: n, y, q, ballots
    cast          by pair: whether more than one other reviewer stands behind its qualities
    agreement     n, yy, qq, yq
    length, week  a line: n, x, y, q, xx, xy, xq
    first         a line, and ballots
    first_others  by reviewer × names + other: how often others saw the answer first
    first_alone   by reviewer and candidate: n, x, y, xx, xy, yy, ballots
    anchor        ballots, one, y, q, squares
    family        by reviewer × (names + 1): as pairs; n, y, q not of the rest
    family_cast   as cast
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from peerage.reviews.cells import Cells, cell_codes, merge, table_of
from peerage.reviews.one_scale import Scales, is_heard, others, quality_by_others
from peerage.reviews.rows import Bools, Floats, Ints, group, spans
from peerage.reviews.view import ScoredRows

MAX_JOINT = 64  # reviewers whose position effects are solved for together

FIT = slice(5, 10)  # of the columns of `base`: what a scale is fitted from


def totals_by(code: Ints, columns: Floats, n: int) -> Floats:
    """Columns of rows added up by code."""
    added = np.empty((n, columns.shape[1]))
    for i, column in enumerate(columns.T):
        added[:, i] = np.bincount(code, column, minlength=n)
    return added


def deviation_sums(reviews: ScoredRows, scales: Scales) -> dict[str, Cells]:
    """The tables of one block of whole sessions, with levels and scales as fitted."""
    rows = _ComparedRows(reviews, scales)
    pairs, first = rows.pairs(), reviews.first
    tables = {"base": rows.base(pairs), "pairs": pairs, "cast": rows.cast()}
    tables["agreement"] = rows.agreement()
    if reviews.family is not None:
        tables |= rows.family(reviews.family)
    if first is not None:
        tables["first"] = rows.line(first, with_ballots=True)
        tables["first_others"] = rows.first_of_others(first)
        tables["first_alone"] = rows.first_alone(first)
        if reviews.ballot is not None and not reviews.compares:
            tables["anchor"] = rows.anchor(first, reviews.ballot)
    for name, x in (("length", reviews.length), ("week", reviews.week)):
        if x is not None:
            tables[name] = rows.line(x)
    return tables


class _RowsByCell:
    """Some compared rows, their scores and qualities, and the cells of their reviewers."""

    def __init__(self, rows: _ComparedRows, chosen: Bools) -> None:
        self.at = np.flatnonzero(chosen)
        self.y, self.q = rows.reviews.score[self.at], rows.quality.q[self.at]
        self.cells = cell_codes(rows.reviews.reviewer[self.at], rows.reviews.cluster[self.at])
        self.basic = self.cells.sums(None, self.y, self.q)  # by cell: n, y, q


class _ComparedRows:
    """A block's rows with what others make of them; each method is one table of sums."""

    def __init__(self, reviews: ScoredRows, scales: Scales) -> None:
        self.reviews, self.scales = reviews, scales
        self.judged = is_heard(reviews, scales.aside)  # somebody else's answer, not set aside
        self.heard = self.judged & scales.voice[reviews.reviewer]
        self.quality = quality_by_others(reviews, self.heard, scales)
        self.compared = self.quality.n_others > 0  # others judged it too
        self.usual = _RowsByCell(self, self.judged & self.compared)

    @property
    def _voice(self) -> Floats:
        """The scale of each row's reviewer, 0 where it is not heard."""
        scale = np.nan_to_num(self.scales.scale)[self.reviews.reviewer]
        return np.where(self.heard, scale, 0.0)

    def base(self, pairs: Cells) -> Cells:
        """Sums by reviewer, with a cell wherever one of its pairs has one."""
        rows, quality, cells = self.usual, self.quality, self.usual.cells
        two = quality.n_others[rows.at] > 1
        y, q, p = rows.y, rows.q, quality.p[rows.at]  # p is zero without two others
        beside = cells.sums(quality.level[rows.at], quality.scale[rows.at])
        with_two = rows.basic
        if not two.all():
            y, q = y * two, q * two
            with_two = cells.sums(two, y, q)
        table = cells.cells(rows.basic, beside, with_two, cells.sums(y * q, p, q * q))
        empty = np.zeros((pairs.n, table.sums.shape[1]))
        return merge([table, Cells(pairs.subject // self.reviews.n_names, pairs.cluster, empty)])

    @cached_property
    def _signed_pairs(self) -> tuple[Ints, Ints, Floats]:
        """Compared rows, the pair each speaks of and its sign; comparisons speak of two."""
        reviews, at = self.reviews, np.flatnonzero(self.compared)
        named, sign = reviews.candidate[at], np.ones(len(at))
        if reviews.rival is not None:
            named, sign = np.append(named, reviews.rival[at]), np.repeat([1.0, -1.0], len(at))
            at = np.append(at, at)
            speaks = ~reviews.own[at] | (named == reviews.reviewer[at])
            at, named, sign = at[speaks], named[speaks], sign[speaks]
        return at, reviews.reviewer[at].astype(np.int64) * reviews.n_names + named, sign

    def pairs(self) -> Cells:
        at, pair, sign = self._signed_pairs
        rivals = self.reviews.rivals
        ballots = None if rivals is None else 1.0 / rivals[at]
        columns = [None, sign * self.reviews.score[at], sign * self.quality.q[at], ballots]
        return table_of(pair, self.reviews.cluster[at], columns)

    def cast(self) -> Cells:
        """By pair: the opinions behind the qualities: how many, their reviewers' codes, squares.

        All that is asked of them is whether they are one reviewer's, so where an answer has two or
        more of them they count as those of reviewers 1 and 2.
        """
        at, pair, _ = self._signed_pairs
        several = self.quality.n_others[at] > 1
        code = np.zeros(len(at))
        if not several.all():
            mine = np.where(self.heard, self.reviews.reviewer + 1.0, 0.0)
            code = others(self.reviews.answer, mine)[at]
        columns = [several + 1.0, np.where(several, 3.0, code), np.where(several, 5.0, code * code)]
        return table_of(pair, np.zeros_like(pair), columns)

    def family(self, family: Ints) -> dict[str, Cells]:
        """Answers of the reviewer's family and of strangers, held against reviewers outside of it.

        Cousins who favour one another would hide in each other's view of the family, and in the
        levels of those outside; the latter cancel where both groups are held against the same.
        """
        reviews, k = self.reviews, self.reviews.n_names
        sizes = np.bincount(family[family >= 0], minlength=1)
        has_kin = (family >= 0) & (sizes[family] > 1)
        if not has_kin.any():
            return {}
        clan = np.where(has_kin, family, len(sizes))[reviews.reviewer]
        clan = reviews.answer * (len(sizes) + 1) + clan
        at = np.flatnonzero(has_kin[reviews.reviewer] & ~reviews.own & self.compared)

        def outside(values: Floats | Bools) -> Floats:
            """The sum over the answer's reviewers who are not of the family."""
            whole = np.bincount(reviews.answer, values).astype(np.float64)
            inside = np.bincount(clan, values).astype(np.float64)
            return whole[reviews.answer[at]] - inside[clan[at]]

        b = self._voice
        a = np.nan_to_num(self.scales.level)[reviews.reviewer]
        n = outside(self.heard)
        q = outside(b * (reviews.score - a)) / np.where(n > 0.5, outside(b * b), 1.0)
        mine, named = family[reviews.reviewer[at]], family[reviews.candidate[at]]
        sign = ((n > 0.5) & (mine == named)).astype(np.float64)  # -1 where the rival is the kin
        if reviews.rival is not None:
            sign -= (n > 0.5) & (mine == family[reviews.rival[at]])
        kin, y = np.abs(sign), reviews.score[at]
        ballots = kin if reviews.rivals is None else kin / reviews.rivals[at]
        base = (self.judged & self.compared)[at].astype(np.float64)
        rest = base * (n > 0.5) * (sign == 0.0)
        columns = [kin, sign * y, sign * q, ballots]
        columns += [base - rest, (base - rest) * y, base * self.quality.q[at] - rest * q]
        code = np.where(self.heard, reviews.reviewer + 1.0, 0.0)
        subject = reviews.reviewer[at].astype(np.int64) * (k + 1)
        cast = [kin * n, kin * outside(code), kin * outside(code**2)]
        return {
            "family": table_of(subject, reviews.cluster[at], columns),
            "family_cast": table_of(subject, np.zeros_like(subject), cast),
        }

    def line(self, x: Floats, *, with_ballots: bool = False) -> Cells:
        """What a slope of the deviation on x needs, and on how many ballots x is not zero."""
        rows, known = self.usual, np.isfinite(x)
        if not known[rows.at].all():
            rows = _RowsByCell(self, self.judged & self.compared & known)
        x = x[rows.at]
        slope = rows.cells.sums(x, x * x, x * rows.y, x * rows.q)
        sums = [rows.basic[:, :1], slope[:, :1], rows.basic[:, 1:], slope[:, 1:]]
        if with_ballots:
            sums.append(rows.cells.sums(self._ballots(x, rows.at)))
        return rows.cells.cells(*sums)

    def agreement(self) -> Cells:
        """Own scores and qualities by the others, both less their mean on the ballot."""
        rows, ballot = self.usual, self.reviews.ballot
        y, q = rows.y, rows.q
        if ballot is not None and not self.reviews.compares:
            ballots = group((ballot[rows.at], 1))
            y, q = ballots.centred(y), ballots.centred(q)
        return rows.cells.cells(rows.basic[:, :1], rows.cells.sums(y * y, q * q, y * q))

    def first_of_others(self, first: Floats) -> Cells:
        """How often others saw the answer first, in the weight they have in its quality.

        By reviewer × names + other for a panel, by reviewer for a crowd (as other 0): the sum
        over all answers, and over those that the reviewer saw first.
        """
        reviews, k = self.reviews, self.reviews.n_names
        b = self._voice
        whole = others(reviews.answer, b * b)
        at = self.usual.at
        x = first[at]
        start = reviews.reviewer[at].astype(np.int64) * k
        cluster = reviews.cluster[at]
        if k > MAX_JOINT:
            share = others(reviews.answer, b * first)[at] / whole[at]
            return table_of(start, cluster, [share, x * share])
        row, other_row = _joined(reviews.answer, at, np.flatnonzero(self.heard & (first != 0.0)))
        apart = reviews.reviewer[at[row]] != reviews.reviewer[other_row]
        row, other_row = row[apart], other_row[apart]
        share = (b * first)[other_row] / whole[at[row]]
        other = reviews.reviewer[other_row]
        return table_of(start[row] + other, cluster[row], [share, x[row] * share])

    def first_alone(self, first: Floats) -> Cells:
        """Answers nobody else judged, by reviewer and candidate (or the two compared).

        Beside them, as if of the reviewer's own answers, those that it judged in several rounds,
        less their mean over the rounds: an answer does not change with its place.
        """
        reviews, k = self.reviews, self.reviews.n_names
        at = np.flatnonzero(self.judged & ~self.compared)
        x, y, ballots = first[at], reviews.score[at], self._ballots(first[at], at)
        start, named = reviews.reviewer.astype(np.int64) * k, reviews.candidate
        subject = (start + named)[at]
        own = start + reviews.reviewer
        if reviews.rival is not None:
            subject, own = subject * k + reviews.rival[at], own * k + reviews.reviewer
            named = named.astype(np.int64) * k + reviews.rival
        if reviews.session is not None:
            again = np.flatnonzero(self.judged & np.isfinite(first))
            answers = group(
                (reviews.session[again], int(reviews.session.max(initial=0)) + 1),
                (reviews.reviewer[again], k),
                (named[again], k * k),
            )
            subject = np.append(subject, own[again])
            x = np.append(x, answers.centred(first[again]))
            y = np.append(y, answers.centred(reviews.score[again]))
            ballots = np.append(ballots, np.zeros(len(again)))
            at = np.append(at, again)
        columns = [None, x, y, x * x, x * y, y * y, ballots]
        return table_of(subject, reviews.cluster[at], columns)

    def _ballots(self, x: Floats, at: Ints) -> Floats:
        """One on each ballot where x is 1 or −1: the first answer has a row for every rival."""
        rivals = self.reviews.rivals
        return x * x if rivals is None else x * x / rivals[at]

    def anchor(self, shown_first: Floats, ballot_of: Ints) -> Cells:
        """By ballot that shows a compared answer first: its standing, and how the later fare.

        With g_i = (quality of i, less the ballot's mean) × (mean deviation of all but i), the
        first answer's g less the ballot's mean of g has mean zero whenever orders are random,
        whatever the answers are. `squares` is the standing squared, less the noise in it.
        """
        reviews, at, y, q = self.reviews, self.usual.at, self.usual.y, self.usual.q
        ballots = group((ballot_of[at], 1))
        x, n = ballots.centred(q), ballots.count()
        first = np.flatnonzero((shown_first[at] == 1.0) & (ballots.each(n) > 1.0))
        ballot, ahead = ballots.code[first], x[first]
        m = n[ballot]

        def mean(values: Floats) -> Floats:
            return ballots.sum(values)[ballot] / m

        def part(d: Floats) -> Floats:
            centre = mean(d)
            return ahead * centre - (ahead * (d[first] - centre) - mean(x * d)) / (m - 1.0)

        noise = np.where(self.quality.n_others[at] > 1, q * q - self.quality.p[at], 0.0)
        square = ahead * ahead - (1.0 - 2.0 / m) * noise[first] - mean(noise) / m
        slope_left = 1.0 - 1.0 / (m * (m - 1.0))
        columns = [None, ahead, part(y), part(q), square * slope_left]
        return table_of(reviews.reviewer[at][first], reviews.cluster[at][first], columns)


def _joined(key: Ints, left: Ints, right: Ints) -> tuple[Ints, Ints]:
    """Every pair of a place in `left` and a row of `right` that have one key."""
    order = right[np.argsort(key[right], kind="stable")]
    counts = np.bincount(key[right], minlength=int(key.max(initial=-1)) + 1)
    place, at = spans((np.cumsum(counts) - counts)[key[left]], counts[key[left]])
    return place, order[at]
