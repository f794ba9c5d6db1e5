"""Read reviews from replies without a code, from the log, and for display.

The log stores how a reply was read when it arrived. A reply that was stored unread came from
another tool. It is read as JSON, by its last object that names a label, or by a list under "FINAL
RANKING:"; nothing protects it from text that an answer planted in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from peerage.council.ballots import Decision, Labels, abstain, decision_of, review_of
from peerage.council.blinding import slots_of
from peerage.council.counting import places, soft_votes_of
from peerage.council.dissent import note_of, with_names
from peerage.council.forms import fits_form
from peerage.council.seals import GOES_ON, read_object, without_thinking
from peerage.errors import UnreadableError
from peerage.events import DealtBallot, PersonReviewed, Rechecked, Reviewed, ReviewReading
from peerage.text import valid_text, valid_values
from peerage.types import (
    MAX_LABELS,
    MAX_NUMBER,
    OMITTED,
    Ballot,
    Counted,
    Failure,
    MarkChances,
    Response,
    Review,
    Session,
    Usage,
)

# -- replies without a code ----------------------------------------------------------------------

MAX_UNREAD = 200  # braces that do not begin an object, after which the search stops
MAX_LINES = 2_000
CONTESTED = "contested"
FINAL_RANKING = re.compile(r"^.{0,80}?\bfinal ranking\b[^\n:]{0,80}:", re.IGNORECASE | re.MULTILINE)
LISTED = re.compile(r"[ \t*_#(]{0,20}+(?:\d{1,4}[.):]|[-*•])[*_)\s]{0,20}+(\S.{0,500})")

READER = "2"  # parser version in fingerprints; raised when a reply may be read differently
ROUNDED, LARGEST_SLACK = 0.005, 0.05  # endpoints may round a probability to two decimals
SCALE = "1-10"  # of the marks that count


def read_foreign(text: object, ballot: Ballot) -> Review:
    """Return the review in a reply without a code; never raise an exception.

    An object with votes or labels in places where they are not read, or after which JSON goes on,
    is an abstention: a quotation may have changed it.
    """
    review, is_contested = _read_foreign(text, ballot)
    return abstain(ballot, CONTESTED, review.raw, (CONTESTED,)) if is_contested else review


def _read_foreign(text: object, ballot: Ballot) -> tuple[Review, bool]:
    """Return the review in a reply without a code, and whether it is contested."""
    if not isinstance(text, str) or not text.strip():
        why = "not_text" if text and not isinstance(text, str) else "empty"
        return abstain(ballot, why, ""), False
    body = valid_text(without_thinking(text).strip())
    for value, flags, is_contested in _values(body):
        review = review_of(value, ballot, raw=text, flags=flags)
        if review.abstained not in ("no_labels", "empty", "not_an_object"):
            fits = not isinstance(value, dict) or fits_form(value, {}, Labels(ballot).find)
            return review, is_contested or not fits
    review = review_of(_final_ranking(body) or body, ballot, raw=text)
    ranked = any(name in ballot.author_by_label for tier in review.ranking for name in tier)
    return review if ranked else abstain(ballot, "unparsed", text), False


def decision_in(text: str) -> Decision:
    """Return the decision in an old log's reply, for display only: it is not counted."""
    decisions = (decision_of(value) for value, *_ in _values(text) if isinstance(value, dict))
    undecided = Decision(None, flag="no_decision")
    return next((one for one in decisions if one.approved is not None), undecided)


def _values(text: str) -> Iterator[tuple[Any, tuple[str, ...], bool]]:
    """Yield the JSON value of a text, or its top-level objects from the last on.

    Each comes with its flags, and whether a key occurs twice in it or JSON goes on after its end.
    """
    values: list[tuple[Any, tuple[str, ...], bool]] = []
    n_unread = 0
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        whole = {}
    if not isinstance(whole, dict):
        values.append((whole, (), False))
    at = len(text) if values else 0
    while (at := text.find("{", at)) >= 0 and n_unread < MAX_UNREAD:
        try:
            value, at, how = read_object(text, at)
            flags = ("recovered:mended",) if how == "mended" else ()
            values.append((value, flags, how == CONTESTED or bool(GOES_ON.match(text, at))))
        except (ValueError, RecursionError):
            at, n_unread = at + 1, n_unread + 1
    yield from reversed(values)


def _final_ranking(text: str) -> list[str] | str:
    """Return the items under the last "FINAL RANKING:", or the rest of that line."""
    headings = list(FINAL_RANKING.finditer(text))
    if not headings:
        return ""
    lines = text[headings[-1].end() :].strip().splitlines()[:MAX_LINES]
    items = [match[1] for line in lines if (match := LISTED.match(line))]
    return items or "".join(lines[:1])


