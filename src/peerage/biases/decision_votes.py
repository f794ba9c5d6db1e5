"""Whether seats that vote on typed questions agree, lean one way, or are surer than they should be.

A vote is a probability for each option. A seat is compared with the others on the same questions,
and with people's labels if there are any. Unbiased seats may differ in how sure they are, and some
seats give one option and no probabilities. So leanings are measured by the likeliest option, and
sureness is compared with labels only. Sums are by seat and query, and intervals are over queries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from peerage.biases.many_sessions import as_findings
from peerage.biases.thresholds import Tested, error_of, one_sided
from peerage.findings import AuditLimits, Finding
from peerage.reviews.cells import Cells, Floats, sort_cells
from peerage.reviews.intervals import Estimate, centred_correlation, estimates, mean_of
from peerage.types import TypedQuestion

METRICS = ("vote_agreement", "vote_lean", "vote_first", "vote_labels", "vote_sureness")
SAME = 1e-9  # probabilities that differ by less are the same
FEW_ALIKE = 5  # wordings of fewer questions are grouped by kind
NO_OTHER = "no other seat votes on the same questions"
SAME_VOTE = "it votes the same way on every question"
OTHERS_SAME = "the others vote the same way on every question"
NO_PREDICATE = "it votes on no predicate: only these have a yes"
NO_LABELS = "people have labelled none of its questions"
NO_PROBABILITIES = "it gives one option and no probabilities"


@dataclass(frozen=True, slots=True)
class VotedQuestion:
    """A typed question about an input, its votes by seat, and the correct option, if known."""

    query: str
    question: TypedQuestion
    votes: Mapping[str, tuple[float, ...]]
    correct: int | None = None


@dataclass(slots=True)
class _SeatSums:
    """The sums of one metric, by seat and query."""

    rows: list[tuple[str, str, tuple[float, ...]]] = field(default_factory=list)

    def add(self, seat: str, query: str, *values: float) -> None:
        self.rows.append((seat, query, values))

    def cells(self, seats: Sequence[str], queries: Mapping[str, int]) -> Cells:
        places = {seat: i for i, seat in enumerate(seats)}
        subject = np.array([places[seat] for seat, _, _ in self.rows], dtype=np.int64)
        cluster = np.array([queries[query] for _, query, _ in self.rows], dtype=np.int64)
        return sort_cells(subject, cluster, np.array([values for _, _, values in self.rows]))


def vote_findings(
    questions: Sequence[VotedQuestion], limits: AuditLimits, without: Collection[str] = ()
) -> tuple[Finding, ...]:
    """Return the findings on each seat's votes, with q-values over all findings."""
    cast = [
        VotedQuestion(
            one.query,
            one.question,
            {seat: vote for seat, vote in one.votes.items() if seat not in without},
            one.correct,
        )
        for one in questions
    ]
    seats = sorted({seat for one in cast for seat in one.votes})
    queries = {query: i for i, query in enumerate(dict.fromkeys(one.query for one in cast))}

    def measure(metric: str, sums: _SeatSums) -> dict[str, Estimate]:
        if not sums.rows:
            return {}
        cells = sums.cells(seats, queries)
        null = limits.healthy[metric] if metric in AT_LEAST else 0.0
        is_correlation = metric == "vote_agreement"
        statistic = centred_correlation if is_correlation else mean_of
        each = estimates(cells, statistic, null=null, fisher=is_correlation)
        return {seats[one.subject]: one for one in each}

    sums = _sums(cast)
    estimated = {metric: measure(metric, sums[metric]) for metric in METRICS}
    tested = [
        _make_tested(metric, seat, estimated[metric].get(seat), _why(metric, seat, cast), limits)
        for metric in METRICS
        for seat in seats
        if metric != "vote_first" or _has_choices(seat, cast)
    ]
    return as_findings(tested)


