"""Check a client's JSON schema for verdicts, and whether a chair's reply follows it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from peerage.council.seals import unwrap_reply
from peerage.errors import InputError
from peerage.shapes import is_deeper

MAX_SCHEMA_CHARACTERS = 100_000
MAX_SCHEMA_DEPTH = 64
MAX_CHECKS = 20_000  # checks of keywords for one reply
MAX_DETAIL = 300  # characters of a sentence about a problem
# A client's pattern could keep this process busy for hours, so only providers enforce patterns.
NOT_CHECKED = ("pattern", "patternProperties", "propertyNames")
NOT_FOLLOWED = "not_in_schema"  # a name in `prompts/faults.txt`
FAULT_PLACE = "schema"

Check = Callable[[Any, Any, Any, Any], "Iterable[Any] | None"]


@dataclass(frozen=True, slots=True)
class StructuredRead:
    """The JSON text of a reply, or the problem with it."""

    text: str = ""
    fault: str = ""
    detail: str = ""


class TooManyChecksError(ValueError):
    """A schema refers to itself so often that it or a reply cannot be checked within the limit."""


def check_schema(schema: object) -> str:
    """Return a JSON schema as text; raise InputError if it is too large or not a schema."""
    if not isinstance(schema, dict):
        raise InputError("a JSON schema must be an object.", place=FAULT_PLACE)
    if is_deeper(schema, MAX_SCHEMA_DEPTH):
        raise InputError(
            f"the schema is more than {MAX_SCHEMA_DEPTH} levels deep.", place=FAULT_PLACE
        )
    text = json.dumps(schema, ensure_ascii=False)
    if len(text) > MAX_SCHEMA_CHARACTERS:
        raise InputError(
            f"the schema has {len(text):,} characters; at most {MAX_SCHEMA_CHARACTERS:,} are "
            "allowed.",
            place=FAULT_PLACE,
            hint="Ask for fewer fields at once.",
        )
    from jsonschema import Draft202012Validator, SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        where = "/".join(map(str, error.absolute_path))
        at = f" (at {where})" if where else ""
        message = f"this is not a JSON schema: {error.message[:MAX_DETAIL]}{at}."
        raise InputError(message, place=FAULT_PLACE) from None
    _check_references(schema)
    if not _can_be_met(schema):
        raise InputError(
            "no JSON value can follow this schema.",
            place=FAULT_PLACE,
            hint="Look for parts that contradict or require themselves, and for empty enums.",
        )
    return text


def read_structured(reply: str, schema_text: str, *, is_cut: bool = False) -> StructuredRead:
    """Return the JSON value in a reply as compact text, if it follows the schema.

    Thinking and one Markdown fence around the value are removed. It never raises an exception.
    """
    if is_cut:
        return StructuredRead(fault="cut_off", detail="it was cut off at its length limit")
    try:
        value = json.loads(unwrap_reply(reply), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        return _wrong(f"it is not JSON ({error})")
    try:
        problem = next(_problems(value, schema_text), None)
    except (TooManyChecksError, RecursionError):
        return _wrong("the schema refers to itself endlessly")
    if problem is not None:
        return _wrong(problem)
    return StructuredRead(json.dumps(value, ensure_ascii=False))


def _wrong(detail: str) -> StructuredRead:
    return StructuredRead(fault=NOT_FOLLOWED, detail=detail[:MAX_DETAIL])


def _problems(value: object, schema_text: str) -> Iterator[str]:
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    # An empty registry: a reference to another host is never fetched.
    validator = _bounded_validator()(json.loads(schema_text), registry=Registry())
    try:
        for error in validator.iter_errors(value):
            where = "/".join(map(str, error.absolute_path))
            yield f"{error.message[:MAX_DETAIL]}{f' (at {where})' if where else ''}"
    except Unresolvable as error:
        yield f"the schema refers to {str(error)[:MAX_DETAIL]}, which it does not contain"


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _check_references(schema: dict[str, Any]) -> None:
    """Raise an error for references outside the schema, or to missing parts."""
    waiting: list[object] = [schema]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            target = one.get("$ref")
            if isinstance(target, str) and not target.startswith("#"):
                raise InputError(
                    f"the schema refers to {target[:80]!r}, which is outside the schema.",
                    place=FAULT_PLACE,
                    hint='Put the part under "$defs" and refer to "#/$defs/NAME".',
                )
            if isinstance(target, str) and _is_pointer(target) and _at(schema, target) is None:
                raise InputError(
                    f"the schema refers to {target[:80]!r}, which it does not contain.",
                    place=FAULT_PLACE,
                )
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one)


def _is_pointer(target: str) -> bool:
    """Return whether a reference is a path in the schema rather than an anchor's name."""
    return target == "#" or target.startswith("#/")


