"""Sums whose slices and names are counted otherwise: what joins sums that were made apart."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from peerage.boards.model_sums import Cells, Spread, Sums, summed
from peerage.reviews.rows import Floats, Ints


@dataclass(frozen=True, slots=True)
class Recoding:
    """The new place of each old slice, model and name, and how many there now are."""

    slices: Ints
    models: Ints
    names: Ints
    n_slices: int
    n_models: int
    n_names: int

    def __call__(self, sums: Sums) -> Sums:
        """The same sums in the new places; slices that fall together are added up."""
        by_model = self._spread_out(sums.by_model, 1)
        assert by_model is not None  # noqa: S101 — every sum has it
        return replace(
            sums,
            by_model=by_model,
            n_sessions=self._counts(sums.n_sessions),
            n_rows=self._counts(sums.n_rows),
            n_odd=self._counts(sums.n_odd),
            n_names=self.n_names,
            share=self._spread(sums.share),
            value=None if sums.value is None else self._spread(sums.value),
            pulls=self._cells(sums.pulls, sums.n_names),
            scores=self._cells(sums.scores, sums.n_names),
            wins=self._spread_out(sums.wins, 2),
            ties=self._spread_out(sums.ties, 2),
            lengths=self._spread_out(sums.lengths, 1),
        )

    def _counts(self, old: Ints) -> Ints:
        new = np.zeros(self.n_slices, dtype=np.int64)
        np.add.at(new, self.slices, old)
        return new

    def _spread(self, spread: Spread) -> Spread:
        return Spread(products=self._spread_out(spread.products, 2, before=1))

    def _spread_out(self, old: Floats | None, n_axes: int, before: int = 0) -> Floats | None:
        """An array by slice whose model axes come first but for `before` others."""
        if old is None:
            return None
        shape = (*old.shape[1 : 1 + before], *[self.n_models] * n_axes)
        new = np.zeros((self.n_slices, *shape, *old.shape[1 + before + n_axes :]))
        places = (slice(None),) * before + np.ix_(*[self.models] * n_axes)
        for at, values in zip(self.slices.tolist(), old, strict=True):
            new[at][places] += values
        return new

    def _cells(self, cells: Cells | None, n_names: int) -> Cells | None:
        if cells is None:
            return None
        n_models = len(self.models)
        at, name = np.divmod(cells.key // n_models, n_names)
        key = (self.slices[at] * self.n_names + self.names[name]) * self.n_models
        return summed(key + self.models[cells.key % n_models], cells.sums)
