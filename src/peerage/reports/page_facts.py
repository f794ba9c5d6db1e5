"""What-if boards, and facts about models, reviewers and people, for the pages.

A what-if board calls no model: it weights marks again, lifts ceilings, applies the gate or leaves
out reviewers. Each of these only changes ranks and scores of existing rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from pydantic import Field

from peerage.boards import Board
from peerage.council.counting import count, places
from peerage.council.readings import person_review
from peerage.council.safety import screen
from peerage.engines.review_tables import ReviewTable
from peerage.errors import InputError, PeerageError
from peerage.event_facts import opening_of, people_reviews
from peerage.events import Answered, AskedAgain, Fact, Failed, Reviewed, read_events
from peerage.reports import Reports
from peerage.reports.board_reviews import BoardReviews
from peerage.reports.model_boards import build_model_board
from peerage.reports.options import ModelBoardOptions
from peerage.reports.recounts import check_weights, leave_out, recount
from peerage.reports.stored_reviews import keep_reviews
from peerage.reviews.cells import Bools, Floats, Ints
from peerage.reviews.columns import MARK, span_s
from peerage.reviews.rows import Rows, by_session
from peerage.stats.correlations import correlation
from peerage.stats.ranking import kendall_tau
from peerage.stores import Store
from peerage.types import Event, Response, Rubric, ScoringOptions, Session, is_cut_off
from peerage.view import fold

T = TypeVar("T")
MAX_POINTS = 2_000  # of a scatter plot
N_SESSIONS = 500  # latest sessions, over which facts are counted
N_SCREENED = 5_000  # latest sessions, whose answers are screened


# -- all stored reviews in memory ------------------------------------------------------------------


def stored_rows(reports: Reports) -> Rows | None:
    """Return all stored reviews, cached in memory; None if there are none yet."""
    try:
        return keep_reviews(reports.review_files()).rows
    except InputError:
        return None


def questions_of(store: Store, ids: Iterable[str]) -> dict[str, str]:
    """Return the questions of sessions in the log, by id; imported reviews have none."""
    questions = {}
    for id_ in ids:
        with suppress(PeerageError):
            questions[id_] = opening_of(store.events(id_)).query.text
    return questions


def within(rows: Rows, since: str) -> Rows:
    """Return the rows of whole sessions in a window that ends at the latest review."""
    span, at = span_s(since), rows.number("at")
    if span is None or np.isnan(at).all():
        return rows
    ended = by_session(rows, at, np.fmax)
    return rows.only(~(ended < np.nanmax(at) - span)[rows.session])


# -- what-if boards ------------------------------------------------------------------------------


class WhatIfOptions(ModelBoardOptions):
    """Options of a what-if board; a field that is not set keeps the recorded value."""

    ceiling: bool = Field(default=True, description="Cap the score if accuracy is low.")
    gate: bool = Field(default=False, description="Rank answers that fail the safety gate last.")
    calibrated: bool = Field(default=False, description="Rank by scores normalised per reviewer.")
    disputed: bool = Field(
        default=False, description="Only sessions in which the reviewers disagree."
    )

    @property
    def changes_rows(self) -> bool:
        """Whether rows must be counted again."""
        changed = self.without or self.weights or not self.ceiling or self.gate
        return bool(changed or self.disputed)

    @property
    def plain(self) -> ModelBoardOptions:
        """The options that all boards of models share."""
        return ModelBoardOptions(**self.model_dump(include=set(ModelBoardOptions.model_fields)))


def what_if_board(
    reports: Reports,
    options: WhatIfOptions,
    rubric: Rubric | None,
    failed: Collection[tuple[str, str]] = (),
) -> Board:
    """Return the board under these options; `failed` has the answers that fail the gate."""
    try:
        table = keep_reviews(reports.review_files()) if options.changes_rows else None
    except InputError:  # there are none yet
        table = None
    if table is None:
        return reports.board(options.plain)
    table = _count_under(table, options, rubric, failed)
    if options.disputed:
        table = table.change(lambda rows: rows.only(disputed_sessions(rows)[rows.session]))
    (rows,) = table.map(lambda rows: rows)
    at = rows.number("at")
    latest = None if np.isnan(at).all() else float(np.nanmax(at))
    table = replace(table, n_rows=rows.n, latest=latest)
    rest = options.plain.model_copy(update={"without": (), "weights": ""})
    board = build_model_board(BoardReviews(table, rest, rubric=rubric))
    return replace(board, parameters={**board.parameters, **options.chosen})


def disputed_sessions(rows: Rows) -> Bools:
    """Return, by session, whether reviewers explain more of the spread of ranks than answers do.

    If all reviewers rank alike, all of the spread lies between the answers; if less than half of it
    does, the reviewers disagree.
    """
    rank = rows.number("rank")
    known = ~np.isnan(rank)
    answer = rows.session.astype(np.int64) * len(rows.names) + rows.candidate
    _, place = np.unique(answer, return_inverse=True)
    n_sessions = len(rows.session_ids)

    def spread(group: Ints, n: int) -> Floats:
        count = np.maximum(np.bincount(group[known], minlength=n), 1)
        mean = np.bincount(group[known], rank[known], n) / count
        gap = (rank[known] - mean[group[known]]) ** 2
        return np.asarray(np.bincount(rows.session[known], gap, n_sessions), dtype=np.float64)

    within_answers = spread(place, int(place.max(initial=-1)) + 1)
    return within_answers > 0.5 * spread(rows.session, n_sessions)


def reviewer_names(rows: Rows | None) -> list[str]:
    """Return the names of all models and people who have reviewed."""
    return [] if rows is None else sorted({rows.names[i] for i in set(rows.reviewer.tolist())})


def _count_under(
    table: ReviewTable,
    options: WhatIfOptions,
    rubric: Rubric | None,
    failed: Collection[tuple[str, str]],
) -> ReviewTable:
    """Return the table with rows counted under the options.

    Each ballot belongs to one reviewer, so leaving out a reviewer does not change other ballots.
    """
    weights = options.weight_by_dimension
    if weights or not options.ceiling:
        check_weights(table.columns, weights)
    gated = failed if options.gate else ()
    change = partial(recount, rubric=rubric, weights=weights, ceiling=options.ceiling, failed=gated)
    table = table.change(change)
    return (leave_out(table, options.without) if options.without else table).settle()


# -- one model -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SessionShare:
    """A model's result in one session: its share of rivals beaten, and the number of ballots."""

    session_id: str
    share: float
    n: int


