"""The data types that several modules share, as frozen dataclasses; standard library only.

A review is a fact; scores, audits and boards are computed from facts. This module computes nothing
beyond simple properties, and uses no files and no clock.
"""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from html import escape
from itertools import groupby
from typing import Any, Literal, TypeAlias

from peerage.arguments import check_fields
from peerage.findings import Audit, AuditLimits
from peerage.notebooks import html_table

OwnVotes = Literal["out", "in", "place_kept"]
OLD_OWN_VOTES: Mapping[str, OwnVotes] = {"seed": "place_kept"}  # words of earlier versions
Order = Literal["balanced", "shuffle", "shared"]
ReviewKind = Literal["blind", "committed"]  # "committed": compared with one's own answer
DECISIONS = "decisions"  # the provider of decision models
Seal = Literal["required", "preferred"]  # whether a reply must repeat its prompt's code to count
Confidence = Literal["high", "medium", "low"]

MAX_LABELS = 702  # A … Z, AA … ZZ
MAX_QUERY_CHARACTERS = 1_000_000
MAX_NUMBER = 1e9  # limit of a number from outside that has no narrower range
EARLIEST_S, LATEST_S = -62_135_596_800.0, 253_402_300_799.0  # the years 1 to 9999
LEASE_S = 10.0  # how long a process may be silent before another takes its sessions


def current_own_votes(word: Any) -> Any:
    """Return the current word for an `own_votes` setting; warn about a word of an old version."""
    if not isinstance(word, str) or word not in OLD_OWN_VOTES:
        return word
    warnings.warn(f"own_votes: {own_votes_hint(word)}", FutureWarning, stacklevel=3)
    return OLD_OWN_VOTES[word]


def own_votes_hint(word: str) -> str:
    """Return a sentence that gives the new name of an old `own_votes` word."""
    return f'"{word}" is now called "{OLD_OWN_VOTES[word]}".'


# -- seats -------------------------------------------------------------------------------------


@check_fields
@dataclass(frozen=True, slots=True)
class Seat:
    """A member of the council: its name on boards, and how to call its model."""

    name: str
    provider: str = "openai"
    model: str = ""
    family: str = ""
    base_url: str = ""
    api_key_env: str = ""  # the name of a variable, never a key
    temperature: float = 0.7
    system: str = ""
    roles: tuple[str, ...] = ("answer", "review")
    timeout_s: float = 60.0
    max_tokens: int = 4096  # of an answer or a verdict, with its reasoning
    max_tokens_review: int = 4096
    reasoning_effort: str = ""  # passed on to the model
    max_concurrency: int | None = None  # None: 16, and 1 for a command
    price_in: float | None = None  # USD per million tokens
    price_out: float | None = None
    dialect: str = ""  # of a decision model's endpoint: "openai" or "systemone"
    price_call: float | None = None  # USD per call
    batch: str = "auto"  # format of batches: "openai", "anthropic", "none"; "auto": by host
    batch_price: float | None = None  # share of the usual price; None: 0.5 for known hosts, else 1
    command: tuple[str, ...] = ()  # of the provider "command": a program and its arguments
    pass_env: tuple[str, ...] = ()  # variables of the environment that the command gets
    images: bool = False  # whether the model is sent the images of a question
    options: Mapping[str, Any] = field(default_factory=dict)  # further options of the provider


# -- questions and answers --------------------------------------------------------------------


OMITTED: dict[str, Any] = {"omitted": True}  # a field that is not written if it has its default


@dataclass(frozen=True, slots=True)
class Image:
    """An image of a question: a data URL, or a link that only providers open."""

    url: str = field(repr=False)
    detail: str = field(default="", metadata=OMITTED)  # "low", "high", "auto": passed on


@check_fields
@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a conversation: who spoke ("user" or "assistant"), and what was said."""

    role: str
    content: str
    images: tuple[Image, ...] = field(default=(), metadata=OMITTED)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call by the assistant; the arguments are text, usually JSON."""

    name: str
    arguments: str = ""
    id: str = field(default="", metadata=OMITTED)


@dataclass(frozen=True, slots=True)
class Message:
    """One message of an answer with several, by the assistant, a tool, a user or the system."""

    role: Literal["assistant", "tool", "user", "system"]
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = field(default=(), metadata=OMITTED)
    tool_call_id: str = field(default="", metadata=OMITTED)  # of a result: its call


Answer: TypeAlias = str | tuple[Message, ...]
"""An answer that is given to be judged: a text, or messages with tool calls and results."""


QUERY_COLUMNS = ("query", "question", "prompt")  # names of a question in tables and documents


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """The JSON schema, as text, that a verdict must follow.

    If the client asked for a function call, `function` names that function, and the JSON is its
    arguments.
    """

    schema: str = '{"type": "object"}'
    function: str = field(default="", metadata=OMITTED)
    strict: bool = field(default=False, metadata=OMITTED)  # must be followed exactly


@dataclass(frozen=True, slots=True)
class Option:
    """A possible answer to a typed question: a choice, or a level of a score."""

    value: str
    description: str = field(default="", metadata=OMITTED)
    is_boolean: bool = field(default=False, metadata=OMITTED)  # a JSON boolean, not a string


TypedKind = Literal["predicate", "choice", "score"]


@dataclass(frozen=True, slots=True)
class TypedQuestion:
    """A question that is answered by probabilities.

    A predicate asks whether something is true. A choice and a score have options; the options of a
    score are its levels, lowest first.
    """

    name: str
    kind: TypedKind
    instructions: str
    options: tuple[Option, ...] = field(default=(), metadata=OMITTED)

    @property
    def n_options(self) -> int:
        """The number of probabilities in an answer; a predicate has two, for true and for false."""
        return len(self.options) or 2


@dataclass(frozen=True, slots=True)
class Query:
    """A question; sessions that repeat the question share its id.

    `system` is the instruction given to every seat that answers, `earlier` the conversation before
    the question, and `output` the JSON format of the verdict, if it is not prose. Seats never see
    `expected` (the correct answers) or `correct` (the models whose given answers are correct). If
    there are typed `questions`, the panel votes on them and no seat writes an answer. Seats that
    accept images get `images`; the other seats are told that there are images.
    """

    text: str
    id: str = ""
    category: str = ""
    system: str = field(default="", metadata=OMITTED)
    earlier: tuple[Turn, ...] = field(default=(), metadata=OMITTED)
    output: OutputFormat | None = field(default=None, metadata=OMITTED)
    expected: tuple[str, ...] = field(default=(), metadata=OMITTED)
    correct: tuple[str, ...] | None = field(default=None, metadata=OMITTED)
    questions: tuple[TypedQuestion, ...] = field(default=(), metadata=OMITTED)
    images: tuple[Image, ...] = field(default=(), metadata=OMITTED)

    @property
    def all_images(self) -> tuple[Image, ...]:
        """The images of the conversation before the question, then its own."""
        return (*(image for turn in self.earlier for image in turn.images), *self.images)

    @property
    def own_id(self) -> str:
        """An id made from the text of the question, used if the question has no id of its own."""
        turns = ((turn.role, turn.content) for turn in self.earlier)
        images = (("image", image.url) for image in self.all_images)
        texts = (self.text, self.system, *turns, *images)
        return f"q-{hashlib.sha256(repr(texts).encode()).hexdigest()[:16]}"


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and cost of one call; None means unknown, which is not zero."""

    tokens_in: int | None = None
    tokens_out: int | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Response:
    """One seat's answer: its text, and its messages if it called tools.

    The text of such an answer has every message in full. Lengths and style are measured on
    `written`.
    """

    model: str
    text: str
    usage: Usage = Usage()
    latency_ms: float | None = None
    reasoning_words: int | None = None
    words: int = field(init=False, repr=False, compare=False)
    finish_reason: str = ""  # why it ended, as the endpoint reports it
    reasoning: str = field(default="", repr=False)  # what the model thought before it answered
    messages: tuple[Message, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", len(self.written.split()))

    @property
    def answer(self) -> Answer:
        """The answer as it is given to be judged: its messages, or its text."""
        return self.messages or self.text

    @property
    def written(self) -> str:
        """The assistant's texts, without tool calls and their results."""
        return written_text(self.messages) if self.messages else self.text

    @property
    def final(self) -> str:
        """The last text that the assistant wrote, which answers the question."""
        texts = (one.content for one in reversed(self.messages) if one.role == "assistant")
        return next((text for text in texts if text.strip()), "" if self.messages else self.text)

    @property
    def truncated(self) -> bool:
        """Whether the answer was cut off at its token limit."""
        return is_cut_off(self.finish_reason)


