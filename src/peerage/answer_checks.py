"""Checks of single answers: the panel votes on criteria, and each verdict is stored and reused.

The id of a session follows from all that its verdict depends on: the judges, their prompt, the
question, the answer, the criteria and the number of the repeat. So an equal check finds the stored
verdict and calls no model, in any process that uses the same store.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from peerage.council.prompts import prompt
from peerage.errors import ConfigError, InputError, PeerageError, UsageError, few, shown
from peerage.event_facts import is_deleted, is_over, panel_of
from peerage.events import read_events
from peerage.fingerprints import short_hash
from peerage.labels.unanimity import why_a_person
from peerage.panel import Council
from peerage.panel_probabilities import votes_by_seat
from peerage.providers import Reply, decides
from peerage.session import judge_fingerprint
from peerage.stores import SessionTakenError
from peerage.types import Event, Session, Turn, TypedQuestion
from peerage.view import SessionView

STATED = "The input, as an answer to the message before it, meets this criterion: {}"
USUAL_CRITERIA = ("It answers the question, and what it says is correct.",)
MAX_CRITERIA = 100
PAUSE_S = 0.1  # between looks at a session that another process runs
EVEN = 1e-9  # a probability no further from one half is a draw
N_CHARACTERS = 16  # of a session's id


class NotJudgedError(PeerageError):
    """No judge voted on an answer, so there is no verdict."""


@dataclass(frozen=True, slots=True)
class AnswerCheck:
    """One answer to one question, and the criteria that it must meet."""

    question: str
    answer: str
    criteria: tuple[str, ...] = USUAL_CRITERIA
    repeat: int = 0  # the number of this answer among several to the same question

    @property
    def questions(self) -> tuple[TypedQuestion, ...]:
        """The criteria as questions to vote on."""
        return tuple(
            TypedQuestion(f"criterion_{i}", "predicate", STATED.format(text))
            for i, text in enumerate(self.criteria, start=1)
        )


@dataclass(frozen=True, slots=True)
class CheckVerdict:
    """Whether an answer meets its criteria, as the panel voted.

    `passed` is None if no criterion failed and the panel is undecided on one at least.
    """

    passed: bool | None
    failed: tuple[str, ...]  # criteria that more than half of the votes deny
    undecided: tuple[str, ...]  # criteria with an even vote, or none
    needs_person: str  # why a person should look; empty if all votes are alike
    session: str
    judges: str  # the hash of the judges' fingerprints
    cost_usd: float  # of this call; 0 for a verdict from an earlier run
    unpriced_calls: int
    is_stored: bool  # whether the verdict was there already


def read_criteria(criteria: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return criteria as trimmed texts; raise an error for anything else, or for none."""
    if criteria is None:
        return USUAL_CRITERIA
    given = [criteria] if isinstance(criteria, str) else criteria
    if not isinstance(given, Sequence):
        raise UsageError(
            f"criteria must be a list of texts, not {shown(given)}.",
            hint='As in criteria=["It names the form to fill in."].',
        )
    for i, text in enumerate(given):
        if not isinstance(text, str) or not text.strip():
            raise UsageError(f"criterion {i + 1} is not a text, or is empty.", place="criteria")
    if not 1 <= len(given) <= MAX_CRITERIA:
        raise UsageError(
            f"there are {len(given)} criteria; a check needs from 1 to {MAX_CRITERIA}.",
            hint="Leave criteria out to ask whether the answer is correct.",
        )
    trimmed = tuple(text.strip() for text in given)
    if len(set(trimmed)) < len(trimmed):
        raise UsageError("two criteria are the same.", place="criteria")
    return trimmed


def judges_hash(council: Council) -> str:
    """Return the hash of the fingerprints of all judges; names of seats do not matter."""
    config = council.session_config("")
    prints = []
    for seat in config.seats_that("review"):
        page = prompt("input" if decides(seat) else "decide").hash
        made = judge_fingerprint(seat, (page,), Reply(""), config, has_schema=True)
        # Votes on criteria have no rubric, no labels and no answer of the judge's own.
        own = replace(made, model=seat.model, rubric="", labels="", review="blind")
        prints.append(own.hash)
    return short_hash([sorted(prints), config.council.seal])


