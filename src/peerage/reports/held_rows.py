"""All stored reviews in memory, and what pages show of one model, two reviewers or a person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from peerage.boards.model_sums import ModelSums, Plan
from peerage.council.counting import count
from peerage.council.fold import fold, person_review
from peerage.engines import engines
from peerage.engines.review_tables import read_reviews
from peerage.errors import InputError
from peerage.events import PersonReviewed, read_events
from peerage.reports.model_reviews import BoardReviews, placings_of, summed
from peerage.reports.options import ModelBoardOptions
from peerage.reviews.columns import MARK, REVIEWS, is_number, required
from peerage.reviews.rows import (
    N_CLUSTERS,
    Bools,
    Floats,
    Ints,
    Rows,
    clusters_of,
    rows_and_units,
    unit_of,
)
from peerage.stats.correlations import correlation
from peerage.stats.ranking import kendall_tau
from peerage.types import Event, Placing, ScoringOptions, Session

if TYPE_CHECKING:
    from peerage.reports import Reports

N = TypeVar("N", int, float)
MAX_POINTS = 2_000  # of a scatter


@dataclass(frozen=True, slots=True)
class HeldRows:
    """Reviews ballot by ballot, with the id of each session and what it is an observation of."""

    rows: Rows
    units: tuple[str, ...]  # by session
    sessions: tuple[str, ...]
    category: NDArray[np.object_]

    def code(self, name: str) -> int:
        """The code of a name, −1 where nobody has it."""
        return self.rows.names.index(name) if name in self.rows.names else -1

    def number(self, name: str) -> Floats:
        """A column of numbers, NaN where there is none."""
        return self.rows.numbers.get(name, np.full(self.rows.n, np.nan))

    def ballots(self) -> Ints:
        """The ballot of each row, by number: one reviewer in one session and round."""
        rows = self.rows
        round_ = np.nan_to_num(self.number("round")).astype(np.int64)
        keys = rows.session * len(rows.names) + rows.reviewer
        keys = keys * (int(round_.max(initial=0)) + 1) + round_
        code: Ints = np.cumsum(np.diff(keys, prepend=keys[:1]) != 0)
        return code

    def only(self, keep: Bools) -> HeldRows:
        """Some of the rows, with the sessions that are left."""
        rows = self.rows
        if keep.all():
            return self
        there = np.bincount(rows.session[keep], minlength=rows.n_sessions) > 0
        kept = np.flatnonzero(there).tolist()
        sessions, units = (tuple(known[i] for i in kept) for known in (self.sessions, self.units))
        is_whole = len(kept) == rows.n_sessions
        cluster, n_clusters = (rows.cluster, rows.n_clusters) if is_whole else clusters_of(units)
        some = replace(
            rows,
            n_clusters=n_clusters,
            cluster=cluster,
            session=(np.cumsum(there) - 1)[rows.session[keep]],
            reviewer=rows.reviewer[keep],
            candidate=rows.candidate[keep],
            numbers={name: values[keep] for name, values in rows.numbers.items()},
        )
        return HeldRows(some, units, sessions, self.category[keep])


def stored_rows(reports: Reports) -> HeldRows | None:
    """All stored reviews; they are kept in memory until the store has more."""
    try:
        files = reports.review_files()
    except InputError:  # there are none yet
        return None
    return _rows_of(tuple(files))


@lru_cache(maxsize=2)
def _rows_of(files: tuple[str, ...]) -> HeldRows:
    engine = engines.get("duckdb")()
    engine.admit(list(files))
    table = read_reviews(engine, list(files))
    numbers = [name for name in table.columns if is_number(name) or name == "at"]
    texts = [*required(REVIEWS), *(n for n in ("query_id", "category") if n in table.columns)]
    columns = engine.arrays(table.frame.select(*texts, *numbers))
    round_ = np.nan_to_num(columns["round"].astype(float)) if "round" in columns else None
    keys = [columns[name].astype(str) for name in ("reviewer", "session_id")]
    order = np.lexsort(keys if round_ is None else [round_, *keys])  # ballot by ballot
    columns = {name: values[order] for name, values in columns.items()}
    nothing = np.full(len(order), None, dtype=object)
    ids, queries = columns["session_id"].tolist(), columns.get("query_id", nothing).tolist()
    query_by_session = dict(zip(ids, queries, strict=True))
    sessions = tuple(sorted(query_by_session))
    units = tuple(unit_of(one, query_by_session[one]) for one in sessions)
    rows, _ = rows_and_units(columns, numbers)
    return HeldRows(rows, units, sessions, columns.get("category", nothing))


class HeldReviews(BoardReviews):
    """Reviews in memory, within the window of a board; which answers were cut off is not known."""

    def __init__(self, held: HeldRows, options: ModelBoardOptions) -> None:
        self.options, self.columns = options, tuple(held.rows.numbers)
        at = held.number("at")
        self.set_window(None if np.isnan(at).all() else float(np.nanmax(at)))
        keep = np.ones(held.rows.n, dtype=bool)
        if options.category is not None:
            keep &= held.category == options.category
        if options.as_of is not None and self.latest is not None:
            keep &= ~(at > self.latest)
        self.held = held.only(keep)
        self.n_rows = self.held.rows.n

    def sums(self, plan: Plan) -> ModelSums:
        rows, units = self.held.rows, tuple(sorted(set(self.held.units)))
        known = units if len(units) <= N_CLUSTERS else None
        return ModelSums(rows.names, known, summed(rows, plan))

    def placings(self, plan: Plan) -> list[Placing]:
        return placings_of(self.held.rows, plan)

    def n_after(self, instant: float) -> int:
        return int(np.count_nonzero(self.held.number("at") > instant))

    def first_s(self) -> float | None:
        at = self.held.number("at")
        if self.earliest is not None or np.isnan(at).all():
            return self.earliest
        return float(np.nanmin(at))


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
    said = next(
        (
            fact
            for fact in read_events(events)
            if isinstance(fact, PersonReviewed) and fact.ballot.reviewer == person
        ),
        None,
    )
    if said is None:
        return None
    ballot, review = person_review(session, said)
    mine = _places(count(ballot, review).tiers)
    council = {score.model: score.rank for score in session.scores}
    reviews = {(review.reviewer, review.round): review for review in session.reviews}
    last = {b.reviewer: b for b in session.ballots if (b.reviewer, b.round) in reviews}
    by_reviewer = {
        name: _places(count(b, reviews[name, b.round], options.rubric).tiers)
        for name, b in last.items()
    }
    others = [Agreement("the council", *_tau(mine, council))]
    others += [Agreement(name, *_tau(mine, places)) for name, places in by_reviewer.items()]
    return Reveal(session, mine, ballot.authors, council, by_reviewer, tuple(others))


def agreements_of(held: HeldRows, person: str) -> list[Agreement]:
    """How far each reviewer agrees with a person, over all sessions of the person's."""
    rows = held.rows
    others = sorted({rows.names[i] for i in set(rows.reviewer.tolist())} - {person})
    pairs = ((name, compare_reviewers(held, person, name)) for name in others)
    return [Agreement(name, pair.tau, pair.n) for name, pair in pairs if pair.n]


def n_judged(held: HeldRows, person: str) -> int:
    """In how many sessions somebody has reviewed."""
    return len(np.unique(held.rows.session[held.rows.reviewer == held.code(person)]))


def _places(tiers: tuple[tuple[str, ...], ...]) -> dict[str, int]:
    places: dict[str, int] = {}
    for tier in tiers:
        places |= dict.fromkeys(tier, len(places) + 1)
    return places


def _tau(mine: Mapping[str, int], theirs: Mapping[str, int]) -> tuple[float | None, int]:
    shared = sorted(mine.keys() & theirs.keys())
    pair = ([mine[name] for name in shared], [theirs[name] for name in shared])
    return (kendall_tau(*pair) if len(shared) > 1 else None), len(shared)
