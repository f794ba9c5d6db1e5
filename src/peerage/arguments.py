"""Arguments of public functions: a name or a type that a function does not take is refused."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from os import PathLike
from typing import Any, NamedTuple, ParamSpec, TypeVar

from peerage.errors import UsageError, meant

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C")


class ArgumentError(UsageError, TypeError):
    """A function was called with an argument that it does not take."""


class Kind(NamedTuple):
    """What an argument must be: in words, as a test of a value, and what to do instead."""

    words: str
    fits: Callable[[Any], bool]
    hint: str = ""


def instance(words: str, *types: type, hint: str = "") -> Kind:
    """The kind of values that are instances of some types."""
    return Kind(words, lambda value: isinstance(value, types), hint)


def sequence_of(words: str, *types: type, hint: str = "") -> Kind:
    """The kind of lists or tuples of such instances."""
    return Kind(
        words,
        lambda value: (
            isinstance(value, Sequence)
            and not isinstance(value, str | bytes)
            and all(isinstance(member, types) for member in value)
        ),
        hint,
    )


def optional(kind: Kind) -> Kind:
    """The same kind, or None."""
    return kind._replace(fits=lambda value: value is None or kind.fits(value))


TEXT = instance("a text", str)
TEXTS = sequence_of("a list of texts", str, hint='As in ["a", "b"].')
FLAG = instance("True or False", bool)
AMOUNT = Kind(
    "a number of at least 0",
    lambda value: isinstance(value, int | float) and not isinstance(value, bool) and value >= 0,
)
MAPPING = instance("a mapping", Mapping)
PATH = instance("a path", str, PathLike)


def checked(
    keywords: type | None = None, /, **kinds: Kind
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorate a function to refuse wrong arguments with an `ArgumentError`, when it is called.

    `keywords` is the typed dict of the names that its `**` parameter takes. An argument that has
    a kind here must be of it.
    """
    names = tuple(keywords.__annotations__) if keywords is not None else None

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        signature = inspect.signature(function)
        name = function.__qualname__.removesuffix(".__init__")
        own = {one.name: one.kind for one in signature.parameters.values()}
        known = [one for one, kind in own.items() if kind != inspect.Parameter.VAR_KEYWORD]
        known = [one for one in (*known, *(names or ())) if one not in ("self", "cls")]
        is_open = names is None and len(known) < len(own.keys() - {"self", "cls"})

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            if not is_open:
                for given in kwargs:
                    if given not in known:
                        raise ArgumentError(
                            f"{name}() has no argument {given!r}.", hint=meant(given, known)
                        )
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError as error:
                raise ArgumentError(f"{name}(): {error}.") from None
            for parameter, kind in kinds.items():
                value = bound.arguments.get(parameter, kwargs.get(parameter, MISSING))
                if value is not MISSING and not kind.fits(value):
                    raise ArgumentError(
                        f"{name}(): {parameter} must be {kind.words}, not {_kind_name(value)}.",
                        hint=kind.hint,
                    )
            return function(*args, **kwargs)

        return call

    return decorate


def checked_fields(cls: type[C]) -> type[C]:
    """Decorate a dataclass to refuse unknown fields with an `ArgumentError`."""
    init: Callable[..., None] = cls.__init__
    cls.__init__ = checked()(init)  # type: ignore[method-assign]
    return cls


MISSING = object()


def _kind_name(value: object) -> str:
    """A value's type as a message names it."""
    if value is None:
        return "None"
    if isinstance(value, list | tuple) and value:
        return f"a {type(value).__name__} of {type(value[0]).__name__}"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:g}"
    return f"a {type(value).__name__}"
