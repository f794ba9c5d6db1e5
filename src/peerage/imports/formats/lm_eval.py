"""Samples of the LM Evaluation Harness: one line per document, with its metrics."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from peerage.imports.foreign_records import Beginning, as_score, count_words, records
from peerage.imports.formats import Format, FormatFit, Row, formats, needs

FIELDS = {
    "doc_id, doc_hash": "the query",
    "metrics": "the names of the metrics, one reviewer each; without it, all numbers are metrics",
    "filter": "the filter, in the reviewer's name",
    "resps or filtered_resps": "the words and the text",
    "the file's name": "the category: samples_TASK_TIME.jsonl",
    "the folder's name": "the candidate: a model, with __ for /",
}
ADVICE = (
    "A file has one model, named by its folder: keep the folders of `--log_samples`, and "
    "read the files of several models together. Metrics are computed and not judged."
)
FILE = re.compile(r"samples_(?P<task>.+?)(?:_\d{4}-\d\d-\d\dT[\d.:-]+)?")
NOT_METRICS = ("doc_id", "target")  # fields that may be numbers but are not metrics
CORRECT = ("acc", "exact_match", "acc_norm")  # metrics that compare with the right answer


def sniff(beginning: Beginning) -> FormatFit:
    """Return how well a file fits: a document, and its responses before and after a filter."""
    return needs(beginning.record, "doc_id", "doc", "resps", "filtered_resps")


def read(path: Path) -> Iterator[Row]:
    """Yield a row for each metric of each document."""
    match = FILE.fullmatch(path.stem)
    task = match["task"] if match else path.stem
    model = path.resolve().parent.name.replace("__", "/") if match else path.stem
    for _, record in records(path, ""):
        names = record.get("metrics")
        response = _text(record.get("filtered_resps")) or _text(record.get("resps"))
        filter_ = str(record.get("filter") or "none")
        for name in names if isinstance(names, list) else _numbers(record):
            score = as_score(record.get(name))
            yield {
                "session_id": f"{task}: {record['doc_id']}",
                "query_id": str(record.get("doc_hash") or f"{task}: {record['doc_id']}"),
                "candidate": model,
                "reviewer": str(name) if filter_ == "none" else f"{name} ({filter_})",
                "score": score,
                "correct": score if str(name) in CORRECT else None,
                "category": task,
                "words": count_words(response),
                "text": response,
            }


def _numbers(record: object) -> list[str]:
    """Return the numeric fields, which are metrics in files of early versions."""
    values = record if isinstance(record, dict) else {}
    return [
        name
        for name, one in values.items()
        if name not in NOT_METRICS and as_score(one) is not None
    ]


def _text(responses: object) -> str | None:
    """Return the first text in nested lists of responses."""
    while isinstance(responses, list) and responses:
        responses = responses[0]
    return responses if isinstance(responses, str) else None


formats.register("lm-eval")(
    Format(
        "lm-eval",
        "samples of the LM Evaluation Harness",
        "reviews",
        sniff,
        read,
        FIELDS,
        grades_alone=True,
        advice=ADVICE,
    )
)
