"""A columnar mirror of a store: append-only Parquet segments of reviews, opinions or items.

The mirror only saves time: it can always be rebuilt from the store. One list per table names its
segments, with the rows of the log that each covers, a digest of the last of these rows and a digest
of the file. If a segment is damaged, or covers rows that the log no longer has, it and all later
segments are written again. Small segments are joined now and then; a file that is no longer listed
stays for an hour, for current readers.

Processes write one after the other, and every file appears whole under its name. A reader that has
read the list sees the table as it was then. If the folder is read-only, existing segments are read
and new ones go to a temporary folder of this process.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import logging
import os
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from peerage.embedded import database, pattern, real_path
from peerage.engines.duckdb import shared_database, translate_errors
from peerage.engines.sql import quote_name, sql
from peerage.reviews.columns import ITEMS, MARK, OPINIONS, REVIEWS

if TYPE_CHECKING:
    import duckdb

    Scratch = tuple[Path, duckdb.DuckDBPyConnection]


SMALL_BYTES = 1_000_000
PART_ROWS = 131_072  # about, of each file of an imported table: a time window reads only some files
MANY = 16  # this many small segments in a row are joined
GRACE_S = 3_600.0
FORMAT = 13  # part of file names, so that another format begins with new files
KINDS = {"text": "VARCHAR", "whole": "BIGINT", "number": "DOUBLE", "time": "DOUBLE"}
COLUMNS = {name: KINDS[column.kind] for name, column in REVIEWS.items()}
COLUMNS_BY_TABLE = {
    "reviews": COLUMNS,
    "opinions": {name: KINDS[column.kind] for name, column in OPINIONS.items()},
    "items": {**dict.fromkeys(ITEMS, "VARCHAR"), "text": "VARCHAR", "at": "DOUBLE"},
}
ORDER_BY_TABLE = {
    "reviews": "session_id, reviewer, position",
    "opinions": 'item_id, reviewer, "at"',
    "items": 'item_id, "at"',
}


def _wait_for(lock: int) -> None:
    """Wait for the lock of an open file; it is held until the file is closed."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(lock, msvcrt.LK_LOCK, 1)
    else:
        import fcntl

        fcntl.flock(lock, fcntl.LOCK_EX)


@lru_cache(maxsize=64)
def _scratch_for(folder: Path) -> Path:
    """Return a temporary folder of this process, to use instead of a read-only one."""
    scratch = tempfile.TemporaryDirectory(prefix=f"{folder.name}-")
    atexit.register(scratch.cleanup)
    return Path(scratch.name)


Marks = Callable[[Sequence[int]], Mapping[int, str]]  # digests of rows of the log, by number


@dataclass(frozen=True, slots=True)
class Segment:
    """A file of a mirror: the rows of the log that it covers, and the digests that verify it."""

    first: int
    last: int
    mark: str  # the digest of row `last` of the log
    file: str
    digest: str
    left_out: tuple[str, ...] = ()  # sessions that could not be read


def _no_marks(_: Sequence[int]) -> Mapping[int, str]:
    return {}


