"""Compare the JSON object of a reply with the form that its prompt asked for.

The form is the JSON schema of the reply. An object fits if it holds nothing that the form does not
have there: no other key, no object in the place of a mark or a text, and no list in the place of a
mark. Whether a value is a mark or a label, and whether a part is missing, is for the reader to say.
A text that a reviewer quoted without escaping it becomes JSON; it can then neither add a part of
another form, nor hide the reviewer's own part in a part that the form does not have.

A reply to a prompt of another tool has a form that is not known. There, keys of votes and labels
may stand only where they are read, and other keys may hold anything else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from peerage.council.prompts import heading
from peerage.council.seals import Object, fold_key
from peerage.text import parts_of

Schema = Mapping[str, Any]
FindLabel = Callable[[object], str | None]

# Keys of one answer's evaluation that are read in other words than the form's.
LABEL_KEYS = ("label", "id", "name", "response", "answer", "candidate", "option", "model")
MARK_KEYS = ("score", "mark", "value", "rating", "points", "grade")
CLAIM_KEYS = ("overall", "total", "score", "overall_score", "total_score", "weighted_score")
NO_MARKS = {*CLAIM_KEYS, *LABEL_KEYS, "rank", "place", "position", "ranking"}
NOTE_KEY = re.compile(
    r"(?P<plain>notes?|comments?|reasons?)|reasoning|rationale|justification|explanation|critiques?"
    r"|feedback|summary|analysis|assessment|remarks?|strengths?|weakness(?:es)?|pros|cons|why|verdict"
)
TEXT: Schema = {"type": "string"}
JUDGED = ("notes", "scores", "evaluations")  # objects with a key for each label
LABELLED = (*JUDGED, "agrees", "ranking")  # with keys that may be labels
HOLISTIC_KEYS, DECISION_KEYS = ("notes", "scores", "agrees"), ("approved", "votes")
VOTE_KEYS = {"abstained", "agrees", "ballot", "evaluations", "ranking", "scores", *DECISION_KEYS}


def fits_form(value: Any, form: Schema, find_label: FindLabel = lambda _: None) -> bool:
    """Return whether a value has no part that its form, a JSON schema, does not have there.

    An empty form is that of a review to an unknown prompt.
    """
    if not form:
        return _fits_unknown_form(value, find_label)
    return _fits(value, form, form.get("$defs", {}), find_label)


def _fits(value: Any, form: Schema, defs: Mapping[str, Schema], find_label: FindLabel) -> bool:
    form = _resolve(form, defs)
    if isinstance(value, Mapping):
        parts = {fold_key(name): part for name, part in form.get("properties", {}).items()}
        forms = ((_part(key, parts, find_label), inner) for key, inner in value.items())
        return all(
            part is not None and _fits(inner, part, defs, find_label) for part, inner in forms
        )
    if isinstance(value, list | tuple):
        return form.get("type") in ("array", "string") and not _keys_of(value)
    return True


def _resolve(form: Schema, defs: Mapping[str, Schema]) -> Schema:
    """Return a part of a schema without its reference and its null."""
    if "anyOf" in form:
        form = next(part for part in form["anyOf"] if part.get("type") != "null")
    return defs[form["$ref"].rpartition("/")[2]] if "$ref" in form else form


def _part(key: str, parts: Mapping[str, Schema], find_label: FindLabel) -> Schema | None:
    """Return the part of the form under a key, which may be a label in other words, or None."""
    name = fold_key(key)
    if name in parts:
        return parts[name]
    label = find_label(key)
    if label is not None:
        return parts.get(fold_key(heading(label)))
    return TEXT if parts.get("notes") == TEXT and _is_beside_marks(name) else None


def _is_beside_marks(name: str) -> bool:
    """Return whether a key of an evaluation is a remark or a total, in words of the reviewer."""
    return name in CLAIM_KEYS or NOTE_KEY.fullmatch(name) is not None


def _fits_unknown_form(value: Object, find_label: FindLabel) -> bool:
    """Return whether a review to an unknown prompt has its votes and labels in their places."""
    parts = {fold_key(key): part for key, part in value.items() if isinstance(key, str)}
    foreign = {*DECISION_KEYS, *(HOLISTIC_KEYS if "evaluations" in parts else ())}
    foreign |= {key for key in _keys_of(parts.get("evaluations")) if not _is_beside_marks(key)}
    if not foreign.isdisjoint(parts):
        return False
    for name, part in parts.items():
        keys, inner = _keys_of(part), part
        if name in LABELLED and isinstance(part, Mapping):
            if name in JUDGED and not all(map(find_label, part)):
                return False
            inner = list(part.values())
        elsewhere = [*_keys_of(inner), *({name} - VOTE_KEYS)]
        if not VOTE_KEYS.isdisjoint(keys) or any(map(find_label, elsewhere)):
            return False
    return True


def _keys_of(value: Any) -> list[str]:
    """Return the keys of all objects in a value, normalised."""
    objects = (part for part in parts_of(value) if isinstance(part, Mapping))
    return [fold_key(key) for one in objects for key in one if isinstance(key, str)]
