"""Judgements of a judge and labels of people on the same answers, from a table of reviews.

An item is an answer, or a pair of answers if judge or people only rank. Several people on one item
give their majority, or their mean for marks; a tie gives no label.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import numpy as np

from peerage.reviews.cells import Bools, Floats, Ints, Texts
from peerage.reviews.rows import Rows, buckets_of

Kind = Literal["verdicts", "marks", "picks"]
ALL_JUDGES = "(all judges)"  # the majority of all judges
FEWEST_JUDGES = 3  # of two, those answers would be left on which both agree


@dataclass(frozen=True, slots=True)
class Judged:
    """One judge's values of items, and people's; NaN where there is none.

    Pass is 1 and fail 0. Of a pair the value is 1 if the first answer is better, 0 if the second
    is, and ½ for a tie.
    """

    judge: str
    kind: Kind
    session: Texts  # by item, the id of its session
    candidate: Ints
    rival: Ints | None  # the second answer of a pair
    group: Ints  # the query
    fold: Ints  # a fixed pseudo-random number of the query
    by_judge: Floats
    by_people: Floats
    by_person: Floats  # items × people
    words: Floats
    confidence: Floats  # of the judge, 1 if it gives none
    shown_first: Floats  # of a pair: 1 if the first answer was shown first to the judge
    reason: Texts | None
    answer: Texts | None
    names: tuple[str, ...]
    are_binary: bool  # whether people say pass or fail, and give no marks

    @property
    def labelled(self) -> Bools:
        """Which items have a judgement and a label."""
        both: Bools = np.isfinite(self.by_people) & np.isfinite(self.by_judge)
        return both


def is_binary(values: Floats) -> bool:
    """Return whether all known values are 0 or 1."""
    known = values[np.isfinite(values)]
    return bool(np.isin(known, (0.0, 1.0)).all())


def judged_items(rows: Rows, people: Collection[str]) -> Iterator[Judged]:
    """Yield each judge's items that people labelled too, and its other verdicts, by name."""
    is_person = np.array([name in people for name in rows.names], dtype=bool)
    if not is_person[rows.reviewer].any():
        return
    table = _Table.of(rows, is_person)
    for code, name in enumerate(rows.names):
        if not is_person[code] and (judged := table.join_judge(code, name)) is not None:
            yield judged


@dataclass(frozen=True, slots=True)
class _Table:
    """Rows with the number of each answer, and which reviewers are people."""

    rows: Rows
    is_person: Bools
    item: Ints  # of each row
    first: Ints  # the first row of each item
    query: Ints  # by session
    fold: Ints  # by query

    @classmethod
    def of(cls, rows: Rows, is_person: Bools) -> _Table:
        key = rows.session.astype(np.int64) * len(rows.names) + rows.candidate
        _, first, item = np.unique(key, return_index=True, return_inverse=True)
        query, units = rows.queries()
        return cls(rows, is_person, item, first, query, buckets_of(units))

    def join_judge(self, code: int, name: str) -> Judged | None:
        """Return one judge's items; None if it judged none that people labelled."""
        own = (self.rows.reviewer == code) & (self.rows.candidate != code)
        for column in ("score", "rank"):
            value = self.rows.number(column)
            by_judge = self._means(value, own)
            by_person = self._by_person(value)
            there = np.isfinite(by_judge) & np.isfinite(by_person).any(axis=1)
            if not there.any():
                continue
            if column == "rank":
                return self._picks(name, -by_judge, -by_person, own)
            are_binary = is_binary(value[self.is_person[self.rows.reviewer]])
            kind: Kind = "verdicts" if are_binary and is_binary(value[own]) else "marks"
            return self._answers(name, kind, by_judge, by_person, own, are_binary)
        order = self._order(own)
        by_person = self._by_person_order()
        if (np.isfinite(order) & np.isfinite(by_person).any(axis=1)).any():
            return self._picks(name, order, by_person, own)
        return None

    def _means(self, value: Floats, chosen: Bools) -> Floats:
        """Return the mean of each item's chosen known values, over rounds; NaN without one."""
        some = chosen & np.isfinite(value)
        n = np.bincount(self.item[some], minlength=len(self.first))
        total = np.bincount(self.item[some], value[some], minlength=len(self.first))
        return np.where(n > 0, total / np.maximum(n, 1), np.nan)

    def _by_person(self, value: Floats) -> Floats:
        codes = np.unique(self.rows.reviewer[self.is_person[self.rows.reviewer]]).tolist()
        return np.stack([self._means(value, self.rows.reviewer == c) for c in codes], axis=1)

    def _order(self, chosen: Bools) -> Floats:
        """Return what orders the answers, the best largest: ranks, else scores."""
        ranked = self._means(-self.rows.number("rank"), chosen)
        return np.where(np.isfinite(ranked), ranked, self._means(self.rows.number("score"), chosen))

    def _by_person_order(self) -> Floats:
        codes = np.unique(self.rows.reviewer[self.is_person[self.rows.reviewer]]).tolist()
        return np.stack([self._order(self.rows.reviewer == code) for code in codes], axis=1)

    def _answers(
        self,
        name: str,
        kind: Kind,
        by_judge: Floats,
        by_person: Floats,
        own: Bools,
        are_binary: bool,
    ) -> Judged:
        some = np.flatnonzero(np.isfinite(by_judge) | np.isfinite(by_person).any(axis=1))
        if kind == "verdicts":
            by_judge = _majority(by_judge[:, None])
        rows, first = self.rows, self.first[some]
        return Judged(
            judge=name,
            kind=kind,
            session=rows.session_ids[rows.session[first]],
            candidate=rows.candidate[first],
            rival=None,
            group=self.query[rows.session[first]],
            fold=self.fold[self.query[rows.session[first]]],
            by_judge=by_judge[some],
            by_people=(_majority if are_binary else _mean)(by_person[some]),
            by_person=by_person[some],
            words=rows.number("words")[first],
            confidence=self._confidence(own)[some],
            shown_first=np.full(len(some), np.nan),
            reason=self._reasons(own, some),
            answer=None if rows.text is None else rows.text[first],
            names=rows.names,
            are_binary=are_binary,
        )

    def _picks(self, name: str, by_judge: Floats, by_person: Floats, own: Bools) -> Judged | None:
        """Return the pairs of answers that judge and people both ordered."""
        rows = self.rows
        there = np.isfinite(by_judge) & np.isfinite(by_person).any(axis=1)
        items = np.flatnonzero(there)
        session = rows.session[self.first[items]]
        one, other = _pairs(items, session)
        if not len(one):
            return None
        position = self._means(rows.number("position"), own)
        first = self.first[one]
        persons = _better(by_person[one], by_person[other])
        return Judged(
            judge=name,
            kind="picks",
            session=rows.session_ids[rows.session[first]],
            candidate=rows.candidate[first],
            rival=rows.candidate[self.first[other]],
            group=self.query[rows.session[first]],
            fold=self.fold[self.query[rows.session[first]]],
            by_judge=_better(by_judge[one], by_judge[other]),
            by_people=_majority(persons, ties=True),
            by_person=persons,
            words=np.full(len(one), np.nan),
            confidence=np.ones(len(one)),
            shown_first=_better(-position[one], -position[other]),
            reason=self._reasons(own, one),
            answer=None,
            names=rows.names,
            are_binary=False,
        )

    def _confidence(self, own: Bools) -> Floats:
        """Return the judge's confidence in each item, 1 if it gives none."""
        confidence = self._means(self.rows.number("confidence"), own)
        return np.where(np.isfinite(confidence), confidence, 1.0)

    def _reasons(self, own: Bools, items: Ints) -> Texts | None:
        """Return the judge's reason for each of some items, empty without one."""
        if "reason" not in self.rows.keys:
            return None
        code = np.full(len(self.first), -1, dtype=np.int64)
        code[self.item[own]] = self.rows.keys["reason"][own]
        labels = np.append(self.rows.labels["reason"], np.array([""], dtype=object))
        return labels[code[items]]