def written_text(messages: Sequence[Message]) -> str:
    """Return the texts of the assistant's messages, without tool calls and their results."""
    texts = (one.content for one in messages if one.role == "assistant")
    return "\n\n".join(text for text in texts if text.strip())


def is_cut_off(finish_reason: str) -> bool:
    """Return whether a finish reason means that the reply ran out of tokens."""
    return finish_reason.lower() in ("length", "max_tokens", "model_length")


@dataclass(frozen=True, slots=True)
class Failure:
    """A call without a usable reply: the kind of failure, and a sentence that describes it."""

    seat: str
    kind: str
    message: str
    stage: str = ""
    usage: Usage | None = None  # a failed call may still have cost something


@dataclass(frozen=True, slots=True)
class Gate:
    """The safety gate's result for one answer; if it failed, which pattern matched where."""

    model: str
    passed: bool
    family: str = ""
    pattern: str = ""
    span: tuple[int, int] | None = None
    excerpt: str = ""


# -- the rubric -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Dimension:
    """One quality that a reviewer marks from 1 to 10, with the meaning of each band of marks."""

    name: str
    question: str
    anchors: tuple[tuple[str, str], ...]  # ("9-10", "Every claim holds"), best first


@dataclass(frozen=True, slots=True)
class Rubric:
    """Dimensions with exact weights that sum to one, and the score ceilings for low accuracy."""

    name: str
    weights: Mapping[str, Fraction]
    dimensions: tuple[Dimension, ...]
    ceilings: tuple[tuple[Fraction, Fraction], ...]  # accuracy below -> overall at most
    description: str = ""


# -- marks with probabilities -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MarkChances:
    """A mark of a decision model: the probability of each level, and its confidence."""

    levels: tuple[float, ...]  # the mark of each level, ascending
    probabilities: tuple[float, ...]
    confidence: float

    @property
    def expected(self) -> float:
        pairs = zip(self.levels, self.probabilities, strict=True)
        return round(math.fsum(level * chance for level, chance in pairs), 6)


# -- ballots and reviews ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Slot:
    """One answer on a reviewer's ballot, under a label that hides its author."""

    label: str
    author: str
    text: str | None = None  # None: the text is not known here, only that it was shown
    truncated: bool = False  # it was cut off at its token limit, which reviewers are told
    messages: tuple[Message, ...] = ()  # of an answer with tool calls


@dataclass(frozen=True, slots=True)
class Ballot:
    """A ballot as one reviewer saw it; the index of a slot is its position in the prompt."""

    reviewer: str
    slots: tuple[Slot, ...]
    round: int = 0
    positions_known: bool = True  # False for imported ballots that do not say their order
    sheet: int = 0  # number of the ballot, if a reviewer has several comparisons

    @property
    def authors(self) -> tuple[str, ...]:
        return tuple(slot.author for slot in self.slots)

    @property
    def author_by_label(self) -> dict[str, str]:
        return {slot.label: slot.author for slot in self.slots}


