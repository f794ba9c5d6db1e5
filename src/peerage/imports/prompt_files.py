"""Files of prompts: JSONL, CSV or Parquet, one session per row, checked before the run."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from peerage.embedded import database, pattern, real_path
from peerage.errors import InputError, how_many, shown
from peerage.messages import answer_document, read_answer, read_images
from peerage.season import SeasonPrompt
from peerage.shapes import to_json
from peerage.text import entered_text, valid_text
from peerage.types import MAX_QUERY_CHARACTERS, QUERY_COLUMNS, Answer, Image, Query

MAX_NAME_CHARACTERS = 1_000  # the longest id or category
MOST_PROBLEMS_SHOWN = 10
FIELD_LIMIT = 64 * 1024 * 1024
SEPARATORS = ",;\t|"  # between the cells of a CSV file
N_COLUMNS_SHOWN = 20
ROW_COLUMNS = ("id", "category", "answers", "expected", "correct", "images")


@dataclass(frozen=True, slots=True)
class Prompts:
    """A checked file of prompts that can be read several times in bounded memory."""

    path: Path
    n: int

    def __iter__(self) -> Iterator[SeasonPrompt]:
        return (_row(n, record) for n, record in enumerate(_records(self.path), 1))


@dataclass(frozen=True, slots=True)
class PromptsPreview:
    """The prompts of a file, and the lines that cannot be used."""

    n_rows: int
    columns: tuple[str, ...]
    query_column: str | None
    rows: tuple[SeasonPrompt, ...]  # the rows that can be used
    problems: tuple[tuple[int, str], ...]  # line and reason of the first problems
    n_problems: int

    @property
    def ignored_columns(self) -> tuple[str, ...]:
        """Return the columns that are ignored."""
        known = {self.query_column, *ROW_COLUMNS}
        return tuple(name for name in self.columns if name not in known)

    def document(self, n_shown: int = 10) -> dict[str, Any]:
        """Return the preview as JSON, with the first rows."""
        return {
            "rows": self.n_rows,
            "usable": len(self.rows),
            "columns": list(self.columns),
            "query_column": self.query_column,
            "ignored": list(self.ignored_columns),
            "first": [row_document(row) for row in self.rows[:n_shown]],
            "errors": [{"line": line, "message": message} for line, message in self.problems],
            "n_errors": self.n_problems,
        }


def row_document(row: SeasonPrompt) -> dict[str, Any]:
    """Return a prompt as JSON that `read_row` reads back."""
    answers = None
    if row.answers is not None:
        answers = {name: answer_document(answer) for name, answer in row.answers.items()}
    gold: dict[str, Any] = {"expected": list(row.expected)} if row.expected else {}
    gold |= {} if row.correct is None else {"correct": list(row.correct)}
    gold |= {"images": list(map(to_json, row.images))} if row.images else {}
    return {
        **gold,
        "id": row.id,
        "query": row.query,
        "category": row.category,
        "answers": answers,
        "query_id": row.query_id,
    }


def read_row(document: Mapping[str, Any]) -> SeasonPrompt:
    """Return the prompt that `row_document` wrote."""
    gold = {name: tuple(document[name]) for name in ("expected", "correct") if name in document}
    answers, images = read_answers(document["answers"]), _images(document.get("images"))
    return SeasonPrompt(**{**document, **gold, "answers": answers, "images": images})


def preview_prompts(path: Path, max_rows: int) -> PromptsPreview:
    """Read a whole prompts file and note every line that cannot be used."""
    columns: dict[str, None] = {}
    rows: list[SeasonPrompt] = []
    problems: list[tuple[int, str]] = []
    n = n_problems = 0
    line_by_id: dict[str, int] = {}
    for n, (line, record) in enumerate(_numbered_records(path), 1):
        if n > max_rows:
            raise InputError(f"the file has more than {max_rows:,} rows.", place=str(path))
        if isinstance(record, Mapping):
            columns |= dict.fromkeys(str(name) for name in record if name is not None)
        try:
            if isinstance(record, InputError):
                raise record
            row = _row(n, record)
            if line_by_id.setdefault(row.id, line) != line:
                raise InputError(f"the id {shown(row.id)} is also on line {line_by_id[row.id]}.")
            rows.append(row)
        except InputError as error:
            n_problems += 1
            if n_problems <= MOST_PROBLEMS_SHOWN:
                problems.append((line, error.message))
    names = tuple(columns)
    return PromptsPreview(n, names, _query_column(names), tuple(rows), tuple(problems), n_problems)


def open_prompts(path: Path) -> Prompts:
    """Return the prompts in a file, or raise one error that lists the first wrong rows."""
    problems: list[str] = []
    number_by_id: dict[bytes, int] = {}  # keys are digests, which are shorter than long ids
    n = n_bad = 0
    for n, record in enumerate(_records(path), 1):
        try:
            row = _row(n, record)
            key = hashlib.blake2b(row.id.encode("utf-8", "surrogatepass"), digest_size=12).digest()
            if number_by_id.setdefault(key, n) != n:
                raise InputError(f"id {row.id!r} is also the id of row {number_by_id[key]}.")
        except InputError as error:
            n_bad += 1
            if n_bad <= MOST_PROBLEMS_SHOWN:
                problems.append(f"row {n}: {error.message}")
    if problems:
        more = f" (and {n_bad - len(problems)} more)" if n_bad > len(problems) else ""
        raise InputError(
            f"{n_bad} of {how_many(n, 'row')} cannot be used: " + " ".join(problems) + more,
            place=str(path),
            hint="Nothing was run.",
        )
    if not n:
        raise InputError("there are no prompts in this file.", place=str(path))
    return Prompts(path, n)


def criteria_of(path: Path) -> Iterator[tuple[SeasonPrompt, Any]]:
    """Yield the prompts of a checked file, each with the value of its column criteria.

    In a table a list of criteria is written as JSON, and a single one as it is.
    """
    for row, record in zip(open_prompts(path), _records(path), strict=True):
        criteria = record.get("criteria") or None
        if isinstance(criteria, str) and criteria.lstrip().startswith("["):
            try:
                criteria = json.loads(criteria)
            except ValueError:
                raise InputError(
                    f"the criteria of {shown(row.id)} are not a JSON list.", place=str(path)
                ) from None
        yield row, criteria


def _query_column(names: Collection[str]) -> str | None:
    """Return the column or key of the question."""
    return next((name for name in QUERY_COLUMNS if name in names), None)


def _row(number: int, record: Any) -> SeasonPrompt:
    if not isinstance(record, Mapping):
        raise InputError('this is not an object with a "query".')
    if None in record:  # the key of Python's CSV reader for cells beyond the last column
        raise InputError(
            "this row has more cells than columns; put text with separators in quotes."
        )
    column = _query_column(record)
    if column is None:
        keys = ", ".join(shown(str(key)) for key in list(record)[:N_COLUMNS_SHOWN])
        raise InputError(f'"query" is missing; the row has: {keys or "nothing"}.')
    query = record[column]
    answers, images = read_answers(record.get("answers")), _images(record.get("images"))
    if not isinstance(query, str) or not query.strip():
        raise InputError(f'"{column}" must be text that is not empty.')
    if len(query) > MAX_QUERY_CHARACTERS:
        raise InputError(
            f"the query has {len(query):,} characters; at most {MAX_QUERY_CHARACTERS:,} are "
            "allowed."
        )
    id_ = record.get("id")
    category = record.get("category")
    if category is not None and not isinstance(category, str):
        raise InputError('"category" must be text.')
    has_id = id_ is not None and str(id_).strip() != ""
    name = valid_text(str(id_).strip()) if has_id else f"row-{number}"
    if max(len(name), len(category or "")) > MAX_NAME_CHARACTERS:
        raise InputError(f'"id" or "category" has more than {MAX_NAME_CHARACTERS:,} characters.')
    text = entered_text(query)
    expected, correct = _gold(record, answers)
    return SeasonPrompt(
        id=name,
        query=text,
        category=valid_text(category or ""),
        answers=answers,
        query_id=name if has_id else Query(text, images=images).own_id,
        expected=expected,
        correct=correct,
        images=images,
    )


def _gold(
    record: Mapping[str, Any], answers: Collection[str] | None
) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """Return the expected answers, and the models whose given answers are correct.

    `correct` lists models that have an answer in the row; any other text is an expected answer.
    """
    expected, correct = (_texts(record.get(name), name) for name in ("expected", "correct"))
    if correct is None:
        return expected or (), None
    named = [one for one in correct if one in (answers or ())]
    if answers and len(named) == len(correct):
        return expected or (), tuple(named)
    if named:
        other = next(one for one in correct if one not in named)
        raise InputError(f'"correct" names {shown(other)}, which has no answer in this row.')
    if expected:
        raise InputError('give either "expected" or "correct", not both.')
    return correct, None


def _texts(value: Any, name: str) -> tuple[str, ...] | None:
    """Return texts from a text, a number, a list of texts and numbers, or such a list as JSON."""
    if value is None or value == "":
        return None
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            value = [value]
    some = value if isinstance(value, list | tuple) else [value]
    if not all(isinstance(one, str | int | float) for one in some):
        raise InputError(f'"{name}" must be a text or a list of texts.')
    texts = tuple(entered_text(str(one)).strip() for one in some)
    if not all(texts):
        raise InputError(f'"{name}" contains an empty string.')
    if max(map(len, texts), default=0) > MAX_QUERY_CHARACTERS:
        raise InputError(f'"{name}" has more than {MAX_QUERY_CHARACTERS:,} characters.')
    return texts


def read_answers(answers: Any) -> dict[str, Answer] | None:
    """Return answers by model, from an object, a list of {"model", "response"}, or JSON text.

    Each answer is a text or a list of messages.
    """
    if answers is None or answers == "":
        return None
    if isinstance(answers, str):
        try:
            answers = json.loads(answers)
        except (ValueError, RecursionError):
            raise InputError('"answers" is a text but not JSON.') from None
    if isinstance(answers, list):
        pairs = [(a.get("model"), a.get("response")) for a in answers if isinstance(a, Mapping)]
        names = {name for name, _ in pairs if isinstance(name, str)}
        if len(pairs) < len(answers) or len(names) < len(pairs):
            raise InputError('each entry of "answers" needs its own "model" and a "response".')
        answers = dict(pairs)
    if not isinstance(answers, Mapping) or not answers:
        raise InputError('"answers" must map models to texts.')
    by_model: dict[str, Answer] = {}
    for name, answer in answers.items():
        is_empty = not answer or (isinstance(answer, str) and not answer.strip())
        if not isinstance(name, str) or not name.strip() or is_empty:
            raise InputError(f'"answers" has no text for {shown(name)}.')
        try:
            by_model[valid_text(name.strip())] = read_answer(answer, f"answer of {shown(name)}")
        except InputError as error:  # the place is put into the message
            raise InputError(f"{error.place}: {error.message}", hint=error.hint) from None
    if len(by_model) < len(answers):
        raise InputError('"answers" names a model twice.')
    return by_model


def _images(value: Any) -> tuple[Image, ...]:
    """Return the images of a question, from a URL, a list of URLs, or such a list as JSON."""
    if value is None or value == "":
        return ()
    if isinstance(value, str) and value.lstrip().startswith(("[", "{")):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise InputError('"images" is a text but not JSON.') from None
    some = value if isinstance(value, list | tuple) else [value]
    try:
        return read_images(some)
    except InputError as error:
        place = f"{error.place}: " if error.place else ""
        raise InputError(f"{place}{error.message}", hint=error.hint) from None


# -- formats ------------------------------------------------------------------------------------


def _records(path: Path) -> Iterator[Any]:
    """Yield the records of a file; raise an error with its place for a line that cannot be read."""
    for line, record in _numbered_records(path):
        if isinstance(record, InputError):
            raise InputError(record.message, place=f"{path}, line {line}")
        yield record


def _numbered_records(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield each record with its line (in Parquet, its row), or an error for a bad line."""
    reader = FORMATS.get(path.suffix.lower())
    if reader is None:
        raise InputError(
            f"a prompts file must be {', '.join(FORMATS)}, not "
            f"{path.suffix or 'without a suffix'}.",
            place=str(path),
        )
    if not path.is_file():
        raise InputError("the file does not exist.", place=str(path))
    return reader(path)


