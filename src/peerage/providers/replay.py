"""Answers from an earlier log: the same words again, with no model behind them.

A replaying seat gives what it said to the same question before. A review is given only
where the ballot shows the same answers in the same order, since its labels mean nothing
anywhere else. It costs nothing, and what is not in the log is a failure, never a guess.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from functools import lru_cache

from peerage.council.fold import fold
from peerage.errors import ConfigError
from peerage.events import Advised, Answered, Reviewed, read_events
from peerage.providers import Call, CallError, OnText, Provider, Reply, providers
from peerage.types import Event, Query, Seat, Usage


@providers.register("replay")
class Replay(Provider):
    """Reads `options.store`, and speaks as the seat that `model` names, or as its own name."""

    constrains = True
    is_free = True
    remote = False

    def __init__(self, seat: Seat) -> None:
        self.check(seat)
        self._name = seat.model or seat.name
        self._texts = _recorded(seat.options["store"])

    @classmethod
    def check(cls, seat: Seat) -> None:
        if not isinstance(seat.options.get("store"), str):
            raise ConfigError(
                "a replaying seat needs the log it repeats.",
                place=f"seat {seat.name}",
                hint='Write options = { store = "sqlite:///earlier.db" }.',
            )

    async def complete(self, call: Call, on_text: OnText | None = None) -> Reply:  # noqa: ARG002
        authors = call.ballot.authors if call.ballot else ()
        key = _key(call.query, call.stage, self._name, authors)
        if key not in self._texts:
            raise CallError("bad_request", f"the log has no {call.stage} of {self._name} for this")
        return Reply(self._texts[key], Usage(cost_usd=0.0))


Histories = Callable[[str], Iterable[list[Event]]]
_histories: list[Histories] = []


def reads_logs_with(histories: Histories) -> Histories:
    """Name the reader of logs; stores are on this floor too, so it is handed in from above."""
    _histories[:] = [histories]
    return histories


@lru_cache(maxsize=8)
def _recorded(url: str) -> dict[bytes, str]:
    """Every reply of a log by question, stage, seat and what was shown; the latest stands."""
    texts: dict[bytes, str] = {}
    for events in _histories[0](url):
        session = fold(events)
        query = session.query
        ballots = {(b.reviewer, b.round): b for b in session.ballots}
        for fact in read_events(events):
            if isinstance(fact, Answered):
                texts[_key(query, "answer", fact.seat, ())] = fact.text
            elif isinstance(fact, Reviewed):
                authors = ballots[fact.reviewer, fact.round].authors
                texts[_key(query, "review", fact.reviewer, authors)] = fact.text
            elif isinstance(fact, Advised):
                texts[_key(query, "conclude", fact.seat, ())] = fact.text
    return texts


def _key(query: Query, stage: str, seat: str, authors: tuple[str, ...]) -> bytes:
    turns = (part for turn in query.earlier for part in (turn.role, turn.content))
    parts = "\x1f".join((query.text, query.system, *turns, stage, seat, *authors))
    return hashlib.sha256(parts.encode("utf-8", "surrogatepass")).digest()
