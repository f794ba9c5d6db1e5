"""Providers that call no model: simulated seats with known biases, and replies from a log.

A simulated answer contains its latent quality in its text. A simulated reviewer reads it there,
adds its configured biases, copies the code of its prompt as a model would, and writes a reply for
the normal parser. All randomness comes from the call's key, so a season can be repeated, except for
the codes of its prompts.

A replaying seat gives the reply it gave to the same question before. A review is repeated only if
the ballot shows the same answers in the same order, because its labels depend on that order. A vote
gets the code of the new prompt. Calls cost nothing. A call that is not in the log fails.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
import math
import random
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, get_args

from peerage.council.fences import ballot_code
from peerage.council.prompts import own_answer_in
from peerage.council.readings import ballot_from, decision_in, review_in
from peerage.errors import ConfigError
from peerage.event_facts import opening_of
from peerage.events import Advised, Answered, Dealt, Extended, Opened, Reviewed, read_events
from peerage.providers import (
    Call,
    CallError,
    Kind,
    OnText,
    Provider,
    Reply,
    providers,
    seat_options,
)
from peerage.providers.typed_answers import TypedAnswer, answer_document, concentration
from peerage.types import Ballot, Event, Query, Review, Seat, Slot, Usage

CODE = re.compile(r'"ballot": "(\w+)"')
LATENT = re.compile(r" ?\(latent quality (-?\d+(?:\.\d+)?)\)")
ALIKE = 2.0  # if their qualities differ by fewer points, two answers agree
WORDS = (  # noqa: SIM905 - a sentence is easier to read than a list of its words
    "the answer rests on a plain reading of the question and of what is known about it so that "
    "each step can be checked by whoever asks and nothing is claimed that no source bears out"
).split()
CONCLUSIONS = (  # one of each is drawn; every sentence has 15 words
    (
        "the answers agree on the main point and differ mostly in how they explain it.",
        "most of the answers reach the same result and only their reasons are not alike.",
        "the answers take different ways to the same end and none of them is empty.",
    ),
    (
        "The best one states its steps in order so that a reader can check them.",
        "The best one begins with the result and then gives a reason for each part.",
        "The best one says what it assumes and what would change if that were wrong.",
    ),
    (
        "The weaker ones are short on reasons or claim more than they can really show.",
        "The weaker ones leave out a step that the reader then has to supply alone.",
        "The weaker ones repeat the question at length before they come to their actual point.",
    ),
    ("No model wrote this text: it is a simulated verdict that only fills its place.",),
)
HABITUAL_WORDS = 120  # the length at which a length bias has no effect
MAX_WORDS = 5000
MAX_NESTED = 8  # how deeply an example of a schema may be nested


@dataclass(frozen=True, slots=True)
class SimulatedOptions:
    """Properties of a simulated seat; scores are on the scale from 1 to 10."""

    quality: float = 6.0  # of its answers, on average
    spread: float = 1.0  # standard deviation of its answers' quality
    words: float = 120.0  # length of its answers, on average
    noise: float = 1.0  # standard deviation of the noise in its scores
    harshness: float = 0.0  # subtracted from every score it gives
    position_bias: float = 0.0  # added to the answer that is shown first
    length_bias: float = 0.0  # added per doubling of the words
    self_bias: float = 0.0  # added to its own answer
    failure_rate: float = 0.0  # share of calls that fail
    failure_kind: Kind = "server_error"
    refusal_rate: float = 0.0  # share of reviews that decline to judge
    rubbish_rate: float = 0.0  # share of reviews that cannot be parsed
    truncation_rate: float = 0.0  # share of answers that are cut off at half of their length
    latency_ms: float = 0.0


@providers.register("simulated")
class SimulatedProvider(Provider):
    """A provider that draws its replies at random."""

    constrains = True
    sees = True
    is_free = True
    remote = False

    def __init__(self, seat: Seat) -> None:
        self.check(seat)
        self._temper = seat_options(SimulatedOptions, seat)

    @classmethod
    def check(cls, seat: Seat) -> None:
        kind = seat_options(SimulatedOptions, seat).failure_kind
        if kind not in get_args(Kind):
            raise ConfigError(
                f"unknown kind of failure {kind!r}.",
                place=f"seat {seat.name}",
                hint=f"Known: {', '.join(get_args(Kind))}.",
            )

    async def complete(self, call: Call, on_text: OnText | None = None) -> Reply:  # noqa: ARG002
        temper = self._temper
        rng = random.Random(int.from_bytes(call.digest, "big"))
        if temper.latency_ms:
            await asyncio.sleep(temper.latency_ms / 1000)
        if rng.random() < temper.failure_rate:
            raise CallError(temper.failure_kind, "this seat is configured to fail sometimes")
        finish = ""
        if call.questions:
            text = self._decisions(call, rng)
        elif call.stage == "answer" and call.schema is not None:
            text = json.dumps(_example(call.schema, call.schema, rng))
        elif call.stage == "answer":
            text = self._answer(rng)
        elif call.stage == "commit":
            quality = rng.gauss(temper.quality, temper.spread)
            text = f"In short, this (latent quality {quality:.3f})."
        elif call.ballot is not None:
            text = self._review(call.ballot, call, rng)
        else:
            text = _conclusion(call, rng)
        if call.stage == "answer" and temper.truncation_rate:
            finish = "length" if rng.random() < temper.truncation_rate else "stop"
        if finish == "length":
            words = text.split()
            text = " ".join(words[: len(words) // 2])
        tokens_in = sum(len(message.content.split()) for message in call.messages)
        tokens_out = len(text.split())
        price_in, price_out = call.seat.price_in or 0, call.seat.price_out or 0
        cost_usd = (tokens_in * price_in + tokens_out * price_out) / 1e6  # usually 0
        return Reply(
            text,
            Usage(tokens_in, tokens_out, cost_usd),
            finish_reason=finish,
            latency_ms=temper.latency_ms,
            constrained=call.schema is not None,
        )

    def _answer(self, rng: random.Random) -> str:
        temper = self._temper
        quality = rng.gauss(temper.quality, temper.spread)
        n_words = round(temper.words * 2 ** rng.gauss(0, 0.4))
        n_words = max(8, min(MAX_WORDS, n_words))
        text = " ".join(rng.choice(WORDS) for _ in range(n_words - 3))
        return f"{text.capitalize()} (latent quality {quality:.3f})."

    def _decisions(self, call: Call, rng: random.Random) -> str:
        """Return answers to typed questions; scores of a ballot follow the answers' quality."""
        slots = call.ballot.slots if call.ballot else ()
        scores = {slot.label: self._score(slot, i, "", rng) for i, slot in enumerate(slots)}
        answers: dict[str, TypedAnswer | None] = {}
        for question in call.questions:
            score = scores.get(question.name.partition(".")[0], rng.uniform(1, 10))
            place = (score - 1) / 9 * (question.n_options - 1)
            weights = [math.exp(-abs(i - place) * 1.5) for i in range(question.n_options)]
            parts = tuple(round(weight / math.fsum(weights), 9) for weight in weights)
            answers[question.name] = TypedAnswer(parts, concentration(parts))
        return answer_document(answers)

    def _review(self, ballot: Ballot, call: Call, rng: random.Random) -> str:
        temper = self._temper
        if rng.random() < temper.refusal_rate:
            return "I'm sorry, but I cannot compare these responses."
        if rng.random() < temper.rubbish_rate:
            return "Well! " + " ".join(rng.choice(WORDS) for _ in range(12))
        scores = {
            f"Response {slot.label}": self._score(slot, i, ballot.reviewer, rng)
            for i, slot in enumerate(ballot.slots)
        }
        ranking = sorted(scores, key=lambda name: -scores[name])
        agrees = _agreement(ballot, call)
        dimensions = _dimensions(call.schema)
        if not dimensions:
            marks = {name: _mark(score) for name, score in scores.items()}
            own = {"agrees": agrees} if agrees else {}
            return json.dumps({**_ballot_code(call), **own, "ranking": ranking, "scores": marks})
        evaluations = {
            name: {
                "notes": f"{name} reads as a {_mark(score)}.",
                **({"agrees": agrees[name]} if agrees else {}),
                **{dimension: _mark(score + rng.gauss(0, 0.5)) for dimension in dimensions},
            }
            for name, score in scores.items()
        }
        return json.dumps({**_ballot_code(call), "evaluations": evaluations, "ranking": ranking})

    def _score(self, slot: Slot, position: int, reviewer: str, rng: random.Random) -> float:
        temper = self._temper
        text = slot.text or ""
        n_words = max(1, len(text.split()))
        return (
            latent_quality(text)
            + rng.gauss(0, temper.noise)
            - temper.harshness
            + temper.position_bias * (position == 0)
            + temper.length_bias * math.log2(n_words / HABITUAL_WORDS)
            + temper.self_bias * (slot.author == reviewer)
        )


