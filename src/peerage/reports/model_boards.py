"""The board of models: selects the reviews, sums them, and ranks."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from peerage.boards import Board, all_left_out
from peerage.boards.model_sums import BASE, ModelSums, sum_votes
from peerage.boards.models import (
    COLUMNS,
    MIN_REVIEWERS,
    WinCounts,
    board_columns,
    head_to_head,
    length_controlled,
    n_groups,
    n_voters,
    plain,
    rivals_covered,
    win_counts_columns,
)
from peerage.boards.pair_sums import TABLES, PairVotes, sum_pair_votes
from peerage.boards.reputation import peer_weights
from peerage.engines import Engine, Source
from peerage.engines.comparison_tables import count_after, count_comparisons, pair_votes_of
from peerage.engines.review_tables import ReviewTable, trimmed_names
from peerage.errors import InputError, UsageError, few, how_many
from peerage.reports.ballot_rules import check_scores, compare_rules, estimate_by_rule
from peerage.reports.judge_versions import (
    JudgeVersion,
    add_versions,
    find_versions,
    version_flags,
    versions_document,
)
from peerage.reports.options import ModelBoardOptions
from peerage.reports.people_reviews import add_decisions, add_people, find_people, shares_since
from peerage.reports.recounts import leave_out, names_in, select_reviews
from peerage.reviews.cells import Floats, merge_tables
from peerage.reviews.columns import MARK, instant_s, iso, span_s
from peerage.reviews.flags import (
    SEALS,
    alike_flags,
    count_kinds,
    count_seals,
    kind_flags,
    seal_flags,
    sealed_reviewers,
)
from peerage.reviews.gold import DECISIONS
from peerage.reviews.judge_shares import JudgeShares
from peerage.reviews.rows import N_CLUSTERS, Rows, by_session, join_rows, settle, take_census
from peerage.types import Rubric

COUNTED = ("borda", "mean_rank", "bradley_terry")  # rules that need only counts of votes
# Options of a board that is made from counts of comparisons.
OF_COMPARISONS = frozenset({"rule", "own_votes", "since", "as_of", "category"})
POINTS_BY_WINNER = {"model_a": 1.0, "model_b": 0.0}  # of model_a; any other winner is a tie
NO_REVIEWS: Mapping[str, list[Any]] = {
    name: [] for name in ("session_id", "reviewer", "candidate", "rank", "category", "at", "words")
}
MIN_COVERED = 0.9  # if two models' rivals overlap less, shares are put on common rivals
POINT = ("model", "share", "share_low", "share_high", "appearances")
MAX_WEEKS = 520
WEEK_S = 604_800.0
MONDAY_S = 345_600.0  # the first Monday after the epoch, 1970-01-05
N_NAMED = 5  # candidates that a flag names at most


# -- the reviews ---------------------------------------------------------------------------------


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

    def judge_shares(self) -> JudgeShares:
        """Return shares by query, model and reviewer in the window, people included."""
        table = add_decisions(self._everyone).change(partial(_asked_for, options=self.options))
        table = table.change(partial(_until, end=self.end))
        return shares_since(table, self.earliest, self.options.own_votes)

    @cached_property
    def _everyone(self) -> ReviewTable:
        """The reviews selected by season, panel and reviewers, counted again if requested."""
        needs = needed_columns(self.table.columns, self.options)
        return select_reviews(self.table.load(needs), self.options, self.rubric)

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

    def in_parts(self, rows: Rows, week: float | None = None) -> Rows:
        """Return rows with the part of the board to which each session belongs.

        Parts are categories, or weeks counted from the start of the first one.
        """
        return _in_parts(rows, self.categories, self.earliest, week)

    def rows(self) -> Rows:
        """Return all rows that are summed, in this process."""
        blocks = self.counted.map(lambda rows: rows)
        rows = join_rows(blocks)
        return self.in_parts(rows if len(blocks) == 1 else settle(rows, take_census(rows)))

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
        if not is_counted or options.changed - {*OF_COMPARISONS, "matrix"}:
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

    def first_s(self) -> float | None:
        """Return the start of the window, or else the time of the first review in it."""
        if self.earliest is not None:
            return self.earliest
        return min((one for one in self.counted.map(_first_time) if one is not None), default=None)

    def win_counts(self) -> WinCounts | None:
        """Return how often each pair of models met, if the board needs nothing else."""
        options, comparisons = self.options, self.table.comparisons
        if comparisons is None or self.item_weights is not None:
            return None
        if options.rule != "bradley_terry" or options.changed - OF_COMPARISONS:
            return None
        counts = comparisons.counts
        if (self.earliest, options.as_of, options.category) != (None, None, None):
            frame = comparisons.frame
            if self.earliest is not None:
                frame = frame.filter((nw.col("at") >= self.earliest) | nw.col("at").is_null())
            if self.end is not None and "at" in self.table.columns:
                frame = frame.filter((nw.col("at") <= self.end) | nw.col("at").is_null())
            if options.category is not None:
                frame = frame.filter(nw.col("category") == options.category)
            counts = count_comparisons(self.table.engine, frame)
        if counts["by_itself"].any():
            return None
        points = [POINTS_BY_WINNER.get(one, 0.5) for one in counts["winner"].tolist()]
        a, b, n = (counts[name].tolist() for name in ("model_a", "model_b", "n"))
        return WinCounts.of(a, b, points, n)


def needed_columns(columns: Collection[str], options: ModelBoardOptions) -> set[str]:
    """Return the columns that a board with these options needs."""
    needs = {"rank", "score", "round", "at", "query_id", "truncated", "person", "fingerprint"}
    needs |= {*SEALS, "committed"}
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


# -- functions of rows -------------------------------------------------------------------------


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


def _n_after(rows: Rows, time: float) -> int:
    return int(np.count_nonzero(rows.number("at") > time))


def _first_time(rows: Rows) -> float | None:
    times = rows.number("at")
    times = times[np.isfinite(times)]
    return float(times.min()) if len(times) else None


def _count_truncated(rows: Rows, earliest: float | None) -> Counter[str]:
    """Return how many answers of each model in the window were cut off."""
    cut_off = rows.number("truncated") >= 1
    if earliest is not None:
        cut_off &= rows.number("at") >= earliest
    answers = np.unique(rows.session[cut_off] * len(rows.names) + rows.candidate[cut_off])
    return Counter(rows.names[code] for code in (answers % max(len(rows.names), 1)).tolist())


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


# -- the board -----------------------------------------------------------------------------------


def build_model_board(reviews: BoardReviews) -> Board:
    """Return the board of a reviews table; an empty table gives an empty board.

    For Bradley–Terry, many comparisons are only counted. If there are so few that each is its own
    cluster, the sums are used, because their rank ranges are exact.
    """
    not_finite = reviews.table.not_finite
    flags = [f"scores_not_finite:{not_finite}"] if not_finite else []
    counts = reviews.win_counts()
    if counts is not None and counts.n > N_CLUSTERS:
        late = reviews.n_late()
        flags = [f"reviews_in_the_future:{late}"] if late else []
        flags += [*reviews.table.flags, *alike_flags(counts.models)]
        notes = {"sessions": counts.n, **reviews.counts(2 * counts.n)}
        return _board(reviews, win_counts_columns(counts), notes, flags)
    if reviews.table.n_rows == 0:
        return _board(reviews, {name: [] for name in COLUMNS}, reviews.counts(0), flags)
    return _board_of_sums(reviews, flags)


def tables_of(reviews: BoardReviews) -> tuple[str, ...]:
    """Return the names of the tables of sums that a board's options need."""
    options = reviews.options
    needed = {
        "scores": "score" in reviews.table.columns,
        "influence": options.interval == "two-way",
        "pairs": options.matrix or options.compare_rules or options.rule == "bradley_terry",
        "lengths": options.length_controlled,
        "rivals": True,
    }
    return (*BASE, *(name for name, is_needed in needed.items() if is_needed))


