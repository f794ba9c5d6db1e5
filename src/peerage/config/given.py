"""Classes of options that may be left out, made from the tables that declare them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, create_model

from peerage.config.settings import GivenText, SetBy, Table

T = TypeVar("T", bound=BaseModel)


def _read_text(value: object) -> object:
    """Return a text of a flag or a query as one that is read as the type of its option."""
    return GivenText(value) if type(value) is str else value


def takes(table: type[Table], names: Iterable[str]) -> Callable[[type[T]], type[T]]:
    """Return a decorator that adds options of a table to a class of options.

    Each has the limits and the sentence of the table, and is None if it is left out.
    """

    def add(cls: type[T]) -> type[T]:
        fields: dict[str, Any] = {}
        for name in names:
            option = table.model_fields[name]
            checks = (*option.metadata, BeforeValidator(_read_text))
            kind: Any = Annotated.__class_getitem__((option.annotation, *checks))  # type: ignore[attr-defined]
            fields[name] = (kind | None, Field(None, description=option.description))
        return create_model(
            cls.__name__, __base__=cls, __module__=cls.__module__, __doc__=cls.__doc__, **fields
        )

    return add


def _mark(table: type[Table], name: str) -> SetBy:
    marks = (mark for mark in table.model_fields[name].metadata if isinstance(mark, SetBy))
    return next(marks, SetBy())


def for_clients(table: type[Table]) -> tuple[str, ...]:
    """Return the options that a client may set."""
    return tuple(name for name in table.model_fields if _mark(table, name).clients)


def that_score(table: type[Table]) -> tuple[str, ...]:
    """Return the options that change how ballots count; a replay may set them."""
    return tuple(name for name in table.model_fields if _mark(table, name).scores)
