"""A provider for programs: the prompt is their standard input, the reply their standard output.

A command runs in an empty folder with a small environment: a few variables that every program
needs, and those that the seat lists. `command_guard` runs it, and kills it and its child processes
after its reply, at the time limit, if the call is cancelled, and if Peerage is killed.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import shlex
import shutil
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from peerage.config import secret
from peerage.errors import ConfigError
from peerage.providers import (
    MAX_REPLY_BYTES,
    UNSENT,
    Call,
    CallError,
    Kind,
    OnText,
    Provider,
    Reply,
    command_guard,
    providers,
)
from peerage.providers.redaction import Redactor
from peerage.tasks import finish, together
from peerage.text import valid_text
from peerage.types import Seat, Turn

# Every command gets those of these variables that are set.
USUAL_VARIABLES = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
# Set for commands, so that a council does not run itself; each call has a value of its own.
INSIDE = "IN_PEERAGE_COMMAND"
SET_VARIABLES = {"TERM": "dumb", "NO_COLOR": "1", INSIDE: "1"}
CHUNK_BYTES = 65_536
MAX_ERROR_BYTES = 8_000_000  # of standard error, after which the command is ended
KEPT_ERROR_BYTES = 4_000  # how much of the end of standard error is kept for messages
SHOWN_CHARACTERS = 250  # how much of the end of the output a message shows
WATCH_S = 0.05  # between looks at whether the guard still runs
END_S = 30.0  # the time that the guard has to end a command, also on a busy machine
TURN_TITLES = {"system": "Instructions", "user": "User", "assistant": "Assistant"}

# Sequences that colour a terminal, move its cursor or set its title.
ANSI = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours and cursor
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\|$)"  # titles and links
    r"|\x1b[ -/]*[0-~]"
    r"|\x9b[0-?]*[ -/]*[@-~]"
)
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all controls except \n and \t

# The kind of a failure by words that commands print with an exit code other than 0.
KIND_BY_WORDS: Mapping[Kind, re.Pattern[str]] = {
    "rate_limited": re.compile(
        r"\b429\b|rate.?limit|too many requests|(usage|session) limit|quota|overloaded"
    ),
    "unauthorized": re.compile(
        r"\b40[13]\b|unauthori[sz]ed|authenticat|api.?key|log ?in\b|logged (in|out)|credential"
    ),
    "timeout": re.compile(r"timed? ?out"),
    "connection": re.compile(
        r"connection (refused|reset|error)|could not connect|network|enotfound|econnrefused"
    ),
}


@providers.register("command")
class Command(Provider):
    """One command; each call runs it again."""

    usual_concurrency = 1

    def __init__(self, seat: Seat, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ
        self._redactors = [Redactor(secret(name, environ)) for name in seat.pass_env]

    @classmethod
    def check(cls, seat: Seat) -> None:
        place = f"seat {seat.name}"
        if not seat.command or not seat.command[0].strip():
            hint = 'As in command = ["claude", "-p"].'
            raise ConfigError("`command` must name a program to run.", place=place, hint=hint)
        if any("\0" in argument for argument in seat.command):
            raise ConfigError(
                "an argument of the command contains a NUL character (\\0).", place=place
            )
        if sys.platform == "win32":
            raise ConfigError(
                "commands cannot be ended safely on Windows, so command seats do not run there.",
                place=place,
            )
        for name in seat.options:
            raise ConfigError(f"a command seat has no option {name!r}.", place=place)

    @classmethod
    def check_ready(cls, seat: Seat) -> None:
        if os.environ.get(INSIDE):
            raise ConfigError(
                "a command seat cannot run inside another command seat.",
                place=f"seat {seat.name}",
            )
        if find_program(seat) is None:
            raise ConfigError(
                f"the program {seat.command[0]!r} was not found on this machine.",
                place=f"seat {seat.name}",
                hint="Install it, or give its full path: the command runs in an empty folder.",
            )

    async def complete(self, call: Call, on_text: OnText | None = None) -> Reply:  # noqa: ARG002
        """Run the command and return its output, or raise CallError for any other outcome."""
        program = find_program(call.seat)
        if program is None or self._environ.get(INSIDE):
            why = f"the program {call.seat.command[0]!r} was not found on this machine"
            if program is not None:
                why = "a command seat cannot run inside another command seat"
            raise CallError("bad_request", why, usage=UNSENT)
        environ = command_environment(call.seat, self._environ)
        printed = Printed()
        try:
            async with guard([program, *call.seat.command[1:]], environ) as process:
                await together(
                    [
                        _write(process.stdin, valid_text(render_chat(call.messages)).encode()),
                        _read(process.stdout, printed),
                        _read_end(process.stderr, printed),
                    ]
                )
                code = await process.wait()
        except asyncio.CancelledError as error:
            if words := self._last_words(printed):
                error.add_note(f"the command last printed: {words[-SHOWN_CHARACTERS:]}")
            raise
        if code:
            raise _exit_error(call.seat, code, self._last_words(printed))
        try:
            text = plain_text(printed.output.decode("utf-8")).strip()
        except UnicodeDecodeError:
            message = "the output of the command is not UTF-8"
            raise CallError("bad_encoding", message) from None
        if not text:
            words = self._last_words(printed)
            hint = f"; standard error ends with: {words[-SHOWN_CHARACTERS:]}" if words else ""
            raise CallError("empty", f"the command printed nothing{hint}")
        return Reply(self._redact(text))

    def _last_words(self, printed: Printed) -> str:
        """Return what is kept of standard error, or of the output if standard error is empty."""
        texts = (self._redact(_readable(data)) for data in (printed.errors, printed.output))
        return next(filter(None, texts), "")

    def _redact(self, text: str) -> str:
        for redactor in self._redactors:
            text = redactor.redact(text)
        return text


@dataclass(slots=True)
class Printed:
    """The output of a command so far, and the end of its errors."""

    output: bytearray = field(default_factory=bytearray)
    errors: bytes = b""


def _readable(data: bytes | bytearray) -> str:
    """Return printed bytes as text for a message."""
    return plain_text(data.decode("utf-8", "replace")).strip()


def find_program(seat: Seat) -> str | None:
    """Return the path of a seat's program, or None if it does not exist.

    A relative path is resolved from Peerage's folder, because the command runs in another folder.
    """
    program = shutil.which(os.path.expanduser(seat.command[0]))  # noqa: PTH111
    return None if program is None else os.path.abspath(program)  # noqa: PTH100


def command_environment(seat: Seat, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a seat's command gets."""
    names = (*USUAL_VARIABLES, *seat.pass_env)
    return {**{name: environ[name] for name in names if name in environ}, **SET_VARIABLES}


