"""C7: a planted ring is named, honest communities are not accused, and evidence is shown."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerage.boards.opinions import Community, eligible
from peerage.boards.rings import find_rings, flagged_rows, mutual_pairs
from peerage.boards.support import Support, densest, shuffled, support_graph
from peerage.simulate import Population, Simulated, simulate
from peerage.stats.resampling import generator


def encoded(made: Simulated) -> Community:
    """A simulated community as arrays, without going through a file."""
    people = np.array(sorted(made.users["user_id"]), dtype=object)
    items = np.array(sorted(made.items["item_id"]), dtype=object)
    person = {name: i for i, name in enumerate(people)}
    author_of = dict(zip(made.items["item_id"], made.items["contributor"], strict=True))
    place = {name: i for i, name in enumerate(items)}
    said = made.opinions
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


def members(found: Any) -> list[set[str]]:
    return [set(ring["members"]) for ring in found.document()["rings"]]


@pytest.mark.parametrize("seed", range(2))
def test_a_ring_of_six_among_three_hundred_is_named(seed: int) -> None:
    """C7."""
    made = simulate(Population(honest=300, rings=(6,)), seed)
    found = find_rings(encoded(made))
    assert members(found) == [set(made.rings[0])]
    ring = found.document()["rings"][0]
    assert ring["p"] < 0.01
    assert ring["density"] == 1.0
    assert ring["evidence"]["gap"] > 0.5
    assert len(ring["evidence"]["support"]) == 30


def test_two_rings_among_all_kinds_of_people_are_named_apart() -> None:
    """C7: lazy approvers, contrarians and spammers are no ring."""
    made = simulate(Population(200, 20, 10, 10, rings=(6, 8)), "mixed")
    assert sorted(map(sorted, members(find_rings(encoded(made))))) == sorted(
        map(sorted, made.rings)
    )


def test_honest_communities_are_not_accused() -> None:
    """C7, a few; the slow test has the hundred."""
    alarms = sum(
        bool(find_rings(encoded(simulate(Population(150, 15, 5, 5), f"fair{seed}"))).rings)
        for seed in range(8)
    )
    assert alarms <= 1


@pytest.mark.slow
def test_a_hundred_ring_free_communities_give_few_alarms_and_fair_p() -> None:
    """C7: at most 5% alarms."""
    found = [
        find_rings(encoded(simulate(Population(honest=300), f"free{seed}"))) for seed in range(100)
    ]
    assert sum(bool(one.rings) for one in found) <= 5
    ps = np.array([one.strongest_p for one in found])
    assert (ps < 0.05).sum() <= 12
    assert np.median(ps) > 0.3
    pairs = np.array([pair.p for one in found for pair in one.pairs if pair.p is not None])
    assert (pairs < 0.05).mean() < 0.08


@given(st.integers(0, 2**32 - 1))
def test_a_shuffle_keeps_everyones_edges_and_makes_none_that_may_not_be(seed: int) -> None:
    """C7: degrees stay, within strata; no one supports themselves, no edge is there twice."""
    rng = np.random.default_rng(seed)
    keys = np.unique(rng.integers(0, 2 * 12 * 12, 60))
    stratum, giver, taker = keys // 144, keys // 12 % 12, keys % 12
    fair = giver != taker
    graph = Support(12, giver[fair], taker[fair], np.ones(fair.sum()), stratum[fair])
    after = shuffled(graph, np.random.default_rng(seed))
    assert (after.giver == graph.giver).all()
    for one in (0, 1):
        mine = graph.stratum == one
        assert np.bincount(after.taker[mine], minlength=12).tolist() == (
            np.bincount(graph.taker[mine], minlength=12).tolist()
        )
    wrong = int((after.giver == after.taker).sum())
    new = (after.stratum * 12 + after.giver) * 12 + after.taker
    # a stratum can be so full that no repair is left; in these sizes that is rare
    assert wrong + len(new) - len(np.unique(new)) <= 2


def test_the_same_opinions_give_the_same_rings_in_any_order() -> None:
    made = simulate(Population(honest=80, rings=(5,)), 4)
    community = encoded(made)
    turned = community.kept(np.arange(community.n)[::-1])
    assert find_rings(community).document() == find_rings(turned).document()


def test_flagged_opinions_are_those_inside_a_ring() -> None:
    """C7: what `--without-flagged` leaves out."""
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
    """C7: the insider gap."""
    items = np.array([f"i{k}" for k in range(6)], dtype=object)
    author = np.array([0, 0, 0, 1, 1, 1])
    item = np.repeat(np.arange(6), 5)
    reviewer = np.array([r for a in author for r in (1 - a, 2, 3, 4, 5)])
    level = (reviewer < 2).astype(np.int8)
    people = np.array([f"u{k}" for k in range(6)], dtype=object)
    pair = mutual_pairs(eligible(Community(people, items, author, item, reviewer, level)))[0]
    assert (pair.a, pair.b, pair.gap, pair.n) == (0, 1, 2.0, 6)
    assert pair.p is not None
    assert pair.p < 0.001


def test_nothing_to_search_is_no_ring() -> None:
    nobody = Community(
        np.array(["a"], dtype=object),
        np.array([], dtype=object),
        *(np.zeros(0, dtype=np.int32),) * 4,
    )
    found = find_rings(nobody)
    assert (found.rings, found.pairs, found.strongest_p) == ((), (), None)
    assert densest(support_graph(nobody)) is None


def test_a_simulated_community_is_the_same_for_the_same_seed() -> None:
    first, again, other = (simulate(Population(20, 2, 2, 2, (3,)), seed) for seed in (1, 1, 2))
    assert (first.opinions["opinion"] == again.opinions["opinion"]).all()
    assert first.quality == again.quality != other.quality
    assert set(first.persona.values()) == {"honest", "lazy", "contrarian", "spammer", "ring"}
    own = first.opinions["contributor"] == first.opinions["reviewer"]
    assert not own.any()
    assert generator("x").random() == generator("x").random()
