"""The boards and their what-if bar: the same ballots, counted as the address says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from peerage.boards import Board
from peerage.doors.http.access import READ, Serving
from peerage.doors.render.pages import board_chart, week_chart
from peerage.doors.render.phrases import board_options, flag_text, ranks, tier_groups
from peerage.doors.render.report_views import board_table
from peerage.doors.web.page_route import PageRoute
from peerage.doors.web.templating import headers_with, kept_page
from peerage.errors import NotFoundError
from peerage.reports import InputTables, Reports
from peerage.reports.model_facts import N_SESSIONS, ModelFacts, facts_of_models, gate_failures
from peerage.reports.options import (
    CommunityBoardOptions,
    ContributorBoardOptions,
    ItemBoardOptions,
    ReviewerBoardOptions,
)
from peerage.reports.what_if import WhatIfOptions, what_if_board
from peerage.rules import rules
from peerage.service import Service
from peerage.simulate import Population, simulate
from peerage.types import CommunityCoefficients, Rubric

router = APIRouter(route_class=PageRoute, include_in_schema=False, dependencies=[READ])

BOARDS = ("models", "contributors", "reviewers", "items")
SPANS = ("7d", "30d", "90d", "365d", "all")
WEIGHT = "w_"  # the start of a parameter that weighs a dimension
MAX_ROWS = 200
PLAIN_SINCE = "all"
COMMUNITY: Mapping[str, type[CommunityBoardOptions]] = {
    "contributors": ContributorBoardOptions,
    "reviewers": ReviewerBoardOptions,
    "items": ItemBoardOptions,
}
NAME_BY_BOARD = {"contributors": "contributor", "reviewers": "reviewer", "items": "item_id"}
# The numbers of a community that a person may change, with their words.
COEFFICIENTS = {
    "affiliation_bonus_points": "Affiliation bonus",
    "min_reviews_for_quality": "Reviews an item needs",
    "min_reviews_required": "Reviews a reviewer needs",
    "quality_weight": "Weight of quality",
    "reputation_weight": "Weight of reputation",
    "reputation_cap": "Cap of reputation",
}
SORTS = {
    "rank": "rank",
    "model": "name",
    "total_votes": "votes",
    "total_wins": "wins",
    "appearances": "sessions",
    "mean_score": "mean mark",
    "z_score": "calibrated",
}


@router.get("/boards")
def boards() -> Response:
    return RedirectResponse("/boards/models", 307)


@router.get("/boards/models")
async def model_board(request: Request, service: Serving) -> Response:
    """The models, the best first, with a bar to ask what would be if."""
    given = dict(request.query_params)
    make = partial(made_model_board, service, given)
    return await kept_page(request, "model_board.html", "/boards/models", make)


@router.get("/boards/{kind}")
async def community_board(request: Request, service: Serving, kind: str) -> Response:
    """A board of people or of items, stored or simulated."""
    if kind not in COMMUNITY:
        raise NotFoundError(f"there is no board of {kind!r}.", hint=f"Known: {', '.join(BOARDS)}.")
    make = partial(made_community_board, service, kind, dict(request.query_params))
    return await kept_page(request, "community_board.html", "/boards/models", make)


@router.get("/boards/{kind}/json")
async def board_json(request: Request, service: Serving, kind: str) -> Response:
    """The board that a page shows, as JSON."""
    given = dict(request.query_params)
    if kind == "models":
        board = (await service.read(made_model_board, service, given))["board"]
    elif kind in COMMUNITY:
        board = (await service.read(made_community_board, service, kind, given))["board"]
    else:
        raise NotFoundError(f"there is no board of {kind!r}.")
    return JSONResponse(board.document(), headers=dict(headers_with("")))


# -- models ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BoardRow:
    """A line of the board of models: its numbers, where it stood before, and what it costs."""

    values: Mapping[str, Any]
    rank_words: str
    before: int | None  # its plain rank, where that is another
    facts: ModelFacts | None


def made_model_board(service: Service, given: Mapping[str, str]) -> dict[str, Any]:
    """Everything on the page of the models' board."""
    rubric = service.settings.rubric_for("")
    options, weights = what_if_options(given, rubric)
    failed = gate_failures(service.store) if options.gate else ()
    board = what_if_board(service.reports, options, rubric, failed)
    plain = WhatIfOptions(since=options.since, category=options.category)
    is_plain = options.model_copy(update={"matrix": False, "history": None}) == plain
    before = {} if is_plain else _ranks_of(service.reports.board(plain.plain))
    rows = board.rows
    if options.calibrated:
        rows = calibrated(rows)
    facts = facts_of_models(service.store)
    search = given.get("search", "").casefold()
    listed = [
        BoardRow(
            row,
            ranks(row) if not options.calibrated else str(row["rank"]),
            old if (old := before.get(row["model"])) not in (None, row["rank"]) else None,
            facts.get(row["model"]),
        )
        for row in rows
        if search in row["model"].casefold()
    ]
    sort = given.get("sort", "rank")
    if sort in SORTS and sort != "rank":
        listed = _sorted(listed, sort)
    by_row = {id(one.values): one for one in listed}
    groups = [("", listed)]
    if sort == "rank" and not options.calibrated:
        tiers = tier_groups([one.values for one in listed])
        groups = [(name, [by_row[id(row)] for row in part]) for name, part in tiers]
    order = [row["model"] for row in rows]
    return {
        "board": board,
        "groups": groups,
        "n_left_out": max(0, len(listed) - MAX_ROWS),
        "max_rows": MAX_ROWS,
        "options": options,
        "is_plain": is_plain,
        "n_moved": sum(one.before is not None for one in listed),
        "about": board_options(board),
        "flags": [flag_text(flag) for flag in board.flags],
        "weights": weights,
        "default_weights": _percent(rubric),
        "rules": rules.names(),
        "spans": SPANS,
        "sort": sort,
        "sorts": SORTS,
        "search": given.get("search", ""),
        "categories": categories_of(service),
        "reviewers": sorted({*(n for n, one in facts.items() if one.n_reviews), *order}),
        "matrix": board.notes.get("matrix"),
        "weeks": week_chart(board.notes["history"], order) if board.notes.get("history") else None,
        **_addressed("models", canonical(given, options, weights, rubric)),
    }


