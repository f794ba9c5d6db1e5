"""The options of each report, defined only here.

The flags of commands and the keywords of Python calls are made from these models. A new option is
one field, with its description, default and allowed values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from peerage.errors import UsageError, meant, shown
from peerage.reviews.columns import instant_s, span_s
from peerage.types import (
    MAX_NUMBER,
    OwnVotes,
    ReviewKind,
    ScoringOptions,
    current_own_votes,
)

SCORING = ScoringOptions()  # the defaults
MEANS = ("borda", "mean_rank", "hybrid")  # rules that are means over sessions
MAX_SESSIONS = 1_000_000  # in one list
MAX_WEIGHT = 1_000_000.0

ReputationKind = Literal["fixed", "iterate"]
RankedBy = Literal["total", "quality", "bonus", "items", "reviews"]


class Options(BaseModel):
    """Frozen options; unknown names are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise _usage_error(error, type(self)) from None

    @classmethod
    def of(cls, keywords: Mapping[str, Any]) -> Self:
        """Return options from keywords; the rest have their defaults."""
        return cls(**keywords)

    @property
    def changed(self) -> set[str]:
        """The names of the options that differ from their defaults."""
        return set(self.model_dump(exclude_defaults=True))


def _usage_error(error: ValidationError, options: type[Options]) -> UsageError:
    """Return the first problem with some options as a UsageError."""
    first = error.errors(include_url=False)[0]
    name, value = str(first["loc"][0]), first["input"]
    if first["type"] == "extra_forbidden":
        return UsageError(f"there is no option {name!r}.", hint=meant(name, options.model_fields))
    if first["type"] == "missing":
        return UsageError(f"{name} is missing.")
    expected = first.get("ctx", {}).get("expected")
    hint = f"Known: {expected}." if expected else f"{first['msg']}."
    return UsageError(f"{name.replace('_', ' ')} cannot be {shown(value)}.", hint=hint)


def _check_with(read: Callable[[Any], object]) -> AfterValidator:
    """Return a validator that passes a value on unchanged if `read` accepts it."""

    def same(value: Any) -> Any:
        read(value)
        return value

    return AfterValidator(same)


def _rule(name: str) -> object:
    from peerage.rules import rules

    return rules.get(name)


RULES = (
    "One of borda, marks, mean_rank, hybrid, bradley_terry, elo, copeland and schulze, or a "
    "plug-in's rule."
)
RUBRICS = "general, original, coding, creative, factual, or your own"
OWN = (
    "Votes of reviewers for their own answers: out, in, or place_kept (dropped, but keeping "
    "the place)."
)
Rule = Annotated[str, _check_with(_rule), Field(description=RULES)]
RuleIfGiven = Annotated[Rule | None, Field(description=RULES)]
OLD_WORDS = BeforeValidator(current_own_votes)
Own = Annotated[OwnVotes, OLD_WORDS, Field(description=OWN)]
OwnIfGiven = Annotated[OwnVotes | None, OLD_WORDS, Field(description=OWN)]
Since = Annotated[str, _check_with(span_s), Field(description="Time window: 30d, 12h, 4w or all.")]
AsOf = Annotated[
    Annotated[str | float, _check_with(instant_s)] | None,
    Field(description="End of the window: a time in ISO 8601, or seconds since 1970."),
]
RubricIfGiven = Annotated[
    str | None,
    BeforeValidator(lambda name: "none" if name is False else name),  # as in a configuration
    Field(description=f"{RUBRICS}, or none for one score per answer."),
]
Category = Annotated[str | None, Field(description="Only this category.")]
NOT_RANKED = "Include people who are not ranked."


# -- which reviews -----------------------------------------------------------------------------


def _as_names(value: Any) -> Any:
    """Return one name as a list of one."""
    return (value,) if isinstance(value, str) else value


def weights_text(weights: Mapping[str, float]) -> str:
    """Return weights by dimension as text."""
    return ",".join(f"{name}={weight}" for name, weight in weights.items())


def _as_weights(value: Any) -> Any:
    """Return a mapping as text; a text stays unchanged."""
    return weights_text(value) if isinstance(value, Mapping) else value


