"""Reviewers on one scale, with clear biases set aside so that they do not distort the others' view.

A reviewer that evidently favours one candidate, or long answers, makes all others look biased the
other way. Such pairs are set aside, and what is added for length is subtracted, before the rest is
measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from peerage.biases.length import length_lines, length_relative
from peerage.biases.preferences import Tastes, measure_tastes
from peerage.biases.taste_spread import FEW_PAIRS
from peerage.reviews.cells import Ints, Tables
from peerage.reviews.intervals import LEVEL, Estimate
from peerage.reviews.one_scale import NOBODY, LengthLines, Scales
from peerage.stats.tails import benjamini_hochberg

MAX_ASIDE = 3


@dataclass(frozen=True, slots=True)
class Compared:
    """Reviewers on one scale, with clearly biased pairs set aside."""

    scales: Scales
    sums: Tables  # as `deviation_sums` makes them
    lengths: list[Estimate]
    tastes: Tastes
    plain: Compared | None = None  # before anything was set aside; None if nothing was


def compare(
    fit: Callable[[Ints], Scales],
    sums_on: Callable[[Scales], Tables],
    healthy: Mapping[str, float],
    n_min: Mapping[str, int],
) -> Compared:
    """Fit scales, set the most deviant reviewer–candidate pair aside and fit again, up to 3 times.

    `fit` returns levels and scales without some pairs, and `sums_on` the sums on that scale. A pair
    stays aside only if the fit without it shows it to be beyond the usual tastes, since the pair
    may have distorted the first fit. Reviewers who clearly favour length are not part of the
    reference for other reviewers' length bias, and what they add for length is subtracted from
    their scores before anything else is measured: they would seem to prefer wordy models. A table
    without clear deviations is read only twice.
    """

    def compare_without(aside: Ints, lines: LengthLines | None = None) -> Compared:
        scales = replace(fit(aside), lengths=lines)
        sums = sums_on(scales)
        many = len(np.unique(sums["pairs"].subject)) > FEW_PAIRS
        tastes = measure_tastes(sums, scales, least if many else 0)
        return Compared(scales, sums, [], tastes)

    def with_lengths(compared: Compared) -> tuple[list[Estimate], list[Estimate]]:
        return measure_lengths(compared, sums_on, healthy["length_relative"])

    least, edge = n_min["pair_departure"], healthy["pair_departure"]
    plain = chosen = compare_without(NOBODY)
    lengths, lovers = with_lengths(plain)
    plain = replace(plain, lengths=length_relative(plain.sums, plain.scales))
    lines = length_lines(plain.sums, plain.scales, lovers)
    if lines is not None:
        chosen = compare_without(NOBODY, lines)
    for _ in range(MAX_ASIDE):
        aside = chosen.scales.aside
        pairs = [one for one in chosen.tastes.departures if one.n >= least]
        full = _with_half_aside(pairs, aside, len(chosen.scales.sd))
        pair = _most_evident(pairs, [*aside.tolist(), *full], edge)
        if pair is None:
            break
        without = compare_without(np.append(aside, pair), lines)
        pairs = [one for one in without.tastes.pairs if one.n >= least]
        if pair not in _evident(pairs, aside.tolist(), edge):
            break
        chosen = without
    aside = chosen.scales.aside
    if len(aside):
        whole = chosen if lines is None else compare_without(aside)
        lengths, lovers = with_lengths(whole)
        again = length_lines(whole.sums, whole.scales, lovers)
        chosen = whole if again is None else compare_without(aside, again)
    changed = len(aside) > 0 or len(lovers) > 0
    return replace(chosen, lengths=lengths, plain=plain if changed else None)


def measure_lengths(
    compared: Compared, sums_on: Callable[[Scales], Tables], healthy: float
) -> tuple[list[Estimate], list[Estimate]]:
    """Return each reviewer's slope on length, and those of reviewers who evidently prefer length.

    The reference for the others leaves the latter out.
    """
    scales = compared.scales
    lengths, silent = length_relative(compared.sums, scales), list[int]()
    for _ in range(MAX_ASIDE):
        who = _most_evident(lengths, silent, healthy)
        if who is None:
            break
        silent.append(who)
        quiet = scales.silencing(silent)
        again = length_relative(sums_on(quiet), quiet)
        fresh = {one.subject: one for one in again if one.subject not in silent}
        lengths = [fresh.get(one.subject, one) for one in lengths]
    return lengths, [one for one in lengths if one.subject in silent]


def _with_half_aside(pairs: Sequence[Estimate], aside: Ints, k: int) -> list[int]:
    """Return the pairs that may not be set aside: more than half of their reviewer's would be.

    A minority of the reviewer's pairs would then define what is usual.
    """
    n_pairs = Counter(one.subject // k for one in pairs if one.value is not None)
    n_aside = Counter((aside // k).tolist())
    return [
        one.subject
        for one in pairs
        if 2 * (n_aside[one.subject // k] + 1) > n_pairs[one.subject // k]
    ]


def _most_evident(each: Sequence[Estimate], known: Sequence[int], healthy: float) -> int | None:
    """Return the most deviant subject that is significant by itself and not known yet, or None.

    Its bias is part of the reference for all other reviewers, and makes them look biased the other
    way; so it is set aside and the rest is measured again.
    """
    evident = _evident(each, known, healthy)
    return max(evident, key=evident.__getitem__, default=None)


def _evident(each: Sequence[Estimate], known: Sequence[int], healthy: float) -> dict[int, float]:
    """Return significant subjects, except known ones, with each one's value over its error."""
    free = [one for one in each if one.subject not in known]
    qs = benjamini_hochberg([one.p for one in free])
    return {
        one.subject: abs(one.value or 0.0) / (one.se or 1.0)
        for one, q in zip(free, qs, strict=True)
        if q is not None and q < 1.0 - LEVEL and abs(one.value or 0.0) > healthy * one.unit
    }
