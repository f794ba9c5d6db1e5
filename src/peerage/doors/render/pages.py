"""Boards, audits and sessions as HTML pages: one file each, without scripts or requests.

Values are prepared here; the templates contain all HTML and SVG.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from peerage.boards import Board
from peerage.doors.render.board_tables import (
    Row,
    board_table,
    rows_by_category,
    scale_ends,
)
from peerage.doors.render.finding_words import (
    GRAVE,
    audit_counts,
    audit_headline,
    finding_sentence,
    is_in_shares,
    reach_in_short,
)
from peerage.doors.render.layout import Block, Heading, TextTable
from peerage.doors.render.model_names import clear_names, clear_winners, model_name
from peerage.doors.render.page_work import one_page
from peerage.doors.render.phrases import (
    NOTHING,
    agreement,
    board_options,
    flag_text,
    one_line,
    rank_groups,
    ranking_line,
    selection_words,
    tie_rule,
    tuning,
    window_of,
)
from peerage.doors.render.prose import prose_answer
from peerage.doors.render.report_views import (
    STATUS_MEANINGS,
    STATUS_STYLES,
    findings_table,
    fragility_lines,
    rules_table,
)
from peerage.doors.render.scorecard_views import scorecard_blocks
from peerage.doors.render.session_views import session_blocks
from peerage.doors.render.taste_views import (
    BAND,
    MAX_JUDGES,
    MAX_MODELS,
    JudgeTastes,
    spread_words,
    taste_ends,
    tastes_by_judge,
)
from peerage.errors import PeerageError, how_many
from peerage.findings import Audit, AuditTastes, Finding
from peerage.reviews.columns import instant_s
from peerage.stores import SessionEntry
from peerage.text import visible
from peerage.view import SessionView

COMMAND = re.compile(r"`(peerage [^`]+)`")
MAX_BARS = 60  # bars of a chart
MAX_ROWS = 2_000  # rows of a table
MAX_CALM = 12  # an audit with more reviewers without a sign of bias folds them
MAX_OPEN = 4  # a page with more answers or reviewers folds them
MAX_TITLE, MAX_QUESTION = 80, 240  # characters of a question in the title and at the top of a page
MAX_LINES = 8  # of a chart by week: more could not be distinguished


@cache
def environment() -> Environment:
    """Return the template environment; it escapes all texts and shows invisible characters."""
    templates = Environment(
        loader=PackageLoader("peerage.doors.render"),
        autoescape=True,
        finalize=_visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.globals |= {"how_many": how_many, "model_name": model_name}
    templates.globals |= {"clear_names": clear_names, "local_time": local_time}
    templates.globals |= {"with_commands": with_commands, "site": NO_SITE}
    templates.globals |= {"status_meanings": STATUS_MEANINGS}
    return templates


class PageLink(NamedTuple):
    """A link from one page to another of the same folder."""

    address: str
    name: str
    is_here: bool = False


class Site(NamedTuple):
    """Pages that belong together: their common title, and the links between them."""

    title: str = ""
    links: Sequence[PageLink] = ()
    around: Sequence[PageLink] = ()  # to pages of the server outside of these


NO_SITE = Site()  # for a page that stands alone


def _visible(value: Any) -> Any:
    if hasattr(value, "__html__"):  # HTML that a macro of ours has made
        return value
    return NOTHING if value is None else visible(str(value), multiline=True)


def with_commands(text: str) -> Markup:
    """Return a line with our commands in backticks as code; other backticks stay."""
    parts = COMMAND.split(visible(text, multiline=True))  # commands are at odd places
    code = Markup("<code>{}</code>")
    return Markup("").join(code.format(part) if i % 2 else part for i, part in enumerate(parts))


def local_time(at: float | str) -> Markup:
    """Return a time as an element that the page's script converts to the reader's zone.

    A time that no calendar date fits, which imported tables may have, stays as written.
    """
    try:
        utc = datetime.fromtimestamp(instant_s(at), UTC)
    except (OverflowError, ValueError, OSError, PeerageError):
        return escape(at)
    return Markup('<time datetime="{}" data-local>{} UTC</time>').format(
        utc.isoformat(timespec="seconds").replace("+00:00", "Z"), f"{utc:%Y-%m-%d %H:%M}"
    )


# -- charts and tables ---------------------------------------------------------------------------


class Bar(NamedTuple):
    """One line of a chart: a point with its interval, or stacked parts."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    parts: tuple[tuple[float, float], ...] = ()
    n: str = ""
    status: str = ""


Percent = Callable[[float], float]  # a value's place on a scale, in percent of the width


