"""How a person's reviews stand beside those of the models and of the council."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from peerage.council.counting import count
from peerage.council.fold import fold, person_review
from peerage.events import PersonReviewed, read_events
from peerage.reports.held_rows import HeldRows, compare_reviewers
from peerage.stats.rank_correlations import kendall_tau
from peerage.types import Event, ScoringOptions, Session


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
