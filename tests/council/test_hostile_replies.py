"""Hostile replies against an independent oracle: what the reviewer meant, or an abstention."""

import random

import pytest

from peerage.council.ballots import parse, parse_decision
from peerage.types import Ballot, Review, Slot
from tests.council.hostile_replies import LABELS, RankingCase, decision_case, ranking_case

BALLOT = Ballot("judge", tuple(Slot(label, f"model-{label}") for label in LABELS))
SIZES = [pytest.param(1_000, id="quick"), pytest.param(25_000, id="slow", marks=pytest.mark.slow)]


def is_meant(review: Review, case: RankingCase) -> bool:
    """Whether a review is an abstention or the verdict that was meant."""
    said = [sorted(tier) for tier in review.ranking]
    meant = [sorted(tier) for tier in case.meant]
    if case.is_cut_prose:
        named = {label for tier in said for label in tier}
        meant = [kept for tier in meant if (kept := [label for label in tier if label in named])]
    return bool(review.abstained) or (said == meant if said else not review.scores)


@pytest.mark.parametrize("n_cases", SIZES)
def test_a_hostile_reply_gives_the_ranking_that_was_meant_or_none(n_cases: int):
    rng = random.Random("rankings")
    n_read = 0
    for _ in range(n_cases):
        case = ranking_case(rng)
        review = parse(case.text, BALLOT)
        assert is_meant(review, case), (case, review)
        n_read += not review.abstained
    assert n_read > n_cases / 4  # a reader that always abstains proves nothing


@pytest.mark.parametrize("n_cases", SIZES)
def test_a_hostile_reply_gives_the_decision_that_was_meant_or_none(n_cases: int):
    rng = random.Random("decisions")
    n_read = 0
    for _ in range(n_cases):
        case = decision_case(rng)
        decision = parse_decision(case.text)
        assert decision.approved in (case.meant, None), (case, decision)
        n_read += decision.approved is not None
    assert n_read > n_cases / 4
