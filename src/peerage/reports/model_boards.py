"""The board of models, from any reviews table or from all that a store holds."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from peerage.boards import Board
from peerage.boards.model_sums import (
    ModelSums,
    Plan,
    Tables,
    add_segments,
    block_sums,
    by_session,
    slices_of,
)
from peerage.boards.models import (
    COLUMNS,
    MEANS,
    MIN_REVIEWERS,
    Estimates,
    ModelTotals,
    board_columns,
    head_to_head,
    length_controlled,
    means,
    n_voters,
    plain,
    rating_estimates,
    ratings,
    standing,
)
from peerage.boards.peers import peer_weights
from peerage.boards.win_counts import WinCounts, win_counts_columns
from peerage.engines import Engine, Source
from peerage.engines.reviews import read_reviews, refuse_duplicates, since
from peerage.errors import InputError, UsageError
from peerage.plugins import PluginError
from peerage.reports.options import ModelBoardOptions
from peerage.reviews.cells import Cells, merge_tables
from peerage.reviews.columns import MARK, REVIEWS, required
from peerage.reviews.rows import N_CLUSTERS, Floats, Rows, chunks, rows_and_units, unit_of
from peerage.reviews.times import instant_s, iso, span_s
from peerage.reviews.votes import votes
from peerage.types import Placing

if TYPE_CHECKING:
    from peerage.engines.mirror import Mirror
    from peerage.engines.reviews import RowsReading

Frame = Any  # a narwhals LazyFrame of the engine's making

CHUNK_ROWS = 131_072  # what a processor's cache holds
MAX_PLACED_ROWS = 500_000  # for rules that read one ballot after another
COMPARED = ("borda", "bradley_terry", "elo", "mean_rank", "hybrid", "copeland", "schulze")  # first
POINT = ("model", "share", "share_low", "share_high", "appearances")
MAX_WEEKS = 520
WEEK_S = 604_800.0
MONDAY_S = 345_600.0  # the first Monday after the epoch, 1970-01-05
NO_REVIEWS: Mapping[str, list[Any]] = {
    name: [] for name in ("session_id", "reviewer", "candidate", "rank", "category", "at", "words")
}


# -- a reviews table within its window -----------------------------------------------------------


class Reviews(Protocol):
    """What a board is built from: sums, and what is known of the rows behind them."""

    options: ModelBoardOptions
    columns: tuple[str, ...]
    latest: float | None
    earliest: float | None
    categories: tuple[str, ...]
    has_weights: bool
    n_rows: int
    not_finite: int

    def sums(self, plan: Plan) -> ModelSums: ...
    def placings(self, plan: Plan) -> list[Placing]: ...
    def n_after(self, instant: float) -> int: ...
    def first_s(self) -> float | None: ...
    def truncated(self) -> dict[str, int]: ...


class ReviewsTable:
    """A reviews table on an engine, checked, within the window of a board."""

    def __init__(
        self,
        engine: Engine,
        source: Source,
        options: ModelBoardOptions,
        item_weights: Source | None = None,
    ) -> None:
        self.engine, self.options = engine, options
        self.reviews = read_reviews(engine, source)
        self.columns = self.reviews.columns
        self.n_rows, self.not_finite = self.reviews.n_rows, self.reviews.not_finite
        check_columns(self.columns, options)
        self.latest, self.earliest = window_of(options, self.reviews.latest, self.columns)
        self.categories: tuple[str, ...] = ()
        end = None if options.as_of is None else self.latest
        self.frame = since(self.reviews, None, end)
        if options.category is not None:
            self.frame = _only(self.frame, options.category)
        if options.without_truncated:
            self.frame = _whole_answers(self.frame)
        if options.by_category:
            self.categories = self._coded_categories()
        self.has_weights = item_weights is not None
        if item_weights is not None:
            self._join_weights(item_weights)

    def win_counts(self) -> WinCounts | None:
        """How often each pair of models met, where nothing else is needed for the board asked."""
        from peerage.engines.head_to_head import count_comparisons

        plain = ModelBoardOptions(
            rule="bradley_terry",
            own_votes=self.options.own_votes,
            since=self.options.since,
            as_of=self.options.as_of,
            category=self.options.category,
        )
        given = self.reviews.comparisons
        if given is None or self.has_weights or self.options != plain:
            return None
        counts = given.counts
        if self.earliest is not None or plain.as_of is not None or plain.category is not None:
            end = None if plain.as_of is None else self.latest
            frame = since(replace(self.reviews, frame=given.frame), self.earliest, end)
            frame = frame if plain.category is None else _only(frame, plain.category)
            counts = count_comparisons(self.engine, frame)
        if counts["by_itself"].any():
            return None
        points = [POINTS_BY_WINNER.get(one, 0.5) for one in counts["winner"].tolist()]
        a, b, n = (counts[name].tolist() for name in ("model_a", "model_b", "n"))
        return WinCounts.of(a, b, points, n)

    @cached_property
    def names(self) -> tuple[str, ...]:
        held = {str(name) for name in (*self._held("candidate"), *self._held("reviewer"))}
        return tuple(sorted(held))

    @cached_property
    def units(self) -> tuple[str, ...] | None:
        """What each cluster is an observation of; None where there are too many to name."""
        return units_of(self.engine, self.frame, self.columns)

    def _held(self, column: str) -> list[Any]:
        """The values of a column, each once (a grouping is ten times quicker than `unique`)."""
        import narwhals.stable.v2 as nw

        found = self.engine.arrays(self.frame.group_by(column).agg(nw.len().alias("n")))
        return list(found[column])

    def _coded_categories(self) -> tuple[str, ...]:
        """The categories, now numbers in the table, in the order of their names; none is ""."""
        import narwhals.stable.v2 as nw

        held = self._held("category")
        names = tuple(sorted({"" if name is None else str(name) for name in held}))
        code: Any = nw.lit(0.0)
        for place, name in enumerate(names):
            here = nw.col("category") == name
            here = here | nw.col("category").is_null() if name == "" else here
            code = nw.when(here).then(nw.lit(float(place))).otherwise(code)
        self.frame = self.frame.with_columns(code.alias("category"))
        return names

    def _join_weights(self, source: Source) -> None:
        import narwhals.stable.v2 as nw

        given = self.engine.open(source)
        missing = {"item_id", "weight"} - set(given.collect_schema().names())
        if missing:
            raise InputError(f"weights of items need the column {', '.join(sorted(missing))}.")
        key = "query_id" if "query_id" in self.columns else "session_id"
        table = given.select(
            nw.col("item_id").cast(nw.String).alias("weighed_item"),
            nw.col("weight").cast(nw.Float64).alias("item_weight"),
        )
        self.frame = self.frame.join(table, left_on=key, right_on="weighed_item", how="left")

    def sums(self, plan: Plan) -> ModelSums:
        """The table's sums; a repeated review is refused with its row."""
        from peerage.engines.reviews import fold_rows

        plan = _fitting(plan, self.columns)
        reading = self._reading(plan)
        tables = fold_rows(self.engine, self.frame, reading, _kernel(plan), merge_tables)
        total = ModelSums(self.names, self.units, tables)
        if ModelTotals(total.slice(None)).count("duplicates"):
            refuse_duplicates(self.engine, self.frame, self.columns)
        return total

    def _reading(self, plan: Plan) -> RowsReading:
        from peerage.engines.reviews import RowsReading

        numbers = [name for name in numbers_of(plan) if name in self.columns]
        numbers += ["category"] if plan.by_category else []
        numbers += ["item_weight"] if self.has_weights else []
        return RowsReading(self.names, tuple(numbers), query_id="query_id" in self.columns)

    def n_after(self, instant: float) -> int:
        """The reviews that carry a later time."""
        import narwhals.stable.v2 as nw

        if self.reviews.latest is None or self.reviews.latest <= instant:
            return 0
        late = self.reviews.frame.filter(nw.col("at") > instant).select(nw.len().alias("n"))
        return int(self.engine.arrays(late)["n"][0])

    def first_s(self) -> float | None:
        """When the window begins, or the first review in it."""
        import narwhals.stable.v2 as nw

        if self.earliest is not None:
            return self.earliest
        found = self.engine.arrays(self.frame.select(nw.col("at").min()))["at"][0]
        return None if found is None or not np.isfinite(float(found)) else float(found)

    def truncated(self) -> dict[str, int]:
        """How many answers of each model were cut off, of those in the window."""
        return count_truncated(self.engine, self.frame, self.columns, self.earliest)

    def placings(self, plan: Plan) -> list[Placing]:
        """Every ballot as rules take it: by time, then session, round and reviewer."""
        numbers = [name for name in ("rank", "score", "round", "at") if name in self.columns]
        found = self.engine.arrays(
            self.frame.select("session_id", "reviewer", "candidate", *numbers)
        )
        return placings_of(rows_and_units(found, numbers)[0], plan)


