"""Boards of models, people and items, with forms for what-if options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Literal
from urllib.parse import parse_qsl

import numpy as np
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from peerage.boards import Board
from peerage.boards.models import standing
from peerage.doors.http.access import READ, Serving
from peerage.doors.render.board_files import board_csv, board_parquet
from peerage.doors.render.model_names import clear_names
from peerage.doors.render.pages import axis_around, week_chart
from peerage.doors.render.phrases import figure, rank_groups, ranks
from peerage.doors.render.report_views import fragility_lines
from peerage.doors.web.board_charts import scatter, spend_by_day
from peerage.doors.web.board_columns import columns_shown
from peerage.doors.web.board_forms import (
    MAX_ROWS,
    Form,
    form_of,
    number_in,
    or_problem,
    shared_values,
)
from peerage.doors.web.community_pages import COMMUNITY_BOARDS, community_board_values
from peerage.doors.web.templating import (
    COMMUNITY,
    PageRoute,
    has_community,
    headers_with,
    kept_page,
)
from peerage.errors import NotFoundError, UsageError
from peerage.hosted_seasons import season_names
from peerage.reports.options import ModelBoardOptions, weights_text
from peerage.reports.page_facts import (
    N_SESSIONS,
    ModelFacts,
    WhatIfOptions,
    facts_of_models,
    gate_failures,
    reviewer_names,
    stored_rows,
    what_if_board,
)
from peerage.rules import rules
from peerage.service import Service
from peerage.types import Rubric

router = APIRouter(route_class=PageRoute, include_in_schema=False, dependencies=[READ])

DEFAULT_SINCE = ModelBoardOptions().since


# -- any board -----------------------------------------------------------------------------------


@router.get("/boards")
def boards() -> Response:
    return RedirectResponse("/boards/models", 307)


@router.get("/boards/{kind}")
async def board(request: Request, service: Serving, kind: str) -> Response:
    """Return a board of models, people or items, with a form for what-if options."""
    template = "model_board.html" if kind == "models" else "community_board.html"
    make = partial(board_values, service, kind, form_of(request))
    request.app.state.has_community = await service.read(has_community, service.store)
    here = "/boards/models" if kind == "models" else COMMUNITY
    return await kept_page(request, template, here, make)


@router.get("/boards/{kind}/csv")
async def board_as_csv(request: Request, service: Serving, kind: str) -> Response:
    """Return the board that a page shows, as CSV."""
    board = await shown_board(request, service, kind)
    headers = {**headers_with(""), "Content-Disposition": f'attachment; filename="{kind}.csv"'}
    return Response(board_csv(board), media_type="text/csv", headers=headers)


@router.get("/boards/{kind}/parquet")
async def board_as_parquet(request: Request, service: Serving, kind: str) -> Response:
    """Return the board that a page shows, as Parquet."""
    body = await service.read(board_parquet, await shown_board(request, service, kind))
    headers = {**headers_with(""), "Content-Disposition": f'attachment; filename="{kind}.parquet"'}
    return Response(body, media_type="application/vnd.apache.parquet", headers=headers)


async def shown_board(request: Request, service: Serving, kind: str) -> Board:
    """Return the board for the page of this address; raise an error if an option is wrong."""
    values = await service.read(board_values, service, kind, form_of(request))
    if values["problem"]:
        raise UsageError(values["problem"])
    board: Board = values["board"]
    return board


@router.get("/boards/{kind}/json")
async def board_json(request: Request, service: Serving, kind: str) -> Response:
    """Return the board that a page shows, as JSON."""
    board = await shown_board(request, service, kind)
    return JSONResponse(board.document(), headers=dict(headers_with("")))


def board_values(service: Service, kind: str, form: Form) -> dict[str, Any]:
    """Return all values of a board's page."""
    if kind == "models":
        return model_board_values(service, form)
    if kind not in COMMUNITY_BOARDS:
        known = ", ".join(("models", *COMMUNITY_BOARDS))
        raise NotFoundError(f"there is no board {kind!r}.", hint=f"Known: {known}.")
    return community_board_values(service, kind, form)


# -- the board of models -------------------------------------------------------------------------

WEIGHT = "w_"  # the start of a parameter that weighs a dimension
BLOCK = 20  # how many models the head-to-head table shows at a time, across and down
MODEL_USUAL = {  # query parameters and their defaults, which an address leaves out
    "rule": "borda",
    "own_votes": "out",
    "since": DEFAULT_SINCE,
    "category": "",
    "season": "",
    "panel": "",
    "without": "",
    "review": "",
    "ceiling": "on",
    "gate": "off",
    "scale": "",
    "matrix": "",
    "fragility": "",
    "history": "",
    "rows": "",
    "columns": "",
    "sort": "rank",
    "search": "",
    "disputed": "",
}
TWO_KINDS = "reviews_of_two_kinds:"
SORTS = {
    "rank": "rank",
    "model": "name",
    "total_votes": "votes",
    "total_wins": "wins",
    "appearances": "sessions",
    "mean_score": "score",
    "z_score": "calibrated",
}


