"""Rings: people who praise each other's items more than habits and the items explain.

Blocks of people who exchange many reviews are found without looking at opinions; then each is
tested for praise beyond what its members' habits and the items explain, against opinions dealt
again within items. A block that exchanges many fair reviews is a cluster, and harmless. The result
is called unexplained mutual praise: it is shown, and the operator decides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from peerage.boards.opinions import Community, cells_of, pair_keys, sums_by
from peerage.boards.praise import (
    HALF,
    Exchange,
    ExchangeBlocks,
    Praise,
    blocks_of,
    candidate_blocks,
    deal_again,
    fit,
    informative,
    weigh_blocks,
)
from peerage.errors import how_many
from peerage.reviews.cells import Bools, Floats, Ints
from peerage.stats.clusters import generator, ratio_interval
from peerage.stats.strengths import groups_that_met
from peerage.stats.tails import benjamini_hochberg

N_DEALS = 199
STAGES = (39, 99)  # after this many deals, no more are made if p is clearly too large
CLEARLY = 0.2  # a larger p at such a stage will not become a small one
P_FLAGGED = 0.05
GAP_FLAGGED = 0.1  # of the scale's range: a ring's opinions are this much above outsiders', or more
MIN_MEMBERS = 3  # two people who praise each other are listed as a pair
MIN_EACH = 2.0  # exchanged opinions per member that a block needs to be tested
MIN_WEIGHT = 0.5  # information that a block needs to be tested
TOLERANCE = 0.25  # logits of mutual liking that are always tolerated
TRIMMED = 0.2  # share of blocks left out at either end when the mean liking is computed
SHRINKAGE = 4.0  # weight of "no liking" in the mean liking of blocks
MOST_USUAL = 1.5  # logits of liking that are tolerated at most, however many blocks share it
MEMBER_Z = 1.0
DENSE = 0.5  # a block is a cluster if this share of its ordered pairs has a review
MAX_LISTED = 50


@dataclass(frozen=True, slots=True)
class Ring:
    """People, by code, with unexplained mutual praise; the gap is in points of the scale."""

    members: Ints
    p: float
    density: float  # share of ordered pairs of members with a review
    gap: float
    gap_low: float | None
    gap_high: float | None
    evidence: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Cluster:
    """People who review each other often; `gap` is None if no outsider reviewed their items."""

    members: Ints
    density: float
    n: int
    gap: float | None
    note: str


@dataclass(frozen=True, slots=True)
class Pair:
    """Two people who praised each other's items, and their gap to other reviewers of the items."""

    a: int
    b: int
    gap: float | None
    n: int
    p: float | None
    q: float | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Rings:
    """The result of a search; `strongest_p` is the p of the most conspicuous block."""

    rings: tuple[Ring, ...]
    pairs: tuple[Pair, ...]
    clusters: tuple[Cluster, ...]
    strongest_p: float | None
    n_deals: int
    note: str
    names: Any
    flags: tuple[str, ...] = ()
    hint: str = ""  # what to do if there are no opinions

    def __repr__(self) -> str:
        return f"Rings({len(self.rings)} rings, {len(self.pairs)} pairs)"

    def document(self) -> dict[str, Any]:
        """Return the JSON of `rings`."""
        names = self.names

        def with_names(block: Ring | Cluster) -> dict[str, Any]:
            return {**asdict(block), "members": [names[code] for code in block.members]}

        pairs = [{**asdict(two), "a": names[two.a], "b": names[two.b]} for two in self.pairs]
        return {
            "rings": [with_names(ring) for ring in self.rings],
            "clusters": [with_names(cluster) for cluster in self.clusters],
            "pairs": pairs,
            "note": self.note,
            "parameters": {
                "shuffles": self.n_deals,
                "strongest_p": self.strongest_p,
                "named_below": P_FLAGGED,
                "least_gap": GAP_FLAGGED,
            },
            "flags": list(self.flags),
        }


