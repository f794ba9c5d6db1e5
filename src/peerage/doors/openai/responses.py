"""Responses: the JSON of a whole one, and the events of a streamed one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from peerage.doors.openai.chat import tokens
from peerage.doors.openai.deliberation import (
    BallotCast,
    Outcome,
    ProgressLine,
    Step,
    VerdictWords,
)

Json = dict[str, Any]
BALLOT = "peerage:ballot"


def response(id_: str, created: int, model: str, output: list[Json], status: str) -> Json:
    """A response as it stands."""
    return {
        "id": id_,
        "object": "response",
        "created_at": created,
        "model": model,
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


def completed(
    id_: str, created: int, model: str, output: list[Json], outcome: Outcome, url: str
) -> Json:
    """A response at its end."""
    usage = {
        "input_tokens": outcome.tokens_in,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": outcome.tokens_out,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": outcome.tokens_in + outcome.tokens_out,
    }
    whole = response(id_, created, model, output, "completed")
    return {**whole, "usage": usage, "peerage": outcome.extras(url)}


class ResponseStream:
    """Turns the steps of a session into the events of a streamed response.

    The progress is one reasoning item, each ballot an item of our own, and the verdict a message:
    a client is told of each item and part before any piece of it.
    """

    def __init__(self, id_: str, created: int, model: str, url: str) -> None:
        self.identity = (id_, created, model)
        self.url = url
        self.output: list[Json] = []
        self._n_events = 0
        self._message = -1  # the place of the message in the output
        self._lines: list[str] = []
        self._words: list[str] = []
        self._suffix = id_.removeprefix("resp_")

    async def events(self, steps: AsyncIterator[Step]) -> AsyncIterator[Json]:
        """Every event, from created to completed."""
        begun = response(*self.identity, [], "in_progress")
        yield self._event("response.created", response=begun)
        yield self._event("response.in_progress", response=begun)
        for event in self._open_progress():
            yield event
        async for step in steps:
            for event in self._step(step):
                yield event

    def _step(self, step: Step) -> list[Json]:
        match step:
            case ProgressLine():
                return [self._said(f"{step.text}\n")] if self._message < 0 else []
            case BallotCast():
                return self._ballot(step)
            case VerdictWords():
                opened = self._open_message() if self._message < 0 else []
                return [*opened, *(self._spoken(token) for token in tokens(step.text))]
            case Outcome():
                opened = self._open_message() if self._message < 0 else []
                return [*opened, *self._close_message(), self._completed(step)]

    def _event(self, kind: str, **body: Any) -> Json:
        self._n_events += 1
        return {"type": kind, "sequence_number": self._n_events - 1, **body}

    # -- progress ------------------------------------------------------------------------------

    def _open_progress(self) -> list[Json]:
        item: Json = {
            "id": f"rs_{self._suffix}",
            "type": "reasoning",
            "summary": [],
            "status": None,
        }
        self.output.append(item)
        part = {"type": "summary_text", "text": ""}
        return [
            self._event("response.output_item.added", output_index=0, item=item),
            self._event("response.reasoning_summary_part.added", **self._at_progress(), part=part),
        ]

    def _at_progress(self) -> Json:
        return {"item_id": self.output[0]["id"], "output_index": 0, "summary_index": 0}

    def _said(self, line: str) -> Json:
        self._lines.append(line)
        at = self._at_progress()
        return self._event("response.reasoning_summary_text.delta", **at, delta=line)

    def _close_progress(self) -> list[Json]:
        text = "".join(self._lines)
        part = {"type": "summary_text", "text": text}
        item = self.output[0] = {**self.output[0], "summary": [part]}
        at = self._at_progress()
        return [
            self._event("response.reasoning_summary_text.done", **at, text=text),
            self._event("response.reasoning_summary_part.done", **at, part=part),
            self._event("response.output_item.done", output_index=0, item=item),
        ]

    def _ballot(self, step: BallotCast) -> list[Json]:
        place = len(self.output)
        item = {
            "id": f"pb_{self._suffix}_{place}",
            "type": BALLOT,
            "status": "completed",
            "reviewer": step.reviewer,
            "ranking": step.ranking,
            "abstained": step.abstained,
        }
        self.output.append(item)
        return [
            self._event("response.output_item.added", output_index=place, item=item),
            self._event("response.output_item.done", output_index=place, item=item),
        ]

    # -- the verdict ---------------------------------------------------------------------------

    def _open_message(self) -> list[Json]:
        closed = self._close_progress()
        self._message = len(self.output)
        item = {
            "id": f"msg_{self._suffix}",
            "type": "message",
            "role": "assistant",
            "status": "in_progress",
            "content": [],
        }
        self.output.append(item)
        added = self._event("response.output_item.added", output_index=self._message, item=item)
        at = self._at_message()
        return [*closed, added, self._event("response.content_part.added", **at, part=_part(""))]

    def _at_message(self) -> Json:
        place = self._message
        return {"item_id": self.output[place]["id"], "output_index": place, "content_index": 0}

    def _spoken(self, token: str) -> Json:
        self._words.append(token)
        at = self._at_message()
        return self._event("response.output_text.delta", **at, delta=token, logprobs=[])

    def _close_message(self) -> list[Json]:
        text = "".join(self._words)
        part, at = _part(text), self._at_message()
        item = {**self.output[self._message], "status": "completed", "content": [part]}
        self.output[self._message] = item
        return [
            self._event("response.output_text.done", **at, text=text, logprobs=[]),
            self._event("response.content_part.done", **at, part=part),
            self._event("response.output_item.done", output_index=self._message, item=item),
        ]

    def _completed(self, outcome: Outcome) -> Json:
        whole = completed(*self.identity, self.output, outcome, self.url)
        return self._event("response.completed", response=whole)


def _part(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
