"""Run one command in an empty folder, and kill it with all its child processes.

`command` starts this program as `python command_guard.py PIPE REPORT COMMAND…`. The command starts
when a byte comes through the pipe, and the id of its process group is written to the report. When
the other end of the pipe closes, because a call has ended or because Peerage was killed, the guard
kills the command's process group. On Linux it also adopts processes that left the group, and kills
them too. The folder is removed last. The exit code is that of the command.

A command may kill its guard. Then `command` calls `end_left_over`, which finds the processes by
their group, by the guard's session, and by a variable that only this call's processes have.
"""

from __future__ import annotations

import ctypes
import os
import select
import shutil
import signal
import sys
import tempfile
from contextlib import suppress

PR_SET_CHILD_SUBREAPER = 36
MAX_ROUNDS = 50  # of killing what is left over
NOT_STARTED = 127  # the exit code of shells for a program that cannot be started


def adopt_orphans() -> None:
    """Become the parent of orphaned processes, on Linux."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children() -> list[int]:
    """Return the processes that this one started or adopted, if the system lists them."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as listed:  # noqa: PTH123
            return [int(pid) for pid in listed.read().split()]
    except OSError:
        return []


def end_all(group: int) -> None:
    """Kill a process group and every process that left it, until none is left."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
    while left := children():
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)


def end_left_over(guard: int, group: int | None, mark: str) -> None:
    """Kill what a command started, after its guard was killed; `mark` is in its environment."""
    if group is not None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
    for _ in range(MAX_ROUNDS):  # a process may have started another one meanwhile
        left = [pid for pid in _list_processes() if _belongs(pid, guard, mark.encode())]
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not left:
            return


def _list_processes() -> list[int]:
    """Return the ids of all processes, if the system lists them in files."""
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208
    except OSError:
        return []


def _belongs(pid: int, guard: int, mark: bytes) -> bool:
    """Return whether a process runs in the guard's session, or has the mark in its environment."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as status:  # noqa: PTH123
            state, _, _, session = status.read().rpartition(b")")[2].split()[:4]
        if state == b"Z":
            return False
        with open(f"/proc/{pid}/environ", "rb") as environ:  # noqa: PTH123
            return int(session) == guard or mark in environ.read()
    except (OSError, ValueError):  # it has ended, or belongs to another user
        return False


def wait(pid: int, pipe: int, ended: int) -> int | None:
    """Return the exit code of a process, or None if the pipe was closed before it ended."""
    while True:
        ready, _, _ = select.select([pipe, ended], [], [])
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
        if pipe in ready:
            return None
        os.read(ended, 1)


def main(pipe: int, report: int, command: list[str]) -> int:
    """Run the command until it ends or the pipe is closed; return the exit code."""
    os.set_inheritable(pipe, False)
    os.set_inheritable(report, False)
    if not os.read(pipe, 1):
        return NOT_STARTED
    adopt_orphans()
    ended, tell = os.pipe()
    os.set_blocking(tell, False)
    signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    folder = tempfile.mkdtemp(prefix="peerage-command-")
    try:
        os.chdir(folder)
        environ = {**os.environ, "TMPDIR": folder, "PWD": folder}
        reset = [signal.SIGPIPE, signal.SIGCHLD]
        pid = os.posix_spawnp(command[0], command, environ, setpgroup=0, setsigdef=reset)
        with suppress(OSError):
            os.write(report, str(pid).encode())
        os.close(report)
        for descriptor in range(3):
            os.close(descriptor)
        try:
            code = wait(pid, pipe, ended)
        finally:
            end_all(pid)
        return 128 + signal.SIGKILL if code is None else code
    except OSError as error:
        with suppress(OSError):
            os.write(2, f"{command[0]}: {error.strerror}\n".encode())
        return NOT_STARTED
    finally:
        os.chdir("/")
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    os._exit(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
