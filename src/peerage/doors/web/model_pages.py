"""A model's own page, and the sessions that decided between two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from peerage.doors.http.access import READ, Serving
from peerage.doors.web.judge_pages import findings_in_words
from peerage.doors.web.templating import PageRoute, page
from peerage.errors import NotFoundError, PeerageError
from peerage.events import opening_of
from peerage.reports.held_rows import stored_rows
from peerage.reports.options import AuditOptions, ModelBoardOptions
from peerage.reports.page_facts import (
    ModelFacts,
    SessionShare,
    duels,
    facts_of_models,
    marks_of,
    sessions_of,
)
from peerage.service import Service
from peerage.stores import Store

router = APIRouter(route_class=PageRoute, include_in_schema=False, dependencies=[READ])

N_SHOWN = 6
N_DUELS = 50


@router.get("/models")
async def model_page(request: Request, service: Serving, name: str) -> Response:
    """One model: where it stands, whom it beats, what it is marked for, how it reviews."""
    made = await service.read(_about, service, name)
    return page(request, "model_page.html", here="/boards/models", name=name, **made)


@router.get("/models/versus")
async def versus(request: Request, service: Serving, a: str, b: str) -> Response:
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
