"""Files of other tools: each is recognised, and read as what its writer meant."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import peerage
from peerage.errors import InputError, UsageError
from peerage.imports.diagnosis import diagnose
from peerage.imports.files import open_reviews
from peerage.imports.formats import UnknownFormatError, formats, recognise
from tests.shared.foreign_files import (
    Grade,
    Pair,
    Ranking,
    document,
    lines,
    write_alpaca_eval,
    write_inspect,
    write_llm_council,
)


def rows_of(path: Path, name: str) -> list[Mapping[str, Any]]:
    found = recognise(path)
    assert found.name == name
    assert found.read is not None
    return list(found.read(path))


# -- single rules --------------------------------------------------------------------------------


def test_three_columns_of_winners_and_metadata_are_read(tmp_path):
    path = tmp_path / "train.json"
    vote = {
        "id": 1,
        "model_a": "x",
        "model_b": "y",
        "winner_model_a": 0,
        "winner_model_b": 1,
        "winner_tie": 0,
        "is_code": True,
        "conv_metadata": {
            "sum_assistant_a_tokens": 10,
            "sum_assistant_b_tokens": 20,
            "header_count_a": {"h1": 1, "h2": 2},
            "header_count_b": {"h1": 0},
            "list_count_a": {"ordered": 3, "unordered": 4},
            "bold_count_b": {"**": 5, "__": 0},
        },
    }
    path.write_bytes(document([vote]))
    first, second = peerage.read(path).to_pylist()
    assert (first["candidate"], first["rank"], first["words"]) == ("x", 2.0, 10.0)
    assert (second["candidate"], second["rank"], second["words"]) == ("y", 1.0, 20.0)
    assert (first["headers"], first["lists"], second["bold"]) == (3.0, 7.0, 5.0)
    assert first["category"] == "code"


def test_an_unknown_winner_is_refused_with_its_row_and_never_a_tie(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text("model_a,model_b,winner\nx,y,model_a\nx,y,draw\n")
    with pytest.raises(InputError, match=r"row 2: x and y, winner draw"):
        peerage.read(path)


def test_a_vote_without_a_judge_is_refused_where_others_have_one(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text("model_a,model_b,winner,judge\nx,y,model_a,j\nx,y,tie,\n")
    with pytest.raises(InputError, match=r"row 2: x and y, winner tie"):
        peerage.read(path)


def test_the_second_game_of_a_pair_is_a_round_with_the_places_swapped(tmp_path):
    path = tmp_path / "gpt-4_pair.jsonl"
    pair = {"question_id": 1, "model_1": "x", "model_2": "y", "judge": ["g", "p"], "turn": 1}
    path.write_bytes(lines([{**pair, "g1_winner": "model_1", "g2_winner": "tie"}]))
    rows = rows_of(path, "mt-bench")
    assert [(r["round"], r["candidate"], r["rank"], r["position"]) for r in rows] == [
        (0, "x", 1, 0),
        (0, "y", 2, 1),
        (1, "x", 1, 1),
        (1, "y", 1, 0),
    ]


def test_labels_of_a_council_are_the_places_of_the_first_stage(tmp_path):
    path = tmp_path / "chat.json"
    turn = {
        "role": "assistant",
        "stage1": [{"model": "x", "response": "a b"}, {"model": "y", "response": "c"}],
        "stage2": [
            {"model": "x", "ranking": "…", "parsed_ranking": ["Response B", "Response A"]},
            {"model": "y", "ranking": "FINAL RANKING:\n1. Response A\n2. Response B"},
        ],
        "stage3": {},
    }
    question = {"role": "user", "content": "Why?"}
    path.write_bytes(
        document({"id": "c1", "created_at": "2026-01-01T00:00:00", "messages": [question, turn]})
    )
    rows = rows_of(path, "council")
    assert [(r["reviewer"], r["candidate"], r["rank"], r["position"]) for r in rows] == [
        ("x", "x", 2, 0),
        ("x", "y", 1, 1),
        ("y", "x", 1, 0),
        ("y", "y", 2, 1),
    ]
    assert {row["session_id"] for row in rows} == {"c1"}


def test_a_score_that_a_person_edited_is_the_scorers_and_the_persons(tmp_path):
    path = tmp_path / "log.json"
    log = json.loads(write_inspect([Grade(1, "m", "match", 1.0)]))
    log["samples"][0]["scores"] = {
        "match": {
            "value": "I",
            "history": [
                {"value": "C"},
                {"value": "I", "provenance": {"author": "ann", "timestamp": "2026-01-02"}},
            ],
        }
    }
    path.write_bytes(document(log))
    scorer, person = rows_of(path, "inspect")
    assert (scorer["reviewer"], scorer["score"], scorer["correct"]) == ("match", 1.0, 0.0)
    assert (person["reviewer"], person["score"], person["person"]) == ("ann", 0.0, 1)


def test_an_edit_of_an_explanation_is_not_gold_and_a_score_by_hand_is_a_persons(tmp_path):
    path = tmp_path / "log.json"
    log = json.loads(write_inspect([Grade(1, "m", "match", 1.0)]))
    by_ann = {"author": "ann", "timestamp": "2026-01-02"}
    log["samples"][0]["scores"] = {
        "match": {
            "value": "C",
            "history": [{"value": "C"}, {"value": "UNCHANGED", "provenance": by_ann}],
        },
        "by hand": {"value": 0.5, "history": [{"value": 0.5, "provenance": by_ann}]},
    }
    path.write_bytes(document(log))
    rows = rows_of(path, "inspect")
    assert [(r["reviewer"], r["score"], r["correct"], r.get("person")) for r in rows] == [
        ("match", 1.0, None, None),
        ("ann", 0.5, 0.5, 1),
    ]


def test_a_correction_is_gold_and_stands_next_to_scores_of_the_same_person(tmp_path):
    about = {"subject": {"kind": "trace", "id": "t"}, "metadata": {"model": "m"}}
    ann = {**about, "source": "ANNOTATION", "authorUserId": "ann"}
    scores = [
        {**about, "source": "EVAL", "name": "judge", "dataType": "NUMERIC", "value": 0.9},
        {**ann, "name": "quality", "dataType": "NUMERIC", "value": 0.2},
        {**ann, "name": "tone", "dataType": "BOOLEAN", "value": 1},
        {**ann, "name": "output", "dataType": "CORRECTION", "value": "another answer"},
        {**ann, "authorUserId": "bob", "name": "output", "dataType": "CORRECTION", "value": "x"},
        {**ann, "name": "mood", "dataType": "CATEGORICAL", "value": "good"},
    ]
    path = tmp_path / "scores.json"
    path.write_bytes(document({"data": scores}))
    rows = peerage.read(path).to_pylist()
    assert [(r["reviewer"], r["score"], r["person"], r["correct"]) for r in rows] == [
        ("judge", 0.9, 0, 0.0),
        ("ann: quality", 0.2, 1, 0.0),
        ("ann: tone", 1.0, 1, 0.0),
        ("bob", 0.0, 1, 0.0),
    ]
    assert diagnose(path).n_rows == 4


def test_an_assessment_that_overrides_a_judges_is_gold(tmp_path):
    def assessment(id_, kind, who, value, **more):
        source = {"source_type": kind, "source_id": who}
        return {
            "assessment_id": id_,
            "assessment_name": "correct",
            "source": source,
            "feedback": {"value": value},
            **more,
        }

    given = [
        assessment("a", "LLM_JUDGE", "gpt", "yes"),
        assessment("b", "HUMAN", "ann", "yes"),
        assessment("c", "HUMAN", "ann", "no", overrides="b"),
        assessment("d", "HUMAN", "bob", "no", overrides="a"),
        assessment("e", "LLM_JUDGE", "gpt", "no", span_id="s1"),
    ]
    path = tmp_path / "traces.jsonl"
    path.write_bytes(lines([{"info": {"trace_id": "t", "assessments": given}}]))
    rows = rows_of(path, "mlflow")
    assert [(r["session_id"], r["reviewer"], r["score"], r["correct"]) for r in rows] == [
        ("t", "correct by gpt", 1.0, 0.0),
        ("t", "ann", 0.0, 0.0),
        ("t", "bob", 0.0, 0.0),
        ("t s1", "correct by gpt", 0.0, None),
    ]


def test_feedback_with_a_known_defect_is_told(tmp_path):
    def entry(rating, model, details):
        data = {"rating": rating, "model_id": model, "details": {"rating": details}}
        return {"user_id": "u", "type": "rating", "data": data}

    path = tmp_path / "feedback.json"
    path.write_bytes(document([entry(1, "x", 9), entry("-1", "x", 9), entry(1, "arena-model", 7)]))
    rows = rows_of(path, "open-webui")
    assert [(r["score"], r["mark_rating"]) for r in rows] == [(1, 9.0), (-1, None), (1, 7.0)]
    odd = diagnose(path).oddities
    assert any(one.startswith("1 entry of the arena") and "`arena-model`" in one for one in odd)
    assert any(one.startswith("1 entry") and "contradicts the thumb" in one for one in odd)


def test_a_judgement_that_comes_again_is_another_round(tmp_path):
    path = tmp_path / "gpt-4_single.jsonl"
    grade = {"question_id": 1, "model": "x", "judge": ["g", "p"], "turn": 1, "judgment": ""}
    path.write_bytes(lines([{**grade, "score": score} for score in (5, 7, 6)]))
    rows = peerage.read(path).to_pylist()
    assert [(row["round"], row["score"]) for row in rows] == [(None, 5), (1, 7), (2, 6)]


def test_an_archive_is_read_in_memory_and_paths_in_it_are_not_followed(tmp_path):
    path = tmp_path / "log.eval"
    log = json.loads(write_inspect([Grade(1, "m", "match", 0.5)]))
    (sample,) = log.pop("samples")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", json.dumps(log))
        archive.writestr("samples/1_epoch_1.json", json.dumps(sample))
        archive.writestr("samples/../../evil.json", json.dumps(sample))
    assert [row["score"] for row in rows_of(path, "inspect")] == [0.5]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["log.eval"]


def test_a_truncated_archive_is_refused(tmp_path):
    path = tmp_path / "log.eval"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("header.json", "{}")
    path.write_bytes(buffer.getvalue()[:-30])
    with pytest.raises(InputError, match="damaged or cut off"):
        peerage.read(path)


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
def test_an_archive_with_damaged_bytes_is_refused(tmp_path, compression):
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("header.json", json.dumps({"eval": {"model": "m"}, "x": [*range(400)]}))
    whole = bytearray(path.read_bytes())
    for at in range(60, 140):
        whole[at] ^= 0xFF
    path.write_bytes(bytes(whole))
    with pytest.raises(InputError, match="cannot be read"):
        peerage.read(path, format="inspect")


def test_an_archive_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("peerage.imports.foreign_records.MAX_MEMBER_BYTES", 1_000)
    path = tmp_path / "bomb.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", " " * 100_000)
    with pytest.raises(InputError, match="unpacks to more than"):
        peerage.read(path)


def test_json_that_breaks_off_is_refused(tmp_path):
    path = tmp_path / "annotations.json"
    path.write_bytes(write_alpaca_eval([Pair(1, "x", "y", "j", "first")] * 3)[:-40])
    with pytest.raises(InputError, match="breaks off"):
        peerage.read(path)


@pytest.mark.parametrize(
    ("file", "record"),
    [
        (
            "log.json",
            {
                "version": 2,
                "plan": {},
                "eval": {"task": "t", "model": "m"},
                "samples": [{"id": 1, "epoch": "x", "scores": {"a": {"value": 1}}}],
            },
        ),
        ("run.json", {"testCases": [{"input": "q", "metricsData": 5}]}),
        (
            "items.json",
            {"data": [{"datasource_item_id": 1, "results": 5, "sample": {"model": "m"}}]},
        ),
    ],
    ids=["inspect", "deepeval", "openai-evals"],
)
def test_a_record_of_another_shape_is_refused(tmp_path, file, record):
    path = tmp_path / file
    path.write_bytes(document(record))
    with pytest.raises(InputError, match="does not have the shape of"):
        peerage.read(path)


def test_a_file_of_no_known_format_is_told_the_nearest_three(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("model_a,model_b,result\nx,y,1\n")
    with pytest.raises(InputError) as caught:
        recognise(path)
    assert "arena (votes of LMArena (Chatbot Arena)): it lacks winner" in caught.value.message
    assert caught.value.message.count("it lacks") == 3
    assert "--map" in caught.value.hint


def test_the_nearest_formats_are_those_that_a_file_resembles(tmp_path):
    def nearest(name, text):
        path = tmp_path / name
        path.write_text(text)
        with pytest.raises(InputError) as caught:
            recognise(path)
        parts = caught.value.message.partition("Nearest: ")[2].split("; ")
        return [part.partition(" ")[0] for part in parts]

    assert nearest("a.csv", "a,b\n1,2\n")[0] == "reviews"
    assert nearest("b.json", '{"data": [{"dataType": "NUMERIC", "value": 1}]}')[0] == "langfuse"
    assert nearest("c.jsonl", '{"question": 1, "modelA": "x", "modelB": "y"}\n')[0] == "arena"
    with zipfile.ZipFile(tmp_path / "d.zip", "w") as archive:
        archive.writestr("a.txt", "a")
    with pytest.raises(InputError, match=r"Nearest: inspect \(logs of Inspect\): it lacks header"):
        recognise(tmp_path / "d.zip")


@pytest.mark.parametrize(
    ("data", "message"),
    [(b"\x1f\x8b\x08\x00", "compressed"), (b"a\x00b", "not text"), (b" \n", "empty")],
    ids=["gzip", "binary", "blank"],
)
def test_a_file_that_is_not_text_is_refused(tmp_path, data, message):
    path = tmp_path / "x.csv"
    path.write_bytes(data)
    with pytest.raises(InputError, match=message):
        recognise(path)


def test_an_unknown_word_of_peereval_is_refused_and_a_missing_one_is_an_abstention(tmp_path):
    path = tmp_path / "judgments.jsonl"
    record = {"question_id": 1, "judge_model": "j", "solver_left": "x", "solver_right": "y"}
    path.write_bytes(lines([{**record, "judgment": {"winner": "C"}}]))
    with pytest.raises(InputError, match="line 1: `winner` cannot be 'C'"):
        peerage.read(path)
    path.write_bytes(lines([{**record, "judgment": None}]))
    with pytest.raises(InputError, match="2 rows, and all are abstentions"):
        peerage.read(path)


def test_scores_on_different_scales_are_told(tmp_path):
    path = tmp_path / "reviews.csv"
    rows = [f"s{i},{who},x,{i * top / 9}" for i in range(10) for who, top in (("a", 1), ("b", 100))]
    path.write_text("\n".join(["session_id,reviewer,candidate,score", *rows]) + "\n")
    (odd,) = diagnose(path).oddities
    assert "a (0 to 1)" in odd
    assert "b (0 to 100)" in odd


def test_ballots_files_are_diagnosed_and_ranked_without_a_store(tmp_path):
    path = tmp_path / "sessions.jsonl"
    cases = [Ranking(query, judge, ("x", "y")) for query in range(6) for judge in "ab"]
    path.write_bytes(write_llm_council(cases, ["x", "y"]))
    diagnosis = diagnose(path)
    counts = (diagnosis.n_sessions, diagnosis.n_reviewers, diagnosis.n_candidates)
    assert (diagnosis.boards, counts) == ({"models": ""}, (6, 2, 2))
    with open_reviews([path]) as tables:
        board = peerage.board_models(tables, since="all")
    assert [row["model"] for row in board.rows] == ["x", "y"]


def test_the_same_file_twice_is_refused(tmp_path):
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("model_a,model_b,winner\nx,y,model_a\n")
    twice = open_reviews([tmp_path / "a.csv", tmp_path / "b.csv"])
    with pytest.raises(InputError, match="this file is the same as"), twice:
        pass


def test_an_unknown_format_is_refused_with_the_known_ones(tmp_path):
    with pytest.raises(UsageError, match="there is no format 'chess'"):
        recognise(tmp_path / "x.csv", "chess")


@pytest.mark.parametrize(
    ("text", "columns", "expected"),
    [
        (
            "question,model,ann,bob\nq1,x,5,3\nq1,y,2,\n",
            "session_id=question,candidate=model,reviewer=columns",
            {("q1", "ann", "x", 5.0), ("q1", "bob", "x", 3.0), ("q1", "ann", "y", 2.0)},
        ),
        (
            "question,judge,x,y\nq1,ann,5,2\n",
            "session_id=question,reviewer=judge,candidate=columns:x|y",
            {("q1", "ann", "x", 5.0), ("q1", "ann", "y", 2.0)},
        ),
        (
            "q;who;what;points\n1;ann;x;7\n",
            "session_id=q,reviewer=who,candidate=what,score=points",
            {("1", "ann", "x", 7.0)},
        ),
    ],
    ids=["a column a judge", "a column a model", "long"],
)
def test_a_table_is_read_by_the_columns_that_are_named(tmp_path, text, columns, expected):
    path = tmp_path / "grades.csv"
    path.write_text(text)
    rows = peerage.read(path, columns=columns).to_pylist()
    read = {
        (r["session_id"], r["reviewer"], r["candidate"], float(r["score"]))
        for r in rows
        if r["score"]
    }
    assert read == expected


def test_a_column_that_is_not_there_is_told(tmp_path):
    path = tmp_path / "grades.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(UsageError, match="the file has no column 'c'"):
        peerage.read(path, columns="candidate=c")


def test_a_table_comes_as_arrow(tmp_path):
    path = tmp_path / "reviews.csv"
    path.write_text("session_id,reviewer,candidate,rank\ns,r,x,1\ns,r,y,2\n")
    assert isinstance(peerage.read(path), pa.Table)
    assert recognise(path).name == "reviews"


REAL = Path(__file__).parent / "real_files"


def test_a_log_that_inspect_wrote_names_its_judges_and_has_the_edits_of_people():
    rows = rows_of(REAL / "inspect_large.eval", "inspect")
    panel = {
        (r["session_id"], r["reviewer"], r["score"])
        for r in rows
        if r["reviewer"].startswith("model_graded") and r["round"] == 0
    }
    judge = "model_graded_qa by echo/"
    assert panel == {
        (f"facts: {q}", judge + name, score)
        for q in ("q1", "q2", "q3")
        for name, score in (("strict", float(q != "q2")), ("lenient", 1.0), ("mute", None))
    }
    people = [(r["session_id"], r["reviewer"], r["score"]) for r in rows if r.get("person")]
    assert sorted(people) == [("facts: q2", "ann", 1.0), ("facts: q3", "bob", 0.5)]
    unscored = {(r["session_id"], r["score"]) for r in rows if r["reviewer"] == "unscored"}
    assert unscored == {("facts: q1", 0.25), ("facts: q2", None), ("facts: q3", 0.25)}
    marks = [r for r in rows if r["reviewer"] == "marks"]
    assert {(r["mark_tone"], r["mark_facts"], r["score"]) for r in marks} == {(0.5, 1.0, 0.75)}
    assert {r["candidate"] for r in rows} == {"echo/large"}
    again = rows_of(REAL / "inspect_small.json", "inspect")
    assert {r["reviewer"] for r in again} == {r["reviewer"] for r in rows}


def test_results_that_promptfoo_wrote_have_abstentions_where_a_grader_failed():
    rows = rows_of(REAL / "promptfoo_results.json", "promptfoo")
    scores = {}
    for row in rows:
        scores.setdefault(row["reviewer"], set()).add(row["score"])
    assert scores == {
        "contains": {0.0, 1.0},
        "relevance": {0.8},
        "llm-rubric by exec:sh ./bad.sh": {None},
        "icontains": {1.0},
        "promptfoo": {None},
    }
    assert len({row["candidate"] for row in rows}) == 6  # three providers with two prompts


@pytest.mark.parametrize("name", ["deepeval_run.json", "deepeval_latest.json"])
def test_a_run_that_deepeval_wrote_has_an_abstention_where_the_judge_failed(name):
    rows = rows_of(REAL / name, "deepeval")
    assert [(r["candidate"], r["reviewer"], r["score"]) for r in rows] == [
        ("mock-4", "Correctness [GEval] by echo-judge", 0.7),
        ("mock-4", "Length", 0.75),
        ("mock-4", "Correctness [GEval] by echo-judge", 0.7),
        ("mock-4", "Length", 0.25),
        ("mock-4", "Correctness [GEval] by echo-judge", None),
        ("mock-4", "Length", 1.0),
    ]


def test_every_format_has_a_page_that_names_its_fields():
    folder = Path(__file__).parents[2] / "docs" / "formats"
    pages = {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*.md")}
    for name, one in formats:
        page = next((text for text in pages.values() if f"--as {name}`" in text), "")
        assert [field for field in one.fields if f"`{field}`" not in page] == [], name
        assert one.advice in page, name


@pytest.mark.parametrize("name", ["arena", "inspect", "opinions"])
def test_a_file_that_has_nothing_of_the_named_format_is_refused(tmp_path, name):
    file = tmp_path / "r.csv"
    file.write_text("session_id,candidate,score\ns,a,1\n")
    with pytest.raises(InputError, match=f"format {name}.*it lacks"):
        recognise(file, name)


def test_the_suggested_map_names_every_column_that_is_read(tmp_path):
    file = tmp_path / "r.csv"
    file.write_text("session_id,judge_name,candidate,rank,position\ns,x,a,1,0\n")
    with pytest.raises(UnknownFormatError) as caught:
        recognise(file)
    assert caught.value.guess == {
        "session_id": "session_id",
        "reviewer": "judge_name",
        "candidate": "candidate",
        "rank": "rank",
        "position": "position",
    }
