"""Files of several versions of a tool, in the shapes that its repositories and users have."""

from __future__ import annotations

import json
from typing import Any

import pytest

import peerage
from peerage.errors import InputError
from peerage.imports.diagnosis import diagnose
from peerage.imports.formats import recognise
from tests.shared.foreign_files import Grade, Pair, lines, write_inspect, write_open_webui_table

PROMPTS = ["Say it in {{language}}", "Say it to a friend in {{language}}"]


def promptfoo_result(test: int, prompt: int, *, is_right: bool) -> dict[str, Any]:
    """Return a result as in the first version: no provider, no number of the test, no score."""
    return {
        "prompt": {"raw": f"{PROMPTS[prompt]} {test}", "display": PROMPTS[prompt]},
        "vars": {"language": f"language {test}"},
        "response": {"output": "bonjour le monde"},
        "success": is_right,
    }


FIRST = [promptfoo_result(t, p, is_right=p == 0) for t in range(2) for p in range(2)]
LATER = [
    {
        **result,
        "promptIdx": i % 2,
        "testIdx": i // 2,
        "provider": {"id": "model"},
        "prompt": {"raw": "…", "label": PROMPTS[i % 2]},
        "gradingResult": {"pass": result["success"]},
        "score": float(result["success"]),
    }
    for i, result in enumerate(FIRST)
]
PROMPTFOO = {
    "first": {"version": 1, "results": FIRST, "stats": {}, "table": {}},
    "second": {"results": {"version": 2, "results": FIRST, "stats": {}}, "config": {}},
    "third, without an id": {"results": {"version": 3, "results": LATER}},
    "shared": {"data": {"version": 3, "results": {"version": 2, "results": LATER}}},
    "returned to a program": {
        "id": "eval-1",
        "results": LATER,
        "prompts": [{"label": label} for label in PROMPTS],
    },
}


@pytest.mark.parametrize("name", PROMPTFOO)
def test_every_version_of_promptfoo_has_prompts_as_candidates(tmp_path, name):
    path = tmp_path / "output.json"
    path.write_text(json.dumps(PROMPTFOO[name]))
    assert recognise(path).name == "promptfoo"
    rows = peerage.read(path).to_pylist()
    assert len({row["session_id"] for row in rows}) == 2
    scores = {(next(p for p in PROMPTS if p in row["candidate"]), row["score"]) for row in rows}
    assert scores == {(PROMPTS[0], 1.0), (PROMPTS[1], 0.0)}


def test_prompts_with_the_same_beginning_are_two_candidates(tmp_path):
    path = tmp_path / "output.json"
    labels = [f"prompts/translations/{'long ' * 20}{number}" for number in (1, 2)]
    results = [{**one, "prompt": {"label": labels[i % 2]}} for i, one in enumerate(LATER)]
    path.write_text(json.dumps({"evalId": "e", "results": {"version": 3, "results": results}}))
    assert len({row["candidate"] for row in peerage.read(path).to_pylist()}) == 2


def test_a_run_of_promptfoo_without_results_has_no_judgements(tmp_path):
    path = tmp_path / "output.json"
    path.write_text(json.dumps({"id": "eval-1", "config": {}, "results": [], "prompts": PROMPTS}))
    with pytest.raises(InputError, match="of the format promptfoo has no judgements"):
        diagnose(path)


def test_items_from_the_dashboard_of_openai_evals_are_read(tmp_path):
    def item(run: str, model: str | None, grades: dict[str, float], **other: Any) -> Any:
        sample = {"sampled_model_name": model, "outputs": [{"content": "a b"}], **other}
        return {
            "run_id": run,
            "data_source_idx": 0,
            "item": {"input": "q"},
            **({"sample": sample} if model else {}),
            "grades": grades,
            "grader_samples": {},
            "passes": {"Match": True},
        }

    path = tmp_path / "items.jsonl"
    failed = {"error": {"message": "no reply"}}
    records = [
        item("r1", "x", {"Relevance": 6}),
        item("r2", None, {"Relevance": 3}),
        item("r3", "y", {"Relevance": 0}, **failed),
    ]
    path.write_bytes(lines(records))
    assert recognise(path).name == "openai-evals"
    rows = peerage.read(path).to_pylist()
    assert {(row["candidate"], row["reviewer"], row["score"]) for row in rows} == {
        ("x", "Relevance", 6.0),
        ("x", "Match", 1.0),
        ("r2", "Relevance", 3.0),
        ("r2", "Match", 1.0),
        ("y", "Relevance", None),
        ("y", "Match", None),
    }
    assert len({row["session_id"] for row in rows}) == 1
    assert {row["words"] for row in rows} == {2, None}


