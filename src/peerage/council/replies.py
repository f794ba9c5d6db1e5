"""What stands on its own in a reply: its objects, without thoughts and quotations.

Thinking blocks, markdown quotations (`> …`) and fences echoed from the prompt are not the
reviewer's word, nor is an object between quotation marks. An object inside another is
never on its own, even when the outer one cannot be read, as long as it ends somewhere.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from peerage.council.jsonish import KEY, Broken, Object, Reader, RepeatedKeys, Whole, read_strict

State = Literal["whole", "broken", "cut"]

VERDICT_KEYS = frozenset({"ranking", "evaluations", "scores"})


class Found(NamedTuple):
    """An object of the reply: whole, or broken (it ends, but not as JSON), or cut off."""

    start: int
    end: int
    value: Object
    repairs: tuple[str, ...] = ()
    state: State = "whole"
    open_key: str | None = None
    quoted: bool = False

    @property
    def is_like_a_verdict(self) -> bool:
        return not VERDICT_KEYS.isdisjoint((*self.value, fold_key(self.open_key or "")))


class Reply(NamedTuple):
    """A reply's own objects in order, and the spans in which nothing is the reviewer's word."""

    text: str
    objects: tuple[Found, ...]
    hidden: tuple[tuple[int, int], ...]

    def prose(self) -> str:
        """The text outside objects, thoughts and quotations."""
        spans = [
            (found.start, found.end)
            for found in self.objects
            if found.state != "cut" or found.is_like_a_verdict
        ]
        parts = []
        at = 0
        for start, end in sorted([*spans, *self.hidden]):
            parts.append(self.text[at : max(at, start)])
            at = max(at, end)
        return "\n".join([*parts, self.text[at:]])


def fold_key(key: str) -> str:
    """A key as it is compared: "Final Ranking" and "final-ranking" are one."""
    return _folded(key) if len(key) <= MAX_CACHED else _fold(key)


def _fold(key: str) -> str:
    return KEY_GAPS.sub("_", key.strip(" *_`\"'").casefold())


def folded(data: Mapping[Any, Any]) -> Object:
    """An object with its own keys as they are compared; what it contains stays as it is."""
    value = {fold_key(key): inner for key, inner in data.items() if isinstance(key, str)}
    if not isinstance(data, RepeatedKeys):
        return value
    told = RepeatedKeys(value)
    told.repeated = data.repeated
    return told


KEY_GAPS = re.compile(r"[\s\-]+")
MAX_CACHED = 64
_folded = lru_cache(maxsize=4096)(_fold)


# -- what is not the reviewer's word -----------------------------------------------------------

MENTION = "\"'`“”‘’"
TAG = re.compile(r"<(/?)(?:think|thinking|thought|reasoning)>", re.IGNORECASE)
BRACKET_TAG = re.compile(r"\[(/?)THINK\]")
FENCE = re.compile(r"\[(BEGIN|END) ([^\[\]\n]{1,200})\]")
QUOTATION = re.compile(r"^[ \t]{0,20}+>[^\n]*+", re.MULTILINE)


class _Mark(NamedTuple):
    """A place where the reviewer stops or resumes speaking."""

    start: int
    end: int
    kind: Literal["thinks", "thought", "quotes"]


def _marks(text: str) -> list[_Mark]:
    marks: list[_Mark] = []
    if "<" in text:
        marks += _tags(text, TAG)
    if "THINK]" in text:
        marks += _tags(text, BRACKET_TAG)
    if "[BEGIN " in text:
        marks += _fences(text)
    if ">" in text:
        marks += [_Mark(m.start(), m.end(), "quotes") for m in QUOTATION.finditer(text)]
    marks.sort(key=lambda mark: mark.start)
    return marks


def _tags(text: str, tag: re.Pattern[str]) -> list[_Mark]:
    """Thinking tags; an opening one reaches to the next closing one, or to the end.

    A tag between quotation marks is spoken about, not used.
    """
    tags = [
        (m.start(), m.end(), bool(m[1]))
        for m in tag.finditer(text)
        if not _between_quotes(text, m.start(), m.end())
    ]
    marks: list[_Mark] = []
    end = len(text)
    for start, stop, closes in reversed(tags):
        if closes:
            marks.append(_Mark(start, stop, "thought"))
            end = stop
        else:
            marks.append(_Mark(start, end, "thinks"))
    return marks


def _between_quotes(text: str, start: int, end: int) -> bool:
    return start > 0 and end < len(text) and text[start - 1] in MENTION and text[end] in MENTION


def _fences(text: str) -> list[_Mark]:
    """Blocks of the prompt that the reply repeats, from [BEGIN x] to the next [END x]."""
    ends: dict[str, list[tuple[int, int]]] = defaultdict(list)
    marks: list[_Mark] = []
    for match in reversed(list(FENCE.finditer(text))):
        if match[1] == "END":
            ends[match[2]].append((match.start(), match.end()))
        elif ends[match[2]]:
            marks.append(_Mark(match.start(), ends[match[2]][-1][1], "quotes"))
    return marks


# -- objects -----------------------------------------------------------------------------------

# A brace that a key follows; a comment between them is short and has no brace of its own.
COMMENTS = r"(?:(?://|\#)[^\n{]{0,200}+\n\s*+|/\*[^*{]{0,200}+\*/\s*+)*+"
OPENER = re.compile(rf"\{{(?=\s*+{COMMENTS}{KEY.pattern})")
BRACE = re.compile(r"[{}]")
# The strict reader counts lines from the top whenever it refuses, so it is not asked for ever.
MAX_REFUSED = 8
MAX_FAILED = 1000  # nobody writes a thousand broken objects before a verdict
MAX_OPEN = 64
MAX_INDENT = 200


class _Search:
    """One pass over a reply, gathering what stands on its own."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.reader = Reader(text)
        self.marks = _marks(text)
        self.found: list[Found] = []
        self.hidden: list[tuple[int, int]] = []
        self.at_mark = 0
        self.n_refused = 0
        self.n_failed = 0

    def run(self) -> Reply:
        pos, here = 0, -1
        while pos < len(self.text):
            if here < pos:
                opener = OPENER.search(self.text, pos)
                here = opener.start() if opener else len(self.text)
            mark = self._next_mark(pos)
            if mark and mark.start <= here:
                pos = self._heed(mark)
            elif here < len(self.text):
                pos = self._object(here)
            else:
                break
        return Reply(self.text, tuple(self.found), tuple(self.hidden))

    def _next_mark(self, pos: int) -> _Mark | None:
        while self.at_mark < len(self.marks) and self.marks[self.at_mark].start < pos:
            self.at_mark += 1
        return self.marks[self.at_mark] if self.at_mark < len(self.marks) else None

    def _heed(self, mark: _Mark) -> int:
        """Pass over a thought or quotation; a thought that only ends began with the reply."""
        if mark.kind == "thought":
            self.found.clear()
            self.hidden = [(0, mark.end)]
        else:
            self.hidden.append((mark.start, mark.end))
        return mark.end

    def _object(self, start: int) -> int:
        """Take the object at `start`, and return where to look on."""
        read: Whole | Broken | None = None
        if self.n_refused < MAX_REFUSED:
            read = read_strict(self.text, start)
            self.n_refused += read is None
        read = read or self._read(start)
        if isinstance(read, Whole):
            self._take(start, read)
            return read.end
        return self._broken(start, read) if read else start + 1

    def _read(self, start: int) -> Whole | Broken | None:
        """What the tolerant reader makes of a brace; None where it is no object at all."""
        if self.n_failed >= MAX_FAILED:
            return None
        read = self.reader.read(start)
        if isinstance(read, Whole):
            return read
        self.n_failed += 1
        return read if read.open_braces else None

    def _take(self, start: int, whole: Whole) -> None:
        text = self.text
        fenced = start >= 3 and text.startswith("```", start - 3)
        quoted = not fenced and _between_quotes(text, start, whole.end)
        value = folded(whole.value)
        self.found.append(Found(start, whole.end, value, whole.repairs, quoted=quoted))

    def _broken(self, start: int, broken: Broken) -> int:
        """Look for the end of an object that cannot be read, counting braces.

        What is found inside counts as its part if the end is there. If it never ends, it
        was no object, and what came after it stands on its own.
        """
        text, n_before = self.text, len(self.found)
        root = Found(start, len(text), folded(broken.value), broken.repairs, "cut", broken.open_key)
        # For each open brace, how much was found before it; -1 if it is no object's brace.
        stack = [n_before] * len(broken.open_braces)
        pos, here = broken.resume, -1
        while pos < len(text):
            if here < pos:
                brace = BRACE.search(text, pos)
                here = brace.start() if brace else len(text)
            mark = self._next_mark(pos)
            if mark and mark.start < here:
                pos = self._heed(mark)
                if mark.kind == "thought":
                    return pos
            elif here == len(text):
                break
            elif text[here] == "{":
                pos = self._inner(here, stack)
            else:
                pos = here + 1
                n_found = stack.pop()
                if n_found >= 0:
                    del self.found[n_found:]
                if not stack:
                    self.found.append(root._replace(end=pos, state="broken"))
                    return pos
        self._keep_after(n_before, root)
        return len(text)

    def _inner(self, start: int, stack: list[int]) -> int:
        """Take an object inside something broken, or note the brace.

        In a tangle of open braces only an object that begins a line is worth reading.
        """
        read = None
        opens = OPENER.match(self.text, start)
        if opens and (len(stack) < MAX_OPEN or self._begins_line(start)):
            read = self._read(start)
        if isinstance(read, Whole):
            self._take(start, read)
            return read.end
        stack += [-1] if read is None else [len(self.found)] * len(read.open_braces)
        return start + 1 if read is None else read.resume

    def _keep_after(self, n_before: int, root: Found) -> None:
        """Put an object without end before what was found in it.

        Where it reads like a verdict, a quotation in its notes may look like an object:
        only what begins a line is then taken for one.
        """
        inside = self.found[n_before:]
        if root.is_like_a_verdict:
            inside = [found for found in inside if self._begins_line(found.start)]
        if inside:
            root = root._replace(end=inside[0].start)
        self.found[n_before:] = [root, *inside]

    def _begins_line(self, start: int) -> bool:
        nearby = self.text[max(start - MAX_INDENT, 0) : start]
        indent = nearby[nearby.rfind("\n") + 1 :]
        return not indent.strip() and len(indent) < MAX_INDENT


def objects_of(text: str) -> Reply:
    """The objects of a reply that are on their own, in order; in linear time."""
    return _Search(text).run()
