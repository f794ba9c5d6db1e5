"""The OpenAPI document: types of the JSON that each route returns, and how clients log in.

Other modules make the documents that the routes return; these models only describe them. A test
compares the models with real replies.
"""

from __future__ import annotations

from typing import Any, Literal, get_type_hints

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.json_schema import models_json_schema

from peerage.doors.http.access import COOKIE
from peerage.doors.http.problems import MEDIA_TYPE
from peerage.events import SeatRecord
from peerage.findings import Finding
from peerage.stores import Action, Import
from peerage.stores.schema import SessionEntry
from peerage.types import Dissent, Failure, Query, Usage

Json = dict[str, Any]
OPEN_OPERATIONS = ("alive", "ready", "store_ready")  # need no token


class ReplyModel(BaseModel):
    """A JSON object; later versions may add fields."""

    model_config = ConfigDict(extra="allow")


class ProblemReply(ReplyModel):
    """A problem document (RFC 9457)."""

    title: str
    status: int
    detail: str = ""
    hint: str = ""
    place: str = ""
    errors: list[dict[str, Any]] = []


class Health(ReplyModel):
    """The state of the server."""

    status: str
    seats: dict[str, bool] = Field(default={}, description="Whether each seat answers.")


# -- sessions --------------------------------------------------------------------------------------


class SessionStarted(ReplyModel):
    """A session that has begun or is queued."""

    id: str


class SeatCalls(ReplyModel):
    """The calls to one seat; a cost is null if the price of the seat is unknown."""

    seat: str
    calls: int
    answer: int
    review: int
    conclude: int
    tokens_in: int
    tokens_out: int
    cost_usd: float | None
    at_most_usd: float | None


class CallsEstimate(ReplyModel):
    """The calls of a session that has not been started; costs leave out unpriced calls."""

    dry_run: bool
    calls: int
    cost_usd: float
    at_most_usd: float
    unpriced_calls: int
    seats: list[SeatCalls]


class SessionPage(ReplyModel):
    """Stored sessions, one line each."""

    sessions: list[SessionEntry]
    next: str | None = Field(description="The `before` of the next page, or null.")


class AnswerDocument(ReplyModel):
    """The answer of a seat."""

    model: str
    text: str
    usage: Usage | None
    latency_ms: float | None
    reasoning_words: int | None
    words: int | None
    finish_reason: str
    truncated: bool
    looks_like_a_refusal: bool
    messages: list[dict[str, Any]] = Field(
        default=[], description="If the answer called tools: its messages in OpenAI's format."
    )


class ScoreDocument(ReplyModel):
    """The score of one candidate."""

    model: str
    final_rank: int | None
    borda_score: float | None
    share: float | None
    vote_count: int
    win_count: int
    confidence: str
    mean_score: float | None
    passed_gate: bool


class BallotDocument(ReplyModel):
    """A review as it was counted."""

    reviewer: str
    round: int
    ranking: list[Any] = Field(description="Labels, the best first; a nested list is a tie.")
    overall: dict[str, float | None]
    label_to_model: dict[str, Any]
    abstained: bool
    flags: list[str]


_finding_fields: dict[str, Any] = {
    name: (kind, ...) for name, kind in get_type_hints(Finding).items()
}
FindingDocument: type[BaseModel] = create_model(
    "FindingDocument", __base__=ReplyModel, __doc__="One number of an audit.", **_finding_fields
)


class ScoredSession(ReplyModel):
    """The ballots of a session, scored with some options."""

    rule: str
    own_votes: str
    rubric: str | None
    scores: list[ScoreDocument]
    ballots: list[BallotDocument]
    flags: list[str]
    findings: list[FindingDocument] = []  # type: ignore[valid-type]
    bias_audit: dict[str, Any] = {}
    safety_gate: dict[str, Any]


class VerdictDocument(ReplyModel):
    """The conclusion of a session."""

    kind: str
    text: str
    by: str
    confidence: float | None
    approved: bool | None
    note: str
    dissent: list[Dissent]


class SessionDocument(ReplyModel):
    """One session in full; the fields with scores are missing until there are ballots."""

    id: str
    status: str
    opened_at: float
    season: str
    deleted: bool
    tags: list[str]
    query: Query
    seed: str
    ordinal: int
    seats: list[SeatRecord]
    responses: list[AnswerDocument]
    failures: list[Failure]
    verdict: VerdictDocument | None
    dissent: list[Dissent]
    cost_usd: float | None
    unpriced_calls: int
    cost: dict[str, Any]
    metadata: dict[str, str] = {}
    images_not_seen_by: list[str] = Field(
        default=[], description="Seats that cannot see images: they were only told of them."
    )
    correct: dict[str, float] = {}
    rule: str = ""
    rubric: str | None = None
    scores: list[ScoreDocument] = []
    ballots: list[BallotDocument] = []
    flags: list[str] = []
    findings: list[FindingDocument] = []  # type: ignore[valid-type]
    reviews: list[dict[str, Any]] = []
    people: list[dict[str, Any]] = []


# -- boards and audits -----------------------------------------------------------------------------


class ModelRow(ReplyModel):
    """One model of the board."""

    model: str
    rank: int | None
    rank_low: int | None
    rank_high: int | None
    tier: int | None
    share: float | None
    share_low: float | None
    share_high: float | None
    total_votes: float
    total_wins: float
    appearances: int


class ContributorRow(ReplyModel):
    """One contributor of items."""

    contributor: str
    rank: int | None
    total_score: float | None
    quality_score: float | None
    affiliation_bonus: float
    items: int
    items_scored: int
    reviews_received: int


class ReviewerRow(ReplyModel):
    """One reviewer of items."""

    reviewer: str
    rank: int | None
    pearson: float | None
    low: float | None
    high: float | None
    status: str
    reviews: int
    reputation: float | None


class ItemRow(ReplyModel):
    """One item."""

    item_id: str
    contributor: str
    quality: float | None
    reviews: int
    weight: float | None


class BoardDocument(ReplyModel):
    """A leaderboard with the options that it was made with."""

    board: str
    parameters: dict[str, Any]
    flags: list[str]
    hint: str = ""


class ModelBoard(BoardDocument):
    """The board of models."""

    rule: str
    sessions: int
    reviews: int
    rows: list[ModelRow]


class ContributorBoard(BoardDocument):
    """The board of contributors."""

    rows: list[ContributorRow]


class ReviewerBoard(BoardDocument):
    """The board of reviewers."""

    rows: list[ReviewerRow]


class ItemBoard(BoardDocument):
    """The board of items."""

    rows: list[ItemRow]


class AuditDocument(ReplyModel):
    """The audit of the reviewers over many sessions.

    `n_able` of the findings could find something in this data.
    """

    findings: list[FindingDocument]  # type: ignore[valid-type]
    n_able: int
    parameters: dict[str, Any]


class RingsDocument(ReplyModel):
    """Voting rings with their evidence."""

    rings: list[dict[str, Any]]
    clusters: list[dict[str, Any]]
    pairs: list[dict[str, Any]]
    note: str
    parameters: dict[str, Any]
    flags: list[str]


class FaultDocument(ReplyModel):
    """A fault of a simulated reviewer, and the findings of the audit about it."""

    question: str
    reviewer: str
    planted: str
    metric: str
    is_found: bool
    findings: list[FindingDocument]  # type: ignore[valid-type]


class DemoResultsDocument(ReplyModel):
    """The planted facts of the demo, and what the board and the audit found."""

    planted_order: list[str]
    board_order: list[str]
    faults: list[FaultDocument]
    fair: list[str]
    wrongly_accused: list[str]


class DemoDocument(ReplyModel):
    """The state of the demo; the results are null until it is finished."""

    state: Literal["not_started", "running", "finished"]
    sessions: int
    done: int
    results: DemoResultsDocument | None


# -- people and data -------------------------------------------------------------------------------


class LabelledAnswer(ReplyModel):
    """An answer without its author."""

    label: str
    text: str


class BlindBallot(ReplyModel):
    """A ballot to judge."""

    ballot: str
    query: str
    category: str
    responses: list[LabelledAnswer]
    dimensions: list[str]


class ReviewStored(ReplyModel):
    """A review that was stored."""

    reviewer: str
    stored: bool


class OpinionsStored(ReplyModel):
    """Opinions that were stored."""

    stored: int
    by: str


class ItemsStored(OpinionsStored):
    """Items that were stored."""

    item_ids: list[str]


class ImportDone(ReplyModel):
    """A table that was imported."""

    name: str
    kind: str
    n: int
    unit: str
    already: bool
    is_deleted: bool = Field(description="Whether it was imported before and deleted since.")
    flags: list[str]


class ImportPage(ReplyModel):
    """The imported tables."""

    imports: list[Import]


class ActionPage(ReplyModel):
    """Actions through the server, the latest first."""

    actions: list[Action]


class DeletionDone(ReplyModel):
    """The sessions and imports that were left out or brought back."""

    undo: bool
    sessions: list[str]
    imports: list[Import]
    already: int
    publish_again: list[str]  # folders that were published with what was deleted


class TagsOfSessions(ReplyModel):
    """The tags of each session."""

    tags: dict[str, list[str]]


# -- OpenAI's routes -------------------------------------------------------------------------------


