"""Stored sessions: read from a store, scored again, and as plain JSON values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any

from peerage.council.fold import reviewed_ballots
from peerage.events import CallMade, billed_calls, read_events, total_cost
from peerage.scoring import Scored, score_session
from peerage.types import Event, ScoringOptions, Session


def rescored(session: Session, options: ScoringOptions) -> Scored:
    """Score a stored session again, from its ballots and reviews alone."""
    bare = replace(session, scores=(), flags=(), audit=None)
    return score_session(reviewed_ballots(bare), options)


def session_document(
    session: Session, events: Sequence[Event], options: ScoringOptions
) -> dict[str, Any]:
    """Everything about a session as plain JSON values."""
    document: dict[str, Any] = {
        "id": session.id,
        "status": session.status or "unfinished",
        "query": asdict(session.query),
        "seed": session.seed,
        "ordinal": session.ordinal,
        "responses": [asdict(one) | {"truncated": one.truncated} for one in session.responses],
        "failures": [asdict(failure) for failure in session.failures],
        "verdict": asdict(session.verdict) if session.verdict else None,
        "cost": cost_document(events),
    }
    if session.ballots:
        result = rescored(session, options).document()
        result.pop("session_id", None)
        document |= result
        document |= positions(session)
    return document


def positions(session: Session) -> dict[str, Any]:
    """The position in which each reviewer saw each model, as two mappings."""
    by_reviewer = {
        ballot.reviewer: {name: i for i, name in enumerate(ballot.authors)}
        for ballot in session.ballots
        if ballot.round == 0
    }
    first = next((ballot for ballot in session.ballots if ballot.round == 0), None)
    slots = first.slots if first else ()
    return {
        "label_to_position": {
            f"Response {slot.label}": {"model": slot.author, "display_index": i}
            for i, slot in enumerate(slots)
        },
        "reviewer_position_mapping": by_reviewer,
    }


def cost_document(events: Iterable[Event]) -> dict[str, Any]:
    """What a session's calls cost, by seat and by stage; a sum with an unknown part is None."""
    calls = billed_calls(read_events(events))
    by_seat: dict[str, list[CallMade]] = defaultdict(list)
    by_stage: dict[str, list[CallMade]] = defaultdict(list)
    for call in calls:
        by_seat[call.seat].append(call)
        by_stage[call.stage].append(call)
    total, n_unknown = total_cost(calls)
    return {
        "total_usd": total,
        "unpriced_calls": n_unknown,
        "calls": len(calls),
        "by_seat": {seat: total_cost(some)[0] for seat, some in by_seat.items()},
        "by_stage": {stage: total_cost(some)[0] for stage, some in by_stage.items()},
    }
