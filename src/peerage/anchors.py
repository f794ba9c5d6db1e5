"""Anchors: sessions whose answers are judged again, to detect whether a judge has changed.

The answers of an anchor never change, so a change in its marks comes from the judge. A check judges
each anchor again through the orchestrator, with its stored answers, and appends each judge's review
(a look) to the anchor's log; boards do not count it. `stats/drift.py` decides when to raise an
alarm.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from peerage.bills import CallMade, bill_of, billed_calls, total_cost
from peerage.config import Settings
from peerage.council.counting import count, place
from peerage.council.readings import person_review, review_in
from peerage.curation import MAX_TRIES, append_to_each
from peerage.dry_runs import NoLog
from peerage.errors import InputError, PeerageError, few, how_many
from peerage.event_facts import is_over, opening_of, tags_of
from peerage.events import (
    Dealt,
    DealtBallot,
    Fact,
    Failed,
    Rechecked,
    Reviewed,
    Tagged,
    read_event,
    read_events,
    stored_event,
)
from peerage.fingerprints import Fingerprint
from peerage.notebooks import Tabular
from peerage.panel import Council
from peerage.reports import Reports
from peerage.reports.session_options import AnchorOptions
from peerage.reviews.cells import Floats
from peerage.reviews.columns import instant_s, iso
from peerage.reviews.rows import Rows
from peerage.scoring import recorded_rubric
from peerage.session import run
from peerage.session_config import SessionConfig, SessionSpec
from peerage.stats.drift import (
    ALPHA,
    HORIZON,
    MIN_LOOKS,
    MIN_REPEATS,
    count_baseline,
    find_change,
    level_shifts,
)
from peerage.stores import SessionTakenError, Store, kept_season
from peerage.types import Answer, Ballot, Event, Review, Rubric, Seat, Usage
from peerage.view import fold

log = logging.getLogger("peerage.anchors")
TAG = "anchor"
RETRY_S = 3_600.0  # longest pause; a new set of anchors is noticed within it
CONCURRENCY = 8
N_NAMED = 3
OVERALL = ""  # key of the overall marks of a look; other keys are dimensions
BEST, RANGE = 10.0, 9.0  # a ranking becomes marks from 10 (first) to 1 (last)
Clock = Callable[[], float]


# -- the set ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AnchorSet:
    """The sessions that are anchors, and those that no longer are."""

    season: str
    sessions: tuple[str, ...]
    removed: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """Return the JSON of the set."""
        return asdict(self)


def set_anchors(store: Store, options: AnchorOptions, clock: Clock) -> AnchorSet:
    """Make randomly drawn finished sessions of a season the anchors, replacing earlier ones."""
    season = kept_season(store, options.season)
    usable = sessions_to_judge(store, season)
    drawn = sorted(usable, key=lambda id_: hashlib.sha256(f"{season}|{id_}".encode()).digest())
    chosen = sorted(drawn[: options.n])
    before = [one.id for one in store.sessions(tag=TAG)]

    def change(id_: str) -> Tagged | None:
        tags = set(tags_of(read_events(store.events(id_))))
        after = (tags | {TAG}) if id_ in chosen else tags - {TAG}
        return Tagged(tuple(sorted(after))) if after != tags else None

    append_to_each(store, sorted({*chosen, *before}), change, clock)
    return AnchorSet(season, tuple(chosen), tuple(sorted(set(before) - set(chosen))))


def sessions_to_judge(store: Store, season: str) -> list[str]:
    """Return the sessions of a season that can be judged again; without any, raise an error."""
    usable = [one.id for one in store.sessions(season) if has_answers(store, one.id)]
    if not usable:
        raise InputError(
            f"no finished session of season {season} has two answers that can be judged again.",
            hint="`peerage sessions` lists sessions and their seasons.",
        )
    return usable


def has_answers(store: Store, id_: str) -> bool:
    """Return whether a session is over and has two answers that can be judged again."""
    try:
        events = store.events(id_)
        return is_over(events) and len(stored_answers(events)) > 1
    except PeerageError:
        return False


def stored_answers(events: list[Event]) -> dict[str, Answer]:
    """Return the answers of a session that have a text, by candidate."""
    return {one.model: one.answer for one in fold(events).responses if one.text.strip()}


# -- a check ---------------------------------------------------------------------------------------


async def check_anchors(council: Council, clock: Clock) -> AnchorReport:
    """Have every reviewing seat judge each anchor again, store the reviews, and report."""
    store = council.store
    anchors = _anchors(store)
    gone = [id_ for id_ in anchors if not has_answers(store, id_)]
    if len(gone) == len(anchors):
        raise InputError(
            f"the answers of all {len(anchors)} anchors are gone, so they cannot be judged again.",
            hint="Choose others: `peerage anchors set SEASON`.",
        )
    number = 1 + max((fact.check for id_ in anchors for fact in _rechecks(store, id_)), default=0)
    turn = asyncio.Semaphore(CONCURRENCY)

    async def check(id_: str) -> list[str]:
        async with turn:
            return await _recheck(council, id_, number, clock)

    failures = await asyncio.gather(*(check(id_) for id_ in anchors if id_ not in gone))
    report = report_anchors(store, council.settings)
    failed = tuple(sorted({one for some in failures for one in some}))
    return replace(report, gone=tuple(gone), failed=failed)


async def keep_checking(council: Council, every_s: float, clock: Clock) -> None:
    """Check the anchors whenever the latest check is `every_s` seconds old; log changed judges."""
    while True:
        wait_s = RETRY_S
        try:
            report = report_anchors(council.store, council.settings)
            latest = instant_s(report.checks[-1]) if report.checks else -math.inf
            wait_s = latest + every_s - clock()
            if wait_s <= 0:
                report = await check_anchors(council, clock)
                changed = [one.judge for one in report.judges if one.status == "changed"]
                if changed:
                    log.warning("judges changed on the anchors: %s", ", ".join(changed))
                wait_s = every_s
        except PeerageError as error:
            log.warning("the anchors could not be checked: %s", error)
        await asyncio.sleep(min(max(wait_s, 1.0), RETRY_S))


def _anchors(store: Store) -> list[str]:
    anchors = [one.id for one in store.sessions(tag=TAG)]
    if not anchors:
        raise InputError(
            "no session is an anchor yet.", hint="Choose some: `peerage anchors set SEASON --n 30`."
        )
    return anchors


def _rechecks(store: Store, id_: str) -> list[Rechecked]:
    facts = read_events(store.events(id_))
    return [fact for fact in facts if isinstance(fact, Rechecked) and not fact.key]


async def _recheck(council: Council, id_: str, number: int, clock: Clock) -> list[str]:
    """Judge one anchor again; return a phrase for each failure."""
    events = council.store.events(id_)
    opened = opening_of(events)
    config = council.session_config(opened.query.category)
    config = with_judges(config, config.seats_that("review"))
    spec = SessionSpec(
        id=f"{id_}-{number}",
        query=opened.query,
        seed=opened.seed,
        ordinal=opened.ordinal + number,  # so that orders rotate from check to check
        answers=stored_answers(events),
    )
    failures: list[str] = []
    looks: list[Rechecked] = []
    async for look in judge_again(council, spec, config, clock):
        if isinstance(look, Failed):
            failures.append(f"{look.seat}: {look.kind}")
        else:
            looks.append(replace(look, check=number))
    append_looks(council.store, id_, looks, clock)
    return failures


def with_judges(config: SessionConfig, seats: Iterable[Seat]) -> SessionConfig:
    """Return a configuration in which these seats judge stored answers: one round, no verdict."""
    judges = tuple(replace(seat, roles=("review",)) for seat in seats)
    judging = config.with_options(audit=False, safety_gate=False, verdict="none", rounds=1)
    return replace(judging, seats=judges)


async def judge_again(
    council: Council, spec: SessionSpec, config: SessionConfig, clock: Clock
) -> AsyncGenerator[Rechecked | Failed, None]:
    """Run a session over given answers; yield each judge's review or failure as it arrives.

    The usage in a review covers all calls to its judge.
    """
    ballots: dict[str, DealtBallot] = {}
    facts: list[Fact] = []
    async for event in run(spec, config, council.caller, NoLog(), clock=clock):
        fact = read_event(event)
        facts += [fact] if fact is not None else []
        match fact:
            case Failed():
                yield fact
            case Dealt():
                ballots |= {ballot.reviewer: ballot for ballot in fact.ballots}
            case Reviewed() if fact.review is not None:
                calls = [one for one in billed_calls(facts) if one.seat == fact.reviewer]
                bill = bill_of(calls)
                usd = None if bill.n_unpriced else bill.usd
                usage = Usage(bill.tokens_in, bill.tokens_out, usd) if calls else None
                yield Rechecked(0, ballots[fact.reviewer], fact.review, fact.made_by, usage)


def append_looks(store: Store, id_: str, looks: Sequence[Rechecked], clock: Clock) -> None:
    """Append the reviews of one check to the log of their anchor, all or none."""
    for _ in range(MAX_TRIES):
        first, at = store.last_place(id_) + 1, clock()
        events = [stored_event(id_, first + i, at, look) for i, look in enumerate(looks)]
        try:
            store.append_all(events)
        except SessionTakenError:  # another process wrote to it first, so try again
            continue
        return
    raise SessionTakenError("other processes keep writing to this session.", hint="Try again.")


# -- the report ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JudgeDrift:
    """One judge's results on the anchors: its baseline, its latest shift, and its changes."""

    judge: str
    status: str  # "baseline", "steady" or "changed"
    checks: int
    n_baseline: int  # looks
    shift: float | None  # of the latest check against the baseline, in points
    shift_low: float | None
    shift_high: float | None
    evidence: float | None  # as a multiple of the alarm's threshold
    changes: tuple[Mapping[str, Any], ...] = ()  # each with check, since, kind and shift
    fingerprints: tuple[str, ...] = ()  # phrases for the changes between checks
    shifts: tuple[float | None, ...] = ()  # of every check


