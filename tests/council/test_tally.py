"""How ballots are counted, on hand-worked ones."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerage.council.counting import count, place, tally
from peerage.rules import rules
from peerage.scoring import score
from peerage.types import Ballot, Review, Slot

BORDA = rules.get("borda")


def ballot(reviewer, shown="abcd"):
    return Ballot(reviewer, tuple(Slot(name.upper(), name) for name in shown))


def counted(reviewer, said, shown="abcd", gated="", **review):
    """A ballot from 'b>a=c': labels are the authors' names in capitals."""
    tiers = tuple(tuple(tier.upper().split("=")) for tier in said.split(">")) if said else ()
    return count(ballot(reviewer, shown), Review(reviewer, tiers, **review), gated=frozenset(gated))


def result(ballots, candidates="abcd", own_votes="out", rule=BORDA):
    scores = tally(ballots, tuple(candidates), rule, BORDA, own_votes)
    return {score.model: score for score in scores}


def shares(ballots, candidates="abcd", own_votes="out"):
    scores = result(ballots, candidates, own_votes)
    return {name: Fraction(score.share).limit_denominator(1000) for name, score in scores.items()}


F = Fraction


def test_a_share_is_the_part_of_rivals_beaten():
    """An outsider's ballot gives the published points over N-1"""
    scores = result([counted("x", "b>a>d>c"), counted("y", "b>a>c>d")])
    assert [scores[m].borda for m in "bacd"] == [3.0, 2.0, 0.5, 0.5]
    assert [scores[m].rank for m in "bacd"] == [1, 2, 3, 3]


def test_the_own_answer_leaves_no_gap():
    """a at its own second place; b, c, d share 1, 1/2, 0"""
    assert shares([counted("a", "b>a>c>d")]) == {"a": 0, "b": 1, "c": F(1, 2), "d": 0}


def test_where_a_reviewer_puts_itself_changes_nothing():
    """With own votes out"""
    others = [counted("b", "a>b>c>d"), counted("c", "d>a>b>c")]
    first = shares([counted("a", "a>b>c>d"), *others])
    last = shares([counted("a", "b>c>d>a"), *others])
    missing = shares([counted("a", "b>c>d"), *others])
    assert first == last == missing


def test_own_votes_in_counts_them_like_any_other():
    assert shares([counted("a", "a>b>c>d")], own_votes="in") == {
        "a": 1,
        "b": F(2, 3),
        "c": F(1, 3),
        "d": 0,
    }


def test_own_votes_seed_drops_the_vote_and_keeps_the_slot():
    """Ranking oneself first takes a point from every rival"""
    first = result([counted("a", "a>b>c>d")], own_votes="place_kept")
    last = result([counted("a", "b>c>d>a")], own_votes="place_kept")
    assert [first[m].borda for m in "bcd"] == [2, 1, 0]
    assert [last[m].borda for m in "bcd"] == [3, 2, 1]
    assert first["a"].votes == 0
    assert first["b"].wins == 0
    assert last["b"].wins == 1


def seed_borda(rankings, candidates):
    """The published function, read plainly."""
    points, wins = {}, {}
    for reviewer, order in rankings:
        for position, author in enumerate(order):
            if author not in candidates or author == reviewer:
                continue
            points.setdefault(author, []).append(len(candidates) - 1 - position)
            wins[author] = wins.get(author, 0) + (position == 0)
    return {m: (sum(p) / len(p), len(p), wins[m]) for m, p in points.items()}


@st.composite
def strict_ballots(draw, candidates="abcd"):
    reviewers = draw(st.lists(st.sampled_from("abcdxyz"), min_size=1, max_size=6, unique=True))
    size = st.integers(1, len(candidates))
    return [
        (reviewer, draw(st.permutations([*list(candidates), "z"]))[: draw(size)])
        for reviewer in reviewers
    ]


@given(strict_ballots())
def test_own_votes_seed_gives_the_published_numbers_on_any_ballots(rankings):
    """Partial ballots and unknown labels included"""
    ballots = [counted(reviewer, ">".join(order)) for reviewer, order in rankings]
    scores = result(ballots, own_votes="place_kept")
    expected = seed_borda(rankings, "abcd")
    for name in "abcd":
        mean, votes, wins = expected.get(name, (0, 0, 0))
        assert scores[name].borda == pytest.approx(mean, abs=1e-12)
        assert (scores[name].votes, scores[name].wins) == (votes, wins)