def what_if_options(
    given: Mapping[str, str], rubric: Rubric | None
) -> tuple[WhatIfOptions, dict[str, float]]:
    """The options that an address asks for, and the weights as percent."""
    usual = _percent(rubric)
    weights = {name: _number(given.get(f"{WEIGHT}{name}"), usual[name]) for name in usual}
    without = tuple(name for name in given.get("without", "").split("\n") if name)
    chosen: dict[str, Any] = {"own_votes": given.get("own_votes") or "out"}
    options = WhatIfOptions(
        rule=given.get("rule") or "borda",
        since=given.get("since") or PLAIN_SINCE,
        category=given.get("category") or None,
        without=without,
        weights=weights if weights != usual and any(weights.values()) else {},
        ceiling=given.get("ceiling", "on") == "on",
        gate=given.get("gate", "off") == "on",
        calibrated=given.get("scale") == "calibrated",
        matrix=given.get("matrix") == "on",
        history="week" if given.get("history") == "week" else None,
        **chosen,
    )
    return options, weights


def canonical(
    given: Mapping[str, str],
    options: WhatIfOptions,
    weights: Mapping[str, float],
    rubric: Rubric | None,
) -> str:
    """The shortest query that asks for the same page, so that a link says only what differs."""
    usual = _percent(rubric)
    parts: dict[str, str] = {
        "rule": "" if options.rule == "borda" else options.rule,
        "own_votes": "" if options.own_votes == "out" else options.own_votes,
        "since": "" if options.since == PLAIN_SINCE else options.since,
        "category": options.category or "",
        "without": "\n".join(options.without),
        **{f"{WEIGHT}{k}": f"{v:g}" for k, v in weights.items() if v != usual[k]},
        "ceiling": "" if options.ceiling else "off",
        "gate": "on" if options.gate else "",
        "scale": "calibrated" if options.calibrated else "",
        "matrix": "on" if options.matrix else "",
        "history": options.history or "",
        "sort": "" if given.get("sort", "rank") == "rank" else given["sort"],
        "search": given.get("search", ""),
    }
    return urlencode({name: value for name, value in parts.items() if value})


