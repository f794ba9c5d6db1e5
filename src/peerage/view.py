"""The current state of a session, built from its events; every door shows it.

`SessionView` takes events one by one. The terminal, Markdown, JSON, pages, chat and agents' tools
are pure functions of it, while the session runs and afterwards. The orchestrator keeps its own
state in a view too. Except for `conclusion`, a view contains no sentences.

Results that were computed during the session (parsed replies, scores, audit) are taken from the
log. Ballots are counted when they are first needed. The session is scored again, under its recorded
options, when its scores are first needed. Each happens once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import RLock
from typing import Literal

from peerage.bills import Bill, CallMade, bill_of, call_made, total_cost
from peerage.config import Settings
from peerage.config.recorded import recorded_option
from peerage.council.blinding import Draws, label
from peerage.council.counting import count
from peerage.council.dissent import dissent_of
from peerage.council.expected import correct_answers
from peerage.council.fences import without_marks
from peerage.council.readings import (
    ReviewView,
    ballot_from,
    decision_in,
    person_review,
    review_from,
    review_in,
    review_view,
    reviewed_ballots,
)
from peerage.council.safety import looks_like_a_refusal
from peerage.errors import UnreadableError
from peerage.event_facts import panel_of, since_extended
from peerage.events import (
    NOT_STORED,
    Adjudicated,
    Advised,
    Answered,
    Asked,
    AskedAgain,
    Audited,
    Commented,
    Committed,
    Dealt,
    Deleted,
    Extended,
    Fact,
    Failed,
    Finished,
    Opened,
    PersonReviewed,
    Renamed,
    Restored,
    Reviewed,
    SeatRecord,
    StoppedEarly,
    Tagged,
    Tallied,
    TextPiece,
    Waiting,
    Withdrawn,
    read_event,
)
from peerage.findings import Audit
from peerage.panel_probabilities import KIND, votes_by_seat, votes_on
from peerage.scoring import Scored, count_ballot, last_round, recorded_options, score_session
from peerage.types import (
    Ballot,
    Counted,
    Dissent,
    Event,
    Failure,
    Gate,
    Query,
    Response,
    Review,
    Score,
    ScoringOptions,
    Session,
    Usage,
    Verdict,
    is_cut_off,
)

UNFINISHED = "unfinished"
MAX_LIVE_TEXT = 20_000  # characters of a text that is still arriving


# -- parts of a view -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Member:
    """A participant: a number for addresses, a letter while names are hidden, and a name."""

    index: int
    alias: str
    name: str


@dataclass(frozen=True, slots=True)
class AnswerView:
    """One candidate's answer with its rank, gate and flags."""

    response: Response
    score: Score | None  # None: it was not ranked
    gate: Gate | None  # None: it was not screened
    given: bool  # supplied with the question

    @property
    def looks_like_a_refusal(self) -> bool:
        return looks_like_a_refusal(self.response.written)


@dataclass(frozen=True, slots=True)
class AdviceView:
    """A seat's reply to the request for a verdict, with its decision if there is one."""

    seat: str
    raw: str
    approved: bool | None = None
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Missing:
    """The seats that a stage of an unfinished session still waits for."""

    stage: str  # "answer", "review", "conclude"
    seats: tuple[str, ...] = ()


# -- the view ------------------------------------------------------------------------------------


