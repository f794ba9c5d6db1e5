"""Deleting and restoring sessions, seasons and imported tables, and tagging sessions.

Nothing is erased. A deletion appends an event to a session's log, or stores a row about an imported
table. Boards, audits, lists and pages leave deleted data out, and a restoration brings it back.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from peerage.errors import InputError, NotFoundError, UsageError, how_many, shown
from peerage.event_facts import tags_of
from peerage.events import Deleted, Restored, Stored, Tagged, read_events, stored_event
from peerage.imports import check_again
from peerage.reports.session_options import DeleteOptions, TagOptions
from peerage.stores import (
    Import,
    SessionTakenError,
    Store,
    StoredDocument,
    full_id,
    full_season,
)

PUBLISHED_FOLDER = "published folder"  # the kind of documents about folders with pages
MAX_TRIES = 10  # attempts to append while other processes append
MAX_TAGS = 50  # of one session
MAX_TAG_CHARACTERS = 60
MIN_HASH_CHARACTERS = 4
N_NAMED = 5

Clock = Callable[[], float]


# -- deletion and restoration --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DeletionPlan:
    """The sessions and imports that a deletion or restoration would change."""

    undo: bool
    sessions: tuple[str, ...]  # ids
    imports: tuple[Import, ...]
    n_already: int  # named sessions and imports that would not change
    folders: tuple[str, ...] = ()  # published with these sessions and imports

    def words(self) -> str:
        """Return a summary such as `3 sessions and 1 imported table`."""
        parts = [how_many(len(self.sessions), "session")] if self.sessions else []
        parts += [how_many(len(self.imports), "imported table")] if self.imports else []
        return " and ".join(parts) or "nothing"

    def document(self) -> dict[str, Any]:
        """Return the plan as JSON."""
        return {
            "undo": self.undo,
            "sessions": list(self.sessions),
            "imports": [asdict(entry) for entry in self.imports],
            "already": self.n_already,
            "publish_again": list(self.folders),
        }


def plan_deletion(store: Store, options: DeleteOptions) -> DeletionPlan:
    """Return the sessions and imports that the options name and that would change."""
    if not (options.sessions or options.seasons or options.imports):
        raise UsageError(
            "nothing to delete was named.",
            hint="Give ids of sessions, --season ID or --import ID.",
        )
    ids = [full_id(store, prefix) for prefix in options.sessions]
    seasons = {full_season(store, prefix) for prefix in options.seasons}
    entries = find_imports(store, options.imports)
    ids += [id_ for one in entries if one.kind == "sessions" for id_ in _imported_ids(store, one)]
    deleted = {one.id for one in store.sessions(deleted=True)}
    for season in sorted(seasons):
        ids += [one.id for one in store.sessions(season, deleted=None)]
    unique = list(dict.fromkeys(ids))
    sessions = tuple(id_ for id_ in unique if (id_ in deleted) == options.undo)
    imports = tuple(one for one in entries if (one.deleted_at is not None) == options.undo)
    n_already = len(unique) - len(sessions) + len(entries) - len(imports)
    folders = () if options.undo else _folders_with(store, sessions, bool(imports))
    return DeletionPlan(options.undo, sessions, imports, n_already, folders)


def note_folder(store: Store, folder: Path, kind: str, of: str, at: float) -> None:
    """Note that pages were written to a folder: of a session, a season, or the whole board."""
    body = {"kind": kind, "of": of}
    store.put_document(StoredDocument(PUBLISHED_FOLDER, str(folder.absolute()), at, "", body))


def _folders_with(store: Store, sessions: Sequence[str], has_imports: bool) -> tuple[str, ...]:
    """Return the folders to which pages of these sessions, or of imported tables, were written."""
    written = store.documents(PUBLISHED_FOLDER)
    chosen = set(sessions)
    entries = [one for one in store.sessions(deleted=None) if one.id in chosen] if written else []
    folders = []
    for folder in written:
        kind, of = folder.body["kind"], folder.body["of"]
        seen = [one for one in entries if (one.finished_at or math.inf) <= folder.at]
        in_it = [one for one in seen if kind == "board" or of in (one.id, one.season)]
        if in_it or (has_imports and kind == "board"):
            folders.append(folder.name)
    return tuple(folders)


def delete(
    store: Store, plan: DeletionPlan, clock: Clock, scale: Sequence[float], by: str = ""
) -> None:
    """Mark the sessions and imports of a plan as deleted or restored.

    Refuse a running session, and refuse to restore a table whose rows have been imported again;
    nothing is changed then.
    """
    running = sorted(store.running_sessions() & set(plan.sessions))
    if running:
        raise InputError(
            f"{how_many(len(running), 'session is', 'sessions are')} still running: "
            f"{', '.join(running[:N_NAMED])}.",
            hint="Wait until they end, or cancel them, and try again. Nothing was changed.",
        )
    if plan.undo:
        for entry in plan.imports:
            check_again(store, entry, scale)
    fact = Restored(by) if plan.undo else Deleted(by)
    append_to_each(store, plan.sessions, lambda _: fact, clock)
    store.mark_imports([entry.id for entry in plan.imports], not plan.undo, clock(), by)


def find_imports(store: Store, names: Iterable[str]) -> list[Import]:
    """Return the imports with these numbers, file names, or hashes (or beginnings of hashes)."""
    entries, matched = store.imports(), dict[int, Import]()
    for name in names:
        matches = [one for one in entries if name in (str(one.id), one.name)]
        if not matches and len(name) >= MIN_HASH_CHARACTERS:
            matches = [one for one in entries if one.hash.startswith(name.lower())]
        if len(matches) != 1:
            n = f"{len(matches)} imported tables are" if matches else "no imported table is"
            raise NotFoundError(
                f"{n} called {shown(name)}.", hint="`peerage imports` lists them by number."
            )
        matched[matches[0].id] = matches[0]
    return list(matched.values())


def _imported_ids(store: Store, entry: Import) -> list[str]:
    """Return the ids of the sessions of an import."""
    data = b"".join(store.import_parts(entry.id))
    if not data:
        raise InputError(
            f"the store has no list of the sessions imported with {shown(entry.name)}.",
            hint="An earlier version imported it: delete its sessions by their ids.",
        )
    return [str(id_) for id_ in json.loads(data)]


def append_to_each(
    store: Store,
    ids: Sequence[str],
    fact_of: Callable[[str], Stored | None],
    clock: Clock,
) -> list[str]:
    """Append an event to each session's log, all or none; return the ids of changed sessions."""
    for _ in range(MAX_TRIES):
        places = {id_: store.last_place(id_) + 1 for id_ in ids}
        facts = {id_: fact for id_ in ids if (fact := fact_of(id_)) is not None}
        at = clock()
        try:
            store.append_all(
                stored_event(id_, places[id_], at, fact) for id_, fact in facts.items()
            )
        except SessionTakenError:  # another process wrote to one of them first, so try again
            continue
        return list(facts)
    raise SessionTakenError("other processes keep writing to these sessions.", hint="Try again.")


