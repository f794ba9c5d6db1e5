"""A board as one HTML file: no script, no font, no picture from elsewhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from peerage.boards import Board
from peerage.doors.cli.output import agreement
from peerage.doors.visible import html_text as escape

WIDTH, LABEL = 760, 190  # pixels of a drawing
COLOURS = ("#0b78a8", "#c2410c", "#4d7c0f", "#7e22ce", "#b45309", "#0f766e", "#be123c", "#4f46e5")
MAX_LINES = len(COLOURS)  # of a history: more would not be told apart
MAX_BARS = 60
MAX_ROWS = 2_000
STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --paper: #fff; --soft: #5a6675; --rule: #e4e8ee;
  --mark: #0b78a8; --other: #c2410c; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem;
  color: var(--ink); background: var(--paper); overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.said { color: var(--soft); font-size: .9rem; } .scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; width: 100%; }
th, td { text-align: right; padding: .25rem .6rem; border-bottom: 1px solid var(--rule); }
td { white-space: nowrap; }
.name { text-align: left; } tr.tier td { border-top: 2px solid var(--soft); }
.scroll svg { width: 100%; min-width: 36rem; height: auto; font: 12px system-ui, sans-serif; }
svg text { fill: currentColor; }
.bars { margin: 1rem 0; padding: 0; list-style: none; font-variant-numeric: tabular-nums; }
.bars li { display: grid; grid-template-columns: minmax(6rem, 14rem) 1fr 11rem; gap: 0 .8rem;
  align-items: center; }
.bars li.tier { border-top: 1px dashed var(--soft); }
.bars b { font-weight: 400; text-align: right; overflow: hidden; text-overflow: ellipsis;
  white-space: nowrap; }
.bars svg { width: 100%; height: 26px; overflow: visible; font: 11px system-ui, sans-serif; }
.bars small { color: var(--soft); white-space: nowrap; }
.key::before { content: ""; display: inline-block; width: .8em; height: .8em; margin-right: .3em;
  background: var(--mark); opacity: .6; } .key.other::before { background: var(--other); }
.key { font-weight: 400; }
.grid { stroke: var(--soft); stroke-opacity: .25; } .zero { stroke: var(--soft); }
.interval { stroke: var(--mark); stroke-width: 5; stroke-linecap: round; stroke-opacity: .45; }
.point, .part { fill: var(--mark); } .part { fill-opacity: .45; }
.part.other { fill: var(--other); }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ee; --paper: #14181f; --soft: #9aa6b5;
  --rule: #2b333f; --mark: #38bdf8; --other: #fb923c; } }
@media (max-width: 40rem) { .bars li { grid-template-columns: 1fr auto; }
  .bars b { text-align: left; } .bars li { margin-bottom: .7rem; }
  .bars svg { grid-column: 1 / -1; grid-row: 2; height: 14px; } }
"""
HEADS = {
    "rank": "rank",
    "model": "model",
    "contributor": "contributor",
    "reviewer": "reviewer",
    "item_id": "item",
    "share": "share",
    "share_low": "from",
    "share_high": "to",
    "rank_low": "best rank",
    "rank_high": "worst rank",
    "value": "value",
    "aggregate_borda": "Borda",
    "mean_score": "score",
    "z_score": "z",
    "share_length_controlled": "at equal length",
    "total_wins": "wins",
    "total_votes": "votes",
    "appearances": "sessions",
    "pearson": "r",
    "low": "from",
    "high": "to",
}
NAMES = ("model", "contributor", "reviewer", "item_id", "category", "band", "status")


