"""Small writers of other tools' files, from the documentation of each: judgements in, bytes out."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple


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


class Ranking(NamedTuple):
    """One reviewer's ranking of all answers, the best first; empty for an abstention."""

    query: int
    judge: str
    ranking: tuple[str, ...]


def lines(records: Iterable[Mapping[str, Any]]) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def document(value: Any) -> bytes:
    return json.dumps(value).encode()


def table(records: Sequence[Mapping[str, Any]], separator: str = ",") -> bytes:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(records[0]), delimiter=separator)
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue().encode()


# -- comparisons -----------------------------------------------------------------------------------


def write_arena(cases: list[Pair]) -> bytes:
    word = {"first": "model_a", "second": "model_b", "tie": "tie (bothbad)"}
    return table(
        [
            {
                "question_id": f"q{pair.query}",
                "model_a": pair.first,
                "model_b": pair.second,
                "winner": word[str(pair.winner)],
                "judge": pair.judge,
                "tstamp": 1_700_000_000,
            }
            for pair in cases
        ]
    )


def write_arena_one_hot(cases: list[Pair]) -> bytes:
    return document(
        [
            {
                "id": f"q{pair.query}",
                "model_a": pair.first,
                "model_b": pair.second,
                "winner_model_a": int(pair.winner == "first"),
                "winner_model_b": int(pair.winner == "second"),
                "winner_tie": int(pair.winner == "tie"),
                "user_id": pair.judge,
            }
            for pair in cases
        ]
    )


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
    swapped = {"first": "B>A", "second": "A>B", "tie": "A=B", None: None}
    return lines(
        {
            "uid": f"q{pair.query}",
            "model": pair.second,
            "baseline": pair.first,
            "judge": pair.judge,
            "games": [
                {"score": word[pair.winner], "judgment": {"answer": "…"}},
                {"score": swapped[pair.winner], "judgment": {"answer": "…"}},
            ],
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
            "g2_winner": word[pair.winner],
            "judge": [pair.judge, "pair-v2"],
            "turn": 1,
            "tstamp": 1686960000.5,
        }
        for pair in cases
    )


