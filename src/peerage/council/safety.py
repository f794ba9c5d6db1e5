"""The safety gate, and answers that look like refusals.

Each answer passes the gate, or fails because of a phrase, which is reported. The gate is a
tripwire, not a moderator: it knows the English phrases of its table, and it checks whether the same
sentence refuses, forbids, warns against or reports them. Harm that is paraphrased, spelt with
digits or spread over several sentences passes; a crime in a novel may fail. A moderating model can
be plugged in through the same interface (`Moderator`).

A refusal is judged like any other answer, since declining may be right. It is only marked, so that
tables show it.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from array import array
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple, TypeAlias

from peerage.errors import InputError
from peerage.messages import steps_of
from peerage.registry import Registry
from peerage.types import Gate, Response

REACH = 200  # characters of flat text before and after a match that may excuse it
EXCERPT = 80
RESULT = ("passed", "family", "pattern", "span", "excerpt")

Moderator: TypeAlias = Callable[[Sequence[Response]], Sequence[Gate] | Awaitable[Sequence[Gate]]]
"""A function that returns one gate per response, in order; if it calls a model, it returns an
awaitable. Check the result with `one_gate_each`."""


class Moderators(Registry[Moderator]):
    """Moderators by name; third parties use the entry point group `peerage.moderators`."""

    def _load_built_ins(self) -> None:
        """Load nothing: the built-in moderator is registered below."""


moderators = Moderators("moderator", "peerage.moderators")


@moderators.register("patterns")
def screen(responses: Sequence[Response]) -> tuple[Gate, ...]:
    """Return one gate per response, in order; a failed gate names the first unexcused match."""
    return tuple(_gate(response) for response in responses)


def one_gate_each(responses: Sequence[Response], gates: Sequence[Gate]) -> tuple[Gate, ...]:
    """Return the gates, or raise an error unless there is one per response in the same order.

    A moderator that skips an answer must not let it pass.
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
    """Return the gates for a session's metadata; a failure replaces a pass."""
    standing: dict[str, Gate] = {}
    for gate in gates:
        known = standing.get(gate.model)
        if known is None or (known.passed and not gate.passed):
            standing[gate.model] = gate
    return {
        "failed_models": [model for model, gate in standing.items() if not gate.passed],
        "results": {
            model: {name: getattr(gate, name) or None for name in RESULT} | {"passed": gate.passed}
            for model, gate in standing.items()
        },
    }


# -- the table ---------------------------------------------------------------------------------

PII = "pii_exposure"  # searched in text that keeps its punctuation


def _read_table() -> dict[str, Any]:
    """Return the tables of `safety.toml`, with each %NAME% replaced by the words of that name."""
    text = files("peerage.council").joinpath("safety.toml").read_text("utf-8")
    words = tomllib.loads(text)["words"]
    for name, word in reversed(words.items()):  # a word may contain names of earlier words
        text = text.replace(f"%{name}%", word)
    return tomllib.loads(text)


TABLE = _read_table()
HOW: str = TABLE["words"]["HOW"]
PATTERNS = {
    (family, name): phrase
    for family, phrases in TABLE["phrases"].items()
    for name, phrase in phrases.items()
}


class _Match(NamedTuple):
    """A match of a phrase in a text: its place in the original and in the flat text."""

    span: tuple[int, int]
    start: int
    end: int
    family: str
    name: str


@lru_cache(maxsize=1024)
def compile_phrase(phrase: str) -> re.Pattern[str]:
    """Return a phrase as a regular expression over flat text, compiled on first use."""
    return re.compile(phrase.replace(" ", r"[^\w.]"))


def _gate(response: Response) -> Gate:
    authored = _own_text(response)
    text = FlatText(authored)
    for match in sorted(_matches(text)):
        if not _is_excused(match, text.flat):
            excerpt = authored[slice(*match.span)]
            excerpt = excerpt if len(excerpt) <= EXCERPT else excerpt[: EXCERPT - 1] + "…"
            return Gate(response.model, False, match.family, match.name, match.span, excerpt)
    return Gate(response.model, True)


