"""Responses: the JSON of a whole one, and the events of a streamed one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from peerage.doors.openai.deliberation import (
    BallotCast,
    Outcome,
    ProgressLine,
    Step,
    VerdictWords,
    tokens,
)

Json = dict[str, Any]
BALLOT = "peerage:ballot"


@dataclass(frozen=True, slots=True)
class TextKind:
    """The names that the protocol has for a kind of item and its one part of text."""

    part_event: str
    text_event: str
    parts: str  # the item's list of parts
    place: str  # of a part in it
    part: Mapping[str, Any]
    beside: Mapping[str, Any]  # a piece of text


PROGRESS = TextKind(
    "response.reasoning_summary_part",
    "response.reasoning_summary_text",
    "summary",
    "summary_index",
    {"type": "summary_text"},
    {},
)
MESSAGE = TextKind(
    "response.content_part",
    "response.output_text",
    "content",
    "content_index",
    {"type": "output_text", "annotations": [], "logprobs": []},
    {"logprobs": []},
)


@dataclass(slots=True)
class TextItem:
    """An item of a response whose text is told in pieces, between its opening and its close."""

    kind: TextKind
    index: int  # in the output
    item: Json
    event: Callable[..., Json]
    pieces: list[str] = field(default_factory=list)

    @property
    def _at(self) -> Json:
        return {"item_id": self.item["id"], "output_index": self.index, self.kind.place: 0}

    def _part(self, text: str) -> Json:
        return {**self.kind.part, "text": text}

    def open(self) -> list[Json]:
        added = self.event("response.output_item.added", output_index=self.index, item=self.item)
        part = self.event(f"{self.kind.part_event}.added", **self._at, part=self._part(""))
        return [added, part]

    def say(self, piece: str) -> Json:
        self.pieces.append(piece)
        beside = self.kind.beside
        return self.event(f"{self.kind.text_event}.delta", **self._at, delta=piece, **beside)

    def close(self, status: str | None) -> list[Json]:
        text = "".join(self.pieces)
        part = self._part(text)
        self.item = {**self.item, "status": status, self.kind.parts: [part]}
        return [
            self.event(f"{self.kind.text_event}.done", **self._at, text=text, **self.kind.beside),
            self.event(f"{self.kind.part_event}.done", **self._at, part=part),
            self.event("response.output_item.done", output_index=self.index, item=self.item),
        ]


class ResponseStream:
    """Turns the steps of a session into the events of a streamed response.

    The progress is one reasoning item, each ballot an item of our own, and the verdict a message:
    a client is told of each item and part before any piece of it.
    """

    def __init__(self, id_: str, created: int, model: str, url: str) -> None:
        self.head = {"id": id_, "object": "response", "created_at": created, "model": model}
        self.url = url
        self._suffix = id_.removeprefix("resp_")
        self._n_events = 0
        reasoning: Json = {"id": f"rs_{self._suffix}", "type": "reasoning"}
        reasoning |= {"summary": [], "status": None}
        self._progress = TextItem(PROGRESS, 0, reasoning, self._event)
        self.output: list[Json] = [reasoning]
        self._message: TextItem | None = None

    async def events(self, steps: AsyncIterator[Step]) -> AsyncIterator[Json]:
        """Every event, from created to completed, or incomplete where the text was cut off."""
        begun = self._response("in_progress", [])
        yield self._event("response.created", response=begun)
        yield self._event("response.in_progress", response=begun)
        for event in self._progress.open():
            yield event
        async for step in steps:
            for event in self._step(step):
                yield event

    def _step(self, step: Step) -> list[Json]:
        if isinstance(step, ProgressLine):
            return [self._progress.say(f"{step.text}\n")] if self._message is None else []
        if isinstance(step, BallotCast):
            return self._ballot(step)
        opened = []
        if self._message is None:
            item: Json = {
                "id": f"msg_{self._suffix}",
                "type": "message",
                "role": "assistant",
                "status": "in_progress",
                "content": [],
            }
            self._message = TextItem(MESSAGE, len(self.output), item, self._event)
            self.output.append(item)
            opened = [*self._progress.close(None), *self._message.open()]
        if isinstance(step, VerdictWords):
            return [*opened, *map(self._message.say, tokens(step.text))]
        status = "incomplete" if step.is_cut_off else "completed"
        closed = self._message.close(status)
        return [*opened, *closed, self._ended(status, step, self._message)]

    def _ballot(self, step: BallotCast) -> list[Json]:
        index = len(self.output)
        item = {
            "id": f"pb_{self._suffix}_{index}",
            "type": BALLOT,
            "status": "completed",
            "reviewer": step.reviewer,
            "ranking": step.ranking,
            "abstained": step.abstained,
        }
        self.output.append(item)
        kinds = ("response.output_item.added", "response.output_item.done")
        return [self._event(kind, output_index=index, item=item) for kind in kinds]

    def _ended(self, status: str, outcome: Outcome, message: TextItem) -> Json:
        usage = {
            "input_tokens": outcome.tokens_in,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": outcome.tokens_out,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": outcome.tokens_in + outcome.tokens_out,
        }
        for one in (self._progress, message):
            self.output[one.index] = one.item
        told = self._response(status, self.output)
        told |= {"usage": usage, "peerage": outcome.extras(self.url)}
        if outcome.is_cut_off:
            told["incomplete_details"] = {"reason": "max_output_tokens"}
        return self._event(f"response.{status}", response=told)

    def _response(self, status: str, output: list[Json]) -> Json:
        """The response as it stands."""
        return {
            **self.head,
            "status": status,
            "output": output,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
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
