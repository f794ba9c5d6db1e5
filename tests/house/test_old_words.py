"""A word that was renamed is still read, and a hint tells the new one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import peerage
from peerage import config
from peerage.events import Opened, read_event, stored_event
from peerage.panel import Council
from peerage.reports.options import ModelBoardOptions
from peerage.types import Event, Seat
from tests.forked import Forks

HINT = '"seed" is now called "place_kept".'
BALLOTS = [["a", "b", "c"], ["b", "c", "a"]]


def opened_body(word: str) -> dict[str, object]:
    """Return the body of a stored session's first event."""
    options = {"rubric": None, "order": "balanced", "own_votes": word}
    return {
        "query": {"text": "Why?", "id": "q", "category": ""},
        "seed": "7",
        "ordinal": 0,
        "season": "",
        "seats": [],
        "law": options,
    }


def test_a_file_with_the_old_word_is_read_and_the_note_names_its_line(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text('[council]\nrule = "borda"\nown_votes = "seed"\n', encoding="utf-8")
    settings = config.load(file, environ={})
    assert settings.council.own_votes == "place_kept"
    assert settings.notes == (f"{file}, line 3, [council] own_votes: {HINT}",)


def test_python_reads_the_old_word_with_a_warning() -> None:
    with pytest.warns(FutureWarning, match="is now called"):
        old = peerage.score(BALLOTS, own_votes="seed")  # type: ignore[call-overload]
    assert old.document() == peerage.score(BALLOTS, own_votes="place_kept").document()
    with pytest.warns(FutureWarning, match="is now called"):
        assert ModelBoardOptions(own_votes="seed").own_votes == "place_kept"


@pytest.mark.parametrize("words", [("--own-votes", "seed"), ("--own-votes=seed",)])
def test_a_command_reads_the_old_word_and_tells_the_new_one(
    words: tuple[str, ...], tmp_path: Path, forks: Forks
) -> None:
    (tmp_path / "seed").write_text(json.dumps(BALLOTS), encoding="utf-8")  # a file of that name
    done = forks.run(["score", "seed", *words, "--json"], cwd=tmp_path, env={})
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(HINT) == 1
    assert json.loads(done.stdout)["own_votes"] == "place_kept"


def test_a_log_with_the_old_word_is_read_and_a_new_log_has_the_new_one() -> None:
    opened = read_event(Event("s", 0, "opened", 0.0, opened_body("seed")))
    assert isinstance(opened, Opened)
    assert opened.law is not None
    assert opened.law.own_votes == "place_kept"
    assert stored_event("s", 0, 0.0, opened).body["law"]["own_votes"] == "place_kept"


def test_a_season_of_the_old_word_goes_on_under_the_new_one() -> None:
    """Its id is made of its options as they were called when it began."""
    seats = [Seat(name, provider="simulated") for name in "abc"]
    council = Council(seats=seats, store="sqlite:///:memory:", own_votes="place_kept")
    assert council.season("prompts", keep=False).id == "c92f84109fa0083f"
