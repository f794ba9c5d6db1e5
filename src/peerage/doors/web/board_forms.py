"""Forms of board pages: the options in an address, and the values that all boards show."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request

from peerage.boards import Board
from peerage.doors.render.phrases import (
    board_options,
    flag_text,
    ranking_line,
    tie_rule,
    window_of,
)
from peerage.doors.web.templating import without_backticks
from peerage.errors import PeerageError

MAX_ROWS = 200  # of a board on its page
Form = Mapping[str, str]  # the query parameters of an address


def form_of(request: Request) -> Form:
    """Return the query parameters of an address; several values of a name become lines."""
    query = request.query_params
    return {name: "\n".join(query.getlist(name)) for name in query}


def number_in(text: str | None, otherwise: float) -> float:
    """Return a number from a form, or the default if it is missing or invalid."""
    try:
        value = float(text) if text else otherwise
    except ValueError:
        return otherwise
    return value if 0 <= value <= 1_000_000 else otherwise


def or_problem(kind: str, make: Callable[[], Board]) -> tuple[Board, str]:
    """Return the board, or an empty one and the error message, so that the form is still shown."""
    try:
        return make(), ""
    except PeerageError as error:
        return Board(kind, {}), without_backticks(str(error))


def shared_values(
    board: Board,
    problem: str,
    form: Form,
    usual: Form,
    season_names: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the values of every board's page; its address omits options with defaults."""
    season = board.parameters.get("season", "")
    named = {"season": season_names[season]} if season in season_names else {}
    described = replace(board, parameters={**board.parameters, **named})
    changed = {name: form[name] for name in usual if form.get(name, "") not in ("", usual[name])}

    def query_of(values: Form) -> str:
        return urlencode({name: text.split("\n") for name, text in values.items()}, doseq=True)

    query = query_of(changed)
    return {
        "board": board,
        "problem": problem,
        "window": None if problem else window_of(board),
        "all_time": f"/boards/{board.board}?{query_of({**changed, 'since': 'all'})}",
        "about": f"{board_options(described)} {tie_rule(board.board)}",
        "ranking": ranking_line(board),
        "flags": [flag_text(flag) for flag in board.flags],
        "kind": board.board,
        "query": query,
        "address": f"/boards/{board.board}" + (f"?{query}" if query else ""),
    }
