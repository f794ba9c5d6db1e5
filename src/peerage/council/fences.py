"""Fences around quoted text, codes for replies to repeat, and fence lines removed from replies.

A prompt that asks for a vote contains a code, once, in the form to be filled in. The code is
derived from a secret of the session, so no text written before can contain it. A fence line
contains another code. `strike_fences` removes copied fence lines from prose; in a reply that is
read for a vote, `mask_codes` removes only the code, since the line marks a quotation.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Iterable
from functools import lru_cache

from peerage.errors import InputError

CODE_CHARACTERS = "23456789abcdefghjkmnpqrstuvwxyz"  # no two look alike
CODE_LENGTH = 12


def boundary(secret: str, session_id: str, reviewer: str, round: int) -> str:
    """Return the boundary of one ballot's fences: 16 hexadecimal digits.

    It is derived from the session's secret, which no author has seen, so an answer cannot guess it,
    and a resumed session gets the same one.
    """
    return derive_bytes("fence", secret, session_id, reviewer, round).hex()[:16]


def ballot_code(secret: str, session_id: str, reviewer: str, round: int) -> str:
    """Return the code that a reply to one prompt must contain: 12 characters, about 59 bits.

    Like the boundary it is derived from the secret, and neither reveals the other.
    """
    draws = derive_bytes("code", secret, session_id, reviewer, round)
    return "".join(CODE_CHARACTERS[draw % len(CODE_CHARACTERS)] for draw in draws[:CODE_LENGTH])


def derive_bytes(purpose: str, secret: str, *names: object) -> bytes:
    """Return bytes derived from a secret for one purpose (HMAC-SHA-256)."""
    message = json.dumps([purpose, *names], ensure_ascii=True)
    return hmac.digest(secret.encode(), message.encode(), "sha256")


def clear_of(boundary: str, texts: Iterable[str]) -> str:
    """Return the boundary, lengthened until none of the texts contains it.

    A coincidence is very unlikely, but a reviewer's remark may quote the code. A code longer than
    every text is in none of them, so the loop ends.
    """
    if not boundary:
        raise InputError(
            "a fence needs a boundary, and this one is empty.", hint="Take one from boundary()."
        )
    texts = tuple(texts)
    while any(boundary in text for text in texts):
        boundary += hashlib.sha256(boundary.encode()).hexdigest()[:16]
    return boundary


def enclose(title: str, text: str, boundary: str) -> str:
    """Return a text, unchanged, between two lines that contain the boundary."""
    if boundary in text:
        raise InputError(
            f"the text of {title} contains the boundary of its own fence.",
            hint="Lengthen the boundary with clear_of().",
        )
    return f"[BEGIN {title} {boundary}]\n{text}\n[END {title} {boundary}]"


MAX_TITLE = 200  # characters of a fence line between its word and its code
MASK = "…"  # replaces the code
WORDS = r"\[(?:BEGIN|END|NOTE) "
MARKS = re.compile(rf"{WORDS}[^\[\]\n]{{0,{MAX_TITLE}}}{MASK}\][ \t]*\n?")
BORDER = re.compile(  # a fence line, with or without a code
    rf"\[(?:BEGIN|END) [^\[\]\n]{{1,{MAX_TITLE}}}\][ \t]*(?:\n\s*|\Z)"
)
UNENDED = re.compile(rf"(?:\[[^\[\]\n]{{0,{2 * MAX_TITLE}}}|[0-9a-f]{{1,64}})\Z")


@lru_cache(maxsize=256)
def _patterns(code: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return a pattern for fence marks, on lines of their own or not, and one for the bare code."""
    mark = rf"{WORDS}[^\[\]\n]{{0,{MAX_TITLE}}}?{code}[0-9a-f]*\]"
    return re.compile(rf"^[ \t]*{mark}[ \t]*(?:\n|\Z)|{mark}", re.M), re.compile(
        rf"{code}[0-9a-f]*"
    )


def strike_fences(text: str, code: str) -> tuple[str, int]:
    """Return a text without the fence lines of a code, and the number of marks removed."""
    if code not in text:
        return text, 0
    marks, bare = _patterns(code)
    text, n = marks.subn("", text)
    text, n_bare = bare.subn(MASK, text)
    return text, n + n_bare


def strip_borders(text: str) -> str:
    """Return a text without fence lines, with any code or none, at its beginning and its end.

    A small model imitates the lines around the texts that it was shown. Lines between other lines
    stay, because a text may be about such lines.
    """
    blank = len(text) - len(text.lstrip())
    begin, end = blank, len(text)
    while border := BORDER.match(text, begin):
        begin = border.end()
    while begin < end:
        last = end
        while last > begin and text[last - 1].isspace():
            last -= 1
        start = text.rfind("\n", begin, last) + 1 or begin
        if not BORDER.fullmatch(text, start, last):
            break
        end = start
    return text[:blank] + text[begin:end]


def mask_codes(text: str, code: str) -> tuple[str, int]:
    """Return a text with the code removed from every fence line, and the number of codes."""
    return _patterns(code)[1].subn(MASK, text) if code in text else (text, 0)


def without_marks(text: str) -> str:
    """Return a reply for display, without fence lines whose code was removed."""
    return MARKS.sub("", text) if MASK in text else text


class FenceFilter:
    """Removes fence lines from a text that arrives in pieces; holds back an incomplete mark.

    The returned pieces add up to the beginning of the text that `strike_fences` and then
    `strip_borders` return.
    """

    def __init__(self, code: str) -> None:
        self.code = code
        self._text = ""
        self._n_given = 0

    def add(self, piece: str) -> str:
        """Return the part of the text that can be released after one more piece."""
        self._text += piece
        unended = UNENDED.search(self._text, max(0, len(self._text) - 2 * MAX_TITLE - 1))
        sure = self._text[: unended.start()] if unended else self._text
        struck = strip_borders(strike_fences(sure, self.code)[0])
        given = struck[self._n_given :]
        self._n_given = max(self._n_given, len(struck))
        return given
