"""A stored session is read by the options it was recorded with, whatever is configured now."""

import asyncio
import json
import sqlite3

import pytest

from peerage import config
from peerage.config.recorded import OWN_FIELDS, recorded_council
from peerage.config.settings import CouncilSettings
from peerage.errors import ConfigError, UnreadableError
from peerage.event_facts import opening_of
from peerage.events import RubricRecord
from peerage.panel import Council
from peerage.scoring import recorded_options, recorded_rubric
from peerage.seating import settings_of
from peerage.stores import open_store
from peerage.types import Seat
from peerage.view import SessionView
from tests.stored_boards import board_of_store

SEATS = "".join(f'[[seat]]\nname = "{name}"\nprovider = "simulated"\n' for name in "abc")
OWN_RUBRIC = """
[rubric.mine]
weights = { accuracy = 0.7, clarity = 0.3 }
ceilings = [[5, 3.0]]
"""


@pytest.fixture
def ask(tmp_path):
    """Run a session under a rubric that only this configuration has; give its id."""
    before = tmp_path / "before.toml"
    store = f'store = "sqlite:///{tmp_path}/p.db"\n'
    before.write_text(f'{store}[council]\nrubric = "mine"\nrule = "elo"\n{OWN_RUBRIC}{SEATS}')
    (tmp_path / "after.toml").write_text(store + SEATS)

    async def scene():
        async with Council.from_config(before) as council:
            return (await council.ask("Why?")).id

    return lambda: asyncio.run(scene())


@pytest.fixture
def later(tmp_path):
    """The settings and the store once the rubric is gone from the configuration."""
    return lambda: (
        settings_of(tmp_path / "after.toml", {}),
        open_store(f"sqlite:///{tmp_path}/p.db"),
    )


UNUSUAL = {
    "rule": "elo",
    "own_votes": "in",
    "rubric": "coding",
    "order": "shuffle",
    "safety_gate": True,
    "safety_score_cap": 2.5,
    "seal": "preferred",
    "second_chance": False,
    "structured_answers": True,
    "audit": False,
    "soft_votes": False,
    "verdict": "debate",
    "quorum": 2,
    "chair": "b",
    "rounds": 2,
    "early_stop": True,
    "deadline_s": 50.0,
}


def test_a_resumed_session_keeps_every_option_that_it_was_opened_with(tmp_path):
    """All but two are unusual here: `review` goes with `own_votes`, `moderator` has one name."""
    url = f"sqlite:///{tmp_path}/p.db"
    panel = [Seat(name, provider="simulated") for name in "abc"]

    async def scene():
        async with Council(seats=panel, store=url, **UNUSUAL) as council:
            begun = await council.open("Why?")
            await begun.events.aclose()
            await council.store.release(begun.lease)
            id_ = begun.history[0].session_id
        async with Council(seats=panel, store=url) as council:
            begun = await council.resume(resume=id_)
            opened = opening_of(begun.history)
            async for _ in begun.events:
                pass
            return recorded_council(opened, CouncilSettings()), begun.view.session

    recorded, session = asyncio.run(scene())
    assert {name: getattr(recorded, name) for name in UNUSUAL} == UNUSUAL
    assert {*UNUSUAL, "review", "moderator", *OWN_FIELDS} == set(CouncilSettings.model_fields)
    assert {ballot.round for ballot in session.ballots} == {0, 1}
    assert session.verdict.by == "b"


def board(settings, store):
    return board_of_store(store, lambda opened: recorded_rubric(settings, opened))


@pytest.mark.parametrize("name", ["general", "coding", "creative"])
def test_a_rubric_is_scored_the_same_after_it_was_stored(name):
    rubric = config.rubric(name)
    kept = RubricRecord.of(rubric).rubric()
    assert (kept.name, kept.weights, kept.ceilings) == (name, rubric.weights, rubric.ceilings)


@pytest.mark.parametrize(
    "weights", [{}, {"accuracy": "x"}, {"accuracy": "1/0"}, {"accuracy": "2"}, {"clarity": "1"}]
)
def test_a_stored_rubric_that_is_none_is_refused(weights):
    with pytest.raises(UnreadableError, match="rubric"):
        RubricRecord("r", weights, ()).rubric()


def test_a_session_is_shown_as_it_was_scored_when_its_rubric_is_gone(ask, later):
    session_id = ask()
    settings, store = later()
    events = store.events(session_id)
    view = SessionView.of(events, settings)
    assert view.result.options.rule == "elo"
    assert view.result.scores == view.session.scores


def test_a_board_counts_sessions_whose_rubric_is_gone(ask, later):
    ask()
    made = board(*later())
    assert [row["appearances"] for row in made.rows] == [1, 1, 1]
    assert not made.flags


def test_a_session_with_only_the_name_of_a_lost_rubric_is_left_out_and_named(ask, later, tmp_path):
    kept, lost = ask(), ask()
    with sqlite3.connect(tmp_path / "p.db") as db:
        where = "WHERE session_id = ? AND seq = 0"
        (body,) = db.execute(f"SELECT body FROM events {where}", (lost,)).fetchone()  # noqa: S608
        old = {key: value for key, value in json.loads(body).items() if key != "rubric"}
        db.execute(f"UPDATE events SET body = ? {where}", (json.dumps(old), lost))  # noqa: S608
    db.close()
    settings, store = later()
    made = board(settings, store)
    assert [row["appearances"] for row in made.rows] == [1, 1, 1]
    assert made.flags == (f"sessions_left_out:1: {lost}",)
    with pytest.raises(ConfigError, match="mine"):
        recorded_options(settings, opening_of(store.events(lost)))
    assert recorded_options(settings, opening_of(store.events(kept))).rubric is not None
