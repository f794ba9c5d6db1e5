"""How a session concludes: the chair's words, the panel's vote, or the first-ranked answer.

Whatever happens, the result says what it is. A chair that fails is followed by the next,
and the note names both; with no chair left the first-ranked answer is returned under its
own kind, never as a synthesis.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

from peerage.council.ballots import Decision, parse, parse_decision
from peerage.council.blinding import deal_order, lone_ordinal, slots_of
from peerage.council.counting import dissent_of, place
from peerage.council.prompts import (
    binary_schema,
    boundary,
    relabel,
    render_chair,
    tie_breaker_schema,
)
from peerage.providers import Reply
from peerage.scoring import Scored, last_round
from peerage.tasks import read_aside, together
from peerage.types import (
    Ballot,
    Dissent,
    Failure,
    Score,
    ScoringOptions,
    Seat,
    Session,
    Slot,
    Verdict,
    is_cut_off,
)

CUT_OFF = "this text was cut off at its length limit"
Ask = Callable[[Seat, str, Mapping[str, Any] | None], Awaitable[Reply | Failure]]


@dataclass(frozen=True, slots=True)
class VerdictContext:
    """What a verdict is made from: the scored session, the chairs, the panel, and a way to ask."""

    scored: Scored
    kind: str
    chairs: tuple[Seat, ...]  # in order of succession
    panel: tuple[Seat, ...]
    ask: Ask
    wants_brief: Callable[[Seat], bool] = lambda _: False  # whether a chair gets a short page

    @property
    def session(self) -> Session:
        return self.scored.session

    @property
    def best(self) -> tuple[Score, ...]:
        """Everyone ranked first."""
        return tuple(score for score in self.session.scores if score.rank == 1)

    def text_of(self, model: str) -> str:
        return next(r.text for r in self.session.responses if r.model == model)


async def conclude(context: VerdictContext) -> Verdict | None:
    """The session's verdict, with quotes of the reviewers who dissent; None for the kind "none"."""
    if context.kind == "none":
        return None
    verdict = await KINDS[context.kind](context)
    quoted = dissent_of(context.session, context.scored.counted)
    return replace(verdict, dissent=(*verdict.dissent, *quoted))


async def _chaired(context: VerdictContext) -> Verdict:
    """The text of the first chair that answers."""
    kind = context.kind
    failed: list[str] = []
    for seat in context.chairs:
        reply = await context.ask(seat, _page(context, seat, kind), None)
        if isinstance(reply, Reply):
            notes = [CUT_OFF] if is_cut_off(reply.finish_reason) else []
            if failed:
                notes.insert(0, f"chair {', then '.join(failed)} failed; {seat.name} took over")
            return Verdict(kind, reply.text, by=seat.name, note="; ".join(notes))
        failed.append(f"{seat.name} ({reply.kind})")
    return _top_answer(context, failed)


def _top_answer(context: VerdictContext, failed: Sequence[str] = ()) -> Verdict:
    best = context.session.scores[0]
    tied = ", tied with " + ", ".join(s.model for s in context.best[1:]) if context.best[1:] else ""
    why = f"no chair answered ({', '.join(failed)}); " if failed else ""
    note = f"{why}this is {best.model}'s answer, ranked first{tied}, and not a synthesis"
    return Verdict("top_answer", context.text_of(best.model), note=note)