def _sums(questions: Sequence[VotedQuestion]) -> dict[str, _SeatSums]:
    """Return the sums of every metric; the first value of each row is the number of questions."""
    sums = {metric: _SeatSums() for metric in METRICS}
    pairs: dict[tuple[str, Wording], list[tuple[str, Sequence[float], Sequence[float]]]] = {}
    for one, wording in zip(questions, _wordings(questions), strict=True):
        k, n = one.question.n_options, len(one.votes)
        tops = {seat: _likeliest(vote) for seat, vote in one.votes.items()}
        total = [sum(chances) for chances in zip(*one.votes.values(), strict=True)]
        first = sum(top[0] for top in tops.values())
        for seat, vote in one.votes.items():
            top = tops[seat]
            if n > 1:
                others = [(all_ - mine) / (n - 1) for all_, mine in zip(total, vote, strict=True)]
                pairs.setdefault((seat, wording), []).append((one.query, vote, others))
                if one.question.kind != "score":
                    metric = "vote_lean" if one.question.kind == "predicate" else "vote_first"
                    difference = top[0] - (first - top[0]) / (n - 1)
                    sums[metric].add(seat, one.query, 1.0, difference)
            if one.correct is not None:
                right = top[one.correct]
                beyond_chance = (right - 1.0 / k) / (1.0 - 1.0 / k)
                sums["vote_labels"].add(seat, one.query, 1.0, beyond_chance)
                sums["vote_sureness"].add(seat, one.query, 1.0, max(vote) - right)
    for (seat, _), some in pairs.items():
        mine, panel = (_centre(np.array([row[at] for row in some])) for at in (1, 2))
        products = [(x * y).sum(axis=1) for x, y in ((mine, mine), (panel, panel), (mine, panel))]
        for (query, _, _), *values in zip(some, *products, strict=True):
            sums["vote_agreement"].add(seat, query, 1.0, *values)
    return sums


def _centre(votes: Floats) -> Floats:
    """Return votes minus their mean, which is how a seat would vote without reading the input."""
    return votes - votes.mean(axis=0)


def _likeliest(vote: Sequence[float]) -> list[float]:
    """Return 1 for the likeliest option and 0 for the others; tied options share the 1."""
    bar = max(vote) - SAME
    n = sum(chance >= bar for chance in vote)
    return [1.0 / n if chance >= bar else 0.0 for chance in vote]


Wording = tuple[str, int, str]  # the kind, the number of options, and the words of a question


def _wordings(questions: Sequence[VotedQuestion]) -> list[Wording]:
    """Return the wording of each question: questions of one wording are compared with each other.

    Rare wordings of one kind and number of options count as one wording.
    """
    full = [
        (
            one.question.kind,
            one.question.n_options,
            repr((one.question.instructions, [option.value for option in one.question.options])),
        )
        for one in questions
    ]
    counts = Counter(full)
    return [(*words[:2], words[2] if counts[words] >= FEW_ALIKE else "") for words in full]


# -- findings --------------------------------------------------------------------------------------


NOTES: Mapping[str, str] = {
    "vote_agreement": "correlation with the others' mean vote, beyond the usual vote on a question",
    "vote_lean": "it says yes to predicates so much oftener than the others; noise may explain it",
    "vote_first": "it takes the first option so much oftener than the others; noise may explain it",
    "vote_labels": "share of labelled questions right, beyond guessing: 0 is chance, 1 all right",
    "vote_sureness": "mean probability of its likeliest options, less the share that is right",
}
AT_LEAST = ("vote_agreement", "vote_labels")
# The text of each metric's reference page, in the same parts as the docstrings of other metrics.
ABOUT: Mapping[str, str] = {
    "vote_agreement": """Return how well each seat's votes agree with the others' mean vote.

Of: each seat that votes on typed questions.
Formula: r(vote, mean vote of the others), both minus their mean over questions of the same
    wording; wordings asked fewer than five times are grouped by kind
Counts: questions.
Healthy: {edge} or more, a correlation.
Assumes: that the others are worth agreeing with. A seat that always votes the same way has no
    correlation, and the note says so.
Fooled by: a panel whose members make the same errors.
Example: `vote_agreement, coin: -0.0205 [-0.101, 0.0599], n 579` – coin votes as if it had not
    read the input. Seat another model, or label some of the questions.
""",
    "vote_lean": """Return how much more often than the others each seat says yes.

Of: each seat that votes on predicates.
Formula: mean of (own likeliest option is true) - mean of the same for the others, over
    predicates that others voted on too
Counts: predicates.
Healthy: from -{edge} to +{edge} of the predicates. The status is never above `indicator`.
Assumes: that the others are right on average. Only the likeliest option counts, not its
    probability.
Fooled by: noise: a noisy seat gives the rarer answer more often.
Example: `vote_lean, yes: 0.375 [0.327, 0.423], n 277` – this seat says yes to 37% more of the
    predicates than the others. Label some of the questions to see which side is right.
""",
    "vote_first": """Return how much more often than the others each seat takes the first option.

Of: each seat that votes on choices.
Formula: mean of (own likeliest option is the first) - mean of the same for the others, over
    choices that others voted on too
Counts: choices.
Healthy: from -{edge} to +{edge} of the choices. The status is never above `indicator`.
Assumes: that the others do not prefer the first option. All seats see the options in the order
    of the request, so a preference that all share cannot be seen.
Fooled by: noise, if the first option is rarely the right one.
Example: `vote_first, yes: 0.356 [0.311, 0.4], n 288` – this seat takes the first option in 36%
    more of the choices than the others. Ask with the options in another order.
""",
    "vote_labels": """Return how often each seat is right on labelled questions, beyond guessing.

Of: each seat with votes on labelled questions.
Formula: mean of (right - 1/k) / (1 - 1/k), where right = 1 if the likeliest option is the
    label, and k = number of options
Counts: labelled questions.
Healthy: {edge} or more: 0 is guessing, 1 is always right.
Assumes: that the labels are right, and that the labelled questions are like the others.
Fooled by: labels on easy questions only.
Example: `vote_labels, coin: 0.0413 [-0.058, 0.141], n 387` – coin is right hardly more often
    than by guessing. Seat another model.
""",
    "vote_sureness": """Return how much too sure each seat is, on labelled questions.

Of: each seat that gives probabilities, with votes on labelled questions.
Formula: mean probability of the likeliest options - share of them that are right
Counts: labelled questions.
Healthy: from -{edge} to +{edge}, a probability.
Assumes: that the labels are right. A seat that gives one option and no probability has no
    value.
Fooled by: labels on hard questions only, on which every seat is too sure.
Example: `vote_sureness, sure: 0.178 [0.134, 0.222], n 385` – if this seat says 90%, it is right
    in about 72%. Read the panel's corrected probability instead of the seat's.
""",
}


