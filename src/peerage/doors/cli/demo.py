"""`peerage demo`: what peer review does to four answers, on a bundled ballots file."""

from __future__ import annotations

from importlib.resources import files

from rich.console import Console
from rich.rule import Rule

from peerage import config
from peerage.council.documents import read_json, session_of
from peerage.doors.cli.score import show
from peerage.scoring import Law, score_session

EXAMPLE = "src/peerage/examples/ballots.json"


def run() -> None:
    console = Console()
    data = files("peerage").joinpath("examples/ballots.json").read_bytes()
    session = session_of(read_json(data, EXAMPLE))
    console.print(Rule("As the reviewers ranked them"))
    console.print(
        "Four models answered and reviewed each other blind, each in an order of its own.\n"
        "magpie blames the oceans, in lovely prose; it ranks itself first and robin falls for it.\n"
    )
    show(console, score_session(session, Law()))
    console.print(Rule("By their marks, with accuracy as a ceiling"))
    console.print("An answer marked under 5 for accuracy cannot score above 4.0 overall.\n")
    show(console, score_session(session, Law(rubric=config.rubric("general"))))
    console.print(f"Go on with your own ballots: peerage score {EXAMPLE} --rubric general --json")
