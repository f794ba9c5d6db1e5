"""Read replies that were written elsewhere and carry no code of ours.

Such a text is read as its sender says: as JSON, by its last object that names a label, or by a
list under "FINAL RANKING:". Nothing protects it from what an answer may have planted in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from peerage.council.ballots import Decision, abstain, decision_of, review_of
from peerage.council.seals import read_object, without_thinking
from peerage.text import valid_text
from peerage.types import Ballot, Review

MAX_UNREAD = 200  # braces of prose that are tried in vain before the search is given up
MAX_LINES = 2_000
FINAL_RANKING = re.compile(r"^.{0,80}?\bfinal ranking\b[^\n:]{0,80}:", re.IGNORECASE | re.MULTILINE)
LISTED = re.compile(r"[ \t*_#(]{0,20}+(?:\d{1,4}[.):]|[-*•])[*_)\s]{0,20}+(\S.{0,500})")


def read_foreign(text: object, ballot: Ballot) -> Review:
    """Return the review in a reply that has no code; never an exception."""
    if not isinstance(text, str) or not text.strip():
        return abstain(ballot, "not_text" if text and not isinstance(text, str) else "empty", "")
    body = valid_text(without_thinking(text).strip())
    for value, flags in _values(body):
        review = review_of(value, ballot, raw=text, flags=flags)
        if review.abstained not in ("no_labels", "empty", "not_an_object"):
            return review
    review = review_of(_final_ranking(body) or body, ballot, raw=text)
    ranked = any(name in ballot.author_by_label for tier in review.ranking for name in tier)
    return review if ranked else abstain(ballot, "unparsed", text)


def decision_in(text: str) -> Decision:
    """Return the decision that an old log's reply seems to give, to be shown and not counted."""
    decisions = (decision_of(value) for value, _ in _values(text) if isinstance(value, dict))
    undecided = Decision(None, flag="no_decision")
    return next((one for one in decisions if one.approved is not None), undecided)


def _values(text: str) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """Yield the JSON that a text is, or else its top-level objects, the last first, with flags."""
    values: list[tuple[Any, tuple[str, ...]]] = []
    at, n_unread = 0, 0
    try:
        values.append((json.loads(text), ()))
    except (ValueError, RecursionError):
        while (at := text.find("{", at)) >= 0 and n_unread < MAX_UNREAD:
            try:
                value, at, is_mended = read_object(text, at)
                values.append((value, ("recovered:mended",) if is_mended else ()))
            except (ValueError, RecursionError):
                at, n_unread = at + 1, n_unread + 1
    yield from reversed(values)


def _final_ranking(text: str) -> list[str] | str:
    """Return the items under the last "FINAL RANKING:", or the line behind it."""
    headings = list(FINAL_RANKING.finditer(text))
    if not headings:
        return ""
    lines = text[headings[-1].end() :].strip().splitlines()[:MAX_LINES]
    items = [match[1] for line in lines if (match := LISTED.match(line))]
    return items or "".join(lines[:1])