# -- reviews as the log keeps them ---------------------------------------------------------------

# Limits of one review in the log, not counting the reply itself.

MAX_DIMENSIONS = 64  # marked for one answer
MAX_MENTIONS = 2 * MAX_LABELS  # of labels in a ranking
MAX_NAME_CHARACTERS = 100
MAX_NOTE_CHARACTERS = 20_000

READ = tuple(part.name for part in fields(ReviewReading) if part.name != "agrees")


def ballot_from(dealt: DealtBallot, responses: Iterable[Response], round_: int, id_: str) -> Ballot:
    """Return a ballot of the log with the texts of its answers; errors name the session's id.

    Its labels are A, B, C … in the order shown, unless it was imported with other labels.
    """
    if dealt.labels and len(dealt.labels) != len(dealt.order):
        raise UnreadableError(
            "a ballot must have exactly one label for each answer.", place=f"session {id_}"
        )
    for names in (dealt.order, dealt.labels):
        if len(set(names)) < len(names):
            raise UnreadableError(
                f"a ballot of {dealt.reviewer!r} shows an answer twice.", place=f"session {id_}"
            )
    slots = slots_of(dealt.order, responses, dealt.labels)
    return Ballot(dealt.reviewer, slots, round_, dealt.positions_known)


def review_in(fact: Reviewed, ballot: Ballot) -> Review:
    """Return the review of a stored reply, from its stored reading if there is one.

    A reply that was stored without a reading is read as when it was stored, also if it would be
    contested today: boards of stored sessions do not change.
    """
    reading = fact.review or reading_of(_read_foreign(fact.text, ballot)[0])
    if fact.n_fences:
        reading = replace(reading, flags=(*reading.flags, f"fences_struck:{fact.n_fences}"))
    return review_from(reading, ballot, fact.text)


def person_review(session: Session, fact: PersonReviewed | Rechecked) -> tuple[Ballot, Review]:
    """Return the ballot shown to a later reviewer of a session, and that reviewer's review."""
    ballot = ballot_from(fact.ballot, session.responses, 0, session.id)
    return ballot, review_from(fact.review, ballot, "")


def review_from(reading: ReviewReading, ballot: Ballot, text: str) -> Review:
    """Return the review of a ballot from its stored reading."""
    by_dimension = (mark for marks in reading.marks.values() for mark in marks.values())
    for mark in (*reading.scores.values(), *reading.claimed.values(), *by_dimension):
        if abs(mark) > MAX_NUMBER:  # sums of such numbers would be infinite
            raise UnreadableError(f"a mark by {ballot.reviewer!r} is out of range.")
    for chances in (one for marks in reading.chances.values() for one in marks.values()):
        if not _are_probabilities(chances):
            raise UnreadableError(f"the probabilities by {ballot.reviewer!r} do not sum to 1.")
    parts: dict[str, Any] = {name: getattr(reading, name) for name in READ}
    agrees = reading.agrees or {}
    return Review(ballot.reviewer, **parts, agrees=agrees, raw=text, round=ballot.round)


def rounding_slack(n: int) -> float:
    """Return how far the sum of n rounded probabilities may be from 1."""
    return min(LARGEST_SLACK, ROUNDED * n) + 1e-9


def _are_probabilities(chances: MarkChances) -> bool:
    parts = (*chances.probabilities, chances.confidence)
    return (
        len(chances.levels) == len(chances.probabilities) > 0
        and all(0 <= part <= 1 for part in parts)
        and all(abs(level) <= MAX_NUMBER for level in chances.levels)
        and abs(sum(chances.probabilities) - 1) <= rounding_slack(len(chances.levels))
    )


# -- readings of replies ----------------------------------------------------------------------


def reading_of(review: Review) -> ReviewReading:
    """Return a review in the form of the log, without the text of the reply.

    Texts are made valid Unicode once more, because a reply can spell half a surrogate pair in JSON.
    """
    parts = {name: valid_values(getattr(review, name)) for name in READ}
    return ReviewReading(**parts, agrees=review.agrees or None)


def bounded_reading(review: Review, dimensions: Collection[str] = ()) -> ReviewReading:
    """Return a review for the log with limited size; marks of these dimensions are kept first."""
    reading = reading_of(review)
    marks = {
        label: {
            name: marks[name]
            for name in sorted(marks, key=lambda name: name not in dimensions)[:MAX_DIMENSIONS]
            if len(name) <= MAX_NAME_CHARACTERS
        }
        for label, marks in reading.marks.items()
    }
    ranking: list[tuple[str, ...]] = []
    left = MAX_MENTIONS
    for tier in reading.ranking:
        names = tuple(name[:MAX_NAME_CHARACTERS] for name in tier)[:left]
        left -= len(names)
        ranking += [names] if names else []
    flags = list(reading.flags)
    if marks != reading.marks:
        flags.append("too_many_dimensions")
    if tuple(ranking) != reading.ranking:
        flags.append("ranking_too_long")
    notes = {label: note[:MAX_NOTE_CHARACTERS] for label, note in reading.notes.items()}
    return replace(reading, ranking=tuple(ranking), marks=marks, notes=notes, flags=tuple(flags))


