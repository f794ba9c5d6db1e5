"""Merge the file, the environment and flags into one tree that knows the source of each setting.

The file may come from a stranger, so its size, the number of its keys and their depth are limited
before it is parsed: the time of the parser grows with the square of a key's depth.
"""

from __future__ import annotations

import difflib
import functools
import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel

from peerage.config import rubrics
from peerage.config.settings import CouncilSettings, GivenText, Settings
from peerage.errors import ConfigError, KeyPath, Problem, meant, shown
from peerage.paths import special_kind
from peerage.shapes import is_deeper
from peerage.text import visible

PREFIX = "PEERAGE_"
CONFIG = "PEERAGE_CONFIG"  # names the file; not a setting itself
RESERVED = ("PEERAGE_TEST_", "PEERAGE_DEV_", "PEERAGE_BENCH_")  # for tests, ./dev and benchmarks
# How similar an unknown variable must be to a known one to be reported as misspelt. The prefix of
# the aliases belongs to another program with many variables, so there the limit is higher.
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

MAX_BYTES = 1 << 20
MAX_MARKS = 90_000  # matches of MARK; the largest panel with every key of a seat has 70,000
MAX_DEPTH = 20  # parts of a dotted key
MAX_NESTED = 40  # levels of tables and lists

MARK = re.compile(r"""[=,.\[\]{}"'\n]""")
# A part of a dotted key. An escaped quote does not begin one.
PART = r"""(?:(?<![\w-])[\w-]++|(?<!\\)"(?:[^"\\\n]++|\\.)*+"|'[^'\n]*+')"""
DOT = r"[ \t]*+\.[ \t]*+"
TOO_DEEP = re.compile(rf"(?:{PART}{DOT}){{{MAX_DEPTH + 1}}}")
KEY = rf"[ \t]*+{PART}(?:{DOT}{PART})*+"
KEY_LINE = re.compile(rf"\A{KEY}(?=[ \t]*+=)")
HEADER_LINE = re.compile(rf"\A[ \t]*+\[\[?{KEY}[ \t]*+\]\]?[ \t]*+(?:#.*)?")
AT_LINE, ESCAPED = "\x01", r"\u0001"  # the first character of a key that is a line number
NESTED = "it is too deeply nested."


@dataclass
class Merged:
    """One tree of settings, with the source of each key: a line of the file, variable or flag."""

    tree: dict[str, Any] = field(default_factory=dict)
    text: str = ""  # of the file
    file: str = ""
    # the variable or flag that set a key
    override_by_path: dict[KeyPath, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)  # problems that belong to no key

    @functools.cached_property
    def line_by_path(self) -> dict[KeyPath, int]:
        return key_lines(self.text)

    def place(self, problem: Problem) -> str:
        """Return the source of a problem's key: a variable, a flag or a line of the file."""
        overrides = [self.override_by_path.get(path, "") for path in problem.among]
        if any(overrides):
            return ", ".join(filter(None, overrides))
        paths = _from_longest(problem.at)
        if override := next(filter(None, map(self.override_by_path.get, paths)), None):
            return override
        line = self.line(problem)
        if line is math.inf:
            return self.file or "configuration"
        there = (path for path in paths if value_at(self.tree, path) is not None)
        key = next((path for path in there if _is_named(path)), paths[-1])
        return f"{self.file}, line {line}, {key_name(key, self.tree)}"

    def line(self, problem: Problem) -> float:
        """Return the line of a problem's key in the file; infinity for variables and flags."""
        paths = _from_longest(problem.at)
        if any(path in self.override_by_path for path in paths):
            return math.inf
        lines = (self.line_by_path[path] for path in paths if path in self.line_by_path)
        return next(lines, math.inf)

    def put(self, path: tuple[str, ...], value: object, place: str) -> None:
        """Set a key; setting a part of a shipped rubric copies the rest of that rubric."""
        table = self.tree
        if path[0] == "rubric" and len(path) > 2 and path[1] in rubrics.shipped_names():
            own = self.tree.setdefault("rubric", {})
            if isinstance(own, dict) and path[1] not in own:
                own[path[1]] = {**rubrics.shipped_table(path[1])}
                del own[path[1]]["name"]
        for part in path[:-1]:
            table = table.setdefault(part, {})
            if not isinstance(table, dict):
                return  # the file has a value in place of a table, which is reported separately
        table[path[-1]] = value
        self.override_by_path[path] = place


def _is_named(path: KeyPath) -> bool:
    """Return whether a path ends in a key or an array's table, rather than in an item of a list."""
    return isinstance(path[-1], str) or path[:-1] == ("seat",)