def find_rings(community: Community, n_deals: int = N_DEALS) -> Rings:
    """Return the rings among eligible opinions, the widest gap first; clusters; and mutual pairs.

    The p of a block is the share of deals whose strongest block is as strong: it is valid for the
    whole search, however many blocks there were. Rings hide each other, because they influence the
    items' probabilities and the usual liking. So the opinions inside rings found so far are left
    out, and the rest is searched again, until no ring is found.
    """
    # Sort, so that the last digits of sums do not depend on the order of the table.
    community = community.only(np.argsort(pair_keys(community), kind="stable"))
    first = search = _search(community, generator("rings", 0), n_deals)
    rings: list[Ring] = []
    pairs = tuple[Pair, ...]()
    if first.praise is not None:
        pairs = _pairs(community, first.exchange, first.praise)
    left = community
    while (named := _name_rings(community, search, rings)) and len(rings) < MAX_LISTED:
        rings += named
        left = left.only(np.flatnonzero(~flagged_rows(left, named)))
        search = _search(left, generator("rings", 0, len(rings)), n_deals)
    rings.sort(key=lambda ring: (-ring.gap, ring.members.tolist()))
    clusters = _clusters(community, first, rings)
    note = _note(community, first, rings, clusters)
    n_dealt = len(first.tested[0].by_chance) if first.tested else 0
    strongest = strongest_p(first.tested)
    return Rings(tuple(rings), pairs, clusters, strongest, n_dealt, note, community.people)


@dataclass(frozen=True, slots=True)
class Search:
    """One search over all blocks: the blocks, and which of them can be tested."""

    exchange: Exchange
    blocks: Sequence[ExchangeBlocks]
    n_informative: int
    praise: Praise | None = None
    tested: Sequence[TestedBlocks] = ()


def _search(community: Community, rng: np.random.Generator, n_deals: int) -> Search:
    """Test every block of people who exchange reviews against opinions dealt again."""
    exchange = Exchange(community)
    rows, positive = informative(community)
    blocks = list(candidate_blocks(exchange))
    if not len(exchange.a) or not len(rows):
        return Search(exchange, blocks, len(rows))
    praise = Praise(community.only(rows), positive, exchange.pair[rows], len(exchange.a))
    measured = (_test_blocks(praise, exchange, same_size) for same_size in blocks)
    tested = [same_size for same_size in measured if same_size is not None]
    return Search(exchange, blocks, len(rows), praise, deal_often(praise, tested, rng, n_deals))


def flagged_rows(community: Community, rings: Sequence[Ring]) -> Bools:
    """Return which opinions are by members of a ring on items of its members."""
    flagged = np.zeros(community.n, dtype=bool)
    for ring in rings:
        member = _mask(community, ring.members)
        flagged |= member[community.reviewer] & member[community.author[community.item]]
    return flagged


def _mask(community: Community, members: Ints) -> Bools:
    member = np.zeros(community.n_people, dtype=bool)
    member[members] = True
    return member


# -- blocks that can be tested ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TestedBlocks:
    """Blocks of one size, with the variance of their excess praise and its z beyond the usual."""

    blocks: ExchangeBlocks
    variance: Floats
    z: Floats
    by_chance: Floats  # the largest z of each deal

    def standardise(self, z: Floats) -> Floats:
        """Return z values standardised by the deals' largest z: its mean becomes 0, its sd 1."""
        return (z - self.by_chance.mean()) / max(float(self.by_chance.std()), 1e-9)


def _test_blocks(praise: Praise, exchange: Exchange, blocks: ExchangeBlocks) -> TestedBlocks | None:
    """Return the measured blocks that can be tested; None if there are none."""
    n_rows = blocks.sums(np.diff(praise.starts))
    blocks = blocks.only(np.flatnonzero(n_rows >= MIN_EACH * blocks.size))
    weight, variance = weigh_blocks(praise, exchange, blocks)
    weighty = np.flatnonzero(weight >= MIN_WEIGHT)
    if not len(weighty):
        return None
    blocks, weight, variance = blocks.only(weighty), weight[weighty], variance[weighty]
    excess = blocks.sums(praise.excess(praise.positive, praise.real))
    tolerance, spread = _tolerance(blocks, blocks.sums(exchange.pull), weight, variance, excess)
    z = (excess - tolerance * weight) / np.sqrt(variance + spread * weight**2 + HALF)
    return TestedBlocks(blocks, variance, z, np.zeros(0))


