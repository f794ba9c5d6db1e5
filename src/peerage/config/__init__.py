"""Settings: the only module that reads `peerage.toml` and the environment.

Settings come from the defaults, the file, the environment and flags; later sources win.
"""

from __future__ import annotations

import math
import os
import stat
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from peerage.config import trust
from peerage.config.checks import validate
from peerage.config.rubrics import rubric, rubric_names
from peerage.config.settings import CouncilSettings, Origin, SeatTable, Settings
from peerage.config.sources import CONFIG, Merged, merge, value_at
from peerage.errors import ConfigError, Problem, meant, shown
from peerage.hosts import KEY_NAMES, OPENAI_URL, is_host_of
from peerage.text import visible
from peerage.types import OLD_OWN_VOTES, Seat, own_votes_hint

__all__ = [
    "KEY_NAMES",
    "OPENAI_URL",
    "CouncilSettings",
    "Settings",
    "default_seats",
    "find",
    "key_name",
    "load",
    "permissions",
    "rubric",
    "rubric_names",
    "secret",
    "with_flags",
    "with_note",
    "with_panel",
    "with_seats",
]

FILE = Path("peerage.toml")
NO_FLAGS: Mapping[str, object] = MappingProxyType({})
ENOUGH = 3  # with keys for this many vendors, one seat of each is enough


def load(
    path: str | Path | None = None,
    *,
    flags: Mapping[str, object] = NO_FLAGS,
    environ: Mapping[str, str] = os.environ,
) -> Settings:
    """Return the settings from a file, the environment and flags (by dotted names).

    All mistakes are reported in one error. A flag with the value None counts as not given. A file
    that is only found in the working directory must belong to the user, and what it does beyond
    configuring needs consent (`trust`). If other users can write to it, `notes` has a warning.
    """
    file = find(path, environ)
    is_named = path is not None or CONFIG in environ
    notes = () if file is None or is_named else _check_owner(file)
    merged = merge(file, environ, flags)
    settings = validate(merged)
    if file is not None and not is_named:
        trust.check_consent(merged, settings, file, environ)
    settings._origin = Origin(
        file, (*notes, *_notes_on_words(merged)), _place_by_seat(settings, merged)
    )
    return settings


def _place_by_seat(settings: Settings, merged: Merged) -> dict[str, str]:
    """Return the line of each seat of a file, in words, for problems that only a provider finds."""
    lines = {
        seat.name: merged.line(Problem("", at=("seat", index)))
        for index, seat in enumerate(settings.seat)
    }
    return {
        name: f"{merged.file}, line {line:.0f}, seat {name}"
        for name, line in lines.items()
        if math.isfinite(line)
    }


def _notes_on_words(merged: Merged) -> Iterator[str]:
    """Yield a note for each setting whose value is a word that an earlier version used."""
    at = ("council", "own_votes")
    word = value_at(merged.tree, at)
    if word in OLD_OWN_VOTES:
        yield f"{merged.place(Problem('', at=at))}: {own_votes_hint(word)}"


def with_flags(settings: Settings, flags: Mapping[str, object]) -> Settings:
    """Return the settings with some keys changed, by dotted names, and check them again.

    Without flags, return the same object.
    """
    if all(value is None for value in flags.values()):
        return settings
    merged = merge(None, {}, flags)
    tree = settings.model_dump()
    council = {**tree["council"], **merged.tree.get("council", {})}
    merged.tree = {**tree, **merged.tree, "council": council}
    result = validate(merged)
    result._origin = settings._origin
    return result


def with_seats(settings: Settings, names: Sequence[str]) -> Settings:
    """Return the settings with only these seats, in the order of the file."""
    known = [seat.name for seat in settings.seat]
    chosen = {name.strip() for name in names}
    for name in sorted(chosen - set(known)):
        near = meant(name, known)
        listed = "" if near.startswith("Known") else f" Known: {', '.join(known)}."
        raise ConfigError(f"there is no seat {shown(name)}.", hint=near + listed)
    return with_panel(settings, [seat for seat in settings.seat if seat.name in chosen])


def with_panel(settings: Settings, seats: Sequence[SeatTable]) -> Settings:
    """Return the settings with these seats, and without references to other seats."""
    names = {seat.name for seat in seats}
    council, server = settings.council, settings.server
    if council.chair not in names:
        council = council.model_copy(update={"chair": None})
    if server.quick_seat not in names:
        server = server.model_copy(update={"quick_seat": None})
    panels = {name: one for name, one in settings.panel.items() if names.issuperset(one.seats)}
    changes = {"council": council, "server": server, "panel": panels}
    tables = [seat.model_dump() for seat in seats]
    return with_flags(settings.model_copy(update=changes), {"seat": tables})


def with_note(settings: Settings, note: str) -> Settings:
    """Return the settings with one more note for the user."""
    result = settings.model_copy()
    result._origin = replace(settings._origin, notes=(*settings.notes, note))
    return result


