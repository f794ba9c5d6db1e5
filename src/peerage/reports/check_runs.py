"""A run of checks in a test suite: pass rates over its questions, and the gate against a baseline.

A question with its criteria is one query, however many tests ask it and however often: its repeats
are one group. An undecided verdict is not a pass. Answers without a verdict are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from peerage import config
from peerage.errors import UsageError, how_many
from peerage.findings import Bounded
from peerage.fingerprints import short_hash
from peerage.labels.repeats import PromptRepeats, all_pass, any_passes, over_prompts
from peerage.reports import InputTables, Reports
from peerage.reports.gate_files import Baseline
from peerage.reports.gate_results import GateResult
from peerage.reports.options import GateOptions

PANEL, BASE, CANDIDATE = "panel", "the baseline", "this run"
N_CHARACTERS = 60  # of a question in the name of its query


@dataclass(frozen=True, slots=True)
class CheckedAnswer:
    """One answer of a check: whether it passed, and where the verdict is."""

    passed: bool | None  # None: undecided, or without a verdict
    has_verdict: bool = True
    session: str = ""  # empty if no judge was asked
    is_stored: bool = False  # whether the verdict is from an earlier run
    needs_person: str = ""
    cost_usd: float = 0.0
    unpriced_calls: int = 0


@dataclass(frozen=True, slots=True)
class CheckedPrompt:
    """One check of a test: its question, criteria and judges, and its answers."""

    question: str
    criteria: tuple[str, ...]
    judges: str  # the hash of the judges' fingerprints
    k: int
    answers: tuple[CheckedAnswer, ...]
    notes: tuple[str, ...] = ()  # on the panel, such as that its seats are toys

    @property
    def query(self) -> str:
        """A name for the question and its criteria that people can read."""
        words = " ".join(self.question.split())
        short = words if len(words) <= N_CHARACTERS else f"{words[:N_CHARACTERS].rstrip()}…"
        return f"{short} ({short_hash([self.question, self.criteria])[:6]})"


@dataclass(frozen=True, slots=True)
class CheckRunSummary:
    """Figures of a run of checks; shares have intervals over questions."""

    n_questions: int
    n_answers: int  # with a verdict
    pass_rate: Bounded | None
    by_k: tuple[tuple[int, Bounded | None, Bounded | None], ...]  # k, pass^k, pass@k
    n_new: int  # verdicts of this run
    n_stored: int  # verdicts that were stored already
    n_lost: int  # answers without a verdict
    n_undecided: int
    for_people: tuple[tuple[str, str], ...]  # sessions that a person should look at, and why
    cost_usd: float
    unpriced_calls: int
    notes: tuple[str, ...] = ()  # on the panel


@dataclass(slots=True)
class CheckRun:
    """The checks of a test run, by test."""

    by_test: dict[str, tuple[CheckedPrompt, ...]] = field(default_factory=dict)

    @property
    def prompts(self) -> list[CheckedPrompt]:
        return [one for _, checks in sorted(self.by_test.items()) for one in checks]

    def summary(self) -> CheckRunSummary:
        """Return the figures of the run."""
        prompts = self.prompts
        answers = [answer for one in prompts for answer in one.answers]
        judged = [answer for answer in answers if answer.has_verdict]
        repeats = _repeats(prompts)
        by_judges = [answer for answer in judged if answer.session]
        doubts = {a.session: a.needs_person for a in by_judges if a.needs_person}
        return CheckRunSummary(
            n_questions=len(repeats),
            n_answers=len(judged),
            pass_rate=over_prompts([all_pass(one, 1) for one in repeats]),
            by_k=tuple(
                (
                    k,
                    over_prompts([all_pass(one, k) for one in repeats]),
                    over_prompts([any_passes(one, k) for one in repeats]),
                )
                for k in sorted({one.k for one in prompts} - {1})
            ),
            n_new=sum(not answer.is_stored for answer in by_judges),
            n_stored=sum(answer.is_stored for answer in by_judges),
            n_lost=len(answers) - len(judged),
            n_undecided=sum(answer.passed is None for answer in judged),
            for_people=tuple(sorted(doubts.items())),
            cost_usd=sum(answer.cost_usd for answer in answers),
            unpriced_calls=sum(answer.unpriced_calls for answer in answers),
            notes=tuple(dict.fromkeys(note for one in prompts for note in one.notes)),
        )

    def baseline(self) -> Baseline:
        """Return the pass rate of each question, for a file to compare later runs with."""
        return self._reports(BASE).baseline(_options(base=BASE))

    def gate(self, baseline: Baseline) -> GateResult:
        """Return whether this run is worse than a baseline, by the questions of both.

        Raise an error if the judges have changed since, which can look like a change of answers.
        """
        judges = {(PANEL, one.judges) for one in self.prompts}
        if judges and judges != baseline.judges:
            raise UsageError(
                "the judges have changed since the baseline was saved.",
                hint="Save a baseline with this panel: --peerage-save-base FILE",
            )
        results = self._reports(CANDIDATE).gate(_options(candidate=CANDIDATE), baseline)
        result = cast("GateResult", results)  # of one candidate
        in_run = {f"query {one.query}" for one in self.prompts}
        n_gone = len(baseline.values.keys() - in_run)
        n_new = len(in_run - baseline.values.keys())
        flags = [
            f"{how_many(n, 'question')} {words}"
            for n, words in ((n_gone, "only in the baseline"), (n_new, "not in the baseline"))
            if n
        ]
        return replace(result, flags=(*result.flags, *flags))

    def _reports(self, name: str) -> Reports:
        """Return reports on the run's verdicts as a table of reviews by one reviewer, the panel."""
        rows = list(self._rows(name))
        if not rows:
            raise UsageError(
                "no check of this run has a verdict, so there is nothing to compare.",
                hint="Call peerage.check(question, answer) in a test.",
            )
        import pyarrow as pa  # type: ignore[import-untyped]

        return Reports(config.Settings(), InputTables(pa.Table.from_pylist(rows)))

    def _rows(self, name: str) -> Iterable[dict[str, Any]]:
        for test, checks in self.by_test.items():
            judged = [(p, a) for p in checks for a in p.answers if a.has_verdict]
            for place, (prompt, answer) in enumerate(judged, start=1):
                yield {
                    "session_id": f"{test} #{place}",
                    "query_id": prompt.query,
                    "reviewer": PANEL,
                    "candidate": name,
                    "correct": float(answer.passed is True),
                    "score": float(answer.passed is True),
                    "fingerprint": prompt.judges,
                }


def _options(**names: str) -> GateOptions:
    return GateOptions.of({**names, "metric": "correct"})


def _repeats(prompts: Sequence[CheckedPrompt]) -> list[PromptRepeats]:
    """Return how many answers to each question passed; questions without a verdict are left out."""
    by_query: dict[str, list[bool]] = {}
    for one in prompts:
        passes = by_query.setdefault(one.query, [])
        passes += [answer.passed is True for answer in one.answers if answer.has_verdict]
    return [PromptRepeats(sum(passes), len(passes)) for passes in by_query.values() if passes]