def _tolerance(
    blocks: ExchangeBlocks, close: Floats, weight: Floats, variance: Floats, excess: Floats
) -> tuple[Floats, Floats]:
    """Return the usual liking, and its variance, in blocks without common members, in logits.

    Both are pooled over disjoint blocks, the closest-knit first. Rings must not count as usual: the
    fifths with the most and the least liking are left out of the mean, and the variance is that of
    blocks with less than usual liking (a moment estimate minus one standard error). If hardly
    anyone except rings exchanges reviews, most blocks are rings; so the usual liking has a limit.
    """
    packed = _disjoint(blocks.members, np.argsort(-close, kind="stable"))
    home = np.full(int(blocks.members.max()) + 1, -1, dtype=np.int64)
    home[blocks.members[packed]] = np.arange(len(packed))[:, None]
    met = np.sort(home[blocks.members], axis=1)
    met[:, 1:][met[:, 1:] == met[:, :-1]] = -1

    def elsewhere(values: Floats) -> Floats:
        """Return, by block, the sum over the packed blocks that share no member with it."""
        return values.sum() - np.append(values, 0.0)[met].sum(axis=1)  # −1 adds the 0

    s, d, v = excess[packed], weight[packed], variance[packed]
    order = np.argsort((s - np.median(s / d) * d) / np.sqrt(v + HALF), kind="stable")
    n_cut = math.ceil(TRIMMED * len(order))
    middling = np.zeros(len(order))
    middling[order[n_cut : len(order) - n_cut]] = 1.0
    usual = elsewhere(s * middling) / (elsewhere(d * middling) + SHRINKAGE)
    centre = min(MOST_USUAL, float((s * middling).sum() / ((d * middling).sum() + SHRINKAGE)))
    below = (s < centre * d).astype(np.float64)
    dd = np.maximum(elsewhere(below * d**2), 1e-9)
    raw = np.maximum(0.0, elsewhere(below * ((s - centre * d) ** 2 - v)) / dd)
    noise = elsewhere(below * v**2) + raw * elsewhere(below * 2.0 * v * d**2)
    noise += raw**2 * elsewhere(below * d**4)
    spread = np.maximum(0.0, raw - np.sqrt(np.maximum(0.0, 2.0 * noise)) / dd)
    return np.clip(usual, TOLERANCE, MOST_USUAL), spread


def _disjoint(members: Ints, order: Ints) -> Ints:
    """Return the sets, in this order, that share no member with an earlier one."""
    placed = np.zeros(int(members.max()) + 1, dtype=bool)
    disjoint = []
    for place in order.tolist():
        people = members[place]
        if not placed[people].any():
            placed[people] = True
            disjoint.append(place)
    return np.array(disjoint, dtype=np.int64)


# -- against opinions dealt again -------------------------------------------------------------


def deal_often(
    praise: Praise, tested: Sequence[TestedBlocks], rng: np.random.Generator, n_deals: int
) -> Sequence[TestedBlocks]:
    """Return blocks with the largest z of each deal; stop early if no block can stand out."""
    maxima: list[list[float]] = []
    while tested and len(maxima) < n_deals:
        dealt = deal_again(praise.exposed, praise.n_positive, praise.real, rng)
        by_pair = praise.excess(dealt, fit(praise.exposed, dealt, praise.real))
        maxima.append(
            [float((t.blocks.sums(by_pair) / np.sqrt(t.variance + HALF)).max()) for t in tested]
        )
        if len(maxima) in (*STAGES, n_deals):
            columns = zip(tested, np.array(maxima).T, strict=True)
            tested = [replace(blocks, by_chance=by_chance) for blocks, by_chance in columns]
            if (strongest_p(tested) or 0.0) > CLEARLY:
                break
    return tested


def strongest_p(tested: Sequence[TestedBlocks]) -> float | None:
    """Return the p of the most conspicuous block; None without blocks or deals."""
    if not tested or not len(tested[0].by_chance):
        return None
    return _p(tested, max(float(t.standardise(t.z).max()) for t in tested))


def _p(tested: Sequence[TestedBlocks], scaled: float) -> float:
    """Return the share of deals (the real one included) whose strongest block is as strong."""
    strongest = np.max([t.standardise(t.by_chance) for t in tested], axis=0)
    return (1 + int(np.count_nonzero(strongest >= scaled))) / (1 + len(strongest))


