"""What the votes on typed questions tell of a seat, and what they cannot tell."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerage.biases.decision_votes import (
    METRICS,
    NO_LABELS,
    NO_OTHER,
    NO_PREDICATE,
    NO_PROBABILITIES,
    SAME_VOTE,
    VotedQuestion,
    vote_findings,
)
from peerage.findings import AuditLimits
from peerage.types import Option, TypedQuestion

LIMITS = AuditLimits()
URGENT = TypedQuestion("urgent", "predicate", "It is urgent.")
TEAM = TypedQuestion("team", "choice", "Who?", (Option("a"), Option("b")))
# By seat: skill, sureness, leaning to yes, and whether it gives one option alone.
FAIR = {
    "sure": (0.6, 4.0, 0.0, False),
    "calm": (0.8, 1.0, 0.0, False),
    "good": (1.2, 2.0, 0.0, False),
    "writes": (1.0, 1.0, 0.0, True),
    "noisy": (0.5, 1.0, 0.0, True),
}


def panel(seed, n=200, seats=FAIR, base=0.4, n_labels=100):
    """Questions with a truth, on which seats vote that differ in skill and in sureness."""
    rng = np.random.default_rng(seed)
    for i in range(n):
        truth = rng.random() < base
        votes = {}
        for name, (skill, sureness, lean, is_hard) in seats.items():
            evidence = (2 * truth - 1) * skill + rng.standard_normal() + lean
            chance = round(float(1 / (1 + np.exp(-sureness * evidence))), 2)
            chance = float(evidence > 0) if is_hard else chance
            if rng.random() > 0.05:  # else it abstains
                votes[name] = (chance, round(1 - chance, 2))
        label = int(not truth) if i < n_labels else None
        yield VotedQuestion(f"q{i}", URGENT if i % 2 else TEAM, votes, label)


def by_key(questions, **options):
    findings = vote_findings(list(questions), LIMITS, **options)
    return {(one.metric, one.subject): one for one in findings}


@pytest.mark.slow
def test_seats_that_differ_in_skill_and_sureness_alone_are_not_accused_of_leaning():
    n_alarms = n = 0
    for seed in range(10):
        for base in (0.1, 0.4, 0.8):
            findings = by_key(panel(seed, base=base)).values()
            leaning = [one for one in findings if one.metric in ("vote_lean", "vote_first")]
            n_alarms += sum(one.status in ("evidence", "indicator") for one in leaning)
            n += len(leaning)
    assert n == 300
    assert n_alarms <= 0.05 * n


def test_planted_faults_are_named():
    faulty = FAIR | {"yes": (1.0, 2.0, 1.5, False), "coin": (0.0, 2.0, 0.0, False)}
    findings = by_key(panel(1, n=600, seats=faulty, n_labels=400))
    assert findings["vote_lean", "yes"].status == "indicator"
    assert findings["vote_first", "yes"].value > 0.1
    assert findings["vote_agreement", "coin"].status == "evidence"
    assert findings["vote_labels", "coin"].status == "evidence"
    assert findings["vote_labels", "good"].status == "clear"
    assert findings["vote_sureness", "sure"].status == "evidence"
    assert findings["vote_sureness", "sure"].value > 0.1


def test_a_number_that_the_votes_cannot_give_has_a_reason_in_its_place():
    votes = [VotedQuestion(f"q{i}", TEAM, {"a": (1.0, 0.0), "b": (0.2, 0.8)}) for i in range(60)]
    findings = by_key(votes)
    assert {one.note for one in findings.values() if one.metric == "vote_labels"} == {NO_LABELS}
    assert findings["vote_agreement", "a"].note == SAME_VOTE
    assert findings["vote_lean", "a"].note == NO_PREDICATE
    assert by_key(votes, without=["b"])["vote_agreement", "a"].note == NO_OTHER
    labelled = [VotedQuestion(one.query, TEAM, one.votes, 0) for one in votes]
    assert by_key(labelled)["vote_sureness", "a"].note == NO_PROBABILITIES
    unknown = [one for one in findings.values() if one.value is None]
    assert {one.status for one in unknown} == {"not_identifiable"}


def test_few_questions_and_one_query_asked_again_are_never_evidence():
    few = by_key(panel(2, n=20, n_labels=20)).values()
    assert {one.status for one in few} <= {"too_few", "not_identifiable", "indicator"}
    again = [VotedQuestion("q", one.question, one.votes, one.correct) for one in panel(2)]
    assert all(one.p is None for one in by_key(again).values())


chances = st.floats(0, 1).map(lambda p: (p, 1 - p))


@settings(max_examples=50)
@given(st.lists(st.dictionaries(st.sampled_from("abc"), chances, min_size=1), min_size=1))
def test_votes_of_any_kind_have_findings_with_finite_numbers(votes):
    questions = [
        VotedQuestion(f"q{i}", URGENT if i % 3 else TEAM, one, i % 2 if i % 5 else None)
        for i, one in enumerate(votes)
    ]
    findings = vote_findings(questions, LIMITS)
    assert {one.metric for one in findings} <= set(METRICS)
    for one in findings:
        assert (one.value is None) == (one.status == "not_identifiable")
        numbers = [x for x in (one.value, one.low, one.high, one.p, one.q) if x is not None]
        assert all(np.isfinite(numbers))


def test_the_share_right_is_that_of_a_plain_count():
    questions = list(panel(5))
    own = [one for one in questions if one.correct is not None and "writes" in one.votes]
    right = sum(one.votes["writes"][one.correct] for one in own) / len(own)
    finding = by_key(questions)["vote_labels", "writes"]
    assert finding.value == pytest.approx(2 * right - 1)
    assert finding.n == len(own)
