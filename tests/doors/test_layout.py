"""No table of the product cuts a number or makes two names equal, at any width or in a pipe."""

from __future__ import annotations

import ast
import io
import json
import re
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from peerage.anchors import AnchorReport, JudgeDrift
from peerage.boards import Board
from peerage.boards.panel_choice import Advice, JudgeWorth, PanelAdvice
from peerage.council.readings import reading_of
from peerage.doors.cli.run import estimate_table, failures_table
from peerage.doors.cli.server_commands import tokens_table
from peerage.doors.cli.setup_commands import Check, checks_table
from peerage.doors.cli.terminal import LiveScreen, Terminal
from peerage.doors.render import (
    board_tables,
    diff_views,
    file_views,
    gate_views,
    judge_views,
    report_views,
    scorecard_views,
)
from peerage.doors.render.layout import (
    Interval,
    Sparkline,
    Strip,
    TableColumn,
    TextTable,
)
from peerage.doors.render.model_names import drop_date, fitting_forms, short_names
from peerage.doors.render.session_lists import imports_table, sessions_table
from peerage.doors.render.session_reviews import grid_table, marks_table
from peerage.doors.render.session_views import (
    bills_table,
    ranking_table,
    votes_table,
)
from peerage.doors.render.taste_views import tastes_by_judge, tastes_table
from peerage.dry_runs import SeasonEstimate, SeatEstimate
from peerage.events import (
    Answered,
    Dealt,
    DealtBallot,
    Opened,
    Reviewed,
    ScoringRecord,
    SeatRecord,
    stored_event,
)
from peerage.findings import (
    Audit,
    AuditTastes,
    BehindBest,
    Bounded,
    Departure,
    Finding,
    Mismatch,
    PassRate,
    Scorecard,
)
from peerage.imports.diagnosis import Diagnosis, MetricAdvice
from peerage.providers.money import Price
from peerage.rejudging import Rejudging, Shift
from peerage.reports.gate_results import GateResult, MeasureResult, TellingQuery
from peerage.reports.requirements import CheckResult, RequirementResult
from peerage.reports.review_diff import (
    ModelChange,
    PlaceExchange,
    ReviewDiff,
    ReviewPart,
    SideSummary,
)
from peerage.scoring import score_session
from peerage.season import Progress
from peerage.stats.bets import GateVerdict
from peerage.stores import AccessToken, Import, SessionEntry
from peerage.types import (
    Ballot,
    PanelAnswer,
    Query,
    Response,
    Review,
    ScoringOptions,
    Seat,
    Session,
    Slot,
    TypedQuestion,
    Usage,
    Verdict,
)
from peerage.view import SessionView

DOORS = Path(__file__).parents[2] / "src" / "peerage" / "doors"
WIDTHS = (60, 80, 120)
BOARDS = ("board_table", "contributors", "reviewers", "items")
LOOK_ALIKE = [
    "provider/some-long-model-2026-11",
    "provider/some-long-model-2026-12",
    "provider/some-long-model-2026-11-preview-with-tools",
    "provider/some-long-model-2026-12-preview-with-tools",
    "provider/一个名字非常长的大型语言模型二零二六年十一月",
    "provider/一个名字非常长的大型语言模型二零二六年十二月",
]
VENDORS = [f"{vendor}/the-same-name-2026-11" for vendor in ("alpha", "beta", "gamma", "delta")]
PANELS = {"one vendor": LOOK_ALIKE, "several vendors": [*VENDORS, *LOOK_ALIKE[4:]]}
HUGE, PLAIN = 1234567, 120
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
BOXES = re.compile("[\u2500-\u259f\u25cf\x1b]")


# -- every table of the product ------------------------------------------------------------------


def models(names):
    rows = [
        {
            "model": name,
            "rank": i + 1,
            "rank_low": 1,
            "rank_high": PLAIN,
            "tier": 1 + i // 2 if i < 4 else None,
            "value": 1500.0 + i,
            "share": 0.713 if i < 5 else None,
            "share_low": 0.692,
            "share_high": 0.734,
            "aggregate_borda": 3.25,
            "mean_score": 7.25,
            "mean_score_plain": 7.5,
            "z_score": -0.5,
            "share_length_controlled": 0.7,
            "total_wins": PLAIN,
            "total_votes": HUGE,
            "appearances": HUGE,
        }
        for i, name in enumerate(names)
    ]
    columns = {key: [row[key] for row in rows] for key in rows[0]}
    return board_tables.board_table(Board("models", columns, {"reputation": "fixed"}), rows)