class ModelDocument(ReplyModel):
    """A model that clients can ask for."""

    id: str
    object: str
    created: int
    owned_by: str


class ModelPage(ReplyModel):
    """The models that clients can ask for."""

    object: str
    data: list[ModelDocument]


class ChatCompletion(ReplyModel):
    """A chat completion as OpenAI's clients read it."""

    id: str
    object: str
    created: int
    model: str
    choices: list[dict[str, Any]]
    usage: dict[str, Any]
    peerage: dict[str, Any]


class ResponseDocument(ReplyModel):
    """A response as OpenAI's clients read it."""

    id: str
    object: str
    created_at: int
    model: str
    status: str
    output: list[dict[str, Any]]
    usage: dict[str, Any] | None
    metadata: dict[str, Any] | None
    instructions: str | None
    previous_response_id: str | None


DOCUMENT_BY_OPERATION: dict[str, type[BaseModel]] = {
    "alive": Health,
    "ready": Health,
    "store_ready": Health,
    "start_session": SessionStarted,
    "estimate_session": CallsEstimate,
    "list_sessions": SessionPage,
    "read_session": SessionDocument,
    "replay_session": ScoredSession,
    "board_of_models": ModelBoard,
    "board_of_contributors": ContributorBoard,
    "board_of_reviewers": ReviewerBoard,
    "board_of_items": ItemBoard,
    "audit_of_reviewers": AuditDocument,
    "voting_rings": RingsDocument,
    "start_demo": DemoDocument,
    "read_demo": DemoDocument,
    "delete_demo": DemoDocument,
    "next_ballot_to_judge": BlindBallot,
    "judge_ballot": ReviewStored,
    "give_opinions": OpinionsStored,
    "contribute_items": ItemsStored,
    "import_file": ImportDone,
    "list_imports": ImportPage,
    "list_actions": ActionPage,
    "delete_or_restore": DeletionDone,
    "tag_sessions": TagsOfSessions,
    "list_models": ModelPage,
    "read_model": ModelDocument,
    "chat_completions": ChatCompletion,
    "create_response": ResponseDocument,
    "read_response": ResponseDocument,
    "cancel_response": ResponseDocument,
}
STREAMED = ("chat_completions", "create_response")
TEXT, BYTES = {"type": "string"}, {"type": "string", "format": "binary"}
SECURITY_SCHEMES = {
    "token": {
        "type": "http",
        "scheme": "bearer",
        "description": "A token that `peerage token create` made.",
    },
    "login": {
        "type": "apiKey",
        "in": "cookie",
        "name": COOKIE,
        "description": "The cookie that the login page sets.",
    },
}


def operation_id(route: APIRoute) -> str:
    """Return the name of a route's function; generated clients use it as the operation's name."""
    return route.name


def openapi_document(app: FastAPI, *, needs_token: bool) -> Json:
    """Return the OpenAPI document of an app, with typed replies and security schemes."""
    document = get_openapi(
        title=app.title, version=app.version, summary=app.summary, routes=app.routes
    )
    every: set[type[BaseModel]] = {*DOCUMENT_BY_OPERATION.values(), ReplyModel, ProblemReply}
    references, definitions = models_json_schema(
        [(model, "serialization") for model in sorted(every, key=str)],
        ref_template="#/components/schemas/{model}",
    )
    components = document.setdefault("components", {})
    components.setdefault("schemas", {}).update(definitions.get("$defs", {}))
    components["securitySchemes"] = SECURITY_SCHEMES
    schema_by_model = {model: schema for (model, _), schema in references.items()}
    security: list[Json] = [{name: []} for name in SECURITY_SCHEMES]
    security += [] if needs_token else [{}]
    for methods in document["paths"].values():
        for operation in methods.values():
            name, replies = operation["operationId"], operation["responses"]
            operation["security"] = [] if name in OPEN_OPERATIONS else security
            if "default" in replies:
                problem = replies["default"]["content"][MEDIA_TYPE]
                problem["schema"] = schema_by_model[ProblemReply]
            if name in DOCUMENT_BY_OPERATION:
                success = next(reply for status, reply in replies.items() if status[0] == "2")
                schema = schema_by_model[DOCUMENT_BY_OPERATION[name]]
                success.setdefault("content", {})["application/json"] = {"schema": schema}
            if name in STREAMED:
                replies["200"]["content"]["text/event-stream"] = {}
            for media_type, content in replies.get("200", {}).get("content", {}).items():
                if not content.get("schema"):
                    is_json, is_text = media_type.endswith("json"), media_type.startswith("text/")
                    usual = schema_by_model[ReplyModel] if is_json else TEXT if is_text else BYTES
                    content["schema"] = usual
    return document
