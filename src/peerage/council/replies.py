"""Find the last verdict of a reply: one walk for ballots and for decisions.

The last object on its own that reads like a verdict is the reviewer's word. Thoughts,
quotations of any kind, repeated parts of the prompt and objects inside other objects are
not. Where it cannot be told whose word an object is, it is doubtful: it still hides what
came before it, so a doubtful or unreadable last verdict is an abstention.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Literal, NamedTuple

from peerage.council.jsonish import (
    KEY,
    Broken,
    Object,
    Reader,
    Whole,
    fold_key,
    folded,
    read_strict,
)

MAX_REPLY_CHARACTERS = 256_000
# The strict reader counts lines from the top whenever it refuses, so it is not asked for ever.
MAX_REFUSED = 8
MAX_REREAD_CHARACTERS = 1_000_000  # by the tolerant reader, in objects that then did not end
MAX_INDENT = 200
MAX_CONTEXT = 300
FENCE_AND_SPACE = " \t\r\n`"

Standing = Literal["own", "quoted", "doubtful"]


class Shape(NamedTuple):
    """What a verdict looks like: its keys, and those that a cut-off one may show before them."""

    keys: frozenset[str]
    first_keys: frozenset[str]
    is_verdict: Callable[[Object], bool]


class Found(NamedTuple):
    """An object of the reply: whole, or broken (it ends, but not as JSON), or cut off."""

    start: int
    end: int
    value: Object
    repairs: tuple[str, ...] = ()
    state: Literal["whole", "broken", "cut"] = "whole"
    standing: Standing = "own"
    is_ruined_verdict: bool = False
    context: str = ""  # the clauses right before and behind it


class Reply(NamedTuple):
    """A reply's objects in order, and the spans in which nothing is the reviewer's word."""

    text: str
    objects: tuple[Found, ...]
    hidden: tuple[tuple[int, int], ...]
    shape: Shape

    @property
    def verdicts(self) -> list[Found]:
        """The objects that are verdicts or the ruins of verdicts, quoted ones included."""
        is_verdict = self.shape.is_verdict
        return [f for f in self.objects if f.is_ruined_verdict or is_verdict(f.value)]

    def prose(self) -> str:
        """The text outside objects, thoughts and quotations."""
        spans = [(f.start, f.end) for f in self.objects if f.state != "cut" or f.is_ruined_verdict]
        parts = (self.text[start:end] for start, end in _gaps(self.text, [*spans, *self.hidden]))
        return "\n".join(parts)


def valid_text(text: str) -> str:
    """A text with U+FFFD in place of half characters, which no store or page can hold."""
    if text.isascii() or not SURROGATE.search(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _gaps(text: str, spans: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    at = 0
    for start, end in sorted(spans):
        yield at, max(at, start)
        at = max(at, end)
    yield at, len(text)


SURROGATE = re.compile("[\ud800-\udfff]")

# -- what is not the reviewer's word ------------------------------------------------------------

THINK_TAG = re.compile(
    r"(?:<|&lt;)(/?)(?:think|thinking|thought|reasoning)(?:>|&gt;)", re.IGNORECASE
)
BRACKET_TAG = re.compile(r"\[(/?)THINK\]")
# In pairs, the same name at both ends: fences of our prompt, quotations in HTML and BBCode.
BLOCK = re.compile(
    r"\[(?P<fence>BEGIN|END) (?P<title>[^\[\]\n]{1,200})\]"
    r"|(?:[<\[]|&lt;)(?P<slash>/?)(?P<tag>blockquote|quote|cite|q)"
    r"(?:[ =][^<>\[\]\n]{0,200}?)?(?:[>\]]|&gt;)",
    re.IGNORECASE,
)
QUOTATION = re.compile(r"^[ \t]{0,20}+(?:>|&(?:amp;){0,3}gt;)[^\n]*+", re.MULTILINE)
CODE_FENCE = re.compile(r"^[ \t]{0,20}+(?:```|~~~)[`~]*+([^\n`]{0,200})$", re.MULTILINE)
QUOTING = re.compile(
    r"quot|cit(?:e|ation)|excerpt|example|candidate|response|answer|injected|untrusted|zitat",
    re.IGNORECASE,
)
# Opening marks with what closes them.
QUOTES = {"„": "“”", "“": "”", "‟": "”", "”": "”", "‚": "‘’", "‘": "’", "〝": "〞〟", "❝": "❞"}
QUOTES |= {"«": "»", "»": "«", "‹": "›", "›": "‹", "「": "」", "『": "』", "《": "》", "〈": "〉"}
QUOTES |= {"＂": "＂", "｢": "｣", "❮": "❯", "⟪": "⟫", "`": "`"}
MARKS = "".join(sorted({*QUOTES, *"".join(QUOTES.values())}))
QUOTE_MARK = re.compile(rf"`{{1,64}}+|[{MARKS}]")
MENTION = MARKS + "'\""
STRAIGHT = re.compile('"')
BLANK_LINE = re.compile(r"\n[ \t\r]{0,200}+\n")
ATTRIBUTED = re.compile(
    r"\b(?:(?i:response|answer|candidate|option|submission|model|assistant|author|text|it|they)"
    r"|[A-HJ-Z]{1,2})\b[^.;!?\n]{0,60}\b(?i:wrote|writes|written|says?|said|states?|claims?"
    r"|contains?|includes?|reads|ends|begins|tells?|told|instructs?|asks?|demands?|quotes?"
    r"|embeds?|injects?|suggests?|proposes?|wants?)\b"
)
CLAUSE_END = re.compile(r"[.;!?\n]")


class _Aside(NamedTuple):
    """A place where the reviewer stops or resumes speaking."""

    start: int
    end: int
    kind: Literal["thinks", "thought", "drifts", "quotes"]


def _asides(text: str) -> list[_Aside]:
    """Every place where something else than the reviewer's word begins or ends, in order."""
    marks = [*_tags(text, THINK_TAG)] if "<" in text or "&lt;" in text else []
    if "[" in text:
        marks += _tags(text, BRACKET_TAG)
    if "[" in text or "<" in text or "&lt;" in text:
        marks += _blocks(text)
    if ">" in text or "gt;" in text:
        marks += [_Aside(m.start(), m.end(), "quotes") for m in QUOTATION.finditer(text)]
    fences = list(CODE_FENCE.finditer(text))
    for opening, closing in pairwise(fences):
        if QUOTING.search(opening[1]) and not closing[1].strip():
            marks.append(_Aside(opening.start(), closing.end(), "quotes"))
    marks.sort(key=lambda mark: mark.start)
    return marks


