"""The one read side: tables or a store in; boards and audits out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from peerage.engines import Engine, Source, engines
from peerage.errors import InputError, UsageError
from peerage.reports.options import ModelBoardOptions
from peerage.reviews.times import span_s
from peerage.types import Audit, AuditLimits, Finding

if TYPE_CHECKING:
    from peerage.biases.many_sessions import Blocks, Plan, Totals
    from peerage.boards import Board
    from peerage.boards.rings import Rings
    from peerage.engines.reviews import Reviews, RowsReading
    from peerage.reports.community_boards import CommunityBoards
    from peerage.reports.stored_reviews import RubricOf
    from peerage.reviews.rows import Rows
    from peerage.stores import Store

T = TypeVar("T")
FEW_ROWS = 2_000_000  # that one block holds


def board_models(
    reviews: Source,
    options: ModelBoardOptions | None = None,
    *,
    engine: str | Engine = "duckdb",
    item_weights: Source | None = None,
    **changes: Any,
) -> Board:
    """The models, the best first, from any `reviews` table.

    Options may also be given by name: `board_models(reviews, own_votes="in")`. Weights of
    items are a table of `item_id` and `weight`; they are matched to `query_id`, or to
    `session_id` where there is none, and a session without one is left out and counted.
    """
    from peerage.reports.model_boards import ReviewsTable, board_of_table

    asked = replace(options or ModelBoardOptions(), **changes)
    runner = engines.get(engine)() if isinstance(engine, str) else engine
    return board_of_table(ReviewsTable(runner, reviews, asked, item_weights))


def board_models_of_store(
    store: Store, rubric_of: RubricOf, options: ModelBoardOptions, engine: Engine
) -> Board:
    """The models of everything that a store holds or has imported."""
    from peerage.reports.model_boards import (
        NO_REVIEWS,
        ReviewsTable,
        StoredReviews,
        build_model_board,
    )
    from peerage.reports.stored_reviews import imported, left_out_flags, synced

    mirror = synced(store, rubric_of)
    files = [*mirror.segments, *imported(store, mirror, "reviews")]
    stored = StoredReviews(engine, mirror, files, options) if files else None
    board = build_model_board(stored or ReviewsTable(engine, NO_REVIEWS, options))
    return replace(board, flags=(*board.flags, *left_out_flags(mirror)))


def board_contributors(opinions: Source, users: Source | None = None, **options: Any) -> Board:
    """The contributors' board of any `opinions` table."""
    return _community(opinions, users, options).contributors()


def board_reviewers(opinions: Source, users: Source | None = None, **options: Any) -> Board:
    """The reviewers' board of any `opinions` table."""
    return _community(opinions, users, options).reviewers()


def board_items(opinions: Source, users: Source | None = None, **options: Any) -> Board:
    """The items' board of any `opinions` table."""
    return _community(opinions, users, options).items()


def find_rings(opinions: Source, users: Source | None = None, **options: Any) -> Rings:
    """Voting rings among any `opinions`."""
    return _community(opinions, users, options).rings


def _community(
    opinions: Source, users: Source | None, options: Mapping[str, Any]
) -> CommunityBoards:
    from peerage.reports.community_boards import community_boards

    return community_boards(opinions, users, **options)


def audit(
    reviews: Source,
    *,
    engine: str | Engine = "duckdb",
    since: str = "all",
    reviewer: str | None = None,
    dimension: str | None = None,
    limits: AuditLimits | None = None,
) -> Audit:
    """What can be said of the reviewers of many sessions, from any `reviews` table.

    q-values are over all findings, also where only one reviewer's are asked for. With a
    dimension the marks of that dimension are audited in place of scores.
    """
    from peerage.biases.many_sessions import compared_over, conclude
    from peerage.engines.reviews import read_reviews
    from peerage.engines.reviews import since as windowed

    runner = engines.get(engine)() if isinstance(engine, str) else engine
    table = read_reviews(runner, reviews)
    window = span_s(since)
    latest = table.latest
    earliest = None if window is None or latest is None else latest - window
    frame = windowed(table, earliest, None)
    plan, reading = _prepared(runner, table, frame, dimension)
    bounds = limits or AuditLimits()
    blocks = _blocks(runner, table, frame, reading)
    totals = _totals(runner, table, frame, plan, reading, blocks)
    compared = compared_over(blocks, totals, plan, bounds)
    found = conclude(totals, compared, reading.names, plan, bounds)
    found = replace(found, views={**found.views, "since": since, "not_finite": table.not_finite})
    if reviewer is not None:
        found = _about(found, reviewer, reading.names)
    return found


