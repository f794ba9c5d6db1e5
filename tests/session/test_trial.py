"""A seat is tried on a tiny sealed ballot, and it is said how it returns the code."""

import asyncio

import pytest

from peerage.dry_runs import BY_ITSELF, BY_SCHEMA, NOT_AT_ALL, SECOND, try_sealed_ballot
from peerage.providers import Reply
from peerage.types import Failure, Seat

VOTE = '{"ballot": "CODE", "scores": {"A": 9, "B": 1}, "ranking": ["A", "B"]}'


class Seated:
    """A caller whose seat says this, one reply after the other."""

    def __init__(self, *replies, constrains=False):
        self.replies, self.constrains = list(replies), constrains

    def can_constrain(self, _):
        return self.constrains

    def wants_brief(self, _):
        return False

    async def call(self, call, *_):
        reply = self.replies.pop(0)
        return reply if isinstance(reply, Failure) else Reply(reply.replace("CODE", call.code))


@pytest.mark.parametrize(
    ("replies", "constrains", "said"),
    [
        ([VOTE], True, BY_SCHEMA),
        ([VOTE], False, BY_ITSELF),
        (["A is right.", VOTE], False, SECOND),
        (["A is right.", "A is right."], False, f"{NOT_AT_ALL} (no_code)"),
        ([VOTE.replace("CODE", "x")] * 2, True, f"{NOT_AT_ALL} (no_code)"),
        ([Failure("a", "timeout", "too slow")], False, "gave no review: timeout, too slow"),
    ],
)
def test_it_is_said_how_a_seat_returns_the_code(replies, constrains, said):
    caller = Seated(*replies, constrains=constrains)
    assert asyncio.run(try_sealed_ballot(caller, Seat("a"))) == said