# -- who is named -----------------------------------------------------------------------------


def _name_rings(community: Community, search: Search, before: Sequence[Ring]) -> list[Ring]:
    """Return disjoint blocks that stand out, each reduced to the members who take part.

    They share no member with the rings found before.
    """
    tested, praise = search.tested, search.praise
    if praise is None or not tested:
        return []
    outstanding = []
    for k, blocks in enumerate(tested):
        scaled = blocks.standardise(blocks.z)
        outstanding += [
            (-float(scaled[place]), k, int(place)) for place in np.flatnonzero(scaled > 0.0)
        ]
    known, named = np.zeros((2, community.n_people), dtype=bool)
    for ring in before:
        known[ring.members] = True  # what they say of each other is left out of this search
    rings: list[Ring] = []
    for scaled_down, k, place in sorted(outstanding):
        p = _p(tested, -scaled_down)
        if p > P_FLAGGED or len(before) + len(rings) >= MAX_LISTED:
            break
        block = tested[k].blocks.members[place]
        if named[block].any():
            continue
        for members in _close_knit(search.exchange, _taking_part(praise, block[~known[block]])):
            some = _taking_part(praise, members)
            own_p = max(p, _p_of(praise, search, some)) if len(some) >= MIN_MEMBERS else 1.0
            clear = ring_of(community, some, own_p) if own_p <= P_FLAGGED else None
            if clear is not None:
                named[some] = True
                rings.append(clear)
    return rings


def _p_of(praise: Praise, search: Search, members: Ints) -> float:
    """Return the p of some members of a block, compared with blocks of the nearest size.

    Members of a block must not be named because of the praise among its other members.
    """
    part = blocks_of(search.exchange, members[None, :])
    weight, variance = weigh_blocks(praise, search.exchange, part)
    excess = part.sums(praise.excess(praise.positive, praise.real))
    z = (excess - TOLERANCE * weight) / np.sqrt(variance + HALF)
    nearest = min(search.tested, key=lambda t: (abs(t.blocks.size - len(members)), t.blocks.size))
    return _p(search.tested, float(nearest.standardise(z)[0]))


def _close_knit(exchange: Exchange, members: Ints) -> list[Ints]:
    """Return the members in groups with close ties, because a large block may be two rings.

    A tie counts if it is at least half as strong as the strongest tie of either side.
    """
    if len(members) < MIN_MEMBERS:
        return []
    ties = blocks_of(exchange, members[None, :])
    pull = np.zeros((len(members),) * 2)
    pull[ties.first, ties.second] = pull[ties.second, ties.first] = exchange.pull[ties.pair]
    strongest = pull.max(axis=1)
    close = (pull > 0.0) & (2.0 * pull >= np.maximum(strongest[:, None], strongest[None, :]))
    parts = groups_that_met(close.astype(np.float64))
    return [members[parts == code] for code in range(int(parts.max()) + 1)]


def _taking_part(praise: Praise, members: Ints) -> Ints:
    """Return the members whose exchanged opinions, given and received, praise beyond chance.

    A member who gives no praise beyond expectation is left out, however much it receives. So is a
    mere acquaintance: a member with less than half of the members' median number of opinions.
    """
    if not len(members):
        return members
    community, n = praise.community, praise.community.n_people
    member = _mask(community, members)
    author = community.author[community.item[praise.rows]]
    inside = member[community.reviewer[praise.rows]] & member[author]
    rows, author = praise.rows[inside], author[inside]
    giver = community.reviewer[rows]
    excess = praise.positive[rows] - praise.real.chance[rows]
    evidence = praise.evidence(rows, praise.place[rows])
    unsure = evidence * praise.habit_sd[rows]
    excess_given = sums_by(giver, excess, n)
    both = excess_given + sums_by(author, excess, n)
    weight = sums_by(giver, evidence, n) + sums_by(author, evidence, n)
    variance = weight + sums_by(giver, unsure, n) ** 2 + sums_by(author, unsure**2, n)
    n_own = np.bincount(giver, minlength=n) + np.bincount(author, minlength=n)
    part = (excess_given > 0.0) & (both >= MEMBER_Z * np.sqrt(variance + HALF))
    part &= 2 * n_own >= np.median(n_own[members])
    return np.sort(members[part[members]])


