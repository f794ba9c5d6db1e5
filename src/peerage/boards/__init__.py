"""Boards: from sums and encoded facts to ranked rows, one board per file.

A board stores columns, because on a board over millions of opinions a list of dicts would be the
slowest part; `rows` builds rows on demand.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from peerage.types import Tabular

if TYPE_CHECKING:
    import numpy as np
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
    notes: Mapping[str, Any] = field(default_factory=dict)  # what only this board has to say
    hint: str = ""  # what a person can do about there being nothing to rank

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
