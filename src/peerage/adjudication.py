"""Sessions on which reviewers disagree, and people's decisions on correct answers.

A decision is an event in the session's log, with author and time; the reviews table has it in the
column `correct`. Comments and names of sessions are events too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, product
from typing import Any, Literal

import numpy as np

from peerage.curation import append_to_each
from peerage.errors import InputError, NotAllowedError, UsageError, shown
from peerage.event_facts import decision_of, is_over
from peerage.events import Adjudicated, Commented, Renamed, Stored, read_events
from peerage.panel_probabilities import option_names
from peerage.reviews.gold import is_by_person
from peerage.reviews.rows import Rows
from peerage.stats.ranking import kendall_tau
from peerage.stores import Store, full_id
from peerage.text import valid_text
from peerage.view import fold

MAX_COMMENT = 10_000
MAX_TITLE = 200


Sides = Literal["people", "people_models", "models"]
SIDES: Mapping[Sides, str] = {
    "people": "people with each other",
    "people_models": "people with models",
    "models": "models with each other",
}


@dataclass(frozen=True, slots=True)
class Disagreement:
    """How far the reviewers of a session agree: the mean Kendall τ of each kind of pair."""

    session_id: str
    tau: Mapping[str, float | None]  # by the keys of SIDES; None if there is no such pair
    n_people: int
    n_models: int

    def document(self) -> dict[str, Any]:
        """Return the disagreement as JSON."""
        return {**asdict(self), "tau": dict(self.tau)}


def disagreements(rows: Rows, sides: Sides, season: str | None = None) -> list[Disagreement]:
    """Return the sessions with a pair of this kind, those that agree least first."""
    if season is not None:
        rows = rows.only(rows.has_label("season", season))
    disagreements = [one for one in _by_session(rows) if one.tau[sides] is not None]
    return sorted(disagreements, key=lambda one: (one.tau[sides] or 0.0, one.session_id))


def _by_session(rows: Rows) -> list[Disagreement]:
    """Return how far the reviewers of each session agree."""
    order = np.argsort(rows.session, kind="stable")
    session = rows.session[order]
    is_first = np.append(True, np.diff(session) != 0)[: len(order)]
    starts = np.flatnonzero(is_first).tolist()
    sessions = []
    for at, start in enumerate(starts):
        end = starts[at + 1] if at + 1 < len(starts) else len(order)
        sessions.append(_of_session(rows, order[start:end]))
    return sessions


def _of_session(rows: Rows, places: Any) -> Disagreement:
    rank, by_person = rows.number("rank"), is_by_person(rows)
    by_reviewer: dict[int, dict[int, float]] = {}
    people: set[int] = set()
    for i in places.tolist():
        reviewer, candidate = int(rows.reviewer[i]), int(rows.candidate[i])
        if np.isnan(rank[i]) or reviewer == candidate:  # no rank, or one's own answer
            continue
        by_reviewer.setdefault(reviewer, {})[candidate] = float(rank[i])
        if by_person[i]:
            people.add(reviewer)
    models = [name for name in by_reviewer if name not in people]
    pairs = {
        "people": list(combinations(sorted(people), 2)),
        "people_models": list(product(sorted(people), models)),
        "models": list(combinations(models, 2)),
    }
    tau = {side: _mean_tau(by_reviewer, of_side) for side, of_side in pairs.items()}
    id_ = str(rows.session_ids[rows.session[places[0]]])
    return Disagreement(id_, tau, len(people), len(models))


def _mean_tau(
    by_reviewer: Mapping[int, Mapping[int, float]], pairs: Sequence[tuple[int, int]]
) -> float | None:
    taus = []
    for a, b in pairs:
        both = [name for name in by_reviewer[a] if name in by_reviewer[b]]
        xs, ys = ([by_reviewer[who][name] for name in both] for who in (a, b))
        if (tau := kendall_tau(xs, ys)) is not None:
            taus.append(tau)
    return sum(taus) / len(taus) if taus else None


# -- decisions, comments and names -----------------------------------------------------------------

Clock = Callable[[], float]


def record_decision(
    store: Store,
    prefix: str,
    correct: Sequence[str],
    note: str,
    clock: Clock,
    by: str,
    is_admin: bool = True,
) -> Adjudicated:
    """Record which answers of a session are correct; an empty list means that none is correct.

    Only the author of an earlier decision, or an admin, can replace it.
    """
    id_ = full_id(store, prefix)
    answers = _answers(store, id_)
    if unknown := sorted(set(correct) - set(answers)):
        raise UsageError(
            f"this session has no answer by {shown(unknown[0])}.",
            hint=f"Known: {', '.join(answers)}.",
        )
    chosen = tuple(name for name in answers if name in set(correct))
    fact = Adjudicated(chosen, tuple(answers), _text(note, MAX_COMMENT), by)
    _decide(store, id_, fact, clock, is_admin)
    return fact


def take_back_decision(
    store: Store, prefix: str, clock: Clock, by: str, is_admin: bool = True
) -> None:
    """Record that a session no longer has a decision; its author or an admin can do so."""
    _decide(store, full_id(store, prefix), Adjudicated((), (), "", by), clock, is_admin)


def _decide(store: Store, id_: str, fact: Adjudicated, clock: Clock, is_admin: bool) -> None:
    def check_author(_: str) -> Adjudicated:
        earlier = decision_of(read_events(store.events(id_)))
        if earlier is not None and earlier.by != fact.by and not is_admin:
            raise NotAllowedError(
                f"{shown(earlier.by)} has decided on session {id_}.",
                hint="Only the author of a decision, or a token of scope 'admin', can change it.",
            )
        return fact

    _check_over(store, id_)
    append_to_each(store, [id_], check_author, clock)


def comment(store: Store, prefix: str, text: str, clock: Clock, by: str) -> Commented:
    """Add a comment to a session."""
    words = _text(text, MAX_COMMENT)
    if not words:
        raise UsageError("the comment is empty.")
    fact = Commented(words, by)
    _append(store, full_id(store, prefix), fact, clock)
    return fact


def rename_session(store: Store, prefix: str, name: str, clock: Clock, by: str) -> Renamed:
    """Give a session a name; an empty name restores its question."""
    fact = Renamed(_text(name, MAX_TITLE).replace("\n", " "), by)
    _append(store, full_id(store, prefix), fact, clock)
    return fact


def _text(text: str, max_characters: int) -> str:
    words = valid_text(text).replace("\r\n", "\n").strip()
    if len(words) > max_characters:
        raise UsageError(f"the text has more than {max_characters:,} characters.")
    return words


def _answers(store: Store, id_: str) -> list[str]:
    """Return the names that a decision may list: options of typed questions, or else models."""
    session = fold(store.events(id_))
    options = [name for one in session.query.questions for name in option_names(one)]
    return options or [one.model for one in session.responses if one.text.strip()]


def _append(store: Store, id_: str, fact: Stored, clock: Clock) -> None:
    _check_over(store, id_)
    append_to_each(store, [id_], lambda _: fact, clock)


def _check_over(store: Store, id_: str) -> None:
    if not is_over(store.events(id_)):
        raise InputError(f"session {id_} is not over yet.", hint="Wait until it has ended.")
