"""Sessions without a store: a trial of one seat, and estimates of sessions and seasons.

The trial calls one seat with a tiny ballot. An estimate runs the orchestrator like a real session,
but calls no model: replies are simulated, the same for the same question. The expected cost uses
the length of the prompts and the usual length of replies, with one call per vote; the upper bound
uses the token limit of each reply, with two calls per vote.
"""

from __future__ import annotations

import asyncio
import shlex
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast

from peerage import config
from peerage.config import OPENAI_URL
from peerage.config.settings import CouncilSettings
from peerage.errors import PeerageError
from peerage.events import AskedAgain, Failed, Reviewed, read_event
from peerage.providers import Call, OnText, OnWait, Reply, decides, providers
from peerage.providers.batch_endpoints import price_share
from peerage.providers.calling import Caller, ping, ping_s
from peerage.providers.command import describe_command
from peerage.providers.money import PER_TOKEN, Price, pico, price_of, usd
from peerage.providers.simulated import SimulatedProvider
from peerage.season import Progress, Season, SeasonPrompts, run_season
from peerage.session import run
from peerage.session_calls import ModelCaller
from peerage.session_config import SessionConfig, SessionSpec
from peerage.stores import Lease, Store
from peerage.types import Event, Failure, Query, Seat, Usage

# -- a trial of one seat -------------------------------------------------------------------------

QUESTION = "What is two plus two?"
ANSWERS = {"first": "Four.", "second": "Five."}
BY_SCHEMA = "returns a ballot's code (with a JSON schema)"
BY_ITSELF = "returns a ballot's code (without a JSON schema)"
BY_PROBABILITY = "answers a ballot by probabilities"
SECOND = "returns a ballot's code, but only when asked again"
NOT_AT_ALL = "does not return a ballot's code"
GOOD_BALLOTS = (BY_SCHEMA, BY_ITSELF, BY_PROBABILITY, SECOND)
NO_CODE = 'Its reviews will not count: remove "review" from its roles, or set seal = "preferred".'
FIXES = {
    "connection": "Check base_url, and that the server runs.",
    "timeout": "Check base_url, or raise timeout_s.",
    "rate_limited": "Wait, or lower max_concurrency.",
    "bad_request": "Check model: the endpoint does not know it, or refuses the request.",
    "not_json": "Check base_url: the server there is not an OpenAI-compatible API.",
    "unpriced": "Give the seat price_in and price_out, or remove budget_usd.",
}
LOG_IN = "Log in with the program itself, or list the variable that holds its key in pass_env."
UNKNOWN_CALL_PRICE = "Set price_call (0 for a subscription), so that a budget can be enforced."
UNKNOWN_PRICE = "Set price_in and price_out (0 if it is free), so that a budget can be enforced."


class NoLog:
    """A log that discards every event."""

    def append(self, event: Event, epoch: int = 0) -> asyncio.Future[None]:  # noqa: ARG002 - as in a log
        return _done()


async def try_sealed_ballot(caller: ModelCaller, seat: Seat) -> str:
    """Run a session with one review by this seat; return how it returned the code, or why not."""
    reviewer = replace(seat, roles=("review",))
    config = SessionConfig((reviewer,), CouncilSettings(audit=False, verdict="none"))
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
    if decides(seat):
        return BY_PROBABILITY
    return BY_SCHEMA if caller.can_constrain(seat) else BY_ITSELF


@dataclass(frozen=True, slots=True)
class SeatCheck:
    """Whether a seat works, what was found, and what to do about it."""

    ok: bool
    finding: str
    fix: str = ""
    calls: str = ""  # the model, and its address
    price: str = ""


