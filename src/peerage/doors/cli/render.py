"""A session for a person: the verdict, the ranking, the dissent, the bill."""

from __future__ import annotations

from typing import TYPE_CHECKING

from peerage.doors.cli.live import failure_line
from peerage.doors.cli.score import notes, ranking
from peerage.reports.sessions import rescored
from peerage.types import ScoringOptions, Session

if TYPE_CHECKING:
    from peerage.doors.cli.terminal import Terminal


def show_session(
    session: Session, options: ScoringOptions, console: Terminal | None = None, brief: bool = False
) -> None:
    """A session on a terminal; brief is the verdict alone."""
    from peerage.doors.cli.terminal import Terminal, markdown, panel, paragraph

    console = console or Terminal()
    if session.verdict is not None:
        verdict = session.verdict
        title = verdict.kind.replace("_", " ") + (f" by {verdict.by}" if verdict.by else "")
        if verdict.approved is not None:
            title += ": approved" if verdict.approved else ": rejected"
        text = verdict.text or verdict.note
        if brief:
            console.print(paragraph(text))
            return
        console.print(panel(markdown(text), title, title_align="left"))
        if verdict.note:
            console.print(f"note: {verdict.note}", style="yellow")
    if session.ballots:
        scored = rescored(session, options)
        console.print(ranking(scored, console.width))
        for line in notes(scored):
            console.print(line, style="dim")
    _show_rest(console, session)


def _show_rest(console: Terminal, session: Session) -> None:
    for words in session.verdict.dissent if session.verdict else ():
        far = f"{words.distance:.0%} of pairs the other way"
        line = f"dissent ({far}), {words.reviewer}: “{words.quote}”"
        console.print(line, style="magenta")
    for failure in session.failures:
        console.print(failure_line(failure), style="red")
    if session.status == "no_quorum":
        n = len(session.responses)
        console.print(f"Only {n} answered: too few to review each other.", style="red")
    cost = "unknown" if session.cost_usd is None else f"${session.cost_usd:.4f}"
    console.print(f"session {session.id} · cost {cost}", style="dim")
