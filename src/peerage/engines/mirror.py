"""A columnar mirror of a store: append-only Parquet segments, clustered by session.

The store is the truth and the mirror only saves reading it through. A segment's name says
which rows of the log it covers, so nothing else needs to be remembered: what is missing
is written again, and deleting the folder costs only time. Small segments are joined now and
then; those that were joined stay for an hour, for whoever is reading them.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from peerage.engines.duckdb import database

SMALL_BYTES = 1_000_000
MANY = 16  # small segments in a row are joined
GRACE_S = 3_600.0
FORMAT = 1  # another format writes other names, and so begins again
SEGMENT = re.compile(r"reviews-v(\d+)-(\d+)-(\d+)\.parquet")
COLUMNS = {
    "session_id": "VARCHAR",
    "reviewer": "VARCHAR",
    "candidate": "VARCHAR",
    "rank": "DOUBLE",
    "score": "DOUBLE",
    "position": "BIGINT",
    "words": "BIGINT",
    "category": "VARCHAR",
    "at": "DOUBLE",
    "round": "BIGINT",
    "query_id": "VARCHAR",
    "reasoning_words": "BIGINT",
    "family": "VARCHAR",
    "deal": "VARCHAR",
    "place": "BIGINT",
}


class Mirror:
    """The segments in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def segments(self) -> list[Path]:
        """The segments of this format, in the order of the log, without those that were joined."""
        kept: list[Path] = []
        for first, _, path in self._all():
            if not kept or first > self.rows_of(kept[-1])[1]:
                kept.append(path)
        return kept

    def _all(self) -> list[tuple[int, int, Path]]:
        """Every segment of this format by its rows; of those that begin together the longest."""
        found = [
            (int(match[2]), int(match[3]), path)
            for path in self.folder.glob("*.parquet")
            if (match := SEGMENT.fullmatch(path.name)) and int(match[1]) == FORMAT
        ]
        return sorted(found, key=lambda one: (one[0], -one[1]))

    @property
    def synced_to(self) -> int:
        """The last row of the log that a segment covers; 0 for none."""
        segments = self.segments
        return self.rows_of(segments[-1])[1] if segments else 0

    def rows_of(self, segment: Path) -> tuple[int, int]:
        """The first and the last row of the log that a segment covers."""
        _, first, last = SEGMENT.fullmatch(segment.name).groups()  # type: ignore[union-attr]
        return int(first), int(last)

    def keep(self, name: str, parts: Iterable[bytes]) -> Path:
        """A file of that name with these bytes; one that is there already is right."""
        target = self.folder / name
        if not target.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            partial = target.with_suffix(".partial")
            with partial.open("wb") as data:
                data.writelines(parts)
            partial.replace(target)
        return target

    def write(self, rows: Iterable[Mapping[str, Any]], first: int, last: int) -> None:
        """A segment for rows `first` to `last` of the log; whole or not at all."""
        self.folder.mkdir(parents=True, exist_ok=True)
        marks: set[str] = set()
        with tempfile.TemporaryDirectory(dir=self.folder) as scratch:
            lines = Path(scratch) / "rows.jsonl"
            with lines.open("w", encoding="utf-8") as out:
                for row in rows:
                    marks |= {name for name in row if name.startswith("mark_")}
                    out.write(json.dumps(row) + "\n")
            columns = {**COLUMNS, **dict.fromkeys(sorted(marks), "DOUBLE")}
            with database().cursor() as db:
                table = db.read_json(str(lines), columns=columns, format="newline_delimited")
                self._keep(table.order("session_id, reviewer, position"), first, last, scratch)

    def tidy(self) -> None:
        """Joins the small segments at the end where there are many, and drops what was joined."""
        segments = self.segments
        small: list[Path] = []
        while segments and segments[-1].stat().st_size < SMALL_BYTES:
            small.insert(0, segments.pop())
        if len(small) >= MANY:
            first, last = self.rows_of(small[0])[0], self.rows_of(small[-1])[1]
            with (
                tempfile.TemporaryDirectory(dir=self.folder) as scratch,
                database().cursor() as db,
            ):
                joined = db.read_parquet([str(path) for path in small], union_by_name=True)
                self._keep(joined, first, last, scratch)
        used = set(self.segments)
        for _, _, path in self._all():
            if path not in used and time.time() - path.stat().st_mtime > GRACE_S:
                path.unlink(missing_ok=True)

    def _keep(self, table: Any, first: int, last: int, scratch: str) -> None:
        written = Path(scratch) / "segment.parquet"
        table.write_parquet(str(written))
        written.replace(self.folder / f"reviews-v{FORMAT}-{first}-{last}.parquet")