def _agreement(ballot: Ballot, call: Call) -> dict[str, bool]:
    """Return which answers are about as good as the reviewer's own, if the prompt contains it."""
    own = own_answer_in(call.prompt)
    if own is None:
        return {}
    quality = latent_quality(own)
    return {
        f"Response {slot.label}": abs(latent_quality(slot.text or "") - quality) < ALIKE
        for slot in ballot.slots
    }


def latent_quality(text: str) -> float:
    """Return the quality in a simulated answer; for any other text, draw it from a hash."""
    if match := LATENT.search(text):
        return float(match[1])
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return 3 + 5 * int.from_bytes(digest[:4], "big") / 2**32


def hide_quality(text: str) -> str:
    """Return a simulated answer as people see it on a blind ballot: without its quality."""
    return LATENT.sub("", text)


def _conclusion(call: Call, rng: random.Random) -> str:
    """Return a chair's text: a decision if the schema asks for one, else a paragraph."""
    properties = (call.schema or {}).get("properties", {}) if call.code else {}
    if "approved" in properties:
        qualities = [float(quality) for quality in LATENT.findall(call.prompt)]
        mean = sum(qualities) / len(qualities) if qualities else 5.0
        approved = mean + rng.gauss(0, 1) > 5
        reason = f"the responses come to {mean:.1f} on average"
        decision = {"reasons": [reason], "approved": approved, "confidence": None}
        return json.dumps({**_ballot_code(call), **decision})
    if "votes" in properties and LATENT.search(call.prompt):
        return json.dumps({**_ballot_code(call), "votes": _votes(call, properties["votes"], rng)})
    if "ranking" in properties:
        labels = call.schema["$defs"]["label"]["enum"] if call.schema else []
        ranking = {"reason": "a closer look", "ranking": labels}
        return json.dumps({**_ballot_code(call), **ranking})
    if call.schema is not None:
        return json.dumps(_example(call.schema, call.schema, rng))
    return f"Taken together: {' '.join(map(rng.choice, CONCLUSIONS))}"