def write_mt_bench_votes(cases: list[Pair]) -> bytes:
    word = {"first": "model_a", "second": "model_b", "tie": "tie"}
    return document(
        [
            {
                "question_id": pair.query,
                "model_a": pair.first,
                "model_b": pair.second,
                "winner": word[str(pair.winner)],
                "judge": pair.judge,
                "turn": 2,
                "conversation_a": [{"role": "assistant", "content": "one two"}],
                "conversation_b": [{"role": "assistant", "content": "three"}],
            }
            for pair in cases
        ]
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


def _feedback(cases: list[Pair]) -> list[dict[str, Any]]:
    word = {"first": 1, "second": "-1", None: None}
    return [
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


def write_open_webui(cases: list[Pair]) -> bytes:
    return document(_feedback(cases))


def write_open_webui_table(cases: list[Pair]) -> bytes:
    return table(
        [
            {name: json.dumps(v) if isinstance(v, dict) else v for name, v in entry.items()}
            for entry in _feedback(cases)
        ]
    )


# -- scores ----------------------------------------------------------------------------------------


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


def _by_query(cases: list[Grade]) -> dict[int, list[Grade]]:
    by_query: dict[int, list[Grade]] = {}
    for grade in cases:
        by_query.setdefault(grade.query, []).append(grade)
    return by_query


def write_inspect(cases: list[Grade]) -> bytes:
    """Write a log, which has one candidate."""
    return document(
        {
            "version": 2,
            "status": "success",
            "eval": {
                "task": "t",
                "model": cases[0].candidate,
                "created": "2026-01-01T00:00:00+00:00",
            },
            "plan": {},
            "samples": [
                {
                    "id": query,
                    "epoch": 1,
                    "output": {"completion": "a b"},
                    "scores": {
                        one.judge: {"value": float("nan") if one.score is None else one.score}
                        for one in graded
                    },
                }
                for query, graded in _by_query(cases).items()
            ],
        }
    )


def write_inspect_archive(cases: list[Grade]) -> bytes:
    log = json.loads(write_inspect(cases))
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        for sample in log.pop("samples"):
            out.writestr(f"samples/{sample['id']}_epoch_1.json", json.dumps(sample))
        out.writestr("header.json", json.dumps(log))
    return archive.getvalue()


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


def write_deepeval(cases: list[Grade]) -> bytes:
    """Write a run, which has one candidate."""
    return document(
        {
            "testCases": [
                {
                    "name": f"test_case_{query}",
                    "input": f"question {query}",
                    "actualOutput": "a b",
                    "metricsData": [
                        {"name": one.judge, "score": one.score, "threshold": 0.5}
                        if one.score is not None
                        else {"name": one.judge, "score": 0.0, "error": "no reply"}
                        for one in graded
                    ],
                }
                for query, graded in _by_query(cases).items()
            ],
            "hyperparameters": {"model": cases[0].candidate},
        }
    )


def write_lm_eval(cases: list[Grade]) -> bytes:
    """Write samples, which have one candidate; it is the name of the folder."""
    return lines(
        {
            "doc_id": query,
            "doc": {"question": f"question {query}"},
            "target": "a",
            "arguments": {},
            "resps": [["a b"]],
            "filtered_resps": ["a b"],
            "filter": "none",
            "metrics": [one.judge for one in graded],
            **{one.judge: one.score for one in graded},
        }
        for query, graded in _by_query(cases).items()
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
                "trace_id": f"q{grade.query}",
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
        for grade in cases
    )


def write_long_table(cases: list[Grade]) -> bytes:
    return table(
        [
            {"q": one.query, "who": one.judge, "what": one.candidate, "points": one.score}
            for one in cases
        ],
        ";",
    )


def write_wide_table(cases: list[Grade]) -> bytes:
    """Write a row for each answer and a column for each judge; a cell may be empty."""
    judges = sorted({one.judge for one in cases})
    scores = {(one.query, one.candidate, one.judge): one.score for one in cases}
    return table(
        [
            {
                "q": query,
                "what": candidate,
                **{judge: scores.get((query, candidate, judge)) for judge in judges},
            }
            for query, candidate in sorted({(one.query, one.candidate) for one in cases})
        ]
    )


# -- rankings --------------------------------------------------------------------------------------


def _label(place: int) -> str:
    return f"Response {'ABCDEFG'[place]}"


def _rankings(cases: list[Ranking], names: Sequence[str]) -> dict[int, list[dict[str, Any]]]:
    by_query: dict[int, list[dict[str, Any]]] = {}
    for one in cases:
        labels = [_label(names.index(name)) for name in one.ranking]
        text = "FINAL RANKING:\n" + "\n".join(f"{n}. {label}" for n, label in enumerate(labels, 1))
        given = {"model": one.judge, "ranking": text if labels else "I cannot say."}
        by_query.setdefault(one.query, []).append({**given, "parsed_ranking": labels})
    return by_query


def write_council(cases: list[Ranking], names: Sequence[str]) -> bytes:
    answers = [{"model": name, "response": f"from {name}"} for name in names]
    return document(
        [
            {
                "id": f"c{query}",
                "created_at": "2026-01-01T00:00:00",
                "title": "New Conversation",
                "messages": [
                    {"role": "user", "content": f"question {query}"},
                    {
                        "role": "assistant",
                        "stage1": answers,
                        "stage2": given,
                        "stage3": {"model": names[0], "response": "so"},
                    },
                ],
            }
            for query, given in _rankings(cases, names).items()
        ]
    )


def write_llm_council(cases: list[Ranking], names: Sequence[str]) -> bytes:
    return lines(
        {
            "session_id": f"c{query}",
            "query": f"question {query}",
            "responses": [{"model": name, "response": f"from {name}"} for name in names],
            "label_to_model": {_label(place): name for place, name in enumerate(names)},
            "rankings": given,
        }
        for query, given in _rankings(cases, names).items()
    )


Writer = Callable[[list[Any]], bytes]
