"""Unexplained mutual praise is named, honest communities are not accused, evidence is shown."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerage.boards.opinions import Community, eligible
from peerage.boards.praise import (
    Exchange,
    Exposure,
    candidate_blocks,
    deal_again,
    fit,
    informative,
)
from peerage.boards.rings import Rings, find_rings, flagged_rows, ring_of
from peerage.simulate import Population, Simulated, simulate
from peerage.stats.clusters import generator
from tests.shared.communities import HONEST, Ring, made, n_flagged, n_found, n_found_of


def encoded(simulated: Simulated) -> Community:
    """A simulated community as arrays, without going through a file."""
    people = np.array(sorted(simulated.users["user_id"]), dtype=object)
    items = np.array(sorted(simulated.items["item_id"]), dtype=object)
    person = {name: i for i, name in enumerate(people)}
    author_of = dict(zip(simulated.items["item_id"], simulated.items["contributor"], strict=True))
    place = {name: i for i, name in enumerate(items)}
    said = simulated.opinions
    return eligible(
        Community(
            people,
            items,
            np.array([person[author_of[item]] for item in items]),
            np.array([place[item] for item in said["item_id"]]),
            np.array([person[name] for name in said["reviewer"]]),
            (said["opinion"] > 0).astype(np.int8),
        )
    )


def community_of(
    opinions: list[tuple[int, int, int]], n_people: int, scale: tuple[float, ...] = (-1.0, 1.0)
) -> Community:
    """Person k wrote items 2k and 2k + 1; opinions are (reviewer, item, level)."""
    reviewer, item, level = (
        np.array(column, dtype=np.int32) for column in zip(*opinions, strict=True)
    )
    names = np.array([f"u{k}" for k in range(n_people)], dtype=object)
    items = np.array([f"i{k}" for k in range(2 * n_people)], dtype=object)
    author = np.arange(2 * n_people, dtype=np.int32) // 2
    return eligible(Community(names, items, author, item, reviewer, level.astype(np.int8), scale))


def members(rings: Rings) -> list[set[str]]:
    return [set(ring["members"]) for ring in rings.document()["rings"]]


def test_a_ring_of_six_among_three_hundred_is_named_with_its_evidence() -> None:
    simulated = simulate(Population(honest=300, rings=(6,)), 0)
    rings = find_rings(encoded(simulated))
    assert members(rings) == [set(simulated.rings[0])]
    ring = rings.document()["rings"][0]
    assert ring["p"] <= 0.05
    assert ring["density"] == 1.0
    assert 0.5 < ring["gap_low"] < ring["gap"] < ring["gap_high"]
    assert ring["evidence"]["gap"] == ring["gap"]
    assert len(ring["evidence"]["support"]) == 30
    assert ring["evidence"]["support_inside"] > 1.5 * ring["evidence"]["support_expected"]
    assert "unexplained mutual praise" in rings.note


def test_two_rings_among_all_kinds_of_people_are_named_apart() -> None:
    """Lazy approvers, contrarians and spammers are no ring, nor is who knows one of its members."""
    simulated = simulate(Population(200, 20, 10, 10, rings=(6, 8)), "mixed")
    assert sorted(map(sorted, members(find_rings(encoded(simulated))))) == sorted(
        map(sorted, simulated.rings)
    )


def test_rings_of_one_size_do_not_pass_for_what_is_usual() -> None:
    """Liking is judged beside other blocks of the size, less those that stand out."""
    community, planted = made(HONEST["topics, 85% at home"], "two0", (Ring(6), Ring(6)))
    named = {tuple(ring.members.tolist()) for ring in find_rings(community).rings}
    assert named == {tuple(people.tolist()) for people in planted}


def test_many_rings_at_once_are_found_by_searching_again() -> None:
    """Rings hide each other until those that are named are left out; each is named on its own."""
    community, planted = made(HONEST["uniform"], "many", tuple(Ring(5) for _ in range(8)))
    rings = find_rings(community).rings
    named = {tuple(ring.members.tolist()) for ring in rings}
    assert len(named & {tuple(people.tolist()) for people in planted}) >= 6
    assert all(ring.gap_low is not None and ring.gap_low > 0.0 for ring in rings)
    members = [person for ring in rings for person in ring.members.tolist()]
    assert len(members) == len(set(members))


@pytest.mark.slow
def test_rings_that_are_most_of_the_blocks_do_not_excuse_each_other() -> None:
    """Where hardly anyone else exchanges reviews, their praise would be the usual one."""
    for seed in ("uniform 2", "uniform 3"):
        n_right, n_wrong = n_found_of("uniform", tuple(Ring(5) for _ in range(8)), seed)
        assert n_right >= 6
        assert n_wrong == 0


def test_liking_that_all_circles_share_is_usual() -> None:
    """A logit of it, four times what is excused where nothing shows what is usual."""
    fond = replace(HONEST["circles of 6"], liking=0.6)
    assert [find_rings(made(fond, f"fond {k}")[0]).rings for k in range(3)] == [()] * 3


def test_a_gap_whose_interval_holds_zero_names_nobody() -> None:
    """Three members, and one author's items carry all of the praise."""
    rng = np.random.default_rng(3)
    opinions = [
        (reader, item, int(rng.random() < 0.5))
        for reader in range(3, 40)
        for item in range(6)
        if rng.random() < 0.5
    ]
    opinions += [(giver, item, 1) for giver in (1, 2) for item in (0, 1)]
    community = community_of(opinions, 40)
    assert ring_of(community, np.array([0, 1, 2]), 0.01) is None


