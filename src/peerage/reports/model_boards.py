"""The board of models: what its options need added up, and the columns, notes and flags."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from peerage.boards import Board, all_left_out
from peerage.boards.model_sums import ModelSums, ModelTotals, Plan
from peerage.boards.models import (
    COLUMNS,
    MEANS,
    MIN_REVIEWERS,
    Estimates,
    board_columns,
    common_values,
    head_to_head,
    left_out_estimates,
    length_controlled,
    n_groups,
    n_queries,
    n_voters,
    plain,
    provisional,
    rating_estimates,
    rivals_covered,
    standing,
)
from peerage.boards.reputation import peer_weights
from peerage.boards.win_counts import win_counts_columns
from peerage.errors import UsageError, few, how_many
from peerage.registry import PluginError
from peerage.reports.judge_versions import version_flags, versions_document
from peerage.reports.model_reviews import BoardReviews, FoldedPlacings
from peerage.reviews.cells import Floats
from peerage.reviews.columns import iso
from peerage.reviews.flags import alike_flags, seal_flags, sealed_reviewers
from peerage.reviews.rows import N_CLUSTERS, N_FOLDS
from peerage.rules import rules
from peerage.rules.elo import ratings_left_out
from peerage.rules.hybrid import check_scale
from peerage.types import Placing

MAX_PLACED_ROWS = 500_000  # for rules that read one ballot after another
COMPARED = ("borda", "bradley_terry", "elo", "mean_rank", "hybrid", "copeland", "schulze")  # first
MIN_COVERED = 0.9  # of the rivals of any two models; below it shares are put on common rivals
POINT = ("model", "share", "share_low", "share_high", "appearances")
TOO_MANY = "too many ballots to read one after another"
MAX_WEEKS = 520
WEEK_S = 604_800.0
MONDAY_S = 345_600.0  # the first Monday after the epoch, 1970-01-05
N_NAMED = 5  # of the candidates that a flag is about


def build_model_board(reviews: BoardReviews) -> Board:
    """The board of a reviews table; an empty table gives an empty board.

    Many comparisons under Bradley–Terry need only to be counted. So few that each is a cluster
    of its own are left to the sums, whose rank ranges are exact.
    """
    counts = reviews.win_counts()
    if counts is not None and counts.n > N_CLUSTERS:
        late = reviews.n_late()
        flags = [f"reviews_in_the_future:{late}"] if late else []
        flags += [*reviews.flags, *alike_flags(counts.models)]
        notes = {"sessions": counts.n, **_review_counts(reviews, 2 * counts.n)}
        return _board(reviews, win_counts_columns(counts), notes, flags)
    return _board_of_sums(reviews)


def _board_of_sums(reviews: BoardReviews) -> Board:
    options = reviews.options
    flags = [f"scores_not_finite:{reviews.not_finite}"] if reviews.not_finite else []
    if reviews.table.n_rows == 0:
        return _board(reviews, {name: [] for name in COLUMNS}, _review_counts(reviews, 0), flags)
    notes: dict[str, Any] = {}
    plan = plan_of(reviews)
    if options.reputation == "peer":
        plan, notes["reviewer_weights"], more = _weighed(reviews, plan)
        flags += more
    if options.rule == "hybrid" and (ends := reviews.facts.scores) is not None:
        check_scale(*ends)
    sums = reviews.sums(plan)
    whole = ModelTotals(sums.slice(None))
    two_way = options.interval == "two-way"
    if two_way and (n := n_voters(whole)) < MIN_REVIEWERS:
        are = how_many(n, "reviewer is", "reviewers are")
        raise UsageError(
            f"{are} too few to speak for others; two-way needs {MIN_REVIEWERS}.",
            hint="Use --interval sessions.",
        )
    slices = range(len(reviews.categories)) if options.by_category else (None,)
    parts = [whole if at is None else ModelTotals(sums.slice(at)) for at in slices]
    covered = min((rivals_covered(part) for part in parts), default=1.0)
    meetings: list[ModelSums | None] = [None] * len(parts)
    if options.rule == "borda" and covered < MIN_COVERED:
        by_cluster = reviews.sums(meetings_plan(plan))
        meetings = [by_cluster.slice(at) for at in slices]
    if options.by_category:
        columns = _by_category(reviews, parts, two_way, meetings)
    else:
        ranked = _other_rule(reviews, plan, whole)
        columns = board_columns(
            whole, options.rule, two_way=two_way, ranked=ranked, meetings=meetings[0]
        )
    notes |= {"sessions": whole.count("sessions"), **_review_counts(reviews, whole.count("rows"))}
    if options.length_controlled:
        slope = length_controlled(whole)[1]
        notes["length_slope"] = None if slope is None else round(slope, 12)
    if options.matrix:
        notes["matrix"] = head_to_head(whole, list(dict.fromkeys(columns["model"])))
    if options.compare_rules:
        notes["rules"] = _compared(reviews, plan, whole, meetings[0])
    if options.history:
        notes["history"] = _history(reviews, plan)
    counts = {
        "sessions_with_one_candidate": whole.count("lone"),
        "sessions_without_a_weight": whole.count("unweighted"),
        "sessions_of_several_categories": whole.count("mixed"),
        "reviews_in_the_future": reviews.n_late(),
    }
    counted = [f"{name}:{n}" for name, n in counts.items() if n]
    counted += _flags_of_models(columns, whole.count("sessions"), reviews.facts.n_truncated)
    if seals := sealed_reviewers([reviews.facts.seals]):
        notes["seals"] = seals
        counted += seal_flags(seals)
    if versions := reviews.facts.versions:
        notes["fingerprints"] = versions_document(versions)
        counted += version_flags(versions)
    if two_way:
        counted += _without_interval(columns)
    flags += [*reviews.flags, *alike_flags(sums.names)]
    if (n_apart := max(map(n_groups, parts), default=1)) > 1:
        counted.append(f"models_that_never_met:{n_apart}")
    return _board(reviews, columns, notes, counted + flags, covered)


def _review_counts(reviews: BoardReviews, n_inside: int) -> dict[str, int]:
    """How many reviews are in the window, and how many it leaves out."""
    return {"reviews": n_inside, "reviews_left_out": reviews.n_outside(n_inside)}


def _without_interval(columns: Mapping[str, list[Any]]) -> list[str]:
    """A flag for the models with a share and no two-way interval."""
    rows = zip(columns["model"], columns["share"], columns["share_low"], strict=True)
    bare = list(
        dict.fromkeys(name for name, share, low in rows if share is not None and low is None)
    )
    return [f"no_two_way_interval:{len(bare)}: {few(bare, N_NAMED)}"] if bare else []


def _flags_of_models(
    columns: Mapping[str, list[Any]], n_sessions: int, n_truncated: Mapping[str, int]
) -> list[str]:
    """Flags for candidates that were not in every session, and for answers that were cut off.

    Where all are compared two by two, nobody is in every session, and that is not said.
    """
    appearances: Counter[str] = Counter()
    for model, n in zip(columns["model"], columns["appearances"], strict=True):
        appearances[model] += n
    partly = [f"{name} ({n} of {n_sessions})" for name, n in appearances.items() if n < n_sessions]
    cut_off = [
        f"{name} ({n} of {appearances[name]}, {100 * n / appearances[name]:.0f}%)"
        for name, n in sorted(n_truncated.items(), key=lambda one: (-one[1], one[0]))
        if appearances[name]
    ]
    flags = []
    if partly and appearances.total() > 2 * n_sessions:
        flags.append(f"not_in_every_session:{len(partly)}: {few(partly, N_NAMED)}")
    if cut_off:
        flags.append(f"truncated_answers:{sum(n_truncated.values())}: {few(cut_off, N_NAMED)}")
    return flags


def plan_of(reviews: BoardReviews) -> Plan:
    """What a board's options need added up."""
    options = reviews.options
    return Plan(
        own_votes=options.own_votes,
        n_slices=max(1, len(reviews.categories)),
        by_category=options.by_category,
        earliest=reviews.earliest,
        scores="score" in reviews.columns,
        influence=options.interval == "two-way",
        pairs=options.matrix or options.compare_rules or options.rule == "bradley_terry",
        lengths=options.length_controlled,
        rivals=True,
    )


