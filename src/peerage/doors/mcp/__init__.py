"""The council for agents: tools and resources over the Model Context Protocol.

Agents give up on a call after about a minute, so `ask` answers within the given time: with
the verdict, or with the id of a session that continues and can be read later.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator
from contextlib import aclosing
from functools import reduce
from importlib.metadata import version
from operator import or_
from typing import Annotated, Any, Literal

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import ToolAnnotations
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
    create_model,
)
from pydantic.fields import FieldInfo
from starlette.requests import HTTPConnection
from starlette.types import Receive, Scope, Send

from peerage.config.checks import SENTENCES
from peerage.doors.http.access import require_scope
from peerage.doors.render.phrases import progress_line
from peerage.errors import PeerageError, meant, shown
from peerage.reports.options import (
    BOARD_OPTIONS,
    AuditOptions,
    RingsOptions,
    ScoreOptions,
    SessionsOptions,
)
from peerage.reports.sessions import ranking_document
from peerage.service import Service, SessionRequest
from peerage.types import Event
from peerage.view import SessionView

MAX_WAIT_S = 600.0
PROGRESS_EVERY_S = 5.0
INSTRUCTIONS = (
    "Peerage puts a question to several models, which review each other blind. `ask` returns the "
    "verdict; if the status is deliberating, call `session` with the id. `verdict` is a yes or no."
)
READS = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
CALLS_MODELS = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=True)
Wait = Annotated[
    float,
    Field(ge=0, le=MAX_WAIT_S, description="Seconds to wait for the end of the session."),
]
Ballots = Annotated[
    Any,
    WithJsonSchema({"anyOf": [{"type": "object"}, {"type": "array"}]}),
    Field(
        description='Rankings by name, [["m1", "m2"], …] or {"ann": ["m1", "m2"]}; a session '
        "(responses, label_to_model, rankings) or a list of them; or rows of reviews."
    ),
]


class RankedAnswer(BaseModel):
    """One candidate of a session."""

    model: str
    rank: int | None = Field(description="Null if the rule has no value for it.")
    share: float = Field(description="The share of rivals that reviewers put below it.")
    votes: int
    possible: int | None = Field(description="The number of reviewers who could vote for it.")
    confidence: str = Field(description="high, medium or low: the share of possible votes cast.")


class SessionAnswer(BaseModel):
    """The result of a session so far."""

    status: str = Field(description="deliberating, done, no_quorum, cancelled or out_of_budget.")
    session_id: str
    verdict: str = ""
    approved: bool | None = Field(default=None, description="Of a yes-or-no verdict.")
    by: str = ""
    note: str = ""
    ranking: list[RankedAnswer] = []
    dissent: list[str] = []
    failed: list[str] = []
    cost_usd: float | None = None
    unpriced_calls: int = 0
    progress: str = ""


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


class Document(BaseModel):
    """A document with named parts."""

    model_config = ConfigDict(extra="allow")


class PlainServer(MCPServer):
    """A server that reports a wrong argument of a tool in one sentence."""

    async def call_tool(self, name: str, arguments: dict[str, Any], *context: Any) -> Any:
        tool = self._tool_manager.get_tool(name)
        known = tool.parameters["properties"] if tool else arguments
        if unknown := [one for one in arguments if one not in known]:
            raise ToolError(f"there is no argument {shown(unknown[0])}. {meant(unknown[0], known)}")
        try:
            return await super().call_tool(name, arguments, *context)
        except ToolError as error:
            cause = error.__cause__
            if isinstance(cause, ValidationError):
                raise ToolError(_wrong_argument(cause)) from None
            if isinstance(cause, PeerageError):
                raise ToolError(str(cause)) from None
            raise


def _wrong_argument(error: ValidationError) -> str:
    """Return which argument is wrong first, and what it should be."""
    first = error.errors(include_url=False)[0]
    kind, (argument, *path) = first["type"], first["loc"]
    name = str(path[0] if argument == "options" and path else argument)
    if kind == "missing":
        return f"{name} is missing."
    if kind == "extra_forbidden":
        return f"there is no option {shown(name)}. {meant(name, BoardArguments.model_fields)}"
    sentence = SENTENCES.get(kind, "cannot be {value}.")
    return f"{name} {sentence.format(value=shown(first['input']), **first.get('ctx', {}))}"


def create_server(service: Service) -> MCPServer:
    """Create the MCP server of a council."""
    server = PlainServer(
        "peerage",
        version=version("peerage"),
        instructions=INSTRUCTIONS,
        log_level="WARNING",
    )
    _add_sessions(server, service)
    _add_reports(server, service)
    _add_resources(server, service)
    return server


def http_endpoint(server: MCPServer) -> McpEndpoint:
    """Return the server over streamable HTTP; the app checks hosts, origins and tokens."""
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    server.streamable_http_app(transport_security=security)
    return McpEndpoint(server)


class McpEndpoint:
    """An ASGI app that passes requests of clients that may run sessions to an MCP server."""

    def __init__(self, server: MCPServer) -> None:
        self.server = server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await require_scope("run")(HTTPConnection(scope))
        await self.server.session_manager.handle_request(scope, receive, send)


# -- sessions ----------------------------------------------------------------------------------


def _add_sessions(server: MCPServer, service: Service) -> None:
    @server.tool(annotations=CALLS_MODELS)
    async def ask(
        question: str,
        ctx: Context,
        wait_s: Wait = 45,
        seats: list[str] | None = None,
        category: str = "",
    ) -> SessionAnswer:
        """Put a question to the council of models, and get its verdict, ranking and dissent.

        If the council takes longer than wait_s, the status is "deliberating"; call `session`
        with the session_id for the rest.
        """
        chosen = tuple(seats or ())
        return await _start(service, wait_s, ctx, query=question, seats=chosen, category=category)

    @server.tool(annotations=CALLS_MODELS)
    async def verdict(claim: str, ctx: Context, wait_s: Wait = 45) -> SessionAnswer:
        """Ask the council to approve or reject a claim, a change or a plan."""
        return await _start(service, wait_s, ctx, query=claim, verdict="binary")

    @server.tool(annotations=READS)
    async def session(id: str, ctx: Context, wait_s: Wait = 45) -> SessionAnswer:
        """Read a session by its id; wait for it if it is still running."""
        return await _follow(service, await service.full_id(id), wait_s, ctx)


async def _start(service: Service, wait_s: float, ctx: Context, **request: Any) -> SessionAnswer:
    id_ = await service.start(SessionRequest(**request))
    return await _follow(service, id_, wait_s, ctx)


async def _follow(service: Service, id_: str, wait_s: float, ctx: Context) -> SessionAnswer:
    """Return the result of a session when it ends, or its progress after the time limit."""
    view, n_told, latest = SessionView(service.settings), 0, "the council is asked"
    try:
        watched = service.watch(id_, every_s=PROGRESS_EVERY_S)
        async with asyncio.timeout(wait_s), aclosing(watched) as batches:
            async for events in batches:
                for line in _lines(view, events) if events else (latest,):
                    if line is not None:
                        latest, n_told = line, n_told + 1
                        await ctx.report_progress(n_told, message=line)
    except TimeoutError:
        return SessionAnswer(status="deliberating", session_id=id_, progress=latest)
    return session_answer(view)


def _lines(view: SessionView, events: Iterable[Event]) -> Iterator[str | None]:
    for event in events:
        view.see(event)
        yield progress_line(view, event)


def session_answer(view: SessionView) -> SessionAnswer:
    """Return a session as the result of a tool."""
    session = view.session
    verdict = session.verdict
    return SessionAnswer(
        status=session.status or "deliberating",
        session_id=session.id,
        verdict=view.conclusion,
        approved=verdict.approved if verdict else None,
        by=verdict.by if verdict else "",
        note=verdict.note if verdict else "",
        ranking=[RankedAnswer(**row) for row in ranking_document(session)],
        dissent=[f"{d.reviewer}: {d.quote}" for d in verdict.dissent] if verdict else [],
        failed=[f"{f.seat} could not {f.stage}: {f.message}" for f in session.failures],
        cost_usd=session.cost_usd,
        unpriced_calls=session.unpriced_calls,
    )


# -- boards and audits -------------------------------------------------------------------------


def _add_reports(server: MCPServer, service: Service) -> None:
    reports = service.reports

    async def read(function: Any, *args: Any) -> Document:
        return Document(**await _document(service, function, *args))

    @server.tool(annotations=READS)
    async def score(ballots: Ballots, options: ScoreOptions | None = None) -> Document:
        """Score ballots from any source; several sessions are under `sessions`. Calls no model."""
        scored = await service.read(reports.score, ballots, options or ScoreOptions())
        documents = [_plain(one.document()) for one in scored]
        return Document(**(documents[0] if len(documents) == 1 else {"sessions": documents}))

    @server.tool(annotations=READS)
    async def board(board: BoardName = "models", options: BoardArguments | None = None) -> Document:
        """Return a leaderboard with intervals: models, contributors, reviewers or items."""
        values = options.model_dump(exclude_none=True) if options else {}
        # An option that this board does not have is refused.
        return await read(reports.board, BOARD_OPTIONS[board](**values))

    @server.tool(annotations=READS)
    async def audit(options: AuditOptions | None = None, session_id: str = "") -> Document:
        """Report biases of the reviewers (length, position, self-preference) with intervals."""
        if session_id:
            return await read(reports.audit_session, session_id)
        return await read(reports.audit, options or AuditOptions())

    @server.tool(annotations=READS)
    async def rings(options: RingsOptions | None = None) -> Document:
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


# -- resources ---------------------------------------------------------------------------------


def _add_resources(server: MCPServer, service: Service) -> None:
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
