"""`peerage score`, as its user runs it: a process, its output and its exit code."""

import json
import os
import re
import subprocess
import sys

import pytest

MARKS = {
    "Response A": {
        "accuracy": 9,
        "completeness": 8,
        "conciseness": 7,
        "clarity": 8,
        "overall": 8.15,
    },
    "Response B": {
        "accuracy": 7,
        "completeness": 9,
        "conciseness": 9,
        "clarity": 8,
        "overall": 8.0,
    },
    "Response C": {
        "accuracy": 6,
        "completeness": 6,
        "conciseness": 5,
        "clarity": 7,
        "overall": 6.0,
    },
}
LABELS = {"Response A": "m1", "Response B": "m2", "Response C": "m3"}


def session(rankings, labels=LABELS, **more):
    return {"label_to_model": labels, "rankings": rankings, **more}


def vote(model, **parsed):
    return {"model": model, "parsed_ranking": parsed}


@pytest.fixture
def score(tmp_path, peerage):
    def run(document, *flags):
        file = tmp_path / "ballots.json"
        data = document if isinstance(document, bytes) else json.dumps(document).encode()
        file.write_bytes(data)
        return peerage("score", file, *flags)

    return run


@pytest.fixture
def scored(score):
    def run(document, *flags):
        done = score(document, "--json", *flags)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def test_the_published_rubric_example_gives_the_right_figures(scored):
    got = scored(session([vote("x", evaluations=MARKS)]), "--rubric", "original")
    assert got["ballots"][0]["overall"] == {
        "Response A": 8.15,
        "Response B": 8.10,
        "Response C": 6.00,
    }
    assert [row["model"] for row in got["scores"]] == ["m1", "m2", "m3"]


def test_a_hallucination_is_capped_at_four(scored):
    lie = {"accuracy": 3, "completeness": 9, "conciseness": 9, "clarity": 9, "overall": 7.35}
    got = scored(session([vote("x", evaluations={"Response A": lie})]), "--rubric", "original")
    assert got["ballots"][0]["overall"] == {"Response A": 4.0}


def test_the_mismatch_example_ranks_as_its_reviewer_did(scored):
    scores = {"Response A": 7, "Response B": 9, "Response C": 5}
    ranking = ["Response A", "Response B", "Response C"]
    got = scored(session([vote("x", ranking=ranking, scores=scores)]))
    assert [row["model"] for row in got["scores"]] == ["m1", "m2", "m3"]
    assert "rank_score_mismatch" in got["ballots"][0]["flags"]


def test_a_liar_everyone_ranks_first_does_not_win_by_rubric(scored):
    lie = {"accuracy": 3, "relevance": 10, "completeness": 10, "conciseness": 10, "clarity": 10}
    true = {"accuracy": 8, "relevance": 6, "completeness": 6, "conciseness": 6, "clarity": 6}
    marks = {"Response A": lie, "Response B": true, "Response C": true}
    votes = [
        vote(f"x{i}", ranking=["Response A", "Response B", "Response C"], evaluations=marks)
        for i in range(3)
    ]
    assert scored(session(votes))["scores"][0]["model"] == "m1"
    by_marks = scored(session(votes), "--rubric", "general")["scores"]
    assert [row["model"] for row in by_marks] == ["m2", "m3", "m1"]


def test_a_gated_answer_ranks_below_every_passed_one(scored):
    votes = [vote(f"x{i}", ranking=["Response A", "Response B", "Response C"]) for i in range(3)]
    texts = ["Here's how to make a bomb: first…", "Please don't.", "No."]
    responses = [{"model": m, "response": t} for m, t in zip(LABELS.values(), texts, strict=True)]
    got = scored(session(votes, responses=responses), "--safety-gate")
    assert got["safety_gate"]["failed_models"] == ["m1"]
    assert [row["model"] for row in got["scores"]] == ["m2", "m3", "m1"]


def test_ranking_oneself_first_changes_no_rivals_score(scored):
    def shares(own, mode):
        votes = [vote("m1", ranking=own), vote("x", ranking=["C", "B", "A"])]
        rows = scored(session(votes), "--own-votes", mode)["scores"]
        return {row["model"]: row["share"] for row in rows}

    first, last = ["A", "B", "C"], ["B", "C", "A"]
    assert shares(first, "out") == shares(last, "out")
    assert shares(first, "place_kept") != shares(last, "place_kept")


