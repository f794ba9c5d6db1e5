"""What a session is held by: who sits, under which law, on which question, asked by whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from peerage.council.safety import Moderator, screen
from peerage.events import Opened, SeatRecord
from peerage.providers import Call, Reply
from peerage.scoring import Law
from peerage.text import valid_text, valid_values
from peerage.types import Failure, Order, Query, Seat


class Caller(Protocol):
    """Places calls: waits, retries and keeps the books."""

    def can_constrain(self, seat: Seat) -> bool: ...

    async def call(
        self, call: Call, on_text: Callable[[str], None] | None = None
    ) -> Reply | Failure: ...


@dataclass(frozen=True, slots=True)
class Agenda:
    """How sessions are held: who sits, by which law, how long."""

    seats: tuple[Seat, ...]
    law: Law = field(default_factory=Law)
    order: Order = "balanced"
    verdict: str = "synthesis"
    chairs: tuple[Seat, ...] = ()
    quorum: int = 2
    rounds: int = 1
    early_stop: bool = False
    deadline_s: float | None = None  # for each stage
    moderator: Moderator = screen

    def __post_init__(self) -> None:
        object.__setattr__(self, "seats", tuple(map(_valid_seat, self.seats)))
        object.__setattr__(self, "chairs", tuple(map(_valid_seat, self.chairs)))

    def with_role(self, role: str) -> tuple[Seat, ...]:
        return tuple(seat for seat in self.seats if role in seat.roles)


@dataclass(frozen=True, slots=True)
class Docket:
    """Which session this is: its question, its place in a season, and its seed."""

    id: str
    query: Query
    seed: str
    ordinal: int
    season: str = ""
    answers: Mapping[str, str] | None = None  # judged instead of asked for

    def __post_init__(self) -> None:
        query = Query(*map(valid_text, (self.query.text, self.query.id, self.query.category)))
        object.__setattr__(self, "id", valid_text(self.id))
        object.__setattr__(self, "query", query)
        object.__setattr__(self, "season", valid_text(self.season))
        if self.answers is not None:
            object.__setattr__(self, "answers", valid_values(dict(self.answers)))


def _valid_seat(seat: Seat) -> Seat:
    """The seat itself, or one whose names can be stored where its own cannot."""
    valid = replace(
        seat,
        name=valid_text(seat.name),
        family=valid_text(seat.family),
        model=valid_text(seat.model),
    )
    return seat if valid == seat else valid


def opening(docket: Docket, agenda: Agenda) -> Opened:
    """What the log says of a session before anything happens in it."""
    law = agenda.law
    return Opened(
        query=docket.query,
        seed=docket.seed,
        ordinal=docket.ordinal,
        season=docket.season,
        seats=tuple(SeatRecord(s.name, s.family, s.model, s.roles) for s in agenda.seats),
        law={
            "rule": law.rule,
            "own_votes": law.own_votes,
            "rubric": law.rubric.name if law.rubric else None,
            "safety_gate": law.safety_gate,
            "order": agenda.order,
            "verdict": agenda.verdict,
        },
    )
