"""Boards, audits, rings, advice and gates from tables alone: the functions for Python."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from peerage.arguments import NAMES, PATH, TEXT, Kind, check_arguments, instance, optional
from peerage.engines import Engine, Source
from peerage.findings import Audit, AuditLimits
from peerage.reports import InputTables, Reports, read_community_boards, read_model_board
from peerage.reports.options import (
    AdviseOptions,
    AuditOptions,
    ContributorBoardOptions,
    GateOptions,
    ItemBoardOptions,
    ModelBoardOptions,
    ReviewerBoardOptions,
    ReviewSelection,
    RingsOptions,
)
from peerage.types import CommunityCoefficients, Rubric

if TYPE_CHECKING:
    from peerage.boards import Board
    from peerage.boards.panel_choice import Advice
    from peerage.boards.rings import Rings
    from peerage.reports.community_boards import CommunityBoards
    from peerage.reports.gate_results import GateResult, GateResults

TABLE = Kind(
    "a table",
    lambda value: value is not None,
    "Pass a path, or a table of polars, pandas, pyarrow or DuckDB.",
)
COEFFICIENTS_OF = optional(instance("CommunityCoefficients", CommunityCoefficients))


@check_arguments(ModelBoardOptions, reviews=TABLE)
def board_models(
    reviews: Source,
    *,
    engine: str | Engine = "duckdb",
    item_weights: Source | None = None,
    against: Source | None = None,
    **options: object,
) -> Board:
    """Rank models, the best first, from any `reviews` table.

    `engine` is duckdb or spark. `item_weights` is a table of `item_id` and `weight`; items are
    matched to `query_id`, or to `session_id` if there is none. Sessions without a weight are left
    out, and the board reports their number. `against` is an outside ranking to compare with.
    """
    chosen = ModelBoardOptions.of(options)
    tables = InputTables(reviews, item_weights, against=against, engine=engine)
    with tables.as_parquet() as files:
        return read_model_board(files, chosen, _default_rubric(chosen))


def _default_rubric(options: ReviewSelection) -> Rubric | None:
    """Return the default rubric if marks are weighted again, since its ceilings apply."""
    from peerage import config

    return config.Settings().rubric_for("") if options.weights else None


@check_arguments(ContributorBoardOptions, opinions=TABLE, coefficients=COEFFICIENTS_OF)
def board_contributors(
    opinions: Source,
    users: Source | None = None,
    *,
    items: Source | None = None,
    engine: str | Engine = "duckdb",
    coefficients: CommunityCoefficients | None = None,
    **options: object,
) -> Board:
    """Rank contributors, the best first, from any `opinions` table.

    `users` has the affiliations, `items` the contributors of items; `coefficients` are the weights,
    minima and bonus of the community boards.
    """
    tables = InputTables(opinions=opinions, items=items, users=users, engine=engine)
    with _community_boards(tables, ContributorBoardOptions.of(options), coefficients) as boards:
        return boards.board()


@check_arguments(ReviewerBoardOptions, opinions=TABLE, coefficients=COEFFICIENTS_OF)
def board_reviewers(
    opinions: Source,
    users: Source | None = None,
    *,
    items: Source | None = None,
    engine: str | Engine = "duckdb",
    coefficients: CommunityCoefficients | None = None,
    **options: object,
) -> Board:
    """Rank reviewers, the best first, from any `opinions` table."""
    tables = InputTables(opinions=opinions, items=items, users=users, engine=engine)
    with _community_boards(tables, ReviewerBoardOptions.of(options), coefficients) as boards:
        return boards.board()


@check_arguments(ItemBoardOptions, opinions=TABLE, coefficients=COEFFICIENTS_OF)
def board_items(
    opinions: Source,
    users: Source | None = None,
    *,
    items: Source | None = None,
    engine: str | Engine = "duckdb",
    coefficients: CommunityCoefficients | None = None,
    **options: object,
) -> Board:
    """Rank items, the best first, from any `opinions` table."""
    tables = InputTables(opinions=opinions, items=items, users=users, engine=engine)
    with _community_boards(tables, ItemBoardOptions.of(options), coefficients) as boards:
        return boards.board()


@check_arguments(RingsOptions, opinions=TABLE, coefficients=COEFFICIENTS_OF)
def find_rings(
    opinions: Source,
    users: Source | None = None,
    *,
    items: Source | None = None,
    engine: str | Engine = "duckdb",
    coefficients: CommunityCoefficients | None = None,
    **options: object,
) -> Rings:
    """Find voting rings in any `opinions` table, with the evidence."""
    tables = InputTables(opinions=opinions, items=items, users=users, engine=engine)
    with _community_boards(tables, RingsOptions.of(options), coefficients) as boards:
        return boards.rings


@contextmanager
def _community_boards(
    tables: InputTables, options: RingsOptions, coefficients: CommunityCoefficients | None
) -> Iterator[CommunityBoards]:
    """Yield the boards of a community's tables, which are read while the context is open."""
    with tables.as_parquet() as files:
        yield read_community_boards(files, options, coefficients)


@check_arguments(AuditOptions, reviews=TABLE, limits=optional(instance("AuditLimits", AuditLimits)))
def audit(
    reviews: Source,
    *,
    engine: str | Engine = "duckdb",
    limits: AuditLimits | None = None,
    **options: object,
) -> Audit:
    """Audit the reviewers of many sessions, from any `reviews` table.

    q-values are computed over all findings, even if `reviewer` selects some. With `dimension`, the
    marks of that dimension are audited in place of the scores.
    """
    from peerage.engines.review_tables import read_reviews
    from peerage.reports.audits import audit_reviews

    chosen = AuditOptions.of(options)
    with InputTables(reviews, engine=engine).as_parquet() as files:
        limits = limits or AuditLimits()
        table = read_reviews(files.runner(), files.reviews)
        return audit_reviews(table, chosen, limits, _default_rubric(chosen))


@check_arguments(AdviseOptions, reviews=TABLE)
def advise(reviews: Source, *, engine: str | Engine = "duckdb", **options: object) -> Advice:
    """Return advice on which judges a panel needs, from any `reviews` table.

    The result has the contribution of each judge, the best smaller panels and a cascade, with
    figures on held-out queries.
    """
    from peerage import config

    tables = InputTables(reviews, engine=engine)
    return Reports(config.Settings(), tables).advise(AdviseOptions.of(options))


@check_arguments(GateOptions, reviews=TABLE, base=TEXT, candidate=NAMES, against=optional(PATH))
def gate(
    reviews: Source,
    *,
    engine: str | Engine = "duckdb",
    against: str | Path | None = None,
    **options: object,
) -> GateResult | GateResults:
    """Decide whether a candidate is worse than its base, from any `reviews` table.

    `against` is a baseline file to use instead of a base. The result has the verdict (better,
    worse, same, not_worse or undecided), the difference with its interval, and the evidence.
    With several candidates, it has a result for each, and they share the probability of a false
    verdict.
    """
    from peerage.engines.review_tables import read_reviews
    from peerage.reports.gate_files import read_baseline
    from peerage.reports.gates import decide_gate, one_or_several

    chosen = GateOptions.of(options)
    baseline = None if against is None else read_baseline(Path(against))
    with InputTables(reviews, engine=engine).as_parquet() as files:
        table = read_reviews(files.runner(), files.reviews)
        rubric = _default_rubric(chosen)
        return one_or_several(decide_gate(table, chosen, rubric, baseline=baseline))
