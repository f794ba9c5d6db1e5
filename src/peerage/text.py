"""Text made valid where it enters: what comes back can be stored, sent and printed as UTF-8."""

from __future__ import annotations

import re
from typing import Any

SURROGATES = re.compile("[\ud800-\udfff]")


def is_unicode(text: str) -> bool:
    """Whether a text holds no half of a surrogate pair, which no file can store."""
    return text.isascii() or SURROGATES.search(text) is None


def valid_text(text: str) -> str:
    """The text with U+FFFD for every half of a surrogate pair.

    Python strings can hold such halves (a bad byte of a command line, "\\ud800" in JSON),
    and no file, database or terminal takes them.
    """
    return text if text.isascii() else SURROGATES.sub("\ufffd", text)


def valid_values(value: Any) -> Any:
    """A JSON value with every text in it made valid, names of members included."""
    if isinstance(value, str):
        return valid_text(value)
    if isinstance(value, dict):
        return {valid_values(name): valid_values(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [valid_values(member) for member in value]
    return value
