"""Find the JSON objects of a reply that contain the code of its prompt.

The prompt contains the code only once, in the form to be filled in, and no answer contains it. So
an object with the code was written by the reviewer; other objects may be quotations. Quoted text
may contain quotation marks that end a string of the reviewer's object early. Therefore the code
must come first in its object. An object is contested if a key occurs twice in it, if its text seems
to go on as JSON after its end, or if it had to be repaired and one of its strings reads like JSON.
`council/forms.py` compares it with the form. Nothing here raises an exception; the time is linear
in the length of the reply.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from peerage.text import parts_of

Object = dict[str, Any]
Reader = Callable[[str, int], tuple[Any, int]]

# If more objects begin with the code, none counts; an object that is nested deeper is not repaired.
MAX_PLACES, MAX_DEPTH = 16, 64
GAPS, EDGES = re.compile(r"[\s\-_]+"), " *_`\"'"
LABEL_TEXT = re.compile(r"[\w ]{1,40}")
QUOTES = "\"'“”„‘’"
CLOSERS = {'"': '"', "'": "'"} | dict.fromkeys("“”„", '”“"') | dict.fromkeys("‘’", "’‘'")
WORDS = {"True": "true", "False": "false", "None": "null"}

THINKING = re.compile(r"\s*+<think(?:ing)?>", re.IGNORECASE)
END_OF_THINKING = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
FENCED = re.compile(r"(`{3,}|~{3,})[ \t]*+\w*+[ \t]*+\n(.*)\n[ \t]*+\1\s*+", re.DOTALL)
SPACE = re.compile(r"[\s\ufeff\u200b]*+")
# Comments on one line, without the characters that an object is made of.
COMMENT = re.compile(rf"(?://|#)[^\n{{}}{QUOTES}]*+(?=\n|\Z)|/\*[^\n{{}}*{QUOTES}]*+\*/")
WORD = re.compile(r"[-+\w.]++")
ESCAPE_OR_QUOTE = re.compile(r"\\(.)|\"", re.DOTALL)
STRINGS = {
    quote: re.compile(rf"{quote}((?:[^{ends}\\]|\\.)*+)[{ends}]", re.DOTALL)
    for quote, ends in CLOSERS.items()
}
# A quotation mark as it ends a string of an object, with what follows.
END_OF_STRING = re.compile(rf"[{QUOTES}]\s*+(?:[:\]}}]|,\s*+[{QUOTES}\[{{])")
# JSON after the end of an object: perhaps closing brackets, then a comma and another value.
GOES_ON = re.compile(rf"[\s}}\]]{{0,99}}+,\s{{0,99}}+[{QUOTES}{{\[]")


@dataclass(frozen=True, slots=True)
class Sealed:
    """The objects of a reply that contain its code; if there are none, `fault` gives the reason."""

    objects: tuple[Object, ...] = ()
    mended: bool = False
    fault: str = ""  # "no_code", "unreadable", "cut_off", "contested"


class Span(NamedTuple):
    """An object, its place in a reply, and the start of the next object."""

    value: Object
    start: int
    end: int
    following: int


class ContestedError(ValueError):
    """An object has two readings: a key occurs twice, or a repaired string reads like JSON."""


def fold_key(key: str) -> str:
    """Return a normalised key: "Final Ranking" and "final-ranking" are equal."""
    return key if key.isalpha() and key.islower() else GAPS.sub("_", key.strip(EDGES).casefold())


def _object(pairs: list[tuple[str, Any]]) -> Object:
    if len({fold_key(key) for key, _ in pairs}) < len(pairs):
        raise ContestedError
    return dict(pairs)


DECODER = json.JSONDecoder(object_pairs_hook=_object, strict=False)


def find_sealed(reply: str, code: str, shown: str) -> Sealed:
    """Return the objects of a reply that contain its code, or why there are none."""
    text = without_thinking(reply)
    if code not in text:
        return Sealed(fault="no_code")
    starts = _starts(text, code, '"', '"')
    is_headless = len(text) < len(reply) and not THINKING.match(reply)
    if starts or is_headless:
        spans, fault = _read_all(text, starts, _decode)
    else:
        spans, fault = _first_object(text, code)
    quotes = '"'
    if fault not in ("", "contested"):
        quotes = QUOTES
        spans, fault = _read_all(text, _starts(text, code, f"[{QUOTES}]?", f"[{QUOTES}]"), _mend)
    if fault or any(_may_go_on(text, span, quotes, shown) for span in spans):
        return Sealed(fault=fault or "contested")
    return Sealed(tuple(span.value for span in spans), mended=quotes == QUOTES)


def bare_object(reply: str, shown: str) -> Object | None:
    """Return a reply that is one object without a code as that object, or None.

    Fences and thinking are removed first. An object that also occurs in the prompt does not count:
    the reviewer may only repeat it.
    """
    text = unwrap_reply(reply)
    try:
        value, end = _decode(text, 0)
    except (ValueError, RecursionError):
        return None
    is_bare = isinstance(value, dict) and end == len(text) and "ballot" not in value
    return value if is_bare and _squeeze(text) not in _squeeze(shown) else None


def read_object(text: str, start: int) -> tuple[Any, int, str]:
    """Return the value at `start`, its end, and if it was not plain JSON, "mended" or "contested".

    Of a key that occurs twice the last one counts. Raise ValueError if there is no value.
    """
    try:
        return *_decode(text, start), ""
    except ContestedError:
        return *json.JSONDecoder(strict=False).raw_decode(text, start), "contested"
    except (ValueError, RecursionError):
        return *_mend(text, start), "mended"


def unwrap_reply(reply: str) -> str:
    """Return a reply without its thinking and without one Markdown fence around all of it."""
    text = without_thinking(reply).strip()
    fenced = FENCED.fullmatch(text)
    return fenced[2].strip() if fenced else text


def without_thinking(reply: str) -> str:
    """Return the part of a reply after its thinking; it is empty if the thinking never ends.

    The opening tag may be missing: some servers put it into the prompt.
    """
    begins = THINKING.match(reply) is not None
    ending = END_OF_THINKING.search(reply) if begins or "<think" not in reply.lower() else None
    return reply[ending.end() :] if ending else "" if begins else reply


def _starts(text: str, code: str, key_quote: str, quote: str) -> list[int]:
    """Return the places where an object begins with the code."""
    return [match.start() for match in re.finditer(opening(code, key_quote, quote), text)]


def opening(code: str, key_quote: str, quote: str) -> str:
    """Return the pattern of an object's beginning, with the code between these quotation marks."""
    begins = rf"\{{\s{{0,200}}+{key_quote}ballot{key_quote}\s{{0,9}}+:\s{{0,9}}+{quote}"
    return rf"{begins}{re.escape(code)}{quote}"