@given(st.lists(st.permutations("abcd"), min_size=1, max_size=5))
def test_outsiders_ballots_give_the_published_number_in_every_mode(orders):
    ballots = [counted(f"x{i}", ">".join(order)) for i, order in enumerate(orders)]
    expected = seed_borda([(f"x{i}", order) for i, order in enumerate(orders)], "abcd")
    for own_votes in ("out", "in", "place_kept"):
        scores = result(ballots, own_votes=own_votes)
        assert all(scores[m].borda == pytest.approx(expected[m][0], abs=1e-12) for m in "abcd")


def test_an_unknown_label_first_takes_no_place():
    reading = counted("x", "q>a>b>c>d")
    assert shares([reading]) == shares([counted("x", "a>b>c>d")])
    assert result([reading])["a"].wins == 1


def test_the_first_mention_of_a_repeated_label_stands():
    assert shares([counted("x", "a>b>a>c>b>d")]) == shares([counted("x", "a>b>c>d")])


def test_a_tie_in_the_middle_shares_the_mean_place():
    assert shares([counted("x", "a>b=c>d")]) == {"a": 1, "b": F(1, 2), "c": F(1, 2), "d": 0}


def test_a_tie_for_first_is_nobodys_win():
    scores = result([counted("x", "a=b>c>d")])
    assert scores["a"].wins == scores["b"].wins == 0
    assert scores["a"].share == pytest.approx(5 / 6)
    assert scores["a"].rank == scores["b"].rank == 1


def test_a_tie_with_oneself_is_no_tie():
    """The own answer is gone before places are counted"""
    assert result([counted("a", "a=b>c>d")])["b"].wins == 1


def test_a_partial_ballot_votes_for_those_it_ranks():
    """The ranked beat the unranked, who get no vote"""
    scores = result([counted("x", "a>b")])
    assert [scores[m].share for m in "ab"] == [1, pytest.approx(2 / 3)]
    assert [scores[m].votes for m in "abcd"] == [1, 1, 0, 0]


def test_scores_without_a_ranking_give_the_ranking():
    reading = counted("x", "", scores={"A": 4, "B": 9, "C": 4, "D": 1})
    assert reading.tiers == (("b",), ("a", "c"), ("d",))
    assert "ranking_from_scores" in reading.flags


def test_a_ranking_at_odds_with_its_scores_stands_and_is_flagged():
    """The published example of a mismatch"""
    reading = counted("x", "a>b>c", shown="abc", scores={"A": 7, "B": 9, "C": 5})
    assert reading.tiers == (("a",), ("b",), ("c",))
    assert "rank_score_mismatch" in reading.flags
    assert counted("x", "a>b", scores={"A": 7, "B": 7}).flags == ()


def test_an_abstention_costs_nobody_a_point():
    votes = [counted("x", "a>b>c>d"), counted("y", "a>b>c>d")]
    silent = counted("z", "", abstained="refusal")
    assert shares(votes) == shares([*votes, silent])
    assert result([*votes, silent])["a"].confidence == "medium"


def test_a_single_ballot_is_returned_as_it_is_with_low_confidence():
    scores = result([counted("x", "c>a>b>d")])
    assert list(scores) == list("cabd")
    assert {score.confidence for score in scores.values()} == {"low"}


def test_a_candidate_without_votes_comes_last_with_nothing():
    """Also after one that has votes and no points"""
    scores = result([counted("x", "a>b>c", shown="abc"), counted("y", "a>b>c", shown="abc")])
    assert (scores["d"].share, scores["d"].rank, scores["d"].confidence) == (0, 4, "low")
    assert (scores["c"].share, scores["c"].rank) == (0, 3)


def test_equal_scores_are_parted_by_wins():
    """All three beat half their rivals, but b was never first"""
    scores = result([counted("x", "a>b>c", "abc"), counted("y", "c>b>a", "abc")], "abc")
    assert {scores[m].share for m in "abc"} == {0.5}
    assert [scores[m].rank for m in "abc"] == [1, 3, 1]


def test_equals_share_a_rank_and_are_listed_by_name():
    """As in 1, 2, 2, 4"""
    scores = result([counted("x", "c>a=b>d"), counted("y", "c>a=b>d")])
    assert [(m, scores[m].rank) for m in scores] == [("c", 1), ("a", 2), ("b", 2), ("d", 4)]


def test_scores_are_compared_exactly():
    """1/3 + 2/3 + 2/3 and 2/3 + 1/3 + 2/3 differ as sums of floats"""
    ballots = [counted("x", "c>b>a>d"), counted("y", "c>a>b>d"), counted("z", "d>a=b>c")]
    scores = result(ballots)
    assert scores["a"].share == scores["b"].share == 0.5
    assert scores["a"].rank == scores["b"].rank == 2


