"""The one reader of reviewers' replies: any text gives a review, or an abstention with a reason.

The verdict is the last object on its own that has a ranking, evaluations or scores naming a
label of the ballot, or that abstains. What came before it may be a quotation, and so may
anything in thoughts, between quotation marks or inside another object. If the last object
that looks like a verdict cannot be read, nothing before it stands in for it. Only where
there is none at all are tables and lists in prose tried.

A quotation behind the verdict that nothing marks as one cannot be told from a second
thought: the last word counts, which is why reviewers are asked to write nothing after it.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from peerage.council.asides import MENTION
from peerage.council.keys import folded
from peerage.council.labels import Labels, canonical_label
from peerage.council.prose import is_refusal, said_in_prose
from peerage.council.rankings import LISTS, Ranking
from peerage.council.replies import FENCE_AND_SPACE, Found, objects_of
from peerage.council.verdicts import Said, abstain, abstention, names_a_label, read_verdict
from peerage.types import Ballot, Review

__all__ = ["canonical_label", "parse", "review_of"]

# An object that holds nothing but the verdict, as answers to a tool's call do.
ENVELOPES = frozenset(
    {"verdict", "review", "result", "output", "answer", "response", "final", "final_answer"}
    | {"ballot", "data", "json", "judgment", "judgement", "arguments", "parameters"}
)
OTHER_NAMES = {
    "final_ranking": "ranking",
    "rankings": "ranking",
    "evaluation": "evaluations",
    "ratings": "scores",
}
HOW_BY_STATE = {"whole": (), "broken": ("broken_tail",), "cut": ("truncated",)}
STRING_END = re.compile(r"\"\s*+[}\],]")


def parse(text: object, ballot: Ballot) -> Review:
    """What a reviewer's reply says about a ballot; never an exception."""
    if not isinstance(text, str):
        return abstain(ballot, "empty" if text is None else "not_text")
    if not text.strip():
        return abstain(ballot, "empty", text)
    decoded = _json_string(text)
    body = text if decoded is None else decoded
    labels = Labels(ballot)
    reply = objects_of(body, lambda value: names_a_label(value, labels))
    own = [found for found in reply.objects if not found.quoted]
    last = next((found for found in reversed(own) if _is_last_word(found, labels)), None)
    if last is None and len(own) < len(reply.objects):
        last = _quoted_end(reply.objects[-1], body, labels)
    if last is not None:
        said, reason = _stated(last, body, labels), _ruined(last)
    else:
        prose = reply.prose()
        said = _unwrapped(own, body, labels) or said_in_prose(prose, labels)
        reason = _reason(prose, own)
    if said is None:
        return abstain(ballot, reason, text)
    how = said.how if decoded is None else ("json_string", *said.how)
    return read_verdict(said.data, ballot, labels, text, how)


def review_of(data: object, ballot: Ballot, *, raw: str = "") -> Review:
    """The review in a verdict that is JSON already, as a ballots file holds it.

    A list is taken for the ranking alone, and so is a line that is nothing but a ranking.
    """
    labels = Labels(ballot)
    if isinstance(data, str):
        if not Ranking(labels).is_all_labels(data):
            return dataclasses.replace(parse(data, ballot), raw=raw or data)
        data = {"ranking": data}
    if isinstance(data, LISTS):
        data = {"ranking": data}
    if not isinstance(data, Mapping):
        return abstain(ballot, "empty" if data is None else "not_an_object", raw)
    if not data:
        return abstain(ballot, "empty", raw)
    return read_verdict(folded(data), ballot, labels, raw)


# -- which object is the verdict ---------------------------------------------------------------


def _is_last_word(found: Found, labels: Labels) -> bool:
    """Whether this is a verdict or an abstention, or the ruin of one."""
    if found.state != "whole" and found.is_like_a_verdict:
        return True
    return bool(abstention(found.value)) or names_a_label(found.value, labels)


def _quoted_end(found: Found, text: str, labels: Labels) -> Found | None:
    """A verdict between quotation marks, where there is no other and it ends the reply."""
    if text[found.end :].strip(FENCE_AND_SPACE + MENTION) or not _is_last_word(found, labels):
        return None
    return found._replace(repairs=(*found.repairs, "quoted"))


def _stated(found: Found, text: str, labels: Labels) -> Said | None:
    """What a last word says, unless it is a ruin or stands inside one.

    The end of a string and a brace that closes nothing, behind the object, mean that it
    was quoted in the notes of a verdict that forgot to escape it.
    """
    how = HOW_BY_STATE[found.state]
    if how and not (abstention(found.value) or names_a_label(found.value, labels)):
        return None
    if text.find("}", found.end) >= 0:
        tail = text[found.end :]
        if tail.count("}") > tail.count("{") and STRING_END.search(tail):
            return None
    return Said(found.value, found.repairs + how)


def _unwrapped(own: Sequence[Found], text: str, labels: Labels) -> Said | None:
    """A verdict under other names, in an envelope or as a bare list, if it ends the reply.

    None of these is a verdict by the letter, so none is looked for inside a longer text:
    the object must be the reply's only one and its last word.
    """
    if not own:
        ranking = _bare_list(text)
        named = ranking is not None and Ranking(labels).names_a_label(ranking)
        return Said({"ranking": ranking}, ("bare_list",)) if named else None
    found = own[0]
    if len(own) > 1 or found.state != "whole" or text[found.end :].strip(FENCE_AND_SPACE):
        return None
    renamed = {OTHER_NAMES.get(key, key): value for key, value in found.value.items()}
    if names_a_label(renamed, labels):
        return Said(renamed, (*found.repairs, "other_names"))
    inside = [
        folded(value)
        for key, value in found.value.items()
        if key in ENVELOPES and isinstance(value, dict)
    ]
    if len(inside) == 1 and (names_a_label(inside[0], labels) or abstention(inside[0])):
        return Said(inside[0], (*found.repairs, "envelope"))
    return None


def _bare_list(text: str) -> list[Any] | None:
    """A reply that is one list."""
    body = text.strip(FENCE_AND_SPACE).removeprefix("json").lstrip()
    value = _loaded(body) if body.startswith("[") and body.endswith("]") else None
    return value if isinstance(value, list) else None


def _json_string(text: str) -> str | None:
    """The reply inside a reply that was encoded once too often."""
    body = text.strip()
    value = _loaded(body) if body.startswith('"') and body.endswith('"') else None
    return value if isinstance(value, str) else None


def _loaded(body: str) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _ruined(last: Found) -> str:
    return "truncated" if last.state == "cut" else "unparsed"


def _reason(prose: str, own: Sequence[Found]) -> str:
    """Why a reply is an abstention; a refusal is only looked for where nothing was readable."""
    if any(found.is_like_a_verdict for found in own):
        return "no_labels"
    if not own and not prose.strip():
        return "only_thoughts"
    return "refusal" if is_refusal(prose) else "unparsed"