def test_the_two_turns_of_a_question_are_not_one_answer_judged_twice(tmp_path):
    path = tmp_path / "gpt-4_single.jsonl"
    grade = {"judge": ["j", "v1"], "judgment": ""}
    records = [
        {**grade, "question_id": q, "turn": t, "model": m, "score": (q + 3 * t) % 10 + 1}
        for q in range(40)
        for t in (1, 2)
        for m in "xy"
    ]
    path.write_bytes(lines(records))
    advice = {one.metric: one for one in diagnose(path).metrics}
    assert advice["consistency"].status in ("missing", "not_identifiable")
    assert "another round" in advice["consistency"].log_next


def test_a_time_in_seconds_is_a_time_in_a_table_of_texts_too(tmp_path):
    path = tmp_path / "grades.csv"
    path.write_text("q,who,what,points,when\n1,j,x,5,1700000000\n1,j,y,3,1700000000\n")
    columns = "session_id=q,reviewer=who,candidate=what,score=points,at=when"
    assert diagnose(path, columns=columns).boards == {"models": ""}


def test_feedback_of_open_webui_as_csv_gives_a_board(tmp_path):
    path = tmp_path / "feedback.csv"
    pairs = [Pair(query, "x", "y", "ann", "first") for query in range(5)]
    path.write_bytes(write_open_webui_table(pairs))
    assert diagnose(path).boards == {"models": ""}


def test_metrics_that_do_not_fit_a_format_are_not_asked_for(tmp_path):
    path = tmp_path / "log.json"
    grades = [Grade(query, "x", judge, query / 10) for query in range(10) for judge in "ab"]
    path.write_bytes(write_inspect(grades))
    advice = {one.metric: one for one in diagnose(path).metrics}
    assert advice["position"].status == "does_not_apply"
    assert "several models" in advice["agreement"].log_next
    assert "contradiction" not in advice


def test_a_table_with_other_names_is_told_how_to_map_them(tmp_path):
    path = tmp_path / "grades.csv"
    path.write_text("session,Judge,rater,model,points\n1,a,b,x,3\n1,a,b,y,2\n")
    with pytest.raises(InputError) as error:
        diagnose(path)
    columns = "session_id=session,reviewer=Judge,candidate=model,score=points"
    assert "Nearest: reviews" in str(error.value)
    assert f"--map {columns}" in str(error.value)
    assert diagnose(path, columns=columns).boards == {"models": ""}


def test_a_table_with_usual_names_is_read_by_them_and_this_is_said(tmp_path):
    path = tmp_path / "grades.csv"
    path.write_text("question,Judge,model,points\n1,a,x,3\n1,a,y,2\n")
    assert {row["reviewer"] for row in peerage.read(path).to_pylist()} == {"a"}
    found = diagnose(path)
    assert found.boards == {"models": ""}
    (said,) = [one for one in found.oddities if "usual names" in one]
    pairs = ("question is session_id", "Judge is reviewer", "model is candidate", "points is score")
    assert all(pair in said for pair in pairs)


@pytest.mark.parametrize("query", ["uid", "question_id"])
def test_both_versions_of_arena_hard_are_recognised(tmp_path, query):
    path = tmp_path / "model.jsonl"
    game = {"user_prompt": "…", "judgment": "…", "score": "A>B"}
    record = {query: "q", "model": "x", "judge": "j", "games": [game, None]}
    path.write_bytes(lines([record]))
    assert recognise(path).name == "arena-hard"
    rows = peerage.read(path).to_pylist()
    assert [(row["candidate"], row["rank"]) for row in rows] == [
        ("gpt-4-0314", 1),
        ("x", 2),
        ("x", None),
        ("gpt-4-0314", None),
    ]


def test_samples_of_earlier_harnesses_have_their_metrics_as_numbers(tmp_path):
    path = tmp_path / "vendor__model" / "samples_sums_2024-01-01T00-00-00.jsonl"
    path.parent.mkdir()
    sample = {"doc_id": 0, "doc": {}, "target": 18, "resps": [["18"]], "filtered_resps": ["18"]}
    path.write_bytes(lines([{**sample, "doc_hash": "h", "exact_match": 1.0}]))
    assert recognise(path).name == "lm-eval"
    (row,) = peerage.read(path).to_pylist()
    assert (row["candidate"], row["reviewer"], row["score"]) == ("vendor/model", "exact_match", 1.0)
    assert row["correct"] == 1.0
