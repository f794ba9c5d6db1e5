"""What the log says of models beyond their reviews: cost, cut-off answers, unread replies.

These are counted over the latest sessions only, each read once while the process lives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from peerage.council.safety import screen
from peerage.errors import PeerageError
from peerage.events import Answered, Fact, Failed, Reviewed, read_events
from peerage.stores import Store
from peerage.types import Response, is_cut_off

N_SESSIONS = 500  # the latest, over which facts are counted
N_SCREENED = 5_000  # the latest, in which answers are screened

T = TypeVar("T")

# What was read of a store's finished sessions, by id, while the store is open.
_FACTS: WeakKeyDictionary[Any, dict[str, Mapping[str, ModelFacts]]] = WeakKeyDictionary()
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
    total: dict[str, ModelFacts] = {}
    for facts_by_name in _latest(store, n, _FACTS, _facts_in, {}):
        _add(total, facts_by_name.items())
    return total


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


def _add(total: dict[str, ModelFacts], facts: Iterable[tuple[str, ModelFacts]]) -> None:
    for name, one in facts:
        total[name] = total.get(name, ModelFacts()).plus(one)


def _facts_in(_: str, facts: Iterable[Fact]) -> Mapping[str, ModelFacts]:
    total: dict[str, ModelFacts] = {}
    for fact in facts:
        match fact:
            case Answered():
                cost = fact.usage.cost_usd if fact.usage else None
                cut_off, priced = int(is_cut_off(fact.finish_reason)), int(cost is not None)
                _add(total, [(fact.seat, ModelFacts(1, cut_off, priced, cost or 0.0))])
            case Reviewed():
                unread = int(fact.review is None or not fact.review.ranking)
                _add(total, [(fact.reviewer, ModelFacts(n_reviews=1, n_unread=unread))])
            case Failed(stage="review"):
                _add(total, [(fact.seat, ModelFacts(n_reviews=1, n_unread=1))])
    return total


def _failures_in(id_: str, facts: Iterable[Fact]) -> list[tuple[str, str]]:
    answers = [Response(one.seat, one.text) for one in facts if isinstance(one, Answered)]
    gates = screen([answer for answer in answers if answer.text])
    return [(id_, gate.model) for gate in gates if not gate.passed]
