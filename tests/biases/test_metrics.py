"""Every planted bias is named, fair judges are not, and what cannot be known is said so."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from peerage.biases import decision_votes, metrics, thresholds
from peerage.biases.many_sessions import ORDER, plan, q_values
from peerage.findings import HEALTHY, N_MIN, Audit, AuditLimits, Finding
from tests.shared.encoded import audit_rows, rows_of
from tests.shared.one_scale import PANEL
from tests.shared.simulated_reviews import Planted, SimulatedSeason, simulated_reviews

FAMILIES = {"a": "one", "b": "one"}
SIX = tuple("abcdef")  # with fewer candidates a preference cannot be told from a taste


def audited(columns: dict[str, np.ndarray], value: str = "score") -> Audit:
    rows = rows_of(columns)
    agreed = plan(tuple(columns), value)
    return audit_rows(rows, agreed, AuditLimits())


def season(planted: Planted = Planted(), seed: int = 1, **choices: object) -> Audit:  # noqa: B008
    return audited(simulated_reviews(SimulatedSeason(**choices), planted, seed))  # type: ignore[arg-type]


def evidence(found: Audit) -> set[tuple[str, str]]:
    return {(one.metric, one.subject) for one in found.findings if one.status == "evidence"}


def of(found: Audit, metric: str, subject: str = "all") -> Finding:
    return next(o for o in found.findings if (o.metric, o.subject) == (metric, subject))


@pytest.mark.parametrize("order", ["shuffle", "balanced", "shared"])
def test_fair_judges_give_no_evidence(order: str) -> None:
    assert not evidence(season(order=order, repeats=0.1, families=FAMILIES, reasoning=True))


PLANTS = {
    "position": (Planted(position=0.7), ("position", "all"), {"position"}),
    "one position": (Planted(position_by={"b": 0.9}), ("position", "b"), {"position"}),
    "length of one": (
        Planted(length_by={"c": 0.6}),
        ("length_relative", "c"),
        {"length", "length_relative"},
    ),
    "self": (Planted(self_preference={"a": 1.0}), ("self_preference", "a"), {"self_preference"}),
    "harsh": (Planted(harshness={"d": -1.0}), ("calibration", "d"), {"calibration"}),
    "family": (
        Planted(family={"a": 0.9}),
        ("family_preference", "a"),
        {"family_preference", "pair_departure", "self_preference"},
    ),
    "anchoring": (Planted(anchoring=-0.3), ("anchoring", "all"), {"anchoring"}),
    "favour": (
        Planted(favours={("a", "c"): 1.5}),
        ("pair_departure", "a>c"),
        {"pair_departure", "self_preference", "family_preference", "calibration"},
    ),
    "drift": (Planted(drift={"e": 0.25}), ("drift", "e"), {"drift", "calibration"}),
    "unsteady": (Planted(unsteady={"e": 2.0}), ("consistency", "e"), {"consistency", "agreement"}),
    "reasoning": (
        Planted(reasoning=0.6),
        ("reasoning_length", "all"),
        {"reasoning_length", "consistency"},
    ),
}


@pytest.mark.parametrize("name", PLANTS)
@pytest.mark.parametrize("order", ["shuffle", "balanced"])
def test_a_planted_bias_is_named_and_nothing_it_does_not_move(name: str, order: str) -> None:
    planted, named, moved = PLANTS[name]
    choices = {"order": order, "repeats": 0.15, "reasoning": name == "reasoning"}
    found = evidence(season(planted, seats=SIX, families=FAMILIES, **choices))
    assert named in found
    assert {metric for metric, _ in found} <= moved


def test_setting_pairs_aside_publishes_no_effect_that_the_plain_scores_do_not_hold() -> None:
    """Two who favour each other among four: what is set aside may not become the usual."""
    favours = Planted(favours={("a", "b"): 3.0, ("b", "a"): 3.0})
    panel = replace(PANEL, seats=tuple("abcd"), n_sessions=100, families={})
    for seed in range(2):
        found = audited(simulated_reviews(panel, favours, seed))
        assert of(found, "self_preference", "a").status != "evidence"  # by hand it is −1
        assert of(found, "pair_departure", "a>d").status != "evidence"


def test_a_taste_for_its_own_style_is_named() -> None:
    found = season(Planted(style={"b": 1.5}), text=True)
    assert evidence(found) == {("style", "b")}


@pytest.mark.parametrize("planted", [Planted(length=0.5), Planted(length_of_quality=0.6)])
def test_length_that_may_be_quality_is_an_indicator_and_no_ones_bias(planted: Planted) -> None:
    found = season(planted)
    assert not evidence(found)
    assert of(found, "length").status == "indicator"
    assert "better" in of(found, "length").note


def test_length_beyond_correctness_is_evidence() -> None:
    found = season(Planted(length=0.5), reasoning=True)
    assert ("length", "all") in evidence(found)


WORDY = dict(zip("abcde", (2.0, -1.0, 0.0, -2.0, 1.0), strict=True))


def test_models_that_merely_differ_in_wordiness_and_quality_are_no_length_effect() -> None:
    skill = dict(zip("abcde", (1.0, -0.5, 0.0, -1.0, 0.5), strict=True))
    found = of(season(wordiness=WORDY, skill=skill), "length")
    assert abs(found.value or 0.0) < 0.1
    assert found.status != "indicator"
    assert "+0." in found.note.split("over all")[0]  # the plain correlation is there to see


def test_lengths_that_never_change_cannot_be_told_from_their_candidate() -> None:
    columns = simulated_reviews(SimulatedSeason(), Planted(), 1)
    columns["words"] = 100 + 50 * np.searchsorted(list("abcde"), columns["candidate"].astype(str))
    found = audited(columns)
    assert of(found, "length").status == "not_identifiable"
    assert of(found, "length").p is None


@pytest.mark.parametrize("planted", [Planted(), Planted(position=1.0)])
def test_one_shared_order_says_nothing_about_position(planted: Planted) -> None:
    found = season(planted, order="shared")
    assert of(found, "position").status == "not_identifiable"
    assert of(found, "anchoring").status == "not_identifiable"


def test_position_that_goes_with_the_candidate_is_not_identifiable() -> None:
    columns = simulated_reviews(SimulatedSeason(), Planted(), 1)
    columns["position"] = np.searchsorted(list("abcde"), columns["candidate"].astype(str))
    assert of(audited(columns), "position").status == "not_identifiable"


def test_twins_count_as_fewer_votes() -> None:
    alone, twins = season(), season(Planted(twins=(("a", "b"),)))
    assert of(alone, "effective_votes").value == pytest.approx(5.0, abs=0.5)
    assert of(twins, "effective_votes").value == pytest.approx(5 / 1.4, abs=0.5)
    assert "upper bound" in of(twins, "effective_votes").note


def test_three_reviewers_cannot_be_counted_without_known_answers() -> None:
    found = season(seats=("a", "b", "c"))
    assert of(found, "effective_votes").status == "not_identifiable"


def test_an_effect_is_measured_in_its_size() -> None:
    assert of(season(Planted(position=0.8)), "position").value == pytest.approx(0.8, abs=0.15)
    balanced = season(Planted(position=0.8), order="balanced")
    assert of(balanced, "position").value == pytest.approx(0.8, abs=0.15)
    assert of(balanced, "position", "b").value == pytest.approx(0.8, abs=0.3)
    own = season(Planted(self_preference={"a": 1.5}))
    assert of(own, "self_preference", "a").value == pytest.approx(1.5, abs=0.3)
    harsh = of(season(Planted(harshness={"d": -1.0})), "calibration", "d")
    assert "harsh" in harsh.note
    assert harsh.value is not None
    assert harsh.value < 5.5


def test_only_ranks_are_audited_as_shares() -> None:
    columns = ranked(simulated_reviews(SimulatedSeason(), Planted(position=1.0), 1))
    found = audited(columns, "rank")
    assert found.views["score"] == "share"
    assert ("position", "all") in evidence(found)


def test_pairs_of_answers_are_audited_like_lists() -> None:
    """Two candidates a session, outsiders judge, scores 0, ½ and 1."""
    rng = np.random.default_rng(2)
    rows = []
    for s in range(150):
        better = rng.normal(0, 1, 2)
        for judge in ("x", "y", "z", "w"):
            first = rng.integers(0, 2)
            bonus = np.where(np.arange(2) == first, 0.8 if judge == "x" else 0.0, 0.0)
            said = better + bonus + rng.normal(0, 0.5, 2)
            for c in range(2):
                won = float(said[c] > said[1 - c])
                rows.append((f"s{s}", judge, f"m{c}", won, int(c != first)))
    heads = ("session_id", "reviewer", "candidate", "score", "position")
    columns = {head: np.array([row[i] for row in rows]) for i, head in enumerate(heads)}
    found = audited(columns)
    assert ("position", "x") in evidence(found)
    assert not {subject for metric, subject in evidence(found) if metric == "position"} & set("yzw")


# -- bad input ------------------------------------------------------------------------------


def plain(found: Audit) -> None:
    """Every number is finite or None, and every finding has its reason."""
    for one in found.findings:
        for value in (one.value, one.low, one.high, one.p, one.q):
            assert value is None or np.isfinite(value)
        if one.status == "not_identifiable":
            assert one.note
    usual = {name for name, metric in metrics if not metric.is_rare}
    assert usual <= {one.metric for one in found.findings} <= set(metrics.names())


def small(n_sessions: int = 3, seats: str = "abc") -> dict[str, np.ndarray]:
    return simulated_reviews(SimulatedSeason(tuple(seats), n_sessions), Planted(), 1)


def test_one_session_is_too_few() -> None:
    found = audited(small(1))
    plain(found)
    assert not evidence(found)


def test_one_reviewer_has_a_mean_and_nobody_to_be_compared_with() -> None:
    columns = small(40)
    kept = columns["reviewer"] == "a"
    found = audited({name: values[kept] for name, values in columns.items()})
    plain(found)
    assert of(found, "calibration", "a").status == "not_identifiable"
    assert of(found, "position").status == "not_identifiable"


def test_constant_scores_say_nothing() -> None:
    columns = small(40)
    columns["score"] = np.full(len(columns["score"]), 7.0)
    found = audited(columns)
    plain(found)
    assert {one.status for one in found.findings} == {"not_identifiable"}


def test_all_abstained_says_nothing() -> None:
    columns = small()
    columns["score"] = np.full(len(columns["score"]), np.nan)
    found = audited(columns)
    plain(found)
    assert "abstained" in found.findings[0].note


def test_no_rows_say_nothing() -> None:
    found = audited({name: values[:0] for name, values in small().items()})
    plain(found)
    assert {one.status for one in found.findings} == {"not_identifiable"}


def test_missing_columns_name_themselves() -> None:
    columns = {name: small()[name] for name in ("session_id", "reviewer", "candidate", "score")}
    found = audited(columns)
    plain(found)
    assert "`position`" in of(found, "position").note
    assert "`words`" in of(found, "length").note


def test_missing_positions_are_left_out() -> None:
    columns = simulated_reviews(SimulatedSeason(), Planted(position=1.0), 1)
    position = columns["position"].astype(float)
    position[::7] = np.nan
    found = audited({**columns, "position": position})
    plain(found)
    assert ("position", "all") in evidence(found)


def test_a_very_long_answer_breaks_nothing() -> None:
    columns = small(40)
    columns["words"] = columns["words"].copy()
    columns["words"][5] = 48_000
    plain(audited(columns))


@pytest.mark.slow
def test_ten_thousand_reviewers_break_nothing() -> None:
    n = 10_000
    rng = np.random.default_rng(0)
    columns = {
        "session_id": np.array([f"s{i // 50}" for i in range(2 * n)]),
        "reviewer": np.array([f"r{i // 2:05d}" for i in range(2 * n)]),
        "candidate": np.array([f"c{i % 2}" for i in range(2 * n)]),
        "score": rng.integers(1, 11, 2 * n).astype(float),
        "position": np.tile([0, 1], n),
        "words": rng.integers(1, 500, 2 * n),
    }
    plain(audited(columns))


def test_every_documented_metric_is_there_with_its_limits() -> None:
    assert {*metrics.names(), *decision_votes.METRICS} == set(ORDER)
    assert set(ORDER) <= set(N_MIN)
    assert set(ORDER) <= set(HEALTHY)


def test_the_order_of_rows_changes_nothing() -> None:
    columns = simulated_reviews(SimulatedSeason(repeats=0.1), Planted(position=0.5), 3)
    mixed = np.random.default_rng(0).permutation(len(columns["score"]))
    forth = audited(columns)
    back = audited({name: values[mixed] for name, values in columns.items()})
    for one, other in zip(forth.findings, back.findings, strict=True):
        assert (one.metric, one.subject, one.status, one.n) == (
            other.metric,
            other.subject,
            other.status,
            other.n,
        )
        for name in ("value", "low", "high", "p"):
            ours, theirs = getattr(one, name), getattr(other, name)
            assert (ours is None) == (theirs is None)
            assert ours is None or ours == pytest.approx(theirs, rel=1e-9, abs=1e-9)


def test_one_query_asked_again_and_again_says_why_nothing_can_be_told() -> None:
    columns = simulated_reviews(SimulatedSeason(), Planted(harshness={"a": -1.0}), 1)
    columns["query_id"] = np.full(len(columns["score"]), "the same", dtype=object)
    found = of(audited(columns), "calibration", "a")
    assert (found.p, found.status) == (None, "not_identifiable")
    assert "one query" in found.note


def test_a_query_asked_twice_is_still_one_observation() -> None:
    columns = simulated_reviews(SimulatedSeason(n_sessions=60), Planted(), 3)
    again = {name: np.concatenate([values, values]) for name, values in columns.items()}
    copies = np.char.add(columns["session_id"].astype(str), " again")
    again["session_id"] = np.concatenate([columns["session_id"], copies])
    once, twice = audited(columns), audited(again)
    for metric in ("length", "calibration", "agreement"):
        one = next(o for o in once.findings if o.metric == metric and o.low is not None)
        other = of(twice, metric, one.subject)
        assert other.n == 2 * one.n
        assert (other.low, other.high) == pytest.approx((one.low, one.high), rel=1e-4)


# -- judges as they are ------------------------------------------------------------------------

SPREADS = dict(zip("abcde", (0.45, 0.7, 1.0, 1.3, 1.7), strict=True))


def ranked(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The same reviews with ranks only, equal scores as ties; ballots of five stand together."""
    score = columns.pop("score").astype(float).reshape(-1, 5)
    columns["rank"] = (1.0 + (score[:, None, :] > score[:, :, None]).sum(axis=2)).ravel()
    return columns


