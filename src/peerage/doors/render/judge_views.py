"""Advice on panels, anchors and passports in words, for terminals and pages."""

from __future__ import annotations

from collections.abc import Iterator

from peerage.anchors import AnchorReport
from peerage.boards.panel_choice import Advice, PanelAdvice
from peerage.doors.render.layout import Block, Heading, Line, Screen, TableColumn, TextTable
from peerage.doors.render.phrases import NOTHING, figure, money
from peerage.doors.render.report_views import MAX_ROWS
from peerage.errors import few, how_many
from peerage.rejudging import Rejudging
from peerage.reports.passports import Verification

MAX_NAMED = 5  # judges without a price that are named


def advice_blocks(advice: Advice, quiet: bool = False) -> Iterator[Block]:
    """Yield the cheapest panel, each judge's contribution, smaller panels and a cascade."""
    n_chosen, n_tested = advice.queries
    cheapest = advice.cheapest
    if cheapest is None:
        yield Heading(
            f"No smaller panel has a board within ±{advice.within:g} of the full panel's with a "
            "chance of 80%."
        )
    else:
        judges = ", ".join(cheapest.judges)
        yield Heading(f"The cheapest panel for ±{advice.within:g} with a chance of 80%: {judges}.")
    if quiet:
        return
    if cheapest is not None:
        yield Line(
            f"On held-out queries its shares differ by ±{cheapest.rmse:.3f} from those of the full "
            f"panel, as a root mean square over the models; with a chance of 80% it is below "
            f"±{cheapest.bound:.3f} on as many fresh queries{_price(cheapest, advice)}."
        )
    if advice.effective_votes is not None:
        votes = advice.effective_votes
        n, value = votes["of"], votes["value"]
        words = (
            f"{value:.1f} independent ones" if value < n else f"{n}: their errors look independent"
        )
        yield Line(f"{n} judges count as {words}.")
    yield worth_table(advice)
    yield panels_table(advice)
    if (one := advice.cascade) is not None:
        price = "" if one.price_usd is None else f", ${one.price_usd:.4g} a query"
        first = ", ".join(one.judges)
        others = f"and all judges where the winner leads by less than {one.threshold:.2f}"
        yield Line(
            f"Cascade: ask {first} first, {others if one.asked_again else 'and no others'}. On "
            f"held-out queries {100 * one.asked_again:.0f}% go to all judges, and "
            f"{100 * one.same_winner:.0f}% keep the full panel's winner{price}."
        )
    yield Line(
        f"Panels were chosen on {how_many(n_chosen, 'query', 'queries')} and tested on "
        f"{n_tested} others; all figures are from the latter.",
        "dim",
    )
    yield Line(advice.note, "dim")


def _price(panel: PanelAdvice, advice: Advice) -> str:
    unpriced = [one.judge for one in advice.judges if one.price_usd is None]
    if panel.price_usd is None or advice.full_price_usd is None:
        who = "all judges" if len(unpriced) == len(advice.judges) else few(unpriced, MAX_NAMED)
        return f"; no price is known of {who}, so the smallest panel is shown"
    return f", at ${panel.price_usd:.4g} in place of ${advice.full_price_usd:.4g} a session"


def worth_table(advice: Advice) -> TextTable:
    """Return, for each judge, how much the board changes if that judge is left out."""
    table = TextTable(
        TableColumn("judge", "name"),
        TableColumn(
            "change of board",
            meaning="How far the shares of the models move, as a root mean square, without this "
            "judge. The judges that change the board most come first.",
        ),
        TableColumn(
            "τ with others",
            use=1,
            meaning="How alike the judge's own board and that of the others are: 1 is the same "
            "order, 0 is unrelated, −1 is the reverse order.",
        ),
        TableColumn("USD a review", use=2),
        TableColumn("queries", use=3),
        title="change of the board if a judge is left out",
    )
    for one in advice.judges[:MAX_ROWS]:
        tau = NOTHING if one.agrees is None else f"{one.agrees:.2f}"
        price = NOTHING if one.price_usd is None else f"{one.price_usd:.4g}"
        table.add(one.judge, f"±{one.moves:.4f}", tau, price, str(one.queries))
    return table


