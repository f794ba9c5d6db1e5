"""Find the last verdict of a reply: one scan for ballots and for decisions.

The last object on its own that reads like a verdict is the reviewer's word. Thoughts,
quotations of any kind, repeated parts of the prompt and objects inside other objects are
not. Where it cannot be told whose word an object is, it is doubtful: it still hides what
came before it, so a doubtful or unreadable last verdict is an abstention.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import groupby, pairwise
from typing import Any, Literal, NamedTuple

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
Spans = list[tuple[int, int]]


class ReplyObject(NamedTuple):
    """An object of the reply: whole, or broken (it ends, but not as JSON), or cut off."""

    start: int
    end: int
    value: Object
    repairs: tuple[str, ...] = ()
    state: Literal["whole", "broken", "cut"] = "whole"
    standing: Standing = "own"
    verdict: Any = None  # what it says, where it is a verdict
    is_ruin: bool = False  # of a verdict
    context: str = ""  # the clauses right before and behind it

    @property
    def is_verdict(self) -> bool:
        return self.verdict is not None or self.is_ruin


class ReplyObjects(NamedTuple):
    """A reply's objects in order, and the spans in which nothing is the reviewer's word."""

    text: str
    objects: tuple[ReplyObject, ...]
    hidden: Spans

    @property
    def verdicts(self) -> list[ReplyObject]:
        """The objects that are verdicts or the ruins of verdicts, quoted ones included."""
        return [item for item in self.objects if item.is_verdict]

    def last_word(self) -> ReplyObject | str:
        """The verdict that stands, or why none does.

        Where the reviewer gave another before, the last must be introduced as its own, or
        follow with nothing said at all and in the same way: who quotes a verdict does not
        always mark it.
        """
        verdicts = self.verdicts
        own = [item for item in verdicts if item.standing != "quoted"]
        if not own:
            return "quoted" if verdicts else "none"
        last, tail = own[-1], self.text[own[-1].end :]
        announced = lead_of(tail[-MAX_CONTEXT:])
        n_open = tail.count("{") - tail.count("}")
        if last.state == "cut":
            if last.standing == "doubtful":
                return "truncated"
        elif n_open > 0 or (announced.endswith(":") and OWN_WORDS.fullmatch(announced)):
            return "truncated"  # another verdict was to follow
        elif last.standing == "doubtful" or (n_open < 0 and STRING_END.search(tail)):
            return "unparsed"  # the object may be quoted in a string that forgot to escape it
        if TAKEN_BACK.search(tail):
            return "taken_back"
        rivals = [f for f in own[:-1] if f.standing == "own" and f.value and f.value != last.value]
        return "contested" if rivals and not self._replaces(last, rivals[-1]) else last

    def _replaces(self, last: ReplyObject, rival: ReplyObject) -> bool:
        """Whether a verdict is told to replace the one before, or follows it without a word."""
        between = self.text[rival.end : last.start]
        words = between.strip(FENCE_AND_SPACE).removesuffix("json").strip(FENCE_AND_SPACE)
        lead = lead_of(between)
        if lead:
            return OWN_WORDS.fullmatch(lead) is not None
        if words or self.text[last.end :].strip(FENCE_AND_SPACE) or "    " in between:
            return RECONSIDERED.search(words[-MAX_CONTEXT:]) is not None
        fenced = [self.text.count("```", 0, item.start) % 2 for item in (rival, last)]
        return fenced != [0, 1]  # as one shows what somebody else wrote

    def prose(self) -> str:
        """The text outside objects, thoughts and quotations."""
        spans = [(f.start, f.end) for f in self.objects if f.state != "cut" or f.is_verdict]
        parts, at = [], 0
        for start, end in sorted((*spans, *self.hidden)):
            parts.append(self.text[at : max(at, start)])
            at = max(at, end)
        return "\n".join((*parts, self.text[at:]))


# -- what is not the reviewer's word ------------------------------------------------------------

# Thoughts; and in pairs, the same name at both ends: fences of our prompt, tags, [quote]s.
TAG = re.compile(
    r"[<&\[](?:lt;)?/?(?:(?P<thought>think|thinking|thought|reasoning)(?:>|&gt;)"
    r"|(?P<think>(?-i:THINK))\])"
    r"|\[(?P<fence>BEGIN|END) (?P<title>[^\[\]\n]{1,200})\]"
    r"|(?:[<\[]|&lt;)(?P<slash>/?)(?P<tag>(?<=\[)(?:quote|cite)|(?<=\[/)(?:quote|cite)"
    r"|(?<!\[)(?<!\[/)[a-z][\w.:-]{0,40}+)"
    r"(?:[ =][^<>\[\]\n]{0,200}?)?(?:[>\]]|&gt;)|(?P<comment><!--|-->)",
    re.IGNORECASE,
)
# Tags that a reviewer puts around its own verdict; whatever else is tagged is quoted.
OWN_TAGS = frozenset({"answer", "final", "final_answer", "output", "verdict", "result", "json"})
OWN_TAGS |= {"ballot", "review", "evaluation", "judgment", "judgement", "decision", "ranking"}
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
# What a span of one line, or of several, begins with and goes on with where only the prose counts:
# no characters of a valid text.
SPAN, LONG_SPAN, FILL = "\ud800", "\ud801", "\ud802"
QUOTE_MARK = re.compile(rf"`{{1,64}}+|[{MARKS}]|[\n{LONG_SPAN}]")
MENTION = MARKS + "'\""
STRAIGHT = re.compile('"')
BLANK_LINE = re.compile(r"\n[ \t\r]{0,200}+\n")
ATTRIBUTED = re.compile(
    r"\b(?:(?i:responses?|answers?|candidates?|options?|submissions?|models?|assistants?|authors?"
    r"|judges?|texts?|it|they|attackers?)|[A-HJ-Z]{1,2})\b[^.;!?\n]{0,60}\b(?i:wr[oi]te?s?|written"
    r"|sa(?:ys?|id)|reads?|told|put|has|had|hop(?:e|ed|es)|(?:state|claim|contain|include|end|begin"
    r"|tell|instruct|ask|demand|quote|embed|inject|suggest|propose|want)(?:s|e?d|ing)?)\b"
)
ALIEN = re.compile(
    r"(?i:\b(?:quot|verbatim|excerpt|inject|plant|payload|attack|manipulat|smuggl|hidden|ignor"
    r"|disregard|example|format:|format is|withdr|reject(?:ed)? as|opposed|rather than|instead of"
    r"|draft|(?:not|never) (?:this|the|to|mine|my|say|write|answer|choose|what|output)"
    r"|would (?:never|have)|wrong to|mistake to|forbidden|refus|declin|cannot|told|text of"
    r"|whereas|colleague|someone|trap\b|suspicious|user\b|(?:their|its|his|her)\b|zitat|zitier|beispiel|cit(?:e|é|at|az)|exemple|ejemplo)"
    r"|(?:response|answer|candidate|author|attacker|judge|model|assistant|\b[a-hj-z])"
    r"(?: [a-z])?['’]s\b"
    r"|(?:first|second|third|last|other) (?:answer|response|candidate|one)\b"
    r"|цитат|игнор|пример|引用|忽略|无视|例)"
)
# A letter that is somebody's name in any language, as in "Antwort B schreibt".
NAMED = re.compile(r"[^\W\d_]{2}[ _-]?(?<![A-Z])([A-HJ-Z])(?![A-Za-z])|^\W{0,9}([A-HJ-Z])\W{0,9}$")
SOMEBODY = re.compile(r"\b(?:response|answer|candidate|submission|option|model)s?\b", re.IGNORECASE)
OWN_SEGMENT = re.compile(
    r"(?:^|,)[^,\"'`“”‘’«»]*\b(?:my|our)\b[^,\"'`“”‘’«»]*$|, (?:so|thus|hence|therefore)\W*$",
    re.IGNORECASE,
)
# Nothing but such words introduces another verdict of one's own.
OWN_WORDS = re.compile(
    r"(?:\W{0,5}\b(?:so|thus|no|wait|here(?:['’]s)?|is|my|mine|the|own|new|final|finally|actual"
    r"|correct(?:ion|ed)?|revis(?:ed|ion)|updated?|amended|verdict|ranking|ballot|decision|review"
    r"|answer|vote|judge?ment|evaluation|assessment|json|result|output|conclusion|as|follows|after"
    r"|on|upon|reflection|second thoughts?|instead|now|therefore|below|mein|das|endgültige?s?"
    r"|urteil|mon|ma|le|la|définiti(?:f|ve)|mi|el|veredicto|мой|вердикт|итог|最终|我的)\b){1,9}\W{0,9}",
    re.IGNORECASE,
)
RECONSIDERED = re.compile(
    r"\bI\b[^.\n]{0,30}\b(?:reconsider|misread|changed|correct|revis|was wrong|made a mistake)"
    r"|\b(?:on|upon) (?:reflection|second thoughts?)",
    re.IGNORECASE,
)
# What a reviewer says who takes a verdict back without giving another.
TAKEN_BACK = re.compile(
    r"\b(?:I|we) (?:\w{1,12} ){0,2}(?:withdraw|retract|abstain|decline|recuse|reject"
    r"|take (?:it|that|this) back)|\b(?:scratch|strike) that|\b(?:on|upon) second thoughts?"
    r"|\bnever ?mind\b|^\W{0,5}(?:correction|wait|actually)\s{0,3}[,:.!—-]"
    r"|\b(?:above|previous|that|this)\b[^.\n]{0,40} (?:is|was) (?:what|from|copied"
    r"|quoted|taken|not my|an? (?:\w{1,12} )?(?:candidate|attack|quote|injection|mistake))"
    r"|\b(?:above|that|this)\b[^.\n]{0,20}\bnot my verdict"
    r"|\bthe candidate['’]s (?:text|words|verdict)|\bno verdict\b|\A\s{0,20}(?:is|was)\b",
    re.IGNORECASE | re.MULTILINE,
)
CONTINUES = re.compile(r"[^\S\n]{0,20}+(?:\n?```)?[^\S\n]{0,20}+\n?(?=[a-z]|[,(–—←^]{1,9} ?\w)")
CLAUSE_END = re.compile(r"[.;!?。\n]")


Event = tuple[int, int, str]  # where an aside, the end of a thought or an object is, and which


def _asides(text: str) -> Iterator[Event]:
    """Every thought and quotation of a reply."""
    yield from _tagged(text)
    for match in QUOTATION.finditer(text):
        yield match.start(), match.end(), "quotes"
    for opening, closing in pairwise(CODE_FENCE.finditer(text)):
        if QUOTING.search(opening[1]) and not closing[1].strip():
            yield opening.start(), closing.end(), "quotes"


def _tagged(text: str) -> Iterator[Event]:
    """Thoughts, and blocks that end under the name they began with; the inner ones are part of it.

    A thought reaches to the next tag that ends one, or drifts to the end. A tag between
    quotation marks is spoken about, not used.
    """
    thought_end: int | None = None
    ends: dict[str, list[int]] = defaultdict(list)
    for match in reversed(list(TAG.finditer(text))):
        start, end = match.span()
        name = (
            match["title"]
            or (match["tag"] or match["thought"] or match["think"] or "<!--").casefold()
        )
        closes = match["slash"] or match["comment"] == "-->" or match[0][1:4].upper() == "END"
        if name in OWN_TAGS or _between_quotes(text, start, end):
            continue
        if match["thought"] or match["think"]:
            if "/" in match[0]:
                yield start, end, "thought"
                thought_end = end
                ends[name].append(end)  # it may have begun with attributes
            else:
                reaches = thought_end is not None
                yield start, thought_end or len(text), "thinks" if reaches else "drifts"
                ends[name][-1:] = []
        elif closes:
            ends[name].append(end)
        elif ends[name]:
            yield start, ends[name].pop() if match["tag"] else ends[name][-1], "quotes"


def _between_quotes(text: str, start: int, end: int) -> bool:
    """Whether a quotation mark or backtick stands right before and right after a span."""
    return start > 0 and end < len(text) and text[start - 1] in MENTION and text[end] in MENTION


# -- the scan for a reply's objects -------------------------------------------------------------

# A brace that a key follows; a comment between them is short and has no brace of its own.
COMMENTS = r"(?:(?://|\#)[^\n{]{0,200}+\n\s{0,200}+|/\*[^*{]{0,200}+\*/\s{0,200}+)*+"
OPENER = re.compile(rf"\{{(?=\s{{0,1000}}+{COMMENTS}{KEY.pattern})")
LINE_OPENER = re.compile(r"\n[ \t]{0,200}+\{")
BRACE = re.compile(r"[{}]")
STRING_END = re.compile(r"\"\s{0,200}+[}\],]")
VOTE_KEY = re.compile(r"[\"'“”](?:ranking|approved)[\"'“”]\s{0,20}+:", re.IGNORECASE)


def objects_of(text: str, keys: frozenset[str], read: Callable[[Object], Any]) -> ReplyObjects:
    """The objects of a reply in order, each with whose word it is; in linear time.

    `read` says what an object says, or None where it is no verdict. By one of the keys an
    object that does not end is known to be the ruin of a verdict.
    """
    scan = _Scan(text, keys, read)
    scan.run()
    return ReplyObjects(text, tuple(_with_standing(text, scan.objects, scan.hidden)), scan.hidden)


class _Scan:
    """One pass over a reply that gathers its objects, and spans that are not its author's word."""

    def __init__(self, text: str, keys: frozenset[str], read: Callable[[Object], Any]) -> None:
        self.text, self.keys, self.read = text, keys, read
        self.reader = Reader(text)
        self.votes = [match.start() for match in VOTE_KEY.finditer(text)]
        self.n_refused = self.n_reread = 0
        self.objects: list[ReplyObject] = []
        self.hidden: Spans = []
        self.doubtful_until = 0  # all before this may be a part of an object without end
        self.indented_until = 0  # or whatever does not begin at the margin
        self.after_verdict = False  # or whatever does not begin a line

    def run(self) -> None:
        openers = ((match.start(), match.end(), "object") for match in OPENER.finditer(self.text))
        events: list[Event] = [*_asides(self.text), *openers]
        next_object = next_aside = 0  # an aside may begin inside an object without end
        for start, end, kind in sorted(events, key=lambda event: event[0]):
            if kind != "object" and start >= next_aside:
                next_object = next_aside = self._aside(start, end, kind)
            elif kind == "object" and start >= next_object:
                next_object, next_aside = self._object(start)

    def _aside(self, start: int, end: int, kind: str) -> int:
        """Pass over a thought or quotation, and return where to look on.

        A thought that only ends began with the reply. One that only begins is a thought if
        the reply began with it; later it may be a word about a tag, and is passed in doubt.
        """
        if kind == "thought" and not (self.doubtful_until or self.after_verdict):
            self.objects, self.hidden = [], [(0, end)]
        elif kind == "thought":  # the tag may be in a string of a verdict
            self.doubtful_until = len(self.text)
        elif kind == "drifts" and self.text[:start].strip():
            if self.objects or self._begins_line(start):
                self.doubtful_until = len(self.text)
            return start + 1
        else:
            self.hidden.append((start, end))
        return end

    def _object(self, start: int) -> tuple[int, int]:
        """Take the object at `start`, and return where to look for objects and for asides."""
        whole = read_strict(self.text, start) if self.n_refused < MAX_REFUSED else None
        self.n_refused += whole is None
        if whole is None and self.n_reread > MAX_REREAD_CHARACTERS:
            self.doubtful_until = len(self.text)
            return start + 1, start + 1
        read = whole or self.reader.read(start)
        if isinstance(read, Whole):
            value = folded(read.value)
            standing: Standing = "doubtful" if self._is_in_a_ruin(start) else "own"
            verdict = self.read(value)
            self.objects.append(
                ReplyObject(start, read.end, value, read.repairs, "whole", standing, verdict)
            )
            return read.end, read.end
        self.n_reread += read.resume - start
        return self._ruin(start, read) if read.open_braces else (start + 1, start + 1)

    def _is_in_a_ruin(self, start: int) -> bool:
        """Whether an object may be part of an earlier one that never ended."""
        if start < max(self.doubtful_until, self.indented_until):
            return start < self.doubtful_until or self.text[start - 1 : start] != "\n"
        return self.after_verdict and not self._begins_line(start)

    def _ruin(self, start: int, broken: Broken) -> tuple[int, int]:
        """Note an object that cannot be read, and return where to look on.

        Where its braces end, all between them is its part. Otherwise what follows may be.
        """
        end, begins_line = self.closing.get(start), self._begins_line(start)
        inside, n_votes = self._is_in_a_ruin(start), self._n_votes(start, end or len(self.text))
        value = folded(broken.value)
        is_like = (
            not self.keys.isdisjoint((*value, fold_key(broken.open_key or "")))
            or self._n_votes(start, broken.resume) > 0
        )
        value = {} if broken.misquoted or n_votes > 1 else value  # some may have been in a string
        self.objects.append(
            ReplyObject(
                start,
                end or max(broken.resume, start + 1),
                value,
                broken.repairs,
                "broken" if end else "cut",
                "own" if begins_line and not inside else "doubtful",
                self.read(value),
                is_ruin=n_votes > 0 or (is_like and (begins_line or not inside)),
            )
        )
        if end:
            return end, end
        self.indented_until = max(self.indented_until, broken.resume)
        self.after_verdict |= is_like
        if broken.in_string and (is_like or begins_line):
            self.doubtful_until = len(self.text)
        elif begins_line:
            self.doubtful_until = max(self.doubtful_until, broken.resume)
        again = LINE_OPENER.search(self.text, start + 1, broken.resume)
        return again.end() - 1 if again else self.objects[-1].end, start + 1

    @cached_property
    def closing(self) -> dict[int, int]:
        """Where each brace is closed, counting every brace, by where it opens."""
        closing: dict[int, int] = {}
        stack: list[int] = []
        for match in BRACE.finditer(self.text):
            if match[0] == "{":
                stack.append(match.start())
            elif stack:
                closing[stack.pop()] = match.end()
        return closing

    def _n_votes(self, start: int, end: int) -> int:
        """How many keys stand between two places that only a verdict has."""
        return bisect_left(self.votes, end) - bisect_left(self.votes, start)

    def _begins_line(self, start: int) -> bool:
        nearby = self.text[max(start - MAX_INDENT, 0) : start]
        indent = nearby[nearby.rfind("\n") + 1 :]
        return not indent.strip() and len(indent) < MAX_INDENT