def meetings_plan(plan: Plan) -> Plan:
    """Only who met whom, by cluster, of the sessions and votes of a plan."""
    return Plan(
        own_votes=plan.own_votes,
        models=False,
        n_slices=plan.n_slices,
        by_category=plan.by_category,
        earliest=plan.earliest,
        meetings=True,
        weight_by_name=plan.weight_by_name,
    )


def _board(
    reviews: BoardReviews,
    columns: dict[str, list[Any]],
    notes: dict[str, Any],
    flags: list[str],
    covered: float | None = None,
) -> Board:
    options = reviews.options
    ranked_by = next(name for name in ("value", "share_common", "share") if name in columns)
    parameters = {
        "since": options.since,
        "as_of": None if reviews.latest is None else iso(reviews.latest),
        "category": options.category,
        "own_votes": options.own_votes,
        "interval": options.interval,
        "level": 0.95,
        "reputation": options.reputation,
        "item_weights": reviews.item_weights is not None,
        "ranked_by": ranked_by,
        "coverage": None if covered is None else plain(covered),
        **({"without_truncated": True} if options.without_truncated else {}),
        **options.chosen,
    }
    hint = "" if notes["reviews"] else all_left_out(notes["reviews_left_out"], "review")
    return Board("models", columns, parameters, tuple(flags), {"rule": options.rule, **notes}, hint)


