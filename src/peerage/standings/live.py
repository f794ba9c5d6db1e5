"""The board of a store: from running sums where it is large, so that it answers at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from peerage.boards import Board
from peerage.boards.model_sums import Plan, Sums, add
from peerage.engines import Engine
from peerage.engines.mirror import Mirror
from peerage.engines.reviews import Reviews
from peerage.scoring import Law
from peerage.standings.making import made
from peerage.standings.running import (
    Running,
    added,
    file_of,
    files_in,
    law_of,
    loaded,
    saved,
)
from peerage.standings.table import FEW_ROWS, Table, kernel
from peerage.standings.terms import Terms
from peerage.stores import Store
from peerage.tables import imported, left_out_flags, synced

Laws = Callable[[Mapping[str, Any]], Law]


def board_of_store(
    store: Store, law_for: Laws, terms: Terms, engine: Engine, few_rows: int = FEW_ROWS
) -> Board:
    """The models of everything that a store holds or has imported.

    Up to `few_rows` reviews are simply read: there sessions are kept apart.
    """
    mirror = synced(store, law_for)
    board = _board(mirror, imported(store, mirror, "reviews"), terms, engine, few_rows)
    return replace(board, flags=(*board.flags, *left_out_flags(mirror)))


def _board(
    mirror: Mirror, imports: list[Path], terms: Terms, engine: Engine, few_rows: int
) -> Board:
    files = [*mirror.segments, *imports]
    if not files:
        return made(Table(engine, NO_REVIEWS, terms))
    law = law_of(terms)
    kept = file_of(mirror.folder, law).exists()
    if _plain(terms) and (kept or _n_rows(engine, files) > few_rows):
        running = _updated(mirror, imports, law, engine)
        if running.usable:
            table = Live(engine, files, terms, running)
            board = made(table)
            if table.running is not running:  # it has looked at the edge of its window
                saved(table.running, file_of(mirror.folder, law))
            return board
    return made(Table(engine, files, terms))


NO_REVIEWS: Mapping[str, list[Any]] = {
    "session_id": [],
    "reviewer": [],
    "candidate": [],
    "rank": [],
}


def refresh(store: Store, law_for: Laws, engine: Engine) -> None:
    """Brings the running sums that boards have asked for up to date, so that the next need not."""
    laws = [loaded(path).law for path in files_in(store.mirror_folder)]
    if laws:
        mirror = synced(store, law_for)
        imports = imported(store, mirror, "reviews")
        files = [*mirror.segments, *imports]
        for law in laws:
            running = _updated(mirror, imports, law, engine)
            for since in running.edges if running.usable else ():
                table = Live(engine, files, Terms(since=since, **law), running)
                table.sums(table.plan())
                running = table.running
            saved(running, file_of(mirror.folder, law))


def _updated(
    mirror: Mirror, imports: list[Path], law: Mapping[str, Any], engine: Engine
) -> Running:
    """The running sums under a law, with whatever came since they were last looked at."""
    path = file_of(mirror.folder, law)
    running = _fitting(loaded(path), mirror, imports)
    segments = [one for one in mirror.segments if mirror.rows_of(one)[0] > running.synced_to]
    new = segments + [one for one in imports if one.name not in running.covers]
    if not new:
        return running
    for file in new:
        table = Table(engine, file, Terms(since="all", **law))
        if table.models:
            running = added(running, table, replace(table.plan(), clustered=False))
    running = replace(
        running,
        synced_to=mirror.synced_to,
        covers=tuple(sorted(one.name for one in imports)),
        law=law,
    )
    saved(running, path)
    return running


def _fitting(running: Running, mirror: Mirror, imports: list[Path]) -> Running:
    """The running sums if they cover whole files that are still there, else empty ones."""
    whole = all(
        last <= running.synced_to or first > running.synced_to
        for first, last in map(mirror.rows_of, mirror.segments)
    )
    there = {one.name for one in imports}
    fits = whole and running.synced_to <= mirror.synced_to and there.issuperset(running.covers)
    return running if fits else Running()


def _plain(asked: Terms) -> bool:
    """Whether running sums can answer: of all categories, up to now, everyone's word alike."""
    return not (
        asked.category is not None
        or asked.by_category
        or asked.as_of is not None
        or asked.reputation != "fixed"
    )


def _n_rows(engine: Engine, files: list[Path]) -> int:
    import narwhals.stable.v2 as nw

    return int(engine.arrays(engine.open(files).select(nw.len().alias("n")))["n"][0])


class Live(Table):
    """A table whose sums are kept; its rows are read only where those do not say enough."""

    def __init__(self, engine: Engine, files: list[Path], asked: Terms, running: Running) -> None:
        facts = running.facts
        seen = Reviews(None, facts.columns, facts.n_rows, 0, 0, facts.not_finite, facts.latest)
        self._begin(engine, seen, asked)
        self.running, self._files = running, files
        self.models, self.reviewers, self.names = facts.models, facts.reviewers, facts.names

    @cached_property
    def _rows(self) -> Table:
        return Table(self.engine, self._files, self.asked)

    @cached_property
    def frame(self) -> Any:
        return self._rows.frame

    def n_after(self, instant_s: float) -> int:
        late = self.latest is not None and self.latest > instant_s
        return self._rows.n_after(instant_s) if late else 0

    def sums(self, plan: Plan) -> Sums:
        kept = not plan.clustered and plan.periods is None and plan.logs is None
        if not kept:
            return super().sums(plan)
        total, cut = self.running.within(plan.earliest)
        if cut is None:
            assert total is not None  # noqa: S101 — the window holds the latest review
            return total
        edge = self.running.edges.get(self.asked.since)
        if edge is None:
            edge = self._edge(plan, cut)
            edges = {**self.running.edges, self.asked.since: edge}
            self.running = replace(self.running, edges=edges)
        return edge if total is None else add([total, edge])

    def _edge(self, plan: Plan, cut: tuple[float, float]) -> Sums:
        """The sums of the period in which the window begins, from its rows.

        They were checked when they were taken in, so they are read as they are.
        """
        import narwhals.stable.v2 as nw

        here = (nw.col("at") >= cut[0]) & (nw.col("at") < cut[1])
        rows = self.engine.open(self._files).filter(here)
        return add(self.engine.fold(rows, self.reading(plan), kernel(plan)))
