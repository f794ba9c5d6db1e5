"""The LLM Debate Benchmark: six judges of debates, each motion debated twice with sides swapped."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np

import peerage
from peerage.boards import Board
from peerage.errors import InputError
from peerage.stats.ranking import kendall_tau
from peerage.stats.strengths import strengths
from showcase import Page, PublicSet, Source
from showcase.layout import (
    DASH,
    Bar,
    Figure,
    audit_text,
    board_bars,
    board_table,
    departures_text,
    fragility_text,
    interval_chart,
    mean_figure,
    opening,
    paragraphs,
    share_figure,
    table,
    unknown_list,
)

REPORTS = "reports/debate_matchup_judgments/*/*.md"
TIE_BAND = 0.5  # a judge's mean margin in a matchup that is not beyond this is a tie
FULL_MARGIN = 3.0  # in our closest reading of the ratings: a margin that counts as a whole win
TOP = 12  # models of the chart


class Judgement(NamedTuple):
    """One judge's verdict on one debate."""

    group: str  # two debates of one motion, with sides swapped
    debate: str
    pro: str
    con: str
    judge: str
    winner: str
    margin: float  # in favour of the side that speaks for the motion
    rated: bool


def build(folder: Path) -> Page:
    """Return the page of the debates."""
    judgements = read_judgements(SET.source.files(folder, REPORTS))
    published = read_published((folder / "README.md").read_text(encoding="utf-8"))
    rated = [one for one in judgements if one.rated]
    rows = review_rows(rated)
    board = peerage.board_models(rows, since="all", rule="bradley_terry", fragility=True)
    audit = peerage.audit(rows, since="all")
    sides = {
        judge: _pro_share(judgements, judge) for judge in sorted({j.judge for j in judgements})
    }
    gaps = side_gaps(judgements)
    widest = gaps[0]
    charts = {
        "debate-board.svg": interval_chart(
            "Bradley–Terry rating, all judges, 95%", board_bars(board, "value")[:TOP]
        ),
        "debate-sides.svg": interval_chart(
            "Share of debates that the side for the motion wins, by judge",
            [Bar(n, f.value, f.low or f.value, f.high or f.value) for n, f in sides.items()],
            middle=0.5,
        ),
    }
    n_groups = len({one.group for one in rated})
    text = paragraphs(
        opening(
            SET,
            folder,
            "Two models debate a motion, and then debate it again with sides swapped; the two "
            "debates "
            f"are a group. {len(sides)} model judges name the winner of each debate with a margin: "
            f"{len(judgements):,} judgements of {len({j.debate for j in judgements}):,} debates, "
            f"{n_groups:,} rated groups. The benchmark publishes every judgement in readable "
            "reports, which makes this page possible.",
        ),
        _in_short(board, widest),
        "## The published board, recomputed",
        _published_text(judgements, rated, published),
        "## The board with its ranges",
        "Bradley–Terry ratings from every judge's verdict on every rated debate; the scale is not "
        "that of the published board, because verdicts count here without their margin. The rank "
        "ranges hold for all models together.",
        "![Ratings with intervals](debate-board.svg)",
        board_table(board, "value", 0),
        "## How fragile the top is",
        fragility_text(board, "groups"),
        "## The judges",
        f"On the same debates, {widest.first} gives the win to the side for the motion "
        f"{widest.figure.points} percentage points more often than {widest.second} does "
        f"(n = {widest.figure.n:,} debates judged by both). Sides are swapped in every group, so "
        "this does not favour a model in a complete group. But it shows how much of a single "
        "verdict comes from the judge.",
        "![Share for the motion](debate-sides.svg)",
        table(
            ("judge", "side for the motion wins", "debates"),
            [(name, figure.text(), f"{figure.n:,}") for name, figure in sides.items()],
        ),
        "Each two judges on the same debates, in percentage points; an interval is for its pair "
        "only:",
        table(
            ("judge", "against", "difference in points", "debates"),
            [(g.first, g.second, g.figure.points, f"{g.figure.n:,}") for g in gaps],
            left=2,
        ),
        audit_text(audit, ("agreement", "effective_votes")),
        departures_text(audit),
        "## What cannot be known",
        unknown_list(
            audit,
            "Whether a side of a motion is easier to argue, or a judge leans to it: only the "
            "difference between judges is identified.",
            "Whether a judge prefers the debate shown to it as side A: the reports do not say in "
            "which order a judge saw the sides (the repository's CSV does).",
            "Whether a judge repeats itself: no debate was judged twice by one judge. The two "
            "debates of a group are different texts, so they are not a repetition.",
            "Which debater is right: there are no labels by people.",
        ),
    )
    return Page(text, charts)


