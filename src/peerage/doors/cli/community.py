"""`peerage board contributors|reviewers|items` and `peerage rings`, over tables of opinions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from peerage.doors.cli.output import flag_line, show_agreement
from peerage.doors.cli.screen import bar, interval_bar

if TYPE_CHECKING:
    from rich.text import Text

    from peerage.boards import Board
    from peerage.doors.cli.terminal import Terminal

N_ROWS = 50  # of a long board on a terminal; --json and --csv have them all
N_PAIRS = 10
N_SUPPORTS = 12
WIDE = 100  # columns of a terminal that has room for a bar beside each score
NAMES = ("contributor", "reviewer", "item_id", "band")
HEADS = {
    "total_score": "total",
    "quality_score": "quality",
    "affiliation_bonus": "bonus",
    "items_scored": "scored",
    "reviews_received": "reviews",
    "pearson": "pearson, 95%",
    "qualifying": "items",
    "agreement": "agrees",
    "reputation": "weight",
    "dawid_skene": "D–S",
}
BESIDE = ("low", "high", "status")  # shown with the score they belong to
BAND_STYLES = {"excellent": "green", "good": "cyan", "fair": "yellow", "poor": "red"}


# -- what is seen -----------------------------------------------------------------------------


def show_board(console: Terminal, made: Board, quiet: bool = False) -> None:
    """A board for a person: two decimals, the first rows, and what was left out."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    fixed = made.parameters["reputation"] == "fixed"  # then it is 1 for everyone
    hidden = (*BESIDE, "reputation") if fixed else BESIDE
    shown = [name for name in made.columns if name not in hidden]
    for name in shown:
        head = HEADS.get(name, name.replace("_", " "))
        side: Any = "left" if name in NAMES else "right"
        table.add_column(head, justify=side, no_wrap=True, min_width=len(head))
    room = 16 if console.width >= WIDE else 0
    ends = (made.parameters["scale"][0], made.parameters["scale"][-1])
    rows = made.rows
    for row in rows[:N_ROWS]:
        table.add_row(*(_cell(name, row, room, ends) for name in shown))
    console.print(table)
    if not rows:
        console.print("Nothing to rank here.", style="dim")
    if len(rows) > N_ROWS:
        console.print(f"… and {len(rows) - N_ROWS} more (--json, --csv have all)", style="dim")
    if "against" in made.notes:
        show_agreement(console, made.notes["against"])
    if "tuned" in made.notes:
        console.print(_tuning(made.notes["tuned"]))
    if not quiet:
        for line in _notes(made):
            console.print(line, style="dim")


def _cell(name: str, row: Mapping[str, Any], room: int, ends: tuple[float, float]) -> Text:
    from peerage.doors.cli.terminal import joined, styled

    value = row[name]
    if name == "pearson":
        return _correlation(row, room)
    if name == "band" and value is not None:
        return styled(value, BAND_STYLES[value])
    if name == "quality" and room:
        low, high = ends
        return joined(styled(bar((value - low) / (high - low), room), "cyan"), f" {value:+.2f}")
    if value is None:
        return styled("–")
    return styled(f"{value:.2f}" if isinstance(value, float) else str(value))


def _correlation(row: Mapping[str, Any], room: int) -> Text:
    """A correlation with its interval: drawn where there is room, and written out."""
    from peerage.doors.cli.terminal import joined, styled

    r, low, high = row["pearson"], row["low"], row["high"]
    if r is None or row["status"] == "undefined":
        return styled("undefined 0.00" if row["status"] == "undefined" else "–", "dim")
    parts: list[Text | str] = [f"{r:+.2f}"]
    if low is not None:
        parts.append(styled(f" {low:+.2f} … {high:+.2f}", "dim"))
    if room:
        low, high = (None if x is None else (x + 1.0) / 2.0 for x in (low, high))
        parts.insert(0, styled(interval_bar((r + 1.0) / 2.0, low, high, room) + " ", "cyan"))
    return joined(*parts)


def _notes(made: Board) -> list[str]:
    said = made.parameters
    lines = [
        f"{said['opinions']} opinions count; left out: {said['own_left_out']} on own items, "
        f"{said['superseded_left_out']} replaced by a later one."
    ]
    if said["iterations"] is not None:
        lines.append(f"reputation settled in {said['iterations']} rounds.")
    return lines + [flag_line(flag) for flag in made.flags]


def _tuning(found: Mapping[str, Any]) -> str:
    def figure(value: float | None) -> str:
        return "undefined" if value is None else f"{value:+.3f}"

    settings = ", ".join(f"{name} {value}" for name, value in found["settings"].items())
    return (
        f"of {found['tried']} settings tried, {settings} agrees best: "
        f"τ {figure(found['kendall_tau'])} (now {figure(found['before'])}); "
        f"cross-validated {figure(found['cross_validated'])}, which is the figure to believe."
    )


def show_rings(console: Terminal, document: Mapping[str, Any], quiet: bool = False) -> None:
    """Rings and pairs for a person."""
    from peerage.doors.cli.terminal import joined, styled

    said = document["parameters"]
    if not document["rings"]:
        p = said["strongest_p"]
        chance = "" if p is None else f" The densest block there is has p = {p:.3f}."
        console.print(f"No ring stands out from chance.{chance}")
    for ring in document["rings"]:
        head = styled(f"ring of {len(ring['members'])}", "bold red")
        console.print(joined(head, f": {', '.join(ring['members'])}"))
        for line in _evidence(ring):
            console.print(f"  {line}")
    if quiet:
        return
    for flag in document["flags"]:
        console.print(flag_line(flag), style="dim")
    if not document["pairs"]:
        return
    console.print()
    console.print(f"mutual pairs, the {N_PAIRS} least likely:", style="dim")
    for pair in document["pairs"][:N_PAIRS]:
        gap = "–" if pair["gap"] is None else f"{pair['gap']:+.2f}"
        p, q = ("–" if pair[key] is None else f"{pair[key]:.4f}" for key in ("p", "q"))
        line = f"  {pair['a']} ⇄ {pair['b']}: gap {gap} over {pair['n']} opinions, p {p}, q {q}"
        console.print(line)


def _evidence(ring: Mapping[str, Any]) -> list[str]:
    found = ring["evidence"]
    lines = [
        f"p = {ring['p']:.3f} by shuffles; {ring['density']:.0%} of member pairs support "
        f"each other: {found['support_inside']} times, {found['support_expected']:.1f} expected"
    ]
    if found["gap"] is not None:
        lines.append(
            f"on members' items members say {found['members_mean']:+.2f}, "
            f"outsiders {found['outsiders_mean']:+.2f}"
        )
    most = sorted(found["support"], key=lambda one: (-one["n"], one["from"], one["to"]))
    shown = [f"{one['from']} → {one['to']} x{one['n']}" for one in most[:N_SUPPORTS]]
    more = f", and {len(most) - N_SUPPORTS} more" if len(most) > N_SUPPORTS else ""
    return [*lines, ", ".join(shown) + more]
