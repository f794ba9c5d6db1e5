"""Checks of single answers: which verdicts are found again, and what several processes share."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from peerage.answer_checks import AnswerCheck, CheckVerdict, check_answer, judges_hash
from peerage.curation import delete, plan_deletion
from peerage.event_facts import opening_of
from peerage.panel import Council
from peerage.reports.session_options import DeleteOptions
from peerage.types import Seat

GOOD = AnswerCheck("Why?", "Because (latent quality 99).", ("It says why.", "It is kind."))


def seats(names: str = "abc", **options: object) -> list[Seat]:
    return [Seat(name, provider="simulated", roles=("review",), options=options) for name in names]


@pytest.fixture
def council(tmp_path: Path):
    """Makes councils over one store, as processes of a test run have them."""

    def make(panel: list[Seat] | None = None, **options: object) -> Council:
        return Council(seats=panel or seats(), store=f"sqlite:///{tmp_path / 'p.db'}", **options)

    return make


def judge(made: Council, *checks: AnswerCheck, fresh: bool = False) -> list[CheckVerdict]:
    async def scene() -> list[CheckVerdict]:
        async with made as council:
            return [await check_answer(council, one, fresh=fresh) for one in checks]

    return asyncio.run(scene())


def test_an_answer_passes_if_every_criterion_has_more_than_half_of_the_votes(council) -> None:
    (good, bad) = judge(council(), GOOD, AnswerCheck("Why?", "No (latent quality -99).", ("a",)))
    assert (good.passed, good.failed, good.needs_person) == (True, (), "")
    assert (bad.passed, bad.failed) == (False, ("a",))


@pytest.mark.parametrize(
    "other",
    [
        AnswerCheck("How?", GOOD.answer, GOOD.criteria),
        AnswerCheck(GOOD.question, "So (latent quality 99).", GOOD.criteria),
        AnswerCheck(GOOD.question, GOOD.answer, GOOD.criteria[:1]),
        AnswerCheck(GOOD.question, GOOD.answer, GOOD.criteria, repeat=1),
    ],
)
def test_a_verdict_is_found_again_only_for_the_same_check(council, other: AnswerCheck) -> None:
    first, again, another = judge(council(), GOOD, GOOD, other)
    assert (first.is_stored, again.is_stored, another.is_stored) == (False, True, False)
    assert first.session == again.session != another.session


def test_the_hash_of_judges_follows_from_what_they_are_and_not_from_their_names(council) -> None:
    assert judges_hash(council()) == judges_hash(council(seats("xyz")))
    assert judges_hash(council()) != judges_hash(council(seats("ab")))
    assert judges_hash(council()) != judges_hash(council(seats(noise=3.0)))


def test_councils_that_check_the_same_at_once_ask_the_judges_once(council) -> None:
    async def scene() -> list[CheckVerdict]:
        councils = [council(seats(latency_ms=20.0)) for _ in range(8)]
        try:
            return await asyncio.gather(*(check_answer(one, GOOD) for one in councils))
        finally:
            for one in councils:
                await one.close()

    verdicts = asyncio.run(scene())
    assert [one.is_stored for one in verdicts].count(False) == 1
    assert len({one.session for one in verdicts}) == 1


def test_an_interrupted_check_is_continued(council) -> None:
    async def scene() -> tuple[CheckVerdict, CheckVerdict, int]:
        async with council(seats(latency_ms=300.0)) as slow:
            work = asyncio.create_task(check_answer(slow, GOOD))
            while not (begun := list(slow.store.openings())):  # noqa: ASYNC110 - as others look
                await asyncio.sleep(0.01)
            work.cancel()
            await asyncio.wait([work])
            id_ = begun[0].session_id
            assert opening_of(slow.store.events(id_)).query.text == GOOD.answer
        async with council(seats(latency_ms=300.0)) as later:
            first, again = [await check_answer(later, GOOD) for _ in range(2)]
            return first, again, later.store.count_sessions()

    first, again, n = asyncio.run(scene())
    assert (first.is_stored, again.is_stored, n) == (False, True, 1)
    assert first.passed


def test_a_deleted_verdict_is_asked_for_again(council) -> None:
    (first,) = judge(council(), GOOD)
    store = council().store
    plan = plan_deletion(store, DeleteOptions(sessions=(first.session,)))
    delete(store, plan, time.time, (1, 10))
    asyncio.run(store.close())
    second, third = judge(council(), GOOD, GOOD)
    assert (second.is_stored, third.is_stored) == (False, True)
    assert second.session == third.session != first.session


def test_a_verdict_without_the_vote_of_every_judge_is_not_used_again(council) -> None:
    panel = [*seats("ab"), *seats("c", failure_rate=1.0, failure_kind="refused")]
    first, second = judge(council(panel), GOOD, GOOD)
    assert (first.is_stored, second.is_stored) == (False, False)
    assert first.passed


def test_a_fresh_verdict_replaces_the_stored_one(council) -> None:
    (first,) = judge(council(), GOOD)
    (fresh,) = judge(council(), GOOD, fresh=True)
    (later,) = judge(council(), GOOD)
    assert not fresh.is_stored
    assert later.is_stored
    assert later.session == fresh.session != first.session