def model_board_values(service: Service, form: Form) -> dict[str, Any]:
    """Return all values of the model board's page."""
    rubric = service.settings.rubric_for("")
    options, weights = what_if_options(form, rubric)
    failed = gate_failures(service.store) if options.gate else ()
    make = partial(what_if_board, service.reports, options, rubric, failed)
    board, problem = or_problem("models", make)
    selection = {"since", "category", "season", "panel", "review"}
    plain = WhatIfOptions(**options.model_dump(include=selection))
    is_plain = (
        options.model_copy(update={"matrix": False, "fragility": False, "history": None}) == plain
    )
    before: Mapping[str, Mapping[str, Any]] = {}
    if not is_plain and not problem:
        before = plain_rows(service, service.store.version(), plain.plain)
    usual = {f"{WEIGHT}{name}": f"{weight:g}" for name, weight in _percent(rubric).items()}
    chosen = [options.season] if options.season else []
    names = season_names(service.store, dict.fromkeys([*latest_of(service, "season"), *chosen]))
    shared = shared_values(board, problem, form, {**MODEL_USUAL, **usual}, names)
    return {
        **shared,
        **_ranking_values(service, board, options, form, before),
        "options": options,
        "is_plain": is_plain,
        "has_two_kinds": any(flag.startswith(TWO_KINDS) for flag in board.flags),
        "weights": weights,
        "weight_sum": sum(weights.values()),
        "rules": rules.names(),
        "sorts": SORTS,
        "search": form.get("search", ""),
        "categories": latest_of(service, "category"),
        "seasons": list(names.items()),
        "reviewers": reviewer_names(stored_rows(service.reports)),
        "versus": versus(board.notes.get("matrix"), form),
        "fragility": fragility_lines(f) if (f := board.notes.get("fragility")) else [],
        "parts": parse_qsl(shared["query"]),
        "history": form.get("history", ""),
        "cost_words": "${:.4g}".format,
        "time_words": time_words,
        "spend": spend_by_day(service.store.sessions(limit=N_SESSIONS)),
    }


def time_words(s: float) -> str:
    """Return a duration on an axis, in milliseconds if it is short."""
    return f"{s:g} s" if s >= 0.1 or s == 0 else f"{1000 * s:g} ms"


