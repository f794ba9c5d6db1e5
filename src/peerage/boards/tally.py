"""All that the boards of contributors, reviewers and items ask of opinions, as plain sums.

They hold where every word weighs what it weighs by itself: 1, or less with age. A reputation
found from the opinions themselves, and rings, need who said what of which item.
"""

from __future__ import annotations

from dataclasses import dataclass

from peerage.boards.items import ItemSums, item_sums
from peerage.boards.opinions import Coefficients, Community, decay, eligible, within
from peerage.boards.reviewers import VoiceSums, literal_voice_sums, voice_sums


@dataclass(frozen=True, slots=True)
class Terms:
    """Which opinions count, and what they weigh; the window is in seconds."""

    coefficients: Coefficients
    literal: bool = False
    half_life_days: float | None = None
    since_s: float | None = None
    as_of: float | None = None


@dataclass(frozen=True, slots=True)
class Tally:
    """Sums by item and by person, and how many opinions count and were left out.

    Over blocks that hold whole items they add up: whether a word is the last of its kind,
    and what the others think, is a matter of one item.
    """

    items: ItemSums
    voices: VoiceSums
    n: int
    n_own: int
    n_superseded: int


def tally(community: Community, terms: Terms) -> Tally:
    """The sums of a community, or of a block of whole items of one."""
    heard = within(community, terms.since_s, terms.as_of)
    if terms.literal:
        sums = item_sums(heard)
        return Tally(sums, literal_voice_sums(heard, sums), heard.n, 0, 0)
    heard = eligible(heard)
    weights = None
    if terms.half_life_days is not None and heard.n:
        weights = decay(heard, terms.half_life_days, terms.as_of)
    sums = item_sums(heard, weights)
    voices = voice_sums(heard, sums, weights, terms.coefficients)
    return Tally(sums, voices, heard.n, heard.n_own, heard.n_superseded)
