"""The page of a running session: its parts, updated by events for all viewers.

One event changes a bounded part of the page: a card, a row of the grid, the ranking. The same parts
make up the page of a running session, of a reconnected one, and of a finished one.

One task follows each watched session. Its rendered parts go into a list that every viewer reads at
its own pace, so that fifty viewers cost no more rendering than one. A message caused by an event of
the log has the event's number as its id: a browser that lost the connection continues from there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from markupsafe import escape

from peerage.config import Settings
from peerage.doors.render.page_work import one_page
from peerage.doors.web.templating import web_environment
from peerage.errors import PeerageError
from peerage.events import (
    NOT_STORED,
    Advised,
    Answered,
    Asked,
    AskedAgain,
    Audited,
    Dealt,
    Extended,
    Fact,
    Failed,
    Finished,
    Opened,
    Reviewed,
    StoppedEarly,
    Tallied,
    TextPiece,
    Waiting,
)
from peerage.service import Service
from peerage.tasks import Signal, end, with_pauses
from peerage.text import visible
from peerage.types import Event, Gate, Verdict
from peerage.view import Member, SessionView

HEARTBEAT_S = 1.0  # so that a lost connection is noticed within three seconds
END = "event: end\ndata: finished\n\n"
COMMENT = "event: alive\ndata:\n\n"
# Events after which the session is still in the same step.
SHOW_ANSWERS = frozenset({"concluded", "finished"})  # kinds after which answers are rendered
SMALL = (Opened, Extended, Waiting, Gate, StoppedEarly, Audited)


class SentPart(NamedTuple):
    """A message to viewers: its place in the log, or NOT_STORED, and its text."""

    seq: int
    text: str


def message(seq: int, parts: list[str]) -> SentPart:
    """Return parts of a page as one server-sent event."""
    id_ = "" if seq == NOT_STORED else f"id: {seq}\n"
    lines = "\n".join(f"data: {line}" for line in "\n".join(parts).splitlines() or [""])
    return SentPart(seq, f"{id_}{lines}\n\n")


class Rendering:
    """Renders the parts that an event changes; the cost does not grow with the log."""

    def __init__(self, settings: Settings) -> None:
        self.view = SessionView(settings)
        self._macros = web_environment().get_template("session_parts.html").make_module({})
        self._pieces: dict[tuple[str, str], str] = {}

    def see(self, event: Event) -> SentPart | None:
        """Return the message for an event; pieces of text wait for `batch`."""
        fact = self.view.see(event)
        if isinstance(fact, TextPiece):
            key = fact.seat, fact.stage
            self._pieces[key] = self._pieces.get(key, "") + fact.text
            return None
        with one_page():
            parts = self._changed_parts(fact)
        return message(event.seq, parts) if parts or event.seq != NOT_STORED else None

    def batch(self) -> SentPart | None:
        """Return the text that arrived since the last call, to be appended to the page."""
        pieces, self._pieces = self._pieces, {}
        parts = [
            _partial(target, str(escape(visible(text, multiline=True))), "beforeend")
            for (seat, stage), text in pieces.items()
            if (target := self._text_id(seat, stage)) and (seat, stage) in self.view.texts
        ]
        return message(NOT_STORED, parts) if parts else None

    def catch_up(self) -> SentPart | None:
        """Return the current parts that are not stored, for a new viewer."""
        view, parts = self.view, list[str]()
        for name, stage, number in sorted(view.pending):
            if stage != "conclude":
                parts += self._card(name) if stage == "answer" else self._row(name, number)
        if view.chair and view.verdict is None:
            parts.append(self._part("verdict"))
        return message(NOT_STORED, parts) if parts else None

    def _text_id(self, seat: str, stage: str) -> str | None:
        if stage == "conclude":
            return None if self.view.query.questions else "verdict-text"
        member = self._member(seat)
        return f"text-{member.index}" if member and stage == "answer" else None

    def _member(self, name: str) -> Member | None:
        return next((one for one in self.view.members if one.name == name), None)

    def _changed_parts(self, fact: Fact | None) -> list[str]:
        """Return the parts of the page that an event changes."""
        if self.view.query.questions and not isinstance(fact, Opened | Extended):
            return self._changed_votes(fact)
        match fact:
            case Opened() | Extended():
                parts = [self._part("session", False)]
            case Waiting(stage="answer") | Asked(stage="answer"):
                parts = self._card(fact.seat)
            case Answered() | Failed(stage="answer"):
                parts = self._card(fact.seat)
            case Gate():
                parts = self._card(fact.model)
            case Waiting(stage="review"):
                parts = self._row(fact.seat, max(self.view.rounds, default=0))
            case Asked(stage="review") | Failed(stage="review"):
                parts = self._row(fact.seat, fact.round)
            case AskedAgain(stage="review"):
                parts = self._row(fact.seat, fact.round)
            case Reviewed():
                parts = self._row(fact.reviewer, fact.round)
            case StoppedEarly():
                parts = [part for name in fact.not_heard for part in self._row(name, fact.round)]
            case Dealt():
                parts = [self._part("grid")]
            case Tallied():
                parts = [self._part("ranking")]
            case Audited():
                parts = [self._part("foot")]
            case Asked(stage="conclude") | AskedAgain() | Advised() | Failed():
                parts = [self._part("verdict")]
            case Verdict():
                parts = [self._part("verdict"), self._part("names-box", True)]
            case Finished():
                parts = [
                    self._part(name) for name in ("foot", "verdict", "answers", "grid", "stop")
                ]
                parts.append(self._part("names-box", True))
            case _:
                return []
        return parts if isinstance(fact, SMALL) else [*parts, *map(self._part, ("steps", "status"))]

    def _changed_votes(self, fact: Fact | None) -> list[str]:
        """Return the parts of a decision's page that an event changes."""
        names = ["steps", "status"]
        if isinstance(fact, AskedAgain | Advised | Failed | Verdict | Finished):
            names = ["verdict", "ranking", *names]
        elif not isinstance(fact, Asked):
            return []
        if isinstance(fact, Finished):
            names += ["foot", "stop"]
        return [self._part(name) for name in names]

    def _card(self, name: str) -> list[str]:
        member = self._member(name)
        return [self._part(f"card-{member.index}", member)] if member else []

    def _row(self, reviewer: str, round: int) -> list[str]:
        member = self._member(reviewer)
        return [self._part(f"row-{round}-{member.index}", member, round)] if member else []

    def _part(self, target: str, *args: object) -> str:
        """Return the part of the page with this id; the id's first word names its macro."""
        name = target.partition("-")[0]
        if name == "ranking" and self.view.query.questions:
            name = "typed_votes"
        html = getattr(self._macros, name)(self.view, *args)
        return _partial(target, str(html), "outerHTML")


