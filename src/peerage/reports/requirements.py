"""Requirements on a board, such as `a >= b - .05 on coding`: parsed, and checked by intervals.

A requirement holds if its whole interval satisfies it and fails if no part of it does; if the
interval covers both, the result is undecided.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from peerage.boards import Board, share_columns
from peerage.boards.models import rare_ends
from peerage.errors import UsageError, meant, shown
from peerage.stats.clusters import ratio_interval

Status = Literal["holds", "fails", "undecided"]
TOKEN = re.compile(
    r"""\s*(?:(?P<operator>>=|<=|==|!=|[<>=])
    |(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?![\w./:@-]))
    |(?P<mark>[()+-](?=[\s\d.]|$)|[()])
    |"(?P<quoted>[^"]*)"|'(?P<single>[^']*)'
    |(?P<word>[^\s<>=()"']+))""",
    re.VERBOSE,
)
FUNCTIONS = ("share", "score", "rank", "correct")
COLUMNS = {  # of a board of models, besides shares: the value, its low and its high
    "score": ("mean_score", "mean_score_low", "mean_score_high"),
    "rank": ("rank", "rank_low", "rank_high"),
}
GATE_METRICS = {"score": "mark"}  # by measure, if the gate has another name for it
OPERATORS = (">=", "<=", ">", "<")
MAX_CHARACTERS = 1_000
EXAMPLE = "As in 'a >= b - 0.05 on coding' or 'share(a) > 0.5'."
CHECK_CODES = {"fails": 1, "undecided": 3}


class Token(NamedTuple):
    """A piece of a requirement: its kind, its text, and its position."""

    kind: str
    text: str
    at: int


@dataclass(frozen=True, slots=True)
class Requirement:
    """A measure of one model, compared with a number or with the same measure of another."""

    text: str
    measure: str
    model: str
    operator: str
    rival: str = ""
    number: float = 0.0  # added to the rival's value, if there is a rival
    category: str | None = None


class MeasuredValue(NamedTuple):
    """A value with its interval; None if undefined."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class RequirementResult:
    """Whether a requirement holds, with the measured value."""

    text: str
    status: Status
    value: float | None
    low: float | None
    high: float | None

    def document(self) -> dict[str, Any]:
        """Return the JSON of the result."""
        return {
            "require": self.text,
            "status": self.status,
            "value": self.value,
            "low": self.low,
            "high": self.high,
        }


@dataclass(frozen=True, slots=True)
class CheckResult:
    """All requirements with their results."""

    results: tuple[RequirementResult, ...]

    @property
    def status(self) -> Status:
        """The status of all requirements together: failed if one fails."""
        statuses = {one.status for one in self.results}
        for status in ("fails", "undecided"):
            if status in statuses:
                return status
        return "holds"

    def exit_code(self, undecided: str | None = None) -> int:
        """Return 0 if all hold, 1 if one fails, else 3 or the given code."""
        if self.status == "undecided" and undecided is not None:
            return 0 if undecided == "pass" else 1
        return CHECK_CODES.get(self.status, 0)

    def document(self) -> dict[str, Any]:
        """Return the JSON of the check."""
        return {"status": self.status, "requirements": [one.document() for one in self.results]}


# -- reading -------------------------------------------------------------------------------------


def parse_requirement(text: str) -> Requirement:
    """Parse a requirement; an error shows a caret under the mistake."""
    if len(text) > MAX_CHARACTERS:
        raise UsageError(f"a requirement has at most {MAX_CHARACTERS} characters.")
    return _Parser(text).requirement()


class _Parser:
    """Reads one requirement from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(self._split())
        self.next = 0

    def _split(self) -> Sequence[Token]:
        tokens, at = [], 0
        while at < len(self.text.rstrip()):
            match = TOKEN.match(self.text, at)
            if match is None:
                raise self._error("a quotation mark is not closed.", at)
            kind = str(match.lastgroup)
            start = match.start(kind) - (kind in ("quoted", "single"))
            name = "word" if kind in ("quoted", "single") else kind
            tokens.append(Token(name, match[kind], start))
            at = match.end()
        return tokens

    def _error(self, message: str, at: int) -> UsageError:
        return UsageError(f"{message}\n{self.text}\n{' ' * at}^\n{EXAMPLE}", place="require")

    def _peek(self) -> Token:
        end = Token("end", "", len(self.text.rstrip()) + 1)
        return self.tokens[self.next] if self.next < len(self.tokens) else end

    def _take(self, kind: str, expected: str) -> Token:
        token = self._peek()
        if token.kind != kind:
            raise self._error(f"expected {expected}.", token.at)
        self.next += 1
        return token

    def _model(self, expected: str) -> tuple[str, str]:
        """Return a measure and a model: `share(a)`, or `a` for its share."""
        word = self._take("word", expected)
        if self._peek().text != "(":
            return "", word.text
        if word.text not in FUNCTIONS:
            raise self._error(
                f"there is no measure {shown(word.text)}: use {', '.join(FUNCTIONS)}.",
                word.at,
            )
        self._take("mark", "'('")
        name = self._take("word", "the name of a model")
        if self._peek().text != ")":
            raise self._error("expected ')'.", self._peek().at)
        self.next += 1
        return word.text, name.text

    def requirement(self) -> Requirement:
        """Return the whole requirement."""
        start = self._peek().at
        measure, model = self._model("the name of a model, or share(NAME)")
        operator = self._take("operator", "one of >=, <=, > and <")
        if operator.text not in OPERATORS:
            raise self._error(
                "use one of >=, <=, > and <: data cannot show that two values are equal.",
                operator.at,
            )
        rival, number, right_at = "", 0.0, self._peek().at
        if self._peek().kind == "number":
            number = float(self._take("number", "a number").text)
            if not measure:
                raise self._error(
                    "a number can only be compared with share(NAME), score(NAME), rank(NAME) or "
                    "correct(NAME).",
                    start,
                )
        else:
            other, rival = self._model("a number or the name of a model")
            if (other or "share") != (measure or "share") or "rank" in (other, measure):
                raise self._error(
                    "compare shares with shares, scores with scores, or correct with correct.",
                    right_at,
                )
            number = self._offset()
        category = None
        if self._peek().text == "on" and self._peek().kind == "word":
            self.next += 1
            category = self._take("word", "a category after 'on'").text
        if self._peek().kind != "end":
            raise self._error("expected the end, or 'on' and a category.", self._peek().at)
        if rival and rival == model:
            raise self._error("a model cannot be compared with itself.", right_at)
        return Requirement(
            self.text, measure or "share", model, operator.text, rival, number, category
        )

    def _offset(self) -> float:
        """Return the number that is added to the right side; 0 if there is none."""
        token = self._peek()
        if token.kind == "number" and token.text[0] in "+-":
            self.next += 1
            return float(token.text)
        if token.kind == "mark" and token.text in "+-":
            self.next += 1
            number = float(self._take("number", "a number").text)
            return number if token.text == "+" else -number
        return 0.0


# -- against intervals -----------------------------------------------------------------------------


def judge_requirement(requirement: Requirement, estimate: MeasuredValue) -> RequirementResult:
    """Return whether a requirement holds for all, none or a part of an interval."""
    value, low, high = estimate
    status: Status = "undecided"
    if low is not None and high is not None:
        compare = COMPARISONS[requirement.operator]
        ends = [compare(end, requirement.number) for end in (low, high)]
        status = "holds" if all(ends) else "undecided" if any(ends) else "fails"
    return RequirementResult(requirement.text, status, value, low, high)


COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": lambda a, b: a >= b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    "<": lambda a, b: a < b,
}


