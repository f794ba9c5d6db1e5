"""A running session for OpenAI clients: progress first, then the verdict."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

from peerage.doors.render.phrases import progress_line
from peerage.doors.render.session_views import why_ended
from peerage.errors import BudgetError, PeerageError
from peerage.events import Fact, Opened, Reviewed, TextPiece
from peerage.reports.sessions import ranking_document
from peerage.service import NoVerdictError, Service
from peerage.view import SessionView

THINKING = "<think"
WRITTEN_KINDS = ("synthesis", "debate")  # verdicts that a chair writes


@dataclass(frozen=True, slots=True)
class ProgressLine:
    """A line of progress."""

    text: str


@dataclass(frozen=True, slots=True)
class VerdictWords:
    """A piece of the verdict; `function` names the function whose arguments it contains."""

    text: str
    function: str = ""


@dataclass(frozen=True, slots=True)
class BallotCast:
    """A reviewer's ranking of the answers."""

    reviewer: str
    ranking: list[list[str]]  # tiers of names, best first
    abstained: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a session, or of a call that one seat answered."""

    text: str
    function: str  # the function that the reply calls; empty if the reply is text
    refusal: str | None  # the reason, if no reply follows the requested schema
    tokens: tuple[int, int]  # of all calls: input and output
    cost_usd: float | None  # of all calls; None if a price is not known
    is_cut_off: bool
    extras: dict[str, Any]  # the fields under `peerage` in the reply


def session_outcome(view: SessionView, extras: dict[str, Any]) -> Outcome:
    """Return the outcome of a finished session, with these extras.

    If there is no conclusion, the text is the answer that is listed first.
    """
    session, bill = view.session, view.bill
    output, verdict = session.query.output, session.verdict
    refusal = None
    if output is not None and not (verdict is not None and verdict.by):
        why = f": {verdict.note}" if verdict is not None else ""
        refusal = f"No reply followed the requested schema{why}."
    record: dict[str, Any] = {
        "session": session.id,
        "verdict": verdict.kind if verdict else "none",
        "approved": verdict.approved if verdict else None,
        "ranking": ranking_document(session),
        "dissent": [
            {"reviewer": one.reviewer, "quote": one.quote}
            for one in (verdict.dissent if verdict else ())
        ],
        "failed": [
            {"seat": one.seat, "kind": one.kind, "stage": one.stage} for one in session.failures
        ],
        "cost_usd": bill.usd,
        "unpriced_calls": bill.n_unpriced,
        "audit": dict(session.audit.bias_audit) if session.audit else None,
    }
    if session.query.all_images:
        record["images_not_seen_by"] = list(view.images_not_seen_by)
    return Outcome(
        text=view.conclusion or next((one.response.text for one in view.answers), ""),
        function=output.function if output is not None else "",
        refusal=refusal,
        tokens=(bill.tokens_in or 0, bill.tokens_out or 0),
        cost_usd=None if bill.n_unpriced else bill.usd,
        is_cut_off=view.is_cut_off,
        extras={**record, **extras},
    )


Step = ProgressLine | VerdictWords | BallotCast | Outcome


async def deliberation(
    service: Service, session_id: str, extras: dict[str, Any]
) -> AsyncGenerator[Step, None]:
    """Yield the steps of a session to its end; its `VerdictWords` add up to the outcome's text."""
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
    outcome = session_outcome(view, extras)
    rest = words.rest(outcome.text)
    if rest and outcome.refusal is None:
        yield VerdictWords(rest, outcome.function)
    yield outcome


def _step(fact: Fact | None, view: SessionView, words: SpokenVerdict) -> Step | None:
    """Return the step that an event adds, besides its line of progress, or None."""
    match fact:
        case Opened():
            # JSON is sent only at the end, when it is known to follow its schema.
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
    """Decides which pieces of a chair's text can be sent before the verdict is certain.

    White space at both ends, and text that begins like `<think>`, are held back. If a chair fails
    in mid-sentence, the next chair's text follows after a horizontal rule.
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
    """Return an error that says why a session has no verdict."""
    place = f"session {view.id}"
    if view.status == "out_of_budget":
        return BudgetError(
            "the budget was used up before the verdict.",
            place=place,
            hint="Raise the budget: a call is made only if its maximum cost is left.",
        )
    failed = "; ".join(f"{one.seat}: {one.message} ({one.kind})" for one in view.failures)
    ended = "no votes were counted" if view.is_finished else "the session is not finished"
    return NoVerdictError(f"no verdict: {why_ended(view) or ended}. {failed}".strip(), place=place)


def tokens(text: str) -> list[str]:
    """Return a text in pieces of about a word."""
    first, *others = text.split(" ")
    return [piece for piece in (first, *(f" {other}" for other in others)) if piece]