def matrix(names):
    above = [[None if i == j else 1.0 for j in range(len(names))] for i in range(len(names))]
    return report_views.matrix_table({"models": names, "above": above})


def rules(names):
    ranked = [{"model": name, "value": float(HUGE), "rank": PLAIN} for name in names]
    known = ("borda", "bradley_terry", "elo", "mean_rank", "hybrid", "copeland", "schulze")
    return report_views.rules_table([{"rule": rule, "rows": ranked} for rule in known])


def history(names):
    weeks = [f"2026-{month:02}-01" for month in range(1, 13)]
    points = [{"model": name, "week": week, "share": 0.5} for name in names for week in weeks]
    return report_views.history_table(points, names)


def movers(names):
    return report_views.movers_table(
        [{"name": name, "here": PLAIN, "there": HUGE, "moved": PLAIN - HUGE} for name in names]
    )


def pairs(names):
    rows = [
        {"a": a, "b": b, "gap": 1.25, "n": HUGE, "p": 0.0001, "q": 0.0312}
        for a, b in zip(names, names[::-1], strict=True)
    ]
    return report_views.pairs_table(rows)


def clusters(names):
    rows = [
        {"members": names, "density": 1.0, "n": HUGE, "gap": 0.25, "note": "nothing stands out"},
        {"members": names[:4], "density": 0.5, "n": PLAIN, "gap": None, "note": "too few items"},
    ]
    return report_views.clusters_table(rows)


def community(names, kind, **columns):
    n = len(names)
    columns = {key: [value] * n for key, value in columns.items()}
    parameters = {"reputation": "iterate", "scale": (-1.0, 1.0)}
    board = Board(f"{kind}s", {kind: names, **columns}, parameters)
    return board_tables.board_table(board, board.rows)


def contributors(names):
    numbers = dict.fromkeys(("total_score", "quality_score", "affiliation_bonus"), 1000.25)
    counts = dict.fromkeys(("items", "items_scored", "reviews_received"), HUGE)
    return community(names, "contributor", rank=PLAIN, **numbers, **counts)


def reviewers(names):
    numbers = {"pearson": 0.75, "low": -0.25, "high": 0.95, "agreement": 0.5, "reputation": 0.8}
    counts = {"qualifying": HUGE, "reviews": HUGE, "rank": PLAIN}
    words = {"status": "clear", "band": "excellent", "dawid_skene": 0.75}
    return community(names, "reviewer", **numbers, **counts, **words)


def items(names):
    parameters = {"reputation": "fixed", "scale": (-1.0, 1.0)}
    columns = {"item_id": names, "contributor": names[::-1], "quality": [-0.25] * len(names)}
    counts = {"reviews": [HUGE] * len(names), "weight": [0.7] * len(names)}
    board = Board("items", {**columns, **counts}, parameters)
    return board_tables.board_table(board, board.rows)


def findings(names):
    subjects = ["all", *names, *(f"{a}>{b}" for a in names for b in names if a != b)]
    statuses = ("evidence", "indicator", "clear", "too_few", "not_identifiable")
    return report_views.findings_table(
        Audit(
            tuple(
                Finding(
                    "self_preference",
                    subject,
                    -0.00386,
                    -0.078,
                    0.0703,
                    0.0001,
                    HUGE,
                    30,
                    status,
                    mde=0.41,
                    n_needed=2 * HUGE,
                    edge=0.25,
                )
                for subject, status in zip(subjects, statuses * 20, strict=False)
            )
        )
    )


def means(names):
    return report_views.means_table(
        [
            Finding("calibration", name, 6.68 + i, 6.5, 12.9, None, HUGE, 50, "clear")
            for i, name in enumerate(names)
        ]
    )