async def _binary(context: VerdictContext) -> Verdict:
    """The panel's majority; its size is the confidence.

    A seat whose decision cannot be read abstains: it counts for neither side, and is named.
    Where no more than half of the panel gave one that can be read, and where the sides are
    equal, nothing is decided: `approved` is None. A chair who is not on the panel has one vote.
    """
    votes = await together(_decision(context, seat) for seat in context.panel)
    cast = {s.name: vote for s, vote in zip(context.panel, votes, strict=True) if vote is not None}
    decisions = {name: vote for name, vote in cast.items() if vote.approved is not None}
    unread = [f"{name} ({vote.flag})" for name, vote in cast.items() if vote.approved is None]
    abstained = f"; no decision could be read from {', '.join(unread)}" if unread else ""
    n, n_panel = len(decisions), len(context.panel)
    yes = sum(decision.approved is True for decision in decisions.values())
    most = max(yes, n - yes)
    if not decisions:
        note = f"nobody on the panel gave a decision, so nothing is decided{abstained}"
        return Verdict("binary", "", note=note)
    if 2 * n <= n_panel and 2 * yes >= n:
        note = f"only {n} of {n_panel} gave a decision, so nothing is decided{abstained}"
        return Verdict("binary", _reasons(decisions), confidence=yes / n_panel, note=note)
    if 2 * yes == n:
        verdict = await _deadlock(context, decisions)
        return replace(verdict, note=f"{verdict.note}{abstained}")
    approved = 2 * yes > n
    side = {name: vote for name, vote in decisions.items() if vote.approved is approved}
    note = f"{most} of {n} {'approve' if approved else 'reject'}{abstained}"
    other = "would reject" if approved else "would approve"
    against = tuple(
        Dissent(name, None, ": ".join((other, *vote.reasons[:1])))
        for name, vote in decisions.items()
        if vote.approved is not approved
    )
    return Verdict(
        "binary",
        _reasons(side),
        confidence=most / n,
        approved=approved,
        note=note,
        dissent=against,
    )


def _reasons(decisions: Mapping[str, Decision]) -> str:
    """The first reason of each, a line each."""
    return "\n".join(f"{name}: {why}" for name, one in decisions.items() for why in one.reasons[:1])


async def _deadlock(context: VerdictContext, decisions: Mapping[str, Decision]) -> Verdict:
    """A split panel: a chair outside it has one vote; without one nothing is decided."""
    half = len(decisions) // 2
    voted = {seat.name for seat in context.panel}
    for seat in context.chairs:
        decision = None if seat.name in voted else await _decision(context, seat)
        if decision is not None and decision.approved is not None:
            return Verdict(
                "binary",
                "\n".join(decision.reasons),
                by=seat.name,
                confidence=0.5,
                approved=decision.approved,
                note=f"deadlock, {half} to {half}, broken by {seat.name}",
            )
    note = f"deadlock, {half} to {half}, and no chair outside the panel to break it: undecided"
    return Verdict("binary", _reasons(decisions), confidence=0.5, note=note)


async def _decision(context: VerdictContext, seat: Seat) -> Decision | None:
    reply = await context.ask(seat, _page(context, seat, "binary"), binary_schema())
    if not isinstance(reply, Reply):
        return None
    return await read_aside(partial(parse_decision, reply.text), len(reply.text))


async def _tie_breaker(context: VerdictContext) -> Verdict:
    """The first-ranked answer; where several are, a chair who is none of the tied chooses.

    Without such a chair it is the answer with the higher mean mark.
    """
    best = context.best
    if len(best) == 1:
        return _top_answer(context)
    failed: list[str] = []
    tied = {score.model for score in best}
    for seat in (seat for seat in context.chairs if seat.name not in tied):
        slots = _slots(context, seat, [score.model for score in best])
        query, fence = context.session.query, _fence(context, seat)
        page = render_chair("tie_breaker", query, slots, best, fence)
        reply = await context.ask(seat, page, tie_breaker_schema(slots))
        if isinstance(reply, Failure):
            failed.append(f"{seat.name} ({reply.kind})")
            continue
        ballot = Ballot(seat.name, slots)
        review = await read_aside(partial(parse, reply.text, ballot), len(reply.text))
        ranked = (ballot.author_by_label.get(name) for tier in review.ranking for name in tier)
        choice = next(filter(None, ranked), None)
        if choice is not None:
            note = f"{len(best)} answers tied for first; {seat.name} chose {choice}'s"
            return Verdict("tie_breaker", context.text_of(choice), by=seat.name, note=note)
        failed.append(f"{seat.name} (no choice)")
    return _by_marks(context, failed)


