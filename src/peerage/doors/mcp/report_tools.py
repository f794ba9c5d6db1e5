"""The tools and resources for reports: scores, boards, audits, gates, rings, sessions."""

from __future__ import annotations

import json
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal

from mcp.server import MCPServer
from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema, create_model
from pydantic.fields import FieldInfo

from peerage.doors.mcp.session_tools import CALLS_MODELS, READS
from peerage.doors.render.gate_views import verdict_sentences
from peerage.hosted_seasons import rejudge_season
from peerage.reports.options import (
    BOARD_OPTIONS,
    AuditOptions,
    GateOptions,
    RingsOptions,
)
from peerage.reports.session_options import RejudgeOptions, ScoreOptions, SessionsOptions
from peerage.service import Service

RANKING = {"type": "array", "items": {"type": "string"}}
Ballots = Annotated[
    Any,
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "object"},
                {"type": "array", "items": {"anyOf": [RANKING, {"type": "object"}]}},
            ]
        }
    ),
    Field(
        description='Rankings by name, [["m1", "m2"], …] or {"ann": ["m1", "m2"]}; a session '
        "(responses, label_to_model, rankings) or a list of them; or rows of reviews."
    ),
]
BoardName = Literal["models", "contributors", "reviewers", "items"]


def _arguments() -> Any:
    """Return the options of all boards as optional fields; the description names the boards."""
    arguments = {}
    for name in dict.fromkeys(name for one in BOARD_OPTIONS.values() for name in one.model_fields):
        fields = {
            board: options.model_fields[name]
            for board, options in BOARD_OPTIONS.items()
            if name in options.model_fields
        }
        kinds: list[Any] = [field.annotation for field in fields.values()]
        described = next(iter(fields.values())).description or ""
        where = "" if len(fields) == len(BOARD_OPTIONS) else f" Board of {', '.join(fields)}."
        described_field = FieldInfo(default=None, description=f"{described}{where}")
        arguments[name] = (reduce(or_, kinds) | None, described_field)
    return arguments


BoardArguments: Any = create_model(
    "BoardArguments", __config__=ConfigDict(extra="forbid"), **_arguments()
)


class ToolDocument(BaseModel):
    """A JSON object with any fields."""

    model_config = ConfigDict(extra="allow")


class GateDocument(ToolDocument):
    """The verdict on a candidate, with its evidence."""

    sentence: str  # one for each candidate, the worst first
    verdict: Literal["better", "same", "not_worse", "worse", "undecided"]
    exit_code: int
    queries: int | None = None
    queries_needed: int | None = None
    measures: list[dict[str, Any]] | None = None
    candidates: list[dict[str, Any]] | None = None  # if there are several


def add_report_tools(server: MCPServer, service: Service) -> None:
    """Add the tools `score`, `board`, `audit`, `gate`, `rejudge` and `rings`."""
    reports = service.reports

    async def read(function: Any, *args: Any) -> ToolDocument:
        return ToolDocument(**await _document(service, function, *args))

    @server.tool(annotations=READS)
    async def score(
        ballots: Ballots,
        options: Annotated[
            ScoreOptions | None, Field(description="How the ballots are scored.")
        ] = None,
    ) -> ToolDocument:
        """Score ballots from any source; several sessions are under `sessions`. Calls no model."""
        scored = await service.read(reports.score, ballots, options or ScoreOptions())
        documents = [_plain(one.document()) for one in scored]
        return ToolDocument(**(documents[0] if len(documents) == 1 else {"sessions": documents}))

    @server.tool(annotations=READS)
    async def board(
        board: Annotated[BoardName, Field(description="The kind of board.")] = "models",
        options: Annotated[
            BoardArguments | None, Field(description="Which reviews count, and how.")
        ] = None,
    ) -> ToolDocument:
        """Return a leaderboard with intervals: models, contributors, reviewers or items."""
        values = options.model_dump(exclude_none=True) if options else {}
        # An option that this board does not have is refused.
        return await read(reports.board, BOARD_OPTIONS[board](**values))

    @server.tool(annotations=READS)
    async def audit(
        options: Annotated[
            AuditOptions | None, Field(description="Which reviews the audit reads.")
        ] = None,
        session_id: Annotated[
            str, Field(description="Audit only this session; options are then ignored.")
        ] = "",
    ) -> ToolDocument:
        """Report biases of the reviewers (length, position, self-preference) with intervals."""
        if session_id:
            return await read(reports.audit_session, session_id)
        return await read(reports.audit, options or AuditOptions())

    @server.tool(annotations=READS)
    async def gate(
        options: Annotated[
            GateOptions,
            Field(description="The two models, the required evidence, and the reviews to use."),
        ],
    ) -> GateDocument:
        """Decide whether a candidate is worse than its base, from stored reviews. Calls no model.

        The verdict is better, same, not_worse, worse or undecided; `exit_code` is the exit code of
        `peerage gate`.
        """
        result = await service.read(reports.gate, options)
        document = _plain(result.document())
        sentence = " ".join(verdict_sentences(result))
        document |= {"sentence": sentence, "exit_code": result.exit_code()}
        return GateDocument(**document)

    @server.tool(annotations=CALLS_MODELS)
    async def rejudge(
        options: Annotated[
            RejudgeOptions,
            Field(description="The season and its judges; without judges no model is called."),
        ],
    ) -> ToolDocument:
        """Have other judges review the stored answers of a season; return the changes and the cost.

        Call it with dry_run first: it returns the number of calls and their cost. Reviews are
        stored as they arrive, so after a timeout the same call continues and pays for none twice.
        """
        return ToolDocument(**_plain((await rejudge_season(service, options)).document()))

    @server.tool(annotations=READS)
    async def rings(
        options: Annotated[
            RingsOptions | None, Field(description="Which opinions are searched.")
        ] = None,
    ) -> ToolDocument:
        """Find unexplained mutual praise among the people of a community, with evidence."""
        return await read(reports.rings, options or RingsOptions())


async def _document(service: Service, function: Any, *args: Any) -> dict[str, Any]:
    """Return the document of a report."""
    result = await service.read(function, *args)
    return _plain(result.document())


def _plain(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document with JSON types only."""
    plain: dict[str, Any] = json.loads(json.dumps(document, default=str))
    return plain


def add_resources(server: MCPServer, service: Service) -> None:
    """Add the resources: the latest sessions, one session in full, and the boards."""
    reports = service.reports

    async def read(function: Any, *args: Any) -> str:
        return json.dumps(await _document(service, function, *args))

    @server.resource("peerage://sessions", mime_type="application/json")
    async def sessions() -> str:
        """Return the latest sessions."""
        return await read(reports.sessions, SessionsOptions(limit=100))

    @server.resource("peerage://sessions/{id}", mime_type="application/json")
    async def session_record(id: str) -> str:
        """Return one session in full: question, answers, reviews, scores, verdict."""
        return json.dumps(_plain(await service.read(reports.session_document, id)))

    @server.resource("peerage://boards/{name}", mime_type="application/json")
    async def board_record(name: BoardName) -> str:
        """Return a board with default options: models, contributors, reviewers or items."""
        return await read(reports.board, BOARD_OPTIONS[name]())
