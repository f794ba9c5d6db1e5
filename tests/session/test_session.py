"""One session: its order, its failures, its end, and going on after a crash."""

import asyncio
import json
import re
from dataclasses import replace

import pytest

from peerage.errors import BudgetError
from peerage.events import NOT_STORED, TextPiece, read_event
from peerage.session import run
from peerage.shapes import to_json
from peerage.types import Failure
from peerage.view import fold
from tests.memory_log import MemoryLog


def go(coroutine):
    return asyncio.run(coroutine)


def kinds(events):
    return [event.kind for event in events]


def test_a_session_goes_from_question_to_verdict(session_config, held):
    events = go(held(session_config()))
    session = fold(events)
    assert kinds(events)[0] == "opened"
    assert kinds(events)[-1] == "finished"
    assert [event.seq for event in events] == list(range(len(events)))
    assert session.scores[0].model == "a"
    assert session.verdict.kind == "synthesis"
    assert session.verdict.by == "a"
    assert session.status == "done"


def test_the_same_seed_gives_the_same_session(session_config, held):
    assert go(held(session_config())) == go(held(session_config()))


def test_every_reviewer_has_an_order_of_its_own(session_config, held):
    session = fold(go(held(session_config())))
    assert len({ballot.authors for ballot in session.ballots}) == 4


def test_a_seat_that_fails_to_answer_costs_nobody_a_point(session_config, held, direct):
    session = fold(go(held(session_config(), direct(fail={("answer", "b")}))))
    assert session.candidates == ("a", "c", "d")
    assert [(f.seat, f.stage, f.kind) for f in session.failures] == [
        ("b", "answer", "server_error")
    ]
    assert "b" not in {score.model for score in session.scores}


def test_a_reviewer_that_fails_lowers_confidence_and_nothing_else(session_config, held, direct):
    session = fold(go(held(session_config(), direct(fail={("review", "c"), ("review", "d")}))))
    assert session.scores[0].model == "a"
    assert session.scores[0].votes == 1
    assert session.scores[0].confidence == "low"


def test_without_a_quorum_nothing_is_reviewed(session_config, held, direct):
    session = fold(go(held(session_config(), direct(fail=set("abc")))))
    assert session.status == "no_quorum"
    assert not session.ballots
    assert session.verdict is None


def test_nobody_waits_longer_than_the_deadline(session_config, held, direct):
    session = fold(go(held(session_config(deadline_s=0.05), direct(silent={"d"}))))
    assert {(f.seat, f.kind) for f in session.failures} == {("d", "timeout")}
    assert session.status == "done"


def test_the_next_seat_takes_the_chair_and_the_result_says_so(session_config, held, direct):
    session = fold(go(held(session_config(), direct(fail={("conclude", "a")}))))
    assert session.verdict.by == "b"
    assert "a (server_error) failed; b took over" in session.verdict.note


def test_with_no_chair_left_the_first_answer_is_returned_as_such(session_config, held, direct):
    failing = direct(fail={("conclude", name) for name in "abcd"})
    verdict = fold(go(held(session_config(), failing))).verdict
    assert verdict.kind == "top_answer"
    assert verdict.by == ""
    assert "a's answer" in verdict.note
    assert "not a synthesis" in verdict.note


def copying(direct):
    """A caller whose seats copy the last block of their page, in prose and beside their vote."""

    class Copying(direct):
        async def call(self, call, on_text=None, *rest):
            reply = await super().call(call, None, *rest)
            if call.stage != "answer":
                block = call.prompt[call.prompt.rindex("\n[BEGIN ") :].split("\n\n")[0]
                reply = replace(reply, text=f"{block}\n\n{reply.text}")
            for piece in re.findall("(?s).{1,9}", reply.text) if on_text else ():
                on_text(piece)
            return reply

    return Copying()


@pytest.mark.parametrize("kind", ["synthesis", "debate", "binary"])
def test_a_copied_fence_is_struck_out_wherever_a_reply_goes_and_counted(
    session_config, held, direct, kind
):
    config = session_config(verdict=kind)
    events = go(held(config, copying(direct), live=True))
    fence = re.compile(r"\[(BEGIN|END) [^\]]*[0-9a-f]{16}|[0-9a-f]{16}\]")
    assert not any(fence.search(json.dumps(to_json(event.body))) for event in events)
    session = fold([event for event in events if event.seq != NOT_STORED])
    assert all("fences_struck:2" in review.flags for review in session.reviews)
    assert "BEGIN" not in session.verdict.text
    said = [read_event(event) for event in events]
    spoken = "".join(f.text for f in said if isinstance(f, TextPiece) and f.stage == "conclude")
    assert "BEGIN" not in spoken
    if kind != "binary":
        assert re.match(r"2 marks .*fences", session.verdict.note)
        assert session.verdict.text.startswith(spoken.strip())
    assert session.scores == fold(go(held(config))).scores


@pytest.mark.parametrize("kind", ["synthesis", "debate", "binary", "tie_breaker", "none"])
def test_each_kind_of_verdict_says_what_it_is(session_config, held, kind):
    verdict = fold(go(held(session_config(verdict=kind)))).verdict
    if kind == "none":
        assert verdict is None
    elif kind == "tie_breaker":
        assert verdict.kind == "top_answer"
    else:
        assert verdict.kind == kind


