"""Reviews in the form that metrics use: the values that reviewers are compared on.

Reviewers are compared on scores or, if there are only ranks, on pairs of answers. Shares of rivals
beaten would not do: no reviewer ranks its own answer, so the rivals differ between reviewers, and
honest, identical rankings would look like preferences. A comparison of the same two answers by
reviewers who wrote neither does not depend on who else was on the ballot.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from peerage.reviews.cells import (
    Bools,
    CellCodes,
    Cells,
    Floats,
    Groups,
    Ints,
    cell_codes,
    dense,
    group,
    places,
    spans,
    table_of,
)
from peerage.reviews.rows import Rows, ballot_codes, has_rounds, round_codes, select
from peerage.reviews.votes import placing_values, shares

# -- lengths --------------------------------------------------------------------------------------


LOG_WORDS = "log_words"  # the column of `Rows.numbers` that `with_lengths` adds
OUTER = 0.01  # of a candidate's reviews at either end have lengths that are clipped
N_LENGTHS = 10  # with fewer different lengths, none is clipped


@dataclass(frozen=True, slots=True)
class LengthLimits:
    """For each name, the shortest and longest lengths that count, in words; infinite if not set."""

    low: Floats
    high: Floats


def length_limits(candidate: Ints, words: Floats, n: Floats, n_names: int) -> LengthLimits:
    """Return limits from `n` reviews of answers of `words` words by a candidate."""
    known = np.isfinite(words)
    whole = np.clip(np.rint(words[known]), 0.0, 1e12).astype(np.int64)
    lengths, place = np.unique(whole, return_inverse=True)
    table = table_of(candidate[known], place, [n[known]])
    low, high = np.full(n_names, -np.inf), np.full(n_names, np.inf)
    who_has, starts = np.unique(table.subject, return_index=True)
    for who, start, end in zip(who_has, starts, np.append(starts[1:], table.n), strict=False):
        if end - start < N_LENGTHS:
            continue
        counts = table.sums[start:end, 0]
        outer, inward = OUTER * counts.sum(), slice(start + 1, end - 1)
        below = np.searchsorted(np.cumsum(counts), outer, side="right")
        above = end - start - 1 - np.searchsorted(np.cumsum(counts[::-1]), outer, side="right")
        inner = lengths[table.cluster[inward]]
        ends = lengths[table.cluster[[start + below, start + above]]]
        low[who], high[who] = max(ends[0], inner[0]), min(ends[1], inner[-1])
    return LengthLimits(low, high)


def with_lengths(rows: Rows, limits: LengthLimits) -> Rows:
    """Return the rows with log words, clipped to the limits, as one more column."""
    words = rows.numbers.get("words")
    if words is None:
        return rows
    drawn_in = np.clip(words, limits.low[rows.candidate], limits.high[rows.candidate])
    return replace(rows, numbers={**rows.numbers, LOG_WORDS: np.log(1.0 + drawn_in)})


def log_words(rows: Rows) -> Floats | None:
    """Return log words, clipped to the limits if there are any, or None."""
    if LOG_WORDS in rows.numbers:
        return rows.numbers[LOG_WORDS]
    words = rows.numbers.get("words")
    return None if words is None else np.log(1.0 + words)


# -- rows as metrics compare them -----------------------------------------------------------------


WEEK_S = 7 * 86_400.0
MID_WEEK = 2_800.0  # weeks since 1970: keeps the squares of recent weeks small
MAX_AFTER = 40  # on a ballot, a candidate is compared with at most this many next ones, by code
N_PLACES = 10  # first to eighth place, all later places as one, and the last place
LATER, LAST = N_PLACES - 2, N_PLACES - 1


class View:
    """Reviews with derived columns; votes for a reviewer's own answers are separate.

    `value` is the column used as the score: "score" for marks, or "rank" for the share of rivals
    beaten. Everything is computed once, on first use.
    """

    def __init__(self, rows: Rows, value: str = "score") -> None:
        self.value = value
        scores = shares(rows) if value == "rank" else rows.numbers[value]
        self.all, self.names = rows, rows.names
        self.scored_at = places(np.isfinite(scores))  # of all rows
        self.rows, self.every_score = select(rows, self.scored_at), scores[self.scored_at]

    @cached_property
    def scored(self) -> ScoredRows:
        """The values that reviewers are compared on: scores, or comparisons of ranks."""
        return scored_rows(self.all, self.value, self.every_place)

    @cached_property
    def every_place(self) -> Ints | None:
        """The positions of the answers of all rows, as `place_codes`; None without positions."""
        return place_codes(self.all) if "position" in self.all.numbers else None

    @cached_property
    def is_own(self) -> Bools:
        return self.rows.reviewer == self.rows.candidate

    @cached_property
    def judged(self) -> Rows:
        """The rows about answers of other models."""
        return select(self.rows, places(~self.is_own))

    @cached_property
    def score(self) -> Floats:
        """The scores of `judged`."""
        return self.every_score[places(~self.is_own)]

    @cached_property
    def cluster(self) -> Ints:
        return self.judged.cluster[self.judged.session]

    # -- all scores of an answer ---------------------------------------------------------------

    @cached_property
    def answer(self) -> Groups:
        """The rows of `judged`, grouped by session and candidate."""
        rows = self.judged
        return group((rows.session, rows.n_sessions), (rows.candidate, len(self.names)))

    @cached_property
    def n_by_answer(self) -> Floats:
        return self.answer.count()

    @cached_property
    def sum_by_answer(self) -> Floats:
        return self.answer.sum(self.score)

    @cached_property
    def _by_others(self) -> tuple[Floats, Floats]:
        """Return, for each judged row, how many scores others gave this answer, and their sum."""
        n, total = self.n_by_answer[self.answer.code], self.sum_by_answer[self.answer.code]
        if not has_rounds(self.rows):
            return n - 1.0, total - self.score
        mine = group((self.answer.code, self.answer.n), (self.judged.reviewer, len(self.names)))
        return n - mine.each(mine.count()), total - mine.each(mine.sum(self.score))

    @cached_property
    def has_others(self) -> Bools:
        return self._by_others[0] > 0

    @cached_property
    def others(self) -> Floats:
        """The others' mean score of the same answer; zero if there is none."""
        n, total = self._by_others
        return total / np.maximum(n, 1.0)

    @cached_property
    def centred(self) -> Floats:
        """Scores minus the mean of all scores of that answer."""
        return self.score - (self.sum_by_answer / self.n_by_answer)[self.answer.code]

    @cached_property
    def place(self) -> Ints:
        """The positions at which the answers of `judged` were shown, as `place_codes`."""
        if self.every_place is None:
            return np.full(self.judged.n, -1)
        return self.every_place[self.scored_at][places(~self.is_own)]

    # -- ballots -------------------------------------------------------------------------------

    @cached_property
    def ballot(self) -> Groups:
        """The rows of `judged`, grouped by session, reviewer and round."""
        return group(*ballot_codes(self.judged))

    @cached_property
    def n_by_ballot(self) -> Floats:
        return self.ballot.count()

    @cached_property
    def ballot_reviewer(self) -> Ints:
        return self.ballot.first(self.judged.reviewer)

    @cached_property
    def _cells(self) -> CellCodes:
        return cell_codes(self.ballot_reviewer, self.ballot.first(self.cluster))

    def by_ballot(self, *columns: Floats | Bools) -> Cells:
        """Return columns of ballots summed by reviewer and cluster."""
        return self._cells.cells(self._cells.sums(*columns))


