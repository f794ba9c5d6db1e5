"""Logs of Inspect: `.eval` archives and `.json` documents, with the scores of one model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from peerage.errors import InputError
from peerage.imports.foreign_records import (
    MAX_ARCHIVE_BYTES,
    MAX_MEMBER_BYTES,
    Beginning,
    Record,
    as_score,
    at_path,
    count_words,
    document,
    look_at,
    model_text,
    object_at,
    open_archive,
    parse,
    read_member,
    records,
)
from peerage.imports.formats import Format, FormatFit, Row, formats, needs, never

FIELDS = {
    "eval.task, eval.model": "the category and the candidate",
    "samples[].id, epoch": "the query and the round",
    "samples[].output.completion": "the words and the text of the answer",
    "samples[].messages": "if tools were used, the answer is all texts of the assistant",
    "samples[].scores": "a reviewer for each scorer; C, P, I and N are 1, .5, 0 and 0",
    "scores[].value": "a number or a letter; in an object each number is a mark, in a list each "
    "number is from one judge; NaN means not scored",
    "scores[].metadata.panel.votes": "votes of several judges, imported as one reviewer each; null "
    "is an abstention",
    "eval.scorers[].options.model": "the names of the judges, after the name of the scorer",
    "scores[].history": "the first entry is the scorer's; a later one with `provenance` is a "
    "person's, and its value is used as the correct one",
    "samples[].completed_at": "the time; the time of a person's score is in its `provenance`",
}
ADVICE = (
    "A log has one model: read the logs of several models together, as in `peerage board models "
    "logs/*.eval`. Name the judges in the scorer (`model=[…]`), and run two epochs for "
    "consistency."
)
LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
SAMPLE = re.compile(r"samples/[^/\\]+\.json")
HEADER, START = "header.json", "_journal/start.json"
UNCHANGED = "UNCHANGED"  # the value of an edit that does not change the value
MARK_NAME = re.compile(r"\W+")


def sniff(beginning: Beginning) -> FormatFit:
    """Return how well a file fits: an archive with samples, or a document with an `eval`."""
    if beginning.container == "zip":
        has_header = bool({HEADER, START} & set(beginning.members))
        return FormatFit(3) if has_header else FormatFit(0, (HEADER,))
    fit = needs(beginning.record, "version", "eval.task", "eval.model")
    return fit if beginning.container == "json" else never("one JSON document")


def read(path: Path) -> Iterator[Row]:
    """Yield the scores of every sample; a sample without scores is left out."""
    if look_at(path).container == "zip":
        yield from _archive(path)
        return
    log = look_at(path).record
    for sample in _samples(path):
        yield from _sample(object_at(log, "eval"), sample)


def _samples(path: Path) -> Iterator[Record]:
    """Yield the samples of a document; a large document is streamed and must not contain NaN."""
    if path.stat().st_size > MAX_MEMBER_BYTES:
        yield from (sample for _, sample in records(path, "samples"))
        return
    samples = object_at({"log": document(path)}, "log").get("samples")
    yield from (one for one in samples or () if isinstance(one, dict))


def _archive(path: Path) -> Iterator[Row]:
    """Yield the rows of an archive's samples; other files in it are not opened."""
    with open_archive(path) as archive:
        names = set(archive.namelist())
        header = next((name for name in (HEADER, START) if name in names), None)
        if header is None:
            raise InputError(f"this archive has no {HEADER}.", place=str(path))
        log = parse(read_member(path, archive, header), f"{path}, {header}")
        about = log.get("eval") if isinstance(log, dict) else None
        n_bytes = 0
        for name in sorted(filter(SAMPLE.fullmatch, names)):
            data = read_member(path, archive, name)
            n_bytes += len(data)
            if n_bytes > MAX_ARCHIVE_BYTES:
                most = f"{MAX_ARCHIVE_BYTES >> 30} GB"
                raise InputError(f"this archive unpacks to more than {most}.", place=str(path))
            sample = parse(data, f"{path}, {name}")
            if isinstance(sample, dict):
                yield from _sample(about or {}, sample)


