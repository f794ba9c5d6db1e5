"""Files as other tools write them, from comparisons and grades."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

WINNERS = ("first", "second", "tie", None)
RANKS = {"first": (1, 2), "second": (2, 1), "tie": (1, 1), None: (None, None)}


class Pair(NamedTuple):
    """One comparison, in the order in which the answers were shown."""

    query: int
    first: str
    second: str
    judge: str
    winner: str | None


class Grade(NamedTuple):
    """One score of an answer."""

    query: int
    candidate: str
    judge: str
    score: float | None


def lines(records: Iterable[Mapping[str, Any]]) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def document(value: Any) -> bytes:
    return json.dumps(value).encode()


# -- writers, from each tool's documentation -------------------------------------------------------


def write_alpaca_eval(cases: list[Pair]) -> bytes:
    preference = {"first": 1.0, "second": 2.0, "tie": 1.5, None: None}
    return document(
        [
            {
                "instruction": f"question {pair.query}",
                "output_1": "one two",
                "generator_1": pair.first,
                "output_2": "three",
                "generator_2": pair.second,
                "annotator": pair.judge,
                "preference": preference[pair.winner],
            }
            for pair in cases
        ]
    )


def write_arena_hard(cases: list[Pair]) -> bytes:
    word = {"first": "A>>B", "second": "B>A", "tie": "A=B", None: None}
    return lines(
        {
            "uid": f"q{pair.query}",
            "model": pair.second,
            "baseline": pair.first,
            "judge": pair.judge,
            "games": [{"score": word[pair.winner], "judgment": {"answer": "…"}}],
        }
        for pair in cases
    )


def write_mt_bench(cases: list[Pair]) -> bytes:
    word = {"first": "model_1", "second": "model_2", "tie": "tie", None: "error"}
    return lines(
        {
            "question_id": pair.query,
            "model_1": pair.first,
            "model_2": pair.second,
            "g1_winner": word[pair.winner],
            "g2_winner": "error",
            "judge": [pair.judge, "pair-v2"],
            "turn": 1,
            "tstamp": 1686960000.5,
        }
        for pair in cases
    )


def write_peereval(cases: list[Pair]) -> bytes:
    word = {"first": "A", "second": "B", "tie": "tie", None: None}
    return lines(
        {
            "dataset": "d",
            "question_id": f"q{pair.query}",
            "solver_left": min(pair[1:3]),
            "solver_right": max(pair[1:3]),
            "response_a_model": pair.first,
            "response_b_model": pair.second,
            "judge_model": pair.judge,
            "position": "AB" if pair.first < pair.second else "BA",
            "judgment": {"winner": word[pair.winner]},
            "error": None if pair.winner else "TimeoutError: late",
        }
        for pair in cases
    )


def write_open_webui(cases: list[Pair]) -> bytes:
    word = {"first": 1, "second": "-1", "tie": 0, None: None}
    return document(
        [
            {
                "id": f"{number}",
                "user_id": pair.judge,
                "version": 0,
                "type": "rating",
                "data": {
                    "rating": word[pair.winner],
                    "model_id": pair.first,
                    "sibling_model_ids": [pair.second],
                },
                "meta": {"chat_id": f"c{pair.query}", "message_id": f"m{pair.query}"},
                "snapshot": {"chat": {}},
                "created_at": 1_700_000_000,
            }
            for number, pair in enumerate(cases)
        ]
    )


def write_mt_bench_single(cases: list[Grade]) -> bytes:
    return lines(
        {
            "question_id": grade.query,
            "model": grade.candidate,
            "judge": [grade.judge, "single-v1"],
            "judgment": "Rating: [[5]]",
            "score": -1 if grade.score is None else grade.score,
            "turn": 1,
        }
        for grade in cases
    )


def write_inspect(cases: list[Grade], candidate: str = "m") -> bytes:
    scores: dict[int, dict[str, Any]] = {}
    for grade in cases:
        value = float("nan") if grade.score is None else grade.score
        scores.setdefault(grade.query, {})[grade.judge] = {"value": value}
    return document(
        {
            "version": 2,
            "status": "success",
            "eval": {"task": "t", "model": candidate, "created": "2026-01-01T00:00:00+00:00"},
            "plan": {},
            "samples": [
                {"id": query, "epoch": 1, "output": {"completion": "a b"}, "scores": judged}
                for query, judged in scores.items()
            ],
        }
    )


def write_promptfoo(cases: list[Grade]) -> bytes:
    answers: dict[tuple[int, str], list[Grade]] = {}
    for grade in cases:
        answers.setdefault((grade.query, grade.candidate), []).append(grade)
    return document(
        {
            "evalId": "eval-1",
            "results": {
                "version": 3,
                "timestamp": "2026-01-01T00:00:00.000Z",
                "prompts": [{"label": "p", "raw": "p"}],
                "results": [
                    {
                        "testIdx": query,
                        "promptIdx": 0,
                        "provider": {"id": candidate, "label": ""},
                        "response": {"output": "a b"},
                        "gradingResult": {
                            "componentResults": [
                                {
                                    "score": one.score or 0,
                                    "pass": True,
                                    "reason": "ok" if one.score is not None else "API error: 500",
                                    "assertion": {"type": "llm-rubric", "metric": one.judge},
                                }
                                for one in graded
                            ]
                        },
                    }
                    for (query, candidate), graded in answers.items()
                ],
            },
        }
    )


def write_langfuse(cases: list[Grade]) -> bytes:
    return document(
        {
            "data": [
                {
                    "id": f"{number}",
                    "name": grade.judge,
                    "source": "EVAL",
                    "dataType": "NUMERIC",
                    "value": grade.score,
                    "subject": {"kind": "trace", "id": f"q{grade.query}"},
                    "metadata": {"model": grade.candidate},
                    "timestamp": "2026-01-01T00:00:00Z",
                }
                for number, grade in enumerate(cases)
            ],
            "meta": {},
        }
    )


def write_openai_evals(cases: list[Grade]) -> bytes:
    return document(
        {
            "object": "list",
            "data": [
                {
                    "object": "eval.run.output_item",
                    "eval_id": "e",
                    "created_at": 1_743_092_076,
                    "datasource_item_id": grade.query,
                    "results": [{"name": grade.judge, "score": grade.score, "passed": None}],
                    "sample": {
                        "model": grade.candidate,
                        "output": [{"role": "assistant", "content": "a b"}],
                    },
                }
                for grade in cases
            ],
        }
    )


def write_mlflow(cases: list[Grade]) -> bytes:
    return lines(
        {
            "info": {
                "trace_id": f"tr-{number}",
                "request_time": "2026-01-01T00:00:00Z",
                "tags": {"model": grade.candidate},
                "assessments": [
                    {
                        "assessment_id": "a1",
                        "assessment_name": "quality",
                        "source": {"source_type": "HUMAN", "source_id": grade.judge},
                        "feedback": {"value": grade.score},
                    }
                ],
            },
            "data": {"spans": []},
        }
        for number, grade in enumerate(cases)
    )


PAIR_WRITERS: dict[str, tuple[str, Callable[[list[Pair]], bytes]]] = {
    "alpaca-eval": ("annotations.json", write_alpaca_eval),
    "arena-hard": ("model.jsonl", write_arena_hard),
    "mt-bench": ("gpt-4_pair.jsonl", write_mt_bench),
    "peereval": ("judgments.jsonl", write_peereval),
    "open-webui": ("feedback.json", write_open_webui),
}
GRADE_WRITERS: dict[str, tuple[str, Callable[[list[Grade]], bytes]]] = {
    "mt-bench": ("gpt-4_single.jsonl", write_mt_bench_single),
    "promptfoo": ("results.json", write_promptfoo),
    "langfuse": ("scores.json", write_langfuse),
    "openai-evals": ("items.json", write_openai_evals),
    "mlflow": ("traces.jsonl", write_mlflow),
}
