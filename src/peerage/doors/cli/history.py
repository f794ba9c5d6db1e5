"""`peerage sessions`, `show` and `replay`: stored sessions, as scored then and scored again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from peerage.council.fold import fold
from peerage.doors.cli.options import configured
from peerage.doors.cli.screen import write_json
from peerage.errors import InputError
from peerage.events import opening_of, without_readings
from peerage.panel import recorded_options, scoring_options
from peerage.reports.sessions import rescored, session_document
from peerage.stores import Store
from peerage.types import Event

if TYPE_CHECKING:
    from peerage.doors.render.layout import TextTable
    from peerage.stores import Listing


def list_sessions(store_url: str | None, limit: int, config_file: Path | None, json: bool) -> None:
    _, store = configured(config_file, {"store": store_url})
    listed = store.sessions(limit=limit)
    if json:
        write_json({"sessions": [asdict(entry) for entry in listed]})
        return
    from peerage.doors.cli.terminal import Terminal

    if listed:
        sessions_table(listed).show(Terminal())
    else:
        Terminal().print('No sessions yet: peerage ask "…" holds one.')


def sessions_table(listed: Sequence[Listing]) -> TextTable:
    """The sessions of a store, the latest first."""
    from peerage.doors.render.layout import TableColumn, TextTable
    from peerage.doors.render.phrases import minute

    table = TextTable(
        TableColumn("session", "word"),
        TableColumn("opened", "word", use=2),
        TableColumn("status", "word", use=1),
        TableColumn("category", "name", use=3),
        TableColumn("question", "text"),
    )
    for entry in listed:
        question = " ".join(entry.query.split())[:80]
        status = entry.status or "unfinished"
        table.add(entry.id, minute(entry.opened_at), status, entry.category, question)
    return table


def show_one(
    prefix: str, config_file: Path | None, flags: Mapping[str, object], json: bool
) -> None:
    """One session in full, scored by the options it was recorded with."""
    settings, store = configured(config_file, flags)
    events = _find(store, prefix)
    session = fold(events)
    options = recorded_options(settings, opening_of(events))
    if json:
        write_json(session_document(session, events, options))
    else:
        from peerage.doors.render.session_views import show_session

        show_session(session, options)


def replay_one(
    prefix: str, config_file: Path | None, flags: Mapping[str, object], json: bool
) -> None:
    """One session read and scored again; the ballots and the replies are the log's."""
    settings, store = configured(config_file, flags)
    session = fold(without_readings(_find(store, prefix)))
    if not session.ballots:
        raise InputError(f"session {session.id} has no ballots to score.")
    scored = rescored(session, scoring_options(settings, session.query.category))
    if json:
        write_json(scored.document())
        return
    from peerage.doors.cli.terminal import Terminal
    from peerage.doors.render.session_views import show_scored

    show_scored(Terminal(), scored)


def audit_one(
    prefix: str,
    config_file: Path | None,
    flags: Mapping[str, object],
    json: bool,
    fail_on: str | None = None,
) -> None:
    """The audit of one session: mostly that one session is too few."""
    from peerage.doors.cli.output import fail_if_found, refuse_unknown

    refuse_unknown(fail_on)
    settings, store = configured(config_file, flags)
    session = fold(_find(store, prefix))
    scored = rescored(session, scoring_options(settings, session.query.category))
    if scored.audit is None:
        raise InputError("the audit is switched off.", hint="Set [council] audit = true.")
    if json:
        write_json(
            {
                "findings": [finding._asdict() for finding in scored.audit.findings],
                "bias_audit": dict(scored.audit.bias_audit),
            }
        )
    else:
        from peerage.doors.cli.terminal import Terminal
        from peerage.doors.render.report_views import show_audit

        show_audit(Terminal(), scored.audit)
    fail_if_found(scored.audit, fail_on)


def _find(store: Store, prefix: str) -> list[Event]:
    found = store.find(prefix)
    if not found:
        raise InputError(f"there is no session {prefix!r}.", hint="`peerage sessions` lists them.")
    if len(found) > 1:
        raise InputError(
            f"{len(found)} sessions begin with {prefix!r}: {', '.join(found[:5])}.",
            hint="Give more of the id.",
        )
    return store.events(found[0])
