"""Things of one kind by name, built in or from another package by entry point.

A registry looks in three places, in this order, the first time a name is asked for:
what was registered by hand, the modules of its own package, and the entry points of
its group (`peerage.rules`, `peerage.providers`, …).
"""

from __future__ import annotations

import importlib
import logging
import pkgutil
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar, cast

from peerage.errors import UsageError
from peerage.text import visible

S = TypeVar("S")
T = TypeVar("T")

log = logging.getLogger(__name__)  # unless a program sets logging up, warnings go to stderr


class Registry(Generic[T]):
    """Things of one kind by name; loading a package's modules waits until a name is asked for."""

    def __init__(self, kind: str, package: str) -> None:
        self.kind = kind
        self.package = package
        self._things: dict[str, T] = {}
        self._broken: dict[str, str] = {}  # why each plug-in that is not there is not there
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
        """The thing of that name; an error says what there is, or why a plug-in could not load."""
        self._load()
        if name in self._things:
            return self._things[name]
        known = f"Known: {', '.join(sorted(self._things))}."
        if name in self._broken:
            raise UsageError(self._broken[name], hint=known)
        raise UsageError(f"there is no {self.kind} {name!r}.", hint=known)

    def names(self) -> tuple[str, ...]:
        """The names of everything that could be loaded."""
        self._load()
        return tuple(sorted(self._things))

    def __iter__(self) -> Iterator[tuple[str, T]]:
        return ((name, self._things[name]) for name in self.names())

    def _load(self) -> None:
        if not self._loaded:
            self._loaded = True
            self._load_built_ins()
            self._load_plugins()

    def _load_built_ins(self) -> None:
        home = importlib.import_module(self.package)
        for module in pkgutil.iter_modules(home.__path__):
            importlib.import_module(f"{self.package}.{module.name}")

    def _load_plugins(self) -> None:
        built_in = set(self._things)
        for point in entry_points(group=self.package):
            if point.name in built_in:
                self._leave_out(point, "the name is taken")
                continue
            try:
                thing = point.load()
            except (Exception, SystemExit) as error:  # noqa: BLE001 - a stranger's own code
                self._leave_out(point, f"{type(error).__name__}: {error}")
            else:
                self._things.setdefault(point.name, thing)

    def _leave_out(self, point: EntryPoint, reason: str) -> None:
        """Go on without a plug-in, and say so this once."""
        package = point.dist.name if point.dist is not None else point.value
        sentence = f"the {self.kind} {point.name!r} of the package {package} could not be loaded"
        self._broken[point.name] = visible(f"{sentence} ({reason}).")
        log.warning("peerage: %s", self._broken[point.name])
