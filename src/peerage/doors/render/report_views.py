"""Boards, audits and voting rings on a terminal: the first rows, the notes and the evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from peerage.biases.thresholds import describe_power
from peerage.boards import Board
from peerage.doors.render.board_tables import Row, Rows, board_table, rows_by_category
from peerage.doors.render.finding_words import audit_verdict, is_in_shares, name_measurement
from peerage.doors.render.layout import (
    Cell,
    Interval,
    Screen,
    Sparkline,
    TableColumn,
    TextTable,
)
from peerage.doors.render.phrases import (
    NOTHING,
    OWN_VOTES,
    agreement,
    board_window,
    figure,
    finding_n,
    finding_value,
    flag_line,
    probability,
    ranking_line,
    selection_words,
    share,
    tie_rule,
    tuning,
)
from peerage.doors.render.scorecard_views import scorecard_blocks
from peerage.doors.render.taste_views import tastes_by_judge, tastes_key, tastes_table
from peerage.errors import how_many
from peerage.findings import Audit, Finding

if TYPE_CHECKING:
    from peerage.boards.rings import Rings

MAX_ROWS = 100  # rows of a table; --json and --csv have them all
MAX_MATRIX = 12
N_PAIRS = 10
N_SUPPORTS = 12
STATUS_STYLES = {  # in the order in which findings are listed
    "evidence": "bold red",
    "indicator": "yellow",
    "inconclusive": "",
    "clear": "green",
    "too_few": "dim",
    "not_identifiable": "dim",
}
AUDIT_LEGEND = (
    "q: p corrected for all findings of the audit. n: the answers, reviews, ballots or sessions "
    "that the metric counts; agreement counts reviews of answers that others reviewed too. Level "
    "and scale: a reviewer's score is level + scale × quality."
)
STATUS_MEANINGS = {  # as they are written on a page
    "evidence": "beyond the healthy range, and hardly by chance (q below .05 over all findings)",
    "indicator": "looks like a bias, but may have another cause",
    "inconclusive": "the data fits a fair reviewer and a biased one",
    "clear": "the whole interval is inside the healthy range",
    "too few": "fewer observations than this measurement needs",
    "not identifiable": "data of this kind cannot show it, however much of it there is",
}


def show_board(console: Screen, board: Board, quiet: bool = False) -> None:
    """Print a board of any kind, with the requested extra tables."""
    is_models, notes = board.board == "models", board.notes
    if not quiet:
        console.print(_heading(board), style="bold")
        if line := ranking_line(board):
            console.print(line)
        if board.n_left_out and not board.hint:
            console.print("--since all counts them too", style="dim")
    for title, rows in rows_by_category(board) or [("", [])]:
        if title:
            console.print()
            console.print(title, style="bold")
        console.show_table(board_table(board, rows[:MAX_ROWS]))
        _print_rest(console, len(rows))
    if not board.rows:
        nothing = "No reviews in this window." if is_models else "Nothing to rank here."
        console.print(nothing, style="dim")
        return
    if "matrix" in notes:
        console.show_table(matrix_table(notes["matrix"]))
    if "people" in notes:
        console.show_table(people_table(board))
        console.print(notes["people"]["note"])
    if "fragility" in notes:
        for line in fragility_lines(notes["fragility"]):
            console.print(line)
        console.show_table(fragility_table(notes["fragility"]))
    if "rules" in notes:
        console.show_table(rules_table(notes["rules"]))
    if notes.get("history"):
        order = list(dict.fromkeys(row["model"] for row in board.rows))
        console.show_table(history_table(notes["history"], order))
    if "against" in notes:
        console.print(agreement(notes["against"]))
        console.show_table(movers_table(notes["against"]["movers"]))
    if "tuned" in notes:
        console.print(tuning(notes["tuned"]))
    for line in () if quiet else _model_notes(board) if is_models else _community_notes(board):
        console.print(line, style="dim")


def _print_rest(console: Screen, n: int) -> None:
    if n > MAX_ROWS:
        console.print(f"… and {n - MAX_ROWS} more (--json and --csv have all)", style="dim")


def movers_table(movers: Rows) -> TextTable:
    """Return the models whose place differs in the outside ranking."""
    counts = (TableColumn(head) for head in ("here", "there", "moved"))
    table = TextTable(TableColumn("moves most", "name"), *counts)
    for row in movers:
        table.add(row["name"], f"{row['here']:g}", f"{row['there']:g}", f"{row['moved']:+g}")
    return table


def _heading(board: Board) -> str:
    chosen = selection_words(board.parameters)
    where = f" ({chosen})" if chosen else ""
    return f"{board.board.capitalize()}{where}: {board_window(board)}"


def matrix_table(matrix: Mapping[str, Any]) -> TextTable:
    """Return the percentage of ballots on which the row's model is above the column's."""
    names = matrix["models"][:MAX_MATRIX]
    numbers = range(1, len(names) + 1)
    table = TextTable(
        TableColumn("#"),
        TableColumn("model", "name"),
        *(TableColumn(str(number), use=number) for number in numbers),
        title="head to head: % of ballots with the row above the column",
    )
    for number, name, row in zip(numbers, names, matrix["above"], strict=False):
        table.add(str(number), name, *(_percent(value) for value in row[: len(names)]))
    return table


def _percent(value: float | None) -> Cell:
    if value is None:
        return Cell("·", "dim")
    style = "green" if value > 0.55 else "red" if value < 0.45 else ""
    return Cell(f"{100 * value:.0f}", style)


def people_table(board: Board) -> TextTable:
    """Return each model's share by the judges, by people, and corrected (both combined)."""
    heads = (TableColumn("judges"), TableColumn("people"), TableColumn("corrected"))
    counts = TableColumn("queries people judged", use=1)
    table = TextTable(
        TableColumn("model", "name"), *heads, counts, title="judges, people, and both combined"
    )
    for row in board.rows[:MAX_ROWS]:
        shares = (
            NOTHING if row[name] is None else share(row, name)
            for name in ("judges", "people", "corrected")
        )
        table.add(row["model"], *shares, figure(row["people_queries"]))
    return table