def _from_longest(path: KeyPath) -> list[KeyPath]:
    """Return a path and all its prefixes, longest first."""
    return [path[:end] for end in range(len(path), 0, -1)]


def merge(file: Path | None, environ: Mapping[str, str], flags: Mapping[str, object]) -> Merged:
    """Return the settings of a file, the environment and flags merged; later sources win."""
    merged = Merged() if file is None else Merged(*read_toml(file), file=visible(str(file)))
    _add_environ(merged, environ)
    _add_flags(merged, flags)
    return merged


def value_at(tree: Any, path: KeyPath) -> Any:
    """Return the value at a path, or None if there is none (TOML has no null)."""
    for part in path:
        is_there = isinstance(tree, dict) and part in tree
        is_item = isinstance(tree, list) and isinstance(part, int) and part < len(tree)
        if not (is_there or is_item):
            return None
        tree = tree[part]
    return tree


def key_name(path: KeyPath, tree: dict[str, Any]) -> str:
    """Return a key as the file spells it: `[council] rule`, `[[seat]] 2, model`, `store`."""
    names = [shown(part)[1:-1] if isinstance(part, str) else str(part) for part in path]
    if path[0] == "seat" and len(path) > 1 and isinstance(path[1], int):
        return ", ".join(filter(None, [f"[[seat]] {path[1] + 1}", ".".join(names[2:])]))
    if isinstance(value_at(tree, path), dict):
        return f"[{'.'.join(names)}]"
    *table, last = names
    return f"[{'.'.join(table)}] {last}" if table else last


# -- the file ----------------------------------------------------------------------------------


def read_toml(path: Path) -> tuple[dict[str, Any], str]:
    """Return the tree and the text of a TOML file, or raise one error if it cannot be read."""
    place = visible(str(path))
    text = _text(path, place)
    _refuse_excess(text, place)
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _not_toml(place, text, str(error)) from None
    except ValueError:  # an integer of thousands of digits
        raise ConfigError("a number has too many digits.", place=place) from None
    except RecursionError:
        raise ConfigError(NESTED, place=place) from None
    if is_deeper(tree, MAX_NESTED):
        raise ConfigError(NESTED, place=place)
    return tree, text


def _text(path: Path, place: str) -> str:
    try:
        if kind := special_kind(path):
            hint = "Save the settings to a file, and pass its name."
            raise ConfigError(f"it is {kind}, not a file.", place=place, hint=hint)
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: no file can have such a name
        reason = (getattr(error, "strerror", None) or "no such name").lower()
        hint = "Leave --config and PEERAGE_CONFIG out to use the defaults."
        raise ConfigError(f"it cannot be read ({reason}).", place=place, hint=hint) from None
    if len(raw) > MAX_BYTES:
        raise ConfigError(
            f"it is larger than {MAX_BYTES} bytes, the limit for settings.", place=place
        )
    try:
        return raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        at = f"{place}, line {line}"
        raise ConfigError("it is not UTF-8 text.", place=at, hint="Save it as UTF-8.") from None


def _refuse_excess(text: str, place: str) -> None:
    """Raise an error for a text that is too long to parse: too many marks, or a deep dotted key."""
    if sum(1 for _ in MARK.finditer(text)) > MAX_MARKS:
        raise ConfigError("it is too long for a settings file.", place=place)
    if chain := TOO_DEEP.search(text):
        line = text.count("\n", 0, chain.start()) + 1
        raise ConfigError(NESTED, place=f"{place}, line {line}")


def _not_toml(place: str, text: str, reason: str) -> ConfigError:
    """Return the parser's error as a ConfigError whose place has the line and column."""
    match = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", reason)
    if match is None:
        return ConfigError(f"it is not TOML: {reason}.", place=place)
    line = match[1] or str(text.count("\n") + 1)
    column = f", column {match[2]}" if match[2] else ""
    message = f"it is not TOML: {reason[: match.start()]}."
    return ConfigError(message, place=f"{place}, line {line}{column}")


def key_lines(text: str) -> dict[KeyPath, int]:
    """Return the line number of each key and table in a valid TOML text, by its path.

    The standard parser does not keep line numbers. Therefore each line that looks like a key gets
    its number as a further part of the key (`rule = 1` in line 3 becomes `rule."<3>" = 1`), and the
    parsed result shows which lines really set keys. After a header, a key with the line number is
    inserted. In a path, a table of an array appears as its index; an inline table has the line of
    its key.
    """
    for with_headers in (True, False):  # the last item of a list may look like a header
        marked = (_mark_line(n, line, with_headers) for n, line in enumerate(text.split("\n"), 1))
        line_by_path: dict[KeyPath, int] = {}
        with suppress(tomllib.TOMLDecodeError):
            _collect_lines(tomllib.loads("\n".join(marked)), (), line_by_path)
            return line_by_path
    return {}


