"""Routes whose errors are pages: a person is told what is wrong in words, not in JSON."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any

from fastapi import HTTPException
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from peerage.doors.http.problems import status_of
from peerage.doors.web.templating import page
from peerage.errors import PeerageError

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class PageRoute(APIRoute):
    """A route of the web pages."""

    def get_route_handler(self) -> Handler:
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await handler(request)
            except PeerageError as error:
                return error_page(request, int(status_of(error)), error.message, error.hint)
            except RequestValidationError as error:
                first = error.errors()[0]
                name = str(first["loc"][-1]).replace("_", " ")
                return error_page(request, 422, f"{name}: {first['msg']}.")
            except HTTPException as error:
                return error_page(request, error.status_code, str(error.detail))

        return handle


def error_page(request: Request, status: int, message: str, hint: str = "") -> Response:
    """A page that says what is wrong."""
    title = HTTPStatus(status).phrase
    return page(request, "error.html", code=status, title=title, message=message, hint=hint)
