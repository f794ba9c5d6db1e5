"""The sums behind the model board, over blocks of whole sessions; sums of blocks can be added.

Each session counts once: a candidate's value in it is the mean over the ballots that vote on it,
and only those means are added up. Nothing here divides by a number of sessions.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
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
    merge_tables,
    places,
    sort_cells,
    spans,
    table_of,
)
from peerage.reviews.rows import (
    N_CLUSTERS,
    Rows,
    by_session,
    chunks,
    folds_of,
    has_rounds,
    round_codes,
)
from peerage.reviews.votes import Votes, votes
from peerage.stats.clusters import generator, quotient
from peerage.types import OwnVotes

HALF = 0.5  # the weight of the share in `hybrid`; the score has the rest

COLUMNS: Mapping[str, tuple[str, ...]] = {  # of the sums of each table
    # by candidate and cluster; weights are those of sessions
    "models": (
        *("appeared", "votes", "wins", "voted", "share", "borda"),
        *("scored", "score", "place", "blend"),
    ),
    "counts": ("sessions", "rows", "lone", "unweighted", "duplicates"),  # by part
    "scores": ("n", "sum", "squares", "weight", "score"),  # by reviewer, candidate and fold
    "influence": ("votes", "share", "pull"),  # by reviewer and candidate: pull on session means
    "pairs": ("won", "tied"),  # by candidate, lower candidate and cluster
    "rivals": ("met",),  # by candidate and rival: how much of its shares is due to the rival
    "meetings": ("met",),  # the same by cluster
    "lengths": ("n", "share", "long", "square", "product"),  # by candidate: log words, centred
}
N_NAMES = {
    "models": 1,
    "counts": 0,
    "scores": 2,
    "influence": 2,
    "pairs": 2,
    "lengths": 1,
    "rivals": 2,
    "meetings": 2,
}

Tables = Mapping[str, Cells]
BASE = ("models", "counts")  # tables that every board is made from
CHUNK_ROWS = 131_072  # rows that fit into a processor's cache


@dataclass(frozen=True)
class ModelSums:
    """Sums of a table of reviews by model, and the names of its codes.

    Sums of several parts (categories, weeks) are split by `part`. `units` names the unit of each
    cluster; it is None if there are too many, and clusters are then buckets of units.
    """

    names: tuple[str, ...]
    units: tuple[str, ...] | None
    tables: Tables

    def part(self, at: int | None) -> ModelSums:
        """Return one part alone, or (None) all of them together."""
        tables = {}
        for name, cells in self.tables.items():
            parts, subject = np.divmod(cells.subject, len(self.names) ** N_NAMES[name])
            rows = slice(None) if at is None else parts == at
            tables[name] = sort_cells(subject[rows], cells.cluster[rows], cells.sums[rows])
        return ModelSums(self.names, self.units, tables)

    def totals(self, table: str) -> dict[str, Floats]:
        """Return the columns of a table by subject, over all clusters."""
        totals = np.zeros((len(self.names) ** N_NAMES[table], len(COLUMNS[table])))
        if table in self.tables:
            np.add.at(totals, self.tables[table].subject, self.tables[table].sums)
        return dict(zip(COLUMNS[table], totals.T, strict=True))

    def columns(self, table: str) -> dict[str, Floats]:
        """Return the columns of a table, cell by cell."""
        return dict(zip(COLUMNS[table], self.tables[table].sums.T, strict=True))

    def count(self, name: str) -> int:
        """Return a sum of the table `counts`."""
        return int(self.totals("counts")[name][0])

    # -- by model: places are those of `models` ------------------------------------------------

    @cached_property
    def by_model(self) -> dict[str, Floats]:
        """The columns of the table `models`, summed over all clusters."""
        return {name: column[self.code] for name, column in self.totals("models").items()}

    @cached_property
    def code(self) -> Ints:
        """The codes of the models that have an answer."""
        return np.unique(self.tables["models"].subject)

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(self.names[i] for i in self.code.tolist())

    @cached_property
    def place(self) -> Ints:
        """The index of each name among the models; −1 for a name without answers."""
        place = np.full(len(self.names), -1)
        place[self.code] = np.arange(len(self.code))
        return place

    def mean(self, top: str, bottom: str) -> Floats:
        """Return a mean over sessions; NaN for a model without sessions."""
        return quotient(self.by_model[top], self.by_model[bottom])

    def by_cluster(self, name: str) -> Floats:
        """Return a column of sums, clusters (with votes) × models."""
        cells = self.tables["models"]
        table = np.zeros((self.n_clusters, len(self.code)))
        table[cells.cluster, self.place[cells.subject]] = self.columns("models")[name]
        return table[self._voted_in]

    @property
    def n_clusters(self) -> int:
        return N_CLUSTERS if self.units is None else len(self.units)

    @property
    def voted_units(self) -> list[str]:
        """The units of the clusters with votes, in the order of `by_cluster`."""
        units = self.units or ()
        return [units[i] for i in self._voted_in.tolist()]

    @cached_property
    def _voted_in(self) -> Ints:
        """The clusters that have a vote."""
        return np.unique(self.tables["models"].cluster[self.columns("models")["voted"] > 0.0])

    @cached_property
    def met(self) -> Floats | None:
        """How much of a model's shares is due to each rival (models × rivals); None if unknown."""
        if "rivals" not in self.tables:
            return None
        one, other = np.divmod(self.tables["rivals"].subject, len(self.names))
        met = np.zeros((len(self.code),) * 2)
        np.add.at(met, (self.place[one], self.place[other]), self.columns("rivals")["met"])
        return met

    def expect_shares(self, meetings: ModelSums, shares: Floats) -> Floats:
        """Return the expected sums of shares (clusters × models)."""
        cells = meetings.tables["meetings"]
        one, other = np.divmod(cells.subject, len(meetings.names))
        one, other = self.place[one], self.place[other]
        points = meetings.columns("meetings")["met"] * shares[one, other]
        shape = (self.n_clusters, len(self.code))
        cell = cells.cluster.astype(np.int64) * len(self.code) + one
        by_cell: Floats = np.bincount(cell, points, minlength=math.prod(shape)).astype(np.float64)
        return by_cell.reshape(shape)[self._voted_in]

    def matches(self) -> tuple[Ints, Ints, dict[str, Floats]]:
        """Return the upper model, the lower model and the sums of each cell of `pairs`."""
        above, below = np.divmod(self.tables["pairs"].subject, len(self.names))
        return self.place[above], self.place[below], self.columns("pairs")

    def points(self) -> Floats:
        """Return how often each model was ranked above each other on a ballot; a tie is half."""
        n = len(self.code)
        above, below, sums = self.matches()
        won, tied = (np.bincount(above * n + below, sums[name], n * n) for name in sums)
        level = (tied / 2.0).reshape(n, n)
        points: Floats = won.reshape(n, n) + level + level.T
        return points

    def by_reviewer(self, table: str) -> tuple[Ints, Ints, dict[str, Floats]]:
        """Return reviewer, model and sums of each pair in a table by reviewers."""
        cells = self.tables[table]
        starts = np.flatnonzero(np.append(True, np.diff(cells.subject) != 0)[: cells.n])
        reviewer, candidate = np.divmod(cells.subject[starts], len(self.names))
        model = self.place[candidate]
        on_board = model >= 0
        columns = {
            name: np.add.reduceat(column, starts)[on_board] if cells.n else column
            for name, column in self.columns(table).items()
        }
        return reviewer[on_board], model[on_board], columns