def _mark_line(number: int, line: str, with_headers: bool) -> str:
    """Return a line of TOML with its number added to its key, or as a key after its header."""
    if match := KEY_LINE.match(line):
        return f'{match[0]}."{ESCAPED}{number}"{line[match.end() :]}'
    if with_headers and HEADER_LINE.fullmatch(line):
        return f'{line}\n"{ESCAPED}{number}" = 0'
    return line


def _collect_lines(node: object, path: KeyPath, line_by_path: dict[KeyPath, int]) -> None:
    """Add the first line number of each key and table in a marked tree, by path."""
    children = enumerate(node) if isinstance(node, list) else ()
    for key, child in node.items() if isinstance(node, dict) else children:
        number = key.removeprefix(AT_LINE) if isinstance(key, str) else ""
        if number != key and number.isdecimal():
            for above in _from_longest(path):
                line_by_path[above] = min(int(number), line_by_path.get(above, int(number)))
        else:
            _collect_lines(child, (*path, key), line_by_path)


# -- the environment ---------------------------------------------------------------------------


def _add_environ(merged: Merged, environ: Mapping[str, str]) -> None:
    """Add the values of environment variables; PEERAGE_ names win over aliases.

    Report a PEERAGE_ variable that is empty, contradicts another, or looks misspelt. A variable
    that a seat names as its key is ignored.
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
            hint = "Both set the same key: keep one."
            place = f"{other}, {name}"
            merged.problems.append(
                Problem("the two variables have different values.", hint, place=place)
            )
        merged.put(path, GivenText(value), visible(name))


def _key_variables(tree: dict[str, Any]) -> frozenset[str]:
    """Return the variables that hold seats' API keys; their names may also begin with PEERAGE_."""
    seats = tree.get("seat")
    tables = [seat for seat in seats if isinstance(seat, dict)] if isinstance(seats, list) else []
    names = [table.get("api_key_env") for table in tables]
    return frozenset(name for name in names if isinstance(name, str))


def path_of(variable: str) -> tuple[str, ...] | None:
    """Return the key that a variable sets, or None; PEERAGE_RULE means PEERAGE_COUNCIL__RULE."""
    if variable in ALIASES:
        return ALIASES[variable]
    if not variable.startswith(PREFIX) or variable != variable.upper():
        return None
    parts = tuple(variable.removeprefix(PREFIX).lower().split("__"))
    if len(parts) == 1 and parts[0] in CouncilSettings.model_fields:
        return ("council", *parts)
    return parts if all(parts) and is_leaf(annotation_at(parts)) else None


def _slips(variable: str) -> Iterator[Problem]:
    """Yield a problem for an unknown variable that looks like a misspelt PEERAGE_ one."""
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
    """Return all variables with a fixed name: plain ones, nested ones and aliases."""
    nested = [PREFIX + "__".join(path).upper() for path in leaves(Settings)]
    plain = [PREFIX + name.upper() for name in CouncilSettings.model_fields]
    return tuple(sorted({CONFIG, *nested, *plain, *ALIASES}))


# -- flags -------------------------------------------------------------------------------------


def _add_flags(merged: Merged, flags: Mapping[str, object]) -> None:
    """Add the values of flags, by dotted names; None means that a flag was not given."""
    for name, value in flags.items():
        path = tuple(name.split("."))
        place = f"option {visible(name)}"
        if annotation_at(path) is None:
            hint = meant(name, [".".join(leaf) for leaf in leaves(Settings)])
            merged.problems.append(Problem("there is no such setting.", hint, place=place))
        elif value is not None:
            merged.put(path, GivenText(value) if isinstance(value, str) else value, place)


# -- the known keys ----------------------------------------------------------------------------


def annotation_at(path: Sequence[str]) -> Any:
    """Return the type of the key at a path, or None if there is no such key."""
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
    """Return whether one text can set a key of this type: not a table, not a list of seats."""
    if annotation is None or get_origin(annotation) is Mapping:
        return False
    parts = [part for part in (annotation, *get_args(annotation)) if isinstance(part, type)]
    return not any(issubclass(part, BaseModel) for part in parts)


def leaves(model: type[BaseModel], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of every key with a fixed name; seats and free tables are left out."""
    for name, info in model.model_fields.items():
        path = (*above, name)
        if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            yield from leaves(info.annotation, path)
        elif isinstance(info.default, Mapping):
            yield from ((*path, key) for key in info.default)
        elif is_leaf(info.annotation):
            yield path
