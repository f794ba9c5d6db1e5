"""Values for the parts of a session's page: the members, and their progress.

These are pure functions of a `SessionView`. The templates call them.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from itertools import pairwise
from typing import NamedTuple

from peerage.council.readings import ReviewView
from peerage.doors.render.model_names import clear_names
from peerage.doors.render.phrases import correct_lines, session_flags
from peerage.panel_probabilities import option_names
from peerage.types import Gate, Response
from peerage.view import Member, SessionView


def who_is(view: SessionView, name: str) -> Member:
    """Return the member with this name, or a placeholder if an old log does not have it."""
    return next((one for one in view.members if one.name == name), Member(-1, "?", name))


def _members_named(view: SessionView, names: Collection[str]) -> list[Member]:
    return [member for member in view.members if member.name in names]


def are_given(view: SessionView) -> bool:
    """Return whether the answers came with the question, so that no seat was asked for one."""
    return bool(view.responses) and not any(call.stage == "answer" for call in view.calls)


def answering(view: SessionView) -> list[Member]:
    """Return the members that were asked to answer, or whose answers were given."""
    seats = () if are_given(view) else view.seats
    names = {seat.name for seat in seats if "answer" in seat.roles or not seat.roles}
    return _members_named(view, names | set(view.session.candidates))


def reviewing(view: SessionView, round: int) -> list[Member]:
    """Return the members that have or will get a ballot of a round; the last includes people."""
    names = {name for name, n in view.ballots if n == round}
    names = names or {seat.name for seat in view.seats if "review" in seat.roles}
    if round == max(view.rounds, default=0):
        names |= {ballot.reviewer for ballot, _ in view.by_people}
    return _members_named(view, names)


def working(view: SessionView) -> list[Member]:
    """Return the members that are working now."""
    stage = {"answers": "answer", "reviews": "review"}.get(view.stage, "conclude")
    return _members_named(view, {seat for seat, at, _ in view.pending if at == stage})


def candidates(view: SessionView) -> list[Member]:
    """Return the members whose answers are on ballots; before that, the members that answer."""
    return _members_named(view, view.session.candidates) or answering(view)


def winners(view: SessionView) -> list[Member]:
    """Return the members ranked first by the recorded votes."""
    scores = view.session.scores
    return [who_is(view, one.model) for one in scores if one.rank == 1 and one.votes]


def rank_of(view: SessionView, name: str) -> int | None:
    """Return the rank of a member with at least one vote."""
    scores = view.session.scores
    return next((one.rank for one in scores if one.model == name and one.votes), None)


def response_of(view: SessionView, name: str) -> Response | None:
    """Return the answer of a member, or None."""
    return next((one for one in view.responses if one.model == name), None)


def gate_of(view: SessionView, name: str) -> Gate | None:
    """Return the result of the safety gate for a member's answer."""
    return next((one for one in view.gates if one.model == name), None)


def is_person(view: SessionView, name: str) -> bool:
    """Return whether a person of this name has reviewed the session."""
    return any(ballot.reviewer == name for ballot, _ in view.by_people)


class StepCounts(NamedTuple):
    """How many calls of a step succeeded, how many failed, and how many there are."""

    done: int
    failed: int
    total: int

    @property
    def words(self) -> str:
        """The counts as words: `10 of 12, 2 failed`."""
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self.done} of {self.total}{failed}"

    @property
    def percent(self) -> float:
        return 100 * (self.done + self.failed) / self.total if self.total else 0.0


def n_answered(view: SessionView) -> StepCounts:
    """Count the seats that have answered and those that failed to."""
    done = {response.model for response in view.responses}
    failed = {name for name, stage, _ in view.failed if stage == "answer"} - done
    names = [member.name for member in answering(view)]
    return StepCounts(sum(n in done for n in names), sum(n in failed for n in names), len(names))


def n_reviewed(view: SessionView) -> StepCounts:
    """Count the last round's ballots that were read or not needed, and those that failed."""
    last = max(view.rounds, default=0)
    done = {name for name, n in view.read if n == last}
    done |= {name for name, n in view.not_heard if n == last}
    failed = {name for name, stage, n in view.failed if (stage, n) == ("review", last)} - done
    names = [name for name, n in view.ballots if n == last]
    total = len(names) or len(reviewing(view, 0))
    return StepCounts(sum(n in done for n in names), sum(n in failed for n in names), total)


def n_voted(view: SessionView) -> StepCounts:
    """Count the seats that have voted on typed questions, and those that failed or abstained."""
    seats = [seat.name for seat in view.seats if "review" in seat.roles]
    voted = {seat for votes in view.typed_votes.values() for seat in votes}
    failed = {name for name, stage, _ in view.failed if stage == "conclude"}
    failed = (failed | set(view.abstained_seats)) - voted
    return StepCounts(sum(n in voted for n in seats), sum(n in failed for n in seats), len(seats))


