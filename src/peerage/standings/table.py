"""A reviews table within its window: who is in it, and its sums."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from peerage.boards.model_sums import (
    R_SHARE,
    R_VOTES,
    Plan,
    Sums,
    add,
    one_slice,
)
from peerage.boards.peers import peer_weights
from peerage.boards.session_means import sums_of
from peerage.engines import Engine, Reading, Source
from peerage.errors import InputError, UsageError
from peerage.reports import span_s
from peerage.standings.terms import Terms, instant, iso

if TYPE_CHECKING:
    from peerage.engines.reviews import Reviews
    from peerage.reviews.rows import Rows

Frame = Any  # a narwhals LazyFrame of the engine's making

CHUNK_ROWS = 131_072  # what a processor's cache holds
FEW_ROWS = 200_000  # up to here sessions are kept apart; beyond, sums of their products say enough
MANY_MODELS = 256  # above, products of all pairs cost more than sums by cluster


class Table:
    """Reviews on an engine, under the terms of a board; nothing is read twice without need."""

    frame: Frame
    latest: float | None
    categories: tuple[str, ...]
    flags: tuple[str, ...]

    def __init__(
        self, engine: Engine, source: Source, asked: Terms, item_weights: Source | None = None
    ) -> None:
        from peerage.engines.reviews import read_reviews, since
        from peerage.rules import rules

        rules.get(asked.rule)
        self._begin(engine, read_reviews(engine, source), asked)
        self.frame = since(self.reviews, None, None if asked.as_of is None else self.latest)
        if asked.category is not None:
            self.frame = _only(self.frame, asked.category)
        if asked.by_category:
            self.categories = self._coded_categories()
        if item_weights is not None:
            self.has_weights = True
            self._join_weights(item_weights)
        self.models = self._names("candidate")
        self.reviewers = self._names("reviewer")
        self.names = tuple(sorted({*self.models, *self.reviewers}))

    def _begin(self, engine: Engine, reviews: Reviews, asked: Terms) -> None:
        """What follows from the terms and a first look at the reviews."""
        self.engine, self.asked, self.reviews = engine, asked, reviews
        self.columns = reviews.columns
        self.categories = ()
        self.has_weights = False
        self._check_columns()
        self.latest = reviews.latest if asked.as_of is None else instant(asked.as_of)
        span = span_s(asked.since)
        timed = span is not None and self.latest is not None and "at" in self.columns
        self.earliest = (self.latest or 0.0) - (span or 0.0) if timed else None
        self.flags = ()
        if reviews.not_finite:
            self.flags += (f"scores_not_finite:{reviews.not_finite}",)

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
        return tuple(sorted(str(name) for name in self._held(column)))

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

    # -- sums ----------------------------------------------------------------------------------

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
            earliest=self.earliest,
            clustered=self.reviews.n_rows <= FEW_ROWS or len(self.models) > MANY_MODELS,
            scores="score" in self.columns,
            pulls=asked.interval == "two-way",
            places=asked.rule == "mean_rank" or asked.compare_rules,
            pairs=asked.matrix or asked.compare_rules or asked.rule == "bradley_terry",
            lengths=asked.length_controlled,
        )

    def reading(self, plan: Plan) -> Reading:
        wanted = ["rank", "score", "round"]
        wanted += ["at"] if plan.earliest is not None or plan.periods is not None else []
        wanted += ["words"] if plan.lengths else []
        numbers = [name for name in wanted if name in self.columns]
        numbers += ["category"] if plan.by_category else []
        numbers += ["item_weight"] if self.has_weights else []
        return Reading(names=self.names, numbers=tuple(numbers), clusters=plan.clustered)

    def sums(self, plan: Plan) -> Sums:
        """The table's sums."""
        from peerage.engines.reviews import refuse_duplicates

        total = add(self.engine.fold(self.frame, self.reading(plan), kernel(plan)))
        if total.n_twice:
            refuse_duplicates(self.engine, self.frame, self.columns)
        return total

    def weighed(self, plan: Plan) -> tuple[Plan, dict[str, float]]:
        """The plan with reviewers weighed by their own scores, and the weights that follow."""
        plain = replace(plan, pulls=True, pairs=False, lengths=False, scores=False)
        cells = one_slice(self.sums(plain), None).pulls
        assert cells is not None  # noqa: S101 — asked for just above
        place = {name: i for i, name in enumerate(self.names)}
        at = np.array([place[name] for name in self.reviewers], dtype=np.int64)
        n_models = len(self.models)
        tables = np.zeros((2, len(self.names), n_models))
        columns = cells.sums[:, [R_SHARE, R_VOTES]].T
        tables[:, cells.key // n_models, cells.key % n_models] = columns
        shares, votes = tables[:, at]
        found = peer_weights(shares, votes, plan.model_by_name[at].tolist())
        if found is None:
            raise UsageError(
                "no reviewer is a model on this board, so none has a score to be weighed by.",
                hint="Use --reputation fixed.",
            )
        if found.outsiders:
            self.flags += (f"reviewers_without_a_score:{len(found.outsiders)}",)
        by_name = np.zeros(len(self.names))
        by_name[at] = found.used
        weights = {
            name: round(weight, 12)
            for name, weight in zip(self.reviewers, found.weight.tolist(), strict=True)
        }
        return replace(plan, weight_by_name=by_name), weights

    # -- what is said of it --------------------------------------------------------------------

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
            "item_weights": self.has_weights,
        }

    def n_after(self, instant_s: float) -> int:
        """The reviews that carry a later time."""
        import narwhals.stable.v2 as nw

        if self.reviews.latest is None or self.reviews.latest <= instant_s:
            return 0
        late = self.reviews.frame.filter(nw.col("at") > instant_s).select(nw.len().alias("n"))
        return int(self.engine.arrays(late)["n"][0])

    def first_s(self) -> float | None:
        """When the window begins, or the first review in it."""
        import narwhals.stable.v2 as nw

        if self.earliest is not None:
            return self.earliest
        found = self.engine.arrays(self.frame.select(nw.col("at").min()))["at"][0]
        return None if found is None or not np.isfinite(float(found)) else float(found)


def kernel(plan: Plan) -> Callable[[Rows], Sums]:
    """What an engine runs on each block of whole sessions."""

    def summed(rows: Rows) -> Sums:
        from peerage.reviews.rows import chunks

        return add([sums_of(part, plan) for part in chunks(rows, CHUNK_ROWS)])

    return summed


def _only(frame: Frame, category: str) -> Frame:
    import narwhals.stable.v2 as nw

    return frame.filter(nw.col("category") == category)
