"""Where only ranks exist, the share of rivals beaten stands in for a score."""

from __future__ import annotations

import numpy as np

from peerage.audit.rows import Bools, Floats, Ints, Rows, group


def shares(rows: Rows) -> Floats:
    """The share of its rivals that each ranked answer beat on its ballot; NaN where it has none.

    The reviewer's own answer is no rival on its ballot: the others' shares do not depend
    on where it put itself. Its own share counts the others as rivals.
    """
    rank = rows.numbers["rank"]
    codes: list[tuple[Ints, int]] = [
        (rows.session, rows.n_sessions),
        (rows.reviewer, len(rows.names)),
    ]
    if "round" in rows.numbers:
        values, code = np.unique(rows.numbers["round"], return_inverse=True)
        codes.append((code, len(values)))
    ballot = group(*codes).code
    own: Bools = rows.reviewer == rows.candidate
    if not own.any():
        return _shares(ballot, rank)
    out = np.full(rows.n, np.nan)
    out[~own] = _shares(ballot[~own], rank[~own])
    out[own] = _shares(ballot, rank)[own]
    return out


def _shares(ballot: Ints, rank: Floats) -> Floats:
    """(n − 1 − place) / (n − 1) for n answers on the ballot; ties share their mean place."""
    n_by_ballot = np.bincount(ballot)
    place = np.full(len(rank), np.nan)
    known = np.flatnonzero(np.isfinite(rank))
    order = known[np.lexsort((rank[known], ballot[known]))]
    if len(order):
        sorted_ballot, sorted_rank = ballot[order], rank[order]
        new_ballot = np.r_[True, np.diff(sorted_ballot) != 0]
        new_tier = new_ballot | np.r_[True, np.diff(sorted_rank) != 0]
        at = np.arange(len(order))
        start = np.maximum.accumulate(np.where(new_ballot, at, 0))
        tier = np.cumsum(new_tier) - 1
        size = np.bincount(tier)[tier]
        first = np.maximum.accumulate(np.where(new_tier, at, 0))
        place[order] = first - start + (size - 1) / 2.0
    rivals = n_by_ballot[ballot] - 1.0
    out: Floats = np.where(rivals > 0, (rivals - place) / np.maximum(rivals, 1.0), np.nan)
    return out
