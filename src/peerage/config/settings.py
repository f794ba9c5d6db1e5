"""The typed tree of settings: the shape and range of each value, with its default.

The types here check each value alone; checks that compare several values are in `checks`.
Defaults that other packages share are those of `peerage.types`.
"""

from __future__ import annotations

import functools
import json
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AllowInfNan,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    Strict,
    StringConstraints,
)

from peerage import findings, types
from peerage.config import rubrics

MAX_NAME = 100
NO_RUBRIC = "none"  # in place of a rubric's name: holistic marks
MAX_LINE = 2_000
MAX_TEXT = 100_000
MAX_ARGUMENTS = 200  # of a command
TRUTH = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}

SEAT = types.Seat("")
COMMUNITY = types.CommunityCoefficients()
AUDIT = findings.AuditLimits()
SCORING = types.ScoringOptions()


def _printable_line(value: str) -> str:
    if not value.isprintable():
        raise ValueError("must be one line of text without control characters.")
    return value


def _compose(value: object) -> object:
    """Return a text in Unicode's composed form (NFC), so that names that look equal are equal."""
    return unicodedata.normalize("NFC", value) if isinstance(value, str) else value


def _without_controls(value: str) -> str:
    if any(unicodedata.category(char) == "Cc" and char not in "\n\r\t" for char in value):
        raise ValueError("must be text without control characters.")
    return value


def _name_or_false(value: object) -> object:
    name = value.strip() if isinstance(value, str) else ""
    if value is False or (isinstance(value, GivenText) and name.lower() == "false"):
        return False
    if name == NO_RUBRIC:
        return False
    if name.isprintable() and 0 < len(name) <= MAX_NAME:
        return name
    raise ValueError("must be the name of a rubric, or false for holistic marks.")


def _new_word(value: object) -> object:
    """Return the current word for an old value of a setting; `load` adds a note about it."""
    return types.OLD_OWN_VOTES.get(value, value) if isinstance(value, str) else value


def _over(defaults: Mapping[str, float]) -> BeforeValidator:
    """Return a validator that fills in missing keys and renames metrics of earlier versions."""

    def fill_in(table: object) -> object:
        if not isinstance(table, Mapping):
            return table
        former = {new: table[old] for old, new in findings.FORMER_METRICS.items() if old in table}
        given = {name: table[name] for name in table if name not in findings.FORMER_METRICS}
        return {**defaults, **former, **given}

    return BeforeValidator(fill_in)


class GivenText(str):
    """A text from the environment or a flag, which is converted to the type of its key."""

    __slots__ = ()


def _read_by(read: Callable[[str], object]) -> BeforeValidator:
    """Return a validator that converts a `GivenText`; if it cannot, the text stays as it is."""

    def convert(value: object) -> object:
        if isinstance(value, GivenText):
            with suppress(ValueError, LookupError, RecursionError):
                return read(value.strip())
        return value

    return BeforeValidator(convert)


AS_BOOL = _read_by(lambda text: TRUTH[text.lower()])
AS_INT = _read_by(int)
AS_FLOAT = _read_by(float)
AS_LIST = _read_by(lambda text: json.loads(text if text.startswith("[") else f"[{text}]"))

# Strict: in a file "7" is not a number, and true is not 1.
Name = Annotated[
    str,
    StringConstraints(strict=True, strip_whitespace=True, min_length=1, max_length=MAX_NAME),
    AfterValidator(_printable_line),
    BeforeValidator(_compose),
]
Line = Annotated[
    str,
    StringConstraints(strict=True, strip_whitespace=True, max_length=MAX_LINE),
    AfterValidator(_printable_line),
]
Text = Annotated[
    str,
    StringConstraints(strict=True, max_length=MAX_TEXT),
    AfterValidator(_without_controls),
]
Flag = Annotated[bool, Strict(), AS_BOOL]
Whole = Annotated[int, Strict(), Field(ge=-(2**63), le=2**63 - 1), AS_INT]
Count = Annotated[int, Strict(), Field(ge=1, le=1_000_000_000), AS_INT]
Finite = Annotated[float, Strict(), AllowInfNan(False), AS_FLOAT]
Number = Annotated[Finite, Field(ge=-types.MAX_NUMBER, le=types.MAX_NUMBER)]
AtLeastZero = Annotated[Finite, Field(ge=0, le=types.MAX_NUMBER)]
Seconds = Annotated[Finite, Field(gt=0, le=604_800)]
Share = Annotated[Finite, Field(ge=0, le=1)]
Mark = Annotated[Finite, Field(ge=0, le=10)]
Temperature = Annotated[Finite, Field(ge=0, le=2)]

Role = Literal["answer", "review", "chair"]
VerdictKind = Literal["synthesis", "debate", "binary", "tie_breaker", "none"]


