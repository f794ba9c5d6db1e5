"""The boards of a community, from its opinions, items and users."""

from __future__ import annotations

import time
from copy import copy
from dataclasses import asdict, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from peerage.engines import Engine, Source
from peerage.engines.intake import zones_of
from peerage.errors import UsageError
from peerage.reports.options import (
    CommunityBoardOptions,
    ContributorBoardOptions,
    ReviewerBoardOptions,
    SortColumn,
)
from peerage.reviews.times import instant_s, iso, span_s
from peerage.types import CommunityCoefficients

if TYPE_CHECKING:
    from peerage.boards import Board
    from peerage.boards.contributors import Standings
    from peerage.boards.items import ItemSums
    from peerage.boards.opinions import Coefficients, Community, Floats
    from peerage.boards.reputation import DawidSkene, Reputation
    from peerage.boards.reviewers import Alignment
    from peerage.boards.rings import Rings

N_SHOWN = 10
COEFFICIENTS = CommunityCoefficients()


def read_tables(
    engine: Engine,
    opinions: Source,
    users: Source | None = None,
    items: Source | None = None,
    coefficients: CommunityCoefficients = COEFFICIENTS,
) -> Community:
    """The tables as one encoded community, whole, and what is odd about its times."""
    from peerage.boards.opinions import Coefficients
    from peerage.engines.opinions import read_community

    scale = Coefficients(**asdict(coefficients)).scale
    community = read_community(engine, opinions, items, users, scale=scale, categories=True)
    odd = flags_of_times(engine, opinions, community, time.time())
    return replace(community, flags=(*community.flags, *odd))


def flags_of_times(
    engine: Engine, opinions: Source, community: Community, now: float
) -> tuple[str, ...]:
    """What is odd about when opinions were given: a name, how many, and the first ten."""
    at = community.at
    if at is None:
        return ()
    flags = []
    if at.max(initial=-np.inf) > now:
        late = np.flatnonzero(at > now)
        told = (
            f"{community.people[community.reviewer[row]]} on {community.items[community.item[row]]}"
            for row in late[:N_SHOWN]
        )
        flags.append(f"opinions_in_the_future:{len(late)}: {', '.join(told)}")
    if zones := zones_of(engine, opinions):
        flags.append(f"times_in_several_zones:{len(zones)}: {', '.join(zones)}")
    return tuple(flags)


