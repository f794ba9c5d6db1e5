"""The command line: parse, call, render. A command is imported when it runs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from cyclopts import App, CycloptsError, Parameter

from peerage.doors.cli.screen import (
    ReaderLeftError,
    close_streams,
    is_terminal,
    prepare_streams,
    say,
    write_line,
)
from peerage.errors import PeerageError, UsageError

if TYPE_CHECKING:
    from cyclopts.help import HelpEntry, HelpPanel
    from rich.console import Console, ConsoleOptions

INTERRUPTED = 130
COMMANDS = {
    "init": (
        "peerage.doors.cli.init:init",
        "Write a starter peerage.toml for the keys and servers found here.",
    ),
    "ask": (
        "peerage.doors.cli.ask:ask",
        "Put a question to the council, and watch it answer, review and conclude.",
    ),
    "run": ("peerage.doors.cli.run:season", "Run a season: one session for every row of a file."),
    "score": (
        "peerage.doors.cli.score:score",
        "Score ballots from anywhere: no store, no network, no model.",
    ),
    "import": (
        "peerage.doors.cli.transfer:import_",
        "Load judgements made elsewhere, each file whole or not.",
    ),
    "board": (
        "peerage.doors.cli.board_commands:app",
        "Rank models, or a community's people and items.",
    ),
    "audit": (
        "peerage.doors.cli.board_commands:audit",
        "Audit the reviewers: who is biased, and how sure is that?",
    ),
    "rings": ("peerage.doors.cli.board_commands:rings", "Find voting rings, with the evidence."),
    "sessions": ("peerage.doors.cli.history:sessions", "List the latest sessions of the store."),
    "show": ("peerage.doors.cli.history:show", "Show one session in full, as it was scored then."),
    "replay": (
        "peerage.doors.cli.history:replay",
        "Score a stored session again by other options; no model is called.",
    ),
    "export": (
        "peerage.doors.cli.transfer:export",
        "Write the whole store as JSONL and Parquet, to be imported again.",
    ),
    "serve": (
        "peerage.doors.cli.serve:serve",
        "Serve the council over HTTP: sessions, boards, audits, live events.",
    ),
    "token": (
        "peerage.doors.cli.token:app",
        "Make, list and revoke tokens: who may use a server, and what for.",
    ),
    "mcp": (
        "peerage.doors.cli.mcp:mcp",
        "Give agents the council as tools, over stdin and stdout.",
    ),
    "doctor": (
        "peerage.doors.cli.doctor:doctor",
        "Tell what works here and what is missing, with the fix.",
    ),
    "demo": ("peerage.doors.cli.demo:demo", "Take a tour, with no key and no network."),
}
MAX_NAMES = 34  # columns of a help page for the names of options
MIN_TEXT = 30  # columns for what they are for


def version() -> None:
    """Show the version."""
    from importlib.metadata import version

    write_line(f"peerage {version('peerage')}")


def install_completion() -> None:
    """Let the shell complete the commands and options of peerage."""
    write_line(f"wrote {app.install_completion()}")


def _default(value: object) -> str | None:
    """A default as help shows it; what is off or not set is not worth a word."""
    return None if value in (None, False, "", ()) else str(value)


class HelpPage:
    """Writes help as plain lines: names on the left, what they are for on the right."""

    def render_usage(self, _: Console, __: ConsoleOptions, usage: object) -> None:
        write_line(f"Usage: {str(usage).strip().removeprefix('Usage: ')}\n", multiline=True)

    def render_description(self, _: Console, __: ConsoleOptions, about: object) -> None:
        write_line(f"{_wrapped(_plain(about))}\n", multiline=True)

    def __call__(
        self,
        console: Console,  # noqa: ARG002 - every line goes through the screen
        options: ConsoleOptions,  # noqa: ARG002
        panel: HelpPanel,
    ) -> None:
        names = [", ".join(entry.display_labels_with_metavar) for entry in panel.entries]
        room = min(max(map(len, names), default=0), MAX_NAMES) + 4
        lines = [
            f"  {name}".ljust(room) + _wrapped(_meaning(entry), room)
            for name, entry in zip(names, panel.entries, strict=True)
        ]
        if lines:
            write_line("\n".join([f"{panel.title}:", *lines, ""]), multiline=True)


def _plain(described: object) -> str:
    """The text of what cyclopts has made ready for a console."""
    return str(getattr(described, "primary_renderable", described) or "")


def _wrapped(text: str, indent: int = 0) -> str:
    """Text in lines that fit the terminal, those after the first indented; else one line."""
    if not is_terminal():
        return text
    import shutil
    import textwrap

    width = max(MIN_TEXT, shutil.get_terminal_size().columns - indent - 1)
    return ("\n" + " " * indent).join(textwrap.wrap(text, width))


def _meaning(entry: HelpEntry) -> str:
    """What an option is for, what it can be, and what it is if not given."""
    parts = [_plain(entry.description)] if entry.description else []
    parts += [f"One of {', '.join(entry.choices)}."] if entry.choices else []
    parts += [f"Default: {entry.default}."] if entry.default else []
    return " ".join(parts)


app = App(
    name="peerage",
    help="Peer review for language models: blind ballots, honest scores, audited reviewers.",
    help_flags=("--help", "-h"),
    help_format="plaintext",
    help_formatter=HelpPage(),
    version_flags=(),
    default_parameter=Parameter(
        negative_bool=(), negative_iterable=(), negative_none=(), show_default=_default
    ),
)
for _order, (_name, (_path, _help)) in enumerate(COMMANDS.items()):
    app.command(_path, name=_name, help=_help, sort_key=_order)
app.command(version, name="--version")
app.command(install_completion, name="--install-completion")


def main() -> None:
    """Run the command line; a person's mistake ends in one paragraph, never in a traceback."""
    try:
        prepare_streams()
        code = _run(sys.argv[1:])
    except ReaderLeftError as error:
        code = error.exit_code
    except PeerageError as error:
        say(str(error))
        code = error.exit_code
    except CycloptsError as error:
        command = " ".join(["peerage", *(error.command_chain or ())])
        say(f"{error} Try `{command} --help`.")
        code = UsageError.exit_code
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        say(f"{place}{error.strerror or error}.")
        code = UsageError.exit_code
    except KeyboardInterrupt:
        say("interrupted.")
        code = INTERRUPTED
    sent = close_streams()
    sys.exit(code if sent or code else UsageError.exit_code)


def _run(arguments: list[str]) -> int:
    """Run one command; the exit code."""
    for number, argument in enumerate(arguments, 1):
        if not argument.isascii() and any(
            "\ud800" <= character <= "\udfff" for character in argument
        ):
            raise UsageError(f"argument {number} is not UTF-8 text: {argument}")
    code = app(
        arguments,
        exit_on_error=False,
        print_error=False,
        verbose=False,
        result_action="return_value",
    )
    return code if isinstance(code, int) else 0
