"""Ballots files: sessions written elsewhere, read into types or refused by place.

A session is an object with labels and rankings, or nothing but rankings by name: a list of them,
or an object with one for each reviewer. Rows of a table are sessions too (`ballot_rows`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from peerage.council.ballot_rows import is_rows, sessions_of_rows
from peerage.council.ballots import canonical_label, parse, review_of
from peerage.council.blinding import label, label_index
from peerage.errors import InputError
from peerage.types import MAX_LABELS, Ballot, Query, Response, Review, Session, Slot

RESPONSES = ("responses", "stage1")
RANKINGS = ("rankings", "stage2")
LABELLED = "label_to_model"
SHAPE = 'See "Ballots files" in docs/ballots.md for the shape.'


def read_json(data: bytes, place: str) -> Any:
    """The JSON in some bytes, or an error that says where it stops being JSON."""
    try:
        return json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InputError(
            f"this is not UTF-8 text (byte {error.start}).",
            place=place,
            hint="Save the file as UTF-8.",
        ) from None
    except json.JSONDecodeError as error:
        raise InputError(
            f"this is not JSON: {error.msg} at line {error.lineno}, column {error.colno}.",
            place=place,
            hint=SHAPE,
        ) from None
    except RecursionError:
        raise InputError("this JSON is nested too deeply to read.", place=place) from None
    except ValueError as error:  # an integer of more digits than Python reads
        raise InputError(
            f"this JSON has a value that cannot be read: {error}.", place=place
        ) from None


def sessions_of(document: Any, place: str = "ballots") -> tuple[Session, ...]:
    """The sessions of a ballots file: one, a list of them, rankings by name, or rows."""
    if is_rows(document):
        return sessions_of_rows(document, place)
    if isinstance(document, list) and not is_rankings(document):
        if not document:
            raise InputError("there is no session in this list.", place=place, hint=SHAPE)
        return tuple(
            session_of(item, f"{place}, session {i + 1}") for i, item in enumerate(document)
        )
    return (session_of(document, place),)


def is_rankings(document: Any) -> bool:
    """Whether a document is nothing but rankings by name: `[["m1", "m2"], …]`, or by reviewer."""
    if isinstance(document, Mapping):
        keys = {*RESPONSES, *RANKINGS, LABELLED}
        return (
            bool(document)
            and not keys & document.keys()
            and all(isinstance(value, list) for value in document.values())
        )
    return (
        isinstance(document, list)
        and bool(document)
        and all(
            isinstance(item, list)
            or (isinstance(item, Mapping) and isinstance(item.get("ranking"), list))
            for item in document
        )
    )


def session_of(document: Any, place: str = "ballots") -> Session:
    """One session of a ballots file, its replies parsed."""
    if is_rankings(document):
        document = {"rankings": document}
    if not isinstance(document, Mapping):
        raise InputError(f"a session is an object, not {_kind(document)}.", place=place, hint=SHAPE)
    responses, flags = _responses(document, place)
    entries = _entries(document, place)
    shown = _shown(document, responses, entries, place)
    ballots: list[Ballot] = []
    reviews: list[Review] = []
    seen: dict[tuple[str, int], int] = {}
    for i, entry in enumerate(entries):
        here = f"{place}, rankings[{i}]"
        ballot, review = _reviewed(entry, shown, here)
        key = (ballot.reviewer, ballot.round)
        if key in seen:
            raise InputError(
                f"reviewer {ballot.reviewer!r} already voted in rankings[{seen[key]}].",
                place=here,
                hint='Keep one ballot per reviewer, or number their rounds with "round".',
            )
        seen[key] = i
        ballots.append(ballot)
        reviews.append(review)
    candidates = _candidates(shown, ballots, place)
    flags += [f"not_on_a_ballot:{r.model}" for r in responses if r.model not in candidates]
    return Session(
        id=str(document.get("session_id") or document.get("id") or ""),
        query=Query(
            text=_text(document, "query", place),
            id=str(document.get("query_id") or ""),
            category=_text(document, "category", place),
        ),
        candidates=candidates,
        responses=tuple(responses),
        ballots=tuple(ballots),
        reviews=tuple(reviews),
        flags=tuple(flags),
        finished=True,
    )


# -- parts of a session -----------------------------------------------------------------------


def _entries(document: Mapping[str, Any], place: str) -> list[Any]:
    """The rankings of a session as objects, each with its reviewer; a bare list gets a number."""
    rankings = next((document[key] for key in RANKINGS if key in document), None)
    if isinstance(rankings, Mapping) and rankings:
        return [_entry(name, said) for name, said in rankings.items()]
    return [
        _entry(f"ballot {i + 1}", entry) if isinstance(entry, list) else entry
        for i, entry in enumerate(_list(document, RANKINGS, place))
    ]


def _entry(reviewer: str, said: Any) -> dict[str, Any]:
    key = "text" if isinstance(said, str) else "parsed_ranking"
    return {"model": reviewer, key: {"ranking": said} if isinstance(said, list) else said}


@dataclass(frozen=True, slots=True)
class _Shown:
    """Slots in the order shown, and whether that order and labels for it are known."""

    slots: tuple[Slot, ...]
    positions_known: bool
    labelled: bool = True

    @property
    def authors(self) -> tuple[str, ...]:
        return tuple(slot.author for slot in self.slots)


def _responses(document: Mapping[str, Any], place: str) -> tuple[list[Response], list[str]]:
    responses: list[Response] = []
    flags: list[str] = []
    names: set[str] = set()
    for i, item in enumerate(_list(document, RESPONSES, place, required=False)):
        here = f"{place}, responses[{i}]"
        model = _name(item, here)
        if model in names:
            raise InputError(f"model {model!r} answers twice.", place=here)
        names.add(model)
        text = item.get("response")
        if text is None:
            flags.append(f"no_text:{model}")
        elif not isinstance(text, str):
            raise InputError(f'"response" is {_kind(text)}, not text.', place=here)
        responses.append(Response(model, text or ""))
    return responses, flags


def _shown(
    document: Mapping[str, Any],
    responses: Sequence[Response],
    entries: Sequence[Any],
    place: str,
) -> _Shown:
    """What every ballot shows unless it says otherwise: all that any of them ranks by name."""
    texts = {response.model: response.text for response in responses}
    mapping = document.get(LABELLED)
    if mapping is not None:
        return _slots(mapping, texts, f"{place}, {LABELLED}")
    names: Sequence[str] = [response.model for response in responses]
    labelled = bool(names) or not _are_bare(document)
    if not labelled:
        named = {name for entry in entries for name in _names_in(entry)}
        names = sorted(named)
    _check_size(len(names), place)
    slots = tuple(Slot(label(i), name, texts.get(name)) for i, name in enumerate(names))
    return _Shown(slots, positions_known=False, labelled=labelled)


def _are_bare(document: Mapping[str, Any]) -> bool:
    """Whether a session's rankings are lists of names, and not objects that speak of labels."""
    return is_rankings(next((document[key] for key in RANKINGS if key in document), None))


