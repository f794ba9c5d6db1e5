"""Assessments of MLflow: feedback of judges, code and people on traces."""

from __future__ import annotations

from collections.abc import Collection, Iterator
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
    "info.trace_id, request_time": "the session and the time; an assessment of a span, by its "
    "`span_id`, is a session of its own",
    "info.assessments[].source.source_type, source_id": "the reviewer; HUMAN is a person",
    "info.assessments[].assessment_name": "the name, in front of the judge's; behind a person's, "
    "if the person gives assessments of several names",
    "info.assessments[].feedback.value": "the score: a number, a truth value, yes or no",
    "info.assessments[].feedback.error": "an error is an abstention",
    "info.assessments[].overrides": "a person's assessment that overrides another one is used as "
    "the correct one",
    "info.tags, info.trace_metadata": "the candidate: model, mlflow.modelId or the trace's name",
}
ADVICE = (
    "Tag each trace with its `model`. Let two judges or more assess the same traces, and "
    "override each wrong assessment: your value is then used as the correct one."
)
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
    names_by_person: dict[str, set[str]] = {}
    for _, record in records(path, "traces", ""):
        for one in _feedback(record):
            if _is_person(one):
                names_by_person.setdefault(_source(one) or "", set()).add(_name(one))
    has_many = {person for person, names in names_by_person.items() if len(names) > 1}
    for place, record in records(path, "traces", ""):
        yield from _trace(record, place, has_many)


def _assessments(record: Record) -> Any:
    return first_of(record, ("assessments",)) or at_path(record, "info.assessments")


def _feedback(record: Record) -> list[Record]:
    """Return the assessments of a trace that judge it, which expectations do not."""
    given = _assessments(record)
    return [
        one
        for one in (given if isinstance(given, list) else [record])
        if isinstance(one, dict)
        and (one.get("expectation") is None or one.get("feedback") is not None)
    ]


def _is_person(assessment: Record) -> bool:
    return bool(at_path(assessment, "source.source_type") == "HUMAN")


def _source(assessment: Record) -> str | None:
    source = at_path(assessment, "source.source_id")
    return str(source) if source else None


def _name(assessment: Record) -> str:
    return str(first_of(assessment, ("assessment_name", "name")) or "assessment")


def _reviewer(assessment: Record, has_many: Collection[str]) -> str:
    """Return the reviewer: the assessment's name with its judge, or a person."""
    source, name = _source(assessment), _name(assessment)
    if _is_person(assessment):
        person = source or "person"
        return f"{person}: {name}" if (source or "") in has_many else person
    return f"{name} by {source}" if source else name


def _trace(record: Record, place: str, has_many: Collection[str]) -> Iterator[Row]:
    info = object_at(record, "info") or record
    about = {**object_at(info, "trace_metadata"), **object_at(info, "tags")}
    given = _feedback(record)
    later_by_id = {one["overrides"]: one for one in given if one.get("overrides")}
    for one in given:
        later = later_by_id.get(one.get("assessment_id"))
        reviewer = _reviewer(one, has_many)
        if later is not None and _reviewer(later, has_many) == reviewer:
            continue  # replaced by the reviewer's later assessment
        id_ = first_of(info, ("trace_id", "request_id")) or one.get("trace_id") or place
        overrides = one if one.get("overrides") else later
        yield {
            "session_id": f"{id_} {one['span_id']}" if one.get("span_id") else str(id_),
            "candidate": str(first_of(about, MODEL) or "default"),
            "reviewer": reviewer,
            "person": int(_is_person(one)),
            "score": _score(one),
            "correct": _score(overrides) if overrides and _is_person(overrides) else None,
            "at": first_of(one, ("create_time", "last_update_time")) or info.get("request_time"),
        }


def _score(assessment: Record) -> float | None:
    """Return the value of an assessment as a number, or None for an error or other text."""
    feedback = assessment.get("feedback")
    value = feedback.get("value") if isinstance(feedback, dict) else assessment.get("value")
    if at_path(feedback, "error") or assessment.get("error"):
        return None
    return WORDS.get(value.strip().lower()) if isinstance(value, str) else as_score(value)


formats.register("mlflow")(
    Format(
        "mlflow",
        "assessments of MLflow",
        "reviews",
        sniff,
        read,
        FIELDS,
        grades_alone=True,
        advice=ADVICE,
    )
)
