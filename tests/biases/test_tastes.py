"""The audit lists every reviewer's departures by model, its own answers marked."""

from __future__ import annotations

import json

import pytest

from peerage.findings import Audit, AuditTastes, Departure
from peerage.reports.from_tables import audit
from tests.shared.simulated_reviews import Planted, SimulatedSeason, simulated_reviews

SEATS = ("a", "b", "c", "d", "e", "f")
SPREADS = {"a": 0.5, "b": 1.5}
PLANTED = Planted(self_preference={"a": 1.0}, favours={("b", "c"): 1.2})


@pytest.fixture(scope="module")
def audited() -> Audit:
    season = SimulatedSeason(SEATS, n_sessions=120, spread=SPREADS, tastes=0.1)
    return audit(simulated_reviews(season, PLANTED, 1))


def tastes_of(found: Audit) -> AuditTastes:
    assert found.tastes is not None
    return found.tastes


def departure(found: Audit, reviewer: str, candidate: str) -> Departure:
    (one,) = (
        one
        for one in tastes_of(found).departures
        if (one.reviewer, one.candidate) == (reviewer, candidate)
    )
    return one


def test_every_pair_is_listed_once_and_own_answers_are_marked(audited: Audit) -> None:
    departures = tastes_of(audited).departures
    pairs = [(one.reviewer, one.candidate) for one in departures]
    assert sorted(pairs) == [(a, b) for a in SEATS for b in SEATS]
    assert all(one.own == (one.reviewer == one.candidate) for one in departures)
    assert {one.n for one in departures} == {120}
    assert tastes_of(audited).spread_status == "estimated"


def test_planted_preferences_are_the_highest_departures(audited: Audit) -> None:
    for reviewer, favoured in (("a", "a"), ("b", "c")):
        one = departure(audited, reviewer, favoured)
        mine = [other for other in tastes_of(audited).departures if other.reviewer == reviewer]
        assert one.value == max(other.value or 0.0 for other in mine)
        assert one.low is not None
        assert one.low > 0.2


def test_departures_are_those_of_the_findings_in_the_reviewers_own_sd(audited: Audit) -> None:
    """So the ratio of the two is the same on all of a reviewer's candidates."""
    value_by_subject = {
        (one.metric, one.subject): one.value
        for one in audited.findings
        if one.metric in ("pair_departure", "self_preference")
    }
    for reviewer in SEATS:
        units = []
        for one in tastes_of(audited).departures:
            subject = ("pair_departure", f"{reviewer}>{one.candidate}")
            subject = ("self_preference", reviewer) if one.own else subject
            value = value_by_subject.get(subject)
            if one.reviewer == reviewer and one.value and value:
                units.append(value / one.value)
        assert len(units) == len(SEATS)
        assert max(units) == pytest.approx(min(units))
        assert min(units) > 0.0


def test_intervals_are_over_sessions_and_narrower_than_those_of_the_findings(
    audited: Audit,
) -> None:
    """A finding's interval holds the scatter of tastes too, which is what is being shown here."""
    own = next(
        one for one in audited.findings if (one.metric, one.subject) == ("self_preference", "a")
    )
    one = departure(audited, "a", "a")
    assert None not in (one.value, one.low, one.high, own.value, own.low, own.high)
    ours = ((one.high or 0.0) - (one.low or 0.0)) / (one.value or 1.0)
    theirs = ((own.high or 0.0) - (own.low or 0.0)) / (own.value or 1.0)
    assert 0.0 < ours < theirs


def test_the_json_has_tastes_beside_findings_that_stay_as_they_were(audited: Audit) -> None:
    document = json.loads(json.dumps(audited.document(), allow_nan=False))
    assert list(document) == ["findings", "n_able", "parameters", "tastes"]
    assert set(document["tastes"]) == {"spread", "spread_status", "departures"}
    keys = ["reviewer", "candidate", "own", "value", "low", "high", "n", "note"]
    assert list(document["tastes"]["departures"][0]) == keys


def test_one_reviewer_is_shown_with_its_own_tastes_alone() -> None:
    season = SimulatedSeason(SEATS, n_sessions=40)
    narrowed = audit(simulated_reviews(season, Planted(), 2), reviewer="c")
    assert {one.reviewer for one in tastes_of(narrowed).departures} == {"c"}
    assert len(tastes_of(narrowed).departures) == len(SEATS)


def test_what_cannot_be_told_has_no_number_and_says_why() -> None:
    """Of three peers no pair can be told: one other reviewer stands beside each."""
    season = SimulatedSeason(("a", "b", "c"), n_sessions=40)
    found = tastes_of(audit(simulated_reviews(season, Planted(), 3)))
    assert found.spread_status == "assumed"
    pairs = [one for one in found.departures if not one.own]
    assert len(pairs) == 6
    assert all((one.value, one.low, one.high) == (None, None, None) for one in pairs)
    assert all("only one other reviewer" in one.note for one in pairs)


def test_ranks_alone_have_tastes_too() -> None:
    table = simulated_reviews(SimulatedSeason(SEATS, n_sessions=120), PLANTED, 4)
    score = table.pop("score").astype(float).reshape(-1, len(SEATS))  # a ballot a line
    rank = 1 + (score[:, None, :] > score[:, :, None]).sum(axis=2)
    one = departure(audit({**table, "rank": rank.ravel()}), "b", "c")
    assert one.value is not None
    assert one.value > 0.2
