"""Shares of rivals beaten by query, model and reviewer, used to compare judges.

A row is a model on a query (all sessions that ask it); a column is a reviewer. The value is the
mean over the reviewer's ballots on that query; NaN means that the reviewer did not judge it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from peerage.reviews.cells import Bools, Floats, Ints, dense
from peerage.reviews.rows import Rows, buckets_of
from peerage.reviews.votes import votes
from peerage.stats.clusters import quotient
from peerage.types import OwnVotes


@dataclass(frozen=True, slots=True)
class JudgeShares:
    """Mean shares of models on queries (rows) by reviewers (columns); NaN if there is none."""

    reviewers: tuple[str, ...]
    models: tuple[str, ...]
    units: tuple[str, ...]  # queries
    unit: Ints  # of each row; the rows of a query are adjacent
    model: Ints  # of each row
    share: Floats  # rows by reviewers
    n_sessions: int = 0

    @property
    def folds(self) -> Ints:
        """Return a fixed pseudo-random number for each query, so that all tables split alike."""
        return buckets_of(self.units)

    def columns(self, names: Collection[str]) -> Floats:
        """Return the shares of some reviewers, in the order of their columns."""
        return self.share[:, [name in names for name in self.reviewers]]

    def only(self, keep: Bools) -> JudgeShares:
        """Return some of the rows, keeping the queries and models."""
        some = np.flatnonzero(keep)
        return replace(
            self,
            unit=self.unit[some],
            model=self.model[some],
            share=self.share[some],
        )


def judge_shares(rows: Rows, own_votes: OwnVotes = "out") -> JudgeShares:
    """Return the shares that each reviewer gave to each model on each query."""
    nobody = np.zeros(rows.n_sessions, dtype=np.int64)
    vote = votes(rows, own_votes, nobody)
    counted = np.flatnonzero(vote.counts)
    unit_by_session, units = rows.queries()
    reviewer, candidate = rows.reviewer[counted], rows.candidate[counted]
    seen, column = _codes(reviewer)
    places, model = _codes(candidate)
    pair = unit_by_session[rows.session[counted]] * max(len(places), 1) + model
    row_keys, row = _codes(pair)
    n_rows, n_columns = len(row_keys), len(seen)
    cell = row * n_columns + column
    n = np.bincount(cell, minlength=n_rows * n_columns)
    total = np.bincount(cell, weights=vote.share[counted], minlength=n_rows * n_columns)
    share = quotient(total, n).reshape(n_rows, n_columns)
    return JudgeShares(
        tuple(rows.names[code] for code in seen.tolist()),
        tuple(rows.names[code] for code in places.tolist()),
        units,
        row_keys // max(len(places), 1),
        row_keys % max(len(places), 1),
        share,
        rows.n_sessions,
    )


def _codes(keys: Ints) -> tuple[Ints, Ints]:
    """Return the distinct keys, ascending, and the index of each key among them."""
    code, n = dense(keys)
    there = np.zeros(n, dtype=np.int64)
    there[code] = keys
    return there, code


def row_means(share: Floats) -> Floats:
    """Return the mean of each row over the reviewers with a share there; NaN if there is none."""
    known = np.isfinite(share)
    n = known.sum(axis=1)
    total = np.where(known, share, 0.0).sum(axis=1)
    return quotient(total, n)


def gather_proxies(share: Floats, most: int) -> tuple[Floats, Sequence[int]]:
    """Return the busiest reviewers as single columns, and the mean of all others as one.

    Also return the indices of the reviewers with a column of their own.
    """
    if share.shape[1] <= most:
        return share, range(share.shape[1])
    n = np.isfinite(share).sum(axis=0)
    busiest = np.sort(np.argsort(-n, kind="stable")[: most - 1])
    others = np.delete(share, busiest, axis=1)
    return np.column_stack([share[:, busiest], row_means(others)]), busiest.tolist()
