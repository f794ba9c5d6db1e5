"""People's corrections of every format arrive in the audit and in the boards of people."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import peerage
from peerage.reviews.gold import DECISIONS
from tests.shared.foreign_files import lines

N_QUERIES = 40
JUDGES = ("j1", "j2")


class Answer(NamedTuple):
    """An answer, whether people call it right, its words, and what each judge gives it."""

    query: int
    model: str
    is_right: bool
    n_words: int

    def score(self, judge: str) -> float:
        """Return a score that likes the model y and long answers more than people do."""
        likes = self.is_right / 2 + (0.3 if self.model == "y" else 0.0) + self.n_words / 200
        return round(min(1.0, likes + (0.05 if judge == "j2" else 0.0)), 3)


ANSWERS = [
    Answer(query, model, query % 4 < (3 if model == "x" else 1), 10 + (query * 7 + place * 3) % 20)
    for query in range(N_QUERIES)
    for place, model in enumerate("xy")
]


def text_of(answer: Answer) -> str:
    return "word " * answer.n_words


def inspect() -> Iterator[tuple[str, bytes]]:
    """Yield the log of each model, in which a person edited every score of a judge."""
    by_ann = {"author": "ann", "timestamp": "2026-01-02T00:00:00Z"}
    for model in "xy":
        samples = []
        for one in (answer for answer in ANSWERS if answer.model == model):
            right = "C" if one.is_right else "I"
            edits = [{"value": one.score("j1")}, {"value": right, "provenance": by_ann}]
            scores = {
                "j1": {"value": right, "history": edits},
                "j2": {"value": one.score("j2")},
            }
            output = {"completion": text_of(one)}
            samples.append({"id": one.query, "epoch": 1, "output": output, "scores": scores})
        about = {"task": "t", "model": model, "created": "2026-01-01T00:00:00Z"}
        log = {"version": 2, "eval": about, "plan": {}, "samples": samples}
        yield f"{model}.json", json.dumps(log).encode()


def mlflow() -> Iterator[tuple[str, bytes]]:
    """Yield traces in which a person overrode the assessments of a judge."""

    def assessment(id_: str, kind: str, who: str, value: Any, **other: Any) -> dict[str, Any]:
        source = {"source_type": kind, "source_id": who}
        feedback = {"value": value}
        return {
            "assessment_id": id_,
            "assessment_name": "right",
            "source": source,
            "feedback": feedback,
            **other,
        }

    traces = [
        {
            "info": {
                "trace_id": f"q{one.query}",
                "tags": {"model": one.model},
                "assessments": [
                    assessment("a", "LLM_JUDGE", "j1", one.score("j1")),
                    assessment("b", "LLM_JUDGE", "j2", one.score("j2")),
                    assessment("c", "HUMAN", "ann", one.is_right, overrides="a"),
                ],
            }
        }
        for one in ANSWERS
    ]
    yield "traces.jsonl", lines(traces)


def langfuse() -> Iterator[tuple[str, bytes]]:
    """Yield scores, with a person's correction of each wrong answer and a score of each right."""
    scores = []
    for one in ANSWERS:
        common = {
            "subject": {"kind": "session", "id": f"q{one.query}"},
            "metadata": {"model": one.model},
            "timestamp": "2026-01-01T00:00:00Z",
        }
        for judge in JUDGES:
            value = one.score(judge)
            scores.append({**common, "name": judge, "source": "EVAL", "dataType": "NUMERIC"})
            scores[-1]["value"] = value
        ann = {**common, "name": "right", "source": "ANNOTATION", "authorUserId": "ann"}
        scores.append({**ann, "dataType": "BOOLEAN", "value": int(one.is_right)})
    yield "scores.json", json.dumps({"data": scores}).encode()


def lm_eval() -> Iterator[tuple[str, bytes]]:
    """Yield the samples of each model, whose accuracy says which answers are right."""
    for model in "xy":
        samples = [
            {
                "doc_id": one.query,
                "doc": {},
                "resps": [[text_of(one)]],
                "filtered_resps": [text_of(one)],
                "filter": "none",
                "metrics": ["acc", *JUDGES],
                "acc": float(one.is_right),
                **{judge: one.score(judge) for judge in JUDGES},
            }
            for one in ANSWERS
            if one.model == model
        ]
        yield f"{model}/samples_t.jsonl", lines(samples)


