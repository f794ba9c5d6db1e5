"""A model that repeats the question, and ranks answers in the order it saw them."""

from __future__ import annotations

import json

from peerage.providers import Call, OnText, Provider, Reply
from peerage.types import Usage


class Echo(Provider):
    """Needs no connection, so there is nothing to open and nothing to close."""

    is_free = True
    streams = True

    async def complete(self, call: Call, on_text: OnText | None = None) -> Reply:
        if call.ballot is None:
            text = f"{call.seat.name} heard: {call.query.text}"
            if on_text is not None:
                on_text(text)  # whoever watches sees it as it comes
        else:
            labels = [f"Response {slot.label}" for slot in call.ballot.slots]
            text = json.dumps({"ballot": call.code, "ranking": labels})
        return Reply(text, Usage(len(call.prompt.split()), len(text.split())))
