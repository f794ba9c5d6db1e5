"""Tables of opinions written down by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

Rows = list[dict[str, Any]]

SEED_AUTHORS = {"p1": "alice", "p2": "alice", "p3": "bob"}
SEED_WORDS = {
    "p1": {"bob": 1, "carol": 1, "dave": -1},
    "p2": {"bob": 1, "carol": 1, "dave": 1},
    "p3": {"alice": -1, "carol": -1},
}


def opinions_of(words: Mapping[str, Mapping[str, float]], authors: Mapping[str, str]) -> Rows:
    """One row for each word: item, contributor, reviewer, opinion."""
    return [
        {"item_id": item, "contributor": authors[item], "reviewer": reviewer, "opinion": opinion}
        for item, said in words.items()
        for reviewer, opinion in said.items()
    ]


@pytest.fixture
def seed_opinions() -> Rows:
    """The published example: Alice, Bob and Carol, with Dave reviewing."""
    return opinions_of(SEED_WORDS, SEED_AUTHORS)


@pytest.fixture
def seed_users() -> Rows:
    return [
        {"user_id": name, "affiliated": name in ("alice", "carol")}
        for name in ("alice", "bob", "carol")
    ]


@pytest.fixture
def worked() -> Rows:
    """The published correlation: consensus .6, .8, −.4, .2, −.6 of ten others."""
    authors = dict.fromkeys("ABCDE", "author")
    likes = {"A": 8, "B": 9, "C": 3, "D": 6, "E": 2}
    mine = {"A": 1, "B": 1, "C": -1, "D": 1, "E": -1}
    words = {
        item: {"me": mine[item], **{f"o{i}": 1 if i < n else -1 for i in range(10)}}
        for item, n in likes.items()
    }
    return opinions_of(words, authors)
