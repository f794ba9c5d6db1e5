"""The board of models: from the sums of its reviews to ranks, flags and notes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from peerage.boards import Board, all_left_out
from peerage.boards.model_sums import BASE, ModelSums
from peerage.boards.models import (
    COLUMNS,
    MIN_COVERED,
    MIN_REVIEWERS,
    board_columns,
    head_to_head,
    length_controlled,
    n_groups,
    n_voters,
    plain,
    rivals_covered,
)
from peerage.boards.reputation import peer_weights
from peerage.errors import UsageError, few, how_many
from peerage.reports.ballot_rules import check_scores, compare_rules, estimate_by_rule
from peerage.reports.board_reviews import WEEK_S, BoardReviews
from peerage.reports.judge_versions import (
    JudgeVersion,
    add_versions,
    find_versions,
    version_flags,
    versions_document,
)
from peerage.reports.options import ModelBoardOptions
from peerage.reports.people_reviews import add_people
from peerage.reviews.cells import Floats
from peerage.reviews.columns import iso
from peerage.reviews.flags import (
    SEALS,
    alike_flags,
    count_kinds,
    count_seals,
    kind_flags,
    reserved_flags,
    seal_flags,
    sealed_reviewers,
)
from peerage.reviews.rows import Rows
from peerage.reviews.same_texts import copied_texts, same_texts

NO_REVIEWS: Mapping[str, list[Any]] = {
    name: [] for name in ("session_id", "reviewer", "candidate", "rank", "category", "at", "words")
}
COUNTS = ("total_votes", "total_wins", "appearances")
POINT = ("model", "share", "share_low", "share_high", "appearances")
MAX_WEEKS = 520
MONDAY_S = 345_600.0  # the first Monday after the epoch, 1970-01-05
N_NAMED = 5  # candidates that a flag names at most


def build_model_board(reviews: BoardReviews) -> Board:
    """Return the board of a reviews table; an empty table gives an empty board."""
    not_finite = reviews.table.not_finite
    flags = [f"scores_not_finite:{not_finite}"] if not_finite else []
    if reviews.table.n_rows == 0:
        columns = _with_unjudged(reviews, {name: [] for name in COLUMNS})
        return _board(reviews, columns, reviews.counts(0), flags)
    return _board_of_sums(reviews, flags)


def tables_of(reviews: BoardReviews) -> tuple[str, ...]:
    """Return the names of the tables of sums that a board's options need."""
    options = reviews.options
    needed = {
        "scores": "score" in reviews.table.columns,
        "influence": options.interval == "two-way",
        "pairs": options.matrix or options.compare_rules or options.rule == "bradley_terry",
        "lengths": options.length_controlled,
        "rivals": True,
    }
    return (*BASE, *(name for name, is_needed in needed.items() if is_needed))


def _board_of_sums(reviews: BoardReviews, flags: list[str]) -> Board:
    options = reviews.options
    notes: dict[str, Any] = {}
    weights: Floats | None = None
    if options.reputation == "peer":
        weights, notes["reviewer_weights"], outsiders = _weigh_reviewers(reviews)
        flags += outsiders
    if options.rule == "hybrid":
        check_scores(reviews)
    sums = reviews.sums(tables_of(reviews), weights)
    whole = sums.part(None)
    _refuse_few_reviewers(options, whole)
    places = range(len(reviews.categories)) if options.by_category else (None,)
    parts = [whole if at is None else sums.part(at) for at in places]
    covered = min((rivals_covered(part) for part in parts), default=1.0)
    meetings: list[ModelSums | None] = [None] * len(parts)
    if options.rule == "borda" and covered < MIN_COVERED:
        by_cluster = reviews.sums(("meetings",), weights)
        meetings = [by_cluster.part(at) for at in places]
    if options.by_category:
        columns = _by_category(reviews, parts, meetings)
    else:
        two_way, ranked = options.interval == "two-way", estimate_by_rule(reviews, whole)
        columns = board_columns(
            whole, options.rule, two_way=two_way, ranked=ranked, meetings=meetings[0]
        )
    if options.people is not None:
        notes["people"] = add_people(columns, *reviews.judge_shares(), reviews.people)
    notes |= {"sessions": whole.count("sessions"), **reviews.counts(whole.count("rows"))}
    together = next(iter(meetings), None)  # None if no category is in the window
    notes |= _optional_notes(reviews, whole, together, weights, columns)
    of_models, of_reviewers = _flag_models(reviews, columns, whole)
    notes |= of_reviewers
    of_models += _flag_texts(reviews, columns)
    columns = _with_unjudged(reviews, columns)
    counted = [*_flag_sessions(reviews, whole), *of_models]
    if (n_apart := max(map(n_groups, parts), default=1)) > 1:
        counted.append(f"models_that_never_met:{n_apart}")
    flags += [*reviews.table.flags, *alike_flags(reviews.names(sums))]
    flags += reserved_flags(columns["model"])
    return _board(reviews, columns, notes, counted + flags, covered)


