"""The model board's sums over blocks of whole sessions; they add, and every board is built of them.

Each session counts once: a candidate's value in it is the mean over the ballots that vote
for it, and only those means are added up. Nothing here divides by a number of sessions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerage.reviews.cells import (
    Bools,
    Cells,
    Floats,
    Ints,
    dense,
    group,
    ordered,
    places,
    spans,
    table_of,
)
from peerage.reviews.rows import N_CLUSTERS, Rows, Votes, has_rounds, round_codes, votes
from peerage.stats import clusters as by_cluster
from peerage.stats.clusters import generator
from peerage.types import OwnVotes

HALF = 0.5  # of hybrid: what the share weighs beside the score

COLUMNS: Mapping[str, tuple[str, ...]] = {  # of the sums of each table
    # by candidate and cluster; weights are those of sessions
    "models": (
        *("appeared", "votes", "wins", "voted", "share", "borda"),
        *("scored", "score", "place", "blend"),
    ),
    "counts": ("sessions", "rows", "lone", "unweighted", "mixed", "duplicates"),  # of a slice
    "scores": ("n", "sum", "squares", "weight", "score"),  # by reviewer, candidate and fold
    "influence": ("votes", "share", "pull"),  # by reviewer and candidate: on the session means
    "absences": ("share", "voted"),  # by reviewer and candidate: what changes without the reviewer
    "pairs": ("won", "tied"),  # by candidate, lower candidate and cluster
    "rivals": ("met",),  # by candidate and rival: the rival's part in the candidate's shares
    "meetings": ("met",),  # the same by cluster
    "lengths": ("n", "share", "long", "square", "product"),  # by candidate: log words, centred
}
N_NAMES = {
    "models": 1,
    "counts": 0,
    "scores": 2,
    "influence": 2,
    "absences": 2,
    "pairs": 2,
    "lengths": 1,
    "rivals": 2,
    "meetings": 2,
}

Tables = Mapping[str, Cells]


@dataclass(frozen=True, slots=True)
class Plan:
    """What to add up; slices are categories, weeks, or one for all."""

    own_votes: OwnVotes = "out"
    models: bool = True
    n_slices: int = 1
    by_category: bool = False
    periods: tuple[float, float] | None = None  # where slices are times: the start and the width
    earliest: float | None = None
    scores: bool = False
    influence: bool = False
    absences: bool = False
    pairs: bool = False
    lengths: bool = False
    rivals: bool = False
    meetings: bool = False
    weight_by_name: Floats | None = None  # of reviewers
    fold_by_cluster: Ints | None = None


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

    def totals(self, table: str) -> dict[str, Floats]:
        """A table's columns by subject, over all clusters."""
        totals = np.zeros((len(self.names) ** N_NAMES[table], len(COLUMNS[table])))
        if table in self.tables:
            np.add.at(totals, self.tables[table].subject, self.tables[table].sums)
        return dict(zip(COLUMNS[table], totals.T, strict=True))

    def columns(self, table: str) -> dict[str, Floats]:
        """A table's columns, cell by cell."""
        return dict(zip(COLUMNS[table], self.tables[table].sums.T, strict=True))

    def slice(self, at: int | None) -> ModelSums:
        """One slice alone, or (None) all of them together, as sums of a single slice."""
        tables = {}
        for name, cells in self.tables.items():
            slices, subject = np.divmod(cells.subject, len(self.names) ** N_NAMES[name])
            rows = slice(None) if at is None else slices == at
            tables[name] = ordered(subject[rows], cells.cluster[rows], cells.sums[rows])
        return ModelSums(self.names, self.units, tables)


# -- one block -----------------------------------------------------------------------------------


def block_sums(rows: Rows, plan: Plan) -> Tables:
    """The tables of some whole sessions."""
    block = _Block(rows, plan)
    tables = {"models": block.models(), "counts": block.counts()} if plan.models else {}
    for name in ("scores", "influence", "absences", "pairs", "lengths", "rivals", "meetings"):
        if getattr(plan, name):
            tables[name] = getattr(block, name)()
    return tables


