"""Read ballots files, which hold sessions of other tools; errors name the place in the file.

A session is an object with labels and rankings, or only rankings by name: a list of them, or an
object with one per reviewer. Rows of a table are sessions too: a row of reviews names a reviewer
and a candidate and has a rank or a score; a comparison (`model_a`, `model_b`, `winner`) is a ballot
of its own, and all comparisons form one session, so that a judge may compare any number of times.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from peerage.council.ballots import canonical_label, first_value, review_of
from peerage.council.blinding import label, label_index
from peerage.council.readings import read_foreign
from peerage.errors import InputError, shown
from peerage.messages import read_answer, render_messages
from peerage.types import (
    MAX_LABELS,
    MAX_NUMBER,
    QUERY_COLUMNS,
    Ballot,
    Query,
    Response,
    Review,
    Session,
    Slot,
)

RESPONSES = ("responses", "stage1")
RANKINGS = ("rankings", "stage2")
LABELLED = "label_to_model"
SHAPE = 'docs/ballots.md, "Ballots files", describes the format.'

MAX_BALLOTS = 1_000_000  # in one session of table rows
MAX_READINGS = 50_000  # parsed rankings cached per session: many ballots are equal
STEP = 10_000  # items between two reports of progress
N_SHOWN = 10
SIDES = ("model_a", "model_b")
TIES = ("tie", "tie (bothbad)")

T = TypeVar("T")
Step = Callable[[str, int, int], None]  # what is counted, how many are done, the total
Row = Mapping[str, Any]
Judged = tuple[Ballot, Review]


def read_json(data: bytes, place: str) -> Any:
    """Return the JSON value in some bytes, or raise an error that says where it is invalid."""
    hint = ""
    try:
        return json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        wrong, hint = f"this is not UTF-8 text (byte {error.start}).", "Save the file as UTF-8."
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        wrong, hint = f"this is not JSON: {error.msg} at {where}.", SHAPE
    except RecursionError:
        wrong = "this JSON is nested too deeply to read."
    except ValueError as error:  # an integer with more digits than Python reads
        wrong = f"this JSON has a value that cannot be read: {error}."
    raise InputError(wrong, place=place, hint=hint)


def report_nothing(_what: str, _done: int, _total: int) -> None:
    """Report no progress."""


def report_steps(items: Sequence[T], step: Step, what: str) -> Iterator[T]:
    """Yield the items one by one, and report progress after every `STEP` items."""
    for done, item in enumerate(items):
        if done and done % STEP == 0:
            step(what, done, len(items))
        yield item


def sessions_of(
    document: Any, place: str = "ballots", step: Step = report_nothing
) -> tuple[Session, ...]:
    """Return the sessions of a file with one session, a list of them, rankings by name, or rows."""
    if is_rows(document):
        read_rows = (
            _sessions_of_reviews
            if any("candidate" in row for row in document)
            else _session_of_comparisons
        )
        return read_rows(document, place, step)
    if isinstance(document, list) and not is_rankings(document):
        if not document:
            raise InputError("this list contains no session.", place=place, hint=SHAPE)
        return tuple(
            session_of(item, f"{place}, session {i}")
            for i, item in enumerate(report_steps(document, step, "sessions read"), 1)
        )
    return (session_of(document, place, step),)


def is_rankings(document: Any) -> bool:
    """Return whether a document is only rankings of names: `[["m1", "m2"], …]`, or by reviewer."""
    if not isinstance(document, Mapping | list) or not document:
        return False
    if isinstance(document, Mapping):
        keys = {*RESPONSES, *RANKINGS, LABELLED}
        return keys.isdisjoint(document) and all(isinstance(v, list) for v in document.values())
    return all(
        isinstance(item.get("ranking") if isinstance(item, Mapping) else item, list)
        for item in document
    )


def is_rows(document: Any) -> bool:
    """Return whether a document is rows of reviews or of comparisons, not a list of sessions."""
    return (
        isinstance(document, list)
        and all(isinstance(row, Mapping) for row in document)
        and any("candidate" in row or SIDES[0] in row for row in document)
    )


def session_of(document: Any, place: str = "ballots", step: Step = report_nothing) -> Session:
    """Return one session of a ballots file, with its replies parsed."""
    if is_rankings(document):
        document = {"rankings": document}
    if not isinstance(document, Mapping):
        raise InputError(
            f"a session must be an object, not {_kind(document)}.", place=place, hint=SHAPE
        )
    responses, flags = _responses(document, place)
    entries = _entries(document, place)
    common, labelled = _common_ballot(document, responses, entries, place)
    judged: dict[tuple[str, int], Judged] = {}
    readings: Readings = {}
    for i, entry in enumerate(report_steps(entries, step, "ballots read")):
        here = f"{place}, rankings[{i}]"
        ballot, review = _read_ranking(entry, common, labelled, here, readings)
        key = (ballot.reviewer, ballot.round)
        if key in judged:
            earlier = list(judged).index(key)
            raise InputError(
                f"reviewer {ballot.reviewer!r} already voted in rankings[{earlier}].",
                place=here,
                hint='Keep one ballot per reviewer, or number their rounds with "round".',
            )
        judged[key] = ballot, review
    candidates = {name for ballot, _ in judged.values() for name in ballot.authors}
    candidates.update(common.authors)
    if not candidates:
        raise InputError(
            "there are no candidates in this session.",
            place=place,
            hint='Give "label_to_model", or "responses" to be labelled A, B, C … in that order.',
        )
    _check_labels(len(candidates), place)
    flags += [f"not_on_a_ballot:{r.model}" for r in responses if r.model not in candidates]
    return Session(
        id=str(document.get("session_id") or document.get("id") or "").strip(),
        query=Query(
            text=_text(document, _query_key(document), place),
            id=str(document.get("query_id") or ""),
            category=_text(document, "category", place),
        ),
        candidates=tuple(sorted(candidates)),
        responses=tuple(responses),
        ballots=tuple(ballot for ballot, _ in judged.values()),
        reviews=tuple(review for _, review in judged.values()),
        flags=tuple(flags),
        finished=True,
    )


# -- parts of a session -----------------------------------------------------------------------


def _entries(document: Row, place: str) -> list[Any]:
    """Return the rankings as objects with a reviewer, which is `ballot N` for a bare list."""
    rankings = first_value(document, RANKINGS)
    if isinstance(rankings, Mapping) and rankings:
        return [_entry(name, ranking) for name, ranking in rankings.items()]
    return [
        _entry(f"ballot {i}", entry) if isinstance(entry, list) else entry
        for i, entry in enumerate(_list(document, RANKINGS, place), 1)
    ]


def _entry(reviewer: str, ranking: Any) -> dict[str, Any]:
    key = "text" if isinstance(ranking, str) else "parsed_ranking"
    return {"model": reviewer, key: {"ranking": ranking} if isinstance(ranking, list) else ranking}


def _responses(document: Row, place: str) -> tuple[list[Response], list[str]]:
    responses: dict[str, Response] = {}
    flags: list[str] = []
    for i, item in enumerate(_list(document, RESPONSES, place, required=False)):
        here = f"{place}, responses[{i}]"
        model = _model(item, here)
        if model in responses:
            raise InputError(f"model {model!r} has two answers.", place=here)
        if item.get("response") is None:
            flags.append(f"no_text:{model}")
        answer = item.get("response")
        if isinstance(answer, list):
            answer = read_answer(answer, here)
        if isinstance(answer, tuple):
            responses[model] = Response(model, render_messages(answer), messages=answer)
        else:
            responses[model] = Response(model, _text({"response": answer}, "response", here))
    return list(responses.values()), flags


def _common_ballot(
    document: Row, responses: Sequence[Response], entries: Sequence[Any], place: str
) -> tuple[Ballot, bool]:
    """Return the ballot for reviewers without a ballot of their own, and whether it has labels.

    A ballot without labels shows all candidates that any ranking names.
    """
    texts: dict[str, str | None] = {response.model: response.text for response in responses}
    mapping = document.get(LABELLED)
    if mapping is not None:
        return _ballot(mapping, texts, f"{place}, {LABELLED}"), True
    labelled = bool(texts) or not is_rankings(first_value(document, RANKINGS))
    names = texts if labelled else sorted({name for e in entries for name in _names_in(e)})
    _check_labels(len(names), place)
    slots = tuple(Slot(label(i), name, texts.get(name)) for i, name in enumerate(names))
    return Ballot("", slots, positions_known=False), labelled


def _names_in(entry: Any) -> Iterator[str]:
    ranking = (_verdict_of(entry) or {}).get("ranking")
    for tier in ranking if isinstance(ranking, list) else ():
        for name in tier if isinstance(tier, list) else (tier,):
            if isinstance(name, str) and name.strip():
                yield name.strip()


def _verdict_of(entry: Any) -> Any:
    """Return the ranking of an entry that is already parsed, or None."""
    if not isinstance(entry, Mapping):
        return None
    if "parsed_ranking" in entry:
        return entry["parsed_ranking"]
    return {"ranking": entry["ranking"]} if isinstance(entry.get("ranking"), list) else None


def _ballot(mapping: Any, texts: Mapping[str, str | None], place: str) -> Ballot:
    """Return a ballot from either form of `label_to_model`, in display order."""
    if not isinstance(mapping, Mapping):
        raise InputError(f"labels must map to models; this is {_kind(mapping)}.", place=place)
    if not mapping:
        raise InputError(
            "there are no candidates on this ballot.",
            place=place,
            hint='Map each label to its model, {"Response A": "some-model"}.',
        )
    _check_labels(len(mapping), place)
    slots: dict[str, Slot] = {}
    index_by_label: dict[str, int | None] = {}
    for text, value in mapping.items():
        name = canonical_label(text)
        author, index = _author(value, f"{place}, {text!r}")
        if name in index_by_label:
            raise InputError(f"label {text!r} occurs twice.", place=place)
        if author in slots:
            raise InputError(f"model {author!r} is under two labels.", place=place)
        slots[author] = Slot(name, author, texts.get(author))
        index_by_label[name] = label_index(name) if index is None else index
    indices = [index for index in index_by_label.values() if index is not None]
    if len(set(indices)) < len(indices):
        raise InputError("two labels have the same display_index.", place=place)
    known = len(indices) == len(slots)
    ordered = sorted(slots.values(), key=lambda slot: (known and index_by_label[slot.label]) or 0)
    return Ballot("", tuple(ordered), positions_known=known)


def _author(value: Any, place: str) -> tuple[str, int | None]:
    if isinstance(value, str) and value.strip():
        return value.strip(), None
    index = value.get("display_index") if isinstance(value, Mapping) else None
    if index is not None:
        _check_index("display_index", index, place)
    return _model(value, place), index


Readings = dict[str, Review]  # reviews of ballots with the session's labels, by their JSON


def _read_ranking(
    entry: Any, common: Ballot, labelled: bool, place: str, readings: Readings
) -> Judged:
    reviewer = _model(entry, place, ("model", "reviewer"))
    own = entry.get(LABELLED)
    if own is not None:
        texts = {slot.author: slot.text for slot in common.slots}
        common, labelled = _ballot(own, texts, f"{place}, {LABELLED}"), True
    round_ = entry.get("round", 0)
    _check_index("round", round_, place)
    ballot = replace(common, reviewer=reviewer, round=round_)
    parsed = _parsed_by_label(entry, ballot, labelled)
    if parsed is not None and not isinstance(parsed, str):
        raw = json.dumps(parsed)
        if own is not None:
            return ballot, review_of(parsed, ballot, raw=raw)
        review = readings.get(raw) or review_of(parsed, ballot, raw=raw)
        if len(readings) < MAX_READINGS:
            readings[raw] = review
        return ballot, replace(review, reviewer=reviewer, round=round_)
    spoken = [t for t in (parsed, entry.get("text"), entry.get("ranking")) if isinstance(t, str)]
    return ballot, read_foreign(spoken[0] if spoken else None, ballot)


def _parsed_by_label(entry: Any, ballot: Ballot, labelled: bool) -> Any:
    """Return the ranking in an entry, with names replaced by labels; a text must still be parsed.

    If the session has labels, a word that is a label is not replaced, even if a candidate has that
    name.
    """
    verdict = _verdict_of(entry)
    label_by_author = {slot.author: slot.label for slot in ballot.slots}
    labels = {text for slot in ballot.slots for text in (slot.label, f"Response {slot.label}")}

    def by_label(value: Any) -> Any:
        if isinstance(value, list):
            return [by_label(name) for name in value]
        if not isinstance(value, str) or (labelled and value in labels):
            return value
        return label_by_author.get(value.strip(), value)

    if not isinstance(verdict, Mapping):
        return by_label(verdict) if isinstance(verdict, list) else verdict
    parsed = dict(verdict)
    if "ranking" in parsed:
        parsed["ranking"] = by_label(parsed["ranking"])
    for key in ("scores", "evaluations"):
        if isinstance(parsed.get(key), Mapping):
            parsed[key] = {by_label(name): value for name, value in parsed[key].items()}
    return parsed


# -- rows of a table ---------------------------------------------------------------------------


def _sessions_of_reviews(rows: Sequence[Row], place: str, step: Step) -> tuple[Session, ...]:
    """Return the sessions in rows of reviews, in the order of their first rows."""
    _check_columns(rows, ("reviewer", "candidate"), place)
    if not any(_is_given(row.get(name)) for row in rows for name in ("rank", "score")):
        raise InputError("no row has a rank or a score.", place=place, hint=_columns(rows))
    rows_by_ballot: dict[str, dict[tuple[str, int], dict[str, tuple[int, Row]]]] = {}
    for i, row in enumerate(report_steps(rows, step, "rows read"), 1):
        here = f"{place}, row {i}"
        key = (_cell(row, "reviewer", here), int(_number(row, "round", here) or 0))
        candidate = _cell(row, "candidate", here)
        session = _cell(row, "session") or _cell(row, "session_id")
        ballot = rows_by_ballot.setdefault(session, {}).setdefault(key, {})
        if candidate in ballot:
            raise InputError(
                f"{key[0]!r} judges {candidate!r} here and in row {ballot[candidate][0]}.",
                place=here,
                hint='Keep one row, or distinguish sessions with a column "session".',
            )
        ballot[candidate] = (i, row)
    return tuple(
        _session(
            session, [_ballot_of_rows(*key, rows, place) for key, rows in ballots.items()], place
        )
        for session, ballots in rows_by_ballot.items()
    )


def _ballot_of_rows(
    reviewer: str, round_: int, row_by_candidate: Mapping[str, tuple[int, Row]], place: str
) -> Judged:
    """Return one ballot, ranked by rank if any row has one, else by score."""
    _check_size(len(row_by_candidate), MAX_LABELS, "candidates on a ballot", place)

    def numbers(name: str) -> dict[str, float]:
        read = {
            candidate: _number(row, name, f"{place}, row {i}")
            for candidate, (i, row) in row_by_candidate.items()
        }
        return {candidate: value for candidate, value in read.items() if value is not None}

    rank, score, position = numbers("rank"), numbers("score"), numbers("position")
    if low := [name for name, value in rank.items() if value < 1]:
        where = f"{place}, row {row_by_candidate[low[0]][0]}"
        raise InputError("a rank is below 1.", place=where, hint="Ranks start at 1 for the best.")
    known = len(position) == len(row_by_candidate) == len(set(position.values()))
    authors = sorted(row_by_candidate, key=lambda name: (position[name] if known else 0, name))
    slots = tuple(Slot(label(i), name) for i, name in enumerate(authors))
    label_by_author = {slot.author: slot.label for slot in slots}
    worth = rank or {name: -value for name, value in score.items()}
    tiers = tuple(
        tuple(label_by_author[name] for name in authors if worth.get(name) == value)
        for value in sorted(set(worth.values()))
    )
    review = Review(
        reviewer,
        ranking=tiers,
        scores={label_by_author[name]: value for name, value in score.items()},
        abstained="" if worth else "no_rank_or_score",
        round=round_,
    )
    return Ballot(reviewer, slots, round_, known), review


def _session_of_comparisons(rows: Sequence[Row], place: str, step: Step) -> tuple[Session, ...]:
    """Return one session with a ballot for each row of comparisons."""
    _check_columns(rows, (*SIDES, "winner"), place)
    every = enumerate(report_steps(rows, step, "rows read"), 1)
    judged = [_comparison(i, row, f"{place}, row {i}") for i, row in every]
    return (_session("", judged, place),)


def _comparison(i: int, row: Row, place: str) -> Judged:
    a, b = (_cell(row, side, place) for side in SIDES)
    if a == b:
        raise InputError(f"{a!r} is compared with itself.", place=place)
    reviewer = _cell(row, "reviewer") or _cell(row, "judge") or f"row {i}"
    winner = _cell(row, "winner")
    first, second = (("A",), ("B",)), (("B",), ("A",))
    tiers_by_winner: dict[str, tuple[tuple[str, ...], ...]] = {a: first, b: second}
    tiers_by_winner |= {SIDES[0]: first, SIDES[1]: second, **dict.fromkeys(TIES, (("A", "B"),))}
    if winner not in tiers_by_winner:
        known = f"{', '.join((*SIDES, *TIES))}, or a model's name"
        raise InputError(f"the winner is {winner!r}.", place=place, hint=f"Known: {known}.")
    ballot = Ballot(reviewer, (Slot("A", a), Slot("B", b)), sheet=i)
    return ballot, Review(reviewer, ranking=tiers_by_winner[winner], sheet=i)


def _session(name: str, judged: Sequence[Judged], place: str) -> Session:
    candidates = sorted({author for ballot, _ in judged for author in ballot.authors})
    _check_size(len(judged), MAX_BALLOTS, "ballots in one session", place)
    _check_size(len(candidates), MAX_LABELS, "candidates in one session", place)
    return Session(
        id=name,
        query=Query(""),
        candidates=tuple(candidates),
        ballots=tuple(ballot for ballot, _ in judged),
        reviews=tuple(review for _, review in judged),
        finished=True,
    )


# -- single values ------------------------------------------------------------------------------


def _check_size(n: int, most: int, what: str, place: str) -> None:
    if n > most:
        raise InputError(
            f"{n:,} {what}: at most {most:,} are allowed.",
            place=place,
            hint="For larger tables, use `peerage board models --reviews FILE`.",
        )


def _check_labels(n: int, place: str) -> None:
    if n > MAX_LABELS:
        raise InputError(
            f"{n:,} candidates: at most {MAX_LABELS} are allowed (labels A to ZZ).",
            place=place,
            hint="Split them over several sessions.",
        )


def _check_columns(rows: Sequence[Row], needed: Sequence[str], place: str) -> None:
    missing = [name for name in needed if not any(name in row for row in rows)]
    if missing:
        listed = ", ".join(missing)
        raise InputError(f"there is no column {listed}.", place=place, hint=_columns(rows))


def _check_index(name: str, value: Any, place: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InputError(f"{name} is {value!r}, not 0, 1, 2 …", place=place)


def _columns(rows: Sequence[Row]) -> str:
    names = list(dict.fromkeys(str(name) for row in rows[:N_SHOWN] for name in row))
    return f"It has: {', '.join(names[: 2 * N_SHOWN])}."


def _is_given(value: Any) -> bool:
    blank = value is None or (isinstance(value, str) and not value.strip())
    return not blank and not (isinstance(value, float) and math.isnan(value))


def _cell(row: Row, name: str, place: str = "") -> str:
    """Return a cell without surrounding spaces; if `place` is given, an empty cell is an error."""
    text = str(row[name]).strip() if _is_given(row.get(name)) else ""
    if place and not text:
        raise InputError(f"`{name}` is empty.", place=place)
    return text


def _number(row: Row, name: str, place: str) -> float | None:
    value = row.get(name)
    if not _is_given(value):
        return None
    try:
        number = float(str(value)) if not isinstance(value, bool) else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"`{name}` is {shown(value)}, not a number.", place=place)
    if abs(number) > MAX_NUMBER:
        raise InputError(f"`{name}` is {shown(value)}, out of range.", place=place)
    return number


def _list(document: Row, keys: Sequence[str], place: str, *, required: bool = True) -> list[Any]:
    for key in keys:
        if key in document:
            value = document[key]
            if not isinstance(value, list):
                raise InputError(f'"{key}" is {_kind(value)}, not a list.', place=place)
            return value
    if required:
        raise InputError(f'this session has no "{keys[0]}".', place=place, hint=SHAPE)
    return []


def _model(item: Any, place: str, keys: Sequence[str] = ("model",)) -> str:
    if not isinstance(item, Mapping):
        raise InputError(f'this is {_kind(item)}, not an object with a "model".', place=place)
    name = first_value(item, keys)
    if not isinstance(name, str) or not name.strip():
        raise InputError(f'"model" is {_kind(name)}, not a name.', place=place)
    return name.strip()


def _query_key(document: Row) -> str:
    """Return the key under which a document has its question."""
    return next((name for name in QUERY_COLUMNS if name in document), QUERY_COLUMNS[0])


def _text(document: Row, key: str, place: str) -> str:
    value = document.get(key)
    if value is not None and not isinstance(value, str):
        raise InputError(f'"{key}" is {_kind(value)}, not text.', place=place)
    return value or ""


def _kind(value: Any) -> str:
    names = {type(None): "null", bool: "true or false", int: "a number", float: "a number"}
    names |= {str: "text" if value else "empty text", list: "a list", dict: "an object"}
    return names.get(type(value), type(value).__name__)
