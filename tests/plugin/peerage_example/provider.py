"""A model that repeats the question, and ranks answers in the order it saw them."""

from __future__ import annotations

import json

from peerage.plugins import Call, OnText, Provider, Reply, Usage


class Echo(Provider):
    """A provider without a connection, so it has nothing to open or close."""

    is_free = True
    streams = True

    async def complete(self, call: Call, on_text: OnText | None = None) -> Reply:
        if call.ballot is None:
            text = f"{call.seat.name} was asked: {call.query.text}"
            if on_text is not None:
                on_text(text)  # shown while it arrives
        else:
            labels = [f"Response {slot.label}" for slot in call.ballot.slots]
            text = json.dumps({"ballot": call.code, "ranking": labels})
        return Reply(text, Usage(len(call.prompt.split()), len(text.split())))
