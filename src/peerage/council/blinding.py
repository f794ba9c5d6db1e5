"""Labels and orders: the label and position of each answer for each reviewer.

Orders come from a balanced square rather than from a shuffle, so that over the reviewers and
sessions of a season each candidate has each position equally often. All random numbers come from
SHA-256, because an order must be the same on every machine and under every version of Python.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from itertools import product
from string import ascii_uppercase

from peerage.errors import InputError
from peerage.types import MAX_LABELS, Ballot, Order, Response, Slot

LABELS = tuple("".join(letters) for n in (1, 2) for letters in product(ascii_uppercase, repeat=n))
INDEX_BY_LABEL = {text: index for index, text in enumerate(LABELS)}


def label(index: int) -> str:
    """Return the label of a position: A for 0, Z for 25, AA for 26, ZZ for 701."""
    if not 0 <= index < MAX_LABELS:
        raise InputError(
            f"a ballot has labels for {MAX_LABELS} candidates, A to ZZ, not for {index + 1}.",
            hint="Split the candidates over several sessions.",
        )
    return LABELS[index]


def label_index(text: str) -> int | None:
    """Return the position that a label stands for (A is 0), or None if it is not a label."""
    return INDEX_BY_LABEL.get(text)


class Draws:
    """A stream of random integers from a SHA-256 key; the same key always gives the same stream."""

    def __init__(self, *key: object) -> None:
        self._key = hashlib.sha256(json.dumps(key, ensure_ascii=True).encode()).digest()
        self._block = 0

    def below(self, n: int) -> int:
        """Return a uniform integer in [0, n); values that would bias the result are drawn again."""
        limit = 2**64 - 2**64 % n
        while True:
            block = hashlib.sha256(self._key + self._block.to_bytes(8, "big")).digest()
            self._block += 1
            value = int.from_bytes(block[:8], "big")
            if value < limit:
                return value % n

    def permutation(self, n: int) -> list[int]:
        """Return the integers 0 … n-1 in a uniformly random order."""
        order = list(range(n))
        for i in range(n - 1, 0, -1):
            j = self.below(i + 1)
            order[i], order[j] = order[j], order[i]
        return order


def square_row(n: int, row: int) -> list[int]:
    """Return one row of a Latin square of n symbols, with neighbours as mixed as possible.

    The first row is Williams' zigzag 0, 1, n-1, 2, n-2, …, and each row adds one to the row before.
    For even n every symbol also follows every other exactly once. For odd n that would take 2n
    rows, and the n ballots of a single session would be out of balance. Balanced positions within
    every n ballots are worth more.
    """
    zigzag = [0] * n
    for i in range(1, n):
        zigzag[i] = (i + 1) // 2 if i % 2 else n - i // 2
    return [(symbol + row) % n for symbol in zigzag]


def lone_ordinal(session_id: str) -> int:
    """Return the ordinal of a session that belongs to no season, computed from its id."""
    return int.from_bytes(hashlib.sha256(session_id.encode()).digest()[:4], "big")


def deal_order(
    candidates: Sequence[str], place: int, seed: str, round: int = 0, order: Order = "balanced"
) -> tuple[str, ...]:
    """Return the candidates in the order in which one reviewer sees them.

    `place` is the session's ordinal plus the reviewer's index. Every order starts from the sorted
    names, so the order in which answers arrived does not matter.
    """
    names = sorted(candidates)
    n = len(names)
    if order == "shared":
        return tuple(names[i] for i in Draws("shared", seed, names, round).permutation(n))
    if order == "shuffle":
        return tuple(names[i] for i in Draws("shuffle", seed, names, round, place).permutation(n))
    draws = Draws("balanced", seed, names, round)
    symbols, rows = draws.permutation(n), draws.permutation(n)
    return tuple(names[symbols[s]] for s in square_row(n, rows[place % n])) if n else ()


def slots_of(
    order: Sequence[str], responses: Iterable[Response], labels: Sequence[str] = ()
) -> tuple[Slot, ...]:
    """Return the answers in this order as slots with labels: A, B, C … or the given labels.

    The text of a slot is None if it is not known.
    """
    answers = {response.model: response for response in responses}
    slots = []
    for i, author in enumerate(order):
        name, answer = labels[i] if labels else label(i), answers.get(author)
        if answer is None:
            slots.append(Slot(name, author))
        else:
            slots.append(Slot(name, author, answer.text, answer.truncated, answer.messages))
    return tuple(slots)


def deal(
    responses: Sequence[Response],
    reviewers: Sequence[str],
    seed: str,
    ordinal: int,
    round: int = 0,
    order: Order = "balanced",
    own_shown: bool = True,
) -> tuple[Ballot, ...]:
    """Return a ballot for every reviewer, in the reviewers' order.

    The same seed, season and seats give the same ballots, so an audit can deal them again. Without
    `own_shown`, a reviewer's own answer is not on its ballot.
    """
    names = {response.model for response in responses}
    ballots = []
    for place, reviewer in enumerate(reviewers, ordinal):
        shown = names if own_shown else names - {reviewer}
        shown_order = deal_order(tuple(shown), place, seed, round, order)
        ballots.append(Ballot(reviewer, slots_of(shown_order, responses), round))
    return tuple(ballots)
