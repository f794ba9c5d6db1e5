"""`peerage sessions`, `show` and `replay`: stored sessions, as scored then and scored again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from peerage.doors.cli.options import FLAT, WITH_NO, Common
from peerage.doors.cli.output import write_bare_verdict, write_page
from peerage.doors.cli.screen import write_json, write_line
from peerage.reports.options import ReplayOptions, SessionsOptions

if TYPE_CHECKING:
    from peerage.doors.render.layout import TextTable
    from peerage.reports.sessions import SessionEntry

MAX_QUESTION = 80  # characters of a question in a list

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
        return
    from peerage.doors.cli.terminal import Terminal

    if listed.sessions:
        sessions_table(listed.sessions).show(Terminal())
    else:
        Terminal().print('No sessions yet: peerage ask "…" holds one.')


def show(
    session: SessionId,
    /,
    *,
    raw: Annotated[bool, Parameter(help="Also the replies as they came.")] = False,
    markdown: Annotated[
        list[Path] | None,
        Parameter(consume_multiple=(0, 1), help="As Markdown, on stdout or in this file."),
    ] = None,
    html: Annotated[Path | None, Parameter(help="Write a page to this file.")] = None,
    common: Common = Common(),
) -> None:
    """Show one session in full, as it was scored then."""
    found = common.reports().session(session)
    if common.json:
        write_json(found.document())
        return
    from peerage.doors.render.page_blocks import blocks_markdown, show_blocks
    from peerage.doors.render.session_views import session_blocks

    view = found.view()
    if html is not None:
        from peerage.doors.render.pages import session_page

        write_page(html, session_page(view, raw), common.quiet)
    if markdown:
        write_page(markdown[0], blocks_markdown(session_blocks(view, raw)) + "\n", common.quiet)
    elif markdown is not None:
        write_line(blocks_markdown(session_blocks(view, raw)), multiline=True)
    elif common.quiet:
        write_bare_verdict(view)
    elif html is None:
        from peerage.doors.cli.terminal import Terminal

        show_blocks(Terminal(), session_blocks(view, raw))


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
    from peerage.doors.cli.terminal import Terminal
    from peerage.doors.render.session_views import show_scored

    show_scored(Terminal(), scored, common.quiet)


def sessions_table(listed: Sequence[SessionEntry]) -> TextTable:
    """The sessions of a store, in the order in which they were opened."""
    from peerage.doors.render.layout import TableColumn, TextTable
    from peerage.doors.render.phrases import minute, money
    from peerage.doors.render.session_views import one_line

    table = TextTable(
        TableColumn("session", "word"),
        TableColumn("opened", "word", use=3),
        TableColumn("status", "word", use=1),
        TableColumn("winner", "name", use=2),
        TableColumn("cost", use=4),
        TableColumn("category", "name", use=5),
        TableColumn("question", "text"),
    )
    for entry in listed:
        table.add(
            entry.id,
            minute(entry.opened_at),
            entry.status or "unfinished",
            entry.winner,
            f"{'≥ ' if entry.unpriced_calls else ''}{money(entry.cost_usd)}",
            entry.category,
            one_line(entry.query, MAX_QUESTION),
        )
    return table
