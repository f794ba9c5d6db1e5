"""Formats of other tools: how each is recognised, and how its records become rows of a table.

There is one file per format, and each format registers itself. Other packages can add formats
through the entry-point group `peerage.imports.formats`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from peerage.errors import InputError, UsageError
from peerage.imports.foreign_records import Beginning, Record, has_path, look_at
from peerage.registry import Guard, Registry
from peerage.reviews.columns import REVIEWS
from peerage.text import text_key

Row = Mapping[str, Any]
Kind = Literal["reviews", "opinions", "items", "users", "sessions"]
Columns = Mapping[str, str]  # our columns, and the field that the user maps to each
N_NEAREST = 3
TABLES = ("csv", "parquet")  # containers whose columns are known before the file is read
EPOCH = re.compile(r"\d{9,13}(\.\d+)?")  # a time in seconds or milliseconds, as CSV files have it
SIMILAR = 0.8  # how much a field with a similar name counts, compared with the field itself
WINNER, LOSER, TIED = 1.0, 2.0, 1.0  # ranks in a comparison of two
USUAL_NAMES = {  # columns of a table of reviews, and the names that other tables use for them
    "session_id": ("session", "question_id", "question", "query_id", "query", "prompt", "item"),
    "reviewer": ("judge", "rater", "grader", "annotator", "evaluator", "user", "user_id"),
    "candidate": ("model", "model_name", "model_id", "system", "generator"),
    "score": ("rating", "grade", "points", "mark", "value"),
}


class UnknownFormatError(InputError):
    """Raised for a file that has none of the known formats.

    `columns` are the columns of the file, and `guess` is a guess of the columns for `--map`. With
    `is_sure`, it names a column for everything that a review needs, and only one fits each.
    """

    columns: tuple[str, ...] = ()
    guess: Mapping[str, str] = MappingProxyType({})
    is_sure: bool = False


class NoJudgementsError(InputError):
    """Raised for a file of a known format without judgements, such as the log of a failed run."""


@dataclass(frozen=True, slots=True)
class FormatFit:
    """How well a file fits a format: the fields that it has and those that it lacks."""

    has: int
    lacks: tuple[str, ...] = ()
    is_other: bool = False  # whether the file cannot have this format

    @property
    def share(self) -> float:
        """The share of the format's required fields that the file has."""
        return self.has / max(1, self.has + len(self.lacks))


@dataclass(frozen=True, slots=True)
class Format:
    """A format: its name, how it is recognised, and how it is read.

    `sniff` looks at the beginning of a file. `read` yields rows of the table that `kind` names, or
    `write` writes such a table to a file and returns it; without either the file is the table.
    `load` reads a file of moderate size directly into an Arrow table. `warn` returns sentences on
    known defects in a file, and `advice` says, in the tool's own terms, what to log next time. If
    `grades_alone` is set, each answer is graded on its own, so that the order cannot matter.
    If `read` yields the same judgement again, an exact copy is left out, and one with another value
    becomes another round. If `has_repeats` is False, repeated judgements are refused.
    """

    name: str
    title: str
    kind: Kind
    sniff: Callable[[Beginning], FormatFit]
    read: Callable[[Path], Iterator[Row]] | None = None
    fields: Mapping[str, str] = field(default_factory=dict)  # each field, and how it is read
    write: Callable[[Path, Path], Path] | None = None
    load: Callable[[Path], Any] | None = None
    warn: Callable[[Path], Sequence[str]] | None = None
    has_repeats: bool = True
    grades_alone: bool = False
    advice: str = ""


def _adapt(plugin: object, guard: Guard[Any]) -> Format:
    if not isinstance(plugin, Format):
        raise TypeError(f"{type(plugin).__name__} is not a Format")
    read = guard(plugin.read) if plugin.read is not None else None
    write = guard(plugin.write) if plugin.write is not None else None
    load = guard(plugin.load) if plugin.load is not None else None
    warn = guard(plugin.warn) if plugin.warn is not None else None
    return replace(plugin, sniff=guard(plugin.sniff), read=read, write=write, load=load, warn=warn)


formats: Registry[Format] = Registry("format", "peerage.imports.formats", _adapt)


def needs(record: Record, *names: str) -> FormatFit:
    """Return how well a record fits a format with these fields, which may be dotted paths."""
    lacks = tuple(name for name in names if not has_path(record, name))
    return FormatFit(len(names) - len(lacks), lacks)


def never(reason: str) -> FormatFit:
    """Return the fit of a file that cannot have this format."""
    return FormatFit(0, (reason,), is_other=True)


# -- recognising --------------------------------------------------------------------------------


