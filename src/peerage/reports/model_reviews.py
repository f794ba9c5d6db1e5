"""The reviews that a board of models is made from: chosen, within its window, and added up."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np

from peerage.boards.model_sums import (
    ModelSums,
    ModelTotals,
    Plan,
    block_sums,
    by_session,
    slices_of,
)
from peerage.boards.win_counts import WinCounts
from peerage.engines import Engine, Source
from peerage.engines.blocks import Blocks, InMemory
from peerage.engines.review_tables import (
    ReviewTable,
    count_comparisons,
    trimmed_names,
)
from peerage.errors import InputError, few
from peerage.reports.judge_versions import JudgeVersion, add_versions, find_versions
from peerage.reports.options import ModelBoardOptions
from peerage.reports.recounts import select_reviews
from peerage.reviews.cells import Bools, merge_tables
from peerage.reviews.columns import MARK, instant_s, span_s
from peerage.reviews.flags import SEALS, SealCounts, count_seals
from peerage.reviews.rows import N_FOLDS, Rows, chunks, folds_of, join_rows, votes
from peerage.types import Placing, Rubric

CHUNK_ROWS = 131_072  # what a processor's cache holds
POINTS_BY_WINNER = {"model_a": 1.0, "model_b": 0.0}  # of model_a; any other winner is a tie
NO_REVIEWS: Mapping[str, list[Any]] = {
    name: [] for name in ("session_id", "reviewer", "candidate", "rank", "category", "at", "words")
}


@dataclass(frozen=True, slots=True)
class BoardFacts:
    """What a board tells of its reviews beside their sums."""

    n_asked_for: int  # rows that the options ask for, whatever their time
    n_late: int  # rows of the future
    categories: frozenset[str]  # "" for none
    first: float | None  # when the first review was given
    scores: tuple[float, float] | None  # the least and the largest in the window
    n_truncated: Counter[str]  # answers of each model that were cut off in the window
    seals: SealCounts  # reviews of the window that were asked for again or unsealed
    versions: tuple[JudgeVersion, ...] = ()  # under which fingerprints those reviews were made


def add_facts(parts: Sequence[BoardFacts]) -> BoardFacts:
    """Return the facts of all blocks."""
    first = [part.first for part in parts if part.first is not None]
    ends = [part.scores for part in parts if part.scores is not None]
    return BoardFacts(
        sum(part.n_asked_for for part in parts),
        sum(part.n_late for part in parts),
        frozenset().union(*(part.categories for part in parts)),
        min(first, default=None),
        (min(low for low, _ in ends), max(high for _, high in ends)) if ends else None,
        sum((part.n_truncated for part in parts), Counter()),
        sum((part.seals for part in parts), Counter()),
        add_versions(part.versions for part in parts),
    )


class BoardReviews:
    """The reviews of a table that the options of a board ask for, within its window.

    Every function of rows here is given one block after the other: all rows in this process, or
    whole sessions on a cluster's workers.
    """

    def __init__(
        self,
        table: ReviewTable,
        options: ModelBoardOptions,
        item_weights: Source | None = None,
        rubric: Rubric | None = None,
    ) -> None:
        self.table, self.options = table, options
        self.item_weights, self.rubric = item_weights, rubric
        self.columns, self.not_finite, self.flags = table.columns, table.not_finite, table.flags
        if options.selects:
            _ = self._selected  # what the table does not know is refused
        check_columns(self.columns, options)
        # A window that is not asked to end earlier ends with the latest review.
        self.end = None if options.as_of is None else instant_s(options.as_of)
        self.latest = table.latest if self.end is None else self.end
        self.earliest: float | None = None  # open
        span = span_s(options.since)
        if span is not None and self.latest is not None and "at" in self.columns:
            self.earliest = self.latest - span

    @cached_property
    def _selected(self) -> Blocks:
        """The reviews that season, panel and reviewers choose, counted anew if asked."""
        needs = needed_columns(self.columns, self.options)
        return select_reviews(self.table.blocks(needs), self.columns, self.options, self.rubric)

    @cached_property
    def blocks(self) -> Blocks:
        """The rows that are added up: all that the options ask for but the window's beginning."""
        options = self.options
        blocks = self._selected.changed(partial(_asked_for, options=options))
        blocks = blocks.changed(partial(_until, end=self.end)).settled()
        if options.by_category:
            blocks = blocks.changed(partial(_with_categories, categories=self.categories))
        if self.item_weights is not None:
            weights = read_weights(self.table.engine, self.item_weights)
            key = "query_id" if "query_id" in self.columns else "session_id"
            blocks = blocks.changed(partial(_with_weights, weights=weights, key=key))
        return blocks

    @cached_property
    def facts(self) -> BoardFacts:
        """What is told of the reviews beside their sums."""
        window = self.earliest, self.end
        kernel = partial(_facts_of, options=self.options, window=window, now=time.time())
        return add_facts(self._selected(kernel))

    @cached_property
    def categories(self) -> tuple[str, ...]:
        """The categories of a board by category, in the order of their names; none is ""."""
        return tuple(sorted(self.facts.categories)) if self.options.by_category else ()

    def n_outside(self, n_inside: int) -> int:
        """How many of the rows asked for are left out, where so many are in the window."""
        if self.earliest is None and self.end is None:
            return 0
        return max(0, self.n_asked_for - n_inside)

    @property
    def n_asked_for(self) -> int:
        """How many rows the options ask for, whatever their time."""
        return self.table.n_rows if self.options.takes_all else self.facts.n_asked_for

    def n_late(self) -> int:
        """How many reviews carry a time in the future."""
        latest = self.table.latest
        return 0 if latest is None or latest <= time.time() else self.facts.n_late

    def first_s(self) -> float | None:
        """When the window begins, or the first review in it."""
        return self.facts.first if self.earliest is None else self.earliest

    def win_counts(self) -> WinCounts | None:
        """How often each pair of models met, where nothing else is needed for the board asked."""
        options, comparisons = self.options, self.table.comparisons
        plain = ModelBoardOptions(
            rule="bradley_terry",
            **options.model_dump(include={"own_votes", "since", "as_of", "category"}),
        )
        if comparisons is None or self.item_weights is not None or options != plain:
            return None
        counts = comparisons.counts
        if (self.earliest, options.as_of, options.category) != (None, None, None):
            frame = comparisons.frame
            if self.earliest is not None:
                frame = frame.filter((nw.col("at") >= self.earliest) | nw.col("at").is_null())
            if self.end is not None and "at" in self.columns:
                frame = frame.filter((nw.col("at") <= self.end) | nw.col("at").is_null())
            if options.category is not None:
                frame = frame.filter(nw.col("category") == options.category)
            counts = count_comparisons(self.table.engine, frame)
        if counts["by_itself"].any():
            return None
        points = [POINTS_BY_WINNER.get(one, 0.5) for one in counts["winner"].tolist()]
        a, b, n = (counts[name].tolist() for name in ("model_a", "model_b", "n"))
        return WinCounts.of(a, b, points, n)

    def sums(self, plan: Plan) -> ModelSums:
        """The sums of all rows; a repeated review is refused with its row."""
        parts = self.blocks(partial(summed, plan=fitted(plan, self.columns)))
        total = replace(parts[0], tables=merge_tables([part.tables for part in parts]))
        if ModelTotals(total.slice(None)).count("duplicates"):
            self.table.refuse_duplicates()
        return total

    def placings(self, plan: Plan) -> FoldedPlacings:
        """Every ballot as rules take it: by time, then session, round and reviewer."""
        parts = self.blocks(lambda rows: rows)
        rows = parts[0] if len(parts) == 1 else InMemory(join_rows(parts)).settled().rows
        return placings_of(rows, plan)


