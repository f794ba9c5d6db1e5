"""`peerage ask`: one session, shown live."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from peerage.convening import Council, law_of, settings_of
from peerage.council import folding
from peerage.doors.cli.live import LiveView, PlainView
from peerage.doors.cli.options import noted
from peerage.doors.cli.render import show_session
from peerage.doors.cli.screen import write_json
from peerage.errors import BudgetError
from peerage.records import session_document
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
    """Hold the session and show it; the exit code says how it ended."""
    text = sys.stdin.read() if question == "-" else question
    settings = noted(settings_of(config_file, flags))
    council = Council(settings)
    try:
        events = asyncio.run(_hold(council, text, category, manner))
    except BudgetError as error:
        sys.stderr.write(f"peerage: {error} What was stored is kept.\n")
        return BudgetError.exit_code
    session = folding.fold(event for event in events if event.seq >= 0)
    law = law_of(settings, category)
    if manner.json:
        write_json(session_document(session, events, law))
    else:
        show_session(session, law, brief=manner.quiet)
    return exit_code(session)


async def _hold(council: Council, text: str, category: str, manner: Manner) -> list[Event]:
    from rich.console import Console

    console = Console(stderr=manner.json)
    watched = not manner.quiet and console.is_terminal
    view = LiveView(console, council.settings.seats) if watched else PlainView(manner.quiet)
    events = []
    async with council:
        with view:
            async for event in council.run(text, category, live=watched):
                view.see(event)
                if event.seq >= 0:
                    events.append(event)
    return events


def exit_code(session: Session) -> int:
    """0 done, 1 the panel said no, 3 not enough seats answered."""
    if session.status != "done":
        return PARTIAL
    if session.verdict is not None and session.verdict.approved is False:
        return REFUSED
    return 0