@dataclass(frozen=True, slots=True, repr=False)
class AnchorReport(Tabular):
    """The drift of every judge on the anchors."""

    anchors: tuple[str, ...]
    judges: tuple[JudgeDrift, ...]
    checks: tuple[str, ...]  # the time of each
    candidates: tuple[Mapping[str, Any], ...] = ()  # their shifts beyond the judges' own
    cost_usd: float = 0.0  # of all checks, as far as known
    gone: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def has_alarm(self) -> bool:
        """Return whether a judge changed."""
        return any(one.status == "changed" for one in self.judges)

    def table(self) -> dict[str, list[Any]]:
        names = ("judge", "status", "checks", "shift", "shift_low", "shift_high", "evidence")
        return {name: [getattr(one, name) for one in self.judges] for name in names}

    def document(self) -> dict[str, Any]:
        """Return the JSON of the report."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        judges = [asdict(one) for one in self.judges]
        return {**values, "judges": judges, "alpha": ALPHA, "horizon_checks": HORIZON}


@dataclass(frozen=True, slots=True)
class _Look:
    parts: Mapping[str, Mapping[str, float]]  # marks by OVERALL or dimension, then by answer
    fingerprint: Fingerprint | None
    at: float


def report_anchors(store: Store, settings: Settings) -> AnchorReport:
    """Return the report on every judge, computed from the anchors' logs alone."""
    anchors = _anchors(store)
    looks: dict[str, dict[int, dict[str, _Look]]] = {}  # by judge, check (0: first) and anchor
    times: dict[int, float] = {}
    calls: list[CallMade] = []
    for id_ in anchors:
        for number, judge, look, usage in _looks_of(store, settings, id_):
            looks.setdefault(judge, {}).setdefault(number, {})[id_] = look
            if number:
                times[number] = min(times.get(number, look.at), look.at)
                calls.append(CallMade(judge, "review", 0, usage))
    judges = [name for name in sorted(looks) if any(looks[name])]
    drifts = tuple(
        _drift_of(name, looks[name], anchors, len(judges), sorted(times)) for name in judges
    )
    cost, _ = total_cost(call for call in calls if call.usage is not None)
    notes = _notes(anchors, drifts)
    moments = tuple(iso(times[number]) for number in sorted(times))
    return AnchorReport(tuple(anchors), drifts, moments, (), cost, notes=notes)