def recognise(path: Path, name: str | None = None) -> Format:
    """Return the format of a file: the named one, or the one that it looks like.

    A table that has nothing of the named format is refused.
    If several formats fit, the one with the most required fields is chosen. An error names the
    three nearest formats, and the fields of each that the file lacks.
    """
    named = formats.get(name) if name is not None else None
    beginning = look_at(path)
    if named is not None:
        fit = named.sniff(beginning)
        if beginning.container in TABLES and fit.lacks and not fit.has:
            raise InputError(
                f"this file does not have the format {name} ({named.title}): it lacks "
                f"{', '.join(fit.lacks)}.",
                place=str(path),
                hint=f"{_columns_of(beginning)}Without --as, the format is detected.",
            )
        return named
    from peerage.imports.formats.wide_labels import guess_labels, has_answers

    fits = [(one, one.sniff(beginning)) for _, one in formats]
    if whole := [(fit.has, one) for one, fit in fits if not fit.lacks]:
        return max(whole, key=lambda pair: pair[0])[1]
    nearest = sorted(fits, key=lambda pair: _distance(beginning, *pair))[:N_NEAREST]
    reasons = "; ".join(
        f"{one.name} ({one.title}): it lacks {', '.join(fit.lacks)}" for one, fit in nearest
    )
    guess, is_sure = _guess_columns(beginning)
    pairs = ",".join(f"{ours}={theirs}" for ours, theirs in guess.items())
    such_as = f", such as --map {pairs}" if guess else ""
    labels = guess_labels(path) if beginning.columns else ""
    if not labels and has_answers(beginning.columns):
        labels_hint = f" If people are to label its answers: peerage label {path.name}"
    else:
        labels_hint = ""
    if labels:
        labels_hint = f" If it has labels by people: peerage audit {path.name} {labels}"
    error = UnknownFormatError(
        f"the format of this file is unknown. Nearest: {reasons}.",
        place=str(path),
        hint=f"{_columns_of(beginning)}"
        f"Name the format with --as, or the columns with --map{such_as}.{labels_hint}",
    )
    error.columns, error.guess, error.is_sure = tuple(beginning.columns[:20]), guess, is_sure
    raise error


def _columns_of(beginning: Beginning) -> str:
    """Return a sentence with the columns of a file, if it has any."""
    columns = ", ".join(beginning.columns[:20])
    return f"It has: {columns}. " if columns else ""


def _guess_columns(beginning: Beginning) -> tuple[dict[str, str], bool]:
    """Return a guess of the columns for `--map`, and whether it is sure.

    It is empty without a candidate and a score. Columns that have our names keep them: a map names
    every column that is read.
    """
    by_lower = {name.lower().removesuffix("_name"): name for name in beginning.columns}
    by_lower |= {name.lower(): name for name in beginning.columns}
    fitting = {
        ours: [by_lower[name] for name in (ours, *names) if name in by_lower]
        for ours, names in USUAL_NAMES.items()
    }
    guess = {ours: names[0] for ours, names in fitting.items() if names}
    guess |= {ours: by_lower[ours] for ours in REVIEWS if ours in by_lower}
    if "candidate" not in guess or not {"score", "rank"} & set(guess):
        return {}, False
    is_sure = all(
        ours in by_lower or len(set(names)) == 1
        for ours, names in fitting.items()
        if ours != "score" or "rank" not in guess
    )
    return guess, is_sure


def _distance(beginning: Beginning, one: Format, fit: FormatFit) -> tuple[float, ...]:
    """Return how far a file is from a format; the first number that differs decides.

    A field with a similar name counts a little less than the field itself. Of formats that are
    equally near, our own table of reviews comes first, because it is the easiest to make.
    """
    names = [name.lower() for name in beginning.columns]
    alike = sum(bool(get_close_matches(name.lower(), names)) for name in fit.lacks)
    if one.name == "reviews" and fit.lacks:
        known = sum(ours in USUAL_NAMES for ours in _guess_columns(beginning)[0])
        alike = max(alike, known - fit.has)
    share = (fit.has + SIMILAR * alike) / max(1, fit.has + len(fit.lacks))
    is_own = one.name == "reviews" and beginning.container != "zip"
    return (fit.is_other, -share, not is_own, len(fit.lacks))


# -- converting ---------------------------------------------------------------------------------


def parse_columns(text: str) -> dict[str, str]:
    """Return the columns that `--map candidate=model,score=rating` names, by our names."""
    columns: dict[str, str] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        ours, equals, theirs = part.partition("=")
        if not equals or not ours.strip() or not theirs.strip():
            raise UsageError(
                f"--map {part!r} must be NAME=COLUMN.",
                hint="As in --map candidate=model,reviewer=judge,score=rating.",
            )
        columns[ours.strip()] = theirs.strip()
    return columns


