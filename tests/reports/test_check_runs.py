"""A run of checks: how its answers are counted, and how it compares with a baseline."""

from __future__ import annotations

import pytest

from peerage.errors import InputError, UsageError
from peerage.reports.check_runs import CheckedAnswer, CheckedPrompt, CheckRun
from peerage.reports.gate_files import canonical_json, read_baseline

CRITERIA = ("It says why.",)
PASS, FAIL, EVEN = (CheckedAnswer(passed, session="s") for passed in (True, False, None))
LOST = CheckedAnswer(None, has_verdict=False)


def prompt(question: str, *answers: CheckedAnswer, judges: str = "f", k: int = 1) -> CheckedPrompt:
    return CheckedPrompt(question, CRITERIA, judges, k, answers)


def run_of(n_passed: int, n: int, judges: str = "f", first: int = 0) -> CheckRun:
    """A run with one answer to each of n questions, the first of which passed."""
    return CheckRun(
        {
            f"test {i}": (prompt(f"{i}?", PASS if i - first < n_passed else FAIL, judges=judges),)
            for i in range(first, first + n)
        }
    )


@pytest.mark.parametrize(
    ("n_before", "n_now", "verdict"),
    [(60, 10, "worse"), (10, 60, "better"), (60, 60, "same"), (30, 31, "undecided")],
)
def test_a_run_is_judged_by_the_questions_that_changed(
    n_before: int, n_now: int, verdict: str
) -> None:
    n = 60 if verdict != "undecided" else 40
    result = run_of(n_now, n).gate(run_of(n_before, n).baseline())
    assert result.decision.verdict == verdict
    assert result.n_queries == n
    assert result.measures[0].difference == pytest.approx((n_now - n_before) / n)


def test_a_baseline_is_the_same_after_it_was_written_and_read(tmp_path) -> None:
    file = tmp_path / "base.json"
    file.write_text(canonical_json(run_of(3, 5).baseline().document()), encoding="utf-8")
    assert run_of(3, 5).gate(read_baseline(file)).measures[0].difference == 0.0


def test_questions_of_one_run_only_are_named_and_not_compared() -> None:
    result = run_of(5, 5, first=2).gate(run_of(5, 5).baseline())
    assert result.n_queries == 3
    assert result.flags == ("2 questions only in the baseline", "2 questions not in the baseline")


def test_runs_without_a_common_question_are_refused() -> None:
    with pytest.raises(InputError, match="never judged on the same query"):
        run_of(5, 5, first=9).gate(run_of(5, 5).baseline())


def test_a_baseline_by_other_judges_is_refused() -> None:
    with pytest.raises(UsageError, match="the judges have changed"):
        run_of(5, 5, judges="g").gate(run_of(5, 5).baseline())


def test_a_run_without_a_verdict_has_nothing_to_compare() -> None:
    with pytest.raises(UsageError, match="no check of this run has a verdict"):
        CheckRun({"test": (prompt("Why?", LOST),)}).baseline()


def test_a_question_in_several_tests_is_one_group_of_repeats() -> None:
    run = CheckRun(
        {
            "a": (prompt("Why?", PASS, FAIL, k=2),),
            "b": (prompt("Why?", PASS), prompt("How?", PASS)),
        }
    )
    summary = run.summary()
    assert (summary.n_questions, summary.n_answers) == (2, 4)
    assert summary.pass_rate is not None
    assert summary.pass_rate.value == pytest.approx((2 / 3 + 1) / 2)
    ((k, every, some),) = summary.by_k
    assert k == 2
    assert (every, some) == ((1 / 3, None, None), (1.0, None, None))  # one answer is too few


def test_an_undecided_answer_is_no_pass_and_a_lost_one_is_left_out() -> None:
    summary = CheckRun({"test": (prompt("Why?", PASS, EVEN, LOST, k=3),)}).summary()
    assert summary.pass_rate is not None
    assert summary.pass_rate.value == 0.5
    assert (summary.n_answers, summary.n_undecided, summary.n_lost) == (2, 1, 1)
    assert summary.by_k == ((3, None, None),)


def test_long_questions_keep_different_names() -> None:
    names = {prompt(f"{'Why ' * 200}{end}?").query for end in ("so", "not")}
    other = CheckedPrompt("Why?", ("Else.",), "f", 1, ())
    assert len(names) == 2
    assert max(map(len, names)) < 80
    assert prompt("Why?").query != other.query


def test_a_note_on_the_panel_is_kept_once() -> None:
    checks = [CheckedPrompt("Why?", CRITERIA, "f", 1, (PASS,), ("It is a toy.",)) for _ in "ab"]
    assert CheckRun({"test": tuple(checks)}).summary().notes == ("It is a toy.",)
