"""The board of models with its what-if bar, a model's own page, and the duels of two."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, urlencode
from weakref import WeakKeyDictionary

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from peerage.boards import Board
from peerage.doors.http.access import READ, Serving
from peerage.doors.render.pages import week_chart
from peerage.doors.render.phrases import board_options, flag_text, ranks, tier_groups
from peerage.doors.render.report_views import BOARD_COLUMNS
from peerage.doors.web.judge_pages import findings_in_words
from peerage.doors.web.templating import PageRoute, headers_with, kept_page, page
from peerage.errors import NotFoundError, PeerageError, UsageError
from peerage.events import opening_of
from peerage.reports.options import AuditOptions, ModelBoardOptions
from peerage.reports.page_facts import (
    N_SESSIONS,
    ModelFacts,
    SessionShare,
    WhatIfOptions,
    duels,
    facts_of_models,
    gate_failures,
    marks_of,
    sessions_of,
    stored_rows,
    what_if_board,
)
from peerage.rules import rules
from peerage.service import Service
from peerage.stores import Store
from peerage.types import Rubric

router = APIRouter(route_class=PageRoute, include_in_schema=False, dependencies=[READ])

WEIGHT = "w_"  # the start of a parameter that weighs a dimension
MAX_ROWS = 200
BLOCK = 20  # models that the head-to-head shows at a time, across and down
N_SHOWN = 6  # sessions of a model, of the best and of the worst
N_DUELS = 50
USUAL = {  # what an address may say, and what it need not as it goes without saying
    "rule": "borda",
    "own_votes": "out",
    "since": "all",
    "category": "",
    "without": "",
    "ceiling": "on",
    "gate": "off",
    "scale": "",
    "matrix": "",
    "history": "",
    "rows": "",
    "columns": "",
    "sort": "rank",
    "search": "",
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
IN_TEMPLATE = {  # or left to the JSON; a column that is not here comes after them
    *SORTS,
    *("share", "value", "aggregate_borda", "mean_score_plain", "share_length_controlled"),
}
_PLAIN_RANKS: WeakKeyDictionary[Service, tuple[object, Mapping[str, int]]] = WeakKeyDictionary()


# -- what the boards of models and of communities share ------------------------------------------


def given_in(request: Request) -> dict[str, str]:
    """What an address says, several values of one name a line each."""
    query = request.query_params
    return {name: "\n".join(query.getlist(name)) for name in query}


def number_in(text: str | None, otherwise: float) -> float:
    """A number of a form; another where there is none, or none that can be meant."""
    try:
        value = float(text) if text else otherwise
    except ValueError:
        return otherwise
    return value if 0 <= value <= 1_000_000 else otherwise


def or_problem(kind: str, make: Callable[[], Board]) -> tuple[Board, str]:
    """The board, or none and why, so that whoever tries a value keeps the page to change it on."""
    try:
        return make(), ""
    except PeerageError as error:
        return Board(kind, {}), str(error)


def shared_values(
    board: Board, problem: str, given: Mapping[str, str], usual: Mapping[str, str]
) -> dict[str, Any]:
    """What every board's page is given; its address says only what is not as usual."""
    said = {name: given[name] for name in usual if given.get(name, "") not in ("", usual[name])}
    query = urlencode({name: value.split("\n") for name, value in said.items()}, doseq=True)
    return {
        "board": board,
        "problem": problem,
        "about": board_options(board),
        "flags": [flag_text(flag) for flag in board.flags],
        "kind": board.board,
        "query": query,
        "address": f"/boards/{board.board}" + (f"?{query}" if query else ""),
    }


def json_of(made: Mapping[str, Any]) -> Response:
    """The board that a page shows, as JSON."""
    if made["problem"]:
        raise UsageError(made["problem"])
    return JSONResponse(made["board"].document(), headers=dict(headers_with("")))


# -- the board of models -------------------------------------------------------------------------


@router.get("/boards")
def boards() -> Response:
    return RedirectResponse("/boards/models", 307)


@router.get("/boards/models")
async def model_board(request: Request, service: Serving) -> Response:
    """The models, the best first, with a bar to ask what would be if."""
    make = partial(made_model_board, service, given_in(request))
    return await kept_page(request, "model_board.html", "/boards/models", make)


@router.get("/boards/models/json")
async def model_board_json(request: Request, service: Serving) -> Response:
    """The board that the page shows, as JSON."""
    return json_of(await service.read(made_model_board, service, given_in(request)))


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
    facts = facts_of_models(service.store)
    rows = calibrated(board.rows) if options.calibrated else board.rows
    sort = given.get("sort", "rank")
    by_tier = sort == "rank" and not options.calibrated
    found = [row for row in rows if given.get("search", "").casefold() in row["model"].casefold()]
    listed = [
        {
            **row,
            "rank_words": str(row["rank"]) if options.calibrated else ranks(row),
            "before": old if (old := before.get(row["model"])) != row["rank"] else None,
            "facts": facts.get(row["model"], ModelFacts()),
        }
        for row in _sorted(found, sort)
    ]
    order = [row["model"] for row in rows]
    usual = {f"{WEIGHT}{name}": f"{weight:g}" for name, weight in _percent(rubric).items()}
    shared = shared_values(board, problem, given, {**USUAL, **usual})
    return {
        **shared,
        "groups": tier_groups(listed) if by_tier else [("", listed)],
        "n_left_out": max(0, len(listed) - MAX_ROWS),
        "max_rows": MAX_ROWS,
        "options": options,
        "is_plain": is_plain,
        "n_moved": sum(row["before"] is not None for row in listed),
        "weights": weights,
        "rules": rules.names(),
        "sort": sort,
        "sorts": SORTS,
        "more_columns": _more_columns(board),
        "search": given.get("search", ""),
        "categories": categories_of(service),
        "reviewers": sorted({*(n for n, one in facts.items() if one.n_reviews), *order}),
        "versus": versus(board.notes.get("matrix"), given),
        "parts": parse_qsl(shared["query"]),
        "weeks": week_chart(board.notes.get("history") or (), order),
    }


