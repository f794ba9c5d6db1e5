"""Sums over pairs: of models on one ballot, of models in one session, of shares and lengths."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from peerage.boards.model_sums import grouped
from peerage.boards.session_blocks import Block
from peerage.reviews.rows import Bools, Floats, Ints


def products(block: Block, top: Floats, bottom: Floats, inside: Bools) -> Floats:
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
    tables: Floats = out.reshape(3, n_slices, n, n)
    for one in (tables[0], tables[2]):  # each pair was met once: the other half mirrors it
        diagonal = one[:, range(n), range(n)]
        one += one.transpose(0, 2, 1).copy()
        one[:, range(n), range(n)] = diagonal
    return np.ascontiguousarray(tables.transpose(1, 0, 2, 3))


def _matches(block: Block) -> Iterator[tuple[Ints, Ints, Bools]]:
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


def pair_sums(block: Block) -> tuple[Floats, Floats]:
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


def surprise(block: Block, logs: Floats) -> Floats:
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


def length_sums(block: Block) -> Floats:
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
