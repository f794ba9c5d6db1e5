"""A program `peerage` for shells that runs in the Python that forks, and what it was asked for.

Blocks of documents have pipes and redirections, so a shell runs them; each command still starts
in milliseconds. The program sends its words, folder, environment and input over a socket.
"""

from __future__ import annotations

import json
import socketserver
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias, cast

Run: TypeAlias = Callable[..., subprocess.CompletedProcess[str]]

PROGRAM = """#!{python} -IS
import json, os, socket, sys
text = sys.stdin.read() if "-" in sys.argv[1:] else None
case = {{"argv": sys.argv[1:], "cwd": os.getcwd(), "env": dict(os.environ), "text": text}}
asked = socket.socket(socket.AF_UNIX)
asked.connect({address!r})
with asked.makefile("rw", encoding="utf-8") as wire:
    wire.write(json.dumps(case) + "\\n")
    wire.flush()
    code, out, err = json.loads(wire.readline())
sys.stdout.reconfigure(encoding="utf-8")
sys.stdout.write(out)
sys.stdout.flush()
sys.stderr.write(err)
sys.exit(code)
"""


class Ran(NamedTuple):
    """A command that a shell ran."""

    words: tuple[str, ...]
    code: int
    out: str
    err: str


class ForkedShell:
    """Serves the program; `ran` lists its commands, and `code` says what the shell is told."""

    def __init__(self, run: Run, code: Callable[[Ran], int]) -> None:
        self.ran: list[Ran] = []
        self._run, self._code = run, code
        self._folder = tempfile.TemporaryDirectory()
        address = f"{self._folder.name}/socket"
        self._server = _Server(address, self)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        program = self.programs / "peerage"
        program.write_text(PROGRAM.format(python=sys.executable, address=address), "utf-8")
        program.chmod(0o755)

    @property
    def programs(self) -> Path:
        """The folder for the front of PATH."""
        return Path(self._folder.name)

    def run(self, case: dict[str, object]) -> Sequence[object]:
        words = cast("list[str]", case.pop("argv"))
        done = self._run(words, **case)
        self.ran.append(ran := Ran(tuple(words), done.returncode, done.stdout, done.stderr))
        return self._code(ran), ran.out, ran.err

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(60)
        self._folder.cleanup()


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True

    def __init__(self, address: str, shell: ForkedShell) -> None:
        super().__init__(address, _Handler)
        self.shell = shell


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        done = cast("_Server", self.server).shell.run(json.loads(self.rfile.readline()))
        self.wfile.write(json.dumps(done).encode() + b"\n")
