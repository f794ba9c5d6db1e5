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
from functools import cached_property
from itertools import pairwise
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


class Found(NamedTuple):
    """An object of the reply: whole, or broken (it ends, but not as JSON), or cut off."""

    start: int
    end: int
    value: Object
    repairs: tuple[str, ...] = ()
    state: Literal["whole", "broken", "cut"] = "whole"
    standing: Standing = "own"
    verdict: Any = None  # what it says, where it is a verdict
    is_verdict: bool = False  # or the ruin of one
    context: str = ""  # the clauses right before and behind it


class ReplyObjects(NamedTuple):
    """A reply's objects in order, and the spans in which nothing is the reviewer's word."""

    text: str
    objects: tuple[Found, ...]
    hidden: Spans

    @property
    def verdicts(self) -> list[Found]:
        """The objects that are verdicts or the ruins of verdicts, quoted ones included."""
        return [found for found in self.objects if found.is_verdict]

    def last_word(self) -> Found | str:
        """The verdict that stands, or why none does.

        Where the reviewer gave another before, the last must be introduced as its own, or
        follow with nothing said at all and in the same way: who quotes a verdict does not
        always mark it.
        """
        verdicts = self.verdicts
        own = [found for found in verdicts if found.standing != "quoted"]
        if not own:
            return "quoted" if verdicts else "none"
        last, tail = own[-1], self.text[own[-1].end :]
        announced = lead_of(tail[-MAX_CONTEXT:])
        is_cut = last.state == "cut"
        more_follows = tail.count("{") > tail.count("}") or (
            announced.endswith(":") and OWN_WORDS.fullmatch(announced) is not None
        )
        if last.standing == "doubtful" or (more_follows and not is_cut):
            return "truncated" if is_cut or more_follows else "unparsed"
        if not is_cut and tail.count("}") > tail.count("{") and STRING_END.search(tail):
            return "unparsed"  # the object was quoted in a string that forgot to escape it
        if TAKEN_BACK.search(tail):
            return "taken_back"
        rivals = [f for f in own[:-1] if f.standing == "own" and f.value and f.value != last.value]
        return "contested" if rivals and not self._replaces(last, rivals[-1]) else last

    def _replaces(self, last: Found, rival: Found) -> bool:
        """Whether a verdict is told to replace the one before, or follows it without a word."""
        between = self.text[rival.end : last.start]
        said = between.strip(FENCE_AND_SPACE).removesuffix("json").strip(FENCE_AND_SPACE)
        lead = lead_of(between)
        if lead:
            return OWN_WORDS.fullmatch(lead) is not None
        if said or self.text[last.end :].strip(FENCE_AND_SPACE) or "    " in between:
            return RECONSIDERED.search(said[-MAX_CONTEXT:]) is not None
        fenced = [self.text.count("```", 0, found.start) % 2 for found in (rival, last)]
        return fenced != [0, 1]  # as one shows what somebody else wrote

    def prose(self) -> str:
        """The text outside objects, thoughts and quotations."""
        spans = [(f.start, f.end) for f in self.objects if f.state != "cut" or f.is_verdict]
        parts = (self.text[start:end] for start, end in _gaps(self.text, [*spans, *self.hidden]))
        return "\n".join(parts)


def _gaps(text: str, spans: Spans) -> Iterator[tuple[int, int]]:
    at = 0
    for start, end in sorted(spans):
        yield at, max(at, start)
        at = max(at, end)
    yield at, len(text)


# -- what is not the reviewer's word ------------------------------------------------------------

