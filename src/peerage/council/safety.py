"""The safety gate: each answer passes, or fails with the phrase that failed it.

A pattern gate is a tripwire, not a moderator: it knows the phrases of its table and the
sentence around them, in English, and nothing of meaning. Harm that is paraphrased, spelt with
digits or spread over sentences passes; a crime told in a novel may fail. A model that
moderates plugs in behind the same interface (`Moderator`).

A phrase is excused by its own sentence alone. The next sentence can take an excuse away (a
refusal followed by "here's how:"), never give one, so that no harmless sentence covers for a
harmful one. A text of any length is screened to its end, in time linear in its length.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, NamedTuple, TypeAlias

from peerage.council.safety_patterns import CONTEXTS, HOW, PATTERNS, PII, RELAPSE
from peerage.errors import InputError
from peerage.plugins import Registry
from peerage.types import Gate, Response

REACH = 200  # characters of flat text that a context may lie from its match, either side
EXCERPT = 80

Moderator: TypeAlias = Callable[[Sequence[Response]], Sequence[Gate] | Awaitable[Sequence[Gate]]]
"""Anything that gives one gate per response, in order; one that calls a model returns an
awaitable, which the orchestrator awaits. Hand the result to `one_gate_each`."""


class Moderators(Registry[Moderator]):
    """Moderators by name; third parties use the entry point group `peerage.moderators`."""

    def _load_built_ins(self) -> None:
        """The one that is built in is registered below."""


moderators = Moderators("moderator", "peerage.moderators")


@moderators.register("patterns")
def screen(responses: Sequence[Response]) -> tuple[Gate, ...]:
    """One gate per response, in order; a failed one names its first unexcused match."""
    return tuple(_gate(response) for response in responses)


def one_gate_each(responses: Sequence[Response], gates: Sequence[Gate]) -> tuple[Gate, ...]:
    """The gates, if there is one per response in the same order.

    A moderator that skips an answer must not pass it by silence.
    """
    if [gate.model for gate in gates] != [response.model for response in responses]:
        raise InputError(
            f"the moderator gave {len(gates)} gates for {len(responses)} responses, "
            "or gave them in another order.",
            place="safety_gate",
            hint="A moderator returns one Gate per response, in the order it was given them.",
        )
    return tuple(gates)


def safety_metadata(gates: Iterable[Gate]) -> dict[str, Any]:
    """The gates as a session's metadata has them; where one model has several, a failure stands."""
    standing: dict[str, Gate] = {}
    for gate in gates:
        known = standing.get(gate.model)
        if known is None or (known.passed and not gate.passed):
            standing[gate.model] = gate
    return {
        "failed_models": [model for model, gate in standing.items() if not gate.passed],
        "results": {
            model: {
                "passed": gate.passed,
                "family": gate.family or None,
                "pattern": gate.pattern or None,
                "span": list(gate.span) if gate.span else None,
                "excerpt": gate.excerpt or None,
            }
            for model, gate in standing.items()
        },
    }


# -- matches and their sentences ---------------------------------------------------------------


class _Match(NamedTuple):
    """A phrase of the table found in a text: where in the original, and where in the flat text."""

    span: tuple[int, int]
    start: int
    end: int
    family: str
    name: str


@cache
def compiled(phrase: str) -> re.Pattern[str]:
    """A phrase of flat text as a regular expression; compiled when first used."""
    return re.compile(phrase.replace(" ", r"[^\w.]"))


@cache
def _any_phrase() -> re.Pattern[str]:
    """Every phrase of flat text in one expression, each a group, with the how-to before it."""
    phrases = (
        f"(?P<{name}>{phrase})" for (family, name), phrase in PATTERNS.items() if family != PII
    )
    return compiled(rf"\b(?:{HOW} )?(?:{'|'.join(phrases)})")


