"""Judges beside people: who is a person, shares corrected by people, and where judges depart."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from peerage.biases.people import people_findings
from peerage.boards.people import build_people_board
from peerage.engines.blocks import Blocks, InMemory
from peerage.errors import InputError
from peerage.reports.recounts import known_names, names_there
from peerage.reviews.judge_shares import JudgeShares, judge_shares
from peerage.reviews.rows import Rows, join_rows
from peerage.types import Finding, OwnVotes

NO_PEOPLE = "no review is by a person."
PEOPLE_HINT = (
    "People review at /review of `peerage serve`; in an imported table a column `person` marks "
    "their rows with 1, or --people names them."
)


def find_people(blocks: Blocks, named: Sequence[str]) -> set[str]:
    """Return the reviewers who are people: those marked so, and those named; or refuse."""
    people = find_marked(blocks) | known_names(named, names_there(blocks, "reviewer"), "reviewer")
    if not people:
        raise InputError(NO_PEOPLE, hint=PEOPLE_HINT)
    return people


def find_marked(blocks: Blocks) -> set[str]:
    """Return the reviewers that the table marks as people."""
    return set[str]().union(*blocks(_marked_people))


def _marked_people(rows: Rows) -> set[str]:
    named = rows.reviewer[rows.number("person") == 1]
    return {rows.names[code] for code in np.unique(named).tolist()}


def in_one_block(blocks: Blocks) -> Rows:
    """Return all rows in this process, with codes and clusters of their own."""
    parts = blocks(lambda rows: rows)
    joined = parts[0] if len(parts) == 1 else join_rows(parts)
    return InMemory(joined).settled().rows


def shares_since(blocks: Blocks, earliest: float | None, own_votes: OwnVotes) -> JudgeShares:
    """Return the shares by query, model and reviewer from a time on."""
    rows = in_one_block(blocks)
    if earliest is not None:
        rows = InMemory(rows.only(~(rows.number("at") < earliest))).settled().rows
    return judge_shares(rows, own_votes)


def add_people(
    columns: dict[str, list[Any]], shares: JudgeShares, people: Collection[str]
) -> dict[str, Any]:
    """Add the columns of judges, people and corrected shares to a board's; return its notes."""
    board = build_people_board(shares, people)
    place = {name: i for i, name in enumerate(board.models)}
    at = [place.get(name) for name in columns["model"]]
    for name, values in board.columns.items():
        columns[name] = [None if i is None else values[i] for i in at]
    return board.notes


def people_departures(
    blocks: Blocks, people: Collection[str], min_queries: int
) -> tuple[Finding, ...]:
    """Return where each judge departs from people, by model, length and category."""
    return people_findings(in_one_block(blocks), people, min_queries)
