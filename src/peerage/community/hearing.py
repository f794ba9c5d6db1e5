"""A community's opinions as they count under what was asked: every board comes from here."""

from __future__ import annotations

from copy import copy
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

from peerage.boards.opinions import Coefficients
from peerage.errors import UsageError
from peerage.reviews.times import instant_s, iso

if TYPE_CHECKING:
    from peerage.boards import Board
    from peerage.boards.contributors import Standings
    from peerage.boards.items import ItemSums
    from peerage.boards.opinions import Community, Floats
    from peerage.boards.reputation import DawidSkene, Reputation
    from peerage.boards.reviewers import Alignment
    from peerage.boards.rings import Rings

ReputationKind = Literal["fixed", "iterate"]
BoardName = Literal["contributors", "reviewers", "items"]


@dataclass(frozen=True, slots=True)
class Asked:
    """How a community board is to be computed; the defaults are the seed's reading."""

    reputation: ReputationKind = "fixed"
    half_life_days: float | None = None
    literal: bool = False
    everyone: bool = False
    since: str = "all"
    as_of: float | str | None = None
    category: str | None = None
    without_flagged: bool = False
    sort: str = "total_score"
    coefficients: Coefficients = field(default_factory=Coefficients)

    def __post_init__(self) -> None:
        if self.reputation not in get_args(ReputationKind):
            raise UsageError(
                f"there is no reputation {self.reputation!r} for opinions.",
                hint="Known: fixed, iterate.",
            )
        if self.literal and (
            self.reputation != "fixed" or self.half_life_days is not None or self.without_flagged
        ):
            raise UsageError(
                "literal is the published scoring to the letter: every word weighs the same.",
                hint="Leave out reputation, half-life and without-flagged.",
            )


class Hearing:
    """A community's opinions as they count under what was asked, each part computed once."""

    def __init__(self, community: Community, asked: Asked | None = None) -> None:
        from peerage.boards import opinions
        from peerage.reviews.times import span_s

        self.asked = asked or Asked()
        self.coefficients = self.asked.coefficients
        self.as_of = None if self.asked.as_of is None else instant_s(self.asked.as_of)
        self.flags = list(community.flags)
        if self.asked.category is not None and community.n_items:
            community = opinions.of_category(community, self.asked.category)
        if self.as_of is None and community.at is not None and community.n:
            self.as_of = float(community.at.max())
        community = opinions.within(community, span_s(self.asked.since), self.as_of)
        self.community = community if self.asked.literal else opinions.eligible(community)
        if self.asked.without_flagged:
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

        if self.asked.literal:
            raise UsageError("rings are sought among eligible opinions, not literal ones.")
        return find_rings(self.community)

    @cached_property
    def reputation(self) -> Reputation | None:
        from peerage.boards.reputation import iterate

        if self.asked.reputation == "fixed":
            return None
        return iterate(self.community, self._fading)

    @cached_property
    def dawid_skene(self) -> DawidSkene | None:
        """Beside an iterated reputation, for comparison."""
        from peerage.boards.reputation import dawid_skene

        return None if self.asked.reputation == "fixed" else dawid_skene(self.community)

    @cached_property
    def _fading(self) -> Floats | None:
        from peerage.boards.opinions import decay

        if self.asked.half_life_days is None or not self.community.n:
            return None
        return decay(self.community, self.asked.half_life_days, self.as_of)

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

        if self.asked.literal:
            return literal_alignment(self.community, self.sums)
        return alignment(self.community, self.sums, self.weights, self.coefficients)

    def under(self, coefficients: Coefficients) -> Hearing:
        """The same opinions and weights under other coefficients, with nothing weighed again."""
        weighed = self.sums
        other = copy(self)
        other.__dict__["sums"] = weighed
        other.asked = replace(self.asked, coefficients=coefficients)
        other.coefficients = coefficients
        for kept in ("standings", "alignment"):
            other.__dict__.pop(kept, None)
        return other

    # -- boards ------------------------------------------------------------------------------

    def contributors(self) -> Board:
        from peerage.boards.contributors import SORTABLE, contributors

        if self.asked.sort not in SORTABLE:
            raise UsageError(
                f"contributors are not sorted by {self.asked.sort!r}.",
                hint=f"Known: {', '.join(SORTABLE)}.",
            )
        literal = self.asked.literal and self.community.registered is not None
        return self._echoed(
            contributors(
                self.community,
                self.standings,
                everyone=self.asked.everyone or literal,
                only_registered=literal,
                sort=self.asked.sort,
            )
        )

    def reviewers(self) -> Board:
        from peerage.boards.reviewers import reviewers

        made = reviewers(
            self.community,
            self.alignment,
            self.coefficients,
            None if self.reputation is None else self.reputation.weight,
            everyone=self.asked.everyone,
            only_registered=self.asked.literal,
        )
        beside = self.dawid_skene
        return self._echoed(made if beside is None else _beside(made, self, beside.accuracy))

    def items(self) -> Board:
        from peerage.boards.items import items

        made = items(self.community, self.sums, self.standings.total, self.coefficients)
        beside = self.dawid_skene
        return self._echoed(made if beside is None else _beside(made, self, beside.quality))

    def board(self, name: str) -> Board:
        if name not in get_args(BoardName):
            raise UsageError(
                f"there is no community board {name!r}.",
                hint=f"Known: {', '.join(get_args(BoardName))}.",
            )
        made: Board = getattr(self, name)()
        return made

    def _echoed(self, made: Board) -> Board:
        return replace(made, parameters=self.parameters(), flags=tuple(self.flags))

    def parameters(self) -> dict[str, Any]:
        """Everything a board was computed under, and what was left out of it."""
        asked, community = self.asked, self.community
        iterated = self.reputation
        return {
            **asdict(self.coefficients),
            "scale": list(self.coefficients.scale),
            "reputation": asked.reputation,
            "iterations": None if iterated is None else iterated.iterations,
            "half_life_days": asked.half_life_days,
            "since": asked.since,
            "as_of": None if self.as_of is None else iso(self.as_of),
            "category": asked.category,
            "literal": asked.literal,
            "without_flagged": asked.without_flagged,
            "opinions": community.n,
            "own_left_out": community.n_own,
            "superseded_left_out": community.n_superseded,
        }


def _beside(made: Board, hearing: Hearing, values: Floats) -> Board:
    """The board with what Dawid and Skene's model says, in the board's order."""
    community = hearing.community
    key, names = (
        ("reviewer", community.people)
        if made.board == "reviewers"
        else ("item_id", community.items)
    )
    place = {name: code for code, name in enumerate(names)}
    codes = [place[name] for name in made.columns[key]]
    return replace(made, columns={**made.columns, "dawid_skene": values[codes]})
