"""Logs of every kind of event, as an earlier version wrote them, fold to the same sessions."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from peerage.council.folding import fold
from peerage.types import Event

LOGS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "golden" / "sessions.jsonl").read_text().splitlines()
]


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log["name"])
def test_a_stored_log_folds_to_the_session_it_was(log):
    session = fold(Event(**event) for event in log["events"])
    assert json.loads(json.dumps(asdict(session))) == log["session"]
