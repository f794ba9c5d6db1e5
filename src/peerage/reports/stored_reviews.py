"""A store's sessions as rows of the `reviews` table, in a mirror that is kept up to date."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from peerage.config.recorded import recorded_option
from peerage.council.counting import count, soft_votes_of
from peerage.council.expected import correct_answers
from peerage.council.readings import confidence_in, person_review, reviewed_ballots
from peerage.engines import EngineError, engines
from peerage.engines.mirror import COLUMNS, COLUMNS_BY_TABLE, PART_ROWS, Mirror
from peerage.engines.review_tables import ReviewTable, join_tables, read_reviews
from peerage.engines.sql import is_safe
from peerage.errors import InputError, PeerageError, UnreadableError, few
from peerage.event_facts import decision_of, is_deleted, opening_of, panel_of, people_reviews
from peerage.events import (
    KIND_BY_TYPE,
    Adjudicated,
    AskedAgain,
    Deleted,
    Extended,
    Finished,
    Opened,
    PersonReviewed,
    Restored,
    Reviewed,
    SeatRecord,
    Withdrawn,
    query_in,
    read_event,
    read_events,
)
from peerage.reviews.rows import Rows, join_rows, settle, take_census
from peerage.shapes import MAX_INTEGER
from peerage.stores import Contribution, Import, Store
from peerage.text import text_key, valid_text
from peerage.types import MAX_NUMBER, Ballot, Event, Query, Review, Rubric, Session
from peerage.view import fold

T = TypeVar("T")
SEGMENT_SESSIONS = 20_000  # sessions in one segment at most, so that memory stays bounded
MAX_NAME_CHARACTERS = 1_000  # of a name or an id in the table
MAX_TEXT_CHARACTERS = 2_000  # of an answer, which are enough to show its style
SEGMENT_CONTRIBUTIONS = 100_000
N_KEPT = 2  # tables of reviews that stay in memory
MAX_LOOKS = 3  # reads of a store that changes meanwhile
FINISHED, EXTENDED = KIND_BY_TYPE[Finished], KIND_BY_TYPE[Extended]
# Events of people after the end of a session that change its rows in the table.
SAID_SINCE = frozenset(KIND_BY_TYPE[kind] for kind in (PersonReviewed, Withdrawn, Adjudicated))
DELETED, RESTORED = KIND_BY_TYPE[Deleted], KIND_BY_TYPE[Restored]
CONTRIBUTED = {kind: tuple(COLUMNS_BY_TABLE[kind]) for kind in ("opinions", "items")}
NOBODY: Mapping[str, str] = MappingProxyType({})
IMPORT_FILE = re.compile(r"[a-z]{1,20}-[0-9a-f]{16}\.parquet")

RubricOf = Callable[[Opened], Rubric | None]  # returns the rubric of a session's marks


def review_rows(
    events: list[Event], rubric: Rubric | None, asked_first: Mapping[str, str] = NOBODY
) -> Iterator[dict[str, Any]]:
    """Yield one row per reviewer and candidate, including own answers; abstentions have no rank.

    Rows contain only marks of the rubric's dimensions. Other marks are in the reply only: a name
    that a reviewer chose must not become a column. The text of an answer is in its first row.
    `asked_first` has the first question with each id.
    """
    readable = [(event, fact) for event in events if (fact := read_event(event)) is not None]
    session, facts = reviewed_ballots(fold(events)), [fact for _, fact in readable]
    panel, opened = panel_of(facts), opening_of(events)
    soft_votes = recorded_option(opened, "soft_votes") is not False
    balanced = recorded_option(opened, "order") == "balanced"
    query_id = _query_id(session.query, asked_first)
    ended_at = [event.at for event in events if event.kind not in SAID_SINCE][-1]
    correct = correct_answers(session, decision_of(facts))
    texts = {response.model: response.written for response in session.responses}
    asked_again = {
        (fact.seat, fact.round)
        for fact in facts
        if isinstance(fact, AskedAgain) and fact.stage == "review"
    }
    prints = {
        (fact.reviewer, fact.round): fact.made_by
        for fact in facts
        if isinstance(fact, Reviewed) and fact.made_by is not None
    }
    for ballot, review, place in _standing(session, panel):
        deal = _deal(session, ballot) if balanced else None
        print_ = prints.get((ballot.reviewer, ballot.round))
        seal = {  # None if there is nothing to report: boards do not read an empty column
            "asked_again": 1 if (ballot.reviewer, ballot.round) in asked_again else None,
            "unsealed": 1 if "unsealed" in review.flags else None,
            "committed": 1 if print_ and print_.review == "committed" else None,
            "fingerprint": print_.hash if print_ else None,
        }
        for row in _rows(session, panel, ballot, review, rubric, soft_votes):
            text = texts.pop(row["candidate"], "")
            row |= {"query_id": query_id, "season": opened.season or None}
            row |= {"text": text[:MAX_TEXT_CHARACTERS] or None}
            row["text_hash"] = text_key(text) if text else None
            row["correct"] = correct.get(row["candidate"])
            yield row | seal | {"at": ended_at, "deal": deal, "place": place}
    standing = people_reviews(facts)
    for event, fact in readable:
        if isinstance(fact, PersonReviewed) and fact is standing.get(fact.ballot.reviewer):
            ballot, review = person_review(session, fact)
            deal = None if fact.place is None else _deal(session, ballot)
            for row in _rows(session, panel, ballot, review, rubric):
                row |= {"query_id": query_id, "season": opened.season or None}
                row |= {"at": event.at, "person": 1, "correct": correct.get(row["candidate"])}
                yield row | {"deal": deal, "place": fact.place}


def _standing(
    session: Session, panel: Sequence[SeatRecord]
) -> Iterator[tuple[Ballot, Review, int]]:
    """Yield a session's ballots with their reviews and places in the design.

    A ballot is left out if its reviewer has since voted again on more candidates.
    """
    reviewers = [seat.name for seat in panel if "review" in seat.roles]
    index = {name: i for i, name in enumerate(reviewers)}
    reviews = {(review.reviewer, review.round): review for review in session.reviews}
    voted = [b for b in session.ballots if not reviews[b.reviewer, b.round].abstained]
    for ballot in session.ballots:
        later = [b for b in voted if b.reviewer == ballot.reviewer and b.round > ballot.round]
        if not any(set(b.authors) > set(ballot.authors) for b in later):
            place = session.ordinal + index.get(ballot.reviewer, 0)
            yield ballot, reviews[ballot.reviewer, ballot.round], place


def _rows(
    session: Session,
    panel: Sequence[SeatRecord],
    ballot: Ballot,
    review: Review,
    rubric: Rubric | None,
    soft_votes: bool = True,
) -> Iterator[dict[str, Any]]:
    """Yield a row for each answer on a ballot, without the origin of its order."""
    families = {seat.name: seat.family for seat in panel}
    answers = {response.model: response for response in session.responses}
    dimensions = [name for name in rubric.weights if is_safe(name)] if rubric else []
    reading = count(ballot, review, rubric, soft_votes=soft_votes)
    rank, probability = tier_ranks(reading.tiers), soft_votes_of(reading)
    for position, slot in enumerate(ballot.slots):
        answer = answers.get(slot.author)
        marks = review.marks.get(slot.label, {})
        yield {
            "session_id": session.id,
            "reviewer": ballot.reviewer,
            "candidate": slot.author,
            "rank": rank.get(slot.author),
            "score": reading.scores.get(slot.author),
            "position": position if ballot.positions_known else None,
            "words": answer.words if answer and answer.text else None,
            "category": session.query.category or None,
            "round": ballot.round,
            "reasoning_words": answer.reasoning_words if answer else None,
            # None if it is unknown whether the answer was cut off
            "truncated": int(answer.truncated) if answer and answer.finish_reason else None,
            "family": families.get(slot.author) or None,
            "agrees": None if (agrees := review.agrees.get(slot.label)) is None else int(agrees),
            "probability": probability.get(slot.author),
            "confidence": confidence_in(review, slot.label),
            **{f"mark_{name}": marks[name] for name in dimensions if name in marks},
        }


def _query_id(query: Query, asked_first: Mapping[str, str]) -> str | None:
    """Return the id of a question; a new one if another question has the same id."""
    if not query.id:
        return None
    return query.id if asked_first.get(query.id, query.own_id) == query.own_id else query.own_id


def _read_openings(store: Store) -> tuple[dict[str, str], set[str]]:
    """Return the first question with each id, and the sessions to which seats were added."""
    asked_first: dict[str, str] = {}
    grown: set[str] = set()
    for event in store.openings():
        with suppress(UnreadableError):
            if event.kind == EXTENDED:
                grown.add(event.session_id)
            elif (query := query_in(event)).id:
                asked_first.setdefault(query.id, query.own_id)
    return asked_first, grown


def tier_ranks(tiers: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return ranks, 1 for the best; ties share their mean place."""
    ranks: dict[str, float] = {}
    before = 0
    for tier in tiers:
        ranks |= dict.fromkeys(tier, before + (len(tier) + 1) / 2)
        before += len(tier)
    return ranks


