"""People's judgements in one place: which reviewers are people, and which answers are correct.

People judge in two ways. A ballot ranks or marks answers, and its rows have 1 in `person`. A
decision says which answers are correct, and the answer's rows have it in `correct`: an
adjudication, a correction in a file of another tool, an expected answer of a prompt. All reports
read both columns through this module.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from peerage.reviews.cells import Bools, Floats, Groups, group
from peerage.reviews.columns import MARK
from peerage.reviews.rows import Rows, has_rounds, join_rows, round_codes, select
from peerage.stats.clusters import quotient

DECISIONS = "(decisions)"  # the reviewer that stands for all decisions on correct answers
# Numbers and texts that are about a reviewer's ballot, not about the answer.
OF_BALLOTS = frozenset(
    ("rank", "score", "position", "place", "person", "asked_again", "unsealed", "likeness")
)
TEXTS_OF_BALLOTS = frozenset(("deal", "fingerprint"))


def is_by_person(rows: Rows) -> Bools:
    """Return which rows belong to a person's ballot."""
    by_person: Bools = rows.number("person") == 1
    return by_person


def people_in(rows: Rows) -> set[str]:
    """Return the reviewers who are people."""
    codes = np.unique(rows.reviewer[is_by_person(rows)])
    return {rows.names[code] for code in codes.tolist()}


def spread_correctness(rows: Rows) -> Rows:
    """Return rows in which every row of an answer has its correctness: the mean of known values.

    A file may give the correctness on one row only, and people may contradict each other. A value
    outside 0 to 1 is a corrected score: it does not say whether the answer is correct.
    """
    if "correct" not in rows.numbers:
        return rows
    correct, answers = _mean_by_answer(rows)
    return replace(rows, numbers={**rows.numbers, "correct": correct[answers.code]})


def with_decisions(rows: Rows) -> Rows:
    """Return the rows plus those of one more person, who ranks correct answers first."""
    if "correct" not in rows.numbers:
        return rows
    correct, answers = _mean_by_answer(rows)
    decided = np.flatnonzero(np.isfinite(correct))
    if not len(decided):
        return rows
    some = select(rows, answers.first(np.arange(rows.n))[decided].astype(np.int64))
    nothing = np.full(some.n, np.nan)
    numbers = {
        name: nothing if name in OF_BALLOTS or name.startswith(MARK) else column
        for name, column in some.numbers.items()
    }
    value = correct[decided]
    numbers |= {"score": value, "correct": value, "person": np.ones(some.n)}
    keys = {
        name: np.full(some.n, -1) if name in TEXTS_OF_BALLOTS else column
        for name, column in some.keys.items()
    }
    names = (*rows.names, DECISIONS)
    reviewer = np.full(some.n, len(rows.names), dtype=np.int64)
    return join_rows(
        [rows, replace(some, names=names, reviewer=reviewer, numbers=numbers, keys=keys, text=None)]
    )


def _mean_by_answer(rows: Rows) -> tuple[Floats, Groups]:
    """Return the correctness of each answer, NaN if not known, and the answers of the rows."""
    codes = [(rows.session, rows.n_sessions), (rows.candidate, len(rows.names))]
    answers = group(*codes, *([round_codes(rows)] if has_rounds(rows) else []))
    value = rows.numbers["correct"]
    known = (value >= 0.0) & (value <= 1.0)
    n = np.bincount(answers.code, weights=known, minlength=answers.n)
    total = np.bincount(answers.code, weights=np.where(known, value, 0.0), minlength=answers.n)
    return quotient(total, n), answers
