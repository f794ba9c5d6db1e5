"""The reviews that a board of models is made from: a table, or all that a store holds."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from peerage.boards.model_sums import (
    ModelSums,
    Plan,
    Tables,
    add_segments,
    block_sums,
    by_session,
    slices_of,
)
from peerage.boards.model_totals import ModelTotals
from peerage.boards.win_counts import WinCounts
from peerage.engines import Engine, Frame, Source
from peerage.engines.derived import digest_of
from peerage.engines.mirror import Mirror
from peerage.engines.review_tables import (
    Reviews,
    RowsReading,
    count_comparisons,
    counts_of,
    fold_rows,
    names_in,
    read_reviews,
    refuse_duplicates,
    since,
    trimmed_names,
)
from peerage.errors import InputError
from peerage.reports.options import ModelBoardOptions
from peerage.reports.recounts import select_reviews
from peerage.reports.seal_counts import SEALS, SealCounts, count_seals
from peerage.reviews.cells import Cells, merge_tables
from peerage.reviews.columns import MARK, REVIEWS, required
from peerage.reviews.rows import (
    N_CLUSTERS,
    N_FOLDS,
    Rows,
    chunks,
    folds_of,
    rows_and_units,
    unit_of,
)
from peerage.reviews.times import instant_s, span_s
from peerage.reviews.votes import votes
from peerage.types import Placing, Rubric

T = TypeVar("T")

CHUNK_ROWS = 131_072  # what a processor's cache holds
FORMAT = 6  # of the files of sums: another one is not read
SMALL_SEGMENT_BYTES = 200_000
HEAD = ("columns", "n_rows", "not_finite", "latest")  # what files and tables have alike
POINTS_BY_WINNER = {"model_a": 1.0, "model_b": 0.0}  # of model_a; any other winner is a tie
NO_REVIEWS: Mapping[str, list[Any]] = {
    name: [] for name in ("session_id", "reviewer", "candidate", "rank", "category", "at", "words")
}


class ReviewsTable:
    """A reviews table on an engine, checked, within the window of a board."""

    item_weights: Source | None = None

    def __init__(
        self,
        engine: Engine,
        source: Source,
        options: ModelBoardOptions,
        item_weights: Source | None = None,
        rubric: Rubric | None = None,
    ) -> None:
        self.engine, self.source, self.options = engine, source, options
        self.item_weights, self.rubric = item_weights, rubric
        self._describe(*(getattr(self.reviews, name) for name in HEAD))

    def _describe(
        self, columns: tuple[str, ...], n_rows: int, not_finite: int, newest: float | None
    ) -> None:
        """Set the window, of what the reviews hold; options that they cannot serve are refused.

        A window that is not asked to end earlier ends with the latest review.
        """
        options = self.options
        check_columns(columns, options)
        self.columns, self.n_rows, self.not_finite = columns, n_rows, not_finite
        self.newest = newest  # when the latest review was given, in the window or not
        self.latest = newest if options.as_of is None else instant_s(options.as_of)
        self.earliest: float | None = None  # open
        span = span_s(options.since)
        if span is not None and self.latest is not None and "at" in columns:
            self.earliest = self.latest - span

    @cached_property
    def reviews(self) -> Reviews:
        """The table, of which the options may choose a part or weigh the marks anew."""
        table = read_reviews(self.engine, self.source)
        return select_reviews(self.engine, table, self.options, self.rubric)

    @property
    def flags(self) -> tuple[str, ...]:
        """What is odd about the table itself."""
        return self.reviews.flags

    @property
    def _end(self) -> float | None:
        return None if self.options.as_of is None else self.latest

    def _chosen(self, frame: Frame) -> Frame:
        """The rows of the category that is asked for."""
        category = self.options.category
        return frame if category is None else frame.filter(nw.col("category") == category)

    @cached_property
    def _asked_for(self) -> Frame:
        """The rows that the options ask for, whatever their time."""
        frame = self._chosen(self.reviews.frame)
        if not self.options.without_truncated:
            return frame
        return frame.filter(nw.col("truncated").is_null() | (nw.col("truncated") < 1))

    @cached_property
    def _rows(self) -> Frame:
        """The rows that the options ask for, but for the beginning of the window."""
        return since(replace(self.reviews, frame=self._asked_for), None, self._end)

    def n_outside(self, n_inside: int) -> int:
        """How many of the rows asked for are left out, where so many are in the window."""
        if self.earliest is None and self._end is None:
            return 0
        return max(0, self.n_asked_for - n_inside)

    @cached_property
    def n_asked_for(self) -> int:
        """How many rows the options ask for, whatever their time."""
        if self.options.takes_all:
            return self.n_rows
        return int(self.engine.arrays(self._asked_for.select(nw.len().alias("n")))["n"][0])

    @cached_property
    def categories(self) -> tuple[str, ...]:
        """The categories of a board by category, in the order of their names; none is ""."""
        if not self.options.by_category:
            return ()
        return tuple(sorted({one or "" for one in counts_of(self.engine, self._rows, "category")}))

    @cached_property
    def frame(self) -> Frame:
        """The same rows with what sums need: categories as numbers, and the weights of items."""
        frame = self._rows
        if self.options.by_category:
            code: Any = nw.lit(0.0)
            for place, name in enumerate(self.categories):
                here = nw.col("category") == name
                here = here | nw.col("category").is_null() if name == "" else here
                code = nw.when(here).then(nw.lit(float(place))).otherwise(code)
            frame = frame.with_columns(code.alias("category"))
        return frame if self.item_weights is None else self._weighed(frame)

    def _weighed(self, frame: Frame) -> Frame:
        weights = self.engine.open(self.item_weights)
        missing = {"item_id", "weight"} - set(weights.collect_schema().names())
        if missing:
            raise InputError(f"weights of items need the column {', '.join(sorted(missing))}.")
        key = "query_id" if "query_id" in self.columns else "session_id"
        table = weights.select(
            nw.col("item_id").cast(nw.String).alias("weighed_item"),
            nw.col("weight").cast(nw.Float64).alias("item_weight"),
        )
        table = trimmed_names(table, ["weighed_item"])
        return frame.join(table, left_on=key, right_on="weighed_item", how="left")

    def win_counts(self) -> WinCounts | None:
        """How often each pair of models met, where nothing else is needed for the board asked."""
        options, comparisons = self.options, self.reviews.comparisons
        plain = ModelBoardOptions(
            rule="bradley_terry",
            **options.model_dump(include={"own_votes", "since", "as_of", "category"}),
        )
        if comparisons is None or self.item_weights is not None or options != plain:
            return None
        counts = comparisons.counts
        if (self.earliest, options.as_of, options.category) != (None, None, None):
            frame = since(replace(self.reviews, frame=comparisons.frame), self.earliest, None)
            if self._end is not None and "at" in self.columns:
                frame = frame.filter((nw.col("at") <= self._end) | nw.col("at").is_null())
            counts = count_comparisons(self.engine, self._chosen(frame))
        if counts["by_itself"].any():
            return None
        points = [POINTS_BY_WINNER.get(one, 0.5) for one in counts["winner"].tolist()]
        a, b, n = (counts[name].tolist() for name in ("model_a", "model_b", "n"))
        return WinCounts.of(a, b, points, n)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return names_in(self.engine, self.frame)

    def sums(self, plan: Plan) -> ModelSums:
        """The table's sums; a repeated review is refused with its row."""
        plan, numbers = fitted(plan, self.columns)
        numbers += ["category"] if plan.by_category else []
        numbers += ["item_weight"] if self.item_weights is not None else []
        total = sums_of_frame(self.engine, self.frame, self.columns, self.names, plan, numbers)
        if ModelTotals(total.slice(None)).count("duplicates"):
            refuse_duplicates(self.engine, self.frame, self.columns)
        return total

    def n_after(self, instant: float) -> int:
        """How many reviews carry a later time."""
        if self.newest is None or self.newest <= instant:
            return 0
        late = self.reviews.frame.filter(nw.col("at") > instant).select(nw.len().alias("n"))
        return int(self.engine.arrays(late)["n"][0])

    def score_ends(self) -> tuple[float, float] | None:
        """The least and the largest score of the window; None without any."""
        if "score" not in self.columns:
            return None
        rows = self.frame.filter(nw.col("score").is_finite())
        if self.earliest is not None:
            rows = rows.filter((nw.col("at") >= self.earliest) | nw.col("at").is_null())
        score = nw.col("score")
        ends = self.engine.arrays(rows.select(low=score.min(), high=score.max()))
        low, high = (np.float64(ends[name][0]) for name in ("low", "high"))
        return (float(low), float(high)) if np.isfinite([low, high]).all() else None

    def first_s(self) -> float | None:
        """When the window begins, or the first review in it."""
        if self.earliest is not None:
            return self.earliest
        first = self.engine.arrays(self.frame.select(nw.col("at").min()))["at"][0]
        return None if first is None or not np.isfinite(float(first)) else float(first)

    def truncated(self) -> dict[str, int]:
        """How many answers (a model in a session) of each model were cut off in the window."""
        if "truncated" not in self.columns:
            return {}
        rows = self._judged_answers().filter(nw.col("truncated") >= 1)
        if self.earliest is not None:
            rows = rows.filter(nw.col("at") >= self.earliest)
        answers = rows.group_by("candidate", "session_id").agg(nw.len().alias("rows"))
        return counts_of(self.engine, answers, "candidate")

    def seals(self) -> SealCounts:
        """The reviews of the window that were asked for again or unsealed, by reviewer."""
        if not any(name in self.columns for name in SEALS):
            return {}
        rows = self._judged_answers()
        if self.earliest is not None:
            rows = rows.filter(nw.col("at") >= self.earliest)
        return count_seals(self.engine, rows, self.columns)

    def _judged_answers(self) -> Frame:
        return self.frame

    def placings(self, plan: Plan) -> FoldedPlacings:
        """Every ballot as rules take it: by time, then session, round and reviewer."""
        numbers = [name for name in ("rank", "score", "round", "at") if name in self.columns]
        texts = [*required(REVIEWS), *(["query_id"] if "query_id" in self.columns else [])]
        columns = self.engine.arrays(self.frame.select(*texts, *numbers))
        return placings_of(rows_and_units(columns, numbers)[0], plan)


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


