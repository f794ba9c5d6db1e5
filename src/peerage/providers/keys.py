"""Keys, kept out of everything that is written down; `config.secret` reads them by name."""

from __future__ import annotations

import re

MAX_MESSAGE_CHARACTERS = 300
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")


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
