"""The model board's sums over blocks of whole sessions; they add, and every board is built of them.

Each session counts once: a candidate's value in it is the mean over the ballots that vote
for it, and only those means are added up. Nothing here divides by a number of sessions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from peerage.reviews.cells import Cells, merge, ordered, tabulate
from peerage.reviews.rows import N_CLUSTERS, ROOMY, Bools, Floats, Ints, Rows, bucket_of, group
from peerage.reviews.votes import ALWAYS_ROOM, Votes, votes
from peerage.types import OwnVotes

HALF = 0.5  # of hybrid: what the share weighs beside the score

# The tables, each with the columns of its sums. A subject is a slice and one name or two.
MODELS = "models"  # by candidate and cluster
APPEARED, VOTES, WINS, HELD, SHARE, BORDA, SCORED, SCORE, PLACE, BLEND, SESSIONS = range(11)
COUNTS = "counts"  # of a slice
N_SESSIONS, N_ROWS, N_LONE, N_UNWEIGHTED, N_MIXED, N_DUPLICATES = range(6)
SCORES = "scores"  # by reviewer and candidate: n, sum, squares; weights in sessions, and weighted
R_N, R_SUM, R_SQUARE, R_WEIGHT, R_SCORE = range(5)
INFLUENCE = "influence"  # by reviewer and candidate: what its votes do to the session means
R_VOTES, R_SHARE, R_PULL = range(3)
PAIRS = "pairs"  # by candidate, lower candidate and cluster
WON, TIED = range(2)
LENGTHS = "lengths"  # by candidate: rows, share, log words less the ballot's, square, product
L_N, L_SHARE, L_LONG, L_SQUARE, L_PRODUCT = range(5)

N_NAMES_BY_TABLE = {MODELS: 1, COUNTS: 0, SCORES: 2, INFLUENCE: 2, PAIRS: 2, LENGTHS: 1}

Tables = Mapping[str, Cells]


@dataclass(frozen=True, slots=True)
class Plan:
    """What to add up; slices are categories, weeks, or one for all."""

    own_votes: OwnVotes = "out"
    n_slices: int = 1
    by_category: bool = False
    periods: tuple[float, float] | None = None  # where slices are times: the start and the width
    earliest: float | None = None
    scores: bool = False
    influence: bool = False
    pairs: bool = False
    lengths: bool = False
    weight_by_name: Floats | None = None  # of reviewers


@dataclass(frozen=True, slots=True)
class ModelSums:
    """The sums of a table of reviews, and what its codes stand for.

    `units` names what each cluster is an observation of; None where there are too many, and
    clusters are buckets of them.
    """

    names: tuple[str, ...]
    units: tuple[str, ...] | None
    tables: Tables

    @property
    def n_clusters(self) -> int:
        return N_CLUSTERS if self.units is None else len(self.units)

    def totals(self, table: str, n_columns: int, n_subjects: int) -> Floats:
        """A table's sums by subject, over all clusters."""
        found = np.zeros((n_subjects, n_columns))
        cells = self.tables.get(table)
        if cells is not None and cells.n:
            np.add.at(found, cells.subject, cells.sums)
        return found

    def slice(self, at: int | None) -> ModelSums:
        """One slice alone, or (None) all of them together, as sums of a single slice."""
        tables = {}
        for name, cells in self.tables.items():
            width = len(self.names) ** N_NAMES_BY_TABLE[name]
            slices, subject = np.divmod(cells.subject, width)
            kept = slice(None) if at is None else slices == at
            tables[name] = ordered(subject[kept], cells.cluster[kept], cells.sums[kept])
        return ModelSums(self.names, self.units, tables)


def add_tables(parts: Sequence[Tables]) -> Tables:
    """The sums of several blocks of one table of reviews."""
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: merge([part[name] for part in parts if name in part]) for name in names}


def add_segments(parts: Sequence[ModelSums]) -> ModelSums:
    """The sums of tables that were read apart, and so have name and cluster codes of their own."""
    if len(parts) == 1:
        return parts[0]
    names = tuple(sorted({name for part in parts for name in part.names}))
    units: tuple[str, ...] | None = None
    if all(part.units is not None for part in parts):
        known = {unit for part in parts for unit in part.units or ()}
        units = tuple(sorted(known)) if len(known) <= N_CLUSTERS else None
    return ModelSums(names, units, add_tables([_recoded(part, names, units) for part in parts]))


