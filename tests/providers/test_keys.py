"""Keys stay out of everything that is written down."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerage.config import secret
from peerage.providers.keys import MAX_MESSAGE_CHARACTERS, sentence

KEY = "sk-0123456789"


@pytest.mark.parametrize("held", ["", "  ", "\n"])
def test_a_blank_variable_holds_no_key(held: str) -> None:
    assert secret("K", {"K": held}) is None


def test_a_variable_that_is_not_set_or_not_named_holds_no_key() -> None:
    assert secret("K", {}) is None
    assert secret("", {"": KEY}) == KEY  # nobody can set such a variable


@given(st.text(max_size=400), st.text(max_size=400))
def test_a_sentence_is_one_short_line_without_the_key(before: str, after: str) -> None:
    line = sentence(f"{before}{KEY}{after}", KEY)
    assert KEY not in line
    assert len(line) <= MAX_MESSAGE_CHARACTERS
    assert len(line.splitlines()) <= 1


def test_a_key_that_would_be_cut_in_two_leaves_no_half() -> None:
    padding = "x" * (MAX_MESSAGE_CHARACTERS - len(KEY) // 2)
    assert KEY[:5] not in sentence(padding + KEY, KEY)


def test_what_no_file_can_hold_is_left_out() -> None:
    assert sentence("a\x00b\ud800c\u2028d") == "a b c d"