# -- one block -----------------------------------------------------------------------------------


def sum_votes(
    rows: Rows,
    tables: Collection[str] = BASE,
    own_votes: OwnVotes = "out",
    weight_by_name: Floats | None = None,
) -> ModelSums:
    """Return these tables of sums over some whole sessions; all engines use this function.

    `Rows.part` assigns sessions to parts of the board. `weight_by_name` has reviewers' weights.
    """
    few = chunks(rows, CHUNK_ROWS)
    blocks = (_Block(part, own_votes, weight_by_name) for part in few)
    sums = merge_tables([{name: getattr(block, name)() for name in tables} for block in blocks])
    return ModelSums(rows.names, rows.units, sums)


class _Block:
    """A block's votes, and the answers (one per session and candidate) that they are about."""

    def __init__(
        self, rows: Rows, own_votes: OwnVotes, weight_by_name: Floats | None = None
    ) -> None:
        self.rows, self.own_votes = rows, own_votes
        self.n_names = len(rows.names)
        candidates, n_candidates = dense(rows.candidate)  # some names are of reviewers only
        answers = group((rows.session, rows.n_sessions), (candidates, n_candidates))
        self.answer = answers.code  # of each row
        self.answer_session = answers.first(rows.session)
        self.answer_candidate = answers.first(rows.candidate)
        self.n_candidates = np.bincount(self.answer_session, minlength=rows.n_sessions)
        self.votes: Votes = votes(rows, own_votes, self.n_candidates)
        everywhere = np.zeros(rows.n_sessions, dtype=np.int64)
        self.part: Ints = everywhere if rows.part is None else rows.part
        self.n_parts = int(self.part.max(initial=0)) + 1
        self.inside: Bools = self.part[rows.session] >= 0  # by row
        # The weight of each row's vote within its session: 1 unless reviewers have weights.
        self.pull = 1.0 if weight_by_name is None else weight_by_name[rows.reviewer]
        self.weight, self.unweighted = item_weights(rows)

    def add(self, values: NDArray[Any]) -> Floats:
        """Return values of rows summed by answer."""
        total = np.bincount(self.answer, weights=values, minlength=len(self.answer_session))
        return total.astype(np.float64, copy=False)

    # -- by candidate --------------------------------------------------------------------------

    @cached_property
    def _answer_columns(self) -> dict[str, Floats]:
        """Return every answer's contribution to the sums of its candidate."""
        cast, pull = self.votes, self.pull
        n_votes = self.add(cast.counts)
        pulled = n_votes if isinstance(pull, float) else self.add(pull * cast.counts)
        bottom = np.where(pulled > 0.0, pulled, 1.0)
        share = self.add(pull * cast.share) / bottom
        weight = np.where(pulled > 0.0, self.weight[self.answer_session], 0.0)
        score, has_score = self._answer_scores(n_votes)
        scored = np.where(has_score, weight, 0.0)
        doubled = self.add(pull * (cast.doubled * cast.counts))
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
        """Return the mean score of each answer, and which have one."""
        score = self.rows.numbers.get("score")
        if score is None:
            return np.zeros_like(n_votes), np.zeros(len(n_votes), dtype=bool)
        known = self.votes.judged & np.isfinite(score)
        total = self.add(self.pull * np.where(known, score, 0.0))
        alike = isinstance(self.pull, float) and np.array_equal(known, self.votes.counts)
        n = n_votes if alike else self.add(self.pull * known)
        return total / np.where(n > 0.0, n, 1.0), n > 0.0

    def models(self) -> Cells:
        here = places(self.part[self.answer_session] >= 0)
        session = self.answer_session[here]
        subject = self.part[session] * self.n_names + self.answer_candidate[here]
        columns = [self._answer_columns[name][here] for name in COLUMNS["models"]]
        return table_of(subject, self.rows.cluster[session], columns)

    def counts(self) -> Cells:
        """Return, by part, counts of sessions with votes, of rows, and of unusual ones of both."""
        n = self.n_parts
        voted = np.bincount(
            self.answer_session, self._answer_columns["voted"] > 0.0, self.rows.n_sessions
        )
        inside = self.part >= 0
        parts = np.where(inside, self.part, 0)
        by_session = (voted > 0.0, self.n_candidates == 1, self.unweighted)
        sessions, lone, unweighted = (
            np.bincount(parts, (values & inside).astype(np.float64), n) for values in by_session
        )
        rows = np.bincount(parts[self.rows.session], self.inside.astype(np.float64), n)
        # Duplicates are rows on whose ballot the same candidate already has a row.
        review = self.votes.ballot.astype(np.int64) * self.n_names + self.rows.candidate
        twice = np.zeros(n)
        if (review[1:] <= review[:-1]).any():
            twice[0] = self.rows.n - dense(review)[1]
        table = np.column_stack([sessions, rows, lone, unweighted, twice])
        return Cells(np.arange(n), np.zeros(n, dtype=np.int64), table)

    def lengths(self) -> Cells:
        """Return shares and lengths by candidate, relative to all answers of the session."""
        cast, words = self.votes, self.rows.numbers["words"]
        at = np.flatnonzero(cast.counts & np.isfinite(words) & self.inside)
        session = self.rows.session[at]
        gap = np.log1p(words[at]) - self._session_lengths(words)[session]
        y = cast.share[at]
        subject = self.part[session] * self.n_names + self.rows.candidate[at]
        return table_of(subject, np.zeros_like(subject), [None, y, gap, gap * gap, gap * y])

    def _session_lengths(self, words: Floats) -> Floats:
        """Return the mean log words of each session's answers."""
        known = np.isfinite(words)
        n = self.add(known)
        log = self.add(np.log1p(np.where(known, words, 0.0))) / np.maximum(n, 1.0)
        n_sessions, has = self.rows.n_sessions, n > 0.0
        total = np.bincount(self.answer_session, log * has, minlength=n_sessions)
        n_known = np.bincount(self.answer_session, has, minlength=n_sessions)
        return total / np.maximum(n_known, 1.0)

    # -- by reviewer and candidate ---------------------------------------------------------------

    def _pair_subject(self) -> Ints:
        rows = self.rows
        slices = np.where(self.inside, self.part[rows.session], 0)
        return (slices * self.n_names + rows.reviewer) * self.n_names + rows.candidate

    def influence(self) -> Cells:
        """Return votes, shares, and each reviewer's effect on the sessions' means."""
        cast = self.votes
        counts = cast.counts & self.inside
        columns: list[Floats | Bools | None] = [counts, cast.share * counts, self._departures()]
        subject = self._pair_subject()
        return table_of(subject, np.zeros_like(subject), columns)

    def _departures(self) -> Floats:
        """Return, by row, what a reviewer's departure from the others adds to a session's mean.

        Reviewers are compared on the pairs of answers that they ranked, so that reviewers who agree
        have no effect, although none of them ranks its own answer.
        """
        cast, rows = self.votes, self.rows
        one, other = self._rivals_on_ballots(np.flatnonzero(cast.counts & self.inside))
        above = 0.5 + 0.5 * np.sign(cast.doubled[other] - cast.doubled[one])
        pull = np.broadcast_to(self.pull, rows.n)[one].astype(np.float64)
        answer = self.answer[one].astype(np.int64)
        cell, n_cells = dense(answer * self.n_names + rows.candidate[other])
        total = np.bincount(cell, pull, n_cells)
        mean = np.bincount(cell, pull * above, n_cells) / np.where(total > 0.0, total, 1.0)
        of_cell = np.zeros(n_cells, dtype=np.int64)
        of_cell[cell] = answer
        n_rivals = np.bincount(of_cell, minlength=len(self.answer_session))
        gap = pull * (above - mean[cell]) / np.where(total > 0.0, total, 1.0)[cell]
        gap *= self.weight[rows.session[one]] / n_rivals[answer]
        departures: Floats = np.bincount(one, gap, rows.n).astype(np.float64, copy=False)
        return departures

    def _rivals_on_ballots(self, at: Ints) -> tuple[Ints, Ints]:
        """Return each of these rows with each other one of its ballot: the row, and the other."""
        at = at[np.argsort(self.votes.ballot[at], kind="stable")]
        ballot = self.votes.ballot[at]
        size = np.bincount(ballot, minlength=self.votes.n_ballots)
        one, other = spans((np.cumsum(size) - size)[ballot], size[ballot])
        apart = one != other
        return at[one[apart]], at[other[apart]]

    def scores(self) -> Cells:
        """Return scores and their squares, and scores weighted by session."""
        rows, folds = self.rows, folds_of(self.rows.units)
        score = rows.numbers["score"]
        known = self.votes.judged & self.inside & np.isfinite(score)
        n = self.add(self.pull * known)
        at = places(known)
        score, session = score[at], rows.session[at]
        pull = self.pull if isinstance(self.pull, float) else self.pull[at]
        weight = self.weight[session] * pull / np.where(n > 0.0, n, 1.0)[self.answer[at]]
        subject = self.part[session] * self.n_names + rows.reviewer[at]
        subject = subject * self.n_names + rows.candidate[at]
        columns = [None, score, score * score, weight, weight * score]
        return table_of(subject, folds[rows.cluster][session], columns)

    # -- pairs of candidates ---------------------------------------------------------------------

    def rivals(self) -> Cells:
        """Return, by candidate and rival, how much of the candidate's shares is due to that rival.

        All rivals on a ballot count equally, and a session's ballots count by their reviewers'
        weights; the results of a session add up to its weight.
        """
        return self._meetings(np.zeros(self.rows.n_sessions, dtype=np.int64))

    def meetings(self) -> Cells:
        """Return the values of `rivals` by cluster."""
        return self._meetings(self.rows.cluster.astype(np.int64))

    def _meetings(self, cluster: Ints) -> Cells:
        """Return, by candidate, rival and cluster, how much of the shares is due to the rival.

        Sessions in which the same reviewers judged the same candidates give the same result, so
        only one session of each kind is computed.
        """
        rows, cast = self.rows, self.votes
        slices = np.maximum(self.part, 0)
        kinds = group(
            (slices, self.n_parts),
            (cluster, int(cluster.max(initial=0)) + 1),
            dense(self._session_fingerprints()),
        )
        weight = np.bincount(kinds.code, np.where(self.part >= 0, self.weight, 0.0), kinds.n)
        example = np.zeros(kinds.n, dtype=np.int64)
        example[kinds.code] = np.arange(rows.n_sessions)
        weigh = np.zeros(rows.n_sessions)  # by session, 0 for all but one of each kind
        weigh[example] = weight
        at = np.flatnonzero((weigh[rows.session] > 0.0) & cast.there)
        if self.own_votes == "out":
            at = at[rows.reviewer[at] != rows.candidate[at]]
        size = np.bincount(cast.ballot[at], minlength=cast.n_ballots)
        one, other = self._rivals_on_ballots(at)
        one, other = one[cast.counts[one]], other[cast.counts[one]]
        pull = self.pull if isinstance(self.pull, float) else self.pull[one]
        session = rows.session[one]
        met = weigh[session] * pull / self._answer_columns["pulled"][self.answer[one]]
        met = met / (size[cast.ballot[one]] - 1.0)
        subject = (slices[session] * self.n_names + rows.candidate[one]) * self.n_names
        return sort_cells(subject + rows.candidate[other], cluster[session], met[:, None])

    def _session_fingerprints(self) -> Ints:
        """Return a number for each session, equal if judges, candidates and votes are the same."""
        rows, n = self.rows, self.n_names
        judge, n_judges = rows.reviewer, n
        if has_rounds(rows):
            rounds, n_rounds = round_codes(rows)
            judge, n_judges = judge + n * rounds, n * n_rounds
        mixed = random_words("judges", n_judges)[judge]
        mixed *= random_words("candidates", 2 * n)[rows.candidate + n * self.votes.counts]
        mixed *= self.votes.there
        largest = int(np.bincount(rows.session, minlength=1).max())
        mixed >>= np.uint64(12 + largest.bit_length())  # so that a float holds the sum exactly
        prints = np.bincount(rows.session, mixed.astype(np.float64), rows.n_sessions)
        return prints.astype(np.int64)

    def pairs(self) -> Cells:
        """Return, by upper and lower candidate, how often one was above and how often they tied."""
        rows = self.rows
        subjects, clusters, columns = [], [], []
        for above, below, apart in self._matches():
            slices = self.part[rows.session[above]]
            upper = slices * self.n_names + rows.candidate[above]
            subjects.append(upper * self.n_names + rows.candidate[below])
            clusters.append(rows.cluster[rows.session[above]].astype(np.int64))
            columns.append(np.column_stack([apart, ~apart]).astype(np.float64))
        if not subjects:
            nobody = np.zeros(0, dtype=np.int64)
            return Cells(nobody, nobody, np.zeros((0, 2)))
        return sort_cells(
            np.concatenate(subjects), np.concatenate(clusters), np.concatenate(columns)
        )

    def _matches(self) -> Iterator[tuple[Ints, Ints, Bools]]:
        """Yield pairs of rows on one ballot: upper rows, lower rows, and which are not tied."""
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
    """Return numbers of 64 random bits, the same on every machine."""
    words = generator(about, n).bit_generator.random_raw(n)
    return np.asarray(words, dtype=np.uint64)


def item_weights(rows: Rows) -> tuple[Floats, Bools]:
    """Return the item weight of each session (1 without weights), and which sessions have none."""
    if "item_weight" not in rows.numbers:
        return np.ones(rows.n_sessions), np.zeros(rows.n_sessions, dtype=bool)
    weight = by_session(rows, rows.numbers["item_weight"], np.fmax)
    unknown = ~np.isfinite(weight)
    return np.where(unknown, 0.0, weight), unknown
