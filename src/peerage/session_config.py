"""The start of a session: its configuration, its identity, and whether its votes can count."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from peerage.config.recorded import options_record
from peerage.config.settings import CouncilSettings, chairs_of, quorum_of, scoring_options
from peerage.council.safety import Moderator, screen
from peerage.events import Opened, RubricRecord, SeatRecord
from peerage.findings import AuditLimits
from peerage.panel_probabilities import PanelRecord
from peerage.scoring import check_options
from peerage.text import valid_values
from peerage.types import Answer, OwnVotes, Query, Rubric, ScoringOptions, Seat


@dataclass(frozen=True, slots=True)
class SessionConfig:
    """How sessions are run and scored: the part that sessions of a season and category share."""

    seats: tuple[Seat, ...]
    council: CouncilSettings = field(default_factory=CouncilSettings)
    rubric: Rubric | None = None  # `council.rubric` is its name
    limits: AuditLimits = field(default_factory=AuditLimits)
    moderator: Moderator = screen
    panel_record: PanelRecord = field(default_factory=PanelRecord)  # for typed questions
    scoring: ScoringOptions = field(init=False)

    def __post_init__(self) -> None:
        name = self.rubric.name if self.rubric else False
        if self.council.rubric != name:
            object.__setattr__(self, "council", self.council.model_copy(update={"rubric": name}))
        scoring = scoring_options(self.council, self.rubric, self.limits)
        check_options(scoring)
        object.__setattr__(self, "scoring", scoring)
        object.__setattr__(self, "seats", valid_values(self.seats))

    def with_options(self, **options: object) -> SessionConfig:
        """Return the configuration with other values of some options of the council."""
        return replace(self, council=self.council.model_copy(update=options))

    @property
    def chairs(self) -> tuple[Seat, ...]:
        """The chair and its substitutes."""
        return chairs_of(self.seats, self.council.chair)

    @property
    def quorum(self) -> int:
        """The number of answers that a session needs to continue."""
        return quorum_of(self.seats, self.council.quorum)

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
    return Opened(
        query=spec.query,
        seed=spec.seed,
        ordinal=spec.ordinal,
        season=spec.season,
        seats=tuple(map(SeatRecord.of, config.seats)),
        options=options_record(config.council),
        rubric=RubricRecord.of(config.rubric) if config.rubric else None,
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
    if config.council.verdict in ("none", "binary") or not reviewers or not n or voters:
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
    own_votes = config.council.own_votes
    return (
        len(candidates),
        reviewers,
        [name for name in reviewers if may_vote(name, candidates, own_votes)],
    )
