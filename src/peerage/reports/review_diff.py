"""Two sets of reviews compared: models that moved, with intervals, and the reviews that moved them.

Two sessions, one of each set, match if they have the same id, or if each is the only unmatched
session of its query. A model moved if its share changed on the pairs of answers that both sets
judged. Reviews contribute to another difference: the first set becomes the second in three
steps, in which sessions that the second set lacks are removed, changed sessions are replaced, and
new sessions are added. A model's plain share is a mean over sessions, so each step changes it by a
sum of contributions, one per review. All contributions together are the difference of the two plain
shares.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np

from peerage.arguments import check_arguments
from peerage.boards import Board, ranked_shares
from peerage.boards.common_cells import PanelChange, compare_sets, pair_cells
from peerage.engines import Source
from peerage.engines.review_tables import ReviewTable, read_reviews
from peerage.errors import UsageError, few
from peerage.reports import InputTables, Reports
from peerage.reports.board_reviews import BoardReviews
from peerage.reports.from_tables import TABLE
from peerage.reports.model_boards import build_model_board
from peerage.reports.options import DiffOptions, ModelBoardOptions
from peerage.reports.recounts import find_season
from peerage.reports.stored_reviews import keep_reviews
from peerage.reviews.cells import Bools, Floats, Ints, group
from peerage.reviews.rows import Rows
from peerage.reviews.votes import votes
from peerage.stats.clusters import quotient

Kind = Literal["added", "removed", "changed"]
KINDS: tuple[Kind, ...] = ("removed", "changed", "added")  # in the order of the steps
SAME = 1e-12  # smaller contributions are rounding errors
N_REVIEWS = 20  # listed of each model and of each exchange of places
N_EXCHANGES = 100  # listed at most
DECIMALS = 12  # of figures, so that they do not depend on the order of the rows
MARKS = ("rank", "score")


# -- results -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReviewPart:
    """A review and its contribution to a change: of a model's share, or of a gap between models."""

    session: str
    reviewer: str
    kind: Kind
    part: float


