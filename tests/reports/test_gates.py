"""The gate over tables: one number a query, the same judges on both sides, or a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerage import gate
from peerage.errors import PeerageError
from peerage.reports.gate_files import (
    bar_document,
    canonical_json,
    check_registered,
    read_baseline,
    registration,
)
from peerage.reports.options import GateOptions

Rows = list[dict[str, Any]]


def ballots(gaps: list[float], *, judges: str = "xyz", third: bool = True, **more: Any) -> Rows:
    """A session a gap: each judge gives the base 5 and the candidate 5 plus the gap."""
    rows: Rows = []
    for i, gap in enumerate(gaps):
        for judge in judges:
            scores = {"old": 5.0, "new": 5.0 + gap, **({"other": 5.0} if third else {})}
            for name, score in scores.items():
                row = {"session_id": f"s{i:04}", "reviewer": judge, "candidate": name}
                rows.append({**row, "score": score, "query_id": f"q{i:04}", **more})
    return rows


def decide(rows: Rows, **options: Any) -> Any:
    return gate(rows, **{"base": "old", "candidate": "new", **options})


def refusal(rows: Rows, **options: Any) -> str:
    with pytest.raises(PeerageError) as error:
        decide(rows, **options)
    return str(error.value)


def test_each_verdict_is_reached_from_its_data() -> None:
    worse, better, same = decide(ballots([-1.0] * 60)), decide(ballots([1.0] * 60)), [0.0] * 60
    assert (worse.decision.verdict, worse.exit_code()) == ("worse", 1)
    assert (better.decision.verdict, better.exit_code()) == ("better", 0)
    assert (decide(ballots(same)).decision.verdict, decide(ballots(same)).exit_code()) == (
        "same",
        0,
    )
    few = decide(ballots([1.0, -1.0]))
    assert (few.decision.verdict, few.exit_code()) == ("undecided", 3)
    assert (few.exit_code("pass"), few.exit_code("fail")) == (0, 1)
    assert few.needed is not None
    assert few.needed > 10


def test_one_query_is_never_enough() -> None:
    result = decide(ballots([-4.0], judges="uvwxyz"))
    assert result.decision.verdict == "undecided"
    assert result.n_queries == 1
    assert result.measures[0].low < -0.99


def test_repeats_judges_and_orders_of_a_query_are_one_number() -> None:
    rows = [
        {**row, "session_id": f"{row['session_id']}-{repeat}"}
        for repeat in range(20)
        for row in ballots([-1.0, -1.0, 1.0])
    ]
    result = decide(rows)
    assert (result.n_queries, result.n_sessions) == (3, 60)
    assert result.decision.verdict == "undecided"


def test_the_share_is_that_of_the_board_and_a_mark_is_in_parts_of_the_scale() -> None:
    rows = ballots([-1.0] * 4)
    assert decide(rows).measures[0].difference == pytest.approx(-0.75)  # 0 against 3/4
    assert decide(rows, metric="mark").measures[0].difference == pytest.approx(-1 / 9)
    assert decide(rows, metric="mark", scale="0,5").measures[0].difference == pytest.approx(-1 / 5)


def test_a_reviewer_does_not_vote_for_itself() -> None:
    rows = ballots([-1.0] * 3)
    own = [{**row, "reviewer": "new", "score": 9.0 * (row["candidate"] == "new")} for row in rows]
    mine = {(row["session_id"], row["candidate"]): row for row in own}.values()
    with_own = decide([*rows, *({**row, "score": row["score"] + 1} for row in mine)])
    assert with_own.measures[0].difference == pytest.approx(-0.75 + 0.75 / 4, abs=0.3)
    assert decide(rows).measures[0].difference == pytest.approx(-0.75)


def test_sides_that_were_never_on_one_ballot_are_compared_by_query_and_say_so() -> None:
    rows = [
        {**row, "session_id": f"{row['session_id']}-{row['candidate']}"}
        for row in ballots([-1.0] * 40, third=False)
    ]
    rows += [{**row, "candidate": "rival", "score": 5.0} for row in rows]
    result = decide(rows)
    assert result.n_queries == 40
    assert result.measures[0].difference == pytest.approx(-0.5)
    assert any("not judged on one ballot" in flag for flag in result.flags)
    assert any("no fingerprint" in flag for flag in result.flags)


def test_judges_who_differ_between_the_sides_are_refused_unless_allowed() -> None:
    rows = [
        {
            **row,
            "session_id": f"{row['session_id']}-{row['candidate']}",
            "reviewer": "z" if row["candidate"] == "new" else row["reviewer"],
        }
        for row in ballots([-1.0] * 40, third=False, judges="xy")
        if row["candidate"] == "old" or row["reviewer"] == "x"
    ]
    rows += [{**row, "candidate": "rival", "score": 5.0} for row in rows]
    assert "differ: x, y, z" in refusal(rows)
    assert any("differ" in flag for flag in decide(rows, allow=True).flags)


def judged_apart(prints: dict[str, str]) -> Rows:
    """Each side in sessions of its own, by the same judge under the fingerprint of its side."""
    rows = [
        {
            **row,
            "session_id": f"{row['session_id']}-{row['candidate']}",
            "fingerprint": prints[row["candidate"]],
        }
        for row in ballots([-1.0] * 40, third=False, judges="xy")
    ]
    return [*rows, *({**row, "candidate": "rival", "score": 5.0} for row in rows)]


def test_a_judge_whose_fingerprint_differs_between_the_sides_is_refused_unless_allowed() -> None:
    rows = judged_apart({"old": "aaaa", "new": "bbbb"})
    words = (
        "the judges of the two sides differ: x (different fingerprints), y (different fingerprints)"
    )
    assert words in refusal(rows)
    allowed = decide(rows, allow=True)
    assert words in allowed.flags
    assert allowed.decision.verdict == "worse"
    same = decide(judged_apart({"old": "aaaa", "new": "aaaa"}))
    assert not any("differ:" in flag or "fingerprint" in flag for flag in same.flags)


def test_a_judge_that_changes_in_the_course_of_the_reviews_is_named() -> None:
    rows = ballots([-1.0] * 40, fingerprint="aaaa")
    rows = [{**row, "fingerprint": "bbbb"} if row["reviewer"] == "y" else row for row in rows]
    half = [{**row, "fingerprint": "cccc"} if row["session_id"] > "s0020" else row for row in rows]
    assert not any("fingerprint" in flag for flag in decide(rows).flags)
    flags = decide(half).flags
    assert any(flag.endswith("within the reviews: x, y, z") for flag in flags)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"candidate": "nev"}, "there is no model 'nev' in these reviews. Did you mean 'new'?"),
        ({"base": "x"}, "there is no model 'x' in these reviews."),
        ({"candidate": "old"}, "the base and the candidate are the same model, 'old'."),
        ({"candidate": ""}, "the candidate is missing."),
        ({"margin": 0}, "margin must be between 0 and 1, not 0"),
        ({"margin": 2}, "margin must be between 0 and 1, not 2"),
        ({"alpha": 1}, "alpha must be between 0 and 0.5, not 1"),
        ({"metric": "mark", "scale": "0,1"}, "a mark of 5 lies outside the scale 0 to 1."),
        ({"metric": "mark", "scale": "ten"}, "'ten' is not a scale"),
        ({"metric": "dimension"}, "no review has marks for dimensions"),
        ({"dimensions": "clarity"}, "--dimensions cannot be used with --metric share."),
        ({"on": "code"}, "no query has the category 'code'."),
        ({"suite": 3}, "the suite has 3 queries, but 9 were judged."),
    ],
)
def test_what_cannot_be_decided_is_refused_in_a_sentence(
    options: dict[str, Any], words: str
) -> None:
    assert words in refusal(ballots([0.0] * 9), **options)


def test_models_that_were_never_on_one_query_are_refused_with_their_counts() -> None:
    rows = [
        {**row, "query_id": f"{row['query_id']}{row['candidate']}", "session_id": f"{i // 2}"}
        for i, row in enumerate(ballots([0.0] * 4, third=False, judges="x"))
    ]
    rows = [{**row, "session_id": row["query_id"]} for row in rows]
    rows += [{**row, "candidate": "rival"} for row in rows]
    assert "old on 4 queries, new on 4" in refusal(rows)


def test_ties_alone_are_evidence_that_the_two_are_the_same() -> None:
    assert decide(ballots([0.0] * 200)).decision.verdict == "same"
    assert decide(ballots([0.0] * 5)).decision.verdict == "undecided"


def test_ten_thousand_looks_are_one_call() -> None:
    gaps = np.random.default_rng(2).choice([-1.0, 1.0], 10_000).tolist()
    result = decide(ballots(gaps, judges="x", third=False))
    assert result.n_queries == 10_000
    assert result.measures[0].looks[-1].n == 10_000


@settings(max_examples=10, deadline=None)
@given(st.permutations(range(12)))
def test_the_order_of_rows_changes_nothing(order: list[int]) -> None:
    gaps = [-1.0, 1.0, 0.0, -1.0, 0.5, 0.0, -0.5, -1.0, -1.0, 1.0, 0.0, -1.0]
    rows = ballots(gaps, judges="x")
    by_session = [rows[3 * i : 3 * i + 3] for i in order]
    shuffled = [row for session in by_session for row in reversed(session)]
    first, second = (canonical_json(decide(some).document()) for some in (rows, shuffled))
    assert first == second


def test_several_dimensions_are_corrected_and_one_worse_is_worse() -> None:
    rows = [
        {
            **row,
            "mark_accuracy": 3.0 if row["candidate"] == "new" else 9.0,
            "mark_clarity": 6.0,
        }
        for row in ballots([0.0] * 80)
    ]
    result = decide(rows, metric="dimension")
    assert {one.measure: one.decision.verdict for one in result.measures} == {
        "accuracy": "worse",
        "clarity": "same",
    }
    assert result.decision.verdict == "worse"
    one = decide(rows, metric="dimension", dimensions="clarity")
    assert one.decision.verdict == "same"
    assert "no review has a mark for 'clarit'" in refusal(
        rows, metric="dimension", dimensions="clarit"
    )


def test_one_bad_query_among_good_ones_is_listed_and_does_not_block() -> None:
    gaps = [1.0] * 60 + [-3.0]
    result = decide(ballots(gaps), guard=True)
    assert result.decision.verdict == "better"
    assert [one.query for one in result.regressions] == ["q0060"]
    assert len(result.improvements) == 60
    assert (result.guard.n_checked, result.exit_code()) == (61, 0)
    two = decide(ballots(gaps, judges="xy"), guard=True)
    assert (two.regressions, two.guard.n_checked, two.exit_code()) == ((), 0, 0)


def test_more_clear_regressions_than_improvements_block_only_with_the_guard() -> None:
    rows = ballots([-1.0] * 12 + [1.0] * 2)
    result = decide(rows, guard=True, alpha=0.0001)
    assert result.decision.verdict == "undecided"
    assert (len(result.regressions), len(result.improvements)) == (12, 2)
    assert result.guard.p == pytest.approx(106 / 2**14)  # 1 + 14 + 91 of 16,384
    assert (result.guard.blocks, result.exit_code("pass")) == (True, 1)
    off = decide(rows, alpha=0.0001)
    assert (off.guard.blocks, off.exit_code("pass")) == (False, 0)
    assert off.regressions == result.regressions


def repeated(gaps: list[float], n_repeats: dict[int, int]) -> Rows:
    """Sessions of some queries again, each as it was the first time."""
    rows = ballots(gaps)
    return [
        {**row, "session_id": f"{row['session_id']}-{repeat}"}
        for repeat in range(max(n_repeats.values()))
        for row in rows
        if repeat < n_repeats.get(int(row["query_id"][1:]), n_repeats[-1])
    ]


def test_one_query_blocks_when_its_own_repeats_show_a_regression() -> None:
    few = decide(repeated([-1.0] + [0.0] * 30, {-1: 4}), guard=True)
    assert (few.guard.most_repeats, few.guard.repeats_needed) == (4, 5)
    assert few.exit_code("pass") == 0
    enough = decide(repeated([-1.0] + [0.0] * 30, {-1: 5}), guard=True)
    assert [one.query for one in enough.guard.repeated_regressions] == ["q0000"]
    assert enough.exit_code() == 1
    again = decide(repeated([-1.0] + [0.0] * 30, {-1: 1, 0: 6}), guard=True)  # five after a loss
    assert again.guard.most_repeats == 5
    assert again.exit_code() == 1


def test_every_query_counts_with_as_many_sessions_as_the_least_asked_one() -> None:
    rng = np.random.default_rng(5)
    first = ballots(rng.choice([-1.0, 1.0], 60).tolist())
    retries = [
        {**row, "session_id": f"{row['session_id']}-again", "score": 9.0}
        for row in first
        if row["candidate"] == "new" and row["score"] == 4.0  # what was lost is asked again
    ]
    retries += [
        {**row, "session_id": f"{row['session_id']}-again"}
        for row in first
        if row["candidate"] != "new"
        and f"{row['session_id']}-again" in {one["session_id"] for one in retries}
    ]
    plain, again = decide(first), decide([*first, *retries])
    assert again.measures == plain.measures
    assert again.decision == plain.decision
    assert again.n_sessions == 60
    assert any("of each query the first session count" in flag for flag in again.flags)


def test_several_candidates_share_the_error_and_the_worst_is_first(tmp_path: Path) -> None:
    rows = ballots([0.0] * 60)
    rows += [
        {**row, "candidate": name, "score": 5.0 + gap * ((i // 9) % 5 > 0)}
        for i, row in enumerate(rows)
        if row["candidate"] == "old"
        for name, gap in (("bad", -1.0), ("good", 1.0))
    ]
    several = decide(rows, candidate=["good", "bad"])
    assert [one.candidate for one in several.results] == ["good", "bad"]
    assert [one.candidate for one in several.worst_first] == ["bad", "good"]
    assert [one.decision.verdict for one in several.worst_first] == ["worse", "better"]
    assert several.exit_code() == 1
    document = several.document()
    assert [one["candidate"] for one in document["candidates"]] == ["good", "bad"]
    assert document["verdict"] == "worse"
    alone = decide(rows, candidate="bad")
    both = several.results[1]
    assert alone.decision.after < both.decision.after
    assert both.measures[0].low < alone.measures[0].low
    assert decide(rows, candidate="good,new").exit_code() == 0
    with pytest.raises(PeerageError, match="the candidate 'new' is given twice"):
        decide(rows, candidate="new,new")
    with pytest.raises(PeerageError, match="the same model, 'old'"):
        decide(rows, candidate="new,old")


def test_candidates_that_were_judged_on_different_queries_are_corrected_together() -> None:
    rows = ballots([-1.0] * 60)
    late = [row | {"candidate": "late"} for row in rows if row["candidate"] == "new"]
    rows += [row for row in late if row["session_id"] >= "s0020"]
    several = decide(rows, candidate="new,late")
    assert [one.n_queries for one in several.results] == [60, 40]
    assert [one.decision.verdict for one in several.results] == ["worse", "worse"]
    assert several.results[1].decision.after <= 40


def test_a_table_says_that_it_keeps_no_looks_and_goes_by_the_hash_not_by_time() -> None:
    rows = [{**row, "at": float(row["session_id"][1:])} for row in ballots([-1.0, 1.0] * 30)]
    result = decide(rows)
    assert (result.order, result.keeps_looks) == ("by a hash of each query's name", False)
    without = decide([{k: v for k, v in row.items() if k != "at"} for row in rows])
    assert without.measures == result.measures


def test_a_suite_is_decided_for_its_queries_alone() -> None:
    gaps = [1.0, -1.0] * 10
    assert decide(ballots(gaps)).decision.verdict == "undecided"
    whole = decide(ballots(gaps), suite=20)
    assert whole.decision.verdict == "same"
    assert whole.measures[0].low == pytest.approx(0.0, abs=1e-6)
    part = decide(ballots(gaps), suite=500)
    assert part.decision.verdict == "undecided"


def test_the_sessions_that_say_most_are_named_for_both_sides() -> None:
    result = decide(ballots([-1.0, 1.0, 0.0, 2.0] * 5))
    assert len(result.for_base) == 5
    assert result.for_candidate[0].sessions == ("s0001",)
    assert all(one.difference < 0 for one in result.for_base)


# -- baselines and bars ----------------------------------------------------------------------------


def test_a_baseline_stands_for_the_base(tmp_path: Path) -> None:
    from peerage.config import Settings
    from peerage.reports import InputTables, Reports

    rows = ballots([-1.0] * 60)
    old = [row for row in rows if row["candidate"] != "new"]
    baseline = Reports(Settings(), InputTables(old)).baseline(GateOptions(base="old"))
    file = tmp_path / "baseline.json"
    file.write_text(canonical_json(baseline.document()))
    again = Reports(Settings(), InputTables(old[::-1])).baseline(GateOptions(base="old"))
    assert canonical_json(again.document()) == file.read_text()
    assert read_baseline(file) == baseline
    new = [{**row, "session_id": f"later {row['session_id']}"} for row in rows]
    result = gate(new, candidate="new", against=file)
    assert (result.base, result.decision.verdict) == ("old", "worse")
    with pytest.raises(PeerageError, match="the baseline was saved for 'old'"):
        gate(new, base="other", candidate="new", against=file)
    with pytest.raises(PeerageError, match="measured by share"):
        gate(new, candidate="new", against=file, metric="mark")
    with pytest.raises(PeerageError, match="judges of the two sides differ: z"):
        gate([row for row in new if row["reviewer"] != "z"], candidate="new", against=file)


def test_peers_that_do_not_judge_themselves_are_told_which_roles_to_have(tmp_path: Path) -> None:
    from peerage.config import Settings
    from peerage.reports import InputTables, Reports

    rows = [
        {"session_id": f"s{i}", "query_id": f"q{i}", "reviewer": r, "candidate": c, "rank": rank}
        for i in range(40)
        for r in "abcd"
        for rank, c in enumerate([name for name in "abcd" if name != r], 1)
    ]
    baseline = Reports(Settings(), InputTables(rows)).baseline(GateOptions(base="a"))
    file = tmp_path / "baseline.json"
    file.write_text(canonical_json(baseline.document()))
    with pytest.raises(PeerageError, match=r"roles = \[.answer.\]"):
        gate(rows, candidate="b", against=file)
    assert gate(rows, base="a", candidate="b").decision.verdict


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"kind": "peerage baseline"}', "NaN", "[" * 9999]
)
def test_a_file_that_is_not_a_baseline_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "b.json"
    file.write_text(text)
    with pytest.raises(PeerageError, match="this file is not a baseline"):
        read_baseline(file)
    with pytest.raises(PeerageError, match="cannot be read"):
        read_baseline(tmp_path / "nowhere.json")


def test_a_bar_is_registered_by_its_hash_and_a_changed_one_is_refused() -> None:
    bar = bar_document(GateOptions(base="a", candidate="b"))
    text = registration(bar)
    assert json.loads(text)["bar"] == json.loads(canonical_json(bar))
    check_registered(text, bar, "bar.json")
    other = bar_document(GateOptions(base="a", candidate="b", margin=0.2))
    with pytest.raises(PeerageError, match=r"margin was 0\.1, now it is 0\.2"):
        check_registered(text, other, "bar.json")
    with pytest.raises(PeerageError, match="not contain a registered bar"):
        check_registered("[]", bar, "bar.json")
