"""Labels that people give to the answers of a table, kept in a file next to it.

The labels of `answers.csv` are in `answers.csv.labels.csv`, a line for each: the answer, the label,
a reason, the person and the time. The table itself is never changed.
"""

from __future__ import annotations

import csv
import hashlib
import os
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from peerage.errors import InputError
from peerage.text import visible

COLUMNS = ("id", "label", "reason", "person", "at")
LABELS = ("pass", "fail", "skip")
SHARED = 5  # one in so many answers that another person labelled is labelled by a second one too


class PersonLabel(NamedTuple):
    """One person's label of one answer."""

    id: str
    label: str
    reason: str
    person: str
    at: str


class AnswerToLabel(NamedTuple):
    """An answer that a person may label."""

    id: str
    question: str
    answer: str


def labels_file(path: Path) -> Path:
    """Return the file with people's labels of a table."""
    return path.with_name(f"{path.name}.labels.csv")


def read_labels(path: Path) -> list[PersonLabel]:
    """Return people's labels of a table, in the order in which they were given."""
    file = labels_file(path)
    if not file.is_file():
        return []
    with file.open(encoding="utf-8-sig", newline="") as text:
        table = csv.DictReader(text)
        if missing := [name for name in COLUMNS if name not in (table.fieldnames or ())]:
            raise InputError(
                f"this file of labels lacks {', '.join(missing)}.",
                place=str(file),
                hint="`peerage label` writes it. Move it away if it is something else.",
            )
        rows = [PersonLabel(*(row[name] or "" for name in COLUMNS)) for row in table]
    for number, row in enumerate(rows, 2):
        if row.label not in LABELS or not row.id or not row.person:
            raise InputError(
                f"{row.label[:80]!r} is not a label of an answer by a person.",
                place=f"{file}, line {number}",
                hint=f"A line has an id, a person, and one of {', '.join(LABELS)}.",
            )
    return rows


def latest_labels(path: Path) -> dict[tuple[str, str], PersonLabel]:
    """Return each person's last label of each answer, by answer and person."""
    return {(one.id, one.person): one for one in read_labels(path)}


def add_label(path: Path, id_: str, label: str, reason: str, person: str) -> None:
    """Write one label to the end of the file, so that a later crash loses nothing."""
    file = labels_file(path)
    is_new = not file.exists()
    at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    with file.open("a", encoding="utf-8", newline="") as text:
        table = csv.writer(text)
        if is_new:
            table.writerow(COLUMNS)
        table.writerow(PersonLabel(id_, label, visible(reason), person, at))
        text.flush()
        os.fsync(text.fileno())


def queue_of(
    answers: Sequence[AnswerToLabel], labelled: Collection[tuple[str, str]], person: str
) -> list[AnswerToLabel]:
    """Return the answers that a person has still to label, in a random order that is always alike.

    `labelled` has the answers that were labelled, each with the person who did. Of those that
    others have labelled, every fifth comes again, and first: two people's labels of one answer
    show how far people agree.
    """
    own = {id_ for id_, by in labelled if by == person}
    others = {id_ for id_, by in labelled if by != person}
    number_by_id = {one.id: _number(one.id) for one in answers}
    order = sorted(answers, key=lambda one: (number_by_id[one.id], one.id))
    left = [one for one in order if one.id not in own]
    again = [one for one in left if one.id in others and number_by_id[one.id] % SHARED == 0]
    return again + [one for one in left if one.id not in others]


def _number(id_: str) -> int:
    return int.from_bytes(hashlib.sha256(id_.encode()).digest()[:8], "big")
