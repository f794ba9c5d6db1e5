"""Short requests of chat clients: one seat answers, and no session is stored."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, replace

from peerage.bills import CallMade
from peerage.council.prompts import Page, ask_for_json, render_again
from peerage.errors import BudgetError, ConfigError
from peerage.messages import query_for
from peerage.providers import Call, OnText, Reply
from peerage.providers.calling import Caller, check_ready, refuse_unpriced
from peerage.providers.money import total_usage, usd
from peerage.seating import check_question, follow_up, how_to_seat
from peerage.service import NoVerdictError, Service, asking_token
from peerage.session_requests import SessionRequest
from peerage.stores import full_id
from peerage.structured import StructuredRead, read_structured
from peerage.text import valid_text
from peerage.types import OutputFormat, Query, Seat, Turn, Usage, is_cut_off
from peerage.view import SessionView

STAGE = "quick"  # name of these calls in the metrics
MAX_CALLS_FOR_JSON = 3  # two calls cost up to three: the second repeats the first, with its reply


@dataclass(frozen=True, slots=True)
class QuickReply:
    """The reply of one seat."""

    seat: str
    text: str
    usage: Usage
    is_cut_off: bool = False
    fault: str = ""  # why the text is not the JSON that was asked for


async def quick_reply(
    service: Service,
    request: SessionRequest,
    max_tokens: int | None = None,
    on_text: OnText | None = None,
) -> QuickReply:
    """Return the reply of the seat for short calls; a caller's token with a budget pays for it."""
    seat = service.settings.quick_seat
    if seat is None:
        raise ConfigError("there are no seats to ask.", hint=how_to_seat(service.settings))
    service.check_room()
    query = await service.read(_query, service, request)
    check_question(query)
    check_ready([seat])
    call = _first_call(service.council.caller, seat, query, max_tokens)
    budget_usd, token = request.budget_usd, asking_token.get()
    if budget_usd is None and (token is None or token.budget_usd is None):
        return await _answer(service, service.council.caller, call, on_text)
    refuse_unpriced([seat])
    if budget_usd is None:
        n_calls = 1 if query.output is None else MAX_CALLS_FOR_JSON
        budget_usd = usd(service.council.caller.channel(seat).max_cost(call)) * n_calls
    if token is not None and token.budget_usd is not None:
        await service.charge(token, budget_usd)
    caller = service.council.caller.within(budget_usd)
    try:
        return await _answer(service, caller, call, on_text)
    finally:
        if token is not None and token.budget_usd is not None:
            await service.give_back(token.id, max(budget_usd - caller.budget.spent_usd, 0.0))


def _query(service: Service, request: SessionRequest) -> Query:
    """Return the question with the conversation before it."""
    earlier = tuple(turn.turn for turn in request.earlier)
    text, system, images = valid_text(request.query), request.system, request.images
    query = Query(text, "", request.category, system, earlier, request.output, images=images)
    if not request.after:
        return query
    events = service.store.events(full_id(service.store, request.after))
    return follow_up(query, SessionView.of(events, service.settings))


def _first_call(caller: Caller, seat: Seat, query: Query, max_tokens: int | None) -> Call:
    page, output = _page(query_for(seat, query)), query.output
    constrains = output is not None and caller.can_constrain(seat)
    return Call(
        seat=seat,
        stage="answer",
        prompt=page.text,
        key=f"{STAGE}|{secrets.token_hex(8)}",
        query=query,
        schema=json.loads(output.schema) if output is not None and constrains else None,
        strict=output is not None and output.strict,
        max_tokens=min(seat.max_tokens, max_tokens or seat.max_tokens),
    )


def _page(query: Query) -> Page:
    page = Page(query.text)
    if query.output is None:
        return page
    return ask_for_json(page, query.output.schema, query.output.function)


async def _answer(
    service: Service, caller: Caller, call: Call, on_text: OnText | None
) -> QuickReply:
    """Return the reply to a call; if it is not the requested JSON, ask once more."""
    output = call.query.output
    reply = await _reply(service, caller, call, on_text if output is None else None)
    if output is None:
        is_cut = is_cut_off(reply.finish_reason)
        return QuickReply(call.seat.name, reply.text, reply.usage, is_cut)
    reading, usages = _read(reply, output), [reply.usage]
    if reading.fault:
        problem = render_again(_page(call.query), reading.fault, reading.detail)
        turns = Turn("assistant", reply.text), Turn("user", problem)
        again = replace(call, key=f"{call.key}|again", follow_up=turns)
        reply = await _reply(service, caller, again, None)
        reading, usages = _read(reply, output), [*usages, reply.usage]
    return QuickReply(call.seat.name, reading.text, total_usage(usages), fault=reading.detail)


def _read(reply: Reply, output: OutputFormat) -> StructuredRead:
    return read_structured(reply.text, output.schema, is_cut=is_cut_off(reply.finish_reason))


async def _reply(service: Service, caller: Caller, call: Call, on_text: OnText | None) -> Reply:
    """Return the reply to a call and report it; raise an error if it failed."""
    reply = await caller.call(call, on_text)
    for observer in service.call_observers:
        observer(CallMade(call.seat.name, STAGE, 0, reply.usage))
    if isinstance(reply, Reply):
        return reply
    if reply.kind == "budget":
        raise BudgetError(reply.message)
    raise NoVerdictError(f"{call.seat.name}: {reply.message} ({reply.kind})")
