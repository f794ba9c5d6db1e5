"""Results in data frames and notebooks: rows, HTML tables, and charts of estimates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from peerage.errors import MissingExtraError, install_command

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped]
    import polars
    from matplotlib.axes import Axes

MAX_HTML_ROWS = 100
ROW_INCHES, WIDTH_INCHES, MARGIN_INCHES = 0.32, 7.0, 1.1
MAX_PLOT_ROWS = 40
PLAIN, MARKED = "#33576e", "#b03a2e"


# -- tables ----------------------------------------------------------------------------------------


class Tabular:
    """A result made of columns, for pandas, polars and notebooks."""

    __slots__ = ()

    def table(self) -> dict[str, list[Any]]:
        """Return the columns by name, as plain Python values, None where undefined."""
        raise NotImplementedError

    @property
    def rows(self) -> list[dict[str, Any]]:
        table = self.table()
        return [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]

    def to_pandas(self) -> pandas.DataFrame:
        """Return the rows as a pandas data frame."""
        with needs_frames():
            import pandas

        return pandas.DataFrame(self.table())

    def to_polars(self) -> polars.DataFrame:
        """Return the rows as a polars data frame."""
        with needs_frames():
            import polars

        return polars.DataFrame(self.table(), strict=False)

    def _repr_html_(self) -> str:
        """Return the first rows as an HTML table, with every text escaped."""
        table = self.table()
        rows = list(zip(*table.values(), strict=True))
        return f"<p>{escape(repr(self))}</p>{html_table(table, rows)}"


@contextmanager
def needs_frames() -> Iterator[None]:
    """Turn a missing data-frame package into an error that says how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"this needs {error.name}.", hint=f"Install it: {install_command('frames')}"
        ) from None


def html_table(names: Iterable[str], rows: Sequence[Sequence[object]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(
        f"<tr>{''.join(f'<td>{_html_cell(value)}</td>' for value in row)}</tr>"
        for row in rows[:MAX_HTML_ROWS]
    )
    left = len(rows) - MAX_HTML_ROWS
    more = f"<p>… and {left} more</p>" if left > 0 else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _html_cell(value: object) -> str:
    if value is None:
        return "–"
    return escape(f"{value:.3f}" if isinstance(value, float) else str(value))


# -- charts ----------------------------------------------------------------------------------------


class PlottedValue(NamedTuple):
    """A labelled value with its interval, drawn in another colour if it is marked."""

    label: str
    value: float
    low: float
    high: float
    marked: bool = False


def plot_estimates(
    estimates: Sequence[PlottedValue], *, title: str, axis: str, reference: float | None = None
) -> Axes:
    """Draw a line for each estimate, the first at the top; return the axes of the chart."""
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"a chart needs {error.name}.", hint=f"Install it: {install_command('plots')}"
        ) from None
    shown = estimates[:MAX_PLOT_ROWS]
    height = MARGIN_INCHES + ROW_INCHES * max(1, len(shown))
    _, axes = pyplot.subplots(figsize=(WIDTH_INCHES, height), layout="constrained")
    for place, one in enumerate(shown):
        colour = MARKED if one.marked else PLAIN
        axes.plot([one.low, one.high], [place, place], color=colour, linewidth=2)
        axes.plot([one.value], [place], marker="o", color=colour)
    if reference is not None:
        axes.axvline(reference, color="#999999", linewidth=1, linestyle=":")
    # Escaped, because a dollar sign in a name would begin a formula.
    axes.set_yticks(range(len(shown)), [one.label.replace("$", r"\$") for one in shown])
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.set_xlabel(axis)
    left = len(estimates) - len(shown)
    axes.set_title(f"{title} (and {left} more)" if left else title)
    return axes
