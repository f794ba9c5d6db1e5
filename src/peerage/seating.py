"""Build the seats and configuration of a session from settings, and check its question."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from peerage import config
from peerage.config.recorded import recorded_council
from peerage.council.blinding import lone_ordinal
from peerage.council.safety import moderators
from peerage.errors import ConfigError, InputError, UsageError, shown
from peerage.event_facts import opening_of
from peerage.events import Finished, Opened, read_events
from peerage.messages import check_images, read_answer, read_images
from peerage.panel_probabilities import panel_record
from peerage.providers.calling import check_ready
from peerage.providers.local import FIX, QUICK, TOY, available, is_toy, local_seats
from peerage.providers.typed_answers import MAX_QUESTIONS
from peerage.reports.session_options import SessionOptions
from peerage.scoring import recorded_rubric
from peerage.session_config import SessionConfig, SessionSpec, vote_fault
from peerage.stores import Store
from peerage.text import entered_text, valid_text
from peerage.types import (
    MAX_QUERY_CHARACTERS,
    OLD_OWN_VOTES,
    Answer,
    Event,
    Query,
    Rubric,
    Turn,
    TypedQuestion,
)
from peerage.view import SessionView

OPTION_LIMITS = {"predicate": (0, 0), "choice": (2, 255), "score": (2, 10)}
NOT_IDENTITY = {"budget_usd", "deadline_s"}  # a season keeps its id under other ones
ROLES = ("user", "assistant")  # who speaks in a conversation
NO_ANSWERS = "no seat has the role answer."
VOTES_DECIDE = "Seats with the role review vote on typed questions."
JUDGES_GIVEN = 'A panel of seats with roles = ["review"] can only judge given answers.'
OTHER_SEATS = f"Or set a key such as OPENROUTER_API_KEY, or install the local model: {FIX}."


def named_options(council: config.CouncilSettings) -> dict[str, Any]:
    """Return the options that identify a season: those that differ from the defaults.

    A renamed value appears under its first name, so that an older season keeps its id.
    """
    options = council.model_dump(exclude=NOT_IDENTITY, exclude_defaults=True)
    first_words = {new: old for old, new in OLD_OWN_VOTES.items()}
    if "own_votes" in options:
        options["own_votes"] = first_words.get(options["own_votes"], options["own_votes"])
    return options


def seed_of(settings: config.Settings) -> str:
    """Return the configured seed, or draw one."""
    seed = settings.council.seed
    return str(secrets.randbits(32) if seed is None else seed)


def session_config_of(settings: config.Settings, category: str) -> SessionConfig:
    """Return the configuration of sessions of a category."""
    return SessionConfig(
        seats=settings.seats,
        council=settings.council,
        rubric=settings.rubric_for(category),
        limits=settings.audit.limits,
        moderator=moderators.get(settings.council.moderator),
    )


def recorded_rubric_texts(settings: config.Settings, opened: Opened) -> Rubric | None:
    """Return the recorded rubric of a session, with its texts for reviewers."""
    rubric = recorded_rubric(settings, opened)
    if rubric is None or rubric.dimensions:
        return rubric
    texts = {d.name: d for d in config.rubric(rubric.name, settings).dimensions}
    return replace(rubric, dimensions=tuple(texts[n] for n in rubric.weights if n in texts))


def recorded_config(settings: config.Settings, opened: Opened, id_: str) -> SessionConfig:
    """Return the configuration of an interrupted session: its recorded options, today's seats."""
    place = f"session {id_}"
    try:
        settings = config.with_seats(settings, [seat.name for seat in opened.seats])
        check_ready(settings.seats)
    except ConfigError as error:
        raise ConfigError(error.message, place=place, hint=error.hint) from None
    recorded = {seat.name: seat for seat in opened.seats}
    for seat in settings.seats:
        if seat.model != recorded[seat.name].model:
            raise ConfigError(
                f"the seat {seat.name} used {shown(recorded[seat.name].model)} when this session "
                "began.",
                place=place,
                hint="Configure that model again, or start a new session.",
            )

    council = recorded_council(opened, settings.council)
    return SessionConfig(
        seats=tuple(replace(seat, roles=recorded[seat.name].roles) for seat in settings.seats),
        council=council,
        rubric=recorded_rubric_texts(settings, opened),
        limits=settings.audit.limits,
        moderator=moderators.get(council.moderator),
    )