# -- whose word an object is ---------------------------------------------------------------------


def _with_standing(text: str, objects: list[ReplyObject], hidden: Spans) -> Iterator[ReplyObject]:
    """The objects, each with whose word it is as far as the prose around it tells."""
    quoted, doubtful = _quotations(text, [*((item.start, item.end) for item in objects), *hidden])
    ends = [0, *(item.end for item in objects)]
    starts = [*(item.start for item in objects[1:]), len(text)]
    for item, after, until in zip(objects, ends, starts, strict=False):
        before = text[max(after, item.start - MAX_CONTEXT) : item.start]
        lead, behind = lead_of(before), text[item.end : min(until, item.end + MAX_CONTEXT)]
        standing = item.standing
        if standing == "own":
            is_quoted = _between_quotes(text, item.start, item.end) or quoted[item.start]
            if is_quoted and not before.endswith("```"):  # no mark quotes a code fence
                standing = "quoted"
            elif doubtful[item.start] or _is_attributed(lead, behind):
                standing = "doubtful"
        context = f"{lead}\n{CLAUSE_END.split(behind)[0]}"
        yield item._replace(standing=standing, context=context)


def standing_in(prose: str, start: int, end: int) -> Standing:
    """Whose word a passage of prose is; between straight quotation marks it is in doubt."""
    standing = next(_with_standing(prose, [ReplyObject(start, end, {})], [])).standing
    between = '"' in prose[:start] and '"' in prose[end:]
    if standing == "own" and (between or ATTRIBUTED.search(prose[start:end])):
        return "doubtful"
    return standing


