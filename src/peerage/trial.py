"""Try a seat: does it answer, at what price, and does it return the code of a tiny ballot?"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from peerage import config
from peerage.config import OPENAI_URL
from peerage.errors import PeerageError
from peerage.events import AskedAgain, Failed, Reviewed, read_event
from peerage.providers.calling import PING_S, Caller, ping
from peerage.providers.money import PER_TOKEN, Price
from peerage.session import ModelCaller, SessionConfig, SessionSpec, run
from peerage.types import Event, Failure, Query, ScoringOptions, Seat

QUESTION = "What is two plus two?"
ANSWERS = {"first": "Four.", "second": "Five."}
BY_SCHEMA = "returns a ballot's code by schema"
BY_ITSELF = "returns a ballot's code by itself"
SECOND = "returns a ballot's code after a second chance"
NOT_AT_ALL = "does not return a ballot's code"
NO_CODE = 'Its reviews will not count: drop "review" from its roles, or set seal = "preferred".'
FIXES = {
    "connection": "Check base_url, and that the server runs.",
    "timeout": "Check base_url, or raise timeout_s.",
    "rate_limited": "Wait, or lower max_concurrency.",
    "bad_request": "Check model: the endpoint does not know it or refuses the request.",
    "not_json": "Check base_url: the server there is not an OpenAI-compatible API.",
    "unpriced": "Give the seat price_in and price_out, or drop budget_usd.",
}
UNKNOWN_PRICE = "Set price_in and price_out (0 where it is free), so that a budget can be kept."


class NoLog:
    """A log that takes every event and keeps none."""

    def append(self, event: Event, epoch: int = 0) -> asyncio.Future[None]:  # noqa: ARG002 - as every log
        durable = asyncio.get_running_loop().create_future()
        durable.set_result(None)
        return durable


async def try_sealed_ballot(caller: ModelCaller, seat: Seat) -> str:
    """Hold a session of one review with this seat, and say how it returned the code, or why not."""
    reviewer = replace(seat, roles=("review",))
    config = SessionConfig((reviewer,), ScoringOptions(audit=False), verdict="none")
    spec = SessionSpec("trial", Query(QUESTION), "0", 0, answers=ANSWERS)
    asked_again = False
    session = run(spec, config, caller, NoLog(), clock=lambda: 0.0)
    async for event in session:
        match read_event(event):
            case AskedAgain():
                asked_again = True
            case Failed() as failed:
                return f"gave no review: {failed.kind}, {failed.message}"
            case Reviewed(review=reading) if reading is not None and reading.abstained:
                return f"{NOT_AT_ALL} ({reading.abstained})"
    if asked_again:
        return SECOND
    return BY_SCHEMA if caller.can_constrain(seat) else BY_ITSELF


@dataclass(frozen=True, slots=True)
class SeatCheck:
    """Whether a seat works; the fix is empty where nothing is wrong."""

    ok: bool
    finding: str
    fix: str = ""
    calls: str = ""  # the model, and where it is
    price: str = ""


async def check_seat(caller: Caller, seat: Seat) -> SeatCheck:
    """Ask a seat for one word and, if it reviews, for a tiny sealed ballot; return the result."""
    calls = _calls(seat)
    try:
        price = _price(caller.channel(seat).price)
        reply = await ping(caller, seat)
    except TimeoutError:
        late = f"no reply in {PING_S:.0f} s; {calls}"
        return SeatCheck(False, late, FIXES["timeout"], calls)
    except PeerageError as error:
        return SeatCheck(False, error.message, error.hint or "Correct the seat.", calls)
    if isinstance(reply, Failure):
        failed = f"{reply.kind}: {reply.message}; {calls}; {price}"
        fix = _key_fix(seat) if reply.kind == "unauthorized" else FIXES.get(reply.kind, "")
        return SeatCheck(False, failed, fix, calls, price)
    can = "held to a schema" if caller.can_constrain(seat) else "free text only"
    variable = config.key_name(seat)
    unset = variable and config.secret(variable) is None
    fixes = [f"{variable} is not set: it answered without a key."] if unset else []
    fixes += [UNKNOWN_PRICE] if caller.channel(seat).price is None else []
    fix = " ".join(fixes)
    finding = f"{calls}; {price}; answers in {reply.latency_ms or 0:.0f} ms; {can}"
    if "review" in seat.roles:
        sealed = await try_sealed_ballot(caller, seat)
        finding = f"{finding}; {sealed}"
        fix = fix or ("" if sealed in (BY_SCHEMA, BY_ITSELF, SECOND) else NO_CODE)
    return SeatCheck(True, finding, fix, calls, price)


def _key_fix(seat: Seat) -> str:
    """Return the fix for a seat whose key is missing or refused, with its variable's name."""
    variable = config.key_name(seat)
    if not variable:
        return "Put its key in a variable, and write that variable's name as api_key_env."
    if config.secret(variable) is None:
        return f"Set {variable} to the key, as in: export {variable}=…"
    return f"The key in {variable} is not accepted: set a valid one."


def _calls(seat: Seat) -> str:
    """Return the model of a seat, and where it is."""
    model = seat.model or "a model without a name"
    places = {
        "openai": f"{model} at {seat.base_url or OPENAI_URL}",
        "local": f"{model} in this process",
        "simulated": "no model: it is simulated",
    }
    return places.get(seat.provider, f"{model} by {seat.provider}")


def _price(price: Price | None) -> str:
    if price is None:
        return "price unknown"
    first = price.steps[0]
    if not (first.token_in or first.token_out):
        return "free"
    in_, out = first.token_in / PER_TOKEN, first.token_out / PER_TOKEN
    more = ", more for long prompts" if len(price.steps) > 1 else ""
    return f"${in_:g} in, ${out:g} out per million tokens{more}"
