"""Feedback of Open WebUI: thumbs, and arena votes between answers to one message."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from peerage.imports.foreign_records import Beginning, Record, at_path, object_at, rows_or_records
from peerage.imports.formats import Format, FormatFit, Row, formats, needs, pair_rows

FIELDS = {
    "data.rating": "1 or -1, as a number or a text: the answer won or lost, or a thumb",
    "data.model_id": "the candidate that was rated",
    "data.sibling_model_ids": "its rivals: one comparison with each",
    "data.details.rating": "the score from 1 to 10, where the user gave one",
    "user_id": "the reviewer, a person",
    "meta.chat_id, meta.message_id": "the query",
    "created_at": "the time",
}
NESTED = ("data", "meta", "snapshot", "user")


def sniff(beginning: Beginning) -> FormatFit:
    """Return how well a file fits: entries of feedback with a rating and a model."""
    return needs(_entry(beginning.record), "data.rating", "data.model_id", "user_id", "type")


def read(path: Path) -> Iterator[Row]:
    """Yield a comparison with each rival, or one score where an answer had no rival."""
    for place, record in rows_or_records(path, ""):
        yield from _rows(_entry(record), place)


def _entry(record: Record) -> dict[str, Any]:
    """Return an entry with its nested parts, which a CSV file has as JSON or as dotted columns."""
    entry: dict[str, Any] = {}
    for key, value in record.items():
        head, dot, rest = key.partition(".")
        if head in NESTED and dot:
            part = entry.setdefault(head, {})
            for name in rest.split(".")[:-1]:
                part = part.setdefault(name, {})
            part[rest.rpartition(".")[2]] = value
        elif key in NESTED and isinstance(value, str):
            entry[key] = _json(value)
        else:
            entry[key] = value
    return entry


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _rows(entry: Mapping[str, Any], place: str) -> Iterator[Row]:
    data = object_at(entry, "data")
    rating = {"1": 1, "1.0": 1, "-1": -1, "-1.0": -1}.get(str(data.get("rating")).strip())
    model = data.get("model_id")
    if not model:
        return
    rivals = data.get("sibling_model_ids") or []
    rivals = _json(rivals) if isinstance(rivals, str) else rivals
    id_ = str(entry.get("id") or place)
    common = {
        "reviewer": str(entry.get("user_id") or "user"),
        "person": 1,
        "query_id": at_path(entry, "meta.message_id") or at_path(entry, "meta.chat_id"),
        "at": entry.get("created_at"),
    }
    winner = {1: "first", -1: "second", None: None}[rating]
    for rival in rivals if isinstance(rivals, list) else []:
        if rival and rival != model:
            session = {"session_id": f"{id_}: {rival}", **common}
            yield from pair_rows(session, str(model), str(rival), winner)
    if not rivals:
        details = at_path(data, "details.rating")
        score = float(details) if str(details or "").replace(".", "", 1).isdigit() else rating
        yield {"session_id": id_, **common, "candidate": str(model), "score": score}


formats.register("open-webui")(
    Format("open-webui", "feedback of Open WebUI", "reviews", sniff, read, FIELDS)
)
