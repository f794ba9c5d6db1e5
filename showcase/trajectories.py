"""trajectory-judge: five judges of an agent's runs, in which faults were planted."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
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
    interval_text,
    judges_board,
    mean_figure,
    opening,
    paragraphs,
    share_figure,
    table,
    unknown_list,
)

RUNS, VERDICTS, SUMMARY = (
    "results/raw/trajectories.jsonl",
    "results/raw/verdicts.jsonl",
    "results/tables/summary.md",
)


class RunVerdict(NamedTuple):
    """A judge's verdict on one run: whether it calls it faulty, and whether it is."""

    instance: str  # runs of one instance share its request
    kind: str  # of the fault; clean for none
    is_silent: bool  # whether the customer saw a right outcome
    judge: str
    says_faulty: bool

    @property
    def is_faulty(self) -> bool:
        return self.kind != "clean"

    @property
    def is_right(self) -> bool:
        return self.says_faulty == self.is_faulty


def build(folder: Path) -> Page:
    """Return the page of trajectory-judge."""
    verdicts = read_verdicts(folder)
    judges = sorted({one.judge for one in verdicts})
    rows = review_rows(verdicts)
    by_label = judges_board((v.instance, v.kind, v.judge, v.is_right) for v in verdicts)
    audit = peerage.audit(rows, since="all")
    kinds = peerage.board_models(rows, since="all")
    reviewers = peerage.board_reviewers(opinion_rows(verdicts))
    rates = {name: _rates([one for one in verdicts if one.judge == name]) for name in judges}
    balanced = {
        name: (rates[name]["silent"].value + rates[name]["loud"].value) / 4
        + (1 - rates[name]["alarm"].value) / 2
        for name in judges
    }
    ordered = sorted(judges, key=lambda name: -balanced[name])
    chart = interval_chart(
        "Faults caught that leave the outcome right (silent), by judge, 95%",
        [Bar(n, *_ends(rates[n]["silent"])) for n in ordered],
    )
    text = paragraphs(
        opening(
            SET,
            folder,
            f"{len({(v.instance, v.kind) for v in verdicts})} runs of an agent at a support desk, "
            f"most with one planted fault, each called faulty or not by {len(judges)} judges: "
            f"{len(verdicts):,} verdicts. Because faults are planted, it is known who is right. "
            "The "
            "authors publish every verdict and rebuild their tables from them.",
        ),
        "## The published figures, recomputed",
        _published_text(folder, verdicts),
        "## The judges, with intervals",
        "Intervals are over instances; the runs of an instance share one request. A fault is "
        "silent "
        "if the customer still got the right outcome.",
        "![Silent faults caught](trajectories-silent.svg)",
        _rates_table(ordered, rates),
        "Two judges on the same runs: how much more often the first is right, in points; each "
        "interval is for its pair alone:",
        _differences_table(verdicts, ordered),
        "## The board of judges with its ranges",
        "Here the label is the only reviewer: on each run, judges that are right beat judges that "
        "are wrong. Three runs in four are faulty, so a judge that always says faulty is "
        "right on three in four.",
        board_table(by_label, what="judge"),
        "## How fragile the order is",
        fragility_text(by_label, "instances"),
        "## Can the judges be told apart without the labels?",
        _reviewers_text(reviewers.rows, ordered, balanced),
        audit_text(audit, ("agreement", "effective_votes")),
        "Which runs look best to the panel, by kind of fault (clean should lead):",
        board_table(kinds, what="kind of run"),
        "## What cannot be known",
        unknown_list(
            audit,
            "How the judges do on faults that arise by themselves, or on other agents: the runs "
            "come from one scripted environment.",
            "Whether the rule engine's lead on some kinds would hold elsewhere: its rules were "
            "written for this procedure, as the authors say.",
            "How sure a verdict is: stated confidences are in the files and are not read here.",
        ),
    )
    return Page(text, {"trajectories-silent.svg": chart})


# -- reading ---------------------------------------------------------------------------------------


def read_verdicts(folder: Path) -> list[RunVerdict]:
    """Return every verdict without an error."""
    runs = {one["trajectory_id"]: one for one in _lines(folder, RUNS)}
    return [
        RunVerdict(
            str(run["instance_id"]),
            str(run["label"]["failure_type"] or "clean"),
            bool(run["label"]["outcome_correct"]),
            str(one["judge_id"]),
            bool(one["faulty"]),
        )
        for one in _lines(folder, VERDICTS)
        if one["error"] is None
        for run in [runs[one["trajectory_id"]]]
    ]


def _lines(folder: Path, name: str) -> list[dict[str, Any]]:
    (file,) = SET.source.files(folder, name)
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def review_rows(verdicts: Sequence[RunVerdict]) -> list[dict[str, Any]]:
    """Return the table of reviews: a session is an instance, its candidates are its runs."""
    return [
        {
            "session_id": one.instance,
            "reviewer": one.judge,
            "candidate": one.kind,
            "score": float(not one.says_faulty),
        }
        for one in verdicts
    ]


