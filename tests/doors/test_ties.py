"""Equals share a rank, what has no value has none, and every board says by which rule."""

import io

import numpy as np
import pytest

import peerage
from peerage.boards.models import standing
from peerage.doors.cli.session_commands import show_scored
from peerage.doors.cli.terminal import Terminal
from peerage.doors.render.pages import board_page
from peerage.doors.render.report_views import show_board
from peerage.doors.web.board_pages import rank_by_scores

RANKED = [
    {"session_id": f"s{i}", "reviewer": r, "candidate": c, "rank": (i + k + j) % 3 + 1}
    for i in range(6)
    for j, r in enumerate("xyz")
    for k, c in enumerate("abc")
]
OPINIONS = [
    {
        "item_id": f"i{i}",
        "contributor": f"p{i}",
        "reviewer": f"r{j}",
        "opinion": 1 if (i + j) % 3 else -1,
    }
    for i in range(6)
    for j in range(4)
]
BOARDS = {
    "models": lambda: peerage.board_models(RANKED),
    "contributors": lambda: peerage.board_contributors(OPINIONS),
    "reviewers": lambda: peerage.board_reviewers(OPINIONS),
    "items": lambda: peerage.board_items(OPINIONS),
}


def drawn(show, result):
    out = io.StringIO()
    show(Terminal(file=out, width=200), result)
    return out.getvalue()


@pytest.mark.parametrize("name", BOARDS)
def test_every_board_says_how_it_orders_equals(name):
    board = BOARDS[name]()
    for text in (drawn(show_board, board), board_page(board)):
        assert "listed by" in text


@pytest.mark.parametrize("rule", ["borda", "mean_rank", "bradley_terry", "copeland", "schulze"])
def test_equal_models_share_a_rank_under_every_rule_on_a_board_as_in_a_session(rule):
    rows = peerage.board_models(RANKED, rule=rule).rows
    assert [row["rank"] for row in rows] == [1, 1, 1]
    ballots = [["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"]]
    assert [one.rank for one in peerage.score(ballots, rule=rule).scores] == [1, 1, 1]


def test_where_a_rule_gives_no_values_nobody_is_ranked():
    board = peerage.board_models(RANKED, rule="hybrid")
    assert [row["rank"] for row in board.rows] == [None] * 3
    assert "No model is ranked: the rule hybrid" in drawn(show_board, board)
    scored = peerage.score([["a", "b"], ["a", "b"]], rule="hybrid")
    assert [row["final_rank"] for row in scored.rows] == [None, None]
    assert repr(scored) == "Scored(2 candidates by hybrid)"
    assert "Not ranked: a, b; hybrid" in drawn(show_scored, scored)


def test_a_candidate_without_votes_does_not_stand_above_those_without_a_value():
    ballots = {
        "responses": [{"model": name, "response": "?"} for name in "abc"],
        "rankings": [{"model": "r", "parsed_ranking": {"ranking": ["Response A", "Response B"]}}],
    }
    scored = peerage.score(ballots, rule="hybrid")
    assert [(one.model, one.rank) for one in scored.scores] == [(name, None) for name in "abc"]


def test_only_those_with_a_value_are_ranked_on_a_board():
    order, rank = standing(np.array([0.5, np.nan, 0.7]), np.zeros(3), ("a", "b", "c"))
    assert [("a", "b", "c")[i] for i in order] == ["c", "a", "b"]
    assert rank == {2: 1, 0: 2}


def test_the_calibrated_view_ranks_equals_alike_and_leaves_out_who_has_no_score():
    rows = [
        {"model": name, "z_score": z, "total_wins": 0, "provisional": False}
        for name, z in (("b", 1.0), ("a", 1.0), ("c", None))
    ]
    ranked = [(row["model"], row["rank"]) for row in rank_by_scores(rows)]
    assert ranked == [("a", 1), ("b", 1), ("c", None)]


def test_a_ballot_of_one_answer_is_not_counted(at_once, tmp_path):
    scored = peerage.score([["a"]])
    assert scored.n_counted == 0
    assert "no_ballots" in scored.session.flags
    assert "0 of 1 ballot counted" in drawn(show_scored, scored)
    (tmp_path / "one.json").write_text('[["a"]]')
    done = at_once("score", tmp_path / "one.json")
    assert done.returncode == 3
    assert "no ballot could be counted" in done.stderr


def test_a_tie_in_a_session_says_who_shares_the_rank():
    text = drawn(show_scored, peerage.score([["a", "b", "c"], ["b", "a", "c"]]))
    assert "a, b share rank 1" in text