@dataclass(frozen=True, slots=True)
class MarkMean:
    """A model's mean mark in one dimension, and the mean of all models."""

    dimension: str
    mean: float
    everyone: float
    n: int


def sessions_of(rows: Rows, model: str) -> list[SessionShare]:
    """Return a model's sessions, best first, without its own votes."""
    code, rank, ballot = rows.code(model), rows.number("rank"), rows.ballots()
    n_shown = np.bincount(ballot)[ballot]
    mine = (rows.candidate == code) & (rows.reviewer != code) & ~np.isnan(rank) & (n_shown > 1)
    share = (n_shown[mine] - rank[mine]) / (n_shown[mine] - 1)
    shares = _by_session(rows, rows.session[mine], share)
    return sorted(shares, key=lambda one: (-one.share, one.session_id))


def duels(rows: Rows, a: str, b: str) -> list[SessionShare]:
    """Return the sessions of two models and how often `a` beats `b`, clearest first."""
    codes, rank, ballot = (rows.code(a), rows.code(b)), rows.number("rank"), rows.ballots()
    n_ballots = int(ballot.max(initial=-1)) + 1
    ranks = np.full((2, n_ballots), np.nan)
    for side, code in enumerate(codes):
        mine = (rows.candidate == code) & ~np.isin(rows.reviewer, codes)
        ranks[side, ballot[mine]] = rank[mine]
    session = np.zeros(n_ballots, dtype=np.int64)
    session[ballot] = rows.session
    met = ~np.isnan(ranks).any(axis=0)
    above: Floats = np.where(ranks[0] < ranks[1], 1.0, np.where(ranks[0] > ranks[1], 0.0, 0.5))
    shares = _by_session(rows, session[met], above[met])
    return sorted(shares, key=lambda one: (-abs(one.share - 0.5), -one.share, one.session_id))


