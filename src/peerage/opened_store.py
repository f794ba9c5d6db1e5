"""`peerage.open`: sessions, boards, audits and reviews of a store, for scripts and notebooks."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from peerage import config
from peerage.arguments import NAMES, PATH, TEXT, check_arguments, optional
from peerage.engines import Engine, Source
from peerage.findings import Audit
from peerage.notebooks import needs_frames
from peerage.reports import InputTables, Reports
from peerage.reports.options import (
    AdviseOptions,
    AuditOptions,
    CommunityBoardOptions,
    ContributorBoardOptions,
    DiffOptions,
    GateOptions,
    ItemBoardOptions,
    ModelBoardOptions,
    ReviewerBoardOptions,
    RingsOptions,
)
from peerage.reports.session_options import ReplayOptions, SessionsOptions
from peerage.scoring import Scored
from peerage.tasks import LoopThread
from peerage.types import Session

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped]

    from peerage.boards import Board
    from peerage.boards.panel_choice import Advice
    from peerage.boards.rings import Rings
    from peerage.reports.gate_results import GateResult, GateResults
    from peerage.reports.review_diff import ReviewDiff
    from peerage.reports.sessions import SessionList


@check_arguments(url=optional(TEXT), config=optional(PATH))
def open(  # noqa: A001 - read as `peerage.open`, like `gzip.open`
    url: str | None = None, *, config: str | Path | None = None
) -> OpenedStore:
    """Open a store to read its sessions, boards, audits and reviews.

    `url` is as in `sqlite:///peerage.db` or `postgresql://host/name`; the store must exist. With
    `config`, or without a URL, the configuration file and the environment give the store, rubrics
    and thresholds; with a URL alone, defaults are used.
    """
    return OpenedStore(_settings_of(url, config))


def _settings_of(url: str | None, file: str | Path | None) -> config.Settings:
    if url is not None and file is None:
        return config.with_flags(config.Settings(), {"store": url})
    return config.load(file, flags={"store": url})


class OpenedStore:
    """A store that is open for reading; `with peerage.open(url) as store:` closes it."""

    def __init__(self, settings: config.Settings) -> None:
        self._reports = Reports(settings, must_exist=True)
        self.place = self._reports.store.place  # opens it, so that a wrong URL fails now

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"OpenedStore({self.place!r})"

    def close(self) -> None:
        """Close the connections."""
        with closing(LoopThread()) as thread:
            thread.run(self._reports.store.close())

    # -- sessions ------------------------------------------------------------------------------

    @check_arguments(SessionsOptions)
    def sessions(self, **options: object) -> SessionList:
        """Return the latest sessions, in the order they were opened."""
        return self._reports.sessions(SessionsOptions.of(options))

    @check_arguments(id=TEXT)
    def session(self, id: str) -> Session:
        """Return one session by its id, or by the beginning of its id."""
        return self._reports.session(id).session

    @check_arguments(ReplayOptions, id=TEXT)
    def replay(self, id: str, **options: object) -> Scored:
        """Score a stored session again by other options; no model is called."""
        return self._reports.replay(id, ReplayOptions.of(options))

    # -- boards --------------------------------------------------------------------------------

    @check_arguments(ModelBoardOptions)
    def board_models(
        self,
        *,
        engine: str | Engine = "duckdb",
        item_weights: Source | None = None,
        against: Source | None = None,
        **options: object,
    ) -> Board:
        """Rank models, the best first; the arguments are those of `peerage.board_models`."""
        tables = InputTables(item_weights=item_weights, against=against, engine=engine)
        return self._over(tables).board(ModelBoardOptions.of(options))

    @check_arguments(ContributorBoardOptions)
    def board_contributors(
        self, *, engine: str | Engine = "duckdb", against: Source | None = None, **options: object
    ) -> Board:
        """Rank contributors, the best first; `against` is an outside ranking to compare with."""
        return self._community(ContributorBoardOptions.of(options), engine, against)

    @check_arguments(ReviewerBoardOptions)
    def board_reviewers(
        self, *, engine: str | Engine = "duckdb", against: Source | None = None, **options: object
    ) -> Board:
        """Rank reviewers, the best first; `against` is an outside ranking to compare with."""
        return self._community(ReviewerBoardOptions.of(options), engine, against)

    @check_arguments(ItemBoardOptions)
    def board_items(
        self, *, engine: str | Engine = "duckdb", against: Source | None = None, **options: object
    ) -> Board:
        """Rank items, the best first; `against` is an outside ranking to compare with."""
        return self._community(ItemBoardOptions.of(options), engine, against)

    @check_arguments(DiffOptions, a=TEXT, b=TEXT)
    def diff(self, a: str, b: str, **options: object) -> ReviewDiff:
        """Compare two seasons by their ids: models that moved, and the reviews that moved them."""
        from peerage.reports.review_diff import compare_seasons

        return compare_seasons(self._reports, a, b, DiffOptions.of(options))

    # -- reviewers -----------------------------------------------------------------------------

    @check_arguments(AuditOptions)
    def audit(self, *, engine: str | Engine = "duckdb", **options: object) -> Audit:
        """Audit the reviewers of all sessions."""
        return self._over(InputTables(engine=engine)).audit(AuditOptions.of(options))

    @check_arguments(AdviseOptions)
    def advise(self, *, engine: str | Engine = "duckdb", **options: object) -> Advice:
        """Return advice on which judges the panel needs; see `peerage.advise`."""
        return self._over(InputTables(engine=engine)).advise(AdviseOptions.of(options))

    @check_arguments(GateOptions, base=TEXT, candidate=NAMES, against=optional(PATH))
    def gate(
        self,
        *,
        engine: str | Engine = "duckdb",
        against: str | Path | None = None,
        **options: object,
    ) -> GateResult | GateResults:
        """Decide whether a candidate is worse than its base; see `peerage.gate`."""
        from peerage.reports.gate_files import read_baseline

        baseline = None if against is None else read_baseline(Path(against))
        return self._over(InputTables(engine=engine)).gate(GateOptions.of(options), baseline)

    @check_arguments(RingsOptions)
    def rings(self, *, engine: str | Engine = "duckdb", **options: object) -> Rings:
        """Find voting rings among the opinions, with the evidence."""
        return self._over(InputTables(engine=engine)).rings(RingsOptions.of(options))

    def reviews(self) -> pyarrow.Table:
        """Return every review, including imported ones, as one Arrow table of `reviews` columns."""
        with needs_frames():
            import pyarrow  # noqa: F401 - DuckDB needs it to make the table
        engine = InputTables().runner()
        files = self._reports.review_files()
        engine.admit(files)
        return engine.open(files).collect("pyarrow").to_native()

    def _community(
        self, options: CommunityBoardOptions, engine: str | Engine, against: Source | None
    ) -> Board:
        return self._over(InputTables(against=against, engine=engine)).board(options)

    def _over(self, tables: InputTables) -> Reports:
        """Return reports on the same store, with the tables and engine of one call."""
        reports = replace(self._reports, tables=tables)
        vars(reports)["store"] = self._reports.store  # reuse the open connections
        return reports
