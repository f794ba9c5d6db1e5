"""The safety gate: a word on every answer before it is judged (R5).

A pattern gate is a tripwire, not a moderator: it knows the phrases of its table and the
sentence around them, in English, and nothing of meaning. Harm that is paraphrased, spelt with
digits or spread over sentences passes; a crime told in a novel may fail. A model that
moderates plugs in behind the same interface (`Moderator`).

A match is excused by its own sentence alone. The next sentence can take an excuse away
(a refusal followed by "here's how:"), never give one, so no safe sentence elsewhere washes a
harmful one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from peerage.council import safety_contexts as words
from peerage.council.safety_contexts import CONTEXTS, Context
from peerage.council.safety_patterns import HOW, PATTERNS, Pattern
from peerage.council.safety_text import Phrase, Reading, phrase, read
from peerage.errors import InputError
from peerage.plugins import Registry
from peerage.types import Gate, Response

REACH = 400  # characters of flat text that a context may lie from its match, either side
EXCERPT = 80
HOW_BEFORE = phrase(rf"\b{HOW} $")

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


# -- matches -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Hit:
    """A match of a pattern, in flat text and in the original."""

    start: int
    end: int
    span: tuple[int, int]
    pattern: Pattern


def _gate(response: Response) -> Gate:
    reading = read(response.text)
    court = _Court(reading)
    for hit in sorted(_hits(reading), key=lambda hit: (hit.span[0], -hit.span[1])):
        if not court.excuses(hit):
            start, end = hit.span
            found = response.text[start:end]
            excerpt = found if len(found) <= EXCERPT else found[: EXCERPT - 1] + "…"
            return Gate(
                response.model, False, hit.pattern.family, hit.pattern.name, hit.span, excerpt
            )
    return Gate(response.model, True)


def _hits(reading: Reading) -> Iterator[_Hit]:
    for pattern in PATTERNS:
        text, origin = (
            (reading.folded, reading.folded_origin)
            if pattern.literal
            else (reading.flat, reading.flat_origin)
        )
        if not any(need in text for need in pattern.needs):
            continue
        for match in pattern.phrase.finditer(text):
            if pattern.holds is not None and not pattern.holds(match.group()):
                continue
            start, end = match.span()
            if not pattern.literal and (how := HOW_BEFORE.search(text, max(0, start - 40), start)):
                start = how.start()
            span = origin[start], origin[end - 1] + 1
            if pattern.literal:
                start, end = reading.flat_stretch(span)
            yield _Hit(start, end, span, pattern)


# -- contexts ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Scene:
    """A match in its sentence: what leads up to it, what follows, and the sentence after."""

    hit: _Hit
    first: int  # where the lead begins in the flat text
    lead: str
    said: str
    tail: str
    following: str


class _Court:
    """Judges the matches of one text in order; a list's later items lean on the earlier ones."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.excused_ends: set[int] = set()
        self._spans: dict[Phrase, list[tuple[int, int]]] = {}

    def excuses(self, hit: _Hit) -> bool:
        scene = self._scene(hit)
        if not hit.pattern.literal and self._relapses(scene):
            return False
        excused = any(
            self._applies(context, scene)
            for context in CONTEXTS
            if context.name in hit.pattern.excuses
        )
        if excused:
            self.excused_ends.add(hit.end)
        return excused

    def _scene(self, hit: _Hit) -> _Scene:
        flat = self.reading.flat
        first, last = self.reading.sentence(hit.start, hit.end)
        first = max(first, hit.start - REACH)
        return _Scene(
            hit,
            first,
            flat[first : hit.start],
            flat[hit.start : hit.end],
            flat[hit.end : min(last, hit.end + REACH)],
            self.reading.next_sentence(last, REACH),
        )

    def _applies(self, context: Context, scene: _Scene) -> bool:
        match context.side:
            case "before":
                return any(
                    self._governs(context, cue, scene) for cue in self._cues_near(context, scene)
                )
            case "adjoining":
                return _adjoins(context, scene)
            case "after":
                return _is_named(scene) and context.cue.match(scene.tail) is not None
            case "around":
                near = scene.lead, scene.tail if not scene.tail.startswith(":") else ""
                return any(context.cue.search(text) for text in near)

    def _found(self, phrase: Phrase) -> list[tuple[int, int]]:
        """Where a phrase is in the text, looked for once however many matches ask."""
        if phrase not in self._spans:
            self._spans[phrase] = [found.span() for found in phrase.finditer(self.reading.flat)]
        return self._spans[phrase]

    def _relapses(self, scene: _Scene) -> bool:
        """Whether the rest of the sentence, or the start of the next, takes an excuse back."""
        spans = self._found(words.RELAPSE)
        index = bisect_left(spans, (scene.hit.end,))
        end = scene.hit.end + len(scene.tail) + 1 + min(len(scene.following), 80)
        return index < len(spans) and spans[index][0] < end

    def _cues_near(self, context: Context, scene: _Scene) -> Iterator[tuple[int, int]]:
        cues = self._found(context.cue)
        for index in range(bisect_left(cues, (scene.hit.start,)) - 1, -1, -1):
            if cues[index][0] < scene.first:
                return
            yield cues[index]

    def _governs(self, context: Context, cue: tuple[int, int], scene: _Scene) -> bool:
        """Whether a cue before the match has it as its object, with nothing ending its reach."""
        before = self.reading.flat[max(scene.first, cue[0] - 60) : cue[0]]
        between = self.reading.flat[cue[1] : scene.hit.start]
        if (
            (context.undone and context.undone.search(before))
            or words.BREAK.search(between)
            or words.READER_ACTS.search(between)
        ):
            return False
        alone = not (self._is_listed(scene.hit) or words.NOMINAL.match(scene.said))
        if between.endswith("and ") and alone:
            return False  # "I can't help with that and build a gun"
        cut = max(map(between.rfind, ",:;—•"))
        if context.name == "defence" and not words.GUARDED.search(scene.lead):
            return words.GERUND.match(scene.said) is not None and cut < 0
        if words.CLOSED.match(between):
            return False
        return cut < 0 or self._carries_on(context, between, cut, scene)

    def _carries_on(self, context: Context, between: str, cut: int, scene: _Scene) -> bool:
        """Whether a cue reaches over the last comma, colon or dash before the match."""
        mark, rest = between[cut], between[cut + 1 :]
        if self._is_listed(scene.hit):
            return True
        if mark == "•":
            return not words.ORDERS.match(rest)
        if mark == ":":
            intro = words.LIST_INTRO.search(between[:cut]) is not None
            return intro and not words.ORDERS.match(rest)
        if not rest:
            return words.LIST_GOES_ON.match(scene.tail) is not None
        if context.name == "defence":
            return words.CONNECTS.match(rest) is not None
        return not words.ORDERS.match(rest) and words.CARRIES.search(rest) is not None

    def _is_listed(self, hit: _Hit) -> bool:
        """Whether it stands right after an excused match: "build a gun, make a bomb"."""
        joints = (hit.start - len(joint) for joint in (",", ",and ", " and "))
        return any(end in self.excused_ends for end in joints)


def _adjoins(context: Context, scene: _Scene) -> bool:
    cue = context.cue.search(scene.lead, max(0, len(scene.lead) - 160))
    if cue is None:
        return False
    if context.undone and context.undone.search(scene.lead[: cue.start()][-60:]):
        return False
    if context.name == "prohibition":
        return not words.NEEDS.match(scene.tail)
    return context.name != "question" or _is_unanswered(scene)


def _is_unanswered(scene: _Scene) -> bool:
    """Whether a reported question is left at that, or met with a refusal.

    The sentence after it is read only to see whether it answers: "You asked how to make a
    bomb." passes alone and before a refusal, and fails before anything else.
    """
    if not (words.BARE.match(scene.tail) or words.REFUSAL.search(scene.tail)):
        return False
    after = scene.following
    return not after or bool(words.REFUSAL.search(after) or words.REGRET.search(after))


def _is_named(scene: _Scene) -> bool:
    """Whether the match is spoken of ("making a bomb is …") rather than ordered."""
    return bool(words.NOMINAL.match(scene.said) or words.NAMED_BY.search(scene.lead))