def tastes(names):
    whose = [(judge, model, judge == model) for judge in names for model in names]
    departures = [
        Departure(*each, (-1) ** i * 0.01 * i, -HUGE, HUGE, HUGE) for i, each in enumerate(whose)
    ]
    all_of_them = AuditTastes(0.25, "estimated", tuple(departures))
    return tastes_table(all_of_them, tastes_by_judge(all_of_them))


def session_of(names):
    labels = "ABCDEF"
    slots = tuple(Slot(label, name) for label, name in zip(labels, names, strict=True))
    ranking, scores = tuple((label,) for label in labels), dict.fromkeys(labels, 7.25)
    notes = {label: f"Response {label} stays close to {HUGE}." for label in labels}
    return Session(
        "id",
        Query("Which?"),
        candidates=tuple(names),
        responses=tuple(Response(name, "text", Usage(HUGE, HUGE, 1234.5678)) for name in names),
        ballots=tuple(Ballot(name, slots) for name in names),
        reviews=tuple(Review(name, ranking, scores, notes=notes) for name in names),
    )


def view_of(names):
    seats = tuple(SeatRecord(name) for name in names)
    opened = Opened(
        Query("Which?"), "7", 0, "", seats, law=ScoringRecord(rubric=None, order="shuffle")
    )
    usage = Usage(HUGE, HUGE, 1234.5678)
    said = session_of(names)
    facts = [opened, *(Answered(name, "text", usage=usage) for name in names)]
    facts.append(Dealt(0, tuple(DealtBallot(name, tuple(names)) for name in names)))
    facts += [Reviewed(one.reviewer, 0, "", review=reading_of(one)) for one in said.reviews]
    events = [stored_event("id", i, 0.0, fact) for i, fact in enumerate(facts)]
    return SessionView.of(events, scoring=ScoringOptions(rule="elo"))


def ranking(names):
    return ranking_table(score_session(session_of(names), ScoringOptions(rule="elo")))


def grid(names):
    return grid_table(view_of(names), own_counts=False)


def marks(names):
    return marks_table(view_of(names).reviews[0])


def votes(names):
    question = TypedQuestion("urgent", "predicate", "It is urgent.")
    cast = dict.fromkeys(names, (0.25, 0.75))
    answer = PanelAnswer("urgent", (0.31, 0.69), cast, 1.5)
    opened = Opened(
        Query("Q", questions=(question,)),
        "0",
        0,
        "",
        tuple(SeatRecord(name, roles=("review",)) for name in names),
        law=ScoringRecord(rubric=None, order="balanced"),
    )
    facts = [opened, Verdict("decision", "urgent = false (69%)", answers=(answer,))]
    return votes_table(SessionView.of(stored_event("id", i, 0.0, f) for i, f in enumerate(facts)))


def bills(names):
    return bills_table(view_of(names))


def failures(names):
    failed = Counter({(name, "answer", "rate_limited"): HUGE for name in names})
    return failures_table(Progress(PLAIN, failures=failed))


def estimate(names):
    calls = Counter(dict.fromkeys(("answer", "review", "conclude"), HUGE))
    costs = {"about": 10**15, "at_most": 10**16}
    free, priced = None, Price(())
    seats = tuple(
        SeatEstimate(Seat(name), priced if i else free, calls, HUGE, HUGE, **costs)
        for i, name in enumerate(names)
    )
    return estimate_table(SeasonEstimate(seats, Progress(PLAIN)))


def tokens(names):
    return tokens_table(
        AccessToken(f"3f9a{i}", name, ("read", "review", "run"), "", 1234.5, 60.0, 1.8e9)
        for i, name in enumerate(names)
    )


def sessions(names):
    return sessions_table(
        [
            SessionEntry(
                f"0190e6a2-7b1c-{i:04}-9a51",
                "",
                i,
                "Why so?",
                name,
                1.8e9,
                None,
                "done",
                winner=name,
                cost_usd=1234.5678,
                unpriced_calls=HUGE,
                tags=("a_tag",),
            )
            for i, name in enumerate(names)
        ]
    )


def imported_tables(names):
    listed = [
        Import("reviews", "0" * 64, f"{name}.parquet", HUGE, 1.8e9, i, 1.8e9)
        for i, name in enumerate(names)
    ]
    return imports_table(listed)