def named_columns() -> Iterator[tuple[str, bytes]]:
    """Yield a table with our columns, in which one row of each answer says whether it is right."""
    rows = ["session_id,reviewer,candidate,score,words,reasoning_words,correct"]
    for one in ANSWERS:
        for judge in JUDGES:
            right = int(one.is_right) if judge == "j1" else ""
            numbers = f"{one.score(judge)},{one.n_words},{one.n_words},{right}"
            rows.append(f"q{one.query},{judge},{one.model},{numbers}")
    yield "reviews.csv", "\n".join(rows).encode()


Source = Callable[[], Iterator[tuple[str, bytes]]]
SOURCES: dict[str, Source] = {
    "inspect": inspect,
    "mlflow": mlflow,
    "langfuse": langfuse,
    "lm-eval": lm_eval,
    "reviews": named_columns,
}
WITH_WORDS = ("inspect", "lm-eval", "reviews")


@pytest.fixture
def table(tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    for name, data in SOURCES[request.param]():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    return peerage.read(tmp_path)


def length_of(audit: Any) -> Any:
    """Return the finding on length of all reviewers together."""
    (one,) = (f for f in audit.findings if (f.metric, f.subject) == ("length", "all"))
    return one


@pytest.mark.parametrize("table", SOURCES, indirect=True)
def test_boards_are_corrected_by_what_people_said(table: Any) -> None:
    board = peerage.board_models(table, people=(), since="all")
    row = {one["model"]: one for one in board.rows}
    assert board.notes["people"]["queries_with_people"] == N_QUERIES
    assert row["x"]["people"] > row["y"]["people"]
    assert row["y"]["judges"] > row["y"]["people"]
    assert abs(row["y"]["corrected"] - row["y"]["people"]) < 0.1


@pytest.mark.parametrize("table", SOURCES, indirect=True)
def test_judges_are_measured_against_what_people_said(table: Any) -> None:
    audit = peerage.audit(table, people=())
    departures = {one.subject: one.value for one in audit.findings if one.metric == "people_model"}
    for judge in JUDGES:
        (value,) = (v for name, v in departures.items() if name.endswith(f"{judge}>y"))
        assert value == pytest.approx(0.25, abs=0.1)
    assert any(one.metric == "agreement" and one.n for one in audit.findings)


@pytest.mark.parametrize("table", WITH_WORDS, indirect=True)
def test_length_is_measured_among_answers_that_are_equally_correct(table: Any) -> None:
    length = length_of(peerage.audit(table))
    assert "equally correct" in length.note
    assert length.n == len(ANSWERS)
    assert length.value > 0.1


@pytest.mark.parametrize("table", ["reviews"], indirect=True)
def test_reasoning_is_measured_among_answers_that_are_equally_correct(table: Any) -> None:
    findings = peerage.audit(table).findings
    reasoning = [one for one in findings if one.metric == "reasoning_length"]
    assert reasoning
    assert reasoning[0].n == len(ANSWERS)


def test_a_few_corrections_do_not_keep_length_from_being_measured(tmp_path: Path) -> None:
    ((_, data),) = named_columns()
    head, *rows = data.decode().splitlines()
    for_few = [row if i < 4 else row.rpartition(",")[0] + "," for i, row in enumerate(rows)]
    path = tmp_path / "reviews.csv"
    path.write_text("\n".join([head, *for_few]))
    length = length_of(peerage.audit(path))
    assert "equally correct" not in length.note
    assert length.n == len(ANSWERS)


def test_a_judge_that_overrides_its_own_assessment_is_not_gold(tmp_path: Path) -> None:
    def assessment(id_: str, value: str, **other: str) -> dict[str, Any]:
        source = {"source_type": "LLM_JUDGE", "source_id": "j"}
        common = {"assessment_name": "right", "source": source, "feedback": {"value": value}}
        return {"assessment_id": id_, **common, **other}

    info = {
        "trace_id": "q",
        "assessments": [assessment("a", "yes"), assessment("b", "no", overrides="a")],
    }
    path = tmp_path / "traces.jsonl"
    path.write_bytes(lines([{"info": info}]))
    (row,) = peerage.read(path).to_pylist()
    assert (row["score"], row.get("correct")) == (0.0, None)


def test_the_audit_of_decisions_names_no_reviewer_of_its_own(tmp_path: Path) -> None:
    ((name, data),) = named_columns()
    (tmp_path / name).write_bytes(data)
    audit = peerage.audit(tmp_path / name, people=())
    assert audit.views["judged_beside"] == [DECISIONS]
