"""Blocks of whole sessions into the model board's sums: what an engine runs where the rows are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from peerage.boards.ballots import (
    ALWAYS_ROOM,
    ROOMY,
    Bools,
    Floats,
    Ints,
    Rows,
    Votes,
    dense,
    votes,
)
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

WEEK_S = 604_800.0
MONDAY_S = 345_600.0  # the first Monday after the epoch, 1970-01-05
HALF = 0.5  # of hybrid: what the share weighs beside the score


@dataclass(frozen=True, slots=True)
class _Block:
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


def sums_of(rows: Rows, plan: Plan) -> Sums:
    """The sums of some whole sessions."""
    model = plan.model_by_name[rows.candidate]
    cell, session, of = _cells(rows, model, plan.n_models)
    n_candidates = np.bincount(session, minlength=rows.n_sessions)
    slice_, mixed = _slices(rows, plan)
    weight, n_unweighted = _weights(rows)
    block = _Block(
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
        n_rows=len(rows.session) if kept.all() else int(kept[rows.session].sum()),
        n_unweighted=int((n_unweighted & kept).sum()),
        odd_sessions=int(((n_candidates == 1) & kept).sum()),
        n_timeless=int((slice_ == -2).sum()),
        mixed=mixed,
        n_twice=_n_twice(block),
    )
    if plan.scores:
        found = replace(found, scores=_score_sums(block))
    if plan.pulls:
        found = replace(found, pulls=_pull_sums(block))
    if plan.pairs:
        wins, ties = _pair_sums(block)
        found = replace(found, wins=wins, ties=ties)
    if plan.logs is not None:
        found = replace(found, surprise=_surprise(block, plan.logs))
    if plan.lengths:
        found = replace(found, lengths=_length_sums(block))
    return found


def _n_twice(block: _Block) -> int:
    """Rows too many: those whose ballot already speaks of their candidate."""
    n, size = block.plan.n_models, block.votes.n_ballots * block.plan.n_models
    key = block.votes.ballot * n + block.model
    if (key[1:] > key[:-1]).all():
        return 0
    if size <= ROOMY * len(key) + ALWAYS_ROOM:
        return len(key) - int(np.count_nonzero(np.bincount(key, minlength=size)))
    ordered = np.sort(key)
    return int(np.count_nonzero(ordered[1:] == ordered[:-1]))


# -- sessions ----------------------------------------------------------------------------------


def _cells(rows: Rows, model: Ints, n_models: int) -> tuple[Ints, Ints, Ints]:
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
    return _slices(rows, plan)[0]


def candidates_by_session(rows: Rows, plan: Plan) -> Ints:
    """How many candidates each session has: the union of its rows."""
    _, session, _ = _cells(rows, plan.model_by_name[rows.candidate], plan.n_models)
    return np.bincount(session, minlength=rows.n_sessions)


def _slices(rows: Rows, plan: Plan) -> tuple[Ints, int]:
    """The slice of each session: −1 outside the window, −2 without a time that is needed."""
    slices = np.zeros(rows.n_sessions, dtype=np.int64)
    mixed = 0
    if plan.by_category:
        category = rows.numbers["category"]
        slices = by_session(rows, category, np.maximum).astype(np.int64)
        mixed = int((by_session(rows, category, np.minimum) != slices).sum())
    if (plan.earliest is None and plan.first_week is None) or "at" not in rows.numbers:
        return slices, mixed
    at = by_session(rows, rows.numbers["at"], np.fmax)
    if plan.first_week is not None:
        week = np.floor((at - MONDAY_S) / WEEK_S) - plan.first_week
        slices = np.where(np.isfinite(week), week, -2.0).astype(np.int64)
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


def _weights(rows: Rows) -> tuple[Floats, Bools]:
    """The item weight of each session, 1 where none were asked for, and which have none."""
    if "item_weight" not in rows.numbers:
        return np.ones(rows.n_sessions), np.zeros(rows.n_sessions, dtype=bool)
    weight = by_session(rows, rows.numbers["item_weight"], np.fmax)
    unknown = ~np.isfinite(weight)
    return np.where(unknown, 0.0, weight), unknown


# -- models ------------------------------------------------------------------------------------


def _model_sums(block: _Block) -> Sums:
    """Every session's means, added up by slice and model, and what their spread needs."""
    plan, cast = block.plan, block.votes
    n_cells = len(block.session)
    pull = _pull(block)
    n_votes = _added(block, cast.counts)
    held_by = n_votes if pull is None else _added(block, pull * cast.counts)
    bottom = np.where(held_by > 0.0, held_by, 1.0)
    share = _added(block, cast.share if pull is None else pull * cast.share) / bottom
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
        place = 1.0 + _added(block, doubled * cast.counts) / 2.0 / bottom
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
        len(block.rows.names),
        _spread(block, columns[SHARE], columns[HELD], inside),
        None
        if ranks_by is None
        else _spread(block, columns[ranks_by[0]], columns[ranks_by[1]], inside),
    )


