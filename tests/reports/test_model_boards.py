"""The board of models from a reviews table, rule by rule, and what is refused."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerage.boards.score_views import fitted_scores, solve_scores
from peerage.council.counting import count, tally
from peerage.engines.duckdb import DuckDB
from peerage.engines.review_tables import read_reviews
from peerage.errors import InputError, UsageError
from peerage.reports.ballot_rules import placings_of
from peerage.reports.board_reviews import BoardReviews
from peerage.reports.from_tables import board_models
from peerage.reports.model_boards import tables_of
from peerage.reports.options import ModelBoardOptions
from peerage.reviews.rows import N_FOLDS
from peerage.rules import rules
from peerage.rules.elo import ratings_left_out
from peerage.types import Ballot, OwnVotes, Review, Slot
from tests.shared.simulated_reviews import Planted, SimulatedSeason, simulated_reviews

DAY_S = 86_400.0
START_S = 1_767_225_600.0  # 2026-01-01, a Thursday
Table_ = list[dict[str, Any]]


def ballot(session: str, reviewer: str, ranking: str, **more: Any) -> Table_:
    """The rows of one ballot: "a bc d" ranks a first, then b and c tied; "-d" leaves d unranked."""
    rows: Table_ = []
    place = 1
    for tier in ranking.split():
        names = tier.removeprefix("-")
        for name in names:
            rank = None if tier.startswith("-") else float(place)
            row = {"session_id": session, "reviewer": reviewer, "candidate": name, "rank": rank}
            rows.append(row | more)
        place += len(names)
    return rows


def by_model(rows: Table_, **asked: Any) -> dict[str, dict[str, Any]]:
    board = board_models(rows, since="all", **asked)
    return {row["model"]: row for row in board.rows}


@pytest.fixture(scope="module")
def season() -> dict[str, Any]:
    planted = Planted(harshness={"a": -1.5})
    return dict(simulated_reviews(SimulatedSeason(n_sessions=120, n_weeks=4), planted, 7))


# -- the mean of per-session means -------------------------------------------------------------


@st.composite
def reviews(draw: st.DrawFn) -> Table_:
    rows: Table_ = []
    for session in range(draw(st.integers(1, 4))):
        shown = draw(st.lists(st.sampled_from("abcd"), min_size=1, max_size=4, unique=True))
        for reviewer in draw(
            st.lists(st.sampled_from(["a", "b", "x"]), min_size=1, max_size=3, unique=True)
        ):
            for name in shown:
                rank = draw(st.none() | st.integers(1, 4).map(float))
                rows.append(
                    {
                        "session_id": f"s{session}",
                        "reviewer": reviewer,
                        "candidate": name,
                        "rank": rank,
                    }
                )
    return rows


def exact(rows: Table_, own: OwnVotes) -> dict[str, tuple[Fraction, Fraction, int, int]]:
    """Share, Borda, votes and wins by the scalar tally of each session."""
    found: dict[str, list[tuple[Fraction, Fraction, int, int]]] = {}
    for session in sorted({row["session_id"] for row in rows}):
        here = [row for row in rows if row["session_id"] == session]
        candidates = sorted({row["candidate"] for row in here})
        counted = []
        for reviewer in sorted({row["reviewer"] for row in here}):
            mine = [row for row in here if row["reviewer"] == reviewer]
            levels = sorted({row["rank"] for row in mine if row["rank"] is not None})
            tiers = tuple(
                tuple(row["candidate"] for row in mine if row["rank"] == level) for level in levels
            )
            slots = tuple(Slot(row["candidate"], row["candidate"]) for row in mine)
            counted.append(count(Ballot(reviewer, slots), Review(reviewer, tiers)))
        borda = rules.get("borda")
        for score in tally(counted, candidates, borda, borda, own):
            if score.votes:
                row = (Fraction(score.share), Fraction(score.borda), score.votes, score.wins)
                found.setdefault(score.model, []).append(row)
    return {
        name: (
            sum((one[0] for one in many), Fraction(0)) / len(many),
            sum((one[1] for one in many), Fraction(0)) / len(many),
            sum(one[2] for one in many),
            sum(one[3] for one in many),
        )
        for name, many in found.items()
    }


@pytest.mark.parametrize("own", ["out", "in", "place_kept"])
@settings(max_examples=settings.default.max_examples // 4)
@given(rows=reviews())
def test_a_board_is_the_mean_of_what_each_session_says(own: OwnVotes, rows: Table_) -> None:
    """Each session counts once, whoever reviewed it."""
    found = by_model(rows, own_votes=own)
    wanted = exact(rows, own)
    assert {name for name, row in found.items() if row["total_votes"]} == set(wanted)
    for name, (share, borda, n_votes, n_wins) in wanted.items():
        assert found[name]["share"] == pytest.approx(float(share), abs=1e-12)
        assert found[name]["aggregate_borda"] == pytest.approx(float(borda), abs=1e-12)
        assert (found[name]["total_votes"], found[name]["total_wins"]) == (n_votes, n_wins)


def test_a_session_of_many_ballots_weighs_as_much_as_one_of_few() -> None:
    rows = [row for i in range(9) for row in ballot("long", f"j{i}", "a b")]
    rows += ballot("short", "j0", "b a")
    assert by_model(rows)["a"]["share"] == 0.5


def test_equal_up_to_their_wins_is_the_same_rank_listed_by_name() -> None:
    rows = ballot("s", "j", "ab c") + ballot("t", "k", "ba c")
    found = by_model(rows)
    assert list(found) == ["a", "b", "c"]
    assert [row["rank"] for row in found.values()] == [1, 1, 3]


def test_more_wins_breaks_a_tie_of_shares() -> None:
    rows = ballot("s", "j", "a b c") + ballot("t", "k", "c b a")
    rows += ballot("u", "l", "a b c") + ballot("v", "m", "c b a")
    found = by_model(rows + ballot("w", "j", "b ac"))
    assert found["b"]["total_wins"] == 1
    assert found["a"]["rank"] == found["c"]["rank"] == 2


def test_who_has_no_vote_is_listed_last_without_a_share() -> None:
    """No vote is not a low share."""
    found = by_model(ballot("s", "j", "a b -c"))
    assert list(found) == ["a", "b", "c"]
    assert found["c"]["share"] is None
    assert found["c"]["appearances"] == 1
    assert found["c"]["rank_low"] is None


def test_rows_with_neither_rank_nor_score_are_abstentions() -> None:
    """An abstaining reviewer costs no one anything."""
    with_silence = ballot("s", "j", "a b c") + ballot("s", "k", "-abc")
    assert by_model(with_silence)["a"] == by_model(ballot("s", "j", "a b c"))["a"]


def test_rounds_are_ballots_of_their_own() -> None:
    rows = ballot("s", "j", "a b", round=0) + ballot("s", "j", "b a", round=1)
    found = by_model(rows)
    assert found["a"]["share"] == found["b"]["share"] == 0.5
    assert found["a"]["total_votes"] == 2


# -- other views -------------------------------------------------------------------------------


def test_mean_scores_leave_own_ones_out_unless_they_are_in() -> None:
    rows = [
        {"session_id": "s", "reviewer": r, "candidate": c, "score": score}
        for r, c, score in (
            ("a", "a", 10.0),
            ("a", "b", 4.0),
            ("a", "c", 6.0),
            ("j", "a", 6.0),
            ("j", "b", 5.0),
            ("j", "c", 4.0),
        )
    ]
    assert by_model(rows)["a"]["mean_score_plain"] == 6.0
    assert by_model(rows, own_votes="in")["a"]["mean_score_plain"] == 8.0


def test_a_harsh_grader_drops_out_of_the_mean_score_of_its_own_answers() -> None:
    """Peers of equal quality: a plain mean puts the harsh one first, because it spares itself."""
    rows = [
        {"session_id": f"s{s}", "reviewer": r, "candidate": c, "score": 6.0 - 2.0 * (r == "a")}
        for s in range(5)
        for r in "abcd"
        for c in "abcd"
    ]
    found = by_model(rows)
    assert found["a"]["mean_score_plain"] > found["b"]["mean_score_plain"]
    assert {round(row["mean_score"], 9) for row in found.values()} == {5.5}


def test_z_scores_forgive_a_harsh_reviewer_who_did_not_judge_everyone() -> None:
    """The calibrated view compares models as if their reviewers were equally harsh."""
    rows = []
    for session in range(40):
        for reviewer, shift, shown in (("kind", 2.0, "abc"), ("harsh", -3.0, "bcd")):
            for name in shown:
                score = 5.0 + shift + 0.01 * ((7 * session + ord(name)) % 5) + (name == "d")
                rows.append(
                    {
                        "session_id": f"s{session}{reviewer}",
                        "reviewer": reviewer,
                        "candidate": name,
                        "score": score,
                    }
                )
    found = by_model(rows)
    assert found["a"]["mean_score_plain"] > found["d"]["mean_score_plain"]
    assert found["d"]["mean_score"] > found["a"]["mean_score"]
    assert found["d"]["z_score"] > found["a"]["z_score"]


def test_without_scores_there_is_no_mean_score_and_no_z() -> None:
    row = by_model(ballot("s", "j", "a b"))["a"]
    assert row["mean_score"] is None
    assert row["z_score"] is None


def test_the_length_controlled_view_takes_out_what_length_bought() -> None:
    rng = np.random.default_rng(5)
    rows: Table_ = []
    for session in range(300):
        words = {name: float(rng.lognormal(5.0 + 0.6 * (name == "a"), 0.5)) for name in "abc"}
        worth = {name: np.log1p(words[name]) + rng.normal(0, 0.3) for name in "abc"}
        for place, name in enumerate(sorted("abc", key=lambda name: -worth[name]), 1):
            rows.append(
                {
                    "session_id": f"s{session}",
                    "reviewer": "j",
                    "candidate": name,
                    "rank": float(place),
                    "words": words[name],
                }
            )
    found = by_model(rows, length_controlled=True)
    assert found["a"]["share"] > 0.7
    gaps = [row["share_length_controlled"] - 0.5 for row in found.values()]
    assert max(map(abs, gaps)) < 0.08


def test_the_matrix_counts_ties_as_halves_and_leaves_out_who_never_met() -> None:
    rows = ballot("s", "j", "a b") + ballot("t", "j", "ab") + ballot("u", "j", "a c")
    board = board_models(rows, since="all", matrix=True)
    found = board.notes["matrix"]
    at = found["models"].index
    assert found["above"][at("a")][at("b")] == 0.75
    assert found["n"][at("a")][at("b")] == 2
    assert found["above"][at("b")][at("c")] is None
    assert found["above"][at("a")][at("a")] is None


def test_every_rule_on_a_board_is_the_rule_of_its_own_file(season: dict[str, Any]) -> None:
    """The same ballots, whole, through each registered rule."""
    board = board_models(season, since="all", compare_rules=True)
    found = {
        one["rule"]: {row["model"]: row["value"] for row in one["rows"]}
        for one in board.notes["rules"]
    }
    table = BoardReviews(
        read_reviews(DuckDB(), season), ModelBoardOptions(since="all", compare_rules=True)
    )
    placings = placings_of(table.rows(), "out").placings
    for name in ("bradley_terry", "elo", "copeland", "schulze"):
        wanted = rules.get(name).values(placings, tuple("abcde"))
        assert found[name] == pytest.approx({k: float(v) for k, v in wanted.items()}, abs=1e-6)
    # Every session has the same ballots here, so the mean of means is the mean.
    for name in ("borda", "mean_rank"):
        wanted = rules.get(name).values(placings, tuple("abcde"))
        assert found[name] == pytest.approx({k: float(v) for k, v in wanted.items()}, abs=1e-9)


@pytest.mark.parametrize("rule", ["mean_rank", "hybrid", "bradley_terry", "elo", "copeland"])
def test_a_board_under_another_rule_is_ranked_by_its_value(
    season: dict[str, Any], rule: str
) -> None:
    rows = board_models(season, since="all", rule=rule).rows
    values = [row["value"] for row in rows]
    assert values == sorted(values, reverse=rule != "mean_rank")
    if rule != "copeland":
        assert all(row["value_low"] < row["value"] < row["value_high"] for row in rows)
        assert all(row["rank_low"] <= row["rank"] <= row["rank_high"] for row in rows)


def test_weights_of_items_weigh_sessions_and_leave_out_those_without_one() -> None:
    """Test weights in the model board."""
    rows = ballot("s", "j", "a b") + ballot("t", "j", "b a") + ballot("u", "j", "b a")
    weights = {"item_id": ["s", "t"], "weight": [3.0, 1.0]}
    board = board_models(rows, since="all", item_weights=weights)
    assert {row["model"]: row["share"] for row in board.rows} == {"a": 0.75, "b": 0.25}
    assert board.flags == ("sessions_without_a_weight:1",)


def test_weighing_reviewers_by_their_own_scores_listens_to_the_best() -> None:
    """As `--reputation peer` has it."""
    rows: Table_ = []
    for session in range(10):
        rows += ballot(f"s{session}", "a", "a b c")
        rows += ballot(f"s{session}", "b", "a b c")
        rows += ballot(f"s{session}", "c", "c b a")
    fixed = by_model(rows, own_votes="in")
    board = board_models(rows, since="all", own_votes="in", reputation="peer")
    peer = {row["model"]: row for row in board.rows}
    assert peer["a"]["share"] > fixed["a"]["share"]
    assert board.notes["reviewer_weights"]["c"] == 0.0
    assert sum(board.notes["reviewer_weights"].values()) == pytest.approx(1.0)


def test_weighing_by_peers_needs_a_peer() -> None:
    with pytest.raises(UsageError, match="no reviewer is a model"):
        board_models(ballot("s", "j", "a b"), reputation="peer")


# -- windows and categories --------------------------------------------------------------------


def dated(day: float, ranking: str, session: str) -> Table_:
    return ballot(session, "j", ranking, at=START_S + day * DAY_S)


def test_a_window_ends_at_the_latest_event_and_says_so() -> None:
    rows = dated(0, "b a", "old") + dated(40, "a b", "new")
    board = board_models(rows)
    assert board.parameters["as_of"] == "2026-02-10T00:00:00Z"
    assert board.rows[0]["model"] == "a"
    assert board.rows[0]["appearances"] == 1
    assert by_model(rows)["a"]["appearances"] == 2


def test_a_window_as_of_a_day_knows_nothing_later() -> None:
    rows = dated(0, "b a", "old") + dated(40, "a b", "new")
    board = board_models(rows, as_of="2026-01-05")
    assert board.rows[0]["model"] == "b"
    assert board.parameters["as_of"] == "2026-01-05T00:00:00Z"


def test_a_session_is_in_the_window_as_a_whole() -> None:
    """A session that began before the window and went on in it is not cut in two."""
    rows = dated(9.9, "a b", "s") + ballot("s", "k", "a b", at=START_S + 10.1 * DAY_S)
    rows += dated(20, "b a", "t")
    board = board_models(rows, since="10d")
    assert {row["model"]: row["total_votes"] for row in board.rows} == {"a": 3, "b": 3}


def test_times_in_three_zones_are_one_time() -> None:
    rows = ballot("s", "j", "a b", at="2026-01-10T12:00:00+05:00")
    rows += ballot("t", "j", "a b", at="2026-01-10T07:00:00Z")
    rows += ballot("u", "j", "a b", at="2026-01-10T01:00:00-06:00")
    board = board_models(rows, since="1h")
    assert board.rows[0]["appearances"] == 3


def test_a_review_from_the_future_is_flagged() -> None:
    rows = ballot("s", "j", "a b", at="2999-01-01T00:00:00Z")
    assert board_models(rows).flags == ("reviews_in_the_future:2",)


def test_an_empty_window_is_an_empty_board() -> None:
    board = board_models(dated(0, "a b", "s"), as_of="2020-01-01")
    assert board.rows == []
    assert board.document()["rows"] == []


def test_each_category_has_its_own_board_whatever_it_is_called() -> None:
    odd = 'it\'s "odd"; -- näh, 100%'
    rows = ballot("s", "j", "a b", category=odd) + ballot("t", "j", "b a", category="")
    rows += ballot("u", "j", "b a", category=None)
    board = board_models(rows, by_category=True)
    first = {row["category"]: row["model"] for row in board.rows if row["rank"] == 1}
    assert first == {"": "b", odd: "a"}
    alone = board_models(rows, category=odd)
    assert [row["model"] for row in alone.rows] == ["a", "b"]


def test_a_category_board_is_the_board_of_that_category(season: dict[str, Any]) -> None:
    n = len(season["score"])
    table = season | {"category": np.where(np.arange(n) < n // 2, "left", "right")}
    board = board_models(table, since="all", by_category=True)
    for name in ("left", "right"):
        alone = board_models(table, since="all", category=name).rows
        rows = [row for row in board.rows if row["category"] == name]
        for row, wanted in zip(rows, alone, strict=True):
            # the draws of rank ranges are over all clusters in one and those held in the other
            same = set(wanted) - {"rank_low", "rank_high", "tier"}
            assert {k: row[k] for k in same} == {k: wanted[k] for k in same}


def test_history_is_each_weeks_own_board(season: dict[str, Any]) -> None:
    board = board_models(season, since="all", history="week")
    weeks = sorted({point["week"] for point in board.notes["history"]})
    assert len(weeks) >= 4
    assert sum(p["appearances"] for p in board.notes["history"] if p["model"] == "a") == 120
    assert all(np.datetime64(week).astype("datetime64[D]").item().weekday() == 0 for week in weeks)


# -- intervals ---------------------------------------------------------------------------------


def test_ranks_lie_in_their_ranges_and_tiers_do_not_overlap(season: dict[str, Any]) -> None:
    for interval in ("sessions", "two-way"):
        rows = board_models(season, since="all", interval=interval).rows
        assert all(row["rank_low"] <= row["rank"] <= row["rank_high"] for row in rows)
        assert all(0.0 <= row["share_low"] <= row["share"] <= row["share_high"] for row in rows)
        tiers = [row["tier"] for row in rows]
        assert tiers == sorted(tiers)


def test_two_way_intervals_are_wider_and_need_three_reviewers(season: dict[str, Any]) -> None:
    narrow = by_rank(board_models(season, since="all"))
    wide = by_rank(board_models(season, since="all", interval="two-way"))
    assert all(wide[name] > narrow[name] for name in narrow)
    two = ballot("s", "j", "a b c") + ballot("s", "k", "a b c") + ballot("t", "j", "a c b")
    with pytest.raises(UsageError, match="2 reviewers are too few"):
        board_models(two, interval="two-way")


def test_models_without_a_two_way_interval_are_named() -> None:
    """Three who judge each other have two reviewers each, once own votes are left out."""
    rankings = {"s1": "a b c", "s2": "b c a", "s3": "a c b"}
    rows = [row for s, order in rankings.items() for who in "abc" for row in ballot(s, who, order)]
    board = board_models(rows, interval="two-way")
    assert all(row["share_low"] is None for row in board.rows)
    assert "no_two_way_interval:3: a, b, c" in board.flags
    counted = board_models(rows, interval="two-way", own_votes="in")
    assert not [flag for flag in counted.flags if flag.startswith("no_two_way_interval")]


def by_rank(board: Any) -> dict[str, float]:
    return {row["model"]: row["share_high"] - row["share_low"] for row in board.rows}


def test_one_session_has_no_interval() -> None:
    row = by_model(ballot("s", "j", "a b c"))["a"]
    assert row["share_low"] is None
    assert (row["rank_low"], row["rank_high"]) == (1, 3)


@pytest.mark.parametrize("n_wins", [1, 3])
def test_a_winner_of_one_session_or_three_is_provisional_and_moves_no_rank(n_wins: int) -> None:
    """Its spread is hardly known, and not zero."""
    rng = np.random.default_rng(2)
    rows = [
        {"session_id": f"s{i}", "reviewer": who, "candidate": whom, "rank": float(rank + 1)}
        for i in range(60)
        for who in "abcd"
        for rank, whom in enumerate(rng.permutation(list("abcd")))
    ]
    rows += [
        {"session_id": f"new {i}", "reviewer": who, "candidate": whom, "rank": float(rank + 1)}
        for i in range(n_wins)
        for who in "abc"
        for rank, whom in enumerate(["new", *rng.permutation(list("abc"))])
    ]
    *ranked, last = board_models(rows, since="all").rows
    assert (last["model"], last["share"], last["provisional"]) == ("new", 1.0, True)
    low = None if n_wins == 1 else pytest.approx(0.025 ** (1 / 3))
    assert (last["share_low"], last["share_high"]) == (low, None if n_wins == 1 else 1.0)
    assert [last[name] for name in ("rank", "rank_low", "rank_high", "tier")] == [None] * 4
    assert sorted(row["rank"] for row in ranked) == [1, 2, 3, 4]
    assert all(row["rank_high"] <= 4 and not row["provisional"] for row in ranked)


def test_where_every_model_has_few_sessions_all_are_ranked() -> None:
    rows = board_models([row for i in range(3) for row in ballot(f"s{i}", "j", "a b c")]).rows
    assert [(row["rank"], row["provisional"]) for row in rows] == [
        (1, False),
        (2, False),
        (3, False),
    ]


def unanimous(n: int) -> list[dict[str, Any]]:
    return [row for i in range(n) for who in "xyz" for row in ballot(f"s{i}", who, "a b c")]


def test_forty_unanimous_sessions_are_told_apart_with_intervals_that_are_not_points() -> None:
    found = by_model(unanimous(40))
    assert [found[name]["tier"] for name in "abc"] == [1, 2, 3]
    rare = 1.0 - 0.025 ** (1 / 40)
    for name, share in (("a", 1.0), ("b", 0.5), ("c", 0.0)):
        low = share * (1.0 - rare)
        row = found[name]
        assert (row["share_low"], row["share_high"]) == pytest.approx((low, low + rare))


@pytest.mark.parametrize("n", [2, 3, 6])
def test_a_few_unanimous_sessions_tell_nobody_apart(n: int) -> None:
    assert {(row["rank_low"], row["rank_high"]) for row in by_model(unanimous(n)).values()} == {
        (1, 3)
    }


def test_three_sessions_of_eight_equal_models_tell_nobody_apart() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        rows = [
            row
            for i in range(3)
            for who in "xyz"
            for row in ballot(f"s{i}", who, " ".join(rng.permutation(list("abcdefgh"))))
        ]
        assert {row["rank_high"] for row in by_model(rows).values()} == {8}


def test_a_query_asked_ten_times_is_one_observation() -> None:
    rng = np.random.default_rng(4)
    rows = []
    for query in range(12):
        order = " ".join(rng.permutation(list("abc")))
        for again in range(10):
            session = ballot(f"s{query} {again}", "x", order)
            rows += [{**row, "query_id": f"q{query}"} for row in session]
    once = by_model([row for row in rows if row["session_id"].endswith(" 0")])
    often = by_model(rows)
    for name in "abc":
        for edge in ("share_low", "share_high", "rank_low", "rank_high"):
            assert often[name][edge] == pytest.approx(once[name][edge])
        assert often[name]["appearances"] == 10 * once[name]["appearances"]


def test_lengths_that_never_change_buy_nothing() -> None:
    """Everyone's own answer is missing from its ballot, which is no effect of length."""
    rng = np.random.default_rng(5)
    words = dict(zip("abcd", (50, 100, 200, 400), strict=True))
    rows = [
        {**row, "words": words[row["candidate"]]}
        for i in range(40)
        for who in "abcd"
        for row in ballot(f"s{i}", who, " ".join(rng.permutation(list("abcd"))))
    ]
    board = board_models(rows, since="all", length_controlled=True)
    assert board.notes["length_slope"] is None


