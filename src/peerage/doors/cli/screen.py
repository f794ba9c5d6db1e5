"""The only module that writes plain text, help and documents to stdout, stderr and files.

Tables and colours go through `peerage.doors.cli.terminal`; nothing else writes to a stream.
"""

from __future__ import annotations

import codecs
import io
import os
import secrets
import shutil
import sys
import textwrap
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TextIO, TypeVar

from peerage.errors import InputError, PeerageError, UsageError
from peerage.text import json_text, visible

if TYPE_CHECKING:
    from cyclopts.help import HelpEntry, HelpPanel
    from rich.console import Console, ConsoleOptions

T = TypeVar("T")

PARTIAL = 3  # the exit code if part of the task could not be done
INTERRUPTED = 130  # the exit code after Ctrl-C
MIN_TEXT = 30  # columns that a text has on the narrowest screen
MAX_NAMES = 34  # columns of a help page for the names of options
USUAL_WIDTH = 80  # columns of a terminal that does not report its width


class ReaderLeftError(PeerageError):
    """The reader of our output closed it, as `| head` does."""

    exit_code = 141  # as a shell reports a program that ended by a broken pipe


# -- streams ------------------------------------------------------------------------------------


def prepare_streams() -> None:
    """Make sure that stdout and stderr are open, and accept any text in any encoding.

    The system gives a closed descriptor to the next file that is opened, such as the store. It is
    replaced first, so that no message is ever written into a database.
    """
    while (filler := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(filler)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    had_stdout = sys.stdout is not None
    sys.stdout = sys.stdout or io.TextIOWrapper(io.FileIO(1, "w", closefd=False))
    sys.stderr = sys.stderr or io.TextIOWrapper(io.FileIO(2, "w", closefd=False))
    if not had_stdout:
        raise UsageError("stdout is closed.", hint="Send it to a file, or to /dev/null.")


def takes_unicode(stream: IO[str]) -> bool:
    """Return whether a stream can show every character."""
    try:
        return codecs.lookup(getattr(stream, "encoding", None) or "utf-8").name.startswith("utf")
    except LookupError:
        return False


def read_stdin() -> bytes:
    """Return all of stdin."""
    if sys.stdin is None:
        raise InputError("stdin is closed.", hint="Give the text as an argument.")
    try:
        return sys.stdin.buffer.read()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}.", place="stdin") from None


def confirm(question: str) -> bool | None:
    """Ask a yes-or-no question on a terminal; return None without a terminal."""
    if sys.stdin is None or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    say(f"{question} [y/N]")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def write_line(text: str, *, to_stderr: bool = False, multiline: bool = False) -> None:
    """Write a line, or several if `multiline`, with invisible characters escaped."""
    stream, line = sys.stderr if to_stderr else sys.stdout, visible(text, multiline=multiline)
    _write(stream, (line if multiline else wrap_line(line, to_stderr=to_stderr)) + "\n")


def say(message: str) -> None:
    """Write a message to stderr; indent its later lines, so that it reads as one message."""
    first, *rest = visible(message, multiline=True).split("\n")
    lines = [f"peerage: {first}", *(f"  {line}" for line in rest)]
    _write(sys.stderr, "\n".join(wrap_line(line, 2, to_stderr=True) for line in lines) + "\n")


def wrap_line(line: str, indent: int = 0, *, to_stderr: bool = False) -> str:
    """Return a line wrapped between words for a terminal; unchanged for a pipe or a file."""
    stream = sys.stderr if to_stderr else sys.stdout
    if not stream.isatty():
        return line
    columns = os.environ.get("COLUMNS", "")
    width = int(columns) if columns.isdecimal() else os.get_terminal_size(stream.fileno()).columns
    room = max(indent + MIN_TEXT, (width or USUAL_WIDTH) - 1)
    lines = textwrap.wrap(
        line,
        room,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines)


def write_json(document: Any) -> None:
    """Write one JSON document to stdout."""
    _write(sys.stdout, json_text(document, ascii_only=not takes_unicode(sys.stdout)) + "\n")


def write_out(text: str) -> None:
    """Write a text to stdout unchanged."""
    _write(sys.stdout, text)


def _write(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        if stream is sys.stdout:
            raise ReaderLeftError("") from None
    except OSError:
        if stream is sys.stdout:
            raise


def close_streams() -> bool:
    """Flush the streams while an error can still be shown; return whether both could be."""
    return all([_flush(sys.stdout), _flush(sys.stderr)])


def _flush(stream: TextIO) -> bool:
    try:
        stream.flush()
    except OSError:  # redirect it to nowhere, so that the interpreter's last flush is silent
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        return False
    return True


# -- help ---------------------------------------------------------------------------------------


class HelpPage:
    """Writes help as plain lines: examples, then options with their meaning on the right."""

    def __init__(self, *examples: str) -> None:
        self.examples = examples

    def render_usage(self, _: Console, __: ConsoleOptions, usage: object) -> None:
        write_line(f"Usage: {str(usage).strip().removeprefix('Usage: ')}\n", multiline=True)

    def render_description(self, _: Console, __: ConsoleOptions, about: object) -> None:
        write_line(f"{wrap_line(_plain(about))}\n", multiline=True)
        if self.examples:
            lines = "".join(f"  {example}\n" for example in self.examples)
            write_line(f"Examples:\n{lines}", multiline=True)

    def __call__(
        self,
        console: Console,  # noqa: ARG002 - every line goes through the screen
        options: ConsoleOptions,  # noqa: ARG002
        panel: HelpPanel,
    ) -> None:
        names = [
            ", ".join(entry.display_labels_with_metavar).replace("STR|CHOICE", "STR")
            for entry in panel.entries
        ]
        room = min(max(map(len, names), default=0), MAX_NAMES) + 4
        lines = [
            wrap_line(f"  {name}  ".ljust(room) + _meaning(entry), room)
            for name, entry in zip(names, panel.entries, strict=True)
        ]
        if lines:
            write_line("\n".join([f"{panel.title}:", *lines, ""]), multiline=True)


def _plain(description: object) -> str:
    """Return the plain text of a cyclopts object."""
    return str(getattr(description, "primary_renderable", description) or "")


def _meaning(entry: HelpEntry) -> str:
    """Return the meaning of an option, its choices and its default."""
    parts = [_plain(entry.description)] if entry.description else []
    choices = [choice for choice in entry.choices or () if choice != "False"]  # of `rubric`
    parts += [f"One of {', '.join(choices)}."] if choices else []
    parts += [f"Default: {entry.default}."] if entry.default else []
    return " ".join(parts)


# -- files --------------------------------------------------------------------------------------


def write_file(path: Path, write_to: Callable[[Path], T]) -> T:
    """Let a function write a temporary file, then move it into place; return its result.

    A device or a pipe is written to directly. An error of the operating system becomes a
    UsageError.
    """
    try:
        target = Path(os.path.realpath(path))  # a link stays a link
        if target.is_dir():
            raise UsageError("this is a folder.", place=str(path), hint="Name a file.")
        if not target.parent.is_dir():
            raise UsageError("its folder does not exist.", place=str(path), hint="Create it first.")
        if target.exists() and not target.is_file():
            return write_to(target)
        return _replace(target, write_to)
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot be written: {reason}.", place=str(path)) from None


def _replace(target: Path, write_to: Callable[[Path], T]) -> T:
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(None, "the file is read-only", str(target))
    fresh = target.parent / f".{secrets.token_hex(8)}.tmp"
    try:
        written = write_to(fresh)
        if target.exists():
            shutil.copymode(target, fresh)
        fresh.replace(target)
        return written
    except BaseException:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise
