"""Read labels and rankings in every shape that reviewers give them: lists, objects, text, tables.

A ranking that could be read in two ways is not read at all: `unclear` then says why.
"""

from __future__ import annotations

import html
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, zip_longest
from typing import Any

from peerage.council.jsonish import cached_if_short, fold_key, key_value
from peerage.council.replies import OWN_WORDS, lead_of, standing_in
from peerage.types import MAX_LABELS, Ballot

Tiers = list[tuple[str, ...]]

MAX_PHRASE = 200
MAX_SHOWN = 80
MAX_ITEMS = 4 * MAX_LABELS
MAX_ROWS = 1000
MAX_CELLS = 100
MAX_LINE = 2000

NUMBERS = (int, float)
LISTS = (list, tuple)

# -- labels --------------------------------------------------------------------------------------

# What stands around a label without being part of it.
WRAPPING = " \ufeff\u200b*_~`\"'“”„‘’«»[](){}<>#:;,.!|="
WORDS = "response|answer|candidate|option|model|assistant|output|reply|submission"
GAP = r"[\s_:#*\-\[\](){}<>\"'“”„‘’«»`~.,;!|=\ufeff\u200b]{1,20}+"
HEADING = re.compile(rf"(?:responses?{GAP}){{1,3}}+(?=.)")
WORD_AND_LETTERS = re.compile(rf"(?:(?:{WORDS}){GAP}){{1,3}}+([a-z]{{1,2}})")
JOINED = re.compile(r"(?:[Rr]esponse|[Aa]nswer|[Cc]andidate|[Oo]ption)([A-Z]{1,2})")
LETTERS = re.compile(r"([A-Za-z]{1,2})")
# "A (best)", "B: wrong", "C - the clearest": what follows the label is a remark.
REMARK = re.compile(r"[:(,;\[–—|]|\s-{1,8}\s|\.\s")
# "Response A is the best": with the word before it, a letter is a label whatever follows.
NAMED_IN_FULL = re.compile(
    rf"[^\w]{{0,20}}+((?:{WORDS}){GAP}[^\W\d_]{{1,2}})\b(?![-/+&]\w)", re.IGNORECASE
)
MENTIONED = re.compile(rf"\b(?:{WORDS})s?{GAP}([^\W\d_]{{1,2}})\b", re.IGNORECASE)
NOT_APPLICABLE = re.compile(r"\W{0,5}n\s?[/.]\s?a\b.{0,200}", re.IGNORECASE | re.DOTALL)


@cached_if_short
def canonical_label(text: str) -> str:
    """The label in a phrase such as "**Response A**": here A.

    Letters become capitals, anything else small letters, so that labels compare without
    regard to case. A label of one's own ("red", "model-3") stays whole.
    """
    text = " ".join(text.split())
    bare = text.strip(WRAPPING)
    joined = JOINED.fullmatch(bare)
    if joined:
        return joined[1]
    bare = bare.casefold()
    while heading := HEADING.match(bare):
        bare = bare[heading.end() :]
    match = WORD_AND_LETTERS.fullmatch(bare) or LETTERS.fullmatch(bare)
    return match[1].upper() if match else bare or text.casefold()


class Labels:
    """The labels of one ballot, and which of them a phrase means."""

    def __init__(self, ballot: Ballot) -> None:
        self._by_form: dict[str, str] = {}
        for slot in ballot.slots:
            self._by_form.setdefault(canonical_label(slot.label), slot.label)
        self._longest = MAX_PHRASE + max(map(len, self._by_form), default=0)

    def __len__(self) -> int:
        return len(self._by_form)

    def exactly(self, phrase: str) -> str | None:
        """The label that a phrase is, and nothing more."""
        if len(phrase) > self._longest:
            return None
        label = self._by_form.get(canonical_label(phrase))
        if label is None and not phrase.isascii():
            label = self._by_form.get(canonical_label(_compatible(phrase)))
        return label

    def find(self, phrase: object) -> str | None:
        """The label that a phrase names, a remark behind it allowed; None if it names none."""
        text = phrase_of(phrase)
        labels = () if text is None else map(self.exactly, _label_forms(text))
        return next((label for label in labels if label is not None), None)

    def read(self, phrase: str) -> str:
        """The label that a phrase names, or the phrase's own form."""
        label = self.find(phrase)
        return canonical_label(phrase) if label is None else label

    def mentioned(self, text: str) -> set[str]:
        """The labels of the ballot that a text names in full ("Response A"), anywhere."""
        labels = (self.exactly(match[1]) for match in MENTIONED.finditer(text))
        return {label for label in labels if label is not None}

    def is_lookalike(self, phrase: object) -> bool:
        """Whether a phrase seems to be a letter but is none of ours, as a Cyrillic А is not."""
        if not isinstance(phrase, str) or phrase.isascii() or self.find(phrase) is not None:
            return False
        for form in _label_forms(_compatible(phrase[:MAX_PHRASE])):
            words = form.strip(WRAPPING).split()
            letters = words[-1].strip(WRAPPING) if words and len(words) <= 2 else ""
            if letters and len(letters) <= 2 and letters.isalpha() and not letters.isascii():
                return True
        return False