def fitted(plan: Plan, columns: Collection[str]) -> tuple[Plan, list[str]]:
    """The plan without what these columns have nothing for, and the numbers that it needs."""
    scores, lengths = plan.scores and "score" in columns, plan.lengths and "words" in columns
    timed = plan.earliest is not None or plan.periods is not None
    numbers = ["rank", "score", "round"]
    numbers += ["at"] if timed else []
    numbers += ["words"] if lengths else []
    plan = replace(plan, scores=scores, lengths=lengths)
    return plan, [name for name in numbers if name in columns]


def summed(rows: Rows, plan: Plan) -> Tables:
    """The sums of some whole sessions: what an engine runs on each block."""
    return merge_tables([block_sums(part, plan) for part in chunks(rows, CHUNK_ROWS)])


def sums_of_frame(
    engine: Engine,
    frame: Frame,
    columns: Collection[str],
    names: tuple[str, ...],
    plan: Plan,
    numbers: Sequence[str],
) -> ModelSums:
    """The sums of a table's rows, made where they are."""
    reading = RowsReading(
        "session_id",
        {"reviewer": names, "candidate": names},
        tuple(numbers),
        query_id="query_id" in columns,
        clusters=True,
    )
    units = units_of(engine, frame, columns)
    plan = replace(plan, fold_by_cluster=folds_of(units))
    tables = fold_rows(engine, frame, reading, partial(summed, plan=plan), merge_tables)
    return ModelSums(names, units, tables)


