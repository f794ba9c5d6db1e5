"""The minority's own words: quotes from the reviews whose order departs most from the result."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations

from peerage.types import Ballot, Counted, Dissent, Review, Session

LEAST_DISTANCE = Fraction(1, 3)  # a third of the pairs the other way round
MOST_QUOTES = 2
MAX_QUOTE_CHARACTERS = 280


def dissent_of(session: Session, counted: Sequence[Counted]) -> tuple[Dissent, ...]:
    """The dissenters that have something to say, the furthest first, in their ballots' labels."""
    rank = {score.model: score.rank for score in session.scores}
    reviews = {(review.reviewer, review.round): review for review in session.reviews}
    found = []
    for ballot, reading in zip(session.ballots, counted, strict=True):
        far = distance(reading, rank)
        review = reviews[ballot.reviewer, ballot.round]
        quote = _quote(ballot, review, reading, rank)
        if far is not None and far >= LEAST_DISTANCE and quote:
            found.append(Dissent(ballot.reviewer, float(far), quote, ballot.round))
    found.sort(key=lambda words: (-words.distance, words.reviewer))
    return tuple(found[:MOST_QUOTES])


def with_names(quote: str, ballot: Ballot) -> str:
    """A quote with authors in place of the ballot's labels ("Response A"), in one pass.

    Only whole labels are replaced, the longest that fits: "Response AA" is not "Response A".
    Of "Responses A and B" all are replaced, or none where one is not on the ballot.
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
    """The part of pairs that a ballot orders against the result, own answer left out."""
    at = {
        name: i for i, tier in enumerate(reading.tiers) for name in tier if name != reading.reviewer
    }
    pairs = [(a, b) for a, b in combinations(at, 2) if at[a] != at[b] and rank[a] != rank[b]]
    if not pairs:
        return None
    against = sum((at[a] < at[b]) != (rank[a] < rank[b]) for a, b in pairs)
    return Fraction(against, len(pairs))


def _quote(ballot: Ballot, review: Review, reading: Counted, rank: dict[str, int]) -> str:
    """What the reviewer wrote on the answer it places most differently."""
    at = {name: i + 1 for i, tier in enumerate(reading.tiers) for name in tier}
    by_gap = sorted(
        (slot for slot in ballot.slots if slot.author in at and note_of(review, slot.label)),
        key=lambda slot: (-abs(at[slot.author] - rank[slot.author]), slot.label),
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
    """A reviewer's note on one answer, in one line.

    A blank of the form that was copied out unfilled says nothing.
    """
    words = " ".join(review.notes.get(label, "").split())
    return "" if words.startswith("<") and words.endswith(">") else words
