"""The typed tree of settings: shapes and ranges, with the defaults beside them.

What one value alone can be wrong about is said here by its type; what takes several values,
or a judgement, is in `sense`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Annotated, Any, Literal

from pydantic import AllowInfNan, BaseModel, BeforeValidator, ConfigDict, Field, Strict
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from peerage import types
from peerage.config import rubrics

# Strict: "7" is no number and true is no 1. Texts of the environment are read before this.
Text = Annotated[str, Strict()]
Name = Annotated[str, Strict(), Field(min_length=1)]
Flag = Annotated[bool, Strict()]
Whole = Annotated[int, Strict()]
Count = Annotated[int, Strict(), Field(ge=1)]
Number = Annotated[float, Strict(), AllowInfNan(False)]
AtLeastZero = Annotated[Number, Field(ge=0)]
MoreThanZero = Annotated[Number, Field(gt=0)]
Share = Annotated[Number, Field(ge=0, le=1)]
Mark = Annotated[Number, Field(ge=0, le=10)]

Role = Literal["answer", "review", "chair"]
VerdictKind = Literal["synthesis", "debate", "binary", "tie_breaker", "none"]


def _name_or_false(value: object) -> object:
    if value is False or (isinstance(value, str) and value):
        return value
    raise ValueError("must be the name of a rubric, or false for holistic marks.")


class Table(BaseModel):
    """A TOML table: frozen, and closed to keys that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class CouncilSettings(Table):
    """How a session is run and scored."""

    rule: Name = "borda"
    rubric: Annotated[str | Literal[False], BeforeValidator(_name_or_false)] = "general"
    own_votes: types.OwnVotes = "out"
    order: types.Order = "balanced"
    seed: Whole | None = None  # None: drawn and stored
    safety_gate: Flag = False
    moderator: Name = "patterns"
    safety_score_cap: Mark = 0.0
    audit: Flag = True
    verdict: VerdictKind = "synthesis"
    budget_usd: AtLeastZero | None = None
    quorum: Count | None = None  # None: more than half of the seats that answer
    chair: Name | None = None
    rounds: Annotated[int, Strict(), Field(ge=1, le=2)] = 1
    early_stop: Flag = False
    deadline_s: MoreThanZero | None = None


class SeatTable(Table):
    """One [[seat]] as written; `seat` is the noun the rest of the house knows."""

    name: Name
    provider: Name = "openai"
    model: Text = ""
    family: Text = ""
    base_url: Text = ""
    api_key_env: Text = ""
    temperature: Annotated[Number, Field(ge=0, le=2)] = 0.7
    system: Text = ""
    roles: tuple[Role, ...] = ("answer", "review")
    timeout_s: MoreThanZero = 60.0
    max_concurrency: Count = 16
    price_in: AtLeastZero | None = None
    price_out: AtLeastZero | None = None
    options: Mapping[str, Any] = Field(default_factory=dict, repr=False)

    @property
    def seat(self) -> types.Seat:
        return types.Seat(**{name: getattr(self, name) for name in type(self).model_fields})


class DimensionTable(Table):
    """A dimension of a user's own rubric."""

    question: Text
    anchors: Mapping[str, Text]


class RubricTable(Table):
    """One [rubric.NAME] as written."""

    weights: Mapping[str, Number]
    ceilings: tuple[tuple[Number, ...], ...] = rubrics.CEILINGS
    description: Text = ""
    dimension: Mapping[str, DimensionTable] = Field(default_factory=dict)

    @property
    def own(self) -> dict[str, types.Dimension]:
        return {
            name: rubrics.dimension(name, entry.question, entry.anchors)
            for name, entry in self.dimension.items()
        }

    def rubric(self, name: str) -> types.Rubric:
        return rubrics.build(name, self.weights, self.ceilings, self.description, self.own)


class LeastN(Table):
    """How many observations each metric needs before it may be called evidence."""

    length: Count = 30
    length_in_session: Count = 10
    length_relative: Count = 50
    position: Count = 20
    calibration: Count = 50
    self_preference: Count = 20
    family_preference: Count = 20
    anchoring: Count = 20
    consistency: Count = 20
    style: Count = 50
    sycophancy: Count = 20
    reasoning_length: Count = 30
    agreement: Count = 50
    effective_votes: Count = 50
    drift: Count = 4


