"""Boards of a community's people and items, and its voting rings: stored or simulated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from math import isfinite
from statistics import fmean, median_high, pstdev
from typing import Any, NamedTuple

import numpy as np
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from peerage.boards import Board
from peerage.doors.http.access import READ, Serving
from peerage.doors.render.pages import board_chart
from peerage.doors.render.phrases import flag_text
from peerage.doors.render.report_views import board_table
from peerage.doors.web.board_pages import (
    MAX_ROWS,
    given_in,
    json_of,
    number_in,
    or_problem,
    shared_values,
)
from peerage.doors.web.templating import PageRoute, kept_page, page
from peerage.errors import NotFoundError
from peerage.reports import InputTables, Reports
from peerage.reports.options import (
    CommunityBoardOptions,
    ContributorBoardOptions,
    ItemBoardOptions,
    ReviewerBoardOptions,
    RingsOptions,
)
from peerage.service import Service
from peerage.simulate import Population, simulate
from peerage.stats.clusters import generator
from peerage.types import CommunityCoefficients

router = APIRouter(route_class=PageRoute, include_in_schema=False, dependencies=[READ])

MAX_CHARTED = 40


class BoardKind(NamedTuple):
    """A board: its options, whom or what it ranks, by which number, and the word for that."""

    options: type[CommunityBoardOptions]
    name: str
    value: str
    words: str


BOARDS = {
    "contributors": BoardKind(ContributorBoardOptions, "contributor", "total_score", "total"),
    "reviewers": BoardKind(ReviewerBoardOptions, "reviewer", "pearson", "correlation"),
    "items": BoardKind(ItemBoardOptions, "item_id", "quality", "quality"),
}
PEOPLE = {"honest": 200, "lazy": 15, "contrarian": 10, "spammer": 8, "ring": 6}  # simulated
USUAL = {  # what an address may say, and what it need not as it goes without saying
    "source": "stored",
    "since": "all",
    "category": "",
    "by": "total",
    "all": "",
    "reputation": "fixed",
    "half_life": "",
    "without_flagged": "",
    **{name: str(n) for name, n in PEOPLE.items()},
}
# The numbers of a community that a person may change, with their words.
COEFFICIENTS = {
    "affiliation_bonus_points": "Affiliation bonus",
    "min_reviews_for_quality": "Reviews an item needs",
    "min_reviews_required": "Reviews a reviewer needs",
    "quality_weight": "Weight of quality",
    "reputation_weight": "Weight of reputation",
    "reputation_cap": "Cap of reputation",
}


# -- boards --------------------------------------------------------------------------------------


@router.get("/boards/{kind}")
async def community_board(request: Request, service: Serving, kind: str) -> Response:
    """A board of people or of items, stored or simulated."""
    make = partial(made_community_board, service, kind, given_in(request))
    return await kept_page(request, "community_board.html", "/boards/models", make)


@router.get("/boards/{kind}/json")
async def community_board_json(request: Request, service: Serving, kind: str) -> Response:
    """The board that a page shows, as JSON."""
    return json_of(await service.read(made_community_board, service, kind, given_in(request)))


def made_community_board(service: Service, kind: str, given: Mapping[str, str]) -> dict[str, Any]:
    """Everything on the page of a community's board."""
    if kind not in BOARDS:
        known = ", ".join(("models", *BOARDS))
        raise NotFoundError(f"there is no board of {kind!r}.", hint=f"Known: {known}.")
    asked = BOARDS[kind]
    usual = CommunityCoefficients(**service.settings.community.model_dump())
    usually = {name: f"{getattr(usual, name):g}" for name in COEFFICIENTS}
    usually |= {**USUAL, "scale": _scale_text(usual.scale)}
    people = {name: int(number_in(given.get(name), n)) for name, n in PEOPLE.items()}
    is_simulated = given.get("source") == "simulated"
    tables = simulated_tables(people) if is_simulated else InputTables()
    options = community_options(asked.options, given)
    changed = replace(
        usual,
        scale=_scale(given.get("scale"), usual.scale),
        **{
            name: type(getattr(usual, name))(number_in(given.get(name), getattr(usual, name)))
            for name in COEFFICIENTS
        },
    )
    board, problem = or_problem(kind, partial(_community_board, service, tables, changed, options))
    plain = asked.options(since=options.since, category=options.category)
    is_plain = options == plain and changed == usual
    before: dict[str, int] = {}
    if not is_plain and not problem:
        before = _places(_community_board(service, tables, usual, plain), asked.name)
    rows = board.rows
    now = _places(board, asked.name)
    values = sorted(row[asked.value] for row in rows if row[asked.value] is not None)
    return {
        **shared_values(board, problem, given, usually),
        "chart": board_chart(board, rows[:MAX_CHARTED]) if rows else None,
        "table": board_table(board, rows[:MAX_ROWS]) if rows else None,
        "keys": [row[asked.name] for row in rows[:MAX_ROWS]],
        "now": now,
        "moved": {key: before[key] for key, at in now.items() if before.get(key, at) != at},
        "n_left_out": max(0, len(rows) - MAX_ROWS),
        "options": options,
        "is_plain": is_plain,
        "is_simulated": is_simulated,
        "people": people,
        "coefficients": [(n, words, getattr(changed, n)) for n, words in COEFFICIENTS.items()],
        "scale": _scale_text(changed.scale),
        "statistics": _statistics(values, asked.words),
    }


def community_options(
    kind: type[CommunityBoardOptions], given: Mapping[str, str]
) -> CommunityBoardOptions:
    """The options of a board that an address asks for, of those that it has."""
    said = {name: given.get(name) or USUAL[name] for name in USUAL if name in kind.model_fields}
    chosen: dict[str, Any] = {name: value for name, value in said.items() if value}
    return kind(**{**chosen, "half_life": number_in(given.get("half_life"), 0.0) or None})


