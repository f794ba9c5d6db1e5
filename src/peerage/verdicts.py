"""How a session concludes: by a chair, a vote or marks, or as JSON for a client."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, Protocol, TypeVar

from peerage.council.ballots import Decision, ReviewRead, parse_decision, read_review
from peerage.council.blinding import deal_order, lone_ordinal, slots_of
from peerage.council.counting import place
from peerage.council.dissent import dissent_of
from peerage.council.fences import ballot_code, boundary, without_marks
from peerage.council.prompts import (
    Page,
    ask_for_json,
    relabel,
    render_chair,
    render_material,
)
from peerage.errors import how_many
from peerage.messages import query_for
from peerage.providers import Reply, decides
from peerage.providers.typed_answers import (
    approval_question,
    read_approval,
    read_choice,
    tie_question,
)
from peerage.scoring import Scored, last_round
from peerage.structured import StructuredRead, read_structured
from peerage.tasks import together
from peerage.types import (
    Ballot,
    Dissent,
    Failure,
    NoDecision,
    OutputFormat,
    Score,
    ScoringOptions,
    Seal,
    Seat,
    Session,
    Slot,
    TypedQuestion,
    Verdict,
    is_cut_off,
)

CUT_OFF = "this text was cut off at its length limit"
STRUCK = "{} of the prompt's fences removed from this text"
Ask = Callable[[Seat, Page], Awaitable[Reply | Failure]]


R = TypeVar("R", ReviewRead, Decision, StructuredRead)


class Vote(Protocol):
    """Asks a seat for a vote, again if needed, and returns how its reply was read."""

    async def __call__(
        self,
        seat: Seat,
        page: Page,
        schema: Mapping[str, Any],
        read: Callable[..., R],
        questions: tuple[TypedQuestion, ...] = (),
    ) -> R | Failure: ...


@dataclass(frozen=True, slots=True)
class VerdictContext:
    """The input of a verdict: the scored session, chairs, panel, and functions to ask them."""

    scored: Scored
    kind: str
    chairs: tuple[Seat, ...]  # in order of succession
    panel: tuple[Seat, ...]
    ask: Ask
    vote: Vote
    secret: str  # from which the codes in prompts follow
    seal: Seal = "required"
    wants_brief: Callable[[Seat], bool] = lambda _: False  # whether a chair gets a short prompt

    @property
    def session(self) -> Session:
        return self.scored.session

    @property
    def best(self) -> tuple[Score, ...]:
        """The answers ranked first; all answers if none is ranked."""
        firsts = tuple(score for score in self.session.scores if score.rank == 1)
        return firsts or self.session.scores

    @property
    def writers(self) -> tuple[Seat, ...]:
        """The chairs that can write a verdict; decision models cannot."""
        return tuple(seat for seat in self.chairs if not decides(seat))

    def text_of(self, model: str) -> str:
        return next(r.final or r.text for r in self.session.responses if r.model == model)


async def conclude(context: VerdictContext) -> Verdict | None:
    """Return the session's verdict, with quotes of dissenters; None for the kind "none"."""
    if context.kind == "none":
        return None
    verdict = await KINDS[context.kind](context)
    quoted = dissent_of(context.session, context.scored.counted)
    return replace(verdict, dissent=(*verdict.dissent, *quoted))


async def _conclude_as_json(context: VerdictContext, output: OutputFormat) -> Verdict:
    """Return the JSON of the first chair whose reply follows the schema."""
    failed: list[str] = []
    schema = json.loads(output.schema)
    read = partial(read_structured, schema_text=output.schema)
    for seat in context.writers:
        page = ask_for_json(_page(context, seat, context.kind), output.schema, output.function)
        reply = await context.vote(seat, page, schema, read)
        if isinstance(reply, Failure):
            failed.append(f"{seat.name} ({reply.kind})")
        elif reply.fault:
            failed.append(f"{seat.name} (its reply does not follow the schema: {reply.detail})")
        else:
            note = f"chair {', then '.join(failed)} failed; {seat.name} took over" if failed else ""
            return Verdict(context.kind, reply.text, by=seat.name, note=note)
    return _top_answer(context, failed)


async def _ask_chairs(context: VerdictContext) -> Verdict:
    """Return the text of the first chair that answers."""
    kind = context.kind
    if (output := context.session.query.output) is not None:
        return await _conclude_as_json(context, output)
    failed: list[str] = []
    for seat in context.writers:
        reply = await context.ask(seat, _page(context, seat, kind))
        if isinstance(reply, Reply):
            notes = [CUT_OFF] if is_cut_off(reply.finish_reason) else []
            notes += [STRUCK.format(how_many(reply.n_fences, "mark"))] if reply.n_fences else []
            if failed:
                notes.insert(0, f"chair {', then '.join(failed)} failed; {seat.name} took over")
            return Verdict(kind, reply.text, by=seat.name, note="; ".join(notes))
        failed.append(f"{seat.name} ({reply.kind})")
    return _top_answer(context, failed)


