"""A provider for decision models, which answer typed questions with probabilities only.

There are two dialects with the same content. In OpenAI's (`POST /decisions`), questions and answers
are lists. In System One's (`POST /systemone`), they are objects by name, a predicate is called a
`noul`, and the levels of a score are numbered. From both, the reply is converted to the document
of `providers.typed_answers`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from peerage.council.readings import rounding_slack
from peerage.errors import ConfigError
from peerage.providers import MAX_REPLY_BYTES, Call, CallError, OnText, Reply, providers
from peerage.providers.chat_replies import body_of, decode_body, model_of, parse_document
from peerage.providers.money import checked_usage, total_usage
from peerage.providers.openai_compatible import OpenAICompatible
from peerage.providers.typed_answers import (
    MAX_QUESTIONS,
    TypedAnswer,
    answer_document,
    concentration,
)
from peerage.types import DECISIONS, Option, Seat, Turn, TypedQuestion, Usage

if TYPE_CHECKING:
    import aiohttp

WRITES_NOTHING = "a decision model writes no text"
Answers = dict[str, TypedAnswer | None]  # by the name of the question; None: the model declined


@providers.register(DECISIONS)
class DecisionModel(OpenAICompatible):
    """One endpoint of decision models, in OpenAI's dialect."""

    constrains = False
    streams = False
    decides = True
    path = "decisions"

    def __new__(cls, seat: Seat, *_: Any) -> DecisionModel:
        """Return the provider of the seat's dialect."""
        return super().__new__(SystemOne if seat.dialect == "systemone" else cls)

    @classmethod
    def endpoint(cls, seat: Seat) -> tuple[str, ...]:
        return (*super().endpoint(seat), seat.dialect)

    @classmethod
    def check(cls, seat: Seat) -> None:
        super().check(seat)
        place = f"seat {seat.name}"
        if not seat.model:
            raise ConfigError(
                "a decision seat needs a model.", place=place, hint='Set model = "…".'
            )
        if seat.dialect not in ("", "openai", "systemone"):
            message = f"unknown dialect {seat.dialect!r}."
            raise ConfigError(message, place=place, hint='Known: "openai", "systemone".')
        if "answer" in seat.roles:
            hint = 'Write roles = ["review"].'
            raise ConfigError(f"{WRITES_NOTHING}, so it cannot answer.", place=place, hint=hint)
        if seat.dialect == "systemone" and not seat.base_url:
            hint = "As in https://api.typesafe.ai/v1."
            raise ConfigError("the dialect systemone needs a base_url.", place=place, hint=hint)
        if seat.dialect == "systemone" and seat.images:
            hint = "Remove images = true: the seat is then only told that there is an image."
            raise ConfigError("the dialect systemone takes no images.", place=place, hint=hint)

    async def complete(self, call: Call, on_text: OnText | None = None) -> Reply:  # noqa: ARG002
        """Ask all questions about one input, in as few requests as the limit allows."""
        if not call.questions:
            raise CallError("bad_request", f"{WRITES_NOTHING}, and this call has no questions")
        answers: Answers = {}
        replies: list[Reply] = []
        for start in range(0, len(call.questions), MAX_QUESTIONS):
            some = call.questions[start : start + MAX_QUESTIONS]
            body = {**call.seat.options, "model": call.seat.model, **self.request(call, some)}
            document = await self._document(body, replies)
            usage = _usage(document.get("usage"))
            try:
                answers |= self.answers(document, some)
            except CallError as error:
                used = total_usage([*(reply.usage for reply in replies), usage])
                raise CallError(error.kind, error.message, usage=used) from None
            replies.append(Reply("", usage, model=model_of(document)))
        return Reply(
            answer_document(answers),
            total_usage(reply.usage for reply in replies),
            model=replies[-1].model,
        )

    async def _document(self, body: Mapping[str, Any], before: Sequence[Reply]) -> dict[str, Any]:
        """Return the reply to one request; an error includes the usage of earlier requests."""
        try:
            return await self.post(body, _read_document)
        except CallError as error:
            if before:
                error.usage = total_usage([*(one.usage for one in before), error.usage or Usage()])
            raise

    def request(self, call: Call, questions: Sequence[TypedQuestion]) -> dict[str, Any]:
        """Return the input and the questions of a request."""
        chat = [{"role": turn.role, "content": _content(turn)} for turn in call.messages]
        is_text = len(chat) == 1 and not call.messages[0].images
        return {
            "input": call.messages[0].content if is_text else chat,
            "questions": [_question(one) for one in questions],
        }

    def answers(self, document: Mapping[str, Any], questions: Sequence[TypedQuestion]) -> Answers:
        """Return the answers in a reply, in the order of the questions."""
        entries = document.get("answers")
        if not isinstance(entries, list):
            raise CallError("not_json", "the reply is JSON but not a decision")
        if len(entries) != len(questions):
            message = f"{len(questions)} questions have {len(entries)} answers"
            raise CallError("missing_answer", message)
        pairs = zip(questions, entries, strict=True)
        return {one.name: self._answer(one, entry) for one, entry in pairs}

    def _answer(self, question: TypedQuestion, entry: Any) -> TypedAnswer | None:
        """Return one answer, or None if the model declined."""
        if not isinstance(entry, Mapping):
            raise _missing(question)
        if entry.get("type") == "refusal":
            return None
        if entry.get("type") != question.kind or entry.get("name") not in (None, question.name):
            raise _missing(question)
        if question.kind == "predicate":
            return _predicate(question, entry.get("probability"))
        listed = entry.get("probabilities")
        entries = listed if isinstance(listed, list) else []
        chances = [one for one in entries if isinstance(one, Mapping)]
        by_value = {_key(one.get("value")): one.get("probability") for one in chances}
        keys = [_key(value) for value in _wire_values(question)]
        return _distribution(question, [by_value.get(key) for key in keys], entry)