class Table(BaseModel):
    """A TOML table: frozen; unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True, slots=True)
class SetBy:
    """A mark on an option: whether a client may set it, and whether it changes how ballots count.

    An option without a mark is the operator's: files, variables and local flags set it.
    """

    clients: bool = False
    scores: bool = False


CLIENTS = SetBy(clients=True)
SCORES = SetBy(clients=True, scores=True)  # also in a replay
OPERATOR_SCORES = SetBy(scores=True)


class CouncilSettings(Table):
    """How a session is run and scored: the only place where an option of a session is declared.

    Flags, variables, requests of clients, the log and the reference are made from these fields.
    """

    rule: Annotated[Name, SCORES] = Field(
        default=SCORING.rule,
        description="One of borda, marks, mean_rank, hybrid, bradley_terry, elo, copeland and "
        "schulze, or a plug-in's rule.",
    )
    rubric: Annotated[str | Literal[False], BeforeValidator(_name_or_false), SCORES] = Field(
        default="general",
        description="general, original, coding, creative, factual, or your own, or none for one "
        "score per answer.",
    )
    own_votes: Annotated[types.OwnVotes, BeforeValidator(_new_word), SCORES] = Field(
        default=SCORING.own_votes,
        description="Votes of reviewers for their own answers: out, in, or place_kept (dropped, "
        "but keeping the place).",
    )
    review: Annotated[types.ReviewKind, CLIENTS] = Field(
        default="blind",
        description="committed: reviewers first write an answer and compare others with it; or "
        "blind.",
    )
    order: types.Order = Field(
        default="balanced", description="How answers are ordered for each reviewer."
    )
    seed: Annotated[Whole | None, CLIENTS] = Field(
        default=None,
        description="Seed for presentation orders and resampling. If not given, it is drawn and "
        "stored.",
    )
    safety_gate: Annotated[Flag, SCORES] = Field(
        default=SCORING.safety_gate, description="Put answers that fail the safety gate last."
    )
    moderator: Name = Field(
        default="patterns", description="The moderator that the safety gate asks."
    )
    safety_score_cap: Annotated[Mark, OPERATOR_SCORES] = Field(
        default=SCORING.safety_score_cap,
        description="Most marks of an answer that fails the safety gate.",
    )
    seal: types.Seal = Field(
        default="required",
        description="preferred: a reply that is one bare object counts without the ballot's code, "
        "and is flagged.",
    )
    second_chance: Flag = Field(
        default=True, description="Ask once more for a reply without a readable sealed verdict."
    )
    structured_answers: Flag = Field(
        default=False,
        description="Apply a client's JSON schema to the answers, not only to the verdict.",
    )
    audit: Flag = Field(
        default=SCORING.audit,
        description="Audit each session for biases.",
    )
    soft_votes: Annotated[Flag, SCORES] = Field(
        default=SCORING.soft_votes,
        description="Count decision models by probability, not only by order.",
    )
    verdict: Annotated[VerdictKind, CLIENTS] = Field(
        default="synthesis", description="Kind of verdict."
    )
    budget_usd: Annotated[AtLeastZero | None, CLIENTS] = Field(
        default=None, description="Budget in USD, which is never exceeded."
    )
    quorum: Count | None = Field(
        default=None,
        description="Answers that a session needs to continue. If not given: more than half of "
        "the seats that answer.",
    )
    chair: Annotated[Name | None, CLIENTS] = Field(
        default=None, description="Seat that writes the verdict."
    )
    rounds: Annotated[int, Strict(), Field(ge=1, le=2), AS_INT] = Field(
        default=1,
        description="Rounds of reviews; in the second, reviewers see the remarks of the first, "
        "without names.",
    )
    early_stop: Flag = Field(
        default=False, description="End a round once the missing ballots cannot change the winner."
    )
    deadline_s: Seconds | None = Field(
        default=None,
        description="Most seconds for each stage.",
    )


class SeatTable(Table):
    """One [[seat]] table; `seat` returns it as a `types.Seat`."""

    name: Name
    provider: Name = SEAT.provider
    model: Line = SEAT.model
    family: Line = SEAT.family
    base_url: Line = SEAT.base_url
    api_key_env: Line = SEAT.api_key_env
    temperature: Temperature = SEAT.temperature
    system: Text = SEAT.system
    roles: tuple[Role, ...] = SEAT.roles  # type: ignore[assignment]  # a Seat's are plain text
    timeout_s: Seconds = SEAT.timeout_s
    max_tokens: Annotated[int, Strict(), Field(ge=1, le=10_000_000)] = SEAT.max_tokens
    max_tokens_review: Annotated[int, Strict(), Field(ge=1, le=10_000_000)] = SEAT.max_tokens_review
    reasoning_effort: Annotated[Line, Field(max_length=MAX_NAME)] = SEAT.reasoning_effort
    max_concurrency: Annotated[int, Strict(), Field(ge=1, le=10_000)] | None = None
    price_in: AtLeastZero | None = SEAT.price_in
    price_out: AtLeastZero | None = SEAT.price_out
    dialect: Literal["", "openai", "systemone"] = SEAT.dialect  # type: ignore[assignment]
    price_call: AtLeastZero | None = SEAT.price_call
    batch: Literal["auto", "openai", "anthropic", "none"] = SEAT.batch  # type: ignore[assignment]
    batch_price: Share | None = SEAT.batch_price
    command: Annotated[tuple[Text, ...], Field(max_length=MAX_ARGUMENTS)] = SEAT.command
    pass_env: Annotated[tuple[Name, ...], Field(max_length=MAX_ARGUMENTS)] = SEAT.pass_env
    images: Flag = SEAT.images
    options: Mapping[str, Any] = Field(default_factory=dict, repr=False)

    @property
    def seat(self) -> types.Seat:
        values = {name: getattr(self, name) for name in type(self).model_fields}
        if self.provider == types.DECISIONS and "roles" not in self.model_fields_set:
            values["roles"] = ("review",)  # a decision model cannot write answers
        return types.Seat(**values)


def chairs_of(seats: Sequence[types.Seat], named: str | None) -> tuple[types.Seat, ...]:
    """Return the chair and its substitutes: the named seat, then those with the role, then all."""
    first = [seat for seat in seats if seat.name == named]
    order = (*first, *(seat for seat in seats if "chair" in seat.roles), *seats)
    return tuple({seat.name: seat for seat in order}.values())


def quorum_of(seats: Iterable[types.Seat], quorum: int | None) -> int:
    """Return how many answers a session needs: the given number, or more than half of them."""
    return quorum or sum("answer" in seat.roles for seat in seats) // 2 + 1


def scoring_options(
    council: CouncilSettings, rubric: types.Rubric | None, limits: findings.AuditLimits
) -> types.ScoringOptions:
    """Return the options of a council that ballots are scored by."""
    return types.ScoringOptions(
        rule=council.rule,
        own_votes=council.own_votes,
        rubric=rubric,
        safety_gate=council.safety_gate,
        safety_score_cap=council.safety_score_cap,
        audit=council.audit,
        soft_votes=council.soft_votes,
        limits=limits,
    )


class DimensionTable(Table):
    """A dimension of a user's own rubric."""

    question: Text
    anchors: Mapping[str, Text]