@dataclass(frozen=True, slots=True)
class ModelChange:
    """A model on two boards: its shares and ranks there, and the change of its share.

    The change, with its interval, is that on the pairs of answers that both sets judged (if no
    query is in both, on the pairs of models), so it need not be the difference of the two shares.
    `paired` is true if some of its sessions are in both sets; then `plain_difference`, that of the
    means over sessions, is the sum of what removed, changed and added reviews each contribute.
    """

    model: str
    share_a: float | None
    share_b: float | None
    rank_a: int | None
    rank_b: int | None
    difference: float | None
    low: float | None
    high: float | None
    n: int  # queries that the change is measured on
    paired: bool
    plain_difference: float | None
    parts: Mapping[str, float]  # contributions by kind; empty if not paired
    reviews: tuple[ReviewPart, ...]  # the largest contributions first

    @property
    def moved(self) -> bool:
        """Return whether the interval of the difference excludes zero."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high


@dataclass(frozen=True, slots=True)
class PlaceExchange:
    """Two models that changed places: the gap between their shares, and the reviews behind it.

    `n_sessions` is the smallest number of sessions whose contributions make up the whole new lead;
    None if there are none, if one of the models has no session in both sets, or if a board ranks by
    shares on common rivals.
    """

    up: str
    down: str
    gap_a: float
    gap_b: float
    n_sessions: int | None
    reviews: tuple[ReviewPart, ...]


@dataclass(frozen=True, slots=True)
class SessionChange:
    """A session of both sets whose winner changed."""

    query: str
    session_a: str
    session_b: str
    winner_a: str
    winner_b: str


@dataclass(frozen=True, slots=True)
class SideSummary:
    """One of the two sets: its name, and how many reviews, sessions and reviewers it has."""

    name: str
    reviews: int
    sessions: int
    reviewers: int


@dataclass(frozen=True, slots=True)
class ReviewDiff:
    """The differences between two sets of reviews."""

    a: SideSummary
    b: SideSummary
    models: tuple[ModelChange, ...]
    exchanges: tuple[PlaceExchange, ...]
    n_exchanges: int
    reviews: Mapping[str, int]  # how many are removed, changed, added and the same
    sessions: tuple[SessionChange, ...]
    n_shared: int  # sessions that are in both
    is_common: bool  # whether one of the boards ranks by shares on common rivals

    def document(self) -> dict[str, Any]:
        """Return the comparison as JSON."""
        return {
            "a": asdict(self.a),
            "b": asdict(self.b),
            "reviews": dict(self.reviews),
            "shared_sessions": self.n_shared,
            "models": [{**asdict(one), "moved": one.moved} for one in self.models],
            "n_exchanges": self.n_exchanges,
            "exchanges": [asdict(one) for one in self.exchanges],
            "sessions": [asdict(one) for one in self.sessions],
        }


# -- where the two sets come from ------------------------------------------------------------------


class NamedReviews(NamedTuple):
    """A table of reviews under a name that the reader knows, with its season if there is one.

    `questions` has the known questions of sessions, by id.
    """

    name: str
    table: ReviewTable
    season: str | None = None
    questions: Mapping[str, str] = MappingProxyType({})


@check_arguments(DiffOptions, a=TABLE, b=TABLE)
def diff(a: Source, b: Source, **options: object) -> ReviewDiff:
    """Compare two `reviews` tables: models that moved, and the reviews that moved them."""
    chosen = DiffOptions.of(options)
    with ExitStack() as stack:
        sides = []
        for name, source in (("the first table", a), ("the second table", b)):
            files = stack.enter_context(InputTables(source).as_parquet())
            name = str(source) if isinstance(source, str | Path) else name
            sides.append(NamedReviews(name, read_reviews(files.runner(), files.reviews)))
        return compare_reviews(sides[0], sides[1], chosen)


def compare_seasons(
    reports: Reports, a: str, b: str, options: DiffOptions | None = None
) -> ReviewDiff:
    """Compare two seasons of a store by the ids of their sessions."""
    return compare_reviews(season_reviews(reports, a), season_reviews(reports, b), options)


def season_reviews(reports: Reports, season: str) -> NamedReviews:
    """Return the reviews of a season, given its id or the beginning of it, with its questions."""
    table = keep_reviews(reports.review_files())
    id_ = find_season(table, season)
    questions = {one.id: one.query for one in reports.store.sessions(id_)}
    return NamedReviews(id_, table, id_, questions)


# -- the comparison --------------------------------------------------------------------------------


def compare_reviews(
    first: NamedReviews, second: NamedReviews, options: DiffOptions | None = None
) -> ReviewDiff:
    """Compare two sets of reviews; raise an error if they have no model in common."""
    options = options or DiffOptions()
    a, b = (_Side.of(one, options) for one in (first, second))
    if not a.row_by_model.keys() & b.row_by_model.keys():
        raise UsageError(
            f"{a.name} and {b.name} have no model in common.",
            hint=f"The first has {few(sorted(a.row_by_model), 3) or 'none'}, "
            f"the second {few(sorted(b.row_by_model), 3) or 'none'}.",
        )
    joined = _JoinedVotes(a, b)
    names = sorted({*a.row_by_model, *b.row_by_model})
    moves = compare_sets(*(pair_cells(side.rows, by_query=True) for side in (a, b)))
    changes = sorted(
        (_change(joined, moves, name) for name in names),
        key=lambda one: (-abs(one.difference or 0.0), one.model),
    )
    crossed = _crossings(joined)
    return ReviewDiff(
        a.summary(),
        b.summary(),
        tuple(changes),
        tuple(_exchange(joined, *pair) for pair in crossed[:N_EXCHANGES]),
        len(crossed),
        joined.n_by_kind(),
        tuple(_changed_winners(joined, first.questions)),
        joined.n_shared,
        a.is_common or b.is_common,
    )


@dataclass(frozen=True)
class _Side:
    """One set of reviews: its board, and the share of each row's vote (NaN if it has none)."""

    name: str
    board: Board
    row_by_model: Mapping[str, Mapping[str, Any]]  # board rows of models with a rank
    rows: Rows
    share: Floats

    @classmethod
    def of(cls, source: NamedReviews, options: DiffOptions) -> _Side:
        chosen = ModelBoardOptions(since="all", season=source.season, **options.model_dump())
        reviews = BoardReviews(source.table, chosen)
        board, rows = build_model_board(reviews), reviews.rows()
        answers = group((rows.session, rows.n_sessions), (rows.candidate, len(rows.names)))
        n_by_session = np.bincount(answers.first(rows.session), minlength=rows.n_sessions)
        cast = votes(rows, chosen.own_votes, n_by_session)
        ranked = {row["model"]: row for row in board.rows if row["rank"] is not None}
        return cls(source.name, board, ranked, rows, np.where(cast.counts, cast.share, np.nan))

    @property
    def is_common(self) -> bool:
        """Whether the board ranks by shares against common rivals."""
        return "share_common" in self.board.columns

    @cached_property
    def shares(self) -> Mapping[str, tuple[float | None, ...]]:
        """The share by which the board ranks each model, with its interval."""
        return ranked_shares(self.board)

    def summary(self) -> SideSummary:
        reviewers = np.unique(self.rows.reviewer)
        return SideSummary(self.name, self.rows.n, self.rows.n_sessions, len(reviewers))