def join_judges(judges: Sequence[Judged]) -> Judged | None:
    """Return judges that say pass or fail as one: their majority, as sure as it is large.

    Answers that only some of them judged are left out, and ties give no verdict. None for fewer
    than three judges, or if they share no answer.
    """
    if len(judges) < FEWEST_JUDGES:
        return None
    keys = [
        {key: i for i, key in enumerate(zip(one.session, one.candidate, strict=True))}
        for one in judges
    ]
    shared = [key for key in keys[0] if all(key in other for other in keys[1:])]
    if not shared:
        return None
    places = [np.array([own[key] for key in shared]) for own in keys]
    verdicts = np.stack(
        [one.by_judge[some] for one, some in zip(judges, places, strict=True)], axis=1
    )
    first, some = judges[0], places[0]
    share = np.where(np.isfinite(verdicts).all(axis=1), verdicts.mean(axis=1), np.nan)
    return replace(
        first,
        judge=ALL_JUDGES,
        session=first.session[some],
        candidate=first.candidate[some],
        group=first.group[some],
        fold=first.fold[some],
        by_judge=_majority(share[:, None]),
        by_people=first.by_people[some],
        by_person=first.by_person[some],
        words=first.words[some],
        confidence=2.0 * np.abs(np.where(np.isfinite(share), share, 0.5) - 0.5),
        shown_first=first.shown_first[some],
        reason=None,
        answer=None if first.answer is None else first.answer[some],
    )


def _pairs(items: Ints, session: Ints) -> tuple[Ints, Ints]:
    """Return all pairs of items of the same session; sessions are adjacent."""
    starts = np.append(np.flatnonzero(np.diff(session, prepend=-1)), len(items))
    ones, others = [], []
    for start, end in pairwise(starts.tolist()):
        upper = np.triu_indices(end - start, 1)
        ones.append(items[start + upper[0]])
        others.append(items[start + upper[1]])
    empty = np.zeros(0, dtype=np.int64)
    return np.concatenate([empty, *ones]), np.concatenate([empty, *others])


def _better(one: Floats, other: Floats) -> Floats:
    """Return 1 where the first is larger, 0 where the second is, ½ if they are equal."""
    better: Floats = np.where(np.isfinite(one - other), 0.5 + 0.5 * np.sign(one - other), np.nan)
    return better


def _mean(by_person: Floats) -> Floats:
    known = np.isfinite(by_person)
    n = known.sum(axis=1)
    total = np.where(known, by_person, 0.0).sum(axis=1)
    return np.where(n > 0, total / np.maximum(n, 1), np.nan)


def _majority(by_person: Floats, *, ties: bool = False) -> Floats:
    """Return what most people say; a tie is ½ with `ties`, else it gives no label."""
    mean = _mean(by_person)
    label = np.where(mean > 0.5, 1.0, np.where(mean < 0.5, 0.0, 0.5 if ties else np.nan))
    return np.where(np.isfinite(mean), label, np.nan)