def _make_tested(
    metric: str, seat: str, one: Estimate | None, why: str, limits: AuditLimits
) -> Tested:
    """Return a measured value with its healthy range, or the reason why there is none."""
    n_min, edge = limits.n_min[metric], limits.healthy[metric]
    n = one.n if one else 0
    if why or one is None or one.value is None:
        note = why or SAME_VOTE
        nothing = (None, None, None, None)
        return Tested(metric, seat, *nothing, n, n_min, 0.0, note, not_identifiable=True)
    is_floor = metric in AT_LEAST
    return Tested(
        metric,
        seat,
        one.value,
        one.low,
        one.high,
        one_sided(one.p, one.value < edge) if is_floor else one.p,
        one.n,
        n_min,
        edge,
        NOTES[metric],
        side="at_least" if is_floor else "both",
        correlation=metric == "vote_agreement",
        at_most_indicator=metric in ("vote_lean", "vote_first"),
        error=error_of(one),
    )


def _why(metric: str, seat: str, questions: Sequence[VotedQuestion]) -> str:
    """Return why a metric cannot be measured for a seat; empty if it can be."""
    own = [one for one in questions if seat in one.votes]
    if metric in ("vote_labels", "vote_sureness"):
        if all(one.correct is None for one in own):
            return NO_LABELS
        if metric == "vote_sureness" and all(max(one.votes[seat]) >= 1.0 for one in own):
            return NO_PROBABILITIES
        return ""
    shared = [one for one in own if len(one.votes) > 1]
    if not shared:
        return NO_OTHER
    if metric == "vote_lean" and all(one.question.kind != "predicate" for one in shared):
        return NO_PREDICATE
    if metric == "vote_agreement":
        if _is_constant([(one.question, one.votes[seat]) for one in shared]):
            return SAME_VOTE
        others = [
            (one.question, vote)
            for one in shared
            for name, vote in one.votes.items()
            if name != seat
        ]
        return OTHERS_SAME if _is_constant(others) else ""
    return ""


def _is_constant(votes: Sequence[tuple[TypedQuestion, tuple[float, ...]]]) -> bool:
    """Return whether votes differ only between kinds of question and numbers of options."""
    by_kind: dict[tuple[str, int], set[tuple[float, ...]]] = {}
    for question, vote in votes:
        rounded = tuple(round(one, 9) for one in vote)
        by_kind.setdefault((question.kind, question.n_options), set()).add(rounded)
    return all(len(some) == 1 for some in by_kind.values())


def _has_choices(seat: str, questions: Sequence[VotedQuestion]) -> bool:
    return any(
        one.question.kind == "choice" and seat in one.votes and len(one.votes) > 1
        for one in questions
    )