def _looks_of(store: Store, settings: Settings, id_: str) -> list[tuple[int, str, _Look, Any]]:
    """Return all reviews of one anchor with their checks; check 0 is the session itself."""
    events = store.events(id_)
    session, rubric = fold(events), recorded_rubric(settings, opening_of(events))
    ballots = {(one.reviewer, one.round): one for one in session.ballots}
    looks = []
    for event in events:
        match read_event(event):
            case Reviewed() as fact if fact.round == 0:
                ballot = ballots[fact.reviewer, 0]
                number, review, usage = 0, review_in(fact, ballot), None
            case Rechecked(key="") as fact:
                ballot, review = person_review(session, fact)
                number, usage = fact.check, fact.usage
            case _:
                continue
        parts = _parts_of(ballot, review, rubric)
        if parts[OVERALL]:
            looks.append((number, ballot.reviewer, _Look(parts, fact.made_by, event.at), usage))
    return looks


def _parts_of(ballot: Ballot, review: Review, rubric: Rubric | None) -> dict[str, dict[str, float]]:
    """Return a review's marks overall and by dimension, each by answer.

    A ranking without marks is converted to evenly spaced marks.
    """
    counted = count(ballot, review, rubric)
    parts = {OVERALL: dict(counted.scores)}
    placing = None if parts[OVERALL] else place(counted, "in", len(ballot.slots))
    if placing is not None:
        last = 2.0 * (placing.n - 1)
        parts[OVERALL] = {k: BEST - RANGE * at / last for k, at in placing.doubled.items()}
    author_by_label = ballot.author_by_label
    for label, marks in review.marks.items():
        if label in author_by_label:
            for name, mark in marks.items():
                parts.setdefault(name, {})[author_by_label[label]] = float(mark)
    return parts