def _by_marks(context: VerdictContext, failed: Sequence[str]) -> Verdict:
    """Of the tied, the one with the higher mean mark, then more wins; else the tie stays."""

    def merit(score: Score) -> tuple[float, int]:
        return (0.0 if score.mean_score is None else score.mean_score, score.wins)

    order = sorted(context.best, key=merit, reverse=True)
    if merit(order[0]) == merit(order[1]):
        return _top_answer(context, failed)
    why = f"failed: {', '.join(failed)}" if failed else "all are among the tied"
    name = order[0].model
    note = f"{len(order)} answers tied for first; no chair could choose ({why}), so the marks do"
    return Verdict("tie_breaker", context.text_of(name), note=f"{note}: {name}'s")


KINDS: Mapping[str, Callable[[VerdictContext], Awaitable[Verdict]]] = {
    "synthesis": _chaired,
    "debate": _chaired,
    "binary": _binary,
    "tie_breaker": _tie_breaker,
}


# -- what a chair is shown ----------------------------------------------------------------------


def _page(context: VerdictContext, seat: Seat, kind: str) -> str:
    session = context.session
    slots = _slots(context, seat, [r.model for r in session.responses])
    reword = partial(relabel, slots=slots)
    dissent = dissent_of(session, context.scored.counted, reword)
    fence = _fence(context, seat)
    if kind == "synthesis" and context.wants_brief(seat):
        kind = "synthesis_brief"
    return render_chair(kind, session.query, slots, session.scores, fence, dissent)


def _slots(context: VerdictContext, seat: Seat, models: Sequence[str]) -> tuple[Slot, ...]:
    """The answers in an order of the chair's own, under labels of its own."""
    session = context.session
    where = session.ordinal + lone_ordinal(seat.name)
    order = deal_order(models, where, f"{session.seed}|chair")
    return slots_of(order, session.responses)


def _fence(context: VerdictContext, seat: Seat) -> str:
    return boundary(context.session.seed, context.session.id, f"chair:{seat.name}", 0)


# -- early stop ---------------------------------------------------------------------------------


def settled(scored: Scored, options: ScoringOptions, unheard: set[str]) -> bool:
    """Whether the sole leader stays ahead whatever the unheard reviewers say; Borda only.

    At worst each of them puts the leader last and one and the same rival first; what they said in
    an earlier round may be replaced, so it counts for nobody.
    """
    scores = scored.session.scores
    if options.rule != "borda" or len(scores) < 2 or not scores[0].votes:
        return False
    n = len(scored.session.candidates)
    _, latest = last_round(scored.session.ballots, scored.counted)
    heard = (place(vote, options.own_votes, n) for vote in latest if vote.reviewer not in unheard)
    points: dict[str, Fraction] = {score.model: Fraction(0) for score in scores}
    votes: Counter[str] = Counter()
    for placing in filter(None, heard):
        votes.update(placing.doubled.keys())
        for name, doubled in placing.doubled.items():
            points[name] += Fraction(2 * (placing.n - 1) - doubled, 2 * (placing.n - 1))
    passed = [score.model for score in scores if score.passed]
    leader, *rivals = passed or [score.model for score in scores]
    if not votes[leader]:
        return False

    def unheard_of(name: str) -> int:
        return len(unheard - {name}) if options.own_votes != "in" else len(unheard)

    at_least = points[leader] / (votes[leader] + unheard_of(leader))
    return all(
        at_least > (points[name] + unheard_of(name)) / max(1, votes[name] + unheard_of(name))
        for name in rivals
    )


def conclusion_of(session: Session) -> str | None:
    """What a finished session told the person who asked: its verdict, or the best answer."""
    verdict = session.verdict
    if not session.finished or not session.scores:
        return None
    if verdict is not None and verdict.approved is not None:
        return f"{'Approved' if verdict.approved else 'Rejected'}.\n\n{verdict.text}".strip()
    if verdict is not None and verdict.text:
        return verdict.text
    best = session.scores[0].model
    return next((answer.text for answer in session.responses if answer.model == best), None)