def find(path: str | Path | None = None, environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return the settings file: `path`, else PEERAGE_CONFIG, else the one in this folder.

    If PEERAGE_CONFIG names a folder, it is the peerage.toml in that folder, if there is one.
    """
    if path is not None:
        return Path(path)
    file = FILE
    if CONFIG in environ:
        named = environ[CONFIG]
        if not named.strip():
            raise ConfigError("it is set but empty.", place=CONFIG, hint="Unset it.")
        if not os.path.isdir(named):  # noqa: PTH112 - any text, also one that no file can have
            return Path(named)
        file = Path(named) / FILE
    try:
        return file if file.exists() else None
    except OSError:  # no permission to search the folder: reading the file reports that
        return file


def permissions(environ: Mapping[str, str] = os.environ) -> tuple[Path, list[trust.Permission]]:
    """Return the file in the working directory, and what in it needs consent."""
    if CONFIG in environ:
        raise ConfigError(
            "this variable names the settings file, so the file needs no consent.", place=CONFIG
        )
    file = find(None, environ)
    if file is None:
        raise ConfigError("there is no peerage.toml in this folder.")
    _check_owner(file)
    merged = merge(file, environ, NO_FLAGS)
    return file, trust.permissions_of(merged, validate(merged))


def _check_owner(file: Path) -> tuple[str, ...]:
    """Refuse a found file of another user; return a note if another user can write to it.

    Raise an error for a pipe or a device: reading from it could block forever.
    """
    try:
        folder = file.absolute().parent
        here, link, around = file.stat(), file.lstat(), folder.stat()
    except OSError:
        return ()  # reading the file reports the error
    place = visible(str(folder / file.name))
    if not stat.S_ISREG(here.st_mode):
        raise ConfigError("the settings file is not a regular file.", place=place)
    if not hasattr(os, "geteuid"):
        return ()
    trusted = {os.geteuid(), 0}
    if not {here.st_uid, link.st_uid} <= trusted:
        raise ConfigError(
            "this settings file belongs to another user, so it is not used.",
            place=place,
            hint=f"To use it all the same: --config {file.name}. To use another: --config FILE.",
        )
    whose = ""
    if around.st_uid not in trusted:
        whose = "another user owns its folder"
    elif _others_write(here) or (_others_write(around) and not around.st_mode & stat.S_ISVTX):
        whose = "others may write to it or its folder"
    hint = "Choose another with --config."
    return (f"the settings come from {place}: {whose}. {hint}",) if whose else ()


def _others_write(status: os.stat_result) -> bool:
    """Return whether users other than the owner, outside this user's own group, may write."""
    by_group = status.st_mode & stat.S_IWGRP and status.st_gid not in {os.getegid(), 0}
    return bool(by_group or status.st_mode & stat.S_IWOTH)


def default_seats(environ: Mapping[str, str] = os.environ) -> list[dict[str, Any]]:
    """Return [[seat]] tables for the API keys that are set; an empty list if there are none.

    Seats of different vendors are preferred to several of one, because models of one family favour
    each other. A key for OpenRouter reaches all vendors, so it is used alone.
    """
    text = (files("peerage.config") / "default_seats.toml").read_text(encoding="utf-8")
    vendors = [
        vendor
        for vendor in tomllib.loads(text)["vendor"]
        if secret(usual_key_name(vendor["base_url"], environ), environ) is not None
    ]
    n_each = 1 if len(vendors) >= ENOUGH else 2 if len(vendors) == 2 else ENOUGH
    if vendors and "openrouter" in vendors[0]["base_url"]:
        vendors, n_each = vendors[:1], len(vendors[0]["seats"])
    return [
        {
            **seat,
            "base_url": vendor["base_url"],
            "api_key_env": usual_key_name(vendor["base_url"], environ),
        }
        for vendor in vendors
        for seat in vendor["seats"][:n_each]
    ]


# -- keys of models ----------------------------------------------------------------------------


def secret(name: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the key in an environment variable, or None if it is not set or blank.

    A trailing line end is removed: the HTTP library would refuse the header and print the key.
    """
    return environ.get(name, "").strip() or None


def key_name(seat: Seat, environ: Mapping[str, str] = os.environ) -> str:
    """Return the name of the variable that contains a seat's key; "" if there is none.

    It is the variable that the seat names, or else the usual one of its vendor.
    """
    if seat.api_key_env or seat.provider != "openai":
        return seat.api_key_env
    return usual_key_name(seat.base_url or OPENAI_URL, environ)


def usual_key_name(base_url: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return the usual variable for an address, preferring one that is set; "" if none is known."""
    parts = urlsplit(base_url)
    host = parts.hostname or ""
    for vendor, names in KEY_NAMES.items():
        if parts.scheme == "https" and is_host_of(host, vendor):
            return next((name for name in names if secret(name, environ)), names[0])
    return ""
