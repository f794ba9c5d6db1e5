"""Decision models: a ballot as typed questions, and their answers as a review or a vote.

A decision model answers with probabilities and writes no text. The provider converts the
probabilities to JSON in the form of `answer_document`, which the log stores. Such a reply needs no
code, because no text in the prompt can become an answer.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from peerage.council.ballots import Decision, ReviewRead, abstain
from peerage.council.forms import fits_form
from peerage.council.prompts import Page, heading, votes_schema
from peerage.council.readings import rounding_slack
from peerage.council.seals import Sealed, bare_object, find_sealed, fold_key
from peerage.types import (
    Ballot,
    MarkChances,
    Option,
    Review,
    Rubric,
    Seal,
    Slot,
    TypedQuestion,
)

MAX_QUESTIONS = 400  # of one call
MAX_LEVELS = 10  # of a score
HOLISTIC = ""  # the dimension of a score for the whole answer
APPROVED, BEST = "approved", "best"  # names of questions

WHOLE = (
    ("1-2", "Useless or misleading."),
    ("3-4", "Poor: wrong or missing where it matters."),
    ("5-6", "Usable with care: real gaps, or some errors."),
    ("7-8", "Good: small faults that mislead no one."),
    ("9-10", "Correct, complete and clear: you would send it as it is."),
)
ON_ITS_OWN = (
    "Judge it on its own against the levels; check what you can. Its place, length and style mean "
    "nothing."
)
SERVES = "How well does {answer} serve the person who asked? Being right comes first."
APPROVE = (
    "The proposal in the question should be approved, by its own criteria, or else because it is "
    "correct, safe and fit for its purpose. One real defect is enough to reject it."
)
BREAK_TIE = (
    "Which of these answers serves the person who asked best? First whether it is right, then "
    "whether anything important is missing, then whether it is clear."
)


@dataclass(frozen=True, slots=True)
class TypedAnswer:
    """The probability of each option of a question; a predicate has the options true and false."""

    probabilities: tuple[float, ...]
    confidence: float

    @property
    def top(self) -> int:
        """The index of the option with the highest probability; the first of equals."""
        return likeliest(self.probabilities)


def likeliest(probabilities: Sequence[float]) -> int:
    """Return the index of the highest probability; the first of equals."""
    return max(range(len(probabilities)), key=probabilities.__getitem__)


def concentration(probabilities: Sequence[float]) -> float:
    """Return how far the highest probability is above chance: 0 for none, 1 for certainty."""
    chance = 1 / len(probabilities)
    return max(0.0, (max(probabilities) - chance) / (1 - chance))


# -- questions -----------------------------------------------------------------------------------


def ballot_questions(ballot: Ballot, rubric: Rubric | None) -> tuple[TypedQuestion, ...]:
    """Return a score for each answer and dimension of a ballot, or one for each whole answer."""
    return tuple(
        TypedQuestion(
            _name(slot, dimension),
            "score",
            f"{question.format(answer=heading(slot.label))} {ON_ITS_OWN}",
            tuple(Option(band, meaning) for band, meaning in anchors),
        )
        for slot in ballot.slots
        for dimension, question, anchors in _dimensions(rubric)
    )


def approval_question() -> TypedQuestion:
    """Return the predicate of a yes-or-no verdict."""
    return TypedQuestion(APPROVED, "predicate", APPROVE)


def tie_question(slots: Iterable[Slot]) -> TypedQuestion:
    """Return the question that chooses between tied answers."""
    options = tuple(Option(heading(slot.label)) for slot in slots)
    return TypedQuestion(BEST, "choice", BREAK_TIE, options)


def _dimensions(rubric: Rubric | None) -> list[tuple[str, str, Sequence[tuple[str, str]]]]:
    """Return the name, the question and the levels of each dimension, the lowest level first."""
    if rubric is None:
        return [(HOLISTIC, SERVES, WHOLE)]
    return [
        (
            one.name,
            f"Mark {{answer}} for {one.name}: {one.question.replace('{', '{{').replace('}', '}}')}",
            tuple(reversed(one.anchors[:MAX_LEVELS])),
        )
        for one in rubric.dimensions
    ]


def _name(slot: Slot, dimension: str) -> str:
    return f"{slot.label}.{dimension}" if dimension else slot.label


def _mark(band: str) -> float:
    """Return the mark in the middle of a band such as "9-10" or "5"."""
    low, _, high = band.partition("-")
    return (float(low) + float(high or low)) / 2


# -- answers -------------------------------------------------------------------------------------


def answer_document(answers: Mapping[str, TypedAnswer | None]) -> str:
    """Return answers by name in the form the log stores; None means refused."""
    entries = [
        {"name": name, "refused": True}
        if one is None
        else {"name": name, "probabilities": list(one.probabilities), "confidence": one.confidence}
        for name, one in answers.items()
    ]
    return json.dumps({"answers": entries}, ensure_ascii=False)


def answers_in(text: str, questions: Iterable[TypedQuestion]) -> dict[str, TypedAnswer]:
    """Return the answers of a stored reply that fit its questions; refused ones are left out."""
    try:
        entries = json.loads(text)["answers"]
        by_name = {one["name"]: one for one in entries if not one.get("refused")}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}
    answers = ((one.name, _answer(by_name.get(one.name), one.n_options)) for one in questions)
    return {name: answer for name, answer in answers if answer is not None}


def _answer(entry: Any, n: int) -> TypedAnswer | None:
    if not isinstance(entry, Mapping):
        return None
    chances, confidence = entry.get("probabilities"), entry.get("confidence")
    if not isinstance(chances, list) or len(chances) != n:
        return None
    if not all(type(one) in (int, float) and 0 <= one <= 1 for one in (*chances, confidence)):
        return None
    if abs(math.fsum(chances) - 1) > rounding_slack(n):
        return None
    return TypedAnswer(tuple(map(float, chances)), float(confidence or 0.0))


def read_marks(
    text: str, ballot: Ballot, rubric: Rubric | None, *, is_cut: bool = False
) -> ReviewRead:
    """Return the review from typed answers: expected marks, with their probabilities."""
    answers = {} if is_cut else answers_in(text, ballot_questions(ballot, rubric))
    chances: dict[str, dict[str, MarkChances]] = {}
    for slot in ballot.slots:
        for dimension, _, anchors in _dimensions(rubric):
            answer = answers.get(_name(slot, dimension))
            if answer is not None:
                levels = tuple(_mark(band) for band, _ in anchors)
                mark = MarkChances(levels, answer.probabilities, answer.confidence)
                chances.setdefault(slot.label, {})[dimension] = mark
    if not chances:
        return ReviewRead(abstain(ballot, "refused", text))
    marks = {
        label: {name: mark.expected for name, mark in by_dimension.items()}
        for label, by_dimension in chances.items()
    }
    scores = {label: by[HOLISTIC] for label, by in marks.items() if HOLISTIC in by}
    if rubric is None:
        marks = {}
    ranking = _tiers(scores)
    review = Review(
        ballot.reviewer, ranking, scores, marks, raw=text, round=ballot.round, chances=chances
    )
    return ReviewRead(review)


def read_approval(text: str, *, is_cut: bool = False) -> Decision:
    """Return the vote on a yes-or-no question; a probability of one half is undecided."""
    answer = None if is_cut else answers_in(text, [approval_question()]).get(APPROVED)
    if answer is None:
        return Decision(None, flag="refused")
    chance = answer.probabilities[0]
    approved = None if chance == 0.5 else chance > 0.5
    return Decision(approved, flag="" if approved is not None else "even", probability=chance)


def read_choice(text: str, ballot: Ballot, *, is_cut: bool = False) -> ReviewRead:
    """Return the ranking of tied answers by the probability that each is the best."""
    answer = None if is_cut else answers_in(text, [tie_question(ballot.slots)]).get(BEST)
    if answer is None:
        return ReviewRead(abstain(ballot, "refused", text))
    labels = [slot.label for slot in ballot.slots]
    ranking = _tiers(dict(zip(labels, answer.probabilities, strict=True)))
    return ReviewRead(Review(ballot.reviewer, ranking, raw=text, round=ballot.round))


def _tiers(values: Mapping[str, float]) -> tuple[tuple[str, ...], ...]:
    """Return labels from the highest value down; equals share a tier."""
    return tuple(
        tuple(label for label, value in values.items() if value == level)
        for level in sorted(set(values.values()), reverse=True)
    )


# -- votes on the questions of a client ----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TypedVotes:
    """A seat's votes on typed questions, by name; questions without a vote are left out."""

    answers: Mapping[str, tuple[float, ...]]
    fault: str = ""  # why there are no votes, in the words used for reviews


