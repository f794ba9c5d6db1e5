"""No route fails because a body has a wrong shape, and a hostile answer stops no other request."""

from __future__ import annotations

import re
import threading
import time

import httpx
import pytest
from fastapi.routing import APIRoute

from peerage.doors.render.highlighting import close_highlighter
from tests.doors.http.conftest import running, simulated

JSON, FORM = "application/json", "application/x-www-form-urlencoded"
BODIES = (
    *((body, JSON) for body in (b"{}", b"[]", b"null", b'"x"', b'[[["a"]],{"a":[]}]')),
    (b'{"ballot":[1],"query":{"a":1},"answers":[[]],"kind":{},"name":[],"seats":{"a":[]}}', JSON),
    (b"a=1&a=2&ballot=x&order=,,&place_A=x&mark_A=1&timeout_s=nan&max_tokens=1e999", FORM),
    (b"%00=%ff&ballot=%00&name=%00", FORM),
    (b"--x", "multipart/form-data; boundary=x"),
    (b"\xff\xfe", "text/plain"),
)


def routes_in(routes):
    """The routes of an app, with those of its routers."""
    for route in routes:
        if hasattr(route, "original_router"):
            yield from routes_in(route.original_router.routes)
        elif isinstance(route, APIRoute):
            yield route


@pytest.fixture(scope="module")
def shaped(tmp_path_factory):
    """A server with one session."""
    store = f"sqlite:///{tmp_path_factory.mktemp('shapes')}/s.db"
    with running(store, simulated("ann", "bob", "cyd")) as server:
        server.id = server.hold("Why?")
        yield server


@pytest.mark.slow
@pytest.mark.parametrize("bodies", [BODIES[::3], BODIES[1::3], BODIES[2::3]])
def test_no_route_fails_because_of_a_body(shaped, bodies):
    n, failed = 0, []
    for route in routes_in(shaped.app.routes):
        path = re.sub(r"\{[^}]*\}", "0", route.path.replace("{id}", shaped.id))
        for verb in route.methods & {"POST", "PUT", "PATCH", "DELETE"}:
            for body, kind in bodies:
                answer = shaped.client.request(
                    verb, path, content=body, headers={"Content-Type": kind}
                )
                n += 1
                if answer.status_code >= 500:
                    failed.append((verb, path, body))
    assert n > 100
    assert not failed


def test_a_review_without_a_ballot_is_refused_in_words(shaped):
    sent = shaped.client.post("/review", json={"ballot": []})
    assert sent.status_code == 422
    assert "no ballot" in sent.text


def test_marks_in_dimensions_that_the_rubric_does_not_have_are_refused(shaped):
    ballot = shaped.client.get(
        "/api/ballots/next", params={"session": shaped.hold("Which?")}
    ).json()
    label = ballot["responses"][0]["label"]
    marks = {label: {f"unknown {n}": 5.0 for n in range(5_000)}}
    sent = shaped.client.post("/api/ballots", json={"ballot": ballot["ballot"], "marks": marks})
    assert sent.status_code == 422
    assert "dimension" in sent.json()["detail"]


# The first block is as long as one may be; the second one is too much for its page.
HOSTILE = "\n".join(f"```{name}\na " + "\n" * 15_000 + "```" for name in ("java", "c", "css"))


def answer_s(server) -> float:
    """The time of one answer that needs no work."""
    began = time.monotonic()
    assert server.client.get("/healthz").status_code == 200
    return time.monotonic() - began


@pytest.mark.slow
def test_the_server_answers_while_a_hostile_answer_is_rendered(shaped):
    """An answer takes about as long as from a server that has nothing to do."""
    answers = {"one": HOSTILE, "two": HOSTILE + "*_" * 200_000}
    started = shaped.client.post("/api/sessions", json={"query": "Why?", "answers": answers})
    id_ = started.json()["id"]
    shaped.client.get(f"/api/sessions/{id_}/events")
    close_highlighter()
    pages = [f"/sessions/{id_}", f"/sessions/{id_}/compare", f"/sessions/{id_}/answers/3"]
    done, seen = threading.Event(), []

    def look() -> None:
        url = str(shaped.client.base_url)
        with httpx.Client(base_url=url, timeout=60, trust_env=False) as browser:
            seen.extend(browser.get(page, follow_redirects=True).status_code for page in pages)
        done.set()

    idle = [answer_s(shaped) for _ in range(20)]
    looking = threading.Thread(target=look)
    looking.start()
    took: list[float] = []
    while not done.is_set() and looking.is_alive():
        took.append(answer_s(shaped))
    looking.join()
    assert seen == [200] * len(pages)
    assert max(took) < 0.1 + 5 * max(idle)
