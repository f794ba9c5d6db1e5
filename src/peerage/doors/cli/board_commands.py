"""`peerage board`, `audit`, `diff` and `rings`: parse options, call reports, render."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from peerage.boards import Board
from peerage.doors.cli.common_options import FLAT, Common, Files, JudgementFiles, OpinionFiles
from peerage.doors.cli.screen import HelpPage, say, write_line, write_out
from peerage.doors.render.board_files import board_csv, write_parquet
from peerage.doors.render.diff_views import diff_blocks
from peerage.doors.render.layout import blocks_markdown
from peerage.doors.render.phrases import board_window, flag_text
from peerage.doors.render.report_views import show_audit, show_board, show_rings
from peerage.engines.review_tables import read_reviews
from peerage.errors import PeerageError, UsageError, meant, shown
from peerage.imports.files import open_reviews
from peerage.reports import InputTables
from peerage.reports.options import (
    BOARD_OPTIONS,
    AuditOptions,
    CommunityBoardOptions,
    ContributorBoardOptions,
    DiffOptions,
    ItemBoardOptions,
    ModelBoardOptions,
    ReviewerBoardOptions,
    RingsOptions,
)
from peerage.reports.review_diff import NamedReviews, compare_reviews, season_reviews
from peerage.reports.stored_reviews import keep_reviews
from peerage.stores import without_password

if TYPE_CHECKING:
    from peerage.imports.formats import Format

FailOn = Literal["evidence", "indicator", "advice"]
FAIL_ON: Mapping[FailOn, tuple[str, ...]] = {
    "evidence": ("evidence",),
    "indicator": ("evidence", "indicator"),
    "advice": (),
}
HAS_FINDINGS = 1  # the exit code if there is a finding of the kind that --fail-on names

board = App(
    name="board",
    help_formatter=HelpPage("peerage board models", "peerage board contributors --help"),
)

Against = Annotated[Path | None, Parameter(help="Outside ranking (a file) to compare with.")]
Tune = Annotated[
    bool, Parameter(help="Search for the coefficients that agree best with --against.")
]
Html = Annotated[
    Path | None, Parameter(help="Write a page with charts to this file.", validator=())
]


@FLAT
@dataclass(frozen=True)
class BoardFiles:
    """Other outputs of a board: files and formats."""

    csv: Annotated[bool, Parameter(help="Print the rows as CSV on stdout.")] = False
    parquet: Annotated[
        Path | None, Parameter(help="Write the rows to this file.", validator=())
    ] = None
    html: Html = None

    def write(self, board: Board, common: Common) -> None:
        """Write the files, then one result to stdout."""
        if board.hint and not common.quiet:
            say(board.hint)
        if self.parquet is not None:
            common.write_file(self.parquet, lambda path: write_parquet(board, path))
        if self.html is not None:
            from peerage.doors.render.pages import board_page

            common.write_page(self.html, board_page(board))
        if self.csv and not common.json:
            if board.n_left_out and not (board.hint or common.quiet):
                say(f"{board_window(board)}; --since all counts them too")
            write_out(board_csv(board))
        else:
            common.write(board, show_board)


@board.default
def no_board(*words: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)]) -> None:
    """Raise an error for a missing or unknown board, whatever options come with it."""
    if not words or words[0].startswith("-"):
        raise UsageError("no board was named.", hint=f"Known: {', '.join(BOARD_OPTIONS)}.")
    raise UsageError(f"there is no board {shown(words[0])}.", hint=meant(words[0], BOARD_OPTIONS))


@board.command(
    help_formatter=HelpPage(
        "peerage board models",
        "peerage board models votes.csv --rule bradley_terry --csv",
        "peerage board models --since all --by-category --html board.html",
        "peerage board models --without ann bob --weights accuracy=0.7,clarity=0.3",
    )
)
def models(
    files: Files = (),
    /,
    *,
    options: Annotated[ModelBoardOptions, FLAT] = ModelBoardOptions(),
    item_weights: Annotated[
        Path | None, Parameter(help="Weights of items: a table of item_id and weight.")
    ] = None,
    against: Against = None,
    reviews: JudgementFiles = JudgementFiles(),
    forms: BoardFiles = BoardFiles(),
    common: Common = Common(),
) -> None:
    """Rank models, with intervals, rank ranges and tiers."""
    with reviews.open(files, against, item_weights) as tables:
        forms.write(common.reports(tables).board(options), common)


@FLAT
@dataclass(frozen=True)
class CommunityBoard:
    """Options of every community board."""

    against: Against = None
    tune: Tune = False
    opinions: OpinionFiles = field(default_factory=OpinionFiles)
    forms: BoardFiles = field(default_factory=BoardFiles)
    common: Common = field(default_factory=Common)

    def write(self, options: CommunityBoardOptions) -> None:
        """Create the board that these options describe, and write it in its formats."""
        reports = self.common.reports(self.opinions.tables(self.against))
        self.forms.write(reports.board(options, tune=self.tune), self.common)


def _add_community_board(
    name: str, kind: type[CommunityBoardOptions], about: str, *examples: str
) -> None:
    """Add a command that creates the board that its options describe."""

    def command(*, options: Any = kind(), files: CommunityBoard = CommunityBoard()) -> None:
        files.write(options)

    command.__annotations__["options"] = Annotated[kind, FLAT]
    formatter = HelpPage(f"peerage board {name}", *examples)
    board.command(command, name=name, help=about, help_formatter=formatter)


for _board in (
    (
        "contributors",
        ContributorBoardOptions,
        "Rank people who contribute items, by the quality of their items.",
        "peerage board contributors --opinions opinions.csv --users users.csv --by quality",
    ),
    (
        "reviewers",
        ReviewerBoardOptions,
        "Rank people who give opinions, by their agreement with others.",
        "peerage board reviewers --reputation iterate --all --json",
    ),
    (
        "items",
        ItemBoardOptions,
        "Rank items by the opinions on them.",
        "peerage board items --half-life 90 --without-flagged",
    ),
):
    _add_community_board(*_board)


def audit(
    files: Files = (),
    /,
    *,
    options: Annotated[AuditOptions, FLAT] = AuditOptions(),
    session: Annotated[str | None, Parameter(help="Audit only this session of the store.")] = None,
    fail_on: Annotated[
        FailOn | None,
        Parameter(help="Exit with 1 if there is such a finding, or such advice against a judge."),
    ] = None,
    judge: Annotated[
        list[str] | None,
        Parameter(help="Columns of judges, in a table with labels; recognised by default."),
    ] = None,
    human: Annotated[list[str] | None, Parameter(show=False)] = None,
    html: Html = None,
    reviews: JudgementFiles = JudgementFiles(),
    common: Common = Common(),
) -> int:
    """Audit the reviewers: biases, how certain they are, and what is unknown.

    A file with labels by people begins with each judge against people.
    """
    if session is not None and options.selects:
        names = ", ".join(f"--{name}" for name in options.chosen)
        raise UsageError(f"--session audits one whole session, so {names} cannot be used.")
    if human:
        options = options.model_copy(update={"people": (*(options.people or ()), *human)})
    implied = [options.reviewer] if options.people and options.reviewer else []
    labels = _labels_format(files, judge or implied, options.people or ())
    if labels is None and judge:
        raise UsageError(
            f"--judge names columns of a file, and there is no column {shown(judge[0])}.",
            hint="As in: peerage audit answers.csv --judge gpt --people human",
        )
    if labels is not None:  # then the table says who the people are
        options = options.model_copy(update={"people": None, "reviewer": None})
    with reviews.open(files, known_format=labels) as tables:
        reports = common.reports(tables)
        result = reports.audit(options) if session is None else reports.audit_session(session)
    for flag in result.views.get("flags", ()):
        say(flag_text(flag))
    if html is not None:
        from peerage.doors.render.pages import audit_page

        common.write_page(html, audit_page(result))
    common.write(result, show_audit)
    failing = FAIL_ON[fail_on] if fail_on is not None else ()
    if fail_on == "advice" and any(x.advice == "do_not_rely_on" for x in result.against_people):
        return HAS_FINDINGS
    return HAS_FINDINGS if any(one.status in failing for one in result.findings) else 0


def _labels_format(
    files: Sequence[Path], judges: Sequence[str], people: Sequence[str]
) -> Format | None:
    """Return the format of a table with labels if its columns were named, else None."""
    if not files or not (judges or people):
        return None
    from peerage.imports.formats.wide_labels import named_format

    return named_format(files[0], judges, people)


def rings(
    *,
    options: Annotated[RingsOptions, FLAT] = RingsOptions(),
    opinions: OpinionFiles = OpinionFiles(),
    common: Common = Common(),
) -> None:
    """Find voting rings, with p-values and the evidence."""
    result = common.reports(opinions.tables()).rings(options)
    if result.hint and not common.quiet:
        say(result.hint)
    common.write(result, show_rings)


# -- two sets of reviews ---------------------------------------------------------------------------

SIDE = "A season of the store, a file of judgements, or another store."
SQLITE = b"SQLite format 3"  # the beginning of every SQLite file


def diff(
    a: Annotated[str, Parameter(name="A", help=SIDE)],
    b: Annotated[str, Parameter(name="B", help=SIDE)],
    /,
    *,
    options: Annotated[DiffOptions, FLAT] = DiffOptions(),
    markdown: Annotated[bool, Parameter(help="Print a comment for a pull request.")] = False,
    common: Common = Common(),
) -> None:
    """Show which models moved from A to B, with intervals, and the reviews behind each move."""
    with ExitStack() as stack:
        first, second = (_open_side(stack, name, common) for name in (a, b))
        if first.name == second.name:
            raise UsageError(
                f"{first.name} cannot be compared with itself.",
                hint="Name two seasons, files or stores.",
            )
        result = compare_reviews(first, second, options)
    if markdown and not common.json:
        write_line(blocks_markdown(diff_blocks(result)), multiline=True)
    else:
        common.write(result, lambda screen, one, quiet: screen.show_blocks(diff_blocks(one, quiet)))


def _open_side(stack: ExitStack, name: str, common: Common) -> NamedReviews:
    """Return the reviews that a name stands for: a store, a file or a season."""
    path = Path(name)
    if "://" not in name and path.exists():
        if path.is_file() and _is_sqlite(path):
            return _stored_side(f"sqlite:///{path}", common)
        tables = InputTables(stack.enter_context(open_reviews([path], note=say)))
        tables = stack.enter_context(tables.as_parquet())
        return NamedReviews(str(path), read_reviews(tables.runner(), tables.reviews))
    if "://" in name:
        return _stored_side(name, common)
    try:
        return season_reviews(common.reports(), name)
    except PeerageError as error:
        raise UsageError(f"there is no file {shown(name)}, and {error}") from None


def _stored_side(url: str, common: Common) -> NamedReviews:
    """Return all reviews of another store."""
    reports = replace(common, store=url).reports()
    return NamedReviews(without_password(url), keep_reviews(reports.review_files()))


def _is_sqlite(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(SQLITE)) == SQLITE
