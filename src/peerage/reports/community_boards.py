"""The boards of a community, and other coefficients to try for them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import asdict, replace
from functools import cached_property, partial
from itertools import product
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from peerage.boards import Board, all_left_out
from peerage.boards.community import (
    ByPerson,
    ItemSums,
    OpinionCounts,
    alignment,
    by_item,
    contributors,
    items,
    reviewers,
    standings,
    sum_opinions,
)
from peerage.boards.opinions import (
    Coefficients,
    Community,
    Counting,
    Names,
    decay,
    of_category,
    select_opinions,
)
from peerage.boards.reputation import DawidSkene, Reputation, dawid_skene, iterate
from peerage.boards.rings import Rings, find_rings, flagged_rows
from peerage.engines import Engine, Source
from peerage.engines.intake import row_flags, zone_flags
from peerage.engines.opinion_tables import Opinions, read_opinions
from peerage.errors import UsageError, how_many
from peerage.reports.options import (
    CommunityBoardOptions,
    ContributorBoardOptions,
    RankedBy,
    ReputationKind,
    ReviewerBoardOptions,
)
from peerage.reports.outside_rankings import SCORES, Trial, scores_of
from peerage.reviews.cells import Bools, Cells, merge_tables
from peerage.reviews.columns import instant_s, iso, span_s
from peerage.types import CommunityCoefficients

COEFFICIENTS = CommunityCoefficients()
COLUMN_RANKED_BY: Mapping[RankedBy, str] = {
    "total": "total_score",
    "quality": "quality_score",
    "bonus": "affiliation_bonus",
    "items": "items",
    "reviews": "reviews_received",
}


def read_tables(
    engine: Engine,
    opinions: Source,
    users: Source | None = None,
    items: Source | None = None,
    coefficients: CommunityCoefficients = COEFFICIENTS,
) -> Opinions:
    """Return the tables as one checked community, with flags about its times."""

    scale = Coefficients(**asdict(coefficients)).scale
    table = read_opinions(engine, opinions, items, users, scale=scale)
    flags, now = list(table.members.flags), time.time()
    if table.latest is not None and table.latest > now:
        late = table.frame.filter(nw.col("at") > now)
        flags += row_flags(engine, "opinions_in_the_future", late, "opinions")
    flags += zone_flags(engine, opinions)
    table.members = replace(table.members, flags=tuple(flags))
    return table


class CommunityBoards:
    """The boards of a community's opinions under some options; each value is computed once.

    The engine that holds the opinions computes sums. Only methods that need all opinions at once
    (an iterated reputation, rings) load them into this process.
    """

    def __init__(
        self,
        table: Opinions,
        options: CommunityBoardOptions | None = None,
        coefficients: CommunityCoefficients = COEFFICIENTS,
    ) -> None:

        self.table = table
        self.options = options or CommunityBoardOptions()
        self.coefficients = Coefficients(**asdict(coefficients))
        self.flags = list(table.members.flags)
        category, self.members = self.options.category, table.members
        if category is not None:
            self.members = of_category(table.members, category)
        days = self.options.half_life
        if days is not None and table.latest is None and self.members.n_items:
            raise UsageError(
                "a half-life needs the time of each opinion.",
                hint="Give the opinions an `at` column.",
            )
        since, literal = span_s(self.options.since), self.options.literal
        self.counting = Counting(category, since, self._end(), days, literal)
        if self.options.without_flagged:
            n = int(np.count_nonzero(self._flagged))
            inside = how_many(len(self.rings.rings), "flagged ring")
            self.flags.append(f"{how_many(n, 'opinion')} inside {inside} left out")

    def _end(self) -> float | None:
        """Return the end of the window: as given, or the time of the latest opinion."""
        if self.options.as_of is not None:
            return instant_s(self.options.as_of)
        if self.options.category is None or self.table.latest is None:
            return self.table.latest
        end: float = self.table.fold(
            partial(_latest, self.options.category), lambda ends: float(np.max(ends))
        )
        return end if np.isfinite(end) else None

    @cached_property
    def _counted(self) -> Community:
        """The opinions that count, row by row, including those inside rings."""
        return select_opinions(self.table.rows, self.counting)

    @cached_property
    def rings(self) -> Rings:
        if self.options.literal:
            raise UsageError("rings are searched among eligible opinions, not with --literal.")
        return replace(find_rings(self._counted), flags=tuple(self.flags))

    @cached_property
    def _flagged(self) -> Bools:
        return flagged_rows(self._counted, self.rings.rings)

    @cached_property
    def community(self) -> Community:
        """The opinions that count, row by row."""
        return self._counted.only(~self._flagged) if self.options.without_flagged else self._counted

    @cached_property
    def reputation(self) -> Reputation | None:
        if self.options.reputation == "fixed":
            return None
        return iterate(self.community, decay(self.community, self.counting))

    @cached_property
    def dawid_skene(self) -> DawidSkene | None:
        """The result of Dawid and Skene's model, for comparison with an iterated reputation."""
        return None if self.options.reputation == "fixed" else dawid_skene(self.community)

    @cached_property
    def sums(self) -> Mapping[str, Cells]:
        """The sums of the opinions; computed from rows if these are loaded anyway."""
        n_min, literal = self.coefficients.min_reviews_for_quality, self.options.literal
        if self.reputation is None and not self.options.without_flagged:
            return self.table.fold(partial(_sum_block, self.counting, n_min), merge_tables)
        weights = decay(self.community, self.counting)
        if self.reputation is not None:
            word = self.reputation.weight[self.community.reviewer]
            weights = word if weights is None else word * weights
        return sum_opinions(self.community, weights, n_min, literal)

    @cached_property
    def by_item(self) -> ItemSums:
        return by_item(self.sums, self.members.n_items)

    @cached_property
    def standings(self) -> ByPerson:
        return standings(self.members, self.by_item, self.coefficients)

    @cached_property
    def alignment(self) -> ByPerson:
        return alignment(self.sums, self.members.n_people, self.members.scale)

    def under(self, coefficients: Coefficients) -> CommunityBoards:
        """Return the same opinions and weights under other coefficients."""
        other = copy(self)
        other.coefficients = coefficients
        same = coefficients.min_reviews_for_quality == self.coefficients.min_reviews_for_quality
        for name in ("standings", *(() if same else ("sums", "by_item", "alignment"))):
            other.__dict__.pop(name, None)
        return other

    # -- boards ------------------------------------------------------------------------------

    def board(self) -> Board:
        """Return the board that the options describe."""
        options = self.options
        if isinstance(options, ContributorBoardOptions):
            return self.contributors(options.all, options.by)
        if isinstance(options, ReviewerBoardOptions):
            return self.reviewers(options.all)
        return self.items()

    def contributors(self, everyone: bool = False, by: RankedBy = "total") -> Board:
        literal = self.options.literal and self.members.registered is not None
        board = contributors(
            self.members,
            self.standings,
            everyone=everyone or literal,
            only_registered=literal,
            sort=COLUMN_RANKED_BY[by],
        )
        return self._echo_options(board)

    def reviewers(self, everyone: bool = False) -> Board:
        board = reviewers(
            self.members,
            self.alignment,
            self.coefficients,
            None if self.reputation is None else self.reputation.weight,
            everyone=everyone,
            only_registered=self.options.literal,
        )
        return self._echo_options(self._add_dawid_skene(board, self.members.people, "accuracy"))

    def items(self) -> Board:
        total = self.standings["total_score"]
        board = items(self.members, self.by_item, total, self.coefficients)
        return self._echo_options(self._add_dawid_skene(board, self.members.items, "quality"))

    def _add_dawid_skene(self, board: Board, names: Names, value: str) -> Board:
        """Return the board with the columns of Dawid and Skene's model added."""
        model = self.dawid_skene
        if model is None:
            return board
        place = {name: code for code, name in enumerate(names)}
        codes = [place[name] for name in board.columns[SCORES[board.board][0]]]
        columns = {**board.columns, "dawid_skene": getattr(model, value)[codes]}
        flag = f"dawid_skene_did_not_converge:{model.iterations}"
        return replace(board, columns=columns, flags=() if model.converged else (flag,))

    def _echo_options(self, board: Board) -> Board:
        parameters = self.parameters()
        n_outside = parameters["opinions_left_out"]
        hint = all_left_out(n_outside, "opinion") if not parameters["opinions"] else ""
        return replace(board, parameters=parameters, flags=(*self.flags, *board.flags), hint=hint)

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of a board, and what was left out of it."""
        options, iterated, as_of = self.options, self.reputation, self.counting.as_of
        counts = OpinionCounts.of(self.sums)
        return {
            **asdict(self.coefficients),
            "scale": list(self.coefficients.scale),
            "reputation": options.reputation,
            "iterations": None if iterated is None else iterated.iterations,
            "half_life_days": options.half_life,
            "since": options.since,
            "as_of": None if as_of is None else iso(as_of),
            "category": options.category,
            "literal": options.literal,
            "without_flagged": options.without_flagged,
            "opinions": counts.counted,
            "opinions_left_out": counts.outside,
            "own_left_out": counts.own,
            "superseded_left_out": counts.superseded,
        }


def _sum_block(counting: Counting, n_min: int, block: Community) -> dict[str, Cells]:
    """Return the sums of the opinions of a block that count."""
    community = select_opinions(block, counting)
    return sum_opinions(community, decay(community, counting), n_min, counting.literal)


def _latest(category: str, block: Community) -> float:
    """Return the time of the latest opinion of a block on items of a category."""
    at = of_category(block, category).at
    return -np.inf if at is None else float(at.max(initial=-np.inf))


# -- other coefficients -------------------------------------------------------------------------

REPUTATIONS: tuple[ReputationKind, ...] = ("fixed", "iterate")
BONUSES = (0.0, 1.0, 3.0, 10.0, 30.0)
MINIMA = (1, 2, 3, 4, 5, 8)
HALF_LIVES = (None, 30.0, 90.0, 365.0)


def trials_of(boards: CommunityBoards) -> Iterator[Trial]:
    """Yield the current setting, then the settings of the grid; settings may share boards."""
    table, options, now = boards.table, boards.options, boards.coefficients
    table.rows  # noqa: B018 - loads the rows, so that no trial sums them on the engine again
    is_contributors = isinstance(options, ContributorBoardOptions)
    yield _trial(boards)
    half_lives = HALF_LIVES if table.latest is not None else (None,)
    bonuses = BONUSES if is_contributors else (now.affiliation_bonus_points,)
    for reputation, half_life in product(REPUTATIONS, half_lives):
        changes = {"reputation": reputation, "half_life": half_life, "literal": False}
        weighed = CommunityBoards(table, options.model_copy(update=changes), now)
        for minimum, bonus in product(MINIMA, bonuses):
            if isinstance(options, ReviewerBoardOptions) and minimum < 3:  # a consensus needs three
                continue
            coefficients = replace(
                now, min_reviews_for_quality=minimum, affiliation_bonus_points=bonus
            )
            yield _trial(weighed.under(coefficients))


def _trial(boards: CommunityBoards) -> Trial:
    options, coefficients = boards.options, boards.coefficients
    settings: dict[str, Any] = {
        "reputation": options.reputation,
        "half_life_days": options.half_life,
        "min_reviews_for_quality": coefficients.min_reviews_for_quality,
    }
    if isinstance(options, ContributorBoardOptions):
        settings["affiliation_bonus_points"] = coefficients.affiliation_bonus_points
    return Trial(settings, scores_of(boards.board()))
