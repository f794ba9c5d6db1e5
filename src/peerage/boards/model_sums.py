"""The model board's plain sums over blocks of whole sessions: all that leaves an engine.

Each session counts once: a candidate's value in it is the mean over the ballots that vote
for it, and only those means are added up. Nothing here divides by a number of sessions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from peerage.reviews.rows import Floats, Ints
from peerage.types import OwnVotes

# Columns of `Sums.by_model`.
APPEARED, VOTES, WINS, HELD, SHARE, BORDA, SCORED, SCORE, PLACE, BLEND, SESSIONS = range(11)
N_COLUMNS = 11
RANKED_BY = {"mean_rank": (PLACE, HELD), "hybrid": (BLEND, SCORED)}  # beside the share
# Columns of `Sums.pulls`: votes, their shares, and pulls on session means.
R_VOTES, R_SHARE, R_PULL = range(3)
# Columns of `Sums.scores`: n, sum, sum of squares; then weights within sessions, and weighted.
R_N, R_SUM, R_SQUARE, R_WEIGHT, R_SCORE = range(5)
# Columns of `Sums.lengths`: rows, share, log words against the ballot's, its square, product.
L_N, L_SHARE, L_LONG, L_SQUARE, L_PRODUCT = range(5)


@dataclass(frozen=True, slots=True)
class Plan:
    """What to add up, and under which law; slices are categories, weeks, or one for all."""

    n_models: int
    model_by_name: Ints  # the place of each name among the models, -1 for those who are none
    own_votes: OwnVotes = "out"
    rule: str = "borda"
    n_slices: int = 1
    by_category: bool = False
    periods: tuple[float, float] | None = None  # where slices are times: the start and the width
    earliest: float | None = None
    clustered: bool = True  # sums by cluster; else products over sessions
    scores: bool = False  # by reviewer and model, for the calibrated view
    pulls: bool = False  # by reviewer and model, for the spread of reviewers
    places: bool = False  # mean places beside shares
    pairs: bool = False
    lengths: bool = False
    weight_by_name: Floats | None = None  # of reviewers
    logs: Floats | None = None  # log strengths, to add up how each cluster surprises them


@dataclass(frozen=True, slots=True)
class Cells:
    """Sparse rows of sums: one for each key that has any."""

    key: Ints
    sums: Floats


@dataclass(frozen=True, slots=True)
class Spread:
    """What the spread of a mean over sessions needs: the sums `top / bottom` is made of.

    With clusters, slices × clusters × models; without, `products` holds the sums over
    sessions of top × top, top × bottom and bottom × bottom for each pair of models.
    """

    tops: Floats | None = None
    bottoms: Floats | None = None
    products: Floats | None = None  # slices × 3 × models × models


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums by slice. `share` spreads the Borda share, `value` what another rule ranks by."""

    by_model: Floats  # slices × models × columns
    n_sessions: Ints  # by slice, those with a vote
    n_rows: Ints  # by slice
    n_odd: Ints  # by slice, sessions with one candidate only
    n_names: int
    share: Spread
    value: Spread | None = None
    pulls: Cells | None = None  # key: (slice · names + reviewer) · models + model
    scores: Cells | None = None  # the same key
    wins: Floats | None = None  # slices × models × models: ballots with row above column
    ties: Floats | None = None
    lengths: Floats | None = None  # slices × models × columns
    surprise: Floats | None = None  # clusters × models: points less those expected
    n_unweighted: int = 0  # sessions that no item weight was given for
    n_timeless: int = 0  # sessions without a time where weeks were asked for
    mixed: int = 0  # sessions whose rows name several categories
    n_twice: int = 0  # rows that repeat a reviewer's word on one answer in one round


def grouped(group: Ints, columns: Floats, size: int) -> Floats:
    """Columns added up by group."""
    return np.stack([np.bincount(group, weights=one, minlength=size) for one in columns])


# -- adding up ---------------------------------------------------------------------------------


def add(parts: Sequence[Sums]) -> Sums:
    """The sums of all blocks."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]

    def each(name: str) -> Floats | None:
        return _total([getattr(part, name) for part in parts])

    def count(name: str) -> Any:
        return sum(getattr(part, name) for part in parts)

    by_model = each("by_model")
    assert by_model is not None  # noqa: S101 — every block has it
    values = [part.value for part in parts if part.value is not None]
    return Sums(
        by_model,
        count("n_sessions"),
        count("n_rows"),
        count("n_odd"),
        first.n_names,
        _spreads([part.share for part in parts]),
        _spreads(values) if values else None,
        _merged([part.pulls for part in parts]),
        _merged([part.scores for part in parts]),
        each("wins"),
        each("ties"),
        each("lengths"),
        each("surprise"),
        count("n_unweighted"),
        count("n_timeless"),
        count("mixed"),
        count("n_twice"),
    )


def _spreads(parts: Sequence[Spread]) -> Spread:
    return Spread(
        *(_total([getattr(part, name) for part in parts]) for name in Spread.__dataclass_fields__)
    )


def _total(parts: Sequence[Floats | None]) -> Floats | None:
    held = [part for part in parts if part is not None]
    if not held:
        return None
    total = held[0].copy()
    for part in held[1:]:
        total += part
    return total


def _merged(parts: Sequence[Cells | None]) -> Cells | None:
    held = [part for part in parts if part is not None]
    if not held:
        return None
    return summed(
        np.concatenate([part.key for part in held]), np.concatenate([part.sums for part in held])
    )


def summed(key: Ints, sums: Floats) -> Cells:
    kept, code = np.unique(key, return_inverse=True)
    return Cells(kept, grouped(code, sums.T, len(kept)).T.reshape(len(kept), sums.shape[1]))


def one_slice(sums: Sums, at: int | slice | None) -> Sums:
    """One slice alone, or several or (None) all of them together, as a table of one slice."""
    pick = at if isinstance(at, slice) else slice(at, None if at is None else at + 1)

    def part(values: Floats | None) -> Floats | None:
        return None if values is None else values[pick].sum(axis=0, keepdims=True)

    def spread(whole: Spread) -> Spread:
        return Spread(part(whole.tops), part(whole.bottoms), part(whole.products))

    return replace(
        sums,
        by_model=sums.by_model[pick].sum(axis=0, keepdims=True),
        n_sessions=sums.n_sessions[pick].sum(keepdims=True),
        n_rows=sums.n_rows[pick].sum(keepdims=True),
        n_odd=sums.n_odd[pick].sum(keepdims=True),
        share=spread(sums.share),
        value=None if sums.value is None else spread(sums.value),
        pulls=_sliced(sums.pulls, pick, sums),
        scores=_sliced(sums.scores, pick, sums),
        wins=part(sums.wins),
        ties=part(sums.ties),
        lengths=part(sums.lengths),
    )


def _sliced(cells: Cells | None, pick: slice, sums: Sums) -> Cells | None:
    """The cells whose key lies in these slices; keys lose their slice."""
    if cells is None:
        return None
    n_slices, n_models, _ = sums.by_model.shape
    at, key = np.divmod(cells.key, sums.n_names * n_models)
    start, stop, _ = pick.indices(n_slices)
    here = (at >= start) & (at < stop)
    return summed(key[here], cells.sums[here])
