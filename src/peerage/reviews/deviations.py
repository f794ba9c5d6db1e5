"""Sums of how reviewers depart from what their scale predicts: a second pass over the rows.

A deviation is d = y − a − b·q, with q the quality of the answer by the *other* reviewers. Nothing
here subtracts the prediction: scores and qualities are added up apart, by reviewer and cluster
and by pair and cluster, so that an estimate can leave a cluster out and fit the reviewer's own
level and scale again without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from peerage.reviews.cells import Cells, cell_codes, merge, table_of
from peerage.reviews.one_scale import Quality, Scales, is_heard, others, quality_by_others
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


@dataclass(frozen=True, slots=True)
class DeviationSums:
    """All that metrics need of a block of whole sessions; those of two blocks add up.

    `base` and the tables beside it are by reviewer, `pairs` by reviewer × names + candidate, with
    the reviewer's own answers as a pair with itself. `cast` tells of each pair whether more than
    one other reviewer stands behind the qualities it is held against.
    """

    base: Cells  # n, y, q, others' level and scale; with two others n, y, q, yq, p, qq
    pairs: Cells  # n, y, q, ballots
    cast: Cells
    agreement: Cells  # n, yy, qq, yq
    length: Cells | None = None  # a line: n, x, y, q, xx, xy, xq
    week: Cells | None = None  # a line
    first: Cells | None = None  # a line, and ballots
    first_others: Cells | None = None
    first_alone: Cells | None = None  # n, x, y, xx, xy, yy, ballots
    anchor: Cells | None = None  # ballots, one, y, q, squares
    family: Cells | None = None  # by reviewer × (names + 1): as pairs; n, y, q not of the rest
    family_cast: Cells | None = None


def add_deviations(parts: Sequence[DeviationSums]) -> DeviationSums:
    """The sums of several blocks together."""
    added: dict[str, Cells] = {}
    for one in fields(DeviationSums):
        tables = [table for part in parts if (table := getattr(part, one.name)) is not None]
        if tables:
            added[one.name] = merge(tables)
    return DeviationSums(**added)


def deviation_sums(reviews: ScoredRows, scales: Scales) -> DeviationSums:
    """The sums of one block of whole sessions, with levels and scales as fitted."""
    judged = is_heard(reviews, scales.aside)
    heard = judged & scales.voice[reviews.reviewer]
    seen = quality_by_others(reviews, heard, scales)
    rows = _Rows(reviews, seen, judged, seen.n_others > 0, heard, scales)
    pairs, first = rows.pairs(), reviews.first
    more = {} if reviews.family is None else rows.family(reviews.family)
    if first is not None:
        more["first"] = rows.line(first, shown=True)
        more["first_others"] = rows.first_of_others(first)
        more["first_alone"] = rows.first_alone(first)
        if reviews.ballot is not None and not reviews.compares:
            more["anchor"] = rows.anchor(first, reviews.ballot)
    if reviews.length is not None:
        more["length"] = rows.line(reviews.length)
    if reviews.week is not None:
        more["week"] = rows.line(reviews.week)
    return DeviationSums(rows.base(pairs), pairs, rows.cast(), rows.agreement(), **more)


class _Held:
    """Some rows that are held against the others, and the cells of their reviewers."""

    def __init__(self, reviews: ScoredRows, seen: Quality, kept: Bools) -> None:
        self.at = np.flatnonzero(kept)
        self.y, self.q = reviews.score[self.at], seen.q[self.at]
        self.cells = cell_codes(reviews.reviewer[self.at], reviews.cluster[self.at])

    @cached_property
    def basic(self) -> Floats:
        """By cell: n, y, q."""
        return self.cells.sums(None, self.y, self.q)


@dataclass(frozen=True)
class _Rows:
    """A block's rows with what others make of them; each method is one table of sums."""

    reviews: ScoredRows
    seen: Quality
    judged: Bools  # somebody else's answer, and no pair that was set aside
    compared: Bools  # others judged it too
    heard: Bools
    scales: Scales

    @cached_property
    def held(self) -> _Held:
        return _Held(self.reviews, self.seen, self.judged & self.compared)

    @property
    def _voice(self) -> Floats:
        """The scale of each row's reviewer, 0 where it is not heard."""
        scale = np.nan_to_num(self.scales.scale)[self.reviews.reviewer]
        return np.where(self.heard, scale, 0.0)

    def base(self, pairs: Cells) -> Cells:
        """Sums by reviewer, with a cell wherever one of its pairs has one."""
        held, seen = self.held, self.seen
        two = seen.n_others[held.at] > 1
        basic = held.basic
        y, q, p, level, scale = held.y, held.q, seen.p[held.at], seen.level, seen.scale
        beside = held.cells.sums(level[held.at], scale[held.at])
        if not two.all():
            y, q = y * two, q * two
            basic = held.cells.sums(two, y, q)
        squares = held.cells.sums(y * q, p, q * q)  # p is zero without two others
        table = held.cells.cells(held.basic, beside, basic, squares)
        empty = np.zeros((pairs.n, table.sums.shape[1]))
        return merge([table, Cells(pairs.subject // self.reviews.n_names, pairs.cluster, empty)])

    @cached_property
    def _signed_pairs(self) -> tuple[Ints, Ints, Floats | float]:
        """Compared rows, the pair each speaks of and its sign; comparisons speak of two."""
        reviews, at = self.reviews, np.flatnonzero(self.compared)
        start = reviews.reviewer[at].astype(np.int64) * reviews.n_names
        if reviews.rival is None:
            return at, start + reviews.candidate[at], 1.0
        rows, pairs, signs = [], [], []
        for named, sign in ((reviews.candidate, 1.0), (reviews.rival, -1.0)):
            kept = ~reviews.own[at] | (named[at] == reviews.reviewer[at])
            rows.append(at[kept])
            pairs.append((start + named[at])[kept])
            signs.append(np.full(len(rows[-1]), sign))
        return np.concatenate(rows), np.concatenate(pairs), np.concatenate(signs)

    def pairs(self) -> Cells:
        at, pair, sign = self._signed_pairs
        rivals = self.reviews.rivals
        ballots = None if rivals is None else 1.0 / rivals[at]
        columns = [None, sign * self.reviews.score[at], sign * self.seen.q[at], ballots]
        return table_of(pair, self.reviews.cluster[at], columns)

    def cast(self) -> Cells:
        """By pair: the opinions behind the qualities: how many, their reviewers' codes, squares.

        All that is asked of them is whether they are one reviewer's, so where an answer has two or
        more of them they count as those of reviewers 1 and 2.
        """
        at, pair, _ = self._signed_pairs
        several = self.seen.n_others[at] > 1
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
        columns += [base - rest, (base - rest) * y, base * self.seen.q[at] - rest * q]
        code = np.where(self.heard, reviews.reviewer + 1.0, 0.0)
        subject = reviews.reviewer[at].astype(np.int64) * (k + 1)
        cast = [kin * n, kin * outside(code), kin * outside(code**2)]
        return {
            "family": table_of(subject, reviews.cluster[at], columns),
            "family_cast": table_of(subject, np.zeros_like(subject), cast),
        }

    def line(self, x: Floats, *, shown: bool = False) -> Cells:
        """What a slope of the deviation on x needs, and on how many ballots x is not zero."""
        held, known = self.held, np.isfinite(x)
        if not known[held.at].all():
            held = _Held(self.reviews, self.seen, self.judged & self.compared & known)
        x = x[held.at]
        xx = x * x
        slope = held.cells.sums(x, xx, x * held.y, x * held.q)
        sums = [held.basic[:, :1], slope[:, :1], held.basic[:, 1:], slope[:, 1:]]
        if shown and self.reviews.rivals is None:
            sums.append(slope[:, 1:2])
        elif shown:
            sums.append(held.cells.sums(self._ballots(x, held.at)))
        return held.cells.cells(*sums)

    def agreement(self) -> Cells:
        """Own scores and qualities by the others, both less their mean on the ballot."""
        held, ballot = self.held, self.reviews.ballot
        y, q = held.y, held.q
        if ballot is not None and not self.reviews.compares:
            ballots = group((ballot[held.at], 1))
            y, q = ballots.centred(y), ballots.centred(q)
        return held.cells.cells(held.basic[:, :1], held.cells.sums(y * y, q * q, y * q))

    def first_of_others(self, first: Floats) -> Cells:
        """How often others saw the answer first, in the weight they have in its quality.

        By reviewer × names + other for a panel, by reviewer for a crowd (as other 0): the sum
        over all answers, and over those that the reviewer saw first.
        """
        reviews, k = self.reviews, self.reviews.n_names
        b = self._voice
        whole = others(reviews.answer, b * b)
        at = self.held.at
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
        reviews, at, y, q = self.reviews, self.held.at, self.held.y, self.held.q
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

        noise = np.where(self.seen.n_others[at] > 1, q * q - self.seen.p[at], 0.0)
        square = ahead * ahead - (1.0 - 2.0 / m) * noise[first] - mean(noise) / m
        kept_slope = 1.0 - 1.0 / (m * (m - 1.0))
        columns = [None, ahead, part(y), part(q), square * kept_slope]
        return table_of(reviews.reviewer[at][first], reviews.cluster[at][first], columns)


def _joined(key: Ints, left: Ints, right: Ints) -> tuple[Ints, Ints]:
    """Every pair of a place in `left` and a row of `right` that have one key."""
    order = right[np.argsort(key[right], kind="stable")]
    counts = np.bincount(key[right], minlength=int(key.max(initial=-1)) + 1)
    place, at = spans((np.cumsum(counts) - counts)[key[left]], counts[key[left]])
    return place, order[at]
