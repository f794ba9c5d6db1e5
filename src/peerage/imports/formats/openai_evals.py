"""Output items of OpenAI's evals: samples of a run with the results of its graders."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from peerage.imports.foreign_records import (
    Beginning,
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
}
ADVICE = (
    "A run has one model: read the items of several runs together. Two graders or more on"
    " the same items show agreement."
)
ID = re.compile(r"-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")  # behind a grader's name


def sniff(beginning: Beginning) -> FormatFit:
    """Return how well a file fits: items with a datasource item, results and a sample."""
    record = beginning.record
    items = record.get("data")
    if isinstance(items, list) and items and isinstance(items[0], dict):
        record = items[0]
    return needs(record, "datasource_item_id", "results", "sample.model")


def read(path: Path) -> Iterator[Row]:
    """Yield a row for each grader of each item."""
    for place, item in records(path, "data", ""):
        sample = object_at(item, "sample")
        text = _text(sample.get("output"))
        query = f"{item.get('eval_id') or 'eval'}: {item.get('datasource_item_id', place)}"
        error = at_path(sample, "error.message") or at_path(sample, "error.code")
        for result in item.get("results") or []:
            if isinstance(result, dict):
                score = as_score(result.get("score"))
                yield {
                    "session_id": query,
                    "query_id": query,
                    "candidate": str(sample.get("model") or "model"),
                    "reviewer": ID.sub("", str(result.get("name") or "grader")),
                    "score": None
                    if error
                    else as_score(result.get("passed"))
                    if score is None
                    else score,
                    "words": count_words(text),
                    "text": text,
                    "at": item.get("created_at"),
                }


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
        advice=ADVICE,
    )
)