def _gate(response: Response) -> Gate:
    reading = read(response.text)
    excused_ends: set[int] = set()
    for match in sorted(_matches(reading)):
        if _is_listed(match, reading.flat, excused_ends) or _is_excused(match, reading.flat):
            excused_ends.add(match.end)
            continue
        start, end = match.span
        excerpt = response.text[start:end]
        if len(excerpt) > EXCERPT:
            excerpt = excerpt[: EXCERPT - 1] + "…"
        return Gate(response.model, False, match.family, match.name, match.span, excerpt)
    return Gate(response.model, True)


def _matches(reading: FoldedText) -> Iterator[_Match]:
    families = {name: family for family, name in PATTERNS}
    for match in _any_phrase().finditer(reading.flat):
        name = match.lastgroup or ""
        span = reading.flat_origin[match.start()], reading.flat_origin[match.end() - 1] + 1
        yield _Match(span, *match.span(), families[name], name)
    origin = reading.folded_origin
    for (family, name), phrase in PATTERNS.items():
        for match in compiled(phrase).finditer(reading.folded) if family == PII else ():
            if name != "payment_card" or luhn_holds(match.group()):
                span = origin[match.start()], origin[match.end() - 1] + 1
                start, end = (bisect_left(reading.flat_origin, index) for index in span)
                yield _Match(span, start, end, family, name)


def luhn_holds(text: str) -> bool:
    """Whether the digits carry a valid check digit (ISO/IEC 7812-1)."""
    digits = [int(mark) for mark in text if mark.isdecimal()]
    doubled = (sum(divmod(2 * digit, 10)) for digit in digits[-2::-2])
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _is_listed(match: _Match, flat: str, excused_ends: set[int]) -> bool:
    """Whether it stands right after an excused match: "build a gun, make a bomb"."""
    return any(
        flat.endswith(joint, 0, match.start) and match.start - len(joint) in excused_ends
        for joint in (",", ",or ", ",and ", " or ", " and ", "•")
    )


def _is_excused(match: _Match, flat: str) -> bool:
    """Whether a context of the match's family is found in its sentence, and not taken back."""
    before = flat[max(0, match.start - REACH) : match.start]
    end = _sentence_end(flat, match.end)
    following = flat[end + 1 : _sentence_end(flat, end + 1)]
    sentence = (
        f"{SENTENCE_END.split(before)[-1]}<{flat[match.start : match.end]}>"
        f"{flat[match.end : end]}.{following}"
    )
    if match.family != PII and compiled(RELAPSE).search(sentence):
        return False
    contexts = (
        compiled(phrase).search(sentence)
        for (families, _), phrase in CONTEXTS.items()
        if match.family in families
    )
    return any(context and not context.groupdict().get("undone") for context in contexts)


def _sentence_end(flat: str, start: int) -> int:
    end = SENTENCE_END.search(flat, start, start + REACH)
    return end.start() if end else min(len(flat), start + REACH)


# -- flat text ---------------------------------------------------------------------------------

WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
NUMBERED = re.compile(r"\d{1,2}[.)]\s")  # 988 is no list number
BULLETS = frozenset("-*+•·–—")
STOPS = ".!?…。"
SENTENCE_END = re.compile(r"[.\n]")
ABBREVIATIONS = ("e.g", "i.e", "a.k.a", "u.s", "u.k", " vs", " dr", " mr", " mrs", " ms", " cf")
FOLDS = str.maketrans(
    {
        **dict.fromkeys("‘’ʼ′＇`´‛", "'"),
        **dict.fromkeys("‐‑‒−﹣－", "-"),
        **dict.fromkeys("\v\f\x85\u2028\u2029", "\n"),
        "\r": " ",  # a CRLF is one line break, not two
    }
)


@dataclass(frozen=True, slots=True)
class FoldedText:
    """One text twice over, folded and flat; each `origin` leads back to the text's characters."""

    folded: str
    folded_origin: array[int]
    flat: str
    flat_origin: array[int]


