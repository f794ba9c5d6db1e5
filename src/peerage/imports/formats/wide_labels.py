"""A wide table with labels: one row for each answer, with columns of judges and of people.

Pass and fail may be written in many ways, and marks and picks (A, B, tie) are read too. The columns
are recognised by their names and cells, or named by the user.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from peerage.errors import InputError, UsageError, few, how_many, meant, shown
from peerage.imports.foreign_records import (
    Beginning,
    Record,
    as_score,
    count_words,
    first_of,
    look_at,
    model_text,
    rows_or_records,
)
from peerage.imports.formats import Format, FormatFit, Row, formats, never, pair_rows
from peerage.imports.label_files import (
    AnswerToLabel,
    labels_file,
    latest_labels,
)

Kind = Literal["verdicts", "marks", "picks"]

NAME = "labels"
N_LOOKED_AT = 500  # rows that are read to recognise columns
N_KNOWN = 20  # cells of a sparse column that are read after these rows
MOST_OTHER = 0.5  # a column in which more cells than this are no judgement is no column of labels
N_SHOWN = 3
PASS = frozenset(
    (
        *("pass", "passed", "yes", "y", "true", "t", "good", "correct", "ok", "okay", "win", "up"),
        *("accept", "accepted", "approve", "approved", "positive", "thumbs_up"),
        *("👍", "✓", "✔", "✅", "ja", "oui", "si", "sí", "sim", "да", "はい", "是"),
        *("richtig", "bestanden", "vrai", "verdadero"),
    )
)
FAIL = frozenset(
    (
        *("fail", "failed", "no", "n", "false", "f", "bad", "incorrect", "wrong", "lose", "down"),
        *("reject", "rejected", "negative", "thumbs_down"),
        *("👎", "✗", "✘", "❌", "nein", "non", "não", "nao", "нет", "いいえ", "否"),
        *("falsch", "durchgefallen", "faux", "falso"),
    )
)
FIRST = frozenset(("a", "model_a", "first", "left", "response_a", "answer_a", "[[a]]"))
SECOND = frozenset(("b", "model_b", "second", "right", "response_b", "answer_b", "[[b]]"))
TIE = frozenset(("tie", "tied", "draw", "equal", "both", "neither", "[[c]]"))
BLANK = frozenset(("", "nan", "null", "none", "n/a", "na", "-", "–", "—"))

IDS = ("id", "item_id", "case_id", "example_id", "question_id", "query_id", "trace_id", "uid")
INPUTS = ("input", "question", "prompt", "query", "instruction", "user_input")
OUTPUTS = ("output", "answer", "response", "completion", "generation", "model_output")
MODELS = ("model", "candidate", "version", "system", "model_name", "model_version", "app")
REASONS = ("reason", "explanation", "rationale", "critique", "reasoning", "comment")
ABOUT = (*IDS, *INPUTS, *OUTPUTS, *MODELS, *REASONS, "confidence")
ENDS_OF_ABOUT = tuple(f"_{word}" for word in (*REASONS, "confidence", "id"))
PEOPLE_WORDS = frozenset(
    (
        *("human", "humans", "people", "person", "expert", "experts", "annotator", "annotators"),
        *("annotation", "gold", "golden", "truth", "manual", "sme", "rater", "raters", "labeler"),
        "labeller",
    )
)
MAYBE_PEOPLE = frozenset(("label", "labels", "user"))  # if no word says that a judge gave them
JUDGE_WORDS = frozenset(
    (
        *("judge", "judges", "judgement", "judgment", "llm", "auto", "autorater", "autograder"),
        *("automatic", "grader", "grade", "ai", "bot", "evaluator", "eval", "critic", "model"),
        *("prediction", "predicted", "verdict", "gpt", "claude", "gemini", "llama", "mistral"),
        *("mixtral", "qwen", "deepseek", "grok"),
    )
)
BAD_WORDS = frozenset(  # in the name of a column whose yes says that something is wrong
    (
        *("toxic", "toxicity", "hallucination", "hallucinations", "hallucinated", "hallucinates"),
        *("error", "errors", "harmful", "harm", "unsafe", "violation", "violates", "defect"),
        *("bug", "issue", "problem", "offensive", "biased", "leak", "leaks", "spam"),
    )
)
CLEAR = frozenset(("pass", "passed", "fail", "failed", "good", "bad", "ok", "okay"))
WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
CELL = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class LabelColumns:
    """The columns of a table with labels."""

    judges: tuple[str, ...]
    people: tuple[str, ...]
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    inverted: frozenset[str] = frozenset()  # columns in which yes means that the answer is bad

    def read(self, name: str, cell: object) -> float | str | None:
        """Return the judgement in a cell of a column; None for a cell without one."""
        if is_blank(cell):
            return None
        value = judgement(cell, self.kinds[name])
        if name in self.inverted and isinstance(value, float) and _word(cell) not in CLEAR:
            return 1.0 - value
        return value


def judgement(cell: object, kind: Kind) -> float | str | None:
    """Return a cell as 1 or 0, as a mark, or as a pick; None for other text."""
    if isinstance(cell, bool) or (isinstance(cell, int | float) and kind != "picks"):
        number = as_score(cell)
        return number if kind == "marks" or number in (0.0, 1.0) else None
    word = _word(cell)
    if kind == "picks":
        picks = {"first": FIRST, "second": SECOND, "tie": TIE}
        return next((name for name, words in picks.items() if word in words), None)
    if kind == "verdicts" and word in PASS | FAIL:
        return float(word in PASS)
    try:
        number = as_score(float(word))
    except ValueError:
        return None
    return number if kind == "marks" or number in (0.0, 1.0) else None


def _word(cell: object) -> str:
    return CELL.sub("_", str(cell).strip().strip(".!").lower())


def is_blank(cell: object) -> bool:
    """Return whether a cell has no judgement."""
    return cell is None or cell != cell or str(cell).strip().lower() in BLANK


def kind_of(cells: Sequence[object]) -> Kind | None:
    """Return how the cells of a column judge; None if most of them do not."""
    known = [cell for cell in cells if not is_blank(cell)]
    if not known:
        return None
    kinds: tuple[Kind, ...] = ("verdicts", "picks", "marks")
    shares = {
        kind: sum(judgement(cell, kind) is not None for cell in known) / len(known)
        for kind in kinds
    }
    if shares["marks"] > shares["verdicts"]:
        return "marks" if shares["marks"] > MOST_OTHER else None
    if len({judgement(cell, "picks") for cell in known} - {None}) < 2:
        shares["picks"] = 0.0  # names such as `a` look like picks of one answer alone
    best = max(kinds, key=shares.__getitem__)
    return best if shares[best] > MOST_OTHER else None


# -- recognising ---------------------------------------------------------------------------------


def _sniff(beginning: Beginning) -> FormatFit:
    if beginning.container not in ("csv", "parquet", "json", "jsonl"):
        return never("columns")
    sides = {*map(_side, beginning.columns)}
    if labels_file(beginning.path).is_file():
        sides.add("people")
    if not sides >= {"judge", "people"}:
        return FormatFit(0, ("a judge's column", "a column of people's labels"))
    columns = find_columns(beginning.path)
    lacks = []
    if not columns.judges:
        lacks.append("a judge's column")
    if not columns.people and not labels_file(beginning.path).is_file():
        lacks.append("a column of people's labels")
    return FormatFit(len(columns.judges) + len(columns.people) + 1, tuple(lacks))


def find_columns(
    path: Path, judges: Sequence[str] = (), people: Sequence[str] = ()
) -> LabelColumns:
    """Return the columns of judges and of people: the named ones, else those that look like it."""
    cells = _cells_of(path, (*judges, *people))
    names = list(cells)
    for option, named in (("--judge", judges), ("--people", people)):
        for name in named:
            if name not in names:
                raise UsageError(
                    f"{option} {name}: the file has no column {shown(name)}.",
                    place=str(path),
                    hint=meant(name, names),
                )
    taken = {*judges, *people}
    free = [name for name in names if name not in taken and not _is_about(name)]
    kinds = {}
    for name in [*judges, *people, *free]:
        kind = kind_of(cells[name])
        if kind is not None:
            kinds[name] = kind
        elif name in taken:
            raise InputError(
                f"most cells of the column {shown(name)} are neither pass or fail, a mark, nor a "
                "pick (A, B, tie).",
                place=str(path),
                hint=f"It has: {few(_examples(cells[name]), N_SHOWN)}.",
            )
    sides = {name: _side(name) for name in free if name in kinds}
    judges = judges or [name for name, side in sides.items() if side == "judge"]
    people = people or [name for name, side in sides.items() if side == "people"]
    chosen = {name: kinds[name] for name in (*judges, *people)}
    inverted = {
        name for name, kind in chosen.items() if kind == "verdicts" and _words(name) & BAD_WORDS
    }
    return LabelColumns(tuple(judges), tuple(people), chosen, frozenset(inverted))


def has_answers(columns: Collection[str]) -> bool:
    """Return whether a table has a column of answers that people may label."""
    return any(str(name).lower() in OUTPUTS for name in columns)


def guess_labels(path: Path) -> str:
    """Return options that name the columns that may be labels; empty if fewer than two may."""
    kinds = {name: kind_of(some) for name, some in _cells_of(path).items()}
    may = [name for name in kinds if kinds[name] is not None and not _is_about(name)]
    people = next((name for name in may if _side(name) == "people"), None) or (may or [""])[0]
    rest = [name for name in may if name != people and kinds[name] == kinds[people]]
    if not rest:
        return ""
    judge = next((name for name in rest if _side(name) == "judge"), rest[-1])
    return f"--judge {_quote(judge)} --people {_quote(people)}"


def _quote(name: str) -> str:
    return name if re.fullmatch(r"[\w.-]+", name) else f"'{name}'"


def _cells_of(path: Path, named: Sequence[str] = ()) -> dict[str, list[object]]:
    """Return cells of each column: those of the first rows, and more of columns that are sparse.

    People often label a few rows of many, so columns that may be labels are read until some cells
    are known.
    """
    cells: dict[str, list[object]] = {}
    for number, (_, record) in enumerate(rows_or_records(path), 1):
        for name, cell in record.items():
            column = cells.setdefault(str(name), [])
            if number <= N_LOOKED_AT or (
                len(column) < N_LOOKED_AT + N_KNOWN and not is_blank(cell)
            ):
                column.append(cell)
        if number >= N_LOOKED_AT and not any(
            all(map(is_blank, column))
            for name, column in cells.items()
            if name in named or _side(name)
        ):
            break
    return cells


def _side(name: str) -> str:
    """Return whether a column's name speaks of a judge, of people, or of neither."""
    if _is_about(name):
        return ""
    words = _words(name)
    if words & PEOPLE_WORDS:
        return "people"
    if words & JUDGE_WORDS:
        return "judge"
    return "people" if words & MAYBE_PEOPLE else ""