@pytest.mark.slow
@pytest.mark.parametrize("place", ["uniform", "topics, 85% at home"])
def test_eight_rings_of_five_are_mostly_found_and_hardly_anyone_else_is_named(place: str) -> None:
    counts = [n_found_of(place, tuple(Ring(5) for _ in range(8)), f"{place} {k}") for k in range(5)]
    n_right, n_wrong = map(sum, zip(*counts, strict=True))
    assert n_right >= 0.75 * 40
    assert n_wrong <= 5


@pytest.mark.parametrize("kind", ["topics, 85% at home", "circles of 6"])
def test_friends_and_topics_are_clusters_and_nobody_is_flagged(kind: str) -> None:
    rings = find_rings(made(HONEST[kind], 1)[0])
    assert rings.rings == ()
    assert rings.clusters
    assert not flagged_rows(made(HONEST[kind], 1)[0], rings.rings).any()


@pytest.mark.slow
@pytest.mark.parametrize("kind", HONEST)
def test_few_honest_communities_are_flagged(kind: str) -> None:
    """Eight each: with 5% alarms three or more are as rare as one in 170."""
    assert n_flagged(kind, 8) <= 2


@pytest.mark.slow
@pytest.mark.parametrize(("size", "praise"), [(6, 1.0), (12, 1.0), (8, 0.7), (12, 0.7)])
def test_planted_rings_are_found(size: int, praise: float) -> None:
    for place in ("uniform", "topics, 85% at home"):
        assert n_found(place, Ring(size, praise), 5) >= 4


def test_blocks_are_the_same_whatever_the_opinions_are() -> None:
    community = made(HONEST["circles of 6"], 2)[0]
    turned = Community(
        community.people,
        community.items,
        community.author,
        community.item,
        community.reviewer,
        1 - community.level,
    )
    ours, theirs = (
        [blocks.members.tolist() for blocks in candidate_blocks(Exchange(one))]
        for one in (community, turned)
    )
    assert ours == theirs


@given(st.integers(0, 2**32 - 1))
def test_a_deal_keeps_how_many_positive_opinions_each_item_got(seed: int) -> None:
    rng = np.random.default_rng(seed)
    opinions = {(int(r), int(i)): int(x) for r, i, x in rng.integers(0, (12, 24, 2), (120, 3))}
    community = community_of([(r, i, x) for (r, i), x in opinions.items()], 12)
    rows, positive = informative(community)
    told = community.only(rows)
    exposed = Exposure(told, np.zeros(told.n, dtype=bool))
    n_positive = np.add.reduceat(positive.astype(np.int64), exposed.starts)
    assert ((n_positive > 0) & (n_positive < exposed.n_by_item)).all()
    dealt = deal_again(exposed, n_positive, fit(exposed, positive), rng)
    assert np.add.reduceat(dealt.astype(np.int64), exposed.starts).tolist() == n_positive.tolist()


def test_a_generous_habit_is_learned_from_opinions_on_others() -> None:
    """Who likes everything is expected to like friends too."""
    community = made(HONEST["20% always positive"], 3)[0]
    rows, positive = informative(community)
    told = community.only(rows)
    habit = fit(Exposure(told, np.zeros(told.n, dtype=bool)), positive).habits[0]
    n = np.bincount(told.reviewer, minlength=community.n_people)
    always = np.bincount(told.reviewer[positive], minlength=community.n_people) == n
    assert habit[always & (n > 10)].min() > np.median(habit[~always])


def test_the_same_opinions_give_the_same_rings_in_any_order() -> None:
    made = simulate(Population(honest=80, rings=(5,)), 4)
    community = encoded(made)
    turned = community.only(np.arange(community.n)[::-1])
    assert find_rings(community).document() == find_rings(turned).document()


