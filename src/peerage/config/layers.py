"""Where settings are said: a file, the environment, flags; each a tree that knows its places."""

from __future__ import annotations

import copy
import difflib
import json
import re
import tomllib
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from peerage.config.lines import KeyPath, lines
from peerage.config.problems import Placed, error, meant, shown
from peerage.config.tree import CouncilSettings, Settings

MAX_BYTES = 1 << 20
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
WORDS = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}


@dataclass(frozen=True, slots=True)
class Layer:
    """A tree of settings and where each of its keys was said."""

    tree: dict[str, Any]
    place_by_path: Mapping[KeyPath, str]
    problems: tuple[Placed, ...] = ()  # what could not even be put into the tree
    is_file: bool = False

    def holds(self, path: KeyPath) -> bool:
        return reached(self.tree, path) is not None

    def place(self, path: KeyPath) -> str:
        """The place of a key, or of the nearest table around it."""
        for end in range(len(path), 0, -1):
            if path[:end] in self.place_by_path:
                return self.place_by_path[path[:end]]
        return ""


def reached(tree: Any, path: KeyPath) -> Any:
    """What stands at a path, or None: TOML has no null to mistake it for."""
    for part in path:
        is_there = isinstance(tree, dict) and part in tree
        is_item = isinstance(tree, list) and isinstance(part, int) and part < len(tree)
        if not (is_there or is_item):
            return None
        tree = tree[part]
    return tree


def plant(tree: dict[str, Any], path: tuple[str, ...], value: object) -> None:
    """Set a value in a tree, growing the tables on the way to it."""
    for part in path[:-1]:
        inner = tree.get(part)
        if not isinstance(inner, dict):
            inner = tree[part] = {}
        tree = inner
    tree[path[-1]] = copy.deepcopy(value)  # the tree is pruned later; the caller's value is not


# -- a file ------------------------------------------------------------------------------------


def from_file(path: Path) -> Layer:
    """A TOML file's tree; every key and table has its line."""
    text = _text(path)
    try:
        tree = tomllib.loads(text)
        line_by_path = lines(text)
    except tomllib.TOMLDecodeError as wrong:
        raise error([_not_toml(path, text, str(wrong))]) from None
    except RecursionError:
        raise error([Placed(str(path), "it is nested too deeply to be read.")]) from None
    except ValueError:  # an integer of thousands of digits
        raise error([Placed(str(path), "it holds a number too long to be read.")]) from None
    places = {
        at: f"{path}, line {line}, {key_name(at, isinstance(reached(tree, at), dict))}"
        for at, line in line_by_path.items()
    }
    return Layer(tree, places, is_file=True)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as wrong:
        hint = "Leave --config and PEERAGE_CONFIG out to use the defaults."
        message = f"it cannot be read ({(wrong.strerror or 'error').lower()})."
        raise error([Placed(str(path), message, hint)]) from None
    if len(raw) > MAX_BYTES:
        raise error([Placed(str(path), f"it is larger than {MAX_BYTES} bytes: not settings.")])
    try:
        return raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as wrong:
        line = raw[: wrong.start].count(b"\n") + 1
        place = f"{path}, line {line}"
        raise error([Placed(place, "it is not UTF-8 text.", "Save it as UTF-8.")]) from None


def _not_toml(path: Path, text: str, said: str) -> Placed:
    """The parser's complaint with its line in our place, its column kept."""
    match = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", said)
    if match is None:
        return Placed(str(path), f"it is not TOML: {said}.")
    reason = said[: match.start()]
    line = match[1] or str(text.count("\n") + 1)
    column = f", column {match[2]}" if match[2] else ""
    return Placed(f"{path}, line {line}{column}", f"it is not TOML: {reason}.")


def key_name(path: KeyPath, is_table: bool) -> str:
    """A key as the file spells it: `[council] rule`, `[[seat]] 2, model`, `store`."""
    names = [shown(part)[1:-1] if isinstance(part, str) else part for part in path]
    if names[0] == "seat" and len(names) > 1 and isinstance(names[1], int):
        inside = ".".join(map(str, names[2:]))
        return f"[[seat]] {names[1] + 1}" + (f", {inside}" if inside else "")
    if is_table:
        return f"[{'.'.join(map(str, names))}]"
    table = ".".join(map(str, names[:-1]))
    return f"[{table}] {names[-1]}" if table else str(names[-1])


# -- the environment ---------------------------------------------------------------------------