def _drift_of(
    judge: str,
    by_check: Mapping[int, Mapping[str, _Look]],
    anchors: Sequence[str],
    n_judges: int,
    numbers: Sequence[int],
) -> JudgeDrift:
    """Return one judge's drift; after an alarm, a new baseline starts where the change began."""
    order = [number for number in (0, *numbers) if number in by_check]
    tables = _tables([by_check[number] for number in order], anchors)
    prints = [_print_of(by_check[number]) for number in order]
    changes: list[dict[str, Any]] = []
    evidence: list[float] = []
    shifts: list[tuple[float, float, float] | None] = []
    at, n_baseline = 0, 0
    while (baseline := _next_baseline(tables, prints, at)) is not None:
        at, n_checks, n_baseline = baseline
        alarm, evidence = find_change(list(tables[at:]), n_checks, n_judges)
        shifts = [_shift(one, tables[at : at + n_checks]) for one in tables]
        if alarm is None:
            break
        changes.append(
            {
                "check": order[at + alarm.check],
                "since": order[at + alarm.since],
                "kind": alarm.kind,
                "shift": alarm.shift,
            }
        )
        at += alarm.since
        evidence = []
    latest = shifts[-1] if shifts else None
    if not n_baseline:
        n_baseline = int(np.isfinite(tables[..., 0]).any(axis=2).sum())
    status = "changed" if changes else "steady" if shifts else "baseline"
    return JudgeDrift(
        judge,
        status,
        len([number for number in order if number]),
        n_baseline,
        latest[0] if latest else None,
        latest[1] if latest else None,
        latest[2] if latest else None,
        evidence[-1] if evidence else None,
        tuple(changes),
        tuple(_print_changes(order, prints)),
        tuple(one[0] if one else None for one in shifts),
    )


def _tables(checks: Sequence[Mapping[str, _Look]], anchors: Sequence[str]) -> Floats:
    """Return the marks as an array of checks × anchors × answers × parts, NaN if missing.

    Part 0 is OVERALL, and the others are dimensions. Answers are numbered within their anchor, so
    that anchors may have different candidates.
    """
    looks = [look for check in checks for look in check.values()]
    parts = sorted({name for look in looks for name in look.parts})
    answers = {
        id_: sorted(
            {name for check in checks if id_ in check for name in check[id_].parts[OVERALL]}
        )
        for id_ in anchors
    }
    most = max(map(len, answers.values()))
    tables = np.full((len(checks), len(anchors), most, len(parts)), np.nan)
    for k, check in enumerate(checks):
        for i, id_ in enumerate(anchors):
            for j, name in enumerate(answers[id_]):
                for part in check[id_].parts if id_ in check else ():
                    mark = check[id_].parts[part].get(name, math.nan)
                    tables[k, i, j, parts.index(part)] = mark
    return tables