def read(text: str) -> FoldedText:
    """The text as flat words, with one separator character after each that tells what stood there.

        " " nothing that matters     "," ";" ":" "—" as they are     "•" the next item of a list
        "." the end of a sentence    "\\n" the end of a line or paragraph that is not one

    Full-width and accented letters, zero-width marks and curly apostrophes are levelled. Letters
    spaced out, digits for letters, look-alikes from other alphabets and words run together are
    not undone: a tripwire need not be a decoder.
    """
    folded, folded_origin = _fold(text)
    words = [word.span() for word in WORD.finditer(folded)]
    nexts = [start for start, _ in words[1:]] + [len(folded)]
    pieces: list[str] = []
    origin = array("q")
    in_list = False
    number = bool(words) and NUMBERED.match(folded, words[0][0]) is not None
    for (start, end), after in zip(words, nexts, strict=False):
        mark = folded[end:after]
        if mark != " " or number:
            breaks = "\n" in mark
            low = after < len(folded) and text[folded_origin[after]].islower()
            mark = " " if number else _separator(folded, end, after, low, in_list)
            number = breaks and NUMBERED.match(folded, after) is not None
            in_list = (breaks and mark == ":") or (in_list and mark not in ".\n")
        pieces += folded[start:end], mark
        origin.extend(folded_origin[start:end])
        origin.append(folded_origin[end] if end < len(folded) else len(text))
    return FoldedText(folded, folded_origin, "".join(pieces), origin)


def _fold(text: str) -> tuple[str, array[int]]:
    """Lower case, compatibility forms undone, invisible marks dropped; and each one's index."""
    if text.isascii():
        return text.lower().translate(FOLDS), array("q", range(len(text)))
    pieces = [_fold_character(character) for character in text]
    origin = array("q", (index for index, piece in enumerate(pieces) for _ in piece))
    return "".join(pieces), origin


@lru_cache(maxsize=4096)
def _fold_character(character: str) -> str:
    plain = unicodedata.normalize("NFKD", character.translate(FOLDS)).casefold().translate(FOLDS)
    if len(plain) > 4:  # a phrase in one character would let a text grow eighteenfold
        return character
    return "".join(mark for mark in plain if unicodedata.category(mark) not in ("Mn", "Cf"))


def _separator(folded: str, start: int, end: int, low: bool, in_list: bool) -> str:
    """The one character that stands for all there is between two words, or after the last.

    `low` says that a small letter follows: after a line break that is a wrapped line, after
    an ellipsis a sentence that goes on.
    """
    gap = folded[start:end]
    n_breaks = gap.count("\n")
    bullet = gap.rpartition("\n")[2].strip()
    if n_breaks and (BULLETS.issuperset(bullet or " ") or NUMBERED.match(folded, end)):
        return ":" if ":" in gap else "•" if in_list else "\n"
    if _ends_sentence(folded, start, end, low):
        return "."
    if n_breaks > 1 or (n_breaks and not low and not {":", ","}.intersection(gap)):
        return "\n"
    if any(dash in gap for dash in ("—", "–", "--", " - ")):
        gap = "—"
    return next((mark for mark in ":;,—" if mark in gap), " ")


def _ends_sentence(folded: str, start: int, end: int, low: bool) -> bool:
    gap = folded[start:end]
    stop = max(map(gap.rfind, STOPS))
    if end == len(folded) or "。" in gap:
        return True
    if stop < 0:
        return False
    if not any(map(str.isspace, gap[stop:])):  # "sorry.Build" ends; "make.a", "U.S.", "3.5" do not
        words = folded[start - 2 : start] + folded[end]
        return gap[0] in STOPS and words.isalpha() and not low
    if "\n" in gap:
        return True
    if folded.endswith(ABBREVIATIONS, 0, start) and gap[0] == ".":
        return False
    return not (low and ("…" in gap or ".." in gap))