def panels_table(advice: Advice) -> TextTable:
    """Return the best panel of each size, with the distance of its board from the full panel's."""
    table = TextTable(
        TableColumn("panel", "name"),
        TableColumn(
            "distance",
            meaning="How far the shares of the models are from those of the full panel, as a root "
            "mean square.",
        ),
        TableColumn(
            "80%",
            use=5,
            meaning="On as many fresh queries the distance is below this with a chance of 80%.",
        ),
        TableColumn("largest", use=2, meaning="The same for the model that differs most."),
        TableColumn("τ", use=1, meaning="How alike its order and that of the full panel are."),
        TableColumn(
            "τ, judges left out",
            use=3,
            meaning="How alike its order and that of the judges outside of the panel are.",
        ),
        TableColumn("USD", use=4, meaning="Cost of one review by each judge of the panel."),
        title="the best panel of each size",
    )
    for one in advice.panels[:MAX_ROWS]:
        taus = (NOTHING if tau is None else f"{tau:.2f}" for tau in (one.tau, one.tau_left_out))
        price = NOTHING if one.price_usd is None else f"{one.price_usd:.4g}"
        figures = f"±{one.rmse:.3f}", f"±{one.bound:.3f}", f"{one.largest:.3f}"
        table.add(", ".join(one.judges), *figures, *taus, price)
    return table


def anchors_blocks(report: AnchorReport, quiet: bool = False) -> Iterator[Block]:
    """Yield the judges whose marks for the anchors changed, and since when; then the figures."""
    yield from map(Heading, alarm_lines(report))
    if quiet:
        return
    if report.judges:
        yield drift_table(report)
    for one in report.judges:
        for words in one.fingerprints:
            yield Line(f"{one.judge}: fingerprint changed at {words}.")
    if report.candidates:
        yield candidates_table(report)
    yield from (Line(f"{note[:1].upper()}{note[1:]}") for note in report.notes)
    if report.gone:
        yield Line(f"{how_many(len(report.gone), 'anchor')} left out: the answers are gone.")
    if report.failed:
        yield Line(f"Failed calls: {', '.join(report.failed)}.", "red")
    cost = f"; ${report.cost_usd:.4g} so far" if report.cost_usd else ""
    yield Line(
        f"{how_many(len(report.anchors), 'anchor')}, "
        f"{how_many(len(report.checks), 'check')}{cost}. "
        "False alarms: at most 5% in 365 checks, over all judges.",
        "dim",
    )


def alarm_lines(report: AnchorReport) -> Iterator[str]:
    """Yield each change of a judge in a sentence, or one sentence that no judge has changed."""
    for one in report.judges:
        for change in one.changes:
            since = report.checks[change["since"] - 1][:10] if change["since"] else "the start"
            yield (
                f"{one.judge} changed: {_change(change['kind'], change['shift'])} since check "
                f"{change['since']} ({since}), found at check {change['check']}."
            )
    if report.has_alarm:
        return
    if any(one.status == "baseline" for one in report.judges):
        yield "No alarm is possible yet: the baseline is not complete."
    elif report.judges:
        yield "No judge's marks for the anchors have changed."


def show_rejudging(console: Screen, report: Rejudging, quiet: bool = False) -> None:
    """Print the shifts of models and judges when other judges review the same answers."""
    moved = [one.name for one in report.models if one.moved]
    if report.models:
        words = f"{few(moved, MAX_ROWS)} changed" if moved else "No model changed significantly"
        judges = few([one.name for one in report.judges], MAX_ROWS)
        console.print(f"{words} with the judges {judges}.", style="bold")
    if report.models and not quiet:
        console.show_table(rejudged_models_table(report))
        console.show_table(rejudges_table(report))
    for note in report.notes:
        console.print(note)
    if report.failed:
        n = how_many(report.n_failed, "failed call")
        console.print(f"{n}: {', '.join(report.failed)}. The same command asks for them again.")
    if quiet:
        return
    console.print(
        f"{report.n_sessions} of {how_many(report.n_all, 'session')} judged again, "
        f"{money(report.cost_usd, report.unpriced_calls)}. Intervals: 95%, over queries, paired. "
        "Boards do not count these reviews.",
        style="dim",
    )