def units_of(engine: Engine, frame: Frame, columns: Collection[str]) -> tuple[str, ...] | None:
    """What each cluster is an observation of, a query or a session; None for too many to name."""
    units, alone, most = [], frame, N_CLUSTERS + 1
    if "query_id" in columns:
        with_query = frame.filter(~nw.col("query_id").is_null())
        units = [unit_of("", query) for query in counts_of(engine, with_query, "query_id", most)]
        alone = frame.filter(nw.col("query_id").is_null())
    units += [unit_of(session, None) for session in counts_of(engine, alone, "session_id", most)]
    return tuple(sorted(units)) if len(units) <= N_CLUSTERS else None


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
    keys = (rows.candidate, rows.reviewer, round_, rows.session, at)
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


# -- everything that a store holds ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """What is known of one file of reviews without reading it again."""

    columns: tuple[str, ...]
    n_rows: int
    not_finite: int
    latest: float | None
    first: float | None  # the earliest of its sessions' last reviews
    timeless: bool  # whether a session has no time, and so is in every window
    names: tuple[str, ...]  # of reviewers and candidates, sorted
    sessions: NDArray[np.uint64]  # digests of their ids, sorted


class StoredReviews(ReviewsTable):
    """The reviews of a store, file by file; a file's sums are kept beside it.

    A file never changes, so its sums are made once for each plan. A board adds them up, and
    reads rows (of all files as one table) only where the window cuts through a file.
    """

    def __init__(
        self,
        engine: Engine,
        mirror: Mirror,
        files: Sequence[Path],
        options: ModelBoardOptions,
        rubric: Rubric | None = None,
    ) -> None:
        self.engine, self.mirror, self.options, self.rubric = engine, mirror, options, rubric
        self.source = list(files)
        engine.admit(mirror.folders)
        self.facts = {file: self._facts(file) for file in files}
        known = self.facts.values()
        self._describe(
            tuple(dict.fromkeys(name for facts in known for name in facts.columns)),
            sum(facts.n_rows for facts in known),
            sum(facts.not_finite for facts in known),
            max((facts.latest for facts in known if facts.latest is not None), default=None),
        )

    @property
    def flags(self) -> tuple[str, ...]:
        """Nothing: names were trimmed when they were stored."""
        return ()

    def win_counts(self) -> None:
        """Not counted: every comparison was stored as reviews."""

    @property
    def _is_whole(self) -> bool:
        """Whether the options leave out no rows but those before the window."""
        return self.options.takes_all and self.options.as_of is None

    @cached_property
    def apart(self) -> bool:
        """Whether no session is in two files."""
        every = np.concatenate([facts.sessions for facts in self.facts.values()])
        every.sort()
        return not (every[1:] == every[:-1]).any()

    def sums(self, plan: Plan) -> ModelSums:
        of_rows = plan.by_category or plan.periods is not None or plan.weight_by_name is not None
        if of_rows or not self._is_whole or not self.apart:
            return super().sums(plan)
        segments = [self._segment(file, plan) for file in self.facts]
        parts = [part for part in segments if part is not None]
        return add_segments(parts) if parts else super().sums(plan)

    def _segment(self, file: Path, plan: Plan) -> ModelSums | None:
        """The sums of one file within the window; None for a file that is all before it."""
        facts, start = self.facts[file], plan.earliest
        if start is None or facts.first is None or facts.first >= start:
            whole = replace(plan, earliest=None)
            return self._cached(file, asdict(whole), _sums_in, lambda: self._sums(file, whole))
        if facts.latest is not None and facts.latest < start and not facts.timeless:
            return None
        return self._sums(file, plan)

    def _sums(self, file: Path, plan: Plan) -> ModelSums:
        """The sums of a file's rows; it was checked when it was written, and is not again."""
        facts, frame = self.facts[file], self.engine.open(file)
        plan, numbers = fitted(plan, facts.columns)
        if self._is_small(file):
            rows, units = rows_and_units(self.engine.arrays(frame), numbers)
            plan = replace(plan, fold_by_cluster=folds_of(units))
            return ModelSums(facts.names, units, summed(rows, plan))
        return sums_of_frame(self.engine, frame, facts.columns, facts.names, plan, numbers)

    def _is_small(self, file: Path) -> bool:
        """Whether a file holds a few sessions of this store's own: then numpy is quicker."""
        return self.mirror.is_segment(file) and file.stat().st_size < SMALL_SEGMENT_BYTES

    def _facts(self, file: Path) -> SegmentFacts:
        look = self._look_quickly if self._is_small(file) else self._look
        return self._cached(file, {"facts": True}, _facts_in, lambda: look(file))

    def _look_quickly(self, file: Path) -> SegmentFacts:
        """The facts of a few sessions of this store's own, which have only numbers that are."""
        rows = self.engine.arrays(self.engine.open(file))
        always = (*required(REVIEWS), "rank", "score")
        filled = {name for name in rows if name in always or not _is_void(rows[name])}
        columns = [name for name in REVIEWS if name in filled]
        columns += sorted(name for name in filled if name.startswith(MARK))
        last: dict[str, float] = {}
        times = np.asarray(rows["at"], dtype=np.float64).tolist()
        for session, at in zip(rows["session_id"].tolist(), times, strict=True):
            last[session] = max(last.get(session, at), at)
        ends = [at for at in last.values() if np.isfinite(at)]
        names = sorted({*rows["reviewer"].tolist(), *rows["candidate"].tolist()})
        head = {"columns": columns, "n_rows": len(times), "not_finite": 0, "names": names}
        return _facts_in({**head, "latest": max(ends, default=None), **_session_facts(last, ends)})

    def _look(self, file: Path) -> SegmentFacts:
        reviews = read_reviews(self.engine, file)
        timed = "at" in reviews.columns
        last = [nw.col("at").max().alias("last")] if timed else []
        sessions = self.engine.arrays(
            reviews.frame.group_by("session_id").agg(nw.len().alias("n"), *last)
        )
        times = np.asarray(sessions["last"], dtype=np.float64) if timed else np.zeros(0)
        ends = times[np.isfinite(times)].tolist()
        return SegmentFacts(
            **{name: getattr(reviews, name) for name in HEAD},
            **_session_facts(sessions["session_id"].tolist(), ends),
            names=names_in(self.engine, reviews.frame),
        )

    def _cached(
        self,
        file: Path,
        about: Mapping[str, Any],
        read: Callable[[dict[str, Any]], T],
        make: Callable[[], T],
    ) -> T:
        """What is known of a file: read from a file beside it, or made and written there now.

        The name has a hash of the file and of what it is about.
        """
        text = json.dumps([FORMAT, digest_of(file), about], sort_keys=True, default=str)
        name = f"sums-{hashlib.blake2b(text.encode(), digest_size=12).hexdigest()}.bin"
        if (body := self.mirror.read_kept(name)) is not None:
            return read(_load(body))
        value = make()
        self.mirror.keep(name, _dump(value))
        return value

    def _judged_answers(self) -> Frame:
        """Of whole files, rows that were not checked again, which is quick."""
        if not self._is_whole:
            return self.frame
        frame = self.engine.open(self.source)
        return self.engine.epoch(frame, "at") if "at" in self.columns else frame


