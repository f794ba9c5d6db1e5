"""Candidates that gave one text to many questions, or the texts of a rival.

Texts are compared by their keys (`text_key`), which do not depend on case and blanks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from peerage.reviews.cells import Bools, Floats, Ints
from peerage.reviews.rows import Rows
from peerage.text import text_key

LEAST = 5  # texts of a candidate, and times that one occurs
SHARE = 0.1  # of a candidate's texts
TIMES = 3.0  # how much oftener than a rival's commonest text a short one occurs
CHANCE = 0.01  # that any of the candidates gives one short text only, by chance


@dataclass(frozen=True, slots=True)
class SameText:
    """A candidate whose commonest text answers n of its questions."""

    candidate: str
    n: int
    n_texts: int


@dataclass(frozen=True, slots=True)
class CopiedText:
    """Two candidates with the same long text on n of the questions that both answered."""

    one: str
    other: str
    n: int
    n_shared: int


@dataclass(frozen=True, slots=True)
class Texts:
    """The different texts of candidates: one element for each candidate, question and text."""

    names: tuple[str, ...]
    candidate: Ints
    question: Ints
    key: Floats

    @property
    def is_long(self) -> Bools:
        return self.key % 2.0 == 1.0


def texts_in(rows: Rows) -> Texts:
    """Return the texts of some rows, by their keys; of rows without keys, by their texts."""
    key = rows.number("text_hash")
    if rows.text is not None and not np.isfinite(key).any():
        key = np.array([np.nan if text is None else text_key(text) for text in rows.text.tolist()])
    known = np.isfinite(key)
    question = rows.cluster[rows.session[known]]
    table = np.unique(np.stack([rows.candidate[known], question, key[known]], axis=1), axis=0)
    candidate, question = table[:, 0].astype(np.int64), table[:, 1].astype(np.int64)
    return Texts(rows.names, candidate, question, table[:, 2])


def join_texts(parts: Sequence[Texts]) -> Texts:
    """Return the texts of several blocks of rows that share names and questions."""
    columns = ([getattr(part, name) for part in parts] for name in ("candidate", "question", "key"))
    return Texts(parts[0].names, *(np.concatenate(column) for column in columns))


def same_texts(texts: Texts) -> list[SameText]:
    """Return the candidates that gave one text too often, by name.

    A long text (25 words) is too often from a tenth of the answers on; a short one must also occur
    three times as often as the commonest text of any rival on the same questions, or be the only
    text where that is unlikely.
    """
    flagged = []
    n_candidates = len(np.unique(texts.candidate))
    for code in np.unique(texts.candidate).tolist():
        own = texts.candidate == code
        n_texts = int(own.sum())
        keys, counts = np.unique(texts.key[own], return_counts=True)
        n = int(counts.max(initial=0))
        if n_texts < LEAST or n < max(LEAST, SHARE * n_texts):
            continue
        is_long = bool((keys[counts == n] % 2.0 == 1.0).any())
        if is_long or _is_odd(texts, own, n, n_texts, n_candidates):
            flagged.append(SameText(texts.names[code], n, n_texts))
    return sorted(flagged, key=lambda one: one.candidate)


def _is_odd(texts: Texts, own: Bools, n: int, n_texts: int, n_candidates: int) -> bool:
    """Return whether a short text occurs oftener than rivals repeat theirs on these questions."""
    here = np.isin(texts.question, texts.question[own]) & ~own
    commonest = 0.0
    for rival in np.unique(texts.candidate[here]).tolist():
        theirs = texts.key[here & (texts.candidate == rival)]
        if len(theirs) >= max(LEAST, n_texts / 2):
            most = int(np.unique(theirs, return_counts=True)[1].max())
            commonest = max(commonest, (most + 1) / (len(theirs) + 2))
    if not commonest:
        return False
    alone = n == n_texts and n * math.log(commonest) <= math.log(CHANCE / n_candidates)
    return n / n_texts >= TIMES * commonest or alone


def copied_texts(texts: Texts) -> list[CopiedText]:
    """Return the pairs of candidates with the same long text on a tenth of their questions."""
    order = np.lexsort((texts.candidate, texts.key, texts.question))
    order = order[texts.is_long[order]]
    question, key = texts.question[order], texts.key[order]
    starts = 1 + np.flatnonzero((np.diff(question) != 0) | (np.diff(key) != 0))
    n_by_pair: dict[tuple[int, int], int] = {}
    for group in np.split(texts.candidate[order], starts):
        members = group.tolist()
        for i, one in enumerate(members):
            for other in members[i + 1 :]:
                n_by_pair[one, other] = n_by_pair.get((one, other), 0) + 1
    flagged = []
    for (one, other), n in n_by_pair.items():
        if n < LEAST:
            continue
        theirs = (texts.question[texts.candidate == code] for code in (one, other))
        n_shared = len(np.intersect1d(*theirs))
        if n >= max(LEAST, SHARE * n_shared):
            flagged.append(CopiedText(texts.names[one], texts.names[other], n, n_shared))
    return sorted(flagged, key=lambda pair: (-pair.n, pair.one, pair.other))
