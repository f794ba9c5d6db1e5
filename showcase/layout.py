"""The parts that pages share: tables, figures with their intervals, charts, boards and audits."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

import peerage
from peerage.boards import Board
from peerage.findings import Audit, Finding
from peerage.stats.clusters import ratio_interval
from showcase import PublicSet

DASH = "–"
ALPHA = 0.05
STATUS_WORDS = {
    "evidence": "**evidence**",
    "indicator": "indicator",
    "clear": "nothing beyond the threshold",
    "inconclusive": "not decided yet",
    "too_few": "too few",
}
METRIC_WORDS = {
    "position": "score of the answer shown first minus that of the other (0: no effect)",
    "length": "correlation of length and score within ballots; longer answers may be better ones",
    "length_relative": "extra points for one standard deviation of length, compared with the "
    "other judges",
    "self_preference": "its score of itself minus the others' score of it, in standard "
    "deviations of its scores",
    "agreement": "correlation with the other judges within ballots (evidence: clearly too low)",
    "effective_votes": "how many independent votes the panel is worth",
    "reasoning_length": "how a judge's care for correctness changes with the length of reasoning",
}


class Figure(NamedTuple):
    """A value with its 95% interval and the number of judgements it is made of."""

    value: float
    low: float | None
    high: float | None
    n: int

    def text(self, digits: int = 3) -> str:
        """Return the value with its interval."""
        return interval_text(self.value, self.low, self.high, digits)

    @property
    def points(self) -> str:
        """Return a difference of shares in points, with its sign."""
        if self.low is None or self.high is None:
            return f"{100 * self.value:+.1f}"
        return f"{100 * self.value:+.1f} ({100 * self.low:+.1f} … {100 * self.high:+.1f})"


def mean_figure(values: Iterable[tuple[Hashable, float]]) -> Figure:
    """Return the mean of some values, each with its cluster, with an interval over clusters."""
    sums: dict[Hashable, list[float]] = {}
    for cluster, value in values:
        one = sums.setdefault(cluster, [0.0, 0.0])
        one[0] += value
        one[1] += 1.0
    tops, bottoms = ([one[i] for one in sums.values()] for i in range(2))
    estimate = ratio_interval(tops, bottoms)
    if estimate is None:
        raise ValueError("no values")
    return Figure(estimate.value, estimate.low, estimate.high, int(sum(bottoms)))


def share_figure(values: Iterable[tuple[Hashable, bool]]) -> Figure:
    """Return how often something is so, with an interval between 0 and 1.

    Where it is always or never so, the interval is the exact one of so many clusters.
    """
    some = [(cluster, float(is_so)) for cluster, is_so in values]
    figure = mean_figure(some)
    rare = 1.0 - (ALPHA / 2) ** (1.0 / len({cluster for cluster, _ in some}))
    if figure.value in (0.0, 1.0):
        return figure._replace(
            low=max(0.0, figure.value - rare), high=min(1.0, figure.value + rare)
        )
    if figure.low is None or figure.high is None:
        return figure
    return figure._replace(low=max(0.0, figure.low), high=min(1.0, figure.high))


def interval_text(
    value: float | None, low: float | None = None, high: float | None = None, digits: int = 3
) -> str:
    """Return a value with its interval, if it has one."""
    if value is None:
        return DASH
    ends = "" if low is None or high is None else f" ({low:.{digits}f} … {high:.{digits}f})"
    return f"{value:.{digits}f}{ends}"


def table(head: Sequence[str], rows: Iterable[Sequence[object]], left: int = 1) -> str:
    """Return a Markdown table; the first columns are aligned left, the others right."""
    marks = ["---" if i < left else "---:" for i in range(len(head))]
    cells = [[str(cell).replace("|", "\\|") for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in [list(head), marks, *cells])


def paragraphs(*parts: str) -> str:
    """Return a page of parts with a blank line between each two."""
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


# -- what every page says --------------------------------------------------------------------------


def opening(one: PublicSet, folder: Path, lead: str) -> str:
    """Return the head of a page: what it is, whose, and how to rebuild it."""
    source = one.source
    n, digest = source.read_digest(folder)
    link = f"https://github.com/{source.repository}"
    return paragraphs(
        f"# {one.title}",
        lead,
        "| | |\n|---|---|\n"
        f"| theirs | the judgements and the published figures: [{source.repository}]({link}), "
        f"by {source.authors} |\n"
        f"| licence | {source.licence} |\n"
        f"| ours | the sentences, tables and charts of this page; no text of theirs is copied |\n"
        f"| files | `{'`, `'.join(source.paths)}` at commit `{source.commit}`: {n:,} files, "
        f"SHA-256 over all of them `{digest[:16]}…` |\n"
        f"| rebuild | fetch that commit into `DIR/{source.folder}`, then "
        f"`./dev showcase DIR {one.name}` |",
        "Intervals are 95%. If several judgements are about one question, intervals are over "
        "questions, not over judgements. [Boards](../boards.md) and [the audit](../audit.md) "
        "explain "
        "how the figures are computed.",
    )


def index_page(sets: Sequence[PublicSet]) -> str:
    """Return the page that lists all sets."""
    rows = [
        (f"[{one.title}]({one.name}.md)", one.about, one.source.licence.split(";")[0])
        for one in sets
    ]
    fetch = "\n".join(
        f"git clone https://github.com/{one.source.repository} DIR/{one.source.folder}\n"
        f"git -C DIR/{one.source.folder} checkout {one.source.commit}"
        for one in sets
    )
    return paragraphs(
        "# Public boards, audited",
        "These pages show what `peerage` finds in boards and judgements that others have "
        "published. "
        "Each page recomputes the published figures, shows ranks with their ranges and what the "
        "audit finds about each judge, and says how few judgements decide the first place and what "
        "the files cannot show. The authors made this possible by publishing their judgements. "
        "If a page says that something cannot be known, that is a limit of the file, not of their "
        "method.",
        table(("set", "what is judged", "licence"), rows, left=3),
        "## Rebuild these pages",
        "Fetch the files into a folder of your choice, here `DIR`, then build the pages. The same "
        "files give the same bytes. The fetched files are not part of this repository.",
        f"```text\n{fetch}\n```",
        "```sh\n./dev showcase DIR\n```",
        "Each page names the commit, the files that are read and a digest of them. If the folder "
        "of a "
        "set is missing, its page is not changed.",
    )


# -- boards and audits -----------------------------------------------------------------------------


def board_table(board: Board, value: str = "share", digits: int = 3, what: str = "model") -> str:
    """Return a board: rank, its range for all models together, value and number of votes."""
    words = {"share": "share of rivals beaten", "share_common": "share, common rivals"}
    rows = [
        (
            row["model"],
            row["rank"],
            f"{row['rank_low']}–{row['rank_high']}",
            interval_text(row[value], row.get(f"{value}_low"), row.get(f"{value}_high"), digits),
            f"{row['total_votes']:,}",
        )
        for row in board.rows
    ]
    head = (what, "rank", "rank range", words.get(value, "rating"), "votes")
    return table(head, rows)


def judges_board(right: Iterable[tuple[str, str, str, bool]]) -> Board:
    """Return judges ranked by known labels, from question, part of it, judge, and who is right.

    The label is the only reviewer: it gives a judge that is right a point and the others none.
    """
    rows = [
        {
            "session_id": f"{question}/{part}",
            "query_id": question,
            "reviewer": "label",
            "candidate": judge,
            "score": float(is_right),
        }
        for question, part, judge, is_right in right
    ]
    return peerage.board_models(rows, since="all", fragility=True)


def fragility_text(board: Board, unit: str) -> str:
    """Return how few queries carry each place of the top, and the judge that matters most."""
    fragility = board.notes["fragility"]
    rows = [
        (
            f"{i} over {i + 1}",
            pair["above"],
            pair["below"],
            "more than half" if pair["queries"] is None else f"{pair['queries']:,}",
        )
        for i, pair in enumerate(fragility["neighbours"][:10], 1)
    ]
    head = ("place", "ahead", "behind", f"{unit} that carry the lead")
    parts = [
        f"How many of the {fragility['queries']:,} {unit} would have to be left out until two "
        "neighbours change places? Those most in favour of the leader are left out first.",
        table(head, rows, left=3),
    ]
    judge = fragility.get("judge")
    if judge and judge["first_without"] is not None:
        parts.append(
            f"The judge with the largest effect is {judge['reviewer']}: without it, the share of "
            f"{judge['model']} changes by {judge['moved']:+.3f}, and {judge['first_without']} is "
            "first."
        )
    return "\n\n".join(parts)


def audit_text(audit: Audit, metrics: Sequence[str]) -> str:
    """Return the findings on each judge that can be told, a table for each metric."""
    parts = []
    for metric in metrics:
        rows = [
            (one.subject, interval_text(one.value, one.low, one.high), f"{one.n:,}", words)
            for one in audit.findings
            if one.metric == metric and (words := STATUS_WORDS.get(one.status))
        ]
        if rows:
            parts.append(f"**{metric}**: {METRIC_WORDS[metric]}")
            parts.append(table(("judge", "value", "n", "finding"), rows))
    return "\n\n".join(parts)


def departures_text(audit: Audit) -> str:
    """Return the judges that clearly favour or mark down one candidate, as the others see it."""
    some = [f for f in audit.findings if f.metric == "pair_departure"]
    told = [f for f in some if f.status == "evidence"]
    if not some:
        return ""
    lines = [
        f"- {f.subject.replace('>', ' on ')}: {interval_text(f.value, f.low, f.high, 2)}, n = {f.n}"
        for f in told
    ]
    n_tested = sum(f.status in STATUS_WORDS and f.status != "too_few" for f in some)
    lead = (
        f"Does a judge rate one candidate higher or lower than the other judges and its own scale "
        f"explain? {len(told) or 'None'} of {n_tested} pairs of a judge and a candidate with "
        "enough "
        "data show this, after correction for the number of pairs"
    )
    return f"{lead}{':' if told else '.'}\n\n" + "\n".join(lines) if told else f"{lead}."


def unknown_list(audit: Audit, *more: str) -> str:
    """Return what the file cannot show: the metrics that are not identifiable, and why."""
    hidden: dict[str, Finding] = {}
    for one in audit.findings:
        if one.status == "not_identifiable" and one.subject == "all":
            hidden.setdefault(one.metric, one)
    lines = [f"- `{name}`: {one.note}" for name, one in hidden.items()]
    return "\n".join([*lines, *(f"- {text}" for text in more)])


# -- charts ----------------------------------------------------------------------------------------


class Bar(NamedTuple):
    """A line of a chart: a name, a value and its interval."""

    name: str
    value: float
    low: float
    high: float


def interval_chart(title: str, bars: Sequence[Bar], middle: float | None = None) -> str:
    """Return an SVG with a dot and an interval for each name; `middle` is a line for no effect."""
    low = min(min(one.low for one in bars), middle if middle is not None else bars[0].low)
    high = max(max(one.high for one in bars), middle if middle is not None else bars[0].high)
    span = (high - low) or 1.0
    left, width, step, top = 250, 420, 20, 44
    height = top + step * len(bars) + 30

    def x(value: float) -> str:
        return f"{left + width * (value - low) / span:.1f}"

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 40} {height}" '
        f'font-family="sans-serif" font-size="12" role="img" aria-label="{escape(title)}">',
        f'<rect width="{left + width + 40}" height="{height}" fill="#fff"/>',
        '<text x="12" y="22" font-size="14" font-weight="bold" fill="#1f2933">'
        f"{escape(title)}</text>",
    ]
    if middle is not None:
        lines.append(
            f'<line x1="{x(middle)}" x2="{x(middle)}" y1="{top - 8}" y2="{height - 24}" '
            'stroke="#9aa5b1" stroke-dasharray="3 3"/>'
        )
    for i, one in enumerate(bars):
        y = top + step * i + 6
        lines += [
            f'<text x="{left - 10}" y="{y + 4}" text-anchor="end" fill="#1f2933">'
            f"{escape(one.name)}</text>",
            f'<line x1="{x(one.low)}" x2="{x(one.high)}" y1="{y}" y2="{y}" stroke="#3e7cb1" '
            'stroke-width="3"/>',
            f'<circle cx="{x(one.value)}" cy="{y}" r="4.5" fill="#14507a"/>',
        ]
    for value in (low, (low + high) / 2, high):
        lines.append(
            f'<text x="{x(value)}" y="{height - 8}" text-anchor="middle" fill="#52606d">'
            f"{value:.4g}</text>"
        )
    return "\n".join([*lines, "</svg>"]) + "\n"


def board_bars(board: Board, value: str) -> list[Bar]:
    """Return the rows of a board that have an interval, for a chart."""
    return [
        Bar(row["model"], row[value], row[f"{value}_low"], row[f"{value}_high"])
        for row in board.rows
        if row.get(f"{value}_low") is not None
    ]
