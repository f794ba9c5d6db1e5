"""Chat completions: the outcome of a session in one piece, or as chunks of a stream."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from peerage.doors.openai.deliberation import Outcome, ProgressLine, Step, VerdictWords, tokens

Json = dict[str, Any]


def completion(head: Json, outcome: Outcome) -> Json:
    """Return a chat completion that was not streamed."""
    text, refusal = outcome.text, outcome.refusal
    message: Json = {"role": "assistant", "content": None, "refusal": refusal}
    if refusal is None and outcome.function:
        message["tool_calls"] = [_call_of(head, outcome.function, text)]
    elif refusal is None:
        message["content"] = text
    choice = _choice(outcome, message=message)
    return {**head, "object": "chat.completion", "choices": [choice], **_account(outcome)}


async def completion_chunks(
    head: Json, steps: AsyncGenerator[Step, None], include_usage: bool
) -> AsyncGenerator[Json, None]:
    """Yield progress as reasoning, then the verdict, then the usage and the session's record.

    Progress ends when the verdict begins: many clients treat reasoning after content as an error. A
    last chunk without choices is sent only if the client asked for usage, since other clients read
    the first choice of every chunk.
    """
    head = {**head, "object": "chat.completion.chunk"}
    yield {**head, "choices": [_choice(delta={"role": "assistant", "content": ""})]}
    has_words = False
    async with aclosing(steps):
        async for step in steps:
            match step:
                case ProgressLine() if not has_words:
                    # Some clients read the first name, others the second.
                    line = f"{step.text}\n"
                    delta = {"reasoning_content": line, "reasoning": line}
                    yield {**head, "choices": [_choice(delta=delta)]}
                case VerdictWords() if step.function:
                    has_words = True
                    call = {"index": 0, **_call_of(head, step.function, step.text)}
                    yield {**head, "choices": [_choice(delta={"tool_calls": [call]})]}
                case VerdictWords():
                    has_words = True
                    for token in tokens(step.text):
                        yield {**head, "choices": [_choice(delta={"content": token})]}
                case Outcome():
                    if step.refusal is not None:
                        yield {**head, "choices": [_choice(delta={"refusal": step.refusal})]}
                    last = {**head, "choices": [_choice(step, delta={})]}
                    if include_usage:
                        yield last
                        last = {**head, "choices": []}
                    yield {**last, **_account(step)}


def _choice(outcome: Outcome | None = None, **content: Json) -> Json:
    """Return the one choice of a reply, with its finish reason if it has ended."""
    reason = None if outcome is None else _finish_reason(outcome)
    return {"index": 0, **content, "finish_reason": reason, "logprobs": None}


def _finish_reason(outcome: Outcome) -> str:
    if outcome.is_cut_off:
        return "length"
    return "tool_calls" if outcome.function and outcome.refusal is None else "stop"


def _call_of(head: Json, function: str, arguments: str) -> Json:
    """Return a function call in the form of an assistant's message."""
    return {
        "id": f"call_{head['id'].removeprefix('chatcmpl-')}",
        "type": "function",
        "function": {"name": function, "arguments": arguments},
    }


def _account(outcome: Outcome) -> Json:
    """Return the tokens and the cost of all calls, and the record of the session."""
    n_in, n_out = outcome.tokens
    usage = {"prompt_tokens": n_in, "completion_tokens": n_out, "total_tokens": n_in + n_out}
    return {"usage": {**usage, "cost": outcome.cost_usd}, "peerage": outcome.extras}
