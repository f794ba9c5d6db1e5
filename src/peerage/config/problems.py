"""What is wrong with a configuration: sentences with a place and a hint, several in one error."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from peerage.config.lines import KeyPath
from peerage.errors import ConfigError

MAX_SHOWN = 10
MAX_ECHO = 60  # characters of a user's own value
MAX_KNOWN = 30

VENDORS = re.compile(
    r"(?:(?:sk|pk|rk|gsk|hf|ghp|gho|r8)_|(?:sk|xai|nvapi|pplx|csk)-|Bearer )[\w.-]{12,}"
    r"|AIza[\w-]{20,}"
)
RANDOM = re.compile(r"(?=[^\W_]*\d)(?=[^\W_]*[a-zA-Z])[^\W_]{20,}")  # nothing in it to read


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong, at a key; `among` names the keys that together cause it."""

    at: KeyPath
    message: str
    hint: str = ""
    among: tuple[KeyPath, ...] = ()


@dataclass(frozen=True, slots=True)
class Placed:
    """A problem whose place is already words."""

    place: str
    message: str
    hint: str = ""


def error(problems: Sequence[Placed]) -> ConfigError:
    """One error for all of them; a single problem keeps its own place and hint."""
    if len(problems) == 1:
        (only,) = problems
        return ConfigError(only.message, place=only.place, hint=only.hint)
    told = [str(error([problem])) for problem in problems[:MAX_SHOWN]]
    if len(problems) > MAX_SHOWN:
        told.append(f"and {len(problems) - MAX_SHOWN} more.")
    return ConfigError(
        "\n".join([f"{len(problems)} things are wrong.", *(f"  {line}" for line in told)]),
        place="configuration",
    )


def looks_like_key(text: str) -> bool:
    """Whether a text has the look of a vendor's key, which must then be shown to no one."""
    return VENDORS.fullmatch(text.strip()) is not None


def shown(value: object) -> str:
    """A user's value fit to be repeated: short, on one line, and never a secret."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list | tuple):
        return "a list"
    if not isinstance(value, str):
        return _cut(str(value) if not isinstance(value, int) else _digits(value))
    if any(looks_like_key(word) or RANDOM.fullmatch(word) for word in [value, *value.split()]):
        return "(not shown: it looks like a key)"
    return _cut(repr(value))


def _digits(value: int) -> str:
    """An integer's digits; beyond what Python will print, only that it is huge."""
    return str(value) if value.bit_length() < 4 * MAX_ECHO else "a huge integer"


def _cut(text: str) -> str:
    return text if len(text) <= MAX_ECHO else f"{text[:MAX_ECHO]}…"


def meant(word: str, known: Iterable[str]) -> str:
    """A hint: the known word this one is nearest to, or all of them."""
    names = sorted(known)
    near = difflib.get_close_matches(word[:MAX_ECHO], names, n=1)
    if near:
        return f"Did you mean {near[0]!r}?"
    if not names:
        return ""
    more = f" and {len(names) - MAX_KNOWN} more" if len(names) > MAX_KNOWN else ""
    return f"Known: {', '.join(names[:MAX_KNOWN])}{more}."
