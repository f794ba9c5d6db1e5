"""A cookie for the pages: a token goes in once, and no script can read it afterwards."""

from __future__ import annotations

from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from peerage.doors.http.gate import COOKIE
from peerage.doors.http.problems import problem

router = APIRouter(include_in_schema=False)

KEPT_FOR_S = 30 * 86_400
MAX_FORM_BYTES = 10_000
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Peerage</title>
<meta name="viewport" content="width=device-width">
<link rel="stylesheet" href="/static/style.css"></head>
<body><main><h1>Peerage</h1>
<p class="aside">This server asks for a token. Whoever runs it makes one with
<code>peerage token create</code>.</p>
<form class="fields" method="post" action="/login"><label>Token
<input name="token" type="password" autocomplete="current-password" required></label>
<button>Enter</button></form></main></body></html>
"""
PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; form-action 'self'"
}


@router.get("/login")
async def login_page() -> HTMLResponse:
    """A form that asks for a token."""
    return HTMLResponse(PAGE, headers=PAGE_HEADERS)


@router.post("/login")
async def log_in(request: Request) -> Response:
    """Take a token from the form, and give it back as a cookie that only the server reads."""
    body = await request.body()
    text = body.decode("utf-8", "replace") if len(body) <= MAX_FORM_BYTES else ""
    token = parse_qs(text, max_num_fields=10).get("token", [""])[0].strip()
    client = await request.app.state.token_book.client(token)
    if client is None:
        return problem(401, "this token is not good.")
    response = RedirectResponse("/", status_code=303)
    secure = request.url.scheme == "https"
    response.set_cookie(
        COOKIE, token, max_age=KEPT_FOR_S, httponly=True, samesite="strict", secure=secure
    )
    return response


@router.post("/logout")
async def log_out() -> Response:
    """Forget the cookie."""
    response = RedirectResponse("/login", status_code=303)
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return response
