"""The line of every key in a TOML text, which the standard parser does not keep."""

from __future__ import annotations

import bisect
import re
import tomllib
from collections.abc import Iterator

KeyPath = tuple[str | int, ...]

TOKEN = re.compile(
    r'''(?P<string>"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?'{3,5}|"(?:\\.|[^"\\\n])*"|'[^'\n]*')'''
    r"""|(?P<skip>[ \t\r]+|#[^\n]*)"""
    r"""|(?P<mark>[\[\]{},=.\n])"""
    r"""|(?P<word>[^\s\[\]{},=.#"']+)""",
    re.DOTALL,
)


def lines(text: str) -> dict[KeyPath, int]:
    """Each key's and table's line, counted from 1, by its path.

    The text must already have parsed: a table in an array stands in the path as its
    index, so the second [[seat]] is ("seat", 1), and a table that is written twice
    keeps the line it was opened on.
    """
    return _Reader(text).read()


class _Reader:
    """A walk over the tokens of a valid text; it keeps lines and forgets values."""

    def __init__(self, text: str) -> None:
        self.starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self.tokens = self._tokens(text)
        self.found: dict[KeyPath, int] = {}
        self.n_tables: dict[KeyPath, int] = {}  # how many [[…]] each array has so far
        self.now, self.quoted, self.line = "\n", False, 1

    def _tokens(self, text: str) -> Iterator[tuple[str, bool, int]]:
        for match in TOKEN.finditer(text):
            if match.lastgroup != "skip":
                line = bisect.bisect_right(self.starts, match.start())
                yield match.group(), match.lastgroup == "string", line

    def _next(self) -> None:
        self.now, self.quoted, self.line = next(self.tokens, ("", False, self.line))

    def _skip(self, mark: str) -> bool:
        """Whether the next token was this mark, which is then behind us."""
        if self.quoted or self.now != mark:
            return False
        self._next()
        return True

    def read(self) -> dict[KeyPath, int]:
        table: KeyPath = ()
        while self.now or self.quoted:
            if self._skip("\n"):
                continue
            if not self.quoted and self.now == "[":
                table = self._header()
            else:
                self._pair(table)
        return self.found

    def _header(self) -> KeyPath:
        line = self.line
        self._next()
        is_array = self._skip("[")
        *parents, last = self._key()
        while self._skip("]"):
            pass
        path: KeyPath = ()
        for part in parents:
            path = self._inside((*path, part))
            self.found.setdefault(path, line)
        path = (*path, last)
        self.found.setdefault(path, line)
        if is_array:
            self.n_tables[path] = self.n_tables.get(path, 0) + 1
            path = self._inside(path)
            self.found[path] = line
        return path

    def _inside(self, path: KeyPath) -> KeyPath:
        """The path itself, or the latest table of the array that it names."""
        n = self.n_tables.get(path)
        return path if n is None else (*path, n - 1)

    def _key(self) -> list[str]:
        parts: list[str] = []
        while True:
            parts.append(tomllib.loads(f"key = {self.now}")["key"] if self.quoted else self.now)
            self._next()
            if not self._skip("."):
                return parts

    def _pair(self, table: KeyPath) -> None:
        line, path = self.line, table
        for part in self._key():
            path = (*path, part)
            self.found.setdefault(path, line)
        self._skip("=")
        self._value(path)

    def _value(self, path: KeyPath) -> None:
        if self._skip("{"):
            self.found.setdefault(path, self.line)
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
            while self.now and (self.quoted or self.now not in {"\n", ",", "]", "}"}):
                self._next()
