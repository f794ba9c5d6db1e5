"""Ballots files: every shape that is read, and every mistake that is refused by place."""

import json

import pytest

from peerage.ballot_files import read_json, session_of, sessions_of
from peerage.errors import InputError

LABELS = {"Response A": "m1", "Response B": "m2"}


def document(**changes):
    base = {
        "query": "q",
        "responses": [{"model": "m1", "response": "one"}, {"model": "m2", "response": "two"}],
        "label_to_model": LABELS,
        "rankings": [{"model": "x", "parsed_ranking": {"ranking": ["Response A", "Response B"]}}],
    }
    return {key: value for key, value in {**base, **changes}.items() if value is not ...}


def ranking(model="x", **changes):
    return {"model": model, "parsed_ranking": {"ranking": ["Response A", "Response B"]}, **changes}


def test_the_two_shapes_of_labels_read_alike():
    rich = {
        "Response A": {"model": "m1", "display_index": 0},
        "Response B": {"model": "m2", "display_index": 1},
    }
    assert session_of(document()) == session_of(document(label_to_model=rich))


def test_display_index_is_the_position_whatever_the_letter():
    swapped = {
        "Response A": {"model": "m1", "display_index": 1},
        "Response B": {"model": "m2", "display_index": 0},
    }
    (ballot,) = session_of(document(label_to_model=swapped)).ballots
    assert ballot.authors == ("m2", "m1")


def test_a_reviewer_may_have_an_order_of_its_own():
    own = {"Response A": "m2", "Response B": "m1"}
    session = session_of(document(rankings=[ranking(), ranking("y", label_to_model=own)]))
    assert [ballot.authors for ballot in session.ballots] == [("m1", "m2"), ("m2", "m1")]


def test_responses_without_labels_are_labelled_in_their_order():
    session = session_of(document(label_to_model=...))
    assert [slot.label for slot in session.ballots[0].slots] == ["A", "B"]
    assert not session.ballots[0].positions_known


def test_labels_that_are_no_letters_keep_their_order_unknown():
    odd = {"red": "m1", "blue": "m2"}
    entry = {"model": "x", "parsed_ranking": {"ranking": ["blue", "Red"]}}
    session = session_of(document(label_to_model=odd, rankings=[entry]))
    assert not session.ballots[0].positions_known
    assert not session.reviews[0].flags


def test_a_raw_reply_is_parsed():
    entry = {"model": "x", "text": 'Fine. {"ranking": ["Response B", "Response A"]}'}
    assert session_of(document(rankings=[entry])).reviews[0].ranking == (("B",), ("A",))


@pytest.mark.parametrize("entry", [{"model": "x"}, {"model": "x", "text": None}])
def test_a_reviewer_who_said_nothing_abstains(entry):
    assert session_of(document(rankings=[entry])).reviews[0].abstained


def test_an_answer_without_text_is_flagged():
    session = session_of(document(responses=[{"model": "m1", "response": None}]))
    assert session.flags == ("no_text:m1",)


def test_the_names_of_the_councils_own_stages_are_read_too():
    staged = document(responses=..., rankings=...)
    staged |= {"stage1": document()["responses"], "stage2": document()["rankings"]}
    assert session_of(staged) == session_of(document())


def test_a_list_holds_several_sessions():
    assert len(sessions_of([document(), document()])) == 2


MANY = {f"L{i}": f"m{i}" for i in range(10_000)}
TWICE = [{"model": "m1", "response": "a"}, {"model": "m1", "response": "b"}]
SAME_INDEX = {
    "A": {"model": "m1", "display_index": 0},
    "B": {"model": "m2", "display_index": 0},
}


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (document(label_to_model={}), "label_to_model: there are no candidates"),
        (document(label_to_model=..., responses=...), "no candidates"),
        (document(label_to_model=[1]), "a list, not labels"),
        (document(label_to_model={"A": None}), "null"),
        (document(label_to_model={"A": "m1", "B": "m1"}), "two labels"),
        (document(label_to_model={"A": "m1", "Response A": "m2"}), "twice"),
        (document(label_to_model=SAME_INDEX), "same display_index"),
        (document(label_to_model={"A": {"model": "m", "display_index": -1}}), "display_index"),
        (document(label_to_model=MANY), "10,000 candidates"),
        (document(rankings=...), 'no "rankings"'),
        (document(rankings={}), "not a list"),
        (document(rankings=[7]), "rankings[0]: this is a number"),
        (document(rankings=[{"parsed_ranking": {}}]), '"model" is null'),
        (document(rankings=[ranking(), ranking()]), "already voted in rankings[0]"),
        (document(rankings=[ranking(round="last")]), "round"),
        (document(rankings=[ranking(label_to_model={})]), "no candidates"),
        (document(responses=TWICE), "has two answers"),
        (document(responses=[{"model": "m1", "response": 7}]), "not text"),
        (document(query=7), '"query" is a number'),
        ([], "no session"),
        ([document(), 7], "session 2: a session must be an object"),
        (None, "null"),
    ],
)
def test_a_mistake_is_refused_with_its_place(bad, says):
    with pytest.raises(InputError) as refused:
        sessions_of(bad, "f.json")
    assert says in str(refused.value)
    assert str(refused.value).startswith("f.json")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"{", "line 1"),
        (b"\xff\xfe", "not UTF-8"),
        (b"[" * 100_000, "nested"),
        (b"1" * 5000, "cannot be read"),
        (b"", "not JSON"),
    ],
)
def test_bytes_that_are_no_json_are_refused(data, says):
    with pytest.raises(InputError, match=says):
        read_json(data, "f.json")


def test_a_byte_order_mark_is_no_mistake():
    assert read_json(b"\xef\xbb\xbf" + json.dumps(LABELS).encode(), "f") == LABELS