@dataclass(frozen=True, slots=True)
class Chart:
    """Bars on one scale in labelled groups; `x` converts a value to percent of the width."""

    label: str
    groups: Sequence[tuple[str, Sequence[Bar]]]
    x: Percent
    ticks: Sequence[float]
    n_left_out: int = 0
    key: Sequence[str] = ()  # the meaning of each part of a bar


def bar_chart(
    label: str,
    groups: Iterable[tuple[str, Sequence[Bar]]],
    ends: tuple[float, float] | None = None,
    key: Sequence[str] = (),
) -> Chart | None:
    """Return a chart of the first bars, or None; without `ends` the scale fits all values."""
    drawn, n_left_out, room = [], 0, MAX_BARS
    for name, bars in groups:
        n_left_out += max(0, len(bars) - room)
        if bars[:room]:
            drawn.append((name, bars[:room]))
        room = max(0, room - len(bars))
    if not drawn:
        return None
    if ends is None:
        all_bars = [bar for _, bars in drawn for bar in bars]
        edges = [x for bar in all_bars for x in (bar.value, bar.low, bar.high) if x is not None]
        edges += [edge for bar in all_bars for part in bar.parts for edge in part]
        ends = (min(edges), max(edges))
    low, high = ends if ends[0] < ends[1] else (ends[0] - 0.5, ends[0] + 0.5)
    return Chart(label, drawn, _percent(low, high), _ticks(low, high), n_left_out, key)


class Axis(NamedTuple):
    """A scale: converts values to percent of the width, and has round tick numbers."""

    x: Percent
    ticks: Sequence[float]


def axis_around(values: Iterable[float | None]) -> Axis:
    """Return a scale that fits these values, with some room at both ends."""
    known = [value for value in values if value is not None]
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    room = 0.04 * (high - low) or 0.05
    return Axis(_percent(low - room, high + room), _ticks(low - room, high + room))


def _percent(low: float, high: float) -> Percent:
    """Return a function from a value to its percentage between two ends, clipped."""
    return lambda value: round(100 * (min(max(value, low), high) - low) / (high - low), 1)


