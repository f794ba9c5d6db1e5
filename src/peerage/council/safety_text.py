"""An answer as the safety gate reads it: flat words, with the way back to the original.

Flat text is lower case with one separator character between two words, which tells what stood
there:

    " " nothing that matters     "," ";" ":" "—" as they are     "•" the next item of a list
    "." the end of a sentence    "\\n" the end of a line or paragraph that is not one

Full-width and accented letters, zero-width marks and curly apostrophes are levelled too, each
character keeping the index it came from. Letters spaced out, digits for letters, look-alikes
from other alphabets and words run together are not undone: a tripwire need not be a decoder.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache

WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
NUMBERED = re.compile(r"\d{1,2}[.)]\s")  # 988 is no list number
BULLETS = frozenset("-*+•·–—")
STOPS = ".!?…。"
SENTENCE_END = re.compile(r"[.\n]")
ABBREVIATIONS = ("e.g", "i.e", "a.k.a", "u.s", "u.k", " vs", " dr", " mr", " mrs", " ms", " cf")
FOLDS = str.maketrans(
    {
        **dict.fromkeys("‘’ʼ′＇`´‛", "'"),
        **dict.fromkeys("‐‑‒−﹣－", "-"),
        **dict.fromkeys("\v\f\x85\u2028\u2029", "\n"),
        "\r": " ",  # a CRLF is one line break, not two
    }
)


@cache
def _compiled(source: str) -> re.Pattern[str]:
    return re.compile(source)


@dataclass(frozen=True, slots=True)
class Phrase:
    """A regular expression that is compiled when it is first used: the gate is opt-in."""

    source: str

    def search(self, text: str, start: int = 0, end: int = sys.maxsize) -> re.Match[str] | None:
        return _compiled(self.source).search(text, start, end)

    def match(self, text: str) -> re.Match[str] | None:
        return _compiled(self.source).match(text)

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        return _compiled(self.source).finditer(text)


def phrase(source: str) -> Phrase:
    """A phrase of flat text; a space in its source is any separator but a sentence's end.

    So it is found across commas, hyphens and line breaks; `\\x20` is a real space only.
    """
    return Phrase(source.replace(" ", r"[^\w.]"))


@dataclass(frozen=True, slots=True)
class Reading:
    """One text twice over, folded and flat; `origin` leads from either back to the text."""

    folded: str
    folded_origin: array[int]
    flat: str
    flat_origin: array[int]
    ends: array[int]  # where the sentences of the flat text end

    def sentence(self, start: int, end: int) -> tuple[int, int]:
        """The bounds, in flat text, of the sentence or sentences that hold a stretch."""
        after = bisect_left(self.ends, end)
        before = bisect_left(self.ends, start)
        first = self.ends[before - 1] + 1 if before else 0
        last = self.ends[after] if after < len(self.ends) else len(self.flat)
        return first, last

    def next_sentence(self, end: int, reach: int) -> str:
        """The start of the sentence after the one that ends here; empty at the end of the text."""
        first, last = self.sentence(end + 1, end + 1)
        return self.flat[first : min(last, first + reach)]

    def flat_stretch(self, span: tuple[int, int]) -> tuple[int, int]:
        """Where a stretch of the original text lies in the flat text."""
        return bisect_left(self.flat_origin, span[0]), bisect_left(self.flat_origin, span[1])


@lru_cache(maxsize=4096)
def _fold_character(character: str) -> str:
    plain = unicodedata.normalize("NFKD", character.translate(FOLDS)).casefold().translate(FOLDS)
    if len(plain) > 4:  # a phrase in one character would let a text grow eighteenfold
        return character
    return "".join(mark for mark in plain if unicodedata.category(mark) not in ("Mn", "Cf"))


def fold(text: str) -> tuple[str, array[int]]:
    """Lower case, compatibility forms undone, invisible marks dropped; and each one's index."""
    if text.isascii():
        return text.lower().translate(FOLDS), array("q", range(len(text)))
    pieces: list[str] = []
    origin = array("q")
    for index, character in enumerate(text):
        piece = _fold_character(character)
        pieces.append(piece)
        origin.extend([index] * len(piece))
    return "".join(pieces), origin


def read(text: str) -> Reading:
    """The text as flat words; what stands before the first word is nothing to the gate."""
    folded, folded_origin = fold(text)
    words = [word.span() for word in WORD.finditer(folded)]
    nexts = [start for start, _ in words[1:]] + [len(folded)]
    pieces: list[str] = []
    origin = array("q")
    in_list = False
    number = bool(words) and _is_numbered(folded, words[0][0])
    for (start, end), after in zip(words, nexts, strict=False):
        mark = folded[end:after]
        if mark != " " or number:
            low = after < len(folded) and text[folded_origin[after]].islower()
            mark = " " if number else _separator(folded, (end, after), low, in_list)
            breaks = "\n" in folded[end:after]
            number = breaks and _is_numbered(folded, after)
            in_list = (breaks and mark == ":") or (in_list and mark not in ".\n")
        pieces += folded[start:end], mark
        origin.extend(folded_origin[start:end])
        origin.append(folded_origin[end] if end < len(folded) else len(text))
    flat = "".join(pieces)
    ends = array("q", (end.start() for end in SENTENCE_END.finditer(flat)))
    return Reading(folded, folded_origin, flat, origin, ends)


def _is_numbered(folded: str, start: int) -> bool:
    return NUMBERED.match(folded, start) is not None


def _separator(folded: str, gap: tuple[int, int], low: bool, in_list: bool) -> str:
    """The one character that stands for all there is between two words, or after the last.

    `low` says that a small letter follows: after a line break that is a wrapped line, after
    an ellipsis a sentence that goes on.
    """
    start, end = gap
    run = folded[start:end]
    lines = run.split("\n")
    bullet = lines[-1].strip()
    if len(lines) > 1 and ((bullet and BULLETS.issuperset(bullet)) or _is_numbered(folded, end)):
        return ":" if ":" in run else "•" if in_list else "\n"
    if _ends_sentence(folded, gap, low):
        return "."
    if len(lines) > 2 or (len(lines) == 2 and not low and not {":", ","}.intersection(run)):
        return "\n"
    if any(dash in run for dash in ("—", "–", "--", " - ")):
        run = "—"
    return next((mark for mark in ":;,—" if mark in run), " ")


def _ends_sentence(folded: str, gap: tuple[int, int], low: bool) -> bool:
    start, end = gap
    run = folded[start:end]
    stop = max(map(run.rfind, STOPS))
    if end == len(folded) or "。" in run:
        return True
    if stop < 0:
        return False
    if not any(map(str.isspace, run[stop:])):  # "sorry.Build" ends; "make.a", "U.S.", "3.5" do not
        return (
            run[0] in STOPS
            and folded[end].isalpha()
            and not low
            and folded[start - 2 : start].isalpha()
        )
    if "\n" in run:
        return True
    if folded.endswith(ABBREVIATIONS, 0, start) and run[0] == ".":
        return False
    return not (low and ("…" in run or ".." in run))
