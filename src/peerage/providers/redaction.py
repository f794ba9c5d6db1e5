"""Remove a seat's key from text of a provider, and make that text valid Unicode.

An endpoint knows the key it was sent and may repeat it: in an error, in a header it quotes,
even in an answer. Text is redacted before it is shortened, because half of a key would not be
recognised.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from html import escape
from typing import NamedTuple

MARK = "[key]"
MIN_KEY_CHARACTERS = 8  # a shorter "key" (none, test, ollama) is a word that may be in answers
MAX_MESSAGE_CHARACTERS = 300
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")

Spellings = Mapping[str, list[str]]  # ways to write one character of the key, by first character
Form = tuple[Spellings, ...]
ESCAPES = ("%", "\\", "&")


class Followed(NamedTuple):
    """A match of a form of the key in a text, possibly incomplete."""

    start: int
    end: int
    n_characters: int  # of the key
    is_open: bool  # the match ends at the end of the text, so it may continue


class Redactor:
    """Removes one key from texts, in every form in which a server may repeat it.

    Each character of the key may be plain, in either case, or escaped as in JSON, a URL or
    HTML, once or twice. The whole key may be in hexadecimal or in base64, alone or as a
    part of a longer text, such as the `user:key` of basic authentication.
    """

    def __init__(self, key: str | None) -> None:
        self._literals: list[str] = []
        self._forms_by_first: dict[str, list[Form]] = {}
        self._longest = 0  # length of the longest form in characters
        self._form: Form = ()
        if key is None or len(key) < MIN_KEY_CHARACTERS:
            return
        self._form = tuple(_by_first(_spellings(character)) for character in key)
        self._literals = _encodings(key.encode("utf-8", "surrogatepass"))
        for form in (self._form, *(tuple(map(_by_first, text)) for text in self._literals)):
            for first in form[0]:
                self._forms_by_first.setdefault(first, []).append(form)
        self._longest = sum(max(map(len, _all(spellings))) for spellings in self._form)
        self._plain_start = key[:MIN_KEY_CHARACTERS].lower()
        opening = self._form[:MIN_KEY_CHARACTERS]
        choices = ("|".join(map(re.escape, _all(spellings))) for spellings in opening)
        self._start = re.compile("".join(f"(?:{choice})" for choice in choices))

    def redact(self, text: str) -> str:
        """Return valid Unicode without the key, and without an incomplete key at the end."""
        struck, rest = self._strike(well_formed(text))
        tail = max(0, len(rest) - self._longest)
        for literal in self._literals:
            start = rest.find(literal[:MIN_KEY_CHARACTERS], tail)
            if start >= 0 and literal.startswith(rest[start:]):
                rest = rest[:start] + MARK
        for followed in self._starts(rest, tail):
            if followed.is_open:
                return struck + rest[: followed.start] + MARK
        return struck + rest

    def sentence(self, text: str) -> str:
        """Return a short message in one line without the key, for a log or a person."""
        line = " ".join(CONTROL.sub(" ", self.redact(text)).split())
        if len(line) <= MAX_MESSAGE_CHARACTERS:
            return line
        return line[: MAX_MESSAGE_CHARACTERS - 1] + "…"

    def redact_known(self, text: str) -> tuple[str, str]:
        """Return the redacted part of a text, and the end that may be the beginning of a key."""
        struck, rest = self._strike(text)
        end = len(rest)
        if "\ud800" <= rest[-1:] <= "\udbff":  # its other half may be in the next piece
            end -= 1
        for start in range(max(0, end - self._longest), end):
            forms = self._forms_by_first.get(rest[start])
            if forms and any(_follow(rest, start, form).is_open for form in forms):
                end = start
                break
        return well_formed(struck + rest[:end]), rest[end:]

    def _strike(self, text: str) -> tuple[str, str]:
        """Return the text up to the last key, with keys and half keys replaced, and the rest."""
        for literal in self._literals:
            text = text.replace(literal, MARK)
        parts: list[str] = []
        end = 0
        for followed in self._starts(text):
            if followed.is_open:
                break
            if followed.start >= end and followed.n_characters >= len(self._form) / 2:
                parts += text[end : followed.start], MARK
                end = followed.end
        return "".join(parts), text[end:]

    def _starts(self, text: str, place: int = 0) -> Iterator[Followed]:
        """Yield each place that begins like the key, with the number of characters that match."""
        if not self._form or not (
            any(sign in text for sign in ESCAPES) or self._plain_start in text.lower()
        ):
            return
        while match := self._start.search(text, place):
            yield _follow(text, match.start(), self._form)
            place = match.start() + 1


class RedactedStream:
    """Passes on the pieces of a text without the key, even if the key is split over pieces."""

    def __init__(self, redactor: Redactor, tell: Callable[[str], None]) -> None:
        self._redactor = redactor
        self._tell = tell
        self._undecided = ""

    def feed(self, piece: str) -> None:
        """Pass on the text that cannot be part of the key; keep the rest for the next piece."""
        text, self._undecided = self._redactor.redact_known(self._undecided + piece)
        if text:
            self._tell(text)

    def end(self) -> None:
        """Pass on the text that was kept, at the end of the stream."""
        rest, self._undecided = self._redactor.redact(self._undecided), ""
        if rest:
            self._tell(rest)


def well_formed(text: str) -> str:
    """Replace lone surrogates, which JSON can contain and no encoding can write."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _spellings(character: str) -> list[str]:
    """Return the ways to write one character of a key: plain, escaped, and escaped twice."""
    code = ord(character)
    data = character.encode("utf-8", "surrogatepass")
    coded = [
        "".join(f"%{byte:02x}" for byte in data),
        "".join(f"%25{byte:02x}" for byte in data),
        f"\\u{code:04x}",
        f"\\\\u{code:04x}",
        f"\\x{code:02x}",
        f"&#x{code:x};",
    ]
    upper = [re.sub("[0-9a-f]{2,}", lambda digits: digits[0].upper(), text) for text in coded]
    plain = [character, character.swapcase(), escape(character), f"&#{code};"]
    quoted = ["\\" * n + character for n in (1, 2, 3)]
    return [*plain, *coded, *upper, *quoted]


