"""Help as plain lines that fit the terminal, with examples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from peerage.doors.cli.screen import folded, write_line

if TYPE_CHECKING:
    from cyclopts.help import HelpEntry, HelpPanel
    from rich.console import Console, ConsoleOptions

MAX_NAMES = 34  # columns of a help page for the names of options


class HelpPage:
    """Writes help as plain lines: examples, then names with what they are for on the right."""

    def __init__(self, *examples: str) -> None:
        self.examples = examples

    def render_usage(self, _: Console, __: ConsoleOptions, usage: object) -> None:
        write_line(f"Usage: {str(usage).strip().removeprefix('Usage: ')}\n", multiline=True)

    def render_description(self, _: Console, __: ConsoleOptions, about: object) -> None:
        write_line(f"{folded(_plain(about))}\n", multiline=True)
        if self.examples:
            lines = "".join(f"  {example}\n" for example in self.examples)
            write_line(f"Examples:\n{lines}", multiline=True)

    def __call__(
        self,
        console: Console,  # noqa: ARG002 - every line goes through the screen
        options: ConsoleOptions,  # noqa: ARG002
        panel: HelpPanel,
    ) -> None:
        names = [", ".join(entry.display_labels_with_metavar) for entry in panel.entries]
        room = min(max(map(len, names), default=0), MAX_NAMES) + 4
        lines = [
            folded(f"  {name}".ljust(room) + _meaning(entry), room)
            for name, entry in zip(names, panel.entries, strict=True)
        ]
        if lines:
            write_line("\n".join([f"{panel.title}:", *lines, ""]), multiline=True)


def _plain(described: object) -> str:
    """The text of what cyclopts has made ready for a console."""
    return str(getattr(described, "primary_renderable", described) or "")


def _meaning(entry: HelpEntry) -> str:
    """What an option is for, what it can be, and what it is if not given."""
    parts = [_plain(entry.description)] if entry.description else []
    parts += [f"One of {', '.join(entry.choices)}."] if entry.choices else []
    parts += [f"Default: {entry.default}."] if entry.default else []
    return " ".join(parts)
