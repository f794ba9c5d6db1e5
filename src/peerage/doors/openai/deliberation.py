"""A running session as what OpenAI clients are shown: progress first, then the verdict's words."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

from peerage.doors.openai.council_requests import WRITTEN_KINDS
from peerage.doors.render.phrases import progress_line
from peerage.doors.render.session_views import why_ended
from peerage.errors import BudgetError, PeerageError
from peerage.events import Fact, Opened, Reviewed, TextPiece
from peerage.service import NoVerdictError, Service
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
    """The conclusion of a session.

    If no vote counts, no answer is ahead, and a client gets the answer that is listed first.
    """

    view: SessionView

    @property
    def text(self) -> str:
        """The conclusion of a session.

        If no vote counts, no answer is ahead, and a client gets the answer that is listed first.
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
        """The cost of all calls; None if a price is not known."""
        return None if self.view.bill.n_unpriced else self.view.bill.usd

    @property
    def tokens(self) -> tuple[int, int]:
        """The tokens of all calls, in and out."""
        return self.view.bill.tokens_in or 0, self.view.bill.tokens_out or 0

    def extras(self, url: str) -> dict[str, Any]:
        """Return the value of `peerage` in a reply."""
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
    """Return what one event gives to show in addition to its line."""
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
        """Return the part of a chair's next piece that can be sent now."""
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
        """Return the part of the verdict that has not been sent yet."""
        if verdict.startswith(self._spoken):
            return verdict[len(self._spoken) :]
        return f"\n\n---\n\n{verdict}"


def _no_verdict(view: SessionView) -> PeerageError:
    """Return the error that says why a session has nothing to answer with."""
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
    """Return a text in pieces of about a word, which add up to it."""
    first, *others = text.split(" ")
    return [piece for piece in (first, *(f" {other}" for other in others)) if piece]