def estimate_mean(values: Sequence[float]) -> MeasuredValue:
    """Return the mean over queries with its interval; equal values get a rare-event interval."""
    if not values:
        return MeasuredValue(None, None, None)
    known = np.array(values)
    mean = float(known.mean())
    estimate = ratio_interval(known, np.ones(len(known)))
    if estimate is None or not estimate.se:
        ends = rare_ends(np.array([mean]), np.array([len(known)]), (0.0, 1.0))
        return MeasuredValue(mean, *(float(end[0]) for end in ends))
    low, high = (
        None if x is None else min(max(x, 0.0), 1.0) for x in (estimate.low, estimate.high)
    )
    return MeasuredValue(mean, low, high)


def estimate_on_board(board: Board, requirement: Requirement) -> MeasuredValue:
    """Return a model's value on a board with its interval; raise an error if it is unknown."""
    rows = {row["model"]: row for row in board.rows}
    if requirement.model not in rows:
        raise UsageError(
            f"there is no model {shown(requirement.model)} on this board.",
            hint=meant(requirement.model, rows),
        )
    row = rows[requirement.model]
    is_share = requirement.measure == "share"
    columns = share_columns(board) if is_share else COLUMNS[requirement.measure]
    value, low, high = (row.get(name) for name in columns)
    return MeasuredValue(value, low, high)