def _sorted(rows: list[dict[str, Any]], column: str) -> list[dict[str, Any]]:
    """The rows by a column, the largest first, or by name; in their order by rank or by none."""
    if column == "model":
        return sorted(rows, key=lambda row: row["model"].casefold())
    by_value = column in SORTS and column != "rank"
    return sorted(rows, key=lambda row: -(row[column] or 0.0)) if by_value else rows


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
    weights = {name: number_in(given.get(f"{WEIGHT}{name}"), usual[name]) for name in usual}
    said = {name: given.get(name) or USUAL[name] for name in USUAL}
    chosen: dict[str, Any] = {name: said[name] for name in ("rule", "own_votes", "since")}
    options = WhatIfOptions(
        category=said["category"] or None,
        without=tuple(filter(None, said["without"].split("\n"))),
        weights=weights if weights != usual and any(weights.values()) else {},
        ceiling=said["ceiling"] == "on",
        gate=said["gate"] == "on",
        calibrated=said["scale"] == "calibrated",
        matrix=said["matrix"] == "on",
        history="week" if said["history"] == "week" else None,
        **chosen,
    )
    return options, weights


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


def _percent(rubric: Rubric | None) -> dict[str, float]:
    weights = rubric.weights if rubric else {}
    return {name: round(100 * float(weight), 2) for name, weight in weights.items()}


# -- one model, and two --------------------------------------------------------------------------


@router.get("/models")
async def model_page(request: Request, service: Serving, name: str) -> Response:
    """One model: where it stands, whom it beats, what it is marked for, how it reviews."""
    made = await service.read(_about, service, name)
    return page(request, "model_page.html", here="/boards/models", name=name, **made)


@router.get("/models/versus")
async def versus_page(request: Request, service: Serving, a: str, b: str) -> Response:
    """The sessions in which two models met."""
    held = await service.read(stored_rows, service.reports)
    found = await service.read(duels, held, a, b) if held else []
    if not found:
        raise NotFoundError("these two never met on a ballot of a third.")
    questions = await service.read(_questions, service.store, found[:N_DUELS])
    n = sum(one.n for one in found)
    above = sum(one.share * one.n for one in found) / n
    return page(
        request,
        "versus_page.html",
        here="/boards/models",
        a=a,
        b=b,
        duels=found[:N_DUELS],
        n_more=max(0, len(found) - N_DUELS),
        questions=questions,
        above=above,
        n_ballots=n,
    )


def _about(service: Service, name: str) -> dict[str, Any]:
    held = stored_rows(service.reports)
    if held is None or name not in held.rows.names:
        raise NotFoundError("no review is by or about anybody of that name.")
    board = service.reports.board(ModelBoardOptions(since="all", matrix=True))
    row = next((one for one in board.rows if one["model"] == name), None)
    sessions = sessions_of(held, name)
    best, worst = sessions[:N_SHOWN], sessions[N_SHOWN:][-N_SHOWN:][::-1]
    return {
        "row": row,
        "n_models": len(board),
        "rivals": _rivals(board.notes.get("matrix"), name),
        "marks": marks_of(held, name),
        "best": best,
        "worst": worst,
        "questions": _questions(service.store, [*best, *worst]),
        "findings": _findings(service, name),
        "facts": facts_of_models(service.store).get(name, ModelFacts()),
    }


def _rivals(matrix: Any, name: str) -> list[tuple[str, float, int]]:
    """Each rival, how often the model stands above it, and on how many ballots."""
    if not matrix or name not in matrix["models"]:
        return []
    i = matrix["models"].index(name)
    return [
        (other, rate, matrix["n"][i][j])
        for j, (other, rate) in enumerate(zip(matrix["models"], matrix["above"][i], strict=True))
        if rate is not None and other != name
    ]


def _findings(service: Service, name: str) -> list[tuple[str, str, str]]:
    try:
        found = service.reports.audit(AuditOptions(reviewer=name))
    except PeerageError:
        return []  # it never reviewed, or nobody did
    return findings_in_words(found.findings)


def _questions(store: Store, sessions: Sequence[SessionShare]) -> dict[str, str]:
    """The question of each session that is in the log; imported reviews have none."""
    found = {}
    for one in sessions:
        try:
            found[one.session_id] = opening_of(store.events(one.session_id)).query.text
        except PeerageError:
            continue
    return found