def checks(names):
    return checks_table([Check(f"seat {name}", False, f"{HUGE} ms", "A fix.") for name in names])


def grid_so_far(names):
    view = SessionView()
    ballots = tuple(DealtBallot(name, tuple(names)) for name in names)
    reply = json.dumps({"ranking": [f"Response {letter}" for letter in "ABCDEF"]})
    facts = [Dealt(0, ballots), *(Reviewed(name, 0, reply) for name in names)]
    for i, fact in enumerate(facts):
        view.see(stored_event("id", i, 0.0, fact))
    return LiveScreen(Terminal(file=io.StringIO()), view).grid_so_far(PLAIN)


def worth(names):
    return judge_views.worth_table(advice(names))


def panels(names):
    return judge_views.panels_table(advice(names))


def advice(names):
    judges = tuple(JudgeWorth(name, HUGE, 0.0123, 0.0456, 0.5) for name in names)
    best = tuple(PanelAdvice((name,), 0.0123, 0.045, 0.06, 0.1, 0.5, None) for name in names)
    return Advice(judges, best, None, None, None, 0.05, (PLAIN, PLAIN))


def anchors(names):
    judges = tuple(JudgeDrift(name, "steady", PLAIN, HUGE, -0.25, -1.5, 1.0, 0.5) for name in names)
    moved = tuple(
        {"candidate": n, "moved": -0.25, "own": 1.5, "reviews_since": HUGE} for n in names
    )
    return AnchorReport(("a",), judges, ("2026-01-01",), moved)


def rejudging(names):
    shifts = tuple(Shift(name, 0.4, 0.6, 0.2, 0.1, 0.3, 40, 40, 0.7, 0.01) for name in names)
    return Rejudging("z", shifts, shifts, 40, 40, 0.4)


def drift(names):
    return judge_views.drift_table(anchors(names))


def candidates(names):
    return judge_views.candidates_table(anchors(names))


def telling(names):
    some = [TellingQuery(name, -0.125, ("s1", "s2"), PLAIN, PLAIN) for name in names]
    return gate_views.telling_table(some, "for the base")


def measures(names):
    decision = GateVerdict("worse", PLAIN)
    some = tuple(MeasureResult(name, decision, -0.125, -0.5, 0.25, {}, ()) for name in names)
    result = GateResult("a", "b", decision, some, PLAIN, PLAIN, None, {}, "by time")
    return gate_views.measures_table(result)


def requirements(names):
    results = tuple(
        RequirementResult(f"share({name}) > .5", "holds", 0.75, 0.625, 0.875) for name in names
    )
    return gate_views.requirements_table(CheckResult(results))


def metrics(names):
    advised = tuple(MetricAdvice(name, "missing", HUGE, "", "the texts") for name in names)
    counts = (HUGE, PLAIN, PLAIN, PLAIN)
    about = ("f.csv", "arena", "votes", "reviews")
    return file_views.metrics_table(Diagnosis(*about, *counts, {}, advised))


def people(names):
    shares = {
        f"{side}{end}": [0.5] * len(names)
        for side in ("judges", "people", "corrected")
        for end in ("", "_low", "_high")
    }
    columns = {"model": list(names), **shares, "people_queries": [PLAIN] * len(names)}
    return report_views.people_table(Board("models", columns))


def fragility(names):
    neighbours = [
        {"above": a, "below": b, "queries": HUGE, "exact": True} for a, b in pairwise(names)
    ]
    return report_views.fragility_table({"neighbours": neighbours})


def diff(names):
    changes = tuple(
        ModelChange(
            name, 0.5, 0.625, HUGE, PLAIN, 0.125, -0.5, 0.25, HUGE, True,
            0.125, {"removed": 0.0, "changed": 0.125, "added": 0.0}, (),
        )
        for name in names
    )  # fmt: skip
    part = ReviewPart("s1", "judge", "added", 0.125)
    exchanges = tuple(PlaceExchange(a, b, -0.125, 0.25, HUGE, (part,)) for a, b in pairwise(names))
    sides = (SideSummary(name, HUGE, HUGE, PLAIN) for name in ("a.jsonl", "b.jsonl"))
    counts = {"removed": PLAIN, "changed": PLAIN, "added": PLAIN, "same": HUGE}
    return ReviewDiff(*sides, changes, exchanges, HUGE, counts, (), HUGE, False)