def ring_of(community: Community, members: Ints, p: float) -> Ring | None:
    """Return a ring of these members with its evidence; None if the gap may be small."""
    member = _mask(community, members)
    compared = _compare_with_outsiders(community, member)
    least = GAP_FLAGGED * (community.scale[-1] - community.scale[0])
    if compared is None or compared.gap < least or not (compared.low or 0.0) > 0.0:
        return None
    author = community.author[community.item]
    inside = np.flatnonzero(member[community.reviewer] & member[author])
    supports = community.value[inside] > community.middle
    names, n = community.people, community.n_people
    pairs = cells_of(community.reviewer[inside], author[inside], n)
    pairs, which = np.unique(pairs, return_inverse=True)
    n_support = np.bincount(which[supports], minlength=len(pairs))
    columns = (pairs.tolist(), n_support.tolist(), np.bincount(which).tolist())
    evidence = {
        "opinions_inside": len(inside),
        "support_inside": int(supports.sum()),
        "support_expected": compared.support_expected,
        "members_mean": compared.members_mean,
        "outsiders_mean": compared.outsiders_mean,
        "gap": compared.gap,
        "support": [
            {"from": names[key // n], "to": names[key % n], "n": liked, "of": n_opinions}
            for key, liked, n_opinions in zip(*columns, strict=True)
        ],
    }
    density = len(pairs) / (len(members) * (len(members) - 1))
    return Ring(members, p, density, *compared[:3], evidence)


class OutsiderComparison(NamedTuple):
    """Members' and outsiders' opinions on members' items, in points."""

    gap: float
    low: float | None
    high: float | None
    members_mean: float
    outsiders_mean: float
    support_expected: float  # positive opinions inside if members judged as outsiders do


def _compare_with_outsiders(community: Community, member: Bools) -> OutsiderComparison | None:
    """Return members' and outsiders' opinions on items that both reviewed; None without any.

    The interval is over the items' authors.
    """
    rows = np.flatnonzero(member[community.author[community.item]])
    value, inside = community.value[rows], member[community.reviewer[rows]]
    places, place = np.unique(community.item[rows], return_inverse=True)

    def by_item(values: Floats | Bools) -> tuple[Floats, Floats]:
        """Return sums by item, of members and of outsiders."""
        n = len(places)
        return sums_by(place, values * inside, n), sums_by(place, values * ~inside, n)

    n_in, n_out = by_item(np.ones(len(rows)))
    both = (n_in > 0) & (n_out > 0)
    if not both.any():
        return None
    sum_in, sum_out = by_item(value)
    liked_in, liked_out = by_item(value > community.middle)
    share = np.maximum(n_out, 1.0)
    expected = np.where(both, n_in * liked_out / share, liked_in).sum()
    rivals = np.where(both, n_in * sum_out / share, 0.0)
    own, weight = np.where(both, sum_in, 0.0), np.where(both, n_in, 0)
    _, by = np.unique(community.author[places], return_inverse=True)
    gap = ratio_interval(sums_by(by, own - rivals, 0), sums_by(by, weight, 0))
    low, high = (None, None) if gap is None else (gap.low, gap.high)
    members, outsiders = (float(side.sum()) / float(weight.sum()) for side in (own, rivals))
    return OutsiderComparison(members - outsiders, low, high, members, outsiders, float(expected))


# -- clusters, pairs and the note -------------------------------------------------------------

FAIR = "exchange many reviews; no unexplained praise"
UNTESTED = "cannot be tested: too few items have outsiders' reviews and differing opinions"


def _clusters(community: Community, search: Search, rings: Sequence[Ring]) -> tuple[Cluster, ...]:
    """Return disjoint blocks that exchange many reviews and are not rings, the largest first."""
    listed = np.zeros(community.n_people, dtype=bool)
    for ring in rings:
        listed[ring.members] = True
    measured = {tuple(people) for told in search.tested for people in told.blocks.members.tolist()}
    clusters: list[Cluster] = []
    for sized in reversed(search.blocks):
        n, size = sized.sums(search.exchange.n), sized.size
        density = np.bincount(sized.block, minlength=len(sized)) * 2.0 / (size * (size - 1))
        dense = (density >= DENSE) & (n >= MIN_EACH * size)
        order = np.lexsort((-n, -density))
        for place in order[dense[order]].tolist():
            members = sized.members[place]
            if len(clusters) == MAX_LISTED:
                return tuple(clusters)
            if listed[members].any():
                continue
            listed[members] = True
            known = tuple(members.tolist()) in measured
            compared = (
                _compare_with_outsiders(community, _mask(community, members)) if known else None
            )
            gap, note = (None, UNTESTED) if compared is None else (compared.gap, FAIR)
            clusters.append(Cluster(members, float(density[place]), int(n[place]), gap, note))
    return tuple(clusters)


def _pairs(community: Community, exchange: Exchange, praise: Praise) -> tuple[Pair, ...]:
    """Return every two people who praised each other, the least likely first.

    A pair is measured like a block of two. The gap is to those reviewers of the same items who do
    not exchange reviews with the author. A pair is listed if each praised the other at least once,
    so small p-values are more common than among all pairs: read q instead.
    """
    value, item, inside = community.value, community.item, exchange.pair >= 0
    n_pairs, n_items = len(exchange.a), community.n_items
    n_out = np.bincount(item[~inside], minlength=n_items)
    mean_out = sums_by(item[~inside], value[~inside], n_items) / np.maximum(n_out, 1)
    compared = inside & (n_out[item] > 0)
    pair = exchange.pair[compared]
    n = np.bincount(pair, minlength=n_pairs)
    gap = sums_by(pair, value[compared] - mean_out[item[compared]], n_pairs) / np.maximum(n, 1)
    liked = np.flatnonzero(inside & (value > community.middle))
    forth = community.reviewer[liked] == exchange.a[exchange.pair[liked]]
    mutual = np.bincount(exchange.pair[liked[forth]], minlength=n_pairs) > 0
    mutual &= np.bincount(exchange.pair[liked[~forth]], minlength=n_pairs) > 0
    weight, variance = weigh_blocks(
        praise, exchange, blocks_of(exchange, np.column_stack((exchange.a, exchange.b)))
    )
    beyond = praise.excess(praise.positive, praise.real) - TOLERANCE * weight
    z = beyond / np.sqrt(variance + HALF)
    listed = np.flatnonzero(mutual)
    known = (weight > 0.0) & (n > 0)
    ps = [math.erfc(float(z[k]) / math.sqrt(2.0)) / 2.0 if known[k] else None for k in listed]
    pairs = []
    for k, p, q in zip(listed.tolist(), ps, benjamini_hochberg(ps), strict=True):
        apart = float(gap[k]) if n[k] else None
        pairs.append(Pair(int(exchange.a[k]), int(exchange.b[k]), apart, int(n[k]), p, q))
    return tuple(sorted(pairs, key=lambda two: (2.0 if two.p is None else two.p, two.a, two.b)))


def _note(
    community: Community, search: Search, rings: Sequence[Ring], clusters: Sequence[Cluster]
) -> str:
    """Describe the findings in a few plain sentences."""
    sentences = [f"Positive is an opinion above {community.middle:g}, the middle of the scale."]
    n_untested = sum(cluster.gap is None for cluster in clusters)
    if not len(search.exchange.a):
        sentences.append("No two people reviewed each other's items: there is nothing to test.")
    elif not search.n_informative:
        sentences.append("On every item all opinions are equal, so nothing can be tested.")
    elif rings:
        sentences.append(
            "Rings are unexplained mutual praise, beyond members' habits and what others think "
            "of the same items; look at the evidence before you act."
        )
    else:
        sentences.append("No unexplained mutual praise beyond chance.")
    if n_tested := len(clusters) - n_untested:
        exchange_clusters = how_many(n_tested, "cluster exchanges", "clusters exchange")
        sentences.append(f"{exchange_clusters} many reviews, without standing out.")
    if n_untested:
        sentences.append(f"{n_untested} more cannot be tested: outsiders are missing.")
    return " ".join(sentences)
