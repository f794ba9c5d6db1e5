"""Voting rings: sets of people who support each other beyond chance, and the evidence.

Consensus methods amplify a ring that is a local majority, so none is used here: the support
graph alone speaks, against shuffles of itself. A ring that is found is named and shown; what
becomes of its opinions is for the operator to decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from peerage.boards.opinions import Bools, Community, Floats, Ints, pair_keys, sums_by
from peerage.boards.support import (
    Block,
    Places,
    Support,
    densest,
    shuffled,
    support_graph,
    without_block,
)
from peerage.stats.resampling import generator
from peerage.stats.tails import benjamini_hochberg

N_SHUFFLES = 199
P_FLAGGED = 0.01  # a ring is named below it
ENOUGH = 10  # shuffles as dense as the real graph after which no more are drawn
MAX_RINGS = 50
STEPS = 30


@dataclass(frozen=True, slots=True)
class Ring:
    """People who support each other, by code, and how unlikely that is."""

    members: Places
    p: float
    density: float  # of the ordered pairs of members, those with support
    evidence: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two who support each other's items: how far above the other reviewers of the same items."""

    a: int
    b: int
    gap: float | None
    n: int
    p: float | None
    q: float | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Rings:
    """What a search found; `strongest_p` is that of the densest block, ring or not."""

    rings: tuple[Ring, ...]
    pairs: tuple[Pair, ...]
    strongest_p: float | None
    n_shuffles: int
    names: Any
    flags: tuple[str, ...] = ()
    hint: str = ""  # what a person can do about there being no opinions

    def __repr__(self) -> str:
        return f"Rings({len(self.rings)} rings, {len(self.pairs)} pairs)"

    def document(self) -> dict[str, Any]:
        """The JSON of `rings`."""
        named = self.names
        return {
            "rings": [
                {
                    "members": [named[code] for code in ring.members],
                    "p": ring.p,
                    "density": ring.density,
                    "evidence": ring.evidence,
                }
                for ring in self.rings
            ],
            "pairs": [
                {
                    "a": named[pair.a],
                    "b": named[pair.b],
                    "gap": pair.gap,
                    "n": pair.n,
                    "p": pair.p,
                    "q": pair.q,
                }
                for pair in self.pairs
            ],
            "parameters": {
                "shuffles": self.n_shuffles,
                "strongest_p": self.strongest_p,
                "named_below": P_FLAGGED,
            },
            "flags": list(self.flags),
        }


def find_rings(community: Community, seed: object = 0, n_shuffles: int = N_SHUFFLES) -> Rings:
    """The rings among eligible opinions, the least likely first, and the mutual pairs.

    The p of a block is the part of shuffled graphs whose densest block stands out as much:
    it holds for the whole search, however many blocks there were to choose from. Each
    further ring is sought without the support inside those found, against the same shuffles.
    """
    # In one order, whatever the table's: sums that differ in their last digit are other bytes.
    community = community.kept(np.argsort(pair_keys(community), kind="stable"))
    graph = support_graph(community)
    block = densest(graph)
    found: list[Ring] = []
    strongest = None
    draws = np.zeros(0)
    if block is not None:
        draws = _null(graph, block.score, generator("rings", seed), n_shuffles)
        strongest = _p(block.score, draws)
    while block is not None and len(found) < MAX_RINGS:
        p = _p(block.score, draws)
        if p >= P_FLAGGED:
            break
        found.append(_ring(community, graph, block, p))
        graph = without_block(graph, block.members)
        block = densest(graph)
    return Rings(
        tuple(found), tuple(mutual_pairs(community)), strongest, len(draws), community.people
    )


def _null(graph: Support, score: float, rng: np.random.Generator, n_shuffles: int) -> Floats:
    """Scores of shuffled graphs' densest blocks; few are drawn where they settle it at once."""
    draws: list[float] = []
    n_beyond = 0
    while len(draws) < n_shuffles and n_beyond < ENOUGH:
        block = densest(shuffled(graph, rng))
        draws.append(-np.inf if block is None else block.score)
        n_beyond += draws[-1] >= score
    return np.array(draws)


def _p(score: float, draws: Floats) -> float:
    """The p of a score among draws that may have been stopped early (Besag and Clifford)."""
    n_beyond = int(np.count_nonzero(draws >= score))
    if n_beyond >= ENOUGH:
        return n_beyond / len(draws)
    return (1 + n_beyond) / (1 + len(draws))


def _ring(community: Community, graph: Support, block: Block, p: float) -> Ring:
    """A block with its evidence: who supported whom, and how far from outsiders."""
    member = np.zeros(community.n_people, dtype=bool)
    member[block.members] = True
    inner = np.flatnonzero(member[graph.giver] & member[graph.taker])
    size = len(block.members)
    n_by_pair: dict[tuple[int, int], int] = {}
    for giver, taker, n in zip(
        graph.giver[inner].tolist(),
        graph.taker[inner].tolist(),
        graph.n[inner].tolist(),
        strict=True,
    ):
        n_by_pair[giver, taker] = n_by_pair.get((giver, taker), 0) + int(n)
    names = community.people
    evidence = {
        "support_inside": int(block.inside),
        "support_expected": block.expected,
        **_outsiders(community, member),
        "support": [
            {"from": names[giver], "to": names[taker], "n": n}
            for (giver, taker), n in sorted(n_by_pair.items())
        ],
    }
    return Ring(block.members, p, len(n_by_pair) / (size * (size - 1)), evidence)