class Healthy(Table):
    """The edge of each metric's healthy range: plus or minus this, unless said otherwise."""

    length: Share = 0.2
    length_relative: AtLeastZero = 0.1  # sd
    position: Share = 0.05  # of the scale
    position_correlation: Share = 0.1
    calibration: AtLeastZero = 0.5  # sd
    self_preference: AtLeastZero = 0.25  # sd
    family_preference: AtLeastZero = 0.25  # sd
    anchoring: AtLeastZero = 0.1
    consistency: AtLeastZero = 0.5  # sd, at most
    style: Share = 0.1
    sycophancy: AtLeastZero = 0.5  # sd
    reasoning_length: Share = 0.2
    agreement: Share = 0.3  # at least
    effective_votes: Share = 0.5  # at least, of the panel
    drift: AtLeastZero = 0.1  # sd a week


class AuditSettings(Table):
    """The seed's two thresholds, and every metric's minimum n and healthy range."""

    length_correlation: Share = 0.3
    position_variance: AtLeastZero = 0.5
    n_min: LeastN = LeastN()
    healthy: Healthy = Healthy()


class CommunitySettings(Table):
    """The coefficients of the community boards."""

    affiliation_bonus_points: AtLeastZero = 10.0
    min_reviews_for_quality: Count = 3
    min_reviews_required: Count = 5
    quality_weight: AtLeastZero = 0.7
    reputation_weight: AtLeastZero = 0.3
    reputation_cap: AtLeastZero = 2.0
    scale: tuple[Number, ...] = (-1.0, 1.0)


_layers: ContextVar[tuple[dict[str, Any], ...]] = ContextVar("layers", default=())


@contextmanager
def layered(*trees: dict[str, Any]) -> Iterator[None]:
    """Within it, `Settings()` reads these trees, the first the strongest."""
    token = _layers.set(trees)
    try:
        yield
    finally:
        _layers.reset(token)


class Settings(BaseSettings):
    """Everything that can be set; `Settings()` is the defaults, whatever the environment says."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid")

    store: Name = Field(default="sqlite:///peerage.db", repr=False)
    council: CouncilSettings = CouncilSettings()
    seat: tuple[SeatTable, ...] = ()
    rubric: Mapping[str, RubricTable] = Field(default_factory=dict)
    rubric_by_category: Mapping[str, Name] = Field(default_factory=dict)
    audit: AuditSettings = AuditSettings()
    community: CommunitySettings = CommunitySettings()

    @classmethod
    def settings_customise_sources(  # every name is the base's own
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003 — ours names its variables
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        layers = (InitSettingsSource(settings_cls, tree) for tree in _layers.get())
        return init_settings, *layers

    @functools.cached_property
    def seats(self) -> tuple[types.Seat, ...]:
        return tuple(table.seat for table in self.seat)

    @functools.cached_property
    def rubrics(self) -> Mapping[str, types.Rubric]:
        """The user's own rubrics; the shipped ones come from `rubric(name)`."""
        return {name: table.rubric(name) for name, table in self.rubric.items()}

    def rubric_for(self, category: str) -> types.Rubric | None:
        """The rubric in force for a category, or None where marks are holistic."""
        name = self.rubric_by_category.get(category, self.council.rubric)
        return rubrics.rubric(name, self) if name else None

    def seats_that(self, role: str) -> tuple[types.Seat, ...]:
        """The seats with a role, in the order of the file."""
        return tuple(seat for seat in self.seats if role in seat.roles)

    @property
    def chair(self) -> types.Seat | None:
        """The seat that [council] names, else the first whose roles say chair."""
        named = [seat for seat in self.seats if seat.name == self.council.chair]
        return next(iter([*named, *self.seats_that("chair")]), None)

    @property
    def quorum(self) -> int:
        """How many answers a session needs to go on."""
        return self.council.quorum or len(self.seats_that("answer")) // 2 + 1
