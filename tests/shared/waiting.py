"""Waits for what another process, thread or task does, and never for ever."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from typing import TypeAlias, TypeVar

T = TypeVar("T")
Process: TypeAlias = subprocess.Popen[str] | subprocess.Popen[bytes] | BaseProcess
LOOK_EVERY_S = 0.02


def wait_until(
    condition: Callable[[], T], process: Process | None = None, limit_s: float = 120.0
) -> T:
    """Return what a condition gives as soon as that is true.

    It fails when the process that should bring it about has ended, or at the limit, which only
    says when to give up: a loaded machine is slow, not wrong. A coroutine calls it in a thread.
    """
    ends = time.monotonic() + limit_s
    while True:
        is_over = process is not None and not _lives(process)
        if found := condition():  # after that look, since the last act of a process counts
            return found
        if is_over:
            raise AssertionError(f"the process ended before that: {_last_words(process)}")
        if time.monotonic() > ends:
            raise AssertionError(f"it did not happen within {limit_s:g} s")
        time.sleep(LOOK_EVERY_S)


def _lives(process: Process) -> bool:
    return process.is_alive() if isinstance(process, BaseProcess) else process.poll() is None


def _last_words(process: Process | None) -> str:
    if not isinstance(process, subprocess.Popen):
        return f"exit code {process and process.exitcode}"
    out, err = process.communicate(timeout=10)
    return f"exit code {process.returncode}, {out!r}, {err!r}"
