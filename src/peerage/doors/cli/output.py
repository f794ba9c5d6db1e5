"""Make the board, audit or rings that a command asks for, and put them where it asks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from peerage.boards import Board, plain_values
from peerage.doors.cli.options import noted
from peerage.doors.cli.screen import say, write_csv, write_json
from peerage.doors.files import write_file
from peerage.errors import UsageError
from peerage.types import Audit, AuditLimits

if TYPE_CHECKING:
    from peerage.boards.opinions import Coefficients
    from peerage.engines import Engine
    from peerage.reports.community_boards import CommunityBoards

TEXTS = ("model", "category", "contributor", "reviewer", "item_id", "status", "band")
FAIL_ON: Mapping[str, tuple[str, ...]] = {
    "evidence": ("evidence",),
    "indicator": ("evidence", "indicator"),
}


@dataclass(frozen=True, slots=True)
class Output:
    """Where a result goes; with none of these, to the terminal."""

    json: bool = False
    csv: bool = False
    parquet: Path | None = None
    html: Path | None = None
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class Tables:
    """Where the tables are (paths, or anything an engine can open), and who opens them."""

    engine: Engine
    opinions: Any
    items: Any = None
    users: Any = None


# -- boards ------------------------------------------------------------------------------------


def write_board(board: Board, output: Output) -> None:
    """Files first, then one thing on stdout."""
    if output.parquet is not None:
        _write_file(output.parquet, lambda path: write_parquet(board, path), output.quiet)
    if output.html is not None:
        from peerage.doors.render.pages import board_page

        _write_page(output.html, board_page(board), output.quiet)
    if output.json:
        write_json(board.document())
    elif output.csv:
        write_csv(list(board.columns), (row.values() for row in board.rows))
    else:
        from peerage.doors.cli.terminal import Terminal
        from peerage.doors.render.report_views import show_board

        show_board(Terminal(), board, output.quiet)


def _write_page(path: Path, page: str, quiet: bool) -> None:
    _write_file(path, lambda fresh: fresh.write_text(page, encoding="utf-8"), quiet)


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


def run_models(board: Board, engine: Engine, output: Output, against: Path | None = None) -> None:
    """Show a board of models, compared with an outside ranking where one is given."""
    if against is not None:
        board = replace(board, notes={**board.notes, "against": _compared(board, engine, against)})
    write_board(board, output)


def _compared(board: Board, engine: Engine, against: Path) -> dict[str, Any]:
    from peerage.boards.against import compare
    from peerage.reports.outside import read_outside
    from peerage.rules import rules

    if "category" in board.columns:
        raise UsageError("several boards have no one agreement.", hint="Name one category.")
    by = "value" if "value" in board.columns else "share"
    sign = -1.0 if by == "value" and rules.get(board.notes["rule"]).lower_is_better else 1.0
    scores = {row["model"]: sign * row[by] for row in board.rows if row[by] is not None}
    return compare(scores, read_outside(engine, against)).document()


def run_board(
    name: str,
    tables: Tables,
    asked: Mapping[str, Any],
    output: Output,
    *,
    against: Path | None = None,
    tune: bool = False,
    config_file: Path | None = None,
) -> None:
    """Make a community board and show it. `asked` holds fields of `CommunityBoardOptions`."""
    from peerage.reports.community_boards import read_tables
    from peerage.reports.outside import compared, read_outside, tuned

    if tune and against is None:
        raise UsageError("--tune needs something to agree with.", hint="Give --against FILE.")
    boards = _community_boards(tables, asked, config_file)
    board = boards.board(name)
    if against is not None:
        outside = read_outside(tables.engine, against)
        notes = {"against": compared(boards, name, outside).document()}
        if tune:
            community = read_tables(
                tables.opinions,
                tables.users,
                items=tables.items,
                engine=tables.engine,
                options=boards.options,
            )
            notes["tuned"] = tuned(community, boards.options, name, outside).document()
        board = replace(board, notes=notes)
    write_board(board, output)


def run_rings(
    tables: Tables, asked: Mapping[str, Any], output: Output, config_file: Path | None = None
) -> None:
    """The voting rings on stdout, with the evidence; finding one is not a failure."""
    boards = _community_boards(tables, asked, config_file)
    document = {**boards.rings.document(), "flags": boards.flags}
    if output.json:
        write_json(document)
        return
    from peerage.doors.cli.terminal import Terminal
    from peerage.doors.render.report_views import show_rings

    show_rings(Terminal(), document, output.quiet)


def _community_boards(
    tables: Tables, asked: Mapping[str, Any], config_file: Path | None
) -> CommunityBoards:
    from peerage.reports.community_boards import community_boards

    return community_boards(
        tables.opinions,
        tables.users,
        items=tables.items,
        engine=tables.engine,
        **{"coefficients": coefficients(config_file), **asked},
    )


def coefficients(config_file: Path | None) -> Coefficients:
    """The coefficients of `[community]`."""
    from peerage import config
    from peerage.boards.opinions import Coefficients

    return Coefficients(**noted(config.load(config_file)).community.model_dump())


# -- audits ------------------------------------------------------------------------------------


def run_audit(
    source: Any,
    reviewer: str | None = None,
    since: str = "all",
    dimension: str | None = None,
    fail_on: str | None = None,
    html: Path | None = None,
    config_file: Path | None = None,
    as_json: bool = False,
    quiet: bool = False,
    engine: str = "duckdb",
) -> None:
    """Audit a reviews table; ends with 1 where `fail_on` was asked for and found."""
    from peerage.reports import audit, audit_document

    refuse_unknown(fail_on)
    found = audit(
        source,
        engine=engine,
        since=since,
        reviewer=reviewer,
        dimension=dimension,
        limits=limits_of(config_file),
    )
    if html is not None:
        from peerage.doors.render.pages import audit_page

        _write_page(html, audit_page(found), quiet)
    if as_json:
        write_json(audit_document(found))
    else:
        from peerage.doors.cli.terminal import Terminal
        from peerage.doors.render.report_views import show_audit

        show_audit(Terminal(), found, quiet)
    fail_if_found(found, fail_on)


def refuse_unknown(fail_on: str | None) -> None:
    """Raise where `--fail-on` names nothing that an audit could find."""
    if fail_on is not None and fail_on not in FAIL_ON:
        raise UsageError(f"cannot fail on {fail_on!r}.", hint=f"Known: {', '.join(FAIL_ON)}.")


def fail_if_found(found: Audit, fail_on: str | None) -> None:
    """End with exit code 1 where an audit has what `--fail-on` names."""
    if fail_on is not None and any(one.status in FAIL_ON[fail_on] for one in found.findings):
        raise SystemExit(1)


def limits_of(config_file: Path | None) -> AuditLimits:
    """The thresholds of `[audit]` as the audit takes them."""
    from peerage import config

    return noted(config.load(config_file)).audit.limits
