"""Assessments of MLflow: feedback of judges, code and people on traces."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from peerage.imports.foreign_records import (
    Beginning,
    Record,
    as_score,
    at_path,
    first_of,
    object_at,
    records,
)
from peerage.imports.formats import Format, FormatFit, Row, formats

FIELDS = {
    "info.trace_id, request_time": "the session and the time",
    "info.assessments[].source.source_type, source_id": "the reviewer; HUMAN is a person",
    "info.assessments[].assessment_name": "the name, in front of the judge's",
    "info.assessments[].feedback.value": "the score: a number, a truth value, yes or no",
    "info.assessments[].feedback.error": "an error is an abstention",
    "info.assessments[].overrides": "an assessment that overrides another one is gold",
    "info.tags, info.trace_metadata": "the candidate: model, mlflow.modelId or the trace's name",
}
WORDS = {"yes": 1.0, "no": 0.0, "true": 1.0, "false": 0.0, "pass": 1.0, "fail": 0.0}
MODEL = ("model", "candidate", "model_name", "mlflow.modelId", "mlflow.traceName")


def sniff(beginning: Beginning) -> FormatFit:
    """Return how well a file fits: traces with assessments."""
    record = beginning.record
    traces = record.get("traces")
    if isinstance(traces, list) and traces and isinstance(traces[0], dict):
        record = traces[0]
    if isinstance(_assessments(record), list):
        return FormatFit(3)
    has = "assessment_name" in record and "source" in record
    return FormatFit(3) if has else FormatFit(0, ("info.assessments", "info.trace_id"))


def read(path: Path) -> Iterator[Row]:
    """Yield a row for each assessment with a value; expectations are not judgements."""
    for place, record in records(path, "traces", ""):
        given = _assessments(record)
        yield from _trace(record, given if isinstance(given, list) else [record], place)


def _assessments(record: Record) -> Any:
    return first_of(record, ("assessments",)) or at_path(record, "info.assessments")


def _trace(record: Record, assessments: list[Any], place: str) -> Iterator[Row]:
    info = object_at(record, "info") or record
    about = {**object_at(info, "trace_metadata"), **object_at(info, "tags")}
    given = [one for one in assessments if isinstance(one, dict)]
    gold = {one["overrides"]: _score(one) for one in given if one.get("overrides")}
    for one in given:
        if one.get("expectation") is not None and one.get("feedback") is None:
            continue
        is_person = at_path(one, "source.source_type") == "HUMAN"
        judge = at_path(one, "source.source_id")
        name = str(one.get("assessment_name") or one.get("name") or "assessment")
        yield {
            "session_id": str(
                info.get("trace_id") or info.get("request_id") or one.get("trace_id") or place
            ),
            "candidate": str(first_of(about, MODEL) or "default"),
            "reviewer": str(judge or "person")
            if is_person
            else f"{name} by {judge}"
            if judge
            else name,
            "person": int(is_person),
            "score": _score(one),
            "correct": gold.get(one.get("assessment_id"))
            if not one.get("overrides")
            else _score(one),
            "at": one.get("create_time") or info.get("request_time"),
        }


def _score(assessment: Record) -> float | None:
    """Return the value of an assessment as a number; None for an error or another text."""
    feedback = assessment.get("feedback")
    value = feedback.get("value") if isinstance(feedback, dict) else assessment.get("value")
    if at_path(feedback, "error") or assessment.get("error"):
        return None
    return WORDS.get(value.strip().lower()) if isinstance(value, str) else as_score(value)


formats.register("mlflow")(
    Format("mlflow", "assessments of MLflow", "reviews", sniff, read, FIELDS)
)
