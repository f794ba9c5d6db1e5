"""The pytest fixture `peerage`: judge the answers of tests, and conclude the run."""

from __future__ import annotations

import contextlib
import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import pytest

from peerage import config
from peerage.answer_checks import (
    AnswerCheck,
    CheckVerdict,
    NotJudgedError,
    check_answer,
    judges_hash,
    read_criteria,
)
from peerage.doors.pytest_plugin import PROPERTY
from peerage.doors.render.gate_views import verdict_sentence
from peerage.doors.render.phrases import flag_text, money, one_line, signed_figure
from peerage.doors.render.scorecard_views import interval, percent
from peerage.errors import InputError, PeerageError, UsageError, few, how_many, shown
from peerage.findings import Bounded
from peerage.imports.prompt_files import criteria_of
from peerage.labels.repeats import PromptRepeats, all_pass, any_passes
from peerage.panel import Council
from peerage.reports.check_runs import CheckedAnswer, CheckedPrompt, CheckRun, CheckRunSummary
from peerage.reports.gate_files import canonical_json, read_baseline
from peerage.reports.gate_results import GateResult
from peerage.shapes import from_json, to_json
from peerage.tasks import LoopThread, together

Need = Literal["all", "any", "none"]
MAX_REPEATS = 100
MAX_NAME = 512  # characters of a text in a session's metadata
N_SHOWN = 5  # sessions and answers that are listed
N_CHARACTERS = 200  # of an answer in a message


@dataclass(frozen=True, slots=True)
class JudgedAnswers:
    """The verdicts on the answers of one check."""

    answers: tuple[str, ...]
    verdicts: tuple[CheckVerdict | None, ...]  # None: an answer that was not judged
    pass_at_k: float | None  # 1 if any answer passed
    pass_all_k: float | None  # 1 if all answers passed: pass^k


class SuiteJudges:
    """The council of a process of pytest, made for its first check."""

    def __init__(self, pytest_config: pytest.Config) -> None:
        self._config = pytest_config
        self._council: Council | None = None
        self._thread = LoopThread()
        self.fresh: bool = pytest_config.getoption("peerage_fresh")
        self.undecided_passes = pytest_config.getoption("peerage_undecided") == "pass"

    @property
    def council(self) -> Council:
        """The council of peerage.toml in the folder where pytest was started, or in its root."""
        if self._council is None:
            started = self._config.invocation_params.dir
            has_file = (started / config.FILE).is_file()
            # A test may have changed the current folder.
            with contextlib.chdir(started if has_file else self._config.rootpath):
                self._council = Council.from_config()
                self._council.role = "pytest"
                self._council.store.version()  # opens it
            self.run(self._council.__aenter__())
        return self._council

    def run(self, work: Any) -> Any:
        """Return the result of a coroutine on the council's own event loop."""
        return self._thread.run(work)

    def close(self) -> None:
        if self._council is not None:
            self.run(self._council.close())
        self._thread.close()


