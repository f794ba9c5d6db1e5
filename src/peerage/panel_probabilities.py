"""The panel's probabilities: votes on typed questions, pooled and corrected by people's labels.

The mean vote is pulled towards equal probabilities if there are few effective votes: seats that err
together count as fewer votes. With enough labelled questions, a non-decreasing function corrects
the result. It is fitted without the question that it is applied to.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from peerage.biases.decision_votes import VotedQuestion
from peerage.errors import UnreadableError, how_many
from peerage.event_facts import decision_of
from peerage.events import Adjudicated, Advised, Fact, query_in, read_events
from peerage.providers.typed_answers import likeliest
from peerage.stats.probabilities import (
    N_FOLDS,
    CrossFit,
    effective_votes,
    error_correlation,
    pool,
)
from peerage.stores import Store
from peerage.types import PanelAnswer, Query, TypedQuestion, Verdict

ASSUMED_CORRELATION = 0.5  # between the errors of two seats, before there are labels
WORTH = 30.0  # weight of this assumption, in labelled questions
MIN_LABELS = 100  # for one kind of question, to correct its probabilities
MAX_HISTORY = 2_000  # latest sessions that are read
KIND = "decision"  # of the verdict and the session

Votes = Mapping[str, tuple[float, ...]]  # by seat


@dataclass(frozen=True, slots=True)
class Labelled:
    """A question of an earlier session, its votes, and the option that people marked correct."""

    session_id: str
    kind: str
    votes: Votes
    correct: int

    @property
    def fold(self) -> int:
        return zlib.crc32(self.session_id.encode()) % N_FOLDS


@dataclass(frozen=True, slots=True)
class PanelRecord:
    """A panel's record on labelled questions: the correlation of errors, and corrections."""

    correlation: float = ASSUMED_CORRELATION
    fits: Mapping[str, CrossFit] = field(default_factory=dict)  # by kind of question
    n_labels: int = 0

    def pool(self, votes: Votes) -> tuple[tuple[float, ...], float]:
        """Return the panel's uncorrected probabilities and its effective number of votes."""
        effective = effective_votes(len(votes), self.correlation)
        return pool(list(votes.values()), effective), effective

    def answer(self, question: TypedQuestion, votes: Votes) -> PanelAnswer | None:
        """Return the panel's answer to a question, or None if no seat voted on it."""
        if not votes:
            return None
        chances, effective = self.pool(votes)
        fit = self.fits.get(question.kind)
        if fit is not None:
            chances = _correct(chances, fit, question.kind)
        rounded = tuple(round(one, 6) for one in chances)
        return PanelAnswer(question.name, rounded, votes, round(effective, 4), fit is not None)


def _correct(chances: Sequence[float], fit: CrossFit, kind: str) -> tuple[float, ...]:
    """Return probabilities corrected by people's labels; they sum to one."""
    if kind == "predicate":
        true = float(fit.correct(np.array([chances[0]]))[0])
        return true, 1.0 - true
    corrected = fit.correct(np.asarray(chances, dtype=np.float64))
    return tuple(float(one) for one in corrected / corrected.sum())


def record_of(labelled: Sequence[Labelled]) -> PanelRecord:
    """Return the record of the seats that voted on labelled questions."""
    if not labelled:
        return PanelRecord()
    seats = sorted({name for one in labelled for name in one.votes})
    errors = np.full((len(labelled), len(seats)), np.nan)
    for row, one in enumerate(labelled):
        for name, vote in one.votes.items():
            errors[row, seats.index(name)] = 1.0 - vote[one.correct]
    correlation = error_correlation(errors, ASSUMED_CORRELATION, WORTH)
    record = PanelRecord(correlation, n_labels=len(labelled))
    fits = {}
    for kind in sorted({one.kind for one in labelled}):
        some = [one for one in labelled if one.kind == kind]
        if len(some) >= MIN_LABELS:
            fits[kind] = _fit(record, some, kind)
    return PanelRecord(correlation, fits, len(labelled))


def _fit(record: PanelRecord, labelled: Sequence[Labelled], kind: str) -> CrossFit:
    """Return the correction for a kind of question; each option is one observation."""
    x, y, fold = [], [], []
    for one in labelled:
        chances, _ = record.pool(one.votes)
        for place in range(1 if kind == "predicate" else len(chances)):
            x.append(chances[place])
            y.append(float(place == one.correct))
            fold.append(one.fold)
    return CrossFit.of(np.array(x), np.array(y), np.array(fold))


