"""A columnar mirror of a store: append-only Parquet segments, clustered by session.

The store is the truth and the mirror only saves reading it through. A segment's name says
which rows of the log it covers, so nothing else needs to be remembered: what is missing
is written again, and deleting the folder costs only time.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

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
        """The segments of this format, in the order of the log."""
        found = [
            (int(match[2]), path)
            for path in self.folder.glob("*.parquet")
            if (match := SEGMENT.fullmatch(path.name)) and int(match[1]) == FORMAT
        ]
        return [path for _, path in sorted(found)]

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
        import duckdb

        self.folder.mkdir(parents=True, exist_ok=True)
        target = self.folder / f"reviews-v{FORMAT}-{first}-{last}.parquet"
        marks: set[str] = set()
        with tempfile.TemporaryDirectory(dir=self.folder) as scratch:
            lines = Path(scratch) / "rows.jsonl"
            with lines.open("w", encoding="utf-8") as out:
                for row in rows:
                    marks |= {name for name in row if name.startswith("mark_")}
                    out.write(json.dumps(row) + "\n")
            columns = {**COLUMNS, **dict.fromkeys(sorted(marks), "DOUBLE")}
            written = Path(scratch) / "segment.parquet"
            with duckdb.connect() as db:
                table = db.read_json(str(lines), columns=columns, format="newline_delimited")
                table.order("session_id, reviewer, position").write_parquet(str(written))
            written.replace(target)