def changed_models(names):
    return diff_views.changed_models_table(diff(names))


def exchanged(names):
    return diff_views.exchanges_table(diff(names))


def share(value=0.417):
    return Bounded(value, value - 0.083, value + 0.092)


def scorecard(judge):
    rate = PassRate(share(0.73), share(0.61), share(0.62), HUGE, HUGE)
    return Scorecard(
        judge,
        "verdicts",
        HUGE,
        HUGE,
        HUGE,
        advice="use_with_care",
        table=dict.fromkeys(("both_pass", "false_pass", "false_fail", "both_fail"), HUGE),
        false_pass_rate=share(),
        false_fail_rate=share(),
        precision=share(),
        accuracy=share(),
        constant_guess=0.61,
        kappa=share(0.52),
        ac1=share(0.6),
        pass_rate=rate,
        by_candidate=((judge, rate),),
        disagreements=tuple(
            Mismatch(f"{judge} {i}", name, 1.0, 0.0, "No source is named.", "The sky is blue.")
            for i, name in enumerate((judge, f"{judge}-b", "gpt", "x", "y", "z"))
        ),
    )


def judges_beside(names):
    cards = [scorecard(name) for name in names]
    behind = BehindBest(names[0], share(-0.11), 0.01, HUGE)
    cards = [cards[0], *(replace(card, behind_best=behind) for card in cards[1:])]
    return scorecard_views.comparison_table(cards)


def pass_rates(names):
    rate = scorecard(names[0]).pass_rate
    return scorecard_views.pass_rates_table(rate, [(name, rate) for name in names])


TABLES = {
    "comparison_table": judges_beside,
    "counts_table": lambda names: scorecard_views.counts_table(scorecard(names[0]).table),
    "figures_table": lambda names: scorecard_views.figures_table(scorecard(names[0])),
    "pass_rates_table": pass_rates,
    "mismatches_table": lambda names: scorecard_views.mismatches_table(scorecard(names[0])),
    "changed_models_table": changed_models,
    "exchanges_table": exchanged,
    "worth_table": worth,
    "panels_table": panels,
    "drift_table": drift,
    "rejudged_models_table": lambda names: judge_views.rejudged_models_table(rejudging(names)),
    "rejudges_table": lambda names: judge_views.rejudges_table(rejudging(names)),
    "candidates_table": candidates,
    "telling_table": telling,
    "measures_table": measures,
    "requirements_table": requirements,
    "metrics_table": metrics,
    "people_table": people,
    "fragility_table": fragility,
    "board_table": models,
    "matrix_table": matrix,
    "rules_table": rules,
    "history_table": history,
    "movers_table": movers,
    "pairs_table": pairs,
    "clusters_table": clusters,
    "findings_table": findings,
    "means_table": means,
    "tastes_table": tastes,
    "ranking_table": ranking,
    "failures_table": failures,
    "estimate_table": estimate,
    "tokens_table": tokens,
    "sessions_table": sessions,
    "imports_table": imported_tables,
    "checks_table": checks,
    "grid_so_far": grid_so_far,
    "grid_table": grid,
    "marks_table": marks,
    "bills_table": bills,
    "votes_table": votes,
}


ALL = {**TABLES, "contributors": contributors, "reviewers": reviewers, "items": items}


def test_every_table_of_the_product_is_tested_here():
    made = {
        function.name
        for path in DOORS.rglob("*.py")
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for call in ast.walk(function)
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "TextTable"
    }
    assert made == set(TABLES)


def drawn(table, width):
    """What a terminal of this width shows of a table, in lines; None is a pipe."""
    out = io.StringIO()
    how = {} if width is None else {"width": width, "force_terminal": True, "no_color": True}
    Terminal(file=out, **how).show_table(table)
    return COLOURS.sub("", out.getvalue()).splitlines()


def texts(table, at):
    cells = [row[at] for row in table.rows]
    return [cell if isinstance(cell, str) else cell.text for cell in cells]