class SystemOne(DecisionModel):
    """One endpoint of decision models, in the dialect of System One."""

    path = "systemone"

    def request(self, call: Call, questions: Sequence[TypedQuestion]) -> dict[str, Any]:
        texts = {turn.role: turn.content for turn in call.messages}
        return {
            "state": texts if len(texts) > 1 else call.prompt,
            "questions": {one.name: _system_one_question(one) for one in questions},
        }

    def answers(self, document: Mapping[str, Any], questions: Sequence[TypedQuestion]) -> Answers:
        entries = document.get("answers")
        if not isinstance(entries, Mapping):
            raise CallError("not_json", "the reply is JSON but not a decision")
        return {one.name: self._answer(one, entries.get(one.name)) for one in questions}

    def _answer(self, question: TypedQuestion, entry: Any) -> TypedAnswer | None:
        kind = "noul" if question.kind == "predicate" else question.kind
        if not isinstance(entry, Mapping):
            raise _missing(question)
        if entry.get("type") == "refusal":
            return None
        if entry.get("type", kind) != kind:
            raise _missing(question)
        if kind == "noul":
            return _predicate(question, entry.get("noul"))
        listed = entry.get("probabilities")
        by_key = listed if isinstance(listed, Mapping) else {}
        keys = [option.value for option in question.options]
        if kind == "score":
            keys = [str(i) for i in range(len(keys))]
        return _distribution(question, [by_key.get(key) for key in keys], entry)


# -- the wire ------------------------------------------------------------------------------------


async def _read_document(response: aiohttp.ClientResponse) -> dict[str, Any]:
    body, is_whole = await body_of(response, MAX_REPLY_BYTES)
    if not is_whole:
        raise CallError("too_long", f"the reply is longer than {MAX_REPLY_BYTES} bytes")
    return parse_document(decode_body(body, response.headers.get("Content-Type", "")))


def _content(turn: Turn) -> str | list[dict[str, str]]:
    """Return the content of a message: a text, or a list of parts if it has images."""
    if not turn.images:
        return turn.content
    images = [
        {"type": "input_image", "image_url": one.url, "detail": one.detail or "auto"}
        for one in turn.images
    ]
    return [{"type": "input_text", "text": turn.content}, *images]


def _question(question: TypedQuestion) -> dict[str, Any]:
    about = {"type": question.kind, "name": question.name, "instructions": question.instructions}
    if question.kind == "predicate":
        return about
    if question.kind == "score":
        levels = [{"label": one.value, **_description(one)} for one in question.options]
        return {**about, "levels": levels}
    choices = [{"value": _value(one), **_description(one)} for one in question.options]
    return {**about, "choices": choices}


def _description(option: Option) -> dict[str, str]:
    return {"description": option.description} if option.description else {}


def _system_one_question(question: TypedQuestion) -> dict[str, Any]:
    if question.kind == "predicate":
        return {"type": "noul", "instructions": question.instructions}
    criteria: object
    if question.kind == "score":
        criteria = [
            f"{one.value}: {one.description}" if one.description else one.value
            for one in question.options
        ]
    else:
        criteria = {one.value: one.description or None for one in question.options}
    return {"type": question.kind, "instructions": question.instructions, "criteria": criteria}


def _value(option: Option) -> str | bool:
    return option.value == "true" if option.is_boolean else option.value


def _wire_values(question: TypedQuestion) -> list[str | bool | int]:
    """Return the name of each option in OpenAI's answers: a level's number, or the choice."""
    if question.kind == "score":
        return list(range(len(question.options)))
    return [_value(one) for one in question.options]


def _key(value: object) -> tuple[str, str]:
    """Return a key for comparing values, in which true equals neither 1 nor "true"."""
    return type(value).__name__, str(value)


def _missing(question: TypedQuestion) -> CallError:
    return CallError("missing_answer", f"question {question.name!r} has no answer")


def _predicate(question: TypedQuestion, chance: Any) -> TypedAnswer:
    _check_chances(question, [chance])
    return TypedAnswer((float(chance), 1.0 - float(chance)), abs(2 * float(chance) - 1))


def _distribution(
    question: TypedQuestion, chances: Sequence[Any], entry: Mapping[str, Any]
) -> TypedAnswer:
    """Return the probabilities of all options, scaled so that rounded ones sum to one."""
    if None in chances:
        message = f"question {question.name!r} needs one probability for each of its options"
        raise CallError("bad_probabilities", message)
    _check_chances(question, chances)
    total = math.fsum(chances)
    if abs(total - 1) > rounding_slack(len(chances)):
        message = f"the probabilities of question {question.name!r} sum to {total:.4g}"
        raise CallError("bad_probabilities", message)
    parts = tuple(round(chance / total, 9) for chance in chances)
    confidence = entry.get("confidence")
    if confidence is None:
        return TypedAnswer(parts, concentration(parts))
    _check_chances(question, [confidence])
    return TypedAnswer(parts, float(confidence))


def _check_chances(question: TypedQuestion, chances: Sequence[Any]) -> None:
    for chance in chances:
        is_number = type(chance) in (int, float) and math.isfinite(chance)
        if not is_number or not 0 <= chance <= 1:
            message = f"an answer to question {question.name!r} is not a number from 0 to 1"
            raise CallError("bad_probabilities", message)


def _usage(reported: object) -> Usage:
    if not isinstance(reported, Mapping):
        return Usage()
    tokens = (reported.get("input_tokens"), reported.get("output_tokens"))
    return checked_usage(Usage(*tokens, reported.get("cost")))
