"""Every review carries what it depends on, and reports say when that changes."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from peerage import open as open_store
from peerage.council.ballots import read_review
from peerage.council.prompts import Page
from peerage.council.readings import READER
from peerage.events import Reviewed, read_events
from peerage.fingerprints import Fingerprint, endpoint_of
from peerage.providers.chat_replies import CompletionStream, parse_completion
from peerage.reports.from_tables import board_models
from peerage.stores import open_store as open_log
from peerage.types import Ballot, Slot
from tests.small_seasons import hold_season

PRINT = Fingerprint(
    "m-1", "openai api.example.org/v1", "p", "r", "letters", "1-10", 0.7, "", "schema", "o", "1"
)
REPLIES = [  # a change in how any of them is read is a new version of the reader
    '{"ballot": "code", "ranking": ["Response A", "Response B"]}',
    '{"ballot": "code", "ranking": [["A", "B"]], "scores": {"A": 11, "B": "7/10"}}',
    '{"ballot": "code", "scores": {"Response A": 3, "Response B": 8.5}}',
    '{"ballot": "code", "evaluations": {"A": {"accuracy": 9, "notes": "good"}}}',
    'thinking {"ballot": "code", "ranking": "B > A"} and more',
    '{"ranking": ["A", "B"]}',
    '{"ballot": "code", "ranking": ["C", "A", "A", "B"], "abstained": false}',
    "I cannot compare these.",
]


def test_a_fingerprint_changes_with_each_of_its_parts_and_names_the_part() -> None:
    for name, value in asdict(PRINT).items():
        other = replace(PRINT, **{name: value + 1 if isinstance(value, float) else f"{value}x"})
        assert other.hash != PRINT.hash
        assert [change.split()[0] for change in PRINT.changes_to(other)] == [name]
    assert PRINT.changes_to(PRINT) == []


def test_an_endpoint_has_no_credentials() -> None:
    address = "https://ann:secret@api.example.org:8443/v1/?key=secret"
    assert endpoint_of("openai", address) == "openai api.example.org:8443/v1"
    assert endpoint_of("simulated", "") == "simulated"


def test_the_model_is_the_one_that_the_endpoint_answered_with() -> None:
    choice = {"message": {"content": "yes"}, "finish_reason": "stop"}
    body = {"model": "gpt-x-2026-03-01", "choices": [choice]}
    assert parse_completion(json.dumps(body).encode()).model == "gpt-x-2026-03-01"
    assert parse_completion(json.dumps({**body, "model": 7}).encode()).model == ""
    stream = CompletionStream()
    for piece in ("ye", "s"):
        chunk = {"model": "gpt-x-2026-03-01", "choices": [{"delta": {"content": piece}}]}
        stream.feed(f"data: {json.dumps(chunk)}\n\n".encode())
    stream.feed(b"data: [DONE]\n\n")
    assert stream.reply().model == "gpt-x-2026-03-01"


def test_a_changed_reader_has_a_new_version() -> None:
    """Where this fails because replies are read differently on purpose: raise READER."""
    ballot = Ballot("r", (Slot("A", "x", "one"), Slot("B", "y", "two")))
    read = [read_review(text, ballot=ballot, page=Page("code", "code")) for text in REPLIES]
    votes = [
        [one.review.ranking, one.review.scores, one.review.marks, bool(one.review.abstained)]
        for one in read
    ]
    digest = hashlib.sha256(json.dumps(votes, sort_keys=True).encode()).hexdigest()
    assert (READER, digest[:16]) == ("2", "2e78cda5fc4279bb")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = f"sqlite:///{tmp_path_factory.mktemp('prints')}/peerage.db"
    hold_season(url, "abc", season="s1", n=2)
    hold_season(url, "abc", season="s2", n=2, harshness=1.0)
    return url


def test_every_review_of_a_model_has_a_fingerprint_in_the_log_and_in_the_table(url: str) -> None:
    log = open_log(url)
    facts: list[Reviewed] = []
    with open_store(url) as store:
        table = store.reviews().to_pydict()
        for id_ in set(table["session_id"]):
            facts += [f for f in read_events(log.events(id_)) if isinstance(f, Reviewed)]
    assert facts
    assert all(fact.made_by is not None for fact in facts)
    assert {fact.made_by.hash for fact in facts if fact.made_by} == set(table["fingerprint"])
    assert all(fact.made_by.model.endswith("-1") for fact in facts if fact.made_by)


def test_a_board_and_an_audit_say_that_the_judges_changed_and_in_what(url: str) -> None:
    with open_store(url) as store:
        board, audit = store.board_models(since="all"), store.audit()
    for flags, listed in (
        (board.flags, board.notes["fingerprints"]),
        (audit.views["flags"], audit.views["fingerprints"]),
    ):
        assert any(flag.startswith("fingerprints_changed:3: a (2 fingerprints") for flag in flags)
        assert [one["reviewer"] for one in listed] == list("aabbcc")
        assert {change.split()[0] for one in listed for change in one.get("changes", ())} == {
            "options"
        }


def test_imported_reviews_have_no_fingerprint(tmp_path: Path) -> None:
    file = tmp_path / "reviews.csv"
    rows = [
        f"s{i},{r},{c},{rank}" for i in range(3) for r in "rs" for rank, c in ((1, "x"), (2, "y"))
    ]
    file.write_text("session_id,reviewer,candidate,rank\n" + "\n".join(rows))
    board = board_models(file)
    assert "fingerprints" not in board.notes
    assert not any(flag.startswith("fingerprints") for flag in board.flags)