class _Block:
    """A block's votes and the answers (a session and a candidate each) that they fall on."""

    def __init__(self, rows: Rows, plan: Plan) -> None:
        self.rows, self.plan = rows, plan
        self.n_names = len(rows.names)
        candidates, n_candidates = dense(rows.candidate)  # fewer than names: reviewers have some
        answers = group((rows.session, rows.n_sessions), (candidates, n_candidates))
        self.answer = answers.code  # of each row
        self.answer_session = answers.first(rows.session)
        self.answer_candidate = answers.first(rows.candidate)
        self.n_candidates = np.bincount(self.answer_session, minlength=rows.n_sessions)
        self.votes: Votes = votes(rows, plan.own_votes, self.n_candidates)
        self.slice, self.mixed = slices_of(rows, plan)
        self.inside: Bools = self.slice[rows.session] >= 0  # by row
        self.weight, self.unweighted = item_weights(rows)

    @cached_property
    def pull(self) -> Floats | float:
        """What each row's vote weighs within its session: 1 unless reviewers weigh differently."""
        weights = self.plan.weight_by_name
        return 1.0 if weights is None else weights[self.rows.reviewer]

    def added(self, values: NDArray[Any]) -> Floats:
        """Values of rows added up by answer."""
        total = np.bincount(self.answer, weights=values, minlength=len(self.answer_session))
        return total.astype(np.float64, copy=False)

    # -- by candidate --------------------------------------------------------------------------

    @cached_property
    def _answer_columns(self) -> dict[str, Floats]:
        """Every answer's part in the sums of its candidate."""
        cast, pull = self.votes, self.pull
        n_votes = self.added(cast.counts)
        pulled = n_votes if isinstance(pull, float) else self.added(pull * cast.counts)
        bottom = np.where(pulled > 0.0, pulled, 1.0)
        share = self.added(pull * cast.share) / bottom
        weight = np.where(pulled > 0.0, self.weight[self.answer_session], 0.0)
        score, has_score = self._answer_scores(n_votes)
        scored = np.where(has_score, weight, 0.0)
        doubled = self.added(pull * (cast.doubled * cast.counts))
        wins = np.bincount(self.answer[np.flatnonzero(cast.wins)], minlength=len(n_votes))
        return {
            "appeared": np.ones(len(n_votes)),
            "votes": n_votes,
            "wins": wins.astype(np.float64),
            "pulled": pulled,
            "voted": weight,
            "share": weight * share,
            "borda": weight * share * (self.n_candidates[self.answer_session] - 1.0),
            "scored": scored,
            "score": scored * score,
            "place": weight * (1.0 + doubled / 2.0 / bottom),
            "blend": scored * (HALF * share + (1.0 - HALF) * (score - 1.0) / 9.0),
        }

    def _answer_scores(self, n_votes: Floats) -> tuple[Floats, Bools]:
        """The mean score of each answer, and which have one."""
        score = self.rows.numbers.get("score")
        if score is None:
            return np.zeros_like(n_votes), np.zeros(len(n_votes), dtype=bool)
        known = self.votes.judged & np.isfinite(score)
        total = self.added(self.pull * np.where(known, score, 0.0))
        alike = isinstance(self.pull, float) and np.array_equal(known, self.votes.counts)
        n = n_votes if alike else self.added(self.pull * known)
        return total / np.where(n > 0.0, n, 1.0), n > 0.0

    def models(self) -> Cells:
        here = places(self.slice[self.answer_session] >= 0)
        session = self.answer_session[here]
        subject = self.slice[session] * self.n_names + self.answer_candidate[here]
        columns = [self._answer_columns[name][here] for name in COLUMNS["models"]]
        return table_of(subject, self.rows.cluster[session], columns)

    def counts(self) -> Cells:
        """By slice: sessions with a vote, rows, and what is odd about either."""
        n = self.plan.n_slices
        voted = np.bincount(
            self.answer_session, self._answer_columns["voted"] > 0.0, self.rows.n_sessions
        )
        inside = self.slice >= 0
        slices = np.where(inside, self.slice, 0)
        by_session = (voted > 0.0, self.n_candidates == 1, self.unweighted, self.mixed)
        sessions, lone, unweighted, mixed = (
            np.bincount(slices, (values & inside).astype(np.float64), n) for values in by_session
        )
        rows = np.bincount(slices[self.rows.session], self.inside.astype(np.float64), n)
        # Rows too many: those whose ballot already speaks of their candidate.
        ballots = (self.votes.ballot, self.votes.n_ballots)
        once = group(ballots, (self.rows.candidate, self.n_names)).n
        twice = np.zeros(n)
        twice[0] = self.rows.n - once
        table = np.column_stack([sessions, rows, lone, unweighted, mixed, twice])
        return Cells(np.arange(n), np.zeros(n, dtype=np.int64), table)

    def lengths(self) -> Cells:
        """By candidate: shares, and how long the answer was beside all answers of its session."""
        cast, words = self.votes, self.rows.numbers["words"]
        at = np.flatnonzero(cast.counts & np.isfinite(words) & self.inside)
        session = self.rows.session[at]
        gap = np.log1p(words[at]) - self._session_lengths(words)[session]
        y = cast.share[at]
        subject = self.slice[session] * self.n_names + self.rows.candidate[at]
        return table_of(subject, np.zeros_like(subject), [None, y, gap, gap * gap, gap * y])

    def _session_lengths(self, words: Floats) -> Floats:
        """The mean log words of each session's answers, whoever judged them."""
        known = np.isfinite(words)
        n = self.added(known)
        log = self.added(np.log1p(np.where(known, words, 0.0))) / np.maximum(n, 1.0)
        n_sessions, has = self.rows.n_sessions, n > 0.0
        total = np.bincount(self.answer_session, log * has, minlength=n_sessions)
        n_known = np.bincount(self.answer_session, has, minlength=n_sessions)
        return total / np.maximum(n_known, 1.0)

    # -- by reviewer and candidate ---------------------------------------------------------------

    def _pair_subject(self) -> Ints:
        rows = self.rows
        slices = np.where(self.inside, self.slice[rows.session], 0)
        return (slices * self.n_names + rows.reviewer) * self.n_names + rows.candidate

    def influence(self) -> Cells:
        """Votes, shares, and how far each reviewer pulls the sessions' means."""
        cast = self.votes
        counts = cast.counts & self.inside
        bulk = self.pull * counts
        total = self.added(bulk)
        some = np.where(total > 0.0, total, 1.0)
        mean = self.added(bulk * cast.share) / some
        weight = self.weight[self.rows.session]
        pull = weight * bulk * (cast.share - mean[self.answer]) / some[self.answer]
        subject = self._pair_subject()
        return table_of(subject, np.zeros_like(subject), [counts, cast.share * counts, pull])

    def absences(self) -> Cells:
        """How the sums of each candidate change where a reviewer is left out."""
        cast, rows = self.votes, self.rows
        at = np.flatnonzero(cast.counts & self.inside)
        bulk = np.broadcast_to(self.pull, rows.n)[at]
        n_answers = len(self.answer_session)
        pair = group((self.answer[at], n_answers), (rows.reviewer[at], self.n_names))
        own_bulk, own_share = pair.sum(bulk), pair.sum(bulk * cast.share[at])
        answer, reviewer = pair.first(self.answer[at]), pair.first(rows.reviewer[at])
        total = self.added(self.pull * (cast.counts & self.inside))[answer]
        share = self.added(self.pull * cast.share * self.inside)[answer]
        weight = self.weight[self.answer_session[answer]]
        rest = total - own_bulk
        left = rest > 1e-12
        mean = share / np.where(total > 0.0, total, 1.0)
        without = np.where(left, (share - own_share) / np.where(left, rest, 1.0), 0.0)
        subject = reviewer.astype(np.int64) * self.n_names + self.answer_candidate[answer]
        columns = [weight * (without - mean), weight * ~left]
        return table_of(subject, np.zeros_like(subject), columns)

    def scores(self) -> Cells:
        """Scores and their squares, and scores as sessions weigh them."""
        rows, folds = self.rows, self.plan.fold_by_cluster
        score = rows.numbers["score"]
        known = self.votes.judged & self.inside & np.isfinite(score)
        subject = self._pair_subject()
        bulk = self.pull * known
        n = self.added(bulk)
        part = self.weight[rows.session] * bulk / np.where(n > 0.0, n, 1.0)[self.answer]
        fold = np.zeros_like(subject) if folds is None else folds[rows.cluster][rows.session]
        if not known.all():
            subject, fold = subject[known], fold[known]
            score, part = score[known], part[known]
        columns = [None, score, score * score, part, part * score]
        return table_of(subject, fold, columns)

    # -- pairs of candidates ---------------------------------------------------------------------

    def rivals(self) -> Cells:
        """By candidate and rival: how much of the candidate's shares was won or lost against it.

        On a ballot every rival has an equal part, in a session every ballot, and the parts add up
        to what the session weighs.
        """
        return self._meetings(np.zeros(self.rows.n_sessions, dtype=np.int64))

    def meetings(self) -> Cells:
        """The same by cluster."""
        return self._meetings(self.rows.cluster.astype(np.int64))

    def _meetings(self, cluster: Ints) -> Cells:
        """Parts of rivals by candidate, rival and the cluster of each session.

        Sessions in which the same reviewers judged the same candidates are alike here: one of each
        kind is paired, for all of them.
        """
        rows, cast = self.rows, self.votes
        slices = np.maximum(self.slice, 0)
        kinds = group(
            (slices, self.plan.n_slices),
            (cluster, int(cluster.max(initial=0)) + 1),
            dense(self._session_fingerprints()),
        )
        weight = np.bincount(kinds.code, np.where(self.slice >= 0, self.weight, 0.0), kinds.n)
        example = np.zeros(kinds.n, dtype=np.int64)
        example[kinds.code] = np.arange(rows.n_sessions)
        weigh = np.zeros(rows.n_sessions)  # by session, 0 for all but one of each kind
        weigh[example] = weight
        at = np.flatnonzero(weigh[rows.session] > 0.0)
        if self.plan.own_votes == "out":
            at = at[rows.reviewer[at] != rows.candidate[at]]
        at = at[np.argsort(cast.ballot[at], kind="stable")]
        ballot = cast.ballot[at]
        size = np.bincount(ballot, minlength=cast.n_ballots)
        one, other = spans((np.cumsum(size) - size)[ballot], size[ballot])
        apart = (one != other) & cast.counts[at][one]
        one, other = at[one[apart]], at[other[apart]]
        pull = self.pull if isinstance(self.pull, float) else self.pull[one]
        session = rows.session[one]
        met = weigh[session] * pull / self._answer_columns["pulled"][self.answer[one]]
        met = met / (size[cast.ballot[one]] - 1.0)
        subject = (slices[session] * self.n_names + rows.candidate[one]) * self.n_names
        return ordered(subject + rows.candidate[other], cluster[session], met[:, None])

    def _session_fingerprints(self) -> Ints:
        """A number for each session, alike where the same votes were cast on the same ballots."""
        rows, n = self.rows, self.n_names
        judge, n_judges = rows.reviewer, n
        if has_rounds(rows):
            rounds, n_rounds = round_codes(rows)
            judge, n_judges = judge + n * rounds, n * n_rounds
        mixed = random_words("judges", n_judges)[judge]
        mixed *= random_words("candidates", 2 * n)[rows.candidate + n * self.votes.counts]
        largest = int(np.bincount(rows.session, minlength=1).max())
        mixed >>= np.uint64(12 + largest.bit_length())  # so that a float holds the sum exactly
        prints = np.bincount(rows.session, mixed.astype(np.float64), rows.n_sessions)
        return prints.astype(np.int64)

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
        rows = np.flatnonzero(cast.counts & self.inside)
        order = rows[np.lexsort((cast.doubled[rows], cast.ballot[rows]))]
        ballot, place = cast.ballot[order], cast.doubled[order]
        for apart in range(1, len(order)):
            same = np.flatnonzero(ballot[apart:] == ballot[:-apart])
            if len(same) == 0:
                return
            yield order[same], order[same + apart], place[same] < place[same + apart]


