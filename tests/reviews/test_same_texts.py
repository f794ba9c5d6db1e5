"""Constant and copied answers are found by their texts or by keys; ordinary ones are not."""

from __future__ import annotations

import random
from typing import Any

import pytest

import peerage
from peerage.text import text_key

LONG = " ".join(f"word{i}" for i in range(30))


def table(answers: dict[str, list[str]], *, hashed: bool) -> list[dict[str, Any]]:
    """Return rows of one judge on answers, by candidate, with their texts or the keys of these."""
    rows = []
    for candidate, texts in answers.items():
        for i, text in enumerate(texts):
            row = {"session_id": f"s{i}", "reviewer": "j", "candidate": candidate}
            row["score"] = (len(candidate) * 7 + i) % 10 + 1
            row |= {"text_hash": text_key(text)} if hashed else {"text": text}
            rows.append(row)
    return rows


def different(name: str, n: int = 20) -> list[str]:
    return [f"{name} says {i} " + LONG for i in range(n)]


@pytest.mark.parametrize("hashed", [True, False])
def test_one_text_of_thirty_words_in_twenty_sessions_is_flagged(hashed: bool) -> None:
    answers = {"null": [LONG.upper() + "  "] * 20, "a": different("a"), "bb": different("bb")}
    board = peerage.board_models(table(answers, hashed=hashed), since="all")
    assert {row["model"]: row["same_text"] for row in board.rows} == {
        "null": "20 of 20",
        "a": None,
        "bb": None,
    }
    (flag,) = board.flags
    assert flag.startswith("constant_answers:1: null (the same text for 20 of 20 questions)")


def test_a_flag_changes_nothing_else_of_a_board() -> None:
    answers = {"null": [LONG] * 20, "a": different("a"), "bb": different("bb")}
    rows = table(answers, hashed=True)
    flagged = peerage.board_models(rows, since="all").document()
    bare = [{name: row[name] for name in row if name != "text_hash"} for row in rows]
    plain = peerage.board_models(bare, since="all").document()
    flagged["flags"] = []
    for row in flagged["rows"]:
        del row["same_text"]
    assert flagged == plain


def test_short_answers_that_rivals_repeat_as_often_are_not_flagged() -> None:
    """Questions with the answers true and false."""
    rng, names = random.Random(1), ("a", "bb", "c")
    answers = {
        name: [rng.choice(["true", "false"]) for _ in range(40)] for name in ("a", "bb", "c")
    }
    assert peerage.board_models(table(answers, hashed=True), since="all").flags == ()
    answers["always"] = ["0"] * 40
    numbers = {name: [str(rng.randrange(10)) for _ in range(40)] for name in names}
    board = peerage.board_models(table(answers | numbers, hashed=True), since="all")
    assert board.flags[0].startswith("constant_answers:1: always")


def test_copies_of_a_rival_name_both() -> None:
    answers = {"a": different("a"), "thief": different("a")[:6] + different("thief")[6:]}
    board = peerage.board_models(table(answers, hashed=True), since="all")
    assert board.flags == ("copied_answers:1: a and thief (6 of 20)",)


def test_four_answers_are_too_few_to_say() -> None:
    answers = {"null": [LONG] * 4, "a": different("a", 4)}
    assert peerage.board_models(table(answers, hashed=True), since="all").flags == ()
