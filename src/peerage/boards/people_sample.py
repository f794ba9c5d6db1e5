"""Whether the queries that people reviewed differ from the others, as the judges see them.

Corrected shares assume that people reviewed a random sample of the queries. Queries that were
chosen because they are hard, close or disputed bias the correction.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from peerage.reviews.cells import Bools, Floats
from peerage.reviews.judge_shares import JudgeShares, row_means
from peerage.stats.clusters import quotient
from peerage.stats.samples import welch_p

MIN_QUERIES = 10  # with people, and without
SURE = 0.01  # a smaller p, corrected for the number of columns, is a warning
DISAGREEMENT, LEAD = "how much the judges disagree", "the lead of the first model"


class SampleWarning(NamedTuple):
    """The column that differs most between the queries that people reviewed and the others."""

    column: str
    p: float  # corrected for the number of columns

    @property
    def sentence(self) -> str:
        """The warning for a reader of corrected shares."""
        return (
            "Warning: the queries that people reviewed do not look like a random sample: "
            f"{self.column} differs there (p = {max(self.p, 1e-4):.1g}). The corrected shares may "
            "be wrong."
        )


def check_sample(shares: JudgeShares, by_people: Bools, judges: Floats) -> SampleWarning | None:
    """Return a warning if people's queries are not a random sample; None if not, or too early.

    `by_people` marks the rows that people reviewed, and `judges` has the shares that the other
    reviewers gave. The columns are the judges' mean share of each model, their disagreement and the
    lead of the first model.
    """
    n_units = len(shares.units)
    with_people = np.bincount(shares.unit[by_people], minlength=n_units) > 0
    columns = list(_columns(shares, judges))
    warnings = []
    for name, value in columns:
        known = np.isfinite(value)
        one, other = value[known & with_people], value[known & ~with_people]
        if min(len(one), len(other)) < MIN_QUERIES:
            continue
        p = welch_p(one, other)
        if p is not None:
            warnings.append(SampleWarning(name, min(1.0, p * len(columns))))
    worst = min(warnings, key=lambda one: one.p, default=None)
    return worst if worst is not None and worst.p < SURE else None


def _columns(shares: JudgeShares, judges: Floats) -> Iterator[tuple[str, Floats]]:
    """Yield names of columns and their values by query; NaN where a query has none."""
    n_units, n_models = len(shares.units), len(shares.models)
    table = np.full((n_units, n_models), np.nan)
    table[shares.unit, shares.model] = row_means(judges)
    for code, name in enumerate(shares.models):
        yield f"the judges' share of {name}", table[:, code]
    several = np.isfinite(judges).sum(axis=1) > 1
    spread = np.nanstd(judges[several], axis=1, ddof=1)
    unit = shares.unit[several]
    n = np.bincount(unit, minlength=n_units)
    yield DISAGREEMENT, quotient(np.bincount(unit, spread, minlength=n_units), n)
    ranked = np.sort(np.where(np.isfinite(table), table, -np.inf), axis=1)
    has_two = np.isfinite(table).sum(axis=1) > 1
    lead = np.full(n_units, np.nan)
    lead[has_two] = ranked[has_two, -1] - ranked[has_two, -2]
    yield LEAD, lead
