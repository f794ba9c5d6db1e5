"""Errors as problem documents (RFC 9457): one JSON shape for everything that goes wrong."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from peerage.errors import (
    BudgetError,
    InputError,
    MissingExtraError,
    NotFoundError,
    PeerageError,
    UsageError,
    shown,
)
from peerage.service import BusyError
from peerage.stores import SessionTakenError, StoreError

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
MAX_PROBLEMS = 10  # of one request that are told

# The most special first: the first that an error is one of gives its status.
STATUS_BY_ERROR: tuple[tuple[type[PeerageError], HTTPStatus], ...] = (
    (BusyError, HTTPStatus.TOO_MANY_REQUESTS),
    (NotFoundError, HTTPStatus.NOT_FOUND),
    (SessionTakenError, HTTPStatus.CONFLICT),
    (StoreError, HTTPStatus.SERVICE_UNAVAILABLE),
    (BudgetError, HTTPStatus.PAYMENT_REQUIRED),
    (MissingExtraError, HTTPStatus.NOT_IMPLEMENTED),
    (InputError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (UsageError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (PeerageError, HTTPStatus.UNPROCESSABLE_ENTITY),
)

RESPONSES: dict[int | str, dict[str, Any]] = {
    "default": {
        "description": "A problem document (RFC 9457).",
        "content": {
            MEDIA_TYPE: {
                "schema": {
                    "type": "object",
                    "required": ["title", "status"],
                    "properties": {
                        "title": {"type": "string"},
                        "status": {"type": "integer"},
                        "detail": {"type": "string"},
                        "hint": {"type": "string"},
                        "errors": {"type": "array", "items": {"type": "object"}},
                    },
                },
                "example": {
                    "title": "Not Found",
                    "status": 404,
                    "detail": "there is no session 'abc'.",
                },
            }
        },
    }
}


def problem(
    status: int, detail: str = "", headers: Mapping[str, str] | None = None, **more: Any
) -> JSONResponse:
    """The problem document of a status; what says nothing is left out of it."""
    document = {"title": HTTPStatus(status).phrase, "status": int(status), "detail": detail, **more}
    kept = {name: value for name, value in document.items() if value not in ("", None, [])}
    return JSONResponse(kept, status, dict(headers or {}), MEDIA_TYPE)


def status_of(error: PeerageError) -> HTTPStatus:
    """The HTTP status of one of our errors."""
    return next(status for kind, status in STATUS_BY_ERROR if isinstance(error, kind))


def peerage_problem(error: PeerageError) -> JSONResponse:
    """The problem document of one of our errors."""
    headers = {}
    if isinstance(error, BusyError):
        headers["Retry-After"] = str(math.ceil(error.retry_after_s))
    return problem(status_of(error), error.message, headers, place=error.place, hint=error.hint)


def add_problem_handlers(app: FastAPI) -> None:
    """Have every error of an app answered by a problem document."""

    @app.exception_handler(PeerageError)
    async def _ours(_: Request, error: PeerageError) -> JSONResponse:
        return peerage_problem(error)

    @app.exception_handler(RequestValidationError)
    async def _validation(_: Request, error: RequestValidationError) -> JSONResponse:
        found = error.errors()[:MAX_PROBLEMS]
        malformed = any(one["type"] == "json_invalid" for one in found)
        status = HTTPStatus.BAD_REQUEST if malformed else HTTPStatus.UNPROCESSABLE_ENTITY
        errors = [
            {
                "at": ".".join(map(str, one["loc"]))[:200],
                "message": one["msg"][:500],
                **({"value": shown(one["input"])} if one.get("input") is not None else {}),
            }
            for one in found
        ]
        detail = "the body is not JSON." if malformed else "the request is not as it should be."
        return problem(status, detail, errors=errors)

    @app.exception_handler(HTTPException)
    async def _http(_: Request, error: HTTPException) -> JSONResponse:
        phrase = HTTPStatus(error.status_code).phrase
        detail = "" if error.detail == phrase else str(error.detail)
        return problem(error.status_code, detail, error.headers)

    @app.exception_handler(Exception)
    async def _unexpected(request: Request, error: Exception) -> JSONResponse:
        log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        return problem(500, "something went wrong here; the server's log says what.")