def describe_command(seat: Seat) -> str:
    """Return the command that a call would run, and its environment variables, in words."""
    missing = [name for name in seat.pass_env if name not in os.environ]
    passes = [name for name in seat.pass_env if name in os.environ]
    given = f", with {', '.join(passes)}" if passes else ""
    unset = f" ({', '.join(missing)} not set)" if missing else ""
    return f"runs `{shlex.join(seat.command)}` in an empty folder{given}{unset}"


def render_chat(messages: tuple[Turn, ...]) -> str:
    """Return a chat as one text: the prompt alone, or each message under a title."""
    if len(messages) == 1:
        return messages[0].content
    return "\n\n".join(
        f"# {TURN_TITLES.get(message.role, message.role)}\n\n{message.content}"
        for message in messages
    )


def plain_text(text: str) -> str:
    """Return text without terminal control sequences, as a terminal would show it."""
    text = ANSI.sub("", text).replace("\r\n", "\n")
    # A progress display overwrites its line, and only the last text stays.
    lines = (line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return CONTROL.sub("", "\n".join(lines))


@asynccontextmanager
async def guard(
    command: list[str], environ: Mapping[str, str]
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a command under its guard; at the end of the block everything it started is killed.

    The guard starts the command when it is told to. If the call is cancelled before that, asyncio
    kills the guard, and there is no command that it would have to kill first.
    """
    theirs, ours = os.pipe()
    report, told = os.pipe()
    os.set_blocking(report, False)
    mark = secrets.token_hex(16)
    pipe = asyncio.subprocess.PIPE
    guardian = [sys.executable, "-I", "-S", command_guard.__file__, str(theirs), str(told)]
    try:
        process = await asyncio.create_subprocess_exec(
            *guardian,
            *command,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env={**environ, INSIDE: mark},
            pass_fds=(theirs, told),
            start_new_session=True,
            limit=CHUNK_BYTES,
        )
    except OSError as error:
        os.close(ours)
        os.close(report)
        message = f"the command cannot be started: {error.strerror}"
        raise CallError("provider", message, usage=UNSENT) from None
    except BaseException:
        os.close(ours)
        os.close(report)
        raise
    finally:
        os.close(theirs)
        os.close(told)
    watch = asyncio.create_task(_end_without_guard(process, report, mark))
    try:
        with suppress(BrokenPipeError):  # a guard that has ended has an exit code
            os.write(ours, b"\n")
        yield process
    finally:
        os.close(ours)
        await finish(_end(process))
        await finish(watch)
        os.close(report)


async def _end_without_guard(process: asyncio.subprocess.Process, report: int, mark: str) -> None:
    """Wait for the end of the guard; if a signal ended it, kill what its command has started."""
    while process.returncode is None:  # noqa: ASYNC110 - `wait` may wait for open pipes
        await asyncio.sleep(WATCH_S)
    if process.returncode < 0:
        with suppress(OSError, ValueError):  # it may not have started the command
            group = int(os.read(report, 32))
            await asyncio.to_thread(command_guard.end_left_over, process.pid, group, mark)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Wait until the guard has ended, and discard remaining output."""
    try:
        async with asyncio.timeout(END_S):
            await asyncio.gather(_drain(process.stdout), _drain(process.stderr))
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _drain(stream: asyncio.StreamReader | None) -> None:
    while stream is not None and await stream.read(CHUNK_BYTES):
        pass


async def _read(stream: asyncio.StreamReader | None, printed: Printed) -> None:
    """Read all output of a command; raise CallError if it is too long."""
    while stream is not None and (data := await stream.read(CHUNK_BYTES)):
        printed.output += data
        if len(printed.output) > MAX_REPLY_BYTES:
            message = f"the command was ended: it printed more than {MAX_REPLY_BYTES} bytes"
            raise CallError("too_long", message)


async def _read_end(stream: asyncio.StreamReader | None, printed: Printed) -> None:
    """Keep the end of a command's messages; raise CallError if it never stops writing them."""
    n_bytes = 0
    while stream is not None and (data := await stream.read(CHUNK_BYTES)):
        printed.errors = (printed.errors + data)[-KEPT_ERROR_BYTES:]
        n_bytes += len(data)
        if n_bytes > MAX_ERROR_BYTES:
            message = f"the command was ended: it wrote more than {MAX_ERROR_BYTES} bytes of errors"
            raise CallError("too_long", message)


async def _write(stream: asyncio.StreamWriter | None, prompt: bytes) -> None:
    """Write the prompt; a command that does not read all of it may still reply."""
    if stream is None:
        return
    with suppress(BrokenPipeError, ConnectionResetError):
        stream.write(prompt)
        await stream.drain()
    stream.close()
    with suppress(BrokenPipeError, ConnectionResetError):
        await stream.wait_closed()


def _exit_error(seat: Seat, code: int, words: str) -> CallError:
    """Return the failure of a command that ended with a code other than 0."""
    name = os.path.basename(seat.command[0])  # noqa: PTH119
    lower = words.lower()
    kinds = (kind for kind, pattern in KIND_BY_WORDS.items() if pattern.search(lower))
    message = f"{name} ended with exit code {code}" + (
        f": {words[-SHOWN_CHARACTERS:]}" if words else ""
    )
    return CallError(next(kinds, "provider"), message)
