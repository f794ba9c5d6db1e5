"""Build SQL from names and values: the only module that quotes.

All SQL that an engine runs is a literal in the source or comes from `sql`, which inserts only
numbers, quoted text and other SQL from this module into a literal template.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import NewType

from peerage.errors import InputError
from peerage.text import is_unicode

NAME, SPARK_NAME = '"', "`"
MAX_NAME_CHARACTERS = 64
SAFE_NAME = re.compile(rf"\w[\w \-()%/#+&:]{{0,{MAX_NAME_CHARACTERS - 1}}}")


Sql = NewType("Sql", str)  # made here; the type checker keeps any other text out of `sql`


def is_safe(name: str) -> bool:
    """Return whether a column may have this name: letters, digits, spaces and `_-()%/#+&:`.

    Our own quoting makes every name safe. This check is for libraries between us and the engines,
    which quote in their own way.
    """
    return SAFE_NAME.fullmatch(name) is not None


def quote_name(text: str, mark: str = NAME) -> Sql:
    """Return a text as one quoted SQL name; values are bound, not quoted."""
    if mark not in (NAME, SPARK_NAME):
        raise ValueError(f"{mark!r} is not a quotation mark of SQL")
    if "\0" in text or not is_unicode(text):
        raise InputError(f"{text[:80]!r} cannot be a name: it is not valid text.")
    return Sql(mark + text.replace(mark, mark * 2) + mark)


def sql(template: str, *parts: Sql | float) -> Sql:
    """Return a literal template with SQL or numbers inserted for its braces."""
    if not all(math.isfinite(part) for part in parts if isinstance(part, float)):
        raise ValueError("SQL has no way to write a number that is not finite")
    return Sql(template.format(*parts))


def join_sql(parts: Iterable[Sql]) -> Sql:
    """Return pieces of SQL separated by commas."""
    pieces = list(parts)
    return sql(", ".join(["{}"] * len(pieces)), *pieces)
