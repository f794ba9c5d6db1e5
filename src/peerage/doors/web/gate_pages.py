"""The gate: the verdict on a candidate against its base, with the running interval."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from peerage.doors.http.access import READ, Serving
from peerage.doors.render.gate_views import chart, error_rates, reasons, verdict_sentence
from peerage.doors.web.templating import PageRoute, page
from peerage.reports.options import GateOptions

router = APIRouter(route_class=PageRoute, include_in_schema=False, dependencies=[READ])


@router.get("/gate")
async def gate(
    request: Request,
    service: Serving,
    base: str = "",
    candidate: str = "",
    margin: float = 0.1,
    season: str = "",
) -> Response:
    """Show the form, and the verdict where two models are named."""
    form = {"base": base, "candidate": candidate, "margin": margin, "season": season}
    parts: dict[str, Any] = {"form": form, "result": None}
    if base and candidate:
        chosen = {"base": base, "candidate": candidate, "margin": margin, "season": season or None}
        result = await service.read(service.reports.gate, GateOptions.of(chosen))
        parts |= {
            "result": result,
            "sentence": verdict_sentence(result),
            "reasons": [*reasons(result), error_rates(result)],
            "charts": [(one.measure, chart(one, margin)) for one in result.measures],
        }
    return page(request, "gate.html", **parts)
