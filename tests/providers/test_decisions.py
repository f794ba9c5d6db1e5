"""Decision models in two dialects: what goes over the wire, and every fault with its kind."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from openai.types import Decision
from openai.types.decision_create_params import DecisionCreateParams
from pydantic import TypeAdapter

from peerage import config
from peerage.errors import ConfigError
from peerage.providers import Call, CallError, Kind, Reply, providers
from peerage.providers.calling import Caller
from peerage.providers.decisions import DecisionModel, SystemOne
from peerage.providers.typed_answers import (
    answers_in,
    approval_question,
    ballot_questions,
    tie_question,
)
from peerage.types import Ballot, Failure, Image, Option, Query, Seat, Slot, TypedQuestion
from tests.shared.mock_decisions import decision

AskFor = Callable[..., Call]
SLOTS = tuple(Slot(label, label.lower(), f"text {label}") for label in "ABC")
QUESTIONS = (
    *ballot_questions(Ballot("judge", SLOTS), config.rubric("general")),
    approval_question(),
    tie_question(SLOTS),
    TypedQuestion("flag", "choice", "Is it so?", (Option("true", is_boolean=True), Option("true"))),
)
DIALECTS = ("openai", "systemone")


def ask(call: Call) -> Reply:
    async def run() -> Reply:
        provider = providers.get("decisions")(call.seat)
        try:
            return await provider.complete(call)
        finally:
            await provider.aclose()

    return asyncio.run(run())


@pytest.fixture(params=DIALECTS)
def decide(request: pytest.FixtureRequest, ask_for: AskFor) -> AskFor:
    def make(behaviour: str = "", questions: Any = QUESTIONS[:-1], **about: Any) -> Call:
        seat = {"provider": "decisions", "dialect": request.param, "roles": ("review",)}
        call = ask_for(behaviour, stage="review", **seat, **about)
        return replace(call, questions=tuple(questions))

    return make


def test_each_dialect_answers_every_question_by_probabilities(decide: AskFor) -> None:
    call = decide()
    reply = ask(call)
    answers = answers_in(reply.text, call.questions)
    assert list(answers) == [question.name for question in call.questions]
    for question in call.questions:
        parts = answers[question.name].probabilities
        assert len(parts) == question.n_options
        assert sum(parts) == pytest.approx(1)
    assert reply.usage.tokens_in
    assert reply.usage.tokens_out == 0


def test_two_calls_carry_401_questions_and_one_carries_400(decide: AskFor, mock: Any) -> None:
    many = [TypedQuestion(f"q{i}", "predicate", f"It is {i}.") for i in range(401)]
    call = decide(questions=many)
    assert len(answers_in(ask(call).text, many)) == 401
    assert mock.n_calls(call.seat.model) == 2
    assert len(answers_in(ask(replace(call, questions=tuple(many[:400]))).text, many)) == 400
    assert mock.n_calls(call.seat.model) == 3


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("sum", "bad_probabilities"),
        ("nan", "bad_probabilities"),
        ("beyond", "bad_probabilities"),
        ("missing", "missing_answer"),
        ("html", "not_json"),
        ("400", "bad_request"),
        ("401", "unauthorized"),
        ("500", "server_error"),
    ],
)
def test_every_fault_has_its_kind(decide: AskFor, fault: str, kind: Kind) -> None:
    with pytest.raises(CallError) as caught:
        ask(decide(f"do={fault}"))
    assert caught.value.kind == kind


def test_a_broken_answer_is_asked_for_once_more_and_then_fails_with_what_it_cost(
    decide: AskFor, mock: Any
) -> None:
    async def run(call: Call) -> Reply | Failure:
        async with Caller([call.seat]) as caller:
            return await caller.call(call)

    call = decide("do=nan", price_in=0.1, price_out=0)
    failure = asyncio.run(run(call))
    assert isinstance(failure, Failure)
    assert failure.kind == "bad_probabilities"
    assert mock.n_calls(call.seat.model) == 2
    assert failure.usage
    assert failure.usage.cost_usd
    assert isinstance(asyncio.run(run(decide("do=missing,ok"))), Reply)


def test_a_refused_question_is_an_abstention_and_the_others_count(decide: AskFor) -> None:
    call = decide("do=refuse_first")
    answers = answers_in(ask(call).text, call.questions)
    assert len(answers) == len(call.questions) - 1
    assert call.questions[0].name not in answers


def test_probabilities_that_were_rounded_to_two_decimals_are_scaled() -> None:
    seat = Seat("d", "decisions", "m", roles=("review",))
    levels = tuple(Option(str(i)) for i in range(7))
    question = TypedQuestion("q", "score", "How?", levels)
    entries = [{"value": i, "label": str(i), "probability": 0.14} for i in range(7)]
    document = {"answers": [{"type": "score", "confidence": 0.0, "probabilities": entries}]}
    answer = DecisionModel(seat).answers(document, [question])["q"]
    assert answer is not None
    assert sum(answer.probabilities) == pytest.approx(1)


def test_requests_and_replies_are_of_the_types_of_the_openai_package() -> None:
    seat = Seat("d", "decisions", "gpt-6-luna", roles=("review",), system="Be strict.")
    call = Call(seat, "review", "material", "key", query=Query("?"), questions=QUESTIONS)
    model = DecisionModel(seat)
    request = {"model": seat.model, **model.request(call, QUESTIONS)}
    TypeAdapter(DecisionCreateParams).validate_python(request)
    sent = json.loads(json.dumps(request))
    reply = decision("0", "decisions", sent, "refuse_first")
    typed = Decision.model_validate(reply)
    assert [one.name for one in typed.answers] == [one.name for one in QUESTIONS]
    answers = model.answers(json.loads(typed.model_dump_json()), QUESTIONS)
    assert answers[QUESTIONS[0].name] is None
    flag = answers["flag"]
    assert flag is not None  # true is not "true"
    assert flag.probabilities[0] != flag.probabilities[1]


def test_images_follow_the_text_in_the_shape_of_the_package() -> None:
    seat = Seat("d", "decisions", "luna", roles=("review",), images=True)
    link = "https://example.org/a.png"
    images = (Image(link, "low"), Image(link))
    call = Call(seat, "conclude", "Input", "k", Query("Input", images=images), questions=QUESTIONS)
    request = {"model": seat.model, **DecisionModel(seat).request(call, QUESTIONS)}
    TypeAdapter(DecisionCreateParams).validate_python(request)
    text, first, second = request["input"][0]["content"]
    assert text == {"type": "input_text", "text": "Input"}
    assert (first["image_url"], first["detail"], second["detail"]) == (link, "low", "auto")


def test_a_systemone_question_has_its_own_words() -> None:
    seat = Seat("d", "decisions", "jev", base_url="https://x.test/v1", dialect="systemone")
    model = providers.get("decisions")(seat)
    assert isinstance(model, SystemOne)
    call = Call(seat, "review", "material", "key", query=Query("?"))
    sent = model.request(call, QUESTIONS)
    assert sent["state"] == "material"
    assert sent["questions"]["approved"]["type"] == "noul"
    assert sent["questions"]["best"]["criteria"] == dict.fromkeys(
        ("Response A", "Response B", "Response C")
    )
    assert sent["questions"]["A.accuracy"]["criteria"][0].startswith("1-")


@pytest.mark.parametrize(
    "changes",
    [
        {"roles": ("answer", "review")},
        {"model": ""},
        {"dialect": "other"},
        {"dialect": "systemone"},
    ],
)
def test_a_seat_that_cannot_decide_is_refused(changes: dict[str, Any]) -> None:
    seat = replace(Seat("d", "decisions", "m", roles=("review",)), **changes)
    with pytest.raises(ConfigError, match="seat d"):
        providers.get("decisions").check(seat)


def test_a_decision_seat_reviews_unless_it_is_told_otherwise() -> None:
    settings = config.with_flags(
        config.Settings(), {"seat": [{"name": "d", "provider": "decisions", "model": "m"}]}
    )
    assert settings.seats[0].roles == ("review",)