def _board_of_sums(reviews: BoardReviews, flags: list[str]) -> Board:
    options = reviews.options
    notes: dict[str, Any] = {}
    weights: Floats | None = None
    if options.reputation == "peer":
        weights, notes["reviewer_weights"], outsiders = _weigh_reviewers(reviews)
        flags += outsiders
    if options.rule == "hybrid":
        check_scores(reviews)
    sums = reviews.sums(tables_of(reviews), weights)
    whole = sums.part(None)
    _refuse_few_reviewers(options, whole)
    places = range(len(reviews.categories)) if options.by_category else (None,)
    parts = [whole if at is None else sums.part(at) for at in places]
    covered = min((rivals_covered(part) for part in parts), default=1.0)
    meetings: list[ModelSums | None] = [None] * len(parts)
    if options.rule == "borda" and covered < MIN_COVERED:
        by_cluster = reviews.sums(("meetings",), weights)
        meetings = [by_cluster.part(at) for at in places]
    if options.by_category:
        columns = _by_category(reviews, parts, meetings)
    else:
        two_way, ranked = options.interval == "two-way", estimate_by_rule(reviews, whole)
        columns = board_columns(
            whole, options.rule, two_way=two_way, ranked=ranked, meetings=meetings[0]
        )
    if options.people is not None:
        notes["people"] = add_people(columns, reviews.judge_shares(), reviews.people)
    notes |= {"sessions": whole.count("sessions"), **reviews.counts(whole.count("rows"))}
    together = next(iter(meetings), None)  # None if no category is in the window
    notes |= _optional_notes(reviews, whole, together, weights, columns)
    of_models, of_reviewers = _flag_models(reviews, columns, whole)
    notes |= of_reviewers
    counted = [*_flag_sessions(reviews, whole), *of_models]
    if (n_apart := max(map(n_groups, parts), default=1)) > 1:
        counted.append(f"models_that_never_met:{n_apart}")
    flags += [*reviews.table.flags, *alike_flags(reviews.names(sums))]
    return _board(reviews, columns, notes, counted + flags, covered)


