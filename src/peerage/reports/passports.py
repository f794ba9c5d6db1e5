"""Judge passports: signed facts about a reviewer that can be recomputed from the log.

A passport is an in-toto statement in a DSSE envelope, signed with Ed25519. Its payload is canonical
JSON computed from the log alone: the digest of every session and imported table, the reviewer's
fingerprints, the findings of its audit with their power, its agreement with people, and the panel's
effective votes. The owner of the store can produce the same bytes again; if a mark in the log was
changed, the digest of its session differs and the passport is refused. Names follow the proposed
`eval-result` predicate where they fit (evaluator, claims, evidence).
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from peerage.config import Settings
from peerage.engines import engines
from peerage.engines.duckdb import write_parquet
from peerage.engines.mirror import COLUMNS, Mirror
from peerage.engines.review_tables import ReviewTable, read_reviews
from peerage.errors import InputError, PeerageError, UsageError, few, how_many, install_command
from peerage.event_facts import is_deleted, is_over, opening_of
from peerage.events import KIND_BY_TYPE, Reviewed, read_events
from peerage.findings import Finding
from peerage.reports.audits import audit_reviews
from peerage.reports.options import AuditOptions
from peerage.reports.people_reviews import add_decisions, find_marked, people_departures
from peerage.reports.recounts import known_names, names_in
from peerage.reports.stored_reviews import check_row, list_imported, review_rows
from peerage.reviews.columns import MARK, iso
from peerage.scoring import recorded_rubric
from peerage.stores import Store
from peerage.types import Event

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:peerage:judge-passport:v1"
PAYLOAD = "application/vnd.in-toto+json"
DIGITS = 9  # significant digits of the figures, so that the last bits of sums do not matter
MAX_BYTES = 100_000_000  # of a passport file
N_NAMED = 3


# -- what a passport says --------------------------------------------------------------------------


def canonical_bytes(document: Any) -> bytes:
    """Return a document as JSON with sorted keys and no blanks: the same bytes everywhere."""
    text = json.dumps(
        document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return text.encode("utf-8", "surrogatepass")


def event_digest(events: Iterable[Event]) -> str:
    """Return the SHA-256 of some events of one session."""
    rows = [[one.session_id, one.seq, one.kind, one.at, one.body] for one in events]
    return hashlib.sha256(canonical_bytes(rows)).hexdigest()


def session_evidence(store: Store) -> list[dict[str, Any]]:
    """Return every finished session that is not deleted, with its last event and its digest."""
    evidence = []
    for entry in store.sessions():
        events = store.events(entry.id)
        if is_over(events) and not is_deleted(read_events(events)):
            digest = event_digest(events)
            evidence.append({"session": entry.id, "last": events[-1].seq, "sha256": digest})
    return sorted(evidence, key=lambda one: str(one["session"]))


def table_evidence(store: Store) -> list[dict[str, Any]]:
    """Return the imported tables of reviews with the digests of their bytes."""
    entries = [one for one in store.imports() if one.kind == "reviews" and one.deleted_at is None]
    return sorted(
        ({"table": one.name, "sha256": _table_digest(store, one.id)} for one in entries),
        key=lambda one: (one["sha256"], one["table"]),
    )


def _table_digest(store: Store, id_: int) -> str:
    digest = hashlib.sha256()
    for part in store.import_parts(id_):
        digest.update(part)
    return digest.hexdigest()


def make_statement(
    store: Store, settings: Settings, reviewer: str, evidence: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the statement on a reviewer, from the whole store or from given evidence."""
    if evidence is None:
        evidence = {"sessions": session_evidence(store), "tables": table_evidence(store)}
    logs = [
        [event for event in store.events(one["session"]) if event.seq <= one["last"]]
        for one in evidence["sessions"]
    ]
    prints = _fingerprints(logs, reviewer)
    with tempfile.TemporaryDirectory() as folder:
        table = _table(store, settings, logs, evidence["tables"], Path(folder))
        findings, votes, people = _findings(table, settings, reviewer)
    ends = [log[-1].at for log in logs if log]
    data = hashlib.sha256(canonical_bytes(evidence)).hexdigest()
    predicate = {
        "evaluator": {"id": "peerage", "version": version("peerage")},
        "evaluatedAt": iso(max(ends)) if ends else None,
        "reviewer": reviewer,
        "fingerprint": prints[-1] if prints else None,
        "fingerprints": prints,
        "expires": "with its fingerprint" if prints else "has no fingerprint: imported reviews",
        "claims": [_claim(finding) for finding in findings],
        "people": people,
        "effectiveVotes": votes,
        "evidence": evidence,
    }
    return {
        "_type": STATEMENT,
        "subject": [{"name": f"reviewer {reviewer}", "digest": {"sha256": data}}],
        "predicateType": PREDICATE,
        "predicate": _round_floats(predicate),
    }