def _votes(call: Call, schema: Mapping[str, Any], rng: random.Random) -> dict[str, Any]:
    """Return votes on typed questions: true where the answer is good, options at random."""
    qualities = [float(quality) for quality in LATENT.findall(call.prompt)]
    is_good = sum(qualities) / len(qualities) + rng.gauss(0, 1) > 5
    return {
        number: is_good if {"type": "boolean"} in one["anyOf"] else _example(one, schema, rng)
        for number, one in schema["properties"].items()
    }


def _example(part: Any, schema: Mapping[str, Any], rng: random.Random, depth: int = 0) -> Any:
    """Return a value that follows a part of a schema; references end at `MAX_NESTED` levels."""
    part = part if isinstance(part, Mapping) else {}
    if "const" in part:
        return part["const"]
    if part.get("enum"):
        return rng.choice(part["enum"])
    if "$ref" in part:
        names = str(part["$ref"]).removeprefix("#").split("/")[1:]
        target = functools.reduce(lambda at, name: at.get(name, {}), names, schema)
        return _example(target, schema, rng, depth + 1) if depth < MAX_NESTED else None
    choices = part.get("anyOf") or part.get("oneOf")
    if choices:
        return _example(choices[-1 if depth > MAX_NESTED // 2 else 0], schema, rng, depth + 1)
    kind = part.get("type", "object" if "properties" in part else "string")
    match kind[0] if isinstance(kind, list) else kind:
        case "object":
            return {
                name: _example(inner, schema, rng, depth + 1)
                for name, inner in part.get("properties", {}).items()
            }
        case "array":
            n_items = max(int(depth < MAX_NESTED // 2), int(part.get("minItems", 0)))
            return [_example(part.get("items"), schema, rng, depth + 1) for _ in range(n_items)]
        case "integer" | "number":
            return part.get("minimum", rng.randint(1, 9))
        case "boolean":
            return rng.random() < 0.5
        case "null":
            return None
    return " ".join(rng.choice(WORDS) for _ in range(3))


def _ballot_code(call: Call) -> dict[str, str]:
    """Return the code of the form at the end of the prompt; codes in answers are ignored."""
    codes = CODE.findall(call.prompt)
    return {"ballot": codes[-1]} if codes else {}


def _dimensions(schema: Mapping[str, Any] | None) -> list[str]:
    evaluation = (schema or {}).get("$defs", {}).get("evaluation", {})
    return [name for name in evaluation.get("properties", {}) if name not in ("notes", "agrees")]


def _mark(score: float) -> int:
    return max(1, min(10, round(score)))


@providers.register("replay")
class Replay(Provider):
    """Repeats replies from `options.store`, of the seat called `model` or else of its own name."""

    constrains = True
    is_free = True
    remote = False

    def __init__(self, seat: Seat) -> None:
        self.check(seat)
        self._name = seat.model or seat.name
        self._replies = _index_replies(_open_log[0](seat.options["store"]))

    @classmethod
    def check(cls, seat: Seat) -> None:
        if not isinstance(seat.options.get("store"), str):
            raise ConfigError(
                "a seat with provider replay needs the option store.",
                place=f"seat {seat.name}",
                hint='Write options = { store = "sqlite:///earlier.db" }.',
            )

    async def complete(self, call: Call, on_text: OnText | None = None) -> Reply:  # noqa: ARG002
        authors = call.ballot.authors if call.ballot else ()
        key = _key(call.query, call.stage, self._name, authors)
        if key not in self._replies:
            raise CallError(
                "bad_request", f"the log has no {call.stage} by {self._name} for this question"
            )
        recorded = self._replies[key]
        return Reply(recorded.under(call.code), Usage(cost_usd=0.0), model=recorded.model)


@dataclass(frozen=True, slots=True)
class Recorded:
    """A reply in a log: its text, the code in it, and the vote that was read from it."""

    text: str
    code: str = ""
    vote: Mapping[str, Any] = field(default_factory=dict)
    model: str = ""  # the model that replied, if the log has it

    def under(self, code: str) -> str:
        """Return the reply with the code of another prompt; without a code to replace, its vote."""
        if code and self.code and self.code in self.text:
            return re.sub(rf"{self.code}(?:[0-9a-f]{{12}})*", code, self.text)
        if code and self.vote:
            return json.dumps({"ballot": code, **self.vote})
        return self.text


@dataclass(frozen=True, slots=True)
class RecordedLog:
    """A log to repeat, in its current state."""

    url: str
    state: str  # a value that changes whenever a session ends
    histories: Callable[[], Iterable[list[Event]]] = field(compare=False)  # reads the sessions


OpenLog = Callable[[str], RecordedLog]
_open_log: list[OpenLog] = []


def register_log_reader(open_log: OpenLog) -> OpenLog:
    """Register the function that opens logs; this module may not import the stores itself."""
    _open_log[:] = [open_log]
    return open_log


@lru_cache(maxsize=8)
def _index_replies(log: RecordedLog) -> dict[bytes, Recorded]:
    """Return the replies of a log by question, stage, seat and shown answers; the latest wins."""
    replies: dict[bytes, Recorded] = {}
    for events in log.histories():
        query, id_, secret = opening_of(events).query, events[0].session_id, ""
        ballots: dict[tuple[str, int], Ballot] = {}
        for fact in read_events(events):
            if isinstance(fact, Opened | Extended):
                secret = fact.secret or secret
            elif isinstance(fact, Answered):
                replies[_key(query, "answer", fact.seat, ())] = Recorded(fact.text)
            elif isinstance(fact, Dealt):
                for one in fact.ballots:
                    ballots[one.reviewer, fact.round] = ballot_from(one, (), fact.round, id_)
            elif isinstance(fact, Reviewed):
                names = fact.reviewer, fact.round
                code, ballot = ballot_code(secret, id_, *names) if secret else "", ballots[names]
                model = fact.made_by.model if fact.made_by else ""
                recorded = Recorded(fact.text, code, _vote(review_in(fact, ballot)), model)
                replies[_key(query, "review", fact.reviewer, ballot.authors)] = recorded
            elif isinstance(fact, Advised):
                code = ballot_code(secret, id_, f"chair:{fact.seat}", 0) if secret else ""
                decision = fact.decision or decision_in(fact.text)
                vote = {"reasons": decision.reasons, "approved": decision.approved}
                known = vote if decision.approved is not None else {}
                replies[_key(query, "conclude", fact.seat, ())] = Recorded(fact.text, code, known)
    return replies


def _vote(review: Review) -> Mapping[str, Any]:
    """Return the vote of a review in the form that a prompt asks for; empty for an abstention."""
    if review.abstained:
        return {}
    parts: dict[str, Any] = {"notes": dict(review.notes), "scores": dict(review.scores)}
    if review.marks:
        scores = {label: {"score": mark} for label, mark in review.scores.items()}
        notes = {label: {"notes": note} for label, note in review.notes.items()}
        marked = {**scores, **review.marks}
        parts = {"evaluations": {name: {**notes.get(name, {}), **marked[name]} for name in marked}}
    return {**parts, "ranking": review.ranking}


def _key(query: Query, stage: str, seat: str, authors: tuple[str, ...]) -> bytes:
    turns = (part for turn in query.earlier for part in (turn.role, turn.content))
    parts = "\x1f".join((query.text, query.system, *turns, stage, seat, *authors))
    return hashlib.sha256(parts.encode("utf-8", "surrogatepass")).digest()
