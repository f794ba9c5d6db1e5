"""Text from outside: made valid Unicode when it arrives, and harmless when it is shown.

Answers, names, questions, file names and error messages come from outside. Characters that a
reader cannot see (escape sequences, C1 controls, characters that reorder text or have no width)
are escaped, as in `\\x1b` or `\\u202e`, so that they have no effect.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, cast

T = TypeVar("T")

SURROGATES = re.compile("[\ud800-\udfff]")
_HIDDEN = (
    r"[\x00-\x1f\x7f-\x9f"  # controls
    r"\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"  # reorder or end lines
    r"\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2060-\u2065\u206a-\u206f\u3164"
    r"\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    r"\ud800-\udfff]"  # unpaired surrogates, which cannot be encoded
    # Joiners and variation selectors belong to emoji and many scripts, never next to ASCII.
    r"|(?<![^\x00-\x7f\u200c\u200d])[\u200c\u200d]"
    r"|[\u200c\u200d](?![^\x00-\x7f\u200c\u200d])"
    r"|(?<![^\x00-\x7f])[\ufe00-\ufe0f](?!\u20e3)"
)
HIDDEN = re.compile(_HIDDEN)
HIDDEN_BUT_LAYOUT = re.compile(rf"(?![\n\t])(?:{_HIDDEN})")
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")
FULL_WIDTH_STARTS = ("＝", "＋", "－", "＠")


def is_unicode(text: str) -> bool:
    """Return whether a text has no unpaired surrogates, which no file can store."""
    return text.isascii() or SURROGATES.search(text) is None


def valid_text(text: str) -> str:
    """Replace every unpaired surrogate with U+FFFD.

    Python strings can contain surrogates (from a bad byte of a command line, or "\\ud800" in
    JSON); files, databases and terminals cannot.
    """
    return text if text.isascii() else SURROGATES.sub("\ufffd", text)


def entered_text(text: str) -> str:
    """Return a text from a person or file as valid Unicode, with \\n as the only line ending.

    Browsers send the lines of a form with \\r\\n; without this, the same question would have two
    texts.
    """
    return valid_text(text).replace("\r\n", "\n").replace("\r", "\n")


def parts_of(value: Any) -> list[Any]:
    """Return a JSON value and all values in it, at every depth."""
    parts, waiting = [], [value]
    while waiting:
        part = waiting.pop()
        parts.append(part)
        if isinstance(part, Mapping):
            waiting += part.values()
        elif isinstance(part, list | tuple):
            waiting += part
    return parts


def valid_values(value: T) -> T:
    """Return a JSON value or dataclass with all texts made valid, including keys."""
    valid: Any = value
    if isinstance(value, str):
        valid = valid_text(value)
    elif isinstance(value, Mapping):
        valid = {valid_values(name): valid_values(member) for name, member in value.items()}
    elif isinstance(value, list | tuple):
        valid = type(value)(map(valid_values, value))
    elif is_dataclass(value) and not isinstance(value, type):
        members = {field.name: getattr(value, field.name) for field in fields(value)}
        repaired = {name: valid_values(member) for name, member in members.items()}
        valid = value if repaired == members else replace(value, **repaired)
    return value if valid == value else cast("T", valid)


# -- output -----------------------------------------------------------------------------------


def visible(text: str, *, multiline: bool = False) -> str:
    """Return a text with invisible characters escaped; `multiline` keeps \\n and \\t."""
    return (HIDDEN_BUT_LAYOUT if multiline else HIDDEN).sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return "".join(ascii(character)[1:-1] for character in match[0])


def json_text(document: Any, *, ascii_only: bool = False) -> str:
    """Return a document as JSON with invisible characters escaped; raise ValueError for NaN."""
    text = json.dumps(document, ensure_ascii=ascii_only, indent=2, allow_nan=False)
    return HIDDEN_BUT_LAYOUT.sub(lambda match: json.dumps(match[0])[1:-1], text)


def csv_cell(value: Any) -> Any:
    """Return a value as a CSV cell; a text that looks like a formula gets a quote in front."""
    if not isinstance(value, str):
        return value
    formula = value.lstrip(" ").startswith(FORMULA_STARTS + FULL_WIDTH_STARTS)
    return ("'" if formula else "") + visible(value, multiline=True)


LONG_TEXT = 25  # words


def text_key(text: str) -> int:
    """Return a key of a text that does not depend on case and blanks; odd from 25 words on.

    It is below 2^53, so that every engine keeps it exactly.
    """
    words = text.casefold().split()
    digest = hashlib.blake2b(" ".join(words).encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 12 << 1 | (len(words) >= LONG_TEXT)