def rivals_of(rows: Rows, model: str) -> list[str]:
    """Return the models that share a ballot with this one, by name."""
    ballot, code = rows.ballots(), rows.code(model)
    together = np.isin(ballot, ballot[rows.candidate == code])
    codes = np.unique(rows.candidate[together]).tolist()
    return sorted(rows.names[one] for one in codes if one != code)


def _by_session(rows: Rows, session: Ints, share: Floats) -> list[SessionShare]:
    """Return the mean share in each session."""
    sessions, place = np.unique(session, return_inverse=True)
    n = np.bincount(place)
    means = np.bincount(place, share) / np.maximum(n, 1)
    return [
        SessionShare(rows.session_ids[i], float(mean), int(count))
        for i, mean, count in zip(sessions.tolist(), means, n, strict=True)
    ]


def marks_of(rows: Rows, model: str) -> list[MarkMean]:
    """Return a model's mean marks by dimension, given by others."""
    code = rows.code(model)
    others = rows.reviewer != rows.candidate
    means = []
    for name, values in rows.numbers.items():
        known = others & ~np.isnan(values)
        mine = known & (rows.candidate == code)
        if name.startswith(MARK) and mine.any():
            mean, everyone = float(values[mine].mean()), float(values[known].mean())
            n = int(np.count_nonzero(mine))
            means.append(MarkMean(name.removeprefix(MARK), mean, everyone, n))
    return means


# -- reviewers -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TwoReviewers:
    """How two reviewers judge the same answers; None if a number is undefined."""

    n: int  # answers that both judged
    scores: tuple[tuple[float, float], ...]  # both scores of an answer, at most MAX_POINTS
    pearson: float | None
    tau: float | None
    kappa: float | None  # of places, weighted by the square of the distance
    places: tuple[int, ...]
    confusion: tuple[tuple[int, ...], ...]  # by the first one's place, then the second's


def compare_reviewers(rows: Rows, a: str, b: str) -> TwoReviewers:
    """Return the comparison of two reviewers on answers that both judged and neither wrote."""
    codes = [rows.code(a), rows.code(b)]
    answer = rows.session_ranks()[rows.session] * len(rows.names) + rows.candidate
    fair = ~np.isin(rows.candidate, codes)
    judged = [np.flatnonzero((rows.reviewer == code) & fair) for code in codes]
    row_by_answer = [dict(zip(answer[at].tolist(), at.tolist(), strict=True)) for at in judged]
    shared = sorted(row_by_answer[0].keys() & row_by_answer[1].keys())
    pairs = np.array([[row[key] for key in shared] for row in row_by_answer], dtype=np.int64)
    scores, ranks = _known(rows.number("score")[pairs]), _known(rows.number("rank")[pairs])
    place = np.rint(ranks).astype(np.int64)
    n_places = int(place.max(initial=0))
    confusion = np.zeros((n_places, n_places), dtype=np.int64)
    np.add.at(confusion, tuple(place - 1), 1)
    return TwoReviewers(
        n=len(shared),
        scores=tuple((x, y) for x, y in scores.T[:MAX_POINTS].tolist()),
        pearson=correlation(*scores),
        tau=kendall_tau(*place),
        kappa=weighted_kappa(confusion),
        places=tuple(range(1, n_places + 1)),
        confusion=tuple(map(tuple, confusion.tolist())),
    )


def _known(pairs: Floats) -> Floats:
    """Return the pairs of values without missing ones."""
    return pairs[:, ~np.isnan(pairs).any(axis=0)]


