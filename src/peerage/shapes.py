"""JSON values into frozen dataclasses, and back: a value of another shape is refused."""

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
MAX_INTEGER = 2**53  # what every engine and JSON hold exactly


class WrongShapeError(Exception):
    """A value is not what its field says."""


def to_json(value: Any) -> Any:
    """A dataclass, named tuple, mapping or sequence as plain JSON values."""
    if isinstance(value, SCALARS):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {
            _key(field): to_json(member)
            for field in fields(value)
            if (member := getattr(value, field.name)) != field.default
            or "omitted" not in field.metadata
        }
    if isinstance(value, Mapping):
        return {name: to_json(member) for name, member in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        members = value._asdict()
        while members and members[next(reversed(members))] is None:
            members.popitem()  # fields at the end that say nothing, and that older logs lack
        return {name: to_json(member) for name, member in members.items()}
    if isinstance(value, list | tuple):
        return [to_json(member) for member in value]
    return value


def from_json(cls: Callable[..., T], value: Any) -> T:
    """The dataclass or named tuple that a JSON object holds, or a WrongShapeError.

    Members that the class does not have are passed over.
    """
    instance: T = _reader_of(cls)(value)
    return instance


Reader: TypeAlias = Callable[[Any], Any]


@lru_cache(maxsize=1024)
def _reader_of(cls: Any) -> Reader:
    """Reads an object's members into the fields of their names."""
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


def _key(field: Field[Any]) -> str:
    """Return a field's name in JSON: its own, unless its metadata has a `key`."""
    key: str = field.metadata.get("key", field.name)
    return key


def _reader(hint: Any, renamed: Mapping[str, str] = NO_WORDS) -> Reader:
    """Return a function that reads a JSON value into a type, or raises.

    `renamed` maps words that were written by earlier versions to the words of today.
    """
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any:
        return lambda value: value
    if origin in (Union, UnionType):  # the unions we have: a type or None
        (read,) = (_reader(member, renamed) for member in args if member is not NoneType)
        return lambda value: None if value is None else read(value)
    if origin is Literal:
        word = _checked(lambda value: type(value) is str and value in args, "no known word")
        return lambda value: word(renamed.get(value, value) if type(value) is str else value)
    if origin is tuple:
        n, read = None if args[-1] is Ellipsis else len(args), _reader(args[0])
        listed = _checked(
            lambda value: isinstance(value, list | tuple) and n in (None, len(value)),
            "not the list it should be",
        )
        return lambda value: tuple(map(read, listed(value)))
    if origin is not None and issubclass(origin, Mapping):
        read = _reader(args[1])
        return lambda value: {name: read(member) for name, member in _object(value).items()}
    if isinstance(hint, type) and (is_dataclass(hint) or hasattr(hint, "_fields")):
        return _reader_of(hint)
    if hint is float:  # finite, or an integer that a float can hold
        limit = sys.float_info.max
        return _checked(
            lambda value: type(value) in (int, float) and -limit <= value <= limit,
            "no number in range",
        )
    if hint is int:
        return _checked(
            lambda value: type(value) is int and abs(value) <= MAX_INTEGER,
            "no whole number in range",
        )
    return _checked(lambda value: type(value) is hint, f"no {hint.__name__}")


def _checked(fits: Callable[[Any], bool], otherwise: str) -> Reader:
    def read(value: Any) -> Any:
        if not fits(value):
            raise WrongShapeError(f"a {type(value).__name__} is {otherwise}")
        return value

    return read


_object = _checked(lambda value: isinstance(value, Mapping), "no object")
