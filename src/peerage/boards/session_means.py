"""Blocks of whole sessions into the model board's sums: what an engine runs where the rows are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from peerage.boards.model_sums import (
    APPEARED,
    BLEND,
    BORDA,
    HELD,
    N_COLUMNS,
    PLACE,
    RANKED_BY,
    SCORE,
    SCORED,
    SESSIONS,
    SHARE,
    VOTES,
    WINS,
    Cells,
    Plan,
    Spread,
    Sums,
    grouped,
)
from peerage.boards.session_blocks import (
    Block,
    added,
    cells_of,
    item_weights,
    pull_of,
    slices_and_mixed,
)
from peerage.boards.session_pairs import length_sums, pair_sums, products, surprise
from peerage.reviews.rows import ROOMY, Bools, Floats, Ints, Rows
from peerage.reviews.votes import ALWAYS_ROOM, votes

HALF = 0.5  # of hybrid: what the share weighs beside the score


def sums_of(rows: Rows, plan: Plan) -> Sums:
    """The sums of some whole sessions."""
    model = plan.model_by_name[rows.candidate]
    cell, session, of = cells_of(rows, model, plan.n_models)
    n_candidates = np.bincount(session, minlength=rows.n_sessions)
    slice_, mixed = slices_and_mixed(rows, plan)
    weight, n_unweighted = item_weights(rows)
    block = Block(
        rows,
        plan,
        model,
        votes(rows, plan.own_votes, n_candidates),
        cell,
        session,
        of,
        n_candidates,
        slice_,
        weight,
    )
    kept = slice_ >= 0
    found = _model_sums(block)
    found = replace(
        found,
        n_unweighted=int((n_unweighted & kept).sum()),
        n_timeless=int((slice_ == -2).sum()),
        mixed=mixed,
        n_twice=_n_twice(block),
    )
    if plan.scores:
        found = replace(found, scores=_score_sums(block))
    if plan.pulls:
        found = replace(found, pulls=_pull_sums(block))
    if plan.pairs:
        wins, ties = pair_sums(block)
        found = replace(found, wins=wins, ties=ties)
    if plan.logs is not None:
        found = replace(found, surprise=surprise(block, plan.logs))
    if plan.lengths:
        found = replace(found, lengths=length_sums(block))
    return found


def _n_twice(block: Block) -> int:
    """Rows too many: those whose ballot already speaks of their candidate."""
    n, size = block.plan.n_models, block.votes.n_ballots * block.plan.n_models
    key = block.votes.ballot * n + block.model
    if (key[1:] > key[:-1]).all():
        return 0
    if size <= ROOMY * len(key) + ALWAYS_ROOM:
        return len(key) - int(np.count_nonzero(np.bincount(key, minlength=size)))
    ordered = np.sort(key)
    return int(np.count_nonzero(ordered[1:] == ordered[:-1]))


# -- models ------------------------------------------------------------------------------------


def _model_sums(block: Block) -> Sums:
    """Every session's means, added up by slice and model, and what their spread needs."""
    plan, cast = block.plan, block.votes
    n_cells = len(block.session)
    pull = pull_of(block)
    n_votes = added(block, cast.counts)
    held_by = n_votes if pull is None else added(block, pull * cast.counts)
    bottom = np.where(held_by > 0.0, held_by, 1.0)
    share = added(block, cast.share if pull is None else pull * cast.share) / bottom
    inside = block.slice_[block.session] >= 0
    weight = np.where(inside & (held_by > 0.0), block.weight[block.session], 0.0)
    columns = np.zeros((N_COLUMNS, n_cells))
    columns[APPEARED] = inside
    columns[VOTES] = n_votes
    columns[SESSIONS] = weight > 0.0
    columns[WINS] = np.bincount(block.cell[np.flatnonzero(cast.wins)], minlength=n_cells)
    columns[HELD] = weight
    columns[SHARE] = weight * share
    columns[BORDA] = columns[SHARE] * (block.n_candidates[block.session] - 1.0)
    score, has_score = _session_scores(block, pull, n_votes)
    columns[SCORED] = np.where(has_score, weight, 0.0)
    columns[SCORE] = columns[SCORED] * score
    if plan.places:
        doubled = cast.doubled if pull is None else pull * cast.doubled
        place = 1.0 + added(block, doubled * cast.counts) / 2.0 / bottom
        columns[PLACE] = weight * place
    blend = HALF * share + (1.0 - HALF) * (score - 1.0) / 9.0
    columns[BLEND] = columns[SCORED] * blend
    group = np.where(inside, block.slice_[block.session], 0) * plan.n_models + block.of
    by_model = grouped(group, columns * inside, plan.n_slices * plan.n_models)
    voted = by_session_any(block, (columns[HELD] > 0.0) & inside)
    ranks_by = RANKED_BY.get(plan.rule)
    return Sums(
        by_model.T.reshape(plan.n_slices, plan.n_models, N_COLUMNS),
        np.bincount(block.slice_[voted], minlength=plan.n_slices),
        *_counts(block),
        len(block.rows.names),
        _spread(block, columns[SHARE], columns[HELD], inside),
        None
        if ranks_by is None
        else _spread(block, columns[ranks_by[0]], columns[ranks_by[1]], inside),
    )


