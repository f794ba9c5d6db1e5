"""What in a reply is not the reviewer's word: thoughts, quotations, blocks of the prompt."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Literal, NamedTuple

MENTION = "\"'`“”‘’"
TAG = re.compile(r"<(/?)(?:think|thinking|thought|reasoning)>", re.IGNORECASE)
BRACKET_TAG = re.compile(r"\[(/?)THINK\]")
FENCE = re.compile(r"\[(BEGIN|END) ([^\[\]\n]{1,200})\]")
QUOTATION = re.compile(r"^[ \t]{0,20}+>[^\n]*+", re.MULTILINE)


class Aside(NamedTuple):
    """A place where the reviewer stops or resumes speaking."""

    start: int
    end: int
    kind: Literal["thinks", "thought", "drifts", "quotes"]


def asides(text: str) -> list[Aside]:
    """Every place where something else than the reviewer's word begins or ends, in order."""
    marks: list[Aside] = []
    if "<" in text:
        marks += _tags(text, TAG)
    if "THINK]" in text:
        marks += _tags(text, BRACKET_TAG)
    if "[BEGIN " in text:
        marks += _fences(text)
    if ">" in text:
        marks += [Aside(m.start(), m.end(), "quotes") for m in QUOTATION.finditer(text)]
    marks.sort(key=lambda mark: mark.start)
    return marks


def _tags(text: str, tag: re.Pattern[str]) -> list[Aside]:
    """Thinking tags: an opening one reaches to the next closing one, or drifts to the end.

    A tag between quotation marks is spoken about, not used.
    """
    tags = [
        (m.start(), m.end(), bool(m[1]))
        for m in tag.finditer(text)
        if not between_quotes(text, m.start(), m.end())
    ]
    marks: list[Aside] = []
    end: int | None = None
    for start, stop, closes in reversed(tags):
        if closes:
            marks.append(Aside(start, stop, "thought"))
            end = stop
        elif end is None:
            marks.append(Aside(start, len(text), "drifts"))
        else:
            marks.append(Aside(start, end, "thinks"))
    return marks


def between_quotes(text: str, start: int, end: int) -> bool:
    """Whether a quotation mark or backtick stands right before and right after a span."""
    return start > 0 and end < len(text) and text[start - 1] in MENTION and text[end] in MENTION


def _fences(text: str) -> list[Aside]:
    """Blocks of the prompt that the reply repeats, from [BEGIN x] to the next [END x]."""
    ends: dict[str, list[tuple[int, int]]] = defaultdict(list)
    marks: list[Aside] = []
    for match in reversed(list(FENCE.finditer(text))):
        if match[1] == "END":
            ends[match[2]].append((match.start(), match.end()))
        elif ends[match[2]]:
            marks.append(Aside(match.start(), ends[match[2]][-1][1], "quotes"))
    return marks
