"""A running session for OpenAI clients: its progress, its verdict, and the clients that wait.

Clients repeat a call that timed out. A repetition joins the running session, which is paid for
once, if it carries the same `Idempotency-Key`, or if it is the same request of the same client
within a few seconds after the first one was given up. Sessions that no client waits for end.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.requests import Request

from peerage.doors.http.access import client_of
from peerage.doors.http.problems import UnsupportedError
from peerage.doors.openai.council_requests import WRITTEN_KINDS
from peerage.doors.render.phrases import progress_line
from peerage.doors.render.session_views import why_ended
from peerage.errors import BudgetError, PeerageError
from peerage.events import Fact, Opened, Reviewed, TextPiece
from peerage.service import NoVerdictError, Service
from peerage.tasks import end, finish
from peerage.view import SessionView

THINKING = "<think"


@dataclass(frozen=True, slots=True)
class ProgressLine:
    """Something happened."""

    text: str


@dataclass(frozen=True, slots=True)
class VerdictWords:
    """More of the verdict; `function` is the function whose arguments the words are."""

    text: str
    function: str = ""


@dataclass(frozen=True, slots=True)
class BallotCast:
    """A reviewer has ranked the answers."""

    reviewer: str
    ranking: list[list[str]]  # tiers of names, best first
    abstained: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """The session at its end."""

    view: SessionView

    @property
    def text(self) -> str:
        """What the session concludes.

        Where no vote counts nobody is ahead, and a client is given the answer that is listed first.
        """
        return self.view.conclusion or next((one.response.text for one in self.view.answers), "")

    @property
    def function(self) -> str:
        """The function that the reply calls; empty where the reply is text."""
        output = self.view.session.query.output
        return output.function if output is not None else ""

    @property
    def refusal(self) -> str | None:
        """Why there is no JSON that follows the schema that was asked for; None where there is."""
        session = self.view.session
        verdict = session.verdict
        if session.query.output is None or (verdict is not None and verdict.by):
            return None
        why = f": {verdict.note}" if verdict is not None else ""
        return f"No reply followed the schema that was asked for{why}."

    @property
    def cost_usd(self) -> float | None:
        """What all calls cost; None where a price is not known."""
        return None if self.view.bill.n_unpriced else self.view.bill.usd

    @property
    def tokens(self) -> tuple[int, int]:
        """The tokens of all calls, in and out."""
        return self.view.bill.tokens_in or 0, self.view.bill.tokens_out or 0

    def extras(self, url: str) -> dict[str, Any]:
        """What is under `peerage` in a reply."""
        session = self.view.session
        verdict = session.verdict
        audit = session.audit
        return {
            "session": session.id,
            "url": url,
            "verdict": verdict.kind if verdict else "none",
            "approved": verdict.approved if verdict else None,
            "ranking": [
                {
                    "model": s.model,
                    "rank": s.rank,
                    "share": s.share,
                    "votes": s.votes,
                    "possible": s.possible,
                    "confidence": s.confidence,
                }
                for s in session.scores
            ],
            "dissent": [
                {"reviewer": one.reviewer, "quote": one.quote}
                for one in (verdict.dissent if verdict else ())
            ],
            "failed": [
                {"seat": one.seat, "kind": one.kind, "stage": one.stage} for one in session.failures
            ],
            "cost_usd": self.view.bill.usd,
            "unpriced_calls": self.view.bill.n_unpriced,
            "audit": dict(audit.bias_audit) if audit else None,
        }


Step = ProgressLine | VerdictWords | BallotCast | Outcome


async def deliberation(service: Service, session_id: str) -> AsyncGenerator[Step, None]:
    """Yield the steps of a session to its end; the words add up to the text of the outcome."""
    view, words = SessionView(service.settings), SpokenVerdict()
    async for events in service.watch(session_id):
        for event in events:
            fact = view.see(event)
            if (line := progress_line(view, event)) is not None:
                yield ProgressLine(line)
            if (step := _step(fact, view, words)) is not None:
                yield step
    if not view.is_finished or not view.session.scores:
        raise _no_verdict(view)
    outcome = Outcome(view)
    rest = words.rest(outcome.text)
    if rest and outcome.refusal is None:
        yield VerdictWords(rest, outcome.function)
    yield outcome


def _step(fact: Fact | None, view: SessionView, words: SpokenVerdict) -> Step | None:
    """What one event gives to show beside its line."""
    match fact:
        case Opened():
            # JSON is said once it is known to follow its schema.
            words.is_written = view.asked_for in WRITTEN_KINDS and fact.query.output is None
        case TextPiece(stage="conclude"):
            piece = words.heard(fact.seat, fact.text)
            return VerdictWords(piece) if piece else None
        case Reviewed():
            key = fact.reviewer, fact.round
            review, author = view.read[key], view.ballots[key].author_by_label
            tiers = [[author[name] for name in tier if name in author] for tier in review.ranking]
            return BallotCast(fact.reviewer, tiers, review.abstained)
    return None


class SpokenVerdict:
    """Decides which pieces of a chair's text may be said before the verdict is certain.

    Outer white space and what begins as thinking wait for the end. A chair that fails in
    mid-sentence is followed by another, whose text then comes after a rule.
    """

    def __init__(self) -> None:
        self.is_written = False
        self._chair = ""
        self._spoken = ""
        self._held_back = ""

    def heard(self, seat: str, piece: str) -> str:
        """The part of a chair's next piece that can be said now."""
        if self._chair not in ("", seat) or not self.is_written:
            return ""
        self._chair = seat
        text = (self._spoken + self._held_back + piece).lstrip()
        is_thinking = THINKING.startswith(text[: len(THINKING)]) or text.startswith(THINKING)
        n_before, n_sure = len(self._spoken), len(text.rstrip())
        if is_thinking:
            n_sure = n_before
        self._spoken, self._held_back = text[:n_sure], text[n_sure:]
        return text[n_before:n_sure]

    def rest(self, verdict: str) -> str:
        """What is still to be said for the whole verdict to have been said."""
        if verdict.startswith(self._spoken):
            return verdict[len(self._spoken) :]
        return f"\n\n---\n\n{verdict}"


