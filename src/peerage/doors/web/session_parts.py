"""What the parts of a session's page show: who is at the table, and how far everybody is.

Pure functions of a `SessionView`, which the templates call.
"""

from __future__ import annotations

from collections.abc import Collection

from peerage.council.readings import ReviewView
from peerage.doors.render.phrases import session_flags
from peerage.types import Gate, Response
from peerage.view import Member, SessionView


def who_is(view: SessionView, name: str) -> Member:
    """Who is called this; also somebody who never sat here, as in an old log."""
    return next((one for one in view.members if one.name == name), Member(-1, "?", name))


def _named(view: SessionView, names: Collection[str]) -> list[Member]:
    return [member for member in view.members if member.name in names]


def are_given(view: SessionView) -> bool:
    """Whether the answers came with the question, so that no seat was asked for one."""
    return bool(view.responses) and not any(call.stage == "answer" for call in view.calls)


def answering(view: SessionView) -> list[Member]:
    """Those who were asked to answer, or whose answers were given."""
    seats = () if are_given(view) else view.seats
    names = {seat.name for seat in seats if "answer" in seat.roles or not seat.roles}
    return _named(view, names | set(view.session.candidates))


def reviewing(view: SessionView, round: int) -> list[Member]:
    """Those who have a ballot of a round; before it is dealt, who will; people in the last."""
    names = {name for name, n in view.ballots if n == round}
    names = names or {seat.name for seat in view.seats if "review" in seat.roles}
    if round == max(view.rounds, default=0):
        names |= {ballot.reviewer for ballot, _ in view.by_people}
    return _named(view, names)


def working(view: SessionView) -> list[Member]:
    """Those who write or read right now."""
    stage = {"answers": "answer", "reviews": "review"}.get(view.stage, "conclude")
    return _named(view, {seat for seat, at, _ in view.pending if at == stage})


def candidates(view: SessionView) -> list[Member]:
    """Whose answers are on the ballots; before there are any, whose are expected."""
    return _named(view, view.session.candidates) or answering(view)


def winners(view: SessionView) -> list[Member]:
    """Who stands first by the votes that were counted then."""
    scores = view.session.scores
    return [who_is(view, one.model) for one in scores if one.rank == 1 and one.votes]


def rank_of(view: SessionView, name: str) -> int | None:
    """The rank of somebody whom at least one vote has ranked."""
    scores = view.session.scores
    return next((one.rank for one in scores if one.model == name and one.votes), None)


def response_of(view: SessionView, name: str) -> Response | None:
    """The answer of somebody, where there is one."""
    return next((one for one in view.responses if one.model == name), None)


def gate_of(view: SessionView, name: str) -> Gate | None:
    """What the safety gate said of somebody's answer."""
    return next((one for one in view.gates if one.model == name), None)


def is_person(view: SessionView, name: str) -> bool:
    """Whether a person of this name has reviewed the session."""
    return any(ballot.reviewer == name for ballot, _ in view.by_people)


def n_answered(view: SessionView) -> tuple[int, int]:
    """How many seats have answered or failed to, and how many there are."""
    done = {response.model for response in view.responses}
    done |= {name for name, stage, _ in view.failed if stage == "answer"}
    members = answering(view)
    return sum(member.name in done for member in members), len(members)


def n_reviewed(view: SessionView) -> tuple[int, int]:
    """How many ballots of the last round are done with, and how many there are or will be."""
    last = max(view.rounds, default=0)
    done = {name for name, n in view.read if n == last}
    done |= {name for name, stage, n in view.failed if (stage, n) == ("review", last)}
    done |= {name for name, n in view.not_heard if n == last}
    reviewers = [name for name, n in view.ballots if n == last]
    return sum(name in done for name in reviewers), len(reviewers) or len(reviewing(view, 0))


def took_s(view: SessionView) -> float | None:
    """How long the session took, where it is over."""
    return None if view.ended_at is None else view.ended_at - view.opened_at


def row_state(
    view: SessionView, reviewer: str, round: int, review: ReviewView | None
) -> tuple[str, str]:
    """The state of a reviewer's row in the grid, and what to say of it."""
    call = (reviewer, "review", round)
    is_over = (reviewer, round) in view.not_heard or view.ended_at is not None
    if call in view.asked_again and not is_over:
        return "reading", "asked again …"
    if review is not None:
        ranks = any(remark.place is not None for remark in review.remarks)
        return ("done", "") if ranks else ("abstained", "gave no vote that counts")
    if failure := view.failed.get(call):
        return "failed", failure.kind.replace("_", " ")
    if (reviewer, round) in view.not_heard:
        return "not_heard", "not needed: the winner could not change"
    if call in view.pending:
        return "reading", "reads and ranks …"
    return "waiting", ""


def flags_of(view: SessionView) -> list[str]:
    """What was odd about the ballots of a session, in words."""
    flags = [(one.reviewer, flag) for one in view.read.values() for flag in one.flags]
    return session_flags([*flags, *(("", flag) for flag in view.session.flags)])


FOR_TEMPLATES = (
    *(who_is, are_given, answering, reviewing, working, candidates, winners),
    *(rank_of, response_of, gate_of, is_person, n_answered, n_reviewed, took_s),
    *(row_state, flags_of),
)
