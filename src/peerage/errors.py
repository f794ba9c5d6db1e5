"""The base error with a place and a hint, its subclasses, and commands that install extras."""

from __future__ import annotations

import difflib
import json
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

MAX_LISTED = 10  # problems listed in one error
MAX_ECHO = 60  # characters of a user's own value that a message repeats
MAX_KNOWN = 30  # names that a hint lists

KeyPath = tuple[str | int, ...]  # a key of a nested document: names, and indices of lists

VENDOR_KEY = re.compile(
    r"(?:(?:sk|pk|rk|gsk|hf|ghp|gho|r8)_|(?:sk|xai|nvapi|pplx|csk)-|Bearer )[\w.-]{12,}"
    r"|AIza[\w-]{20,}"
)
KEY_WITHIN = re.compile(rf"(?<![^\W_])(?:{VENDOR_KEY.pattern})")  # at the start of a word
NOT_SHOWN = "(not shown: it looks like a key)"
MIN_RANDOM_CHARACTERS = 20  # a word of so many letters and digits may be a key


class PeerageError(Exception):
    """A mistake that a user can correct: what is wrong, where, and what to do."""

    exit_code = 2

    def __init__(self, message: str, *, place: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = without_keys(message)
        self.place = without_keys(place)
        self.hint = without_keys(hint)

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place else ""
        hint = f" {self.hint}" if self.hint else ""
        return f"{where}{self.message}{hint}"


class UsageError(PeerageError):
    """A command or function was used in a way that it does not support."""


class ConfigError(PeerageError):
    """The configuration is wrong."""


class InputError(PeerageError):
    """A file or value cannot be read as expected."""


class NotFoundError(InputError):
    """The store has nothing with that name or id."""


class NotAllowedError(PeerageError):
    """The caller of a request may not do this."""


class UnreadableError(InputError):
    """A stored session holds an event that cannot be read; other sessions are not affected."""


class MissingExtraError(PeerageError):
    """A feature needs a package that is not installed."""


class BudgetError(PeerageError):
    """The budget does not cover the next call."""

    exit_code = 4
    needs_usd = 0.0  # cost of the next session, if the budget is too small for it


# -- several problems in one error -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem in a document: a sentence, a hint, and the key or place where it is.

    `among` lists keys that cause the problem together, such as weights with a wrong sum.
    """

    message: str
    hint: str = ""
    at: KeyPath = ()
    place: str = ""
    among: tuple[KeyPath, ...] = ()


def config_error(problems: Sequence[Problem | PeerageError]) -> ConfigError:
    """Return one error that lists all problems; if there is only one, keep its place and hint."""
    if len(problems) == 1:
        (only,) = problems
        return ConfigError(only.message, place=only.place, hint=only.hint)
    lines = [f"{len(problems)} things are wrong."]
    lines += [f"  {config_error([problem])}" for problem in problems[:MAX_LISTED]]
    if len(problems) > MAX_LISTED:
        lines.append(f"  and {len(problems) - MAX_LISTED} more.")
    return ConfigError("\n".join(lines), place="configuration")


# -- users' values in messages -----------------------------------------------------------------


def shown(value: object) -> str:
    """Return a user's value for a message: short, on one line, and never a secret."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, int) and value.bit_length() > 4 * MAX_ECHO:
        return "a huge integer"  # Python refuses to print very large integers
    if not isinstance(value, str):
        return _cut(str(value))
    if holds_key(value) or any(may_be_key(word) for word in [value, *value.split()]):
        return NOT_SHOWN
    return _cut(repr(value))


def few(texts: Sequence[str], most: int = MAX_LISTED, between: str = ", ") -> str:
    """Return the first texts, joined, with an ellipsis if there are more."""
    return between.join(texts[:most]) + (", …" if len(texts) > most else "")


def how_many(n: int, singular: str, plural: str = "") -> str:
    """Return a number with its noun: `1 call`, `1,234 calls`; `plural` for irregular nouns."""
    return f"{n:,} {singular if n == 1 else plural or f'{singular}s'}"


def looks_like_key(text: str) -> bool:
    """Return whether a text has the form of a vendor's API key."""
    return VENDOR_KEY.fullmatch(text.strip()) is not None


def holds_key(text: str) -> bool:
    """Return whether a text contains a vendor's API key."""
    return KEY_WITHIN.search(text) is not None


def without_keys(text: str) -> str:
    """Return the text with every vendor's API key removed."""
    return KEY_WITHIN.sub(NOT_SHOWN, text)


def may_be_key(text: str) -> bool:
    """Return whether a text may be a key, which messages do not repeat."""
    return looks_like_key(text) or _is_random(text)


def _is_random(text: str) -> bool:
    is_one_word = len(text) >= MIN_RANDOM_CHARACTERS and text.isalnum()
    has_letter = any(character.isascii() and character.isalpha() for character in text)
    return is_one_word and has_letter and any(map(str.isdecimal, text))


def meant(word: str, known: Iterable[str]) -> str:
    """Return a hint: the known word nearest to this one, or all known words."""
    names = sorted(known)
    near = difflib.get_close_matches(word[:MAX_ECHO], names, n=1)
    if near:
        return f"Did you mean {near[0]!r}?"
    if not names:
        return ""
    more = f" and {len(names) - MAX_KNOWN} more" if len(names) > MAX_KNOWN else ""
    return f"Known: {', '.join(names[:MAX_KNOWN])}{more}."


def _cut(text: str) -> str:
    return text if len(text) <= MAX_ECHO else f"{text[:MAX_ECHO]}…"


# -- how this copy was installed -----------------------------------------------------------------

STAMP = ".peerage-stamp"  # file in an environment that `./dev` made


@lru_cache(maxsize=32)
def install_command(extra: str) -> str:
    """Return the command that installs an extra into this installation of peerage."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        origin = distribution("peerage").read_text("direct_url.json")
    except PackageNotFoundError:
        origin = None
    return command_for(extra, origin, is_made_by_dev=(Path(sys.prefix) / STAMP).exists())


def command_for(extra: str, origin: str | None, *, is_made_by_dev: bool = False) -> str:
    """Return the command that installs an extra; `origin` is direct_url.json as text, or None."""
    import shlex
    from urllib.parse import unquote, urlsplit

    where = json.loads(origin) if origin else {}
    url = where.get("url", "")
    parts = urlsplit(url)
    if parts.scheme != "file":
        wanted = f"peerage[{extra}]"
        if vcs := where.get("vcs_info", {}).get("vcs"):
            wanted += f" @ {vcs}+{url}"
        elif url:
            wanted += f" @ {url}"
        return f"pip install {shlex.quote(wanted)}"
    folder = unquote(parts.path)
    if is_made_by_dev:
        return f"{shlex.quote(f'{folder}/dev')} setup {extra}"
    editable = "--editable " if where.get("dir_info", {}).get("editable") else ""
    return f"pip install {editable}{shlex.quote(f'{folder}[{extra}]')}"
