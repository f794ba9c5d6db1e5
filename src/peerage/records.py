"""A stored session as plain values: for scripts, for other programs, and for another law."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from peerage.council import folding
from peerage.scoring import Law, Scored, score_session
from peerage.types import Event, Session


def rescored(session: Session, law: Law) -> Scored:
    """A stored session under a law, from its ballots and replies alone."""
    bare = replace(session, scores=(), flags=(), audit=None)
    return score_session(folding.reviewed_ballots(bare), law)


def session_document(session: Session, events: Sequence[Event], law: Law) -> dict[str, Any]:
    """Everything about a session as plain JSON values."""
    document: dict[str, Any] = {
        "id": session.id,
        "status": session.status or "unfinished",
        "query": asdict(session.query),
        "seed": session.seed,
        "ordinal": session.ordinal,
        "responses": [asdict(response) for response in session.responses],
        "failures": [asdict(failure) for failure in session.failures],
        "verdict": asdict(session.verdict) if session.verdict else None,
        "cost": cost_document(events),
    }
    if session.ballots:
        result = rescored(session, law).document()
        result.pop("session_id", None)
        document |= result
        document |= positions(session)
    return document


def positions(session: Session) -> dict[str, Any]:
    """Where each reviewer saw each model, under the names other tools look for."""
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


def cost_document(events: Sequence[Event]) -> dict[str, Any]:
    """The bill by seat and by stage; a sum with an unknown part is unknown."""
    by_seat: dict[str, list[float | None]] = defaultdict(list)
    by_stage: dict[str, list[float | None]] = defaultdict(list)
    stages = {folding.ANSWERED: "answer", folding.REVIEWED: "review", folding.ADVISED: "conclude"}
    for event in events:
        usage = event.body.get("usage")
        if usage is None:
            continue
        seat = event.body.get("seat") or event.body["reviewer"]
        by_seat[seat].append(usage["cost_usd"])
        by_stage[stages.get(event.kind) or event.body["stage"]].append(usage["cost_usd"])
    total, unknown = folding.cost_of(events)
    return {
        "total_usd": total,
        "unpriced_calls": unknown,
        "calls": sum(map(len, by_seat.values())),
        "by_seat": {seat: _sum(costs) for seat, costs in by_seat.items()},
        "by_stage": {stage: _sum(costs) for stage, costs in by_stage.items()},
    }


def _sum(costs: Sequence[float | None]) -> float | None:
    known = [cost for cost in costs if cost is not None]
    return sum(known) if len(known) == len(costs) else None