class Checks:
    """The fixture `peerage` of one test."""

    def __init__(self, judges: SuiteJudges, node: pytest.Item) -> None:
        self._judges = judges
        self._node = node

    def check(
        self,
        question: str,
        answer: str | Callable[[str], Any],
        criteria: str | Sequence[str] | None = None,
        *,
        k: int = 1,
        need: Need = "all",
    ) -> JudgedAnswers:
        """Fail the test unless the panel finds that the answer meets all criteria.

        `answer` is a text, or an application: a function from the question to its answer, which is
        called `k` times. With need="any" one of its answers must pass, with need="none" the check
        only counts. Without criteria the panel votes on whether the answer is correct.
        """
        __tracebackhide__ = True
        why, crash, result = "", None, None
        try:
            result, crash, why = self._check(question, answer, read_criteria(criteria), k, need)
        except PeerageError as error:
            why = f"peerage: {error}"
        if crash is not None:
            raise crash
        if why or result is None:
            pytest.fail(why)
        return result

    def _check(
        self,
        question: str,
        answer: str | Callable[[str], Any],
        criteria: tuple[str, ...],
        k: int,
        need: Need,
    ) -> tuple[JudgedAnswers, Exception | None, str]:
        """Return the verdicts, the application's first error, and why the test fails."""
        _check_arguments(question, answer, k, need)
        answers, crash = self._answers(question, answer, k)
        verdicts = self._judge(question, answers, criteria)
        judged = tuple(map(_checked_answer, verdicts))
        council = self._judges.council
        record = CheckedPrompt(
            question, criteria, judges_hash(council), k, judged, council.settings.notes
        )
        self._node.user_properties.append((PROPERTY, json.dumps(to_json(record))))
        repeats = PromptRepeats(sum(one.passed is True for one in judged), k)
        known = tuple(one if isinstance(one, CheckVerdict) else None for one in verdicts)
        texts_shown = tuple(one or "" for one in answers)
        result = JudgedAnswers(texts_shown, known, any_passes(repeats, k), all_pass(repeats, k))
        return result, crash, self._why_it_fails(answers, verdicts, need)

    def _answers(
        self, question: str, answer: str | Callable[[str], Any], k: int
    ) -> tuple[list[str | None], Exception | None]:
        """Return the answers, None for a call that raised an error, and the first such error."""
        if isinstance(answer, str):
            if not answer.strip():
                raise InputError("the answer is empty.")
            return [answer], None
        answers: list[str | None] = []
        first: Exception | None = None
        for _ in range(k):
            try:
                reply = answer(question)
                if inspect.isawaitable(reply):
                    reply = self._judges.run(_wait_for(reply))
            except Exception as error:  # noqa: BLE001 - the application is the user's own code
                first = first or error
                answers.append(None)
                continue
            if not isinstance(reply, str):
                raise UsageError(f"the application returned {shown(reply)}, not a text.")
            answers.append(reply)
        return answers, first

    def _judge(
        self, question: str, answers: Sequence[str | None], criteria: tuple[str, ...]
    ) -> list[CheckVerdict | NotJudgedError | None]:
        """Return the verdict on each answer; None for one that is missing or empty."""
        council = self._judges.council
        metadata = {"test": self._node.nodeid[:MAX_NAME]}

        async def verdict(text: str | None, repeat: int) -> CheckVerdict | NotJudgedError | None:
            if text is None or not text.strip():
                return None
            check = AnswerCheck(question, text, criteria, repeat)
            try:
                return await check_answer(
                    council, check, fresh=self._judges.fresh, metadata=metadata
                )
            except NotJudgedError as error:
                return error

        work = together(verdict(text, repeat) for repeat, text in enumerate(answers))
        verdicts: list[CheckVerdict | NotJudgedError | None] = self._judges.run(work)
        return verdicts

    def _why_it_fails(
        self,
        answers: Sequence[str | None],
        verdicts: Sequence[CheckVerdict | NotJudgedError | None],
        need: Need,
    ) -> str:
        """Return why the test fails, or an empty text."""
        lost = [str(one) for one in verdicts if isinstance(one, NotJudgedError)]
        if lost:
            return f"peerage: no verdict. {few(lost, 1)}"
        oks = [self._passes(one) for one in verdicts]
        if need == "none" or (any(oks) if need == "any" else all(oks)):
            return ""
        pairs = [pair for pair, ok in zip(enumerate(verdicts), oks, strict=True) if not ok]
        lines = [_why(one, answers[i] or "") for i, one in pairs[:N_SHOWN]]
        if len(oks) > 1:
            must = "all must pass" if need == "all" else "one must pass"
            lines.insert(0, f"{sum(oks)} of {len(oks)} answers passed; {must}.")
        return "\n".join(lines)

    def _passes(self, verdict: object) -> bool:
        if not isinstance(verdict, CheckVerdict):
            return False
        return self._judges.undecided_passes if verdict.passed is None else verdict.passed


async def _wait_for(value: Any) -> Any:
    return await value


def _check_arguments(question: object, answer: object, k: object, need: object) -> None:
    """Raise an error for arguments of a check that are of no use."""
    if not isinstance(question, str) or not question.strip():
        raise UsageError("the question must be a text that is not empty.")
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= MAX_REPEATS:
        raise UsageError(f"k must be a number from 1 to {MAX_REPEATS}, not {shown(k)}.")
    if need not in get_args(Need):
        raise UsageError(f"need must be one of {', '.join(get_args(Need))}, not {shown(need)}.")
    if isinstance(answer, str) and k > 1:
        raise UsageError(
            "a fixed answer has no repeats.",
            hint="Pass the application itself, a function of the question, to have it asked k "
            "times.",
        )
    if not isinstance(answer, str) and not callable(answer):
        raise UsageError(
            f"the answer must be a text, or a function of the question, not {shown(answer)}."
        )


def _checked_answer(verdict: CheckVerdict | NotJudgedError | None) -> CheckedAnswer:
    """Return what the summary needs of a verdict; a missing or empty answer did not pass."""
    if isinstance(verdict, NotJudgedError):
        return CheckedAnswer(None, has_verdict=False)
    if verdict is None:
        return CheckedAnswer(passed=False)
    return CheckedAnswer(
        verdict.passed,
        session=verdict.session,
        is_stored=verdict.is_stored,
        needs_person=verdict.needs_person,
        cost_usd=verdict.cost_usd,
        unpriced_calls=verdict.unpriced_calls,
    )