class RubricTable(Table):
    """One [rubric.NAME] table."""

    weights: Mapping[str, Number]
    ceilings: tuple[tuple[Number, ...], ...] = rubrics.CEILINGS
    description: Text = ""
    dimension: Mapping[str, DimensionTable] = Field(default_factory=dict)

    @property
    def own_dimensions(self) -> dict[str, types.Dimension]:
        return {
            name: rubrics.dimension(name, entry.question, entry.anchors)
            for name, entry in self.dimension.items()
        }

    def rubric(self, name: str) -> types.Rubric:
        return rubrics.build(
            name, self.weights, self.ceilings, self.description, self.own_dimensions
        )


class AuditSettings(Table):
    """The thresholds of audits; `limits` returns them as `findings.AuditLimits`."""

    length_correlation: Share = AUDIT.length_correlation
    position_variance: AtLeastZero = AUDIT.position_variance
    n_min: Annotated[Mapping[str, Count], _over(AUDIT.n_min)] = AUDIT.n_min
    healthy: Annotated[Mapping[str, AtLeastZero], _over(AUDIT.healthy)] = AUDIT.healthy

    @property
    def limits(self) -> findings.AuditLimits:
        return findings.AuditLimits(**self.model_dump())


class CommunitySettings(Table):
    """The coefficients of the community boards."""

    affiliation_bonus_points: AtLeastZero = COMMUNITY.affiliation_bonus_points
    min_reviews_for_quality: Count = COMMUNITY.min_reviews_for_quality
    min_reviews_required: Count = COMMUNITY.min_reviews_required
    quality_weight: AtLeastZero = COMMUNITY.quality_weight
    reputation_weight: AtLeastZero = COMMUNITY.reputation_weight
    reputation_cap: AtLeastZero = COMMUNITY.reputation_cap
    scale: Annotated[tuple[Number, ...], AS_LIST] = COMMUNITY.scale


