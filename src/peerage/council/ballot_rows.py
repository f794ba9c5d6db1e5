"""Sessions from rows: what reviewers gave each candidate, or comparisons two by two.

A row of reviews names a reviewer and a candidate and has a rank or a score; those of one session
are together. A comparison (`model_a`, `model_b`, `winner`) is a ballot of its own, and all of
them are one session, so that a judge may compare as often as it likes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from peerage.council.blinding import label
from peerage.errors import InputError
from peerage.types import MAX_LABELS, Ballot, Query, Review, Session, Slot

MAX_BALLOTS = 10_000  # of one session
N_SHOWN = 10
SIDES = ("model_a", "model_b")
TIES = ("tie", "tie (bothbad)")
SESSION = ("session", "session_id")
JUDGE = ("reviewer", "judge")

Row = Mapping[str, Any]


def is_rows(document: Any) -> bool:
    """Whether a document is rows of reviews or of comparisons, and no list of sessions."""
    return (
        isinstance(document, list)
        and bool(document)
        and all(isinstance(row, Mapping) for row in document)
        and any("candidate" in row or SIDES[0] in row for row in document)
    )


def sessions_of_rows(rows: Sequence[Row], place: str) -> tuple[Session, ...]:
    """The sessions in rows of reviews, in their order, or the one session of comparisons."""
    if any("candidate" in row for row in rows):
        return _reviewed_sessions(rows, place)
    return (_compared_session(rows, place),)


# -- reviews ----------------------------------------------------------------------------------


def _reviewed_sessions(rows: Sequence[Row], place: str) -> tuple[Session, ...]:
    _check_columns(rows, ("reviewer", "candidate"), place)
    if not any(_is_given(row.get(name)) for row in rows for name in ("rank", "score")):
        raise InputError("no row has a rank or a score.", place=place, hint=_columns(rows))
    rows_by_ballot: dict[str, dict[tuple[str, int], dict[str, tuple[int, Row]]]] = {}
    for i, row in enumerate(rows, 1):
        here = f"{place}, row {i}"
        session = _text(row, SESSION)
        key = (_name(row, ("reviewer",), here), int(_number(row, "round", here, 0.0) or 0))
        candidate = _name(row, ("candidate",), here)
        ballot = rows_by_ballot.setdefault(session, {}).setdefault(key, {})
        if candidate in ballot:
            raise InputError(
                f"{key[0]!r} judges {candidate!r} here and in row {ballot[candidate][0]}.",
                place=here,
                hint='Keep one row, or tell sessions apart in a column "session".',
            )
        ballot[candidate] = (i, row)
    return tuple(
        _session(session, [_reviewed(*key, held, place) for key, held in ballots.items()], place)
        for session, ballots in rows_by_ballot.items()
    )


def _reviewed(
    reviewer: str, round_: int, row_by_candidate: Mapping[str, tuple[int, Row]], place: str
) -> tuple[Ballot, Review]:
    """One ballot: ranks where any row has one, else scores; a row with neither is unranked."""
    _check_size(len(row_by_candidate), MAX_LABELS, "candidates on a ballot", place)

    def numbers(name: str) -> dict[str, float]:
        read = {
            candidate: _number(row, name, f"{place}, row {i}")
            for candidate, (i, row) in row_by_candidate.items()
        }
        return {candidate: value for candidate, value in read.items() if value is not None}

    rank, score, position = numbers("rank"), numbers("score"), numbers("position")
    if low := [name for name, value in rank.items() if value < 1]:
        where = f"{place}, row {row_by_candidate[low[0]][0]}"
        raise InputError("a rank lies below 1.", place=where, hint="The best has rank 1.")
    known = len(position) == len(row_by_candidate) == len(set(position.values()))
    authors = sorted(row_by_candidate, key=lambda name: (position[name] if known else 0, name))
    slots = tuple(Slot(label(i), name) for i, name in enumerate(authors))
    label_by_author = {slot.author: slot.label for slot in slots}
    worth = rank or {name: -value for name, value in score.items()}
    tiers = tuple(
        tuple(label_by_author[name] for name in authors if worth.get(name) == value)
        for value in sorted(set(worth.values()))
    )
    review = Review(
        reviewer,
        ranking=tiers,
        scores={label_by_author[name]: value for name, value in score.items()},
        abstained="" if worth else "no_rank_or_score",
        round=round_,
    )
    return Ballot(reviewer, slots, round_, known), review


# -- comparisons ------------------------------------------------------------------------------


def _compared_session(rows: Sequence[Row], place: str) -> Session:
    _check_columns(rows, (*SIDES, "winner"), place)
    return _session("", [_compared(i, row, place) for i, row in enumerate(rows, 1)], place)


def _compared(i: int, row: Row, place: str) -> tuple[Ballot, Review]:
    here = f"{place}, row {i}"
    a, b = (_name(row, (side,), here) for side in SIDES)
    if a == b:
        raise InputError(f"{a!r} is compared with itself.", place=here)
    reviewer = _text(row, JUDGE) or f"row {i}"
    ballot = Ballot(reviewer, (Slot("A", a), Slot("B", b)), sheet=i)
    winner = _text(row, ("winner",))
    first, second = (("A",), ("B",)), (("B",), ("A",))
    tiers_by_winner: dict[str, tuple[tuple[str, ...], ...]] = {
        a: first,
        b: second,
        SIDES[0]: first,
        SIDES[1]: second,
        **dict.fromkeys(TIES, (("A", "B"),)),
    }
    if winner not in tiers_by_winner:
        known = f"{', '.join((*SIDES, *TIES))}, or a model's name"
        raise InputError(f"the winner is {winner!r}.", place=here, hint=f"Known: {known}.")
    return ballot, Review(reviewer, ranking=tiers_by_winner[winner], sheet=i)


# -- parts ------------------------------------------------------------------------------------


def _session(name: str, judged: Sequence[tuple[Ballot, Review]], place: str) -> Session:
    candidates = sorted({author for ballot, _ in judged for author in ballot.authors})
    _check_size(len(judged), MAX_BALLOTS, "ballots in one session", place)
    _check_size(len(candidates), MAX_LABELS, "candidates in one session", place)
    return Session(
        id=name,
        query=Query(""),
        candidates=tuple(candidates),
        ballots=tuple(ballot for ballot, _ in judged),
        reviews=tuple(review for _, review in judged),
        finished=True,
    )


def _check_size(n: int, most: int, what: str, place: str) -> None:
    if n > most:
        raise InputError(
            f"{n:,} {what} are more than {most:,}.",
            place=place,
            hint="`peerage board models --reviews FILE` takes tables of any size.",
        )


def _check_columns(rows: Sequence[Row], needed: Sequence[str], place: str) -> None:
    missing = [name for name in needed if not any(name in row for row in rows)]
    if missing:
        listed = ", ".join(missing)
        raise InputError(f"there is no column {listed}.", place=place, hint=_columns(rows))


def _columns(rows: Sequence[Row]) -> str:
    names = list(dict.fromkeys(str(name) for row in rows[:N_SHOWN] for name in row))
    return f"It has: {', '.join(names[: 2 * N_SHOWN])}."


def _is_given(value: Any) -> bool:
    blank = value is None or (isinstance(value, str) and not value.strip())
    return not blank and not (isinstance(value, float) and math.isnan(value))


def _text(row: Row, names: Sequence[str]) -> str:
    """The first of these columns that says something, without the spaces around it."""
    return next((str(row[name]).strip() for name in names if _is_given(row.get(name))), "")


def _name(row: Row, names: Sequence[str], place: str) -> str:
    text = _text(row, names)
    if not text:
        raise InputError(f"`{names[0]}` is empty.", place=place)
    return text


def _number(row: Row, name: str, place: str, default: float | None = None) -> float | None:
    value = row.get(name)
    if not _is_given(value):
        return default
    try:
        number = float(str(value)) if not isinstance(value, bool) else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"`{name}` is {value!r}, not a number.", place=place)
    return number
