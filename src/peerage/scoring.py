"""Ballots in, scores out: counting, rule, gate and audit in their order, with no model called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from peerage.biases.one_session import audit_session
from peerage.council.counting import count
from peerage.council.documents import session_of, sessions_of
from peerage.council.safety import safety_metadata, screen
from peerage.council.tally import tally
from peerage.errors import UsageError
from peerage.rules import rules
from peerage.types import (
    Audit,
    AuditLimits,
    Ballot,
    Counted,
    Gate,
    OwnVotes,
    Rubric,
    Session,
)

OWN_VOTES: tuple[OwnVotes, ...] = ("out", "in", "seed")


@dataclass(frozen=True, slots=True)
class Law:
    """Under which law a session is scored; the same ballots may be read under another."""

    rule: str = "borda"
    own_votes: OwnVotes = "out"
    rubric: Rubric | None = None
    safety_gate: bool = False
    safety_score_cap: float = 0.0
    audit: bool = True
    limits: AuditLimits = field(default_factory=AuditLimits)

    def __post_init__(self) -> None:
        rules.get(self.rule)
        if self.own_votes not in OWN_VOTES:
            raise UsageError(
                f"own_votes is {self.own_votes!r}.", hint=f"Known: {', '.join(OWN_VOTES)}."
            )


@dataclass(frozen=True, slots=True)
class Scored:
    """A session with its scores, and how each ballot was read."""

    session: Session
    counted: tuple[Counted, ...]
    law: Law
    audit: Audit | None

    @property
    def scores(self) -> tuple[Any, ...]:
        return self.session.scores

    def document(self) -> dict[str, Any]:
        """The result as plain JSON values, in the public shape."""
        document: dict[str, Any] = {
            "rule": self.law.rule,
            "own_votes": self.law.own_votes,
            "rubric": self.law.rubric.name if self.law.rubric else None,
            "scores": [_score_row(score, self.law) for score in self.session.scores],
            "ballots": [
                _ballot_row(ballot, counted)
                for ballot, counted in zip(self.session.ballots, self.counted, strict=True)
            ],
            "flags": list(self.session.flags),
        }
        if self.session.id:
            document = {"session_id": self.session.id, **document}
        if self.audit is not None:
            document["bias_audit"] = dict(self.audit.bias_audit)
            document["findings"] = [finding._asdict() for finding in self.audit.findings]
        document["safety_gate"] = {
            "enabled": self.law.safety_gate,
            **safety_metadata(self.session.gates),
        }
        return document


Ballots = Session | Mapping[str, Any] | Sequence[Any]


def score(ballots: Ballots, law: Law | None = None, **choices: Any) -> Any:
    """Scores of a ballots document or of a `Session`; for a list of them, a list.

    The law may be given whole, or by its parts: `score(ballots, rule="elo")`.
    """
    law = law if law is not None else Law(**_known(choices))
    if isinstance(ballots, Session):
        return score_session(ballots, law)
    if isinstance(ballots, Mapping):
        return score_session(session_of(ballots), law)
    if isinstance(ballots, Sequence) and not isinstance(ballots, str | bytes):
        if all(isinstance(item, Session) for item in ballots):
            return [score_session(item, law) for item in ballots]
        return [score_session(session, law) for session in sessions_of(list(ballots))]
    raise UsageError(
        f"score takes a ballots document, a Session or a list, not {type(ballots).__name__}."
    )


def _known(choices: dict[str, Any]) -> dict[str, Any]:
    rubric = choices.get("rubric")
    if isinstance(rubric, str):
        from peerage import config

        choices = {**choices, "rubric": config.rubric(rubric)}
    unknown = sorted(set(choices) - set(Law.__dataclass_fields__))
    if unknown:
        raise UsageError(
            f"score has no option {unknown[0]!r}.",
            hint=f"Known: {', '.join(Law.__dataclass_fields__)}.",
        )
    return choices


def score_session(session: Session, law: Law) -> Scored:
    """One session under one law; the session comes back with its scores and gates."""
    gates, flags = _gates(session, law)
    failed = frozenset(gate.model for gate in gates if not gate.passed)
    reviews = {(review.reviewer, review.round): review for review in session.reviews}
    cap = Fraction(repr(float(law.safety_score_cap)))
    counted = tuple(
        count(ballot, reviews[ballot.reviewer, ballot.round], law.rubric, failed, cap)
        for ballot in session.ballots
    )
    ballots, last = _last_round(session.ballots, counted)
    scores = tally(last, session.candidates, rules.get(law.rule), rules.get("borda"), law.own_votes)
    flags += [f"no_votes:{score.model}" for score in scores if not score.votes]
    n_counted = sum(not ballot.abstained for ballot in last)
    flags += ["single_ballot"] if n_counted == 1 else ["no_ballots"] if n_counted == 0 else []
    audit = None
    if law.audit:
        audit = audit_session(session.responses, ballots, last, law.limits)
    folded = replace(
        session, scores=scores, gates=gates, audit=audit, flags=(*session.flags, *flags)
    )
    return Scored(folded, counted, law, audit)


def _gates(session: Session, law: Law) -> tuple[tuple[Gate, ...], list[str]]:
    if not law.safety_gate:
        return (), []
    if session.gates:
        return session.gates, []
    unread = [r.model for r in session.responses if not r.text]
    unread += sorted(set(session.candidates) - {r.model for r in session.responses})
    gates = screen([r for r in session.responses if r.text])
    return tuple(gates), [f"not_screened:{name}" for name in unread]


def _last_round(
    ballots: Sequence[Ballot], counted: Sequence[Counted]
) -> tuple[list[Ballot], list[Counted]]:
    """Each reviewer's latest vote, and the ballot it was cast on: a second thought replaces."""
    latest: dict[str, tuple[Ballot, Counted]] = {}
    for ballot, reading in sorted(zip(ballots, counted, strict=True), key=lambda b: b[0].round):
        if ballot.reviewer not in latest or not reading.abstained:
            latest[ballot.reviewer] = (ballot, reading)
    return [ballot for ballot, _ in latest.values()], [vote for _, vote in latest.values()]


def _score_row(score: Any, law: Law) -> dict[str, Any]:
    row = {
        "model": score.model,
        "final_rank": score.rank,
        "borda_score": score.borda,
        "share": score.share,
        "share_low": score.low,
        "share_high": score.high,
        "vote_count": score.votes,
        "win_count": score.wins,
        "confidence": score.confidence,
        "mean_score": score.mean_score,
        "passed_gate": score.passed,
    }
    if law.rule != "borda":
        row["value"] = score.value
    return row


def _ballot_row(ballot: Ballot, counted: Counted) -> dict[str, Any]:
    label_by_author = {slot.author: f"Response {slot.label}" for slot in ballot.slots}
    tiers = [[label_by_author[name] for name in tier] for tier in counted.tiers]
    return {
        "reviewer": ballot.reviewer,
        "round": ballot.round,
        "ranking": [tier[0] if len(tier) == 1 else tier for tier in tiers],
        "overall": {label_by_author[name]: score for name, score in counted.scores.items()},
        "label_to_model": {
            f"Response {slot.label}": {"model": slot.author, "display_index": i}
            if ballot.positions_known
            else slot.author
            for i, slot in enumerate(ballot.slots)
        },
        "abstained": counted.abstained,
        "flags": list(counted.flags),
    }
