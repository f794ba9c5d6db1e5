"""Check merged settings: return `Settings`, or raise one error that lists every problem."""

from __future__ import annotations

import copy
import itertools
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from importlib.metadata import entry_points
from typing import Any, get_args, get_origin
from urllib.parse import parse_qsl, urlsplit

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from peerage.config import rubrics
from peerage.config.settings import AUDIT, SeatTable, Settings
from peerage.config.sources import Merged, annotation_at, value_at
from peerage.errors import (
    MAX_LISTED,
    KeyPath,
    Problem,
    config_error,
    holds_key,
    looks_like_key,
    may_be_key,
    meant,
    shown,
)
from peerage.names import is_reserved, keys_of
from peerage.types import DECISIONS, MAX_LABELS

NEVER_SHOWN = frozenset({"store", "api_key_env", "base_url", "options"})

# Which variables may be sent to a model's server as its key. A settings file from a stranger could
# name any variable, so the name must look like that of an API key, and not of another secret.
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
KEY_WORD = re.compile(
    r"(?:API)?(?:KEY|TOKEN|SECRET|PASSWORD|PAT|BEARER|CREDENTIAL)S?\d*", re.IGNORECASE
)
OTHER_SECRET = re.compile(r"(?:AWS_(?!BEARER)|SSH_|GPG_|LD_|PYTHON|PG|GIT_).*", re.IGNORECASE)
SECRET_OPTION = re.compile(
    r"(?<![^_-])(?:api[_-]?key|password|passwd|secret|authorization|(?:access|auth)[_-]token)\Z",
    re.IGNORECASE,
)
WRITTEN = ("synthesis", "debate")  # verdicts that a chair writes
RESERVED_PANELS = ("debate", "quick")  # presets that clients can ask for by name
PUT_KEYS = "Put the key in an environment variable and write that variable's name as api_key_env."

# Metrics that are correlations or shares, so the limit of their healthy range is at most 1.
SHARES = frozenset(
    {"length", "position", "position_correlation", "style", "reasoning_length", "agreement",
     "effective_votes", "contradiction"}
)  # fmt: skip


ReadPath = tuple[str | int | None, ...]  # None: any item of a list, or key of a table

MAX_ROUNDS = 20  # of removing invalid values from a tree; each round may go one level deeper


def validate(merged: Merged) -> Settings:
    """Return the settings of a merged tree, or raise one error with all problems.

    Problems in the file come first, by line; problems in variables and flags follow.
    """
    problems = list(merged.problems)
    settings = Settings()
    try:
        settings = Settings.model_validate(merged.tree)
        problems += check(settings)
    except ValidationError as error:
        details = error.errors(include_url=False)
        problems += [_in_words(detail, n < MAX_LISTED) for n, detail in enumerate(details)]
        problems += _check_the_rest(merged.tree, details)
    if problems:
        problems.sort(key=merged.line)
        raise config_error([p if p.place else replace(p, place=merged.place(p)) for p in problems])
    return settings


def _check_the_rest(tree: dict[str, Any], details: list[ErrorDetails]) -> Iterator[Problem]:
    """Yield the problems that remain after unknown keys and invalid values are left out.

    Problems about a value that was left out are dropped, because they follow from the first one.
    """
    tree, left_out = copy.deepcopy(tree), set[KeyPath]()
    for _ in range(MAX_ROUNDS):
        for detail in details:
            path = _leave_out(tree, detail)
            if detail["type"] != "extra_forbidden":
                left_out.add(path)
        try:
            settings = Settings.model_validate(tree)
        except ValidationError as error:
            details = error.errors(include_url=False)
            continue
        for problem in check(settings, left_out):
            if not _meet((problem.at, *problem.among), left_out):
                yield problem
        return


