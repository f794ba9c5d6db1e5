"""Answers compared with a prompt's expected answer: correct, not correct, or unknown."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from decimal import Decimal, InvalidOperation

from peerage.events import Adjudicated
from peerage.types import Query, Response, Session

MAX_WORDS = 20  # longer expected answers are samples, which cannot be compared literally
MARKS = "*_`$#>\"'“”‘’()[]{}.,;:!?"  # stripped off both ends
FINAL = re.compile(
    r"(?:\\boxed\s*\{(?P<boxed>[^{}]*)\})"
    r"|(?:\b(?:final\s+)?answer\b\s*(?:\*\*|__)?\s*(?:is|:|=)+\s*(?P<stated>[^\n]*))",
    re.IGNORECASE,
)
OPTION = re.compile(r"\(?(?P<letter>[A-Za-z0-9])[).:]\s")


def plain_answer(text: str) -> str:
    """Return a text for comparison: in lower case, trimmed, with numbers in one form."""
    words = unicodedata.normalize("NFKC", text).casefold().split()
    bare = " ".join(words).strip(MARKS + " ")
    number = bare.replace(",", "").removesuffix("%")
    try:
        value = Decimal(number)
    except InvalidOperation:
        return bare
    return f"{value.normalize():f}" if value.is_finite() and abs(value.adjusted()) < 40 else bare


def is_correct(text: str, expected: Sequence[str]) -> float | None:
    """Return 1 if an answer is one of the expected ones, 0 if not, None if it is unclear.

    The final answer counts: the text after "answer:", the text in a box, or the last line. A text
    without a final answer is correct if it contains the expected words.
    """
    wanted = [plain for one in expected if (plain := plain_answer(one))]
    if not wanted:
        return None
    if {plain_answer(text), *map(plain_answer, _own_lines(text))} & set(wanted):
        return 1.0
    short = [one for one in wanted if len(one.split()) <= MAX_WORDS]
    finals = [match["boxed"] or match["stated"] or "" for match in FINAL.finditer(text)]
    stated = [one for one in finals if plain_answer(one)][-1:]
    option = OPTION.match(text.lstrip())
    if option and any(len(one) == 1 for one in short):
        stated = stated or [option["letter"]]
    if not short:
        return None
    for one in short:
        if stated and plain_answer(stated[0]) == one:
            return 1.0
        if len(one) > 1 and _has_phrase(stated[0] if stated else text, one):
            return 1.0
        first = OPTION.match(stated[0].lstrip() + " ") if stated else None
        if len(one) == 1 and first and first["letter"].casefold() == one:
            return 1.0
    # A single letter or digit in a text need not be the answer, so the result is then unknown.
    is_clear = stated or not any(len(one) == 1 and _has_phrase(text, one) for one in short)
    return 0.0 if is_clear and len(short) == len(wanted) else None


def _own_lines(text: str) -> list[str]:
    """Return the last line of a text, and the words after that line's last equals sign."""
    last = next((line for line in reversed(text.splitlines()) if line.strip()), "")
    return [last, *last.rsplit("=", 1)[1:]]


def _has_phrase(text: str, phrase: str) -> bool:
    """Return whether a text contains the words of a phrase in sequence."""
    words, wanted = ([plain_answer(word) for word in one.split()] for one in (text, phrase))
    starts = range(len(words) - len(wanted) + 1)
    return any(words[at : at + len(wanted)] == wanted for at in starts)


def correct_answers(session: Session, decision: Adjudicated | None) -> dict[str, float]:
    """Return, by model, 1 or 0 for each answer that people or the prompt say is correct or not.

    People's decision on the session's answers comes first; the prompt decides the rest.
    """
    judged = decision.judged if decision else ()
    by_people = {name: float(decision is not None and name in decision.correct) for name in judged}
    return {**_by_prompt(session.query, session.responses), **by_people}


def _by_prompt(query: Query, responses: Iterable[Response]) -> dict[str, float]:
    answers = [one for one in responses if one.text.strip()]
    if query.correct is not None:
        return {one.model: float(one.model in query.correct) for one in answers}
    known = {one.model: is_correct(one.final, query.expected) for one in answers}
    return {model: value for model, value in known.items() if value is not None}