def _fingerprints(logs: Iterable[list[Event]], reviewer: str) -> list[dict[str, Any]]:
    """Return the reviewer's fingerprints in the order of first use."""
    seen: dict[str, dict[str, Any]] = {}
    timed = []
    for log in logs:
        for event, fact in zip(log, map(_read_review, log), strict=True):
            if fact is not None and fact.reviewer == reviewer and fact.made_by is not None:
                timed.append((event.at, event.session_id, fact.made_by))
    for _, _, made_by in sorted(timed, key=lambda one: (one[0], one[1])):
        entry = seen.setdefault(
            made_by.hash, {"hash": made_by.hash, **asdict(made_by), "reviews": 0}
        )
        entry["reviews"] += 1
    return list(seen.values())


def _read_review(event: Event) -> Reviewed | None:
    if event.kind != KIND_BY_TYPE[Reviewed]:
        return None
    fact = next(iter(read_events([event])), None)
    return fact if isinstance(fact, Reviewed) else None


def _table(
    store: Store,
    settings: Settings,
    logs: Sequence[list[Event]],
    tables: Sequence[Mapping[str, Any]],
    folder: Path,
) -> ReviewTable:
    """Return the reviews of some logs and imported tables as one table."""
    engine = engines.get("duckdb")()
    files: list[Path] = []
    rows: list[dict[str, Any]] = []
    for log in logs:
        rubric = recorded_rubric(settings, opening_of(log))
        rows += [check_row(row) for row in review_rows(log, rubric)]
    if rows:
        marks = sorted({name for row in rows for name in row if name.startswith(MARK)})
        kinds = {**{name: kind.lower() for name, kind in COLUMNS.items()}}
        kinds |= dict.fromkeys(marks, "double")
        columns = {
            name: [
                math.nan if (value := row.get(name)) is None and kind != "varchar" else value
                for row in rows
            ]
            for name, kind in kinds.items()
        }
        files.append(folder / "reviews.parquet")
        write_parquet(columns, kinds, files[-1])
    if tables:
        files += list_imported(store, Mirror(store.mirror_folder), "reviews")
    if not files:
        raise InputError("the store has no reviews yet.")
    engine.admit(*{file.parent for file in files})
    return read_reviews(engine, files)


def _findings(
    table: ReviewTable, settings: Settings, reviewer: str
) -> tuple[list[Finding], Any, Any]:
    """Return the reviewer's findings, the effective votes, and its departures from people."""
    loaded = table.load()
    known_names([reviewer], names_in(loaded, "reviewer"), "reviewer")
    audit = audit_reviews(table, AuditOptions(), settings.audit.limits, settings.rubric_for(""))
    votes = next((one for one in audit.findings if one.metric == "effective_votes"), None)
    people = None
    if named := find_marked(add_decisions(loaded)) - {reviewer}:
        departures = _about(people_departures(loaded, named), reviewer)
        people = {"people": len(named), "claims": [_claim(one) for one in departures]}
    return _about(audit.findings, reviewer), None if votes is None else _claim(votes), people


def _about(findings: Iterable[Finding], reviewer: str) -> list[Finding]:
    start = f"{reviewer}>"
    return [one for one in findings if one.subject == reviewer or one.subject.startswith(start)]