class Mirror:
    """The segments of a table in a folder, plus those of a read-only folder.

    `origin` distinguishes logs that existed at the same path one after another: the segments of a
    deleted store are not used for its successor. `marks` does the same for rows: a store restored
    from a backup reuses the numbers of lost rows.
    """

    def __init__(
        self,
        folder: Path,
        table: str = "reviews",
        origin: str = "",
        marks: Marks = _no_marks,
        read_only: Path | None = None,
    ) -> None:
        self.folder, self.table, self.origin, self.marks = folder, table, origin, marks
        self._stem = f"{table}-v{FORMAT}-{origin}"
        self._folders = [folder] if read_only is None else [folder, read_only]
        self._loaded: list[Segment] | None = None
        self._is_locked = False

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the lock, so that no other process writes segments.

        Raise OSError if the folder is read-only.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("ab") as lock:
            _wait_for(lock.fileno())
            self._loaded = None  # another process may have changed the list meanwhile
            self._is_locked = True
            try:
                yield
            finally:
                self._is_locked = False

    def elsewhere(self) -> Mirror:
        """Return a mirror of the same segments that writes to a temporary folder."""
        return Mirror(_scratch_for(self.folder), self.table, self.origin, self.marks, self.folder)

    # -- segments ------------------------------------------------------------------------------

    @property
    def segments(self) -> list[Path]:
        """The files of the segments, in the order of the log."""
        return [self._path(segment.file) for segment in self._segments()]

    def _segments(self) -> list[Segment]:
        """Return the valid segments, up to the first invalid one."""
        if self._loaded is None:
            self._loaded = self._check(self._read_list())
        return self._loaded

    def _read_list(self) -> list[Segment]:
        """Return the segments of the longest list."""
        lists = self._read_lists(f"{self._stem}.json")
        longest = max(lists, key=lambda one: one[-1]["last"], default=[])
        return [Segment(**{**one, "left_out": tuple(one["left_out"])}) for one in longest]

    def _read_lists(self, name: str) -> list[list[Any]]:
        """Return the lists of files stored under a name, without damaged ones."""
        lists = []
        for path in (folder / name for folder in self._folders):
            if (body := read_sealed(path)) is not None:
                lists.append(json.loads(body))
            elif path.exists():
                self._warn(path)
        return lists

    def _warn(self, path: Path, problem: str = "is missing or damaged") -> None:
        """Log once that a file is rebuilt; called when that happens, under the lock."""
        if self._is_locked:
            log.warning("%s %s; it is made again from the log", path, problem)

    def _check(self, listed: Sequence[Segment]) -> list[Segment]:
        marks = self.marks([segment.last for segment in listed]) if listed else {}
        for i, segment in enumerate(listed):
            path = self._path(segment.file)
            if marks.get(segment.last) != segment.mark:
                self._warn(path, "has rows that the log no longer has")
                return list(listed[:i])
            if not is_whole(path, segment.digest):
                self._warn(path)
                return list(listed[:i])
        return list(listed)

    def _path(self, name: str) -> Path:
        """Return the path of a file of that name, existing or not."""
        paths = [folder / name for folder in self._folders]
        return next((path for path in paths if path.exists()), paths[0])

    @property
    def synced_to(self) -> int:
        """The last row of the log that a segment covers; 0 if there is none."""
        segments = self._segments()
        return segments[-1].last if segments else 0

    @property
    def left_out(self) -> list[str]:
        """The sessions that could not be read, and are in no segment."""
        return sorted({name for segment in self._segments() for name in segment.left_out})

    def write(
        self,
        rows: Iterable[Mapping[str, Any]],
        last: int,
        left_out: Sequence[str] = (),
        again: Collection[str] = (),
    ) -> None:
        """Add a segment for the rows of the log up to `last`, completely or not at all.

        `left_out` is read after the rows, because reading them may add to it. Sessions in `again`
        have changed and are removed from earlier segments.
        """
        marks: set[str] = set()
        earlier = [self._without(segment, again) for segment in self._segments()]
        with self._scratch() as (scratch, db):
            lines, n_rows = scratch / "rows.jsonl", 0
            with lines.open("w", encoding="utf-8") as out:
                for n_rows, row in enumerate(rows, 1):  # noqa: B007 - counted
                    marks |= {name for name in row if name.startswith(MARK)}
                    out.write(json.dumps(row) + "\n")
            columns = {**COLUMNS_BY_TABLE[self.table], **dict.fromkeys(sorted(marks), "DOUBLE")}
            table = db.read_json(str(lines), columns=columns, format="newline_delimited")
            covering = Segment(self.synced_to + 1, last, self.marks([last])[last], "", "")
            new = self._write_segment((scratch, db), table, n_rows, covering)
        self._list([*earlier, replace(new, left_out=tuple(sorted(left_out)))])

    def _without(self, segment: Segment, sessions: Collection[str]) -> Segment:
        """Write a segment again without some sessions, if it has any of them."""
        left_out = tuple(name for name in segment.left_out if name not in sessions)
        segment = replace(segment, left_out=left_out)
        if not sessions:
            return segment
        path = self._path(segment.file)
        with self._scratch([path]) as (scratch, db):
            values = [pattern(real_path(path)), sorted(sessions)]
            ((n_gone, n_left),) = db.execute(
                "SELECT count(*) FILTER (session_id IN (SELECT unnest($2))),"
                " count(*) FILTER (session_id NOT IN (SELECT unnest($2)))"
                " FROM read_parquet($1, hive_partitioning = false)",
                values,
            ).fetchall()
            if not n_gone:
                return segment
            others = db.sql(
                "SELECT * FROM read_parquet($1, hive_partitioning = false)"
                " WHERE session_id NOT IN (SELECT unnest($2))",
                params=values,
            )
            return self._write_segment((scratch, db), others, n_left, segment)

    def tidy(self) -> None:
        """Join small segments at the end if there are many, and delete old files."""
        segments, small = list(self._segments()), list[Segment]()
        while segments and self._path(segments[-1].file).stat().st_size < SMALL_BYTES:
            small.insert(0, segments.pop())
        if len(small) >= MANY:
            files = [self._path(segment.file) for segment in small]
            with self._scratch(files) as (scratch, db):
                named = [pattern(real_path(path)) for path in files]
                joined = db.read_parquet(named, union_by_name=True, hive_partitioning=False)
                n_rows = int(joined.aggregate("count(*)").fetchall()[0][0])
                left_out = tuple(name for segment in small for name in segment.left_out)
                covering = replace(small[-1], first=small[0].first, left_out=left_out)
                self._list(
                    [*segments, self._write_segment((scratch, db), joined, n_rows, covering)]
                )
        used = set(self.segments)
        for path in self.folder.glob(f"{self.table}-v*.parquet"):  # joined, or from another log
            if path not in used and time.time() - path.stat().st_mtime > GRACE_S:
                path.unlink(missing_ok=True)
        for path in self.folder.glob("sums-*.bin"):  # which earlier versions kept
            path.unlink(missing_ok=True)

    def _write_segment(
        self, place: Scratch, table: duckdb.DuckDBPyRelation, n_rows: int, segment: Segment
    ) -> Segment:
        """Write the rows of a segment to a new file; rename it once it is readable."""
        scratch, db = place
        written = scratch / "segment.parquet"
        table.order(ORDER_BY_TABLE[self.table]).write_parquet(str(written))
        _check_rows(db, written, n_rows)
        file, digest = self._name(written, f"{self._stem}-{segment.first}-{segment.last}")
        return replace(segment, file=file, digest=digest)

    def _name(self, written: Path, stem: str) -> tuple[str, str]:
        """Move a new file into place under a name with its digest; return name and digest."""
        digest = digest_of(written)
        name = f"{stem}-{digest[:16]}.parquet"
        written.replace(self.folder / name)
        return name, digest

    def _list(self, segments: Sequence[Segment]) -> None:
        """Make these the current segments; files no longer listed are kept for a while."""
        gone = {one.file for one in self._segments()} - {one.file for one in segments}
        body = json.dumps([asdict(segment) for segment in segments]).encode()
        write_sealed(self.folder / f"{self._stem}.json", body)
        self._loaded = list(segments)
        for name in gone:
            with suppress(OSError):  # in a folder that can only be read, or gone already
                os.utime(self.folder / name)

    # -- other files ---------------------------------------------------------------------------

    def keep_table(
        self,
        name: str,
        read_parts: Callable[[], Iterable[bytes]],
        part_rows: int | None = None,
        at: float | None = None,
    ) -> list[Path]:
        """Return the files of an imported table, created from its bytes if they do not exist.

        With `part_rows`, each file has some whole sessions in order of time, so that a time window
        does not have to read all files. Rows without a time get the time `at`.
        """
        files = self._table(name)
        if files is None:
            with self.lock():
                files = self._table(name) or self._make_table(name, read_parts, part_rows, at)
        return files

    def _table(self, name: str) -> list[Path] | None:
        """Return the files of a stored table if all of them are valid, else None."""
        for entries in self._read_lists(f"{name}.json"):
            files = {self._path(file): digest for file, digest in entries}
            damaged = [path for path, digest in files.items() if not is_whole(path, digest)]
            if not damaged:
                return list(files)
            for path in damaged:
                self._warn(path)
        return None

    def _make_table(
        self,
        name: str,
        read_parts: Callable[[], Iterable[bytes]],
        part_rows: int | None,
        at: float | None,
    ) -> list[Path]:
        with self._scratch() as (scratch, db):
            whole, split = scratch / "whole.parquet", scratch / "parts"
            replace_file(whole, read_parts())
            _check_rows(db, whole)
            whole = whole if at is None else _set_times(db, whole, at)
            split.mkdir()
            if part_rows is None:
                whole.replace(split / "000000.parquet")
            else:
                _split(db, str(whole), str(split), part_rows)
            entries = [self._name(part, f"{name}-{part.stem}") for part in sorted(split.iterdir())]
        write_sealed(self.folder / f"{name}.json", json.dumps(entries).encode())
        return [self.folder / file for file, _ in entries]

    @contextmanager
    def _scratch(self, files: Sequence[Path] | None = None) -> Iterator[Scratch]:
        """Yield a temporary folder within this one, and a database that can read it and `files`.

        Without files the database is a shared one for this mirror's folder, because starting one
        takes longer than writing a segment.
        """
        with (
            tempfile.TemporaryDirectory(dir=self.folder) as folder,
            translate_errors(str(self.folder)),
        ):
            scratch = real_path(folder)
            if files is None:
                db = shared_database(frozenset(), (real_path(self.folder),)).cursor()
            else:
                db = database(map(real_path, files), [scratch])
            with db:
                yield Path(scratch), db


