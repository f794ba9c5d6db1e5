"""Text from elsewhere is harmless on a terminal, on a page, in JSON and in a spreadsheet."""

import csv
import io
import json
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from peerage.doors.render.pages import environment
from peerage.text import csv_cell, json_text, visible

TRICKS = {
    "escape": "\x1b[31mred",
    "C1 CSI": "\x9b31mred",
    "clipboard": "\x1b]52;c;aGk=\x07",
    "hyperlink": "\x1b]8;;http://e\x1b\\x\x1b]8;;\x1b\\",
    "return": "safe\rrm -rf",
    "backspace": "ab\b\bcd",
    "null": "a\0b",
    "delete": "a\x7fb",
    "bidi override": "abc\u202edcba\u202c",
    "bidi isolate": "a\u2066b\u2069",
    "bidi mark": "a\u200fb\u061c",
    "zero width space": "gpt\u200b-5",
    "joiner in ASCII": "gpt\u200d-5",
    "selector in ASCII": "gpt-5\ufe0f",
    "joiners in a row": "é\u200d\u200dé",
    "byte order mark": "\ufeffa",
    "soft hyphen": "a\u00adb",
    "line separator": "a\u2028b",
    "tags": "a\U000e0041b",
    "filler": "a\u3164b",
    "half a character": "a\ud800b",
    "a byte that is no text": "a\udc9bb",
}
texts = st.text(st.characters(codec=None)) | st.sampled_from(list(TRICKS.values()))


@pytest.mark.parametrize("trick", TRICKS)
def test_what_cannot_be_seen_is_spelt_out(trick):
    shown = visible(TRICKS[trick])
    assert "\\" in shown
    assert shown != TRICKS[trick]
    assert shown.isprintable()


@pytest.mark.parametrize("text", ["❤️‍🔥 👩‍💻 1️⃣", "می‌خواهم", "क्‍ष", "naïve – “x” 日本語", "٣؀"])
def test_scripts_and_emoji_are_left_as_they_are(text):
    assert visible(text) == text


@given(texts)
def test_no_control_and_no_reordering_survives(text):
    for shown in (visible(text), visible(text, multiline=True).replace("\n", "").replace("\t", "")):
        kinds = {unicodedata.category(character) for character in shown}
        assert not kinds & {"Cc", "Cs", "Zl", "Zp"}
        assert not {unicodedata.bidirectional(c) for c in shown} & {"RLO", "LRO", "RLI", "PDF"}


@given(texts)
def test_making_visible_twice_changes_nothing_more(text):
    once = visible(text, multiline=True)
    assert visible(once, multiline=True) == once


@given(texts)
def test_json_reads_back_as_it_was_and_can_be_written_anywhere(text):
    for ascii_only in (False, True):
        written = json_text({"text": text}, ascii_only=ascii_only)
        written.encode("ascii" if ascii_only else "utf-8")
        assert visible(written, multiline=True) == written
        read = json.loads(written)["text"]
        assert read.encode("utf-16", "surrogatepass") == text.encode("utf-16", "surrogatepass")


@given(texts)
@example("=1+1")
@example(" @SUM(A1)")
@example("\t=1")
@example("\r=1")
@example("-1+1|cmd")
@example("＝1")
def test_no_text_in_a_cell_is_a_formula(text):
    out = io.StringIO()
    csv.writer(out).writerow([csv_cell(text), csv_cell(-1.5), csv_cell(None)])
    (cell, number, nothing) = next(csv.reader(io.StringIO(out.getvalue(), newline="")))
    assert not cell.lstrip(" ").startswith(("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠"))
    assert (number, nothing) == ("-1.5", "")


@given(texts)
def test_no_text_on_a_page_is_a_tag_or_ends_an_attribute(text):
    page = environment().from_string("{{ text }}")
    shown = page.render(text=text)
    assert not set(shown) & set("<>\"'")
    shown.encode("utf-8")
