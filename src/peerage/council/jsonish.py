"""JSON as models write it: one object read from a text, the usual slips forgiven and named.

The reader never recurses and never looks at a character more than a few times, so a
reply of a megabyte of opening braces costs no more than a megabyte of prose.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any, NamedTuple

MAX_DEPTH = 64

Object = dict[str, Any]


class RepeatedKeys(dict[str, Any]):
    """An object that says a key twice: the last value stands, and the keys are told."""

    repeated: tuple[str, ...] = ()


class Whole(NamedTuple):
    """An object read to its end, and the repairs that took."""

    value: Object
    end: int
    repairs: tuple[str, ...] = ()


class Broken(NamedTuple):
    """Where reading stopped: what the outer object had said in full by then, and what was open.

    Without an open brace this was no object at all, only a brace in prose. The objects
    inside, with their starts, were read to their end within something that was not.
    """

    value: Object
    resume: int
    open_braces: tuple[int, ...] = ()
    inside: tuple[tuple[int, Whole], ...] = ()
    open_key: str | None = None
    repairs: tuple[str, ...] = ()


def _pairs(pairs: list[tuple[str, Any]]) -> Object:
    value = dict(pairs)
    return value if len(value) == len(pairs) else _with_repeats(value, [key for key, _ in pairs])


def _with_repeats(value: Object, keys: list[str]) -> Object:
    told = RepeatedKeys(value)
    told.repeated = tuple(key for key, n in Counter(keys).items() if n > 1)
    return told


STRICT = json.JSONDecoder(object_pairs_hook=_pairs)


def read_strict(text: str, start: int) -> Whole | None:
    """The object at `start` if it is plain JSON; this is the fast way, and nearly always enough."""
    try:
        value, end = STRICT.raw_decode(text, start)
    except (ValueError, RecursionError):  # not JSON, an endless integer, or nested too deeply
        return None
    return Whole(value, end)


# -- tokens ------------------------------------------------------------------------------------

SPACE = re.compile(r"[\s\ufeff\u200b]*+")
LINE = re.compile(r"[^\n]*+")
CLOSERS = {'"': '"', "'": "'", "`": "`"} | dict.fromkeys("“”„", '”“"') | dict.fromkeys("‘’", "’‘'")
STARTS = "{[" + "".join(CLOSERS)
TO_CLOSER = {
    quote: re.compile(rf"[^{ends}\\]*+(?:\\.[^{ends}\\]*+)*+[{ends}]", re.DOTALL)
    for quote, ends in CLOSERS.items()
}
SLIP_BY_QUOTE = {'"': "", "'": "single_quotes", "`": "backticks"} | dict.fromkeys(
    "“”„‘’", "smart_quotes"
)
QUOTED_KEY = "|".join(
    rf"{quote}(?:[^{ends}\\\n]|\\.){{0,200}}+[{ends}]" for quote, ends in CLOSERS.items()
)
BARE_KEY = r"\w[\w.\-]{0,80}+(?: [\w.\-]{1,80}+){0,3}+"
KEY = re.compile(rf"({QUOTED_KEY}|{BARE_KEY})\s*+:")
COMMENT = r"//|/\*|\#"
# What may follow the quote that ends a string. Any other quote is part of the text, unescaped.
AFTER_IN_OBJECT = re.compile(
    rf"\s*+(?:\}}|\Z|{COMMENT}|,\s*+(?:\}}|,|\Z|{COMMENT}|(?:{QUOTED_KEY}|{BARE_KEY})\s*+:))"
    rf"|[^\S\n]*+\n\s*+(?:{QUOTED_KEY})\s*+:"
)
AFTER_IN_LIST = re.compile(rf"\s*+(?:[\],]|\Z|{COMMENT})|\s++[\"'“‘]")
NUMBER = re.compile(
    r"[-+]?(?:\d++\.?+\d*+|\.\d++)(?:[eE][-+]?\d++)?+(?=\s*+(?:[,\]}/#]|\Z)|[^\S\n]*+\n)"
)
FRACTION = re.compile(r"\s*+/\s*+\d")
BARE = re.compile(rf"(?:[^,\[\]{{}}\"“”\n/#]|/(?![/*])){{1,80}}+(?=\s*+(?:[,\]}}]|\Z|{COMMENT}))")
COLON = re.compile(r"\s*+:")
WORDS: dict[str, Any] = {
    "true": True,
    "false": False,
    "null": None,
    "True": True,
    "False": False,
    "None": None,
    "undefined": None,
    "NaN": float("nan"),
    "nan": float("nan"),
    "Infinity": float("inf"),
    "-Infinity": float("-inf"),
    "inf": float("inf"),
    "-inf": float("-inf"),
}
STRICT_WORDS = {"true", "false", "null", "NaN", "Infinity", "-Infinity"}
PYTHON_WORDS = {"True", "False", "None"}
ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\n": ""}
SURROGATE = re.compile("[\ud800-\udfff]")


class _Stop(Exception):  # noqa: N818 - no error of anyone's: reading ends here
    """Reading cannot go on; `resume` is where the next look should begin."""

    def __init__(self, resume: int) -> None:
        self.resume = resume


class _Frame:
    """An object or list that is still open."""

    __slots__ = ("full", "key", "keys", "objects", "start", "value")

    def __init__(self, start: int, value: Object | list[Any]) -> None:
        self.start = start
        self.value = value
        self.key: str | None = None
        self.keys: list[str] = []
        self.objects: list[tuple[int, int, Object]] = []
        self.full = False  # a value has just ended, so a comma or the end should follow

    def put(self, value: Any) -> None:
        if isinstance(self.value, dict):
            assert self.key is not None  # noqa: S101 - a value is only read after its key
            self.value[self.key] = value
            self.keys.append(self.key)
            self.key = None
        else:
            self.value.append(value)
        self.full = True

    def finished(self) -> Object | list[Any]:
        if isinstance(self.value, dict) and len(self.value) < len(self.keys):
            return _with_repeats(self.value, self.keys)
        return self.value


class Reader:
    """Reads objects from one text; what it learns about the text it does not look up twice."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._repairs: dict[str, None] = {}
        self._barren: dict[tuple[str, bool], int] = {}  # no string ends before here
        self._no_comment_end = len(text) + 1

    def read(self, start: int) -> Whole | Broken:
        """The object whose brace is at `start`."""
        self._repairs = {}
        root = _Frame(start, {})
        stack = [root]
        try:
            end = self._fill(stack, start + 1)
        except _Stop as stop:
            assert isinstance(root.value, dict)  # noqa: S101
            braces = tuple(frame.start for frame in stack if isinstance(frame.value, dict))
            if len(stack) == 1 and not root.keys and root.key is None:
                return Broken({}, start + 1)
            repairs = tuple(self._repairs)
            inside = tuple(
                (start, Whole(value, end, repairs))
                for frame in stack
                for start, end, value in frame.objects
            )
            value = _finished_object(root)
            return Broken(value, stop.resume, braces, inside, root.key, repairs)
        return Whole(_finished_object(root), end, tuple(self._repairs))

    def _fill(self, stack: list[_Frame], pos: int) -> int:
        """Read until the first frame is closed; where that is."""
        text = self.text
        while True:
            pos = self._skip(pos)
            if pos >= len(text):
                raise _Stop(pos)
            frame, char = stack[-1], text[pos]
            is_object = isinstance(frame.value, dict)
            if char in "}]":
                if (char == "}") != is_object or frame.key is not None:
                    raise _Stop(pos)
                if frame.value and not frame.full:
                    self._note("trailing_comma")
                pos += 1
                stack.pop()
                if not stack:
                    return pos
                value = frame.finished()
                if isinstance(value, dict):
                    stack[-1].objects.append((frame.start, pos, value))
                stack[-1].put(value)
            elif char == ",":
                if frame.key is not None:
                    raise _Stop(pos)
                if not frame.full:
                    self._note("extra_comma")
                frame.full = False
                pos += 1
            elif frame.full:
                if not (KEY.match(text, pos) if is_object else char in STARTS):
                    raise _Stop(pos)
                self._note("missing_comma")
                frame.full = False
            elif is_object and frame.key is None:
                frame.key, pos = self._key(pos)
            elif char in "{[":
                if len(stack) >= MAX_DEPTH:
                    raise _Stop(pos)
                stack.append(_Frame(pos, {} if char == "{" else []))
                pos += 1
            else:
                value, pos = self._scalar(pos, is_object)
                frame.put(value)

    def _note(self, repair: str) -> None:
        if repair:
            self._repairs[repair] = None

    def _skip(self, pos: int) -> int:
        """The next position that is neither space nor comment."""
        text = self.text
        while True:
            match = SPACE.match(text, pos)
            pos = match.end() if match else pos
            if text.startswith("/*", pos):
                end = text.find("*/", pos + 2) if pos < self._no_comment_end else -1
                if end < 0:
                    self._no_comment_end = min(pos, self._no_comment_end)
                    raise _Stop(pos)
                pos = end + 2
            elif text.startswith(("//", "#"), pos):
                match = LINE.match(text, pos)
                pos = match.end() if match else len(text)
            else:
                return pos
            self._note("comments")

    def _key(self, pos: int) -> tuple[str, int]:
        match = KEY.match(self.text, pos)
        if match is None:
            raise _Stop(pos)
        key = match[1]
        if key[0] in CLOSERS:
            self._note(SLIP_BY_QUOTE[key[0]])
            return self._unescaped(key[1:-1]), match.end()
        self._note("unquoted_keys")
        return key, match.end()

    def _scalar(self, pos: int, in_object: bool) -> tuple[Any, int]:
        text = self.text
        if text[pos] in CLOSERS:
            return self._string(pos, in_object)
        match = NUMBER.match(text, pos)
        if match and not FRACTION.match(text, match.end()):
            return _number(match[0]), match.end()
        match = BARE.match(text, pos)
        if match is None:
            raise _Stop(pos)
        word = match[0].strip()
        if word in WORDS:
            if word not in STRICT_WORDS:
                self._note("python_literals" if word in PYTHON_WORDS else "unquoted_values")
            return WORDS[word], match.end()
        if not word or word[0] in ":=":
            raise _Stop(pos)
        self._note("unquoted_values")
        return word, match.end()

    def _string(self, pos: int, in_object: bool) -> tuple[str, int]:
        """A string and its end; a quote that nothing sensible follows belongs to the text.

        Such quotes are forgiven on one line only: over several, a string that was never
        closed would swallow whatever comes next.
        """
        text, quote = self.text, self.text[pos]
        after = AFTER_IN_OBJECT if in_object else AFTER_IN_LIST
        barren = (quote, in_object)
        if pos < self._barren.get(barren, 0):
            raise _Stop(pos + 1)
        at = pos + 1
        while True:
            match = TO_CLOSER[quote].match(text, at)
            if match and after.match(text, match.end()):
                break
            if match is None or text.find("\n", at, match.end()) >= 0:
                self._barren[barren] = at if match else len(text)
                raise _Stop(pos + 1)
            if not in_object and COLON.match(text, match.end()):
                raise _Stop(pos + 1)  # a key, so this list has ended without its bracket
            at = match.end()
        if at > pos + 1:
            self._note("unescaped_quotes")
        self._note(SLIP_BY_QUOTE[quote])
        body = text[pos + 1 : match.end() - 1]
        if "\n" in body or "\t" in body:
            self._note("raw_newlines")
        return self._unescaped(body), match.end()

    def _unescaped(self, body: str) -> str:
        if "\\" not in body:
            return body
        value = ESCAPE.sub(self._escape, body)
        if SURROGATE.search(value):  # two escapes may be the halves of one character
            value = value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        return value

    def _escape(self, match: re.Match[str]) -> str:
        char = match[1]
        if len(char) == 5:
            return chr(int(char[1:], 16))
        if char in ESCAPES:
            return ESCAPES[char]
        if char in "\"'\\/`“”‘’":
            return char
        self._note("stray_backslashes")
        return match[0]


def _finished_object(root: _Frame) -> Object:
    value = root.finished()
    assert isinstance(value, dict)  # noqa: S101 - a root is opened by a brace
    return value


def _number(token: str) -> int | float:
    """A number of any length; one beyond all floats is infinite, which no mark may be."""
    return float(token) if len(token) > 300 or not token.lstrip("+-").isdigit() else int(token)
