"""`peerage board`, `audit` and `rings`: parse, ask the read side, render."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from peerage.doors.cli.help_pages import HelpPage
from peerage.doors.cli.options import FLAT, Common, OpinionFiles, ReviewFiles
from peerage.doors.cli.output import Output, write_audit, write_board
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

FailOn = Literal["evidence", "indicator"]
FAIL_ON: Mapping[FailOn, tuple[str, ...]] = {
    "evidence": ("evidence",),
    "indicator": ("evidence", "indicator"),
}
FOUND = 1

app = App(
    name="board",
    help_formatter=HelpPage("peerage board models", "peerage board contributors --help"),
)

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

    def output(self, common: Common) -> Output:
        return Output(common.json, self.csv, self.parquet, self.html, common.quiet)


@app.default
def no_board(name: Annotated[str, Parameter(show=False)] = "", /) -> None:
    """Refuse a board that there is not."""
    raise UsageError(
        f"there is no board {name!r}." if name else "name a board.",
        hint="Known: models, contributors, reviewers, items.",
    )


@app.command(
    help_formatter=HelpPage(
        "peerage board models",
        "peerage board models --reviews votes.csv --rule bradley_terry --csv",
        "peerage board models --since all --by-category --html board.html",
    )
)
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
    write_board(common.reports(tables).board(options), forms.output(common))


@app.command(
    help_formatter=HelpPage(
        "peerage board contributors",
        "peerage board contributors --opinions opinions.csv --users users.csv --sort quality_score",
    )
)
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


@app.command(
    help_formatter=HelpPage(
        "peerage board reviewers",
        "peerage board reviewers --reputation iterate --all --json",
    )
)
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


@app.command(
    help_formatter=HelpPage(
        "peerage board items",
        "peerage board items --half-life 90 --without-flagged",
    )
)
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
    write_audit(found, Output(json=common.json, html=html, quiet=common.quiet))
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
    from peerage.doors.cli.terminal import Terminal
    from peerage.doors.render.report_views import show_rings

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
    write_board(board, forms.output(common))
