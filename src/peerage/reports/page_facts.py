"""What pages show beside boards: of one model, of two reviewers, of a person, and from the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from peerage.council.counting import count, places
from peerage.council.fold import fold, person_review
from peerage.council.safety import screen
from peerage.errors import PeerageError
from peerage.events import Answered, Fact, Failed, PersonReviewed, Reviewed, read_events
from peerage.reports.held_rows import HeldRows
from peerage.reviews.columns import MARK
from peerage.reviews.rows import Floats, Ints
from peerage.stats.correlations import correlation
from peerage.stats.ranking import kendall_tau
from peerage.stores import Store
from peerage.types import Event, Response, ScoringOptions, Session, is_cut_off

T = TypeVar("T")
N = TypeVar("N", int, float)
MAX_POINTS = 2_000  # of a scatter
N_SESSIONS = 500  # the latest, over which facts are counted
N_SCREENED = 5_000  # the latest, in which answers are screened


# -- one model -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SessionShare:
    """How a model did in one session: the share of rivals beaten, over so many ballots."""

    session_id: str
    share: float
    n: int


@dataclass(frozen=True, slots=True)
class MarkMean:
    """A model's mean mark in one dimension, beside the mean of all models."""

    dimension: str
    mean: float
    everyone: float
    n: int


def sessions_of(held: HeldRows, model: str) -> list[SessionShare]:
    """A model's sessions, the best first; its own votes are left out."""
    rows, code, rank = held.rows, held.code(model), held.number("rank")
    ballot = held.ballots()
    n_shown = np.bincount(ballot)[ballot]
    mine = (rows.candidate == code) & (rows.reviewer != code) & ~np.isnan(rank) & (n_shown > 1)
    share = (n_shown[mine] - rank[mine]) / (n_shown[mine] - 1)
    shares = _by_session(held, rows.session[mine], share)
    return sorted(shares, key=lambda one: (-one.share, one.session_id))


def duels(held: HeldRows, a: str, b: str) -> list[SessionShare]:
    """The sessions in which two models met: how often `a` stands above `b`, clearest first."""
    rows, codes, rank = held.rows, (held.code(a), held.code(b)), held.number("rank")
    ballot = held.ballots()
    n_ballots = int(ballot.max(initial=-1)) + 1
    ranks = np.full((2, n_ballots), np.nan)
    for side, code in enumerate(codes):
        mine = (rows.candidate == code) & ~np.isin(rows.reviewer, codes)
        ranks[side, ballot[mine]] = rank[mine]
    session = np.zeros(n_ballots, dtype=np.int64)
    session[ballot] = rows.session
    met = ~np.isnan(ranks).any(axis=0)
    above: Floats = np.where(ranks[0] < ranks[1], 1.0, np.where(ranks[0] > ranks[1], 0.0, 0.5))
    shares = _by_session(held, session[met], above[met])
    return sorted(shares, key=lambda one: (-abs(one.share - 0.5), -one.share, one.session_id))


def _by_session(held: HeldRows, session: Ints, share: Floats) -> list[SessionShare]:
    """The mean share in each session."""
    kept, place = np.unique(session, return_inverse=True)
    n = np.bincount(place)
    means = np.bincount(place, share) / np.maximum(n, 1)
    return [
        SessionShare(held.sessions[i], float(mean), int(count))
        for i, mean, count in zip(kept.tolist(), means, n, strict=True)
    ]


def marks_of(held: HeldRows, model: str) -> list[MarkMean]:
    """A model's mean marks by dimension, given by others."""
    rows, code = held.rows, held.code(model)
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
    """How two reviewers judge the same answers; None where a number is not defined."""

    n: int  # answers that both judged
    scores: tuple[tuple[float, float], ...]  # the first of them
    pearson: float | None
    tau: float | None
    kappa: float | None  # of places, weighted by the square of the distance
    places: tuple[int, ...]
    confusion: tuple[tuple[int, ...], ...]  # by the first one's place, then the second's