def units_of(engine: Engine, frame: Frame, columns: Collection[str]) -> tuple[str, ...] | None:
    """What each cluster is an observation of, a query or a session; None for too many to name."""
    import narwhals.stable.v2 as nw

    def first_few(rows: Frame, column: str) -> list[str]:
        found = rows.group_by(column).agg(nw.len().alias("n")).head(N_CLUSTERS + 1)
        return [str(value) for value in engine.arrays(found)[column]]

    queries, alone = [], frame
    if "query_id" in columns:
        queries = first_few(frame.filter(~nw.col("query_id").is_null()), "query_id")
        alone = frame.filter(nw.col("query_id").is_null())
    units = [unit_of("", query) for query in queries]
    units += [unit_of(session, None) for session in first_few(alone, "session_id")]
    return tuple(sorted(units)) if len(units) <= N_CLUSTERS else None


def check_columns(columns: tuple[str, ...], options: ModelBoardOptions) -> None:
    """Refuse options that these columns cannot serve."""
    if (options.by_category or options.category is not None) and "category" not in columns:
        raise InputError("the reviews have no `category`.")
    if options.length_controlled and "words" not in columns:
        raise InputError("a length-controlled view needs the column `words`.")
    if options.without_truncated and "truncated" not in columns:
        raise InputError("the reviews have no column `truncated`.")
    if options.history and "at" not in columns:
        raise InputError("a history needs the column `at`.")
    if "rank" not in columns and "score" not in columns:
        raise InputError("the table has marks but neither a rank nor a score.")


