"""PandaLM's test set: pairs of answers judged by three people and two model judges."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import peerage
from peerage.boards import Board
from peerage.findings import Audit
from showcase import Page, PublicSet, Source
from showcase.layout import (
    DASH,
    STATUS_WORDS,
    audit_text,
    board_bars,
    board_table,
    departures_text,
    fragility_text,
    interval_chart,
    interval_text,
    opening,
    paragraphs,
    share_figure,
    table,
    unknown_list,
)

PEOPLE = ("human1", "human2", "human3")
JUDGES = {"gpt-3.5": "gpt", "pandalm-7b": "pandalm"}  # and how their fields begin
FILES = {"gpt-3.5": "gpt-3.5-turbo-testset-v1", "pandalm-7b": "pandalm-7b-testset-v1"}
LABELS = {"0": 0, "Tie": 0, "1": 1, "2": 2}  # another text is a verdict that could not be read
POINTS = {0: (0.5, 0.5), 1: (1.0, 0.0), 2: (0.0, 1.0)}

DEPARTURES = {"people_model": "share of a model", "people_length": "slope on length"}
EVERY = 10  # of so many pairs one keeps its people, to show what a sample of labels does

Verdicts = Mapping[str, Sequence[int | None]]  # by reviewer, in the order of the pairs


def build(folder: Path) -> Page:
    """Return the page of PandaLM's test set."""
    pairs = _load(folder, "testset-v1")
    verdicts = read_verdicts(folder, pairs)
    rows = review_rows(pairs, verdicts)
    judges = [row for row in rows if row["reviewer"] in JUDGES]
    sample = {f"p{pair['idx']}" for pair in pairs[::EVERY]}
    some = [row for row in rows if row["reviewer"] in JUDGES or row["session_id"] in sample]
    board = peerage.board_models(some, since="all", people=PEOPLE)
    of_judges = peerage.board_models(judges, since="all", fragility=True)
    of_people = peerage.board_models(
        [row for row in rows if row["reviewer"] in PEOPLE], since="all", fragility=True
    )
    audit = peerage.audit(rows, since="all", people=PEOPLE)
    chart = interval_chart(
        "Share of rivals beaten, as three people see it, 95%", board_bars(of_people, "share")
    )
    text = paragraphs(
        opening(
            SET,
            folder,
            f"{len(pairs):,} pairs of answers by five small models, each judged by three people "
            "and by two model judges (PandaLM-7B, which the authors trained for this, and "
            "GPT-3.5). The authors publish all labels, so judges can be compared with people.",
        ),
        f"**In short.** People and judges agree on the first place ({of_people.rows[0]['model']}) "
        f"but not on the second: {of_people.rows[1]['model']} for people, "
        f"{of_judges.rows[1]['model']} for the judges. "
        f"{_lead(of_people, 1)} and {_lead(of_judges, 1)} of {len(pairs)} pairs decide these "
        "leads. " + _departure_sentence(audit),
        "## The published figures, recomputed",
        _published_text(folder, verdicts),
        "## The board with its ranges",
        "The people's board:",
        "![The people's board](pandalm-board.svg)",
        board_table(of_people),
        "The two model judges' board:",
        board_table(of_judges),
        f"What would a tenth of the people's labels have shown? The table uses people on every "
        f"{EVERY}th pair only ({len(sample)} pairs), and corrects the judges' shares on all "
        "pairs by "
        "them. Compare it with the people's board above:",
        _people_table(board.rows),
        "## How fragile the top is",
        "By the people's labels. " + fragility_text(of_people, "pairs"),
        "By the two judges. " + fragility_text(of_judges, "pairs"),
        "## The judges",
        _accuracy_table(verdicts),
        audit_text(audit, ("length", "length_relative", "agreement", "effective_votes")),
        _people_departures(audit),
        departures_text(audit),
        "## What cannot be known",
        unknown_list(
            audit,
            "Whether a judge prefers the answer shown first: each pair was shown in one order, the "
            "same for all. Both orders of some pairs would show it.",
            "How a judge does on pairs that people disagree about: the authors left such pairs "
            "out before publication, and say so.",
            "Verdicts of GPT-3.5 that could not be read are left out here, not counted as ties: "
            f"{sum(v is None for v in verdicts['gpt-3.5'])} of {len(pairs)}.",
        ),
    )
    return Page(text, {"pandalm-board.svg": chart})


def _lead(board: Board, place: int) -> int:
    """Return how few pairs carry the lead of a place over the next."""
    n: int = board.notes["fragility"]["neighbours"][place]["queries"]
    return n


def _load(folder: Path, name: str) -> list[dict[str, Any]]:
    (file,) = SET.source.files(folder, f"data/{name}.json")
    loaded: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
    return loaded


def read_verdicts(folder: Path, pairs: Sequence[Mapping[str, Any]]) -> Verdicts:
    """Return who is preferred in each pair: 1, 2, or 0 for a tie; None if it cannot be read."""
    verdicts: dict[str, list[int | None]] = {
        name: [int(pair[f"annotator{i}"]) for pair in pairs] for i, name in enumerate(PEOPLE, 1)
    }
    for judge, prefix in JUDGES.items():
        by_pair = {one["idx"]: one[f"{prefix}_result"] for one in _load(folder, FILES[judge])}
        verdicts[judge] = [LABELS.get(str(by_pair.get(pair["idx"]))) for pair in pairs]
    return verdicts


