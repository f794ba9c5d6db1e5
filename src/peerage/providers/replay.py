"""A provider that repeats the replies of an earlier log; it calls no model.

A replaying seat gives the reply it gave to the same question before. A review is repeated only
if the ballot shows the same answers in the same order, because its labels depend on that order. A
vote gets the code of the new page. Calls cost nothing. A call that is not in the log fails.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from peerage.council.foreign import decision_in
from peerage.council.prompts import ballot_code
from peerage.council.readings import ballot_from, review_in
from peerage.errors import ConfigError
from peerage.events import (
    Advised,
    Answered,
    Dealt,
    Extended,
    Opened,
    Reviewed,
    opening_of,
    read_events,
)
from peerage.providers import Call, CallError, OnText, Provider, Reply, providers
from peerage.types import Ballot, Event, Query, Review, Seat, Usage


@providers.register("replay")
class Replay(Provider):
    """Reads `options.store` and repeats the seat that `model` names, or the seat's own name."""

    constrains = True
    is_free = True
    remote = False

    def __init__(self, seat: Seat) -> None:
        self.check(seat)
        self._name = seat.model or seat.name
        self._replies = _index_replies(_open_log[0](seat.options["store"]))

    @classmethod
    def check(cls, seat: Seat) -> None:
        if not isinstance(seat.options.get("store"), str):
            raise ConfigError(
                "a seat with provider replay needs the option store.",
                place=f"seat {seat.name}",
                hint='Write options = { store = "sqlite:///earlier.db" }.',
            )

    async def complete(self, call: Call, on_text: OnText | None = None) -> Reply:  # noqa: ARG002
        authors = call.ballot.authors if call.ballot else ()
        key = _key(call.query, call.stage, self._name, authors)
        if key not in self._replies:
            raise CallError("bad_request", f"the log has no {call.stage} of {self._name} for this")
        recorded = self._replies[key]
        return Reply(recorded.under(call.code), Usage(cost_usd=0.0), model=recorded.model)


@dataclass(frozen=True, slots=True)
class Recorded:
    """A reply in a log: its text, the code in it, and the vote that was read from it."""

    text: str
    code: str = ""
    vote: Mapping[str, Any] = field(default_factory=dict)
    model: str = ""  # that replied, where the log knows

    def under(self, code: str) -> str:
        """Return the reply with the code of another page; an old reply without a code: its vote."""
        if code and self.code and self.code in self.text:
            return re.sub(rf"{self.code}(?:[0-9a-f]{{12}})*", code, self.text)
        if code and self.vote:
            return json.dumps({"ballot": code, **self.vote})
        return self.text


@dataclass(frozen=True, slots=True)
class RecordedLog:
    """A log to repeat, in its current state."""

    url: str
    state: str  # changes with every session that ends
    histories: Callable[[], Iterable[list[Event]]] = field(compare=False)  # reads the sessions


OpenLog = Callable[[str], RecordedLog]
_open_log: list[OpenLog] = []


def register_log_reader(open_log: OpenLog) -> OpenLog:
    """Register the function that opens logs; it is passed in, because stores are on this floor."""
    _open_log[:] = [open_log]
    return open_log


@lru_cache(maxsize=8)
def _index_replies(log: RecordedLog) -> dict[bytes, Recorded]:
    """Return the replies of a log by question, stage, seat and shown answers; the latest wins."""
    replies: dict[bytes, Recorded] = {}
    for events in log.histories():
        query, id_, secret = opening_of(events).query, events[0].session_id, ""
        ballots: dict[tuple[str, int], Ballot] = {}
        for fact in read_events(events):
            if isinstance(fact, Opened | Extended):
                secret = fact.secret or secret
            elif isinstance(fact, Answered):
                replies[_key(query, "answer", fact.seat, ())] = Recorded(fact.text)
            elif isinstance(fact, Dealt):
                for one in fact.ballots:
                    ballots[one.reviewer, fact.round] = ballot_from(one, (), fact.round, id_)
            elif isinstance(fact, Reviewed):
                names = fact.reviewer, fact.round
                code, ballot = ballot_code(secret, id_, *names) if secret else "", ballots[names]
                model = fact.made_by.model if fact.made_by else ""
                recorded = Recorded(fact.text, code, _vote(review_in(fact, ballot)), model)
                replies[_key(query, "review", fact.reviewer, ballot.authors)] = recorded
            elif isinstance(fact, Advised):
                code = ballot_code(secret, id_, f"chair:{fact.seat}", 0) if secret else ""
                decision = fact.decision or decision_in(fact.text)
                vote = {"reasons": decision.reasons, "approved": decision.approved}
                known = vote if decision.approved is not None else {}
                replies[_key(query, "conclude", fact.seat, ())] = Recorded(fact.text, code, known)
    return replies


def _vote(review: Review) -> Mapping[str, Any]:
    """Return the vote of a review in the form that a page asks for; empty for an abstention."""
    if review.abstained:
        return {}
    marks = {label: dict(marks) for label, marks in review.marks.items()}
    notes, scores = dict(review.notes), dict(review.scores)
    return {"evaluations": marks, "notes": notes, "scores": scores, "ranking": review.ranking}


def _key(query: Query, stage: str, seat: str, authors: tuple[str, ...]) -> bytes:
    turns = (part for turn in query.earlier for part in (turn.role, turn.content))
    parts = "\x1f".join((query.text, query.system, *turns, stage, seat, *authors))
    return hashlib.sha256(parts.encode("utf-8", "surrogatepass")).digest()
