"""Peer Rank (PRD): five models judge one another's answers, in both orders."""

from __future__ import annotations

import ast
import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import peerage
from showcase import Page, PublicSet, Source
from showcase.layout import (
    Bar,
    audit_text,
    board_bars,
    board_table,
    departures_text,
    fragility_text,
    interval_chart,
    opening,
    paragraphs,
    share_figure,
    table,
    unknown_list,
)

NAMES = {  # of a model in file names, and in the notebook of the authors
    "bard": "bard",
    "claude": "claude",
    "gpt35": "gpt-3.5",
    "gpt4": "gpt-4",
    "vicuna-13b": "vicuna",
}
RATINGS = "data/vicuna80/ratings-{}/answer_*.jsonl"
NOTEBOOK = "peer_rank/peer_ranking.ipynb"
POINTS = {1: 1.0, 2: 0.0, 3: 0.5}  # of the answer shown first; 3 is a tie
N_ITERATIONS = 5
METRICS = ("position", "self_preference", "length_relative", "agreement", "effective_votes")


class PairVerdict(NamedTuple):
    """One model's verdict on two answers in one order."""

    question: int
    judge: str
    first: str
    second: str
    points: float  # of the first


def build(folder: Path) -> Page:
    """Return the page of Peer Rank."""
    verdicts = read_verdicts(folder)
    words = read_words(folder)
    rows = review_rows(verdicts, words)
    board = peerage.board_models(rows, since="all", fragility=True)
    counted = peerage.board_models(rows, since="all", own_votes="in")
    audit = peerage.audit(rows, since="all")
    positions = [f for f in audit.findings if f.metric == "position" and f.low is not None]
    charts = {
        "peer-rank-board.svg": interval_chart(
            "Share of rivals beaten, own votes left out, 95%", board_bars(board, "share")
        ),
        "peer-rank-position.svg": interval_chart(
            "Score of the answer shown first minus the other's, by judge",
            [
                Bar(f.subject, f.value, f.low, f.high or f.low)
                for f in positions
                if f.value is not None and f.low is not None and f.subject != "all"
            ],
            middle=0.0,
        ),
    }
    n_questions = len({one.question for one in verdicts})
    text = paragraphs(
        opening(
            SET,
            folder,
            f"Five models answer {n_questions} questions and judge every pair of answers in both "
            f"orders, their own among them: {len(verdicts):,} verdicts. Position can be measured "
            "because each pair is shown in both orders.",
        ),
        "## The published figures, recomputed",
        _published_text(folder, verdicts),
        "## The board with its ranges",
        "Without the votes of models on pairs with their own answer:",
        "![The board](peer-rank-board.svg)",
        board_table(board),
        "With these votes:",
        board_table(counted),
        "## How fragile the top is",
        fragility_text(board, "questions"),
        "## The judges",
        "![Position, by judge](peer-rank-position.svg)",
        audit_text(audit, METRICS),
        "How often a judge gives the same verdict when the two answers change places:",
        _stability_table(verdicts),
        departures_text(audit),
        "## What cannot be known",
        unknown_list(
            audit,
            "Whether a judge is wrong to favour itself: the best model may also write the best "
            "answers. "
            "The figure is its score of itself minus the other judges' score of it.",
            "Whether the judges' shared view is right: labels by people are in the repository, "
            "and are not used here.",
        ),
    )
    return Page(text, charts)


# -- reading ---------------------------------------------------------------------------------------


def read_verdicts(folder: Path) -> list[PairVerdict]:
    """Return every verdict of the five judges."""
    verdicts = []
    for short, judge in NAMES.items():
        for file in SET.source.files(folder, RATINGS.format(short)):
            match = re.match(rf"answer_(.+)-vs-answer_(.+)-{short}-reviewer", file.name)
            if match is None:
                continue
            first, second = (NAMES[name] for name in match.groups())
            for line in file.read_text(encoding="utf-8").splitlines():
                one = json.loads(line)
                points = POINTS[int(one["score"])]
                verdicts.append(PairVerdict(int(one["question_id"]), judge, first, second, points))
    return verdicts


def read_words(folder: Path) -> dict[tuple[int, str], int]:
    """Return the number of words of each answer, by question and model."""
    words = {}
    for short, name in NAMES.items():
        (file,) = SET.source.files(folder, f"data/vicuna80/generations/answer_{short}.jsonl")
        for line in file.read_text(encoding="utf-8").splitlines():
            one = json.loads(line)
            words[int(one["question_id"]), name] = len(str(one["text"]).split())
    return words