def needed_columns(columns: Collection[str], options: ModelBoardOptions) -> set[str]:
    """The columns that a board under these options is made from."""
    needs = {"rank", "score", "round", "at", "query_id", "truncated", "person", "fingerprint"}
    needs |= set(SEALS)
    needs |= {"words"} if options.length_controlled else set()
    needs |= {"category"} if options.by_category or options.category is not None else set()
    needs |= {"season"} if options.season is not None else set()
    return needs | (
        {name for name in columns if name.startswith(MARK)} if options.weights else set()
    )


def check_columns(columns: Collection[str], options: ModelBoardOptions) -> None:
    """Refuse options that these columns cannot serve."""
    by_category = options.by_category or options.category is not None
    needs = (
        (by_category, "category", "the reviews have no `category`."),
        (options.length_controlled, "words", "a length-controlled view needs the column `words`."),
        (options.without_truncated, "truncated", "the reviews have no column `truncated`."),
        (options.history, "at", "a history needs the column `at`."),
    )
    for is_needed, column, message in needs:
        if is_needed and column not in columns:
            raise InputError(message)
    if "rank" not in columns and "score" not in columns:
        raise InputError("the table has marks but neither a rank nor a score.")


def fitted(plan: Plan, columns: Collection[str]) -> Plan:
    """The plan without what these columns have nothing for."""
    scores, lengths = plan.scores and "score" in columns, plan.lengths and "words" in columns
    return replace(plan, scores=scores, lengths=lengths)