def _check_rows(db: duckdb.DuckDBPyConnection, file: Path, n_rows: int | None = None) -> None:
    """Raise an error if a new file cannot be read, or does not have `n_rows` rows."""
    rows = db.read_parquet(pattern(str(file)), hive_partitioning=False)
    n_read = int(rows.aggregate("count(*)").fetchall()[0][0])
    if n_rows is not None and n_read != n_rows:
        raise OSError(f"{n_read} of {n_rows} rows were written")


def _set_times(db: duckdb.DuckDBPyConnection, whole: Path, at: float) -> Path:
    """Return the table with a time in every row; the file itself if all rows have one."""
    rows = db.read_parquet(pattern(str(whole)), hive_partitioning=False)
    n, n_timed = rows.aggregate('count(*), count("at")').fetchall()[0]
    if n == n_timed:
        return whole
    timed = whole.with_name("timed.parquet")
    rows.project(sql('* replace (coalesce("at", {}e0) as "at")', at)).write_parquet(
        str(timed), compression="zstd"
    )
    return timed


def _split(db: duckdb.DuckDBPyConnection, whole: str, folder: str, part_rows: int) -> None:
    """Split the rows of a file into several files of whole sessions, ordered by time."""
    rows = db.read_parquet(pattern(whole), hive_partitioning=False)
    name = f"peerage_{uuid.uuid4().hex}"
    sessions = rows.aggregate('session_id, max("at") as last, count(*) as n', "session_id")
    placed = sessions.project(
        sql(
            "session_id as session, last,"
            " (sum(n) over (order by last, session_id) - n) // {} as part",
            part_rows,
        )
    )
    numbered = rows.project("*, row_number() over () as row")
    joined = numbered.set_alias("rows").join(placed.set_alias("placed"), "session_id = session")
    joined.order("part, last, session, row").create(name)
    try:
        table = db.table(name)
        (n_parts,) = table.aggregate("max(part) + 1").fetchall()[0]
        for i in range(int(n_parts)):
            part = table.filter(sql("part = {}", i)).project("* exclude (session, last, part, row)")
            if part.aggregate("count(*)").fetchall()[0][0]:
                part.write_parquet(f"{folder}/{i:06}.parquet", compression="zstd")
    finally:
        db.execute(sql("drop table {}", quote_name(name)))


