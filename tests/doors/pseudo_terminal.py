"""A command on a terminal of a given size, and what a person would see on its screen."""

from __future__ import annotations

import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fcntl import ioctl
from pathlib import Path

import pyte

SCROLLED = 2_000  # lines that are kept above the screen


@dataclass
class Watched:
    """The end of a command: its exit code, the whole text that it left, and frames on the way."""

    code: int
    text: str
    frames: list[str] = field(default_factory=list)


def watch(
    command: Sequence[str],
    folder: Path,
    environ: Mapping[str, str],
    columns: int = 80,
    lines: int = 24,
    interrupt_when: Callable[[str], bool] | None = None,
    answers: Mapping[str, str] | None = None,
    limit_s: float = 60.0,
) -> Watched:
    """Run a command on a terminal; Ctrl-C is pressed once where the screen is as asked.

    Where a text of `answers` stands on the screen, what belongs to it is typed, once.
    """
    waiting = dict(answers or {})
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    environ = {**environ, "TERM": "xterm", "COLUMNS": str(columns), "LINES": str(lines)}
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environ,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(theirs)
    screen = pyte.HistoryScreen(columns, lines, history=SCROLLED, ratio=0.5)
    stream = pyte.ByteStream(screen)
    frames: list[str] = []
    ends = time.monotonic() + limit_s
    try:
        while time.monotonic() < ends:
            if not select.select([ours], [], [], 0.1)[0]:
                continue
            try:
                data = os.read(ours, 65536)
            except OSError:  # the other side is closed
                break
            if not data:
                break
            stream.feed(data)
            frames.append(_seen(screen.display))
            if interrupt_when and interrupt_when(frames[-1]):
                interrupt_when = None
                os.write(ours, b"\x03")
            for asked in [asked for asked in waiting if asked in frames[-1]]:
                os.write(ours, f"{waiting.pop(asked)}\n".encode())
        code = process.wait(10)
    finally:
        process.kill()
        os.close(ours)
    above = ["".join(row[i].data for i in range(columns)) for row in screen.history.top]
    return Watched(code, _seen([*above, *screen.display]), frames)


def _seen(lines: Sequence[str]) -> str:
    return "\n".join(line.rstrip() for line in lines).rstrip("\n")