def window_of(
    options: ModelBoardOptions, latest: float | None, columns: tuple[str, ...]
) -> tuple[float | None, float | None]:
    """When the window ends, and when it begins; None for no end or no beginning."""
    end = latest if options.as_of is None else instant_s(options.as_of)
    span = span_s(options.since)
    if span is None or end is None or "at" not in columns:
        return end, None
    return end, end - span


def _only(frame: Frame, category: str) -> Frame:
    import narwhals.stable.v2 as nw

    return frame.filter(nw.col("category") == category)


def _whole_answers(frame: Frame) -> Frame:
    """The rows of answers that were not cut off, or of which nobody can tell."""
    import narwhals.stable.v2 as nw

    return frame.filter(nw.col("truncated").is_null() | (nw.col("truncated") < 1))


def count_truncated(
    engine: Engine, frame: Frame, columns: Collection[str], earliest: float | None
) -> dict[str, int]:
    """How many answers of each model were cut off, an answer being a model in a session."""
    import narwhals.stable.v2 as nw

    if "truncated" not in columns:
        return {}
    rows = frame.filter(nw.col("truncated") >= 1)
    if earliest is not None:
        rows = rows.filter(nw.col("at") >= earliest)
    answers = rows.group_by("candidate", "session_id").agg(nw.len().alias("rows"))
    found = engine.arrays(answers.group_by("candidate").agg(nw.len().alias("n")))
    names, counts = found["candidate"].tolist(), found["n"].tolist()
    return {str(name): int(n) for name, n in zip(names, counts, strict=True)}


def _fitting(plan: Plan, columns: tuple[str, ...]) -> Plan:
    """The plan without what these columns have nothing for."""
    return replace(
        plan,
        scores=plan.scores and "score" in columns,
        lengths=plan.lengths and "words" in columns,
    )


def numbers_of(plan: Plan) -> tuple[str, ...]:
    """The columns of numbers that a plan's sums are made of, where they are there."""
    timed = plan.earliest is not None or plan.periods is not None
    return (
        "rank",
        "score",
        "round",
        *(["at"] if timed else []),
        *(["words"] if plan.lengths else []),
    )


def _kernel(plan: Plan) -> Callable[[Rows], Tables]:
    """What an engine runs on each block of whole sessions."""

    def summed(rows: Rows) -> Tables:
        return merge_tables([block_sums(part, plan) for part in chunks(rows, CHUNK_ROWS)])

    return summed