@pytest.mark.parametrize("value", ["score", "rank"])
def test_judges_who_merely_differ_in_spread_and_level_are_not_accused(value: str) -> None:
    columns = simulated_reviews(
        SimulatedSeason(spread=SPREADS, families=FAMILIES), Planted(harshness={"c": -1.5}), 4
    )
    found = audited(ranked(columns) if value == "rank" else columns, value)
    assert {metric for metric, _ in evidence(found)} <= {"calibration"}


def test_a_point_for_oneself_is_named_among_them() -> None:
    planted = Planted(self_preference={"c": 1.0})
    for columns, value in (
        (simulated_reviews(SimulatedSeason(SIX, spread=SPREADS), planted, 4), "score"),
        (ranked(simulated_reviews(SimulatedSeason(SIX, spread=SPREADS), planted, 4)), "rank"),
    ):
        assert evidence(audited(columns, value)) == {("self_preference", "c")}


def test_peers_who_all_rank_alike_give_no_finding_about_preference() -> None:
    rows = [
        (f"s{s}", r, c, 1.0 + "abcde".index(c), "one" if c in "ab" else c)
        for s in range(60)
        for r in "abcde"
        for c in "abcde"
    ]
    heads = ("session_id", "reviewer", "candidate", "rank", "family")
    found = audited(
        {head: np.array([row[i] for row in rows]) for i, head in enumerate(heads)}, "rank"
    )
    plain(found)
    for metric in (
        "self_preference",
        "family_preference",
        "pair_departure",
        "calibration",
        "drift",
    ):
        some = [one for one in found.findings if one.metric == metric]
        assert some
        assert {one.status for one in some} == {"not_identifiable"}
        assert {one.p for one in some} == {None}