def _words(name: str) -> set[str]:
    return {word.lower() for word in WORD.findall(name)}


def _is_about(name: str) -> bool:
    """Return whether a column describes the row or a judgement, and does not judge."""
    lower = name.lower()
    return lower in ABOUT or lower.endswith(ENDS_OF_ABOUT)


def _examples(cells: Sequence[object]) -> list[str]:
    return [repr(str(cell)[:30]) for cell in dict.fromkeys(map(str, cells)) if not is_blank(cell)]


# -- reading -------------------------------------------------------------------------------------


def labels_format(judges: Sequence[str] = (), people: Sequence[str] = ()) -> Format:
    """Return the format of a wide table of labels whose columns were named, or some of them."""
    return Format(
        NAME,
        "a table with columns of judges and of people",
        "reviews",
        _sniff,
        partial(read, judges=judges, people=people),
        warn=partial(warnings, judges=judges, people=people),
        has_repeats=True,
        grades_alone=True,
        fields={
            "id": "the answer; without it, the number of the row",
            "input": "the question; answers to one question are one group",
            "output": "the answer",
            "model": "the model or version that answered",
            "reason": "the judge's reason, in `reason` or `JUDGE_reason`",
        },
    )


def named_format(path: Path, judges: Sequence[str], people: Sequence[str]) -> Format | None:
    """Return the format for columns that were named; None if no name is a column."""
    is_wide = bool({*judges, *people} & {*look_at(path).columns})
    return labels_format(judges, people) if is_wide else None