def _ranking_values(
    service: Service,
    board: Board,
    options: WhatIfOptions,
    form: Form,
    before: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """Return the rows of the model board in order, with their axis and charts."""
    facts = facts_of_models(service.store)
    rows = rank_by_scores(board.rows) if options.calibrated else board.rows
    sort = form.get("sort", "rank")
    share = "share_common" if "share_common" in board.columns else "share"
    listed = [
        {
            **row,
            "rank_words": figure(row["rank"]) if options.calibrated else ranks(row),
            "facts": facts.get(row["model"], ModelFacts()),
            **_changes(row, before.get(row["model"]), share),
        }
        for row in _sort_rows(rows, sort)
    ]
    order = [row["model"] for row in rows]
    by_rank = sort == "rank" and not options.calibrated
    ends = (f"{share}{end}" for end in ("", "_low", "_high"))
    n_lines = [len(order)] if form.get("history") == "all" else []
    return {
        "groups": rank_groups(listed) if by_rank else [("", listed)],
        "n_left_out": max(0, len(listed) - MAX_ROWS),
        "max_rows": MAX_ROWS,
        "n_moved": sum(row["before"] is not None for row in listed),
        "share": share,
        "axis": axis_around(
            [row[name] for name in ends for row in listed if row[share] is not None]
            + [row["share_before"] for row in listed]
        ),
        "sort": sort,
        "columns": columns_shown(board, options, facts.values(), is_compared=bool(before)),
        "short": clear_names(order),
        "weeks": week_chart(board.notes.get("history") or (), order, *n_lines),
        "cost_chart": scatter(listed, lambda one: one.cost_each),
        "speed_chart": scatter(listed, lambda one: one.latency_s),
    }


def _changes(
    row: Mapping[str, Any], before: Mapping[str, Any] | None, share: str
) -> dict[str, Any]:
    """Return a row's earlier rank if it differs, its earlier share, and the change."""
    old = before[share] if before and before.get(share) is not None else None
    change = None if old is None or row[share] is None else row[share] - old
    rank = _rank_before(row, {row["model"]: before["rank"]} if before else {})
    return {"before": rank, "share_before": old, "change": change}


def _rank_before(row: Mapping[str, Any], before: Mapping[str, int | None]) -> int | None:
    """Return the earlier rank of a model if it differs, else None."""
    old = before.get(row["model"])
    return None if row["rank"] is None or old == row["rank"] else old


def _sort_rows(rows: list[dict[str, Any]], column: str) -> list[dict[str, Any]]:
    """Return the rows sorted by a column, largest first, or by name; by default by rank."""
    if column == "model":
        return sorted(rows, key=lambda row: row["model"].casefold())
    by_value = column in SORTS and column != "rank"
    return sorted(rows, key=lambda row: -(row[column] or 0.0)) if by_value else rows


def what_if_options(form: Form, rubric: Rubric | None) -> tuple[WhatIfOptions, dict[str, float]]:
    """Return the options in an address, and the weights in percent."""
    recorded = _percent(rubric)
    weights = {name: number_in(form.get(f"{WEIGHT}{name}"), recorded[name]) for name in recorded}
    values: dict[str, Any] = {n: form.get(n) or usual for n, usual in MODEL_USUAL.items()}
    options = WhatIfOptions(
        rule=values["rule"],
        own_votes=values["own_votes"],
        since=values["since"],
        category=values["category"] or None,
        season=values["season"] or None,
        panel=tuple(filter(None, [values["panel"].strip()])),
        without=tuple(filter(None, values["without"].split("\n"))),
        review=values["review"] or None,
        weights=weights_text(weights) if weights != recorded and any(weights.values()) else "",
        ceiling=values["ceiling"] == "on",
        gate=values["gate"] == "on",
        calibrated=values["scale"] == "calibrated",
        matrix=values["matrix"] == "on",
        fragility=values["fragility"] == "on",
        history="week" if values["history"] in ("week", "all") else None,
        disputed=values["disputed"] == "on",
    )
    return options, weights


@dataclass(frozen=True, slots=True)
class Versus:
    """The part of the head-to-head table that fits a screen, in the order of the board."""

    rows: list[tuple[str, list[tuple[str, float | None, int]]]]  # rival, share, ballots
    columns: list[str]
    row_blocks: list[tuple[str, str]]  # the number of the first model of a block, and its label
    column_blocks: list[tuple[str, str]]
    first_row: str
    first_column: str


def versus(matrix: Mapping[str, Any] | None, form: Form) -> Versus | None:
    """Return the head-to-head table of the models that the search finds, one block at a time."""
    if not matrix or not matrix["models"]:
        return None
    models: list[str] = matrix["models"]
    words = form.get("search", "").casefold()
    matches = [i for i, name in enumerate(models) if words in name.casefold()]
    row, column = (_first(form.get(name)) for name in ("rows", "columns"))
    across = range(len(models))[column - 1 :][:BLOCK]
    rows = [
        (models[i], [(models[j], matrix["above"][i][j], matrix["n"][i][j]) for j in across])
        for i in matches[row - 1 :][:BLOCK]
    ]
    columns = [models[j] for j in across]
    return Versus(rows, columns, _blocks(matches), _blocks(models), str(row), str(column))


def _first(text: str | None) -> int:
    """Return the number of the first model of a block."""
    number = int(text) if text and text.isdecimal() and len(text) < 7 else 1
    return max(0, number - 1) // BLOCK * BLOCK + 1


def _blocks(models: Sequence[object]) -> list[tuple[str, str]]:
    n = len(models)
    return [(str(i + 1), f"{i + 1} to {min(i + BLOCK, n)} of {n}") for i in range(0, n, BLOCK)]


def rank_by_scores(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows ranked by scores normalised for each reviewer; rows without a score last."""
    scores = np.array([row["z_score"] for row in rows], dtype=np.float64)
    wins = np.array([row["total_wins"] for row in rows], dtype=np.float64)
    apart = np.array([row["provisional"] for row in rows], dtype=bool)
    order, rank = standing(scores, wins, [row["model"] for row in rows], apart=apart)
    return [{**rows[i], "rank": rank.get(i), "rank_low": None} for i in order]


def latest_of(service: Service, name: Literal["category", "season"]) -> list[str]:
    """Return the categories or seasons of the latest finished sessions, as choices of a form."""
    listed = service.store.sessions(limit=N_SESSIONS)
    return sorted({getattr(one, name) for one in listed if one.status} - {""})


@lru_cache(maxsize=2)
def plain_rows(
    service: Service, _state: str, options: ModelBoardOptions
) -> Mapping[str, Mapping[str, Any]]:
    """Return the rows without what-if options, by model; cached for a state of the store."""
    return {row["model"]: row for row in service.reports.board(options).rows}


def _percent(rubric: Rubric | None) -> dict[str, float]:
    weights = rubric.weights if rubric else {}
    return {name: round(100 * float(weight), 2) for name, weight in weights.items()}
