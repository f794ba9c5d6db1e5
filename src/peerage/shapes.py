"""JSON values into frozen dataclasses, and back: a value of another shape is refused."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

SCALARS = (str, int, float, NoneType)
MAX_INTEGER = 2**53  # what every engine and JSON hold exactly


class WrongShapeError(Exception):
    """A value is not what its field says."""


def to_json(value: Any) -> Any:
    """A dataclass, named tuple, mapping or sequence as plain JSON values."""
    if isinstance(value, SCALARS):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {
            one.name: to_json(member)
            for one in fields(value)
            if (member := getattr(value, one.name)) != one.default or "omitted" not in one.metadata
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
    made: T = _reader_of(cls)(value)
    return made


Reader: TypeAlias = Callable[[Any], Any]


@cache
def _reader_of(cls: Any) -> Reader:
    """Reads an object's members into the fields of their names."""
    hints = get_type_hints(cls)
    if is_dataclass(cls):
        names = [one.name for one in fields(cls) if one.init]
    else:
        names = list(cls._fields)
    readers = [(name, _reader(hints[name])) for name in names]
    required = [name for name in names if not _has_default(cls, name)]

    def read(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise WrongShapeError(f"a {type(value).__name__} is no object")
        members = {}
        for name, read_member in readers:
            if name in value:
                try:
                    members[name] = read_member(value[name])
                except WrongShapeError as error:
                    raise WrongShapeError(f"{name}: {error}") from None
        missing = [name for name in required if name not in members]
        if missing:
            raise WrongShapeError(f"{', '.join(missing)} missing")
        return cls(**members)

    return read


def _has_default(cls: Any, name: str) -> bool:
    if not is_dataclass(cls):
        return name in cls._field_defaults
    one = cls.__dataclass_fields__[name]
    return one.default is not MISSING or one.default_factory is not MISSING


def _reader(hint: Any) -> Reader:
    """A function that reads a JSON value into a type, or raises."""
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any:
        return lambda value: value
    if origin in (Union, UnionType):
        return _optional_reader(args)
    if origin is Literal:
        return _checked(lambda value: type(value) is str and value in args, "no known word")
    if origin is tuple:
        return _tuple_reader(args)
    if origin is not None and issubclass(origin, Mapping):
        return _mapping_reader(_reader(args[1]))
    if isinstance(hint, type) and (is_dataclass(hint) or hasattr(hint, "_fields")):
        return _reader_of(hint)
    if hint is float:
        return _checked(_is_number, "no number in range")
    if hint is int:
        return _checked(_is_integer, "no whole number in range")
    return _checked(lambda value: type(value) is hint, f"no {hint.__name__}")


def _is_number(value: Any) -> bool:
    """Whether this is a finite float, or an integer that a float can hold."""
    limit = sys.float_info.max
    return type(value) in (int, float) and -limit <= value <= limit


def _is_integer(value: Any) -> bool:
    return type(value) is int and -MAX_INTEGER <= value <= MAX_INTEGER


def _checked(fits: Callable[[Any], bool], otherwise: str) -> Reader:
    def read(value: Any) -> Any:
        if not fits(value):
            raise WrongShapeError(f"a {type(value).__name__} is {otherwise}")
        return value

    return read


def _optional_reader(hints: tuple[Any, ...]) -> Reader:
    """For the unions we have: a type or None."""
    (hint,) = (one for one in hints if one is not NoneType)
    read = _reader(hint)
    return lambda value: None if value is None else read(value)


def _tuple_reader(hints: tuple[Any, ...]) -> Reader:
    n = None if hints[-1] is Ellipsis else len(hints)
    read = _reader(hints[0])

    def read_all(value: Any) -> Any:
        if not isinstance(value, list | tuple) or (n is not None and len(value) != n):
            raise WrongShapeError(f"a {type(value).__name__} is not the list it should be")
        return tuple(map(read, value))

    return read_all


def _mapping_reader(read: Reader) -> Reader:
    def read_all(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise WrongShapeError(f"a {type(value).__name__} is no object")
        return {name: read(member) for name, member in value.items()}

    return read_all
