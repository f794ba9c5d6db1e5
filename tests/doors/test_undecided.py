"""A panel of which one rejects and four fail: undecided at every door, and the four are named."""

import pytest

from peerage.doors.cli.session_commands import exit_code
from peerage.doors.mcp.session_tools import session_answer
from peerage.doors.openai.deliberation import session_outcome
from peerage.doors.render.layout import blocks_markdown
from peerage.doors.render.pages import session_page
from peerage.doors.render.session_views import ask_blocks
from peerage.panel import Council
from peerage.reports.sessions import session_document
from peerage.types import ScoringOptions, Seat
from peerage.view import SessionView

SILENT = ("w", "x", "y", "z")


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    poor, dead = {"quality": 1.0}, {"failure_rate": 1.0, "failure_kind": "unauthorized"}
    seats = [Seat(name, "simulated", roles=("answer",), options=poor) for name in "ab"]
    seats += [Seat("r", "simulated", roles=("review",))]
    seats += [Seat(name, "simulated", roles=("review",), options=dead) for name in SILENT]
    store = f"sqlite:///{tmp_path_factory.mktemp('undecided')}/s.db"
    with Council(seats=seats, store=store, seed=1, verdict="binary") as council:
        session = council.ask_sync("Ship it?")
        events = council.store.events(session.id)
    return SessionView.of(events, scoring=ScoringOptions())


def test_json_says_undecided_and_names_who_gave_no_decision(stored):
    verdict = session_document(stored)["verdict"]
    assert (verdict["decision"], verdict["approved"]) == ("undecided", None)
    assert verdict["confidence"] == 0.2
    assert [one["seat"] for one in verdict["failed"]] == list(SILENT)


def test_terminal_page_and_quiet_output_say_undecided_and_name_them(stored):
    for text in (blocks_markdown(ask_blocks(stored)), session_page(stored)):
        assert "undecided" in text
        assert "no decision from w (" in text
    assert stored.conclusion.startswith("Undecided: ")


def test_an_undecided_gate_does_not_exit_as_an_approval(stored):
    assert exit_code(stored.session, "binary") == 3


def test_mcp_and_openai_clients_read_undecided_first(stored):
    answer = session_answer(stored)
    assert answer.approved is None
    assert "no decision from w" in answer.note
    assert answer.verdict == stored.conclusion
    assert answer.verdict.startswith("Undecided: 0 approve and 1 reject, of 5")
    extras = session_outcome(stored, {}).extras
    assert (extras["verdict"], extras["approved"]) == ("binary", None)
    concluding = {one["seat"] for one in extras["failed"] if one["stage"] == "conclude"}
    assert concluding == set(SILENT)