def weighted_kappa(confusion: Ints) -> float | None:
    """Return Cohen's κ with quadratic weights: 1 for equal places, 0 for agreement by chance."""
    n, place = confusion.sum(), np.arange(len(confusion))
    if n < 2 or len(place) < 2:
        return None
    rate = confusion / n
    expected = np.outer(rate.sum(axis=1), rate.sum(axis=0))
    weight = (place[:, None] - place[None, :]) ** 2
    chance = float((weight * expected).sum())
    return None if chance == 0 else 1 - float((weight * rate).sum()) / chance


# -- people --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Agreement:
    """A reviewer's agreement with a person: Kendall's τ, and the number of answers."""

    name: str
    tau: float | None
    n: int


@dataclass(frozen=True, slots=True)
class Reveal:
    """A person's finished ballot with the authors' names and each reviewer's agreement."""

    session: Session
    places: Mapping[str, int]  # the person's, by author
    shown: tuple[str, ...]  # the authors, in the order really shown
    labels: tuple[str, ...]  # the letters that they had on the ballot
    council: Mapping[str, int]  # ranks, by author
    by_reviewer: Mapping[str, Mapping[str, int]]
    agreements: tuple[Agreement, ...]  # the council first


def reveal(events: list[Event], person: str, options: ScoringOptions) -> Reveal | None:
    """Return a person's review of a session next to all others; None if there is no such review."""
    session = fold(events)
    by_person = people_reviews(read_events(events)).get(person)
    if by_person is None:
        return None
    ballot, review = person_review(session, by_person)
    mine = places(count(ballot, review))
    council = {score.model: score.rank for score in session.scores if score.rank is not None}
    reviews = {(review.reviewer, review.round): review for review in session.reviews}
    last = {b.reviewer: b for b in session.ballots if (b.reviewer, b.round) in reviews}
    by_reviewer = {
        name: places(count(b, reviews[name, b.round], options.rubric)) for name, b in last.items()
    }
    others = {"the council": council, **by_reviewer}
    agreements = tuple(_agreement(name, mine, theirs) for name, theirs in others.items())
    labels = tuple(slot.label for slot in ballot.slots)
    return Reveal(session, mine, ballot.authors, labels, council, by_reviewer, agreements)


def agreements_of(rows: Rows, person: str) -> list[Agreement]:
    """Return each reviewer's agreement with a person, over all sessions of that person."""
    others = sorted({rows.names[i] for i in set(rows.reviewer.tolist())} - {person})
    pairs = ((name, compare_reviewers(rows, person, name)) for name in others)
    return [Agreement(name, pair.tau, pair.n) for name, pair in pairs if pair.n]


def n_judged(rows: Rows, person: str) -> int:
    """Return the number of sessions that a person has reviewed."""
    return len(np.unique(rows.session[rows.reviewer == rows.code(person)]))


def _agreement(name: str, mine: Mapping[str, int], theirs: Mapping[str, int]) -> Agreement:
    shared = sorted(mine.keys() & theirs.keys())
    tau = kendall_tau([mine[author] for author in shared], [theirs[author] for author in shared])
    return Agreement(name, tau, len(shared))


# -- what the log says of models: cost, cut-off answers, unread replies ---------------------------

