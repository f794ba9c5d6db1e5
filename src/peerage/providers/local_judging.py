"""Reviews by a small local model, made from its probabilities instead of its words.

A small model that fills in a ranking follows the labels and ignores the answers. So it is shown one
answer at a time, without a label. With the judge "likelihood", the mark measures how much likelier
the answer is after the question than after `ABOUT_NOTHING`. With "probability", the mark is the
probability of "yes" against "no". A likelihood cannot distinguish the dimensions of a rubric.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from peerage.council.prompts import heading, own_answer_in
from peerage.messages import query_for
from peerage.providers import Call
from peerage.text import valid_text

JUDGES = ("likelihood", "probability", "ranking")  # "ranking": the model writes its review
N_TOKENS = 40  # how many of the likeliest first tokens are read
FLOOR = -20.0  # the log-probability of a word that is not among these tokens
READ_CHARACTERS = 500  # how much of an answer is read for its likelihood
ABOUT_NOTHING = "Say something."
STEP = 4.0  # a gain of this much log-probability per token multiplies the odds of a mark by e
QUESTION = "Question: {question}\n\n{own}Answer: {answer}\n\n{ask} Reply with yes or no."
OWN_ANSWER = "You have answered it before: {own}\n\n"
HOLISTIC = "Is this a good answer, correct and to the point?"
BY_DIMENSION = "Is this answer good in its {dimension}?"
CONTROL_TOKEN = re.compile(r"<\|(?=\w+\|>)")


def judges_by_probability(call: Call, judge: str) -> bool:
    """Return whether a call is for a review that is made from probabilities."""
    return call.ballot is not None and call.schema is not None and judge != "ranking"


def _judges_by_likelihood(call: Call, judge: str) -> bool:
    return judge == "likelihood" and _dimensions_of(call) == [""]


def probability_requests(call: Call, judge: str) -> list[dict[str, Any]]:
    """Return the requests for a review by probabilities, in the order of the answers."""
    if not _judges_by_likelihood(call, judge):
        return [_yes_or_no_request(question) for question in yes_or_no_questions(call)]
    own = own_answer_in(call.prompt)
    before = "" if own is None else OWN_ANSWER.format(own=own)
    return [
        _likelihood_request(prompt, slot.text or "")
        for slot in (call.ballot.slots if call.ballot else ())
        for prompt in (before + call.query.text, ABOUT_NOTHING)
    ]


def _likelihood_request(prompt: str, answer: str) -> dict[str, Any]:
    """Return the request that makes the model write this answer, with each token's probability.

    The grammar allows no other text; the probabilities are those before the grammar applies.
    """
    text = harmless(answer).strip()[:READ_CHARACTERS] or "…"
    return {
        **_yes_or_no_request(prompt),
        "max_tokens": READ_CHARACTERS,
        "top_logprobs": 1,
        "grammar": f"root ::= {json.dumps(text, ensure_ascii=False)}",
    }


def _dimensions_of(call: Call) -> list[str]:
    """Return the dimensions that a review asks for; a holistic review has one without a name."""
    evaluation = (call.schema or {}).get("$defs", {}).get("evaluation", {})
    names = [name for name in evaluation.get("properties", {}) if name not in ("notes", "agrees")]
    return names or [""]


def yes_or_no_questions(call: Call) -> list[str]:
    """Return the questions about each answer of a ballot, by dimension."""
    own = own_answer_in(call.prompt)
    before = "" if own is None else OWN_ANSWER.format(own=own)
    question = query_for(call.seat, call.query).text
    return [
        QUESTION.format(
            question=question,
            own=before,
            answer=slot.text or "",
            ask=BY_DIMENSION.format(dimension=name.replace("_", " ")) if name else HOLISTIC,
        )
        for slot in (call.ballot.slots if call.ballot else ())
        for name in _dimensions_of(call)
    ]


def _yes_or_no_request(question: str) -> dict[str, Any]:
    """Return the request for the first word of a reply, with its probabilities."""
    return {
        "messages": [{"role": "user", "content": harmless(question)}],
        "temperature": 0.0,
        "max_tokens": 1,
        "logprobs": True,
        "top_logprobs": N_TOKENS,
        "stream": True,
        "cache_prompt": False,
        "return_progress": True,
        "timings_per_token": True,
    }


def yes_probability(chances: Mapping[str, float]) -> float:
    """Return the probability of "yes" relative to "no" as the first word of a reply."""
    total = {"yes": 0.0, "no": 0.0}
    for token, logprob in chances.items():
        word = token.strip().casefold()
        if word in total:
            total[word] += math.exp(logprob)
    yes, no = (total[word] or math.exp(FLOOR) for word in ("yes", "no"))
    return yes / (yes + no)


def likelihood_gain(answering: Sequence[float], unprompted: Sequence[float]) -> float:
    """Return how much likelier the question makes an answer, per token, on a scale from 0 to 1."""
    gain = (math.fsum(answering) - math.fsum(unprompted)) / max(len(answering), 1)
    return 1.0 / (1.0 + math.exp(-max(-60.0, min(gain / STEP, 60.0))))


def probable_review(
    call: Call,
    judge: str,
    first_words: Sequence[Mapping[str, float]],
    written: Sequence[Sequence[float]],
) -> str:
    """Return a review as JSON; its marks are probabilities, on the scale from 1 to 10.

    For each request, `first_words` has the log-probabilities of the first word by token, and
    `written` those of all tokens that the model wrote.
    """
    if _judges_by_likelihood(call, judge):
        pairs = zip(written[::2], written[1::2], strict=True)
        chances = iter([likelihood_gain(one, other) for one, other in pairs])
    else:
        chances = iter([yes_probability(one) for one in first_words])
    slots, names = call.ballot.slots if call.ballot else (), _dimensions_of(call)
    likely = {heading(slot.label): {name: next(chances) for name in names} for slot in slots}
    marks = {
        label: {name: round(1 + 9 * chance, 2) for name, chance in some.items()}
        for label, some in likely.items()
    }
    ranking = sorted(likely, key=lambda label: -sum(likely[label].values()))
    votes = {label: some[""] for label, some in marks.items() if "" in some}
    opinion = {"scores": votes} if votes else {"evaluations": marks}
    return json.dumps({"ballot": call.code, **opinion, "ranking": ranking})


def harmless(text: str) -> str:
    """Return valid Unicode text without control tokens of the chat template.

    The runtime reads `<|im_end|>` as the end of a message anywhere in the text, so an answer
    that quotes it could pretend to be another speaker.
    """
    return CONTROL_TOKEN.sub("< |", valid_text(text))
