"""Whether a person should look at a verdict: unless the panel was unanimous, one should.

No error is promised for unanimous verdicts: weak judges can agree on a wrong answer. With labels by
people a threshold with a promised error takes the place of unanimity (`labels/triage.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from peerage.errors import few, how_many
from peerage.types import Placing, Score, Verdict

N_NAMED = 3


def why_a_person(
    verdict: Verdict,
    scores: Sequence[Score],
    placings: Sequence[Placing],
    without_vote: Collection[str],
) -> str:
    """Return why a person should look at a verdict; empty for a unanimous one.

    `without_vote` are reviewers whose vote is missing.
    """
    if verdict.kind == "binary":
        if verdict.approved is None:
            return "the panel is undecided"
        return "" if verdict.confidence == 1.0 else "the votes are not all alike"
    if verdict.answers:
        return _why_of_answers(verdict)
    leaders = [score.model for score in scores if score.rank == 1]
    if len(leaders) != 1:
        return "several answers share the first place" if leaders else "no answer was ranked"
    votes = [one for one in placings if leaders[0] in one.doubled]
    if without_vote:
        return f"there is no vote of {few(sorted(without_vote), N_NAMED)}"
    if len(votes) < 2:
        return f"only {how_many(len(votes), 'ballot')} can vote for the first answer"
    others = sorted(one.reviewer for one in votes if one.first != leaders[0])
    if others:
        return f"{few(others, N_NAMED)} did not put the first answer alone in first place"
    return ""


def _why_of_answers(verdict: Verdict) -> str:
    """Return why a person should look at answers to typed questions."""
    for answer in verdict.answers:
        choices = {max(range(len(vote)), key=vote.__getitem__) for vote in answer.votes.values()}
        if len(choices) > 1:
            return f"the votes on {answer.name} are not all alike"
        if len(answer.votes) < 2:
            return f"there are fewer than two votes on {answer.name}"
    return ""