def confidence_in(review: Review, label: str) -> float | None:
    """Return a decision model's mean confidence in its marks of one answer, or None."""
    marks = review.chances.get(label, {})
    return sum(mark.confidence for mark in marks.values()) / len(marks) if marks else None


def reviewed_ballots(session: Session) -> Session:
    """Return the session with an abstention for every ballot without a review.

    A reviewer whose call failed could have voted, and confidence is relative to all who could vote.
    """
    answered = {(review.reviewer, review.round) for review in session.reviews}
    silent = tuple(
        Review(ballot.reviewer, abstained="no_reply", round=ballot.round)
        for ballot in session.ballots
        if (ballot.reviewer, ballot.round) not in answered
    )
    return replace(session, reviews=(*session.reviews, *silent))


# -- reviews as they are shown -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Remark:
    """A reviewer's remark on one answer, with the mark that counts."""

    candidate: str
    label: str  # under which the reviewer saw it
    position: int | None  # 0 = shown first; None: not known
    place: int | None  # 1 = best, ties share; None: not ranked
    score: float | None = None
    marks: Mapping[str, float] | None = None  # by dimension
    note: str = ""  # in the reviewer's words, with names in place of labels
    # whether it agrees with the reviewer's own answer; None: not asked, or not said
    agrees: bool | None = field(default=None, metadata=OMITTED)
    own: bool = False  # the reviewer wrote this answer
    # From a decision model: its confidence in each mark, and the mean probability to beat a rival.
    confidence: Mapping[str, float] | None = field(default=None, metadata=OMITTED)
    probability: float | None = field(default=None, metadata=OMITTED)


@dataclass(frozen=True, slots=True)
class ReviewView:
    """One ballot and its outcome: remarks in the order shown, or why there are none."""

    reviewer: str
    round: int
    remarks: tuple[Remark, ...]
    is_last: bool = True  # the reviewer's last one, which replaces earlier rounds
    is_in: bool = True  # a reply has arrived
    abstained: str = ""  # the reason, if the reviewer abstained
    failure: Failure | None = None
    flags: tuple[str, ...] = ()
    raw: str = ""  # the reply, unchanged
    usage: Usage | None = None
    latency_ms: float | None = None
    # with which it compared the answers; None for a blind review
    own_answer: str | None = field(default=None, metadata=OMITTED)

    @property
    def reason(self) -> Remark | None:
        """The remark on the reviewer's favourite answer that is not its own, or None."""
        noted = [one for one in self.remarks if one.note and one.place is not None]
        return min(noted, key=lambda one: (one.own, one.place), default=None)

    @property
    def is_decision(self) -> bool:
        """Whether the review comes from a decision model, which gives no reasons."""
        return any(remark.confidence for remark in self.remarks)

    @property
    def remark_by_candidate(self) -> dict[str, Remark]:
        return {remark.candidate: remark for remark in self.remarks}

    @property
    def is_order_known(self) -> bool:
        return any(remark.position is not None for remark in self.remarks)


def review_view(ballot: Ballot, review: Review, counted: Counted) -> ReviewView:
    """Return the outcome of a ballot that was answered."""
    return ReviewView(
        reviewer=ballot.reviewer,
        round=ballot.round,
        remarks=_remarks(ballot, review, counted),
        abstained=review.abstained,
        flags=counted.flags,
        raw=review.raw,
    )


def _confidence_by_dimension(review: Review, label: str) -> dict[str, float] | None:
    marks = review.chances.get(label, {})
    return {name: mark.confidence for name, mark in marks.items()} or None


def _remarks(ballot: Ballot, review: Review, counted: Counted) -> tuple[Remark, ...]:
    """Return a reviewer's remarks on each answer of its ballot, in the order shown."""
    place_by_name, probability = places(counted), soft_votes_of(counted)
    return tuple(
        Remark(
            candidate=slot.author,
            label=slot.label,
            position=i if ballot.positions_known else None,
            place=place_by_name.get(slot.author),
            score=counted.scores.get(slot.author),
            marks=review.marks.get(slot.label),
            note=with_names(note_of(review, slot.label), ballot),
            agrees=review.agrees.get(slot.label),
            own=slot.author == ballot.reviewer,
            confidence=_confidence_by_dimension(review, slot.label),
            probability=probability.get(slot.author),
        )
        for i, slot in enumerate(ballot.slots)
    )