def _deal(session: Session, ballot: Ballot) -> str:
    """Return which square the order came from; ballots of one square were balanced together."""
    key = json.dumps([session.seed, sorted(ballot.authors), ballot.round])
    return hashlib.sha256(key.encode()).hexdigest()[:16]


def stored_reviews(store: Store, rubric_of: RubricOf) -> tuple[list[Path], tuple[str, ...]]:
    """Return the Parquet files of all reviews of a store, after updating them.

    Also return a flag for sessions that could not be read, if there are any.
    """

    def read() -> tuple[Mirror, list[Path]]:
        mirror = sync_mirror(store, rubric_of)
        # If every session is deleted, the segments are empty.
        own = mirror.segments if store.finished_logs(1) else []
        return mirror, [*own, *list_imported(store, mirror, "reviews")]

    mirror, files = _at_one_moment(store, read)
    names = [name if name.isprintable() else repr(name) for name in mirror.left_out]
    flags = (f"sessions_left_out:{len(names)}: {few(names)}",) if names else ()
    return files, flags


def _at_one_moment(store: Store, read: Callable[[], T]) -> T:
    """Read several tables of a store at one moment.

    If the store changes during the read, the tables are read again, a few times at most.
    """
    version = store.version()
    for _ in range(MAX_LOOKS):
        value = read()
        before, version = version, store.version()
        if version == before:
            break
    return value


