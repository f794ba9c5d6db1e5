"""The second corpus: what was meant or an abstention, and daily replies are read."""

import random

import pytest

from peerage.config.rubrics import shipped_rubric
from peerage.council.ballots import parse, parse_decision
from peerage.council.counting import count
from peerage.types import Ballot, Slot
from tests.council import second_corpus as corpus
from tests.council.second_corpus import Case

BALLOT = Ballot("judge", tuple(Slot(label, f"model-{label}") for label in "ABC"))
SIZES = [pytest.param(1_000, id="quick"), pytest.param(25_000, id="slow", marks=pytest.mark.slow)]


def order(text: str) -> str | None:
    """The order that a reply's ballot counts for, or None for an abstention."""
    review = parse(text, BALLOT)
    rubric = None if review.ranking or review.scores else shipped_rubric("general")
    counted = count(BALLOT, review, rubric)
    seen: set[str] = set()
    tiers = []
    for tier in counted.ranking:
        names = sorted({name[-1] for name in tier if name} - seen)
        seen.update(names)
        tiers += ["=".join(names)] if names else []
    return ">".join(tiers) or None


def meant(case: Case) -> str | None:
    if not isinstance(case.meant, str):
        return None
    return ">".join("=".join(sorted(tier.split("="))) for tier in case.meant.split(">"))


@pytest.mark.parametrize("case", [*corpus.RANKINGS, *corpus.wrapped_rankings()])
def test_a_reply_gives_the_ranking_that_was_meant_or_none(case: Case):
    read = order(case.text)
    assert read == meant(case) or (read is None and not case.must)


@pytest.mark.parametrize("case", [*corpus.DECISIONS, *corpus.wrapped_decisions()])
def test_a_reply_gives_the_decision_that_was_meant_or_none(case: Case):
    read = parse_decision(case.text).approved
    assert read is case.meant or (read is None and not case.must)


@pytest.mark.parametrize("n_cases", SIZES)
def test_a_generated_reply_gives_what_was_meant_or_none(n_cases: int):
    rng = random.Random("second")
    n_read = 0
    for _ in range(n_cases):
        ranking, decision = corpus.generated_ranking(rng), corpus.generated_decision(rng)
        read, approved = order(ranking.text), parse_decision(decision.text).approved
        assert read in (meant(ranking), None), ranking
        assert approved in (decision.meant, None), decision
        n_read += (read is not None) + (approved is not None)
    assert n_read > n_cases * 0.8  # of twice as many; a reader that always abstains proves nothing


@pytest.mark.parametrize("n_cases", SIZES)
def test_a_verdict_that_is_cut_off_leaves_no_other_in_its_place(n_cases: int):
    rng = random.Random("cut")
    templates = [t for _, t in corpus.WRAPPINGS if "%V" in t and t.rindex("%V") > t.rfind("%X")]
    for _ in range(n_cases):
        own = corpus.ranking_json(rng, [["B"], ["C"], ["A"]])
        text = corpus.wrap(
            rng.choice(templates), own, corpus.ranking_json(rng, [["A"], ["B"], ["C"]])
        )
        read = order(text[: text.rindex(own) + rng.randrange(1, len(own))])
        assert read in (None, "B", "B>C", "B>C>A"), text
        own = corpus.decision_json(rng, approved=False)
        text = corpus.wrap(rng.choice(templates), own, corpus.decision_json(rng, approved=True))
        decision = parse_decision(text[: text.rindex(own) + rng.randrange(1, len(own))])
        assert decision.approved is not True, text