def _no_verdict(view: SessionView) -> PeerageError:
    """The error that says why a session has nothing to answer with."""
    place = f"session {view.id}"
    if view.status == "out_of_budget":
        return BudgetError(
            "the budget was used up before the verdict.",
            place=place,
            hint="Raise it: a call is made only while what it may cost at most is left.",
        )
    failed = "; ".join(f"{one.seat}: {one.message} ({one.kind})" for one in view.failures)
    ended = "no votes were counted" if view.is_finished else "the session is not finished"
    return NoVerdictError(f"no verdict: {why_ended(view) or ended}. {failed}".strip(), place=place)


def tokens(text: str) -> list[str]:
    """A text in pieces of about a word, which add up to it."""
    first, *others = text.split(" ")
    return [piece for piece in (first, *(f" {other}" for other in others)) if piece]


T = TypeVar("T")

# -- sessions that clients wait for --------------------------------------------------------------

GRACE_S = 5.0  # in which a client that hung up may come back
KEPT_S = 600.0  # a key stands for its session for so long
MAX_KEYS = 1_000
MAX_KEY_CHARACTERS = 200


@dataclass(eq=False)
class WaitedSession:
    """A session that was started for a call, and how many clients wait for it."""

    key: str
    digest: str  # of the request
    started: asyncio.Future[str]  # the id, once the session is in the log
    at: float
    runs_on: bool  # also where nobody waits
    n_waiting: int = 1
    ending: asyncio.Task[None] | None = None  # counts down to its end while nobody waits

    @property
    def id(self) -> str:
        return self.started.result()

    @property
    def has_failed(self) -> bool:
        started = self.started
        return started.done() and (started.cancelled() or started.exception() is not None)


