"""Boards of models that did not all meet the same rivals."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerage.boards.model_sums import sum_votes
from peerage.errors import UsageError
from peerage.reports.from_tables import board_models
from peerage.reports.requirements import estimate_on_board, parse_requirement
from peerage.stats.ranking import effective_clusters
from peerage.stats.strengths import common_shares, coverage, groups_that_met
from peerage.types import OwnVotes
from tests.shared.common_rivals import FIELDS, LATE, Field, count_separating, newcomers, rates
from tests.shared.encoded import rows_of

Table_ = list[dict[str, Any]]
STRENGTHS = {
    "weak": -1.5,
    "weaker": -1.25,
    "weakest": -1.0,
    "veteran": 1.0,
    "new": 1.6,
    "best": 2.0,
}


def season(n_sessions: int = 120, late: tuple[str, ...] = ("new", "best"), seed: int = 1) -> Table_:
    """Three outsiders rank all who are there; the late ones come after 70% of the sessions."""
    rng = np.random.default_rng(seed)
    rows: Table_ = []
    for k in range(n_sessions):
        there = [name for name in STRENGTHS if name not in late or k >= 0.7 * n_sessions]
        quality = np.array([STRENGTHS[name] for name in there]) + rng.normal(size=len(there))
        for reviewer in ("r1", "r2", "r3"):
            seen = quality + rng.normal(0.0, 0.7, len(there))
            ranks = (-seen).argsort().argsort() + 1.0
            rows += [
                {"session_id": f"s{k:03d}", "reviewer": reviewer, "candidate": name, "rank": rank}
                for name, rank in zip(there, ranks.tolist(), strict=True)
            ]
    return rows


def test_better_newcomers_stand_above_the_veteran_who_met_weak_rivals() -> None:
    board = board_models(season(), since="all")
    rows = {row["model"]: row for row in board.rows}
    assert rows["veteran"]["share"] > rows["new"]["share"]  # against weaker rivals
    assert [row["model"] for row in board.rows[:3]] == ["best", "new", "veteran"]
    assert board.parameters["ranked_by"] == "share_common"
    assert 0.5 < board.parameters["coverage"] < 0.9
    for row in board.rows:
        assert row["share_common_low"] <= row["share_common"] <= row["share_common_high"]
        assert row["rank_low"] <= row["rank"] <= row["rank_high"]


def test_where_all_met_all_the_plain_share_ranks_and_no_column_is_added() -> None:
    board = board_models(season(40, late=()), since="all")
    assert board.parameters["ranked_by"] == "share"
    assert board.parameters["coverage"] == 1.0
    assert "share_common" not in board.columns


def test_a_board_of_common_rivals_has_two_way_intervals_and_categories() -> None:
    rows = [{**row, "category": "maths"} for row in season()]
    rows += [{**row, "session_id": f"x{row['session_id']}", "category": "prose"} for row in rows]
    board = board_models(rows, since="all", by_category=True)
    assert board.parameters["ranked_by"] == "share_common"
    alike = [
        [row["share_common"] for row in board.rows if row["category"] == category]
        for category in ("maths", "prose")
    ]
    assert alike[0] == alike[1]
    two_way = board_models(season(), since="all", interval="two-way")
    plain = {row["model"]: row for row in board_models(season(), since="all").rows}
    for row in two_way.rows:
        other = plain[row["model"]]
        assert row["share_common"] == other["share_common"]
        width, narrower = (r["share_common_high"] - r["share_common_low"] for r in (row, other))
        assert width > 0.9 * narrower  # other degrees of freedom


def test_rules_side_by_side_have_the_ranks_of_the_board() -> None:
    board = board_models(season(), since="all", compare_rules=True)
    borda = next(rule for rule in board.notes["rules"] if rule["rule"] == "borda")
    assert [(row["model"], row["rank"]) for row in borda["rows"]] == [
        (row["model"], row["rank"]) for row in board.rows
    ]


def test_another_rule_ranks_by_its_own_value() -> None:
    board = board_models(season(), since="all", rule="mean_rank")
    assert board.parameters["ranked_by"] == "value"
    assert "share_common" not in board.columns


def test_models_that_never_met_are_not_told_apart() -> None:
    """Sixty sessions of two against two others' sixty: nothing connects them."""
    rows: Table_ = []
    for k in range(60):
        better, worse = ("ab", "cd")[k % 2]
        won = k % 10 > 1
        for name, rank in ((better, 1.0 if won else 2.0), (worse, 2.0 if won else 1.0)):
            rows.append({"session_id": f"s{k}", "reviewer": "r", "candidate": name, "rank": rank})
    board = board_models(rows, since="all")
    assert "models_that_never_met:2" in board.flags
    ranges = {row["model"]: (row["rank_low"], row["rank_high"]) for row in board.rows}
    assert ranges == {"a": (1, 3), "c": (1, 3), "b": (2, 4), "d": (2, 4)}


