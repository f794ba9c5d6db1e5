"""Score the ballots of a session: count them, apply the rule and the safety gate, and audit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, TypeAlias, get_args, overload

from peerage import config
from peerage.arguments import FLAG, check_arguments, instance, optional
from peerage.ballot_files import (
    Step,
    is_rankings,
    report_nothing,
    report_steps,
    session_of,
    sessions_of,
)
from peerage.biases.one_session import audit_session
from peerage.config import Settings
from peerage.config.recorded import recorded_council
from peerage.config.settings import scoring_options
from peerage.council.counting import count, has_vote, overall, tally
from peerage.council.readings import reviewed_ballots
from peerage.council.safety import looks_like_a_refusal, safety_metadata, screen
from peerage.errors import UsageError, few, how_many
from peerage.events import Opened
from peerage.findings import Audit
from peerage.names import alike, is_reserved
from peerage.notebooks import Tabular
from peerage.rules import rules
from peerage.rules.marks import refuse_without_marks
from peerage.types import (
    Ballot,
    Counted,
    Gate,
    OwnVotes,
    Review,
    Rubric,
    Score,
    ScoringOptions,
    Session,
)

MARKS = "marks"  # the rule that needs a mark for each answer
MAX_NAMED = 3  # tied candidates named in a repr


def check_options(options: ScoringOptions) -> None:
    """Raise an error for an unknown rule or an unknown value of own_votes."""
    rules.get(options.rule)
    known = get_args(OwnVotes)
    if options.own_votes not in known:
        raise UsageError(
            f"own_votes cannot be {options.own_votes!r}.", hint=f"Known: {', '.join(known)}."
        )


def recorded_options(settings: Settings, opened: Opened) -> ScoringOptions:
    """Return the options of a stored session; the limits of its audit come from the settings."""
    council = recorded_council(opened, settings.council)
    options = scoring_options(council, recorded_rubric(settings, opened), settings.audit.limits)
    check_options(options)
    return options


def recorded_rubric(settings: Settings, opened: Opened) -> Rubric | None:
    """Return the recorded rubric of a stored session; an old log only has its name."""
    if opened.rubric is not None:
        return opened.rubric.rubric()
    name = recorded_council(opened, settings.council).rubric
    return config.rubric(name, settings) if name else None


@dataclass(frozen=True, slots=True, repr=False)
class Scored(Tabular):
    """A session with its scores, and how each ballot was counted."""

    session: Session
    counted: tuple[Counted, ...]
    options: ScoringOptions
    audit: Audit | None

    @property
    def scores(self) -> tuple[Score, ...]:
        return self.session.scores

    def __repr__(self) -> str:
        best = [repr(one.model) for one in self.scores if one.rank == 1]
        how = "tied for first" if best[1:] else "first"
        first = f", {few(best, MAX_NAMED)} {how}" if best else ""
        first = first if self.n_counted else ", no ballot counted"
        return f"Scored({how_many(len(self.scores), 'candidate')} by {self.options.rule}{first})"

    @property
    def n_counted(self) -> int:
        """The number of ballots with a vote."""
        n = len(self.session.candidates)
        return sum(has_vote(ballot, self.options.own_votes, n) for ballot in self.counted)

    @property
    def n_lowered(self) -> tuple[int, int]:
        """The number of scores that a ceiling of the rubric lowered, and of all scores by marks."""
        rubric = self.options.rubric
        if rubric is None:
            return 0, 0
        bare = replace(rubric, ceilings=())
        pairs = [
            (overall(marks, rubric), overall(marks, bare))
            for review in self.session.reviews
            for marks in review.marks.values()
            if "accuracy" in marks
        ]
        return sum(limited != free for limited, free in pairs), len(pairs)

    def table(self) -> dict[str, list[Any]]:
        rows = [_score_row(score, self.options) for score in self.scores]
        return {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}

    def document(self) -> dict[str, Any]:
        """Return the result as plain JSON values, in the documented form."""
        document: dict[str, Any] = {
            "rule": self.options.rule,
            "own_votes": self.options.own_votes,
            "rubric": self.options.rubric.name if self.options.rubric else None,
            "scores": self.rows,
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
            "enabled": self.options.safety_gate,
            **safety_metadata(self.session.gates),
        }
        return document


@overload
def score(
    ballots: Session | Mapping[str, Any] | Sequence[Sequence[Any]],
    options: ScoringOptions | None = None,
    *,
    rule: str | None = None,
    own_votes: OwnVotes | None = None,
    rubric: str | Rubric | None = None,
    safety_gate: bool | None = None,
) -> Scored: ...


@overload
def score(
    ballots: Sequence[Session | Mapping[str, Any]],
    options: ScoringOptions | None = None,
    *,
    rule: str | None = None,
    own_votes: OwnVotes | None = None,
    rubric: str | Rubric | None = None,
    safety_gate: bool | None = None,
) -> list[Scored]: ...


@check_arguments(
    options=optional(
        instance("ScoringOptions", ScoringOptions, hint='As in score(ballots, rule="elo").')
    ),
    rubric=optional(instance("a rubric or its name", str, Rubric)),
    safety_gate=optional(FLAG),
)
def score(
    ballots: Session | Mapping[str, Any] | Sequence[Any],
    options: ScoringOptions | None = None,
    *,
    rule: str | None = None,
    own_votes: OwnVotes | None = None,
    rubric: str | Rubric | None = None,
    safety_gate: bool | None = None,
) -> Scored | list[Scored]:
    """Score a ballots document or a `Session`; for a list of them, or for rows, return a list.

    Rankings by name, `[["m1", "m2"], …]` or by reviewer, are one session. A keyword replaces that
    option: `score(ballots, rule="elo")`.
    """
    rubric = config.rubric(rubric) if isinstance(rubric, str) else rubric
    keywords = {"rule": rule, "own_votes": own_votes, "rubric": rubric, "safety_gate": safety_gate}
    changes: dict[str, Any] = {name: value for name, value in keywords.items() if value is not None}
    options = replace(options or ScoringOptions(), **changes)
    check_options(options)
    if isinstance(ballots, Session):
        ballots = reviewed_ballots(ballots)  # a silent reviewer abstains
        return check_marks(score_session(ballots, options))
    if isinstance(ballots, Mapping) or is_rankings(ballots):
        return check_marks(score_session(session_of(ballots), options))
    if isinstance(ballots, Sequence) and not isinstance(ballots, str | bytes):
        are_sessions = all(isinstance(item, Session) for item in ballots)
        sessions = ballots if are_sessions else sessions_of(list(ballots))
        return [check_marks(score_session(session, options)) for session in sessions]
    raise UsageError(
        f"score takes a ballots document, a Session or a list, not {type(ballots).__name__}."
    )


CountBallot: TypeAlias = Callable[[Ballot, Review, frozenset[str]], Counted]


def count_ballot(
    options: ScoringOptions, ballot: Ballot, review: Review, failed: frozenset[str]
) -> Counted:
    """Return how a review counts under some options, given the candidates that failed the gate."""
    cap = Fraction(repr(float(options.safety_score_cap)))
    return count(ballot, review, options.rubric, failed, cap, soft_votes=options.soft_votes)


def check_marks(scored: Scored) -> Scored:
    """Return a scored session; refuse the rule marks if a counted ballot has no marks."""
    refuse_without_marks(_without_marks(scored.counted, scored.session, scored.options))
    return scored


def _without_marks(
    counted: Sequence[Counted], session: Session, options: ScoringOptions
) -> list[str]:
    """Return the reviewers whose votes the rule marks cannot use."""
    if options.rule != MARKS:
        return []
    n = len(session.candidates)
    return sorted(
        {
            ballot.reviewer
            for ballot in counted
            if not ballot.overall and has_vote(ballot, options.own_votes, n)
        }
    )


def score_session(
    session: Session,
    options: ScoringOptions,
    step: Step = report_nothing,
    count_one: CountBallot | None = None,
) -> Scored:
    """Return one session with its scores, gates, flags and audit.

    `count_one` lets the caller reuse counts that it already has.
    """
    count_one = count_one or partial(count_ballot, options)
    gates, flags = _gates(session, options)
    failed = frozenset(gate.model for gate in gates if not gate.passed)
    reviews = {(r.reviewer, r.round, r.sheet): r for r in session.reviews}
    counted = tuple(
        count_one(b, reviews[b.reviewer, b.round, b.sheet], failed)
        for b in report_steps(session.ballots, step, "ballots counted")
    )
    ballots, last = last_round(session.ballots, counted)
    scores = tally(
        last, session.candidates, rules.get(options.rule), rules.get("borda"), options.own_votes
    )
    flags += [f"no_votes:{score.model}" for score in scores if not score.votes]
    names = (*session.candidates, *(ballot.reviewer for ballot in session.ballots))
    flags += [f"names_alike:{' and '.join(map(repr, group))}" for group in alike(names)]
    flags += [f"names_reserved:{name!r}" for name in session.candidates if is_reserved(name)]
    declined = [r.model for r in session.responses if looks_like_a_refusal(r.written)]
    flags += [f"looks_like_a_refusal:{name}" for name in declined]
    flags += [f"truncated:{r.model}" for r in session.responses if r.truncated]
    flags += [f"not_marked:{name}" for name in _without_marks(last, session, options)]
    n = len(session.candidates)
    n_counted = sum(has_vote(ballot, options.own_votes, n) for ballot in last)
    flags += ["single_ballot"] if n_counted == 1 else ["no_ballots"] if n_counted == 0 else []
    audit = None
    if options.audit:
        audit = audit_session(session.responses, ballots, last, options.limits)
    folded = replace(
        session, scores=scores, gates=gates, audit=audit, flags=(*session.flags, *flags)
    )
    return Scored(folded, counted, options, audit)


def _gates(session: Session, options: ScoringOptions) -> tuple[tuple[Gate, ...], list[str]]:
    if not options.safety_gate:
        return (), []
    if session.gates:
        return session.gates, []
    unread = [r.model for r in session.responses if not r.text]
    unread += sorted(set(session.candidates) - {r.model for r in session.responses})
    gates = screen([r for r in session.responses if r.text])
    return tuple(gates), [f"not_screened:{name}" for name in unread]


def last_round(
    ballots: Sequence[Ballot], counted: Sequence[Counted]
) -> tuple[list[Ballot], list[Counted]]:
    """Return each reviewer's latest vote and its ballot; a later round replaces an earlier one."""
    latest: dict[tuple[str, int], tuple[Ballot, Counted]] = {}
    for ballot, reading in sorted(zip(ballots, counted, strict=True), key=lambda b: b[0].round):
        key = (ballot.reviewer, ballot.sheet)
        if key not in latest or not reading.abstained:
            latest[key] = (ballot, reading)
    return [ballot for ballot, _ in latest.values()], [vote for _, vote in latest.values()]


def _score_row(score: Score, options: ScoringOptions) -> dict[str, Any]:
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
        "votes": score.votes,
        "possible": score.possible,
        "mean_score": score.mean_score,
        "passed_gate": score.passed,
    }
    if options.rule != "borda":
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
