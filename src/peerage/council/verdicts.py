"""A verdict read into a review: rankings, scores and marks, with a flag for whatever is odd.

Nothing is refused here. What cannot be read is dropped and flagged, and labels the ballot
does not have are kept in the ranking, where the law of labels deals with them, and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from peerage.council.jsonish import Object, RepeatedKeys
from peerage.council.keys import MAX_CACHED, fold_key, key_value
from peerage.council.labels import Labels
from peerage.council.rankings import (
    LABEL_KEYS,
    LISTS,
    NUMBERS,
    RANK_KEYS,
    Ranking,
    Tiers,
    label_of,
    one_line,
    shown,
)
from peerage.types import Ballot, Review

MAX_FLAGS = 50
MAX_REASON = 500
MAX_MARK_TEXT = 40
LOWEST, HIGHEST = 1, 10

MARK = re.compile(
    r"[*_\s]*+([+-]?\d{1,4}(?:\.\d{0,20})?)\s*+(?:(?:/|out\s+of)\s*10(?:\.0*)?)?[*_\s]*+"
)
MARK_KEYS = ("score", "mark", "value", "rating", "points", "grade")
GROUP_KEYS = frozenset({"scores", "marks", "ratings", "dimensions", "criteria", "evaluation"})
CLAIM_KEYS = frozenset(
    {"overall", "total", "score", "overall_score", "total_score", "final_score"}
    | {"weighted_score", "weighted_total", "weighted_average", "average", "mean"}
)
ROLES = (
    ("claim", CLAIM_KEYS),
    ("group", GROUP_KEYS),
    ("rank", frozenset(RANK_KEYS)),
    ("label", frozenset(LABEL_KEYS)),
)
REMARK_KEYS = frozenset({"note", "notes", "comment", "comments", "reason", "reasons"})
NOTE_KEY = re.compile(
    r"notes?|comments?|reason\w*|rationale\w*|justification\w*|explanation\w*|critiques?|feedback"
    r"|summary|analysis|assessment|remarks?|strengths?|weakness(?:es)?|pros|cons|why|verdict"
)
REASON_KEYS = ("reason", "reasons", "why", "explanation", "rationale", "note", "notes")
YES = frozenset({"true", "yes", "1", "abstained", "abstain"})
NO = frozenset({"", "false", "no", "none", "null", "0", "n/a", "not abstained"})


class Said(NamedTuple):
    """A verdict as data, and how it was come by."""

    data: Object  # its own keys folded
    how: tuple[str, ...] = ()


def abstention(data: Object) -> str:
    """The reason of a reviewer who abstains, or nothing where it does not."""
    said = data.get("abstained", data.get("abstain", data.get("abstention")))
    if isinstance(said, str):
        word = said.strip().casefold()
        if word in NO:
            return ""
        if word not in YES:  # a sentence is a reason, a word that is neither yes nor no is nothing
            return one_line(said, MAX_REASON) if " " in word else ""
    elif not (said is True or (isinstance(said, NUMBERS) and said == 1)):
        return ""
    reason = next((data[key] for key in REASON_KEYS if key in data), None)
    return (one_line(reason, MAX_REASON) if isinstance(reason, str) else "") or "abstained"


def names_a_label(data: Object, labels: Labels) -> bool:
    """Whether a ranking, evaluations or scores mention the ballot at all.

    Whether what they say can be used is asked later: a last word that is unusable must
    not make room for an earlier one, which may be a quotation.
    """
    if "ranking" in data and Ranking(labels).names_a_label(data["ranking"]):
        return True
    for name in ("evaluations", "scores"):
        if name in data and any(labels.find(said) for said, _ in _entries(data[name], labels)):
            return True
    return False


def read_verdict(
    data: Object,
    ballot: Ballot,
    labels: Labels,
    raw: str = "",
    recovered: Iterable[str] = (),
) -> Review:
    """The review in a verdict; without a usable word on any label, an abstention.

    So is one that says it abstains: that is the reviewer's word even beside a vote.
    """
    reason = abstention(data)
    if reason:
        beside = names_a_label(data, labels)
        return abstain(ballot, reason, raw, ("abstained_beside_a_vote",) if beside else ())
    reading = _Reading(ballot, labels)
    reading.read(data)
    return reading.review(raw, "+".join(dict.fromkeys(recovered)))


def abstain(ballot: Ballot, reason: str, raw: str = "", flags: tuple[str, ...] = ()) -> Review:
    """A review without a vote."""
    return Review(ballot.reviewer, abstained=reason, flags=flags, raw=raw, round=ballot.round)


def capped(flags: Iterable[str]) -> tuple[str, ...]:
    """The flags, and in place of too many of them how many more there were."""
    told = tuple(flags)
    if len(told) <= MAX_FLAGS:
        return told
    return (*told[: MAX_FLAGS - 1], f"…and {len(told) - MAX_FLAGS + 1} more")


def read_mark(value: Any) -> float | None:
    """A mark from 1 to 10, also as "9" or "9/10"; None for anything else."""
    if type(value) is int and LOWEST <= value <= HIGHEST:
        return float(value)
    if isinstance(value, str):
        match = MARK.fullmatch(value) if len(value) <= MAX_MARK_TEXT else None
        value = None if match is None else float(match[1])
    if isinstance(value, bool) or not isinstance(value, NUMBERS):
        return None
    return float(value) if LOWEST <= value <= HIGHEST else None


class _Reading:
    """A review in the making."""

    def __init__(self, ballot: Ballot, labels: Labels) -> None:
        self.ballot = ballot
        self.labels = labels
        self.known = ballot.author_by_label
        self.ranking: Tiers = []
        self.ranks: dict[str, Any] = {}  # said beside the marks, not as a ranking
        self.scores: dict[str, float] = {}
        self.marks: dict[str, dict[str, float]] = {}
        self.claimed: dict[str, float] = {}
        self.notes: dict[str, str] = {}
        self.flags: dict[str, None] = {}
        self.names_a_label = False

    def review(self, raw: str, recovered: str) -> Review:
        ballot = self.ballot
        if not (self.scores or self.marks or self._ranks_somebody()):
            reason = "no_marks" if self.names_a_label else "no_labels"
            return abstain(ballot, reason, raw, capped(self.flags))
        flags = (f"recovered:{recovered}", *self.flags) if recovered else self.flags
        return Review(
            ballot.reviewer,
            tuple(self.ranking),
            self.scores,
            self.marks,
            self.claimed,
            self.notes,
            recovered=recovered,
            flags=capped(flags),
            raw=raw,
            round=ballot.round,
        )

    def _ranks_somebody(self) -> bool:
        return any(name in self.known for tier in self.ranking for name in tier)

    def read(self, data: Object) -> None:
        self._flag_repeats(data)
        for name in ("evaluations", "scores"):
            self._evaluations(name, data.get(name))
        for name in ("notes", "comments", "critiques"):
            self._notes(data.get(name))
        ranking = Ranking(self.labels)
        self.ranking = ranking.tiers(data.get("ranking") or self.ranks)
        self._flag(*ranking.dropped)
        self._flag_labels()

    def _flag(self, *flags: str) -> None:
        self.flags.update(dict.fromkeys(flags))

    def _flag_repeats(self, data: Mapping[Any, Any]) -> None:
        if isinstance(data, RepeatedKeys):
            self._flag(*(f"repeated_key:{shown(key)}" for key in data.repeated))

    def _flag_labels(self) -> None:
        """Name what the law will take out of the ranking."""
        seen: set[str] = set()
        for tier in self.ranking:
            for label in tier:
                if label not in self.known:
                    self._flag(f"unknown_label:{shown(label)}")
                elif label in seen:
                    self._flag(f"repeated_label:{label}")
                seen.add(label)

    def _label(self, phrase: Any, seen: set[str]) -> str | None:
        """The ballot's label for a phrase; unknown ones and repeats are flagged and left out."""
        label = self.labels.find(phrase)
        if label is None:
            name = self.labels.read(phrase) if isinstance(phrase, str) else phrase
            self._flag(f"unknown_label:{shown(name)}")
            return None
        self.names_a_label = True
        if label in seen:
            self._flag(f"repeated_label:{label}")
            return None
        seen.add(label)
        return label

    def _evaluations(self, name: str, value: Any) -> None:
        if not isinstance(value, (dict, *LISTS)):
            if value is not None:
                self._flag(f"{name}_dropped:{shown(value)}")
            return
        if isinstance(value, dict):
            self._flag_repeats(value)
        seen: set[str] = set()
        for phrase, evaluation in _entries(value, self.labels):
            label = self._label(phrase, seen)
            if label is None:
                continue
            if isinstance(evaluation, dict):
                self._evaluation(label, evaluation)
            elif name == "evaluations" and _is_prose(evaluation):
                self._note(label, evaluation)
            else:
                self._holistic(label, evaluation)

    def _holistic(self, label: str, value: Any) -> None:
        score = read_mark(value)
        if score is None:
            self._flag(f"score_dropped:{label}={shown(value)}")
        else:
            self.scores[label] = score

    def _evaluation(self, label: str, data: Mapping[Any, Any]) -> None:
        """The marks, claim and notes of one answer; an overall alone is a holistic score."""
        self._flag_repeats(data)
        marks: dict[str, float] = {}
        claim: Any = None
        n_dimensions = 0
        groups = [data]
        for group in groups:
            for key, value in group.items():
                name, role = _role(key)
                if role == "claim":
                    claim = _inner_mark(value)
                elif role == "rank":
                    self.ranks.setdefault(label, value)
                elif role == "note" and _is_note(name, value):
                    self._note(label, value)
                elif role == "group" and isinstance(value, dict):
                    groups += [value] if group is data else []
                elif role != "label":
                    n_dimensions += 1
                    self._mark(label, name, value, marks)
        if marks:
            self.marks.setdefault(label, {}).update(marks)
        if claim is not None:
            self._claim(label, claim, holistic=n_dimensions == 0)

    def _claim(self, label: str, value: Any, *, holistic: bool) -> None:
        if holistic:
            self._holistic(label, value)
        number = read_mark(value) if isinstance(value, (str, bool)) else value
        if isinstance(number, NUMBERS) and abs(number) < 10**9:
            self.claimed[label] = float(number)
        elif not holistic:
            self._flag(f"claim_dropped:{label}={shown(value)}")

    def _mark(self, label: str, dimension: str, value: Any, marks: dict[str, float]) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                if isinstance(key, str) and _role(key)[1] == "note" and isinstance(inner, str):
                    self._note(label, inner, about=dimension)
            value = _inner_mark(value)
        mark = read_mark(value)
        if mark is None:
            self._flag(f"mark_dropped:{label}.{shown(dimension)}={shown(value)}")
        else:
            marks[dimension] = mark

    def _note(self, label: str, value: Any, about: str = "") -> None:
        parts = value if isinstance(value, LISTS) else [value]
        text = "\n".join([part.strip() for part in parts if isinstance(part, str)]).strip()
        if text:
            text = f"{about}: {text}" if about else text
            self.notes[label] = f"{self.notes[label]}\n{text}" if label in self.notes else text

    def _notes(self, value: Any) -> None:
        seen: set[str] = set()
        for phrase, note in value.items() if isinstance(value, dict) else ():
            label = self._label(phrase, seen)
            if label is not None:
                self._note(label, note)