def test_levels_and_scales_are_in_the_notes_and_in_the_views() -> None:
    found = season(spread=SPREADS)
    scales = {one["reviewer"]: one for one in found.views["scales"]}
    assert list(scales) == list("abcde")
    assert scales["e"]["scale"] > 2.0 * scales["a"]["scale"]
    assert scales["a"]["status"] == "estimated"
    assert "scale 0." in of(found, "calibration", "a").note


def test_a_scale_that_cannot_be_told_has_a_status_and_no_number() -> None:
    found = season(seats=("a", "b", "c"), own_votes=False)
    assert {one["status"] for one in found.views["scales"]} == {"assumed"}
    assert {one["scale"] for one in found.views["scales"]} == {None}
    assert "its scale is unknown" in of(found, "calibration", "a").note


def test_a_wide_reviewer_who_writes_like_good_answers_has_no_taste_for_style() -> None:
    """Fair judges whose spreads differ; the better an answer, the more it has of e's words."""
    rng = np.random.default_rng(4)
    columns = simulated_reviews(SimulatedSeason(), Planted(), 4)
    answers = dict.fromkeys(zip(columns["session_id"], columns["candidate"], strict=True))
    quality = {answer: rng.normal() for answer in answers}
    text = {
        (s, c): " ".join(
            f"{'e' if rng.random() < 1 / (1 + np.exp(-2 * q)) else c}word{rng.integers(9)}"
            for _ in range(30)
        )
        for (s, c), q in quality.items()
    }
    wide = np.array([SPREADS[name] for name in columns["reviewer"]])
    rows = list(zip(columns["session_id"], columns["candidate"], strict=True))
    columns["text"] = np.array([text[row] for row in rows], dtype=object)
    noise = rng.normal(0.0, 0.6, len(rows))
    columns["score"] = 6.0 + wide * (np.array([quality[row] for row in rows]) + noise)
    assert not {one for one in evidence(audited(columns)) if one[0] == "style"}