def fragility_lines(fragility: Mapping[str, Any]) -> list[str]:
    """Return how few queries the first place depends on, and the most influential judge."""
    first, judge = fragility["first"], fragility["judge"]
    n = how_many(fragility["queries"], "query", "queries")
    lines = [f"Fragility: removing queries did not change the first place ({n} tried)."]
    if first is not None:
        at_most = "" if first["exact"] else "at most "
        lines = [
            f"Fragility: without {at_most}{first['queries']:,} of {n} "
            f"({100 * first['part']:.2g}%), {first['overtaken_by']} would rank above "
            f"{first['model']}."
        ]
    if judge is not None:
        lines.append(
            f"The most influential judge is {judge['reviewer']}: without it, the share of "
            f"{judge['model']} changes by {judge['moved']:+.3f}, and {judge['first_without']} is "
            "first."
        )
    return lines


def fragility_table(fragility: Mapping[str, Any]) -> TextTable:
    """Return the fewest queries whose removal swaps each neighbouring pair."""
    table = TextTable(
        TableColumn("above", "name"),
        TableColumn("below", "name"),
        TableColumn("queries to remove"),
        title="the fewest queries whose removal swaps two neighbours",
    )
    for row in fragility["neighbours"][:MAX_ROWS]:
        n = "–" if row["queries"] is None else f"{row['queries']:,}"
        table.add(row["above"], row["below"], n if row["exact"] is not False else f"≤ {n}")
    return table


def rules_table(rules: Rows) -> TextTable:
    """Return the ranking under every rule: value and rank side by side."""
    by_rule = {
        rule["rule"]: {
            row["model"]: f"{figure(row['value'])} ({figure(row['rank'])})" for row in rule["rows"]
        }
        for rule in rules
        if rule["rows"]
    }
    heads = (TableColumn(name, use=number) for number, name in enumerate(by_rule))
    table = TextTable(TableColumn("model", "name"), *heads, title="rules side by side")
    for name in dict.fromkeys(name for cells in by_rule.values() for name in cells):
        table.add(name, *(cells.get(name, NOTHING) for cells in by_rule.values()))
    return table


