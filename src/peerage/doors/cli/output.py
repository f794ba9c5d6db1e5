"""A result put where a command asks: files, JSON, CSV, or a table on the terminal."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from peerage.boards import Board
from peerage.doors.cli.screen import say, write_csv, write_json, write_line
from peerage.doors.files import write_file
from peerage.types import Audit

if TYPE_CHECKING:
    from peerage.reports.sessions import SessionView

TEXTS = ("model", "category", "contributor", "reviewer", "item_id", "status", "band")


@dataclass(frozen=True, slots=True)
class Output:
    """Where a result goes; with none of these, to the terminal."""

    json: bool = False
    csv: bool = False
    parquet: Path | None = None
    html: Path | None = None
    quiet: bool = False


def write_board(board: Board, output: Output) -> None:
    """Files first, then one thing on stdout."""
    if board.hint and not output.quiet:
        say(board.hint)
    if output.parquet is not None:
        _write_file(output.parquet, lambda path: write_parquet(board, path), output.quiet)
    if output.html is not None:
        from peerage.doors.render.pages import board_page

        write_page(output.html, board_page(board), output.quiet)
    if output.json:
        write_json(board.document())
    elif output.csv:
        write_csv(list(board.columns), (row.values() for row in board.rows))
    else:
        from peerage.doors.cli.terminal import Terminal
        from peerage.doors.render.report_views import show_board

        show_board(Terminal(), board, output.quiet)


def write_audit(found: Audit, output: Output) -> None:
    """A page first, then one thing on stdout."""
    from peerage.doors.render.phrases import flag_text

    for flag in found.views.get("flags", ()):
        say(flag_text(flag))
    if output.html is not None:
        from peerage.doors.render.pages import audit_page

        write_page(output.html, audit_page(found), output.quiet)
    if output.json:
        write_json(found.document())
        return
    from peerage.doors.cli.terminal import Terminal
    from peerage.doors.render.report_views import show_audit

    show_audit(Terminal(), found, output.quiet)


def write_bare_verdict(view: SessionView) -> None:
    """The verdict alone on stdout, as it was written; or on stderr why there is none."""
    from peerage.doors.render.session_views import bare_verdict, why_no_verdict

    if text := bare_verdict(view):
        write_line(text, multiline=True)
    elif lines := why_no_verdict(view):
        say("\n".join(lines))


def write_page(path: Path, page: str, quiet: bool) -> None:
    """A text as a file, all of it or nothing."""
    _write_file(path, lambda fresh: fresh.write_text(page, encoding="utf-8"), quiet)


def _write_file(path: Path, write_to: Callable[[Path], Any], quiet: bool) -> None:
    write_file(path, write_to)
    if not quiet:
        say(f"wrote {path}")


def write_parquet(board: Board, path: Path) -> None:
    """The rows as Parquet, null where undefined; columns have their types also in an empty one."""
    from peerage.engines import duckdb

    columns = board.table()
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