def _leave_out(tree: dict[str, Any], detail: ErrorDetails) -> KeyPath:
    """Remove an invalid value, or the table that lacks a value, from a tree; return its path.

    A seat is replaced by a default one, so that the numbers of the other seats stay the same.
    """
    path: KeyPath = detail["loc"]
    if detail["type"] == "missing":
        path = path[:-1]
    while path and value_at(tree, path) is None:  # the rest names a branch of a type, not a key
        path = path[:-1]
    while path and isinstance(path[-1], int) and path[:-1] != ("seat",):
        path = path[:-1]  # leave out the whole list: without one item its other indices would shift
    if len(path) == 2 and path[0] == "seat":
        tree["seat"][path[1]] = {"name": f"(seat {path[1]})", "provider": "simulated"}
    elif path:
        value_at(tree, path[:-1]).pop(path[-1])
    return path


def _meet(some: Iterable[ReadPath], others: Iterable[KeyPath]) -> bool:
    """Return whether a path of one list is a prefix of one in the other; None matches any part."""
    return any(
        all(part in (None, other) for part, other in zip(one, path, strict=False))
        for one in some
        for path in others
    )


# -- one value in words ------------------------------------------------------------------------

SENTENCES: dict[str, str] = {
    "bool_type": "must be true or false, not {value}.",
    "string_type": "must be text in quotes, not {value}.",
    "string_unicode": "is not valid Unicode text.",
    "string_too_short": "must not be empty.",
    "string_too_long": "must be at most {max_length} characters long.",
    "too_short": "must not be empty.",
    "int_type": "must be a whole number, not {value}.",
    "int_from_float": "must be a whole number, not {value}.",
    "float_type": "must be a number, not {value}.",
    "finite_number": "must be a finite number, not {value}.",
    "tuple_type": "must be a list, not {value}.",
    "mapping_type": "must be a table, not {value}.",
    "dict_type": "must be a table, not {value}.",
    "model_type": "must be a table, not {value}.",
    "model_attributes_type": "must be a table, not {value}.",
    "literal_error": "must be {expected}, not {value}.",
    "greater_than_equal": "must be at least {ge}, not {value}.",
    "greater_than": "must be more than {gt}, not {value}.",
    "less_than_equal": "must be at most {le}, not {value}.",
    "value_error": "{error}",
    "extra_forbidden": "there is no such key.",
}


def _in_words(detail: ErrorDetails, with_hint: bool) -> Problem:
    """Return a pydantic error as a sentence, with a hint if a key looks misspelt."""
    path, kind = detail["loc"], detail["type"]
    context = {  # a number as a person writes it, 1,000 and not 1000.0
        name: f"{value:,.10g}" if isinstance(value, float) else value
        for name, value in detail.get("ctx", {}).items()
    }
    if kind == "missing":
        return Problem(f"{shown(path[-1])} is missing.", at=path[:-1])
    is_secret = any(part in NEVER_SHOWN for part in path)
    value = "the value given" if is_secret else shown(detail["input"])
    message = SENTENCES.get(kind, detail["msg"].lower() + ".").format(value=value, **context)
    hint = ""
    if kind == "extra_forbidden" and with_hint:
        hint = meant(str(path[-1]), _keys_beside(path))
        if str(path[-1]) in Settings.model_fields:
            hint = f"Put it above the first [table] of the file, or write [{path[-1]}]."
            hint = hint.replace("[seat]", "[[seat]]")
    elif kind == "literal_error" and isinstance(detail["input"], str) and not is_secret:
        choices = re.findall(r"'(\w+)'", str(context["expected"]))
        hint = meant(detail["input"], choices)
        hint = hint if hint.startswith("Did") else ""
    return Problem(message, hint, path)


def _keys_beside(path: KeyPath) -> list[str]:
    """Return the keys of the table that a path is in."""
    if path[0] == "seat":
        (model, _) = get_args(annotation_at(("seat",)))
    else:
        model = annotation_at([str(part) for part in path[:-1]])
    if get_origin(model) is None and isinstance(model, type) and issubclass(model, BaseModel):
        return list(model.model_fields)
    return []


# -- several values together -------------------------------------------------------------------


def check(settings: Settings, left_out: Collection[KeyPath] = ()) -> Iterator[Problem]:
    """Yield the problems of settings whose single values are all valid.

    A check that compares several values is skipped if one of them was left out.
    """
    for compares, one_check in CHECKS:
        if not _meet(compares, left_out):
            yield from one_check(settings)


