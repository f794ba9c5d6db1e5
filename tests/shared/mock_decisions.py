"""What the mock server's decision models answer, in OpenAI's dialect and in that of System One.

A response is worth the same here as to the mock's reviewers that write. Faults, besides a status:
refusal (of every question), refuse_first, missing (of the last answer), sum (to 0.9), nan, beyond.
"""

from __future__ import annotations

import math
import re
from typing import Any

from tests.shared.mock_text import BLOCK, draw, worth

Json = dict[str, Any]
LABEL = re.compile(r"Response ([A-Z]{1,2})")
MAX_QUESTIONS, MAX_CHOICES, MAX_LEVELS = 400, 255, 10


def refusal_of(dialect: str, request: Json) -> str:
    """Why the endpoint would refuse a request, or nothing."""
    questions = questions_of(dialect, request)
    if not 1 <= len(questions) <= MAX_QUESTIONS:
        return f"Ask 1 to {MAX_QUESTIONS} questions, not {len(questions)}."
    for one in questions.values():
        options = options_of(one)
        if one["type"] == "choice" and not 2 <= len(options) <= MAX_CHOICES:
            return "Provide between 2 and 255 choices."
        if one["type"] == "score" and not 2 <= len(options) <= MAX_LEVELS:
            return "Provide between 2 and 10 levels."
    return ""


def questions_of(dialect: str, request: Json) -> dict[str, Json]:
    if dialect == "systemone":
        return dict(request["questions"])
    return {one.get("name") or str(i): one for i, one in enumerate(request["questions"])}


def options_of(question: Json) -> list[Any]:
    if "criteria" in question:
        return list(question["criteria"])
    named = question.get("choices") or question.get("levels") or []
    return [one.get("value", one.get("label")) for one in named]


def decision(seed: str, dialect: str, request: Json, fault: str) -> Json:
    """The reply to a request, whole or with a fault."""
    about = request["state"] if dialect == "systemone" else request["input"]
    text = about if isinstance(about, str) else str(about)
    worths = {label: worth(seed, request["model"], body) for label, _, body in BLOCK.findall(text)}
    entries: dict[str, Json] = {}
    for i, (name, question) in enumerate(questions_of(dialect, request).items()):
        if fault == "refusal" or (fault == "refuse_first" and i == 0):
            entries[name] = {"type": "refusal"}
        else:
            shares = chances(seed, request["model"], text, question, worths)
            entries[name] = answer(dialect, question, distort(shares, fault))
    if fault == "missing":
        entries.popitem()
    n_tokens = len(str(request)) // 4
    reply: Json = {"model": request["model"], "usage": usage(n_tokens)}
    if dialect == "systemone":
        return {**reply, "answers": entries}
    return {**reply, "answers": [{"name": name, **one} for name, one in entries.items()]}


def chances(
    seed: str, model: str, text: str, question: Json, worths: dict[str, float]
) -> list[float]:
    """The probability of each option; of a predicate, of true and false."""
    options = options_of(question) or [True, False]
    label = LABEL.search(str(question["instructions"]))
    drawn = draw("decision", seed, model, text, str(question)) / 2**64
    if question["type"] == "choice" and all(str(one) in worths for one in options):
        weights = [math.exp(worths[str(one)]) for one in options]
    else:
        value = worths.get(f"Response {label[1]}", 10 * drawn) if label else 10 * drawn
        place = (value - 1) / 9 * (len(options) - 1)
        weights = [math.exp(-abs(i - place) * 1.5) for i in range(len(options))]
    return [weight / sum(weights) for weight in weights]


def distort(shares: list[float], fault: str) -> list[float]:
    if fault == "sum":
        return [share * 0.9 for share in shares]
    if fault == "nan":
        return [math.nan, *shares[1:]]
    return [1.5, *shares[1:]] if fault == "beyond" else shares


def answer(dialect: str, question: Json, shares: list[float]) -> Json:
    kind, options = question["type"], options_of(question)
    if kind in ("predicate", "noul"):
        return {"type": kind, "noul" if dialect == "systemone" else "probability": shares[0]}
    about: Json = {"type": kind, "confidence": 0.5}
    top = max(range(len(shares)), key=lambda i: shares[i])
    if kind == "score":
        about["score"] = sum(i * share for i, share in enumerate(shares))
        if dialect == "systemone":
            legend = {str(i): text for i, text in enumerate(options)}
            by_number = {str(i): share for i, share in enumerate(shares)}
            return {**about, "legend": legend, "probabilities": by_number}
        rows = zip(options, shares, strict=True)
        levels = [{"label": o, "value": i, "probability": p} for i, (o, p) in enumerate(rows)]
        return {**about, "probabilities": levels}
    about["choice"] = options[top]
    if dialect == "systemone":
        return {**about, "probabilities": dict(zip(options, shares, strict=True))}
    pairs = zip(options, shares, strict=True)
    return {**about, "probabilities": [{"value": o, "probability": p} for o, p in pairs]}


def usage(n: int) -> Json:
    return {
        "input_tokens": n,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 0,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": n,
    }