def _pair_sessions(a: Rows, b: Rows) -> tuple[Ints, Ints]:
    """Return a number for each session of both sets; matching sessions get the same number."""
    place = {id_: i for i, id_ in enumerate(b.session_ids.tolist())}
    match = {i: place[id_] for i, id_ in enumerate(a.session_ids.tolist()) if id_ in place}
    left_a, left_b = _single_by_unit(a, set(match)), _single_by_unit(b, set(match.values()))
    match |= {i: left_b[unit] for unit, i in left_a.items() if unit in left_b}
    code_b = np.full(b.n_sessions, -1)
    code_b[list(match.values())] = list(match)
    new = np.flatnonzero(code_b < 0)
    code_b[new] = a.n_sessions + np.arange(len(new))
    return np.arange(a.n_sessions), code_b


def _single_by_unit(rows: Rows, taken: set[int]) -> dict[str, int]:
    """Return the sessions that are the only ones left of their query."""
    units = {i: unit for i, unit in enumerate(rows.unit.tolist()) if i not in taken}
    n_by_unit = Counter(units.values())
    return {unit: i for i, unit in units.items() if n_by_unit[unit] == 1}


class _JoinedVotes:
    """The votes of two sets, and what each contributes to the difference of its model's shares.

    Arrays have one element per vote (session, model, reviewer and round), per answer (session and
    model), or per model. Arrays with two rows have the first set and the second.
    """

    def __init__(self, a: _Side, b: _Side) -> None:
        self.sides = (a, b)
        self.names = tuple(sorted({*a.rows.names, *b.rows.names}))
        self.paired = _pair_sessions(a.rows, b.rows)
        self.n_shared = len(np.intersect1d(*self.paired))
        self.session_ids = self._session_ids()
        self.n_sessions = len(self.session_ids)
        self.unit = self._units()
        session, model, reviewer = (
            np.concatenate(columns)
            for columns in zip(*(self._codes(i) for i in range(2)), strict=True)
        )
        rounds = np.concatenate([side.rows.number("round") for side in self.sides])
        labels, round_ = np.unique(rounds, return_inverse=True)
        n = len(self.names)
        self.answers = group((session, self.n_sessions), (model, n))
        joined = group((self.answers.code, self.answers.n), (reviewer, n), (round_, len(labels)))
        self.n = joined.n
        self.answer, self.reviewer = joined.first(self.answers.code), joined.first(reviewer)
        self.session, self.model = self.answers.first(session), self.answers.first(model)
        self.place = np.split(joined.code, [a.rows.n])  # the vote of each row of each set
        self.share = self._spread(lambda side: side.share)
        self.is_there = ~np.isnan(self._spread(lambda side: np.ones(side.rows.n)))
        self.value = _means(self.answer, self.answers.n, self.share)  # of answers
        self.mean = _means(self.model, n, self.value)  # of models
        self.is_paired: Bools = np.bincount(
            self.model, ~np.isnan(self.value).any(axis=0), minlength=n
        ).astype(bool)
        self.part = self._parts()

    def _codes(self, i: int) -> tuple[Ints, Ints, Ints]:
        """Return session, model and reviewer of each row of a set, in common codes."""
        rows = self.sides[i].rows
        code = np.searchsorted(self.names, rows.names)
        return self.paired[i][rows.session], code[rows.candidate], code[rows.reviewer]

    def _spread(self, column: Callable[[_Side], Floats]) -> Floats:
        """Return one value per vote for each of the two sets; NaN if a set lacks the vote."""
        values = np.full((2, self.n), np.nan)
        for i, side in enumerate(self.sides):
            values[i, self.place[i]] = column(side)
        return values

    def _parts(self) -> Floats:
        """Return what each vote contributes to the difference of its model's shares."""
        by_answer = mean_parts(self.model, len(self.names), self.value)
        within = mean_parts(self.answer, self.answers.n, self.share)
        n_kept = np.bincount(self.model, ~np.isnan(self.value).any(axis=0), len(self.names))
        n_votes = (~np.isnan(self.share)).sum(axis=0)
        n_votes = np.bincount(self.answer, n_votes, self.answers.n)[self.answer]
        value, model = self.value[:, self.answer], self.model[self.answer]
        in_both = ~np.isnan(value).any(axis=0)
        # In a session of one set only, a vote also contributes its departure from the mean vote.
        steps = np.where(
            np.isnan(value[1]), -quotient(1.0, n_kept)[model], quotient(1.0, self._n_after())[model]
        )
        share, mean = np.nan_to_num(self.share).sum(axis=0), np.nan_to_num(value).sum(axis=0)
        counts = ~np.isnan(self.share).all(axis=0)
        alone = (by_answer[self.answer] + steps * (share - mean)) / np.maximum(n_votes, 1)
        together = within * quotient(1.0, n_kept)[model]
        part = np.where(in_both, together, np.where(counts, alone, 0.0))
        return np.where(self.is_paired[model], np.nan_to_num(part), 0.0)

    def _n_after(self) -> Floats:
        """Return the number of sessions in the second set, by model."""
        n: Floats = np.bincount(self.model, ~np.isnan(self.value[1]), len(self.names)).astype(float)
        return n

    def n_by_kind(self) -> dict[str, int]:
        """Return how many reviews were removed, changed, added, and are the same."""
        a, b = self.is_there
        marks = [self._spread(partial(_marks, name=name)) for name in MARKS]
        differs = np.zeros(self.n, dtype=bool)
        for before, after in marks:
            differs |= ~((before == after) | (np.isnan(before) & np.isnan(after)))
        n = {
            "removed": a & ~b,
            "changed": a & b & differs,
            "added": b & ~a,
            "same": a & b & ~differs,
        }
        return {name: int(which.sum()) for name, which in n.items()}

    def kind(self, vote: int) -> Kind:
        """Return what happened to a vote."""
        a, b = self.is_there[:, vote].tolist()
        return "changed" if a and b else "removed" if a else "added"

    def _session_ids(self) -> list[str]:
        """Return the ids of the sessions; if the two sets differ, the second one's."""
        ids: dict[int, str] = {}
        for codes, side in zip(self.paired, self.sides, strict=True):
            ids |= dict(zip(codes.tolist(), side.rows.session_ids.tolist(), strict=True))
        return [str(ids[code]) for code in range(len(ids))]

    def _units(self) -> Ints:
        """Return the query of each session as a code."""
        units: dict[int, str] = {}
        for codes, side in reversed(list(zip(self.paired, self.sides, strict=True))):
            units |= dict(zip(codes.tolist(), side.rows.unit.tolist(), strict=True))
        _, code = np.unique([units[i] for i in range(self.n_sessions)], return_inverse=True)
        return code