def _check_store(settings: Settings) -> Iterator[Problem]:
    # The message never repeats the URL, because it may contain a password.
    if not re.match(r"[a-z][a-z0-9+.-]{0,30}://", settings.store):
        hint = "As in sqlite:///peerage.db or postgresql://host/name."
        yield Problem("must be a URL.", hint, ("store",))


def _check_keys(settings: Settings) -> Iterator[Problem]:
    """Yield a problem for each name that may be an API key: names are shown and stored."""
    texts: dict[KeyPath, object] = {("store",): settings.store, ("data",): settings.data}
    for name in ("rule", "rubric", "moderator", "chair"):
        texts["council", name] = getattr(settings.council, name)
    for index, seat in enumerate(settings.seat):
        for name in ("name", "provider", "model", "family", "reasoning_effort", "base_url"):
            texts["seat", index, name] = getattr(seat, name)
    for name in settings.rubric:
        texts["rubric", name] = name
    for name in settings.panel:
        texts["panel", name] = name
    texts["server", "quick_seat"] = settings.server.quick_seat
    for category, name in settings.rubric_by_category.items():
        texts["rubric_by_category", category] = f"{category} {name}"
    for at, text in texts.items():
        if isinstance(text, str) and holds_key(text):
            yield Problem("it may contain a key, so it is not shown.", PUT_KEYS, at)


def _check_seats(settings: Settings) -> Iterator[Problem]:
    first_by_key: dict[str, int] = {}
    for index, seat in enumerate(settings.seat):
        for problem in _check_seat(seat):
            yield replace(problem, at=("seat", index, *problem.at))
        if is_reserved(seat.name):
            message = f"the name {shown(seat.name)} is reserved."
            yield Problem(message, "Give the seat another name.", ("seat", index, "name"))
        first = min([first_by_key.setdefault(key, index) for key in keys_of(seat.name)])
        if first != index:
            message = f"the name {shown(seat.name)} is already used by [[seat]] {first + 1}."
            if seat.name.casefold() != (other := settings.seat[first].name).casefold():
                message = f"the name {shown(seat.name)} looks like {shown(other)}."
            hint = "Give each seat its own name; upper and lower case count as the same."
            yield Problem(message, hint, ("seat", index, "name"))
    if settings.seat and all(set(seat.roles) == {"chair"} for seat in settings.seat):
        yield Problem(
            "no seat answers or reviews.", "Give at least one seat the role answer.", ("seat",)
        )
    if len(settings.seat) > MAX_LABELS:
        yield Problem(f"more than {MAX_LABELS} seats: labels run from A to ZZ.", at=("seat",))


def _check_seat(seat: SeatTable) -> Iterator[Problem]:
    if seat.provider == "openai" and not seat.model:
        message = "a seat of the provider openai needs a model."
        yield Problem(message, 'Add model = "…".', ("model",))
    yield from _check_command(seat)
    if not seat.roles:
        yield Problem("no role is given.", "Known: answer, review, chair.", ("roles",))
    if len(set(seat.roles)) < len(seat.roles):
        yield Problem("a role is given twice.", at=("roles",))
    if seat.api_key_env:
        yield from _check_key_variable(seat.api_key_env)
    yield from _check_base_url(seat.base_url)
    yield from _check_options(seat.options, ("options",))


def _check_command(seat: SeatTable) -> Iterator[Problem]:
    """Yield the problems of `command`: wrong provider, no program, or an API key in an argument."""
    hint = 'As in command = ["claude", "-p"].'
    if seat.provider != "command":
        for name in ("command", "pass_env"):
            if getattr(seat, name):
                yield Problem("only seats of the provider command have this key.", "", (name,))
        return
    if not seat.command or not seat.command[0].strip():
        yield Problem("a seat of the provider command needs a program to run.", hint, ("command",))
    if seat.api_key_env:
        message = (
            "a seat of the provider command gets its API key through pass_env, not through "
            "api_key_env."
        )
        yield Problem(message, "List the variable in pass_env.", ("api_key_env",))
    for index, argument in enumerate(seat.command):
        if holds_key(argument):
            message = "it may contain a key, so it is not shown."
            yield Problem(message, "List the key's variable in pass_env.", ("command", index))
    for index, name in enumerate(seat.pass_env):
        if not VARIABLE.fullmatch(name) or may_be_key(name):
            message = "it is not a variable name; it may be a key, so it is not shown."
            yield Problem(message, "List names of variables, not values.", ("pass_env", index))