# -- one result, however it is read ------------------------------------------------------------


def test_blocks_and_streams_and_files_give_the_same_bytes(
    season: dict[str, Any], tmp_path: Path
) -> None:
    whole = json.dumps(board_models(season, since="all").document())
    path = tmp_path / "reviews.parquet"
    DuckDB(folders=[path.parent]).open(season).to_native().write_parquet(str(path))
    blocks = board_models(path, since="all", engine=DuckDB(block_rows=500))
    assert json.dumps(blocks.document()) == whole
    assert json.dumps(board_models(str(path), since="all").document()) == whole


def test_rows_out_of_order_give_the_same_bytes(season: dict[str, Any]) -> None:
    order = np.random.default_rng(3).permutation(len(season["score"]))
    mixed = {name: values[order] for name, values in season.items()}
    asked = {"since": "all", "compare_rules": True, "matrix": True}
    assert board_models(mixed, **asked).document() == board_models(season, **asked).document()


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_any_table_that_speaks_arrow_is_read(season: dict[str, Any], library: str) -> None:
    module = pytest.importorskip(library)
    make = {"pandas": "DataFrame", "polars": "DataFrame", "pyarrow": "table"}[library]
    columns = {name: values.tolist() for name, values in season.items()}
    table = getattr(module, make)(columns)
    assert board_models(table).document() == board_models(season).document()