def test_two_rounds_in_swapped_orders_tell_who_favours_the_first() -> None:
    """All reviewers see one order in each round, so only a reviewer's own rounds can tell."""
    rng = np.random.default_rng(2)
    rows = []
    for s in range(80):
        quality = rng.normal(0.0, 1.0, 2)
        for who, bonus in (("x", 1.0), ("y", 0.0), ("z", -0.5)):
            for again in (0, 1):
                for i, name in enumerate("ab"):
                    place = (i + again + s) % 2
                    score = 6.0 + quality[i] + bonus * (place == 0) + rng.normal(0.0, 0.5)
                    rows.append((f"s{s:02d}", who, name, again, place, score))
    heads = ("session_id", "reviewer", "candidate", "round", "position", "score")
    found = audited({head: np.array([row[i] for row in rows]) for i, head in enumerate(heads)})
    for who, bonus in (("x", 1.0), ("y", 0.0), ("z", -0.5)):
        one = of(found, "position", who)
        assert one.low is not None
        assert one.high is not None
        assert one.low < bonus < one.high
    assert {("position", "x"), ("position", "z")} <= evidence(found)
    assert of(found, "anchoring").status == "not_identifiable"


def test_what_one_metric_finds_lowers_the_bar_for_no_other() -> None:
    """Five evident levels leave the q of everything else as it is without them."""

    def tested(metric: str, p: float) -> thresholds.Tested:
        return thresholds.Tested(metric, "a", 1.0, 0.5, 1.5, p, 99, 20, 0.1)

    doubtful = [tested("length_relative", 0.004), tested("pair_departure", 0.5)]
    levels = [tested("calibration", 1e-9) for _ in range(5)]
    assert q_values([*doubtful, *levels])[0] == pytest.approx(0.004 * 7)
    assert q_values([*doubtful, *levels])[-1] == pytest.approx(1e-9 * 7 / 5)
    of_all = replace(tested("position", 0.004), subject="all")
    qs = q_values([of_all, *doubtful, *levels])
    assert qs[0] == pytest.approx(0.004 / 0.25)
    assert qs[1] == pytest.approx(0.004 * 7 / 0.75)