def _claim(finding: Finding) -> dict[str, Any]:
    """Return a finding with its power as a claim."""
    claim = finding._asdict()
    return {
        "metric": claim.pop("metric"),
        "subject": claim.pop("subject"),
        "value": claim.pop("value"),
        "interval": [claim.pop("low"), claim.pop("high")],
        "n": claim.pop("n"),
        "status": claim.pop("status"),
        "healthyWithin": claim.pop("edge"),
        "smallestDetectable": claim.pop("mde"),
        "nNeeded": claim.pop("n_needed"),
        **claim,
    }


def _round_floats(value: Any) -> Any:
    """Return JSON values with floats rounded to a few significant digits."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") + 0.0 if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _round_floats(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_round_floats(member) for member in value]
    return value


# -- signing ---------------------------------------------------------------------------------------


def _crypto() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ModuleNotFoundError:
        raise UsageError(
            "passports need the package cryptography.", hint=f"Try: {install_command('signing')}"
        ) from None
    return ed25519


def pre_authentication(payload: bytes) -> bytes:
    """Return the bytes that DSSE signs: the type and the payload, each with its length."""
    kind = PAYLOAD.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def load_key(path: Path) -> tuple[Any, bool]:
    """Return the private key in a PEM file and whether it is new; create a missing file."""
    ed25519 = _crypto()
    from cryptography.hazmat.primitives import serialization as form

    if path.exists():
        try:
            key = form.load_pem_private_key(path.read_bytes(), password=None)
        except (ValueError, TypeError):
            key = None
        if not isinstance(key, ed25519.Ed25519PrivateKey):
            raise UsageError("this is not an Ed25519 private key in PEM.", place=str(path))
        return key, False
    key = ed25519.Ed25519PrivateKey.generate()
    pem = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    path.touch(mode=0o600, exist_ok=False)
    path.write_bytes(pem)
    return key, True


def sign_statement(statement: Mapping[str, Any], key: Any) -> dict[str, Any]:
    """Return the DSSE envelope of a statement."""
    payload = canonical_bytes(statement)
    public = key.public_key().public_bytes_raw()
    signature = key.sign(pre_authentication(payload))
    return {
        "payloadType": PAYLOAD,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [
            {
                "keyid": hashlib.sha256(public).hexdigest(),
                "sig": base64.b64encode(signature).decode(),
                "publicKey": base64.b64encode(public).decode(),
            }
        ],
    }


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of checking a passport: reproduced, expired, different or refused."""

    status: str
    reviewer: str
    keyid: str
    differences: tuple[str, ...] = ()
    sessions: int = 0

    @property
    def is_reproduced(self) -> bool:
        """Return whether the log gives the same bytes as the passport."""
        return self.status == "reproduced"

    def document(self) -> dict[str, Any]:
        """Return the JSON of the result."""
        return asdict(self)


def open_envelope(data: bytes, public_key: bytes | None = None) -> tuple[bytes, str]:
    """Return the payload of an envelope with a valid signature, and the id of its key."""
    ed25519 = _crypto()
    from cryptography.exceptions import InvalidSignature

    try:
        envelope = json.loads(data)
        payload = base64.b64decode(envelope["payload"], validate=True)
        one = envelope["signatures"][0]
        public = base64.b64decode(one["publicKey"], validate=True)
        signature = base64.b64decode(one["sig"], validate=True)
        is_ours = envelope["payloadType"] == PAYLOAD
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        raise InputError(
            "this is not a passport: it must be a DSSE envelope with a signature."
        ) from None
    if not is_ours:
        raise InputError("this envelope does not contain an in-toto statement.")
    if public_key is not None and public_key != public:
        raise InputError("refused: the passport is signed with another key, not the given one.")
    try:
        ed25519.Ed25519PublicKey.from_public_bytes(public).verify(
            signature, pre_authentication(payload)
        )
    except (InvalidSignature, ValueError):
        raise InputError("refused: the signature does not match the payload.") from None
    return payload, hashlib.sha256(public).hexdigest()