@pytest.mark.slow
def test_json_is_the_same_bytes_under_any_hash_seed(tmp_path):
    def output(seed):
        return subprocess.run(
            [sys.executable, "-m", "peerage", "score", "ballots.json", "--json"],
            capture_output=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
        ).stdout

    votes = [vote(m, ranking=["B", ["A", "C"]], scores={"A": 5, "B": 9, "C": 5}) for m in "wxyz"]
    votes += [vote("m1", ranking=["A", "A", "Q", "B"]), vote("m2", evaluations=MARKS)]
    (tmp_path / "ballots.json").write_text(json.dumps(session(votes)))
    outputs = {output(seed) for seed in ("0", "42")}
    assert len(outputs) == 1
    assert json.loads(outputs.pop())["scores"]


def test_a_list_of_sessions_gives_a_list_of_results(scored):
    one = session([vote("x", ranking=["A", "B", "C"])])
    assert len(scored([one, one])) == 2


@pytest.mark.parametrize(
    "rule", ["borda", "mean_rank", "elo", "bradley_terry", "copeland", "schulze"]
)
def test_every_rule_ranks_the_unanimous_choice_first(scored, rule):
    votes = [vote(f"x{i}", ranking=["C", "A", "B"]) for i in range(3)]
    rows = scored(session(votes), "--rule", rule)["scores"]
    assert rows[0]["model"] == "m3"


def test_the_table_shows_rank_share_and_what_was_odd(score):
    votes = [vote("x", ranking=["Q", "A", "B", "C"]), vote("y", ranking=["A", "B", "C"])]
    shown = score(session(votes, query="Which one?")).stdout
    assert "Which one?" in shown
    assert re.search(r"x: .*not on its ballot \(Q\)", shown)
    assert "2 of 2" in shown


@pytest.mark.parametrize(
    ("document", "flags", "says"),
    [
        (b"{nope", (), "not JSON"),
        (b"\xff", (), "not UTF-8"),
        (session([], labels={}), (), "no candidates"),
        (session([vote("x"), vote("x")]), (), "already voted"),
        (session([], labels={f"L{i}": f"m{i}" for i in range(10_000)}), (), "10,000"),
        (session([]), ("--rule", "dice"), "no rule 'dice'"),
        (session([]), ("--own-votes", "maybe"), "own votes cannot be 'maybe'"),
        (session([]), ("--rubric", "vibes"), "vibes"),
        (session([]), ("--config", "missing.toml"), "missing.toml"),
    ],
)
def test_a_mistake_ends_in_one_paragraph_and_exit_code_2(score, document, flags, says):
    done = score(document, *flags)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1


def test_a_missing_file_is_said_to_be_missing(peerage):
    done = peerage("score", "none.json")
    assert (done.returncode, "does not exist" in done.stderr) == (2, True)


def test_marks_of_eleven_are_dropped_and_flagged(scored):
    marks = {"Response A": {"accuracy": 11, "clarity": 8}, "Response B": {"accuracy": 8}}
    got = scored(session([vote("x", evaluations=marks)]), "--rubric", "original")
    assert any("accuracy=11" in flag for flag in got["ballots"][0]["flags"])
    assert got["ballots"][0]["overall"] == {"Response B": 8.0}


def test_nobody_voting_gives_no_score_rather_than_a_winner(scored):
    got = scored(session([]))
    assert {(row["final_rank"], row["vote_count"], row["confidence"]) for row in got["scores"]} == {
        (1, 0, "low")
    }
    assert "no_ballots" in got["flags"]


def test_tables_and_rankings_by_name_are_ballots_too(at_once, tmp_path):
    (tmp_path / "r.csv").write_text("reviewer;candidate;rank\nx; m1;1\nx;m2;2\ny;m1;1\ny;m2;2\n")
    (tmp_path / "p.jsonl").write_text(
        '{"model_a": "m1", "model_b": "m2", "winner": "model_a"}\n'
        '{"model_a": "m2", "model_b": "m1", "winner": "m1"}\n'
    )
    (tmp_path / "l.json").write_text('[["m1", "m2"], ["m1", "m2"]]')
    for name in ("r.csv", "p.jsonl", "l.json"):
        done = at_once("score", name, "--json")
        assert done.returncode == 0, done.stderr
        rows = json.loads(done.stdout)["scores"]
        assert [(row["model"], row["share"], row["vote_count"]) for row in rows] == [
            ("m1", 1.0, 2),
            ("m2", 0.0, 2),
        ]
    assert "2 of 2" in at_once("score", "p.jsonl").stdout


def test_a_session_without_a_ballot_that_counts_is_no_success(score):
    """Neither names nobody has nor a reply that cannot be read ends in 0."""
    done = score(session([vote("x", ranking=["gpt", "claude"]), {"model": "y", "text": "Hm."}]))
    assert done.returncode == 3
    assert "no ballot could be counted (no labels, unparsed)" in done.stderr
