"""What happens in a session: one frozen dataclass for each kind of event, and its JSON both ways.

The log stores an `Event` with a kind and a body of plain JSON values; `read_event` gives the
typed event behind it, or says that the body is of another shape, and `body_of` the body to
store. A gate and a verdict are stored as they are, under "screened" and "concluded".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from peerage.errors import UnreadableError
from peerage.types import Event, Finding, Gate, Query, Score, Usage, Verdict

OMITTED: dict[str, Any] = {"omitted": True}  # a field that is not stored where it says nothing


@dataclass(frozen=True, slots=True)
class SeatRecord:
    """A seat as the log knows it: nothing of how it is reached."""

    name: str
    family: str = ""
    model: str = ""
    roles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Opened:
    query: Query
    seed: str
    ordinal: int
    season: str
    seats: tuple[SeatRecord, ...]
    law: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Answered:
    seat: str
    text: str
    latency_ms: float | None = None
    reasoning_words: int | None = None
    given: bool = field(default=False, metadata=OMITTED)  # judged, not asked for
    usage: Usage | None = field(default=None, metadata=OMITTED)


@dataclass(frozen=True, slots=True)
class Failed:
    seat: str
    stage: str
    kind: str
    message: str
    round: int = 0
    usage: Usage | None = field(default=None, metadata=OMITTED)


@dataclass(frozen=True, slots=True)
class DealtBallot:
    """Whom one reviewer was shown, in which order; labels are A, B, C … unless it says others."""

    reviewer: str
    order: tuple[str, ...]
    labels: tuple[str, ...] = field(default=(), metadata=OMITTED)
    positions_known: bool = field(default=True, metadata=OMITTED)


@dataclass(frozen=True, slots=True)
class Dealt:
    round: int
    ballots: tuple[DealtBallot, ...]


@dataclass(frozen=True, slots=True)
class ReviewReading:
    """How a reviewer's reply was read when it came in."""

    ranking: tuple[tuple[str, ...], ...]
    scores: Mapping[str, float]
    marks: Mapping[str, Mapping[str, float]]
    claimed: Mapping[str, float]
    notes: Mapping[str, str]
    abstained: str
    recovered: str
    flags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reviewed:
    reviewer: str
    round: int
    text: str
    prompt: str = field(default="", metadata=OMITTED)  # the hash of what the reviewer was told
    usage: Usage | None = field(default=None, metadata=OMITTED)
    latency_ms: float | None = None
    review: ReviewReading | None = field(default=None, metadata=OMITTED)


@dataclass(frozen=True, slots=True)
class StoppedEarly:
    round: int
    not_heard: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tallied:
    scores: tuple[Score, ...]
    flags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Audited:
    findings: tuple[Finding, ...]
    bias_audit: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Advised:
    """A seat's word on the conclusion."""

    seat: str
    text: str
    usage: Usage | None = field(default=None, metadata=OMITTED)
    latency_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    status: str
    cost_usd: float | None = None
    unpriced_calls: int = 0


Fact: TypeAlias = (
    Opened
    | Answered
    | Failed
    | Gate
    | Dealt
    | Reviewed
    | StoppedEarly
    | Tallied
    | Audited
    | Advised
    | Verdict
    | Finished
)
TYPE_BY_KIND: Mapping[str, type[Fact]] = {
    "opened": Opened,
    "answered": Answered,
    "failed": Failed,
    "screened": Gate,
    "dealt": Dealt,
    "reviewed": Reviewed,
    "stopped_early": StoppedEarly,
    "tallied": Tallied,
    "audited": Audited,
    "advised": Advised,
    "concluded": Verdict,
    "finished": Finished,
}
KIND_BY_TYPE: Mapping[type[Fact], str] = {cls: kind for kind, cls in TYPE_BY_KIND.items()}


