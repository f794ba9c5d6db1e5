"""Read one JSON object as models write it: usual slips are forgiven, and each is named.

Nesting is bounded, and the reader looks at each character a bounded number of times.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache, wraps
from typing import Any, NamedTuple, TypeVar

MAX_DEPTH = 64
MAX_CACHED = 64

Object = dict[str, Any]
T = TypeVar("T")


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


def cached_if_short(function: Callable[[str], T]) -> Callable[[str], T]:
    """Remember a function's results for short texts: long ones would fill the memory."""
    cached = lru_cache(maxsize=4096)(function)
    return wraps(function)(lambda text: cached(text) if len(text) <= MAX_CACHED else function(text))


@cached_if_short
def fold_key(key: str) -> str:
    """A key as it is compared: "Final Ranking" and "final-ranking" are one."""
    return GAPS.sub("_", key.strip(" *_`\"'").casefold())


def folded(data: Mapping[Any, Any]) -> Object:
    """An object with its own keys as they are compared; what it contains stays as it is."""
    value = _object([(fold_key(key), inner) for key, inner in data.items() if isinstance(key, str)])
    if isinstance(data, RepeatedKeys):
        value = RepeatedKeys(value)
        value.repeated = data.repeated
    return value


def key_value(data: Mapping[Any, Any], *names: str) -> Any:
    """The value under the first of these names, however it is spelled; else None."""
    for name in names:
        if name in data:
            return data[name]
    by_name = folded(data)
    return next((by_name[name] for name in names if name in by_name), None)


def _object(pairs: list[tuple[str, Any]]) -> Object:
    value = dict(pairs)
    if len(value) < len(pairs):
        value = RepeatedKeys(value)
        counts = Counter(key for key, _ in pairs)
        value.repeated = tuple(key for key, n in counts.items() if n > 1)
    return value


# -- plain JSON --------------------------------------------------------------------------------

STRICT = json.JSONDecoder(object_pairs_hook=_object)


def read_strict(text: str, start: int) -> Whole | None:
    """The object at `start` if it is plain JSON; this is the fast way, and nearly always enough."""
    try:
        return Whole(*STRICT.raw_decode(text, start))
    except (ValueError, RecursionError):  # not JSON, an endless integer, or nested too deeply
        return None


# -- JSON with slips ---------------------------------------------------------------------------

CLOSERS = {'"': '"', "'": "'", "`": "`"} | dict.fromkeys("“”„", '”“"') | dict.fromkeys("‘’", "’‘'")
STARTS = "{[" + "".join(CLOSERS)
TO_CLOSER = {
    quote: re.compile(rf"(?:[^{ends}\\]++|\\.)*+[{ends}]", re.DOTALL)
    for quote, ends in CLOSERS.items()
}
SLIP_BY_QUOTE = dict.fromkeys("“”„‘’", "smart_quotes") | {"'": "single_quotes", "`": "backticks"}
QUOTED_KEY = "|".join(
    rf"{quote}(?:[^{ends}\\\n]|\\.){{0,200}}+[{ends}]" for quote, ends in CLOSERS.items()
)
BARE_KEY = r"\w[\w.\-]{0,80}+(?: [\w.\-]{1,80}+){0,3}+"
GAP = r"\s{0,500}+"
KEY = re.compile(rf"({QUOTED_KEY}|{BARE_KEY}){GAP}:")
COMMENT = r"//|/\*|\#"
SPACE_AND_COMMENTS = re.compile(
    r"(?:[\s\ufeff\u200b]++|(?://|\#)[^\n]*+|/\*(?:[^*]|\*(?!/)){0,500}+\*/)*+"
)
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
STRICT_WORDS = {"true": True, "false": False, "null": None, "NaN": math.nan}
STRICT_WORDS |= {"Infinity": math.inf, "-Infinity": -math.inf}
PYTHON_WORDS = {"True": True, "False": False, "None": None}
OTHER_WORDS = {"undefined": None, "nan": math.nan, "inf": math.inf, "-inf": -math.inf}
ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\n": ""}
SURROGATE = re.compile("[\ud800-\udfff]")


class _Stop(Exception):  # noqa: N818 - no error of anyone's: reading ends here
    """Reading cannot go on; `resume` is where it stopped."""

    def __init__(self, resume: int, *, in_string: bool = False) -> None:
        self.resume = resume
        self.in_string = in_string


