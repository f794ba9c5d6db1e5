"""Test runs of DeepEval: test cases with the scores of its metrics."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from peerage.imports.foreign_records import (
    Beginning,
    Record,
    as_score,
    at_path,
    count_words,
    first_of,
    look_at,
    records,
)
from peerage.imports.formats import Format, FormatFit, Row, formats

FIELDS = {
    "testCases[].input": "the query",
    "testCases[].actualOutput": "the words and the text of the answer",
    "testCases[].metricsData[].name, evaluationModel": "the reviewer",
    "testCases[].metricsData[].score": "the score; with an error it is an abstention",
    "hyperparameters.model": "the candidate; if it is missing, the name of the file",
}
ADVICE = (
    'A run has one model: name it with `hyperparameters={"model": …}`, and read the runs '
    "of several models together. The same metric with two judges shows agreement."
)
PLACES = ("testCases", "test_cases", "test_results", "testRunData.testCases")
METRICS = ("metricsData", "metrics_data")


def sniff(beginning: Beginning) -> FormatFit:
    """Return how well a file fits: test cases with metrics."""
    record = beginning.record
    place = next((one for one in PLACES if at_path(record, one) is not None), None)
    if place is None:
        return FormatFit(0, ("testCases", "metricsData"))
    cases = at_path(record, place)
    first = cases[0] if isinstance(cases, list) and cases and isinstance(cases[0], dict) else {}
    has = any(name in first for name in METRICS)
    return FormatFit(3) if has or not first else FormatFit(1, ("metricsData",))


def read(path: Path) -> Iterator[Row]:
    """Yield a row for each metric of each test case."""
    record = look_at(path).record
    model = _model(record) or path.stem
    for place, case in records(path, *PLACES):
        yield from _case(case, place, model)


def _model(record: Record) -> str | None:
    """Return the model that a run names in its hyperparameters."""
    given = record.get("hyperparameters") or at_path(record, "testRunData.hyperparameters")
    name = first_of(given, ("model", "Model", "model_name")) if isinstance(given, dict) else None
    return str(name) if isinstance(name, str) else None


def _case(case: Record, place: str, model: str) -> Iterator[Row]:
    question = str(case.get("input") or case.get("name") or place)
    query = hashlib.sha256(question.encode("utf-8", "replace")).hexdigest()[:16]
    answer = first_of(case, ("actualOutput", "actual_output"))
    metrics: Any = first_of(case, METRICS) or []
    for metric in metrics:
        if not isinstance(metric, dict):
            continue
        judge = first_of(metric, ("evaluationModel", "evaluation_model"))
        name = str(metric.get("name") or "metric")
        yield {
            "session_id": query,
            "query_id": query,
            "candidate": model,
            "reviewer": f"{name} by {judge}" if judge else name,
            "score": None if metric.get("error") else as_score(metric.get("score")),
            "words": count_words(answer),
            "text": answer if isinstance(answer, str) else None,
        }


formats.register("deepeval")(
    Format(
        "deepeval",
        "test runs of DeepEval",
        "reviews",
        sniff,
        read,
        FIELDS,
        grades_alone=True,
        advice=ADVICE,
    )
)