def without_below(table):
    """The table without what stands on lines of its own under its rows."""
    bare = TextTable(*table.columns, title=table.title, sections=table.sections)
    for row, section in zip(table.rows, table.section_by_row, strict=True):
        cells = zip(table.columns, row, strict=True)
        bare.add(*("" if col.kind == "below" else cell for col, cell in cells), section=section)
    return bare


def left_out(lines):
    """The heads of columns that a line below the table says are missing."""
    found = re.search(
        r"Columns left out to fit the width: (.*)\.", " ".join(" ".join(lines).split())
    )
    return found[1].split(", ") if found else []


def from_column(line, start):
    """What stands in a line from a column of the screen on, up to a gap."""
    while start > 0 and line:
        start -= cell_len(line[0])
        line = line[1:]
    return re.split(r"\s{2,}", line)[0].rstrip()


CASES = [(name, panel) for name in ALL for panel in PANELS]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("name", "panel"), CASES)
def test_on_a_terminal_no_line_is_too_long_and_no_number_is_cut(name, panel, width):
    table = ALL[name](PANELS[panel])
    lines = drawn(table, width)
    assert max(map(cell_len, lines)) <= width
    words = set(" ".join(lines).split())
    gone = left_out(lines)
    for at, column in enumerate(table.columns):
        if column.kind in ("number", "word") and not column.in_pipe and column.head not in gone:
            assert {word for text in texts(table, at) for word in text.split()} <= words


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("name", "panel"), CASES)
def test_on_a_terminal_no_two_names_look_alike(name, panel, width):
    table = without_below(ALL[name](PANELS[panel]))
    lines = drawn(table, width)
    names = [column.head for column in table.columns]
    assert len(names) == len(set(names))
    for at, column in enumerate(table.columns):
        if column.kind != "name" or column.head in left_out(lines):
            continue
        heads = ((i, line) for i, line in enumerate(lines) if line.strip() not in table.title)
        first = next(i for i, line in heads if column.head in line)
        start = cell_len(lines[first][: lines[first].index(column.head)])
        below = [line for line in lines[first + 1 :] if not line.startswith("──")]
        names = [text for text in texts(table, at) if text]
        shown = [text for text in (from_column(line, start) for line in below) if text]
        form_by_name = dict(zip(names, shown, strict=False))
        assert len(set(form_by_name.values())) == len(set(names))
        for whole, form in form_by_name.items():  # pieces of the name, with or without its date
            wholes = (whole, *map(drop_date, whole.split(">")))
            for part in (part for piece in form.split(">") for part in piece.split("…")):
                assert any(part in one for one in wholes)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("panel", PANELS)
@pytest.mark.parametrize("name", ["grid_table", "grid_so_far"])
def test_on_a_terminal_no_two_names_over_columns_look_alike(name, panel, width):
    table = ALL[name](PANELS[panel])
    lines = drawn(table, width)
    heads = re.split(r"\s{2,}", lines[0].strip())[1:]
    n_named = sum(column.named and column.head not in left_out(lines) for column in table.columns)
    assert len(set(heads)) == len(heads) == n_named
    wholes = [column.head for column in table.columns if column.named]
    wholes += [drop_date(whole) for whole in wholes]
    for form in heads:
        assert any(all(part in whole for part in form.split("…")) for whole in wholes)


@pytest.mark.parametrize(("name", "panel"), CASES)
def test_a_pipe_gets_every_cell_whole_in_an_aligned_markdown_table(name, panel):
    table = ALL[name](PANELS[panel])
    lines = drawn(table, None)
    rows = [line for line in lines if line.startswith("|")]
    assert len(rows) == len(table.rows) + 2
    assert len(set(map(cell_len, rows))) == 1
    for row, line in zip(table.rows, rows[2:], strict=True):
        for column, cell in zip(table.columns, row, strict=True):
            if column.kind != "drawing":
                assert (cell if isinstance(cell, str) else cell.text) in line
    assert not BOXES.search("\n".join(lines))


# -- any table -----------------------------------------------------------------------------------

names = st.text(st.sampled_from("ab-2/中é"), min_size=1, max_size=50)


