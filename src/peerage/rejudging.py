"""Judge a season's stored answers again with other judges, and measure the shifts.

Each judge reviews every session of the season again through the orchestrator, with the stored
answers and the session's rubric. Its reviews are appended to the sessions' logs, but no board,
audit or score counts them. A review is identified by the judge and everything that affects its
replies, so the same command continues where it stopped, and pays for no review twice.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from peerage.anchors import (
    append_looks,
    has_answers,
    judge_again,
    sessions_to_judge,
    stored_answers,
    with_judges,
)
from peerage.bills import CallMade, total_cost
from peerage.boards import ranked_shares
from peerage.boards.common_cells import compare_sets, pair_cells
from peerage.config import Settings, with_seats
from peerage.config.recorded import recorded_council
from peerage.council.readings import person_review
from peerage.dry_runs import Estimator, NoLog, SeasonEstimate
from peerage.engines.duckdb import DuckDB
from peerage.engines.review_tables import read_reviews
from peerage.errors import BudgetError, few, how_many
from peerage.event_facts import opening_of
from peerage.events import Failed, Rechecked, SeatRecord, read_events
from peerage.fingerprints import rubric_hash, short_hash
from peerage.notebooks import Tabular
from peerage.panel import Council
from peerage.reports.board_reviews import BoardReviews
from peerage.reports.model_boards import build_model_board
from peerage.reports.options import ModelBoardOptions
from peerage.reports.session_options import RejudgeOptions
from peerage.reports.stored_reviews import tier_ranks
from peerage.scoring import Scored, score_session
from peerage.season import Progress
from peerage.seating import recorded_rubric_texts
from peerage.session import run
from peerage.session_config import SessionConfig, SessionSpec
from peerage.stats.clusters import ratio_interval
from peerage.stores import Store, kept_season
from peerage.types import Ballot, Event, Review, ScoringOptions, Seat, Session
from peerage.view import SessionView

CONCURRENCY = 8
Clock = Callable[[], float]


# -- judging again -------------------------------------------------------------------------------


async def rejudge(council: Council, options: RejudgeOptions, clock: Clock) -> Rejudging:
    """Have seats judge those stored answers of a season that they have not judged, and report.

    If the budget runs out, the reviews so far are stored, and the error is raised.
    """
    store, settings = council.store, council.settings
    season, seats, sessions = _plan(council, options)
    turn = asyncio.Semaphore(CONCURRENCY)

    async def judge(id_: str) -> list[Failed]:
        async with turn:
            return await _judge_session(council, seats, id_, clock)

    results = await asyncio.gather(*map(judge, sessions if seats else ()), return_exceptions=True)
    errors = [one for one in results if isinstance(one, BaseException)]
    for error in sorted(errors, key=lambda one: isinstance(one, BudgetError)):
        raise error
    failed = [one for some in results if not isinstance(some, BaseException) for one in some]
    report = report_rejudging(store, settings, season, [seat.name for seat in seats])
    cost_usd, n_unpriced = total_cost(
        CallMade(one.seat, one.stage, one.round, one.usage) for one in failed if one.usage
    )
    words = sorted({f"{one.seat}: {one.kind}" for one in failed})
    return replace(
        report,
        failed=tuple(words),
        n_failed=len(failed),
        cost_usd=report.cost_usd + cost_usd,
        unpriced_calls=report.unpriced_calls + n_unpriced,
    )


async def estimate_rejudging(council: Council, options: RejudgeOptions) -> SeasonEstimate:
    """Return the calls and the cost of what is left to judge; no model is called."""
    _, seats, sessions = _plan(council, options)
    estimator = Estimator(seats, council.session_config("").council.second_chance)
    progress = Progress(len(sessions))
    for id_ in sessions:
        planned = _plan_session(council, seats, id_)
        if planned is None:
            progress.reused += 1
            continue
        spec, config, _ = planned
        async for _ in run(spec, config, estimator, NoLog(), clock=lambda: 0.0):
            pass
    return SeasonEstimate(tuple(estimator.by_seat.values()), progress)


def _plan(council: Council, options: RejudgeOptions) -> tuple[str, Sequence[Seat], list[str]]:
    """Return the season, the seats that judge it, and its sessions that can be judged."""
    store = council.store
    season = kept_season(store, options.season)
    seats = with_seats(council.settings, options.judges).seats if options.judges else ()
    return season, seats, sessions_to_judge(store, season)


def _plan_session(
    council: Council, seats: Sequence[Seat], id_: str
) -> tuple[SessionSpec, SessionConfig, dict[str, str]] | None:
    """Return a session for the seats that have not judged it yet, its configuration and keys."""
    events = council.store.events(id_)
    opened = opening_of(events)
    recorded = recorded_council(opened, council.settings.council)
    rubric = recorded_rubric_texts(council.settings, opened)
    current = council.session_config(opened.query.category)
    config = replace(current, council=recorded, rubric=rubric)
    keys = {seat.name: _key(seat, config.scoring, recorded.review) for seat in seats}
    done = {fact.key for fact in _looks(events)}
    due = [seat for seat in seats if keys[seat.name] not in done]
    if not due:
        return None
    spec = SessionSpec(
        id=f"{id_}-{short_hash(sorted(keys.values()))}",
        query=opened.query,
        seed=opened.seed,
        ordinal=opened.ordinal,
        answers=stored_answers(events),
    )
    return spec, with_judges(config, due), keys


async def _judge_session(
    council: Council, seats: Sequence[Seat], id_: str, clock: Clock
) -> list[Failed]:
    """Have seats judge one session, each once; store each review and return the failures."""
    planned = _plan_session(council, seats, id_)
    if planned is None:
        return []
    spec, config, keys = planned
    failed = []
    async for look in judge_again(council, spec, config, clock):
        if isinstance(look, Failed):
            failed.append(look)
        else:
            keyed = replace(look, key=keys[look.ballot.reviewer])
            append_looks(council.store, id_, [keyed], clock)
    return failed


def _key(seat: Seat, scoring: ScoringOptions, review: str) -> str:
    """Return the key of a seat's review: a hash of everything that affects its replies."""
    rubric = rubric_hash(scoring.rubric) if scoring.rubric else ""
    return short_hash([seat.name, SeatRecord.of(seat).setup, rubric, review])


