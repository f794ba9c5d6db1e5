"""The start of a session: its configuration, its identity, and whether its votes can count."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from peerage.config.settings import CouncilSettings
from peerage.council.safety import Moderator, screen
from peerage.events import Opened, RubricRecord, ScoringRecord, SeatRecord
from peerage.panel_probabilities import PanelRecord
from peerage.scoring import check_options
from peerage.text import valid_values
from peerage.types import Answer, Order, OwnVotes, Query, ReviewKind, ScoringOptions, Seal, Seat

COUNCIL = CouncilSettings()  # the defaults


@dataclass(frozen=True, slots=True)
class SessionConfig:
    """How sessions are run and scored: the part that sessions of a season and category share."""

    seats: tuple[Seat, ...]
    scoring: ScoringOptions = field(default_factory=ScoringOptions)
    order: Order = COUNCIL.order
    verdict: str = COUNCIL.verdict
    chairs: tuple[Seat, ...] = ()
    quorum: int = 2
    rounds: int = COUNCIL.rounds
    early_stop: bool = COUNCIL.early_stop
    seal: Seal = COUNCIL.seal
    second_chance: bool = COUNCIL.second_chance
    structured_answers: bool = COUNCIL.structured_answers
    deadline_s: float | None = COUNCIL.deadline_s  # for each stage
    moderator: Moderator = screen
    panel_record: PanelRecord = field(default_factory=PanelRecord)  # for typed questions
    review: ReviewKind = COUNCIL.review

    def __post_init__(self) -> None:
        check_options(self.scoring)
        object.__setattr__(self, "seats", valid_values(self.seats))
        object.__setattr__(self, "chairs", valid_values(self.chairs))

    def seats_that(self, role: str) -> tuple[Seat, ...]:
        """Return the seats with a role, in the order of the panel."""
        return tuple(seat for seat in self.seats if role in seat.roles)


@dataclass(frozen=True, slots=True)
class SessionSpec:
    """The identity of a session: its id, question, place in a season, and seed."""

    id: str
    query: Query
    seed: str
    ordinal: int
    season: str = ""
    answers: Mapping[str, Answer] | None = None  # judged instead of asked for
    after: str = ""  # the session that it follows up
    budget_usd: float | None = None  # of this session alone
    by: str = ""  # the id of the token that it was asked with
    labels: Mapping[str, str] | None = None  # metadata of the client
    design: str = ""  # the rule that stops its season, as JSON
    secret: str = field(default_factory=secrets.token_hex, repr=False)  # for its codes

    def __post_init__(self) -> None:
        for name in ("id", "query", "season", "answers", "labels"):
            object.__setattr__(self, name, valid_values(getattr(self, name)))


def opening(spec: SessionSpec, config: SessionConfig) -> Opened:
    """Return the first event of a session."""
    scoring = config.scoring
    rubric = scoring.rubric
    return Opened(
        query=spec.query,
        seed=spec.seed,
        ordinal=spec.ordinal,
        season=spec.season,
        seats=tuple(map(SeatRecord.of, config.seats)),
        options=ScoringRecord(
            rule=scoring.rule,
            own_votes=scoring.own_votes,
            rubric=rubric.name if rubric else None,
            safety_gate=scoring.safety_gate,
            order=config.order,
            verdict=config.verdict,
            review=config.review,
            soft_votes=scoring.soft_votes,
        ),
        rubric=RubricRecord.of(rubric) if rubric else None,
        after=spec.after,
        answers=None if spec.season else spec.answers,  # a season's answers are in its file
        budget_usd=spec.budget_usd,
        by=spec.by,
        labels=spec.labels,
        secret=spec.secret,
        design=spec.design,
    )


def newcomers(
    panel: Iterable[SeatRecord], spec: SessionSpec, config: SessionConfig
) -> tuple[SeatRecord, ...]:
    """Return the seats that a session's panel lacks, or has without a role that is needed."""
    roles_by_name = {record.name: set(record.roles) for record in panel}
    needed = {"answer", "review"} if spec.answers is None else {"review"}
    return tuple(
        SeatRecord.of(seat)
        for seat in config.seats
        if needed & set(seat.roles) - roles_by_name.get(seat.name, set())
    )


OUTSIDER = 'a seat that only reviews (roles = ["review"])'


def may_vote(reviewer: str, candidates: Collection[str], own_votes: OwnVotes) -> bool:
    """Return whether a review can count.

    If an author's own answer is left out, at least two other answers must remain.
    """
    return reviewer not in candidates or own_votes != "out" or len(candidates) > 2


def vote_fault(config: SessionConfig, answers: Collection[str] | None = None) -> str:
    """Return why no review of this panel could count, or "" if one could or none is needed.

    Without a verdict nothing depends on the votes, and a binary verdict uses the panel's decisions.
    """
    n, reviewers, voters = _electorate(config, answers)
    if config.verdict in ("none", "binary") or not reviewers or not n or voters:
        return ""
    of = "1 answer" if n == 1 else f"{n} answers"
    return f"no vote can count: without its own answer, a reviewer of {of} has nothing to compare."


def vote_note(config: SessionConfig, answers: Collection[str] | None = None) -> str:
    """Return a note if nothing will be ranked or one vote decides, else an empty text."""
    n, reviewers, voters = _electorate(config, answers)
    of = "answer" if n == 1 else "answers"
    if not n or (n > 1 and len(voters) > 1):
        return ""
    if n < 2:
        return f"with {n} {of} there is nothing to compare, and no ranking. Add seats that answer."
    if voters:
        return (
            f"only the ballot of {voters[0]} will count, so it alone decides the ranking. "
            f"Add {OUTSIDER}."
        )
    if not reviewers:
        return f"no seat reviews, so the {n} {of} will not be ranked. Add {OUTSIDER}."
    return f"the {n} {of} will not be ranked: no vote could count. Add {OUTSIDER}, or a third seat."


def _electorate(
    config: SessionConfig, answers: Collection[str] | None
) -> tuple[int, list[str], list[str]]:
    """Return the number of answers, the reviewers, and those of them whose vote can count."""
    authors = (seat.name for seat in config.seats_that("answer"))
    candidates = set(authors if answers is None else answers)
    reviewers = [seat.name for seat in config.seats_that("review")]
    own_votes = config.scoring.own_votes
    return (
        len(candidates),
        reviewers,
        [name for name in reviewers if may_vote(name, candidates, own_votes)],
    )
