"""A running session as lines of progress, for logs, chat clients and agents."""

from __future__ import annotations

from peerage.events import (
    Answered,
    Asked,
    Dealt,
    Failed,
    Noted,
    Opened,
    Reviewed,
    StoppedEarly,
    Tallied,
    read_event,
)
from peerage.text import visible
from peerage.types import Event, Gate

MAX_CHARACTERS = 200  # of a line that an agent is told


class ProgressLines:
    """Says each event of one session in a line, or nothing; it counts who is done."""

    def __init__(self, max_characters: int | None = MAX_CHARACTERS) -> None:
        self.max_characters = max_characters  # of a line
        self.n_seats = 0
        self.n_answered = 0
        self.n_ballots = 0
        self.n_reviewed = 0
        self.n_answers = 0

    def line(self, event: Event) -> str | None:
        """The line for the next event of the session."""
        text = self._line(event)
        if text is None:
            return None
        text, longest = visible(text), self.max_characters
        return text if longest is None or len(text) <= longest else text[: longest - 1] + "…"

    def _line(self, event: Event) -> str | None:
        match read_event(event):
            case Opened() as fact:
                asked = [seat.name for seat in fact.seats if "answer" in seat.roles]
                self.n_seats = len(asked)
                return f"asking {', '.join(asked)}" if asked else None
            case Answered() as fact:
                self.n_answered += 1
                n_words = len(fact.text.split())
                return f"{fact.seat} answered in {n_words} words{self._answers_so_far()}"
            case Noted() as fact:
                return fact.text
            case Failed(kind="skipped", message=""):
                return None  # said before
            case Failed() as fact:
                return f"{fact.seat} failed to {fact.stage}: {fact.kind}, {fact.message}"
            case Gate() as fact if not fact.passed:
                return f"{fact.model}'s answer did not pass the safety gate"
            case Dealt() as fact:
                self.n_ballots, self.n_reviewed = len(fact.ballots), 0
                self.n_answers = max((len(one.order) for one in fact.ballots), default=0)
                return f"{self.n_ballots} reviewers have their ballots"
            case Reviewed() as fact:
                self.n_reviewed += 1
                so_far = f"({self.n_reviewed} of {self.n_ballots})"
                return f"{fact.reviewer} reviewed {self.n_answers} answers {so_far}"
            case StoppedEarly() as fact:
                return f"the winner cannot change any more; not heard: {', '.join(fact.not_heard)}"
            case Tallied() as fact if fact.scores:
                best = [score.model for score in fact.scores if score.rank == 1]
                return f"ranked first: {', '.join(best)}"
            case Asked() as fact if fact.stage == "conclude":
                return f"{fact.seat} is asked for the verdict"
            case _:
                return None

    def _answers_so_far(self) -> str:
        return f" ({self.n_answered} of {self.n_seats})" if self.n_seats else ""
