"""Sessions, seasons and imported tables that are left out or brought back, and tags of sessions.

Nothing is erased. A session's log gets an event that says so, an imported table a row; boards,
audits, lists and pages leave out what is marked, and a later mark takes it back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from peerage.errors import InputError, NotFoundError, UsageError, how_many, shown
from peerage.events import Deleted, Restored, Tagged, read_events, stored_event, tags_of
from peerage.imports import check_again
from peerage.reports.options import DeleteOptions, TagOptions
from peerage.stores import Import, SessionTakenError, Store, full_id, full_season

MAX_TRIES = 10  # to append marks while others append
MAX_TAGS = 50  # of one session
MAX_TAG_CHARACTERS = 60
MIN_HASH_CHARACTERS = 4
N_NAMED = 5

Clock = Callable[[], float]


# -- left out, and brought back ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DeletionPlan:
    """What a deletion, or taking one back, would change; what is so already is only counted."""

    undo: bool
    sessions: tuple[str, ...]  # ids
    imports: tuple[Import, ...]
    n_already: int

    def words(self) -> str:
        """What it is about: `3 sessions and 1 imported table`."""
        parts = [how_many(len(self.sessions), "session")] if self.sessions else []
        parts += [how_many(len(self.imports), "imported table")] if self.imports else []
        return " and ".join(parts) or "nothing"

    def document(self) -> dict[str, Any]:
        """The JSON of what was done."""
        return {
            "undo": self.undo,
            "sessions": list(self.sessions),
            "imports": [asdict(entry) for entry in self.imports],
            "already": self.n_already,
        }


def plan_deletion(store: Store, options: DeleteOptions) -> DeletionPlan:
    """What the sessions, seasons and imports of some options are, and which would change."""
    if not (options.sessions or options.seasons or options.imports):
        raise UsageError(
            "name what to delete.", hint="The ids of sessions, or --season ID, or --import ID."
        )
    ids = [full_id(store, prefix) for prefix in options.sessions]
    seasons = {full_season(store, prefix) for prefix in options.seasons}
    entries = find_imports(store, options.imports)
    ids += [id_ for entry in entries if entry.kind == "sessions" for id_ in _brought(store, entry)]
    deleted = {one.id for one in store.sessions(deleted=True)}
    for season in sorted(seasons):
        ids += [one.id for one in store.sessions(season, deleted=None)]
    unique = list(dict.fromkeys(ids))
    sessions = tuple(id_ for id_ in unique if (id_ in deleted) == options.undo)
    imports = tuple(one for one in entries if (one.deleted_at is not None) == options.undo)
    n_already = len(unique) - len(sessions) + len(entries) - len(imports)
    return DeletionPlan(options.undo, sessions, imports, n_already)


def delete(
    store: Store, plan: DeletionPlan, clock: Clock, scale: Sequence[float], by: str = ""
) -> None:
    """Mark what a plan is about as deleted, or take that back.

    A session that is being run is refused, and so is bringing back a table whose rows have come
    in again meanwhile; then nothing is changed.
    """
    running = sorted(store.held() & set(plan.sessions))
    if running:
        raise InputError(
            f"{how_many(len(running), 'session is', 'sessions are')} being run: "
            f"{', '.join(running[:N_NAMED])}.",
            hint="Let them end, or cancel them, and try again. Nothing was changed.",
        )
    if plan.undo:
        for entry in plan.imports:
            check_again(store, entry, scale)
    fact = Restored(by) if plan.undo else Deleted(by)
    _append_to_each(store, plan.sessions, lambda _: fact, clock)
    store.mark_imports([entry.id for entry in plan.imports], not plan.undo, clock(), by)


def find_imports(store: Store, names: Iterable[str]) -> list[Import]:
    """The imported tables of these numbers, hashes (or beginnings of one) or file names."""
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


def _brought(store: Store, entry: Import) -> list[str]:
    """The ids of the sessions that an import brought."""
    data = b"".join(store.import_parts(entry.id))
    if not data:
        raise InputError(
            f"the store does not know which sessions came with {shown(entry.name)}.",
            hint="It was imported by an earlier version: delete its sessions by their ids.",
        )
    return [str(id_) for id_ in json.loads(data)]


def _append_to_each(
    store: Store,
    ids: Sequence[str],
    fact_of: Callable[[str], Deleted | Restored | Tagged | None],
    clock: Clock,
) -> list[str]:
    """Append an event to the log of each session, to all or none; those that got one."""
    for _ in range(MAX_TRIES):
        places = {id_: store.last_place(id_) + 1 for id_ in ids}
        facts = {id_: fact for id_ in ids if (fact := fact_of(id_)) is not None}
        at = clock()
        try:
            store.append_all(
                stored_event(id_, places[id_], at, fact) for id_, fact in facts.items()
            )
        except SessionTakenError:  # somebody else wrote to one of them first: after that, then
            continue
        return list(facts)
    raise SessionTakenError("others write to these sessions all the time.", hint="Try again.")


# -- tags ----------------------------------------------------------------------------------------


def tag(
    store: Store, options: TagOptions, clock: Clock, by: str = ""
) -> dict[str, tuple[str, ...]]:
    """Add tags to sessions and remove others; the tags that each has now, by its id."""
    if not options.sessions:
        raise UsageError("name the sessions to tag.", hint="`peerage sessions` lists them.")
    if not (options.add or options.remove):
        raise UsageError("name tags to add or to remove.", hint="As in --add good --remove draft.")
    added, removed = checked_tags(options.add), checked_tags(options.remove)
    ids = list(dict.fromkeys(full_id(store, prefix) for prefix in options.sessions))
    tags_by_id: dict[str, tuple[str, ...]] = {}

    def retagged(id_: str) -> Tagged | None:
        before = tags_of(read_events(store.events(id_)))
        after = tuple(sorted((set(before) | added) - removed))
        if len(after) > MAX_TAGS:
            raise UsageError(f"session {id_} would have more than {MAX_TAGS} tags.")
        tags_by_id[id_] = after
        return Tagged(after, by) if after != before else None

    if running := sorted(store.held() & set(ids)):
        raise InputError(f"session {running[0]} is being run.", hint="Tag it when it is over.")
    _append_to_each(store, ids, retagged, clock)
    return tags_by_id


def checked_tags(names: Iterable[str]) -> set[str]:
    """Tags as they are kept: one word each, with commas between where several are in one text."""
    tags = {part.strip() for name in names for part in name.split(",") if part.strip()}
    for one in sorted(tags):
        if len(one) > MAX_TAG_CHARACTERS or not one.isprintable() or " " in one:
            raise UsageError(
                f"{shown(one)} is not a tag.",
                hint=f"A tag is one word of up to {MAX_TAG_CHARACTERS} characters.",
            )
    return tags