def _in_short(board: Board, widest: SideGap) -> str:
    """Return the page in a few sentences."""
    first, second = board.rows[:2]
    pairs = board.notes["fragility"]["neighbours"][1:4]
    few = [pair["queries"] for pair in pairs if pair["queries"] is not None]
    n_groups = board.notes["fragility"]["queries"]
    rest = (
        f"; between ranks 2 and 5, {min(few)} to {max(few)} of {n_groups:,} groups decide a lead"
        if few
        else ""
    )
    return (
        f"**In short.** {first['model']} is first (rank {first['rank_low']}–{first['rank_high']}). "
        f"The order behind it is uncertain: {second['model']} may have any rank from "
        f"{second['rank_low']} to {second['rank_high']}{rest}. "
        f"Two judges of the same debates differ by {100 * widest.figure.value:.0f} points in how "
        f"often the side for the motion wins (n = {widest.figure.n} debates)."
    )


# -- reading ---------------------------------------------------------------------------------------


def read_judgements(files: Sequence[Path]) -> list[Judgement]:
    """Return every judgement in the reports on matchups."""
    return [one for file in files for one in _read_report(file)]


def _read_report(file: Path) -> list[Judgement]:
    text = file.read_text(encoding="utf-8")
    group = _field(text, r"side_swap_group_id: `(.+?)`", file)
    rated = _field(text, r"rating_eligible: `(\d)`", file) == "1"
    judgements = []
    for part in text.split("\n## Debate ")[1:]:
        pro, con = (_field(part, rf"{side} = \*\*(.+?)\*\*", file) for side in ("PRO", "CON"))
        debate = _field(part, r"debate_id: `(.+?)`", file)
        for line in part.splitlines():
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            is_verdict = line.startswith("|") and len(cells) == 5 and cells[1] in (pro, con)
            if is_verdict:
                judge, winner, margin = cells[:3]
                judgements.append(
                    Judgement(group, debate, pro, con, judge, winner, float(margin), rated)
                )
    return judgements


def _field(text: str, pattern: str, file: Path) -> str:
    match = re.search(pattern, text)
    if match is None:
        raise InputError(f"nothing here fits {pattern!r}.", place=str(file))
    return match.group(1)


class Published(NamedTuple):
    """What the README says: rating and groups by model, the agreement of judges, all groups."""

    ratings: Mapping[str, tuple[float, int]]
    agreement: str
    n_groups: str


def read_published(text: str) -> Published:
    """Return the published board and agreement."""
    ratings = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) == 4 and cells[0].isdigit():
            ratings[cells[1]] = float(cells[2]), int(cells[3])
    agreement = re.search(r"mean cross-judge winner agreement is ([0-9.]+[0-9])", text)
    groups = re.search(r"([0-9,]+) rating-eligible", text)
    stated = (match.group(1) if match else DASH for match in (agreement, groups))
    return Published(ratings, *stated)


def review_rows(judgements: Sequence[Judgement]) -> list[dict[str, object]]:
    """Return the table of reviews: a session is a debate, a query a side-swapped group."""
    return [
        {
            "session_id": one.debate,
            "query_id": one.group,
            "reviewer": one.judge,
            "candidate": model,
            "rank": 1.0 if model == one.winner else 2.0,
        }
        for one in judgements
        for model in (one.pro, one.con)
    ]


# -- figures ---------------------------------------------------------------------------------------


def _published_text(
    judgements: Sequence[Judgement], rated: Sequence[Judgement], published: Published
) -> str:
    n_by_model: Counter[str] = Counter()
    for pair in {(one.group, frozenset((one.pro, one.con))) for one in rated}:
        n_by_model.update(pair[1])
    same = [name for name, (_, n) in published.ratings.items() if n_by_model[name] == n]
    visible = sum(n for _, n in published.ratings.values()) // 2
    agreement = mean_agreement(judgements)
    ours = closest_ratings(rated)
    both = sorted(published.ratings.keys() & ours.keys())
    theirs = {name: published.ratings[name][0] for name in both}
    gaps = sorted(abs(ours[name] - theirs[name]) for name in both)
    tau = kendall_tau([ours[name] for name in both], [theirs[name] for name in both])
    rows = [
        (name, f"{rating:.1f}", f"{ours[name]:.1f}" if name in ours else DASH, n, n_by_model[name])
        for name, (rating, n) in published.ratings.items()
    ]
    return paragraphs(
        f"- Number of groups of each model: {len(same)} of {len(published.ratings)} equal the "
        f"published numbers. The README counts {published.n_groups} rated groups; half the sum "
        "of its "
        f"column is {visible}, and the reports mark {len({one.group for one in rated})} groups as "
        "rated, including those of models that the README does not list.\n"
        f"- Agreement of two judges on the winner of a group, mean over pairs of judges: "
        f"{agreement:.3f}, published {published.agreement} (a mean margin within ±{TIE_BAND} is "
        "a tie; the files do not state that band, and we chose the one that gives their "
        "figure).\n"
        "- Ratings: not reproduced exactly, because the files do not say how a margin becomes a "
        "part "
        f"of a win. We tried about a hundred formulas and chose one of the closest (each judge's "
        f"mean margin in a group divided by {FULL_MARGIN:g}, at most one). Its ratings differ from "
        f"the published ones by {gaps[len(gaps) // 2]:.1f} rating points in the median and "
        f"{gaps[-1]:.1f} at most, over {len(both)} models; "
        f"Kendall's τ of the two orders is {tau:.2f}. A formula chosen so does not confirm the "
        "ratings.",
        table(("model", "published", "our reading", "groups, published", "groups, ours"), rows),
    )


