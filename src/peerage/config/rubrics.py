"""Rubrics: the shipped ones, the user's own, and the checks of both."""

from __future__ import annotations

import functools
import itertools
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from peerage.errors import ConfigError, Problem, config_error, meant, shown
from peerage.types import Dimension, Rubric

if TYPE_CHECKING:
    from peerage.config.settings import Settings

TOLERANCE = Fraction(1, 1000)
CEILINGS = ((5, 4.0), (7, 7.0))  # accuracy below -> overall at most; the default of a rubric
LOWEST, HIGHEST = 1, 10

NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
BAND = re.compile(r"([0-9]{1,2})(?:-([0-9]{1,2}))?")
RESERVED = frozenset({"overall", "notes"})  # keys that a reviewer's reply has besides the marks


def rubric(name: str, settings: Settings | None = None) -> Rubric:
    """Return the rubric of that name, from the settings if they define it, else a shipped one."""
    if settings is not None and name in settings.rubrics:
        return settings.rubrics[name]
    if name not in shipped_names():
        hint = meant(name, rubric_names(settings))
        raise ConfigError(f"there is no rubric {shown(name)}.", hint=hint)
    return shipped_rubric(name)


def rubric_names(settings: Settings | None = None) -> tuple[str, ...]:
    """Return the names of all rubrics."""
    own = settings.rubric if settings is not None else ()
    return tuple(sorted({*shipped_names(), *own}))


# -- the shipped ones --------------------------------------------------------------------------


@functools.cache
def shipped_names() -> tuple[str, ...]:
    names = [entry.name for entry in (files("peerage") / "rubrics").iterdir()]
    stems = {name.removesuffix(".toml") for name in names if name.endswith(".toml")}
    return tuple(sorted(stems - {"dimensions"}))


