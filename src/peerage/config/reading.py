"""From layers to settings, or to one error that says all that is wrong and where."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from peerage.config.layers import Layer, annotation_at, reached
from peerage.config.lines import KeyPath
from peerage.config.problems import Placed, Problem, error, meant, shown
from peerage.config.sense import nonsense
from peerage.config.tree import Settings, layered

NEVER_SHOWN = frozenset({"store", "api_key_env", "base_url", "options"})


def read(layers: Sequence[Layer]) -> Settings:
    """Settings from layers, the first the strongest; every problem in one refusal."""
    told = [problem for layer in layers for problem in layer.problems]
    problems: list[Problem] = []
    settings: Settings | None = None
    try:
        settings = _merged(layers)
        problems += nonsense(settings)
    except ValidationError as wrong:
        details = wrong.errors(include_url=False)
        problems += [_problem(detail) for detail in details]
        problems += _sense_of_the_rest(layers, details)
    told += [Placed(_place(layers, p), p.message, p.hint) for p in problems]
    if told or settings is None:
        raise error(told)
    return settings


def _merged(layers: Sequence[Layer]) -> Settings:
    with layered(*(layer.tree for layer in layers)):
        return Settings()


def _sense_of_the_rest(layers: Sequence[Layer], details: list[ErrorDetails]) -> Iterator[Problem]:
    """What the checks say once unknown keys and broken tables are left out."""
    extra = [detail["loc"] for detail in details if detail["type"] == "extra_forbidden"]
    broken = frozenset(
        str(detail["loc"][0]) for detail in details if detail["type"] != "extra_forbidden"
    )
    trees = [copy.deepcopy(layer.tree) for layer in layers]
    for tree in trees:
        for path in extra:
            _cut(tree, path)
        for name in broken:
            tree.pop(name, None)
    with layered(*trees):
        settings = Settings()
    yield from nonsense(settings, broken)


def _cut(tree: Any, path: KeyPath) -> None:
    """Take the key at a path out of a tree, if it is there."""
    table = reached(tree, path[:-1])
    if isinstance(table, dict):
        table.pop(path[-1], None)


# -- where -------------------------------------------------------------------------------------


def _place(layers: Sequence[Layer], problem: Problem) -> str:
    """The file's line, or the variables or flags that have the last word on these keys."""
    speakers = []
    for path in problem.among:
        layer = next(layer for layer in layers if layer.holds(path))
        if not layer.is_file and layer.place(path):
            speakers.append(layer.place(path))
    if speakers:
        return ", ".join(speakers)
    for end in range(len(problem.at), 0, -1):
        path = problem.at[:end]
        for layer in layers:
            if layer.holds(path) and layer.place(path):
                return layer.place(path)
    return "configuration"


# -- what --------------------------------------------------------------------------------------

Sentence = Callable[[Any, Mapping[str, Any]], str]

SENTENCES: dict[str, Sentence] = {
    "bool_type": lambda value, _: f"must be true or false, not {value}.",
    "string_type": lambda value, _: f"must be text in quotes, not {value}.",
    "int_type": lambda value, _: f"must be a whole number, not {value}.",
    "int_from_float": lambda value, _: f"must be a whole number, not {value}.",
    "float_type": lambda value, _: f"must be a number, not {value}.",
    "finite_number": lambda value, _: f"must be a finite number, not {value}.",
    "tuple_type": lambda value, _: f"must be a list, not {value}.",
    "mapping_type": lambda value, _: f"must be a table, not {value}.",
    "dict_type": lambda value, _: f"must be a table, not {value}.",
    "model_type": lambda value, _: f"must be a table, not {value}.",
    "model_attributes_type": lambda value, _: f"must be a table, not {value}.",
    "string_too_short": lambda _value, _: "must not be empty.",
    "too_short": lambda _value, _: "must not be empty.",
    "literal_error": lambda value, ctx: f"must be {ctx['expected']}, not {value}.",
    "greater_than_equal": lambda value, ctx: f"must be at least {ctx['ge']:g}, not {value}.",
    "greater_than": lambda value, ctx: f"must be more than {ctx['gt']:g}, not {value}.",
    "less_than_equal": lambda value, ctx: f"must be at most {ctx['le']:g}, not {value}.",
    "value_error": lambda _value, ctx: str(ctx["error"]),
    "extra_forbidden": lambda _value, _: "there is no such key.",
}


def _problem(detail: ErrorDetails) -> Problem:
    """One complaint of the tree in our words, with a hint where a slip is likely."""
    path, kind, ctx = detail["loc"], detail["type"], detail.get("ctx", {})
    if kind == "missing":
        return Problem(path[:-1], f"{shown(path[-1])} is missing.")
    secret = any(part in NEVER_SHOWN for part in path)
    value = "what is there" if secret else shown(detail["input"])
    sentence = SENTENCES.get(kind)
    message = sentence(value, ctx) if sentence else f"{detail['msg'].lower()}."
    hint = ""
    if kind == "extra_forbidden":
        hint = meant(str(path[-1]), _keys_beside(path))
    elif kind == "literal_error" and isinstance(detail["input"], str) and not secret:
        choices = [word.strip(" '") for word in ctx["expected"].replace(" or ", ",").split(",")]
        hint = meant(detail["input"], choices)
        hint = hint if hint.startswith("Did") else ""
    return Problem(path, message, hint)


def _keys_beside(path: KeyPath) -> list[str]:
    """The keys that the table around a path knows."""
    if path[0] == "seat":
        (model, _) = get_args(annotation_at(("seat",)))
    else:
        model = annotation_at(tuple(str(part) for part in path[:-1]))
    if get_origin(model) is None and isinstance(model, type) and issubclass(model, BaseModel):
        return list(model.model_fields)
    return []
