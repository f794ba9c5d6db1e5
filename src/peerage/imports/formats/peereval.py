"""Judgements of PeerEval: every model compares every pair of anonymous answers, in both orders."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from peerage.imports.foreign_records import Beginning, Record, at_path, records
from peerage.imports.formats import (
    Format,
    FormatFit,
    Row,
    formats,
    name_of,
    needs,
    pair_rows,
    winner_of,
)

FIELDS = {
    "dataset, question_id": "the category and the query",
    "response_a_model, response_b_model": "the candidates in the order in which they were shown",
    "solver_left, solver_right, position": "the candidates and their order, if the two fields "
    "above are missing",
    "judge_model": "the reviewer",
    "judgment.winner": "A, B or tie, in the order shown",
    "error": "a record with an error, or without a winner, is an abstention",
    "timestamp": "the time",
}
ADVICE = (
    "Both orders of a pair are two rounds, so position bias and consistency can be measured. "
    "Answers and scores are not in the file, so bias by length and style, and calibration, "
    "cannot be measured."
)
WINNERS = {"A": "first", "B": "second", "tie": "tie", "None": None, "": None}


def sniff(beginning: Beginning) -> FormatFit:
    """Return how well a file fits: a judge, and the models of a pair."""
    return needs(beginning.record, "question_id", "judge_model", "judgment", "solver_left")


def read(path: Path) -> Iterator[Row]:
    """Yield the two rows of each verdict; the two orders of a pair are two rounds."""
    for place, record in records(path, ""):
        first, second = _shown(record, path, place)
        left, right = sorted((first, second))
        query = f"{record.get('dataset') or 'default'}/{record.get('question_id')}"
        common = {
            "session_id": f"{query}: {left} / {right}",
            "reviewer": name_of(record.get("judge_model"), path, place, "judge_model"),
            "query_id": query,
            "category": record.get("dataset"),
            "round": int(first != left),
            "at": record.get("timestamp"),
        }
        word = at_path(record, "judgment.winner") or record.get("winner")
        word = None if record.get("error") else word
        winner = winner_of(word, WINNERS, path, place)
        yield from pair_rows(common, first, second, winner, position=(0, 1))


def _shown(record: Record, path: Path, place: str) -> tuple[str, str]:
    """Return the two models in the order in which the judge saw them."""
    names = ("response_a_model", "response_b_model")
    if not all(record.get(name) for name in names):
        names = ("solver_left", "solver_right")
        if record.get("position") == "BA":
            names = names[::-1]
    first, second = (name_of(record.get(name), path, place, name) for name in names)
    return first, second


formats.register("peereval")(
    Format("peereval", "judgements of PeerEval", "reviews", sniff, read, FIELDS, advice=ADVICE)
)