def compare_reviewers(held: HeldRows, a: str, b: str) -> TwoReviewers:
    """Two reviewers on the answers that both judged and neither wrote."""
    rows, codes = held.rows, [held.code(a), held.code(b)]
    answer = rows.session * len(rows.names) + rows.candidate
    fair = ~np.isin(rows.candidate, codes)
    mine = [np.flatnonzero((rows.reviewer == code) & fair) for code in codes]
    row_by_answer = [dict(zip(answer[some].tolist(), some.tolist(), strict=True)) for some in mine]
    shared = sorted(row_by_answer[0].keys() & row_by_answer[1].keys())
    pairs = [(row_by_answer[0][one], row_by_answer[1][one]) for one in shared]
    scores = _pairs_of(held.number("score"), pairs, float)
    ranks = _pairs_of(held.number("rank"), pairs, round)
    places = tuple(range(1, max((max(pair) for pair in ranks), default=0) + 1))
    counts = Counter(ranks)
    return TwoReviewers(
        n=len(shared),
        scores=tuple(scores[:MAX_POINTS]),
        pearson=correlation([x for x, _ in scores], [y for _, y in scores]),
        tau=kendall_tau([x for x, _ in ranks], [y for _, y in ranks]) if len(ranks) > 1 else None,
        kappa=weighted_kappa(ranks, len(places)),
        places=places,
        confusion=tuple(tuple(counts[x, y] for y in places) for x in places),
    )


def _pairs_of(
    values: Floats, pairs: Sequence[tuple[int, int]], number: Callable[[float], N]
) -> list[tuple[N, N]]:
    """A column's values on pairs of rows that both have one."""
    both = [(values[i].item(), values[j].item()) for i, j in pairs]
    return [(number(x), number(y)) for x, y in both if x == x and y == y]


def weighted_kappa(pairs: Sequence[tuple[int, int]], n_places: int) -> float | None:
    """Cohen's κ with quadratic weights: 1 for the same places, 0 for what chance would give."""
    if len(pairs) < 2 or n_places < 2:
        return None
    seen = np.zeros((n_places, n_places))
    for x, y in pairs:
        seen[x - 1, y - 1] += 1
    seen /= seen.sum()
    expected = np.outer(seen.sum(axis=1), seen.sum(axis=0))
    place = np.arange(n_places)
    weight = (place[:, None] - place[None, :]) ** 2
    chance = float((weight * expected).sum())
    return None if chance == 0 else 1 - float((weight * seen).sum()) / chance


# -- people --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far somebody orders the same answers as the person: Kendall's τ, over so many."""

    name: str
    tau: float | None
    n: int


@dataclass(frozen=True, slots=True)
class Reveal:
    """A person's ballot after it was given: who wrote what, and who agrees."""

    session: Session
    places: Mapping[str, int]  # the person's, by author
    shown: tuple[str, ...]  # the authors, in the order really shown
    council: Mapping[str, int]  # ranks, by author
    by_reviewer: Mapping[str, Mapping[str, int]]
    agreements: tuple[Agreement, ...]  # the council first


def reveal(events: list[Event], person: str, options: ScoringOptions) -> Reveal | None:
    """What a person said of a session beside all others, or None where the person said nothing."""
    session = fold(events)
    by_people = [fact for fact in read_events(events) if isinstance(fact, PersonReviewed)]
    said = [fact for fact in by_people if fact.ballot.reviewer == person]
    if not said:
        return None
    ballot, review = person_review(session, said[0])
    mine = places(count(ballot, review))
    council = {score.model: score.rank for score in session.scores}
    reviews = {(review.reviewer, review.round): review for review in session.reviews}
    last = {b.reviewer: b for b in session.ballots if (b.reviewer, b.round) in reviews}
    by_reviewer = {
        name: places(count(b, reviews[name, b.round], options.rubric)) for name, b in last.items()
    }
    others = {"the council": council, **by_reviewer}
    agreements = tuple(_agreement(name, mine, theirs) for name, theirs in others.items())
    return Reveal(session, mine, ballot.authors, council, by_reviewer, agreements)


def agreements_of(held: HeldRows, person: str) -> list[Agreement]:
    """How far each reviewer agrees with a person, over all sessions of the person's."""
    rows = held.rows
    others = sorted({rows.names[i] for i in set(rows.reviewer.tolist())} - {person})
    pairs = ((name, compare_reviewers(held, person, name)) for name in others)
    return [Agreement(name, pair.tau, pair.n) for name, pair in pairs if pair.n]