def _partial(target: str, html: str, swap: str) -> str:
    return f'<hx-partial hx-target="#{target}" hx-swap="{swap}">{html}</hx-partial>'


@dataclass(eq=False)
class WatchedSession:
    """One watched session: its rendered parts, and the number of viewers."""

    rendering: Rendering
    messages: list[SentPart] = field(default_factory=list)
    n_viewers: int = 0
    ended: bool = False
    signal: Signal = field(default_factory=Signal)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)  # held while events are rendered

    async def follow(self, service: Service, id: str) -> None:
        """Render events until the end of the session."""
        try:
            with suppress(PeerageError):  # the log has the reason
                async with aclosing(service.watch(id)) as batches:
                    async for events in batches:
                        async with self.lock:
                            for event in events:
                                if event.seq != NOT_STORED:
                                    self._add(self.rendering.batch())
                                self._add(await self._see(service, event))
                            self._add(self.rendering.batch())
        finally:
            self.ended = True
            self.signal.wake()

    async def _see(self, service: Service, event: Event) -> SentPart | None:
        """Render an event; those that show whole answers are rendered in a thread."""
        if event.kind not in SHOW_ANSWERS:
            return self.rendering.see(event)
        return await service.read(self.rendering.see, event)

    def _add(self, sent: SentPart | None) -> None:
        if sent is not None:
            self.messages.append(sent)
            self.signal.wake()


class LiveSessions:
    """The watched sessions, each followed by one task."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._watched: dict[str, tuple[WatchedSession, asyncio.Task[None]]] = {}

    async def stream(self, id: str, after: int) -> AsyncIterator[str]:
        """Yield the messages for a viewer who has seen the log up to a place, until the end."""
        yield ": parts of a session\n\n"
        async with aclosing(with_pauses(self._messages(id, after), HEARTBEAT_S)) as texts:
            async for text in texts:
                yield COMMENT if text is None else text

    async def _messages(self, id: str, after: int) -> AsyncIterator[str]:
        if id not in self._watched:
            watched = WatchedSession(Rendering(self.service.settings))
            self._watched[id] = watched, asyncio.create_task(watched.follow(self.service, id))
        watched, task = self._watched[id]
        watched.n_viewers += 1
        try:
            place, is_level = 0, False  # level: past all that the viewer has seen
            while True:
                while place < len(watched.messages):
                    sent = watched.messages[place]
                    place += 1
                    if sent.seq > after or (sent.seq == NOT_STORED and is_level):
                        yield sent.text
                async with watched.lock:  # messages and view are of the same state
                    is_new = place < len(watched.messages)
                    is_first = not is_level and watched.rendering.view.last_seq >= after
                    so_far = watched.rendering.catch_up() if is_first and not is_new else None
                if is_new:
                    continue
                if is_first:
                    is_level = True
                    if so_far is not None:
                        yield so_far.text
                elif watched.ended:
                    if watched.rendering.view.is_finished or not self.service.closing:
                        yield END  # without END (the server is closing) the browser connects again
                    return
                else:
                    await watched.signal.wait()
        finally:
            watched.n_viewers -= 1
            if not watched.n_viewers:
                del self._watched[id]
                await end([task])