class SessionStep(NamedTuple):
    """One step of a session: its title, its state (done, now, next), counts, and seconds taken."""

    title: str
    state: str
    counts: StepCounts | None
    took_s: float | None


def steps_of(view: SessionView) -> list[SessionStep]:
    """Return the three steps of a session, with progress and duration.

    A decision on typed questions has one step.
    """
    if view.query.questions:
        took = view.ended_at - view.opened_at if view.ended_at else None
        state = "done" if view.is_finished else "now"
        return [SessionStep("Votes", state, n_voted(view), took)]
    at = ("answers", "reviews", "verdict", "finished").index(view.stage)
    ends = (view.dealt_at, view.tallied_at, view.ended_at)
    starts = (view.opened_at, view.dealt_at, view.tallied_at)
    reviews = "Committed reviews" if view.is_committed else "Blind reviews"
    titles = ("Answers given" if are_given(view) else "Answers", reviews, "Verdict")
    counts = (n_answered(view), n_reviewed(view), None)
    return [
        SessionStep(
            title,
            "done" if i < at else "now" if i == at else "next",
            count if count and count.total and i <= at else None,
            end - start if start and end and i < at else None,
        )
        for i, (title, count, start, end) in enumerate(
            zip(titles, counts, starts, ends, strict=True)
        )
    ]


def by_rank(view: SessionView) -> list[Member]:
    """Return the answering members in order of rank; members without a rank come last."""
    place = {one.model: i for i, one in enumerate(view.session.scores)}
    return sorted(answering(view), key=lambda one: place.get(one.name, len(place)))


def columns_of_grid(view: SessionView) -> list[Member]:
    """Return the candidates; after the session in order of rank, best first."""
    shown = candidates(view)
    return [one for one in by_rank(view) if one in shown] if view.session.finished else shown


def rows_of_grid(view: SessionView, round: int) -> list[Member]:
    """Return the reviewers of a round; after the session, in the order of the columns."""
    rows = reviewing(view, round)
    order = columns_of_grid(view) if view.session.finished else []
    return [*(one for one in order if one in rows), *(one for one in rows if one not in order)]


def has_own_answers(view: SessionView) -> bool:
    """Return whether a reviewer of the session also wrote one of its answers, or will."""
    shown = candidates(view)
    return any(one in shown for i in view.rounds or (0,) for one in reviewing(view, i))


def short_names_in(view: SessionView) -> dict[str, str]:
    """Return a short and unique name for each member."""
    return clear_names([one.name for one in view.members])


def elapsed_s(since: float | None) -> float:
    """Return the seconds since a time."""
    return max(0.0, time.time() - since) if since else 0.0


def equal_words(view: SessionView) -> str:
    """Explain the order of answers with equal shares, or return an empty text."""
    scores = [one for one in view.session.scores if one.votes]
    pairs = list(pairwise(scores))
    if view.options.rule != "borda" or not any(a.share == b.share for a, b in pairs):
        return ""
    by_wins = any(a.share == b.share and a.rank != b.rank for a, b in pairs)
    tied = any(a.rank == b.rank for a, b in pairs)
    words = "Of equal shares, the answer with more first places ranks higher. " if by_wins else ""
    return words + ("Equal in both: the same rank, listed by name." if tied else "")


def took_s(view: SessionView) -> float | None:
    """Return the duration of a finished session, or None."""
    return None if view.ended_at is None else view.ended_at - view.opened_at


def row_state(
    view: SessionView, reviewer: str, round: int, review: ReviewView | None
) -> tuple[str, str]:
    """Return the state of a reviewer's row in the grid, and its text."""
    call = (reviewer, "review", round)
    is_over = (reviewer, round) in view.not_heard or view.ended_at is not None
    if call in view.asked_again and not is_over:
        return "reading", "asked again …"
    if review is not None:
        ranks = any(remark.place is not None for remark in review.remarks)
        return ("done", "") if ranks else ("abstained", "has no vote that counts")
    if failure := view.failed.get(call):
        return "failed", f"{failure.kind.replace('_', ' ')}: {failure.message}"
    if (reviewer, round) in view.not_heard:
        return "not_heard", "not needed: the winner could no longer change"
    if call in view.pending:
        return "reading", "reads and ranks …"
    return "waiting", ""


def flags_of(view: SessionView) -> list[str]:
    """Return oddities of the ballots of a session, in words."""
    flags = [(one.reviewer, flag) for one in view.read.values() for flag in one.flags]
    return session_flags([*flags, *(("", flag) for flag in view.session.flags)])


FOR_TEMPLATES = (
    *(who_is, answering, working, candidates, winners),
    *(rank_of, response_of, gate_of, is_person, took_s),
    *(row_state, flags_of, steps_of, by_rank, short_names_in, elapsed_s, equal_words),
    *(option_names, columns_of_grid, rows_of_grid, correct_lines, has_own_answers),
)