def review_rows(pairs: Sequence[Mapping[str, Any]], verdicts: Verdicts) -> list[dict[str, Any]]:
    """Return the table of reviews."""
    return [
        {
            "session_id": f"p{pair['idx']}",
            "reviewer": reviewer,
            "candidate": model,
            "score": POINTS[verdict][side],
            "position": side,
            "words": len(str(pair[f"response{side + 1}"]).split()),
        }
        for reviewer, labels in verdicts.items()
        for pair, verdict in zip(pairs, labels, strict=True)
        if verdict is not None
        for side, model in enumerate(str(pair["cmp_key"]).split("_"))
    ]


# -- figures ---------------------------------------------------------------------------------------


def _published_text(folder: Path, verdicts: Verdicts) -> str:
    readme = (folder / "README.md").read_text(encoding="utf-8")
    rows = []
    for i, j in combinations(range(3), 2):
        line = re.search(rf"^\| Annotator #{i + 1} \|(.*)", readme, re.MULTILINE)
        cells = [cell.strip() for cell in line.group(1).split("|")] if line else [DASH] * 3
        ours = cohens_kappa(verdicts[PEOPLE[i]], verdicts[PEOPLE[j]])
        rows.append((f"Cohen's κ, people {i + 1} and {j + 1}", cells[j], f"{ours:.2f}"))
    counts = Counter(majority(verdicts))
    line = re.search(r"\| Number\s*\|(.*)", readme)
    cells = [cell.strip() for cell in line.group(1).split("|")] if line else [DASH] * 3
    words = ("ties", "first better", "second better")
    rows += [(f"{words[k]}, by majority", cells[k], str(counts[k])) for k in range(3)]
    return table(("figure", "published", "recomputed"), rows)


def cohens_kappa(a: Sequence[int | None], b: Sequence[int | None]) -> float:
    """Return agreement beyond chance of two people on the same pairs."""
    n = len(a)
    observed = sum(x == y for x, y in zip(a, b, strict=True)) / n
    by_a, by_b = Counter(a), Counter(b)
    chance = sum(by_a[label] * by_b[label] for label in by_a) / n**2
    return (observed - chance) / (1 - chance)


def majority(verdicts: Verdicts) -> list[int | None]:
    """Return what most of the three people say of each pair; the first of equally many."""
    people = zip(*(verdicts[name] for name in PEOPLE), strict=True)
    return [Counter(labels).most_common(1)[0][0] for labels in people]


def _accuracy_table(verdicts: Verdicts) -> str:
    """Return how often each judge says what most people say."""
    gold = majority(verdicts)
    rows = []
    for judge in JUDGES:
        same = [
            (i, label == truth)
            for i, (label, truth) in enumerate(zip(verdicts[judge], gold, strict=True))
            if label is not None
        ]
        figure = share_figure(same)
        rows.append((judge, figure.text(), f"{figure.n:,}"))
    return table(("judge", "same as most of three people", "pairs that could be read"), rows)


def _people_table(rows: Sequence[Mapping[str, Any]]) -> str:
    listed = [
        (
            row["model"],
            *(
                interval_text(row.get(name), row.get(f"{name}_low"), row.get(f"{name}_high"))
                for name in ("judges", "people", "corrected")
            ),
            f"{row['people_queries']:,}",
        )
        for row in rows
    ]
    return table(("model", "judges", "people", "corrected", "pairs with people"), listed)


def _departure_sentence(audit: Audit) -> str:
    """Return how many comparisons of a judge with people on one model show a departure."""
    some = [f for f in audit.findings if f.metric == "people_model" and f.value is not None]
    n = sum(f.status == "evidence" for f in some)
    return (
        f"Of {len(some)} comparisons of a judge with people on one model, "
        f"{n or 'none'} {'is' if n == 1 else 'are'} evidence of a departure."
    )


def _people_departures(audit: Audit) -> str:
    """Return where a judge departs from people, by model."""
    some = [f for f in audit.findings if f.metric.startswith("people") and f.value is not None]
    if not some:
        return ""
    rows = [
        (
            DEPARTURES.get(f.metric, f.metric),
            f.subject.replace(">", " on "),
            interval_text(f.value, f.low, f.high),
            f.n,
            STATUS_WORDS.get(f.status, f.status),
        )
        for f in some
    ]
    return paragraphs(
        "Differences between the judges and people on the same pairs:",
        table(("what", "judge", "minus people's", "n", "finding"), rows, left=2),
    )


SET = PublicSet(
    "pandalm",
    "PandaLM's test set: two judges and three people",
    "answers of five small models, judged by two models and three people",
    Source(
        "PandaLM",
        "WeOpenML/PandaLM",
        "3871806e72b4832f815ecafd24d3503c73403f48",
        ("README.md", "data/testset-v1.json", *(f"data/{name}.json" for name in FILES.values())),
        "Apache-2.0",
        "Wang and others",
    ),
    build,
)
