"""Names that look like one another: blanks around them are taken off, other likeness is flagged."""

from __future__ import annotations

from collections.abc import Iterable

from peerage.errors import few

BLANKS = " \t\r\n\u00a0"  # taken off the ends of names
N_NAMED = 5


def alike(names: Iterable[str]) -> list[tuple[str, ...]]:
    """Groups of different names that differ only in blanks or case, each in order."""
    distinct = set(names)
    groups: dict[str, list[str]] = {}
    if len({"".join(name.split()).casefold() for name in distinct}) == len(distinct):
        return []
    for name in sorted(distinct):
        groups.setdefault("".join(name.split()).casefold(), []).append(name)
    return [tuple(group) for group in groups.values() if len(group) > 1]


def alike_flags(names: Iterable[str]) -> list[str]:
    """A flag for names of a table that differ only in blanks or case, if there are any."""
    return _flag("names_alike", alike(names))


def merged_flags(names: Iterable[str]) -> list[str]:
    """A flag for names that are one without the blanks around them, if there are any."""
    groups: dict[str, list[str]] = {}
    for name in sorted(set(names)):
        groups.setdefault(name.strip(BLANKS), []).append(name)
    merged = [tuple(group) for group in groups.values() if len(group) > 1]
    return _flag("names_that_differed_by_spaces", merged)


def _flag(flag: str, groups: list[tuple[str, ...]]) -> list[str]:
    shown = [" and ".join(map(repr, group[:N_NAMED])) for group in groups]
    return [f"{flag}:{len(groups)}: {few(shown, N_NAMED, '; ')}"] if groups else []