async def check_seat(caller: Caller, seat: Seat) -> SeatCheck:
    """Ask a seat for one word and, if it reviews, for a tiny ballot; return the result."""
    calls = _calls(seat)
    try:
        price = _price(caller.channel(seat).price)
        reply = await ping(caller, seat)
    except TimeoutError as error:
        notes = getattr(error.__cause__, "__notes__", ())  # added by the provider
        late = "; ".join((f"no reply in {ping_s(seat):.0f} s", *notes, calls))
        return SeatCheck(False, late, _fix(seat, "timeout"), calls)
    except PeerageError as error:
        return SeatCheck(False, error.message, error.hint or "Correct the seat.", calls)
    if isinstance(reply, Failure):
        failed = f"{reply.kind}: {reply.message}; {calls}; {price}"
        return SeatCheck(False, failed, _fix(seat, reply.kind), calls, price)
    can = "supports JSON schemas" if caller.can_constrain(seat) else "free text only"
    can = "decision model" if decides(seat) else can
    variable = config.key_name(seat)
    unset = variable and config.secret(variable) is None
    fixes = [f"{variable} is not set: it answered without a key."] if unset else []
    if caller.channel(seat).price is None:
        fixes.append(UNKNOWN_CALL_PRICE if seat.provider == "command" else UNKNOWN_PRICE)
    finding = f"{calls}; {price}; answers in {reply.latency_ms or 0:.0f} ms; {can}"
    if "review" in seat.roles:
        sealed = await try_sealed_ballot(caller, seat)
        finding = f"{finding}; {sealed}"
        fixes = fixes if sealed in GOOD_BALLOTS else [NO_CODE, *fixes]
    return SeatCheck(True, finding, " ".join(fixes), calls, price)


def _fix(seat: Seat, kind: str) -> str:
    """Return what to do about a failure of this kind."""
    if seat.provider == "command":
        by_hand = f"Try it by hand: echo ready | {shlex.join(seat.command)}"
        return LOG_IN if kind == "unauthorized" else by_hand
    return _key_fix(seat) if kind == "unauthorized" else FIXES.get(kind, "")


def _key_fix(seat: Seat) -> str:
    """Return the fix for a seat whose key is missing or refused, with its variable's name."""
    variable = config.key_name(seat)
    if not variable:
        return "Put its key in a variable, and write that variable's name as api_key_env."
    if config.secret(variable) is None:
        return f"Set {variable} to the key, as in: export {variable}=…"
    return f"The key in {variable} is not accepted: set a valid one."


def _calls(seat: Seat) -> str:
    """Return the model of a seat, and its address."""
    if seat.provider == "command":
        return f"{seat.model}: {describe_command(seat)}" if seat.model else describe_command(seat)
    model = seat.model or "its default model"
    places = {
        "openai": f"{model} at {seat.base_url or OPENAI_URL}",
        "decisions": f"{model} at {seat.base_url or OPENAI_URL}",
        "local": f"{seat.model or 'the local model'}, in this process",
        "simulated": "no model: it is simulated",
    }
    return places.get(seat.provider, f"{model} by {seat.provider}")


def _price(price: Price | None) -> str:
    if price is None:
        return "price unknown"
    first = price.steps[0]
    by_call = f"${usd(price.call):g} per call" if price.call else ""
    if price.is_by_call:
        return by_call or "free"
    in_, out = first.token_in / PER_TOKEN, first.token_out / PER_TOKEN
    more = ", more for long prompts" if len(price.steps) > 1 else ""
    and_call = f", {by_call}" if by_call else ""
    return f"${in_:g} in, ${out:g} out per million tokens{more}{and_call}"


# -- estimates -----------------------------------------------------------------------------------

BYTES_PER_TOKEN = 4
TOKENS_AROUND = 16  # overhead of one call for its roles and turns
ANSWER_WORDS = 300
REPLY_TOKENS = {"answer": 400, "commit": 60, "review": 60, "conclude": 500}  # usual length
TOKENS_PER_ANSWER = 90  # of a review, for each answer on the ballot
CONCURRENCY = 64