def panel_record(store: Store, seats: Sequence[str]) -> PanelRecord:
    """Return the record of some seats, from the labelled decisions of a store."""
    return record_of([one for one in labelled_questions(store) if one.votes.keys() & set(seats)])


def labelled_questions(store: Store) -> Iterator[Labelled]:
    """Yield the questions of a store's latest decisions that people have labelled."""
    for id_, one in _stored_questions(store, only_labelled=True):
        if one.correct is not None:
            yield Labelled(id_, one.question.kind, one.votes, one.correct)


def voted_questions(store: Store, window_s: float | None = None) -> list[VotedQuestion]:
    """Return the questions of the latest decisions, with their votes and labels.

    With `window_s`, return only those of decisions within that time before the latest one.
    """
    return [one for _, one in _stored_questions(store, window_s)]


def _stored_questions(
    store: Store, window_s: float | None = None, *, only_labelled: bool = False
) -> Iterator[tuple[str, VotedQuestion]]:
    """Yield questions of decisions with their sessions' ids; skip unreadable sessions."""
    openings = list(store.decision_openings(MAX_HISTORY, only_labelled=only_labelled))
    latest = max((event.at for event in openings), default=0.0)
    for event in openings:
        if window_s is not None and event.at < latest - window_s:
            continue
        with suppress(UnreadableError):
            facts = list(read_events(store.events(event.session_id)))
            for one in questions_in(query_in(event), facts):
                yield event.session_id, one


def questions_in(query: Query, facts: Sequence[Fact]) -> list[VotedQuestion]:
    """Return the typed questions of a session that have votes, with their votes and labels."""
    decision, by_seat = decision_of(facts), votes_by_seat(facts)
    voted = [(one, votes_on(one, by_seat)) for one in query.questions]
    return [
        VotedQuestion(query.own_id, one, votes, _label(one, decision))
        for one, votes in voted
        if votes
    ]


def _label(question: TypedQuestion, decision: Adjudicated | None) -> int | None:
    """Return the index of the option that people call correct; None unless it is exactly one."""
    correct = decision.correct if decision else ()
    places = [at for at, name in enumerate(option_names(question)) if name in correct]
    return places[0] if len(places) == 1 else None


def votes_by_seat(facts: Sequence[Fact]) -> dict[str, Votes]:
    """Return the votes of each seat in a log, by question."""
    return {
        fact.seat: fact.votes
        for fact in facts
        if isinstance(fact, Advised) and fact.votes is not None
    }


def votes_on(question: TypedQuestion, by_seat: Mapping[str, Votes]) -> dict[str, tuple[float, ...]]:
    """Return the votes on one question, by seat."""
    return {
        seat: votes[question.name]
        for seat, votes in by_seat.items()
        if len(votes.get(question.name, ())) == question.n_options
    }


def option_names(question: TypedQuestion) -> list[str]:
    """Return the name of each option for labels, as in "urgent = true"."""
    values = [one.value for one in question.options] or ["true", "false"]
    return [f"{question.name} = {value}" for value in values]


def panel_verdict(
    questions: Sequence[TypedQuestion], by_seat: Mapping[str, Votes], record: PanelRecord
) -> Verdict | None:
    """Return the panel's answers as a verdict, or None if no seat voted."""
    answers = [record.answer(one, votes_on(one, by_seat)) for one in questions]
    given = tuple(one for one in answers if one is not None)
    if not given:
        return None
    by_name = {one.name: one for one in questions}
    lines = [answer_line(by_name[one.name], one) for one in given]
    how = f"corrected by {record.n_labels} labels" if record.fits else "not corrected by labels"
    n_seats = len({seat for one in given for seat in one.votes})
    note = f"votes of {how_many(n_seats, 'seat')}; {how}"
    return Verdict(KIND, "\n".join(lines), note=note, answers=given)


def answer_line(question: TypedQuestion, answer: PanelAnswer) -> str:
    """Return the panel's answer on one line: the likeliest option and its probability."""
    chances = answer.probabilities
    at = likeliest(chances)
    return f"{option_names(question)[at]} ({chances[at]:.0%})"


def dissenters(answer: PanelAnswer) -> list[str]:
    """Return the seats whose likeliest option is not the panel's."""
    best = likeliest(answer.probabilities)
    return [seat for seat, vote in answer.votes.items() if likeliest(vote) != best]
