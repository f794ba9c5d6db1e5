"""`peerage board contributors|reviewers|items` and `peerage rings`, over tables of opinions."""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from peerage.doors.cli.screen import bar, write_json
from peerage.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from peerage.boards import Board
    from peerage.boards.opinions import Coefficients
    from peerage.community import Hearing

N_ROWS = 50  # of a long board on a terminal; --json and --csv have them all
N_PAIRS = 10
N_SUPPORTS = 12
BAND_STYLES = {"excellent": "green", "good": "cyan", "fair": "yellow", "poor": "red"}


@dataclass(frozen=True, slots=True)
class Tables:
    """Where the tables are: paths, or anything an engine can open."""

    opinions: Any
    items: Any = None
    users: Any = None
    engine: str = "duckdb"


@dataclass(frozen=True, slots=True)
class Shown:
    """How a result is to be shown."""

    json: bool = False
    csv: bool = False
    quiet: bool = False


def run_board(
    name: str,
    tables: Tables,
    asked: Mapping[str, Any],
    shown: Shown,
    *,
    against: Path | str | None = None,
    tune: bool = False,
    config_file: Path | None = None,
) -> None:
    """A community board on stdout. `asked` holds fields of `peerage.community.Asked`."""
    from dataclasses import replace

    from peerage.community import compared, tuned

    if tune and against is None:
        raise UsageError("--tune needs something to agree with.", hint="Give --against FILE.")
    community, heard = _heard(tables, asked, config_file)
    made = heard.board(name)
    if against is not None:
        outside = _outside(tables, against)
        notes = {"against": compared(heard, name, outside).document()}
        if tune:
            notes["tuned"] = tuned(community, heard.asked, name, outside).document()
        made = replace(made, notes=notes)
    if shown.json:
        write_json(made.document())
    elif shown.csv:
        write_csv(made)
    else:
        from rich.console import Console

        show_board(Console(), made, shown.quiet)


def run_rings(
    tables: Tables, asked: Mapping[str, Any], shown: Shown, config_file: Path | None = None
) -> None:
    """The voting rings on stdout, with the evidence; finding one is not a failure."""
    _, heard = _heard(tables, asked, config_file)
    document = heard.rings.document()
    if shown.json:
        write_json({**document, "flags": heard.flags})
        return
    from rich.console import Console

    show_rings(Console(), document, shown.quiet)


def _heard(
    tables: Tables, asked: Mapping[str, Any], config_file: Path | None
) -> tuple[Any, Hearing]:
    from peerage.community import Hearing, asked_for, read

    wanted = asked_for(**{"coefficients": coefficients(config_file), **asked})
    community = read(
        tables.opinions, tables.users, items=tables.items, engine=tables.engine, asked=wanted
    )
    return community, Hearing(community, wanted)


def coefficients(config_file: Path | None) -> Coefficients:
    """The coefficients of `[community]`."""
    from peerage import config
    from peerage.boards.opinions import Coefficients

    return Coefficients(**config.load(config_file).community.model_dump())


def _outside(tables: Tables, against: Path | str) -> dict[str, float]:
    from peerage.community import read_outside
    from peerage.engines import engines

    return read_outside(engines.get(tables.engine)(), str(against))


# -- what is seen -----------------------------------------------------------------------------


def write_csv(made: Board) -> None:
    """The board as CSV on stdout: a header and every row, empty where undefined."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(made.columns)
    writer.writerows(row.values() for row in made.rows)


def show_board(console: Console, made: Board, quiet: bool = False) -> None:
    """A board for a person: two decimals, the first rows, and what was left out."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    shown = [name for name in made.columns if name not in ("low", "high", "status")]
    for name in shown:
        textual = name in ("contributor", "reviewer", "item_id", "band")
        table.add_column(name.replace("_", " "), justify="left" if textual else "right")
    rows = made.rows
    for row in rows[:N_ROWS]:
        table.add_row(*(_cell(name, row) for name in shown))
    console.print(table if rows else "Nothing to rank here.")
    if len(rows) > N_ROWS:
        console.print(f"… and {len(rows) - N_ROWS} more (--json, --csv have all)", style="dim")
    if quiet:
        return
    for line in _notes(made):
        console.print(line, style="dim", highlight=False, markup=False)
    if "against" in made.notes:
        console.print(_agreement(made.notes["against"]), highlight=False, markup=False)
        console.print(_movers(made.notes["against"]))
    if "tuned" in made.notes:
        console.print(_tuning(made.notes["tuned"]), highlight=False, markup=False)


