"""The options of sessions and seasons: asking, deciding, running, scoring and judging again.

They are defined only here, as those of reports are in `options.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field, field_validator

from peerage.config.given import for_clients, takes, that_score
from peerage.config.settings import CouncilSettings
from peerage.errors import UsageError, shown
from peerage.reports.options import (
    MAX_SESSIONS,
    RUBRICS,
    SCORING,
    BarOptions,
    Category,
    Names,
    Options,
    Own,
    Rule,
)
from peerage.rules import rules
from peerage.types import (
    MAX_NUMBER,
    Option,
    OutputFormat,
    Turn,
    TypedKind,
    TypedQuestion,
)

MAX_SEARCH = 500  # characters


class SessionsOptions(Options):
    """Which stored sessions are listed."""

    limit: int = Field(
        default=20, ge=1, le=MAX_SESSIONS, description="List this many of the latest sessions."
    )
    before: str | None = Field(
        default=None, description="Only sessions opened before the session with this id."
    )
    search: str = Field(
        default="",
        max_length=MAX_SEARCH,
        description="Only sessions with this text in their question, id, tags or models' names.",
    )
    tag: str | None = Field(default=None, description="Only sessions with this tag.")
    season: str | None = Field(
        default=None, description="Only sessions of this season (its id or the beginning of it)."
    )
    category: Category = None
    status: str | None = Field(
        default=None,
        description="Only sessions with this status: done, no_quorum, …, or unfinished.",
    )
    deleted: bool = Field(default=False, description="List deleted sessions instead.")


class DeleteOptions(Options):
    """Sessions, seasons and imports to delete, or to restore."""

    sessions: Names = Field(default=(), description="Ids of sessions, or the beginnings of ids.")
    seasons: Names = Field(default=(), description="All sessions of this season; repeatable.")
    imports: Names = Field(
        default=(), description="An imported table, by its number, hash or file; repeatable."
    )
    undo: bool = Field(default=False, description="Restore what was deleted.")


class TagOptions(Options):
    """The sessions to tag, and the tags to add and remove."""

    sessions: Names = Field(default=(), description="Ids of sessions, or the beginnings of ids.")
    add: Names = Field(default=(), description="Tags to add, one word each.")
    remove: Names = Field(default=(), description="Tags to remove.")


class ScoreOptions(Options):
    """How ballots from a file are scored."""

    rule: Rule = SCORING.rule
    own_votes: Own = SCORING.own_votes
    rubric: str | None = Field(
        default=None, description=f"Rubric to rank by: {RUBRICS}. Default: no rubric."
    )
    safety_gate: bool = Field(
        default=False, description="Put answers that fail the safety gate last."
    )


def _refuse_truth(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("expected a number, got true or false")
    return value


NO_TRUTH = BeforeValidator(_refuse_truth)


class GivenOptions(Options):
    """Options of the council that were given; those that were left out are None."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    @field_validator("rule", check_fields=False)
    @classmethod
    def _known_rule(cls, name: str | None) -> str | None:
        if name is not None:
            rules.get(name)
        return name

    def flags(self) -> dict[str, object]:
        """Return the options that were given, by their configuration names."""
        known = set(CouncilSettings.model_fields) & set(type(self).model_fields)
        given = self.model_dump(include=known, exclude_none=True)
        return {f"council.{name}": value for name, value in given.items()}


@takes(CouncilSettings, that_score(CouncilSettings))
class ReplayOptions(GivenOptions):
    """How a stored session is scored again; the session's record gives the other options."""


@takes(CouncilSettings, for_clients(CouncilSettings))
class ClientOptions(GivenOptions):
    """The options of a session that a client may set; the configuration gives the others."""


@takes(CouncilSettings, CouncilSettings.model_fields)
class CouncilOptions(GivenOptions):
    """How sessions are held; the configuration gives the other options."""


def _split_names(value: Any) -> Any:
    """Return the names in a text such as "a,b,c", or in each text of a list."""
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        return value
    names = [name for text in texts for name in map(str.strip, text.split(",")) if name]
    if not names:
        raise UsageError("--seats must name at least one seat.", hint="As in --seats a,b,c.")
    return tuple(names)


SeatNames = Annotated[tuple[str, ...], BeforeValidator(_split_names)]


class AskOptions(CouncilOptions):
    """How one session is held."""

    category: str = Field(
        default="", description="Category of the question; it may select a rubric."
    )
    seats: SeatNames | None = Field(
        default=None, description="Only these seats of the panel, by name: a,b,c."
    )
    system: str | None = Field(default=None, description="System prompt for the seats that answer.")
    after: str | None = Field(
        default=None, description="Id of an earlier session that this question follows up."
    )
    resume: str | None = Field(
        default=None, description="Id of an unfinished session to continue; give no question."
    )


Metadata = Annotated[
    dict[Annotated[str, Field(min_length=1, max_length=64)], Annotated[str, Field(max_length=512)]],
    Field(max_length=16),
]