def review_rows(
    verdicts: Sequence[PairVerdict], words: Mapping[tuple[int, str], int]
) -> list[dict[str, Any]]:
    """Return the table of reviews: a session is a pair of answers, its rounds are the orders."""
    return [
        {
            "session_id": f"q{one.question}|{min(one[2:4])}~{max(one[2:4])}",
            "query_id": f"q{one.question}",
            "reviewer": one.judge,
            "candidate": model,
            "round": int(one.first > one.second),
            "score": points,
            "position": side,
            "words": words[one.question, model],
        }
        for one in verdicts
        for side, (model, points) in enumerate(
            ((one.first, one.points), (one.second, 1.0 - one.points))
        )
    ]


# -- figures ---------------------------------------------------------------------------------------


def _published_text(folder: Path, verdicts: Sequence[PairVerdict]) -> str:
    notebook = json.loads((folder / NOTEBOOK).read_text(encoding="utf-8"))
    shares, weighted = _printed(notebook)
    ours = win_rates(verdicts)
    names = sorted(NAMES.values(), key=lambda name: -fmean(ours[judge][name] for judge in ours))
    plain = {name: fmean(ours[judge][name] for judge in ours) for name in names}
    scores, weights = iterated(ours)
    rows = [
        (
            name,
            f"{shares[name]:.6f}",
            f"{plain[name]:.6f}",
            f"{weighted['scores'][name]:.6f}",
            f"{scores[name]:.6f}",
            f"{weighted['weights'][name]:.6f}",
            f"{weights[name]:.6f}",
        )
        for name in names
    ]
    head = ("model", "win rate, published", "ours", "weighted, published", "ours")
    return paragraphs(
        "Win rates over all verdicts, and the authors' weighted win rates, in which a judge "
        f"weighs what it scores itself ({N_ITERATIONS} rounds):",
        table((*head, "judge's weight, published", "ours"), rows),
    )


def _printed(notebook: Mapping[str, Any]) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Return the win rates that the authors' notebook shows, plain and weighted."""
    shares: dict[str, float] = {}
    weighted: dict[str, dict[str, float]] = {}
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        for output in cell.get("outputs", ()):
            text = "".join(output.get("text") or output.get("data", {}).get("text/plain", ""))
            if source.strip() == "compute_winrates(auto_reviews)":
                shares = ast.literal_eval(text)
            if "normal_winrate(auto_reviews, 5)" in source and "{'scores'" in text:
                weighted = ast.literal_eval(text[text.index("{'scores'") :].strip())
    return shares, weighted


def win_rates(verdicts: Sequence[PairVerdict]) -> dict[str, dict[str, float]]:
    """Return each model's mean points by judge."""
    points: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for one in verdicts:
        points[one.judge][one.first].append(one.points)
        points[one.judge][one.second].append(1.0 - one.points)
    return {
        judge: {name: fmean(some) for name, some in by_name.items()}
        for judge, by_name in points.items()
    }


def iterated(rates: Mapping[str, Mapping[str, float]]) -> tuple[dict[str, float], dict[str, float]]:
    """Return the authors' weighted scores and weights: a judge weighs what it scores itself."""
    names = sorted(rates)
    weights = dict.fromkeys(names, 1.0 / len(names))
    scores: dict[str, float] = {}
    for _ in range(N_ITERATIONS):
        scores = {m: sum(weights[j] * rates[j][m] for j in names) for m in names}
        low, high = min(scores.values()), max(scores.values())
        scaled = {name: (score - low) / (high - low) for name, score in scores.items()}
        weights = {name: value / sum(scaled.values()) for name, value in scaled.items()}
    return scores, weights


def _stability_table(verdicts: Sequence[PairVerdict]) -> str:
    """Return by judge how often both orders give the same verdict, with an interval."""
    by_pair: dict[tuple[str, int, str, str], dict[str, float]] = defaultdict(dict)
    for one in verdicts:
        low, high = sorted((one.first, one.second))
        points = one.points if one.first == low else 1.0 - one.points
        by_pair[one.judge, one.question, low, high][one.first] = points
    rows = []
    for judge in sorted(NAMES.values()):
        same = share_figure(
            (question, len(set(both.values())) == 1)
            for (who, question, _, _), both in by_pair.items()
            if who == judge and len(both) == 2
        )
        rows.append((judge, same.text(), f"{same.n:,}"))
    return table(("judge", "same verdict in both orders", "pairs"), rows)


SET = PublicSet(
    "peer-rank",
    "Peer Rank: five models judge one another",
    "answers of five models, judged by the same five in both orders",
    Source(
        "PRD",
        "bcdnlp/PRD",
        "35fb99e5d5c7a2f3535811f1edbe417da7563957",
        (
            NOTEBOOK,
            "data/vicuna80/generations/answer_*.jsonl",
            *(RATINGS.format(name) for name in NAMES),
        ),
        "MIT",
        "Li, Patel and Du",
    ),
    build,
)