def placings_of(rows: Rows, plan: Plan) -> list[Placing]:
    """The ballots of some whole sessions, in the order of time."""
    n_names = len(rows.names)
    answers = np.unique(rows.session.astype(np.int64) * n_names + rows.candidate)
    n_candidates = np.bincount(answers // n_names, minlength=rows.n_sessions)
    cast = votes(rows, plan.own_votes, n_candidates)
    slices, _ = slices_of(rows, replace(plan, by_category=False, periods=None))
    kept = np.flatnonzero(cast.counts & (slices[rows.session] >= 0))
    at = np.zeros(len(rows.session))
    if "at" in rows.numbers:
        times = by_session(rows, rows.numbers["at"], np.fmax)
        at = np.where(np.isfinite(times), times, -np.inf)[rows.session]
    round_ = rows.numbers.get("round", at * 0.0)
    keys = (rows.candidate, rows.reviewer, round_, rows.session, at)
    order = kept[np.lexsort(tuple(key[kept] for key in keys))]
    ends = np.flatnonzero(np.diff(cast.ballot[order])) + 1
    score = rows.numbers.get("score")
    found = []
    for part in np.split(order, ends) if len(order) else []:
        places = zip(rows.candidate[part].tolist(), cast.doubled[part].tolist(), strict=True)
        doubled = {rows.names[who]: place for who, place in places}
        first = next((name for name, place in doubled.items() if place == 0), None)
        scores = {} if score is None else _scores(rows, part, score)
        reviewer = rows.names[int(rows.reviewer[part[0]])]
        shown = int(cast.shown[cast.ballot[part[0]]])
        found.append(Placing(reviewer, shown, doubled, first, scores))
    return found


def _scores(rows: Rows, part: NDArray[np.intp], score: Floats) -> dict[str, Fraction]:
    return {
        rows.names[who]: Fraction(value).limit_denominator(1_000)
        for who, value in zip(rows.candidate[part].tolist(), score[part].tolist(), strict=True)
        if np.isfinite(value)
    }


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


class StoredReviews:
    """The reviews of a store, file by file; a file's sums are kept beside it.

    A file never changes, so its sums are made once for each plan. A board adds them up, and
    reads rows only where the window cuts through a file.
    """

    def __init__(
        self, engine: Engine, mirror: Mirror, files: Sequence[Path], options: ModelBoardOptions
    ) -> None:
        self.engine, self.mirror, self.options = engine, mirror, options
        self.files = list(files)
        self._digests: dict[Path, str] = {}
        engine.admit(mirror.folders)
        self.facts = [self._facts(file) for file in files]
        every = dict.fromkeys(name for facts in self.facts for name in facts.columns)
        self.columns = tuple(every)
        self.n_rows = sum(facts.n_rows for facts in self.facts)
        self.not_finite = sum(facts.not_finite for facts in self.facts)
        check_columns(self.columns, options)
        times = [facts.latest for facts in self.facts if facts.latest is not None]
        self.newest = max(times, default=None)
        self.latest, self.earliest = window_of(options, self.newest, self.columns)
        self.categories: tuple[str, ...] = () if not options.by_category else self.rows.categories
        self.has_weights = False

    @cached_property
    def rows(self) -> ReviewsTable:
        """All files as one table, for what needs their rows."""
        return ReviewsTable(self.engine, [str(file) for file in self.files], self.options)

    @cached_property
    def apart(self) -> bool:
        """Whether no session is in two files."""
        every = np.concatenate([facts.sessions for facts in self.facts])
        every.sort()
        return not (every[1:] == every[:-1]).any()

    def sums(self, plan: Plan) -> ModelSums:
        options = self.options
        of_rows = (
            plan.by_category
            or plan.periods is not None
            or plan.weight_by_name is not None
            or options.category is not None
            or options.as_of is not None
            or options.without_truncated
        )
        if of_rows or not self.apart:
            return self.rows.sums(plan)
        found = [self._segment(i, plan) for i in range(len(self.files))]
        parts = [part for part in found if part is not None]
        return add_segments(parts) if parts else self.rows.sums(plan)

    def _segment(self, i: int, plan: Plan) -> ModelSums | None:
        """The sums of one file within the window; None for a file that is all before it."""
        file, facts, start = self.files[i], self.facts[i], plan.earliest
        whole = replace(plan, earliest=None)
        if start is None or facts.first is None or facts.first >= start:
            name = self._name(file, asdict(whole))
            return _load_sums(self.mirror.folder / name) or self._whole(file, facts, whole, name)
        if facts.latest is not None and facts.latest < start and not facts.timeless:
            return None
        return self._sums(file, facts, plan)

    def _whole(self, file: Path, facts: SegmentFacts, plan: Plan, name: str) -> ModelSums:
        sums = self._sums(file, facts, plan)
        self._keep(name, _dump_sums(sums))
        return sums

    def _sums(self, file: Path, facts: SegmentFacts, plan: Plan) -> ModelSums:
        """The sums of a file's rows; it was checked when it was written, and is not again."""
        from peerage.engines.reviews import RowsReading, fold_rows

        frame = self.engine.open(str(file))
        plan = _fitting(plan, facts.columns)
        numbers = tuple(name for name in numbers_of(plan) if name in facts.columns)
        if self._is_small(file):
            found = self.engine.arrays(frame)
            rows, units = rows_and_units(found, numbers)
            return ModelSums(facts.names, units, _kernel(plan)(rows))
        reading = RowsReading(facts.names, numbers, query_id="query_id" in facts.columns)
        tables = fold_rows(self.engine, frame, reading, _kernel(plan), merge_tables)
        return ModelSums(facts.names, units_of(self.engine, frame, facts.columns), tables)

    def _is_small(self, file: Path) -> bool:
        """Whether a file holds a few sessions of this store's own: then numpy is quicker."""
        return self.mirror.is_segment(file) and file.stat().st_size < SMALL_SEGMENT_BYTES

    def _name(self, file: Path, about: Mapping[str, Any]) -> str:
        """The file name of what is kept about a file: under a hash of the file and the options."""
        digest = self._digests.get(file)
        if digest is None:
            size = file.stat().st_size
            with file.open("rb") as data:  # the end of a Parquet file describes all of it
                data.seek(max(0, size - 65_536))
                digest = self._digests[file] = hashlib.blake2b(data.read()).hexdigest()
        text = json.dumps([FORMAT, digest, about], sort_keys=True, default=str)
        return f"sums-{hashlib.blake2b(text.encode(), digest_size=12).hexdigest()}.bin"

    def _facts(self, file: Path) -> SegmentFacts:
        name = self._name(file, {"facts": True})
        with suppress(OSError, ValueError, KeyError):
            head, arrays = _load(self.mirror.folder / name)
            return SegmentFacts(
                **{**head, "columns": tuple(head["columns"]), "names": tuple(head["names"])},
                sessions=arrays["sessions"],
            )
        facts = self._look_quickly(file) if self._is_small(file) else self._look(file)
        head = {k: v for k, v in asdict(facts).items() if k != "sessions"}
        self._keep(name, _dump(head, {"sessions": facts.sessions}))
        return facts

    def _look_quickly(self, file: Path) -> SegmentFacts:
        """The facts of a few sessions of this store's own, which have only numbers that are."""
        found = self.engine.arrays(self.engine.open(str(file)))
        always = (*required(REVIEWS), "rank", "score")
        held = [name for name in found if name in always or not _is_void(found[name])]
        n = len(found["session_id"])
        columns = [name for name in REVIEWS if name in held]
        columns += sorted(name for name in held if name.startswith(MARK))
        last: dict[str, float] = {}
        times = np.asarray(found["at"], dtype=np.float64).tolist()
        for session, at in zip(found["session_id"].tolist(), times, strict=True):
            last[session] = max(last.get(session, at), at)
        ends = [at for at in last.values() if np.isfinite(at)]
        return SegmentFacts(
            tuple(columns),
            n,
            0,
            max(ends, default=None),
            min(ends, default=None),
            len(ends) < len(last),
            tuple(sorted({*found["reviewer"].tolist(), *found["candidate"].tolist()})),
            _digests_of(last),
        )

    def _look(self, file: Path) -> SegmentFacts:
        import narwhals.stable.v2 as nw

        from peerage.engines.reviews import reading_of

        seen = read_reviews(self.engine, str(file))
        timed = "at" in seen.columns
        last = [nw.col("at").max().alias("last")] if timed else []
        found = self.engine.arrays(
            seen.frame.group_by("session_id").agg(nw.len().alias("n"), *last)
        )
        times = np.asarray(found["last"], dtype=np.float64) if timed else np.zeros(0)
        known = times[np.isfinite(times)]
        return SegmentFacts(
            seen.columns,
            seen.n_rows,
            seen.not_finite,
            seen.latest,
            float(known.min()) if len(known) else None,
            len(known) < len(found["session_id"]),
            reading_of(self.engine, seen.frame, (), (), False).names,
            _digests_of(found["session_id"].tolist()),
        )

    def _keep(self, name: str, data: bytes) -> None:
        with suppress(OSError):  # a folder that cannot be written to costs only time
            self.mirror.keep(name, [data])

    def truncated(self) -> dict[str, int]:
        """As of a table; the files are asked for those answers alone, which is quick."""
        if "truncated" not in self.columns or self.options.without_truncated:
            return {}
        if self.options.category is not None or self.options.as_of is not None:
            return self.rows.truncated()
        names = ["session_id", "candidate", "truncated", *(["at"] if "at" in self.columns else [])]
        frame = self.engine.open([str(file) for file in self.files]).select(*names)
        frame = self.engine.epoch(frame, "at") if "at" in self.columns else frame
        return count_truncated(self.engine, frame, self.columns, self.earliest)

    def placings(self, plan: Plan) -> list[Placing]:
        return self.rows.placings(plan)

    def n_after(self, instant: float) -> int:
        late = self.newest is not None and self.newest > instant
        return self.rows.n_after(instant) if late else 0

    def first_s(self) -> float | None:
        return self.earliest if self.earliest is not None else self.rows.first_s()


FORMAT = 3
SMALL_SEGMENT_BYTES = 200_000
N_NAMED = 5  # of the candidates that a flag is about


def _is_void(values: NDArray[Any]) -> bool:
    """Whether a column holds nothing but gaps."""
    return all(one is None or one != one for one in values.tolist())


def _digests_of(sessions: Iterable[str]) -> NDArray[np.uint64]:
    """Short digests of the ids of sessions, sorted."""
    raw = (hashlib.blake2b(one.encode(), digest_size=8).digest() for one in sessions)
    return np.sort(np.frombuffer(b"".join(raw), dtype=np.uint64))


def _dump(head: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """A line of JSON, and the arrays one after the other as they lie in memory."""
    held = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    shapes = {name: [array.dtype.str, *array.shape] for name, array in held.items()}
    line = json.dumps({**head, "arrays": shapes}).encode()
    return b"\n".join([line, b"".join(array.tobytes() for array in held.values())])


def _load(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    data = path.read_bytes()
    start = data.index(b"\n") + 1
    head, arrays = json.loads(data[:start]), {}
    for name, (kind, *shape) in head.pop("arrays").items():
        count = math.prod(shape)
        array = np.frombuffer(data, np.dtype(kind), count, start)
        arrays[name] = array.reshape(shape)
        start += array.nbytes
    return head, arrays


def _dump_sums(sums: ModelSums) -> bytes:
    arrays = {
        f"{name}.{part}": getattr(cells, part)
        for name, cells in sums.tables.items()
        for part in ("subject", "cluster", "sums")
    }
    head = {"names": sums.names, "units": sums.units, "tables": list(sums.tables)}
    return _dump(head, arrays)


def _load_sums(path: Path) -> ModelSums | None:
    """The sums that are kept in a file; None where there are none that can be read."""
    try:
        head, arrays = _load(path)
        tables = {
            name: Cells(*(arrays[f"{name}.{part}"] for part in ("subject", "cluster", "sums")))
            for name in head["tables"]
        }
    except (OSError, ValueError, KeyError):
        return None
    units = head["units"]
    return ModelSums(tuple(head["names"]), None if units is None else tuple(units), tables)


# -- the board -----------------------------------------------------------------------------------

POINTS_BY_WINNER = {"model_a": 1.0, "model_b": 0.0}  # of model_a; any other winner is a tie


def board_of_table(reviews: ReviewsTable) -> Board:
    """The board of a table; many comparisons under Bradley–Terry need only to be counted.

    So few that each is a cluster of its own are left to the sums, whose rank ranges are exact.
    """
    counts = reviews.win_counts()
    if counts is None or counts.n <= N_CLUSTERS:
        return build_model_board(reviews)
    late = reviews.n_after(datetime.now(UTC).timestamp())
    flags = [f"reviews_in_the_future:{late}"] if late else []
    notes = {"sessions": counts.n, "reviews": 2 * counts.n}
    return _board(reviews, win_counts_columns(counts), notes, flags)


def build_model_board(reviews: Reviews) -> Board:
    """The board of a reviews table; an empty table gives an empty board."""
    options = reviews.options
    flags = [f"scores_not_finite:{reviews.not_finite}"] if reviews.not_finite else []
    if reviews.n_rows == 0:
        return _board(reviews, {name: [] for name in COLUMNS}, {}, flags)
    notes: dict[str, Any] = {}
    plan = plan_of(reviews)
    if options.reputation == "peer":
        plan, notes["reviewer_weights"], more = _weighed(reviews, plan)
        flags += more
    sums = reviews.sums(plan)
    whole = ModelTotals(sums.slice(None))
    two_way = options.interval == "two-way"
    if two_way and (n := n_voters(whole)) < MIN_REVIEWERS:
        raise UsageError(
            f"{n} reviewers are too few to speak for others; two-way needs {MIN_REVIEWERS}.",
            hint="Use --interval sessions.",
        )
    if options.by_category:
        columns = _by_category(reviews, sums, two_way)
    else:
        ranked = _other_rule(reviews, plan, whole)
        columns = board_columns(whole, options.rule, two_way=two_way, ranked=ranked)
    notes |= {"sessions": whole.n_sessions, "reviews": whole.n_rows}
    if options.length_controlled:
        slope = length_controlled(whole)[1]
        notes["length_slope"] = None if slope is None else round(slope, 12)
    if options.matrix:
        notes["matrix"] = head_to_head(whole, list(dict.fromkeys(columns["model"])))
    if options.compare_rules:
        notes["rules"] = _compared(reviews, plan, whole)
    if options.history:
        notes["history"] = _history(reviews, plan)
    counts = {
        "sessions_with_one_candidate": whole.count("lone"),
        "sessions_without_a_weight": whole.count("unweighted"),
        "sessions_of_several_categories": whole.count("mixed"),
        "reviews_in_the_future": reviews.n_after(datetime.now(UTC).timestamp()),
    }
    said = [f"{name}:{n}" for name, n in counts.items() if n]
    said += _apart(columns, whole.n_sessions)
    said += _cut_off(columns, reviews.truncated())
    return _board(reviews, columns, notes, said + flags)


def _apart(columns: Mapping[str, list[Any]], n_sessions: int) -> list[str]:
    """A flag where candidates were not always in the same company; none where they were.

    Where all are compared two by two, that goes without saying.
    """
    appearances: Counter[str] = Counter()
    for model, n in zip(columns["model"], columns["appearances"], strict=True):
        appearances[model] += n
    partly = [f"{name} ({n} of {n_sessions})" for name, n in appearances.items() if n < n_sessions]
    if not partly or appearances.total() <= 2 * n_sessions:
        return []
    more = ", …" if len(partly) > N_NAMED else ""
    return [f"not_in_every_session:{len(partly)}: {', '.join(partly[:N_NAMED])}{more}"]


def _cut_off(columns: Mapping[str, list[Any]], n_truncated: Mapping[str, int]) -> list[str]:
    """A flag for answers that were cut off at their length limit: whose, and how many."""
    appearances: Counter[str] = Counter()
    for model, n in zip(columns["model"], columns["appearances"], strict=True):
        appearances[model] += n
    whose = [
        f"{name} ({n} of {appearances[name]}, {100 * n / appearances[name]:.0f}%)"
        for name, n in sorted(n_truncated.items(), key=lambda one: (-one[1], one[0]))
        if appearances[name]
    ]
    if not whose:
        return []
    more = ", …" if len(whose) > N_NAMED else ""
    total = sum(n_truncated.values())
    return [f"truncated_answers:{total}: {', '.join(whose[:N_NAMED])}{more}"]


def plan_of(reviews: Reviews) -> Plan:
    """What a board's options need added up."""
    options = reviews.options
    return Plan(
        own_votes=options.own_votes,
        n_slices=max(1, len(reviews.categories)),
        by_category=options.by_category,
        earliest=reviews.earliest,
        scores="score" in reviews.columns,
        influence=options.interval == "two-way",
        pairs=options.matrix or options.compare_rules or options.rule == "bradley_terry",
        lengths=options.length_controlled,
    )


def _board(
    reviews: Reviews, columns: dict[str, list[Any]], notes: dict[str, Any], flags: list[str]
) -> Board:
    options = reviews.options
    parameters = {
        "since": options.since,
        "as_of": None if reviews.latest is None else iso(reviews.latest),
        "category": options.category,
        "own_votes": options.own_votes,
        "interval": options.interval,
        "level": 0.95,
        "reputation": options.reputation,
        "item_weights": reviews.has_weights,
        **({"without_truncated": True} if options.without_truncated else {}),
    }
    return Board("models", columns, parameters, tuple(flags), {"rule": options.rule, **notes})


def _weighed(reviews: Reviews, plan: Plan) -> tuple[Plan, dict[str, float], list[str]]:
    """The plan with reviewers weighed by their own scores, the weights, and who has none."""
    sums = reviews.sums(replace(plan, influence=True, pairs=False, lengths=False, scores=False))
    totals = ModelTotals(sums.slice(None))
    reviewer, model, cells = totals.by_reviewer("influence")
    held, place = np.unique(reviewer, return_inverse=True)
    shares, n_votes = np.zeros((2, len(held), len(totals)))
    shares[place, model], n_votes[place, model] = cells["share"], cells["votes"]
    at = {name: i for i, name in enumerate(totals.models)}
    found = peer_weights(shares, n_votes, [at.get(sums.names[code], -1) for code in held.tolist()])
    if found is None:
        raise UsageError(
            "no reviewer is a model on this board, so none has a score to be weighed by.",
            hint="Use --reputation fixed.",
        )
    n_outsiders = len(found.outsiders)
    flags = [f"reviewers_without_a_score:{n_outsiders}"] if n_outsiders else []
    by_name = np.zeros(len(sums.names))
    by_name[held] = found.used
    weights = {
        sums.names[code]: round(weight, 12)
        for code, weight in zip(held.tolist(), found.weight.tolist(), strict=True)
    }
    return replace(plan, weight_by_name=by_name), weights, flags


def _by_category(reviews: Reviews, sums: ModelSums, two_way: bool) -> dict[str, list[Any]]:
    """The rows of every category's own board, one board after the other."""
    columns: dict[str, list[Any]] = {"category": [], **{name: [] for name in COLUMNS}}
    for at, name in enumerate(reviews.categories):
        totals = ModelTotals(sums.slice(at))
        part = board_columns(totals, reviews.options.rule, two_way=two_way)
        columns["category"] += [name] * len(part["model"])
        for column, values in part.items():
            columns.setdefault(column, []).extend(values)
    return columns


def _history(reviews: Reviews, plan: Plan) -> list[dict[str, Any]]:
    """Each week's own shares with their intervals, the oldest week first; weeks begin on Monday."""
    first = reviews.first_s()
    if first is None or reviews.latest is None:
        return []
    week, last = (int((t - MONDAY_S) // WEEK_S) for t in (first, reviews.latest))
    week = max(week, last - MAX_WEEKS + 1)
    weekly = Plan(
        own_votes=plan.own_votes,
        n_slices=last - week + 1,
        periods=(week * WEEK_S + MONDAY_S, WEEK_S),
        earliest=plan.earliest,
        weight_by_name=plan.weight_by_name,
    )
    sums = reviews.sums(weekly)
    points: list[dict[str, Any]] = []
    for at in range(weekly.n_slices):
        part = board_columns(ModelTotals(sums.slice(at)), "borda")
        start = iso((week + at) * WEEK_S + MONDAY_S)[:10]
        points += [
            {"week": start, **dict(zip(POINT, row, strict=True))}
            for row in zip(*(part[name] for name in POINT), strict=True)
        ]
    return points


# -- rules that are no means over sessions ---------------------------------------------------------


def _other_rule(reviews: Reviews, plan: Plan, totals: ModelTotals) -> Estimates | None:
    """The values of a rule that is no mean over sessions; None for one that is."""
    from peerage.rules import rules

    name = reviews.options.rule
    rule = rules.get(name)
    if name in MEANS:
        return None
    if name == "bradley_terry":
        return rating_estimates(totals)
    if reviews.n_rows > MAX_PLACED_ROWS:
        raise UsageError(
            f"{name} reads one ballot after another, and {reviews.n_rows} reviews are too "
            f"many for it ({MAX_PLACED_ROWS} at most).",
            hint="Use borda or bradley_terry, or a shorter window.",
        )
    nothing = np.full(len(totals), np.nan)
    values = _by_ballots(reviews.placings(plan), totals, name)
    return Estimates(values, nothing, nothing, lower_is_better=rule.lower_is_better)


def _by_ballots(placings: list[Placing], totals: ModelTotals, name: str) -> Floats:
    """A registered rule's values over all ballots of the window, in order of time."""
    from peerage.rules import rules

    found = rules.get(name).values(placings, totals.models)
    return np.array([float(found.get(model, np.nan)) for model in totals.models])


def _compared(reviews: Reviews, plan: Plan, totals: ModelTotals) -> list[dict[str, Any]]:
    """Every rule's values and ranks; one that would have to read too many ballots says so."""
    from peerage.rules import rules

    simple = means(totals)
    many = reviews.n_rows > MAX_PLACED_ROWS
    placings = [] if many else reviews.placings(plan)
    found: list[dict[str, Any]] = []
    for name in (*COMPARED, *(other for other in rules.names() if other not in COMPARED)):
        rule = rules.get(name)
        head = {"rule": name, "unit": rule.unit, "lower_is_better": rule.lower_is_better}
        if name in simple:
            values = simple[name]
        elif name == "bradley_terry":
            values = ratings(totals)[0]
        elif many:
            found.append({**head, "note": "too many ballots to read one after another", "rows": []})
            continue
        else:
            try:
                values = _by_ballots(placings, totals, name)
            except PluginError as error:
                found.append({**head, "note": error.message, "rows": []})
                continue
        wins = totals.column("wins")
        order, rank = standing(values, wins, totals.models, rule.lower_is_better)
        rows = [
            {"model": totals.models[i], "value": plain(float(values[i])), "rank": rank[i]}
            for i in order
            if np.isfinite(values[i])
        ]
        found.append({**head, "rows": rows})
    return found