def list_imported(store: Store, mirror: Mirror, kind: str) -> list[Path]:
    """Return the files of the imported tables of a kind, checked."""
    entries = [one for one in store.imports() if one.kind == kind and one.deleted_at is None]

    def write(mirror: Mirror) -> list[Path]:
        return [file for entry in entries for file in _files_of(store, mirror, entry)]

    return _where_it_can(write, mirror)


def _where_it_can(write: Callable[[Mirror], T], mirror: Mirror) -> T:
    """Return the result of writing to a mirror, or else to a temporary folder of this process."""
    try:
        return write(mirror)
    except (OSError, EngineError):  # the folder is read-only, full, or a file
        return write(mirror.elsewhere())


def community_files(store: Store, kinds: Sequence[str]) -> dict[str, list[Path]]:
    """Return the files of several tables of a community, all at one moment."""
    return _at_one_moment(store, lambda: {kind: community_tables(store, kind) for kind in kinds})


def community_tables(store: Store, kind: str) -> list[Path]:
    """Return the files of a community's opinions, items or users, imported or contributed."""
    contributed = _list_contributed(store, kind) if kind in CONTRIBUTED else []
    return [*list_imported(store, Mirror(store.mirror_folder), kind), *contributed]


def mirror_of(store: Store, table: str = "reviews") -> Mirror:
    """Return the mirror of a table of this store, as last written."""
    return Mirror(store.mirror_folder, table, store.origin(table), partial(store.marks, table))