def _jsonl(path: Path) -> Iterator[tuple[int, Any]]:
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                record = json.loads(line.decode("utf-8-sig"))
            except UnicodeDecodeError:
                record = InputError("not UTF-8 text.")
            except (ValueError, RecursionError):
                record = InputError("this line is not JSON.")
            yield number, record


def _csv(path: Path) -> Iterator[tuple[int, Any]]:
    csv.field_size_limit(FIELD_LIMIT)
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            names, separator = _header(lines.readline())
            _check_columns(names, path)
            reader = csv.DictReader(lines, names, delimiter=separator, strict=True)
            line = 2  # the first is the header
            for record in reader:
                yield line, record
                line = reader.line_num + 2
    except UnicodeDecodeError:
        raise InputError("not UTF-8 text.", place=str(path)) from None
    except csv.Error as error:
        raise InputError(f"not CSV: {error}.", place=str(path)) from None


def _header(line: str) -> tuple[list[str], str]:
    """Return the columns of a CSV file, and the separator that gives a column for the query."""
    rows = [(next(csv.reader([line], delimiter=mark), []), mark) for mark in SEPARATORS]
    headers = [([cell.strip() for cell in row], mark) for row, mark in rows]
    return max(headers, key=lambda header: (_query_column(header[0]) is not None, len(header[0])))


def _check_columns(names: Sequence[str], path: Path) -> None:
    if _query_column(names) is None:
        raise InputError(
            'there is no "query" column.',
            place=str(path),
            hint=f"It has: {', '.join(map(shown, names[:N_COLUMNS_SHOWN])) or 'none'}.",
        )


def _parquet(path: Path) -> Iterator[tuple[int, Any]]:
    import duckdb

    from peerage.engines.unfolding import refuse_unfolding

    file = real_path(path)
    try:
        refuse_unfolding(path)
        rows = database([file]).execute("SELECT * FROM read_parquet(?)", [pattern(file)])
        names = [column[0] for column in rows.description or []]
        _check_columns(names, path)
        batches = iter(lambda: rows.fetchmany(1000), [])
        for number, values in enumerate(chain.from_iterable(batches), 1):
            yield number, dict(zip(names, values, strict=True))
    except duckdb.Error as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"not Parquet: {reason}", place=str(path)) from None


FORMATS: dict[str, Callable[[Path], Iterator[tuple[int, Any]]]] = {
    ".jsonl": _jsonl,
    ".ndjson": _jsonl,
    ".csv": _csv,
    ".parquet": _parquet,
}