# -- functions of rows, wherever they are ----------------------------------------------------------


def _asked_for(rows: Rows, options: ModelBoardOptions) -> Rows:
    """The rows of the category that is asked for, and of answers that were not cut off."""
    keep = np.ones(rows.n, dtype=bool)
    if options.category is not None:
        keep &= rows.has_label("category", options.category)
    if options.without_truncated:
        keep &= ~(rows.number("truncated") >= 1)
    return rows.only(keep)


def _until(rows: Rows, end: float | None) -> Rows:
    """The rows of sessions without a review after the end: half a session is another one."""
    if end is None or "at" not in rows.numbers:
        return rows
    late = np.bincount(rows.session, rows.numbers["at"] > end, minlength=rows.n_sessions)
    return rows.only((late == 0)[rows.session])


def _facts_of(
    rows: Rows,
    options: ModelBoardOptions,
    window: tuple[float | None, float | None],
    now: float,
) -> BoardFacts:
    n_late = int(np.count_nonzero(rows.number("at") > now))
    selected = _asked_for(rows, options)
    rows = _until(selected, window[1])
    at, score = rows.number("at"), rows.number("score")
    before: Bools = at < (-math.inf if window[0] is None else window[0])
    known = score[np.isfinite(score) & ~before]
    times = at[np.isfinite(at)]
    category = rows.keys.get("category", np.full(1, -1))
    cut_off = (rows.number("truncated") >= 1) & ~before
    if window[0] is not None:
        cut_off &= ~np.isnan(at)
    answers = np.unique(rows.session[cut_off] * len(rows.names) + rows.candidate[cut_off])
    cut_names = [rows.names[code] for code in (answers % max(len(rows.names), 1)).tolist()]
    return BoardFacts(
        selected.n,
        n_late,
        frozenset([*rows.labels_there("category"), *([""] if (category < 0).any() else [])]),
        float(times.min()) if len(times) else None,
        (float(known.min()), float(known.max())) if len(known) else None,
        Counter(cut_names),
        count_seals(inside := rows.only(~before)),
        find_versions(inside),
    )


def _with_categories(rows: Rows, categories: Sequence[str]) -> Rows:
    """The rows with the place of their category as a number."""
    place = {name: float(i) for i, name in enumerate(categories)}
    labels = rows.labels["category"].tolist()
    known = np.array([*(place.get(name, 0.0) for name in labels), place.get("", 0.0)])
    return replace(rows, numbers={**rows.numbers, "category": known[rows.keys["category"]]})


