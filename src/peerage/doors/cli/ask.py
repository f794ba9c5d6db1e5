"""`peerage ask`: one session, shown live."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from peerage.doors.cli.options import WITH_NO, Common, Dash, text_or_stdin
from peerage.doors.cli.screen import say, write_json, write_line
from peerage.reports.options import AskOptions
from peerage.types import Event, ScoringOptions, Session

if TYPE_CHECKING:
    from peerage.panel import Council

INTERRUPTED = 130
PARTIAL = 3
REFUSED = 1

Full = Annotated[bool, Parameter(help="Show every answer whole, not its first lines.")]


def ask(
    question: Annotated[str, Dash, Parameter(help="The question, or - for stdin.")],
    /,
    *,
    options: Annotated[AskOptions, WITH_NO] = AskOptions(),
    full: Full = False,
    common: Common = Common(),
) -> int:
    """Put a question to the council; the exit code says how it ended."""
    from peerage.council.fold import fold
    from peerage.doors.render.session_views import resume_line
    from peerage.errors import BudgetError
    from peerage.panel import Council, scoring_options

    text = text_or_stdin(question)
    settings = common.council_settings(options.flags())
    events: list[Event] = []
    code = None
    try:
        asyncio.run(_run_session(Council(settings), text, options.category, common, events))
    except KeyboardInterrupt:
        say(resume_line(events[0].session_id) if events else "interrupted.")
        return INTERRUPTED
    except BudgetError as error:
        say(f"{error} What was stored is kept.")
        code = BudgetError.exit_code
    if not events:
        return code or 0
    session = fold(events)
    _show(session, events, scoring_options(settings, options.category), common, full)
    return exit_code(session, settings.council.verdict) if code is None else code


async def _run_session(
    council: Council, text: str, category: str, common: Common, events: list[Event]
) -> None:
    """Run the session and show it as it goes; its events are added to those given."""
    from peerage.doors.cli.live import LiveView, PlainView
    from peerage.doors.cli.terminal import Terminal

    console = Terminal(stderr=common.json)
    live = not common.quiet and console.is_terminal
    rubric = council.settings.rubric_for(category)
    seats = council.settings.seats
    view = LiveView(console, seats, text, rubric) if live else PlainView(common.quiet)
    async with council:
        with view:
            async for event in council.run(text, category, live=live):
                view.see(event)
                events += [event] if event.seq >= 0 else []


def _show(
    session: Session, events: list[Event], scoring: ScoringOptions, common: Common, full: bool
) -> None:
    """What the question ends with on stdout; failures and the want of a quorum on stderr."""
    from peerage.doors.cli.terminal import Terminal
    from peerage.doors.render.blocks import show_blocks
    from peerage.doors.render.session_views import ask_blocks, bare_verdict, failure_line
    from peerage.reports.sessions import session_document, session_view

    if common.json:
        write_json(session_document(session, events, scoring))
        return
    view = session_view(session, events, scoring)
    console = Terminal()
    if common.quiet:
        write_line(bare_verdict(view), multiline=True)
        return
    for failure in view.failures if console.is_terminal else ():  # a pipe was told as they came
        say(failure_line(failure))
    show_blocks(console, ask_blocks(view, full))


def exit_code(session: Session, asked_for: str) -> int:
    """0 done, 1 the panel did not approve what it was asked to, 3 not enough seats answered."""
    if session.status != "done":
        return PARTIAL
    approved = None if session.verdict is None else session.verdict.approved
    if approved is False or (asked_for == "binary" and approved is not True):
        return REFUSED
    return 0