def calibrated(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows ranked by scores that are normalised for each reviewer."""
    known = sorted(
        (row for row in rows if row["z_score"] is not None), key=lambda row: -row["z_score"]
    )
    others = [row for row in rows if row["z_score"] is None]
    return [{**row, "rank": i, "tier": None} for i, row in enumerate([*known, *others], 1)]


def categories_of(service: Service) -> list[str]:
    """The categories of the latest sessions and of the configuration."""
    listed = service.store.sessions(limit=N_SESSIONS)
    return sorted({*(one.category for one in listed), *service.settings.rubric_by_category} - {""})


def _ranks_of(board: Board) -> dict[str, int]:
    return {row["model"]: row["rank"] for row in board.rows}


def _sorted(rows: list[BoardRow], column: str) -> list[BoardRow]:
    if column == "model":
        return sorted(rows, key=lambda row: row.values["model"].casefold())
    return sorted(rows, key=lambda row: -(row.values[column] or 0.0))


def _percent(rubric: Rubric | None) -> dict[str, float]:
    weights = rubric.weights if rubric else {}
    return {name: round(100 * float(weight), 2) for name, weight in weights.items()}


def _number(text: str | None, otherwise: float) -> float:
    try:
        value = float(text) if text else otherwise
    except ValueError:
        return otherwise
    return value if 0 <= value <= 1_000_000 else otherwise


# -- communities -----------------------------------------------------------------------------------


def made_community_board(service: Service, kind: str, given: Mapping[str, str]) -> dict[str, Any]:
    """Everything on the page of a community's board."""
    usual = CommunityCoefficients(**service.settings.community.model_dump())
    changed = {
        name: type(getattr(usual, name))(_number(given.get(name), getattr(usual, name)))
        for name in COEFFICIENTS
    }
    people = {
        name: int(_number(given.get(name), number))
        for name, number in (("honest", 200), ("lazy", 15), ("contrarian", 10), ("spammer", 8))
    } | {"ring": int(_number(given.get("ring"), 6))}
    is_simulated = given.get("source") == "simulated"
    tables = simulated_tables(people) if is_simulated else InputTables()
    options = COMMUNITY[kind](
        since=given.get("since") or "all",
        category=given.get("category") or None,
        half_life=_number(given.get("half_life"), 0.0) or None,
        without_flagged=given.get("without_flagged") == "on",
        **_own_options(kind, given),
    )
    board = _community_board(service, tables, replace(usual, **changed), options)
    plain = COMMUNITY[kind](since=options.since, category=options.category)
    is_plain = options == plain and all(changed[n] == getattr(usual, n) for n in changed)
    name = NAME_BY_BOARD[kind]
    before = {} if is_plain else _places(_community_board(service, tables, usual, plain), name)
    rows = board.rows
    now = _places(board, name)
    moved = {key: before[key] for key, at in now.items() if before.get(key, at) != at}
    return {
        "board": board,
        "chart": board_chart(board, rows[:40]),
        "table": board_table(board, rows[:MAX_ROWS]),
        "keys": [row[name] for row in rows[:MAX_ROWS]],
        "now": now,
        "moved": moved,
        "n_left_out": max(0, len(rows) - MAX_ROWS),
        "options": options,
        "is_plain": is_plain,
        "is_simulated": is_simulated,
        "people": people,
        "coefficients": [(n, words, changed[n]) for n, words in COEFFICIENTS.items()],
        "statistics": _statistics(kind, rows),
        "about": board_options(board),
        "flags": [flag_text(flag) for flag in board.flags],
        "spans": SPANS,
        **_addressed(
            kind, urlencode({k: v for k, v in given.items() if v and not _is_usual(k, v, usual)})
        ),
    }


def _addressed(kind: str, query: str) -> dict[str, str]:
    """Which board a page is of, and the address that asks for it as it is."""
    address = f"/boards/{kind}" + (f"?{query}" if query else "")
    return {"kind": kind, "query": query, "address": address}


def _is_usual(name: str, value: str, usual: CommunityCoefficients) -> bool:
    if name in COEFFICIENTS:
        return value == f"{getattr(usual, name):g}"
    defaults = {"since": "all", "reputation": "fixed", "source": "stored", "by": "total"}
    return value == defaults.get(name)


def _own_options(kind: str, given: Mapping[str, str]) -> dict[str, Any]:
    """The options that are names, and those that only this board has."""
    shown: dict[str, Any] = {"reputation": given.get("reputation") or "fixed"}
    if kind == "items":
        return shown
    shown["all"] = given.get("all") == "on"
    return shown | ({"by": given.get("by") or "total"} if kind == "contributors" else {})


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


def _statistics(kind: str, rows: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """The board in a few numbers."""
    column = {"contributors": "total_score", "reviewers": "pearson", "items": "quality"}[kind]
    known = sorted(row[column] for row in rows if row[column] is not None)
    if not known:
        return [("ranked", "0")]
    mean = sum(known) / len(known)
    sd = (sum((one - mean) ** 2 for one in known) / len(known)) ** 0.5
    middle = known[len(known) // 2]
    words = {"total_score": "total", "pearson": "correlation", "quality": "quality"}[column]
    return [
        ("ranked", f"{len(known):,}"),
        (f"mean {words}", f"{mean:.3g}"),
        ("standard deviation", f"{sd:.3g}"),
        ("median", f"{middle:.3g}"),
        ("lowest and highest", f"{known[0]:.3g} … {known[-1]:.3g}"),
    ]