@pytest.mark.parametrize(
    ("votes", "abstentions", "confidence"),
    [(4, 1, "high"), (3, 2, "medium"), (2, 2, "medium"), (2, 3, "low")],
)
def test_confidence_is_the_part_of_the_possible_vote(votes, abstentions, confidence):
    ballots = [counted(f"x{i}", "a>b>c>d") for i in range(votes)]
    ballots += [counted(f"y{i}", "", abstained="timeout") for i in range(abstentions)]
    assert result(ballots)["a"].confidence == confidence


def test_an_own_vote_is_not_a_possible_vote():
    """All three others voted"""
    scores = result([counted(m, "a>b>c>d") for m in "abcd"])
    assert {(s.votes, s.confidence) for s in scores.values()} == {(3, "high")}


def test_an_interval_is_given_from_five_votes():
    few = result([counted(f"x{i}", "a>b>c>d") for i in range(4)])
    many = result([counted(f"x{i}", "a>b>c>d" if i % 2 else "b>a>d>c") for i in range(6)])
    assert few["a"].low is None
    assert many["a"].low <= many["a"].share <= many["a"].high


# -- worked cases that no test above has already stated ----------------------------------------


def test_two_seats_reviewing_each_other_have_no_votes_at_all():
    scores = result([counted("a", "a>b", "ab"), counted("b", "b>a", "ab")], "ab")
    assert [(s.rank, s.votes, s.confidence) for s in scores.values()] == [(1, 0, "low")] * 2


def test_of_two_seats_and_an_outsider_the_outsider_decides():
    ballots = [counted("a", "a>b", "ab"), counted("b", "b>a", "ab"), counted("x", "b>a", "ab")]
    scores = result(ballots, "ab")
    assert [(m, scores[m].rank, scores[m].share) for m in scores] == [("b", 1, 1), ("a", 2, 0)]
    assert scores["b"].confidence == "low"


def test_a_gated_answer_that_everyone_ranks_first_ends_last():
    """On every ballot, and in the result"""
    ballots = [counted(f"x{i}", "a>b>c>d", gated="a") for i in range(3)]
    scores = result(ballots)
    assert list(scores) == list("bcda")
    assert scores["b"].wins == 3
    assert (scores["a"].share, scores["a"].passed) == (0, False)


def test_a_gated_answer_stands_below_those_a_partial_ballot_left_out():
    reading = counted("x", "a>b", gated="a")
    assert place(reading, "out", 4).doubled == {"b": 0, "a": 6}


def test_a_gated_answer_ranks_below_a_passed_one_without_votes():
    """The gate comes before votes"""
    scores = result([counted("x", "a>b>c", shown="abc", gated="a")])
    assert scores["a"].rank == 4
    assert scores["d"].rank == 3


@settings(max_examples=2 * settings.default.max_examples)
@given(strict_ballots(), st.permutations("abcd"))
def test_names_do_not_decide_except_in_the_listing(rankings, renamed):
    """Renaming the candidates renames the result"""
    new = dict(zip("abcd", renamed, strict=True))
    before = result([counted(r, ">".join(order)) for r, order in rankings])
    after = result(
        [counted(new.get(r, r), ">".join(new.get(m, m) for m in order)) for r, order in rankings]
    )
    for name in "abcd":
        b, a = before[name], after[new[name]]
        assert (b.rank, b.share, b.votes, b.wins) == (a.rank, a.share, a.votes, a.wins)


@pytest.mark.parametrize(
    ("n_silent", "confidence"), [(0, "high"), (1, "high"), (2, "medium"), (3, "low"), (4, "low")]
)
def test_confidence_is_the_part_of_the_possible_votes_that_were_cast(n_silent, confidence):
    """Coverage and not certainty: five reviewers who all disagree are high as well."""
    abstains = {"abstained": True}
    document = {
        "label_to_model": {"Response A": "a", "Response B": "b"},
        "rankings": [
            {
                "model": f"r{i}",
                "parsed_ranking": abstains
                if i < n_silent
                else {"ranking": ["Response A", "Response B"][:: 1 if i % 2 else -1]},
            }
            for i in range(5)
        ],
    }
    for row in score(document).rows:
        assert (row["confidence"], row["votes"], row["possible"]) == (confidence, 5 - n_silent, 5)
        assert row["vote_count"] == row["votes"]


def test_nobody_can_vote_for_itself_so_that_vote_is_not_possible():
    rows = score({"a": ["b", "a", "c"], "b": ["a", "b", "c"], "r": ["c", "a", "b"]}).rows
    assert {row["model"]: (row["votes"], row["possible"]) for row in rows} == {
        "a": (2, 2),
        "b": (2, 2),
        "c": (3, 3),
    }