def test_a_contrarian_is_named_by_agreement_and_by_nothing_else() -> None:
    columns = simulated_reviews(SimulatedSeason(), Planted(), 3)
    mine = columns["reviewer"] == "d"
    columns["score"] = np.where(mine, 12.0 - columns["score"].astype(float), columns["score"])
    found = audited(columns)
    assert ("agreement", "d") in evidence(found)
    assert "contrarian" in of(found, "agreement", "d").note
    assert {subject for _, subject in evidence(found)} <= {"d"} | {f"d>{c}" for c in "abce"}


def test_one_very_precise_judge_does_not_decide_what_the_panel_is_worth() -> None:
    columns = simulated_reviews(SimulatedSeason(seats=tuple("abcdef")), Planted(), 2)
    quality = {}
    rows = list(zip(columns["session_id"], columns["candidate"], columns["score"], strict=True))
    for s, c, y in rows:
        quality.setdefault((s, c), []).append(float(y))
    mean = np.array([np.mean(quality[s, c]) for s, c, _ in rows])
    columns["score"] = np.where(columns["reviewer"] == "b", mean, columns["score"].astype(float))
    found = of(audited(columns), "effective_votes")
    assert found.value is not None
    assert found.value > 3.5


def test_only_ballots_with_the_same_answers_are_repeats() -> None:
    columns = simulated_reviews(SimulatedSeason(n_sessions=60), Planted(), 3)
    again = {name: np.concatenate([values, values]) for name, values in columns.items()}
    n = len(columns["score"])
    copies = np.char.add(columns["session_id"].astype(str), " again")
    again["session_id"] = np.concatenate([columns["session_id"], copies])
    assert of(audited(again), "consistency", "a").n == 60 * 4
    again["words"] = again["words"].copy()
    again["words"][n:][columns["candidate"] == "e"] += 1  # one other answer on each ballot
    assert of(audited(again), "consistency").status == "not_identifiable"


