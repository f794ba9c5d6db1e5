"""Judges against people's labels in words and tables, for terminals, Markdown and pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from peerage.doors.render.layout import Block, Cell, Heading, Line, TableColumn, TextTable
from peerage.errors import how_many
from peerage.findings import Advice, Bounded, PassRate, Scorecard
from peerage.labels.judged import ALL_JUDGES
from peerage.text import visible

N_DISAGREEMENTS = 5  # of each judge; the JSON has all
N_REASON = 300  # characters of a reason
MOST_WHOLE = 3  # judges whose figures are shown one by one; more are only compared
NOTHING = "–"
ADVICE: Mapping[Advice | None, str] = {
    "trust": "trust it here",
    "use_with_care": "use it with care",
    "do_not_rely_on": "do not rely on it alone",
    None: "too early to say",
}
STYLES: Mapping[Advice | None, str] = {
    "trust": "bold green",
    "use_with_care": "bold yellow",
    "do_not_rely_on": "bold red",
    None: "bold",
}
UNITS = {"verdicts": ("answer",), "marks": ("answer",), "picks": ("pair", "pairs")}
SAYS = {1.0: "pass", 0.0: "fail"}
PICKS = {1.0: "the first", 0.0: "the second", 0.5: "tie"}


def percent(estimate: Bounded | None) -> str:
    """Return a share without its interval."""
    return NOTHING if estimate is None or estimate.value is None else f"{estimate.value:.0%}"


def interval(estimate: Bounded | None) -> str:
    """Return the ends of a share's interval."""
    if estimate is None or estimate.low is None or estimate.high is None:
        return NOTHING
    return f"{100 * estimate.low:.0f}–{estimate.high:.0%}".replace("-", "−")


def _number(estimate: Bounded | None) -> str:
    if estimate is None or estimate.value is None:
        return NOTHING
    return f"{estimate.value:.2f}".replace("-", "−")


def _number_interval(estimate: Bounded | None) -> str:
    if estimate is None or estimate.low is None or estimate.high is None:
        return NOTHING
    return f"{estimate.low:.2f}–{estimate.high:.2f}".replace("-", "−")


def _negative(one: Bounded) -> Bounded:
    value, low, high = (None if end is None else -end for end in one)
    return Bounded(value, high, low)


def headline(card: Scorecard) -> str:
    """Return whether a judge may be relied on, in one sentence."""
    return f"{card.judge} against people: {ADVICE[card.advice]}. {_capital(card.reason)}"


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def scorecard_blocks(cards: Sequence[Scorecard], quiet: bool = False) -> Iterator[Block]:
    """Yield the answer first: whether each judge may be relied on; then its figures."""
    for card in cards:
        yield Line(headline(card), STYLES[card.advice])
        if quiet and card.ship is not None:
            yield Line(ship_sentence(card))
        yield from (Line(warning, "yellow") for warning in map(_capital, card.warnings))
    if quiet:
        return
    if len(cards) > 1:
        yield from map(comparison_table, _kinds(cards))
    for card in cards[:MOST_WHOLE]:
        yield Heading(f"{card.judge} against people: {how_many(card.n, *UNITS[card.kind])}")
        yield from _figures(card)
        yield from _pass_rates(card)
        if card.ship is not None:
            yield Line(ship_sentence(card))
        yield from _disagreements(card)


def _kinds(cards: Sequence[Scorecard]) -> Iterator[list[Scorecard]]:
    for kind in dict.fromkeys(card.kind for card in cards):
        some = [card for card in cards if card.kind == kind]
        if len(some) > 1:
            yield some


