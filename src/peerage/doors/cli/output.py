"""A board in every form asked for, and what all boards say in the same words."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from peerage.boards import Board, plain_values
from peerage.doors.cli.screen import say, write_csv, write_json
from peerage.doors.files import write_file

if TYPE_CHECKING:
    from rich.table import Table

    from peerage.doors.cli.terminal import Terminal

    Show = Callable[[Terminal, Board, bool], None]

TEXTS = ("model", "category", "contributor", "reviewer", "item_id", "status", "band")
MEANINGS = {
    "sessions_with_one_candidate": "sessions with one candidate, who had no rival",
    "sessions_without_a_weight": "sessions left out: no item weight is given for them",
    "sessions_left_out": "sessions left out: what is stored of them cannot be read",
    "sessions_of_several_categories": "sessions whose reviews name several categories",
    "reviews_in_the_future": "reviews dated in the future; the window ends at the latest",
    "scores_not_finite": "scores that are NaN or infinite, read as no score",
    "reviewers_without_a_score": "reviewers that are no models: they weigh the panel's mean",
    "opinions_in_the_future": "opinions dated in the future; the window ends at the latest",
    "times_in_several_zones": "zones among the times, all brought to UTC, as is a time without one",
    "opinions_given_twice": "opinions given more than once, word for word; each counts once",
}


@dataclass(frozen=True, slots=True)
class Output:
    """Where a board goes; with none of these, a table on the terminal."""

    json: bool = False
    csv: bool = False
    parquet: Path | None = None
    html: Path | None = None
    quiet: bool = False


def write(board: Board, output: Output, show: Show) -> None:
    """Files first, then one thing on stdout."""
    if output.parquet is not None:
        _write_file(output.parquet, lambda path: write_parquet(board, path), output.quiet)
    if output.html is not None:
        from peerage.doors.board_page import render_board

        page = render_board(board)
        _write_file(output.html, lambda path: path.write_text(page, "utf-8"), output.quiet)
    if output.json:
        write_json(board.document())
    elif output.csv:
        write_csv(list(board.columns), (row.values() for row in board.rows))
    else:
        from peerage.doors.cli.terminal import Terminal

        show(Terminal(), board, output.quiet)


def _write_file(path: Path, write_to: Callable[[Path], Any], quiet: bool) -> None:
    write_file(path, write_to)
    if not quiet:
        say(f"wrote {path}")


def write_parquet(board: Board, path: Path) -> None:
    """The rows as Parquet, null where undefined; columns have their types also in an empty one."""
    from peerage.engines import duckdb

    columns = {name: plain_values(values) for name, values in board.columns.items()}
    kinds = {name: _kind(name, values) for name, values in columns.items()}
    for name, kind in kinds.items():
        if kind != "varchar":
            columns[name] = [math.nan if value is None else value for value in columns[name]]
    duckdb.write_parquet(columns, kinds, path)


def _kind(name: str, values: list[Any]) -> str:
    if name in TEXTS:
        return "varchar"
    whole = values and all(value is None or isinstance(value, int) for value in values)
    return "bigint" if whole else "double"


# -- in the same words -------------------------------------------------------------------------


def flag_line(flag: str) -> str:
    """A flag, `name:count` with or without examples after it, as a person reads it."""
    name, _, rest = flag.partition(":")
    if " " in name:  # a sentence already
        return f"  flag  {flag}"
    n, _, examples = rest.partition(": ")
    meaning = MEANINGS.get(name, name.replace("_", " "))
    return f"  flag  {n} {meaning}" + (f": {examples}" if examples else "")


def show_agreement(console: Terminal, found: Mapping[str, Any]) -> None:
    """How far a board agrees with an outside ranking, and who moves most."""
    console.print(agreement(found))
    console.print(movers(found))


def agreement(found: Mapping[str, Any]) -> str:
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


def movers(found: Mapping[str, Any]) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("moves most")
    for head in ("here", "there", "moved"):
        table.add_column(head, justify="right")
    for one in found["movers"]:
        table.add_row(one["name"], f"{one['here']:g}", f"{one['there']:g}", f"{one['moved']:+g}")
    return table
