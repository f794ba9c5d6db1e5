"""Read the JSON object of a reviewer's reply: a review (labels, ranking, marks) or a decision.

Every reply becomes a review, or an abstention with a reason. A ranking is a list of labels, best
first, in which an inner list is a tie; unknown labels and repeats stay in it, flagged, for the
count to remove. A mark outside 1 to 10 is dropped and flagged.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from peerage.council.forms import CLAIM_KEYS, LABEL_KEYS, MARK_KEYS, NO_MARKS, NOTE_KEY, fits_form
from peerage.council.prompts import Page, binary_schema
from peerage.council.seals import Object, Sealed, bare_object, find_sealed, fold_key
from peerage.text import valid_text
from peerage.types import MAX_LABELS, Ballot, Review, Seal

MAX_FLAGS = 50
MAX_REASON = 500
MAX_SHOWN = 80
MAX_PHRASE = 500  # characters of a phrase in which a label is looked for
MAX_ITEMS = 4 * MAX_LABELS
MAX_DIMENSION_CHARACTERS = 64
NUMBERS, LISTS = (int, float), (list, tuple)

Tiers = list[tuple[str, ...]]
Flags = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReviewRead:
    """A review as it was read, and the fault for which its reviewer is asked again, if any."""

    review: Review
    fault: str = ""  # a name in `prompts/faults.txt`


@dataclass(frozen=True, slots=True)
class Decision:
    """One vote on a yes-or-no question; None is an abstention, and the flag gives the reason."""

    approved: bool | None
    reasons: tuple[str, ...] = ()
    flag: str = ""
    fault: str = ""  # as in `ReviewRead`
    probability: float | None = None  # of approval, from a decision model


# -- from a reply to a review ------------------------------------------------------------------


def read_review(
    text: object, ballot: Ballot, page: Page, seal: Seal = "required", *, is_cut: bool = False
) -> ReviewRead:
    """Return the review in a reply to a prompt with a code; never raise an exception.

    A reply that was cut off is not read: its end may be a quotation.
    """
    raw = text if isinstance(text, str) else ""
    if is_cut or not raw.strip():
        return _unread(ballot, "cut_off" if is_cut else "empty", raw)
    sealed = find_sealed(raw, page.code, page.text)
    objects = sealed.objects
    flags = ("recovered:mended",) if sealed.mended else ()
    if sealed.fault == "no_code" and seal == "preferred" and (bare := bare_object(raw, page.text)):
        objects, flags = (bare,), ("unsealed",)
    if not objects:
        return _unread(ballot, sealed.fault, raw)
    readings = [_Reading(value, ballot) for value in objects]
    says = {json.dumps(reading.vote(), sort_keys=True) for reading in readings}
    fits = all(fits_form(value, page.schema, Labels(ballot).find) for value in objects)
    if len(says) > 1 or not fits or any(reading.is_contested for reading in readings):
        return _unread(ballot, "contested", raw)
    return readings[-1].read(raw, flags)


def review_of(data: object, ballot: Ballot, *, raw: str = "", flags: Flags = ()) -> Review:
    """Return the review in a JSON verdict, as ballots files have it.

    A list, or a line such as "A > B = C", is read as the ranking alone.
    """
    if isinstance(data, str | list | tuple):
        data = {"ranking": data}
    if not isinstance(data, Mapping) or not data:
        return abstain(ballot, "empty" if not data else "not_an_object", raw)
    return _Reading(data, ballot).read(raw, flags).review


def abstain(ballot: Ballot, reason: str, raw: str = "", flags: Flags = ()) -> Review:
    """Return a review without a vote."""
    return Review(ballot.reviewer, abstained=reason, flags=flags, raw=raw, round=ballot.round)


def _unread(ballot: Ballot, fault: str, raw: str) -> ReviewRead:
    return ReviewRead(abstain(ballot, fault, raw), fault)


# -- decisions ---------------------------------------------------------------------------------

DECIDED = {
    **dict.fromkeys(("true", "yes", "approved", "approve"), True),
    **dict.fromkeys(("false", "no", "rejected", "reject", "not approved"), False),
}


def parse_decision(
    text: str, page: Page, seal: Seal = "required", *, is_cut: bool = False
) -> Decision:
    """Return the decision in a reply to a prompt with a code; never raise an exception.

    An approval is never read from a reply without the code.
    """
    sealed = Sealed(fault="cut_off") if is_cut else find_sealed(text, page.code, page.text)
    form = binary_schema(page.code)
    if sealed.objects:
        decisions = [decision_of(value) for value in sealed.objects]
        fits = all(fits_form(value, form) for value in sealed.objects)
        if len({decision.approved for decision in decisions}) > 1 or not fits:
            return Decision(None, flag="contested", fault="contested")
        return decisions[-1]
    fault = "empty" if not text.strip() else sealed.fault
    bare = bare_object(text, page.text) if seal == "preferred" and fault == "no_code" else None
    decision = decision_of(bare if bare and fits_form(bare, form) else {})
    if decision.approved is False:
        return Decision(False, decision.reasons, "unsealed")
    return Decision(None, flag=fault, fault=fault)


def decision_of(data: Mapping[str, Any]) -> Decision:
    """Return the decision of an object; undecided if it is missing or the object abstains."""
    value = _fold_keys(data)
    if reason := _abstention(value):
        return Decision(None, (reason,), "abstained")
    word = value.get("approved")
    approved = DECIDED.get(word.strip().casefold()) if isinstance(word, str) else word
    if not isinstance(approved, bool):
        return Decision(None, flag="no_decision", fault="no_decision")
    reasons = _as_list(value.get("reasons"))
    texts = (valid_text(reason) for reason in reasons if isinstance(reason, str) and reason)
    return Decision(approved, tuple(texts))


# -- labels ------------------------------------------------------------------------------------

# Characters around a label that are not part of it.
WRAPPING = " \ufeff\u200b*_~`\"'“”„‘’«»[](){}<>#:;,.!|="
LABEL_WORDS = "response|answer|candidate|option|model|assistant|output|reply|submission"
GAP = r"[\s_:#*\-\[\](){}<>\"'“”„‘’«»`~.,;!|=\ufeff\u200b]{1,20}+"
HEADING = re.compile(rf"(?:responses?{GAP}){{1,3}}+(?=.)")
WORD_AND_LETTERS = re.compile(rf"(?:(?:{LABEL_WORDS}){GAP}){{1,3}}+([a-z]{{1,2}})")
JOINED = re.compile(r"(?:[Rr]esponse|[Aa]nswer|[Cc]andidate|[Oo]ption)([A-Z]{1,2})")
LETTERS = re.compile(r"([A-Za-z]{1,2})")
REMARK = re.compile(r"[:(,;\[–—|]|\s-{1,8}\s|\.\s")  # "A (best)", "B: wrong", "C - the clearest"


@lru_cache(maxsize=1024)
def canonical_label(text: str) -> str:
    """Return the label in a phrase such as "**Response A**": here A.

    One or two letters become capitals and other labels lower case, so that labels compare without
    regard to case. A custom label ("red", "model-3") is not shortened.
    """
    text = " ".join(text.split())
    bare = text.strip(WRAPPING)
    joined = JOINED.fullmatch(bare)
    if joined:
        return joined[1]
    bare = bare.casefold()
    while heading := HEADING.match(bare):
        bare = bare[heading.end() :]
    match = WORD_AND_LETTERS.fullmatch(bare) or LETTERS.fullmatch(bare)
    return match[1].upper() if match else bare or text.casefold()


class Labels:
    """The labels of one ballot, and a search for the label in a phrase."""

    def __init__(self, ballot: Ballot) -> None:
        self._by_form = {canonical_label(slot.label): slot.label for slot in reversed(ballot.slots)}

    def find(self, phrase: object) -> str | None:
        """Return the label in a phrase, which may end in a remark; None if there is no label."""
        if isinstance(phrase, int) and not isinstance(phrase, bool) and abs(phrase) < 10**9:
            phrase = str(phrase)
        if not isinstance(phrase, str) or len(phrase) > MAX_PHRASE:
            return None
        plain = phrase if phrase.isascii() else unicodedata.normalize("NFKC", phrase)
        remark = REMARK.search(plain, 1)
        forms = (plain, plain[: remark.start()]) if remark else (plain,)
        labels = (self._by_form.get(canonical_label(form)) for form in forms)
        return next((label for label in labels if label is not None), None)


# -- rankings ----------------------------------------------------------------------------------


def read_tiers(value: Any, labels: Labels) -> tuple[Tiers, list[str]]:
    """Return the tiers of a list, best first, or of "A > B = C", and flags for dropped items.

    An ambiguous list, such as one with ranks or scores next to the labels, is not read.
    """
    if isinstance(value, str):
        parts = re.split("[>≻]" if re.search("[>≻]", value) else ",", value)[:MAX_ITEMS]
        names = [name for part in parts for name in part.split("=")]
        value = parts if all(map(labels.find, names)) else []
    if not isinstance(value, LISTS):
        return [], [f"ranking_unclear:{clip(value)}"] if value is not None else []
    flags = [f"rank_dropped:{len(value) - MAX_ITEMS} items"] if len(value) > MAX_ITEMS else []
    tiers: Tiers = []
    for item in value[:MAX_ITEMS]:
        if isinstance(item, str) and all(map(labels.find, parts := item.split("="))):
            item = parts
        tier = []
        for part in _as_list(item):
            label = labels.find(part)
            is_number = isinstance(part, NUMBERS) and isinstance(item, LISTS)
            if label is not None or isinstance(part, str):
                tier.append(label or canonical_label(part[:MAX_ITEMS]))
            elif isinstance(part, Mapping) or is_number:
                return [], [*flags, f"ranking_unclear:{clip(part)}"]
            else:
                flags.append(f"rank_dropped:{clip(part)}")
        tiers += [tuple(tier)] if tier else []
    return tiers, flags


def _as_list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, LISTS) else (value,)


def first_value(data: Mapping[str, Any], names: Iterable[str]) -> Any:
    """Return the value of the first of these names that there is, or None."""
    return next((data[name] for name in names if name in data), None)


# -- marks -------------------------------------------------------------------------------------

MARK = re.compile(
    r"[*\s]{0,9}+([+-]?\d{1,4}(?:\.\d{0,20})?)\s{0,5}+"
    r"(?:(?:/|out\s{1,5}of)\s{0,5}10(?:\.0{0,5})?|(?P<percent>%))?[*\s]{0,9}+"
)


def read_mark(value: Any) -> float | None:
    """Return a mark from 1 to 10, also from "9", "9/10" or "90%"; None for anything else."""
    number = _number(value)
    return number if number is not None and 1 <= number <= 10 else None


def _number(value: Any) -> float | None:
    """Return a number, also from a text such as "9/10"; None for anything else."""
    if isinstance(value, str):
        match = MARK.fullmatch(value)
        return float(match[1]) / (10 if match["percent"] else 1) if match else None
    is_number = isinstance(value, NUMBERS) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) < 10**9 else None


def clip(value: Any) -> str:
    """Return a value for a flag: short, on one line, without descending into nested values."""
    if isinstance(value, str):
        return _one_line(value, MAX_SHOWN)
    if value is None or isinstance(value, NUMBERS):
        is_huge = isinstance(value, int) and abs(value) >= 10**MAX_SHOWN
        return "a huge number" if is_huge else json.dumps(value)
    kind = "a list" if isinstance(value, LISTS) else type(value).__name__
    return "an object" if isinstance(value, Mapping) else kind


def _one_line(text: str, limit: int) -> str:
    line = " ".join(text[: 4 * limit].split())
    return valid_text(line if len(line) <= limit else line[: limit - 1] + "…")


def _fold_keys(data: Mapping[Any, Any]) -> Object:
    """Return an object with normalised keys; of two equal keys the last one counts."""
    return {fold_key(key): value for key, value in data.items() if isinstance(key, str)}


def _abstention(data: Object) -> str:
    """Return the reason of a reviewer who abstains; an empty text if it does not."""
    value, reason = data.get("abstained"), data.get("reason")
    word = value.strip().casefold() if isinstance(value, str) else ""
    if " " in word and word != "not abstained":  # a sentence is the reason
        reason = value
    elif not (value is True or value == 1 or word in ("true", "yes", "abstained")):
        return ""
    return (_one_line(reason, MAX_REASON) if isinstance(reason, str) else "") or "abstained"


class _Reading:
    """Reads one object as a review of a ballot."""

    def __init__(self, data: Mapping[Any, Any], ballot: Ballot) -> None:
        value = _fold_keys(data)
        self.ballot, self.labels = ballot, Labels(ballot)
        self.abstained = _abstention(value)
        self.scores: dict[str, float] = {}
        self.marks: dict[str, dict[str, float]] = {}
        self.claimed: dict[str, float] = {}
        self.notes: dict[str, str] = {}
        self.agrees: dict[str, bool] = {}
        self.flags: dict[str, None] = {}
        self.names_a_label = self.is_repeated = False
        for name in ("evaluations", "scores"):
            self._evaluations(name, value.get(name))
        for name, take in (("notes", self._note), ("agrees", self._agreement)):
            words = value.get(name)
            entries = words.items() if isinstance(words, Mapping) else ()
            for label, word in self._find_labels(entries):
                take(label, word)
        self.ranking = self._ranking(value.get("ranking"))
        ranked = {name for tier in self.ranking for name in tier}
        self.judged = {*self.scores, *self.marks, *ranked} & ballot.author_by_label.keys()

    @property
    def is_contested(self) -> bool:
        """Whether the object judges an answer twice, or both abstains and votes."""
        return self.is_repeated or bool(self.abstained and self.judged)

    def vote(self) -> list[Any]:
        """Return the values that decide whether two objects are the same vote."""
        return [self.ranking, self.scores, self.marks, self.agrees, self.abstained]

    def read(self, raw: str, known: tuple[str, ...] = ()) -> ReviewRead:
        """Return the review, or an abstention if it judges none of the labels."""
        ballot = self.ballot
        flags = [*known, *self.flags]
        if len(flags) > MAX_FLAGS:
            flags[MAX_FLAGS - 1 :] = [f"…and {len(flags) - MAX_FLAGS + 1} more"]
        if self.abstained:
            flags = ["abstained_beside_a_vote"] * bool(self.judged)
            return ReviewRead(abstain(ballot, self.abstained, raw, tuple(flags)))
        if not self.judged:
            reason = "no_marks" if self.names_a_label else "no_labels"
            return ReviewRead(abstain(ballot, reason, raw, tuple(flags)), reason)
        review = Review(
            ballot.reviewer,
            tuple(tuple(map(valid_text, tier)) for tier in self.ranking),
            self.scores,
            self.marks,
            self.claimed,
            {label: valid_text(note) for label, note in self.notes.items()},
            self.agrees,
            recovered="".join(known).partition("recovered:")[2],
            flags=tuple(flags),
            raw=raw,
            round=ballot.round,
        )
        return ReviewRead(review, "label_missing" if len(self.judged) < len(ballot.slots) else "")

    def _flag(self, flag: str) -> None:
        self.flags[valid_text(flag)] = None

    def _ranking(self, value: Any) -> Tiers:
        tiers, flags = read_tiers(value, self.labels)
        for flag in flags:
            self._flag(flag)
        for label, n in Counter(label for tier in tiers for label in tier).items():
            if label not in self.ballot.author_by_label:  # the count drops these
                self._flag(f"unknown_label:{clip(label)}")
            elif n > 1:
                self._flag(f"repeated_label:{label}")
        return tiers

    def _find_labels(self, entries: Iterable[tuple[Any, Any]]) -> Iterator[tuple[str, Any]]:
        """Yield entries under the ballot's labels; unknown and repeated labels are flagged."""
        labels: set[str] = set()
        for phrase, value in entries:
            label = self.labels.find(phrase)
            if label is None:
                name = canonical_label(phrase[:MAX_ITEMS]) if isinstance(phrase, str) else phrase
                self._flag(f"unknown_label:{clip(name)}")
            elif label in labels:
                self.is_repeated = True
                self._flag(f"repeated_label:{label}")
            else:
                self.names_a_label = True
                labels.add(label)
                yield label, value

    def _evaluations(self, name: str, value: Any) -> None:
        """Read the evaluations of answers: an object's items, or objects in a list."""
        entries: Iterable[tuple[Any, Any]] = ()
        if isinstance(value, Mapping):
            entries = value.items()
        elif isinstance(value, LISTS):
            items = (item for item in value if isinstance(item, Mapping))
            entries = ((first_value(_fold_keys(item), LABEL_KEYS), item) for item in items)
        elif value is not None:
            self._flag(f"{name}_dropped:{clip(value)}")
        for label, word in self._find_labels(entries):
            if isinstance(word, Mapping):
                self._evaluation(label, word)
            elif name == "evaluations" and isinstance(word, str) and read_mark(word) is None:
                self._note(label, word)
            else:
                self._score(label, word)

    def _score(self, label: str, value: Any) -> None:
        score = read_mark(value)
        if score is None:
            self._flag(f"score_dropped:{label}={clip(value)}")
        else:
            self.scores[label] = score

    def _evaluation(self, label: str, data: Mapping[Any, Any]) -> None:
        """Read the marks, overall score and notes of one answer; marks may be missing."""
        values = _fold_keys(data)
        claim = first_value(values, CLAIM_KEYS)
        if type(values.get("agrees")) not in NUMBERS:  # a number is a mark of a dimension `agrees`
            self._agreement(label, values.pop("agrees", None))
        others = {name: part for name, part in values.items() if name not in NO_MARKS}
        remarks = {name for name, value in others.items() if _is_note(name, value)}
        for name, value in others.items():
            if name in remarks:
                self._note(label, value)
            else:
                self._mark(label, valid_text(name), value)
        if claim is None:
            return
        if len(remarks) == len(others):
            self._score(label, claim)
        number = _number(claim)
        if number is not None:
            self.claimed[label] = number

    def _agreement(self, label: str, word: Any) -> None:
        """Store whether an answer agrees with the reviewer's own; ignore null and other words."""
        agrees = DECIDED.get(word.strip().casefold()) if isinstance(word, str) else word
        if isinstance(agrees, bool):
            self.agrees[label] = agrees

    def _mark(self, label: str, dimension: str, value: Any) -> None:
        """Store one mark, unless the name of its dimension is too long or not printable."""
        for key, inner in _fold_keys(value).items() if isinstance(value, Mapping) else ():
            if NOTE_KEY.fullmatch(key) and isinstance(inner, str):
                self._note(label, f"{dimension}: {inner}")
        mark = read_mark(_inner_mark(value))
        fits = 0 < len(dimension) <= MAX_DIMENSION_CHARACTERS and dimension.isprintable()
        if mark is None:
            self._flag(f"mark_dropped:{label}.{clip(dimension)}={clip(_inner_mark(value))}")
        elif not fits:
            self._flag(f"dimension_dropped:{label}.{clip(dimension)}")
        else:
            self.marks.setdefault(label, {})[dimension] = mark

    def _note(self, label: str, value: Any) -> None:
        parts = [part.strip() for part in _as_list(value) if isinstance(part, str)]
        if text := "\n".join(parts).strip():
            self.notes[label] = f"{self.notes[label]}\n{text}" if label in self.notes else text


def _is_note(name: str, value: Any) -> bool:
    """Return whether a value is a remark; "reasoning: 7" is a mark of a dimension of that name."""
    key = NOTE_KEY.fullmatch(name)
    if isinstance(value, NUMBERS) or key is None:
        return False
    return key["plain"] is not None or read_mark(_inner_mark(value)) is None


def _inner_mark(value: Any) -> Any:
    """Return the mark of a dimension whose value also contains reasons."""
    return first_value(_fold_keys(value), MARK_KEYS) if isinstance(value, Mapping) else value
