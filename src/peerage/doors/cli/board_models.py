"""`peerage board models`: who leads, by how much, and which gaps are real."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from peerage.boards import Board
from peerage.doors.cli.output import flag_line, show_agreement
from peerage.doors.cli.screen import interval_bar

if TYPE_CHECKING:
    from rich.console import RenderableType

    from peerage.doors.cli.terminal import Terminal

MAX_ROWS = 100  # of a table on a terminal; --json and --csv have them all
MAX_MATRIX = 12
WIDE = 100  # columns of a terminal that has room for every number
COUNT_HEADS = {"total_wins": "wins", "total_votes": "votes", "appearances": "sessions"}
SHADES = " ░▒▓█"
SPARKS = "▁▂▃▄▅▆▇█"


# -- on a terminal -----------------------------------------------------------------------------


def show(console: Terminal, board: Board, quiet: bool = False) -> None:
    """A board on a terminal: one table (or one a category), then what was asked for beside it."""
    rows = board.rows
    if not quiet:
        console.print(heading(board), style="bold")
    for name, part in _parts(rows) or [(None, [])]:
        if name is not None:
            console.print()
            console.print(name or "no category", style="bold")
        console.print(table(part, console.width))
    if not rows:
        console.print("No reviews in this window.", style="dim")
    if "matrix" in board.notes:
        console.print(matrix(board.notes["matrix"]))
    if "rules" in board.notes:
        console.print(rules(board.notes["rules"]))
    order = list(dict.fromkeys(row["model"] for row in rows))
    for line in history(board.notes.get("history", []), order):
        console.print(line)
    if "against" in board.notes:
        show_agreement(console, board.notes["against"])
    if not quiet:
        for line in notes(board):
            console.print(line, style="dim")


def heading(board: Board) -> str:
    said = board.parameters
    window = "all reviews" if said["since"] == "all" else f"the last {said['since']}"
    until = f" up to {said['as_of']}" if said["as_of"] else ""
    where = f", category {said['category']}" if said["category"] is not None else ""
    return f"Models: {window}{until}{where}"


def _parts(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str | None, list[Mapping[str, Any]]]]:
    """The rows as one table, or one for each category, in the order they come."""
    parts: dict[str | None, list[Mapping[str, Any]]] = {}
    for row in rows:
        parts.setdefault(row.get("category"), []).append(row)
    return list(parts.items())


def table(rows: Sequence[Mapping[str, Any]], width: int = WIDE) -> RenderableType:
    """The models of one board; a line parts the tiers. A narrow terminal gets fewer columns."""
    from rich.table import Table

    from peerage.doors.cli.terminal import styled

    shown = Table(box=None, pad_edge=False, header_style="dim")
    wide = width >= WIDE
    room = 24 if wide else 12
    share_head = "share of rivals beaten, 95%" if wide else "share beaten, 95%"
    shown.add_column("rank", justify="right", no_wrap=True, min_width=7)
    shown.add_column("model", no_wrap=True, min_width=8)
    shown.add_column(share_head, no_wrap=True, min_width=room + len(" 0.000 ± 0.000"))
    has_value = any("value" in row for row in rows)
    has_length = any("share_length_controlled" in row for row in rows)
    heads = ["value"] if has_value else []
    heads += ["borda", *(["score", "z"] if wide else [])]
    heads += ["at equal length"] if has_length else []
    counts = (
        ("total_wins", "total_votes", "appearances") if wide else ("total_votes", "appearances")
    )
    for head in (*heads, *(COUNT_HEADS[name] for name in counts)):
        shown.add_column(head, justify="right", no_wrap=True, min_width=len(head))
    tier, voted = 1, True
    for row in rows[:MAX_ROWS]:
        if row["tier"] not in (tier, None):  # a newcomer whose spread is unknown has none
            tier = row["tier"]
            shown.add_row("", styled(f"── tier {tier} ──", "dim"))
        if voted and row["share"] is None:
            voted = False
            shown.add_row("", styled("── no votes ──", "dim"))
        numbers = [row["value"]] if has_value else []
        numbers += [row["aggregate_borda"]]
        numbers += [row["mean_score"], row["z_score"]] if wide else []
        numbers += [row["share_length_controlled"]] if has_length else []
        shown.add_row(
            rank_text(row),
            styled(str(row["model"])),
            share_text(row, room),
            *(decimal(number) for number in numbers),
            *(str(row[name]) for name in counts),
        )
    if len(rows) > MAX_ROWS:
        shown.add_row("", f"… and {len(rows) - MAX_ROWS} more (--json has them all)")
    return shown


def rank_text(row: Mapping[str, Any]) -> str:
    low, high = row["rank_low"], row["rank_high"]
    if low is None:
        return str(row["rank"])
    return f"{row['rank']} ({low}–{high})" if low != high else f"{row['rank']} ({low})"


def share_text(row: Mapping[str, Any], room: int = 24) -> Any:
    from peerage.doors.cli.terminal import styled

    if row["share"] is None:
        return styled("no votes", "dim")
    line = interval_bar(row["share"], row["share_low"], row["share_high"], room)
    sure = (
        f" ± {(row['share_high'] - row['share_low']) / 2:.3f}"
        if row["share_low"] is not None
        else ""
    )
    text = styled(f"{line} {row['share']:.3f}{sure}")
    text.stylize("cyan", 0, len(line))
    return text


def decimal(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.2f}"


def matrix(found: Mapping[str, Any]) -> RenderableType:
    """Head to head: how often the row stands above the column."""
    from rich.table import Table

    from peerage.doors.cli.terminal import styled

    names = found["models"][:MAX_MATRIX]
    shown = Table(box=None, pad_edge=False, header_style="dim", title="row above column, %")
    shown.add_column("")
    for name in names:
        shown.add_column(styled(_short(name)), justify="right")
    for name, row in zip(names, found["above"], strict=False):
        cells = [_shade(value) for value in row[: len(names)]]
        shown.add_row(styled(_short(name)), *cells)
    return shown


def _short(name: str, limit: int = 14) -> str:
    return name if len(name) <= limit else name[: limit - 1] + "…"


def _shade(value: float | None) -> Any:
    from peerage.doors.cli.terminal import styled

    if value is None:
        return styled("·", "dim")
    style = "green" if value > 0.55 else "red" if value < 0.45 else ""
    return styled(f"{SHADES[round(value * (len(SHADES) - 1))]} {100 * value:.0f}", style)


def rules(found: Sequence[Mapping[str, Any]]) -> RenderableType:
    """The same ballots under every rule: value and rank side by side."""
    from rich.table import Table

    from peerage.doors.cli.terminal import styled

    by_rule = {
        one["rule"]: {row["model"]: row for row in one["rows"]} for one in found if one["rows"]
    }
    shown = Table(box=None, pad_edge=False, header_style="dim", title="rules side by side")
    shown.add_column("model")
    for name in by_rule:
        shown.add_column(name, justify="right", no_wrap=True)
    first = next(iter(by_rule.values()), {})
    names = list(dict.fromkeys([*first, *(name for rows in by_rule.values() for name in rows)]))
    for name in names[:MAX_ROWS]:
        cells = [
            f"{decimal(row['value'])} ({row['rank']})" if (row := rows.get(name)) else "–"
            for rows in by_rule.values()
        ]
        shown.add_row(styled(name), *cells)
    return shown


def history(points: Sequence[Mapping[str, Any]], order: Sequence[str]) -> list[str]:
    """Each model's weekly share as a line of blocks, in the order of the board."""
    weeks = sorted({point["week"] for point in points})
    if not weeks:
        return []
    by_model: dict[str, dict[str, float]] = {}
    for point in points:
        if point["share"] is not None:
            by_model.setdefault(point["model"], {})[point["week"]] = point["share"]
    longest = max((len(name) for name in by_model), default=0)
    lines = [f"share by week, {weeks[0]} to {weeks[-1]}"]
    for name in (one for one in order if one in by_model):
        shares = by_model[name]
        blocks = "".join(_block(shares.get(week)) for week in weeks)
        latest = shares[max(shares)]
        lines.append(f"  {name.ljust(longest)}  {blocks}  {latest:.3f}")
    return lines


def _block(share: float | None) -> str:
    return " " if share is None else SPARKS[round(share * (len(SPARKS) - 1))]


def notes(board: Board) -> list[str]:
    said = board.parameters
    over = "sessions and reviewers" if said["interval"] == "two-way" else "sessions"
    lines = [
        f"{board.notes.get('sessions', 0)} sessions, {board.notes.get('reviews', 0)} reviews; rule "
        f"{board.notes['rule']}, own votes {said['own_votes']}, reviewers' weights "
        f"{said['reputation']}; intervals over {over}, ranks in parentheses hold all at once."
    ]
    lines += map(flag_line, board.flags)
    if (slope := board.notes.get("length_slope")) is not None:
        lines.append(f"  a model's share moves {slope:+.3f} with each e-fold of length")
    if weights := board.notes.get("reviewer_weights"):
        listed = ", ".join(f"{name} {weight:.3f}" for name, weight in weights.items())
        lines.append(f"  reviewers weigh {listed}")
    return lines
