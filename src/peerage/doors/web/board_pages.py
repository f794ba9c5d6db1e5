"""The boards and their what-if bar: the same ballots, counted as the address says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import isfinite
from typing import Any
from urllib.parse import parse_qsl, urlencode
from weakref import WeakKeyDictionary

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from peerage.boards import Board
from peerage.doors.http.access import READ, Serving
from peerage.doors.render.pages import board_chart, week_chart
from peerage.doors.render.phrases import board_options, flag_text, ranks, tier_groups
from peerage.doors.render.report_views import BOARD_COLUMNS, board_table
from peerage.doors.web.templating import PageRoute, headers_with, kept_page
from peerage.errors import NotFoundError, PeerageError, UsageError
from peerage.reports import InputTables, Reports
from peerage.reports.held_rows import WhatIfOptions, what_if_board
from peerage.reports.options import (
    CommunityBoardOptions,
    ContributorBoardOptions,
    ItemBoardOptions,
    ReviewerBoardOptions,
)
from peerage.reports.page_facts import N_SESSIONS, ModelFacts, facts_of_models, gate_failures
from peerage.rules import rules
from peerage.service import Service
from peerage.simulate import Population, simulate
from peerage.types import CommunityCoefficients, Rubric

router = APIRouter(route_class=PageRoute, include_in_schema=False, dependencies=[READ])

BOARDS = ("models", "contributors", "reviewers", "items")
WEIGHT = "w_"  # the start of a parameter that weighs a dimension
MAX_ROWS = 200
BLOCK = 20  # models that the head-to-head shows at a time, across and down
PLAIN_SINCE = "all"
COMMUNITY: Mapping[str, type[CommunityBoardOptions]] = {
    "contributors": ContributorBoardOptions,
    "reviewers": ReviewerBoardOptions,
    "items": ItemBoardOptions,
}
PEOPLE = {"honest": 200, "lazy": 15, "contrarian": 10, "spammer": 8, "ring": 6}  # simulated
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
_PLAIN_RANKS: WeakKeyDictionary[Service, tuple[object, Mapping[str, int]]] = WeakKeyDictionary()
SORTS = {
    "rank": "rank",
    "model": "name",
    "total_votes": "votes",
    "total_wins": "wins",
    "appearances": "sessions",
    "mean_score": "mean mark",
    "z_score": "calibrated",
}
IN_TEMPLATE = {  # or left to the JSON; a column that is not here comes after them
    *SORTS,
    *("share", "value", "aggregate_borda", "mean_score_plain", "share_length_controlled"),
}


@router.get("/boards")
def boards() -> Response:
    return RedirectResponse("/boards/models", 307)


@router.get("/boards/models")
async def model_board(request: Request, service: Serving) -> Response:
    """The models, the best first, with a bar to ask what would be if."""
    make = partial(made_model_board, service, given_in(request))
    return await kept_page(request, "model_board.html", "/boards/models", make)


@router.get("/boards/{kind}")
async def community_board(request: Request, service: Serving, kind: str) -> Response:
    """A board of people or of items, stored or simulated."""
    make = partial(made_community_board, service, known_board(kind), given_in(request))
    return await kept_page(request, "community_board.html", "/boards/models", make)


@router.get("/boards/{kind}/json")
async def board_json(request: Request, service: Serving, kind: str) -> Response:
    """The board that a page shows, as JSON."""
    given = given_in(request)
    if kind == "models":
        made = await service.read(made_model_board, service, given)
    else:
        made = await service.read(made_community_board, service, known_board(kind), given)
    if made["problem"]:
        raise UsageError(made["problem"])
    return JSONResponse(made["board"].document(), headers=dict(headers_with("")))


def given_in(request: Request) -> dict[str, str]:
    """What an address says, several values of one name a line each."""
    query = request.query_params
    return {name: "\n".join(query.getlist(name)) for name in query}


def known_board(kind: str) -> str:
    if kind not in COMMUNITY:
        raise NotFoundError(f"there is no board of {kind!r}.", hint=f"Known: {', '.join(BOARDS)}.")
    return kind


def or_problem(kind: str, make: Callable[[], Board]) -> tuple[Board, str]:
    """The board, or none and why, so that whoever tries a value keeps the page to change it on."""
    try:
        return make(), ""
    except PeerageError as error:
        return Board(kind, {}), str(error)


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
    make = partial(what_if_board, service.reports, options, rubric, failed)
    board, problem = or_problem("models", make)
    plain = WhatIfOptions(since=options.since, category=options.category)
    is_plain = options.model_copy(update={"matrix": False, "history": None}) == plain
    before = {} if is_plain or problem else plain_ranks(service, plain)
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
    query = canonical(given, options, weights, rubric)
    return {
        "board": board,
        "problem": problem,
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
        "sort": sort,
        "sorts": SORTS,
        "more_columns": _more_columns(board),
        "search": given.get("search", ""),
        "categories": categories_of(service),
        "reviewers": sorted({*(n for n, one in facts.items() if one.n_reviews), *order}),
        "versus": versus(board.notes.get("matrix"), given),
        "parts": parse_qsl(query),
        "weeks": week_chart(board.notes["history"], order) if board.notes.get("history") else None,
        **_addressed("models", query),
    }


def _more_columns(board: Board) -> list[tuple[str, str]]:
    """The columns of a board that the page has no place of its own for, with their headings."""
    return [
        (name, column.head.capitalize())
        for name, column in BOARD_COLUMNS.items()
        if name in board.columns and name not in IN_TEMPLATE
    ]


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
    parts: dict[str, str | Sequence[str]] = {
        "rule": "" if options.rule == "borda" else options.rule,
        "own_votes": "" if options.own_votes == "out" else options.own_votes,
        "since": "" if options.since == PLAIN_SINCE else options.since,
        "category": options.category or "",
        "without": options.without,
        **{f"{WEIGHT}{k}": f"{v:g}" for k, v in weights.items() if v != usual[k]},
        "ceiling": "" if options.ceiling else "off",
        "gate": "on" if options.gate else "",
        "scale": "calibrated" if options.calibrated else "",
        "matrix": "on" if options.matrix else "",
        "history": options.history or "",
        **{name: given.get(name, "") for name in ("rows", "columns") if options.matrix},
        "sort": "" if given.get("sort", "rank") == "rank" else given["sort"],
        "search": given.get("search", ""),
    }
    return urlencode({name: value for name, value in parts.items() if value}, doseq=True)


@dataclass(frozen=True, slots=True)
class Versus:
    """A part of the head-to-head that a screen holds; models stand in the order of the board."""

    rows: list[tuple[str, list[tuple[str, float | None, int]]]]  # rival, share, ballots
    columns: list[str]
    row_blocks: list[tuple[str, str]]  # the number of its first model, and words for it
    column_blocks: list[tuple[str, str]]
    first_row: str
    first_column: str


def versus(matrix: Mapping[str, Any] | None, given: Mapping[str, str]) -> Versus | None:
    """The models against each other: those that the address names, a block at a time."""
    if not matrix or not matrix["models"]:
        return None
    models: list[str] = matrix["models"]
    words = given.get("search", "").casefold()
    found = [i for i, name in enumerate(models) if words in name.casefold()]
    row, column = (_first(given.get(name)) for name in ("rows", "columns"))
    across = range(len(models))[column - 1 :][:BLOCK]
    rows = [
        (models[i], [(models[j], matrix["above"][i][j], matrix["n"][i][j]) for j in across])
        for i in found[row - 1 :][:BLOCK]
    ]
    columns = [models[j] for j in across]
    return Versus(rows, columns, _blocks(found), _blocks(models), str(row), str(column))


def _first(text: str | None) -> int:
    """The number of the first model of a block."""
    number = int(text) if text and text.isdecimal() and len(text) < 7 else 1
    return max(0, number - 1) // BLOCK * BLOCK + 1


def _blocks(models: Sequence[object]) -> list[tuple[str, str]]:
    n = len(models)
    return [(str(i + 1), f"{i + 1} to {min(i + BLOCK, n)} of {n}") for i in range(0, n, BLOCK)]


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


def plain_ranks(service: Service, plain: WhatIfOptions) -> Mapping[str, int]:
    """Where the models stand without any what-if; kept, as one change follows another."""
    key = service.store.version(), plain.since, plain.category
    known, ranks = _PLAIN_RANKS.get(service, (None, {}))
    if known != key:
        rows = service.reports.board(plain.plain).rows
        ranks = {row["model"]: row["rank"] for row in rows}
        _PLAIN_RANKS[service] = key, ranks
    return ranks


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
    people = {name: int(_number(given.get(name), n)) for name, n in PEOPLE.items()}
    is_simulated = given.get("source") == "simulated"
    tables = simulated_tables(people) if is_simulated else InputTables()
    options = COMMUNITY[kind](
        since=given.get("since") or "all",
        category=given.get("category") or None,
        half_life=_number(given.get("half_life"), 0.0) or None,
        without_flagged=given.get("without_flagged") == "on",
        **_own_options(kind, given),
    )
    changed = replace(
        usual,
        scale=_scale(given.get("scale"), usual.scale),
        **{
            name: type(getattr(usual, name))(_number(given.get(name), getattr(usual, name)))
            for name in COEFFICIENTS
        },
    )
    board, problem = or_problem(kind, partial(_community_board, service, tables, changed, options))
    plain = COMMUNITY[kind](since=options.since, category=options.category)
    is_plain = options == plain and changed == usual
    name = NAME_BY_BOARD[kind]
    before = (
        {}
        if is_plain or problem
        else _places(_community_board(service, tables, usual, plain), name)
    )
    rows = board.rows
    now = _places(board, name)
    return {
        "board": board,
        "problem": problem,
        "chart": board_chart(board, rows[:40]) if rows else None,
        "table": board_table(board, rows[:MAX_ROWS]) if rows else None,
        "keys": [row[name] for row in rows[:MAX_ROWS]],
        "now": now,
        "moved": {key: before[key] for key, at in now.items() if before.get(key, at) != at},
        "n_left_out": max(0, len(rows) - MAX_ROWS),
        "options": options,
        "is_plain": is_plain,
        "is_simulated": is_simulated,
        "people": people,
        "coefficients": [(n, words, getattr(changed, n)) for n, words in COEFFICIENTS.items()],
        "scale": _scale_text(changed.scale),
        "statistics": _statistics(kind, rows),
        "about": board_options(board),
        "flags": [flag_text(flag) for flag in board.flags],
        **_addressed(
            kind, urlencode({k: v for k, v in given.items() if v and not _is_usual(k, v, usual)})
        ),
    }


def _scale(text: str | None, usual: tuple[float, ...]) -> tuple[float, ...]:
    """The opinions there are, from numbers between commas; as usual where they make no scale."""
    try:
        values = tuple(sorted({float(part) for part in (text or "").split(",")}))
    except ValueError:
        return usual
    return values if len(values) > 1 and all(map(isfinite, values)) else usual


def _scale_text(scale: tuple[float, ...]) -> str:
    return ", ".join(f"{value:g}" for value in scale)


def _addressed(kind: str, query: str) -> dict[str, str]:
    """Which board a page is of, and the address that asks for it as it is."""
    address = f"/boards/{kind}" + (f"?{query}" if query else "")
    return {"kind": kind, "query": query, "address": address}


def _is_usual(name: str, value: str, usual: CommunityCoefficients) -> bool:
    if name in COEFFICIENTS:
        return value == f"{getattr(usual, name):g}"
    defaults = {"since": "all", "reputation": "fixed", "source": "stored", "by": "total"}
    defaults |= {"scale": _scale_text(usual.scale), **{who: str(n) for who, n in PEOPLE.items()}}
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
