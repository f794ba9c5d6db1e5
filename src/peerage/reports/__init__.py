"""The one read side: boards, audits, rings and sessions, over a store or over tables.

`Reports` answers each question with one method that takes one options model; a door parses,
calls it and renders the result. The functions are the same for Python, over tables alone.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from peerage.engines import Engine, Source, engines
from peerage.errors import InputError, UsageError
from peerage.reports.options import (
    AuditKeywords,
    AuditOptions,
    CommunityBoardOptions,
    ContributorBoardKeywords,
    ContributorBoardOptions,
    ItemBoardKeywords,
    ItemBoardOptions,
    ModelBoardKeywords,
    ModelBoardOptions,
    ReplayOptions,
    ReviewerBoardKeywords,
    ReviewerBoardOptions,
    RingsKeywords,
    RingsOptions,
    ScoreOptions,
    SessionsOptions,
)
from peerage.reviews.times import span_s
from peerage.types import (
    Audit,
    AuditLimits,
    CommunityCoefficients,
    Event,
    Rubric,
    ScoringOptions,
    Session,
    Tabular,
)

if TYPE_CHECKING:
    from peerage.biases.many_sessions import Blocks, Plan, Totals
    from peerage.boards import Board
    from peerage.boards.rings import Rings
    from peerage.config import Settings
    from peerage.engines.reviews import Reviews, RowsReading
    from peerage.events import Opened
    from peerage.reports.community_boards import CommunityBoards
    from peerage.reports.sessions import SessionEntry, SessionView
    from peerage.reports.stored_reviews import RubricOf
    from peerage.reviews.rows import Rows
    from peerage.scoring import Scored
    from peerage.stores import Store

T = TypeVar("T")
FEW_ROWS = 2_000_000  # that one block holds
NO_OPINIONS: Mapping[str, Any] = dict.fromkeys(
    ("item_id", "contributor", "reviewer", "opinion", "category", "at"), ()
)
NO_REVIEWS_YET = InputError(
    "the store has no reviews yet.",
    hint="Hold a season with `peerage run`, or `peerage import FILE --as reviews`.",
)
NO_OPINIONS_YET = InputError(
    "the store has no opinions yet.", hint="`peerage import FILE --as opinions` brings them."
)


# -- over tables, from Python ------------------------------------------------------------------


def board_models(
    reviews: Source,
    *,
    engine: str | Engine = "duckdb",
    item_weights: Source | None = None,
    against: Source | None = None,
    **options: Unpack[ModelBoardKeywords],
) -> Board:
    """The models, the best first, from any `reviews` table.

    Weights of items are a table of `item_id` and `weight`; they are matched to `query_id`, or
    to `session_id` where there is none, and a session without one is left out and counted.
    `against` is an outside ranking, to be told how far the board agrees with it.
    """
    tables = InputTables(reviews, item_weights, against=against, engine=engine)
    with tables.as_parquet() as files:
        return _model_board(files, files.reviews, ModelBoardOptions(**options))


def board_contributors(
    opinions: Source,
    users: Source | None = None,
    *,
    items: Source | None = None,
    engine: str | Engine = "duckdb",
    coefficients: CommunityCoefficients | None = None,
    **options: Unpack[ContributorBoardKeywords],
) -> Board:
    """The contributors, the best first, from any `opinions` table."""
    tables = InputTables(opinions=opinions, users=users, items=items, engine=engine)
    return _community_board(tables, ContributorBoardOptions(**options), coefficients)


def board_reviewers(
    opinions: Source,
    users: Source | None = None,
    *,
    items: Source | None = None,
    engine: str | Engine = "duckdb",
    coefficients: CommunityCoefficients | None = None,
    **options: Unpack[ReviewerBoardKeywords],
) -> Board:
    """The reviewers, the best first, from any `opinions` table."""
    tables = InputTables(opinions=opinions, users=users, items=items, engine=engine)
    return _community_board(tables, ReviewerBoardOptions(**options), coefficients)


def board_items(
    opinions: Source,
    users: Source | None = None,
    *,
    items: Source | None = None,
    engine: str | Engine = "duckdb",
    coefficients: CommunityCoefficients | None = None,
    **options: Unpack[ItemBoardKeywords],
) -> Board:
    """The items, the best first, from any `opinions` table."""
    tables = InputTables(opinions=opinions, users=users, items=items, engine=engine)
    return _community_board(tables, ItemBoardOptions(**options), coefficients)


def find_rings(
    opinions: Source,
    users: Source | None = None,
    *,
    items: Source | None = None,
    engine: str | Engine = "duckdb",
    **options: Unpack[RingsKeywords],
) -> Rings:
    """The voting rings in any `opinions` table, with the evidence."""
    tables = InputTables(opinions=opinions, users=users, items=items, engine=engine)
    with tables.as_parquet() as files:
        return read_community_boards(files, RingsOptions(**options)).rings


def audit(
    reviews: Source,
    *,
    engine: str | Engine = "duckdb",
    limits: AuditLimits | None = None,
    **options: Unpack[AuditKeywords],
) -> Audit:
    """What can be said of the reviewers of many sessions, from any `reviews` table.

    q-values are over all findings, also where only one reviewer's are asked for. With a
    dimension the marks of that dimension are audited in place of scores.
    """
    with InputTables(reviews, engine=engine).as_parquet() as files:
        return _audit(files.runner(), files.reviews, AuditOptions(**options), limits)


@dataclass(frozen=True, slots=True)
class InputTables:
    """Tables to be read (those that are None are the store's), and the engine that reads them."""

    reviews: Source | None = None
    item_weights: Source | None = None
    opinions: Source | None = None
    items: Source | None = None
    users: Source | None = None
    against: Source | None = None  # an outside ranking
    engine: str | Engine = "duckdb"
    master: str | None = None  # of a cluster

    def runner(self) -> Engine:
        """The engine, started; a master is a cluster's, so it goes with Spark."""
        if not isinstance(self.engine, str):
            return self.engine
        make: Any = engines.get(self.engine)
        if self.master is not None and self.engine != "spark":
            raise UsageError(f"--master is not for {self.engine}.", hint="Add --engine spark.")
        runner: Engine = make() if self.master is None else make(master=self.master)
        return runner

    @contextmanager
    def as_parquet(self) -> Iterator[InputTables]:
        """The same, with Parquet in the place of files in which types can only be guessed."""
        from peerage.engines.intake import readable

        with tempfile.TemporaryDirectory() as folder:
            files: dict[str, Any] = {
                kind: readable(Path(folder) / kind, paths)
                for kind in ("reviews", "opinions", "items", "users")
                if self.engine == "duckdb" and (paths := _paths(getattr(self, kind)))
            }
            yield replace(self, **files)


def _paths(source: Source | None) -> list[str]:
    """The paths that a source is made of; none where it is a table."""
    listed = source if isinstance(source, list | tuple) else [source]
    are_paths = all(isinstance(one, str | Path) for one in listed)
    return [str(one) for one in listed] if are_paths else []


# -- over a store, or over tables --------------------------------------------------------------


@dataclass(frozen=True)
class Reports:
    """Answers each question from the tables that are given and, without them, from the store."""

    settings: Settings
    tables: InputTables = InputTables()
    must_exist: bool = False  # whether a store that is not there is refused, not made

    @cached_property
    def store(self) -> Store:
        from peerage.stores import open_store

        return open_store(self.settings.store, self.settings.data, must_exist=self.must_exist)

    def board(
        self, options: ModelBoardOptions | CommunityBoardOptions, *, tune: bool = False
    ) -> Board:
        """The board that these options are of.

        Beside an outside ranking a community board can be tuned: the coefficients that agree
        with it best are searched.
        """
        with self.tables.as_parquet() as tables:
            if isinstance(options, ModelBoardOptions):
                return self._models(tables, options)
            if tune and tables.against is None:
                raise UsageError(
                    "--tune needs something to agree with.", hint="Give --against FILE."
                )
            boards, hint = self._community(tables, options)
            board = replace(boards.board(), hint=hint)
            return board if tables.against is None else _compared(board, boards, tables, tune)

    def audit(self, options: AuditOptions) -> Audit:
        """What can be said of the reviewers of many sessions."""
        with self.tables.as_parquet() as tables:
            files: Source | None = tables.reviews
            flags: tuple[str, ...] = ()
            if files is None:
                files, flags = self._stored_reviews()
            if not files:
                raise NO_REVIEWS_YET
            found = _audit(tables.runner(), files, options, self.settings.audit.limits)
        return replace(found, views={**found.views, "flags": flags}) if flags else found

    def rings(self, options: RingsOptions) -> Rings:
        """The voting rings among the opinions, with the evidence."""
        with self.tables.as_parquet() as tables:
            boards, hint = self._community(tables, options)
            return replace(boards.rings, hint=hint)

    def sessions(self, options: SessionsOptions) -> SessionList:
        """The latest sessions of the store."""
        from peerage.reports.sessions import session_entry

        listed = self.store.sessions(limit=options.limit, before=options.before)
        return SessionList(tuple(session_entry(one, self.store.events(one.id)) for one in listed))

    def session(self, prefix: str) -> StoredSession:
        """One session as it was scored then, by its id or the beginning of it."""
        from peerage.council.fold import fold
        from peerage.events import opening_of
        from peerage.panel import recorded_options

        events = self._events(prefix)
        options = recorded_options(self.settings, opening_of(events))
        return StoredSession(fold(events), tuple(events), options)

    def replay(self, prefix: str, options: ReplayOptions) -> Scored:
        """One session read and scored again as set, but for these options; no model is called."""
        from peerage import config
        from peerage.council.fold import fold
        from peerage.events import without_readings
        from peerage.panel import scoring_options
        from peerage.reports.sessions import rescored

        session = fold(without_readings(self._events(prefix)))
        if not session.ballots:
            raise InputError(f"session {session.id} has no ballots to score.")
        changes = options.model_dump(exclude_none=True)
        if name := changes.get("rubric"):
            changes["rubric"] = None if name == "none" else config.rubric(name, self.settings)
        scoring = scoring_options(self.settings, session.query.category)
        return rescored(session, replace(scoring, **changes))

    def score(
        self, document: object, options: ScoreOptions, source: str = "ballots"
    ) -> list[Scored]:
        """The sessions of a ballots document, scored; rubrics and limits are the settings'."""
        from peerage import config
        from peerage.council.documents import sessions_of
        from peerage.scoring import score_session

        settings = self.settings
        scoring = ScoringOptions(
            rule=options.rule,
            own_votes=options.own_votes,
            rubric=config.rubric(options.rubric, settings) if options.rubric else None,
            safety_gate=options.safety_gate or settings.council.safety_gate,
            safety_score_cap=settings.council.safety_score_cap,
            limits=settings.audit.limits,
        )
        return [score_session(session, scoring) for session in sessions_of(document, source)]

    def audit_session(self, prefix: str) -> Audit:
        """The audit of one session: mostly that one session is too few."""
        from peerage.reports.sessions import rescored

        stored = self.session(prefix)
        found = rescored(stored.session, stored.options).audit
        if found is None:
            raise InputError("the audit is switched off.", hint="Set [council] audit = true.")
        return found

    def review_files(self) -> list[str]:
        """The Parquet files of every review in the store, held here or imported."""
        files, _ = self._stored_reviews()
        if not files:
            raise NO_REVIEWS_YET
        return files

    def items(self) -> list[dict[str, Any]]:
        """The items that were imported or contributed: id, contributor, and text where given."""
        files = self._with_imported(InputTables()).items
        if files is None:
            return []
        engine = InputTables().runner()
        engine.admit(files)
        frame = engine.open(files)
        kept = [name for name in ("item_id", "contributor", "text") if name in frame.columns]
        found = engine.arrays(frame.select(*kept))
        rows = zip(*(found[name].tolist() for name in kept), strict=True)
        return [dict(zip(kept, row, strict=True)) for row in rows]

    # -- where it is read from -----------------------------------------------------------------

    def _models(self, tables: InputTables, options: ModelBoardOptions) -> Board:
        from peerage.reports.model_boards import NO_REVIEWS

        if tables.reviews is not None:
            return _model_board(tables, tables.reviews, options)
        files, flags = self._stored_reviews()
        if not files:
            nothing = replace(tables, engine="duckdb", master=None)
            return replace(_model_board(nothing, NO_REVIEWS, options), hint=str(NO_REVIEWS_YET))
        if tables.item_weights is not None or tables.engine != "duckdb":
            board = _model_board(tables, files, options)
            return replace(board, flags=(*board.flags, *flags))
        engine = tables.runner()
        return _agreeing(
            board_models_of_store(self.store, self._rubric_of, options, engine), tables, engine
        )

    def _stored_reviews(self) -> tuple[list[str], tuple[str, ...]]:
        """The files of everything reviewed or imported, and a flag for what cannot be read."""
        from peerage.reports.stored_reviews import imported, left_out_flags, synced

        mirror = synced(self.store, self._rubric_of)
        files = [*mirror.segments, *imported(self.store, mirror, "reviews")]
        return [str(file) for file in files], left_out_flags(mirror)

    def _community(self, tables: InputTables, options: RingsOptions) -> tuple[CommunityBoards, str]:
        """The boards of a community, and a hint where there is nothing to make them from."""
        if tables.opinions is None:
            tables = self._with_imported(tables)
        hint = "" if tables.opinions is not None else str(NO_OPINIONS_YET)
        if not any((tables.opinions, tables.items, tables.users)):  # then no engine is needed
            tables = replace(tables, engine="duckdb", master=None)
        if hint:
            tables = replace(tables, opinions=NO_OPINIONS)
        coefficients = CommunityCoefficients(**self.settings.community.model_dump())
        return read_community_boards(tables, options, coefficients), hint

    def _with_imported(self, tables: InputTables) -> InputTables:
        """The tables, with what was imported into the store in the place of what was not named."""
        from peerage.reports.stored_reviews import community_tables

        stored: dict[str, Any] = {
            kind: community_tables(self.store, kind) or None
            for kind in ("opinions", "items", "users")
            if getattr(tables, kind) is None
        }
        return replace(tables, **stored)

    def _rubric_of(self, opened: Opened) -> Rubric | None:
        from peerage.panel import recorded_rubric

        return recorded_rubric(self.settings, opened)

    def _events(self, prefix: str) -> list[Event]:
        from peerage.stores import stored_events

        return stored_events(self.store, prefix)


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A stored session, its log, and the options it was scored under."""

    session: Session
    events: tuple[Event, ...]
    options: ScoringOptions

    def document(self) -> dict[str, Any]:
        """The JSON of the session, in full."""
        from peerage.reports.sessions import session_document

        return session_document(self.session, self.events, self.options)

    def view(self) -> SessionView:
        """Everything that there is to show of the session."""
        from peerage.reports.sessions import session_view

        return session_view(self.session, self.events, self.options)


@dataclass(frozen=True, slots=True, repr=False)
class SessionList(Tabular):
    """Stored sessions, one line each."""

    sessions: tuple[SessionEntry, ...]

    def __repr__(self) -> str:
        return f"SessionList({len(self.sessions)} sessions)"

    def table(self) -> dict[str, list[Any]]:
        listed = [asdict(one) for one in self.sessions]
        return {name: [one[name] for one in listed] for name in (listed[0] if listed else ())}

    def document(self) -> dict[str, Any]:
        """The JSON of the list."""
        return {"sessions": self.rows}


# -- boards ------------------------------------------------------------------------------------


def _model_board(tables: InputTables, reviews: Source, options: ModelBoardOptions) -> Board:
    from peerage.reports.model_boards import ReviewsTable, board_of_table

    engine = tables.runner()
    board = board_of_table(ReviewsTable(engine, reviews, options, tables.item_weights))
    return _agreeing(board, tables, engine)


def board_models_of_store(
    store: Store, rubric_of: RubricOf, options: ModelBoardOptions, engine: Engine
) -> Board:
    """The models of everything that a store holds or has imported."""
    from peerage.reports.model_boards import (
        NO_REVIEWS,
        ReviewsTable,
        StoredReviews,
        build_model_board,
    )
    from peerage.reports.stored_reviews import imported, left_out_flags, synced

    mirror = synced(store, rubric_of)
    files = [*mirror.segments, *imported(store, mirror, "reviews")]
    stored = StoredReviews(engine, mirror, files, options) if files else None
    board = build_model_board(stored or ReviewsTable(engine, NO_REVIEWS, options))
    return replace(board, flags=(*board.flags, *left_out_flags(mirror)))


def _agreeing(board: Board, tables: InputTables, engine: Engine) -> Board:
    """A board of models that says how far it agrees with an outside ranking, if there is one."""
    if tables.against is None:
        return board
    from peerage.boards.against import compare
    from peerage.reports.outside import model_scores, read_outside

    agreement = compare(model_scores(board), read_outside(engine, tables.against))
    return replace(board, notes={**board.notes, "against": agreement.document()})


def read_community_boards(
    tables: InputTables,
    options: RingsOptions | None = None,
    coefficients: CommunityCoefficients | None = None,
) -> CommunityBoards:
    """The opinions of a community, from which each of its boards can be had.

    They are read again as needed: the tables must stay while boards are made.
    """
    from peerage.reports.community_boards import COEFFICIENTS, CommunityBoards, read_tables

    options = options or RingsOptions()
    if not isinstance(options, CommunityBoardOptions):
        options = CommunityBoardOptions(**options.model_dump())
    coefficients = coefficients or COEFFICIENTS
    table = read_tables(tables.runner(), tables.opinions, tables.users, tables.items, coefficients)
    return CommunityBoards(table, options, coefficients)


def _community_board(
    tables: InputTables,
    options: CommunityBoardOptions,
    coefficients: CommunityCoefficients | None,
) -> Board:
    with tables.as_parquet() as files:
        return read_community_boards(files, options, coefficients).board()


def _compared(board: Board, boards: CommunityBoards, tables: InputTables, tune: bool) -> Board:
    """A community board that says how far it agrees with an outside ranking."""
    from peerage.boards.against import compare
    from peerage.reports.outside import read_outside, scores_of, tuned

    outside = read_outside(tables.runner(), tables.against)
    notes = {"against": compare(scores_of(board), outside).document()}
    if tune:
        notes["tuned"] = tuned(boards, outside).document()
    return replace(board, notes=notes)


# -- audits ------------------------------------------------------------------------------------


def _audit(
    engine: Engine, reviews: Source, options: AuditOptions, limits: AuditLimits | None = None
) -> Audit:
    from peerage.biases.many_sessions import compared_over, conclude
    from peerage.engines.reviews import read_reviews
    from peerage.engines.reviews import since as windowed

    table = read_reviews(engine, reviews)
    window = span_s(options.since)
    latest = table.latest
    earliest = None if window is None or latest is None else latest - window
    frame = windowed(table, earliest, None)
    plan, reading = _prepared(engine, table, frame, options.dimension)
    bounds = limits or AuditLimits()
    blocks = _blocks(engine, table, frame, reading)
    totals = _totals(engine, table, frame, plan, reading, blocks)
    compared = compared_over(blocks, totals, plan, bounds)
    found = conclude(totals, compared, reading.names, plan, bounds)
    views = {**found.views, "since": options.since, "not_finite": table.not_finite}
    if people := _people(engine, table, frame):
        views["people"] = people
    found = replace(found, views=views)
    if options.reviewer is not None:
        found = _about(found, options.reviewer, reading.names)
    return found


def _people(engine: Engine, table: Reviews, frame: Any) -> list[str]:
    """The reviewers who are people, not models."""
    if "person" not in table.columns:
        return []
    import narwhals.stable.v2 as nw

    named = frame.filter(nw.col("person") == 1).select("reviewer").unique()
    return sorted(engine.arrays(named)["reviewer"].tolist())


def _prepared(
    engine: Engine, table: Reviews, frame: Any, dimension: str | None
) -> tuple[Plan, RowsReading]:
    from peerage.biases.many_sessions import plan as planned
    from peerage.engines.reviews import reading_of
    from peerage.reviews.columns import MARK, is_number

    value = _value_column(table, dimension)
    plan = planned(table.columns, value)
    numbers = tuple(
        name
        for name in table.columns
        if (is_number(name) or name == "at")
        and (not name.startswith(MARK) or name in (*plan.dimensions, value))
        and (name not in ("rank", "score") or name == value)
    )
    text = "style" in plan.metrics
    return plan, reading_of(engine, frame, table.columns, numbers, text)


def _blocks(engine: Engine, table: Reviews, frame: Any, reading: RowsReading) -> Blocks:
    """The table as blocks to pass over, checked; one that is not large is read only once."""
    from peerage.engines.reviews import refuse_duplicates
    from peerage.reviews.rows import has_duplicates

    def passed(kernel: Callable[[Rows], T], reading: RowsReading) -> Sequence[T]:
        def checked(rows: Rows) -> T | None:
            return None if has_duplicates(rows) else kernel(rows)

        parts = _parts(engine, frame, reading, checked)
        if any(part is None for part in parts):
            refuse_duplicates(engine, frame, table.columns)
        return [part for part in parts if part is not None]

    if table.n_rows > FEW_ROWS:
        return lambda kernel: passed(kernel, reading)
    held = passed(lambda rows: rows, replace(reading, whole_queries=True))
    return lambda kernel: [kernel(rows) for rows in held]


def _parts(
    engine: Engine, frame: Any, reading: RowsReading, kernel: Callable[[Rows], T]
) -> list[T]:
    """A kernel's value on each block of whole sessions."""
    from peerage.engines.reviews import fold_rows

    def joined(parts: Sequence[list[T]]) -> list[T]:
        return [one for part in parts for one in part]

    return fold_rows(engine, frame, reading, lambda rows: [kernel(rows)], joined)


def _totals(
    engine: Engine, table: Reviews, frame: Any, plan: Plan, reading: RowsReading, blocks: Blocks
) -> Totals:
    """Every metric's sums; a large table is read again only for what compares sessions."""
    from peerage.biases.many_sessions import add, split, sums_of
    from peerage.engines.reviews import repeated_queries

    if table.n_rows <= FEW_ROWS:
        return add(blocks(partial(sums_of, plan=plan)))
    within, across = split(plan)
    totals = add(blocks(partial(sums_of, plan=within)))
    if not across.metrics:
        return totals
    if across.metrics == ("consistency",) and "query_id" in table.columns and not table.rounds:
        frame = repeated_queries(engine, frame)
    whole = replace(reading, whole_queries=True)
    compared = add(_parts(engine, frame, whole, partial(sums_of, plan=across)))
    return replace(
        totals,
        by_metric={**totals.by_metric, **compared.by_metric},
        failed={**totals.failed, **compared.failed},
    )


def _value_column(table: Reviews, dimension: str | None) -> str:
    """What stands for a review's score: marks if asked for, else scores, else ranks."""
    if dimension is not None:
        name = f"mark_{dimension}"
        if name not in table.columns:
            marks = [c.removeprefix("mark_") for c in table.columns if c.startswith("mark_")]
            raise UsageError(
                f"no review has a mark for {dimension!r}.",
                hint=f"Known: {', '.join(marks) or 'none'}.",
            )
        return name
    if "score" in table.columns and table.n_scores >= table.n_ranks:
        return "score"
    if "rank" in table.columns:
        return "rank"
    if "score" in table.columns:
        return "score"
    raise InputError(
        "the table has marks but neither a rank nor a score.", hint="Name a dimension to audit."
    )


def _about(found: Audit, reviewer: str, names: tuple[str, ...]) -> Audit:
    """The findings whose subject is one reviewer, or a pair that it is the reviewer of."""
    if reviewer not in names:
        known = ", ".join(names[:20])
        raise UsageError(f"nobody is called {reviewer!r} here.", hint=f"Known: {known}.")
    kept = tuple(
        one
        for one in found.findings
        if one.subject == reviewer or one.subject.startswith(f"{reviewer}>")
    )
    return replace(found, findings=kept)
