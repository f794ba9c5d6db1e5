"""Boards of contributors, reviewers and items as pages, from stored or simulated opinions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from math import isfinite
from statistics import fmean, median_high, pstdev
from typing import Any, NamedTuple

from peerage.boards import Board
from peerage.doors.render.board_tables import board_table
from peerage.doors.render.pages import board_chart
from peerage.doors.web.board_forms import MAX_ROWS, Form, number_in, or_problem, shared_values
from peerage.reports import InputTables, Reports
from peerage.reports.options import (
    CommunityBoardOptions,
    ContributorBoardOptions,
    ItemBoardOptions,
    ReviewerBoardOptions,
)
from peerage.service import Service
from peerage.simulate import Population, simulate
from peerage.types import CommunityCoefficients

MAX_CHARTED = 40


class BoardKind(NamedTuple):
    """A kind of board: its options, what it ranks, by which number, and its wording."""

    options: type[CommunityBoardOptions]
    name: str
    value: str
    words: str


COMMUNITY_BOARDS = {
    "contributors": BoardKind(ContributorBoardOptions, "contributor", "total_score", "total"),
    "reviewers": BoardKind(ReviewerBoardOptions, "reviewer", "pearson", "correlation"),
    "items": BoardKind(ItemBoardOptions, "item_id", "quality", "quality"),
}
PEOPLE = {"honest": 200, "lazy": 15, "contrarian": 10, "spammer": 8, "ring": 6}  # simulated
COMMUNITY_USUAL = {  # query parameters and their defaults, which an address leaves out
    "source": "stored",
    "since": CommunityBoardOptions().since,
    "category": "",
    "by": "total",
    "all": "",
    "reputation": "fixed",
    "half_life": "",
    "without_flagged": "",
    **{name: str(n) for name, n in PEOPLE.items()},
}
# The numbers in the form of a community board, with their labels.
COEFFICIENTS = {
    "affiliation_bonus_points": "Affiliation bonus",
    "min_reviews_for_quality": "Reviews an item needs",
    "min_reviews_required": "Reviews a reviewer needs",
    "quality_weight": "Weight of quality",
    "reputation_weight": "Weight of reputation",
    "reputation_cap": "Cap of reputation",
}


def community_board_values(service: Service, kind: str, form: Form) -> dict[str, Any]:
    """Return all values of a community board's page."""
    ranked = COMMUNITY_BOARDS[kind]
    usual = CommunityCoefficients(**service.settings.community.model_dump())
    usual_form = {name: f"{getattr(usual, name):g}" for name in COEFFICIENTS}
    usual_form |= {**COMMUNITY_USUAL, "scale": _scale_text(usual.scale)}
    people = {name: int(number_in(form.get(name), n)) for name, n in PEOPLE.items()}
    is_simulated = form.get("source") == "simulated"
    tables = simulated_tables(people) if is_simulated else InputTables()
    options = community_options(ranked.options, form)
    changed = replace(
        usual,
        scale=_scale(form.get("scale"), usual.scale),
        **{
            name: type(getattr(usual, name))(number_in(form.get(name), getattr(usual, name)))
            for name in COEFFICIENTS
        },
    )
    board, problem = or_problem(kind, partial(_community_board, service, tables, changed, options))
    plain = ranked.options(since=options.since, category=options.category)
    is_plain = options == plain and changed == usual
    before: dict[str, int] = {}
    if not is_plain and not problem:
        old_rows = _community_board(service, tables, usual, plain).rows
        before = {row[ranked.name]: place for place, row in enumerate(old_rows, 1)}
    rows = board.rows
    places = [before.get(row[ranked.name], place) for place, row in enumerate(rows, 1)]
    values = sorted(row[ranked.value] for row in rows if row[ranked.value] is not None)
    return {
        **shared_values(board, problem, form, usual_form),
        "chart": board_chart(board, rows[:MAX_CHARTED]) if rows else None,
        "table": board_table(board, rows[:MAX_ROWS]) if rows else None,
        "n_moved": sum(old != place for place, old in enumerate(places, 1)),
        "places_before": places,
        "n_left_out": max(0, len(rows) - MAX_ROWS),
        "options": options,
        "is_plain": is_plain,
        "is_simulated": is_simulated,
        "people": people,
        "coefficients": [(n, words, getattr(changed, n)) for n, words in COEFFICIENTS.items()],
        "scale": _scale_text(changed.scale),
        "statistics": _statistics(values, ranked.words),
    }


def community_options(kind: type[CommunityBoardOptions], form: Form) -> CommunityBoardOptions:
    """Return the options in an address that this board has."""
    values: dict[str, Any] = {
        name: form.get(name) or usual
        for name, usual in COMMUNITY_USUAL.items()
        if name in kind.model_fields and (form.get(name) or usual)
    }
    return kind(**{**values, "half_life": number_in(form.get("half_life"), 0.0) or None})


def _scale(text: str | None, usual: tuple[float, ...]) -> tuple[float, ...]:
    """Return the scale from numbers separated by commas, or the default if it is invalid."""
    try:
        values = tuple(sorted({float(part) for part in (text or "").split(",")}))
    except ValueError:
        return usual
    return values if len(values) > 1 and all(map(isfinite, values)) else usual


def _scale_text(scale: tuple[float, ...]) -> str:
    return ", ".join(f"{value:g}" for value in scale)


def _community_board(
    service: Service,
    tables: InputTables,
    coefficients: CommunityCoefficients,
    options: CommunityBoardOptions,
) -> Board:
    community = service.settings.community.model_copy(update=asdict(coefficients))
    settings = service.settings.model_copy(update={"community": community})
    reports = Reports(settings, tables)
    vars(reports)["store"] = service.store
    return reports.board(options)


def simulated_tables(people: Mapping[str, int]) -> InputTables:
    """Return the tables of a simulated community with these numbers of people."""
    most = {name: min(number, 2_000) for name, number in people.items()}
    ring = most.pop("ring")
    community = simulate(Population(**most, rings=(ring,) if ring > 1 else ()), 7)
    return InputTables(opinions=community.opinions, users=community.users, items=community.items)


def _statistics(values: Sequence[float], words: str) -> list[tuple[str, str]]:
    """Return summary statistics of a board, from its sorted values."""
    if not values:
        return [("ranked", "0")]
    return [
        ("ranked", f"{len(values):,}"),
        (f"mean {words}", f"{fmean(values):.3g}"),
        ("standard deviation", f"{pstdev(values):.3g}"),
        ("median", f"{median_high(values):.3g}"),
        ("lowest and highest", f"{values[0]:.3g} … {values[-1]:.3g}"),
    ]
