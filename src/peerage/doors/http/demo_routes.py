"""HTTP routes for the demo: start it, read its progress and results, and delete it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends
from starlette.requests import HTTPConnection

from peerage.doors.demo_store import Demo
from peerage.doors.http.access import READ, RUN, Serving
from peerage.doors.http.problems import RESPONSES

router = APIRouter(prefix="/api/demo", tags=["demo"], responses=RESPONSES)


def get_demo(connection: HTTPConnection) -> Demo:
    """Return the demo of an app."""
    demo: Demo = connection.app.state.demo
    return demo


HeldDemo = Annotated[Demo, Depends(get_demo)]


@router.post("", status_code=202, dependencies=[RUN])
async def start_demo(service: Serving, demo: HeldDemo) -> dict[str, Any]:
    """Start the demo: a simulated season with planted faults, in a store of its own."""
    await demo.start()
    return await service.read(demo.document)


@router.get("", dependencies=[READ])
async def read_demo(service: Serving, demo: HeldDemo) -> dict[str, Any]:
    """Return the demo's progress and, at its end, what was planted and what was found."""
    return await service.read(demo.document)


@router.delete("", dependencies=[RUN])
async def delete_demo(service: Serving, demo: HeldDemo) -> dict[str, Any]:
    """Stop the demo and delete its store."""
    await demo.close()
    return await service.read(demo.document)
