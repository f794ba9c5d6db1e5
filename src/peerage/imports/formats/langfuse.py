"""Scores of Langfuse, version 3 of its API: typed values on traces and observations."""

from __future__ import annotations

from collections.abc import Iterator
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
    "data[].subject.kind, id": "the session: a trace, observation, session or experiment",
    "data[].name": "the reviewer, unless a person gave the score",
    "data[].source, authorUserId": "ANNOTATION is a person, by the author's id",
    "data[].dataType, value": "NUMERIC and BOOLEAN are scores; TEXT and CATEGORICAL are left out",
    "data[].dataType CORRECTION": "gold: a correction that is not empty says that the answer was "
    "not correct",
    "data[].metadata.model": "the candidate; the environment where there is none",
    "data[].timestamp": "the time",
}
MODEL = ("model", "candidate", "model_name", "modelName")


def sniff(beginning: Beginning) -> FormatFit:
    """Return how well a file fits: a score with its type, source and subject."""
    record = beginning.record
    scores = record.get("data")
    if isinstance(scores, list) and scores and isinstance(scores[0], dict):
        record = scores[0]
    return needs(record, "dataType", "value", "source", "subject.kind")


def read(path: Path) -> Iterator[Row]:
    """Yield a row for each number; corrections set `correct` of the answer they are about."""
    for place, score in records(path, "data", ""):
        yield from _score(score, place)


def _score(score: Record, place: str) -> Iterator[Row]:
    kind, value = score.get("dataType"), score.get("value")
    is_person = score.get("source") == "ANNOTATION"
    metadata = object_at(score, "metadata")
    subject = str(at_path(score, "subject.id") or place)
    common = {
        "session_id": subject,
        "query_id": at_path(score, "subject.traceId") or subject,
        "candidate": str(first_of(metadata, MODEL) or score.get("environment") or "default"),
        "reviewer": str(score.get("authorUserId") or "person")
        if is_person
        else str(score.get("name")),
        "person": int(is_person),
        "at": score.get("timestamp"),
    }
    if kind == "CORRECTION":
        if isinstance(value, str) and value.strip():
            yield {**common, "score": 0.0, "correct": 0.0}
    elif kind in ("NUMERIC", "BOOLEAN"):
        yield {**common, "score": as_score(value)}


formats.register("langfuse")(
    Format("langfuse", "scores of Langfuse", "reviews", sniff, read, FIELDS)
)
