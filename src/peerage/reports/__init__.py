"""Reports on a store or on tables: boards, audits, rings and sessions.

`Reports` has one method per question, which takes one options model. A door (such as the command
line or the server) parses its input, calls the method and renders the result. The functions of
`from_tables.py` do the same for Python, from tables alone.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from peerage.arguments import ArgumentError
from peerage.engines import Engine, Source, engines, paths_of
from peerage.errors import InputError, UnreadableError, UsageError, shown
from peerage.findings import Audit
from peerage.reports.options import (
    AdviseOptions,
    AuditOptions,
    CheckOptions,
    CommunityBoardOptions,
    GateOptions,
    ModelBoardOptions,
    PassportOptions,
    ReviewSelection,
    RingsOptions,
    parse_scale,
)
from peerage.reports.session_options import ReplayOptions, ScoreOptions, SessionsOptions
from peerage.types import CommunityCoefficients, Event, Rubric, ScoringOptions

if TYPE_CHECKING:
    from peerage.ballot_files import Step
    from peerage.boards import Board
    from peerage.boards.panel_choice import Advice
    from peerage.boards.rings import Rings
    from peerage.config import Settings
    from peerage.engines.review_tables import ReviewTable
    from peerage.reports.community_boards import CommunityBoards
    from peerage.reports.gate_files import Baseline
    from peerage.reports.gate_results import GateResult, GateResults
    from peerage.reports.passports import PassportStatement
    from peerage.reports.requirements import CheckResult, MeasuredValue, Requirement
    from peerage.reports.sessions import ImportList, SessionList
    from peerage.reviews.rows import Rows
    from peerage.scoring import Scored
    from peerage.stores import Store
    from peerage.view import SessionView

NO_OPINIONS: Mapping[str, Any] = dict.fromkeys(
    ("item_id", "contributor", "reviewer", "opinion", "category", "at"), ()
)
NO_REVIEWS_YET = "the store has no reviews yet."
REVIEWS_HINT = "Run a season with `peerage run`, or `peerage import FILE --as reviews`."
NO_OPINIONS_YET = (
    "the store has no opinions yet. To import some: `peerage import FILE --as opinions`."
)


@dataclass(frozen=True, slots=True)
class InputTables:
    """The tables to read (None means the store's), and the engine that reads them."""

    reviews: Source | None = None
    item_weights: Source | None = None
    opinions: Source | None = None
    items: Source | None = None
    users: Source | None = None
    against: Source | None = None  # an outside ranking
    engine: str | Engine = "duckdb"
    master: str | None = None  # of a cluster

    def runner(self) -> Engine:
        """Return the started engine; `master` is only valid with Spark."""
        if isinstance(self.engine, Engine):
            return self.engine
        if not isinstance(self.engine, str):
            raise ArgumentError(
                "engine must be an engine or the name of one.", hint='As in engine="duckdb".'
            )
        make: Any = engines.get(self.engine)
        if self.master is not None and self.engine != "spark":
            raise UsageError(
                f"--master cannot be used with the engine {self.engine}.",
                hint="Add --engine spark.",
            )
        runner: Engine = make() if self.master is None else make(master=self.master)
        return runner

    @contextmanager
    def as_parquet(self) -> Iterator[InputTables]:
        """Yield the same tables, with Parquet copies of files that have no types."""
        from peerage.engines.intake import readable

        with tempfile.TemporaryDirectory() as folder:
            files: dict[str, Any] = {
                kind: readable(Path(folder) / kind, paths)
                for kind in ("reviews", "opinions", "items", "users")
                if self.engine == "duckdb" and (paths := paths_of(getattr(self, kind)))
            }
            yield replace(self, **files)


# -- over a store, or over tables --------------------------------------------------------------


@dataclass(frozen=True)
class Reports:
    """Answers each question from the given tables or, without tables, from the store."""

    settings: Settings
    tables: InputTables = InputTables()
    must_exist: bool = False  # whether a missing store is an error, or created
    keeps_looks: bool = True  # whether a gate may store the queries that it saw; a GET may not
    keeps_reviews: bool = False  # whether the store's reviews stay in memory for the next question

    @cached_property
    def store(self) -> Store:
        from peerage.stores import open_store

        return open_store(self.settings.store, self.settings.data, must_exist=self.must_exist)

    def board(
        self, options: ModelBoardOptions | CommunityBoardOptions, *, tune: bool = False
    ) -> Board:
        """Return the board that these options describe.

        With `tune` and an outside ranking, a community board also has the coefficients that agree
        best with that ranking.
        """
        with self.tables.as_parquet() as tables:
            if isinstance(options, ModelBoardOptions):
                return self._models(tables, options)
            if tune and tables.against is None:
                raise UsageError(
                    "--tune needs an outside ranking to agree with.", hint="Give --against FILE."
                )
            boards, hint = self._community(tables, options)
            board = boards.board()
            if tables.against is not None:
                from peerage.reports.community_boards import trials_of
                from peerage.reports.outside_rankings import compare_with

                trials = trials_of(boards) if tune else ()
                board = compare_with(board, boards.table.engine, tables.against, trials)
            return replace(board, hint=hint or board.hint)

    def audit(self, options: AuditOptions) -> Audit:
        """Return the audit of many sessions' reviewers, and of seats that vote on questions."""
        from peerage.reports.audits import audit_reviews, audit_votes

        with self.tables.as_parquet() as tables:
            files, flags = ([], ()) if tables.reviews is not None else self._stored_reviews()
            limits, rubric = self.settings.audit.limits, self.settings.rubric_for("")
            votes = None if tables.reviews is not None else audit_votes(self.store, options, limits)
            if tables.reviews is None and not files:
                if votes is None:
                    raise InputError(NO_REVIEWS_YET, hint=REVIEWS_HINT)
                return votes.alone(options)
            table = self._table(tables, files)
            if votes is not None and not (table.n_scores or table.n_ranks):
                return votes.alone(options)
            audit = audit_reviews(table, options, limits, rubric, votes)
        views = self._with_parts(audit.views) if tables.reviews is None else audit.views
        flags = (*views.get("flags", ()), *flags)
        return replace(audit, views={**views, "flags": flags} if flags else views)

    def passport(self, options: PassportOptions) -> PassportStatement:
        """Return the statement of a reviewer's passport, which its owner may sign."""
        from peerage.reports.passports import PassportStatement, make_statement

        statement = make_statement(self.store, self.settings, options.reviewer)
        return PassportStatement(statement)

    def advise(self, options: AdviseOptions) -> Advice:
        """Return advice on the panel: each judge's contribution, cheaper panels, and a cascade."""
        from peerage.reports.advice import advise_on_panel, recorded_prices, with_effective_votes
        from peerage.reports.audits import audit_reviews

        with self.tables.as_parquet() as tables:
            files, _ = ([], ()) if tables.reviews is not None else self._stored_reviews()
            if tables.reviews is None and not files:
                raise InputError(NO_REVIEWS_YET, hint=REVIEWS_HINT)
            prices = recorded_prices(self.store) if tables.reviews is None else {}
            table, rubric = self._table(tables, files), self.settings.rubric_for("")
            advice = advise_on_panel(table, options, prices, rubric)
            selection = options.model_dump(include=set(ReviewSelection.model_fields))
            audited = AuditOptions(**selection, since=options.since)
            audit = audit_reviews(table, audited, self.settings.audit.limits, rubric)
        return with_effective_votes(advice, audit.findings)

    def gate(
        self, options: GateOptions, baseline: Baseline | None = None
    ) -> GateResult | GateResults:
        """Return the verdict on a candidate, or on several; a store keeps the queries it saw."""
        from peerage.reports.gates import one_or_several

        return one_or_several(self._gates(options, baseline, keeps_looks=True))

    def _gates(
        self, options: GateOptions, baseline: Baseline | None = None, *, keeps_looks: bool
    ) -> tuple[GateResult, ...]:
        """Return the verdict on each candidate; a season's queries are in its recorded order."""
        from peerage.reports.gates import decide_gate
        from peerage.reports.query_orders import StoredLooks, read_season_order

        with self.tables.as_parquet() as tables:
            files = self._review_files(tables)
            table, rubric = self._table(tables, files), self.settings.rubric_for("")
            selection = {**options.chosen, "since": options.since}
            looks = None
            if files and keeps_looks:
                looks = StoredLooks(self.store, selection, may_write=self.keeps_looks)
            season = self._season(options.season) if files else None
            order = None if season is None else read_season_order(self.store, season)
            results = decide_gate(
                table, options, rubric, baseline=baseline, season=order, looks_kept=looks
            )
            registered = "" if season is None else self._registered_bar(season)
            return tuple(replace(one, registered=registered) for one in results)

    def check(self, options: CheckOptions) -> CheckResult:
        """Return whether each requirement holds, fails or is undecided.

        A requirement on two models uses the interval of a gate, one on a single model the model's
        interval on the board.
        """
        from peerage.reports.requirements import CheckResult, judge_requirement, parse_requirement

        requirements = [parse_requirement(text) for text in options.require]
        if not requirements:
            raise UsageError("no requirement was given.", hint="As in --require 'share(a) > 0.5'.")
        boards: dict[str | None, Board] = {}
        results = [
            judge_requirement(one, self._estimate(one, options, boards)) for one in requirements
        ]
        return CheckResult(tuple(results))

    def _estimate(
        self, requirement: Requirement, options: CheckOptions, boards: dict[str | None, Board]
    ) -> MeasuredValue:
        """Return the measured value for a requirement; boards are cached for the next one."""
        from peerage.reports.requirements import (
            GATE_METRICS,
            MeasuredValue,
            estimate_mean,
            estimate_on_board,
        )

        chosen = options.model_dump(exclude={"require", "scale"})
        metric = GATE_METRICS.get(requirement.measure, requirement.measure)
        about = {"metric": metric, "scale": options.scale, "on": requirement.category}
        if requirement.rival:
            sides = {"base": requirement.rival, "candidate": requirement.model}
            sides_of = GateOptions.of({**chosen, **about, **sides})
            (result,) = self._gates(sides_of, keeps_looks=False)
            (one,) = result.measures
            low, high = parse_scale(options.scale) if metric == "mark" else (0.0, 1.0)
            return MeasuredValue(
                *(round((high - low) * x, 12) for x in (one.difference, one.low, one.high))
            )
        if requirement.measure == "correct":
            one_side = GateOptions.of({**chosen, **about, "base": requirement.model})
            return estimate_mean([value for (value,) in self.baseline(one_side).values.values()])
        category = requirement.category
        if category not in boards:
            boards[category] = self.board(ModelBoardOptions(**chosen, category=category))
        if not boards[category].rows and category is not None:
            raise UsageError(f"no review has the category {shown(category)}.")
        return estimate_on_board(boards[category], requirement)

    def baseline(self, options: GateOptions) -> Baseline:
        """Return the base's value on each query, to be saved in a file."""
        from peerage.reports.gates import make_baseline

        with self.tables.as_parquet() as tables:
            table = self._table(tables, self._review_files(tables))
            return make_baseline(table, options, self.settings.rubric_for(""))

    def rings(self, options: RingsOptions) -> Rings:
        """Return the voting rings among the opinions, with their evidence."""
        with self.tables.as_parquet() as tables:
            boards, hint = self._community(tables, options)
            return replace(boards.rings, hint=hint)

    def sessions(self, options: SessionsOptions) -> SessionList:
        """Return the latest sessions of the store that match the options."""
        from peerage.reports.sessions import SessionList, find_sessions, with_status

        listed = tuple(map(with_status, find_sessions(self.store, options)))
        return SessionList(listed, filtered=options != SessionsOptions(limit=options.limit))

    def imports(self, *, deleted: bool = False) -> ImportList:
        """Return the imported tables: those in use, or those deleted."""
        from peerage.reports.sessions import ImportList

        listed = self.store.imports()
        return ImportList(tuple(one for one in listed if (one.deleted_at is not None) == deleted))

    def session(self, prefix: str) -> SessionView:
        """Return one session as it was first scored, by its id or the beginning of the id."""
        from peerage.view import SessionView

        return SessionView.of(self._events(prefix), self.settings)

    def session_document(self, prefix: str) -> dict[str, Any]:
        """Return one session as plain JSON values."""
        from peerage.reports.sessions import session_document

        return session_document(self.session(prefix))

    def replay(self, prefix: str, options: ReplayOptions) -> Scored:
        """Return one session scored again under the settings and these options."""
        from peerage.reports.sessions import replay_session

        return replay_session(self.session(prefix), self.settings, options)

    def score(
        self,
        document: object,
        options: ScoreOptions,
        source: str = "ballots",
        step: Step | None = None,
    ) -> list[Scored]:
        """Return the scored sessions of a ballots document, under these settings."""
        from peerage import config
        from peerage.ballot_files import report_nothing, report_steps, sessions_of
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
        step = step or report_nothing
        sessions = sessions_of(document, source, step)
        scored = report_steps(sessions, step, "sessions scored")
        return [score_session(session, scoring, step) for session in scored]

    def audit_session(self, prefix: str) -> Audit:
        """Return the audit of one session; most of its findings are `too_few`."""
        view = self.session(prefix)
        if view.query.questions:
            from peerage.reports.audits import audit_decision

            return audit_decision(view, self.settings.audit.limits)
        audit = view.result.audit
        if audit is None:
            raise InputError("the audit is switched off.", hint="Set [council] audit = true.")
        return audit

    def review_files(self) -> list[Path]:
        """Return the Parquet files of every review in the store, including imported ones."""
        files, _ = self._stored_reviews()
        if not files:
            raise InputError(NO_REVIEWS_YET, hint=REVIEWS_HINT)
        return files

    def review_rows(self, columns: set[str]) -> Rows:
        """Return every review in the store as arrays, with some of its columns."""
        from peerage.engines.review_tables import read_reviews
        from peerage.reports.people_reviews import in_one_block

        table = read_reviews(InputTables().runner(), self.review_files())
        return in_one_block(table.load(columns))

    def items(self) -> list[dict[str, Any]]:
        """Return the imported or contributed items: id, contributor, and text if given."""
        from peerage.reports.stored_reviews import community_tables

        files = community_tables(self.store, "items")
        if not files:
            return []
        engine = InputTables().runner()
        frame = engine.open(files)
        names = [name for name in ("item_id", "contributor", "text") if name in frame.columns]
        columns = engine.arrays(frame.select(*names))
        rows = zip(*(values.tolist() for values in columns.values()), strict=True)
        return [dict(zip(columns, row, strict=True)) for row in rows]

    # -- where it is read from -----------------------------------------------------------------

    def _models(self, tables: InputTables, options: ModelBoardOptions) -> Board:
        from peerage.reports.model_boards import NO_REVIEWS

        rubric = self.settings.rubric_for(options.category or "")
        if tables.reviews is not None:
            return read_model_board(tables, options, rubric)
        files, flags = self._stored_reviews()
        if not files:
            nothing = replace(tables, reviews=NO_REVIEWS, engine="duckdb", master=None)
            options = options.model_copy(update=dict.fromkeys(("panel", "without"), ()))
            options = options.model_copy(update={"season": None, "weights": ""})
            return replace(
                read_model_board(nothing, options), hint=f"{NO_REVIEWS_YET} {REVIEWS_HINT}"
            )
        board = read_model_board(tables, options, rubric, self._table(tables, files))
        return replace(board, flags=(*board.flags, *flags), notes=self._with_parts(board.notes))

    def _with_parts(self, notes: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return notes whose fingerprints list what changed, as recorded in the log."""
        from peerage.reports.judge_versions import describe_versions

        if "fingerprints" not in notes:
            return notes
        described = describe_versions(self.store, notes["fingerprints"])
        return {**notes, "fingerprints": described}

    def _table(self, tables: InputTables, files: list[Path]) -> ReviewTable:
        """Return the given table of reviews, or else the store's."""
        from peerage.engines.review_tables import read_reviews
        from peerage.reports.stored_reviews import keep_reviews

        if tables.reviews is None and self.keeps_reviews and tables.engine == "duckdb":
            return replace(keep_reviews(files), engine=tables.runner())
        return read_reviews(tables.runner(), tables.reviews if files == [] else files)

    def _review_files(self, tables: InputTables) -> list[Path]:
        """Return the files of the store's reviews; an empty list if a table is given."""
        return [] if tables.reviews is not None else self.review_files()

    def _season(self, beginning: str | None) -> str | None:
        """Return the id of the store's season that begins so; None if there is none, or several."""
        matches = [s for s in self.store.seasons() if beginning and s.startswith(beginning)]
        if beginning in matches:
            return beginning
        return matches[0] if len(matches) == 1 else None

    def _registered_bar(self, season: str) -> str:
        """Return the hash of the bar with which a season was started; empty if there is none."""
        from peerage.events import Opened, read_event
        from peerage.reports.gate_files import registered_hash

        for event in self.store.openings(season):
            with suppress(UnreadableError):
                if isinstance(opened := read_event(event), Opened) and opened.design:
                    return registered_hash(opened.design)
        return ""

    def _stored_reviews(self) -> tuple[list[Path], tuple[str, ...]]:
        """Return the files of all reviews, and a flag for sessions that cannot be read."""
        from peerage.reports.stored_reviews import stored_reviews
        from peerage.scoring import recorded_rubric

        return stored_reviews(self.store, partial(recorded_rubric, self.settings))

    def _community(self, tables: InputTables, options: RingsOptions) -> tuple[CommunityBoards, str]:
        """Return the boards of a community, and a hint if there are no opinions.

        If no opinions are given, the store's imported tables are used for every table not given.
        """
        from peerage.reports.stored_reviews import community_files

        if tables.opinions is None:
            kinds = [k for k in ("opinions", "items", "users") if getattr(tables, k) is None]
            files_by_kind = community_files(self.store, kinds).items()
            stored: dict[str, Any] = {kind: files or None for kind, files in files_by_kind}
            tables = replace(tables, **stored)
        hint = "" if tables.opinions is not None else NO_OPINIONS_YET
        if not any((tables.opinions, tables.items, tables.users)):  # then no engine is needed
            tables = replace(tables, engine="duckdb", master=None)
        if hint:
            tables = replace(tables, opinions=NO_OPINIONS)
        coefficients = CommunityCoefficients(**self.settings.community.model_dump())
        return read_community_boards(tables, options, coefficients), hint

    def _events(self, prefix: str) -> list[Event]:
        from peerage.stores import full_id

        return self.store.events(full_id(self.store, prefix))


# -- boards ------------------------------------------------------------------------------------


def read_model_board(
    tables: InputTables,
    options: ModelBoardOptions,
    rubric: Rubric | None = None,
    table: ReviewTable | None = None,
) -> Board:
    """Return the board of a table of reviews, by default of the one in `tables`."""
    from peerage.engines.review_tables import read_reviews
    from peerage.reports.board_reviews import BoardReviews
    from peerage.reports.model_boards import build_model_board

    table = table or read_reviews(tables.runner(), tables.reviews)
    reviews = BoardReviews(table, options, tables.item_weights, rubric)
    board = build_model_board(reviews)
    if tables.against is None:
        return board
    from peerage.reports.outside_rankings import compare_with

    return compare_with(board, table.engine, tables.against)


def read_community_boards(
    tables: InputTables,
    options: RingsOptions | None = None,
    coefficients: CommunityCoefficients | None = None,
) -> CommunityBoards:
    """Return the boards of a community's opinions.

    The opinions are read again as needed: the tables must exist while boards are made.
    """
    from peerage.reports.community_boards import COEFFICIENTS, CommunityBoards, read_tables

    options = options or RingsOptions()
    if not isinstance(options, CommunityBoardOptions):
        options = CommunityBoardOptions(**options.model_dump())
    coefficients = coefficients or COEFFICIENTS
    table = read_tables(tables.runner(), tables.opinions, tables.users, tables.items, coefficients)
    return CommunityBoards(table, options, coefficients)