def parse_weights(text: str) -> dict[str, float]:
    """Return the weights in a text such as `accuracy=0.5,clarity=0.5`, by dimension."""
    weights: dict[str, float] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, number = (piece.strip() for piece in part.partition("="))
        try:
            weight = float(number)
        except ValueError:
            weight = -1.0
        if not (name and equals and 0 <= weight <= MAX_WEIGHT):
            raise UsageError(
                f"weights: {shown(part)} must be a dimension and its weight.",
                hint="As in accuracy=0.5,clarity=0.5; weights are numbers of at least 0.",
            )
        if name in weights:
            raise UsageError(f"weights: {shown(name)} is given twice.")
        weights[name] = weight
    if text.strip() and not any(weights.values()):
        raise UsageError("weights: at least one weight must be above 0.", hint="As in accuracy=1.")
    return weights


Names = Annotated[tuple[str, ...], BeforeValidator(_as_names)]


def _as_people(value: Any) -> Any:
    """Return names of people as a list; an empty text, as in `people=` of a URL, adds no names."""
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words):
        return value
    return tuple(name for word in words for name in map(str.strip, word.split(",")) if name)


PeopleNames = Annotated[tuple[str, ...] | None, BeforeValidator(_as_people)]


def _check_distinct(names: tuple[str, ...]) -> object:
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"the candidate {shown(name)} is given twice.")
    return names


Candidates = Annotated[tuple[str, ...], BeforeValidator(_as_people), _check_with(_check_distinct)]
PEOPLE = (
    "Correct the judges by people's reviews; may name further reviewers who are people, as in "
    "human1,human2."
)


class ReviewSelection(Options):
    """Which reviews are read, and how marks are weighted."""

    season: str | None = Field(
        default=None, description="Only sessions of this season (its id or the beginning of it)."
    )
    panel: Names = Field(
        default=(),
        description="Only sessions in which all of these took part, as candidates or reviewers.",
    )
    without: Names = Field(default=(), description="Leave out these reviewers.")
    review: ReviewKind | None = Field(
        default=None,
        description="Only reviews of this kind: blind, or committed (the reviewer answered first).",
    )
    weights: Annotated[str, BeforeValidator(_as_weights), _check_with(parse_weights)] = Field(
        default="",
        description="Weight marks again, as in accuracy=0.5,clarity=0.5; other dimensions do not "
        "count.",
    )

    @property
    def weight_by_dimension(self) -> dict[str, float]:
        return parse_weights(self.weights)

    @property
    def selects(self) -> bool:
        """Whether any review is left out or counted differently."""
        return bool(self.chosen)

    @property
    def chosen(self) -> dict[str, Any]:
        """Return the fields that were given, to repeat them in a report."""
        values = self.model_dump(include=set(ReviewSelection.model_fields))
        given = {name: value for name, value in values.items() if value not in (None, (), "")}
        return {n: list(value) if isinstance(value, tuple) else value for n, value in given.items()}


# -- boards ------------------------------------------------------------------------------------


