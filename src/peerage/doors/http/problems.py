"""Errors as problem documents (RFC 9457): one JSON format for all errors."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from peerage.doors.http.origins import SECURITY_HEADERS
from peerage.errors import (
    BudgetError,
    InputError,
    MissingExtraError,
    NotAllowedError,
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
SESSION_OPTION = "option council."  # how the place of an error begins if an option is wrong
BUG = "internal error; see the server's log."
MAX_PROBLEMS = 10  # errors of one request that are listed
ONE, SEVERAL = "(one)", "(several)"  # whether a body is one row or a list; not shown in errors

# The most specific error comes first, because the first match gives the status.
STATUS_BY_ERROR: tuple[tuple[type[PeerageError], HTTPStatus], ...] = (
    (BusyError, HTTPStatus.TOO_MANY_REQUESTS),
    (NotAllowedError, HTTPStatus.FORBIDDEN),
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
    """Return the problem document of a status, without empty fields."""
    document = {"title": HTTPStatus(status).phrase, "status": int(status), "detail": detail, **more}
    filled = {name: value for name, value in document.items() if value not in ("", None, [])}
    return JSONResponse(valid_values(filled), status, dict(headers or {}), MEDIA_TYPE)


class UnsupportedError(InputError):
    """A field of an OpenAI request that the council does not support."""

    def __init__(
        self, message: str, *, param: str, code: str = "unsupported_value", hint: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.param, self.code = param, code


class UnknownNameError(NotFoundError):
    """An unknown model or earlier response in an OpenAI request."""

    def __init__(self, message: str, *, param: str, code: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.param, self.code = param, code


KIND_BY_STATUS = {  # OpenAI's types of errors; any other 4xx is an invalid request
    HTTPStatus.UNAUTHORIZED: "authentication_error",
    HTTPStatus.FORBIDDEN: "permission_error",
    HTTPStatus.TOO_MANY_REQUESTS: "rate_limit_error",
}
CODE_BY_STATUS = {
    HTTPStatus.UNAUTHORIZED: "invalid_api_key",
    HTTPStatus.PAYMENT_REQUIRED: "insufficient_quota",
    HTTPStatus.TOO_MANY_REQUESTS: "rate_limit_exceeded",
}


def openai_error(
    status: int, detail: str, param: str | None = None, code: str | None = None
) -> dict[str, Any]:
    """Return an error in OpenAI's format, for a problem document or a stream."""
    usual = (
        "server_error" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else ("invalid_request_error")
    )
    kind = KIND_BY_STATUS.get(HTTPStatus(status), usual)
    code = code or CODE_BY_STATUS.get(HTTPStatus(status))
    return {"error": {"message": detail, "type": kind, "param": param, "code": code}}


def openai_fields(error: PeerageError) -> dict[str, str]:
    """Return the request field that an error concerns and OpenAI's code for it, if known."""
    if isinstance(error, UnsupportedError | UnknownNameError):
        return {"param": error.param, "code": error.code}
    if error.place.startswith(SESSION_OPTION):  # a setting that the request changes
        name = error.place.removeprefix(SESSION_OPTION)
        return {"param": f"peerage.{name}", "code": "invalid_value"}
    return {}


def openai_extra(path: str, status: int, detail: str, **fields: str | None) -> dict[str, Any]:
    """Return the fields of a problem document that only OpenAI's routes have."""
    return openai_error(status, detail, **fields) if path.startswith(OPENAI_ROUTES) else {}


def status_of(error: PeerageError, path: str = "") -> HTTPStatus:
    """Return the HTTP status of an error; OpenAI's routes use 400 for bad input."""
    status = next(status for kind, status in STATUS_BY_ERROR if isinstance(error, kind))
    return _as_openai(status) if path.startswith(OPENAI_ROUTES) else status


def _as_openai(status: HTTPStatus) -> HTTPStatus:
    is_bad_input = status == HTTPStatus.UNPROCESSABLE_ENTITY
    return HTTPStatus.BAD_REQUEST if is_bad_input else status