@dataclass(slots=True)
class SeatEstimate:
    """The calls to one seat; costs are in picodollars, None if no price is known."""

    seat: Seat
    price: Price | None
    calls: Counter[str] = field(default_factory=Counter)  # by stage
    tokens_in: int = 0
    tokens_out: int = 0
    about: int = 0
    at_most: int = 0
    dearest_call: int = 0  # largest amount reserved for one call

    def add(self, call: Call, n_open: int, second_chance: bool) -> None:
        """Count a call; `n_open` of the answers in its prompt are not known yet."""
        tokens_in = call.n_bytes // BYTES_PER_TOKEN + TOKENS_AROUND
        n_shown = len(call.ballot.slots) if call.ballot else 0
        usual = REPLY_TOKENS[call.stage] + TOKENS_PER_ANSWER * n_shown
        tokens_out = 0 if call.questions else min(usual, call.max_tokens)
        self.calls[call.stage] += 1
        self.tokens_in += tokens_in
        self.tokens_out += tokens_out
        if self.price is not None:
            longest = tokens_in + n_open * max(0, call.max_tokens - REPLY_TOKENS["answer"])
            self.about += self.price.cost(tokens_in, tokens_out)
            self.at_most += self.price.bound(longest, max(tokens_out, call.max_tokens))
            self.dearest_call = max(self.dearest_call, self.price.call_bound(call))
            if call.code and second_chance and not call.follow_up:
                # The second call repeats the prompt, and adds the first reply and the form.
                longest += call.max_tokens + tokens_in
                self.at_most += self.price.bound(longest, max(tokens_out, call.max_tokens))

    @property
    def stages(self) -> tuple[str, ...]:
        """Return the stages to list; `commit` is listed only if it has calls."""
        return ("answer", *(["commit"] if self.calls["commit"] else []), "review", "conclude")

    def document(self) -> dict[str, Any]:
        """Return the estimate as plain JSON values."""
        priced = self.price is not None
        return {
            "seat": self.seat.name,
            "calls": self.calls.total(),
            **{stage: self.calls[stage] for stage in REPLY_TOKENS if stage in self.stages},
            "tokens_in": self.tokens_in,
            "tokens_out": self.tokens_out,
            "cost_usd": usd(self.about) if priced else None,
            "at_most_usd": usd(self.at_most) if priced else None,
        }


def batch_price_of(seat: Seat) -> Price | None:
    """Return the price of a seat's calls in batches, or None if it is unknown."""
    price = price_of(seat)
    return None if price is None else price.scale(price_share(seat))


class Estimator:
    """A stand-in for `Caller` that counts what would be sent, and simulates the replies."""

    def __init__(
        self, seats: Iterable[Seat], second_chance: bool = True, in_batches: bool = False
    ) -> None:
        self.second_chance = second_chance
        price = batch_price_of if in_batches else price_of
        self.by_seat = {seat.name: SeatEstimate(seat, price(seat)) for seat in seats}

    def can_constrain(self, seat: Seat) -> bool:
        return providers.get(seat.provider).constrains

    def wants_brief(self, seat: Seat) -> bool:
        return providers.get(seat.provider).wants_brief

    async def call(
        self,
        call: Call,
        on_text: OnText | None = None,  # noqa: ARG002 - a caller's signature
        on_wait: OnWait | None = None,  # noqa: ARG002
    ) -> Reply:
        shown = call.ballot.slots if call.ballot else ()
        n_open = sum(" (latent quality " in (slot.text or "") for slot in shown)
        self.by_seat[call.seat.name].add(call, n_open, self.second_chance)
        drawn = replace(call.seat, provider="simulated", options={"words": ANSWER_WORDS})
        # The key leaves out the session's id, which changes with every setting of the season.
        round_ = call.ballot.round if call.ballot else 0
        key = f"{call.query.text}|{call.stage}|{call.seat.name}|{round_}"
        reply = await SimulatedProvider(drawn).complete(replace(call, seat=drawn, key=key))
        return replace(reply, usage=Usage())


