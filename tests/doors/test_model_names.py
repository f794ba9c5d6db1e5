"""Names of models by their parts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerage.doors.render.model_names import clear_names, clear_winners, model_name, name_parts

REAL = (
    "anthropic/claude-sonnet-4.5-20260929:thinking",
    "anthropic/claude-sonnet-4.5-20260929",
    "openai/gpt-5.2-2026-08-07:high",
    "azure/gpt-5.2-2026-08-07:high",
    "google/gemini-3.0-pro-preview-09-2026",
    "ann",
)


@given(st.text())
def test_the_parts_of_a_name_are_the_name(name):
    assert "".join(name_parts(name)) == name


@given(st.sets(st.one_of(st.text(max_size=60), st.sampled_from(REAL)), max_size=12))
def test_no_two_short_names_are_equal(names):
    short = clear_names(names)
    assert set(short) == names
    assert len(set(short.values())) == len(names)


def test_vendor_and_date_are_left_out_where_names_stay_apart():
    short = clear_names(REAL)
    assert short[REAL[0]] == "claude-sonnet-4.5:thinking"
    assert short[REAL[2]] != short[REAL[3]]
    assert short["ann"] == "ann"


@pytest.mark.parametrize("name", [*REAL, '<img src=x onerror="x">', "a/b/c:d"])
def test_a_name_as_html_has_its_whole_text_and_no_tag_of_its_own(name):
    html = model_name(name)
    assert "<img" not in html
    assert html.striptags() == name
    assert "<img" not in model_name(name, "short")


def test_each_name_of_a_tie_is_shortened():
    both = "anthropic/claude-opus-4.1-20260805, openai/gpt-5.2-mini-2026-08-07"
    assert clear_winners({both}) == {both: "claude-opus-4.1, gpt-5.2-mini"}