class SessionOptions(AskOptions):
    """How one session is held, including options that only a program can pass."""

    earlier: tuple[Turn, ...] = Field(
        default=(), description="The conversation before the question."
    )
    answers: Mapping[str, Any] | None = Field(
        default=None,
        description="Answers to judge, by name: texts, or lists of messages with calls of tools.",
    )
    images: tuple[Any, ...] = Field(
        default=(),
        description="Images of the question: paths, data URLs or links, for seats that see images.",
    )
    output: OutputFormat | None = Field(
        default=None, description="JSON schema that the verdict must follow, if it is not prose."
    )
    metadata: Metadata = Field(
        default_factory=dict, description="Texts by name that are stored with the session."
    )
    questions: tuple[TypedQuestion, ...] = Field(
        default=(), description="Typed questions about the text, for the panel to vote on."
    )


NAMED_QUESTION = re.compile(r"(?P<name>[\w-]{1,40})=(?P<text>.+)", re.DOTALL)
SEPARATOR = "|"  # of a question and its options
Texts = Annotated[tuple[str, ...], BeforeValidator(lambda v: (v,) if isinstance(v, str) else v)]


class DecideOptions(Options):
    """Typed questions about one text, for the panel to vote on, and who votes.

    A question may have a name in front of it: `urgent=The message is urgent.`
    """

    predicate: Texts = Field(
        default=(), description='A statement that may be true: "The message is urgent."'
    )
    choice: Texts = Field(
        default=(), description='A question and its options: "Who answers? | billing | sales"'
    )
    score: Texts = Field(
        default=(),
        description='A question and its levels, low to high: "Anger? | calm | cross"',
    )
    category: str = Field(default="", description="Category of the session, for lists.")
    seats: SeatNames | None = Field(
        default=None, description="Only these seats of the panel, by name: a,b,c."
    )
    system: str | None = Field(default=None, description="Instructions that come with the text.")
    budget_usd: Annotated[float | None, NO_TRUTH] = Field(
        default=None, ge=0, le=MAX_NUMBER, description="Budget in USD; it is never exceeded."
    )

    @property
    def questions(self) -> tuple[TypedQuestion, ...]:
        """The questions in the order of their kinds; one without a name is named by its number."""
        kinds: tuple[tuple[TypedKind, tuple[str, ...]], ...] = (
            ("predicate", self.predicate),
            ("choice", self.choice),
            ("score", self.score),
        )
        written = [(kind, text) for kind, texts in kinds for text in texts]
        if not written:
            raise UsageError(
                "there is no question to decide.",
                hint='Give --predicate, --choice or --score, as in --predicate "It is urgent."',
            )
        return tuple(
            parse_question(kind, text, f"question {number}")
            for number, (kind, text) in enumerate(written, 1)
        )


def parse_question(kind: TypedKind, text: str, name: str) -> TypedQuestion:
    """Return a typed question from its words: `NAME=QUESTION | OPTION | OPTION`."""
    words, *options = text.split(SEPARATOR) if kind != "predicate" else (text,)
    if named := NAMED_QUESTION.fullmatch(words.strip()):
        name, words = named["name"], named["text"]
    if kind != "predicate" and len(options) < 2:
        raise UsageError(
            f"--{kind} {shown(text)} has fewer than two options.",
            hint=f'Write them after the question: --{kind} "Which? {SEPARATOR} a {SEPARATOR} b"',
        )
    listed = tuple(Option(option.strip()) for option in options)
    return TypedQuestion(name, kind, words.strip(), listed)


class RunOptions(CouncilOptions, BarOptions):
    """How a season of sessions is held, and when it may stop."""

    concurrency: int = Field(
        default=16, ge=1, le=4096, description="Number of sessions to run at a time."
    )
    resume: bool = Field(default=True, description="Continue where an earlier run stopped.")
    season: str = Field(
        default="",
        description="Continue the season with this id (or beginning of it), which `run` printed.",
    )
    dry_run: bool = Field(
        default=False,
        description="Only print the number of calls and their estimated cost.",
    )
    reuse_answers: str = Field(
        default="",
        description="Judge the answers of this earlier season, without asking for new ones.",
    )
    batch: bool = Field(
        default=False,
        description="Send calls of many sessions as batches, at the lower batch price.",
    )
    until: str = Field(
        default="",
        description="Stop early: decided (with --base and --candidate), best, or top:K.",
    )
    suite: bool = Field(
        default=False,
        description="With --until decided: decide only for these prompts, in a random order.",
    )


class AnchorOptions(Options):
    """Which sessions become anchors."""

    season: str = Field(description="The season (its id or the beginning of it).")
    n: int = Field(default=30, ge=2, le=1_000, description="Number of sessions, drawn at random.")


class JudgeAgainOptions(Options):
    """Which seats judge stored answers again, and for how much."""

    judges: SeatNames | None = Field(
        default=None,
        description="Seats that judge the season's answers, as in a,b. If not given, no model is "
        "called.",
    )
    dry_run: bool = Field(
        default=False, description="Return the number of calls and their estimated cost."
    )
    budget_usd: Annotated[float | None, NO_TRUTH] = Field(
        default=None, ge=0, le=MAX_NUMBER, description="Budget in USD; it is never exceeded."
    )


class RejudgeOptions(JudgeAgainOptions):
    """Which stored answers are judged again, and by which seats."""

    season: str = Field(description="The season (its id or the beginning of it).")
