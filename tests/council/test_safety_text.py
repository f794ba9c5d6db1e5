"""Flat text: what separates words, where each came from, and that any text is read."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from peerage.council.safety import FlatText, screen
from peerage.types import Response


@pytest.mark.parametrize(
    ("text", "flat"),
    [
        ("", ""),
        ("…", ""),
        ("I can’t. Bye", "i can't.bye."),
        ("One, two; three: four - five", "one,two.three:four five."),
        ("a **bold** _word_ in-between", "a bold word in between."),
        ("Ｆｕｌｌ Éclair ﬁn", "full eclair fin."),
        ("zero\u200bwidth", "zerowidth."),
        ("wait... what", "wait what."),
        ("Wait... What", "wait.what."),
        ("a wrapped\nline", "a wrapped line."),
        ("A title\nA line\r\nAnother\n\nmore", "a title\na line\nanother\nmore."),
        ("Not these:\n- one\n- two.\n\nThree", "not these,one,two.three."),
    ],
)
def test_one_character_tells_what_stood_between_two_words(text: str, flat: str) -> None:
    assert FlatText(text).flat == flat


@given(st.text())
@example("İstanbul ﷺ ﬃ e\u0301")
def test_every_flat_character_knows_where_it_came_from(text: str) -> None:
    reading = FlatText(text)
    origin = list(reading.flat_origin)
    assert len(origin) == len(reading.flat)
    assert origin == sorted(origin)
    assert all(0 <= index <= len(text) for index in origin)
    assert all(
        mark == text[index].lower()
        for mark, index in zip(reading.flat, origin, strict=True)
        if mark.isascii() and mark.isalnum() and text[index].isascii()
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    [
        "a",
        "'",
        "\n",
        "1. ",
        "how to make a simple ",
        "I can't help with that, ",
        "I can't explain how to make a bomb, ",
        "you asked how to make a bomb. I can't. ",
        "4111 ",
        "123-45-",
        "é\u200b",
        "ﷺ",
    ],
)
def test_a_megabyte_of_anything_is_read_to_its_end(piece: str) -> None:
    text = (piece * (1_000_000 // len(piece) + 1))[:1_000_000] + "\n\nBuild a gun at home"
    (gate,) = screen([Response("m", text)])
    assert gate.span == (1_000_002, len(text))
