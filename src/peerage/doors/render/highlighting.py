"""Code with its keywords, strings and comments marked, in a process that can be ended.

The process is started for the first block of a language that is highlighted, and highlights one
block after the other. A block that takes too long ends the process and is shown plain.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import subprocess
import sys
import threading
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from markupsafe import Markup, escape

from peerage.doors.render import highlight_worker
from peerage.doors.render.page_work import page_work

# Pygments' names of the languages that are highlighted: a test measures the lexer of each.
LANGUAGES = frozenset(
    (
        *("bash", "sh", "shell", "zsh", "c", "cpp", "c++", "css", "dart", "diff", "udiff"),
        *("docker", "dockerfile", "elixir", "go", "golang", "graphql", "haskell", "hs", "html"),
        *("ini", "cfg", "java", "javascript", "js", "json", "julia", "kotlin", "lua", "perl"),
        *("php", "powershell", "ps1", "protobuf", "proto", "python", "py", "python3", "r", "ruby"),
        *("rb", "rust", "rs", "scala", "sql", "postgres", "postgresql", "swift", "toml"),
        *("typescript", "ts", "xml", "yaml", "yml"),
    )
)
MAX_BLOCK = 16_000  # characters, the size at which each lexer is measured
WAIT_S = 15.0  # for the process, also on a busy machine; its own limit is processor time
N_KEPT = 200  # highlighted blocks
PASSED_VARIABLES = ("SYSTEMROOT", "LD_LIBRARY_PATH")  # the process gets no key


class Highlighted(NamedTuple):
    """A highlighted block, and the processor time that it took."""

    html: Markup | None  # None if it took too long
    took_s: float


def highlight_code(code: str, language: str) -> Markup:
    """Return code as HTML with classes for highlighting.

    It is plain for other languages, and where it is too long or the page has too much of it.
    """
    left, language = page_work(), language.lower()
    if language not in LANGUAGES or len(code) > min(MAX_BLOCK, left.code) or left.code_s <= 0:
        return escape(code)
    left.code -= len(code)
    block = _highlighter.highlight(code, language, left.code_s)
    left.code_s -= block.took_s
    return escape(code) if block.html is None else block.html


def close_highlighter() -> None:
    """End the process, if there is one; the next block starts another."""
    _highlighter.close()


class Highlighter:
    """The process that highlights, and what it has highlighted lately."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # one block at a time
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0  # the process that started it: a forked copy starts its own
        self._kept: OrderedDict[bytes, Highlighted] = OrderedDict()

    @property
    def pid(self) -> int | None:
        """Return the id of the process, or None if none runs."""
        running = self._process is not None and self._owner == os.getpid()
        return self._process.pid if running and self._process else None

    def highlight(self, code: str, language: str, limit_s: float) -> Highlighted:
        """Return a block from an earlier page or from the process."""
        key = hashlib.sha256(f"{language}\0{code}".encode("utf-8", "surrogatepass")).digest()
        with self._lock:
            block = self._kept.pop(key, None)
            if block is None:
                block = self._ask({"code": code, "language": language, "limit_s": limit_s})
            self._kept[key] = block._replace(took_s=0.0)
            if len(self._kept) > N_KEPT:
                self._kept.popitem(last=False)
        return block

    def close(self) -> None:
        """End the process and wait for it."""
        with self._lock:
            self._end()

    def _ask(self, job: Mapping[str, Any]) -> Highlighted:
        """Send a block to the process and return its reply."""
        too_long = Highlighted(None, job["limit_s"])
        try:
            process = self._start_if_needed()
        except OSError:
            return Highlighted(None, 0.0)
        if process.stdin is None or process.stdout is None:
            return too_long
        timer = threading.Timer(WAIT_S, process.kill)
        timer.daemon = True
        timer.start()
        reply = b""
        with suppress(OSError):
            process.stdin.write(json.dumps(job).encode() + b"\n")
            process.stdin.flush()
            reply = process.stdout.readline()
        timer.cancel()
        if not reply.endswith(b"\n"):
            self._end()
            return too_long
        document = json.loads(reply)
        return Highlighted(_html(document["pieces"]), document["took_s"])

    def _start_if_needed(self) -> subprocess.Popen[bytes]:
        """Return the process; start it if it does not run."""
        if self.pid is not None and self._process is not None and self._process.poll() is None:
            return self._process
        self._end()
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-I", highlight_worker.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={name: os.environ[name] for name in PASSED_VARIABLES if name in os.environ},
        )
        self._owner = os.getpid()
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None or self._owner != os.getpid():
            return
        process.kill()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        process.wait()


def _html(pieces: list[tuple[str, str]]) -> Markup:
    """Return pieces of code with their classes as HTML."""
    return Markup("").join(
        Markup('<span class="{}">{}</span>').format(name, text) if name else escape(text)
        for name, text in pieces
    )


_highlighter = Highlighter()
atexit.register(close_highlighter)