def opinion_rows(verdicts: Sequence[RunVerdict]) -> list[dict[str, Any]]:
    """Return the table of opinions: +1 for a run that is called right, −1 for a faulty one."""
    return [
        {
            "item_id": f"{one.instance}/{one.kind}",
            "contributor": "agent",
            "reviewer": one.judge,
            "opinion": -1 if one.says_faulty else 1,
        }
        for one in verdicts
    ]


# -- figures ---------------------------------------------------------------------------------------

STRATA: Mapping[str, Callable[[RunVerdict], bool]] = {
    "silent": lambda one: one.is_faulty and one.is_silent,
    "loud": lambda one: one.is_faulty and not one.is_silent,
    "alarm": lambda one: not one.is_faulty,
}


def _rates(verdicts: Iterable[RunVerdict]) -> dict[str, Figure]:
    """Return how often a judge says faulty, by stratum."""
    some = list(verdicts)
    return {
        name: share_figure((one.instance, one.says_faulty) for one in some if belongs(one))
        for name, belongs in STRATA.items()
    }


def _ends(figure: Figure) -> tuple[float, float, float]:
    return figure.value, figure.low or 0.0, figure.high or 1.0


def _rates_table(judges: Sequence[str], rates: Mapping[str, Mapping[str, Figure]]) -> str:
    rows = [
        (
            judge,
            *(f"{one[name].text()}, n = {one[name].n}" for name in STRATA),
        )
        for judge in judges
        for one in [rates[judge]]
    ]
    head = ("judge", "silent faults caught", "other faults caught", "false alarms on clean runs")
    return table(head, rows)


def _published_text(folder: Path, verdicts: Sequence[RunVerdict]) -> str:
    """Return the published F1, recalls and false alarms beside ours."""
    rows = []
    n_same = n_all = 0
    for line in (folder / SUMMARY).read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        match = re.fullmatch(r"`(.+)`", cells[0])
        if match is None or len(cells) < 9:
            continue
        some = [one for one in verdicts if one.judge == match.group(1)]
        rates = _rates(some)
        ours = [f1(some), *(rates[name].value for name in STRATA)]
        pairs = [(cells[1 + i], f"{value:.3f}") for i, value in enumerate(ours)]
        n_same += sum(theirs == mine for theirs, mine in pairs)
        n_all += len(pairs)
        rows.append((match.group(1), *(f"{a} / {b}" for a, b in pairs)))
    head = ("judge", "F1", "silent recall", "loud recall", "false alarms")
    return paragraphs(
        f"Published / recomputed; {n_same} of {n_all} agree in all three digits.",
        table(head, rows) if rows else DASH,
    )


def f1(verdicts: Sequence[RunVerdict]) -> float:
    """Return the F1 of calling a run faulty."""
    hits = sum(one.says_faulty and one.is_faulty for one in verdicts)
    n_called = sum(one.says_faulty for one in verdicts)
    return 2 * hits / (n_called + sum(one.is_faulty for one in verdicts))


def _gaps(verdicts: Sequence[RunVerdict], a: str, b: str) -> list[tuple[str, float]]:
    right = {
        judge: {(v.instance, v.kind): float(v.is_right) for v in verdicts if v.judge == judge}
        for judge in (a, b)
    }
    shared = sorted(right[a].keys() & right[b].keys())
    return [(run[0], right[a][run] - right[b][run]) for run in shared]


def _differences_table(verdicts: Sequence[RunVerdict], judges: Sequence[str]) -> str:
    rows = []
    for i, a in enumerate(judges):
        for b in judges[i + 1 :]:
            figure = mean_figure(_gaps(verdicts, a, b))
            rows.append((a, b, figure.points, figure.n))
    return table(("judge", "against", "difference in points", "runs"), rows, left=2)


def _reviewers_text(
    rows: Sequence[Mapping[str, Any]], judges: Sequence[str], balanced: Mapping[str, float]
) -> str:
    """Return the board of reviewers, which sees no label, beside the order by the labels."""
    listed = [
        (
            row["reviewer"],
            row["rank"],
            interval_text(row["pearson"], row["low"], row["high"]),
            judges.index(row["reviewer"]) + 1,
            f"{balanced[row['reviewer']]:.3f}",
            f"{row['reviews']:,}",
        )
        for row in rows
    ]
    head = ("judge", "rank without labels", "agreement with the others", "rank by labels")
    return paragraphs(
        "`peerage board reviewers` ranks judges by their agreement with the others, and sees no "
        "label. The last rank is by the labels. It uses the mean of two shares: of the faults "
        "that a judge catches (silent or not), and of the clean runs that it lets pass.",
        table((*head, "balanced accuracy", "runs"), listed),
    )


SET = PublicSet(
    "trajectories",
    "trajectory-judge: judges of an agent's runs, with planted faults",
    "runs of an agent, called faulty or not by four models' set-ups and a rule engine",
    Source(
        "trajectory-judge",
        "mohammadi-hadi/trajectory-judge",
        "4a60c595c018b759f2914a159c7b2bc3f0392ff2",
        (RUNS, VERDICTS, SUMMARY),
        "MIT",
        "Hadi Mohammadi",
    ),
    build,
)
