"""The reviews of a model board: those that its options select, and their sums."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial

import narwhals.stable.v2 as nw
import numpy as np

from peerage.boards.common_cells import PairCells
from peerage.boards.model_sums import ModelSums, sum_votes
from peerage.boards.pair_sums import TABLES, PairVotes, sum_pair_votes
from peerage.engines import Engine, Source
from peerage.engines.comparison_tables import count_after, pair_votes_of
from peerage.engines.review_tables import ReviewTable, trimmed_names
from peerage.errors import InputError, few
from peerage.reports.options import ModelBoardOptions
from peerage.reports.people_reviews import add_decisions, find_people, shares_since
from peerage.reports.recounts import leave_out, names_in, select_reviews
from peerage.reviews.cells import Floats, merge_tables
from peerage.reviews.columns import MARK, instant_s, span_s
from peerage.reviews.flags import SEALS
from peerage.reviews.gold import DECISIONS
from peerage.reviews.judge_shares import JudgeShares
from peerage.reviews.rows import Rows, by_session, join_rows, settle, take_census
from peerage.reviews.same_texts import Texts, join_texts, texts_in
from peerage.types import Rubric

COUNTED = ("borda", "mean_rank", "bradley_terry")  # rules that need only counts of votes
# Options of a board that is made from counts of comparisons.
OF_COMPARISONS = frozenset({"rule", "own_votes", "since", "as_of", "category", "matrix"})
WEEK_S = 604_800.0
MAX_TEXTS = 200_000  # rows of a table without keys of texts, whose texts are read


class BoardReviews:
    """The reviews of a table that a board's options select, within its window.

    Functions of rows are applied to all rows in this process or, on a cluster, to each block of
    whole sessions.
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
        if options.selects or options.people is not None:
            _ = self._selected  # names that the table does not have are refused
        check_columns(table.columns, options)
        # A window without `as_of` ends with the latest review.
        self.end = None if options.as_of is None else instant_s(options.as_of)
        self.latest = table.latest if self.end is None else self.end
        self.earliest: float | None = None  # no start
        span = span_s(options.since)
        if span is not None and self.latest is not None and "at" in table.columns:
            self.earliest = self.latest - span

    @cached_property
    def people(self) -> set[str]:
        """The reviewers who are people, if the board is corrected by people."""
        return find_people(add_decisions(self._everyone), self.options.people or ())

    @cached_property
    def _selected(self) -> ReviewTable:
        """The selected reviews; if people correct the judges, only those of judges."""
        if self.options.people is None or self.people >= names_in(self._everyone, "reviewer"):
            return self._everyone
        return leave_out(self._everyone, self.people - {DECISIONS})

    def judge_shares(self) -> tuple[JudgeShares, PairCells | None]:
        """Return shares by query, model and reviewer in the window, people included.

        If models met different rivals, also return the pairs of models by query.
        """
        table = add_decisions(self._everyone).change(partial(_asked_for, options=self.options))
        table = table.change(partial(_until, end=self.end))
        return shares_since(table, self.earliest, self.options.own_votes)

    @cached_property
    def _everyone(self) -> ReviewTable:
        """The reviews selected by season, panel and reviewers, counted again if requested."""
        needs = needed_columns(self.table.columns, self.options)
        has_texts = "text" in self.table.columns and "text_hash" not in self.table.columns
        reads_texts = has_texts and self.table.n_rows <= MAX_TEXTS
        loaded = self.table.load(needs, text=reads_texts)
        return select_reviews(loaded, self.options, self.rubric)

    @cached_property
    def counted(self) -> ReviewTable:
        """The reviews that are summed: sessions outside the window belong to no part."""
        options = self.options
        table = self._selected.change(partial(_asked_for, options=options))
        table = table.change(partial(_until, end=self.end)).settle()
        if self.item_weights is not None:
            weights = read_weights(self.table.engine, self.item_weights)
            key = "query_id" if "query_id" in table.columns else "session_id"
            table = table.change(partial(_with_weights, weights=weights, key=key))
        return table

    @cached_property
    def categories(self) -> tuple[str, ...]:
        """The categories of a board by category, sorted; a missing category is ""."""
        if not self.options.by_category:
            return ()
        return tuple(sorted(set[str]().union(*self.counted.map(_categories_in))))

    def n_mixed(self) -> int:
        """Return the number of sessions in the window with several categories."""
        mixed = partial(_n_mixed, categories=self.categories, earliest=self.earliest)
        return sum(self.counted.map(mixed))

    def rows(self) -> Rows:
        """Return all rows that are summed, in this process, with the part of each session."""
        blocks = self.counted.map(lambda rows: rows)
        rows = join_rows(blocks)
        rows = rows if len(blocks) == 1 else settle(rows, take_census(rows))
        return _in_parts(rows, self.categories, self.earliest, None)

    def sums(
        self,
        tables: Collection[str],
        weight_by_name: Floats | None = None,
        week: float | None = None,
    ) -> ModelSums:
        """Return the sums of all rows; raise an error for a repeated review, with its row.

        Votes between two models are only counted, if that suffices.
        """
        alone = weight_by_name is None and week is None and set(tables) <= TABLES.keys()
        if alone and self.pair_votes is not None:
            return sum_pair_votes(self.pair_votes, tables)
        parts = partial(_in_parts, categories=self.categories, earliest=self.earliest, week=week)
        kernel = partial(
            sum_votes,
            tables=tables,
            own_votes=self.options.own_votes,
            weight_by_name=weight_by_name,
        )
        blocks = self.counted.change(parts).map(kernel)
        sums = replace(blocks[0], tables=merge_tables([one.tables for one in blocks]))
        if sums.part(None).count("duplicates"):
            self.table.refuse_duplicates()
        return sums

    @cached_property
    def pair_votes(self) -> PairVotes | None:
        """The votes between two models each, if the board needs nothing else."""
        options, comparisons = self.options, self.table.comparisons
        if comparisons is None or self.item_weights is not None:
            return None
        is_counted = options.rule in COUNTED and options.own_votes != "place_kept"
        if not is_counted or options.changed - OF_COMPARISONS:
            return None
        window = (self.earliest, self.end if "at" in self.table.columns else None)
        return pair_votes_of(comparisons, options.own_votes, window, options.category)

    def names(self, sums: ModelSums) -> Sequence[str]:
        """Return the names of all models and reviewers."""
        comparisons = self.table.comparisons
        if comparisons is None or self.pair_votes is None:
            return sums.names
        return sorted({*sums.names, *comparisons.reviewers})

    # -- facts about them ----------------------------------------------------------------------

    @property
    def n_asked_for(self) -> int:
        """The number of rows that the options select, inside and outside the window."""
        if self.options.takes_all:
            return self.table.n_rows
        return sum(self._selected.map(partial(_n_asked_for, options=self.options)))

    def counts(self, n_inside: int) -> dict[str, int]:
        """Return how many reviews are in the window, and how many it leaves out."""
        windowed = self.earliest is not None or self.end is not None
        n_outside = max(0, self.n_asked_for - n_inside) if windowed else 0
        return {"reviews": n_inside, "reviews_left_out": n_outside}

    def n_late(self) -> int:
        """Return the number of reviews with a time in the future."""
        now = time.time()
        if self.table.latest is None or self.table.latest <= now:
            return 0
        if self.pair_votes is not None and self.table.comparisons is not None:
            return 2 * count_after(self.table.comparisons, now)
        return sum(self._selected.map(partial(_n_after, time=now)))

    def texts(self) -> Texts | None:
        """Return the texts of the answers in the window, or None if they are not known."""
        if self.pair_votes is not None or not {"text", "text_hash"} & set(self.counted.columns):
            return None
        blocks = self.counted.map(partial(_texts_since, earliest=self.earliest))
        return join_texts(blocks) if blocks else None

    def first_s(self) -> float | None:
        """Return the start of the window, or else the time of the first review in it."""
        if self.earliest is not None:
            return self.earliest
        return min((one for one in self.counted.map(_first_time) if one is not None), default=None)


