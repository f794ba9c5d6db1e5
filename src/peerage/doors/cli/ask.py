"""`peerage ask`: one session, shown live."""

from __future__ import annotations

import asyncio
from shlex import quote
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from peerage.doors.cli.options import WITH_NO, Common, Dash, text_or_stdin
from peerage.doors.cli.output import write_bare_verdict
from peerage.doors.cli.screen import say, write_json
from peerage.errors import UsageError
from peerage.reports.options import AskOptions
from peerage.types import Event, ScoringOptions, Session

if TYPE_CHECKING:
    from peerage.panel import AskKeywords, Council

INTERRUPTED = 130
PARTIAL = 3
REFUSED = 1

Full = Annotated[bool, Parameter(help="Show every answer whole, not its first lines.")]


def ask(
    question: Annotated[str, Dash, Parameter(help="The question, or - for stdin.")] = "",
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
    from peerage.events import opening_of
    from peerage.panel import Council, recorded_options

    text = text_or_stdin(question)
    settings = common.council_settings(options.flags())
    events: list[Event] = []
    code = None
    try:
        asyncio.run(_run_session(Council(settings), text, options, common, events))
    except KeyboardInterrupt:
        said = f"session {events[0].session_id} is not finished. " if events else "interrupted."
        again = resume_line(events[0].session_id, options=_where(common)) if events else ""
        say(f"{said}{again}")
        return INTERRUPTED
    except BudgetError as error:
        say(f"{error} What was stored is kept.")
        code = BudgetError.exit_code
    if not events:
        return code or 0
    session, opened = fold(events), opening_of(events)
    _show(session, events, recorded_options(settings, opened), common, full)
    return exit_code(session, opened.law.verdict) if code is None else code


async def _run_session(
    council: Council, text: str, options: AskOptions, common: Common, events: list[Event]
) -> None:
    """Run the session and show it as it goes; its events are added to those given."""
    from peerage.doors.cli.live import LiveView, PlainView
    from peerage.doors.cli.terminal import Terminal

    console = Terminal(stderr=common.json)
    live = not common.quiet and console.is_terminal
    rubric = council.settings.rubric_for(options.category)
    view = LiveView(console, rubric) if live else PlainView(common.quiet)
    asked = _keywords(options)
    async with council:
        with view:
            async for event in council.run(text, options.category, live=live, **asked):
                view.see(event)
                events += [event] if event.seq >= 0 else []


def _show(
    session: Session, events: list[Event], scoring: ScoringOptions, common: Common, full: bool
) -> None:
    """What the question ends with, on stdout; what failed, on stderr."""
    from peerage.doors.cli.terminal import Terminal
    from peerage.doors.render.page_blocks import show_blocks
    from peerage.doors.render.session_views import ask_blocks, failure_line
    from peerage.reports.sessions import session_document, session_view

    if common.json:
        write_json(session_document(session, events, scoring))
        return
    view = session_view(session, events, scoring)
    console = Terminal()
    if common.quiet:
        write_bare_verdict(view)
        return
    show_blocks(console, ask_blocks(view, full))
    errors = Terminal(stderr=True)
    for failure in view.failures if console.is_terminal else ():  # a pipe was told as they came
        errors.print(failure_line(failure), style="red")


def _where(common: Common) -> str:
    """The options that say where the session is, as they were given."""
    given = {"--store": common.store, "--config": common.config}
    return "".join(f" {name} {quote(str(value))}" for name, value in given.items() if value)


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
    """0 done, 1 the panel rejects what it was asked, 3 too few answered, or nothing was decided."""
    approved = None if session.verdict is None else session.verdict.approved
    if session.status != "done" or (asked_for == "binary" and approved is None):
        return PARTIAL
    return REFUSED if approved is False else 0
