"""Pages for readers without a token: a board, a season or a session, each page in one file.

The same pages are served behind a secret link or written to a folder. They load nothing from other
addresses, and contain no names of people unless requested: people who reviewed are called person 1,
2, …, and the audit leaves their reviews out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from peerage.doors.render.pages import (
    PageLink,
    Site,
    audit_page,
    board_page,
    list_page,
    session_page,
)
from peerage.errors import InputError, NotFoundError
from peerage.event_facts import is_deleted
from peerage.events import (
    Adjudicated,
    Commented,
    Deleted,
    PersonReviewed,
    Rejudged,
    Renamed,
    Restored,
    Tagged,
    Withdrawn,
    read_event,
    read_events,
    stored_event,
)
from peerage.findings import Audit
from peerage.hosted_seasons import find_plan
from peerage.reports import Reports
from peerage.reports.options import AuditOptions, ModelBoardOptions
from peerage.stores import SessionEntry, full_id
from peerage.types import Event
from peerage.view import SessionView

Kind = Literal["board", "season", "session"]
INDEX, AUDIT, SESSIONS = "index.html", "audit.html", "sessions.html"
FOLDER = "sessions/"
SUFFIX = ".html"


@dataclass(frozen=True, slots=True)
class Publication:
    """A published subject: a board of all sessions, a season, or one session."""

    kind: Kind
    of: str = ""  # the id of the season or session
    people: bool = False  # whether names of people are shown
    title: str = ""

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> Publication:
        """Return the publication in the body of a link."""
        return cls(**{name: body[name] for name in ("kind", "of", "people", "title")})


def check_publication(reports: Reports, kind: Kind, of: str, people: bool) -> Publication:
    """Return a publication; raise an error if its subject does not exist."""
    if kind == "session":
        id_ = full_id(reports.store, of)
        view = reports.session(id_)
        if not view.session.finished or view.deleted:
            raise InputError("a session that is running or deleted cannot be published.")
        return Publication(kind, id_, people, view.name or view.query.text[:100])
    if kind == "season":
        plan = find_plan(reports.store, of)
        if not plan.season or reports.store.is_deleted(plan.season):
            raise InputError("a season that has not started or is deleted cannot be published.")
        return Publication(kind, plan.season, people, plan.name)
    return Publication(kind, "", people, "All models")


def published_page(
    reports: Reports, publication: Publication, path: str, around: Sequence[PageLink] = ()
) -> str:
    """Return the page at a path of a publication; `around` are links to pages outside of it.

    A session or a season that was deleted has no pages any more.
    """
    if publication.kind == "season" and reports.store.is_deleted(publication.of):
        raise NotFoundError("this season was deleted.")
    if publication.kind == "session":
        if path == INDEX:
            return _session(reports, publication, publication.of, Site(around=around))
        raise NotFoundError("there is no such page here.")
    site = _site(publication, path)._replace(around=around)
    if path == INDEX:
        options = ModelBoardOptions(season=publication.of or None, since="all")
        board = reports.board(options)
        names = _people(reports) if not publication.people else set()
        flags = tuple(flag for flag in board.flags if not any(name in flag for name in names))
        named = {"season": publication.title} if publication.of and publication.title else {}
        described = replace(board, flags=flags, parameters={**board.parameters, **named})
        return board_page(described, site)
    if path == AUDIT:
        return audit_page(_audit(reports, publication), site)
    entries = _entries(reports, publication)
    if path == SESSIONS:
        return list_page([(f"{FOLDER}{one.id}{SUFFIX}", one) for one in entries], site)
    id_ = path.removeprefix(FOLDER).removesuffix(SUFFIX)
    if path != f"{FOLDER}{id_}{SUFFIX}" or id_ not in {entry.id for entry in entries}:
        raise NotFoundError("there is no such page here.")
    return _session(reports, publication, id_, site)


def published_pages(reports: Reports, publication: Publication) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of every page of a publication."""
    paths = [INDEX]
    if publication.kind != "session":
        ids = [entry.id for entry in _entries(reports, publication)]
        paths += [AUDIT, SESSIONS, *(f"{FOLDER}{id_}{SUFFIX}" for id_ in ids)]
    for path in paths:
        try:
            yield path, published_page(reports, publication, path)
        except InputError:
            if path != AUDIT:  # there may be too few reviews for an audit
                raise


def _site(publication: Publication, path: str) -> Site:
    up = "../" if path.startswith(FOLDER) else ""
    entries = ((INDEX, "Board"), (AUDIT, "Audit"), (SESSIONS, "Sessions"))
    links = tuple(PageLink(f"{up}{to}", name, to == path) for to, name in entries)
    return Site(publication.title, links)


def _entries(reports: Reports, publication: Publication) -> list[SessionEntry]:
    """Return the finished sessions of a publication, the latest first."""
    entries = reports.store.sessions(publication.of or None)
    return [entry for entry in reversed(entries) if entry.status]


def _people(reports: Reports) -> set[str]:
    """Return the names of people who reviewed."""
    events = (read_event(event) for event in reports.store.people_events())
    return {fact.ballot.reviewer for fact in events if isinstance(fact, PersonReviewed | Rejudged)}


def _audit(reports: Reports, publication: Publication) -> Audit:
    """Return the audit; if names of people are not published, their reviews are left out."""
    names = set() if publication.people else _people(reports)
    season = publication.of or None
    options = AuditOptions(season=season, since="all")
    audit = reports.audit(options)
    there = {finding.subject for finding in audit.findings} | set(audit.views.get("people", ()))
    if not names & there:
        return audit
    audit = reports.audit(
        AuditOptions(season=season, since="all", without=tuple(sorted(names & there)))
    )
    views = {
        name: value for name, value in audit.views.items() if name not in ("without", "people")
    }
    flags = tuple(f for f in views.get("flags", ()) if not any(name in f for name in names))
    words = "The reviews of people are left out of this audit."
    return replace(audit, views={**views, "flags": (*flags, words)})


def _session(reports: Reports, publication: Publication, id_: str, site: Site) -> str:
    events = reports.store.events(id_)
    if is_deleted(read_events(events)):
        raise NotFoundError("this session was deleted.")
    if not publication.people:
        events = without_names(events)
    return session_page(SessionView.of(events, reports.settings), site=site)


def without_names(events: Sequence[Event]) -> list[Event]:
    """Return a log in which people are called person 1, 2, …, without comments and tags."""
    numbers: dict[str, str] = {}

    def alias(name: str) -> str:
        return numbers.setdefault(name, f"person {len(numbers) + 1}")

    published = []
    for event in events:
        match fact := read_event(event):
            case Commented() | Tagged() | Rejudged() | Deleted() | Restored():
                continue
            case PersonReviewed():
                ballot = replace(fact.ballot, reviewer=alias(fact.ballot.reviewer))
                changed: Any = replace(fact, ballot=ballot)
            case Withdrawn():
                changed = Withdrawn(alias(fact.reviewer))
            case Adjudicated() | Renamed():
                changed = replace(fact, by="")
            case _:
                published.append(event)
                continue
        published.append(stored_event(event.session_id, event.seq, event.at, changed))
    return published
