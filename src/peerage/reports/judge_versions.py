"""The fingerprints of each reviewer: when they were used, how often, and what changed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from peerage.errors import PeerageError, few
from peerage.events import Reviewed, read_events
from peerage.fingerprints import Fingerprint
from peerage.reviews.cells import group
from peerage.reviews.columns import iso
from peerage.reviews.rows import Rows, ballot_codes
from peerage.stores import Store

N_NAMED = 5
COLUMN = "fingerprint"


@dataclass(frozen=True, slots=True)
class JudgeVersion:
    """The reviews of one reviewer with one fingerprint; "" for reviews without one."""

    reviewer: str
    fingerprint: str
    reviews: int
    first: float  # infinite if no time is known
    last: float
    session: str  # its first session, whose log has the parts of the fingerprint

    def __add__(self, other: JudgeVersion) -> JudgeVersion:
        return replace(
            self,
            reviews=self.reviews + other.reviews,
            first=min(self.first, other.first),
            last=max(self.last, other.last),
            session=min((self.first, self.session), (other.first, other.session))[1],
        )


def find_versions(rows: Rows) -> tuple[JudgeVersion, ...]:
    """Return the versions of each reviewer in some whole sessions; people are left out."""
    if COLUMN not in rows.keys or not rows.n:
        return ()
    labels = [*rows.labels[COLUMN].tolist(), ""]
    code = rows.keys[COLUMN] % len(labels)  # −1 becomes the last, ""
    pair = np.where(rows.number("person") == 1, -1, rows.reviewer * len(labels) + code)
    first_of_ballot = group(*ballot_codes(rows)).first_rows()
    pair = pair[first_of_ballot]
    at = rows.number("at")
    versions = []
    for one in np.flatnonzero(np.bincount(pair[pair >= 0])).tolist():
        some = first_of_ballot[pair == one]
        times = np.where(np.isnan(at[some]), math.inf, at[some])
        known = times[np.isfinite(times)]
        session = rows.session_ids[rows.session[some[int(times.argmin())]]]
        versions.append(
            JudgeVersion(
                rows.names[one // len(labels)],
                labels[one % len(labels)],
                len(some),
                float(times.min()),
                float(known.max()) if len(known) else -math.inf,
                session,
            )
        )
    return tuple(versions)


def add_versions(parts: Iterable[Sequence[JudgeVersion]]) -> tuple[JudgeVersion, ...]:
    """Return the merged versions of all blocks: by reviewer, then by time of first review."""
    total: dict[tuple[str, str], JudgeVersion] = {}
    for version in (version for part in parts for version in part):
        key = version.reviewer, version.fingerprint
        total[key] = total[key] + version if key in total else version
    return tuple(sorted(total.values(), key=lambda one: (one.reviewer, one.first, one.fingerprint)))


def changed_judges(versions: Sequence[JudgeVersion]) -> dict[str, list[JudgeVersion]]:
    """Return the reviewers with several fingerprints, each with its versions by time."""
    by_reviewer: dict[str, list[JudgeVersion]] = {}
    for version in versions:
        if version.fingerprint:
            by_reviewer.setdefault(version.reviewer, []).append(version)
    return {name: some for name, some in by_reviewer.items() if len(some) > 1}


def version_flags(versions: Sequence[JudgeVersion]) -> list[str]:
    """Return a flag that names the reviewers whose fingerprint changed, if any."""
    named = [
        f"{name} ({len(some)} fingerprints{_since(some[-1])})"
        for name, some in changed_judges(versions).items()
    ]
    return [f"fingerprints_changed:{len(named)}: {few(named, N_NAMED)}"] if named else []


def _since(version: JudgeVersion) -> str:
    return f", the last since {iso(version.first)[:10]}" if math.isfinite(version.first) else ""


def versions_document(versions: Sequence[JudgeVersion]) -> list[dict[str, Any]]:
    """Return the versions as JSON values; an unknown fingerprint is null."""
    return [
        {
            "reviewer": one.reviewer,
            "fingerprint": one.fingerprint or None,
            "reviews": one.reviews,
            "first": iso(one.first) if math.isfinite(one.first) else None,
            "last": iso(one.last) if math.isfinite(one.last) else None,
            "session": one.session,
        }
        for one in versions
    ]


# -- the parts, from the log -----------------------------------------------------------------------


def recorded_fingerprint(store: Store, version: Mapping[str, Any]) -> Fingerprint | None:
    """Return the parts of a version's fingerprint from the log of its first session, or None."""
    try:
        facts = list(read_events(store.events(version["session"])))
    except PeerageError:
        return None
    prints = (
        fact.made_by
        for fact in facts
        if isinstance(fact, Reviewed) and fact.reviewer == version["reviewer"]
    )
    return next((one for one in prints if one and one.hash == version["fingerprint"]), None)


def describe_versions(store: Store, document: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return versions with what changed since the previous one, if the log has both."""
    described: list[dict[str, Any]] = []
    before: dict[str, Fingerprint] = {}
    n_by_reviewer: dict[str, int] = {}
    for one in document:
        n_by_reviewer[one["reviewer"]] = n_by_reviewer.get(one["reviewer"], 0) + 1
    for one in document:
        name = one["reviewer"]
        several = n_by_reviewer[name] > 1
        parts = recorded_fingerprint(store, one) if several and one["fingerprint"] else None
        entry = dict(one)
        if parts is not None:
            entry["parts"] = asdict(parts)
            if name in before:
                entry["changes"] = before[name].changes_to(parts)
            before[name] = parts
        described.append(entry)
    return described
