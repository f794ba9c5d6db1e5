"""Tables of our own columns: reviews, opinions, items and users."""

from __future__ import annotations

from functools import partial

from peerage.engines.comparison_tables import SIDES, is_comparisons
from peerage.imports.foreign_records import Beginning
from peerage.imports.formats import Format, FormatFit, Kind, formats, needs
from peerage.reviews.columns import MARK, TABLES, required_columns

TITLES: dict[Kind, str] = {
    "reviews": "a table of reviews",
    "opinions": "a table of opinions",
    "items": "a table of items",
    "users": "a table of users",
}


def sniff(kind: Kind, beginning: Beginning) -> FormatFit:
    """Return how well a file fits a table: whether it has the required columns.

    Comparisons of two models fit reviews in part: with `--as reviews` they are read as such.
    """
    fit = needs(beginning.record, *required_columns(TABLES[kind]))
    if kind == "reviews" and is_comparisons(beginning.columns):
        return FormatFit(len(SIDES), fit.lacks)
    judges = [
        name for name in beginning.columns if name in ("rank", "score") or name.startswith(MARK)
    ]
    if kind == "reviews" and not judges:
        return FormatFit(fit.has, (*fit.lacks, "rank or score"))
    return fit


for _kind, _title in TITLES.items():
    formats.register(_kind)(
        Format(
            _kind,
            _title,
            _kind,
            partial(sniff, _kind),
            None,
            {name: column.meaning for name, column in TABLES[_kind].items()},
        )
    )
