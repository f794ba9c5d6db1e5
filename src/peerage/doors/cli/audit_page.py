"""An audit as one self-contained HTML page: no script, no font, nothing fetched."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from peerage.doors.cli.audit import interval
from peerage.doors.visible import html_text as escape
from peerage.types import Audit, Finding

COLOURS = {
    "evidence": "#b3261e",
    "indicator": "#b26a00",
    "inconclusive": "#57606a",
    "clear": "#1a7f37",
    "too_few": "#8c959f",
    "not_identifiable": "#8c959f",
}
STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; font-size: .85rem; }
th, td { text-align: left; padding: .25rem .5rem; vertical-align: top;
  border-bottom: 1px solid #8884; }
td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.status { font-weight: 600; white-space: nowrap; }
.note { color: #6e7781; } svg { max-width: 100%; height: auto; }
svg text { font: 12px system-ui, sans-serif; fill: currentColor; }
"""
HOW = """Evidence means: enough observations, a q-value below .05 over all findings of this page,
and an effect beyond the healthy range. Clear means that the whole interval lies inside it.
Inconclusive is neither, and “no evidence” is not “no bias”. Not identifiable means that this
data cannot tell, however much of it there is."""


def render_audit(found: Audit) -> str:
    """The page, with the verdict first, then charts, then every finding with its note."""
    from peerage.doors.cli.audit import verdict

    evidence = [one for one in found.findings if one.status in ("evidence", "indicator")]
    listed = "".join(f"<li>{_sentence(one)}</li>" for one in evidence)
    n_reviews = found.views.get("reviews", 0)
    parts = [
        f"<h1>Audit of {found.views.get('reviewers', 0)} reviewers</h1>",
        f"<p><strong>{escape(verdict(found))}</strong> {n_reviews:,} reviews.</p>",
        f"<ul>{listed}</ul>" if listed else "",
        f"<p class=note>{HOW}</p>",
        _position_chart(found),
        _forest(found, "calibration", "Mean score by reviewer"),
        _forest(found, "agreement", "Agreement with the others"),
        _forest(found, "self_preference", "Preference for its own answers"),
        "<h2>Every finding</h2>",
        _table(found.findings),
    ]
    body = "\n".join(part for part in parts if part)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Peerage audit</title><style>{STYLE}</style></head>\n"
        f"<body>\n{body}\n</body></html>\n"
    )


def _sentence(one: Finding) -> str:
    note = f" <span class=note>{escape(one.note)}</span>" if one.note else ""
    what = f"<b>{escape(one.metric)}</b> of {escape(one.subject)}"
    return f"{_status(one)} {what}: {interval(one)}{note}"


def _status(one: Finding) -> str:
    colour, word = COLOURS[one.status], one.status.replace("_", " ")
    return f'<span class=status style="color:{colour}">{word}</span>'


def _table(findings: Sequence[Finding]) -> str:
    heads = ("status", "subject", "value [95%]", "p", "q", "n", "of", "note")
    rows = []
    for metric, group in groupby(findings, key=lambda one: one.metric):
        rows.append(f"<tr><th colspan={len(heads)}>{escape(metric)}</th></tr>")
        for one in group:
            numbers = (interval(one), _small(one.p), _small(one.q), str(one.n), str(one.n_min))
            cells = "".join(f"<td class=n>{number}</td>" for number in numbers)
            rows.append(
                f"<tr><td>{_status(one)}</td><td>{escape(one.subject)}</td>{cells}"
                f"<td class=note>{escape(one.note)}</td></tr>"
            )
    head = "".join(f"<th>{name}</th>" for name in heads)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _small(p: float | None) -> str:
    if p is None:
        return "–"
    return "&lt;.001" if p < 0.001 else f"{p:.3f}"


# -- charts -------------------------------------------------------------------------------------

WIDTH, LEFT, ROW = 720, 180, 22


def _position_chart(found: Audit) -> str:
    """Mean score by position, against the mean of the same answers."""
    curve = [point for point in found.views.get("position_curve", []) if point["mean"] is not None]
    if len(curve) < 2:
        return ""
    reach = max(abs(point["mean"]) for point in curve) or 1.0
    height, middle, step = 180, 80, min(90, (WIDTH - 60) // len(curve))
    bars = [f'<line x1="40" x2="{WIDTH - 10}" y1="{middle}" y2="{middle}" stroke="#8888"/>']
    for i, point in enumerate(curve):
        size = abs(point["mean"]) / reach * 60
        top = middle - size if point["mean"] > 0 else middle
        x, label = 50 + i * step, f"{point['mean']:+.2f}".replace("-", "−")
        bars.append(
            f'<rect x="{x}" y="{top:.1f}" width="{step * 0.6:.0f}" height="{size:.1f}" '
            'fill="#3b6ea8"/>'
            f'<text x="{x}" y="{height - 22}">{point["position"] + 1}</text>'
            f'<text x="{x}" y="{height - 6}">{label}</text>'
        )
    title = "Score by position shown, against the mean of the same answer"
    return f"<h2>{title}</h2>{_svg(height, bars, title)}"


def _forest(found: Audit, metric: str, title: str, most: int = 40) -> str:
    """A point and an interval for each subject of one metric, on one scale."""
    rows = [o for o in found.findings if o.metric == metric and o.value is not None][:most]
    if len(rows) < 2:
        return ""
    edges = [x for one in rows for x in (one.value, one.low, one.high) if x is not None]
    low, high = min(edges), max(edges)
    span = (high - low) or 1.0

    def at(x: float) -> float:
        return LEFT + 20 + (x - low) / span * (WIDTH - LEFT - 90)

    marks = []
    if low < 0 < high:
        bottom = ROW * len(rows)
        marks.append(
            f'<line x1="{at(0):.1f}" x2="{at(0):.1f}" y1="0" y2="{bottom}" stroke="#8886"/>'
        )
    for i, one in enumerate(rows):
        y, colour = i * ROW + ROW / 2, COLOURS[one.status]
        value = one.value or 0.0
        if one.low is not None and one.high is not None:
            ends = f'x1="{at(one.low):.1f}" x2="{at(one.high):.1f}" y1="{y}" y2="{y}"'
            marks.append(f'<line {ends} stroke="{colour}" stroke-width="2"/>')
        marks.append(
            f'<circle cx="{at(value):.1f}" cy="{y}" r="4" fill="{colour}"/>'
            f'<text x="{LEFT}" y="{y + 4}" text-anchor="end">{escape(_short(one.subject))}</text>'
            f'<text x="{WIDTH - 55}" y="{y + 4}">{value:.2f}</text>'
        )
    return f"<h2>{title}</h2>{_svg(ROW * len(rows) + 4, marks, title)}"


def _short(name: str, most: int = 26) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


def _svg(height: int, marks: Sequence[str], title: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img" '
        f'aria-label="{escape(title)}">'
        f"{''.join(marks)}</svg>"
    )
