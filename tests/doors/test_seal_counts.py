"""Reviews asked for again and reviews without their code are told on boards and audits."""

import asyncio
import json

import pytest

from peerage.session import run
from peerage.session_config import SessionSpec
from peerage.stores import open_store
from peerage.types import Query, Seat
from tests.memory_log import MemoryLog
from tests.session.test_second_chance import PROSE, VOTE, Panel
from tests.shared.session_configs import make_config

BARE = VOTE.replace('"ballot": "CODE", ', "")
SEATS = tuple(Seat(name, provider="simulated") for name in "abcd")
N = 4
COUNTS = {"b": {"reviews": N, "asked_again": 2, "unsealed": 1}}
ASKED_AGAIN = "2 reviews requested again, because the first reply could not be counted: b (2 of 4)"
UNSEALED = "1 review counted without the code of their ballot: b (1 of 4)"


@pytest.fixture
def stored(tmp_path):
    """A store of sessions in which b is asked again twice, once in vain, and is once unsealed."""
    url = f"sqlite:///{tmp_path}/peerage.db"
    config = make_config(SEATS, verdict="none", seal="preferred")

    async def scene(i, replies):
        spec = SessionSpec(f"s{i}", Query(f"Why {i}?"), "7", i)
        log, clock = MemoryLog(), iter(range(10**9))
        session = run(spec, config, Panel("b", *replies), log, clock=lambda: float(next(clock)))
        return [event async for event in session]

    said = [(PROSE, VOTE), (PROSE, PROSE), (BARE,), (VOTE,)]
    store = open_store(url)
    for i, replies in enumerate(said):
        store.append_all(asyncio.run(scene(i, replies)))
    asyncio.run(store.close())
    return url


@pytest.mark.parametrize("command", [("board", "models"), ("audit",)])
def test_who_was_asked_again_or_unsealed_is_told_in_every_form(command, peerage, stored, tmp_path):
    words = (*command, "--since", "all", "--store", stored)
    page = tmp_path / "page.html"
    shown = peerage(*words, "--html", page)
    text = " ".join(f"{shown.stdout} {shown.stderr}".split())
    document = json.loads(peerage(*words, "--json").stdout)
    for form in (text, " ".join(page.read_text().split())):
        assert ASKED_AGAIN in form
        assert UNSEALED in form
    assert document.get("seals", document["parameters"].get("seals")) == COUNTS
