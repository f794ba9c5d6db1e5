"""The options of each report, each defined here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from peerage.boards.opinions import Coefficients
from peerage.errors import UsageError
from peerage.reviews.times import span_s
from peerage.types import OwnVotes, ScoringOptions

SCORING = ScoringOptions()  # the defaults
ReputationKind = Literal["fixed", "iterate"]

MEANS = ("borda", "mean_rank", "hybrid")  # rules that are means over sessions
CHOICES: Mapping[str, tuple[str, ...]] = {
    "own_votes": get_args(OwnVotes),
    "interval": ("sessions", "two-way"),
    "reputation": ("fixed", "peer"),
    "history": ("", "week"),
}


@dataclass(frozen=True, slots=True)
class ModelBoardOptions:
    """How a board of models is made; every field is echoed in its parameters.

    A window ends at `as_of`, by default at the latest time in the table, so that the same
    table gives the same board on any day.
    """

    rule: str = SCORING.rule
    own_votes: OwnVotes = SCORING.own_votes
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
        if self.by_category and self.rule not in MEANS:
            raise UsageError(
                f"a board by category is not made under {self.rule}.",
                hint=f"Use {', '.join(MEANS)}, or name one category.",
            )
        if self.interval == "two-way" and self.rule != "borda":
            raise UsageError("two-way intervals are made of the Borda share alone.")
        span_s(self.since)


@dataclass(frozen=True, slots=True)
class CommunityBoardOptions:
    """How a community board is to be computed; the defaults are the published ones."""

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
                "literal is the published scoring as it is: every opinion weighs the same.",
                hint="Leave out reputation, half-life and without-flagged.",
            )
