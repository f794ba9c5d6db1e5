"""Strike a seat's key out of text that a provider gave us, and make that text valid Unicode.

An endpoint knows the key it was sent and may repeat it: in an error, in a header it quotes,
even in an answer. Text is redacted whole, before anything is cut from it, because half of a
key would no longer be recognised and is still half of a key.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from html import escape
from typing import NamedTuple

MARK = "[key]"
MIN_KEY_CHARACTERS = 8  # a shorter "key" (none, test, ollama) is a word that answers may use
MAX_MESSAGE_CHARACTERS = 300
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")

Spellings = Mapping[str, list[str]]  # of one character of the key, by what they begin with
Form = tuple[Spellings, ...]
ESCAPES = ("%", "\\", "&")


class Followed(NamedTuple):
    """How far a text follows a form of the key."""

    start: int
    end: int
    n_characters: int  # of the key
    is_open: bool  # it leaves the form because the text ends, not because they differ


class Redactor:
    """Strikes one key out of texts, in every form in which a server may repeat it.

    Each character of the key may be plain, in either case, or escaped as in JSON, a URL or
    HTML, once or twice; and the whole may be in hexadecimal or in base64, alone or as a
    part of something longer, such as the `user:key` of basic authentication.
    """

    def __init__(self, key: str | None) -> None:
        self._literals: list[str] = []
        self._forms_by_first: dict[str, list[Form]] = {}
        self._longest = 0  # of the forms, in characters
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
        """The text, valid Unicode, without the key and without one that breaks off at its end."""
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
        """A message fit for a log and a person: one short line without the key."""
        line = " ".join(CONTROL.sub(" ", self.redact(text)).split())
        if len(line) <= MAX_MESSAGE_CHARACTERS:
            return line
        return line[: MAX_MESSAGE_CHARACTERS - 1] + "…"

    def settled(self, text: str) -> tuple[str, str]:
        """The text redacted as far as it can be told apart from a key, and the rest as it is."""
        struck, rest = self._strike(text)
        end = len(rest)
        if "\ud800" <= rest[-1:] <= "\udbff":  # the other half may be in the next piece
            end -= 1
        for start in range(max(0, end - self._longest), end):
            forms = self._forms_by_first.get(rest[start])
            if forms and any(_follow(rest, start, form).is_open for form in forms):
                end = start
                break
        return well_formed(struck + rest[:end]), rest[end:]

    def _strike(self, text: str) -> tuple[str, str]:
        """The text up to the last key in it, without keys or first halves of it; and the rest."""
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
        """Where the first characters of the key are, and how far the text goes on with it."""
        if not self._form or not (
            any(sign in text for sign in ESCAPES) or self._plain_start in text.lower()
        ):
            return
        while match := self._start.search(text, place):
            yield _follow(text, match.start(), self._form)
            place = match.start() + 1


class RedactedStream:
    """Passes the pieces of a text on without the key, even where it is split over pieces."""

    def __init__(self, redactor: Redactor, tell: Callable[[str], None]) -> None:
        self._redactor = redactor
        self._tell = tell
        self._undecided = ""

    def feed(self, piece: str) -> None:
        """Tell what is certainly no part of the key; hold the rest back until more is known."""
        text, self._undecided = self._redactor.settled(self._undecided + piece)
        if text:
            self._tell(text)

    def end(self) -> None:
        """Tell what was held back: no more is coming."""
        rest, self._undecided = self._redactor.redact(self._undecided), ""
        if rest:
            self._tell(rest)


def well_formed(text: str) -> str:
    """The text without lone surrogates, which JSON can carry and no encoding can write."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _spellings(character: str) -> list[str]:
    """The ways to write one character of a key: plain, escaped, and escaped twice."""
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
    """The key in hexadecimal and in base64, in the latter at each place within three bytes."""
    encodings = [key.hex(), key.hex().upper()]
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for n_before in range(3):
            text = encode(bytes(n_before) + key).decode()
            first = -(-n_before * 8 // 6)  # what the bytes before or after have a part in is left
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
    """Follow a form from a place in a text, by every spelling at once."""
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