def verify_passport(
    store: Store, settings: Settings, data: bytes, public_key: bytes | None = None
) -> Verification:
    """Recompute a passport from a store's log, and return whether the bytes are equal."""
    payload, keyid = open_envelope(data, public_key)
    statement, predicate = _read_statement(payload)
    reviewer, evidence = predicate["reviewer"], predicate["evidence"]
    result = Verification("refused", reviewer, keyid, sessions=len(evidence["sessions"]))
    if differences := _changed_evidence(store, evidence):
        return replace(result, differences=tuple(differences))
    again = make_statement(store, settings, reviewer, evidence)
    if canonical_bytes(again) != payload:
        return replace(
            result, status="different", differences=tuple(_differences(statement, again))
        )
    latest = _latest_print(store, reviewer)
    own = (predicate["fingerprint"] or {}).get("hash")
    if latest is not None and latest != own:
        words = f"its fingerprint was {own or 'none'} and is {latest} now"
        return replace(result, status="expired", differences=(words,))
    return replace(result, status="reproduced")


def _read_statement(payload: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        statement = json.loads(payload)
        predicate = statement["predicate"]
        if statement["predicateType"] != PREDICATE:
            raise InputError("this statement is not a judge passport.")
        ids = [(str(one["session"]), int(one["last"])) for one in predicate["evidence"]["sessions"]]
        tables = [str(one["sha256"]) for one in predicate["evidence"]["tables"]]
        is_whole = isinstance(predicate["reviewer"], str) and len(ids) + len(tables) > 0
    except (ValueError, KeyError, TypeError):
        is_whole = False
    if not is_whole:
        raise InputError("this passport cannot be read: parts of its statement are missing.")
    return statement, predicate


def _changed_evidence(store: Store, evidence: Mapping[str, Any]) -> list[str]:
    """Return the differences between the evidence and the log, in words."""
    changed, missing = [], []
    for one in evidence["sessions"]:
        try:
            events = [event for event in store.events(one["session"]) if event.seq <= one["last"]]
        except PeerageError:
            events = []
        if not events:
            missing.append(one["session"])
        elif event_digest(events) != one["sha256"]:
            changed.append(one["session"])
    digests = {entry["sha256"] for entry in table_evidence(store)}
    tables = [one["table"] for one in evidence["tables"] if one["sha256"] not in digests]
    n = len(evidence["sessions"]) + len(evidence["tables"])
    if len(missing) + len(tables) == n:
        what = how_many(n, "session or table", "sessions and tables")
        return [f"made from another store: none of its {what} is here"]
    differences = []
    if changed:
        listed = few(changed, N_NAMED)
        were = how_many(len(changed), "session was", "sessions were")
        differences.append(f"{were} changed in the log since: {listed}")
    if missing:
        differences.append(f"{how_many(len(missing), 'session')} not here: {few(missing, N_NAMED)}")
    if tables:
        named = few(tables, N_NAMED)
        differences.append(f"{how_many(len(tables), 'table')} changed or not here: {named}")
    return differences


def _differences(stated: Mapping[str, Any], again: Mapping[str, Any]) -> list[str]:
    """Return the parts of a statement that differ when computed again."""
    before, after = stated["predicate"], again["predicate"]
    if before.get("evaluator") != after.get("evaluator"):
        made, here = (one.get("evaluator", {}).get("version") for one in (before, after))
        return [f"made by peerage {made}; this is {here}, which may compute differently"]
    parts = [
        name for name in after if canonical_bytes(before.get(name)) != canonical_bytes(after[name])
    ]
    return [f"{name} differs from the log" for name in parts] or ["the statement's frame"]


def _latest_print(store: Store, reviewer: str) -> str | None:
    """Return the hash of the reviewer's latest fingerprint in the log."""
    for entry in reversed(store.sessions()):
        facts = read_events(store.events(entry.id))
        prints = [
            fact.made_by.hash
            for fact in facts
            if isinstance(fact, Reviewed) and fact.reviewer == reviewer and fact.made_by is not None
        ]
        if prints:
            return prints[-1]
    return None


@dataclass(frozen=True, slots=True)
class PassportStatement:
    """The statement of a passport, computed from the log; not signed."""

    statement: Mapping[str, Any]

    def document(self) -> dict[str, Any]:
        """Return the JSON that is signed."""
        return dict(self.statement)


def make_passport(store: Store, settings: Settings, reviewer: str, key: Any) -> dict[str, Any]:
    """Return the signed passport of a reviewer of this store."""
    return sign_statement(make_statement(store, settings, reviewer), key)