def _check_key_variable(name: str) -> Iterator[Problem]:
    at = ("api_key_env",)
    if not VARIABLE.fullmatch(name) or may_be_key(name):
        message = "it is not a variable name; it may be a key, so it is not shown."
        yield Problem(message, PUT_KEYS, at)
    elif OTHER_SECRET.fullmatch(name) or not any(map(KEY_WORD.fullmatch, name.split("_"))):
        message = (
            f"{shown(name)} does not look like the name of a key variable, and its value "
            "would be sent as a key."
        )
        yield Problem(message, "Use a variable named like SOME_API_KEY or SOME_TOKEN.", at)


def _check_base_url(url: str) -> Iterator[Problem]:
    at = ("base_url",)
    try:
        parts = urlsplit(url)
        has_host = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        has_host, parts = False, urlsplit("")
    names = [name for name, _ in parse_qsl(parts.query)]
    if url and not has_host:
        yield Problem("must be an http or https URL.", "As in http://127.0.0.1:8000/v1.", at)
    elif parts.username is not None or any(
        SECRET_OPTION.search(name) or name.lower() in {"key", "token"} for name in names
    ):
        yield Problem("it contains a secret, so it is not shown.", PUT_KEYS, at)


def _check_options(value: object, at: KeyPath) -> Iterator[Problem]:
    """Yield a problem for each secret, and for each value that JSON cannot store.

    The provider checks everything else about its options.
    """
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if isinstance(inner, str) and (SECRET_OPTION.search(key) or looks_like_key(inner)):
                yield Problem("it may be a secret, so it is not shown.", PUT_KEYS, (*at, key))
            else:
                yield from _check_options(inner, (*at, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _check_options(inner, (*at, index))
    elif isinstance(value, float) and not math.isfinite(value):
        yield Problem(f"must be a finite number, not {value}.", at=at)
    elif not isinstance(value, str | int | float):
        yield Problem("dates and times are not allowed here.", "Write them as text.", at)


def _check_chair_and_quorum(settings: Settings) -> Iterator[Problem]:
    names = [seat.name for seat in settings.seat]
    chair, quorum = settings.council.chair, settings.council.quorum
    if chair is not None and chair not in names:
        hint = meant(chair, names) if names else "There are no [[seat]] tables."
        yield Problem(f"the chair {shown(chair)} is not a seat.", hint, ("council", "chair"))
    if chair is not None and settings.council.verdict in WRITTEN:
        for seat in settings.seat:
            if seat.name == chair and seat.provider == DECISIONS:
                message = (
                    f"the chair {shown(chair)} is a decision model, which cannot write a verdict."
                )
                hint = "Name another seat, or ask for a binary or tie_breaker verdict."
                yield Problem(message, hint, ("council", "chair"))
    n_answering = len(settings.seats_that("answer"))
    if quorum is not None and n_answering and quorum > n_answering:
        message = f"the quorum is {quorum}, but the number of seats that answer is {n_answering}."
        yield Problem(message, at=("council", "quorum"))


def _check_review(settings: Settings) -> Iterator[Problem]:
    council = settings.council
    if council.review == "committed" and council.own_votes != "out":
        message = (
            'with review = "committed", a reviewer does not rank its own answer, so there are no '
            "own votes to count."
        )
        hint = 'Leave own_votes = "out", or set review = "blind".'
        yield Problem(message, hint, ("council", "own_votes"))


def _check_panels(settings: Settings) -> Iterator[Problem]:
    names = [seat.name for seat in settings.seat]
    for name, table in settings.panel.items():
        at = ("panel", name)
        if not re.fullmatch(r"[\w-]{1,40}", name) or name in RESERVED_PANELS:
            message = f"{shown(name)} is not a valid panel name."
            taken = (
                f"; {' and '.join(RESERVED_PANELS)} are reserved" if name in RESERVED_PANELS else ""
            )
            yield Problem(message, f"Use letters, digits, - and _{taken}.", at)
        elif name in names:
            hint = "Clients address both as council/NAME, so the names must differ."
            yield Problem(f"the panel {shown(name)} has the name of a seat.", hint, at)
        if not table.seats:
            yield Problem("a panel needs at least one seat.", at=(*at, "seats"))
        for seat in table.seats if names else ():  # without [[seat]] tables, seats are added later
            if seat not in names:
                yield Problem(f"{shown(seat)} is not a seat.", meant(seat, names), (*at, "seats"))
    quick = settings.server.quick_seat
    if names and quick is not None and quick not in names:
        hint = meant(quick, names)
        yield Problem(f"{shown(quick)} is not a seat.", hint, ("server", "quick_seat"))


def _check_rubrics(settings: Settings) -> Iterator[Problem]:
    for name, table in settings.rubric.items():
        at = ("rubric", name)
        if not re.fullmatch(r"[\w-]{1,40}", name):
            message = f"{shown(name)} is not a valid rubric name."
            yield Problem(message, "Use letters, digits, - and _.", at)
        for problem in rubrics.check(table.weights, table.ceilings, table.own_dimensions):
            among = tuple((*at, *path) for path in problem.among)
            yield replace(problem, at=(*at, *problem.at), among=among)


def _check_rubric_names(settings: Settings) -> Iterator[Problem]:
    name_by_path: dict[KeyPath, str] = {}
    if settings.council.rubric:
        name_by_path["council", "rubric"] = settings.council.rubric
    for category, name in settings.rubric_by_category.items():
        name_by_path["rubric_by_category", category] = name
    known = rubrics.rubric_names(settings)
    for at, name in name_by_path.items():
        if name not in known:
            yield Problem(f"there is no rubric {shown(name)}.", meant(name, known), at)


def _check_audit(settings: Settings) -> Iterator[Problem]:
    for table, built_in in (("n_min", AUDIT.n_min), ("healthy", AUDIT.healthy)):
        for metric in getattr(settings.audit, table).keys() - built_in.keys():
            known = {*built_in, *(point.name for point in entry_points(group="peerage.biases"))}
            if metric not in known:
                at = ("audit", table, metric)
                yield Problem("there is no such key.", meant(metric, known), at)
    for metric, edge in settings.audit.healthy.items():
        if metric in SHARES and edge > 1:
            yield Problem(f"must be at most 1, not {edge:g}.", at=("audit", "healthy", metric))


def _check_scale(settings: Settings) -> Iterator[Problem]:
    scale = settings.community.scale
    if len(scale) < 2 or any(low >= high for low, high in itertools.pairwise(scale)):
        message = "must be two or more numbers in rising order."
        yield Problem(message, "As in [-1, 1] or [-1, 0, 1, 2].", ("community", "scale"))


# Each check, after the paths of the values that it compares with each other.
CHECKS: tuple[tuple[tuple[ReadPath, ...], Callable[[Settings], Iterator[Problem]]], ...] = (
    ((), _check_store),
    ((), _check_keys),
    ((), _check_seats),
    (
        (
            ("council", "chair"),
            ("council", "quorum"),
            *(("seat", None, k) for k in ("name", "roles")),
        ),
        _check_chair_and_quorum,
    ),
    ((("council", "review"), ("council", "own_votes")), _check_review),
    ((("panel",), ("server", "quick_seat"), ("seat", None, "name")), _check_panels),
    ((), _check_rubrics),
    (
        (("council", "rubric"), ("rubric", None, "weights"), ("rubric_by_category",)),
        _check_rubric_names,
    ),
    ((), _check_audit),
    ((), _check_scale),
)
