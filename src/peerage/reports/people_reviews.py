"""Judges and people: which reviewers are people, corrected shares, and departures."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from peerage.biases.people_departures import people_findings
from peerage.boards.common_cells import PairCells, pair_cells
from peerage.boards.corrected_shares import build_people_board
from peerage.boards.rival_shares import met_alike
from peerage.engines.review_tables import ReviewTable
from peerage.errors import InputError
from peerage.findings import Finding
from peerage.reports.recounts import known_names, names_in
from peerage.reviews.gold import people_in, with_decisions
from peerage.reviews.judge_shares import JudgeShares, judge_shares
from peerage.reviews.rows import Rows, join_rows, settle, take_census
from peerage.types import OwnVotes

NO_PEOPLE = "no review is by a person."
PEOPLE_HINT = (
    "People review at /review of `peerage serve` and decide at /adjudicate. In a table, set "
    "`person` to 1, or `correct` for decisions, or name people with --people."
)


def find_people(table: ReviewTable, named: Sequence[str]) -> set[str]:
    """Return the reviewers who are people, marked or named; raise an error if there are none."""
    people = find_marked(table) | known_names(named, names_in(table, "reviewer"), "reviewer")
    if not people:
        raise InputError(NO_PEOPLE, hint=PEOPLE_HINT)
    return people


def find_marked(table: ReviewTable) -> set[str]:
    """Return the reviewers that the table marks as people."""
    return set[str]().union(*table.map(people_in))


def add_decisions(table: ReviewTable) -> ReviewTable:
    """Return the table plus decisions on correct answers, as the reviews of one more person."""
    return table.change(with_decisions)


def in_one_block(table: ReviewTable) -> Rows:
    """Return all rows in this process, with their own codes and clusters."""
    rows = join_rows(table.map(lambda rows: rows))
    return settle(rows, take_census(rows))


def shares_since(
    table: ReviewTable, earliest: float | None, own_votes: OwnVotes
) -> tuple[JudgeShares, PairCells | None]:
    """Return the shares by query, model and reviewer since a time.

    If some reviewer judged only some of the models, also return the pairs of models by query.
    """
    rows = in_one_block(table)
    if earliest is not None:
        rows = rows.only(rows.since(earliest))
        rows = settle(rows, take_census(rows))
    shares = judge_shares(rows, own_votes)
    if met_alike(shares):
        return shares, None
    return shares, pair_cells(rows, by_query=True, own_votes=own_votes)


def add_people(
    columns: dict[str, list[Any]],
    shares: JudgeShares,
    cells: PairCells | None,
    people: Collection[str],
) -> dict[str, Any]:
    """Add the columns of judges', people's and corrected shares to a board; return its notes."""
    board = build_people_board(shares, people, cells)
    place = {name: i for i, name in enumerate(board.models)}
    at = [place.get(name) for name in columns["model"]]
    for name, values in board.columns.items():
        columns[name] = [None if i is None else values[i] for i in at]
    return board.notes


def people_departures(table: ReviewTable, people: Collection[str]) -> tuple[Finding, ...]:
    """Return each judge's departures from people, by model, length and category."""
    return people_findings(in_one_block(add_decisions(table)), people)