def _top_answer(context: VerdictContext, failed: Sequence[str] = ()) -> Verdict:
    best = context.session.scores[0]
    tied = ", tied with " + ", ".join(s.model for s in context.best[1:]) if context.best[1:] else ""
    why = f"no chair answered ({', '.join(failed)}); " if failed else ""
    first = "ranked first" if best.rank == 1 else "listed first, because no answer is ranked"
    note = f"{why}this is {best.model}'s answer, {first}{tied}, and not a synthesis"
    return Verdict("top_answer", context.text_of(best.model), note=note)


async def _binary(context: VerdictContext) -> Verdict:
    """Approve or reject by more than half of the panel; else it is undecided.

    The panel is every seat that should vote. A seat that failed, or whose decision cannot be read,
    is on neither side and is named. A chair outside the panel may vote too.
    """
    replies = await together(_decision(context, seat) for seat in context.panel)
    votes = {seat.name: vote for seat, vote in zip(context.panel, replies, strict=True)}
    size, by = len(votes), ""
    if _side(votes, size) is None and 2 * (_n_larger_side(votes) + 1) > size + 1:
        for seat in (seat for seat in context.chairs if seat.name not in votes):
            vote = await _decision(context, seat)
            if isinstance(vote, Decision) and vote.approved is not None:
                votes, size, by = {**votes, seat.name: vote}, size + 1, seat.name
                break
    approved = _side(votes, size)
    decisions = {name: vote for name, vote in votes.items() if isinstance(vote, Decision)}
    side = {name: one for name, one in decisions.items() if approved in (None, one.approved)}
    failed = tuple(
        NoDecision(name, vote.kind if isinstance(vote, Failure) else vote.flag)
        for name, vote in votes.items()
        if isinstance(vote, Failure) or (vote.approved is None and vote.probability is None)
    )
    most = _n_larger_side(votes)
    return Verdict(
        "binary",
        _reasons(side),
        by=by,
        confidence=most / size if most else None,
        approved=approved,
        note=_vote_note(votes, approved, by, failed),
        dissent=_votes_against(decisions, approved),
        failed=failed,
    )


Votes = Mapping[str, "Decision | Failure"]  # by seat


def _n_votes(votes: Votes, approved: bool) -> float:
    """Return the votes of a side; a decision model's vote is split by its probability."""
    return sum(_weight(vote, approved) for vote in votes.values() if isinstance(vote, Decision))


def _weight(vote: Decision, approved: bool) -> float:
    if vote.probability is None:
        return int(vote.approved is approved)
    return vote.probability if approved else 1 - vote.probability


def _n_larger_side(votes: Votes) -> float:
    return max(_n_votes(votes, True), _n_votes(votes, False))


def _side(votes: Votes, size: int) -> bool | None:
    """Return the side that more than half of the panel is on, or None."""
    return next((side for side in (True, False) if 2 * _n_votes(votes, side) > size), None)


def _vote_note(votes: Votes, approved: bool | None, by: str, failed: Sequence[NoDecision]) -> str:
    """Return the count of a vote in one sentence, and the seats without a decision."""
    yes, no = _n_votes(votes, True), _n_votes(votes, False)
    if approved is None:
        count = f"{yes:.3g} approve and {no:.3g} reject, of {len(votes)}: undecided, since neither"
        count += " side has more than half of the panel"
    else:
        count = f"{max(yes, no):.3g} of {len(votes)} {'approve' if approved else 'reject'}"
        count += f", with the vote of {by}, who chairs" if by else ""
    if any(isinstance(vote, Decision) and vote.probability is not None for vote in votes.values()):
        count += ", with decision models by their probability"
    silent = ", ".join(f"{one.seat} ({one.kind.replace('_', ' ')})" for one in failed)
    return f"{count}; no decision from {silent}" if silent else count


def _votes_against(decisions: Mapping[str, Decision], approved: bool | None) -> tuple[Dissent, ...]:
    """Return the votes on the losing side, each with its first reason."""
    if approved is None:
        return ()
    other = "would reject" if approved else "would approve"
    return tuple(
        Dissent(name, None, ": ".join((other, *map(without_marks, vote.reasons[:1]))))
        for name, vote in decisions.items()
        if vote.approved is not approved and vote.approved is not None
    )


def _reasons(decisions: Mapping[str, Decision]) -> str:
    """Return the first reason of each decision, one per line."""
    return "\n".join(
        f"{name}: {without_marks(why)}"
        for name, one in decisions.items()
        for why in one.reasons[:1]
    )