def _with_unjudged(reviews: BoardReviews, columns: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Return the columns with models that have no judgement listed last, without votes.

    A board of a selection does not list them: they may not belong to it.
    """
    options = reviews.options
    names = [] if options.selects else list(reviews.table.unjudged)
    if not names or options.by_category or options.category is not None:
        return columns
    known: dict[str, list[Any]] = {"model": names, "provisional": [False] * len(names)}
    known |= dict.fromkeys(COUNTS, [0] * len(names))
    nothing = [None] * len(names)
    return {name: [*values, *known.get(name, nothing)] for name, values in columns.items()}


def _refuse_few_reviewers(options: ModelBoardOptions, whole: ModelSums) -> None:
    if options.interval == "two-way" and (n := n_voters(whole)) < MIN_REVIEWERS:
        are = how_many(n, "reviewer is", "reviewers are")
        raise UsageError(
            f"{are} too few for two-way intervals, which need at least {MIN_REVIEWERS}.",
            hint="Use --interval sessions.",
        )


def _optional_notes(
    reviews: BoardReviews,
    whole: ModelSums,
    meetings: ModelSums | None,
    weights: Floats | None,
    columns: Mapping[str, list[Any]],
) -> dict[str, Any]:
    """Return the notes that the options request."""
    options, notes = reviews.options, dict[str, Any]()
    if options.length_controlled:
        slope = length_controlled(whole)[1]
        notes["length_slope"] = None if slope is None else round(slope, 12)
    if options.matrix:
        notes["matrix"] = head_to_head(whole, list(dict.fromkeys(columns["model"])))
    if options.compare_rules:
        notes["rules"] = compare_rules(reviews, whole, meetings)
    if options.fragility:
        from peerage.reports.board_fragility import board_fragility

        is_common = meetings is not None
        notes["fragility"] = board_fragility(reviews, weights, columns, is_common=is_common)
    if options.history:
        notes["history"] = _history(reviews, weights)
    return notes


def _flag_sessions(reviews: BoardReviews, whole: ModelSums) -> list[str]:
    """Return flags for sessions and reviews that are unusual, with their numbers."""
    counts = {
        "sessions_with_one_candidate": whole.count("lone"),
        "sessions_without_a_weight": whole.count("unweighted"),
        "sessions_of_several_categories": reviews.n_mixed() if reviews.options.by_category else 0,
        "reviews_in_the_future": reviews.n_late(),
    }
    return [f"{name}:{n}" for name, n in counts.items() if n]


def _flag_models(
    reviews: BoardReviews, columns: Mapping[str, list[Any]], whole: ModelSums
) -> tuple[list[str], dict[str, Any]]:
    """Return flags for models and reviewers, and notes on ballot codes and fingerprints."""
    truncated, notes = Counter[str](), dict[str, Any]()
    if reviews.pair_votes is not None:  # these have no seals or fingerprints
        return _flags_of_models(columns, whole.count("sessions"), truncated), notes
    table, earliest = reviews.counted, reviews.earliest
    if "truncated" in table.columns:
        truncated = sum(table.map(partial(_count_truncated, earliest=earliest)), Counter())
    flags = _flags_of_models(columns, whole.count("sessions"), truncated)
    if any(name in table.columns for name in SEALS) and (
        seals := sealed_reviewers(table.map(partial(count_seals, earliest=earliest)))
    ):
        notes["seals"] = seals
        flags += seal_flags(seals)
    if "committed" in table.columns:
        flags += kind_flags(table.map(partial(count_kinds, earliest=earliest)))
    if "fingerprint" in table.columns and (
        versions := add_versions(table.map(partial(_versions_since, earliest=earliest)))
    ):
        notes["fingerprints"] = versions_document(versions)
        flags += version_flags(versions)
    if reviews.options.interval == "two-way":
        flags += _without_interval(columns)
    return flags, notes


def _flag_texts(reviews: BoardReviews, columns: dict[str, list[Any]]) -> list[str]:
    """Return flags for constant and copied answers; constant ones also get a column."""
    texts = reviews.texts()
    if texts is None:
        return []
    flags = []
    if constant := same_texts(texts):
        n_by_name = {one.candidate: f"{one.n} of {one.n_texts}" for one in constant}
        columns["same_text"] = [n_by_name.get(name) for name in columns["model"]]
        named = [f"{name} (the same text for {n} questions)" for name, n in n_by_name.items()]
        flags.append(f"constant_answers:{len(named)}: {few(named, N_NAMED)}")
    if copied := copied_texts(texts):
        pairs = [f"{one.one} and {one.other} ({one.n} of {one.n_shared})" for one in copied]
        flags.append(f"copied_answers:{len(pairs)}: {few(pairs, N_NAMED)}")
    return flags


def _count_truncated(rows: Rows, earliest: float | None) -> Counter[str]:
    """Return how many answers of each model in the window were cut off."""
    cut_off = (rows.number("truncated") >= 1) & rows.since(earliest)
    answers = np.unique(rows.session[cut_off] * len(rows.names) + rows.candidate[cut_off])
    return Counter(rows.names[code] for code in (answers % max(len(rows.names), 1)).tolist())


def _versions_since(rows: Rows, earliest: float | None) -> tuple[JudgeVersion, ...]:
    return find_versions(rows.only(rows.since(earliest)))


def _without_interval(columns: Mapping[str, list[Any]]) -> list[str]:
    """Return a flag for models with a share but without a two-way interval."""
    rows = zip(columns["model"], columns["share"], columns["share_low"], strict=True)
    bare = list(
        dict.fromkeys(name for name, share, low in rows if share is not None and low is None)
    )
    return [f"no_two_way_interval:{len(bare)}: {few(bare, N_NAMED)}"] if bare else []


def _flags_of_models(
    columns: Mapping[str, list[Any]], n_sessions: int, n_truncated: Mapping[str, int]
) -> list[str]:
    """Return flags for models that were not in every session, and for truncated answers.

    Tables of pairwise comparisons do not get the first flag.
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


def _board(
    reviews: BoardReviews,
    columns: dict[str, list[Any]],
    notes: dict[str, Any],
    flags: list[str],
    covered: float | None = None,
) -> Board:
    options = reviews.options
    compared = reviews.table.comparisons
    n_alone = 0 if compared is None else compared.n_without_query
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
        **({"comparisons_without_query": n_alone} if n_alone else {}),
        **({"without_truncated": True} if options.without_truncated else {}),
        **({} if options.people is None else {"people": list(options.people)}),
        **options.chosen,
    }
    hint = "" if notes["reviews"] else all_left_out(notes["reviews_left_out"], "review")
    return Board("models", columns, parameters, tuple(flags), {"rule": options.rule, **notes}, hint)