def _recoded(part: ModelSums, names: tuple[str, ...], units: tuple[str, ...] | None) -> Tables:
    """A part's tables with the codes of all names and clusters."""
    place = np.searchsorted(np.array(names, dtype=object), np.array(part.names, dtype=object))
    clusters = np.arange(N_CLUSTERS)
    if units is not None:
        clusters = np.searchsorted(
            np.array(units, dtype=object), np.array(part.units, dtype=object)
        )
    elif part.units is not None:
        clusters = np.array([bucket_of(unit) for unit in part.units], dtype=np.int64)
    tables = {}
    for name, cells in part.tables.items():
        subject, width = cells.subject, 1
        new = np.zeros_like(subject)
        for _ in range(N_NAMES_BY_TABLE[name]):
            subject, code = np.divmod(subject, len(part.names))
            new += place[code] * width
            width *= len(names)
        new += subject * width  # what is left is the slice
        by_cluster = name in (MODELS, PAIRS)
        cluster = clusters[cells.cluster] if by_cluster else cells.cluster
        tables[name] = ordered(new, cluster, cells.sums)
    return tables


# -- one block -----------------------------------------------------------------------------------


def block_sums(rows: Rows, plan: Plan) -> Tables:
    """The tables of some whole sessions."""
    block = _Block(rows, plan)
    tables = {MODELS: block.models(), COUNTS: block.counts()}
    if plan.scores:
        tables[SCORES] = block.scores()
    if plan.influence:
        tables[INFLUENCE] = block.influence()
    if plan.pairs:
        tables[PAIRS] = block.pairs()
    if plan.lengths:
        tables[LENGTHS] = block.lengths()
    return tables