def _looks(events: Sequence[Event]) -> list[Rechecked]:
    facts = read_events(events)
    return [fact for fact in facts if isinstance(fact, Rechecked) and fact.key]


# -- the report ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Shift:
    """The shift of a model or a judge against the season's own reviews, on the same sessions.

    For a model: the change of its share of rivals beaten, on the pairs of answers that the old and
    the new judges have judged; `before` and `after` are its shares on the boards of each panel.
    For a judge: its mean mark minus the old judges' mean mark of the same answers. `same_order` is
    the share of pairs of answers that a judge orders as the session's result does. `reviews`,
    `same_order` and `cost_usd` are None for a model.
    """

    name: str
    before: float | None
    after: float | None
    shift: float | None
    low: float | None
    high: float | None
    n: int  # queries that both sides judged
    reviews: int | None = None  # of a judge, without abstentions; None for a model
    same_order: float | None = None
    cost_usd: float | None = None  # None if a price is unknown

    @property
    def moved(self) -> bool:
        """Return whether the interval of the shift excludes zero."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high


@dataclass(frozen=True, slots=True, repr=False)
class Rejudging(Tabular):
    """A season's answers judged by other judges: shifts of models and judges, and the cost."""

    season: str
    models: tuple[Shift, ...]
    judges: tuple[Shift, ...]
    n_sessions: int  # sessions that other judges have reviewed
    n_all: int  # sessions with answers to judge
    cost_usd: float = 0.0
    unpriced_calls: int = 0
    failed: tuple[str, ...] = ()
    n_failed: int = 0
    notes: tuple[str, ...] = field(default=())

    def table(self) -> dict[str, list[Any]]:
        names = ("name", "before", "after", "shift", "low", "high", "n")
        return {name: [getattr(one, name) for one in self.models] for name in names}

    def document(self) -> dict[str, Any]:
        """Return the JSON of the report."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        parts = {
            name: [{**asdict(one), "moved": one.moved} for one in getattr(self, name)]
            for name in ("models", "judges")
        }
        return {**values, **parts}


@dataclass(frozen=True, slots=True)
class _Judged:
    """One session, scored by its own judges and by the other judges."""

    query: str
    own: Scored
    again: Scored
    looks: tuple[Rechecked, ...]


def report_rejudging(
    store: Store, settings: Settings, season: str, judges: Sequence[str] = ()
) -> Rejudging:
    """Return the shifts of models and judges, from the log alone; by default, for all judges."""
    season = kept_season(store, season)
    judged: list[_Judged] = []
    sessions = [one.id for one in store.sessions(season) if has_answers(store, one.id)]
    for id_ in sessions:
        view = SessionView.of(store.events(id_), settings)
        looks = {fact.ballot.reviewer: fact for fact in _looks(store.events(id_))}  # latest
        some = [look for name, look in looks.items() if not judges or name in judges]
        if some and view.scored is not None:
            pairs = [person_review(view.session, look) for look in some]
            query = view.query.id or view.query.own_id
            judged.append(
                _Judged(query, view.scored, _score(view.session, pairs, view.options), tuple(some))
            )
    calls = [
        CallMade(look.ballot.reviewer, "review", 0, look.usage)
        for one in judged
        for look in one.looks
        if look.usage is not None
    ]
    cost_usd, n_unpriced = total_cost(calls)
    models = _model_shifts(judged)
    return Rejudging(
        season,
        tuple(sorted(models, key=lambda one: (-(one.after or 0.0), one.name))),
        tuple(_judge_shift(judged, name) for name in _reviewers(judged)),
        len(judged),
        len(sessions),
        cost_usd,
        n_unpriced,
        notes=_notes(judged, sessions),
    )


def _score(
    session: Session, pairs: Sequence[tuple[Ballot, Review]], options: ScoringOptions
) -> Scored:
    """Score a session by these ballots only."""
    ballots, reviews = tuple(ballot for ballot, _ in pairs), tuple(review for _, review in pairs)
    bare = replace(session, ballots=ballots, reviews=reviews, scores=(), flags=(), audit=None)
    return score_session(bare, replace(options, audit=False))


def _reviewers(judged: Sequence[_Judged]) -> list[str]:
    return sorted({look.ballot.reviewer for one in judged for look in one.looks})


def _model_shifts(judged: Sequence[_Judged]) -> list[Shift]:
    """Return each model's share on the board of the old judges and of the new, and its change.

    The change is that on the pairs of answers that both panels judged, so it need not be the
    difference of the two shares.
    """
    if not judged:
        return []
    sides = [_board_reviews(judged, again=again) for again in (False, True)]
    shares = [ranked_shares(build_model_board(one)) for one in sides]
    change = compare_sets(*(pair_cells(one.rows()) for one in sides))
    shifts = []
    for i, name in enumerate(change.models):
        if name not in shares[1]:
            continue
        shift, low, high = (
            float(one[i]) if np.isfinite(one[i]) else None
            for one in (change.change, change.low, change.high)
        )
        before, after = (share.get(name, (None, None, None))[0] for share in shares)
        shifts.append(Shift(name, before, after, shift, low, high, int(change.n_queries[i])))
    return shifts


def _board_reviews(judged: Sequence[_Judged], *, again: bool) -> BoardReviews:
    """Return the reviews of the old judges, or of the new ones, as a board counts them."""
    columns: dict[str, list[Any]] = {
        name: [] for name in ("session_id", "query_id", "reviewer", "round", "candidate", "rank")
    }
    for one in judged:
        scored = one.again if again else one.own
        n_by_reviewer = Counter[str]()
        for counted in scored.counted:
            if counted.abstained:
                continue
            round_ = n_by_reviewer[counted.reviewer]
            n_by_reviewer[counted.reviewer] += 1
            ranks = tier_ranks(counted.tiers)
            for name in counted.shown:
                review = (one.own.session.id, one.query, counted.reviewer, round_, name)
                for column, value in zip(columns, (*review, ranks.get(name)), strict=True):
                    columns[column].append(value)
    options = ModelBoardOptions(since="all", own_votes=judged[0].own.options.own_votes)
    return BoardReviews(read_reviews(DuckDB(), columns), options)


def _judge_shift(judged: Sequence[_Judged], name: str) -> Shift:
    """Return how a judge's marks and orders differ from those of the season's own judges."""
    pairs: list[tuple[str, float, float]] = []
    n_same = n_pairs = 0.0
    usd: list[float | None] = []
    reviews = 0
    for one in judged:
        counted = next((c for c in one.again.counted if c.reviewer == name), None)
        own_looks = [look for look in one.looks if look.ballot.reviewer == name]
        usd += [look.usage.cost_usd for look in own_looks if look.usage]
        if counted is None or counted.abstained:
            continue
        reviews += 1
        marks = _mean_marks(one.own, name)
        pairs += [
            (one.query, marks[author], mark)
            for author, mark in counted.scores.items()
            if author in marks and author != name
        ]
        same, n = _same_order(one.own, counted.tiers, name)
        n_same, n_pairs = n_same + same, n_pairs + n
    known = [cost for cost in usd if cost is not None]
    return replace(
        _pair_shift(name, pairs),
        reviews=reviews,
        same_order=n_same / n_pairs if n_pairs else None,
        cost_usd=sum(known) if len(known) == len(usd) else None,
    )


def _mean_marks(own: Scored, judge: str) -> dict[str, float]:
    """Return the mean mark of each answer by the season's judges, except its author and `judge`."""
    marks: dict[str, list[float]] = {}
    for counted in own.counted:
        for author, mark in counted.scores.items():
            if counted.reviewer not in (author, judge):
                marks.setdefault(author, []).append(mark)
    return {author: sum(some) / len(some) for author, some in marks.items()}


