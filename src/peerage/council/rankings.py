"""Read labels and rankings in every shape that reviewers give them: lists, objects, text, tables.

A ranking that could be read in two ways is not read at all: `unclear` then says why.
"""

from __future__ import annotations

import html
import math
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from peerage.council.jsonish import MAX_CACHED, fold_key, key_value
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


def canonical_label(text: str) -> str:
    """The label in a phrase such as "**Response A**": here A.

    Letters become capitals, anything else small letters, so that labels compare without
    regard to case. A label of one's own ("red", "model-3") stays whole.
    """
    return _cached(text) if len(text) <= MAX_CACHED else _canonical(text)


def _canonical(text: str) -> str:
    text = " ".join(text.split())
    bare = text.strip(WRAPPING)
    joined = JOINED.fullmatch(bare)
    if joined:
        return joined[1]
    bare = bare.casefold()
    heading = HEADING.match(bare)
    while heading:
        bare = bare[heading.end() :]
        heading = HEADING.match(bare)
    match = WORD_AND_LETTERS.fullmatch(bare) or LETTERS.fullmatch(bare)
    return match[1].upper() if match else bare or text.casefold()


_cached = lru_cache(maxsize=4096)(_canonical)


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
        if text is None:
            return None
        label = self.exactly(text)
        if label is not None or NOT_APPLICABLE.fullmatch(text):
            return label
        text = text[:MAX_PHRASE]
        remark = REMARK.search(text, 1)
        if remark:
            label = self.exactly(text[: remark.start()])
        if label is None:
            match = NAMED_IN_FULL.match(text)
            label = self.exactly(match[1]) if match else None
        return label

    def read(self, phrase: str) -> str:
        """The label that a phrase names, or the phrase's own form."""
        label = self.find(phrase)
        return canonical_label(phrase) if label is None else label

    def mentioned(self, text: str) -> set[str]:
        """The labels of the ballot that a text names in full ("Response A"), anywhere."""
        found = (self.exactly(match[1]) for match in MENTIONED.finditer(text))
        return {label for label in found if label is not None}

    def is_lookalike(self, phrase: object) -> bool:
        """Whether a phrase seems to be a letter but is none of ours, as a Cyrillic А is not."""
        if not isinstance(phrase, str) or phrase.isascii() or self.find(phrase) is not None:
            return False
        text = _compatible(phrase[:MAX_PHRASE])
        remark = REMARK.search(text, 1)
        named = NAMED_IN_FULL.match(text)
        for part in (text, text[: remark.start()] if remark else "", named[1] if named else ""):
            words = part.strip(WRAPPING).split()
            letters = words[-1].strip(WRAPPING) if words and len(words) <= 2 else ""
            if letters and len(letters) <= 2 and letters.isalpha() and not letters.isascii():
                return True
        return False


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
    if isinstance(value, str):
        match = RANK.fullmatch(value)
        return float(match[1]) if match else None
    if isinstance(value, bool) or not isinstance(value, NUMBERS):
        return None
    return float(value) if abs(value) < 10**6 else None  # NaN is not below anything


def read_mark(value: Any) -> float | None:
    """A mark from 1 to 10, also as "9" or "9/10"; None for anything else."""
    if isinstance(value, str):
        match = MARK.fullmatch(value) if len(value) <= MAX_MARK_TEXT else None
        value = None if match is None else float(match[1])
    if isinstance(value, bool) or not isinstance(value, NUMBERS):
        return None
    return float(value) if LOWEST <= value <= HIGHEST else None