def _first_object(text: str, code: str) -> tuple[list[Span], str]:
    """Return the first object of a reply if it contains the code, but not at its beginning.

    Later objects are not used, because they may be part of a quotation.
    """
    start = max(0, text.find("{"))
    try:
        value, end = _decode(text, start)
    except (ValueError, RecursionError):
        return [], "unreadable"
    is_sealed = isinstance(value, dict) and value.get("ballot") == code
    return ([Span(value, start, end, len(text))], "") if is_sealed else ([], "unreadable")


def _read_all(text: str, starts: list[int], read: Reader) -> tuple[list[Span], str]:
    """Return the objects at these places, and a fault if the last one cannot be read."""
    if len(starts) > MAX_PLACES:
        return [], "contested"
    spans: list[Span] = []
    fault = "unreadable"
    for start, following in pairwise([*starts, len(text)]):
        try:
            value, end = read(text, start)
        except ContestedError:
            return [], "contested"
        except (ValueError, RecursionError) as error:
            fault = "cut_off" if "cut_off" in error.args else "unreadable"
            continue
        fault = ""
        spans.append(Span(value, start, end, following))
    return spans, fault


def _may_go_on(text: str, span: Span, quotes: str, shown: str) -> bool:
    """Return whether the reviewer may have meant an object to continue after its end.

    That is so if JSON follows at once, because a brace of the reviewer ended the object early. It
    is also so if a quotation in a remark did: the object's last part, from its last quotation mark
    to its last closing brackets, then occurs in the prompt, and the rest of the reviewer's text
    follows, with a quotation mark and a brace.
    """
    if GOES_ON.match(text, span.end):
        return True
    tail = text[span.end : span.following]
    quote = re.search(f"[{quotes}]", tail)
    if quote is None or "}" not in tail[quote.end() :] or not _has_remark(span.value):
        return False
    ending = text[max(text.rfind(mark, span.start, span.end) for mark in quotes) : span.end]
    return _squeeze(ending.rstrip("}] \t\r\n")) in _squeeze(shown)


def _squeeze(text: str) -> str:
    """Return a text without spaces and with only one kind of quotation mark."""
    return re.sub(f"[{QUOTES}]", '"', "".join(text.split()))


def _has_remark(value: Object) -> bool:
    """Return whether an object contains text besides its code, its decision and plain labels."""
    return any(
        isinstance(text, str) and not (name == "ranking" and LABEL_TEXT.fullmatch(text))
        for key, part in value.items()
        if (name := fold_key(key)) not in ("ballot", "approved")
        for text in parts_of(part)
    )


def _decode(text: str, start: int) -> tuple[Any, int]:
    """Return the value at a place and its end; raise ValueError if it is not JSON."""
    try:
        return DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        cut = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
        raise ValueError("cut_off" if cut else "unreadable") from None


def _mend(text: str, start: int) -> tuple[Any, int]:
    """Return the object at a place with usual mistakes repaired, and its end.

    These are: extra commas, comments, curly and single quotes, and Python's words. A string ends
    at the next quotation mark of its kind, so nothing is guessed.
    """
    pieces: list[str] = []
    depth, at = 0, start
    while True:
        at = _skip(text, at)
        if at >= len(text):
            raise ValueError("cut_off")
        piece, at = _token(text, at)
        if piece in "}]" and pieces[-1] == ",":
            pieces.pop()
        pieces.append(piece)
        depth += (piece in "{[") - (piece in "}]")
        if not 0 < depth <= MAX_DEPTH:
            break
    value, _ = DECODER.raw_decode("".join(pieces))
    return value, at


def _skip(text: str, at: int) -> int:
    """Return the place after space and comments."""
    while True:
        space = SPACE.match(text, at)
        at = space.end() if space else at
        comment = COMMENT.match(text, at)
        if comment is None:
            return at
        at = comment.end()


def _token(text: str, at: int) -> tuple[str, int]:
    """Return the next token as JSON, and its end; raise ValueError if there is none."""
    mark = text[at]
    if mark in "{}[]:,":
        return mark, at + 1
    if mark in STRINGS:
        string = STRINGS[mark].match(text, at)
        if string is None:
            raise ValueError("cut_off")
        if END_OF_STRING.search(string[1]):
            raise ContestedError
        body = string[1] if mark == '"' else ESCAPE_OR_QUOTE.sub(_requote, string[1])
        return f'"{body}"', string.end()
    word = WORD.match(text, at)
    if word is None:
        raise ValueError("unreadable")
    return WORDS.get(word[0], word[0]), word.end()


def _requote(match: re.Match[str]) -> str:
    """Return an escape or a quotation mark as JSON writes it in a string."""
    if match[1] is None:
        return '\\"'
    return "'" if match[1] == "'" else match[0]
