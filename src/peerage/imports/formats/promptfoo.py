"""Results of promptfoo, version 3: providers and prompts over test cases, graded by assertions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from peerage.imports.foreign_records import (
    Beginning,
    Record,
    as_score,
    at_path,
    count_words,
    look_at,
    model_text,
    object_at,
    records,
)
from peerage.imports.formats import Format, FormatFit, Row, formats, needs

FIELDS = {
    "evalId": "the beginning of the session's id",
    "results.results[].testIdx": "the query",
    "results.results[].provider.label, id": "the candidate, with the prompt's label if there are "
    "several prompts",
    "results.results[].gradingResult.componentResults[]": "a reviewer for each assertion, by its "
    "metric or type; that of type human is a person",
    "results.results[].score": "the score; used only without components",
    "results.results[].response.output": "the words and the text",
    "results.results[].error, failureReason": "an error is an abstention",
    "results.timestamp": "the time",
}
ADVICE = (
    "Name a `metric` and a `provider` in each model-graded assertion: they are the "
    "reviewer. Two graders of the same outputs show agreement, `--repeat 2` shows "
    "consistency. Outputs are graded one at a time, so position does not apply."
)
FAILED = 2  # the value of failureReason for an error, as against a failed assertion
GRADER_FAILURES = (
    "could not extract",
    "failed to parse",
    "grader error",
    "api error",
    "api call error",
    "no output",
    "llm rubric response",
)


def sniff(beginning: Beginning) -> FormatFit:
    """Return how well a file fits: results inside results, with a version."""
    fit = needs(beginning.record, "results.version", "results.results", "evalId")
    version = at_path(beginning.record, "results.version")
    if not fit.lacks and as_score(version) not in (3.0, 4.0):
        return FormatFit(fit.has, (f"version 3 of the results (this is {version})",))
    return fit


def read(path: Path) -> Iterator[Row]:
    """Yield a row for each assertion on each output."""
    whole = look_at(path).record
    at = at_path(whole, "results.timestamp")
    prompts = at_path(whole, "results.prompts")
    labels = {at_path(one, "label") or at_path(one, "raw") for one in prompts or ()}
    for _, result in records(path, "results.results"):
        yield from _result(str(whole.get("evalId") or path.stem), result, at, len(labels) > 1)


def _result(eval_id: str, result: Record, at: Any, many_prompts: bool) -> Iterator[Row]:
    provider = result.get("provider")
    name = at_path(provider, "label") or at_path(provider, "id") or provider or "provider"
    prompt = at_path(result, "prompt.label") or at_path(result, "prompt.raw")
    output = model_text(at_path(result, "response.output"))
    index = result.get("testIdx", result.get("rowIdx"))
    common = {
        "session_id": f"{eval_id} test {index}",
        "query_id": f"{eval_id} test {index}",
        "candidate": f"{name} ({str(prompt)[:60]})" if many_prompts and prompt else str(name),
        "round": result.get("repeatIndex"),
        "words": count_words(output),
        "text": output,
        "at": at,
    }
    parts = at_path(result, "gradingResult.componentResults")
    parts = [one for one in parts if isinstance(one, dict)] if isinstance(parts, list) else []
    names: dict[str, int] = {}
    for part in parts:
        reviewer = _assertion(part)
        names[reviewer] = n = names.get(reviewer, 0) + 1
        yield {
            **common,
            "reviewer": reviewer if n == 1 else f"{reviewer} {n}",
            "score": None if _has_failed(part) else as_score(part.get("score")),
            "person": int(at_path(part, "assertion.type") == "human"),
        }
    if not parts:
        is_error = bool(result.get("error")) and result.get("failureReason") == FAILED
        score = None if is_error else as_score(result.get("score"))
        yield {**common, "reviewer": "promptfoo", "score": score}


def _assertion(part: Mapping[str, Any]) -> str:
    """Return the name of an assertion: its metric, else its type with its grader."""
    assertion = object_at(part, "assertion")
    grader = at_path(assertion, "provider.id") or assertion.get("provider")
    kind = str(assertion.get("metric") or assertion.get("type") or "promptfoo")
    return f"{kind} by {grader}" if isinstance(grader, str) else kind


def _has_failed(part: Mapping[str, Any]) -> bool:
    """Return whether the grader failed, so that its 0 is not a judgement."""
    if at_path(part, "metadata.graderError") or part.get("error"):
        return True
    reason = str(part.get("reason") or "").lower()
    return not as_score(part.get("score")) and reason.startswith(GRADER_FAILURES)


formats.register("promptfoo")(
    Format(
        "promptfoo",
        "results of promptfoo, version 3",
        "reviews",
        sniff,
        read,
        FIELDS,
        advice=ADVICE,
    )
)
