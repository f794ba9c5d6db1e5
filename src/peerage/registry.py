"""Objects of one kind by name, built in or from another package's entry points.

When a name is first requested, a registry looks in three places, in this order: objects registered
by hand, the modules of its own package, and the entry points of its group (`peerage.rules`,
`peerage.providers`, …).
"""

from __future__ import annotations

import functools
import importlib
import inspect
import logging
import pkgutil
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar, cast

from peerage.errors import PeerageError, UsageError, meant
from peerage.text import visible

F = TypeVar("F", bound=Callable[..., Any])
S = TypeVar("S")
T = TypeVar("T")

Guard = Callable[[F], F]
Adapt = Callable[[object, Guard[Any]], T]

log = logging.getLogger(__name__)  # unless a program sets logging up, warnings go to stderr


class PluginError(PeerageError):
    """A plug-in raised an error, or returned an invalid value."""


def guarded_function(plugin: object, guard: Guard[Any]) -> Any:
    """Return a plug-in's function wrapped so that errors name the plug-in; refuse other objects."""
    if not callable(plugin):
        raise TypeError(f"{type(plugin).__name__} is not a function")
    return guard(plugin)


class Registry(Generic[T]):
    """Objects of one kind by name; the modules of a package load when a name is first requested.

    `adapt` gets the object of an entry point and a guard for its functions. It returns the object
    to register, or raises `TypeError` for an object of another kind.
    """

    def __init__(self, kind: str, package: str, adapt: Adapt[T] = guarded_function) -> None:
        self.kind = kind
        self.package = package
        self._adapt = adapt
        self._things: dict[str, T] = {}
        self._broken: dict[str, str] = {}  # the reason, by plug-in
        self._loaded = False

    def register(self, name: str) -> Callable[[S], S]:
        """Return a decorator that registers an object under a name that is not yet used."""

        def register(subject: S) -> S:
            if name in self._things:
                raise ValueError(f"{self.kind} {name!r} is registered twice")
            self._things[name] = cast("T", subject)
            return subject

        return register

    def get(self, name: str) -> T:
        """Return the object of that name; the error lists all names, or why a plug-in failed."""
        self._load()
        if name in self._things:
            return self._things[name]
        near = meant(name, self._things)
        known = f"Known: {', '.join(sorted(self._things))}."
        hint = f"{near} {known}" if near.startswith("Did") else known
        raise UsageError(self._broken.get(name, f"there is no {self.kind} {name!r}."), hint=hint)

    def names(self) -> tuple[str, ...]:
        """Return the names of all objects that could be loaded."""
        self._load()
        return tuple(sorted(self._things))

    def __iter__(self) -> Iterator[tuple[str, T]]:
        return ((name, self._things[name]) for name in self.names())

    def _load(self) -> None:
        if self._loaded:
            return
        self._loaded = True
        self._load_built_ins()
        names = set(self._things)
        for point in entry_points(group=self.package):
            if point.name in names:
                self._leave_out(point, "the name is already used")
                continue
            try:
                loaded = point.load()
                # its module may have registered it already, with the decorator
                plugin = self._adapt(self._things.pop(point.name, loaded), self._guard(point))
                if (name := getattr(plugin, "name", point.name)) != point.name:
                    raise TypeError(f"its name attribute is {name!r}")
            except (Exception, SystemExit) as error:  # noqa: BLE001 - third-party code
                self._leave_out(point, f"{type(error).__name__}: {error}")
            else:
                self._things[point.name] = plugin
                names.add(point.name)

    def _load_built_ins(self) -> None:
        for module in pkgutil.iter_modules(importlib.import_module(self.package).__path__):
            importlib.import_module(f"{self.package}.{module.name}")

    def _leave_out(self, point: EntryPoint, reason: str) -> None:
        """Skip a plug-in, and log the reason once."""
        self._broken[point.name] = visible(
            f"{self._describe(point)} could not be loaded ({reason})."
        )
        log.warning("peerage: %s", self._broken[point.name])

    def _describe(self, point: EntryPoint) -> str:
        package = point.dist.name if point.dist is not None else point.value
        return f"the {self.kind} {point.name!r} of the package {package}"

    @contextmanager
    def _blame(self, point: EntryPoint) -> Iterator[None]:
        """Turn any error of a plug-in into one that names the plug-in."""
        try:
            yield
        except PeerageError:
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise PluginError(visible(f"{self._describe(point)} failed ({reason}).")) from error

    def _guard(self, point: EntryPoint) -> Guard[Any]:
        """Return a decorator for a plug-in's functions of any kind; errors name the plug-in."""

        async def await_result(result: Awaitable[Any]) -> Any:
            with self._blame(point):
                return await result

        def yield_from(results: Iterator[Any]) -> Iterator[Any]:
            with self._blame(point):
                yield from results

        def guard(function: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(function)
            def call(*arguments: Any, **options: Any) -> Any:
                with self._blame(point):
                    result = function(*arguments, **options)
                if inspect.isgenerator(result):
                    return yield_from(result)
                return await_result(result) if inspect.isawaitable(result) else result

            return call

        return guard