def _at(schema: object, target: str) -> object:
    """Return the part of a schema that a reference points to, or None."""
    for name in unquote(target.removeprefix("#")).split("/")[1:]:
        key = name.replace("~1", "/").replace("~0", "~")
        if isinstance(schema, dict):
            schema = schema.get(key)
        elif isinstance(schema, list) and key.isdecimal() and int(key) < len(schema):
            schema = schema[int(key)]
        else:
            return None
    return schema


def _can_be_met(schema: dict[str, Any]) -> bool:
    """Return whether any value can follow a schema, as far as known."""
    try:
        return SchemaParts(schema).can_be_met(schema)
    except RecursionError:  # a long chain of references
        return True


class SchemaParts:
    """Finds parts of a schema that no value can follow, before a session is paid for.

    It knows the usual contradictions. A part that requires itself has no finite value. A keyword
    that is not examined here counts as satisfiable, so a usable schema is never refused.
    """

    def __init__(self, schema: dict[str, Any]) -> None:
        self.schema = schema
        self._n_parts = 0
        self._open: list[str] = []  # references that are being followed

    def can_be_met(self, part: object) -> bool:
        """Return whether some value can follow a part of the schema."""
        self._n_parts += 1
        if not isinstance(part, dict) or self._n_parts > MAX_CHECKS:
            return part is not False
        if part.get("enum") == [] or part.get("not") in ({}, True):
            return False
        every, some = part.get("allOf", []), [part.get("anyOf", []), part.get("oneOf", [])]
        return (
            self._reference(part.get("$ref"))
            and all(map(self.can_be_met, every))
            and all(any(map(self.can_be_met, one)) for one in some if one)
            and any(self._kind(kind, part) for kind in _kinds(part))
        )

    def _reference(self, target: object) -> bool:
        if not isinstance(target, str) or not _is_pointer(target):
            return True
        if target in self._open:
            return False
        self._open.append(target)
        try:
            return self.can_be_met(_at(self.schema, target))
        finally:
            self._open.pop()

    def _kind(self, kind: str, part: dict[str, Any]) -> bool:
        """Return whether a value of a type can follow a part."""
        if any(_is_above(part.get(low), part.get(high)) for low, high in BOUNDS.get(kind, ())):
            return False
        if kind == "object":
            known, others = part.get("properties", {}), part.get("additionalProperties", True)
            needed = [known.get(name, others) for name in part.get("required", ())]
            return "patternProperties" in part or all(map(self.can_be_met, needed))
        if kind == "array" and part.get("minItems", 0) > len(part.get("prefixItems", ())):
            return self.can_be_met(part.get("items", True))
        return True


KINDS = ("object", "array", "string", "number", "integer", "boolean", "null")
BOUNDS = {  # by type: the keywords of the minimum and the maximum
    "object": (("minProperties", "maxProperties"),),
    "array": (("minItems", "maxItems"),),
    "string": (("minLength", "maxLength"),),
    "number": (("minimum", "maximum"),),
    "integer": (("minimum", "maximum"),),
}


def _kinds(part: dict[str, Any]) -> set[str]:
    """Return the types of values that a part allows by `type`, `const`, `enum` and `not`."""
    named, excluded = part.get("type", list(KINDS)), part.get("not")
    kinds = {named} if isinstance(named, str) else set(named)
    if isinstance(excluded, dict) and excluded.keys() <= {"type", "description", "title"}:
        other = excluded.get("type", [])
        kinds -= {other} if isinstance(other, str) else set(other)
    values = part["enum"] if "enum" in part else [part["const"]] if "const" in part else None
    if values is None:
        return kinds
    return {kind for kind in kinds if any(map(KIND_CHECKS[kind], values))}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


KIND_CHECKS: dict[str, Callable[[object], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "number": _is_number,
    "integer": lambda value: _is_number(value) and not (isinstance(value, float) and value % 1),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}


def _is_above(low: object, high: object) -> bool:
    return isinstance(low, int | float) and isinstance(high, int | float) and low > high


def _bounded_validator() -> type[Any]:
    """Return a validator class that stops after a number of checks and ignores patterns."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    n_checks = itertools.count()

    def limit_checks(check: Check) -> Check:
        def check_within_limit(validator: Any, rule: Any, value: Any, schema: Any) -> Iterator[Any]:
            if next(n_checks) >= MAX_CHECKS:
                raise TooManyChecksError
            yield from check(validator, rule, value, schema) or ()

        return check_within_limit

    keywords: dict[str, Check] = {
        name: limit_checks(check) for name, check in Draft202012Validator.VALIDATORS.items()
    }
    every = {**keywords, **dict.fromkeys(NOT_CHECKED, _accept)}
    kind: type[Any] = extend(Draft202012Validator, every)
    return kind


def _accept(*_: object) -> tuple[()]:
    return ()
