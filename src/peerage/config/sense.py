"""What a well-typed configuration can still get wrong, one check per kind of mistake."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping
from urllib.parse import parse_qsl, urlsplit

from peerage.config import rubrics
from peerage.config.lines import KeyPath
from peerage.config.problems import RANDOM, Problem, looks_like_key, meant, shown
from peerage.config.tree import SeatTable, Settings
from peerage.types import MAX_LABELS

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
SECRET = re.compile(
    r"(?:^|.*[_-])(?:api[_-]?key|password|passwd|secret|authorization|(?:access|auth)[_-]token)",
    re.IGNORECASE,
)
PUT_KEYS = "Put the key in an environment variable and write that variable's name as api_key_env."
MAX_NAME = 100


def store_is_a_url(settings: Settings) -> Iterator[Problem]:
    # Never repeated: it may hold a password.
    if not re.match(r"[a-z][a-z0-9+.-]*://", settings.store):
        yield Problem(
            ("store",), "must be a URL.", "As in sqlite:///peerage.db or postgresql://host/name."
        )


def seats_make_sense(settings: Settings) -> Iterator[Problem]:
    first_by_name: dict[str, int] = {}
    for index, seat in enumerate(settings.seat):
        for problem in _seat(seat):
            yield Problem(("seat", index, *problem.at), problem.message, problem.hint)
        first = first_by_name.setdefault(seat.name, index)
        if first != index:
            yield Problem(
                ("seat", index, "name"),
                f"the name {shown(seat.name)} is taken by [[seat]] {first + 1}.",
                "Boards tell seats apart by name.",
            )
    if settings.seat and all(set(seat.roles) == {"chair"} for seat in settings.seat):
        yield Problem(("seat",), "no seat answers or reviews.", "Give one the role answer.")
    if len(settings.seat) > MAX_LABELS:
        yield Problem(("seat",), f"more than {MAX_LABELS} seats: the labels end at ZZ.")


def _seat(seat: SeatTable) -> Iterator[Problem]:
    if seat.name != seat.name.strip() or len(seat.name) > MAX_NAME or not seat.name.isprintable():
        yield Problem(
            ("name",), f"a name is one line of at most {MAX_NAME} characters, without space around."
        )
    if seat.provider == "openai" and not seat.model:
        yield Problem((), "a seat of the provider openai needs a model.", 'Add model = "…".')
    if not seat.roles:
        yield Problem(("roles",), "no role is given.", "Known: answer, review, chair.")
    if len(set(seat.roles)) < len(seat.roles):
        yield Problem(("roles",), "a role is given twice.")
    if seat.api_key_env and (
        not VARIABLE.fullmatch(seat.api_key_env)
        or looks_like_key(seat.api_key_env)
        or RANDOM.fullmatch(seat.api_key_env)
    ):
        yield Problem(
            ("api_key_env",),
            "it is not the name of a variable; it may be a key, so it is not shown.",
            PUT_KEYS,
        )
    yield from _base_url(seat.base_url)
    yield from _options(seat.options, ("options",))


def _base_url(url: str) -> Iterator[Problem]:
    at = ("base_url",)
    try:
        parts = urlsplit(url)
        has_host = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        has_host, parts = False, urlsplit("")
    if url and not has_host:
        yield Problem(at, "must be an http or https URL.", "As in http://127.0.0.1:8000/v1.")
    elif parts.username is not None or _names_a_secret(parts.query):
        yield Problem(at, "it carries a secret, which is not shown.", PUT_KEYS)


def _names_a_secret(query: str) -> bool:
    names = [name for name, _ in parse_qsl(query)]
    return any(SECRET.fullmatch(name) or name.lower() in {"key", "token"} for name in names)


def _options(value: object, at: KeyPath) -> Iterator[Problem]:
    """Options are the provider's to understand; here, only that JSON can hold them, and no keys."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if isinstance(inner, str) and (SECRET.fullmatch(key) or looks_like_key(inner)):
                yield Problem((*at, key), "it may be a secret, so it is not shown.", PUT_KEYS)
            else:
                yield from _options(inner, (*at, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _options(inner, (*at, index))
    elif isinstance(value, float) and not math.isfinite(value):
        yield Problem(at, f"must be a finite number, not {value}.")
    elif not isinstance(value, str | int | float):
        yield Problem(at, "dates and times are not understood here.", "Write them as text.")


def chair_and_quorum_fit_the_seats(settings: Settings) -> Iterator[Problem]:
    names = [seat.name for seat in settings.seat]
    chair, quorum = settings.council.chair, settings.council.quorum
    if chair is not None and chair not in names:
        hint = meant(chair, names) if names else "There are no [[seat]] tables."
        yield Problem(("council", "chair"), f"the chair {shown(chair)} is not a seat.", hint)
    n_answering = len(settings.seats_that("answer"))
    if quorum is not None and n_answering and quorum > n_answering:
        yield Problem(
            ("council", "quorum"),
            f"a quorum of {quorum} can never be met: seats that answer, {n_answering}.",
        )


def rubrics_hold(settings: Settings) -> Iterator[Problem]:
    for name, table in settings.rubric.items():
        at = ("rubric", name)
        if not re.fullmatch(r"[\w-]{1,40}", name):
            yield Problem(
                at, f"{shown(name)} cannot name a rubric.", "Use letters, digits, - and _."
            )
        for fault in rubrics.faults(table.weights, table.ceilings, table.own):
            among = tuple((*at, *path) for path in fault.among)
            yield Problem((*at, *fault.at), fault.message, fault.hint, among)


def rubrics_exist(settings: Settings) -> Iterator[Problem]:
    asked: dict[KeyPath, str] = {
        ("rubric_by_category", category): name
        for category, name in settings.rubric_by_category.items()
    }
    if settings.council.rubric:
        asked = {("council", "rubric"): settings.council.rubric, **asked}
    known = rubrics.rubric_names(settings)
    for at, name in asked.items():
        if name not in known:
            wrong = rubrics.unknown("", name, settings)
            yield Problem(at, wrong.message, wrong.hint)


def scale_ascends(settings: Settings) -> Iterator[Problem]:
    scale = settings.community.scale
    if len(scale) < 2 or any(low >= high for low, high in itertools.pairwise(scale)):
        yield Problem(
            ("community", "scale"),
            "must be two or more values, each above the last.",
            "As in [-1, 1] or [-1, 0, 1, 2].",
        )


Check = Callable[[Settings], Iterator[Problem]]

# A check is left out where a table that it reads is broken: it would complain of the wreck.
CHECKS: tuple[tuple[frozenset[str], Check], ...] = (
    (frozenset({"store"}), store_is_a_url),
    (frozenset({"seat"}), seats_make_sense),
    (frozenset({"council", "seat"}), chair_and_quorum_fit_the_seats),
    (frozenset({"rubric"}), rubrics_hold),
    (frozenset({"council", "rubric", "rubric_by_category"}), rubrics_exist),
    (frozenset({"community"}), scale_ascends),
)


def nonsense(settings: Settings, broken: frozenset[str] = frozenset()) -> Iterator[Problem]:
    """Everything the checks find, in the order of the file's tables."""
    for reads, check in CHECKS:
        if not reads & broken:
            yield from check(settings)
