"""Rankings in every shape that reviewers give them: lists, objects, lines of text."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from peerage.council.keys import key_value
from peerage.council.labels import MAX_PHRASE, Labels, phrase_of
from peerage.types import MAX_LABELS

Tiers = list[tuple[str, ...]]

MAX_SHOWN = 80
MAX_ITEMS = 4 * MAX_LABELS

NUMBERS = (int, float)
LISTS = (list, tuple)

LABEL_KEYS = ("label", "response", "answer", "candidate", "option", "id", "name", "model", "letter")
RANK_KEYS = ("rank", "place", "position", "ranking", "#")
RANK = re.compile(r"[*_#\s]*+(\d{1,4})\s*+(?:st|nd|rd|th)?[*_.)\s]*+", re.IGNORECASE)
BETTER = re.compile(r"[>≥≻→]+|-+>|=+>")
TIE = re.compile(r"\((?:it['’]s )?(?:a )?(?:tied?|equal|joint)\)", re.IGNORECASE)
EQUAL = re.compile(r"[=~≈≡]+|\btied? with\b")
AND = re.compile(r"\band\b|[&/,]")
LIST_ITEM = re.compile(
    r"^[ \t]{0,20}+(?:[-*•]|#?\d{1,4}[ \t]?[.):]|\d{1,4}(?:st|nd|rd|th)\b:?)[ \t]+", re.MULTILINE
)


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


def by_rank(ranks: Sequence[tuple[str, float]]) -> Tiers:
    """Labels from the lowest rank up; equal ranks tie."""
    labels_by_rank: dict[float, list[str]] = {}
    for label, rank in ranks:
        labels_by_rank.setdefault(rank, []).append(label)
    return [tuple(labels_by_rank[rank]) for rank in sorted(labels_by_rank)]


class Ranking:
    """Reads tiers of labels, best first, and notes what it had to leave out."""

    def __init__(self, labels: Labels) -> None:
        self.labels = labels
        self.dropped: list[str] = []

    def tiers(self, value: Any) -> Tiers:
        if isinstance(value, str):
            return self.from_text(value)
        if isinstance(value, dict):
            return self._from_object(value)
        if isinstance(value, LISTS):
            return self._from_list(value)
        if value is not None:
            self._drop(value)
        return []

    def names_a_label(self, value: Any) -> bool:
        if isinstance(value, list) and any(self.labels.find(item) for item in value):
            return True  # the usual case, told quickly
        return any(self.labels.find(label) for tier in self.tiers(value) for label in tier)

    def is_all_labels(self, text: str) -> bool:
        """Whether a text is a ranking of labels on the ballot and nothing else."""
        tiers = self.from_text(text)
        known = (self.labels.exactly(label) for tier in tiers for label in tier)
        return bool(tiers) and all(label is not None for label in known)

    def from_text(self, text: str) -> Tiers:
        """Tiers of "A > B = C"; without such signs, of lines or of a list with commas."""
        text = LIST_ITEM.sub("", text)
        if BETTER.search(text):
            parts = BETTER.split(text)
        else:
            parts = text.splitlines() if "\n" in text.strip() else re.split("[,;]", text)
        tiers = (tuple(self.tied(part)) for part in self._first(parts))
        return [tier for tier in tiers if tier]

    def _first(self, items: Sequence[Any]) -> Sequence[Any]:
        """As many items as any ballot can use, repeats and strangers included."""
        if len(items) > MAX_ITEMS:
            self.dropped.append(f"rank_dropped:{len(items) - MAX_ITEMS} items")
        return items[:MAX_ITEMS]

    def _drop(self, value: Any) -> None:
        self.dropped.append(f"rank_dropped:{shown(value)}")

    def _from_list(self, items: Sequence[Any]) -> Tiers:
        items = self._first(items)
        objects = [item for item in items if isinstance(item, dict)]
        if objects and len(objects) == len(items):
            tiers = self._from_objects(objects)
            if tiers is not None:
                return tiers
        tiers = []
        for item in items:
            label = self.labels.exactly(item) if isinstance(item, str) else None
            if label is not None:
                tiers.append((label,))
                continue
            if isinstance(item, str) and BETTER.search(item):
                tiers += self.from_text(item)
                continue
            inner = item if isinstance(item, LISTS) else (item,)
            tier = tuple(label for part in inner for label in self._item(part))
            tiers += [tier] if tier else []
        return tiers

    def _from_objects(self, items: Sequence[Mapping[Any, Any]]) -> Tiers | None:
        """Tiers of objects that carry their rank; None where some do not, and order counts."""
        names = [label_of(item, self.labels) for item in items]
        if not any(names) and all(len(item) == 1 for item in items):
            return self._from_object({key: item[key] for item in items for key in item})
        ranks = [read_rank(key_value(item, *RANK_KEYS)) for item in items]
        pairs = [
            (self.labels.read(name), rank)
            for name, rank in zip(names, ranks, strict=True)
            if name is not None and rank is not None
        ]
        return by_rank(pairs) if len(pairs) == len(items) else None

    def _item(self, item: Any) -> Iterator[str]:
        """The label that one item of a list names, or labels if it ties them."""
        name = label_of(item, self.labels)
        if name is None or not name.strip():
            self._drop(item)
        else:
            yield from self.tied(name)

    def tied(self, phrase: str) -> Iterator[str]:
        """The labels of "B", of "B = C", or of "B and C" where both are on the ballot."""
        if not phrase.strip():
            return
        label = self.labels.exactly(phrase)
        if label is not None:
            yield label
            return
        phrase = TIE.sub(" ", phrase)
        parts = EQUAL.split(phrase)
        if len(parts) == 1 and len(phrase) <= MAX_PHRASE:
            several = [self.labels.exactly(part) for part in AND.split(phrase)]
            parts = [part for part in several if part is not None]
            parts = parts if len(parts) == len(several) else [phrase]
        yield from (self.labels.read(part) for part in parts if part.strip())

    def _from_object(self, data: Mapping[Any, Any]) -> Tiers:
        """Tiers of an object from labels to ranks, or from ranks to labels."""
        ranks: list[tuple[str, float]] = []
        for key, value in data.items():
            inner = key_value(value, *RANK_KEYS) if isinstance(value, dict) else value
            rank, name = read_rank(inner), phrase_of(key)
            key_rank = read_rank(key)
            if rank is not None and name is not None:
                ranks.append((self.labels.read(name), rank))
            elif key_rank is not None and isinstance(value, str | list | tuple):
                tied = [label for tier in self._from_list([value]) for label in tier]
                ranks += [(label, key_rank) for label in tied]
            else:
                self.dropped.append(f"rank_dropped:{shown(key)}={shown(inner)}")
        return by_rank(ranks)
