"""`peerage gate` and `peerage check`: decisions for scripts, given as exit codes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from peerage.doors.cli.common_options import FLAT, Common, Files, JudgementFiles
from peerage.doors.cli.screen import say, write_line
from peerage.doors.render.gate_views import gate_blocks, requirements_table
from peerage.doors.render.layout import blocks_markdown
from peerage.errors import InputError
from peerage.reports.gate_files import (
    bar_document,
    canonical_json,
    check_registered,
    read_baseline,
    registration,
)
from peerage.reports.options import Candidates, CheckOptions, GateOptions

Undecided = Literal["pass", "fail"]
Prereg = Annotated[
    Path | None,
    Parameter(
        help="Write the bar (margin, alpha, metric …) and its hash to this file; if the file "
        "exists, refuse a different bar."
    ),
]


CANDIDATE: Any = GateOptions.model_fields["candidate"]


class GateFlags(GateOptions):
    """The options of a gate as flags; a file may follow `--candidate NAME`."""

    candidate: Annotated[Candidates, Parameter(consume_multiple=False)] = CANDIDATE


def gate(
    files: Files = (),
    /,
    *,
    options: Annotated[GateFlags, FLAT] = GateFlags(),
    against: Annotated[
        Path | None, Parameter(help="Baseline file to use instead of --base.")
    ] = None,
    save_baseline: Annotated[
        Path | None,
        Parameter(help="Save the base's results to this file; no verdict.", validator=()),
    ] = None,
    prereg: Prereg = None,
    undecided: Annotated[
        Undecided | None, Parameter(help="Exit with 0 (pass) or 1 (fail) if undecided; default: 3.")
    ] = None,
    markdown: Annotated[bool, Parameter(help="Print a comment for a pull request.")] = False,
    reviews: JudgementFiles = JudgementFiles(),
    common: Common = Common(),
) -> int:
    """Decide whether a candidate is worse than its base; exit 0 not worse, 1 worse, 3 undecided.

    Several candidates share the probability of a false verdict: exit 1 if any is worse, else 3 if
    any is undecided.
    """
    with reviews.open(files) as tables:
        reports = common.reports(tables)
        if save_baseline is not None:
            text = canonical_json(reports.baseline(options).document()) + "\n"
            common.write_page(save_baseline, text)
            return 0
        baseline = None if against is None else read_baseline(against)
        if prereg is not None:
            named = options.model_copy(update={"base": baseline.base}) if baseline else options
            register(prereg, bar_document(named, options.own_votes, options.suite), common)
        result = reports.gate(options, baseline)
    if markdown and not common.json:
        write_line(blocks_markdown(gate_blocks(result)), multiline=True)
    else:
        common.write_blocks(result, gate_blocks)
    return result.exit_code(undecided)


def check(
    files: Files = (),
    /,
    *,
    options: Annotated[CheckOptions, FLAT] = CheckOptions(),
    undecided: Annotated[
        Undecided | None, Parameter(help="Exit with 0 (pass) or 1 (fail) if undecided; default: 3.")
    ] = None,
    reviews: JudgementFiles = JudgementFiles(),
    common: Common = Common(),
) -> int:
    """Check requirements on a board; exit 0 if all hold, 1 if one fails, 3 if undecided."""
    with reviews.open(files) as tables:
        result = common.reports(tables).check(options)
    common.write(result, lambda screen, one, _: screen.show_table(requirements_table(one)))
    return result.exit_code(undecided)


def register(path: Path, bar: Mapping[str, Any], common: Common) -> None:
    """Write a gate's bar to a file; if the file exists, refuse a bar that differs from it."""
    if not path.exists():
        common.write_page(path, registration(bar))
        if not common.quiet:
            say(
                f"{path} is new. In CI, commit it: without it, each run registers a bar of its own."
            )
        return
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        raise InputError("this file does not contain a registered bar.", place=str(path)) from None
    check_registered(text, bar, str(path))
