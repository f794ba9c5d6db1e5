"""The first and the last event of a session, with as little in them as there can be."""

from typing import Any

from peerage.types import Event


def opened(session_id: str, **changes: Any) -> Event:
    body = {
        "query": {"text": "q", "id": "", "category": ""},
        "seed": "7",
        "ordinal": 0,
        "season": "",
        "seats": [],
        "law": {"rubric": None, "order": "balanced"},
    }
    return Event(session_id, 0, "opened", 0.0, {**body, **changes})


def finished(session_id: str, seq: int) -> Event:
    return Event(session_id, seq, "finished", 9.0, {"status": "done", "cost_usd": None})
