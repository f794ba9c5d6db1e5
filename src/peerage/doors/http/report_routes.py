"""HTTP routes for boards, audits and rings: the JSON of the command line, with an ETag."""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel
from starlette.responses import Response

from peerage.anchors import AnchorReport, anchors_of_reports
from peerage.boards import Board
from peerage.doors.http.access import READ, Serving
from peerage.doors.http.problems import RESPONSES
from peerage.doors.render.board_files import board_csv, board_parquet
from peerage.reports import Reports
from peerage.reports.options import (
    BOARD_OPTIONS,
    AdviseOptions,
    AuditOptions,
    GateOptions,
    Options,
    PassportOptions,
    RingsOptions,
)
from peerage.service import Service
from peerage.tasks import end
from peerage.text import json_text

router = APIRouter(prefix="/api", tags=["reports"], responses=RESPONSES, dependencies=[READ])

MAX_KEPT_BYTES = 64_000_000
KEPT_FOR_S = 3_600.0  # a report flags reviews dated in the future, so it depends on the time
CSV, PARQUET = "text/csv; charset=utf-8", "application/vnd.apache.parquet"
OF_EVERY_EVENT = ("/anchors", "/passports")  # reports that read all events, not only reviews
MAX_AT_ONCE = 2  # how many reports are computed at the same time; others wait


class ReportCache:
    """Recent reports and pages. A tag identifies each by the request and the state of the store.

    The tag can be computed without the report. Equal requests share one computation.
    """

    def __init__(self, service: Service) -> None:
        self.service = service
        settings = service.settings.model_dump_json()
        self._salt = hashlib.sha256(f"{version('peerage')} {settings}".encode()).hexdigest()
        self._sent: OrderedDict[str, bytes] = OrderedDict()  # the latest is last
        self._latest: dict[str, tuple[str, float]] = {}  # tag and time of a request's last report
        self._making: dict[str, asyncio.Task[bytes]] = {}
        self._turn = asyncio.Semaphore(MAX_AT_ONCE)

    async def tag(self, query: str, *, of_every_event: bool = False) -> str:
        """Return the current tag of a report.

        With `of_every_event` it changes with every event, not only with reviews.
        """
        store = self.service.store
        state = await self.service.read(store.last_event if of_every_event else store.version)
        hour = int(self.service.clock() // KEPT_FOR_S)
        return hashlib.sha256(f"{self._salt} {state} {hour} {query}".encode()).hexdigest()[:32]

    def earlier(self, query: str) -> tuple[bytes, float] | None:
        """Return the last report of a request, for whatever state of the store, and its time."""
        tag, at = self._latest.get(query, ("", 0.0))
        return (self._sent[tag], at) if tag in self._sent else None

    async def report(self, tag: str, compute: Callable[[], bytes], query: str = "") -> bytes:
        """Return the cached report of a tag, or compute it in a thread.

        With a `query`, the report is also the one that `earlier` returns, for pages that show an
        earlier state rather than wait.
        """
        if tag in self._sent:
            self._sent.move_to_end(tag)
            return self._sent[tag]
        if tag not in self._making:
            task = self._making[tag] = asyncio.create_task(self._make(tag, compute, query))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(self._making[tag])

    async def _make(self, tag: str, compute: Callable[[], bytes], query: str) -> bytes:
        try:
            async with self._turn:
                at = self.service.clock()
                report = self._sent[tag] = await self.service.read(compute)
        finally:
            del self._making[tag]
        while sum(map(len, self._sent.values())) > MAX_KEPT_BYTES and len(self._sent) > 1:
            self._sent.popitem(last=False)
        self._latest |= {query: (tag, at)} if query else {}
        self._latest = {q: known for q, known in self._latest.items() if known[0] in self._sent}
        return report

    async def close(self) -> None:
        await end(self._making.values())


def _add_report(path: str, name: str, options: type[BaseModel], read: Any, about: str) -> None:
    """Add a route that responds with the document that `read` makes from the options."""
    of_every_event = path in OF_EVERY_EVENT

    async def answer(request: Request, service: Serving, options: Any) -> Response:
        cache: ReportCache = request.app.state.report_cache
        query = f"{path} {options.model_dump_json()}"
        tag = await cache.tag(query, of_every_event=of_every_event)
        headers = {"ETag": f'"{tag}"', "Cache-Control": "private, no-cache"}
        known = request.headers.get("if-none-match", "").split(",")
        if headers["ETag"] in [one.strip().removeprefix("W/") for one in known]:
            return Response(status_code=304, headers=headers)

        def compute() -> bytes:
            return json_text(read(service.reports, options).document()).encode()

        body = await cache.report(tag, compute)
        return Response(body, media_type="application/json", headers=headers)

    answer.__annotations__["options"] = Annotated[options, Query()]
    router.add_api_route(path, answer, name=name, description=about)


def _anchors(reports: Reports, _: Options) -> AnchorReport:
    return anchors_of_reports(reports)


def _add_board_files(kind: str, options: type[BaseModel]) -> None:
    """Add routes that respond with the rows of a board as CSV and as Parquet."""

    def add(form: str, media_type: str, make: Callable[[Board], bytes]) -> None:
        async def answer(service: Serving, options: Any) -> Response:
            board = await service.read(service.reports.board, options)
            name = f'attachment; filename="{kind}.{form}"'
            headers = {"Content-Disposition": name, "Cache-Control": "private, no-cache"}
            body = await service.read(make, board)
            return Response(body, media_type=media_type, headers=headers)

        answer.__annotations__["options"] = Annotated[options, Query()]
        about = f"The rows of the board of {kind} as a {form} file."
        path, called = f"/boards/{kind}/{form}", f"board_of_{kind}_{form}"
        router.add_api_route(path, answer, name=called, description=about)

    add("csv", CSV, lambda board: board_csv(board).encode())
    add("parquet", PARQUET, board_parquet)


ABOUT = {
    "models": "Models, the best first, with intervals, rank ranges and tiers.",
    "contributors": "Contributors of items, by the quality of their items.",
    "reviewers": "Reviewers of items, by their agreement with the other reviewers.",
    "items": "Items, by the opinions on them.",
    "audit": "The audit of the reviewers over many sessions.",
    "advise": "Which judges the panel needs, with figures on held-out queries.",
    "anchors": "Judges whose marks for the anchors have changed, and since when.",
    "gate": "The verdict on a candidate against its base, with the evidence.",
    "passports": "A reviewer's passport without a signature; `peerage passport` signs it.",
    "rings": "Voting rings among the opinions, with the evidence.",
}
for _name, _options in BOARD_OPTIONS.items():
    _add_report(f"/boards/{_name}", f"board_of_{_name}", _options, Reports.board, ABOUT[_name])
    _add_board_files(_name, _options)
_add_report("/audit", "audit_of_reviewers", AuditOptions, Reports.audit, ABOUT["audit"])
_add_report("/advise", "advice_on_the_panel", AdviseOptions, Reports.advise, ABOUT["advise"])
_add_report("/anchors", "drift_on_anchors", Options, _anchors, ABOUT["anchors"])
_add_report("/rings", "voting_rings", RingsOptions, Reports.rings, ABOUT["rings"])
_add_report(
    "/passports", "passport_of_a_reviewer", PassportOptions, Reports.passport, ABOUT["passports"]
)
_add_report("/gate", "gate_verdict", GateOptions, Reports.gate, ABOUT["gate"])