def shown(value: Any) -> str:
    """A value as a flag names it: short, on one line, and without walking into it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, int) and abs(value) >= 10**MAX_SHOWN:
        return "a huge number"
    if isinstance(value, str | int | float):
        return one_line(str(value), MAX_SHOWN)
    kinds = ((dict, "an object"), (LISTS, "a list"), (object, type(value).__name__))
    return next(name for kind, name in kinds if isinstance(value, kind))


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
    labels_by_rank: dict[float, list[str]] = {}
    for label, rank in ranks:
        labels_by_rank.setdefault(rank, []).append(label)
    return [tuple(labels_by_rank[rank]) for rank in sorted(labels_by_rank)]


def _counts_up(numbers: Sequence[float]) -> bool:
    """Whether the numbers of a list are places from the first on: 1 2 3, 1 2 2 3 or 1 2 2 4."""
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
            self._drop(value)
        return [] if self.unclear else tiers

    def names_a_label(self, value: Any) -> bool:
        if isinstance(value, list) and any(self.labels.find(item) for item in value):
            return True  # the usual case, told quickly
        named = any(self.labels.find(label) for tier in self.tiers(value) for label in tier)
        return named or bool(self.unclear)

    def is_all_labels(self, text: str) -> bool:
        """Whether a text is a ranking of labels on the ballot and nothing else."""
        tiers = [] if self.unclear else self.from_text(text)
        known = (self.labels.exactly(label) for tier in tiers for label in tier)
        return bool(tiers) and all(label is not None for label in known)

    def from_text(self, text: str) -> Tiers:
        """Tiers of "A > B = C"; without such signs, of lines or of a list with commas.

        Every part must name a label, or the text is a ranking of something else.
        """
        text = html.unescape(html.unescape(text)).strip()
        if says_worst_first(text):
            self._give_up("worst_first", self.labels.mentioned(text) or self._letters(text))
            return []
        if NUMBERED.match(text):
            text = INLINE_NUMBER.sub("\n", text)
        lines = [line for line in text.splitlines() if line.strip()]
        if any(NUMBERED.match(line) for line in lines):
            return self.numbered(self._first(lines))
        if BETTER.search(text):
            parts = BETTER.split(text)
        elif len(lines) > 1:
            parts = [match[1] if (match := BULLET.match(line)) else line for line in lines]
        else:
            parts = re.split("[,;]", text)
        parts = [part.strip(" \t\r\n-=") for part in self._first(parts)]
        tiers = [tuple(self.tied(part, alone=True)) for part in parts if part]
        named = [bool(tier) and all(map(self.is_label, tier)) for tier in tiers]
        some = any(self.is_label(name) for tier in tiers for name in tier)
        if some and not (all(named) and parts[-1]):
            self._give_up("not_all_labels")
        elif not some and self.labels.mentioned(text[:MAX_LINE]):
            self._give_up("not_a_ranking")
        return tiers if all(named) else []

    def _letters(self, text: str) -> bool:
        words = text[:MAX_LINE].split()
        return any(word.strip(WRAPPING).isupper() and self.labels.exactly(word) for word in words)

    def is_label(self, name: str) -> bool:
        return self.labels.find(name) is not None or LETTERS.fullmatch(name) is not None

    def _give_up(self, why: str, names_labels: object = True) -> None:
        if names_labels:
            self.unclear = self.unclear or why

    def numbered(self, items: Sequence[str], *, lazily: bool = False) -> Tiers:
        """Tiers of items that are all numbered; equal numbers tie.

        In Markdown, a list whose every number is the same is numbered when it is shown;
        elsewhere it may be a tie.
        """
        matches = [NUMBERED.match(item[:MAX_LINE]) for item in items]
        pairs = [
            (tuple(self.tied(match[2], alone=True)), float(match[1])) for match in matches if match
        ]
        if not any(self.is_label(name) for names, _ in pairs for name in names):
            return []
        numbers = [number for _, number in pairs]
        if len(pairs) < len(items) or not all(any(map(self.is_label, n)) for n, _ in pairs):
            self._give_up("not_all_labels")
        elif lazily and set(numbers) == {1}:
            return [names for names, _ in pairs]
        elif not _counts_up(numbers) or len(set(numbers)) == 1 < len(numbers):
            self._give_up("numbered_otherwise")
        return by_rank([(name, number) for names, number in pairs for name in names])

    def _first(self, items: Sequence[Any]) -> Sequence[Any]:
        """As many items as any ballot can use, repeats and strangers included."""
        if len(items) > MAX_ITEMS:
            self.dropped.append(f"rank_dropped:{len(items) - MAX_ITEMS} items")
        return items[:MAX_ITEMS]

    def _drop(self, value: Any) -> None:
        self.dropped.append(f"rank_dropped:{shown(value)}")

    def _from_list(self, items: Sequence[Any]) -> Tiers:
        items = self._first(items)
        if items and all(isinstance(item, dict) for item in items):
            tiers = self._from_objects(items)
            if tiers is not None:
                return tiers
        elif any(isinstance(item, str) and NUMBERED.match(item) for item in items):
            texts = [item for item in items if isinstance(item, str)]
            known = [self.labels.exactly(text) for text in texts]
            if not any(known):
                return self.numbered(texts)
        if len(items) > 1 and (
            (isinstance(items[0], str) and WORST.search(items[0][:MAX_PHRASE]))
            or (isinstance(items[-1], str) and BEST.search(items[-1][:MAX_PHRASE]))
        ):
            self._give_up("worst_first")
        tiers = []
        for item in items:
            label = self.labels.exactly(item) if isinstance(item, str) else None
            if label is not None:
                tiers.append((label,))
                continue
            if isinstance(item, str) and BETTER.search(html.unescape(item)):
                tiers += self.from_text(item)
                continue
            inner = item if isinstance(item, LISTS) else (item,)
            if len(inner) > 1 and any(
                isinstance(x, NUMBERS) and not self.labels.find(x) for x in inner
            ):
                self._give_up("numbers_in_a_tie")
            tier = tuple(label for part in inner for label in self._item(part))
            tiers += [tier] if tier else []
        return tiers

    def _from_objects(self, items: Sequence[Mapping[Any, Any]]) -> Tiers | None:
        """Tiers of objects that carry their rank; None where none does, and order counts."""
        names = [label_of(item, self.labels) for item in items]
        if not any(names) and all(len(item) == 1 for item in items):
            return self._from_object({key: item[key] for item in items for key in item})
        pairs = [
            (self.labels.read(name), item)
            for name, item in zip(names, items, strict=True)
            if name is not None
        ]
        return self._by_inner_ranks(pairs)

    def _by_inner_ranks(self, pairs: Sequence[tuple[str, Mapping[Any, Any]]]) -> Tiers | None:
        """Labels by the ranks in their objects, None without any; scores must not disagree."""
        ranks = [read_rank(key_value(item, *RANK_KEYS)) for _, item in pairs]
        marks = [key_value(item, *MARK_KEYS) for _, item in pairs]
        numbers = [m if isinstance(m, NUMBERS) else read_mark(m) for m in marks]
        ranked = [(name, rank) for (name, _), rank in zip(pairs, ranks, strict=True) if rank]
        if ranked and (len(ranked) < len(pairs) or not self._are_ranks(ranked)):
            self._give_up("ranks_missing" if len(ranked) < len(pairs) else "ranks_unlikely")
            return []
        order = sorted(range(len(pairs)), key=lambda i: ranks[i] or 0)
        scored = [number for i in order if (number := numbers[i]) is not None]
        if any(a < b for a, b in pairwise(scored)):
            self._give_up("scores_disagree")
        return by_rank(ranked) if ranked else None

    def _are_ranks(self, ranks: Sequence[tuple[str, float]]) -> bool:
        """Whether numbers beside labels can be places: they begin with 1 and leave none out."""
        return _counts_up(sorted(rank for _, rank in ranks))

    def _item(self, item: Any) -> Iterator[str]:
        """The label that one item of a list names, or labels if it ties them."""
        name = label_of(item, self.labels)
        if name is None or not name.strip() or NOT_APPLICABLE.fullmatch(name):
            self._drop(item)
        else:
            yield from self.tied(name)

    def tied(self, phrase: str, *, alone: bool = False) -> Iterator[str]:
        """The labels of "B", of "B = C", or of "B and C" where both are on the ballot.

        Where a phrase should stand alone, another label in its remark makes it unclear.
        """
        label = self.labels.exactly(phrase)
        if label is not None:
            yield label
            return
        if not phrase.strip() or NOT_APPLICABLE.fullmatch(phrase):
            return
        phrase = TIE.sub(" ", phrase)
        parts = EQUAL.split(phrase)
        if len(parts) == 1 and len(phrase) <= MAX_PHRASE:
            several = [self.labels.exactly(part) for part in AND.split(phrase)]
            parts = [part for part in several if part is not None]
            parts = parts if len(parts) == len(several) else [phrase]
        for part in parts:
            if self.labels.is_lookalike(part):
                self._give_up("lookalike_label")
            if part.strip():
                name = self.labels.read(part)
                if self.labels.find(part) is None and self._letters(part):
                    self._give_up("not_a_label")
                if alone and self.labels.mentioned(part[:MAX_LINE]) - {name}:
                    self._give_up("several_labels")
                yield name

    def _from_object(self, data: Mapping[Any, Any]) -> Tiers:
        """Tiers of an object from labels to ranks, or from ranks to labels."""
        inner = [
            (self.labels.read(k), v)
            for k, v in data.items()
            if isinstance(v, dict) and isinstance(k, str)
        ]
        if inner and len(inner) == len(data) and not any(read_rank(key) for key in data):
            tiers = self._by_inner_ranks(inner)
            if tiers is not None:
                return tiers
        ranks: list[tuple[str, float]] = []
        for key, value in data.items():
            rank, name = read_rank(value), phrase_of(key)
            key_rank = read_rank(key)
            if rank is not None and name is not None:
                if self.labels.is_lookalike(name):
                    self._give_up("lookalike_label")
                ranks.append((self.labels.read(name), rank))
            elif key_rank is not None and isinstance(value, str | list | tuple):
                tied = [label for tier in self._from_list([value]) for label in tier]
                ranks += [(label, key_rank) for label in tied]
            else:
                self.dropped.append(f"rank_dropped:{shown(key)}={shown(value)}")
        if ranks and not self._are_ranks(ranks):
            self._give_up("ranks_unlikely", any(self.labels.find(name) for name, _ in ranks))
        return by_rank(ranks)


# -- replies without a verdict in JSON -------------------------------------------------------------


class Stated(NamedTuple):
    """A verdict as data with folded keys, and how it was come by; or why it is unclear."""

    data: dict[str, Any]
    how: tuple[str, ...] = ()
    unclear: str = ""


FINAL_RANKING = re.compile(
    r"^[ \t*_#>\-]{0,20}+(?:(?:so|thus|overall|here is|here's|this is|my|the|our)[ ,:]{1,2}){0,3}"
    r"final[ \t_]{1,3}rankings?\b[ \t*_]{0,9}+(?:\([^()\n]{0,80}+\))?[ \t*_]{0,9}+"
    r"(?:[:=]|is\b|$)[ \t*_:]{0,9}+",
    re.IGNORECASE | re.MULTILINE,
)
CELL_BORDER = re.compile(r"(?<!\\)\|")
REFUSAL = re.compile(
    r"\bI(?:['’]m| am) (?:sorry|unable|not able|not comfortable)|\bI (?:can(?:not|['’]t)|won['’]t"
    r"|will not|must decline|have to decline|refuse|decline)\b|\bas an AI\b|\bunable to (?:assist"
    r"|help|judge|evaluate|rank|comply)|\bcan(?:not|['’]t) (?:assist|help|comply|fulfil)",
    re.IGNORECASE,
)

Row = list[str]


def is_refusal(prose: str) -> bool:
    """Whether somebody here declines; only asked where nothing else could be read."""
    return REFUSAL.search(prose) is not None


def stated_in_prose(prose: str, labels: Labels) -> Stated | None:
    """The verdict of a table or a final ranking, or of both where the table has no ranks."""
    ranking = Ranking(labels)
    tiers = _final_ranking(prose, ranking)
    table = next(_tables(prose, labels), None)
    if ranking.unclear or (table and table.unclear):
        return Stated({}, unclear=ranking.unclear or (table.unclear if table else ""))
    if table is None:
        return Stated({"ranking": tiers}, ("final_ranking",)) if tiers else None
    ranks = {
        answer["label"]: answer["rank"] for answer in table.data["evaluations"] if "rank" in answer
    }
    if not tiers:
        return table
    if ranks and ranking.tiers(ranks) != tiers:
        return Stated({}, unclear="table_disagrees")
    return Stated({**table.data, "ranking": tiers}, ("table", "final_ranking"))


def _final_ranking(prose: str, ranking: Ranking) -> Tiers:
    """The tiers under the last "FINAL RANKING:" that names a label of the ballot."""
    end = len(prose)
    headings = list(FINAL_RANKING.finditer(prose))
    for heading in reversed(headings):
        tiers = _under(heading[0], prose[heading.end() : end], ranking)
        if ranking.unclear or any(map(ranking.labels.find, (n for tier in tiers for n in tier))):
            line_end = prose.find("\n", heading.end())
            standing = standing_in(prose, heading.start(), line_end if line_end >= 0 else end)
            lead = lead_of(prose[max(0, heading.start() - MAX_LINE) : heading.start()])
            if lead and heading is not headings[0] and not OWN_WORDS.fullmatch(lead):
                standing = "doubtful"
            if standing != "quoted":
                if standing == "doubtful":
                    ranking.unclear = "doubtful"
                return tiers
            ranking.unclear = ""
        end = heading.start()
    return []


def _under(heading: str, section: str, ranking: Ranking) -> Tiers:
    """What follows a heading: a ranking on the same or next line, else a list of items."""
    lines = [line[:MAX_LINE] for line in section.splitlines()[: 2 * MAX_ROWS] if line.strip()]
    first = lines[0].strip() if lines else ""
    listed = [line for line in lines if NUMBERED.match(line) or BULLET.match(line)]
    if not NUMBERED.match(first) and not BULLET.match(first):
        tiers = ranking.tiers(first)
    elif NUMBERED.match(first):
        tiers = _numbered_lines(lines, ranking)
    else:
        items = (tuple(ranking.tied(match[1])) for line in lines if (match := BULLET.match(line)))
        tiers = [tier for tier in items if any(map(ranking.is_label, tier))]
    names = {ranking.labels.find(name) for tier in tiers for name in tier}
    is_short = len(names) < min(2, len(ranking.labels))
    if tiers and (None in names or is_short or len(names) < sum(map(len, tiers))):
        ranking.unclear = "unfinished"
    if tiers and UNFINISHED.fullmatch(lines[-1]):
        ranking.unclear = "unfinished"
    if tiers and says_worst_first("\n".join((heading, first, *listed, *lines[-1:]))):
        ranking.unclear = "worst_first"
    return tiers


def _numbered_lines(lines: list[str], ranking: Ranking) -> Tiers:
    """The first numbered list; remarks between its items are passed over."""
    if INLINE_NUMBER.search(lines[0]):
        return ranking.tiers(lines[0])
    items: list[str] = []
    last = 0
    for line in lines:
        match = NUMBERED.match(line)
        if match is None:
            continue
        number = int(match[1])
        if items and number == 1 and last != 1:  # another list: of labels again?
            if ranking.labels.find(match[2]) is not None:
                ranking.unclear = "several_lists"
            break
        items.append(line)
        last = number
    return ranking.numbered(items, lazily=True)


# -- tables ----------------------------------------------------------------------------------------


def _tables(prose: str, labels: Labels) -> Iterator[Stated]:
    """Verdicts in the markdown tables of a reply, the last table first.

    Answers may stand in rows or in columns. A table without a rank or mark is none.
    """
    for start, rows in reversed(list(_table_blocks(prose))):
        header, *body = rows
        columns = [i for i, cell in enumerate(header) if labels.find(cell)]
        if len(columns) > 1:
            answers = [
                {"label": header[i], **{row[0]: row[i] for row in body if i < len(row)}}
                for i in columns
            ]
        else:
            answers = _by_row(header, body, labels)
        if not any(map(_is_judged, answers)):
            continue
        data = {"evaluations": [_worded(answer) for answer in answers]}
        standing = standing_in(prose, start, start + 1)
        names = {labels.find(answer["label"]) for answer in answers}
        even = len({len(row) for row in rows}) == 1 and len(names) >= min(2, len(labels))
        if standing != "quoted":
            clear = even and standing == "own"
            yield Stated(data, ("table",), "" if clear else f"table_{standing if even else 'cut'}")


def _table_blocks(prose: str) -> Iterator[tuple[int, list[Row]]]:
    """Runs of at least two lines with cells, rulers left out, and where each begins."""
    rows: list[Row] = []
    at = start = 0
    for line in [*prose.splitlines(keepends=True), ""]:
        if "|" in line:
            start = start if rows else at
            if len(rows) < MAX_ROWS and not ("-" in line and not line.strip(" \t\r\n:-=+|")):
                cells = CELL_BORDER.split(line.strip().removeprefix("|"), MAX_CELLS)
                cells = cells[:-1] if len(cells) > 1 and not cells[-1].strip() else cells
                rows.append([cell.replace(r"\|", "|").strip(" \t*_`") for cell in cells])
        else:
            if len(rows) > 1:
                yield start, rows
            rows = []
        at += len(line)


def _by_row(header: Row, body: list[Row], labels: Labels) -> list[dict[str, str]]:
    width = min(len(header), MAX_CELLS)
    counts = [sum(i < len(row) and bool(labels.find(row[i])) for row in body) for i in range(width)]
    at = counts.index(max(counts))
    answers = []
    for row in body:
        if at < len(row) and row[at]:
            cells = {
                name: cell
                for i, (name, cell) in enumerate(zip(header, row, strict=False))
                if i != at
            }
            answers.append({**cells, "label": row[at]})
    return answers if counts[at] else []


def _is_judged(answer: dict[str, str]) -> bool:
    return any(
        read_rank(cell) is not None if fold_key(name) in RANK_KEYS else read_mark(cell) is not None
        for name, cell in answer.items()
        if name != "label"
    )


def _worded(answer: dict[str, str]) -> dict[str, Any]:
    """An answer's cells as an evaluation: words that are no mark are notes, blanks nothing."""
    worded: dict[str, Any] = {}
    notes = []
    for name, cell in answer.items():
        if name != "label" and " " in cell and read_mark(cell) is None:
            notes.append(cell)
        elif cell and name:
            worded["rank" if fold_key(name) in RANK_KEYS else name] = cell
    return {**worded, "notes": notes}
