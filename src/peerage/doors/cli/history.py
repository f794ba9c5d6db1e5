"""`peerage sessions`, `show` and `replay`: what the store holds, and what it would say now."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from peerage.doors.cli.options import FLAT, WITH_NO, Common
from peerage.doors.cli.screen import write_json
from peerage.reports.options import ReplayOptions, SessionsOptions

if TYPE_CHECKING:
    from peerage.reports import SessionList

SessionId = Annotated[str, Parameter(name="ID", help="A session's id, or its beginning.")]


def sessions(
    *,
    options: Annotated[SessionsOptions, FLAT] = SessionsOptions(),
    common: Common = Common(),
) -> None:
    """List the latest sessions of the store."""
    listed = common.reports().sessions(options)
    if common.json:
        write_json(listed.document())
    else:
        _show_list(listed)


def show(session: SessionId, /, *, common: Common = Common()) -> None:
    """Show one session in full, as it was scored then."""
    found = common.reports().session(session)
    if common.json:
        write_json(found.document())
        return
    from peerage.doors.cli.render import show_session

    show_session(found.session, found.law, brief=common.quiet)


def replay(
    session: SessionId,
    /,
    *,
    options: Annotated[ReplayOptions, WITH_NO] = ReplayOptions(),
    common: Common = Common(),
) -> None:
    """Score a stored session again by other options; no model is called."""
    scored = common.reports().replay(session, options)
    if common.json:
        write_json(scored.document())
        return
    from peerage.doors.cli import score
    from peerage.doors.cli.terminal import Terminal

    score.show(Terminal(), scored, common.quiet)


def _show_list(listed: SessionList) -> None:
    from rich.table import Table

    from peerage.doors.cli.terminal import Terminal

    table = Table(box=None, pad_edge=False, header_style="dim")
    for head in ("session", "opened", "status", "category", "question"):
        table.add_column(head, no_wrap=head != "question")
    for entry in listed.sessions:
        when = _minute(entry.opened_at)
        question = " ".join(entry.query.split())[:80]
        table.add_row(entry.id, when, entry.status or "unfinished", entry.category, question)
    Terminal().print(table if listed.sessions else 'No sessions yet: peerage ask "…" holds one.')


def _minute(at: float) -> str:
    """A time to the minute; an imported one may be out of any calendar."""
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")
    except (OverflowError, ValueError, OSError):
        return "–"
