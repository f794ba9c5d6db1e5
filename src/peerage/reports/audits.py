"""The audit of many sessions: selects the rows to audit and the findings to show."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from peerage.biases.decision_votes import VotedQuestion, vote_findings
from peerage.biases.many_sessions import (
    AuditPlan,
    Measured,
    Totals,
    add_totals,
    compared_over,
    measure_audit,
    plan,
    split_metrics,
    sums_of,
)
from peerage.engines.review_tables import ReviewTable
from peerage.errors import InputError, UsageError, few, how_many
from peerage.findings import Audit, AuditLimits, Finding, Scorecard
from peerage.labels.judged import is_binary
from peerage.labels.scorecards import scorecards
from peerage.panel_probabilities import questions_in, voted_questions
from peerage.reports.judge_versions import (
    add_versions,
    find_versions,
    version_flags,
    versions_document,
)
from peerage.reports.options import AuditOptions
from peerage.reports.people_reviews import (
    add_decisions,
    find_people,
    in_one_block,
    people_departures,
)
from peerage.reports.recounts import select_reviews
from peerage.reviews.cells import Floats, Ints, dense, places, table_of
from peerage.reviews.columns import MARK, span_s
from peerage.reviews.comparisons import length_limits, with_lengths
from peerage.reviews.flags import (
    N_NAMED,
    alike_flags,
    count_kinds,
    count_seals,
    kind_flags,
    seal_flags,
    sealed_reviewers,
)
from peerage.reviews.gold import DECISIONS, is_by_person, people_in, spread_correctness
from peerage.reviews.rows import Rows, has_duplicates
from peerage.stores import Store
from peerage.types import Rubric
from peerage.view import SessionView

OTHER_SCALE = "people's labels are on another scale, so only judges are compared with each other"


def audit_reviews(
    table: ReviewTable,
    options: AuditOptions,
    limits: AuditLimits,
    rubric: Rubric | None = None,
    votes: VoteAudit | None = None,
) -> Audit:
    """Return the audit of the reviewers of a table of reviews, plus the audit of votes if given."""
    window = span_s(options.since)
    earliest = None if window is None or table.latest is None else table.latest - window
    chosen = select_reviews(table.load(text="text" in table.columns), options, rubric)
    chosen = chosen.change(lambda rows: rows.only(rows.since(earliest)))
    chosen = chosen.change(spread_correctness).settle()
    if any(chosen.map(has_duplicates)):
        table.refuse_duplicates()
    if "family" in table.columns and any(chosen.map(_has_two_families)):
        raise InputError(
            "the column `family` gives several families to one candidate, and to one reviewer.",
            hint="`family` is the family of the candidate (or of the reviewer): one per name.",
        )
    everyone = chosen
    if has_other_scale := any(chosen.map(_people_mark_otherwise)):
        chosen = chosen.change(lambda rows: rows.only(~is_by_person(rows))).settle()
    chosen = clip_lengths(chosen)
    names = chosen.names
    unscored = _find_unscored(chosen)
    value = _value_column(table, options.dimension, unscored)
    measured = _measure(chosen, value, limits)
    if value == "score" and unscored.reviewers:
        ranks = _measure(chosen, "rank", limits)
        measured = measured.with_ranked(ranks, unscored.reviewers, unscored.n_reviews)
    audit = measured.audit()
    views = {**audit.views, "since": options.since, "not_finite": table.not_finite}
    views |= options.chosen
    if seals := sealed_reviewers(chosen.map(count_seals)):
        views["seals"] = seals
    if versions := add_versions(chosen.map(find_versions)):
        views["fingerprints"] = versions_document(versions)
    changes = [*version_flags(versions), *kind_flags(chosen.map(count_kinds))]
    if value == "score":
        changes += unscored.flags()
    if has_other_scale:
        changes.append(OTHER_SCALE)
    if flags := (*table.flags, *alike_flags(names), *seal_flags(seals), *changes):
        views["flags"] = flags
    if people := sorted(set[str]().union(*chosen.map(people_in))):
        views["people"] = people
    if options.people is not None:
        named = find_people(add_decisions(everyone), options.people)
        views["judged_beside"] = sorted(named)
        departures = people_departures(everyone, named)
        audit = replace(audit, findings=(*audit.findings, *departures))
    audit = replace(audit, views=views, against_people=_against_people(everyone, people, options))
    if votes is not None:
        audit = votes.add_to(audit)
        names = (*names, *votes.seats)
    return audit if options.reviewer is None else _about(audit, options.reviewer, names)


def _people_mark_otherwise(rows: Rows) -> bool:
    """Return whether people say pass or fail and judges give marks, or the other way round."""
    by_person, score = is_by_person(rows), rows.number("score")
    sides = [score[side & np.isfinite(score)] for side in (by_person, ~by_person)]
    return all(map(len, sides)) and is_binary(sides[0]) != is_binary(sides[1])


def _against_people(
    table: ReviewTable, people: Collection[str], options: AuditOptions
) -> tuple[Scorecard, ...]:
    """Return the scorecard of each judge, if people gave ballots or decisions."""
    if options.people is not None:
        people = {*people, *options.people}
    if not people and "correct" not in table.columns:
        return ()
    rows = in_one_block(add_decisions(table))
    cards = scorecards(rows, {*people, DECISIONS}, options.half_width, options.error)
    return tuple(one for one in cards if options.reviewer in (None, one.judge))


@dataclass(frozen=True, slots=True)
class VoteAudit:
    """The findings about seats that vote on typed questions, and the numbers of questions."""

    findings: tuple[Finding, ...]
    n_questions: int
    n_labelled: int

    @property
    def seats(self) -> list[str]:
        return sorted({one.subject for one in self.findings})

    def add_to(self, audit: Audit) -> Audit:
        """Return an audit with these findings too."""
        counts = {"questions": self.n_questions, "labelled": self.n_labelled}
        views = {**audit.views, "votes": counts}
        return replace(audit, findings=(*audit.findings, *self.findings), views=views)

    def alone(self, options: AuditOptions) -> Audit:
        """Return the audit of a store that has votes and no reviews."""
        views = {"since": options.since, **options.chosen}
        audit = self.add_to(Audit((), {}, views))
        named = options.reviewer
        return audit if named is None else _about(audit, named, tuple(self.seats))


def audit_votes(store: Store, options: AuditOptions, limits: AuditLimits) -> VoteAudit | None:
    """Return the audit of a store's votes on typed questions; None without votes.

    Decisions belong to no season and have no marks, so an audit of some reviews leaves them out.
    """
    if options.dimension is not None or set(options.chosen) - {"without"}:
        return None
    audit = _audit_questions(voted_questions(store, span_s(options.since)), limits, options.without)
    return audit if audit.findings else None


def audit_decision(view: SessionView, limits: AuditLimits) -> Audit:
    """Return the audit of the votes of one decision; most of its findings are `too_few`."""
    audit = _audit_questions(questions_in(view.query, view.facts), limits)
    return audit.add_to(Audit((), {}, {}))


def _audit_questions(
    questions: Sequence[VotedQuestion], limits: AuditLimits, without: Collection[str] = ()
) -> VoteAudit:
    n_labelled = sum(one.correct is not None for one in questions)
    return VoteAudit(vote_findings(questions, limits, without), len(questions), n_labelled)


def _has_two_families(rows: Rows) -> bool:
    return "family" in rows.keys and rows.family is None


def clip_lengths(table: ReviewTable) -> ReviewTable:
    """Return a settled table with lengths for the metrics, outliers clipped."""
    if "words" not in table.columns:
        return table
    counts = zip(*table.map(_length_counts), strict=True)
    candidate, words, n = (np.concatenate(values) for values in counts)
    limits = length_limits(candidate, words, n, len(table.names))
    return table.change(partial(with_lengths, limits=limits))


def _length_counts(rows: Rows) -> tuple[Ints, Floats, Floats]:
    """Return candidates, the lengths of their answers, and the number of reviews of each."""
    words = rows.number("words")
    known = places(np.isfinite(words))
    whole = np.clip(np.rint(words[known]), 0.0, 1e12).astype(np.int64)
    code, n_lengths = dense(whole)
    lengths = np.zeros(n_lengths)
    lengths[code] = whole
    counts = table_of(rows.candidate[known], code, [None])
    (n,) = counts.sums.T
    return counts.subject, lengths[counts.cluster], n


@dataclass(frozen=True, slots=True)
class _Unscored:
    """The reviews that have a rank and no score."""

    are_most: bool  # of all reviews with a rank or a score
    reviewers: frozenset[str] = frozenset()  # those who give no score at all
    n_reviews: int = 0  # of these reviewers
    n_others: int = 0  # of reviewers who give scores too

    def flags(self) -> list[str]:
        """Return what an audit of scores does with these reviews."""
        flags = []
        if self.reviewers:
            names = few(sorted(self.reviewers), N_NAMED)
            flags.append(f"no scores, so audited by their rankings: {names}")
        if self.n_others:
            others = how_many(self.n_others, "review")
            flags.append(f"{others} with a rank and without a score not audited")
        return flags


def _find_unscored(table: ReviewTable) -> _Unscored:
    if not {"rank", "score"} <= set(table.columns):
        return _Unscored(are_most="rank" in table.columns)
    if table.n_ranks == table.n_scores == table.n_rows:
        return _Unscored(are_most=False)
    unscored, scored = np.sum(table.map(_count_scores), axis=0)
    only = unscored * (scored == 0)
    names = frozenset(table.names[code] for code in np.flatnonzero(only).tolist())
    n_reviews, n_others = int(only.sum()), int((unscored - only).sum())
    return _Unscored(bool(unscored.sum() > scored.sum()), names, n_reviews, n_others)


def _count_scores(rows: Rows) -> Ints:
    """Return the number of ranks without a score, and of scores, of each reviewer."""
    ranked, scored = (np.isfinite(rows.number(name)) for name in ("rank", "score"))
    counted, k = (ranked & ~scored, scored), len(rows.names)
    return np.stack([np.bincount(rows.reviewer[some], minlength=k) for some in counted])


def _measure(table: ReviewTable, value: str, limits: AuditLimits) -> Measured:
    """Return the results of every metric on one column of a settled table."""
    planned = plan(table.columns, value)
    totals = _add_up(table, planned)
    compared = compared_over(table.map, totals, planned, limits)
    return measure_audit(totals, compared, table.names, planned, limits)


def _add_up(table: ReviewTable, planned: AuditPlan) -> Totals:
    """Return the sums of every metric; metrics across sessions only use repeated queries."""
    within, across = split_metrics(planned)
    if across.metrics != ("consistency",) or "query_id" not in table.columns or table.rounds:
        return add_totals(table.map(partial(sums_of, plan=planned)))
    totals = add_totals(table.map(partial(sums_of, plan=within)))
    compared = add_totals(table.change(_asked_again).map(partial(sums_of, plan=across)))
    return totals.with_metrics(compared.by_metric, compared.failed)


def _asked_again(rows: Rows) -> Rows:
    """Return the rows of queries that several sessions of this block asked.

    All sessions of a query are in one block.
    """
    query, n = rows.keys["query_id"], len(rows.labels["query_id"])
    sessions = np.unique(rows.session[query >= 0] * n + query[query >= 0])
    again = np.append(np.bincount(sessions % max(n, 1), minlength=n) > 1, False)
    return rows.only(again[query])


def _value_column(table: ReviewTable, dimension: str | None, unscored: _Unscored) -> str:
    """Return the column to audit: marks if requested, else scores, or ranks if most lack scores."""
    if dimension is not None:
        name = f"{MARK}{dimension}"
        if name not in table.columns:
            marks = [c.removeprefix(MARK) for c in table.columns if c.startswith(MARK)]
            raise UsageError(
                f"no review has a mark for {dimension!r}.",
                hint=f"Known: {', '.join(marks) or 'none'}.",
            )
        return name
    by_use = ["rank", "score"] if unscored.are_most else ["score", "rank"]
    for name in by_use:
        if name in table.columns:
            return name
    raise InputError(
        "the table has marks but neither a rank nor a score.", hint="Name a dimension to audit."
    )


def _about(audit: Audit, reviewer: str, names: tuple[str, ...]) -> Audit:
    """Return the findings and tastes about one reviewer and its pairs."""
    if reviewer not in names:
        known = ", ".join(names[:20])
        raise UsageError(f"there is no reviewer {reviewer!r} here.", hint=f"Known: {known}.")
    findings = tuple(
        finding
        for finding in audit.findings
        if finding.subject == reviewer or finding.subject.startswith(f"{reviewer}>")
    )
    tastes = audit.tastes
    if tastes is not None:
        own = tuple(one for one in tastes.departures if one.reviewer == reviewer)
        tastes = replace(tastes, departures=own)
    return replace(audit, findings=findings, tastes=tastes)