def _marks(side: _Side, name: str) -> Floats:
    return side.rows.number(name)


def _means(code: Ints, n: int, values: Floats) -> Floats:
    """Return, by code, the mean of each of the two rows of values; NaN if there is no value."""
    known = ~np.isnan(values)
    sums = [np.bincount(code[at], row[at], n) for row, at in zip(values, known, strict=True)]
    counts = [np.bincount(code[at], minlength=n) for at in known]
    return quotient(sums, counts)


def mean_parts(code: Ints, n: int, values: Floats) -> Floats:
    """Return what each value contributes to the difference of two means, by code.

    The rows of `values` are before and after; NaN means that there is no value. Values without an
    "after" are removed, then changed ones are replaced, then new ones are added. The contributions
    of a code add up to its difference of means. If a code has no value in both rows, each value
    contributes value / n to its own mean.
    """
    before, after = values
    is_before, is_after = ~np.isnan(values)
    both = is_before & is_after
    in_both = np.where(both, values, np.nan)
    (mean, _), (_, mean_kept) = _means(code, n, values), _means(code, n, in_both)
    n_before, n_kept, n_after = (
        np.bincount(code[at], minlength=n) for at in (is_before, both, is_after)
    )
    is_kept = (n_kept > 0)[code]
    start, middle = np.where(is_kept, mean[code], 0.0), np.where(is_kept, mean_kept[code], 0.0)
    rest = np.where(is_kept, n_kept[code], n_before[code])
    removed = (start - before) / np.maximum(rest, 1)
    changed = (after - before) / np.maximum(n_kept[code], 1)
    added = (after - middle) / np.maximum(n_after[code], 1)
    parts: Floats = np.where(both, changed, np.where(is_before, removed, added))
    return np.where(is_before | is_after, parts, 0.0)


