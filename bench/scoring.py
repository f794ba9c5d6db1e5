"""Scoring 10,000 sessions at once, against a plain reading of the seed's own functions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from peerage.council.batch import Batch, score_batch

from bench import Row, compare
from peerage import config

N_SESSIONS = 10_000
SIZES = ((4, 1.0), (10, 1.0), (50, 5.0))  # candidates, who are also the reviewers; target
N_FULL_PEER = 100  # the peer's full scoring is timed on this many sessions and scaled up


def seed_borda(rankings: list[dict[str, Any]], label_to_model: dict[str, str]) -> dict[str, Any]:
    """Borda as the seed describes it, one ballot and one label at a time."""
    n = len(label_to_model)
    points: dict[str, list[int]] = defaultdict(list)
    wins: dict[str, int] = defaultdict(int)
    for ranking in rankings:
        if ranking["parsed_ranking"].get("abstained"):
            continue
        for position, name in enumerate(ranking["parsed_ranking"].get("ranking", [])):
            author = label_to_model.get(name)
            if author is None or author == ranking["model"]:
                continue
            points[author].append(n - 1 - position)
            if position == 0:
                wins[author] += 1
    rows = {m: (sum(p) / len(p), len(p), wins[m]) for m, p in points.items()}
    ordered = sorted(rows.items(), key=lambda row: (-row[1][0], -row[1][2], row[0]))
    result: dict[str, Any] = {}
    rank, previous = 1, None
    for i, (model, (score, votes, won)) in enumerate(ordered):
        if previous is not None and score < previous:
            rank = i + 1
        previous = score
        result[model] = (rank, score, votes, won)
    return result


def seed_overall(marks: dict[str, int], weights: dict[str, float]) -> float:
    """The seed's weighted score under its accuracy ceiling."""
    base = sum(marks[name] * weights[name] for name in weights if name in marks)
    accuracy = marks.get("accuracy", 10)
    ceiling = 4.0 if accuracy < 5 else 7.0 if accuracy < 7 else 10.0
    return round(min(base, ceiling), 2)


def seed_full(session: dict[str, Any], weights: dict[str, float]) -> dict[str, Any]:
    """Every ballot's ranking from its marks, then Borda."""
    rankings = []
    for ranking in session["rankings"]:
        marks = ranking["parsed_ranking"]["evaluations"]
        overall = {name: seed_overall(marks[name], weights) for name in marks}
        order = sorted(overall, key=lambda name: -overall[name])
        rankings.append({"model": ranking["model"], "parsed_ranking": {"ranking": order}})
    return seed_borda(rankings, session["label_to_model"])


def _batch(n: int, n_sessions: int, dimensions: int) -> Batch:
    rng = np.random.default_rng(n)
    rank = rng.random((n_sessions, n, n)).argsort(axis=2).astype(np.int16) + 1
    own = np.broadcast_to(np.arange(n), (n_sessions, n))
    marks = rng.integers(1, 11, (n_sessions, n, n, dimensions), dtype=np.int8)
    return Batch(rank, own, marks=marks)


def _documents(batch: Batch, names: list[str]) -> list[dict[str, Any]]:
    """The same sessions in the seed's own shape."""
    n = batch.rank.shape[2]
    labels = [f"Response {i}" for i in range(n)]
    label_to_model = {name: f"m{i}" for i, name in enumerate(labels)}
    documents = []
    for s in range(len(batch.rank)):
        rankings = []
        for r in range(n):
            order = [labels[i] for i in batch.rank[s, r].argsort()]
            evaluations = {}
            if names and batch.marks is not None:
                evaluations = {
                    labels[c]: dict(zip(names, row.tolist(), strict=True))
                    for c, row in enumerate(batch.marks[s, r])
                }
            parsed = {"ranking": order, "evaluations": evaluations}
            rankings.append({"model": f"m{r}", "parsed_ranking": parsed})
        documents.append({"label_to_model": label_to_model, "rankings": rankings})
    return documents


def run() -> list[Row]:
    """Borda alone and full scoring, per council size."""
    rubric = config.rubric("general")
    names = list(rubric.weights)
    weights = {name: float(weight) for name, weight in rubric.weights.items()}
    rows = []
    for n, target in SIZES:
        n_peer = N_SESSIONS if n < 50 else N_SESSIONS // 10
        batch = _batch(n, N_SESSIONS, len(names))
        plain = Batch(batch.rank, batch.own)
        documents = _documents(Batch(batch.rank[:n_peer], batch.own[:n_peer]), [])
        row = compare(
            f"borda, N = {n}",
            partial(score_batch, plain),
            partial(_each, seed_borda, [(d["rankings"], d["label_to_model"]) for d in documents]),
            n=N_SESSIONS,
            target=target,
            peer_name="the seed's function",
            n_repeats=3,
        )
        rows.append(_scaled(row, N_SESSIONS / n_peer))
        marked = Batch(batch.rank[:N_FULL_PEER], batch.own[:N_FULL_PEER], marks=batch.marks)
        full = _documents(marked, names)
        row = compare(
            f"full, N = {n}",
            partial(score_batch, batch, "out", rubric),
            partial(_each, seed_full, [(document, weights) for document in full]),
            n=N_SESSIONS,
            target=target,
            peer_name="the seed's functions",
            n_repeats=3,
        )
        rows.append(_scaled(row, N_SESSIONS / N_FULL_PEER))
    return rows


def _each(function: Callable[..., Any], calls: list[tuple[Any, ...]]) -> None:
    for arguments in calls:
        function(*arguments)


def _scaled(row: Row, times: float) -> Row:
    """The peer was timed on a part of the sessions; its work is the same for each."""
    peer_s = None if row.peer_s is None else row.peer_s * times
    note = "" if times == 1 else f"peer timed on 1/{times:.0f} of them"
    return Row(row.name, row.n, row.ours_s, peer_s, row.target, row.peer, note)
