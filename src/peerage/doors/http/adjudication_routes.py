"""HTTP routes for disagreements, decisions on them, comments on sessions, and their names."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Query
from pydantic import BaseModel, ConfigDict, Field

from peerage.adjudication import (
    MAX_COMMENT,
    MAX_TITLE,
    Disagreement,
    Sides,
    comment,
    disagreements,
    record_decision,
    rename_session,
    take_back_decision,
)
from peerage.doors.http.access import READ, Runner, Serving
from peerage.doors.http.problems import RESPONSES
from peerage.doors.http.session_routes import SessionId
from peerage.hosted_seasons import find_plan
from peerage.reports.page_facts import stored_rows
from peerage.service import Service

router = APIRouter(prefix="/api", tags=["curation"], responses=RESPONSES)


class DecisionGiven(BaseModel):
    """Which answers of a session are correct, by the names of their authors."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    correct: tuple[str, ...] = Field(default=(), max_length=1_000)
    note: str = Field(default="", max_length=MAX_COMMENT, description="The reason.")


class CommentGiven(BaseModel):
    """A comment on a session."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str = Field(max_length=MAX_COMMENT)


class NameGiven(BaseModel):
    """A name for a session."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(max_length=MAX_TITLE)


@router.get("/disagreements", dependencies=[READ])
async def list_disagreements(
    service: Serving,
    sides: Annotated[Sides, Query(description="The two sides to compare.")] = "people_models",
    season: Annotated[str, Query(max_length=100)] = "",
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> dict[str, Any]:
    """List sessions, those with the largest disagreement between the two sides first."""
    sessions = await service.read(find_disagreements, service, sides, season)
    return {"sides": sides, "sessions": [one.document() for one in sessions[:limit]]}


def find_disagreements(service: Service, sides: Sides, season: str = "") -> list[Disagreement]:
    """Return the sessions of one season, or of all, with the largest disagreement first."""
    rows = stored_rows(service.reports)
    of_season = find_plan(service.store, season).season if season else None
    return disagreements(rows, sides, of_season) if rows is not None else []


@router.post("/sessions/{id}/decision", status_code=201)
async def decide_session(
    client: Runner,
    service: Serving,
    session_id: SessionId,
    given: Annotated[
        DecisionGiven, Body(examples=[{"correct": ["sonnet"], "note": "It cites the source."}])
    ],
) -> dict[str, Any]:
    """Decide which answers of a session are correct; the log records who decided, and when.

    Only its author or an admin can change a decision.
    """
    decision = given.correct, given.note, service.clock, client.name, "admin" in client.allowed
    fact = await service.read(record_decision, service.store, session_id, *decision)
    return {"correct": list(fact.correct), "judged": list(fact.judged), "by": fact.by}


@router.delete("/sessions/{id}/decision")
async def undo_decision(client: Runner, service: Serving, session_id: SessionId) -> dict[str, Any]:
    """Take a decision back; only its author or an admin can do so."""
    decided = service.clock, client.name, "admin" in client.allowed
    await service.read(take_back_decision, service.store, session_id, *decided)
    return {"correct": None}


@router.post("/sessions/{id}/comments", status_code=201)
async def comment_session(
    client: Runner,
    service: Serving,
    session_id: SessionId,
    given: Annotated[CommentGiven, Body(examples=[{"text": "The second answer is outdated."}])],
) -> dict[str, Any]:
    """Add a comment to a session."""
    read = comment, service.store, session_id, given.text, service.clock, client.name
    fact = await service.read(*read)
    return {"text": fact.text, "by": fact.by}


@router.post("/sessions/{id}/name")
async def name_session(
    client: Runner,
    service: Serving,
    session_id: SessionId,
    given: Annotated[NameGiven, Body(examples=[{"name": "The sky"}])],
) -> dict[str, Any]:
    """Give a session a name; with an empty name, the session is shown by its question again."""
    await service.check_own_session(session_id)
    fact = await service.read(
        rename_session, service.store, session_id, given.name, service.clock, client.name
    )
    return {"name": fact.name}
