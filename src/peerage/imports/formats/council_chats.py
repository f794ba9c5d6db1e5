"""Conversations of a three-stage council: answers, rankings of them, and a final answer.

Every reviewer sees the answers in the order of the first stage: label A is the first answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from peerage.council.ballots import review_of
from peerage.council.blinding import label
from peerage.council.readings import read_foreign
from peerage.imports.foreign_records import Beginning, Record, count_words, document
from peerage.imports.formats import Format, FormatFit, Row, formats, needs, never
from peerage.types import Ballot, Review, Slot

FIELDS = {
    "messages[].content": "the question: the last message of the user before the answers",
    "messages[].stage1[].model, response": "the candidates, their words and texts",
    "messages[].stage2[].model": "the reviewer",
    "messages[].stage2[].parsed_ranking": "ranks; Response A is the first answer of stage1",
    "messages[].stage2[].ranking": "the reviewer's text, used only without parsed_ranking",
    "id, created_at": "the session's id and time",
}
ADVICE = (
    "Shuffle the answers for each reviewer: if all reviewers see one order, the effects of "
    "position and model cannot be separated. A second round would show consistency."
)


def sniff(beginning: Beginning) -> FormatFit:
    """Return how well a file fits: a conversation, or one turn of it, with its stages."""
    if beginning.container not in ("json", "jsonl"):
        return never("a JSON document")
    return FormatFit(3) if _turns(beginning.record) else needs(beginning.record, "stage1", "stage2")


def read(path: Path) -> Iterator[Row]:
    """Yield the reviews of every turn in which a council answered."""
    value = document(path)
    for n, conversation in enumerate(value if isinstance(value, list) else [value], 1):
        if isinstance(conversation, dict):
            yield from _conversation(conversation, f"{path.stem}#{n}")


def _turns(record: Record) -> list[Mapping[str, Any]]:
    """Return the turns of a conversation in which a council answered."""
    messages = record.get("messages", [record])
    turns = [one for one in messages if isinstance(one, dict)] if isinstance(messages, list) else []
    return [one for one in turns if isinstance(one.get("stage1"), list) and "stage2" in one]


def _conversation(record: Record, default_id: str) -> Iterator[Row]:
    id_ = str(record.get("id") or record.get("session_id") or default_id)
    question = str(record.get("question_id") or record.get("query") or "")
    turns = _turns(record)
    for message in record.get("messages", [record]):
        if not isinstance(message, dict):
            continue
        if message.get("role") == "user":
            question = str(message.get("content") or "")
        elif any(message is turn for turn in turns):
            n = next(i for i, turn in enumerate(turns, 1) if turn is message)
            digest = hashlib.sha256(question.encode("utf-8", "replace")).hexdigest()[:16]
            common = {
                "session_id": id_ if len(turns) == 1 else f"{id_}#{n}",
                "query_id": digest if question else None,
                "category": record.get("benchmark"),
                "at": record.get("created_at") or record.get("timestamp"),
            }
            yield from _turn(common, message)


def _turn(common: Row, message: Mapping[str, Any]) -> Iterator[Row]:
    answers = [one for one in message["stage1"] if isinstance(one, dict) and one.get("model")]
    names = _distinct([str(one["model"]) for one in answers])
    for given in message["stage2"] or ():
        if not isinstance(given, dict) or not given.get("model"):
            continue
        review = _review(given, names)
        rank_by_label = {one: rank for rank, tied in _places(review) for one in tied}
        for place, (name, answer) in enumerate(zip(names, answers, strict=True)):
            yield {
                **common,
                "reviewer": review.reviewer,
                "candidate": name,
                "rank": rank_by_label.get(label(place)),
                "position": place,
                "words": count_words(answer.get("response")),
                "text": answer.get("response"),
            }


def _places(review: Review) -> Iterator[tuple[float, tuple[str, ...]]]:
    """Yield each tier of a ranking with its rank; a tie takes as many ranks as it has labels."""
    rank = 1
    for tier in () if review.abstained else review.ranking:
        yield float(rank), tier
        rank += len(tier)


def _distinct(names: list[str]) -> list[str]:
    """Return the names, with a number added to repeated ones."""
    return [
        name if names.index(name) == i else f"{name} #{names[: i + 1].count(name)}"
        for i, name in enumerate(names)
    ]


def _review(given: Mapping[str, Any], names: list[str]) -> Review:
    """Return a review, from its list of labels or else from the reviewer's text."""
    slots = tuple(Slot(label(i), name) for i, name in enumerate(names))
    ballot = Ballot(str(given["model"]), slots)
    labels = given.get("parsed_ranking")
    if labels and isinstance(labels, list | dict):
        return review_of(labels, ballot)
    return read_foreign(given.get("ranking") or given.get("text") or given.get("response"), ballot)


formats.register("council")(
    Format(
        "council",
        "conversations of a three-stage council",
        "reviews",
        sniff,
        read,
        FIELDS,
        advice=ADVICE,
    )
)