class Bar(NamedTuple):
    """One line of a chart: a point in its interval, or parts that add up from zero to it."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    parts: tuple[tuple[float, float], ...] = ()
    n: str = ""
    tier: int | None = None


def render_board(board: Board) -> str:
    """The whole page."""
    parts: dict[str, list[Mapping[str, Any]]] = {}
    for row in board.rows:
        parts.setdefault(str(row.get("category", "")), []).append(row)
    chart = CHARTS[board.board]
    title = board.board.capitalize()
    body = [f"<h1>{title}</h1>{_said(board)}"]
    for name, rows in parts.items():
        if "category" in board.columns:
            body.append(f"<h2>{escape(name or 'no category')}</h2>")
        body += [chart(rows, board.parameters), _table(rows)]
    if not parts:
        body.append("<p>Nothing to rank here.</p>")
    if "against" in board.notes:
        body.append(f"<p>{escape(agreement(board.notes['against']))}.</p>")
    if "matrix" in board.notes:
        body.append("<h2>Head to head</h2>" + _heat_map(board.notes["matrix"]))
    if board.notes.get("history"):
        body.append("<h2>Week by week</h2>" + _history(board.notes["history"], parts))
    if "rules" in board.notes:
        body.append("<h2>Other rules, same ballots</h2>" + _rules(board.notes["rules"]))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Board of {board.board}</title><style>{STYLE}</style></head>\n<body>"
        + "\n".join(body)
        + "</body></html>\n"
    )


def _said(board: Board) -> str:
    """What the board was computed under, and what is odd about it."""
    notes = {name: board.notes[name] for name in ("sessions", "reviews") if name in board.notes}
    named = {**notes, "rule": board.notes.get("rule"), **board.parameters}
    listed = ", ".join(
        f"{escape(name.replace('_', ' '))} {escape(str(value))}"
        for name, value in named.items()
        if value is not None and value is not False
    )
    flags = "".join(f"<li>{escape(flag.replace('_', ' '))}</li>" for flag in board.flags)
    return f'<p class="said">{listed}.</p>' + (f"<ul>{flags}</ul>" if flags else "")


# -- bars ---------------------------------------------------------------------------------------


def _models(rows: Sequence[Mapping[str, Any]], _: Mapping[str, Any]) -> str:
    bars = [
        Bar(
            row["model"],
            row["share"],
            row["share_low"],
            row["share_high"],
            n=f"{row['appearances']} sessions",
            tier=row["tier"],
        )
        for row in rows
        if row["share"] is not None
    ]
    return _bars(bars, "Share of rivals beaten, with 95% intervals; a line parts the tiers", 0, 1)


def _contributors(rows: Sequence[Mapping[str, Any]], _: Mapping[str, Any]) -> str:
    bars = []
    for row in rows:
        quality, bonus = row["quality_score"], row["affiliation_bonus"]
        start = max(0.0, quality)
        parts = ((min(0.0, quality), start), (start, start + bonus))
        n = f"n {row['reviews_received']}, {row['items_scored']} items"
        bars.append(Bar(row["contributor"], row["total_score"], parts=parts, n=n))
    label = 'Total score: <b class="key">quality of items</b> and <b class="key other">bonus</b>'
    return _bars(bars, label)


def _reviewers(rows: Sequence[Mapping[str, Any]], _: Mapping[str, Any]) -> str:
    bars = [
        Bar(row["reviewer"], row["pearson"], row["low"], row["high"], n=f"n {row['qualifying']}")
        for row in rows
        if row["pearson"] is not None and row["status"] != "undefined"
    ]
    return _bars(bars, "Correlation with the others' opinions, with 95% intervals", -1, 1)


def _items(rows: Sequence[Mapping[str, Any]], said: Mapping[str, Any]) -> str:
    bars = [
        Bar(
            row["item_id"],
            row["quality"],
            parts=((min(0.0, row["quality"]), max(0.0, row["quality"])),),
            n=f"n {row['reviews']}",
        )
        for row in rows
    ]
    return _bars(bars, "Quality: the mean opinion", said["scale"][0], said["scale"][-1])


CHARTS: Mapping[str, Callable[[Sequence[Mapping[str, Any]], Mapping[str, Any]], str]] = {
    "models": _models,
    "contributors": _contributors,
    "reviewers": _reviewers,
    "items": _items,
}


def _bars(
    bars: Sequence[Bar], label: str, least: float | None = None, most: float | None = None
) -> str:
    """A list of bars on one scale, labels as text, so that it reads on any width of screen."""
    shown = bars[:MAX_BARS]
    if not shown:
        return ""
    edges = [edge for bar in shown for part in bar.parts for edge in part]
    edges += [0.0, *(bar.value for bar in shown)]
    low = min(edges) if least is None else least
    high = (max(edges) if most is None else most) or low + 1.0

    def x(value: float) -> float:
        return round(100 * (min(max(value, low), high) - low) / (high - low), 2)

    ticks = _ticks(low, high)
    grid = "".join(
        f'<line class="{"grid" if at else "zero"}" x1="{x(at)}%" x2="{x(at)}%" y1="0" y2="100%"/>'
        for at in ticks
    )
    lines = []
    for before, bar in zip([shown[0], *shown], shown, strict=False):
        parted = "" if before.tier == bar.tier else ' class="tier"'
        name = escape(bar.name)
        lines.append(
            f'<li{parted}><b title="{name}">{name}</b><svg aria-hidden="true">{grid}{_mark(bar, x)}'
            f"</svg><span>{bar.value:.3f} <small>{escape(bar.n)}</small></span></li>"
        )
    axis = "".join(f'<text x="{x(at)}%" y="14" text-anchor="middle">{at:g}</text>' for at in ticks)
    lines.append(f'<li aria-hidden="true"><b></b><svg>{axis}</svg><span></span></li>')
    more = f" The first {MAX_BARS} of {len(bars):,}." if len(bars) > MAX_BARS else ""
    return f'<p class="said">{label}.{more}</p><ul class="bars">{"".join(lines)}</ul>'


def _mark(bar: Bar, x: Callable[[float], float]) -> str:
    drawn = [
        f'<rect class="part{" other" if i else ""}" x="{x(start)}%" y="25%" height="50%" '
        f'width="{x(end) - x(start):.2f}%"/>'
        for i, (start, end) in enumerate(bar.parts)
    ]
    if bar.low is not None and bar.high is not None:
        drawn.append(
            f'<line class="interval" x1="{x(bar.low)}%" x2="{x(bar.high)}%" y1="50%" y2="50%"/>'
        )
    drawn.append(f'<circle class="point" cx="{x(bar.value)}%" cy="50%" r="5"/>')
    return "".join(drawn)


def _ticks(low: float, high: float) -> list[float]:
    """Four to eight round numbers from low to high."""
    rough = (high - low) / 4
    size = 10 ** math.floor(math.log10(rough))
    step = next(size * m for m in (5, 2.5, 2, 1) if size * m <= rough)
    return [round(i * step, 12) for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


# -- drawings -----------------------------------------------------------------------------------


def _heat_map(found: Mapping[str, Any]) -> str:
    """How often the row's model stands above the column's."""
    names, above, n = found["models"], found["above"], found["n"]
    cell = max(28.0, min(64.0, (WIDTH - LABEL) / max(1, len(names))))
    drawn = [
        f'<text x="{LABEL + cell * (i + 0.5)}" y="{16 + 12 * (i % 2)}" text-anchor="middle">'
        f"{escape(_short(name, 9))}</text>"
        for i, name in enumerate(names)
    ]
    for i, name in enumerate(names):
        y = 36 + 28 * i
        drawn.append(
            f'<text x="{LABEL - 12}" y="{y + 18}" text-anchor="end">{escape(_short(name))}</text>'
        )
        for j, rate in enumerate(above[i]):
            if rate is None:
                continue
            colour = COLOURS[0] if rate >= 0.5 else COLOURS[1]
            tip = f"{name} above {names[j]}: {rate:.3f} of {n[i][j]} ballots"
            drawn.append(
                f'<rect x="{LABEL + cell * j}" y="{y}" width="{cell - 2}" height="26" '
                f'fill="{colour}" fill-opacity="{min(1.0, 0.05 + 1.7 * abs(rate - 0.5)):.2f}">'
                f'<title>{escape(tip)}</title></rect><text x="{LABEL + cell * (j + 0.5)}" '
                f'y="{y + 18}" text-anchor="middle">{100 * rate:.0f}</text>'
            )
    width = max(float(WIDTH), LABEL + cell * len(names))
    said = '<p class="said">Percent of ballots with the row above the column; a tie is half.</p>'
    return said + _svg(28 * len(names) + 44, drawn, "Head to head", width)


def _history(
    points: Sequence[Mapping[str, Any]], parts: Mapping[str, Sequence[Mapping[str, Any]]]
) -> str:
    """Lines of weekly shares with their intervals as bands, the leaders of the board first."""
    weeks = sorted({point["week"] for point in points})
    names = [row["model"] for rows in parts.values() for row in rows][:MAX_LINES]
    step = (WIDTH - 220) / max(1, len(weeks) - 1)
    place = {week: round(40 + step * i, 1) for i, week in enumerate(weeks)}

    def y(share: float) -> float:
        return round(210 - 190 * share, 1)

    drawn = [
        f'<line x1="40" x2="{WIDTH - 180}" y1="{y(at)}" y2="{y(at)}" stroke="#8793a5" '
        f'stroke-opacity=".3"/><text x="8" y="{y(at) + 4}">{at:g}</text>'
        for at in (0, 0.5, 1)
    ]
    drawn += [
        f'<text x="{place[week]}" y="232" text-anchor="middle">{escape(week[5:])}</text>'
        for week in weeks[:: max(1, len(weeks) // 8)]
    ]
    for at, name in enumerate(names):
        mine = [p for p in points if p["model"] == name and p["share"] is not None]
        colour = COLOURS[at]
        edge = [p for p in mine if p["share_low"] is not None]
        band = [f"{place[p['week']]},{y(p['share_high'])}" for p in edge]
        band += [f"{place[p['week']]},{y(p['share_low'])}" for p in reversed(edge)]
        if len(edge) > 1:
            drawn.append(f'<polygon points="{" ".join(band)}" fill="{colour}" opacity=".12"/>')
        line = " ".join(f"{place[p['week']]},{y(p['share'])}" for p in mine)
        drawn.append(
            f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>'
            f'<rect x="{WIDTH - 168}" y="{12 + 22 * at}" width="12" height="12" fill="{colour}"/>'
            f'<text x="{WIDTH - 150}" y="{22 + 22 * at}">{escape(_short(name, 20))}</text>'
        )
    return _svg(244, drawn, "Share by week, with 95% intervals")


def _svg(height: float, drawn: Sequence[str], label: str, width: float = WIDTH) -> str:
    return (
        f'<div class="scroll"><svg viewBox="0 0 {width:g} {height:g}" role="img" '
        f'aria-label="{escape(label)}">' + "".join(drawn) + "</svg></div>"
    )


def _short(name: str, limit: int = 24) -> str:
    return name if len(name) <= limit else name[: limit - 1] + "…"


# -- tables ------------------------------------------------------------------------------------


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Every column that the board has; the tiers parted by a line."""
    shown = [name for name in HEADS if name in rows[0]]
    shown += [name for name in rows[0] if name not in HEADS and name not in ("category", "tier")]
    kinds = [' class="name"' if name in NAMES else "" for name in shown]
    head = "".join(
        f"<th{kind}>{HEADS.get(name, name.replace('_', ' '))}</th>"
        for name, kind in zip(shown, kinds, strict=True)
    )
    lines = []
    for before, row in zip([rows[0], *rows], rows[:MAX_ROWS], strict=False):
        parted = ' class="tier"' if row.get("tier") != before.get("tier") else ""
        cells = "".join(
            f"<td{kind}>{_cell(row[name])}</td>" for name, kind in zip(shown, kinds, strict=True)
        )
        lines.append(f"<tr{parted}>{cells}</tr>")
    left = len(rows) - MAX_ROWS
    more = f'<p class="said">… and {left:,} more (--csv has them all)</p>' if left > 0 else ""
    return f'<div class="scroll"><table><tr>{head}</tr>{"".join(lines)}</table></div>{more}'


def _rules(found: Sequence[Mapping[str, Any]]) -> str:
    by_rule = {one["rule"]: {row["model"]: row for row in one["rows"]} for one in found}
    names = list(dict.fromkeys(name for rows in by_rule.values() for name in rows))
    head = '<th class="name">model</th>' + "".join(f"<th>{escape(name)}</th>" for name in by_rule)
    lines = []
    for name in names:
        cells = "".join(
            f"<td>{_cell(row['value'])} ({row['rank']})</td>"
            if (row := rows.get(name))
            else "<td>–</td>"
            for rows in by_rule.values()
        )
        lines.append(f'<tr><td class="name">{escape(name)}</td>{cells}</tr>')
    return f'<div class="scroll"><table><tr>{head}</tr>{"".join(lines)}</table></div>'


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.1f}" if abs(value) >= 1000 else f"{value:.3f}"
    return escape(str(value))
