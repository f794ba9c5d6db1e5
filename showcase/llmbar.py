"""LLMBar: six judges on pairs with a known better answer, in both orders."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import peerage
from showcase import Page, PublicSet, Source
from showcase.layout import (
    DASH,
    Bar,
    Figure,
    audit_text,
    board_table,
    fragility_text,
    interval_chart,
    judges_board,
    opening,
    paragraphs,
    share_figure,
    table,
    unknown_list,
)

RESULTS = "Dataset/LLMBar/**/evaluators/*/Vanilla/result.json"
ORDERS = {"swap = False": 0, "swap = True": 1}
METRICS = ("position", "length", "length_relative", "agreement", "effective_votes")
ANSWERS = ("better", "worse")  # by the authors' label


class PairVerdict(NamedTuple):
    """A judge's verdict on a pair in one order."""

    part: str  # of the set, as in Adversarial/Manual
    pair: str
    judge: str
    order: int
    winner: int | None  # 1 or 2; None where it could not be read
    label: int  # the better one, by the authors
    words: tuple[int, int]

    @property
    def is_right(self) -> bool:
        return self.winner == self.label


def build(folder: Path) -> Page:
    """Return the page of LLMBar."""
    verdicts = list(read_verdicts(folder))
    rows = list(review_rows(verdicts))
    audit = peerage.audit(rows, since="all")
    board = judges_board((one.pair, str(one.order), one.judge, one.is_right) for one in verdicts)
    judges = sorted({one.judge for one in verdicts})
    right = {name: _right(verdicts, name) for name in judges}
    ordered = sorted(judges, key=lambda name: -right[name].value)
    chart = interval_chart(
        "Share of verdicts that name the better answer, by judge, 95%",
        [Bar(n, *_ends(right[n])) for n in ordered],
        middle=0.5,
    )
    n_pairs = len({one.pair for one in verdicts})
    text = paragraphs(
        opening(
            SET,
            folder,
            f"Each of {n_pairs} pairs has one answer that follows an instruction and one that does "
            f"not. {len(judges)} models judge each pair in both orders, with the same plain "
            f"prompt: {len(verdicts):,} verdicts. A label by the authors says which answer "
            "is better, so a judge can be right or wrong.",
        ),
        "## The published figures, recomputed",
        _published_text(folder, verdicts),
        "## The judges by how often they are right",
        "![How often each judge is right](llmbar-right.svg)",
        _right_table(verdicts, ordered, right),
        "On the adversarial parts the wrong answer was written or chosen to look good:",
        _parts_table(verdicts, ordered),
        "## The board of judges with its ranges",
        "Here the label is the only reviewer: on each pair and order, judges that are right beat "
        "judges that are wrong.",
        board_table(board, what="judge"),
        "## How fragile the order of judges is",
        fragility_text(board, "pairs"),
        "## What the audit shows without the labels",
        "The audit sees scores, orders and lengths, and not which answer is better:",
        audit_text(audit, METRICS),
        "## What cannot be known",
        unknown_list(
            audit,
            "Whether it is a fault that a judge prefers longer answers: on these pairs the worse "
            "answer "
            "is often the longer one by design, so the figures on length do not apply elsewhere.",
            "How the judges do with other prompts: the repository has more prompts, but this page "
            "reads the plain one.",
            "Whether a judge would repeat its verdict: each order was asked once.",
        ),
    )
    return Page(text, {"llmbar-right.svg": chart})


# -- reading ---------------------------------------------------------------------------------------


def read_verdicts(folder: Path) -> Iterator[PairVerdict]:
    """Yield every verdict with the plain prompt."""
    for file in SET.source.files(folder, RESULTS):
        part, judge = _about(file, folder)
        for number, one in enumerate(json.loads(file.read_text(encoding="utf-8"))):
            words = tuple(len(str(one[f"output_{i}"]).split()) for i in (1, 2))
            for name, reply in one["results"][0].items():
                winner = {"1": 1, "2": 2}.get(str(reply["winner"]))
                pair = f"{part}#{number}"
                label = int(one["label"])
                yield PairVerdict(
                    part, pair, judge, ORDERS[name], winner, label, (words[0], words[1])
                )


