"""Tables of pairwise comparisons, read as reviews.

Each row of `model_a`, `model_b` and `winner` becomes a session of two candidates with one ballot:
the winner has rank 1 and the loser 2; in a tie both have 1. Paired columns, such as `words_a` and
`words_b`, describe the candidate of that side.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from peerage.boards.pair_sums import (
    LOST,
    NOT_COUNTED,
    TIED,
    WON,
    PairVotes,
    VoteKinds,
    group_votes,
)
from peerage.engines import (
    MILLISECONDS,
    NUMBER_DIGITS,
    ArrowTable,
    Columns,
    Engine,
    Frame,
    Source,
    codes_in,
    floats_in,
    utf8_in,
)
from peerage.engines.duckdb import DuckDB
from peerage.engines.review_tables import (
    REQUIRED,
    ReviewTable,
    cast_columns,
    ends_of,
    is_padded,
    kinds_in,
    latest_of,
    trimmed_names,
    with_usual_names,
)
from peerage.errors import InputError, few
from peerage.reviews.cells import Bools, Ints
from peerage.reviews.checksums import Utf8Texts
from peerage.reviews.columns import Kind, usual_names
from peerage.reviews.flags import BLANKS, merged_flags
from peerage.reviews.rows import N_CLUSTERS, buckets_of_numbers, buckets_of_queries, unit_of
from peerage.types import OwnVotes

SIDES = ("model_a", "model_b")
SIDES_AND_WINNER = (*SIDES, "winner")
WINNERS = (*SIDES, "tie", "tie (bothbad)")
OPTIONAL = ("reviewer", "query_id", "category", "at")
OF_A_SIDE = ("position", "words", "headers", "lists", "bold")  # in two columns, as in `words_a`
JUDGE = "judge"  # the reviewer's name if the table names none
PREFIX = "comparison"
N_SHOWN = 10
CODES, TEXTS, FLOATS = (  # Arrow's names for the types of `encode`
    "dictionary<values=string, indices=int32, ordered=0>",
    "string",
    "double",
)
OUTCOMES = {"model_a": WON, "model_b": LOST}  # any other winner is a tie


@dataclass(frozen=True, slots=True)
class Comparisons:
    """A table of comparisons: its rows, and how often each pair met with each winner."""

    frame: Frame
    counts: Columns
    reviewers: tuple[str, ...] = (JUDGE,)
    flags: tuple[str, ...] = ()  # as in `ReviewTable`
    encoded: EncodedVotes | None = None  # all rows, if they are in memory

    @property
    def n_without_query(self) -> int:
        """The number of comparisons that do not name their query: each is its own cluster."""
        n_named = self.counts["n_query_id"].sum() if "n_query_id" in self.counts else 0
        return int(self.counts["n"].sum() - n_named)


@dataclass(frozen=True, slots=True)
class EncodedVotes:
    """Votes in memory: a table of codes and floats, and the kind of each vote.

    Ids of queries stay texts: nearly all of them may differ, and codes would then save nothing.
    """

    table: ArrowTable
    models: list[str]  # sorted
    kind: Ints  # of each vote: a code of `kinds`
    kinds: CountedKinds
    queries: Utf8Texts
    has_query: Bools


@dataclass(frozen=True, slots=True)
class CountedKinds:
    """The kinds of votes that occur, and how often: who met, the winner, and who judged."""

    code: Ints  # ascending
    first: Ints  # codes of models, −1 for none
    second: Ints
    winner: NDArray[np.object_]  # texts, None for none
    by_itself: Bools  # whether the judge is one of the two models
    n: Ints


def is_comparisons(columns: Collection[str]) -> bool:
    """Return whether these columns are of comparisons rather than of reviews."""
    return set(SIDES) <= set(columns) and "candidate" not in columns


def read_comparisons(engine: Engine, opened: Frame, source: Source = None) -> ReviewTable:
    """Return a checked table of comparisons as reviews; errors show example rows."""
    comparisons = checked_comparisons(engine, opened, source)
    counts = comparisons.counts
    n = int(counts["n"].sum())
    reviews = as_reviews(engine, comparisons.frame)
    optional = [name for name in OPTIONAL if name != "reviewer" and f"n_{name}" in counts]
    there = {*REQUIRED, "rank", *(name for name in optional if counts[f"n_{name}"].any())}
    there |= {name for name in OF_A_SIDE if counts.get(f"n_{name}_a", np.zeros(1)).any()}
    return ReviewTable(
        engine,
        None,
        reviews,
        tuple(kinds_in(there)),
        n_rows=2 * n,
        n_scores=0,
        n_ranks=2 * n,
        not_finite=0,
        latest=latest_of(counts),
        comparisons=comparisons,
        flags=comparisons.flags,
    )


def checked_comparisons(engine: Engine, opened: Frame, source: Source = None) -> Comparisons:
    """Return typed comparisons, counted by pair and winner; raise an error for bad ones.

    A source in memory that already has these types is not passed through the engine.
    """
    frame, flags = _named_alike(engine, opened), list[str]()
    counted = _count_all(engine, frame, _typed_votes(source))
    labels = {
        **counted.labels,
        **{name: counted.counts[name].tolist() for name in SIDES_AND_WINNER},
    }
    with_blanks = [name for name, texts in labels.items() if any(map(_has_blanks, set(texts)))]
    with_blanks += ["query_id"] if _has_padded_queries(engine, frame, counted.encoded) else []
    if with_blanks:
        flags = merged_flags(name for side in SIDES for name in labels[side] if name is not None)
        frame = _winners(trimmed_names(frame, with_blanks))
        counted = _count_all(engine, frame)
    _refuse_comparisons(engine, frame, counted.counts)
    reviewers = tuple(sorted(counted.labels.get("reviewer", [JUDGE])))
    return Comparisons(frame, counted.counts, reviewers, tuple(flags), counted.encoded)


def _has_blanks(name: str | None) -> bool:
    return name is not None and name != name.strip(BLANKS)


def _has_padded_queries(engine: Engine, frame: Frame, votes: EncodedVotes | None) -> bool:
    """Return whether some query ids have blanks around them; there may be one id per row."""
    if "query_id" not in frame.collect_schema().names():
        return False
    if votes is not None:
        return any(_has_blanks(one.decode()) for one in _suspects(votes.queries))
    n_padded = is_padded("query_id").cast(nw.Int64).sum().alias("n")
    return bool(np.nansum(engine.arrays(frame.select(n_padded))["n"]) > 0)


def _suspects(texts: Utf8Texts) -> Utf8Texts:
    """Return the texts whose first or last byte could belong to a blank."""
    blanks = [blank.encode() for blank in BLANKS]
    some = texts if texts.n_bytes.all() else texts.take(np.flatnonzero(texts.n_bytes))
    is_first, is_last = np.zeros(256, dtype=bool), np.zeros(256, dtype=bool)
    is_first[[blank[0] for blank in blanks]] = True
    is_last[[blank[-1] for blank in blanks]] = True
    first, last = some.data[some.begin], some.data[some.begin + some.n_bytes - 1]
    return some.take(np.flatnonzero(is_first[first] | is_last[last]))


@dataclass(frozen=True, slots=True)
class _Counted:
    """Comparisons counted by pair and winner, the names in other columns, and all rows as codes."""

    counts: Columns
    labels: Mapping[str, list[str]]
    encoded: EncodedVotes | None = None


def _typed_votes(source: Source) -> ArrowTable | None:
    """Return a table in memory as it is, if its names, types and winners need no change.

    Its types must be those of `encode`: texts are codes, except query ids, and the rest are floats.
    """
    if type(source).__module__.split(".")[0] != "pyarrow" or not hasattr(source, "column_names"):
        return None
    names = set(source.column_names)
    if usual_names(names) or (JUDGE in names and "reviewer" not in names):
        return None
    texts = [name for name in (*SIDES_AND_WINNER, *OPTIONAL) if name in names and name != "at"]
    sided = [(f"{name}_a", f"{name}_b") for name in OF_A_SIDE]
    numbers = [name for both in sided if names.issuperset(both) for name in both]
    numbers += ["at"] if "at" in names else []
    kinds = dict.fromkeys(texts, CODES) | dict.fromkeys(numbers, FLOATS)
    kinds |= {"query_id": TEXTS} if "query_id" in names else {}
    if any(str(source.schema.field(name).type) != kind for name, kind in kinds.items()):
        return None
    if not set(codes_in(source, "winner")[1].tolist()) <= set(WINNERS):
        return None
    if "at" in names:
        at = floats_in(source, "at")
        n_nan = np.count_nonzero(np.isnan(at)) - source.column("at").null_count
        if n_nan or np.any(np.abs(at) >= MILLISECONDS):
            return None
    return source.select(list(kinds))


def _count_all(engine: Engine, frame: Frame, typed: ArrowTable | None = None) -> _Counted:
    """Count comparisons: in memory if the engine loads them, else by the engine."""
    names = frame.collect_schema().names()
    texts: list[str] = [name for name in ("reviewer", "category") if name in names]
    if isinstance(engine, DuckDB):
        sided: Columns = {}
        if typed is None:
            shared = [name for name in (*SIDES_AND_WINNER, *OPTIONAL) if name in names]
            typed = engine.load(frame.select(*shared), as_texts=("query_id",))
            others = [
                nw.col(name).count().alias(f"n_{name}") for name in names if name not in shared
            ]
            sided = engine.arrays(frame.select(*others)) if others else {}
        encoded = _encoded_votes(typed)
        labels = {name: codes_in(typed, name)[1].tolist() for name in texts}
        return _Counted({**_count_encoded(encoded), **sided}, labels, encoded)
    counted = [name for name in names if name not in SIDES_AND_WINNER]
    more = [nw.col(name).count().alias(f"n_{name}") for name in counted]
    more += [end.alias(name) for name, end in ends_of(names).items()]
    distinct = {name: engine.arrays(frame.select(name).unique())[name].tolist() for name in texts}
    labels = {name: [one for one in some if one is not None] for name, some in distinct.items()}
    return _Counted(count_comparisons(engine, frame, *more), labels)


def count_comparisons(engine: Engine, frame: Frame, *more: Any) -> Columns:
    """Return how often each pair of models met, by winner and by whether one of them judged."""
    by_itself: Any = nw.lit(False)
    if "reviewer" in frame.collect_schema().names():
        reviewer = nw.col("reviewer")
        by_itself = (reviewer == nw.col("model_a")) | (reviewer == nw.col("model_b"))
    grouped = frame.with_columns(by_itself=by_itself).group_by(*SIDES_AND_WINNER, "by_itself")
    return engine.arrays(grouped.agg(nw.len().alias("n"), *more))


def _encoded_votes(table: ArrowTable) -> EncodedVotes:
    """Return a table of codes and floats with the kind of each vote."""
    models = sorted({name for side in SIDES for name in codes_in(table, side)[1].tolist()})
    kind, kinds = _count_kinds(table, models)
    return EncodedVotes(table, models, kind, kinds, *_queries(table))


def _count_kinds(table: ArrowTable, models: list[str]) -> tuple[Ints, CountedKinds]:
    """Return the kind of each vote, and how often each kind occurs."""
    coded = [codes_in(table, name) for name in SIDES_AND_WINNER]
    kind = np.zeros(table.num_rows, dtype=np.int64)
    for codes, texts in coded:  # changed in place: each copy of many votes takes a while
        kind *= len(texts) + 1
        kind += codes
        kind += 1  # a missing model or winner has the code −1
    kind *= 2
    if "reviewer" in table.column_names:
        kind += _by_itself(table, models)
    n = np.bincount(kind)
    cells = np.flatnonzero(n)
    rest, by_itself = np.divmod(cells, 2)
    names = []
    for _, texts in reversed(coded):
        rest, code = np.divmod(rest, len(texts) + 1)
        names.append(np.append([None], texts)[code])
    winner, second, first = names
    place = {name: code for code, name in enumerate(models)}
    a, b = (
        np.array([place.get(name, -1) for name in side.tolist()], dtype=np.int64)
        for side in (first, second)
    )
    return kind, CountedKinds(cells, a, b, winner, by_itself > 0, n[cells])


def _by_itself(table: ArrowTable, models: list[str]) -> Bools:
    """Return which votes are by one of their two models."""
    if not set(codes_in(table, "reviewer")[1].tolist()) & set(models):
        return np.zeros(table.num_rows, dtype=bool)
    first, second, judge = (codes_in(table, name, models)[0] for name in (*SIDES, "reviewer"))
    by_itself: Bools = (judge >= 0) & ((judge == first) | (judge == second))
    return by_itself


def _count_encoded(votes: EncodedVotes) -> Columns:
    """Return the counts of `count_comparisons` for votes in memory, and totals of other columns."""
    table, kinds = votes.table, votes.kinds
    models = np.array([*votes.models, None], dtype=object)
    totals = {
        f"n_{name}": np.array([table.num_rows - table.column(name).null_count])
        for name in table.column_names
        if name not in SIDES_AND_WINNER
    }
    if "at" in table.column_names and table.num_rows:
        at = floats_in(table, "at")
        totals |= {"earliest": np.fmin.reduce(at, keepdims=True)}
        totals |= {"latest": np.fmax.reduce(at, keepdims=True)}
    columns = (models[kinds.first], models[kinds.second], kinds.winner, kinds.by_itself, kinds.n)
    return dict(zip((*SIDES_AND_WINNER, "by_itself", "n"), columns, strict=True)) | totals


def as_reviews(engine: Engine, frame: Frame, prefix: str = PREFIX) -> Frame:
    """Return two rows of reviews for each comparison, in a session named by the row."""
    names = [name for name in frame.collect_schema().names() if name not in SIDES_AND_WINNER]
    sided = [name for name in OF_A_SIDE if f"{name}_a" in names]
    names = [name for name in names if name[:-2] not in sided]
    numbered = engine.number(frame, "session_id").with_columns(
        nw.concat_str(nw.lit(prefix), nw.col("session_id"), separator=" ").alias("session_id")
    )
    reviewer = nw.col("reviewer") if "reviewer" in names else nw.lit(JUDGE).alias("reviewer")
    others = [name for name in names if name != "reviewer"]
    sides: list[Any] = [
        numbered.select(
            "session_id",
            reviewer,
            nw.col(side).alias("candidate"),
            nw.when(nw.col("winner") == rival)
            .then(nw.lit(2.0))
            .otherwise(nw.lit(1.0))
            .alias("rank"),
            *(nw.col(f"{name}{side[-2:]}").alias(name) for name in sided),
            *others,
        )
        for side, rival in (SIDES, SIDES[::-1])
    ]
    both: Frame = nw.concat(sides)
    return both


def _named_alike(engine: Engine, opened: Frame) -> Frame:
    """Return the known columns, typed; `judge` becomes the reviewer."""
    opened = with_usual_names(opened)
    names = opened.collect_schema().names()
    missing = [name for name in SIDES_AND_WINNER if name not in names]
    if missing:
        raise InputError(f"comparisons need the column {', '.join(missing)}.")
    if JUDGE in names and "reviewer" not in names:
        opened = opened.rename({JUDGE: "reviewer"})
        names = ["reviewer" if name == JUDGE else name for name in names]
    known = [name for name in (*SIDES_AND_WINNER, *OPTIONAL) if name in names]
    kinds: dict[str, Kind] = {name: "time" if name == "at" else "text" for name in known}
    for name in OF_A_SIDE:
        both = [f"{name}_a", f"{name}_b"]
        kinds |= dict.fromkeys(both if set(both) <= set(names) else (), "number")
    return _winners(cast_columns(engine, opened, kinds))


def _winners(frame: Frame) -> Frame:
    """Return the comparisons with winners given as sides, even if the table names models."""
    winner = nw.col("winner")
    for side in SIDES:
        named = (nw.col("winner") == nw.col(side)) & ~nw.col("winner").is_in(WINNERS)
        winner = nw.when(named).then(nw.lit(side)).otherwise(winner)
    return frame.with_columns(winner.alias("winner"))


def _refuse_comparisons(engine: Engine, frame: Frame, counts: Columns) -> None:
    """Raise an error for incomplete comparisons and unknown winners, with their rows."""
    a, b, winner = (nw.col(name) for name in SIDES_AND_WINNER)
    kinds = list(zip(*(counts[name].tolist() for name in SIDES_AND_WINNER), strict=True))
    if any(not one or not other for one, other, _ in kinds):
        raise InputError(
            "some comparisons lack a model: `model_a` or `model_b` is empty.",
            hint=_first_rows(engine, frame, a.is_null() | b.is_null() | (a == "") | (b == "")),
        )
    if "n_reviewer" in counts and counts["n_reviewer"].sum() < counts["n"].sum():
        no_one = nw.col("reviewer").is_null()
        hint = _first_rows(engine, frame, no_one)
        raise InputError("some comparisons have no `reviewer`.", hint=hint)
    if own := sorted({one for one, other, _ in kinds if one == other}):
        raise InputError(
            f"some models are compared with themselves: {few([name[:80] for name in own])}.",
            hint=_first_rows(engine, frame, a == b),
        )
    if odd := sorted({str(word) for _, _, word in kinds if word not in WINNERS}):
        rows = _first_rows(engine, frame, ~winner.is_in(WINNERS) | winner.is_null())
        known = ", ".join(map(repr, WINNERS))
        raise InputError(
            f"`winner` cannot be {few([name[:80] for name in odd])}.",
            hint=f"{rows} Known: {known}, or the name of one of the two models.",
        )


def _first_rows(engine: Engine, frame: Frame, wrong: Any) -> str:
    """Return the first comparisons that match a condition, each with the number of its row."""
    marked = engine.number(frame, "row").with_columns(wrong=wrong).filter(nw.col("wrong"))
    rows = marked.select("row", *SIDES_AND_WINNER).head(N_SHOWN)
    columns = (values.tolist() for values in engine.arrays(rows).values())
    lines = (
        f"row {int(row)}: {str(a)[:80]} and {str(b)[:80]}, winner {str(word)[:80]}"
        for row, a, b, word in zip(*columns, strict=True)
    )
    return f"{'; '.join(lines)}."


# -- votes ----------------------------------------------------------------------------------------


def count_after(comparisons: Comparisons, time: float) -> int:
    """Return how many comparisons in memory are after a time."""
    votes = comparisons.encoded
    return 0 if votes is None else int(np.count_nonzero(floats_in(votes.table, "at") > time))


def pair_votes_of(
    comparisons: Comparisons,
    own_votes: OwnVotes,
    window: tuple[float | None, float | None],
    category: str | None,
) -> PairVotes | None:
    """Return the comparisons of a window as votes; None if they are not in memory.

    Clusters are the same as those of the reviews up to the end of the window.
    """
    votes, (start, end) = comparisons.encoded, window
    if votes is None:
        return None
    keep: Bools | None = None
    if category is not None:
        labelled, labels = codes_in(votes.table, "category")
        keep = np.append(labels == category, False)[labelled]
    if end is not None:
        keep = _both(keep, ~(floats_in(votes.table, "at") > end))
    inside = keep if start is None else _both(keep, ~(floats_in(votes.table, "at") < start))
    units, cluster = _clusters(votes, keep)
    kind, kinds = votes.kind, votes.kinds
    if inside is not None:
        cluster = cluster[inside if keep is None else inside[keep]]
        kind = kind[inside]
    words = kinds.winner.tolist()
    outcome = np.array([OUTCOMES.get(word, TIED) for word in words], dtype=np.int64)
    if own_votes == "out":
        outcome[kinds.by_itself] = NOT_COUNTED
    as_counted = VoteKinds(kinds.code, kinds.first, kinds.second, outcome)
    return group_votes(tuple(votes.models), units, cluster, kind, as_counted)


def _both(some: Bools | None, others: Bools) -> Bools:
    """Return which votes are in both selections; None selects all."""
    return others if some is None else some & others


def _clusters(votes: EncodedVotes, chosen: Bools | None) -> tuple[tuple[str, ...] | None, Ints]:
    """Return the units of the chosen votes (None if too many), and the cluster of each vote.

    Units and clusters are those of the reviews that `as_reviews` makes.
    """
    queries, has_query = votes.queries, votes.has_query
    rows = None if chosen is None else np.flatnonzero(chosen)
    n = queries.n if rows is None else len(rows)
    place, codes = dict[str, int](), []
    for start in range(0, n, N_CLUSTERS):
        some = np.arange(start, min(start + N_CLUSTERS, n))
        some = some if rows is None else rows[some]
        named = zip(some.tolist(), has_query[some].tolist(), queries.take(some), strict=True)
        for row, has_one, query in named:
            session = f"{PREFIX} {row + 1:0{NUMBER_DIGITS}}"
            unit = unit_of(session, query.decode() if has_one else None)
            codes.append(place.setdefault(unit, len(place)))
        if len(place) > N_CLUSTERS:
            buckets = _buckets(queries, has_query)
            return None, buckets if chosen is None else buckets[chosen]
    units = sorted(place)
    rank = np.zeros(len(units), dtype=np.int64)
    rank[[place[unit] for unit in units]] = np.arange(len(units))
    return tuple(units), rank[np.array(codes, dtype=np.int64)]


def _queries(votes: ArrowTable) -> tuple[Utf8Texts, Bools]:
    """Return the query of each vote, and whether it has one."""
    if "query_id" in votes.column_names:
        return utf8_in(votes, "query_id")
    nothing = np.zeros(votes.num_rows, dtype=np.int64)
    return Utf8Texts(np.zeros(0, dtype=np.uint8), nothing, nothing), nothing > 0


def _buckets(queries: Utf8Texts, has_query: Bools) -> Ints:
    """Return the bucket of each vote: by its query or, without one, by its row number."""
    if has_query.all():
        return buckets_of_queries(queries)
    cluster = buckets_of_numbers(f"{PREFIX} ", queries.n, NUMBER_DIGITS)
    rows = np.flatnonzero(has_query)
    cluster[rows] = buckets_of_queries(queries.take(rows))
    return cluster