def _weigh_reviewers(reviews: BoardReviews) -> tuple[Floats, dict[str, float], list[str]]:
    """Return each name's weight by its own score, the reviewers' weights, and a flag."""
    sums = reviews.sums((*BASE, "influence"))
    totals = sums.part(None)
    reviewer, model, cells = totals.by_reviewer("influence")
    codes, place = np.unique(reviewer, return_inverse=True)
    shares, n_votes = np.zeros((2, len(codes), len(totals.models)))
    shares[place, model], n_votes[place, model] = cells["share"], cells["votes"]
    at = {name: i for i, name in enumerate(totals.models)}
    own = [at.get(sums.names[code], -1) for code in codes.tolist()]
    peers = peer_weights(shares, n_votes, own)
    if peers is None:
        raise UsageError(
            "no reviewer is a model on this board, so there are no scores to use as weights.",
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
    return by_name, weights, flags


def _by_category(
    reviews: BoardReviews,
    parts: Sequence[ModelSums],
    meetings: Sequence[ModelSums | None],
) -> dict[str, list[Any]]:
    """Return the rows of each category's board, one board after the other."""
    columns: dict[str, list[Any]] = {"category": [], **{name: [] for name in COLUMNS}}
    two_way = reviews.options.interval == "two-way"
    for name, totals, met in zip(reviews.categories, parts, meetings, strict=True):
        part = board_columns(totals, reviews.options.rule, two_way=two_way, meetings=met)
        columns["category"] += [name] * len(part["model"])
        for column, values in part.items():
            columns.setdefault(column, []).extend(values)
    return columns


def _history(reviews: BoardReviews, weights: Floats | None) -> list[dict[str, Any]]:
    """Return each week's shares with their intervals, oldest week first.

    Weeks begin on Monday.
    """
    first = reviews.first_s()
    if first is None or reviews.latest is None:
        return []
    week, last = (int((t - MONDAY_S) // WEEK_S) for t in (first, reviews.latest))
    week = max(week, last - MAX_WEEKS + 1)
    sums = reviews.sums(BASE, weights, week * WEEK_S + MONDAY_S)
    points: list[dict[str, Any]] = []
    for at in range(last - week + 1):
        part = board_columns(sums.part(at), "borda")
        start = iso((week + at) * WEEK_S + MONDAY_S)[:10]
        points += [
            {"week": start, **dict(zip(POINT, row, strict=True))}
            for row in zip(*(part[name] for name in POINT), strict=True)
        ]
    return points