class ModelBoardOptions(ReviewSelection):
    """How a board of models is made; its parameters repeat every field.

    A window ends at `as_of`, by default at the latest time in the table, so that the same table
    gives the same board on any day.
    """

    rule: Rule = SCORING.rule
    own_votes: Own = SCORING.own_votes
    since: Since = "30d"
    as_of: AsOf = None
    category: Category = None
    by_category: bool = Field(default=False, description="One board per category.")
    interval: Literal["sessions", "two-way"] = Field(
        default="sessions",
        description="Intervals over sessions, or over sessions and reviewers (two-way).",
    )
    reputation: Literal["fixed", "peer"] = Field(
        default="fixed",
        description="Weight of reviewers: fixed, or by their own scores on this board.",
    )
    matrix: bool = Field(default=False, description="Also compare every two models.")
    compare_rules: bool = Field(default=False, description="Also show the ranks under every rule.")
    length_controlled: bool = Field(
        default=False, description="Also show shares adjusted to equal length."
    )
    fragility: bool = Field(
        default=False, description="Also show the fewest queries that each place depends on."
    )
    without_truncated: bool = Field(
        default=False, description="Leave out answers that were cut off at their length limit."
    )
    history: Literal["week"] | None = Field(
        default=None, description="Also show the shares of each week."
    )
    people: PeopleNames = Field(default=None, description=PEOPLE)

    @property
    def takes_all(self) -> bool:
        """Whether the board uses all reviews in the window, counted as they are."""
        takes_some = self.without_truncated or self.selects or self.people is not None
        return self.category is None and not takes_some

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.by_category and self.history:
            raise UsageError("a history by category is not available.", hint="Choose one category.")
        if self.by_category and self.people is not None:
            raise UsageError(
                "a board by category cannot be corrected by people.", hint="Choose one category."
            )
        if self.by_category and self.rule not in MEANS:
            raise UsageError(
                f"a board by category cannot use the rule {self.rule}.",
                hint=f"Use {', '.join(MEANS)}, or choose one category.",
            )
        if self.fragility and (self.by_category or self.rule not in (*MEANS, "bradley_terry")):
            what = "by category" if self.by_category else f"under {self.rule}"
            raise UsageError(
                f"fragility is not available for a board {what}.",
                hint=f"Use {', '.join(MEANS)} or bradley_terry, or choose one category.",
            )
        if self.interval == "two-way" and self.rule != "borda":
            raise UsageError("two-way intervals are only available for the rule borda.")
        return self


class DiffOptions(Options):
    """How two sets of reviews are compared."""

    own_votes: Own = SCORING.own_votes
    category: Category = None


class RingsOptions(Options):
    """Which opinions are searched for voting rings."""

    since: Since = "all"
    as_of: AsOf = None
    category: Category = None


class CommunityBoardOptions(RingsOptions):
    """How any board of a community is made."""

    reputation: ReputationKind = Field(
        default="fixed",
        description="Weight of opinions: fixed, or by each reviewer's agreement with others.",
    )
    half_life: float | None = Field(
        default=None, gt=0, description="Days in which the weight of an opinion halves."
    )
    literal: bool = Field(
        default=False, description="Use PeerBench's published scoring, for cross-checks."
    )
    without_flagged: bool = Field(
        default=False, description="Leave out opinions inside voting rings."
    )

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.literal and (
            self.reputation != "fixed" or self.half_life is not None or self.without_flagged
        ):
            raise UsageError(
                "literal scoring gives every opinion the same weight.",
                hint="Omit reputation, half-life and without-flagged.",
            )
        return self


class ContributorBoardOptions(CommunityBoardOptions):
    """How the board of contributors is made."""

    all: bool = Field(default=False, description=NOT_RANKED)
    by: RankedBy = Field(
        default="total",
        description="Column to rank by; total is quality plus affiliation bonus.",
    )


class ReviewerBoardOptions(CommunityBoardOptions):
    """How the board of reviewers is made."""

    all: bool = Field(default=False, description=NOT_RANKED)


class ItemBoardOptions(CommunityBoardOptions):
    """How the board of items is made."""


BOARD_OPTIONS: dict[str, type[ModelBoardOptions | CommunityBoardOptions]] = {
    "models": ModelBoardOptions,
    "contributors": ContributorBoardOptions,
    "reviewers": ReviewerBoardOptions,
    "items": ItemBoardOptions,
}


class AuditOptions(ReviewSelection):
    """Which reviews an audit reads, and whose findings it shows."""

    since: Since = "all"
    reviewer: str | None = Field(default=None, description="Only the findings on this reviewer.")
    dimension: str | None = Field(
        default=None, description="Audit the marks of this rubric dimension in place of the scores."
    )
    people: PeopleNames = Field(
        default=None,
        description="Also show where each judge departs from people; may name further reviewers "
        "who are people.",
    )
    half_width: float = Field(
        default=0.05,
        gt=0.0,
        lt=0.5,
        description="Say how many labels the pass rate needs to be known to this, plus or minus.",
    )
    error: float | None = Field(
        default=None,
        gt=0.0,
        lt=0.5,
        description="Say which verdicts may ship without a person, with at most this error.",
    )


# -- decisions ---------------------------------------------------------------------------------


