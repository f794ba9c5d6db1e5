"""Rows from plain columns in memory, with no engine: for a store's few sessions, and for trials."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peerage.biases.many_sessions import AuditPlan, compared_over, measure_audit, sums_of
from peerage.findings import Audit, AuditLimits
from peerage.reviews.comparisons import length_limits, with_lengths
from peerage.reviews.rows import N_CLUSTERS, N_PANEL, Rows, clusters_among, unit_of

NUMBERS = (
    "rank",
    "score",
    "position",
    "words",
    "round",
    "at",
    "reasoning_words",
    "correct",
    "person",
)


def rows_of(columns: Mapping[str, ArrayLike]) -> Rows:
    """The columns of a `reviews` table as rows; values are taken as they are, unchecked."""
    sessions, session = _codes(columns["session_id"])
    reviewers, candidates = (np.asarray(columns[c]).astype(str) for c in ("reviewer", "candidate"))
    names, code = np.unique(np.concatenate([reviewers, candidates]), return_inverse=True)
    reviewer, candidate = code[: len(reviewers)], code[len(reviewers) :]
    queries = np.full(len(sessions), None, dtype=object)
    if "query_id" in columns:
        queries[session] = np.asarray(columns["query_id"], dtype=object)
    units = [unit_of(name, query) for name, query in zip(sessions, queries, strict=True)]
    distinct = tuple(sorted(set(units)))
    shared = distinct if len(distinct) <= N_CLUSTERS else None
    cluster = clusters_among(units, shared)
    n_clusters = N_CLUSTERS if shared is None else len(shared)
    n_reviews = np.bincount(reviewer, minlength=len(names))
    most = np.lexsort((np.arange(len(names)), -n_reviews))[:N_PANEL]
    marks = [name for name in columns if name.startswith("mark_")]
    numbers = {
        name: np.asarray(columns[name], dtype=np.float64)
        for name in (*NUMBERS, "place", *marks)
        if name in columns
    }
    text = np.asarray(columns["text"], dtype=object) if "text" in columns else None
    return Rows(
        names=tuple(names.tolist()),
        n_clusters=n_clusters,
        cluster=cluster,
        session=session,
        reviewer=reviewer,
        candidate=candidate,
        numbers=numbers,
        keys={name: _codes(columns[name])[1] for name in ("query_id", "deal") if name in columns},
        text=text,
        family=_families(columns, candidate, len(names)) if "family" in columns else None,
        panel=np.sort(most[n_reviews[most] > 0]),
        session_ids=np.array(sessions, dtype=object),
        unit=np.array(units, dtype=object),
    )


def _codes(values: ArrayLike) -> tuple[list[str], NDArray[np.int64]]:
    """The texts of a column in order of appearance, and each row's place among them."""
    texts = np.asarray(values).astype(str)
    kept, first, code = np.unique(texts, return_index=True, return_inverse=True)
    place = np.empty(len(kept), dtype=np.int64)
    order = np.argsort(first)
    place[order] = np.arange(len(kept))
    return kept[order].tolist(), place[code]


def _families(
    columns: Mapping[str, ArrayLike], candidate: NDArray[np.intp], n_names: int
) -> NDArray[np.int64]:
    family = np.full(n_names, -1, dtype=np.int64)
    family[candidate] = _codes(columns["family"])[1]
    return family


def limited(rows: Rows) -> Rows:
    """The rows with each candidate's extreme lengths drawn in, where they have lengths."""
    words = rows.numbers.get("words")
    if words is None:
        return rows
    limits = length_limits(rows.candidate, words, np.ones(rows.n), len(rows.names))
    return with_lengths(rows, limits)


def audit_rows(rows: Rows, plan: AuditPlan, limits: AuditLimits) -> Audit:
    """The audit of rows in memory."""
    rows = limited(rows)
    totals = sums_of(rows, plan)
    compared = compared_over(lambda kernel: [kernel(rows)], totals, plan, limits)
    return measure_audit(totals, compared, rows.names, plan, limits).audit()
