"""Where settings come from: a file, the environment and flags, merged into one tree with places."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel

from peerage.config import rubrics
from peerage.config.settings import CouncilSettings, GivenText, Settings
from peerage.config.toml_file import read_toml
from peerage.errors import KeyPath, Problem, meant, shown
from peerage.text import visible

PREFIX = "PEERAGE_"
CONFIG = "PEERAGE_CONFIG"  # names the file; no setting itself
RESERVED = ("PEERAGE_TEST_", "PEERAGE_DEV_", "PEERAGE_BENCH_")  # for the tools around the house
# The likeness from which an unknown variable is taken for a slip; the aliases' prefix has
# another owner, with many names of its own, so there only a typing error counts.
NEAR_BY_PREFIX = {PREFIX: 0.75, "LLM_COUNCIL_": 0.9}

GENERAL = ("rubric", "general", "weights")
ALIASES: dict[str, tuple[str, ...]] = {
    "LLM_COUNCIL_RANDOM_SEED": ("council", "seed"),
    "LLM_COUNCIL_BIAS_AUDIT": ("council", "audit"),
    "LLM_COUNCIL_SAFETY_GATE": ("council", "safety_gate"),
    "LLM_COUNCIL_SAFETY_SCORE_CAP": ("council", "safety_score_cap"),
    "LLM_COUNCIL_WEIGHT_ACCURACY": (*GENERAL, "accuracy"),
    "LLM_COUNCIL_WEIGHT_RELEVANCE": (*GENERAL, "relevance"),
    "LLM_COUNCIL_WEIGHT_COMPLETENESS": (*GENERAL, "completeness"),
    "LLM_COUNCIL_WEIGHT_CONCISENESS": (*GENERAL, "conciseness"),
    "LLM_COUNCIL_WEIGHT_CLARITY": (*GENERAL, "clarity"),
    "LLM_COUNCIL_LENGTH_CORRELATION_THRESHOLD": ("audit", "length_correlation"),
    "LLM_COUNCIL_POSITION_VARIANCE_THRESHOLD": ("audit", "position_variance"),
}


@dataclass(slots=True)
class Merged:
    """One tree of settings; which line of the file, variable or flag each key was set by."""

    tree: dict[str, Any] = field(default_factory=dict)
    line_by_path: dict[KeyPath, int] = field(default_factory=dict)
    file: str = ""
    override_by_path: dict[KeyPath, str] = field(default_factory=dict)  # variables and flags
    problems: list[Problem] = field(default_factory=list)  # what is in no tree

    def place(self, problem: Problem) -> str:
        """Where a problem's key was set: the overrides among its causes, else the nearest key."""
        overrides = [self.override_by_path.get(path, "") for path in problem.among]
        if any(overrides):
            return ", ".join(filter(None, overrides))
        for path in (problem.at[:end] for end in range(len(problem.at), 0, -1)):
            if path in self.override_by_path:
                return self.override_by_path[path]
            if path in self.line_by_path:
                line, key = self.line_by_path[path], key_name(path, self.tree)
                return f"{self.file}, line {line}, {key}"
        return "configuration"

    def put(self, path: tuple[str, ...], value: object, place: str) -> None:
        """Set a key; a part of a shipped rubric brings the rest of that rubric with it."""
        table = self.tree
        if path[0] == "rubric" and len(path) > 2 and path[1] in rubrics.shipped_names():
            own = self.tree.setdefault("rubric", {})
            if isinstance(own, dict) and path[1] not in own:
                own[path[1]] = {**rubrics.shipped_table(path[1])}
                del own[path[1]]["name"]
        for part in path[:-1]:
            table = table.setdefault(part, {})
            if not isinstance(table, dict):
                return  # the file says something else there, and is refused for it
        table[path[-1]] = value
        within = [other for other in self.line_by_path if other[: len(path)] == path]
        for other in within:
            del self.line_by_path[other]
        self.override_by_path[path] = place


def merge(file: Path | None, environ: Mapping[str, str], flags: Mapping[str, object]) -> Merged:
    """The settings of a file, then the environment, then flags; the later wins."""
    merged = Merged() if file is None else Merged(*read_toml(file), visible(str(file)))
    _add_environ(merged, environ)
    _add_flags(merged, flags)
    return merged


def reached(tree: Any, path: KeyPath) -> Any:
    """What stands at a path, or None: TOML has no null to mistake it for."""
    for part in path:
        is_there = isinstance(tree, dict) and part in tree
        is_item = isinstance(tree, list) and isinstance(part, int) and part < len(tree)
        if not (is_there or is_item):
            return None
        tree = tree[part]
    return tree


def key_name(path: KeyPath, tree: dict[str, Any]) -> str:
    """A key as the file spells it: `[council] rule`, `[[seat]] 2, model`, `store`."""
    names = [shown(part)[1:-1] if isinstance(part, str) else str(part) for part in path]
    if path[0] == "seat" and len(path) > 1 and isinstance(path[1], int):
        return ", ".join(filter(None, [f"[[seat]] {path[1] + 1}", ".".join(names[2:])]))
    if isinstance(reached(tree, path), dict):
        return f"[{'.'.join(names)}]"
    *table, last = names
    return f"[{'.'.join(table)}] {last}" if table else last


