"""Ballots without labels: rankings by name, rows of reviews, and comparisons two by two."""

import pytest

from peerage import score
from peerage.ballot_files import session_of, sessions_of
from peerage.errors import InputError
from peerage.scoring import score_session
from peerage.types import ScoringOptions


def shares(document, **options):
    (session,) = sessions_of(document)
    scored = score_session(session, ScoringOptions(**options))
    return {one.model: one.share for one in scored.scores if one.votes}


def rows(text):
    head, *lines = [line.split(",") for line in text.split()]
    return [dict(zip(head, line, strict=True)) for line in lines]


def test_a_list_of_rankings_is_one_session():
    document = [["m1", "m2", "m3"], ["m1", ["m2", "m3"]]]
    assert shares(document) == {"m1": 1.0, "m2": 0.375, "m3": 0.125}
    assert [one.model for one in score(document).scores] == ["m1", "m2", "m3"]


def test_names_that_look_like_labels_are_still_names():
    document = [["B", "model-a", "Response C"], ["B", "model-a", "Response C"]]
    assert shares(document) == {"B": 1.0, "model-a": 0.5, "Response C": 0.0}


def test_a_reviewer_by_name_has_no_vote_for_itself():
    document = {"m1": ["m1", "m2", "m3"], "x": ["m3", "m2", "m1"]}
    assert shares(document) == {"m1": 0.0, "m2": 0.75, "m3": 0.5}
    assert shares(document, own_votes="in")["m1"] == 0.5


@pytest.mark.parametrize(
    "rankings",
    [
        [["m2", "m1"]],
        {"x": ["m2", "m1"]},
        [{"reviewer": "x", "ranking": ["m2", "m1"]}],
        [{"model": "x", "parsed_ranking": {"ranking": ["m2", "m1"]}}],
        [{"model": "x", "parsed_ranking": {"scores": {"m2": 8, "m1": 2}}}],
    ],
)
def test_names_are_understood_where_there_are_labels(rankings):
    labels = {"Response A": "m1", "Response B": "m2"}
    assert shares({"label_to_model": labels, "rankings": rankings}) == {"m1": 0.0, "m2": 1.0}


def test_a_label_stands_for_itself_even_where_a_candidate_has_its_name():
    labels = {"Response A": "B", "Response B": "A"}
    document = {"label_to_model": labels, "rankings": {"x": ["B", "A"]}}
    assert shares(document) == {"A": 1.0, "B": 0.0}


def test_rows_are_sessions_by_name_in_their_order():
    table = rows("session,reviewer,candidate,rank s2,x,m1,1 s2,x,m2,2 s1,x,m2,1 s1,x,m1,1")
    first, second = score(table)
    assert (first.session.id, second.session.id) == ("s2", "s1")
    assert [one.share for one in first.scores] == [1.0, 0.0]
    assert [one.share for one in second.scores] == [0.5, 0.5]


def test_scores_of_any_scale_rank_where_there_is_no_rank():
    table = rows("reviewer,candidate,score x,m1,0.2 x,m2,0.9 x,m3,0.2 y,m2,90 y,m1,30")
    assert shares(table) == {"m1": 0.125, "m2": 1.0, "m3": 0.25}


def test_a_row_with_neither_was_shown_and_not_ranked():
    table = rows("reviewer,candidate,rank,position x,m1,1,2 x,m2,,1 x,m3,2,0")
    (session,) = sessions_of(table)
    assert session.ballots[0].authors == ("m3", "m2", "m1")
    assert shares(table) == {"m1": 1.0, "m3": 0.5}


def test_a_judge_may_compare_as_often_as_it_likes():
    table = rows("model_a,model_b,winner,judge m1,m2,model_a,j m2,m1,m1,j m1,m2,tie,j m1,m2,m2,m1")
    assert shares(table) == {"m1": 5 / 6, "m2": 1 / 6}
    assert shares(table, own_votes="in") == {"m1": 5 / 8, "m2": 3 / 8}
    assert shares(table, rule="bradley_terry").keys() == {"m1", "m2"}


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("candidate,rank m1,1", "no column reviewer"),
        ("reviewer,candidate,mark x,m1,1", "no row has a rank or a score. It has: reviewer"),
        ("reviewer,candidate,rank x,m1,first", "row 1: `rank` is 'first', not a number"),
        ("reviewer,candidate,rank x,m1,0", "below 1"),
        ("reviewer,candidate,rank x,m1,1 x,m1,2", "row 2: 'x' judges 'm1' here and in row 1"),
        ("reviewer,candidate,rank ,m1,1", "`reviewer` is empty"),
        ("model_a,model_b m1,m2", "no column winner"),
        ("model_a,model_b,winner m1,m1,tie", "compared with itself"),
        ("model_a,model_b,winner m1,m2,m3", "the winner is 'm3'. Known: model_a"),
    ],
)
def test_rows_that_are_wrong_are_refused_by_place(table, said):
    with pytest.raises(InputError) as refused:
        sessions_of(rows(table), "f.csv")
    assert said in str(refused.value)
    assert str(refused.value).startswith("f.csv")


@pytest.mark.parametrize("document", [[[], []], {"x": []}, [["m1", "m2"], 7]])
def test_rankings_that_name_nobody_are_refused(document):
    with pytest.raises(InputError):
        session_of(document) if isinstance(document, dict) else sessions_of(document)