def settings_of(path: str | Path | None, flags: Mapping[str, object]) -> config.Settings:
    """Return the settings, with the default panel if no seat is configured.

    The default panel has the models for which a key is set, or else the local model if it is
    installed.
    """
    settings = config.load(path, flags=flags)
    if not settings.seats:
        seats = config.default_seats()
        panel: dict[str, object] = {"seat": seats} if seats else _local_panel(settings)
        settings = config.load(path, flags={**panel, **flags}) if panel else settings
    n_toys = sum(map(is_toy, settings.seats))
    if n_toys:
        who = "The seats" if n_toys == len(settings.seats) else f"{n_toys} of the seats"
        settings = config.with_note(settings, f"{who} here are {TOY}")
    return settings


def panel_fault(settings: config.Settings) -> str:
    """Return why no vote of this panel could count, or ""."""
    return vote_fault(session_config_of(settings, ""))


def how_to_seat(settings: config.Settings) -> str:
    """Return a hint for a configuration without seats: the file to edit, and other ways."""
    first = "To create a peerage.toml: `peerage init`."
    if settings.file is not None:
        first = f"Add a [[seat]] to {settings.file}."
    return f"{first} {OTHER_SEATS}"


def _local_panel(settings: config.Settings) -> dict[str, object]:
    """Return the seats of the installed local model, and quick options where none is set."""
    if available() is not None:
        return {}
    chosen = settings.council.model_fields_set
    quick = {f"council.{name}": value for name, value in QUICK.items() if name not in chosen}
    return {"seat": [asdict(seat) for seat in local_seats()], **quick}


def check_question(query: Query) -> None:
    """Raise an error for an empty or too long question, before any model is called."""
    if not query.text.strip():
        hint = "Say what is asked about the image." if query.images else ""
        raise InputError("the question is empty.", hint=hint)
    for turn in query.earlier:
        if turn.role not in ROLES:
            raise InputError(
                f"a turn of the conversation has the unknown role {shown(turn.role)}.",
                hint=f"Known: {', '.join(ROLES)}.",
            )
    check_images(query)
    n = sum(map(len, (query.text, query.system, *(turn.content for turn in query.earlier))))
    if n > MAX_QUERY_CHARACTERS:
        before = " with the conversation before it" if query.system or query.earlier else ""
        raise InputError(
            f"the question{before} has {n:,} characters; at most {MAX_QUERY_CHARACTERS:,} are "
            "allowed.",
            hint="Ask about a part of it.",
        )


def query_of(text: str, options: SessionOptions, before: SessionView | None) -> Query:
    """Return the question of a new session, checked; `before` is the session that it follows."""
    query = Query(
        entered_text(text),
        "",
        valid_text(options.category),
        options.system or "",
        options.earlier,
        options.output,
        images=read_images(options.images),
    )
    if before is not None:
        query = follow_up(query, before)
    check_question(query)
    return replace(query, questions=check_typed_questions(options.questions))


def new_spec(
    settings: config.Settings,
    query: Query,
    options: SessionOptions,
    after: str,
    by: str,
    id_: str = "",
) -> SessionSpec:
    """Return a new session; raise an error if its panel lacks the seats that it needs.

    Without `id_` its id is drawn.
    """
    answers = check_answers(options.answers) if options.answers else None
    if query.questions and not settings.seats_that("review"):
        raise ConfigError("no seat has the role review.", place="[[seat]]", hint=VOTES_DECIDE)
    if answers is None and not query.questions and not settings.seats_that("answer"):
        raise ConfigError(NO_ANSWERS, place="[[seat]]", hint=JUDGES_GIVEN)
    check_ready(settings.seats)
    id_ = id_ or secrets.token_hex(8)
    return SessionSpec(
        id=id_,
        query=query,
        seed=seed_of(settings),
        ordinal=lone_ordinal(id_),
        answers=answers,
        after=after,
        budget_usd=options.budget_usd,
        by=by,
        labels=options.metadata or None,
    )


