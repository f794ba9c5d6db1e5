"""The boards of small communities, published scoring."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerage.boards.community import BANDS, bands
from peerage.boards.opinions import Coefficients
from peerage.errors import ConfigError, UsageError
from peerage.reports.from_tables import board_contributors, board_items, board_reviewers

Rows = list[dict[str, Any]]
DAY = 86_400.0


def by(rows: Rows, key: str) -> dict[str, dict[str, Any]]:
    return {row[key]: row for row in rows}


def words(item: str, author: str, *said: tuple[str, float]) -> Rows:
    return [
        {"item_id": item, "contributor": author, "reviewer": who, "opinion": value}
        for who, value in said
    ]


def test_the_published_example_lists_those_with_items(
    seed_opinions: Rows, seed_users: Rows
) -> None:
    rows = board_contributors(seed_opinions, seed_users).rows
    assert [(row["contributor"], row["rank"]) for row in rows] == [("alice", 1), ("bob", 2)]
    assert rows[0]["total_score"] == pytest.approx(11 + 1 / 3, abs=1e-15)
    assert rows[0]["quality_score"] == pytest.approx(4 / 3, abs=1e-15)
    assert rows[0]["affiliation_bonus"] == 10
    assert (rows[0]["items"], rows[0]["items_scored"], rows[0]["reviews_received"]) == (2, 2, 6)
    assert (rows[1]["total_score"], rows[1]["items"], rows[1]["items_scored"]) == (0, 1, 0)


def test_everyone_has_a_score_where_all_are_asked_for(
    seed_opinions: Rows, seed_users: Rows
) -> None:
    rows = by(board_contributors(seed_opinions, seed_users, all=True).rows, "contributor")
    assert set(rows) == {"alice", "bob", "carol", "dave"}
    assert (rows["carol"]["total_score"], rows["carol"]["rank"]) == (10, 2)
    assert rows["bob"]["rank"] == rows["dave"]["rank"] == 3


def test_columns_of_a_contributor_can_be_sorted_by(seed_opinions: Rows, seed_users: Rows) -> None:
    carol = words("c1", "carol", ("bob", 1), ("alice", 1), ("dave", 1))
    rows = board_contributors(seed_opinions + carol, seed_users, by="quality").rows
    assert [row["contributor"] for row in rows] == ["alice", "carol", "bob"]
    with pytest.raises(UsageError, match="by cannot be 'charm'"):
        board_contributors(seed_opinions, by="charm")


def test_an_item_below_three_opinions_has_quality_zero(seed_opinions: Rows) -> None:
    rows = by(board_items(seed_opinions).rows, "item_id")
    assert rows["p3"]["quality"] == 0
    assert rows["p3"]["reviews"] == 2
    one = Coefficients(min_reviews_for_quality=2)
    assert by(board_items(seed_opinions, coefficients=one).rows, "item_id")["p3"]["quality"] == -1


def test_own_items_are_not_reviewed_and_that_is_counted(seed_opinions: Rows) -> None:
    own = words("p3", "bob", ("bob", 1))
    board = board_items(seed_opinions + own)
    assert by(board.rows, "item_id")["p3"]["reviews"] == 2
    assert board.parameters["own_left_out"] == 1
    assert "bob" not in by(board_reviewers(own, all=True).rows, "reviewer")


def test_the_last_opinion_stands_by_time_and_then_by_row() -> None:
    rows = words("i", "a", ("r", 1), ("r", -1), ("r", 1), ("s", 1), ("s", -1))
    timed = [row | {"at": at} for row, at in zip(rows, (5.0, 9.0, 7.0, 3.0, 3.0), strict=True)]
    one = Coefficients(min_reviews_for_quality=1)
    assert board_items(timed, coefficients=one).rows[0]["quality"] == -1
    board = board_items(rows, coefficients=one)
    assert board.rows[0]["quality"] == 0
    assert board.parameters["superseded_left_out"] == 3


def test_the_published_correlation_comes_out(worked: Rows) -> None:
    row = by(board_reviewers(worked).rows, "reviewer")["me"]
    assert row["pearson"] == pytest.approx(2.48 / math.sqrt(4.8 * 1.488), abs=1e-12)
    assert row["band"] == "excellent"
    assert row["low"] < row["pearson"] < row["high"]
    assert row["agreement"] == 1.0
    assert (row["qualifying"], row["reviews"], row["reputation"]) == (5, 5, 1.0)


def test_no_variance_scores_zero_and_is_called_undefined(worked: Rows) -> None:
    row = by(board_reviewers(worked).rows, "reviewer")["o0"]
    assert (row["pearson"], row["status"], row["band"]) == (0.0, "undefined", None)
    assert row["low"] is row["high"] is None
    assert row["rank"] is not None


def test_a_reviewer_below_five_items_is_only_listed_on_request(worked: Rows) -> None:
    four = [row for row in worked if row["reviewer"] != "me" or row["item_id"] != "E"]
    assert "me" not in by(board_reviewers(four).rows, "reviewer")
    row = by(board_reviewers(four, all=True).rows, "reviewer")["me"]
    assert (row["rank"], row["status"], row["band"], row["qualifying"]) == (
        None,
        "too_few",
        None,
        4,
    )


def test_items_with_two_opinions_do_not_qualify(worked: Rows) -> None:
    thin = words("F", "author", ("me", 1), ("o1", -1))
    before = by(board_reviewers(worked).rows, "reviewer")["me"]
    after = by(board_reviewers(worked + thin).rows, "reviewer")["me"]
    assert after["pearson"] == before["pearson"]
    assert (after["qualifying"], after["reviews"]) == (5, 6)


def test_bands_include_their_lower_edge() -> None:
    edges = np.array([edge for edge, _ in BANDS])
    known = np.ones(3, dtype=bool)
    assert bands(edges, known) == ["excellent", "good", "fair"]
    assert bands(np.nextafter(edges, -1), known) == ["good", "fair", "poor"]


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_sums_give_what_a_loop_over_reviewers_gives(seed: int, wide: bool) -> None:
    """Read plainly in quadratic time, beside ours."""
    rng = np.random.default_rng(seed)
    scale = (-1.0, 0.0, 1.0, 2.0) if wide else (-1.0, 1.0)
    people = [f"u{i}" for i in range(6)]
    rows = [
        {
            "item_id": f"i{item}",
            "contributor": people[item % 6],
            "reviewer": people[rng.integers(6)],
            "opinion": float(rng.choice(scale)),
        }
        for item in rng.integers(0, 8, size=60)
    ]
    last = {
        (row["item_id"], row["reviewer"]): row["opinion"]
        for row in rows
        if row["reviewer"] != row["contributor"]
    }
    board = board_reviewers(rows, coefficients=Coefficients(scale=scale))
    ours = by(board.rows, "reviewer")
    for person in people:
        pairs = []
        for (item, who), mine in last.items():
            others = [v for (i, other), v in last.items() if i == item and other != person]
            if who == person and len(others) >= 2:
                pairs.append((mine, sum(others) / len(others)))
        if len(pairs) < 5:
            assert person not in ours
            continue
        x, y = np.array(pairs).T
        flat = np.ptp(x) < 1e-9 or np.ptp(y) < 1e-9
        wanted = 0.0 if flat else float(np.corrcoef(x, y)[0, 1])
        assert ours[person]["pearson"] == pytest.approx(wanted, abs=1e-9)
        assert ours[person]["status"] == ("undefined" if flat else "ranked")
    quality = by(board_items(rows, coefficients=Coefficients(scale=scale)).rows, "item_id")
    for item in {key[0] for key in last}:
        said = [v for (i, _), v in last.items() if i == item]
        mean = sum(said) / len(said) if len(said) >= 3 else 0.0
        assert quality[item]["quality"] == pytest.approx(mean, abs=1e-12)


def test_a_half_life_halves(seed_opinions: Rows) -> None:
    """One half-life old is half a word, two are a quarter."""
    rows = words("i", "a", ("now", 1), ("old", -1), ("older", -1))
    at = (20 * DAY, 10 * DAY, 0.0)
    timed = [row | {"at": when} for row, when in zip(rows, at, strict=True)]
    board = board_items(timed, half_life=10)
    assert board.rows[0]["quality"] == pytest.approx((1 - 0.5 - 0.25) / 1.75, abs=1e-15)
    with pytest.raises(UsageError, match="needs the time of each opinion"):
        board_items(seed_opinions, half_life=10)
    with pytest.raises(UsageError, match="half life cannot be"):
        board_items(timed, half_life=0)


def test_ages_so_great_that_weights_vanish_still_give_a_mean() -> None:
    rows = words("i", "a", ("r", 1), ("s", 1), ("t", -1)) + words("j", "a", ("r", 1))
    at = (0.0, 0.0, 0.0, 1e9)
    timed = [row | {"at": when} for row, when in zip(rows, at, strict=True)]
    quality = by(board_items(timed, half_life=0.001).rows, "item_id")["i"]["quality"]
    assert quality == pytest.approx(1 / 3)
    assert all(row["pearson"] is None for row in board_reviewers(timed, all=True).rows)


def test_a_test_weighs_quality_and_its_contributors_standing() -> None:
    """max(0, .7·quality + .3·min(2, ρ/100))."""
    good = words("g", "ann", ("r", 1), ("s", 1), ("t", 1))
    bad = words("b", "bob", ("r", -1), ("s", -1), ("t", -1))
    users = [{"user_id": "ann", "affiliated": True}, {"user_id": "bob", "affiliated": False}]
    rows = by(board_items(good + bad, users).rows, "item_id")
    assert rows["g"]["weight"] == pytest.approx(0.7 + 0.3 * 11 / 100)
    assert rows["b"]["weight"] == 0.0
    rich = Coefficients(affiliation_bonus_points=1000)
    assert by(board_items(good, users, coefficients=rich).rows, "item_id")["g"][
        "weight"
    ] == pytest.approx(0.7 + 0.6)


def test_the_papers_scale_can_be_set_and_a_scale_of_one_cannot() -> None:
    rows = words("i", "a", ("r", 2), ("s", 0), ("t", -1))
    scale = Coefficients(scale=(-1, 0, 1, 2))
    assert board_items(rows, coefficients=scale).rows[0]["quality"] == pytest.approx(1 / 3)
    with pytest.raises(ConfigError, match="two levels"):
        Coefficients(scale=(1,))


def test_literal_counts_own_items_and_repeats() -> None:
    rows = words("i", "a", ("a", 1), ("r", 1), ("r", -1))
    assert board_items(rows).rows[0]["reviews"] == 1
    literal = board_items(rows, literal=True).rows[0]
    assert (literal["reviews"], literal["quality"]) == (3, pytest.approx(1 / 3))


def test_literal_leaves_all_of_a_reviewers_words_out_of_the_consensus() -> None:
    """A repeat is one more point, and never part of the consensus on itself."""
    rows: Rows = []
    for n, item in enumerate("ABCDE"):
        mine = 1 if n % 2 else -1
        rows += words(item, "a", ("me", mine), ("x", mine), ("y", 1), ("z", -1))
    rows += words("A", "a", ("me", 1))
    row = by(board_reviewers(rows, literal=True).rows, "reviewer")["me"]
    x = [-1, 1, -1, 1, -1, 1]
    y = [-1 / 3, 1 / 3, -1 / 3, 1 / 3, -1 / 3, -1 / 3]
    assert row["qualifying"] == 6
    assert row["pearson"] == pytest.approx(float(np.corrcoef(x, y)[0, 1]), abs=1e-12)


def test_literal_lists_the_given_users_and_no_one_else(
    seed_opinions: Rows, seed_users: Rows
) -> None:
    rows = board_contributors(seed_opinions, seed_users, literal=True).rows
    assert [row["contributor"] for row in rows] == ["alice", "carol", "bob"]
    with pytest.raises(UsageError, match="literal scoring"):
        board_contributors(seed_opinions, literal=True, reputation="iterate")


def test_windows_and_categories_choose_opinions() -> None:
    timed = [
        row | {"at": f"2026-01-{day:02d}T00:00:00Z", "category": category}
        for item, category in (("i", "code"), ("j", "odd, \"name\" 'é'"))
        for day, row in enumerate(words(item, "a", ("r", 1), ("s", 1), ("t", -1)), 1)
    ]
    one = Coefficients(min_reviews_for_quality=1)
    last = by(board_items(timed, since="36h", coefficients=one).rows, "item_id")
    assert (last["i"]["reviews"], last["i"]["quality"]) == (2, 0.0)
    early = board_items(timed, as_of="2026-01-01T12:00:00Z", coefficients=one)
    assert [row["reviews"] for row in early.rows] == [1, 1]
    odd = board_items(timed, category="odd, \"name\" 'é'").rows
    assert [row["item_id"] for row in odd] == ["j"]
    assert len(board_items(timed, category="nobody's")) == 0
    with pytest.raises(UsageError, match="not a time"):
        board_items(timed, as_of="soon")


def test_an_empty_table_is_an_empty_board() -> None:
    rows = words("i", "a", ("r", 1))
    for board in (board_reviewers(rows), board_items(rows, category=None, as_of=0.0)):
        assert isinstance(board.document()["rows"], list)
    assert board_reviewers(rows).rows == []


def test_a_model_that_did_not_settle_is_flagged() -> None:
    """Dawid and Skene's, on opinions that are coin flips."""
    rng = np.random.default_rng(0)
    rows = [
        word
        for i in range(100)
        for word in words(f"i{i}", "a", *((f"r{k}", int(rng.choice([-1, 1]))) for k in range(4)))
    ]
    board = board_reviewers(rows, reputation="iterate")
    assert board.flags == ("dawid_skene_did_not_converge:200",)
    assert board_reviewers(rows).flags == ()


def test_unknown_questions_are_refused(seed_opinions: Rows) -> None:
    with pytest.raises(UsageError, match="no argument 'colour'"):
        board_items(seed_opinions, colour="red")
    with pytest.raises(UsageError, match="reputation cannot be 'peer'"):
        board_items(seed_opinions, reputation="peer")
