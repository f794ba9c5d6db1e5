"""Reviews in the formats of other tools, and as lines that version control can merge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import peerage
from peerage.errors import InputError, UsageError
from peerage.imports.exports import ReviewExport, export_reviews, merge_lines

ROWS = [
    {
        "session_id": "s1",
        "reviewer": "r",
        "candidate": "x",
        "rank": 1.0,
        "position": 1,
        "score": 8.0,
    },
    {
        "session_id": "s1",
        "reviewer": "r",
        "candidate": "y",
        "rank": 2.0,
        "position": 0,
        "score": 5.0,
    },
    {
        "session_id": "s2",
        "reviewer": "r",
        "candidate": "x",
        "rank": 1.0,
        "position": 0,
        "score": 7.0,
    },
    {
        "session_id": "s2",
        "reviewer": "r",
        "candidate": "y",
        "rank": 1.0,
        "position": 1,
        "score": 7.0,
    },
]


@pytest.fixture
def source(tmp_path: Path) -> ReviewExport:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = tmp_path / "reviews.parquet"
    pq.write_table(pa.Table.from_pylist(ROWS), table)
    return ReviewExport(
        [table], lambda: peerage.board_models(str(table), since="all"), "1.0", "season"
    )


def test_votes_name_the_answer_shown_first_and_its_winner(source, tmp_path):
    target = tmp_path / "votes.jsonl"
    assert export_reviews(source, "arena", target) == 2
    votes = [json.loads(line) for line in target.read_text().splitlines()]
    assert [(v["model_a"], v["model_b"], v["winner"]) for v in votes] == [
        ("y", "x", "model_b"),
        ("x", "y", "tie"),
    ]


@pytest.mark.parametrize("name", ["arena", "inspect"])
def test_what_is_written_can_be_read_again(source, tmp_path, name):
    target = tmp_path / ("votes.jsonl" if name == "arena" else "logs")
    export_reviews(source, name, target)
    files = [target] if target.is_file() else sorted(target.iterdir())
    rows = [row for file in files for row in peerage.read(file).to_pylist()]
    assert {(row["candidate"], row["reviewer"]) for row in rows} == {("x", "r"), ("y", "r")}
    assert len(rows) == len(ROWS)


def test_a_document_of_every_eval_ever_has_the_share_with_its_interval(source, tmp_path):
    target = tmp_path / "evals"
    assert export_reviews(source, "every-eval-ever", target) == 2
    first = json.loads((target / "001.json").read_text())
    (result,) = first["evaluation_results"]
    assert first["schema_version"] == "0.3.0"
    assert first["model_info"]["name"] == "x"
    assert result["score_details"]["score"] == 0.75


def test_a_data_set_has_a_card_that_counts_its_rows(source, tmp_path):
    target = tmp_path / "set"
    assert export_reviews(source, "data-set", target) == 4
    assert (
        "4 reviews, 2 sessions, 1 reviewers and 2 candidates" in (target / "README.md").read_text()
    )
    assert peerage.read(target / "reviews.parquet").num_rows == 4


def test_a_folder_that_is_not_empty_is_left_alone(source, tmp_path):
    with pytest.raises(UsageError, match="not an empty folder"):
        export_reviews(source, "inspect", tmp_path)


def test_an_unknown_format_is_refused(source, tmp_path):
    with pytest.raises(UsageError, match="cannot export as 'chess'"):
        export_reviews(source, "chess", tmp_path / "x")


def test_lines_are_the_same_bytes_each_time(source, tmp_path):
    one, two = tmp_path / "1.jsonl", tmp_path / "2.jsonl"
    export_reviews(source, "lines", one)
    export_reviews(source, "lines", two)
    assert one.read_bytes() == two.read_bytes()
    assert one.read_text().splitlines() == sorted(one.read_text().splitlines())


reviews = st.lists(
    st.fixed_dictionaries(
        {
            "session_id": st.sampled_from(["s1", "s2", "s3"]),
            "reviewer": st.sampled_from(["a", "b"]),
            "candidate": st.sampled_from(["x", "y"]),
            "score": st.just(5.0),
        }
    ),
    max_size=6,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(reviews, reviews)
def test_merging_lines_commutes_and_is_idempotent(tmp_path, first, second):
    def write(name: str, rows: list[dict[str, Any]]) -> Path:
        path = tmp_path / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    a, b, ab, ba, again = (tmp_path / name for name in ("a", "b", "ab", "ba", "again"))
    write("a", first)
    write("b", second)
    merge_lines([a, b], ab)
    merge_lines([b, a], ba)
    merge_lines([ab, a], again)
    assert ab.read_bytes() == ba.read_bytes() == again.read_bytes()


def test_two_lines_that_disagree_are_refused(tmp_path):
    row = {"session_id": "s", "reviewer": "r", "candidate": "x", "score": 1.0}
    for name, score in (("a", 1.0), ("b", 2.0)):
        (tmp_path / name).write_text(json.dumps({**row, "score": score}) + "\n")
    with pytest.raises(InputError, match="differs from the same review in another file"):
        merge_lines([tmp_path / "a", tmp_path / "b"], tmp_path / "c")


def test_the_same_review_in_another_notation_is_one_line(source, tmp_path):
    """Nulls and points after whole numbers are notation: a file of another tool has them."""
    export_reviews(source, "lines", tmp_path / "ours.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "ours.jsonl").read_text().splitlines()]
    theirs = [{**row, "score": float(row["score"]), "round": None} for row in reversed(rows)]
    (tmp_path / "theirs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in theirs))
    n = merge_lines([tmp_path / "theirs.jsonl", tmp_path / "ours.jsonl"], tmp_path / "both.jsonl")
    assert n == len(ROWS)
    assert (tmp_path / "both.jsonl").read_bytes() == (tmp_path / "ours.jsonl").read_bytes()


def test_lines_come_back_as_the_reviews_they_were(source, tmp_path):
    export_reviews(source, "lines", tmp_path / "reviews.jsonl")
    again = peerage.board_models(str(tmp_path / "reviews.jsonl"), since="all")
    assert again.rows == source.board().rows
