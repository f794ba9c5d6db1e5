"""A model's own page, and two models head to head."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from peerage.doors.http.access import READ, Serving
from peerage.doors.render.model_names import clear_names
from peerage.doors.render.phrases import window_of, window_words
from peerage.doors.web.judge_pages import findings_in_words
from peerage.doors.web.templating import PageRoute, kept_page
from peerage.errors import NotFoundError, PeerageError
from peerage.reports.options import AuditOptions, ModelBoardOptions
from peerage.reports.page_facts import (
    ModelFacts,
    duels,
    facts_of_models,
    marks_of,
    questions_of,
    reviewer_names,
    rivals_of,
    sessions_of,
    stored_rows,
    within,
)
from peerage.service import Service

router = APIRouter(route_class=PageRoute, include_in_schema=False, dependencies=[READ])

DEFAULT_SINCE = ModelBoardOptions().since

N_SHOWN = 6  # how many of the best and of the worst sessions of a model are shown
N_DUELS = 50


@router.get("/models")
async def model_page(
    request: Request, service: Serving, name: str, since: str = DEFAULT_SINCE
) -> Response:
    """Return a model's page: its rank, rivals, marks and reviews."""

    def make() -> dict[str, Any]:
        return {"address": "", "name": name, **model_values(service, name, since)}

    return await kept_page(request, "model_page.html", "/boards/models", make)


@router.get("/models/versus")
async def versus_page(
    request: Request, service: Serving, a: str, b: str, since: str = DEFAULT_SINCE
) -> Response:
    """Return the sessions in which two models met, within the window of the board."""

    def make() -> dict[str, Any]:
        return {"address": "", **versus_values(service, a, b, since)}

    return await kept_page(request, "versus_page.html", "/boards/models", make)


def versus_values(service: Service, a: str, b: str, since: str) -> dict[str, Any]:
    """Return all values of the page of two models."""
    stored = stored_rows(service.reports)
    rows = within(stored, since) if stored is not None else None
    met = duels(rows, a, b) if rows is not None else []
    if not met:
        raise NotFoundError(
            f"no other reviewer has ranked both of these models in {window_words(since)}.",
            hint="" if since == "all" else "Add since=all to the address to look at all time.",
        )
    n = sum(duel.n for duel in met)
    others = rivals_of(rows, a) if rows is not None else [b]
    at = others.index(b)
    return {
        "a": a,
        "b": b,
        "rivals": [others[(at + step) % len(others)] for step in (1, -1)],
        "short": clear_names((a, b)),
        "since": since,
        "window": window_words(since),
        "duels": met[:N_DUELS],
        "n_more": max(0, len(met) - N_DUELS),
        "questions": questions_of(service.store, (one.session_id for one in met[:N_DUELS])),
        "above": sum(duel.share * duel.n for duel in met) / n,
        "n_ballots": n,
    }


def model_values(service: Service, name: str, since: str) -> dict[str, Any]:
    """Return all values of a model's page."""
    board = service.reports.board(ModelBoardOptions(since=since, matrix=True))
    everything = stored_rows(service.reports)
    if everything is None or name not in everything.names:
        raise NotFoundError(f"no reviews by or about {name!r}.")
    stored = within(everything, since)
    sessions = sessions_of(stored, name)
    best, worst = sessions[:N_SHOWN], sessions[N_SHOWN:][-N_SHOWN:][::-1]
    findings = []
    if name in reviewer_names(everything):
        with suppress(PeerageError):  # raised if all its reviews are left out
            audit = service.reports.audit(AuditOptions(reviewer=name))
            findings = findings_in_words(audit)
    return {
        "since": since,
        "window": window_of(board),
        "n_outside": board.n_left_out,
        "row": next((row for row in board.rows if row["model"] == name), None),
        "n_models": len(board),
        "rivals": _rivals(board.notes.get("matrix"), name),
        "marks": marks_of(stored, name),
        "best": best,
        "worst": worst,
        "questions": questions_of(service.store, (one.session_id for one in [*best, *worst])),
        "findings": findings,
        "facts": facts_of_models(service.store).get(name, ModelFacts()),
    }


def _rivals(matrix: Any, name: str) -> list[tuple[str, float, int]]:
    """Return each rival, how often the model beats it, and the number of ballots."""
    if not matrix or name not in matrix["models"]:
        return []
    i = matrix["models"].index(name)
    return [
        (other, rate, matrix["n"][i][j])
        for j, (other, rate) in enumerate(zip(matrix["models"], matrix["above"][i], strict=True))
        if rate is not None and other != name
    ]