# -- what is refused ---------------------------------------------------------------------------


def test_a_row_twice_is_refused_by_name() -> None:
    rows = ballot("s", "j", "a b") + ballot("s", "j", "a c")
    with pytest.raises(InputError, match="twice in one round"):
        board_models(rows)


def test_a_session_with_one_candidate_is_flagged() -> None:
    rows = ballot("s", "j", "a") + ballot("t", "j", "a b")
    board = board_models(rows)
    assert board.flags == ("sessions_with_one_candidate:1",)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"own_votes": "maybe"}, "own votes cannot be 'maybe'"),
        ({"interval": "wide"}, "interval cannot be 'wide'"),
        ({"reputation": "iterate"}, "reputation cannot be 'iterate'"),
        ({"since": "soon"}, "'soon' is not a span of time"),
        ({"as_of": "noon"}, "'noon' is not a time"),
        ({"rule": "dice"}, "there is no rule 'dice'"),
        ({"rule": "elo", "by_category": True}, "cannot use the rule elo"),
        ({"rule": "hybrid", "interval": "two-way"}, "only available for the rule borda"),
    ],
)
def test_terms_that_make_no_sense_are_refused(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        board_models(ballot("s", "j", "a b", category="x"), **asked)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"by_category": True}, "no `category`"),
        ({"history": "week"}, "needs the column `at`"),
        ({"length_controlled": True}, "needs the column `words`"),
        ({"item_weights": {"item_id": ["s"]}}, "need the column weight"),
    ],
)
def test_a_column_that_is_not_there_is_named(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        board_models(ballot("s", "j", "a b"), **asked)


def test_no_number_of_a_board_is_nan(season: dict[str, Any]) -> None:
    for rows in (season, ballot("s", "j", "a b -c"), []):
        table = rows or {name: [] for name in ("session_id", "reviewer", "candidate", "rank")}
        json.dumps(board_models(table).document(), allow_nan=False)


# -- answers that were cut off -----------------------------------------------------------------


def cut_off_at(rows: Table_, *answers: tuple[str, str]) -> Table_:
    """The rows, those of these answers (session, candidate) marked as cut off."""
    return [
        row | {"truncated": int((row["session_id"], row["candidate"]) in answers)} for row in rows
    ]


def test_cut_off_answers_are_told_below_the_board() -> None:
    rows = ballot("1", "x", "a b c") + ballot("1", "y", "a b c") + ballot("2", "x", "b a c")
    board = board_models(cut_off_at(rows, ("1", "a"), ("2", "c")), since="all")
    assert "truncated_answers:2: a (1 of 2, 50%), c (1 of 2, 50%)" in board.flags
    assert not any(flag.startswith("truncated") for flag in board_models(rows).flags)


def test_cut_off_answers_without_a_time_count_in_every_window() -> None:
    rows = ballot("1", "x", "a b c") + ballot("2", "x", "b a c")
    marked = cut_off_at(rows, ("1", "a"), ("2", "a"))
    some = [row | {"at": "2026-01-01"} if row["session_id"] == "1" else row for row in marked]
    board = board_models(some, since="30d")
    assert "truncated_answers:2: a (2 of 2, 100%)" in board.flags


def test_without_truncated_is_the_board_of_the_others_alone() -> None:
    rows = ballot("1", "x", "a b c") + ballot("1", "y", "c b a") + ballot("2", "x", "b a c")
    cut = cut_off_at(rows, ("1", "a"))
    whole = ballot("1", "x", "b c") + ballot("1", "y", "c b") + ballot("2", "x", "b a c")
    assert by_model(cut, without_truncated=True) == by_model(whole)


def test_a_table_that_does_not_say_cannot_be_rid_of_cut_off_answers() -> None:
    with pytest.raises(InputError, match="no column `truncated`"):
        board_models(ballot("1", "x", "a b c"), without_truncated=True)


# -- intervals of scores and of Elo ------------------------------------------------------------


def test_scores_have_intervals_that_narrow_with_the_sessions() -> None:
    """Both views, over queries: four times the sessions halve the width, more or less."""
    widths = []
    for n_sessions in (40, 160):
        rows = dict(simulated_reviews(SimulatedSeason(n_sessions=n_sessions), Planted(), 3))
        board = board_models(rows, since="all")
        for view in ("mean_score", "z_score"):
            assert all(row[f"{view}_low"] < row[view] < row[f"{view}_high"] for row in board.rows)
        wide = [row["mean_score_high"] - row["mean_score_low"] for row in board.rows]
        widths.append(sum(wide) / len(wide))
    assert widths[0] / widths[1] == pytest.approx(2.0, rel=0.4)


def test_the_interval_of_a_score_is_that_of_its_queries_not_of_its_sessions() -> None:
    """Ten sessions on each of ten queries are ten observations."""
    rng = np.random.default_rng(5)
    rows = []
    for query in range(10):
        quality = rng.normal(6.0, 1.0, 3)
        for again in range(10):
            for name, score in zip("abc", quality, strict=True):
                row = {"session_id": f"s{query}-{again}", "reviewer": "r", "candidate": name}
                rows.append({**row, "score": float(score), "query_id": f"q{query}"})
    asked_again = by_model(rows)
    alone = by_model([{**row, "query_id": row["session_id"]} for row in rows])
    for name in "abc":
        width, narrow = (
            one[name]["mean_score_high"] - one[name]["mean_score_low"]
            for one in (asked_again, alone)
        )
        assert width > 2.0 * narrow


def test_a_score_from_one_query_has_no_interval() -> None:
    rows = [
        {"session_id": "s", "reviewer": "r", "candidate": name, "score": score}
        for name, score in (("a", 7.0), ("b", 5.0))
    ]
    for row in by_model(rows).values():
        assert row["mean_score"] is not None
        assert row["mean_score_low"] is row["mean_score_high"] is row["z_score_low"] is None


def test_the_fit_in_one_step_is_the_one_in_many(season: dict[str, Any]) -> None:
    """Intervals solve for what `mean_score` comes to by turns."""
    table = BoardReviews(read_reviews(DuckDB(), season), ModelBoardOptions(since="all"))
    totals = table.sums(tables_of(table)).part(None)
    reviewer, model, sums = totals.by_reviewer("scores")
    _, who = np.unique(reviewer, return_inverse=True)
    solved = solve_scores(who, model, sums["weight"], sums["score"], len(totals.models))
    assert solved == pytest.approx(fitted_scores(totals), abs=1e-9)


def test_elo_without_a_fold_is_elo_of_the_other_ballots(season: dict[str, Any]) -> None:
    table = BoardReviews(read_reviews(DuckDB(), season), ModelBoardOptions(since="all", rule="elo"))
    placings, folds = placings_of(table.rows(), "out")
    ratings, met = ratings_left_out(placings, "abcde", folds, N_FOLDS)
    assert met.all()
    for fold in (0, 17):
        others = [one for one, at in zip(placings, folds, strict=True) if at != fold]
        wanted = rules.get("elo").values(others, tuple("abcde"))
        assert ratings[1 + fold] == pytest.approx([float(wanted[name]) for name in "abcde"])
