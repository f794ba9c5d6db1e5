"""Responses: a session as the items and events of OpenAI's Responses protocol."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any

from peerage.doors.openai.council_requests import BALLOTS, ResponseRequest
from peerage.doors.openai.deliberation import (
    BallotCast,
    Outcome,
    ProgressLine,
    Step,
    VerdictWords,
    tokens,
)

BALLOT = "peerage:ballot"  # the type of an item of a response
Json = dict[str, Any]

# The protocol's names for an item with one part of text, by the item's type: the events of the
# part and of its text, the item's list of parts, and the part without its text.
TEXT_ITEMS: Mapping[str, tuple[str, str, str, Json]] = {
    "reasoning": (
        "response.reasoning_summary_part",
        "response.reasoning_summary_text",
        "summary",
        {"type": "summary_text"},
    ),
    "message": (
        "response.content_part",
        "response.output_text",
        "content",
        {"type": "output_text", "annotations": [], "logprobs": []},
    ),
}


class TextItem:
    """An item of a response whose text is sent in pieces, between opening and closing events."""

    def __init__(self, output: list[Json], item: Json, event: Callable[..., Json]) -> None:
        self.output, self.item, self.event = output, item, event
        self.index = len(output)
        output.append(item)
        self.part_event, self.text_event, self.parts, self.part = TEXT_ITEMS[item["type"]]
        self.at = {"item_id": item["id"], "output_index": self.index, f"{self.parts}_index": 0}
        self.sent_with_text: Json = {"logprobs": []} if "logprobs" in self.part else {}
        self.pieces: list[str] = []

    def open(self) -> list[Json]:
        part = {**self.part, "text": ""}
        return [
            self.event("response.output_item.added", output_index=self.index, item=self.item),
            self.event(f"{self.part_event}.added", **self.at, part=part),
        ]

    def say(self, piece: str) -> Json:
        self.pieces.append(piece)
        return self.event(f"{self.text_event}.delta", **self.at, delta=piece, **self.sent_with_text)

    def close(self, status: str | None) -> list[Json]:
        text = "".join(self.pieces)
        part = {**self.part, "text": text}
        item = self.output[self.index] = {**self.item, "status": status, self.parts: [part]}
        return [
            self.event(f"{self.text_event}.done", **self.at, text=text, **self.sent_with_text),
            self.event(f"{self.part_event}.done", **self.at, part=part),
            self.event("response.output_item.done", output_index=self.index, item=item),
        ]


class ResponseStream:
    """Turns the steps of a session into the events of a streamed response.

    The progress is one reasoning item, the verdict is a message; each item and part is announced
    before its pieces. Ballots are under `peerage`, and if the client requests it, also items of a
    type of our own.
    """

    def __init__(self, session_id: str, created: int, request: ResponseRequest) -> None:
        self.head = {
            "id": f"resp_{session_id}",
            "object": "response",
            "created_at": created,
            "model": request.model,
            "instructions": request.instructions,
            "previous_response_id": request.previous_response_id,
            "metadata": request.metadata,
            "background": bool(request.background),
        }
        self._has_ballot_items = BALLOTS in request.include
        self._ballots: list[Json] = []
        self._suffix = session_id
        self._n_events = 0
        self.output: list[Json] = []
        reasoning: Json = {"id": f"rs_{self._suffix}", "type": "reasoning"}
        reasoning |= {"summary": [], "status": None}
        self._progress = TextItem(self.output, reasoning, self._event)
        self._message: TextItem | None = None

    async def events(self, steps: AsyncGenerator[Step, None]) -> AsyncGenerator[Json, None]:
        """Yield every event, from created to completed, or incomplete if the text was cut off."""
        begun = self.begun()
        yield self._event("response.created", response=begun)
        yield self._event("response.in_progress", response=begun)
        for event in self._progress.open():
            yield event
        async with aclosing(steps):
            async for step in steps:
                for event in self._step(step):
                    yield event

    def begun(self) -> Json:
        """Return the response before anything has arrived."""
        return self._response("in_progress", [])

    def fail_response(self, error: Json) -> Json:
        """Return the response of a session that ended without a verdict."""
        fault = {"code": error["code"] or error["type"], "message": error["message"]}
        return self._response("failed", []) | {"error": fault}

    def _step(self, step: Step) -> list[Json]:
        if isinstance(step, ProgressLine):
            return [self._progress.say(f"{step.text}\n")] if self._message is None else []
        if isinstance(step, BallotCast):
            return self._ballot(step)
        if isinstance(step, VerdictWords) and step.function:
            return [*self._progress.close(None), *self._call_events(step)]
        if isinstance(step, Outcome) and step.refusal is not None:
            refused = self._refusal_events(step.refusal)
            return [*self._progress.close(None), *refused, self._end_response("completed", step)]
        if isinstance(step, Outcome) and step.function:
            return [self._end_response("completed", step)]
        opened = []
        if self._message is None:
            item: Json = {"id": f"msg_{self._suffix}", "type": "message", "role": "assistant"}
            item |= {"status": "in_progress", "content": []}
            self._message = TextItem(self.output, item, self._event)
            opened = [*self._progress.close(None), *self._message.open()]
        if isinstance(step, VerdictWords):
            return [*opened, *map(self._message.say, tokens(step.text))]
        status = "incomplete" if step.is_cut_off else "completed"
        closed = self._message.close(status)
        return [*opened, *closed, self._end_response(status, step)]

    def _call_events(self, step: VerdictWords) -> list[Json]:
        """Return the events for a call of the function that the client requires."""
        index, name = len(self.output), step.function
        item: Json = {"id": f"fc_{self._suffix}", "type": "function_call", "name": name}
        item |= {"call_id": f"call_{self._suffix}", "status": "in_progress", "arguments": ""}
        done = {**item, "status": "completed", "arguments": step.text}
        self.output.append(done)
        at = {"item_id": item["id"], "output_index": index}
        kind = "response.function_call_arguments"
        return [
            self._event("response.output_item.added", output_index=index, item=item),
            self._event(f"{kind}.delta", **at, delta=step.text),
            self._event(f"{kind}.done", **at, name=name, arguments=step.text),
            self._event("response.output_item.done", output_index=index, item=done),
        ]

    def _refusal_events(self, why: str) -> list[Json]:
        """Return the events of a message that says why the requested JSON is missing."""
        index = len(self.output)
        item: Json = {"id": f"msg_{self._suffix}", "type": "message", "role": "assistant"}
        part = {"type": "refusal", "refusal": why}
        done = {**item, "status": "completed", "content": [part]}
        self.output.append(done)
        at = {"item_id": item["id"], "output_index": index, "content_index": 0}
        begun = {**item, "status": "in_progress", "content": []}
        return [
            self._event("response.output_item.added", output_index=index, item=begun),
            self._event("response.content_part.added", **at, part={**part, "refusal": ""}),
            self._event("response.refusal.delta", **at, delta=why),
            self._event("response.refusal.done", **at, refusal=why),
            self._event("response.content_part.done", **at, part=part),
            self._event("response.output_item.done", output_index=index, item=done),
        ]

    def _ballot(self, step: BallotCast) -> list[Json]:
        ballot = {
            "reviewer": step.reviewer,
            "ranking": step.ranking,
            "abstained": step.abstained,
        }
        self._ballots.append(ballot)
        if not self._has_ballot_items:
            return []
        index = len(self.output)
        item = {"id": f"pb_{self._suffix}_{index}", "type": BALLOT, "status": "completed", **ballot}
        self.output.append(item)
        kinds = ("response.output_item.added", "response.output_item.done")
        return [self._event(kind, output_index=index, item=item) for kind in kinds]

    def _end_response(self, status: str, outcome: Outcome) -> Json:
        n_in, n_out = outcome.tokens
        usage = {
            "input_tokens": n_in,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": n_out,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": n_in + n_out,
            "cost": outcome.cost_usd,
        }
        response = self._response(status, self.output)
        response |= {"usage": usage}
        response["peerage"] = {**outcome.extras, "ballots": self._ballots}
        if outcome.is_cut_off:
            response["incomplete_details"] = {"reason": "max_output_tokens"}
        return self._event(f"response.{status}", response=response)

    def _response(self, status: str, output: list[Json]) -> Json:
        """Return the current response."""
        return {
            **self.head,
            "status": status,
            "output": output,
            "error": None,
            "incomplete_details": None,
            "parallel_tool_calls": False,
            "temperature": None,
            "tool_choice": "none",
            "tools": [],
            "top_p": None,
            "usage": None,
        }

    def _event(self, kind: str, **body: Any) -> Json:
        self._n_events += 1
        return {"type": kind, "sequence_number": self._n_events - 1, **body}