def _weighed(reviews: BoardReviews, plan: Plan) -> tuple[Plan, dict[str, float], list[str]]:
    """The plan with reviewers weighed by their own scores, the weights, and who has none."""
    sums = reviews.sums(replace(plan, influence=True, pairs=False, lengths=False, scores=False))
    totals = ModelTotals(sums.slice(None))
    reviewer, model, cells = totals.by_reviewer("influence")
    codes, place = np.unique(reviewer, return_inverse=True)
    shares, n_votes = np.zeros((2, len(codes), len(totals)))
    shares[place, model], n_votes[place, model] = cells["share"], cells["votes"]
    at = {name: i for i, name in enumerate(totals.models)}
    own = [at.get(sums.names[code], -1) for code in codes.tolist()]
    peers = peer_weights(shares, n_votes, own)
    if peers is None:
        raise UsageError(
            "no reviewer is a model on this board, so none has a score to be weighed by.",
            hint="Use --reputation fixed.",
        )
    n_outsiders = len(peers.outsiders)
    flags = [f"reviewers_without_a_score:{n_outsiders}"] if n_outsiders else []
    by_name = np.zeros(len(sums.names))
    by_name[codes] = peers.used
    weights = {
        sums.names[code]: round(weight, 12)
        for code, weight in zip(codes.tolist(), peers.weight.tolist(), strict=True)
    }
    return replace(plan, weight_by_name=by_name), weights, flags


def _by_category(
    reviews: BoardReviews,
    parts: Sequence[ModelTotals],
    two_way: bool,
    meetings: Sequence[ModelSums | None],
) -> dict[str, list[Any]]:
    """The rows of every category's own board, one board after the other."""
    columns: dict[str, list[Any]] = {"category": [], **{name: [] for name in COLUMNS}}
    for name, totals, met in zip(reviews.categories, parts, meetings, strict=True):
        part = board_columns(totals, reviews.options.rule, two_way=two_way, meetings=met)
        columns["category"] += [name] * len(part["model"])
        for column, values in part.items():
            columns.setdefault(column, []).extend(values)
    return columns