def test_what_is_not_settled_says_what_it_takes() -> None:
    found = season(n_sessions=60)
    for one in found.findings:
        settled = one.status in ("evidence", "clear", "not_identifiable")
        assert (one.mde is None) == (settled or one.low is None)
        if one.mde is not None and one.n_needed is not None:
            assert one.mde > 0.0
            assert one.n_needed >= one.n
    told = next(one for one in found.findings if one.n_needed and one.n_needed > one.n)
    words = (
        r"detectable from [\d.]+ [a-z ]+; about [\d,]+ more [a-z ]+ would decide \(healthy limit .+"
    )
    assert re.fullmatch(words, thresholds.describe_power(told))


def test_a_correlation_above_one_is_never_what_could_have_been_seen() -> None:
    few = Finding("length", "a", 0.1, -0.9, 0.9, 0.5, 4, 20, "inconclusive", mde=1.4)
    assert thresholds.describe_power(few) == "too few to detect even a perfect correlation"
    more = Finding("length", "a", 0.1, -0.9, 0.9, 0.5, 4, 20, "inconclusive", mde=0.9)
    assert thresholds.describe_power(more) == "detectable from 0.9 in correlation"


def test_what_could_have_been_seen_has_a_unit() -> None:
    seen = Finding("pair_departure", "a>b", 0.1, -0.2, 0.4, 0.5, 30, 20, "inconclusive", mde=0.4)
    assert thresholds.describe_power(seen) == "detectable from 0.4 points"
    assert (
        thresholds.describe_power(seen, in_shares=True) == "detectable from 0.4 in share of rivals"
    )
    assert set(thresholds.UNITS) == set(thresholds.COUNTED) == set(ORDER)


@pytest.mark.parametrize("same_each_time", [True, False])
def test_reviewers_who_all_rank_alike_are_one_vote(same_each_time: bool) -> None:
    rng = np.random.default_rng(1)
    rows = []
    for s in range(60):
        place = range(5) if same_each_time else rng.permutation(5)
        rows += [(f"s{s}", r, c, 1.0 + place[i]) for r in "abcde" for i, c in enumerate("abcde")]
    heads = ("session_id", "reviewer", "candidate", "rank")
    columns = {head: np.array([row[i] for row in rows]) for i, head in enumerate(heads)}
    found = of(audited(columns, "rank"), "effective_votes")
    assert found.value == pytest.approx(1.0)
    assert found.status == "evidence"
    assert "one vote" in found.note


def test_independent_rankings_are_as_many_votes_and_copies_are_fewer() -> None:
    alone = ranked(simulated_reviews(SimulatedSeason(), Planted(), 1))
    twins = ranked(simulated_reviews(SimulatedSeason(), Planted(twins=(("a", "b"),)), 1))
    assert of(audited(alone, "rank"), "effective_votes").value == pytest.approx(5.0, abs=0.7)
    assert of(audited(twins, "rank"), "effective_votes").value == pytest.approx(5 / 1.4, abs=0.8)