def needed_columns(columns: Collection[str], options: ModelBoardOptions) -> set[str]:
    """Return the columns that a board with these options needs."""
    needs = {"rank", "score", "round", "at", "query_id", "truncated", "person", "fingerprint"}
    needs |= {*SEALS, "committed", "text_hash"}
    needs |= {"correct"} if options.people is not None else set()
    needs |= {"words"} if options.length_controlled else set()
    needs |= {"category"} if options.by_category or options.category is not None else set()
    needs |= {"season"} if options.season is not None else set()
    return needs | (
        {name for name in columns if name.startswith(MARK)} if options.weights else set()
    )


def check_columns(columns: Collection[str], options: ModelBoardOptions) -> None:
    """Raise an error if these columns lack something that the options need."""
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


def _asked_for(rows: Rows, options: ModelBoardOptions) -> Rows:
    """Return the rows of the selected category, and of answers that were not cut off."""
    if options.category is None and not options.without_truncated:
        return rows
    keep = np.ones(rows.n, dtype=bool)
    if options.category is not None:
        keep &= rows.has_label("category", options.category)
    if options.without_truncated:
        keep &= ~(rows.number("truncated") >= 1)
    return rows.only(keep)


def _until(rows: Rows, end: float | None) -> Rows:
    """Return the rows of whole sessions without a review after the end."""
    if end is None or "at" not in rows.numbers:
        return rows
    late = np.bincount(rows.session, rows.numbers["at"] > end, minlength=rows.n_sessions)
    return rows.only((late == 0)[rows.session])


