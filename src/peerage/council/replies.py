"""What stands on its own in a reply: its objects, without thoughts and quotations.

Thinking blocks, markdown quotations (`> …`) and fences echoed from the prompt are not the
reviewer's word, nor is an object between quotation marks. An object inside another is
never on its own, even when the outer one cannot be read, as long as it ends somewhere;
in a list, or between braces that are no object's, it is.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

from peerage.council.asides import Aside, asides, between_quotes
from peerage.council.jsonish import KEY, Broken, Object, Reader, Whole, read_strict
from peerage.council.keys import fold_key, folded

State = Literal["whole", "broken", "cut"]

VERDICT_KEYS = frozenset({"ranking", "evaluations", "scores"})
FIRST_KEYS = frozenset({"abstained", "notes"})


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
        """Whether it has a verdict's keys; in a ruin those that come before the vote are enough."""
        keys = VERDICT_KEYS if self.state == "whole" else VERDICT_KEYS | FIRST_KEYS
        return not keys.isdisjoint((*self.value, fold_key(self.open_key or "")))


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
        return _outside(self.text, [*spans, *self.hidden])


def _outside(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """The text between some spans, in lines of its own."""
    parts = []
    at = 0
    for start, end in sorted(spans):
        parts.append(text[at : max(at, start)])
        at = max(at, end)
    return "\n".join([*parts, text[at:]])


# A brace that a key follows; a comment between them is short and has no brace of its own.
COMMENTS = r"(?:(?://|\#)[^\n{]{0,200}+\n\s*+|/\*[^*{]{0,200}+\*/\s*+)*+"
OPENER = re.compile(rf"\{{(?=\s*+{COMMENTS}{KEY.pattern})")
BRACE = re.compile(r"[{}]")
# The strict reader counts lines from the top whenever it refuses, so it is not asked for ever.
MAX_REFUSED = 8
MAX_FAILED = 1000  # nobody writes a thousand broken objects before a verdict
MAX_OPEN = 64
MAX_INDENT = 200
FENCE_AND_SPACE = " \t\r\n`"


class _Search:
    """One pass over a reply, gathering what stands on its own."""

    def __init__(self, text: str, is_verdict: Callable[[Object], bool]) -> None:
        self.text = text
        self.is_verdict = is_verdict
        self.reader = Reader(text)
        self.marks = asides(text)
        self.found: list[Found] = []
        self.hidden: list[tuple[int, int]] = []
        self.at_mark = 0
        self.doubtful_from = len(text)
        self.contested = False
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
        self._settle_doubts()
        return Reply(self.text, tuple(self.found), tuple(self.hidden))

    def _settle_doubts(self) -> None:
        """Decide what a lone opening tag in the midst of a reply means for what follows it.

        In the midst of a line too, and with the only verdict at the very end, it was a word
        about a tag. Otherwise a verdict behind it may be a thought or may be meant, nobody
        can tell, and then nothing in the reply can be trusted to be its last word.
        """
        if self.doubtful_from == len(self.text):
            return
        n_sure = sum(found.start < self.doubtful_from for found in self.found)
        sure, doubtful = self.found[:n_sure], self.found[n_sure:]
        hidden_from = self.doubtful_from
        if any(found.is_like_a_verdict for found in doubtful):
            at_end = not self.text[doubtful[-1].end :].strip(FENCE_AND_SPACE)
            alone = not any(found.is_like_a_verdict for found in sure)
            if at_end and alone and not self._begins_line(self.doubtful_from):
                return
            sure, hidden_from = [], 0
        self.found = sure
        self.hidden.append((hidden_from, len(self.text)))

    def _next_mark(self, pos: int) -> Aside | None:
        while self.at_mark < len(self.marks) and self.marks[self.at_mark].start < pos:
            self.at_mark += 1
        return self.marks[self.at_mark] if self.at_mark < len(self.marks) else None

    def _heed(self, mark: Aside) -> int:
        """Pass over a thought or quotation, and return where to look on.

        A thought that only ends began with the reply. One that only begins is a thought if
        the reply began with it; later it may be a word about a tag, and is passed in doubt.
        """
        if mark.kind == "thought":
            self.found.clear()
            self.hidden = [(0, mark.end)]
        elif mark.kind == "drifts" and self._has_spoken(mark.start):
            return mark.start + 1
        else:
            self.hidden.append((mark.start, mark.end))
        return mark.end

    def _has_spoken(self, before: int) -> bool:
        """Whether the reviewer said anything before; what follows is then in doubt."""
        if (
            self.doubtful_from == len(self.text)
            and not _outside(self.text[:before], self.hidden).strip()
        ):
            return False
        self.doubtful_from = min(self.doubtful_from, before)
        return True

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
        quoted = not fenced and between_quotes(text, start, whole.end)
        value = folded(whole.value)
        self.found.append(Found(start, whole.end, value, whole.repairs, quoted=quoted))

    def _take_inside(self, broken: Broken) -> None:
        """Take what seemed to be part of something broken, if it begins a line."""
        for start, whole in broken.inside:
            if self._begins_line(start):
                self._take(start, whole)
            self._contest(whole.value)

    def _contest(self, value: Object) -> None:
        """Note a verdict inside something broken: then neither can be trusted to be the last."""
        self.contested = self.contested or self.is_verdict(folded(value))

    def _broken(self, start: int, broken: Broken) -> int:
        """Look for the end of an object that cannot be read, counting braces.

        What is found inside counts as its part if the end is there. If it never ends, it
        was no object, and what came after it stands on its own; so does what began a line
        and seemed to be a part of it.
        """
        text, n_before = self.text, len(self.found)
        self.contested = False
        self._take_inside(broken)
        starts = [found.start for found in self.found[n_before:]]
        # For each open brace, how much was found before it; -1 if it is no object's brace.
        stack = [n_before + bisect(starts, brace) for brace in broken.open_braces]
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
                    self.found.append(self._ruin(start, pos, broken, "broken"))
                    return pos
        self._keep_after(n_before, self._ruin(start, len(text), broken, "cut"))
        return len(text)

    def _ruin(self, start: int, end: int, broken: Broken, state: State) -> Found:
        """A broken object with what it said in full; nothing if another verdict was inside."""
        ruin = Found(start, end, folded(broken.value), broken.repairs, state, broken.open_key)
        if self.contested and ruin.is_like_a_verdict:
            return ruin._replace(value={}, open_key="ranking")
        return ruin

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
            self._contest(read.value)
            return read.end
        if read is None:
            stack.append(-1)
            return start + 1
        stack += [len(self.found)] * len(read.open_braces)
        self._take_inside(read)
        return read.resume

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


def objects_of(text: str, is_verdict: Callable[[Object], bool]) -> Reply:
    """The objects of a reply that are on their own, in order; in linear time."""
    return _Search(text, is_verdict).run()