def _entries(value: Any, labels: Labels) -> Iterator[tuple[Any, Any]]:
    """Labels with what is said of them: an object's items, or objects in a list."""
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, LISTS):
        yield from ((label_of(item, labels), item) for item in value if isinstance(item, dict))


def _role(key: Any) -> tuple[str, str]:
    """What a key of an evaluation is called, and what it is for."""
    if not isinstance(key, str):
        return shown(key), "dimension"
    return _cached_role(key) if len(key) <= MAX_CACHED else (fold_key(key), "dimension")


@lru_cache(maxsize=4096)
def _cached_role(key: str) -> tuple[str, str]:
    name = fold_key(key)
    for role, names in ROLES:
        if name in names:
            return name, role
    return name, "note" if NOTE_KEY.fullmatch(name) else "dimension"


def _is_note(name: str, value: Any) -> bool:
    """Whether this is a remark; "reasoning: 7" is a mark of a dimension by that name."""
    if isinstance(value, NUMBERS):
        return False
    return name in REMARK_KEYS or read_mark(_inner_mark(value)) is None


def _is_prose(value: Any) -> bool:
    return isinstance(value, str) and " " in value.strip() and read_mark(value) is None


def _inner_mark(value: Any) -> Any:
    """The mark of a dimension that is given with its reasons."""
    return key_value(value, *MARK_KEYS) if isinstance(value, dict) else value