def history_table(points: Rows, order: Sequence[str]) -> TextTable:
    """Return each model's share by week: as a drawing on a terminal, else in figures."""
    weeks = sorted({point["week"] for point in points})
    by_model: dict[str, dict[str, float]] = {}
    for point in points:
        if point["share"] is not None:
            by_model.setdefault(point["model"], {})[point["week"]] = point["share"]
    table = TextTable(
        TableColumn("model", "name"),
        TableColumn("", "drawing", use=1),
        TableColumn("latest"),
        *(TableColumn(week, in_pipe=True) for week in weeks),
        title=f"share by week, {weeks[0]} to {weeks[-1]}",
    )
    for name in (name for name in order[:MAX_ROWS] if name in by_model):
        shares = [by_model[name].get(week) for week in weeks]
        latest = by_model[name][max(by_model[name])]
        table.add(name, Sparkline(shares), *(figure(value, 3) for value in (latest, *shares)))
    return table


def _model_notes(board: Board) -> list[str]:
    options = board.parameters
    two_way = options["interval"] == "two-way"
    over = "sessions and reviewers" if two_way else "sessions"
    has_none = two_way and all(row["share_low"] is None for row in board.rows)
    intervals = "no intervals" if has_none else "95% intervals"
    of_shares = "shares" if "share_common" in board.columns else "share"
    n = {name: how_many(board.notes.get(f"{name}s", 0), name) for name in ("session", "review")}
    lines = [
        f"{n['session']}, {n['review']}; rule {board.notes['rule']}, "
        f"{OWN_VOTES[options['own_votes']]}, reviewers' weights {options['reputation']}; "
        f"{intervals} of the {of_shares} of rivals beaten over {over}; parentheses: rank range, "
        "95% for all models together.",
        tie_rule(board.board),
    ]
    if board.rows and all(row["rank"] is None for row in board.rows):
        lines.insert(
            0, f"No model is ranked: the rule {board.notes['rule']} has no value for any of them."
        )
    lines += map(flag_line, board.flags)
    if (slope := board.notes.get("length_slope")) is not None:
        lines.append(
            f"  a model's share changes by {slope:+.3f} if its answer is 2.7 (e) times as long"
        )
    if weights := board.notes.get("reviewer_weights"):
        listed = ", ".join(f"{name} {weight:.3f}" for name, weight in weights.items())
        lines.append(f"  weights of reviewers: {listed}")
    return lines


def _community_notes(board: Board) -> list[str]:
    options, lines = board.parameters, []
    if board.board == "contributors":
        lines.append("total is the quality of the items plus the bonus for affiliation.")
    count = how_many(options["opinions"], "opinion counts", "opinions count")
    lines.append(
        f"{count}; left out: {options['own_left_out']} on own items, "
        f"{options['superseded_left_out']} replaced by a later one."
    )
    if options["iterations"] is not None:
        lines.append(f"reputation converged in {how_many(options['iterations'], 'round')}.")
    return [*lines, tie_rule(board.board), *map(flag_line, board.flags)]


# -- rings -------------------------------------------------------------------------------------


def show_rings(console: Screen, rings: Rings, quiet: bool = False) -> None:
    """Print rings with their evidence, clusters that are not rings, and mutual pairs."""
    document = rings.document()
    if not document["rings"]:
        p = document["parameters"]["strongest_p"]
        chance = "" if p is None else f" The most suspicious group has p = {probability(p)}."
        console.print(f"No ring was found beyond chance.{chance}")
    for ring in document["rings"]:
        names = ", ".join(ring["members"])
        console.print(f"ring of {len(ring['members'])}: {names}", style="bold red")
        for line in _evidence(ring):
            console.print(f"  {line}")
    console.print(document["note"], style="dim")
    if quiet:
        return
    for flag in document["flags"]:
        console.print(flag_line(flag), style="dim")
    if document["clusters"]:
        console.show_table(clusters_table(document["clusters"]))
        _print_rest(console, len(document["clusters"]))
    if document["pairs"]:
        console.show_table(pairs_table(document["pairs"]))


def clusters_table(clusters: Rows) -> TextTable:
    """Return the groups of people who review each other often, but without unexplained praise."""
    table = TextTable(
        TableColumn("size"),
        TableColumn("exchange"),
        TableColumn("opinions", use=1),
        TableColumn("gap"),
        TableColumn("members", "below"),
        TableColumn("note", "below"),
        title="clusters: people who review each other often; not flagged",
    )
    for cluster in clusters[:MAX_ROWS]:
        size, share_of_pairs = str(len(cluster["members"])), f"{cluster['density']:.0%}"
        counts = (size, share_of_pairs, str(cluster["n"]), _gap(cluster["gap"]))
        table.add(*counts, ", ".join(cluster["members"]), cluster["note"])
    return table