def _names_in(entry: Any) -> Iterator[str]:
    ranking = (_said(entry) or {}).get("ranking")
    for tier in ranking if isinstance(ranking, list) else ():
        for name in tier if isinstance(tier, list) else (tier,):
            if isinstance(name, str) and name.strip():
                yield name.strip()


def _said(entry: Any) -> Any:
    """What an entry says that needs no parsing, or None."""
    if not isinstance(entry, Mapping):
        return None
    if "parsed_ranking" in entry:
        return entry["parsed_ranking"]
    return {"ranking": entry["ranking"]} if isinstance(entry.get("ranking"), list) else None


def _slots(mapping: Any, texts: Mapping[str, str], place: str) -> _Shown:
    """Slots from either shape of `label_to_model`, in the order they were displayed."""
    if not isinstance(mapping, Mapping):
        raise InputError(f"this is {_kind(mapping)}, not labels with models.", place=place)
    if not mapping:
        raise InputError(
            "there are no candidates on this ballot.",
            place=place,
            hint='Map each label to its model, {"Response A": "some-model"}.',
        )
    _check_size(len(mapping), place)
    label_by_author: dict[str, str] = {}
    index_by_label: dict[str, int | None] = {}
    for text, value in mapping.items():
        name = canonical_label(text)
        author, index = _author(value, f"{place}, {text!r}")
        if name in index_by_label:
            raise InputError(f"label {text!r} stands here twice.", place=place)
        if author in label_by_author:
            raise InputError(f"model {author!r} is under two labels.", place=place)
        label_by_author[author] = name
        index_by_label[name] = label_index(name) if index is None else index
    indices = [index for index in index_by_label.values() if index is not None]
    known = len(indices) == len(index_by_label)
    if len(set(indices)) < len(indices):
        raise InputError("two labels have the same display_index.", place=place)
    ordered = list(label_by_author.items())
    if known:
        ordered.sort(key=lambda item: index_by_label[item[1]] or 0)
    slots = tuple(Slot(name, author, texts.get(author)) for author, name in ordered)
    return _Shown(slots, known)