# -- the environment ---------------------------------------------------------------------------


def _add_environ(merged: Merged, environ: Mapping[str, str]) -> None:
    """Put in what the variables say; PEERAGE_ names stand over the aliases.

    A variable of ours that is empty, says the same key twice in two ways, or is a slip
    for a known one is refused. One that a seat names as its key is not ours.
    """
    keys_of_seats = _key_variables(merged.tree)
    for name in sorted(environ, key=lambda name: (name.startswith(PREFIX), name)):
        path, value = path_of(name), environ[name]
        if path is None:
            if name not in keys_of_seats:
                merged.problems += _slips(name)
            continue
        other = merged.override_by_path.get(path, "")
        if not value.strip():
            hint = "Give it a value, or unset it."
            merged.problems.append(Problem("it is set but empty.", hint, place=name))
            continue
        if other.startswith(PREFIX) and environ[other] != value:
            hint = "They are the same setting: keep one."
            place = f"{other}, {name}"
            merged.problems.append(Problem("they say different things.", hint, place=place))
        merged.put(path, GivenText(value), visible(name))


def _key_variables(tree: dict[str, Any]) -> frozenset[str]:
    """The variables that hold seats' keys: theirs to name, even if the name begins like ours."""
    seats = tree.get("seat")
    tables = [seat for seat in seats if isinstance(seat, dict)] if isinstance(seats, list) else []
    names = [table.get("api_key_env") for table in tables]
    return frozenset(name for name in names if isinstance(name, str))


def path_of(variable: str) -> tuple[str, ...] | None:
    """The key that a variable sets, or None: PEERAGE_RULE and PEERAGE_COUNCIL__RULE are one."""
    if variable in ALIASES:
        return ALIASES[variable]
    if not variable.startswith(PREFIX) or variable != variable.upper():
        return None
    parts = tuple(variable.removeprefix(PREFIX).lower().split("__"))
    if len(parts) == 1 and parts[0] in CouncilSettings.model_fields:
        return ("council", *parts)
    return parts if all(parts) and is_leaf(annotation_at(parts)) else None


def _slips(variable: str) -> Iterator[Problem]:
    """A complaint about a variable that was surely meant for us, and is not known."""
    prefix = next(filter(variable.startswith, NEAR_BY_PREFIX), "")
    if not prefix or variable == CONFIG or variable.startswith(RESERVED):
        return
    rest = variable.removeprefix(prefix)
    known = [name.removeprefix(prefix) for name in variables() if name.startswith(prefix)]
    near = difflib.get_close_matches(rest.upper()[:60], known, n=1, cutoff=NEAR_BY_PREFIX[prefix])
    if near:
        hint = f"Did you mean {prefix}{near[0]}?"
    elif prefix == PREFIX and ("__" in rest or rest.lower().rstrip("s") in Settings.model_fields):
        hint = "Seats and whole tables are set in peerage.toml."
    else:
        return
    yield Problem("there is no such variable.", hint, place=visible(variable))


@functools.cache
def variables() -> tuple[str, ...]:
    """Every variable with a fixed name: the plain ones, the nested ones, the aliases."""
    nested = [PREFIX + "__".join(path).upper() for path in leaves(Settings)]
    plain = [PREFIX + name.upper() for name in CouncilSettings.model_fields]
    return tuple(sorted({CONFIG, *nested, *plain, *ALIASES}))


# -- flags -------------------------------------------------------------------------------------


def _add_flags(merged: Merged, flags: Mapping[str, object]) -> None:
    """Put in what flags say, by dotted names; a flag that is None was not given."""
    for name, value in flags.items():
        path = tuple(name.split("."))
        place = f"option {visible(name)}"
        if annotation_at(path) is None:
            hint = meant(name, [".".join(leaf) for leaf in leaves(Settings)])
            merged.problems.append(Problem("there is no such setting.", hint, place=place))
        elif value is not None:
            merged.put(path, GivenText(value) if isinstance(value, str) else value, place)


# -- the keys there are ------------------------------------------------------------------------


def annotation_at(path: Sequence[str]) -> Any:
    """The type of the key at a path, or None if there is no such key."""
    here: Any = Settings
    for part in path:
        if isinstance(here, type) and issubclass(here, BaseModel):
            field = here.model_fields.get(part)
            here = None if field is None else field.annotation
        elif get_origin(here) is Mapping:
            here = get_args(here)[1]
        else:
            return None
        while get_origin(here) is Annotated:
            here = get_args(here)[0]
    return here


def is_leaf(annotation: Any) -> bool:
    """Whether a type is one that a single text can give: neither a table nor seats."""
    if annotation is None or get_origin(annotation) is Mapping:
        return False
    parts = [part for part in (annotation, *get_args(annotation)) if isinstance(part, type)]
    return not any(issubclass(part, BaseModel) for part in parts)


def leaves(model: type[BaseModel], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of every key with a fixed name, seats and free tables left out."""
    for name, info in model.model_fields.items():
        path = (*above, name)
        if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            yield from leaves(info.annotation, path)
        elif isinstance(info.default, Mapping):
            yield from ((*path, key) for key in info.default)
        elif is_leaf(info.annotation):
            yield path