def _outsiders(community: Community, member: Bools) -> dict[str, float | None]:
    """What members and others think of members' items: means over items that both reviewed."""
    on_ring = member[community.author[community.item]]
    by_ring = member[community.reviewer]
    n_items = community.n_items
    means = []
    for rows in (on_ring & by_ring, on_ring & ~by_ring):
        counts = np.bincount(community.item[rows], minlength=n_items)
        sums = sums_by(community.item[rows], community.value[rows], n_items)
        means.append(np.where(counts > 0, sums, np.nan) / np.maximum(counts, 1))
    both = np.isfinite(means[0]) & np.isfinite(means[1])
    if not both.any():
        return {"members_mean": None, "outsiders_mean": None, "gap": None}
    inside, outside = float(means[0][both].mean()), float(means[1][both].mean())
    return {"members_mean": inside, "outsiders_mean": outside, "gap": inside - outside}


def flagged_rows(community: Community, rings: tuple[Ring, ...]) -> Bools:
    """The opinions of members of a ring on items of its members."""
    flagged = np.zeros(community.n, dtype=bool)
    for ring in rings:
        member = np.zeros(community.n_people, dtype=bool)
        member[ring.members] = True
        flagged |= member[community.reviewer] & member[community.author[community.item]]
    return flagged


# -- mutual pairs -----------------------------------------------------------------------------


def mutual_pairs(community: Community) -> list[Pair]:
    """Every two people who support each other, the least likely first.

    The gap is the mean of own opinion less the outsiders' mean on the same items. p is the
    chance of as much support among those opinions or more, if each had the chance that the
    outsiders' opinions and the reviewer's habit elsewhere give it: a generous reviewer of
    a good item owes nobody an explanation. Pairs are listed for supporting each other once,
    so small p are more common among them than among all pairs: read q.
    """
    graph = support_graph(community)
    n_people = community.n_people
    given = np.unique(graph.giver * n_people + graph.taker)
    back = given % n_people * n_people + given // n_people
    mutual = given[np.isin(given, back) & (given // n_people < given % n_people)]
    if not len(mutual):
        return []
    author = community.author[community.item].astype(np.int64)
    reviewer = community.reviewer.astype(np.int64)
    key = np.minimum(author, reviewer) * n_people + np.maximum(author, reviewer)
    insider = np.isin(key, mutual)
    n_outside = np.bincount(community.item[~insider], minlength=community.n_items)
    gaps, supports, chances = _surprise(community, ~insider, n_outside)
    rows = np.flatnonzero(insider & (n_outside[community.item] > 0))
    rows = rows[np.argsort(key[rows], kind="stable")]
    starts = np.searchsorted(key[rows], mutual)
    ends = np.searchsorted(key[rows], mutual, side="right")
    pairs = [
        _pair(int(code), n_people, rows[start:end], (gaps, supports, chances))
        for code, start, end in zip(mutual, starts, ends, strict=True)
    ]
    qs = benjamini_hochberg([pair.p for pair in pairs])
    pairs = [
        Pair(pair.a, pair.b, pair.gap, pair.n, pair.p, q) for pair, q in zip(pairs, qs, strict=True)
    ]
    return sorted(pairs, key=lambda pair: (2.0 if pair.p is None else pair.p, pair.a, pair.b))


def _pair(code: int, n_people: int, rows: Ints, known: tuple[Floats, Bools, Floats]) -> Pair:
    gaps, supports, chances = known
    a, b = divmod(code, n_people)
    if not len(rows):
        return Pair(a, b, None, 0, None)
    p = _tail(chances[rows], int(np.count_nonzero(supports[rows])))
    return Pair(a, b, float(gaps[rows].mean()), len(rows), p)


def _surprise(
    community: Community, outsider: Bools, n_outside: Ints
) -> tuple[Floats, Bools, Floats]:
    """By opinion: its gap to the outsiders' mean, whether it supports, the chance that it would.

    Outsiders to an item are those who are in no mutual support with its contributor; an
    outsider is not compared with itself.
    """
    value, item, reviewer = community.value, community.item, community.reviewer
    n_others = n_outside[item] - outsider
    totals = sums_by(item[outsider], value[outsider], community.n_items)
    gaps = value - (totals[item] - value * outsider) / np.maximum(n_others, 1)
    supports = value > community.middle
    liked = np.bincount(item[supports & outsider], minlength=community.n_items)
    rate = (liked[item] - (supports & outsider) + 0.5) / (n_others + 1.0)
    item_logit = np.log(rate / (1.0 - rate))
    habit = _habits(
        item_logit[outsider], supports[outsider], reviewer[outsider], community.n_people
    )
    return gaps, supports, 1.0 / (1.0 + np.exp(-item_logit - habit[reviewer]))


def _habits(item_logit: Floats, supports: Bools, reviewer: Ints, n_people: int) -> Floats:
    """Each person's own log odds of support beyond the items', drawn weakly to none.

    Newton's steps on one concave likelihood a person; half a supporting and half a
    rejecting opinion on a middling item keep it finite.
    """
    habit = np.zeros(n_people)
    wanted = sums_by(reviewer, supports.astype(np.float64), n_people)
    for _ in range(STEPS):
        chance = 1.0 / (1.0 + np.exp(-item_logit - habit[reviewer]))
        own = 1.0 / (1.0 + np.exp(-habit))
        gradient = wanted - sums_by(reviewer, chance, n_people) + 0.5 - own
        bend = sums_by(reviewer, chance * (1.0 - chance), n_people) + own * (1.0 - own)
        step = np.clip(gradient / np.maximum(bend, 1e-12), -1.0, 1.0)
        habit += step
        if float(np.abs(step).max(initial=0.0)) < 1e-9:
            break
    return habit


def _tail(chances: Floats, n_hits: int) -> float:
    """P(at least n_hits successes) of independent trials with these chances, exactly."""
    spread = np.ones(1)
    for chance in chances.tolist():
        spread = np.convolve(spread, (1.0 - chance, chance))
    return float(min(1.0, spread[n_hits:].sum()))