def _tags(text: str, tag: re.Pattern[str]) -> Iterator[_Aside]:
    """Thinking tags: an opening one reaches to the next closing one, or drifts to the end.

    A tag between quotation marks is spoken about, not used.
    """
    end: int | None = None
    for match in reversed(list(tag.finditer(text))):
        start, stop = match.span()
        if _between_quotes(text, start, stop):
            continue
        if match[1]:
            yield _Aside(start, stop, "thought")
            end = stop
        elif end is None:
            yield _Aside(start, len(text), "drifts")
        else:
            yield _Aside(start, end, "thinks")


def _blocks(text: str) -> Iterator[_Aside]:
    """Blocks that end under the name they began with; the inner ones are part of the outer."""
    ends: dict[str, list[int]] = defaultdict(list)
    for match in reversed(list(BLOCK.finditer(text))):
        name = match["title"] or match["tag"].casefold()
        if match["slash"] or (match["fence"] or "").upper() == "END":
            ends[name].append(match.end())
        elif ends[name]:
            end = ends[name].pop() if match["tag"] else ends[name][-1]
            yield _Aside(match.start(), end, "quotes")


def _between_quotes(text: str, start: int, end: int) -> bool:
    """Whether a quotation mark or backtick stands right before and right after a span."""
    return start > 0 and end < len(text) and text[start - 1] in MENTION and text[end] in MENTION


# -- the walk over a reply's objects ------------------------------------------------------------

# A brace that a key follows; a comment between them is short and has no brace of its own.
COMMENTS = r"(?:(?://|\#)[^\n{]{0,200}+\n\s{0,200}+|/\*[^*{]{0,200}+\*/\s{0,200}+)*+"
OPENER = re.compile(rf"\{{(?=\s{{0,1000}}+{COMMENTS}{KEY.pattern})")
LINE_OPENER = re.compile(r"\n[ \t]{0,200}+\{")
BRACE = re.compile(r"[{}]")
VOTE_KEY = re.compile(r"[\"'“”](?:ranking|approved)[\"'“”]\s{0,20}+:", re.IGNORECASE)