def shipped_table(name: str) -> dict[str, Any]:
    """Return a shipped data file as a table, in the form a user would write."""
    text = (files("peerage") / "rubrics" / f"{name}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@functools.cache
def shipped_dimensions() -> Mapping[str, Dimension]:
    """Return the shipped dimensions with anchors, which any rubric may use."""
    return {
        name: dimension(name, entry["question"], entry["anchors"])
        for name, entry in shipped_table("dimensions").items()
    }


@functools.lru_cache(maxsize=64)
def shipped_rubric(name: str) -> Rubric:
    table = shipped_table(name)
    return build(name, table["weights"], table["ceilings"], table["description"])


# -- building and checking ---------------------------------------------------------------------


def build(
    name: str,
    weights: Mapping[str, float],
    ceilings: Sequence[Sequence[float]] = CEILINGS,
    description: str = "",
    own_dimensions: Mapping[str, Dimension] | None = None,
) -> Rubric:
    """Return a rubric with exact weights and ordered dimensions; raise an error if invalid."""
    known = {**shipped_dimensions(), **(own_dimensions or {})}
    problems = list(check(weights, ceilings, own_dimensions or {}))
    if problems:
        place = f"rubric {name!r}"
        raise config_error([Problem(wrong.message, wrong.hint, place=place) for wrong in problems])
    return Rubric(
        name,
        {dimension: exact(weight) for dimension, weight in weights.items()},
        tuple(known[dimension] for dimension in weights),
        tuple((exact(below), exact(cap)) for below, cap in ceilings),
        description,
    )


def dimension(name: str, question: str, anchors: Mapping[str, str]) -> Dimension:
    """Return a dimension with its anchors sorted, the best first."""
    best_first = sorted(anchors.items(), key=lambda anchor: _band(anchor[0]), reverse=True)
    return Dimension(name, question, tuple(best_first))


def exact(number: float) -> Fraction:
    """Return the decimal that a number was written as: .35 is 7/20, not its nearest float."""
    return Fraction(str(number))


def check(
    weights: Mapping[str, float],
    ceilings: Sequence[Sequence[float]],
    own_dimensions: Mapping[str, Dimension],
) -> Iterator[Problem]:
    """Yield the problems of a rubric, each with the key in its table."""
    yield from _check_weights(weights, own_dimensions)
    yield from _check_ceilings(ceilings)
    for entry in own_dimensions.values():
        yield from _check_dimension(entry, entry.name in weights)


def _check_weights(
    weights: Mapping[str, float], own_dimensions: Mapping[str, Dimension]
) -> Iterator[Problem]:
    for name, weight in weights.items():
        at = ("weights", name)
        if name not in own_dimensions and name not in shipped_dimensions():
            message = (
                f"there is no dimension {shown(name)}, and the rubric gives no anchors for it."
            )
            describe = f"Or describe it in [rubric.NAME.dimension.{shown(name)[1:-1]}]."
            yield Problem(message, f"{meant(name, shipped_dimensions())} {describe}", at)
        if weight <= 0:
            message = f"a weight must be more than 0, not {shown(weight)}."
            yield Problem(message, "Leave out a dimension that should not count.", at)
    if "accuracy" not in weights:
        message = "a rubric must give accuracy a weight: without one there is no rubric score."
        hint = "Add accuracy, or set [council] rubric = false for holistic marks."
        yield Problem(message, hint, ("weights",))
    total = sum((exact(weight) for weight in weights.values()), Fraction(0))
    if abs(total - 1) > TOLERANCE:
        listed = [f"{shown(name)[1:-1]} {weight:g}" for name, weight in weights.items()]
        yield Problem(
            f"the weights must sum to 1, but they sum to {float(total):g}.",
            f"They are: {', '.join(listed[:20])}.",
            ("weights",),
            among=tuple(("weights", name) for name in weights),
        )


def _check_ceilings(ceilings: Sequence[Sequence[float]]) -> Iterator[Problem]:
    at = ("ceilings",)
    hint = "Write [accuracy below, overall at most] pairs, as in [[5, 4.0], [7, 7.0]]."
    if any(len(pair) != 2 for pair in ceilings):
        yield Problem("a ceiling must be a pair of numbers.", hint, at)
        return
    for below, cap in ceilings:
        if not (LOWEST < below <= HIGHEST and 0 <= cap <= HIGHEST):
            marks = f"both numbers must be marks from {LOWEST} to {HIGHEST}"
            yield Problem(f"[{below:g}, {cap:g}] is not a ceiling: {marks}.", hint, at)
    if any(
        above[0] <= below[0] or above[1] < below[1] for below, above in itertools.pairwise(ceilings)
    ):
        message = "ceilings must rise: a higher accuracy cannot have a lower ceiling."
        yield Problem(message, hint, at)


def _check_dimension(entry: Dimension, is_weighed: bool) -> Iterator[Problem]:
    at = ("dimension", entry.name)
    if not NAME.fullmatch(entry.name) or entry.name in RESERVED:
        hint = "Use small letters, digits and _; the names overall and notes are reserved."
        yield Problem(f"{shown(entry.name)} is not a valid dimension name.", hint, at)
    if not is_weighed:
        yield Problem(f"{shown(entry.name)} has no weight.", "Add it to the rubric's weights.", at)
    if not entry.question.strip():
        yield Problem(
            "the question is empty.", "Write what a reviewer should judge.", (*at, "question")
        )
    hint = 'Write ranges of marks as "9-10", "7-8" or "5", each with its description.'
    if len(entry.anchors) < 2:
        yield Problem("a dimension needs at least two anchors.", hint, (*at, "anchors"))
    marks_so_far: set[int] = set()
    for band, meaning in entry.anchors:
        low, high = _band(band)
        marks = set(range(low, high + 1))
        message = ""
        if not (LOWEST <= low <= high <= HIGHEST):
            message = f"{shown(band)} is not a range of marks from 1 to 10."
        elif marks_so_far & marks:
            message = f"the range {shown(band)} overlaps another one."
        elif not meaning.strip():
            message = f"the range {shown(band)} has no description."
        if message:
            yield Problem(message, hint, (*at, "anchors", band))
        marks_so_far |= marks


def _band(text: str) -> tuple[int, int]:
    """Return the first and last mark of a band such as "9-10"; (0, 0) if it is not a band."""
    match = BAND.fullmatch(text)
    if match is None:
        return 0, 0
    low, high = match.groups()
    return int(low), int(high or low)