def _about(file: Path, folder: Path) -> tuple[str, str]:
    """Return the part of the set and the judge that a file is of."""
    names = file.relative_to(folder / "Dataset" / "LLMBar").parts
    at = names.index("evaluators")
    return "/".join(names[:at]), names[at + 1]


def review_rows(verdicts: Sequence[PairVerdict]) -> Iterator[dict[str, Any]]:
    """Yield the table of reviews; verdicts that could not be read are not in it."""
    for one in verdicts:
        if one.winner is None:
            continue
        for answer in (1, 2):
            yield {
                "session_id": one.pair,
                "category": one.part,
                "reviewer": one.judge,
                "candidate": ANSWERS[int(answer != one.label)],
                "round": one.order,
                "score": float(answer == one.winner),
                "position": (answer - 1) ^ one.order,
                "words": one.words[answer - 1],
            }


# -- figures ---------------------------------------------------------------------------------------


def _ends(figure: Figure) -> tuple[float, float, float]:
    return figure.value, figure.low or 0.0, figure.high or 1.0


def _right(verdicts: Sequence[PairVerdict], judge: str) -> Figure:
    return share_figure((one.pair, one.is_right) for one in verdicts if one.judge == judge)


def _published_text(folder: Path, verdicts: Sequence[PairVerdict]) -> str:
    """Return the authors' accuracies beside ours, part by part."""
    rows = []
    n_same = 0
    for file in SET.source.files(folder, RESULTS.replace("result.json", "statistics.json")):
        part, judge = _about(file, folder)
        stated = json.loads(file.read_text(encoding="utf-8"))["correct_average"]
        some = [one for one in verdicts if (one.part, one.judge) == (part, judge)]
        by_order = [[one.is_right for one in some if one.order == order] for order in (0, 1)]
        ours = 100 * sum(sum(right) / len(right) for right in by_order) / 2
        theirs = float(str(stated).rstrip("%"))
        n_same += abs(theirs - ours) < 1e-9
        rows.append((part, judge, f"{theirs:.3f}", f"{ours:.3f}", len(some)))
    return paragraphs(
        f"Accuracy in percent, the mean over both orders: {n_same} of {len(rows)} are the "
        "published figures in all their digits.",
        table(("part", "judge", "published", "recomputed", "verdicts"), rows, left=2),
    )


def _right_table(
    verdicts: Sequence[PairVerdict], judges: Sequence[str], right: Mapping[str, Figure]
) -> str:
    rows = []
    for judge in judges:
        by_pair: dict[str, list[int | None]] = {}
        for one in verdicts:
            if one.judge == judge:
                by_pair.setdefault(one.pair, []).append(one.winner)
        same = share_figure(
            (pair, len(set(both)) == 1 and None not in both) for pair, both in by_pair.items()
        )
        rows.append((judge, right[judge].text(), same.text(), f"{right[judge].n:,}"))
    head = ("judge", "right", "same verdict in both orders", "verdicts")
    return table(head, rows)


def _parts_table(verdicts: Sequence[PairVerdict], judges: Sequence[str]) -> str:
    parts = sorted({one.part for one in verdicts}, reverse=True)
    rows = []
    for part in parts:
        some = [one for one in verdicts if one.part == part]
        figures = [_right(some, judge).text(2) if some else DASH for judge in judges]
        rows.append((f"{part} (n = {len({one.pair for one in some})})", *figures))
    return table(("part, pairs", *judges), rows)


SET = PublicSet(
    "llmbar",
    "LLMBar: six judges that can be right or wrong",
    "answers that follow an instruction or do not, judged by six models in both orders",
    Source(
        "LLMBar",
        "princeton-nlp/LLMBar",
        "900616bff90b6c6c8e1681f7d079250637c55992",
        (RESULTS, RESULTS.replace("result.json", "statistics.json")),
        "MIT",
        "Zeng and others",
    ),
    build,
)
