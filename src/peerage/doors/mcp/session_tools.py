"""The tools that start, read and stop sessions."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Iterator
from contextlib import aclosing
from functools import partial
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.types import ToolAnnotations
from pydantic import BaseModel, ConfigDict, Field

from peerage.config.given import for_clients, takes
from peerage.config.settings import CouncilSettings, VerdictKind
from peerage.doors.render.phrases import progress_line
from peerage.doors.running_calls import CallKey, RunningCalls
from peerage.errors import InputError, NotFoundError, shown
from peerage.reports.session_options import GivenOptions
from peerage.reports.sessions import ranking_document
from peerage.service import Service, asking_token
from peerage.session_requests import EarlierTurn, SessionRequest
from peerage.types import Event
from peerage.view import SessionView

MAX_WAIT_S = 600.0
PROGRESS_EVERY_S = 5.0
MAX_NAME = 200
INTERRUPTED = (
    "The process that ran this session stopped, and no other has continued it. Its answers and "
    "reviews so far are in the resource peerage://sessions/{id}."
)
READS = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
CALLS_MODELS = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=True)
STOPS = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)


class GivenAnswer(BaseModel):
    """An answer that the council judges."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=MAX_NAME, description="Name of the answer.")
    text: str = Field(default="", description="The whole answer.")
    messages: list[dict[str, Any]] = Field(
        default=[],
        description="Instead of a text: messages in OpenAI's format, with tool calls and their "
        "results.",
    )


Wait = Annotated[
    float,
    Field(
        ge=0,
        le=MAX_WAIT_S,
        description="Seconds to wait for the end of the session; stay below your own time limit. "
        "A session that takes longer continues, and `session` reads it.",
    ),
]
SessionId = Annotated[str, Field(description="The session_id that `ask` or `verdict` returned.")]
Text = Annotated[
    str,
    Field(
        description="Material that the models need, such as code, a document or a log. They see "
        "this text and the question, and nothing else of your conversation or files."
    ),
]
Answers = Annotated[
    list[GivenAnswer] | None,
    Field(
        description="Drafts to judge, at least two, instead of asking the seats for answers. The "
        "seats review these drafts without seeing their names, and the verdict is about them."
    ),
]
Images = Annotated[
    list[str] | None,
    Field(
        description="Images of the question, each a data URL (data:image/png;base64,…) or an http "
        "link. Seats that can see get them; the others are told that there are images."
    ),
]
Seats = Annotated[
    list[str] | None,
    Field(description="Ask only these seats; by default all seats. Fewer seats cost less."),
]
Kind = Annotated[
    VerdictKind | None,
    Field(
        description="How the session ends: synthesis (the chair writes one answer), debate (the "
        "sides and the verdict), binary (approved or rejected), tie_breaker (the best answer), "
        "none (only the ranking). By default, as the council is configured."
    ),
]
Budget = Annotated[
    float | None,
    Field(
        ge=0,
        description="The most that this session may cost, in USD; it is never exceeded. By "
        "default, the configured limit applies, if there is one.",
    ),
]


ITS_OWN = ("verdict", "budget_usd")  # parameters of the tool itself


@takes(CouncilSettings, [n for n in for_clients(CouncilSettings) if n not in ITS_OWN])
class AskToolOptions(GivenOptions):
    """Further options of a session; by default, as the council is configured."""


Options = Annotated[AskToolOptions | None, Field(description=AskToolOptions.__doc__)]
After = Annotated[
    str,
    Field(
        description="The session_id of an earlier, finished session that this question follows up: "
        "the models see its question and its verdict."
    ),
]


class RankedAnswer(BaseModel):
    """One candidate of a session."""

    model: str = Field(description="The seat, or the name of a given answer.")
    rank: int | None = Field(description="Null if the rule has no value for it.")
    share: float = Field(description="The share of rivals that reviewers ranked below it.")
    votes: int = Field(description="The number of reviewers who voted on it.")
    possible: int | None = Field(description="The number of reviewers who could vote for it.")
    confidence: str = Field(description="high, medium or low: the share of possible votes cast.")


class SessionAnswer(BaseModel):
    """The result of a session so far."""

    status: str = Field(
        description="deliberating (it continues), done, no_quorum, cancelled, out_of_budget, or "
        "interrupted (its process stopped, and no other continues it)."
    )
    session_id: str = Field(description="For the tools `session` and `cancel`.")
    verdict: str = Field(default="", description="The answer of the council.")
    approved: bool | None = Field(default=None, description="For a binary verdict: the decision.")
    by: str = Field(default="", description="The seat that wrote the verdict.")
    note: str = Field(default="", description="A limitation of the verdict, if there is one.")
    ranking: list[RankedAnswer] = Field(default=[], description="The answers, the best first.")
    dissent: list[str] = Field(default=[], description="Objections of reviewers to the verdict.")
    failed: list[str] = Field(default=[], description="Seats that failed, and why.")
    cost_usd: float | None = Field(default=None, description="Cost of all calls so far.")
    unpriced_calls: int = Field(default=0, description="Calls whose price is not known.")
    progress: str = Field(default="", description="The last step, while it is deliberating.")