@given(st.lists(names, min_size=1, unique=True), st.integers(4, 40))
def test_short_names_stay_apart_and_are_no_longer_than_they_need(names, room):
    short = short_names(names, room)
    assert len(set(short.values())) == len(names)
    if max(map(cell_len, names)) <= room:
        assert short == {name: name for name in names}


@given(
    st.lists(st.tuples(names, st.integers(-(10**12), 10**12), st.floats(0, 1)), max_size=12),
    st.integers(60, 200),
    st.booleans(),
)
def test_any_table_fits_and_keeps_its_numbers(rows, width, ascii_only):
    table = TextTable(
        TableColumn("name", "name"),
        TableColumn("count"),
        TableColumn("0 to 1", "drawing", use=1),
        TableColumn("a share of something", use=2),
    )
    for name, count, part in rows:
        table.add(name, str(count), Interval(part, part / 2, part), f"{part:.3f}")
    lines = ["".join(cell.text for cell in line) for line in table.lines(width, ascii_only)]
    assert max(map(cell_len, lines)) <= width
    assert {str(count) for _, count, _ in rows} <= set(" ".join(lines).split())


def test_a_vendor_is_dropped_only_where_that_leaves_names_apart():
    assert fitting_forms(["v/a", "v/b", "all"], 2) == {"v/a": "a", "v/b": "b", "all": "all"}
    assert fitting_forms(["v/a", "v/b", "v/a>v/b"], 4)["v/a>v/b"] == "a>b"
    for whole in (["v/a", "w/a"], ["v/a", "a"], ["v/"]):
        assert fitting_forms(whole, 1) == {name: name for name in whole}


def test_names_lose_vendor_and_date_before_they_are_cut_between_their_parts():
    names = ["anthropic/claude-sonnet-4.5-20260929:thinking", "openai/gpt-5.2-2026-08-07:high"]
    assert list(short_names(names, 45).values()) == names
    assert short_names(names, 35)[names[0]] == "claude-sonnet-4.5-20260929:thinking"
    assert list(short_names(names, 28).values()) == ["claude-sonnet-4.5:thinking", "gpt-5.2:high"]
    assert short_names(names, 18)[names[0]] == "claude-…thinking"
    twelve = [f"anthropic/claude-sonnet-4.{i}-20260929:thinking" for i in range(12)]
    assert len(set(short_names(twelve, 24).values())) == 12


def test_a_name_that_nothing_can_shorten_is_folded_and_not_lost():
    alike = ["a" * 60 + middle + "a" * 60 for middle in "xyz"]
    table = TextTable(TableColumn("name", "name"), TableColumn("n"))
    for name in alike:
        table.add(name, str(HUGE))
    text = "".join(drawn(table, 60)).replace(" ", "").replace(str(HUGE), "")
    assert all(middle in text for middle in "xyz")


def test_pairs_of_names_fit_the_narrowest_terminal():
    table = findings(LOOK_ALIKE)
    assert all(LOOK_ALIKE[0][-2:] in "".join(drawn(table, width)) for width in range(20, 40))


def test_a_board_is_drawn_where_it_has_one_number_to_draw():
    kinds = {name: [column.kind for column in ALL[name](LOOK_ALIKE).columns] for name in BOARDS}
    n_drawings = {name: found.count("drawing") for name, found in kinds.items()}
    assert n_drawings == {"board_table": 1, "contributors": 0, "reviewers": 1, "items": 1}


def test_a_column_with_nothing_in_it_takes_no_room():
    listed = [SessionEntry("0190e6a2-7b1c", "", 0, "Why?", "", 1.8e9, None, "done")]
    assert "category" not in " ".join(drawn(sessions_table(listed), 60))


def test_an_interval_lies_on_its_scale():
    assert Interval(0.5, 0.0, 1.0).draw(11) == "─────●─────"
    assert Interval(0.0, ends=(-1.0, 1.0)).draw(11) == "·····●·····"
    assert Interval(7.0, -9.0, 0.5).draw(11) == "──────····●"
    assert Sparkline((0.0, None, 1.0)).draw(3) == "▁ █"
    assert Strip((-1.0, 0.4, 9.0), 0.4, (-1.0, 1.0)).draw(11) == "●····│·◆··●"
    assert Strip((), None, (-1.0, 1.0)).draw(11) == "·····│·····"