def _refuse_few_reviewers(options: ModelBoardOptions, whole: ModelSums) -> None:
    if options.interval == "two-way" and (n := n_voters(whole)) < MIN_REVIEWERS:
        are = how_many(n, "reviewer is", "reviewers are")
        raise UsageError(
            f"{are} too few for two-way intervals, which need at least {MIN_REVIEWERS}.",
            hint="Use --interval sessions.",
        )


def _optional_notes(
    reviews: BoardReviews,
    whole: ModelSums,
    meetings: ModelSums | None,
    weights: Floats | None,
    columns: Mapping[str, list[Any]],
) -> dict[str, Any]:
    """Return the notes that the options request."""
    options, notes = reviews.options, dict[str, Any]()
    if options.length_controlled:
        slope = length_controlled(whole)[1]
        notes["length_slope"] = None if slope is None else round(slope, 12)
    if options.matrix:
        notes["matrix"] = head_to_head(whole, list(dict.fromkeys(columns["model"])))
    if options.compare_rules:
        notes["rules"] = compare_rules(reviews, whole, meetings)
    if options.fragility:
        from peerage.reports.board_fragility import board_fragility

        is_common = meetings is not None
        notes["fragility"] = board_fragility(reviews, weights, columns, is_common=is_common)
    if options.history:
        notes["history"] = _history(reviews, weights)
    return notes


def _flag_sessions(reviews: BoardReviews, whole: ModelSums) -> list[str]:
    """Return flags for sessions and reviews that are unusual, with their numbers."""
    mixed = partial(_n_mixed, categories=reviews.categories, earliest=reviews.earliest)
    counts = {
        "sessions_with_one_candidate": whole.count("lone"),
        "sessions_without_a_weight": whole.count("unweighted"),
        "sessions_of_several_categories": (
            sum(reviews.counted.map(mixed)) if reviews.options.by_category else 0
        ),
        "reviews_in_the_future": reviews.n_late(),
    }
    return [f"{name}:{n}" for name, n in counts.items() if n]


def _flag_models(
    reviews: BoardReviews, columns: Mapping[str, list[Any]], whole: ModelSums
) -> tuple[list[str], dict[str, Any]]:
    """Return flags for models and reviewers, and notes on ballot codes and fingerprints."""
    truncated, notes = Counter[str](), dict[str, Any]()
    if reviews.pair_votes is not None:  # these have no seals or fingerprints
        return _flags_of_models(columns, whole.count("sessions"), truncated), notes
    table, earliest = reviews.counted, reviews.earliest
    if "truncated" in table.columns:
        truncated = sum(table.map(partial(_count_truncated, earliest=earliest)), Counter())
    flags = _flags_of_models(columns, whole.count("sessions"), truncated)
    if any(name in table.columns for name in SEALS) and (
        seals := sealed_reviewers(table.map(partial(count_seals, earliest=earliest)))
    ):
        notes["seals"] = seals
        flags += seal_flags(seals)
    if "committed" in table.columns:
        flags += kind_flags(table.map(partial(count_kinds, earliest=earliest)))
    if "fingerprint" in table.columns and (
        versions := add_versions(table.map(partial(_versions_since, earliest=earliest)))
    ):
        notes["fingerprints"] = versions_document(versions)
        flags += version_flags(versions)
    if reviews.options.interval == "two-way":
        flags += _without_interval(columns)
    return flags, notes


def _versions_since(rows: Rows, earliest: float | None) -> tuple[JudgeVersion, ...]:
    inside = rows if earliest is None else rows.only(~(rows.number("at") < earliest))
    return find_versions(inside)


def _without_interval(columns: Mapping[str, list[Any]]) -> list[str]:
    """Return a flag for models with a share but without a two-way interval."""
    rows = zip(columns["model"], columns["share"], columns["share_low"], strict=True)
    bare = list(
        dict.fromkeys(name for name, share, low in rows if share is not None and low is None)
    )
    return [f"no_two_way_interval:{len(bare)}: {few(bare, N_NAMED)}"] if bare else []


