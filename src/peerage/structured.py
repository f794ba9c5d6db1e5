"""Verdicts as JSON: what a client's schema may be, and whether a chair's reply follows it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from peerage.council.seals import unwrap
from peerage.errors import InputError
from peerage.shapes import is_deeper

MAX_SCHEMA_CHARACTERS = 100_000
MAX_SCHEMA_DEPTH = 64
MAX_CHECKS = 20_000  # keywords that one reply is held against
MAX_DETAIL = 300  # characters of the sentence that says what is wrong
# A client's pattern could keep this process busy for hours, so patterns are the provider's to keep.
NOT_CHECKED = ("pattern", "patternProperties", "propertyNames")
NOT_FOLLOWED = "not_in_schema"  # a name in `prompts/faults.txt`
FAULT_PLACE = "schema"

Check = Callable[[Any, Any, Any, Any], "Iterable[Any] | None"]


@dataclass(frozen=True, slots=True)
class StructuredRead:
    """The JSON text of a reply, or what is wrong with it."""

    text: str = ""
    fault: str = ""
    detail: str = ""


class TooManyChecksError(ValueError):
    """A schema refers to itself so often that a reply cannot be held against it."""


def check_schema(schema: object) -> str:
    """Return a JSON schema as text; raise InputError where it is too large or not a schema."""
    if not isinstance(schema, dict):
        raise InputError("a JSON schema is an object.", place=FAULT_PLACE)
    if is_deeper(schema, MAX_SCHEMA_DEPTH):
        raise InputError(f"the schema is over {MAX_SCHEMA_DEPTH} levels deep.", place=FAULT_PLACE)
    text = json.dumps(schema, ensure_ascii=False)
    if len(text) > MAX_SCHEMA_CHARACTERS:
        raise InputError(
            f"the schema has {len(text):,} characters, over {MAX_SCHEMA_CHARACTERS:,}.",
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
    return text


def read_structured(reply: str, schema_text: str, *, is_cut: bool = False) -> StructuredRead:
    """Return the JSON value in a reply as compact text, if it follows the schema.

    Thinking and one Markdown fence around the value are left out. Nothing here raises.
    """
    if is_cut:
        return StructuredRead(fault="cut_off", detail="it was cut off at its length limit")
    try:
        value = json.loads(unwrap(reply), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        return _wrong(f"it is not JSON ({error})")
    try:
        problem = next(_problems(value, schema_text), None)
    except (TooManyChecksError, RecursionError):
        return _wrong("the schema refers to itself without end")
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
        yield f"the schema refers to {str(error)[:MAX_DETAIL]}, which it does not hold"


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _check_references(schema: object) -> None:
    """Refuse references to anything outside of the schema."""
    waiting = [schema]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            target = one.get("$ref")
            if isinstance(target, str) and not target.startswith("#"):
                raise InputError(
                    f"the schema refers to {target[:80]!r}, which is not a part of it.",
                    place=FAULT_PLACE,
                    hint='Put the part under "$defs" and refer to "#/$defs/NAME".',
                )
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one)


def _bounded_validator() -> type[Any]:
    """Return a class of validators that stop after so many checks and leave patterns out."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    n_checks = itertools.count()

    def bounded(check: Check) -> Check:
        def checked(validator: Any, rule: Any, value: Any, schema: Any) -> Iterator[Any]:
            if next(n_checks) >= MAX_CHECKS:
                raise TooManyChecksError
            yield from check(validator, rule, value, schema) or ()

        return checked

    keywords: dict[str, Check] = {
        name: bounded(check) for name, check in Draft202012Validator.VALIDATORS.items()
    }
    every = {**keywords, **dict.fromkeys(NOT_CHECKED, _accept)}
    kind: type[Any] = extend(Draft202012Validator, every)
    return kind


def _accept(*_: object) -> tuple[()]:
    return ()