def _update_mirror(
    mirror: Mirror,
    newer: Callable[[int, int], Sequence[T]],
    most: int,
    write: Callable[[Mirror, Sequence[T]], None],
) -> Mirror:
    """Return a mirror with all new rows of its store, written as segments of limited size."""
    if not newer(mirror.synced_to, 1):
        return mirror

    def sync(mirror: Mirror) -> Mirror:
        with mirror.lock():
            mirror.tidy()
            while some := newer(mirror.synced_to, most):
                write(mirror, some)
        return mirror

    return _where_it_can(sync, mirror)


def _list_contributed(store: Store, kind: str) -> list[Path]:
    """Return the segments of contributions by people, including those since the last update."""

    def write(mirror: Mirror, numbered: Sequence[tuple[int, Contribution]]) -> None:
        rows = ({name: getattr(row, name) for name in CONTRIBUTED[kind]} for _, row in numbered)
        mirror.write(rows, numbered[-1][0])

    newer = partial(store.contributions, kind)
    return _update_mirror(mirror_of(store, kind), newer, SEGMENT_CONTRIBUTIONS, write).segments


def _files_of(store: Store, mirror: Mirror, entry: Import) -> list[Path]:
    is_split = entry.kind == "reviews" and entry.n_rows > PART_ROWS
    return mirror.keep_table(
        import_file_name(entry).removesuffix(".parquet"),
        partial(store.import_parts, entry.id),
        PART_ROWS if is_split else None,
        entry.at,
    )


def import_file_name(entry: Import) -> str:
    """Return the file name of an imported table; it cannot lead to another folder."""
    name = f"{entry.kind}-{entry.hash[:16]}.parquet"
    if not IMPORT_FILE.fullmatch(name):
        raise InputError(f"{name[:80]!r} is not the name of an imported table.")
    return name


def sync_mirror(store: Store, rubric_of: RubricOf) -> Mirror:
    """Return the store's mirror, with every session that finished since its last update."""
    # Openings are read once, and only if there is something new.
    opened = cache(partial(_read_openings, store))

    def write(mirror: Mirror, reviewed: Sequence[tuple[int, str, str]]) -> None:
        asked_first, grown = opened()
        # A session with later events is written whole to the new segment, and to no other.
        sessions = dict.fromkeys(session_id for _, session_id, _ in reviewed)
        changed = {session_id for _, session_id, kind in reviewed if kind != FINISHED}
        unread: list[str] = []
        rows = _readable_rows(store, rubric_of, sessions, asked_first, unread)
        again = changed | (grown & sessions.keys())
        mirror.write(rows, reviewed[-1][0], unread, again)

    return _update_mirror(mirror_of(store), store.reviewed_after, SEGMENT_SESSIONS, write)


def _readable_rows(
    store: Store,
    rubric_of: RubricOf,
    sessions: Iterable[str],
    asked_first: Mapping[str, str],
    unread: list[str],
) -> Iterator[dict[str, Any]]:
    """Yield the rows of sessions; add the id of one that cannot be read to `unread`."""
    for session_id in sessions:
        try:
            events = _as_finished(store.events(session_id))
            if not events:
                continue
            rubric = rubric_of(opening_of(events))
            rows = [check_row(row) for row in review_rows(events, rubric, asked_first)]
        except PeerageError:
            unread.append(valid_text(session_id)[:MAX_NAME_CHARACTERS])
        else:
            yield from rows