def _gap(gap: float | None) -> str:
    return NOTHING if gap is None else f"{gap:+.2f}"


def pairs_table(pairs: Rows) -> TextTable:
    """Return the pairs of people whose mutual praise is least likely by chance."""
    table = TextTable(
        TableColumn("one", "name"),
        TableColumn("other", "name"),
        TableColumn("gap", use=2),
        TableColumn("opinions", use=1),
        TableColumn("p"),
        TableColumn("q", use=3),
        title=f"the {N_PAIRS} pairs whose mutual praise is least likely by chance",
    )
    for pair in pairs[:N_PAIRS]:
        p, q = probability(pair["p"]), probability(pair["q"])
        table.add(pair["a"], pair["b"], _gap(pair["gap"]), str(pair["n"]), p, q)
    return table


def _evidence(ring: Row) -> list[str]:
    evidence, low, high = ring["evidence"], ring["gap_low"], ring["gap_high"]
    between = "" if low is None or high is None else f" [{low:+.2f}, {high:+.2f}]"
    most = sorted(evidence["support"], key=lambda pair: (-pair["n"], pair["from"], pair["to"]))
    pairs = [f"{pair['from']} → {pair['to']} x{pair['n']}" for pair in most[:N_SUPPORTS]]
    more = f", and {len(most) - N_SUPPORTS} more" if len(most) > N_SUPPORTS else ""
    return [
        f"gap {_gap(ring['gap'])}{between}, "
        f"p {probability(ring['p'])}: on members' items members say "
        f"{evidence['members_mean']:+.2f}, outsiders {evidence['outsiders_mean']:+.2f}",
        f"{ring['density']:.0%} of member pairs review each other; "
        f"{evidence['support_inside']} of their {how_many(evidence['opinions_inside'], 'opinion')} "
        f"praise, {evidence['support_expected']:.1f} would be expected",
        ", ".join(pairs) + more,
    ]


# -- audits ------------------------------------------------------------------------------------


def show_audit(console: Screen, audit: Audit, quiet: bool = False) -> None:
    """Print the verdict, the evidence, every finding, scores by position, and the reviewers."""
    if (chosen := selection_words(audit.views)) and not quiet:
        console.print(f"Of {chosen}", style="dim")
    if audit.against_people:
        console.show_blocks(scorecard_blocks(audit.against_people, quiet))
    console.print(audit_verdict(audit), style="bold")
    for finding in strong_findings(audit):
        value = f"{finding.metric}, {finding.subject}: {finding_value(finding)}, n {finding.n}"
        note = f": {finding.note}" if finding.note else ""
        style = STATUS_STYLES[finding.status]
        console.print(f"  {finding.status}  {value}{note}", style=style)
    if quiet:
        return
    if audit.against_people:  # its reader asks for the judge, not for what cannot be measured
        able = tuple(one for one in audit.findings if one.value is not None)
        n_left_out = len(audit.findings) - len(able)
        audit = replace(audit, findings=able)
        if n_left_out:
            console.print(
                f"{how_many(n_left_out, 'check')} that this data cannot support are left out; "
                "`peerage doctor FILE` says what they need.",
                style="dim",
            )
    if audit.findings:
        console.show_table(findings_table(audit, MAX_ROWS))
        _print_rest(console, len(audit.findings))
    if console.is_terminal:  # a pipe has a column with every note
        for line in unmeasured_lines(audit):
            console.print(line, style="dim")
    console.print(AUDIT_LEGEND, style="dim")
    if line := position_line(audit):
        console.print(line)
    calibration = [one for one in audit.findings if one.metric == "calibration"]
    if sum(one.value is not None for one in calibration) > 1:
        console.show_table(means_table(calibration))
    if audit.tastes is not None and (judges := tastes_by_judge(audit.tastes)):
        console.show_table(tastes_table(audit.tastes, judges[:MAX_ROWS]))
        console.print(tastes_key(audit.tastes, console.is_terminal), style="dim")
        _print_rest(console, len(judges))
    if n := audit.views.get("not_finite", 0):
        console.print(f"Infinite scores, treated as missing: {n:,}.")


