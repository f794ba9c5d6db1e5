"""The audit of many sessions: which rows it reads, block by block, and whose findings it shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TypeVar

import narwhals.stable.v2 as nw

from peerage.biases.many_sessions import (
    AuditPlan,
    Blocks,
    Totals,
    add,
    compared_over,
    conclude,
    plan,
    split,
    sums_of,
)
from peerage.engines import Engine, Frame, Source
from peerage.engines.review_tables import (
    Reviews,
    RowsReading,
    fold_rows,
    limits_in,
    read_reviews,
    reading_of,
    refuse_duplicates,
    repeated_queries,
    since,
)
from peerage.errors import InputError, UsageError
from peerage.reports.options import AuditOptions
from peerage.reports.recounts import select_reviews
from peerage.reviews.columns import MARK, is_number
from peerage.reviews.lengths import LengthLimits, with_lengths
from peerage.reviews.names import alike_flags
from peerage.reviews.rows import Rows, has_duplicates
from peerage.reviews.times import span_s
from peerage.types import Audit, AuditLimits, Rubric

T = TypeVar("T")
FEW_ROWS = 2_000_000  # that one block holds


def audit_reviews(
    engine: Engine,
    reviews: Source,
    options: AuditOptions,
    limits: AuditLimits,
    rubric: Rubric | None = None,
) -> Audit:
    """What can be said of the reviewers of a table of reviews."""
    table = select_reviews(engine, read_reviews(engine, reviews), options, rubric)
    window = span_s(options.since)
    earliest = None if window is None or table.latest is None else table.latest - window
    frame = since(table, earliest, None)
    value = _value_column(table, options.dimension)
    planned = plan(table.columns, value)
    numbers = tuple(
        name
        for name in table.columns
        if (is_number(name) or name == "at")
        and (not name.startswith(MARK) or name in (*planned.dimensions, value))
        and (name not in ("rank", "score") or name == value)
    )
    text = "style" in planned.metrics
    rows = _AuditRows(engine, table, frame, reading_of(engine, frame, table.columns, numbers, text))
    blocks = rows.blocks()
    totals = rows.totals(planned, blocks)
    compared = compared_over(blocks, totals, planned, limits)
    names = rows.reading.names["reviewer"]
    audit = conclude(totals, compared, names, planned, limits)
    views = {**audit.views, "since": options.since, "not_finite": table.not_finite}
    views |= options.chosen
    if flags := (*table.flags, *alike_flags(names)):
        views["flags"] = flags
    if people := rows.people():
        views["people"] = people
    audit = replace(audit, views=views)
    return audit if options.reviewer is None else _about(audit, options.reviewer, names)


@dataclass(frozen=True, slots=True)
class _AuditRows:
    """The rows that are audited, to be passed over block by block."""

    engine: Engine
    table: Reviews
    frame: Frame  # those of the table's rows that are in the window
    reading: RowsReading

    def people(self) -> list[str]:
        """The reviewers who are people, not models."""
        if "person" not in self.table.columns:
            return []
        named = self.frame.filter(nw.col("person") == 1).select("reviewer").unique()
        return sorted(self.engine.arrays(named)["reviewer"].tolist())

    def blocks(self) -> Blocks:
        """The table as blocks to pass over, checked; one that is not large is read only once."""
        limits = self._length_limits()

        def with_limits(rows: Rows) -> Rows:
            return rows if limits is None else with_lengths(rows, limits)

        if self.table.n_rows > FEW_ROWS:
            return lambda kernel: self._checked(
                lambda rows: kernel(with_limits(rows)), self.reading
            )
        blocks = self._checked(with_limits, replace(self.reading, whole_queries=True))
        return lambda kernel: [kernel(rows) for rows in blocks]

    def _length_limits(self) -> LengthLimits | None:
        """The lengths beyond which a candidate's answers are outliers; None without lengths."""
        if "words" not in self.reading.numbers:
            return None
        return limits_in(self.engine, self.frame, self.reading.names["candidate"])

    def _checked(self, kernel: Callable[[Rows], T], reading: RowsReading) -> Sequence[T]:
        def checked(rows: Rows) -> T | None:
            return None if has_duplicates(rows) else kernel(rows)

        parts = self._parts(self.frame, reading, checked)
        if any(part is None for part in parts):
            refuse_duplicates(self.engine, self.frame, self.table.columns)
        return [part for part in parts if part is not None]

    def _parts(self, frame: Frame, reading: RowsReading, kernel: Callable[[Rows], T]) -> list[T]:
        """A kernel's value on each block of whole sessions."""
        return fold_rows(
            self.engine,
            frame,
            reading,
            lambda rows: [kernel(rows)],
            lambda parts: [*chain.from_iterable(parts)],
        )

    def totals(self, planned: AuditPlan, blocks: Blocks) -> Totals:
        """Every metric's sums; a large table is read again only for what compares sessions."""
        table, frame = self.table, self.frame
        if table.n_rows <= FEW_ROWS:
            return add(blocks(partial(sums_of, plan=planned)))
        within, across = split(planned)
        totals = add(blocks(partial(sums_of, plan=within)))
        if not across.metrics:
            return totals
        if across.metrics == ("consistency",) and "query_id" in table.columns and not table.rounds:
            frame = repeated_queries(self.engine, frame)
        whole = replace(self.reading, whole_queries=True)
        compared = add(self._parts(frame, whole, partial(sums_of, plan=across)))
        return totals.with_metrics(compared.by_metric, compared.failed)


def _value_column(table: Reviews, dimension: str | None) -> str:
    """What stands for a review's score: marks if asked for, else scores, else ranks."""
    if dimension is not None:
        name = f"{MARK}{dimension}"
        if name not in table.columns:
            marks = [c.removeprefix(MARK) for c in table.columns if c.startswith(MARK)]
            raise UsageError(
                f"no review has a mark for {dimension!r}.",
                hint=f"Known: {', '.join(marks) or 'none'}.",
            )
        return name
    by_use = ["score", "rank"] if table.n_scores >= table.n_ranks else ["rank", "score"]
    for name in by_use:
        if name in table.columns:
            return name
    raise InputError(
        "the table has marks but neither a rank nor a score.", hint="Name a dimension to audit."
    )


def _about(audit: Audit, reviewer: str, names: tuple[str, ...]) -> Audit:
    """The findings and tastes of one reviewer, pairs that it is the reviewer of among them."""
    if reviewer not in names:
        known = ", ".join(names[:20])
        raise UsageError(f"nobody is called {reviewer!r} here.", hint=f"Known: {known}.")
    findings = tuple(
        finding
        for finding in audit.findings
        if finding.subject == reviewer or finding.subject.startswith(f"{reviewer}>")
    )
    tastes = audit.tastes
    if tastes is not None:
        own = tuple(one for one in tastes.departures if one.reviewer == reviewer)
        tastes = replace(tastes, departures=own)
    return replace(audit, findings=findings, tastes=tastes)