# -- from votes to results -------------------------------------------------------------------------


def _change(joined: _JoinedVotes, moves: PanelChange, name: str) -> ModelChange:
    """Return how a model's share and rank differ, with an interval over queries."""
    (row_a, row_b) = (side.row_by_model.get(name) for side in joined.sides)
    code, at = joined.names.index(name), moves.models.index(name)
    plain = joined.mean[:, code]
    is_paired = bool(joined.is_paired[code])
    mine = np.flatnonzero(joined.model[joined.answer] == code)
    reviews = _review_parts(joined, mine, joined.part[mine])
    parts: dict[str, float] = {
        kind: round(sum(one.part for one in reviews if one.kind == kind), DECIMALS)
        for kind in KINDS
    }
    share_a, share_b = (side.shares.get(name, (None,))[0] for side in joined.sides)
    return ModelChange(
        name,
        share_a,
        share_b,
        row_a["rank"] if row_a else None,
        row_b["rank"] if row_b else None,
        _round(moves.change[at]),
        _round(moves.low[at]),
        _round(moves.high[at]),
        int(moves.n_queries[at]),
        is_paired,
        _round(plain[1] - plain[0]),
        parts if is_paired and not np.isnan(plain).any() else {},
        tuple(reviews[:N_REVIEWS]),
    )


def _round(value: float) -> float | None:
    return round(float(value), DECIMALS) + 0.0 if np.isfinite(value) else None


def _review_parts(joined: _JoinedVotes, some: Ints, parts: Floats) -> list[ReviewPart]:
    """Return the reviews of some votes with their contributions added up, the largest first."""
    by_review: dict[tuple[int, int], float] = {}
    kinds: dict[tuple[int, int], set[Kind]] = {}
    telling = np.abs(parts) > SAME
    for vote, part in zip(some[telling].tolist(), parts[telling].tolist(), strict=True):
        key = int(joined.session[joined.answer[vote]]), int(joined.reviewer[vote])
        by_review[key] = by_review.get(key, 0.0) + part
        kinds.setdefault(key, set()).add(joined.kind(vote))
    listed = [
        ReviewPart(
            joined.session_ids[session],
            joined.names[reviewer],
            _one_kind(kinds[session, reviewer]),
            round(part, DECIMALS),
        )
        for (session, reviewer), part in by_review.items()
    ]
    return sorted(listed, key=lambda one: (-abs(one.part), one.session, one.reviewer))


