"""The council as a decision model: typed questions in, the panel's probabilities out.

`POST /v1/decisions` uses OpenAI's formats, `POST /v1/systemone` those of System One. Votes,
dissent, cost and the session are under `peerage`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from peerage.bills import Bill
from peerage.doors.http.access import RUN, Serving
from peerage.doors.http.problems import RESPONSES, UnsupportedError
from peerage.doors.openai.connected_clients import unless_gone
from peerage.doors.openai.council_models import MODEL, CouncilModels
from peerage.doors.openai.council_requests import (
    IMAGE_ALONE,
    TEXT_AND_IMAGES,
    Lenient,
    SpokenTurn,
    images_of,
)
from peerage.errors import PeerageError
from peerage.messages import IMAGE_PARTS
from peerage.panel_probabilities import dissenters
from peerage.providers.typed_answers import MAX_QUESTIONS, concentration, likeliest
from peerage.service import NoVerdictError, Service
from peerage.session_requests import EarlierTurn, SessionRequest
from peerage.types import MAX_QUERY_CHARACTERS, Option, PanelAnswer, TypedQuestion
from peerage.view import SessionView

Json = dict[str, Any]
UNNAMED = "question {}"  # the name of a question that the client did not name
CLIENT_GONE = 499
ONLY_TEXT = "A question is text or JSON: images belong in the messages of the input."

router = APIRouter(prefix="/v1", tags=["openai"], responses=RESPONSES)


# -- requests ------------------------------------------------------------------------------------


class DecisionChoice(Lenient):
    """An option of a choice."""

    value: str | bool
    description: str = ""


class DecisionLevel(Lenient):
    """A level of a score."""

    label: str
    description: str = ""


class DecisionQuestion(Lenient):
    """A predicate, a choice with its options, or a score with its levels from low to high."""

    type: Literal["predicate", "choice", "score"]
    instructions: str | list[Json]
    name: str = Field(default="", max_length=200)
    choices: list[DecisionChoice] = Field(default_factory=list)
    levels: list[DecisionLevel] = Field(default_factory=list)

    def question(self, number: int) -> TypedQuestion:
        """Return the typed question for the panel."""
        options = [
            Option(
                json.dumps(one.value) if isinstance(one.value, bool) else one.value,
                one.description,
                isinstance(one.value, bool),
            )
            for one in self.choices
        ]
        options += [Option(one.label, one.description) for one in self.levels]
        name = self.name or UNNAMED.format(number)
        return TypedQuestion(name, self.type, _text(self.instructions), tuple(options))


class DecisionRequest(Lenient):
    """Typed questions about one input, in OpenAI's format."""

    model: str = MODEL
    input: str | list[Json] = Field(examples=["I was charged twice. Please help."])
    questions: list[DecisionQuestion] = Field(min_length=1, max_length=MAX_QUESTIONS)

    def session_request(self, models: CouncilModels) -> SessionRequest:
        """Return the session for this request."""
        system, turns = _conversation(self.input)
        *earlier, last = turns
        return SessionRequest(
            query=last.text,
            images=last.images,
            system=system,
            earlier=tuple(
                EarlierTurn.model_validate(
                    {"role": turn.role, "content": turn.text, "images": turn.images}
                )
                for turn in earlier
            ),
            seats=models.choice(self.model).seats,
            questions=tuple(one.question(i) for i, one in enumerate(self.questions, start=1)),
        )


class SystemOneQuestion(Lenient):
    """A noul (true or false), a choice with its options, or a score with its levels."""

    type: Literal["noul", "choice", "score"]
    instructions: str | Json | list[Any]
    criteria: dict[str, str | None] | list[str] = Field(default_factory=list)

    def question(self, name: str) -> TypedQuestion:
        """Return the typed question for the panel."""
        words = _plain(self.instructions)
        if self.type == "noul":
            if isinstance(self.criteria, dict):
                meanings = [f"{key}: {value}" for key, value in self.criteria.items() if value]
                words = "\n".join([words, *meanings])
            return TypedQuestion(name, "predicate", words)
        if isinstance(self.criteria, dict):
            options = [Option(key, value or "") for key, value in self.criteria.items()]
        else:
            options = [Option(level) for level in self.criteria]
        return TypedQuestion(name, self.type, words, tuple(options))


