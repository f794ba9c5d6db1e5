"""Rubrics as data: the shipped ones, a user's own, and what makes one hold together.

Nothing here needs the settings machinery, so that scoring with a shipped rubric stays quick.
"""

from __future__ import annotations

import functools
import itertools
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from peerage.config.problems import Placed, Problem, error, meant, shown
from peerage.types import Dimension, Rubric

if TYPE_CHECKING:
    from peerage.config.tree import Settings

TOLERANCE = Fraction(1, 1000)
CEILINGS = ((5, 4.0), (7, 7.0))  # accuracy below -> overall at most, where a rubric is silent
LOWEST, HIGHEST = 1, 10

NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
BAND = re.compile(r"(\d{1,2})(?:-(\d{1,2}))?")
RESERVED = frozenset({"overall", "notes"})  # a reply's evaluations use these beside the marks


def rubric(name: str, settings: Settings | None = None) -> Rubric:
    """The rubric of that name: the settings' own if they have one, else the shipped one."""
    if settings is not None and name in settings.rubrics:
        return settings.rubrics[name]
    if name not in shipped_names():
        raise error([unknown("", name, settings)])
    return shipped(name)


def rubric_names(settings: Settings | None = None) -> tuple[str, ...]:
    """Every rubric there is, by name."""
    own = settings.rubric if settings is not None else ()
    return tuple(sorted({*shipped_names(), *own}))


def unknown(place: str, name: str, settings: Settings | None) -> Placed:
    """What to say of a rubric that nobody wrote."""
    return Placed(place, f"there is no rubric {shown(name)}.", meant(name, rubric_names(settings)))


# -- the shipped ones --------------------------------------------------------------------------


@functools.cache
def shipped_names() -> tuple[str, ...]:
    names = (entry.name for entry in (files("peerage") / "rubrics").iterdir())
    return tuple(
        sorted(
            name.removesuffix(".toml")
            for name in names
            if name.endswith(".toml") and name != "dimensions.toml"
        )
    )


