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
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from peerage.errors import (
    BudgetError,
    MissingExtraError,
    NotFoundError,
    PeerageError,
    shown,
)
from peerage.service import BusyError, NoVerdictError
from peerage.stores import SessionTakenError, StoreError
from peerage.text import valid_values

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
OPENAI_ROUTES = "/v1/"
MAX_PROBLEMS = 10  # of one request that are told

# The most special first: the first that an error is one of gives its status.
STATUS_BY_ERROR: tuple[tuple[type[PeerageError], HTTPStatus], ...] = (
    (BusyError, HTTPStatus.TOO_MANY_REQUESTS),
    (NotFoundError, HTTPStatus.NOT_FOUND),
    (NoVerdictError, HTTPStatus.BAD_GATEWAY),
    (SessionTakenError, HTTPStatus.CONFLICT),
    (StoreError, HTTPStatus.SERVICE_UNAVAILABLE),
    (BudgetError, HTTPStatus.PAYMENT_REQUIRED),
    (MissingExtraError, HTTPStatus.NOT_IMPLEMENTED),
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
    filled = {name: value for name, value in document.items() if value not in ("", None, [])}
    return JSONResponse(valid_values(filled), status, dict(headers or {}), MEDIA_TYPE)


def openai_error(status: int, detail: str) -> dict[str, Any]:
    """An error as OpenAI clients read it, to stand in a problem document or in a stream."""
    kind = "server_error" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "invalid_request_error"
    code = "model_not_found" if status == HTTPStatus.NOT_FOUND else None
    return {"error": {"message": detail, "type": kind, "param": None, "code": code}}


def expected(path: str, status: int, detail: str) -> dict[str, Any]:
    """What clients of a route expect in a problem document beside the usual."""
    return openai_error(status, detail) if path.startswith(OPENAI_ROUTES) else {}


def status_of(error: PeerageError) -> HTTPStatus:
    """The HTTP status of one of our errors."""
    return next(status for kind, status in STATUS_BY_ERROR if isinstance(error, kind))


def peerage_problem(error: PeerageError, /, **more: Any) -> JSONResponse:
    """The problem document of one of our errors."""
    headers = {}
    if isinstance(error, BusyError):
        headers["Retry-After"] = str(math.ceil(error.retry_after_s))
    if isinstance(error, NoVerdictError):
        headers["X-Should-Retry"] = "false"  # openai's clients would pay for it thrice
    named = {"place": error.place, "hint": error.hint}
    return problem(status_of(error), error.message, headers, **named, **more)


def add_problem_handlers(app: FastAPI) -> None:
    """Have every error of an app answered by a problem document."""

    @app.exception_handler(PeerageError)
    async def _ours(request: Request, error: PeerageError) -> JSONResponse:
        return peerage_problem(error, **expected(request.url.path, status_of(error), str(error)))

    @app.exception_handler(ValidationError)
    @app.exception_handler(RequestValidationError)
    async def _validation(
        request: Request, error: RequestValidationError | ValidationError
    ) -> JSONResponse:
        faults = error.errors()[:MAX_PROBLEMS]
        malformed = any(one["type"] == "json_invalid" for one in faults)
        status = HTTPStatus.BAD_REQUEST if malformed else HTTPStatus.UNPROCESSABLE_ENTITY
        errors = []
        for one in faults:
            fault = {"at": ".".join(map(str, one["loc"]))[:200], "message": one["msg"][:500]}
            if one.get("input") is not None and one["type"] != "json_invalid":
                fault["value"] = shown(one["input"])
            errors.append(fault)
        detail = "the body is not JSON." if malformed else "the request is not as it should be."
        if any(isinstance(one["input"], bytes) for one in faults):  # a body that was not read
            detail, errors = "send JSON with Content-Type: application/json.", []
        text = f"{detail} {errors[0]['at']}: {errors[0]['message']}" if errors else detail
        return problem(status, detail, errors=errors, **expected(request.url.path, status, text))

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> JSONResponse:
        detail = str(error.detail)
        if detail == HTTPStatus(error.status_code).phrase:
            place = f"{request.method} {shown(request.url.path)}"
            detail = f"there is no {place}; /openapi.json lists what there is."
        more = expected(request.url.path, error.status_code, detail)
        return problem(error.status_code, detail, error.headers, **more)

    @app.exception_handler(Exception)
    async def _unexpected(request: Request, error: Exception) -> JSONResponse:
        log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        return problem(500, "something went wrong here; the server's log says what.")
