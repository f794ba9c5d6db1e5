"""What a reviewer said of each answer on its ballot, with names in place of labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from peerage.council.counting import note_of, places, with_names
from peerage.types import Ballot, Counted, Failure, Review, Usage


@dataclass(frozen=True, slots=True)
class Remark:
    """What one reviewer said of one answer, as it counts."""

    candidate: str
    label: str  # under which the reviewer saw it
    position: int | None  # 0 = shown first; None: not known
    place: int | None  # 1 = best, ties share; None: not ranked
    score: float | None = None
    marks: Mapping[str, float] | None = None  # by dimension
    note: str = ""  # in the reviewer's words, with names in place of labels
    own: bool = False  # the reviewer wrote this answer


@dataclass(frozen=True, slots=True)
class ReviewView:
    """One ballot and what came of it: remarks in the order shown, or why there are none."""

    reviewer: str
    round: int
    remarks: tuple[Remark, ...]
    is_last: bool = True  # of this reviewer's; a second thought replaces the first
    is_in: bool = True  # a reply came
    abstained: str = ""  # the reason, where the reviewer ranks nobody
    failure: Failure | None = None
    flags: tuple[str, ...] = ()
    raw: str = ""  # the reply as it came
    usage: Usage | None = None
    latency_ms: float | None = None

    @property
    def reason(self) -> Remark | None:
        """The remark on the answer it likes best of those it did not write."""
        noted = [one for one in self.remarks if one.note and one.place is not None]
        return min(noted, key=lambda one: (one.own, one.place), default=None)

    @property
    def remark_by_candidate(self) -> dict[str, Remark]:
        return {remark.candidate: remark for remark in self.remarks}

    @property
    def is_order_known(self) -> bool:
        return any(remark.position is not None for remark in self.remarks)


def review_view(ballot: Ballot, review: Review, counted: Counted) -> ReviewView:
    """What came of a ballot that was answered."""
    return ReviewView(
        reviewer=ballot.reviewer,
        round=ballot.round,
        remarks=_remarks(ballot, review, counted),
        abstained=review.abstained,
        flags=counted.flags,
        raw=review.raw,
    )


def _remarks(ballot: Ballot, review: Review, counted: Counted) -> tuple[Remark, ...]:
    """What a reviewer said of each answer on its ballot, in the order shown."""
    place_by_name = places(counted)
    return tuple(
        Remark(
            candidate=slot.author,
            label=slot.label,
            position=i if ballot.positions_known else None,
            place=place_by_name.get(slot.author),
            score=counted.scores.get(slot.author),
            marks=review.marks.get(slot.label),
            note=with_names(note_of(review, slot.label), ballot),
            own=slot.author == ballot.reviewer,
        )
        for i, slot in enumerate(ballot.slots)
    )
