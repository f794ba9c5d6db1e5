"""A board of models as one HTML file: no script, no font, no picture from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from peerage.boards import Board

WIDTH, LABEL, LINE = 760, 190, 26  # pixels
COLOURS = ("#0b6e99", "#c2410c", "#4d7c0f", "#7e22ce", "#b45309", "#0f766e", "#be123c", "#4338ca")
MAX_LINES = len(COLOURS)  # of a history: more would not be told apart
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem;
  color: #1c2430; background: #fff; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; width: 100%; }
th, td { text-align: right; padding: .25rem .6rem; border-bottom: 1px solid #e4e8ee; }
th:nth-child(2), td:nth-child(2) { text-align: left; }
tr.tier td { border-top: 2px solid #8793a5; } caption, .said { color: #5a6675; text-align: left; }
svg { width: 100%; height: auto; font: 12px system-ui, sans-serif; }
svg text { fill: currentColor; } .scroll { overflow-x: auto; }
@media (prefers-color-scheme: dark) { body { color: #e6e9ee; background: #14181f; }
  th, td { border-color: #2b333f; } caption, .said { color: #9aa6b5; } }
"""
HEADS = {
    "rank": "rank",
    "model": "model",
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
}


def render_board(board: Board) -> str:
    """The whole page."""
    parts: dict[str, list[Mapping[str, Any]]] = {}
    for row in board.rows:
        parts.setdefault(str(row.get("category", "")), []).append(row)
    body = [f"<h1>Models</h1>{_said(board)}"]
    for name, rows in parts.items():
        if "category" in board.columns:
            body.append(f"<h2>{escape(name or 'no category')}</h2>")
        body += [_intervals(rows), _table(rows)]
    if not parts:
        body.append("<p>No reviews in this window.</p>")
    if "matrix" in board.notes:
        body.append("<h2>Head to head</h2>" + _heat_map(board.notes["matrix"]))
    if board.notes.get("history"):
        body.append("<h2>Week by week</h2>" + _history(board.notes["history"], parts))
    if "rules" in board.notes:
        body.append("<h2>Other rules, same ballots</h2>" + _rules(board.notes["rules"]))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Board of models</title><style>{STYLE}</style></head>\n<body>"
        + "\n".join(body)
        + "</body></html>\n"
    )


def _said(board: Board) -> str:
    named = {"rule": board.notes["rule"], **board.parameters}
    listed = ", ".join(
        f"{escape(name.replace('_', ' '))} {escape(str(value))}"
        for name, value in named.items()
        if value not in (None, False)
    )
    flags = "".join(f"<li>{escape(flag.replace('_', ' '))}</li>" for flag in board.flags)
    more = f"<ul>{flags}</ul>" if flags else ""
    n = f"{board.notes.get('sessions', 0)} sessions, {board.notes.get('reviews', 0)} reviews"
    return f'<p class="said">{n}; {listed}.</p>{more}'


# -- charts ------------------------------------------------------------------------------------


def _intervals(rows: Sequence[Mapping[str, Any]]) -> str:
    """Each model's share as a point in its interval; a rule parts the tiers."""
    known = [row for row in rows if row["share"] is not None]
    height = LINE * len(known) + 34
    span = WIDTH - LABEL - 60

    def x(share: float) -> float:
        return round(LABEL + span * share, 1)

    drawn = [
        f'<line x1="{x(at)}" x2="{x(at)}" y1="4" y2="{height - 26}" stroke="#8793a5" '
        f'stroke-opacity=".3"/><text x="{x(at)}" y="{height - 8}" text-anchor="middle">'
        f"{at:g}</text>"
        for at in (0, 0.25, 0.5, 0.75, 1)
    ]
    tier = known[0]["tier"] if known else None
    for i, row in enumerate(known):
        y = LINE * i + 18
        if row["tier"] != tier:
            tier = row["tier"]
            drawn.append(
                f'<line x1="0" x2="{WIDTH}" y1="{y - LINE / 2}" y2="{y - LINE / 2}" '
                'stroke="#8793a5" stroke-dasharray="4 3"/>'
            )
        low, high = row["share_low"], row["share_high"]
        if low is not None and high is not None:
            drawn.append(
                f'<line x1="{x(low)}" x2="{x(high)}" y1="{y}" y2="{y}" stroke="{COLOURS[0]}" '
                'stroke-width="4" stroke-linecap="round" stroke-opacity=".45"/>'
            )
        tip = f"{row['model']}: {row['share']:.4f}"
        drawn.append(
            f'<text x="{LABEL - 12}" y="{y + 4}" text-anchor="end">{escape(_short(row["model"]))}'
            f'</text><circle cx="{x(row["share"])}" cy="{y}" r="5" fill="{COLOURS[0]}">'
            f'<title>{escape(tip)}</title></circle><text x="{WIDTH - 48}" y="{y + 4}">'
            f"{row['share']:.3f}</text>"
        )
    return _svg(height, drawn, "Share of rivals beaten, with 95% intervals")


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
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(label)}">'
        + "".join(drawn)
        + "</svg>"
    )


def _short(name: str, limit: int = 24) -> str:
    return name if len(name) <= limit else name[: limit - 1] + "…"


# -- tables ------------------------------------------------------------------------------------


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    shown = [name for name in HEADS if rows and name in rows[0]]
    head = "".join(f"<th>{HEADS[name]}</th>" for name in shown)
    lines, tier = [], rows[0]["tier"] if rows else None
    for row in rows:
        mark = ' class="tier"' if row["tier"] != tier else ""
        tier = row["tier"]
        cells = "".join(f"<td>{_cell(row[name])}</td>" for name in shown)
        lines.append(f"<tr{mark}>{cells}</tr>")
    return f'<div class="scroll"><table><tr>{head}</tr>{"".join(lines)}</table></div>'


def _rules(found: Sequence[Mapping[str, Any]]) -> str:
    by_rule = {one["rule"]: {row["model"]: row for row in one["rows"]} for one in found}
    names = list(dict.fromkeys(name for rows in by_rule.values() for name in rows))
    head = "<th></th><th>model</th>" + "".join(f"<th>{escape(name)}</th>" for name in by_rule)
    lines = []
    for name in names:
        cells = "".join(
            f"<td>{_cell(row['value'])} ({row['rank']})</td>"
            if (row := rows.get(name))
            else "<td>–</td>"
            for rows in by_rule.values()
        )
        lines.append(f"<tr><td></td><td>{escape(name)}</td>{cells}</tr>")
    return f'<div class="scroll"><table><tr>{head}</tr>{"".join(lines)}</table></div>'


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.1f}" if abs(value) >= 1000 else f"{value:.3f}"
    return escape(str(value))
