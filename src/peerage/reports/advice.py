"""Advice on a panel from stored reviews: no model is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from peerage.boards.common_cells import pair_cells
from peerage.boards.panel_choice import Advice, choose_panel
from peerage.engines.review_tables import ReviewTable
from peerage.errors import PeerageError, UsageError, shown
from peerage.events import Reviewed, read_events
from peerage.findings import Finding
from peerage.reports.options import AdviseOptions
from peerage.reports.people_reviews import find_marked, in_one_block
from peerage.reports.recounts import known_names, leave_out, names_in, select_reviews
from peerage.reviews.columns import MARK, span_s
from peerage.reviews.rows import Rows
from peerage.stores import Store
from peerage.types import Rubric

N_PRICED = 200  # latest sessions whose costs are read


def advise_on_panel(
    table: ReviewTable,
    options: AdviseOptions,
    prices: Mapping[str, float],
    rubric: Rubric | None = None,
) -> Advice:
    """Return advice on the judges of a table of reviews; people are left out."""
    needs = {"rank", "score", "round", "at", "query_id", "person", "category", "season"}
    needs |= {name for name in table.columns if name.startswith(MARK)} if options.weights else set()
    chosen = select_reviews(table.load(needs), options, rubric)
    if options.category is not None:
        chosen = chosen.change(partial(_of_category, category=options.category))
    there = names_in(chosen, "reviewer")
    people = find_marked(chosen) | known_names(options.people or (), there, "reviewer")
    if people and people < there:
        chosen = leave_out(chosen, people)
    span = span_s(options.since)
    earliest = None if span is None or table.latest is None else table.latest - span
    rows = in_one_block(chosen)
    cells = pair_cells(rows.only(rows.since(earliest)))
    given = parse_prices(options.price, sorted(names_in(chosen, "reviewer")))
    return choose_panel(cells, {**prices, **given}, options.within)


def _of_category(rows: Rows, category: str) -> Rows:
    return rows.only(rows.has_label("category", category))


def parse_prices(texts: Sequence[str], judges: Sequence[str]) -> dict[str, float]:
    """Return the prices in texts such as `gpt=0.004`, by judge."""
    prices = {}
    for text in (part for one in texts for part in one.split(",") if part.strip()):
        name, _, number = (piece.strip() for piece in text.rpartition("="))
        try:
            price = float(number)
        except ValueError:
            price = -1.0
        if not 0 <= price < 1e6 or not name:
            raise UsageError(
                f"price: {shown(text)} must be a judge and a price.", hint="As in gpt=0.004."
            )
        known_names([name], judges, "judge")
        prices[name] = price
    return prices


def recorded_prices(store: Store) -> dict[str, float]:
    """Return the mean cost of a review by each judge over the latest sessions, if known."""
    costs: dict[str, list[float]] = {}
    for entry in store.sessions(limit=N_PRICED):
        with suppress(PeerageError):
            for fact in read_events(store.events(entry.id)):
                if isinstance(fact, Reviewed) and fact.usage and fact.usage.cost_usd is not None:
                    costs.setdefault(fact.reviewer, []).append(fact.usage.cost_usd)
    means = {name: sum(some) / len(some) for name, some in costs.items()}
    return {name: mean for name, mean in means.items() if mean > 0.0}


def with_effective_votes(advice: Advice, findings: Sequence[Finding]) -> Advice:
    """Return advice with the effective votes from an audit's findings."""
    finding = next((one for one in findings if one.metric == "effective_votes"), None)
    if finding is None or finding.value is None:
        return advice
    audited = {one.subject for one in findings if one.metric == "agreement"}  # people too
    votes: dict[str, Any] = {
        "value": finding.value,
        "low": finding.low,
        "high": finding.high,
        "of": max(len(audited), len(advice.judges)),
    }
    return replace(advice, effective_votes=votes)