def _why(verdict: object, answer: str) -> str:
    """Return why an answer did not pass."""
    if not isinstance(verdict, CheckVerdict):
        return "An answer is empty."
    what = [f"fails: {text}" for text in verdict.failed]
    what += [f"undecided: {text}" for text in verdict.undecided]
    lines = [f"The answer {one_line(answer, N_CHARACTERS)!r}"]
    lines += [f"  {text}" for text in what]
    lines.append(f"  session {verdict.session}")
    return "\n".join(lines)


# -- suites in files -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SuiteCase:
    """A prompt of a file, for one test."""

    id: str
    question: str
    criteria: tuple[str, ...] | None  # None: those that a check has without any
    category: str


def read_suite(folder: Path, arguments: Sequence[object]) -> list[SuiteCase]:
    """Return the prompts of the file that a marker names, from the folder of its test."""
    try:
        if len(arguments) != 1 or not isinstance(arguments[0], str | Path):
            raise UsageError(
                "the marker peerage_suite needs the name of one file.",
                hint='As in @pytest.mark.peerage_suite("questions.jsonl").',
            )
        return [
            SuiteCase(
                row.id,
                row.query,
                None if criteria is None else read_criteria(criteria),
                row.category,
            )
            for row, criteria in criteria_of(folder / arguments[0])
        ]
    except PeerageError as error:
        why = f"peerage: {error}"
    pytest.fail(why, pytrace=False)


# -- the end of a run ----------------------------------------------------------------------------


def conclude_run(by_test: Mapping[str, Sequence[str]], options: Any) -> tuple[list[str], bool]:
    """Return the lines of the summary, and whether the gate fails the run.

    `options` are those of pytest's command line.
    """
    run = CheckRun(
        {
            test: tuple(from_json(CheckedPrompt, json.loads(text)) for text in texts)
            for test, texts in by_test.items()
        }
    )
    lines = list(summary_lines(run.summary())) if by_test else []
    fails = False
    try:
        if options.peerage_base is not None:
            result = run.gate(read_baseline(options.peerage_base))
            lines += gate_lines(result)
            fails = result.exit_code(options.peerage_undecided) != 0
        if options.peerage_save_base is not None:
            lines.append(_save(options.peerage_save_base, run))
    except PeerageError as error:
        return [*lines, str(error)], True
    return lines, fails


def _save(path: Path, run: CheckRun) -> str:
    """Write a run as a baseline file, and return a line that says so."""
    text = canonical_json(run.baseline().document()) + "\n"
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}.", place=str(path)) from None
    return f"The baseline is saved in {path}."


def summary_lines(summary: CheckRunSummary) -> Iterator[str]:
    """Yield the figures of a run in words."""
    questions, answers = how_many(summary.n_questions, "question"), summary.n_answers
    rate = _with_interval(summary.pass_rate)
    yield f"pass rate {rate}: {questions}, {how_many(answers, 'answer')}"
    for k, every, some in summary.by_k:
        yield f"pass^{k} {_with_interval(every)}, pass@{k} {_with_interval(some)}"
    new, stored = how_many(summary.n_new, "new verdict"), summary.n_stored
    cost = money(summary.cost_usd, summary.unpriced_calls)
    yield f"{new}, {stored:,} already stored; cost {cost}"
    if summary.n_undecided:
        yield f"{how_many(summary.n_undecided, 'verdict')} undecided, not counted as passed"
    if summary.n_lost:
        yield f"{how_many(summary.n_lost, 'answer')} without a verdict, left out"
    if summary.for_people:
        shown_ = [f"{id_} ({why})" for id_, why in summary.for_people]
        yield f"a person should look at {len(shown_)}: {few(shown_, N_SHOWN)}"
    yield from (f"note: {note}" for note in summary.notes)


def gate_lines(result: GateResult) -> Iterator[str]:
    """Yield the verdict of the gate on a run, and the difference in pass rate."""
    first = result.measures[0]
    level = f"{100 * (1 - result.bar['alpha']):g}%"
    yield f"gate: {verdict_sentence(result)}"
    yield (
        f"difference in pass rate {signed_figure(first.difference, first.low, first.high, 3)}, "
        f"{level} interval, {how_many(result.n_queries, 'question')}, margin "
        f"{result.bar['margin']:g}"
    )
    if result.needed is not None:
        yield f"about {how_many(result.needed, 'more question')} would give a verdict"
    for flag in result.flags:
        yield f"note: {flag_text(flag)}"


def _with_interval(share: Bounded | None) -> str:
    if share is None:
        return "unknown (too few repeats)"
    ends = interval(share) if share.low is not None else "no interval below 3 questions"
    return f"{percent(share)} ({ends})"