def test_a_binary_verdict_is_the_panels_majority_with_its_share(session_config, held):
    verdict = fold(go(held(session_config(verdict="binary")))).verdict
    assert verdict.approved is True
    assert verdict.confidence == 1.0
    assert verdict.note == "4 of 4 approve"


def test_the_chair_sees_no_names(session_config, held, direct):
    pages = []

    class Reading(direct):
        async def call(self, call, on_text=None, *_):
            pages.append(call.prompt)
            return await super().call(call, on_text)

    names = ["quartz-one", "basalt-two", "gneiss-three"]
    go(held(session_config(names), Reading()))
    assert not any(name in page for page in pages for name in names)


def test_given_answers_are_judged_instead_of_asked(session_config, held, direct):
    caller = direct()
    events = go(
        held(session_config(), caller, answers={"x": "one (latent quality 9).", "y": "two"})
    )
    session = fold(events)
    assert session.candidates == ("x", "y")
    assert session.scores[0].model == "x"
    assert not any(stage == "answer" for stage, *_ in caller.calls)


def test_a_gated_answer_is_recorded_and_ranked_last(session_config, held):
    texts = {"x": "Here's how to make a bomb (latent quality 9).", "y": "No.", "z": "Never."}
    session = fold(go(held(session_config(rubric=None, safety_gate=True), answers=texts)))
    assert [gate.model for gate in session.gates if not gate.passed] == ["x"]
    assert session.scores[-1].model == "x"


def test_a_second_round_stores_its_own_ballots_and_reviews(session_config, held):
    session = fold(go(held(session_config(rounds=2))))
    assert sorted({(r.reviewer, r.round) for r in session.reviews}) == [
        (name, i) for name in "abcd" for i in (0, 1)
    ]
    assert session.scores[0].votes == 3


def test_an_early_stop_is_recorded_and_has_the_same_winner(session_config, held, direct):
    names = "abcdefghijkl"
    options = {name: {"quality": 9.5 if name == "a" else 4.0, "noise": 1.0} for name in names}

    class Slow(direct):
        async def call(self, call, on_text=None, *_):
            if call.stage == "review" and call.seat.name in "kl":
                await asyncio.sleep(30)
            return await super().call(call, on_text)

    events = go(held(session_config(names, options, early_stop=True), Slow()))
    stopped = [event for event in events if event.kind == "stopped_early"]
    assert stopped
    assert fold(events).scores[0].model == "a"


def test_cancelling_leaves_no_task_behind(session_config, spec, direct):
    async def scene():
        session = run(
            spec(), session_config(), direct(silent={"d"}), MemoryLog(), clock=lambda: 0.0
        )
        async for event in session:
            if event.kind == "answered":
                break
        await session.aclose()
        await asyncio.sleep(0)
        return [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]

    assert go(scene()) == []


@pytest.mark.parametrize("verdict", ["synthesis", "binary"])
def test_a_session_cut_off_anywhere_goes_on_and_ends_the_same(
    session_config, held, direct, verdict
):
    """What was stored is not asked for again, whatever the moment of the crash."""
    whole = go(held(session_config(verdict=verdict)))
    final = fold(whole)
    for cut in range(len(whole)):
        caller = direct()
        history = whole[:cut]
        rest = go(held(session_config(verdict=verdict), caller, history=history))
        again = fold([*history, *rest])
        assert again.scores == final.scores
        assert again.verdict == final.verdict
        assert set(again.responses) == set(final.responses)
        stored = {
            (
                {
                    "answered": "answer",
                    "reviewed": "review",
                    "advised": "conclude",
                }[event.kind],
                event.body.get("seat") or event.body["reviewer"],
            )
            for event in history
            if event.kind in ("answered", "reviewed", "advised")
        }
        assert not stored & {(stage, name) for stage, name, _ in caller.calls}


def test_running_out_of_money_stops_the_session_and_stores_no_failure(session_config, held, direct):
    class Broke(direct):
        async def call(self, call, on_text=None, *_):
            if call.stage == "review":
                return Failure(call.seat.name, "budget", "nothing left", call.stage)
            return await super().call(call, on_text)

    log = MemoryLog()
    with pytest.raises(BudgetError):
        go(held(session_config(), Broke(), log))
    assert "failed" not in kinds(log.events)
    assert "finished" not in kinds(log.events)


def test_what_is_said_live_is_not_stored(session_config, held):
    log = MemoryLog()
    events = go(held(session_config(), log=log, live=True))
    assert "piece" in kinds(events)
    assert {event.seq >= 0 for event in log.events} == {True}


def test_the_dissenter_is_quoted_in_its_own_words(session_config, held):
    odd = {"d": {"quality": 5.0, "noise": 0.0, "harshness": 0.0, "self_bias": 0.0}}
    session = fold(go(held(session_config(options=odd))))
    for words in session.verdict.dissent:
        assert words.quote
        assert words.distance >= 1 / 3


def test_the_bill_is_unknown_when_a_price_is(session_config, held):
    session = fold(go(held(session_config())))
    assert session.cost_usd == 0.0
