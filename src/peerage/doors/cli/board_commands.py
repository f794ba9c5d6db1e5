"""`peerage board`, `audit` and `rings`: parse, ask the read side, render."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from peerage.doors.cli.options import FLAT, Common, OpinionFiles, ReviewFiles
from peerage.doors.cli.screen import say, write_json
from peerage.errors import UsageError
from peerage.reports.options import (
    AuditOptions,
    CommunityBoardOptions,
    ContributorBoardOptions,
    ItemBoardOptions,
    ModelBoardOptions,
    ReviewerBoardOptions,
    RingsOptions,
)

if TYPE_CHECKING:
    from peerage.boards import Board
    from peerage.types import Audit

FailOn = Literal["evidence", "indicator"]
FAIL_ON: Mapping[FailOn, tuple[str, ...]] = {
    "evidence": ("evidence",),
    "indicator": ("evidence", "indicator"),
}
FOUND = 1

app = App(name="board")

Against = Annotated[Path | None, Parameter(help="Compare with an outside ranking in this file.")]
Tune = Annotated[bool, Parameter(help="Search the coefficients that agree best with --against.")]
Html = Annotated[Path | None, Parameter(help="Write a page with charts to this file.")]


@FLAT
@dataclass(frozen=True)
class BoardFiles:
    """The forms that a board can take beside the terminal's."""

    csv: Annotated[bool, Parameter(help="The rows as CSV on stdout.")] = False
    parquet: Annotated[Path | None, Parameter(help="Write the rows to this file.")] = None
    html: Html = None


@app.default
def no_board(name: Annotated[str, Parameter(show=False)] = "", /) -> None:
    """Refuse a board that there is not."""
    raise UsageError(
        f"there is no board {name!r}." if name else "name a board.",
        hint="Known: models, contributors, reviewers, items.",
    )


@app.command
def models(
    *,
    options: Annotated[ModelBoardOptions, FLAT] = ModelBoardOptions(),
    item_weights: Annotated[
        Path | None, Parameter(help="Weights of items: a table of item_id and weight.")
    ] = None,
    against: Against = None,
    reviews: ReviewFiles = ReviewFiles(),
    forms: BoardFiles = BoardFiles(),
    common: Common = Common(),
) -> None:
    """Rank models, with intervals, rank ranges and tiers."""
    tables = reviews.tables(item_weights, against)
    _write(common.reports(tables).board(options), forms, common)


@app.command
def contributors(
    *,
    options: Annotated[ContributorBoardOptions, FLAT] = ContributorBoardOptions(),
    against: Against = None,
    tune: Tune = False,
    opinions: OpinionFiles = OpinionFiles(),
    forms: BoardFiles = BoardFiles(),
    common: Common = Common(),
) -> None:
    """Rank those who contribute items, by the quality of what they contribute."""
    _community(options, opinions, against, tune, forms, common)


@app.command
def reviewers(
    *,
    options: Annotated[ReviewerBoardOptions, FLAT] = ReviewerBoardOptions(),
    against: Against = None,
    tune: Tune = False,
    opinions: OpinionFiles = OpinionFiles(),
    forms: BoardFiles = BoardFiles(),
    common: Common = Common(),
) -> None:
    """Rank those who give opinions, by how well they agree with the others."""
    _community(options, opinions, against, tune, forms, common)


@app.command
def items(
    *,
    options: Annotated[ItemBoardOptions, FLAT] = ItemBoardOptions(),
    against: Against = None,
    tune: Tune = False,
    opinions: OpinionFiles = OpinionFiles(),
    forms: BoardFiles = BoardFiles(),
    common: Common = Common(),
) -> None:
    """Rank items by the opinions on them."""
    _community(options, opinions, against, tune, forms, common)


def audit(
    *,
    options: Annotated[AuditOptions, FLAT] = AuditOptions(),
    session: Annotated[str | None, Parameter(help="Audit this one session of the store.")] = None,
    fail_on: Annotated[FailOn | None, Parameter(help="Exit with 1 where this is found.")] = None,
    html: Html = None,
    reviews: ReviewFiles = ReviewFiles(),
    common: Common = Common(),
) -> int:
    """Audit the reviewers: who is biased, how sure is that, what cannot be known."""
    reports = common.reports(reviews.tables())
    found = reports.audit(options) if session is None else reports.audit_session(session)
    _show_audit(found, html, common)
    failing = FAIL_ON[fail_on] if fail_on is not None else ()
    return FOUND if any(one.status in failing for one in found.findings) else 0


def rings(
    *,
    options: Annotated[RingsOptions, FLAT] = RingsOptions(),
    opinions: OpinionFiles = OpinionFiles(),
    common: Common = Common(),
) -> None:
    """Find voting rings, with p-values and the evidence; nobody is punished."""
    found = common.reports(opinions.tables()).rings(options)
    if found.hint and not common.quiet:
        say(found.hint)
    if common.json:
        write_json(found.document())
        return
    from peerage.doors.cli.community import show_rings
    from peerage.doors.cli.terminal import Terminal

    show_rings(Terminal(), found.document(), common.quiet)


def _community(
    options: CommunityBoardOptions,
    opinions: OpinionFiles,
    against: Path | None,
    tune: bool,
    forms: BoardFiles,
    common: Common,
) -> None:
    board = common.reports(opinions.tables(against)).board(options, tune=tune)
    _write(board, forms, common)


def _write(board: Board, forms: BoardFiles, common: Common) -> None:
    from peerage.doors.cli import board_models, community
    from peerage.doors.cli.output import Output, write

    if board.hint and not common.quiet:
        say(board.hint)
    output = Output(common.json, forms.csv, forms.parquet, forms.html, common.quiet)
    write(board, output, board_models.show if board.board == "models" else community.show_board)


def _show_audit(found: Audit, html: Path | None, common: Common) -> None:
    from peerage.doors.cli.audit import show
    from peerage.doors.cli.output import flag_line
    from peerage.doors.files import write_file

    for flag in found.views.get("flags", ()):
        say(flag_line(flag).strip())
    if html is not None:
        from peerage.doors.cli.audit_page import render_audit

        page = render_audit(found)
        write_file(html, lambda path: path.write_text(page, encoding="utf-8"))
        if not common.quiet:
            say(f"wrote {html}")
    if common.json:
        write_json(found.document())
        return
    from peerage.doors.cli.terminal import Terminal

    show(Terminal(), found, common.quiet)