def read_event(event: Event) -> Fact | None:
    """The typed event behind a stored one; None for a kind that this version does not know."""
    if event.kind not in TYPE_BY_KIND:
        return None
    try:
        fact: Fact = _fact_reader(event.kind)(event.body)
    except _WrongShapeError as error:
        raise UnreadableError(
            f"event {event.seq} ({event.kind}) is not as a session writes it: {error}.",
            place=f"session {event.session_id}",
        ) from None
    return fact


def body_of(fact: Any) -> dict[str, Any]:
    """The body to store: plain JSON values, without the optional fields that say nothing."""
    return {
        one.name: _plain(value)
        for one in fields(fact)
        if (value := getattr(fact, one.name)) != one.default or "omitted" not in one.metadata
    }


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return body_of(value)
    if isinstance(value, Finding):
        return value._asdict()
    if isinstance(value, Mapping):
        return {name: _plain(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(member) for member in value]
    return value


# -- reading ------------------------------------------------------------------------------------


class _WrongShapeError(Exception):
    """A value is not what its field says."""


Reader: TypeAlias = Callable[[Any], Any]


@cache
def _fact_reader(kind: str) -> Reader:
    return _record_reader(TYPE_BY_KIND[kind])


def _reader(hint: Any) -> Reader:
    """A function that reads a JSON value into a type, or raises."""
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any:
        return lambda value: value
    if origin in (Union, UnionType):
        return _union_reader(args)
    if origin is Literal:
        return _checked(lambda value: type(value) is str and value in args, "no known word")
    if origin is tuple:
        return _tuple_reader(args)
    if origin is not None and issubclass(origin, Mapping):
        return _mapping_reader(_reader(args[1]))
    if isinstance(hint, type) and (is_dataclass(hint) or hint is Finding):
        return _record_reader(hint)
    if hint is float:
        return _checked(lambda value: type(value) in (int, float), "no number")
    return _checked(lambda value: type(value) is hint, f"no {hint.__name__}")


def _checked(fits: Callable[[Any], bool], otherwise: str) -> Reader:
    def read(value: Any) -> Any:
        if not fits(value):
            raise _WrongShapeError(f"a {type(value).__name__} is {otherwise}")
        return value

    return read


def _union_reader(hints: tuple[Any, ...]) -> Reader:
    """For the unions we have: a type or None."""
    (hint,) = (one for one in hints if one is not NoneType)
    read = _reader(hint)
    return lambda value: None if value is None else read(value)


def _tuple_reader(hints: tuple[Any, ...]) -> Reader:
    n = None if hints[-1] is Ellipsis else len(hints)
    read = _reader(hints[0])

    def read_all(value: Any) -> Any:
        if not isinstance(value, list | tuple) or (n is not None and len(value) != n):
            raise _WrongShapeError(f"a {type(value).__name__} is not the list it should be")
        return tuple(map(read, value))

    return read_all


def _mapping_reader(read: Reader) -> Reader:
    def read_all(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise _WrongShapeError(f"a {type(value).__name__} is no object")
        return {name: read(member) for name, member in value.items()}

    return read_all


def _record_reader(cls: Any) -> Reader:
    """Reads an object's members into the fields of their names; others are passed over."""
    hints = get_type_hints(cls)
    if is_dataclass(cls):
        names = [one.name for one in fields(cls) if one.init]
    else:
        names = list(cls._fields)
    readers = [(name, _reader(hints[name])) for name in names]

    def read(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise _WrongShapeError(f"a {type(value).__name__} is no object")
        members = {}
        for name, read_member in readers:
            if name in value:
                try:
                    members[name] = read_member(value[name])
                except _WrongShapeError as error:
                    raise _WrongShapeError(f"{name}: {error}") from None
        try:
            return cls(**members)
        except TypeError:
            missing = [name for name in required if name not in members]
            raise _WrongShapeError(f"{', '.join(missing)} missing") from None

    required = [name for name in names if not _has_default(cls, name)]
    return read


def _has_default(cls: Any, name: str) -> bool:
    if not is_dataclass(cls):
        return name in cls._field_defaults
    one = cls.__dataclass_fields__[name]
    return one.default is not MISSING or one.default_factory is not MISSING
