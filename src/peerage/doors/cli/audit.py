"""`peerage audit`: who is biased, how sure is that, and what cannot be known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from peerage.types import Audit, Finding

if TYPE_CHECKING:
    from rich.console import RenderableType

    from peerage.doors.cli.terminal import Terminal

STYLES = {
    "evidence": "bold red",
    "indicator": "yellow",
    "inconclusive": "",
    "clear": "green",
    "too_few": "dim",
    "not_identifiable": "dim",
}
MAX_ROWS = 100  # of the table; --json has them all
SPARKS = "▁▂▃▄▅▆▇█"


def verdict(found: Audit) -> str:
    """The first line: how many findings are evidence, and what the others are."""
    n = len(found.findings)
    by_status = Counter(one.status for one in found.findings)
    n_evidence = by_status.pop("evidence", 0)
    rest = ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in by_status.items())
    what = "1 is" if n_evidence == 1 else f"{n_evidence or 'none'} {'are' if n_evidence else 'is'}"
    return f"Of {n} findings {what} evidence" + (f"; {rest}." if rest else ".")


def show(console: Terminal, found: Audit, quiet: bool = False) -> None:
    """An audit on a terminal: the verdict, what is evidence, the table, two small plots."""
    console.print(verdict(found), style="bold")
    for one in found.findings:
        if one.status in ("evidence", "indicator"):
            console.print(f"  {sentence(one)}", style=STYLES[one.status])
    if quiet:
        return
    console.print(table(found.findings))
    if len(found.findings) > MAX_ROWS:
        left = len(found.findings) - MAX_ROWS
        console.print(f"… and {left} more (--json has them all)", style="dim")
    for line in (*curve_lines(found), *mean_lines(found), *asides(found)):
        console.print(line)


def sentence(one: Finding) -> str:
    note = f": {one.note}" if one.note else ""
    return f"{one.status}  {one.metric}, {one.subject}: {interval(one)}, n {one.n}{note}"


def interval(one: Finding) -> str:
    if one.value is None:
        return "–"
    if one.low is None or one.high is None:
        return f"{one.value:.3g}"
    return f"{one.value:.3g} [{one.low:.3g}, {one.high:.3g}]"


def table(findings: Sequence[Finding]) -> RenderableType:
    """The findings, what is evidence first and what cannot be known last."""
    from rich.table import Table

    from peerage.doors.cli.terminal import styled

    shown = Table(box=None, pad_edge=False, header_style="dim")
    for head in ("status", "metric"):
        shown.add_column(head, no_wrap=True)
    shown.add_column("subject", overflow="fold")
    for head in ("value [95%]", "q", "n"):
        shown.add_column(head, justify="right", no_wrap=True)
    order = list(STYLES)
    ranked = sorted(findings, key=lambda one: order.index(one.status))
    for one in ranked[:MAX_ROWS]:
        n = str(one.n) if one.n >= one.n_min else f"{one.n} of {one.n_min}"
        status = one.status.replace("_", " ")
        cells = (status, one.metric, one.subject, interval(one), small(one.q), n)
        shown.add_row(*(styled(cell, STYLES[one.status]) for cell in cells))
    return shown


def small(p: float | None) -> str:
    if p is None:
        return "–"
    return "<.001" if p < 0.001 else f"{p:.3f}".removeprefix("0") if p < 1 else "1"


def curve_lines(found: Audit) -> list[str]:
    """The position curve as a line of blocks."""
    curve = found.views.get("position_curve", [])
    means = [point["mean"] for point in curve if point["mean"] is not None]
    if len(means) < 2:
        return []
    low, high = min(means), max(means)
    span = (high - low) or 1.0
    blocks = "".join(SPARKS[round((mean - low) / span * (len(SPARKS) - 1))] for mean in means)
    ends = f"{means[0]:+.2f} … {means[-1]:+.2f}".replace("-", "−")
    return [f"score by position  {blocks}  {ends} against the answer's mean"]


def mean_lines(found: Audit, width: int = 40) -> list[str]:
    """Each reviewer's mean score with its interval, on one common scale."""
    rows = [one for one in found.findings if one.metric == "calibration" and one.value is not None]
    if len(rows) < 2:
        return []
    edges = [x for one in rows for x in (one.value, one.low, one.high) if x is not None]
    low, span = min(edges), (max(edges) - min(edges)) or 1.0

    def at(x: float) -> int:
        return round((x - low) / span * (width - 1))

    longest = max(len(one.subject) for one in rows[:MAX_ROWS])
    lines = [f"mean score, {low:.2f} to {low + span:.2f}"]
    for one in rows[:MAX_ROWS]:
        cells = ["·"] * width
        if one.low is not None and one.high is not None:
            for i in range(at(one.low), at(one.high) + 1):
                cells[i] = "─"
        cells[at(one.value or 0.0)] = "●"
        lines.append(f"  {one.subject.ljust(longest)}  {''.join(cells)}  {one.value:.2f}")
    return lines


def asides(found: Audit) -> list[str]:
    n = found.views.get("not_finite", 0)
    return [f"{n} scores that are NaN or infinite were read as no score."] if n else []