def rejudged_models_table(report: Rejudging) -> TextTable:
    """Return each model's share with the season's own judges and with the new ones."""
    table = TextTable(
        TableColumn("model", "name"),
        TableColumn("share then"),
        TableColumn("share now"),
        TableColumn("change"),
        TableColumn("95%", use=1),
        TableColumn("queries", use=2),
        title="share of rivals beaten; change: on the pairs of answers that both panels judged",
    )
    for one in report.models[:MAX_ROWS]:
        table.add(
            one.name,
            figure(one.before),
            figure(one.after),
            *_shift_cells(one.shift, one.low, one.high),
            str(one.n),
        )
    return table


def rejudges_table(report: Rejudging) -> TextTable:
    """Return each new judge's marks relative to the season's own judges, and its cost."""
    table = TextTable(
        TableColumn("judge", "name"),
        TableColumn("shift of marks"),
        TableColumn("95%", use=1),
        TableColumn("same order", use=2),
        TableColumn("reviews", use=3),
        TableColumn("cost"),
        title="marks against the season's own reviews of the same answers",
    )
    for one in report.judges[:MAX_ROWS]:
        order = NOTHING if one.same_order is None else f"{100 * one.same_order:.0f}%"
        cost = "unknown" if one.cost_usd is None else money(one.cost_usd)
        table.add(
            one.name, *_shift_cells(one.shift, one.low, one.high), order, str(one.reviews), cost
        )
    return table


def _shift_cells(shift: float | None, low: float | None, high: float | None) -> tuple[str, str]:
    """Return a shift and its interval, each in a cell."""
    known = low is not None and high is not None
    return (
        NOTHING if shift is None else f"{shift:+.2f}",
        f"{low:+.2f} … {high:+.2f}" if known else NOTHING,
    )


def _change(kind: str, shift: float) -> str:
    if kind == "pattern":
        return f"the pattern of high and low marks changed (mean mark {shift:+.2f})"
    more = ", and the pattern of high and low marks changed" if "pattern" in kind else ""
    return f"marks {shift:+.2f} points{more}"


def drift_table(report: AnchorReport) -> TextTable:
    """Return the table of each judge's shift at the latest check."""
    table = TextTable(
        TableColumn("judge", "name"),
        TableColumn("status", "word"),
        TableColumn("shift of marks"),
        TableColumn("95%", use=1),
        TableColumn("checks", use=2),
    )
    for one in report.judges[:MAX_ROWS]:
        shift = _shift_cells(one.shift, one.shift_low, one.shift_high)
        table.add(one.judge, one.status, *shift, str(one.checks))
    return table


def candidates_table(report: AnchorReport) -> TextTable:
    """Return how much each candidate's marks changed, with and without the judges' shifts."""
    table = TextTable(
        TableColumn("candidate", "name"),
        TableColumn("change of marks"),
        TableColumn("its own change"),
        TableColumn("reviews since", use=1),
        title="how marks of answers changed; its own change: without the shifts of the judges",
    )
    for row in report.candidates[:MAX_ROWS]:
        moved, own = (f"{row[name]:+.2f}" for name in ("moved", "own"))
        table.add(row["candidate"], moved, own, str(row["reviews_since"]))
    return table


def show_verification(console: Screen, result: Verification, quiet: bool = False) -> None:
    """Print whether a passport was reproduced, and what differs."""
    n = how_many(result.sessions, "session")
    words = {
        "reproduced": f"reproduced: the passport of {result.reviewer}, byte for byte, from {n}.",
        "expired": f"expired: reproduced from {n}, but {result.reviewer} has a new fingerprint "
        "since.",
        "different": f"different: this log does not reproduce the passport of {result.reviewer}.",
        "refused": f"refused: the passport of {result.reviewer} was not made from this log.",
    }
    console.print(words[result.status], style="bold")
    for difference in result.differences:
        console.print(f"  {difference}")
    if not quiet:
        console.print(f"signed with key {result.keyid[:16]}…", style="dim")