@lru_cache(maxsize=8)
def random_words(about: str, n: int) -> NDArray[np.uint64]:
    """Numbers of 64 random bits, the same on every machine."""
    words = generator(about, n).bit_generator.random_raw(n)
    return np.asarray(words, dtype=np.uint64)


def slices_of(rows: Rows, plan: Plan) -> tuple[Ints, Bools]:
    """The slice of each session, negative outside the window; and which name two categories."""
    slices = np.zeros(rows.n_sessions, dtype=np.int64)
    mixed = np.zeros(rows.n_sessions, dtype=bool)
    if plan.by_category:
        category = rows.numbers["category"]
        slices = by_session(rows, category, np.fmax).astype(np.int64)
        mixed = by_session(rows, category, np.fmin) != slices
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
    """One value for each session: the largest, say, of its rows'; `pick` passes over NaN."""
    picked = np.full(rows.n_sessions, np.nan)
    pick.at(picked, rows.session, values)
    return picked


def item_weights(rows: Rows) -> tuple[Floats, Bools]:
    """The item weight of each session, 1 where none were asked for, and which have none."""
    if "item_weight" not in rows.numbers:
        return np.ones(rows.n_sessions), np.zeros(rows.n_sessions, dtype=bool)
    weight = by_session(rows, rows.numbers["item_weight"], np.fmax)
    unknown = ~np.isfinite(weight)
    return np.where(unknown, 0.0, weight), unknown


