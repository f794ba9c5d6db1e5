"""A TOML file as a tree with the line of every key, which the standard parser does not keep.

The file may come from a stranger's folder, so its size, the number of its keys and their depth
are bounded before it is parsed: the parser's time grows with the square of a key's depth.
"""

from __future__ import annotations

import bisect
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from peerage.errors import KeyPath, Problem, config_error
from peerage.text import visible

MAX_BYTES = 1 << 20
MAX_TOKENS = 60_000  # names, values and marks: a full panel with every key of a seat has 50,000
MAX_DEPTH = 20  # parts of a dotted key; brackets within brackets

# Every alternative consumes what it looks at, ended or not, so that scanning is linear.
TOKEN = re.compile(
    r'''(?P<string>"""(?:[^"\\]++|\\.|"{1,2}(?!"))*+"{0,5}'''
    r"""|\'\'\'(?:[^']++|'{1,2}(?!'))*+'{0,5}"""
    r"""|"(?:[^"\\\n]++|\\.)*+"?|'[^'\n]*+'?)"""
    r"""|(?P<skip>[ \t\r]++|\#[^\n]*+)"""
    r"""|(?P<mark>[\[\]{},=.\n])"""
    r"""|(?P<word>[^\s\[\]{},=.\#"']++)""",
    re.DOTALL,
)


class TomlToken(NamedTuple):
    """A piece of TOML and the line it starts on."""

    text: str
    is_string: bool
    line: int


def read_toml(path: Path) -> tuple[dict[str, Any], dict[KeyPath, int]]:
    """The tree that a TOML file holds and the line of each key; one error if it cannot be read."""
    place = visible(str(path))
    text = _text(path, place)
    try:
        _refuse_excess(text, place)
        return tomllib.loads(text), key_lines(text)
    except tomllib.TOMLDecodeError as error:
        raise config_error([_not_toml(place, text, str(error))]) from None
    except ValueError:  # an integer of thousands of digits
        problem = Problem("it holds a number too long to be read.", place=place)
        raise config_error([problem]) from None


def _text(path: Path, place: str) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: no file can have such a name
        reason = (getattr(error, "strerror", None) or "no such name").lower()
        hint = "Leave --config and PEERAGE_CONFIG out to use the defaults."
        raise config_error([Problem(f"it cannot be read ({reason}).", hint, place=place)]) from None
    if len(raw) > MAX_BYTES:
        problem = Problem(f"it is larger than {MAX_BYTES} bytes: not settings.", place=place)
        raise config_error([problem])
    try:
        return raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        problem = Problem(
            "it is not UTF-8 text.", "Save it as UTF-8.", place=f"{place}, line {line}"
        )
        raise config_error([problem]) from None


def _refuse_excess(text: str, place: str) -> None:
    """Refuse a text whose keys are too many or too deep, before anything else looks at it."""
    n_open = n_dots = 0
    for n_tokens, token in enumerate(_tokens(text)):
        mark = token.text  # a string keeps its quotes, so it is never a mark
        n_open += (mark in ("[", "{")) - (mark in ("]", "}"))
        n_dots = n_dots + 1 if mark == "." else 0 if mark in "=[]{},\n" else n_dots
        what = "deeply nested" if max(n_open, n_dots) > MAX_DEPTH else "long"
        if what != "long" or n_tokens > MAX_TOKENS:
            at = f"{place}, line {token.line}"
            raise config_error([Problem(f"it is too {what} to be settings.", place=at)])


def _not_toml(place: str, text: str, reason: str) -> Problem:
    """The parser's complaint, its line and column moved to the place."""
    match = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", reason)
    if match is None:
        return Problem(f"it is not TOML: {reason}.", place=place)
    line = match[1] or str(text.count("\n") + 1)
    column = f", column {match[2]}" if match[2] else ""
    message = f"it is not TOML: {reason[: match.start()]}."
    return Problem(message, place=f"{place}, line {line}{column}")


# -- the line of every key ---------------------------------------------------------------------


def _tokens(text: str) -> Iterator[TomlToken]:
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    for match in TOKEN.finditer(text):
        if match.lastgroup != "skip":
            line = bisect.bisect_right(starts, match.start())
            yield TomlToken(match.group(), match.lastgroup == "string", line)


def key_lines(text: str) -> dict[KeyPath, int]:
    """Each key's and table's line in a valid TOML text, counted from 1, by its path.

    A table in an array stands in the path as its index, so the second [[seat]] is
    ("seat", 1); a table that is written twice keeps the line it was opened on.
    """
    return _Walk(text).key_lines()


class _Walk:
    """A walk over the tokens of a valid text that keeps lines and forgets values."""

    def __init__(self, text: str) -> None:
        self.tokens = _tokens(text)
        self.line_by_path: dict[KeyPath, int] = {}
        self.n_tables: dict[KeyPath, int] = {}  # how many [[…]] each array has so far
        self.now = TomlToken("\n", False, 1)

    def key_lines(self) -> dict[KeyPath, int]:
        table: KeyPath = ()
        while self.now.text:
            if self._skip("\n"):
                continue
            if self.now.text == "[":
                table = self._header()
            else:
                self._pair(table)
        return self.line_by_path

    def _next(self) -> None:
        self.now = next(self.tokens, TomlToken("", False, self.now.line))

    def _skip(self, mark: str) -> bool:
        """Whether the token at hand was this mark, which is then behind us."""
        if self.now.text != mark:  # a string keeps its quotes, so it is never a mark
            return False
        self._next()
        return True

    def _header(self) -> KeyPath:
        line = self.now.line
        self._next()
        is_array = self._skip("[")
        *parents, last = self._key()
        while self._skip("]"):
            pass
        path: KeyPath = ()
        for part in parents:
            path = self._latest((*path, part))
            self.line_by_path.setdefault(path, line)
        path = (*path, last)
        self.line_by_path.setdefault(path, line)
        if is_array:
            self.n_tables[path] = self.n_tables.get(path, 0) + 1
            path = self._latest(path)
            self.line_by_path[path] = line
        return path

    def _latest(self, path: KeyPath) -> KeyPath:
        """The path itself, or the latest table of the array that it names."""
        n = self.n_tables.get(path)
        return path if n is None else (*path, n - 1)

    def _key(self) -> list[str]:
        parts: list[str] = []
        while True:
            text = self.now.text
            parts.append(tomllib.loads(f"key = {text}")["key"] if self.now.is_string else text)
            self._next()
            if not self._skip("."):
                return parts

    def _pair(self, table: KeyPath) -> None:
        line, path = self.now.line, table
        for part in self._key():
            path = (*path, part)
            self.line_by_path.setdefault(path, line)
        self._skip("=")
        self._value(path)

    def _value(self, path: KeyPath) -> None:
        if self._skip("{"):
            while not self._skip("}"):
                if not (self._skip(",") or self._skip("\n")):
                    self._pair(path)
        elif self._skip("["):
            index = 0
            while not self._skip("]"):
                if self._skip(","):
                    index += 1
                elif not self._skip("\n"):
                    self._value((*path, index))
        else:
            while self.now.text and self.now.text not in {"\n", ",", "]", "}"}:
                self._next()