def _flags_of_models(
    columns: Mapping[str, list[Any]], n_sessions: int, n_truncated: Mapping[str, int]
) -> list[str]:
    """Return flags for models that were not in every session, and for truncated answers.

    Tables of pairwise comparisons do not get the first flag.
    """
    appearances: Counter[str] = Counter()
    for model, n in zip(columns["model"], columns["appearances"], strict=True):
        appearances[model] += n
    partly = [f"{name} ({n} of {n_sessions})" for name, n in appearances.items() if n < n_sessions]
    cut_off = [
        f"{name} ({n} of {appearances[name]}, {100 * n / appearances[name]:.0f}%)"
        for name, n in sorted(n_truncated.items(), key=lambda one: (-one[1], one[0]))
        if appearances[name]
    ]
    flags = []
    if partly and appearances.total() > 2 * n_sessions:
        flags.append(f"not_in_every_session:{len(partly)}: {few(partly, N_NAMED)}")
    if cut_off:
        flags.append(f"truncated_answers:{sum(n_truncated.values())}: {few(cut_off, N_NAMED)}")
    return flags


def _board(
    reviews: BoardReviews,
    columns: dict[str, list[Any]],
    notes: dict[str, Any],
    flags: list[str],
    covered: float | None = None,
) -> Board:
    options = reviews.options
    ranked_by = next(name for name in ("value", "share_common", "share") if name in columns)
    parameters = {
        "since": options.since,
        "as_of": None if reviews.latest is None else iso(reviews.latest),
        "category": options.category,
        "own_votes": options.own_votes,
        "interval": options.interval,
        "level": 0.95,
        "reputation": options.reputation,
        "item_weights": reviews.item_weights is not None,
        "ranked_by": ranked_by,
        "coverage": None if covered is None else plain(covered),
        **({"without_truncated": True} if options.without_truncated else {}),
        **({} if options.people is None else {"people": list(options.people)}),
        **options.chosen,
    }
    hint = "" if notes["reviews"] else all_left_out(notes["reviews_left_out"], "review")
    return Board("models", columns, parameters, tuple(flags), {"rule": options.rule, **notes}, hint)


def _weigh_reviewers(reviews: BoardReviews) -> tuple[Floats, dict[str, float], list[str]]:
    """Return each name's weight by its own score, the reviewers' weights, and a flag."""
    sums = reviews.sums((*BASE, "influence"))
    totals = sums.part(None)
    reviewer, model, cells = totals.by_reviewer("influence")
    codes, place = np.unique(reviewer, return_inverse=True)
    shares, n_votes = np.zeros((2, len(codes), len(totals.models)))
    shares[place, model], n_votes[place, model] = cells["share"], cells["votes"]
    at = {name: i for i, name in enumerate(totals.models)}
    own = [at.get(sums.names[code], -1) for code in codes.tolist()]
    peers = peer_weights(shares, n_votes, own)
    if peers is None:
        raise UsageError(
            "no reviewer is a model on this board, so there are no scores to use as weights.",
            hint="Use --reputation fixed.",
        )
    n_outsiders = len(peers.outsiders)
    flags = [f"reviewers_without_a_score:{n_outsiders}"] if n_outsiders else []
    by_name = np.zeros(len(sums.names))
    by_name[codes] = peers.used
    weights = {
        sums.names[code]: round(weight, 12)
        for code, weight in zip(codes.tolist(), peers.weight.tolist(), strict=True)
    }
    return by_name, weights, flags


def _by_category(
    reviews: BoardReviews,
    parts: Sequence[ModelSums],
    meetings: Sequence[ModelSums | None],
) -> dict[str, list[Any]]:
    """Return the rows of each category's board, one board after the other."""
    columns: dict[str, list[Any]] = {"category": [], **{name: [] for name in COLUMNS}}
    two_way = reviews.options.interval == "two-way"
    for name, totals, met in zip(reviews.categories, parts, meetings, strict=True):
        part = board_columns(totals, reviews.options.rule, two_way=two_way, meetings=met)
        columns["category"] += [name] * len(part["model"])
        for column, values in part.items():
            columns.setdefault(column, []).extend(values)
    return columns


def _history(reviews: BoardReviews, weights: Floats | None) -> list[dict[str, Any]]:
    """Return each week's shares with their intervals, oldest week first.

    Weeks begin on Monday.
    """
    first = reviews.first_s()
    if first is None or reviews.latest is None:
        return []
    week, last = (int((t - MONDAY_S) // WEEK_S) for t in (first, reviews.latest))
    week = max(week, last - MAX_WEEKS + 1)
    sums = reviews.sums(BASE, weights, week * WEEK_S + MONDAY_S)
    points: list[dict[str, Any]] = []
    for at in range(last - week + 1):
        part = board_columns(sums.part(at), "borda")
        start = iso((week + at) * WEEK_S + MONDAY_S)[:10]
        points += [
            {"week": start, **dict(zip(POINT, row, strict=True))}
            for row in zip(*(part[name] for name in POINT), strict=True)
        ]
    return points