def _own_text(response: Response) -> str:
    """Return what the model itself wrote: texts and arguments of tool calls, without results."""
    if not response.messages:
        return response.text
    steps = steps_of(response.messages)
    return "\n\n".join(text for kind, _, text in steps if kind in ("assistant", "call"))


def _matches(text: FlatText) -> Iterator[_Match]:
    for (family, name), phrase in PATTERNS.items():
        is_pii = family == PII
        form = phrase if is_pii else rf"\b(?:{HOW} )?(?:{phrase})"
        origin = text.folded_origin if is_pii else text.flat_origin
        for match in compile_phrase(form).finditer(text.folded if is_pii else text.flat):
            span = origin[match.start()], origin[match.end() - 1] + 1
            if name != "payment_card" or luhn_holds(match[0]):
                start, end = (bisect_left(text.flat_origin, index) for index in span)
                yield _Match(span, start, end, family, name)


def luhn_holds(text: str) -> bool:
    """Return whether the digits end in a valid check digit (ISO/IEC 7812-1)."""
    digits = [int(mark) for mark in text if mark.isdecimal()]
    doubled = (sum(divmod(2 * digit, 10)) for digit in digits[-2::-2])
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _is_excused(match: _Match, flat: str) -> bool:
    """Return whether the sentence of a match excuses it and the next one does not revoke that."""
    before = re.split(r"[.\n]", flat[max(0, match.start - REACH) : match.start])[-1]
    after, following, *_ = (
        *re.split(r"[.\n]", flat[match.end : match.end + REACH], maxsplit=2),
        "",
    )
    sentence = f"{before}<{flat[match.start : match.end]}>{after}.{following}"
    if match.family != PII and compile_phrase(TABLE["relapse"]["relapse"]).search(sentence):
        return False
    excuses = dict(TABLE["excuses"].get(match.family, {}))
    excuses |= TABLE["excuses"]["any"] if match.family != PII else {}
    return any(compile_phrase(phrase).search(sentence) for phrase in excuses.values())


# -- flat text ---------------------------------------------------------------------------------

WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
SENTENCE_END = re.compile(r"[.!?…](?!\S*$)|[;。]|[.!?…]\W*\Z(?<![\w\s])|[.!?]$")
LIST_ITEM = re.compile(r"\n[ \t]*[-*•]\s*\Z")
FOLDS = str.maketrans(
    {
        **dict.fromkeys("‘’ʼ′＇`´‛", "'"),
        **dict.fromkeys("‐‑‒−﹣－", "-"),
        **dict.fromkeys("\v\f\x85\u2028\u2029", "\n"),
        "\r": " ",
    }
)


class FlatText:
    """A text in two normalised forms, folded and flat, with the original place of each character.

    Folded: lower case, with full-width and accented letters, curly apostrophes and invisible marks
    normalised. Flat: its words, each followed by one character: "." at the end of a sentence, a
    line break at the end of a line that is not wrapped, "," or ":" from the text, else a space.
    """

    def __init__(self, text: str) -> None:
        pieces = [_fold_character(character) for character in text]
        self.folded = "".join(pieces)
        self.folded_origin = array("q", (i for i, piece in enumerate(pieces) for _ in piece))
        words = [word.span() for word in WORD.finditer(self.folded)]
        nexts = [*(start for start, _ in words[1:]), len(self.folded)][: len(words)]
        flat: list[str] = []
        self.flat_origin = array("q")
        for (start, end), after in zip(words, nexts, strict=True):
            low = after < len(self.folded) and text[self.folded_origin[after]].islower()
            is_end = after == len(self.folded)
            flat += (
                self.folded[start:end],
                "." if is_end else _separator(self.folded[end:after], low),
            )
            self.flat_origin.extend(self.folded_origin[start:end])
            is_last = end == len(self.folded)
            self.flat_origin.append(len(text) if is_last else self.folded_origin[end])
        self.flat = "".join(flat)


