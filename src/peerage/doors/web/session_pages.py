"""Ask a question, follow the session, look at it afterwards: the routes of one session's pages."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Form, Header
from starlette.requests import Request
from starlette.responses import (
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)

from peerage.config.rubrics import rubric_names
from peerage.doors.http.access import READ, RUN, Serving
from peerage.doors.http.session_routes import SessionId
from peerage.doors.render.layout import blocks_markdown
from peerage.doors.render.phrases import session_flags
from peerage.doors.render.session_views import session_blocks
from peerage.doors.web.live_fragments import LiveSessions
from peerage.doors.web.session_picture import Member, SessionPicture, names_shown
from peerage.doors.web.templating import PageRoute, headers_with, page
from peerage.errors import NotFoundError
from peerage.reports.options import ReplayOptions
from peerage.reports.sessions import remarks_of
from peerage.rules import rules
from peerage.service import Service, SessionRequest
from peerage.types import ScoringOptions

router = APIRouter(route_class=PageRoute, include_in_schema=False, dependencies=[READ])


@router.post("/ask", dependencies=[RUN])
async def ask(
    service: Serving,
    query: Annotated[str, Form()],
    seats: Annotated[list[str], Form()] = [],  # noqa: B006 - the form's own default
    category: Annotated[str, Form()] = "",
    verdict: Annotated[str, Form()] = "",
    rubric: Annotated[str, Form()] = "",
    rule: Annotated[str, Form()] = "",
    safety_gate: Annotated[str, Form()] = "",
    budget_usd: Annotated[str, Form()] = "",
    after: Annotated[str, Form()] = "",
) -> Response:
    """Begin a session as the form says, and go to its page."""
    given: dict[str, Any] = {
        "verdict": verdict,
        "rubric": rubric,
        "rule": rule,
        "safety_gate": safety_gate,
        "budget_usd": budget_usd,
    }
    names = tuple(seats)
    everyone = {seat.name for seat in service.settings.seats}
    request = SessionRequest(
        query=query,
        category=category,
        seats=() if set(names) == everyone else names,
        after=after,
        **{name: value for name, value in given.items() if value != ""},
    )
    id_ = await service.start(request)
    return RedirectResponse(f"/sessions/{id_}", 303)


@router.get("/sessions/{id}")
async def show(
    request: Request,
    service: Serving,
    session_id: SessionId,
    names: str = "",
    open: str = "",
) -> Response:
    """The page of a session, whether it runs or is over; with a rule, as scored by that."""
    id_ = await service.full_id(session_id)
    picture = await picture_of(service, id_)
    given: dict[str, Any] = dict(request.query_params)
    changed = {name: given[name] for name in ReplayOptions.model_fields if given.get(name)}
    scored = None
    if changed and picture.session.scores:
        scored = await service.read(service.reports.replay, id_, ReplayOptions(**changed))
    return page(
        request,
        "session_page.html",
        here="/sessions",
        p=picture,
        id=id_,
        scored=scored,
        options=scored.options if scored else picture.options,
        rules=rules.names(),
        rubrics=rubrics_of(service, picture.options),
        shown=names_shown(picture, names),
        opened_review=review_of(picture, open.removeprefix("reviews/"))
        if open.startswith("reviews/")
        else None,
    )


@router.get("/sessions/{id}/live")
async def live(
    request: Request,
    service: Serving,
    session_id: SessionId,
    after: int = -1,
    last_event_id: Annotated[str, Header()] = "",
) -> Response:
    """The parts of a session's page as they change, from a place in its log on."""
    id_ = await service.full_id(session_id)
    seen = int(last_event_id) if last_event_id.isdecimal() else -1
    sessions: LiveSessions = request.app.state.live_sessions
    headers = {**headers_with(""), "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    stream = sessions.stream(id_, max(after, seen))
    return StreamingResponse(stream, media_type="text/event-stream", headers=headers)


@router.get("/sessions/{id}/answers/{index}")
async def answer(request: Request, service: Serving, session_id: SessionId, index: int) -> Response:
    """One answer in full."""
    picture = await picture_of(service, await service.full_id(session_id))
    member = _member(picture, index)
    response = picture.response(member)
    if response is None:
        raise NotFoundError("there is no such answer.")
    return page(request, "answer_drawer.html", p=picture, member=member, response=response)


@router.get("/sessions/{id}/reviews/{place}")
async def review(request: Request, service: Serving, session_id: SessionId, place: str) -> Response:
    """What one reviewer said of one answer; the place is round, reviewer and candidate: `0.1.2`."""
    picture = await picture_of(service, await service.full_id(session_id))
    one = review_of(picture, place)
    if one is None:
        raise NotFoundError("there is no such review.")
    return page(request, "review_drawer.html", p=picture, one=one)


@router.get("/sessions/{id}/json")
async def download(service: Serving, session_id: SessionId) -> Response:
    """Everything about a session, as a file."""
    stored = await service.read(service.reports.session, session_id)
    document = await service.read(stored.document)
    name = f'attachment; filename="session-{stored.session.id}.json"'
    return JSONResponse(document, headers={**headers_with(""), "Content-Disposition": name})


@router.get("/sessions/{id}/markdown")
async def markdown(service: Serving, session_id: SessionId) -> Response:
    """A session as Markdown, in full."""
    stored = await service.read(service.reports.session, session_id)
    view = await service.read(stored.view)
    text = blocks_markdown(session_blocks(view))
    return PlainTextResponse(text, media_type="text/markdown", headers=dict(headers_with("")))


# -- what they show --------------------------------------------------------------------------------


async def picture_of(service: Service, id: str) -> SessionPicture:
    """The session as its log has it now."""
    events = await service.read(service.store.events, id)
    return await service.read(SessionPicture.of, events, service.settings)


def rubrics_of(service: Service, options: ScoringOptions) -> list[str]:
    """The rubrics there are to choose from, and none."""
    used = [options.rubric.name] if options.rubric else []
    return list(dict.fromkeys([*rubric_names(service.settings), *used, "none"]))


def review_of(picture: SessionPicture, place: str) -> dict[str, Any] | None:
    """The review at a place of the grid, in full, or None where there is none."""
    parts = place.split(".")
    if len(parts) != 3 or not all(part.isdecimal() for part in parts):
        return None
    number, by, of = map(int, parts)
    if max(by, of) >= len(picture.members):
        return None
    reviewer, candidate = picture.members[by], picture.members[of]
    ballot, said = picture.ballot(reviewer.name, number), picture.review(reviewer.name, number)
    if ballot is None or said is None:
        return None
    counted = picture.counted(ballot, said)
    remarks = remarks_of(ballot, said, counted)
    return {
        "reviewer": reviewer,
        "candidate": candidate,
        "remark": next((one for one in remarks if one.candidate == candidate.name), None),
        "remarks": remarks,
        "order_known": ballot.positions_known,
        "flags": session_flags(("", flag) for flag in counted.flags),
        "raw": said.raw,
    }


def _member(picture: SessionPicture, index: int) -> Member:
    if not 0 <= index < len(picture.members):
        raise NotFoundError("nobody has that number here.")
    return picture.members[index]
