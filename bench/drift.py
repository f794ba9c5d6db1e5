"""How often an unchanged judge of anchors raises an alarm, and how soon a swapped one is named.

Runs only when it is named: it takes a quarter of an hour. `./dev bench drift=N` counts N years and
N × 5 swaps a row. Writes the tables of docs/judges.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench import Row, write_table
from peerage.stats.drift import ALPHA
from tests.shared.anchor_looks import Judge, checks_to_alarm, false_alarms
from tests.shared.rates import wilson_interval

N_YEARS = 40
SWAPS_PER_YEAR = 5
NAMED = 90.0  # per cent of swaps, at the next check
UNCHANGED = {
    "noise of .7 points an answer": Judge(),
    "noise of 1.2": Judge(noise=1.2),
    "noise of .2, nearly no repeats differ": Judge(noise=0.2, ballot_noise=0.1),
    "1 point more for the answer shown first": Judge(first_shown=1.0),
    "the level of a check wanders by .03": Judge(check_noise=0.03),
    "five answers, four dimensions": Judge(n_answers=5, n_dimensions=4),
}
PANELS = {
    "3 answers": Judge(),
    "5 answers": Judge(n_answers=5),
    "3 answers, 4 dimensions": Judge(n_dimensions=4),
}
SWAPS = {
    "marks 1 point higher": Judge(shift=1.0),
    "marks 1 point lower": Judge(shift=-1.0),
    "other tastes (1.5 points), noise of 1": Judge(tastes=1.5, noise=1.0),
    "other tastes (1 point), noise of 1, .5 higher": Judge(shift=0.5, tastes=1.0, noise=1.0),
    "other tastes (1 point), noise of .5, .75 lower": Judge(shift=-0.75, tastes=1.0, noise=0.5),
    "marks .5 points higher, nothing else": Judge(shift=0.5),
}
PLANTED = ("marks 1 point higher", "marks 1 point lower", "other tastes (1.5 points), noise of 1")


def run(n_years: int = N_YEARS) -> Iterator[Row]:
    lines = ["| a judge that does not change | years with an alarm | 95% |", "|---|---|---|"]
    for name, judge in UNCHANGED.items():
        k = false_alarms(judge, n_years)
        low, high = (100 * end for end in wilson_interval(k, n_years) or (0.0, 1.0))
        lines.append(f"| {name} | {k} of {n_years} | {low:.0f} to {high:.0f}% |")
        yield Row(f"years with an alarm: {name}", n_years, low, 100 * ALPHA, 1.0, "", "%")
    write_table("judges.md", "alarms", lines)
    n = SWAPS_PER_YEAR * n_years
    lines = [
        "| swapped for a judge with | " + " | ".join(PANELS) + " |",
        "|---|" + "---|" * len(PANELS),
    ]
    for name, other in SWAPS.items():
        cells = []
        for panel, judge in PANELS.items():
            checks = list(checks_to_alarm(judge, other, n))
            first, second = (100 * sum(c in upto for c in checks) / n for upto in ((1,), (1, 2)))
            cells.append(f"{first:.0f}%, {second:.0f}%")
            if name in PLANTED:
                what = f"named at once: {name}, {panel}"
                yield Row(what, n, 100 - first, 100 - NAMED, 1.0, "missed, allowed", "%")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    write_table("judges.md", "swaps", lines)
