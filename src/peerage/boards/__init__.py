"""Boards: from sums and encoded facts to ranked rows, one board per file.

A board stores columns, because on a board over millions of opinions a list of dicts would be the
slowest part; `rows` builds rows on demand.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from peerage.errors import UsageError
from peerage.notebooks import PlottedValue, Tabular, plot_estimates

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    Column = Sequence[Any] | NDArray[np.generic]


@dataclass(frozen=True, slots=True, repr=False)
class Board(Tabular):
    """A ranked table with the parameters it was computed under.

    A NaN in a column means undefined, and is None in a row.
    """

    board: str
    columns: Mapping[str, Column]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)  # fields that only this board has
    hint: str = ""  # what to do if there is nothing to rank

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    @property
    def n_left_out(self) -> int:
        """The number of reviews or opinions outside the board's window."""
        of_models = self.notes.get("reviews_left_out", 0)
        return int(self.parameters.get("opinions_left_out", of_models))

    def __repr__(self) -> str:
        since, n = self.parameters.get("since"), self.n_left_out
        window = f", since {since}: {n} left out" if n else ""
        return f"Board({self.board}, {len(self)} rows{window})"

    def table(self) -> dict[str, list[Any]]:
        return {name: plain_values(values) for name, values in self.columns.items()}

    def plot(self, column: str = "") -> Axes:
        """Draw a column with its intervals, using matplotlib; the share if no column is named."""
        with_intervals = [name for name in self.columns if f"{name}_low" in self.columns]
        given = [column] if column else [name for name in with_intervals if name != "rank"]
        if not given or given[0] not in with_intervals:
            known = ", ".join(with_intervals) or "none"
            raise UsageError(
                "there is no interval to draw.", hint=f"Columns with an interval: {known}."
            )
        name, table = given[0], self.table()
        label = next(iter(table))
        ends = (table[label], table[name], table[f"{name}_low"], table[f"{name}_high"])
        estimates = [
            PlottedValue(str(who), value, low, high)
            for who, value, low, high in zip(*ends, strict=True)
            if not (value is None or low is None or high is None)
        ]
        title = f"{self.board.capitalize()}, with 95% intervals"
        return plot_estimates(estimates, title=title, axis=name.replace("_", " "))

    def document(self) -> dict[str, Any]:
        """Return the JSON of the board."""
        return {
            "board": self.board,
            "parameters": dict(self.parameters),
            "rows": self.rows,
            **self.notes,
            "flags": list(self.flags),
            **({"hint": self.hint} if self.hint else {}),
        }


def all_left_out(n: int, what: str) -> str:
    """Return a hint for a board whose window leaves out all rows; empty for any other board."""
    if not n:
        return ""
    lie = f"the only {what} lies" if n == 1 else f"all {n:,} {what}s lie"
    return f"{lie} outside this window. --since all shows them (since=all in a URL or in Python)."


def plain_values(values: Column) -> list[Any]:
    """Return a column as Python's own values, None for NaN."""
    listed: list[Any] = values.tolist() if hasattr(values, "tolist") else list(values)
    return [
        None if isinstance(value, float) and not math.isfinite(value) else value for value in listed
    ]


def share_columns(board: Board) -> tuple[str, str, str]:
    """Return the columns with the share by which a board's models are compared, and its ends.

    Where models met different rivals it is the share on common rivals.
    """
    name = "share_common" if "share_common" in board.columns else "share"
    return name, f"{name}_low", f"{name}_high"


def ranked_shares(board: Board) -> dict[str, tuple[float | None, float | None, float | None]]:
    """Return the share by which each model of a board is compared, with its interval."""
    columns = [board.columns[name] for name in ("model", *share_columns(board))]
    return {model: (value, low, high) for model, value, low, high in zip(*columns, strict=True)}