THINK_TAG = re.compile(
    r"[<&\[](?:lt;)?/?(?:(?i:think|thinking|thought|reasoning)(?:>|&gt;)|THINK\])"
)
# In pairs, the same name at both ends: fences of our prompt, tags, quotations in BBCode.
BLOCK = re.compile(
    r"\[(?P<fence>BEGIN|END) (?P<title>[^\[\]\n]{1,200})\]"
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
QUOTE_MARK = re.compile(rf"`{{1,64}}+|[{MARKS}]")
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


class _Aside(NamedTuple):
    """A place where the reviewer stops or resumes speaking."""

    start: int
    end: int
    kind: Literal["thinks", "thought", "drifts", "quotes"]


def _asides(text: str) -> list[_Aside]:
    """Every place where something else than the reviewer's word begins or ends, in order."""
    quotations = (_Aside(m.start(), m.end(), "quotes") for m in QUOTATION.finditer(text))
    marks = [*_tags(text), *_blocks(text), *quotations]
    for opening, closing in pairwise(CODE_FENCE.finditer(text)):
        if QUOTING.search(opening[1]) and not closing[1].strip():
            marks.append(_Aside(opening.start(), closing.end(), "quotes"))
    marks.sort(key=lambda mark: mark.start)
    return marks


def _tags(text: str) -> Iterator[_Aside]:
    """Thinking tags: an opening one reaches to the next closing one, or drifts to the end.

    A tag between quotation marks is spoken about, not used.
    """
    end: int | None = None
    for match in reversed(list(THINK_TAG.finditer(text))):
        start, stop = match.span()
        if _between_quotes(text, start, stop):
            continue
        if "/" in match[0]:
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
        name = match["title"] or (match["tag"] or "<!--").casefold()
        closes = match["slash"] or match["comment"] == "-->" or match[0][1:4].upper() == "END"
        if name in OWN_TAGS or _between_quotes(text, *match.span()):
            continue
        if closes:
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
STRING_END = re.compile(r"\"\s{0,200}+[}\],]")
VOTE_KEY = re.compile(r"[\"'“”](?:ranking|approved)[\"'“”]\s{0,20}+:", re.IGNORECASE)


def objects_of(text: str, keys: frozenset[str], read: Callable[[Object], Any]) -> ReplyObjects:
    """The objects of a reply in order, each with whose word it is; in linear time.

    `read` says what an object says, or None where it is no verdict. By one of the keys an
    object that does not end is known to be the ruin of a verdict.
    """
    return _ObjectWalk(text, keys, read).run()


class _ObjectWalk:
    """One pass over a reply, gathering what stands on its own."""

    def __init__(self, text: str, keys: frozenset[str], read: Callable[[Object], Any]) -> None:
        self.text = text
        self.keys = keys
        self.read = read
        self.reader = Reader(text)
        self.marks = _asides(text)
        self.at_mark = 0
        self.found: list[Found] = []
        self.hidden: Spans = []
        self.n_refused = 0
        self.reread = 0
        self._forget_ruins()

    def _forget_ruins(self) -> None:
        """No object without end so far, so nothing is in doubt for being inside one."""
        self.all_doubtful = False
        self.own_until = 0  # up to here such an object of the reviewer's own could be read
        self.any_until = 0
        self.after_verdict = False

    def run(self) -> ReplyObjects:
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
        found = _with_standing(self.text, self.found, self.hidden)
        return ReplyObjects(self.text, tuple(found), self.hidden)

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
        elif mark.kind == "drifts" and self.text[: mark.start].strip():
            self.all_doubtful |= self._begins_line(mark.start) or bool(self.found)
            return mark.start + 1
        else:
            self.hidden.append((mark.start, mark.end))
        return mark.end

    def _object(self, start: int) -> int:
        """Take the object at `start`, and return where to look on."""
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
            self._add(Found(start, read.end, value, read.repairs, standing=standing))
            return read.end
        self.reread += read.resume - start
        return self._ruin(start, read) if read.open_braces else start + 1

    def _add(self, found: Found) -> None:
        verdict = self.read(found.value)
        is_verdict = found.is_verdict or verdict is not None
        self.found.append(found._replace(verdict=verdict, is_verdict=is_verdict))

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
        begins_line, inside = self._begins_line(start), self._is_in_a_ruin(start)
        end = self.closing.get(start)
        n_votes = self._n_votes(start, end or len(text))
        is_like = (
            not self.keys.isdisjoint((*value, fold_key(broken.open_key or "")))
            or self._n_votes(start, broken.resume) > 0
        )
        if broken.misquoted or n_votes > 1:
            value = {}  # some of it may have been said in a string
        resume = max(broken.resume, start + 1)
        self._add(
            Found(
                start,
                end or resume,
                value,
                broken.repairs,
                "broken" if end else "cut",
                "own" if begins_line and not inside else "doubtful",
                is_verdict=n_votes > 0 or (is_like and (begins_line or not inside)),
            )
        )
        if end:
            return end
        self.all_doubtful |= broken.in_string and (is_like or begins_line)
        self.any_until = max(self.any_until, broken.resume)
        self.after_verdict |= is_like
        if begins_line:
            self.own_until = max(self.own_until, broken.resume)
        again = LINE_OPENER.search(text, start + 1, broken.resume)
        next_look = again.end() - 1 if again else resume
        aside = self.marks[self.at_mark].start if self.at_mark < len(self.marks) else len(text)
        return min(next_look, max(aside, start + 1))

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

    @cached_property
    def votes(self) -> list[int]:
        """Where the keys stand that only a verdict has."""
        return [match.start() for match in VOTE_KEY.finditer(self.text)]

    def _n_votes(self, start: int, end: int) -> int:
        return bisect_left(self.votes, end) - bisect_left(self.votes, start)

    def _begins_line(self, start: int) -> bool:
        nearby = self.text[max(start - MAX_INDENT, 0) : start]
        indent = nearby[nearby.rfind("\n") + 1 :]
        return not indent.strip() and len(indent) < MAX_INDENT


# -- whose word an object is ---------------------------------------------------------------------


def _with_standing(text: str, found: list[Found], hidden: Spans) -> list[Found]:
    """The objects, each with whose word it is as far as the prose around it tells."""
    quotations = _Quotations(text, [*((item.start, item.end) for item in found), *hidden])
    result: list[Found] = []
    for i, item in enumerate(found):
        after = found[i - 1].end if i else 0
        before = text[max(after, item.start - MAX_CONTEXT) : item.start]
        until = found[i + 1].start if i + 1 < len(found) else len(text)
        lead, behind = lead_of(before), text[item.end : min(until, item.end + MAX_CONTEXT)]
        standing = item.standing
        if standing == "own":
            standing = quotations.standing(item, fenced=before.endswith("```"))
        if standing == "own" and _is_attributed(lead, behind):
            standing = "doubtful"
        context = f"{lead}\n{CLAUSE_END.split(behind)[0]}"
        result.append(item._replace(standing=standing, context=context))
    return result


def standing_in(prose: str, start: int, end: int) -> Standing:
    """Whose word a passage of prose is; between straight quotation marks it is in doubt."""
    standing = _with_standing(prose, [Found(start, end, {})], [])[0].standing
    between = '"' in prose[:start] and '"' in prose[end:]
    if standing == "own" and (between or ATTRIBUTED.search(prose[start:end])):
        return "doubtful"
    return standing


class _Quotations:
    """What the quotation marks of a text quote, except for those within some spans."""

    def __init__(self, text: str, spans: Spans) -> None:
        self.text = text
        self.quoted: Spans = []
        self.doubtful: Spans = []
        prose = list(_gaps(text, spans))
        self._pair_marks(m for start, end in prose for m in QUOTE_MARK.finditer(text, start, end))
        straight = (STRAIGHT.finditer(text, start, end) for start, end in prose)
        self.straight = [match.start() for found in straight for match in found]
        self.blanks = [match.start() for match in BLANK_LINE.finditer(text)]
        counts = Counter(bisect_left(self.blanks, mark) for mark in self.straight)
        odd = (mark for mark in self.straight if counts[bisect_left(self.blanks, mark)] % 2)
        self.odd_from = next(odd, len(text))  # the first without a second in its paragraph

    def _pair_marks(self, marks: Iterator[re.Match[str]]) -> None:
        """Note the spans between marks with two sides, and between backticks.

        Over several paragraphs, or without end, it is in doubt who speaks.
        """
        text, mark, opened = self.text, "", 0
        for match in marks:
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
                (self.doubtful if goes_on else self.quoted).append((opened, match.start()))
                mark = ""
        if mark and mark != "`":
            end = text.find("\n\n", opened)
            self.doubtful.append((opened, len(text) if end < 0 else end))

    def standing(self, item: Found, *, fenced: bool) -> Standing:
        """Whose word an object is by the marks around it; none quotes a code fence."""
        adjacent = _between_quotes(self.text, item.start, item.end)
        if not fenced and (adjacent or _covers(self.quoted, item)):
            return "quoted"
        standing = self._between_straight(item)
        return "doubtful" if standing == "own" and _covers(self.doubtful, item) else standing

    def _between_straight(self, item: Found) -> Standing:
        """Whose word an object is, from the straight marks before and behind it.

        On its own line an odd number before and one behind quote it. Marks that may or
        may not be around it leave it in doubt.
        """
        marks, blanks, text = self.straight, self.blanks, self.text
        at = bisect_left(marks, item.start)
        if not at:
            return "own"
        above = bisect_left(blanks, item.start)
        n_before = at - bisect_left(marks, blanks[above - 1] if above else 0)
        is_last = at == len(marks)
        if n_before % 2:
            if is_last:
                return "doubtful"
            around = text[max(marks[at - 1], item.start - MAX_CONTEXT - 1) : item.start]
            around += text[item.end : marks[at]][:MAX_CONTEXT]
            return "quoted" if len(around) <= MAX_CONTEXT and "\n" not in around else "doubtful"
        below = bisect_left(blanks, item.end)
        end = blanks[below] if below < len(blanks) else len(text)
        among = n_before and bisect_left(marks, end) > at
        return "doubtful" if among or (self.odd_from < item.start and not is_last) else "own"


def _covers(spans: Spans, item: Found) -> bool:
    """Whether one of these spans, in order and none inside another, has an object in it."""
    i = bisect_left(spans, (item.start,)) - 1
    return i >= 0 and item.end <= spans[i][1]


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