def _quotations(text: str, spans: Spans) -> tuple[bytearray, bytearray]:
    """Which places of a text its quotation marks quote, and which they may quote.

    Marks inside the spans, which are objects and asides, quote nothing.
    """
    characters = list(text)
    for start, end in sorted(spans):
        first = LONG_SPAN if "\n" in text[start:end] else SPAN
        characters[start:end] = [first, *FILL * (end - start - 1)]
    prose = "".join(characters)
    quoted, doubtful = bytearray(len(text)), bytearray(len(text))
    _pair_marks(prose, quoted, doubtful)
    _pair_straight_marks(prose, quoted, doubtful)
    return quoted, doubtful


def _pair_marks(prose: str, quoted: bytearray, doubtful: bytearray) -> None:
    """Note what stands between marks with two sides, and between backticks.

    Over several paragraphs, or without end, it is in doubt who speaks.
    """
    mark, opened = "", 0
    for match in QUOTE_MARK.finditer(prose):
        char, at = match[0], match.start()
        is_apostrophe = char == "’" and prose[at + 1 : at + 2].isalnum()
        if len(char) > 2 or is_apostrophe:  # a code fence; an apostrophe
            continue
        if char in ("\n", LONG_SPAN):
            mark = "" if mark == "`" else mark  # backticks quote within a line
        elif not mark:
            mark, opened = (char[0], at) if char[0] in QUOTES else ("", 0)
        elif char[0] in QUOTES[mark]:
            _set(doubtful if prose.find("\n\n", opened, at) >= 0 else quoted, opened, at)
            mark = ""
    if mark and mark != "`":
        end = prose.find("\n\n", opened)
        _set(doubtful, opened, len(prose) if end < 0 else end)


