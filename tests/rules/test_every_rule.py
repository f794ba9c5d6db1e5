"""What must hold for every rule, whatever its formula."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from peerage.rules import rules
from peerage.types import Placing

EVERY = ["borda", "bradley_terry", "copeland", "elo", "hybrid", "marks", "mean_rank", "schulze"]
EXACT = ["borda", "copeland", "hybrid", "mean_rank", "schulze"]
TOLERANCE = 1e-9


def renamed(placing: Placing, new: dict[str, str]) -> Placing:
    return replace(
        placing,
        doubled={new[name]: place for name, place in placing.doubled.items()},
        first=None if placing.first is None else new[placing.first],
        scores={new[name]: score for name, score in placing.scores.items()},
    )


def test_the_registry_finds_every_rule_by_name():
    """`pairwise` is shared arithmetic, not a rule."""
    assert set(EVERY) <= set(rules.names())
    assert "pairwise" not in rules.names()


@given(data=st.data())
def test_renaming_the_candidates_renames_the_values(data, elections):
    """No rule favours a name or a place in the list."""
    placings, names = data.draw(elections)
    new = dict(zip(names, data.draw(st.permutations(names)), strict=True))
    for name in EVERY:
        values = rules.get(name).values
        moved = values([renamed(placing, new) for placing in placings], names)
        before = {new[old]: value for old, value in values(placings, names).items()}
        same = before if name in EXACT else pytest.approx(before, abs=TOLERANCE)
        assert moved == same, name


@given(data=st.data())
def test_the_order_of_ballots_matters_to_elo_alone(data, elections):
    """For every other rule it changes no bit."""
    placings, names = data.draw(elections)
    shuffled = data.draw(st.permutations(placings))
    for name in set(EVERY) - {"elo"}:
        values = rules.get(name).values
        assert values(placings, names) == values(shuffled, names), name


@given(data=st.data())
def test_a_candidate_that_every_ballot_ranks_first_is_first(data, elections):
    """Unanimity, with scores that agree with the places where a rule reads scores."""
    placings, names = data.draw(elections)
    ballots = []
    for placing in placings:
        others = {rival: place + 2 for rival, place in placing.doubled.items()}
        doubled = {"gnu": 0, **others}
        scores = {who: 10 - Fraction(place, 2) for who, place in doubled.items()}
        ballots.append(Placing("reviewer", placing.n + 1, doubled, "gnu", scores))
    assume(any(placing.doubled for placing in placings))
    for name in EVERY:
        rule = rules.get(name)
        values = dict(rule.values(ballots, (*names, "gnu")))
        best = values.pop("gnu")
        nearest = min(values.values()) if rule.lower_is_better else max(values.values())
        assert best < nearest if rule.lower_is_better else best > nearest, name


@given(data=st.data())
def test_only_voted_candidates_are_valued_and_exactly_or_finitely(data, elections):
    """No number without a vote, fractions where order depends on them, never a NaN."""
    placings, names = data.draw(elections)
    voted = {who for placing in placings for who in placing.doubled}
    for name in EVERY:
        values = rules.get(name).values(placings, names)
        kind = Fraction if name in EXACT else float
        assert set(values) <= voted, name
        assert all(isinstance(v, kind) and abs(v) < 1e6 for v in values.values()), name
