"""Labels as reviewers write them, and the one form that each comes down to."""

from __future__ import annotations

import re
from functools import lru_cache

from peerage.types import Ballot

MAX_CACHED = 64
MAX_PHRASE = 200

# What stands around a label without being part of it.
WRAPPING = " \ufeff\u200b*_~`\"'“”„‘’«»[](){}<>#:;,.!|="
WORDS = "response|answer|candidate|option|model|assistant|output|reply|submission"
GAP = r"[\s_:#*\-\[\](){}<>\"'“”„‘’«»`~.,;!|=\ufeff\u200b]"
HEADING = re.compile(rf"(?:responses?{GAP}++)++(?=.)")
WORD_AND_LETTERS = re.compile(rf"(?:(?:{WORDS}){GAP}++)++([a-z]{{1,2}})")
JOINED = re.compile(r"(?:[Rr]esponse|[Aa]nswer|[Cc]andidate|[Oo]ption)([A-Z]{1,2})")
LETTERS = re.compile(r"([A-Za-z]{1,2})")
# "A (best)", "B: wrong", "C - the clearest": what follows the label is a remark.
REMARK = re.compile(r"[:(,;\[–—|]|\s-+\s|\.\s")
# "Response A is the best": with the word before it, a letter is a label whatever follows.
NAMED_IN_FULL = re.compile(rf"[^\w]*+((?:{WORDS}){GAP}++[A-Z]{{1,2}})\b", re.IGNORECASE)


def canonical_label(text: str) -> str:
    """The label in a phrase such as "**Response A**": here A.

    Letters become capitals, anything else small letters, so that labels compare without
    regard to case. A label of one's own ("red", "model-3") stays whole.
    """
    return _cached(text) if len(text) <= MAX_CACHED else _canonical(text)


def _canonical(text: str) -> str:
    text = " ".join(text.split())
    bare = text.strip(WRAPPING)
    joined = JOINED.fullmatch(bare)
    if joined:
        return joined[1]
    bare = bare.casefold()
    heading = HEADING.match(bare)
    if heading:
        bare = bare[heading.end() :]
    match = WORD_AND_LETTERS.fullmatch(bare) or LETTERS.fullmatch(bare)
    return match[1].upper() if match else bare or text.casefold()


_cached = lru_cache(maxsize=4096)(_canonical)


class Labels:
    """The labels of one ballot, and which of them a phrase means."""

    def __init__(self, ballot: Ballot) -> None:
        self._by_form: dict[str, str] = {}
        for slot in ballot.slots:
            self._by_form.setdefault(canonical_label(slot.label), slot.label)
        self._longest = MAX_PHRASE + max(map(len, self._by_form), default=0)

    def exactly(self, phrase: str) -> str | None:
        """The label that a phrase is, and nothing more."""
        if len(phrase) > self._longest:
            return None
        return self._by_form.get(canonical_label(phrase))

    def find(self, phrase: object) -> str | None:
        """The label that a phrase names, a remark behind it allowed; None if it names none."""
        text = phrase_of(phrase)
        if text is None:
            return None
        label = self.exactly(text)
        if label is not None:
            return label
        text = text[:MAX_PHRASE]
        remark = REMARK.search(text, 1)
        if remark:
            label = self.exactly(text[: remark.start()])
        if label is None:
            match = NAMED_IN_FULL.match(text)
            label = self.exactly(match[1]) if match else None
        return label

    def read(self, phrase: str) -> str:
        """The label that a phrase names, or the phrase's own form."""
        label = self.find(phrase)
        return canonical_label(phrase) if label is None else label


def phrase_of(value: object) -> str | None:
    """Text that may be a label: a string, or a whole number where labels are numbered."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**9:
        return str(value)
    return None
