"""`peerage ask`: one session, shown live."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from peerage.doors.cli.options import WITH_NO, Common, Dash, text_or_stdin
from peerage.doors.cli.screen import say, write_json
from peerage.errors import UsageError
from peerage.reports.options import AskOptions
from peerage.types import Event, Session

if TYPE_CHECKING:
    from peerage.panel import AskKeywords, Council

PARTIAL = 3
REFUSED = 1


def ask(
    question: Annotated[str, Dash, Parameter(help="The question, or - for stdin.")] = "",
    /,
    *,
    options: Annotated[AskOptions, WITH_NO] = AskOptions(),
    common: Common = Common(),
) -> int:
    """Put a question to the council; the exit code says how it ended."""
    from peerage.council.fold import fold
    from peerage.doors.render.session_views import show_session
    from peerage.errors import BudgetError
    from peerage.events import opening_of
    from peerage.panel import Council, recorded_options
    from peerage.reports.sessions import session_document

    text = text_or_stdin(question)
    settings = common.council_settings(options.flags())
    council = Council(settings)
    try:
        events = asyncio.run(_run_session(council, text, options, common))
    except BudgetError as error:
        say(f"{error} What was stored is kept.")
        return BudgetError.exit_code
    session = fold(events)
    opened = opening_of(events)
    scoring = recorded_options(settings, opened)
    if common.json:
        write_json(session_document(session, events, scoring))
    else:
        show_session(session, scoring, brief=common.quiet)
    return exit_code(session, opened.law.verdict)


async def _run_session(
    council: Council, text: str, options: AskOptions, common: Common
) -> list[Event]:
    """Run the session and show it as it goes; its events."""
    from peerage.doors.cli.live import LiveView, PlainView
    from peerage.doors.cli.terminal import Terminal

    console = Terminal(stderr=common.json)
    live = not common.quiet and console.is_terminal
    view = LiveView(console, council.settings.seats) if live else PlainView(common.quiet)
    events = []
    asked = _keywords(options)
    async with council:
        with view:
            async for event in council.run(text, options.category, live=live, **asked):
                view.see(event)
                events += [event] if event.seq >= 0 else []
    return events


def _keywords(options: AskOptions) -> AskKeywords:
    """What was given for this session alone; the rest is in the council's settings."""
    asked: AskKeywords = {}
    if options.seats is not None:
        asked["seats"] = [name for name in map(str.strip, options.seats.split(",")) if name]
        if not asked["seats"]:
            raise UsageError("--seats names nobody.", hint="As in --seats a,b.")
    if options.system is not None:
        asked["system"] = options.system
    if options.after is not None:
        asked["after"] = options.after
    if options.resume is not None:
        asked["resume"] = options.resume
    if options.budget_usd is not None:
        asked["budget_usd"] = options.budget_usd
    return asked


def exit_code(session: Session, asked_for: str) -> int:
    """0 done, 1 the panel did not approve what it was asked to, 3 not enough seats answered."""
    if session.status != "done":
        return PARTIAL
    approved = None if session.verdict is None else session.verdict.approved
    if approved is False or (asked_for == "binary" and approved is not True):
        return REFUSED
    return 0
