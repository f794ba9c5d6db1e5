"""Labels: every way of writing one comes down to one form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerage.council.ballots import canonical_label, review_of
from peerage.types import Ballot, Slot


def ballot_of(*labels: str, reviewer: str = "judge", round: int = 0) -> Ballot:
    return Ballot(reviewer, tuple(Slot(label, f"model-{label}") for label in labels), round)


@pytest.mark.parametrize(
    "text",
    [
        "A",
        "a",
        "Response A",
        "response a",
        "RESPONSE A",
        "**Response A**",
        "`Response A`",
        "[A]",
        "(A)",
        '"A"',
        "“Response A”",
        "Response_A",
        "response-a",
        "ResponseA",
        "Response: A",
        "Response [A]",
        "Answer A:",
        "Candidate A",
        "Option A.",
        "Model A",
        " A ",
        "<A>",
    ],
)
def test_every_way_of_writing_a_label_comes_down_to_one(text: str):
    assert canonical_label(text) == "A"


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("red", "red"),
        ("RED", "red"),
        ("Response red", "red"),
        ("model-3", "model-3"),
        ("Model-3", "model-3"),
        ("AA", "AA"),
        ("zz", "ZZ"),
        ("1", "1"),
        ("Response 1", "1"),
        ("Answered", "answered"),
        ("the  long\nway", "the long way"),
        ("Response", "response"),
        ("***", "***"),
        ("", ""),
    ],
)
def test_a_label_of_ones_own_stays_whole(text: str, form: str):
    assert canonical_label(text) == form


@given(st.text())
def test_a_canonical_label_is_stable(text: str):
    form = canonical_label(text)
    assert canonical_label(form) == form


@given(st.from_regex(r"[a-z][a-z0-9]{2,9}(-[0-9]{1,3})?", fullmatch=True))
def test_labels_compare_without_regard_to_case(label: str):
    assert canonical_label(label.upper()) == canonical_label(label) == label


def test_odd_labels_are_read_back_as_the_ballot_has_them():
    ballot = ballot_of("red", "model-3", "AA")
    review = review_of({"ranking": ["Response RED", "MODEL-3", "response aa"]}, ballot)
    assert review.ranking == (("red",), ("model-3",), ("AA",))
    assert not review.flags