class SystemOneRequest(Lenient):
    """Typed questions by name about one state (a text or JSON), in the format of System One."""

    model: str = MODEL
    state: str | Json | list[Any] = Field(examples=["I was charged twice. Please help."])
    questions: dict[str, SystemOneQuestion] = Field(min_length=1, max_length=MAX_QUESTIONS)

    def session_request(self, models: CouncilModels) -> SessionRequest:
        """Return the session for this request."""
        text = _plain(self.state)
        if not text.strip():
            raise UnsupportedError("the state is empty.", param="state")
        return SessionRequest(
            query=text[: MAX_QUERY_CHARACTERS + 1],
            seats=models.choice(self.model).seats,
            questions=tuple(one.question(name) for name, one in self.questions.items()),
        )


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)


def _text(content: object, param: str = "questions") -> str:
    """Return the text of a content, which may be a list of parts; JSON parts become text.

    Images in the input are skipped; an image in a question is refused.
    """
    if isinstance(content, str):
        return content
    texts = []
    for part in content if isinstance(content, list) else [None]:
        kind = part.get("type") if isinstance(part, Mapping) else None
        text = part.get("text", part.get("refusal")) if isinstance(part, Mapping) else None
        if kind in IMAGE_PARTS and param == "input":
            continue
        if kind == "input_json" and isinstance(part, Mapping):
            text = _plain(part.get("data"))
        if not isinstance(text, str):
            hint = TEXT_AND_IMAGES if param == "input" else ONLY_TEXT
            raise UnsupportedError(f"a part of the {param} is not text.", param=param, hint=hint)
        texts.append(text)
    return "\n".join(texts)


def _conversation(items: str | Sequence[Json]) -> tuple[str, list[SpokenTurn]]:
    """Return the system text of an input and its turns; tool calls are turns too, as text."""
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    system: list[str] = []
    turns: list[SpokenTurn] = []
    for item in items:
        role, kind = item.get("role"), item.get("type", "message")
        if role in ("system", "developer"):
            system.append(_text(item.get("content"), "input"))
        elif role in ("user", "assistant"):
            turns.append(_turn(role, item.get("content")))
        elif kind in ("function_call", "custom_tool_call"):
            given = item.get("arguments", item.get("input", ""))
            called = f"Called the tool {item.get('name')} with {given}"
            turns.append(SpokenTurn("assistant", called))
        elif kind in ("function_call_output", "custom_tool_call_output"):
            result = _turn("user", item.get("output"))
            turns.append(result._replace(text=f"Result of the tool:\n{result.text}"))
        else:
            message = "an item of the input is neither a message nor a call of a tool."
            raise UnsupportedError(message, param="input")
    turns = [turn for turn in turns if turn.text.strip()]
    if not turns:
        raise UnsupportedError("the input is empty.", param="input")
    return "\n\n".join(filter(None, system)), turns


def _turn(role: str, content: object) -> SpokenTurn:
    """Return a message with its images; for a message without words, the text says so."""
    text, images = _text(content, "input"), images_of(content, "input")
    return SpokenTurn(role, text if text.strip() or not images else IMAGE_ALONE, images)


# -- replies -------------------------------------------------------------------------------------


@router.post("/decisions", response_model=None, dependencies=[RUN])
async def create_decision(
    service: Serving, body: DecisionRequest, request: Request
) -> Json | Response:
    """Answer typed questions about an input (text or messages) with the panel's probabilities."""
    view = await _hold_session(service, body, request)
    if view is None:
        return Response(status_code=CLIENT_GONE)
    answers = _answers(view)
    return {
        "model": body.model,
        "answers": [
            openai_answer(question, answers.get(question.name), sent.name or None)
            for question, sent in zip(view.query.questions, body.questions, strict=True)
        ],
        "usage": _usage(view.bill),
        "peerage": _extras(view, request),
    }


@router.post("/systemone", response_model=None, dependencies=[RUN])
async def create_systemone(
    service: Serving, body: SystemOneRequest, request: Request
) -> Json | Response:
    """Answer typed questions about a state (a text or JSON) with the panel's probabilities."""
    view = await _hold_session(service, body, request)
    if view is None:
        return Response(status_code=CLIENT_GONE)
    answers = _answers(view)
    return {
        "model": body.model,
        "answers": {
            one.name: systemone_answer(one, answers.get(one.name)) for one in view.query.questions
        },
        "usage": {
            "input_tokens": view.bill.tokens_in or 0,
            "output_tokens": view.bill.tokens_out or 0,
        },
        "peerage": _extras(view, request),
    }