def n_judged(held: HeldRows, person: str) -> int:
    """In how many sessions somebody has reviewed."""
    return len(np.unique(held.rows.session[held.rows.reviewer == held.code(person)]))


def _agreement(name: str, mine: Mapping[str, int], theirs: Mapping[str, int]) -> Agreement:
    shared = sorted(mine.keys() & theirs.keys())
    pair = ([mine[one] for one in shared], [theirs[one] for one in shared])
    return Agreement(name, kendall_tau(*pair) if len(shared) > 1 else None, len(shared))


# -- what the log says of models: cost, cut-off answers, unread replies ---------------------------

# What was read of a store's finished sessions, by id, while the store is open.
_FACTS: WeakKeyDictionary[Any, dict[str, dict[str, ModelFacts]]] = WeakKeyDictionary()
_FAILURES: WeakKeyDictionary[Any, dict[str, list[tuple[str, str]]]] = WeakKeyDictionary()
# All that fail, for the state of the store that it was found in.
_FAILING: WeakKeyDictionary[Any, tuple[object, frozenset[tuple[str, str]]]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Counts of one model: answers, what they cost, and its reviews that gave no vote."""

    n_answers: int = 0
    n_cut_off: int = 0
    n_priced: int = 0
    cost_usd: float = 0.0
    n_reviews: int = 0
    n_unread: int = 0

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
    """The facts of every model in the latest sessions."""
    latest = _latest(store, n, _FACTS, lambda _, facts: _added(_facts_in(facts)), {})
    return _added(pair for facts_by_name in latest for pair in facts_by_name.items())


def gate_failures(store: Store, n: int = N_SCREENED) -> frozenset[tuple[str, str]]:
    """The answers, by session and model, that fail the safety gate."""
    state = store.version(), n
    last, found = _FAILING.get(store, (None, frozenset()))
    if last != state:
        failures = _latest(store, n, _FAILURES, _failures_in, [])
        found = frozenset(pair for pairs in failures for pair in pairs)
        _FAILING[store] = state, found
    return found


def _latest(
    store: Store,
    n: int,
    known_by_store: WeakKeyDictionary[Any, dict[str, T]],
    read: Callable[[str, Iterable[Fact]], T],
    nothing: T,
) -> list[T]:
    """What is read of each of the latest sessions that are over; an unreadable one has nothing."""
    known = known_by_store.setdefault(store, {})
    ids = [listed.id for listed in store.sessions(limit=n) if listed.status]
    for id_ in ids:
        if id_ not in known:
            known[id_] = nothing
            with suppress(PeerageError):  # it has its own flag on boards
                known[id_] = read(id_, read_events(store.events(id_)))
    return [known[id_] for id_ in ids]


def _added(facts: Iterable[tuple[str, ModelFacts]]) -> dict[str, ModelFacts]:
    """The sum of the facts of each model."""
    total: dict[str, ModelFacts] = {}
    for name, one in facts:
        total[name] = total.get(name, ModelFacts()).plus(one)
    return total


def _facts_in(facts: Iterable[Fact]) -> Iterator[tuple[str, ModelFacts]]:
    for fact in facts:
        match fact:
            case Answered():
                cost = fact.usage.cost_usd if fact.usage else None
                cut_off, priced = int(is_cut_off(fact.finish_reason)), int(cost is not None)
                yield fact.seat, ModelFacts(1, cut_off, priced, cost or 0.0)
            case Reviewed():
                unread = int(fact.review is None or not fact.review.ranking)
                yield fact.reviewer, ModelFacts(n_reviews=1, n_unread=unread)
            case Failed(stage="review"):
                yield fact.seat, ModelFacts(n_reviews=1, n_unread=1)


def _failures_in(id_: str, facts: Iterable[Fact]) -> list[tuple[str, str]]:
    answers = [Response(one.seat, one.text) for one in facts if isinstance(one, Answered)]
    gates = screen([answer for answer in answers if answer.text])
    return [(id_, gate.model) for gate in gates if not gate.passed]