class _Walk:
    """One pass over a reply, gathering what stands on its own."""

    def __init__(self, text: str, shape: Shape) -> None:
        self.text = text
        self.shape = shape
        self.reader = Reader(text)
        self.marks = _asides(text)
        self.at_mark = 0
        self.found: list[Found] = []
        self.hidden: list[tuple[int, int]] = []
        self.drifts_from = len(text)
        self.n_refused = 0
        self.reread = 0
        self.closing: dict[int, int] | None = None  # by opening brace, made when first needed
        self.votes: list[int] = []
        self._forget_ruins()

    def _forget_ruins(self) -> None:
        """No object without end so far, so nothing is in doubt for being inside one."""
        self.parts: set[int] = set()  # braces that such an object had opened
        self.all_doubtful = False
        self.own_until = 0  # up to here such an object of the reviewer's own could be read
        self.any_until = 0
        self.after_verdict = False

    def run(self) -> Reply:
        pos, here = 0, -1
        while pos < len(self.text):
            if here < pos:
                opener = OPENER.search(self.text, pos)
                here = opener.start() if opener else len(self.text)
            while self.at_mark < len(self.marks) and self.marks[self.at_mark].start < pos:
                self.at_mark += 1
            mark = self.marks[self.at_mark] if self.at_mark < len(self.marks) else None
            if mark and mark.start <= here:
                pos = self._heed(mark)
            elif here < len(self.text):
                pos = self._object(here)
            else:
                break
        self._settle_drift()
        found = _with_standing(self.text, self.found, self.hidden)
        return Reply(self.text, tuple(found), tuple(self.hidden), self.shape)

    def _heed(self, mark: _Aside) -> int:
        """Pass over a thought or quotation, and return where to look on.

        A thought that only ends began with the reply. One that only begins is a thought if
        the reply began with it; later it may be a word about a tag, and is passed in doubt.
        """
        if mark.kind == "thought":
            if self.own_until or self.after_verdict:  # the tag may be in a string of a verdict
                self.all_doubtful = True
            else:
                self.found.clear()
                self.hidden = [(0, mark.end)]
                self._forget_ruins()
        elif mark.kind == "drifts" and self._has_spoken(mark.start):
            return mark.start + 1
        else:
            self.hidden.append((mark.start, mark.end))
        return mark.end

    def _has_spoken(self, before: int) -> bool:
        if self.drifts_from == len(self.text):
            gaps = _gaps(self.text[:before], self.hidden)
            if not any(self.text[start:end].strip() for start, end in gaps):
                return False
        self.drifts_from = min(self.drifts_from, before)
        return True

    def _settle_drift(self) -> None:
        """Decide what a lone opening tag in the midst of a reply means for what follows it.

        In the midst of a line too, and with the only verdict at the very end, it was a word
        about a tag. Otherwise a verdict behind it may be a thought or may be meant.
        """
        if self.drifts_from == len(self.text):
            return
        verdicts = Reply(self.text, tuple(self.found), (), self.shape).verdicts
        doubtful = [found for found in verdicts if found.start > self.drifts_from]
        at_end = doubtful and not self.text[doubtful[-1].end :].strip(FENCE_AND_SPACE)
        if at_end and len(doubtful) == len(verdicts) and not self._begins_line(self.drifts_from):
            return
        if doubtful:
            self.found, self.hidden = [], [(0, len(self.text))]
        else:
            self.found = [found for found in self.found if found.start < self.drifts_from]
            self.hidden.append((self.drifts_from, len(self.text)))

    def _object(self, start: int) -> int:
        """Take the object at `start`, and return where to look on."""
        if start in self.parts:
            return start + 1
        read: Whole | Broken | None = None
        if self.n_refused < MAX_REFUSED:
            read = read_strict(self.text, start)
            self.n_refused += read is None
        if read is None and self.reread > MAX_REREAD_CHARACTERS:
            self.all_doubtful = True
            return start + 1
        read = read or self.reader.read(start)
        if isinstance(read, Whole):
            standing: Standing = "doubtful" if self._is_in_a_ruin(start) else "own"
            value = folded(read.value)
            self.found.append(Found(start, read.end, value, read.repairs, standing=standing))
            return read.end
        self.reread += read.resume - start
        return self._ruin(start, read) if read.open_braces else start + 1

    def _is_in_a_ruin(self, start: int) -> bool:
        """Whether an object may be part of an earlier one that never ended."""
        if self.all_doubtful or start < self.own_until:
            return True
        if start < self.any_until:  # what is indented there is a part of it
            return start == 0 or self.text[start - 1] != "\n"
        return self.after_verdict and not self._begins_line(start)

    def _ruin(self, start: int, broken: Broken) -> int:
        """Note an object that cannot be read, and return where to look on.

        Where its braces end, all between them is its part. Otherwise what follows may be.
        """
        text = self.text
        value = folded(broken.value)
        keys = self.shape.keys | self.shape.first_keys
        is_like = not keys.isdisjoint((*value, fold_key(broken.open_key or "")))
        begins_line = self._begins_line(start)
        inside = self._is_in_a_ruin(start)
        end = self._closing(start)
        n_votes = self._n_votes(start, end or len(text))
        is_like = is_like or self._n_votes(start, broken.resume) > 0
        if broken.misquoted or n_votes > 1:
            value = {}  # some of it may have been said in a string
        is_own = begins_line and not inside
        self.found.append(
            Found(
                start,
                end or max(broken.resume, start + 1),
                value,
                broken.repairs,
                "broken" if end else "cut",
                "own" if is_own else "doubtful",
                n_votes > 0 or (is_like and (begins_line or not inside)),
            )
        )
        if end:
            return end
        self.parts.update(broken.open_braces)
        self.all_doubtful |= broken.in_string and (is_like or begins_line)
        self.any_until = max(self.any_until, broken.resume)
        self.after_verdict |= is_like
        if begins_line:
            self.own_until = max(self.own_until, broken.resume)
        again = LINE_OPENER.search(text, start + 1, broken.resume)
        next_look = again.end() - 1 if again else max(broken.resume, start + 1)
        aside = self.marks[self.at_mark].start if self.at_mark < len(self.marks) else len(text)
        return min(next_look, max(aside, start + 1))

    def _closing(self, start: int) -> int | None:
        """Where the brace at `start` is closed, counting every brace; None if nowhere."""
        if self.closing is None:
            self.closing = {}
            self.votes = [match.start() for match in VOTE_KEY.finditer(self.text)]
            stack: list[int] = []
            for match in BRACE.finditer(self.text):
                if match[0] == "{":
                    stack.append(match.start())
                elif stack:
                    self.closing[stack.pop()] = match.end()
        return self.closing.get(start)

    def _n_votes(self, start: int, end: int) -> int:
        return bisect_left(self.votes, end) - bisect_left(self.votes, start)

    def _begins_line(self, start: int) -> bool:
        nearby = self.text[max(start - MAX_INDENT, 0) : start]
        indent = nearby[nearby.rfind("\n") + 1 :]
        return not indent.strip() and len(indent) < MAX_INDENT


