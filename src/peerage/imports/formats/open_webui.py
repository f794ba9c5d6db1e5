"""Feedback of Open WebUI: thumbs, and arena votes between answers to one message."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from peerage.errors import how_many
from peerage.imports.foreign_records import Beginning, Record, at_path, object_at, rows_or_records
from peerage.imports.formats import Format, FormatFit, Row, formats, needs, pair_rows

FIELDS = {
    "data.rating": "1 or -1, as a number or a text: the answer won or lost, or a thumb",
    "data.model_id": "the candidate that was rated",
    "data.sibling_model_ids": "its rivals: one comparison with each",
    "data.details.rating": "`mark_rating`, from 1 to 10, if the user gave one",
    "user_id": "the reviewer, a person",
    "meta.chat_id, meta.message_id": "the query",
    "created_at": "the time",
}
ADVICE = (
    "A thumb without `sibling_model_ids` compares nothing: use the arena, or several "
    "models in one chat. The order on the page is not in the file, so position bias "
    "cannot be measured."
)
BAD_UP_TO = 5  # ratings from 1 to 5 of 10 go with a thumb down
ARENA = "arena-model"  # stands for a model drawn at random
NESTED = ("data", "meta", "snapshot", "user")


def sniff(beginning: Beginning) -> FormatFit:
    """Return how well a file fits: entries of feedback with a rating and a model."""
    return needs(_entry(beginning.record), "data.rating", "data.model_id", "user_id", "type")


def read(path: Path) -> Iterator[Row]:
    """Yield a comparison with each rival, or one score if an answer had no rival."""
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


def _rating(data: Mapping[str, Any]) -> int | None:
    """Return 1 or -1 for a thumb; None for any other rating."""
    return {"1": 1, "1.0": 1, "-1": -1, "-1.0": -1}.get(str(data.get("rating")).strip())


def _details(data: Mapping[str, Any]) -> float | None:
    """Return the rating from 1 to 10, or None if it is missing or contradicts the thumb.

    Bad answers are rated from 1 to 5 and good ones from 6 to 10. Some versions keep the old rating
    when the thumb is changed, so the thumb is used.
    """
    details, thumb = at_path(data, "details.rating"), _rating(data)
    rating = float(details) if str(details or "").replace(".", "", 1).isdigit() else None
    if rating is None or thumb is None or (rating > BAD_UP_TO) == (thumb > 0):
        return rating
    return None


def _rows(entry: Mapping[str, Any], place: str) -> Iterator[Row]:
    data = object_at(entry, "data")
    rating, model = _rating(data), data.get("model_id")
    if not model:
        return
    rivals = data.get("sibling_model_ids") or []
    rivals = _json(rivals) if isinstance(rivals, str) else rivals
    rivals = [one for one in rivals if one and one != model] if isinstance(rivals, list) else []
    id_ = str(entry.get("id") or place)
    common = {
        "reviewer": str(entry.get("user_id") or "user"),
        "person": 1,
        "query_id": at_path(entry, "meta.message_id") or at_path(entry, "meta.chat_id"),
        "at": entry.get("created_at"),
    }
    winner = {1: "first", -1: "second", None: None}[rating]
    for rival in dict.fromkeys(map(str, rivals)):
        session = {"session_id": f"{id_}: {rival}", **common}
        yield from pair_rows(session, str(model), rival, winner)
    if not rivals:
        mark = {"mark_rating": _details(data)}
        yield {"session_id": id_, **common, "candidate": str(model), "score": rating, **mark}


def warn(path: Path) -> list[str]:
    """Return sentences on known defects of some versions, with the number of entries affected."""
    n_arena = n_thumbs = 0
    for _, record in rows_or_records(path, ""):
        data = object_at(_entry(record), "data")
        n_arena += str(data.get("model_id")).startswith(ARENA)
        n_thumbs += at_path(data, "details.rating") not in (None, "") and _details(data) is None
    warnings = []
    if n_arena:
        entries = how_many(n_arena, "entry", "entries")
        warnings.append(
            f"{entries} of the arena: the file does not name the model that answered (reported for "
            "versions 0.3.35 and 0.6.22), so the rating counts for `arena-model`."
        )
    if n_thumbs:
        entries = how_many(n_thumbs, "entry", "entries")
        warnings.append(
            f"{entries}: the rating from 1 to 10 contradicts the thumb. Open WebUI keeps the old "
            "rating when a thumb is changed (reported in September 2026), so the thumb is used."
        )
    return warnings


formats.register("open-webui")(
    Format(
        "open-webui",
        "feedback of Open WebUI",
        "reviews",
        sniff,
        read,
        FIELDS,
        warn=warn,
        advice=ADVICE,
    )
)