def _cell(name: str, row: Mapping[str, Any]) -> str:
    from rich.markup import escape

    value = row[name]
    if name == "pearson" and row["status"] == "undefined":
        return "[dim]undefined 0.00[/]"
    if name == "pearson" and row["low"] is not None:
        return f"{value:+.2f} [dim]{row['low']:+.2f} … {row['high']:+.2f}[/]"
    if name == "band" and value is not None:
        return f"[{BAND_STYLES[value]}]{value}[/]"
    if name == "quality":
        return f"[cyan]{bar((value + 1.0) / 2.0, 10)}[/] {value:+.2f}"
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.2f}"
    return escape(str(value))


def _notes(made: Board) -> list[str]:
    said = made.parameters
    lines = [
        f"{said['opinions']} opinions count; left out: {said['own_left_out']} on own items, "
        f"{said['superseded_left_out']} replaced by a later one."
    ]
    if said["iterations"] is not None:
        lines.append(f"reputation settled in {said['iterations']} rounds.")
    return lines + [f"  flag  {flag}" for flag in made.flags]


def _agreement(found: Mapping[str, Any]) -> str:
    def figure(value: float | None, low: float | None, high: float | None) -> str:
        if value is None:
            return "undefined"
        return f"{value:+.3f}" + ("" if low is None else f" ({low:+.3f} … {high:+.3f})")

    tau = figure(found["kendall_tau"], found["kendall_low"], found["kendall_high"])
    rho = figure(found["spearman"], found["spearman_low"], found["spearman_high"])
    return (
        f"against the outside ranking, {found['n']} in common "
        f"({found['only_here']} only here, {found['only_there']} only there): "
        f"Kendall τ {tau}, Spearman {rho}"
    )


def _movers(found: Mapping[str, Any]) -> Table:
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("moves most")
    for head in ("here", "there", "moved"):
        table.add_column(head, justify="right")
    for one in found["movers"]:
        table.add_row(
            escape(one["name"]), f"{one['here']:g}", f"{one['there']:g}", f"{one['moved']:+g}"
        )
    return table


def _tuning(found: Mapping[str, Any]) -> str:
    def figure(value: float | None) -> str:
        return "undefined" if value is None else f"{value:+.3f}"

    settings = ", ".join(f"{name} {value}" for name, value in found["settings"].items())
    return (
        f"of {found['tried']} settings tried, {settings} agrees best: "
        f"τ {figure(found['kendall_tau'])} (now {figure(found['before'])}); "
        f"cross-validated {figure(found['cross_validated'])}, which is the figure to believe."
    )


def show_rings(console: Console, document: Mapping[str, Any], quiet: bool = False) -> None:
    """Rings and pairs for a person."""
    from rich.markup import escape

    said = document["parameters"]
    if not document["rings"]:
        p = said["strongest_p"]
        chance = "" if p is None else f" The densest block there is has p = {p:.3f}."
        console.print(f"No ring stands out from chance.{chance}", highlight=False)
    for ring in document["rings"]:
        names = escape(", ".join(ring["members"]))
        console.print(f"[bold red]ring of {len(ring['members'])}[/]: {names}", highlight=False)
        for line in _evidence(ring):
            console.print(f"  {line}", highlight=False, markup=False)
    if quiet or not document["pairs"]:
        return
    console.print(f"\nmutual pairs, the {N_PAIRS} least likely:", style="dim")
    for pair in document["pairs"][:N_PAIRS]:
        gap = "–" if pair["gap"] is None else f"{pair['gap']:+.2f}"
        p, q = ("–" if pair[key] is None else f"{pair[key]:.4f}" for key in ("p", "q"))
        line = f"  {pair['a']} ⇄ {pair['b']}: gap {gap} over {pair['n']} opinions, p {p}, q {q}"
        console.print(line, highlight=False, markup=False)


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