def comparison_table(cards: Sequence[Scorecard]) -> TextTable:
    """Return judges of one kind side by side."""
    compared = [card.behind_best for card in cards if card.behind_best is not None]
    is_paired = bool(compared)
    table = TextTable(
        TableColumn("judge", "name"),
        TableColumn("advice", "word"),
        *(TableColumn(head, use=use) for head, use in _COMPARED[cards[0].kind]),
        *([TableColumn("less right than the best", use=1)] if is_paired else []),
        TableColumn("n", use=1),
    )
    for card in cards:
        figures = {
            "verdicts": (card.false_pass_rate, card.false_fail_rate, card.accuracy),
            "marks": (card.concordance, card.correlation),
            "picks": (card.accuracy,),
        }[card.kind]
        cells = [f"{percent(one)} ({interval(one)})" for one in figures]
        if card.kind == "marks":
            cells[1] = _number(card.correlation)
        if is_paired:
            behind = card.behind_best and _negative(card.behind_best.difference)
            is_best = any(other.best == card.judge for other in compared)
            one = f"{percent(behind)} ({interval(behind)})" if behind else NOTHING
            cells.append("best" if is_best else one)
        word = (card.advice or "too early").replace("_", " ")
        table.add(card.judge, Cell(word, STYLES[card.advice]), *cells, f"{card.n:,}")
    return table


_COMPARED = {
    "verdicts": (("false passes", 0), ("false fails", 0), ("accuracy", 2)),
    "marks": (("same order", 0), ("r", 2)),
    "picks": (("agreement", 0),),
}


def _figures(card: Scorecard) -> Iterator[Block]:
    if card.table is not None:
        yield counts_table(card.table)
    if (figures := figures_table(card)).rows:
        yield figures


def counts_table(counts: Mapping[str, int]) -> TextTable:
    """Return how often judge and people pass and fail."""
    table = TextTable(
        TableColumn("", "word"), TableColumn("people pass"), TableColumn("people fail")
    )
    table.add("judge passes", f"{counts['both_pass']:,}", f"{counts['false_pass']:,}")
    table.add("judge fails", f"{counts['false_fail']:,}", f"{counts['both_fail']:,}")
    return table


def figures_table(card: Scorecard) -> TextTable:
    """Return the rates and the agreement of a judge, each with its interval."""
    table = TextTable(
        TableColumn("figure", "text"), TableColumn("value"), TableColumn("95% interval")
    )
    for name, share in _shares(card).items():
        if share is not None:
            table.add(name, percent(share), interval(share))
    if card.constant_guess is not None:
        table.add("accuracy of always giving the same verdict", f"{card.constant_guess:.0%}", "")
    for name, number in _numbers(card).items():
        if number is not None:
            table.add(name, _number(number), _number_interval(number))
    if card.cutoff is not None:
        table.add("cut-off: pass from this mark", f"{card.cutoff.value:g}", "")
    return table


def _shares(card: Scorecard) -> dict[str, Bounded | None]:
    return {
        "false passes: of what people fail, the judge passes": card.false_pass_rate,
        "false fails: of what people pass, the judge fails": card.false_fail_rate,
        "of what the judge passes, people pass": card.precision,
        "agreement, ties half" if card.kind == "picks" else "accuracy": card.accuracy,
        "same order of two answers": card.concordance,
        "same pick in both orders": card.order_agreement,
        "picks the answer shown first, beyond half": card.first_shown,
        "two people agree": card.people_agreement,
    }


def _numbers(card: Scorecard) -> dict[str, Bounded | None]:
    weighted = ", larger differences count more" if card.kind == "marks" else ""
    return {
        f"κ (agreement beyond chance{weighted})": card.kappa,
        "AC1 (the same, steadier if one class is rare)": card.ac1,
        "level: the judge's mean less people's": card.level,
        "spread: the judge's over people's": card.spread,
        "correlation (Pearson)": card.correlation,
        "correlation of ranks (Spearman)": card.rank_correlation,
    }


def _pass_rates(card: Scorecard) -> Iterator[Block]:
    if card.pass_rate is None:
        return
    yield pass_rates_table(card.pass_rate, card.by_candidate)
    yield Line(pass_rate_sentence(card.pass_rate), "dim")
    yield from map(Line, _say_needed(card))