def _label_forms(phrase: str) -> Iterator[str]:
    """What may be the label of a phrase: all of it, the part before a remark, or one in full."""
    yield phrase
    if NOT_APPLICABLE.fullmatch(phrase):
        return
    phrase = phrase[:MAX_PHRASE]
    if remark := REMARK.search(phrase, 1):
        yield phrase[: remark.start()]
    if named := NAMED_IN_FULL.match(phrase):
        yield named[1]


def _compatible(text: str) -> str:
    """Wide, circled and styled letters as plain ones, without characters that do not show."""
    plain = unicodedata.normalize("NFKC", text)
    return "".join(char for char in plain if unicodedata.category(char) != "Cf")


def phrase_of(value: object) -> str | None:
    """Text that may be a label: a string, or a whole number where labels are numbered."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**9:
        return str(value)
    return None


# -- values --------------------------------------------------------------------------------------

LABEL_KEYS = ("label", "response", "answer", "candidate", "option", "id", "name", "model", "letter")
RANK_KEYS = ("rank", "place", "position", "ranking", "#")
MARK_KEYS = ("score", "mark", "value", "rating", "points", "grade")
RANK = re.compile(r"[*_#\s]{0,20}+(\d{1,4})\s{0,5}+(?:st|nd|rd|th)?[*_.)\s]{0,20}+", re.IGNORECASE)
MARK = re.compile(
    r"[*_\s]{0,20}+([+-]?\d{1,4}(?:\.\d{0,20})?)\s{0,5}+"
    r"(?:(?:/|out\s{1,5}of)\s{0,5}10(?:\.0{0,5})?)?[*_\s]{0,20}+"
)
MAX_MARK_TEXT = 40
LOWEST, HIGHEST = 1, 10


def label_of(item: Any, labels: Labels) -> str | None:
    """What an item of a list calls itself, as a label or under one of a label's usual keys."""
    if not isinstance(item, dict):
        return phrase_of(item)
    named = [phrase_of(key_value(item, key)) for key in LABEL_KEYS]
    phrases = [phrase for phrase in named if phrase is not None]
    known = (phrase for phrase in phrases if labels.find(phrase) is not None)
    return next(known, phrases[0] if phrases else None)


def read_rank(value: Any) -> float | None:
    """A rank as a number, "2" or "2nd"; else None."""
    number = _number(value, RANK)
    return number if number is not None and abs(number) < 10**6 else None


def read_mark(value: Any) -> float | None:
    """A mark from 1 to 10, also as "9" or "9/10"; None for anything else."""
    is_long = isinstance(value, str) and len(value) > MAX_MARK_TEXT
    number = None if is_long else _number(value, MARK)
    return number if number is not None and LOWEST <= number <= HIGHEST else None


def _number(value: Any, form: re.Pattern[str]) -> float | None:
    """A number, or a text of that form; NaN is none."""
    match = form.fullmatch(value) if isinstance(value, str) else None
    value = match[1] if match else value
    is_number = match is not None or (isinstance(value, NUMBERS) and not isinstance(value, bool))
    return float(value) if is_number and (match or abs(value) < 10**9) else None


def shown(value: Any) -> str:
    """A value as a flag names it: short, on one line, and without walking into it."""
    if isinstance(value, str):
        return one_line(value, MAX_SHOWN)
    if isinstance(value, int) and abs(value) >= 10**MAX_SHOWN:
        return "a huge number"
    if value is None or isinstance(value, NUMBERS):
        return json.dumps(value)
    kind = "a list" if isinstance(value, LISTS) else type(value).__name__
    return "an object" if isinstance(value, dict) else kind


