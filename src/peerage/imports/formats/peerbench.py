"""Exports of PeerBench: opinions of people on prompts, the prompts, and the people."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from peerage.imports.foreign_records import Beginning, rows_or_records
from peerage.imports.formats import Format, FormatFit, Row, formats, needs

OPINIONS = {"user_id": "the reviewer", "prompt_id": "the item", "opinion": "positive or negative"}
ITEMS = {"id": "the item", "creator_id": "its contributor", "question": "unchanged"}
USERS = {"id": "the person", "has_affiliation": "whether the person is affiliated"}
ADVICE = "Import the prompts as well: boards of people need the contributor of each item."
TRUE = ("1", "true", "t", "yes")


def _sniff_opinions(beginning: Beginning) -> FormatFit:
    return needs(beginning.record, *OPINIONS)


def _sniff_items(beginning: Beginning) -> FormatFit:
    return needs(beginning.record, *ITEMS)


def _sniff_users(beginning: Beginning) -> FormatFit:
    return needs(beginning.record, *USERS)


def _records(path: Path) -> Iterator[Row]:
    return (record for _, record in rows_or_records(path, ""))


def _read_opinions(path: Path) -> Iterator[Row]:
    for record in _records(path):
        yield {
            "item_id": str(record["prompt_id"]),
            "reviewer": str(record["user_id"]),
            "opinion": record["opinion"],
            "at": record.get("created_at"),
        }


def _read_items(path: Path) -> Iterator[Row]:
    for record in _records(path):
        yield {"item_id": str(record["id"]), "contributor": str(record["creator_id"])}


def _read_users(path: Path) -> Iterator[Row]:
    for record in _records(path):
        is_affiliated = str(record["has_affiliation"]).strip().lower() in TRUE
        yield {"user_id": str(record["id"]), "affiliated": "true" if is_affiliated else "false"}


formats.register("peerbench-reviews")(
    Format(
        "peerbench-reviews",
        "opinions of PeerBench",
        "opinions",
        _sniff_opinions,
        _read_opinions,
        OPINIONS,
        advice=ADVICE,
    )
)
formats.register("peerbench-prompts")(
    Format("peerbench-prompts", "prompts of PeerBench", "items", _sniff_items, _read_items, ITEMS)
)
formats.register("peerbench-users")(
    Format("peerbench-users", "people of PeerBench", "users", _sniff_users, _read_users, USERS)
)
