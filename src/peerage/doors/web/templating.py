"""Pages from templates: values that all pages get, and strict security headers."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from fastapi import HTTPException
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from jinja2 import ChoiceLoader, Environment, PackageLoader
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse

from peerage.council.counting import n_possible_votes
from peerage.council.safety import looks_like_a_refusal
from peerage.doors.http.access import client_of, landing
from peerage.doors.http.problems import BUG, status_of
from peerage.doors.http.report_routes import ReportCache
from peerage.doors.render.finding_words import audit_verdict
from peerage.doors.render.layout import level
from peerage.doors.render.model_names import clear_names
from peerage.doors.render.page_work import one_page
from peerage.doors.render.pages import environment
from peerage.doors.render.phrases import (
    NOTHING,
    OWN_VOTES_SENTENCES,
    RULES,
    figure,
    is_lopsided,
    money,
    probability,
    seconds,
)
from peerage.doors.render.prose import prose, prose_answer
from peerage.doors.render.session_views import chance_text, why_ended
from peerage.doors.web.session_parts import FOR_TEMPLATES
from peerage.errors import NotFoundError, PeerageError, how_many
from peerage.messages import describe_image, image_bytes, image_type
from peerage.reports.options import ModelBoardOptions
from peerage.reports.page_facts import N_SESSIONS
from peerage.service import Service
from peerage.stores import Store, without_password
from peerage.types import Query

Handler = Callable[[Request], Coroutine[Any, Any, Response]]
log = logging.getLogger(__name__)

PATIENCE_S = 0.3  # a page that takes longer begins with a note, or with its earlier version
MAIN = '<main id="main" tabindex="-1">'
PLACEHOLDER = secrets.token_urlsafe(16)  # stands for the nonce of a response in cached pages
HEADER_PLACE = secrets.token_urlsafe(16)  # stands for the client's header in cached pages
COMMUNITY = "/boards/contributors"  # an entry that appears when there is a community
NAV = (  # address, name, and the scope that a client needs to see it
    ("/", "Ask", "run"),
    ("/sessions", "Sessions", "read"),
    ("/seasons", "Seasons", "read"),
    ("/boards/models", "Boards", "read"),
    ("/judges", "Judges", "read"),
    ("/review", "Review", "review"),
    (COMMUNITY, "Community", "read"),
    ("/team", "Team", "admin"),
    ("/settings", "Settings", "read"),
    ("/demo", "Demo", "read"),
)
PARTS: Mapping[str, tuple[tuple[str, str, str], ...]] = {  # the tabs of an entry, as in NAV
    "/boards/models": (
        ("/boards/models", "Models", "read"),
        ("/gate", "Gate", "read"),
        ("/publish", "Publish", "admin"),
    ),
    "/judges": (
        ("/judges", "Bench", "read"),
        ("/adjudicate", "Disagreements", "read"),
        ("/judges/anchors", "Anchors", "read"),
        ("/judges/advice", "Panel advice", "read"),
    ),
    "/review": (
        ("/review", "Review blind", "review"),
        ("/prompts", "Prompts", "review"),
        ("/me", "Your page", "review"),
    ),
    COMMUNITY: (
        (COMMUNITY, "Contributors", "read"),
        ("/boards/reviewers", "Reviewers", "read"),
        ("/boards/items", "Items", "read"),
        ("/rings", "Rings", "read"),
    ),
    "/settings": (
        ("/settings", "Configuration", "read"),
        ("/panels", "Panels", "read"),
        ("/imports", "Import and export", "admin"),
        ("/deleted", "Deleted", "read"),
    ),
}
AGREEMENTS = (  # the lowest τ of each wording
    (0.999, "has the same order as you"),
    (0.5, "mostly agrees with you"),
    (0.1, "agrees with you a little"),
    (-0.1, "neither agrees nor disagrees with you"),
    (-0.5, "disagrees with you a little"),
    (-0.999, "mostly disagrees with you"),
    (-1.1, "has the reverse of your order"),
)
POLICY = (
    "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types htmx"
)
CACHING = {"Cache-Control": "no-cache"}


@cache
def web_environment() -> Environment:
    """Return the templates of the web pages, and the shared ones of exported pages."""
    web = environment().overlay(
        loader=ChoiceLoader(
            [PackageLoader("peerage.doors.web"), PackageLoader("peerage.doors.render")]
        )
    )
    functions: tuple[Callable[..., Any], ...] = (
        *(
            prose,
            prose_answer,
            describe_image,
            image_type,
            figure,
            probability,
            seconds,
            clear_names,
            dollars,
            cost,
            level,
            share_level,
        ),
        *(
            percent,
            without_password,
            audit_verdict,
            n_possible_votes,
            looks_like_a_refusal,
            why_ended,
        ),
        *(agreement_words, duel_level, pairs_of, without_backticks, chance_text, is_lopsided),
        *FOR_TEMPLATES,
    )
    web.globals = {
        **web.globals,
        **{function.__name__: function for function in functions},
        "rule_words": RULES,
        "own_votes_sentences": OWN_VOTES_SENTENCES,
        "version": static_version(),
        "default_since": ModelBoardOptions().since,
    }
    return web


async def page(
    request: Request, template: str, here: str = "", code: int = 200, **values: Any
) -> HTMLResponse:
    """Return a page or a part of a page, with a policy that blocks foreign scripts and files.

    It is rendered in a thread: long texts of others take time, and other requests go on meanwhile.
    """
    nonce = secrets.token_urlsafe(16)
    here = here or request.url.path
    header = header_of(request, here)
    has_demo = request.app.state.demo.is_done
    values = {"header": header, "me": client_of(request), "has_demo": has_demo, **values}
    service: Service = request.app.state.service
    html = await service.read(_render, template, nonce, here, values)
    return HTMLResponse(html, code, headers=headers_with(nonce))


def header_of(request: Request, here: str) -> Markup:
    """Return the header of a page for this client: its links, its name, and the tabs."""
    client = client_of(request)
    allowed = client.allowed if client else frozenset()
    has_community = getattr(request.app.state, "has_community", False)
    nav = [
        (path, name)
        for path, name, action in NAV
        if action in allowed and (has_community or path != COMMUNITY)
    ]
    values = {
        "nav": nav,
        "here": here,
        "tabs": [(path, name) for path, name, action in PARTS.get(here, ()) if action in allowed],
        "tab": request.url.path,
        "me": client,
        "home": landing(client) if client else "/login",
    }
    html = web_environment().get_template("header.html").render(values)
    return Markup(html)  # noqa: S704 - escaped by the template


def has_community(store: Store) -> bool:
    """Return whether the store has prompts or opinions of people."""
    kinds = ("opinions", "items")
    imported = any(one.kind in kinds and one.deleted_at is None for one in store.imports())
    return imported or any(store.contributions(kind, 0, 1) for kind in kinds)


async def kept_page(
    request: Request,
    template: str,
    here: str,
    make: Callable[[], dict[str, Any]],
    *,
    of_every_event: bool = False,
) -> Response:
    """Return the page of the values that `make` computes, from a cache if nothing is new.

    If the page takes long, a browser first gets its earlier version with a note, and loads the new
    one when it is ready. Without an earlier version it gets the top of the page and a note, and
    then the rest in the same response.

    The value `address` is the address that the browser shows; empty means unchanged.
    """

    has_demo = request.app.state.demo.is_done

    def compute() -> bytes:
        values = make()
        # HEADER_PLACE has nothing to escape: letters, digits, - and _
        values = {"header": HEADER_PLACE, "has_demo": has_demo, **values}
        return f"{values['address']}\n{_render(template, PLACEHOLDER, here, values)}".encode()

    cache: ReportCache = request.app.state.report_cache
    query = f"{request.url.path}?{request.url.query}"
    key = f"{query}#demo" if has_demo else query  # empty pages link to a demo that has run
    tag = await cache.tag(key, of_every_event=of_every_event)
    nonce = secrets.token_urlsafe(16)
    making = asyncio.ensure_future(cache.report(tag, compute, key))
    is_browser = "text/html" in request.headers.get("accept", "")
    if is_browser and "hx-request" not in request.headers:
        await asyncio.wait({making}, timeout=PATIENCE_S)
        if not making.done() and (earlier := cache.earlier(key)):
            making.cancel()  # ends this wait only: the browser soon asks for the same report again
            n_newer = await cache.service.read(_count_newer, cache.service.store, earlier[1])
            values = {"n": n_newer, "max_counted": N_SESSIONS, "address": query}
            notice = _render("newer.html", PLACEHOLDER, here, values)
            html = earlier[0].decode().partition("\n")[2].replace(MAIN, MAIN + notice, 1)
            return _finish_page(request, html, here, nonce)
        if not making.done():
            parts = _in_two_parts(request, making, here, nonce)
            return StreamingResponse(parts, media_type="text/html", headers=headers_with(nonce))
    address, _, html = (await making).decode().partition("\n")
    is_new = address and not request.headers.get("hx-current-url", "").endswith(address)
    return _finish_page(request, html, here, nonce, {"HX-Push-Url": address} if is_new else {})


def _finish_page(
    request: Request,
    html: str,
    here: str,
    nonce: str,
    headers: Mapping[str, str] = MappingProxyType({}),
) -> HTMLResponse:
    """Return a cached page with this client's header and this response's nonce."""
    html = html.replace(PLACEHOLDER, nonce).replace(HEADER_PLACE, header_of(request, here))
    return HTMLResponse(html, headers={**headers_with(nonce), **headers})


def _count_newer(store: Store, at: float) -> int:
    """Return how many of the latest sessions have finished since a time."""
    latest = store.sessions(limit=N_SESSIONS)
    return sum(one.finished_at is not None and one.finished_at >= at for one in latest)


async def _in_two_parts(
    request: Request, making: asyncio.Future[bytes], here: str, nonce: str
) -> AsyncIterator[str]:
    """Yield the top of a page with a note, then the content of the page or of an error page."""
    title = {path: name for path, name, _ in NAV}.get(here, "Peerage")
    values = {"title": title, "header": header_of(request, here)}
    top, mark, _ = _render("working.html", nonce, here, values).partition(MAIN)
    service: Service = request.app.state.service
    words = await service.read(computing_words, service.store)
    yield f'{top}{mark}<p class="working" role="status" aria-busy="true">{words}</p>'
    await asyncio.wait({making})
    error = making.exception()
    if error is None:
        html = making.result().decode().partition("\n")[2].replace(PLACEHOLDER, nonce)
    else:
        html = bytes((await page_of_error(request, error)).body).decode()
    yield html.partition(MAIN)[2]


def computing_words(store: Store) -> str:
    """Say from how many sessions and imported rows a report is computed."""
    n_sessions = store.count_sessions()
    n_rows = sum(one.n_rows for one in store.imports() if one.deleted_at is None)
    sources = [f"the reviews of {how_many(n_sessions, 'session')}"] if n_sessions else []
    sources += [how_many(n_rows, "imported row")] if n_rows else []
    return f"Computing from {' and '.join(sources) or 'all stored reviews'} …"


def _render(template: str, nonce: str, here: str, values: Mapping[str, Any]) -> str:
    with one_page():
        return web_environment().get_template(template).render(nonce=nonce, here=here, **values)


def headers_with(nonce: str) -> Mapping[str, str]:
    return {**CACHING, "Content-Security-Policy": POLICY.format(nonce=nonce)}


def image_response(query: Query, number: int) -> Response:
    """Return an image of a question, by its number from 1; linked images are not served."""
    images = query.all_images
    one = images[number - 1] if 0 < number <= len(images) else None
    if one is None or not image_type(one):
        raise NotFoundError(f"this question has no image number {number}.")
    headers = {**headers_with(""), "Cache-Control": "private, max-age=86400"}
    return Response(image_bytes(one), media_type=image_type(one), headers=headers)


@cache
def static_version() -> str:
    """Return a word that changes whenever the stylesheet or the script does."""
    style = files("peerage.doors.render").joinpath("templates/style.css").read_bytes()
    script = files("peerage.doors.web").joinpath("static/app.js").read_bytes()
    return hashlib.sha256(style + script).hexdigest()[:10]


# -- errors -------------------------------------------------------------------------------------


class PageRoute(APIRoute):
    """A route whose errors are shown to people as pages, not as JSON."""

    def get_route_handler(self) -> Handler:
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await handler(request)
            except PeerageError as error:
                return await page_of_error(request, error)
            except RequestValidationError as error:
                first = error.errors()[0]
                name = str(first["loc"][-1]).replace("_", " ")
                return await error_page(request, 422, f"{name}: {first['msg']}.")
            except HTTPException as error:
                return await error_page(request, error.status_code, str(error.detail))

        return handle


async def page_of_error(request: Request, error: BaseException) -> Response:
    """Return the page of an error; details of an unexpected error go to the log only."""
    if isinstance(error, PeerageError):
        return await error_page(request, int(status_of(error)), error.message, error.hint)
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return await error_page(request, 500, BUG)


async def error_page(request: Request, status: int, message: str, hint: str = "") -> Response:
    """Return a page that says what is wrong."""
    title = HTTPStatus(status).phrase
    words = {"message": without_backticks(message), "hint": without_backticks(hint)}
    return await page(request, "error.html", code=status, title=title, **words)


# -- words ---------------------------------------------------------------------------------------


def cost(usd: float, n_unpriced: int = 0) -> str:
    """Return the known cost of calls."""
    return money(usd, n_unpriced) if usd or n_unpriced else "free"


def dollars(value: float) -> str:
    """Return a sum of money; below one dollar, with four decimals."""
    return f"${value:.2f}" if value >= 1 or value == 0 else f"${value:.4f}"


def share_level(share: float) -> str:
    """Return the colour class of a share: strongest for 1, weakest for 0."""
    return f"level{4 - min(4, int(5 * share))}"


def duel_level(rate: float) -> str:
    """Return the colour class of a win rate: blue above one half, orange below, grey around it."""
    if 0.45 <= rate <= 0.55:
        return "even"
    step = min(3, 1 + int((abs(rate - 0.5) - 0.05) * 8))
    return f"{'above' if rate > 0.5 else 'below'}{step}"


def pairs_of(names: Iterable[str], now: str | None = None) -> list[tuple[str, str]]:
    """Return names as the choices of a form field; the current choice `now` is included."""
    return [(name, name) for name in dict.fromkeys([*names, *([now] if now else [])])]


def without_backticks(text: str) -> str:
    """Return a hint for a page, without the backticks that mark commands in a terminal."""
    return text.replace("`", "")


def agreement_words(tau: float | None) -> str:
    """Return how well a reviewer agrees with a person, in words for Kendall's τ."""
    if tau is None:
        return "cannot be compared with you"
    return next(words for least, words in AGREEMENTS if tau >= least)


def percent(share: float | None) -> str:
    """Return a share in whole percent."""
    return NOTHING if share is None else f"{100 * share:.0f} %"
