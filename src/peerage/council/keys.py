"""Keys of objects, compared without regard to how they are spelled."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from peerage.council.jsonish import Object, RepeatedKeys

MAX_CACHED = 64
GAPS = re.compile(r"[\s\-]+")


def fold_key(key: str) -> str:
    """A key as it is compared: "Final Ranking" and "final-ranking" are one."""
    return _cached(key) if len(key) <= MAX_CACHED else _fold(key)


def _fold(key: str) -> str:
    return GAPS.sub("_", key.strip(" *_`\"'").casefold())


_cached = lru_cache(maxsize=4096)(_fold)


def folded(data: Mapping[Any, Any]) -> Object:
    """An object with its own keys as they are compared; what it contains stays as it is."""
    value = {fold_key(key): inner for key, inner in data.items() if isinstance(key, str)}
    if not isinstance(data, RepeatedKeys):
        return value
    told = RepeatedKeys(value)
    told.repeated = data.repeated
    return told


def key_value(data: Mapping[Any, Any], *names: str) -> Any:
    """The value under the first of these names, however it is spelled; else None."""
    for name in names:
        if name in data:
            return data[name]
    by_name = folded(data)
    return next((by_name[name] for name in names if name in by_name), None)