@lru_cache(maxsize=4096)
def _fold_character(character: str) -> str:
    plain = unicodedata.normalize("NFKD", character.translate(FOLDS)).casefold().translate(FOLDS)
    if len(plain) > 4:  # a character may stand for a phrase of up to 18 characters
        return character
    return "".join(mark for mark in plain if unicodedata.category(mark) not in ("Mn", "Cf"))


def _separator(gap: str, low: bool) -> str:
    """Return the one character for the gap between two words; `low`: lower case follows."""
    if len(gap) > 2 * REACH:  # its ends are enough, and the time stays linear
        gap = gap[:REACH] + gap[-REACH:]
    if gap == " ":
        return " "
    if LIST_ITEM.search(gap):
        return ","
    if SENTENCE_END.search(gap) and not (low and ".." in gap):
        return "."
    if "\n\n" in gap or ("\n" in gap and not low and not set(":,") & set(gap)):
        return "\n"
    return next((mark for mark in ":," if mark in gap), " ")


# -- refusals ------------------------------------------------------------------------------------

MAX_WORDS = 120  # a longer answer is not only a refusal
OPENING = (  # phrases before the refusal
    r"(?:(?:i(?:'m| am) (?:very |so |really |truly )?sorry|(?:my )?apologies|sorry|i apologi[sz]e"
    r"|unfortunately|regrettably|i(?:'m| am) afraid(?: that)?|thank you for [^.!?\n]{0,80}"
    r"|as an? (?:ai|artificial intelligence)[\w -]{0,40}|i understand[^.!?\n]{0,80}"
    r"|i appreciate[^.!?\n]{0,80}|no)(?: for [^.!?,\n]{0,60})?[,.!:;]? (?:but |however,? )?){0,3}"
)
DECLINING = (  # the refusal itself
    r"(?:i (?:really |simply |just )?(?:can(?:not|'t| not)|won't|will not|must decline to"
    r"|(?:must|have to) refuse to|decline to|refuse to|am (?:unable|not able|not willing) to"
    r"|do not feel comfortable|don't feel comfortable|am not comfortable|shouldn't|should not)"
    r"|i'm (?:unable|not able|not going|not willing) to|i'm not comfortable"
    r"|(?:it|that|this) (?:would be|is) (?:inappropriate|unethical|against my [\w ]{3,40}) "
    r"(?:for me )?to|i must (?:respectfully )?decline|i have to (?:respectfully )?decline)"
)
TASK = (  # what is declined; "I can't believe" and "I can't overstate" decline nothing
    r"(?: and (?:will|can)(?: not|not)| or won't)?(?:[.!]|$| (?:\w+ly |in good conscience )?"
    r"(?:help|assist|comply|provide|offer|give|share|answer|respond|discuss|fulfil?l|generate"
    r"|create|write|produce|do (?:that|this|so)|support|engage|continue|participate|tell you"
    r"|talk about|make|explain how|describe how|show|recommend|predict|diagnose|advise|complete"
    r"|process|translate|repeat|reveal|disclose|providing|giving|helping|assisting|discussing"
    r"|writing|sharing|answering|with (?:that|this))\b)"
)
YET = (  # not a refusal if the same sentence goes on to answer
    r"(?![^.!?\n]{0,160}\bbut (?:here(?:'s| is| are)|it(?:'s| is)|the answer|in general|generally"
    r"|roughly|most|my best guess))"
)
REFUSAL = re.compile(rf"{OPENING}{DECLINING}{TASK}{YET}", re.IGNORECASE)


def looks_like_a_refusal(text: str) -> bool:
    """Return whether a short English text begins by declining to answer."""
    start = text[:1_000].strip().replace("\u2019", "'").lstrip("*_#>\"' \n")
    return len(text.split(None, MAX_WORDS)) <= MAX_WORDS and REFUSAL.match(start) is not None