def from_environ(environ: Mapping[str, str], keys_of_seats: frozenset[str]) -> Layer:
    """The tree that the variables say; PEERAGE_ names stand over the seeds' aliases.

    A variable of ours that is empty, says the same key twice in two ways, or is a slip
    for a known one is refused. One that a seat names as its key is not ours.
    """
    tree: dict[str, Any] = {}
    places: dict[KeyPath, str] = {}
    problems: list[Placed] = []
    for name in sorted(environ, key=lambda name: (name.startswith(PREFIX), name)):
        path = path_of(name)
        if path is None:
            if name not in keys_of_seats:
                problems += _slips(name)
            continue
        value = environ[name]
        if not value.strip():
            problems.append(Placed(name, "it is set but empty.", "Give it a value, or unset it."))
            continue
        other = places.get(path, "")
        if other.startswith(PREFIX) and environ[other] != value:
            hint = "They are the same setting: keep one."
            problems.append(Placed(f"{other}, {name}", "they say different things.", hint))
        plant(tree, path, parse_text(value, annotation_at(path)))
        places[path] = name
    return Layer(tree, places, tuple(problems))


def path_of(variable: str) -> tuple[str, ...] | None:
    """The key that a variable sets, or None: PEERAGE_RULE and PEERAGE_COUNCIL__RULE are one."""
    if variable in ALIASES:
        return ALIASES[variable]
    if not variable.startswith(PREFIX) or variable != variable.upper():
        return None
    parts = tuple(variable.removeprefix(PREFIX).lower().split("__"))
    if len(parts) == 1 and parts[0] in CouncilSettings.model_fields:
        return ("council", *parts)
    if all(parts) and is_leaf(annotation_at(parts)):
        return parts
    return None


def _slips(variable: str) -> Iterator[Placed]:
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
    yield Placed(variable, "there is no such variable.", hint)


def variables() -> tuple[str, ...]:
    """Every variable with a fixed name: the plain ones, the nested ones, the seeds' aliases."""
    nested = [PREFIX + "__".join(path).upper() for path in leaves(Settings)]
    plain = [PREFIX + name.upper() for name in CouncilSettings.model_fields]
    return tuple(sorted({CONFIG, *nested, *plain, *ALIASES}))


# -- flags -------------------------------------------------------------------------------------


def from_flags(flags: Mapping[str, object]) -> Layer:
    """The tree that flags say, by dotted names; a flag that is None was not given."""
    tree: dict[str, Any] = {}
    places: dict[KeyPath, str] = {}
    problems: list[Placed] = []
    for name, value in flags.items():
        path = tuple(name.split("."))
        annotation = annotation_at(path)
        if annotation is None:
            known = [".".join(leaf) for leaf in leaves(Settings)]
            problems.append(
                Placed(f"option {name}", "there is no such setting.", meant(name, known))
            )
        elif value is not None:
            said = parse_text(value, annotation) if isinstance(value, str) else value
            plant(tree, path, said)
            places[path] = f"option {name}"
    return Layer(tree, places, tuple(problems))


# -- what a key's text means -------------------------------------------------------------------


def annotation_at(path: tuple[str, ...]) -> Any:
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
    parts = [kind for kind in kinds(annotation) if isinstance(kind, type)]
    return not any(issubclass(kind, BaseModel) for kind in parts)


def leaves(model: type[BaseModel], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of every key with a fixed name, seats and free tables left out."""
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from leaves(field.annotation, (*above, name))
        elif is_leaf(field.annotation):
            yield (*above, name)


def kinds(annotation: Any) -> frozenset[Any]:
    """The plain types and literal values that a type is made of."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return kinds(get_args(annotation)[0])
    if origin is Literal:
        return frozenset(get_args(annotation))
    if origin in (Union, types.UnionType, tuple):
        return frozenset().union(*(kinds(part) for part in get_args(annotation)))
    return frozenset({annotation})


def parse_text(text: str, annotation: Any) -> object:
    """A text as the type that its key wants; left as it is where it does not fit, to be refused."""
    made_of = kinds(annotation)
    word = text.strip().lower()
    if get_origin(annotation) is tuple:
        try:
            return json.loads(text if word.startswith("[") else f"[{text}]")
        except (ValueError, RecursionError):
            return text
    if bool in made_of and word in WORDS:
        return WORDS[word]
    if any(kind is False for kind in made_of) and word == "false":
        return False
    for number in (int, float):
        if number in made_of:
            try:
                return number(text)
            except ValueError:
                continue
    return text
