"""Output items of OpenAI's evals: samples of a run with the results of its graders."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from peerage.imports.foreign_records import (
    Beginning,
    Record,
    as_score,
    at_path,
    count_words,
    object_at,
    records,
)
from peerage.imports.formats import Format, FormatFit, Row, formats, needs

FIELDS = {
    "eval_id, datasource_item_id": "the query",
    "sample.model": "the candidate",
    "sample.output[].content": "the words and the text",
    "results[].name": "the reviewer",
    "results[].score, passed": "the score, or 1 and 0 for passed and failed",
    "sample.error": "an error is an abstention",
    "created_at": "the time",
    "item, grades, passes": "of a file from the dashboard: the query by its content, and the "
    "score of each grader",
    "sample.sampled_model_name, outputs": "the candidate and its text; without a sample, `run_id` "
    "is the candidate",
}
ADVICE = (
    "A run has one model: read the items of several runs together. Two graders or more on"
    " the same items show agreement."
)
ID = re.compile(r"-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")  # follows a grader's name


def sniff(beginning: Beginning) -> FormatFit:
    """Return how well a file fits: items from the API, or from the dashboard."""
    record = beginning.record
    items = record.get("data")
    if isinstance(items, list) and items and isinstance(items[0], dict):
        record = items[0]
    if "grades" in record:
        return needs(record, "run_id", "item", "grades", "passes")
    return needs(record, "datasource_item_id", "results", "sample.model")


def read(path: Path) -> Iterator[Row]:
    """Yield a row for each grader of each item."""
    for place, item in records(path, "data", ""):
        yield from _from_dashboard(item) if "grades" in item else _from_api(item, place)


def _from_api(item: Record, place: str) -> Iterator[Row]:
    sample = object_at(item, "sample")
    query = f"{item.get('eval_id') or 'eval'}: {item.get('datasource_item_id', place)}"
    common = {
        "candidate": str(sample.get("model") or "model"),
        "at": item.get("created_at"),
        **_about(query, sample.get("output")),
    }
    for result in item.get("results") or []:
        if isinstance(result, dict):
            score = as_score(result.get("score"))
            score = as_score(result.get("passed")) if score is None else score
            grader = ID.sub("", str(result.get("name") or "grader"))
            yield {**common, "reviewer": grader, "score": None if _has_failed(sample) else score}


def _from_dashboard(item: Record) -> Iterator[Row]:
    """Yield the rows of a dashboard item, which has its grades by the names of the graders."""
    sample, passes = object_at(item, "sample"), object_at(item, "passes")
    grades = object_at(item, "grades")
    content = json.dumps(item.get("item"), sort_keys=True)
    query = f"item {hashlib.sha256(content.encode()).hexdigest()[:16]}"
    common = {
        "candidate": str(sample.get("sampled_model_name") or item.get("run_id") or "model"),
        **_about(query, sample.get("outputs")),
    }
    for grader in dict.fromkeys((*grades, *passes)):
        score = as_score(grades.get(grader))
        score = as_score(passes.get(grader)) if score is None else score
        yield {**common, "reviewer": grader, "score": None if _has_failed(sample) else score}


def _about(query: str, output: Any) -> dict[str, Any]:
    text = _text(output)
    return {"session_id": query, "query_id": query, "words": count_words(text), "text": text}


def _has_failed(sample: Record) -> bool:
    return bool(at_path(sample, "error.message") or at_path(sample, "error.code"))


def _text(output: Any) -> str | None:
    """Return the text of the last message of an output."""
    messages = [one for one in output if isinstance(one, dict)] if isinstance(output, list) else []
    content = messages[-1].get("content") if messages else None
    return content if isinstance(content, str) else None


formats.register("openai-evals")(
    Format(
        "openai-evals",
        "output items of OpenAI's evals",
        "reviews",
        sniff,
        read,
        FIELDS,
        grades_alone=True,
        advice=ADVICE,
    )
)
