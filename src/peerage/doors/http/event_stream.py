"""Server-sent events: a session's events as a stream that survives reconnection."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import aclosing

from starlette.responses import StreamingResponse

from peerage.doors.http.problems import status_of
from peerage.errors import PeerageError
from peerage.events import NOT_STORED, event_json
from peerage.tasks import in_batches
from peerage.types import Event

HEARTBEAT_S = 10.0
COMMENT = ": still here\n\n"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def stream_events(events: AsyncIterator[Event]) -> StreamingResponse:
    """The response that tells events as they happen, with a comment where nothing does."""
    return StreamingResponse(_lines(events), media_type="text/event-stream", headers=HEADERS)


async def _lines(events: AsyncIterator[Event]) -> AsyncIterator[str]:
    yield ": events of a session\n\n"
    try:
        async with aclosing(in_batches(events, HEARTBEAT_S)) as batches:
            async for batch in batches:
                yield "".join(map(_message, batch)) or COMMENT
    except PeerageError as error:
        document = {"status": int(status_of(error)), "detail": error.message, "hint": error.hint}
        yield f"event: problem\ndata: {json.dumps(document)}\n\n"


def _message(event: Event) -> str:
    """One event; what is not stored has no id, so a client resumes at the last that is."""
    id_ = "" if event.seq == NOT_STORED else f"id: {event.seq}\n"
    return f"{id_}event: {event.kind}\ndata: {event_json(event)}\n\n"
