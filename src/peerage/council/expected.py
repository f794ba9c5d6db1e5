"""Answers held against the answer that a prompt expects: correct, not correct, or not known."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from decimal import Decimal, InvalidOperation

from peerage.events import Adjudicated
from peerage.types import Query, Response, Session

MAX_WORDS = 20  # a longer expected answer is a text to be like, which no comparison can decide
MARKS = "*_`$#>\"'“”‘’()[]{}.,;:!?"  # stripped off both ends
FINAL = re.compile(
    r"(?:\\boxed\s*\{(?P<boxed>[^{}]*)\})"
    r"|(?:\b(?:final\s+)?answer\b\s*(?:\*\*|__)?\s*(?:is|:|=)+\s*(?P<stated>[^\n]*))",
    re.IGNORECASE,
)
OPTION = re.compile(r"\(?(?P<letter>[A-Za-z0-9])[).:]\s")


def plain_answer(text: str) -> str:
    """Return a text as answers are compared: letter case, marks around it and blanks aside."""
    words = unicodedata.normalize("NFKC", text).casefold().split()
    bare = " ".join(words).strip(MARKS + " ")
    number = bare.replace(",", "").removesuffix("%")
    try:
        value = Decimal(number)
    except InvalidOperation:
        return bare
    return f"{value.normalize():f}" if value.is_finite() and abs(value.adjusted()) < 40 else bare


def is_correct(text: str, expected: Sequence[str]) -> float | None:
    """Return 1 where an answer is one of those expected, 0 where not, None where it is unclear.

    Its final answer counts: what follows "answer:" or stands in a box, else a last line of its
    own. A text without one is correct if the expected words stand in it.
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
    # A lone letter or digit in a text may be anything, so it is not known for an answer.
    is_clear = stated or not any(len(one) == 1 and _has_phrase(text, one) for one in short)
    return 0.0 if is_clear and len(short) == len(wanted) else None


def _own_lines(text: str) -> list[str]:
    """Return the last line of a text, and the words after its last equals sign."""
    last = next((line for line in reversed(text.splitlines()) if line.strip()), "")
    return [last, *last.rsplit("=", 1)[1:]]


def _has_phrase(text: str, phrase: str) -> bool:
    """Return whether the words of a phrase follow one another in a text."""
    words, wanted = ([plain_answer(word) for word in one.split()] for one in (text, phrase))
    starts = range(len(words) - len(wanted) + 1)
    return any(words[at : at + len(wanted)] == wanted for at in starts)


def correct_answers(session: Session, decision: Adjudicated | None) -> dict[str, float]:
    """Return 1 or 0 for each answer of which people or the prompt say if it is correct, by model.

    A decision that people took on the session's answers stands; the prompt says the rest.
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
