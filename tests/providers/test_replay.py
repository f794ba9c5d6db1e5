"""Replaying seats: the words of an earlier log, and nothing that is not in it."""

import asyncio

import pytest

from peerage import config
from peerage.council.ballots import read_review
from peerage.council.prompts import Page
from peerage.errors import ConfigError
from peerage.panel import Council
from peerage.providers.simulated import Recorded, Replay, _vote
from peerage.types import Event, Seat
from peerage.view import fold
from tests.council.replies import CODE
from tests.session.test_golden import LOGS


def settings(store, seats, verdict="synthesis"):
    council = {"council.seed": 7, "council.verdict": verdict, "council.order": "shared"}
    return config.load(flags={"store": f"sqlite:///{store}", **council, "seat": seats}, environ={})


def ask(made, text="Why?"):
    async def scene():
        async with Council(made) as council:
            return await council.ask(text)

    return asyncio.run(scene())


def test_a_session_is_repeated_from_its_log(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = ask(settings("first.db", [{"name": n, "provider": "simulated"} for n in "abc"]))
    options = {"store": "sqlite:///first.db"}
    seats = [{"name": n, "provider": "replay", "options": options} for n in "abc"]
    again = ask(settings("again.db", seats))
    assert {r.model: r.text for r in again.responses} == {r.model: r.text for r in first.responses}
    assert again.cost_usd == 0.0


def test_a_call_that_is_not_in_the_log_fails(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ask(settings("first.db", [{"name": n, "provider": "simulated"} for n in "abc"]))
    options = {"store": "sqlite:///first.db"}
    seats = [{"name": n, "provider": "replay", "options": options} for n in "abc"]
    session = ask(settings("again.db", seats), "Something else?")
    assert session.status == "no_quorum"
    assert {failure.kind for failure in session.failures} == {"bad_request"}


def test_a_seat_without_a_log_is_refused():
    with pytest.raises(ConfigError, match="needs the option store"):
        Replay(Seat("a", provider="replay"))


def test_a_log_that_has_grown_is_read_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    panel = settings("first.db", [{"name": n, "provider": "simulated"} for n in "abc"])
    options = {"store": "sqlite:///first.db"}
    seats = [{"name": n, "provider": "replay", "options": options} for n in "abc"]
    ask(panel)
    assert ask(settings("again.db", seats)).status == "done"
    ask(panel, "Something else?")
    assert ask(settings("again.db", seats), "Something else?").status == "done"


@pytest.mark.parametrize("verdict", ["binary", "tie_breaker"])
def test_a_replayed_vote_counts_under_the_code_of_its_new_page(tmp_path, verdict):
    simulated = [{"name": n, "provider": "simulated"} for n in "abc"]
    first = ask(settings(tmp_path / "first.db", simulated, verdict))
    options = {"store": f"sqlite:///{tmp_path / 'first.db'}"}
    seats = [{"name": n, "provider": "replay", "options": options} for n in "abc"]
    again = ask(settings(tmp_path / "again.db", seats, verdict))
    said = [{r.reviewer: r.ranking for r in one.reviews} for one in (first, again)]
    assert said[0] == said[1]
    assert not any(r.abstained or r.flags for r in again.reviews)
    assert again.verdict.approved == first.verdict.approved


def test_a_reply_from_before_there_were_codes_gives_the_vote_that_was_read_from_it():
    log = next(log for log in LOGS if log["name"] == "replies without a code")
    session = fold(Event(**event) for event in log["events"])
    for review in session.reviews:
        recorded = Recorded(review.raw, "", _vote(review))
        ballot = next(b for b in session.ballots if b.reviewer == review.reviewer)
        again = read_review(recorded.under(CODE), ballot, Page("", CODE)).review
        assert (again.ranking, again.scores) == (review.ranking, review.scores)