def _print_of(looks: Mapping[str, _Look]) -> Fingerprint | None:
    """Return the most frequent fingerprint among the looks of a check."""
    prints = [look.fingerprint for look in looks.values() if look.fingerprint is not None]
    return max(prints, key=lambda one: (prints.count(one), one.hash)) if prints else None


def _next_baseline(
    tables: Floats, prints: Sequence[Fingerprint | None], at: int
) -> tuple[int, int, int] | None:
    """Return the start of the next baseline and its numbers of checks and looks, or None.

    All its checks have the same fingerprint, and it is as short as a baseline may be. None means
    that there are too few looks.
    """
    for start in range(at, len(tables)):
        for end in range(start + MIN_REPEATS, len(tables) + 1):
            hashes = {one.hash for one in prints[start:end] if one is not None}
            if len(hashes) > 1:
                break
            n_looks = count_baseline(tables[start:end])
            if n_looks is not None:
                return start, end - start, n_looks
    return None


def _shift(check: Floats, baseline: Floats) -> tuple[float, float, float] | None:
    """Return the mean shift of one check with its 95% interval over anchors."""
    shift = level_shifts(check, baseline)
    if len(shift) < 2:
        return None
    half = 1.96 * float(shift.std(ddof=1)) / len(shift) ** 0.5
    mean = float(shift.mean())
    return mean, mean - half, mean + half


def _print_changes(order: Sequence[int], prints: Sequence[Fingerprint | None]) -> list[str]:
    known = [(number, one) for number, one in zip(order, prints, strict=True) if one is not None]
    return [
        f"check {number}: {few(before.changes_to(after), N_NAMED)}"
        for (_, before), (number, after) in pairwise(known)
        if before.hash != after.hash
    ]


def anchors_of_reports(
    reports: Reports, gone: tuple[str, ...] = (), failed: tuple[str, ...] = ()
) -> AnchorReport:
    """Return the report on the anchors of a store, with the shifts of candidates."""
    report = report_anchors(reports.store, reports.settings)
    report = replace(report, gone=gone, failed=failed)
    if not any(one.shift is not None for one in report.judges):
        return report
    return with_candidates(report, reports.review_rows({"score", "at"}))


def with_candidates(report: AnchorReport, rows: Rows) -> AnchorReport:
    """Return a report with each candidate's change beyond the judges' own shifts.

    A judge's marks in ordinary sessions since its change (or since its baseline) are compared with
    those before; the judge's shift on the anchors is subtracted, and judges are averaged.
    """
    shifts: dict[str, list[tuple[float, float, int]]] = {}
    score, at = rows.number("score"), rows.number("at")
    for one in report.judges:
        since = one.changes[-1]["since"] if one.changes else None
        own = one.changes[-1]["shift"] if one.changes else one.shift
        place = (since or MIN_REPEATS) - 1
        if own is None or place >= len(report.checks):
            continue
        start = instant_s(report.checks[place])
        judged = (rows.reviewer == rows.code(one.judge)) & np.isfinite(score)
        for code in np.unique(rows.candidate[judged]).tolist():
            some = judged & (rows.candidate == code)
            before, after = score[some & (at < start)], score[some & (at >= start)]
            if len(before) and len(after):
                moved = float(after.mean() - before.mean())
                entry = (moved, moved - own, len(after))
                shifts.setdefault(rows.names[code], []).append(entry)
    candidates = tuple(
        {
            "candidate": name,
            "moved": sum(moved for moved, _, _ in some) / len(some),
            "own": sum(own for _, own, _ in some) / len(some),
            "judges": len(some),
            "reviews_since": sum(n for _, _, n in some),
        }
        for name, some in sorted(shifts.items())
    )
    return replace(report, candidates=candidates)


def _notes(anchors: Sequence[str], drifts: Sequence[JudgeDrift]) -> tuple[str, ...]:
    notes = []
    if not drifts:
        notes.append("the anchors have not been checked yet. To check them: peerage anchors check")
    least = -(-MIN_LOOKS // max(len(anchors), 1))
    waiting = [one.judge for one in drifts if one.status == "baseline"]
    if waiting:
        needed = max(MIN_REPEATS, least)
        notes.append(
            f"{few(waiting, N_NAMED)}: no alarm yet; a baseline needs {needed} looks at each of "
            f"the {how_many(len(anchors), 'anchor')} (at least {MIN_LOOKS} in all), including "
            "the session's own review."
        )
    return tuple(notes)