def _is_void(values: NDArray[Any]) -> bool:
    """Whether a column holds nothing but gaps."""
    return all(value is None or value != value for value in values.tolist())


def _session_facts(sessions: Collection[str], ends: Collection[float]) -> dict[str, Any]:
    """The facts of a file's sessions, of which some have a last time each."""
    raw = (hashlib.blake2b(session.encode(), digest_size=8).digest() for session in sessions)
    digests = np.sort(np.frombuffer(b"".join(raw), dtype=np.uint64))
    timeless = len(ends) < len(sessions)
    return {"first": min(ends, default=None), "timeless": timeless, "sessions": digests}


# -- sums and facts as bytes ---------------------------------------------------------------------


def _dump(value: Any) -> bytes:
    """A line of JSON, and its arrays as they lie in memory: read ten times as quickly as `np.save`.

    In the JSON an array is its type, its shape and where it begins after the line.
    """
    body = bytearray()

    def placed(array: NDArray[Any]) -> dict[str, Any]:
        start = len(body)
        body.extend(np.ascontiguousarray(array).tobytes())
        return {"array": [array.dtype.str, array.shape, start]}

    return json.dumps(asdict(value), default=placed).encode() + b"\n" + body


def _load(data: bytes) -> dict[str, Any]:
    """The fields of a value that was dumped."""
    body = data.index(b"\n") + 1

    def array_in(fields: dict[str, Any]) -> Any:
        if "array" not in fields:
            return fields
        kind, shape, start = fields["array"]
        return np.frombuffer(data, kind, math.prod(shape), body + start).reshape(shape)

    fields: dict[str, Any] = json.loads(data[:body], object_hook=array_in)
    return fields


def _facts_in(fields: dict[str, Any]) -> SegmentFacts:
    texts = {name: tuple(fields[name]) for name in ("columns", "names")}
    return SegmentFacts(**{**fields, **texts})


def _sums_in(fields: dict[str, Any]) -> ModelSums:
    names, units = tuple(fields["names"]), fields["units"]
    tables = {name: Cells(**cells) for name, cells in fields["tables"].items()}
    return ModelSums(names, None if units is None else tuple(units), tables)