def _sample(about: Record, sample: Record) -> Iterator[Row]:
    text = _texts_of(sample)
    task = str(about.get("task") or "task")
    common = {
        "session_id": f"{task}: {sample.get('id')}",
        "query_id": f"{task}: {sample.get('id')}",
        "candidate": str(about.get("model") or "model"),
        "category": task,
        "round": int(sample.get("epoch") or 1) - 1,
        "words": count_words(text),
        "text": text,
        "at": sample.get("completed_at") or about.get("created"),
    }
    scores = sample.get("scores")
    if isinstance(sample.get("score"), dict) and not scores:  # early versions have one score
        scores = {"score": sample["score"]}
    judges_by_scorer = _judges_by_scorer(about)
    for scorer, score in (scores if isinstance(scores, dict) else {}).items():
        if isinstance(score, dict):
            yield from _rows_of_score(common, scorer, score, judges_by_scorer.get(scorer, ()))


def _texts_of(sample: Record) -> Any:
    """Return the completion of the model, or all texts that it wrote if it used tools."""
    completion, messages = at_path(sample, "output.completion"), sample.get("messages")
    roles = [one.get("role") for one in messages or () if isinstance(one, dict)]
    if "tool" not in roles:
        return completion
    return model_text(messages) or completion


def _judges_by_scorer(about: Record) -> dict[str, tuple[str, ...]]:
    """Return the models that each scorer asks, from its options in the log."""
    judges: dict[str, tuple[str, ...]] = {}
    scorers = about.get("scorers")
    for scorer in scorers if isinstance(scorers, list) else []:
        given = at_path(scorer, "options.model")
        models = given if isinstance(given, list) else [given]
        names = [at_path(one, "model") or one for one in models]
        if all(isinstance(name, str) for name in names):
            judges[str(at_path(scorer, "name"))] = tuple(names)
    return judges


def _rows_of_score(common: Row, scorer: str, score: Record, judges: Sequence[str]) -> Iterator[Row]:
    """Yield the scorer's own rows, and a row for the last person who changed the value."""
    history = [one for one in score.get("history") or [] if isinstance(one, dict)]
    edits = [one for one in history if isinstance(one.get("provenance"), dict)]
    changes = [one for one in edits if one.get("value") != UNCHANGED]
    gold = _overall(changes[-1].get("value")) if changes else None
    is_by_a_person = bool(edits) and edits[0] is history[0]
    if not is_by_a_person:
        own = history[0] if history else score
        for name, values in _judges(scorer, own, judges):
            yield {**common, "reviewer": name, **values, "correct": gold}
    if changes:
        who = changes[-1]["provenance"]
        yield {
            **common,
            "reviewer": str(who.get("author") or "person"),
            "score": gold,
            "person": 1,
            "correct": gold,
            "at": who.get("timestamp") or common["at"],
        }


def _judges(
    scorer: str, score: Record, judges: Sequence[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each reviewer of a score with its values; a list has one value per judge."""
    votes = at_path(score, "metadata.panel.votes")
    value = votes if isinstance(votes, list) else score.get("value")
    if isinstance(value, list):
        names = judges if len(judges) == len(set(judges)) == len(value) else ()
        for number, one in enumerate(value, 1):
            name = f"{scorer} by {names[number - 1]}" if names else f"{scorer} {number}"
            yield name, _values(one)
    else:
        yield f"{scorer} by {judges[0]}" if len(judges) == 1 else scorer, _values(value)


def _values(value: Any) -> dict[str, Any]:
    """Return the score in a value; numbers in an object are marks, and their mean is the score."""
    marks = value.items() if isinstance(value, Mapping) else ()
    return {**{_mark(name): _value(one) for name, one in marks}, "score": _overall(value)}


def _overall(value: Any) -> float | None:
    """Return a value as one number: for an object or a list, the mean of its numbers."""
    if not isinstance(value, Mapping | list):
        return _value(value)
    parts = map(_value, value.values() if isinstance(value, Mapping) else value)
    numbers = [one for one in parts if one is not None]
    return sum(numbers) / len(numbers) if numbers else None


def _mark(name: object) -> str:
    return f"mark_{MARK_NAME.sub('_', str(name))[:40]}"


def _value(value: Any) -> float | None:
    """Return a score as a number; None if a sample is unscored."""
    if isinstance(value, str):
        letter = LETTERS.get(value.strip())
        try:
            return letter if letter is not None else as_score(float(value))
        except ValueError:
            return None
    return as_score(value)


formats.register("inspect")(
    Format(
        "inspect",
        "logs of Inspect",
        "reviews",
        sniff,
        read,
        FIELDS,
        grades_alone=True,
        advice=ADVICE,
    )
)
