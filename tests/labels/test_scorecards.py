"""A judge against people: every figure equals a slow computation, and the advice is deserved."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from peerage.findings import Scorecard
from peerage.labels.judged import Judged
from peerage.labels.mark_agreement import best_cutoff, concordance
from peerage.labels.rates import rate
from peerage.labels.scorecards import scorecards
from peerage.labels.selection import fisher_p, mcnemar_p
from peerage.labels.triage import ship
from peerage.reviews.rows import buckets_of, unit_of
from peerage.stats.tails import exact_bounds
from tests.shared.encoded import rows_of
from tests.shared.labelled import judged_verdicts


def card(
    judge: Sequence[float],
    people: Sequence[float],
    queries: Sequence[str] | None = None,
    words: Sequence[float] | None = None,
) -> Scorecard:
    """The scorecard of one judge; NaN is no label."""
    n = len(judge)
    ids = [f"a{i:05}" for i in range(n)]
    labelled = [i for i, label in enumerate(people) if label == label]
    columns = {
        "session_id": [*ids, *(ids[i] for i in labelled)],
        "reviewer": ["judge"] * n + ["ann"] * len(labelled),
        "candidate": ["application"] * (n + len(labelled)),
        "score": [*judge, *(people[i] for i in labelled)],
        "person": [0] * n + [1] * len(labelled),
    }
    if queries is not None:
        columns["query_id"] = [*queries, *(queries[i] for i in labelled)]
    if words is not None:
        columns["words"] = [*words, *(words[i] for i in labelled)]
    (found,) = scorecards(rows_of({k: np.array(v) for k, v in columns.items()}), {"ann"})
    return found


def planted(n: int, wrong: float, seed: int = 1) -> tuple[list[float], list[float]]:
    """Verdicts of a judge that differs from people on a share of the answers, and the labels."""
    rng = np.random.default_rng(seed)
    people = (rng.random(n) < 0.6).astype(float)
    judge = np.where(rng.random(n) < wrong, 1.0 - people, people)
    return judge.tolist(), people.tolist()


def test_the_matrix_and_the_rates_of_planted_disagreement_are_those_counted_by_hand() -> None:
    judge, people = planted(200, 0.15)
    found = card(judge, people)
    pairs = list(zip(judge, people, strict=True))
    table = {
        "both_pass": pairs.count((1.0, 1.0)),
        "false_pass": pairs.count((1.0, 0.0)),
        "false_fail": pairs.count((0.0, 1.0)),
        "both_fail": pairs.count((0.0, 0.0)),
    }
    assert found.table == table
    n_fail = table["false_pass"] + table["both_fail"]
    low, high = exact_bounds(table["false_pass"], n_fail)
    assert found.false_pass_rate is not None
    assert found.false_pass_rate == pytest.approx((table["false_pass"] / n_fail, low, high))
    agreed = (table["both_pass"] + table["both_fail"]) / 200
    passes = (table["both_pass"] + table["false_pass"]) / 200
    base = sum(people) / 200
    chance = passes * base + (1 - passes) * (1 - base)
    mean = (passes + base) / 2
    assert found.accuracy is not None
    assert found.kappa is not None
    assert found.ac1 is not None
    assert found.accuracy.value == pytest.approx(agreed)
    assert found.kappa.value == pytest.approx((agreed - chance) / (1 - chance))
    gwet = 2 * mean * (1 - mean)
    assert found.ac1.value == pytest.approx((agreed - gwet) / (1 - gwet))
    assert found.constant_guess == pytest.approx(max(base, 1 - base))


def corrected_by_hand(judge: list[float], people: list[float]) -> float:
    """The corrected pass rate by loops: weights of five folds of the labelled answers."""
    n_all = len(judge)
    folds = buckets_of([unit_of(f"a{i:05}", None) for i in range(n_all)])
    labelled = [i for i in range(n_all) if not math.isnan(people[i])]
    ordered = sorted(labelled, key=lambda i: (folds[i], i))
    fold = {i: place % 5 for place, i in enumerate(ordered)}
    others = [i for i in range(n_all) if math.isnan(people[i])]
    mean = sum(judge) / n_all
    variance = sum((f - mean) ** 2 for f in judge) / (n_all - 1)
    weight = []
    for k in range(5):
        rest = [i for i in labelled if fold[i] != k]
        y, f = sum(people[i] for i in rest) / len(rest), sum(judge[i] for i in rest) / len(rest)
        shared = sum((people[i] - y) * (judge[i] - f) for i in rest) / (len(rest) - 1)
        raw = shared / variance * len(others) / n_all / (1 + 1 / len(rest))
        weight.append(min(1.0, max(0.0, raw)))
    residuals = [people[i] - weight[fold[i]] * (judge[i] - mean) for i in labelled]
    usual = sum(weight[fold[i]] for i in labelled) / len(labelled)
    far = sum(judge[i] for i in others) / len(others)
    return sum(residuals) / len(labelled) + usual * (far - mean)


@pytest.mark.parametrize("n_labels", [20, 80])
def test_the_corrected_pass_rate_is_that_of_a_loop(n_labels: int) -> None:
    judge, people = planted(400, 0.1)
    people = [label if i % (400 // n_labels) == 0 else math.nan for i, label in enumerate(people)]
    found = card(judge, people).pass_rate
    assert found is not None
    assert found.corrected is not None
    assert found.people is not None
    assert found.n_labels == n_labels
    assert found.corrected.value == pytest.approx(corrected_by_hand(judge, people))
    widths = [(one.high or 0) - (one.low or 0) for one in (found.corrected, found.people)]
    assert widths[0] < widths[1]


def test_a_judge_that_is_right_is_trusted_and_one_that_passes_everything_is_not() -> None:
    judge, people = planted(120, 0.02)
    assert card(judge, people).advice == "trust"
    assert card([1.0] * 120, people).advice == "do_not_rely_on"
    unsure, labels = planted(120, 0.2)
    assert card(unsure, labels).advice == "use_with_care"


def test_below_ten_queries_there_is_no_advice_and_no_correction() -> None:
    judge, people = planted(40, 0.1)
    found = card(judge, [*people[:9], *[math.nan] * 31])
    assert (found.advice, found.kappa) == (None, None)
    assert found.pass_rate is not None
    assert found.pass_rate.corrected is None
    assert "at least 10" in found.reason
    same_query = card(judge, people, queries=[f"q{i % 9}" for i in range(40)])
    assert (same_query.n_groups, same_query.advice) == (9, None)


def test_answers_to_one_question_are_not_so_many_observations() -> None:
    judge, people = planted(60, 0.2)
    queries = [f"q{i}" for i in range(60)]
    four_each = card(judge * 4, people * 4, queries * 4)
    alone = card(judge, people, queries)
    assert four_each.accuracy is not None
    assert alone.accuracy is not None
    assert four_each.accuracy.low == pytest.approx(alone.accuracy.low, abs=0.02)
    assert four_each.accuracy.high == pytest.approx(alone.accuracy.high, abs=0.02)
    assert four_each.kappa is not None
    assert alone.kappa is not None
    assert four_each.kappa.low == pytest.approx(alone.kappa.low, abs=0.05)


def test_labels_of_one_class_say_that_half_of_the_errors_cannot_be_seen() -> None:
    judge, _ = planted(50, 0.1)
    found = card(judge, [1.0] * 50)
    assert found.advice == "use_with_care"
    assert (found.false_pass_rate, found.kappa) == (None, None)
    assert any("false passes cannot be seen" in warning for warning in found.warnings)


def test_swapped_classes_are_told_by_agreement_below_chance() -> None:
    judge, people = planted(80, 0.05)
    found = card([1.0 - verdict for verdict in judge], people)
    assert any("less than by chance" in warning for warning in found.warnings)


def test_labels_from_the_fails_alone_are_no_random_sample() -> None:
    judge, people = planted(400, 0.1)
    fails = [i for i, verdict in enumerate(judge) if verdict == 0.0][:60]
    some = [people[i] if i in fails else math.nan for i in range(400)]
    assert any("random sample" in warning for warning in card(judge, some).warnings)
    drawn = [people[i] if i % 7 == 0 else math.nan for i in range(400)]
    assert card(judge, drawn).warnings == ()


def test_long_answers_labelled_alone_are_no_random_sample() -> None:
    judge, people = planted(300, 0.1)
    words = [40.0 + i for i in range(300)]
    some = [people[i] if i > 240 else math.nan for i in range(300)]
    assert any("longer or shorter" in one for one in card(judge, some, words=words).warnings)


def test_answers_of_one_length_are_never_called_selected() -> None:
    judge, people = planted(300, 0.1)
    some = [people[i] if i % 9 == 0 else math.nan for i in range(300)]
    assert card(judge, some, words=[12.0] * 300).warnings == ()


def test_marks_against_pass_and_fail_have_a_cut_off_from_other_answers() -> None:
    rng = np.random.default_rng(3)
    people = (rng.random(150) < 0.5).astype(float)
    judge = np.clip(np.rint(4.0 + 3.0 * people + rng.normal(0.0, 1.0, 150)), 1, 10)
    found = card(judge.tolist(), people.tolist())
    assert found.kind == "marks"
    assert found.cutoff is not None
    assert found.cutoff.value in (5.0, 6.0)
    assert found.cutoff.true_pass_rate is not None
    assert found.concordance is not None
    assert (found.concordance.value or 0.0) > 0.9
    assert "cut-off at" in found.reason


def test_marks_against_marks_have_level_spread_and_order() -> None:
    rng = np.random.default_rng(4)
    quality = rng.normal(size=200)
    people = np.clip(np.rint(3.0 + quality), 1, 5)
    judge = np.clip(np.rint(3.5 + 0.5 * quality + rng.normal(0, 0.2, 200)), 1, 5)
    found = card(judge.tolist(), people.tolist())
    assert found.level is not None
    assert found.level.value == pytest.approx(float((judge - people).mean()))
    assert found.spread is not None
    assert found.spread.value == pytest.approx(float(judge.std() / people.std()))
    assert found.correlation is not None
    assert found.correlation.value == pytest.approx(float(np.corrcoef(judge, people)[0, 1]))
    assert (found.correlation.low or 1) < (found.correlation.value or 0)


def test_the_share_of_pairs_in_the_same_order_is_that_of_a_loop() -> None:
    judge, people = np.array([1.0, 2, 2, 5, 4]), np.array([1.0, 1, 2, 3, 4])
    alike = total = 0.0
    for i in range(5):
        for j in range(i):
            if people[i] != people[j]:
                same = np.sign(judge[i] - judge[j]) * np.sign(people[i] - people[j])
                alike, total = alike + 0.5 + 0.5 * same, total + 1
    found = concordance(judge, people, np.arange(5), np.arange(5))
    assert found is not None
    assert found.value == pytest.approx(alike / total)


def test_the_best_of_equal_cut_offs_is_the_middle_one() -> None:
    assert best_cutoff(np.array([1.0, 2, 3, 8, 9]), np.array([0.0, 0, 0, 1, 1])) == 8.0
    assert best_cutoff(np.array([1.0, 2.0]), np.array([1.0, 1.0])) is None


def picks(judge: list[float], people: list[float], first: list[int]) -> Scorecard:
    """Two answers a session: ranks of a judge and of a person, and where the judge saw them."""
    columns: dict[str, list[object]] = {
        name: [] for name in ("session_id", "reviewer", "candidate", "rank", "position", "person")
    }
    for i, (own, label) in enumerate(zip(judge, people, strict=True)):
        for who, pick in (("judge", own), ("ann", label)):
            for side in (0, 1):
                better = pick if side == 0 else 1.0 - pick
                columns["session_id"].append(f"s{i}")
                columns["reviewer"].append(who)
                columns["candidate"].append("ab"[side])
                columns["rank"].append(1.0 if better >= 0.5 else 2.0)
                columns["position"].append(float(side if first[i] == 0 else 1 - side))
                columns["person"].append(float(who == "ann"))
    rows = rows_of({name: np.array(values) for name, values in columns.items()})
    (found,) = scorecards(rows, {"ann"})
    return found


def test_picks_count_ties_half_and_the_answer_shown_first() -> None:
    rng = np.random.default_rng(5)
    people = rng.choice([0.0, 0.5, 1.0], 90).tolist()
    first = rng.integers(0, 2, 90).tolist()
    judge = [1.0 if one == 0 else 0.0 for one in first]  # always the one it saw first
    found = picks(judge, people, first)
    assert found.kind == "picks"
    agreed = sum(1.0 - abs(j - h) for j, h in zip(judge, people, strict=True)) / 90
    assert found.accuracy is not None
    assert found.accuracy.value == pytest.approx(agreed)
    assert found.first_shown is not None
    assert found.first_shown.value == pytest.approx(0.5)
    assert found.ties == {"judge": 0, "people": people.count(0.5)}
    assert found.advice == "do_not_rely_on"


def test_two_people_of_one_answer_are_the_ceiling() -> None:
    rng = np.random.default_rng(6)
    truth = (rng.random(80) < 0.5).astype(float)
    columns: dict[str, list[object]] = {"session_id": [], "reviewer": [], "score": []}
    for name, wrong in (("judge", 0.3), ("ann", 0.1), ("bob", 0.1)):
        said = np.where(rng.random(80) < wrong, 1 - truth, truth)
        for i, verdict in enumerate(said.tolist()):
            columns["session_id"].append(f"s{i}")
            columns["reviewer"].append(name)
            columns["score"].append(verdict)
    columns["candidate"] = ["application"] * 240
    columns["person"] = [0.0] * 80 + [1.0] * 160
    rows = rows_of({name: np.array(values) for name, values in columns.items()})
    (found,) = scorecards(rows, {"ann", "bob"})
    scores = np.array(columns["score"], dtype=float)
    same = float((scores[80:160] == scores[160:]).mean())
    assert found.people_agreement is not None
    assert found.people_agreement.value == pytest.approx(same)
    assert found.n == int((scores[80:160] == scores[160:]).sum())  # where they differ, no label
    assert any("equally often" in warning for warning in found.warnings)


def test_tests_of_two_samples_are_those_of_the_textbook() -> None:
    assert fisher_p(8, 2, 1, 5) == pytest.approx(0.03496503496503495)
    assert mcnemar_p(5, 15) == pytest.approx(0.04138946533203125)


def test_a_share_has_exact_bounds() -> None:
    found = rate(np.array([1.0] * 3 + [0.0] * 17), np.arange(20))
    assert found == pytest.approx((0.15, 0.0320709371854637, 0.37892682654531396))


def sure_judge(n: int, n_labels: int, seed: int) -> tuple[Judged, NDArray[np.bool_]]:
    """A judge that is wrong the more often the less sure it is, and where it is wrong."""
    rng = np.random.default_rng(seed)
    confidence = rng.random(n)
    people = (rng.random(n) < 0.5).astype(float)
    wrong = rng.random(n) < 0.2 * (1.0 - confidence) ** 2
    labels = np.where(np.arange(n) < n_labels, people, math.nan)
    verdicts = np.where(wrong, 1.0 - people, people)
    return judged_verdicts(verdicts, labels, confidence=confidence), wrong


def test_what_ships_is_rarely_wrong_more_often_than_promised() -> None:
    above = shares = 0.0
    for seed in range(80):
        judged, wrong = sure_judge(800, 200, seed)
        found = ship(judged, 0.1)
        if found.threshold is not None:
            shipped = judged.confidence >= found.threshold
            above += bool(wrong[shipped].mean() > 0.1)
            shares += found.share_shipped
            assert found.error_held_out is not None
    assert above / 80 <= 0.1
    assert shares / 80 > 0.5


def test_too_few_labels_send_all_verdicts_to_people() -> None:
    assert ship(sure_judge(400, 20, 1)[0], 0.05).threshold is None
    assert ship(sure_judge(400, 20, 1)[0], 0.05).share_shipped == 0.0


def test_several_judges_have_a_scorecard_of_their_majority_and_are_compared_in_pairs() -> None:
    rng = np.random.default_rng(9)
    truth = (rng.random(200) < 0.5).astype(float)
    said = {
        name: np.where(rng.random(200) < wrong, 1.0 - truth, truth)
        for name, wrong in (("ann", 0.0), ("bad", 0.4), ("fine", 0.1), ("good", 0.05))
    }
    columns = {
        "session_id": [f"s{i}" for i in range(200)] * 4,
        "reviewer": [name for name in said for _ in range(200)],
        "candidate": ["application"] * 800,
        "score": np.concatenate(list(said.values())),
        "person": [1.0] * 200 + [0.0] * 600,
    }
    together, *cards = scorecards(
        rows_of({name: np.array(values) for name, values in columns.items()}), {"ann"}
    )
    votes = said["bad"] + said["fine"] + said["good"]
    assert together.judge == "(all judges)"
    assert together.accuracy is not None
    assert together.accuracy.value == pytest.approx(float(((votes > 1.5) == truth).mean()))
    by_name = {card.judge: card for card in cards}
    assert by_name["good"].behind_best is None
    behind = by_name["bad"].behind_best
    assert behind is not None
    right = {name: said[name] == truth for name in ("bad", "good")}
    assert behind.difference.value == pytest.approx(
        float(right["bad"].mean() - right["good"].mean())
    )
    assert behind.p < 0.001


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("n_labels", [1, 2, 3, 4, 12])
@pytest.mark.parametrize("marks", [(0.0, 1.0), (1.0, 2.0, 5.0), (3.0,)])
@pytest.mark.parametrize("queries", [1, 2, 100])
def test_hardly_any_label_gives_no_figure_that_is_not_a_number(
    n_labels: int, marks: tuple[float, ...], queries: int
) -> None:
    for judge_marks in ((0.0, 1.0), (1.0, 3.0, 4.0)):
        judge = [judge_marks[i % len(judge_marks)] for i in range(20)]
        people = [marks[i % len(marks)] if i < n_labels else math.nan for i in range(20)]
        found = card(judge, people, [f"q{i % queries}" for i in range(20)])
        json.dumps(found.document(), allow_nan=False)
