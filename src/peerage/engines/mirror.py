"""A columnar mirror of a store: append-only Parquet segments of reviews, opinions or items.

The store is the truth and the mirror only saves reading it through. A segment's name says
which rows of the log it covers, so nothing else needs to be remembered: what is missing
is written again, and deleting the folder costs only time. Small segments are joined now and
then; those that were joined stay for an hour, for whoever is reading them.

Processes write one after the other, and every file appears whole under its name. Where
nothing can be written, the segments that are there are read and the rest goes to a folder of
this process.
"""

from __future__ import annotations

import atexit
import json
import re
import sys
import tempfile
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from peerage.embedded import database, located, pattern
from peerage.engines.duckdb import reported, shared_database
from peerage.engines.sql import quoted, sql
from peerage.reviews.columns import ITEMS, MARK, OPINIONS, REVIEWS

if TYPE_CHECKING:
    import duckdb

SMALL_BYTES = 1_000_000
PART_ROWS = 131_072  # of an imported table, about: files that a window of time may cut
MANY = 16  # small segments in a row are joined
GRACE_S = 3_600.0
MAX_SUMS = 2_000  # files of sums that are kept beside the segments; the oldest go first
FORMAT = 6  # another format writes other names, and so begins again
SEGMENT = re.compile(r"([a-z]+-v\d+-[0-9a-f]*)-(\d+)-(\d+)\.parquet")
LEFT_OUT = re.compile(r"left-out-([a-z]+-v\d+-[0-9a-f]*)-(\d+)-(\d+)\.json")
Covering = tuple[int, int, Path]  # the first and the last row of the log that a file covers
KINDS = {"text": "VARCHAR", "whole": "BIGINT", "number": "DOUBLE", "time": "DOUBLE"}
COLUMNS = {name: KINDS[column.kind] for name, column in REVIEWS.items() if column.recorded}
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


def replace_file(target: Path, parts: Iterable[bytes]) -> None:
    """Write a file whole or not at all, whoever else is writing it too."""
    with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as data:
        try:
            data.writelines(parts)
            data.close()
            Path(data.name).replace(target)
        except BaseException:
            Path(data.name).unlink(missing_ok=True)
            raise


