"""`peerage.score` beside a plain reading of the council's own scoring function, ballot by ballot.

Both get the same documents in the same run. The plain function weighs marks, ranks and counts
Borda points; it checks nothing. Ours also reads labels and positions, keeps own votes apart,
says what is odd, gives intervals, and audits the session.
"""

from __future__ import annotations

import random
from collections import defaultdict
from functools import partial
from typing import Any

import peerage
from bench import Row, compare
from peerage import config
from peerage.council.blinding import label

N_SESSIONS_BY_SEATS = {4: 200, 10: 60, 50: 4}  # everybody answers and reviews everybody
AT_MOST = 40.0  # times the plain function
Document = dict[str, Any]


def run() -> list[Row]:
    """A row for each size of council."""
    weights = {name: float(w) for name, w in config.rubric("general").weights.items()}
    rows = []
    for n, n_sessions in N_SESSIONS_BY_SEATS.items():
        documents = [session(n, list(weights), seed) for seed in range(n_sessions)]
        rows.append(
            compare(
                f"score and audit, {n} seats",
                partial(ours, documents),
                partial(plain, documents, weights),
                n=n_sessions,
                target=1.0 / AT_MOST,
                peer_name="a plain loop",
                n_repeats=3,
            )
        )
    return rows


def ours(documents: list[Document]) -> list[object]:
    """Every document scored and audited under the shipped rubric, as a user scores it."""
    rubric = config.rubric("general")
    return [peerage.score(one, rubric=rubric) for one in documents]


def plain(documents: list[Document], weights: dict[str, float]) -> list[object]:
    return [council(one["rankings"], one["label_to_model"], weights) for one in documents]


def council(
    rankings: list[Document], label_to_model: dict[str, str], weights: dict[str, float]
) -> dict[str, tuple[int, float]]:
    """Rank and Borda points by model: marks weighed, ceilings applied, own votes left out."""
    n = len(label_to_model)
    points: dict[str, list[int]] = defaultdict(list)
    for ranking in rankings:
        marks = ranking["parsed_ranking"]["evaluations"]
        overall = {shown: weighed(marks[shown], weights) for shown in marks}
        for place, shown in enumerate(sorted(overall, key=lambda name: -overall[name])):
            author = label_to_model[shown]
            if author != ranking["model"]:
                points[author].append(n - 1 - place)
    mean = {model: sum(given) / len(given) for model, given in points.items()}
    order = sorted(mean, key=lambda model: (-mean[model], model))
    return {model: (place + 1, mean[model]) for place, model in enumerate(order)}


def weighed(marks: dict[str, int], weights: dict[str, float]) -> float:
    base = sum(marks[name] * weights[name] for name in weights)
    ceiling = 4.0 if marks["accuracy"] < 5 else 7.0 if marks["accuracy"] < 7 else 10.0
    return round(min(base, ceiling), 2)


def session(n: int, dimensions: list[str], seed: int) -> Document:
    """A session in which everybody marks everybody."""
    rng = random.Random(seed)
    labels = [f"Response {label(i)}" for i in range(n)]
    names = [f"model-{i}" for i in range(n)]
    rankings = []
    for name in names:
        marks = {one: {d: rng.randint(1, 10) for d in dimensions} for one in labels}
        order = rng.sample(labels, n)
        rankings.append({"model": name, "parsed_ranking": {"ranking": order, "evaluations": marks}})
    return {
        "responses": [{"model": who, "response": "word " * rng.randint(50, 200)} for who in names],
        "label_to_model": dict(zip(labels, names, strict=True)),
        "rankings": rankings,
    }