def _encodings(key: bytes) -> list[str]:
    """Return the key in hexadecimal and in base64, the latter at each offset within three bytes."""
    encodings = [key.hex(), key.hex().upper()]
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for n_before in range(3):
            text = encode(bytes(n_before) + key).decode()
            first = -(-n_before * 8 // 6)  # leave out digits that mix with neighbouring bytes
            last = (n_before + len(key)) * 8 // 6
            encodings.append(text[first:last])
    return list(dict.fromkeys(encodings))


def _by_first(spellings: Iterable[str]) -> Spellings:
    by_first: dict[str, list[str]] = {}
    for spelling in dict.fromkeys(spellings):
        by_first.setdefault(spelling[0], []).append(spelling)
    return by_first


def _all(spellings: Spellings) -> list[str]:
    return [spelling for of_one in spellings.values() for spelling in of_one]


def _follow(text: str, start: int, form: Form) -> Followed:
    """Match a form of the key at a place in a text, in any mixture of spellings."""
    places = {start}
    for n_characters, spellings in enumerate(form):
        further = set()
        for place in places:
            if place == len(text):
                return Followed(start, place, n_characters, True)
            for spelling in spellings.get(text[place], ()):
                if text.startswith(spelling, place):
                    further.add(place + len(spelling))
                elif spelling.startswith(text[place : place + len(spelling)]):
                    return Followed(start, len(text), n_characters, True)
        if not further:
            return Followed(start, max(places), n_characters, False)
        places = further
    return Followed(start, max(places), len(form), False)