def _spread(block: _Block, top: Floats, bottom: Floats, inside: Bools) -> Spread:
    if block.plan.clustered:
        return _clusters(block, top, bottom, inside)
    return Spread(products=_products(block, top, bottom, inside))


def _pull(block: _Block) -> Floats | None:
    """What each row's vote weighs within its session, where reviewers do not weigh the same."""
    weights = block.plan.weight_by_name
    return None if weights is None else weights[block.rows.reviewer]


def _added(block: _Block, values: Floats | Bools | Ints) -> Floats:
    return np.bincount(block.cell, weights=values, minlength=len(block.session)).astype(
        np.float64, copy=False
    )


def by_session_any(block: _Block, cells: Bools) -> Ints:
    """The sessions that have any of these cells."""
    return np.flatnonzero(
        np.bincount(block.session[cells], minlength=block.rows.n_sessions)
    ).astype(np.int64)


def _session_scores(block: _Block, pull: Floats | None, n_votes: Floats) -> tuple[Floats, Bools]:
    """The mean score of each cell, and which cells have one."""
    score = block.rows.numbers.get("score")
    if score is None:
        n_cells = len(block.session)
        return np.zeros(n_cells), np.zeros(n_cells, dtype=bool)
    known = block.votes.judged & np.isfinite(score)
    held = np.where(known, score, 0.0)
    if pull is not None:
        n, total = _added(block, pull * known), _added(block, pull * held)
    elif np.array_equal(known, block.votes.counts):
        n, total = n_votes, _added(block, held)
    else:
        n, total = _added(block, known), _added(block, held)
    return total / np.where(n > 0.0, n, 1.0), n > 0.0


def _clusters(block: _Block, top: Floats, bottom: Floats, inside: Bools) -> Spread:
    rows, plan = block.rows, block.plan
    cluster = rows.cluster[block.session].astype(np.int64)
    group = np.where(inside, block.slice_[block.session], 0) * rows.n_clusters + cluster
    group = group * plan.n_models + block.of
    shape = (plan.n_slices, rows.n_clusters, plan.n_models)
    tops, bottoms = grouped(group, np.stack([top, bottom]) * inside, int(np.prod(shape)))
    return Spread(tops.reshape(shape), bottoms.reshape(shape))


def _products(block: _Block, top: Floats, bottom: Floats, inside: Bools) -> Floats:
    """Sums over sessions of products of two models' columns, by slice."""
    n, n_slices = block.plan.n_models, block.plan.n_slices
    size = n_slices * n * n
    kept = np.flatnonzero(inside) if not inside.all() else slice(None)
    session, model = block.session[kept], block.of[kept]
    a, b = top[kept], bottom[kept]
    base = block.slice_[session] * (n * n) if n_slices > 1 else np.zeros(len(model), np.int64)
    out = np.zeros((3, size))
    for apart in range(int(np.bincount(session).max(initial=0))):  # pairs within a session
        one, two = slice(0, len(session) - apart), slice(apart, None)
        same = session[one] == session[two]
        cell = base[one] + model[one] * n + model[two]
        for i, product in enumerate((a[one] * a[two], a[one] * b[two], b[one] * b[two])):
            out[i] += np.bincount(cell, weights=product * same, minlength=size)
        if apart:
            mixed = b[one] * a[two] * same
            out[1] += np.bincount(
                base[one] + model[two] * n + model[one], weights=mixed, minlength=size
            )
    out = out.reshape(3, n_slices, n, n)
    for i in (0, 2):  # met once above the diagonal: the rest mirrors it
        diagonal = np.einsum("sii->si", out[i]).copy()
        out[i] += out[i].transpose(0, 2, 1)
        np.einsum("sii->si", out[i])[:] = diagonal
    return np.ascontiguousarray(out.transpose(1, 0, 2, 3))


# -- reviewers, pairs, lengths -----------------------------------------------------------------


def _reviewer_key(block: _Block, inside: Bools) -> Ints:
    """The key of each row's slice, reviewer and model."""
    rows, plan = block.rows, block.plan
    base: Ints = rows.reviewer.astype(np.int64) * plan.n_models + block.model
    if plan.n_slices > 1:
        slices = np.where(inside, block.slice_[rows.session], 0)
        base += slices * (len(rows.names) * plan.n_models)
    return base