def _margins(judgements: Sequence[Judgement]) -> dict[str, dict[str, tuple[str, str, float]]]:
    """Return by group and judge the two models and the mean margin for the first of them."""
    some: dict[str, dict[str, list[Judgement]]] = defaultdict(lambda: defaultdict(list))
    for one in judgements:
        some[one.group][one.judge].append(one)
    margins: dict[str, dict[str, tuple[str, str, float]]] = {}
    for group, by_judge in some.items():
        for judge, verdicts in by_judge.items():
            first, second = sorted((verdicts[0].pro, verdicts[0].con))
            mean = fmean(one.margin if one.pro == first else -one.margin for one in verdicts)
            if len({one.debate for one in verdicts}) == 2:
                margins.setdefault(group, {})[judge] = first, second, mean
    return margins


def mean_agreement(judgements: Sequence[Judgement]) -> float:
    """Return how often two judges name the same winner of a group, the mean over their pairs."""
    same: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for by_judge in _margins(judgements).values():
        sign = {judge: _sign(margin) for judge, (_, _, margin) in by_judge.items()}
        for pair in combinations(sorted(sign), 2):
            same[pair].append(sign[pair[0]] == sign[pair[1]])
    return fmean(fmean(values) for values in same.values())


def _sign(margin: float) -> int:
    return 0 if abs(margin) <= TIE_BAND else 1 if margin > 0 else -1


def closest_ratings(judgements: Sequence[Judgement]) -> dict[str, float]:
    """Return ratings in which a judge's margin is a part of a win: our reading, not theirs."""
    names = sorted({name for one in judgements for name in (one.pro, one.con)})
    place = {name: i for i, name in enumerate(names)}
    points = np.zeros((len(names), len(names)))
    for by_judge in _margins(judgements).values():
        for first, second, margin in by_judge.values():
            part = 0.5 if not _sign(margin) else 0.5 + margin / (2 * FULL_MARGIN)
            part = min(1.0, max(0.0, part)) / len(by_judge)
            points[place[first], place[second]] += part
            points[place[second], place[first]] += 1 / len(by_judge) - part
    logs = strengths(points)
    ratings = 1500 + 400 / math.log(10) * (logs - logs.mean())
    return dict(zip(names, ratings.tolist(), strict=True))


def _pro_share(judgements: Sequence[Judgement], judge: str) -> Figure:
    return share_figure(
        (one.group, one.winner == one.pro) for one in judgements if one.judge == judge
    )


class SideGap(NamedTuple):
    """How much more often one judge lets the side for the motion win than another does."""

    first: str
    second: str
    figure: Figure


def side_gaps(judgements: Sequence[Judgement]) -> list[SideGap]:
    """Return each pair of judges with its difference on the same debates, the largest first."""
    by_debate: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for one in judgements:
        by_debate[one.group, one.debate][one.judge] = float(one.winner == one.pro)
    values: dict[tuple[str, str], list[tuple[str, float]]] = defaultdict(list)
    for (group, _), by_judge in by_debate.items():
        for a, b in combinations(sorted(by_judge), 2):
            values[a, b].append((group, by_judge[a] - by_judge[b]))
    gaps = []
    for (a, b), some in values.items():
        figure = mean_figure(some)
        if figure.value < 0:
            a, b = b, a
            figure = mean_figure((group, -value) for group, value in some)
        gaps.append(SideGap(a, b, figure))
    return sorted(gaps, key=lambda one: (-one.figure.value, one.first, one.second))


SET = PublicSet(
    "debate",
    "Debates judged by six models",
    "debates on motions, sides swapped, judged by six models",
    Source(
        "debate",
        "lechmazur/debate",
        "934bfc0371a90caaaa3d01679ca6cfbb104ca788",
        ("README.md", REPORTS),
        "none is stated in the repository; its figures are quoted for comparison, no text is",
        "Lech Mazur",
    ),
    build,
)
