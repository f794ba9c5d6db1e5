"""Comparisons of two sets of reviews, as text and tables for terminals, files and comments."""

from __future__ import annotations

from collections.abc import Iterator

from peerage.doors.render.layout import Block, Cell, Heading, Line, TableColumn, TextTable
from peerage.doors.render.phrases import NOTHING, signed_figure
from peerage.errors import few, how_many
from peerage.reports.review_diff import ModelChange, PlaceExchange, ReviewDiff, SideSummary

N_MODELS = 30
N_EXCHANGES = 12
N_REVIEWS = 4  # reviews that are named for a pair that changed places
KIND_SIGNS = {"added": "new", "removed": "gone", "changed": "changed"}


def diff_blocks(diff: ReviewDiff, quiet: bool = False) -> Iterator[Block]:
    """Yield a comparison's blocks: the result first, then the reviews, models and exchanges."""
    yield Heading(diff_sentence(diff))
    if quiet:
        return
    yield Line(f"A: {_side(diff.a)}")
    yield Line(f"B: {_side(diff.b)}")
    yield Line(_review_counts(diff))
    yield changed_models_table(diff)
    yield Line(
        "Shares of rivals beaten on each board. The change, with a 95% interval for all models "
        "together, is measured on the pairs of answers that both sets judged, so it need not be "
        "the difference of the two shares. The columns gone, changed and new show how much reviews "
        "that are gone, changed or new move the mean over sessions.",
        "dim",
    )
    if diff.is_common:
        yield Line(
            "Not all models met the same rivals: the boards rank by shares on common rivals.",
            "dim",
        )
    if diff.exchanges:
        yield exchanges_table(diff)
        yield Line(
            "Sessions: how many sessions it takes to explain the new lead, counting those with "
            "the largest effect first.",
            "dim",
        )


def diff_sentence(diff: ReviewDiff) -> str:
    """Return the result in a sentence."""
    if not any(diff.reviews[kind] for kind in KIND_SIGNS):
        return f"The reviews of {diff.a.name} and {diff.b.name} are the same."
    moved = [one for one in diff.models if one.rank_a != one.rank_b]
    told = [one.model for one in diff.models if one.moved]
    some = how_many(len(moved), "model has another rank", "models have another rank")
    ranks = some if moved else "No model has another rank"
    sure = (
        f"the share of {few(told, N_REVIEWS)} changed significantly"
        if told
        else "no share changed significantly"
    )
    return f"{ranks}; {sure}."


def _side(side: SideSummary) -> str:
    return (
        f"{side.name}, {how_many(side.reviews, 'review')} of {how_many(side.sessions, 'session')} "
        f"by {how_many(side.reviewers, 'reviewer')}"
    )


def _review_counts(diff: ReviewDiff) -> str:
    n = diff.reviews
    shared = (
        how_many(diff.n_shared, "session is", "sessions are") if diff.n_shared else "No session is"
    )
    return (
        f"{shared} in both. Reviews: {n['same']:,} the same, {n['changed']:,} changed, "
        f"{n['added']:,} only in B, {n['removed']:,} only in A."
    )


def changed_models_table(diff: ReviewDiff) -> TextTable:
    """Return each model with both ranks and shares, the difference, and its sources."""
    table = TextTable(
        TableColumn("model", "name"),
        TableColumn("rank", "word"),
        TableColumn("share", "word", use=1),
        TableColumn("change, 95%"),
        TableColumn("gone", use=4),
        TableColumn("changed", use=3),
        TableColumn("new", use=2),
        TableColumn("queries", use=5),
        title="largest changes first",
    )
    for one in diff.models[:N_MODELS]:
        value = (
            signed_figure(one.difference, one.low, one.high)
            if one.difference is not None
            else "cannot compare"
        )
        parts = [
            f"{one.parts[k]:+.3f}" if one.parts else NOTHING
            for k in ("removed", "changed", "added")
        ]
        table.add(
            one.model,
            _change(one.rank_a, one.rank_b),
            f"{_share(one.share_a)} → {_share(one.share_b)}",
            Cell(value, _style(one)),
            *parts,
            f"{one.n:,}",
        )
    return table


def _style(one: ModelChange) -> str:
    return ("green" if (one.difference or 0.0) > 0 else "red") if one.moved else ""


def _change(before: int | None, after: int | None) -> str:
    first, second = (NOTHING if rank is None else str(rank) for rank in (before, after))
    return first if before == after else f"{first} → {second}"


def _share(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.3f}"


def exchanges_table(diff: ReviewDiff) -> TextTable:
    """Return the pairs that changed places, with the reviews that explain most of the change."""
    table = TextTable(
        TableColumn("now ahead", "name"),
        TableColumn("now behind", "name"),
        TableColumn("gap", "word"),
        TableColumn("sessions"),
        TableColumn("reviews with the largest effect", "below"),
        title=f"{how_many(diff.n_exchanges, 'pair')} changed places",
    )
    for one in diff.exchanges[:N_EXCHANGES]:
        n = NOTHING if one.n_sessions is None else f"{one.n_sessions:,}"
        gap = f"{one.gap_a:+.3f} → {one.gap_b:+.3f}"
        table.add(one.up, one.down, gap, n, _reviews(one))
    return table


def _reviews(one: PlaceExchange) -> str:
    listed = [
        f"{part.reviewer} in {part.session} ({KIND_SIGNS[part.kind]}, {part.part:+.4f})"
        for part in one.reviews[:N_REVIEWS]
        if part.part > 0
    ]
    return "; ".join(listed)
