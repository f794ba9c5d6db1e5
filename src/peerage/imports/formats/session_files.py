"""Ballots files, as llm-council writes them: sessions with labels, rankings and answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from peerage.imports.foreign_records import Beginning
from peerage.imports.formats import Format, FormatFit, Row, formats, needs

FIELDS = {
    "query, category": "the question",
    "responses[].model, response": "the candidates and their answers, as text or messages",
    "label_to_model": "the order in which the answers were shown",
    "rankings[].model": "the reviewer",
    "rankings[].parsed_ranking": "ranks, scores and marks by label; or `text`, the raw reply",
    "events": "in exports of Peerage: the whole log of a session",
}
ADVICE = (
    "Keep the answers (`responses`), and give scores next to ranks: length, style and "
    "calibration need them. A file has no times unless Peerage wrote it."
)


def sniff(beginning: Beginning) -> FormatFit:
    """Return how well a file fits: labels with rankings, or the events of an exported session."""
    if "events" in beginning.record and "session_id" in beginning.record:
        return FormatFit(3)
    return needs(beginning.record, "label_to_model", "rankings")


def read(path: Path) -> Iterator[Row]:
    """Yield the reviews of every session; reviews in a ballots file have no time."""
    from peerage.imports import session_rows  # here, because it imports the formats

    return session_rows(path)


formats.register("sessions")(
    Format(
        "sessions",
        "ballots files of llm-council and Peerage",
        "sessions",
        sniff,
        read,
        FIELDS,
        advice=ADVICE,
    )
)