def _counts(block: Block) -> tuple[Ints, Ints]:
    """By slice: rows, and sessions with one candidate only."""
    n, slices = block.plan.n_slices, block.slice_
    if n == 1 and (slices == 0).all():
        return np.array([len(block.rows.session)]), np.array([(block.n_candidates == 1).sum()])
    rows, odd = slices[block.rows.session], slices[block.n_candidates == 1]
    return np.bincount(rows[rows >= 0], minlength=n), np.bincount(odd[odd >= 0], minlength=n)


def _spread(block: Block, top: Floats, bottom: Floats, inside: Bools) -> Spread:
    if block.plan.clustered:
        return _clusters(block, top, bottom, inside)
    return Spread(products=products(block, top, bottom, inside))


def by_session_any(block: Block, cells: Bools) -> Ints:
    """The sessions that have any of these cells."""
    return np.flatnonzero(
        np.bincount(block.session[cells], minlength=block.rows.n_sessions)
    ).astype(np.int64)


def _session_scores(block: Block, pull: Floats | None, n_votes: Floats) -> tuple[Floats, Bools]:
    """The mean score of each cell, and which cells have one."""
    score = block.rows.numbers.get("score")
    if score is None:
        n_cells = len(block.session)
        return np.zeros(n_cells), np.zeros(n_cells, dtype=bool)
    known = block.votes.judged & np.isfinite(score)
    held = np.where(known, score, 0.0)
    if pull is not None:
        n, total = added(block, pull * known), added(block, pull * held)
    elif np.array_equal(known, block.votes.counts):
        n, total = n_votes, added(block, held)
    else:
        n, total = added(block, known), added(block, held)
    return total / np.where(n > 0.0, n, 1.0), n > 0.0


def _clusters(block: Block, top: Floats, bottom: Floats, inside: Bools) -> Spread:
    rows, plan = block.rows, block.plan
    cluster = rows.cluster[block.session].astype(np.int64)
    group = np.where(inside, block.slice_[block.session], 0) * rows.n_clusters + cluster
    group = group * plan.n_models + block.of
    shape = (plan.n_slices, rows.n_clusters, plan.n_models)
    tops, bottoms = grouped(group, np.stack([top, bottom]) * inside, int(np.prod(shape)))
    return Spread(tops.reshape(shape), bottoms.reshape(shape))


# -- reviewers ---------------------------------------------------------------------------------


def _reviewer_key(block: Block, inside: Bools) -> Ints:
    """The key of each row's slice, reviewer and model."""
    rows, plan = block.rows, block.plan
    base: Ints = rows.reviewer.astype(np.int64) * plan.n_models + block.model
    if plan.n_slices > 1:
        slices = np.where(inside, block.slice_[rows.session], 0)
        base += slices * (len(rows.names) * plan.n_models)
    return base


def _pull_sums(block: Block) -> Cells:
    """By reviewer and model: votes, shares, and pulls on the sessions' means."""
    cast = block.votes
    inside = block.slice_[block.rows.session] >= 0
    counts = cast.counts & inside
    heavy = pull_of(block)
    bulk = counts.astype(np.float64) if heavy is None else heavy * counts
    total = added(block, bulk)
    some = np.where(total > 0.0, total, 1.0)
    mean = added(block, bulk * cast.share) / some
    weight = block.weight[block.rows.session]
    pull = weight * bulk * (cast.share - mean[block.cell]) / some[block.cell]
    columns = np.stack([counts.astype(np.float64), cast.share * counts, pull])
    return _sparse(_reviewer_key(block, inside), columns)


def _score_sums(block: Block) -> Cells:
    """By reviewer and model: scores and their squares, and scores as sessions weigh them."""
    rows = block.rows
    score = rows.numbers["score"]
    inside = block.slice_[rows.session] >= 0
    known = block.votes.judged & inside & np.isfinite(score)
    key = _reviewer_key(block, inside)
    if not known.all():
        kept = np.flatnonzero(known)
        key, score = key[kept], score[kept]
    heavy = pull_of(block)
    bulk = known.astype(np.float64) if heavy is None else heavy * known
    n = added(block, bulk)
    held = n[n > 0.0]
    plain = heavy is None and bool((block.weight == 1.0).all())
    if plain and len(held) and (held == held[0]).all():  # every answer has as many scores
        sums = _sparse(key, np.stack([np.ones(len(key)), score, score * score]))
        within = sums.sums[:, :2] / held[0]
        return Cells(sums.key, np.hstack([sums.sums, within]))
    part = block.weight[rows.session] * bulk / np.where(n > 0.0, n, 1.0)[block.cell]
    part = part if known.all() else part[kept]
    return _sparse(key, np.stack([np.ones(len(key)), score, score * score, part, part * score]))


def _sparse(key: Ints, columns: Floats) -> Cells:
    """Columns of rows added up by key."""
    if len(key) == 0:
        return Cells(key.astype(np.int64), np.zeros((0, len(columns))))
    size = int(key.max()) + 1
    if size <= ROOMY * len(key) + ALWAYS_ROOM:
        kept = np.flatnonzero(np.bincount(key, minlength=size))
        return Cells(kept.astype(np.int64), grouped(key, columns, size).T[kept])
    kept, code = np.unique(key, return_inverse=True)
    return Cells(kept.astype(np.int64), grouped(code, columns, len(kept)).T)