# -- sums by model --------------------------------------------------------------------------------


class ModelTotals:
    """One slice of the sums, by model: what every column of the board is taken from."""

    def __init__(self, sums: ModelSums) -> None:
        self.sums = sums
        every = sums.totals("models")
        self.code = np.flatnonzero(every["appeared"] > 0.0)  # of each model among the names
        self.by_model = {name: column[self.code] for name, column in every.items()}
        self.models = tuple(sums.names[i] for i in self.code.tolist())
        self._place = np.full(len(sums.names), -1)
        self._place[self.code] = np.arange(len(self.code))

    def __len__(self) -> int:
        return len(self.models)

    def place_of(self, code: Ints) -> Ints:
        """The places of models on this board by their codes among the names."""
        return self._place[code]

    def column(self, name: str) -> Floats:
        return self.by_model[name]

    def count(self, name: str) -> int:
        return int(self.sums.totals("counts")[name][0])

    @property
    def has_scores(self) -> bool:
        return "scores" in self.sums.tables and self.sums.tables["scores"].n > 0

    def mean(self, top: str, bottom: str) -> Floats:
        """A mean over sessions, NaN where a model is in none."""
        return by_cluster.quotient(self.column(top), self.column(bottom))

    def by_cluster(self, name: str) -> Floats:
        """A column of the sums, clusters by models; clusters that hold nothing are left out."""
        cells, columns = self.sums.tables["models"], self.sums.columns("models")
        table = np.zeros((self.sums.n_clusters, len(self)))
        table[cells.cluster, self._place[cells.subject]] = columns[name]
        return table[self._clusters]

    @property
    def voted_units(self) -> list[str]:
        """What each cluster with a vote is an observation of, in the order of `by_cluster`."""
        units = self.sums.units or ()
        return [units[i] for i in self._clusters.tolist()]

    @property
    def _clusters(self) -> Ints:
        """The clusters that hold a vote."""
        cells, columns = self.sums.tables["models"], self.sums.columns("models")
        return np.unique(cells.cluster[columns["voted"] > 0.0])

    @cached_property
    def met(self) -> Floats | None:
        """By model and rival: the rival's part in the model's shares; None where not added up."""
        if "rivals" not in self.sums.tables:
            return None
        met = self.sums.totals("rivals")["met"].reshape((len(self.sums.names),) * 2)
        return met[np.ix_(self.code, self.code)]

    def expected(self, meetings: ModelSums, shares: Floats) -> Floats:
        """Clusters by models: the sums of shares to be expected, given those against each rival."""
        cells = meetings.tables["meetings"]
        one, other = np.divmod(cells.subject, len(meetings.names))
        one, other = self._place[one], self._place[other]
        points = meetings.columns("meetings")["met"] * shares[one, other]
        shape = (self.sums.n_clusters, len(self))
        cell = cells.cluster.astype(np.int64) * len(self) + one
        by_cell: Floats = np.bincount(cell, points, minlength=math.prod(shape)).astype(np.float64)
        return by_cell.reshape(shape)[self._clusters]

    def matches(self) -> tuple[Ints, Ints, dict[str, Floats]]:
        """The upper model, the lower one, and the sums of each cell of the pairs."""
        above, below = np.divmod(self.sums.tables["pairs"].subject, len(self.sums.names))
        return self._place[above], self._place[below], self.sums.columns("pairs")

    def points(self) -> Floats:
        """How often each model stood above each other on a ballot; a tie is half."""
        points = np.zeros((len(self), len(self)))
        above, below, sums = self.matches()
        np.add.at(points, (above, below), sums["won"] + sums["tied"] / 2.0)
        np.add.at(points, (below, above), sums["tied"] / 2.0)
        return points

    def by_reviewer(self, table: str) -> tuple[Ints, Ints, dict[str, Floats]]:
        """Reviewer, model and sums of each pair that has any, of a table by reviewers."""
        cells = self.sums.tables[table]
        starts = np.flatnonzero(np.append(True, np.diff(cells.subject) != 0)[: cells.n])
        reviewer, candidate = np.divmod(cells.subject[starts], len(self.sums.names))
        model = self._place[candidate]
        on_board = model >= 0
        columns = {
            name: np.add.reduceat(column, starts)[on_board] if cells.n else column
            for name, column in self.sums.columns(table).items()
        }
        return reviewer[on_board], model[on_board], columns