def read_weights(engine: Engine, source: Source) -> dict[str, float]:
    """The weight of each item, from a table of them."""
    weights = engine.open(source)
    missing = {"item_id", "weight"} - set(weights.collect_schema().names())
    if missing:
        raise InputError(f"weights of items need the column {', '.join(sorted(missing))}.")
    table = weights.select(nw.col("item_id").cast(nw.String), nw.col("weight").cast(nw.Float64))
    columns = engine.arrays(trimmed_names(table, ["item_id"]))
    items = columns["item_id"].tolist()
    if twice := sorted(str(item) for item, n in Counter(items).items() if n > 1):
        raise InputError(f"some items have two weights: {few(twice)}.")
    return dict(zip(items, columns["weight"].tolist(), strict=True))


def _with_weights(rows: Rows, weights: Mapping[str, float], key: str) -> Rows:
    """The rows with the weight of their item, NaN for none."""
    is_session = key == "session_id"
    texts = (rows.session_ids if is_session else rows.labels[key]).tolist()
    codes = rows.session if is_session else rows.keys[key]
    known = np.array([*(weights.get(text, np.nan) for text in texts), np.nan], dtype=np.float64)
    return replace(rows, numbers={**rows.numbers, "item_weight": known[codes]})


def summed(rows: Rows, plan: Plan) -> ModelSums:
    """The sums of some whole sessions: the one kernel, on every engine."""
    plan = replace(plan, fold_by_cluster=folds_of(rows.units))
    tables = merge_tables([block_sums(part, plan) for part in chunks(rows, CHUNK_ROWS)])
    return ModelSums(rows.names, rows.units, tables)


class FoldedPlacings(NamedTuple):
    """Ballots in the order of time, and the fold of each one's query."""

    placings: list[Placing]
    folds: list[int]


def placings_of(rows: Rows, plan: Plan) -> FoldedPlacings:
    """The ballots of some whole sessions, in the order of time."""
    n_names = len(rows.names)
    answers = np.unique(rows.session.astype(np.int64) * n_names + rows.candidate)
    n_candidates = np.bincount(answers // n_names, minlength=rows.n_sessions)
    cast = votes(rows, plan.own_votes, n_candidates)
    slices, _ = slices_of(rows, replace(plan, by_category=False, periods=None))
    counted = np.flatnonzero(cast.counts & (slices[rows.session] >= 0))
    at = np.zeros(len(rows.session))
    if "at" in rows.numbers:
        times = by_session(rows, rows.numbers["at"], np.fmax)
        at = np.where(np.isfinite(times), times, -np.inf)[rows.session]
    round_ = rows.numbers.get("round", at * 0.0)
    session = rows.session_ranks()[rows.session]
    keys = (rows.candidate, rows.reviewer, round_, session, at)
    order = counted[np.lexsort(tuple(key[counted] for key in keys))]
    ends = np.flatnonzero(np.diff(cast.ballot[order])) + 1
    score = rows.numbers.get("score", np.full(rows.n, np.nan))
    folds = rows.cluster % N_FOLDS
    result = FoldedPlacings([], [])
    for ballot in np.split(order, ends) if len(order) else []:
        names = [rows.names[code] for code in rows.candidate[ballot].tolist()]
        doubled = dict(zip(names, cast.doubled[ballot].tolist(), strict=True))
        first = next((name for name, place in doubled.items() if place == 0), None)
        scores = {
            name: Fraction(value).limit_denominator(1_000)
            for name, value in zip(names, score[ballot].tolist(), strict=True)
            if math.isfinite(value)
        }
        reviewer = rows.names[int(rows.reviewer[ballot[0]])]
        shown = int(cast.shown[cast.ballot[ballot[0]]])
        result.placings.append(Placing(reviewer, shown, doubled, first, scores))
        result.folds.append(int(folds[rows.session[ballot[0]]]))
    return result