def _wait_for(lock: int) -> None:
    """Wait until nobody else holds an open file's lock; it is let go when the file is closed."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(lock, msvcrt.LK_LOCK, 1)
    else:
        import fcntl

        fcntl.flock(lock, fcntl.LOCK_EX)


@cache
def _scratch_for(folder: Path) -> Path:
    """A folder of this process in the place of one that cannot be written."""
    scratch = tempfile.TemporaryDirectory(prefix=f"{folder.name}-")
    atexit.register(scratch.cleanup)
    return Path(scratch.name)


class Mirror:
    """The segments of a table in a folder, with those of another one that can only be read.

    `origin` tells logs apart that were kept at one place after each other: the segments of a
    store that was deleted are not read for its successor.
    """

    def __init__(
        self,
        folder: Path,
        table: str = "reviews",
        origin: str = "",
        read_only: Path | None = None,
    ) -> None:
        self.folder, self.table, self.origin = folder, table, origin
        self._stem = f"{table}-v{FORMAT}-{origin}"
        self._folders = [folder] if read_only is None else [read_only, folder]

    @property
    def folders(self) -> list[str]:
        """Where files of this mirror are."""
        return [str(folder) for folder in self._folders if folder.is_dir()]

    @contextmanager
    def locked(self) -> Iterator[None]:
        """While no other process writes segments; OSError where this one cannot either."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("ab") as lock:
            _wait_for(lock.fileno())
            yield

    def elsewhere(self) -> Mirror:
        """The same segments, and a folder of this process for what is written from now on."""
        return Mirror(_scratch_for(self.folder), self.table, self.origin, self.folder)

    @property
    def segments(self) -> list[Path]:
        """The segments of this format, in the order of the log, without those that were joined."""
        return [path for *_, path in self._segments()]

    def _segments(self) -> list[Covering]:
        newest = {folder: i for i, folder in enumerate(self._folders)}
        # Of those that begin together the longest is first, and of equals the newest.
        files = sorted(
            self._files(SEGMENT), key=lambda file: (file[0], -file[1], -newest[file[2].parent])
        )
        segments: list[Covering] = []
        for first, last, path in files:
            if not segments or first > segments[-1][1]:
                segments.append((first, last, path))
        return segments

    def _files(self, names: re.Pattern[str]) -> list[Covering]:
        """The files of this format with such names, each with the rows of the log it covers."""
        return [
            (int(match[2]), int(match[3]), path)
            for folder in self._folders
            if folder.is_dir()
            for path in folder.iterdir()
            if (match := names.fullmatch(path.name)) and match[1] == self._stem
        ]

    @property
    def synced_to(self) -> int:
        """The last row of the log that a segment covers; 0 for none."""
        return max((last for _, last, _ in self._segments()), default=0)

    def is_segment(self, file: Path) -> bool:
        """Whether a file was written from this store's own sessions."""
        return SEGMENT.fullmatch(file.name) is not None

    @property
    def left_out(self) -> list[str]:
        """The sessions that could not be read, and so are in no segment."""
        done = self.synced_to
        files = [path for _, last, path in self._files(LEFT_OUT) if last <= done]
        lists = (json.loads(path.read_text(encoding="utf-8")) for path in files)
        return sorted({str(session) for sessions in lists for session in sessions})

    def keep(self, name: str, parts: Iterable[bytes]) -> Path:
        """A file of that name with these bytes; one that is there already is right."""
        path = self._path(name)
        if not path.exists():
            replace_file(path, parts)
        return path

    def _path(self, name: str) -> Path:
        """Where a file or folder of that name is, or may be written."""
        self.folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / name for folder in self._folders]
        return next((path for path in paths if path.exists()), paths[-1])

    @contextmanager
    def _scratch(
        self, files: Sequence[Path] | None = None
    ) -> Iterator[tuple[Path, duckdb.DuckDBPyConnection]]:
        """A folder within this one for a while, and a database that reaches it and these files.

        Without files it is a shared one that reaches this mirror's folder: to start one takes
        longer than to write a segment.
        """
        with tempfile.TemporaryDirectory(dir=self.folder) as folder, reported(str(self.folder)):
            scratch = located(folder)
            if files is None:
                db = shared_database(frozenset(), (located(self.folder),)).cursor()
            else:
                db = database(map(located, files), [scratch])
            with db:
                yield Path(scratch), db

    def write(
        self, rows: Iterable[Mapping[str, Any]], first: int, last: int, left_out: Sequence[str]
    ) -> None:
        """A segment for rows `first` to `last` of the log, whole or not at all.

        `left_out` is read when the rows have been: what they come from may add to it.
        """
        marks: set[str] = set()
        with self._scratch() as (scratch, db):
            lines = scratch / "rows.jsonl"
            with lines.open("w", encoding="utf-8") as out:
                for row in rows:
                    marks |= {name for name in row if name.startswith(MARK)}
                    out.write(json.dumps(row) + "\n")
            if left_out:
                target = self.folder / f"left-out-{self._stem}-{first}-{last}.json"
                replace_file(target, [json.dumps(sorted(left_out)).encode()])
            columns = {**COLUMNS_BY_TABLE[self.table], **dict.fromkeys(sorted(marks), "DOUBLE")}
            table = db.read_json(str(lines), columns=columns, format="newline_delimited")
            self._keep(table, first, last, scratch)

    def drop(self, sessions: Collection[str]) -> None:
        """Write segments again without these sessions, which more has been said of since."""
        for first, last, segment in self._segments() if sessions else ():
            with self._scratch([segment]) as (scratch, db):
                values = [pattern(located(segment)), sorted(sessions)]
                has_some = db.execute(
                    "SELECT 1 FROM read_parquet(?, hive_partitioning = false)"
                    " WHERE session_id IN (SELECT unnest(?)) LIMIT 1",
                    values,
                ).fetchall()
                if has_some:
                    others = db.sql(
                        "SELECT * FROM read_parquet(?, hive_partitioning = false)"
                        " WHERE session_id NOT IN (SELECT unnest(?))",
                        params=values,
                    )
                    self._keep(others, first, last, scratch)

    def keep_parts(
        self, name: str, parts: Iterable[bytes], part_rows: int = PART_ROWS
    ) -> list[Path]:
        """A table of reviews with these bytes, as files of some whole sessions in order of time.

        A window of time then cuts one of them, and not all that was ever imported. They are in
        a folder of that name, which is there as a whole or not at all.
        """
        path = self._path(name)
        if not path.is_dir():
            with self._scratch() as (scratch, db):
                whole, split = scratch / "whole.parquet", scratch / "parts"
                replace_file(whole, parts)
                split.mkdir()
                _split(db, str(whole), str(split), part_rows)
                with suppress(OSError):  # somebody else was quicker
                    split.rename(path)
        return sorted(path.iterdir())

    def tidy(self) -> None:
        """Joins the small segments at the end where there are many, and drops what was joined."""
        segments, small = self._segments(), list[Covering]()
        while segments and segments[-1][2].stat().st_size < SMALL_BYTES:
            small.insert(0, segments.pop())
        if len(small) >= MANY:
            files = [path for *_, path in small]
            with self._scratch(files) as (scratch, db):
                named = [pattern(located(path)) for path in files]
                joined = db.read_parquet(named, union_by_name=True, hive_partitioning=False)
                self._keep(joined, small[0][0], small[-1][1], scratch)
        used = set(self.segments)
        for path in self.folder.glob(f"{self.table}-v*.parquet"):  # joined, or of another log
            if path not in used and time.time() - path.stat().st_mtime > GRACE_S:
                path.unlink(missing_ok=True)
        sums = sorted(self.folder.glob("sums-*.bin"), key=lambda path: path.stat().st_mtime)
        for path in sums[:-MAX_SUMS]:  # of segments that were joined or written again
            path.unlink(missing_ok=True)

    def _keep(self, table: Any, first: int, last: int, scratch: Path) -> None:
        written = scratch / "segment.parquet"
        table.order(ORDER_BY_TABLE[self.table]).write_parquet(str(written))
        written.replace(self.folder / f"{self._stem}-{first}-{last}.parquet")


def _split(db: duckdb.DuckDBPyConnection, whole: str, folder: str, part_rows: int) -> None:
    """Write the rows of a file as several, whole sessions by the last of their times."""
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
        db.execute(sql("drop table {}", quoted(name)))
