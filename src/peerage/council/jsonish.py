"""Read one JSON object as models write it: usual slips are forgiven, and each is named.

The reader does not recurse, and looks at each character a bounded number of times.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

MAX_DEPTH = 64
MAX_CACHED = 64

Object = dict[str, Any]


class RepeatedKeys(dict[str, Any]):
    """An object that has a key twice: the last value stands, and the keys are named."""

    repeated: tuple[str, ...] = ()


class Whole(NamedTuple):
    """An object read to its end, and the repairs that took."""

    value: Object
    end: int
    repairs: tuple[str, ...] = ()


class Broken(NamedTuple):
    """An object that could not be read to its end: what it said in full before that.

    Without an open brace this was no object at all, only a brace in prose. `misquoted`
    means that a string may have begun or ended somewhere else than it seemed to.
    """

    value: Object
    resume: int
    open_braces: tuple[int, ...] = ()
    open_key: str | None = None
    repairs: tuple[str, ...] = ()
    in_string: bool = False
    misquoted: bool = False


# -- keys, however they are spelled ------------------------------------------------------------

GAPS = re.compile(r"[\s\-]+")


def fold_key(key: str) -> str:
    """A key as it is compared: "Final Ranking" and "final-ranking" are one."""
    return _cached_fold(key) if len(key) <= MAX_CACHED else _fold(key)


def _fold(key: str) -> str:
    return GAPS.sub("_", key.strip(" *_`\"'").casefold())


_cached_fold = lru_cache(maxsize=4096)(_fold)


def folded(data: Mapping[Any, Any]) -> Object:
    """An object with its own keys as they are compared; what it contains stays as it is."""
    keys = [fold_key(key) for key in data if isinstance(key, str)]
    value = {fold_key(key): inner for key, inner in data.items() if isinstance(key, str)}
    if not isinstance(data, RepeatedKeys):
        return value if len(value) == len(keys) else _with_repeats(value, keys)
    told = RepeatedKeys(value)
    told.repeated = data.repeated
    return told


def key_value(data: Mapping[Any, Any], *names: str) -> Any:
    """The value under the first of these names, however it is spelled; else None."""
    for name in names:
        if name in data:
            return data[name]
    by_name = folded(data)
    return next((by_name[name] for name in names if name in by_name), None)


# -- plain JSON --------------------------------------------------------------------------------


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
CLOSER_OR_ESCAPE = {quote: re.compile(rf"[{ends}\\]") for quote, ends in CLOSERS.items()}
SLIP_BY_QUOTE = {'"': "", "'": "single_quotes", "`": "backticks"} | dict.fromkeys(
    "“”„‘’", "smart_quotes"
)
QUOTED_KEY = "|".join(
    rf"{quote}(?:[^{ends}\\\n]|\\.){{0,200}}+[{ends}]" for quote, ends in CLOSERS.items()
)
BARE_KEY = r"\w[\w.\-]{0,80}+(?: [\w.\-]{1,80}+){0,3}+"
GAP = r"\s{0,500}+"
KEY = re.compile(rf"({QUOTED_KEY}|{BARE_KEY}){GAP}:")
COMMENT = r"//|/\*|\#"
# What may follow the quote that ends a string. Any other quote is part of the text, unescaped.
AFTER_IN_OBJECT = re.compile(
    rf"{GAP}(?:\}}|\Z|{COMMENT}|,{GAP}(?:\}}|,|\Z|{COMMENT}|(?:{QUOTED_KEY}|{BARE_KEY}){GAP}:))"
    rf"|[^\S\n]{{0,500}}+\n{GAP}(?:{QUOTED_KEY}){GAP}:"
)
AFTER_IN_LIST = re.compile(rf"{GAP}(?:[\],]|\Z|{COMMENT})|\s{GAP}[\"'“‘]")
NUMBER = re.compile(
    rf"(?<![\d.])[-+]?(?:\d++\.?+\d*+|\.\d++)(?:[eE][-+]?\d++)?+"
    rf"(?={GAP}(?:[,\]}}/#]|\Z)|[^\S\n]{{0,500}}+\n)"
)
FRACTION = re.compile(rf"{GAP}/{GAP}\d")
BARE = re.compile(rf"(?:[^,\[\]{{}}\"“”\n/#]|/(?![/*])){{1,80}}+(?={GAP}(?:[,\]}}]|\Z|{COMMENT}))")
COLON = re.compile(rf"{GAP}:")
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
    """Reading cannot go on; `resume` is where it stopped."""

    def __init__(self, resume: int, *, in_string: bool = False) -> None:
        self.resume = resume
        self.in_string = in_string


class _Frame:
    """An object, or a list, that is still open; an object's pending key is in `key`."""

    __slots__ = ("full", "is_object", "items", "key", "pairs", "start")

    def __init__(self, start: int, *, is_object: bool) -> None:
        self.start = start
        self.is_object = is_object
        self.key: str | None = None
        self.pairs: list[tuple[str, Any]] = []
        self.items: list[Any] = []
        self.full = False  # a value has just ended, so a comma or the end should follow

    def put(self, value: Any) -> None:
        if self.key is None:
            self.items.append(value)
        else:
            self.pairs.append((self.key, value))
            self.key = None
        self.full = True

    def ends_in_text(self) -> bool:
        return isinstance(self.pairs[-1][1] if self.is_object else self.items[-1], str)

    def value(self) -> Object | list[Any]:
        return _pairs(self.pairs) if self.is_object else self.items


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
        root = _Frame(start, is_object=True)
        stack = [root]
        try:
            end = self._fill(stack, start + 1)
        except _Stop as stop:
            if len(stack) == 1 and not root.pairs and root.key is None:
                return Broken({}, start + 1)
            last = stack[-1]
            return Broken(
                _pairs(root.pairs),
                stop.resume,
                tuple(frame.start for frame in stack if frame.is_object),
                root.key,
                tuple(self._repairs),
                stop.in_string,
                misquoted=last.full and last.ends_in_text() and self._goes_on(stop.resume),
            )
        return Whole(_pairs(root.pairs), end, tuple(self._repairs))

    def _goes_on(self, pos: int) -> bool:
        return pos < len(self.text) and not self.text.startswith("```", pos)

    def _fill(self, stack: list[_Frame], pos: int) -> int:
        """Read until the first frame is closed; where that is."""
        text = self.text
        while True:
            pos = self._skip(pos)
            if pos >= len(text):
                raise _Stop(pos)
            frame, char = stack[-1], text[pos]
            if char in "}]":
                if (char == "}") != frame.is_object or frame.key is not None:
                    raise _Stop(pos)
                if (frame.pairs or frame.items) and not frame.full:
                    self._note("trailing_comma")
                pos += 1
                stack.pop()
                if not stack:
                    return pos
                stack[-1].put(frame.value())
            elif char == ",":
                if frame.key is not None:
                    raise _Stop(pos)
                if not frame.full:
                    self._note("extra_comma")
                frame.full = False
                pos += 1
            elif frame.full:
                if not (KEY.match(text, pos) if frame.is_object else char in STARTS):
                    raise _Stop(pos)
                self._note("missing_comma")
                frame.full = False
            elif frame.is_object and frame.key is None:
                frame.key, pos = self._key(pos)
            elif char in "{[":
                if len(stack) >= MAX_DEPTH:
                    raise _Stop(pos)
                stack.append(_Frame(pos, is_object=char == "{"))
                pos += 1
            else:
                value, pos = self._scalar(pos, frame.is_object)
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
        stop = _Stop(pos + 1, in_string=quote != "`")  # backticks are more often a code fence
        if pos < self._barren.get(barren, 0):
            raise stop
        at = pos + 1
        while True:
            end = self._closer(quote, at)
            if end and after.match(text, end):
                break
            if end is None or text.find("\n", at, end) >= 0:
                self._barren[barren] = at if end else len(text)
                raise stop
            if not in_object and COLON.match(text, end):
                raise stop  # a key, so this list has ended without its bracket
            at = end
        if at > pos + 1:
            self._note("unescaped_quotes")
        self._note(SLIP_BY_QUOTE[quote])
        body = text[pos + 1 : end - 1]
        if "\n" in body or "\t" in body:
            self._note("raw_newlines")
        return self._unescaped(body), end

    def _closer(self, quote: str, at: int) -> int | None:
        """Where the next quote that ends this kind of string ends, escaped ones passed over."""
        while match := CLOSER_OR_ESCAPE[quote].search(self.text, at):
            if match[0] != "\\":
                return match.end()
            at = match.end() + 1
        return None

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


def _number(token: str) -> int | float:
    """A number of any length; one beyond all floats is infinite, which no mark may be."""
    return float(token) if len(token) > 300 or not token.lstrip("+-").isdigit() else int(token)
