"""Quotes of dissenters: reviewers whose ranking differs from the result, and their reasons."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations

from peerage.council.counting import tier_by_author
from peerage.council.fences import without_marks
from peerage.types import Ballot, Counted, Dissent, Review, Session

LEAST_DISTANCE = Fraction(1, 3)  # share of pairs ordered against the result
MOST_QUOTES = 2
MAX_QUOTE_CHARACTERS = 280


def dissent_of(
    session: Session,
    counted: Sequence[Counted],
    reword: Callable[[str, Ballot], str] | None = None,
) -> tuple[Dissent, ...]:
    """Return quotes of dissenters who gave reasons, the most distant first.

    A quote uses its ballot's labels until `reword` replaces them, by default with authors' names.
    """
    rank = {score.model: score.rank for score in session.scores if score.rank is not None}
    reviews = {(review.reviewer, review.round): review for review in session.reviews}
    quotes = []
    for ballot, reading in zip(session.ballots, counted, strict=True):
        far = distance(reading, rank)
        quote = _quote(ballot, reviews[ballot.reviewer, ballot.round], reading, rank)
        if far is not None and far >= LEAST_DISTANCE and quote:
            quote = (reword or with_names)(quote, ballot)
            quotes.append(Dissent(ballot.reviewer, float(far), quote, ballot.round))
    quotes.sort(key=lambda words: (-(words.distance or 0.0), words.reviewer))
    return tuple(quotes[:MOST_QUOTES])


def with_names(quote: str, ballot: Ballot) -> str:
    """Return a quote with authors' names in place of the ballot's labels ("Response A").

    Only whole labels are replaced, the longest that fits: "Response AA" is not "Response A". In
    "Responses A and B" either all labels are replaced or, if one is not on the ballot, none.
    """
    author_by_label = ballot.author_by_label
    longest_first = sorted(map(re.escape, author_by_label), key=len, reverse=True)
    one = rf"(?:{'|'.join(longest_first)})(?![\w\u0300-\u036f]|-\w)"
    joint = r"(?:, (?:and |or )?| and | or | & |/)"
    labels = re.compile(
        rf"\b(?i:responses?)\s+({one}(?:{joint}(?!I\b){one})*)(?!{joint}(?!I\b)[A-Z]{{1,2}}\b)"
    )
    label = re.compile(one)
    return labels.sub(lambda m: label.sub(lambda name: author_by_label[name[0]], m[1]), quote)


def distance(reading: Counted, rank: dict[str, int]) -> Fraction | None:
    """Return the share of pairs that a ballot orders against the result, without its own answer."""
    at = {name: place for name, place in tier_by_author(reading.tiers).items() if name in rank}
    at.pop(reading.reviewer, None)
    pairs = [(a, b) for a, b in combinations(at, 2) if at[a] != at[b] and rank[a] != rank[b]]
    if not pairs:
        return None
    against = sum((at[a] < at[b]) != (rank[a] < rank[b]) for a, b in pairs)
    return Fraction(against, len(pairs))


def _quote(ballot: Ballot, review: Review, reading: Counted, rank: dict[str, int]) -> str:
    """Return the note on the answer whose place differs most from the result, never its own."""
    at = {name: place for name, place in tier_by_author(reading.tiers).items() if name in rank}
    at.pop(ballot.reviewer, None)
    by_gap = sorted(
        (slot for slot in ballot.slots if slot.author in at and note_of(review, slot.label)),
        key=lambda slot: (-abs(at[slot.author] + 1 - rank[slot.author]), slot.label),
    )
    if not by_gap:
        return ""
    slot = by_gap[0]
    words, subject = note_of(review, slot.label), f"Response {slot.label}"
    words = words if words.startswith(subject) else f"{subject}: {words}"
    if len(words) <= MAX_QUOTE_CHARACTERS:
        return words
    return words[: MAX_QUOTE_CHARACTERS - 1].rstrip() + "…"


def note_of(review: Review, label: str) -> str:
    """Return a reviewer's note on one answer, in one line.

    A placeholder that was copied from the form is dropped.
    """
    words = " ".join(without_marks(review.notes.get(label, "")).split())
    return "" if words.startswith("<") and words.endswith(">") else words
