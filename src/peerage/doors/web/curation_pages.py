"""Curating sessions: disagreements that people decide, comments, tags, names, and deletion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Form, Query
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from peerage.adjudication import MAX_COMMENT, MAX_TITLE, SIDES, Disagreement, Sides
from peerage.council.counting import count, places
from peerage.doors.http.access import READ, Admin, Runner, Serving
from peerage.doors.http.adjudication_routes import (
    CommentGiven,
    DecisionGiven,
    NameGiven,
    comment_session,
    decide_session,
    find_disagreements,
    name_session,
    undo_decision,
)
from peerage.doors.http.data_routes import delete_or_restore, tag_sessions
from peerage.doors.http.session_routes import SessionId
from peerage.doors.web.templating import PageRoute, page
from peerage.event_facts import decision_of
from peerage.events import read_events
from peerage.hosted_seasons import find_plan, season_names
from peerage.reports.session_options import DeleteOptions, TagOptions
from peerage.service import Service
from peerage.view import SessionView

router = APIRouter(route_class=PageRoute, include_in_schema=False, dependencies=[READ])

N_LISTED = 100
N_DELETED = 200


@router.get("/adjudicate")
async def adjudicate(
    request: Request,
    service: Serving,
    sides: Sides = "people_models",
    season: Annotated[str, Query(max_length=100)] = "",
) -> Response:
    """List the sessions on which reviewers disagree most."""
    values = await service.read(list_disagreements, service, sides, season)
    values |= {"sides": sides, "season": season, "all_sides": SIDES}
    return await page(request, "adjudicate.html", here="/judges", **values)


def list_disagreements(service: Service, sides: Sides, season: str) -> dict[str, Any]:
    disagreements = find_disagreements(service, sides, season)
    shown = disagreements[:N_LISTED]
    entries = {one.id: one for one in service.store.sessions()}
    lines = [
        {"one": one, "entry": entries[one.session_id], "decision": _decision(service, one)}
        for one in shown
        if one.session_id in entries
    ]
    plan = find_plan(service.store, season) if season else None
    decided = [line["decision"].correct for line in lines if line["decision"]]
    names = [name for correct in decided for name in correct]
    return {"lines": lines, "n": len(disagreements), "plan": plan, "names_decided": names}


def _decision(service: Service, one: Disagreement) -> Any:
    return decision_of(read_events(service.store.events(one.session_id)))


@router.get("/adjudicate/{id}")
async def adjudicate_one(
    request: Request,
    service: Serving,
    session_id: SessionId,
    sides: Sides = "people_models",
    season: Annotated[str, Query(max_length=100)] = "",
) -> Response:
    """Show one session with the rankings of both sides, and a form for a decision."""
    view = await service.read(service.reports.session, session_id)
    disagreements = await service.read(find_disagreements, service, sides, season)
    ids = [one.session_id for one in disagreements]
    at = ids.index(view.id) if view.id in ids else -1
    rankings = rankings_of(view)
    return await page(
        request,
        "adjudicate_one.html",
        here="/judges",
        p=view,
        rankings=rankings,
        favourites=favourites_of(rankings),
        sides=sides,
        season=season,
        number=at + 1,
        n=len(ids),
        next_id=ids[at + 1] if 0 <= at < len(ids) - 1 else "",
        previous_id=ids[at - 1] if at > 0 else "",
    )


def favourites_of(
    rankings: Iterable[tuple[str, bool, Mapping[str, int]]],
) -> list[tuple[str, str, int, int]]:
    """Return the first choices of people and of models: side, author, ballots, all ballots."""
    firsts: dict[str, Counter[str]] = {"People": Counter(), "Models": Counter()}
    n_ballots: Counter[str] = Counter()
    for _, is_person, places_by_author in rankings:
        side = "People" if is_person else "Models"
        n_ballots[side] += 1
        firsts[side].update(name for name, place in places_by_author.items() if place == 1)
    return [
        (side, *counts.most_common(1)[0], n_ballots[side])
        for side, counts in firsts.items()
        if counts
    ]


def rankings_of(view: SessionView) -> list[tuple[str, bool, dict[str, int]]]:
    """Return name, whether it is a person, and places by author for each reviewer; people first."""
    rankings = []
    for ballot, review in view.by_people:
        if not review.abstained:
            rankings.append((ballot.reviewer, True, places(count(ballot, review))))
    reviews = {(review.reviewer, review.round): review for review in view.session.reviews}
    last = {b.reviewer: b for b in view.session.ballots if (b.reviewer, b.round) in reviews}
    for name, ballot in last.items():
        counted = count(ballot, reviews[name, ballot.round], view.options.rubric)
        rankings.append((name, False, places(counted)))
    return rankings


@router.post("/adjudicate/{id}")
async def decide(
    request: Request,
    service: Serving,
    client: Runner,
    session_id: SessionId,
    note: Annotated[str, Form(max_length=MAX_COMMENT)] = "",
    to: Annotated[str, Form(max_length=500)] = "",
    undo: Annotated[str, Form()] = "",
) -> Response:
    """Store a decision, and go to the next session."""
    correct = tuple(str(name) for name in (await request.form()).getlist("correct"))
    if undo:
        await undo_decision(client, service, session_id)
    else:
        given = DecisionGiven(correct=correct, note=note)
        await decide_session(client, service, session_id, given)
    return RedirectResponse(
        to if to.startswith("/adjudicate") else f"/adjudicate/{session_id}", 303
    )


# -- comments, tags, names -------------------------------------------------------------------------


@router.post("/sessions/{id}/comments")
async def add_comment(
    service: Serving,
    client: Runner,
    session_id: SessionId,
    text: Annotated[str, Form(max_length=MAX_COMMENT)],
    to: Annotated[str, Form(max_length=500)] = "",
) -> Response:
    """Add a comment to a session."""
    await comment_session(client, service, session_id, CommentGiven(text=text))
    back = to if to.startswith("/adjudicate") else f"/sessions/{quote(session_id)}#notes"
    return RedirectResponse(back, 303)


@router.post("/sessions/{id}/tags")
async def change_tags(
    service: Serving,
    client: Runner,
    session_id: SessionId,
    add: Annotated[str, Form(max_length=500)] = "",
    remove: Annotated[str, Form(max_length=500)] = "",
) -> Response:
    """Add tags to a session, or remove one."""
    options = TagOptions(
        sessions=(session_id,),
        add=tuple(add.replace(",", " ").split()),
        remove=(remove,) if remove else (),
    )
    await tag_sessions(client, service, options)
    return RedirectResponse(f"/sessions/{quote(session_id)}#notes", 303)


@router.post("/sessions/{id}/name")
async def rename(
    service: Serving,
    client: Runner,
    session_id: SessionId,
    name: Annotated[str, Form(max_length=MAX_TITLE)] = "",
) -> Response:
    """Give a session a name."""
    await name_session(client, service, session_id, NameGiven(name=name))
    return RedirectResponse(f"/sessions/{quote(session_id)}#notes", 303)


# -- deletion --------------------------------------------------------------------------------------


@router.post("/sessions/{id}/delete")
async def delete_session(
    request: Request, service: Serving, client: Admin, session_id: SessionId
) -> Response:
    """Delete a session: boards, audits and lists leave it out."""
    options = DeleteOptions(sessions=(session_id,))
    done = await delete_or_restore(client, service, options)
    return await after_deletion(request, done, f"/sessions/{quote(session_id)}")


async def after_deletion(request: Request, done: Mapping[str, Any], to: str) -> Response:
    """Go to a page; first name the folders that still show what was deleted, if there are any."""
    if not done["publish_again"]:
        return RedirectResponse(to, 303)
    folders = done["publish_again"]
    return await page(request, "publish_again.html", here="/settings", folders=folders, to=to)


@router.get("/deleted")
async def show_deleted(request: Request, service: Serving, season: str = "") -> Response:
    """List the deleted sessions and seasons, to restore them."""
    values = await service.read(list_deleted, service)
    return await page(request, "deleted.html", here="/settings", just=season, **values)


def list_deleted(service: Service) -> dict[str, Any]:
    entries = service.store.sessions(deleted=True)[::-1]
    gone = [season for season in service.store.seasons() if service.store.is_deleted(season)]
    seasons = list(season_names(service.store, gone).items())
    alone = [one for one in entries if one.season not in gone]
    return {"seasons": seasons, "sessions": alone[:N_DELETED], "n": len(alone)}


@router.post("/restore")
async def restore(
    service: Serving,
    client: Admin,
    session: Annotated[str, Form()] = "",
    season: Annotated[str, Form()] = "",
) -> Response:
    """Restore a session or a season."""
    options = DeleteOptions(
        sessions=(session,) if session else (), seasons=(season,) if season else (), undo=True
    )
    await delete_or_restore(client, service, options)
    to = f"/sessions/{quote(session)}" if session else f"/seasons/{quote(season)}"
    return RedirectResponse(to, 303)