def parse_scale(text: str) -> tuple[float, float]:
    """Return the ends of a scale such as `1,10`."""
    ends = text.split(",")
    try:
        low, high = (float(end) for end in ends)
    except ValueError:
        low = high = 0.0
    if not -MAX_NUMBER <= low < high <= MAX_NUMBER:
        raise UsageError(f"scale: {shown(text)} is not a scale.", hint="As in --scale 1,10.")
    return low, high


def _check_margin(margin: float) -> object:
    if not 0.0 < margin < 1.0:
        raise UsageError(
            f"margin must be between 0 and 1, not {margin:g}.",
            hint="0.1 means that a difference of ten points of share does not matter.",
        )
    return margin


def _check_alpha(alpha: float) -> object:
    if not 0.0 < alpha < 0.5:
        raise UsageError(
            f"alpha must be between 0 and 0.5, not {alpha:g}.",
            hint="alpha is the probability of a false verdict; 0.05 is usual.",
        )
    return alpha


class BarOptions(Options):
    """Two models to compare, and the evidence that a verdict requires."""

    base: str = Field(default="", description="The model to compare the candidate with.")
    candidate: Candidates = Field(
        default=(),
        description="The model to test; several, as in a,b, share the probability of a false "
        "verdict.",
    )
    margin: Annotated[float, _check_with(_check_margin)] = Field(
        default=0.1,
        description="Largest difference that does not matter; 1 means all rivals beaten.",
    )
    alpha: Annotated[float, _check_with(_check_alpha)] = Field(
        default=0.05, description="Largest probability of a false verdict, however often you look."
    )
    metric: Literal["share", "mark", "dimension", "correct"] = Field(
        default="share",
        description="Compare shares of rivals beaten, scores, marks of dimensions, or the share of "
        "correct answers.",
    )
    dimensions: Names = Field(
        default=(), description="Dimensions of the rubric, with --metric dimension; default: all."
    )
    scale: Annotated[str, _check_with(parse_scale)] = Field(
        default="1,10", description="Lowest and highest mark that judges may give."
    )
    on: str | None = Field(default=None, description="Only queries of this category.")

    @model_validator(mode="after")
    def _has_dimensions_only_for_them(self) -> Self:
        if self.dimensions and self.metric != "dimension":
            raise UsageError(
                f"--dimensions cannot be used with --metric {self.metric}.",
                hint="Add --metric dimension.",
            )
        return self


class GateOptions(BarOptions, ReviewSelection):
    """Which reviews a gate uses, and the evidence it requires."""

    own_votes: Own = SCORING.own_votes
    since: Since = "all"
    suite: int | None = Field(
        default=None,
        ge=1,
        le=MAX_SESSIONS,
        description="Decide only for a fixed suite of this many queries, which always ends.",
    )
    guard: bool = Field(
        default=False,
        description="Also fail if clear regressions outnumber equally clear improvements, or if a "
        "query's repeats show a regression.",
    )
    allow: bool = Field(
        default=False, description="Compare even if the judges differ between the two sides."
    )


class CheckOptions(ReviewSelection):
    """Requirements, and the reviews that they are checked on."""

    require: Names = Field(
        default=(),
        description="A requirement, such as 'a >= b on coding' or 'share(a) > 0.5'; repeatable.",
    )
    since: Since = "all"
    own_votes: Own = SCORING.own_votes
    scale: Annotated[str, _check_with(parse_scale)] = Field(
        default="1,10", description="Lowest and highest mark that judges may give."
    )


class PassportOptions(Options):
    """The reviewer that a passport is about."""

    reviewer: str = Field(description="The reviewer, by name.", min_length=1, max_length=1_000)


class AdviseOptions(ReviewSelection):
    """How cheaper panels are searched."""

    since: Since = "all"
    category: Category = None
    within: float = Field(
        default=0.02,
        gt=0,
        lt=1,
        description="Largest distance between a panel's shares and the full panel's: the root mean "
        "square over the models, which fresh queries keep with a chance of 80%.",
    )
    price: Names = Field(
        default=(),
        description="Price of one review by a judge in USD, as in gpt=0.004; default: the mean "
        "cost in the store.",
    )
    people: PeopleNames = Field(
        default=None, description="Reviewers who are people; advice leaves them out."
    )