def pass_rates_table(
    whole: PassRate, by_candidate: Sequence[tuple[str, PassRate]] = ()
) -> TextTable:
    """Return pass rates by the judge, by people and corrected, of all answers and each model."""
    table = TextTable(
        TableColumn("pass rate", "name"),
        TableColumn("judge alone"),
        TableColumn("people"),
        TableColumn("corrected"),
        TableColumn("95% interval"),
        TableColumn("n", use=2),
        TableColumn("labels", use=1),
    )
    for name, rate in (("all", whole), *by_candidate):
        table.add(
            name,
            percent(rate.judge),
            percent(rate.people),
            percent(rate.corrected),
            interval(rate.best),
            f"{rate.n:,}",
            f"{rate.n_labels:,}",
        )
    return table


def pass_rate_sentence(rate: PassRate) -> str:
    """Return how a pass rate was found."""
    if rate.corrected is not None:
        return (
            "Corrected: the judge's verdicts on all answers, corrected by people's labels. It "
            "assumes that people labelled a random sample."
        )
    if rate.people is None:
        return "People labelled none of these answers."
    if rate.n <= rate.n_labels:
        return "People labelled every answer, so their share is the pass rate."
    return "The judge's verdicts do not make people's figure more precise, so it stands alone."


def _say_needed(card: Scorecard) -> Iterator[str]:
    needed = card.labels_needed
    if needed is None:
        return
    if needed.for_half_width is not None and needed.for_half_width > card.n:
        n = card.n if card.pass_rate is None else card.pass_rate.n
        more = " That is more than there are answers." if needed.for_half_width > n else ""
        yield (
            f"For ±{needed.half_width:.0%} the pass rate needs about "
            f"{how_many(needed.for_half_width, 'label')} in all; there are {card.n:,}.{more}"
        )
    if card.advice != "trust" and needed.for_trust is not None and needed.for_trust > card.n:
        yield (
            f"If the judge keeps its rates, {how_many(needed.for_trust, 'label')} in all would "
            "show that it may be trusted."
        )


def ship_sentence(card: Scorecard) -> str:
    """Return which verdicts may ship without a person."""
    shipped = card.ship
    if shipped is None:
        return ""
    promise = f"{shipped.error_promised:.0%}"
    if shipped.threshold is None:
        return (
            f"With {how_many(shipped.n_labels, 'label')} no threshold keeps the error below "
            f"{promise} with confidence: people should see all verdicts."
        )
    held_out = shipped.error_held_out
    measured = (
        f" Measured on labels that did not set the threshold: {percent(held_out)} "
        f"({interval(held_out)})."
        if held_out is not None
        else ""
    )
    of_which = f", those with a confidence of at least {shipped.threshold:.2g}"
    if shipped.share_shipped == 1.0:
        of_which = ""
    elif card.judge == ALL_JUDGES:
        share = f"{0.5 + shipped.threshold / 2.0:.0%}"
        of_which = f", those on which at least {share} of the judges agree"
    return (
        f"Without a person may ship: {shipped.share_shipped:.0%} of the verdicts{of_which}. "
        f"Promised error: at most {promise}.{measured}"
    )


def _disagreements(card: Scorecard) -> Iterator[Block]:
    if card.disagreements:
        yield mismatches_table(card)


def mismatches_table(card: Scorecard) -> TextTable:
    """Return the answers to read: those on which judge and people disagree most."""
    shown = card.disagreements[:N_DISAGREEMENTS]
    several = len({one.candidate for one in card.disagreements}) > 1
    more = f", {len(shown)} of {len(card.disagreements):,}" if card.disagreements[5:] else ""
    table = TextTable(
        TableColumn("answer", "name"),
        *([TableColumn("model", "name", use=1)] if several else []),
        TableColumn("judge", "word"),
        TableColumn("people", "word"),
        TableColumn("the judge's reason", "below"),
        TableColumn("its beginning", "below"),
        title=f"Disagreements to read{more}",
    )
    for one in shown:
        model = [one.candidate] if several else []
        words = [_said(card, value) for value in (one.judge, one.people)]
        table.add(one.id, *model, *words, visible(one.reason)[:N_REASON], visible(one.answer))
    return table


def _said(card: Scorecard, value: float) -> str:
    words = {"verdicts": SAYS, "picks": PICKS, "marks": {}}[card.kind]
    return words.get(value, f"{value:.3g}")
