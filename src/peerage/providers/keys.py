"""Keys: read by the name of their variable, and kept out of everything that is written down."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

MAX_MESSAGE_CHARACTERS = 300
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")


def secret(name: str, environ: Mapping[str, str] | None = None) -> str | None:
    """The key that a variable holds, or None where it is not named, not set or blank.

    A line end that came along from a file is no part of a key, and a header that carried
    it would be refused by a library that prints the header.
    """
    return ((os.environ if environ is None else environ).get(name) or "").strip() or None


def without(text: str, key: str | None) -> str:
    """The text with every occurrence of a key struck out, whoever repeated it."""
    return text.replace(key, "[key]") if key else text


def sentence(text: str, key: str | None = None) -> str:
    """A message fit for a log and a person: one short line, without the key.

    The key goes first: cut through the middle, it would no longer be found.
    """
    line = " ".join(CONTROL.sub(" ", without(text, key)).split())
    if len(line) <= MAX_MESSAGE_CHARACTERS:
        return line
    return line[: MAX_MESSAGE_CHARACTERS - 1] + "…"