class OidcSettings(Table):
    """Logins by OpenID Connect; they are off if no issuer is set."""

    issuer: Line = ""
    name: Line = "OpenID Connect"  # shown on the button of the login page
    client_id: Line = ""
    client_secret_env: Line = ""  # the variable with the secret; empty for a public client
    domains: Annotated[tuple[Line, ...], AS_LIST] = ()  # accepted mail domains; empty: all
    # the role of a user whose claim gives none; "": such a login is refused
    role: Literal["", "reviewer", "reader", "member", "admin"] = ""
    role_claim: Line = ""
    roles: Mapping[Line, Literal["reviewer", "reader", "member", "admin"]] = Field(
        default_factory=dict
    )  # the role for each value of the claim


class PanelTable(Table):
    """One [panel.NAME] table: a named selection of seats."""

    seats: tuple[Name, ...]


class BatchSettings(Table):
    """How `peerage run --batch` groups calls and polls for their results."""

    size: Annotated[int, Strict(), Field(ge=1, le=10_000), AS_INT] = 1_000  # most calls in a batch
    # what to do if a batch has no result for a call: call the model directly, or use a later batch
    failures: Literal["call", "wait"] = "call"
    gather_s: Seconds = 3.0  # a batch is sent when no new call has come for this long
    poll_s: Seconds = 30.0  # pause between requests for the state of a batch


class ServerSettings(Table):
    """How the server treats short calls of chat clients, and pages of other sites."""

    quick_seat: Name | None = None  # answers short calls; None: the first seat that answers
    short_calls: Literal["quick", "council"] = "quick"  # "council": each call becomes a session
    cors_origins: Annotated[tuple[Line, ...], AS_LIST] = ()  # other sites whose pages may use it


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the settings came from: a file, or None, and notes for the user.

    The file is not compared, so equal settings from two files are equal.
    """

    file: Path | None = field(default=None, compare=False)
    notes: tuple[str, ...] = ()
    # the line of each [[seat]] in the file, in words
    place_by_seat: Mapping[str, str] = field(default_factory=dict, compare=False)


class Settings(Table):
    """All settings; `Settings()` has the defaults."""

    store: Annotated[Line, Field(min_length=1)] = Field(default="sqlite:///peerage.db", repr=False)
    data: Line = ""  # the folder for the store's mirror and other local files; "": the usual one
    lease_s: Seconds = types.LEASE_S
    council: CouncilSettings = CouncilSettings()
    seat: tuple[SeatTable, ...] = ()
    rubric: Mapping[str, RubricTable] = Field(default_factory=dict)
    rubric_by_category: Mapping[Name, Name] = Field(default_factory=dict)
    audit: AuditSettings = AuditSettings()
    community: CommunitySettings = CommunitySettings()
    oidc: OidcSettings = OidcSettings()
    panel: Mapping[str, PanelTable] = Field(default_factory=dict)
    batch: BatchSettings = BatchSettings()
    server: ServerSettings = ServerSettings()
    _origin: Origin = PrivateAttr(default=Origin())

    @property
    def notes(self) -> tuple[str, ...]:
        """Return notes for the user about the sources of these settings."""
        return self._origin.notes

    @property
    def file(self) -> Path | None:
        """Return the file that was read, if any."""
        return self._origin.file

    @property
    def place_by_seat(self) -> Mapping[str, str]:
        """Return the line of each seat in the file that was read, in words, by the seat's name."""
        return self._origin.place_by_seat

    @functools.cached_property
    def seats(self) -> tuple[types.Seat, ...]:
        return tuple(table.seat for table in self.seat)

    @functools.cached_property
    def rubrics(self) -> Mapping[str, types.Rubric]:
        """The user's own rubrics; the shipped ones come from `rubric(name)`."""
        return {name: table.rubric(name) for name, table in self.rubric.items()}

    def rubric_for(self, category: str) -> types.Rubric | None:
        """Return the rubric for a category, or None if marks are holistic."""
        name = self.rubric_by_category.get(category, self.council.rubric)
        return rubrics.rubric(name, self) if name else None

    def seats_that(self, role: str) -> tuple[types.Seat, ...]:
        """Return the seats with a role, in the order of the file."""
        return tuple(seat for seat in self.seats if role in seat.roles)

    @property
    def quick_seat(self) -> types.Seat | None:
        """The seat for short calls: the one [server] names, else the first that answers."""
        named = [seat for seat in self.seats if seat.name == self.server.quick_seat]
        return next(iter([*named, *self.seats_that("answer"), *self.seats]), None)

    @property
    def chair(self) -> types.Seat | None:
        """The chair: the seat that [council] names, else the first with the role chair, or None."""
        named = [seat for seat in self.seats if seat.name == self.council.chair]
        return next(iter([*named, *self.seats_that("chair")]), None)

    @property
    def quorum(self) -> int:
        """The number of answers that a session needs to continue."""
        return quorum_of(self.seats, self.council.quorum)

    def scoring_options(self, category: str = "") -> types.ScoringOptions:
        """Return the options that score sessions of a category."""
        return scoring_options(self.council, self.rubric_for(category), self.audit.limits)