# -- what reviewers are compared on --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ScoredRows:
    """Scored reviews of whole sessions; every array has one element per row.

    An `answer` is the text of one candidate in one session, judged once by each reviewer (in
    several rounds, one code per round). Codes of answers and ballots count from zero within these
    rows; reviewers and candidates share one list of names. Optional columns are NaN if a row has no
    value. If `rival` is set, each row is a comparison: `score` tells how far `candidate` was placed
    above `rival`, levels are zero by construction, and the other columns are differences too.
    """

    n_names: int
    n_clusters: int
    answer: Ints
    reviewer: Ints
    candidate: Ints
    cluster: Ints
    score: Floats
    own: Bools  # whether the reviewer wrote the answer, or one of the two compared
    ballot: Ints | None = None
    place: Ints | None = None  # where the answer was shown, as `place_codes`
    length: Floats | None = None  # log words
    correct: Floats | None = None
    week: Floats | None = None
    likeness: Floats | None = None  # of the answer to the reviewer's own
    rival: Ints | None = None
    rival_place: Ints | None = None
    session: Ints | None = None  # set only if there are several rounds
    rivals: Floats | None = None  # in comparisons: how many rivals the candidate has on the ballot
    family: Ints | None = None  # by name; negative if unknown

    @property
    def n(self) -> int:
        return len(self.answer)

    @property
    def n_answers(self) -> int:
        return int(self.answer.max(initial=-1)) + 1

    @property
    def compares(self) -> bool:
        return self.rival is not None