class _Block:
    """A block's votes and the answers (a session and a candidate each) that they fall on."""

    def __init__(self, rows: Rows, plan: Plan) -> None:
        self.rows, self.plan = rows, plan
        self.n_names = len(rows.names)
        self._group_answers()
        self.n_candidates = np.bincount(self.answer_session, minlength=rows.n_sessions)
        self.votes: Votes = votes(rows, plan.own_votes, self.n_candidates)
        self.slice, self.mixed = slices_of(rows, plan)
        self.inside: Bools = self.slice[rows.session] >= 0  # by row
        self.weight, self.unweighted = item_weights(rows)

    def _group_answers(self) -> None:
        """The answer of each row, and the session and candidate of each answer."""
        rows = self.rows
        present = np.bincount(rows.candidate, minlength=self.n_names) > 0
        held = np.flatnonzero(present)
        local = (np.cumsum(present) - 1)[rows.candidate]
        key = rows.session.astype(np.int64) * len(held) + local
        size = rows.n_sessions * len(held)
        if size > ROOMY * len(key) + ALWAYS_ROOM:
            kept, code = np.unique(key, return_inverse=True)
            self.answer = code.astype(np.int64)
        else:
            there = np.bincount(key, minlength=size) > 0
            kept = np.flatnonzero(there)
            self.answer = key if len(kept) == size else (np.cumsum(there) - 1)[key]
        self.answer_session = kept // max(len(held), 1)
        self.answer_candidate = held[kept % max(len(held), 1)]

    @cached_property
    def pull(self) -> Floats | None:
        """What each row's vote weighs within its session, where reviewers do not weigh the same."""
        weights = self.plan.weight_by_name
        return None if weights is None else weights[self.rows.reviewer]

    def added(self, values: Floats | Bools | Ints) -> Floats:
        """Values of rows added up by answer."""
        total = np.bincount(self.answer, weights=values, minlength=len(self.answer_session))
        return total.astype(np.float64, copy=False)

    # -- by candidate --------------------------------------------------------------------------

    @cached_property
    def _answer_columns(self) -> Floats:
        """Every answer's part in the sums of its candidate."""
        cast, pull = self.votes, self.pull
        n_votes = self.added(cast.counts)
        held_by = n_votes if pull is None else self.added(pull * cast.counts)
        bottom = np.where(held_by > 0.0, held_by, 1.0)
        share = self.added(cast.share if pull is None else pull * cast.share) / bottom
        weight = np.where(held_by > 0.0, self.weight[self.answer_session], 0.0)
        columns = np.zeros((11, len(self.answer_session)))
        columns[APPEARED] = 1.0
        columns[VOTES] = n_votes
        columns[SESSIONS] = weight > 0.0
        columns[WINS] = np.bincount(self.answer[np.flatnonzero(cast.wins)], minlength=len(n_votes))
        columns[HELD] = weight
        columns[SHARE] = weight * share
        columns[BORDA] = columns[SHARE] * (self.n_candidates[self.answer_session] - 1.0)
        score, has_score = self._answer_scores(n_votes)
        columns[SCORED] = np.where(has_score, weight, 0.0)
        columns[SCORE] = columns[SCORED] * score
        doubled = cast.doubled if pull is None else pull * cast.doubled
        columns[PLACE] = weight * (1.0 + self.added(doubled * cast.counts) / 2.0 / bottom)
        columns[BLEND] = columns[SCORED] * (HALF * share + (1.0 - HALF) * (score - 1.0) / 9.0)
        return columns

    def _answer_scores(self, n_votes: Floats) -> tuple[Floats, Bools]:
        """The mean score of each answer, and which have one."""
        score = self.rows.numbers.get("score")
        if score is None:
            return np.zeros_like(n_votes), np.zeros(len(n_votes), dtype=bool)
        known = self.votes.judged & np.isfinite(score)
        held = np.where(known, score, 0.0)
        if self.pull is not None:
            n, total = self.added(self.pull * known), self.added(self.pull * held)
        elif np.array_equal(known, self.votes.counts):
            n, total = n_votes, self.added(held)
        else:
            n, total = self.added(known), self.added(held)
        return total / np.where(n > 0.0, n, 1.0), n > 0.0

    def models(self) -> Cells:
        here = self.slice[self.answer_session] >= 0
        session, columns = self.answer_session, self._answer_columns
        candidate = self.answer_candidate
        if not here.all():
            session, candidate, columns = session[here], candidate[here], columns[:, here]
        subject = self.slice[session] * self.n_names + candidate
        cluster = self.rows.cluster[session].astype(np.int64)
        size = self.plan.n_slices * self.n_names
        groups = group((subject, size), (cluster, self.rows.n_clusters))
        return tabulate(groups, subject, cluster, list(columns))

    def counts(self) -> Cells:
        """By slice: sessions with a vote, rows, and what is odd about either."""
        n = self.plan.n_slices
        voted = np.bincount(
            self.answer_session, self._answer_columns[HELD] > 0.0, self.rows.n_sessions
        )
        inside = self.slice >= 0
        slices = np.where(inside, self.slice, 0)
        by_session = (voted > 0.0, self.n_candidates == 1, self.unweighted, self.mixed)
        sessions, lone, unweighted, mixed = (
            np.bincount(slices, (values & inside).astype(np.float64), n) for values in by_session
        )
        rows = np.bincount(slices[self.rows.session], self.inside.astype(np.float64), n)
        twice = np.zeros(n)
        twice[0] = self._n_duplicates()
        table = np.column_stack([sessions, rows, lone, unweighted, mixed, twice])
        return Cells(np.arange(n), np.zeros(n, dtype=np.int64), table)

    def _n_duplicates(self) -> int:
        """Rows too many: those whose ballot already speaks of their candidate."""
        key = self.votes.ballot * self.n_names + self.rows.candidate
        if (key[1:] > key[:-1]).all():
            return 0
        size = self.votes.n_ballots * self.n_names
        if size <= ROOMY * len(key) + ALWAYS_ROOM:
            return len(key) - int(np.count_nonzero(np.bincount(key, minlength=size)))
        arranged = np.sort(key)
        return int(np.count_nonzero(arranged[1:] == arranged[:-1]))

    def lengths(self) -> Cells:
        """By candidate: shares, and how long the answer was beside all answers of its session."""
        cast, words = self.votes, self.rows.numbers["words"]
        known = cast.counts & np.isfinite(words) & self.inside
        long = np.log1p(np.where(known, words, 0.0))
        gap = np.where(known, long - self._session_lengths(words)[self.rows.session], 0.0)
        y = np.where(known, cast.share, 0.0)
        slices = np.where(known, self.slice[self.rows.session], 0)
        subject = slices * self.n_names + self.rows.candidate
        return _summed(subject, [known.astype(np.float64), y, gap, gap * gap, gap * y])

    def _session_lengths(self, words: Floats) -> Floats:
        """The mean log words of each session's answers, whoever judged them."""
        told = np.isfinite(words)
        some = np.maximum(self.added(told), 1.0)
        log = self.added(np.log1p(np.where(told, words, 0.0))) / some
        n_sessions, has = self.rows.n_sessions, self.added(told) > 0.0
        total = np.bincount(self.answer_session, log * has, minlength=n_sessions)
        mean: Floats = total / np.maximum(
            np.bincount(self.answer_session, has, minlength=n_sessions), 1.0
        )
        return mean

    # -- by reviewer and candidate ---------------------------------------------------------------

    def _pair_subject(self) -> Ints:
        rows = self.rows
        slices = np.where(self.inside, self.slice[rows.session], 0)
        found: Ints = (slices * self.n_names + rows.reviewer) * self.n_names + rows.candidate
        return found

    def influence(self) -> Cells:
        """Votes, shares, and how far each reviewer pulls the sessions' means."""
        cast = self.votes
        counts = cast.counts & self.inside
        bulk = counts.astype(np.float64) if self.pull is None else self.pull * counts
        total = self.added(bulk)
        some = np.where(total > 0.0, total, 1.0)
        mean = self.added(bulk * cast.share) / some
        weight = self.weight[self.rows.session]
        pull = weight * bulk * (cast.share - mean[self.answer]) / some[self.answer]
        return _summed(self._pair_subject(), [counts.astype(float), cast.share * counts, pull])

    def scores(self) -> Cells:
        """Scores and their squares, and scores as sessions weigh them."""
        rows = self.rows
        score = rows.numbers["score"]
        known = self.votes.judged & self.inside & np.isfinite(score)
        subject = self._pair_subject()
        bulk = known.astype(np.float64) if self.pull is None else self.pull * known
        n = self.added(bulk)
        part = self.weight[rows.session] * bulk / np.where(n > 0.0, n, 1.0)[self.answer]
        if not known.all():
            subject, score, part = subject[known], score[known], part[known]
        return _summed(subject, [np.ones(len(score)), score, score * score, part, part * score])

    # -- pairs of candidates ---------------------------------------------------------------------

    def pairs(self) -> Cells:
        """By upper and lower candidate of a ballot: how often above, and how often level."""
        rows = self.rows
        subjects, clusters, columns = [], [], []
        for above, below, apart in self._matches():
            slices = self.slice[rows.session[above]]
            upper = slices * self.n_names + rows.candidate[above]
            subjects.append(upper * self.n_names + rows.candidate[below])
            clusters.append(rows.cluster[rows.session[above]].astype(np.int64))
            columns.append(np.column_stack([apart, ~apart]).astype(np.float64))
        if not subjects:
            nobody = np.zeros(0, dtype=np.int64)
            return Cells(nobody, nobody, np.zeros((0, 2)))
        return ordered(np.concatenate(subjects), np.concatenate(clusters), np.concatenate(columns))

    def _matches(self) -> Iterator[tuple[Ints, Ints, Bools]]:
        """Pairs of rows on one ballot: the upper ones, the lower ones, and which are no ties."""
        cast = self.votes
        kept = np.flatnonzero(cast.counts & self.inside)
        order = kept[np.lexsort((cast.doubled[kept], cast.ballot[kept]))]
        ballot, place = cast.ballot[order], cast.doubled[order]
        for apart in range(1, len(order)):
            same = np.flatnonzero(ballot[apart:] == ballot[:-apart])
            if len(same) == 0:
                return
            yield order[same], order[same + apart], place[same] < place[same + apart]


