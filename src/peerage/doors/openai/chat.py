"""Chat completions: the JSON of a whole one, and of its pieces when it is streamed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from peerage.doors.openai.deliberation import Outcome, ProgressLine, Step, VerdictWords

Json = dict[str, Any]


def completion(id_: str, created: int, model: str, outcome: Outcome, url: str) -> Json:
    """A chat completion that was not streamed."""
    message = {"role": "assistant", "content": outcome.text, "refusal": None}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
    return {
        "id": id_,
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [choice],
        "usage": usage(outcome),
        "peerage": outcome.extras(url),
    }


async def chunks(
    id_: str, created: int, model: str, steps: AsyncIterator[Step], url: str
) -> AsyncIterator[Json]:
    """The pieces of a streamed one: progress as reasoning, the verdict, then all the rest."""

    def chunk(delta: Json, finish_reason: str | None = None) -> Json:
        choice = {
            "index": 0,
            "delta": delta,
            "finish_reason": finish_reason,
            "logprobs": None,
        }
        return {**head, "choices": [choice]}

    head = {"id": id_, "object": "chat.completion.chunk", "created": created, "model": model}
    yield chunk({"role": "assistant", "content": ""})
    async for step in steps:
        match step:
            case ProgressLine():
                # Clients read one name or the other.
                line = f"{step.text}\n"
                yield chunk({"reasoning_content": line, "reasoning": line})
            case VerdictWords():
                for token in tokens(step.text):
                    yield chunk({"content": token})
            case Outcome():
                yield chunk({}, "stop")
                yield {**head, "choices": [], "usage": usage(step), "peerage": step.extras(url)}


def usage(outcome: Outcome) -> Json:
    """The tokens of all calls of the session."""
    return {
        "prompt_tokens": outcome.tokens_in,
        "completion_tokens": outcome.tokens_out,
        "total_tokens": outcome.tokens_in + outcome.tokens_out,
    }


def tokens(text: str) -> list[str]:
    """A text in pieces of about a word, which add up to it."""
    pieces: list[str] = []
    for part in text.split(" "):
        pieces.append(part if not pieces else f" {part}")
    return [piece for piece in pieces if piece]