def _pull_sums(block: _Block) -> Cells:
    """By reviewer and model: votes, shares, and pulls on the sessions' means."""
    cast = block.votes
    inside = block.slice_[block.rows.session] >= 0
    counts = cast.counts & inside
    heavy = _pull(block)
    bulk = counts.astype(np.float64) if heavy is None else heavy * counts
    total = _added(block, bulk)
    some = np.where(total > 0.0, total, 1.0)
    mean = _added(block, bulk * cast.share) / some
    weight = block.weight[block.rows.session]
    pull = weight * bulk * (cast.share - mean[block.cell]) / some[block.cell]
    columns = np.stack([counts.astype(np.float64), cast.share * counts, pull])
    return _sparse(_reviewer_key(block, inside), columns)


def _score_sums(block: _Block) -> Cells:
    """By reviewer and model: scores and their squares, and scores as sessions weigh them."""
    rows = block.rows
    score = rows.numbers["score"]
    inside = block.slice_[rows.session] >= 0
    known = block.votes.judged & inside & np.isfinite(score)
    key = _reviewer_key(block, inside)
    if not known.all():
        kept = np.flatnonzero(known)
        key, score = key[kept], score[kept]
    heavy = _pull(block)
    bulk = known.astype(np.float64) if heavy is None else heavy * known
    n = _added(block, bulk)
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


def _matches(block: _Block) -> Iterator[tuple[Ints, Ints, Bools]]:
    """Pairs of rows on one ballot: the upper ones, the lower ones, and which are no ties."""
    cast = block.votes
    kept = np.flatnonzero(cast.counts & (block.slice_[block.rows.session] >= 0))
    order = kept[np.lexsort((cast.doubled[kept], cast.ballot[kept]))]
    ballot, place = cast.ballot[order], cast.doubled[order]
    for apart in range(1, len(order)):
        same = np.flatnonzero(ballot[apart:] == ballot[:-apart])
        if len(same) == 0:
            return
        yield order[same], order[same + apart], place[same] < place[same + apart]


def _pair_sums(block: _Block) -> tuple[Floats, Floats]:
    """Ballots that place one model above another, and ballots that tie them."""
    n, n_slices = block.plan.n_models, block.plan.n_slices
    slices = block.slice_[block.rows.session]
    size = n_slices * n * n
    wins, ties = np.zeros(size), np.zeros(size)
    for above, below, apart in _matches(block):
        cell = (slices[above] * n + block.model[above]) * n + block.model[below]
        wins += np.bincount(cell[apart], minlength=size)
        ties += np.bincount(cell[~apart], minlength=size)
    shape = (n_slices, n, n)
    tied = ties.reshape(shape)
    return wins.reshape(shape), tied + tied.transpose(0, 2, 1)


def _surprise(block: _Block, logs: Floats) -> Floats:
    """By cluster and model: points won head to head, less what the strengths expect."""
    rows, n = block.rows, block.plan.n_models
    cluster = rows.cluster[rows.session].astype(np.int64)
    total = np.zeros(rows.n_clusters * n)
    for above, below, apart in _matches(block):
        chance = 1.0 / (1.0 + np.exp(logs[block.model[below]] - logs[block.model[above]]))
        gain = np.where(apart, 1.0, 0.5) - chance
        for who, points in ((above, gain), (below, -gain)):
            cell = cluster[who] * n + block.model[who]
            total += np.bincount(cell, weights=points, minlength=len(total))
    return total.reshape(rows.n_clusters, n)


def _length_sums(block: _Block) -> Floats:
    """By model: shares and how long the answer was beside its rivals on the ballot."""
    rows, plan, cast = block.rows, block.plan, block.votes
    words = rows.numbers["words"]
    known = cast.counts & np.isfinite(words) & (block.slice_[rows.session] >= 0)
    long = np.log1p(np.where(known, words, 0.0))
    n = np.bincount(cast.ballot, weights=known, minlength=cast.n_ballots)
    total = np.bincount(cast.ballot, weights=long * known, minlength=cast.n_ballots)
    gap = np.where(known, long - (total / np.maximum(n, 1.0))[cast.ballot], 0.0)
    y = np.where(known, cast.share, 0.0)
    group = np.where(known, block.slice_[rows.session], 0) * plan.n_models + block.model
    columns = np.stack([known.astype(np.float64), y, gap, gap * gap, gap * y])
    sums = grouped(group, columns, plan.n_slices * plan.n_models)
    return sums.T.reshape(plan.n_slices, plan.n_models, len(columns))
