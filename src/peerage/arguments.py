"""Checks of the arguments of public functions: unknown names and wrong types are refused."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from os import PathLike
from typing import Any, NamedTuple, ParamSpec, Protocol, TypeVar, get_type_hints

from peerage.errors import UsageError, meant

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C")


class ArgumentError(UsageError, TypeError):
    """A function was called with an argument that it does not have, or of the wrong type."""


class Kind(NamedTuple):
    """The kind of an argument: its name in messages, a test of a value, and a hint."""

    words: str
    fits: Callable[[Any], bool]
    hint: str = ""


def instance(words: str, *types: type, hint: str = "") -> Kind:
    """Return the kind of argument that must be an instance of one of these types."""
    return Kind(words, lambda value: isinstance(value, types), hint)


def sequence_of(words: str, *types: type, hint: str = "") -> Kind:
    """Return the kind of argument that must be a list or tuple of instances of these types."""
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
    """Return a kind that also allows None."""
    return kind._replace(fits=lambda value: value is None or kind.fits(value))


TEXT = instance("a string", str)
TEXTS = sequence_of("a list of strings", str, hint='As in ["a", "b"].')
NAMES = instance("a string or a list of strings", str, list, tuple, hint='As in ["a", "b"].')
FLAG = instance("True or False", bool)
AMOUNT = Kind(
    "a number of at least 0",
    lambda value: isinstance(value, int | float) and not isinstance(value, bool) and value >= 0,
)
MAPPING = instance("a mapping", Mapping)
PATH = instance("a path", str, PathLike)


class OptionField(Protocol):
    """One field of an options model: the parts that a signature and a help text show."""

    default: Any
    description: str | None


def check_arguments(
    model: type | None = None, /, **kinds: Kind
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorate a function to refuse wrong arguments with an `ArgumentError`, when it is called.

    The fields of `model`, a model of options, are the keywords that the function's `**` parameter
    takes; `help` lists them with their defaults. The value of an argument that has a kind here is
    checked against that kind.
    """
    fields: Mapping[str, OptionField] = getattr(model, "model_fields", {})
    types = get_type_hints(model) if fields else {}

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        signature = inspect.signature(function)
        name = function.__qualname__.removesuffix(".__init__")
        own = {one.name: one.kind for one in signature.parameters.values()}
        known = [one for one, kind in own.items() if kind != inspect.Parameter.VAR_KEYWORD]
        options = {one: field for one, field in fields.items() if one not in known}
        known = [one for one in (*known, *options) if one not in ("self", "cls")]
        is_open = model is None and len(known) < len(own.keys() - {"self", "cls"})

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

        if options:
            call.__signature__ = _with_options(signature, options, types)  # type: ignore[attr-defined]
            call.__doc__ = f"{inspect.getdoc(function)}\n\n{_describe_options(options)}"
        return call

    return decorate


def _with_options(
    signature: inspect.Signature, options: Mapping[str, OptionField], types: Mapping[str, Any]
) -> inspect.Signature:
    """Return a signature that lists options in the place of its `**` parameter."""
    own = [one for one in signature.parameters.values() if one.kind != one.VAR_KEYWORD]
    keyword = partial(inspect.Parameter, kind=inspect.Parameter.KEYWORD_ONLY)
    listed = [keyword(k, default=one.default, annotation=types[k]) for k, one in options.items()]
    return signature.replace(parameters=[*own, *listed])


def _describe_options(options: Mapping[str, OptionField]) -> str:
    """Return docstring lines for the options: one line each, with the default and the meaning."""
    lines = (f"    {name} = {one.default!r}: {one.description}" for name, one in options.items())
    return "\n".join(["Options:", *lines])


def check_fields(cls: type[C]) -> type[C]:
    """Decorate a dataclass to refuse unknown fields with an `ArgumentError`."""
    init: Callable[..., None] = cls.__init__
    cls.__init__ = check_arguments()(init)  # type: ignore[method-assign]
    return cls


MISSING = object()


def _kind_name(value: object) -> str:
    """Return a value's type as a message names it."""
    if value is None:
        return "None"
    if isinstance(value, list | tuple) and value:
        return f"a {type(value).__name__} of {type(value[0]).__name__}"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:g}"
    return f"a {type(value).__name__}"