def _author(value: Any, place: str) -> tuple[str, int | None]:
    if isinstance(value, str) and value.strip():
        return value.strip(), None
    index = value.get("display_index") if isinstance(value, Mapping) else None
    if index is not None and (not isinstance(index, int) or isinstance(index, bool) or index < 0):
        raise InputError(f"display_index is {index!r}, not 0, 1, 2 …", place=place)
    return _name(value, place), index


def _reviewed(entry: Any, shown: _Shown, place: str) -> tuple[Ballot, Review]:
    reviewer = _name(entry, place, ("model", "reviewer"))
    own = entry.get(LABELLED)
    if own is not None:
        texts = {slot.author: slot.text for slot in shown.slots if slot.text is not None}
        shown = _slots(own, texts, f"{place}, {LABELLED}")
    round_ = entry.get("round", 0)
    if not isinstance(round_, int) or isinstance(round_, bool) or round_ < 0:
        raise InputError(f"round is {round_!r}, not 0, 1, 2 …", place=place)
    ballot = Ballot(reviewer, shown.slots, round_, shown.positions_known)
    parsed = _parsed_by_label(entry, ballot, shown.labelled)
    if parsed is not None:
        return ballot, review_of(parsed, ballot, raw=json.dumps(parsed))
    raw = next((entry[key] for key in ("text", "ranking") if isinstance(entry.get(key), str)), None)
    return ballot, parse(raw, ballot)


def _parsed_by_label(entry: Any, ballot: Ballot, labelled: bool) -> Any:
    """What an entry says, with labels where it names candidates; None if it has to be parsed.

    A label stands for itself where the session has labels, even if a candidate has its name.
    """
    said = _said(entry)
    label_by_author = {slot.author: slot.label for slot in ballot.slots}
    labels = {text for slot in ballot.slots for text in (slot.label, f"Response {slot.label}")}

    def by_label(value: Any) -> Any:
        if isinstance(value, list):
            return [by_label(one) for one in value]
        if not isinstance(value, str) or (labelled and value in labels):
            return value
        return label_by_author.get(value.strip(), value)

    if isinstance(said, list):
        return by_label(said)
    if not isinstance(said, Mapping):
        return said
    parsed = dict(said)
    if "ranking" in parsed:
        parsed["ranking"] = by_label(parsed["ranking"])
    for key in ("scores", "evaluations"):
        if isinstance(parsed.get(key), Mapping):
            parsed[key] = {by_label(name): value for name, value in parsed[key].items()}
    return parsed


def _candidates(shown: _Shown, ballots: Sequence[Ballot], place: str) -> tuple[str, ...]:
    """Everyone on a ballot or on the session's own list, by name."""
    authors = {author for ballot in ballots for author in ballot.authors} | set(shown.authors)
    if not authors:
        raise InputError(
            "there are no candidates in this session.",
            place=place,
            hint='Give "label_to_model", or "responses" to be labelled A, B, C … in that order.',
        )
    _check_size(len(authors), place)
    return tuple(sorted(authors))


def _check_size(n: int, place: str) -> None:
    if n > MAX_LABELS:
        raise InputError(
            f"{n:,} candidates are more than the {MAX_LABELS} that labels A to ZZ can tell apart.",
            place=place,
            hint="Split them over several sessions.",
        )


def _list(
    document: Mapping[str, Any], keys: Sequence[str], place: str, *, required: bool = True
) -> list[Any]:
    for key in keys:
        if key in document:
            value = document[key]
            if not isinstance(value, list):
                raise InputError(f'"{key}" is {_kind(value)}, not a list.', place=place)
            return value
    if required:
        raise InputError(f'there is no "{keys[0]}" in this session.', place=place, hint=SHAPE)
    return []


def _name(item: Any, place: str, keys: Sequence[str] = ("model",)) -> str:
    if not isinstance(item, Mapping):
        raise InputError(f'this is {_kind(item)}, not an object with a "model".', place=place)
    name = next((item[key] for key in keys if key in item), None)
    if not isinstance(name, str) or not name.strip():
        raise InputError(f'"model" is {_kind(name)}, not a name.', place=place)
    return name.strip()


def _text(document: Mapping[str, Any], key: str, place: str) -> str:
    value = document.get(key)
    if value is not None and not isinstance(value, str):
        raise InputError(f'"{key}" is {_kind(value)}, not text.', place=place)
    return value or ""


def _kind(value: Any) -> str:
    names = {
        type(None): "null",
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "text" if value else "empty text",
        list: "a list",
        dict: "an object",
    }
    return names.get(type(value), type(value).__name__)