async def _hold_session(
    service: Service, body: DecisionRequest | SystemOneRequest, request: Request
) -> SessionView | None:
    """Run the session for a request and return it, or None if its client disconnected."""
    models = CouncilModels(service.settings.seats, await service.panels())
    session_id = await service.start(body.session_request(models))

    async def follow() -> SessionView:
        view = SessionView(service.settings)
        async for events in service.watch(session_id):
            for event in events:
                view.see(event)
        return view

    view = await unless_gone(request, follow())
    if view is None:
        await service.cancel(session_id)
        return None
    if view.verdict is None:
        raise _no_votes(view)
    return view


def _no_votes(view: SessionView) -> PeerageError:
    failed = "; ".join(f"{one.seat}: {one.message} ({one.kind})" for one in view.failures)
    return NoVerdictError(f"no seat voted. {failed}".strip(), place=f"session {view.id}")


def _answers(view: SessionView) -> dict[str, PanelAnswer]:
    return {one.name: one for one in (view.verdict.answers if view.verdict else ())}


def openai_answer(question: TypedQuestion, answer: PanelAnswer | None, name: str | None) -> Json:
    """Return an answer in OpenAI's format; without votes, it is a refusal."""
    if answer is None:
        return {"type": "refusal", "name": name}
    chances, about = answer.probabilities, {"type": question.kind, "name": name}
    if question.kind == "predicate":
        return {**about, "probability": chances[0]}
    about["confidence"] = round(concentration(chances), 6)  # type: ignore[assignment]
    if question.kind == "score":
        levels = [
            {"label": option.value, "value": i, "probability": chance}
            for i, (option, chance) in enumerate(zip(question.options, chances, strict=True))
        ]
        return {**about, "score": _mean_level(chances), "probabilities": levels}
    values = [one.value == "true" if one.is_boolean else one.value for one in question.options]
    pairs = zip(values, chances, strict=True)
    listed = [{"value": value, "probability": chance} for value, chance in pairs]
    return {**about, "choice": values[likeliest(chances)], "probabilities": listed}


def systemone_answer(question: TypedQuestion, answer: PanelAnswer | None) -> Json:
    """Return an answer in System One's format; without votes, it is a refusal."""
    if answer is None:
        return {"type": "refusal"}
    chances = answer.probabilities
    if question.kind == "predicate":
        return {"type": "noul", "noul": chances[0]}
    about: Json = {"type": question.kind, "confidence": round(concentration(chances), 6)}
    values = [one.value for one in question.options]
    if question.kind == "score":
        numbers = list(map(str, range(len(values))))
        return {
            **about,
            "score": _mean_level(chances),
            "legend": dict(zip(numbers, values, strict=True)),
            "probabilities": dict(zip(numbers, chances, strict=True)),
        }
    by_value = dict(zip(values, chances, strict=True))
    return {**about, "choice": values[likeliest(chances)], "probabilities": by_value}


def _mean_level(chances: Sequence[float]) -> float:
    return round(sum(i * chance for i, chance in enumerate(chances)), 6)


def _usage(bill: Bill) -> Json:
    n_in, n_out = bill.tokens_in or 0, bill.tokens_out or 0
    return {
        "input_tokens": n_in,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": n_out,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": n_in + n_out,
    }


def _extras(view: SessionView, request: Request) -> Json:
    answers = _answers(view).values()
    return {
        "session": view.id,
        "kind": view.kind,
        "url": f"{request.base_url}sessions/{view.id}",
        "votes": {one.name: dict(one.votes) for one in answers},
        "dissent": {one.name: dissenters(one) for one in answers},
        "effective_votes": {one.name: one.effective_votes for one in answers},
        "calibrated": {one.name: one.calibrated for one in answers},
        "images_not_seen_by": list(view.images_not_seen_by),
        "failed": [{"seat": one.seat, "kind": one.kind} for one in view.failures],
        "cost_usd": view.bill.usd,
        "unpriced_calls": view.bill.n_unpriced,
    }
