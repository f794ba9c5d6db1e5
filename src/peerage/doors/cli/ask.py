"""`peerage ask`: one session, shown live."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from peerage.council.fold import fold
from peerage.doors.cli.live import LiveView, PlainView
from peerage.doors.cli.options import noted
from peerage.doors.cli.screen import read_stdin, say, write_json
from peerage.errors import BudgetError, InputError
from peerage.panel import Council, scoring_options, settings_of
from peerage.reports.sessions import session_document
from peerage.types import Event, Session

PARTIAL = 3
REFUSED = 1


@dataclass(frozen=True, slots=True)
class Manner:
    """How a command speaks."""

    json: bool = False
    quiet: bool = False


def run(
    question: str,
    category: str,
    flags: Mapping[str, object],
    config_file: Path | None,
    manner: Manner,
) -> int:
    """Run the session and show it; the exit code says how it ended."""
    text = _from_stdin() if question == "-" else question
    settings = noted(settings_of(config_file, flags))
    council = Council(settings)
    try:
        events = asyncio.run(_run_session(council, text, category, _view(council, manner)))
    except BudgetError as error:
        say(f"{error} What was stored is kept.")
        return BudgetError.exit_code
    session = fold(events)
    options = scoring_options(settings, category)
    if manner.json:
        write_json(session_document(session, events, options))
    else:
        from peerage.doors.render.session_views import show_session

        show_session(session, options, brief=manner.quiet)
    return exit_code(session, settings.council.verdict)


def _from_stdin() -> str:
    try:
        return read_stdin().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 text (byte {error.start}).", place="stdin") from None


def _view(council: Council, manner: Manner) -> LiveView | PlainView:
    from peerage.doors.cli.terminal import Terminal

    console = Terminal(stderr=manner.json)
    watched = not manner.quiet and console.is_terminal
    return LiveView(console, council.settings.seats) if watched else PlainView(manner.quiet)


async def _run_session(
    council: Council, text: str, category: str, view: LiveView | PlainView
) -> list[Event]:
    watched = isinstance(view, LiveView)
    events = []
    async with council:
        with view:
            async for event in council.run(text, category, live=watched):
                view.see(event)
                if event.seq >= 0:
                    events.append(event)
    return events


def exit_code(session: Session, asked_for: str) -> int:
    """0 done, 1 the panel did not approve what it was asked to, 3 not enough seats answered."""
    if session.status != "done":
        return PARTIAL
    approved = None if session.verdict is None else session.verdict.approved
    if approved is False or (asked_for == "binary" and approved is not True):
        return REFUSED
    return 0