def _scale(text: str | None, usual: tuple[float, ...]) -> tuple[float, ...]:
    """The opinions there are, from numbers between commas; as usual where they make no scale."""
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
    """The tables of a made-up community with so many of each kind."""
    most = {name: min(number, 2_000) for name, number in people.items()}
    ring = most.pop("ring")
    made = simulate(Population(**most, rings=(ring,) if ring > 1 else ()), 7)
    return InputTables(opinions=made.opinions, users=made.users, items=made.items)


def _places(board: Board, name: str) -> dict[str, int]:
    return {row[name]: i for i, row in enumerate(board.rows, 1)}


def _statistics(values: Sequence[float], words: str) -> list[tuple[str, str]]:
    """A board in a few numbers, from its values in order."""
    if not values:
        return [("ranked", "0")]
    return [
        ("ranked", f"{len(values):,}"),
        (f"mean {words}", f"{fmean(values):.3g}"),
        ("standard deviation", f"{pstdev(values):.3g}"),
        ("median", f"{median_high(values):.3g}"),
        ("lowest and highest", f"{values[0]:.3g} … {values[-1]:.3g}"),
    ]


# -- rings ---------------------------------------------------------------------------------------

MAX_PAIRS = 40  # of those that support each other most, drawn beside the rings
N_STEPS = 300
COOLING = 0.985


class Node(NamedTuple):
    """Somebody in the graph, in percent of its width and height."""

    name: str
    x: float
    y: float
    ring: int | None
    is_low: bool  # in the lower half of its ring, so that its name stands below


class Edge(NamedTuple):
    """Support from one to another: where the line runs, and how often."""

    source: Node
    target: Node
    n: int
    inside: bool


@router.get("/rings")
async def rings(
    request: Request, service: Serving, source: str = "stored", category: str = "", seed: int = 7
) -> Response:
    """The rings among the stored opinions, or in a simulated community."""
    made = await service.read(_rings_found, service, source == "simulated", category, seed)
    return page(request, "rings.html", source=source, category=category, seed=seed, **made)


def _rings_found(service: Service, is_simulated: bool, category: str, seed: int) -> dict[str, Any]:
    reports = service.reports
    if is_simulated:
        reports = Reports(service.settings, simulated_tables(PEOPLE))
    found = reports.rings(RingsOptions(category=category or None))
    document = found.document()
    nodes, edges = graph(document, seed)
    return {
        "document": document,
        "hint": found.hint,
        "flags": [flag_text(flag) for flag in found.flags],
        "nodes": nodes,
        "edges": edges,
    }


def graph(document: Mapping[str, Any], seed: int) -> tuple[list[Node], list[Edge]]:
    """Who supports whom, with everybody in a place; the same for the same seed."""
    support: dict[tuple[str, str], int] = {}
    ring_by_name: dict[str, int] = {}
    for number, ring in enumerate(document["rings"]):
        ring_by_name |= dict.fromkeys(ring["members"], number)
        for one in ring["evidence"]["support"]:
            support[one["from"], one["to"]] = one["n"]
    for pair in document["pairs"][:MAX_PAIRS]:
        support.setdefault((pair["a"], pair["b"]), pair["n"])
    names = sorted({name for pair in support for name in pair} | ring_by_name.keys())
    places = laid_out(names, list(support), seed)
    heights: dict[int | None, list[float]] = {}
    for name, (_, y) in zip(names, places, strict=True):
        heights.setdefault(ring_by_name.get(name), []).append(y)
    nodes = {}
    for name, (x, y) in zip(names, places, strict=True):
        block = ring_by_name.get(name)
        is_low = block is not None and y > sum(heights[block]) / len(heights[block])
        nodes[name] = Node(name, x, y, block, is_low)
    edges = [
        Edge(nodes[a], nodes[b], n, ring_by_name.get(a, -1) == ring_by_name.get(b, -2))
        for (a, b), n in sorted(support.items())
    ]
    return list(nodes.values()), edges


def laid_out(
    names: Sequence[str], pairs: Sequence[tuple[str, str]], seed: int
) -> list[tuple[float, float]]:
    """Places between 5 and 95 percent: neighbours pull each other, all push each other away."""
    n = len(names)
    if n < 2:
        return [(50.0, 50.0)] * n
    at = generator("rings", seed).random((n, 2))
    place = {name: i for i, name in enumerate(names)}
    pull = np.zeros((n, n))
    for a, b in pairs:
        pull[place[a], place[b]] = pull[place[b], place[a]] = 1.0
    degree = np.maximum(pull.sum(axis=1), 1.0)
    pull /= np.sqrt(np.outer(degree, degree))  # a block that all hold together does not collapse
    usual, step = 1 / np.sqrt(n), 0.1
    for _ in range(N_STEPS):
        apart = at[:, None, :] - at[None, :, :]
        distance = np.maximum(np.linalg.norm(apart, axis=2), 1e-3)
        force = usual**2 / distance**2 - pull * distance / usual
        move = (apart * force[:, :, None]).sum(axis=1) + (0.5 - at) * 0.5
        length = np.maximum(np.linalg.norm(move, axis=1, keepdims=True), 1e-9)
        at = at + move / length * np.minimum(length, step)
        step *= COOLING
    low, high = at.min(axis=0), at.max(axis=0)
    spread = np.maximum(high - low, 1e-9)
    shown = 5 + 90 * (at - low) / spread
    return [(round(float(x), 1), round(float(y), 1)) for x, y in shown]
