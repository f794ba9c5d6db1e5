"""Simulated gates: orders that go with outcomes, the guard, several candidates, and repeats."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from peerage.boards.differences import (
    Comparison,
    JudgeView,
    QueryDifferences,
    RepeatView,
    log_order,
    query_differences,
)
from peerage.reports.gate_files import bar_document
from peerage.reports.gate_results import GateResult
from peerage.reports.gates import CandidateSide, judge_candidates
from peerage.reports.options import GateOptions
from peerage.reports.query_orders import SeasonOrder, order_queries, short_hash
from peerage.reports.stopping import rows_from
from peerage.stats.bets import EvidenceBar, decide, first_looks, log_evidence
from tests.shared.rates import wilson_interval

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Generator = np.random.Generator

N_QUERIES = 200
PER_LOOK = 10  # queries that are added between two gates of a growing store
N_WORKERS = 8
BAR = EvidenceBar()
DIFFERENT = ("better", "worse")
EQUAL = "equal: "  # begins the names of designs in which any such verdict is false


class Panel(NamedTuple):
    """A panel whose judges share half of the variance of their error and rank all candidates."""

    n_models: int
    n_judges: int

    def shares(self, rng: Generator, n: int, advantage: Floats | float = 0.0) -> Floats:
        """Return the share of rivals beaten by query, judge and model, given advantages.

        `advantage` is that of the first model, or of each model by query.
        """
        quality = rng.normal(size=(n, 1, self.n_models))
        if np.ndim(advantage):
            quality[:, 0, :] += advantage
        else:
            quality[:, 0, 0] += advantage
        shared = rng.normal(size=(n, 1, self.n_models))
        seen = quality + shared + rng.normal(size=(n, self.n_judges, self.n_models))
        beaten: Floats = (seen[..., :, None] > seen[..., None, :]).sum(axis=-1) / (
            self.n_models - 1
        )
        return beaten

    def gaps(self, rng: Generator, n: int, advantage: Floats | float = 0.0) -> Floats:
        """Return the difference of the first two models by query and judge."""
        beaten = self.shares(rng, n, advantage)
        gap: Floats = beaten[..., 0] - beaten[..., 1]
        return gap


FIVE, TWO = Panel(5, 4), Panel(2, 3)


@cache
def curve(panel: Panel) -> tuple[Floats, Floats]:
    """Return the mean differences of some advantages, and these advantages."""
    advantages = np.linspace(0.0, 2.0, 21)
    rng = np.random.default_rng(0)
    means = [panel.gaps(rng, 20_000, one).mean() if one else 0.0 for one in advantages.tolist()]
    return np.array(means), advantages


def advantage_for(panel: Panel, gap: float) -> float:
    """Return the advantage of one model that gives this mean difference from another."""
    return float(np.sign(gap) * np.interp(abs(gap), *curve(panel)))


def for_first(panel: Panel, gaps: Sequence[float]) -> Floats:
    """Return the advantages by query and model that give the first model these differences."""
    advantages = np.zeros((len(gaps), panel.n_models))
    advantages[:, 0] = [advantage_for(panel, gap) for gap in gaps]
    return advantages


def differences(
    by_judge: Floats,
    categories: Sequence[str] = (),
    *,
    repeats: Sequence[RepeatView] = (),
) -> QueryDifferences:
    """Return queries, one session each, with the differences by judge."""
    n, n_judges = by_judge.shape
    return QueryDifferences(
        tuple(f"query {i}" for i in range(n)),
        by_judge.mean(axis=1)[None, :],
        tuple((f"s{i}",) for i in range(n)),
        tuple(
            JudgeView(n_judges, int((row < 0.0).sum()), int((row > 0.0).sum())) for row in by_judge
        ),
        repeats=tuple(repeats),
        categories=tuple(categories),
    )


def judged(
    some: Sequence[QueryDifferences], season: SeasonOrder | None = None, **options: Any
) -> tuple[GateResult, ...]:
    """Return the gate's verdict on each candidate, from its differences."""
    chosen = GateOptions(base="base", candidate=tuple(f"c{i}" for i in range(len(some))), **options)
    order = order_queries(some, season)
    sides = [
        CandidateSide(Comparison("base", name), one, ())
        for name, one in zip(chosen.candidate, some, strict=True)
    ]
    return judge_candidates(sides, chosen, order, bar_document(chosen))


