"""Estimates with their intervals as a matplotlib chart, for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from peerage.errors import MissingExtraError, install_command

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROW_INCHES, WIDTH_INCHES, MARGIN_INCHES = 0.32, 7.0, 1.1
MAX_PLOT_ROWS = 40
PLAIN, MARKED = "#33576e", "#b03a2e"


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