# A cache, while a store is open: for each function that reads its latest finished sessions, by id,
# the number of the session's last event and the function's value.
_READ: WeakKeyDictionary[Store, dict[Any, dict[str, tuple[int, Any]]]] = WeakKeyDictionary()
# All answers that fail the gate, with the state of the store when they were read.
_FAILING: WeakKeyDictionary[Store, tuple[object, frozenset[tuple[str, str]]]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Counts for one model: its answers, their cost, and its unusable or repeated reviews."""

    n_answers: int = 0
    n_cut_off: int = 0
    n_priced: int = 0
    cost_usd: float = 0.0
    n_reviews: int = 0
    n_unread: int = 0
    n_asked_again: int = 0
    n_unsealed: int = 0
    n_timed: int = 0
    latency_ms: float = 0.0

    @property
    def latency_s(self) -> float | None:
        return self.latency_ms / self.n_timed / 1000 if self.n_timed else None

    @property
    def cost_each(self) -> float | None:
        return self.cost_usd / self.n_priced if self.n_priced else None

    @property
    def cut_off_share(self) -> float | None:
        return self.n_cut_off / self.n_answers if self.n_answers else None

    @property
    def unread_share(self) -> float | None:
        return self.n_unread / self.n_reviews if self.n_reviews else None

    def plus(self, other: ModelFacts) -> ModelFacts:
        return ModelFacts(*(getattr(self, n) + getattr(other, n) for n in self.__slots__))


def facts_of_models(store: Store, n: int = N_SESSIONS) -> dict[str, ModelFacts]:
    """Return the facts about every model in the latest sessions."""
    latest = _latest(store, n, _facts_in)
    return _add_facts(pair for facts_by_name in latest for pair in facts_by_name.items())


def gate_failures(store: Store, n: int = N_SCREENED) -> frozenset[tuple[str, str]]:
    """Return the answers, by session and model, that fail the safety gate."""
    state = store.version(), n
    last, failures = _FAILING.get(store, (None, frozenset()))
    if last != state:
        latest = _latest(store, n, _failures_in)
        failures = frozenset(pair for pairs in latest for pair in pairs)
        _FAILING[store] = state, failures
    return failures


def _latest(store: Store, n: int, read: Callable[[str, Iterable[Fact]], T]) -> list[T]:
    """Return a function's value for each of the latest finished sessions.

    A session that cannot be read counts as one without events.

    A session is read again if its log has grown: a season may add seats to it.
    """
    by_reader = _READ.setdefault(store, {})
    known, latest = by_reader.get(read, {}), dict[str, tuple[int, T]]()
    for id_, last_seq in store.finished_logs(n).items():
        if id_ in known and known[id_][0] == last_seq:
            latest[id_] = known[id_]
            continue
        latest[id_] = last_seq, read(id_, ())
        with suppress(PeerageError):  # boards have a flag for such sessions
            latest[id_] = last_seq, read(id_, read_events(store.events(id_)))
    by_reader[read] = latest
    return [value for _, value in latest.values()]


def _add_facts(facts: Iterable[tuple[str, ModelFacts]]) -> dict[str, ModelFacts]:
    """Return the sum of the facts of each model."""
    total: dict[str, ModelFacts] = {}
    for name, one in facts:
        total[name] = total.get(name, ModelFacts()).plus(one)
    return total


def _facts_in(_: str, facts: Iterable[Fact]) -> dict[str, ModelFacts]:
    return _add_facts(pair for fact in facts if (pair := _model_facts(fact)))


def _model_facts(fact: Fact) -> tuple[str, ModelFacts] | None:
    """Return a model, and the facts that one event adds to it."""
    match fact:
        case Answered():
            cost = fact.usage.cost_usd if fact.usage else None
            cut_off, priced = int(is_cut_off(fact.finish_reason)), int(cost is not None)
            timed, latency_ms = int(bool(fact.latency_ms)), fact.latency_ms or 0.0
            one = ModelFacts(1, cut_off, priced, cost or 0.0, n_timed=timed, latency_ms=latency_ms)
            return fact.seat, one
        case Reviewed():
            unread = int(fact.review is None or not fact.review.ranking)
            unsealed = int(fact.review is not None and "unsealed" in fact.review.flags)
            return fact.reviewer, ModelFacts(n_reviews=1, n_unread=unread, n_unsealed=unsealed)
        case AskedAgain(stage="review"):
            return fact.seat, ModelFacts(n_asked_again=1)
        case Failed(stage="review"):
            return fact.seat, ModelFacts(n_reviews=1, n_unread=1)
    return None


def _failures_in(id_: str, facts: Iterable[Fact]) -> list[tuple[str, str]]:
    answered = [one for one in facts if isinstance(one, Answered)]
    answers = [Response(one.seat, one.text, messages=one.messages) for one in answered]
    gates = screen([answer for answer in answers if answer.text])
    return [(id_, gate.model) for gate in gates if not gate.passed]
