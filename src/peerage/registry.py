"""Registries: a dict behind a decorator, with the same door for built-ins and third parties.

A registry looks in three places, in this order, the first time a name is asked for:
what was registered by hand, the modules of its own package, and the entry points of
its group (`peerage.rules`, `peerage.providers`, …).
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from typing import Generic, TypeVar, cast

from peerage.errors import UsageError

S = TypeVar("S")
T = TypeVar("T")


class Registry(Generic[T]):
    """Things of one kind by name; loading a package's modules waits until a name is asked for."""

    def __init__(self, kind: str, package: str) -> None:
        self.kind = kind
        self.package = package
        self._things: dict[str, T] = {}
        self._loaded = False

    def register(self, name: str) -> Callable[[S], S]:
        """A decorator that keeps its subject under a name; a name is taken only once."""

        def keep(thing: S) -> S:
            if name in self._things:
                raise ValueError(f"{self.kind} {name!r} is registered twice")
            self._things[name] = cast("T", thing)
            return thing

        return keep

    def get(self, name: str) -> T:
        self._load()
        if name not in self._things:
            raise UsageError(
                f"there is no {self.kind} {name!r}.",
                hint=f"Known: {', '.join(sorted(self._things))}.",
            )
        return self._things[name]

    def names(self) -> tuple[str, ...]:
        self._load()
        return tuple(sorted(self._things))

    def __iter__(self) -> Iterator[tuple[str, T]]:
        return ((name, self._things[name]) for name in self.names())

    def _load(self) -> None:
        if self._loaded:
            return
        self._loaded = True
        home = importlib.import_module(self.package)
        for module in pkgutil.iter_modules(home.__path__):
            importlib.import_module(f"{self.package}.{module.name}")
        for point in entry_points(group=self.package):
            self._things.setdefault(point.name, point.load())