# -- files that are checked by their digests ------------------------------------------------------


log = logging.getLogger(__name__)

N_DIGESTS = 10_000  # of files, which this process remembers at most


def replace_file(target: Path, parts: Iterable[bytes]) -> None:
    """Replace a file atomically, even if other processes write it too."""
    with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as data:
        try:
            data.writelines(parts)
            data.close()
            Path(data.name).replace(target)
        except BaseException:
            Path(data.name).unlink(missing_ok=True)
            raise


def digest_of(path: Path) -> str:
    """Return the digest of a file's bytes.

    A process reads each file once, and again when its inode, size or times have changed.
    """
    status = path.stat()
    times = status.st_mtime_ns, status.st_ctime_ns
    return _digest(path, (status.st_dev, status.st_ino, status.st_size, *times))


@lru_cache(maxsize=N_DIGESTS)
def _digest(path: Path, state: tuple[int, ...]) -> str:  # noqa: ARG001 - a part of the key
    with path.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


def is_whole(path: Path, digest: str) -> bool:
    """Return whether a file exists and has the given digest."""
    try:
        return digest_of(path) == digest
    except OSError:
        return False


def write_sealed(target: Path, body: bytes) -> None:
    """Write a file that begins with the digest of its content."""
    replace_file(target, [_seal(body), body])


def read_sealed(path: Path) -> bytes | None:
    """Return the content of a file of `write_sealed`, or None if it is missing or damaged."""
    try:
        seal, newline, body = path.read_bytes().partition(b"\n")
    except OSError:
        return None
    return body if seal + newline == _seal(body) else None


def _seal(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest().encode() + b"\n"
