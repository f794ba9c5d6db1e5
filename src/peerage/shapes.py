"""Conversion between JSON values and frozen dataclasses; values of another type are refused."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import lru_cache
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Literal, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

SCALARS = (str, int, float, NoneType)
NO_DEFAULT = (MISSING, MISSING)
NO_WORDS: Mapping[str, str] = MappingProxyType({})
MAX_INTEGER = 2**53  # integers up to here are exact in every engine and in JSON


class WrongShapeError(Exception):
    """A value does not have the type of its field."""


def to_json(value: Any) -> Any:
    """Convert a dataclass, named tuple, mapping or sequence to plain JSON values."""
    if isinstance(value, SCALARS):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {
            _key(field): to_json(getattr(value, field.name))
            for field in fields(value)
            if "omitted" not in field.metadata or getattr(value, field.name) != _default(field)
        }
    if isinstance(value, Mapping):
        return {name: to_json(member) for name, member in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        members = value._asdict()
        while members and members[next(reversed(members))] is None:
            members.popitem()  # empty fields at the end, which older logs lack
        return {name: to_json(member) for name, member in members.items()}
    if isinstance(value, list | tuple):
        return [to_json(member) for member in value]
    return value


def from_json(cls: Callable[..., T], value: Any) -> T:
    """Convert a JSON object to a dataclass or named tuple; raise WrongShapeError if it differs.

    Unknown members are ignored.
    """
    instance: T = _reader_of(cls)(value)
    return instance


Reader: TypeAlias = Callable[[Any], Any]


@lru_cache(maxsize=1024)
def _reader_of(cls: Any) -> Reader:
    """Return a function that reads the members of a JSON object into the fields of these names."""
    hints = get_type_hints(cls)
    if is_dataclass(cls):
        keys = {field.name: _key(field) for field in fields(cls) if field.init}
        renamed = {f.name: f.metadata.get("renamed", {}) for f in fields(cls)}
        defaults = {f.name for f in fields(cls) if (f.default, f.default_factory) != NO_DEFAULT}
    else:
        keys, defaults = {name: name for name in cls._fields}, set(cls._field_defaults)
        renamed = {}
    required = [name for name in keys if name not in defaults]
    readers = [
        (name, key, _reader(hints[name], renamed.get(name, {}))) for name, key in keys.items()
    ]

    def read(value: Any) -> Any:
        json_object, members = _object(value), {}
        for name, key, read_member in readers:
            if key in json_object:
                try:
                    members[name] = read_member(json_object[key])
                except WrongShapeError as error:
                    raise WrongShapeError(f"{key}: {error}") from None
        missing = [keys[name] for name in required if name not in members]
        if missing:
            raise WrongShapeError(f"{', '.join(missing)} missing")
        return cls(**members)

    return read


def _default(field: Field[Any]) -> Any:
    """Return the default value of a field."""
    return field.default if field.default_factory is MISSING else field.default_factory()


def _key(field: Field[Any]) -> str:
    """Return a field's name in JSON: its own, unless its metadata has a `key`."""
    key: str = field.metadata.get("key", field.name)
    return key


def _reader(hint: Any, renamed: Mapping[str, str] = NO_WORDS) -> Reader:
    """Return a function that reads a JSON value into a type or raises WrongShapeError.

    `renamed` maps words of earlier versions to the current words.
    """
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any:
        return lambda value: value
    if origin in (Union, UnionType):  # a type and None, or a string and another type
        others = [member for member in args if member not in (NoneType, str)]
        plain = tuple(one for one in args if one is NoneType or (others and one is str))
        (read,) = (_reader(member, renamed) for member in others or (str,))
        return lambda value: value if isinstance(value, plain) else read(value)
    if origin is Literal:
        words = ", ".join(map(str, args))
        word = _check_that(lambda value: type(value) is str and value in args, f"one of {words}")
        return lambda value: word(renamed.get(value, value) if type(value) is str else value)
    if origin is tuple:
        n, read = None if args[-1] is Ellipsis else len(args), _reader(args[0])
        as_list = _check_that(
            lambda value: isinstance(value, list | tuple) and n in (None, len(value)),
            "a list" if n is None else f"a list of {n}",
        )
        return lambda value: tuple(map(read, as_list(value)))
    if origin is not None and issubclass(origin, Mapping):
        read = _reader(args[1])
        return lambda value: {name: read(member) for name, member in _object(value).items()}
    if isinstance(hint, type) and (is_dataclass(hint) or hasattr(hint, "_fields")):
        return _reader_of(hint)
    if hint is float:  # finite, or an integer that a float can hold
        limit = sys.float_info.max
        return _check_that(
            lambda value: type(value) in (int, float) and -limit <= value <= limit,
            "a finite number",
        )
    if hint is int:
        return _check_that(
            lambda value: type(value) is int and abs(value) <= MAX_INTEGER,
            "a whole number up to 2^53",
        )
    return _check_that(lambda value: type(value) is hint, NAME_BY_TYPE.get(hint, hint.__name__))


def _check_that(fits: Callable[[Any], bool], expected: str) -> Reader:
    """Return a function that passes a fitting value on and raises WrongShapeError for others."""

    def read(value: Any) -> Any:
        if not fits(value):
            actual = NAME_BY_TYPE.get(type(value), type(value).__name__)
            raise WrongShapeError(f"expected {expected}, got {actual}")
        return value

    return read


NAME_BY_TYPE = {
    NoneType: "null",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "a list",
    tuple: "a list",
    dict: "an object",
}
_object = _check_that(lambda value: isinstance(value, Mapping), "an object")


def is_deeper(tree: object, depth: int) -> bool:
    """Return whether objects and lists are nested deeper than `depth`."""
    level = [tree]
    for _ in range(depth):
        level = [
            child
            for node in level
            if isinstance(node, dict | list)
            for child in (node.values() if isinstance(node, dict) else node)
        ]
    return any(isinstance(node, dict | list) for node in level)
