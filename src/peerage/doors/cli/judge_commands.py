"""`peerage advise`, `anchors`, `rejudge`, `passport` and `verify`: commands about the judges."""

from __future__ import annotations

import asyncio
import base64
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from peerage.doors.cli.common_options import FLAT, Common, ReviewFiles
from peerage.doors.cli.screen import HelpPage, say, write_json, write_line
from peerage.doors.render.judge_views import (
    advice_blocks,
    anchors_blocks,
    show_rejudging,
    show_verification,
)
from peerage.errors import InputError, UsageError, how_many
from peerage.reports.options import AdviseOptions
from peerage.reports.session_options import AnchorOptions, RejudgeOptions

if TYPE_CHECKING:
    from peerage.rejudging import Rejudging

SAID_NO = 1  # the exit code of an alarm, or of a passport that is not reproduced
KEY = "Private key (Ed25519, PEM); created if the file does not exist."
PUBLIC_KEY = "Public key of the signer: 32 bytes in Base64, or a file with them."

anchors = App(
    name="anchors",
    help_formatter=HelpPage("peerage anchors", "peerage anchors set 624c --n 30"),
)


def advise(
    *,
    options: Annotated[AdviseOptions, FLAT] = AdviseOptions(),
    reviews: ReviewFiles = ReviewFiles(),
    common: Common = Common(),
) -> None:
    """Show what each judge contributes, the cheapest panel with the same board, and a cascade."""
    common.write_blocks(common.reports(reviews.tables()).advise(options), advice_blocks)


@anchors.default
def show(*, common: Common = Common()) -> int:
    """Show the results of the anchor checks so far; no model is called."""
    from peerage.anchors import anchors_of_reports

    report = anchors_of_reports(common.reports())
    common.write_blocks(report, anchors_blocks)
    return SAID_NO if report.has_alarm else 0


SET_EXAMPLES = "peerage anchors set 624c", "peerage anchors set 624c --n 60"


@anchors.command(name="set", help_formatter=HelpPage(*SET_EXAMPLES))
def set_(
    season: Annotated[str, Parameter(help="Season (its id or the beginning of it).")],
    /,
    *,
    n: Annotated[int, Parameter(help="Number of sessions, drawn at random.")] = 30,
    common: Common = Common(),
) -> None:
    """Choose sessions of a season as anchors: judges mark their answers again and again."""
    from peerage.anchors import set_anchors

    anchors = set_anchors(common.reports().store, AnchorOptions(season=season, n=n), time.time)
    if common.json:
        write_json(anchors.document())
        return
    write_line(f"{how_many(len(anchors.sessions), 'anchor')} of season {anchors.season}.")
    if anchors.removed:
        write_line(f"{how_many(len(anchors.removed), 'earlier anchor')} removed from the set.")


@anchors.command(help_formatter=HelpPage("peerage anchors check", "peerage anchors check --json"))
def check(
    *,
    budget_usd: Annotated[
        float | None, Parameter(help="Budget in USD, which is never exceeded.")
    ] = None,
    common: Common = Common(),
) -> int:
    """Have the judges mark the anchors again; exit 1 if a judge has changed."""
    from peerage.anchors import anchors_of_reports, check_anchors
    from peerage.panel import Council

    settings = common.council_settings({"council.budget_usd": budget_usd})
    reports = common.reports()

    async def check() -> tuple[tuple[str, ...], tuple[str, ...]]:
        async with Council(settings, reports.store) as council:
            report = await check_anchors(council, time.time)
            return report.gone, report.failed

    gone, failed = asyncio.run(check())
    report = anchors_of_reports(common.reports(), gone=gone, failed=failed)
    common.write_blocks(report, anchors_blocks)
    return SAID_NO if report.has_alarm else 0


def rejudge(
    season: Annotated[str, Parameter(help="Season (its id or the beginning of it).")],
    /,
    *,
    judges: Annotated[
        str, Parameter(name="--with", help="Seats that judge the answers, as in a,b.")
    ] = "",
    dry_run: Annotated[bool, Parameter(help="Print the calls and their estimated cost.")] = False,
    budget_usd: Annotated[float | None, Parameter(help="Budget in USD; never exceeded.")] = None,
    common: Common = Common(),
) -> None:
    """Have other judges review the stored answers of a season; boards do not count the reviews.

    Without --with no model is called, and the results so far are shown.
    """
    from peerage.panel import Council
    from peerage.rejudging import estimate_rejudging, report_rejudging
    from peerage.rejudging import rejudge as judge_season

    reports = common.reports()
    if dry_run and not judges:
        raise UsageError("--dry-run needs judges.", hint="As in --with sonnet,gpt --dry-run.")
    if not judges:
        common.write(report_rejudging(reports.store, reports.settings, season), show_rejudging)
        return
    settings = common.council_settings({"council.budget_usd": budget_usd})
    options = RejudgeOptions(season=season, judges=(judges,))

    if dry_run:
        from peerage.doors.cli.run import show_estimate

        council = Council(settings, reports.store)
        show_estimate(council, asyncio.run(estimate_rejudging(council, options)), common)
        return

    async def judge() -> Rejudging:
        async with Council(settings, reports.store) as council:
            return await judge_season(council, options, time.time)

    common.write(asyncio.run(judge()), show_rejudging)


def passport(
    reviewer: Annotated[str, Parameter(help="Name of the reviewer.")],
    /,
    *,
    key: Annotated[Path, Parameter(help=KEY)] = Path("passport-key.pem"),
    output: Annotated[Path | None, Parameter(help="File to write.", validator=())] = None,
    common: Common = Common(),
) -> None:
    """Write a signed record of a reviewer that anyone with the store can recompute."""
    from peerage.reports.passports import canonical_bytes, load_key, make_passport

    reports = common.reports()
    private, is_new = load_key(key)
    if is_new and not common.quiet:
        say(f"made a new key: {key}. Keep it secret: it signs in your name.")
    envelope = make_passport(reports.store, reports.settings, reviewer, private)
    if output is None:
        write_json(envelope)
    else:
        common.write_file(output, lambda path: path.write_bytes(canonical_bytes(envelope) + b"\n"))


def verify(
    file: Annotated[Path, Parameter(help="A passport.")],
    /,
    *,
    key: Annotated[str | None, Parameter(help=PUBLIC_KEY)] = None,
    common: Common = Common(),
) -> int:
    """Recompute a passport from the store's log, and show what differs."""
    from peerage.reports.passports import MAX_BYTES, verify_passport

    if not file.exists():
        raise InputError("the file does not exist.", place=str(file))
    if file.stat().st_size > MAX_BYTES:
        raise InputError("this file is too large to be a passport.", place=str(file))
    reports = common.reports()
    public = None if key is None else _public_key(key)
    result = verify_passport(reports.store, reports.settings, file.read_bytes(), public)
    common.write(result, show_verification)
    return 0 if result.is_reproduced else SAID_NO


def _public_key(text: str) -> bytes:
    path = Path(text)
    try:
        if len(text) < 1_000 and path.is_file():
            text = path.read_text().strip()
        key = base64.b64decode(text, validate=True)
    except (ValueError, OSError):
        key = b""
    if len(key) != 32:
        raise UsageError(
            "--key is not an Ed25519 public key.", hint="It must be 32 bytes in Base64."
        )
    return key
