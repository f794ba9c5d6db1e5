"""Answers that attack their reviewers, through whole sessions: how many votes are forged.

A reviewer that meant to put the attacker last quotes its text in every way there is. How far the
texts influence a real model is measured by `./dev bench attack`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from bench.attack import STYLES, forged_votes
from prove import Line
from tests.shared.payloads import CLASSES
from tests.shared.rates import wilson_interval

SEALS_FORMS_AND_STAGES = 8  # both seals and forms, a review and a decision each


def run(quick: bool) -> Iterator[Line]:
    """Try all payloads, or one of each class; a line for each class, and one for all."""
    n_forged_in_all = n_replies_in_all = 0
    for name, payloads in CLASSES.items():
        chosen = payloads[:1] if quick else payloads
        n_forged, n_replies = asyncio.run(forged_votes(chosen))
        n_forged_in_all += n_forged
        n_replies_in_all += n_replies
        is_tried = n_replies >= SEALS_FORMS_AND_STAGES * len(STYLES) * len(chosen)
        yield _line(name, n_forged, n_replies, is_tried)
    yield _line("all classes", n_forged_in_all, n_replies_in_all, is_tried=True)


def _line(name: str, n_forged: int, n_replies: int, is_tried: bool) -> Line:
    _, high = wilson_interval(n_forged, n_replies) or (0.0, 1.0)
    measured = f"{n_forged} forged, 95%: up to {high:.1%}"
    return Line(name, n_replies, measured, is_tried and n_forged == 0)