def convert(path: Path, source: Format, target: Path, repeats: Repeats | None = None) -> Path:
    """Return a table with the rows of a file: the file itself, or a new file.

    `repeats` counts judgements that this file or an earlier one already had. A file that has only
    copies gives an empty table.
    """
    if source.write is not None:
        return source.write(path, target)
    if source.read is None:
        return path
    repeats = repeats or Repeats()
    table = target.with_suffix(".jsonl")
    n = n_judged = 0
    with table.open("w", encoding="utf-8") as out:
        try:
            rows = source.read(path)
            numbered = source.kind == "reviews" and source.has_repeats
            for row in repeats.number(rows) if numbered else rows:
                out.write(json.dumps(_cells(row)) + "\n")
                n += 1
                n_judged += any(row.get(name) is not None for name in ("rank", "score", "opinion"))
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise InputError(
                f"a record after {n:,} rows does not have the shape of {source.name}: {error}.",
                place=str(path),
                hint="Nothing was read.",
            ) from None
    _refuse_unjudged(path, source, n, n_judged, repeats)
    return table


def _cells(row: Row) -> dict[str, Any]:
    """Return the values of a row without nulls, with a key of its text, and times as numbers."""
    cells = {name: value for name, value in row.items() if value is not None}
    if isinstance(at := cells.get("at"), str) and EPOCH.fullmatch(at.strip()):
        cells["at"] = float(at)
    if isinstance(text := cells.get("text"), str):
        cells.setdefault("text_hash", text_key(text))
    return cells


def _refuse_unjudged(path: Path, source: Format, n: int, n_judged: int, repeats: Repeats) -> None:
    """Raise an error for a file without judgements, unless it has only copies of earlier ones."""
    if not n and repeats.n_copies:
        return
    if not n:
        raise NoJudgementsError(
            f"this file of the format {source.name} has no judgements.", place=str(path)
        )
    if source.kind in ("reviews", "sessions") and not n_judged:
        raise NoJudgementsError(
            f"this file of the format {source.name} has {n:,} rows, and all are abstentions.",
            place=str(path),
        )


class Repeats:
    """The judgements read so far, to recognise later ones that are copies or further rounds."""

    def __init__(self) -> None:
        self.n_copies = self.n_rounds = 0
        self._rows: set[int] = set()  # digests, to save memory
        self._reviews: set[int] = set()
        self._last_by_review: dict[int, int] = {}

    def number(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield reviews without copies; a repeated one with another value gets the next round."""
        for row in rows:
            digest = hash(json.dumps(row, sort_keys=True))
            if digest in self._rows:
                self.n_copies += 1
                continue
            self._rows.add(digest)
            review = (row.get("session_id"), row.get("reviewer"), row.get("candidate"))
            round_ = int(row.get("round") or 0)
            if (key := hash((*review, round_))) in self._reviews:
                round_ = max(round_, self._last_by_review.get(hash(review), 0)) + 1
                while (key := hash((*review, round_))) in self._reviews:
                    round_ += 1
                self._last_by_review[hash(review)] = round_
                self.n_rounds += 1
                row = {**row, "round": round_}
            self._reviews.add(key)
            yield row

    def sentences(self) -> tuple[str, ...]:
        """Return a sentence on the number of copies and one on further rounds, if there are any."""
        sentences = {
            "rows that are copies of an earlier row (the same judge, answer, value and time): "
            f"{self.n_copies:,}. They count once.": self.n_copies,
            "rows in which a judge judges an answer again, with another value or time: "
            f"{self.n_rounds:,}. They count as further rounds.": self.n_rounds,
        }
        return tuple(sentence for sentence, n in sentences.items() if n)


def pair_rows(
    common: Row, first: str, second: str, winner: str | None, **sides: tuple[Any, Any]
) -> Iterator[Row]:
    """Yield the two rows of one comparison; `winner` is "first", "second", "tie" or None.

    None is an abstention. `sides` has values for the first and the second model, as in
    `words=(120, 80)`. A comparison of a model with itself becomes one row, an abstention.
    """
    if first == second:
        yield {**common, "candidate": first}
        return
    ranks: Mapping[str | None, tuple[float | None, float | None]] = {
        "first": (WINNER, LOSER),
        "second": (LOSER, WINNER),
        "tie": (TIED, TIED),
        None: (None, None),
    }
    for i, candidate in enumerate((first, second)):
        own = {name: pair[i] for name, pair in sides.items()}
        yield {**common, "candidate": candidate, "rank": ranks[winner][i], **own}


def winner_of(
    word: object, words: Mapping[str, str | None], path: Path, place: str, field: str = "winner"
) -> str | None:
    """Return the meaning of a word for the winner; raise an error for an unknown word."""
    try:
        return words[str(word)]
    except KeyError:
        known = ", ".join(one for one in words if one not in ("", "None"))
        raise InputError(
            f"`{field}` cannot be {str(word)[:80]!r}.",
            place=f"{path}, {place}",
            hint=f"Known: {known}.",
        ) from None


def name_of(value: object, path: Path, place: str, field: str) -> str:
    """Return the name of a model or a judge; raise an error if it is missing."""
    if isinstance(value, list) and value:  # in MT-Bench, a judge and its prompt
        value = value[0]
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"`{field}` is missing or is not a name.", place=f"{path}, {place}")
    return value
