"""A block of whole sessions made ready: votes, cells, and which slice each session is in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from peerage.boards.model_sums import Plan
from peerage.reviews.rows import ROOMY, Bools, Floats, Ints, Rows
from peerage.reviews.votes import ALWAYS_ROOM, Votes


@dataclass(frozen=True, slots=True)
class Block:
    """Votes and the cells (session, model) that they fall into."""

    rows: Rows
    plan: Plan
    model: Ints
    votes: Votes
    cell: Ints  # by row
    session: Ints  # by cell
    of: Ints  # the model, by cell
    n_candidates: Ints  # by session
    slice_: Ints  # by session, negative where it is not in the window
    weight: Floats  # by session


def pull_of(block: Block) -> Floats | None:
    """What each row's vote weighs within its session, where reviewers do not weigh the same."""
    weights = block.plan.weight_by_name
    return None if weights is None else weights[block.rows.reviewer]


def added(block: Block, values: Floats | Bools | Ints) -> Floats:
    return np.bincount(block.cell, weights=values, minlength=len(block.session)).astype(
        np.float64, copy=False
    )


def cells_of(rows: Rows, model: Ints, n_models: int) -> tuple[Ints, Ints, Ints]:
    """The cell of each row, and the session and model of each cell that has a row."""
    key = rows.session.astype(np.int64) * n_models
    key += model
    size = rows.n_sessions * n_models
    if size > ROOMY * len(key) + ALWAYS_ROOM:
        held, code = np.unique(key, return_inverse=True)
        return code.astype(np.int64), held // n_models, held % n_models
    present = np.bincount(key, minlength=size) > 0
    held = np.flatnonzero(present)
    if len(held) == size:
        return key, held // n_models, held % n_models
    return (np.cumsum(present) - 1)[key], held // n_models, held % n_models


def slices_of(plan: Plan, rows: Rows) -> Ints:
    """The slice of each session, negative where it is not on the board."""
    return slices_and_mixed(rows, plan)[0]


def candidates_by_session(rows: Rows, plan: Plan) -> Ints:
    """How many candidates each session has: the union of its rows."""
    _, session, _ = cells_of(rows, plan.model_by_name[rows.candidate], plan.n_models)
    return np.bincount(session, minlength=rows.n_sessions)


def slices_and_mixed(rows: Rows, plan: Plan) -> tuple[Ints, int]:
    """The slice of each session: −1 outside the window, −2 without a time that is needed."""
    slices = np.zeros(rows.n_sessions, dtype=np.int64)
    mixed = 0
    if plan.by_category:
        category = rows.numbers["category"]
        slices = by_session(rows, category, np.maximum).astype(np.int64)
        mixed = int((by_session(rows, category, np.minimum) != slices).sum())
    if (plan.earliest is None and plan.periods is None) or "at" not in rows.numbers:
        return slices, mixed
    at = by_session(rows, rows.numbers["at"], np.fmax)
    if plan.periods is not None:
        start, width = plan.periods
        period = np.floor((at - start) / width)
        slices = np.where(np.isfinite(period), period, -2.0).astype(np.int64)
    if plan.earliest is not None:
        slices[at < plan.earliest] = -1
    return slices, mixed


def by_session(rows: Rows, values: Floats, pick: np.ufunc) -> Floats:
    """One value for each session: the largest, say, of its rows'."""
    session = rows.session
    if (np.diff(session) < 0).any():
        order = np.argsort(session, kind="stable")
        session, values = session[order], values[order]
    starts = np.flatnonzero(np.append(True, np.diff(session) > 0)) if len(session) else session
    found = np.full(rows.n_sessions, np.nan)
    if len(session):
        found[session[starts]] = pick.reduceat(values, starts)
    return found


def item_weights(rows: Rows) -> tuple[Floats, Bools]:
    """The item weight of each session, 1 where none were asked for, and which have none."""
    if "item_weight" not in rows.numbers:
        return np.ones(rows.n_sessions), np.zeros(rows.n_sessions, dtype=bool)
    weight = by_session(rows, rows.numbers["item_weight"], np.fmax)
    unknown = ~np.isfinite(weight)
    return np.where(unknown, 0.0, weight), unknown
