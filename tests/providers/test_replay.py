"""Replaying seats: the words of an earlier log, and nothing that is not in it."""

import asyncio

import pytest

from peerage import config
from peerage.errors import ConfigError
from peerage.panel import Council
from peerage.providers.replay import Replay
from peerage.types import Seat


def settings(store, seats):
    return config.load(
        flags={"store": f"sqlite:///{store}", "council.seed": 7, "seat": seats}, environ={}
    )


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


def test_what_the_log_does_not_have_is_a_failure(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ask(settings("first.db", [{"name": n, "provider": "simulated"} for n in "abc"]))
    options = {"store": "sqlite:///first.db"}
    seats = [{"name": n, "provider": "replay", "options": options} for n in "abc"]
    session = ask(settings("again.db", seats), "Something else?")
    assert session.status == "no_quorum"
    assert {failure.kind for failure in session.failures} == {"bad_request"}


def test_a_seat_without_a_log_is_refused():
    with pytest.raises(ConfigError, match="needs the log"):
        Replay(Seat("a", provider="replay"))
