"""The pages of one session: ask a question, follow the session, read it afterwards."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header
from pydantic import ValidationError
from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.responses import (
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)

from peerage.config import Settings
from peerage.config.rubrics import rubric_names
from peerage.doors.http.access import READ, RUN, Serving
from peerage.doors.http.gate import MAX_BODY_BYTES
from peerage.doors.http.season_routes import Host
from peerage.doors.http.session_routes import SessionId
from peerage.doors.render.layout import blocks_markdown
from peerage.doors.render.phrases import session_flags
from peerage.doors.render.session_views import session_blocks
from peerage.doors.web.home_pages import ask_page
from peerage.doors.web.live_sessions import LiveSessions
from peerage.doors.web.session_parts import response_of
from peerage.doors.web.templating import PageRoute, headers_with, image_response, page
from peerage.errors import InputError, NotFoundError, PeerageError
from peerage.messages import MAX_IMAGE_BYTES, image_of_bytes, read_image, read_images
from peerage.reports.session_options import ReplayOptions
from peerage.reports.sessions import replay_session, session_document
from peerage.rules import rules
from peerage.session_requests import SessionRequest
from peerage.stores import Store
from peerage.types import Image
from peerage.view import SessionView

router = APIRouter(route_class=PageRoute, include_in_schema=False, dependencies=[READ])

N_NEAR = 200  # how many of the latest sessions are searched for the next newer one
# The fields of the form apart from question, seats and images; empty fields use the defaults.
ASK_OPTIONS = ("category", "verdict", "rubric", "rule", "safety_gate", "budget_usd", "after")


async def view_of(service: Serving, session_id: SessionId) -> SessionView:
    """Return the session in the current state of its log."""
    return await service.read(service.reports.session, session_id)


View = Annotated[SessionView, Depends(view_of)]


@router.post("/ask", dependencies=[RUN])
async def ask(request: Request, service: Serving, host: Host) -> Response:
    """Start a session from the form and go to its page, or show the form again with the error."""
    async with request.form(max_part_size=MAX_BODY_BYTES) as form:
        query, after = (str(form.get(name) or "") for name in ("query", "after"))
        seats = tuple(map(str, form.getlist("seats")))
        try:
            sent = [one for one in form.getlist("images") if _is_sent(one)]
            images = read_images([await _image_of(one) for one in sent])
            id_ = await service.start(_request_of(form, query, seats, images, service.settings))
        except PeerageError as error:
            return await ask_page(request, service, host, query, after, chosen=seats, error=error)
    return RedirectResponse(f"/sessions/{id_}", 303)


def _request_of(
    form: FormData,
    query: str,
    seats: tuple[str, ...],
    images: tuple[Image, ...],
    settings: Settings,
) -> SessionRequest:
    """Return the question and the options of a form; if all seats are chosen, none are named."""
    options: dict[str, Any] = {name: form[name] for name in ASK_OPTIONS if form.get(name)}
    if set(seats) == {seat.name for seat in settings.seats}:
        seats = ()
    try:
        return SessionRequest(query=query, seats=seats, images=images, **options)
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"{str(first['loc'][0]).replace('_', ' ')}: {first['msg']}.") from None


def _is_sent(field: UploadFile | str) -> bool:
    """Return whether an image was sent; without a file, a form sends an empty file name."""
    return bool(field if isinstance(field, str) else field.filename)


async def _image_of(sent: UploadFile | str) -> Image:
    """Return an image from an uploaded file, a link or a data URL."""
    if isinstance(sent, str):
        return read_image(sent, "images")
    return image_of_bytes(await sent.read(MAX_IMAGE_BYTES + 1), sent.filename or "the upload")


@router.get("/sessions/{id}")
async def show(
    request: Request, service: Serving, view: View, names: str = "", open: str = ""
) -> Response:
    """Return the page of a session, running or finished; if a rule is given, scored by it."""
    session, query = view.session, request.query_params
    changed: dict[str, Any] = {n: query[n] for n in ReplayOptions.model_fields if query.get(n)}
    scored = None
    if changed and session.scores:
        scored = await service.read(
            replay_session, view, service.settings, ReplayOptions(**changed)
        )
    used = [view.options.rubric.name] if view.options.rubric else []
    is_concluded = session.verdict is not None or session.finished
    kind, _, place = open.partition("/")
    return await page(
        request,
        "session_page.html",
        here="/sessions",
        p=view,
        scored=scored,
        options=scored.options if scored else view.options,
        rules=rules.names(),
        rubrics=list(dict.fromkeys([*rubric_names(service.settings), *used, "none"])),
        shown={"shown": True, "hidden": False}.get(names, is_concluded),
        opened_review=review_at(view, place) if kind == "reviews" else None,
        opened_answer=answer_at(view, place) if kind == "answers" else None,
        around=await service.read(neighbours, service.store, view.id),
    )


@router.post("/sessions/{id}/stop", dependencies=[RUN])
async def stop(service: Serving, session_id: SessionId) -> Response:
    """Cancel a running session, as `DELETE /api/sessions/{id}` does, and show the result so far."""
    id_ = await service.full_id(session_id)
    await service.cancel(id_)
    return RedirectResponse(f"/sessions/{id_}", 303)


@router.get("/sessions/{id}/live")
async def live(
    request: Request,
    service: Serving,
    session_id: SessionId,
    after: int = -1,
    last_event_id: Annotated[str, Header()] = "",
) -> Response:
    """Return the changing parts of a session's page as a stream, from a place in its log."""
    id_ = await service.full_id(session_id)
    last = int(last_event_id) if last_event_id.isdecimal() else -1
    sessions: LiveSessions = request.app.state.live_sessions
    headers = {**headers_with(""), "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    stream = sessions.stream(id_, max(after, last))
    return StreamingResponse(stream, media_type="text/event-stream", headers=headers)


@router.get("/sessions/{id}/answers/{index}")
async def answer(request: Request, view: View, index: int) -> Response:
    """Return one complete answer: a part of the session's page, or that page with it open."""
    one = answer_at(view, str(index))
    if one is None:
        raise NotFoundError(f"this session has no answer number {index}.")
    if "hx-request" not in request.headers:
        return RedirectResponse(f"/sessions/{view.id}?open=answers/{index}", 303)
    return await page(request, "answer_drawer.html", p=view, one=one)


@router.get("/sessions/{id}/images/{number}")
async def image(view: View, number: int) -> Response:
    """Return an image of the question, by its number from 1."""
    return image_response(view.query, number)


@router.get("/sessions/{id}/reviews/{place}")
async def review(request: Request, view: View, place: str) -> Response:
    """Return one review of one answer: a part of the session's page, or that page with it open.

    `place` is round.reviewer.candidate, such as `0.1.2`.
    """
    one = review_at(view, place)
    if one is None:
        raise NotFoundError("there is no such review.")
    if "hx-request" not in request.headers:
        return RedirectResponse(f"/sessions/{view.id}?open=reviews/{place}", 303)
    return await page(request, "review_drawer.html", p=view, one=one)


@router.get("/sessions/{id}/json")
async def download(service: Serving, view: View) -> Response:
    """Return everything about a session, as a file."""
    document = await service.read(session_document, view)
    name = f'attachment; filename="session-{view.id}.json"'
    return JSONResponse(document, headers={**headers_with(""), "Content-Disposition": name})


@router.get("/sessions/{id}/markdown")
async def markdown(service: Serving, view: View) -> Response:
    """Return a complete session as Markdown."""
    text = await service.read(lambda: blocks_markdown(session_blocks(view)))
    return PlainTextResponse(text, media_type="text/markdown", headers=dict(headers_with("")))


def answer_at(view: SessionView, place: str) -> dict[str, Any] | None:
    """Return the member with this number and its answer, or None."""
    if not place.isdecimal() or len(place) > 6 or int(place) >= len(view.members):
        return None
    member = view.members[int(place)]
    response = response_of(view, member.name)
    return {"member": member, "response": response} if response else None


def neighbours(store: Store, id: str) -> tuple[str, str]:
    """Return the ids of the next older and newer session; empty if there is none."""
    older = [one.id for one in store.sessions(limit=1, before=id)]
    latest = [one.id for one in store.sessions(limit=N_NEAR)]
    at = latest.index(id) if id in latest else len(latest)
    return (older[0] if older else "", latest[at + 1] if at + 1 < len(latest) else "")


def review_at(view: SessionView, place: str) -> dict[str, Any] | None:
    """Return the complete review at a place of the grid, or None if there is none."""
    parts = place.split(".")
    if len(parts) != 3 or not all(part.isdecimal() for part in parts):
        return None
    number, by, of = map(int, parts)
    if max(by, of) >= len(view.members):
        return None
    reviewer, candidate = view.members[by], view.members[of]
    review = view.review(reviewer.name, number)
    if review is None:
        return None
    return {
        "reviewer": reviewer,
        "candidate": candidate,
        "remark": review.remark_by_candidate.get(candidate.name),
        "remarks": review.remarks,
        "order_known": review.is_order_known,
        "flags": session_flags(("", flag) for flag in review.flags),
        "own_answer": review.own_answer,
        "raw": review.raw,
    }