def warnings(path: Path, judges: Sequence[str] = (), people: Sequence[str] = ()) -> list[str]:
    """Return sentences on the columns that were taken, and on cells that do not judge."""
    columns = find_columns(path, judges, people)
    others: dict[str, Counter[str]] = {}
    for _, record in rows_or_records(path):
        for name, kind in columns.kinds.items():
            cell = record.get(name)
            if not is_blank(cell) and judgement(cell, kind) is None:
                others.setdefault(name, Counter())[str(cell)[:30]] += 1
    sentences = []
    labels = [one for one in latest_labels(path).values() if one.label != "skip"]
    if labels:
        sentences.append(f"read {how_many(len(labels), 'label')} from {labels_file(path).name}.")
    if not (judges and people):
        from_people = f"; people's labels are {', '.join(columns.people)}" if columns.people else ""
        sentences.append(
            f"judges are the columns {', '.join(columns.judges)}{from_people}. If not: peerage "
            f"audit {path.name} --judge … --people …"
        )
    sentences += [
        f"{name}: yes, true and 1 are read as fail, because of its name."
        for name in columns.inverted
    ]
    for name, counts in others.items():
        listed = few([f"{shown(cell)} {n:,}" for cell, n in counts.most_common()], N_SHOWN)
        sentences.append(
            f"cells of {name} that are not judgements: {listed}. They count as no label."
        )
    return sentences


