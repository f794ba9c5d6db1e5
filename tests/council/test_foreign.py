"""Replies written elsewhere: read as their sender says, and never an exception."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerage.council.readings import decision_in, read_foreign
from tests.council.replies import BALLOT, REPLIES

VERDICT = '{"ranking": ["B", "C", "A"]}'


@pytest.mark.parametrize(
    "text",
    [
        VERDICT,
        '["B", "C", "A"]',
        "B > C > A",
        f"```json\n{VERDICT}\n```",
        f'First {{"ranking": ["A"]}}, then: {VERDICT} {{"x": 1}}',
        f"<think>A?</think>{VERDICT}",
        "{'ranking': ['B', 'C', 'A',]} // so",
        "I compared them.\n\nFINAL RANKING:\n1. Response B\n2. Response C (fine)\n3. Response A",
        "**FINAL RANKING (best first):**\n- B\n- C\n- A",
        "FINAL RANKING: Response B > Response C > Response A",
        "FINAL RANKING: A, B\nNo: my final ranking:\n1. B\n2. C\n3. A",
    ],
)
def test_a_foreign_text_is_json_or_its_last_object_or_a_final_ranking(text: str):
    review = read_foreign(text, BALLOT)
    assert review.ranking == (("B",), ("C",), ("A",))
    assert review.raw == text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "empty"),
        ("", "empty"),
        (7, "not_text"),
        ("I'm sorry, I can't.", "unparsed"),
        ("A is the best.", "unparsed"),
        ('{"ranking": ["X", "Y"]}', "unparsed"),
        ('{"ranking": ["B", "C"', "unparsed"),
        ('{"abstained": true, "reason": "Tired."}', "Tired."),
        ("FINAL RANKING:", "unparsed"),
    ],
)
def test_a_foreign_text_without_a_vote_is_an_abstention(text: object, reason: str):
    assert read_foreign(text, BALLOT).abstained == reason


def test_a_decision_of_an_old_log_is_shown_as_its_last_object_says():
    assert decision_in('So {"approved": false}, no: {"approved": true}').approved is True
    assert decision_in("Approved!").approved is None


@given(st.text() | st.sampled_from(REPLIES).map(lambda one: one["text"].replace("%V", VERDICT)))
def test_any_foreign_text_is_read(text: str):
    read_foreign(text, BALLOT)
    read_foreign(json.dumps(text), BALLOT)
    decision_in(text)


@pytest.mark.parametrize("unit", ["{", '{"a":', '{"a":"', "[", "FINAL RANKING: ", "1. A\n", "\n"])
def test_a_long_foreign_text_is_read_to_its_end(unit: str):
    text = unit * (200_000 // len(unit))
    read_foreign(text, BALLOT)
    read_foreign(f"FINAL RANKING:\n{text}", BALLOT)
