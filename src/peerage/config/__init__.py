"""The only reader of TOML and of the environment.

A value comes from the defaults, then peerage.toml, then the environment, then flags: the
later wins. The typed tree is loaded when first used, so that a shipped rubric costs no more
than its two small files.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from peerage.config.panel import default_seats
from peerage.config.problems import Placed, error
from peerage.config.rubrics import rubric, rubric_names

if TYPE_CHECKING:
    from peerage.config.layers import Layer
    from peerage.config.tree import (
        AuditSettings,
        CommunitySettings,
        CouncilSettings,
        Settings,
    )

__all__ = [
    "AuditSettings",
    "CommunitySettings",
    "CouncilSettings",
    "Settings",
    "default_seats",
    "find",
    "load",
    "rubric",
    "rubric_names",
    "secret",
]

TREE = frozenset({"AuditSettings", "CommunitySettings", "CouncilSettings", "Settings"})
FILE = Path("peerage.toml")
NO_FLAGS: Mapping[str, object] = MappingProxyType({})


def __getattr__(name: str) -> Any:
    if name not in TREE:
        raise AttributeError(f"module 'peerage.config' has no attribute {name!r}")
    return getattr(import_module("peerage.config.tree"), name)


def load(
    path: str | Path | None = None,
    *,
    flags: Mapping[str, object] = NO_FLAGS,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """The settings that a file, the environment and flags (by dotted names) come to.

    Everything wrong is refused in one error. A flag that is None was not given.
    """
    from peerage.config.layers import Layer, from_environ, from_file, from_flags
    from peerage.config.reading import read

    environ = os.environ if environ is None else environ
    file = find(path, environ)
    said = from_file(file) if file is not None else Layer({}, {}, is_file=True)
    variables = from_environ(environ, _keys_of_seats(said))
    options = from_flags(flags)
    return read((options, variables, said, _shipped_beneath(options, variables, said)))


def secret(name: str, environ: Mapping[str, str] | None = None) -> str | None:
    """The key that a variable holds, or None where it is not named, not set or blank.

    A line end that came along from a file is no part of a key, and a header that carried
    it would be refused by a library that prints the header.
    """
    return ((os.environ if environ is None else environ).get(name) or "").strip() or None


def find(path: str | Path | None = None, environ: Mapping[str, str] | None = None) -> Path | None:
    """The file that would be read: the one asked for, PEERAGE_CONFIG's, or one here, if any."""
    environ = os.environ if environ is None else environ
    if path is not None:
        return Path(path)
    if "PEERAGE_CONFIG" in environ:
        named = environ["PEERAGE_CONFIG"]
        if not named.strip():
            raise error([Placed("PEERAGE_CONFIG", "it is set but empty.", "Unset it.")])
        return Path(named)
    return FILE if FILE.exists() else None


def _keys_of_seats(file: Layer) -> frozenset[str]:
    """The variables that hold seats' keys: theirs to name, even if the name begins like ours."""
    seats = file.tree.get("seat")
    tables = [seat for seat in seats if isinstance(seat, dict)] if isinstance(seats, list) else []
    names = [table.get("api_key_env") for table in tables]
    return frozenset(name for name in names if isinstance(name, str))


def _shipped_beneath(options: Layer, variables: Layer, file: Layer) -> Layer:
    """The shipped rubrics of which a variable or a flag changes a part; the rest comes from here.

    A file that writes such a rubric has replaced it whole, so there is nothing beneath.
    """
    from peerage.config.layers import Layer
    from peerage.config.rubrics import shipped_names, table

    changed = {**_rubrics(variables), **_rubrics(options)}
    beneath = {
        name: {key: value for key, value in table(name).items() if key != "name"}
        for name in sorted(set(changed) & set(shipped_names()) - set(_rubrics(file)))
    }
    return Layer({"rubric": beneath} if beneath else {}, {})


def _rubrics(layer: Layer) -> dict[str, Any]:
    own = layer.tree.get("rubric")
    return own if isinstance(own, dict) else {}