def _same_order(own: Scored, tiers: Sequence[Sequence[str]], judge: str) -> tuple[float, int]:
    """Return how many pairs a judge orders as the session's shares do, and the number of pairs."""
    share = {score.model: score.share for score in own.scores if score.votes}
    place = {name: i for i, tier in enumerate(tiers) for name in tier if name != judge}
    names = sorted(place.keys() & share.keys())
    same, n = 0.0, 0
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            if share[a] != share[b]:
                n += 1
                ahead = place[b] - place[a]
                same += 0.5 if not ahead else float((ahead > 0) == (share[a] > share[b]))
    return same, n


def _pair_shift(name: str, pairs: Sequence[tuple[str, float, float]]) -> Shift:
    """Return the mean difference of pairs, with an interval over queries."""
    if not pairs:
        return Shift(name, None, None, None, None, None, 0)
    queries = {query: i for i, query in enumerate(dict.fromkeys(query for query, _, _ in pairs))}
    place = np.array([queries[query] for query, _, _ in pairs])
    before, after = (np.array([pair[i] for pair in pairs]) for i in (1, 2))
    count = np.bincount(place).astype(float)
    estimate = ratio_interval(np.bincount(place, after - before), count)
    low, high = (estimate.low, estimate.high) if estimate else (None, None)
    shift = float((after - before).mean())
    return Shift(name, float(before.mean()), float(after.mean()), shift, low, high, len(queries))


def _notes(judged: Sequence[_Judged], sessions: Sequence[str]) -> tuple[str, ...]:
    if not judged:
        return ("no other judge has reviewed this season yet: peerage rejudge SEASON --with SEAT",)
    seen = {
        (look.ballot.reviewer, look.made_by.review)
        for one in judged
        for look in one.looks
        if look.made_by is not None
    }
    notes = []
    n_left = len(sessions) - len(judged)
    if n_left:
        notes.append(f"{how_many(n_left, 'session')} not judged again yet: run the command again.")
    if committed := sorted(name for name, kind in seen if kind == "committed"):
        notes.append(f"{few(committed, 3)}: these judges compared the answers with their own.")
    return tuple(notes)