def _prepared(
    engine: Engine, table: Reviews, frame: Any, dimension: str | None
) -> tuple[Plan, RowsReading]:
    from peerage.biases.many_sessions import plan as planned
    from peerage.engines.reviews import reading_of
    from peerage.reviews.columns import MARK, is_number

    value = _value_column(table, dimension)
    plan = planned(table.columns, value)
    numbers = tuple(
        name
        for name in table.columns
        if (is_number(name) or name == "at")
        and (not name.startswith(MARK) or name in (*plan.dimensions, value))
        and (name not in ("rank", "score") or name == value)
    )
    text = "style" in plan.metrics
    return plan, reading_of(engine, frame, table.columns, numbers, text)


def _blocks(engine: Engine, table: Reviews, frame: Any, reading: RowsReading) -> Blocks:
    """The table as blocks to pass over, checked; one that is not large is read only once."""
    from peerage.engines.reviews import refuse_duplicates
    from peerage.reviews.rows import has_duplicates

    def passed(kernel: Callable[[Rows], T], reading: RowsReading) -> Sequence[T]:
        def checked(rows: Rows) -> T | None:
            return None if has_duplicates(rows) else kernel(rows)

        parts = _parts(engine, frame, reading, checked)
        if any(part is None for part in parts):
            refuse_duplicates(engine, frame, table.columns)
        return [part for part in parts if part is not None]

    if table.n_rows > FEW_ROWS:
        return lambda kernel: passed(kernel, reading)
    held = passed(lambda rows: rows, replace(reading, whole_queries=True))
    return lambda kernel: [kernel(rows) for rows in held]


def _parts(
    engine: Engine, frame: Any, reading: RowsReading, kernel: Callable[[Rows], T]
) -> list[T]:
    """A kernel's value on each block of whole sessions."""
    from peerage.engines.reviews import fold_rows

    def joined(parts: Sequence[list[T]]) -> list[T]:
        return [one for part in parts for one in part]

    return fold_rows(engine, frame, reading, lambda rows: [kernel(rows)], joined)


def _totals(
    engine: Engine, table: Reviews, frame: Any, plan: Plan, reading: RowsReading, blocks: Blocks
) -> Totals:
    """Every metric's sums; a large table is read again only for what compares sessions."""
    from peerage.biases.many_sessions import add, split, sums_of
    from peerage.engines.reviews import repeated_queries

    if table.n_rows <= FEW_ROWS:
        return add(blocks(partial(sums_of, plan=plan)))
    within, across = split(plan)
    totals = add(blocks(partial(sums_of, plan=within)))
    if not across.metrics:
        return totals
    if across.metrics == ("consistency",) and "query_id" in table.columns and not table.rounds:
        frame = repeated_queries(engine, frame)
    whole = replace(reading, whole_queries=True)
    compared = add(_parts(engine, frame, whole, partial(sums_of, plan=across)))
    return replace(
        totals,
        by_metric={**totals.by_metric, **compared.by_metric},
        failed={**totals.failed, **compared.failed},
    )


def _value_column(table: Reviews, dimension: str | None) -> str:
    """What stands for a review's score: marks if asked for, else scores, else ranks."""
    if dimension is not None:
        name = f"mark_{dimension}"
        if name not in table.columns:
            marks = [c.removeprefix("mark_") for c in table.columns if c.startswith("mark_")]
            raise UsageError(
                f"no review has a mark for {dimension!r}.",
                hint=f"Known: {', '.join(marks) or 'none'}.",
            )
        return name
    if "score" in table.columns and table.n_scores >= table.n_ranks:
        return "score"
    if "rank" in table.columns:
        return "rank"
    if "score" in table.columns:
        return "score"
    raise InputError(
        "the table has marks but neither a rank nor a score.", hint="Name a dimension to audit."
    )


def _about(found: Audit, reviewer: str, names: tuple[str, ...]) -> Audit:
    """The findings whose subject is one reviewer, or a pair that it is the reviewer of."""
    if reviewer not in names:
        known = ", ".join(names[:20])
        raise UsageError(f"nobody is called {reviewer!r} here.", hint=f"Known: {known}.")
    kept = tuple(
        one
        for one in found.findings
        if one.subject == reviewer or one.subject.startswith(f"{reviewer}>")
    )
    return replace(found, findings=kept)


def audit_document(found: Audit) -> dict[str, Any]:
    """An audit as plain JSON values, in the public shape."""
    return {
        "findings": [finding_row(one) for one in found.findings],
        "parameters": dict(found.views),
    }


def finding_row(one: Finding) -> dict[str, Any]:
    row = one._asdict()
    order = ("metric", "subject", "value", "low", "high", "p", "q", "n", "n_min", "status", "note")
    return {name: row[name] for name in (*order, "mde", "n_needed", "edge")}