class CommunityBoards:
    """A community's opinions as they count under its options, each part computed once."""

    def __init__(
        self,
        community: Community,
        options: CommunityBoardOptions | None = None,
        coefficients: CommunityCoefficients = COEFFICIENTS,
    ) -> None:
        from peerage.boards import opinions

        self.whole = community  # also what the window leaves out
        self.options = options or CommunityBoardOptions()
        self.coefficients = opinions.Coefficients(**asdict(coefficients))
        self.as_of = None if self.options.as_of is None else instant_s(self.options.as_of)
        self.flags = list(community.flags)
        if self.options.category is not None and community.n_items:
            community = opinions.of_category(community, self.options.category)
        if self.as_of is None and community.at is not None and community.n:
            self.as_of = float(community.at.max())
        community = opinions.within(community, span_s(self.options.since), self.as_of)
        self.community = community if self.options.literal else opinions.eligible(community)
        if self.options.without_flagged:
            self._leave_out_flagged()

    def _leave_out_flagged(self) -> None:
        from peerage.boards.rings import flagged_rows

        flagged = flagged_rows(self.community, self.rings.rings)
        n = int(flagged.sum())
        self.flags.append(f"{n} opinions inside {len(self.rings.rings)} flagged rings left out")
        self.community = self.community.kept(~flagged)

    @cached_property
    def rings(self) -> Rings:
        from peerage.boards.rings import find_rings

        if self.options.literal:
            raise UsageError("rings are sought among eligible opinions, not literal ones.")
        return replace(find_rings(self.community), flags=tuple(self.flags))

    @cached_property
    def reputation(self) -> Reputation | None:
        from peerage.boards.reputation import iterate

        if self.options.reputation == "fixed":
            return None
        return iterate(self.community, self._fading)

    @cached_property
    def dawid_skene(self) -> DawidSkene | None:
        """Beside an iterated reputation, for comparison."""
        from peerage.boards.reputation import dawid_skene

        return None if self.options.reputation == "fixed" else dawid_skene(self.community)

    @cached_property
    def _fading(self) -> Floats | None:
        from peerage.boards.opinions import decay

        if self.options.half_life is None or not self.community.n:
            return None
        return decay(self.community, self.options.half_life, self.as_of)

    @cached_property
    def weights(self) -> Floats | None:
        """What each opinion weighs; None where all weigh the same."""
        if self.reputation is None:
            return self._fading
        word: Floats = self.reputation.weight[self.community.reviewer]
        return word if self._fading is None else word * self._fading

    @cached_property
    def sums(self) -> ItemSums:
        from peerage.boards.items import item_sums

        return item_sums(self.community, self.weights)

    @cached_property
    def standings(self) -> Standings:
        from peerage.boards.contributors import standings

        return standings(self.community, self.sums, self.coefficients)

    @cached_property
    def alignment(self) -> Alignment:
        from peerage.boards.reviewers import alignment, literal_alignment

        if self.options.literal:
            return literal_alignment(self.community, self.sums)
        return alignment(self.community, self.sums, self.weights, self.coefficients)

    def under(self, coefficients: Coefficients) -> CommunityBoards:
        """The same opinions and weights under other coefficients, with nothing weighed again."""
        weighed = self.sums
        other = copy(self)
        other.__dict__["sums"] = weighed
        other.coefficients = coefficients
        for kept in ("standings", "alignment"):
            other.__dict__.pop(kept, None)
        return other

    # -- boards ------------------------------------------------------------------------------

    def board(self) -> Board:
        """The board that the options are of."""
        options = self.options
        if isinstance(options, ContributorBoardOptions):
            return self.contributors(options.all, options.sort)
        if isinstance(options, ReviewerBoardOptions):
            return self.reviewers(options.all)
        return self.items()

    def contributors(self, everyone: bool = False, sort: SortColumn = "total_score") -> Board:
        from peerage.boards.contributors import contributors

        literal = self.options.literal and self.community.registered is not None
        return self._echoed(
            contributors(
                self.community,
                self.standings,
                everyone=everyone or literal,
                only_registered=literal,
                sort=sort,
            )
        )

    def reviewers(self, everyone: bool = False) -> Board:
        from peerage.boards.reviewers import reviewers

        made = reviewers(
            self.community,
            self.alignment,
            self.coefficients,
            None if self.reputation is None else self.reputation.weight,
            everyone=everyone,
            only_registered=self.options.literal,
        )
        beside = self.dawid_skene
        return self._echoed(made if beside is None else _beside(made, self, beside.accuracy))

    def items(self) -> Board:
        from peerage.boards.items import items

        made = items(self.community, self.sums, self.standings.total, self.coefficients)
        beside = self.dawid_skene
        return self._echoed(made if beside is None else _beside(made, self, beside.quality))

    def _echoed(self, made: Board) -> Board:
        return replace(made, parameters=self.parameters(), flags=tuple(self.flags))

    def parameters(self) -> dict[str, Any]:
        """Everything a board was computed under, and what was left out of it."""
        options, community = self.options, self.community
        iterated = self.reputation
        return {
            **asdict(self.coefficients),
            "scale": list(self.coefficients.scale),
            "reputation": options.reputation,
            "iterations": None if iterated is None else iterated.iterations,
            "half_life_days": options.half_life,
            "since": options.since,
            "as_of": None if self.as_of is None else iso(self.as_of),
            "category": options.category,
            "literal": options.literal,
            "without_flagged": options.without_flagged,
            "opinions": community.n,
            "own_left_out": community.n_own,
            "superseded_left_out": community.n_superseded,
        }


def _beside(made: Board, boards: CommunityBoards, values: Floats) -> Board:
    """The board with what Dawid and Skene's model says, in the board's order."""
    community = boards.community
    key, names = (
        ("reviewer", community.people)
        if made.board == "reviewers"
        else ("item_id", community.items)
    )
    place = {name: code for code, name in enumerate(names)}
    codes = [place[name] for name in made.columns[key]]
    return replace(made, columns={**made.columns, "dawid_skene": values[codes]})
