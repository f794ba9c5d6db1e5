"""`peerage sessions`, `show` and `replay`: stored sessions, as scored then and scored again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from peerage.council.fold import fold
from peerage.doors.cli.options import configured
from peerage.doors.cli.render import show_session
from peerage.doors.cli.score import show
from peerage.doors.cli.screen import write_json
from peerage.errors import InputError
from peerage.events import opening_of, without_readings
from peerage.panel import recorded_options, scoring_options
from peerage.reports.sessions import rescored, session_document
from peerage.stores import Store
from peerage.types import Event


def list_sessions(store_url: str | None, limit: int, config_file: Path | None, json: bool) -> None:
    _, store = configured(config_file, {"store": store_url})
    listed = store.sessions(limit=limit)
    if json:
        write_json({"sessions": [asdict(entry) for entry in listed]})
        return
    from rich.table import Table

    from peerage.doors.cli.terminal import Terminal

    table = Table(box=None, pad_edge=False, header_style="dim")
    for head in ("session", "opened", "status", "category", "question"):
        table.add_column(head, no_wrap=head != "question")
    for entry in listed:
        when = _minute(entry.opened_at)
        question = " ".join(entry.query.split())[:80]
        table.add_row(entry.id, when, entry.status or "unfinished", entry.category, question)
    Terminal().print(table if listed else 'No sessions yet: peerage ask "…" holds one.')


def _minute(at: float) -> str:
    """A time to the minute; an imported one may be out of any calendar."""
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")
    except (OverflowError, ValueError, OSError):
        return "–"


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

    show(Terminal(), scored)


def audit_one(
    prefix: str,
    config_file: Path | None,
    flags: Mapping[str, object],
    json: bool,
    fail_on: str | None = None,
) -> None:
    """The audit of one session: mostly that one session is too few."""
    from peerage.doors.cli.audit import fail_if_found, refuse_unknown
    from peerage.doors.cli.audit import show as show_audit

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