def _pair_straight_marks(prose: str, quoted: bytearray, doubtful: bytearray) -> None:
    """Note what stands between marks that are the same on both sides.

    Two that are near each other on one line quote. Whatever else is among the marks of a
    paragraph is in doubt, and so is all behind one that has no second in its paragraph.
    """
    all_marks = [match.start() for match in STRAIGHT.finditer(prose)]
    ends = [*(match.start() for match in BLANK_LINE.finditer(prose)), len(prose)]
    odd = None
    for i, group in groupby(all_marks, key=lambda mark: bisect_left(ends, mark)):
        marks = list(group)
        is_odd = len(marks) % 2 == 1
        odd = marks[0] if is_odd and odd is None else odd
        _set(doubtful, marks[0], ends[i] if is_odd else marks[-1])
        for start, end in zip(marks[::2], marks[1::2], strict=False):
            between = prose[start:end].replace(FILL, "")
            n_long = between.count(LONG_SPAN) - (SPAN not in between)  # it may be the object
            if len(between) <= MAX_CONTEXT and "\n" not in between and n_long <= 0:
                _set(quoted, start, end)
    if odd is not None:
        _set(doubtful, odd, all_marks[-1])


def _set(places: bytearray, start: int, end: int) -> None:
    places[start:end] = b"\1" * (end - start)


def lead_of(before: str) -> str:
    """The clause that introduces an object: on its line, or before a colon."""
    lead = before.rstrip(FENCE_AND_SPACE).removesuffix("json").rstrip(FENCE_AND_SPACE)
    led = lead.rstrip("*_ ").endswith((":", "：")) or "\n" not in before[len(lead) :]
    return CLAUSE_END.split(lead)[-1] if led else ""


def _is_attributed(lead: str, behind: str) -> bool:
    """Whether the words around an object say, or may say, that it is somebody else's."""
    goes_on = CONTINUES.match(behind)
    after = CLAUSE_END.split(behind[goes_on.end() :])[0] if goes_on else ""
    if ATTRIBUTED.search(after) or ALIEN.search(after) or SOMEBODY.search(after):
        return True
    own = OWN_SEGMENT.search(lead)
    if own and not ALIEN.search(own[0]):
        return False
    named = set(NAMED.findall(lead)) if lead.rstrip(" *_").endswith((":", "：")) else ()
    return bool(ATTRIBUTED.search(lead) or ALIEN.search(lead) or len(named) == 1)