# -- who met whom ----------------------------------------------------------------------------------


@st.composite
def reviews(draw: st.DrawFn) -> Table_:
    rows: Table_ = []
    for session in range(draw(st.integers(1, 5))):
        shown = draw(st.lists(st.sampled_from("abcd"), min_size=1, max_size=4, unique=True))
        for reviewer in draw(
            st.lists(st.sampled_from(["a", "b", "x"]), min_size=1, max_size=3, unique=True)
        ):
            for name in shown:
                rank = draw(st.none() | st.integers(1, 3).map(float))
                row = {"session_id": f"s{session}", "reviewer": reviewer, "candidate": name}
                rows.append({**row, "rank": rank})
    return rows


def met_by_hand(rows: Table_, own_votes: OwnVotes) -> dict[tuple[str, str], float]:
    """Every ballot that ranks a model, one after the other."""
    ballots: dict[tuple[str, str], Table_] = defaultdict(list)
    for row in rows:
        ballots[row["session_id"], row["reviewer"]].append(row)
    parts: dict[tuple[str, str], list[dict[str, float]]] = defaultdict(list)
    n_shown = {
        session: len({row["candidate"] for row in rows if row["session_id"] == session})
        for session in {row["session_id"] for row in rows}
    }
    for (session, reviewer), ballot in ballots.items():
        on = [row for row in ballot if own_votes != "out" or row["candidate"] != reviewer]
        if (n_shown[session] if own_votes == "place_kept" else len(on)) < 2:
            continue
        for row in on:
            is_own = row["candidate"] == reviewer
            if row["rank"] is None or (own_votes == "place_kept" and is_own):
                continue
            rivals = [one["candidate"] for one in on if one is not row]
            parts[session, row["candidate"]].append({name: 1 / len(rivals) for name in rivals})
    met: dict[tuple[str, str], float] = defaultdict(float)
    for (_, model), votes in parts.items():
        for vote in votes:
            for rival, part in vote.items():
                met[model, rival] += part / len(votes)
    return met


@given(reviews(), st.sampled_from(["out", "in", "place_kept"]))
def test_rivals_are_added_up_as_ballot_by_ballot(rows: Table_, own_votes: OwnVotes) -> None:
    names = ("session_id", "reviewer", "candidate", "rank")
    encoded = rows_of({name: [row[name] for row in rows] for name in names})
    tables = sum_votes(encoded, ("rivals", "meetings"), own_votes).tables
    expected = met_by_hand(rows, own_votes)
    for name in ("rivals", "meetings"):
        found: dict[tuple[str, str], float] = defaultdict(float)
        for subject, met in zip(tables[name].subject, tables[name].sums[:, 0], strict=True):
            one, other = divmod(int(subject), len(encoded.names))
            found[encoded.names[one], encoded.names[other]] += met
        assert found == pytest.approx(expected)


@given(st.lists(st.floats(0.05, 0.95), min_size=2, max_size=8), st.integers(5, 500))
def test_where_all_met_all_the_common_share_is_the_plain_one(
    shares: list[float], n_sessions: int
) -> None:
    n = len(shares)
    fair = np.array(shares) + 0.5 - np.mean(shares)
    fair = 0.5 + (fair - 0.5) * 0.9 / max(1.0, float(np.abs(fair - 0.5).max()) * 2 * n)
    met = np.full((n, n), n_sessions / (n - 1)) * (1 - np.eye(n))
    assert common_shares(fair * n_sessions, met).value == pytest.approx(fair, abs=2e-3)
    assert coverage(met) == pytest.approx(1.0)


def test_who_wins_all_has_a_share_and_contradictory_sums_end() -> None:
    met = np.array([[0.0, 10.0, 0.0], [10.0, 0.0, 20.0], [0.0, 20.0, 0.0]])
    value = common_shares(np.array([10.0, 10.0, 10.0]), met).value
    assert value[0] > 0.99
    assert value[1:] == pytest.approx([0.25, 0.25], abs=0.01)
    odd = common_shares(np.array([10.0, 30.0, 20.0]), met)  # all of them won everything
    assert np.isfinite(odd.value).all()
    assert np.isfinite(odd.slopes).all()


