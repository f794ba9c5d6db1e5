"""Any table or list of records whose columns the user maps, long or wide.

A long table has one row per judgement. A wide table has one row per item, and one column per judge
or per model: for it, map `reviewer=columns` or `candidate=columns`, or name the columns as in
`candidate=columns:a|b|c`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from peerage.errors import InputError, UsageError, how_many, meant
from peerage.imports.foreign_records import (
    Record,
    at_path,
    count_words,
    model_text,
    rows_or_records,
)
from peerage.imports.formats import Columns, Format, FormatFit, Row
from peerage.reviews.columns import MARK, REVIEWS

MAPPED = "mapped"  # the name of the format
WIDE = "columns"
SIDES = ("reviewer", "candidate")
PLACES = ("data", "results", "records", "rows", "items", "")


def mapped_format(columns: Columns, is_guess: bool = False) -> Format:
    """Return a format that reads these columns; for a guess it warns which they are."""
    for ours in columns:
        if ours not in REVIEWS and not ours.startswith(MARK):
            raise UsageError(f"--map: unknown column {ours!r}.", hint=meant(ours, REVIEWS))
    wide = [side for side in SIDES if columns.get(side, "").partition(":")[0] == WIDE]
    if len(wide) > 1:
        raise UsageError("--map: column headings can name reviewers or candidates, not both.")
    return Format(
        MAPPED,
        "a table with named columns",
        "reviews",
        lambda _: FormatFit(1),
        partial(read, columns),
        warn=(lambda _: (_say_names(columns),)) if is_guess else None,
        has_repeats=False,
    )


def _say_names(columns: Columns) -> str:
    renamed = [f"{theirs} is {ours}" for ours, theirs in columns.items() if ours != theirs]
    return f"columns were taken by their usual names: {', '.join(renamed)}. If not, use --map."


def read(columns: Columns, path: Path) -> Iterator[Row]:
    """Yield the reviews of a file, read from the mapped columns."""
    wide = next((side for side in SIDES if columns.get(side, "").partition(":")[0] == WIDE), None)
    names: Sequence[str] = ()
    for number, (place, record) in enumerate(rows_or_records(path, *PLACES), 1):
        if number == 1:
            _check(record, columns, path)
            names = _wide_names(record, columns, wide) if wide else ()
        common = {
            "session_id": f"row {number}",
            "reviewer": "judge",
            "candidate": path.stem,
            **_cells(record, {ours: columns[ours] for ours in columns if ours != wide}),
        }
        if wide is None:
            yield common
        for name in names:
            score = _number(record.get(name), f"{path}, {place}", name)
            yield {**common, str(wide): name, "score": score}


def _cells(record: Record, columns: Columns) -> dict[str, Any]:
    """Return the values of a record by our columns; empty cells are left out."""
    values = {
        ours: record[theirs] if theirs in record else at_path(record, theirs)
        for ours, theirs in columns.items()
    }
    if isinstance(values.get("text"), list):
        values["text"] = model_text(values["text"])
        values.setdefault("words", count_words(values["text"]))
    return {name: value for name, value in values.items() if value not in (None, "")}


def _check(record: Record, columns: Columns, path: Path) -> None:
    """Raise an error for a name that the file does not have."""
    for ours, theirs in columns.items():
        if theirs.partition(":")[0] == WIDE:
            continue
        if theirs not in record and at_path(record, theirs) is None:
            raise UsageError(
                f"--map {ours}={theirs}: the file has no column {theirs!r}.",
                place=str(path),
                hint=f"It has {how_many(len(record), 'column')}: {', '.join(list(record)[:20])}.",
            )


def _wide_names(record: Record, columns: Columns, wide: str) -> Sequence[str]:
    """Return the columns that are judges or models: the named ones, or all other numeric ones."""
    _, _, named = columns[wide].partition(":")
    if named:
        return named.split("|")
    used = set(columns.values())
    return [name for name, value in record.items() if name not in used and _is_number(value)]


def _is_number(value: object) -> bool:
    try:
        _number(value, "", "")
    except InputError:
        return False
    return True


def _number(value: object, place: str, name: str) -> float | None:
    """Return a cell as a number, or None if it is empty; raise an error for other text."""
    if value is None or str(value).strip() in ("", "NaN", "nan", "null"):
        return None
    try:
        return float(str(value)) if not isinstance(value, bool) else float(value)
    except ValueError:
        raise InputError(
            f"{str(value)[:80]!r} is not a number.", place=f"{place}, {name}"
        ) from None