def headers_of(error: PeerageError) -> dict[str, str]:
    """Return the headers that say whether and when to try again."""
    if isinstance(error, BusyError):
        return {"Retry-After": str(math.ceil(error.retry_after_s))}
    if isinstance(error, NoVerdictError):
        return {"X-Should-Retry": "false"}  # or else OpenAI's clients would run it three times
    return {}


def peerage_problem(error: PeerageError, path: str = "") -> JSONResponse:
    """Return the problem document of an error in the format of this path's clients."""
    status = status_of(error, path)
    extra = openai_extra(path, status, str(error), **openai_fields(error))
    named = {"place": error.place, "hint": error.hint}
    return problem(status, error.message, headers_of(error), **named, **extra)


def add_problem_handlers(app: FastAPI) -> None:
    """Turn every error of an app into a problem document."""

    @app.exception_handler(PeerageError)
    async def _answer_known(request: Request, error: PeerageError) -> JSONResponse:
        return peerage_problem(error, request.url.path)

    @app.exception_handler(ValidationError)
    @app.exception_handler(RequestValidationError)
    async def _answer_invalid(
        request: Request, error: RequestValidationError | ValidationError
    ) -> JSONResponse:
        faults = error.errors()[:MAX_PROBLEMS]
        malformed = any(one["type"] == "json_invalid" for one in faults)
        path, status = request.url.path, HTTPStatus.UNPROCESSABLE_ENTITY
        if malformed or path.startswith(OPENAI_ROUTES):
            status = HTTPStatus.BAD_REQUEST
        errors = []
        for one in faults:
            place = [str(part) for part in one["loc"] if part not in (ONE, SEVERAL)]
            fault = {"at": ".".join(place)[:200], "message": one["msg"][:500]}
            if one.get("input") is not None and one["type"] != "json_invalid":
                fault["value"] = shown(one["input"])
            errors.append(fault)
        detail = "the body is not JSON." if malformed else "the request has invalid fields."
        if any(isinstance(one["input"], bytes) for one in faults):  # the body was not parsed
            detail, errors = "send JSON with Content-Type: application/json.", []
        text = f"{detail} {errors[0]['at']}: {errors[0]['message']}" if errors else detail
        param = errors[0]["at"].removeprefix("body.") if errors else None
        extra = openai_extra(path, status, text, param=param)
        return problem(status, detail, errors=errors, **extra)

    @app.exception_handler(HTTPException)
    async def _answer_http(request: Request, error: HTTPException) -> Response:
        detail = str(error.detail)
        is_unknown = error.status_code == HTTPStatus.NOT_FOUND
        if is_unknown and (
            page := await _page_of(request, 404, "there is no page at this address.")
        ):
            return page
        if detail == HTTPStatus(error.status_code).phrase:
            place = f"{request.method} {shown(request.url.path)}"
            detail = f"there is no route {place}; /openapi.json lists all routes."
        more = openai_extra(request.url.path, error.status_code, detail)
        return problem(error.status_code, detail, error.headers, **more)

    @app.exception_handler(ClientDisconnect)
    async def _answer_disconnect(_: Request, __: ClientDisconnect) -> JSONResponse:
        # The client has gone, but the log line of the request needs a status.
        return problem(400, "the client disconnected before the request was complete.")

    @app.exception_handler(Exception)
    async def _answer_bug(request: Request, error: Exception) -> Response:
        log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        response = await _page_of(request, 500, BUG) or problem(500, BUG)
        for name, value in SECURITY_HEADERS.items():  # it is sent outside of the gate
            response.headers.setdefault(name, value)
        return response


async def _page_of(request: Request, status: int, message: str) -> Response | None:
    """Return an error as a page if this app has pages and the client is a browser."""
    make = getattr(request.app.state, "page_of_problem", None)
    is_browser = "text/html" in request.headers.get("accept", "")
    page: Response | None = await make(request, status, message) if make and is_browser else None
    return page