def _as_finished(events: list[Event]) -> list[Event]:
    """Return the log up to its last end, plus later events of people, but nothing still running.

    The result is empty if the session is deleted, or never finished.
    """
    end = max((event.seq for event in events if event.kind == FINISHED), default=None)
    marks = [event for event in events if event.kind in (DELETED, RESTORED)]
    if end is None or is_deleted(read_events(marks)):
        return []
    return [event for event in events if event.seq <= end or event.kind in SAID_SINCE]


def check_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with valid texts and numbers that fit its columns, or raise UnreadableError."""
    return {name: _fitting(name, value) for name, value in row.items()}


def _fitting(name: str, value: Any) -> Any:
    kind = COLUMNS.get(name, "DOUBLE")
    if value is None:
        return None
    if kind == "VARCHAR":
        longest = MAX_TEXT_CHARACTERS if name == "text" else MAX_NAME_CHARACTERS
        if not isinstance(value, str) or len(value) > longest:
            raise UnreadableError(f"{name} is not a name")
        return valid_text(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise UnreadableError(f"{name} is not a number")
    most = MAX_INTEGER if kind == "BIGINT" or name == "at" else MAX_NUMBER
    if not abs(value) <= most:
        raise UnreadableError(f"{name} is out of range")
    return value


# -- all stored reviews in memory ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FileState:
    """A file's current state, which changes if the file is written again."""

    path: Path
    n_bytes: int
    changed_ns: int
    number: int  # the inode: a file that replaces another has a new one

    @classmethod
    def of(cls, path: Path) -> FileState:
        about = path.stat()
        return cls(path, about.st_size, about.st_mtime_ns, about.st_ino)


@dataclass(frozen=True, slots=True)
class KeptReviews:
    """The reviews of some files in memory, with the state of each file when it was read."""

    by_file: Mapping[FileState, ReviewTable]
    table: ReviewTable


_KEPT: list[KeptReviews] = []  # the most recently used, the latest first
_KEEPING = threading.Lock()


def keep_reviews(files: Sequence[Path]) -> ReviewTable:
    """Return the reviews of some files, cached in memory; only new files are read."""
    states = [FileState.of(file) for file in files]
    with _KEEPING:
        usual = max(_KEPT, key=lambda one: len(one.by_file.keys() & set(states)), default=None)
        if usual is None or not usual.by_file.keys() & set(states):
            usual = None
        if usual is not None and usual.by_file.keys() == set(states):
            return usual.table
        reviews = _read_new_files(states, usual)
        _KEPT[:] = [reviews, *(one for one in _KEPT if one is not usual)][:N_KEPT]
    return reviews.table


def _read_new_files(states: Sequence[FileState], before: KeptReviews | None) -> KeptReviews:
    """Return the reviews of files, reusing those already in memory."""
    engine = engines.get("duckdb")()
    engine.admit(*{state.path.parent for state in states})
    by_file, parts = dict[FileState, ReviewTable](), list[Rows]()
    if before is not None and before.table.rows is not None:
        rows = before.table.rows
        gone = [str(state) for state in before.by_file if state not in states]
        is_gone = np.isin(rows.labels["file"], gone)
        parts.append(rows.only(~is_gone[rows.keys["file"]]) if gone else rows)
        by_file = {state: table for state, table in before.by_file.items() if state in states}
    for state in states:
        if state not in by_file:
            by_file[state] = read_reviews(engine, state.path)
            for rows in by_file[state].load().map(lambda rows: rows):
                zeros, label = (
                    np.zeros(rows.n, dtype=np.int64),
                    np.array([str(state)], dtype=object),
                )
                parts.append(
                    replace(
                        rows,
                        keys={**rows.keys, "file": zeros},
                        labels={**rows.labels, "file": label},
                    )
                )
    rows = join_rows(parts)
    rows = settle(rows, take_census(rows))
    return KeptReviews(by_file, join_tables([by_file[state] for state in states], rows))
