"""A panel of which one rejects and four fail: undecided at every door, and the four are named."""

import pytest

from peerage.council.fold import fold
from peerage.doors.cli.session_commands import exit_code
from peerage.doors.mcp import session_answer
from peerage.doors.openai.deliberation import Outcome
from peerage.doors.render.layout import blocks_markdown
from peerage.doors.render.pages import session_page
from peerage.doors.render.session_views import ask_blocks, bare_verdict
from peerage.events import billed_calls, read_events
from peerage.panel import Council
from peerage.reports.sessions import StoredSession, answer_of, bill_of
from peerage.types import ScoringOptions, Seat

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
    return StoredSession(fold(events), events, ScoringOptions())


def test_json_says_undecided_and_names_who_gave_no_decision(stored):
    verdict = stored.document()["verdict"]
    assert (verdict["decision"], verdict["approved"]) == ("undecided", None)
    assert verdict["confidence"] == 0.2
    assert [one["seat"] for one in verdict["failed"]] == list(SILENT)


def test_terminal_page_and_quiet_output_say_undecided_and_name_them(stored):
    view = stored.view()
    for text in (blocks_markdown(ask_blocks(view)), session_page(view)):
        assert "undecided" in text
        assert "no decision from w (" in text
    assert bare_verdict(view).startswith("undecided\n")


def test_an_undecided_gate_does_not_exit_as_an_approval(stored):
    assert exit_code(stored.session, "binary") == 3


def test_mcp_and_openai_clients_read_undecided_first(stored):
    answer = session_answer(stored)
    assert answer.approved is None
    assert "no decision from w" in answer.note
    assert answer.verdict == answer_of(stored.session)
    assert answer.verdict.startswith("Undecided: 0 approve and 1 reject, of 5")
    outcome = Outcome(stored.session, bill_of(billed_calls(read_events(stored.events))), False)
    extras = outcome.extras("")
    assert (extras["verdict"], extras["approved"]) == ("binary", None)
    concluding = {one["seat"] for one in extras["failed"] if one["stage"] == "conclude"}
    assert concluding == set(SILENT)