def session_id_of(check: AnswerCheck, judges: str, generation: int) -> str:
    """Return the id of the session that holds the verdict of a check."""
    parts = [judges, check.question, check.answer, STATED, check.criteria, check.repeat, generation]
    text = json.dumps(parts, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:N_CHARACTERS]


async def check_answer(
    council: Council,
    check: AnswerCheck,
    *,
    fresh: bool = False,
    metadata: Mapping[str, str] | None = None,
) -> CheckVerdict:
    """Return the panel's verdict on an answer: the stored one, or else that of a new session.

    With `fresh`, the panel votes anew, and the new verdict replaces the stored one for later runs.
    An interrupted session is continued. While another process runs the same check, this waits.
    """
    if not check.question.strip():
        raise InputError("the question is empty.")
    if not check.answer.strip():
        raise InputError("the answer is empty.")
    judges = judges_hash(council)
    stored: CheckVerdict | None = None
    for generation in itertools.count():
        id_ = session_id_of(check, judges, generation)
        events = await asyncio.to_thread(council.store.events, id_)
        while not events or not (fresh or is_over(events)):
            if stored is not None and not fresh:
                return stored
            try:
                session = await _vote(council, check, id_, metadata, resumes=bool(events))
            except SessionTakenError:
                await asyncio.sleep(PAUSE_S)
            except (ConfigError, UsageError):
                if not events:
                    raise
                later = await asyncio.to_thread(council.store.events, id_)
                if not is_over(later):
                    break  # begun under another configuration: left as it is
            else:
                return _read(check, session, judges, is_stored=False)
            events = await asyncio.to_thread(council.store.events, id_)
        else:
            stored = _stored_verdict(council, check, events, judges) or stored
    raise AssertionError  # there is always another generation


async def _vote(
    council: Council,
    check: AnswerCheck,
    id_: str,
    metadata: Mapping[str, str] | None,
    *,
    resumes: bool,
) -> Session:
    """Return the session of a check after its votes: a new one, or an interrupted one."""
    if resumes:
        begun = council.begun(resume=id_)
    else:
        begun = council.begun(
            check.answer,
            earlier=(Turn("user", check.question),),
            questions=check.questions,
            metadata=dict(metadata or {}),
            id_=id_,
        )
    async with begun as held:
        async for _ in held.events:
            pass
        return held.view.session


def _stored_verdict(
    council: Council, check: AnswerCheck, events: Sequence[Event], judges: str
) -> CheckVerdict | None:
    """Return the verdict of a finished session; None if it was deleted or lacks a judge's vote."""
    facts = list(read_events(events))
    voters = {seat.name for seat in panel_of(facts) if "review" in seat.roles}
    if is_deleted(facts) or voters - votes_by_seat(facts).keys():
        return None
    session = SessionView.of(events, council.settings).session
    return None if session.verdict is None else _read(check, session, judges, is_stored=True)


def _read(check: AnswerCheck, session: Session, judges: str, *, is_stored: bool) -> CheckVerdict:
    """Return the verdict of a finished session; raise an error if no judge voted."""
    verdict = session.verdict
    if verdict is None:
        why = few([f"{one.seat} ({one.kind})" for one in session.failures]) or session.status
        raise NotJudgedError(
            f"no judge voted: {why}.",
            place=f"session {session.id}",
            hint=f"To see what happened: peerage show {session.id}",
        )
    chance_by_name = {one.name: one.probabilities[0] for one in verdict.answers}
    failed, undecided = [], []
    for text, question in zip(check.criteria, check.questions, strict=True):
        chance = chance_by_name.get(question.name)
        if chance is None or abs(chance - 0.5) < EVEN:
            undecided.append(text)
        elif chance < 0.5:
            failed.append(text)
    return CheckVerdict(
        passed=False if failed else None if undecided else True,
        failed=tuple(failed),
        undecided=tuple(undecided),
        needs_person=why_a_person(verdict, (), (), ()),
        session=session.id,
        judges=judges,
        cost_usd=0.0 if is_stored else session.cost_usd,
        unpriced_calls=0 if is_stored else session.unpriced_calls,
        is_stored=is_stored,
    )
