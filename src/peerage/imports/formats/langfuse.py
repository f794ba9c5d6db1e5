"""Scores of Langfuse, version 3 of its API: typed values on traces and observations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from peerage.imports.foreign_records import (
    Beginning,
    Record,
    as_score,
    at_path,
    first_of,
    object_at,
    records,
)
from peerage.imports.formats import Format, FormatFit, Row, formats, needs

FIELDS = {
    "data[].subject.kind, id": "the session: a trace, observation, session or experiment; of "
    "earlier versions of the API `observationId`, `traceId` or `sessionId`",
    "data[].name": "the reviewer; of a person the part behind the author, if the author gives "
    "scores of several names",
    "data[].source, authorUserId": "ANNOTATION is a person, by the author's id",
    "data[].dataType, value": "NUMERIC and BOOLEAN are scores; TEXT and CATEGORICAL are left out",
    "data[].dataType CORRECTION": "a correction that is not empty means that the answer was "
    "not correct; it is a score of 0 by its author, unless the author also gave a score",
    "data[].metadata.model": "the candidate; if it is missing, the environment",
    "data[].timestamp": "the time",
}
ADVICE = (
    "Put the model into the metadata of each score as `model`: a score does not name it. "
    "Two evaluators or more on the same traces show agreement. People's corrections show which "
    "answers are wrong."
)
MODEL = ("model", "candidate", "model_name", "modelName")
SUBJECTS = ("observationId", "traceId", "sessionId", "datasetRunId")  # names before version 3
SCORES = ("NUMERIC", "BOOLEAN")


def sniff(beginning: Beginning) -> FormatFit:
    """Return how well a file fits: a score with its type, source and subject."""
    record = beginning.record
    scores = record.get("data")
    if isinstance(scores, list) and scores and isinstance(scores[0], dict):
        record = scores[0]
    earlier = next((name for name in SUBJECTS if name in record), "subject.kind")
    subject = "subject.kind" if "subject" in record else earlier
    return needs(record, "dataType", "value", "source", "name", subject)


@dataclass(frozen=True, slots=True)
class People:
    """The people in a file: the answers they corrected or scored, and their scores' names."""

    corrected: set[str]
    scored: set[tuple[str, str]]  # subject of a score, and its author
    names_by_author: dict[str, set[str]]


def read(path: Path) -> Iterator[Row]:
    """Yield a row for each score; a correction sets `correct` of its answer to 0."""
    people = _people(path)
    for place, score in records(path, "data", ""):
        yield from _score(score, place, people)


def _people(path: Path) -> People:
    """Return the people in a file, who must be known before its rows can be made."""
    people = People(set(), set(), {})
    for place, score in records(path, "data", ""):
        if _is_correction(score):
            people.corrected.add(_subject(score, place))
        elif score.get("source") == "ANNOTATION" and score.get("dataType") in SCORES:
            people.scored.add((_subject(score, place), _author(score)))
            people.names_by_author.setdefault(_author(score), set()).add(str(score.get("name")))
    return people


def _is_correction(score: Record) -> bool:
    value = score.get("value")
    text = value if isinstance(value, str) else score.get("stringValue")
    return score.get("dataType") == "CORRECTION" and isinstance(text, str) and bool(text.strip())


def _subject(score: Record, place: str) -> str:
    return str(at_path(score, "subject.id") or first_of(score, SUBJECTS) or place)


def _author(score: Record) -> str:
    return str(score.get("authorUserId") or "person")


def _score(score: Record, place: str, people: People) -> Iterator[Row]:
    is_person = score.get("source") == "ANNOTATION"
    subject, author, name = _subject(score, place), _author(score), str(score.get("name"))
    has_many = len(people.names_by_author.get(author, ())) > 1
    common = {
        "session_id": subject,
        "query_id": at_path(score, "subject.traceId") or score.get("traceId") or subject,
        "candidate": str(
            first_of(object_at(score, "metadata"), MODEL) or score.get("environment") or "default"
        ),
        "at": score.get("timestamp"),
        "correct": 0.0 if subject in people.corrected else None,
    }
    if _is_correction(score):
        if (subject, author) not in people.scored:
            yield {**common, "reviewer": author, "person": 1, "score": 0.0}
    elif score.get("dataType") in SCORES:
        reviewer = name if not is_person else f"{author}: {name}" if has_many else author
        value = as_score(score.get("value"))
        yield {**common, "reviewer": reviewer, "person": int(is_person), "score": value}


formats.register("langfuse")(
    Format(
        "langfuse",
        "scores of Langfuse",
        "reviews",
        sniff,
        read,
        FIELDS,
        grades_alone=True,
        advice=ADVICE,
    )
)