def one_line(text: str, limit: int) -> str:
    line = " ".join(text[: 4 * limit].split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


# -- rankings ------------------------------------------------------------------------------------

BETTER = re.compile(r"[-=]?[>≥≻→]{1,8}")
TIE = re.compile(r"\((?:it['’]s )?(?:a )?(?:tied?|equal|joint)\)", re.IGNORECASE)
EQUAL = re.compile(r"[=~≈≡]+|\btied? with\b")
AND = re.compile(r"\band\b|[&/,]")
NUMBERED = re.compile(
    r"[ \t*_#(]{0,20}+(?:(?:rank|place|no\.?|number)[ \t]{0,3}#?)?(\d{1,4})"
    r"(?:[ \t]?[.):](?!\d)|st\b|nd\b|rd\b|th\b)[:.)*_]{0,4}[ \t]{0,20}+(\S.{0,2000})",
    re.IGNORECASE,
)
INLINE_NUMBER = re.compile(r"[ \t,;]{1,8}+(?=[*_#(]{0,4}\d{1,3}[.):][*_)]{0,3}[ \t])")
UNFINISHED = re.compile(r"[ \t*_#(]{0,20}+(?:\d{1,4}[ \t.):]{0,4}|[-*•])[ \t]{0,20}")
BULLET = re.compile(r"[ \t]{0,20}+[-*•][ \t]{1,20}+(\S.{0,2000})")
LOW = r"(?:worst|weakest|least|lowest|poorest|bottom|bad)"
HIGH = r"(?:best|strongest|most|highest|top|good|better)"
WORST_FIRST = re.compile(
    rf"\b{LOW}\b\W{{0,3}}(?:(?:up )?to|through|until|towards?|→|[-=]{{0,3}}>|[-–—])"
    rf"\W{{0,3}}(?:the )?{HIGH}\b"
    rf"|\b{LOW}\W{{1,2}}(?:one )?(?:is |comes |goes |listed )?(?:first|on top|at the top)\b"
    rf"|\b{HIGH}\W{{1,2}}(?:one )?(?:is |comes |goes |listed )?(?:last|at the (?:bottom|end))\b"
    rf"|\blast\W{{1,3}}(?:is|=|being)\W{{0,3}}(?:the )?{HIGH}\b"
    rf"|\b(?:1|one|first)\W{{1,3}}(?:is|=|being|means)?\W{{0,3}}(?:the )?{LOW}\b"
    rf"|\b(?:with|from|at) the {LOW}\b|\b(?:rank|order|list)[^.\n]{{0,60}}\b(?:ascending|revers)"
    r"|du (?:pire|moins bon) au|vom (?:schlechtesten|schwächsten)|schlechteste[rsn]? zuerst"
    r"|(?:de|del) peor a|dal peggiore|do pior|от худш|最差到|从差到|由差到|最悪から|低い順",
    re.IGNORECASE,
)
# Words that mean it in a heading or a remark, and in a longer text may be about anything.
UPWARDS = re.compile(
    r"\b(?:ascending|increasing|reversed?|backwards?|aufsteigend|croissant|ascendente|crescente"
    r"|по возрастанию)\b",
    re.IGNORECASE,
)
MAX_HEADING = 48
WORST = re.compile(rf"\b{LOW}\b", re.IGNORECASE)
BEST = re.compile(
    r"(?<!second)(?<!next)(?<!nd)(?<!rd)[\W_](?:best|strongest|winner)\b", re.IGNORECASE
)


def by_rank(ranks: Sequence[tuple[str, float]]) -> Tiers:
    """Labels from the lowest rank up; equal ranks tie."""
    tiers: dict[float, tuple[str, ...]] = {}
    for label, rank in ranks:
        tiers[rank] = (*tiers.get(rank, ()), label)
    return [tiers[rank] for rank in sorted(tiers)]


def counts_up(numbers: Sequence[float]) -> bool:
    """Whether numbers are places from the first on: 1 2 3, 1 2 2 3 or 1 2 2 4."""
    if not numbers or numbers[0] != 1:
        return False
    return all(b in (a, a + 1, i + 2) for i, (a, b) in enumerate(pairwise(numbers)))


def says_worst_first(text: str) -> bool:
    """Whether a text says that what it introduces runs from the worst to the best."""
    text = text.replace("_", " ")
    if WORST_FIRST.search(text):
        return True
    return any(UPWARDS.search(line) for line in text.splitlines() if len(line) <= MAX_HEADING)


class Ranking:
    """Reads tiers of labels, best first, and notes what it had to leave out."""

    def __init__(self, labels: Labels) -> None:
        self.labels = labels
        self.dropped: list[str] = []
        self.unclear = ""  # why a ranking that names labels cannot be read

    def tiers(self, value: Any) -> Tiers:
        """The tiers of a ranking; none where it is unclear."""
        tiers: Tiers = []
        if isinstance(value, str):
            tiers = self.from_text(value)
        elif isinstance(value, dict):
            tiers = self._from_object(value)
        elif isinstance(value, LISTS):
            tiers = self._from_list(value)
        elif value is not None:
            self._drop(shown(value))
        return [] if self.unclear else tiers

    def names_a_label(self, tiers: Iterable[Iterable[str]]) -> bool:
        """Whether anything in these tiers is on the ballot, or would be on a longer one."""
        return any(self._is_label(name) for tier in tiers for name in tier)

    def _is_label(self, name: str) -> bool:
        return self.labels.find(name) is not None or LETTERS.fullmatch(name) is not None

    def _has_letter(self, text: str) -> bool:
        words = text[:MAX_LINE].split()
        return any(word.strip(WRAPPING).isupper() and self.labels.exactly(word) for word in words)

    def _give_up(self, why: str, names_labels: object = True) -> None:
        if names_labels:
            self.unclear = self.unclear or why

    def _drop(self, what: str) -> None:
        self.dropped.append(f"rank_dropped:{what}")

    def _first(self, items: Sequence[Any]) -> Sequence[Any]:
        """As many items as any ballot can use, repeats and strangers included."""
        if len(items) > MAX_ITEMS:
            self._drop(f"{len(items) - MAX_ITEMS} items")
        return items[:MAX_ITEMS]

    # -- labels in text

    def from_text(self, text: str) -> Tiers:
        """Tiers of "A > B = C"; without such signs, of lines or of a list with commas.

        Every part must name a label, or the text is a ranking of something else.
        """
        text = html.unescape(html.unescape(text)).strip()
        if says_worst_first(text):
            self._give_up("worst_first", self.labels.mentioned(text) or self._has_letter(text))
            return []
        if NUMBERED.match(text):
            text = INLINE_NUMBER.sub("\n", text)
        lines = [line for line in text.splitlines() if line.strip()]
        if any(map(NUMBERED.match, lines)):
            return self.numbered(self._first(lines))
        if BETTER.search(text):
            parts = BETTER.split(text)
        elif len(lines) > 1:
            parts = [match[1] if (match := BULLET.match(line)) else line for line in lines]
        else:
            parts = re.split("[,;]", text)
        parts = [part.strip(" \t\r\n-=") for part in self._first(parts)]
        tiers = [self.tied(part, alone=True) for part in parts if part]
        all_named = all(tier and all(map(self._is_label, tier)) for tier in tiers)
        if self.names_a_label(tiers):
            self._give_up("not_all_labels", not (all_named and parts[-1]))
        else:
            self._give_up("not_a_ranking", self.labels.mentioned(text[:MAX_LINE]))
        return tiers if all_named else []

    def numbered(self, items: Sequence[str], *, lazily: bool = False) -> Tiers:
        """Tiers of items that are all numbered; equal numbers tie.

        In Markdown, a list whose every number is the same is numbered when it is shown;
        elsewhere it may be a tie.
        """
        matches = [match for item in items if (match := NUMBERED.match(item[:MAX_LINE]))]
        tiers = [self.tied(match[2], alone=True) for match in matches]
        if not self.names_a_label(tiers):
            return []
        numbers = [float(match[1]) for match in matches]
        if len(tiers) < len(items) or not all(any(map(self._is_label, tier)) for tier in tiers):
            self._give_up("not_all_labels")
        elif lazily and set(numbers) == {1}:
            return tiers
        elif not counts_up(numbers) or len(set(numbers)) == 1 < len(numbers):
            self._give_up("numbered_otherwise")
        pairs = zip(tiers, numbers, strict=True)
        return by_rank([(name, number) for tier, number in pairs for name in tier])

    def tied(self, phrase: str, *, alone: bool = False) -> tuple[str, ...]:
        """The labels of "B", of "B = C", or of "B and C" where both are on the ballot.

        Where a phrase should stand alone, another label in its remark makes it unclear.
        """
        label = self.labels.exactly(phrase)
        if label is not None:
            return (label,)
        if NOT_APPLICABLE.fullmatch(phrase):
            return ()
        phrase = TIE.sub(" ", phrase)
        parts = EQUAL.split(phrase)
        if len(parts) == 1 and len(phrase) <= MAX_PHRASE:
            several = AND.split(phrase)
            parts = several if all(map(self.labels.exactly, several)) else parts
        names = []
        for part in filter(str.strip, parts):
            names.append(self.labels.read(part))
            self._give_up("lookalike_label", self.labels.is_lookalike(part))
            if self.labels.find(part) is None:
                self._give_up("not_a_label", self._has_letter(part))
            if alone:
                others = self.labels.mentioned(part[:MAX_LINE]) - {names[-1]}
                self._give_up("several_labels", others)
        return tuple(names)

    # -- labels in lists and objects

    def _from_list(self, items: Sequence[Any]) -> Tiers:
        items = self._first(items)
        texts = [item for item in items if isinstance(item, str)]
        if items and all(isinstance(item, dict) for item in items):
            named = [(label_of(item, self.labels), item) for item in items]
            if not any(name for name, _ in named) and all(len(item) == 1 for item in items):
                return self._from_object({key: item[key] for item in items for key in item})
            if tiers := self._by_inner_ranks([(name, item) for name, item in named if name]):
                return tiers
        elif any(map(NUMBERED.match, texts)) and not any(map(self.labels.exactly, texts)):
            return self.numbered(texts)
        ends = [item[:MAX_PHRASE] if isinstance(item, str) else "" for item in items]
        if len(items) > 1 and (WORST.search(ends[0]) or BEST.search(ends[-1])):
            self._give_up("worst_first")
        tiers = []
        for item in items:
            is_text = isinstance(item, str) and BETTER.search(html.unescape(item))
            if is_text and self.labels.exactly(item) is None:
                tiers += self.from_text(item)
            else:
                tiers += filter(None, [self._tier(item)])
        return tiers

    def _tier(self, item: Any) -> tuple[str, ...]:
        """The labels of one item of a list: one, or several in a list of their own."""
        inner = item if isinstance(item, LISTS) else (item,)
        numbers = [x for x in inner if isinstance(x, NUMBERS) and not self.labels.find(x)]
        self._give_up("numbers_in_a_tie", len(inner) > 1 and numbers)
        tier: tuple[str, ...] = ()
        for part in inner:
            name = label_of(part, self.labels)
            names = () if name is None else self.tied(name)
            tier += names
            if not names:
                self._drop(shown(part))
        return tier

    def _from_object(self, data: Mapping[Any, Any]) -> Tiers:
        """Tiers of an object from labels to ranks, or from ranks to labels."""
        inner = [(k, v) for k, v in data.items() if isinstance(v, dict) and isinstance(k, str)]
        is_nested = len(inner) == len(data) and not any(map(read_rank, data))
        if is_nested and (tiers := self._by_inner_ranks(inner)):
            return tiers
        ranks: list[tuple[str, float]] = []
        for key, value in data.items():
            rank, key_rank, name = read_rank(value), read_rank(key), phrase_of(key)
            if rank is not None and name is not None:
                self._give_up("lookalike_label", self.labels.is_lookalike(name))
                ranks.append((self.labels.read(name), rank))
            elif key_rank is not None and isinstance(value, str | list | tuple):
                tiers = self._from_list([value])
                ranks += [(label, key_rank) for tier in tiers for label in tier]
            else:
                self._drop(f"{shown(key)}={shown(value)}")
        if any(self.labels.find(name) for name, _ in ranks):
            self._check_ranks([rank for _, rank in ranks])
        return by_rank(ranks)

    def _by_inner_ranks(self, named: Sequence[tuple[str, Mapping[Any, Any]]]) -> Tiers:
        """Labels by the ranks in their objects; scores must not disagree with the order."""
        ranks = [read_rank(key_value(item, *RANK_KEYS)) or 0 for _, item in named]
        if any(ranks):
            self._give_up("ranks_missing", not all(ranks))
            self._check_ranks(ranks)
        ranked = sorted(zip(ranks, named, strict=True), key=lambda each: each[0])
        marks = [key_value(item, *MARK_KEYS) for _, (_, item) in ranked]
        marks = [mark if isinstance(mark, NUMBERS) else read_mark(mark) for mark in marks]
        if any(a < b for a, b in pairwise(mark for mark in marks if mark is not None)):
            self._give_up("scores_disagree")
        return by_rank([(self.labels.read(name), rank) for rank, (name, _) in ranked if rank])

    def _check_ranks(self, ranks: Iterable[float]) -> None:
        if not counts_up(sorted(ranks)):
            self._give_up("ranks_unlikely")


# -- replies without a verdict in JSON -------------------------------------------------------------


Told = tuple[dict[str, Any], tuple[str, ...]]  # a verdict as data, and how it was come by

FINAL_RANKING = re.compile(
    r"^[ \t*_#>\-]{0,20}+(?:(?:so|thus|overall|here is|here's|this is|my|the|our)[ ,:]{1,2}){0,3}"
    r"final[ \t_]{1,3}rankings?\b[ \t*_]{0,9}+(?:\([^()\n]{0,80}+\))?[ \t*_]{0,9}+"
    r"(?:[:=]|is\b|$)[ \t*_:]{0,9}+",
    re.IGNORECASE | re.MULTILINE,
)
REFUSAL = re.compile(
    r"\bI(?:['’]m| am) (?:sorry|unable|not able|not comfortable)|\bI (?:can(?:not|['’]t)|won['’]t"
    r"|will not|must decline|have to decline|refuse|decline)\b|\bas an AI\b|\bunable to (?:assist"
    r"|help|judge|evaluate|rank|comply)|\bcan(?:not|['’]t) (?:assist|help|comply|fulfil)",
    re.IGNORECASE,
)


def stated_in_prose(prose: str, labels: Labels) -> Told | str | None:
    """The verdict of a table or a final ranking, or of both where the table has no ranks.

    None where there is neither, and a reason where it can be read in two ways.
    """
    ranking = Ranking(labels)
    tiers = _final_ranking(prose, ranking)
    table = _last_table(prose, labels)
    if ranking.unclear or isinstance(table, str):
        return "ambiguous"
    if table is None:
        return ({"ranking": tiers}, ("final_ranking",)) if tiers else None
    if not tiers:
        return {"evaluations": table}, ("table",)
    ranks = {answer["label"]: answer["rank"] for answer in table if "rank" in answer}
    if ranks and ranking.tiers(ranks) != tiers:
        return "ambiguous"
    return {"evaluations": table, "ranking": tiers}, ("table", "final_ranking")


def _final_ranking(prose: str, ranking: Ranking) -> Tiers:
    """The tiers under the last "FINAL RANKING:" that names a label of the ballot."""
    end = len(prose)
    headings = list(FINAL_RANKING.finditer(prose))
    for heading in reversed(headings):
        tiers = _under(heading[0], prose[heading.end() : end], ranking)
        if ranking.unclear or any(ranking.labels.find(name) for tier in tiers for name in tier):
            line_end = prose.find("\n", heading.end())
            standing = standing_in(prose, heading.start(), line_end if line_end >= 0 else end)
            lead = lead_of(prose[max(0, heading.start() - MAX_LINE) : heading.start()])
            if lead and heading is not headings[0] and not OWN_WORDS.fullmatch(lead):
                standing = "doubtful"
            if standing != "quoted":
                ranking.unclear = ranking.unclear or ("" if standing == "own" else standing)
                return tiers
            ranking.unclear = ""
        end = heading.start()
    return []


def _under(heading: str, section: str, ranking: Ranking) -> Tiers:
    """What follows a heading: a ranking on the same or next line, else a list of items."""
    lines = [line[:MAX_LINE] for line in section.splitlines()[: 2 * MAX_ROWS] if line.strip()]
    first = lines[0].strip() if lines else ""
    listed = [line for line in lines if NUMBERED.match(line) or BULLET.match(line)]
    if NUMBERED.match(first) and not INLINE_NUMBER.search(lines[0]):
        tiers = _numbered_lines(lines, ranking)
    elif BULLET.match(first) and not NUMBERED.match(first):
        tiers = ranking.from_text("\n".join(listed))
    else:
        tiers = ranking.tiers(first)
    if not tiers:
        return []
    names = {ranking.labels.find(name) for tier in tiers for name in tier}
    is_short = len(names) < max(min(2, len(ranking.labels)), sum(map(len, tiers)))
    if None in names or is_short or UNFINISHED.fullmatch(lines[-1]):
        ranking.unclear = "unfinished"
    if says_worst_first("\n".join((heading, first, *listed, *lines[-1:]))):
        ranking.unclear = "worst_first"
    return tiers


def _numbered_lines(lines: list[str], ranking: Ranking) -> Tiers:
    """The first numbered list; remarks between its items are passed over."""
    items: list[str] = []
    last = 0
    for match in filter(None, map(NUMBERED.match, lines)):
        number = int(match[1])
        if items and number == 1 and last != 1:  # another list: of labels again?
            if ranking.labels.find(match[2]) is not None:
                ranking.unclear = "several_lists"
            break
        items.append(match[0])
        last = number
    return ranking.numbered(items, lazily=True)


# -- tables ----------------------------------------------------------------------------------------

TABLE = re.compile(r"(?:^[^\n|]*+\|[^\n]*+(?:\n|\Z)){2,}+", re.MULTILINE)
CELL_BORDER = re.compile(r"(?<!\\)\|")

Row = Sequence[str]


def _last_table(prose: str, labels: Labels) -> list[dict[str, Any]] | str | None:
    """The evaluations in the last Markdown table that has a rank or mark; a reason if unclear.

    Answers may stand in rows or in columns.
    """
    for table in reversed(list(TABLE.finditer(prose))):
        lines = [
            line
            for line in table[0].splitlines()
            if line.strip(" \t\r:-=+|") or "-" not in line  # no ruler
        ]
        rows: list[Row] = [_cells(line) for line in lines[:MAX_ROWS]]
        if len(rows) < 2:
            continue
        even = len({len(row) for row in rows}) == 1
        if sum(labels.find(cell) is not None for cell in rows[0]) > 1:  # turn it
            header, *columns = zip_longest(*rows, fillvalue="")
            rows = [header, *(column for column in columns if labels.find(column[0]))]
        answers = _answers(*rows, labels=labels)
        standing = standing_in(prose, table.start(), table.start() + 1)
        if standing == "quoted" or not any(map(_is_judged, answers)):
            continue
        names = {labels.find(answer["label"]) for answer in answers}
        clear = even and len(names) >= min(2, len(labels)) and standing == "own"
        named = [{name: cell for name, cell in one.items() if name} for one in answers]
        return named if clear else "unclear"
    return None


def _cells(line: str) -> Row:
    cells = CELL_BORDER.split(line.strip().removeprefix("|"), MAX_CELLS)
    cells = cells[:-1] if len(cells) > 1 and not cells[-1].strip() else cells
    return [cell.replace(r"\|", "|").strip(" \t*_`") for cell in cells]


def _answers(header: Row, *body: Row, labels: Labels) -> list[dict[str, Any]]:
    """The rows of a table as evaluations: words that are no mark are notes, blanks nothing."""
    counts = [
        sum(i < len(row) and labels.find(row[i]) is not None for row in body)
        for i in range(min(len(header), MAX_CELLS))
    ]
    at = counts.index(max(counts))
    answers: list[dict[str, Any]] = []
    for row in body if counts[at] else ():
        if at >= len(row) or not row[at]:
            continue
        answer: dict[str, Any] = {}
        notes = []
        for i, (name, cell) in enumerate(zip(header, row, strict=False)):
            if i != at and " " in cell and read_mark(cell) is None:
                notes.append(cell)
            elif i != at and cell:
                answer["rank" if fold_key(name) in RANK_KEYS else name] = cell
        answers.append({**answer, "label": row[at], "notes": notes})
    return answers


def _is_judged(answer: Mapping[str, Any]) -> bool:
    return read_rank(answer.get("rank")) is not None or any(
        read_mark(cell) is not None
        for name, cell in answer.items()
        if name not in ("label", "notes", "rank")
    )