# -- whose word an object is ---------------------------------------------------------------------


def _with_standing(text: str, found: list[Found], hidden: list[tuple[int, int]]) -> list[Found]:
    """The objects, each with whose word it is as far as the prose around it tells."""
    prose = list(_gaps(text, [*((item.start, item.end) for item in found), *hidden]))
    quoted, doubtful = _in_marks(text, prose)
    straight = _straight_marks(text, prose)
    result: list[Found] = []
    for i, item in enumerate(found):
        after = found[i - 1].end if i else 0
        before = text[max(after, item.start - MAX_CONTEXT) : item.start]
        context = _context(before, text[item.end : item.end + MAX_CONTEXT])
        standing = item.standing
        if standing == "own":
            standing = straight.standing(text, item)
        if standing == "own" and (doubtful.covers(item) or ATTRIBUTED.search(context)):
            standing = "doubtful"
        fenced = before.endswith("```")
        if item.standing == "own" and not fenced:
            adjacent = _between_quotes(text, item.start, item.end)
            standing = "quoted" if adjacent or quoted.covers(item) else standing
        result.append(item._replace(standing=standing, context=context))
    return result


class _Spans:
    """Spans in order, none inside another."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []

    def add(self, start: int, end: int) -> None:
        self.starts.append(start)
        self.ends.append(end)

    def covers(self, item: Found) -> bool:
        i = bisect_left(self.starts, item.start) - 1
        return i >= 0 and item.end <= self.ends[i]


def _in_marks(text: str, prose: list[tuple[int, int]]) -> tuple[_Spans, _Spans]:
    """The spans of prose between quotation marks with two sides, and between backticks.

    Over several paragraphs, or without end, it is in doubt who speaks.
    """
    quoted, doubtful = _Spans(), _Spans()
    mark, opened = "", 0
    for match in (m for start, end in prose for m in QUOTE_MARK.finditer(text, start, end)):
        char = match[0]
        is_apostrophe = char == "’" and text[match.end() : match.end() + 1].isalnum()
        if len(char) > 2 or is_apostrophe:  # a code fence; an apostrophe
            continue
        if mark == "`" and text.find("\n", opened, match.start()) >= 0:
            mark = ""  # backticks quote within a line
        if not mark:
            mark, opened = (char[0], match.start()) if char[0] in QUOTES else ("", 0)
        elif char[0] in QUOTES[mark]:
            goes_on = text.find("\n\n", opened, match.start()) >= 0
            (doubtful if goes_on else quoted).add(opened, match.start())
            mark = ""
    if mark and mark != "`":
        end = text.find("\n\n", opened)
        doubtful.add(opened, len(text) if end < 0 else end)
    return quoted, doubtful


class _Straight(NamedTuple):
    """The straight quotation marks in prose, and the blank lines of the text."""

    marks: list[int]
    blanks: list[int]
    odd_from: int  # the first mark without a second one in its paragraph

    def standing(self, text: str, item: Found) -> Standing:
        """Whose word an object is, from the marks before and behind it.

        On its own line an odd number before and one behind quote it. Marks that may or
        may not be around it leave it in doubt.
        """
        marks, blanks = self.marks, self.blanks
        at = bisect_left(marks, item.start)
        if not at:
            return "own"
        above = bisect_left(blanks, item.start)
        n_before = at - bisect_left(marks, blanks[above - 1] if above else 0)
        is_last = at == len(marks)
        if n_before % 2:
            around = (
                ""
                if is_last
                else text[max(marks[at - 1], item.start - MAX_CONTEXT - 1) : item.start]
                + text[item.end : marks[at]][:MAX_CONTEXT]
            )
            near = 0 < len(around) <= MAX_CONTEXT and "\n" not in around
            return "quoted" if near else "doubtful"
        below = bisect_left(blanks, item.end)
        end = blanks[below] if below < len(blanks) else len(text)
        among = n_before and bisect_left(marks, end) > at
        return "doubtful" if among or (self.odd_from < item.start and not is_last) else "own"


def _straight_marks(text: str, prose: list[tuple[int, int]]) -> _Straight:
    marks = [m.start() for start, end in prose for m in STRAIGHT.finditer(text, start, end)]
    blanks = [match.start() for match in BLANK_LINE.finditer(text)]
    counts = Counter(bisect_left(blanks, mark) for mark in marks)
    odd = (mark for mark in marks if counts[bisect_left(blanks, mark)] % 2)
    return _Straight(marks, blanks, next(odd, len(text)))


def _context(before: str, behind: str) -> str:
    """The clause that introduces an object, and the one that follows it on its line."""
    lead = before.rstrip(FENCE_AND_SPACE).removesuffix("json").rstrip(FENCE_AND_SPACE)
    led = lead.endswith(":") or "\n" not in before[len(lead) :]
    lead = CLAUSE_END.split(lead)[-1] if led else ""
    return f"{lead}\n{CLAUSE_END.split(behind)[0]}"


def objects_of(text: str, shape: Shape) -> Reply:
    """The objects of a reply in order, each with whose word it is; in linear time."""
    return _Walk(text, shape).run()


def standing_in(prose: str, start: int, end: int) -> Standing:
    """Whose word a passage of prose is; between straight quotation marks it is in doubt."""
    standing = _with_standing(prose, [Found(start, end, {})], [])[0].standing
    between = '"' in prose[:start] and '"' in prose[end:]
    if standing == "own" and (between or ATTRIBUTED.search(prose[start:end])):
        return "doubtful"
    return standing