def _in_parts(
    rows: Rows, categories: Sequence[str], earliest: float | None, week: float | None
) -> Rows:
    """Return rows with the part of the board to which each session belongs; −1 is outside.

    Parts are categories, or weeks counted from the start of the first one.
    """
    part = np.zeros(rows.n_sessions, dtype=np.int64)
    if categories and week is None:
        part = by_session(rows, _category_places(rows, categories), np.fmax).astype(np.int64)
    if (earliest is None and week is None) or "at" not in rows.numbers:
        return replace(rows, part=part)
    at = by_session(rows, rows.numbers["at"], np.fmax)
    if week is not None:
        weeks = np.floor((at - week) / WEEK_S)
        part = np.where(np.isfinite(weeks), weeks, -1.0).astype(np.int64)
    if earliest is not None:
        part[at < earliest] = -1
    return replace(rows, part=part)


def _category_places(rows: Rows, categories: Sequence[str]) -> Floats:
    """Return the index of each row's category."""
    place = {name: float(i) for i, name in enumerate(categories)}
    labels = rows.labels["category"].tolist()
    known = np.array([*(place.get(name, 0.0) for name in labels), place.get("", 0.0)])
    return known[rows.keys["category"]]


def _n_mixed(rows: Rows, categories: Sequence[str], earliest: float | None) -> int:
    """Return the number of sessions in the window with several categories."""
    place = _category_places(rows, categories)
    mixed = by_session(rows, place, np.fmin) != by_session(rows, place, np.fmax)
    part = np.asarray(_in_parts(rows, categories, earliest, None).part)
    return int(np.count_nonzero(mixed & (part >= 0)))


def _categories_in(rows: Rows) -> set[str]:
    has_none = (rows.keys.get("category", np.full(1, -1)) < 0).any()
    return {*rows.labels_there("category"), *([""] if has_none else [])}


def _n_asked_for(rows: Rows, options: ModelBoardOptions) -> int:
    return _asked_for(rows, options).n


def _texts_since(rows: Rows, earliest: float | None) -> Texts:
    return texts_in(rows.only(rows.since(earliest)))


def _n_after(rows: Rows, time: float) -> int:
    return int(np.count_nonzero(rows.number("at") > time))


def _first_time(rows: Rows) -> float | None:
    times = rows.number("at")
    times = times[np.isfinite(times)]
    return float(times.min()) if len(times) else None


def read_weights(engine: Engine, source: Source) -> dict[str, float]:
    """Return the weight of each item in a table."""
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
    """Return the rows with the weight of their item; NaN if it has none."""
    is_session = key == "session_id"
    texts = (rows.session_ids if is_session else rows.labels[key]).tolist()
    codes = rows.session if is_session else rows.keys[key]
    known = np.array([*(weights.get(text, np.nan) for text in texts), np.nan], dtype=np.float64)
    return replace(rows, numbers={**rows.numbers, "item_weight": known[codes]})
