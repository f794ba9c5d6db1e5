"""What the log says of models beyond their reviews: cost, cut-off answers, unread replies.

These are counted over the latest sessions only, each read once while the process lives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from peerage.council.safety import screen
from peerage.errors import PeerageError
from peerage.events import Answered, Failed, Reviewed, read_events
from peerage.stores import Store
from peerage.types import Response, is_cut_off

Failures = tuple[tuple[str, str], ...]  # session and model

N_SESSIONS = 500  # the latest, over which facts are counted
N_SCREENED = 5_000  # the latest, in which answers are screened

# What was read of a store's finished sessions, by id, while the store is open.
_FACTS: WeakKeyDictionary[Any, dict[str, Mapping[str, ModelFacts]]] = WeakKeyDictionary()
# Which answers fail the gate: the state of the store that this is of, by session, and all.
_FAILURES: WeakKeyDictionary[Any, tuple[object, dict[str, Failures], frozenset[tuple[str, str]]]]
_FAILURES = WeakKeyDictionary()


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
    for listed in store.sessions(limit=n):
        if not listed.status:
            continue
        known = _FACTS.setdefault(store, {})
        if listed.id not in known:
            known[listed.id] = _facts_of_session(store, listed.id)
        for name, facts in known[listed.id].items():
            total[name] = total.get(name, ModelFacts()).plus(facts)
    return total


def _facts_of_session(store: Store, id: str) -> Mapping[str, ModelFacts]:
    found: dict[str, ModelFacts] = {}
    try:
        for fact in read_events(store.events(id)):
            match fact:
                case Answered():
                    cost = fact.usage.cost_usd if fact.usage else None
                    one = ModelFacts(
                        1, int(is_cut_off(fact.finish_reason)), int(cost is not None), cost or 0.0
                    )
                case Reviewed():
                    unread = fact.review is None or not fact.review.ranking
                    one = ModelFacts(n_reviews=1, n_unread=int(unread))
                case Failed(stage="review"):
                    one = ModelFacts(n_reviews=1, n_unread=1)
                case _:
                    continue
            name = fact.reviewer if isinstance(fact, Reviewed) else fact.seat
            found[name] = found.get(name, ModelFacts()).plus(one)
    except PeerageError:
        return {}  # an unreadable session has its own flag on boards
    return found


def gate_failures(store: Store, n: int = N_SCREENED) -> frozenset[tuple[str, str]]:
    """The answers, by session and model, that fail the safety gate; each is screened once."""
    state = store.version(), n
    last, known, found = _FAILURES.get(store, (None, {}, frozenset()))
    if last != state:
        ids = [listed.id for listed in store.sessions(limit=n) if listed.status]
        known = {id_: known[id_] if id_ in known else _failures(store, id_) for id_ in ids}
        found = frozenset(pair for pairs in known.values() for pair in pairs)
        _FAILURES[store] = state, known, found
    return found


def _failures(store: Store, id: str) -> Failures:
    try:
        answers = [fact for fact in read_events(store.events(id)) if isinstance(fact, Answered)]
    except PeerageError:
        return ()
    gates = screen([Response(one.seat, one.text) for one in answers if one.text])
    return tuple((id, gate.model) for gate in gates if not gate.passed)