def table(name: str) -> dict[str, Any]:
    """A data file as it stands."""
    text = (files("peerage") / "rubrics" / f"{name}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@functools.cache
def dimensions() -> Mapping[str, Dimension]:
    """The dimensions that come with anchors, for any rubric to use."""
    return {
        name: dimension(name, entry["question"], entry["anchors"])
        for name, entry in table("dimensions").items()
    }


@functools.cache
def shipped(name: str) -> Rubric:
    entry = table(name)
    return build(name, entry["weights"], entry["ceilings"], entry["description"])


# -- building and checking ---------------------------------------------------------------------


def build(
    name: str,
    weights: Mapping[str, float],
    ceilings: Sequence[Sequence[float]] = CEILINGS,
    description: str = "",
    own: Mapping[str, Dimension] | None = None,
) -> Rubric:
    """A rubric with exact weights, dimensions in the order of the weights; refused if unsound."""
    own = own or {}
    wrong = list(faults(weights, ceilings, own))
    if wrong:
        raise error([Placed(f"rubric {name!r}", fault.message, fault.hint) for fault in wrong])
    known = {**dimensions(), **own}
    return Rubric(
        name,
        {dimension: exact(weight) for dimension, weight in weights.items()},
        tuple(known[dimension] for dimension in weights),
        tuple((exact(below), exact(cap)) for below, cap in ceilings),
        description,
    )


def dimension(name: str, question: str, anchors: Mapping[str, str]) -> Dimension:
    """A dimension with its anchors best first, in whatever order they were written."""
    return Dimension(name, question, tuple(sorted(anchors.items(), key=_band, reverse=True)))


def exact(number: float) -> Fraction:
    """The decimal a number was written as: .35 is 7/20, not its nearest float."""
    return Fraction(str(number))


def faults(
    weights: Mapping[str, float],
    ceilings: Sequence[Sequence[float]],
    own: Mapping[str, Dimension],
) -> Iterator[Problem]:
    """What is wrong with a rubric, each at a key inside its table."""
    for name in weights:
        if name not in own and name not in dimensions():
            yield Problem(
                ("weights", name),
                f"there is no dimension {shown(name)}, and the rubric gives no anchors for it.",
                f"{meant(name, dimensions())} Or describe it in [rubric.NAME.dimension.{name}].",
            )
    yield from _weight_faults(weights)
    yield from _ceiling_faults(ceilings)
    for name, entry in own.items():
        yield from _dimension_faults(entry, name in weights)


def _weight_faults(weights: Mapping[str, float]) -> Iterator[Problem]:
    at = ("weights",)
    if "accuracy" not in weights:
        yield Problem(
            at,
            "a rubric must weigh accuracy: without it there is no rubric score.",
            "Add accuracy, or set [council] rubric = false for holistic marks.",
        )
    for name, weight in weights.items():
        if weight <= 0:
            yield Problem(
                (*at, name),
                f"a weight must be more than 0, not {shown(weight)}.",
                "Leave out a dimension that should not count.",
            )
    total = sum((exact(weight) for weight in weights.values()), Fraction(0))
    if abs(total - 1) > TOLERANCE:
        said = ", ".join(f"{name} {weight:g}" for name, weight in list(weights.items())[:20])
        yield Problem(
            at,
            f"the weights must sum to 1, and sum to {float(total):g}.",
            f"They are: {said}.",
            among=tuple((*at, name) for name in weights),
        )


def _ceiling_faults(ceilings: Sequence[Sequence[float]]) -> Iterator[Problem]:
    at = ("ceilings",)
    shape = "Write [accuracy below, overall at most] pairs, as in [[5, 4.0], [7, 7.0]]."
    if any(len(pair) != 2 for pair in ceilings):
        yield Problem(at, "a ceiling must be a pair of numbers.", shape)
        return
    for below, cap in ceilings:
        if not (LOWEST < below <= HIGHEST and 0 <= cap <= HIGHEST):
            yield Problem(
                at,
                f"[{below:g}, {cap:g}] is no ceiling: marks run from {LOWEST} to {HIGHEST}.",
                shape,
            )
    for (below, cap), (next_below, next_cap) in itertools.pairwise(ceilings):
        if next_below <= below or next_cap < cap:
            yield Problem(
                at,
                "ceilings must rise: better accuracy may not be held lower than worse.",
                shape,
            )
            return


def _dimension_faults(entry: Dimension, is_weighed: bool) -> Iterator[Problem]:
    at = ("dimension", entry.name)
    if not NAME.fullmatch(entry.name) or entry.name in RESERVED:
        yield Problem(
            at,
            f"{shown(entry.name)} cannot name a dimension.",
            "Use small letters, digits and _; overall and notes are taken.",
        )
    if not is_weighed:
        yield Problem(at, f"{shown(entry.name)} has no weight.", "Add it to the rubric's weights.")
    if not entry.question.strip():
        yield Problem((*at, "question"), "the question is empty.", "Say what a reviewer judges.")
    yield from _anchor_faults(entry)


def _anchor_faults(entry: Dimension) -> Iterator[Problem]:
    at = ("dimension", entry.name, "anchors")
    hint = 'Write bands as "9-10", "7-8" or "5", each with what it means.'
    if len(entry.anchors) < 2:
        yield Problem(at, "a dimension needs at least two anchors.", hint)
    taken: set[int] = set()
    for band, meaning in entry.anchors:
        low, high = _band((band, ""))
        marks = set(range(low, high + 1))
        if not (LOWEST <= low <= high <= HIGHEST):
            yield Problem((*at, band), f"{shown(band)} is no band of marks 1 to 10.", hint)
        elif taken & marks:
            yield Problem((*at, band), f"the band {shown(band)} overlaps another.", hint)
        elif not meaning.strip():
            yield Problem((*at, band), f"the band {shown(band)} has no meaning.", hint)
        taken |= marks


def _band(anchor: tuple[str, str]) -> tuple[int, int]:
    """The marks an anchor's band spans; (0, 0) for what is no band."""
    match = BAND.fullmatch(anchor[0])
    if match is None:
        return 0, 0
    low, high = match.groups()
    return int(low), int(high or low)
