"""Gradebooks: one line of JSON for each grade that a grader gave a solution of a task."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from peerage.plugins import Beginning, Format, FormatFit, Row, name_of, needs, records


def sniff(beginning: Beginning) -> FormatFit:
    """Return how well a file fits: the fields of its first line."""
    return needs(beginning.record, "task", "grader", "solver", "grade")


def read(path: Path) -> Iterator[Row]:
    """Yield one review for each grade; a line without a grade is an abstention."""
    for place, record in records(path):
        yield {
            "session_id": name_of(record.get("task"), path, place, "task"),
            "reviewer": name_of(record.get("grader"), path, place, "grader"),
            "candidate": name_of(record.get("solver"), path, place, "solver"),
            "score": record.get("grade"),
        }


GRADEBOOK = Format("gradebook", "a gradebook", "reviews", sniff, read)