@dataclass(eq=False)
class SessionView:
    """The state of a session after its events so far, and values computed from it.

    It is scored by the given options, or by those in its log, completed by the settings. To read it
    on another thread than the one that calls `see`, hold its lock.
    """

    settings: Settings | None = None
    scoring: ScoringOptions | None = None
    lock: RLock = field(default_factory=RLock, repr=False)

    # From stored events.
    id: str = ""
    opened: Opened | None = None
    opened_at: float = 0.0
    dealt_at: float | None = None  # when the first ballots were dealt
    tallied_at: float | None = None
    ended_at: float | None = None
    last_seq: int = NOT_STORED
    facts: list[Fact] = field(default_factory=list)
    seqs: dict[type, list[int]] = field(default_factory=dict)  # places in the log, by kind
    seats: tuple[SeatRecord, ...] = ()
    responses: list[Response] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    failed: dict[tuple[str, str, int], Failed] = field(default_factory=dict)  # seat, stage, round
    commitments: dict[str, Committed] = field(default_factory=dict)  # by reviewer
    gates: list[Gate] = field(default_factory=list)
    ballots: dict[tuple[str, int], Ballot] = field(default_factory=dict)  # by reviewer and round
    read: dict[tuple[str, int], Review] = field(default_factory=dict)  # the latest last
    replies: dict[tuple[str, int], Reviewed] = field(default_factory=dict)
    tally: Tallied | None = None
    audit: Audit | None = None
    verdict: Verdict | None = None
    ended_as: str = ""  # "" while it is not finished
    calls: list[CallMade] = field(default_factory=list)  # those that were sent
    not_heard: list[tuple[str, int]] = field(default_factory=list)  # stopped early: name, round
    by_people: list[tuple[Ballot, Review]] = field(default_factory=list)
    deleted: bool = False  # boards, audits and lists leave it out
    tags: tuple[str, ...] = ()
    name: str = ""  # that people gave it
    comments: list[tuple[float, Commented]] = field(default_factory=list)  # with their times
    decision: tuple[float, Adjudicated] | None = None  # when, and which answers are correct
    members: tuple[Member, ...] = ()

    # From live events, which are not stored.
    pending: set[tuple[str, str, int]] = field(default_factory=set)  # calls: seat, stage, round
    texts: dict[tuple[str, str], str] = field(default_factory=dict)  # incomplete, by seat and stage
    waits: dict[tuple[str, str], Waiting] = field(default_factory=dict)  # by seat and stage
    asked_again: set[tuple[str, str, int]] = field(default_factory=set)  # no second reply yet
    chair: str = ""  # the seat last asked for the verdict
    heard: dict[str, Fact | None] = field(default_factory=dict)  # each seat's latest event
    asked_at: dict[str, float] = field(default_factory=dict)  # by seat that has not replied
    took_s: dict[str, float] = field(default_factory=dict)  # by seat that has replied

    # Cached counts of reviews, each with the review and the gated models it was computed from.
    counts: dict[tuple[str, int], tuple[Review, frozenset[str], Counted]] = field(
        default_factory=dict
    )

    @classmethod
    def of(
        cls,
        events: Iterable[Event],
        settings: Settings | None = None,
        scoring: ScoringOptions | None = None,
    ) -> SessionView:
        """Return the view of a log; raise UnreadableError if it is not the log of a session."""
        view = cls(settings, scoring)
        for event in events:
            view.see(event)
        return view

    # -- taking in events ----------------------------------------------------------------------

    def see(self, event: Event) -> Fact | None:
        """Add one event; return its typed form."""
        fact = read_event(event)
        with self.lock:
            self.last_seq = max(self.last_seq, event.seq)
            if fact is None:
                return None
            if event.seq == NOT_STORED:
                self._hear(fact, event.at)
            else:
                self._add(event, fact)
        return fact

    def _hear(self, fact: Fact, at: float) -> None:
        """Apply an event that is never stored, such as a piece of streamed text."""
        match fact:
            case TextPiece():
                text = self.texts.get((fact.seat, fact.stage), "") + fact.text[-MAX_LIVE_TEXT:]
                self.texts[fact.seat, fact.stage] = text[-MAX_LIVE_TEXT:]
            case Asked():
                self.pending.add((fact.seat, fact.stage, fact.round))
                self.chair = fact.seat if fact.stage == "conclude" else self.chair
                self.heard[fact.seat] = fact
                self.asked_at[fact.seat] = at
            case Waiting():
                self.waits[fact.seat, fact.stage] = fact
                self.heard[fact.seat] = fact

    def _add(self, event: Event, fact: Fact) -> None:
        """Add a stored event; discard values computed before it."""
        changes_scores = isinstance(fact, SCORED)
        for name in COMPUTED:
            if changes_scores or name != "result":
                self.__dict__.pop(name, None)
        self.facts.append(fact)
        self.seqs.setdefault(type(fact), []).append(event.seq)
        if (call := call_made(fact)) is not None:
            self._end_call(call, fact, event.at)
        self._keep(event, fact)
        if isinstance(fact, Opened | Extended | Dealt | Answered | PersonReviewed):
            self._seat_newcomers()

    def _end_call(self, call: CallMade, fact: Fact, at: float) -> None:
        self.calls += [call] if call.usage is not None else []
        self.pending.discard((call.seat, call.stage, call.round))
        if call.is_outcome:
            self.asked_again.discard((call.seat, call.stage, call.round))
        self.waits.pop((call.seat, call.stage), None)
        if call.stage != "conclude" or isinstance(fact, Failed):  # a chair's text is kept
            self.texts.pop((call.seat, call.stage), None)
        if isinstance(fact, Advised | Answered | Committed | Failed | Reviewed):
            self.heard[call.seat] = fact
            self.took_s.pop(call.seat, None)
            if call.seat in self.asked_at:
                self.took_s[call.seat] = at - self.asked_at.pop(call.seat)

    def _keep(self, event: Event, fact: Fact) -> None:
        """Store the content of an event in its field."""
        match fact:
            case Opened():
                self.id, self.opened, self.opened_at = event.session_id, fact, event.at
                self.seats = panel_of([fact])
                self.heard.update((seat.name, None) for seat in fact.seats)
            case Extended():
                self.ended_as, self.ended_at = "", None
                self.seats = panel_of([Extended(self.seats), fact])
            case Answered():
                self.responses.append(_response(fact))
            case Committed():
                self.commitments[fact.seat] = fact
            case Failed():
                self.failures.append(_failure(fact))
                self.failed[fact.seat, fact.stage, fact.round] = fact
            case Gate():
                self.gates.append(fact)
            case Dealt():
                self.dealt_at = self.dealt_at or event.at
                for dealt in fact.ballots:
                    ballot = ballot_from(dealt, self.responses, fact.round, event.session_id)
                    self.ballots[dealt.reviewer, fact.round] = ballot
            case AskedAgain():
                self.asked_again.add((fact.seat, fact.stage, fact.round))
                if fact.stage == "review" and fact.review and not fact.review.abstained:
                    ballot = self._ballot(fact.seat, fact.round, event.session_id)
                    self._put(review_from(fact.review, ballot, fact.text))
            case Reviewed():
                ballot = self._ballot(fact.reviewer, fact.round, event.session_id)
                self.replies[fact.reviewer, fact.round] = fact
                self._put(review_in(fact, ballot))
            case StoppedEarly():
                self.not_heard += [(name, fact.round) for name in fact.not_heard]
            case Tallied():
                self.tally, self.tallied_at = fact, event.at
            case Audited():
                self.audit = Audit(fact.findings, fact.bias_audit)
            case Verdict():
                self.verdict = fact
            case Finished():
                self.ended_as, self.ended_at = fact.status, event.at
            case PersonReviewed():
                self.by_people.append(person_review(self.session, fact))
            case Withdrawn():
                others = [one for one in self.by_people if one[0].reviewer != fact.reviewer]
                self.by_people = others
            case Adjudicated():
                self.decision = (event.at, fact) if fact.judged else None
            case Commented():
                self.comments.append((event.at, fact))
            case Renamed():
                self.name = fact.name
            case Deleted() | Restored():
                self.deleted = isinstance(fact, Deleted)
            case Tagged():
                self.tags = fact.tags

    def _ballot(self, reviewer: str, round_: int, session_id: str) -> Ballot:
        if (ballot := self.ballots.get((reviewer, round_))) is None:
            raise UnreadableError(
                f"there is no ballot for the review by {reviewer!r}.", place=f"session {session_id}"
            )
        return ballot

    def _put(self, review: Review) -> None:
        """Store a review, replacing the reviewer's earlier review of the same ballot."""
        key = review.reviewer, review.round
        self.read.pop(key, None)
        self.read[key] = review

    def _seat_newcomers(self) -> None:
        """Give every new participant a number and a letter; the first ones in random order."""
        seats = [seat.name for seat in self.seats]
        reviewers = [name for name, _ in self.ballots]
        people = [ballot.reviewer for ballot, _ in self.by_people]
        names = dict.fromkeys([*seats, *self.session.candidates, *reviewers, *people])
        known = {member.name for member in self.members}
        new = [name for name in names if name not in known]
        if not self.members:
            n_first = len(seats) or len(new)
            drawn = Draws("aliases", self.id).permutation(n_first)
            new[:n_first] = [new[i] for i in drawn]
        numbered = enumerate(new, len(self.members))
        self.members += tuple(Member(i, label(i), name) for i, name in numbered)

    # -- the session ---------------------------------------------------------------------------

    @cached_property
    def session(self) -> Session:
        """The session built from the events, in the form for Python programs."""
        opened, tally = self.opened, self.tally
        cost_usd, n_unpriced = total_cost(self.calls)
        on_ballots = {author for ballot in self.ballots.values() for author in ballot.authors}
        # Add the answers of reviewers that were not shown their own answers.
        on_ballots |= {one.model for one in self.responses} & {name for name, _ in self.ballots}
        return Session(
            self.id,
            opened.query if opened else Query(""),
            opened.seed if opened else "",
            opened.ordinal if opened else 0,
            candidates=tuple(sorted(on_ballots or {one.model for one in self.responses})),
            responses=tuple(self.responses),
            failures=tuple(self.failures),
            gates=tuple(self.gates),
            ballots=tuple(self.ballots.values()),
            reviews=tuple(self.read.values()),
            scores=tally.scores if tally else (),
            audit=self.audit,
            verdict=self.verdict,
            cost_usd=cost_usd,
            unpriced_calls=n_unpriced,
            finished=self.is_finished,
            status=self.ended_as,
            flags=tally.flags if tally else (),
        )

    @property
    def is_finished(self) -> bool:
        return self.ended_at is not None

    @property
    def status(self) -> str:
        """The outcome: "done", "no_quorum", …; or "unfinished"."""
        return self.ended_as or UNFINISHED

    @property
    def query(self) -> Query:
        return self.session.query

    @property
    def correct(self) -> dict[str, float]:
        """1 or 0 for each answer whose correctness is known, by model."""
        return correct_answers(self.session, self.decision[1] if self.decision else None)

    @property
    def asked_for(self) -> str:
        """The requested kind of verdict."""
        if self.opened is None:
            return ""
        return KIND if self.query.questions else recorded_option(self.opened, "verdict") or ""

    @property
    def kind(self) -> Literal["review", "decision"]:
        """Whether answers are reviewed, or typed questions are voted on."""
        return "decision" if self.query.questions else "review"

    @property
    def season(self) -> str:
        return self.opened.season if self.opened else ""

    @cached_property
    def options(self) -> ScoringOptions:
        """The options this session is scored by."""
        if self.scoring is not None or self.opened is None:
            return self.scoring or ScoringOptions()
        return recorded_options(self.settings or Settings(), self.opened)

    @cached_property
    def result(self) -> Scored:
        """The session scored from its ballots and reviews; reviewers without a review abstain."""
        bare = replace(self.session, scores=(), flags=(), audit=None)
        return score_session(reviewed_ballots(bare), self.options, count_one=self._count)

    def under(self, options: ScoringOptions) -> SessionView:
        """Return a view of the same session, scored by other options."""
        other = copy(self)
        other.scoring, other.counts = options, {}
        for name in COMPUTED:
            other.__dict__.pop(name, None)
        return other

    @property
    def scored(self) -> Scored | None:
        """The result, or None if no reviewer has a ballot."""
        return self.result if self.ballots else None

    def _count(self, ballot: Ballot, review: Review, failed: frozenset[str]) -> Counted:
        """Return how a review counts; computed once for each review."""
        key = ballot.reviewer, ballot.round
        known = self.counts.get(key)
        if known is None or known[0] != review or known[1] != failed:
            counted = count_ballot(self.options, ballot, review, failed)
            known = self.counts[key] = review, failed, counted
        return known[2]

    def n_so_far(self, kind: type, seq: int, after: int = NOT_STORED) -> int:
        """Return the number of events of a kind between two places in the log."""
        seqs = self.seqs.get(kind, [])
        return bisect_right(seqs, seq) - bisect_right(seqs, after)

    def dealt_before(self, seq: int) -> tuple[int, Dealt]:
        """Return the place and the event of the last deal up to a place in the log."""
        seqs = self.seqs[Dealt]
        i = bisect_right(seqs, seq) - 1
        return seqs[i], [fact for fact in self.facts if isinstance(fact, Dealt)][i]

    # -- answers and the bill ------------------------------------------------------------------

    @cached_property
    def answers(self) -> tuple[AnswerView, ...]:
        """All answers, best first."""
        given = {fact.seat for fact in self.facts if isinstance(fact, Answered) and fact.given}
        scored = self.scored
        scores = {score.model: score for score in (scored.scores if scored else ())}
        gates = {gate.model: gate for gate in (scored.session.gates if scored else self.gates)}
        place = {name: i for i, name in enumerate(scores)}
        best_first = sorted(
            self.responses, key=lambda one: (place.get(one.model, len(place)), one.model)
        )
        return tuple(
            AnswerView(one, scores.get(one.model), gates.get(one.model), one.model in given)
            for one in best_first
        )

    def own_answer(self, reviewer: str) -> str | None:
        """Return the complete answer that a reviewer gave before it saw others, or None.

        It is the reviewer's answer in this session, or the short one that it was asked for.
        """
        whole = {one.model: one.text for one in self.responses if not one.truncated}
        committed = self.commitments.get(reviewer)
        return whole.get(reviewer) or (committed.text if committed else None)

    @property
    def best(self) -> tuple[AnswerView, ...]:
        """The answers ranked first; empty if no vote counts."""
        ranked = (one for one in self.answers if one.score and one.score.votes)
        return tuple(one for one in ranked if one.score and one.score.rank == 1)

    @cached_property
    def bill(self) -> Bill:
        return bill_of(self.calls)

    def bills_by(self, name: Literal["seat", "stage"]) -> dict[str, Bill]:
        """Return the bills of the calls, by seat or by stage."""
        groups: dict[str, list[CallMade]] = defaultdict(list)
        for call in self.calls:
            groups[getattr(call, name)].append(call)
        return {key: bill_of(some) for key, some in groups.items()}

    # -- reviews -------------------------------------------------------------------------------

    @cached_property
    def reviews(self) -> tuple[ReviewView, ...]:
        """The outcome of every ballot, in the order of seats, round by round."""
        read = {(one.reviewer, one.round): one for one in reviewed_ballots(self.session).reviews}
        keys, ballots = list(self.ballots), list(self.ballots.values())
        counted = [self._count(self.ballots[key], read[key], self._gated) for key in keys]
        last = {(ballot.reviewer, ballot.round) for ballot in last_round(ballots, counted)[0]}
        return tuple(
            self._review_view(self.ballots[key], read[key], one, is_last=key in last)
            for key, one in zip(keys, counted, strict=True)
        )

    @property
    def last_reviews(self) -> tuple[ReviewView, ...]:
        """Each reviewer's latest review, which is the one that counts."""
        return tuple(one for one in self.reviews if one.is_last)

    @property
    def people(self) -> tuple[ReviewView, ...]:
        """The reviews by people, which do not change the scores."""
        rubric = self.options.rubric
        return tuple(
            review_view(ballot, review, count(ballot, review, rubric))
            for ballot, review in self.by_people
        )

    def review(self, reviewer: str, round_: int) -> ReviewView | None:
        """Return the latest review of a reviewer in a round, or None if there is none yet."""
        people = [one for one in self.people if one.reviewer == reviewer]
        review = self.read.get((reviewer, round_))
        if people or review is None:
            return people[-1] if people else None
        ballot = self.ballots[reviewer, round_]
        return self._review_view(ballot, review, self._count(ballot, review, self._gated))

    @property
    def _gated(self) -> frozenset[str]:
        """The models that failed the safety gate, also for imported logs without gates."""
        gates: Sequence[Gate] = self.gates
        if self.options.safety_gate and not gates and self.scored:
            gates = self.scored.session.gates
        return frozenset(gate.model for gate in gates if not gate.passed)

    def _review_view(
        self, ballot: Ballot, review: Review, counted: Counted, is_last: bool = True
    ) -> ReviewView:
        key = ballot.reviewer, ballot.round
        failed, reply = self.failed.get((key[0], "review", key[1])), self.replies.get(key)
        return replace(
            review_view(ballot, review, counted),
            is_last=is_last,
            is_in=reply is not None,
            failure=_failure(failed) if failed else None,
            usage=reply.usage if reply else None,
            latency_ms=reply.latency_ms if reply else None,
            own_answer=self.own_answer(ballot.reviewer) if self.is_committed else None,
        )

    @property
    def is_committed(self) -> bool:
        """Whether reviewers compare the answers with their own."""
        return self.opened is not None and recorded_option(self.opened, "review") == "committed"

    # -- the verdict, and what is missing ------------------------------------------------------

    @cached_property
    def advice(self) -> tuple[AdviceView, ...]:
        """The replies of seats that were asked for the verdict."""
        lately = [fact for fact in since_extended(self.facts) if isinstance(fact, Advised)]
        replies = lately or [fact for fact in self.facts if isinstance(fact, Advised)]
        if self.asked_for != "binary":
            return tuple(AdviceView(fact.seat, fact.text) for fact in replies)
        decisions = [fact.decision or decision_in(fact.text) for fact in replies]
        return tuple(
            AdviceView(fact.seat, fact.text, one.approved, tuple(map(without_marks, one.reasons)))
            for fact, one in zip(replies, decisions, strict=True)
        )

    @property
    def decision_seats(self) -> tuple[str, ...]:
        """The seats that are decision models: they vote by probabilities, without reasons."""
        return tuple(seat.name for seat in self.seats if seat.decides)

    @property
    def typed_votes(self) -> dict[str, dict[str, tuple[float, ...]]]:
        """The votes on each typed question so far, by question and seat."""
        by_seat = votes_by_seat(self.facts)
        return {one.name: votes_on(one, by_seat) for one in self.query.questions}

    @property
    def abstained_seats(self) -> tuple[str, ...]:
        """The seats that replied to typed questions and voted on none of them."""
        voted = {seat for votes in self.typed_votes.values() for seat in votes}
        replied = dict.fromkeys(fact.seat for fact in self.facts if isinstance(fact, Advised))
        return tuple(name for name in replied if self.query.questions and name not in voted)

    @property
    def decisions(self) -> tuple[AdviceView, ...]:
        """The votes of a yes-or-no verdict that could be read."""
        return tuple(one for one in self.advice if one.approved is not None)

    @cached_property
    def dissent(self) -> tuple[Dissent, ...]:
        """The dissent quoted in the verdict; without a verdict, the dissent it would quote."""
        if self.verdict is not None or self.scored is None:
            return self.verdict.dissent if self.verdict else ()
        return dissent_of(self.scored.session, self.scored.counted)

    @property
    def missing(self) -> tuple[Missing, ...]:
        """The stages that an unfinished session waits for, in order."""
        if self.is_finished:
            return ()
        calls = (call_made(fact) for fact in self.facts)
        heard = {(one.stage, one.round, one.seat) for one in calls if one and one.is_outcome}
        lately = since_extended(self.facts)

        def silent(stage: str, round_: int, seats: Iterable[str]) -> Missing:
            names = (name for name in seats if (stage, round_, name) not in heard)
            return Missing(stage, tuple(names))

        if self.query.questions:
            voting = silent("conclude", 0, (s.name for s in self.seats if "review" in s.roles))
            return (voting,)
        rounds = [fact for fact in lately if isinstance(fact, Dealt)]
        if rounds:
            reviewers = [ballot.reviewer for ballot in rounds[-1].ballots]
            missing = [silent("review", rounds[-1].round, reviewers)]
        else:
            answering = [seat.name for seat in self.seats if "answer" in seat.roles]
            reviewing = tuple(seat.name for seat in self.seats if "review" in seat.roles)
            missing = [silent("answer", 0, answering), Missing("review", reviewing)]
        missing = [one for one in missing if one.seats]
        concluded = any(isinstance(fact, Verdict) for fact in lately)
        wants_verdict = not concluded and self.asked_for != "none"
        return (*missing, *([Missing("conclude")] if wants_verdict else []))

    @cached_property
    def conclusion(self) -> str:
        """The text of the conclusion: the verdict, or else the best answer."""
        verdict = self.verdict
        if verdict is None:
            return self.best[0].response.final if self.is_finished and self.best else ""
        if not verdict.decision:
            return verdict.text or verdict.note
        first = f"{verdict.decision.capitalize()}: {verdict.note}."
        return f"{first}\n\n{verdict.text}" if verdict.text else first

    @property
    def is_cut_off(self) -> bool:
        """Whether the text of the conclusion was cut off at its writer's token limit."""
        written = [one for one in self.facts if isinstance(one, Answered | Advised)]
        return any(one.text == self.conclusion and is_cut_off(one.finish_reason) for one in written)

    @property
    def images_not_seen_by(self) -> tuple[str, ...]:
        """The seats that were told of the question's images and could not see them."""
        if not self.query.all_images:
            return ()
        is_given = self.opened is not None and self.opened.answers is not None
        panel = [seat for seat in self.seats if not is_given or {*seat.roles} - {"answer"}]
        if self.query.questions:  # reviewers vote on them
            panel = [seat for seat in self.seats if "review" in seat.roles]
        return tuple(seat.name for seat in panel if not seat.images)

    # -- the current stage ---------------------------------------------------------------------

    @property
    def stage(self) -> Literal["answers", "reviews", "verdict", "finished"]:
        if self.is_finished:
            return "finished"
        if self.query.questions or (self.tally is not None and self.tally.scores):
            return "verdict"
        return "reviews" if self.ballots else "answers"

    @property
    def rounds(self) -> list[int]:
        return sorted({round_ for _, round_ in self.ballots})


SCORED = (Opened, Answered, Gate, Dealt, AskedAgain, Reviewed)  # events that change scores
COMPUTED = tuple(
    name for name, member in vars(SessionView).items() if isinstance(member, cached_property)
)


def fold(events: Iterable[Event]) -> Session:
    """Return the session of a log, finished or not; raise UnreadableError if it cannot be read."""
    return SessionView.of(events).session


def _response(fact: Answered) -> Response:
    return Response(
        fact.seat,
        fact.text,
        fact.usage or Usage(),
        fact.latency_ms,
        fact.reasoning_words,
        fact.finish_reason,
        fact.reasoning,
        fact.messages,
    )


def _failure(fact: Failed) -> Failure:
    return Failure(fact.seat, fact.kind, fact.message, fact.stage)
