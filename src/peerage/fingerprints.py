"""Fingerprints: what a review depends on besides the question and the answers.

Two reviews with the same fingerprint were made by the same model under the same instructions and
were read by the same rules, so their marks can be compared. The parts are in the log with every
review; the reviews table has a short hash of them in its column `fingerprint`. Reviews by people
and imported reviews have none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any
from urllib.parse import urlsplit

from peerage.types import OMITTED, ReviewKind, Rubric

N_CHARACTERS = 12  # of a fingerprint's hash


def short_hash(value: Any) -> str:
    """Return the first characters of the SHA-256 of a value's canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:N_CHARACTERS]


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The parts that a review depends on; long or private texts are replaced by hashes."""

    model: str  # the id that the endpoint answered with, or the configured one if it gave none
    endpoint: str  # provider and address, without credentials
    prompt: str  # hash of the review prompt and of the seat's system text
    rubric: str  # hash of the rubric with its texts; "" if each answer gets one score
    labels: str  # how answers are named and ordered
    scale: str  # of the marks
    temperature: float
    effort: str  # of reasoning, as requested
    output: str  # "schema" if one was sent with the call, "probabilities", or "text"
    options: str  # hash of the provider's further options and of the token limit
    reader: str  # version of the rules that replies are read by
    review: ReviewKind = field(default="blind", metadata=OMITTED)  # "committed": own answer first

    @property
    def hash(self) -> str:
        """Return the short hash that stands for all parts.

        A part that earlier versions lacked is left out of the hash while it has its default.
        """
        parts = {
            part.name: value
            for part in fields(self)
            if (value := getattr(self, part.name)) != part.default or "omitted" not in part.metadata
        }
        return short_hash(parts)

    def changes_to(self, later: Fingerprint) -> list[str]:
        """Return a phrase for each part that differs, as in `model a → b`."""
        return [
            f"{part.name} {before or 'none'} → {after or 'none'}"
            for part in fields(self)
            if (before := getattr(self, part.name)) != (after := getattr(later, part.name))
        ]


def endpoint_of(provider: str, base_url: str) -> str:
    """Return a provider and the address it calls, without user, password or query."""
    parts = urlsplit(base_url)
    try:
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        port = ""
    address = f"{parts.hostname or ''}{port}{parts.path.rstrip('/')}"
    return f"{provider} {address}" if address else provider


def options_hash(options: Mapping[str, Any], max_tokens: int) -> str:
    """Return the hash of a provider's options and of the token limit of a review."""
    return short_hash([sorted(options.items()), max_tokens])


def rubric_hash(rubric: Rubric) -> str:
    """Return the hash of a rubric with its texts, ignoring its name."""
    weights = {name: str(weight) for name, weight in rubric.weights.items()}
    texts = [[one.name, one.question, one.anchors] for one in rubric.dimensions]
    return short_hash([weights, texts, rubric.ceilings])
