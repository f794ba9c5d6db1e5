"""Fences around text that is judged, so that nothing inside can pass for what is outside."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from peerage.errors import InputError
from peerage.types import Slot


def heading(label: str) -> str:
    """The name a reviewer knows an answer by: "Response A"."""
    return f"Response {label}"


def boundary(seed: str, session_id: str, reviewer: str, round: int) -> str:
    """The code that marks the fences of one ballot: 16 hexadecimal digits.

    It follows from the session's seed, which no one who answers has seen, so it cannot
    be guessed in an answer, and a replay draws the same one.
    """
    key = json.dumps(["fence", seed, session_id, reviewer, round], ensure_ascii=True)
    return hashlib.sha256(key.encode()).hexdigest()[:16]


def clear_of(boundary: str, texts: Iterable[str]) -> str:
    """The boundary, made longer until none of the texts contains it.

    A chance meeting is beyond likelihood, but a reviewer's remark may quote the code it
    was given. A code longer than every text is in none of them, so this ends.
    """
    if not boundary:
        raise InputError("a fence needs a boundary.", hint="Take one from boundary().")
    texts = tuple(texts)
    while any(boundary in text for text in texts):
        boundary += hashlib.sha256(boundary.encode()).hexdigest()[:16]
    return boundary


def enclose(title: str, text: str, boundary: str) -> str:
    """A text between two lines that carry the boundary, itself untouched."""
    if boundary in text:
        raise InputError(
            f"the text of {title} contains the boundary of its own fence.",
            hint="Lengthen the boundary with clear_of().",
        )
    return f"[BEGIN {title} {boundary}]\n{text}\n[END {title} {boundary}]"


def text_of(slot: Slot) -> str:
    """The text of an answer; one whose text is not known cannot be shown to anyone."""
    if slot.text is None:
        raise InputError(
            f"the text of {heading(slot.label)} is not known, so it cannot be reviewed.",
            hint="Imported ballots can be scored, but only answers with a text can be shown.",
        )
    return slot.text


def fence(slot: Slot, boundary: str) -> str:
    """An answer under its label, inside a fence that its text cannot imitate."""
    return enclose(heading(slot.label), text_of(slot), boundary)