def _one_kind(kinds: set[Kind]) -> Kind:
    """Return what happened to a review: changed, if its votes differ in kind."""
    return next(iter(kinds)) if len(kinds) == 1 else "changed"


def _crossings(joined: _JoinedVotes) -> list[tuple[str, str]]:
    """Return the pairs of models that changed places, largest change of gap first."""
    a, b = (side.row_by_model for side in joined.sides)
    both = sorted(a.keys() & b.keys())
    moved = {
        name: _share_of(joined.sides[1], name) - _share_of(joined.sides[0], name) for name in both
    }
    crossed = [
        (up, down)
        for up in both
        for down in both
        if a[up]["rank"] > a[down]["rank"] and b[up]["rank"] < b[down]["rank"]
    ]
    return sorted(
        crossed, key=lambda pair: (-round(abs(moved[pair[0]] - moved[pair[1]]), DECIMALS - 1), pair)
    )


def _share_of(side: _Side, name: str) -> float:
    """Return the share by which a board ranks one of its models."""
    return float(side.shares[name][0] or 0.0)


def _exchange(joined: _JoinedVotes, up: str, down: str) -> PlaceExchange:
    """Return the reviews that brought one model past another, those in its favour first."""
    codes = joined.names.index(up), joined.names.index(down)
    gap_a, gap_b = (
        round(_share_of(side, up) - _share_of(side, down), DECIMALS) for side in joined.sides
    )
    model = joined.model[joined.answer]
    some = np.flatnonzero((model == codes[0]) | (model == codes[1]))
    parts = np.where(model[some] == codes[0], 1.0, -1.0) * joined.part[some]
    reviews = sorted(
        _review_parts(joined, some, parts), key=lambda one: (-one.part, one.session, one.reviewer)
    )
    n_sessions = None
    is_common = any(side.is_common for side in joined.sides)
    if joined.is_paired[list(codes)].all() and not is_common:
        by_session = np.bincount(joined.session[joined.answer[some]], parts)
        lead = np.cumsum(np.sort(by_session)[::-1])
        enough = np.flatnonzero(lead >= gap_b - SAME)
        n_sessions = int(enough[0]) + 1 if len(enough) else None
    return PlaceExchange(up, down, gap_a, gap_b, n_sessions, tuple(reviews[:N_REVIEWS]))


def _changed_winners(joined: _JoinedVotes, questions: Mapping[str, str]) -> Iterator[SessionChange]:
    """Yield the sessions of both sets whose winner changed."""
    winners = [_winners(joined, i) for i in range(2)]
    ids = [
        dict(zip(codes.tolist(), side.rows.session_ids.tolist(), strict=True))
        for codes, side in zip(joined.paired, joined.sides, strict=True)
    ]
    units = dict(zip(joined.paired[0].tolist(), joined.sides[0].rows.unit.tolist(), strict=True))
    for session in sorted(winners[0].keys() & winners[1].keys(), key=lambda one: str(ids[0][one])):
        before, after = (one[session] for one in winners)
        if before != after:
            id_a, id_b = (str(one[session]) for one in ids)
            query = questions.get(id_a) or str(units[session]).partition(" ")[2]
            yield SessionChange(query, id_a, id_b, before, after)


def _winners(joined: _JoinedVotes, side: int) -> dict[int, str]:
    """Return the winner of each session of a set; empty for a tie."""
    value = joined.value[side]
    known = np.flatnonzero(~np.isnan(value))
    best: dict[int, tuple[float, str]] = {}
    for i in known.tolist():
        session, share = int(joined.session[i]), float(value[i])
        name = joined.names[joined.model[i]]
        if session not in best or share > best[session][0] + SAME:
            best[session] = share, name
        elif share > best[session][0] - SAME:
            best[session] = best[session][0], ""
    return {session: name for session, (_, name) in best.items()}