def read(path: Path, judges: Sequence[str] = (), people: Sequence[str] = ()) -> Iterator[Row]:
    """Yield the reviews of judges and people, read from their columns."""
    columns = find_columns(path, judges, people)
    seen, labels = _Answers(), _labels_by_answer(path)
    for number, (_, record) in enumerate(rows_or_records(path), 1):
        lower = {str(name).lower(): cell for name, cell in record.items()}
        session, query = seen.place(lower, number)
        common: dict[str, Any] = {"session_id": session, "query_id": query}
        answer = model_text(first_of(lower, OUTPUTS))
        common |= {"text": answer, "words": count_words(answer)}
        candidate = str(first_of(lower, MODELS) or "application")
        for person, score in labels.pop(session, {}).items():
            by_person = {"reviewer": person, "candidate": candidate, "person": 1, "score": score}
            yield common | by_person
        for side in (columns.judges, columns.people):
            for name in side:
                cell = record.get(name)
                value = columns.read(name, cell)
                review = {**common, "reviewer": name}
                if side is columns.people:
                    review |= {"person": 1}
                else:
                    review |= _about_judgement(lower, name, len(columns.judges) == 1)
                if columns.kinds[name] == "picks":
                    pick = value if isinstance(value, str) else None
                    first, second = _read_compared(lower)
                    yield from pair_rows(review, first, second, pick)
                elif value is not None:
                    yield {**review, "candidate": candidate, "score": value}


def _labels_by_answer(path: Path) -> dict[str, dict[str, float]]:
    """Return the labels in the file next to a table, by answer and person."""
    by_answer: dict[str, dict[str, float]] = {}
    for (id_, person), one in latest_labels(path).items():
        if one.label != "skip":
            by_answer.setdefault(id_, {})[person] = float(one.label == "pass")
    return by_answer


def labelled_in(path: Path) -> list[tuple[str, str]]:
    """Return the answers that people's columns of a table have labels for, each with its column."""
    try:
        columns = find_columns(path)
    except (InputError, UsageError):
        return []
    seen, labelled = _Answers(), []
    for number, (_, record) in enumerate(rows_or_records(path), 1):
        id_, _ = seen.place({str(name).lower(): cell for name, cell in record.items()}, number)
        labelled += [
            (id_, name)
            for name in columns.people
            if columns.read(name, record.get(name)) is not None
        ]
    return labelled


def answers_in(path: Path) -> list[AnswerToLabel]:
    """Return the answers of a table that people may label, each once."""
    seen, answers = _Answers(), {}
    for number, (_, record) in enumerate(rows_or_records(path), 1):
        lower = {str(name).lower(): cell for name, cell in record.items()}
        answer = model_text(first_of(lower, OUTPUTS))
        if answer is not None:
            id_, _ = seen.place(lower, number)
            answers[id_] = AnswerToLabel(id_, str(first_of(lower, INPUTS) or ""), answer)
    if not answers:
        raise InputError(
            "this table has no answers to label.",
            place=str(path),
            hint=f"It needs a column such as {', '.join(OUTPUTS[:3])}.",
        )
    return list(answers.values())


def _about_judgement(lower: Record, judge: str, is_only_one: bool) -> dict[str, Any]:
    """Return the judge's reason and confidence, if the row has them."""
    name = judge.lower()
    reason = first_of(lower, [f"{name}_{word}" for word in REASONS])
    sure = lower.get(f"{name}_confidence")
    if is_only_one:
        reason = reason if reason is not None else first_of(lower, REASONS)
        sure = sure if sure is not None else lower.get("confidence")
    details: dict[str, Any] = {}
    if reason is not None:
        details["reason"] = str(reason)
    number = None if is_blank(sure) else judgement(sure, "marks")
    if isinstance(number, float) and 0.0 <= number <= 1.0:
        details["confidence"] = number
    return details


def _read_compared(lower: Record) -> tuple[str, str]:
    """Return the names of the two models that a pick chooses between."""
    return str(lower.get("model_a") or "A"), str(lower.get("model_b") or "B")


class _Answers:
    """The ids of answers, so that one id with different answers is several sessions of a query."""

    def __init__(self) -> None:
        self._output_by_id: dict[tuple[str, str], list[str]] = {}
        self._query_by_input: dict[str, str] = {}

    def place(self, record: Record, number: int) -> tuple[str, str]:
        """Return the session and the query of a row."""
        given = first_of(record, IDS)
        id_ = str(given) if given is not None else f"row {number}"
        output = str(first_of(record, OUTPUTS) or "")
        outputs = self._output_by_id.setdefault((id_, str(first_of(record, MODELS) or "")), [])
        if output not in outputs:
            outputs.append(output)
        at = outputs.index(output)
        session = id_ if at == 0 else f"{id_} ({at + 1})"
        question = first_of(record, INPUTS)
        query = id_ if question is None else self._query_by_input.setdefault(str(question), id_)
        return session, query


formats.register(NAME)(labels_format())