class RunningCalls:
    """The sessions of the calls of one server, by what a repetition of a call is known by."""

    def __init__(self, service: Service, grace_s: float = GRACE_S) -> None:
        self.service, self.grace_s = service, grace_s
        self._by_key: dict[str, WaitedSession] = {}

    async def join(
        self, request: Request, start: Callable[[], Awaitable[str]], *, runs_on: bool = False
    ) -> WaitedSession:
        """Start a session, or wait for the one that this request repeats; `leave` it afterwards."""
        key, is_given, digest = await _key_of(request)
        waited = self._by_key.get(key)
        if waited is not None and waited.digest != digest:
            raise UnsupportedError(
                "this Idempotency-Key was sent with another request.",
                param="Idempotency-Key",
                code="idempotency_key_reused",
                hint="Send a new key with a new request.",
            )
        # Without a key, a request that comes while its twin is still waited for is another one.
        if waited is None or waited.has_failed or not (is_given or waited.ending):
            started = asyncio.ensure_future(start())
            waited = WaitedSession(key, digest, started, time.monotonic(), runs_on)
            self._keep(waited)
        else:
            waited.n_waiting += 1
            if waited.ending is not None:
                waited.ending.cancel()
                waited.ending = None
        try:
            await asyncio.shield(waited.started)
        except BaseException:
            self.leave(waited)
            raise
        return waited

    def leave(self, waited: WaitedSession, *, at_once: bool = False) -> None:
        """Wait for a session no longer; where nobody else does, it ends after the grace."""
        waited.n_waiting -= 1
        if waited.n_waiting:
            return
        if waited.has_failed:
            self._forget(waited)
        elif not waited.runs_on:
            grace_s = 0.0 if at_once else self.grace_s
            waited.ending = asyncio.create_task(self._end(waited, grace_s))

    async def close(self) -> None:
        """Stop counting down; the service ends the sessions that still run."""
        await end(one.ending for one in self._by_key.values() if one.ending is not None)

    async def _end(self, waited: WaitedSession, grace_s: float) -> None:
        """End a session that nobody has come back for; one that is over stays known by its key."""
        id_ = await asyncio.shield(waited.started)
        if self.service.hosts(id_):
            await asyncio.sleep(grace_s)
        waited.ending = None
        if self.service.hosts(id_):
            self._forget(waited)
            await finish(self.service.cancel(id_))

    def _keep(self, waited: WaitedSession) -> None:
        """Keep a session under its key; the oldest that nobody waits for make room."""
        self._by_key.pop(waited.key, None)
        self._by_key[waited.key] = waited
        for key, old in list(self._by_key.items()):
            is_old = waited.at - old.at > KEPT_S
            if not is_old and len(self._by_key) <= MAX_KEYS:
                break
            if not old.n_waiting and old.ending is None:
                del self._by_key[key]

    def _forget(self, waited: WaitedSession) -> None:
        if self._by_key.get(waited.key) is waited:
            del self._by_key[waited.key]


async def _key_of(request: Request) -> tuple[str, bool, str]:
    """Return what a repetition of this request is known by, whether the client chose it, and
    the digest of the request.
    """
    client = client_of(request)
    given = request.headers.get("idempotency-key", "")[:MAX_KEY_CHARACTERS]
    digest = hashlib.sha256(await request.body()).hexdigest()
    owner = client.token.id if client and client.token else ""
    return f"{owner}|{request.url.path}|{given or digest}", bool(given), digest


async def unless_gone(request: Request, work: Awaitable[T]) -> T | None:
    """Return what some work comes to, or None where the client hangs up first."""
    task: asyncio.Task[T] = asyncio.ensure_future(work)
    gone = asyncio.create_task(_hung_up(request))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        return await task if task.done() else None
    finally:
        await end((task, gone))


async def _hung_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
