"""Last resorts: final rankings and tables, where a reply has no verdict in JSON."""

import pytest

from peerage.council.ballots import parse
from peerage.types import Ballot, Review, Slot

BALLOT = Ballot("judge", tuple(Slot(label, f"model-{label}") for label in "ABCD"))


def read(reply: str) -> Review:
    return parse(reply, BALLOT)


def order(review: Review) -> str:
    """A ranking in short: "A>BC"."""
    return ">".join("".join(tier) for tier in review.ranking)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FINAL RANKING: A > B = C > D", "A>BC>D"),
        ("**Final Ranking:** Response A > Response B. I am sure.", "A>B"),
        ("## Final ranking\n\n1. **Response B** - the best\n2. Response A: fine\n", "B>A"),
        ("FINAL RANKING:\n1. B\nIt is good.\n2. A and C (tie)\n", "B>AC"),
        ("FINAL RANKING:\n1. B\n2. A\n2. C\n", "B>AC"),
        ("FINAL RANKING:\n1. B\n1. A\n1. C\n", "B>A>C"),
        ("FINAL RANKING:\n- Response B\n- Response A\n", "B>A"),
        ("FINAL RANKING (best to worst):\n1) Response B\n2) Response A", "B>A"),
        ("FINAL RANKING:\n1. A\n2. B\n\nOn reflection.\n\nFINAL RANKING:\n1. B\n2. A", "B>A"),
        ("FINAL RANKING:\n1. B\n2. A\n\nThis is my final ranking.", "B>A"),
        ("FINAL RANKING:\n1. B\n2. A\n\nWhy:\n1. A good point\n2. A better one", "B>A"),
        ("<think>FINAL RANKING: A > B</think>\nFINAL RANKING: B > A", "B>A"),
        ("> FINAL RANKING: A > B\n\nFINAL RANKING: B > A\n\n> FINAL RANKING: A > B", "B>A"),
    ],
)
def test_a_final_ranking_is_read_where_there_is_no_verdict(text: str, expected: str):
    review = read(text)
    assert (order(review), review.recovered) == (expected, "final_ranking")


TABLE = """\
Here is how they compare.

| Response       | Accuracy | Clarity | Overall | Notes          |
|:---------------|:--------:|---------|---------|----------------|
| **Response A** | 9/10     | **8**   | 8.5     | clear and right |
| Response B     | 11       | 7       | 3       | wrong in part  |
"""


def test_a_table_gives_marks_claims_and_notes():
    review = read(TABLE)
    assert review.marks == {"A": {"accuracy": 9, "clarity": 8}, "B": {"clarity": 7}}
    assert review.claimed == {"A": 8.5, "B": 3}
    assert review.notes == {"A": "clear and right", "B": "wrong in part"}
    assert review.flags == ("recovered:table", "mark_dropped:B.accuracy=11")


def test_a_table_may_have_the_answers_in_columns():
    review = read(
        "| | Response A | Response B |\n|--|--|--|\n| Accuracy | 9 | 7 |\n| Rank | 1 | 2 |"
    )
    assert review.marks == {"A": {"accuracy": 9}, "B": {"accuracy": 7}}
    assert order(review) == "A>B"


def test_a_table_without_ranks_takes_the_final_ranking_beside_it():
    review = read(TABLE + "\nFINAL RANKING: B > A")
    assert (order(review), review.recovered) == ("B>A", "table+final_ranking")
    assert review.marks["A"] == {"accuracy": 9, "clarity": 8}


def test_a_table_without_ranks_or_marks_is_no_verdict():
    assert read("| Response | View |\n|--|--|\n| A | nice |\n| B | not nice |").abstained


def test_prose_is_not_asked_where_there_is_a_verdict():
    review = read('{"ranking": ["A", "B"]}' + "\n\nFINAL RANKING: B > A\n\n" + TABLE)
    assert (order(review), review.recovered) == ("A>B", "")