def add_session_tools(server: MCPServer, service: Service, calls: RunningCalls) -> None:
    """Add the tools `ask`, `verdict`, `session` and `cancel`."""

    @server.tool(annotations=CALLS_MODELS)
    async def ask(
        question: Annotated[
            str,
            Field(
                min_length=1,
                description="The question, complete in itself: the models see no conversation.",
            ),
        ],
        ctx: Context,
        context: Text = "",
        answers: Answers = None,
        images: Images = None,
        verdict: Kind = None,
        budget_usd: Budget = None,
        after: After = "",
        seats: Seats = None,
        category: Annotated[
            str, Field(description="Category of the question, for boards; it may set the rubric.")
        ] = "",
        options: Options = None,
        wait_s: Wait = 45,
    ) -> SessionAnswer:
        """Put a question to a council of models, and get its verdict, ranking and dissent.

        The models answer, review each other blind, and a chair writes the verdict. If this takes
        longer than wait_s, the status is "deliberating": call `session` with the session_id.
        Cancelling the call stops the session, unless the same call is made again within a few
        seconds.
        """
        request = _request(
            question,
            context,
            answers=_answers_by_name(answers),
            images=tuple(images or ()),
            **(options.model_dump(exclude_none=True) if options else {}),
            verdict=verdict,
            budget_usd=budget_usd,
            after=after,
            seats=tuple(seats or ()),
            category=category,
        )
        return await _start(service, calls, request, wait_s, ctx)

    @server.tool(annotations=CALLS_MODELS)
    async def verdict(
        claim: Annotated[
            str, Field(min_length=1, description="The claim, change or plan to decide on.")
        ],
        ctx: Context,
        context: Text = "",
        budget_usd: Budget = None,
        seats: Seats = None,
        wait_s: Wait = 45,
    ) -> SessionAnswer:
        """Ask the council to approve or reject a claim, a change or a plan."""
        chosen = tuple(seats or ())
        request = _request(claim, context, verdict="binary", budget_usd=budget_usd, seats=chosen)
        return await _start(service, calls, request, wait_s, ctx)

    @server.tool(annotations=READS)
    async def session(id: SessionId, ctx: Context, wait_s: Wait = 45) -> SessionAnswer:
        """Read a session by its id; wait for it if it is still running.

        Cancelling this call does not stop the session; `cancel` does.
        """
        return await _follow(service, await service.full_id(id), wait_s, ctx)

    @server.tool(annotations=STOPS)
    async def cancel(id: SessionId) -> SessionAnswer:
        """Stop a session, so that it costs no more; its replies so far stay in the store."""
        session_id = await service.full_id(id)
        is_stopped = await service.cancel(session_id)
        answer = await _read(service, session_id)
        if is_stopped or answer.status != "deliberating":
            return answer
        raise InputError(f"session {shown(session_id)} is running in another process.")


def _request(question: str, context: str, **fields: Any) -> SessionRequest:
    """Return a session on a question; all seats see the context before the question."""
    earlier = (EarlierTurn(role="user", content=context),) if context.strip() else ()
    return SessionRequest(query=question, earlier=earlier, **fields)


def _answers_by_name(answers: list[GivenAnswer] | None) -> dict[str, Any] | None:
    if answers is None:
        return None
    by_name = {one.name: one.messages or one.text for one in answers}
    if len(by_name) < len(answers):
        raise InputError(
            "answers: two answers have the same name.", hint="Give each answer a different name."
        )
    return by_name


async def _start(
    service: Service, calls: RunningCalls, request: SessionRequest, wait_s: float, ctx: Context
) -> SessionAnswer:
    """Start a session, or join the one that an equal call, which was cancelled, has started.

    If this call returns before the session ends, the session continues; if the call is cancelled,
    the session ends.
    """
    token = asking_token.get()
    digest = hashlib.sha256(request.model_dump_json().encode()).hexdigest()
    call = CallKey(f"{token.id if token else ''}|mcp|{digest}", digest)
    waited = await calls.join(call, partial(service.start, request))
    is_answered = False
    try:
        answer = await _follow(service, waited.id, wait_s, ctx)
        is_answered = True
        return answer
    finally:
        calls.leave(waited, runs_on=is_answered)


async def _follow(service: Service, id_: str, wait_s: float, ctx: Context) -> SessionAnswer:
    """Return the result of a session when it ends, or its progress after the time limit."""
    if await service.is_interrupted(id_):
        return await _read(service, id_)
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


async def _read(service: Service, id_: str) -> SessionAnswer:
    """Return the result of a session from its current log."""
    events = await service.read(service.store.events, id_)
    if not events:
        raise NotFoundError(f"there is no session {shown(id_)}.")
    view = SessionView(service.settings)
    for event in events:
        view.see(event)
    answer = session_answer(view)
    if answer.status == "deliberating" and await service.is_interrupted(id_):
        return answer.model_copy(
            update={"status": "interrupted", "note": INTERRUPTED.format(id=id_)}
        )
    return answer


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