def test_flagged_opinions_are_those_inside_a_ring() -> None:
    """What `--without-flagged` leaves out."""
    made = simulate(Population(honest=80, rings=(5,)), 4)
    community = encoded(made)
    ring = set(made.rings[0])
    flagged = flagged_rows(community, find_rings(community).rings)
    expected = [
        community.people[reviewer] in ring and community.people[community.author[item]] in ring
        for reviewer, item in zip(community.reviewer, community.item, strict=True)
    ]
    assert flagged.tolist() == expected


def test_a_pair_is_measured_against_outsiders_of_the_same_items() -> None:
    """0 and 1 praise each other's items, which four others find bad; elsewhere they are fair."""
    opinions = [(r, i, int(r < 2)) for i in range(4) for r in range(6) if r != i // 2]
    opinions += [(r, i, (r + i) % 2) for i in range(12, 20) for r in range(6)]
    pair = find_rings(community_of(opinions, 10)).pairs[0]
    assert (pair.a, pair.b, pair.gap, pair.n) == (0, 1, 2.0, 4)
    assert pair.p is not None
    assert pair.p < 0.05


def test_without_outsiders_nothing_can_be_told() -> None:
    """Four who praise each other on items nobody else reviewed are no ring, and are shown."""
    opinions = [(r, i, 1) for r in range(4) for i in range(8) if i // 2 != r]
    opinions += [(r, i, (r + i) % 2) for r in range(4, 10) for i in range(8, 20) if i // 2 != r]
    rings = find_rings(community_of(opinions, 10))
    assert rings.rings == ()
    untold = [cluster for cluster in rings.clusters if cluster.members.tolist() == [0, 1, 2, 3]]
    assert [cluster.gap for cluster in untold] == [None]
    assert "outsiders are missing" in rings.note


@pytest.mark.parametrize(
    ("opinions", "word"),
    [
        ([(1, 0, 1)], "nothing to test"),
        ([(1, 0, 1), (2, 0, 0)], "nothing to test"),
        ([(1, 0, 1), (0, 2, 1), (2, 0, 1)], "nothing can be tested"),
        ([(r, i, 0) for r in range(3) for i in range(6)], "nothing can be tested"),
    ],
)
def test_tiny_communities_have_no_ring_and_are_told_why(
    opinions: list[tuple[int, int, int]], word: str
) -> None:
    rings = find_rings(community_of(opinions, 3))
    assert rings.rings == ()
    assert rings.strongest_p is None
    assert word in rings.note


def test_nobody_to_search_is_no_ring() -> None:
    nobody = Community(
        np.array([], dtype=object),
        np.array([], dtype=object),
        *(np.zeros(0, dtype=np.int32),) * 4,
    )
    rings = find_rings(nobody)
    assert (rings.rings, rings.pairs, rings.clusters, rings.strongest_p) == ((), (), (), None)
    assert "nothing to test" in rings.note


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 11), st.integers(0, 3)), min_size=1, max_size=60
    )
)
def test_any_few_opinions_give_numbers_or_none(opinions: list[tuple[int, int, int]]) -> None:
    """Never NaN or infinity, on any scale."""
    document = find_rings(community_of(opinions, 6, (-1.0, 0.0, 1.0, 2.0)), n_deals=3).document()
    json.dumps(document, allow_nan=False)
    assert "above 0.5" in document["note"]


def test_a_longer_scale_is_cut_at_its_middle() -> None:
    """With levels −1, 0, 1, 2 those above .5 are positive: the same ring, the same p."""
    community = made(HONEST["uniform"], 5, (Ring(6),))[0]
    longer = Community(
        community.people,
        community.items,
        community.author,
        community.item,
        community.reviewer,
        np.where(community.level > 0, 2 + community.item % 2, community.item % 2).astype(np.int8),
        (-1.0, 0.0, 1.0, 2.0),
    )
    ours, theirs = find_rings(community), find_rings(longer)
    assert members(ours) == members(theirs) != []
    assert [ring.p for ring in ours.rings] == [ring.p for ring in theirs.rings]


def test_a_simulated_community_is_the_same_for_the_same_seed() -> None:
    first, again, other = (simulate(Population(20, 2, 2, 2, (3,)), seed) for seed in (1, 1, 2))
    assert (first.opinions["opinion"] == again.opinions["opinion"]).all()
    assert first.quality == again.quality != other.quality
    assert set(first.persona.values()) == {"honest", "lazy", "contrarian", "spammer", "ring"}
    own = first.opinions["contributor"] == first.opinions["reviewer"]
    assert not own.any()
    assert generator("x").random() == generator("x").random()