def _history(reviews: BoardReviews, plan: Plan) -> list[dict[str, Any]]:
    """Each week's own shares with their intervals, the oldest week first; weeks begin on Monday."""
    first = reviews.first_s()
    if first is None or reviews.latest is None:
        return []
    week, last = (int((t - MONDAY_S) // WEEK_S) for t in (first, reviews.latest))
    week = max(week, last - MAX_WEEKS + 1)
    weekly = Plan(
        own_votes=plan.own_votes,
        n_slices=last - week + 1,
        periods=(week * WEEK_S + MONDAY_S, WEEK_S),
        earliest=plan.earliest,
        weight_by_name=plan.weight_by_name,
    )
    sums = reviews.sums(weekly)
    points: list[dict[str, Any]] = []
    for at in range(weekly.n_slices):
        part = board_columns(ModelTotals(sums.slice(at)), "borda")
        start = iso((week + at) * WEEK_S + MONDAY_S)[:10]
        points += [
            {"week": start, **dict(zip(POINT, row, strict=True))}
            for row in zip(*(part[name] for name in POINT), strict=True)
        ]
    return points


# -- rules that are no means over sessions ---------------------------------------------------------


def _other_rule(reviews: BoardReviews, plan: Plan, totals: ModelTotals) -> Estimates | None:
    """The values of a rule that is no mean over sessions; None for one that is."""
    name = reviews.options.rule
    rule = rules.get(name)
    if name in MEANS:
        return None
    if name == "bradley_terry":
        return rating_estimates(totals)
    if reviews.n_asked_for > MAX_PLACED_ROWS:
        raise UsageError(
            f"{name} reads one ballot after another, and {reviews.n_asked_for} reviews are too "
            f"many for it ({MAX_PLACED_ROWS} at most).",
            hint="Use borda or bradley_terry, or a shorter window.",
        )
    ballots = reviews.placings(plan)
    values = _by_ballots(ballots.placings, totals, name)
    if name == "elo":
        return _elo_estimates(ballots, totals, values)
    nothing = np.full(len(totals), np.nan)
    return Estimates(values, nothing, nothing, lower_is_better=rule.lower_is_better)


def _elo_estimates(ballots: FoldedPlacings, totals: ModelTotals, values: Floats) -> Estimates:
    """Elo ratings with intervals: all ballots are played again without each fold of queries."""
    names = sorted(totals.models)
    ratings, met = ratings_left_out(ballots.placings, names, ballots.folds, N_FOLDS)
    there = np.zeros((N_FOLDS, len(names)), dtype=bool)  # whether a fold has a ballot of the model
    index = {name: at for at, name in enumerate(names)}
    for placing, fold in zip(*ballots, strict=True):
        there[fold, [index[name] for name in placing.doubled]] = True
    left_out = np.where(there & met[1:], ratings[1:], np.nan)
    order = [index[name] for name in totals.models]
    return left_out_estimates(values, left_out[:, order], lower_is_better=False)


def _by_ballots(placings: list[Placing], totals: ModelTotals, name: str) -> Floats:
    """A registered rule's values over all ballots of the window, in order of time."""
    values = rules.get(name).values(placings, totals.models)
    return np.array([float(values.get(model, np.nan)) for model in totals.models])


def _compared(
    reviews: BoardReviews, plan: Plan, totals: ModelTotals, meetings: ModelSums | None
) -> list[dict[str, Any]]:
    """Every rule's values and ranks; one that would have to read too many ballots says so."""
    many = reviews.n_asked_for > MAX_PLACED_ROWS
    placings = [] if many else reviews.placings(plan).placings
    compared: list[dict[str, Any]] = []
    for name in (*COMPARED, *(other for other in rules.names() if other not in COMPARED)):
        rule = rules.get(name)
        head = {"rule": name, "unit": rule.unit, "lower_is_better": rule.lower_is_better}
        try:
            if name == "hybrid" and (ends := reviews.facts.scores) is not None:
                check_scale(*ends)
            if name == "borda" and meetings is not None:
                values = common_values(totals)
            elif name in MEANS:
                values = totals.mean(*MEANS[name])
            elif name == "bradley_terry":
                values = rating_estimates(totals).value
            elif many:
                compared.append({**head, "note": TOO_MANY, "rows": []})
                continue
            else:
                values = _by_ballots(placings, totals, name)
        except (PluginError, UsageError) as error:
            compared.append({**head, "note": error.message, "rows": []})
            continue
        wins, apart = totals.column("wins"), provisional(values, n_queries(totals))
        order, rank = standing(values, wins, totals.models, rule.lower_is_better, apart)
        rows = [
            {"model": totals.models[i], "value": plain(float(values[i])), "rank": rank.get(i)}
            for i in order
            if np.isfinite(values[i])
        ]
        compared.append({**head, "rows": rows})
    return compared