def test_groups_are_what_a_chain_of_meetings_connects() -> None:
    met = np.zeros((5, 5))
    met[0, 1] = met[2, 1] = met[3, 4] = 1.0
    assert groups_that_met(met).tolist() == [0, 0, 0, 1, 1]


def test_a_requirement_reads_the_share_that_the_board_ranks_by() -> None:
    board = board_models(season(), since="all")
    row = next(row for row in board.rows if row["model"] == "new")
    found = estimate_on_board(board, parse_requirement("share(new) > 0.5"))
    assert tuple(found) == (row["share_common"], row["share_common_low"], row["share_common_high"])
    assert found.value != row["share"]


# -- how often it is right -------------------------------------------------------------------------


def test_common_rivals_put_the_better_newcomer_first() -> None:
    field = Field((-1.5, -1.25, -1.0, 1.0, 1.6, 2.2), 120, newcomers(4, 2, 0.7))
    found = rates(field, 12)
    assert found["share_common"].n_first >= 11
    assert found["share_common"].n_ranges >= 11
    assert found["share"].n_first < found["share_common"].n_first


@pytest.mark.slow
@pytest.mark.parametrize("name", FIELDS)
def test_boards_of_common_rivals_are_right(name: str) -> None:
    """The best model first in 90%, all rank ranges right in 95%, within the error of 200 boards."""
    field, n = FIELDS[name], 200
    found = rates(field, n)["share_common"]
    assert found.n_first / n >= 0.9 - 0.04
    assert found.n_ranges / n >= 0.95 - 0.04
    assert found.n_intervals / (n * len(field.strengths)) >= 0.92


@pytest.mark.slow
@pytest.mark.parametrize("name", LATE)
def test_equal_models_of_which_one_came_late_are_told_apart_in_at_most_6_percent(name: str) -> None:
    """Within twice the error of 300 boards; with all clusters counted, up to 17% did."""
    n = 300
    assert count_separating(LATE[name], n) / n <= 0.06 + 0.027


def test_few_clusters_that_carry_a_difference_are_counted() -> None:
    equal = np.random.default_rng(1).normal(size=(40, 500)) ** 2
    carried = effective_clusters(equal, np.full(500, 400.0))
    assert 1.0 / np.mean(1.0 / (carried + 2.0)) == pytest.approx(42.0, abs=1.0)
    few = np.where(np.arange(40) < 5, 1.0, 0.0)[:, None]
    assert effective_clusters(few, np.array([40.0])) == pytest.approx([13.0])
    assert effective_clusters(np.ones((6, 1)), np.array([6.0])) == pytest.approx([6.0])


# -- the window and the scale ----------------------------------------------------------------------


def test_as_of_leaves_out_sessions_that_go_on_after_it_as_a_whole() -> None:
    """Half of a session's ballots would be another session."""
    rows: Table_ = []
    for session, times in (("one", (1.0, 2.0)), ("two", (9.0, 11.0)), ("three", (20.0, 21.0))):
        for reviewer, at in zip(("r1", "r2"), times, strict=True):
            for name, rank in (("a", 1.0), ("b", 2.0)):
                row = {"session_id": session, "reviewer": reviewer, "candidate": name}
                rows.append({**row, "rank": rank, "at": at})
    board = board_models(rows, since="all", as_of=10.0)
    assert board.notes["sessions"] == 1
    assert board.notes["reviews"] == 4
    assert board_models(rows, since="all", as_of=11.0).notes["reviews"] == 8


@pytest.mark.parametrize(
    ("scores", "told"), [((87.0, 40.0), "from 40 to 87"), ((0.2, 0.9), "from 0.2 to 0.9")]
)
def test_hybrid_refuses_scores_that_are_not_from_1_to_10(
    scores: tuple[float, float], told: str
) -> None:
    rows = [
        {"session_id": f"s{k}", "reviewer": "r", "candidate": name, "score": score}
        for k in range(3)
        for name, score in zip("ab", scores, strict=True)
    ]
    with pytest.raises(UsageError, match=told):
        board_models(rows, since="all", rule="hybrid")
    compared = board_models(rows, since="all", compare_rules=True).notes["rules"]
    (hybrid,) = (rule for rule in compared if rule["rule"] == "hybrid")
    assert told in hybrid["note"]
    assert hybrid["rows"] == []
