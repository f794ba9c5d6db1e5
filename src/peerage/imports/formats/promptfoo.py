"""Results of promptfoo: providers and prompts over test cases, graded by assertions."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
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
    "results.results[]": "the results of versions 2 to 4; of version 1, and of what `evaluate` "
    "returns in a program, `results[]`; of a shared file `data.results.results[]`",
    "evalId or id": "the beginning of the session's id",
    "results.results[].testIdx": "the query; if it is missing, the variables",
    "results.results[].provider.label, id": "the candidate, with the prompt's label if there are "
    "several prompts; the name of the file in versions that do not name it",
    "results.results[].gradingResult.componentResults[]": "a reviewer for each assertion, by its "
    "metric or type; that of type human is a person",
    "results.results[].score": "the score; used only without components",
    "results.results[].response.output": "the words and the text",
    "results.results[].error, failureReason": "an error is an abstention",
    "results.timestamp": "the time",
}
ADVICE = (
    "Name a `metric` and a `provider` in each model-graded assertion: both are part of the "
    "reviewer's name. Two graders of the same outputs show agreement, `--repeat 2` shows "
    "consistency."
)
MAX_LABEL = 60  # characters of a prompt in the name of a candidate
FAILED = 2  # the failureReason of an error; a failed assertion has another
GRADER_FAILURES = (
    "could not extract",
    "failed to parse",
    "grader error",
    "api error",
    "api call error",
    "no output",
    "llm rubric response",
)


PLACES = ("results.results", "results", "data.results.results")


def sniff(beginning: Beginning) -> FormatFit:
    """Return how well a file fits: results of prompts, each with its success or failure."""
    for place in PLACES:
        results = at_path(beginning.record, place)
        if not isinstance(results, list):
            continue
        first = results[0] if results and isinstance(results[0], dict) else {}
        if "prompt" in first and {"success", "gradingResult"} & set(first):
            return FormatFit(4)
        if not results and "prompts" in (
            *beginning.columns,
            *object_at(beginning.record, "results"),
        ):
            return FormatFit(4)  # a run without results
    return needs(beginning.record, "results.version", "results.results", "evalId")


def read(path: Path) -> Iterator[Row]:
    """Yield a row for each assertion on each output."""
    whole = look_at(path).record
    about = object_at(whole, "data") or whole
    eval_id = str(about.get("evalId") or about.get("id") or path.stem)
    at = at_path(about, "results.timestamp") or about.get("createdAt")
    prompts = at_path(about, "results.prompts") or about.get("prompts")
    if prompts is None:  # earlier versions list the prompts after the results
        prompts = (result.get("prompt") for _, result in records(path, *PLACES))
    names = _short_names(dict.fromkeys(filter(None, map(_label, prompts))))
    for _, result in records(path, *PLACES):
        yield from _result(result, eval_id, at, path.stem, names)


def _label(prompt: Any) -> str | None:
    label = at_path(prompt, "label") or at_path(prompt, "display") or at_path(prompt, "raw")
    return str(label) if label else None


def _short_names(labels: Iterable[str]) -> dict[str, str]:
    """Return a name for each prompt if there are several; long labels are cut and numbered."""
    all_labels = list(labels)
    names = [text if len(text) <= MAX_LABEL else f"{text[:MAX_LABEL]}…" for text in all_labels]
    numbered = [
        name if names.count(name) == 1 else f"{name} {names[: i + 1].count(name)}"
        for i, name in enumerate(names)
    ]
    return dict(zip(all_labels, numbered, strict=True)) if len(all_labels) > 1 else {}


def _test(result: Record) -> str:
    """Return the number of the test, or a digest of its variables if it has no number."""
    index = result.get("testIdx", result.get("rowIdx"))
    if index is not None:
        return str(index)
    return hashlib.sha256(json.dumps(result.get("vars"), sort_keys=True).encode()).hexdigest()[:8]


def _result(
    result: Record, eval_id: str, at: Any, file_name: str, prompts: Mapping[str, str]
) -> Iterator[Row]:
    provider = result.get("provider")
    name = at_path(provider, "label") or at_path(provider, "id") or provider or file_name
    prompt = prompts.get(_label(result.get("prompt")) or "")
    response = result.get("response", result.get("providerResponse"))
    output = model_text(at_path(response, "output"))
    session = f"{eval_id} test {_test(result)}"
    common = {
        "session_id": session,
        "query_id": session,
        "candidate": f"{name} ({prompt})" if prompt else str(name),
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
        given = as_score(result.get("score", result.get("success")))
        score = None if is_error else given
        yield {**common, "reviewer": "promptfoo", "score": score}


def _assertion(part: Mapping[str, Any]) -> str:
    """Return the name of an assertion: its metric or else its type, and its grader."""
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
        "results of promptfoo",
        "reviews",
        sniff,
        read,
        FIELDS,
        grades_alone=True,
        advice=ADVICE,
    )
)