async def _decision(context: VerdictContext, seat: Seat) -> Decision | Failure:
    if decides(seat):
        session = context.session
        slots = _slots(context, seat, [r.model for r in session.responses])
        query, fence = query_for(seat, session.query), _fence(context, seat)
        page = render_material(query, slots, fence, scores=session.scores)
        vote = await context.vote(seat, page, {}, read_approval, (approval_question(),))
        if isinstance(vote, Failure) or context.scored.options.soft_votes:
            return vote
        return replace(vote, probability=None)
    page = _page(context, seat, "binary", _code(context, seat))
    read = partial(parse_decision, page=page, seal=context.seal)
    return await context.vote(seat, page, page.schema, read)


async def _tie_breaker(context: VerdictContext) -> Verdict:
    """Return the first-ranked answer; if several are tied, a chair outside the tie chooses.

    If there is no such chair, the answer with the higher mean mark is chosen.
    """
    best = context.best
    if len(best) == 1:
        return _top_answer(context)
    failed: list[str] = []
    tied = {score.model for score in best}
    for seat in (seat for seat in context.chairs if seat.name not in tied):
        slots = _slots(context, seat, [score.model for score in best])
        ballot = Ballot(seat.name, slots)
        vote = await _choice(context, seat, ballot)
        if isinstance(vote, Failure):
            failed.append(f"{seat.name} ({vote.kind})")
            continue
        tiers = vote.review.ranking
        ranked = (ballot.author_by_label.get(name) for tier in tiers for name in tier)
        choice = next(filter(None, ranked), None)
        if choice is not None:
            note = f"{len(best)} answers tied for first; {seat.name} chose {choice}'s"
            return Verdict("tie_breaker", context.text_of(choice), by=seat.name, note=note)
        failed.append(f"{seat.name} (no choice)")
    return _by_marks(context, failed)


async def _choice(context: VerdictContext, seat: Seat, ballot: Ballot) -> ReviewRead | Failure:
    """Return how a chair ranks tied answers."""
    query, best, slots = query_for(seat, context.session.query), context.best, ballot.slots
    fence, code = _fence(context, seat), _code(context, seat)
    if decides(seat):
        page = render_material(query, slots, fence, scores=best)
        choose = partial(read_choice, ballot=ballot)
        return await context.vote(seat, page, {}, choose, (tie_question(slots),))
    page = render_chair("tie_breaker", query, slots, best, fence, code=code)
    read = partial(read_review, ballot=ballot, page=page, seal=context.seal)
    return await context.vote(seat, page, page.schema, read)


def _by_marks(context: VerdictContext, failed: Sequence[str]) -> Verdict:
    """Return the tied answer with the higher mean mark, then more wins; else the tie stays."""

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
    "synthesis": _ask_chairs,
    "debate": _ask_chairs,
    "binary": _binary,
    "tie_breaker": _tie_breaker,
}


# -- prompts of chairs -------------------------------------------------------------------------


def _page(context: VerdictContext, seat: Seat, kind: str, code: str = "") -> Page:
    session = context.session
    slots = _slots(context, seat, [r.model for r in session.responses])
    reword = partial(relabel, slots=slots)
    dissent = dissent_of(session, context.scored.counted, reword)
    fence = _fence(context, seat)
    if kind == "synthesis" and context.wants_brief(seat):
        kind = "synthesis_brief"
    query = query_for(seat, session.query)
    return render_chair(kind, query, slots, session.scores, fence, dissent, code)


def _slots(context: VerdictContext, seat: Seat, models: Sequence[str]) -> tuple[Slot, ...]:
    """Return the answers in the chair's own order, with labels that only this chair sees."""
    session = context.session
    where = session.ordinal + lone_ordinal(seat.name)
    order = deal_order(models, where, f"{session.seed}|chair")
    return slots_of(order, session.responses)


def _fence(context: VerdictContext, seat: Seat) -> str:
    return boundary(context.secret, context.session.id, f"chair:{seat.name}", 0)


def _code(context: VerdictContext, seat: Seat) -> str:
    return ballot_code(context.secret, context.session.id, f"chair:{seat.name}", 0)


# -- early stop ---------------------------------------------------------------------------------


def is_settled(scored: Scored, options: ScoringOptions, unheard: set[str]) -> bool:
    """Return whether the missing reviews cannot change the sole leader; only Borda can be settled.

    In the worst case, each missing review puts the leader last and the same rival first. Votes of
    its reviewer from an earlier round are not counted, because the review would replace them.
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
        for name in placing.doubled:
            points[name] += placing.share(name)
    passed = [score.model for score in scores if score.passed]
    leader, *rivals = passed or [score.model for score in scores]
    if not votes[leader]:
        return False

    def n_unheard(name: str) -> int:
        return len(unheard - {name}) if options.own_votes != "in" else len(unheard)

    at_least = points[leader] / (votes[leader] + n_unheard(leader))
    return all(
        at_least > (points[name] + n_unheard(name)) / max(1, votes[name] + n_unheard(name))
        for name in rivals
    )