@dataclass(frozen=True, slots=True)
class Review:
    """A reviewer's reply to a ballot, in the ballot's labels, before anything is counted.

    The ranking is a tuple of tiers, best first; labels in one tier are tied. Unknown and repeated
    labels stay in the ranking; `count` removes them.
    """

    reviewer: str
    ranking: tuple[tuple[str, ...], ...] = ()
    scores: Mapping[str, float] = field(default_factory=dict)
    marks: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    claimed: Mapping[str, float] = field(default_factory=dict)  # overall scores in the reply
    notes: Mapping[str, str] = field(default_factory=dict)
    agrees: Mapping[str, bool] = field(default_factory=dict)  # with the reviewer's own answer
    abstained: str = ""  # the reason; empty when the reviewer gave a verdict
    recovered: str = ""  # how the reply was read, if it was not plain JSON
    flags: tuple[str, ...] = ()
    raw: str = ""
    round: int = 0
    sheet: int = 0  # of its ballot
    # By label and dimension ("" for the overall score), if a decision model gave the marks.
    chances: Mapping[str, Mapping[str, MarkChances]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Counted:
    """A review with labels replaced by authors: its tiers, exact scores, and oddities.

    `ranking` keeps repeats, and None for an unknown label, because `own_votes = "place_kept"` gives
    them a slot; everything else uses `tiers`. `overall` has the exact scores, for breaking ties;
    `scores` has the same numbers as floats, for display and statistics.
    """

    reviewer: str
    shown: tuple[str, ...]
    ranking: tuple[tuple[str | None, ...], ...]
    gated: frozenset[str] = frozenset()
    overall: Mapping[str, Fraction] = field(default_factory=dict)
    abstained: bool = False
    flags: tuple[str, ...] = ()
    # Of a soft vote: the possible overall marks of each candidate, with their probabilities.
    chances: Mapping[str, Mapping[Fraction, float]] = field(default_factory=dict, repr=False)
    scores: Mapping[str, float] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        ratios = map(Fraction.as_integer_ratio, self.overall.values())
        scores = {name: n / d for name, (n, d) in zip(self.overall, ratios, strict=True)}
        object.__setattr__(self, "scores", scores)

    @property
    def tiers(self) -> tuple[tuple[str, ...], ...]:
        tier_by_name: dict[str, int] = {}
        for i, tier in enumerate(self.ranking):
            for name in tier:
                if name is not None:
                    tier_by_name.setdefault(name, i)
        by_tier = groupby(tier_by_name, key=tier_by_name.__getitem__)
        return tuple(tuple(names) for _, names in by_tier)


@dataclass(frozen=True, slots=True)
class Placing:
    """The place of each candidate on one ballot, after the rule for own votes was applied.

    Places are doubled so that the mean place of a tie stays an integer: first is 0, second is 2,
    two tied for first have 1 each. A soft vote stores its shares directly.
    """

    reviewer: str
    n: int  # number of candidates that count as shown
    doubled: Mapping[str, int]
    first: str | None  # the sole first, or None
    scores: Mapping[str, Fraction] = field(default_factory=dict)
    soft: Mapping[str, Fraction] = field(default_factory=dict)  # mean probability to beat a rival

    def share(self, name: str) -> Fraction:
        """Return the share of its rivals that a candidate is placed above."""
        top = 2 * (self.n - 1)
        return self.soft[name] if self.soft else Fraction(top - self.doubled[name], top)


Value = Fraction | float


@dataclass(frozen=True, slots=True)
class Rule:
    """A function from placings to one value per candidate; it may leave out a candidate."""

    name: str
    values: Callable[[Sequence[Placing], Sequence[str]], Mapping[str, Value]]
    lower_is_better: bool = False
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Score:
    """One candidate's result in one session."""

    model: str
    value: float | None  # None: it has votes, but the rule gives it no value
    rank: int | None  # None: it has votes, but no value
    votes: int
    wins: int
    confidence: Confidence  # from the share of possible votes that were cast
    share: float
    borda: float
    passed: bool = True
    low: float | None = None  # 95% interval of the share, if there are enough votes
    high: float | None = None
    mean_score: float | None = None
    # how many reviewers could have voted for it; None in old logs
    possible: int | None = field(default=None, metadata=OMITTED, compare=False)


@check_fields
@dataclass(frozen=True, slots=True)
class CommunityCoefficients:
    """The coefficients of the community boards."""

    affiliation_bonus_points: float = 10.0
    min_reviews_for_quality: int = 3
    min_reviews_required: int = 5
    quality_weight: float = 0.7
    reputation_weight: float = 0.3
    reputation_cap: float = 2.0
    scale: tuple[float, ...] = (-1.0, 1.0)  # all possible opinions, ascending


# -- audit, verdict, history ------------------------------------------------------------------


@check_fields
@dataclass(frozen=True, slots=True)
class ScoringOptions:
    """How ballots are counted and scored; stored ballots can be scored again with other options.

    These defaults are also the defaults of the configuration, the command line and the boards.
    """

    rule: str = "borda"
    own_votes: OwnVotes = "out"
    rubric: Rubric | None = None
    safety_gate: bool = False
    safety_score_cap: float = 0.0
    audit: bool = True
    soft_votes: bool = True  # probabilities of decision models count, not only their marks
    limits: AuditLimits = field(default_factory=AuditLimits)

    def __post_init__(self) -> None:
        object.__setattr__(self, "own_votes", current_own_votes(self.own_votes))


@dataclass(frozen=True, slots=True)
class Dissent:
    """A quote from a reviewer whose ranking or vote differs from the result."""

    reviewer: str
    distance: float | None  # share of pairs ordered against the result; None for a vote
    quote: str
    round: int = 0


@dataclass(frozen=True, slots=True)
class NoDecision:
    """A seat that should have voted and did not: its call failed, or its reply cannot be read."""

    seat: str
    kind: str


@dataclass(frozen=True, slots=True)
class PanelAnswer:
    """The panel's answer to a typed question: its probabilities, and the votes behind them."""

    name: str
    probabilities: tuple[float, ...]  # of each option; for a predicate, of true and of false
    votes: Mapping[str, tuple[float, ...]]  # by seat, without those that abstain
    effective_votes: float  # how many independent votes would be worth as much
    calibrated: bool = False  # whether labels of people corrected the probabilities


@dataclass(frozen=True, slots=True)
class Verdict:
    """The council's conclusion; `by` is the seat that wrote it, empty if no seat did."""

    kind: str
    text: str
    by: str = ""
    confidence: float | None = None
    approved: bool | None = None
    note: str = ""
    dissent: tuple[Dissent, ...] = ()
    failed: tuple[NoDecision, ...] = field(default=(), metadata=OMITTED)  # of a yes-or-no verdict
    answers: tuple[PanelAnswer, ...] = field(default=(), metadata=OMITTED)  # to typed questions

    @property
    def decision(self) -> str:
        """The decision of a yes-or-no verdict; empty for other kinds of verdicts."""
        if self.kind != "binary":
            return ""
        return {True: "approved", False: "rejected", None: "undecided"}[self.approved]

    def _repr_html_(self) -> str:
        """Return the conclusion and its author, with every text escaped."""
        words = [self.decision, f"by {self.by}" if self.by else ""]
        head = ", ".join(filter(None, (self.kind, *words)))
        return f"<p>{escape(head)}</p><blockquote>{escape(self.text)}</blockquote>"


@dataclass(frozen=True, slots=True)
class Event:
    """One stored event of a session; `peerage.events` defines the typed events."""

    session_id: str
    seq: int
    kind: str
    at: float
    body: Mapping[str, Any]
    # The typed event that this one was made from; None if it was read from the store.
    fact: object = field(default=None, init=False, compare=False, repr=False)


@dataclass(frozen=True, slots=True, repr=False)
class Session:
    """A session, built from its events."""

    id: str
    query: Query
    seed: str = ""
    ordinal: int = 0
    candidates: tuple[str, ...] = ()  # names of the models to be ranked, sorted
    responses: tuple[Response, ...] = ()
    failures: tuple[Failure, ...] = ()
    gates: tuple[Gate, ...] = ()
    ballots: tuple[Ballot, ...] = ()
    reviews: tuple[Review, ...] = ()
    scores: tuple[Score, ...] = ()
    audit: Audit | None = None
    verdict: Verdict | None = None
    cost_usd: float = 0.0  # of its calls whose price is known
    unpriced_calls: int = 0
    finished: bool = False
    status: str = ""  # how it ended: "done", "no_quorum", …
    flags: tuple[str, ...] = ()

    def __repr__(self) -> str:
        status = self.status or "unfinished"
        return f"Session({self.id!r}, {status}, {len(self.candidates)} candidates)"

    def _repr_html_(self) -> str:
        """Return the question, the conclusion and the scores, with every text escaped."""
        verdict = self.verdict._repr_html_() if self.verdict else ""
        names = ("rank", "model", "share", "votes")
        rows = [[getattr(score, name) for name in names] for score in self.scores]
        return (
            f"<p>{escape(repr(self))}</p><p><b>{escape(self.query.text)}</b></p>"
            f"{verdict}{html_table(names, rows)}"
        )
