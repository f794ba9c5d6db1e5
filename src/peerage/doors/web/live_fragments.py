"""The parts of a session's page that events change, rendered once for all who watch.

One task follows each watched session. What it renders goes into a list that every viewer reads
at its own pace, so that fifty viewers cost the rendering of one. A message that an event of the log
gave rise to has the event's number as its id: a browser that lost the connection goes on from it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from dataclasses import dataclass, field

from markupsafe import escape

from peerage.config import Settings
from peerage.doors.web.session_picture import SessionPicture
from peerage.doors.web.templating import web_environment
from peerage.errors import PeerageError
from peerage.events import (
    NOT_STORED,
    Advised,
    Answered,
    Asked,
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

HEARTBEAT_S = 10.0
END = "event: end\ndata: finished\n\n"
COMMENT = ": still here\n\n"


@dataclass(frozen=True, slots=True)
class Message:
    """What viewers are sent: its place in the log, or NOT_STORED, and the text of the stream."""

    seq: int
    text: str


def message(seq: int, parts: list[str]) -> Message:
    """Parts of a page as one message of a stream of server-sent events."""
    id_ = "" if seq == NOT_STORED else f"id: {seq}\n"
    lines = "\n".join(f"data: {line}" for line in "\n".join(parts).splitlines() or [""])
    return Message(seq, f"{id_}{lines}\n\n")


class Rendering:
    """Renders the parts that an event changes; what it takes does not grow with the log."""

    def __init__(self, settings: Settings) -> None:
        self.picture = SessionPicture(settings)
        self._parts = web_environment().get_template("session_parts.html").make_module({})
        self._pieces: dict[tuple[str, str], str] = {}

    def see(self, event: Event) -> Message | None:
        """The message for an event; pieces of text are kept back until `batch`."""
        fact = self.picture.see(event)
        if isinstance(fact, TextPiece):
            key = fact.seat, fact.stage
            self._pieces[key] = self._pieces.get(key, "") + fact.text
            return None
        parts = self._changed(fact) if fact is not None else []
        if not parts and event.seq == NOT_STORED:
            return None
        return message(event.seq, parts)

    def batch(self) -> Message | None:
        """The text that has come in since the last time, to be added to what is shown."""
        pieces, self._pieces = self._pieces, {}
        parts = [
            _partial(target, str(escape(visible(text, multiline=True))), "beforeend")
            for (seat, stage), text in pieces.items()
            if (target := self._text_id(seat, stage)) and (seat, stage) in self.picture.texts
        ]
        return message(NOT_STORED, parts) if parts else None

    def catch_up(self) -> Message | None:
        """What is only said and not stored, as it stands, for a viewer who has just come."""
        picture = self.picture
        parts = [
            part
            for name, stage, number in sorted(picture.pending)
            for part in (self._card(name) if stage == "answer" else self._row(name, number))
            if stage != "conclude"
        ]
        if picture.chair and picture.session.verdict is None:
            parts.append(self._part("verdict", "verdict"))
        return message(NOT_STORED, parts) if parts else None

    def _text_id(self, seat: str, stage: str) -> str | None:
        if stage == "conclude":
            return "verdict-text"
        member = self.picture.by_name.get(seat)
        return f"text-{member.index}" if member and stage == "answer" else None

    def _changed(self, fact: Fact) -> list[str]:
        """The parts of the page that are not any more what they were."""
        match fact:
            case Opened() | Extended():
                return [self._part("session", "whole", False)]
            case Waiting(stage="answer"):
                return self._card(fact.seat)
            case Asked(stage="answer") | Answered() | Failed(stage="answer"):
                return [*self._card(fact.seat), *self._progress()]
            case Waiting(stage="review"):
                return self._row(fact.seat, max(self.picture.rounds, default=0))
            case Gate():
                return self._card(fact.model)
            case Dealt():
                return [self._part("grid", "grid"), *self._progress()]
            case Asked(stage="review") | Failed(stage="review"):
                return [*self._row(fact.seat, fact.round), *self._progress()]
            case Reviewed():
                return [*self._row(fact.reviewer, fact.round), *self._progress()]
            case StoppedEarly():
                return [part for name in fact.not_heard for part in self._row(name, fact.round)]
            case Tallied():
                return [self._part("ranking", "ranking"), *self._progress()]
            case Audited():
                return [self._part("foot", "foot")]
            case Asked(stage="conclude") | Advised() | Failed():
                return [self._part("verdict", "verdict"), *self._progress()]
            case Verdict():
                names = self._part("names-box", "names_box", True)
                return [self._part("verdict", "verdict"), names, *self._progress()]
            case Finished():
                cards = [part for m in self.picture.answering for part in self._card(m.name)]
                return [
                    self._part("foot", "foot"),
                    self._part("verdict", "verdict"),
                    self._part("names-box", "names_box", True),
                    *cards,
                    *self._progress(),
                ]
            case _:
                return []

    def _progress(self) -> list[str]:
        return [self._part("steps", "steps"), self._part("status", "status")]

    def _card(self, name: str) -> list[str]:
        member = self.picture.by_name.get(name)
        return [self._part(f"card-{member.index}", "card", member)] if member else []

    def _row(self, reviewer: str, round: int) -> list[str]:
        member = self.picture.by_name.get(reviewer)
        if member is None:
            return []
        line = self.picture.row(member, round)
        return [self._part(f"row-{round}-{member.index}", "row", line)]

    def _part(self, target: str, macro: str, *args: object) -> str:
        html = getattr(self._parts, macro)(self.picture, *args)
        return _partial(target, str(html), "outerHTML")


def _partial(target: str, html: str, swap: str) -> str:
    return f'<hx-partial hx-target="#{target}" hx-swap="{swap}">{html}</hx-partial>'


@dataclass(eq=False)
class WatchedSession:
    """One session that somebody watches: the task that follows it, and what it has rendered."""

    rendering: Rendering
    messages: list[Message] = field(default_factory=list)
    n_viewers: int = 0
    ended: bool = False
    task: asyncio.Task[None] | None = None
    signal: Signal = field(default_factory=Signal)

    def add(self, sent: Message | None) -> None:
        if sent is not None:
            self.messages.append(sent)
            self.signal.wake()


class LiveSessions:
    """The sessions that are being watched, each followed once."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._watched: dict[str, WatchedSession] = {}

    async def stream(self, id: str, after: int) -> AsyncIterator[str]:
        """What a viewer is to be sent who has seen the log up to a place, to the end."""
        yield ": parts of a session\n\n"
        async with aclosing(with_pauses(self._messages(id, after), HEARTBEAT_S)) as sent:
            async for one in sent:
                yield COMMENT if one is None else one

    async def _messages(self, id: str, after: int) -> AsyncIterator[str]:
        watched = self._watching(id)
        watched.n_viewers += 1
        try:
            place, is_level = 0, False  # level: nothing that the viewer has seen is still ahead
            while True:
                while place < len(watched.messages):
                    one = watched.messages[place]
                    place += 1
                    if one.seq > after or (one.seq == NOT_STORED and is_level):
                        yield one.text
                if not is_level and watched.rendering.picture.last_seq >= after:
                    is_level = True
                    if (so_far := watched.rendering.catch_up()) is not None:
                        yield so_far.text
                elif watched.ended:
                    yield END
                    return
                else:
                    await watched.signal.changed()
        finally:
            watched.n_viewers -= 1
            if not watched.n_viewers:
                await self._let_go(id, watched)

    def _watching(self, id: str) -> WatchedSession:
        watched = self._watched.get(id)
        if watched is None:
            watched = WatchedSession(Rendering(self.service.settings))
            watched.task = asyncio.create_task(self._follow(id, watched))
            self._watched[id] = watched
        return watched

    async def _let_go(self, id: str, watched: WatchedSession) -> None:
        if self._watched.get(id) is watched:
            del self._watched[id]
        if watched.task is not None:
            await end([watched.task])

    async def _follow(self, id: str, watched: WatchedSession) -> None:
        rendering = watched.rendering
        try:
            with suppress(PeerageError):  # its log says how it ended, as far as it did
                async with aclosing(self.service.watch(id)) as batches:
                    async for events in batches:
                        for event in events:
                            if event.seq != NOT_STORED:
                                watched.add(rendering.batch())
                            watched.add(rendering.see(event))
                        watched.add(rendering.batch())
        finally:
            watched.ended = True
            watched.signal.wake()
