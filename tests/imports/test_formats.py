"""Files of other tools: each is recognised, and read as what its writer meant."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import peerage
from peerage.errors import InputError, UsageError
from peerage.imports.formats import formats, recognise
from tests.shared.foreign_files import (
    GRADE_WRITERS,
    PAIR_WRITERS,
    RANKS,
    WINNERS,
    Grade,
    Pair,
    document,
    lines,
    write_alpaca_eval,
    write_inspect,
)

models = st.sampled_from(["gpt-4o", "claude 3", "llama/70b", "größe"])
judges = st.sampled_from(["j1", "judge two", "j3"])
pairs = st.lists(
    st.builds(Pair, st.integers(0, 5), models, models, judges, st.sampled_from(WINNERS)).filter(
        lambda pair: pair.first != pair.second
    ),
    min_size=1,
    max_size=8,
    unique_by=lambda pair: (pair.query, pair.judge, frozenset(pair[1:3])),
)
grades = st.lists(
    st.builds(
        Grade,
        st.integers(0, 5),
        models,
        judges,
        st.one_of(st.none(), st.integers(0, 10).map(lambda n: n / 10)),
    ),
    min_size=1,
    max_size=8,
    unique_by=lambda grade: grade[:3],
)


twice_the_usual = settings(
    max_examples=2 * settings().max_examples,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def rows_of(path: Path, name: str) -> list[Mapping[str, Any]]:
    found = recognise(path)
    assert found.name == name
    assert found.read is not None
    return list(found.read(path))


@pytest.mark.parametrize("name", PAIR_WRITERS)
@twice_the_usual
@given(cases=pairs)
def test_comparisons_are_read_as_they_were_written(name, cases, tmp_path):
    file, write = PAIR_WRITERS[name]
    path = tmp_path / file
    path.write_bytes(write(cases))
    rows = [row for row in rows_of(path, name) if row.get("round", 0) in (0, 1)]
    judged = sorted(
        (row["reviewer"], row["candidate"], row["rank"]) for row in rows if row["rank"] is not None
    )
    expected = sorted(
        (pair.judge, model, rank)
        for pair in cases
        for model, rank in zip(pair[1:3], RANKS[pair.winner], strict=True)
        if rank is not None and not (name == "open-webui" and pair.winner == "tie")
    )
    assert judged == expected


@pytest.mark.parametrize("name", GRADE_WRITERS)
@twice_the_usual
@given(cases=grades)
def test_grades_are_read_as_they_were_written(name, cases, tmp_path):
    file, write = GRADE_WRITERS[name]
    path = tmp_path / file
    path.write_bytes(write(cases))
    rows = rows_of(path, name)
    assert len(rows) == len(cases)
    read = sorted(
        (r["reviewer"], r["candidate"], r["score"]) for r in rows if r["score"] is not None
    )
    assert read == sorted(
        (*grade[2:0:-1], grade.score) for grade in cases if grade.score is not None
    )


@twice_the_usual
@given(cases=grades)
def test_scores_of_inspect_are_read_as_they_were_written(cases, tmp_path):
    one = [grade for grade in cases if grade.candidate == cases[0].candidate]
    path = tmp_path / "log.json"
    path.write_bytes(write_inspect(one, cases[0].candidate))
    rows = rows_of(path, "inspect")
    assert sorted((r["session_id"], r["reviewer"], str(r["score"])) for r in rows) == sorted(
        (f"t: {grade.query}", grade.judge, str(grade.score)) for grade in one
    )


@twice_the_usual
@given(cases=pairs.map(lambda some: [pair for pair in some if pair.winner] or None))
def test_votes_of_the_arena_are_read_as_they_were_written(cases, tmp_path):
    if cases is None:
        return
    word = {"first": "model_a", "second": "model_b", "tie": "tie (bothbad)"}
    path = tmp_path / "votes.csv"
    with path.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["question_id", "model_a", "model_b", "winner", "judge", "tstamp"])
        writer.writerows(
            [f"q{p.query}", p.first, p.second, word[str(p.winner)], p.judge, 1_700_000_000]
            for p in cases
        )
    assert recognise(path).name == "arena"
    rows = peerage.read(path).to_pylist()
    assert [(r["candidate"], r["rank"], r["position"]) for r in rows] == [
        (model, rank, place)
        for p in cases
        for place, (model, rank) in enumerate(zip(p[1:3], RANKS[p.winner], strict=True))
    ]


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


def test_every_format_has_a_page_that_names_its_fields():
    folder = Path(__file__).parents[2] / "docs" / "formats"
    pages = {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*.md")}
    for name, one in formats:
        page = next((text for text in pages.values() if f"--as {name}`" in text), "")
        assert [field for field in one.fields if f"`{field}`" not in page] == [], name
