"""Fence lines of a prompt, struck out of the replies that copy them.

A fence line carries a code that belongs to one ballot or chair of one session. In prose the line
goes. In a reply that is read for a vote the line stays, since it marks what is quoted, and only
its code goes; `without_marks` takes such lines out of what is shown of the reply.
"""

from __future__ import annotations

import re
from functools import lru_cache

MAX_TITLE = 200  # characters between the word and the code
MASK = "…"  # stands for the code
WORDS = r"\[(?:BEGIN|END|NOTE) "
MARKS = re.compile(rf"{WORDS}[^\[\]\n]{{0,{MAX_TITLE}}}{MASK}\][ \t]*\n?")
UNENDED = re.compile(rf"(?:\[[^\[\]\n]{{0,{2 * MAX_TITLE}}}|[0-9a-f]{{1,64}})\Z")


@lru_cache(maxsize=256)
def _patterns(code: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """A whole fence line or a mark within a line, and the code wherever it stands."""
    mark = rf"{WORDS}[^\[\]\n]{{0,{MAX_TITLE}}}?{code}[0-9a-f]*\]"
    return re.compile(rf"^[ \t]*{mark}[ \t]*(?:\n|\Z)|{mark}", re.M), re.compile(
        rf"{code}[0-9a-f]*"
    )


def strike_fences(text: str, code: str) -> tuple[str, int]:
    """A text without the fence lines of a code, and how many marks were struck out."""
    if code not in text:
        return text, 0
    marks, bare = _patterns(code)
    text, n = marks.subn("", text)
    text, n_bare = bare.subn(MASK, text)
    return text, n + n_bare


def mask_codes(text: str, code: str) -> tuple[str, int]:
    """A text in which every fence line has lost its code, and how many codes there were."""
    return _patterns(code)[1].subn(MASK, text) if code in text else (text, 0)


def without_marks(text: str) -> str:
    """What is shown of a reply: without the lines that lost their code."""
    return MARKS.sub("", text) if MASK in text else text


class FenceFilter:
    """Strikes fence lines out of a text that comes in pieces; a mark that may go on is held back.

    What it gives adds up to the beginning of the text as `strike_fences` leaves it.
    """

    def __init__(self, code: str) -> None:
        self.code = code
        self._text = ""
        self._n_given = 0

    def add(self, piece: str) -> str:
        """The part of the text that is certain after one more piece, and was not given yet."""
        self._text += piece
        unended = UNENDED.search(self._text, max(0, len(self._text) - 2 * MAX_TITLE - 1))
        sure = self._text[: unended.start()] if unended else self._text
        struck, _ = strike_fences(sure, self.code)
        given = struck[self._n_given :]
        self._n_given = max(self._n_given, len(struck))
        return given
