"""Logs of Inspect: `.eval` archives and `.json` documents, with the scores of one model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from peerage.errors import InputError
from peerage.imports.foreign_records import (
    MAX_MEMBER_BYTES,
    Beginning,
    Record,
    as_score,
    at_path,
    count_words,
    document,
    look_at,
    object_at,
    open_archive,
    parse,
    read_member,
    records,
)
from peerage.imports.formats import Format, FormatFit, Row, formats, needs
from peerage.messages import read_answer
from peerage.types import written_text

FIELDS = {
    "eval.task, eval.model": "the category and the candidate",
    "samples[].id, epoch": "the query and the round",
    "samples[].output.completion": "the words and the text of the answer",
    "samples[].messages": "where tools were used, the texts of the assistant are the answer",
    "samples[].scores": "a reviewer for each scorer; C, P, I and N are 1, .5, 0 and 0",
    "scores[].value": "a number or a letter; of an object each number is a mark, of a list each "
    "one a judge's; NaN is unscored",
    "scores[].history": "the first entry is the scorer's; a later one with an author is a "
    "person's, and counts as gold",
    "samples[].completed_at": "the time",
}
LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
SAMPLE = re.compile(r"samples/[^/\\]+\.json")
HEADER, START = "header.json", "_journal/start.json"
MARK_NAME = re.compile(r"\W+")


def sniff(beginning: Beginning) -> FormatFit:
    """Return how well a file fits: an archive with samples, or a document with its eval."""
    if beginning.container == "zip":
        has_header = bool({HEADER, START} & set(beginning.members))
        return FormatFit(3) if has_header else FormatFit(0, (HEADER, "samples"))
    fit = needs(beginning.record, "version", "eval.task", "eval.model", "plan")
    return fit if beginning.container == "json" else FormatFit(0, ("a log of Inspect",))


def read(path: Path) -> Iterator[Row]:
    """Yield the scores of every sample; a sample without scores is left out."""
    if look_at(path).container == "zip":
        yield from _archive(path)
        return
    log = look_at(path).record
    for sample in _samples(path):
        yield from _sample(object_at(log, "eval"), sample)


def _samples(path: Path) -> Iterator[Record]:
    """Yield the samples of a document; a large one is streamed, and then must not hold NaN."""
    if path.stat().st_size > MAX_MEMBER_BYTES:
        yield from (sample for _, sample in records(path, "samples"))
        return
    samples = object_at({"log": document(path)}, "log").get("samples")
    yield from (one for one in samples or () if isinstance(one, dict))


def _archive(path: Path) -> Iterator[Row]:
    """Yield the rows of an archive's samples; other names in it, such as paths, are not opened."""
    with open_archive(path) as archive:
        names = set(archive.namelist())
        header = next((name for name in (HEADER, START) if name in names), None)
        if header is None:
            raise InputError(f"this archive has no {HEADER}.", place=str(path))
        log = parse(read_member(path, archive, header), f"{path}, {header}")
        about = log.get("eval") if isinstance(log, dict) else None
        for name in sorted(filter(SAMPLE.fullmatch, names)):
            sample = parse(read_member(path, archive, name), f"{path}, {name}")
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
    if isinstance(sample.get("score"), dict) and not scores:  # logs of early versions
        scores = {"score": sample["score"]}
    for scorer, score in (scores if isinstance(scores, dict) else {}).items():
        if isinstance(score, dict):
            yield from _rows_of_score(common, scorer, score)


def _texts_of(sample: Record) -> Any:
    """Return what the model wrote: its completion, and where it used tools all of its texts."""
    completion, messages = at_path(sample, "output.completion"), sample.get("messages")
    roles = [one.get("role") for one in messages or () if isinstance(one, dict)]
    if "tool" not in roles or not isinstance(messages, list):
        return completion
    try:
        answer = read_answer(messages, "messages")
    except InputError:  # an unusual message must not lose the scores
        return completion
    return answer if isinstance(answer, str) else written_text(answer) or completion


def _rows_of_score(common: Row, scorer: str, score: Record) -> Iterator[Row]:
    """Yield the scorer's own row, and that of the last person who changed it."""
    history = [one for one in score.get("history") or [] if isinstance(one, dict)]
    edits = [one for one in history if isinstance(one.get("provenance"), dict)]
    own = history[0] if history and history[0] not in edits else score
    gold = _value(edits[-1].get("value")) if edits else None
    for name, values in _judges(scorer, own.get("value")):
        yield {**common, "reviewer": name, **values, "correct": gold}
    if edits:
        author = str(edits[-1]["provenance"].get("author") or "person")
        yield {**common, "reviewer": author, "score": gold, "person": 1, "correct": gold}


def _judges(scorer: str, value: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each reviewer of a score with its values; a list has one value per judge."""
    if isinstance(value, list):
        for number, one in enumerate(value, 1):
            yield f"{scorer} {number}", {"score": _value(one)}
    elif isinstance(value, Mapping):
        marks = {_mark(name): _value(one) for name, one in value.items()}
        numbers = [one for one in marks.values() if one is not None]
        yield scorer, {**marks, "score": sum(numbers) / len(numbers) if numbers else None}
    else:
        yield scorer, {"score": _value(value)}


def _mark(name: object) -> str:
    return f"mark_{MARK_NAME.sub('_', str(name))[:40]}"


def _value(value: Any) -> float | None:
    """Return a score as a number; None where a sample is unscored."""
    if isinstance(value, str):
        letter = LETTERS.get(value.strip())
        try:
            return letter if letter is not None else as_score(float(value))
        except ValueError:
            return None
    return as_score(value)


formats.register("inspect")(Format("inspect", "logs of Inspect", "reviews", sniff, read, FIELDS))
