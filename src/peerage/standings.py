"""The board of models: a reviews table and an engine in, a board out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from peerage.boards import Board
from peerage.boards.model_sums import MONDAY_S, WEEK_S, Plan, Sums, add, one_slice, sums_of
from peerage.boards.models import COLUMNS, MIN_REVIEWERS, length_controlled, rows_of
from peerage.engines import Engine, Reading, Source, engines
from peerage.errors import InputError, UsageError
from peerage.reports import span_s
from peerage.types import OwnVotes

if TYPE_CHECKING:
    from peerage.audit.rows import Rows
    from peerage.boards.models import Valued
    from peerage.engines.reviews import Reviews

    Frame = Any

CHUNK_ROWS = 131_072
FEW_ROWS = 200_000  # up to here sessions are kept apart from the start
MANY_SESSIONS = 200  # of every model: then sums of products say all there is to their spread
MANY_MODELS = 256  # above, products of all pairs cost more than sums by cluster
MEANS = ("borda", "mean_rank", "hybrid")
CHOICES: Mapping[str, tuple[str, ...]] = {
    "own_votes": ("out", "in", "seed"),
    "interval": ("sessions", "two-way"),
    "reputation": ("fixed", "peer"),
    "history": ("", "week"),
}


@dataclass(frozen=True, slots=True)
class Terms:
    """What a board of models is asked for; every field is echoed in its parameters."""

    rule: str = "borda"
    own_votes: OwnVotes = "out"
    since: str = "30d"
    as_of: str | float | None = None
    category: str | None = None
    by_category: bool = False
    interval: str = "sessions"
    reputation: str = "fixed"
    matrix: bool = False
    compare_rules: bool = False
    length_controlled: bool = False
    history: str = ""

    def __post_init__(self) -> None:
        for name, known in CHOICES.items():
            if getattr(self, name) not in known:
                raise UsageError(
                    f"{name.replace('_', ' ')} cannot be {getattr(self, name)!r}.",
                    hint=f"Known: {', '.join(one for one in known if one)}.",
                )
        if self.by_category and self.history:
            raise UsageError("a history by category is not made.", hint="Name one category.")


def board_models(
    reviews: Source,
    terms: Terms | None = None,
    *,
    engine: str | Engine = "duckdb",
    item_weights: Source | None = None,
    **changes: Any,
) -> Board:
    """The models, the best first, from any `reviews` table.

    The terms may also be given by name: `board_models(reviews, own_votes="in")`. Weights of
    items are a table of `item_id` and `weight`; they are matched to `query_id`, or to
    `session_id` where there is none, and a session without one is left out and counted.
    """
    asked = replace(terms or Terms(), **changes)
    runner = engines.get(engine)() if isinstance(engine, str) else engine
    look = _Look(runner, reviews, asked, item_weights)
    if not look.models:
        return _board(asked, look, {name: [] for name in COLUMNS}, {}, {})
    names: dict[str, Any] = {}
    plan = look.plan()
    if asked.reputation == "peer":
        plan, names["reviewer_weights"] = look.weighed(plan)
    sums = look.sums(plan)
    if asked.interval == "two-way":
        _refuse_small_panel(sums, len(look.models))
    return _concluded(look, plan, sums, names)


def _concluded(look: _Look, plan: Plan, sums: Sums, notes: dict[str, Any]) -> Board:
    asked = look.asked
    whole = one_slice(sums, None)
    two_way = asked.interval == "two-way"
    valued = _valued(look, whole)
    if asked.by_category:
        columns = _by_category(look, sums, two_way)
    else:
        columns = rows_of(whole, look.models, asked.rule, two_way=two_way, valued=valued)
    notes |= {"sessions": int(whole.n_sessions[0]), "reviews": whole.n_rows}
    if asked.length_controlled:
        slope = length_controlled(whole)[1]
        notes["length_slope"] = None if slope is None else round(slope, 12)
    if asked.matrix or asked.compare_rules:
        notes |= _compared(look, whole)
    if asked.history:
        notes["history"] = _history(look, plan)
    return _board(asked, look, columns, notes, _flags(look, whole))


def _board(
    asked: Terms,
    look: _Look,
    columns: Mapping[str, Sequence[Any]],
    notes: Mapping[str, Any],
    flags: Mapping[str, int],
) -> Board:
    return Board(
        "models",
        columns,
        look.parameters(),
        tuple(f"{name}:{n}" for name, n in flags.items() if n) + look.flags,
        {"rule": asked.rule, **notes},
    )


# -- what the table holds ----------------------------------------------------------------------


class _Look:
    """A table within its window: who is in it, and how to add it up."""

    def __init__(
        self, engine: Engine, source: Source, asked: Terms, item_weights: Source | None
    ) -> None:
        from peerage.engines.reviews import read_reviews, since
        from peerage.rules import rules

        rules.get(asked.rule)
        self.engine, self.asked = engine, asked
        self.table: Reviews = read_reviews(engine, source)
        self.latest = self.table.latest if asked.as_of is None else instant(asked.as_of)
        span = span_s(asked.since)
        self.earliest = None if span is None or self.latest is None else self.latest - span
        upper = None if asked.as_of is None else self.latest
        self.frame: Frame = since(self.table, None, upper)
        self.columns = self.table.columns
        self.flags: tuple[str, ...] = ()
        self.has_weights = False
        self._check_columns()
        if asked.category is not None:
            self.frame = _only(self.frame, asked.category)
        self.categories: tuple[str, ...] = ()
        if asked.by_category:
            self._code_categories()
        if item_weights is not None:
            self._join_weights(item_weights)
        self.models = self._names("candidate")
        self.reviewers = self._names("reviewer")
        self.names = tuple(sorted({*self.models, *self.reviewers}))
        if self.table.not_finite:
            self.flags += (f"scores_not_finite:{self.table.not_finite}",)

    def _check_columns(self) -> None:
        asked = self.asked
        if (asked.by_category or asked.category is not None) and "category" not in self.columns:
            raise InputError("the reviews have no `category`.")
        if asked.length_controlled and "words" not in self.columns:
            raise InputError("a length-controlled view needs the column `words`.")
        if asked.history and "at" not in self.columns:
            raise InputError("a history needs the column `at`.")
        if "rank" not in self.columns and "score" not in self.columns:
            raise InputError("the table has marks but neither a rank nor a score.")

    def _names(self, column: str) -> tuple[str, ...]:
        found = self.engine.arrays(self.frame.select(column).unique())
        return tuple(sorted(str(name) for name in found[column]))

    def _code_categories(self) -> None:
        """Categories as numbers, in the order of their names; none is the empty one."""
        import narwhals as nw

        found = self.engine.arrays(self.frame.select("category").unique())["category"]
        self.categories = tuple(sorted({"" if name is None else str(name) for name in found}))
        code: Any = nw.lit(0.0)
        for place, name in enumerate(self.categories):
            here = nw.col("category") == name
            here = here | nw.col("category").is_null() if name == "" else here
            code = nw.when(here).then(nw.lit(float(place))).otherwise(code)
        self.frame = self.frame.with_columns(code.alias("category"))

    def _join_weights(self, source: Source) -> None:
        import narwhals as nw

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
        self.has_weights = True

    def reading(self, plan: Plan) -> Reading:
        wanted = ["rank", "score", "round"]
        wanted += ["at"] if plan.earliest is not None or plan.first_week is not None else []
        wanted += ["words"] if plan.lengths else []
        numbers = [name for name in wanted if name in self.columns]
        numbers += ["category"] if plan.by_category else []
        numbers += ["item_weight"] if self.has_weights else []
        return Reading(names=self.names, numbers=tuple(numbers))

    def plan(self) -> Plan:
        asked = self.asked
        place = {name: i for i, name in enumerate(self.models)}
        return Plan(
            n_models=len(self.models),
            model_by_name=np.array([place.get(name, -1) for name in self.names], dtype=np.int64),
            own_votes=asked.own_votes,
            rule=asked.rule,
            n_slices=max(1, len(self.categories)),
            by_category=asked.by_category,
            earliest=self.earliest if "at" in self.columns else None,
            clustered=self.table.n_rows <= FEW_ROWS or len(self.models) > MANY_MODELS,
            by_reviewer="score" in self.columns or asked.interval == "two-way",
            pairs=asked.matrix or asked.compare_rules or asked.rule == "bradley_terry",
            lengths=asked.length_controlled,
        )

    def sums(self, plan: Plan) -> Sums:
        """The table's sums; sessions are kept apart where some model has few of them."""
        from peerage.engines.reviews import refuse_duplicates

        total = add(self.engine.fold(self.frame, self.reading(plan), _kernel(plan)))
        if total.n_twice:
            refuse_duplicates(self.engine, self.frame, self.columns)
        if not plan.clustered and _few_sessions(total):
            return self.sums(replace(plan, clustered=True))
        return total

    def weighed(self, plan: Plan) -> tuple[Plan, dict[str, float]]:
        """The plan with reviewers weighed by their own scores, and those weights."""
        from peerage.boards.model_sums import R_SHARE, R_VOTES
        from peerage.boards.peers import peer_weights

        plain = replace(plan, by_reviewer=True, pairs=False, lengths=False)
        cells = one_slice(self.sums(plain), None).by_reviewer
        assert cells is not None  # noqa: S101 — asked for just above
        place = {name: i for i, name in enumerate(self.names)}
        at = np.array([place[name] for name in self.reviewers], dtype=np.int64)
        n_names, n_models = len(self.names), len(self.models)
        tables = np.zeros((2, n_names, n_models))
        tables[:, cells.key // n_models, cells.key % n_models] = cells.sums[:, [R_SHARE, R_VOTES]].T
        shares, votes = tables[:, at]
        found = peer_weights(shares, votes, plan.model_by_name[at].tolist())
        if found is None:
            raise UsageError(
                "no reviewer is a model on this board, so none has a score to be weighed by.",
                hint="Use --reputation fixed.",
            )
        if found.outsiders:
            self.flags += (f"reviewers_without_a_score:{len(found.outsiders)}",)
        by_name = np.zeros(n_names)
        by_name[at] = found.weight
        weights = {
            name: round(float(weight), 12)
            for name, weight in zip(self.reviewers, found.weight.tolist(), strict=True)
        }
        return replace(plan, weight_by_name=by_name), weights

    def parameters(self) -> dict[str, Any]:
        asked = self.asked
        return {
            "since": asked.since,
            "as_of": None if self.latest is None else iso(self.latest),
            "category": asked.category,
            "own_votes": asked.own_votes,
            "interval": asked.interval,
            "level": 0.95,
            "reputation": asked.reputation,
        }


def _kernel(plan: Plan) -> Callable[[Rows], Sums]:
    def kernel(rows: Rows) -> Sums:
        from peerage.audit.rows import chunks

        return add([sums_of(part, plan) for part in chunks(rows, CHUNK_ROWS)])

    return kernel


def _few_sessions(sums: Sums) -> bool:
    from peerage.boards.model_sums import SESSIONS

    n = sums.by_model[:, :, SESSIONS]
    return bool(((n > 0) & (n < MANY_SESSIONS)).any())


def _only(frame: Frame, category: str) -> Frame:
    import narwhals as nw

    return frame.filter(nw.col("category") == category)


def _refuse_small_panel(sums: Sums, n_models: int) -> None:
    cells = one_slice(sums, None).by_reviewer
    n = 0 if cells is None else len(np.unique(cells.key[cells.sums[:, 0] > 0.0] // n_models))
    if n < MIN_REVIEWERS:
        raise UsageError(
            f"{n} reviewers are too few to speak for others; two-way needs {MIN_REVIEWERS}.",
            hint="Use --interval sessions.",
        )


def _flags(look: _Look, sums: Sums) -> dict[str, int]:
    return {
        "sessions_with_one_candidate": sums.odd_sessions,
        "sessions_without_a_weight": sums.n_unweighted,
        "sessions_of_several_categories": sums.mixed,
        "reviews_in_the_future": _n_future(look),
    }


def _n_future(look: _Look) -> int:
    import narwhals as nw

    now = datetime.now(UTC).timestamp()
    if look.table.latest is None or look.table.latest <= now:
        return 0
    late = look.table.frame.filter(nw.col("at") > now).select(nw.len().alias("n"))
    return int(look.engine.arrays(late)["n"][0])


# -- times -------------------------------------------------------------------------------------


def instant(value: str | float) -> float:
    """Seconds since 1970 of a time given as such, or in ISO 8601 (UTC where it names no zone)."""
    if isinstance(value, (int, float)):
        return float(value)
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        raise UsageError(f"{value!r} is no time.", hint="Try 2026-03-01T12:00:00Z.") from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def iso(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return f"{seconds:.0f}"


# -- slices ------------------------------------------------------------------------------------


def _by_category(look: _Look, sums: Sums, two_way: bool) -> dict[str, list[Any]]:
    """The rows of every category's own board, one board after the other."""
    columns: dict[str, list[Any]] = {"category": []}
    for at, name in enumerate(look.categories):
        rule = look.asked.rule if look.asked.rule in MEANS else "borda"
        part = rows_of(one_slice(sums, at), look.models, rule, two_way=two_way)
        columns["category"] += [name] * len(part["model"])
        for column, values in part.items():
            columns.setdefault(column, []).extend(values)
    return columns


def _history(look: _Look, plan: Plan) -> list[dict[str, Any]]:
    """Each week's board by itself: shares with their intervals, oldest week first."""
    assert look.latest is not None  # noqa: S101 — a history needs times
    import narwhals as nw

    first = look.earliest
    if first is None:
        first = float(look.engine.arrays(look.frame.select(nw.col("at").min()))["at"][0])
    week, last = (int((t - MONDAY_S) // WEEK_S) for t in (first, look.latest))
    weekly = replace(
        plan, n_slices=last - week + 1, first_week=week, by_category=False, pairs=False
    )
    sums = look.sums(replace(weekly, lengths=False, by_reviewer=False))
    points: list[dict[str, Any]] = []
    for at in range(weekly.n_slices):
        part = rows_of(one_slice(sums, at), look.models, "borda")
        start = iso((week + at) * WEEK_S + MONDAY_S)[:10]
        for row in zip(*(part[name] for name in POINT), strict=True):
            points.append({"week": start, **dict(zip(POINT, row, strict=True))})
    return points


POINT = ("model", "share", "share_low", "share_high", "appearances")


# -- other rules -------------------------------------------------------------------------------


def _valued(look: _Look, sums: Sums) -> Valued | None:
    return None


def _compared(look: _Look, sums: Sums) -> dict[str, Any]:
    return {}
