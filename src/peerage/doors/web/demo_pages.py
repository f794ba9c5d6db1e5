"""The demo: a simulated season with planted faults, and a page that shows which were found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from peerage.biases.preferences import TOO_FAR
from peerage.doors.demo_store import N_SESSIONS, PLANTS, DemoResults, PlantedFault
from peerage.doors.http.access import READ, RUN, Serving
from peerage.doors.http.demo_routes import HeldDemo
from peerage.doors.http.publish_routes import read_only
from peerage.doors.render.finding_words import words_of_metric
from peerage.doors.render.pages import Chart, PageLink, board_chart
from peerage.doors.render.publishing import Publication, published_page
from peerage.doors.web.judge_pages import FindingBar, finding_bars
from peerage.doors.web.templating import PageRoute, page
from peerage.errors import NotFoundError
from peerage.findings import Audit

router = APIRouter(
    route_class=PageRoute, include_in_schema=False, prefix="/demo", dependencies=[READ]
)

ALL = Publication("board", people=True, title="The demo")
PLAIN_REASONS = {  # of the audit's notes
    TOO_FAR: "their own answers are better or worse than all answers of others, so no answer shows "
    "how they mark that quality"
}
AROUND = (PageLink("/demo", "← Back to the guide"),)


@router.get("")
async def show_demo(request: Request, service: Serving, demo: HeldDemo) -> Response:
    """Show the demo: a button, its progress, or the planted faults and the findings."""
    results = await service.read(demo.results)
    return await page(
        request,
        "demo.html",
        demo=demo,
        n_demo=N_SESSIONS,
        results=results,
        shares=_shares_by_name(results) if results else None,
        questions=list(_questions(results)) if results else [],
        n_answers=_n_answers(results) if results else 0,
    )


@router.post("", dependencies=[RUN])
async def start(demo: HeldDemo) -> Response:
    """Start the demo, in its own store."""
    await demo.start()
    return RedirectResponse("/demo", 303)


@router.post("/delete", dependencies=[RUN])
async def delete(demo: HeldDemo) -> Response:
    """Delete the demo and its store."""
    await demo.close()
    return RedirectResponse("/demo", 303)


@router.get("/{path:path}")
async def demo_page(service: Serving, demo: HeldDemo, path: str) -> Response:
    """Show a page of the demo's store: its board, audit or a session."""
    if not demo.is_done or demo.reports is None:
        raise NotFoundError("the demo has not run yet.", hint="Start it on the page /demo.")
    return read_only(await service.read(published_page, demo.reports, ALL, path, AROUND))


def _shares_by_name(results: DemoResults) -> Chart | None:
    """Return the board's chart in order of names, so that it does not give away the order."""
    rows = sorted(results.board.rows, key=itemgetter("model"))
    return board_chart(results.board, [{**row, "rank_low": None} for row in rows])


class Question(NamedTuple):
    """A planted fault with its metric for all judges, from which a reader can guess who has it."""

    fault: PlantedFault
    topic: str  # the metric in words
    compared: Sequence[FindingBar]
    of_culprit: Sequence[FindingBar]
    unmeasured: Sequence[str]
    reason: str  # for which they could not be measured


def _questions(results: DemoResults) -> Iterator[Question]:
    bars = finding_bars(Audit(results.findings))
    for fault in results.faults:
        of_judges = [
            one
            for one in bars
            if one.finding.metric == fault.metric and one.finding.subject in PLANTS
        ]
        compared = [one for one in of_judges if one.finding.value is not None]
        others = [one.finding for one in of_judges if one.finding.value is None]
        notes = dict.fromkeys(PLAIN_REASONS.get(one.note, one.note) for one in others)
        yield Question(
            fault,
            words_of_metric(fault.metric)[0].lower(),
            compared,
            [one for one in compared if one.finding in fault.findings],
            [one.subject for one in others],
            "; ".join(notes),
        )


def _n_answers(results: DemoResults) -> int:
    """Return how many answers of others each of the judges without a fault marked, at least."""
    counts = [
        one.n
        for one in results.findings
        if one.metric == "calibration" and one.subject in results.fair
    ]
    return min(counts, default=0)