# -- tags ----------------------------------------------------------------------------------------


def tag(
    store: Store, options: TagOptions, clock: Clock, by: str = ""
) -> dict[str, tuple[str, ...]]:
    """Add tags to sessions and remove tags; return the tags of each session by its id."""
    if not options.sessions:
        raise UsageError("no session to tag was named.", hint="`peerage sessions` lists them.")
    if not (options.add or options.remove):
        raise UsageError("no tag was named.", hint="Write, for example, --add good --remove draft.")
    added, removed = checked_tags(options.add), checked_tags(options.remove)
    ids = list(dict.fromkeys(full_id(store, prefix) for prefix in options.sessions))
    tags_by_id: dict[str, tuple[str, ...]] = {}

    def change_tags(id_: str) -> Tagged | None:
        before = tags_of(read_events(store.events(id_)))
        after = tuple(sorted((set(before) | added) - removed))
        if len(after) > MAX_TAGS:
            raise UsageError(f"session {id_} would have more than {MAX_TAGS} tags.")
        tags_by_id[id_] = after
        return Tagged(after, by) if after != before else None

    if running := sorted(store.running_sessions() & set(ids)):
        raise InputError(f"session {running[0]} is still running.", hint="Tag it when it is over.")
    append_to_each(store, ids, change_tags, clock)
    return tags_by_id


def checked_tags(names: Iterable[str]) -> set[str]:
    """Split tags at commas and check that each is one word."""
    tags = {part.strip() for name in names for part in name.split(",") if part.strip()}
    for one in sorted(tags):
        if len(one) > MAX_TAG_CHARACTERS or not one.isprintable() or " " in one:
            raise UsageError(
                f"{shown(one)} is not a tag.",
                hint=f"A tag is one word of up to {MAX_TAG_CHARACTERS} characters.",
            )
    return tags