def in_order(path: Floats) -> str:
    """Return the verdict on differences that are looked at as they stand."""
    return decide(first_looks([log_evidence(path, BAR)], BAR)[0]).verdict


# -- orders ----------------------------------------------------------------------------------------


class Recorded(NamedTuple):
    """Differences by judge in the order that a season has, with the categories of the queries."""

    by_judge: Floats
    categories: Sequence[str] = ()


def random_order(rng: Generator) -> Recorded:
    return Recorded(FIVE.gaps(rng, N_QUERIES))


def two_categories(rng: Generator) -> Recorded:
    """Return queries sorted by category: worse by .25 in the first half, better in the second."""
    gaps = [-0.25] * (N_QUERIES // 2) + [0.25] * (N_QUERIES // 2)
    by_judge = FIVE.gaps(rng, N_QUERIES, for_first(FIVE, gaps))
    return Recorded(by_judge, ["a"] * (N_QUERIES // 2) + ["b"] * (N_QUERIES // 2))


def five_categories(rng: Generator, n_shuffled: int = 0) -> Recorded:
    """Return queries sorted by five categories with effects of sd .15 and the mean 0."""
    effects = rng.normal(0.0, 0.15, 5)
    effects -= effects.mean()
    groups = np.repeat(np.arange(5), N_QUERIES // 5)
    some = rng.choice(N_QUERIES, n_shuffled, replace=False)
    groups[some] = rng.permutation(groups[some])
    by_judge = FIVE.gaps(rng, N_QUERIES, for_first(FIVE, effects[groups].tolist()))
    return Recorded(by_judge, [str(group) for group in groups])


def by_arrival(rng: Generator, n_workers: int) -> Recorded:
    """Return queries in the order in which they finish, where losses take half as long."""
    by_judge = FIVE.gaps(rng, N_QUERIES)
    lasts = rng.exponential(1.0, N_QUERIES) * np.where(by_judge.mean(axis=1) < 0.0, 0.5, 1.0)
    free, ends = np.zeros(n_workers), np.zeros(N_QUERIES)
    for i, last in enumerate(lasts):
        worker = int(free.argmin())
        free[worker] += last
        ends[i] = free[worker]
    return Recorded(by_judge[np.argsort(ends)])


def truly_worse(rng: Generator) -> Recorded:
    gaps = [-0.15] * N_QUERIES
    return Recorded(FIVE.gaps(rng, N_QUERIES, for_first(FIVE, gaps)))


ORDERS: Mapping[str, Callable[[Generator], Recorded]] = {
    "equal: random order": random_order,
    "equal: two sorted categories, −.25 and +.25": two_categories,
    "equal: five sorted categories, effects of sd .15": five_categories,
    "equal: the same, half of the queries shuffled": lambda rng: five_categories(rng, 100),
    "equal: all at once, losses twice as quick": lambda rng: by_arrival(rng, N_QUERIES),
    "equal: 8 workers, losses twice as quick": lambda rng: by_arrival(rng, N_WORKERS),
    "truly worse by .15": truly_worse,
}


def order_counts(draw: Callable[[Generator], Recorded], n_runs: int) -> tuple[int, int, int]:
    """Return how many runs end with *worse* or *better*: as recorded, by the hash, by the gate."""
    rng, counts = np.random.default_rng(5), np.zeros(3, dtype=int)
    places = {f"s{i}": i for i in range(N_QUERIES)}
    for run in range(n_runs):
        recorded = draw(rng)
        some = differences(recorded.by_judge, recorded.categories)
        some = named(some, run)
        verdicts = (
            in_order(some.by_measure[0]),
            judged([some])[0].decision.verdict,
            judged([some], SeasonOrder(places))[0].decision.verdict,
        )
        counts += [verdict in DIFFERENT for verdict in verdicts]
    return int(counts[0]), int(counts[1]), int(counts[2])


def named(some: QueryDifferences, run: int) -> QueryDifferences:
    """Return the queries with names of their own, so that each run has another hash."""
    return QueryDifferences(
        tuple(f"query {run} {i}" for i in range(some.n)),
        some.by_measure,
        some.sessions,
        some.views,
        repeats=some.repeats,
        categories=some.categories,
    )


def growing_counts(n_runs: int) -> tuple[int, int]:
    """Return how many runs of a store that grows end falsely: hashed anew at each look, and kept.

    After every ten queries there is a gate; a run is false if any of them is.
    """
    rng, anew, kept = np.random.default_rng(6), 0, 0
    for run in range(n_runs):
        whole = named(differences(FIVE.gaps(rng, N_QUERIES)), run)
        earlier: list[str] = []
        is_false = [False, False]
        for n in range(PER_LOOK, N_QUERIES + 1, PER_LOOK):
            some = whole.in_order(range(n))
            place = {unit: i for i, unit in enumerate(some.units)}
            for i, known in enumerate(((), earlier)):
                order = order_queries([some], earlier=known)
                path = some.by_measure[0, [place[unit] for unit in order.units]]
                is_false[i] |= in_order(path) in DIFFERENT
            earlier = [short_hash(unit) for unit in order.units]
        anew, kept = anew + is_false[0], kept + is_false[1]
    return anew, kept


# -- several candidates ----------------------------------------------------------------------------


def candidate_counts(n_candidates: int, gap: float, n_runs: int) -> tuple[int, int, int]:
    """Return runs in which an equal candidate is called different, alone and corrected; found.

    With a gap, the first candidate is truly better, and the others equal the base; the gates that
    each have a candidate alone are then left out.
    """
    panel = Panel(n_candidates + 4, 4)
    base = n_candidates
    advantage = np.zeros((N_QUERIES, panel.n_models))
    advantage[:, 0] = advantage_for(panel, gap)
    rng, n_alone, n_together, n_found = np.random.default_rng(7), 0, 0, 0
    first = 1 if gap else 0
    for run in range(n_runs):
        shares = panel.shares(rng, N_QUERIES, advantage)
        some = [
            named(differences(shares[..., i] - shares[..., base]), run) for i in range(n_candidates)
        ]
        alone = [] if gap else [judged([one])[0].decision.verdict for one in some]
        together = [one.decision.verdict for one in judged(some)]
        n_alone += any(verdict in DIFFERENT for verdict in alone)
        n_together += any(verdict in DIFFERENT for verdict in together[first:])
        n_found += together[0] == "better"
    return n_alone, n_together, n_found


# -- repeats ---------------------------------------------------------------------------------------


def table_of(sessions: Iterator[tuple[int, Floats]]) -> Any:
    """Return sessions (their query, and the differences by judge) as rows of reviews."""
    records = []
    for number, (query, by_judge) in enumerate(sessions):
        for judge, gap in enumerate(by_judge.tolist()):
            row = {"session_id": f"{number:05}", "query_id": str(query), "reviewer": f"j{judge}"}
            for name, rank in (("base", 1.5 + gap / 2), ("c0", 1.5 - gap / 2)):
                records.append({**row, "candidate": name, "rank": float(rank)})
    return rows_from(records)


def ask(
    rng: Generator, n_planned: int, n_more: int, share_more: float, *, only_lost: bool, gap: float
) -> Iterator[tuple[int, Floats]]:
    """Yield the sessions of 100 queries in the order of the log.

    Each query is asked as often as planned; some queries, or those that were lost, are asked again.
    """
    n = N_QUERIES // 2
    effect = rng.normal(0.0, 0.5, n) + advantage_for(TWO, gap)
    again = rng.random(n) < share_more
    lost = np.zeros(n, dtype=bool)
    for number in range(n_planned + n_more):
        gaps = TWO.gaps(rng, n, np.stack([effect, np.zeros(n)], axis=1))
        use = np.ones(n, dtype=bool) if number < n_planned else lost if only_lost else again
        for i in np.flatnonzero(use).tolist():
            yield i, gaps[i]
        lost = np.where(use, gaps.mean(axis=1) < 0.0, lost)


class Repeats(NamedTuple):
    """How often the queries of a gate are asked."""

    n_planned: int
    n_more: int
    share_more: float = 0.0
    only_lost: bool = False
    gap: float = 0.0


REPEATS = {
    "equal: what was lost is asked again, up to 3 times": Repeats(1, 3, only_lost=True),
    "equal: two planned repeats, a third of the queries four": Repeats(2, 2, 1 / 3),
    "truly worse by .2: one repeat": Repeats(1, 0, gap=-0.2),
    "truly worse by .2: two planned repeats, some four": Repeats(2, 2, 1 / 3, gap=-0.2),
}


def repeat_counts(design: Repeats, n_runs: int) -> tuple[int, int, int]:
    """Return false or found verdicts: all sessions averaged, the first ones, and the same verdicts.

    The last number counts the runs whose verdict is that of the table without the extra sessions.
    """
    rng, n_all, n_first, n_same = np.random.default_rng(8), 0, 0, 0
    for run in range(n_runs):
        sessions = list(
            ask(
                rng,
                design.n_planned,
                design.n_more,
                design.share_more,
                only_lost=design.only_lost,
                gap=design.gap,
            )
        )
        n_planned = design.n_planned * N_QUERIES // 2
        comparison = Comparison("base", "c0")
        verdicts = []
        for some in (sessions, sessions[:n_planned]):
            rows = table_of(iter(some))
            found = query_differences(rows, comparison, order=log_order(rows))
            verdicts.append(judged([named(found, run)])[0].decision.verdict)
        totals = np.zeros((2, N_QUERIES // 2))
        for i, gaps in sessions:
            totals[:, i] += (gaps.mean(), 1.0)
        averaged = named(differences((totals[0] / totals[1])[:, None]), run)
        n_all += judged([averaged])[0].decision.verdict in DIFFERENT
        n_first += verdicts[0] in DIFFERENT
        n_same += verdicts[0] == verdicts[1]
    return n_all, n_first, n_same


# -- the guard -------------------------------------------------------------------------------------


class Guarded(NamedTuple):
    """A gate with the guard: its panel, queries, broken queries, and repeats of some queries."""

    panel: Panel
    n: int
    broken: float = 0.0  # share of the queries on which the candidate fails
    n_repeated: int = 0
    n_repeats: int = 0
    worse_by: float = 0.0  # on one of the repeated queries, in sd of one session's difference


GUARDED = {
    "equal: 50 queries, 2 models × 3 judges": Guarded(TWO, 50),
    "equal: 100 queries, 5 models × 4 judges": Guarded(FIVE, 100),
    "equal: one query with 5 repeats": Guarded(TWO, 50, 0.0, 1, 5),
    "equal: ten queries with 8 repeats": Guarded(TWO, 50, 0.0, 10, 8),
    "equal: fifty queries with 11 repeats": Guarded(TWO, 50, 0.0, 50, 11),
    **{
        f"{share:.0%} of the queries broken: {name}": Guarded(panel, n, share)
        for name, panel, n in (("50, 2 × 3", TWO, 50), ("100, 5 × 4", FIVE, 100))
        for share in (0.1, 0.2, 0.3)
    },
    "one query worse by 1.2 sd: one with 5 repeats": Guarded(TWO, 50, 0.0, 1, 5, 1.2),
    "one query worse by 1.2 sd: ten with 8 repeats": Guarded(TWO, 50, 0.0, 10, 8, 1.2),
    "one query worse by 1.2 sd: fifty with 11 repeats": Guarded(TWO, 50, 0.0, 50, 11, 1.2),
}


def guard_counts(design: Guarded, n_runs: int) -> tuple[int, int]:
    """Return how many runs are blocked by the guard or by the verdict, and by the guard itself."""
    rng, n_blocked, n_by_guard = np.random.default_rng(9), 0, 0
    spread = np.sqrt(2.0 + 2.0 + 2.0 / design.panel.n_judges)  # of one session's difference
    for run in range(n_runs):
        by_judge = design.panel.gaps(rng, design.n)
        by_judge[: round(design.broken * design.n)] = -1.0
        repeats = []
        for i in range(design.n_repeated):
            advantage = 0.0 if i else -design.worse_by * spread
            gaps = design.panel.gaps(rng, design.n_repeats, advantage).mean(axis=1)
            n_against, n_for = int((gaps < 0.0).sum()), int((gaps > 0.0).sum())
            repeats.append(RepeatView(n_against, n_for, float(gaps.mean())))
        none = [RepeatView()] * (design.n - design.n_repeated) if repeats else []
        some = named(differences(by_judge, repeats=[*repeats, *none]), run)
        (result,) = judged([some], guard=True)
        n_blocked += result.fails
        n_by_guard += result.guard.blocks
    return n_blocked, n_by_guard


# -- the tables ------------------------------------------------------------------------------------


def rate(k: int, n: int) -> str:
    """Return a count with its share and the 95% interval of the share."""
    low, high = (100 * end for end in wilson_interval(k, n) or (0.0, 1.0))
    return f"{100 * k / n:.1f}% ({low:.1f} to {high:.1f})"