def _summed(subject: Ints, columns: Sequence[Floats]) -> Cells:
    """Columns of rows added up by subject."""
    return ordered(subject, np.zeros(len(subject), dtype=np.int64), np.column_stack(columns))


def slices_of(rows: Rows, plan: Plan) -> tuple[Ints, Bools]:
    """The slice of each session, negative outside the window; and which name two categories."""
    slices = np.zeros(rows.n_sessions, dtype=np.int64)
    mixed = np.zeros(rows.n_sessions, dtype=bool)
    if plan.by_category:
        category = rows.numbers["category"]
        slices = by_session(rows, category, np.maximum).astype(np.int64)
        mixed = by_session(rows, category, np.minimum) != slices
    if (plan.earliest is None and plan.periods is None) or "at" not in rows.numbers:
        return slices, mixed
    at = by_session(rows, rows.numbers["at"], np.fmax)
    if plan.periods is not None:
        start, width = plan.periods
        period = np.floor((at - start) / width)
        slices = np.where(np.isfinite(period), period, -1.0).astype(np.int64)
    if plan.earliest is not None:
        slices[at < plan.earliest] = -1
    return slices, mixed


def by_session(rows: Rows, values: Floats, pick: np.ufunc) -> Floats:
    """One value for each session: the largest, say, of its rows'."""
    session = rows.session
    if (np.diff(session) < 0).any():
        order = np.argsort(session, kind="stable")
        session, values = session[order], values[order]
    starts = np.flatnonzero(np.append(True, np.diff(session) > 0)) if len(session) else session
    found = np.full(rows.n_sessions, np.nan)
    if len(session):
        found[session[starts]] = pick.reduceat(values, starts)
    return found


def item_weights(rows: Rows) -> tuple[Floats, Bools]:
    """The item weight of each session, 1 where none were asked for, and which have none."""
    if "item_weight" not in rows.numbers:
        return np.ones(rows.n_sessions), np.zeros(rows.n_sessions, dtype=bool)
    weight = by_session(rows, rows.numbers["item_weight"], np.fmax)
    unknown = ~np.isfinite(weight)
    return np.where(unknown, 0.0, weight), unknown