def resumed_session(
    settings: config.Settings,
    store: Store,
    text: str,
    options: SessionOptions,
    history: Sequence[Event],
) -> tuple[SessionSpec, SessionConfig]:
    """Return an unfinished stored session and its configuration, from its events so far."""
    opened, id_ = check_resumable(text, options, history), history[0].session_id
    own = options.budget_usd
    budget_usd = opened.budget_usd if own is None else own
    spec = SessionSpec(
        id=id_,
        query=opened.query,
        seed=opened.seed,
        ordinal=opened.ordinal,
        answers=opened.answers,
        after=opened.after,
        by=opened.by,
        labels=opened.labels,
        budget_usd=settings.council.budget_usd if budget_usd is None else budget_usd,
    )
    session_config = recorded_config(settings, opened, id_)
    if opened.query.questions:
        record = panel_record(store, [seat.name for seat in opened.seats])
        session_config = replace(session_config, panel_record=record)
    return spec, session_config


def check_resumable(text: str, options: SessionOptions, history: Sequence[Event]) -> Opened:
    """Return the first event of a session; raise an error if it cannot be resumed in this way."""
    opened, id_ = opening_of(history), history[0].session_id
    others = sorted(options.model_fields_set - {"resume", "budget_usd"})
    if others:
        raise UsageError(
            f"a resumed session keeps its recorded options; {others[0]} cannot be changed.",
            hint=f"Resume it without {others[0]}, or start a new session.",
        )
    if text and entered_text(text) != opened.query.text:
        raise UsageError(
            f"session {id_} has another question.", hint="Omit the question to resume it."
        )
    if any(isinstance(fact, Finished) for fact in read_events(history)):
        raise UsageError(f"session {id_} is finished.", hint=f"To show it: peerage show {id_}")
    if opened.season:
        raise UsageError(
            f"session {id_} belongs to a season.",
            hint=f"To continue it: peerage run PROMPTS --season {opened.season}",
        )
    return opened


def check_typed_questions(questions: Sequence[TypedQuestion]) -> tuple[TypedQuestion, ...]:
    """Return typed questions that can be voted on; raise an error with the first bad one."""
    if len(questions) > MAX_QUESTIONS:
        raise InputError(
            f"{len(questions)} questions: at most {MAX_QUESTIONS} are allowed.", place="questions"
        )
    names = [one.name for one in questions]
    for i, one in enumerate(questions):
        place, values = f"questions[{i}]", [(o.value, o.is_boolean) for o in one.options]
        least, most = OPTION_LIMITS[one.kind]
        if not one.instructions.strip():
            raise InputError("the instructions are empty.", place=place)
        if not one.name.strip() or names.count(one.name) > 1:
            raise InputError(f"the name {shown(one.name)} is empty or used twice.", place=place)
        if not least <= len(values) <= most:
            raise InputError(f"a {one.kind} must have {least} to {most} options.", place=place)
        if len(set(values)) < len(values) or not all(value.strip() for value, _ in values):
            raise InputError("each option needs a different value.", place=place)
    n = sum(len(o.value + o.description) for one in questions for o in one.options)
    n += sum(len(one.name + one.instructions) for one in questions)
    if n > MAX_QUERY_CHARACTERS:
        raise InputError(f"the questions have more than {MAX_QUERY_CHARACTERS:,} characters.")
    return tuple(questions)


def check_answers(answers: Mapping[str, Any]) -> dict[str, Answer]:
    """Return answers to be judged, by candidate, with names trimmed; refuse an empty one.

    An answer is a text, or a list of messages with tool calls and their results.
    """
    trimmed = {str(name).strip(): answer for name, answer in answers.items()}
    if len(trimmed) < len(answers) or "" in trimmed:
        raise InputError("each answer needs a different name.")
    for name, answer in trimmed.items():
        if not answer or (isinstance(answer, str) and not answer.strip()):
            raise InputError(f"the answer of {shown(name)} has no text.")
    return {
        name: answer if isinstance(answer, str) else read_answer(answer, f"answer of {shown(name)}")
        for name, answer in trimmed.items()
    }


def follow_up(query: Query, view: SessionView) -> Query:
    """Return a question with the conversation and the verdict of a finished session."""
    if not view.is_finished or not view.conclusion:
        resume = f"Finish it with `peerage ask --resume {view.id}`."
        raise UsageError(
            f"session {view.id} has no result to follow up.",
            hint="Ask a new question." if view.is_finished else resume,
        )
    before = view.query
    turns = Turn("user", before.text, before.images), Turn("assistant", view.conclusion)
    return replace(
        query,
        category=query.category or before.category,
        system=query.system or before.system,
        earlier=(*before.earlier, *turns, *query.earlier),
    )