def read_typed_answers(
    text: str, questions: Sequence[TypedQuestion], *, is_cut: bool = False
) -> TypedVotes:
    """Return the votes of a decision model: its probabilities."""
    answers = {} if is_cut else answers_in(text, questions)
    return TypedVotes({name: one.probabilities for name, one in answers.items()})


def read_votes(
    text: str, page: Page, questions: Sequence[TypedQuestion], seal: Seal, *, is_cut: bool = False
) -> TypedVotes:
    """Return the votes in a reply to a prompt with a code; never raise an exception."""
    sealed = Sealed(fault="cut_off") if is_cut else find_sealed(text, page.code, page.text)
    objects = sealed.objects
    fault = "empty" if not text.strip() else sealed.fault
    if fault == "no_code" and seal == "preferred" and (bare := bare_object(text, page.text)):
        objects = (bare,)
    if not objects:
        return TypedVotes({}, fault)
    readings = [_votes_in(one, questions) for one in objects]
    form = votes_schema(questions, page.code)
    is_whole = all(fits_form(one, form) for one in objects)
    if not is_whole or any(reading != readings[0] for reading in readings):
        return TypedVotes({}, "contested")
    return TypedVotes(readings[0] or {}, "no_votes" if readings[0] is None else "")


def _votes_in(
    data: Mapping[str, Any], questions: Sequence[TypedQuestion]
) -> dict[str, tuple[float, ...]] | None:
    """Return the votes in a JSON object, one option per question, or None if there are none."""
    votes = {fold_key(key): value for key, value in data.items()}.get("votes")
    if not isinstance(votes, Mapping):
        return None
    by_name: dict[str, tuple[float, ...]] = {}
    abstains = False
    for i, question in enumerate(questions, start=1):
        vote = votes.get(str(i))
        abstains = abstains or (str(i) in votes and vote is None)
        at = _place_of(vote, question)
        if at is not None:
            by_name[question.name] = tuple(float(j == at) for j in range(question.n_options))
    return by_name if by_name or abstains else None


def _place_of(vote: Any, question: TypedQuestion) -> int | None:
    """Return the index of the option that a vote names; a predicate has true, then false."""
    word: Any = vote.strip().casefold() if isinstance(vote, str) else vote
    if question.kind == "predicate":
        words = {"true": 0, "yes": 0, "false": 1, "no": 1}
        return int(not word) if isinstance(word, bool) else words.get(str(word))
    if isinstance(word, str):
        word = int(word) if word.isdecimal() and len(word) <= 3 else None
    if not isinstance(word, int) or isinstance(word, bool):
        return None
    return word - 1 if 1 <= word <= question.n_options else None