def scored_rows(rows: Rows, value: str, every_place: Ints | None = None) -> ScoredRows:
    """Return the rows with a value: scores as they are, ranks as comparisons of two answers.

    On ballots without ranks, scores rank the answers. `every_place` has the rows' positions, if
    they are already computed.
    """
    values = placing_values(rows) if value == "rank" else rows.numbers[value]
    several_rounds, scored_at = has_rounds(rows), places(np.isfinite(values))
    if every_place is None and "position" in rows.numbers:
        every_place = place_codes(rows)
    rows = select(rows, scored_at)
    numbers, n_names = rows.numbers, len(rows.names)
    sitting = [(rows.session, rows.n_sessions)]
    if several_rounds:
        sitting.append(round_codes(rows))
    time = numbers.get("at")
    scored = ScoredRows(
        n_names=n_names,
        n_clusters=rows.n_clusters,
        answer=group(*sitting, (rows.candidate, n_names)).code,
        reviewer=rows.reviewer,
        candidate=rows.candidate,
        cluster=rows.cluster[rows.session],
        score=values[scored_at],
        own=rows.reviewer == rows.candidate,
        ballot=group(*sitting, (rows.reviewer, n_names)).code,
        place=None if every_place is None else every_place[scored_at],
        length=log_words(rows),
        correct=numbers.get("correct"),
        likeness=numbers.get("likeness"),
        session=rows.session if several_rounds else None,
        week=None if time is None else np.floor(time / WEEK_S) - MID_WEEK,
        family=rows.family,
    )
    return comparisons(scored) if value == "rank" else scored


def place_codes(rows: Rows) -> Ints:
    """Return the position at which each row's answer was shown; −1 if it is not known.

    Positions count from 0. All from the ninth on are one code (`LATER`), and the last position of a
    session is `LAST`, however many there were. A single answer is first.
    """
    position = rows.numbers["position"]
    known = np.isfinite(position)
    at = (position if known.all() else np.where(known, position, -1.0)).astype(np.int64)
    session = rows.session
    if (session[1:] >= session[:-1]).all() and len(session):
        starts = np.flatnonzero(np.append(True, session[1:] != session[:-1]))
        sizes = np.diff(np.append(starts, len(session)))
        last = np.repeat(np.maximum.reduceat(at, starts), sizes)
    else:
        by_session = np.zeros(rows.n_sessions, dtype=np.int64)
        np.maximum.at(by_session, session, at)
        last = by_session[session]
    code = np.minimum(at, LATER)
    code[(at == last) & (at > 0)] = LAST
    return code


def comparisons(ranked: ScoredRows) -> ScoredRows:
    """Return each pair of answers on a ballot as one row: ±.5 for the better answer, 0 for a tie.

    `score` is the rank (lower is better), and `ballot` tells which rows were ranked together. The
    two candidates of a row are ordered by code. The row has both positions and the difference in
    length. If the reviewer wrote one of the two answers, the row is marked as its own.
    """
    if ranked.ballot is None:
        raise ValueError("comparisons are made within ballots, and these rows have no ballots")
    left, right = _pairs_within(ranked.ballot, ranked.candidate)
    rival, own = ranked.candidate[right], ranked.own[left] | ranked.own[right]
    judged = np.bincount(ranked.ballot, ~ranked.own)
    rivals = np.minimum(judged[ranked.ballot[left]] - np.where(own, 0.0, 1.0), 2.0 * MAX_AFTER)

    def difference(values: Floats | None) -> Floats | None:
        return None if values is None else values[left] - values[right]

    return replace(
        ranked,
        answer=dense(ranked.answer[left].astype(np.int64) * ranked.n_names + rival)[0],
        reviewer=ranked.reviewer[left],
        candidate=ranked.candidate[left],
        cluster=ranked.cluster[left],
        score=0.5 * np.sign(ranked.score[right] - ranked.score[left]),
        own=own,
        ballot=ranked.ballot[left],
        place=None if ranked.place is None else ranked.place[left],
        length=difference(ranked.length),
        correct=difference(ranked.correct),
        likeness=difference(ranked.likeness),
        session=None if ranked.session is None else ranked.session[left],
        week=None,
        rival=rival,
        rival_place=None if ranked.place is None else ranked.place[right],
        rivals=np.maximum(rivals, 1.0),
    )


def _pairs_within(ballot: Ints, candidate: Ints) -> tuple[Ints, Ints]:
    """Return pairs of rows of the same ballot, each pair once, the smaller candidate first.

    On a very long ballot each candidate is compared only with the next ones, which are the same for
    all reviewers, because the number of all pairs grows with the square.
    """
    order, at = np.lexsort((candidate, ballot)), np.arange(len(ballot))
    ends = np.searchsorted(ballot[order], ballot[order], "right")
    left, right = spans(at + 1, np.minimum(ends - at - 1, MAX_AFTER))
    return order[left], order[right]