def _ticks(low: float, high: float) -> list[float]:
    """Return four to nine round numbers from low to high."""
    rough = (high - low) / 4
    size = 10 ** math.floor(math.log10(rough))
    step = next(size * m for m in (5, 2, 1) if size * m <= rough)
    return [round(i * step, 12) for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


# -- boards --------------------------------------------------------------------------------------


def board_page(board: Board, site: Site = NO_SITE) -> str:
    """Return a board as a page: a chart and a table, or one of each per category."""
    notes = board.notes
    outside = [agreement(notes["against"])] if "against" in notes else []
    outside += [tuning(notes["tuned"])] if "tuned" in notes else []
    order = [row["model"] for row in board.rows if "model" in row]
    return _page(
        "board.html",
        site=site,
        title=board.board.capitalize(),
        window=window_of(board),
        options=board_options(board),
        ties=tie_rule(board.board),
        ranking=ranking_line(board),
        flags=[flag_text(flag) for flag in board.flags],
        hint=board.hint,
        parts=[
            (
                title,
                board_chart(board, rows),
                board_table(board, rows[:MAX_ROWS]),
                max(0, len(rows) - MAX_ROWS),
            )
            for title, rows in rows_by_category(board)
        ],
        outside=outside,
        matrix=notes.get("matrix"),
        fragility=fragility_lines(notes["fragility"]) if "fragility" in notes else [],
        weeks=week_chart(notes.get("history") or (), order),
        rules=rules_table(notes["rules"]) if "rules" in notes else None,
    )


def _page(template: str, **values: Any) -> str:
    with one_page():
        return environment().get_template(template).render(**values)


def board_chart(board: Board, rows: Sequence[Row]) -> Chart | None:
    """Return the chart of a board's ranking values, or None if the board has none."""
    if board.board == "models":
        groups = [
            (label, list(map(_model_bar, group)))
            for label, group in rank_groups([row for row in rows if row["share"] is not None])
        ]
        common = " on common rivals" if "share_common" in board.columns else ""
        title = f"Share of rivals beaten{common}, with 95% intervals"
        return bar_chart(title, groups)
    if board.board == "contributors":
        key = ("quality of items", "bonus for affiliation")
        return bar_chart("Total score", [("", list(map(_contributor_bar, rows)))], key=key)
    if board.board == "reviewers":
        label = "Correlation with the opinions of others, with 95% intervals"
        judged = [row for row in rows if row["pearson"] is not None]
        bars = [_reviewer_bar(row) for row in judged if row["status"] != "undefined"]
    else:
        label = "Quality: people's opinions"
        judged = [row for row in rows if row["quality"] is not None]
        bars = [
            _bar_from_zero(row["item_id"], row["quality"], f"n {row['reviews']}") for row in judged
        ]
    return bar_chart(label, [("", bars)], scale_ends(board))


def _model_bar(row: Row) -> Bar:
    n = how_many(row["appearances"], "session")
    name = "share_common" if "share_common" in row else "share"
    return Bar(row["model"], row[name], row[f"{name}_low"], row[f"{name}_high"], n=n)


def _reviewer_bar(row: Row) -> Bar:
    n = f"n {row['qualifying']}"
    return Bar(row["reviewer"], row["pearson"], row["low"], row["high"], n=n)


def _contributor_bar(row: Row) -> Bar:
    quality, bonus = row["quality_score"], row["affiliation_bonus"]
    start = max(0.0, quality)
    parts = ((min(0.0, quality), start), (start, start + bonus))
    n = f"n {row['reviews_received']}, {how_many(row['items_scored'], 'item')}"
    return Bar(row["contributor"], row["total_score"], parts=parts, n=n)


def _bar_from_zero(name: str, value: float, n: str = "") -> Bar:
    return Bar(name, value, parts=((min(0.0, value), max(0.0, value)),), n=n)


class WeekLine(NamedTuple):
    """A model's points by week, in a chart of 100 × 100 units, and the outline of its intervals."""

    name: str
    points: Sequence[tuple[float, float]]
    band: Sequence[tuple[float, float]]
    words: Sequence[str]  # the description of each point


def _week_words(point: Row) -> str:
    ends = (point["share_low"], point["share_high"])
    interval = "" if None in ends else f" [{ends[0]:.2f}, {ends[1]:.2f}]"
    return f"{point['model']}, week of {point['week']}: {point['share']:.3f}{interval}"


def week_chart(
    points: Sequence[Row], order: Sequence[str], max_lines: int = MAX_LINES
) -> dict[str, Any] | None:
    """Return the shares of the best models by week as chart lines, or None if there are none."""
    points = [point for point in points if point["share"] is not None]
    if not points:
        return None
    weeks = sorted({point["week"] for point in points})
    x_by_week = {
        week: round(100 * i / (len(weeks) - 1), 2) if len(weeks) > 1 else 50.0
        for i, week in enumerate(weeks)
    }

    def places(points: Iterable[Row], value: str) -> list[tuple[float, float]]:
        return [(x_by_week[p["week"]], round(100 * (1 - p[value]), 2)) for p in points]

    lines = []
    models = {point["model"] for point in points}
    for name in [name for name in dict.fromkeys(order) if name in models][:max_lines]:
        mine = [point for point in points if point["model"] == name]
        known = [point for point in mine if point["share_low"] is not None]
        band = [*places(known, "share_high"), *places(reversed(known), "share_low")]
        lines.append(WeekLine(name, places(mine, "share"), band, [_week_words(p) for p in mine]))
    every = max(1, math.ceil(len(weeks) / 8))
    n_more = len(models) - len(lines)
    return {"ticks": list(x_by_week.items())[::every], "lines": lines, "n_more": n_more}


# -- sessions ------------------------------------------------------------------------------------


def session_page(view: SessionView, raw: bool = False, site: Site = NO_SITE) -> str:
    """Return one session as a page with everything that `peerage show` prints."""
    question = one_line(view.query.text, MAX_QUESTION)
    sections: list[tuple[Heading | None, list[tuple[str, Block]]]] = [(None, [])]
    for block in session_blocks(view, raw):
        if isinstance(block, Heading):
            sections.append((block, []))
        else:
            sections[-1][1].append((type(block).__name__, block))
    is_long = len(view.answers) > MAX_OPEN
    return _page(
        "session.html",
        site=site,
        title=one_line(view.query.text, MAX_TITLE),
        question=question,
        is_whole=question == view.query.text.strip(),
        sections=sections,
        is_long=is_long,
        prose=prose_answer,
    )


def list_page(lines: Sequence[tuple[str, SessionEntry]], site: Site = NO_SITE) -> str:
    """Return a list of sessions as a page, with links to their pages."""
    winners = clear_winners({one.winner for _, one in lines})
    return _page("list.html", site=site, lines=lines, winners=winners)


# -- audits --------------------------------------------------------------------------------------

FORESTS = {
    "calibration": "Mean score by reviewer",
    "agreement": "Agreement with the other reviewers",
    "self_preference": "Preference for its own answers",
}


def audit_page(audit: Audit, site: Site = NO_SITE) -> str:
    """Return an audit as a page: the verdict, a line for each reviewer, and the rest folded."""
    reviewers = findings_by_reviewer(audit)
    calm = [one for one in reviewers if not one.grave]
    folds_calm = len(calm) > MAX_CALM
    return _page(
        "audit.html",
        site=site,
        chosen=selection_words(audit.views),
        n_reviewers=audit.views.get("reviewers", 0),
        n_reviews=audit.views.get("reviews", 0),
        headline=audit_headline(audit),
        counts=audit_counts(audit),
        flags=[flag_text(flag) for flag in audit.views.get("flags", ())],
        against_people=[
            (type(one).__name__, one) for one in scorecard_blocks(audit.against_people)
        ],
        prose=prose_answer,
        charts=audit_charts(audit),
        tastes=taste_chart(audit.tastes),
        statuses={status for reviewer in reviewers for status, _ in reviewer.counts},
        reviewers=[one for one in reviewers if one.grave or not folds_calm],
        calm=calm if folds_calm else [],
    )


class GraveFinding(NamedTuple):
    """A finding that is evidence or an indicator, in words."""

    status: str
    sentence: str
    value: str  # with its interval and number of observations


class ReviewerFindings(NamedTuple):
    """The findings on one reviewer; findings on the whole panel have no name."""

    name: str
    grave: Sequence[GraveFinding]
    counts: Sequence[tuple[str, int]]  # number of findings by status, the most serious first
    table: TextTable
    reach: str  # how many of the checks could find something


def findings_by_reviewer(audit: Audit) -> list[ReviewerFindings]:
    """Return findings by reviewer: those with signs of bias first, evidence before indicators."""
    by_name: dict[str, list[Finding]] = {}
    for finding in audit.findings:
        name = "" if finding.subject == "all" else finding.subject.partition(">")[0]
        by_name.setdefault(name, []).append(finding)
    cards = []
    for name, findings in by_name.items():
        n = Counter[str](finding.status for finding in findings)
        counts = [(status.replace("_", " "), n[status]) for status in STATUS_STYLES if n[status]]
        about = replace(audit, findings=tuple(findings))
        table = findings_table(about, plain=True)
        grave = [
            _grave_finding(one, is_in_shares(audit, one.subject))
            for one in findings
            if one.status in GRAVE
        ]
        grave.sort(key=lambda one: GRAVE.index(one.status))
        cards.append(ReviewerFindings(name, grave, counts, table, reach_in_short(about)))
    return sorted(
        cards,
        key=lambda card: (
            GRAVE.index(card.grave[0].status) if card.grave else len(GRAVE),
            card.name == "",
            card.name,
        ),
    )


def _grave_finding(one: Finding, in_shares: bool) -> GraveFinding:
    between = "" if one.low is None else f", 95% from {one.low:.3g} to {one.high:.3g}"
    value = NOTHING if one.value is None else f"{one.value:.3g}"
    sentence = finding_sentence(one, in_shares)
    return GraveFinding(one.status, sentence, f"{value}{between}, n {one.n:,}")


def audit_charts(audit: Audit) -> list[Chart]:
    """Return the charts of an audit: scores by position, and the reviewers side by side."""
    bars = {
        "Score by position shown, relative to the mean of the same answer": [
            _bar_from_zero(f"shown as number {point['position'] + 1}", point["mean"])
            for point in audit.views.get("position_curve", [])
            if point["mean"] is not None
        ]
    }
    for metric, label in FORESTS.items():
        bars[label] = [
            Bar(one.subject, one.value, one.low, one.high, n=f"n {one.n}", status=one.status)
            for one in audit.findings
            if one.metric == metric and one.value is not None
        ]
    charts = (bar_chart(label, [("", drawn)]) for label, drawn in bars.items() if len(drawn) > 1)
    return [chart for chart in charts if chart is not None]


class TasteChart(NamedTuple):
    """Each reviewer's tastes as a chart, all on one scale, with the band of usual tastes."""

    judges: Sequence[JudgeTastes]
    x: Percent
    ticks: Sequence[float]
    band: tuple[float, float]
    spread: str  # how much tastes scatter, in words
    n_left_out: int  # reviewers


def taste_chart(tastes: AuditTastes | None) -> TasteChart | None:
    """Return the tastes of the first reviewers by name; None if no departure is known."""
    judges = tastes_by_judge(tastes, MAX_MODELS)
    if tastes is None or not judges:
        return None
    drawn = judges[:MAX_JUDGES]
    low, high = taste_ends(drawn, tastes.spread)
    band = (-BAND * tastes.spread, BAND * tastes.spread)
    words, n_left_out = spread_words(tastes), len(judges) - len(drawn)
    tick = _ticks(low, high)[-1]  # the labels of more than three ticks would overlap
    return TasteChart(drawn, _percent(low, high), (-tick, 0.0, tick), band, words, n_left_out)


def gone_page() -> str:
    """Return the page behind a link that has expired or was revoked."""
    return _page("gone.html")
