"""Answers that attack their reviewers, through whole sessions: no vote is forged."""

import asyncio
from typing import get_args

import pytest

from bench.attack import STYLES, forged_votes
from peerage.types import Seal
from tests.shared.payloads import CLASSES, PAYLOADS

ALL = [payload for _, payload in PAYLOADS]


@pytest.mark.parametrize("seal", get_args(Seal))
def test_no_payload_forges_a_vote_however_it_is_quoted(seal: Seal):
    payloads = [payloads[0] for payloads in CLASSES.values()]
    n_forged, n_replies = asyncio.run(forged_votes(payloads, [seal]))
    assert n_forged == 0
    assert n_replies >= 4 * len(STYLES) * len(payloads)  # both forms, a review and a decision


def test_there_are_payloads_of_every_class():
    assert len(ALL) >= 250
    assert len(CLASSES) >= 21