class _Unwritten(NoLog):
    """A view of a store that reads from it and discards all writes."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def claim(self, session_id: str, owner: str, length_s: float) -> Lease:
        return Lease(cast("Store", self), session_id, owner, 0, length_s)

    def release(self, lease: Lease) -> asyncio.Future[None]:  # noqa: ARG002
        return _done()

    async def wait_for_change(self, session_id: str, timeout_s: float) -> None: ...


def _done() -> asyncio.Future[None]:
    done = asyncio.get_running_loop().create_future()
    done.set_result(None)
    return done


@dataclass(frozen=True, slots=True)
class SessionEstimate:
    """The calls and cost of one session or more, by seat."""

    seats: tuple[SeatEstimate, ...]

    @property
    def n_calls(self) -> int:
        return sum(seat.calls.total() for seat in self.seats)

    @property
    def n_unpriced(self) -> int:
        return sum(seat.calls.total() for seat in self.seats if seat.price is None)

    @property
    def cost_usd(self) -> float:
        return usd(sum(seat.about for seat in self.seats))

    @property
    def at_most_usd(self) -> float:
        return usd(sum(seat.at_most for seat in self.seats))

    def document(self) -> dict[str, Any]:
        """Return the estimate as plain JSON values."""
        return {
            "dry_run": True,
            "calls": self.n_calls,
            "cost_usd": self.cost_usd,
            "at_most_usd": self.at_most_usd,
            "unpriced_calls": self.n_unpriced,
            "seats": [seat.document() for seat in self.seats],
        }


@dataclass(frozen=True, slots=True)
class SeasonEstimate(SessionEstimate):
    """The remaining calls and cost of a season, by seat."""

    progress: Progress

    def document(self) -> dict[str, Any]:
        """Return the estimate as plain JSON values."""
        progress = self.progress
        return {
            "sessions": progress.total,
            "finished": progress.reused,
            "to_extend": progress.extended,
            **SessionEstimate.document(self),
            "spent_usd": progress.earlier_cost_usd,
            "unreadable": dict(progress.unreadable),
        }


async def estimate_season(
    season: Season,
    prompts: SeasonPrompts,
    store: Store,
    seats: Iterable[Seat],
    *,
    in_batches: bool = False,
) -> SeasonEstimate:
    """Return the estimated calls of a season's unfinished or incomplete sessions."""
    estimator = Estimator(seats, season.config_for("").council.second_chance, in_batches)
    progress = Progress(prompts.n)
    await run_season(
        season,
        prompts,
        estimator,
        cast("Store", _Unwritten(store)),
        concurrency=CONCURRENCY,
        clock=lambda: 0.0,
        progress=progress,
    )
    return SeasonEstimate(tuple(estimator.by_seat.values()), progress)


async def estimate_session(
    seats: Iterable[Seat], spec: SessionSpec, config: SessionConfig, history: Sequence[Event] = ()
) -> tuple[SeatEstimate, ...]:
    """Return the estimated calls of the rest of one session, by seat."""
    estimator = Estimator(seats, config.council.second_chance)
    events = run(spec, config, estimator, NoLog(), clock=lambda: 0.0, history=history, extend=True)
    async for _ in events:
        pass
    return tuple(estimator.by_seat.values())


# -- money for the next session of a season ------------------------------------------------------


class SessionCosts:
    """The money to reserve for sessions of a season, from estimates and from costs so far."""

    def __init__(self, seats: Iterable[Seat], dearest_usd: float = 0.0) -> None:
        self._seats = tuple(seats)
        self._dearest_before = pico(dearest_usd)  # most expensive session of earlier runs
        self._dearest = self._dearest_before  # most expensive session of all runs
        self._dearest_call = 0  # most expensive call of the sessions so far
        self._ratio: float | None = None  # highest ratio of a session's cost to its estimate

    @property
    def one_more_usd(self) -> float:
        """Return the amount to reserve for one more session: the dearest one plus a call."""
        return usd(self._dearest + self._dearest_call)

    @asynccontextmanager
    async def admit(
        self, caller: Caller, spec: SessionSpec, config: SessionConfig, history: list[Event]
    ) -> AsyncIterator[Caller]:
        """Yield the caller for one session, once there is money for all of it.

        Until one session has ended, each session reserves the upper bound of its cost, or all that
        is left of the budget, because an estimate can be far off.
        """
        seats = await estimate_session(self._seats, spec, config, history)
        about = sum(seat.about for seat in seats)
        dearest_call = max((seat.dearest_call for seat in seats), default=0)
        if self._ratio is None:
            expected = 0 if history else self._dearest_before
            usual = max(expected, sum(seat.at_most for seat in seats))
        else:
            expected = usual = round(about * self._ratio)
        self._dearest_call = max(self._dearest_call, dearest_call)
        async with caller.share(expected + dearest_call, usual + dearest_call) as (part, share):
            yield part
        self._dearest = max(self._dearest, share.spent)
        if about:
            self._ratio = max(self._ratio or 0.0, share.spent / about)