def unmeasured_lines(audit: Audit) -> list[str]:
    """Return why findings are not identifiable: each reason once, with its metrics."""
    metrics_by_note: dict[str, dict[str, None]] = {}
    for one in audit.findings:
        if one.status == "not_identifiable" and one.note:
            metrics_by_note.setdefault(one.note, {})[one.metric] = None
    lines = [f"  {', '.join(metrics)}: {note}" for note, metrics in metrics_by_note.items()]
    return ["Why not identifiable:", *lines] if lines else []


def position_line(audit: Audit) -> str:
    """Return the mean score by position, drawn on a scale that is at least the healthy range."""
    curve = [point["mean"] for point in audit.views.get("position_curve", [])]
    means = [mean for mean in curve if mean is not None]
    if len(means) < 2:
        return ""
    edges = (one.edge for one in audit.findings if one.metric == "position")
    end = max([abs(mean) for mean in means] + [edge for edge in edges if edge is not None])
    drawn = Sparkline(means, (-end, end)).draw(len(means))
    ends = f"{means[0]:+.2f} … {means[-1]:+.2f}".replace("-", "−")
    what = "share of rivals" if is_in_shares(audit) else "score"
    return f"{what} by position (±{end:.2g})  {drawn}  {ends} relative to the answer's mean"


def strong_findings(audit: Audit) -> list[Finding]:
    """Return the findings that are evidence or a sign of bias."""
    return [finding for finding in audit.findings if finding.status in ("evidence", "indicator")]


def findings_table(audit: Audit, n_rows: int | None = None, plain: bool = False) -> TextTable:
    """Return the table of the first `n_rows` findings: evidence first, unknown last.

    `plain` is for the findings on one reviewer on a page: measurements have names in plain words,
    and there is no column for the reviewer.
    """
    table = TextTable(
        TableColumn("metric", "word", page_head="measurement"),
        *([] if plain else [TableColumn("subject", "name")]),
        TableColumn("value"),
        TableColumn(
            "95%",
            use=1,
            page_head="95% interval",
            meaning="Values that fit the data; the method covers the true one in 95% of cases.",
        ),
        TableColumn(
            "p",
            use=3,
            meaning="How often a reviewer without the bias would look so biased.",
        ),
        TableColumn("q", use=2, meaning="The same, corrected for the number of measurements."),
        TableColumn("n", meaning="Number of observations, and how many are needed if it is fewer."),
        TableColumn("data needed", "below"),
        TableColumn("note", "below", in_pipe=True),
        sections="status",
    )
    order = list(STATUS_STYLES)
    for finding in sorted(audit.findings, key=lambda finding: order.index(finding.status))[:n_rows]:
        value = NOTHING if finding.value is None else f"{finding.value:.3g}"
        between = NOTHING if finding.low is None else f"{finding.low:.3g} … {finding.high:.3g}"
        chances = (probability(finding.p), probability(finding.q))
        settled = finding.status in ("evidence", "clear")
        in_shares = is_in_shares(audit, finding.subject)
        needs = "" if settled else describe_power(finding, in_shares)
        named = (name_measurement(finding),) if plain else (finding.metric, finding.subject)
        texts = (*named, value, between, *chances, finding_n(finding))
        style = STATUS_STYLES[finding.status]
        cells = (Cell(text, style) for text in (*texts, needs, finding.note))
        table.add(*cells, section=finding.status.replace("_", " "))
    return table


def means_table(calibration: Sequence[Finding]) -> TextTable:
    """Return each reviewer's mean score with its interval, on one scale."""
    means = [(one, one.value) for one in calibration if one.value is not None]
    edges = [x for one, mean in means for x in (mean, one.low, one.high) if x is not None]
    ends = (min(edges, default=0.0), max(edges, default=1.0))
    table = TextTable(
        TableColumn("reviewer", "name"),
        TableColumn(f"{ends[0]:.2f} to {ends[1]:.2f}", "drawing", use=1),
        TableColumn("mean score"),
    )
    for finding, mean in means[:MAX_ROWS]:
        table.add(finding.subject, Interval(mean, finding.low, finding.high, ends), figure(mean))
    return table
