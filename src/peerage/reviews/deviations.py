"""Sums of reviewers' deviations from their fitted scale: a second pass over the rows.

A deviation is d = y − a − b·q, with q the quality of the answer by the *other* reviewers. This
module does not subtract the prediction: scores and qualities are added up separately, by reviewer
and cluster and by pair and cluster, so that an estimate can leave a cluster out and fit the
reviewer's own level and scale again without it.

The tables are by reviewer and cluster, except those of pairs; a table without data is missing:

    base          BaseSums
    pairs         by reviewer × names + candidate, own answers included: PairSums
    cast          by pair: whether its qualities come from more than one other reviewer
    agreement     AgreementSums
    week          LineSums
    length        LineSums by reviewer and candidate (or the two compared)
    places        by reviewer and place: PairSums
    places_others by reviewer, other, and the place of each: the other's weight in the quality
    places_apart  by reviewer: the weight of others who saw the answer at another place
    places_named  by reviewer, candidate and place: n, y
    places_alone  of answers with one reviewer, by reviewer, candidate and place: n, y, yy
    places_again  of answers judged in several rounds, by reviewer and two places: xx, xy, yy, n
    anchor        AnchorSums
    family        by reviewer × (names + 1): FamilySums
    family_cast   by reviewer × (names + 1): as cast
    kin           by pair: reviews of the family's answers
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from peerage.reviews.cells import (
    Bools,
    Cells,
    Floats,
    Ints,
    cell_codes,
    dense,
    group,
    merge,
    spans,
    table_of,
)
from peerage.reviews.comparisons import N_PLACES, ScoredRows
from peerage.reviews.one_scale import LengthLines, Scales, is_heard, others, quality_by_others

MAX_JOINT = 64  # reviewers whose position effects are solved for together


class BaseSums(NamedTuple):
    """Sums over other models' answers.

    Fields whose names end in 2 cover only answers that at least two other reviewers judged.
    """

    n: Floats
    y: Floats  # scores
    q: Floats  # qualities by the others
    others_level: Floats
    others_scale: Floats
    n2: Floats
    y2: Floats
    q2: Floats
    yq2: Floats
    p2: Floats  # squared qualities, from products of different others
    qq2: Floats

    def scale_columns(self) -> list[Floats]:
        """Return the columns from which a scale is fitted."""
        return [self.n2, self.y2, self.q2, self.yq2, self.p2]


class PairSums(NamedTuple):
    """Sums over rows: numbers of rows and ballots, scores and qualities."""

    n: Floats
    y: Floats
    q: Floats
    ballots: Floats


class FamilySums(NamedTuple):
    """Sums over answers of the reviewer's family.

    To get the sums over answers of other models, subtract `kin_*` from `BaseSums`.
    """

    n: Floats
    y: Floats
    q: Floats
    ballots: Floats
    kin_n: Floats
    kin_y: Floats
    kin_q: Floats


class LineSums(NamedTuple):
    """Sums for the slopes of scores and qualities on x."""

    n: Floats
    x: Floats
    y: Floats
    q: Floats
    xx: Floats
    xy: Floats
    xq: Floats


class AgreementSums(NamedTuple):
    """Sums of squares and products of scores and qualities, both centred on their ballot."""

    n: Floats
    yy: Floats
    qq: Floats
    yq: Floats


class AnchorSums(NamedTuple):
    """Sums over ballots: the quality of the first answer, and the deviations of later ones."""

    n: Floats
    one: Floats
    y: Floats
    q: Floats
    squares: Floats


def n_place_codes(compares: bool) -> int:
    """Return the number of place codes of a row; a comparison combines two places."""
    return N_PLACES**2 if compares else N_PLACES


def totals_by(code: Ints, columns: Floats, n: int) -> Floats:
    """Return columns of rows summed by code."""
    added = np.empty((n, columns.shape[1]))
    for i, column in enumerate(columns.T):
        added[:, i] = np.bincount(code, column, minlength=n)
    return added


def deviation_sums(reviews: ScoredRows, scales: Scales) -> dict[str, Cells]:
    """Return the tables of one block of whole sessions, given fitted levels and scales."""
    rows = _ComparedRows(reviews, scales)
    pairs, place = rows.pairs(), reviews.place
    tables = {"base": rows.base(pairs), "pairs": pairs, "cast": rows.cast()}
    tables["agreement"] = rows.agreement()
    if reviews.family is not None:
        tables |= rows.family(reviews.family)
    if place is not None:
        tables["places"] = rows.places(place)
        tables |= rows.places_of_others(place)
        tables["places_named"] = rows.places_named(place)
        tables["places_alone"] = rows.places_alone(place)
        if reviews.session is not None:
            tables["places_again"] = rows.places_again(place, reviews.session)
        if reviews.ballot is not None and not reviews.compares:
            tables["anchor"] = rows.anchor(place == 0, reviews.ballot)
    if reviews.length is not None:
        tables["length"] = rows.lengths(reviews.length)
    if reviews.week is not None:
        tables["week"] = rows.line(reviews.week)
    return tables


def _without_length(reviews: ScoredRows, lines: LengthLines) -> ScoredRows:
    """Return rows whose scores do not contain what some reviewers add for length."""
    if reviews.length is None:
        return reviews
    who = reviews.reviewer
    added = lines.slope[who] * np.nan_to_num(reviews.length - lines.middle[who])
    return replace(reviews, score=reviews.score - added)


class _RowsByCell:
    """Some compared rows, with their scores, qualities, and cells by reviewer."""

    def __init__(self, rows: _ComparedRows, chosen: Bools) -> None:
        self.at = np.flatnonzero(chosen)
        self.y, self.q = rows.reviews.score[self.at], rows.quality.q[self.at]
        self.cells = cell_codes(rows.reviews.reviewer[self.at], rows.reviews.cluster[self.at])
        self.basic = self.cells.sums(None, self.y, self.q)  # by cell: n, y, q


class _ComparedRows:
    """A block's rows with the others' view of them; each method returns one table of sums."""

    def __init__(self, reviews: ScoredRows, scales: Scales) -> None:
        lines = scales.lengths
        reviews = reviews if lines is None else _without_length(reviews, lines)
        self.reviews, self.scales = reviews, scales
        self.judged = is_heard(reviews, scales.aside)  # an answer of another model, not set aside
        self.heard = self.judged & scales.voice[reviews.reviewer]
        self.quality = quality_by_others(reviews, self.heard, scales)
        self.compared = self.quality.n_others > 0  # others judged it too
        self.usual = _RowsByCell(self, self.judged & self.compared)

    @property
    def _pull(self) -> Floats:
        """The factor of each row's score in the quality of its answer; 0 if it has no voice."""
        return np.where(self.heard, self.scales.pull[self.reviews.reviewer], 0.0)

    @property
    def _weight(self) -> Floats:
        """Return the share of each row in the weights of its answer's quality."""
        return self._pull * np.nan_to_num(self.scales.scale)[self.reviews.reviewer]

    def base(self, pairs: Cells) -> Cells:
        """Return sums by reviewer; every cluster with one of its pairs has a cell, perhaps zero."""
        rows, quality, cells = self.usual, self.quality, self.usual.cells
        two = quality.n_others[rows.at] > 1
        y, q, p = rows.y, rows.q, quality.p[rows.at]  # p is zero without two others
        others_sums = cells.sums(quality.level[rows.at], quality.scale[rows.at])
        with_two = rows.basic
        if not two.all():
            y, q = y * two, q * two
            with_two = cells.sums(two, y, q)
        table = cells.cells(rows.basic, others_sums, with_two, cells.sums(y * q, p, q * q))
        empty = np.zeros((pairs.n, table.sums.shape[1]))
        return merge([table, Cells(pairs.subject // self.reviews.n_names, pairs.cluster, empty)])

    @cached_property
    def _signed_pairs(self) -> tuple[Ints, Ints, Floats]:
        """Return compared rows, each with its pair and sign; a comparison is about two pairs."""
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
        """Return, by pair, sums over the reviews behind qualities: n, reviewers' codes, squares.

        They only serve to tell whether a single reviewer gave all of these reviews, so an answer
        with two or more others counts as judged by reviewers 1 and 2.
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
        """Return sums over the family's and over other answers, compared with outsiders' views.

        Reviewers of a family who favour one another would hide the preference in each other's view,
        so only reviewers outside the family count. The preference also shifts the outsiders'
        levels; this cancels, because both groups of answers are compared with the same outsiders.
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
            """Return the sum over the answer's reviewers who are outside the family."""
            whole = np.bincount(reviews.answer, values).astype(np.float64)
            inside = np.bincount(clan, values).astype(np.float64)
            return whole[reviews.answer[at]] - inside[clan[at]]

        a = np.nan_to_num(self.scales.level)[reviews.reviewer]
        n = outside(self.heard)
        whole = np.where(n > 0.5, outside(self._weight), 1.0)
        q = outside(self._pull * (reviews.score - a)) / whole
        mine, named = family[reviews.reviewer[at]], family[reviews.candidate[at]]
        sign = ((n > 0.5) & (mine == named)).astype(np.float64)  # −1 if the rival is kin
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
        is_kin = sign > 0.0
        pair = reviews.reviewer[at].astype(np.int64) * k + reviews.candidate[at]
        if reviews.rival is not None:
            rival = pair - reviews.candidate[at] + reviews.rival[at]
            pair, is_kin = np.where(sign < 0.0, rival, pair), sign != 0.0
        pair = pair[is_kin]
        cast = [kin * n, kin * outside(code), kin * outside(code**2)]
        return {
            "family": table_of(subject, reviews.cluster[at], columns),
            "family_cast": table_of(subject, np.zeros_like(subject), cast),
            "kin": table_of(pair, np.zeros_like(pair), [None]),
        }

    def line(self, x: Floats) -> Cells:
        """Return the sums for a slope of the deviation on x."""
        rows, known = self.usual, np.isfinite(x)
        if not known[rows.at].all():
            rows = _RowsByCell(self, self.judged & self.compared & known)
        x = x[rows.at]
        slope = rows.cells.sums(x, x * x, x * rows.y, x * rows.q)
        sums = [rows.basic[:, :1], slope[:, :1], rows.basic[:, 1:], slope[:, 1:]]
        return rows.cells.cells(*sums)

    def lengths(self, x: Floats) -> Cells:
        """Return the sums for a slope on log words, by reviewer and candidate."""
        at = self.usual.at
        known = np.isfinite(x[at])
        at = at if known.all() else at[known]
        x, y, q = x[at], self.reviews.score[at], self.quality.q[at]
        columns = [None, x, y, q, x * x, x * y, x * q]
        return table_of(self._subject_of(at), self.reviews.cluster[at], columns)

    def agreement(self) -> Cells:
        """Return products of own scores and the others' qualities, both minus their ballot mean."""
        rows, ballot = self.usual, self.reviews.ballot
        y, q = rows.y, rows.q
        if ballot is not None and not self.reviews.compares:
            ballots = group((ballot[rows.at], 1))
            y, q = ballots.centre(y), ballots.centre(q)
        return rows.cells.cells(rows.basic[:, :1], rows.cells.sums(y * y, q * q, y * q))

    def _shown(self, at: Ints, place: Ints) -> tuple[Ints, Ints]:
        """Return the rows whose positions are known, and their positions (two for a comparison).

        Two places of a comparison are one code: place × N_PLACES + the rival's place.
        """
        reviews = self.reviews
        known = place[at] >= 0
        if reviews.rival_place is None:
            at = at if known.all() else at[known]
            return at, place[at]
        at = at[known & (reviews.rival_place[at] >= 0)]
        return at, place[at] * N_PLACES + reviews.rival_place[at]

    def places(self, place: Ints) -> Cells:
        """Return rows, scores, qualities and ballots, by reviewer and position."""
        reviews = self.reviews
        at, code = self._shown(self.usual.at, place)
        ballots = None if reviews.rivals is None else 1.0 / reviews.rivals[at]
        subject = reviews.reviewer[at] * n_place_codes(reviews.compares) + code
        columns = [None, reviews.score[at], self.quality.q[at], ballots]
        return table_of(subject, reviews.cluster[at], columns)

    def places_named(self, place: Ints) -> Cells:
        """Return scores by reviewer, candidate (or the two compared) and position."""
        at, code = self._shown(self.usual.at, place)
        subject = self._subject_of(at) * n_place_codes(self.reviews.compares) + code
        return table_of(subject, np.zeros_like(subject), [None, self.reviews.score[at]])

    def places_of_others(self, place: Ints) -> dict[str, Cells]:
        """Return at which positions others saw the answers that a reviewer saw at each position.

        The subject is (reviewer × names + other) × N_PLACES² + the reviewer's place × N_PLACES +
        the other's place. With more than MAX_JOINT names, other 0 has the sum over all others.
        """
        reviews, k = self.reviews, self.reviews.n_names
        at, _ = self._shown(self.usual.at, place)
        share = 1.0 / others(reviews.answer, self._weight)[at]
        sides = [(place, 1.0)]
        if reviews.rival_place is not None:
            sides.append((reviews.rival_place, -1.0))
        parts = []
        for theirs, their_sign in sides:
            for mine, sign in sides:
                shared = self._shares_of_crowd if k > MAX_JOINT else self._shares_of_panel
                parts.append(shared(at, mine[at], theirs, sign * their_sign * share))
        first = parts[0]
        pair, places = np.divmod(first.subject, N_PLACES**2)
        (weight,) = first.sums.T
        apart = weight * (places // N_PLACES != places % N_PLACES)
        return {
            "places_others": merge(parts),
            "places_apart": table_of(pair // k, np.zeros_like(pair), [apart]),
        }

    def _shares_of_panel(self, at: Ints, mine: Ints, theirs: Ints, share: Floats) -> Cells:
        """Return every other reviewer's weight by the two positions."""
        reviews, k = self.reviews, self.reviews.n_names
        shown = np.full((k, reviews.n_answers), N_PLACES, dtype=np.int16)
        heard = np.flatnonzero(self.heard & (theirs >= 0))
        shown[reviews.reviewer[heard], reviews.answer[heard]] = theirs[heard]
        reviewer = reviews.reviewer[at]
        order = np.argsort(reviewer.astype(np.int16), kind="stable")
        ends = np.cumsum(np.bincount(reviewer, minlength=k))
        pull, width = self.scales.pull, N_PLACES + 1
        sums = np.zeros((k, k, N_PLACES, width))
        for who, rows in enumerate(np.split(order, ends)[:k]):
            answer, weight = reviews.answer[at[rows]], share[rows]
            start = mine[rows] * width
            for other in range(k) if len(rows) else ():
                if other != who and self.scales.voice[other]:
                    codes = start + shown[other][answer]
                    added = np.bincount(codes, weight, minlength=N_PLACES * width)
                    sums[who, other] = pull[other] * added.reshape(N_PLACES, width)
        flat = sums[..., :N_PLACES].ravel()
        subject = np.flatnonzero(flat)
        return Cells(subject, np.zeros_like(subject), flat[subject][:, None])

    def _shares_of_crowd(self, at: Ints, mine: Ints, theirs: Ints, share: Floats) -> Cells:
        """Return the weight of all other reviewers together by the two positions."""
        reviews = self.reviews
        start = reviews.reviewer[at].astype(np.int64) * (reviews.n_names * N_PLACES**2)
        parts = []
        for place in np.unique(theirs[theirs >= 0]).tolist():
            weight = others(reviews.answer, self._pull * (theirs == place))[at] * share
            subject = start + mine * N_PLACES + place
            parts.append(table_of(subject, np.zeros_like(subject), [weight]))
        return merge(parts) if parts else table_of(start[:0], start[:0], [share[:0]])

    def places_alone(self, place: Ints) -> Cells:
        """Return scores of answers with one reviewer, by reviewer, candidate(s) and position."""
        reviews = self.reviews
        at, code = self._shown(np.flatnonzero(self.judged & ~self.compared), place)
        subject = self._subject_of(at) * n_place_codes(reviews.compares) + code
        y = reviews.score[at]
        ballots = None if reviews.rivals is None else 1.0 / reviews.rivals[at]
        return table_of(subject, reviews.cluster[at], [None, y, y * y, ballots])

    def _subject_of(self, at: Ints) -> Ints:
        """Return reviewer and candidate (and the rival of a comparison) of each row as one code."""
        reviews, k = self.reviews, self.reviews.n_names
        named = reviews.reviewer[at].astype(np.int64) * k + reviews.candidate[at]
        return named if reviews.rival is None else named * k + reviews.rival[at]

    def places_again(self, place: Ints, session: Ints) -> Cells:
        """Return scores of answers that a reviewer judged in several rounds, minus their mean.

        An answer stays the same in all rounds, so its place explains the differences. The subject
        is reviewer × N_PLACES² + a code of two places. Its sums are the product of the two places
        and, if these are the same place, also xy, yy and the number of rows.
        """
        reviews = self.reviews
        at, _ = self._shown(np.flatnonzero(self.judged), place)
        answers = group((session[at], int(session.max(initial=0)) + 1), dense(self._subject_of(at)))
        n = answers.each(answers.count())
        y = answers.centre(reviews.score[at])
        left, right = _join_on(answers.code, np.arange(len(at)), np.arange(len(at)))
        sides = [(place[at], 1.0)]
        if reviews.rival_place is not None:
            sides.append((reviews.rival_place[at], -1.0))
        start, cluster = reviews.reviewer[at].astype(np.int64) * N_PLACES**2, reviews.cluster[at]
        parts = []
        for i, (mine, sign) in enumerate(sides):
            twice = start + mine * (N_PLACES + 1)
            none, once = np.zeros(len(at)), np.full(len(at), float(i == 0))
            parts.append(table_of(twice, cluster, [none, sign * y, once * y * y, once]))
            for theirs, their_sign in sides:
                product = sign * their_sign * ((left == right) - 1.0 / n[left])
                nothing = np.zeros(len(left))
                subject = start[left] + mine[left] * N_PLACES + theirs[right]
                parts.append(table_of(subject, cluster[left], [product, nothing, nothing, nothing]))
        return merge(parts)

    def anchor(self, shown_first: Bools, ballot_of: Ints) -> Cells:
        """Return sums over ballots: the first answer's quality, and later deviations.

        Let g_i = (quality of answer i minus the ballot's mean) × (mean deviation of all answers but
        i). If orders are random, the first answer's g minus the ballot's mean g has mean zero,
        whatever the answers are. `squares` is the first factor squared, minus its noise.
        """
        reviews, at, y, q = self.reviews, self.usual.at, self.usual.y, self.usual.q
        ballots = group((ballot_of[at], 1))
        x, n = ballots.centre(q), ballots.count()
        first = np.flatnonzero(shown_first[at] & (ballots.each(n) > 1.0))
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


def _join_on(key: Ints, left: Ints, right: Ints) -> tuple[Ints, Ints]:
    """Return every pair of an index of `left` and a row of `right` with equal keys."""
    order = right[np.argsort(key[right], kind="stable")]
    counts = np.bincount(key[right], minlength=int(key.max(initial=-1)) + 1)
    place, at = spans((np.cumsum(counts) - counts)[key[left]], counts[key[left]])
    return place, order[at]