class Reader:
    """Reads objects from one text; what it learns about the text it does not look up twice."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._barren: dict[tuple[str, bool], int] = {}  # no string ends before here

    def read(self, start: int) -> Whole | Broken:
        """The object whose brace is at `start`."""
        self._repairs: dict[str, None] = {}
        self._open: list[int] = []  # brackets that are not closed yet
        self._root: list[tuple[str, Any]] = []
        self._root_key: str | None = None  # its value is not read yet
        self._after_text = False
        try:
            value, end = self._container(start, self._root)
        except _Stop as stop:
            if not self._root and self._root_key is None:
                return Broken({}, start + 1)
            goes_on = stop.resume < len(self.text) and not self.text.startswith("```", stop.resume)
            return Broken(
                _object(self._root),
                stop.resume,
                tuple(at for at in self._open if self.text[at] == "{"),
                self._root_key,
                tuple(self._repairs),
                stop.in_string,
                misquoted=self._after_text and goes_on,
            )
        return Whole(value, end, tuple(self._repairs))

    def _container(self, start: int, pairs: list[tuple[str, Any]]) -> tuple[Any, int]:
        """The object or list whose bracket is at `start`, and its end; fills the pairs."""
        text, is_object = self.text, self.text[start] == "{"
        self._open.append(start)
        pos, full = start + 1, False  # full: a value has just ended, a comma or the end follows
        while True:
            pos = self._skip(pos)
            char = text[pos]
            if char in "}]":
                if (char == "}") != is_object:
                    raise _Stop(pos)
                if pairs and not full:
                    self._note("trailing_comma")
                self._open.pop()
                return _object(pairs) if is_object else [value for _, value in pairs], pos + 1
            if char == ",":
                self._note("" if full else "extra_comma")
                full = self._after_text = False
                pos += 1
                continue
            if full:
                if not (KEY.match(text, pos) if is_object else char in STARTS):
                    raise _Stop(pos)
                self._note("missing_comma")
            key = ""
            self._after_text = False
            if is_object:
                key, pos = self._key(pos)
                self._root_key = key if pairs is self._root else self._root_key
                pos = self._skip(pos)
            value, pos = self._value(pos, is_object)
            pairs.append((key, value))
            full, self._after_text = True, isinstance(value, str)
            self._root_key = None if pairs is self._root else self._root_key

    def _note(self, repair: str) -> None:
        if repair:
            self._repairs[repair] = None

    def _skip(self, pos: int) -> int:
        """The next position that is neither space nor comment; reading stops at the end."""
        match = SPACE_AND_COMMENTS.match(self.text, pos)
        end = match.end() if match else pos
        if match and ("/" in match[0] or "#" in match[0]):
            self._note("comments")
        if end >= len(self.text) or self.text.startswith("/*", end):
            raise _Stop(end)
        return end

    def _key(self, pos: int) -> tuple[str, int]:
        match = KEY.match(self.text, pos)
        if match is None:
            raise _Stop(pos)
        key = match[1]
        if key[0] in CLOSERS:
            self._note(SLIP_BY_QUOTE.get(key[0], ""))
            return self._unescaped(key[1:-1]), match.end()
        self._note("unquoted_keys")
        return key, match.end()

    def _value(self, pos: int, in_object: bool) -> tuple[Any, int]:
        text = self.text
        if text[pos] in "{[":
            if len(self._open) >= MAX_DEPTH:
                raise _Stop(pos)
            return self._container(pos, [])
        if text[pos] in CLOSERS:
            return self._string(pos, in_object)
        match = NUMBER.match(text, pos)
        if match and not FRACTION.match(text, match.end()):
            return _number(match[0]), match.end()
        match = BARE.match(text, pos)
        word = match[0].strip() if match else ""
        if match is None or not word or word[0] in ":=":
            raise _Stop(pos)
        if word in STRICT_WORDS:
            return STRICT_WORDS[word], match.end()
        self._note("python_literals" if word in PYTHON_WORDS else "unquoted_values")
        return (PYTHON_WORDS | OTHER_WORDS).get(word, word), match.end()

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
            closer = TO_CLOSER[quote].match(text, at)
            end = closer.end() if closer else len(text)
            if closer and after.match(text, end):
                break
            if closer is None or text.find("\n", at, end) >= 0:
                self._barren[barren] = at if closer else end
                raise stop
            if not in_object and COLON.match(text, end):
                raise stop  # a key, so this list has ended without its bracket
            at = end
        if at > pos + 1:
            self._note("unescaped_quotes")
        self._note(SLIP_BY_QUOTE.get(quote, ""))
        body = text[pos + 1 : end - 1]
        if "\n" in body or "\t" in body:
            self._note("raw_newlines")
        return self._unescaped(body), end

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
