"""`peerage demo`: a real council on the local model, then a simulated season with known faults.

The local model answers fluently and judges badly, and the tour says so. Then a simulated season,
of which the truth is known, shows that the board and the audit find it.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from peerage import config
from peerage.ballot_files import read_json, session_of
from peerage.doors.cli.terminal import Terminal, join_texts, style_text, watch
from peerage.doors.demo_store import N_SESSIONS, SEED, demo_seats, run_demo_season
from peerage.doors.render.report_views import show_audit, show_board, show_rings
from peerage.doors.render.session_views import ask_blocks, show_scored
from peerage.errors import how_many
from peerage.panel import Council
from peerage.scoring import score_session
from peerage.types import ScoringOptions, Session
from peerage.view import SessionView

QUESTION = "Why do we see lightning before we hear thunder?"


def demo(
    question: Annotated[str, Parameter(help="Question for the local model's seats.")] = QUESTION,
    /,
    *,
    pause: Annotated[
        bool, Parameter(negative="--no-pause", help="Wait for Enter after each screen.")
    ] = True,
) -> None:
    """Take a short tour without a key or a network: a real council, then a simulated season."""
    console = Terminal()
    pause = pause and console.is_terminal and sys.stdin is not None and sys.stdin.isatty()
    with tempfile.TemporaryDirectory() as folder:
        _local_council(console, Path(folder), question)
        _wait(console, pause)
        _exact_scores(console)
        _wait(console, pause)
        asyncio.run(_season(console, Path(folder), pause))
    _wait(console, pause)
    _community(console)
    _goodbye(console)


def _wait(console: Terminal, pause: bool) -> None:
    if pause:
        with suppress(EOFError):  # Ctrl-D goes on, too
            console.input("Enter for the next screen …")
        console.clear()


# -- a real council -----------------------------------------------------------------------------


def _local_council(console: Terminal, folder: Path, question: str) -> None:
    from peerage.providers.local import QUICK, available, local_seats

    console.title("1. A real council, on a small model inside this process")
    if (missing := available()) is not None:
        console.print(f"Left out: {missing}", style="yellow")
        return
    console.print(
        "Three seats of different temperament share SmolLM2-135M, a toy that fits any laptop. It "
        "writes fluently and judges badly: it sees one answer at a time, without labels, and marks "
        "how likely it would say the same. Do not trust any single row of the grid."
    )
    console.print()
    settings = _settings(folder / "local.db", [asdict(seat) for seat in local_seats()], QUICK)
    view = asyncio.run(_ask(console, Council(settings), question))
    console.show_blocks(ask_blocks(view))
    console.print()
    console.print(_positions(view.session), style="dim")


async def _ask(console: Terminal, council: Council, question: str) -> SessionView:
    live = console.is_terminal
    async with council, council.begun(question, live=live) as begun:
        await watch(begun, console if live else None)
        return begun.view


def _positions(session: Session) -> str:
    """Return how often the answer shown first was ranked first, in words."""
    firsts = [
        (ballot.slots[0].label, review.ranking[0])
        for ballot in session.ballots
        for review in session.reviews
        if review.reviewer == ballot.reviewer and review.ranking
    ]
    n = sum(label in tier for label, tier in firsts)
    return (
        f"{n} of {how_many(len(firsts), 'reviewer')} ranked the answer first that was shown first. "
        "In one session that is an anecdote; `peerage audit` says when it is evidence."
    )


# -- exact scores --------------------------------------------------------------------------------


def _exact_scores(console: Terminal) -> None:
    console.title("2. Why answers are marked: a well-written lie does not win")
    data = files("peerage").joinpath("examples/ballots.json").read_bytes()
    session = session_of(read_json(data, "examples/ballots.json"))
    console.print("magpie blames the oceans, in lovely prose. As the reviewers ranked:")
    console.print()
    show_scored(console, score_session(session, ScoringOptions()), quiet=True)
    console.print()
    console.print("By their marks, where accuracy under 5 caps the score at 4.0:")
    console.print()
    show_scored(console, score_session(session, ScoringOptions(rubric=config.rubric("general"))))


# -- a season of known truth -----------------------------------------------------------------------


async def _season(console: Terminal, folder: Path, pause: bool) -> None:
    from peerage.reports import Reports
    from peerage.reports.from_tables import audit, board_models

    console.title(f"3. A season of {N_SESSIONS} simulated sessions, with known faults")
    console.print(
        "Five models, able to echo, each answer a little worse than the one before. baker gives "
        "1.5 points too much to the answer it is shown first, and charlie gives 2 points too much "
        "to its own. Do the board and the audit find out?"
    )
    console.print()
    settings = _settings(folder / "season.db", demo_seats(), {})
    async with Council(settings) as council:
        with console.status("running the season …"):
            await run_demo_season(council)
        sources = Reports(settings).review_files()
    show_board(console, board_models(sources, since="all"))
    _wait(console, pause)
    console.title("4. The audit of its reviewers")
    show_audit(console, audit(sources), quiet=True)


# -- people ----------------------------------------------------------------------------------------


def _community(console: Terminal) -> None:
    from peerage.reports import InputTables, read_community_boards
    from peerage.simulate import Population, simulate

    console.title("5. People, too: a community with a voting ring in it")
    console.print(
        "Two hundred honest people judge each other's items; so do 15 who approve of everything, "
        "10 contrarians, 8 spammers, and 6 who praise each other. Their names say what they are; "
        "the boards do not know."
    )
    console.print()
    people = Population(honest=200, lazy=15, contrarian=10, spammer=8, rings=(6,))
    community = simulate(people, SEED)
    boards = read_community_boards(
        InputTables(opinions=community.opinions, users=community.users, items=community.items)
    )
    board = boards.reviewers()
    ends = [*range(5), *range(len(board.rows) - 5, len(board.rows))]
    columns = {name: [values[i] for i in ends] for name, values in board.columns.items()}
    show_board(console, replace(board, columns=columns), quiet=True)
    console.print(f"the first and last five of {len(board.rows)} reviewers", style="dim")
    console.print()
    show_rings(console, boards.rings, quiet=True)


def _settings(
    store: Path, seats: list[dict[str, Any]], council: Mapping[str, object]
) -> config.Settings:
    options = {f"council.{name}": value for name, value in council.items()}
    return config.load(
        flags={"store": f"sqlite:///{store}", "seat": seats, "council.seed": SEED, **options},
        environ={},
    )


def _goodbye(console: Terminal) -> None:
    console.title("6. Next steps")
    for command, what in (
        ('peerage ask "…"', "a council of your own models"),
        ("peerage run prompts.jsonl", "a season of sessions; then board models, audit"),
        ("peerage score FILE", "ballots that you already have"),
        ("peerage board reviewers", "boards of people, from opinions you import; then rings"),
        ("peerage doctor", "what is missing here, and how to fix it"),
    ):
        console.print(join_texts(style_text(f"  {command:<28}", "bold"), f" {what}"))
    if shutil.which("peerage") is None:
        activate = Path(sys.executable).parent / "activate"
        console.print("The command is not on your PATH yet. Run this first:", style="dim")
        console.print(f"  . {activate}", style="bold", soft_wrap=True)
